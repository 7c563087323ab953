//! The ports of a simulated process: each call waits for its turn, and may go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use iceberg::{TableCreation, TableRequirement, TableUpdate};

use super::Planted;
use super::dice::Dice;
use super::history::{By, verb};
use super::oracle::Oracle;
use super::plan::Plan;
use super::trace::Trace;
use super::turnstile::Turnstile;
use crate::catalog::fake::FakeCatalog;
use crate::catalog::faults::{Fault, Faults};
use crate::catalog::{Catalog, CatalogError, Commit, LoadedTable, Reply};
use crate::clock::Clock;
use crate::coordinator::{Step, StepHook};
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, PublicationId, TableName, TableUuid};
use crate::journal::memory::{FailPut, MemoryJournal};
use crate::journal::record::{Event, Record, Verb};
use crate::journal::{Journal, JournalError, LogKey, Put, PutIfAbsent};
use crate::publish::commits::moves_main_to;

/// What every process of a simulation shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub plan: Plan,
    /// What goes wrong for each operator, by number: what is left out of one's work does not change another's.
    pub dice: Vec<Dice>,
    pub trace: Trace,
    pub oracle: Oracle,
    /// Nothing goes wrong any more.
    pub calm: bool,
    /// Troubles that are left out, by number.
    pub cut: BTreeSet<u32>,
    /// Troubles so far, those left out included.
    pub troubles: u32,
    /// How often each kind of thing happened.
    pub counts: BTreeMap<String, u32>,
}

impl Shared {
    pub fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    /// Counts a trouble, and says whether it is to come.
    pub fn comes(&mut self) -> bool {
        let number = self.troubles;
        self.troubles += 1;
        !self.cut.contains(&number)
    }

    fn percent(&mut self, operator: usize, chance: usize) -> bool {
        self.dice.get_mut(operator).is_some_and(|dice| dice.percent(chance))
    }

    /// Does this call go wrong?
    fn goes_wrong(&mut self, operator: usize, of_hundred: usize) -> bool {
        let wrong = self.percent(operator, of_hundred);
        wrong && !self.calm && self.comes()
    }

    fn fate(&mut self, operator: usize) -> Fault {
        let wrong = self.percent(operator, self.plan.percent * 2);
        let fault = self.dice.get_mut(operator).and_then(|dice| dice.pick(&self.plan.faults));
        match fault {
            Some(fault) if wrong && !self.calm && self.comes() => fault,
            _ => Fault::Pass,
        }
    }
}

/// The same, in many hands.
#[derive(Debug, Clone)]
pub(super) struct Board(Arc<Mutex<Shared>>);

impl Board {
    pub fn new(shared: Shared) -> Self {
        Self(Arc::new(Mutex::new(shared)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The catalog's own end: it decides, and what it did is noted. A planted bug is here.
#[derive(Debug)]
pub(super) struct Server {
    pub fake: Arc<FakeCatalog>,
    pub board: Board,
    pub planted: Option<Planted>,
}

impl Server {
    /// Notes the states that are new, and returns in words what changed.
    pub fn note(&self, table: &TableName, by: &By) -> String {
        let versions = self.fake.metadata_versions(table);
        let mut shared = self.board.lock();
        let Some(index) = shared.oracle.tables.iter().position(|history| history.table == *table) else {
            return String::new();
        };
        let known = shared.oracle.tables.get(index).map_or(0, |history| history.versions.len());
        let new: Vec<_> = versions.into_iter().skip(known).collect();
        let words: Vec<_> = new.into_iter().map(|version| shared.oracle.changed(index, version, by.clone())).collect();
        words.join("; ")
    }

    async fn decide(&self, commit: &Commit) -> Reply {
        let Some(planted) = self.planted else { return self.fake.commit(commit).await };
        let mut altered = commit.clone();
        let about_main = |requirement: &TableRequirement| matches!(requirement, TableRequirement::RefSnapshotIdMatch { r#ref, .. } if r#ref == "main");
        match planted {
            Planted::MainIgnored => altered.requirements.retain(|requirement| !about_main(requirement)),
            Planted::ReceiptLost => altered.updates.retain(|update| {
                !matches!(update, TableUpdate::SetSnapshotRef { ref_name, .. } if ref_name.starts_with("published/"))
            }),
            Planted::Rebases => {
                let reply = self.fake.commit(commit).await;
                if !matches!(reply, Reply::Refused { status: 409, .. }) || moves_main_to(commit).is_none() {
                    return reply;
                }
                let Ok(table) = self.fake.load(&commit.table).await else { return reply };
                let main = table.observe().main();
                for requirement in &mut altered.requirements {
                    if let TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } = requirement
                        && r#ref == "main"
                    {
                        *snapshot_id = main.map(|main| main.0);
                    }
                }
            }
        }
        self.fake.commit(&altered).await
    }
}

#[async_trait]
impl Catalog for Server {
    fn identity(&self) -> &CatalogIdentity {
        self.fake.identity()
    }

    fn describe(&self) -> String {
        self.fake.describe()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.fake.tables().await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.fake.load(table).await
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.fake.create(table, creation).await
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        let reply = self.decide(commit).await;
        let changed = self.note(&commit.table, &By::Calve(Box::new(commit.clone())));
        let words = match &reply {
            Reply::Accepted { .. } => format!("{} is applied: {changed}", verb(commit)),
            Reply::Refused { status, message } => format!("{} is refused, {status}: {message}", verb(commit)),
            Reply::NotSent { reason } | Reply::Unknown { reason } => format!("{}: {reason}", verb(commit)),
        };
        self.board.lock().trace.add(commit.table.name(), words);
        reply
    }
}

/// What one process has its ports from.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub name: String,
    /// The operator's.
    pub number: usize,
    pub board: Board,
    pub turnstile: Arc<Turnstile>,
}

impl Desk {
    async fn turn(&self, what: &str) {
        self.turnstile.pass().await;
        self.board.lock().trace.plain(&self.name, what);
    }

    /// After its turn: does this call go wrong?
    fn goes_wrong(&self, what: &str, of_hundred: usize) -> bool {
        let mut shared = self.board.lock();
        if !shared.goes_wrong(self.number, of_hundred) {
            return false;
        }
        shared.trace.add(&self.name, format!("{what} fails"));
        shared.count(format!("fault: {what} fails"));
        true
    }

    fn percent(&self, part: usize) -> usize {
        self.board.lock().plan.percent.div_ceil(part)
    }
}

/// A process's catalog.
#[derive(Debug)]
pub(super) struct Gated {
    pub desk: Desk,
    pub faults: Arc<Faults<Arc<dyn Catalog>>>,
}

#[async_trait]
impl Catalog for Gated {
    fn identity(&self) -> &CatalogIdentity {
        self.faults.identity()
    }

    fn describe(&self) -> String {
        self.faults.describe()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.desk.turn("lists the tables").await;
        self.faults.tables().await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.desk.turn("loads the table").await;
        if self.desk.goes_wrong("load", self.desk.percent(6)) {
            self.faults
                .fail_load(CatalogError::Unavailable { what: format!("loading {table}"), reason: "503".to_owned() });
        }
        self.faults.load(table).await
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.desk.turn("creates a table").await;
        self.faults.create(table, creation).await
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        self.desk.turn(&format!("sends {}", verb(commit))).await;
        let (fault, bodiless) = {
            let mut shared = self.desk.board.lock();
            let fault = shared.fate(self.desk.number);
            let words = fault_words(&fault);
            shared.trace.add(&self.desk.name, format!("sends {}{words}", verb(commit)));
            if fault != Fault::Pass {
                shared.count(format!("fault:{words}"));
            }
            (fault, shared.percent(self.desk.number, 20))
        };
        self.faults.push(fault);
        match self.faults.commit(commit).await {
            // 204: accepted, and the table is to be read again.
            Reply::Accepted { .. } if bodiless => Reply::Accepted { table: None },
            reply => reply,
        }
    }
}

fn fault_words(fault: &Fault) -> String {
    let words = match fault {
        Fault::Pass => return String::new(),
        Fault::LoseRequest => "the request is lost".to_owned(),
        Fault::LoseReply => "the reply is lost".to_owned(),
        Fault::ReplyInstead(answer) => format!("{answer:?} comes back instead"),
        Fault::Refuse { status, .. } => format!("{status} before it reaches the catalog"),
        Fault::NotSent => "no connection".to_owned(),
        Fault::Hold => "held on the way".to_owned(),
        Fault::Duplicate => "delivered twice".to_owned(),
        Fault::DuplicateLate => "a copy is held on the way".to_owned(),
    };
    format!(" ({words})")
}

/// A process's journal.
#[derive(Debug)]
pub(super) struct GatedJournal {
    pub desk: Desk,
    pub inner: Arc<MemoryJournal>,
}

impl GatedJournal {
    async fn put_goes(&self, what: &str) {
        self.desk.turn(what).await;
        let percent = self.desk.percent(3);
        if self.desk.goes_wrong(what, percent) {
            let after = self.desk.board.lock().percent(self.desk.number, 50);
            self.inner.fail_next_puts(1, if after { FailPut::AfterApplying } else { FailPut::Before });
        }
    }

    async fn read_goes(&self, what: &str) -> Result<(), JournalError> {
        self.desk.turn(what).await;
        let percent = self.desk.percent(8);
        match self.desk.goes_wrong(what, percent) {
            false => Ok(()),
            true => {
                let reason = "the store does not answer".to_owned();
                Err(JournalError::Io { path: self.inner.root(), reason, unwritable: false })
            }
        }
    }
}

#[async_trait]
impl Journal for GatedJournal {
    fn root(&self) -> String {
        self.inner.root()
    }

    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        self.read_goes("reading the log").await?;
        self.inner.read(log).await
    }

    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        self.put_goes(kind(&record.event)).await;
        self.inner.put(log, record).await
    }

    async fn publications(&self, c: &CatalogIdentity, table: TableUuid) -> Result<Vec<PublicationId>, JournalError> {
        self.read_goes("listing publications").await?;
        self.inner.publications(c, table).await
    }

    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        self.read_goes("listing catalogs").await?;
        self.inner.catalogs().await
    }

    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        self.read_goes("listing logs").await?;
        self.inner.tables(catalog).await
    }

    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        self.put_goes("putting the statement").await;
        self.inner.put_statement(bytes).await
    }

    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.read_goes("reading the statement").await?;
        self.inner.statement(digest).await
    }

    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        self.inner.prove_put_if_absent(clock).await
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Intended { .. } => "putting an intent",
        Event::Replied { .. } => "putting a reply",
        Event::Decided { .. } => "putting a verdict",
        Event::CheckFailed { .. } => "putting a failed check",
        Event::LeaseTaken { .. } => "taking the lease",
        Event::LeaseReleased { .. } => "giving the lease back",
        Event::Unrecognised => "putting what is not known",
    }
}

/// A process also stops at each step around a commit.
#[async_trait]
impl StepHook for Desk {
    async fn reached(&self, verb: Verb, step: Step) {
        self.turn(&format!("{verb:?}: {step:?}")).await;
    }
}
