//! The exit codes, for `reconcile` and for a `publish` that ends there.

use crate::publish::outcome::{Cause, ConflictClass, PublishOutcome, Rejection, Via, reconcile_exit};
use crate::publish::reconcile::{Absence, Finding, Moved, Sent, State, Visibility};
use crate::publish::testkit::*;

const VISIBLE: Visibility = Visibility::Visible;

fn publish(state: State) -> PublishOutcome {
    let finding = Finding { publication: id(), state, proof: vec!["seen".to_owned()], abandon: None };
    PublishOutcome::from_finding(&finding, Via::Reconciled, vec!["tried".to_owned()])
}

/// Every state with its exit codes: of `reconcile`, and of `publish`.
fn table() -> Vec<(State, u8, u8)> {
    let bypassed = |sealed| State::Bypassed { snapshot: Some(S), sealed, visibility: VISIBLE, head: K };
    let removed = |sealed| State::ReceiptRemoved { snapshot: Some(K), sealed, visibility: VISIBLE };
    let published = |sealed, visibility| State::Published { snapshot: K, sealed, visibility };
    let sealed = |sent| State::Sealed { seal: K, sent };
    vec![
        (State::Lost { reason: "404".to_owned(), renamed: None, why: Absence::Missing }, 20, 20),
        (State::Regressed { remembered: 2, found: 1 }, 21, 21),
        (published(true, Visibility::Visible), 0, 0),
        (published(true, Visibility::Superseded), 0, 0),
        (published(true, Visibility::RolledBack), 0, 0),
        (published(true, Visibility::HistoryEnds), 0, 0),
        (published(false, Visibility::Visible), 0, 0),
        (bypassed(true), 0, 0),
        (bypassed(false), 21, 21),
        (removed(true), 0, 0),
        (removed(false), 21, 21),
        (State::VisibleAfterFence { snapshot: Some(K), visibility: VISIBLE }, 21, 21),
        (State::Ambiguous { reason: "two".to_owned(), snapshots: vec![K, K2] }, 21, 21),
        (State::Closed, 14, 13),
        (sealed(Sent::None), 14, 14),
        (sealed(Sent::NoJournal), 14, 14),
        (sealed(Sent::Rejected), 13, 13),
        (sealed(Sent::Conflicted), 13, 13),
        (sealed(Sent::InFlight), 20, 20),
        (State::Moved { seal: K, moved: vec![Moved::Schema { sealed: 1, current: 2 }] }, 11, 11),
        (State::Open { head: S, marker: B }, 14, 10),
        (State::SubjectMoved { head: X, seal: K }, 10, 10),
        (State::Foreign { head: X }, 10, 10),
        (State::Consumed, 21, 21),
        (State::Gone, 21, 21),
        (State::Unknown, 2, 2),
    ]
}

#[test]
fn each_state_has_its_exit_codes() {
    for (state, reconciled, published) in table() {
        assert_eq!(reconcile_exit(&state), reconciled, "reconcile: {state:?}");
        assert_eq!(publish(state.clone()).exit_code(), published, "publish: {state:?}");
    }
}

#[test]
fn every_row_is_in_the_table() {
    let mut rows: Vec<_> = table().iter().map(|(state, ..)| state.row()).collect();
    rows.dedup();
    assert_eq!(rows, (0..=12).collect::<Vec<u8>>());
}

#[test]
fn only_what_was_visible_is_published() {
    // "Published" implies that it was visible: rows 2 and 3 alone.
    for (state, ..) in table() {
        let outcome = publish(state.clone());
        if matches!(outcome, PublishOutcome::Published { .. }) {
            assert!(matches!(state.row(), 2 | 3), "{state:?}");
        }
    }
}

#[test]
fn states_that_may_be_applied_are_unresolved_with_their_cause() {
    let cause = |state| match publish(state) {
        PublishOutcome::Unresolved { cause, .. } => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(cause(State::Lost { reason: String::new(), renamed: None, why: Absence::Missing }), Cause::Lost);
    assert_eq!(cause(State::Regressed { remembered: 2, found: 1 }), Cause::Regressed);
    assert_eq!(cause(State::Ambiguous { reason: String::new(), snapshots: vec![] }), Cause::Ambiguous);
    assert_eq!(cause(State::VisibleAfterFence { snapshot: None, visibility: VISIBLE }), Cause::Ambiguous);
    assert_eq!(cause(State::Sealed { seal: K, sent: Sent::InFlight }), Cause::InFlight);
    assert_eq!(cause(State::Consumed), Cause::HorizonLost);
    assert_eq!(cause(State::Gone), Cause::HorizonLost);
}

#[test]
fn every_outcome_has_its_exit_code() {
    let unresolved = |cause| PublishOutcome::Unresolved { cause, reasons: vec![] }.exit_code();
    let rejected = |rejection| PublishOutcome::Rejected { rejection, reasons: vec![] }.exit_code();
    let published = |via, sealed| PublishOutcome::Published { via, visibility: VISIBLE, sealed }.exit_code();
    assert_eq!([Cause::InFlight, Cause::Lost].map(unresolved), [20, 20]);
    assert_eq!([Cause::HorizonLost, Cause::Ambiguous, Cause::Torn, Cause::Regressed].map(unresolved), [21; 4]);
    assert_eq!(
        [Rejection::Evidence, Rejection::Refused, Rejection::Waiting, Rejection::UnknownId].map(rejected),
        [10, 13, 14, 2]
    );
    for via in [Via::Direct, Via::AlreadyThere, Via::Reconciled, Via::Bypassed] {
        assert_eq!(published(via, true), 0);
    }
    assert_eq!(published(Via::Bypassed, false), 21);
    let conflict = PublishOutcome::Conflict { class: ConflictClass::Unclassified, reasons: vec![] };
    assert_eq!(conflict.exit_code(), 11);
}

#[test]
fn how_it_is_known_is_kept() {
    let finding = |state| Finding { publication: id(), state, proof: vec![], abandon: None };
    let published = finding(State::Published { snapshot: K, sealed: true, visibility: Visibility::Superseded });
    for via in [Via::Direct, Via::AlreadyThere, Via::Reconciled] {
        let expected = PublishOutcome::Published { via, visibility: Visibility::Superseded, sealed: true };
        assert_eq!(PublishOutcome::from_finding(&published, via, vec![]), expected);
    }
    let bypassed = finding(State::Bypassed { snapshot: Some(S), sealed: true, visibility: VISIBLE, head: K });
    let expected = PublishOutcome::Published { via: Via::Bypassed, visibility: VISIBLE, sealed: true };
    assert_eq!(PublishOutcome::from_finding(&bypassed, Via::Direct, vec![]), expected);
}

#[test]
fn reasons_come_before_the_proof() {
    let PublishOutcome::Conflict { reasons, .. } = publish(State::Moved { seal: K, moved: vec![] }) else { panic!() };
    assert_eq!(reasons, ["tried", "seen"]);
    let PublishOutcome::Rejected { reasons, .. } = publish(State::Closed) else { panic!() };
    assert_eq!(reasons, ["the publication is closed for ever", "tried", "seen"]);
}

#[test]
fn outcomes_in_json() {
    let json = serde_json::to_value(publish(State::Sealed { seal: K, sent: Sent::InFlight })).unwrap();
    assert_eq!(json, serde_json::json!({"outcome": "unresolved", "cause": "in-flight", "reasons": ["tried", "seen"]}));
}
