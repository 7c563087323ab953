//! The truth table of replies: status × error type × body, and what known catalogs really send.

use serde_json::json;

use super::super::tests::Sample;
use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    NotSent,
    Accepted,
    Refused,
    Unknown,
}

fn kind(meaning: &Meaning) -> Kind {
    match meaning {
        Meaning::NotSent { .. } => Kind::NotSent,
        Meaning::Accepted { .. } => Kind::Accepted,
        Meaning::Refused { .. } => Kind::Refused,
        Meaning::Unknown { .. } => Kind::Unknown,
    }
}

fn classified(sent: Sent<'_>, status: u16, content_type: &str, body: &[u8]) -> Meaning {
    classify(sent, Exchange::Answer { status, content_type, body })
}

fn error(status: u16, kind: &str) -> Vec<u8> {
    json!({"error": {"message": "the words", "type": kind, "code": status}}).to_string().into_bytes()
}

/// The statuses that the specification documents for `updateTable`, and what each means with an error of its own type.
const DOCUMENTED: [(u16, &str, Kind); 15] = [
    (400, "BadRequestException", Kind::Refused),
    (401, "NotAuthorizedException", Kind::Refused),
    (403, "NotAuthorizedException", Kind::Refused),
    (404, "NoSuchTableException", Kind::Refused),
    (406, "UnsupportedOperationException", Kind::Refused),
    (409, "CommitFailedException", Kind::Refused),
    (419, "AuthenticationTimeoutException", Kind::Unknown),
    (422, "UnprocessableEntityException", Kind::Refused),
    (429, "TooManyRequestsException", Kind::Unknown),
    (500, "CommitStateUnknownException", Kind::Unknown),
    (501, "NotImplementedException", Kind::Unknown),
    (502, "CommitStateUnknownException", Kind::Unknown),
    (503, "SlowDownException", Kind::Unknown),
    (504, "CommitStateUnknownException", Kind::Unknown),
    (599, "InternalServerError", Kind::Unknown),
];

const REFUSING: [u16; 7] = [400, 401, 403, 404, 406, 409, 422];

#[tokio::test]
async fn documented_statuses() {
    let sample = Sample::new("n.t").await;
    for sent in [Sent::Table(&sample.commit), Sent::Transaction] {
        for (status, name, expected) in DOCUMENTED {
            let meaning = classified(sent, status, "application/json", &error(status, name));
            assert_eq!(kind(&meaning), expected, "{status} {name}");
            let (Meaning::Refused { message: text, .. } | Meaning::Unknown { reason: text }) = meaning else {
                panic!("{status}")
            };
            assert!(text.contains("the words") && text.contains(name), "{text}");
        }
    }
}

#[tokio::test]
async fn every_status_with_every_body() {
    let sample = Sample::new("n.t").await;
    let page = b"<html><body>blocked</body></html>".as_slice();
    let other = br#"{"message": "Forbidden"}"#.as_slice();
    for status in 100..=599 {
        let own = error(status, "SomeException");
        let not_known = error(status, "CommitStateUnknownException");
        let namespaced = error(status, "org.apache.iceberg.exceptions.CommitStateUnknownException");
        for (name, content_type, body) in [
            ("error model", "application/json", own.as_slice()),
            ("error model without content type", "", &own),
            ("plain text", "text/plain", b"no such thing"),
            ("other JSON", "application/json", other),
            ("nothing", "", b""),
            ("a page", "text/html; charset=utf-8", page),
            ("a page said to be JSON", "application/json", page),
            ("a page said in upper case", "TEXT/HTML", b"blocked"),
            ("state unknown", "application/json", &not_known),
            ("state unknown, with its package", "application/json", &namespaced),
        ] {
            let own_words = !name.starts_with("a page") && (!name.starts_with("state unknown") || status == 409);
            let expected = match status {
                204 => Kind::Accepted,
                _ if REFUSING.contains(&status) && own_words => Kind::Refused,
                _ => Kind::Unknown,
            };
            let meaning = classified(Sent::Table(&sample.commit), status, content_type, body);
            assert_eq!(kind(&meaning), expected, "{status} with {name}");
            if let Meaning::Refused { status: found, message } = meaning {
                assert_eq!(found, status);
                assert!(!message.is_empty());
            }
            // A transaction's success has no body to look at, so 200 is not one.
            let transaction = classified(Sent::Transaction, status, content_type, body);
            assert_eq!(kind(&transaction), expected, "transaction: {status} with {name}");
        }
    }
}

#[tokio::test]
async fn what_known_catalogs_really_send() {
    let sample = Sample::new("n.t").await;
    let json = |status: u16, name: &str| (status, "application/json", error(status, name));
    for (who, (status, content_type, body), expected) in [
        ("Databricks, a conflict", json(400, "BadRequestException"), Kind::Refused),
        ("Polaris, a commit of unknown state", json(400, "CommitStateUnknownException"), Kind::Unknown),
        ("Polaris, a failure that no rule names", json(400, "RuntimeException"), Kind::Unknown),
        ("Lakekeeper, a requirement that does not hold", json(409, "CatalogCommitConflicts"), Kind::Refused),
        ("Lakekeeper, contention", json(409, "ConcurrentUpdateError"), Kind::Refused),
        ("Lakekeeper, contention of another kind", (503, "", vec![]), Kind::Unknown),
        ("Lakekeeper, an update it does not know", (422, "text/plain", b"unknown variant".to_vec()), Kind::Refused),
        (
            "Lakekeeper, JSON it cannot read",
            (400, "text/plain; charset=utf-8", b"expected value".to_vec()),
            Kind::Refused,
        ),
        ("Lakekeeper, a lost COMMIT that was applied", json(500, "DatabaseError"), Kind::Unknown),
        ("Lakekeeper, a session that ran out", json(419, "AuthenticationTimeout"), Kind::Unknown),
        ("a conflict as 500", json(500, "CommitFailedException"), Kind::Unknown),
        ("a conflict as 409 of unknown state", json(409, "CommitStateUnknownException"), Kind::Refused),
        ("a token that ran out", json(401, "NotAuthorizedException"), Kind::Refused),
        ("a gateway, forbidden", (403, "application/json", br#"{"message":"Forbidden"}"#.to_vec()), Kind::Refused),
        ("a gateway, too long", (413, "application/json", br#"{"message":"Too long"}"#.to_vec()), Kind::Unknown),
        ("a gateway's time is up", (504, "text/html", b"<html>504</html>".to_vec()), Kind::Unknown),
        ("a proxy's page for 403", (403, "text/html", b"<html>Access denied</html>".to_vec()), Kind::Unknown),
        ("a proxy's page for 404", (404, "text/html", b"<!DOCTYPE html>".to_vec()), Kind::Unknown),
        ("a login page", (200, "text/html", b"<html>Sign in</html>".to_vec()), Kind::Unknown),
        ("a redirect to a login", (302, "text/html", vec![]), Kind::Unknown),
        ("a request timeout", (408, "", vec![]), Kind::Unknown),
        ("too early", (425, "", vec![]), Kind::Unknown),
        ("too many", (429, "application/json", b"{}".to_vec()), Kind::Unknown),
        ("accepted for later", (202, "application/json", b"{}".to_vec()), Kind::Unknown),
        ("made", (201, "application/json", sample.committed.to_string().into_bytes()), Kind::Unknown),
    ] {
        let meaning = classified(Sent::Table(&sample.commit), status, content_type, &body);
        assert_eq!(kind(&meaning), expected, "{who}");
    }
}

#[tokio::test]
async fn a_success_must_show_what_was_committed() {
    let sample = Sample::new("n.t").await;
    let whole = sample.committed.to_string();
    let mut renamed = sample.committed.clone();
    renamed["metadata"]["table-uuid"] = json!("9c12d441-03fe-4693-9a96-a0705ddf69c1");
    let mut damaged = sample.committed.clone();
    damaged["metadata"]["current-schema-id"] = json!("x");
    let mut newer = sample.committed.clone();
    newer["metadata"]["format-version"] = json!(9);
    let mut without = sample.committed.clone();
    without["metadata"]["refs"]["published/x"]["type"] = json!("branch");
    for (name, body, expected, words) in [
        ("the table", whole.clone(), Kind::Accepted, ""),
        (
            "the table without location",
            json!({"metadata": sample.committed["metadata"]}).to_string(),
            Kind::Accepted,
            "",
        ),
        ("nothing", String::new(), Kind::Unknown, "no body"),
        ("half of it", whole[..whole.len() / 2].to_owned(), Kind::Unknown, "not that of a commit"),
        ("more after it", format!("{whole}}}"), Kind::Unknown, "not that of a commit"),
        ("other JSON", r#"{"ok": true}"#.to_owned(), Kind::Unknown, "not that of a commit"),
        ("a list", "[]".to_owned(), Kind::Unknown, "not that of a commit"),
        (
            "an error",
            String::from_utf8(error(200, "CommitFailedException")).unwrap(),
            Kind::Unknown,
            "not that of a commit",
        ),
        ("a page", "<html></html>".to_owned(), Kind::Unknown, "not that of a commit"),
        ("another uuid", renamed.to_string(), Kind::Unknown, "9c12d441"),
        ("the table as it was before", sample.loaded.to_string(), Kind::Unknown, "without what the commit sets"),
        ("the tag as a branch", without.to_string(), Kind::Unknown, "without what the commit sets"),
        ("metadata that cannot be read", damaged.to_string(), Kind::Unknown, "not readable"),
        ("a newer format", newer.to_string(), Kind::Unknown, "newer"),
    ] {
        let meaning = classified(Sent::Table(&sample.commit), 200, "application/json", body.as_bytes());
        assert_eq!(kind(&meaning), expected, "{name}: {meaning:?}");
        match meaning {
            Meaning::Unknown { reason } => assert!(reason.contains(words), "{name}: {reason}"),
            Meaning::Accepted { table } => {
                let shown = table.unwrap();
                assert_eq!(shown.location.is_some(), name == "the table");
                assert_eq!(
                    shown.metadata.uuid().to_string(),
                    sample.loaded["metadata"]["table-uuid"].as_str().unwrap()
                );
            }
            _ => panic!("{name}"),
        }
    }
}

#[test]
fn without_an_answer() {
    let not_sent = classify(Sent::Transaction, Exchange::NotSent { reason: "connection refused" });
    assert!(matches!(not_sent, Meaning::NotSent { reason } if reason == "connection refused"));
    let lost = classify(Sent::Transaction, Exchange::NoAnswer { reason: "reset" });
    assert!(matches!(lost, Meaning::Unknown { reason } if reason == "reset"));
}

#[test]
fn a_servers_words_are_short_and_on_one_line() {
    assert_eq!(words(b"  a\n\tb\x1b[31m  c "), "a b [31m c");
    assert_eq!(words(b""), "no text");
    assert_eq!(words(&[0xff, 0xfe]).chars().count(), 2);
    assert_eq!(words("é".repeat(2000).as_bytes()).chars().count(), LONGEST_TEXT + 1);
    assert_eq!(words(br#"{"error": {"message": null, "type": "X"}}"#), "X");
    assert_eq!(words(br#"{"error": {"message": "m"}}"#), "m");
    assert_eq!(words(br#"{"error": "invalid_client", "error_description": "who?"}"#), "invalid_client: who?");
}
