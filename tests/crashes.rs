//! A process that ends at any step around its commit, under any fault of the network: another process reaches the
//! verdict that the table holds, and the change becomes visible at most once.
//!
//! Every combination is enumerated; nothing here is random.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use calve::catalog::faults::{Answer, Fault};
use calve::coordinator::{Coordinator, StageMode, Step};
use calve::ids::SnapshotId;
use calve::journal::memory::MemoryJournal;
use calve::journal::record::Verb;
use calve::publish::PublishOutcome;
use calve::publish::outcome::EXIT_DONE;
use calve::publish::reconcile::{Finding, Sent, State};
use calve::report::Report;
use calve::testing::crash::{STEPS, crash};
use calve::testing::{Bed, KINDS, Kind};

/// What the network may do to a request; nothing, where the process ends before there is one.
fn faults(step: Step) -> Vec<Fault> {
    if step == Step::Intended {
        return vec![Fault::Pass];
    }
    let refused = |status| Fault::Refuse { status, message: "no".to_owned() };
    let unknown = |reason: &str| Answer::Unknown { reason: reason.to_owned() };
    vec![
        Fault::Pass,
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::ReplyInstead(Answer::Refused { status: 409, message: "replayed".to_owned() }),
        Fault::ReplyInstead(unknown("503")),
        refused(403),
        refused(409),
        Fault::NotSent,
        Fault::Hold,
        Fault::Duplicate,
    ]
}

/// Faults after which the same command, run again, has to end in one candidate.
fn may_lose(fault: &Fault) -> bool {
    matches!(fault, Fault::Pass | Fault::LoseRequest | Fault::LoseReply | Fault::Hold)
}

/// What the table alone holds: the oracle that every verdict is held against.
async fn check_verdict(bed: &Bed, seal: SnapshotId, finding: &Finding, context: &str) {
    let visible = bed.main().await == Some(seal);
    match &finding.state {
        State::Published { snapshot, .. } => assert!(visible && *snapshot == seal, "{context}: {finding:?}"),
        State::Sealed { .. } => assert!(!visible, "{context}: {finding:?}"),
        other => panic!("{context}: {other:?}"),
    }
}

async fn publish_crashing(kind: Kind, step: Step, fault: Fault) {
    let context = format!("{kind:?} {step:?} {fault:?}");
    let bed = Bed::new(kind).await;
    bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
    let seal = bed.sealed(&bed.coordinator("ann"), "p", 9, &[(9, 4, 40)]).await;
    bed.faults.push(fault.clone());
    crash(&bed, Verb::Publish, step, async |calve: Coordinator| bed.publish(&calve, "p").await).await;

    // Another process with the journal, and one without it, read the same table.
    let next = bed.coordinator("ann");
    let with_journal = bed.reconcile(&next, "p").await.finding;
    check_verdict(&bed, seal, &with_journal, &context).await;
    let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
    let without = bed.reconcile(&stranger, "p").await.finding;
    check_verdict(&bed, seal, &without, &context).await;
    assert_eq!(with_journal.state.row(), without.state.row(), "{context}");
    // Whoever knows that a request may be out says so; only what was answered with a refusal is not unresolved.
    if let State::Sealed { sent, .. } = with_journal.state {
        let answered = step > Step::Answered;
        let refused = matches!(fault, Fault::Refuse { .. } | Fault::NotSent);
        let expected_unresolved = !(answered && refused);
        assert_eq!(sent == Sent::InFlight, expected_unresolved, "{context}: {sent:?}");
    }
    // Reading twice changes nothing.
    assert_eq!(bed.reconcile(&next, "p").await.finding.state, with_journal.state, "{context}");

    // The same command again ends it, and a held request that arrives afterwards changes nothing.
    let mut last = bed.publish(&next, "p").await;
    for _ in 0..2 {
        if !matches!(last.outcome, PublishOutcome::Published { .. }) {
            last = bed.publish(&next, "p").await;
        }
    }
    assert_eq!(last.exit_code(), EXIT_DONE, "{context}: {:?}", last.outcome);
    while bed.faults.held() > 0 {
        let _reply = bed.faults.release_held().await;
    }
    assert_eq!(bed.ids().await, [1, 4], "{context}: visible exactly once");
    assert_eq!(bed.main().await, Some(seal), "{context}");
}

/// 18: killed between journaling the intent and sending, after sending, after the answer, before the verdict.
#[tokio::test]
async fn s18_publish_killed_at_each_step() {
    for kind in KINDS {
        for step in STEPS {
            for fault in faults(step) {
                publish_crashing(kind, step, fault).await;
            }
        }
    }
}

/// Killed in the middle of publishing, then fenced: never, whatever is still on its way.
#[tokio::test]
async fn s18_publish_killed_then_fenced() {
    for kind in KINDS {
        for step in STEPS {
            for fault in faults(step) {
                let context = format!("{kind:?} {step:?} {fault:?}");
                let bed = Bed::new(kind).await;
                bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
                let seal = bed.sealed(&bed.coordinator("ann"), "p", 9, &[(9, 4, 40)]).await;
                bed.faults.push(fault);
                crash(&bed, Verb::Publish, step, async |calve: Coordinator| bed.publish(&calve, "p").await).await;
                let next = bed.coordinator("ann");
                let visible = bed.main().await == Some(seal);
                match bed.abandon(&next, "p").await {
                    Ok(report) => assert!(!visible && report.finding.state == State::Closed, "{context}: {report:?}"),
                    Err(error) => assert!(visible && error.exit_code() == 13, "{context}: {error}"),
                }
                while bed.faults.held() > 0 {
                    let _reply = bed.faults.release_held().await;
                }
                assert_eq!(bed.main().await == Some(seal), visible, "{context}: the fence is final");
            }
        }
    }
}

/// The same for the commits that make a candidate: run again, each ends in one candidate, with its rows once.
#[tokio::test]
async fn s18_other_verbs_killed_at_each_step() {
    for kind in KINDS {
        for verb in [Verb::Begin, Verb::Stage, Verb::Seal] {
            for step in STEPS {
                for fault in faults(step).into_iter().filter(may_lose) {
                    let context = format!("{kind:?} {verb:?} {step:?} {fault:?}");
                    let bed = Bed::new(kind).await;
                    bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
                    let calve = bed.coordinator("ann");
                    let fault_for = |wanted: Verb| if wanted == verb { Some(fault.clone()) } else { None };
                    let scope = "day = '2013-08-09'";
                    let rows = [(9, 4, 40)];
                    if let Some(fault) = fault_for(Verb::Begin) {
                        bed.faults.push(fault);
                        crash(&bed, verb, step, async |calve: Coordinator| bed.begin(&calve, "p", scope).await).await;
                    }
                    bed.begin(&calve, "p", scope).await;
                    if let Some(fault) = fault_for(Verb::Stage) {
                        bed.faults.push(fault);
                        let run = async |calve: Coordinator| bed.stage(&calve, "p", StageMode::Replace, &rows).await;
                        crash(&bed, verb, step, run).await;
                        // The killed process held a lease.
                        bed.clock.advance_ms(25 * 3_600_000);
                    }
                    bed.stage(&calve, "p", StageMode::Replace, &rows).await;
                    if let Some(fault) = fault_for(Verb::Seal) {
                        bed.faults.push(fault);
                        crash(&bed, verb, step, async |calve: Coordinator| bed.validate(&calve, "p").await).await;
                        bed.clock.advance_ms(25 * 3_600_000);
                    }
                    while bed.faults.held() > 0 {
                        let _reply = bed.faults.release_held().await;
                    }
                    assert!(bed.validate(&calve, "p").await.passed, "{context}");
                    let report = bed.publish(&calve, "p").await;
                    assert_eq!(report.exit_code(), EXIT_DONE, "{context}: {:?}", report.outcome);
                    assert_eq!(bed.ids().await, [1, 4], "{context}");
                }
            }
        }
    }
}
