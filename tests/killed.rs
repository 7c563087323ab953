//! The command, killed with SIGKILL at each step of each verb: `recover` and `reconcile` say what the table shows, and the
//! same line again does what it would have done.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use command::{Place, TABLE};

const STEPS: [&str; 4] = ["intended", "answered", "recorded", "decided"];

/// A shop with the orders 6 and 7 of 10 August in a file.
fn shop() -> Place {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place
}

const BEFORE: [i64; 5] = [1, 2, 3, 4, 5];
const AFTER: [i64; 7] = [1, 2, 3, 4, 5, 6, 7];
const NEVER_SENT: &str = STEPS[0];

/// Another process looks after what was left of `p`: it says how that stands, and records what is missing, once.
#[track_caller]
fn recovered(place: &Place, code: i32, stands: &str) {
    let before = place.seen();
    let look = || {
        let report = place.lake(&["recover", "--json"]).ends(code).json();
        assert_eq!(report["problems"].as_array().map(Vec::len), Some(0), "{report}");
        let found: Vec<_> =
            report["publications"].as_array().unwrap().iter().map(|item| item["stands"].clone()).collect();
        (found, report["settled"].as_u64().unwrap())
    };
    let (found, settled) = look();
    assert_eq!((found, settled), (vec![stands.into()], 1), "the one before it is settled");
    let records = place.files("lake/journal").len();
    let (found, settled) = look();
    match stands {
        "settled" => assert_eq!((found, settled), (vec![], 2), "nothing is missing any more"),
        _ => assert_eq!((found, settled), (vec![stands.into()], 1)),
    }
    assert_eq!(place.files("lake/journal").len(), records, "a log that is polled does not grow");
    assert_eq!(place.seen(), before, "nothing was sent");
}

#[test]
fn publish() {
    for step in STEPS {
        let place = shop();
        place.sealed("p", "more.parquet");
        place.killed(&["publish", TABLE, "p"], &format!("publish:{step}"));
        if step == NEVER_SENT {
            assert_eq!(place.orders_in_main(), BEFORE, "{step}");
            recovered(&place, 20, "unresolved");
            assert_eq!(place.reconciled("p", 20), "sealed", "it may have been sent, for all that the journal knows");
        } else {
            assert_eq!(place.orders_in_main(), AFTER, "{step}");
            recovered(&place, 0, "settled");
            assert_eq!(place.reconciled("p", 0), "published", "{step}");
        }
        let again = place.lake(&["publish", TABLE, "p", "--json"]).ends(0).json();
        assert_eq!(again["outcome"], "published", "{step}");
        assert_eq!(place.reconciled("p", 0), "published", "{step}");
        assert_eq!(place.orders_in_main(), AFTER, "{step}: once");
        let refs = place.seen().refs;
        assert_eq!((&refs["published/p"]["type"], refs.get("closed/p")), (&"tag".into(), None), "{step}");
        place.lake(&["abandon", TABLE, "p", "--reason", "late"]).complains(13, &["published"]);
        assert_eq!(place.orders_in_main(), AFTER, "{step}");
    }
}

#[test]
fn publish_then_abandoned() {
    let place = shop();
    place.sealed("p", "more.parquet");
    place.killed(&["publish", TABLE, "p"], "publish:intended");
    place.lake(&["abandon", TABLE, "p", "--reason", "not today"]).ends(0);
    assert_eq!(place.reconciled("p", 14), "closed");
    assert_eq!(place.lake(&["publish", TABLE, "p", "--json"]).ends(13).json()["outcome"], "rejected");
    assert_eq!(place.orders_in_main(), BEFORE);
}

#[test]
fn begin() {
    for step in STEPS {
        let place = shop();
        let line = ["begin", TABLE, "p", "--lease", "1h", "--json"];
        place.killed(&line, &format!("begin:{step}"));
        recovered(&place, 0, if step == NEVER_SENT { "never-opened" } else { "open" });
        let again = place.lake(&line).ends(0).json();
        assert_eq!(again["already-open"], step != NEVER_SENT, "{step}");
        place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
        place.lake(&["validate", TABLE, "p"]).ends(0);
        place.lake(&["publish", TABLE, "p"]).ends(0);
        assert_eq!(place.orders_in_main(), AFTER, "{step}");
    }
}

/// The process that was killed held the lease, and cannot give it back.
#[test]
fn stage() {
    for mode in ["--append", "--replace"] {
        for step in STEPS {
            let place = shop();
            let scope = "ordered_at >= '2013-08-10T00:00:00Z'";
            place.lake(&["begin", TABLE, "p", "--scope", scope]).ends(0);
            let line = ["stage", TABLE, "p", "more.parquet", mode, "--json"];
            place.killed(&line, &format!("stage:{step}"));
            recovered(&place, 0, "open");
            assert_eq!(place.reconciled("p", 14), "open", "{mode} {step}");
            assert_eq!(place.orders_in_main(), BEFORE, "{mode} {step}");
            let again = place.lake(&line).ends(0).json();
            assert_eq!(again["rows-added"], 2, "{mode} {step}");
            let told = again["warnings"].to_string().contains("not added again");
            assert_eq!(told, mode == "--append" && step != NEVER_SENT, "{mode} {step}: {again}");
            place.lake(&["validate", TABLE, "p"]).ends(0);
            place.lake(&["publish", TABLE, "p"]).ends(0);
            assert_eq!(place.orders_in_main(), AFTER, "{mode} {step}: each order once");
        }
    }
}

/// Only the very same rows are taken for the same command.
#[test]
fn stage_then_other_rows() {
    let place = shop();
    place.orders("others.parquet", 10, &[8, 9]);
    place.lake(&["begin", TABLE, "p"]).ends(0);
    place.killed(&["stage", TABLE, "p", "more.parquet", "--append"], "stage:answered");
    place.lake(&["stage", TABLE, "p", "others.parquet", "--append"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn validate() {
    for step in STEPS {
        let place = shop();
        place.staged("p", "more.parquet");
        place.killed(&["validate", TABLE, "p"], &format!("seal:{step}"));
        let state = if step == NEVER_SENT { "open" } else { "sealed" };
        recovered(&place, 0, if step == NEVER_SENT { "open" } else { "waiting" });
        assert_eq!(place.reconciled("p", 14), state, "{step}");
        // Where it had sealed already, it need not be repeated; where it is, nothing is lost.
        if step != "answered" {
            place.lake(&["validate", TABLE, "p"]).ends(0);
        }
        place.lake(&["publish", TABLE, "p"]).ends(0);
        assert_eq!(place.orders_in_main(), AFTER, "{step}");
    }
}

#[test]
fn abandon() {
    for step in STEPS {
        let place = shop();
        place.sealed("p", "more.parquet");
        let line = ["abandon", TABLE, "p", "--reason", "not needed", "--json"];
        place.killed(&line, &format!("fence:{step}"));
        let state = if step == NEVER_SENT { "sealed" } else { "closed" };
        recovered(&place, 0, if step == NEVER_SENT { "waiting" } else { "settled" });
        assert_eq!(place.reconciled("p", 14), state, "{step}");
        let again = place.lake(&line).ends(0).json();
        assert_eq!(again["already-closed"], step != NEVER_SENT, "{step}");
        assert_eq!(place.lake(&["publish", TABLE, "p", "--json"]).ends(13).json()["outcome"], "rejected", "{step}");
        assert_eq!(place.orders_in_main(), BEFORE, "{step}");
    }
}

/// `recover --fence` closes what a killed command left open, and leaves what a running one works on.
#[test]
fn fenced_by_recover() {
    let place = shop();
    place.orders("others.parquet", 10, &[8, 9]);
    for id in ["p", "q"] {
        place.lake(&["begin", TABLE, id]).ends(0);
    }
    place.killed(&["stage", TABLE, "p", "more.parquet", "--append"], "stage:answered");
    let running = place.paused(&["stage", TABLE, "q", "others.parquet", "--append"], "stage:intended");
    let dry = place.lake(&["recover", TABLE, "--fence", "--dry-run"]).ends(0);
    dry.says(&["p  OPEN", "would be closed", "q  OPEN", "left alone", &format!("process {}", running.0.id()), "live"]);
    let before = place.seen();
    place.lake(&["status", TABLE]).ends(0).says(&["its process has ended", "live", "of tester until"]);
    assert_eq!(place.seen(), before, "so far nothing was done");
    place.lake(&["recover", TABLE, "--fence"]).ends(0).says(&["p  CLOSED", "closed for good", "left alone"]);
    assert_eq!(place.reconciled("p", 14), "closed");
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).complains(13, &["closed"]);
    let _ran = running.goes_on().ends(0);
    place.lake(&["validate", TABLE, "q"]).ends(0);
    place.lake(&["publish", TABLE, "q"]).ends(0);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 8, 9]);
    place.lake(&["recover", "no.such"]).complains(13, &["no.such", "does not exist"]);
    place.lake(&["recover", TABLE, "--takeover", "x"]).complains(2, &["--takeover"]);
}

/// `recover` itself, killed at each step of its fence: while it lives it has claimed what it is at, and afterwards the next
/// one does what it would have done.
#[test]
fn recover_too() {
    for step in STEPS {
        let place = shop();
        place.staged("p", "more.parquet");
        let line = ["recover", TABLE, "--fence"];
        let running = place.paused(&line, &format!("fence:{step}"));
        let claimed = ["left alone", &format!("process {}", running.0.id())];
        if step == NEVER_SENT {
            place.lake(&line).ends(0).says(&claimed).says(&["p  OPEN", "live"]);
        } else {
            place.lake(&line).ends(0).says(&claimed).says(&["p  CLOSED", "live"]);
        }
        let _status = running.kill();
        let before = place.seen();
        assert_eq!(place.lake(&["status", TABLE]).ends(0).out.contains("has ended"), step == NEVER_SENT, "{step}");
        place.lake(&line).ends(0).says(if step == NEVER_SENT {
            &["p  CLOSED", "closed for good"]
        } else {
            &["CLOSED"]
        });
        assert_eq!(place.seen() == before, step != NEVER_SENT, "{step}: closed once");
        place.lake(&line).ends(0).says(&["nothing to recover", "2 publications settled"]);
        assert_eq!(place.reconciled("p", 14), "closed", "{step}");
        assert_eq!(place.orders_in_main(), BEFORE, "{step}");
    }
}

/// A lease lasts for as long as its process: others are told whose it is, and what to do.
#[test]
fn a_lease_ends_with_its_process() {
    let place = shop();
    place.lake(&["begin", TABLE, "p"]).ends(0);
    let running = place.paused(&["stage", TABLE, "p", "more.parquet", "--append"], "stage:intended");
    let process = format!("process {}", running.0.id());
    let words = ["p", process.as_str(), "of tester", "until", "wait", "another id"];
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).complains(13, &words);
    place.lake(&["validate", TABLE, "p"]).complains(13, &words);
    place.lake(&["abandon", TABLE, "p", "--reason", "enough"]).complains(13, &words);
    let _status = running.kill();
    place.lake(&["abandon", TABLE, "p", "--reason", "enough"]).ends(0);
}

/// `begin --lease` keeps a candidate for its owner, whose other commands go on.
#[test]
fn a_reservation_is_the_owners() {
    let place = shop();
    place.lake(&["begin", TABLE, "p", "--lease", "1h"]).ends(0);
    let stranger = ["--owner", "stranger"];
    let line = ["stage", TABLE, "p", "more.parquet", "--append"];
    for _ in 0..2 {
        place.lake(&[&line[..], &stranger].concat()).complains(13, &["tester", "until", "another id"]);
        place.lake(&line).ends(0);
    }
}
