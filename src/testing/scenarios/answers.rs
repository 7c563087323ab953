//! Answers that are lost, late, repeated, or say nothing; and processes that end in the middle.

use std::sync::Arc;

use super::{published, with_history};
use crate::coordinator::{Coordinator, Step};
use crate::journal::memory::MemoryJournal;
use crate::journal::record::Verb;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{Cause, EXIT_DONE, EXIT_NOT_PUBLISHED, EXIT_UNRESOLVED, Via};
use crate::publish::reconcile::{Sent, State, Visibility};
use crate::report::Report;
use crate::testing::crash::{STEPS, crash};
use crate::testing::{Bed, Trouble};

/// The plain way, and what it leaves.
pub async fn published_directly(bed: Bed) {
    let (calve, base) = with_history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    assert_eq!(bed.ids().await, [1, 2, 3], "nothing is visible before");
    let report = bed.publish(&calve, "p").await;
    assert_eq!(published(&report), (Via::Direct, Visibility::Visible));
    assert_eq!(report.exit_code(), EXIT_DONE);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    let id = bed.id("p");
    assert_eq!(bed.reference(id.published_ref()).await, Some((seal, false)));
    assert_eq!(bed.reference(id.audit_ref()).await, Some((base, false)), "the tombstone stands on N");
    assert_eq!(bed.reference(id.closed_ref()).await, None);
    let again = bed.publish(&calve, "p").await;
    assert_eq!(published(&again), (Via::AlreadyThere, Visibility::Visible));
}

/// 1: publish lands, the response is dropped.
pub async fn s01_reply_lost(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let (before, sent) = (bed.applied(), bed.sent());
    bed.next_commit(Trouble::ReplyLost);
    let report = bed.publish(&calve, "p").await;
    assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible));
    assert_eq!(report.requests, 1);
    assert_eq!(bed.main().await, Some(seal));
    let found = bed.reconcile(&calve, "p").await;
    assert_eq!(found.row, 2);
    assert_eq!(found.exit_code(), EXIT_DONE);
    assert_eq!((bed.applied() - before, bed.sent() - sent), (1, 1), "no second commit");
}

/// 2: as 1, then another writer commits on top: still published, superseded; never resent.
pub async fn s02_reply_lost_then_superseded(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::ReplyLost);
    let report = bed.publish(&calve, "p").await;
    assert_eq!(published(&report).0, Via::Reconciled);
    bed.engine().append("main", &[(10, 5, 50)]).await.expect("appended");
    let commits = bed.commits();
    let again = bed.publish(&calve, "p").await;
    assert_eq!(published(&again), (Via::AlreadyThere, Visibility::Superseded));
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Published { visibility: Visibility::Superseded, .. }));
    assert_eq!(bed.commits(), commits, "nothing was sent again");
    assert_eq!(bed.ids().await, [1, 2, 3, 4, 5]);
}

/// 3: publish lands, a proxy replays it, the client sees only the second answer, 409: published, not conflict.
pub async fn s03_own_success_replayed_as_conflict(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Replayed);
    let report = bed.publish(&calve, "p").await;
    assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible));
    assert_eq!(report.requests, 1);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 4: publish stalls in the network; a reload shows main = N: unresolved. Fence. The stalled request arrives: 409.
pub async fn s04_stalled_then_fenced(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Stalled);
    let report = bed.publish(&calve, "p").await;
    assert!(
        matches!(report.outcome, PublishOutcome::Unresolved { cause: Cause::InFlight, .. }),
        "{:?}",
        report.outcome
    );
    assert_eq!(report.exit_code(), EXIT_UNRESOLVED);
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Sealed { sent: Sent::InFlight, .. }));
    let fenced = bed.abandon(&calve, "p").await.expect("fenced");
    assert_eq!(fenced.finding.state, State::Closed);
    let late = bed.release().await;
    assert_eq!(late, 409);
    assert_eq!(bed.ids().await, [1, 2, 3], "never, after the fence");
    let found = bed.reconcile(&calve, "p").await;
    assert_eq!((found.row, found.exit_code()), (5, EXIT_NOT_PUBLISHED));
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 13);
}

/// 4, the other way round: the stalled request arrives first.
pub async fn s04_stalled_then_lands(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Stalled);
    let report = bed.publish(&calve, "p").await;
    assert_eq!(report.exit_code(), EXIT_UNRESOLVED);
    let late = bed.release().await;
    assert_eq!(late, 200);
    let error = bed.abandon(&calve, "p").await.expect_err("it is published");
    assert_eq!(error.exit_code(), 13);
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), EXIT_DONE);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// An unresolved publication is sent again to the letter, and whichever of the two lands, it lands once.
pub async fn resent_identically(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Stalled);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
    let again = bed.publish(&calve, "p").await;
    assert_eq!(published(&again).1, Visibility::Visible);
    let seen = bed.faults.seen();
    let [first, second] = &seen[seen.len() - 2..] else { panic!("two requests") };
    assert_eq!(serde_json::to_value(&first.commit).expect("JSON"), serde_json::to_value(&second.commit).expect("JSON"));
    let late = bed.release().await;
    assert_eq!(late, 409);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 14: answers that say nothing, whether the request was applied or not: all unknown, all reconciled.
pub async fn s14_answers_that_say_nothing(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    let gateways = [500, 502, 503, 504].map(Trouble::Gateway);
    let troubles: Vec<_> =
        gateways.into_iter().chain([Trouble::Redirected, Trouble::Cut, Trouble::OthersJson, Trouble::Page]).collect();
    let (mut visible, mut day) = (vec![1, 2, 3], 9);
    for trouble in troubles {
        let id = i64::from(day);
        bed.sealed(&calve, &format!("p{day}"), day, &[(day, id, 0)]).await;
        bed.next_commit(trouble);
        let sent = bed.sent();
        let report = bed.publish(&calve, &format!("p{day}")).await;
        assert_eq!(bed.sent() - sent, 1, "{trouble:?}: nothing below sends it again");
        assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible), "{trouble:?}");
        assert_eq!(report.requests, 1, "{trouble:?}");
        visible.push(id);
        assert_eq!(bed.ids().await, visible, "{trouble:?}");
        day += 1;
    }
    bed.sealed(&calve, "q", day, &[(day, 50, 50)]).await;
    bed.next_commit(Trouble::RequestLost);
    assert_eq!(bed.publish(&calve, "q").await.exit_code(), EXIT_UNRESOLVED);
    assert_eq!(bed.ids().await, visible);
    assert_eq!(published(&bed.publish(&calve, "q").await).1, Visibility::Visible);
}

/// 18: killed between journaling the intent and sending, after sending, after the answer, and before the verdict; while the
/// request arrives, its answer is lost, or it stalls. Another process, and one without the journal, read what the table
/// holds; the same command again ends it, and what was still on its way changes nothing.
pub async fn s18_killed_at_each_step(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    let (mut visible, mut day) = (vec![1, 2, 3], 9);
    for step in STEPS {
        for trouble in [None, Some(Trouble::ReplyLost), Some(Trouble::Stalled)] {
            // Nothing is on its way yet.
            if step == Step::Intended && trouble.is_some() {
                continue;
            }
            let id = format!("p{day}");
            let context = format!("{step:?} {trouble:?}");
            let seal = bed.sealed(&calve, &id, day, &[(day, i64::from(day), 0)]).await;
            if let Some(trouble) = trouble {
                bed.next_commit(trouble);
            }
            crash(&bed, Verb::Publish, step, async |doomed: Coordinator| bed.publish(&doomed, &id).await).await;
            let applied = step != Step::Intended && trouble != Some(Trouble::Stalled);
            assert_eq!(bed.main().await == Some(seal), applied, "{context}");
            let next = bed.coordinator("ann");
            let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
            for (by, knows) in [(&next, true), (&stranger, false)] {
                match bed.reconcile(by, &id).await.finding.state {
                    State::Published { snapshot, .. } => assert!(applied && snapshot == seal, "{context}"),
                    State::Sealed { sent, .. } => assert!(!applied && (sent == Sent::InFlight) == knows, "{context}"),
                    other => panic!("{context}: {other:?}"),
                }
            }
            assert_eq!(published(&bed.publish(&next, &id).await).1, Visibility::Visible, "{context}");
            if trouble == Some(Trouble::Stalled) {
                assert_eq!(bed.release().await, 409, "{context}");
            }
            visible.push(i64::from(day));
            assert_eq!(bed.ids().await, visible, "{context}: exactly once");
            day += 1;
        }
    }
}
