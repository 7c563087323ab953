//! SigV4: the signer's signatures are computed again here by the published algorithm, which is itself held against the
//! example that AWS published with it. (The signer takes the machine's time and no other.)

use reqsign_core::StaticEnv;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Sample;
use super::testkit::{Answer, Request, Server};
use crate::catalog::rest::sigv4::region;
use crate::catalog::{Catalog, CatalogError, Reply};

/// The key and secret of AWS's own examples.
const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 2104.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64);
    let pad = |with: u8| (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ with).collect::<Vec<_>>();
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

struct Signed<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: &'a [(String, String)],
    payload: String,
    time: &'a str,
    region: &'a str,
    service: &'a str,
}

fn signature(signed: &Signed<'_>) -> String {
    let headers: String = signed.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names = signed.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let Signed { method, path, query, payload, time, region, service, .. } = signed;
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}");
    let date = &time[..8];
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in [date, region, service, "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    hex(&hmac(&key, text.as_bytes()))
}

#[test]
fn the_published_example() {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ("host", "iam.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let signed = Signed {
        method: "GET",
        path: "/",
        query: "Action=ListUsers&Version=2010-05-08",
        headers: &headers,
        payload: hex(&Sha256::digest(b"")),
        time: "20150830T123600Z",
        region: "us-east-1",
        service: "iam",
    };
    assert_eq!(signature(&signed), "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

/// Computes the signature of a request that arrived, from what arrived.
fn check(request: &Request, region: &str, service: &str) {
    let authorization = request.header("authorization").unwrap();
    let time = request.header("x-amz-date").unwrap();
    let (names, found) = authorization.split_once("SignedHeaders=").unwrap().1.split_once(", Signature=").unwrap();
    let credential = format!("AWS4-HMAC-SHA256 Credential={KEY}/{}/{region}/{service}/aws4_request, ", &time[..8]);
    assert!(authorization.starts_with(&credential), "{authorization}");
    let headers: Vec<_> =
        names.split(';').map(|name| (name.to_owned(), request.header(name).unwrap().to_owned())).collect();
    for wanted in ["host", "x-amz-content-sha256", "x-amz-date"] {
        assert!(names.split(';').any(|name| name == wanted), "{names}");
    }
    let payload = hex(&Sha256::digest(&request.body));
    assert_eq!(request.header("x-amz-content-sha256"), Some(payload.as_str()));
    let encode = |segment: &str| {
        let byte = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        segment.bytes().map(byte).collect::<String>()
    };
    // Every service but S3 signs the path as it is sent, encoded once more.
    let path = request.path().split('/').map(encode).collect::<Vec<_>>().join("/");
    let mut query: Vec<_> = request.target.split_once('?').map_or("", |(_, query)| query).split('&').collect();
    query.sort_unstable();
    let query = query.join("&");
    let signed = Signed {
        method: &request.method,
        path: &path,
        query: &query,
        headers: &headers,
        payload,
        time,
        region,
        service,
    };
    assert_eq!(signature(&signed), found);
}

#[tokio::test]
async fn every_request_is_signed() {
    let sample = Sample::new("a.b c.t").await;
    let loaded = sample.loaded.clone();
    let server = Server::start(move |request| match request.method.as_str() {
        "POST" => Some(Answer::empty(204)),
        _ if request.path().ends_with("/t") => Some(Answer::json(200, &loaded)),
        _ => Some(Answer::json(200, &json!({"defaults": {}, "overrides": {"prefix": "catalogs/12:x"}}))),
    })
    .await;
    for (token, name, service) in [(None, Some("glue"), "glue"), (Some("session+token=="), None, "execute-api")] {
        let mut more = vec![
            ("rest.sigv4-enabled", "true"),
            ("rest.signing-region", "eu-central-1"),
            ("rest.access-key-id", KEY),
            ("rest.secret-access-key", SECRET),
            ("warehouse", "s3://b/x y"),
        ];
        more.extend(name.map(|name| ("rest.signing-name", name)));
        more.extend(token.map(|token| ("rest.session-token", token)));
        let catalog = server.connect(&more).await;
        drop(catalog.load(&sample.table).await.unwrap());
        assert!(matches!(catalog.commit(&sample.commit).await, Reply::Accepted { .. }));
        let requests = server.requests();
        let last = &requests[requests.len() - 3..];
        let lines: Vec<_> = last.iter().map(Request::line).collect();
        let table = "/v1/catalogs/12:x/namespaces/a%1Fb%20c/tables/t";
        assert_eq!(lines, ["GET /v1/config".to_owned(), format!("GET {table}"), format!("POST {table}")]);
        for request in last {
            assert_eq!(request.header("x-amz-security-token"), token);
            check(request, "eu-central-1", service);
        }
        assert!(!format!("{catalog:?}").contains(SECRET));
    }
}

#[test]
fn the_region_is_the_users_the_hosts_or_the_environments() {
    let of = |host: &str, properties: &[(&str, &str)], environment: &[(&str, &str)]| {
        let envs = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let base = url::Url::parse(&format!("https://{host}/iceberg")).unwrap();
        region(&base, &properties.iter().copied().collect(), &StaticEnv { home_dir: None, envs })
    };
    let glue = "glue.eu-west-1.amazonaws.com";
    let (client, signing) = (("client.region", "c"), ("rest.signing-region", "s"));
    assert_eq!(of(glue, &[signing, client], &[]).unwrap(), "s");
    assert_eq!(of(glue, &[client], &[]).unwrap(), "c");
    assert_eq!(of(glue, &[], &[("AWS_REGION", "e")]).unwrap(), "eu-west-1");
    assert_eq!(of("catalog.example", &[], &[("AWS_REGION", "e"), ("AWS_DEFAULT_REGION", "d")]).unwrap(), "e");
    assert_eq!(of("catalog.example", &[], &[("AWS_DEFAULT_REGION", "d")]).unwrap(), "d");
    match of("catalog.example", &[], &[]) {
        Err(CatalogError::Invalid(text)) => assert!(text.contains("`rest.signing-region`"), "{text}"),
        other => panic!("{other:?}"),
    }
}
