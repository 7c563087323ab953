//! The tables, and their check when all publications of one are over.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use calve::catalog::properties::Properties;
use tokio::sync::{Mutex, OnceCell};

use super::check::{Facts, Finals, Outcome, Wrong, judge};
use super::outsider::Outsider;
use super::play::Played;
use super::process;
use crate::beds::Service;
use crate::lake::calve_toml;
use crate::services::shared_seaweedfs;
use crate::services::supervised::write_private;
use crate::{HarnessError, Result};

/// How often a table is read where that fails.
const READINGS: u32 = 3;

/// A table, with the publications that are played on it.
#[derive(Debug)]
pub(super) struct Table {
    /// How clients reach its catalog, under an identity that stays the same through every proxy.
    pub properties: Properties,
    /// Namespace and name.
    pub name: String,
    /// The publications' numbers.
    pub numbers: Vec<u64>,
    service: Service,
    partitioned: bool,
    version: u8,
    folder: PathBuf,
    made: OnceCell<()>,
    rolled_back: AtomicBool,
    played: Mutex<Vec<Played>>,
}

/// A publication with the verdict over it.
#[derive(Debug)]
pub(super) struct Judged {
    pub played: Played,
    pub outcome: Outcome,
    pub wrong: Wrong,
}

impl Table {
    /// The table of this place among those of a catalog; made when the first of its publications begins.
    pub(super) fn new(service: Service, name: String, place: u64, numbers: Vec<u64>, folder: PathBuf) -> Result<Self> {
        let mut properties = service.properties()?;
        properties.set("calve.identity", format!("chaos-{service:?}"));
        Ok(Self {
            properties,
            name,
            numbers,
            service,
            // Unpartitioned, each replacement rewrites the rows of all others.
            partitioned: place % 3 != 1,
            version: if place % 4 == 3 { 1 } else { 2 },
            folder,
            made: OnceCell::new(),
            rolled_back: AtomicBool::new(false),
            played: Mutex::new(Vec::new()),
        })
    }

    /// Makes it, unless somebody has.
    pub(super) async fn make(&self, other: &Outsider) -> Result<()> {
        let make = || async {
            std::fs::create_dir_all(&self.folder).map_err(|error| HarnessError::io(self.folder.display(), &error))?;
            let journal = shared_seaweedfs()?.journal_root();
            let toml = calve_toml(&journal, &[("chaos", self.properties.clone())]);
            write_private(&self.folder.join("calve.toml"), &toml)?;
            other.make(&self.properties, &self.name, self.partitioned, self.version, &self.numbers).await
        };
        self.made.get_or_try_init(make).await.copied()
    }

    /// Somebody else moves main back: from then on, rows that were there may be gone.
    pub(super) fn rolls_back(&self) {
        self.rolled_back.store(true, Ordering::SeqCst);
    }

    /// Takes in what was played. Is it the last?
    pub(super) async fn over(&self, played: Played) -> bool {
        let mut all = self.played.lock().await;
        all.push(played);
        all.len() == self.numbers.len()
    }

    /// Asks calve once more about all publications, and the readers about all rows; the second is what is wrong with the
    /// table as a whole.
    pub(super) async fn check(&self, reader: &Outsider) -> Result<(Vec<Judged>, Vec<String>)> {
        let mut table = Vec::new();
        let finals = self.finals(&mut table).await?;
        let mut seen = reader.read(&self.properties, &self.name).await;
        for _ in 1..READINGS {
            if seen.is_err() {
                seen = reader.read(&self.properties, &self.name).await;
            }
        }
        let seen = seen?;
        if seen.duckdb != seen.pyiceberg {
            table.push(format!("DuckDB and PyIceberg see different rows: {:?} and {:?}", seen.duckdb, seen.pyiceberg));
        }
        let facts = Facts::of(&seen, self.rolled_back.load(Ordering::SeqCst));
        table.extend(facts.strangers(&self.numbers.iter().copied().collect::<BTreeSet<_>>()));
        let mut judged = Vec::new();
        for played in std::mem::take(&mut *self.played.lock().await) {
            let (outcome, wrong) = judge(&played, &finals, &facts);
            judged.push(Judged { played, outcome, wrong });
        }
        Ok((judged, table))
    }

    /// What `reconcile` tells of each publication when all are over, past every proxy.
    async fn finals(&self, wrong: &mut Vec<String>) -> Result<Finals> {
        let ended = process::calve(&self.folder, &["reconcile", &self.name], None).await?;
        let report = ended.report();
        let Some(all) = report.get("publications").and_then(serde_json::Value::as_array) else {
            wrong.push(format!("reconcile {} ends with {:?}: {} {}", self.name, ended.code, ended.out, ended.err));
            return Ok(Finals::default());
        };
        Ok(Finals::of(all.iter().filter_map(|report| report.get("finding"))))
    }

    /// How it is called in a report.
    pub(super) fn shown(&self) -> String {
        let layout = if self.partitioned { "partitioned" } else { "unpartitioned" };
        format!("{} of {:?}, format {}, {layout}", self.name, self.service, self.version)
    }
}
