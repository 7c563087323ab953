//! Every service of the harness starts, answers and stops, and the engines read what the others wrote.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use calve::catalog::properties::Properties;
use integration::flights;
use integration::process::{self, Guarded};
use integration::readers::{Append, DuckDb, PyIceberg, append, change, create};
use integration::services::seaweedfs::SECRET_KEY;
use integration::services::supervised::{self, Supervised, is_running};
use integration::services::{
    At, ReferenceCatalog, SeaweedFs, Storage, http, shared_reference, shared_seaweedfs, shared_spark, shared_trino,
};

#[test]
fn seaweedfs_starts_answers_and_stops() {
    let started = Instant::now();
    let seaweedfs = SeaweedFs::start().unwrap();
    println!("ready after {:?}", started.elapsed());
    let id = seaweedfs.id();
    assert!(is_running(id));
    assert_eq!(seaweedfs.list("plain").unwrap(), ["ready.txt"], "but for what shows that it is ready");
    let properties = seaweedfs.properties();
    assert_eq!(properties.get("warehouse"), Some("s3://lake"));
    drop(seaweedfs);
    assert!(!is_running(id));
}

#[test]
fn the_reference_catalog_starts_answers_and_stops() {
    let mut reference = ReferenceCatalog::start(Storage::Local).unwrap();
    let id = reference.id();
    let uri = reference.uri();
    let port = uri.rsplit(':').next().unwrap().parse().unwrap();
    let ask = |method: &str, path: &str, body: &str| {
        let answer = http::request(port, method, path, &["Content-Type: application/json"], body).unwrap();
        (answer.status, answer.body)
    };
    let (status, body) = ask("GET", "/v1/namespaces/none", "");
    assert!(status == 404 && body.contains("NoSuchNamespaceException"), "{status} {body}");
    assert_eq!(ask("GET", "/v1/nonsense", "").0, 400);
    assert_eq!(ask("PATCH", "/v1/config", "").0, 405);

    let properties = reference.properties();
    create(&properties, "raw.flights", &flights("flights-2013-08-09.parquet"), DAY, 2).unwrap();
    append(&properties, "raw.flights", "main", &flights("flights-2013-08-10.parquet")).unwrap();
    let seen = PyIceberg::read(&properties, "raw.flights", DAY).unwrap();
    let head = &seen.refs["main"].snapshot;
    let old = seen.snapshots[head].parent.as_ref().unwrap();
    let table = "/v1/namespaces/raw/tables/flights";
    let commit = |expected: &str| {
        format!(
            r#"{{"requirements":[{{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":{expected}}}],
                "updates":[{{"action":"set-snapshot-ref","ref-name":"t","type":"tag","snapshot-id":{old}}}]}}"#
        )
    };
    // Iceberg's own code decides.
    let (status, body) = ask("POST", table, &commit(old));
    assert!(status == 409 && body.contains("CommitFailedException"), "{status} {body}");
    assert_eq!(ask("POST", table, "{").0, 400);
    let snapshots = |query: &str| {
        let (status, body) = ask("GET", &format!("{table}?snapshots={query}"), "");
        assert_eq!(status, 200, "{body}");
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert!(value["metadata-location"].as_str().unwrap().ends_with(".metadata.json"), "{body}");
        value["metadata"]["snapshots"].as_array().unwrap().len()
    };
    assert_eq!((snapshots("all"), snapshots("refs")), (2, 1));
    let (status, body) = ask("POST", table, &commit(head));
    assert_eq!(status, 200, "{body}");
    assert_eq!(snapshots("refs"), 2);

    reference.kill_and_restart().unwrap();
    assert!(!is_running(id) && reference.uri() == uri);
    assert_eq!(snapshots("refs"), 2);
    let id = reference.id();
    drop(reference);
    assert!(!is_running(id));
}

const DAY: &str = "flight_date";
const BRANCH: &str = "audit/day-09";

/// PyIceberg makes a table and writes a branch; both it and DuckDB read it.
fn pyiceberg_and_duckdb(properties: &Properties, table: &str) {
    create(properties, table, &flights("flights-2013-08-01..08.parquet"), DAY, 2).unwrap();
    assert_eq!(change(properties, table, &["branch", BRANCH]).unwrap(), None);
    let appended = append(properties, table, BRANCH, &flights("flights-2013-08-09.parquet")).unwrap();
    let Append::Snapshot(snapshot) = appended else { panic!("{appended:?}") };

    let seen = PyIceberg::read(properties, table, DAY).unwrap();
    assert_eq!((seen.main.rows, seen.main.of("2013-08-09")), (7735, 0));
    assert_eq!((seen.at[BRANCH].rows, seen.at[BRANCH].of("2013-08-09")), (7735 + 999, 999));
    assert_eq!(seen.reference(BRANCH).unwrap().0.snapshot, snapshot);

    assert_eq!(DuckDb::read(properties, table, DAY).unwrap().main, seen.main);
    assert_eq!(DuckDb::read_at(properties, table, DAY, &snapshot).unwrap().main, seen.at[BRANCH]);
}

#[test]
fn pyiceberg_and_duckdb_work_on_seaweedfs() {
    pyiceberg_and_duckdb(&shared_seaweedfs().unwrap().properties(), "readers.flights");
}

#[test]
fn pyiceberg_and_duckdb_work_on_the_reference_catalog() {
    pyiceberg_and_duckdb(&shared_reference().unwrap().properties(), "readers.flights");
}

#[test]
fn pyiceberg_and_duckdb_work_on_the_reference_catalog_in_a_folder() {
    let reference = ReferenceCatalog::start(Storage::Local).unwrap();
    pyiceberg_and_duckdb(&reference.properties(), "readers.flights");
}

/// Spark writes branches of a table that PyIceberg made; Spark, Trino, DuckDB and PyIceberg read the same rows.
fn spark_and_trino(properties: &Properties, catalog: &str) {
    let table = "engines.flights";
    let full = format!("{catalog}.{table}");
    create(properties, table, &flights("flights-2013-08-01..08.parquet"), DAY, 2).unwrap();
    let spark = shared_spark().unwrap();
    let sql = |statement: String| spark.sql(&statement).unwrap();
    sql(format!("ALTER TABLE {full} SET TBLPROPERTIES ('write.wap.enabled' = 'true')"));
    sql(format!("ALTER TABLE {full} CREATE BRANCH `{BRANCH}`"));
    let new = flights("flights-2013-08-09.parquet");
    let insert = format!("INSERT INTO {full} SELECT * FROM parquet.`{}`", new.display());
    let delete = format!("DELETE FROM {full} WHERE flight_date = DATE '2013-08-01'");
    spark.on_branch(BRANCH, &[&insert, &delete]).unwrap();
    sql(format!("ALTER TABLE {full} CREATE BRANCH plain"));
    sql(format!("INSERT INTO {full}.branch_plain SELECT * FROM parquet.`{}`", new.display()));

    let seen = PyIceberg::read(properties, table, DAY).unwrap();
    assert_eq!((seen.main.rows, seen.main.of("2013-08-09")), (7735, 0));
    assert_eq!((seen.at[BRANCH].of("2013-08-09"), seen.at[BRANCH].of("2013-08-01")), (999, 0));
    assert_eq!(seen.at["plain"].rows, 7735 + 999);

    let trino = shared_trino().unwrap();
    for name in [BRANCH, "plain", "main"] {
        let snapshot = &seen.refs[name].snapshot;
        for at in [At::Ref(name), At::Snapshot(snapshot)] {
            assert_eq!(spark.rows(&full, DAY, at).unwrap(), seen.at[name], "Spark, {name}");
            assert_eq!(trino.rows(&full, DAY, at).unwrap(), seen.at[name], "Trino, {name}");
        }
        assert_eq!(DuckDb::read_at(properties, table, DAY, snapshot).unwrap().main, seen.at[name], "DuckDB, {name}");
    }
    assert_eq!(spark.rows(&full, DAY, At::Main).unwrap(), seen.main);
    assert_eq!(trino.rows(&full, DAY, At::Main).unwrap(), seen.main);

    let (from, to) = (&seen.refs["main"].snapshot, &seen.refs["plain"].snapshot);
    let program = format!(
        "answer = spark.read.option('start-snapshot-id', '{from}').option('end-snapshot-id', '{to}').table('{full}').count()"
    );
    assert_eq!(spark.python(&program).unwrap(), 999);

    let error = spark.sql(&format!("SELECT * FROM {catalog}.engines.none")).unwrap_err().to_string();
    assert!(error.contains("TABLE_OR_VIEW_NOT_FOUND"), "{error}");
    let error = trino.sql(&format!("SELECT * FROM {catalog}.engines.none")).unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn spark_and_trino_work_on_seaweedfs() {
    spark_and_trino(&shared_seaweedfs().unwrap().properties(), "lake");
}

#[test]
fn spark_and_trino_work_on_the_reference_catalog() {
    spark_and_trino(&shared_reference().unwrap().properties(), "reference");
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not so in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_service_forked_ends_with_it_and_its_folder_goes() {
    let folder = supervised::folder("forks").unwrap();
    let script = "sleep 600 & echo $! > forked.tmp; mv forked.tmp forked; wait";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder.path());
    let mut service = Supervised::start("forks", &mut command, folder, false).unwrap();
    let folder = service.folder().to_owned();
    let read = |_: &Supervised| std::fs::read_to_string(folder.join("forked")).map_err(|error| error.to_string());
    let forked: u32 = service.wait_until(Duration::from_secs(30), read).unwrap().trim().parse().unwrap();
    let id = service.id();
    assert!(is_running(forked) && is_running(id));
    drop(service);
    assert!(!is_running(id));
    eventually("the forked process has ended", || !is_running(forked));
    assert!(!folder.exists());
}

#[test]
fn a_service_that_fails_shows_its_log() {
    let folder = supervised::folder("fails").unwrap();
    let mut command = Command::new("sh");
    let mut service = Supervised::start("it", command.args(["-c", "echo why; exit 3"]), folder, false).unwrap();
    let error = service.wait_until(Duration::from_secs(30), |_| Err::<(), _>(String::new())).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.ends_with("why"), "{error}");
}

/// Starts `integration up`, whose process is a harness of its own; the store's id and its folder.
fn up() -> (Guarded, u32, PathBuf) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_integration"));
    let mut harness = Guarded::start(command.args(["up", "--empty"]).stdout(Stdio::piped())).unwrap();
    let mut lines = BufReader::new(harness.child().stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let id = first.split_whitespace().nth(2).unwrap().parse().unwrap();
    let folder = std::fs::read_link(format!("/proc/{id}/cwd")).unwrap();
    let told: Vec<_> = lines.map(|line| line.unwrap()).take_while(|line| !line.starts_with("ready")).collect();
    assert!(told.iter().any(|line| line.contains("calve begin demo.flights")), "{told:?}");
    assert!(is_running(id) && folder.exists());
    (harness, id, folder)
}

#[test]
fn services_end_with_a_harness_that_is_killed() {
    let (harness, id, folder) = up();
    // By SIGKILL, so nothing of it gets to clean up.
    drop(harness);
    eventually("the store has ended", || !is_running(id));
    eventually("its folder is gone", || !folder.exists());
}

#[test]
fn up_stops_what_it_started_when_it_is_interrupted() {
    let (mut harness, id, folder) = up();
    let pid = harness.child().id().to_string();
    let sent =
        process::run(Command::new("sh").args(["-c", "kill -s INT \"$0\"", &pid]), Duration::from_secs(30)).unwrap();
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(harness.child().wait().unwrap().code(), Some(0));
    assert!(!is_running(id) && !folder.exists());
}

#[test]
fn services_listen_on_the_loopback_interface_only_and_show_no_secret_in_the_list_of_processes() {
    let spark = shared_spark().unwrap().id();
    let reference = shared_reference().unwrap().id();
    for id in [shared_seaweedfs().unwrap().id(), reference, shared_trino().unwrap().id(), spark] {
        let addresses = listening(id);
        assert!(!addresses.is_empty(), "process {id} listens nowhere");
        for address in &addresses {
            assert!(LOOPBACK.contains(&address.as_str()), "process {id} listens on {address}");
        }
        let lines: Vec<_> =
            members(id).iter().map(|id| std::fs::read(format!("/proc/{id}/cmdline")).unwrap()).collect();
        assert!(!lines.is_empty());
        for line in lines {
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(!line.contains(SECRET_KEY), "{line}");
        }
    }
}

#[test]
fn a_store_that_was_killed_comes_back_with_its_tables() {
    let mut seaweedfs = SeaweedFs::start().unwrap();
    let properties = seaweedfs.properties();
    create(&properties, "kept.flights", &flights("flights-2013-08-09.parquet"), DAY, 2).unwrap();
    let before = seaweedfs.id();
    seaweedfs.kill_and_restart().unwrap();
    assert!(!is_running(before) && seaweedfs.id() != before);
    let seen = PyIceberg::read(&properties, "kept.flights", DAY).unwrap();
    assert_eq!(seen.main.rows, 999);
    assert!(seaweedfs.list("lake").unwrap().contains(&"kept".to_owned()), "{:?}", seaweedfs.list("lake"));
}

#[test]
fn a_job_for_spark_submit_finds_the_catalogs_of_the_session() {
    let (table, folder) = ("jobs.flights", tempfile::tempdir().unwrap());
    let properties = shared_seaweedfs().unwrap().properties();
    create(&properties, table, &flights("flights-2013-08-09.parquet"), DAY, 2).unwrap();
    let job = folder.path().join("job.py");
    let program = "import sys\nfrom pyspark.sql import SparkSession\n\
                   print('rows', SparkSession.builder.getOrCreate().table(sys.argv[1]).count())\n";
    std::fs::write(&job, program).unwrap();
    let spark = shared_spark().unwrap();
    let mut command = spark.settings().submit();
    let done = process::run(command.arg(&job).arg("lake.jobs.flights"), Duration::from_secs(600)).unwrap();
    assert!(done.status.success() && done.stdout.contains("rows 999"), "{done:?}");
    assert!(!format!("{}{}", done.stdout, done.stderr).contains(SECRET_KEY));
}

/// 127.0.0.1, ::1 and ::ffff:127.0.0.1 as they stand in `/proc/net`.
const LOOPBACK: [&str; 3] = ["0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"];

/// The processes of a group.
fn members(group: u32) -> Vec<u32> {
    let in_group = |entry: std::fs::DirEntry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let found: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()?;
        (found == group).then_some(id)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(in_group).collect()
}

/// The addresses on which a process or any other of its group listens.
fn listening(group: u32) -> Vec<String> {
    let sockets: BTreeSet<String> = members(group)
        .into_iter()
        .flat_map(|id| std::fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten().collect::<Vec<_>>())
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut addresses = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The state 0A is LISTEN; the tenth field is the socket's inode.
            if fields[3] == "0A" && sockets.contains(fields[9]) {
                addresses.push(fields[1].split(':').next().unwrap().to_owned());
            }
        }
    }
    addresses
}
