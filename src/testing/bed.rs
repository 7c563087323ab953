//! A table with a catalog, a journal, a clock and troubles of its own, and what engines do to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::{Date32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use iceberg::spec::{
    NestedField, PrimitiveType, Schema, SnapshotReference, SnapshotRetention, Transform, Type, UnboundPartitionSpec,
};
use iceberg::{TableCreation, TableRequirement, TableUpdate};
use parquet::arrow::ArrowWriter;

use super::network::{Network, Scripted, Trouble};
use crate::catalog::embedded::EmbeddedCatalog;
use crate::catalog::fake::FakeCatalog;
use crate::catalog::faults::Faults;
use crate::catalog::{Catalog, Commit, LoadedTable, Reply};
use crate::clock::{Clock, ManualClock};
use crate::contract::Contract;
use crate::coordinator::{BeginRequest, Coordinator, StageMode, StageRequest, ValidateRequest};
use crate::data::NoProgress;
use crate::data::snapshot::build_snapshot;
use crate::data::write;
use crate::ids::{Owner, PublicationId, RefName, SnapshotId, TableName};
use crate::journal::Journal;
use crate::journal::local::LocalJournal;
use crate::journal::memory::MemoryJournal;
use crate::observed::{Observed, RefKind};
use crate::report::{AbandonReport, BeginReport, PublishReport, ReconcileReport, StageReport, ValidateReport};

/// Which catalog and journal a bed is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything in memory.
    Fake,
    /// SQLite, a folder, and a local journal.
    Embedded,
}

/// Both kinds of bed.
pub const KINDS: [Kind; 2] = [Kind::Fake, Kind::Embedded];

/// A catalog behind scripted faults, a journal, a clock, and a folder for files.
#[derive(Debug)]
pub struct Bed {
    /// The catalog, as every coordinator of this bed sees it.
    pub faults: Arc<Faults<Arc<dyn Catalog>>>,
    /// The catalog itself, as everyone else sees it.
    pub catalog: Arc<dyn Catalog>,
    /// The fake catalog, where it is one.
    pub fake: Option<Arc<FakeCatalog>>,
    /// What happens on the way between the coordinators and the catalog.
    pub network: Arc<dyn Network>,
    /// The journal that the coordinators of this bed share.
    pub journal: Arc<dyn Journal>,
    /// The clock.
    pub clock: Arc<ManualClock>,
    /// The table of the scenario.
    pub table: TableName,
    folder: tempfile::TempDir,
    files: AtomicU32,
}

/// What a bed is laid over.
#[derive(Debug)]
pub struct Ground {
    /// The catalog as engines and readers reach it.
    pub catalog: Arc<dyn Catalog>,
    /// The same catalog as the coordinators reach it, e.g. through a proxy.
    pub reached: Arc<dyn Catalog>,
    /// What goes wrong on the coordinators' way; `None` for what [`Bed::faults`] is told to do.
    pub network: Option<Arc<dyn Network>>,
    /// The journal that the coordinators share.
    pub journal: Arc<dyn Journal>,
    /// The clock of the coordinators, and of both ways to the catalog.
    pub clock: Arc<ManualClock>,
    /// The table, which is not there yet.
    pub table: TableName,
    /// Its format version.
    pub version: u8,
}

/// A row of the scenario's table: day of August 2013, id, amount.
pub type Row = (i32, i64, i64);

/// Days from 1970 to the last of July 2013.
const JULY_ENDS: i32 = 15_917;

/// The contract of the scenarios: ids are unique within the scope, and the change stays inside it.
pub const CONTRACT: &str = "version = 1
on-failure = \"keep\"

[[check]]
name = \"keys\"
kind = \"keys\"
columns = [\"id\"]
within = \"scope\"

[[check]]
name = \"scope\"
kind = \"scope\"
";

/// The scenario's contract.
pub fn contract() -> Contract {
    Contract::parse(CONTRACT, "scenario.toml").expect("the scenario's contract is valid")
}

impl Bed {
    /// A bed with an empty table `lake.days`, of format version 2.
    pub async fn new(kind: Kind) -> Self {
        Self::with_version(kind, 2).await
    }

    /// The same of another format version.
    pub async fn with_version(kind: Kind, version: u8) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(ManualClock::starting_now(7));
        let fake = Arc::new(FakeCatalog::new(clock.clone()));
        let kept = (kind == Kind::Fake).then(|| fake.clone());
        let (catalog, journal): (Arc<dyn Catalog>, Arc<dyn Journal>) = match kind {
            Kind::Fake => (fake.clone(), Arc::new(MemoryJournal::new())),
            Kind::Embedded => {
                let catalog = EmbeddedCatalog::open(&folder.path().join("lake"), true, clock.clone()).await;
                let journal = LocalJournal::open(folder.path().join("lake/journal"));
                (Arc::new(catalog.expect("an embedded catalog")), Arc::new(journal.expect("a local journal")))
            }
        };
        Self::made(catalog, kept, journal, clock, folder, version).await
    }

    /// A bed over a catalog in memory whose files are elsewhere, and any journal.
    pub async fn over(fake: Arc<FakeCatalog>, journal: Arc<dyn Journal>, clock: Arc<ManualClock>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::made(fake.clone(), Some(fake), journal, clock, folder, 2).await
    }

    async fn made(
        catalog: Arc<dyn Catalog>,
        fake: Option<Arc<FakeCatalog>>,
        journal: Arc<dyn Journal>,
        clock: Arc<ManualClock>,
        folder: tempfile::TempDir,
        version: u8,
    ) -> Self {
        let table: TableName = "lake.days".parse().expect("a table name");
        catalog.create(&table, creation(&table, version)).await.expect("a table");
        let faults = Arc::new(Faults::new(catalog.clone()));
        let network = Arc::new(Scripted { faults: faults.clone(), fake: fake.clone() });
        Self { faults, catalog, fake, network, journal, clock, table, folder, files: AtomicU32::new(0) }
    }

    /// A bed with an empty table on ground that is there already.
    pub async fn on(ground: Ground) -> Self {
        let Ground { catalog, reached, network, journal, clock, table, version } = ground;
        let folder = tempfile::tempdir().expect("a temporary folder");
        catalog.create(&table, creation(&table, version)).await.expect("a table");
        let faults = Arc::new(Faults::new(reached));
        let network = network.unwrap_or_else(|| Arc::new(Scripted { faults: faults.clone(), fake: None }));
        Self { faults, catalog, fake: None, network, journal, clock, table, folder, files: AtomicU32::new(0) }
    }

    /// Makes the bed's table, empty, in format version 2, where there is none of its name any more.
    pub async fn create(&self) {
        self.catalog.create(&self.table, creation(&self.table, 2)).await.expect("a table");
    }

    /// A coordinator behind the faults, with the bed's journal.
    pub fn coordinator(&self, owner: &str) -> Coordinator {
        self.coordinator_with(owner, self.journal.clone())
    }

    /// A coordinator behind the faults, with another journal.
    pub fn coordinator_with(&self, owner: &str, journal: Arc<dyn Journal>) -> Coordinator {
        Coordinator::new(self.faults.clone(), journal, self.clock.clone(), Owner(owner.to_owned()))
    }

    /// An engine that goes past the faults.
    pub fn engine(&self) -> Engine<'_> {
        Engine { bed: self }
    }

    /// The table as everyone sees it.
    pub async fn observe(&self) -> Observed {
        self.catalog.load(&self.table).await.expect("the table").observe()
    }

    /// Where main is.
    pub async fn main(&self) -> Option<SnapshotId> {
        self.observe().await.main()
    }

    /// What a ref points at, and whether it is a branch.
    pub async fn reference(&self, name: RefName) -> Option<(SnapshotId, bool)> {
        self.observe().await.reference(&name).map(|found| (found.snapshot, found.kind.is_branch()))
    }

    /// The ids that readers of main see, sorted.
    pub async fn ids(&self) -> Vec<i64> {
        match self.main().await {
            Some(main) => self.ids_at(main).await,
            None => Vec::new(),
        }
    }

    /// The ids that readers of a snapshot see, sorted.
    pub async fn ids_at(&self, snapshot: SnapshotId) -> Vec<i64> {
        ids_in(&self.catalog.load(&self.table).await.expect("the table"), snapshot).await
    }

    /// Writes rows to a new Parquet file.
    pub fn file(&self, rows: &[Row]) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("rows-{number}.parquet"));
        let schema = Arc::new(ArrowSchema::new(vec![
            Field::new("day", DataType::Date32, true),
            Field::new("id", DataType::Int64, true),
            Field::new("amount", DataType::Int64, true),
        ]));
        let days = Date32Array::from_iter_values(rows.iter().map(|row| JULY_ENDS + row.0));
        let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
        let amounts = Int64Array::from_iter_values(rows.iter().map(|row| row.2));
        let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(days), Arc::new(ids), Arc::new(amounts)];
        let batch = RecordBatch::try_new(schema.clone(), columns).expect("a batch");
        let file = std::fs::File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, schema, None).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a footer");
        path
    }
}

/// The ids that readers of a snapshot see, sorted.
pub(super) async fn ids_in(table: &LoadedTable, snapshot: SnapshotId) -> Vec<i64> {
    use futures::TryStreamExt;
    let table = table.to_iceberg().expect("a table");
    let scan = table.scan().snapshot_id(snapshot.0).select(["id"]).build().expect("a scan");
    let batches: Vec<RecordBatch> = scan.to_arrow().await.expect("a stream").try_collect().await.expect("rows");
    let mut ids: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().expect("ids").values().to_vec())
        .collect();
    ids.sort_unstable();
    ids
}

fn creation(table: &TableName, version: u8) -> TableCreation {
    let field = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
    let fields = [
        field(1, "day", PrimitiveType::Date),
        field(2, "id", PrimitiveType::Long),
        field(3, "amount", PrimitiveType::Long),
    ];
    let schema = Schema::builder().with_fields(fields).build().expect("a schema");
    let spec =
        UnboundPartitionSpec::builder().add_partition_field(1, "day", Transform::Identity).expect("a field").build();
    let version = match version {
        1 => iceberg::spec::FormatVersion::V1,
        2 => iceberg::spec::FormatVersion::V2,
        _ => iceberg::spec::FormatVersion::V3,
    };
    TableCreation::builder()
        .name(table.name().to_owned())
        .schema(schema)
        .partition_spec(spec)
        .format_version(version)
        .build()
}

/// What happens on the way.
impl Bed {
    /// Plans what happens to the next commit of a coordinator.
    pub fn next_commit(&self, trouble: Trouble) {
        self.network.next_commit(trouble);
    }

    /// Lets the commit go on that has stalled for the longest, and returns the catalog's status to it.
    pub async fn release(&self) -> u16 {
        self.network.release().await.expect("a commit that has stalled")
    }

    /// Runs `other` when the next commit of a coordinator is on its way and has not reached the catalog.
    pub fn before_next_commit(&self, other: impl Future<Output = ()> + Send + 'static) {
        self.network.before_next_commit(Box::pin(other));
    }

    /// How many commits the coordinators have sent, whatever became of them.
    pub fn commits(&self) -> usize {
        self.faults.commits()
    }

    /// How often a commit of the coordinators has gone out: as [`Self::commits`], unless something below sends again.
    pub fn sent(&self) -> usize {
        self.network.sent()
    }

    /// How many commits of the coordinators the catalog has applied.
    pub fn applied(&self) -> usize {
        self.network.applied()
    }
}

/// Others' writes that are run later, in the middle of a commit of calve's.
impl Bed {
    /// Another writer appends id 99 on 10 August to main.
    pub fn other_writer(&self) -> impl Future<Output = ()> + Send + 'static {
        let (bed, file) = (self.parts(), self.file(&[(10, 99, 0)]));
        async move {
            append_file(&bed, "main", &file).await.expect("appended");
        }
    }

    /// An engine appends rows to a branch.
    pub fn append_later(&self, branch: &str, rows: &[Row]) -> impl Future<Output = ()> + Send + 'static {
        let (bed, branch, file) = (self.parts(), branch.to_owned(), self.file(rows));
        async move {
            append_file(&bed, &branch, &file).await.expect("appended");
        }
    }

    /// An engine moves main to a snapshot.
    pub fn fast_forward(&self, to: SnapshotId) -> impl Future<Output = ()> + Send + 'static {
        let bed = self.parts();
        async move { applied(&bed, Vec::new(), vec![set_branch("main", to)]).await }
    }

    fn parts(&self) -> Parts {
        Parts { catalog: self.catalog.clone(), clock: self.clock.clone(), table: self.table.clone() }
    }
}

/// What an engine needs of a bed, owned.
#[derive(Debug, Clone)]
struct Parts {
    catalog: Arc<dyn Catalog>,
    clock: Arc<ManualClock>,
    table: TableName,
}

async fn commit(bed: &Parts, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Reply {
    let observed = bed.catalog.load(&bed.table).await.expect("the table").observe();
    let mut all = vec![TableRequirement::UuidMatch { uuid: observed.uuid.0 }];
    all.extend(requirements);
    let key = bed.clock.fresh_key();
    bed.catalog.commit(&Commit { table: bed.table.clone(), requirements: all, updates, key }).await
}

async fn applied(bed: &Parts, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) {
    let reply = commit(bed, requirements, updates).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "an engine's commit was not accepted: {reply:?}");
}

async fn append_file(bed: &Parts, branch: &str, file: &Path) -> Result<SnapshotId, String> {
    let table = bed.catalog.load(&bed.table).await.expect("the table");
    let observed = table.observe();
    let name = RefName(branch.to_owned());
    let found = observed.reference(&name);
    if found.is_some_and(|found| !found.kind.is_branch()) {
        return Err(format!("{branch} is a tag, not a branch"));
    }
    let head = found.map(|found| found.snapshot);
    let parent = head.or(observed.main());
    let clock = bed.clock.as_ref();
    let staged = write::append(&table, &[file.to_owned()], clock, &NoProgress).await.expect("written");
    let id = clock.fresh_snapshot_id();
    let time = clock.now().timestamp_millis().max(table.metadata.last_updated_ms());
    let snapshot = build_snapshot(&table, parent, &staged.change(), id, time, Default::default(), clock.fresh_uuid())
        .await
        .expect("a snapshot");
    let require = TableRequirement::RefSnapshotIdMatch { r#ref: branch.to_owned(), snapshot_id: head.map(|h| h.0) };
    applied(bed, vec![require], vec![TableUpdate::AddSnapshot { snapshot }, set_branch(branch, id)]).await;
    Ok(id)
}

/// The verbs as a scenario writes them down.
impl Bed {
    /// The id of a publication.
    pub fn id(&self, id: &str) -> PublicationId {
        PublicationId::parse_any(id).expect("a publication id")
    }

    /// `begin`, with a scope.
    pub async fn begin(&self, by: &Coordinator, id: &str, scope: &str) -> BeginReport {
        self.try_begin(by, id, scope).await.expect("begun")
    }

    /// `begin`, which may fail.
    pub async fn try_begin(
        &self,
        by: &Coordinator,
        id: &str,
        scope: &str,
    ) -> Result<BeginReport, crate::coordinator::Error> {
        by.begin(&BeginRequest {
            table: self.table.clone(),
            id: self.id(id),
            scope: Some(scope.to_owned()),
            reads: None,
            code: None,
            sources: Vec::new(),
            lease: None,
        })
        .await
    }

    /// `stage`, of rows.
    pub async fn stage(&self, by: &Coordinator, id: &str, mode: StageMode, rows: &[Row]) -> StageReport {
        let files = vec![self.file(rows)];
        let request = StageRequest { table: self.table.clone(), id: self.id(id), mode, files };
        by.stage(&request, &NoProgress).await.expect("staged")
    }

    /// `validate`, by the scenario's contract.
    pub async fn validate(&self, by: &Coordinator, id: &str) -> ValidateReport {
        let request = ValidateRequest {
            table: self.table.clone(),
            id: self.id(id),
            contract: contract(),
            sources_root: self.folder.path().to_owned(),
            dry_run: false,
        };
        by.validate(&request, Arc::new(NoProgress)).await.expect("validated")
    }

    /// `publish`.
    pub async fn publish(&self, by: &Coordinator, id: &str) -> PublishReport {
        by.publish(&self.table, &self.id(id), &contract()).await.expect("an outcome")
    }

    /// `reconcile`.
    pub async fn reconcile(&self, by: &Coordinator, id: &str) -> ReconcileReport {
        by.reconcile(&self.table, &self.id(id)).await.expect("a finding")
    }

    /// `abandon`.
    pub async fn abandon(&self, by: &Coordinator, id: &str) -> Result<AbandonReport, crate::coordinator::Error> {
        by.abandon(&self.table, &self.id(id), "given up").await
    }

    /// Begins, stages rows in place of the day's, and validates: a sealed candidate. Returns its seal.
    pub async fn sealed(&self, by: &Coordinator, id: &str, day: i32, rows: &[Row]) -> SnapshotId {
        self.begin(by, id, &format!("day = '2013-08-{day:02}'")).await;
        self.stage(by, id, StageMode::Replace, rows).await;
        let report = self.validate(by, id).await;
        report.seal.unwrap_or_else(|| panic!("{id} was not sealed: {:?}", report.reasons))
    }
}

/// What others do to a table.
#[derive(Debug, Clone, Copy)]
pub struct Engine<'a> {
    bed: &'a Bed,
}

impl Engine<'_> {
    async fn applied(&self, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) {
        applied(&self.bed.parts(), requirements, updates).await;
    }

    /// Appends rows to a branch. Like Spark and PyIceberg it makes a missing branch again from main, and leaves the
    /// branch without retention of its own. A tag of that name is refused, as their clients do.
    pub async fn append(&self, branch: &str, rows: &[Row]) -> Result<SnapshotId, String> {
        append_file(&self.bed.parts(), branch, &self.bed.file(rows)).await
    }

    /// Applies updates as they are.
    pub async fn update(&self, updates: Vec<TableUpdate>) {
        self.applied(Vec::new(), updates).await;
    }

    /// Moves a branch to a snapshot: fast-forward and rollback alike.
    pub async fn move_branch(&self, branch: &str, to: SnapshotId) {
        self.applied(Vec::new(), vec![set_branch(branch, to)]).await;
    }

    /// Expires snapshots by id, as a plan made earlier would: only the table's identity is required.
    pub async fn expire(&self, ids: &[SnapshotId]) -> Reply {
        let snapshot_ids = ids.iter().map(|id| id.0).collect();
        commit(&self.bed.parts(), Vec::new(), vec![TableUpdate::RemoveSnapshots { snapshot_ids }]).await
    }

    /// Removes a branch or tag.
    pub async fn remove_ref(&self, name: RefName) {
        self.applied(Vec::new(), vec![TableUpdate::RemoveSnapshotRef { ref_name: name.0 }]).await;
    }

    /// Points a tag at a snapshot.
    pub async fn tag(&self, name: RefName, to: SnapshotId) {
        let reference = SnapshotReference::new(to.0, RefKind::KEPT_TAG.to_iceberg());
        self.applied(Vec::new(), vec![TableUpdate::SetSnapshotRef { ref_name: name.0, reference }]).await;
    }

    /// Adds an optional column, which makes a new current schema.
    pub async fn add_column(&self, name: &str) {
        let table = self.bed.catalog.load(&self.bed.table).await.expect("the table");
        let current = table.metadata.current_schema();
        let id = table.metadata.last_column_id() + 1;
        let added = Arc::new(NestedField::optional(id, name, Type::Primitive(PrimitiveType::Long)));
        let fields = current.as_struct().fields().iter().cloned().chain([added]);
        let schema = Schema::builder().with_fields(fields).build().expect("a schema");
        let updates = vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
        self.applied(Vec::new(), updates).await;
    }

    /// Sets what a ref keeps for itself.
    pub async fn set_retention(&self, name: RefName, kind: RefKind) {
        let observed = self.bed.observe().await;
        let snapshot = observed.reference(&name).expect("the ref").snapshot;
        let reference = SnapshotReference::new(snapshot.0, kind.to_iceberg());
        self.applied(Vec::new(), vec![TableUpdate::SetSnapshotRef { ref_name: name.0, reference }]).await;
    }
}

fn set_branch(name: &str, to: SnapshotId) -> TableUpdate {
    let retention =
        SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference: SnapshotReference::new(to.0, retention) }
}
