//! Row 4: a seal too many.

use super::*;

#[test]
fn row_4_a_seal_that_k_does_not_replace_is_ambiguous_on_the_branch() {
    let two =
        |replaces: &[SnapshotId]| ObservedBuilder::sealed().other(X, Some(K)).seal(K2, X, replaces).branch(audit(), K2);
    let found = state(two(&[]));
    assert!(matches!(&found, State::Ambiguous { snapshots, .. } if *snapshots == [K2, K]), "{found:?}");
    assert_eq!(found.row(), 4);
    assert!(is_ambiguous(&state(two(&[S, X]))));
    assert_eq!(state(two(&[K])), State::Sealed { seal: K2, sent: Sent::NoJournal });
    assert_eq!(state(two(&[S, K])), State::Sealed { seal: K2, sent: Sent::NoJournal });
    // The head above both.
    let above = |replaces: &[SnapshotId]| two(replaces).other(M, Some(K2)).branch(audit(), M);
    assert!(is_ambiguous(&state(above(&[]))));
    assert_eq!(state(above(&[K])), State::SubjectMoved { head: M, seal: K2 });
}

#[test]
fn row_4_a_seal_of_another_begin_in_mains_history_is_ambiguous() {
    let theirs = |to: ObservedBuilder| to.snapshot(K2, Some(N), seal_summary(THEIRS, Some(N), &[])).main(K2);
    for ours in [ObservedBuilder::sealed(), ObservedBuilder::begun()] {
        let found = state(theirs(ours));
        assert!(matches!(&found, State::Ambiguous { snapshots, .. } if snapshots.contains(&K2)), "{found:?}");
    }
    // Rolled back, and in the log only.
    assert!(is_ambiguous(&state(theirs(ObservedBuilder::sealed()).main(N))));
    // A seal of another publication is nobody's business here.
    let other = theirs(ObservedBuilder::sealed()).with(|table| {
        let seal = table.snapshots.get_mut(&K2).unwrap();
        seal.summary.insert(summary::PUBLISH_ID.to_owned(), "repair-07~2".to_owned());
    });
    assert_eq!(state(other).row(), 7);
}

#[test]
fn row_4_an_earlier_seal_beside_the_branch_is_not_ambiguous() {
    // Validated twice: both seals stand on S.
    let observed = ObservedBuilder::sealed().seal(K2, S, &[]).branch(audit(), K2);
    assert_eq!(state(observed), State::Sealed { seal: K2, sent: Sent::NoJournal });
}
