//! A working directory for the command, what a run of it left, and what readers of the table see meanwhile.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use calve::catalog::Catalog as _;
use calve::catalog::embedded::EmbeddedCatalog;
use calve::clock::SystemClock;
use futures::TryStreamExt as _;
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Row as _};
use tempfile::TempDir;

/// The table of these tests.
pub const TABLE: &str = "shop.orders";

/// The instant of the first order of a day of August 2013, in microseconds.
fn day(day: i64) -> i64 {
    1_375_315_200_000_000 + (day - 1) * 86_400_000_000
}

/// A working directory with nothing of the developer's environment in it.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A warehouse `lake` with the table `shop.orders`, its contract, and the orders 1 to 5 of 9 August in main.
    pub fn shop() -> Self {
        let place = Self::new();
        place.orders("orders.parquet", 9, &[1, 2, 3, 4, 5]);
        place.lake(&["create", TABLE, "--like", "orders.parquet", "--partition-by", "day(ordered_at)"]).ends(0);
        place.lake(&["contract", "init", TABLE, "--key", "order_id"]).ends(0);
        place.sealed("first", "orders.parquet");
        place.lake(&["publish", TABLE, "first"]).ends(0);
        place
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_calve"));
        self.prepare(&mut command);
        command.args(line);
        command
    }

    /// Runs a line where no warehouse is named.
    pub fn run(&self, line: &[&str]) -> Ran {
        Ran::of(&self.command(line).env_remove("CALVE_WAREHOUSE").env_remove("CALVE_OWNER").output().unwrap())
    }

    /// Gives a command this working directory and the warehouse `lake`.
    pub fn prepare(&self, command: &mut Command) {
        command.current_dir(self.path()).stdin(Stdio::null());
        for variable in
            ["CALVE_CATALOG", "CALVE_JOURNAL", "CALVE_TEST_PAUSE_AT", "PYICEBERG_HOME", "PYICEBERG_DEFAULT_CATALOG"]
        {
            command.env_remove(variable);
        }
        // Neither the developer's catalogs nor their journal.
        command.env("HOME", self.path()).env_remove("XDG_STATE_HOME");
        command.env("CALVE_WAREHOUSE", "lake").env("CALVE_OWNER", "tester");
    }

    /// Runs a line on the warehouse `lake`.
    pub fn lake(&self, line: &[&str]) -> Ran {
        Ran::of(&self.command(line).output().unwrap())
    }

    /// Opens a publication, and stages a file to it.
    pub fn staged(&self, id: &str, file: &str) {
        self.lake(&["begin", TABLE, id]).ends(0);
        self.lake(&["stage", TABLE, id, file, "--append"]).ends(0);
    }

    /// The same, validated.
    pub fn sealed(&self, id: &str, file: &str) {
        self.staged(id, file);
        self.lake(&["validate", TABLE, id]).ends(0);
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A Parquet file of orders with these ids, one a minute of a day of August 2013.
    pub fn orders(&self, name: &str, of: i64, ids: &[i64]) {
        let times = (0..).zip(ids).map(|(at, _)| day(of) + 60_000_000 * at);
        let customers = ids.iter().map(|id| format!("customer {id}"));
        self.parquet(
            name,
            vec![
                ("order_id", Arc::new(Int64Array::from(ids.to_vec()))),
                ("ordered_at", Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))),
                ("customer", Arc::new(StringArray::from_iter_values(customers))),
            ],
        );
    }

    /// A Parquet file of these columns.
    pub fn parquet(&self, name: &str, columns: Vec<(&str, ArrayRef)>) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = std::fs::File::create(self.path().join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    /// Runs statements in `catalog.db`, behind calve's back.
    pub fn sql(&self, statement: &'static str) {
        block_on(async {
            let options = SqliteConnectOptions::new().filename(self.path().join("lake/catalog.db"));
            let mut database = options.connect().await.unwrap();
            sqlx::query(statement).execute(&mut database).await.unwrap();
        });
    }

    /// The metadata file that the table's row names.
    pub fn row(&self) -> String {
        block_on(async {
            let options = SqliteConnectOptions::new().filename(self.path().join("lake/catalog.db")).read_only(true);
            let mut database = options.connect().await.unwrap();
            let question =
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace || '.' || table_name = ?";
            sqlx::query(question).bind(TABLE).fetch_one(&mut database).await.unwrap().get(0)
        })
    }

    /// The file behind the row.
    pub fn metadata_file(&self) -> PathBuf {
        PathBuf::from(self.row().strip_prefix("file://").unwrap().to_owned())
    }

    /// What the table is for everybody.
    pub fn seen(&self) -> Seen {
        let metadata: Value = serde_json::from_slice(&std::fs::read(self.metadata_file()).unwrap()).unwrap();
        let refs = metadata["refs"].as_object().cloned().unwrap_or_default().into_iter().collect();
        Seen { row: self.row(), refs, orders: self.orders_in_main() }
    }

    /// The order ids that a reader of main sees, sorted.
    pub fn orders_in_main(&self) -> Vec<i64> {
        block_on(async {
            let lake = self.path().join("lake");
            let catalog = EmbeddedCatalog::open(&lake, false, Arc::new(SystemClock)).await.unwrap();
            let table = catalog.load(&TABLE.parse().unwrap()).await.unwrap();
            if table.metadata.current_snapshot().is_none() {
                return Vec::new();
            }
            let scan = table.to_iceberg().unwrap().scan().select(["order_id"]).build().unwrap();
            let batches: Vec<RecordBatch> = scan.to_arrow().await.unwrap().try_collect().await.unwrap();
            let ids =
                |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
            let mut ids: Vec<i64> = batches.iter().flat_map(ids).collect();
            ids.sort_unstable();
            ids
        })
    }

    /// The word for where a publication stands, e.g. `sealed`, as `reconcile` says it with this exit code.
    #[track_caller]
    pub fn reconciled(&self, id: &str, code: i32) -> String {
        let report = self.lake(&["reconcile", TABLE, id, "--json"]).ends(code).json();
        report["finding"]["state"].as_str().unwrap().to_owned()
    }

    /// Starts a line that stops at a step, e.g. `publish:intended`, and returns it when it is there.
    pub fn paused(&self, line: &[&str], step: &str) -> Running {
        let mut command = self.command(line);
        command.env("CALVE_TEST_PAUSE_AT", step).stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        // Byte by byte: what comes after the line is for whoever reads the rest.
        let mut said = running.0.stderr.take().unwrap();
        let (mut text, mut byte) = (String::new(), [0]);
        while said.read(&mut byte).unwrap() > 0 {
            text.push(char::from(byte[0]));
            if text.ends_with(&format!("paused at {step}\n")) {
                running.0.stderr = Some(said);
                return running;
            }
        }
        let mut out = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        panic!("{line:?} went past {step}: {text} {out}");
    }

    /// Runs a line to a step, and kills it there as the kernel kills: without a word.
    pub fn killed(&self, line: &[&str], step: &str) {
        let _status = self.paused(line, step).kill();
    }

    /// Every file and folder below a folder, with the bytes of files.
    pub fn files(&self, folder: &str) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.path().join(folder)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path.clone());
                    found.insert(path, None);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.insert(path, Some(bytes));
                }
            }
        }
        found
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

/// What the table is for everybody: the row of the catalog, the refs, and the orders that readers of main see.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub row: String,
    pub refs: BTreeMap<String, Value>,
    pub orders: Vec<i64>,
}

/// A command at work; killed and reaped where a test ends before it.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Lets a paused command go on to its end.
    pub fn goes_on(mut self) -> Ran {
        self.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        self.ran()
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub fn kill(mut self) -> ExitStatus {
        self.0.kill().unwrap();
        self.0.wait().unwrap()
    }

    /// What it left, when it has ended.
    pub fn ran(mut self) -> Ran {
        let mut err = self.0.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).map(|_| text)
        });
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let err = reader.join().unwrap().unwrap();
        Ran { code: self.0.wait().unwrap().code().unwrap(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What a command left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let code = output.status.code().unwrap_or_else(|| panic!("no exit code: {output:?}"));
        Self { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Exactly one JSON object, on one line.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }

    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "{word:?} is missing in {self:?}");
        }
        self
    }

    /// An error of this code on standard error, nothing on standard output.
    #[track_caller]
    pub fn complains(self, code: i32, words: &[&str]) -> Self {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        assert!(self.err.starts_with("error: "), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing in {self:?}");
        }
        self
    }
}
