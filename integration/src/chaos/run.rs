//! All publications, so many at once, and what they came to.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::check::Outcome;
use super::outsider::Outsider;
use super::plan::Plan;
use super::play::{Ground, Played, play};
use super::table::{Judged, Table};
use crate::beds::Service;
use crate::services::shared_seaweedfs;
use crate::{HarnessError, Result, command, python};

/// What a change must pass: little, so that it is not the contract that keeps rows from being there twice.
const CONTRACT: &str = "version = 1
on-failure = \"keep\"

[[check]]
name = \"schema\"
kind = \"schema\"
mode = \"compatible\"
columns = [{ name = \"number\", type = \"long\" }]
";

/// Tables of each catalog that are worked on at the same time, so that not every publication meets a conflict.
const TABLES_AT_ONCE: u64 = 2;

/// What is to be played.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many publications.
    pub publications: u64,
    /// What everything is drawn from.
    pub seed: u64,
    /// On which catalogs.
    pub services: Vec<Service>,
    /// How many at once.
    pub jobs: usize,
    /// How many on one table.
    pub a_table: u64,
    /// This one alone.
    pub only: Option<u64>,
    /// Where the files of each publication are made and kept; in a temporary folder if `None`.
    pub keep: Option<PathBuf>,
}

/// Is told how it goes on.
pub trait Watch: Send + Sync {
    /// A publication is over.
    fn over(&self);
    /// Something is wrong: everything about it.
    fn wrong(&self, story: &str);
}

/// What it came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many were played.
    pub publications: u64,
    /// Told as published, and visible exactly once unless something is wrong.
    pub published: u64,
    /// Told as closed for ever, or as never begun.
    pub not_published: u64,
    /// Neither, after everything was tried.
    pub unresolved: u64,
    /// Publications of which rows are missing, of theirs or of what was there before.
    pub lost: u64,
    /// Publications of which rows are there more than once.
    pub doubled: u64,
    /// Publications of which something else was told than the table shows, and tables that readers disagree about.
    pub contradictions: u64,
    /// Tables.
    pub tables: u64,
    /// Processes of the command.
    pub processes: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// Requests that something happened to.
    pub faults: u64,
    /// Conflicts that were told.
    pub conflicts: u64,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Is everything as it has to be?
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.contradictions == 0
    }

    fn add(&mut self, judged: &Judged) {
        let counts = judged.played.counts;
        self.publications += 1;
        match judged.outcome {
            Outcome::Published => self.published += 1,
            Outcome::NotPublished => self.not_published += 1,
            Outcome::Unresolved => self.unresolved += 1,
        }
        self.lost += u64::from(!judged.wrong.lost.is_empty());
        self.doubled += u64::from(!judged.wrong.doubled.is_empty());
        self.contradictions += u64::from(!judged.wrong.contradictions.is_empty());
        self.processes += counts.processes;
        self.killed += counts.killed;
        self.faults += counts.faults;
        self.conflicts += counts.conflicts;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { publications, published, not_published, unresolved, lost, doubled, .. } = self;
        let Self { contradictions, tables, processes, killed, faults, conflicts, took, .. } = self;
        writeln!(
            f,
            "{} s; {tables} tables; {processes} processes, {killed} of them killed; {faults} requests with a fault; \
             {conflicts} conflicts; {contradictions} contradictions",
            took.as_secs()
        )?;
        write!(
            f,
            "publications={publications} published={published} not_published={not_published} \
             unresolved={unresolved} lost={lost} doubled={doubled}"
        )
    }
}

/// The folder of a run.
#[derive(Debug)]
enum Work {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

/// Plays all of it. An error is one of the harness.
pub async fn run(options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let started = Instant::now();
    let work = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
            Work::Kept(folder.clone())
        }
        None => Work::Temporary(tempfile::tempdir().map_err(|error| HarnessError::io("a temporary folder", &error))?),
    };
    let folder = match &work {
        Work::Kept(folder) => folder.clone(),
        Work::Temporary(folder) => folder.path().to_owned(),
    };
    let tables = prepare(options, &folder).await?;
    let contract = folder.join("contract.toml");
    std::fs::write(&contract, CONTRACT).map_err(|error| HarnessError::io(contract.display(), &error))?;
    let ground = Arc::new(Ground { work: folder, contract, other: Outsider::start()? });
    let reader = Arc::new(Outsider::start()?);

    let queue: Vec<(u64, Arc<Table>)> = in_order(&tables);
    let queue = Arc::new(Mutex::new(queue.into_iter()));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for _ in 0..options.jobs.max(1) {
        let (queue, ground, reader, sender) = (queue.clone(), ground.clone(), reader.clone(), sender.clone());
        let (seed, watch, keep) = (options.seed, watch.clone(), options.keep.is_some());
        workers.spawn(async move {
            loop {
                let next = queue.lock().await.next();
                let Some((number, table)) = next else { return Ok(()) };
                table.make(&ground.other).await?;
                let plan = Plan::draw(seed, number);
                let played = play(plan.clone(), &table, &ground).await;
                let played = played.unwrap_or_else(|error| Played::failed(plan, &error));
                if keep {
                    let log = ground.work.join(format!("p{number}.log"));
                    std::fs::write(&log, &played.log).map_err(|error| HarnessError::io(log.display(), &error))?;
                }
                watch.over();
                if table.over(played).await {
                    let checked = table.check(&reader).await?;
                    // The receiver is there until all workers have ended.
                    drop(sender.send((table, checked)));
                }
            }
        });
    }
    drop(sender);

    let mut report = Report { tables: tables.len() as u64, ..Report::default() };
    let mut failed: Option<HarnessError> = None;
    let mut receiving = true;
    while receiving || !workers.is_empty() {
        tokio::select! {
            checked = receiver.recv(), if receiving => match checked {
                Some((table, (judged, wrong))) => tell(&mut report, &table, &judged, &wrong, options, watch.as_ref()),
                None => receiving = false,
            },
            Some(ended) = workers.join_next() => {
                let ended = ended.unwrap_or_else(|error| Err(HarnessError(error.to_string())));
                if let Err(error) = ended {
                    failed.get_or_insert(error);
                    workers.abort_all();
                }
            }
        }
    }
    report.took = started.elapsed();
    match failed {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// Starts what is slow to start, and lays out the tables.
async fn prepare(options: &Options, folder: &std::path::Path) -> Result<Vec<Arc<Table>>> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let (options, folder) = (options.clone(), folder.to_owned());
    let start = move || {
        command::binary()?;
        python::venv()?;
        shared_seaweedfs()?;
        let places = (0..).take_while(|place| first_of(&options, *place) < options.publications);
        let mut tables = Vec::new();
        for (place, first) in places.map(|place| (place, first_of(&options, place))) {
            let lanes = lanes(&options);
            let last = options.publications.min(first.saturating_add(options.a_table.max(1).saturating_mul(lanes)));
            for lane in 0..lanes {
                let Some(service) = options.services.iter().cycle().nth(usize::try_from(lane).unwrap_or(0)) else {
                    continue;
                };
                let all = (first..last).filter(|number| number % lanes == lane);
                let numbers: Vec<_> = all.filter(|number| options.only.is_none_or(|only| only == *number)).collect();
                if !numbers.is_empty() {
                    let name = format!("chaos_{run}.t{place}_{lane}");
                    let folder = folder.join(format!("t{place}-{lane}"));
                    tables.push(Arc::new(Table::new(*service, name, place + lane, numbers, folder)?));
                }
            }
        }
        Ok(tables)
    };
    tokio::task::spawn_blocking(start).await.map_err(|error| HarnessError(error.to_string()))?
}

/// Tables that are worked on at the same time: as many of each catalog.
fn lanes(options: &Options) -> u64 {
    (options.services.len() as u64).saturating_mul(TABLES_AT_ONCE).max(1)
}

/// The first publication of the tables at this place.
fn first_of(options: &Options, place: u64) -> u64 {
    place.saturating_mul(options.a_table.max(1)).saturating_mul(lanes(options))
}

/// Publications in the order of their numbers, which goes from catalog to catalog.
fn in_order(tables: &[Arc<Table>]) -> Vec<(u64, Arc<Table>)> {
    let mut all: Vec<_> =
        tables.iter().flat_map(|table| table.numbers.iter().map(|number| (*number, table.clone()))).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

fn tell(report: &mut Report, table: &Table, judged: &[Judged], wrong: &[String], options: &Options, watch: &dyn Watch) {
    let seed = options.seed;
    if !wrong.is_empty() {
        report.contradictions += 1;
        watch.wrong(&format!("=== seed {seed}, table {}\n{}\n", table.shown(), wrong.join("\n")));
    }
    for one in judged {
        report.add(one);
        let lines = one.wrong.lines();
        if !lines.is_empty() || one.outcome == Outcome::Unresolved {
            let number = one.played.plan.number;
            let unresolved = if one.outcome == Outcome::Unresolved { "unresolved\n" } else { "" };
            watch.wrong(&format!(
                "=== seed {seed}, publication {number}, table {}\n{unresolved}{}\n--- what was done\n{}",
                table.shown(),
                lines.join("\n"),
                one.played.log
            ));
        }
    }
}
