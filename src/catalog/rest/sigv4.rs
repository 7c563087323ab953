//! Requests signed for AWS: Glue, S3 Tables, or an API gateway. Source: AWS, "Signature Version 4 signing process".
//!
//! Properties, as Iceberg's clients name them: `rest.signing-name` (by default what the host shows, else `execute-api`),
//! `rest.signing-region` (else `client.region`, the host's, or AWS_REGION), `rest.access-key-id` with
//! `rest.secret-access-key` and `rest.session-token` (else `client.*`, else AWS's usual chain: environment, profile
//! (`client.profile-name`), web identity, container, instance).
//!
//! Every service but S3 signs the path as encoded twice. The signer decodes what it is given and encodes it once, which
//! is right for S3; so it is given the path encoded once more, and what it signs goes with the path as it is.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Uri};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, Env, FileRead, HttpSend, OsEnv, Signer};
use url::Url;

use crate::catalog::CatalogError;
use crate::catalog::properties::Properties;

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// Instance metadata answers at once, or is not there.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// Signs requests.
pub(super) struct SigV4 {
    name: String,
    region: String,
    signer: Signer<Credential>,
}

/// The signer's own `Debug` shows keys.
impl std::fmt::Debug for SigV4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigV4").field("name", &self.name).field("region", &self.region).finish_non_exhaustive()
    }
}

impl SigV4 {
    pub(super) fn of(base: &Url, properties: &Properties) -> Result<Self, CatalogError> {
        let host_name = of_host(base).map(|(name, _)| name).filter(|name| matches!(*name, "glue" | "s3tables"));
        let name = properties.get("rest.signing-name").or(host_name).unwrap_or("execute-api").to_owned();
        let region = region(base, properties, &OsEnv)?;
        let context = Context::new().with_env(OsEnv).with_file_read(Files).with_http_send(Metadata::new()?);
        let signer = RequestSigner::new(&name, &region);
        let keys = ["rest", "client"].iter().find_map(|kind| {
            let of = |name: &str| properties.get(&format!("{kind}.{name}"));
            Some((of("access-key-id")?, of("secret-access-key")?, of("session-token")))
        });
        let signer = match (keys, properties.get("client.profile-name")) {
            (Some((id, secret, None)), _) => Signer::new(context, StaticCredentialProvider::new(id, secret), signer),
            (Some((id, secret, Some(token))), _) => {
                Signer::new(context, StaticCredentialProvider::new(id, secret).with_session_token(token), signer)
            }
            (None, Some(profile)) => {
                let chain = DefaultCredentialProvider::builder().no_env().with_profile(profile).build();
                Signer::new(context, chain, signer)
            }
            (None, None) => Signer::new(context, DefaultCredentialProvider::new(), signer),
        };
        Ok(Self { name, region, signer })
    }

    /// Adds the signature's headers to the request.
    pub(super) async fn sign(&self, request: &mut reqwest::Request) -> Result<(), CatalogError> {
        let failed = |reason: String| CatalogError::Invalid(format!("the request cannot be signed: {reason}"));
        let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        let digest = HeaderValue::from_str(&reqsign_core::hash::hex_sha256(body)).map_err(|e| failed(e.to_string()))?;
        let url = request.url();
        let mut uri = format!("{}://{}{}", url.scheme(), authority(url), url.path().replace('%', "%25"));
        if let Some(query) = url.query() {
            uri.push('?');
            uri.push_str(query);
        }
        let uri: Uri = uri.parse().map_err(|e: http::uri::InvalidUri| failed(e.to_string()))?;
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = request.method().clone();
        parts.uri = uri;
        let _none = parts.headers.insert(CONTENT_SHA256, digest);
        if let Some(content_type) = request.headers().get(CONTENT_TYPE) {
            let _none = parts.headers.insert(CONTENT_TYPE, content_type.clone());
        }
        self.signer.sign(&mut parts, None).await.map_err(|e| CatalogError::Forbidden {
            what: format!("the AWS service {} in {}", self.name, self.region),
            reason: format!(
                "no signature: {e}; set `rest.access-key-id` and `rest.secret-access-key`, or AWS's own environment \
                 variables or profile"
            ),
        })?;
        for (name, value) in &parts.headers {
            if name != HOST {
                let _replaced = request.headers_mut().insert(name, value.clone());
            }
        }
        Ok(())
    }
}

/// The service and region that a host such as `glue.eu-west-1.amazonaws.com` shows.
fn of_host(base: &Url) -> Option<(&str, &str)> {
    let (name, region) = base.host_str()?.strip_suffix(".amazonaws.com")?.split_once('.')?;
    Some((name, region.rsplit('.').next().unwrap_or(region)))
}

/// The region that is signed for.
pub(super) fn region(base: &Url, properties: &Properties, environment: &dyn Env) -> Result<String, CatalogError> {
    properties
        .get("rest.signing-region")
        .or_else(|| properties.get("client.region"))
        .or(of_host(base).map(|(_, region)| region))
        .map(str::to_owned)
        .or_else(|| environment.var("AWS_REGION"))
        .or_else(|| environment.var("AWS_DEFAULT_REGION"))
        .ok_or_else(|| {
            let text =
                "requests are to be signed (`rest.sigv4-enabled`), but for which region? Set `rest.signing-region`";
            CatalogError::Invalid(text.to_owned())
        })
}

/// Host and port as they go into the header `Host`.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Reads the files of AWS's chain.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let failed =
            |e: std::io::Error| reqsign_core::Error::unexpected("a file of AWS's cannot be read").with_source(e);
        tokio::fs::read(path).await.map_err(failed)
    }
}

/// Asks the services of AWS's chain.
#[derive(Debug)]
struct Metadata(reqwest::Client);

impl Metadata {
    fn new() -> Result<Self, CatalogError> {
        let client = reqwest::Client::builder()
            .connect_timeout(METADATA_TIMEOUT)
            .read_timeout(METADATA_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|e| CatalogError::Invalid(format!("the connection cannot be set up: {e}")))?;
        Ok(Self(client))
    }
}

impl HttpSend for Metadata {
    async fn http_send(&self, request: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        let failed = |e: reqwest::Error| {
            reqsign_core::Error::unexpected("AWS's credential service does not answer").with_source(e.without_url())
        };
        let request = reqwest::Request::try_from(request).map_err(failed)?;
        let response = self.0.execute(request).await.map_err(failed)?;
        let mut answer = http::Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        *answer.body_mut() = response.bytes().await.map_err(failed)?;
        Ok(answer)
    }
}
