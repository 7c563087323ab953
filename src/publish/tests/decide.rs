//! The gate: what may be sent, what stops, and how commits that add snapshots are decided.

use crate::digest::Digest;
use crate::ids::{RefName, SnapshotId, TableUuid};
use crate::journal::record::{Event, ReplyRecord};
use crate::observed::{Observed, RefKind, summary};
use crate::publish::Intent;
use crate::publish::commits::Commit;
use crate::publish::commits::{begin, moves_main_to, seal, stage};
use crate::publish::decide::{Decision, Landed, Recomputed, decide, landed};
use crate::publish::outcome::{Cause, PublishOutcome, Rejection, Via};
use crate::publish::own::marker_below;
use crate::publish::reconcile::{FilesLive, Sent, State, TableView, Visibility, reconcile};
use crate::publish::testkit::*;

/// What is recomputed of an untouched candidate.
fn intact() -> Recomputed {
    Recomputed {
        change: digest("change"),
        tree: digest("tree"),
        seal_tree: digest("tree"),
        candidate: digest("candidate"),
        contract: digest("contract"),
        statement_passed: true,
        missing_files: Vec::new(),
        changed_files: Vec::new(),
        shared_list: Vec::new(),
    }
}

fn gate_with(observed: &Observed, intent: &Intent, evidence: Result<Recomputed, String>) -> Decision {
    let finding = reconcile(intent, &TableView::Present(Box::new(observed.clone())), FilesLive::NotKnown);
    decide(intent, observed, &finding, &evidence, &table(), key(9))
}

fn gate(observed: ObservedBuilder, log: &Log) -> Decision {
    gate_with(&observed.0, &log.intent(), Ok(intact()))
}

#[track_caller]
fn sends(decision: Decision) -> Commit {
    match decision {
        Decision::Send(commit) => *commit,
        Decision::Stop(outcome) => panic!("{outcome:?}"),
    }
}

#[track_caller]
fn stops(decision: Decision) -> PublishOutcome {
    match decision {
        Decision::Stop(outcome) => outcome,
        Decision::Send(commit) => panic!("{commit:?}"),
    }
}

/// The reasons for which the gate finds the evidence wanting.
#[track_caller]
fn wanting(decision: Decision) -> Vec<String> {
    match stops(decision) {
        PublishOutcome::Rejected { rejection: Rejection::Evidence, reasons } => {
            assert!(!reasons.is_empty());
            reasons
        }
        other => panic!("{other:?}"),
    }
}

fn json(commit: &Commit) -> serde_json::Value {
    serde_json::to_value(commit).unwrap()
}

#[test]
fn a_sealed_candidate_with_evidence_is_sent_as_publish_under_the_new_key() {
    let observed = ObservedBuilder::sealed();
    let mut expected = publish_of(&observed.0, K);
    expected.key = key(9);
    assert_eq!(json(&sends(gate(observed.clone(), &Log::sealed()))), json(&expected));
    assert_eq!(json(&sends(gate(observed, &Log::default()))), json(&expected));
    // The first publication of a table.
    let first = ObservedBuilder::sealed_first();
    let commit = sends(gate_with(&first.0, &no_journal(), Ok(intact())));
    let table = ObservedBuilder(apply(&first.0, &commit).unwrap());
    assert_eq!((table.0.main(), table.0.reference(&audit()).unwrap().snapshot), (Some(K), B));
}

#[test]
fn after_refusals_a_new_key_is_taken() {
    for reply in [NOT_SENT(), refused(403), refused(409)] {
        let log = Log::sealed().publish(K, Some(reply.clone()));
        let commit = sends(gate(ObservedBuilder::sealed(), &log));
        assert_eq!((commit.key, moves_main_to(&commit)), (key(9), Some(K)), "{reply:?}");
    }
}

#[test]
fn where_a_reply_is_unknown_the_identical_request_goes_again_key_included() {
    for reply in [None, Some(UNKNOWN())] {
        let log = Log::sealed().publish(K, reply.clone());
        let recorded = log.intent().attempts.last().unwrap().commit.clone();
        // Also where main's retention changed since: the request is the recorded one, to the letter.
        let observed = ObservedBuilder::sealed().with(|table| {
            let kind =
                RefKind::Branch { min_snapshots_to_keep: Some(1), max_snapshot_age_ms: None, max_ref_age_ms: None };
            table.refs.get_mut(&RefName::main()).unwrap().kind = kind;
        });
        let again = sends(gate(observed, &log));
        assert_eq!(json(&again), json(&recorded), "{reply:?}");
        assert_eq!(again.key, key(1));
    }
    // The open one is repeated, not what was refused later.
    let mut log = Log::sealed().publish(K, Some(UNKNOWN()));
    let mut other = publish_of(&ObservedBuilder::sealed().0, K);
    other.key = key(2);
    log = log.attempt(crate::journal::record::Verb::Publish, other, (None, None, None), Some(refused(409)));
    assert_eq!(sends(gate(ObservedBuilder::sealed(), &log)).key, key(1));
}

#[test]
fn an_accepted_request_that_does_not_show_goes_again_under_a_new_key() {
    let log = Log::sealed().publish(K, Some(ReplyRecord::Accepted));
    assert_eq!(sends(gate(ObservedBuilder::sealed(), &log)).key, key(9));
}

#[test]
fn attempts_at_another_seal_are_not_repeated() {
    let log = Log::sealed().publish(K2, Some(UNKNOWN()));
    let commit = sends(gate(ObservedBuilder::sealed(), &log));
    assert_eq!((commit.key, moves_main_to(&commit)), (key(9), Some(K)));
}

#[test]
fn after_a_rename_the_request_goes_to_the_present_name() {
    let mut log = Log::sealed();
    let mut commit = publish_of(&ObservedBuilder::sealed().0, K);
    commit.table = "shop.flights_old".parse().unwrap();
    log = log.attempt(crate::journal::record::Verb::Publish, commit, (None, None, None), Some(UNKNOWN()));
    let again = sends(gate(ObservedBuilder::sealed(), &log));
    assert_eq!((again.table, again.key), (table(), key(9)));
}

type Spoil = fn(&mut Recomputed, Digest);

#[test]
fn each_mismatch_is_rejected_as_evidence() {
    let wrong = digest("something else");
    let change: [(&str, Spoil); 10] = [
        ("the change is", |r, d| r.change = d),
        ("the tree is", |r, d| r.tree = d),
        ("the seal's own tree is", |r, d| r.seal_tree = d),
        ("the candidate is", |r, d| r.candidate = d),
        ("the contract is", |r, d| r.contract = d),
        ("the statement does not say that every check passed", |r, _| r.statement_passed = false),
        ("the file data/gone.parquet is gone", |r, _| r.missing_files = vec!["data/gone.parquet".to_owned()]),
        ("the file data/cut.parquet has another size", |r, _| r.changed_files = vec!["data/cut.parquet".to_owned()]),
        ("snapshot 30 shares the seal's manifest list", |r, _| r.shared_list = vec![S]),
        ("snapshot 60 shares the seal's manifest list", |r, _| r.shared_list = vec![M]),
    ];
    for (reason, spoil) in change {
        let mut found = intact();
        spoil(&mut found, wrong);
        let observed = ObservedBuilder::sealed().0;
        let reasons = wanting(gate_with(&observed, &Log::sealed().intent(), Ok(found)));
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].starts_with(reason), "{reasons:?}");
    }
}

#[test]
fn every_mismatch_is_named_at_once() {
    let found = Recomputed { change: digest("a"), contract: digest("b"), statement_passed: false, ..intact() };
    assert_eq!(wanting(gate_with(&ObservedBuilder::sealed().0, &no_journal(), Ok(found))).len(), 3);
}

#[test]
fn evidence_that_cannot_be_recomputed_is_none() {
    let reasons = wanting(gate_with(
        &ObservedBuilder::sealed().0,
        &Log::sealed().intent(),
        Err("the statement is gone".to_owned()),
    ));
    assert_eq!(reasons, ["the statement is gone"]);
}

fn edit_seal(key: &str, value: Option<&str>) -> ObservedBuilder {
    ObservedBuilder::sealed().with(|table| {
        let seal = table.snapshots.get_mut(&K).unwrap();
        match value {
            Some(value) => seal.summary.insert(key.to_owned(), value.to_owned()),
            None => seal.summary.remove(key),
        };
    })
}

#[test]
fn a_seal_that_lacks_a_digest_is_no_evidence() {
    for key in [summary::CHANGE, summary::TREE, summary::CANDIDATE, summary::CONTRACT] {
        for value in [None, Some(""), Some("sha256:00")] {
            wanting(gate(edit_seal(key, value), &Log::sealed()));
        }
    }
    // A digest without its prefix, or in capitals, is another text.
    wanting(gate(edit_seal(summary::TREE, Some(&digest("tree").hex())), &Log::sealed()));
    wanting(gate(edit_seal(summary::TREE, Some(&digest("tree").to_string().to_uppercase())), &Log::sealed()));
}

#[test]
fn only_the_verdict_pass_is_one() {
    for value in ["fail", "", "PASS", "passed"] {
        assert_eq!(
            wanting(gate(edit_seal(summary::VERDICT, Some(value)), &Log::sealed())),
            ["the seal's verdict is not pass"]
        );
    }
}

#[test]
fn a_base_outside_the_ancestry_would_lose_its_rows() {
    // The seal claims a base that main is at, but does not stand on it.
    let observed = edit_seal(summary::BASE, Some("60")).other(M, Some(N)).main(M);
    let reasons = wanting(gate(observed, &Log::sealed()));
    assert!(reasons[0].contains("the base 60 is not in the seal's ancestry"), "{reasons:?}");
}

#[test]
fn a_branch_that_lost_its_retention_is_refused() {
    let kept = (Some(i32::MAX), Some(i64::MAX), Some(i64::MAX));
    let fields = [
        (None, None, None),
        (Some(i32::MAX), None, Some(i64::MAX)),
        (Some(i32::MAX), Some(i64::MAX), None),
        (None, Some(i64::MAX), Some(i64::MAX)),
        (Some(1), kept.1, kept.2),
        (kept.0, Some(86_400_000), kept.2),
        (kept.0, kept.1, Some(86_400_000)),
    ];
    for (min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms) in fields {
        let observed = ObservedBuilder::sealed().with(|table| {
            table.refs.get_mut(&audit()).unwrap().kind =
                RefKind::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms };
        });
        let reasons = wanting(gate(observed, &Log::sealed()));
        assert!(reasons[0].contains("lost its own retention"), "{reasons:?}");
    }
}

#[test]
fn a_newer_journal_is_refused_and_the_evidence_is_not_blamed() {
    let log = Log::sealed().event(Event::Unrecognised);
    let stopped = stops(gate(ObservedBuilder::sealed(), &log));
    assert!(matches!(stopped, PublishOutcome::Rejected { rejection: Rejection::Refused, .. }), "{stopped:?}");
    assert_eq!(stopped.exit_code(), 13);
}

#[test]
fn where_a_request_may_be_applied_no_stop_says_not_published() {
    let spoilt = Recomputed { tree: digest("x"), ..intact() };
    let bare = ObservedBuilder::sealed().with(|table| {
        table.refs.get_mut(&audit()).unwrap().kind =
            RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    });
    for reply in [None, Some(UNKNOWN()), Some(ReplyRecord::Accepted)] {
        let log = Log::sealed().publish(K, reply);
        let newer = log.clone().event(Event::Unrecognised);
        for decision in [
            gate_with(&ObservedBuilder::sealed().0, &log.intent(), Ok(spoilt.clone())),
            gate_with(&ObservedBuilder::sealed().0, &log.intent(), Err("unreadable".to_owned())),
            gate(bare.clone(), &log),
            gate(ObservedBuilder::sealed(), &newer),
        ] {
            let stopped = stops(decision);
            assert!(matches!(stopped, PublishOutcome::Unresolved { cause: Cause::InFlight, .. }), "{stopped:?}");
            assert_eq!(stopped.exit_code(), 20);
        }
    }
}

#[test]
fn every_other_state_stops() {
    let sealed = ObservedBuilder::sealed;
    let stopped = |observed| stops(gate_with(&ObservedBuilder::build(observed), &no_journal(), Ok(intact())));
    let published = |via, visibility| PublishOutcome::Published { via, visibility, sealed: true };
    assert_eq!(stopped(ObservedBuilder::published()), published(Via::AlreadyThere, Visibility::Visible));
    // Rolled back: never sent again.
    assert_eq!(stopped(ObservedBuilder::published().main(N)), published(Via::AlreadyThere, Visibility::RolledBack));
    assert_eq!(stopped(sealed().main(K)), published(Via::Bypassed, Visibility::Visible));
    assert_eq!(
        stopped(ObservedBuilder::published().unref(&crate::publish::testkit::published())),
        published(Via::AlreadyThere, Visibility::Visible)
    );
    let codes = [
        (ObservedBuilder::fenced().main(K), 21),
        (sealed().tag(crate::publish::testkit::published(), N), 21),
        (ObservedBuilder::fenced(), 13),
        (sealed().other(M, Some(N)).main(M), 11),
        (sealed().with(|table| table.current_schema_id = 4), 11),
        (ObservedBuilder::staged(), 10),
        (sealed().other(X, Some(K)).branch(audit(), X), 10),
        (ObservedBuilder::base().branch(audit(), N), 10),
        (sealed().tag(audit(), N), 21),
        (sealed().unref(&audit()), 21),
        (ObservedBuilder::base(), 2),
    ];
    for (number, (observed, code)) in codes.into_iter().enumerate() {
        assert_eq!(stopped(observed).exit_code(), code, "case {number}");
    }
    // Another table, and an older one.
    let intent = Log::sealed().intent();
    let other = sealed().with(|table| table.uuid = TableUuid(uuid::Uuid::from_u128(78))).0;
    assert_eq!(stops(gate_with(&other, &intent, Ok(intact()))).exit_code(), 20);
    let mut remembering = intent;
    remembering.remembered_sequence_number = 100;
    assert_eq!(stops(gate_with(&sealed().0, &remembering, Ok(intact()))).exit_code(), 21);
}

#[test]
fn a_finding_that_no_longer_fits_the_table_sends_nothing() {
    // The finding says sealed, the table as given has lost the seal, or the marker below it.
    let sealed = ObservedBuilder::sealed();
    let finding = reconcile(&no_journal(), &TableView::Present(Box::new(sealed.0.clone())), FilesLive::NotKnown);
    assert_eq!(finding.state, State::Sealed { seal: K, sent: Sent::NoJournal });
    for gone in [K, B] {
        let observed = sealed.clone().forget(gone).0;
        wanting(decide(&no_journal(), &observed, &finding, &Ok(intact()), &table(), key(9)));
    }
    // Main appeared under the first publication of a table.
    let first = ObservedBuilder::sealed_first();
    let finding = reconcile(&no_journal(), &TableView::Present(Box::new(first.0.clone())), FilesLive::NotKnown);
    let observed = first.other(M, None).main(M).0;
    let reasons = wanting(decide(&no_journal(), &observed, &finding, &Ok(intact()), &table(), key(9)));
    assert!(reasons[0].contains("begun on an empty table"), "{reasons:?}");
}

#[test]
fn the_marker_is_found_below() {
    let intent = no_journal();
    let observed = ObservedBuilder::sealed().other(X, Some(K)).0;
    for from in [X, K, S, B] {
        assert_eq!(marker_below(&intent, &observed, from), Some(B));
    }
    assert_eq!(marker_below(&intent, &observed, N), None);
    let next = Intent::empty(id().next_generation().unwrap(), None);
    assert_eq!(marker_below(&next, &observed, K), None);
}

/// BEGIN, STAGE and SEAL with the table each was planned from.
fn adding() -> Vec<(&'static str, ObservedBuilder, Commit, SnapshotId)> {
    let (base, begun, staged) = (ObservedBuilder::base(), ObservedBuilder::begun(), ObservedBuilder::staged());
    let begins = on(&base.0, |t| begin(t, snapshot(B, Some(N), 2, marker_summary(OURS, Some(N)))));
    let stages = on(&begun.0, |t| stage(t, B, snapshot(S, Some(B), 3, staged_summary(OURS))));
    let seals = on(&staged.0, |t| seal(t, S, snapshot(K, Some(S), 4, seal_summary(OURS, Some(N), &[])), Vec::new()));
    vec![("begin", base, begins, B), ("stage", begun, stages, S), ("seal", staged, seals, K)]
}

#[test]
fn what_adds_a_snapshot_landed_where_the_table_has_it() {
    for (verb, before, commit, added) in adding() {
        assert_eq!(landed(&before.0, &commit), Landed::NotYet, "{verb}");
        let after = ObservedBuilder(apply(&before.0, &commit).unwrap());
        assert_eq!(landed(&after.0, &commit), Landed::Yes, "{verb}");
        // Wherever the refs went since.
        let later = after.clone().other(X, Some(added)).branch(audit(), X).other(M, Some(N)).main(M);
        assert_eq!(landed(&later.0, &commit), Landed::Yes, "{verb}");
        let fenced = later.clone().tag(closed(), X).tag(audit(), N);
        assert_eq!(landed(&fenced.0, &commit), Landed::Yes, "{verb}");
    }
}

#[test]
fn it_never_will_where_what_it_requires_has_moved() {
    for (verb, before, commit, _) in adding() {
        for (what, moved) in [
            ("the branch", before.clone().other(X, Some(N)).branch(audit(), X)),
            ("a receipt", before.clone().tag(published(), N)),
            ("a fence", before.clone().tag(closed(), N)),
            ("the table", before.clone().with(|table| table.uuid.0 = uuid::Uuid::from_u128(78))),
        ] {
            assert_eq!(landed(&moved.0, &commit), Landed::Never, "{verb}: {what}");
        }
        // Main concerns BEGIN alone.
        let main = before.clone().other(M, Some(N)).main(M);
        let expected = if verb == "begin" { Landed::Never } else { Landed::NotYet };
        assert_eq!(landed(&main.0, &commit), expected, "{verb}");
        let gone = before.unref(&audit());
        let expected = if verb == "begin" { Landed::NotYet } else { Landed::Never };
        assert_eq!(landed(&gone.0, &commit), expected, "{verb}");
    }
}

#[test]
fn part_of_what_a_commit_adds_is_not_all() {
    let begun = ObservedBuilder::begun();
    let mut commit = on(&begun.0, |t| stage(t, B, snapshot(S, Some(B), 3, staged_summary(OURS))));
    commit.updates.push(iceberg::TableUpdate::AddSnapshot { snapshot: snapshot(X, Some(S), 4, Vec::new()) });
    let half = begun.clone().other(S, Some(B));
    assert_eq!(landed(&half.0, &commit), Landed::NotYet);
    assert_eq!(landed(&half.other(X, Some(S)).0, &commit), Landed::Yes);
    // What adds nothing is not decided by what it adds.
    commit.updates.clear();
    assert_eq!(landed(&begun.0, &commit), Landed::NotYet);
}
