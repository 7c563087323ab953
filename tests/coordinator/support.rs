//! What the tests of this folder share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use calve::catalog::{Catalog, CatalogError, Commit, LoadedTable, Reply};
use calve::clock::Clock;
use calve::coordinator::Coordinator;
use calve::data::live::live_entries;
use calve::digest::Digest;
use calve::identity::tree_digest;
use calve::ids::{CatalogIdentity, Owner, PublicationId, RefName, SnapshotId, TableName, TableUuid};
use calve::journal::memory::MemoryJournal;
use calve::journal::record::Record;
use calve::journal::{Journal, JournalError, LogKey, Put, PutIfAbsent};
use calve::observed::ObservedRef;
use calve::testing::{Bed, Kind};
use futures::future::BoxFuture;
use iceberg::TableCreation;
use uuid::Uuid;

/// A bed of one kind whose main holds ids 1 to 3 on 8 August.
pub async fn history(kind: Kind) -> (Bed, Coordinator, SnapshotId) {
    let bed = Bed::new(kind).await;
    let base = bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    let calve = bed.coordinator("ann");
    (bed, calve, base)
}

/// The fake bed, and a journal of its own whose puts can fail.
pub async fn with_memory() -> (Bed, Coordinator, Arc<MemoryJournal>, SnapshotId) {
    let (bed, _, base) = history(Kind::Fake).await;
    let journal = Arc::new(MemoryJournal::named("own"));
    let calve = bed.coordinator_with("ann", journal.clone());
    (bed, calve, journal, base)
}

pub async fn load(bed: &Bed) -> LoadedTable {
    bed.catalog.load(&bed.table).await.expect("the table")
}

/// The live files of a snapshot, as one digest.
pub async fn tree(table: &LoadedTable, snapshot: SnapshotId) -> Digest {
    tree_digest(&live_entries(table, Some(snapshot)).await.expect("live files"))
}

pub async fn refs(bed: &Bed) -> BTreeMap<RefName, ObservedRef> {
    bed.observe().await.refs
}

/// Every ref that is not in both, or not the same in both.
pub fn changed(before: &BTreeMap<RefName, ObservedRef>, after: &BTreeMap<RefName, ObservedRef>) -> BTreeSet<String> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).map(|name| name.0.clone()).collect()
}

/// I12: no two snapshots share a manifest list.
pub fn no_shared_list(table: &LoadedTable) {
    let lists: Vec<_> = table.metadata.snapshots().map(|snapshot| snapshot.manifest_list().to_owned()).collect();
    assert_eq!(lists.iter().collect::<BTreeSet<_>>().len(), lists.len(), "{lists:?}");
}

/// The calve keys of a summary.
pub fn calve_keys(table: &LoadedTable, snapshot: SnapshotId) -> BTreeMap<String, String> {
    let summary = table.metadata.snapshot_by_id(snapshot.0).expect("the snapshot").summary();
    assert!(!summary.additional_properties.keys().any(|key| key.starts_with("wap.")), "{summary:?}");
    summary.additional_properties.clone().into_iter().filter(|(key, _)| key.starts_with("calve.")).collect()
}

/// The log of a publication of the bed's table.
pub async fn log_of(bed: &Bed, journal: &dyn Journal, id: &str) -> Vec<Record> {
    journal.read(&log_key(bed, id).await).await.expect("a log")
}

pub async fn log_key(bed: &Bed, id: &str) -> LogKey {
    LogKey { catalog: bed.catalog.identity().clone(), table: bed.observe().await.uuid, publication: bed.id(id) }
}

pub fn unavailable() -> CatalogError {
    CatalogError::Unavailable { what: "the catalog".to_owned(), reason: "503".to_owned() }
}

/// A catalog whose commits are changed on the way, and whose replies have a body or none.
#[derive(Debug)]
pub struct Altered {
    pub inner: Arc<dyn Catalog>,
    pub alter: fn(Commit) -> Commit,
    pub body: bool,
    /// The body is of the table as it was before, as a cache between would have it.
    pub stale: bool,
}

impl Altered {
    pub fn coordinator(self, bed: &Bed) -> Coordinator {
        Coordinator::new(Arc::new(self), bed.journal.clone(), bed.clock.clone(), Owner("ann".to_owned()))
    }
}

#[async_trait]
impl Catalog for Altered {
    fn identity(&self) -> &CatalogIdentity {
        self.inner.identity()
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.inner.tables().await
    }
    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.inner.load(table).await
    }
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.inner.create(table, creation).await
    }
    async fn commit(&self, commit: &Commit) -> Reply {
        let before = if self.stale { self.inner.load(&commit.table).await.ok() } else { None };
        match self.inner.commit(&(self.alter)(commit.clone())).await {
            Reply::Accepted { .. } if self.stale => Reply::Accepted { table: before },
            Reply::Accepted { table } => Reply::Accepted { table: table.filter(|_| self.body) },
            other => other,
        }
    }
}

type Hook = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// A journal in which others get in between: a hook runs before the next reading of a log, or the next put.
pub struct Crowded {
    inner: Arc<dyn Journal>,
    before_read: Mutex<Option<Hook>>,
    before_put: Mutex<Option<Hook>>,
}

impl std::fmt::Debug for Crowded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crowded").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Crowded {
    pub fn new(inner: Arc<dyn Journal>) -> Self {
        Self { inner, before_read: Mutex::default(), before_put: Mutex::default() }
    }
    pub fn before_read(&self, hook: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        *self.before_read.lock().unwrap() = Some(Box::new(hook));
    }
    pub fn before_put(&self, hook: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        *self.before_put.lock().unwrap() = Some(Box::new(hook));
    }
    async fn run(slot: &Mutex<Option<Hook>>) {
        let hook = slot.lock().unwrap().take();
        if let Some(hook) = hook {
            hook().await;
        }
    }
}

#[async_trait]
impl Journal for Crowded {
    fn root(&self) -> String {
        self.inner.root()
    }
    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        Self::run(&self.before_read).await;
        self.inner.read(log).await
    }
    async fn holds(&self, log: &LogKey, number: u32, id: Uuid) -> Result<bool, JournalError> {
        self.inner.holds(log, number, id).await
    }
    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        Self::run(&self.before_put).await;
        self.inner.put(log, record).await
    }
    async fn publications(&self, c: &CatalogIdentity, table: TableUuid) -> Result<Vec<PublicationId>, JournalError> {
        self.inner.publications(c, table).await
    }
    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        self.inner.catalogs().await
    }
    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        self.inner.tables(catalog).await
    }
    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        self.inner.put_statement(bytes).await
    }
    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner.statement(digest).await
    }
    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        self.inner.prove_put_if_absent(clock).await
    }
}

/// A journal that takes records, and has no room for statements.
#[derive(Debug)]
pub struct NoStatements(pub Arc<MemoryJournal>);

#[async_trait]
impl Journal for NoStatements {
    fn root(&self) -> String {
        self.0.root()
    }
    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        self.0.read(log).await
    }
    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        self.0.put(log, record).await
    }
    async fn publications(&self, c: &CatalogIdentity, table: TableUuid) -> Result<Vec<PublicationId>, JournalError> {
        self.0.publications(c, table).await
    }
    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        self.0.catalogs().await
    }
    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        self.0.tables(catalog).await
    }
    async fn put_statement(&self, _: &[u8]) -> Result<(Digest, String), JournalError> {
        Err(JournalError::Io { path: self.root(), reason: "full".to_owned(), unwritable: true })
    }
    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.0.statement(digest).await
    }
    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        self.0.prove_put_if_absent(clock).await
    }
}

/// A catalog under another name.
#[derive(Debug)]
pub struct Renamed<C>(pub C, pub CatalogIdentity);

#[async_trait]
impl<C: Catalog> Catalog for Renamed<C> {
    fn identity(&self) -> &CatalogIdentity {
        &self.1
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.0.tables().await
    }
    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.0.load(table).await
    }
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.0.create(table, creation).await
    }
    async fn commit(&self, commit: &Commit) -> Reply {
        self.0.commit(commit).await
    }
}
