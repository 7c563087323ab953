//! PyIceberg as the job that writes to audit branches, as the engine that moves `main` past calve, and as the maintenance
//! that expires snapshots.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;

use integration::command::Warehouse;
use integration::flights;
use integration::readers::Append;
use integration::story::{
    HISTORY, NINTH, Story, TABLE, TENTH, assert_calve_agrees, assert_closed, assert_duckdb_agrees, assert_published,
    path, text,
};
use serde_json::Value;

const DAY_09: &str = "flight_date = '2013-08-09'";
const DAY_10: &str = "flight_date = '2013-08-10'";

/// Each check and what came of it.
fn outcomes(validated: &Value) -> BTreeMap<&str, &str> {
    let checks = validated.get("checks").and_then(Value::as_array).unwrap();
    checks.iter().map(|check| (text(check, "name"), text(check, "outcome"))).collect()
}

#[test]
fn totals_of_several_commits_of_a_job_are_compared_with_files() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    let ledger = warehouse.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    for file in ["flights-2013-08-09.parquet", "flights-2013-08-10.parquet"] {
        std::fs::copy(flights(file), ledger.join(file)).unwrap();
    }
    story.contract(
        r#"
        version = 1
        on-failure = "quarantine"
        [source.ledger]
        uri = "../ledger/*.parquet"
        [[check]]
        name = "keys"
        kind = "keys"
        columns = ["flight_date", "carrier", "flight", "origin"]
        within = "table"
        [[check]]
        name = "schema"
        kind = "schema"
        mode = "compatible"
        columns = [{ name = "flight_date", type = "date" }]
        [[check]]
        name = "scope"
        kind = "scope"
        [[check]]
        name = "totals"
        kind = "totals"
        measures = [
            { measure = "count(*)", source = "ledger" },
            { measure = "sum(distance)", source = "ledger" },
            { measure = "count(arr_delay)", source = "ledger" },
            { measure = "count(carrier)", expect = 1806 },
        ]
        [[check]]
        name = "volume"
        kind = "volume"
        min-rows = 1800
        max-rows = 1810
        "#,
    );
    // A day is missing: the keys are right, and the totals are not.
    story.begin("half", "flight_date >= '2013-08-09'");
    story.append("half", "flights-2013-08-09.parquet");
    let half = story.validate("half", 10);
    let found = outcomes(&half);
    assert_eq!((found["keys"], found["scope"]), ("pass", "pass"), "{half}");
    assert_eq!((found["totals"], found["volume"]), ("fail", "fail"), "{half}");

    story.begin("whole", "flight_date >= '2013-08-09'");
    for file in ["flights-2013-08-09.parquet", "flights-2013-08-10.parquet"] {
        assert!(matches!(story.append("whole", file), Append::Snapshot(_)));
    }
    let whole = story.validate("whole", 0);
    assert!(outcomes(&whole).values().all(|outcome| *outcome == "pass"), "{whole}");
    story.publish("whole");
    let seen = story.seen();
    assert_eq!((seen.main.of("2013-08-09"), seen.main.of("2013-08-10")), (NINTH, TENTH));
    assert_published(&seen, "whole");
    assert_closed(&seen, "half");
    assert_calve_agrees(warehouse.path(), TABLE, &seen);
}

#[test]
fn an_overwrite_inside_the_scope_is_published_and_a_delete_outside_it_is_not() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    // The day's rows are replaced, by two snapshots of PyIceberg's: one that deletes, one that appends.
    story.begin("again", DAY_09);
    story.change(&["overwrite", "audit/again", &path("flights-2013-08-09.parquet"), DAY_09]);
    let again = story.validate("again", 0);
    assert_eq!(outcomes(&again)["scope"], "pass", "{again}");
    story.publish("again");
    let seen = story.seen();
    assert_eq!((seen.main.rows, seen.main.of("2013-08-09")), (HISTORY + NINTH, NINTH));
    assert_published(&seen, "again");

    // A job that is allowed the tenth deletes from the eighth as well.
    story.begin("too-far", DAY_10);
    story.append("too-far", "flights-2013-08-10.parquet");
    story.change(&["delete", "audit/too-far", "flight_date = '2013-08-08' AND carrier = 'UA'"]);
    let too_far = story.validate("too-far", 10);
    assert_eq!(outcomes(&too_far)["scope"], "fail", "{too_far}");
    let after = story.seen();
    assert_closed(&after, "too-far");
    assert_eq!(after.main, seen.main, "what failed is visible");
    assert_duckdb_agrees(warehouse.path(), TABLE, &after);
    assert_calve_agrees(warehouse.path(), TABLE, &after);
}

#[test]
fn a_delete_that_rewrites_a_file_is_in_scope_if_the_other_rows_are_unchanged() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    story.contract(
        "version = 1\n[[check]]\nname = \"scope\"\nkind = \"scope\"\n\
         [[check]]\nname = \"volume\"\nkind = \"volume\"\nmin-rows = 0\nmax-rows = 0\nallow-empty = true\n",
    );
    let united = "flight_date = '2013-08-09' AND carrier = 'UA'";
    story.begin("no-united", united);
    story.change(&["delete", "audit/no-united", united]);
    let validated = story.validate("no-united", 0);
    assert_eq!(outcomes(&validated)["scope"], "pass", "{validated}");
    story.publish("no-united");
    let seen = story.seen();
    let left = seen.main.of("2013-08-09");
    assert!(0 < left && left < NINTH, "{left}");
    assert_eq!(seen.main.rows, HISTORY + left);
    assert_duckdb_agrees(warehouse.path(), TABLE, &seen);
}

#[test]
fn a_fast_forward_past_calve_is_reported_and_settled() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();

    // To the seal: what is visible is what was checked.
    story.begin("sealed", DAY_10);
    story.stage("sealed", "flights-2013-08-10.parquet");
    let sealed = story.validate("sealed", 0);
    story.change(&["set-main", "audit/sealed"]);
    let found = story.report(&["reconcile", "sealed"], 0);
    assert_eq!(found.pointer("/finding/state").unwrap(), "bypassed", "{found}");
    assert_eq!(found.pointer("/finding/sealed").unwrap(), true, "{found}");
    assert_eq!((found.get("row").unwrap(), found.get("settled").unwrap()), (&Value::from(3), &Value::from(true)));
    let seen = story.seen();
    assert_eq!(seen.main.rows, HISTORY + NINTH + TENTH);
    assert_eq!(seen.refs["main"].snapshot, text(&sealed, "seal"));
    assert_eq!(seen.refs["published/sealed"].snapshot, text(&sealed, "seal"));
    assert_published(&seen, "sealed");
    assert_calve_agrees(warehouse.path(), TABLE, &seen);
    // From then on it is a publication like any other, and the engine cannot go on writing to it.
    let again = story.report(&["reconcile", "sealed"], 0);
    assert_eq!(again.pointer("/finding/state").unwrap(), "published", "{again}");
    assert!(matches!(story.append("sealed", "flights-2013-08-10.parquet"), Append::Refused(_)));

    // To a head that no evidence covers: visible, and a person has to look.
    story.begin("unsealed", "flight_date = '2013-08-11'");
    story.append("unsealed", "flights-2013-08-10.parquet");
    let head = story.seen().refs["audit/unsealed"].snapshot.clone();
    story.change(&["set-main", "audit/unsealed"]);
    let found = story.report(&["reconcile", "unsealed"], 21);
    assert_eq!(found.pointer("/finding/state").unwrap(), "bypassed", "{found}");
    assert_eq!(found.pointer("/finding/sealed").unwrap(), false, "{found}");
    let seen = story.seen();
    assert_eq!((seen.main.rows, &seen.refs["published/unsealed"].snapshot), (HISTORY + NINTH + 2 * TENTH, &head));
    assert_eq!(seen.refs["audit/unsealed"].kind, "tag");
    // The receipt says what it is a receipt of.
    let published = story.report(&["publish", "unsealed"], 0);
    assert_eq!(published.get("sealed").unwrap(), false, "{published}");
    let log = story.report(&["log"], 0);
    let entries = log.get("entries").and_then(Value::as_array).unwrap();
    let entry = entries.iter().find(|entry| text(entry, "publication") == "unsealed").unwrap();
    assert_eq!(entry.get("sealed").unwrap(), false, "{log}");
}

#[test]
fn publish_finds_that_an_engine_was_there_before() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.begin("first", DAY_10);
    story.stage("first", "flights-2013-08-10.parquet");
    story.validate("first", 0);
    story.change(&["set-main", "audit/first"]);
    let published = story.publish("first");
    assert_eq!((text(&published, "outcome"), text(&published, "via")), ("published", "bypassed"), "{published}");
    let seen = story.seen();
    assert_eq!(seen.main.rows, TENTH);
    assert_published(&seen, "first");
}

/// PyIceberg's expiry heeds no retention: it keeps what refs name, takes everything between, and cuts the parents of
/// what it leaves. No row may be lost by that, and no verdict may be wrong.
#[test]
fn expiry_loses_no_row_and_makes_no_verdict_wrong() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    story.begin("bad", DAY_09);
    story.stage("bad", "flights-2013-08-09-dup.parquet");
    story.validate("bad", 10);
    // An open candidate of PyIceberg's, one of calve's, and a sealed one.
    story.begin("engine", DAY_10);
    story.append("engine", "flights-2013-08-10.parquet");
    story.begin("open", DAY_10);
    story.stage("open", "flights-2013-08-10.parquet");
    story.begin("sealed", DAY_10);
    story.stage("sealed", "flights-2013-08-10.parquet");
    story.validate("sealed", 0);

    let before = story.seen();
    assert_calve_agrees(warehouse.path(), TABLE, &before);
    story.change(&["expire"]);
    let after = story.seen();
    assert!(after.snapshots.len() < before.snapshots.len(), "nothing was expired: this test shows nothing");
    assert_eq!((&after.refs, &after.at, &after.main), (&before.refs, &before.at, &before.main));
    assert_duckdb_agrees(warehouse.path(), TABLE, &after);
    assert_calve_agrees(warehouse.path(), TABLE, &after);
    for (id, state, visibility) in [
        ("history", "published", Some("history-ends")),
        ("day-09", "published", Some("visible")),
        ("bad", "closed", None),
        // Without the marker nothing says whose a branch is any more.
        ("engine", "foreign", None),
        ("open", "foreign", None),
        ("sealed", "foreign", None),
    ] {
        let found = story.warehouse_report(&["reconcile", TABLE, id]);
        let of = |key: &str| found.pointer(&format!("/finding/{key}")).and_then(Value::as_str);
        assert_eq!((of("state"), of("visibility")), (Some(state), visibility), "{found}");
    }
    // What lost its marker is not published on trust; it can be closed, and its rows begun again.
    for id in ["engine", "open", "sealed"] {
        story.report(&["publish", id], 10);
        story.report(&["abandon", id, "--reason", "its marker was expired"], 0);
    }
    assert_eq!(story.seen().main, before.main);
    story.begin("again", DAY_10);
    story.stage("again", "flights-2013-08-10.parquet");
    story.validate("again", 0);
    story.publish("again");
    let last = story.seen();
    assert_eq!((last.main.rows, last.main.of("2013-08-10")), (HISTORY + NINTH + TENTH, TENTH));
    for id in ["bad", "engine", "open", "sealed"] {
        assert_closed(&last, id);
    }
    for id in ["history", "day-09", "again"] {
        assert_published(&last, id);
    }
    assert_duckdb_agrees(warehouse.path(), TABLE, &last);
}

#[test]
fn a_schema_that_an_engine_evolved_after_the_seal_stops_the_publication() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    story.begin("late", DAY_10);
    story.stage("late", "flights-2013-08-10.parquet");
    story.validate("late", 0);
    story.change(&["evolve", "note"]);
    let published = story.report(&["publish", "late"], 11);
    assert_eq!(text(&published, "outcome"), "conflict", "{published}");
    assert_eq!(story.seen().main.rows, HISTORY + NINTH);
}
