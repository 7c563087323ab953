//! Rows 10 to 12: the branch is used up, gone, or never was.

use super::*;

#[test]
fn row_10_a_tombstone_alone_is_consumed() {
    for log in [
        Log::default(),
        Log::sealed().publish(K, Some(UNKNOWN())),
        Log::sealed().publish(K, Some(ReplyRecord::Accepted)),
    ] {
        assert_eq!(state_with(ObservedBuilder::sealed().tag(audit(), N), &log), State::Consumed);
    }
    assert_eq!(state(ObservedBuilder::base().tag(audit(), N)), State::Consumed);
    assert_eq!(state(ObservedBuilder::sealed().tag(audit(), K)), State::Consumed);
}

#[test]
fn row_11_without_refs_something_remembers_it() {
    // Its snapshots.
    assert_eq!(state(ObservedBuilder::sealed().unref(&audit())), State::Gone);
    assert_eq!(state(ObservedBuilder::begun().unref(&audit())), State::Gone);
    // The journal alone.
    assert_eq!(state_with(ObservedBuilder::base(), &Log::default().begin(OURS, B, UNKNOWN())), State::Gone);
    assert_eq!(state_with(ObservedBuilder::empty(), &Log::sealed()), State::Gone);
    let check = Log::default().event(Event::CheckFailed { head: S, statement: digest("s"), failed: vec![] });
    assert_eq!(state_with(ObservedBuilder::base(), &check), State::Gone);
}

#[test]
fn row_12_nothing_of_it_anywhere_is_unknown() {
    assert_eq!(state(ObservedBuilder::base()), State::Unknown);
    assert_eq!(state(ObservedBuilder::empty()), State::Unknown);
    let empty_log = Intent::empty(id(), Some(TABLE_UUID));
    assert_eq!(find(ObservedBuilder::base(), &empty_log, FilesLive::No).state, State::Unknown);
    // Another generation is another publication.
    let next = id().next_generation().unwrap();
    let intent = Intent::empty(next, None);
    for table in [ObservedBuilder::published(), ObservedBuilder::fenced(), ObservedBuilder::sealed()] {
        assert_eq!(find(table, &intent, FilesLive::NotKnown).state, State::Unknown);
    }
    let similar = Intent::empty("repair-0".parse::<PublicationId>().unwrap(), None);
    assert_eq!(find(ObservedBuilder::published(), &similar, FilesLive::NotKnown).state, State::Unknown);
}
