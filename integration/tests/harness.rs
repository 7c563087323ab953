//! The harness itself: what its scripts report of a table that PyIceberg alone has made.

use integration::flights;
use integration::readers::{Append, DuckDb, PyIceberg, append, create};

#[test]
fn the_readers_agree_on_a_table_that_calve_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (table, day) = ("demo.flights", "flight_date");
    create(folder.path(), table, &flights("flights-2013-08-01..08.parquet"), day, 2).unwrap();
    let appended = append(folder.path(), table, "main", &flights("flights-2013-08-09-dup.parquet")).unwrap();
    let Append::Snapshot(snapshot) = appended else { panic!("{appended:?}") };

    let seen = PyIceberg::read(folder.path(), table, day).unwrap();
    assert_eq!((seen.main.rows, seen.main.of("2013-08-09"), seen.main.of("2013-08-10")), (7735 + 1006, 1006, 0));
    assert_eq!(seen.reference("main").unwrap().0.snapshot, snapshot);
    assert_eq!(seen.at["main"], seen.main);
    assert_eq!(seen.snapshots.len(), 2);
    assert!(seen.location.starts_with("file:///"), "{}", seen.location);

    let duckdb = DuckDb::read(folder.path(), table, day).unwrap();
    assert_eq!(duckdb.main, seen.main);
    assert_eq!(duckdb.metadata_location, seen.metadata_location);
}

#[test]
fn a_missing_table_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = PyIceberg::read(folder.path(), "demo.none", "x").unwrap_err().to_string();
    assert!(error.contains("no catalog at"), "{error}");
    create(folder.path(), "demo.flights", &flights("flights-2013-08-09.parquet"), "flight_date", 1).unwrap();
    let error = DuckDb::read(folder.path(), "demo.none", "x").unwrap_err().to_string();
    assert!(error.contains("demo.none"), "{error}");
}

#[test]
fn the_example_files_are_what_their_readme_says() {
    let folder = tempfile::tempdir().unwrap();
    for (file, rows) in [("09", 999), ("09-dup", 1006), ("10", 807), ("01..08", 7735)] {
        let table = format!("t.f{}", file.replace(['.', '-'], "_"));
        create(folder.path(), &table, &flights(&format!("flights-2013-08-{file}.parquet")), "flight_date", 2).unwrap();
        assert_eq!(DuckDb::read(folder.path(), &table, "flight_date").unwrap().main.rows, rows, "{file}");
    }
}
