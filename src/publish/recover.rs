//! What `recover` does about a publication whose process may have ended in the middle of its work. Source: `protocol.md`,
//! "Journal".
//!
//! | who and what | is done |
//! |---|---|
//! | its marker names another journal, or the branch is not calve's | left alone |
//! | its lease may be live | left alone |
//! | records of a newer calve | told as it stands, nothing is recorded |
//! | published, closed, or only a person can tell | the verdict is recorded, where it is missing |
//! | visible by an engine's doing | SETTLE, as `reconcile` does it |
//! | a commit was sent and nobody saw its outcome | the verdict is recorded |
//! | sealed | waits for its publisher |
//! | open, or never opened | told; fenced where that was asked for |
//!
//! It never publishes, and never deletes.

use serde::Serialize;

use super::intent::Intent;
use super::outcome::{EXIT_DONE, EXIT_ESCALATE, EXIT_UNRESOLVED};
use super::state::{Finding, Sent, State};

/// What is known of a publication besides its log and the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// May the holder of its lease be at work?
    pub at_work: bool,
    /// Does its marker name another journal?
    pub foreign: bool,
    /// Does the journal know of nothing but BEGINs, and the table of nothing at all?
    pub only_begins: bool,
    /// Are open candidates to be fenced?
    pub fence: bool,
}

/// What `recover` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// It is not touched.
    Leave(Left),
    /// There is nothing to do but to say how it stands.
    Tell(Stands),
    /// Its verdict is recorded, and a bypass gets its receipt, as by `reconcile`.
    Reconcile(Stands),
    /// It is closed for ever.
    Fence,
}

/// Why a publication is not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// Someone may be at work on it.
    AtWork,
    /// It was begun with another journal.
    Foreign,
    /// The branch of its name was made by someone else.
    NotOurs,
}

/// How a publication stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stands {
    /// It is published, or closed for ever.
    Settled,
    /// It is sealed, and waits for who publishes it, or for who abandons it.
    Waiting,
    /// It is open, and nobody is at work on it.
    Open,
    /// Its BEGIN was not applied.
    NeverOpened,
    /// Its table is gone, and nothing of it was in flight.
    TableGone,
    /// It may be visible, or become so.
    Unresolved,
    /// Only a person can tell.
    Escalate,
}

impl Stands {
    /// The exit code of `recover` where this is the worst that it found.
    pub fn exit_code(self) -> u8 {
        match self {
            Stands::Settled | Stands::Waiting | Stands::Open | Stands::NeverOpened | Stands::TableGone => EXIT_DONE,
            Stands::Unresolved => EXIT_UNRESOLVED,
            Stands::Escalate => EXIT_ESCALATE,
        }
    }
}

/// Decides what `recover` does about one publication of its own journal.
pub fn recover(intent: &Intent, finding: &Finding, known: Known) -> Recovery {
    if known.foreign {
        return Recovery::Leave(Left::Foreign);
    }
    if known.at_work {
        return Recovery::Leave(Left::AtWork);
    }
    if matches!(finding.state, State::Foreign { .. }) {
        return Recovery::Leave(Left::NotOurs);
    }
    let stands = stands(intent, finding, known.only_begins);
    // What follows from records that are not understood is not known.
    if intent.newer || matches!(finding.state, State::Lost { .. }) {
        return Recovery::Tell(stands);
    }
    match stands {
        Stands::Open | Stands::NeverOpened if known.fence => Recovery::Fence,
        Stands::Settled | Stands::Escalate | Stands::Unresolved if !is_recorded(intent, finding) => {
            Recovery::Reconcile(stands)
        }
        Stands::Open | Stands::NeverOpened | Stands::Waiting if lacks_outcome(intent) => Recovery::Reconcile(stands),
        Stands::Settled
        | Stands::Escalate
        | Stands::Unresolved
        | Stands::Open
        | Stands::NeverOpened
        | Stands::Waiting
        | Stands::TableGone => Recovery::Tell(stands),
    }
}

/// Is nothing left to be done or recorded about a publication that is published or closed?
pub fn is_settled_and_recorded(intent: &Intent, finding: &Finding) -> bool {
    matches!(finding.state, State::Published { .. } | State::Closed) && is_recorded(intent, finding)
}

fn stands(intent: &Intent, finding: &Finding, only_begins: bool) -> Stands {
    match &finding.state {
        State::Lost { .. } if intent.undecided().is_some() => Stands::Unresolved,
        State::Lost { .. } => Stands::TableGone,
        State::Published { .. } | State::Closed => Stands::Settled,
        State::Bypassed { sealed, .. } | State::ReceiptRemoved { sealed, .. } => {
            if *sealed {
                Stands::Settled
            } else {
                Stands::Escalate
            }
        }
        State::Sealed { sent, .. } => match sent {
            Sent::None | Sent::NoJournal | Sent::Rejected | Sent::Conflicted => Stands::Waiting,
            Sent::InFlight => Stands::Unresolved,
        },
        State::Moved { .. } => Stands::Waiting,
        State::Open { .. } | State::SubjectMoved { .. } => Stands::Open,
        State::Gone if only_begins => Stands::NeverOpened,
        State::Regressed { .. }
        | State::VisibleAfterFence { .. }
        | State::Ambiguous { .. }
        | State::Consumed
        | State::Gone => Stands::Escalate,
        // Neither has a log here.
        State::Foreign { .. } | State::Unknown => Stands::NeverOpened,
    }
}

/// Does the log hold this verdict, from after its newest attempt?
fn is_recorded(intent: &Intent, finding: &Finding) -> bool {
    let newest = intent.attempts.last().map_or(0, |attempt| attempt.number);
    let row = finding.state.row();
    // A bypass is over when its receipt stands, which is another row.
    let settled = !matches!(finding.state, State::Bypassed { .. });
    settled && intent.verdict.is_some_and(|verdict| verdict.attempt == newest && verdict.row == row)
}

/// Was the newest commit sent, and neither an answer that tells nor a verdict recorded?
fn lacks_outcome(intent: &Intent) -> bool {
    let Some(newest) = intent.attempts.last() else { return false };
    newest.is_open() && intent.verdict.is_none_or(|verdict| verdict.attempt < newest.number)
}
