//! Row 2: the receipt.

use super::*;

#[test]
fn row_2_the_receipt_at_a_seal_of_this_id_is_published() {
    let expected = State::Published { snapshot: K, sealed: true, visibility: Visibility::Visible };
    assert_eq!(state(ObservedBuilder::published()), expected);
    assert_eq!(state_with(ObservedBuilder::published(), &Log::sealed()), expected);
    // The tombstone alone may be deleted.
    assert_eq!(state(ObservedBuilder::published().unref(&audit())), expected);
    // Whatever the recorded replies say.
    for reply in [None, Some(NOT_SENT()), Some(UNKNOWN()), Some(refused(409)), Some(refused(403))] {
        assert_eq!(state_with(ObservedBuilder::published(), &Log::sealed().publish(K, reply)), expected);
    }
}

#[test]
fn row_2_any_seal_of_this_id_will_do_also_an_earlier_one() {
    // Two seals, the first one's publication landed, the second was sent later.
    let observed = ObservedBuilder::sealed().seal(K2, S, &[K]).main(K).tag(published(), K).tag(audit(), N);
    let log =
        Log::sealed().seal(K2, S, ReplyRecord::Accepted).publish(K, Some(UNKNOWN())).publish(K2, Some(refused(409)));
    let expected = State::Published { snapshot: K, sealed: true, visibility: Visibility::Visible };
    assert_eq!(state_with(observed.clone(), &log), expected);
    assert_eq!(state(observed), expected);
}

#[test]
fn row_2_a_receipt_elsewhere_is_ambiguous() {
    let receipt_at = |at| ObservedBuilder::sealed().other(M, Some(N)).main(M).tag(published(), at).tag(audit(), N);
    for at in [N, B, S, M] {
        let found = state(receipt_at(at));
        assert!(matches!(&found, State::Ambiguous { snapshots, .. } if *snapshots == [at]), "{at}: {found:?}");
        assert!(is_ambiguous(&state_with(receipt_at(at), &Log::sealed())), "{at}");
    }
    // A seal of another publication's.
    let observed = ObservedBuilder::published().with(|table| {
        let seal = table.snapshots.get_mut(&K).unwrap();
        seal.summary.insert(summary::PUBLISH_ID.to_owned(), "repair-08".to_owned());
    });
    assert!(is_ambiguous(&state(observed)));
}

#[test]
fn row_2_what_settle_recorded_counts_although_unsealed() {
    let settled = |at| ObservedBuilder::staged().main(at).tag(published(), at).tag(audit(), N);
    let log = Log::default().begin(OURS, B, ReplyRecord::Accepted).settle(S, UNKNOWN());
    let expected = State::Published { snapshot: S, sealed: false, visibility: Visibility::Visible };
    assert_eq!(state_with(settled(S), &log), expected);
    // Recorded for another snapshot, or of a snapshot that is not the candidate's: no.
    assert!(is_ambiguous(&state_with(settled(S), &Log::sealed().settle(K, UNKNOWN()))));
    assert!(is_ambiguous(&state_with(settled(N), &Log::sealed().settle(N, UNKNOWN()))));
    // Below a seal, evidence covers it.
    let sealed = ObservedBuilder::sealed().main(S).tag(published(), S).tag(audit(), N);
    let expected = State::Published { snapshot: S, sealed: true, visibility: Visibility::Visible };
    assert_eq!(state_with(sealed, &Log::sealed().settle(S, UNKNOWN())), expected);
}

#[test]
fn row_2_what_settle_recorded_counts_although_an_engine_wrote_it() {
    // Nothing in the summary of S says whose it is, and the branch is gone: the receipt names it, above B.
    let settled = ObservedBuilder::written().main(S).tag(published(), S).tag(audit(), N);
    let log = Log::default().begin(OURS, B, ReplyRecord::Accepted).settle(S, ReplyRecord::Accepted);
    let expected = State::Published { snapshot: S, sealed: false, visibility: Visibility::Visible };
    assert_eq!(state_with(settled, &log), expected);
    // Above the seal.
    let settled = ObservedBuilder::sealed().other(X, Some(K)).main(X).tag(published(), X).tag(audit(), N);
    let expected = State::Published { snapshot: X, sealed: false, visibility: Visibility::Visible };
    assert_eq!(state_with(settled, &Log::sealed().settle(X, UNKNOWN())), expected);
}

#[test]
fn row_2_files_alone_show_that_a_publication_is_visible() {
    // An engine took the files of a candidate into a snapshot of its own; the receipt that SETTLE left stands on the seal.
    let observed = ObservedBuilder::published().main(N).other(M, Some(N)).main(M);
    let visibility = |files| match find(observed.clone(), &no_journal(), files).state {
        State::Published { visibility, .. } => visibility,
        other => panic!("{other:?}"),
    };
    assert_eq!(visibility(FilesLive::Yes), Visibility::Superseded);
    for files in [FilesLive::No, FilesLive::NotKnown] {
        assert_eq!(visibility(files), Visibility::RolledBack);
    }
}
