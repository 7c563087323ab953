//! Spark's Structured Streaming and incremental reads across publications.
//!
//! Marker and seal are snapshots of the operation `replace`, which both pass over: a stream yields each published row once,
//! and nothing of a candidate before. Where a publication removed rows, its data snapshots are `overwrite` or `delete` like
//! any engine's: the stream stops with an error that names the snapshot, unless it was started with
//! `streaming-skip-overwrite-snapshots` or `streaming-skip-delete-snapshots`; then it passes over what they added, too. An
//! incremental read takes appends alone, and is silent about the rest.

use integration::beds::{SERVICES, Service};
use integration::lake::{Lake, rows_of};
use integration::services::{At, shared_spark};
use integration::story::{HISTORY, NINTH, TENTH};
use serde_json::{Value, json};

/// A query that resumes where it was, until it has all that is there.
struct Stream {
    folder: tempfile::TempDir,
    table: String,
}

impl Stream {
    fn of(lake: &Lake) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), table: lake.full() }
    }

    /// Rows and the sum of their distances so far, or the words with which the stream stopped.
    fn run(&self, options: &[(&str, &str)]) -> Value {
        let options: std::collections::BTreeMap<_, _> = options.iter().copied().collect();
        let (out, state) = (self.folder.path().join("out"), self.folder.path().join("state"));
        let program = format!(
            "
query = (spark.readStream.format('iceberg').options(**{options}).load('{table}')
    .writeStream.format('parquet').option('path', '{out}').option('checkpointLocation', '{state}')
    .trigger(availableNow=True).start())
try:
    query.awaitTermination()
    answer = list(spark.read.parquet('{out}').selectExpr('count(*)', 'sum(distance)').first())
except Exception as error:
    answer = str(error)
",
            options = json!(options),
            table = self.table,
            out = out.display(),
            state = state.display()
        );
        shared_spark().unwrap().python(&program).unwrap()
    }
}

/// Rows and the sum of their distances between two snapshots, by an incremental read and by a view of changes.
fn between(lake: &Lake, from: &str, to: &str) -> (Value, Value) {
    let program = format!(
        "
options = {{'start-snapshot-id': '{from}', 'end-snapshot-id': '{to}'}}
read = list(spark.read.options(**options).table('{full}').selectExpr('count(*)', 'coalesce(sum(distance), 0)').first())
view = spark.sql(\"CALL {catalog}.system.create_changelog_view(table => '{table}', \"
    \"options => map('start-snapshot-id', '{from}', 'end-snapshot-id', '{to}'))\").first()[0]
changes = spark.table(view).groupBy('_change_type').count().orderBy('_change_type').collect()
answer = [read, {{row[0]: row[1] for row in changes}}]
",
        full = lake.full(),
        catalog = lake.catalog(),
        table = lake.table
    );
    let answer = shared_spark().unwrap().python(&program).unwrap();
    (answer[0].clone(), answer[1].clone())
}

fn each_row_once(service: Service) {
    let lake = Lake::with_history(service, "streaming", 2, "'write.delete.mode' = 'merge-on-read'");
    let stream = Stream::of(&lake);
    let total = |lake: &Lake| {
        let seen = lake.at(At::Main);
        json!([seen.days.rows, seen.sums[0]])
    };
    let history = total(&lake);
    assert_eq!(stream.run(&[]), history);
    let before = lake.head("main");
    for (id, day) in [("day-09", "2013-08-09"), ("day-10", "2013-08-10")] {
        let old = total(&lake);
        lake.begin_and_insert(id, day);
        assert_eq!(stream.run(&[]), old, "{id}: open");
        lake.report(&["validate", id], 0);
        assert_eq!(stream.run(&[]), old, "{id}: sealed");
        lake.report(&["publish", id], 0);
        let new = total(&lake);
        assert_ne!(old, new);
        assert_eq!(stream.run(&[]), new, "{id}: published");
        assert_eq!(stream.run(&[]), new, "{id}: again");
    }
    let after = lake.head("main");
    let (read, changes) = between(&lake, &before, &after);
    let whole = total(&lake);
    assert_eq!(whole[0], HISTORY + NINTH + TENTH);
    let added = whole[1].as_i64().unwrap() - history[1].as_i64().unwrap();
    assert_eq!(read, json!([NINTH + TENTH, added]));
    assert_eq!(changes, json!({"INSERT": NINTH + TENTH}));

    // A published overwrite is to a stream what any engine's overwrite is.
    lake.begin("overwrite", "2013-08-09");
    let overwrite = format!("INSERT OVERWRITE {} {}", lake.branch("overwrite"), rows_of("flights-2013-08-09.parquet"));
    let dynamic = ("spark.sql.sources.partitionOverwriteMode", "dynamic");
    shared_spark().unwrap().under(&[dynamic], &[&overwrite]).unwrap();
    lake.validate_and_publish("overwrite");
    let stopped = stream.run(&[]);
    assert!(stopped.as_str().unwrap_or_default().contains("Cannot process overwrite snapshot"), "{stopped}");
    let overwrites = ("streaming-skip-overwrite-snapshots", "true");
    assert_eq!(stream.run(&[overwrites]), whole);
    let (read, changes) = between(&lake, &after, &lake.head("main"));
    assert_eq!(read, json!([0, 0]));
    // The view leaves out a row that was removed and added again as it was.
    let net: Vec<_> = changes.as_object().unwrap().values().collect();
    assert!(net.is_empty() || net.iter().all(|count| **count == json!(NINTH)), "{changes}");

    lake.begin("delete", "2013-08-09");
    lake.sql(&format!(
        "DELETE FROM {} WHERE flight_date = DATE '2013-08-09' AND carrier = 'WN'",
        lake.branch("delete")
    ));
    lake.validate_and_publish("delete");
    let stopped = stream.run(&[overwrites]);
    assert!(stopped.as_str().unwrap_or_default().contains("Cannot process delete snapshot"), "{stopped}");
    let deletes = ("streaming-skip-delete-snapshots", "true");
    assert_eq!(stream.run(&[overwrites, deletes]), whole);
}

#[test]
fn a_stream_yields_each_published_row_once() {
    for service in SERVICES {
        each_row_once(service);
    }
}

/// A stream that starts at a time, or on a branch that is published afterwards.
#[test]
fn a_stream_that_starts_at_a_time_begins_after_the_seal() {
    let lake = Lake::with_history(Service::SeaweedFs, "since", 2, "");
    lake.publish_day("day-09", "2013-08-09");
    let query = format!(
        "SELECT unix_millis(committed_at) + 1 FROM {full}.snapshots WHERE snapshot_id = {head}",
        full = lake.full(),
        head = lake.head("main")
    );
    let since = lake.sql(&query)[0][0].to_string();
    lake.publish_day("day-10", "2013-08-10");
    let streamed = Stream::of(&lake).run(&[("stream-from-timestamp", &since)]);
    assert_eq!(streamed[0], TENTH, "{streamed}");
}
