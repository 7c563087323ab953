//! Rows 5 to 9: closed, or the branch stands.

use super::*;

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
    // A log that was lost and begun anew, or another coordinator's, cannot say that nothing was sent.
    assert_eq!(sent(&Log::default().begin(OURS, B, UNKNOWN())), Sent::NoJournal);
    assert_eq!(sent(&Log::default().seal(K2, S, ReplyRecord::Accepted)), Sent::NoJournal);
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
    let at =
        |part: &str| proof.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {proof:?}"));
    let order = [
        "audit/repair-07 is still a branch, at the seal 40, and main is at its base 10",
        "main is a branch at 10 (sequence number 1, 1970-01-01 00:00:01 UTC)",
        "published/repair-07 is absent",
        "closed/repair-07 is absent",
        "main is not known to have reached any of 30, 40",
        "attempt 3 (publish of 40) was answered with nothing that tells (timeout)",
        "attempt 4 (publish of 40) was refused with 409: no",
        "attempt 5 (publish of 40) has no recorded reply",
    ]
    .map(at);
    assert!(order.is_sorted() && order[0] == 0, "{proof:?}");
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
