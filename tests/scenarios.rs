//! Situations that must come out right, each over the fake and the embedded catalog.
//!
//! `main = N`, candidate `audit/p` with data head `S` and seal `K`; names and numbers as in the protocol's scenarios.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use calve::catalog::Reply;
use calve::catalog::faults::{Answer, Fault};
use calve::coordinator::{Coordinator, StageMode};
use calve::ids::SnapshotId;
use calve::journal::memory::MemoryJournal;
use calve::publish::PublishOutcome;
use calve::publish::outcome::{
    Cause, EXIT_DONE, EXIT_ESCALATE, EXIT_NOT_PUBLISHED, EXIT_REBUILD, EXIT_UNRESOLVED, Via,
};
use calve::publish::reconcile::{Sent, State, Visibility};
use calve::report::{PublishReport, Report};
use calve::testing::{Bed, KINDS};

/// A bed whose main holds ids 1 to 3 on 8 August, and a coordinator.
async fn bed_with_history(kind: calve::testing::Kind) -> (Bed, Coordinator, SnapshotId) {
    let bed = Bed::new(kind).await;
    let base = bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    let calve = bed.coordinator("ann");
    (bed, calve, base)
}

fn published(report: &PublishReport) -> (Via, Visibility) {
    match &report.outcome {
        PublishOutcome::Published { via, visibility, .. } => (*via, *visibility),
        other => panic!("not published: {other:?}"),
    }
}

/// Runs a scenario over both kinds of bed.
macro_rules! scenario {
    ($(#[$doc:meta])* $name:ident($bed:ident, $calve:ident, $base:ident) $body:block) => {
        $(#[$doc])*
        #[tokio::test]
        async fn $name() {
            for kind in KINDS {
                println!("{kind:?}");
                #[allow(unused_variables)]
                let ($bed, $calve, $base) = bed_with_history(kind).await;
                $body
            }
        }
    };
}

scenario! {
    /// The plain way, and what it leaves.
    published_directly(bed, calve, base) {
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
}

scenario! {
    /// 1: publish lands, the response is dropped.
    s01_reply_lost(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let before = bed.faults.accepted();
        bed.faults.push(Fault::LoseReply);
        let report = bed.publish(&calve, "p").await;
        assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible));
        assert_eq!(report.requests, 1);
        assert_eq!(bed.main().await, Some(seal));
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.row, 2);
        assert_eq!(found.exit_code(), EXIT_DONE);
        assert_eq!(bed.faults.accepted() - before, 1, "no second commit");
    }
}

scenario! {
    /// 2: as 1, then another writer commits on top: still published, superseded; never resent.
    s02_reply_lost_then_superseded(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::LoseReply);
        // The first reading after the reply fails, so that the command ends without knowing.
        bed.faults.push(Fault::Pass);
        let report = bed.publish(&calve, "p").await;
        assert_eq!(published(&report).0, Via::Reconciled);
        bed.engine().append("main", &[(10, 5, 50)]).await.expect("appended");
        let commits = bed.faults.commits();
        let again = bed.publish(&calve, "p").await;
        assert_eq!(published(&again), (Via::AlreadyThere, Visibility::Superseded));
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Published { visibility: Visibility::Superseded, .. }));
        assert_eq!(bed.faults.commits(), commits, "nothing was sent again");
        assert_eq!(bed.ids().await, [1, 2, 3, 4, 5]);
    }
}

scenario! {
    /// 3: publish lands, a proxy replays it, the client sees only the second answer, 409: published, not conflict.
    s03_own_success_replayed_as_conflict(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Duplicate);
        let report = bed.publish(&calve, "p").await;
        assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible));
        assert_eq!(report.requests, 1);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 4: publish stalls in the network; a reload shows main = N: unresolved. Fence. The stalled request arrives: 409.
    s04_stalled_then_fenced(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Hold);
        let report = bed.publish(&calve, "p").await;
        assert!(matches!(report.outcome, PublishOutcome::Unresolved { cause: Cause::InFlight, .. }), "{:?}", report.outcome);
        assert_eq!(report.exit_code(), EXIT_UNRESOLVED);
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Sealed { sent: Sent::InFlight, .. }));
        let fenced = bed.abandon(&calve, "p").await.expect("fenced");
        assert_eq!(fenced.finding.state, State::Closed);
        let late = bed.faults.release_held().await.expect("a held request");
        assert!(matches!(late, Reply::Refused { status: 409, .. }), "{late:?}");
        assert_eq!(bed.ids().await, [1, 2, 3], "never, after the fence");
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((found.row, found.exit_code()), (5, EXIT_NOT_PUBLISHED));
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 13);
    }
}

scenario! {
    /// 4, the other way round: the stalled request arrives first.
    s04_stalled_then_lands(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Hold);
        let report = bed.publish(&calve, "p").await;
        assert_eq!(report.exit_code(), EXIT_UNRESOLVED);
        let late = bed.faults.release_held().await.expect("a held request");
        assert!(matches!(late, Reply::Accepted { .. }), "{late:?}");
        let error = bed.abandon(&calve, "p").await.expect_err("it is published");
        assert_eq!(error.exit_code(), 13);
        assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), EXIT_DONE);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// An unresolved publication is sent again to the letter, and whichever of the two lands, it lands once.
    resent_identically(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Hold);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
        let again = bed.publish(&calve, "p").await;
        assert_eq!(published(&again).1, Visibility::Visible);
        let seen = bed.faults.seen();
        let [first, second] = &seen[seen.len() - 2..] else { panic!("two requests") };
        assert_eq!(serde_json::to_value(&first.commit).unwrap(), serde_json::to_value(&second.commit).unwrap());
        let late = bed.faults.release_held().await.expect("a held request");
        assert!(matches!(late, Reply::Refused { status: 409, .. }));
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 5: publish lands, ten commits follow, expiry removes K, and the receipt tag is gone too: horizon lost, never
    /// "failed", for anyone without the journal.
    s05_history_gone(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let data = bed.observe().await.snapshots[&seal].parent.expect("S");
        bed.faults.push(Fault::LoseReply);
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Reconciled);
        for id in 0..10 {
            bed.engine().append("main", &[(11, 100 + id, 0)]).await.expect("appended");
        }
        let id = bed.id("p");
        bed.engine().remove_ref(id.published_ref()).await;
        let markers: Vec<_> = bed.observe().await.snapshots.iter()
            .filter(|(_, s)| s.summary.contains_key("calve.owner")).map(|(id, _)| *id).collect();
        let reply = bed.engine().expire(&[vec![seal, data], markers].concat()).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
        let found = bed.reconcile(&stranger, "p").await;
        assert_eq!(found.finding.state, State::Consumed);
        assert_eq!(found.exit_code(), EXIT_ESCALATE);
        let outcome = bed.publish(&stranger, "p").await;
        assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::HorizonLost, .. }));
        assert_eq!(bed.abandon(&stranger, "p").await.expect_err("never fence").exit_code(), EXIT_ESCALATE);
        // The journal knows the files, and they are live.
        let known = bed.reconcile(&calve, "p").await;
        assert!(matches!(known.finding.state, State::ReceiptRemoved { .. }), "{:?}", known.finding);
        assert!(bed.ids().await.contains(&4));
    }
}

scenario! {
    /// 6: publish lands, then someone rolls main back to N: rolled back, and the id is refused from then on. Rolled
    /// back to S: every row is still visible.
    s06_rolled_back(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let data = bed.observe().await.snapshots[&seal].parent.expect("S");
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        bed.engine().move_branch("main", data).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Published { visibility: Visibility::Visible, .. }));
        bed.engine().move_branch("main", base).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Published { visibility: Visibility::RolledBack, .. }));
        let commits = bed.faults.commits();
        let again = bed.publish(&calve, "p").await;
        assert_eq!(published(&again), (Via::AlreadyThere, Visibility::RolledBack));
        assert_eq!(bed.faults.commits(), commits, "never sent again");
        assert_eq!(bed.try_begin(&calve, "p", "true").await.expect_err("used").exit_code(), 13);
        assert_eq!(bed.ids().await, [1, 2, 3]);
    }
}

scenario! {
    /// 7: audit/p moves from K to X after the seal: subject moved, not published, main stays at N.
    s07_subject_moved(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let moved = bed.engine().append("audit/p", &[(9, 5, 50)]).await.expect("the branch is open");
        let report = bed.publish(&calve, "p").await;
        assert_eq!(report.exit_code(), 10);
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::SubjectMoved { head, .. } if head == moved));
        assert_eq!(bed.main().await, Some(base));
        // Validated again, both rows are covered, and published together.
        assert!(bed.validate(&calve, "p").await.passed);
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        assert_eq!(bed.ids().await, [1, 2, 3, 4, 5]);
    }
}

scenario! {
    /// 8: another writer commits between our read and our swap: conflict, its row survives, ours is not visible.
    s08_writer_between_read_and_swap(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let other = bed.other_writer();
        bed.faults.before_commit(move || other);
        let report = bed.publish(&calve, "p").await;
        assert!(matches!(report.outcome, PublishOutcome::Conflict { .. }), "{:?}", report.outcome);
        assert_eq!(report.exit_code(), EXIT_REBUILD);
        assert_eq!(bed.ids().await, [1, 2, 3, 99]);
    }
}

/// 9: the first commit of a table: main is absent, and publish creates it; a concurrent creator wins: conflict.
#[tokio::test]
async fn s09_first_commit_of_a_table() {
    for kind in KINDS {
        let bed = Bed::new(kind).await;
        let calve = bed.coordinator("ann");
        assert_eq!(bed.main().await, None);
        let first = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let second = bed.sealed(&calve, "q", 9, &[(9, 5, 50)]).await;
        assert_ne!(first, second);
        assert_eq!(bed.main().await, None, "no candidate makes main");
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        assert_eq!(bed.ids().await, [4]);
        assert_eq!(bed.publish(&calve, "q").await.exit_code(), EXIT_REBUILD);
        assert_eq!(bed.ids().await, [4]);
        let fenced = bed.abandon(&calve, "q").await.expect("fenced");
        assert_eq!(fenced.finding.state, State::Closed);
    }
}

/// 14: answers that say nothing, whether the request was applied or not: all unknown, all reconciled.
#[tokio::test]
async fn s14_answers_that_say_nothing() {
    for kind in KINDS {
        for reason in ["503 from a load balancer", "502", "504", "a 200 cut in half", "a 200 with someone else's JSON"]
        {
            let (bed, calve, _) = bed_with_history(kind).await;
            bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.faults.push(Fault::ReplyInstead(Answer::Unknown { reason: reason.to_owned() }));
            let report = bed.publish(&calve, "p").await;
            assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible), "{reason}");
            bed.sealed(&calve, "q", 10, &[(10, 5, 50)]).await;
            bed.faults.push(Fault::LoseRequest);
            let report = bed.publish(&calve, "q").await;
            assert_eq!(report.exit_code(), EXIT_UNRESOLVED, "{reason}");
            assert_eq!(published(&bed.publish(&calve, "q").await).1, Visibility::Visible);
        }
    }
}

scenario! {
    /// Two identical publishes at once, on two machines: one receipt, and both end at published.
    s21_two_publishers(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let other = bed.coordinator("ann");
        let (one, two) = tokio::join!(bed.publish(&calve, "p"), bed.publish(&other, "p"));
        for report in [&one, &two] {
            assert_eq!(published(report).1, Visibility::Visible);
        }
        assert_eq!(bed.reference(bed.id("p").published_ref()).await, Some((seal, false)));
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 22: after publish, a late job appends to audit/p: refused, because the name is a tag now. After abandon too.
    s22_late_job(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        assert!(bed.engine().append("audit/p", &[(9, 6, 60)]).await.expect_err("a tag").contains("tag"));
        bed.begin(&calve, "q", "day = '2013-08-10'").await;
        bed.abandon(&calve, "q").await.expect("fenced");
        assert!(bed.engine().append("audit/q", &[(10, 7, 70)]).await.is_err());
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 23: an engine fast-forwards main to the audit head itself: bypassed, settled with a receipt.
    s23_bypassed_sealed(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().move_branch("main", seal).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Bypassed { sealed: true, .. }), "{:?}", found.finding);
        assert!(found.settled, "{:?}", found.warnings);
        assert_eq!(found.exit_code(), EXIT_DONE);
        assert_eq!(bed.reference(bed.id("p").published_ref()).await, Some((seal, false)));
        assert_eq!(bed.reference(bed.id("p").audit_ref()).await, Some((base, false)));
        assert_eq!(bed.reconcile(&calve, "p").await.row, 2);
    }
}

scenario! {
    /// 23, to a child of the seal: the unsealed child is reported as what it is.
    s23_bypassed_unsealed(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let child = bed.engine().append("audit/p", &[(9, 5, 50)]).await.expect("appended");
        bed.engine().move_branch("main", child).await;
        let report = bed.publish(&calve, "p").await;
        let PublishOutcome::Published { via: Via::Bypassed, sealed: false, .. } = report.outcome else {
            panic!("{:?}", report.outcome)
        };
        assert_eq!(report.exit_code(), EXIT_ESCALATE);
        assert_eq!(bed.reference(bed.id("p").published_ref()).await, Some((child, false)));
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Published { sealed: false, .. }), "{:?}", found.finding);
    }
}

scenario! {
    /// 24: validate twice: one head, two seals over time, never ambiguous; the older seal is not published.
    s24_two_seals(bed, calve, base) {
        let first = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let second = bed.validate(&calve, "p").await.seal.expect("sealed again");
        assert_ne!(first, second);
        let observed = bed.observe().await;
        assert_eq!(observed.snapshots[&first].parent, observed.snapshots[&second].parent);
        assert!(observed.snapshots[&second].replaces().contains(&first));
        assert_eq!(bed.reconcile(&calve, "p").await.row, 6);
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        assert_eq!(bed.main().await, Some(second));
        assert_eq!(bed.reconcile(&calve, "p").await.row, 2);
    }
}

scenario! {
    /// 25: an expire planned before a publish is applied after it: nothing of K or main is lost by age, because
    /// calve's refs keep their own; and named by id, a snapshot that a ref names is not lost in silence.
    s25_stale_expire(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let observed = bed.observe().await;
        let kept = |name: &calve::ids::RefName| observed.reference(name).map(|found| found.kind.clone());
        assert_eq!(kept(&bed.id("p").audit_ref()), Some(calve::observed::RefKind::KEPT_BRANCH));
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        let observed = bed.observe().await;
        for name in [bed.id("p").audit_ref(), bed.id("p").published_ref()] {
            assert_eq!(observed.reference(&name).expect("kept").kind, calve::observed::RefKind::KEPT_TAG);
        }
        assert_eq!(bed.main().await, Some(seal));
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// An engine's write erases the branch's retention: publish refuses, and the next seal sets it again.
    retention_erased(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let unset = calve::observed::RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        bed.engine().set_retention(bed.id("p").audit_ref(), unset).await;
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 10);
        assert!(bed.validate(&calve, "p").await.passed);
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
    }
}

scenario! {
    /// 28: two pods run begin for one id at once, without a shared journal: one owns it, the other is told whose it is.
    s28_two_begins(bed, calve, base) {
        let other = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
        let (one, two) = tokio::join!(bed.try_begin(&calve, "p", "true"), bed.try_begin(&other, "p", "true"));
        let (won, lost) = match (one, two) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            both => panic!("one must win: {both:?}"),
        };
        assert_eq!(lost.exit_code(), 13);
        assert!(lost.to_string().contains(&won.owner.0), "{lost} names {}", won.owner);
        // The winner's retry is idempotent.
        let winner = if won.owner.0 == "ann" { &calve } else { &other };
        let again = bed.try_begin(winner, "p", "true").await.expect("idempotent");
        assert!(again.already_open);
        assert_eq!(again.marker, won.marker);
    }
}

scenario! {
    /// 33: the tombstone or the receipt alone is deleted by maintenance: no late request gets through.
    s33_one_ref_deleted(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Hold);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
        assert_eq!(published(&bed.publish(&calve, "p").await).1, Visibility::Visible);
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        bed.engine().move_branch("main", base).await;
        let late = bed.faults.release_held().await.expect("a held request");
        assert!(matches!(late, Reply::Refused { status: 409, .. }));
        assert!(matches!(bed.reconcile(&calve, "p").await.finding.state, State::Published { .. }));
        bed.engine().remove_ref(bed.id("p").published_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::ReceiptRemoved { .. }), "{:?}", found.finding);
    }
}

scenario! {
    /// 34: a fence is sent, and an engine fast-forwards main to the head before it lands: the answer is not "never".
    s34_bypassed_before_the_fence(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let forward = bed.fast_forward(seal);
        bed.faults.before_commit(move || forward);
        let report = bed.abandon(&calve, "p").await.expect("an answer");
        assert!(matches!(report.finding.state, State::VisibleAfterFence { .. }), "{:?}", report.finding);
        assert_eq!(report.exit_code(), EXIT_ESCALATE);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 36: N was expired by id while the candidate was open: the fence still works.
    s36_base_expired(bed, calve, base) {
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let moved = bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
        let reply = bed.engine().expire(&[base]).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        let report = bed.abandon(&calve, "p").await.expect("fenced");
        assert_eq!(report.finding.state, State::Closed);
        assert_eq!(bed.reference(bed.id("p").audit_ref()).await, Some((moved, false)));
    }
}

scenario! {
    /// A failed check seals nothing, and the candidate stays open for repair.
    failed_check(bed, calve, base) {
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40), (9, 4, 41)]).await;
        let report = bed.validate(&calve, "p").await;
        assert!(!report.passed);
        assert_eq!((report.seal, report.exit_code()), (None, 10));
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 10);
        bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await;
        assert!(bed.validate(&calve, "p").await.passed);
        assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

scenario! {
    /// 35: an engine fast-forwards main to S; commits follow; S expires by id: found by the files it added, also where
    /// the candidate was fenced before anyone looked.
    s35_found_by_its_files(bed, calve, base) {
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let data = bed.observe().await.snapshots[&seal].parent.expect("S");
        bed.engine().move_branch("main", data).await;
        for id in 0..2 {
            bed.engine().append("main", &[(11, 100 + id, 0)]).await.expect("appended");
        }
        let own: Vec<_> = bed.observe().await.snapshots.iter()
            .filter(|(id, s)| **id == data || s.summary.contains_key("calve.owner")).map(|(id, _)| *id).collect();
        let reply = bed.engine().expire(&own).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        assert!(bed.ids().await.contains(&4), "visible");
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.row, 3, "{:?}", found.finding);
        assert_ne!(found.finding.state, State::Closed);
    }
}
