//! What killed processes left: recorded, told or fenced by `recover`, and never where someone may be at work.

use std::sync::Arc;

use calve::catalog::faults::Fault;
use calve::catalog::unreachable::Unreachable;
use calve::clock::Clock;
use calve::coordinator::{Coordinator, RecoverRequest, StageMode, Step};
use calve::ids::Owner;
use calve::journal::lease::{self, Keeper, Taken};
use calve::journal::log::Log;
use calve::journal::record::{Event, Record, Verb};
use calve::publish::reconcile::State;
use calve::publish::recover::{Left, Stands};
use calve::publish::rerun::RunStep;
use calve::report::{LeaseStanding, RecoverDid, RecoverItem, RecoverReport, Report};
use calve::testing::crash::{STEPS, crash};
use calve::testing::{Bed, KINDS, Kind};

use crate::support::{history, log_key, log_of, refs, unavailable};

const PLAIN: RecoverRequest = RecoverRequest { table: None, fence: false, takeover: None, dry_run: false };
const FENCE: RecoverRequest = RecoverRequest { fence: true, ..PLAIN };
const DRY: RecoverRequest = RecoverRequest { dry_run: true, ..FENCE };
const DAY: i64 = 24 * 3_600_000;

async fn recover(by: &Coordinator, request: &RecoverRequest) -> RecoverReport {
    by.recover(request).await.expect("a report")
}

/// The one publication that the report is about.
fn only(report: &RecoverReport) -> &RecoverItem {
    assert!(report.problems.is_empty(), "{report:?}");
    match report.publications.as_slice() {
        [item] => item,
        _ => panic!("{report:?}"),
    }
}

async fn log(bed: &Bed) -> Vec<Record> {
    log_of(bed, bed.journal.as_ref(), "p").await
}

fn verdicts(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record.event, Event::Decided { .. })).count()
}

/// A publication whose process was killed around its swap: what became of it is told and recorded, once, and nothing is
/// sent.
#[tokio::test]
async fn a_killed_publish_is_recorded_once() {
    for kind in KINDS {
        for step in STEPS {
            for fault in [Fault::Pass, Fault::LoseRequest, Fault::LoseReply] {
                if step == Step::Intended && fault != Fault::Pass {
                    continue;
                }
                let context = format!("{kind:?} {step:?} {fault:?}");
                let (bed, calve, _) = history(kind).await;
                let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
                bed.faults.push(fault.clone());
                crash(&bed, Verb::Publish, step, async |calve| bed.publish(&calve, "p").await).await;
                let visible = bed.main().await == Some(seal);
                let (commits, before) = (bed.faults.commits(), verdicts(&log(&bed).await));
                let report = recover(&bed.coordinator("ann"), &PLAIN).await;
                let item = only(&report);
                assert_eq!(item.did, RecoverDid::Recorded, "{context}: {item:?}");
                let (stands, code) = if visible { (Stands::Settled, 0) } else { (Stands::Unresolved, 20) };
                assert_eq!((item.stands, report.exit_code()), (Some(stands), code), "{context}: {item:?}");
                let records = log(&bed).await;
                assert_eq!(verdicts(&records), before + 1, "{context}");
                // Again: nothing is left to record, and the log does not grow.
                let again = recover(&bed.coordinator("ann"), &FENCE).await;
                assert_eq!((again.exit_code(), again.settled), (code, usize::from(visible)), "{context}: {again:?}");
                assert_eq!(log(&bed).await.len(), records.len(), "{context}");
                assert_eq!(bed.faults.commits(), commits, "{context}: nothing was sent");
                assert_eq!(bed.publish(&bed.coordinator("ann"), "p").await.exit_code(), 0, "{context}");
            }
        }
    }
}

/// A candidate that nobody is at work on: told, and closed where that is asked for.
#[tokio::test]
async fn an_open_candidate_is_fenced_only_on_demand() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let rows = [(9, 4, 40)];
        crash(&bed, Verb::Stage, Step::Answered, async |calve| bed.stage(&calve, "p", StageMode::Append, &rows).await)
            .await;
        let other = bed.coordinator("bob");
        // Its process is this one, which runs.
        for request in [PLAIN, FENCE] {
            let report = recover(&other, &request).await;
            let item = only(&report);
            assert_eq!((item.left, item.did), (Some(Left::AtWork), RecoverDid::Nothing), "{item:?}");
            assert_eq!(item.leases[0].standing, LeaseStanding::Live);
            assert_eq!(report.exit_code(), 0);
        }
        bed.clock.advance_ms(DAY + DAY / 24);
        let before = log(&bed).await.len();
        let dry = recover(&other, &DRY).await;
        assert_eq!(only(&dry).did, RecoverDid::WouldFence);
        assert_eq!(log(&bed).await.len(), before, "a dry run records nothing");
        let told = recover(&other, &PLAIN).await;
        let item = only(&told);
        assert_eq!((item.did, item.stands), (RecoverDid::Recorded, Some(Stands::Open)), "{item:?}");
        assert!(item.next.iter().any(|line| line.contains("abandon")), "{item:?}");
        let fenced = recover(&other, &FENCE).await;
        let item = only(&fenced);
        assert_eq!((item.did, &item.finding.state), (RecoverDid::Fenced, &State::Closed));
        let closing = log(&bed).await.into_iter().find_map(|record| match record.event {
            Event::Intended { closing, .. } => closing,
            _ => None,
        });
        assert!(closing.is_some_and(|closing| closing.reason.contains("recovered")));
        let refs = refs(&bed).await;
        assert!(refs.contains_key(&bed.id("p").closed_ref()) && bed.main().await == Some(base));
        assert_eq!(recover(&other, &FENCE).await.settled, 1);
    }
}

/// Who was cut off stays known: what it staged is not staged twice, and its job is not run on its branch.
#[tokio::test]
async fn a_claim_does_not_hide_who_was_cut_off() {
    for (step, fault) in
        [(Step::Recorded, Fault::Pass), (Step::Answered, Fault::Pass), (Step::Answered, Fault::LoseReply)]
    {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let rows = [(9, 4, 40)];
        bed.faults.push(fault);
        crash(&bed, Verb::Stage, step, async |calve| bed.stage(&calve, "p", StageMode::Append, &rows).await).await;
        bed.clock.advance_ms(DAY + DAY / 24);
        let report = recover(&bed.coordinator("bob"), &PLAIN).await;
        assert_eq!(only(&report).stands, Some(Stands::Open));
        let again = bed.stage(&bed.coordinator("ann"), "p", StageMode::Append, &rows).await;
        assert!(again.warnings.iter().any(|warning| warning.contains("not added again")), "{step:?}: {again:?}");
        assert_eq!(bed.ids_at(again.snapshot).await, [1, 2, 3, 4]);
    }
}

/// What an engine made visible gets its receipt; what it made visible without evidence is for a person.
#[tokio::test]
async fn a_bypass_gets_its_receipt() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().move_branch("main", seal).await;
        let dry = recover(&calve, &DRY).await;
        assert_eq!(only(&dry).did, RecoverDid::WouldRecord);
        assert!(!refs(&bed).await.contains_key(&bed.id("p").published_ref()));
        let report = recover(&calve, &PLAIN).await;
        let item = only(&report);
        assert_eq!((item.did, item.stands, report.exit_code()), (RecoverDid::Settled, Some(Stands::Settled), 0));
        assert_eq!(refs(&bed).await[&bed.id("p").published_ref()].snapshot, seal);
        let again = recover(&calve, &PLAIN).await;
        let now = recover(&calve, &PLAIN).await;
        assert_eq!((again.exit_code(), now.settled), (0, 1), "{again:?}");
    }
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let staged = bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await.snapshot;
    bed.engine().move_branch("main", staged).await;
    let report = recover(&calve, &FENCE).await;
    let item = only(&report);
    assert_eq!((item.did, item.stands, report.exit_code()), (RecoverDid::Settled, Some(Stands::Escalate), 21));
}

/// A table is found under its new name; one that is gone leaves open only what was in flight; a catalog that does not
/// answer hides nothing that was sent.
#[tokio::test]
async fn tables_that_are_not_where_they_were() {
    let stage = async || {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.begin(&calve, "open", "day = '2013-08-10'").await;
        bed.faults.push(Fault::LoseRequest);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
        (bed, calve)
    };
    let told = |report: &RecoverReport| {
        let mut told: Vec<_> = report
            .publications
            .iter()
            .map(|item| (item.finding.publication.to_string(), item.table.clone(), item.stands))
            .collect();
        told.sort_by(|one, other| one.0.cmp(&other.0));
        told
    };
    let (bed, calve) = stage().await;
    let fake = bed.fake.clone().expect("a fake catalog");
    let new: calve::ids::TableName = "lake.renamed".parse().unwrap();
    assert!(fake.rename(&bed.table, &new));
    for table in [None, Some(new.clone()), Some(bed.table.clone())] {
        let report = recover(&calve, &RecoverRequest { table: table.clone(), ..PLAIN }).await;
        let open = ("open".to_owned(), Some(new.clone()), Some(Stands::Open));
        let p = ("p".to_owned(), Some(new.clone()), Some(Stands::Unresolved));
        assert_eq!((told(&report), report.exit_code()), (vec![open, p], 20), "{table:?}");
    }

    let (bed, calve) = stage().await;
    assert!(bed.fake.as_ref().expect("a fake catalog").drop_table(&bed.table));
    let gone = |again: &str| {
        let open = ("open".to_owned(), Some(bed.table.clone()), Some(Stands::TableGone));
        let p = ("p".to_owned(), Some(bed.table.clone()), Some(Stands::Unresolved));
        (again.to_owned(), vec![open, p], 20)
    };
    let report = recover(&calve, &FENCE).await;
    assert_eq!(("missing".to_owned(), told(&report), report.exit_code()), gone("missing"));
    bed.create().await;
    let report = recover(&calve, &FENCE).await;
    assert_eq!(("replaced".to_owned(), told(&report), report.exit_code()), gone("replaced"));

    let (bed, _) = stage().await;
    let silent = Unreachable::new(bed.catalog.identity().clone(), "catalog".to_owned(), unavailable());
    let silent = Coordinator::new(Arc::new(silent), bed.journal.clone(), bed.clock.clone(), Owner("ann".to_owned()));
    let report = recover(&silent, &FENCE).await;
    let p = ("p".to_owned(), Some(bed.table.clone()), Some(Stands::Unresolved));
    assert_eq!((told(&report), report.exit_code()), (vec![p], 20));
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert!(problem.publication == bed.id("open") && problem.exit == 1 && problem.error.contains("503"), "{problem:?}");
    let error = silent.recover(&RecoverRequest { table: Some("lake.other".parse().unwrap()), ..PLAIN }).await;
    assert_eq!(error.expect_err("nothing is known of it").exit_code(), 1);
}

/// The same for a job: who held the lease may still be writing to the branch, so that it is given to no other.
#[tokio::test]
async fn a_claim_does_not_free_the_branch_of_a_job() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.faults.push(Fault::LoseReply);
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let step = async || calve.run_step(&bed.table, &bed.id("p")).await.expect("a step");
    assert_eq!(step().await, RunStep::RunJob, "nobody was at work on it");
    let mut log = Log::open(bed.journal.clone(), log_key(&bed, "p").await).await.expect("a log");
    let (holder, keeper) = (bed.clock.fresh_uuid(), Keeper::Process(None));
    let taken =
        lease::take(&mut log, bed.clock.as_ref(), calve.owner(), holder, &keeper, lease::DEFAULT_DURATION).await;
    assert!(matches!(taken, Ok(Taken::Ours(_))), "{taken:?}");
    bed.clock.advance_ms(2 * DAY);
    assert_eq!(step().await, RunStep::Restart);
    let report = recover(&bed.coordinator("ann"), &PLAIN).await;
    assert_eq!(only(&report).did, RecoverDid::Recorded, "under a claim, which is given back");
    assert_eq!(step().await, RunStep::Restart);
}
