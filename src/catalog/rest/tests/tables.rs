//! Lists, names, loads, makes and drops; and reads that are tried again.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use iceberg::spec::FormatVersion;
use serde_json::json;

use super::Sample;
use super::bridge::Bridge;
use super::testkit::{Answer, Server};
use crate::catalog::conformance::small_table;
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, CatalogError, Reply};
use crate::clock::{Clock, ManualClock};
use crate::ids::{TableName, TableUuid};

#[tokio::test]
async fn lists_are_read_to_their_last_page() {
    let server = Server::start(|request| {
        let page = request.target.split("pageToken=").nth(1).map(|rest| rest.split('&').next().unwrap().to_owned());
        let identifiers = |name: &str| json!([{"namespace": ["n"], "name": name}]);
        let answer = match (request.path(), page.as_deref()) {
            ("/v1/namespaces", _) if request.target.contains("parent=") => json!({"namespaces": []}),
            ("/v1/namespaces", None) => json!({"namespaces": [["m"]], "next-page-token": "a/b"}),
            ("/v1/namespaces", Some("a%2Fb")) => json!({"namespaces": [["n"]], "next-page-token": null}),
            ("/v1/namespaces/n/tables", None) => json!({"identifiers": identifiers("t2"), "next-page-token": "1"}),
            ("/v1/namespaces/n/tables", Some("1")) => json!({"identifiers": [], "next-page-token": "2"}),
            ("/v1/namespaces/n/tables", Some("2")) => json!({"identifiers": identifiers("t1"), "next-page-token": ""}),
            ("/v1/namespaces/m/tables", None) => json!({"identifiers": [{"namespace": ["m"], "name": "a.b"}]}),
            _ => return None,
        };
        Some(Answer::json(200, &answer))
    })
    .await;
    let tables = server.connect(&[]).await.tables().await.unwrap();
    let names: Vec<_> = tables.iter().map(ToString::to_string).collect();
    // A name that this command cannot write is left out.
    assert_eq!(names, ["n.t1", "n.t2"]);
}

#[tokio::test]
async fn pages_that_do_not_end_are_an_error() {
    let server = Server::start(|request| {
        let list = request.path().ends_with("namespaces");
        list.then(|| Answer::json(200, &json!({"namespaces": [["n"]], "next-page-token": "again"})))
    })
    .await;
    let error = server.connect(&[]).await.tables().await.unwrap_err();
    assert!(error.to_string().contains("do not end"), "{error}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn pages_of_a_size_are_asked_for() {
    let server = Server::start(|request| {
        let list = request.path().ends_with("namespaces");
        list.then(|| Answer::json(200, &json!({"namespaces": []})))
    })
    .await;
    drop(server.connect(&[("rest-page-size", "50")]).await.tables().await.unwrap());
    assert_eq!(server.requests()[1].target, "/v1/namespaces?pageToken=&pageSize=50");
}

#[tokio::test]
async fn a_catalog_without_levels_is_listed_once() {
    // It takes no notice of the parent, and answers with everything.
    let server = Server::start(|request| {
        let answer = match request.path() {
            "/v1/namespaces" => json!({"namespaces": [["a"], ["b"]]}),
            "/v1/namespaces/a/tables" => json!({"identifiers": [{"namespace": ["a"], "name": "t"}]}),
            "/v1/namespaces/b/tables" => json!({"identifiers": []}),
            _ => return None,
        };
        Some(Answer::json(200, &answer))
    })
    .await;
    assert_eq!(server.connect(&[]).await.tables().await.unwrap(), ["a.t".parse().unwrap()]);
}

#[tokio::test]
async fn levels_are_joined_as_the_catalog_says() {
    let sample = Sample::new("a.b c.t+1").await;
    for (separator, path, parent) in [
        (None, "/v1/namespaces/a%1Fb%20c/tables/t%2B1", "parent=a"),
        (Some("%2E"), "/v1/namespaces/a.b%20c/tables/t%2B1", "parent=a"),
        (Some("%1F"), "/v1/namespaces/a%1Fb%20c/tables/t%2B1", "parent=a"),
    ] {
        let loaded = sample.loaded.clone();
        let server = Server::start(move |request| {
            let answer = match request.target.as_str() {
                "/v1/config" => json!({"defaults": {}, "overrides": {"namespace-separator": separator}}),
                target if target.contains("t%2B1") => loaded.clone(),
                "/v1/namespaces" => json!({"namespaces": [["a"]]}),
                target if target.ends_with(parent) => json!({"namespaces": [["a", "b c"]]}),
                target if target.contains("b%20c/tables") => {
                    json!({"identifiers": [{"namespace": ["a", "b c"], "name": "t+1"}]})
                }
                target if target.contains("/tables") => json!({"identifiers": []}),
                _ => json!({"namespaces": []}),
            };
            Some(Answer::json(200, &answer))
        })
        .await;
        let catalog = server.connect(&[]).await;
        drop(catalog.load(&sample.table).await.unwrap());
        assert_eq!(server.requests()[1].path(), path);
        assert_eq!(catalog.tables().await.unwrap(), std::slice::from_ref(&sample.table));
    }
}

#[tokio::test]
async fn a_table_is_made_with_every_level_of_its_namespace_and_dropped_only_as_itself() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(5));
    let server = Bridge::new(clock.clone()).serve().await;
    let catalog = RestCatalog::connect(&server.properties(&[]), clock.clone()).await.unwrap();
    let table: TableName = "a.b.c.t".parse().unwrap();
    let made = catalog.create(&table, small_table(&table, FormatVersion::V2)).await.unwrap();
    let posts: Vec<_> = server.of("POST").iter().map(|post| post.json()["namespace"].clone()).collect();
    let wanted = [json!(["a", "b", "c"]), json!(["a", "b"]), json!(["a"]), json!(["a", "b"]), json!(["a", "b", "c"])];
    assert_eq!(posts[..5], wanted);
    assert_eq!(catalog.tables().await.unwrap(), std::slice::from_ref(&table));

    let other = TableUuid(clock.fresh_uuid());
    let error = catalog.drop_scratch(&table, other).await.unwrap_err();
    assert!(error.to_string().contains(&other.to_string()), "{error}");
    assert!(server.of("DELETE").is_empty());
    catalog.drop_scratch(&table, TableUuid(made.metadata.uuid())).await.unwrap();
    assert_eq!(server.of("DELETE")[0].target, "/v1/namespaces/a%1Fb%1Fc/tables/t?purgeRequested=false");
    assert!(matches!(catalog.load(&table).await, Err(CatalogError::NoSuchTable { .. })));
}

/// SeaweedFS does so.
#[tokio::test]
async fn a_catalog_that_answers_creation_with_the_table_that_exists() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| {
        let table = request.method == "POST" || request.path().ends_with("/tables/t");
        table.then(|| Answer::json(200, &loaded))
    })
    .await;
    let creation = small_table(&sample.table, FormatVersion::V2);
    let error = server.connect(&[]).await.create(&sample.table, creation).await.unwrap_err();
    assert!(matches!(error, CatalogError::TableExists(_)), "{error:?}");
    assert!(server.of("POST").is_empty());
}

#[tokio::test]
async fn a_table_is_asked_for_with_everything_it_is_made_of() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| match request.method.as_str() {
        "POST" => Some(Answer::json(200, &loaded)),
        _ if request.path().ends_with("/namespaces/n") => Some(Answer::json(200, &json!({"namespace": ["n"]}))),
        _ => None,
    })
    .await;
    let mut creation = small_table(&sample.table, FormatVersion::V3);
    creation.location = Some("s3://lake/n/t".to_owned());
    drop(creation.properties.insert("owner".to_owned(), "me".to_owned()));
    drop(server.connect(&[]).await.create(&sample.table, creation).await.unwrap());
    let body = server.of("POST")[0].json();
    assert_eq!(server.of("POST").len(), 1);
    assert_eq!((body["name"].as_str(), body["location"].as_str()), (Some("t"), Some("s3://lake/n/t")));
    assert_eq!(body["properties"], json!({"format-version": "3", "owner": "me"}));
    assert_eq!(body["stage-create"], json!(false));
    assert_eq!(body["schema"]["type"], json!("struct"));
    assert_eq!(body["schema"]["fields"][0], json!({"id": 1, "name": "id", "required": true, "type": "long"}));
    assert!(body.get("partition-spec").is_none() && body.get("write-order").is_none());
}

#[tokio::test]
async fn reads_are_tried_again_and_not_for_ever() {
    for (answer, tries, wanted) in [
        (Answer::empty(503).with("retry-after", "0"), 2, 3),
        (Answer::empty(429).with("retry-after", "Mon, 30 Nov 2015 00:00:00 GMT"), 2, 3),
        (Answer::Close, 2, 3),
        (Answer::empty(500), 2, 1),
        (Answer::empty(503).with("retry-after", "0"), 0, 1),
    ] {
        let server = Server::start(move |request| request.path().contains("namespaces").then(|| answer.clone())).await;
        let catalog = server.connect(&[("rest.client.max-retries", &tries.to_string())]).await;
        assert!(matches!(catalog.tables().await, Err(CatalogError::Unavailable { .. })));
        assert_eq!(server.requests().len() - 1, wanted);
    }
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let list = request.path().contains("namespaces");
        list.then(|| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::Close,
            1 => Answer::empty(503).with("retry-after", "0"),
            _ => Answer::json(200, &json!({"namespaces": []})),
        })
    })
    .await;
    assert!(server.connect(&[]).await.tables().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_missing_table_names_those_that_exist() {
    let server = Server::start(|request| {
        let answer = match request.path() {
            "/v1/namespaces" if !request.target.contains("parent") => json!({"namespaces": [["n"]]}),
            "/v1/namespaces/n/tables" => json!({"identifiers": [{"namespace": ["n"], "name": "orders"}]}),
            _ => return None,
        };
        Some(Answer::json(200, &answer))
    })
    .await;
    let catalog = server.connect(&[]).await;
    for asked in ["n.order", "m.order"] {
        let error = catalog.load(&asked.parse().unwrap()).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, CatalogError::NoSuchTable { .. }), "{error:?}");
        assert!(text.contains("n.orders") && text.contains(&server.uri), "{text}");
    }
}

#[tokio::test]
async fn answers_that_are_no_table() {
    for (answer, words) in [
        (Answer::typed(200, "text/html", "<html>secretword</html>"), "a web page"),
        (Answer::json(200, &json!({"hello": "secretword"})), "REST specification"),
        (Answer::json(200, &json!({"metadata": {"format-version": 7}})), "newer"),
        (Answer::json(200, &json!({"metadata": {"format-version": 2}})), "damaged"),
        (Answer::typed(404, "text/html", "<html>404</html>"), "web page"),
        (Answer::error(403, "NotAuthorizedException", "not yours"), "not yours"),
    ] {
        let server = Server::start(move |request| request.path().ends_with("/t").then(|| answer.clone())).await;
        let error = server.connect(&[]).await.load(&"n.t".parse().unwrap()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains("secretword"), "{text}");
    }
}

/// Metadata of about 100 MB, as gzip on the wire; unoptimised code takes a few seconds to read it.
#[tokio::test]
async fn long_metadata_is_read() {
    let sample = Sample::new("n.t").await;
    let mut loaded = sample.loaded.clone();
    let first = loaded["metadata"]["snapshots"][0].clone();
    let snapshots = loaded["metadata"]["snapshots"].as_array_mut().unwrap();
    for id in 1..=35_000_i64 {
        let mut snapshot = first.clone();
        snapshot["snapshot-id"] = json!(id);
        snapshot["summary"]["note"] = json!("x".repeat(2_700));
        snapshots.push(snapshot);
    }
    let body = loaded.to_string();
    assert!(body.len() > 100_000_000, "{}", body.len());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let server = Server::start(move |request| {
        let packed = Answer::typed(200, "application/json", packed.clone()).with("content-encoding", "gzip");
        request.path().ends_with("/t").then_some(packed)
    })
    .await;
    let table = server.connect(&[]).await.load(&sample.table).await.unwrap();
    assert_eq!(table.metadata.snapshots().count(), 35_001);
}

#[tokio::test]
async fn readers_are_shown_without_secrets() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| request.path().ends_with("/t").then(|| Answer::json(200, &loaded))).await;
    let catalog = server.connect(&[("token", "secretword-token"), ("warehouse", "la'ke")]).await;
    let table = catalog.load(&sample.table).await.unwrap();
    let lines = catalog.read_with(&table);
    let names: Vec<_> = lines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Spark", "PyIceberg", "DuckDB", "Trino"]);
    for (_, line) in &lines {
        assert!(line.contains(&server.uri) && !line.contains("secretword"), "{line}");
    }
    assert!(lines[1].1.contains(r"'la\'ke'") && lines[2].1.contains("'la''ke'"), "{lines:?}");
}

/// A name that the catalog refuses is the name's fault; another refusal is that of the settings.
#[tokio::test]
async fn a_refused_name_is_told_apart_from_wrong_settings() {
    let refused = || Answer::error(400, "BadRequestException", "only 'a-z' and '_'");
    for (answer, words) in [
        (refused(), ["only 'a-z'", "check the names of the table and of its namespace"]),
        (Answer::typed(400, "text/plain", "odd"), ["odd", "check `uri`, `warehouse` and `prefix`"]),
    ] {
        let server = Server::start(move |request| request.path().ends_with("/Bad").then(|| answer.clone())).await;
        let error = server.connect(&[]).await.load(&"n.Bad".parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, CatalogError::Invalid(_)), "{error:?}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
}

/// What a clock dates that is ahead of the catalog's keeps everybody from changing the table: nothing is sent.
#[tokio::test]
async fn nothing_is_committed_by_a_clock_that_is_ahead() {
    const DAY: i64 = 24 * 60 * 60;
    let day = chrono::Duration::seconds(DAY);
    let now = crate::clock::SystemClock.now();
    for (off, cached, sends) in
        [(-day, false, false), (day, false, true), (chrono::Duration::zero(), false, true), (-day, true, true)]
    {
        let sample = Sample::new("n.t").await;
        let (loaded, committed) = (sample.loaded.clone(), sample.committed.clone());
        let date = (now + off).format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let server = Server::start(move |request| {
            let body = if request.method == "POST" { &committed } else { &loaded };
            let answer = Answer::json(200, body).with("date", &date);
            let answer = if cached { answer.with("age", "86400") } else { answer };
            request.path().ends_with("/t").then_some(answer)
        })
        .await;
        let catalog = server.connect(&[]).await;
        drop(catalog.load(&sample.table).await.unwrap());
        let reply = catalog.commit(&sample.commit).await;
        assert_eq!(server.of("POST").len(), usize::from(sends), "{off} {reply:?}");
        if sends {
            assert!(matches!(reply, Reply::Accepted { .. }), "{off} {reply:?}");
            continue;
        }
        let both = catalog.commit_all(std::slice::from_ref(&sample.commit)).await;
        for reply in [reply, both] {
            let Reply::NotSent { reason } = reply else { panic!("{reply:?}") };
            let theirs = (now + off).format("%Y-%m-%dT%H:%M:%SZ").to_string();
            assert!(reason.contains(&theirs) && reason.contains("set this machine's clock"), "{reason}");
        }
        assert_eq!(server.of("POST").len(), 0);
    }
}

#[tokio::test]
async fn namespaces_that_go_on_for_ever_are_an_error() {
    let server = Server::start(|request| {
        let below = |target: &str| {
            let parent = target.split("parent=").nth(1).map(|rest| rest.split('&').next().unwrap_or_default());
            let mut levels: Vec<_> = parent.into_iter().flat_map(|levels| levels.split("%1F")).collect();
            levels.push("n");
            json!({ "namespaces": [levels] })
        };
        match request.target.as_str() {
            target if target.contains("/tables") => Some(Answer::json(200, &json!({"identifiers": []}))),
            target if target.contains("/namespaces") => Some(Answer::json(200, &below(target))),
            _ => None,
        }
    })
    .await;
    let error = server.connect(&[]).await.tables().await.unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable { .. }) && error.to_string().contains("does not end"), "{error}");
}

/// The answer to the commit may lie in no cache; the answer to a question may.
#[tokio::test]
async fn what_a_cache_kept_is_not_asked_for() {
    let sample = Sample::new("n.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| {
        (request.method == "GET" && request.path().contains("/tables/")).then(|| Answer::json(200, &loaded))
    })
    .await;
    drop(server.connect(&[]).await.load(&sample.table).await.unwrap());
    for request in server.of("GET") {
        assert_eq!(request.header("cache-control"), Some("no-cache"), "{request:?}");
    }
}
