//! What was sent and never seen: a catalog that stays silent, and an abandon that was lost.

use std::sync::Arc;

use async_trait::async_trait;
use calve::catalog::faults::Fault;
use calve::catalog::unreachable::Unreachable;
use calve::catalog::{Catalog, Commit};
use calve::coordinator::{BeginRequest, Coordinator, Job, RunRequest};
use calve::data::NoProgress;
use calve::ids::Owner;
use calve::publish::outcome::Cause;
use calve::publish::reconcile::{AbandonSent, Absence, State};
use calve::publish::{PublishOutcome, commits};
use calve::report::{BeginReport, JobEnd, Report, RunPart, Text};
use calve::testing::{Bed, KINDS, Kind, contract};
use iceberg::TableUpdate;
use uuid::Uuid;

use crate::support::{history, unavailable};

struct Never;

#[async_trait]
impl Job for Never {
    async fn run(&mut self, _: &BeginReport, _: Uuid) -> JobEnd {
        panic!("the job is not run")
    }
}

fn request(bed: &Bed) -> RunRequest {
    let begin = BeginRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        scope: Some("day = '2013-08-09'".to_owned()),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    RunRequest { begin, contract: contract(), sources_root: ".".into() }
}

fn moves_main(commit: &Commit) -> bool {
    commits::moves_main_to(commit).is_some()
}

fn closes(commit: &Commit) -> bool {
    commit
        .updates
        .iter()
        .any(|update| matches!(update, TableUpdate::SetSnapshotRef { ref_name, .. } if ref_name.starts_with("closed/")))
}

/// The same candidate through a catalog that could not even be connected to.
fn silent(bed: &Bed) -> Coordinator {
    let catalog = Unreachable::new(bed.catalog.identity().clone(), "catalog".to_owned(), unavailable());
    Coordinator::new(Arc::new(catalog), bed.journal.clone(), bed.clock.clone(), Owner("ann".to_owned()))
}

/// Row 0: while the catalog does not answer, what was sent may be visible, and no command says anything else.
#[tokio::test]
async fn a_publication_that_nobody_saw_stays_unresolved() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let quiet = silent(&bed);
        assert_eq!(quiet.reconcile(&bed.table, &bed.id("p")).await.expect_err("nothing was sent").exit_code(), 1);
        bed.faults.push_for(moves_main, Fault::LoseRequest);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20, "{kind:?}");
        let outcome = quiet.publish(&bed.table, &bed.id("p"), &contract()).await.expect("an outcome");
        assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::Lost, .. }), "{outcome:?}");
        assert!(!outcome.text().contains("main="), "nobody read it: {}", outcome.text());
        let found = quiet.reconcile(&bed.table, &bed.id("p")).await.expect("a finding");
        assert_eq!(found.exit_code(), 20);
        assert!(matches!(found.finding.state, State::Lost { why: Absence::Unreachable, .. }), "{found:?}");
        assert!(found.text().contains("(publish) was sent"), "{}", found.text());
        assert_eq!(found.next, ["calve reconcile lake.days p"]);
        let run = quiet.run(&request(&bed), &mut Never, Arc::new(NoProgress)).await.expect("a report");
        assert_eq!(run.exit_code(), 20, "{run:?}");
        assert!(run.text().contains("the same line again goes on"), "{}", run.text());
        assert_eq!(quiet.abandon(&bed.table, &bed.id("p"), "no").await.expect_err("unseen").exit_code(), 20);
        let status = quiet.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("a status");
        assert!(matches!(status.tables[0].publications[0].finding.state, State::Lost { .. }));
        assert!(!status.text().contains("main="), "{}", status.text());
        // Once it is known, the catalog's silence is only that.
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!(quiet.reconcile(&bed.table, &bed.id("p")).await.expect_err("known").exit_code(), 1);
    }
}

/// An abandon that was lost is offered again, and what was to be abandoned is published only by who says so.
#[tokio::test]
async fn a_lost_abandon_is_not_forgotten() {
    for kind in KINDS {
        for fault in [Fault::LoseRequest, Fault::NotSent] {
            let (bed, calve, _) = history(kind).await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            for _ in 0..16 {
                bed.faults.push_for(closes, fault.clone());
            }
            bed.abandon(&calve, "p").await.expect_err("it was lost");
            let found = bed.reconcile(&calve, "p").await;
            let State::Sealed { .. } = found.finding.state else { panic!("{found:?}") };
            let AbandonSent { may_be_applied, .. } = found.finding.abandon.expect("it is remembered");
            assert_eq!(may_be_applied, fault == Fault::LoseRequest, "{kind:?}");
            assert_eq!(found.next[0], "calve abandon lake.days p --reason …");
            assert!(found.text().contains("abandon"), "{}", found.text());
            let status = calve.status(Some(&bed.table), None).await.expect("a status");
            assert!(status.text().contains("(attempt "), "{}", status.text());
            let refused = calve.run(&request(&bed), &mut Never, Arc::new(NoProgress)).await.expect_err("not by itself");
            assert_eq!(refused.exit_code(), 13, "{refused}");
            assert!(refused.to_string().contains("calve abandon lake.days p"), "{refused}");
            assert_ne!(bed.main().await, Some(seal), "{kind:?}: nothing was published");
            // A person may change their mind.
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0, "{kind:?} {fault:?}");
            assert_eq!(bed.main().await, Some(seal));
        }
    }
}

/// A table that was dropped and created anew: the id is begun in it, and the same line works from then on.
#[tokio::test]
async fn another_table_under_the_name_is_no_dead_end() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let fields = crate::support::load(&bed).await.metadata.current_schema().as_ref().clone();
    assert!(fake.drop_table(&bed.table));
    let gone = calve.run(&request(&bed), &mut Never, Arc::new(NoProgress)).await.expect("a report");
    assert_eq!((gone.exit_code(), gone.next.as_slice()), (20, ["calve status".to_owned()].as_slice()), "{gone:?}");
    assert!(!gone.text().contains("goes on"), "{}", gone.text());
    let creation = iceberg::TableCreation::builder().name("days".to_owned()).schema(fields).build();
    bed.catalog.create(&bed.table, creation).await.expect("created again");
    let report = calve.run(&request(&bed), &mut Never, Arc::new(NoProgress)).await.expect("a report");
    assert_eq!(report.exit_code(), 20, "{report:?}");
    assert_eq!(report.next, ["calve begin lake.days p"]);
    let text = report.text();
    assert!(text.contains("never published in the table that is under this name now"), "{text}");
    assert!(!text.contains("goes on"), "{text}");
    let Some(RunPart::Reconcile(_)) = report.steps.last().map(|timed| &timed.part) else { panic!("{report:?}") };
    bed.begin(&calve, "p", "true").await;
    assert!(matches!(bed.reconcile(&calve, "p").await.finding.state, State::Open { .. }));
}
