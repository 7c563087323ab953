//! What a person or a scheduler is told, and its exit code. Source: `protocol.md`, "Outcomes and exit codes".

use serde::Serialize;

use super::reconcile::{Finding, Moved, Sent, State, Visibility};

/// Done, published, verified.
pub const EXIT_DONE: u8 = 0;
/// calve failed: I/O, a vanished or damaged file or record, a full disk, a bug.
pub const EXIT_FAILED: u8 = 1;
/// The command line, configuration, contract, scope or an input file is wrong.
pub const EXIT_USAGE: u8 = 2;
/// Evidence failed or is missing: not published.
pub const EXIT_EVIDENCE: u8 = 10;
/// A conflict that needs a new candidate.
pub const EXIT_REBUILD: u8 = 11;
/// A conflict that a rebase can settle.
pub const EXIT_REATTACH: u8 = 12;
/// Rejected: permission, unknown table, unsupported or newer format, read-only, id used, or begun by another
/// owner, lease held, wrong state for this verb.
pub const EXIT_REJECTED: u8 = 13;
/// Not published, and nothing is wrong.
pub const EXIT_NOT_PUBLISHED: u8 = 14;
/// Unresolved: may be visible. Nothing was deleted.
pub const EXIT_UNRESOLVED: u8 = 20;
/// Ambiguous, torn, or history lost: a person must look.
pub const EXIT_ESCALATE: u8 = 21;

/// How it is known that a publication is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The catalog's own answer to this command's request shows it.
    Direct,
    /// It was published before this command.
    AlreadyThere,
    /// The answer was lost or refused, and the table shows it.
    Reconciled,
    /// An engine moved main there, not calve.
    Bypassed,
}

/// Why an attempt cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A request may still be applied.
    InFlight,
    /// The table cannot be loaded.
    Lost,
    /// The history that would tell is gone.
    HorizonLost,
    /// The table's facts contradict each other, or a change is visible without evidence.
    Ambiguous,
    /// Some tables of an atomic release changed, others not.
    Torn,
    /// The table is older than it was.
    Regressed,
}

/// Which kind of conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictClass {
    /// Main moved, and nobody looked what changed: every moved base needs a new candidate.
    Unclassified,
    /// Main moved, and what changed collides with the candidate: it must be built again.
    Rebuild,
    /// Main moved, and nothing that concerns the candidate changed: its files may be put on the new main.
    Reattach,
    /// Main is at the base, and the schema or the partition spec is another than the one sealed under: the same rows can be
    /// checked and sealed again.
    Shape,
}

/// Why nothing was sent, or what was sent is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// Evidence is missing, void, or failed.
    Evidence,
    /// The catalog refuses, or the publication is in the wrong state.
    Refused,
    /// Nothing is wrong: it is sealed, and no request was ever sent.
    Waiting,
    /// Nothing is known of such a publication: the id is wrong.
    UnknownId,
}

/// How `publish` ended. Deliberately not a `Result`: nothing here may be lost by `?`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[must_use = "an outcome says whether readers see the change"]
pub enum PublishOutcome {
    /// Readers of main see it, or saw it.
    Published {
        /// How that is known.
        via: Via,
        /// What they see now.
        visibility: Visibility,
        /// Does evidence cover what became visible?
        sealed: bool,
    },
    /// Not visible when read: the base moved. Final once fenced.
    Conflict {
        /// Which kind.
        class: ConflictClass,
        /// What moved.
        reasons: Vec<String>,
    },
    /// Not visible when read. Final once fenced.
    Rejected {
        /// Why, in a word.
        rejection: Rejection,
        /// Why, in sentences.
        reasons: Vec<String>,
    },
    /// May be applied.
    Unresolved {
        /// Why it cannot be told.
        cause: Cause,
        /// What was seen.
        reasons: Vec<String>,
    },
}

impl PublishOutcome {
    /// The exit code of `publish`.
    pub fn exit_code(&self) -> u8 {
        match self {
            PublishOutcome::Published { via: Via::Bypassed, sealed: false, .. } => EXIT_ESCALATE,
            PublishOutcome::Published { .. } => EXIT_DONE,
            PublishOutcome::Conflict { class, .. } => match class {
                ConflictClass::Unclassified | ConflictClass::Rebuild | ConflictClass::Shape => EXIT_REBUILD,
                ConflictClass::Reattach => EXIT_REATTACH,
            },
            PublishOutcome::Rejected { rejection: Rejection::Evidence, .. } => EXIT_EVIDENCE,
            PublishOutcome::Rejected { rejection: Rejection::Refused, .. } => EXIT_REJECTED,
            PublishOutcome::Rejected { rejection: Rejection::Waiting, .. } => EXIT_NOT_PUBLISHED,
            PublishOutcome::Rejected { rejection: Rejection::UnknownId, .. } => EXIT_USAGE,
            PublishOutcome::Unresolved { cause, .. } => match cause {
                Cause::InFlight | Cause::Lost => EXIT_UNRESOLVED,
                Cause::HorizonLost | Cause::Ambiguous | Cause::Torn | Cause::Regressed => EXIT_ESCALATE,
            },
        }
    }

    /// The outcome of a `publish` that ends at this finding. `via` is how a publication was found, if it was.
    pub fn from_finding(finding: &Finding, via: Via, mut reasons: Vec<String>) -> Self {
        reasons.extend(finding.proof.iter().cloned());
        let unresolved = |cause, reasons| PublishOutcome::Unresolved { cause, reasons };
        let rejected = |rejection, why: &str, mut reasons: Vec<String>| {
            reasons.insert(0, why.to_owned());
            PublishOutcome::Rejected { rejection, reasons }
        };
        match &finding.state {
            State::Lost { .. } => unresolved(Cause::Lost, reasons),
            State::Regressed { .. } => unresolved(Cause::Regressed, reasons),
            State::Published { sealed, visibility, .. } => {
                PublishOutcome::Published { via, visibility: *visibility, sealed: *sealed }
            }
            State::Bypassed { sealed, visibility, .. } => {
                PublishOutcome::Published { via: Via::Bypassed, visibility: *visibility, sealed: *sealed }
            }
            State::ReceiptRemoved { sealed: true, visibility, .. } => {
                PublishOutcome::Published { via, visibility: *visibility, sealed: true }
            }
            State::VisibleAfterFence { .. } | State::ReceiptRemoved { sealed: false, .. } | State::Ambiguous { .. } => {
                unresolved(Cause::Ambiguous, reasons)
            }
            State::Closed => rejected(Rejection::Refused, "the publication is closed for ever", reasons),
            State::Sealed { sent: Sent::InFlight, .. } => unresolved(Cause::InFlight, reasons),
            State::Sealed { sent: Sent::None, .. } => {
                rejected(Rejection::Waiting, "it is sealed and waits: no request was sent", reasons)
            }
            State::Sealed { sent: Sent::NoJournal, .. } => {
                rejected(Rejection::Waiting, "it is sealed and waits: no request is recorded here", reasons)
            }
            State::Sealed { sent: Sent::Rejected | Sent::Conflicted, .. } => {
                rejected(Rejection::Refused, "it was not applied, and can still be published", reasons)
            }
            State::Moved { moved, .. } => {
                let main = moved.iter().any(|moved| matches!(moved, Moved::Main { .. }));
                let class = if main { ConflictClass::Unclassified } else { ConflictClass::Shape };
                PublishOutcome::Conflict { class, reasons }
            }
            State::Open { .. } => rejected(Rejection::Evidence, "it has no seal: validate it first", reasons),
            State::SubjectMoved { .. } => rejected(
                Rejection::Evidence,
                "the branch moved after the seal: validate it again, or abandon it",
                reasons,
            ),
            State::Foreign { .. } => {
                rejected(Rejection::Evidence, "the branch was made by someone else: it can only be abandoned", reasons)
            }
            State::Consumed | State::Gone => unresolved(Cause::HorizonLost, reasons),
            State::Unknown => rejected(Rejection::UnknownId, "nothing is known of this publication", reasons),
        }
    }
}

/// The exit code of `reconcile` at this finding.
pub fn reconcile_exit(state: &State) -> u8 {
    match state {
        State::Lost { .. } => EXIT_UNRESOLVED,
        State::Regressed { .. } | State::Ambiguous { .. } | State::VisibleAfterFence { .. } => EXIT_ESCALATE,
        State::Published { .. } => EXIT_DONE,
        State::Bypassed { sealed, .. } | State::ReceiptRemoved { sealed, .. } => {
            if *sealed {
                EXIT_DONE
            } else {
                EXIT_ESCALATE
            }
        }
        State::Closed | State::Open { .. } => EXIT_NOT_PUBLISHED,
        State::Sealed { sent, .. } => match sent {
            Sent::None | Sent::NoJournal => EXIT_NOT_PUBLISHED,
            Sent::Rejected | Sent::Conflicted => EXIT_REJECTED,
            Sent::InFlight => EXIT_UNRESOLVED,
        },
        State::Moved { .. } => EXIT_REBUILD,
        State::SubjectMoved { .. } | State::Foreign { .. } => EXIT_EVIDENCE,
        State::Consumed | State::Gone => EXIT_ESCALATE,
        State::Unknown => EXIT_USAGE,
    }
}
