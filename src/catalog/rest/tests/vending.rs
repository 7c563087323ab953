//! Storage credentials: which come first, when they expire, and where fresh ones come from.

use serde_json::json;

use super::Sample;
use super::testkit::{Answer, Server};
use crate::catalog::objects::Vend as _;
use crate::catalog::properties::Properties;
use crate::catalog::rest::vend::{TableVend, for_storage, vended_with};
use crate::catalog::rest::wire::LoadTableResponse;
use crate::catalog::{Catalog, CatalogError};

const ENDPOINT: &str = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";

#[test]
fn vended_credentials_and_then_those_of_the_configuration() {
    let response: LoadTableResponse = serde_json::from_value(json!({
        "metadata": {},
        "config": {"s3.access-key-id": "config", "s3.session-token-expires-at-ms": "3000", "token": "t", "s3.region": "r"},
        "storage-credentials": [
            {"prefix": "s3://b/t", "config": {"s3.access-key-id": "one", "s3.session-token-expires-at-ms": "2000"}},
            {"prefix": "gs://b", "config": {"gcs.oauth2.token": "two", "gcs.oauth2.token-expires-at": "4000"}},
            {"prefix": "abfss://c", "config": {"adls.sas-token-expires-at-ms.account": "1000"}},
        ],
    }))
    .unwrap();
    let vended = vended_with(&response);
    let prefixes: Vec<_> = vended.credentials.iter().map(|credential| credential.prefix.as_str()).collect();
    assert_eq!(prefixes, ["s3://b/t", "gs://b", "abfss://c", ""]);
    assert_eq!(vended.expires.unwrap().timestamp_millis(), 1000);
    let config = &vended.credentials[3].properties;
    assert_eq!((config.get("s3.access-key-id"), config.get("s3.region")), (Some("config"), Some("r")));
    assert_eq!(config.get("token"), None);

    let plain: LoadTableResponse =
        serde_json::from_value(json!({"metadata": {}, "config": {"s3.region": "r"}})).unwrap();
    let vended = vended_with(&plain);
    assert!(vended.credentials.is_empty() && vended.expires.is_none());
}

#[test]
fn a_storage_is_not_given_the_catalogs_secrets() {
    let properties: Properties = [
        ("token", "1"),
        ("credential", "1"),
        ("header.authorization", "1"),
        ("rest.secret-access-key", "1"),
        ("s3.region", "1"),
        ("client.region", "1"),
        ("py-io-impl", "1"),
    ]
    .into_iter()
    .collect();
    let kept = for_storage(&properties);
    assert_eq!(kept.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["client.region", "py-io-impl", "s3.region"]);
}

#[tokio::test]
async fn fresh_credentials_come_from_their_endpoint_or_from_the_table() {
    let fresh = json!({"storage-credentials": [{"prefix": "s3://b", "config": {"s3.access-key-id": "fresh"}}]});
    for (endpoints, answer, wanted) in [
        (json!([ENDPOINT]), Answer::json(200, &fresh), Some("fresh")),
        (json!([ENDPOINT]), Answer::error(404, "NoSuchTableException", "not here"), Some("loaded")),
        (json!([ENDPOINT]), Answer::error(403, "NotAuthorizedException", "not yours"), None),
        (json!([]), Answer::json(200, &fresh), Some("loaded")),
        (json!(null), Answer::json(200, &fresh), Some("loaded")),
    ] {
        let sample = Sample::new("n.t").await;
        let mut loaded = sample.loaded.clone();
        loaded["storage-credentials"] = json!([{"prefix": "s3://b", "config": {"s3.access-key-id": "loaded"}}]);
        let listed = endpoints.clone();
        let server = Server::start(move |request| match request.path() {
            "/v1/config" => Some(Answer::json(200, &json!({"defaults": {}, "overrides": {}, "endpoints": listed}))),
            "/v1/namespaces/n/tables/t/credentials" => Some(answer.clone()),
            "/v1/namespaces/n/tables/t" => Some(Answer::json(200, &loaded)),
            _ => None,
        })
        .await;
        let catalog = server.connect(&[]).await;
        drop(catalog.load(&sample.table).await.unwrap());
        let vend = TableVend { state: catalog.state.clone(), table: sample.table.clone() };
        match (vend.vend().await, wanted) {
            (Ok(vended), Some(wanted)) => {
                assert_eq!(vended.credentials[0].properties.get("s3.access-key-id"), Some(wanted), "{endpoints}");
            }
            (Err(error), None) => assert!(matches!(error, CatalogError::Forbidden { .. }), "{error:?}"),
            (other, wanted) => panic!("{other:?} where {wanted:?}"),
        }
    }
}
