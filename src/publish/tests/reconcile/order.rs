//! The order of the rows, what readers see, and the words for it all.

use super::*;

/// Where two rows fit, the earlier one wins. Each case says which two, and is built from the facts of both.
#[test]
fn the_first_row_that_fits_wins() {
    let other_table = |table: &mut Observed| table.uuid = TableUuid(Uuid::from_u128(78));
    let older = |table: &mut Observed| table.last_sequence_number = 0;
    let remembering = || {
        Log::sealed().event(Event::Decided {
            attempt: None,
            row: 6,
            state: String::new(),
            sequence_number: 1,
            main: None,
        })
    };
    let stray = |to: ObservedBuilder| to.snapshot(K2, Some(N), seal_summary(THEIRS, Some(N), &[])).main(K2).main(N);
    let with_stray_below = || ObservedBuilder::sealed().other(X, Some(K)).seal(K2, X, &[]).branch(audit(), K2);
    let cases: Vec<(u8, u8, ObservedBuilder)> = vec![
        (0, 1, ObservedBuilder::sealed().with(other_table).with(older)),
        (0, 2, ObservedBuilder::published().with(other_table)),
        (0, 5, ObservedBuilder::fenced().with(other_table)),
        (0, 12, ObservedBuilder::base().with(other_table)),
        (1, 2, ObservedBuilder::published().with(older)),
        (1, 3, ObservedBuilder::sealed().main(K).with(older)),
        (1, 5, ObservedBuilder::fenced().with(older)),
        (1, 6, ObservedBuilder::sealed().with(older)),
        (1, 11, ObservedBuilder::base().with(older)),
        (2, 3, ObservedBuilder::published()),
        (2, 3, ObservedBuilder::sealed().main(K).tag(published(), K)),
        (2, 4, stray(ObservedBuilder::published())),
        (2, 5, ObservedBuilder::published().tag(closed(), K)),
        (2, 6, ObservedBuilder::sealed().tag(published(), K)),
        (2, 7, ObservedBuilder::sealed().other(M, Some(N)).main(M).tag(published(), K)),
        (2, 9, ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X).tag(published(), K)),
        (2, 11, ObservedBuilder::published().unref(&audit())),
        (3, 4, with_stray_below().main(K2)),
        (3, 4, stray(ObservedBuilder::sealed()).main(K)),
        (3, 5, ObservedBuilder::fenced().main(K)),
        (3, 7, ObservedBuilder::sealed().main(K)),
        (3, 8, ObservedBuilder::staged().main(S)),
        (3, 9, ObservedBuilder::sealed().main(S).other(X, Some(K)).branch(audit(), X)),
        (3, 10, ObservedBuilder::published().unref(&published())),
        (3, 11, ObservedBuilder::published().unref(&published()).unref(&audit())),
        (4, 5, stray(ObservedBuilder::fenced())),
        (4, 6, with_stray_below()),
        (4, 7, with_stray_below().other(M, Some(N)).main(M)),
        (4, 8, stray(ObservedBuilder::staged())),
        (4, 9, with_stray_below().other(M, Some(K2)).branch(audit(), M)),
        (4, 10, stray(ObservedBuilder::begun()).tag(audit(), N)),
        (4, 11, stray(ObservedBuilder::begun()).unref(&audit())),
        (5, 6, ObservedBuilder::sealed().tag(closed(), K)),
        (5, 7, ObservedBuilder::sealed().tag(closed(), K).other(M, Some(N)).main(M)),
        (5, 8, ObservedBuilder::staged().tag(closed(), S)),
        (5, 9, ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X).tag(closed(), K)),
        (5, 9, ObservedBuilder::base().other(X, Some(N)).branch(audit(), X).tag(closed(), N)),
        (5, 10, ObservedBuilder::fenced()),
        (5, 11, ObservedBuilder::fenced().unref(&audit())),
        (5, 12, ObservedBuilder::base().tag(closed(), N)),
        (9, 11, ObservedBuilder::sealed().other(X, Some(N)).branch(audit(), X)),
        (10, 11, ObservedBuilder::sealed().tag(audit(), N)),
        (11, 12, ObservedBuilder::base()),
    ];
    for (number, (first, second, table)) in cases.into_iter().enumerate() {
        let found = state_with(table, &remembering());
        assert!(first < second);
        assert_eq!(found.row(), first, "case {number}: {first} before {second}: {found:?}");
    }
}

#[test]
fn visibility_follows_the_data() {
    let visibility = |observed: ObservedBuilder| match state(observed) {
        State::Published { visibility, .. } => visibility,
        other => panic!("{other:?}"),
    };
    let table = ObservedBuilder::published;
    assert_eq!(visibility(table()), Visibility::Visible);
    assert_eq!(visibility(table().other(M, Some(K)).main(M)), Visibility::Superseded);
    assert_eq!(visibility(table().main(N)), Visibility::RolledBack);
    assert_eq!(visibility(table().main(B)), Visibility::RolledBack);
    // Rolled back by timestamp to S: every row is still there.
    assert_eq!(visibility(table().main(S)), Visibility::Visible);
    assert_eq!(visibility(table().main(S).other(M, Some(S)).main(M)), Visibility::Superseded);
    // Another line of history that begins at N.
    assert_eq!(visibility(table().other(M, Some(N)).main(M)), Visibility::RolledBack);
    // Main's history was expired before it reaches K, or N.
    let ten_later = table().other(X, Some(K)).other(M, Some(X)).main(M).forget(X);
    assert_eq!(visibility(ten_later), Visibility::HistoryEnds);
    let longer = table().other(K2, Some(K)).other(X, Some(K2)).other(M, Some(X)).main(M).forget(K2);
    assert_eq!(visibility(longer), Visibility::HistoryEnds);
    // An expiry that also takes the parent's id out of the snapshots that it leaves.
    let cut = table().other(X, Some(K)).other(M, Some(X)).main(M).forget(X);
    let cut = cut.with(|table| table.snapshots.get_mut(&M).unwrap().parent = None);
    assert_eq!(visibility(cut), Visibility::HistoryEnds);
    // Main is gone.
    assert_eq!(visibility(table().unref(&crate::ids::RefName::main())), Visibility::RolledBack);
}

#[test]
fn a_cycle_in_damaged_metadata_ends() {
    let observed = ObservedBuilder::sealed().with(|table| table.snapshots.get_mut(&N).unwrap().parent = Some(K));
    let found = state(observed);
    assert_eq!(found.row(), 3, "{found:?}");
}

#[test]
fn words_are_those_of_the_journal() {
    let words: Vec<_> = [
        state(ObservedBuilder::published()),
        state(ObservedBuilder::sealed().main(K)),
        state(ObservedBuilder::fenced().main(K)),
        state(ObservedBuilder::published().unref(&published())),
        state(ObservedBuilder::base().tag(published(), N)),
        state(ObservedBuilder::fenced()),
        state(ObservedBuilder::sealed()),
        state_with(ObservedBuilder::sealed(), &Log::sealed().publish(K, Some(NOT_SENT()))),
        state_with(ObservedBuilder::sealed(), &Log::sealed().publish(K, Some(refused(409)))),
        state_with(ObservedBuilder::sealed(), &Log::sealed().publish(K, None)),
        state(ObservedBuilder::sealed().main(B)),
        state(ObservedBuilder::staged()),
        state(ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X)),
        state(ObservedBuilder::base().branch(audit(), N)),
        state(ObservedBuilder::base().tag(audit(), N)),
        state(ObservedBuilder::sealed().unref(&audit())),
        state(ObservedBuilder::base()),
    ]
    .iter()
    .map(|state| (state.row(), state.word()))
    .collect();
    assert_eq!(
        words,
        [
            (2, "published"),
            (3, "bypassed"),
            (3, "visible-after-fence"),
            (3, "receipt-removed"),
            (4, "ambiguous"),
            (5, "closed"),
            (6, "sealed"),
            (6, "rejected"),
            (6, "conflicted"),
            (6, "in-flight"),
            (7, "moved"),
            (8, "open"),
            (9, "subject-moved"),
            (9, "foreign"),
            (10, "consumed"),
            (11, "gone"),
            (12, "unknown"),
        ]
    );
}

#[test]
fn the_row_that_decides_is_in_the_json_form() {
    let found = find(ObservedBuilder::published(), &no_journal(), FilesLive::NotKnown);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["publication"], "repair-07");
    assert_eq!(json["state"], "published");
    assert_eq!(json["snapshot"], "40");
    assert_eq!(json["visibility"], "visible");
}
