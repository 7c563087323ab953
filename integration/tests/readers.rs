//! What calve writes, read by PyIceberg and DuckDB; and PyIceberg as the job that writes to audit branches.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use integration::command::{Warehouse, calve};
use integration::flights;
use integration::readers::{Append, DuckDb, PyIceberg, append, create, odd_names, run_line};
use integration::story::{
    DAY, FOREVER, HISTORY, NINTH, Story, TABLE, TENTH, assert_calve_agrees, assert_closed, assert_duckdb_agrees,
    assert_own_manifest_lists, assert_published, text,
};
use serde_json::Value;

#[test]
fn the_demo_is_what_readers_see() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("demo");
    let demo = calve(folder.path(), &["demo", "--dir", &kept.to_string_lossy()]).unwrap().expect_code(0).unwrap();
    let report = demo.json().unwrap();
    let (warehouse, table) = (PathBuf::from(text(&report, "warehouse")), text(&report, "table"));
    let warehouse = if warehouse.is_absolute() { warehouse } else { folder.path().join(warehouse) };

    let seen = PyIceberg::read(&warehouse, table, DAY).unwrap();
    assert_duckdb_agrees(&warehouse, table, &seen);
    assert_calve_agrees(&warehouse, table, &seen);
    assert_own_manifest_lists(&seen);
    // The day arrived twice, once with duplicates: what readers see is the right one, once.
    assert_eq!(seen.main.of("2013-08-09"), NINTH);
    assert_eq!((1..=8).map(|day| seen.main.of(&format!("2013-08-0{day}"))).sum::<u64>(), HISTORY);

    let main = &seen.refs["main"];
    assert_eq!(main.kind, "branch");
    assert_eq!(
        (main.min_snapshots_to_keep, main.max_snapshot_age_ms, main.max_ref_age_ms),
        (None, None, None),
        "a publication gave main a retention of its own"
    );

    let visible: BTreeMap<String, u64> = serde_json::from_value(report.get("main").cloned().unwrap()).unwrap();
    assert_eq!(visible, seen.main.by, "calve counts other rows in main than readers do");

    let publications = report.get("publications").and_then(Value::as_array).unwrap();
    let (mut published, mut closed) = (0, 0);
    for publication in publications {
        let (id, outcome) = (text(publication, "publication"), text(publication, "outcome"));
        match outcome {
            "published" => {
                assert_published(&seen, id);
                published += 1;
            }
            "quarantined" => {
                assert_closed(&seen, id);
                closed += 1;
            }
            "conflict" => {
                let (branch, seal) = seen.reference(&format!("audit/{id}")).unwrap();
                assert_eq!((branch.kind.as_str(), branch.max_ref_age_ms), ("branch", FOREVER), "{id}");
                assert_eq!(seal.summary["calve.verdict"], "pass", "{id}");
                assert!(!["published", "closed"].iter().any(|tag| seen.refs.contains_key(&format!("{tag}/{id}"))));
            }
            other => panic!("{id}: no outcome that this test knows: {other:?}"),
        }
    }
    assert!(published > 0 && closed > 0, "the demo shows both ends of a candidate: {report}");
    // And the other way round: no receipt that the demo does not report.
    let receipts = seen.refs.keys().filter(|name| name.starts_with("published/")).count();
    assert_eq!(receipts, published, "{:?}", seen.refs.keys());
}

#[test]
fn both_readers_read_versions_1_and_2() {
    for version in [1, 2] {
        let warehouse = Warehouse::new().unwrap();
        let story = Story::new(&warehouse, TABLE);
        story.create(version);
        story.history_and_ninth();
        let seen = story.seen();
        assert_eq!(seen.format_version, version);
        assert_eq!((seen.main.rows, seen.main.of("2013-08-09")), (HISTORY + NINTH, NINTH), "version {version}");
        assert_duckdb_agrees(warehouse.path(), TABLE, &seen);
        assert_own_manifest_lists(&seen);
        for id in ["history", "day-09"] {
            assert_published(&seen, id);
        }
    }
}

#[test]
fn both_readers_read_version_3() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(3);
    story.history_and_ninth();
    let seen = story.seen();
    assert_eq!((seen.format_version, seen.main.rows), (3, HISTORY + NINTH));
    assert_duckdb_agrees(warehouse.path(), TABLE, &seen);
    for id in ["history", "day-09"] {
        assert_published(&seen, id);
    }
}

#[test]
fn a_candidate_is_invisible_until_it_is_published() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    let begun = story.begin("day-10", "flight_date = '2013-08-10'");
    story.stage("day-10", "flights-2013-08-10.parquet");
    let validated = story.validate("day-10", 0);

    let sealed = story.seen();
    assert_eq!(story.duckdb().main, sealed.main);
    let marker = &sealed.snapshots[text(&begun, "marker")];
    assert_eq!((marker.parent.as_deref(), marker.operation.as_str()), (Some(text(&begun, "base")), "replace"));
    for (key, value) in [
        ("calve.publish-id", "day-10"),
        ("calve.incarnation", text(&begun, "incarnation")),
        ("calve.owner", text(&begun, "owner")),
        ("calve.base-snapshot-id", text(&begun, "base")),
    ] {
        assert_eq!(marker.summary.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(sealed.refs["audit/day-10"].snapshot, text(&validated, "seal"));
    for (key, report) in [("calve.candidate", "candidate"), ("calve.statement-digest", "statement")] {
        assert_eq!(sealed.snapshots[text(&validated, "seal")].summary[key], text(&validated, report));
    }
    assert_eq!((sealed.main.rows, sealed.at["audit/day-10"].rows), (HISTORY + NINTH, HISTORY + NINTH + TENTH));
    let (branch, seal) = sealed.reference("audit/day-10").unwrap();
    assert_eq!(branch.kind, "branch");
    let kept = (branch.min_snapshots_to_keep, branch.max_snapshot_age_ms, branch.max_ref_age_ms);
    assert_eq!(kept, (Some(i64::from(i32::MAX)), FOREVER, FOREVER));
    let data = &sealed.snapshots[seal.parent.as_ref().unwrap()];
    assert_ne!(data.manifest_list, seal.manifest_list);

    let published = story.publish("day-10");
    let seen = story.seen();
    assert_eq!(text(&published, "main"), seen.refs["main"].snapshot);
    assert_calve_agrees(warehouse.path(), TABLE, &seen);
    assert_duckdb_agrees(warehouse.path(), TABLE, &seen);
    assert_eq!(seen.main.rows, HISTORY + NINTH + TENTH);
    assert_eq!(seen.refs["main"].snapshot, branch.snapshot, "what is visible is not the seal that was checked");
    assert_published(&seen, "day-10");
}

#[test]
fn the_lines_that_publish_prints_work_as_they_are() {
    let warehouse = Warehouse::named("Jane's lake ü ").unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.begin("day-10", "flight_date = '2013-08-10'");
    story.stage("day-10", "flights-2013-08-10.parquet");
    story.validate("day-10", 0);
    let published = story.publish("day-10");
    let lines: BTreeMap<String, String> =
        serde_json::from_value::<Vec<(String, String)>>(published["read-with"].clone()).unwrap().into_iter().collect();
    assert_eq!(lines.keys().collect::<Vec<_>>(), ["DuckDB", "PyIceberg"]);
    for (reader, line) in &lines {
        assert_eq!(run_line(reader, line).unwrap(), TENTH, "{line}");
    }
}

#[test]
fn duplicates_are_quarantined_and_never_seen() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.begin("dup", "flight_date = '2013-08-09'");
    story.stage("dup", "flights-2013-08-09-dup.parquet");
    story.validate("dup", 10);
    let seen = story.seen();
    assert_eq!(seen.main.rows, 0);
    assert_closed(&seen, "dup");
    assert!(seen.snapshots.values().all(|snapshot| !snapshot.summary.contains_key("calve.verdict")), "it was sealed");
    let Append::Refused(why) = story.append("dup", "flights-2013-08-09.parquet") else { panic!("appended") };
    assert!(why.contains("tag"), "{why}");
}

#[test]
fn a_job_on_pyiceberg_writes_a_candidate_in_several_commits() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    story.begin("days", "flight_date >= '2013-08-10'");
    // Two commits of an engine: its writes erase the branch's retention, which the seal has to set again.
    for _ in 0..2 {
        let appended = story.append("days", "flights-2013-08-10.parquet");
        assert!(matches!(appended, Append::Snapshot(_)), "{appended:?}");
    }
    // The day is there twice now: calve has to see the rows of both commits.
    story.validate("days", 10);
    assert_closed(&story.seen(), "days");

    story.begin("late", "flight_date = '2013-08-10'");
    let Append::Snapshot(head) = story.append("late", "flights-2013-08-10.parquet") else { panic!("refused") };
    story.validate("late", 0);
    let sealed = story.seen();
    let (branch, seal) = sealed.reference("audit/late").unwrap();
    assert_eq!(seal.parent.as_deref(), Some(head.as_str()));
    assert_eq!((branch.max_snapshot_age_ms, branch.max_ref_age_ms), (FOREVER, FOREVER));
    story.publish("late");
    let seen = story.seen();
    assert_eq!((seen.main.rows, seen.main.of("2013-08-10")), (HISTORY + NINTH + TENTH, TENTH));
    assert_published(&seen, "late");
    assert_eq!(story.duckdb().main, seen.main);
}

#[test]
fn disjoint_commits_of_a_job_are_published_together() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.begin("both", "flight_date >= '2013-08-09'");
    for file in ["flights-2013-08-09.parquet", "flights-2013-08-10.parquet"] {
        let appended = story.append("both", file);
        assert!(matches!(appended, Append::Snapshot(_)), "{appended:?}");
    }
    story.validate("both", 0);
    story.publish("both");
    let seen = story.seen();
    assert_eq!((seen.main.of("2013-08-09"), seen.main.of("2013-08-10")), (NINTH, TENTH));
    assert_published(&seen, "both");
}

#[test]
fn a_late_append_to_a_consumed_branch_is_refused_by_the_client() {
    let warehouse = Warehouse::new().unwrap();
    let story = Story::new(&warehouse, TABLE);
    story.create(2);
    story.history_and_ninth();
    story.begin("gone", "flight_date = '2013-08-10'");
    story.run(&["abandon", TABLE, "gone", "--reason", "the job was cancelled"], 0);
    let before = story.seen();
    assert_closed(&before, "gone");
    for id in ["day-09", "gone"] {
        let Append::Refused(why) = story.append(id, "flights-2013-08-10.parquet") else { panic!("{id}: appended") };
        assert!(why.contains("tag"), "{why}");
    }
    assert_eq!(story.seen(), before, "a refused append left something");
}

#[test]
fn a_table_that_pyiceberg_made_can_be_published_to() {
    for version in [1, 2] {
        let warehouse = Warehouse::new().unwrap();
        let story = Story::new(&warehouse, TABLE);
        // calve makes the catalog, PyIceberg the table beside calve's own.
        Story::new(&warehouse, "demo.other").create(2);
        create(warehouse.path(), TABLE, &flights("flights-2013-08-01..08.parquet"), DAY, version).unwrap();
        let base = story.seen().refs["main"].snapshot.clone();
        story.begin("day-09", "flight_date = '2013-08-09'");
        story.stage("day-09", "flights-2013-08-09.parquet");
        story.validate("day-09", 0);
        story.publish("day-09");
        let seen = story.seen();
        assert_eq!((seen.main.rows, seen.main.of("2013-08-09")), (HISTORY + NINTH, NINTH), "version {version}");
        assert_eq!(seen.refs["audit/day-09"].snapshot, base, "the tombstone is at the base");
        assert_published(&seen, "day-09");
        assert_duckdb_agrees(warehouse.path(), TABLE, &seen);
        // And PyIceberg goes on writing to main afterwards.
        let appended = append(warehouse.path(), TABLE, "main", &flights("flights-2013-08-10.parquet")).unwrap();
        assert!(matches!(appended, Append::Snapshot(_)), "{appended:?}");
        assert_eq!(story.seen().main.rows, HISTORY + NINTH + TENTH);
    }
}

/// Partition fields whose names are no Avro names: each writer puts others into its manifests, and all read all.
#[test]
fn partition_fields_may_have_any_name() {
    let header = "id,order-day,1st,städt";
    for version in [1, 2, 3] {
        let warehouse = Warehouse::new().unwrap();
        let file = |name: &str, rows: &str| {
            let path = warehouse.path().join(name);
            std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
            path.to_string_lossy().into_owned()
        };
        let first = file("first.csv", "1,2013-08-08,a,Köln\n2,2013-08-09,b,Bonn\n3,2013-08-09,b,Bonn\n");
        let again = file("again.csv", "2,2013-08-10,c,Ulm\n");
        let late = file("late.csv", "4,2013-08-11,d,Köln\n");
        let contract = "version = 1\n\n[[check]]\nname = \"keys\"\nkind = \"keys\"\ncolumns = [\"id\"]\nwithin = \"table\"\n\n\
                        [[check]]\nname = \"scope\"\nkind = \"scope\"\n";
        // The first one makes the catalog.
        for (table, by_pyiceberg) in [("demo.ours", false), ("demo.theirs", true)] {
            let story = Story::new(&warehouse, table);
            story.contract(contract);
            let (text, by) = (version.to_string(), "day(order-day), 1st, städt");
            if by_pyiceberg {
                // PyIceberg writes no tables of version 3.
                if version == 3 {
                    continue;
                }
                odd_names(warehouse.path(), table, &["create", &text, &first]).unwrap();
            } else {
                story.run(&["create", table, "--like", &first, "--partition-by", by, "--format-version", &text], 0);
                story.begin("first", "id <= 3");
                story.run(&["stage", table, "first", &first, "--append"], 0);
                story.validate("first", 0);
                story.publish("first");
            }
            // One of two rows of a file goes: the manifest that lists it is read, and written anew.
            story.begin("again", "id = 2");
            story.run(&["stage", table, "again", &again, "--replace"], 0);
            story.validate("again", 0);
            story.publish("again");
            if !by_pyiceberg {
                // DuckDB takes ASCII alone, and so cannot read what PyIceberg makes of `städt`.
                let duckdb = DuckDb::read(warehouse.path(), table, "städt").unwrap();
                assert_eq!((duckdb.main.rows, duckdb.main.of("Köln")), (3, 1), "{table} {version}");
            }
            let mut rows = vec!["1 2013-08-08 a Köln", "2 2013-08-10 c Ulm", "3 2013-08-09 b Bonn"];
            let mut partitions = vec!["2013-08-08 a Köln", "2013-08-09 b Bonn", "2013-08-10 c Ulm"];
            let mut cologne = 1;
            if version < 3 {
                story.begin("late", "\"städt\" = 'Köln' AND id = 4");
                odd_names(warehouse.path(), table, &["append", "audit/late", &late]).unwrap();
                story.validate("late", 0);
                story.publish("late");
                rows.push("4 2013-08-11 d Köln");
                partitions.push("2013-08-11 d Köln");
                cologne = 2;
            }
            let seen = odd_names(warehouse.path(), table, &["read"]).unwrap();
            assert_eq!(
                (seen.rows, seen.pruned),
                (rows.iter().map(|row| (*row).to_owned()).collect(), cologne),
                "{table} {version}"
            );
            assert_eq!(seen.partitions, partitions, "{table} {version}");
        }
    }
}
