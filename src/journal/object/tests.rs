//! The suite over a small S3, and answers that are lost, wrong or late.

use async_trait::async_trait;

use super::super::conformance::{self, Subject, attempts, clock, key, record};
use super::*;
use crate::store::testkit::{Condition, Fault, S3Double, SECRET};

struct Place(S3Double, ObjectJournal);

#[async_trait]
impl Subject for Place {
    fn tells_times(&self) -> bool {
        // The stand-in sends no `Last-Modified`.
        false
    }

    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.1.clone())
    }

    async fn plant(&self, log: &LogKey, number: u32, bytes: &[u8]) {
        self.1.plant(&format!("{}/{}", codec::log_path(log), codec::record_name(number)), bytes).await.unwrap();
    }

    async fn plant_statement(&self, digest: &Digest, bytes: &[u8]) {
        self.1.plant(&codec::statement_path(digest), bytes).await.unwrap();
    }
}

async fn place() -> Place {
    let double = S3Double::start().await;
    let journal = open("s3n://plain/ops/", &double.properties()).await.unwrap();
    Place(double, journal)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_does_all_that_a_journal_must() {
    conformance::run(place).await;
}

const RECORD: &str = "00000001.json";
const OTHER: &str = "<Error><Code>PreconditionFailed</Code></Error>";

#[tokio::test]
async fn an_answer_that_was_lost_is_found_by_the_records_id() {
    for fault in [
        Fault::HangAfter,
        Fault::AnswerAfter(503, "<Error><Code>SlowDown</Code></Error>"),
        Fault::AnswerAfter(500, "not < XML"),
        Fault::AnswerAfter(504, ""),
        // What a transport that sends again would see.
        Fault::AnswerAfter(412, OTHER),
        Fault::AnswerAfter(409, "<Error><Code>ConditionalRequestConflict</Code></Error>"),
        Fault::AnswerAfter(404, ""),
        Fault::AnswerAfter(403, ""),
    ] {
        let Place(double, journal) = place().await;
        let first = record(1, &clock(1));
        double.fail("PUT", RECORD, fault.clone());
        assert_eq!(journal.put(&key("p"), &first).await.unwrap(), Put::Won, "{fault:?}");
        assert_eq!(double.count("PUT", RECORD), 1, "{fault:?}");
        assert_eq!(journal.read(&key("p")).await.unwrap()[0].id, first.id);
        // And another's is another's.
        double.fail("PUT", RECORD, Fault::Answer(503, ""));
        assert_eq!(journal.put(&key("p"), &record(1, &clock(2))).await.unwrap(), Put::Taken, "{fault:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_lost_is_sent_again() {
    for fault in [Fault::Hang, Fault::Answer(503, ""), Fault::Answer(409, ""), Fault::Answer(412, OTHER)] {
        let Place(double, journal) = place().await;
        double.fail("PUT", RECORD, fault.clone());
        double.fail("PUT", RECORD, Fault::HangAfter);
        assert_eq!(journal.put(&key("p"), &record(1, &clock(1))).await.unwrap(), Put::Won, "{fault:?}");
        assert_eq!((double.count("PUT", RECORD), journal.read(&key("p")).await.unwrap().len()), (2, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn failures_are_told_apart_and_hold_no_secret() {
    let leak = "<Error><Code>AccessDenied</Code><Message>very-secret-0123456789 may not</Message></Error>";
    for (status, body, times) in [
        (503, "<html>very-secret-0123456789 is down</html>", 4),
        (403, leak, 1),
        (507, "", 1),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", 1),
        (400, "<Error><Code>InvalidArgument</Code></Error>", 1),
    ] {
        let Place(double, journal) = place().await;
        assert_eq!(journal.put(&key("p"), &record(1, &clock(1))).await.unwrap(), Put::Won);
        for _ in 0..times {
            double.fail("PUT", "00000002.json", Fault::Answer(status, body));
        }
        let error = journal.put(&key("p"), &record(2, &clock(1))).await.unwrap_err();
        match status {
            503 | 400 => assert!(matches!(error, JournalError::Io { unwritable: false, .. }), "{error:?}"),
            403 => assert!(matches!(error, JournalError::ReadOnly { .. }), "{error:?}"),
            507 => assert!(matches!(error, JournalError::Io { unwritable: true, .. }), "{error:?}"),
            _ => assert!(matches!(error, JournalError::Invalid { .. }), "{error:?}"),
        }
        assert_eq!(double.count("PUT", "00000002.json"), times, "{status}");
        let shown = format!("{error} {error:?} {journal:?}");
        assert!(!shown.contains(SECRET) && shown.contains("s3://plain/ops"), "{shown}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(attempts(&journal.read(&key("p")).await.unwrap()), [1]);
    }
}

#[tokio::test]
async fn a_read_that_fails_is_no_empty_log() {
    let Place(double, journal) = place().await;
    assert_eq!(journal.put(&key("p"), &record(1, &clock(1))).await.unwrap(), Put::Won);
    double.fail("GET", "/p/", Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>"));
    assert!(journal.read(&key("p")).await.is_err());
    double.fail("GET", RECORD, Fault::Answer(400, "<html>"));
    assert!(journal.read(&key("p")).await.is_err());
    // A listing that was cut in half says too little: records are read by number.
    double.fail("GET", "/p/", Fault::Answer(200, "<ListBucket"));
    assert_eq!(journal.read(&key("p")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_first_success_that_is_called_anothers_condemns_no_store() {
    let Place(double, journal) = place().await;
    double.fail("PUT", "probe/put-if-absent", Fault::AnswerAfter(412, OTHER));
    assert_eq!(journal.put(&key("p"), &record(1, &clock(1))).await.unwrap(), Put::Won);
    assert_eq!(double.count("PUT", "probe/put-if-absent"), 2);
}

#[tokio::test]
async fn a_store_that_overwrites_is_refused_by_name() {
    for condition in [Condition::Ignored, Condition::RefusedAndWritten] {
        // Also where an earlier store of that name was tried and found good.
        for known in [false, true] {
            let Place(double, journal) = place().await;
            double.state().condition = condition;
            if known {
                drop(double.state().objects.insert("ops/probe/put-if-absent".to_owned(), b"earlier".to_vec()));
            }
            let error = journal.put(&key("p"), &record(1, &clock(1))).await.unwrap_err();
            assert!(matches!(error, JournalError::Invalid { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("s3://plain/ops") && text.contains("If-None-Match"), "{text}");
            assert_eq!(double.count("PUT", RECORD), 0);
            assert!(!journal.prove_put_if_absent(&clock(1)).await.unwrap().holds());
        }
    }
}

#[tokio::test]
async fn the_store_is_tried_once_and_one_object_is_left() {
    let Place(double, journal) = place().await;
    for number in 1..=3 {
        assert_eq!(journal.put(&key("p"), &record(number, &clock(number.into()))).await.unwrap(), Put::Won);
    }
    let kept = |double: &S3Double| double.state().objects.keys().filter(|key| key.contains("/probe/")).count();
    assert_eq!((double.count("PUT", "probe/put-if-absent"), kept(&double)), (2, 1));
    // The next process finds it.
    let before = double.count("PUT", "/probe/");
    let next = open("s3://plain/ops", &double.properties()).await.unwrap();
    assert_eq!(next.put(&key("p"), &record(4, &clock(4))).await.unwrap(), Put::Won);
    assert_eq!((double.count("PUT", "/probe/") - before, kept(&double)), (1, 1));
}

#[tokio::test]
async fn roots_have_one_name_and_wrong_ones_are_refused() {
    let double = S3Double::start().await;
    for (given, root) in [("s3a://plain/a/b//", "s3://plain/a/b"), ("s3n://plain", "s3://plain")] {
        assert_eq!(open(given, &double.properties()).await.unwrap().root(), root);
    }
    for bad in ["s3://", "s3:///x", "s3://plain/a//b", "s3://plain/a/../b", "oss://plain/x", "s3://me:pass@plain/x"] {
        let error = open(bad, &double.properties()).await.unwrap_err();
        assert!(matches!(error, JournalError::Invalid { .. }), "{bad}: {error:?}");
        assert!(!error.to_string().contains("pass"), "{error}");
    }
    assert!(is_object_store("s3://b") && is_object_store("abfss://c@a.dfs.x/y") && is_object_store("oss://b/x"));
    assert!(!is_object_store("/a/b") && !is_object_store("file:///a") && !is_object_store("a/b"));
}
