//! Candidates: how they are opened, sealed, and contended for.

use std::sync::Arc;

use super::{published, with_history};
use crate::contract::Contract;
use crate::coordinator::{StageMode, ValidateRequest};
use crate::data::NoProgress;
use crate::journal::memory::MemoryJournal;
use crate::observed::RefKind;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{EXIT_REATTACH, EXIT_REBUILD, EXIT_UNRESOLVED, Via};
use crate::publish::reconcile::{State, Visibility};
use crate::report::Report;
use crate::testing::{Bed, Trouble};

/// 7: audit/p moves from K to X after the seal: subject moved, not published, main stays at N.
pub async fn s07_subject_moved(bed: Bed) {
    let (calve, base) = with_history(&bed).await;
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
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let other = bed.other_writer();
    bed.before_next_commit(other);
    let report = bed.publish(&calve, "p").await;
    assert!(matches!(report.outcome, PublishOutcome::Conflict { .. }), "{:?}", report.outcome);
    // The other wrote to the 10th, which this one neither owns nor read.
    assert_eq!(report.exit_code(), EXIT_REATTACH);
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

/// 19: thirty checks with long names and a long scope: the seal stays under 2 KB, and the catalog keeps it whole.
pub async fn s19_seal_stays_small(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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
    let (calve, _base) = with_history(&bed).await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let other = bed.coordinator("ann");
    let (one, two) = tokio::join!(bed.publish(&calve, "p"), bed.publish(&other, "p"));
    for report in [&one, &two] {
        assert_eq!(published(report).1, Visibility::Visible);
    }
    assert_eq!(bed.reference(bed.id("p").published_ref()).await, Some((seal, false)));
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// 24: validate twice: one head, two seals over time, never ambiguous; the older seal is not published.
pub async fn s24_two_seals(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// 28: two pods run begin for one id at once, without a shared journal: one owns it, the other is told whose it is.
pub async fn s28_two_begins(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// An engine's write erases the branch's retention: publish refuses, and the next seal sets it again.
pub async fn retention_erased(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    bed.engine().set_retention(bed.id("p").audit_ref(), unset).await;
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 10);
    assert!(bed.validate(&calve, "p").await.passed);
    assert_eq!(published(&bed.publish(&calve, "p").await).0, Via::Direct);
}

/// A failed check seals nothing, and the candidate stays open for repair.
pub async fn failed_check(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
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

/// 32: two seals, the first one's publish still in flight when the second is sent: whichever is applied, the answer is
/// published, once, and never ambiguous.
pub async fn s32_request_for_an_older_seal(bed: Bed) {
    let (calve, _base) = with_history(&bed).await;
    for (id, day, both_stall) in [("p", 9, false), ("q", 10, true)] {
        bed.sealed(&calve, id, day, &[(day, i64::from(day), 0)]).await;
        bed.next_commit(Trouble::Stalled);
        assert_eq!(bed.publish(&calve, id).await.exit_code(), EXIT_UNRESOLVED, "{id}");
        let second = bed.validate(&calve, id).await.seal.expect("sealed again");
        if both_stall {
            bed.next_commit(Trouble::Stalled);
            assert_eq!(bed.publish(&calve, id).await.exit_code(), EXIT_UNRESOLVED, "{id}");
        } else {
            assert_eq!(published(&bed.publish(&calve, id).await), (Via::Direct, Visibility::Visible), "{id}");
        }
        assert_eq!(bed.release().await, 409, "{id}: the first requires the older seal");
        if both_stall {
            assert_eq!(bed.release().await, 200, "{id}");
        }
        let found = bed.reconcile(&calve, id).await.finding;
        assert!(matches!(found.state, State::Published { snapshot, .. } if snapshot == second), "{id}: {found:?}");
    }
    assert_eq!(bed.ids().await, [1, 2, 3, 9, 10]);
}
