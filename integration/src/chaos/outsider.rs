//! A Python process that makes, changes and reads tables without calve.

use std::process::Stdio;

use calve::catalog::properties::Properties;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::python::script;
use crate::readers::as_json;
use crate::{HarnessError, Result};

const SCRIPT: &str = "chaos_outsider.py";

/// A row with how often it is there: number, publication, row, count.
pub(super) type Counted = (i64, String, u64, u64);

/// A table as the outsiders see it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Seen {
    /// Main's rows, as DuckDB reads them.
    pub duckdb: Vec<Counted>,
    /// Main's rows, from the files that PyIceberg finds.
    pub pyiceberg: Vec<Counted>,
    /// Whose rows were ever in main, with a snapshot that shows it.
    pub history: std::collections::BTreeMap<String, String>,
    /// How many snapshots there are.
    pub snapshots: u64,
}

/// The process. It ends with this value.
#[derive(Debug)]
pub(super) struct Outsider(Mutex<Pipes>);

#[derive(Debug)]
struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

impl Outsider {
    /// Starts it.
    pub(super) fn start() -> Result<Self> {
        let mut command = Command::from(script(SCRIPT)?);
        command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| HarnessError::io(SCRIPT, &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self(Mutex::new(Pipes { input, output: BufReader::new(output), _child: child })))
            }
            _ => Err(HarnessError(format!("{SCRIPT}: it has no pipes"))),
        }
    }

    /// Makes a table with two rows of `base` under each number.
    pub(super) async fn make(
        &self,
        catalog: &Properties,
        table: &str,
        partitioned: bool,
        version: u8,
        numbers: &[u64],
    ) -> Result<()> {
        let job = json!({
            "do": "make", "table": table, "partitioned": partitioned, "version": version, "numbers": numbers
        });
        self.ask(catalog, job).await.map(drop)
    }

    /// Appends a row of `other` under a number to main. Was it applied?
    pub(super) async fn append(&self, catalog: &Properties, table: &str, number: i64) -> Result<bool> {
        self.change(catalog, json!({ "do": "append", "table": table, "number": number })).await
    }

    /// Moves main so many snapshots back. Was it applied?
    pub(super) async fn rollback(&self, catalog: &Properties, table: &str, steps: u64) -> Result<bool> {
        self.change(catalog, json!({ "do": "rollback", "table": table, "steps": steps })).await
    }

    /// Moves main to the head of a branch, if that stands on main. Was it applied?
    pub(super) async fn bypass(&self, catalog: &Properties, table: &str, branch: &str) -> Result<bool> {
        self.change(catalog, json!({ "do": "bypass", "table": table, "branch": branch })).await
    }

    async fn change(&self, catalog: &Properties, job: Value) -> Result<bool> {
        Ok(self.ask(catalog, job).await?.get("refused") == Some(&Value::Null))
    }

    /// Reads a table.
    pub(super) async fn read(&self, catalog: &Properties, table: &str) -> Result<Seen> {
        let answer = self.ask(catalog, json!({ "do": "read", "table": table })).await?;
        serde_json::from_value(answer).map_err(|error| HarnessError(format!("{SCRIPT}: {table}: {error}")))
    }

    async fn ask(&self, catalog: &Properties, mut job: Value) -> Result<Value> {
        let properties: Value =
            serde_json::from_str(&as_json(catalog)).map_err(|error| HarnessError(error.to_string()))?;
        if let Some(job) = job.as_object_mut() {
            drop(job.insert("catalog".to_owned(), properties));
        }
        let mut pipes = self.0.lock().await;
        let io = |error: std::io::Error| HarnessError::io(SCRIPT, &error);
        pipes.input.write_all(format!("{job}\n").as_bytes()).await.map_err(io)?;
        pipes.input.flush().await.map_err(io)?;
        let mut line = String::new();
        pipes.output.read_line(&mut line).await.map_err(io)?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| HarnessError(format!("{SCRIPT}: {error}: {line:?}")))?;
        match answer.get("failed").and_then(Value::as_str) {
            Some(reason) => Err(HarnessError(format!("{SCRIPT}: {}: {reason}", show(&job)))),
            None => Ok(answer),
        }
    }
}

/// A job without the catalog's secrets.
fn show(job: &Value) -> String {
    let text = |key| job.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("do"), text("table"))
}
