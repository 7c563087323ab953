//! What `run` does in each state, and what `begin` does.

use crate::publish::reconcile::{Absence, Sent, State, Visibility};
use crate::publish::rerun::{AfterJob, Known, RunStep, after_job, failed_exit, hinders, run_step};
use crate::publish::state::{Beginnable, beginnable};
use crate::publish::testkit::*;

use RunStep::{Begin, BeginNext, Done, Publish, Reconcile, Refuse, Restart, RunJob};

const CLEAR: Known = Known { ours: true, base_is_main: true, cut_off: false, only_begins: false, abandon_sent: false };

/// Every state, with the step where nothing else is known, the step on another's candidate, and whether an earlier
/// generation in it stands in the way.
fn table() -> Vec<(State, RunStep, RunStep, bool)> {
    let (snapshot, visibility) = (Some(S), Visibility::Visible);
    let sealed = |sent| (State::Sealed { seal: K, sent }, Publish, Refuse, true);
    vec![
        (State::Lost { reason: String::new(), renamed: None, why: Absence::Missing }, Reconcile, Reconcile, true),
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

/// What was to be abandoned is never published by the same line again.
#[test]
fn what_was_to_be_abandoned_is_not_published() {
    for (state, step, theirs, _) in table() {
        let known = Known { abandon_sent: true, ..CLEAR };
        let expected = match &state {
            State::Sealed { sent: Sent::InFlight, .. } => Reconcile,
            State::Sealed { .. } => Refuse,
            State::Open { .. } => Restart,
            _ => step,
        };
        assert_eq!(run_step(&state, known), expected, "{state:?}");
        assert_eq!(run_step(&state, Known { ours: false, ..known }), theirs, "{state:?}");
    }
}

#[test]
fn after_a_job_the_table_decides() {
    for (state, ..) in table() {
        let (well, badly) = match &state {
            State::Sealed { sent: Sent::InFlight, .. } => (AfterJob::Publish, AfterJob::Reconcile),
            State::Open { .. } | State::SubjectMoved { .. } | State::Moved { .. } | State::Sealed { .. } => {
                (AfterJob::Validate, AfterJob::Stays)
            }
            _ => (AfterJob::Reconcile, AfterJob::Reconcile),
        };
        assert_eq!((after_job(&state, true), after_job(&state, false)), (well, badly), "{state:?}");
    }
}

/// A failed job is told by its own code, unless someone has to look first, or it may be visible.
#[test]
fn a_failed_job_hides_nothing_and_is_hidden_by_nothing() {
    let (snapshot, visibility) = (Some(S), Visibility::Visible);
    for (state, code) in [
        (State::Open { head: B, marker: B }, 3),
        (State::Closed, 3),
        (State::Published { snapshot: K, sealed: true, visibility }, 3),
        (State::Bypassed { snapshot, sealed: true, visibility, head: K }, 3),
        (State::Bypassed { snapshot, sealed: false, visibility, head: S }, 21),
        (State::VisibleAfterFence { snapshot, visibility }, 21),
        (State::Gone, 21),
        (State::Sealed { seal: K, sent: Sent::InFlight }, 20),
        (State::Sealed { seal: K, sent: Sent::None }, 3),
        (State::Lost { reason: String::new(), renamed: None, why: Absence::Unreachable }, 20),
    ] {
        assert_eq!(failed_exit(&state, 3), code, "{state:?}");
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
