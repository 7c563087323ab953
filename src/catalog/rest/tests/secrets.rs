//! No secret is in what is shown, written or logged, also where a server repeats what it was sent.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::Sample;
use super::testkit::{Answer, Server};
use crate::catalog::Catalog;
use crate::catalog::rest::RestCatalog;
use crate::clock::{Clock, ManualClock};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const SECRETS: [&str; 8] = [
    "secret-of-client",
    "secret-of-header",
    "secret-of-token",
    "secret-of-table",
    "secret-of-storage",
    "secret-of-signing",
    "secret-of-password",
    // "me:secret-of-password"
    "bWU6c2VjcmV0LW9mLXBhc3N3b3Jk",
];

fn without_secrets(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn nothing_shows_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::level_filters::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _scope = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log is read");

    let sample = Sample::new("n.t").await;
    let mut loaded = sample.loaded.clone();
    loaded["config"] = json!({"token": "secret-of-table", "s3.secret-access-key": "secret-of-storage"});
    loaded["storage-credentials"] =
        json!([{"prefix": "s3://b", "config": {"s3.secret-access-key": "secret-of-storage"}}]);
    let server = Server::start(move |request| match (request.method.as_str(), request.path()) {
        (_, "/v1/oauth/tokens") => {
            Some(Answer::json(200, &json!({"access_token": "secret-of-token", "expires_in": 1})))
        }
        (_, "/v1/config") => None,
        ("GET", path) if path.ends_with("/tables/t") => Some(Answer::json(200, &loaded)),
        // Repeats everything that it was sent.
        _ => Some(Answer::error(403, "ForbiddenException", &format!("{:?}", request.headers))),
    })
    .await;
    let connect = async |more: &[(&str, &str)]| {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
        RestCatalog::connect(&server.properties(more), clock).await
    };
    let header = ("header.X-Key", "secret-of-header");
    let mut texts = Vec::new();
    for more in [
        vec![("credential", "me:secret-of-client"), header],
        vec![("token", "secret-of-token"), header],
        vec![
            ("rest.sigv4-enabled", "true"),
            ("rest.signing-region", "r"),
            ("rest.access-key-id", "k"),
            ("rest.secret-access-key", "secret-of-signing"),
        ],
        vec![
            ("rest.auth.type", "basic"),
            ("rest.auth.basic.username", "me"),
            ("rest.auth.basic.password", "secret-of-password"),
        ],
    ] {
        let catalog = connect(&more).await.unwrap();
        let table = catalog.load(&sample.table).await.unwrap();
        let replies =
            [catalog.commit(&sample.commit).await, catalog.commit_all(std::slice::from_ref(&sample.commit)).await];
        let listed = catalog.tables().await.unwrap_err();
        texts.push(format!("{catalog:?} {table:?} {replies:?} {listed} {listed:?}"));
        texts.push(format!("{} {} {:?}", catalog.describe(), catalog.identity(), catalog.read_with(&table)));
        assert!(texts.iter().any(|text| text.contains("x-iceberg-access-delegation")), "the server's words are shown");
    }
    // The tokens arrived, so there was something to hide.
    assert!(server.requests().iter().any(|request| request.header("authorization") == Some("Bearer secret-of-token")));
    assert!(server.requests().iter().any(|request| request.header("x-key") == Some("secret-of-header")));
    texts.push(String::from_utf8(log.0.lock().unwrap().clone()).unwrap());
    assert!(texts.last().unwrap().contains("the log is read"));
    texts.iter().for_each(|text| without_secrets(text));
}
