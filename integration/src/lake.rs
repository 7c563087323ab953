//! A folder from which `calve` and its jobs work on a real catalog, with one table of flights in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]
#![allow(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use calve::catalog::properties::Properties;
use serde_json::Value;

use crate::beds::Service;
use crate::command::{Ran, command_in, finish};
use crate::readers::{Append, DuckDb, PyIceberg, Rows, append, change};
use crate::services::supervised::write_private;
use crate::services::{At, shared_seaweedfs, shared_spark, shared_trino};
use crate::story::{DAY, PARTITION, path, text};
use crate::{Result, flights};

/// The settings file of `calve` for these catalogs, by name; the first is the default.
pub fn calve_toml(journal: &str, catalogs: &[(&str, Properties)]) -> String {
    let default = catalogs.first().map_or_else(String::new, |(name, _)| format!("default = {}\n", quoted(name)));
    let mut text = format!("journal = {}\n{default}", quoted(journal));
    for (name, properties) in catalogs {
        text.push_str(&format!("\n[catalog.{name}]\n"));
        for (key, value) in properties.iter() {
            text.push_str(&format!("{} = {}\n", quoted(key), quoted(value)));
        }
    }
    text
}

/// The settings file of PyIceberg for these catalogs, by name.
pub fn pyiceberg_yaml(catalogs: &[(&str, Properties)]) -> String {
    let mut text = "catalog:\n".to_owned();
    for (name, properties) in catalogs {
        text.push_str(&format!("  {name}:\n    type: rest\n"));
        for (key, value) in properties.iter() {
            text.push_str(&format!("    {key}: {}\n", quoted(value)));
        }
    }
    text
}

/// A basic string of TOML, which is one of JSON and of YAML too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A table of flights on a real catalog, in a namespace of its own, and a folder with the settings of whoever works on it.
#[derive(Debug)]
pub struct Lake {
    folder: tempfile::TempDir,
    service: Service,
    properties: Properties,
    /// Namespace and name.
    pub table: String,
}

impl Lake {
    /// The table `NAMESPACE.flights`, without a row. calve reaches the catalog itself.
    pub fn empty(service: Service, namespace: &str, version: u8) -> Self {
        let properties = service.properties().unwrap();
        let lake =
            Self { folder: tempfile::tempdir().unwrap(), service, properties, table: format!("{namespace}.flights") };
        lake.reach(None);
        let contracts = lake.path().join("contracts");
        std::fs::create_dir(&contracts).unwrap();
        let contract = contracts.join(format!("{}.toml", lake.table));
        std::fs::copy(flights("flights.contract.toml"), contract).unwrap();
        let (like, version) = (path("flights-2013-08-10.parquet"), version.to_string());
        let create =
            ["create", &lake.table, "--like", &like, "--partition-by", PARTITION, "--format-version", &version];
        lake.run(&create, 0);
        lake
    }

    /// The same with the first eight days in it, one file a day, written by Spark, and `spark.wap.branch` allowed.
    pub fn with_history(service: Service, namespace: &str, version: u8, properties: &str) -> Self {
        let lake = Self::empty(service, namespace, version);
        let more = if properties.is_empty() { String::new() } else { format!(", {properties}") };
        let full = lake.full();
        lake.sql(&format!("ALTER TABLE {full} SET TBLPROPERTIES ('write.wap.enabled' = 'true'{more})"));
        lake.sql(&format!("INSERT INTO {full} {}", rows_of("flights-2013-08-01..08.parquet")));
        lake
    }

    /// The folder, which is the home and the working directory of what runs here.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// How clients reach the catalog.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The catalog's name in Spark, Trino and the settings.
    pub fn catalog(&self) -> &'static str {
        match self.service {
            Service::SeaweedFs => "lake",
            Service::Reference => "reference",
        }
    }

    /// The table as Spark and Trino call it.
    pub fn full(&self) -> String {
        format!("{}.{}", self.catalog(), self.table)
    }

    /// A branch of the table as Spark calls it.
    pub fn branch(&self, id: &str) -> String {
        format!("{}.`branch_audit/{id}`", self.full())
    }

    /// Writes the settings so that calve and PyIceberg jobs reach the catalog by this URI; itself if `None`.
    pub fn reach(&self, uri: Option<&str>) {
        let mut reached = self.properties.clone();
        if let Some(uri) = uri {
            reached.set("uri", uri);
        }
        self.configure(&[(self.catalog(), reached.clone())]);
        let yaml = pyiceberg_yaml(&[(self.catalog(), reached)]);
        write_private(&self.path().join(".pyiceberg.yaml"), &yaml).unwrap();
    }

    /// Writes the settings so that calve knows the catalog by this name too.
    pub fn also_called(&self, name: &str) {
        self.configure(&[(self.catalog(), self.properties.clone()), (name, self.properties.clone())]);
    }

    fn configure(&self, catalogs: &[(&str, Properties)]) {
        // Its storage is the catalog's, which is SeaweedFS' in both cases.
        let journal = shared_seaweedfs().unwrap().journal_root();
        write_private(&self.path().join("calve.toml"), &calve_toml(&journal, catalogs)).unwrap();
    }

    /// `calve`, to be given arguments: in this folder, with nothing of the user's environment.
    pub fn command(&self) -> Command {
        let mut command = command_in(self.path()).unwrap();
        command.args(["--catalog", self.catalog()]);
        command
    }

    /// Runs `calve … --json`, whatever its exit code.
    pub fn calve<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Ran> {
        let mut command = self.command();
        finish(command.args(args).arg("--json"))
    }

    /// Runs `calve`, which has to end with this exit code.
    pub fn run(&self, args: &[&str], code: i32) -> Ran {
        self.calve(args).and_then(|ran| ran.expect_code(code)).unwrap()
    }

    /// The report of a verb on the table, which has to end with this exit code.
    pub fn report(&self, verb: &[&str], code: i32) -> Value {
        let [verb, rest @ ..] = verb else { panic!("no verb") };
        self.run(&[&[*verb, &self.table], rest].concat(), code).json().unwrap()
    }

    /// Opens a publication of a day.
    pub fn begin(&self, id: &str, day: &str) -> Value {
        self.report(&["begin", id, "--scope", &format!("{DAY} = '{day}'")], 0)
    }

    /// Runs the checks, which have to pass, and publishes.
    pub fn validate_and_publish(&self, id: &str) {
        self.report(&["validate", id], 0);
        let published = self.report(&["publish", id], 0);
        assert_eq!((text(&published, "outcome"), text(&published, "via")), ("published", "direct"), "{published}");
    }

    /// Opens a publication of a day, and inserts a file of the example on its branch by Spark.
    pub fn begin_and_insert(&self, id: &str, day: &str) {
        self.begin(id, day);
        let file = format!("flights-{day}.parquet");
        self.sql(&format!("INSERT INTO {} {}", self.branch(id), rows_of(&file)));
    }

    /// Publishes a day that Spark inserts.
    pub fn publish_day(&self, id: &str, day: &str) {
        self.begin_and_insert(id, day);
        self.validate_and_publish(id);
    }

    /// State and row by which `reconcile` decides, which has to end with this exit code.
    pub fn reconcile(&self, id: &str, code: i32) -> (String, u64) {
        let found = self.report(&["reconcile", id], code);
        let state = found.pointer("/finding/state").and_then(Value::as_str).unwrap_or_else(|| panic!("{found}"));
        (state.to_owned(), found.get("row").and_then(Value::as_u64).unwrap())
    }

    /// Runs a statement by Spark, which must not fail.
    pub fn sql(&self, statement: &str) -> Vec<crate::services::Row> {
        shared_spark().unwrap().sql(statement).unwrap()
    }

    /// Spark's words when it fails, as it has to.
    pub fn refused(&self, statement: &str) -> String {
        match shared_spark().unwrap().sql(statement) {
            Ok(rows) => panic!("Spark did not refuse {statement}: {rows:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// What PyIceberg sees.
    pub fn seen(&self) -> PyIceberg {
        PyIceberg::read(&self.properties, &self.table, DAY).unwrap()
    }

    /// The id of the snapshot that a branch or tag names.
    pub fn head(&self, name: &str) -> String {
        let rows = self.sql(&format!("SELECT snapshot_id FROM {}.refs WHERE name = '{name}'", self.full()));
        rows.first().and_then(|row| row.first()).unwrap_or_else(|| panic!("no ref {name}")).to_string()
    }

    /// Appends a file of the example to a branch by PyIceberg.
    pub fn append(&self, branch: &str, file: &str) -> Append {
        append(&self.properties, &self.table, branch, &flights(file)).unwrap()
    }

    /// Changes the table by PyIceberg, which must not refuse.
    pub fn change(&self, verb: &[&str]) {
        assert_eq!(change(&self.properties, &self.table, verb).unwrap(), None, "{verb:?}");
    }

    /// Rows and sums as all four readers see them at main: Spark's, after the others were compared with it.
    pub fn everyone_sees(&self) -> Seen {
        let full = self.full();
        let seen = self.at(At::Main);
        let pyiceberg = self.seen();
        assert_eq!(pyiceberg.main, seen.days, "PyIceberg");
        assert_eq!(DuckDb::read(&self.properties, &self.table, DAY).unwrap().main, seen.days, "DuckDB");
        let trino = shared_trino().unwrap();
        assert_eq!(trino.rows(&full, DAY, At::Main).unwrap(), seen.days, "Trino");
        let sums = trino.sql(&format!("{SUMS} FROM {full}")).unwrap();
        assert_eq!(numbers(&sums), seen.sums, "Trino");
        for reader in ["duckdb", "pyiceberg"] {
            let sums = crate::readers::sums(&self.properties, &self.table, reader).unwrap();
            assert_eq!(sums, seen.sums, "{reader}");
        }
        seen
    }

    /// Rows and sums as Spark sees them.
    pub fn at(&self, at: At<'_>) -> Seen {
        let spark = shared_spark().unwrap();
        let full = self.full();
        let version = match at {
            At::Main => String::new(),
            At::Snapshot(id) => format!(" VERSION AS OF {id}"),
            At::Ref(name) => format!(" VERSION AS OF '{name}'"),
        };
        let sums = spark.sql(&format!("{SUMS} FROM {full}{version}")).unwrap();
        Seen { days: spark.rows(&full, DAY, at).unwrap(), sums: numbers(&sums) }
    }
}

const SUMS: &str = "SELECT sum(distance), sum(dep_delay), count(arr_delay), sum(flight)";

/// What a reader sees of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Rows by day.
    pub days: Rows,
    /// Sums of distance and departure delay, rows with an arrival delay, and the sum of flight numbers.
    pub sums: Vec<i64>,
}

fn numbers(rows: &[crate::services::Row]) -> Vec<i64> {
    rows.iter().flatten().map(|value| value.as_i64().unwrap_or_else(|| panic!("no number: {value}"))).collect()
}

/// A query of Spark's for the rows of a file of the example.
pub fn rows_of(file: &str) -> String {
    format!("SELECT * FROM parquet.`{}`", flights(file).display())
}
