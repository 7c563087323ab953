//! Histories that were rolled back or expired, and tables that are elsewhere.

use std::sync::Arc;

use super::{published, with_history};
use crate::catalog::Reply;
use crate::ids::{RefName, TableName};
use crate::journal::memory::MemoryJournal;
use crate::observed::RefKind;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{Cause, EXIT_ESCALATE, EXIT_UNRESOLVED, Via};
use crate::publish::reconcile::{State, Visibility};
use crate::report::Report;
use crate::testing::{Bed, Trouble, contract};

/// 5: publish lands, ten commits follow, expiry removes K, and the receipt tag is gone too: older metadata files show it to
/// anyone; where they are gone too, horizon lost for anyone without the journal, never "failed".
pub async fn s05_history_gone(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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
    let (calve, base) = with_history(&bed).await;
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

/// 25: an expire planned before a publish is applied after it: nothing of K or main is lost by age, because
/// calve's refs keep their own; and named by id, a snapshot that a ref names is not lost in silence.
pub async fn s25_stale_expire(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// 31: the table was renamed while a publication was unresolved: found by its uuid. Another table of the old name is never
/// published to. Only where tables can be renamed, so not among [`crate::every_scenario`].
pub async fn s31_renamed(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// 35: an engine fast-forwards main to S; commits follow; S expires by id: found by the files it added, also where
/// the candidate was fenced before anyone looked.
pub async fn s35_found_by_its_files(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// 36: N was expired by id while the candidate was open: the fence still works.
pub async fn s36_base_expired(bed: Bed) {
    let (calve, base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let moved = bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    let reply = bed.engine().expire(&[base]).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    let report = bed.abandon(&calve, "p").await.expect("fenced");
    assert_eq!(report.finding.state, State::Closed);
    assert_eq!(bed.reference(bed.id("p").audit_ref()).await, Some((moved, false)));
}
