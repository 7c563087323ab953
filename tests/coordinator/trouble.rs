//! Journals that cannot be written, tables that cannot be read, and answers that do not come.

use std::sync::Arc;

use calve::catalog::Catalog;
use calve::catalog::faults::Fault;
use calve::coordinator::{BeginRequest, StageMode};
use calve::ids::Owner;
use calve::journal::memory::{FailPut, MemoryJournal};
use calve::publish::PublishOutcome;
use calve::publish::outcome::{Cause, Via};
use calve::publish::reconcile::{State, Visibility};
use calve::report::Report;
use calve::testing::{KINDS, Kind, contract};
use chrono::Duration;

use crate::states::{try_stage, try_validate};
use crate::support::{Altered, NoStatements, history, load, log_key, log_of, refs, unavailable, with_memory};

/// If the intent cannot be written, nothing is sent.
#[tokio::test]
async fn no_intent_no_effect() {
    for when in [FailPut::Before, FailPut::AfterApplying] {
        let (bed, calve, journal, base) = with_memory().await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let commits = bed.faults.commits();
        // The log puts a record that failed once more, so both have to fail.
        journal.fail_next_puts(2, when);
        let error = calve.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("nothing was sent");
        assert_eq!(error.exit_code(), 1, "{error}");
        assert_eq!((bed.faults.commits(), bed.main().await), (commits, Some(base)));
        let report = bed.publish(&calve, "p").await;
        assert_eq!(report.exit_code(), 0, "{when:?}: {:?}", report.outcome);
        assert_eq!(bed.main().await, Some(seal));
    }
}

/// After an accepted commit a journal that fails is a warning: at the reply, and at the verdict.
#[tokio::test]
async fn a_journal_that_fails_after_the_commit() {
    for when in [FailPut::Before, FailPut::AfterApplying] {
        for fault in [Fault::Pass, Fault::LoseReply, Fault::Duplicate] {
            let (bed, calve, journal, _) = with_memory().await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.faults.push(fault.clone());
            let full = journal.clone();
            bed.faults.before_commit(move || async move { full.fail_next_puts(1_000, when) });
            let report = bed.publish(&calve, "p").await;
            assert_eq!(report.exit_code(), 0, "{when:?} {fault:?}: {:?}", report.outcome);
            assert!(!report.warnings.is_empty());
            assert_eq!(bed.main().await, Some(seal));
            journal.fail_next_puts(0, when);
            let found = bed.reconcile(&calve, "p").await;
            assert!(matches!(found.finding.state, State::Published { visibility: Visibility::Visible, .. }));
            assert_eq!(found.exit_code(), 0);
        }
    }
}

/// The same for every other commit: accepted is accepted.
#[tokio::test]
async fn other_verbs_whose_journal_fails_after_the_commit() {
    let (bed, calve, journal, _) = with_memory().await;
    let fail = || {
        let full = journal.clone();
        bed.faults.before_commit(move || async move { full.fail_next_puts(1_000, FailPut::Before) });
    };
    let heal = || journal.fail_next_puts(0, FailPut::Before);
    fail();
    let request = BeginRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        scope: Some("day = '2013-08-09'".to_owned()),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: Some(Duration::hours(1)),
    };
    let begun = calve.begin(&request).await.expect("begun");
    assert!(begun.warnings.iter().any(|warning| warning.contains("lease")), "{:?}", begun.warnings);
    heal();
    fail();
    let staged = bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await;
    assert!(!staged.warnings.is_empty());
    heal();
    fail();
    let sealed = bed.validate(&calve, "p").await;
    assert!(sealed.seal.is_some() && !sealed.warnings.is_empty());
    heal();
    fail();
    let report = bed.abandon(&calve, "p").await.expect("fenced");
    assert_eq!((report.exit_code(), report.finding.state), (0, State::Closed));
    heal();
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 14);
}

/// The statement has to be durable before the seal.
#[tokio::test]
async fn no_statement_no_seal() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let staged = bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await.snapshot;
    let commits = bed.faults.commits();
    let failing = bed.coordinator_with("ann", Arc::new(NoStatements(journal)));
    let error = try_validate(&bed, &failing, "p", contract()).await.expect_err("no statement");
    assert_eq!(error.exit_code(), 1, "{error}");
    assert_eq!(bed.faults.commits(), commits);
    assert_eq!(refs(&bed).await[&bed.id("p").audit_ref()].snapshot, staged);
    bed.clock.advance_ms(25 * 3_600_000);
    assert!(bed.validate(&calve, "p").await.passed);
}

/// The table cannot be read after the request: never "failed" where it may have landed.
#[tokio::test]
async fn a_table_that_cannot_be_read_afterwards() {
    for kind in KINDS {
        let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
        for (fault, code) in [
            // The reply's own body shows it: nothing more is to be read.
            (Fault::Pass, 0),
            (Fault::LoseReply, 20),
            (Fault::LoseRequest, 20),
            (Fault::Hold, 20),
            (Fault::Duplicate, 20),
            (refuse(409), 20),
            (refuse(403), 20),
            (Fault::NotSent, 13),
        ] {
            let (bed, calve, _) = history(kind).await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.faults.push(fault.clone());
            let faults = bed.faults.clone();
            bed.faults.before_commit(move || async move { (0..9).for_each(|_| faults.fail_load(unavailable())) });
            let report = bed.publish(&calve, "p").await;
            assert_eq!(report.exit_code(), code, "{fault:?}: {:?}", report.outcome);
            while bed.faults.load(&bed.table).await.is_err() {}
            let visible = bed.main().await == Some(seal);
            let found = bed.reconcile(&calve, "p").await;
            assert_eq!(matches!(found.finding.state, State::Published { .. }), visible, "{fault:?}: {found:?}");
        }
    }
}

/// An earlier request may still land: a later one that never left, on a table that cannot be read, proves nothing.
#[tokio::test]
async fn an_earlier_request_stays_unresolved() {
    for (fault, unreadable) in [(Fault::NotSent, true), (Fault::NotSent, false), (Fault::LoseRequest, true)] {
        let (bed, calve, journal, _) = with_memory().await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.push(Fault::Hold);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
        bed.faults.push(fault.clone());
        if unreadable {
            let faults = bed.faults.clone();
            bed.faults.before_commit(move || async move { faults.fail_load(unavailable()) });
        }
        let report = bed.publish(&calve, "p").await;
        assert_eq!(report.exit_code(), 20, "{fault:?} {unreadable}: {:?}", report.outcome);
        // Nor does a journal that cannot be written make it a failure.
        journal.fail_next_puts(2, FailPut::Before);
        let report = bed.publish(&calve, "p").await;
        assert!(matches!(report.outcome, PublishOutcome::Unresolved { cause: Cause::InFlight, .. }), "{report:?}");
        assert!(bed.faults.release_held().await.is_some());
        assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 0);
    }
}

/// Accepted without a body, and the table cannot be read: what was fixed is reported, not what is missing.
#[tokio::test]
async fn accepted_without_a_body() {
    let (bed, _, base) = history(Kind::Fake).await;
    let bare = Altered { inner: bed.faults.clone(), alter: |commit| commit, body: false, stale: false };
    let calve = bare.coordinator(&bed);
    let unread = || {
        let faults = bed.faults.clone();
        bed.faults.before_commit(move || async move { faults.fail_load(unavailable()) });
    };
    unread();
    let begun = bed.begin(&calve, "p", "day = '2013-08-09'").await;
    assert_eq!((begun.base, begun.owner, begun.already_open), (Some(base), Owner("ann".to_owned()), false));
    unread();
    let staged = bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await;
    assert_eq!(refs(&bed).await[&bed.id("p").audit_ref()].snapshot, staged.snapshot);
    unread();
    let seal = bed.validate(&calve, "p").await.seal.expect("sealed");
    assert_eq!(refs(&bed).await[&bed.id("p").audit_ref()].snapshot, seal);
    unread();
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 0);
    // Read again, it is a direct publication.
    bed.sealed(&calve, "q", 10, &[(10, 5, 50)]).await;
    let report = bed.publish(&calve, "q").await;
    assert!(matches!(report.outcome, PublishOutcome::Published { via: Via::Direct, .. }), "{:?}", report.outcome);
}

/// A body that does not show our refs is no answer: the table is read again.
#[tokio::test]
async fn accepted_with_a_body_of_before() {
    let (bed, _, _) = history(Kind::Fake).await;
    let calve =
        Altered { inner: bed.faults.clone(), alter: |commit| commit, body: true, stale: true }.coordinator(&bed);
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let report = bed.publish(&calve, "p").await;
    assert_eq!((report.exit_code(), report.requests), (0, 1), "{:?}", report.outcome);
}

/// Every try goes unanswered: it may still land, so that is no failure and no refusal.
#[tokio::test]
async fn unanswered_to_the_end() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.faults.script(vec![Fault::Hold; 8]);
    assert_eq!(bed.try_begin(&calve, "p", "true").await.expect_err("unanswered").exit_code(), 20);
    assert!(bed.faults.release_held().await.is_some());
    assert!(bed.begin(&calve, "p", "true").await.already_open, "the first of them landed");
    bed.faults.script(vec![Fault::LoseRequest; 8]);
    let error = try_stage(&bed, &calve, "p").await.expect_err("unanswered");
    assert_eq!(error.exit_code(), 20, "{error}");
    // One that may land, and one that never left.
    bed.faults.script([Fault::Hold, Fault::NotSent]);
    let error = try_stage(&bed, &calve, "p").await.expect_err("unanswered");
    assert_eq!(error.exit_code(), 20, "{error}");
    let refuse = Fault::Refuse { status: 409, message: "no".to_owned() };
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.faults.script(vec![refuse; 8]);
    let error = bed.try_begin(&calve, "q", "true").await.expect_err("refused");
    assert_eq!(error.exit_code(), 1, "{error}");
}

/// SETTLE refused or unanswered, then run again: one receipt in the end.
#[tokio::test]
async fn settle_again() {
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (fault, settled) in [
        (refuse(409), false),
        (refuse(403), false),
        (Fault::LoseRequest, false),
        (Fault::NotSent, false),
        (Fault::Hold, false),
        (Fault::LoseReply, true),
        (Fault::Duplicate, true),
    ] {
        let (bed, calve, _) = history(Kind::Fake).await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().move_branch("main", seal).await;
        bed.faults.push(fault.clone());
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.settled, settled, "{fault:?}");
        assert_eq!(found.exit_code(), 0);
        assert_eq!(found.warnings.is_empty(), settled, "{fault:?}: {:?}", found.warnings);
        let again = bed.reconcile(&calve, "p").await;
        assert!(again.settled || settled, "{fault:?}: {:?}", again.warnings);
        while bed.faults.held() > 0 {
            let _late = bed.faults.release_held().await;
        }
        assert_eq!(bed.reconcile(&calve, "p").await.row, 2);
        assert_eq!(refs(&bed).await[&bed.id("p").published_ref()].snapshot, seal);
    }
}

/// A damaged log is named, and what the table shows can still be read with another journal.
#[tokio::test]
async fn a_damaged_log() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    journal.plant(&log_key(&bed, "p").await, 2, b"torn".to_vec());
    let error = calve.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("damaged");
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("p/"), "{error}");
    // It hides no other publication of the table, nor what the table tells of its own.
    bed.begin(&calve, "q", "day = '2013-08-10'").await;
    let status = calve.status(Some(&bed.table), None).await.expect("a status");
    let told: Vec<_> = status.tables[0]
        .publications
        .iter()
        .map(|p| (p.finding.publication.to_string(), p.finding.state.row(), p.error.is_some()))
        .collect();
    assert!(told.contains(&("p".to_owned(), 6, true)) && told.contains(&("q".to_owned(), 8, false)), "{told:?}");
    let stranger = bed.coordinator_with("ann", Arc::new(MemoryJournal::named("else")));
    assert_eq!(bed.reconcile(&stranger, "p").await.row, 6);
    let _table = load(&bed).await;
}

/// FENCE under each fault: closed, or told that it is not known, and never both published and closed.
#[tokio::test]
async fn a_fence_in_trouble() {
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (faults, code) in [
        (vec![Fault::LoseReply], 0),
        (vec![Fault::LoseRequest], 0),
        (vec![Fault::Duplicate], 0),
        (vec![Fault::Hold], 0),
        (vec![refuse(409)], 0),
        (vec![refuse(403)], 13),
        (vec![Fault::NotSent], 1),
        (vec![Fault::Hold, Fault::NotSent], 20),
        (vec![Fault::Hold, refuse(403)], 20),
        (vec![Fault::LoseRequest; 8], 20),
    ] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.script(faults.clone());
        let result = bed.abandon(&calve, "p").await;
        let found = result.as_ref().map_or_else(|error| error.exit_code(), |report| report.exit_code());
        assert_eq!(found, code, "{faults:?}: {result:?}");
        while bed.faults.held() > 0 {
            let _late = bed.faults.release_held().await;
        }
        if code == 0 {
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 13);
        }
        assert!(bed.abandon(&calve, "p").await.is_ok(), "{faults:?}: run again");
        let refs = refs(&bed).await;
        assert!(refs.contains_key(&bed.id("p").closed_ref()) && !refs.contains_key(&bed.id("p").published_ref()), "I9");
    }
}

/// STAGE under each fault: its rows are on the branch once.
#[tokio::test]
async fn a_stage_in_trouble() {
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (fault, landed) in [
        (Fault::LoseReply, true),
        (Fault::LoseRequest, true),
        (Fault::Duplicate, true),
        (Fault::Hold, true),
        (refuse(409), true),
        (refuse(403), false),
        (Fault::NotSent, false),
    ] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "true").await;
        bed.faults.push(fault.clone());
        assert_eq!(try_stage(&bed, &calve, "p").await.is_ok(), landed, "{fault:?}");
        while bed.faults.held() > 0 {
            let _late = bed.faults.release_held().await;
        }
        let head = refs(&bed).await[&bed.id("p").audit_ref()].snapshot;
        assert_eq!(bed.ids_at(head).await.len(), 3 + usize::from(landed), "{fault:?}");
        crate::support::no_shared_list(&load(&bed).await);
    }
}

/// A stage whose answer was lost, and whose table could not be read, run again: its rows are not there twice.
#[tokio::test]
async fn a_stage_that_told_nothing_is_not_repeated() {
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (fault, landed) in
        [(Fault::LoseReply, true), (Fault::Duplicate, true), (Fault::LoseRequest, false), (refuse(409), false)]
    {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "true").await;
        bed.faults.push(fault.clone());
        let faults = bed.faults.clone();
        bed.faults.before_commit(move || async move { faults.fail_load(unavailable()) });
        let error = try_stage(&bed, &calve, "p").await.expect_err("the table cannot be read");
        assert_eq!(error.exit_code(), 20, "{fault:?}: {error}");
        let said = error.to_string();
        assert_eq!(said.matches("run the same command again").count(), 1, "{said}");
        assert!(said.contains("calve status lake.days p"), "{said}");
        let head = async || bed.ids_at(refs(&bed).await[&bed.id("p").audit_ref()].snapshot).await;
        let lost = head().await.len();
        assert_eq!(lost, 3 + usize::from(landed), "{fault:?}");

        let again = try_stage(&bed, &calve, "p").await.expect("staged");
        assert_eq!(head().await.len(), 4, "{fault:?}: {again:?}");
        assert_eq!(again.warnings.iter().any(|w| w.contains("not added again")), landed, "{fault:?}: {again:?}");
        // Told now: once more is meant.
        let more = try_stage(&bed, &calve, "p").await.expect("staged");
        assert_eq!((head().await.len(), more.warnings.len()), (5, 0), "{fault:?}: {more:?}");
    }
}

/// Other rows after a stage that told nothing are staged beside its own, and that is said. What a lost answer left was
/// seen at once is told, so that the same rows again are meant.
#[tokio::test]
async fn other_rows_after_a_stage_that_told_nothing() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "true").await;
    bed.faults.push(Fault::LoseReply);
    assert!(try_stage(&bed, &calve, "p").await.expect("staged").warnings.is_empty());
    assert!(try_stage(&bed, &calve, "p").await.expect("staged").warnings.is_empty());
    let head = async || bed.ids_at(refs(&bed).await[&bed.id("p").audit_ref()].snapshot).await;
    assert_eq!(head().await.len(), 5);

    bed.faults.push(Fault::LoseReply);
    let faults = bed.faults.clone();
    bed.faults.before_commit(move || async move { faults.fail_load(unavailable()) });
    assert_eq!(try_stage(&bed, &calve, "p").await.expect_err("unread").exit_code(), 20);
    let other = bed.stage(&calve, "p", StageMode::Append, &[(9, 78, 0)]).await;
    assert!(other.warnings.iter().any(|w| w.contains("other rows")), "{other:?}");
    assert_eq!(head().await.len(), 7);
}

/// Records of a newer calve are read, and never appended to.
#[tokio::test]
async fn a_newer_log() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let records = log_of(&bed, journal.as_ref(), "p").await;
    let number = u32::try_from(records.len()).unwrap() + 1;
    let mut newer = serde_json::to_value(records.last().unwrap()).unwrap();
    newer["format"] = 2.into();
    newer["number"] = number.into();
    newer["event"] = serde_json::json!({"event": "rebased-over-the-moon"});
    journal.plant(&log_key(&bed, "p").await, number, serde_json::to_vec(&newer).unwrap());
    let commits = bed.faults.commits();
    assert_eq!(bed.reconcile(&calve, "p").await.row, 6);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 13);
    assert_eq!(try_stage(&bed, &calve, "p").await.expect_err("newer").exit_code(), 13);
    assert_eq!(bed.abandon(&calve, "p").await.expect_err("newer").exit_code(), 13);
    assert!(calve.status(Some(&bed.table), None).await.is_ok());
    assert_eq!(bed.faults.commits(), commits);
    assert_eq!(log_of(&bed, journal.as_ref(), "p").await.len(), records.len() + 1);
}

/// A bypass whose receipt cannot be journaled is told all the same; the receipt comes later.
#[tokio::test]
async fn settle_without_a_journal() {
    let (bed, calve, journal, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.engine().move_branch("main", seal).await;
    let commits = bed.faults.commits();
    journal.fail_next_puts(1_000, FailPut::Before);
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Bypassed { .. }) && !found.settled, "{:?}", found.finding);
    assert!(found.warnings.iter().any(|warning| warning.contains("receipt")), "{:?}", found.warnings);
    let report = bed.publish(&calve, "p").await;
    assert!(matches!(report.outcome, PublishOutcome::Published { via: Via::Bypassed, .. }), "{:?}", report.outcome);
    assert_eq!(bed.faults.commits(), commits, "no intent, no effect");
    journal.fail_next_puts(0, FailPut::Before);
    assert!(bed.reconcile(&calve, "p").await.settled);
}

/// A failed check is the result, whatever becomes of the quarantine.
#[tokio::test]
async fn a_quarantine_in_trouble() {
    let quarantine = || {
        let text = calve::testing::CONTRACT.replace("keep", "quarantine");
        calve::contract::Contract::parse(&text, "q.toml").expect("a contract")
    };
    for (fault, closed) in [
        (Fault::LoseReply, true),
        (Fault::Hold, true),
        (Fault::NotSent, false),
        (Fault::Refuse { status: 403, message: "no".to_owned() }, false),
    ] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40), (9, 4, 41)]).await;
        bed.faults.push(fault.clone());
        let report = try_validate(&bed, &calve, "p", quarantine()).await.expect("the checks failed");
        assert_eq!((report.exit_code(), report.closed.is_some()), (10, closed), "{fault:?}");
        assert!(closed || report.warnings.iter().any(|w| w.contains("not closed")), "{fault:?}: {:?}", report.warnings);
        assert!(closed || matches!(bed.reconcile(&calve, "p").await.finding.state, State::Open { .. }));
    }
}

/// The table cannot be read after the commit of another verb: accepted, unresolved, or not sent.
#[tokio::test]
async fn other_verbs_that_cannot_read_afterwards() {
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (fault, code) in [
        (Fault::Pass, 0),
        (Fault::LoseReply, 20),
        (Fault::LoseRequest, 20),
        (refuse(409), 20),
        (Fault::Duplicate, 20),
        (Fault::NotSent, 1),
    ] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "true").await;
        let broken = || {
            bed.faults.push(fault.clone());
            let faults = bed.faults.clone();
            bed.faults.before_commit(move || async move { faults.fail_load(unavailable()) });
        };
        // A body that shows the commit leaves nothing to be read.
        let unread = async || while bed.faults.unused() > 0 && bed.faults.load(&bed.table).await.is_err() {};
        let code_of = |result: Result<u8, calve::coordinator::Error>| result.unwrap_or_else(|error| error.exit_code());
        broken();
        assert_eq!(code_of(bed.try_begin(&calve, "q", "true").await.map(|r| r.exit_code())), code, "{fault:?}");
        unread().await;
        broken();
        assert_eq!(code_of(try_stage(&bed, &calve, "p").await.map(|r| r.exit_code())), code, "{fault:?}");
        unread().await;
        broken();
        let fenced = code_of(bed.abandon(&calve, "p").await.map(|r| r.exit_code()));
        assert_eq!(fenced, code, "{fault:?}");
        unread().await;
        assert!(bed.abandon(&calve, "p").await.is_ok(), "{fault:?}: run again");
    }
}

/// Checks take time: the lease is renewed before anything is stated of them, so that a seal is made under a live one.
#[tokio::test]
async fn the_lease_is_renewed_before_the_seal() {
    use calve::journal::record::{Event, Verb};
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let before = log_of(&bed, bed.journal.as_ref(), "p").await.len();
    assert!(bed.validate(&calve, "p").await.passed);
    let records = log_of(&bed, bed.journal.as_ref(), "p").await;
    let until_seal =
        records[before..].iter().take_while(|r| !matches!(&r.event, Event::Intended { verb: Verb::Seal, .. }));
    let taken = until_seal.filter(|record| matches!(&record.event, Event::LeaseTaken { .. })).count();
    assert_eq!(taken, 2, "taken at the start, and renewed before the statement");
}
