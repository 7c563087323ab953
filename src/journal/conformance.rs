//! What every [`Journal`] must do, as one suite that each implementation passes.
//!
//! A case that fails panics with its name. Each runs on a journal of its own, which holds nothing yet.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test suite reports by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Duration, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::codec;
use super::lease::{self, Keeper, LeaseState, Taken, UNTOLD_MARGIN};
use super::log::{Appended, Log};
use super::memory::MemoryJournal;
use super::process::Process;
use super::proof::RACERS;
use super::record::{CloseReason, Closing, Event, FORMAT, Record, ReplyRecord, TakenFrom, Verb, WrittenFile};
use super::{Journal, JournalError, LogKey, Put};
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, IdempotencyKey, Owner, PublicationId, RefName, SnapshotId, TableUuid};
use crate::publish::commits::Commit;

/// A journal to be tested, and a way to put bytes where it keeps a record or statement.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The journal, opened once more: each has to see what the others put.
    fn journal(&self) -> Arc<dyn Journal>;

    /// Does its store say when a record was stored?
    fn tells_times(&self) -> bool {
        true
    }

    /// Puts bytes where a record would be, whatever was there.
    async fn plant(&self, log: &LogKey, number: u32, bytes: &[u8]);

    /// Replaces the bytes under a statement's digest.
    async fn plant_statement(&self, digest: &Digest, bytes: &[u8]);
}

#[async_trait]
impl Subject for MemoryJournal {
    fn tells_times(&self) -> bool {
        false
    }

    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.clone())
    }

    async fn plant(&self, log: &LogKey, number: u32, bytes: &[u8]) {
        MemoryJournal::plant(self, log, number, bytes);
    }

    async fn plant_statement(&self, digest: &Digest, bytes: &[u8]) {
        MemoryJournal::plant_statement(self, *digest, bytes);
    }
}

type Case = for<'a> fn(&'a dyn Subject) -> BoxFuture<'a, ()>;

const CASES: &[(&str, Case)] = &[
    ("an_absent_log_is_empty", |subject| an_absent_log_is_empty(subject).boxed()),
    ("records_come_back_as_they_were", |subject| records_come_back_as_they_were(subject).boxed()),
    ("a_number_is_taken_once", |subject| a_number_is_taken_once(subject).boxed()),
    ("logs_are_apart", |subject| logs_are_apart(subject).boxed()),
    ("damage_and_gaps_are_named", |subject| damage_and_gaps_are_named(subject).boxed()),
    ("newer_records_are_read_and_never_followed", |subject| newer_records_are_read_and_never_followed(subject).boxed()),
    ("statements_are_kept_by_digest", |subject| statements_are_kept_by_digest(subject).boxed()),
    ("a_log_that_moved_on_is_read_again", |subject| a_log_that_moved_on_is_read_again(subject).boxed()),
    ("records_that_vanish_are_noticed", |subject| records_that_vanish_are_noticed(subject).boxed()),
    ("which_record_is_there", |subject| which_record_is_there(subject).boxed()),
    ("the_store_dates_records", |subject| the_store_dates_records(subject).boxed()),
    ("leases", |subject| leases(subject).boxed()),
    ("reservations", |subject| reservations(subject).boxed()),
    ("a_lease_ends_with_its_process", |subject| a_lease_ends_with_its_process(subject).boxed()),
    ("tasks_race_for_numbers", |subject| tasks_race_for_numbers(subject).boxed()),
    ("one_of_many_writers_wins", |subject| one_of_many_writers_wins(subject).boxed()),
];

/// Runs every case against what `make` makes, a fresh subject for each. Needs a tokio runtime of several threads.
pub async fn run<S: Subject, F: Future<Output = S>>(make: impl Fn() -> F) {
    for (name, case) in CASES {
        let subject = make().await;
        let outcome = std::panic::AssertUnwindSafe(case(&subject)).catch_unwind().await;
        if let Err(cause) = outcome {
            let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref().copied());
            panic!("the case {name} failed: {}", text.unwrap_or("it panicked"));
        }
    }
}

/// A log of that id in one table of one catalog, whose name holds what paths do not.
pub fn key(id: &str) -> LogKey {
    LogKey {
        catalog: CatalogIdentity("http://127.0.0.1:8181/a?b=../..".to_owned()),
        table: TableUuid(Uuid::from_u128(7)),
        publication: PublicationId::parse_any(id).unwrap(),
    }
}

/// A clock at one fixed moment.
pub fn clock(seed: u64) -> ManualClock {
    ManualClock::new("2013-08-09T00:00:00Z".parse::<DateTime<Utc>>().unwrap(), seed)
}

/// Who writes.
pub fn ann() -> Owner {
    Owner("ann@host".to_owned())
}

/// An event that bears a number.
pub fn reply(attempt: u32) -> Event {
    Event::Replied { attempt, reply: ReplyRecord::Refused { status: 409, message: "é \"quoted\"\n".to_owned() } }
}

/// A record of such an event.
pub fn record(number: u32, clock: &dyn Clock) -> Record {
    Record { format: FORMAT, number, id: clock.fresh_uuid(), at: clock.now(), by: ann(), event: reply(number) }
}

/// The numbers that the events bear.
pub fn attempts(records: &[Record]) -> Vec<u32> {
    let attempt = |record: &Record| match record.event {
        Event::Replied { attempt, .. } => attempt,
        _ => panic!("{record:?}"),
    };
    records.iter().map(attempt).collect()
}

async fn an_absent_log_is_empty(subject: &dyn Subject) {
    let journal = subject.journal();
    assert!(journal.read(&key("p")).await.unwrap().is_empty());
    assert!(journal.publications(&key("p").catalog, key("p").table).await.unwrap().is_empty());
    assert!(journal.tables(&key("p").catalog).await.unwrap().is_empty());
    assert!(journal.statement(&Digest::of_bytes(b"x")).await.unwrap().is_none());
}

async fn records_come_back_as_they_were(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    let requirement = serde_json::json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 9});
    let update = serde_json::json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
        "snapshot-id": i64::MAX, "max-ref-age-ms": i64::MAX});
    let snapshot = serde_json::json!({"action": "add-snapshot", "snapshot": {"snapshot-id": i64::MAX, "sequence-number": 3,
        "timestamp-ms": 1, "manifest-list": "s3://b/m.avro", "summary": {"operation": "replace", "calve.verdict": "pass"}}});
    let commit = Commit {
        table: "a.b.c".parse().unwrap(),
        requirements: vec![serde_json::from_value(requirement).unwrap()],
        updates: vec![serde_json::from_value(update).unwrap(), serde_json::from_value(snapshot).unwrap()],
        key: IdempotencyKey(Uuid::from_u128(5)),
    };
    let events = [
        Event::Intended {
            attempt: 1,
            verb: Verb::Publish,
            adds: vec![SnapshotId(i64::MAX)],
            sequence_number: 4,
            commit: Box::new(commit),
            opening: None,
            seal: None,
            closing: Some(Closing {
                why: CloseReason::Abandoned,
                reason: "x".to_owned(),
                fence: RefName("closed/p".to_owned()),
            }),
            files: vec![WrittenFile { path: "s3://b/ü.parquet".to_owned(), sha256: Digest::of_bytes(b"") }],
        },
        reply(1),
        Event::Replied { attempt: 2, reply: ReplyRecord::Accepted },
        Event::Decided {
            attempt: None,
            row: 6,
            state: "sealed".to_owned(),
            sequence_number: i64::MAX,
            main: Some(SnapshotId(i64::MAX)),
        },
        Event::CheckFailed { head: SnapshotId(1), statement: Digest::of_bytes(b"s"), failed: vec!["keys".to_owned()] },
        Event::LeaseTaken {
            until: clock.now(),
            sequence: 1,
            holder: Uuid::from_u128(3),
            process: Some(Process { place: "here".to_owned(), user: 0, number: 7, started: u64::MAX }),
            reserved: true,
            claim: true,
            from: Some(TakenFrom { holder: Uuid::from_u128(4), owner: ann() }),
        },
        Event::LeaseReleased { holder: Uuid::from_u128(3) },
    ];
    let mut log = Log::open(journal.clone(), key("p")).await.unwrap();
    for event in events {
        assert_eq!(log.append(event, &clock, &ann()).await.unwrap(), Appended::Won);
    }
    let again = Log::open(journal, key("p")).await.unwrap();
    let json = |log: &Log| serde_json::to_value(log.records()).unwrap();
    assert_eq!(json(&again), json(&log));
    assert_eq!(again.records().iter().map(|r| r.number).collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
    assert!(again.records().iter().all(|record| !matches!(record.event, Event::Unrecognised)));
}

async fn a_number_is_taken_once(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    let (first, second) = (record(1, &clock), record(1, &clock));
    assert_eq!(journal.put(&key("p"), &first).await.unwrap(), Put::Won);
    assert_eq!(journal.put(&key("p"), &second).await.unwrap(), Put::Taken);
    // The same record again was ours all along.
    assert_eq!(journal.put(&key("p"), &first).await.unwrap(), Put::Won);
    let read = journal.read(&key("p")).await.unwrap();
    assert_eq!(read.iter().map(|record| record.id).collect::<Vec<_>>(), [first.id]);
    // A record never leaves a gap behind it, and there is no record 0.
    for number in [0, 3] {
        let put = journal.put(&key("p"), &record(number, &clock)).await;
        assert!(matches!(put, Err(JournalError::Impossible { .. })), "{number}: {put:?}");
    }
}

async fn logs_are_apart(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    let ids = ["a", "a=b", "a@b", "a~2", "a~12", "manual__2013-08-09T00:00:00+00:00"];
    for id in ids {
        assert_eq!(journal.put(&key(id), &record(1, &clock)).await.unwrap(), Put::Won, "{id}");
    }
    let elsewhere = LogKey { catalog: CatalogIdentity("other".to_owned()), ..key("a") };
    assert!(journal.read(&elsewhere).await.unwrap().is_empty());
    let other_table = LogKey { table: TableUuid(Uuid::from_u128(1)), ..key("z") };
    assert_eq!(journal.put(&other_table, &record(1, &clock)).await.unwrap(), Put::Won);

    let mut expected: Vec<_> = ids.iter().map(|id| key(id).publication).collect();
    expected.sort();
    assert_eq!(journal.publications(&key("a").catalog, key("a").table).await.unwrap(), expected);
    assert_eq!(journal.tables(&key("a").catalog).await.unwrap(), [other_table.table, key("a").table]);
    assert!(journal.tables(&elsewhere.catalog).await.unwrap().is_empty());

    assert_eq!(journal.catalogs().await.unwrap(), [key("a").catalog]);
    assert_eq!(journal.put(&elsewhere, &record(1, &clock)).await.unwrap(), Put::Won);
    // A folder of statements is no catalog.
    drop(journal.put_statement(b"evidence").await.unwrap());
    assert_eq!(journal.catalogs().await.unwrap(), [key("a").catalog, elsewhere.catalog]);
}

async fn damage_and_gaps_are_named(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    let good = codec::encode("x", &record(1, &clock)).unwrap();
    for (id, number, bytes, named) in [
        ("empty", 1, &b""[..], 1),
        ("torn", 1, &good[..good.len() / 2], 1),
        ("gap", 3, &good[..], 2),
        ("renumbered", 2, &good[..], 2),
    ] {
        if number > 1 {
            assert_eq!(journal.put(&key(id), &record(1, &clock)).await.unwrap(), Put::Won);
        }
        subject.plant(&key(id), number, bytes).await;
        match journal.read(&key(id)).await {
            Err(JournalError::Damaged { path, .. }) => assert!(path.ends_with(&codec::record_name(named)), "{path}"),
            other => panic!("{id}: {other:?}"),
        }
    }
}

async fn newer_records_are_read_and_never_followed(subject: &dyn Subject) {
    let clock = clock(1);
    let event = |format: u32| {
        let id = clock.fresh_uuid();
        format!(
            r#"{{"format":{format},"number":1,"id":"{id}","at":"2030-01-01T00:00:00Z","by":"b","event":{{"event":"merged","of":[1]}}}}"#
        )
    };
    // A newer format, and a kind of event that this calve does not know.
    for (id, format) in [("newer", FORMAT + 1), ("unknown", FORMAT)] {
        subject.plant(&key(id), 1, event(format).as_bytes()).await;
        let mut log = Log::open(subject.journal(), key(id)).await.unwrap();
        assert!(matches!(log.records()[0].event, Event::Unrecognised));
        for _ in 0..2 {
            let refused = log.append(reply(1), &clock, &ann()).await;
            assert!(matches!(refused, Err(JournalError::Newer { found, .. }) if found == format), "{refused:?}");
        }
        assert!(log.append_always(reply(1), &clock, &ann()).await.is_err());
        assert!(
            lease::take(&mut log, &clock, &ann(), Uuid::from_u128(1), &PROCESS, lease::DEFAULT_DURATION).await.is_err()
        );
        assert_eq!(subject.journal().read(&key(id)).await.unwrap().len(), 1);
    }
}

async fn statements_are_kept_by_digest(subject: &dyn Subject) {
    let journal = subject.journal();
    let (digest, location) = journal.put_statement(b"{}").await.unwrap();
    assert_eq!(digest, Digest::of_bytes(b"{}"));
    assert!(location.starts_with(&journal.root()) && location.contains(&digest.hex()), "{location}");
    assert_eq!(journal.put_statement(b"{}").await.unwrap(), (digest, location.clone()));
    assert_eq!(journal.statement(&digest).await.unwrap().unwrap(), b"{}");

    subject.plant_statement(&digest, b"{ }").await;
    match journal.statement(&digest).await {
        Err(JournalError::Damaged { path, .. }) => assert_eq!(path, location),
        other => panic!("{other:?}"),
    }
    // Storing it again heals it: the bytes are proved by their name.
    assert_eq!(journal.put_statement(b"{}").await.unwrap().0, digest);
    assert_eq!(journal.statement(&digest).await.unwrap().unwrap(), b"{}");
}

async fn a_log_that_moved_on_is_read_again(subject: &dyn Subject) {
    let clock = clock(1);
    let mut ahead = Log::open(subject.journal(), key("p")).await.unwrap();
    let mut behind = ahead.clone();
    assert_eq!(ahead.append(reply(1), &clock, &ann()).await.unwrap(), Appended::Won);
    assert_eq!(ahead.append(reply(2), &clock, &ann()).await.unwrap(), Appended::Won);
    assert_eq!(behind.append(reply(9), &clock, &ann()).await.unwrap(), Appended::Behind);
    assert_eq!(attempts(behind.records()), [1, 2]);
    assert_eq!(behind.append(reply(3), &clock, &ann()).await.unwrap(), Appended::Won);
    // A fact goes to the next free number by itself.
    ahead.append_always(reply(4), &clock, &ann()).await.unwrap();
    assert_eq!(attempts(ahead.records()), [1, 2, 3, 4]);
    assert_eq!(attempts(&subject.journal().read(&key("p")).await.unwrap()), [1, 2, 3, 4]);
}

async fn records_that_vanish_are_noticed(subject: &dyn Subject) {
    let clock = clock(1);
    let mut log = Log::open(subject.journal(), key("p")).await.unwrap();
    log.append_always(reply(1), &clock, &ann()).await.unwrap();
    let other = codec::encode("x", &record(1, &clock)).unwrap();
    subject.plant(&key("p"), 1, &other).await;
    assert!(matches!(log.refresh().await, Err(JournalError::Damaged { .. })));
}

async fn which_record_is_there(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    let first = record(1, &clock);
    assert!(!journal.holds(&key("p"), 1, first.id).await.unwrap());
    assert_eq!(journal.put(&key("p"), &first).await.unwrap(), Put::Won);
    assert!(journal.holds(&key("p"), 1, first.id).await.unwrap());
    assert!(!journal.holds(&key("p"), 1, clock.fresh_uuid()).await.unwrap());
    assert!(!journal.holds(&key("p"), 2, first.id).await.unwrap());
    assert!(!journal.holds(&key("q"), 1, first.id).await.unwrap());
}

async fn the_store_dates_records(subject: &dyn Subject) {
    let (journal, clock) = (subject.journal(), clock(1));
    assert_eq!(journal.put(&key("p"), &record(1, &clock)).await.unwrap(), Put::Won);
    assert_eq!(journal.times(&key("p"), 1, &clock).await.unwrap(), None, "nothing is held against a simulated clock");
    assert_eq!(journal.times(&key("p"), 2, &SystemClock).await.unwrap(), None);
    let Some(times) = journal.times(&key("p"), 1, &SystemClock).await.unwrap() else {
        assert!(!subject.tells_times(), "when it was stored, and what time it is");
        return;
    };
    // Stores here run on this machine, and some date to the second.
    let near = |one: DateTime<Utc>, other| one.signed_duration_since(other).abs() < Duration::seconds(60);
    assert!(near(times.now, SystemClock.now()) && near(times.stored, times.now), "{times:?}");
    assert!(times.stored <= times.now + Duration::seconds(1), "{times:?}");
    // What it took to find out is no log and no catalog.
    assert_eq!(journal.catalogs().await.unwrap(), [key("p").catalog]);
}

/// A process that the system does not tell apart.
const PROCESS: Keeper = Keeper::Process(None);

async fn leases(subject: &dyn Subject) {
    let clock = clock(1);
    let (a, b) = (Uuid::from_u128(0xa), Uuid::from_u128(0xb));
    let bob = Owner("bob".to_owned());
    let hour = Duration::hours(1);
    let mut log = Log::open(subject.journal(), key("p")).await.unwrap();
    let mut behind = log.clone();

    let Taken::Ours(first) = lease::take(&mut log, &clock, &ann(), a, &PROCESS, hour).await.unwrap() else { panic!() };
    assert_eq!((first.sequence, first.until), (1, clock.now() + hour));
    // Another is refused, though it read the log before the lease was there; and by the same owner's name too.
    for owner in [&bob, &ann()] {
        let refused = lease::take(&mut behind, &clock, owner, b, &PROCESS, hour).await.unwrap();
        assert_eq!(refused, Taken::Held(first.clone()));
    }
    assert_eq!(behind.records().len(), 1);
    // The holder renews.
    clock.advance_ms(1_000);
    let Taken::Ours(second) = lease::take(&mut log, &clock, &ann(), a, &PROCESS, hour).await.unwrap() else { panic!() };
    assert_eq!((second.sequence, second.until), (2, clock.now() + hour));
    // What is not held cannot be given back.
    lease::release(&mut behind, &clock, &bob, b).await.unwrap();
    behind.refresh().await.unwrap();
    assert_eq!(LeaseState::of(behind.records()).lease, Some(second.clone()));
    // It is live for as long as its clock may be behind ours, and no longer.
    clock.advance_ms((hour + UNTOLD_MARGIN).num_milliseconds() - 1);
    assert_eq!(lease::take(&mut behind, &clock, &bob, b, &PROCESS, hour).await.unwrap(), Taken::Held(second));
    clock.advance_ms(1);
    let Taken::Ours(third) = lease::take(&mut behind, &clock, &bob, b, &PROCESS, hour).await.unwrap() else { panic!() };
    assert_eq!((third.sequence, third.holder, &third.owner), (3, b, &bob));
    // The one that lost it finds out, and its release changes nothing.
    assert_eq!(lease::take(&mut log, &clock, &ann(), a, &PROCESS, hour).await.unwrap(), Taken::Held(third.clone()));
    lease::release(&mut log, &clock, &ann(), a).await.unwrap();
    assert_eq!(LeaseState::of(log.records()).held_by_other(clock.now(), &ann(), a), Some(&third));
    // Given back, it is free at once; sequences go on.
    lease::release(&mut behind, &clock, &bob, b).await.unwrap();
    assert_eq!(LeaseState::of(behind.records()), LeaseState { sequence: 3, ..LeaseState::default() });
    let Taken::Ours(fourth) = lease::take(&mut log, &clock, &ann(), a, &PROCESS, Duration::MAX).await.unwrap() else {
        panic!()
    };
    assert_eq!(fourth.sequence, 4);
    assert!(fourth.may_be_live(DateTime::<Utc>::MAX_UTC));
}

async fn reservations(subject: &dyn Subject) {
    let clock = clock(1);
    let (a, b, c) = (Uuid::from_u128(0xa), Uuid::from_u128(0xb), Uuid::from_u128(0xc));
    let bob = Owner("bob".to_owned());
    let hour = Duration::hours(1);
    let mut log = Log::open(subject.journal(), key("p")).await.unwrap();
    let Taken::Ours(kept) = lease::take(&mut log, &clock, &ann(), a, &Keeper::Owner, hour).await.unwrap() else {
        panic!()
    };
    // Any process of the owner may work, one at a time; what it gives back is its own lease.
    let refused = Taken::Held(kept.clone());
    assert_eq!(lease::take(&mut log, &clock, &bob, c, &PROCESS, hour).await.unwrap(), refused);
    assert!(matches!(lease::take(&mut log, &clock, &ann(), b, &PROCESS, hour).await.unwrap(), Taken::Ours(_)));
    assert!(matches!(lease::take(&mut log, &clock, &ann(), c, &PROCESS, hour).await.unwrap(), Taken::Held(_)));
    lease::release(&mut log, &clock, &ann(), b).await.unwrap();
    assert_eq!(lease::take(&mut log, &clock, &bob, c, &PROCESS, hour).await.unwrap(), refused);
    assert_eq!(LeaseState::of(log.records()).live(clock.now()), Some(&kept));
    clock.advance_ms((hour + UNTOLD_MARGIN).num_milliseconds());
    assert!(matches!(lease::take(&mut log, &clock, &bob, c, &PROCESS, hour).await.unwrap(), Taken::Ours(_)));
}

async fn a_lease_ends_with_its_process(subject: &dyn Subject) {
    let clock = clock(1);
    let (a, b) = (Uuid::from_u128(0xa), Uuid::from_u128(0xb));
    let mut log = Log::open(subject.journal(), key("p")).await.unwrap();
    let Some(this) = Process::current() else { return };
    let ended = Process { started: this.started.wrapping_sub(1), ..this.clone() };
    let keeper = |process: &Process| Keeper::Process(Some(process.clone()));
    let day = lease::DEFAULT_DURATION;
    assert!(matches!(lease::take(&mut log, &clock, &ann(), a, &keeper(&ended), day).await.unwrap(), Taken::Ours(_)));
    assert!(matches!(lease::take(&mut log, &clock, &ann(), b, &keeper(&this), day).await.unwrap(), Taken::Ours(_)));
    assert!(matches!(lease::take(&mut log, &clock, &ann(), a, &PROCESS, day).await.unwrap(), Taken::Held(_)));
}

const WRITERS: u64 = 8;
/// How many facts each of them appends.
pub const EACH: u32 = 12;

/// Every number once, every fact of every writer once and in the writer's order.
pub fn check_race(records: &[Record], writers: u64, each: u32) {
    assert_eq!(records.len() as u64, writers * u64::from(each));
    assert!(records.iter().zip(1..).all(|(record, number)| record.number == number));
    assert_eq!(records.iter().map(|record| record.id).collect::<BTreeSet<_>>().len(), records.len());
    for writer in 0..writers {
        let own: Vec<_> = records.iter().filter(|record| record.by.0 == format!("writer {writer}")).cloned().collect();
        assert_eq!(attempts(&own), (1..=each).collect::<Vec<_>>(), "writer {writer}");
    }
}

/// Appends so many facts as one of several writers.
pub async fn write(journal: Arc<dyn Journal>, writer: u64, each: u32) {
    let (clock, by) = (clock(1_000 + writer), Owner(format!("writer {writer}")));
    let mut log = Log::open(journal, key("race")).await.unwrap();
    for attempt in 1..=each {
        log.append_always(reply(attempt), &clock, &by).await.unwrap();
    }
}

async fn tasks_race_for_numbers(subject: &dyn Subject) {
    let tasks: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(subject.journal(), writer, EACH))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    check_race(&subject.journal().read(&key("race")).await.unwrap(), WRITERS, EACH);
}

async fn one_of_many_writers_wins(subject: &dyn Subject) {
    let journal = subject.journal();
    let seen = journal.prove_put_if_absent(&clock(1)).await.unwrap();
    assert!(seen.holds(), "{seen:?}");
    assert!(seen.writers == RACERS + 1 || seen.writers == 2, "{seen:?}");
    // It leaves nothing that is taken for a log.
    assert!(journal.tables(&key("p").catalog).await.unwrap().is_empty());
}
