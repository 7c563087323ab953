//! Situations that must come out right, over every catalog.
//!
//! `main = N`, candidate `audit/p` with data head `S` and seal `K`; names and numbers as in the protocol's scenarios. Each
//! is played on a bed of its own with an empty table.

use std::sync::Arc;

use super::{Bed, Trouble, contract};
use crate::catalog::Reply;
use crate::contract::Contract;
use crate::coordinator::{Coordinator, StageMode, ValidateRequest};
use crate::data::NoProgress;
use crate::ids::{RefName, SnapshotId, TableName};
use crate::journal::memory::MemoryJournal;
use crate::observed::RefKind;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{
    Cause, EXIT_DONE, EXIT_ESCALATE, EXIT_NOT_PUBLISHED, EXIT_REBUILD, EXIT_UNRESOLVED, Via,
};
use crate::publish::reconcile::{Sent, State, Visibility};
use crate::report::{PublishReport, Report};

pub use super::recovering::s29_recover_elsewhere;

/// Calls a macro with the names of all scenarios that every catalog can play.
#[macro_export]
macro_rules! every_scenario {
    ($play:ident) => {
        $play! {
            published_directly,
            s01_reply_lost,
            s02_reply_lost_then_superseded,
            s03_own_success_replayed_as_conflict,
            s04_stalled_then_fenced,
            s04_stalled_then_lands,
            resent_identically,
            s05_history_gone,
            s06_rolled_back,
            s07_subject_moved,
            s08_writer_between_read_and_swap,
            s09_first_commit_of_a_table,
            s14_answers_that_say_nothing,
            s19_seal_stays_small,
            s21_two_publishers,
            s22_late_job,
            s23_bypassed_sealed,
            s23_bypassed_unsealed,
            s24_two_seals,
            s25_stale_expire,
            retention_erased,
            s28_two_begins,
            s29_recover_elsewhere,
            s33_one_ref_deleted,
            s34_bypassed_before_the_fence,
            s36_base_expired,
            failed_check,
            s35_found_by_its_files
        }
    };
}

/// Ids 1 to 3 on 8 August in main, and a coordinator.
async fn history(bed: &Bed) -> (Coordinator, SnapshotId) {
    let base = bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    (bed.coordinator("ann"), base)
}

fn published(report: &PublishReport) -> (Via, Visibility) {
    match &report.outcome {
        PublishOutcome::Published { via, visibility, .. } => (*via, *visibility),
        other => panic!("not published: {other:?}"),
    }
}

/// The plain way, and what it leaves.
pub async fn published_directly(bed: Bed) {
    let (calve, base) = history(&bed).await;
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
    let (calve, _base) = history(&bed).await;
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
    let (calve, _base) = history(&bed).await;
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
    let (calve, _base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Replayed);
    let report = bed.publish(&calve, "p").await;
    assert_eq!(published(&report), (Via::Reconciled, Visibility::Visible));
    assert_eq!(report.requests, 1);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 4: publish stalls in the network; a reload shows main = N: unresolved. Fence. The stalled request arrives: 409.
pub async fn s04_stalled_then_fenced(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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
    let (calve, _base) = history(&bed).await;
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
    let (calve, _base) = history(&bed).await;
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

/// 5: publish lands, ten commits follow, expiry removes K, and the receipt tag is gone too: older metadata files show it to
/// anyone; where they are gone too, horizon lost for anyone without the journal, never "failed".
pub async fn s05_history_gone(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let data = bed.observe().await.snapshots[&seal].parent.expect("S");
    bed.next_commit(Trouble::ReplyLost);
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Reconciled);
    for id in 0..10 {
        bed.engine().append("main", &[(11, 100 + id, 0)]).await.expect("appended");
    }
    let id = bed.id("p");
    bed.engine().remove_ref(id.published_ref()).await;
    let markers: Vec<_> = bed
        .observe()
        .await
        .snapshots
        .iter()
        .filter(|(_, s)| s.summary.contains_key("calve.owner"))
        .map(|(id, _)| *id)
        .collect();
    let reply = bed.engine().expire(&[vec![seal, data], markers].concat()).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
    let found = bed.reconcile(&stranger, "p").await;
    let State::ReceiptRemoved { snapshot, sealed: true, .. } = found.finding.state else {
        panic!("{:?}", found.finding)
    };
    assert_eq!((snapshot, found.exit_code()), (Some(seal), 0));
    let table = bed.catalog.load(&bed.table).await.expect("the table");
    for entry in table.metadata.metadata_log() {
        table.file_io.delete(&entry.metadata_file).await.expect("deleted");
    }
    let found = bed.reconcile(&stranger, "p").await;
    assert_eq!(found.finding.state, State::Consumed, "{:?}", found.finding);
    assert_eq!(found.exit_code(), EXIT_ESCALATE);
    let outcome = bed.publish(&stranger, "p").await;
    assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::HorizonLost, .. }));
    assert_eq!(bed.abandon(&stranger, "p").await.expect_err("never fence").exit_code(), EXIT_ESCALATE);
    // The journal knows the files, and they are live.
    let known = bed.reconcile(&calve, "p").await;
    assert!(matches!(known.finding.state, State::ReceiptRemoved { .. }), "{:?}", known.finding);
    assert!(bed.ids().await.contains(&4));
}

/// 6: publish lands, then someone rolls main back to N: rolled back, and the id is refused from then on. Rolled
/// back to S: every row is still visible.
pub async fn s06_rolled_back(bed: Bed) {
    let (calve, base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let data = bed.observe().await.snapshots[&seal].parent.expect("S");
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
    bed.engine().move_branch("main", data).await;
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Published { visibility: Visibility::Visible, .. }));
    bed.engine().move_branch("main", base).await;
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Published { visibility: Visibility::RolledBack, .. }));
    let commits = bed.commits();
    let again = bed.publish(&calve, "p").await;
    assert_eq!(published(&again), (Via::AlreadyThere, Visibility::RolledBack));
    assert_eq!(bed.commits(), commits, "never sent again");
    assert_eq!(bed.try_begin(&calve, "p", "true").await.expect_err("used").exit_code(), 13);
    assert_eq!(bed.ids().await, [1, 2, 3]);
}

/// 7: audit/p moves from K to X after the seal: subject moved, not published, main stays at N.
pub async fn s07_subject_moved(bed: Bed) {
    let (calve, base) = history(&bed).await;
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

/// 8: another writer commits between our read and our swap: conflict, its row survives, ours is not visible.
pub async fn s08_writer_between_read_and_swap(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let other = bed.other_writer();
    bed.before_next_commit(other);
    let report = bed.publish(&calve, "p").await;
    assert!(matches!(report.outcome, PublishOutcome::Conflict { .. }), "{:?}", report.outcome);
    assert_eq!(report.exit_code(), EXIT_REBUILD);
    assert_eq!(bed.ids().await, [1, 2, 3, 99]);
}

/// 9: the first commit of a table: main is absent, and publish creates it; a concurrent creator wins: conflict.
pub async fn s09_first_commit_of_a_table(bed: Bed) {
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

/// 14: answers that say nothing, whether the request was applied or not: all unknown, all reconciled.
pub async fn s14_answers_that_say_nothing(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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

/// 19: thirty checks with long names and a long scope: the seal stays under 2 KB, and the catalog keeps it whole.
pub async fn s19_seal_stays_small(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let scope = (0..60).map(|n| format!("id = {}", 1_000 + n)).chain(["day = '2013-08-09'".to_owned()]);
    bed.begin(&calve, "p", &scope.collect::<Vec<_>>().join(" OR ")).await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let mut text = "version = 1\n".to_owned();
    for n in 0..30 {
        text.push_str(&format!("[[check]]\nname = \"{:-<40}\"\nkind = \"scope\"\n", format!("check{n}")));
    }
    let contract = Contract::parse(&text, "thirty.toml").expect("a contract");
    let request = ValidateRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        contract: contract.clone(),
        sources_root: ".".into(),
        dry_run: false,
    };
    let report = calve.validate(&request, Arc::new(NoProgress)).await.expect("validated");
    let seal = report.seal.unwrap_or_else(|| panic!("{:?}", report.reasons));
    let observed = bed.observe().await;
    let own = observed.snapshots[&seal].summary.iter().filter(|(key, _)| key.starts_with("calve."));
    let size: usize = own.map(|(key, value)| key.len() + value.len()).sum();
    assert!((100..2_048).contains(&size), "{size}");
    assert!(observed.snapshots[&seal].summary["calve.check.all"].contains("passed"));
    let report = calve.publish(&bed.table, &bed.id("p"), &contract).await.expect("an outcome");
    assert_eq!(published(&report), (Via::Direct, Visibility::Visible));
}

/// Two identical publishes at once, on two machines: one receipt, and both end at published.
pub async fn s21_two_publishers(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let other = bed.coordinator("ann");
    let (one, two) = tokio::join!(bed.publish(&calve, "p"), bed.publish(&other, "p"));
    for report in [&one, &two] {
        assert_eq!(published(report).1, Visibility::Visible);
    }
    assert_eq!(bed.reference(bed.id("p").published_ref()).await, Some((seal, false)));
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 22: after publish, a late job appends to audit/p: refused, because the name is a tag now. After abandon too.
pub async fn s22_late_job(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
    assert!(bed.engine().append("audit/p", &[(9, 6, 60)]).await.expect_err("a tag").contains("tag"));
    bed.begin(&calve, "q", "day = '2013-08-10'").await;
    bed.abandon(&calve, "q").await.expect("fenced");
    assert!(bed.engine().append("audit/q", &[(10, 7, 70)]).await.is_err());
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 23: an engine fast-forwards main to the audit head itself: bypassed, settled with a receipt.
pub async fn s23_bypassed_sealed(bed: Bed) {
    let (calve, base) = history(&bed).await;
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

/// 23, to a child of the seal: the unsealed child is reported as what it is.
pub async fn s23_bypassed_unsealed(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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

/// 24: validate twice: one head, two seals over time, never ambiguous; the older seal is not published.
pub async fn s24_two_seals(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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

/// 25: an expire planned before a publish is applied after it: nothing of K or main is lost by age, because
/// calve's refs keep their own; and named by id, a snapshot that a ref names is not lost in silence.
pub async fn s25_stale_expire(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let observed = bed.observe().await;
    let kept = |name: &RefName| observed.reference(name).map(|found| found.kind.clone());
    assert_eq!(kept(&bed.id("p").audit_ref()), Some(RefKind::KEPT_BRANCH));
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
    let observed = bed.observe().await;
    for name in [bed.id("p").audit_ref(), bed.id("p").published_ref()] {
        assert_eq!(observed.reference(&name).expect("kept").kind, RefKind::KEPT_TAG);
    }
    assert_eq!(bed.main().await, Some(seal));
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// An engine's write erases the branch's retention: publish refuses, and the next seal sets it again.
pub async fn retention_erased(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    bed.engine().set_retention(bed.id("p").audit_ref(), unset).await;
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 10);
    assert!(bed.validate(&calve, "p").await.passed);
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
}

/// 28: two pods run begin for one id at once, without a shared journal: one owns it, the other is told whose it is.
pub async fn s28_two_begins(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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

/// 33: the tombstone or the receipt alone is deleted by maintenance: no late request gets through.
pub async fn s33_one_ref_deleted(bed: Bed) {
    let (calve, base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Stalled);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
    assert_eq!(published(&bed.publish(&calve, "p").await).1, Visibility::Visible);
    bed.engine().remove_ref(bed.id("p").audit_ref()).await;
    bed.engine().move_branch("main", base).await;
    let late = bed.release().await;
    assert_eq!(late, 409);
    assert!(matches!(bed.reconcile(&calve, "p").await.finding.state, State::Published { .. }));
    bed.engine().remove_ref(bed.id("p").published_ref()).await;
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::ReceiptRemoved { .. }), "{:?}", found.finding);
}

/// 34: a fence is sent, and an engine fast-forwards main to the head before it lands: the answer is not "never".
pub async fn s34_bypassed_before_the_fence(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let forward = bed.fast_forward(seal);
    bed.before_next_commit(forward);
    let report = bed.abandon(&calve, "p").await.expect("an answer");
    assert!(matches!(report.finding.state, State::VisibleAfterFence { .. }), "{:?}", report.finding);
    assert_eq!(report.exit_code(), EXIT_ESCALATE);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 36: N was expired by id while the candidate was open: the fence still works.
pub async fn s36_base_expired(bed: Bed) {
    let (calve, base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let moved = bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    let reply = bed.engine().expire(&[base]).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    let report = bed.abandon(&calve, "p").await.expect("fenced");
    assert_eq!(report.finding.state, State::Closed);
    assert_eq!(bed.reference(bed.id("p").audit_ref()).await, Some((moved, false)));
}

/// A failed check seals nothing, and the candidate stays open for repair.
pub async fn failed_check(bed: Bed) {
    let (calve, _base) = history(&bed).await;
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

/// 35: an engine fast-forwards main to S; commits follow; S expires by id: found by the files it added, also where
/// the candidate was fenced before anyone looked.
pub async fn s35_found_by_its_files(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let data = bed.observe().await.snapshots[&seal].parent.expect("S");
    bed.engine().move_branch("main", data).await;
    for id in 0..2 {
        bed.engine().append("main", &[(11, 100 + id, 0)]).await.expect("appended");
    }
    let own: Vec<_> = bed
        .observe()
        .await
        .snapshots
        .iter()
        .filter(|(id, s)| **id == data || s.summary.contains_key("calve.owner"))
        .map(|(id, _)| *id)
        .collect();
    let reply = bed.engine().expire(&own).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    assert!(bed.ids().await.contains(&4), "visible");
    let found = bed.reconcile(&calve, "p").await;
    assert_eq!(found.row, 3, "{:?}", found.finding);
    assert_ne!(found.finding.state, State::Closed);
}

/// 31: the table was renamed while a publication was unresolved: found by its uuid. Another table of the old name is never
/// published to. Only where tables can be renamed, so not among [`crate::every_scenario`].
pub async fn s31_renamed(bed: Bed) {
    let (calve, _base) = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.next_commit(Trouble::Stalled);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
    let moved = TableName::new(bed.table.namespace().to_vec(), "moved".to_owned()).expect("a name");
    bed.network.rename(&bed.table, &moved).await.expect("renamed");
    let found = bed.reconcile(&calve, "p").await;
    let State::Lost { renamed, .. } = &found.finding.state else { panic!("{:?}", found.finding) };
    assert_eq!((renamed.as_ref(), found.exit_code()), (Some(&moved), EXIT_UNRESOLVED));
    assert!(found.next.iter().any(|next| next.contains(&moved.to_string())), "{:?}", found.next);
    let outcome = bed.publish(&calve, "p").await;
    assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::Lost, .. }), "{:?}", outcome.outcome);
    // Another table of the old name.
    bed.create().await;
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(&found.finding.state, State::Lost { renamed: Some(name), .. } if *name == moved), "{found:?}");
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_UNRESOLVED);
    // The stalled request meets the new table, which has another uuid.
    assert_eq!(bed.release().await, 409);
    assert_eq!(bed.main().await, None, "nothing of it in the new table");
    let report = calve.publish(&moved, &bed.id("p"), &contract()).await.expect("an outcome");
    assert_eq!(published(&report).1, Visibility::Visible);
}
