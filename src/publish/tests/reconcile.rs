//! Every row of the reconcile table, each face of it, and the order of the rows.

use uuid::Uuid;

use crate::ids::{PublicationId, SnapshotId, TableUuid};
use crate::journal::record::{Event, ReplyRecord};
use crate::observed::{Observed, summary};
use crate::publish::Intent;
use crate::publish::commits;
use crate::publish::reconcile::{Absence, FilesLive, Finding, Moved, Sent, State, TableView, Visibility, reconcile};
use crate::publish::testkit::*;

fn find(observed: ObservedBuilder, intent: &Intent, files: FilesLive) -> Finding {
    reconcile(intent, &TableView::Present(Box::new(observed.build())), files)
}

fn state(observed: ObservedBuilder) -> State {
    find(observed, &no_journal(), FilesLive::NotKnown).state
}

fn state_with(observed: ObservedBuilder, log: &Log) -> State {
    find(observed, &log.intent(), FilesLive::NotKnown).state
}

fn is_ambiguous(state: &State) -> bool {
    matches!(state, State::Ambiguous { .. })
}

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

#[test]
fn row_4_a_seal_that_k_does_not_replace_is_ambiguous_on_the_branch() {
    let two =
        |replaces: &[SnapshotId]| ObservedBuilder::sealed().other(X, Some(K)).seal(K2, X, replaces).branch(audit(), K2);
    let found = state(two(&[]));
    assert!(matches!(&found, State::Ambiguous { snapshots, .. } if *snapshots == [K2, K]), "{found:?}");
    assert_eq!(found.row(), 4);
    assert!(is_ambiguous(&state(two(&[S, X]))));
    assert_eq!(state(two(&[K])), State::Sealed { seal: K2, sent: Sent::NoJournal });
    assert_eq!(state(two(&[S, K])), State::Sealed { seal: K2, sent: Sent::NoJournal });
    // The head above both.
    let above = |replaces: &[SnapshotId]| two(replaces).other(M, Some(K2)).branch(audit(), M);
    assert!(is_ambiguous(&state(above(&[]))));
    assert_eq!(state(above(&[K])), State::SubjectMoved { head: M, seal: K2 });
}

#[test]
fn row_4_a_seal_of_another_begin_in_mains_history_is_ambiguous() {
    let theirs = |to: ObservedBuilder| to.snapshot(K2, Some(N), seal_summary(THEIRS, Some(N), &[])).main(K2);
    for ours in [ObservedBuilder::sealed(), ObservedBuilder::begun()] {
        let found = state(theirs(ours));
        assert!(matches!(&found, State::Ambiguous { snapshots, .. } if snapshots.contains(&K2)), "{found:?}");
    }
    // Rolled back, and in the log only.
    assert!(is_ambiguous(&state(theirs(ObservedBuilder::sealed()).main(N))));
    // A seal of another publication is nobody's business here.
    let other = theirs(ObservedBuilder::sealed()).with(|table| {
        let seal = table.snapshots.get_mut(&K2).unwrap();
        seal.summary.insert(summary::PUBLISH_ID.to_owned(), "repair-07~2".to_owned());
    });
    assert_eq!(state(other).row(), 7);
}

#[test]
fn row_4_an_earlier_seal_beside_the_branch_is_not_ambiguous() {
    // Validated twice: both seals stand on S.
    let observed = ObservedBuilder::sealed().seal(K2, S, &[]).branch(audit(), K2);
    assert_eq!(state(observed), State::Sealed { seal: K2, sent: Sent::NoJournal });
}

#[test]
fn row_5_fenced_is_closed_for_ever() {
    let faces = [
        ObservedBuilder::fenced(),
        ObservedBuilder::fenced().unref(&audit()),
        ObservedBuilder::begun().tag(closed(), B).tag(audit(), N),
        // The name came back as a branch.
        ObservedBuilder::fenced().branch(audit(), N),
        ObservedBuilder::fenced().branch(audit(), K),
        // The fence of a name that was never begun.
        ObservedBuilder::base().tag(closed(), N).tag(audit(), N),
    ];
    for face in faces {
        assert_eq!(state(face.clone()), State::Closed);
        for reply in [None, Some(UNKNOWN()), Some(ReplyRecord::Accepted), Some(refused(409))] {
            assert_eq!(state_with(face.clone(), &Log::sealed().publish(K, reply)), State::Closed);
        }
    }
}

fn sent(log: &Log) -> Sent {
    match state_with(ObservedBuilder::sealed(), log) {
        State::Sealed { seal, sent } => {
            assert_eq!(seal, K);
            sent
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_6_without_an_attempt_it_is_sealed_and_waits() {
    assert_eq!(state(ObservedBuilder::sealed()), State::Sealed { seal: K, sent: Sent::NoJournal });
    assert_eq!(state(ObservedBuilder::written_and_sealed()), State::Sealed { seal: K, sent: Sent::NoJournal });
    assert_eq!(state(ObservedBuilder::sealed_first()), State::Sealed { seal: K, sent: Sent::NoJournal });
    assert_eq!(sent(&Log::sealed()), Sent::None);
    // BEGIN, STAGE and SEAL are no attempts to publish, whatever came back.
    assert_eq!(sent(&Log::default().begin(OURS, B, UNKNOWN()).seal(K, S, UNKNOWN())), Sent::None);
}

#[test]
fn row_6_by_what_came_back() {
    use ReplyRecord::Accepted;
    let (no, lost) = (NOT_SENT, UNKNOWN);
    let r = |status| Some(refused(status));
    let table = [
        (vec![Some(no())], Sent::Rejected),
        (vec![r(403)], Sent::Rejected),
        (vec![Some(no()), r(403), r(400), r(422), r(404), r(401), r(406)], Sent::Rejected),
        (vec![r(409)], Sent::Conflicted),
        (vec![r(409), r(409)], Sent::Conflicted),
        (vec![r(409), r(409), r(409)], Sent::Rejected),
        (vec![r(409), r(409), r(409), r(409)], Sent::Rejected),
        (vec![r(403), r(409)], Sent::Conflicted),
        // Else a publisher that repeats after a conflict would never end.
        (vec![r(409), r(403)], Sent::Rejected),
        (vec![r(409), Some(no())], Sent::Rejected),
        (vec![r(409), r(403), r(409)], Sent::Conflicted),
        (vec![r(409), r(403), r(409), Some(no()), r(409)], Sent::Rejected),
        (vec![Some(lost())], Sent::InFlight),
        (vec![None], Sent::InFlight),
        // One that is open is not closed by what came of another.
        (vec![Some(lost()), r(409)], Sent::InFlight),
        (vec![None, r(403), Some(no())], Sent::InFlight),
        (vec![r(409), r(409), r(409), Some(lost())], Sent::InFlight),
        // The catalog said it was applied, and the table as read says it was not.
        (vec![Some(Accepted)], Sent::InFlight),
        (vec![Some(Accepted), r(403)], Sent::InFlight),
    ];
    for (replies, expected) in table {
        let log = replies.iter().cloned().fold(Log::sealed(), |log, reply| log.publish(K, reply));
        assert_eq!(sent(&log), expected, "{replies:?}");
    }
}

#[test]
fn row_6_attempts_at_another_seal_do_not_count() {
    for reply in [None, Some(UNKNOWN()), Some(refused(409)), Some(refused(403))] {
        assert_eq!(sent(&Log::sealed().publish(K2, reply.clone())), Sent::None, "{reply:?}");
        let both = Log::sealed().publish(K2, reply.clone()).publish(K, Some(refused(403)));
        assert_eq!(sent(&both), Sent::Rejected, "{reply:?}");
    }
    // Nor does a settlement, although it names the seal.
    assert_eq!(sent(&Log::sealed().settle(K, UNKNOWN())), Sent::None);
}

#[test]
fn row_6_the_proof_names_each_attempt() {
    let log = Log::sealed().publish(K, Some(UNKNOWN())).publish(K, Some(refused(409))).publish(K, None);
    let proof = find(ObservedBuilder::sealed(), &log.intent(), FilesLive::NotKnown).proof;
    assert_eq!(
        proof,
        [
            "main is a branch at 10",
            "audit/repair-07 is a branch at 40",
            "published/repair-07 is absent",
            "closed/repair-07 is absent",
            "the reply to attempt 3 does not say what happened",
            "attempt 4 was refused with 409",
            "attempt 5 has no recorded reply",
        ]
    );
}

#[test]
fn row_7_names_what_moved() {
    let moved = |observed, log: &Log| match state_with(observed, log) {
        State::Moved { seal, moved } => {
            assert_eq!(seal, K);
            moved
        }
        other => panic!("{other:?}"),
    };
    let sealed = ObservedBuilder::sealed;
    let main = Moved::Main { base: Some(N), main: Some(M) };
    let schema = Moved::Schema { sealed: 3, current: 4 };
    let spec = Moved::Spec { sealed: 5, current: 6 };
    assert_eq!(moved(sealed().other(M, Some(N)).main(M), &Log::sealed()), std::slice::from_ref(&main));
    assert_eq!(moved(sealed().with(|t| t.current_schema_id = 4), &Log::sealed()), std::slice::from_ref(&schema));
    assert_eq!(moved(sealed().with(|t| t.default_spec_id = 6), &Log::sealed()), std::slice::from_ref(&spec));
    let all = sealed().other(M, Some(N)).main(M).with(|t| {
        t.current_schema_id = 4;
        t.default_spec_id = 6;
    });
    assert_eq!(moved(all, &Log::sealed()), [main, schema.clone(), spec]);
    // Without a journal the snapshot still says under which schema it was made.
    assert_eq!(state(sealed().with(|t| t.current_schema_id = 4)), State::Moved { seal: K, moved: vec![schema] });
    // Main is gone, and main appeared.
    let gone = Moved::Main { base: Some(N), main: None };
    assert_eq!(moved(sealed().unref(&crate::ids::RefName::main()), &Log::sealed()), [gone]);
    let appeared = Moved::Main { base: None, main: Some(M) };
    assert_eq!(
        state(ObservedBuilder::sealed_first().other(M, None).main(M)),
        State::Moved { seal: K, moved: vec![appeared] }
    );
}

#[test]
fn row_7_does_not_ask_what_came_back() {
    for reply in [None, Some(UNKNOWN()), Some(ReplyRecord::Accepted), Some(refused(409)), Some(NOT_SENT())] {
        let observed = ObservedBuilder::sealed().other(M, Some(N)).main(M);
        assert_eq!(state_with(observed, &Log::sealed().publish(K, reply)).row(), 7);
    }
}

#[test]
fn row_8_a_branch_on_its_marker_without_a_seal_is_open() {
    assert_eq!(state(ObservedBuilder::begun()), State::Open { head: B, marker: B });
    assert_eq!(state(ObservedBuilder::staged()), State::Open { head: S, marker: B });
    assert_eq!(state(ObservedBuilder::written()), State::Open { head: S, marker: B });
    // A moved main changes nothing yet.
    assert_eq!(state(ObservedBuilder::written().other(M, Some(N)).main(M)), State::Open { head: S, marker: B });
    // A seal beside the branch is none of it.
    assert_eq!(state(ObservedBuilder::sealed().branch(audit(), S)), State::Open { head: S, marker: B });
    let first = ObservedBuilder::empty().marker(B, None, OURS).branch(audit(), B);
    assert_eq!(state(first), State::Open { head: B, marker: B });
}

#[test]
fn row_9_a_head_above_the_seal_voids_the_evidence() {
    let observed = ObservedBuilder::sealed().other(X, Some(K)).branch(audit(), X);
    assert_eq!(state(observed.clone()), State::SubjectMoved { head: X, seal: K });
    let log = Log::sealed().publish(K, Some(UNKNOWN()));
    assert_eq!(state_with(observed, &log), State::SubjectMoved { head: X, seal: K });
}

#[test]
fn row_9_a_branch_without_our_marker_is_foreign() {
    // An engine's late append created the branch again from main.
    let again = ObservedBuilder::base().other(X, Some(N)).branch(audit(), X);
    assert_eq!(state(again.clone()), State::Foreign { head: X });
    assert_eq!(state_with(again, &Log::sealed()), State::Foreign { head: X });
    // The marker of another publication does not make it ours.
    let other = ObservedBuilder::begun().with(|table| {
        let marker = table.snapshots.get_mut(&B).unwrap();
        marker.summary.insert(summary::PUBLISH_ID.to_owned(), "repair-08".to_owned());
    });
    assert_eq!(state(other), State::Foreign { head: B });
    // A seal of ours that does not stand on our marker.
    let forged = ObservedBuilder::base().snapshot(K, Some(N), seal_summary(OURS, Some(N), &[])).branch(audit(), K);
    assert_eq!(state(forged), State::Foreign { head: K });
    // A seal of another BEGIN above our marker.
    let mixed = ObservedBuilder::staged().snapshot(K, Some(S), seal_summary(THEIRS, Some(N), &[])).branch(audit(), K);
    assert_eq!(state(mixed), State::Foreign { head: K });
}

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
