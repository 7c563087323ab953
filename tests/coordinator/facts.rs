//! What status, log and review say in each state: facts that are recorded, and none that are not.

use calve::catalog::faults::Fault;
use calve::contract::Contract;
use calve::coordinator::{Coordinator, StageMode};
use calve::ids::SnapshotId;
use calve::publish::reconcile::{State, Visibility};
use calve::report::{PublicationStatus, Report};
use calve::testing::{Bed, KINDS, Kind, contract};

use crate::states::try_validate;
use crate::support::history;

async fn status(bed: &Bed, calve: &Coordinator, id: &str) -> PublicationStatus {
    let report = calve.status(Some(&bed.table), Some(&bed.id(id))).await.expect("a status");
    report.tables[0].publications[0].clone()
}

/// The answer to one of the nine questions, from 1, as one text.
async fn answer(bed: &Bed, calve: &Coordinator, id: &str, question: usize) -> String {
    let review = calve.review(&bed.table, &bed.id(id), Some(&contract())).await.expect("a review");
    assert_eq!(review.answers.len(), 9);
    assert!(review.answers.iter().all(|answer| !answer.answer.is_empty()));
    review.answers[question - 1].answer.join("\n")
}

#[tokio::test]
async fn status_of_each_state() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        bed.begin(&calve, "open", "day = '2013-08-09'").await;
        let open = status(&bed, &calve, "open").await;
        assert_eq!(open.finding.state.row(), 8);
        assert_eq!(open.owner.as_ref().map(|owner| owner.0.as_str()), Some("ann"));
        assert_eq!(open.scope.as_deref(), Some("day = '2013-08-09'"));
        assert!(open.begun.is_some() && open.closed.is_none() && open.foreign_journal.is_none());
        assert_eq!(open.failed_checks, Vec::<String>::new());

        bed.stage(&calve, "open", StageMode::Append, &[(9, 4, 40), (9, 4, 41)]).await;
        assert!(!bed.validate(&calve, "open").await.passed);
        assert_eq!(status(&bed, &calve, "open").await.failed_checks, ["keys"]);
        bed.stage(&calve, "open", StageMode::Replace, &[(9, 4, 40)]).await;
        assert!(bed.validate(&calve, "open").await.passed);
        let sealed = status(&bed, &calve, "open").await;
        assert_eq!((sealed.finding.state.row(), sealed.failed_checks.len()), (6, 0), "a seal makes failures history");

        bed.begin(&calve, "closed", "true").await;
        bed.abandon(&calve, "closed").await.expect("fenced");
        let closed = status(&bed, &calve, "closed").await;
        assert_eq!(closed.closed.map(|(_, reason)| reason), Some("given up".to_owned()));
        assert_eq!(closed.owner.map(|owner| owner.0), Some("ann".to_owned()));
        assert!(closed.next.is_empty());

        let error = calve.status(Some(&bed.table), Some(&bed.id("nobody"))).await.expect_err("unknown");
        assert_eq!(error.exit_code(), 2);
        let whole = calve.status(None, None).await.expect("a status");
        assert_eq!(whole.tables.len(), 1);
        assert_eq!(whole.tables[0].main, Some(base));
        assert_eq!(whole.tables[0].publications.len(), 2);
    }
}

#[tokio::test]
async fn log_of_what_was_visible() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let first = bed.sealed(&calve, "first", 9, &[(9, 4, 40)]).await;
    assert_eq!(bed.publish(&calve, "first").await.exit_code(), 0);
    bed.clock.advance_ms(1_000);
    // Fenced, and then made visible by an engine all the same.
    let second = bed.sealed(&calve, "second", 10, &[(10, 5, 50)]).await;
    let forward = bed.fast_forward(second);
    bed.faults.before_commit(move || forward);
    assert_eq!(bed.abandon(&calve, "second").await.expect("an answer").exit_code(), 21);
    bed.clock.advance_ms(1_000);
    // Made visible without a seal.
    bed.begin(&calve, "third", "true").await;
    let third = bed.stage(&calve, "third", StageMode::Append, &[(11, 6, 60)]).await.snapshot;
    bed.engine().move_branch("main", third).await;
    bed.begin(&calve, "open", "true").await;

    let log = calve.log(&bed.table).await.expect("a log");
    let facts: Vec<(String, SnapshotId, bool, Visibility, bool)> = log
        .entries
        .iter()
        .map(|e| (e.publication.to_string(), e.snapshot, e.sealed, e.visibility, e.receipt))
        .collect();
    assert_eq!(
        facts,
        [
            ("third".to_owned(), third, false, Visibility::Visible, false),
            ("second".to_owned(), second, true, Visibility::Superseded, false),
            ("first".to_owned(), first, true, Visibility::Superseded, true),
        ]
    );
    assert_eq!(log.entries[2].checks.len(), 3, "{:?}", log.entries[2].checks);
    assert!(log.entries[2].statement.is_some() && log.entries[0].statement.is_none());
}

#[tokio::test]
async fn review_claims_what_is_recorded() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        let begun = bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let identity = answer(&bed, &calve, "p", 1).await;
        assert!(identity.contains("no seal") && identity.contains(&begun.incarnation.to_string()), "{identity}");
        assert!(answer(&bed, &calve, "p", 2).await.contains(&base.to_string()));
        assert!(answer(&bed, &calve, "p", 3).await.starts_with("no:"));
        let conflicts = answer(&bed, &calve, "p", 6).await;
        assert!(!conflicts.contains("whole table"), "what it read was not declared: {conflicts}");
        assert!(answer(&bed, &calve, "p", 8).await.contains("calve abandon lake.days p"));

        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        let report = bed.validate(&calve, "p").await;
        let identity = answer(&bed, &calve, "p", 1).await;
        for recorded in [report.seal.unwrap().to_string(), report.candidate.unwrap().to_string()] {
            assert!(identity.contains(&recorded), "{identity}");
        }
        let reports = answer(&bed, &calve, "p", 3).await;
        assert!(reports.contains("keys") && reports.contains("depends on"), "{reports}");
        let unit = answer(&bed, &calve, "p", 9).await;
        assert!(unit.contains(&report.seal.unwrap().to_string()), "{unit}");

        // The branch moves on: the seal says nothing of it as it is.
        bed.engine().append("audit/p", &[(9, 5, 50)]).await.expect("appended");
        let identity = answer(&bed, &calve, "p", 1).await;
        assert!(!identity.contains(&report.candidate.unwrap().to_string()), "{identity}");
        assert!(answer(&bed, &calve, "p", 3).await.starts_with("no:"));
        assert!(bed.validate(&calve, "p").await.passed);

        bed.faults.push(Fault::Hold);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
        let lost = answer(&bed, &calve, "p", 7).await;
        assert!(lost.contains("in-flight") && lost.contains("row 6"), "{lost}");
        assert!(bed.faults.release_held().await.is_some());
        let lost = answer(&bed, &calve, "p", 7).await;
        assert!(lost.contains("row 2"), "{lost}");
        let deletion = answer(&bed, &calve, "p", 8).await;
        assert!(!deletion.contains("calve abandon"), "a published change is not abandoned: {deletion}");
        assert!(answer(&bed, &calve, "p", 3).await.contains("keys"), "the evidence is still there");

        bed.begin(&calve, "q", "true").await;
        bed.abandon(&calve, "q").await.expect("fenced");
        let identity = answer(&bed, &calve, "q", 1).await;
        assert!(!identity.contains("calve validate"), "it is closed: {identity}");
        let error = calve.review(&bed.table, &bed.id("nobody"), None).await.expect_err("unknown");
        assert_eq!(error.exit_code(), 2);
    }
}

/// A dry run changes nothing: no lease, no statement, no seal.
#[tokio::test]
async fn a_dry_run() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let records = crate::support::log_of(&bed, bed.journal.as_ref(), "p").await.len();
    let commits = bed.faults.commits();
    let request = calve::coordinator::ValidateRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        contract: contract(),
        sources_root: ".".into(),
        dry_run: true,
    };
    let report = calve.validate(&request, std::sync::Arc::new(calve::data::NoProgress)).await.expect("a report");
    assert!(report.passed && report.dry_run && report.seal.is_none() && report.statement.is_none());
    assert_eq!(bed.faults.commits(), commits);
    assert_eq!(crate::support::log_of(&bed, bed.journal.as_ref(), "p").await.len(), records);
    let empty = Contract { checks: Vec::new(), ..contract() };
    let report = try_validate(&bed, &calve, "p", empty).await.expect("a report");
    assert!(!report.passed && report.seal.is_none(), "an empty contract is never a pass");
    assert!(matches!(bed.reconcile(&calve, "p").await.finding.state, State::Open { .. }));
}
