//! Refs that others removed, made or moved.

use super::*;

/// Row 9: a branch that an engine made again from main may only be fenced.
#[tokio::test]
async fn a_branch_made_again() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        bed.engine().append("audit/p", &[(9, 8, 80)]).await.expect("made again");
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Foreign { .. }), "{:?}", found.finding);
        assert_eq!((found.row, found.exit_code()), (9, 10));
        let ids = bed.ids().await;
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 10, 0]);
        assert_eq!(bed.ids().await, ids);
        assert!(bed.engine().append("audit/p", &[(9, 8, 80)]).await.is_err());
    }
}

/// Row 10: consumed, and neither receipt nor fence is there. The journal is asked, then older metadata; who has neither is told
/// to escalate, and may do nothing.
#[tokio::test]
async fn consumed() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "true").await;
        bed.abandon(&calve, "p").await.expect("fenced");
        bed.engine().remove_ref(bed.id("p").closed_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Closed, 14));
        let commits = bed.faults.commits();
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 13, 0]);
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(bed.reconcile(&stranger, "p").await.finding.state, State::Closed);
        super::older::remove_files(&bed, 0).await;
        let found = bed.reconcile(&stranger, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Consumed, 21));
        assert_eq!(codes(&bed, &stranger, "p").await, [13, 13, 13, 21, 21]);
        assert_eq!(bed.faults.commits(), commits, "never fence");
    }
}

/// Row 11: the branch is gone, and only this candidate's own journal may fence it.
#[tokio::test]
async fn gone() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Gone, 21));
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        let refused = bed.abandon(&stranger, "p").await.expect_err("begun with another journal");
        assert_eq!(refused.exit_code(), 13, "{refused}");
        assert!(refused.to_string().contains(&bed.journal.root()), "{refused}");
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 0]);
    }
}

/// 35: main reached S, went on, and S expired by id: what the candidate added is live, so it is no more to be published,
/// fenced or begun, sealed or not.
#[tokio::test]
async fn visible_by_its_files_alone() {
    for sealed in [true, false] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let data = bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await.snapshot;
        let marker = bed.observe().await.snapshots[&data].parent.expect("B");
        if sealed {
            assert!(bed.validate(&calve, "p").await.seal.is_some());
        }
        bed.engine().move_branch("main", data).await;
        bed.engine().append("main", &[(10, 8, 80)]).await.expect("appended");
        let other = bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
        let log: Vec<_> = bed.observe().await.snapshot_log.iter().map(|(_, id)| *id).collect();
        let gone: Vec<_> = log.into_iter().filter(|id| *id != other).chain([data]).collect();
        if !sealed {
            // The branch would keep S: an engine's write stands on it.
            bed.engine().append("audit/p", &[(9, 5, 50)]).await.expect("appended");
        }
        let _reply = bed.engine().expire(&gone).await;
        let observed = bed.observe().await;
        assert!(!observed.snapshots.contains_key(&data) && observed.snapshots.contains_key(&marker));
        let before = bed.faults.commits();
        assert_eq!(bed.abandon(&calve, "p").await.expect_err("it is visible").exit_code(), 13, "sealed: {sealed}");
        assert_eq!(bed.faults.commits(), before);
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.row, 3, "{:?}", found.finding);
        assert!(matches!(found.finding.state, State::Bypassed { .. }));
    }
}

/// A receipt that calve did not leave: nobody may act on it.
#[tokio::test]
async fn a_receipt_on_something_else() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().tag(bed.id("p").published_ref(), base).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Ambiguous { .. }), "{:?}", found.finding);
        assert_eq!(found.exit_code(), 21);
        assert_eq!(found.next, [format!("calve review {} p", bed.table)]);
        let review = calve.review(&bed.table, &bed.id("p"), None).await.expect("reviewed");
        assert!(!format!("{review:?}").contains("next: calve review"), "{review:?}");
        assert_eq!(calve.reconcile_all(&bed.table).await.expect("all").exit_code(), 21);
        let commits = bed.faults.commits();
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
        assert_eq!(bed.faults.commits(), commits);
    }
}

/// 13: a column is added after the seal: a conflict, until it is validated under the new schema; and whoever has no
/// journal reads the same from the table.
#[tokio::test]
async fn the_schema_moves_under_a_seal() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().add_column("note").await;
        let report = bed.publish(&calve, "p").await;
        assert_eq!((report.exit_code(), report.requests), (11, 0), "{:?}", report.outcome);
        assert!(bed.validate(&calve, "p").await.passed);
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(bed.reconcile(&calve, "p").await.row, 6);
        assert_eq!(bed.reconcile(&stranger, "p").await.row, 6);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

/// The schema that a candidate was begun under was removed from the metadata: what became of its columns is not known,
/// and what is not known is a conflict.
#[tokio::test]
async fn the_schema_of_a_moved_base_is_gone() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.engine().add_column("note").await;
    bed.engine().append("main", &[(10, 7, 70)]).await.expect("appended");
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 12, "elsewhere, and a column that is optional");
    bed.engine().update(vec![iceberg::TableUpdate::RemoveSchemas { schema_ids: vec![0] }]).await;
    let report = bed.publish(&calve, "p").await;
    assert_eq!(report.exit_code(), 11, "{:?}", report.outcome);
    assert!(report.warnings.iter().any(|warning| warning.contains("schema that p was begun under")), "{report:?}");
    let status = calve.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("status");
    assert!(status.tables[0].error.as_ref().is_some_and(|error| error.contains("begun under")), "{status:?}");
    assert_eq!(status.tables[0].publications.len(), 1);
}
