//! One reading of the files for all built-in checks.
//!
//! [`run`] plans the files that the contract's checks need in the base and in the head, reads each once with the
//! columns that all checks together look at, and hands every batch to what each check gathers. Only where a question
//! is left open are files read again, and then only those that matter: keys whose hashes occur twice are compared, and
//! rows outside the scope that were rewritten are compared in all their columns.
//!
//! Memory is bounded by [`PassInput::memory`]: hashes of keys take 8 bytes a row, and where that is too much they are
//! gathered in several readings. Source: `protocol.md`, "Checks".

mod gather;
mod hash;
mod open;
mod plan;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt};
pub use hash::hash_files;

use self::gather::Gathered;
use self::open::Questions;
use self::plan::Plan;
use self::read::{Job, Reading, Side};
use crate::catalog::LoadedTable;
use crate::contract::{CheckKind, Contract, Expected, Within};
use crate::data::checks::row_hash::KeyHash;
use crate::data::checks::source::{SourceRequest, SourceTotals};
use crate::data::checks::{Finding, column, keys, manifest, schema, source, totals, volume};
use crate::data::{DataError, Progress};
use crate::digest::Digest;
use crate::evidence::check::CheckResult;
use crate::identity::{LiveEntry, change_between, source_digest};
use crate::ids::SnapshotId;
use crate::scope::Scope;

/// The memory limit unless one is given: 1 GiB.
pub const DEFAULT_MEMORY: u64 = 1 << 30;

/// Footers read at once: enough to hide a store's latency.
const FOOTERS_AT_ONCE: usize = 8;

/// What to check.
#[derive(Debug)]
pub struct PassInput<'a> {
    /// The table; its metadata has both snapshots.
    pub table: &'a LoadedTable,
    /// The base; `None` for a table that had no snapshot.
    pub base: Option<SnapshotId>,
    /// The candidate's data snapshot.
    pub head: SnapshotId,
    /// The base's live entries.
    pub base_entries: &'a [LiveEntry],
    /// The head's live entries.
    pub head_entries: &'a [LiveEntry],
    /// What the publication owns.
    pub scope: &'a Scope,
    /// What is asked for.
    pub contract: &'a Contract,
    /// Where relative paths of sources start: the folder of the contract file.
    pub sources_root: &'a Path,
    /// Hashes of added files that are known, because calve wrote them, by path. The others are read and hashed.
    pub known: &'a BTreeMap<String, Digest>,
    /// How much memory the checks may take for what they gather, in bytes.
    pub memory: u64,
    /// Told how it goes on.
    pub progress: Arc<dyn Progress>,
}

/// What was found.
#[derive(Debug)]
pub struct PassOutput {
    /// One result for each check of the contract, in its order, then that of manifests.
    pub results: Vec<CheckResult>,
    /// The plain SHA-256 of every file that the change adds, delete files too, by path.
    pub file_digests: BTreeMap<String, Digest>,
    /// The sources that were read, by name: what `source/<name>` depends on.
    pub sources: BTreeMap<String, SourceVersion>,
    /// Rows read, deletes applied, each file counted once.
    pub examined_rows: u64,
}

/// A source as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceVersion {
    /// Its immutable version: the digest of the names and bytes of its files, as text.
    pub version: String,
    /// [`source_digest`] of its URI and that version: the value of the identity `source/<name>`.
    pub digest: Digest,
    /// Its files below the contract's folder, sorted, with the plain SHA-256 of each.
    pub files: Vec<(String, Digest)>,
}

/// Runs every check of the contract, the check of manifests, and the hashing of added files.
///
/// What a check finds, and that it cannot be decided, is in its result. Errors are failures to read the table: a file
/// that is missing or damaged, or less memory than the keys need.
pub async fn run(input: PassInput<'_>) -> Result<PassOutput, DataError> {
    run_with(input, KeyHash::STRONG, keys::CONFIRMED_AT_ONCE).await
}

async fn run_with(input: PassInput<'_>, hash: KeyHash, at_once: usize) -> Result<PassOutput, DataError> {
    let table_schema = input.table.metadata.current_schema().clone();
    let plan = plan::plan(&input, &table_schema).await?;
    let questions = Questions::of(input.contract, &table_schema);
    let reading = Reading::new(input.table.file_io.clone(), table_schema.clone(), input.progress.clone());
    let jobs: Vec<Job> = plan.jobs.iter().filter(|job| questions.needs(job)).cloned().collect();
    let bytes = jobs.iter().map(|job| job.task.file_size_in_bytes).fold(0u64, u64::saturating_add);
    input.progress.stage("checking", Some(bytes));
    let mut gathered = gather::gather(&input, &reading, &questions, &jobs, hash).await?;
    let unreadable = Unreadable::new(&plan, &questions, std::mem::take(&mut gathered.unreadable));
    let sources = read_sources(&input, &reading).await?;

    let mut results = Vec::with_capacity(input.contract.checks.len() + 1);
    for check in &input.contract.checks {
        let unreadable = unreadable.of(&check.kind);
        let finding = match &check.kind {
            CheckKind::Schema(rules) => schema::conclude(rules, &table_schema),
            _ if !unreadable.is_empty() => Finding::unreadable(&unreadable),
            CheckKind::Keys(rules) => match gathered.keys.remove(&check.name) {
                Some(found) => open::settle_keys(&input, &reading, &jobs, rules, found, hash, at_once).await?,
                None => Finding::error(open::keys_fault(rules, &table_schema)),
            },
            CheckKind::Scope => open::settle_scope(&input, &reading, &jobs, &gathered).await?,
            CheckKind::Totals(rules) => {
                let id_of = |name: &str| column(&table_schema, name).map(|field| field.id);
                totals::conclude(rules, &gathered.totals, id_of, &sources)
            }
            CheckKind::Volume(rules) => {
                let (head, base) = gathered.inside();
                volume::conclude(rules, head, base)
            }
        };
        results.push(finding.of(check));
    }
    results.push(check_manifests(&input, &gathered, &unreadable).await?);
    let file_digests = hash_added(&input).await?;
    let sources = sources
        .into_iter()
        .filter_map(|(name, read)| {
            let (read, uri) = (read.ok()?, input.contract.sources.get(&name)?);
            let version = source::version(&read.files).to_string();
            let digest = source_digest(uri, &version);
            Some((name, SourceVersion { version, digest, files: read.files }))
        })
        .collect();
    Ok(PassOutput { results, file_digests, sources, examined_rows: gathered.rows() })
}

/// The entries that the head has and the base has not.
fn added(input: &PassInput<'_>) -> Vec<LiveEntry> {
    change_between(input.base_entries, input.head_entries).added
}

async fn hash_added(input: &PassInput<'_>) -> Result<BTreeMap<String, Digest>, DataError> {
    let mut digests = BTreeMap::new();
    let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &added(input) {
        let path = entry.file.file_path();
        match input.known.get(path) {
            Some(digest) => {
                digests.insert(path.to_owned(), *digest);
            }
            None => {
                unknown.insert(path.to_owned(), entry.file.file_size_in_bytes());
            }
        }
    }
    if !unknown.is_empty() {
        let bytes = unknown.values().copied().fold(0u64, u64::saturating_add);
        input.progress.stage("hashing added files", Some(bytes));
        let paths = unknown.into_keys();
        digests.extend(hash_files(&input.table.file_io, paths, input.progress.as_ref()).await?);
    }
    Ok(digests)
}

async fn check_manifests(
    input: &PassInput<'_>,
    gathered: &Gathered,
    unreadable: &Unreadable,
) -> Result<CheckResult, DataError> {
    let schema = input.table.metadata.current_schema();
    let (mut files, mut rows, mut faults) = (0, 0, Vec::new());
    let added = added(input);
    // Boxed: a stream that maps references to futures is not `Send` for every lifetime.
    let mut footers = Vec::new();
    for entry in &added {
        footers.push(manifest::check_footer(&input.table.file_io, &entry.file).boxed());
    }
    let mut footers = futures::stream::iter(footers).buffered(FOOTERS_AT_ONCE);
    while let Some(found) = footers.try_next().await? {
        faults.extend(found);
        files += 1;
    }
    for (entry, seen) in &gathered.seen {
        let Some(live) = input.head_entries.get(*entry) else { continue };
        faults.extend(seen.file.faults(&live.file, schema, seen.deletes));
        rows += gathered.files.get(&(Side::Head, *entry)).map_or(0, |file| file.rows);
    }
    let unreadable: Vec<String> = unreadable.added().into_iter().collect();
    Ok(manifest::result(files, rows, faults, &unreadable))
}

/// Files that cannot be read, and the reason, with the file named in it.
struct Unreadable(Vec<(Job, String)>);

impl Unreadable {
    fn new(plan: &Plan, questions: &Questions, found: Vec<(Job, String)>) -> Self {
        let planned = plan.unreadable.iter().filter(|(job, _)| questions.needs(job) || job.added).cloned();
        Self(planned.chain(found).collect())
    }

    fn where_(&self, concerns: impl Fn(&Job) -> bool) -> BTreeSet<String> {
        self.0.iter().filter(|(job, _)| concerns(job)).map(|(_, reason)| reason.clone()).collect()
    }

    /// The files that a check of this kind needs.
    fn of(&self, kind: &CheckKind) -> BTreeSet<String> {
        match kind {
            CheckKind::Schema(_) => BTreeSet::new(),
            CheckKind::Keys(rules) if rules.within == Within::Table => self.where_(|job| job.side == Side::Head),
            CheckKind::Keys(_) | CheckKind::Totals(_) => self.where_(|job| job.side == Side::Head && job.may_match),
            CheckKind::Scope => self.where_(|job| job.changed),
            CheckKind::Volume(_) => self.where_(|job| job.may_match),
        }
    }

    fn added(&self) -> BTreeSet<String> {
        self.where_(|job| job.added)
    }
}

/// Reads each source that a totals check compares with, once for all of them.
async fn read_sources(
    input: &PassInput<'_>,
    reading: &Reading,
) -> Result<BTreeMap<String, Result<SourceTotals, String>>, DataError> {
    let mut columns: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    for check in &input.contract.checks {
        let CheckKind::Totals(rules) = &check.kind else { continue };
        for measure in &rules.measures {
            let Expected::Source { name, .. } = &measure.expected else { continue };
            let wanted = columns.entry(name.clone()).or_default();
            if let Some(column) = measure.aggregate.column() {
                let summed = matches!(measure.aggregate, crate::contract::Aggregate::Sum(_));
                *wanted.entry(column.to_owned()).or_insert(false) |= summed;
            }
        }
    }
    let mut sources = BTreeMap::new();
    for (name, columns) in columns {
        let Some(uri) = input.contract.sources.get(&name) else { continue };
        let scope = match input.scope.is_whole_table() {
            true => None,
            false => {
                let ids = open::scope_columns(input.scope, reading.schema());
                Some((
                    open::matcher(input.scope, reading.schema())?,
                    read::Projection::new(reading.schema(), ids)?.arrow,
                ))
            }
        };
        let request = SourceRequest { uri: uri.clone(), root: input.sources_root.to_owned(), columns, scope };
        input.progress.stage(&format!("reading source {name}"), None);
        let read = tokio::task::spawn_blocking(move || source::read(&request)).await;
        let read = read.unwrap_or_else(|failed| Err(format!("reading it failed: {failed}")));
        sources.insert(name, read);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests;
