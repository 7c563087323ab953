//! Jobs that do more than they should: what `run` says of it when they have ended.

use std::sync::Arc;

use async_trait::async_trait;
use calve::coordinator::{BeginRequest, Coordinator, Job, RunRequest, StageMode};
use calve::data::NoProgress;
use calve::publish::reconcile::State;
use calve::report::{BeginReport, JobEnd, Report, RunPart, RunReport, Text};
use calve::testing::{Bed, KINDS, Kind, contract};
use uuid::Uuid;

use crate::support::{history, unavailable};

/// What a job does to its candidate before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Nothing,
    Stages,
    Publishes,
    Seals,
    FastForwards,
    Abandons,
    RemovesBranch,
    WritesMain,
    LosesTheCatalog,
}

struct Does<'a>(&'a Bed, Coordinator, Deed, JobEnd);

#[async_trait]
impl Job for Does<'_> {
    async fn run(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd {
        let Self(bed, by, deed, end) = self;
        let inside = by.clone().with_inherited_lease(lease);
        if !matches!(deed, Deed::Nothing | Deed::WritesMain) {
            bed.stage(&inside, "p", StageMode::Append, &[(9, 4, 40)]).await;
        }
        match deed {
            Deed::Nothing | Deed::Stages => {}
            Deed::Publishes => {
                assert!(bed.validate(&inside, "p").await.passed);
                assert_eq!(bed.publish(&inside, "p").await.exit_code(), 0);
            }
            Deed::Seals => assert!(bed.validate(&inside, "p").await.passed),
            Deed::FastForwards => {
                let (head, _) = bed.reference(candidate.branch.clone()).await.expect("a branch");
                bed.engine().move_branch("main", head).await;
            }
            Deed::Abandons => {
                bed.abandon(&inside, "p").await.expect("abandoned");
            }
            Deed::RemovesBranch => bed.engine().remove_ref(candidate.branch.clone()).await,
            Deed::WritesMain => {
                bed.engine().append("main", &[(9, 4, 40)]).await.expect("appended");
            }
            Deed::LosesTheCatalog => bed.faults.fail_load(unavailable()),
        }
        end.clone()
    }
}

async fn ran(kind: Kind, deed: Deed, end: JobEnd) -> (Bed, RunReport) {
    let (bed, calve, _) = history(kind).await;
    let begin = BeginRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        scope: Some("day = '2013-08-09'".to_owned()),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    let request = RunRequest { begin, contract: contract(), sources_root: ".".into() };
    let mut job = Does(&bed, calve.clone(), deed, end);
    let report = calve.run(&request, &mut job, Arc::new(NoProgress)).await.expect("a report");
    (bed, report)
}

fn found(report: &RunReport) -> Option<&State> {
    match report.steps.last().map(|timed| &timed.part) {
        Some(RunPart::Reconcile(report)) => Some(&report.finding.state),
        _ => None,
    }
}

/// The table decides what is said, not the job's exit code.
#[tokio::test]
async fn what_a_job_made_visible_is_said_at_once() {
    use Deed::*;
    for kind in KINDS {
        for (deed, well, badly) in
            [(Publishes, 0, 1), (FastForwards, 21, 21), (Abandons, 14, 1), (RemovesBranch, 21, 21)]
        {
            for (end, code) in [(JobEnd::Succeeded, well), (JobEnd::Failed { status: 3 }, badly)] {
                let (bed, report) = ran(kind, deed, end).await;
                let text = report.text();
                assert_eq!(report.exit_code(), code, "{kind:?} {deed:?}: {text}");
                let state = found(&report).expect("it was read");
                let visible = matches!(state, State::Published { .. } | State::Bypassed { .. });
                assert_eq!(visible, matches!(deed, Publishes | FastForwards), "{kind:?} {deed:?}: {text}");
                assert_eq!(text.contains("PUBLISHED"), visible, "{text}");
                assert!(!text.contains("became visible; it stays open"), "{text}");
                assert!(!report.next.iter().any(|next| next.contains("validate")), "{report:?}");
                let rows = if visible { vec![1, 2, 3, 4] } else { vec![1, 2, 3] };
                assert_eq!(bed.ids().await, rows, "{kind:?} {deed:?}");
                // A bypass leaves its receipt.
                let receipt = bed.reference(bed.id("p").published_ref()).await.is_some();
                assert_eq!(receipt, visible, "{kind:?} {deed:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_failed_job_that_did_no_harm() {
    for (deed, says) in [
        (Deed::Nothing, "it stays open"),
        (Deed::Stages, "it stays open"),
        (Deed::Seals, "the same line again publishes it, without the job"),
        (Deed::LosesTheCatalog, "whether the job made anything visible is not known"),
    ] {
        let (bed, report) = ran(Kind::Embedded, deed, JobEnd::Failed { status: 3 }).await;
        let text = report.text();
        assert_eq!(report.exit_code(), 1, "{deed:?}: {text}");
        assert!(text.contains(says), "{deed:?}: {text}");
        assert_eq!(text.contains("it stays open"), deed != Deed::LosesTheCatalog, "{text}");
        assert_eq!(bed.ids().await, [1, 2, 3]);
    }
}

/// The commonest mistake: the job wrote to main, and nothing to its branch.
#[tokio::test]
async fn a_job_that_writes_to_main() {
    for kind in KINDS {
        for (end, code) in [(JobEnd::Succeeded, 10), (JobEnd::Failed { status: 3 }, 1)] {
            let (_, report) = ran(kind, Deed::WritesMain, end.clone()).await;
            let text = report.text();
            assert_eq!(report.exit_code(), code, "{text}");
            assert!(text.contains("did it write to main instead of audit/p?"), "{text}");
            assert_eq!(text.contains("wrote nothing to audit/p"), end == JobEnd::Succeeded, "{text}");
            assert!(!text.contains("  nothing became visible"), "{text}");
        }
        let (_, report) = ran(kind, Deed::Nothing, JobEnd::Succeeded).await;
        assert!(report.text().contains("wrote nothing to audit/p"), "{}", report.text());
        assert!(!report.text().contains("did it write to main"), "{}", report.text());
    }
}
