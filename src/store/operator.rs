//! Reaching a bucket with Iceberg's storage properties. Source: Iceberg's `S3FileIOProperties`, `GCPProperties` and
//! `AzureProperties`, and the names that PyIceberg adds.

use std::fmt;
use std::time::Duration;

use opendal::layers::{HttpClientLayer, RetryLayer, TimeoutLayer};
use opendal::services::{AzdlsConfig, GcsConfig, S3Config};
use opendal::{Configurator, Error, ErrorKind, Operator};
use reqsign_aws_v4::Credential;
use reqsign_core::{ProvideCredential, ProvideCredentialChain};

use super::client::client;
use super::location::{Location, Service};

/// Longest wait for one request, and for a piece of a body.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);

/// Whether failed requests are sent again by the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retries {
    /// Yes: for what may be repeated.
    Transport,
    /// No: whoever asks decides.
    None,
}

/// A bucket as it is reached. `Debug` shows no more than its name: what it holds has credentials.
#[derive(Clone)]
pub struct Bucket {
    operator: Operator,
    retries: Retries,
    /// How to reach it again with another root.
    gcs: Option<GcsConfig>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.operator.info().name()).finish()
    }
}

impl Bucket {
    /// For everything but writing.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// What to write an object with, and its name there.
    ///
    /// OpenDAL 0.57 encodes the name twice when it writes to Google's store, and once when it reads; a folder
    /// `day=2013-08-09` would come to lie elsewhere. The root is encoded once: so the folder goes there, and the last
    /// part alone, which holds nothing to encode, is the name.
    pub fn to_write(&self, key: &str) -> Result<(Operator, String), Error> {
        let Some(config) = &self.gcs else { return Ok((self.operator.clone(), key.to_owned())) };
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            let message = "a file on Google Cloud Storage cannot be written under a name with other than letters, \
                           digits, -, _ and .";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut config = config.clone();
        config.root = Some(format!("/{folder}"));
        Ok((layered(finish(config)?, self.retries), name.to_owned()))
    }
}

/// Connects to the bucket of a location, with keys counted from the bucket's top. Sends nothing.
///
/// Names tried in turn: `s3.…`, then `client.…`. Where no key is given, the environment, the profile and the machine's
/// role are asked. With an endpoint the region is `us-east-1` unless said, and keys are addressed by path unless
/// `s3.path-style-access` or PyIceberg's `s3.force-virtual-addressing` say otherwise: few stores but AWS have a DNS
/// name for each bucket.
pub fn connect(
    location: &Location,
    property: &dyn Fn(&str) -> Option<String>,
    retries: Retries,
) -> Result<Bucket, Error> {
    let (operator, gcs) = match location.service {
        Service::S3 => (finish(s3(&location.bucket, property)?)?, None),
        Service::Gcs => {
            let config = gcs(&location.bucket, property);
            (finish(config.clone())?, Some(config))
        }
        Service::Azure => (finish(azure(location, property)?)?, None),
    };
    Ok(Bucket { operator: layered(operator, retries), retries, gcs })
}

/// Connects to the bucket of an S3 location as [`connect`] does, with keys that are asked for anew at each request.
pub fn connect_s3_with(
    location: &Location,
    property: &dyn Fn(&str) -> Option<String>,
    keys: impl ProvideCredential<Credential = Credential>,
    retries: Retries,
) -> Result<Bucket, Error> {
    let builder = s3(&location.bucket, property)?.into_builder();
    let builder = builder.credential_provider_chain(ProvideCredentialChain::new().push(keys));
    Ok(Bucket { operator: layered(Operator::new(builder)?.finish(), retries), retries, gcs: None })
}

fn layered(operator: Operator, retries: Retries) -> Operator {
    let operator = operator.layer(HttpClientLayer::new(client()));
    let operator = operator.layer(TimeoutLayer::new().with_timeout(LONGEST_REQUEST).with_io_timeout(LONGEST_REQUEST));
    match retries {
        Retries::Transport => operator.layer(RetryLayer::new().with_max_times(4).with_jitter()),
        Retries::None => operator,
    }
}

fn finish<C: Configurator>(config: C) -> Result<Operator, Error> {
    Ok(Operator::from_config(config)?.finish())
}

fn truthy(value: &str) -> bool {
    ["true", "t", "1", "on", "yes"].contains(&value.to_ascii_lowercase().as_str())
}

fn s3(bucket: &str, property: &dyn Fn(&str) -> Option<String>) -> Result<S3Config, Error> {
    let first = |names: &[&str]| names.iter().find_map(|name| property(name));
    let set = |name: &str| property(name).is_some_and(|value| truthy(&value));
    let mut config = S3Config::default();
    config.bucket = bucket.to_owned();
    if property("s3.endpoint").is_some_and(|endpoint| endpoint.contains('@')) {
        let message = "`s3.endpoint` has a user in it: keys are given by s3.access-key-id and s3.secret-access-key";
        return Err(Error::new(ErrorKind::ConfigInvalid, message));
    }
    config.endpoint = property("s3.endpoint").map(|endpoint| endpoint.trim_end_matches('/').to_owned());
    config.access_key_id = first(&["s3.access-key-id", "client.access-key-id"]);
    config.secret_access_key = first(&["s3.secret-access-key", "client.secret-access-key"]);
    config.session_token = first(&["s3.session-token", "client.session-token"]);
    config.region = first(&["s3.region", "client.region"]).or_else(|| {
        // A store that is no part of AWS has no regions, and signs for whichever it is told.
        config.endpoint.as_ref().map(|_| "us-east-1".to_owned())
    });
    let amazon = config.endpoint.as_deref().is_none_or(|endpoint| endpoint.contains(".amazonaws.com"));
    let by_path = match (property("s3.path-style-access"), property("s3.force-virtual-addressing")) {
        (Some(by_path), _) => truthy(&by_path),
        (None, Some(by_host)) => !truthy(&by_host),
        // A bucket with dots has no certificate.
        (None, None) => !amazon || bucket.contains('.'),
    };
    config.enable_virtual_host_style = !by_path;
    config.role_arn = first(&["client.assume-role.arn", "s3.role-arn", "client.role-arn"]);
    config.external_id = property("client.assume-role.external-id");
    config.role_session_name =
        first(&["client.assume-role.session-name", "s3.role-session-name", "client.role-session-name"]);
    config.skip_signature = set("s3.allow-anonymous") || set("s3.anonymous");
    config.disable_ec2_metadata = set("s3.disable-ec2-metadata");
    config.disable_config_load = set("s3.disable-config-load");
    match property("s3.sse.type").map(|kind| kind.to_ascii_lowercase()).as_deref() {
        None | Some("none") => {}
        Some("s3") => config.server_side_encryption = Some("AES256".to_owned()),
        Some("kms") => {
            config.server_side_encryption = Some("aws:kms".to_owned());
            config.server_side_encryption_aws_kms_key_id = property("s3.sse.key");
        }
        Some("custom") => {
            config.server_side_encryption_customer_algorithm = Some("AES256".to_owned());
            config.server_side_encryption_customer_key = property("s3.sse.key");
            config.server_side_encryption_customer_key_md5 = property("s3.sse.md5");
        }
        Some(_) => {
            return Err(Error::new(ErrorKind::ConfigInvalid, "s3.sse.type is none of none, s3, kms, custom"));
        }
    }
    Ok(config)
}

fn gcs(bucket: &str, property: &dyn Fn(&str) -> Option<String>) -> GcsConfig {
    let set = |name: &str| property(name).is_some_and(|value| truthy(&value));
    let mut config = GcsConfig::default();
    config.bucket = bucket.to_owned();
    config.endpoint = property("gcs.service.host").or_else(|| property("gcs.service.path"));
    config.credential = property("gcs.credentials-json");
    config.token = property("gcs.oauth2.token");
    let anonymous = set("gcs.no-auth") || set("gcs.allow-anonymous");
    config.skip_signature = anonymous;
    config.disable_vm_metadata = anonymous || set("gcs.disable-vm-metadata");
    config.disable_config_load = anonymous || set("gcs.disable-config-load");
    config
}

fn azure(location: &Location, property: &dyn Fn(&str) -> Option<String>) -> Result<AzdlsConfig, Error> {
    let account = &location.account;
    if property("adls.account-name").is_some_and(|named| named != *account) {
        return Err(Error::new(ErrorKind::ConfigInvalid, "adls.account-name is another account than the location's"));
    }
    let scheme = if location.secure { "https" } else { "http" };
    let mut config = AzdlsConfig {
        filesystem: location.bucket.clone(),
        endpoint: Some(format!("{scheme}://{account}.dfs.{}", location.suffix)),
        account_name: Some(account.clone()),
        ..AzdlsConfig::default()
    };
    config.account_key = property("adls.account-key").or_else(|| property("adls.auth.shared-key.account.key"));
    // Catalogs vend a signature under the name of the account's host.
    config.sas_token = property(&format!("adls.sas-token.{account}.dfs.{}", location.suffix))
        .or_else(|| property(&format!("adls.sas-token.{account}")))
        .or_else(|| property("adls.sas-token"));
    config.tenant_id = property("adls.tenant-id");
    config.client_id = property("adls.client-id");
    config.client_secret = property("adls.client-secret");
    config.authority_host = property("adls.authority-host");
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn s3_of(bucket: &str, properties: &[(&str, &str)]) -> S3Config {
        let properties: BTreeMap<_, _> = properties.iter().copied().collect();
        s3(bucket, &|name| properties.get(name).map(|value| (*value).to_owned())).unwrap()
    }

    #[test]
    fn buckets_are_addressed_as_their_store_expects() {
        let by_path = |bucket, properties: &[(&str, &str)]| !s3_of(bucket, properties).enable_virtual_host_style;
        for endpoint in ["http://127.0.0.1:8333", "http://localhost:8333/", "https://[::1]", "http://store:1"] {
            assert!(by_path("lake", &[("s3.endpoint", endpoint)]), "{endpoint}");
        }
        assert!(!by_path("lake", &[]));
        assert!(by_path("lake.of.dots", &[]));
        assert!(!by_path("lake", &[("s3.endpoint", "https://s3.eu-west-1.amazonaws.com")]));
        assert!(!by_path("lake", &[("s3.endpoint", "http://127.0.0.1"), ("s3.path-style-access", "false")]));
        assert!(!by_path("lake", &[("s3.endpoint", "http://127.0.0.1"), ("s3.force-virtual-addressing", "True")]));
        assert!(by_path("lake", &[("s3.path-style-access", "true")]));
    }

    /// Connections are logged by their authority.
    #[test]
    fn an_endpoint_with_a_password_is_refused() {
        let property = |name: &str| (name == "s3.endpoint").then(|| "http://me:hunter2@store:1".to_owned());
        let error = s3("b", &property).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
        assert!(
            error.to_string().contains("s3.secret-access-key") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_region_is_asked_for_by_its_property() {
        let properties =
            |name: &str| ["s3.disable-config-load", "s3.allow-anonymous"].contains(&name).then(|| "true".to_owned());
        let error = connect(&Location::parse("s3://b/k").unwrap(), &properties, Retries::None).unwrap_err();
        let failure = crate::store::error::Redactor::default().failure(&error);
        assert_eq!(failure.kind, crate::store::error::FailureKind::Configuration, "{failure:?}");
        assert!(failure.reason.starts_with("`s3.region` is missing"), "{}", failure.reason);
    }

    #[test]
    fn the_region_and_older_names() {
        assert_eq!(s3_of("b", &[]).region, None);
        assert_eq!(s3_of("b", &[("s3.endpoint", "http://h")]).region.as_deref(), Some("us-east-1"));
        let both = [("client.region", "a"), ("s3.region", "b"), ("client.access-key-id", "k")];
        assert_eq!(s3_of("b", &both).region.as_deref(), Some("b"));
        assert_eq!(s3_of("b", &both).access_key_id.as_deref(), Some("k"));
    }

    #[test]
    fn azure_takes_a_signature_vended_for_its_host() {
        let location = Location::parse("abfss://c@acc.dfs.core.windows.net/x").unwrap();
        let property = |name: &str| (name == "adls.sas-token.acc.dfs.core.windows.net").then(|| "sig=1".to_owned());
        let config = azure(&location, &property).unwrap();
        assert_eq!(config.sas_token.as_deref(), Some("sig=1"));
        assert_eq!(config.endpoint.as_deref(), Some("https://acc.dfs.core.windows.net"));
        let other = |name: &str| (name == "adls.account-name").then(|| "other".to_owned());
        assert!(azure(&location, &other).is_err());
    }
}
