//! A publication of the flights example, verb by verb, and what readers have to see of one. For tests: whatever is not as
//! it should be fails the test that asked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]
#![allow(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::command::{Ran, Warehouse, calve};
use crate::flights;
use crate::readers::{Append, DuckDb, PyIceberg, append, change};

/// The table.
pub const TABLE: &str = "demo.flights";
/// The column whose values its rows are counted by.
pub const DAY: &str = "flight_date";
/// How it is partitioned.
pub const PARTITION: &str = "day(flight_date)";
/// The age that refs of calve's are kept for.
pub const FOREVER: Option<i64> = Some(i64::MAX);

/// Rows of the first eight days.
pub const HISTORY: u64 = 7735;
/// Rows of the ninth.
pub const NINTH: u64 = 999;
/// Rows of the tenth.
pub const TENTH: u64 = 807;

/// The text under a key of a report.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {key:?} in {value}"))
}

/// A file of the example, as an argument.
pub fn path(file: &str) -> String {
    flights(file).to_string_lossy().into_owned()
}

/// A publication of one file, verb by verb.
pub struct Story<'a> {
    warehouse: &'a Warehouse,
    table: &'a str,
}

impl<'a> Story<'a> {
    /// The table's contract is where validate and publish both find it.
    pub fn new(warehouse: &'a Warehouse, table: &'a str) -> Self {
        let contracts = warehouse.path().join("contracts");
        std::fs::create_dir_all(&contracts).unwrap();
        std::fs::copy(flights("flights.contract.toml"), contracts.join(format!("{table}.toml"))).unwrap();
        Self { warehouse, table }
    }

    /// Runs `calve`, which has to end with this exit code.
    pub fn run(&self, args: &[&str], code: i32) -> Ran {
        self.warehouse.calve(args).and_then(|ran| ran.expect_code(code)).unwrap()
    }

    /// Makes the table.
    pub fn create(&self, version: u8) {
        let (like, version) = (path("flights-2013-08-10.parquet"), version.to_string());
        let create = ["create", self.table, "--like", &like, "--partition-by", PARTITION, "--format-version", &version];
        self.run(&create, 0);
    }

    /// The report of a verb on the table, which has to end with this exit code.
    pub fn report(&self, verb: &[&str], code: i32) -> Value {
        let [verb, rest @ ..] = verb else { panic!("no verb") };
        self.run(&[&[*verb, self.table], rest].concat(), code).json().unwrap()
    }

    /// The report of a command, whatever its exit code.
    pub fn warehouse_report(&self, args: &[&str]) -> Value {
        self.warehouse.calve(args).and_then(|ran| ran.json()).unwrap()
    }

    /// Puts another contract in place of the example's.
    pub fn contract(&self, contract: &str) {
        std::fs::write(self.warehouse.path().join("contracts").join(format!("{}.toml", self.table)), contract).unwrap();
    }

    /// Opens a publication, and returns the report.
    pub fn begin(&self, id: &str, scope: &str) -> Value {
        self.report(&["begin", id, "--scope", scope], 0)
    }

    /// Stages a file of the example.
    pub fn stage(&self, id: &str, file: &str) {
        self.run(&["stage", self.table, id, &path(file), "--append"], 0);
    }

    /// Runs the checks, which have to end with this exit code, and returns the report.
    pub fn validate(&self, id: &str, code: i32) -> Value {
        self.report(&["validate", id], code)
    }

    /// Publishes, and returns the report.
    pub fn publish(&self, id: &str) -> Value {
        self.report(&["publish", id], 0)
    }

    /// The eight days of history and the ninth, each as a publication.
    pub fn history_and_ninth(&self) {
        for (id, scope, file) in [
            ("history", "flight_date <= '2013-08-08'", "flights-2013-08-01..08.parquet"),
            ("day-09", "flight_date = '2013-08-09'", "flights-2013-08-09.parquet"),
        ] {
            self.begin(id, scope);
            self.stage(id, file);
            self.validate(id, 0);
            self.publish(id);
        }
    }

    /// Appends a file of the example to the branch by PyIceberg.
    pub fn append(&self, id: &str, file: &str) -> Append {
        append(self.warehouse.path(), self.table, &format!("audit/{id}"), &flights(file)).unwrap()
    }

    /// Changes the table by PyIceberg, which must not refuse.
    pub fn change(&self, verb: &[&str]) {
        assert_eq!(change(self.warehouse.path(), self.table, verb).unwrap(), None, "{verb:?}");
    }

    /// What PyIceberg sees.
    pub fn seen(&self) -> PyIceberg {
        PyIceberg::read(self.warehouse.path(), self.table, DAY).unwrap()
    }

    /// What DuckDB sees.
    pub fn duckdb(&self) -> DuckDb {
        DuckDb::read(self.warehouse.path(), self.table, DAY).unwrap()
    }
}

/// What the table has to show of a published id: the receipt on a seal, and the tombstone elsewhere.
pub fn assert_published(seen: &PyIceberg, id: &str) {
    let (receipt, seal) = seen.reference(&format!("published/{id}")).unwrap();
    assert_eq!((receipt.kind.as_str(), receipt.max_ref_age_ms), ("tag", FOREVER), "{id}");
    let (tombstone, _) = seen.reference(&format!("audit/{id}")).unwrap();
    assert_eq!((tombstone.kind.as_str(), tombstone.max_ref_age_ms), ("tag", FOREVER), "{id}");
    assert_ne!(tombstone.snapshot, receipt.snapshot, "{id}: the tombstone still names the seal");
    assert!(!seen.refs.contains_key(&format!("closed/{id}")), "{id} is published and closed");

    let summary = |key: &str| seal.summary.get(key).map(String::as_str).unwrap_or_default();
    assert_eq!(seal.operation, "replace", "{id}");
    assert_eq!((summary("calve.publish-id"), summary("calve.verdict")), (id, "pass"));
    for key in ["calve.candidate", "calve.change", "calve.tree", "calve.contract", "calve.statement-digest"] {
        assert!(summary(key).starts_with("sha256:"), "{id}: {key} is {:?}", summary(key));
    }
    for check in ["schema", "keys", "scope", "volume"] {
        assert!(seal.summary.contains_key(&format!("calve.check.{check}")), "{id}: {check} is not in the seal");
    }
    let size: usize =
        seal.summary.iter().filter(|(key, _)| key.starts_with("calve.")).map(|(k, v)| k.len() + v.len()).sum();
    assert!(size < 2048, "{id}: the seal takes {size} bytes");
    assert!(!seal.summary.contains_key("wap.id"), "{id}: engines offer to publish what has a wap.id");
}

/// What the table has to show of an id that was fenced.
pub fn assert_closed(seen: &PyIceberg, id: &str) {
    for name in [format!("closed/{id}"), format!("audit/{id}")] {
        let (tag, _) = seen.reference(&name).unwrap();
        assert_eq!((tag.kind.as_str(), tag.max_ref_age_ms), ("tag", FOREVER), "{name}");
    }
    assert!(!seen.refs.contains_key(&format!("published/{id}")), "{id} is closed and published");
}

/// No two snapshots share a manifest list, whoever wrote them.
pub fn assert_own_manifest_lists(seen: &PyIceberg) {
    let lists: BTreeSet<_> = seen.snapshots.values().map(|snapshot| &snapshot.manifest_list).collect();
    assert_eq!(lists.len(), seen.snapshots.len(), "two snapshots share a manifest list");
}

/// DuckDB reads the rows that PyIceberg reads, at the location that the catalog names.
pub fn assert_duckdb_agrees(warehouse: &Path, table: &str, seen: &PyIceberg) {
    let duckdb = DuckDb::read(warehouse, table, DAY).unwrap();
    assert_eq!(duckdb.main, seen.main);
    assert_eq!(duckdb.metadata_location, seen.metadata_location);
}

/// PyIceberg sees the refs and seals that calve reports, neither fewer nor others.
pub fn assert_calve_agrees(warehouse: &Path, table: &str, seen: &PyIceberg) {
    let ask = |verb: &str| {
        let args = [verb, table, "--warehouse", &warehouse.to_string_lossy()];
        calve(warehouse, &args).and_then(|ran| ran.expect_code(0)?.json()).unwrap()
    };
    let status = ask("status");
    let status = status.pointer("/tables/0").unwrap();
    assert_eq!(status.get("main").and_then(Value::as_str), seen.refs.get("main").map(|main| main.snapshot.as_str()));
    let mut known = BTreeSet::from(["main".to_owned()]);
    for publication in status.get("publications").and_then(Value::as_array).unwrap() {
        let id = text(publication.get("finding").unwrap(), "publication");
        let proof = publication.pointer("/finding/proof").and_then(Value::as_array).unwrap();
        for name in ["audit", "published", "closed"].map(|kind| format!("{kind}/{id}")) {
            let shown = seen.refs.get(&name).map_or_else(
                || format!("{name} is absent"),
                |found| format!("{name} is a {} at {}", found.kind, found.snapshot),
            );
            assert!(
                proof.iter().filter_map(Value::as_str).any(|line| line.starts_with(&shown)),
                "{shown:?} is not in {proof:?}"
            );
            known.insert(name);
        }
    }
    let unknown: Vec<_> = seen.refs.keys().filter(|name| !known.contains(*name)).collect();
    assert!(unknown.is_empty(), "calve does not report {unknown:?}");

    let log = ask("log");
    for entry in log.get("entries").and_then(Value::as_array).unwrap() {
        let (receipt, snapshot) = seen.reference(&format!("published/{}", text(entry, "publication"))).unwrap();
        assert_eq!(text(entry, "snapshot"), receipt.snapshot);
        let checks = entry.get("checks").and_then(Value::as_array).unwrap();
        let reported = checks.iter().map(|check| {
            let part = |index: usize| check.get(index).and_then(Value::as_str).unwrap().to_owned();
            (format!("calve.check.{}", part(0)), part(1))
        });
        let in_summary = snapshot.summary.iter().filter(|(key, _)| key.starts_with("calve.check."));
        assert_eq!(reported.collect::<BTreeMap<_, _>>(), in_summary.map(|(k, v)| (k.clone(), v.clone())).collect());
        let statement = snapshot.summary.get("calve.statement-digest").map(String::as_str);
        assert_eq!(entry.get("statement").and_then(Value::as_str), statement);
    }
}
