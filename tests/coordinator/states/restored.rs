//! Tables that were put back, and journals that remember more than the table shows.

use super::*;

/// Row 1: a restored backup.
#[tokio::test]
async fn regressed() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let sealed = bed.catalog.load(&bed.table).await.expect("the table").metadata;
    bed.begin(&calve, "q", "true").await;
    bed.abandon(&calve, "q").await.expect("fenced");
    bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 11);
    fake.restore(&bed.table, sealed);
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Regressed { .. }), "{:?}", found.finding);
    assert_eq!((found.row, found.exit_code()), (1, 21));
    let commits = bed.faults.commits();
    assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
    assert_eq!(bed.faults.commits(), commits, "frozen");
}
