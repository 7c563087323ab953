//! A table that is not there.

use super::*;

/// Row 0: renamed, dropped, dropped and created again.
#[tokio::test]
async fn a_lost_table() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.faults.push(Fault::Hold);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
    let moved: TableName = "lake.moved".parse().expect("a name");
    assert!(fake.rename(&bed.table, &moved));

    let found = bed.reconcile(&calve, "p").await;
    let State::Lost { renamed, .. } = &found.finding.state else { panic!("{:?}", found.finding) };
    assert_eq!((renamed.as_ref(), found.exit_code()), (Some(&moved), 20));
    assert!(found.next.iter().any(|next| next.contains("lake.moved")), "{:?}", found.next);
    let outcome = bed.publish(&calve, "p").await;
    assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::Lost, .. }), "{:?}", outcome.outcome);
    assert_eq!(bed.abandon(&calve, "p").await.expect_err("lost").exit_code(), 20);
    let status = calve.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("a status");
    assert!(matches!(status.tables[0].publications[0].finding.state, State::Lost { .. }));
    let review = calve.review(&bed.table, &bed.id("p"), None).await.expect("a review");
    assert_eq!(review.answers.len(), 9);

    // Under its new name everything is known, and one of two requests is applied.
    let here = calve.reconcile(&moved, &bed.id("p")).await.expect("found");
    assert!(matches!(here.finding.state, State::Sealed { sent: Sent::InFlight, .. }), "{:?}", here.finding);

    // Another table of the old name is never published to.
    let fields = bed.catalog.load(&moved).await.expect("the table").metadata.current_schema().as_ref().clone();
    let creation = iceberg::TableCreation::builder().name("days".to_owned()).schema(fields).build();
    bed.catalog.create(&bed.table, creation).await.expect("created again");
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(&found.finding.state, State::Lost { renamed: Some(name), .. } if *name == moved));
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
    assert!(bed.faults.release_held().await.is_some());
    assert_eq!(bed.main().await, None, "nothing of it in the new table");

    let published = calve.publish(&moved, &bed.id("p"), &contract()).await.expect("an outcome");
    assert_eq!(published.exit_code(), 0, "{:?}", published.outcome);
    assert!(fake.drop_table(&moved));
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Lost { renamed: None, .. }), "{:?}", found.finding);
    assert_eq!(found.exit_code(), 20);
}

/// A later generation of a plain id is followed to a lost table too.
#[tokio::test]
async fn a_lost_generation() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p~2", "true").await;
    let moved: TableName = "lake.moved".parse().expect("a name");
    assert!(bed.fake.as_ref().expect("the fake").rename(&bed.table, &moved));
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(&found.finding.state, State::Lost { renamed: Some(_), .. }), "{:?}", found.finding);
    assert_eq!(found.finding.publication, bed.id("p~2"));
}

/// A table that cannot be loaded for another reason is no verdict.
#[tokio::test]
async fn an_unreachable_catalog() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "true").await;
    let forbidden = || CatalogError::Forbidden { what: "lake.days".to_owned(), reason: "403".to_owned() };
    bed.faults.fail_load(forbidden());
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 20);
    bed.faults.fail_load(crate::support::unavailable());
    assert_eq!(calve.reconcile(&bed.table, &bed.id("p")).await.expect_err("no answer").exit_code(), 1);
}
