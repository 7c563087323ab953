//! Another journal, another name of the catalog, and a journal in the wrong place.

use super::*;

/// The same journal and table through a catalog of another name: what was tried is not known under that name.
#[tokio::test]
async fn another_name_of_the_catalog() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let renamed: Arc<dyn Catalog> = Arc::new(Renamed(bed.faults.clone(), CatalogIdentity("other".to_owned())));
        let coordinator = |catalog: Arc<dyn Catalog>| {
            Coordinator::new(catalog, bed.journal.clone(), bed.clock.clone(), calve.owner().clone())
        };
        let stranger = coordinator(renamed);
        let commits = bed.faults.commits();
        for refused in [
            try_stage(&bed, &stranger, "p").await.expect_err("elsewhere"),
            try_validate(&bed, &stranger, "p", contract()).await.expect_err("elsewhere"),
            stranger.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("elsewhere"),
            bed.abandon(&stranger, "p").await.expect_err("elsewhere"),
        ] {
            assert_eq!(refused.exit_code(), 13, "{refused}");
            let text = refused.to_string();
            assert!(text.contains("calve.identity") && text.contains(&bed.catalog.identity().0), "{text}");
        }
        assert_eq!(bed.faults.commits(), commits);
        let found = bed.reconcile(&stranger, "p").await;
        assert!(matches!(found.finding.state, State::Sealed { sent: Sent::NoJournal, .. }), "{:?}", found.finding);
        // Told that it is the same catalog, it goes on.
        let same: Arc<dyn Catalog> = Arc::new(Renamed(bed.faults.clone(), bed.catalog.identity().clone()));
        assert_eq!(bed.publish(&coordinator(same), "p").await.exit_code(), 0);
    }
}

/// Another journal: acting verbs refuse and name it, reading ones show it.
#[tokio::test]
async fn another_journal() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let stranger = bed.coordinator_with("ann", Arc::new(MemoryJournal::named("elsewhere")));
        let commits = bed.faults.commits();
        for refused in [
            try_stage(&bed, &stranger, "p").await.expect_err("foreign"),
            try_validate(&bed, &stranger, "p", contract()).await.expect_err("foreign"),
            stranger.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("foreign"),
            bed.abandon(&stranger, "p").await.expect_err("foreign"),
        ] {
            assert_eq!(refused.exit_code(), 13, "{refused}");
            assert!(refused.to_string().contains(&bed.journal.root()), "{refused}");
        }
        assert_eq!(bed.faults.commits(), commits);
        let found = bed.reconcile(&stranger, "p").await;
        assert!(!found.journal);
        assert!(matches!(found.finding.state, State::Sealed { sent: Sent::NoJournal, .. }), "{:?}", found.finding);
        let status = stranger.status(Some(&bed.table), None).await.expect("a status");
        assert_eq!(status.tables[0].publications[0].foreign_journal, Some(bed.journal.root()));
        // Once published, it is still told whose it was.
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        let status = stranger.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("a status");
        assert_eq!(status.tables[0].publications[0].foreign_journal, Some(bed.journal.root()));
        assert_eq!(bed.reconcile(&stranger, "p").await.exit_code(), 0);
    }
}

/// A journal inside the table would be taken by the engines' cleaning: nothing is begun with it.
#[tokio::test]
async fn a_journal_inside_the_table_is_refused() {
    let (bed, calve, _) = history(Kind::Embedded).await;
    let location = bed.catalog.load(&bed.table).await.expect("loaded").metadata.location().to_owned();
    let folder = std::path::PathBuf::from(location.trim_start_matches("file://")).join("journal");
    let inside = calve::journal::local::LocalJournal::open(folder).expect("opened");
    let other = bed.coordinator_with("ann", std::sync::Arc::new(inside));
    let commits = bed.faults.commits();
    let error = bed.try_begin(&other, "p", "day = '2013-08-09'").await.expect_err("refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    for word in ["inside the location", "--journal", "outside every table", "journal ="] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert_eq!(bed.faults.commits(), commits);
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
}
