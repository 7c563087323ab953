//! `calve run`: the job of a scheduler, in one line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::Context;
use super::args::Run;
use super::config::Settings;
use super::contract::required;
use super::exit::{Failure, Outcome};
use super::progress::Terminal;
use crate::contract::Contract;
use crate::coordinator::{BeginRequest, Coordinator, Job, RunRequest};
use crate::data::Progress as _;
use crate::publish::rerun::RunStep;
use crate::report::{BeginReport, JobEnd};

/// Names the lease under which a job's own calve commands work.
pub(super) const LEASE: &str = "CALVE_LEASE";

/// SIGINT and SIGTERM. Source: POSIX, signal.h.
const STOPS: [(SignalKind, i32, &str); 2] =
    [(SignalKind::interrupt(), 2, "INT"), (SignalKind::terminate(), 15, "TERM")];

/// Begins, runs the job, validates, publishes.
pub(super) async fn run(context: &Context, args: Run) -> Outcome {
    let settings = context.settings()?;
    settings.require_journal()?;
    let coordinator = context.coordinator_or_journal().await?;
    // Before anything is begun: without a contract, the job would be run for nothing.
    let (contract, sources_root) = match required(context, &args.table, &args.contract) {
        Ok(found) => (found.contract.clone(), found.folder()),
        Err(failure) => match coordinator.run_step(&args.table, &args.id).await? {
            RunStep::Done | RunStep::Reconcile => (Contract::empty(), Default::default()),
            RunStep::Begin
            | RunStep::RunJob
            | RunStep::Restart
            | RunStep::BeginNext
            | RunStep::Publish
            | RunStep::Refuse => return Err(failure),
        },
    };
    let progress = context.progress();
    // One listener: two would both hear a signal, and the one that is not asked meanwhile would tell of it too late.
    let mut signals = Stops::new()?;
    let (to_job, stops) = mpsc::unbounded_channel();
    let request = RunRequest {
        begin: BeginRequest {
            table: args.table,
            id: args.id,
            scope: args.scope,
            reads: args.reads,
            code: args.code,
            sources: args.sources,
            lease: args.lease,
        },
        contract,
        sources_root,
    };
    let mut job = Process {
        words: args.command,
        environment: environment(&settings, &coordinator)?,
        apart: context.global.json,
        progress: progress.clone(),
        stops,
        at_work: Arc::default(),
    };
    let at_work = job.at_work.clone();
    let report = {
        let run = coordinator.run(&request, &mut job, progress.clone());
        tokio::pin!(run);
        loop {
            tokio::select! {
                report = &mut run => break report?,
                stop = signals.next() => if !at_work.load(std::sync::atomic::Ordering::SeqCst) || to_job.send(stop).is_err() {
                    progress.finish();
                    let (table, id) = (&request.begin.table, &request.begin.id);
                    // As if it had been killed here, which every step allows for.
                    return Err(Failure {
                        code: u8::try_from(128_i32.saturating_add(stop.0)).unwrap_or(1),
                        message: format!(
                            "stopped by signal {}: run the same line again, or see where it stands: calve reconcile {table} {id}",
                            stop.0
                        ),
                    });
                }
            }
        }
    };
    progress.finish();
    context.print_done(&report)
}

/// What the job is told, besides what the environment has. No secret is added to it.
fn environment(settings: &Settings, coordinator: &Coordinator) -> Result<BTreeMap<&'static str, OsString>, Failure> {
    let mut values = settings.job_environment()?;
    values.insert("CALVE_OWNER", OsString::from(coordinator.owner().to_string()));
    Ok(values)
}

/// The signals that ask calve to stop.
#[derive(Debug)]
struct Stops(Vec<(Signal, i32, &'static str)>);

impl Stops {
    fn new() -> Result<Self, Failure> {
        let listen = |(kind, number, name)| signal(kind).map(|signal| (signal, number, name));
        let all: Result<_, _> = STOPS.into_iter().map(listen).collect();
        all.map(Self).map_err(|error| Failure::failed(format!("signals cannot be listened to: {error}")))
    }

    /// The next one: its number and name.
    async fn next(&mut self) -> (i32, &'static str) {
        let waits = self.0.iter_mut().map(|(signal, number, name)| {
            Box::pin(async move {
                while signal.recv().await.is_none() {
                    std::future::pending::<()>().await;
                }
                (*number, *name)
            })
        });
        futures::future::select_all(waits).await.0
    }
}

/// A job that is a process.
#[derive(Debug)]
struct Process {
    words: Vec<OsString>,
    environment: BTreeMap<&'static str, OsString>,
    /// Keeps what it prints apart from a report in JSON.
    apart: bool,
    progress: Arc<Terminal>,
    /// The signals that came while it runs.
    stops: mpsc::UnboundedReceiver<(i32, &'static str)>,
    /// Whether it runs, so that signals are for it.
    at_work: Arc<std::sync::atomic::AtomicBool>,
}

#[async_trait]
impl Job for Process {
    async fn run(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd {
        // The line of progress would stand between the job's own.
        self.progress.finish();
        self.at_work.store(true, std::sync::atomic::Ordering::SeqCst);
        let end = self.work(candidate, lease).await;
        self.at_work.store(false, std::sync::atomic::Ordering::SeqCst);
        end
    }

    fn part(&mut self, what: &str) {
        self.progress.stage(what, None);
    }
}

impl Process {
    async fn work(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd {
        let Some((program, arguments)) = self.words.split_first() else {
            return JobEnd::NotStarted { reason: "no command was given".to_owned() };
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(&self.environment)
            .env("CALVE_TABLE", candidate.table.to_string())
            .env("CALVE_PUBLICATION", candidate.publication.to_string())
            .env("CALVE_BRANCH", candidate.branch.to_string())
            .env(LEASE, lease.to_string())
            // A group of its own, so that a signal reaches everything that the job started.
            .process_group(0);
        if self.apart {
            command.stdout(Stdio::from(std::io::stderr()));
        }
        #[cfg(feature = "testing")]
        command.env_remove("CALVE_TEST_PAUSE_AT");
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let reason = format!("{}: {error}", program.to_string_lossy());
                return JobEnd::NotStarted { reason };
            }
        };
        let group = child.id();
        let mut told = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                Some((number, name)) = self.stops.recv() => {
                    told = Some(number);
                    pass_on(&mut child, group, name).await;
                }
            }
        };
        // One may have come when the job had just ended.
        while let Ok((number, _)) = self.stops.try_recv() {
            told = Some(number);
        }
        match (status, told) {
            (Err(error), _) => JobEnd::Lost { reason: error.to_string() },
            (Ok(_), Some(signal)) => JobEnd::Stopped { signal },
            (Ok(status), None) => ended(status),
        }
    }
}

fn ended(status: ExitStatus) -> JobEnd {
    match (status.code(), status.signal()) {
        (Some(0), _) => JobEnd::Succeeded,
        (Some(status), _) => JobEnd::Failed { status },
        (None, Some(signal)) => JobEnd::Killed { signal },
        (None, None) => JobEnd::Lost { reason: status.to_string() },
    }
}

/// Sends a signal to a job's whole group. The shell does it: a group can be reached from here by a system call only.
async fn pass_on(child: &mut Child, group: Option<u32>, name: &str) {
    let Some(group) = group else { return };
    let line = format!("kill -s {name} -- -{group}");
    let sent = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).status().await;
    if !sent.is_ok_and(|status| status.success())
        && let Err(error) = child.start_kill()
    {
        tracing::warn!("the job could not be stopped: {error}");
    }
}
