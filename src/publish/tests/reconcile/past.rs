//! What older states of the table and the journal's own readings add: facts, and never their absence.

use super::*;
use crate::publish::past::{Ended, Past};
use crate::publish::reconcile::reconcile_with;

/// Older states, newest first, each under a file of its own.
fn past(now: &Observed, older: &[ObservedBuilder]) -> Past {
    let mut past = Past::new(id(), now);
    for (number, state) in older.iter().enumerate() {
        let _before = past.add(&format!("v{number}.metadata.json"), 1_000, &state.0);
    }
    past.end(Ended::Log);
    past
}

fn find_with(now: &ObservedBuilder, intent: &Intent, past: &Past) -> Finding {
    reconcile_with(intent, &TableView::Present(Box::new(now.0.clone())), FilesLive::NotKnown, Some(past))
}

fn with_older(now: &ObservedBuilder, older: &[ObservedBuilder]) -> State {
    find_with(now, &no_journal(), &past(&now.0, older)).state
}

/// An expiry that took everything before main, log included.
fn expired(table: ObservedBuilder, gone: &[SnapshotId]) -> ObservedBuilder {
    gone.iter().fold(table, |table, id| table.forget(*id)).with(|table| {
        let main = table.main();
        table.snapshot_log.retain(|(_, id)| Some(*id) == main);
    })
}

/// Published, then two commits, and what told of it is gone.
fn history_gone() -> ObservedBuilder {
    let later = ObservedBuilder::published().other(X, Some(K)).other(M, Some(X)).main(M);
    expired(later.unref(&published()), &[B, S, K, X])
}

fn removed(snapshot: SnapshotId, sealed: bool, visibility: Visibility) -> State {
    State::ReceiptRemoved { snapshot: Some(snapshot), sealed, visibility }
}

#[test]
fn older_states_tell_what_the_current_one_forgot() {
    let fenced_and_forgotten = || ObservedBuilder::fenced().unref(&closed());
    let rolled_back = || ObservedBuilder::staged().main(S).main(N);
    let forgotten = |table: ObservedBuilder| table.with(|table| table.snapshot_log.clear());
    let cases: Vec<(&str, ObservedBuilder, Vec<ObservedBuilder>, State, State)> = vec![
        (
            "the receipt, with the line of main in between",
            history_gone(),
            vec![ObservedBuilder::published().other(X, Some(K)).main(X), ObservedBuilder::published()],
            State::Consumed,
            removed(K, true, Visibility::Superseded),
        ),
        (
            "the receipt, and the line is cut",
            history_gone(),
            vec![ObservedBuilder::published()],
            State::Consumed,
            removed(K, true, Visibility::HistoryEnds),
        ),
        (
            "the candidate and nothing of its end",
            history_gone(),
            vec![ObservedBuilder::sealed(), ObservedBuilder::staged()],
            State::Consumed,
            State::Consumed,
        ),
        ("no state at all", history_gone(), vec![], State::Consumed, State::Consumed),
        (
            "the fence of a consumed branch",
            fenced_and_forgotten(),
            vec![ObservedBuilder::fenced()],
            State::Consumed,
            State::Closed,
        ),
        (
            "the fence of a branch that is gone",
            fenced_and_forgotten().unref(&audit()),
            vec![ObservedBuilder::fenced()],
            State::Gone,
            State::Closed,
        ),
        (
            "a branch that was removed while it was open",
            ObservedBuilder::sealed().unref(&audit()),
            vec![ObservedBuilder::sealed()],
            State::Gone,
            State::Gone,
        ),
        (
            "a publication of which the table has nothing",
            ObservedBuilder::base(),
            vec![ObservedBuilder::published()],
            State::Unknown,
            removed(K, true, Visibility::RolledBack),
        ),
        (
            "a receipt on something else, which was taken away since",
            ObservedBuilder::sealed().tag(audit(), N),
            vec![ObservedBuilder::sealed().tag(published(), N).tag(audit(), N)],
            State::Consumed,
            State::Consumed,
        ),
        (
            "an engine's move of main to unsealed data",
            forgotten(rolled_back()).unref(&audit()),
            vec![rolled_back()],
            State::Gone,
            removed(S, false, Visibility::RolledBack),
        ),
        (
            "main at it before it was closed",
            forgotten(ObservedBuilder::fenced()),
            vec![ObservedBuilder::fenced(), ObservedBuilder::sealed().main(K).main(N)],
            State::Closed,
            State::VisibleAfterFence { snapshot: Some(K), visibility: Visibility::RolledBack },
        ),
        (
            "the receipt from before an absent branch was closed",
            expired(ObservedBuilder::fenced(), &[S, B]).tag(closed(), N).tag(audit(), N),
            vec![ObservedBuilder::sealed().tag(published(), K).tag(audit(), N)],
            State::Closed,
            State::VisibleAfterFence { snapshot: Some(K), visibility: Visibility::RolledBack },
        ),
        (
            "the receipt while it stands",
            ObservedBuilder::published(),
            vec![ObservedBuilder::sealed()],
            State::Published { snapshot: K, sealed: true, visibility: Visibility::Visible },
            State::Published { snapshot: K, sealed: true, visibility: Visibility::Visible },
        ),
        (
            "a branch without our marker, after a fence",
            ObservedBuilder::base().other(X, Some(N)).branch(audit(), X),
            vec![ObservedBuilder::fenced()],
            State::Foreign { head: X },
            State::Foreign { head: X },
        ),
    ];
    for (what, now, older, before, expected) in cases {
        assert_eq!(state(now.clone()), before, "{what}");
        assert_eq!(with_older(&now, &older), expected, "{what}");
    }
}

#[test]
fn an_end_and_a_branch_contradict_each_other() {
    for (name, older) in [
        (published(), ObservedBuilder::sealed().tag(published(), K).tag(audit(), N)),
        (closed(), ObservedBuilder::fenced()),
    ] {
        for now in [ObservedBuilder::sealed(), ObservedBuilder::sealed().other(M, Some(N)).main(M)] {
            let State::Ambiguous { reason, snapshots } = with_older(&now, std::slice::from_ref(&older)) else {
                panic!("{name} and the branch")
            };
            assert_eq!(snapshots, [K, K]);
            for word in ["v0.metadata.json", &name.0, "audit/repair-07 is a branch at 40"] {
                assert!(reason.contains(word), "{word}: {reason}");
            }
        }
    }
}

/// A file that cannot be read says nothing: neither that it happened nor that it did not.
#[test]
fn a_gap_changes_no_verdict_and_is_named() {
    for now in [history_gone(), ObservedBuilder::sealed().unref(&audit()), ObservedBuilder::base()] {
        let mut gaps = past(&now.0, &[]);
        gaps.gap("v7.metadata.json", 5_000, "no such file".to_owned());
        let found = find_with(&now, &no_journal(), &gaps);
        assert_eq!(found.state, state(now.clone()));
        let named = |line: &&String| line.contains("v7.metadata.json") && line.contains("no such file");
        assert_eq!(found.proof.iter().filter(named).count(), 1, "{:?}", found.proof);
    }
    // What lies behind it still counts.
    let now = history_gone();
    let mut behind = Past::new(id(), &now.0);
    behind.gap("v7.metadata.json", 5_000, "no such file".to_owned());
    let _before = behind.add("v6.metadata.json", 4_000, &ObservedBuilder::published().0);
    assert_eq!(find_with(&now, &no_journal(), &behind).state.word(), "receipt-removed");
}

#[test]
fn the_look_back_ends_where_it_was_not_begun() {
    let now = ObservedBuilder::sealed().unref(&audit()).build();
    let mut back = Past::new(id(), &now);
    assert!(!back.add("v3", 3, &ObservedBuilder::sealed().0));
    assert!(!back.add("v2", 2, &ObservedBuilder::begun().0));
    assert!(back.add("v1", 1, &ObservedBuilder::base().0));
    // Where the table has nothing of it, older states may have.
    let mut back = Past::new(id(), &ObservedBuilder::base().0);
    assert!(!back.add("v3", 3, &ObservedBuilder::base().0));
    assert!(!back.add("v2", 2, &ObservedBuilder::sealed().0));
    assert!(back.add("v1", 1, &ObservedBuilder::base().0));
}

#[test]
fn files_are_named_with_their_time() {
    let now = history_gone();
    let mut back = Past::new(id(), &now.0);
    let _before =
        back.add("s3://lake/t/metadata/00041-x.metadata.json", 1_376_116_200_000, &ObservedBuilder::published().0);
    back.end(Ended::Decided);
    let proof = find_with(&now, &no_journal(), &back).proof.join("\n");
    assert!(proof.contains("s3://lake/t/metadata/00041-x.metadata.json (committed 2013-08-10 06:30:00 UTC"), "{proof}");
}

fn saw(log: Log, row: u8, state: &str, sequence_number: i64) -> Log {
    log.event(Event::Decided { attempt: None, row, state: state.to_owned(), sequence_number, main: Some(N) })
}

fn saw_published() -> Log {
    saw(Log::sealed().publish(K, Some(UNKNOWN())), 2, "published", 4)
}

fn saw_closed() -> Log {
    saw(Log::sealed(), 5, "closed", 4)
}

/// What the journal saw in the table before decides where the table no longer tells.
#[test]
fn the_journal_is_asked_where_the_table_does_not_tell() {
    let tombstone = || ObservedBuilder::sealed().tag(audit(), N);
    let gone = || ObservedBuilder::sealed().unref(&audit());
    for now in [tombstone(), gone()] {
        assert_eq!(state_with(now.clone(), &saw_published()), removed(K, true, Visibility::RolledBack));
        assert_eq!(state_with(now.clone(), &saw_closed()), State::Closed);
        // Sent or accepted is not seen.
        for log in [Log::sealed().publish(K, Some(ReplyRecord::Accepted)), saw(Log::sealed(), 6, "sealed", 4)] {
            assert!(state_with(now.clone(), &log).row() >= 10);
        }
    }
    // Visible once is visible, whatever was seen later.
    let both = saw(saw_published(), 5, "closed", 4);
    assert_eq!(state_with(tombstone(), &both).word(), "receipt-removed");
    // Of several seals it is not known which.
    let two = saw(Log::sealed().publish(K, Some(UNKNOWN())).publish(K2, Some(UNKNOWN())), 2, "published", 4);
    let unknown = State::ReceiptRemoved { snapshot: None, sealed: true, visibility: Visibility::HistoryEnds };
    assert_eq!(state_with(tombstone(), &two), unknown);
    // What a settlement recorded without a seal stays without evidence.
    let settled = Log::default().begin(OURS, B, ReplyRecord::Accepted).settle(S, UNKNOWN());
    let found = state_with(ObservedBuilder::staged().tag(audit(), N), &saw(settled, 2, "published", 3));
    assert_eq!(found, removed(S, false, Visibility::RolledBack));
    // A fence that someone laid over it makes it no less visible.
    let fenced = state_with(ObservedBuilder::fenced(), &saw_published());
    assert_eq!(fenced.word(), "visible-after-fence");
}

/// The journal saw its end, and the table shows the branch: the table was put back. Both are named, nothing is done.
#[test]
fn a_branch_that_was_used_up_has_regressed() {
    let stands = [
        ObservedBuilder::begun(),
        ObservedBuilder::staged(),
        ObservedBuilder::sealed(),
        ObservedBuilder::sealed().other(M, Some(N)).main(M),
        ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X),
    ];
    for table in stands {
        let table = table.with(|table| table.last_sequence_number = 9);
        for (log, seen) in [(saw_published(), "showed it published"), (saw_closed(), "showed it closed")] {
            let found = find(table.clone(), &log.intent(), FilesLive::NotKnown);
            assert_eq!(found.state, State::Regressed { remembered: 4, found: 9 });
            let proof = found.proof.join("\n");
            for fact in [seen, "as a branch at"] {
                assert!(proof.contains(fact), "{fact}: {proof}");
            }
        }
    }
    // Someone else's branch after a fence is fenced again; after a publication it is as strange as ours.
    let foreign = || ObservedBuilder::base().other(X, Some(N)).branch(audit(), X).with(|t| t.last_sequence_number = 9);
    assert_eq!(state_with(foreign(), &saw_closed()), State::Foreign { head: X });
    assert_eq!(state_with(foreign(), &saw_published()).row(), 1);
    // Moved by an engine after it was closed: visible, and never settled.
    let moved = ObservedBuilder::sealed().main(K);
    assert_eq!(state_with(moved, &saw_closed()).word(), "visible-after-fence");
}

/// The journal saw it published, and the table has nothing of it, with a line of main that goes back to before it.
#[test]
fn a_table_with_nothing_of_a_publication_was_put_back() {
    let later = || ObservedBuilder::base().other(M, Some(N)).main(M).with(|table| table.last_sequence_number = 9);
    assert_eq!(state_with(later(), &saw_published()), State::Regressed { remembered: 4, found: 9 });
    // Where the line is cut, an expiry may have taken it.
    let cut = later().forget(N);
    assert_eq!(state_with(cut, &saw_published()), removed(K, true, Visibility::HistoryEnds));
    // A snapshot or a tombstone of it that is still there shows that the table was not put back.
    let kept = later().seal(K, S, &[]);
    assert_eq!(state_with(kept, &saw_published()).word(), "receipt-removed");
    assert_eq!(state_with(later().tag(audit(), N), &saw_published()).word(), "receipt-removed");
}

/// A parent that was expired is part of main's line all the same.
#[test]
fn an_expired_parent_of_main_counts() {
    let table = ObservedBuilder::published().unref(&published()).other(M, Some(K)).main(M);
    let table = expired(table, &[B, S, K]);
    assert_eq!(state(table.clone()), State::Consumed);
    assert_eq!(state_with(table, &Log::sealed()), removed(K, true, Visibility::Superseded));
}
