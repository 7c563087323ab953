//! The sentences for verdicts and outcomes.

use super::page::snapshot;
use crate::publish::attempt::CloseReason;
use crate::publish::outcome::{Cause, ConflictClass, PublishOutcome, Rejection, Via};
use crate::publish::reconcile::{AbandonSent, Moved, Sent, State, Visibility};

/// A verdict in one line: a word in capitals, then what it means.
pub(super) fn state(state: &State) -> String {
    match state {
        State::Lost { reason, renamed, why: _ } => match renamed {
            Some(name) => format!("UNRESOLVED  the table cannot be loaded: {reason}; the same table is now {name}"),
            None => format!("UNRESOLVED  the table cannot be loaded: {reason}"),
        },
        State::Regressed { remembered, found } if found >= remembered => {
            "REGRESSED  the table shows less of it than the journal saw there: it was restored or replaced".to_owned()
        }
        State::Regressed { remembered, found } => format!(
            "REGRESSED  the table is at sequence number {found}, and it was seen at {remembered}: it was restored or replaced"
        ),
        State::Published { snapshot, sealed, visibility } => {
            format!("PUBLISHED  snapshot {snapshot}, {}{}", sight(*visibility), unsealed(*sealed))
        }
        State::Bypassed { snapshot: id, sealed, visibility, .. } => format!(
            "PUBLISHED  by an engine, not by calve: {}, {}{}",
            id.map_or_else(|| "its files are live in main".to_owned(), |id| format!("snapshot {id}")),
            sight(*visibility),
            unsealed(*sealed)
        ),
        State::VisibleAfterFence { snapshot: id, visibility } => {
            format!("VISIBLE AFTER CLOSE  {}, {}", snapshot(*id), sight(*visibility))
        }
        State::ReceiptRemoved { snapshot: id, sealed, visibility } => format!(
            "PUBLISHED  {}, {}{}; its receipt was removed by someone",
            snapshot(*id),
            sight(*visibility),
            unsealed(*sealed)
        ),
        State::Ambiguous { reason, .. } => format!("AMBIGUOUS  {reason}"),
        State::Closed => "CLOSED  not published, and never will be".to_owned(),
        State::Sealed { seal, sent } => match sent {
            Sent::None | Sent::NoJournal => format!("SEALED  K={seal}, not published, ready to be"),
            Sent::Rejected => format!("REJECTED  K={seal}, every request was refused; it can still be published"),
            Sent::Conflicted => {
                format!("REJECTED  K={seal}, the catalog names a conflict that the table does not show")
            }
            Sent::InFlight => format!("UNRESOLVED  K={seal}, a request was sent and may still be applied"),
        },
        State::Moved { seal, moved } => {
            let moved: Vec<_> = moved.iter().map(self::moved).collect();
            format!("CONFLICT  {} (K={seal})", moved.join("; "))
        }
        State::Open { head, marker } if head == marker => "OPEN  nothing staged yet".to_owned(),
        State::Open { head, .. } => format!("OPEN  staged, head {head}, not sealed"),
        State::SubjectMoved { head, seal } => {
            format!("OPEN  the branch moved to {head} after the seal {seal}, which no longer covers it")
        }
        State::Foreign { head } => format!("FOREIGN  a branch of this name at {head} that calve did not make"),
        State::Consumed => "HISTORY LOST  it was consumed, and neither receipt nor fence is left".to_owned(),
        State::Gone => "HISTORY LOST  its branch is gone, and neither receipt nor fence is left".to_owned(),
        State::Unknown => "UNKNOWN  nothing of it is in the table or the journal".to_owned(),
    }
}

/// A FENCE that the table does not show.
pub(super) fn abandon(sent: AbandonSent) -> String {
    let attempt = sent.attempt;
    match sent.may_be_applied {
        true => format!("an abandon was sent (attempt {attempt}), and may still be applied"),
        false => format!("it was to be abandoned (attempt {attempt}), and that was not applied"),
    }
}

/// What moved under a sealed candidate.
pub(super) fn moved(moved: &Moved) -> String {
    match moved {
        Moved::Main { base, main } => format!("main moved {}→{}", snapshot(*base), snapshot(*main)),
        Moved::Schema { sealed, current } => format!("the schema moved {sealed}→{current}"),
        Moved::Spec { sealed, current } => format!("the partition spec moved {sealed}→{current}"),
    }
}

/// What readers of main see.
pub(super) fn sight(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Visible => "visible",
        Visibility::Superseded => "visible below newer snapshots",
        Visibility::RolledBack => "rolled back since: readers no longer see it",
        Visibility::HistoryEnds => "and main's history does not reach back far enough to tell if it is still visible",
    }
}

fn unsealed(sealed: bool) -> &'static str {
    if sealed { "" } else { ", WITHOUT EVIDENCE" }
}

/// The first line of an outcome.
pub(super) fn outcome(outcome: &PublishOutcome) -> String {
    match outcome {
        PublishOutcome::Published { via, visibility, sealed } => {
            let via = match via {
                Via::Direct => "",
                Via::AlreadyThere => "  (it was already there)",
                Via::Reconciled => "  (reconciled: the table shows it)",
                Via::Bypassed => "  (by an engine, not by calve)",
            };
            let seen = match visibility {
                Visibility::Visible => String::new(),
                other => format!("  {}", sight(*other)),
            };
            format!("PUBLISHED{via}{seen}{}", unsealed(*sealed))
        }
        PublishOutcome::Conflict { class: ConflictClass::Unclassified | ConflictClass::Rebuild, .. } => {
            "CONFLICT  not published: it needs a new candidate".to_owned()
        }
        PublishOutcome::Conflict { class: ConflictClass::Reattach, .. } => {
            "CONFLICT  not published: main moved, and nothing that concerns it".to_owned()
        }
        PublishOutcome::Conflict { class: ConflictClass::Shape, .. } => {
            "CONFLICT  not published: the schema or partition spec moved, validate it again".to_owned()
        }
        PublishOutcome::Rejected { rejection: Rejection::Evidence, .. } => {
            "NOT PUBLISHED  the evidence is missing or does not hold".to_owned()
        }
        PublishOutcome::Rejected { rejection: Rejection::Refused, .. } => "NOT PUBLISHED  refused".to_owned(),
        PublishOutcome::Rejected { rejection: Rejection::Waiting, .. } => {
            "NOT PUBLISHED  it can still be published".to_owned()
        }
        PublishOutcome::Rejected { rejection: Rejection::UnknownId, .. } => {
            "NOT PUBLISHED  nothing is known of it".to_owned()
        }
        PublishOutcome::Unresolved { cause, .. } => format!("UNRESOLVED  {}; nothing was deleted", self::cause(*cause)),
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::InFlight => "a request was sent and may still be applied",
        Cause::Lost => "the table cannot be loaded, so it may be visible",
        Cause::HorizonLost => "the history that would tell is gone",
        Cause::Ambiguous => "the table's facts contradict each other, or a change is visible without evidence",
        Cause::Torn => "some tables changed, others not",
        Cause::Regressed => "the table is older than it was",
    }
}

/// The lines below an outcome.
pub(super) fn reasons(outcome: &PublishOutcome) -> &[String] {
    match outcome {
        PublishOutcome::Published { .. } => &[],
        PublishOutcome::Conflict { reasons, .. }
        | PublishOutcome::Rejected { reasons, .. }
        | PublishOutcome::Unresolved { reasons, .. } => reasons,
    }
}

/// Why a candidate ended.
pub(super) fn closed(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Quarantined => "quarantined",
        CloseReason::Abandoned => "abandoned",
        CloseReason::Superseded => "superseded",
        CloseReason::Restarted => "restarted",
    }
}
