//! TLS: an authority of one's own, an unknown one, and client certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::json;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::Sample;
use super::testkit::{Answer, Request, Server};
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, CatalogError, Reply};
use crate::clock::{Clock, ManualClock};

/// An authority, and what it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn bundle(&self) -> PathBuf {
        self.write("ca.pem", &self.issuer.pem())
    }

    fn server(&self, client_certificates: bool) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if client_certificates {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }

    /// A client's certificate and key.
    fn client(&self) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["me".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        (self.write("client.pem", &certificate.pem()), self.write("client.key", &key.serialize_pem()))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn accepts(request: &Request) -> Option<Answer> {
    (request.method == "POST").then(|| Answer::empty(204))
}

/// A catalog whose configuration was read without TLS, and which sends its clients to one with it.
async fn sent_to(tls: &Server, more: &[(&str, &str)]) -> (Server, RestCatalog) {
    let uri = tls.uri.clone();
    let server =
        Server::start(move |_| Some(Answer::json(200, &json!({"defaults": {}, "overrides": {"uri": uri}})))).await;
    let catalog = server.connect(more).await;
    (server, catalog)
}

#[tokio::test]
async fn an_authority_of_ones_own() {
    let authority = Authority::new();
    let server = Server::start_tls(accepts, authority.server(false)).await;
    let bundle = authority.bundle();
    let catalog = server.connect(&[("ssl.cabundle", text(&bundle))]).await;
    let sample = Sample::new("n.t").await;
    assert!(matches!(catalog.commit(&sample.commit).await, Reply::Accepted { table: None }));
    assert_eq!(server.lines(), ["GET /v1/config", "POST /v1/namespaces/n/tables/t"]);
}

#[tokio::test]
async fn an_unknown_authority_gets_no_commit() {
    let authority = Authority::new();
    let server = Server::start_tls(accepts, authority.server(false)).await;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
    let properties = server.properties(&[("rest.client.max-retries", "0")]);
    let error = RestCatalog::connect(&properties, clock).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("`ssl.cabundle`"), "{error}");

    let (_first, catalog) = sent_to(&server, &[]).await;
    let reply = catalog.commit(&Sample::new("n.t").await.commit).await;
    assert!(matches!(&reply, Reply::NotSent { reason } if reason.contains("certificate")), "{reply:?}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn client_certificates() {
    let authority = Authority::new();
    let server = Server::start_tls(accepts, authority.server(true)).await;
    let (bundle, (certificate, key)) = (authority.bundle(), authority.client());
    let sample = Sample::new("n.t").await;
    let with =
        [("ssl.cabundle", text(&bundle)), ("ssl.client.cert", text(&certificate)), ("ssl.client.key", text(&key))];
    let catalog = server.connect(&with).await;
    assert!(matches!(catalog.commit(&sample.commit).await, Reply::Accepted { .. }));

    // In TLS 1.3 a client learns that it is not welcome after it may have sent its request.
    let (_first, catalog) = sent_to(&server, &with[..1]).await;
    let reply = catalog.commit(&sample.commit).await;
    assert!(matches!(reply, Reply::Unknown { .. }), "{reply:?}");
    assert_eq!(server.of("POST").len(), 1);
}

#[tokio::test]
async fn a_way_back_to_no_tls_is_not_taken() {
    let authority = Authority::new();
    let bundle = authority.bundle();
    let server = Server::start_tls(
        |_| Some(Answer::json(200, &json!({"defaults": {}, "overrides": {"uri": "http://127.0.0.1:9"}}))),
        authority.server(false),
    )
    .await;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
    let error = RestCatalog::connect(&server.properties(&[("ssl.cabundle", text(&bundle))]), clock).await.unwrap_err();
    assert!(matches!(error, CatalogError::Invalid(_)) && error.to_string().contains("without TLS"), "{error}");
}

#[test]
fn files_that_are_no_certificates() {
    let authority = Authority::new();
    let empty = authority.write("empty.pem", "nothing");
    for property in ["ssl.cabundle", "ssl.client.cert"] {
        let properties = [("uri", "https://localhost:9"), (property, text(&empty))].into_iter().collect();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
        let connecting = RestCatalog::connect(&properties, clock);
        let error = futures::executor::block_on(connecting).unwrap_err();
        assert!(matches!(error, CatalogError::Invalid(_)) && error.to_string().contains(property), "{error}");
    }
}
