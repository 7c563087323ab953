//! What the readers from outside see of a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use calve::catalog::properties::Properties;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::python::{answer, run_python, script};
use crate::{HarnessError, Result};

/// Where PyIceberg and DuckDB find a table.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// The embedded catalog of a warehouse folder.
    Folder(&'a Path),
    /// A REST catalog, by Iceberg's properties.
    Rest(&'a Properties),
}

impl<'a> From<&'a Path> for Source<'a> {
    fn from(folder: &'a Path) -> Self {
        Self::Folder(folder)
    }
}

impl<'a> From<&'a PathBuf> for Source<'a> {
    fn from(folder: &'a PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl<'a> From<&'a Properties> for Source<'a> {
    fn from(properties: &'a Properties) -> Self {
        Self::Rest(properties)
    }
}

/// Properties as the JSON object that scripts read.
pub fn as_json(properties: &Properties) -> String {
    serde_json::json!(properties.iter().collect::<BTreeMap<_, _>>()).to_string()
}

/// Rows, and how many of them have each value of the column asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Rows {
    /// All rows.
    pub rows: u64,
    /// By value, as text.
    pub by: BTreeMap<String, u64>,
}

impl Rows {
    /// Rows that have this value; 0 if none.
    pub fn of(&self, value: &str) -> u64 {
        self.by.get(value).copied().unwrap_or(0)
    }
}

/// A branch or tag as PyIceberg sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ref {
    /// The snapshot's id, as text.
    pub snapshot: String,
    /// `branch` or `tag`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Snapshots kept whatever their age.
    pub min_snapshots_to_keep: Option<i64>,
    /// In milliseconds.
    pub max_snapshot_age_ms: Option<i64>,
    /// In milliseconds.
    pub max_ref_age_ms: Option<i64>,
}

/// A snapshot as PyIceberg sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshot {
    /// Its parent's id, as text.
    pub parent: Option<String>,
    /// `append`, `replace`, `overwrite` or `delete`.
    pub operation: String,
    /// Its summary without the operation.
    pub summary: BTreeMap<String, String>,
    /// Where its manifest list is.
    pub manifest_list: String,
}

/// A table as PyIceberg sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PyIceberg {
    /// The table's uuid.
    pub uuid: String,
    /// 1, 2 or 3.
    pub format_version: u8,
    /// The metadata file that the catalog names.
    pub metadata_location: String,
    /// The table's folder.
    pub location: String,
    /// What a plain read returns.
    pub main: Rows,
    /// What a read at each branch and tag returns.
    pub at: BTreeMap<String, Rows>,
    /// Branches and tags.
    pub refs: BTreeMap<String, Ref>,
    /// All snapshots, by id.
    pub snapshots: BTreeMap<String, Snapshot>,
}

impl PyIceberg {
    /// Reads a table, with its rows counted by the values of `column`.
    pub fn read<'a>(warehouse: impl Into<Source<'a>>, table: &str, column: &str) -> Result<Self> {
        ask("pyiceberg_read.py", warehouse, &[table, column])
    }

    /// A branch or tag, and the snapshot it names.
    pub fn reference(&self, name: &str) -> Result<(&Ref, &Snapshot)> {
        let known = || self.refs.keys().cloned().collect::<Vec<_>>().join(", ");
        let found = self.refs.get(name).ok_or_else(|| HarnessError(format!("no ref {name}; there are {}", known())))?;
        let snapshot = self.snapshots.get(&found.snapshot);
        let missing = || HarnessError(format!("{name} names {}, which the metadata does not have", found.snapshot));
        Ok((found, snapshot.ok_or_else(missing)?))
    }
}

/// A table as DuckDB sees it: main, or the snapshot asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DuckDb {
    /// The metadata file that the embedded catalog names; empty for a REST catalog, which DuckDB asks itself.
    pub metadata_location: String,
    /// What a read returns.
    pub main: Rows,
}

impl DuckDb {
    /// Reads a table, with its rows counted by the values of `column`.
    pub fn read<'a>(warehouse: impl Into<Source<'a>>, table: &str, column: &str) -> Result<Self> {
        ask("duckdb_read.py", warehouse, &[table, column])
    }

    /// Reads a table at a snapshot, `AT (VERSION => …)`; what it returns is in `main`.
    pub fn read_at<'a>(warehouse: impl Into<Source<'a>>, table: &str, column: &str, snapshot: &str) -> Result<Self> {
        ask("duckdb_read.py", warehouse, &[table, column, snapshot])
    }
}

/// What PyIceberg's append to a branch came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Append {
    /// It was applied, as this snapshot.
    Snapshot(String),
    /// PyIceberg itself refused, with these words.
    Refused(String),
}

/// Appends a Parquet file to a branch by PyIceberg.
pub fn append<'a>(warehouse: impl Into<Source<'a>>, table: &str, branch: &str, file: &Path) -> Result<Append> {
    #[derive(Deserialize)]
    struct Answer {
        snapshot: Option<String>,
        refused: Option<String>,
    }
    let file = file.to_string_lossy();
    let answer: Answer = ask("pyiceberg_append.py", warehouse, &[table, branch, file.as_ref()])?;
    match (answer.snapshot, answer.refused) {
        (Some(snapshot), None) => Ok(Append::Snapshot(snapshot)),
        (None, Some(refusal)) => Ok(Append::Refused(refusal)),
        _ => Err(HarnessError("pyiceberg_append.py: neither a snapshot nor a refusal".to_owned())),
    }
}

/// Changes a table by PyIceberg, as `integration/scripts/pyiceberg_change.py` says; the refusal, if the client refused.
pub fn change<'a>(warehouse: impl Into<Source<'a>>, table: &str, verb: &[&str]) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Answer {
        refused: Option<String>,
    }
    let answer: Answer = ask("pyiceberg_change.py", warehouse, &[&[table], verb].concat())?;
    Ok(answer.refused)
}

/// Runs a line that calve printed for a reader, as a person pastes it; the number of rows that it shows.
pub fn run_line(reader: &str, line: &str) -> Result<u64> {
    #[derive(Deserialize)]
    struct Answer {
        rows: u64,
    }
    let value = run_python("run_line.py", &[reader, line])?;
    let answer: Answer =
        serde_json::from_value(value).map_err(|error| HarnessError(format!("run_line.py: {error}")))?;
    Ok(answer.rows)
}

/// Sums of distance and departure delay, rows with an arrival delay, and the sum of flight numbers of a table of flights,
/// as `duckdb` or `pyiceberg` reads main.
pub fn sums<'a>(warehouse: impl Into<Source<'a>>, table: &str, reader: &str) -> Result<Vec<i64>> {
    ask("flights_sums.py", warehouse, &[table, reader])
}

/// Makes a table by PyIceberg, partitioned by the day of the column `day`, with the rows of a Parquet file.
pub fn create<'a>(warehouse: impl Into<Source<'a>>, table: &str, file: &Path, day: &str, version: u8) -> Result<()> {
    let (file, version) = (file.to_string_lossy(), version.to_string());
    ask::<serde_json::Value>("pyiceberg_create.py", warehouse, &[table, file.as_ref(), day, &version]).map(drop)
}

/// Rows, sorted, and the partitions of main's files, of a table whose partition fields have names that are no Avro names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OddNames {
    /// Each row's values with a space between.
    pub rows: Vec<String>,
    /// The same of the partition of each file.
    pub partitions: Vec<String>,
    /// Rows that a scan of `städt = 'Köln'` finds.
    pub pruned: u64,
}

/// Works on such a table by PyIceberg, as `integration/scripts/pyiceberg_odd_names.py` says.
pub fn odd_names<'a>(warehouse: impl Into<Source<'a>>, table: &str, verb: &[&str]) -> Result<OddNames> {
    ask("pyiceberg_odd_names.py", warehouse, &[&[table], verb].concat())
}

fn ask<'a, T: DeserializeOwned>(name: &str, warehouse: impl Into<Source<'a>>, rest: &[&str]) -> Result<T> {
    let mut command = script(name)?;
    match warehouse.into() {
        Source::Folder(folder) => command.arg(folder),
        Source::Rest(properties) => command.arg("-").env("CALVE_TEST_CATALOG", as_json(properties)),
    };
    let value = answer(name, command.args(rest))?;
    serde_json::from_value(value.clone()).map_err(|error| HarnessError(format!("{name}: {error} in {value}")))
}
