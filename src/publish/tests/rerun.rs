//! What `run` does in each state, and what `begin` does.

use crate::publish::reconcile::{Sent, State, Visibility};
use crate::publish::rerun::{Known, RunStep, hinders, run_step};
use crate::publish::state::{Beginnable, beginnable};
use crate::publish::testkit::*;

use RunStep::{Begin, BeginNext, Done, Publish, Reconcile, Refuse, Restart, RunJob};

const CLEAR: Known = Known { ours: true, base_is_main: true, cut_off: false, only_begins: false };

/// Every state, with the step where nothing else is known, the step on another's candidate, and whether an earlier
/// generation in it stands in the way.
fn table() -> Vec<(State, RunStep, RunStep, bool)> {
    let (snapshot, visibility) = (Some(S), Visibility::Visible);
    let sealed = |sent| (State::Sealed { seal: K, sent }, Publish, Refuse, true);
    vec![
        (State::Lost { reason: String::new(), renamed: None }, Reconcile, Reconcile, true),
        (State::Regressed { remembered: 2, found: 1 }, Reconcile, Reconcile, true),
        (State::Published { snapshot: K, sealed: true, visibility }, Done, Done, true),
        (State::Published { snapshot: S, sealed: false, visibility: Visibility::RolledBack }, Done, Done, true),
        (State::Bypassed { snapshot, sealed: true, visibility, head: K }, Reconcile, Reconcile, true),
        (State::VisibleAfterFence { snapshot, visibility }, Reconcile, Reconcile, true),
        (State::ReceiptRemoved { snapshot, sealed: true, visibility }, Done, Done, true),
        (State::ReceiptRemoved { snapshot, sealed: false, visibility }, Reconcile, Reconcile, true),
        (State::Ambiguous { reason: String::new(), snapshots: Vec::new() }, Reconcile, Reconcile, true),
        (State::Closed, BeginNext, Refuse, false),
        sealed(Sent::None),
        sealed(Sent::NoJournal),
        sealed(Sent::Rejected),
        sealed(Sent::Conflicted),
        sealed(Sent::InFlight),
        (State::Moved { seal: K, moved: Vec::new() }, Restart, Refuse, true),
        (State::Open { head: B, marker: B }, RunJob, Refuse, true),
        (State::Open { head: S, marker: B }, Restart, Refuse, true),
        (State::SubjectMoved { head: X, seal: K }, Restart, Refuse, true),
        (State::Foreign { head: X }, Refuse, Refuse, false),
        (State::Consumed, Reconcile, Reconcile, false),
        (State::Gone, Reconcile, Reconcile, false),
        (State::Unknown, Begin, Begin, false),
    ]
}

#[test]
fn each_state_has_its_step() {
    for (state, ours, theirs, stands_in_the_way) in table() {
        assert_eq!(run_step(&state, CLEAR), ours, "{state:?}");
        assert_eq!(run_step(&state, Known { ours: false, ..CLEAR }), theirs, "{state:?}");
        assert_eq!(hinders(&state), stands_in_the_way, "{state:?}");
    }
}

#[test]
fn a_branch_is_used_again_only_where_nobody_else_can_write_and_main_is_its_base() {
    let untouched = State::Open { head: B, marker: B };
    assert_eq!(run_step(&untouched, Known { cut_off: true, ..CLEAR }), Restart);
    assert_eq!(run_step(&untouched, Known { base_is_main: false, ..CLEAR }), Restart);
    for (state, step, ..) in table().into_iter().filter(|(state, ..)| *state != untouched) {
        let known = Known { cut_off: true, base_is_main: false, ..CLEAR };
        assert_eq!(run_step(&state, known), step, "{state:?}");
    }
}

#[test]
fn a_begin_that_never_was_applied_is_begun() {
    for (state, step, ..) in table() {
        let expected = if state == State::Gone { Begin } else { step };
        assert_eq!(run_step(&state, Known { only_begins: true, ..CLEAR }), expected, "{state:?}");
    }
}

/// No state in which readers may see the change, or may come to, lets the job run.
#[test]
fn the_job_never_runs_beside_what_may_be_visible() {
    for (state, ..) in table() {
        let may_be_visible = match &state {
            State::Closed | State::Foreign { .. } | State::Unknown => false,
            State::Open { .. } | State::SubjectMoved { .. } | State::Moved { .. } => false,
            State::Lost { .. }
            | State::Regressed { .. }
            | State::Published { .. }
            | State::Bypassed { .. }
            | State::VisibleAfterFence { .. }
            | State::ReceiptRemoved { .. }
            | State::Ambiguous { .. }
            | State::Sealed { .. }
            | State::Consumed
            | State::Gone => true,
        };
        let step = run_step(&state, CLEAR);
        let runs = matches!(step, Begin | RunJob | Restart | BeginNext);
        assert!(!(may_be_visible && runs), "{state:?}: {step:?}");
    }
}

#[test]
fn only_an_unused_id_is_begun_and_an_open_one_found() {
    for (state, ..) in table() {
        for only_begins in [false, true] {
            let expected = match &state {
                State::Unknown => Beginnable::Fresh,
                State::Gone if only_begins => Beginnable::Fresh,
                State::Open { marker, .. } => Beginnable::Open(*marker),
                _ => Beginnable::Used,
            };
            assert_eq!(beginnable(&state, only_begins), expected, "{state:?}");
        }
    }
}
