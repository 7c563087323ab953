//! What engines do to a candidate past calve, and how it is told.
//!
//! Spark refuses to write to a tag, so a late job cannot reach a branch that was consumed. It offers nothing of ours to
//! `publish_changes`, which looks for a `wap.id`, and cannot cherry-pick a marker or a seal, which are `replace`, but for a
//! marker on main as it is: that is a fast-forward. It can fast-forward main to a branch, drop a branch, make a missing one
//! again under `spark.wap.branch`, and cherry-pick the data snapshot of a candidate by its id: each is seen in the table.

use integration::beds::{SERVICES, Service};
use integration::lake::{Lake, rows_of};
use integration::readers::Append;
use integration::services::{At, shared_spark};
use integration::story::{HISTORY, NINTH, TENTH, assert_closed, assert_published, text};
use serde_json::Value;

const TENTH_FILE: &str = "flights-2013-08-10.parquet";

fn sealed(service: Service, namespace: &str) -> Lake {
    let lake = Lake::with_history(service, namespace, 2, "");
    lake.begin_and_insert("day-09", "2013-08-09");
    lake.report(&["validate", "day-09"], 0);
    lake
}

/// Calls a procedure on the table.
fn call(lake: &Lake, procedure: &str, arguments: &str) -> String {
    format!("CALL {}.system.{procedure}('{}', {arguments})", lake.catalog(), lake.table)
}

/// S22: after publish and after abandon, engines are refused, by the name and by the session's setting.
#[test]
fn a_late_job_is_refused_after_publish_and_after_abandon() {
    for service in SERVICES {
        let lake = Lake::with_history(service, "late", 2, "");
        lake.publish_day("day-09", "2013-08-09");
        lake.begin_and_insert("gone", "2013-08-10");
        lake.report(&["abandon", "gone", "--reason", "the job was cancelled"], 0);
        let before = lake.seen();
        for id in ["day-09", "gone"] {
            let insert = |table: &str| format!("INSERT INTO {table} {}", rows_of(TENTH_FILE));
            let by_name = lake.refused(&insert(&lake.branch(id)));
            assert!(by_name.contains("is a tag, not a branch"), "{by_name}");
            let branch = format!("audit/{id}");
            let by_setting = shared_spark().unwrap().on_branch(&branch, &[&insert(&lake.full())]).unwrap_err();
            assert!(by_setting.to_string().contains("is a tag, not a branch"), "{by_setting}");
            let delete = format!("DELETE FROM {} WHERE flight_date = DATE '2013-08-09'", lake.branch(id));
            assert!(lake.refused(&delete).contains("is a tag"), "{id}");
            let Append::Refused(why) = lake.append(&branch, TENTH_FILE) else { panic!("{id}: PyIceberg appended") };
            assert!(why.contains("tag"), "{why}");
        }
        let after = lake.seen();
        assert_eq!((&after.refs, &after.main), (&before.refs, &before.main));
        assert_published(&after, "day-09");
        assert_closed(&after, "gone");
    }
}

/// S23: fast-forwarded to the seal, it is settled as published; to what stands above a seal, it is told as what it is.
#[test]
fn a_fast_forward_is_told_and_settled() {
    for service in SERVICES {
        let lake = sealed(service, "forward");
        let seal = lake.head("audit/day-09");
        lake.sql(&call(&lake, "fast_forward", "'main', 'audit/day-09'"));
        let found = lake.report(&["reconcile", "day-09"], 0);
        assert_eq!(found.pointer("/finding/state").unwrap(), "bypassed", "{found}");
        assert_eq!(found.pointer("/finding/sealed").unwrap(), true, "{found}");
        assert_eq!(found.get("settled"), Some(&Value::from(true)), "{found}");
        assert_eq!(lake.reconcile("day-09", 0), ("published".to_owned(), 2));
        assert_eq!((lake.head("main"), lake.head("published/day-09")), (seal.clone(), seal));
        assert_published(&lake.seen(), "day-09");
        assert_eq!(lake.everyone_sees().days.rows, HISTORY + NINTH);

        lake.begin_and_insert("above", "2013-08-10");
        lake.report(&["validate", "above"], 0);
        // A late writer: the seal no longer covers the branch.
        lake.sql(&format!("INSERT INTO {} {}", lake.branch("above"), rows_of(TENTH_FILE)));
        assert_eq!(lake.reconcile("above", 10), ("subject-moved".to_owned(), 9));
        lake.report(&["publish", "above"], 10);
        assert_eq!(lake.at(At::Main).days.rows, HISTORY + NINTH);
        let head = lake.head("audit/above");
        lake.sql(&call(&lake, "fast_forward", "'main', 'audit/above'"));
        let found = lake.report(&["reconcile", "above"], 21);
        assert_eq!(found.pointer("/finding/state").unwrap(), "bypassed", "{found}");
        assert_eq!(found.pointer("/finding/sealed").unwrap(), false, "{found}");
        assert_eq!(lake.head("published/above"), head);
        assert_eq!(lake.everyone_sees().days.of("2013-08-10"), 2 * TENTH);
        let log = lake.report(&["log"], 0);
        let entries = log.get("entries").and_then(Value::as_array).unwrap();
        let entry = entries.iter().find(|entry| text(entry, "publication") == "above").unwrap();
        assert_eq!(entry.get("sealed"), Some(&Value::from(false)), "{log}");
    }
}

#[test]
fn publish_finds_that_spark_was_there_before() {
    let lake = sealed(Service::SeaweedFs, "before");
    lake.sql(&call(&lake, "fast_forward", "'main', 'audit/day-09'"));
    let published = lake.report(&["publish", "day-09"], 0);
    assert_eq!((text(&published, "outcome"), text(&published, "via")), ("published", "bypassed"), "{published}");
    assert_published(&lake.seen(), "day-09");
}

/// A dropped branch is no verdict; one that an engine makes again under the name is not the candidate.
#[test]
fn a_branch_that_was_dropped_and_made_again_is_never_published() {
    for service in SERVICES {
        let lake = sealed(service, "dropped");
        let before = lake.at(At::Main);
        lake.sql(&format!("ALTER TABLE {} DROP BRANCH `audit/day-09`", lake.full()));
        assert_eq!(lake.reconcile("day-09", 21), ("gone".to_owned(), 11));
        lake.report(&["publish", "day-09"], 21);
        let insert = format!("INSERT INTO {} {}", lake.full(), rows_of("flights-2013-08-09.parquet"));
        shared_spark().unwrap().on_branch("audit/day-09", &[&insert]).unwrap();
        assert_eq!(lake.at(At::Ref("audit/day-09")).days.of("2013-08-09"), NINTH);
        assert_eq!(lake.reconcile("day-09", 10), ("foreign".to_owned(), 9));
        lake.report(&["publish", "day-09"], 10);
        lake.report(&["abandon", "day-09", "--reason", "its branch was dropped"], 0);
        assert_eq!(lake.reconcile("day-09", 14), ("closed".to_owned(), 5));
        assert_eq!(lake.everyone_sees(), before);
        assert_closed(&lake.seen(), "day-09");
    }
}

#[test]
fn spark_offers_nothing_of_ours_to_publish_and_what_it_picks_by_id_is_told() {
    let lake = sealed(Service::SeaweedFs, "picked");
    let seen = lake.seen();
    let (branch, seal) = seen.reference("audit/day-09").unwrap();
    let data = seal.parent.clone().unwrap();
    let marker = seen.snapshots[&data].parent.clone().unwrap();
    assert!(seen.snapshots.values().all(|snapshot| !snapshot.summary.contains_key("wap.id")));
    let none = lake.refused(&call(&lake, "publish_changes", "'day-09'"));
    assert!(none.contains("Cannot apply unknown WAP ID"), "{none}");
    // Main moves first, so that the pick makes a snapshot of its own that shares nothing with ours but the files.
    lake.sql(&format!("INSERT INTO {} {}", lake.full(), rows_of(TENTH_FILE)));
    let before = lake.at(At::Main);
    for snapshot in [&branch.snapshot, &marker] {
        let refused = lake.refused(&call(&lake, "cherrypick_snapshot", snapshot));
        assert!(refused.contains("not append, dynamic overwrite, or fast-forward"), "{refused}");
    }
    assert_eq!(lake.at(At::Main), before);
    lake.sql(&call(&lake, "cherrypick_snapshot", &data));
    let visible = lake.at(At::Main);
    assert_eq!((visible.days.of("2013-08-09"), visible.days.of("2013-08-10")), (NINTH, TENTH));
    let found = lake.report(&["reconcile", "day-09"], 21);
    assert_eq!(found.pointer("/finding/state").unwrap(), "bypassed", "{found}");
    assert_eq!(found.pointer("/finding/snapshot").unwrap(), &Value::Null, "{found}");
    // Never a second time, and never said to be invisible.
    let published = lake.report(&["publish", "day-09"], 0);
    assert_eq!(published.pointer("/finding/visibility").unwrap(), "superseded", "{published}");
    assert_eq!(lake.everyone_sees(), visible);
}

/// A marker on main as it is: the pick is a fast-forward, which changes no row. It is no publication, and main has moved.
#[test]
fn a_marker_that_spark_picks_publishes_nothing() {
    let lake = sealed(Service::Reference, "marker");
    let before = lake.at(At::Main);
    let seen = lake.seen();
    let (_, seal) = seen.reference("audit/day-09").unwrap();
    let marker = seen.snapshots[seal.parent.as_ref().unwrap()].parent.clone().unwrap();
    lake.sql(&call(&lake, "cherrypick_snapshot", &marker));
    assert_eq!(lake.head("main"), marker);
    assert_eq!(lake.everyone_sees(), before);
    // The marker has the files of the base: what moved is a name.
    assert_eq!(lake.reconcile("day-09", 12), ("moved".to_owned(), 7));
    lake.report(&["publish", "day-09"], 12);
    assert_eq!(lake.at(At::Main), before);
}
