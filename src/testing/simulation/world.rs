//! A catalog with its tables, the journals, the clock, and how a command is started there.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Planted;
use super::dice::Dice;
use super::history::{By, History};
use super::oracle::Oracle;
use super::plan::{Cut, Plan, Task, Verb};
use super::ports::{Board, Desk, Gated, GatedJournal, Server, Shared};
use super::told::Ending;
use super::trace::Trace;
use super::turnstile::{Process, Turnstile};
use crate::catalog::Catalog;
use crate::catalog::fake::FakeCatalog;
use crate::catalog::faults::Faults;
use crate::clock::ManualClock;
use crate::coordinator::{BeginRequest, Coordinator, Job, RunRequest, StageMode, StageRequest, ValidateRequest};
use crate::data::NoProgress;
use crate::ids::{Owner, PublicationId, SnapshotId};
use crate::journal::Journal;
use crate::journal::memory::MemoryJournal;
use crate::report::{BeginReport, JobEnd};
use crate::testing::bed::{Bed, Ground, Row, ids_in};
use crate::testing::contract;

/// All that there is.
#[derive(Debug)]
pub(super) struct World {
    pub board: Board,
    pub server: Arc<Server>,
    pub faults: Arc<Faults<Arc<dyn Catalog>>>,
    /// The one that most share, and another.
    pub journals: [Arc<MemoryJournal>; 2],
    pub clock: Arc<ManualClock>,
    pub beds: Vec<Arc<Bed>>,
    rows: BTreeMap<SnapshotId, Vec<i64>>,
}

/// When every simulation begins: the past of any machine, since no table's time may lie ahead of it.
const BEGINNING: DateTime<Utc> = DateTime::from_timestamp(1_704_067_200, 0).expect("an instant");

/// The row's number tells its day.
pub(super) fn day_of(row: i64) -> i64 {
    row / 100_000
}

fn row(day: i32, number: i64) -> Row {
    (day, i64::from(day) * 100_000 + number, number)
}

/// The day on which others write what no publication replaces.
pub(super) const FREE_DAY: i32 = 5;

/// A row that another writer adds.
pub(super) fn other_row(day: i32, serial: i64) -> Row {
    row(day, 90_000 + serial)
}

impl World {
    pub async fn new(seed: u64, plan: Plan, cut: &Cut, planted: Option<Planted>) -> Self {
        let clock = Arc::new(ManualClock::new(BEGINNING, seed));
        let fake = Arc::new(FakeCatalog::new(clock.clone()));
        let journals = [Arc::new(MemoryJournal::new()), Arc::new(MemoryJournal::named("elsewhere"))];
        let shared = Shared {
            plan: plan.clone(),
            dice: (100..).take(plan.operators.len()).map(|stream| Dice::new(seed, stream)).collect(),
            trace: Trace::default(),
            oracle: Oracle::default(),
            calm: false,
            cut: cut.troubles.clone(),
            troubles: 0,
            counts: BTreeMap::new(),
        };
        let board = Board::new(shared);
        let server = Arc::new(Server { fake: fake.clone(), board: board.clone(), planted });
        let faults: Arc<Faults<Arc<dyn Catalog>>> = Arc::new(Faults::new(server.clone()));
        let mut beds = Vec::new();
        for (table, version) in ["one", "two"].into_iter().zip(&plan.tables) {
            let ground = Ground {
                catalog: fake.clone(),
                reached: fake.clone(),
                network: None,
                journal: journals[0].clone(),
                clock: clock.clone(),
                table: format!("lake.{table}").parse().expect("a table name"),
                version: *version,
            };
            let bed = Bed::on(ground).await;
            // One table in four is empty at first.
            if Dice::new(seed, 3).below(4) > 0 {
                let base = other_row(FREE_DAY, 0);
                bed.engine().append("main", &[base]).await.expect("appended");
            }
            board.lock().oracle.tables.push(History::new(bed.table.clone()));
            let words = server.note(&bed.table, &By::Other);
            board.lock().trace.add(table, format!("version {version}: {words}"));
            beds.push(Arc::new(bed));
        }
        Self { board, server, faults, journals, clock, beds, rows: BTreeMap::new() }
    }

    /// A process that runs one command, and has not started.
    pub fn process(
        &self,
        number: usize,
        name: &str,
        (table, elsewhere): (usize, bool),
        task: &Task,
        numbers: i64,
    ) -> Process<Ending> {
        let turnstile = Arc::new(Turnstile::default());
        let desk = Desk { name: name.to_owned(), number, board: self.board.clone(), turnstile: turnstile.clone() };
        let maker = Maker {
            catalog: Arc::new(Gated { desk: desk.clone(), faults: self.faults.clone() }),
            journal: Arc::new(GatedJournal {
                desk: desk.clone(),
                inner: self.journals[usize::from(elsewhere)].clone(),
            }),
            clock: self.clock.clone(),
            desk,
        };
        let bed = self.beds[table].clone();
        let (id, day, verb) = (bed.id(task.id), task.day, task.verb);
        Process::new(turnstile, async move { run_verb(maker, bed, id, day, verb, numbers).await })
    }

    /// A coordinator that nothing gets in the way of.
    pub fn calm(&self, elsewhere: bool) -> Coordinator {
        let journal = self.journals[usize::from(elsewhere)].clone();
        Coordinator::new(self.faults.clone(), journal, self.clock.clone(), Owner("ann".to_owned()))
    }

    /// The rows of a snapshot, sorted, expired or not.
    pub async fn rows_at(&mut self, table: usize, snapshot: SnapshotId) -> Vec<i64> {
        if let Some(rows) = self.rows.get(&snapshot) {
            return rows.clone();
        }
        let found = {
            let shared = self.board.lock();
            let history = &shared.oracle.tables[table];
            history.with_snapshot(snapshot).map(|version| version.metadata.clone())
        };
        let metadata = found.expect("a snapshot that was in the table");
        let file_io = self.server.fake.file_io().clone();
        let name = self.beds[table].table.clone();
        let loaded = crate::catalog::LoadedTable { name, metadata, metadata_location: None, file_io };
        let rows = ids_in(&loaded, snapshot).await;
        let _before = self.rows.insert(snapshot, rows.clone());
        rows
    }
}

/// Makes the coordinators of one process and of those that it starts.
#[derive(Debug, Clone)]
struct Maker {
    catalog: Arc<Gated>,
    journal: Arc<dyn Journal>,
    clock: Arc<ManualClock>,
    desk: Desk,
}

impl Maker {
    /// Everyone works for one owner: who else's the candidates were is looked at elsewhere.
    fn make(&self) -> Coordinator {
        let owner = Owner("ann".to_owned());
        let made =
            Coordinator::new(self.catalog.clone(), self.journal.clone(), self.clock.clone(), owner).without_process();
        made.with_steps(Arc::new(self.desk.clone()))
    }
}

/// A job that stages rows of its own.
struct Staging {
    maker: Maker,
    bed: Arc<Bed>,
    day: i32,
    numbers: i64,
    fails: bool,
}

#[async_trait]
impl Job for Staging {
    async fn run(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd {
        let coordinator = self.maker.make().with_inherited_lease(lease);
        let generation = i64::from(candidate.publication.generation());
        let numbers = 50_000 + self.numbers + generation * 10;
        let rows = [row(self.day, numbers), row(self.day, numbers + 1)];
        let request = StageRequest {
            table: self.bed.table.clone(),
            id: candidate.publication.clone(),
            mode: StageMode::Append,
            files: vec![self.bed.file(&rows)],
        };
        match coordinator.stage(&request, &NoProgress).await {
            Ok(_) if !self.fails => JobEnd::Succeeded,
            Ok(_) => JobEnd::Failed { status: 3 },
            Err(error) => JobEnd::Failed { status: i32::from(error.exit_code()) },
        }
    }
}

/// `numbers` is where the numbers of its rows begin: the same command again stages the same rows.
async fn run_verb(maker: Maker, bed: Arc<Bed>, id: PublicationId, day: i32, verb: Verb, numbers: i64) -> Ending {
    let calve = maker.make();
    let table = bed.table.clone();
    let begin = BeginRequest {
        table: table.clone(),
        id: id.clone(),
        scope: Some(format!("day = '2013-08-{day:02}'")),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    match verb {
        Verb::Begin => Ending::of(calve.begin(&begin).await),
        Verb::Stage(mode) => {
            let rows = [row(day, numbers), row(day, numbers + 1)];
            let request = StageRequest { table, id, mode, files: vec![bed.file(&rows)] };
            Ending::of(calve.stage(&request, &NoProgress).await)
        }
        Verb::Validate => {
            let request = ValidateRequest { table, id, contract: contract(), sources_root: ".".into(), dry_run: false };
            Ending::of(calve.validate(&request, Arc::new(NoProgress)).await)
        }
        Verb::Publish => Ending::of(calve.publish(&table, &id, &contract()).await),
        Verb::Reconcile => Ending::of(calve.reconcile(&table, &id).await),
        Verb::Abandon => Ending::of(calve.abandon(&table, &id, "given up").await),
        Verb::Run { fails } => {
            let request = RunRequest { begin, contract: contract(), sources_root: ".".into() };
            let mut job = Staging { maker, bed, day, numbers, fails };
            Ending::of(calve.run(&request, &mut job, Arc::new(NoProgress)).await)
        }
    }
}
