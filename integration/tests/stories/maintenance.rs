//! Spark's maintenance around candidates in every state.
//!
//! It works on main: Iceberg 1.10's procedures know no branch, whatever `spark.wap.branch` says. Expiry heeds the retention
//! that refs of calve's carry, so candidates, receipts and fences outlast it, marker and all. Whatever rewrites main (data
//! files, manifests, position deletes) moves it, which open and sealed candidates are told as a conflict.
//! `remove_orphan_files` knows files by all snapshots of a table, whichever ref holds them. Its procedure refuses what is
//! younger than 24 hours; Spark's action does not, and is what is used here, so that no file of ours is too young to count.

use integration::beds::{SERVICES, Service};
use integration::lake::{Lake, Seen, rows_of};
use integration::proxy::{Proxy, Rule};
use integration::services::{At, shared_spark};
use integration::story::{HISTORY, NINTH, TENTH, assert_closed, assert_own_manifest_lists, assert_published, text};
use serde_json::Value;

const MERGE_ON_READ: &str = "'write.delete.mode' = 'merge-on-read'";

/// A table with a published day, a quarantined candidate, an open one and a sealed one.
fn every_state(service: Service, namespace: &str) -> (Lake, Seen) {
    let lake = Lake::with_history(service, namespace, 2, MERGE_ON_READ);
    lake.publish_day("day-09", "2013-08-09");
    lake.begin("bad", "2013-08-09");
    lake.sql(&format!("INSERT INTO {} {}", lake.branch("bad"), rows_of("flights-2013-08-09-dup.parquet")));
    lake.report(&["validate", "bad"], 10);
    lake.begin_and_insert("open", "2013-08-10");
    lake.begin_and_insert("sealed", "2013-08-10");
    lake.report(&["validate", "sealed"], 0);
    let seen = lake.at(At::Main);
    assert_eq!(seen.days.rows, HISTORY + NINTH);
    (lake, seen)
}

/// Calls a procedure on the table.
fn call(lake: &Lake, procedure: &str, arguments: &str) -> Vec<integration::services::Row> {
    lake.sql(&format!("CALL {}.system.{procedure}(table => '{}'{arguments})", lake.catalog(), lake.table))
}

/// What has been decided stands, and readers see what they saw.
fn nothing_broke(lake: &Lake, before: &Seen) {
    assert_eq!(lake.everyone_sees(), *before);
    assert_eq!(lake.reconcile("day-09", 0), ("published".to_owned(), 2));
    assert_eq!(lake.reconcile("bad", 14), ("closed".to_owned(), 5));
    assert_eq!(lake.at(At::Ref("published/day-09")).days.of("2013-08-09"), NINTH);
    for branch in ["audit/open", "audit/sealed"] {
        assert_eq!(lake.at(At::Ref(branch)).days.of("2013-08-10"), TENTH, "{branch}");
    }
    let seen = lake.seen();
    assert_published(&seen, "day-09");
    assert_closed(&seen, "bad");
    assert_own_manifest_lists(&seen);
}

/// Main moved, and the data with it (11) or not (12): both candidates are told, are closed, and their rows are published by a candidate that is begun again.
fn is_a_conflict(lake: &Lake, before: &Seen, code: i32) {
    assert_eq!(lake.reconcile("open", 14), ("open".to_owned(), 8));
    let validated = lake.report(&["validate", "open"], 0);
    assert_eq!(validated.get("base-moved").and_then(Value::as_bool), Some(true), "{validated}");
    for id in ["open", "sealed"] {
        assert_eq!(lake.reconcile(id, code), ("moved".to_owned(), 7));
        let published = lake.report(&["publish", id], code);
        assert_eq!(text(&published, "outcome"), "conflict", "{published}");
        assert_eq!(lake.at(At::Main), *before);
        lake.report(&["abandon", id, "--reason", "main was rewritten"], 0);
    }
    lake.publish_day("again", "2013-08-10");
    assert_eq!(lake.everyone_sees().days.rows, before.days.rows + TENTH);
}

/// Main stayed: the open candidate goes on to be published, after which the sealed one is in conflict.
fn goes_on(lake: &Lake, before: &Seen) {
    assert_eq!(lake.reconcile("open", 14), ("open".to_owned(), 8));
    assert_eq!(lake.reconcile("sealed", 14), ("sealed".to_owned(), 6));
    lake.validate_and_publish("open");
    let after = lake.everyone_sees();
    assert_eq!((after.days.rows, after.days.of("2013-08-10")), (before.days.rows + TENTH, TENTH));
    assert_eq!(lake.reconcile("sealed", 11), ("moved".to_owned(), 7));
}

#[test]
fn expiry_takes_nothing_that_a_candidate_or_a_receipt_stands_on() {
    for service in SERVICES {
        let (lake, _) = every_state(service, "expired");
        // Main moves on twice, so that there is something to expire.
        for carrier in ["HA", "WN"] {
            let rows = format!("flight_date = DATE '2013-08-01' AND carrier = '{carrier}'");
            lake.sql(&format!("DELETE FROM {} WHERE {rows}", lake.full()));
        }
        // A table whose refs age out at once: an engine's branch, which has no retention of its own, shows that they do.
        lake.sql(&format!(
            "ALTER TABLE {} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1', \
             'history.expire.max-snapshot-age-ms' = '1', 'history.expire.min-snapshots-to-keep' = '1')",
            lake.full()
        ));
        lake.sql(&format!("ALTER TABLE {} CREATE BRANCH plain", lake.full()));
        let before = lake.at(At::Main);
        let snapshots = lake.seen().snapshots.len();
        let all = ", older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1";
        call(&lake, "expire_snapshots", all);
        let left = lake.seen();
        assert!(left.snapshots.len() < snapshots, "{service:?}: nothing was expired, so this shows nothing");
        assert!(!left.refs.contains_key("plain"), "{service:?}: refs do not age out, so this shows nothing");
        nothing_broke(&lake, &before);
        is_a_conflict(&lake, &before, 11);
    }
}

#[test]
fn expiry_right_before_a_publication_leaves_it_whole() {
    let (lake, before) = every_state(Service::SeaweedFs, "expiring");
    call(&lake, "expire_snapshots", ", older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1");
    nothing_broke(&lake, &before);
    goes_on(&lake, &before);
    call(&lake, "expire_snapshots", ", older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1");
    assert_eq!(lake.reconcile("open", 0), ("published".to_owned(), 2));
    assert_eq!(lake.everyone_sees().days.of("2013-08-10"), TENTH);
}

#[test]
fn rewritten_data_files_are_a_conflict() {
    for service in SERVICES {
        let (lake, before) = every_state(service, "rewritten");
        let rewritten = call(&lake, "rewrite_data_files", ", options => map('rewrite-all', 'true')");
        assert_eq!(rewritten[0][0], 9, "{rewritten:?}");
        nothing_broke(&lake, &before);
        is_a_conflict(&lake, &before, 11);
    }
}

#[test]
fn rewritten_manifests_are_a_conflict() {
    let (lake, before) = every_state(Service::SeaweedFs, "manifests");
    let rewritten = call(&lake, "rewrite_manifests", "");
    assert_ne!(rewritten[0][0], 0, "{rewritten:?}");
    nothing_broke(&lake, &before);
    is_a_conflict(&lake, &before, 12);
}

#[test]
fn rewritten_position_deletes_are_a_conflict() {
    let (lake, _) = every_state(Service::SeaweedFs, "positions");
    lake.begin("delete", "2013-08-08");
    lake.sql(&format!(
        "DELETE FROM {} WHERE flight_date = DATE '2013-08-08' AND carrier = 'WN'",
        lake.branch("delete")
    ));
    lake.validate_and_publish("delete");
    let before = lake.at(At::Main);
    let rewritten = call(&lake, "rewrite_position_delete_files", ", options => map('rewrite-all', 'true')");
    assert_eq!(rewritten[0][0], 1, "{rewritten:?}");
    nothing_broke(&lake, &before);
    assert_eq!(lake.reconcile("delete", 0), ("published".to_owned(), 2));
    is_a_conflict(&lake, &before, 11);
}

/// What the action found to be nobody's, and deleted, however young.
fn orphans(lake: &Lake) -> Vec<String> {
    let program = format!(
        "
jvm = spark._jvm
table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, '{}')
action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).deleteOrphanFiles(table)
found = action.usePrefixListing(True).olderThan(jvm.java.lang.Long.MAX_VALUE).execute()
answer = [str(file) for file in found.orphanFileLocations()]
",
        lake.full()
    );
    serde_json::from_value(shared_spark().unwrap().python(&program).unwrap()).unwrap()
}

#[test]
fn no_file_of_a_candidate_or_a_receipt_is_an_orphan() {
    for service in SERVICES {
        let (lake, before) = every_state(service, "orphans");
        let young = lake.refused(&format!(
            "CALL {}.system.remove_orphan_files(table => '{}', older_than => TIMESTAMP '2099-01-01 00:00:00')",
            lake.catalog(),
            lake.table
        ));
        assert!(young.contains("less than 24 hours"), "{young}");
        // What a writer leaves that never commits shows that orphans are found at all.
        let stray = format!("{}/data/stray.parquet", lake.seen().location);
        let put = format!(
            "
table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, '{}')
out = table.io().newOutputFile('{stray}').createOrOverwrite()
out.write(1)
out.close()
",
            lake.full()
        );
        shared_spark().unwrap().python(&put).unwrap();
        assert_eq!(orphans(&lake), [stray]);
        assert_eq!(orphans(&lake), Vec::<String>::new());
        nothing_broke(&lake, &before);
        goes_on(&lake, &before);
        assert_eq!(orphans(&lake), Vec::<String>::new());
        assert_eq!(lake.everyone_sees().days.of("2013-08-10"), TENTH);
    }
}

/// S25: an expiry that was planned before a publication, and is applied after it. By REST it requires the table's uuid
/// alone, so that the catalog takes it although main has moved meanwhile.
async fn stale_expiry(service: Service) {
    let (lake, before) = blocking(move || {
        let (lake, _) = every_state(service, "stale");
        lake.sql(&format!("DELETE FROM {} WHERE flight_date = DATE '2013-08-01' AND carrier = 'HA'", lake.full()));
        lake.begin_and_insert("late", "2013-08-10");
        lake.report(&["validate", "late"], 0);
        let before = lake.at(At::Main);
        (lake, before)
    })
    .await;
    let proxy = Proxy::start(lake.properties().get("uri").unwrap()).await.unwrap();
    let expire = proxy.hold_open(Rule::commits().containing("\"remove-snapshots\""));
    // A catalog of the session that is reached through the proxy.
    let through = format!("through_{}", lake.catalog());
    let add = format!(
        "
prefix, through = 'spark.sql.catalog.{}', 'spark.sql.catalog.{through}'
for name, value in spark.sparkContext.getConf().getAll():
    if name == prefix or name.startswith(prefix + '.'):
        spark.conf.set(through + name[len(prefix):], value)
spark.conf.set(through + '.uri', '{}')
",
        lake.catalog(),
        proxy.uri()
    );
    let statement = format!(
        "CALL {through}.system.expire_snapshots(table => '{}', older_than => TIMESTAMP '2099-01-01 00:00:00', \
         retain_last => 1)",
        lake.table
    );
    let expiring = tokio::task::spawn_blocking(move || {
        let spark = shared_spark().unwrap();
        spark.python(&add).unwrap();
        spark.sql(&statement).unwrap()
    });
    expire.arrived().await;
    let lake = blocking(move || {
        let published = lake.report(&["publish", "late"], 0);
        assert_eq!((text(&published, "outcome"), text(&published, "via")), ("published", "direct"), "{published}");
        lake
    })
    .await;
    assert_eq!(expire.release().await, Ok(200), "{service:?}: the catalog did not take the expiry");
    expiring.await.unwrap();
    blocking(move || {
        let after = lake.everyone_sees();
        assert_eq!(after.days.rows, before.days.rows + TENTH);
        assert_eq!(lake.reconcile("late", 0), ("published".to_owned(), 2));
        assert_eq!(lake.at(At::Ref("published/late")), after);
        assert_published(&lake.seen(), "late");
    })
    .await;
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_planned_before_a_publication_takes_nothing_of_it() {
    for service in SERVICES {
        stale_expiry(service).await;
    }
}
