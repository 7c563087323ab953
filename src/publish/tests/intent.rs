//! The fold of a log: each event in each state, and what damaged logs give.

use uuid::Uuid;

use crate::ids::SnapshotId;
use crate::journal::fold::FoldError;
use crate::journal::record::{CloseReason, Closing, Event, FORMAT, Record, ReplyRecord, Verb, WrittenFile};
use crate::publish::intent::Intent;
use crate::publish::testkit::*;

fn fold(records: &[Record]) -> Result<Intent, FoldError> {
    Intent::fold(id(), TABLE_UUID, records)
}

fn replied(attempt: u32, reply: ReplyRecord) -> Event {
    Event::Replied { attempt, reply }
}

/// What nobody saw the end of, until a row that is final was read.
#[test]
fn what_is_undecided() {
    let number = |log: Log| log.intent().undecided().map(|attempt| attempt.number);
    let unknown = || ReplyRecord::Unknown { reason: "timeout".to_owned() };
    let unsent = || ReplyRecord::NotSent { reason: "refused".to_owned() };
    let sealed = Log::sealed().intent().attempts.len();
    let next = u32::try_from(sealed).unwrap() + 1;
    assert_eq!(number(Log::sealed()), None);
    for (reply, open) in [
        (None, true),
        (Some(unknown()), true),
        (Some(ReplyRecord::Accepted), true),
        (Some(unsent()), false),
        (Some(refused(409)), false),
    ] {
        assert_eq!(number(Log::sealed().publish(K, reply.clone())), open.then_some(next), "{reply:?}");
    }
    let decided = |row| Event::Decided { attempt: None, row, state: "x".to_owned(), sequence_number: 0, main: None };
    for (row, decides) in [(2, true), (3, true), (5, true), (6, false), (7, false), (0, false)] {
        let log = Log::sealed().publish(K, Some(unknown())).event(decided(row));
        assert_eq!(number(log).is_none(), decides, "{row}");
        // And not what was sent after it.
        let later = Log::sealed().event(decided(row)).publish(K, Some(unknown()));
        assert_eq!(number(later), Some(next), "{row}");
    }
    assert_eq!(number(Log::default().begin(OURS, B, unknown())), Some(1));
    assert_eq!(number(Log::default().begin(OURS, B, unknown()).seal(K, S, ReplyRecord::Accepted)), None);
}

fn intended(attempt: u32) -> Event {
    let mut events = Log::default().publish(K, None).records;
    let Event::Intended { commit, verb, .. } = events.remove(0).event else { panic!() };
    Event::Intended {
        attempt,
        verb,
        adds: Vec::new(),
        sequence_number: 0,
        commit,
        opening: None,
        seal: None,
        closing: None,
        files: Vec::new(),
    }
}

fn decided(sequence_number: i64) -> Event {
    Event::Decided { attempt: None, row: 12, state: "unknown".to_owned(), sequence_number, main: None }
}

/// Events that may come at any time and change nothing that is decided from.
fn neutral() -> Vec<Event> {
    vec![
        Event::CheckFailed { head: S, statement: digest("s"), failed: vec!["keys".to_owned()] },
        Event::LeaseTaken {
            until: chrono::DateTime::UNIX_EPOCH,
            sequence: 1,
            holder: Uuid::from_u128(4),
            process: None,
            reserved: false,
            claim: false,
            from: None,
        },
        Event::LeaseReleased { holder: Uuid::from_u128(4) },
        decided(0),
    ]
}

#[test]
fn nothing_is_known_of_an_empty_log() {
    let intent = fold(&[]).unwrap();
    assert_eq!(intent.table, Some(TABLE_UUID));
    assert!(!intent.has_journal() && !intent.newer);
    assert_eq!((intent.next_attempt(), intent.records, intent.remembered_sequence_number), (1, 0, 0));
    assert_eq!(no_journal().table, None);
}

#[test]
fn an_attempt_goes_from_intended_to_replied() {
    let intent = fold(&Log::default().publish(K, None).records).unwrap();
    assert_eq!(intent.next_attempt(), 2);
    assert_eq!(intent.attempts[0].reply, None);
    let replies = [
        (ReplyRecord::Accepted, false, true),
        (NOT_SENT(), false, false),
        (refused(409), false, false),
        (refused(403), false, false),
        (UNKNOWN(), true, true),
    ];
    assert!(intent.attempts[0].is_open() && intent.attempts[0].may_be_applied());
    for (reply, open, applicable) in replies {
        let intent = fold(&Log::default().publish(K, Some(reply.clone())).records).unwrap();
        let attempt = &intent.attempts[0];
        assert_eq!((attempt.number, attempt.verb, attempt.reply.as_ref()), (1, Verb::Publish, Some(&reply)));
        assert_eq!((attempt.is_open(), attempt.may_be_applied()), (open, applicable), "{reply:?}");
        assert_eq!(intent.next_attempt(), 2);
    }
}

/// The state of a log as far as attempts go, against each event.
#[test]
fn each_event_in_each_state() {
    let states = [
        ("empty", Log::default()),
        ("intended", Log::default().publish(K, None)),
        ("replied", Log::default().publish(K, Some(UNKNOWN()))),
        ("replied, intended", Log::default().publish(K, Some(UNKNOWN())).publish(K, None)),
    ];
    for (state, log) in states {
        let attempts = fold(&log.records).unwrap().attempts.len() as u32;
        let last_open = fold(&log.records).unwrap().attempts.last().is_some_and(|last| last.reply.is_none());
        let result = |event: Event| fold(&log.clone().event(event).records).map(|intent| intent.attempts.len() as u32);
        // A new attempt takes the next number, also where the one before it has no reply.
        assert_eq!(result(intended(attempts + 1)), Ok(attempts + 1), "{state}");
        for wrong in [attempts, attempts + 2, 0] {
            let error = FoldError::Attempt { expected: attempts + 1, found: wrong };
            assert_eq!(result(intended(wrong)), Err(error), "{state}");
        }
        // A reply belongs to a known attempt, once.
        assert_eq!(result(replied(attempts + 1, UNKNOWN())), Err(FoldError::NoAttempt(attempts + 1)), "{state}");
        assert_eq!(result(replied(0, UNKNOWN())), Err(FoldError::NoAttempt(0)), "{state}");
        for attempt in 1..=attempts {
            let open = attempt == attempts && last_open;
            let expected = if open { Ok(attempts) } else { Err(FoldError::SecondReply(attempt)) };
            assert_eq!(result(replied(attempt, refused(409))), expected, "{state}");
        }
        for event in neutral() {
            assert_eq!(result(event), Ok(attempts), "{state}");
        }
        assert_eq!(result(Event::Unrecognised), Ok(attempts), "{state}");
    }
}

#[test]
fn a_reply_may_come_after_a_later_attempt() {
    let log = Log::default().publish(K, None).publish(K, Some(refused(409))).event(replied(1, UNKNOWN()));
    let intent = log.intent();
    assert_eq!(intent.attempts[0].reply, Some(UNKNOWN()));
    assert_eq!(intent.attempts[1].reply, Some(refused(409)));
}

#[test]
fn numbers_run_without_a_gap() {
    let records = Log::sealed().records;
    for missing in 0..records.len() - 1 {
        let mut broken = records.clone();
        broken.remove(missing);
        let expected = missing as u32 + 1;
        assert_eq!(fold(&broken).unwrap_err(), FoldError::Number { expected, found: expected + 1 });
    }
    let mut doubled = records.clone();
    doubled.insert(1, records[0].clone());
    assert_eq!(fold(&doubled).unwrap_err(), FoldError::Number { expected: 2, found: 1 });
}

#[test]
fn errors_name_the_record() {
    let message = |error: FoldError| error.to_string();
    assert_eq!(message(FoldError::Number { expected: 2, found: 4 }), "record 4 stands where 2 was expected");
    assert_eq!(message(FoldError::Attempt { expected: 2, found: 4 }), "attempt 4 stands where 2 was expected");
    assert_eq!(message(FoldError::NoAttempt(3)), "a reply to attempt 3, which was never recorded");
    let (expected, found) = (id(), "other".parse().unwrap());
    let foreign = FoldError::Foreign { number: 1, expected, found };
    assert_eq!(message(foreign), "record 1 opens other, and this is the log of repair-07: it was copied or moved here");
    assert_eq!(message(FoldError::SecondReply(3)), "a second reply to attempt 3");
}

#[test]
fn what_commits_fixed_is_kept_in_order() {
    let closing = Closing { why: CloseReason::Abandoned, reason: "late".to_owned(), fence: closed() };
    let mut log = Log::default().begin(OURS, B, refused(409)).begin(THEIRS, X, ReplyRecord::Accepted);
    log = log.seal(K, S, UNKNOWN()).seal(K2, S, ReplyRecord::Accepted);
    let fence = publish_of(&ObservedBuilder::sealed().build(), K);
    log = log.attempt(Verb::Fence, fence, (None, None, Some(closing.clone())), None);
    let mut records = log.records;
    let file = WrittenFile { path: "data/a.parquet".to_owned(), sha256: digest("a") };
    if let Event::Intended { files, .. } = &mut records[0].event {
        files.push(file.clone());
    }
    let intent = fold(&records).unwrap();
    assert_eq!(intent.openings.iter().map(|opening| opening.marker).collect::<Vec<_>>(), [B, X]);
    assert_eq!(intent.seals.iter().map(|seal| seal.seal).collect::<Vec<_>>(), [K, K2]);
    assert_eq!((intent.closings, intent.files), (vec![closing], vec![file]));
    assert_eq!(
        intent.attempts.iter().map(|a| a.adds.clone()).collect::<Vec<_>>(),
        [vec![B], vec![X], vec![K], vec![K2], vec![]]
    );
    assert_eq!((intent.records, intent.attempts.len()), (9, 5));
}

#[test]
fn openings_and_seals_are_found_by_what_they_fixed() {
    let log = Log::default().begin(OURS, B, refused(409)).begin(THEIRS, X, ReplyRecord::Accepted).seal(K, S, UNKNOWN());
    let intent = log.intent();
    assert_eq!(intent.opening(OURS).unwrap().marker, B);
    assert_eq!(intent.opening(THEIRS).unwrap().marker, X);
    assert!(intent.opening(crate::ids::Incarnation(Uuid::from_u128(3))).is_none());
    assert_eq!(intent.seal(K).unwrap().data, S);
    assert!(intent.seal(K2).is_none());
    // The newest record of one seal.
    let intent = log.seal(K, M, UNKNOWN()).intent();
    assert_eq!(intent.seal(K).unwrap().data, M);
}

#[test]
fn attempts_are_told_apart_by_where_they_move_main() {
    let intent = Log::sealed().publish(K, None).publish(K2, Some(refused(409))).publish(K, None).intent();
    let numbers = |seal| intent.publish_attempts(seal).map(|attempt| attempt.number).collect::<Vec<_>>();
    assert_eq!((numbers(K), numbers(K2), numbers(S)), (vec![3, 5], vec![4], vec![]));
}

#[test]
fn settlements_are_known_by_their_receipts() {
    let intent = Log::sealed().settle(S, UNKNOWN()).publish(K, None).settle(X, refused(409)).intent();
    assert_eq!(intent.settled().collect::<Vec<SnapshotId>>(), [S, X]);
    assert_eq!(Log::sealed().publish(K, None).intent().settled().count(), 0);
}

#[test]
fn the_highest_sequence_number_is_remembered() {
    let log = Log::default().event(decided(4)).event(decided(9)).event(decided(3));
    assert_eq!(log.intent().remembered_sequence_number, 9);
}

#[test]
fn a_newer_record_is_read_and_remembered_as_such() {
    let mut records = Log::sealed().records;
    assert!(!fold(&records).unwrap().newer);
    records[1].format = FORMAT + 1;
    assert!(fold(&records).unwrap().newer);
    assert!(fold(&Log::sealed().event(Event::Unrecognised).event(decided(1)).records).unwrap().newer);
}
