//! What Spark, Trino, DuckDB and PyIceberg see of a candidate: nothing, then all of it.

use integration::beds::{SERVICES, Service};
use integration::command::{command_in, finish};
use integration::lake::{Lake, Seen};
use integration::readers::run_line;
use integration::services::{At, shared_spark, shared_trino};
use integration::story::{DAY, HISTORY, NINTH, assert_published, text};

/// A branch, a tag or a snapshot, as Spark and Trino read it.
fn both_see(lake: &Lake, at: At<'_>) -> Seen {
    let seen = lake.at(at);
    assert_eq!(shared_trino().unwrap().rows(&lake.full(), DAY, at).unwrap(), seen.days, "Trino, {at:?}");
    seen
}

fn only_what_is_published(service: Service) {
    let lake = Lake::with_history(service, "reading", 2, "");
    let before = lake.everyone_sees();
    assert_eq!(before.days.rows, HISTORY);
    let base = lake.head("main");

    lake.begin_and_insert("day-09", "2013-08-09");
    assert_eq!(lake.everyone_sees(), before, "an open candidate is visible");
    let sealed = lake.report(&["validate", "day-09"], 0);
    assert_eq!(lake.everyone_sees(), before, "a sealed candidate is visible");
    let seal = text(&sealed, "seal");
    // Whoever names it can read it: the branch and the seal show what will be published.
    let candidate = both_see(&lake, At::Ref("audit/day-09"));
    assert_eq!(both_see(&lake, At::Snapshot(seal)), candidate);
    assert_eq!((candidate.days.rows, candidate.days.of("2013-08-09")), (HISTORY + NINTH, NINTH));

    lake.report(&["publish", "day-09"], 0);
    assert_eq!(lake.everyone_sees(), candidate, "what is published is not what was sealed");
    assert_eq!(lake.head("main"), seal);
    assert_published(&lake.seen(), "day-09");
    // By the receipt for ever; by the tombstone what was there before.
    assert_eq!(both_see(&lake, At::Ref("published/day-09")), candidate);
    assert_eq!(both_see(&lake, At::Ref("audit/day-09")), before);
    assert_eq!(both_see(&lake, At::Snapshot(&base)), before);
}

#[test]
fn readers_see_only_what_is_published() {
    for service in SERVICES {
        only_what_is_published(service);
    }
}

/// The first rows of a table: there is no main to read before.
#[test]
fn the_first_publication_of_a_table_is_read_by_everyone() {
    for service in SERVICES {
        let lake = Lake::empty(service, "first", 2);
        lake.publish_day("day-09", "2013-08-09");
        assert_eq!(lake.everyone_sees().days.rows, NINTH);
        assert_published(&lake.seen(), "day-09");
    }
}

/// A printed line with what it leaves to the reader filled in.
fn filled(lake: &Lake, line: &str) -> String {
    let known = |property| lake.properties().get(property);
    let mut line = line.to_owned();
    for property in ["s3.access-key-id", "s3.secret-access-key", "credential"] {
        line = line.replace(&format!("<your {property}>"), known(property).unwrap_or_default());
    }
    if let Some((id, secret)) = known("credential").and_then(|credential| credential.split_once(':')) {
        line = line.replace("<your credential, before its colon>", id);
        line = line.replace("<your credential, after its colon>", secret);
    }
    assert!(!line.contains("<your"), "{line}");
    line
}

/// The statement of a line, and the settings that its comment names, after the words that introduce them.
fn parts<'a>(line: &'a str, introduced: &str) -> (&'a str, Vec<(&'a str, &'a str)>) {
    let (statement, comment) = line.split_once(" -- ").unwrap_or_else(|| panic!("{line}"));
    let settings = comment.strip_prefix(introduced).unwrap_or_else(|| panic!("{comment}"));
    (statement, settings.split(", ").map(|setting| setting.split_once('=').unwrap()).collect())
}

/// As a person follows it: the catalog is set up as the comment says, and the statement is run.
fn follow(lake: &Lake, catalog: &str, reader: &str, line: &str) -> u64 {
    let line = filled(lake, line);
    match reader {
        "PyIceberg" | "DuckDB" => run_line(reader, &line).unwrap(),
        "Spark" => {
            let spark = shared_spark().unwrap();
            let (statement, settings) = parts(&line, &format!("spark.sql.catalog.{catalog}: "));
            spark.set(&format!("spark.sql.catalog.{catalog}"), Some("org.apache.iceberg.spark.SparkCatalog")).unwrap();
            for (name, value) in settings {
                spark.set(&format!("spark.sql.catalog.{catalog}.{name}"), Some(value)).unwrap();
            }
            spark.sql(statement).unwrap().len().try_into().unwrap()
        }
        "Trino" => {
            let trino = shared_trino().unwrap();
            let (statement, settings) = parts(&line, &format!("{catalog}.properties: "));
            // How Trino reaches the storage is none of the catalog's settings.
            let of = |property| lake.properties().get(property).unwrap_or_default();
            let storage = [
                ("fs.native-s3.enabled", "true"),
                ("s3.endpoint", of("s3.endpoint")),
                ("s3.region", of("s3.region")),
                ("s3.aws-access-key", of("s3.access-key-id")),
                ("s3.aws-secret-key", of("s3.secret-access-key")),
                ("s3.path-style-access", of("s3.path-style-access")),
            ];
            let with: Vec<_> = settings
                .into_iter()
                .filter(|(name, _)| *name != "connector.name")
                .chain(storage)
                .map(|(name, value)| format!("\"{name}\" = '{value}'"))
                .collect();
            trino.sql(&format!("CREATE CATALOG {catalog} USING iceberg WITH ({})", with.join(", "))).unwrap();
            let rows = trino.sql(statement).unwrap().len();
            trino.sql(&format!("DROP CATALOG {catalog}")).unwrap();
            rows.try_into().unwrap()
        }
        other => panic!("no reader {other}"),
    }
}

/// What `publish` prints for readers is true to the letter.
#[test]
fn printed_lines_read_the_table() {
    for service in SERVICES {
        let lake = Lake::empty(service, "printed_lines", 2);
        lake.begin_and_insert("day-09", "2013-08-09");
        lake.report(&["validate", "day-09"], 0);
        // A name that no engine has a catalog under yet.
        let catalog = format!("printed_{}", lake.catalog());
        lake.also_called(&catalog);
        let mut publish = command_in(lake.path()).unwrap();
        publish.args(["--catalog", &catalog, "publish", &lake.table, "day-09", "--json"]);
        let published = finish(&mut publish).and_then(|ran| ran.expect_code(0)?.json()).unwrap();
        let lines = published["read-with"].as_array().unwrap_or_else(|| panic!("{published}"));
        let readers: Vec<_> = lines.iter().map(|line| line[0].as_str().unwrap()).collect();
        assert_eq!(readers, ["Spark", "PyIceberg", "DuckDB", "Trino"]);
        for line in lines {
            let (reader, line) = (line[0].as_str().unwrap(), line[1].as_str().unwrap());
            assert_eq!(follow(&lake, &catalog, reader, line), NINTH, "{line}");
        }
    }
}
