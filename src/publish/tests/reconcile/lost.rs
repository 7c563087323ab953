//! Rows 0 and 1: the table is not there, or not what it was.

use super::*;

#[test]
fn row_0_a_table_that_cannot_be_loaded_is_lost() {
    for renamed in [None, Some("shop.flights_old".parse().unwrap())] {
        let view = TableView::Missing { reason: "403".to_owned(), renamed: renamed.clone(), why: Absence::Missing };
        // Even with a journal that knows of an accepted publication.
        let intent = Log::sealed().publish(K, Some(ReplyRecord::Accepted)).intent();
        let found = reconcile(&intent, &view, FilesLive::Yes);
        assert_eq!(found.state, State::Lost { reason: "403".to_owned(), renamed, why: Absence::Missing });
        assert_eq!((found.state.row(), found.state.word()), (0, "lost"));
    }
}

#[test]
fn row_0_another_uuid_under_the_name_is_lost_whatever_it_shows() {
    let other = TableUuid(Uuid::from_u128(78));
    let observed = ObservedBuilder::published().with(|table| table.uuid = other);
    let lost = state_with(observed.clone(), &Log::sealed());
    assert!(matches!(lost, State::Lost { renamed: None, .. }), "{lost:?}");
    // Without a journal nothing else is known than what is there.
    assert_eq!(state(observed).row(), 2);
}

#[test]
fn row_1_a_table_older_than_remembered_has_regressed() {
    let log = Log::sealed().event(Event::Decided {
        attempt: None,
        row: 6,
        state: "sealed".to_owned(),
        sequence_number: 5,
        main: Some(N),
    });
    let at = |sequence| ObservedBuilder::published().with(move |table| table.last_sequence_number = sequence);
    assert_eq!(state_with(at(4), &log), State::Regressed { remembered: 5, found: 4 });
    assert_eq!(state_with(at(5), &log).row(), 2);
    assert_eq!(state_with(at(6), &log).row(), 2);
    // The sequence number that an attempt was planned from is remembered too.
    let mut records = Log::sealed().records;
    if let Event::Intended { sequence_number, .. } = &mut records[0].event {
        *sequence_number = 9;
    }
    let intent = Intent::fold(id(), TABLE_UUID, &records).unwrap();
    assert_eq!(find(at(8), &intent, FilesLive::NotKnown).state, State::Regressed { remembered: 9, found: 8 });
}
