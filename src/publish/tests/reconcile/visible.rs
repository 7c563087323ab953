//! Row 3: main reached the candidate, and there is no receipt.

use super::*;

#[test]
fn row_3_main_at_the_candidate_while_the_branch_stands_is_bypassed() {
    for sealed in [ObservedBuilder::sealed(), ObservedBuilder::written_and_sealed()] {
        for at in [S, K] {
            let found = state(sealed.clone().main(at));
            let visibility = Visibility::Visible;
            assert_eq!(found, State::Bypassed { snapshot: Some(at), sealed: true, visibility, head: K });
        }
    }
    for unsealed in [ObservedBuilder::staged(), ObservedBuilder::written()] {
        let visibility = Visibility::Visible;
        let found = state(unsealed.main(S));
        assert_eq!(found, State::Bypassed { snapshot: Some(S), sealed: false, visibility, head: S });
    }
}

#[test]
fn row_3_an_engines_child_of_the_seal_is_not_covered_by_it() {
    let observed = ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X).main(X);
    let expected = State::Bypassed { snapshot: Some(X), sealed: false, visibility: Visibility::Visible, head: X };
    assert_eq!(state(observed), expected);
}

#[test]
fn row_3_below_other_writers_it_is_superseded_and_named() {
    let observed = ObservedBuilder::sealed().main(K).other(M, Some(K)).main(M);
    let expected = State::Bypassed { snapshot: Some(K), sealed: true, visibility: Visibility::Superseded, head: K };
    assert_eq!(state(observed), expected);
}

#[test]
fn row_3_the_log_alone_shows_it_too() {
    // An engine moved main to K, and it was rolled back.
    let observed = ObservedBuilder::sealed().main(K).main(N);
    let expected = State::Bypassed { snapshot: Some(K), sealed: true, visibility: Visibility::RolledBack, head: K };
    assert_eq!(state(observed), expected);
    // An ancestor of a logged snapshot, which main itself was never at.
    let observed = ObservedBuilder::written().other(M, Some(S)).main(M).main(N);
    let expected = State::Bypassed { snapshot: Some(S), sealed: false, visibility: Visibility::RolledBack, head: S };
    assert_eq!(state(observed), expected);
}

#[test]
fn row_3_what_main_shows_comes_before_what_it_was_rolled_back_from() {
    let observed = ObservedBuilder::sealed().main(K).main(S);
    let expected = State::Bypassed { snapshot: Some(S), sealed: true, visibility: Visibility::Visible, head: K };
    assert_eq!(state(observed), expected);
    let observed = ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X).main(X).main(K);
    let expected = State::Bypassed { snapshot: Some(K), sealed: true, visibility: Visibility::Visible, head: X };
    assert_eq!(state(observed), expected);
}

#[test]
fn row_3_files_alone_show_it() {
    // S was made visible, superseded, and then expired by id: its files are still live.
    let observed = ObservedBuilder::sealed().other(M, Some(N)).main(M);
    let found = find(observed.clone(), &no_journal(), FilesLive::Yes);
    let expected = State::Bypassed { snapshot: None, sealed: false, visibility: Visibility::Superseded, head: K };
    assert_eq!(found.state, expected);
    assert!(found.proof.iter().any(|line| line.contains("files that this candidate added are live in main")));
    for files in [FilesLive::No, FilesLive::NotKnown] {
        assert_eq!(find(observed.clone(), &no_journal(), files).state.row(), 7);
    }
}

#[test]
fn row_3_what_the_journal_knows_counts_although_it_was_expired() {
    let observed = ObservedBuilder::base().main(S).main(N).tag(audit(), N);
    assert_eq!(state(observed.clone()), State::Consumed);
    let found = state_with(observed, &Log::sealed());
    assert!(matches!(found, State::ReceiptRemoved { snapshot: Some(S), .. }), "{found:?}");
}

#[test]
fn row_3_a_recorded_seal_covers_only_if_it_was_seen() {
    // The SEAL never landed; an engine moved main to S.
    let observed = || ObservedBuilder::staged().main(S);
    let log = || Log::default().begin(OURS, B, ReplyRecord::Accepted);
    let sealed = |log: &Log| match state_with(observed(), log) {
        State::Bypassed { sealed, .. } => sealed,
        other => panic!("{other:?}"),
    };
    assert!(!sealed(&log().seal(K, S, refused(409))));
    assert!(!sealed(&log().seal(K, S, UNKNOWN())));
    // Its publication was tried, so that it was in the table; by now it was expired.
    assert!(sealed(&log().seal(K, S, UNKNOWN()).publish(K, Some(refused(403)))));
    // The seal of other data says nothing.
    assert!(!sealed(&log().seal(K, X, UNKNOWN()).publish(K, Some(refused(403)))));
}

#[test]
fn row_3_visible_after_a_fence_is_said_and_never_closed() {
    for fenced in [
        ObservedBuilder::fenced(),
        ObservedBuilder::fenced().unref(&audit()),
        ObservedBuilder::sealed().tag(closed(), K),
    ] {
        let found = state(fenced.main(K));
        assert_eq!(found, State::VisibleAfterFence { snapshot: Some(K), visibility: Visibility::Visible });
    }
    let found = find(ObservedBuilder::fenced(), &no_journal(), FilesLive::Yes).state;
    assert_eq!(found, State::VisibleAfterFence { snapshot: None, visibility: Visibility::Superseded });
}

#[test]
fn row_3_visible_after_a_fence_also_where_an_engine_wrote_it() {
    // Only the fence still names the head: nothing in its summary says whose it is.
    let observed = ObservedBuilder::written().tag(closed(), S).tag(audit(), N).main(S);
    let found = state(observed.clone());
    assert_eq!(found, State::VisibleAfterFence { snapshot: Some(S), visibility: Visibility::Visible });
    let found = state(observed.unref(&audit()));
    assert_eq!(found, State::VisibleAfterFence { snapshot: Some(S), visibility: Visibility::Visible });
}

#[test]
fn row_3_main_beside_a_fence_of_an_absent_branch_is_no_publication() {
    // Main was moved to B, another writer went on, the branch was deleted, and the fence stands on main as read.
    let observed = ObservedBuilder::begun().main(B).other(M, Some(B)).main(M).unref(&audit());
    let fence = on(&observed.0, |target| commits::fence_absent(target, None)).unwrap();
    let fenced = ObservedBuilder(apply(&observed.0, &fence).unwrap());
    assert_eq!(state(fenced), State::Closed);
}

#[test]
fn row_3_without_branch_and_fence_the_receipt_was_removed() {
    let expected = |sealed, snapshot| State::ReceiptRemoved { snapshot, sealed, visibility: Visibility::Visible };
    assert_eq!(state(ObservedBuilder::published().unref(&published())), expected(true, Some(K)));
    assert_eq!(state(ObservedBuilder::published().unref(&published()).unref(&audit())), expected(true, Some(K)));
    let engine = ObservedBuilder::published().unref(&published()).other(X, Some(K)).main(X);
    assert_eq!(
        state(engine),
        State::ReceiptRemoved { snapshot: Some(K), sealed: true, visibility: Visibility::Superseded }
    );
    let unsealed = ObservedBuilder::staged().main(S).tag(audit(), N);
    assert_eq!(state(unsealed), expected(false, Some(S)));
}

#[test]
fn row_3_the_marker_alone_is_no_publication() {
    assert_eq!(state(ObservedBuilder::begun().main(B)), State::Open { head: B, marker: B });
    assert_eq!(state(ObservedBuilder::staged().main(B)), State::Open { head: S, marker: B });
    assert_eq!(state(ObservedBuilder::sealed().main(B)).row(), 7);
    // Nor is what another writer put on it in main.
    assert_eq!(state(ObservedBuilder::staged().main(B).other(M, Some(B)).main(M)).row(), 8);
    // Nor a seal recorded of a candidate without data.
    let log = Log::default().begin(OURS, B, ReplyRecord::Accepted).seal(K, B, UNKNOWN());
    assert_eq!(state_with(ObservedBuilder::begun().main(B), &log).row(), 8);
}

#[test]
fn row_3_a_loser_of_begin_reads_the_winners_publication() {
    // Another machine's BEGIN was recorded in its own journal, lost, and never came into the table.
    let log = Log::default().begin(THEIRS, SnapshotId(21), refused(409));
    assert_eq!(state_with(ObservedBuilder::published(), &log).row(), 2);
    let found = state_with(ObservedBuilder::published().unref(&published()), &log);
    assert!(matches!(found, State::ReceiptRemoved { snapshot: Some(K), sealed: true, .. }), "{found:?}");
}

#[test]
fn row_3_an_expired_marker_is_known_by_the_journal() {
    let log = Log::default().begin(OURS, B, ReplyRecord::Accepted);
    let written = || ObservedBuilder::written().forget(B);
    assert_eq!(state(written()), State::Foreign { head: S });
    assert_eq!(state_with(written(), &log), State::Open { head: S, marker: B });
    let found = state_with(written().main(S), &log);
    assert!(matches!(found, State::Bypassed { snapshot: Some(S), .. }), "{found:?}");
    // Another's BEGIN under the same id is not ours.
    let theirs = Log::default().begin(OURS, B, refused(409)).begin(THEIRS, SnapshotId(21), refused(409));
    let above_theirs = ObservedBuilder::base().other(S, Some(SnapshotId(21))).branch(audit(), S);
    assert_eq!(state_with(above_theirs, &theirs).row(), 8);
}
