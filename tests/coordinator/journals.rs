//! Journals that were cut short, damaged, restored from a backup, written by a newer calve, or are at odds with the table:
//! each ends in the right verdict or in an error that names both facts, and no row is lost or doubled.

use std::sync::Arc;

use async_trait::async_trait;
use calve::catalog::faults::Fault;
use calve::coordinator::{Coordinator, RecoverRequest, StageMode, Step, StepHook};
use calve::ids::Owner;
use calve::journal::codec;
use calve::journal::lease::{self, Keeper};
use calve::journal::log::Log;
use calve::journal::memory::{MemoryJournal, MemorySnapshot};
use calve::journal::record::{Event, Record, Verb};
use calve::journal::{Journal, LogKey};
use calve::publish::PublishOutcome;
use calve::publish::reconcile::{Sent, State};
use calve::publish::recover::Stands;
use calve::report::{RecoverDid, RecoverReport, Report};
use calve::testing::{Bed, contract};
use chrono::Duration;

use crate::support::{log_key, log_of, refs, with_memory};

const FENCE: RecoverRequest = RecoverRequest { table: None, fence: true, takeover: None, dry_run: false };

async fn recover(by: &Coordinator) -> RecoverReport {
    by.recover(&FENCE).await.expect("a report")
}

/// What became of the PUBLISH in the log that is then cut short; `None`: none was sent.
fn endings() -> Vec<Option<Fault>> {
    vec![
        None,
        Some(Fault::Pass),
        Some(Fault::LoseReply),
        Some(Fault::LoseRequest),
        Some(Fault::Hold),
        Some(Fault::Refuse { status: 403, message: "no".to_owned() }),
    ]
}

/// A journal of the same name with the first records of a log, and all statements.
async fn cut(journal: &MemoryJournal, key: &LogKey, records: &[Record]) -> Arc<MemoryJournal> {
    let short = MemoryJournal::named(journal.root());
    for record in records {
        let bytes = codec::encode("record", record).unwrap();
        short.plant(key, record.number, bytes);
    }
    for record in journal.read(key).await.unwrap() {
        if let Event::Intended { seal: Some(seal), .. } = record.event {
            let bytes = journal.statement(&seal.statement).await.unwrap().unwrap();
            let _stored = short.put_statement(&bytes).await.unwrap();
        }
    }
    Arc::new(short)
}

/// A log that lost its newest records, from none to all of them: what the table shows is told, nothing is fenced that is
/// sealed, and the same command again makes the change visible once, whatever of the earlier one is still on its way.
#[tokio::test]
async fn cut_short() {
    for ending in endings() {
        let mut kept = 0;
        loop {
            let context = format!("{ending:?}, {kept} records");
            let (bed, calve, journal, _) = with_memory().await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            if let Some(fault) = &ending {
                bed.faults.push(fault.clone());
                let _outcome = bed.publish(&calve, "p").await;
            }
            let visible = bed.main().await == Some(seal);
            let key = log_key(&bed, "p").await;
            let records = journal.read(&key).await.expect("a log");
            let short = bed.coordinator_with("ann", cut(&journal, &key, &records[..kept]).await);
            let found = bed.reconcile(&short, "p").await.finding.state;
            match &found {
                State::Published { snapshot, .. } => assert!(visible && *snapshot == seal, "{context}"),
                State::Sealed { sent, .. } => {
                    assert!(!visible, "{context}");
                    if kept == 0 {
                        assert_eq!(*sent, Sent::NoJournal, "{context}: that nothing is remembered is said");
                    }
                    let unseen = matches!(ending, Some(Fault::LoseRequest | Fault::Hold));
                    assert!(kept < records.len() || (*sent == Sent::InFlight) == unseen, "{context}: {sent:?}");
                }
                other => panic!("{context}: {other:?}"),
            }
            let report = recover(&short).await;
            assert!(report.problems.is_empty(), "{context}: {report:?}");
            for item in &report.publications {
                assert_ne!(item.did, RecoverDid::Fenced, "{context}: it is sealed");
                let unresolved = matches!(found, State::Sealed { sent: Sent::InFlight, .. });
                assert_eq!(item.stands == Some(Stands::Unresolved), unresolved, "{context}: {item:?}");
            }
            for _ in 0..2 {
                let report = bed.publish(&short, "p").await;
                assert!(matches!(report.outcome, PublishOutcome::Published { .. }), "{context}: {:?}", report.outcome);
            }
            while bed.faults.held() > 0 {
                let _late = bed.faults.release_held().await;
            }
            assert_eq!((bed.ids().await, bed.main().await), (vec![1, 2, 3, 4], Some(seal)), "{context}");
            assert_eq!(bed.reconcile(&calve, "p").await.row, 2, "{context}: by the whole log too");
            if kept == records.len() {
                break;
            }
            kept += 1;
        }
    }
}

/// Bytes in a record's place (`None`: it is gone), the record (0: the last), the exit code, and words of the message.
type Damage = (Option<fn(&[u8]) -> Vec<u8>>, u32, u8, &'static [&'static str]);

/// A damaged log is named, and hides no other: what can be looked after is.
#[tokio::test]
async fn damaged_beside_a_sound_one() {
    let newer: fn(&[u8]) -> Vec<u8> = |good| {
        let text = String::from_utf8(good.to_vec()).unwrap();
        text.replacen("\"format\":1", "\"format\":2", 1).replace("\"by\":", "\"author\":").into_bytes()
    };
    let cases: [Damage; 7] = [
        (None, 2, 1, &["00000002.json", "missing", "there is a record"]),
        (Some(|_| Vec::new()), 1, 1, &["00000001.json", "damaged"]),
        (Some(|good| good[..good.len() / 2].to_vec()), 3, 1, &["00000003.json", "damaged"]),
        (Some(|good| good[..good.len() / 2].to_vec()), 0, 1, &["damaged"]),
        (Some(|good| good[..good.len() - 2].to_vec()), 0, 1, &["damaged"]),
        (Some(|_| b"{\"format\":1}".to_vec()), 2, 1, &["00000002.json", "damaged"]),
        (Some(newer), 2, 13, &["00000002.json", "format 2", "newer calve"]),
    ];
    for (bytes, at, code, words) in cases {
        let (bed, calve, journal, _) = with_memory().await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.begin(&calve, "q", "day = '2013-08-10'").await;
        let key = log_key(&bed, "p").await;
        let records = journal.read(&key).await.expect("a log");
        let whole = journal.snapshot();
        let at = if at == 0 { records.len() as u32 } else { at };
        let damaged = match bytes {
            Some(bytes) => {
                let good = codec::encode("record", &records[at as usize - 1]).unwrap();
                journal.plant(&key, at, bytes(&good));
                journal.clone()
            }
            None => {
                let rest: Vec<_> = records.iter().filter(|record| record.number != at).cloned().collect();
                let short = cut(&journal, &key, &rest).await;
                let other = log_key(&bed, "q").await;
                for record in journal.read(&other).await.unwrap() {
                    short.plant(&other, record.number, codec::encode("record", &record).unwrap());
                }
                short
            }
        };
        let calve = bed.coordinator_with("ann", damaged);
        let before = refs(&bed).await;
        for error in [
            calve.reconcile(&bed.table, &bed.id("p")).await.expect_err("damaged"),
            calve.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("damaged"),
            bed.abandon(&calve, "p").await.expect_err("damaged"),
        ] {
            let text = error.to_string();
            assert_eq!(error.exit_code(), code, "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        assert_eq!(refs(&bed).await, before);
        let report = recover(&calve).await;
        let [problem] = &report.problems[..] else { panic!("{report:?}") };
        assert!(
            problem.publication == bed.id("p") && words.iter().all(|word| problem.error.contains(word)),
            "{problem:?}"
        );
        assert_eq!((report.exit_code(), report.publications.len()), (code, 1), "{report:?}");
        assert_eq!(report.publications[0].did, RecoverDid::Fenced, "the sound one is looked after");
        // Nothing is lost: with the record back all goes on.
        journal.restore(&whole);
        assert_eq!(bed.publish(&bed.coordinator_with("ann", journal), "p").await.exit_code(), 0);
    }
}

/// Records of a newer calve that can be read: told as the table shows it, and nothing is appended.
#[tokio::test]
async fn written_by_a_newer_calve() {
    for sealed in [false, true] {
        let (bed, calve, journal, _) = with_memory().await;
        if sealed {
            bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.faults.push(Fault::LoseRequest);
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
        } else {
            bed.begin(&calve, "p", "day = '2013-08-09'").await;
        }
        let key = log_key(&bed, "p").await;
        let records = journal.read(&key).await.expect("a log");
        let last = codec::encode("record", records.last().unwrap()).unwrap();
        let newer = String::from_utf8(last).unwrap().replacen("\"format\":1", "\"format\":9", 1);
        journal.plant(&key, records.len() as u32, newer);
        let report = recover(&calve).await;
        let [item] = &report.publications[..] else { panic!("{report:?}") };
        let (stands, code) = if sealed { (Stands::Unresolved, 20) } else { (Stands::Open, 0) };
        assert_eq!((item.stands, item.did, report.exit_code()), (Some(stands), RecoverDid::Nothing, code), "{item:?}");
        assert_eq!(journal.read(&key).await.expect("a log").len(), records.len());
        assert!(!refs(&bed).await.contains_key(&bed.id("p").closed_ref()));
    }
}

/// A backup is restored while a publication is on its way: what was tried since is forgotten, and its numbers are given
/// again. The table tells what became of it, and the change becomes visible once.
#[tokio::test]
async fn restored_from_a_backup() {
    for fault in endings().into_iter().flatten() {
        for by_recover in [false, true] {
            let context = format!("{fault:?}, recovered: {by_recover}");
            let (bed, calve, journal, _) = with_memory().await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            let backup = journal.snapshot();
            bed.faults.push(fault.clone());
            let first = bed.publish(&calve, "p").await.outcome;
            journal.restore(&backup);
            let visible = bed.main().await == Some(seal);
            let later = bed.coordinator_with("ann", journal.clone());
            if by_recover {
                let report = recover(&later).await;
                assert!(report.problems.is_empty() && report.exit_code() == 0, "{context}: {report:?}");
                assert!(report.publications.iter().all(|item| item.did != RecoverDid::Fenced), "{context}");
            }
            let row = bed.reconcile(&later, "p").await.row;
            assert_eq!(row, if visible { 2 } else { 6 }, "{context}");
            let again = bed.publish(&later, "p").await;
            assert_eq!(again.exit_code(), 0, "{context}: {first:?}, then {:?}", again.outcome);
            while bed.faults.held() > 0 {
                let _late = bed.faults.release_held().await;
            }
            assert_eq!(bed.ids().await, [1, 2, 3, 4], "{context}");
            assert_eq!(bed.reconcile(&later, "p").await.row, 2, "{context}");
        }
    }
}

/// Restores a backup between a commit and the record of its answer, and lets another take its numbers.
#[derive(Debug)]
struct Restore {
    journal: Arc<MemoryJournal>,
    key: LogKey,
    backup: MemorySnapshot,
    clock: Arc<calve::clock::ManualClock>,
    /// How many records another puts in their place.
    others: usize,
}

#[async_trait]
impl StepHook for Restore {
    async fn reached(&self, verb: Verb, step: Step) {
        if (verb, step) != (Verb::Publish, Step::Answered) {
            return;
        }
        self.journal.restore(&self.backup);
        let mut log = Log::open(self.journal.clone(), self.key.clone()).await.expect("a log");
        for _ in 0..self.others {
            let (bob, holder) = (Owner("bob".to_owned()), uuid::Uuid::from_u128(7));
            let keeper = Keeper::Process(None);
            let taken = lease::take(&mut log, self.clock.as_ref(), &bob, holder, &keeper, Duration::hours(1)).await;
            assert!(matches!(taken, Ok(lease::Taken::Ours(_))), "{taken:?}");
        }
    }
}

/// The same while a command is in the middle of it: it notices, says so, and tells what the table shows.
#[tokio::test]
async fn restored_while_in_use() {
    for others in [0, 1, 4] {
        let (bed, calve, journal, _) = with_memory().await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let (backup, key) = (journal.snapshot(), log_key(&bed, "p").await);
        let before = journal.read(&key).await.expect("a log").len();
        let hook = Restore { journal: journal.clone(), key: key.clone(), backup, clock: bed.clock.clone(), others };
        let calve = calve.with_steps(Arc::new(hook));
        let report = bed.publish(&calve, "p").await;
        assert_eq!(report.exit_code(), 0, "{others}: {:?}", report.outcome);
        let warned = report.warnings.join("; ");
        assert!(warned.contains("the reply could not be recorded") && warned.contains("p/"), "{others}: {warned}");
        assert_eq!(bed.main().await, Some(seal));
        // What others wrote is theirs, and the log is one that can be followed.
        let records = log_of(&bed, journal.as_ref(), "p").await;
        assert!(records.len() >= before + others, "{others}: {records:?}");
        assert!(records[before..].iter().take(others).all(|record| record.by.0 == "bob"), "{others}: {records:?}");
        assert_eq!(bed.reconcile(&bed.coordinator_with("ann", journal), "p").await.row, 2);
    }
}

/// A log in the place of another: copied within a table, or from another table.
#[tokio::test]
async fn copied_to_another_place() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.begin(&calve, "open", "day = '2013-08-10'").await;
    let copy = async |bed: &Bed, from: &LogKey, to: &LogKey| {
        for record in journal.read(from).await.unwrap() {
            journal.plant(to, record.number, codec::encode("record", &record).unwrap());
        }
        refs(bed).await
    };
    let p = log_key(&bed, "p").await;
    let q = LogKey { publication: bed.id("q"), ..p.clone() };
    let before = copy(&bed, &p, &q).await;
    let error = calve.reconcile(&bed.table, &bed.id("q")).await.expect_err("another's log");
    assert_eq!(error.exit_code(), 1);
    assert!(["opens p", "the log of q"].iter().all(|words| error.to_string().contains(words)), "{error}");
    let report = calve.recover(&RecoverRequest { fence: false, ..FENCE }).await.expect("a report");
    assert_eq!((report.exit_code(), report.problems.len(), report.publications.len()), (1, 1, 2), "{report:?}");
    assert_eq!(refs(&bed).await, before);

    // Under the identity of another table, whose history knows nothing of it.
    let elsewhere = calve::ids::TableUuid(uuid::Uuid::from_u128(5));
    for id in ["p", "open"] {
        let from = LogKey { publication: bed.id(id), ..p.clone() };
        let _refs = copy(&bed, &from, &LogKey { table: elsewhere, ..from.clone() }).await;
    }
    let report = recover(&calve).await;
    let gone = report.publications.iter().filter(|item| item.stands == Some(Stands::TableGone)).count();
    assert_eq!(gone, 2, "{report:?}");
    assert!(report.problems.len() == 1 && report.exit_code() == 1, "{report:?}");
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}

/// The catalog is older than the journal: nothing is fenced or recorded over, and a person is told both numbers.
#[tokio::test]
async fn ahead_of_the_catalog() {
    for published in [false, true] {
        let (bed, calve, journal, _) = with_memory().await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let fake = bed.fake.as_ref().expect("a fake catalog");
        let yesterday = bed.catalog.load(&bed.table).await.expect("the table").metadata;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        assert!(bed.validate(&calve, "p").await.passed);
        if published {
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        }
        fake.restore(&bed.table, yesterday);
        for _ in 0..2 {
            let report = recover(&calve).await;
            let [item] = &report.publications[..] else { panic!("{report:?}") };
            assert_eq!((item.stands, report.exit_code()), (Some(Stands::Escalate), 21), "{item:?}");
            assert_ne!(item.did, RecoverDid::Fenced);
            let State::Regressed { remembered, found } = item.finding.state else { panic!("{item:?}") };
            assert!(remembered > found, "{item:?}");
            let proof = item.finding.proof.join("; ");
            assert!([remembered, found].iter().all(|number| proof.contains(&number.to_string())), "{proof}");
        }
        assert_eq!(bed.ids().await, [1, 2, 3]);
        let _log = log_of(&bed, journal.as_ref(), "p").await;
    }
}
