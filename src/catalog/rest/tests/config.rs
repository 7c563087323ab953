//! Connecting: precedence, prefixes, headers, and servers that are no catalogs.

use std::sync::Arc;

use serde_json::json;

use super::Sample;
use super::testkit::{Answer, Server};
use crate::catalog::properties::Properties;
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, CatalogError};
use crate::clock::{Clock, ManualClock};

async fn connect(properties: &Properties) -> Result<RestCatalog, CatalogError> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
    RestCatalog::connect(properties, clock).await
}

async fn refusal(server: &Server, more: &[(&str, &str)]) -> CatalogError {
    connect(&server.properties(more)).await.unwrap_err()
}

#[tokio::test]
async fn overrides_beat_the_user_who_beats_defaults() {
    for (defaults, user, overrides, expected) in [
        (Some("d"), None, None, "/v1/d/namespaces/n/tables/t"),
        (Some("d"), Some("u"), None, "/v1/u/namespaces/n/tables/t"),
        (Some("d"), Some("u"), Some("o/p"), "/v1/o/p/namespaces/n/tables/t"),
        (Some("d"), None, Some("a%3Ab"), "/v1/a%3Ab/namespaces/n/tables/t"),
        (None, None, None, "/v1/namespaces/n/tables/t"),
    ] {
        let sample = Sample::new("n.t").await;
        let loaded = sample.loaded.clone();
        let server = Server::start(move |request| {
            let table = request.path().ends_with("/tables/t");
            Some(if table {
                Answer::json(200, &loaded)
            } else {
                Answer::json(
                    200,
                    &json!({"defaults": {"prefix": defaults, "x": null}, "overrides": {"prefix": overrides}}),
                )
            })
        })
        .await;
        let prefix = user.map(|prefix| ("prefix", prefix));
        let more: Vec<_> = [("warehouse", "s3://lake/a b")].into_iter().chain(prefix).collect();
        let catalog = server.connect(&more).await;
        drop(catalog.load(&sample.table).await.unwrap());
        let requests = server.requests();
        assert_eq!(requests[0].target, "/v1/config?warehouse=s3%3A%2F%2Flake%2Fa%20b");
        assert_eq!(requests[1].target, format!("{expected}?snapshots=all"));
        drop(catalog.load_refs(&sample.table).await.unwrap());
        assert_eq!(server.requests()[2].target, format!("{expected}?snapshots=refs"));
        let conditional = |name: &str| server.requests().iter().any(|request| request.header(name).is_some());
        assert!(!conditional("if-none-match") && !conditional("if-modified-since"));
    }
}

#[tokio::test]
async fn the_catalog_may_say_where_it_is_to_be_reached() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let second = Server::start(move |_| Some(Answer::json(200, &loaded))).await;
    let uri = format!("{}/inner/", second.uri);
    let first =
        Server::start(move |_| Some(Answer::json(200, &json!({"defaults": {}, "overrides": {"uri": uri}})))).await;
    let catalog = first.connect(&[("token", "abcdef-token")]).await;
    drop(catalog.load(&sample.table).await.unwrap());
    assert_eq!(second.lines(), ["GET /inner/v1/namespaces/n/tables/t"]);
    // Where the user's setting leads is what the catalog is known by.
    assert!(catalog.identity().0.starts_with(&first.uri));
}

#[tokio::test]
async fn headers_and_delegation() {
    let server = Server::start(|request| {
        let list = request.path().ends_with("namespaces");
        list.then(|| Answer::json(200, &json!({"namespaces": []})))
    })
    .await;
    let catalog = server.connect(&[("header.X-Tenant", "blue"), ("header.x-other", "1")]).await;
    assert!(catalog.tables().await.unwrap().is_empty());
    for request in server.requests() {
        assert_eq!(request.header("x-tenant"), Some("blue"));
        assert_eq!(request.header("x-other"), Some("1"));
        assert_eq!(request.header("x-iceberg-access-delegation"), Some("vended-credentials"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("accept"), Some("application/json"));
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
    }
    let own = Server::start(|_| None).await;
    drop(own.connect(&[("header.X-Iceberg-Access-Delegation", "client-managed"), ("token", "abc123-token")]).await);
    assert_eq!(own.requests()[0].header("x-iceberg-access-delegation"), Some("client-managed"));
    assert_eq!(own.requests()[0].header("authorization"), Some("Bearer abc123-token"));
    for (name, value) in [("header.bad name", "x"), ("header.x", "a\nb")] {
        let error = refusal(&own, &[(name, value)]).await;
        assert!(matches!(error, CatalogError::Invalid(_)) && error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_user_and_password_in_the_uri_are_credentials_and_nothing_else() {
    let server = Server::start(|_| None).await;
    let uri = server.uri.replace("http://", "http://me:open%20sesame@");
    let catalog = connect(&[("uri", format!("{uri}/?x=y#z"))].into_iter().collect()).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.target, "/v1/config");
    assert_eq!(request.header("authorization"), Some("Basic bWU6b3BlbiBzZXNhbWU="));
    let texts = format!("{} {} {catalog:?}", catalog.identity(), catalog.describe());
    assert!(!texts.contains("sesame") && !texts.contains("me:open") && !texts.contains("x=y"), "{texts}");
}

#[tokio::test]
async fn one_catalog_has_one_identity() {
    let server = Server::start(|_| None).await;
    let of = async |uri: String, warehouse: &str| {
        let properties = [("uri", uri.as_str()), ("warehouse", warehouse)].into_iter().collect();
        connect(&properties).await.unwrap().identity().0.clone()
    };
    let plain = of(server.uri.clone(), "w").await;
    assert_eq!(of(format!("{}/", server.uri.replace("http", "HTTP")), "w").await, plain);
    assert_eq!(of(server.uri.replace("http://", "http://me:pass@"), "w").await, plain);
    assert_ne!(of(format!("{}/a", server.uri), "w").await, plain);
    assert_ne!(of(server.uri.clone(), "v").await, plain);
    assert!(!of(server.uri.clone(), "s3://key:secretword@b/").await.contains("secretword"));
    // Under another URI, it may be said to be the same.
    let named = [("uri", format!("{}/a", server.uri)), ("calve.identity", plain.clone())].into_iter().collect();
    assert_eq!(connect(&named).await.unwrap().identity().0, plain);
}

#[tokio::test]
async fn servers_that_are_no_catalogs() {
    for (answer, words) in [
        (Answer::typed(200, "text/html", "<html>hello</html>"), "a web page"),
        (Answer::typed(200, "text/plain", "hello"), "something else"),
        (Answer::json(200, &json!({"version": "1.2"})), "no catalog's configuration"),
        (Answer::json(200, &json!([1, 2])), "something else"),
        (Answer::typed(200, "application/json", ""), "something else"),
        (Answer::typed(404, "text/html", "<html>404</html>"), "status 404"),
        (Answer::typed(404, "text/plain", "404 page not found"), "status 404"),
        (
            Answer::typed(302, "text/html", "<html>moved</html>").with("location", "https://else.example/login"),
            "redirect to https://else.example/login",
        ),
        (
            Answer::empty(308).with("location", "https://u:p@else.example/login?k=v"),
            "redirect to https://else.example/login",
        ),
    ] {
        let server = Server::start(move |_| Some(answer.clone())).await;
        let error = refusal(&server, &[]).await;
        let text = error.to_string();
        assert!(matches!(error, CatalogError::Invalid(_)), "{error:?}");
        assert!(text.contains(words) && text.contains(&server.uri) && text.contains("set `uri`"), "{text}");
    }
}

#[tokio::test]
async fn what_a_catalog_says_no_to() {
    let server = |status, kind: &'static str| Server::start(move |_| Some(Answer::error(status, kind, "no, no")));
    let error = refusal(&server(400, "BadRequestException").await, &[]).await;
    assert!(error.to_string().contains("set `warehouse`") && error.to_string().contains("no, no"), "{error}");
    let error = refusal(&server(404, "NoSuchWarehouseException").await, &[("warehouse", "w")]).await;
    assert!(error.to_string().contains("check `uri`, `warehouse`"), "{error}");
    assert!(matches!(error, CatalogError::Invalid(_)));
    for status in [401, 403] {
        let error = refusal(&server(status, "NotAuthorizedException").await, &[("token", "wrong-token")]).await;
        assert!(matches!(error, CatalogError::Forbidden { .. }), "{error:?}");
    }
    for status in [500, 502, 504] {
        let error = refusal(&server(status, "InternalServerError").await, &[]).await;
        assert!(matches!(error, CatalogError::Unavailable { .. }), "{error:?}");
    }
    let nessie = Server::start(|_| {
        Some(Answer::json(
            200,
            &json!({"defaults": {"nessie.is-nessie-catalog": "true"}, "overrides": {"prefix": "main"}}),
        ))
    })
    .await;
    let error = refusal(&nessie, &[]).await;
    assert!(matches!(error, CatalogError::Unsupported { .. }) && error.to_string().contains("Nessie"), "{error}");
}

#[tokio::test]
async fn wrong_settings_are_named() {
    for (properties, words) in [
        (vec![], "no `uri`"),
        (vec![("uri", "catalog.example")], "`uri`"),
        (vec![("uri", "ftp://me:secretword@catalog.example")], "`uri`"),
        (vec![("uri", "http://127.0.0.1:9"), ("rest.auth.type", "google")], "`rest.auth.type`"),
        (
            vec![("uri", "http://127.0.0.1:9"), ("rest.client.socket-timeout-ms", "soon")],
            "`rest.client.socket-timeout-ms`",
        ),
        (vec![("uri", "http://127.0.0.1:9"), ("ssl.cabundle", "/not/there.pem")], "`ssl.cabundle`"),
        (
            vec![("uri", "http://127.0.0.1:9"), ("credential", "a:b"), ("oauth2-server-uri", "ldap://x")],
            "`oauth2-server-uri`",
        ),
    ] {
        let error = connect(&properties.into_iter().collect()).await.unwrap_err();
        assert!(matches!(error, CatalogError::Invalid(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains("secretword"), "{text}");
    }
}

#[tokio::test]
async fn nobody_there() {
    // A port that was free a moment ago.
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let uri = format!("http://me:secretword@127.0.0.1:{port}/x?y=z");
    let properties = [("uri", uri.as_str()), ("rest.client.max-retries", "0")].into_iter().collect();
    let error = connect(&properties).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("http://127.0.0.1:{port}/x/v1/config")) && !text.contains("secretword"), "{text}");
}
