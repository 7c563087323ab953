//! Engines and operators that move, write or remove what is calve's.

use std::sync::Arc;

use super::{published, with_history};
use crate::journal::memory::MemoryJournal;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{EXIT_DONE, EXIT_ESCALATE, EXIT_UNRESOLVED, Via};
use crate::publish::reconcile::{State, Visibility};
use crate::report::Report;
use crate::testing::{Bed, Trouble};

/// 22: after publish, a late job appends to audit/p: refused, because the name is a tag now. After abandon too.
pub async fn s22_late_job(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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
    let (calve, base) = with_history(&bed).await;
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
    let (calve, _base) = with_history(&bed).await;
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

/// 33: the tombstone or the receipt alone is deleted by maintenance: no late request gets through.
pub async fn s33_one_ref_deleted(bed: Bed) {
    let (calve, base) = with_history(&bed).await;
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
    let (calve, _base) = with_history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let forward = bed.fast_forward(seal);
    bed.before_next_commit(forward);
    let report = bed.abandon(&calve, "p").await.expect("an answer");
    assert!(matches!(report.finding.state, State::VisibleAfterFence { .. }), "{:?}", report.finding);
    assert_eq!(report.exit_code(), EXIT_ESCALATE);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 33, of a candidate that was closed: the fence alone or the tombstone alone is deleted by maintenance. No late request
/// gets through. The journal saw it closed; without it, and without older metadata, what the fence stood for is lost.
pub async fn s33_fence_deleted(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    for (id, fence) in [("p", true), ("q", false)] {
        bed.sealed(&calve, id, 9, &[(9, 4, 40)]).await;
        bed.next_commit(Trouble::Stalled);
        assert_eq!(bed.publish(&calve, id).await.exit_code(), EXIT_UNRESOLVED);
        bed.abandon(&calve, id).await.expect("fenced");
        let id = bed.id(id);
        bed.engine().remove_ref(if fence { id.closed_ref() } else { id.audit_ref() }).await;
        assert_eq!(bed.release().await, 409, "{id}");
        let found = bed.reconcile(&calve, &id.to_string()).await;
        assert_eq!(found.finding.state, State::Closed, "{id}");
        assert_eq!(bed.publish(&calve, &id.to_string()).await.exit_code(), 13);
        assert_eq!(bed.ids().await, [1, 2, 3], "{id}");
    }
    let table = bed.catalog.load(&bed.table).await.expect("the table");
    for entry in table.metadata.metadata_log() {
        table.file_io.delete(&entry.metadata_file).await.expect("deleted");
    }
    let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
    for (id, state) in [("p", State::Consumed), ("q", State::Closed)] {
        assert_eq!(bed.reconcile(&stranger, id).await.finding.state, state, "{id}");
    }
    assert_eq!(bed.publish(&stranger, "p").await.exit_code(), EXIT_ESCALATE);
}
