//! `run` on both catalogs: faults around its restart, and what an earlier attempt may still do.

use std::sync::Arc;

use async_trait::async_trait;
use calve::catalog::faults::Fault;
use calve::catalog::{Commit, LoadedTable};
use calve::clock::Clock;
use calve::coordinator::{BeginRequest, Coordinator, Error, Job, RunRequest, StageMode, StageRequest};
use calve::data::NoProgress;
use calve::data::live::live_entries;
use calve::data::snapshot::{AddedFile, DataChange, build_snapshot};
use calve::identity::{LiveEntry, change_between};
use calve::ids::{PublicationId, RefName, SnapshotId};
use calve::journal::lease::LeaseState;
use calve::journal::memory::MemoryJournal;
use calve::journal::record::{CloseReason, Event, Verb};
use calve::publish::reconcile::State;
use calve::publish::rerun::RunStep;
use calve::report::{BeginReport, JobEnd, Report, RunPart, RunReport};
use calve::testing::{Bed, KINDS, Kind, Row, contract};
use chrono::Duration;
use iceberg::TableUpdate;
use uuid::Uuid;

use crate::support::{history, load, log_of, no_shared_list};

/// Stages rows as another process of the job would, and counts its runs.
struct Stages<'a> {
    bed: &'a Bed,
    by: Coordinator,
    rows: Vec<Row>,
    runs: u32,
    end: JobEnd,
}

impl<'a> Stages<'a> {
    fn new(bed: &'a Bed, rows: &[Row]) -> Self {
        Self { bed, by: bed.coordinator("ann"), rows: rows.to_vec(), runs: 0, end: JobEnd::Succeeded }
    }
}

#[async_trait]
impl Job for Stages<'_> {
    async fn run(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd {
        self.runs += 1;
        let request = StageRequest {
            table: candidate.table.clone(),
            id: candidate.publication.clone(),
            mode: StageMode::Append,
            files: vec![self.bed.file(&self.rows)],
        };
        let stranger = self.by.stage(&request, &NoProgress).await;
        assert_eq!(stranger.expect_err("the run holds the lease").exit_code(), 13);
        let inside = self.by.clone().with_inherited_lease(lease);
        inside.stage(&request, &NoProgress).await.expect("staged under the lease of the run");
        self.end.clone()
    }
}

fn request(bed: &Bed, id: &str) -> RunRequest {
    RunRequest {
        begin: BeginRequest {
            table: bed.table.clone(),
            id: bed.id(id),
            scope: Some("day = '2013-08-09'".to_owned()),
            reads: None,
            code: None,
            sources: Vec::new(),
            lease: Some(Duration::hours(1)),
        },
        contract: contract(),
        sources_root: ".".into(),
    }
}

async fn run(bed: &Bed, job: &mut Stages<'_>) -> Result<RunReport, Error> {
    bed.coordinator("ann").run(&request(bed, "p"), job, Arc::new(NoProgress)).await
}

fn id(text: &str) -> PublicationId {
    PublicationId::parse_any(text).expect("an id")
}

fn is_restart(commit: &Commit) -> bool {
    let sets = |prefix: &str| {
        commit.updates.iter().any(|update| {
            matches!(update, TableUpdate::SetSnapshotRef { ref_name, reference }
                if ref_name.starts_with(prefix) && (prefix == "closed/" || reference.is_branch()))
        })
    };
    sets("closed/") && sets("audit/")
}

/// A candidate `p` with a row that an attempt staged which then failed.
async fn half_done(kind: Kind) -> (Bed, SnapshotId) {
    let (bed, _, base) = history(kind).await;
    let mut job = Stages { end: JobEnd::Failed { status: 3 }, ..Stages::new(&bed, &[(9, 4, 40)]) };
    let report = run(&bed, &mut job).await.expect("a report");
    assert_eq!((report.exit_code(), job.runs), (1, 1));
    assert_eq!(bed.ids().await, [1, 2, 3]);
    (bed, base)
}

#[tokio::test]
async fn whatever_becomes_of_the_restart_rows_appear_once() {
    for kind in KINDS {
        for fault in [
            Fault::Pass,
            Fault::LoseRequest,
            Fault::LoseReply,
            Fault::Duplicate,
            Fault::Hold,
            Fault::Refuse { status: 409, message: "contention".to_owned() },
        ] {
            let (bed, base) = half_done(kind).await;
            bed.faults.push_for(is_restart, fault.clone());
            let mut job = Stages::new(&bed, &[(9, 4, 40)]);
            let report = run(&bed, &mut job).await.expect("a report");
            assert_eq!((report.exit_code(), job.runs), (0, 1), "{kind:?} {fault:?}: {report:?}");
            assert_eq!(report.publication, id("p~2"));
            assert!(matches!(report.steps[0].part, RunPart::Restart { .. }));
            bed.faults.release_held().await;
            assert_eq!(bed.ids().await, [1, 2, 3, 4], "{kind:?} {fault:?}");
            assert_eq!(bed.reference(id("p").audit_ref()).await, Some((base, false)));
            assert!(bed.reference(id("p").closed_ref()).await.is_some());
            no_shared_list(&load(&bed).await);
            // Both logs tell it.
            let old = log_of(&bed, bed.journal.as_ref(), "p").await;
            let why = old.iter().find_map(|record| match &record.event {
                Event::Intended { verb: Verb::Restart, closing, .. } => closing.as_ref().map(|closing| closing.why),
                _ => None,
            });
            assert_eq!(why, Some(CloseReason::Restarted));
            let new = log_of(&bed, bed.journal.as_ref(), "p~2").await;
            let opened = new.iter().any(|record| matches!(&record.event, Event::Intended { opening: Some(_), .. }));
            assert!(opened, "{kind:?} {fault:?}");
            let again = run(&bed, &mut job).await.expect("a report");
            assert_eq!((again.exit_code(), job.runs), (0, 1), "{kind:?} {fault:?}");
        }
    }
}

/// A PUBLISH that was in flight when main moved is fenced by the restart, also where main is rolled back to its base.
#[tokio::test]
async fn a_held_publication_never_lands_after_the_restart() {
    for kind in KINDS {
        let (bed, _, base) = history(kind).await;
        let mut job = Stages::new(&bed, &[(9, 4, 40)]);
        let moves_main = |commit: &Commit| calve::publish::commits::moves_main_to(commit).is_some();
        bed.faults.push_for(moves_main, Fault::Hold);
        assert_eq!(run(&bed, &mut job).await.expect("a report").exit_code(), 20);
        bed.engine().append("main", &[(10, 99, 0)]).await.expect("appended");
        let report = run(&bed, &mut job).await.expect("a report");
        assert_eq!((report.exit_code(), job.runs), (0, 2), "{report:?}");
        assert_eq!(bed.ids().await, [1, 2, 3, 4, 99]);
        bed.engine().move_branch("main", base).await;
        bed.faults.release_held().await;
        assert_eq!(bed.ids().await, [1, 2, 3], "{kind:?}: the late request was refused");
    }
}

/// The lost answer: the same line again publishes, and does not run the job.
#[tokio::test]
async fn a_lost_publication_is_sent_again_without_the_job() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        let (bed, ..) = history(Kind::Embedded).await;
        let mut job = Stages::new(&bed, &[(9, 4, 40)]);
        let moves_main = |commit: &Commit| calve::publish::commits::moves_main_to(commit).is_some();
        bed.faults.push_for(moves_main, fault.clone());
        let first = run(&bed, &mut job).await.expect("a report");
        let code = if fault == Fault::LoseReply { 0 } else { 20 };
        assert_eq!(first.exit_code(), code, "{fault:?}: {first:?}");
        if code == 20 {
            assert_eq!(first.next[0], "calve reconcile lake.days p");
            assert!(first.text_has("UNRESOLVED (exit 20)"), "{first:?}");
        }
        let again = run(&bed, &mut job).await.expect("a report");
        assert_eq!((again.exit_code(), job.runs), (0, 1), "{fault:?}: {again:?}");
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

trait Says {
    fn text_has(&self, words: &str) -> bool;
}

impl Says for RunReport {
    fn text_has(&self, words: &str) -> bool {
        calve::report::Text::text(self).contains(words)
    }
}

/// An engine makes what an earlier attempt left visible: the job would add its rows a second time.
#[tokio::test]
async fn an_earlier_attempt_that_became_visible_stops_the_next() {
    for kind in KINDS {
        let (bed, _) = half_done(kind).await;
        let (head, _) = bed.reference(id("p").audit_ref()).await.expect("a branch");
        // The next attempt fails too, so that the id is at its second generation.
        let mut job = Stages { end: JobEnd::Failed { status: 3 }, ..Stages::new(&bed, &[(9, 4, 40)]) };
        assert_eq!(run(&bed, &mut job).await.expect("a report").publication, id("p~2"));
        bed.engine().move_branch("main", head).await;
        let mut job = Stages::new(&bed, &[(9, 4, 40)]);
        let report = run(&bed, &mut job).await.expect("a report");
        assert_eq!((report.exit_code(), job.runs), (21, 0), "{kind:?}: {report:?}");
        assert_eq!(report.publication, id("p"));
        assert_eq!(bed.ids().await, [1, 2, 3, 4], "{kind:?}: once");
    }
}

/// An engine adds the very files of a restarted attempt to main, and none of its snapshots: they tell all the same.
#[tokio::test]
async fn files_of_a_restarted_attempt_still_tell() {
    for kind in KINDS {
        let (bed, _) = half_done(kind).await;
        let (head, _) = bed.reference(id("p").audit_ref()).await.expect("a branch");
        let mut job = Stages { end: JobEnd::Failed { status: 3 }, ..Stages::new(&bed, &[(9, 5, 50)]) };
        run(&bed, &mut job).await.expect("a report");
        let calve = bed.coordinator("ann");
        let of = |all: calve::report::ReconcileAllReport, which: &str| {
            let found = all.publications.into_iter().find(|report| report.finding.publication == id(which));
            found.expect("known").finding.state
        };
        let all = calve.reconcile_all(&bed.table).await.expect("findings");
        assert_eq!(of(all.clone(), "p"), State::Closed, "{kind:?}");
        assert!(matches!(of(all, "p~2"), State::Open { .. }));

        let files = added_by(&bed, bed.main().await.expect("main"), head).await;
        assert_eq!(files.len(), 1);
        add_files(&bed, "main", &files).await;

        let all = calve.reconcile_all(&bed.table).await.expect("findings");
        assert!(matches!(of(all, "p"), State::VisibleAfterFence { snapshot: None, .. }), "{kind:?}");
        let mut job = Stages::new(&bed, &[(9, 4, 40)]);
        let report = run(&bed, &mut job).await.expect("a report");
        assert_eq!((report.exit_code(), job.runs), (21, 0), "{kind:?}: {report:?}");
    }
}

/// A job adopts a file that exists, as engines' `add_files` does, and adopts it again when it is run again: what the second
/// attempt published is not taken for the first.
#[tokio::test]
async fn files_that_every_attempt_adopts() {
    struct Adopts<'a>(&'a Bed, Vec<AddedFile>, JobEnd);
    #[async_trait]
    impl Job for Adopts<'_> {
        async fn run(&mut self, candidate: &BeginReport, _: Uuid) -> JobEnd {
            add_files(self.0, candidate.branch.as_str(), &self.1).await;
            self.2.clone()
        }
    }
    for kind in KINDS {
        let (bed, ..) = history(kind).await;
        let base = bed.main().await.expect("main");
        let head = bed.engine().append("elsewhere", &[(9, 4, 40)]).await.expect("appended");
        let mut job = Adopts(&bed, added_by(&bed, base, head).await, JobEnd::Failed { status: 3 });
        let calve = bed.coordinator("ann");
        let failed = calve.run(&request(&bed, "p"), &mut job, Arc::new(NoProgress)).await.expect("a report");
        assert_eq!(failed.exit_code(), 1);
        job.2 = JobEnd::Succeeded;
        let done = calve.run(&request(&bed, "p"), &mut job, Arc::new(NoProgress)).await.expect("a report");
        assert_eq!((done.exit_code(), &done.publication), (0, &id("p~2")), "{kind:?}: {done:?}");
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
        for report in calve.reconcile_all(&bed.table).await.expect("findings").publications {
            let closed = report.finding.publication == id("p");
            assert_eq!(matches!(report.finding.state, State::Closed), closed, "{kind:?}: {:?}", report.finding);
            assert_eq!(matches!(report.finding.state, State::Published { .. }), !closed, "{kind:?}");
        }
    }
}

/// The files that a snapshot has, and its base has not.
async fn added_by(bed: &Bed, base: SnapshotId, head: SnapshotId) -> Vec<AddedFile> {
    let table = load(bed).await;
    let added = change_between(&live(&table, base).await, &live(&table, head).await).added;
    added.into_iter().map(|entry| AddedFile { file: entry.file.clone(), spec_id: entry.spec_id }).collect()
}

/// An engine adds existing files to a branch.
async fn add_files(bed: &Bed, branch: &str, files: &[AddedFile]) {
    let table = load(bed).await;
    let (head, _) = bed.reference(RefName(branch.to_owned())).await.expect("a branch");
    let change = DataChange { added: files.to_vec(), removed: Vec::new() };
    let (new, time) = (bed.clock.fresh_snapshot_id(), table.metadata.last_updated_ms());
    let unique = bed.clock.fresh_uuid();
    let snapshot = build_snapshot(&table, Some(head), &change, new, time, Default::default(), unique).await;
    bed.engine().update(vec![TableUpdate::AddSnapshot { snapshot: snapshot.expect("a snapshot") }]).await;
    bed.engine().move_branch(branch, new).await;
}

async fn live(table: &LoadedTable, snapshot: SnapshotId) -> Vec<LiveEntry> {
    live_entries(table, Some(snapshot)).await.expect("live files")
}

/// The process ended between the restart and the first record of what it opened: the next run writes it.
#[tokio::test]
async fn the_opening_of_a_restart_is_recorded_by_whoever_comes_next() {
    let (bed, ..) = history(Kind::Fake).await;
    let journal = Arc::new(MemoryJournal::named("own"));
    let calve = || bed.coordinator_with("ann", journal.clone());
    let mut request = request(&bed, "p");
    request.begin.code = Some("c".repeat(400));
    let mut job = Stages { by: calve(), end: JobEnd::Failed { status: 3 }, ..Stages::new(&bed, &[(9, 4, 40)]) };
    calve().run(&request, &mut job, Arc::new(NoProgress)).await.expect("a report");
    // Nothing is recorded from the moment that the restart is sent.
    let full = journal.clone();
    bed.faults.before_commit_for(is_restart, move || async move {
        full.fail_next_puts(1_000, calve::journal::memory::FailPut::Before);
    });
    let error = calve().run(&request, &mut job, Arc::new(NoProgress)).await.expect_err("no lease");
    assert_eq!(error.exit_code(), 1, "{error}");
    journal.fail_next_puts(0, calve::journal::memory::FailPut::Before);
    assert!(log_of(&bed, journal.as_ref(), "p~2").await.is_empty());
    assert_eq!(calve().run_step(&bed.table, &id("p")).await.expect("a step"), RunStep::RunJob);
    let mut job = Stages { by: calve(), ..Stages::new(&bed, &[(9, 4, 40)]) };
    let report = calve().run(&request, &mut job, Arc::new(NoProgress)).await.expect("a report");
    assert_eq!((report.exit_code(), report.publication), (0, id("p~2")), "the code is known whole, not by its digest");
    let log = log_of(&bed, journal.as_ref(), "p~2").await;
    let code = log.iter().find_map(|record| match &record.event {
        Event::Intended { opening: Some(opening), .. } => opening.code.clone(),
        _ => None,
    });
    assert_eq!(code, request.begin.code);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// The first change of a table: there is no base for a tombstone to stand on.
#[tokio::test]
async fn a_table_without_a_snapshot() {
    for kind in KINDS {
        let bed = Bed::new(kind).await;
        let mut job = Stages { end: JobEnd::Failed { status: 3 }, ..Stages::new(&bed, &[(9, 4, 40)]) };
        run(&bed, &mut job).await.expect("a report");
        job.end = JobEnd::Succeeded;
        let report = run(&bed, &mut job).await.expect("a report");
        assert_eq!((report.exit_code(), job.runs), (0, 2), "{kind:?}: {report:?}");
        assert_eq!(bed.ids().await, [4]);
        assert!(bed.reference(RefName::main()).await.is_some());
    }
}

/// A seal made under another contract does not hold; what the job wrote does.
#[tokio::test]
async fn a_contract_that_changed_is_checked_without_the_job() {
    let (bed, ..) = history(Kind::Fake).await;
    let mut job = Stages::new(&bed, &[(9, 4, 40)]);
    let moves_main = |commit: &Commit| calve::publish::commits::moves_main_to(commit).is_some();
    bed.faults.push_for(moves_main, Fault::NotSent);
    assert_ne!(run(&bed, &mut job).await.expect("a report").exit_code(), 0);
    let other = calve::testing::CONTRACT.replace("\"keep\"", "\"quarantine\"");
    let contract = calve::contract::Contract::parse(&other, "other.toml");
    let mut request = request(&bed, "p");
    request.contract = contract.expect("a contract");
    let report = bed.coordinator("ann").run(&request, &mut job, Arc::new(NoProgress)).await.expect("a report");
    assert_eq!((report.exit_code(), job.runs, report.steps.len()), (0, 1, 3), "{report:?}");
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// While the job runs its lease is renewed: one of an hour is live after a job of three, by a clock that only the job moves.
#[tokio::test]
async fn the_lease_is_renewed_while_the_job_runs() {
    struct Long<'a>(&'a Bed);
    #[async_trait]
    impl Job for Long<'_> {
        async fn run(&mut self, _: &BeginReport, _: Uuid) -> JobEnd {
            let lease = async || LeaseState::of(&log_of(self.0, self.0.journal.as_ref(), "p").await).lease.unwrap();
            for _ in 0..9 {
                let before = lease().await;
                self.0.clock.advance_ms(20 * 60_000);
                for turn in 0.. {
                    if lease().await.sequence != before.sequence {
                        break;
                    }
                    assert!(turn < 10_000, "it is not renewed");
                    tokio::task::yield_now().await;
                }
                let now = lease().await;
                assert_eq!((now.holder, now.since), (before.holder, before.since));
                assert_eq!(now.until, self.0.clock.now() + Duration::hours(1));
            }
            JobEnd::Failed { status: 1 }
        }
    }
    let (bed, ..) = history(Kind::Fake).await;
    let mut request = request(&bed, "p");
    request.begin.lease = Some(Duration::hours(1));
    let report = bed.coordinator("ann").run(&request, &mut Long(&bed), Arc::new(NoProgress)).await;
    let report = report.expect("a report");
    assert!(report.warnings.is_empty(), "{report:?}");
    bed.abandon(&bed.coordinator("ann"), "p").await.expect("the lease was given back");
}
