//! OAuth2: when a token is fetched, where it goes, and where not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::Sample;
use super::testkit::{Answer, Request, Server};
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, CatalogError, Reply};
use crate::clock::ManualClock;

/// Hands out `token-1`, `token-2`, …, each for an hour, and lists no namespaces to whoever has one.
fn issuer() -> impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |request| match request.path() {
        "/v1/oauth/tokens" => {
            let token = format!("token-{}", count.fetch_add(1, Ordering::SeqCst) + 1);
            Some(Answer::json(200, &json!({"access_token": token, "token_type": "bearer", "expires_in": 3600})))
        }
        "/v1/namespaces" => Some(Answer::json(200, &json!({"namespaces": []}))),
        _ => None,
    }
}

fn tokens(server: &Server) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.path().contains("token")).collect()
}

async fn connect(server: &Server, clock: &Arc<ManualClock>, more: &[(&str, &str)]) -> RestCatalog {
    RestCatalog::connect(&server.properties(more), clock.clone()).await.unwrap()
}

#[tokio::test]
async fn a_token_is_fetched_once_and_anew_before_it_expires() {
    let server = Server::start(issuer()).await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let catalog = connect(&server, &clock, &[("credential", "me:pass:word&"), ("audience", "a b")]).await;
    let request = &tokens(&server)[0];
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        String::from_utf8(request.body.clone()).unwrap(),
        "grant_type=client_credentials&client_id=me&client_secret=pass%3Aword%26&scope=catalog&audience=a+b"
    );
    assert_eq!(request.header("authorization"), None);
    let used = || server.requests().last().unwrap().header("authorization").unwrap().to_owned();
    for (advance, expected) in
        [(0, "Bearer token-1"), (3_539_000, "Bearer token-1"), (2_000, "Bearer token-2"), (3_541_000, "Bearer token-3")]
    {
        clock.advance_ms(advance);
        drop(catalog.tables().await.unwrap());
        assert_eq!(used(), expected);
    }
    assert_eq!(tokens(&server).len(), 3);
}

#[tokio::test]
async fn many_readers_fetch_one_token() {
    let server = Server::start(issuer()).await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let catalog = connect(&server, &clock, &[("credential", "secretword")]).await;
    clock.advance_ms(4_000_000);
    for tables in futures::future::join_all((0..8).map(|_| catalog.tables())).await {
        assert!(tables.unwrap().is_empty());
    }
    assert_eq!(tokens(&server).len(), 2);
    assert!(!String::from_utf8(tokens(&server)[0].body.clone()).unwrap().contains("client_id"));
}

#[tokio::test]
async fn after_a_401_a_read_is_tried_once_with_a_new_token() {
    for (bad, wanted) in [(vec!["Bearer token-1"], true), (vec!["Bearer token-1", "Bearer token-2"], false)] {
        let issue = issuer();
        let server = Server::start(move |request| {
            let refused = bad.iter().any(|bad| request.header("authorization") == Some(bad));
            (refused && request.path() == "/v1/namespaces")
                .then(|| Answer::error(401, "NotAuthorizedException", "expired"))
                .or_else(|| issue(request))
        })
        .await;
        let clock = Arc::new(ManualClock::starting_now(1));
        let catalog = connect(&server, &clock, &[("credential", "me:secretword")]).await;
        let outcome = catalog.tables().await;
        assert_eq!(outcome.is_ok(), wanted, "{outcome:?}");
        if let Err(error) = outcome {
            assert!(matches!(error, CatalogError::Forbidden { .. }), "{error:?}");
        }
        assert_eq!((server.requests().len(), tokens(&server).len()), (5, 2));
    }
}

#[tokio::test]
async fn a_token_alone_is_used_as_it_is() {
    let server = Server::start(|request| {
        request.path().contains("namespaces").then(|| Answer::error(401, "NotAuthorizedException", "expired"))
    })
    .await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let catalog = connect(&server, &clock, &[("token", "fixed-token")]).await;
    assert!(matches!(catalog.tables().await, Err(CatalogError::Forbidden { .. })));
    assert_eq!(server.requests().len(), 2);
    // With a credential beside it, it is used first, and replaced when it has run out.
    let issue = issuer();
    let server = Server::start(move |request| {
        let old = request.header("authorization") == Some("Bearer fixed-token");
        (old && request.path() == "/v1/namespaces").then(|| Answer::empty(419)).or_else(|| issue(request))
    })
    .await;
    let catalog = connect(&server, &clock, &[("token", "fixed-token"), ("credential", "a:secretword")]).await;
    assert!(tokens(&server).is_empty());
    assert!(catalog.tables().await.unwrap().is_empty());
    assert_eq!(tokens(&server).len(), 1);
}

#[tokio::test]
async fn the_secret_goes_to_the_token_endpoint_and_the_token_to_the_catalog() {
    let identity = Server::start(|request| {
        (request.line() == "POST /realm/token")
            .then(|| Answer::json(200, &json!({"access_token": "far-token", "token_type": "bearer"})))
    })
    .await;
    let elsewhere = Server::start(|_| None).await;
    let target = format!("{}/v1/namespaces", elsewhere.uri);
    let server = Server::start(move |request| {
        (request.path() == "/v1/namespaces").then(|| Answer::empty(307).with("location", &target))
    })
    .await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let endpoint = format!("{}/realm/token", identity.uri);
    let more = [
        ("credential", "me:secretword"),
        ("oauth2-server-uri", endpoint.as_str()),
        ("scope", "lake.read lake.write"),
        ("resource", "urn:lake"),
        ("header.X-Tenant", "blue-tenant"),
    ];
    let catalog = connect(&server, &clock, &more).await;
    assert!(matches!(catalog.tables().await, Err(CatalogError::Invalid(_))));
    let asked = &identity.requests()[0];
    let form = String::from_utf8(asked.body.clone()).unwrap();
    assert!(form.ends_with("scope=lake.read+lake.write&resource=urn%3Alake"), "{form}");
    assert_eq!((asked.header("x-tenant"), asked.header("authorization")), (None, None));
    assert!(elsewhere.requests().is_empty(), "a redirect was followed");
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer far-token"));
        assert!(!String::from_utf8_lossy(&request.body).contains("secretword"));
    }
    // Only the user says where the secret goes; a catalog's configuration does not.
    let thief = Server::start(issuer()).await;
    let uri = format!("{}/v1/oauth/tokens", thief.uri);
    let issue = issuer();
    let server = Server::start(move |request| match request.path() {
        "/v1/config" => Some(Answer::json(
            200,
            &json!({"defaults": {}, "overrides": {"oauth2-server-uri": uri, "header.x-more": "1"}}),
        )),
        _ => issue(request),
    })
    .await;
    let catalog = connect(&server, &clock, &[("credential", "me:secretword")]).await;
    drop(catalog.tables().await.unwrap());
    assert!(thief.requests().is_empty());
    assert_eq!(server.requests().last().unwrap().header("x-more"), Some("1"));
}

#[tokio::test]
async fn wrong_credentials_and_wrong_endpoints() {
    for (answer, forbidden, words) in [
        (
            Answer::json(401, &json!({"error": "invalid_client", "error_description": "who?"})),
            true,
            "invalid_client: who?",
        ),
        (Answer::json(400, &json!({"error": "invalid_scope"})), true, "invalid_scope"),
        (Answer::typed(404, "text/html", "<html></html>"), false, "no token endpoint"),
        (Answer::typed(200, "text/html", "<html></html>"), false, "no token endpoint"),
    ] {
        let server = Server::start(move |request| request.path().contains("tokens").then(|| answer.clone())).await;
        let clock = Arc::new(ManualClock::starting_now(1));
        let properties = server.properties(&[("credential", "me:secretword")]);
        let error = RestCatalog::connect(&properties, clock).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(matches!(error, CatalogError::Forbidden { .. }), forbidden, "{text}");
        assert!(text.contains(words) && text.contains("/v1/oauth/tokens") && !text.contains("secretword"), "{text}");
        assert!(server.requests().iter().all(|request| request.path().contains("tokens")));
    }
}

#[tokio::test]
async fn a_commit_without_a_token_is_not_sent() {
    let sample = Sample::new("n.t").await;
    let issue = issuer();
    let broken = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let second = request.path().contains("tokens") && broken.fetch_add(1, Ordering::SeqCst) > 0;
        second.then(|| Answer::empty(500)).or_else(|| issue(request))
    })
    .await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let catalog = connect(&server, &clock, &[("credential", "me:secretword")]).await;
    clock.advance_ms(4_000_000);
    let reply = catalog.commit(&sample.commit).await;
    assert!(matches!(reply, Reply::NotSent { .. }), "{reply:?}");
    assert!(server.lines().iter().all(|line| !line.contains("tables")));
}

#[tokio::test]
async fn a_tables_own_token_is_used_for_that_table() {
    let (one, two) = (Sample::new("n.t").await, Sample::new("n.u").await);
    let mut with_token = one.loaded.clone();
    with_token["config"] = json!({"token": "table-token"});
    let (first, second) = (with_token, two.loaded.clone());
    let server = Server::start(move |request| match (request.method.as_str(), request.path()) {
        ("POST", _) => Some(Answer::empty(204)),
        (_, "/v1/namespaces/n/tables/t") => Some(match request.header("authorization") {
            Some("Bearer table-token") => Answer::error(401, "NotAuthorizedException", "expired"),
            _ => Answer::json(200, &first),
        }),
        (_, "/v1/namespaces/n/tables/u") => Some(Answer::json(200, &second)),
        _ => None,
    })
    .await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let catalog = connect(&server, &clock, &[("token", "own-token")]).await;
    for sample in [&one, &two] {
        drop(catalog.load(&sample.table).await.unwrap());
        assert!(matches!(catalog.commit(&sample.commit).await, Reply::Accepted { .. }));
    }
    let used: Vec<_> = server.of("POST").iter().map(|post| post.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(used, ["Bearer table-token", "Bearer own-token"]);
    // When it has run out, the catalog's own token gets the table, and with it a new one.
    drop(catalog.load(&one.table).await.unwrap());
}

#[tokio::test]
async fn a_token_endpoint_with_a_password_in_its_uri_is_refused() {
    let server = Server::start(issuer()).await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let endpoint = server.uri.replace("http://", "http://me:hunter2word@");
    let properties = server.properties(&[("credential", "me:secretword"), ("oauth2-server-uri", endpoint.as_str())]);
    let error = RestCatalog::connect(&properties, clock).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, CatalogError::Invalid(_)) && text.contains("`credential`"), "{text}");
    assert!(!text.contains("hunter2word") && server.requests().is_empty(), "{text}");
}
