//! What `recover` does in each state.

use crate::journal::record::{Event, FORMAT, ReplyRecord};
use crate::publish::intent::{Intent, Verdict};
use crate::publish::reconcile::{Absence, Finding, Sent, State, Visibility};
use crate::publish::recover::{Known, Left, Recovery, Stands, recover};
use crate::publish::testkit::*;

use Stands::{Escalate, NeverOpened, Open, Settled, TableGone, Unresolved, Waiting};

const CLEAR: Known = Known { at_work: false, foreign: false, only_begins: false, fence: false };

fn finding(state: State) -> Finding {
    Finding { publication: id(), state, proof: Vec::new(), abandon: None }
}

/// Every state with how it stands.
fn table() -> Vec<(State, Stands)> {
    let (snapshot, visibility) = (Some(S), Visibility::Visible);
    let sealed = |sent| State::Sealed { seal: K, sent };
    vec![
        (State::Regressed { remembered: 2, found: 1 }, Escalate),
        (State::Published { snapshot: K, sealed: true, visibility }, Settled),
        (State::Published { snapshot: S, sealed: false, visibility: Visibility::RolledBack }, Settled),
        (State::Bypassed { snapshot, sealed: true, visibility, head: K }, Settled),
        (State::Bypassed { snapshot, sealed: false, visibility, head: S }, Escalate),
        (State::VisibleAfterFence { snapshot, visibility }, Escalate),
        (State::ReceiptRemoved { snapshot, sealed: true, visibility }, Settled),
        (State::ReceiptRemoved { snapshot, sealed: false, visibility }, Escalate),
        (State::Ambiguous { reason: String::new(), snapshots: Vec::new() }, Escalate),
        (State::Closed, Settled),
        (sealed(Sent::None), Waiting),
        (sealed(Sent::NoJournal), Waiting),
        (sealed(Sent::Rejected), Waiting),
        (sealed(Sent::Conflicted), Waiting),
        (sealed(Sent::InFlight), Unresolved),
        (State::Moved { seal: K, moved: Vec::new() }, Waiting),
        (State::Open { head: B, marker: B }, Open),
        (State::Open { head: S, marker: B }, Open),
        (State::SubjectMoved { head: X, seal: K }, Open),
        (State::Consumed, Escalate),
        (State::Gone, Escalate),
    ]
}

/// A PUBLISH without a reply, and a verdict after it, if there is one.
fn sent(row: Option<u8>) -> Intent {
    let mut intent = Log::sealed().publish(K, None).intent();
    intent.verdict = row.map(|row| Verdict { row, attempt: 3 });
    intent
}

/// Everything was answered, and nothing of it is a verdict.
fn answered() -> Intent {
    Log::sealed().intent()
}

#[test]
fn an_attempt_without_an_outcome_is_reconciled_and_once_recorded_only_told() {
    for (state, stands) in table() {
        let row = state.row();
        let of = |intent: &Intent| recover(intent, &finding(state.clone()), CLEAR);
        assert_eq!(of(&sent(None)), Recovery::Reconcile(stands), "{state:?}");
        let earlier = Intent { verdict: Some(Verdict { row, attempt: 2 }), ..sent(None) };
        assert_eq!(of(&earlier), Recovery::Reconcile(stands), "{state:?}: a verdict from before it was sent");
        // A bypass is not over before its receipt stands.
        let bypassed = matches!(state, State::Bypassed { .. });
        let told = if bypassed { Recovery::Reconcile(stands) } else { Recovery::Tell(stands) };
        assert_eq!(of(&sent(Some(row))), told, "{state:?}");
    }
}

#[test]
fn where_everything_was_answered_only_what_is_final_or_pressing_is_recorded() {
    for (state, stands) in table() {
        let recovery = recover(&answered(), &finding(state.clone()), CLEAR);
        let expected = match stands {
            Waiting | Open | NeverOpened | TableGone => Recovery::Tell(stands),
            Settled | Unresolved | Escalate => Recovery::Reconcile(stands),
        };
        assert_eq!(recovery, expected, "{state:?}");
    }
}

#[test]
fn only_what_is_open_is_fenced_and_only_where_that_is_asked_for() {
    for (state, stands) in table() {
        for intent in [answered(), sent(None)] {
            let fence = Known { fence: true, ..CLEAR };
            let fenced = recover(&intent, &finding(state.clone()), fence) == Recovery::Fence;
            assert_eq!(fenced, stands == Open, "{state:?}");
            assert_ne!(recover(&intent, &finding(state.clone()), CLEAR), Recovery::Fence, "{state:?}");
        }
    }
}

#[test]
fn a_begin_that_was_not_applied_is_no_history_lost() {
    let begun = Log::default().begin(OURS, B, UNKNOWN()).intent();
    let known = Known { only_begins: true, ..CLEAR };
    let gone = finding(State::Gone);
    assert_eq!(recover(&begun, &gone, known), Recovery::Reconcile(NeverOpened));
    assert_eq!(recover(&begun, &gone, Known { fence: true, ..known }), Recovery::Fence);
    assert_eq!(recover(&begun, &gone, CLEAR), Recovery::Reconcile(Escalate), "where the table still has its snapshots");
}

/// Neither a live lease nor a foreign candidate is touched, whatever its state and whatever was asked for.
#[test]
fn who_may_be_at_work_and_what_is_not_ours_is_left_alone() {
    let states = table().into_iter().map(|(state, _)| state).chain([State::Foreign { head: X }]);
    for state in states {
        for fence in [false, true] {
            let of = |known| recover(&sent(None), &finding(state.clone()), known);
            let at_work = Known { at_work: true, fence, ..CLEAR };
            assert_eq!(of(at_work), Recovery::Leave(Left::AtWork), "{state:?}");
            let foreign = Known { foreign: true, fence, ..CLEAR };
            assert_eq!(of(foreign), Recovery::Leave(Left::Foreign), "{state:?}");
        }
    }
    let theirs = finding(State::Foreign { head: X });
    assert_eq!(recover(&sent(None), &theirs, Known { fence: true, ..CLEAR }), Recovery::Leave(Left::NotOurs));
}

#[test]
fn records_of_a_newer_calve_are_only_read() {
    let mut log = Log::sealed().publish(K, None);
    log.records.last_mut().unwrap().format = FORMAT + 1;
    let mut unknown = Log::sealed();
    unknown = unknown.event(Event::Unrecognised);
    for intent in [log.intent(), unknown.intent()] {
        for (state, stands) in table() {
            let known = Known { fence: true, ..CLEAR };
            assert_eq!(recover(&intent, &finding(state.clone()), known), Recovery::Tell(stands), "{state:?}");
        }
    }
}

/// Of a table that cannot be read only the journal tells: what was sent and never seen may be visible.
#[test]
fn without_its_table_only_what_was_in_flight_is_unresolved() {
    for why in [Absence::Missing, Absence::Replaced, Absence::Unreachable] {
        let lost = finding(State::Lost { reason: String::new(), renamed: None, why });
        let of = |intent: &Intent| recover(intent, &lost, Known { fence: true, ..CLEAR });
        assert_eq!(of(&sent(None)), Recovery::Tell(Unresolved));
        assert_eq!(of(&sent(Some(2))), Recovery::Tell(TableGone));
        assert_eq!(of(&answered()), Recovery::Tell(TableGone));
        let refused = Log::sealed().publish(K, Some(refused(409))).intent();
        assert_eq!(of(&refused), Recovery::Tell(TableGone));
        let accepted = Log::sealed().publish(K, Some(ReplyRecord::Accepted)).intent();
        assert_eq!(of(&accepted), Recovery::Tell(Unresolved), "accepted, and its verdict was never recorded");
    }
}

#[test]
fn exit_codes() {
    for (stands, code) in
        [(Settled, 0), (Waiting, 0), (Open, 0), (NeverOpened, 0), (TableGone, 0), (Unresolved, 20), (Escalate, 21)]
    {
        assert_eq!(stands.exit_code(), code, "{stands:?}");
    }
}
