//! The ways in which engines write a candidate.
//!
//! Spark takes the name `branch_audit/ID`, and `spark.wap.branch` where the table has `write.wap.enabled`. Under format
//! version 1 it rewrites files whatever the table asks for. SeaweedFS' table buckets refuse the
//! Puffin files of deletion vectors, so those are shown on the reference catalog alone.

use integration::beds::{SERVICES, Service};
use integration::lake::{Lake, rows_of};
use integration::readers::Append;
use integration::services::{At, shared_spark};
use integration::story::{HISTORY, NINTH, TENTH, assert_closed, assert_own_manifest_lists, assert_published, path};
use serde_json::Value;

const NINTH_FILE: &str = "flights-2013-08-09.parquet";
const DYNAMIC: (&str, &str) = ("spark.sql.sources.partitionOverwriteMode", "dynamic");

/// How many delete files a branch has, as Spark counted them in its last snapshot.
fn deletes(lake: &Lake, branch: &str) -> u64 {
    let head = lake.head(branch);
    let total = "summary['total-delete-files']";
    let rows = lake.sql(&format!("SELECT {total} FROM {}.snapshots WHERE snapshot_id = {head}", lake.full()));
    rows[0][0].as_str().unwrap().parse().unwrap()
}

/// Every kind of statement, one publication each.
fn every_statement(lake: &Lake, merge_on_read: bool) {
    let spark = shared_spark().unwrap();
    let (full, day) = (lake.full(), "2013-08-09");
    // The branch as a setting of the session: the statements themselves name the table.
    lake.begin("insert", day);
    let wap = format!("INSERT INTO {full} {}", rows_of("flights-2013-08-09-dup.parquet"));
    let delete = format!("DELETE FROM {full} WHERE flight_date = DATE '{day}'");
    let again = format!("INSERT INTO {full} {}", rows_of(NINTH_FILE));
    spark.on_branch("audit/insert", &[&wap, &delete, &again]).unwrap();
    assert_eq!(lake.at(At::Main).days.rows, HISTORY);
    lake.validate_and_publish("insert");
    let whole = lake.at(At::Main);
    assert_eq!((whole.days.rows, whole.days.of(day)), (HISTORY + NINTH, NINTH));

    lake.begin("update", day);
    let branch = lake.branch("update");
    lake.sql(&format!(
        "UPDATE {branch} SET distance = distance + 1 WHERE flight_date = DATE '{day}' AND carrier = 'UA'"
    ));
    assert_eq!(deletes(lake, "audit/update") > 0, merge_on_read);
    lake.validate_and_publish("update");
    let united = lake.sql(&format!("SELECT count(*) FROM {full} WHERE flight_date = DATE '{day}' AND carrier = 'UA'"));
    let updated = lake.at(At::Main);
    assert_eq!(updated.days, whole.days);
    assert_eq!(updated.sums[0], whole.sums[0] + united[0][0].as_i64().unwrap());

    // Puts United's distances right, and takes Southwest out.
    lake.begin("merge", day);
    let branch = lake.branch("merge");
    let merge = |and: &str, what: &str| {
        format!(
            "MERGE INTO {branch} t USING ({}) s ON t.flight_date = s.flight_date AND t.carrier = s.carrier \
             AND t.flight = s.flight AND t.origin = s.origin {and} {what}",
            rows_of(NINTH_FILE)
        )
    };
    lake.sql(&merge(
        "",
        "WHEN MATCHED AND s.carrier = 'UA' THEN UPDATE SET * WHEN MATCHED AND s.carrier = 'WN' THEN DELETE",
    ));
    lake.validate_and_publish("merge");
    let without = lake.at(At::Main);
    assert!(without.days.of(day) < NINTH, "{without:?}");

    // And puts Southwest back.
    lake.begin("insert-missing", day);
    let branch = lake.branch("insert-missing");
    lake.sql(&format!(
        "MERGE INTO {branch} t USING ({}) s ON t.flight_date = s.flight_date AND t.carrier = s.carrier \
         AND t.flight = s.flight AND t.origin = s.origin WHEN NOT MATCHED THEN INSERT *",
        rows_of(NINTH_FILE)
    ));
    lake.validate_and_publish("insert-missing");
    assert_eq!(lake.at(At::Main), whole);

    lake.begin("overwrite", day);
    let overwrite = format!("INSERT OVERWRITE {} {}", lake.branch("overwrite"), rows_of(NINTH_FILE));
    spark.under(&[DYNAMIC], &[&overwrite]).unwrap();
    lake.validate_and_publish("overwrite");

    // What the statement touches beyond the scope is found by reading, whichever way it was written.
    lake.begin("too-far", day);
    let branch = lake.branch("too-far");
    lake.sql(&format!("DELETE FROM {branch} WHERE carrier = 'UA' AND flight_date >= DATE '2013-08-08'"));
    let failed = lake.report(&["validate", "too-far"], 10);
    let checks = failed.get("checks").and_then(Value::as_array).unwrap();
    assert!(checks.iter().any(|check| check["name"] == "scope" && check["outcome"] == "fail"), "{failed}");

    assert_eq!(lake.everyone_sees(), whole);
    let seen = lake.seen();
    for id in ["insert", "update", "merge", "insert-missing", "overwrite"] {
        assert_published(&seen, id);
    }
    assert_closed(&seen, "too-far");
    assert_own_manifest_lists(&seen);
}

fn modes(mode: &str) -> String {
    ["delete", "update", "merge"].map(|verb| format!("'write.{verb}.mode' = '{mode}'")).join(", ")
}

#[test]
fn spark_writes_the_branch_with_copy_on_write() {
    for service in SERVICES {
        every_statement(&Lake::with_history(service, "cow", 2, &modes("copy-on-write")), false);
    }
}

#[test]
fn spark_writes_the_branch_with_merge_on_read() {
    for service in SERVICES {
        every_statement(&Lake::with_history(service, "mor", 2, &modes("merge-on-read")), true);
    }
}

#[test]
fn spark_writes_the_branch_of_a_table_of_version_1() {
    every_statement(&Lake::with_history(Service::SeaweedFs, "one", 1, ""), false);
}

#[test]
fn spark_writes_the_branch_of_a_table_of_version_3() {
    every_statement(&Lake::with_history(Service::SeaweedFs, "three", 3, &modes("copy-on-write")), false);
}

#[test]
fn deletion_vectors_are_an_error_that_names_the_file_and_never_a_pass() {
    let lake = Lake::with_history(Service::Reference, "vectors", 3, &modes("merge-on-read"));
    let before = lake.everyone_sees();
    lake.begin("update", "2013-08-08");
    let branch = lake.branch("update");
    lake.sql(&format!("UPDATE {branch} SET distance = 1 WHERE flight_date = DATE '2013-08-08' AND carrier = 'UA'"));
    assert!(deletes(&lake, "audit/update") > 0);
    let failed = lake.report(&["validate", "update"], 10);
    let checks = failed.get("checks").and_then(Value::as_array).unwrap();
    let keys = checks.iter().find(|check| check["name"] == "keys").unwrap();
    assert_eq!(keys["outcome"], "error", "{failed}");
    assert!(failed.to_string().contains("deletion vector") && failed.to_string().contains(".puffin"), "{failed}");
    lake.report(&["publish", "update"], 10);
    assert_eq!(lake.everyone_sees(), before);

    // A day without any is published as ever, beside those that are in main already.
    lake.sql(&format!("DELETE FROM {} WHERE flight_date = DATE '2013-08-01' AND carrier = 'UA'", lake.full()));
    assert!(deletes(&lake, "main") > 0);
    lake.publish_day("day-09", "2013-08-09");
    assert_eq!(lake.at(At::Main).days.of("2013-08-09"), NINTH);
    assert_published(&lake.seen(), "day-09");
}

#[test]
fn pyiceberg_writes_the_branch() {
    for service in SERVICES {
        let lake = Lake::with_history(service, "python", 2, "");
        let day = "flight_date = '2013-08-09'";
        lake.begin("append", "2013-08-09");
        assert!(matches!(lake.append("audit/append", NINTH_FILE), Append::Snapshot(_)));
        lake.validate_and_publish("append");
        let whole = lake.at(At::Main);
        assert_eq!((whole.days.rows, whole.days.of("2013-08-09")), (HISTORY + NINTH, NINTH));

        lake.begin("overwrite", "2013-08-09");
        lake.change(&["overwrite", "audit/overwrite", &path(NINTH_FILE), day]);
        lake.validate_and_publish("overwrite");
        assert_eq!(lake.everyone_sees(), whole);

        lake.begin("delete", "2013-08-09");
        lake.change(&["delete", "audit/delete", &format!("{day} AND carrier = 'WN'")]);
        lake.validate_and_publish("delete");
        let seen = lake.everyone_sees();
        assert!(0 < seen.days.of("2013-08-09") && seen.days.of("2013-08-09") < NINTH, "{seen:?}");
        for id in ["append", "overwrite", "delete"] {
            assert_published(&lake.seen(), id);
        }
    }
}

#[test]
fn two_engines_write_one_candidate() {
    let lake = Lake::with_history(Service::SeaweedFs, "both", 2, "");
    lake.report(&["begin", "days", "--scope", "flight_date >= '2013-08-09'"], 0);
    lake.sql(&format!("INSERT INTO {} {}", lake.branch("days"), rows_of(NINTH_FILE)));
    assert!(matches!(lake.append("audit/days", "flights-2013-08-10.parquet"), Append::Snapshot(_)));
    lake.validate_and_publish("days");
    let seen = lake.everyone_sees();
    assert_eq!((seen.days.of("2013-08-09"), seen.days.of("2013-08-10")), (NINTH, TENTH));
}
