//! A commit is transmitted exactly once, whatever the server does. Counts are the server's.

use std::sync::Arc;

use serde_json::json;

use super::Sample;
use super::testkit::{Answer, Request, Server};
use crate::catalog::properties::Properties;
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, Reply};
use crate::clock::{Clock, ManualClock};

/// Commits once against a server that answers every POST so, and returns the reply and all POSTs it saw.
async fn against(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Reply, Vec<Request>) {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| match request.method.as_str() {
        "POST" => Some(answer(request)),
        _ if request.path().ends_with("/tables/t") => Some(Answer::json(200, &loaded)),
        _ => None,
    })
    .await;
    let catalog = server.connect(&[]).await;
    drop(catalog.load(&sample.table).await.unwrap());
    let reply = catalog.commit(&sample.commit).await;
    // Whatever would be sent again in the background has its chance while this is answered.
    drop(catalog.load(&sample.table).await.unwrap());
    (reply, server.of("POST"))
}

fn unknown(reply: &Reply) -> &str {
    let Reply::Unknown { reason } = reply else { panic!("{reply:?}") };
    reason
}

#[tokio::test]
async fn no_connection_is_used_again_for_a_commit() {
    let sample = Sample::new("n.t").await;
    let (loaded, committed) = (sample.loaded.clone(), sample.committed.clone());
    // Whoever uses a connection a second time finds it closed, unanswered.
    let server = Server::start(move |request| match (request.nth, request.method.as_str()) {
        (0, "POST") => Some(Answer::json(200, &committed)),
        (0, _) if request.path().ends_with("/tables/t") => Some(Answer::json(200, &loaded)),
        (0, _) => None,
        _ => Some(Answer::Close),
    })
    .await;
    let catalog = server.connect(&[("rest.client.max-retries", "10")]).await;
    for _ in 0..5 {
        drop(catalog.load(&sample.table).await.unwrap());
        let reply = catalog.commit(&sample.commit).await;
        assert!(matches!(reply, Reply::Accepted { table: Some(_) }), "{reply:?}");
    }
    let posts = server.of("POST");
    assert_eq!(posts.len(), 5, "{:?}", server.lines());
    assert!(posts.iter().all(|post| post.nth == 0), "a commit went over a connection that was used before");
    // The reads show that the server does close reused connections, and that reading goes on after it.
    assert!(server.of("GET").iter().any(|get| get.nth > 0));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (reply, posts) = against(move |request| {
            Answer::empty(status).with("location", &format!("http://{}/elsewhere", request.header("host").unwrap()))
        })
        .await;
        assert!(unknown(&reply).contains(&status.to_string()), "{reply:?}");
        assert_eq!(posts.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_failure_that_asks_to_try_again_is_not_tried_again() {
    for status in [429, 500, 502, 503, 504] {
        let (reply, posts) =
            against(move |_| Answer::error(status, "SlowDownException", "later").with("retry-after", "0")).await;
        assert!(unknown(&reply).contains("later"), "{reply:?}");
        assert_eq!(posts.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_unknown() {
    let (reply, posts) = against(|_| Answer::Close).await;
    assert!(!unknown(&reply).is_empty());
    assert_eq!(posts.len(), 1);
}

#[tokio::test]
async fn half_an_answer_is_unknown_whatever_its_status() {
    let sample = Sample::new("n.t").await;
    for (status, body) in [
        (200, sample.committed.to_string()),
        (409, json!({"error": {"message": "no", "type": "CommitFailedException", "code": 409}}).to_string()),
    ] {
        let (reply, posts) = against(move |_| Answer::Half { status, body: body.clone().into_bytes() }).await;
        assert!(unknown(&reply).contains(&format!("status {status}")), "{reply:?}");
        assert_eq!(posts.len(), 1);
    }
}

#[tokio::test]
async fn a_commit_with_refused_credentials_is_not_sent_with_others() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| match (request.method.as_str(), request.path()) {
        ("POST", "/v1/oauth/tokens") => {
            Some(Answer::json(200, &json!({"access_token": "token-one", "expires_in": 3600})))
        }
        ("POST", _) => Some(Answer::error(401, "NotAuthorizedException", "expired")),
        (_, path) if path.ends_with("/tables/t") => Some(Answer::json(200, &loaded)),
        _ => None,
    })
    .await;
    let catalog = server.connect(&[("credential", "me:secret-word")]).await;
    drop(catalog.load(&sample.table).await.unwrap());
    let reply = catalog.commit(&sample.commit).await;
    assert!(matches!(reply, Reply::Refused { status: 401, .. }), "{reply:?}");
    let commits = |server: &Server| server.of("POST").iter().filter(|post| post.path().contains("tables")).count();
    assert_eq!(commits(&server), 1);
    // The read after it fetches a new token, because that one was refused.
    drop(catalog.load(&sample.table).await.unwrap());
    let tokens = server.lines().iter().filter(|line| line.ends_with("/oauth/tokens")).count();
    assert_eq!((tokens, commits(&server)), (2, 1));
}

#[tokio::test]
async fn what_never_left_is_not_sent() {
    let sample = Sample::new("n.t").await;
    let server = Server::start(|_| None).await;
    let catalog = server.connect(&[]).await;
    drop(server);
    // The listener closes when its task has been dropped, which takes a turn or two.
    let mut reply = catalog.commit(&sample.commit).await;
    for _ in 0..1000 {
        if matches!(reply, Reply::NotSent { .. }) {
            break;
        }
        tokio::task::yield_now().await;
        reply = catalog.commit(&sample.commit).await;
    }
    let Reply::NotSent { reason } = reply else { panic!("{reply:?}") };
    assert!(!reason.is_empty());
}

#[tokio::test]
async fn the_key_goes_along_where_the_catalog_knows_such_keys() {
    for lifetime in [None, Some("PT30M")] {
        let sample = Sample::new("n.t").await;
        let server = Server::start(move |request| match request.method.as_str() {
            "POST" => Some(Answer::empty(204)),
            _ => Some(Answer::json(
                200,
                &json!({"defaults": {}, "overrides": {}, "idempotency-key-lifetime": lifetime, "endpoints": null}),
            )),
        })
        .await;
        let catalog = server.connect(&[]).await;
        assert_eq!(catalog.capabilities().idempotency_key_lifetime.as_deref(), lifetime);
        assert!(matches!(catalog.commit(&sample.commit).await, Reply::Accepted { table: None }));
        let posts = server.of("POST");
        let expected = lifetime.map(|_| sample.commit.key.0.to_string());
        assert_eq!(posts[0].header("idempotency-key"), expected.as_deref());
    }
}

#[tokio::test]
async fn a_transaction_is_one_request_with_every_table() {
    let (one, two) = (Sample::new("n.t").await, Sample::new("a.b.u").await);
    let commits = [one.commit.clone(), two.commit.clone()];
    for (endpoints, sent) in [
        (json!(null), 1),
        (json!(["POST /v1/{prefix}/transactions/commit"]), 1),
        (json!(["GET /v1/{prefix}/namespaces"]), 0),
    ] {
        let listed = endpoints.clone();
        let server = Server::start(move |request| match request.method.as_str() {
            "POST" => Some(Answer::empty(204)),
            _ => Some(Answer::json(200, &json!({"defaults": {}, "overrides": {"prefix": "p"}, "endpoints": listed}))),
        })
        .await;
        let catalog = server.connect(&[]).await;
        let reply = catalog.commit_all(&commits).await;
        let posts = server.of("POST");
        assert_eq!(posts.len(), sent, "{endpoints}");
        if sent == 0 {
            assert!(matches!(reply, Reply::NotSent { .. }), "{reply:?}");
            continue;
        }
        assert!(matches!(reply, Reply::Accepted { table: None }), "{reply:?}");
        assert_eq!(posts[0].path(), "/v1/p/transactions/commit");
        let body = posts[0].json();
        let names: Vec<_> = body["table-changes"].as_array().unwrap().iter().map(|c| c["identifier"].clone()).collect();
        assert_eq!(names, [json!({"namespace": ["n"], "name": "t"}), json!({"namespace": ["a", "b"], "name": "u"})]);
    }
}

#[tokio::test]
async fn a_refused_or_silent_transaction_is_told_apart() {
    let sample = Sample::new("n.t").await;
    for (answer, unknown) in [(Answer::error(409, "CommitFailedException", "no"), false), (Answer::Close, true)] {
        let server = Server::start(move |request| (request.method == "POST").then(|| answer.clone())).await;
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
        let properties: Properties = server.properties(&[]);
        let catalog = RestCatalog::connect(&properties, clock).await.unwrap();
        let reply = catalog.commit_all(std::slice::from_ref(&sample.commit)).await;
        assert_eq!(matches!(reply, Reply::Unknown { .. }), unknown, "{reply:?}");
        assert_eq!(matches!(reply, Reply::Refused { status: 409, .. }), !unknown, "{reply:?}");
        assert_eq!(server.of("POST").len(), 1);
    }
}
