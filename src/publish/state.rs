//! What was seen of a publication, and the verdict over it: the rows of the reconcile table as a type, and what each
//! permits.

use serde::Serialize;

use super::attempt::CloseReason;
use super::intent::Intent;
use super::own::base_of;
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::observed::Observed;

/// What was seen under the table's name.
#[derive(Debug, Clone)]
pub enum TableView {
    /// The table.
    Present(Box<Observed>),
    /// It cannot be loaded.
    Missing {
        /// What the catalog said.
        reason: String,
        /// Where the same table was found under another name, if it was.
        renamed: Option<TableName>,
        /// In which way it is not there.
        why: Absence,
    },
}

/// In which way a table is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absence {
    /// The catalog says that there is none of that name, or none for this principal.
    Missing,
    /// Another table is under its name.
    Replaced,
    /// The catalog does not answer, or not so that it can be read.
    Unreachable,
}

/// Whether the files that a candidate added are live in main.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesLive {
    /// Which files it added is not known, or nobody looked.
    NotKnown,
    /// At least one is.
    Yes,
    /// None is.
    No,
}

/// How much of a published change readers of main see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Visibility {
    /// Main is at the change.
    Visible,
    /// Main is at newer snapshots that stand on it, or that hold its files all the same.
    Superseded,
    /// The change has left main's ancestry.
    RolledBack,
    /// Main's ancestry does not reach back far enough to tell.
    HistoryEnds,
}

/// What is known of the PUBLISH requests for a seal that still could be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// None is recorded.
    None,
    /// None is recorded, and there is no journal that would have recorded one: none at all, or not the one that the seal
    /// was recorded in. One may have been sent all the same.
    NoJournal,
    /// Every one was refused, or never left. Not final: the candidate can still be published.
    Rejected,
    /// The catalog named a conflict although the table shows none: the identical request may be sent again.
    Conflicted,
    /// At least one may still be applied.
    InFlight,
}

/// What moved under a sealed candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "moved", rename_all = "kebab-case")]
pub enum Moved {
    /// Main is not at the base.
    Main {
        /// The base.
        base: Option<SnapshotId>,
        /// Where main is.
        main: Option<SnapshotId>,
    },
    /// The current schema is not the one sealed under.
    Schema {
        /// As sealed.
        sealed: i32,
        /// As read.
        current: i32,
    },
    /// The default partition spec is not the one sealed under.
    Spec {
        /// As sealed.
        sealed: i32,
        /// As read.
        current: i32,
    },
}

/// The verdict, one variant a row (two where a row has two faces).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// Row 0: the table cannot be loaded, or is another one.
    Lost {
        /// What was seen.
        reason: String,
        /// Where the same table was found, if it was.
        renamed: Option<TableName>,
        /// In which way it is not there.
        why: Absence,
    },
    /// Row 1: the table is older than what was seen of it before.
    Regressed {
        /// The sequence number remembered.
        remembered: i64,
        /// The sequence number found.
        found: i64,
    },
    /// Row 2: the receipt stands.
    Published {
        /// The snapshot it names.
        snapshot: SnapshotId,
        /// Is it a seal?
        sealed: bool,
        /// What readers see of it.
        visibility: Visibility,
    },
    /// Row 3: an engine moved main to the candidate.
    Bypassed {
        /// The newest of the candidate's snapshots that main reached; `None` where only its files were found.
        snapshot: Option<SnapshotId>,
        /// Does evidence cover exactly what became visible?
        sealed: bool,
        /// What readers see of it.
        visibility: Visibility,
        /// The branch's head, which SETTLE consumes.
        head: SnapshotId,
    },
    /// Row 3: visible, although fenced.
    VisibleAfterFence {
        /// The newest of the candidate's snapshots that main reached.
        snapshot: Option<SnapshotId>,
        /// What readers see of it.
        visibility: Visibility,
    },
    /// Row 3: published, and the receipt was removed.
    ReceiptRemoved {
        /// The newest of the candidate's snapshots that main reached.
        snapshot: Option<SnapshotId>,
        /// Does evidence cover exactly what became visible?
        sealed: bool,
        /// What readers see of it.
        visibility: Visibility,
    },
    /// Rows 2 and 4: the table's own facts contradict each other.
    Ambiguous {
        /// Which.
        reason: String,
        /// The snapshots concerned.
        snapshots: Vec<SnapshotId>,
    },
    /// Row 5: fenced: not published, and never can be.
    Closed,
    /// Row 6: sealed, and nothing stands against publishing it.
    Sealed {
        /// `K`.
        seal: SnapshotId,
        /// What is known of requests.
        sent: Sent,
    },
    /// Row 7: sealed, and something moved.
    Moved {
        /// `K`.
        seal: SnapshotId,
        /// What.
        moved: Vec<Moved>,
    },
    /// Row 8: open, without a seal.
    Open {
        /// The branch's head.
        head: SnapshotId,
        /// `B`.
        marker: SnapshotId,
    },
    /// Row 9: the branch stands above a seal, which covers nothing of what was added.
    SubjectMoved {
        /// The branch's head.
        head: SnapshotId,
        /// The seal below it.
        seal: SnapshotId,
    },
    /// Row 9: a branch of this name without our marker, made by someone else.
    Foreign {
        /// The branch's head.
        head: SnapshotId,
    },
    /// Row 10: the name is a tag, and neither receipt nor fence is there.
    Consumed,
    /// Row 11: the branch is gone, and something of the publication is known.
    Gone,
    /// Row 12: nothing of it anywhere.
    Unknown,
}

impl State {
    /// The row of the table in `protocol.md`.
    pub fn row(&self) -> u8 {
        match self {
            State::Lost { .. } => 0,
            State::Regressed { .. } => 1,
            State::Published { .. } => 2,
            State::Bypassed { .. } | State::VisibleAfterFence { .. } | State::ReceiptRemoved { .. } => 3,
            State::Ambiguous { .. } => 4,
            State::Closed => 5,
            State::Sealed { .. } => 6,
            State::Moved { .. } => 7,
            State::Open { .. } => 8,
            State::SubjectMoved { .. } | State::Foreign { .. } => 9,
            State::Consumed => 10,
            State::Gone => 11,
            State::Unknown => 12,
        }
    }

    /// One word for it, as journals and JSON carry it.
    pub fn word(&self) -> &'static str {
        match self {
            State::Lost { .. } => "lost",
            State::Regressed { .. } => "regressed",
            State::Published { .. } => "published",
            State::Bypassed { .. } => "bypassed",
            State::VisibleAfterFence { .. } => "visible-after-fence",
            State::ReceiptRemoved { .. } => "receipt-removed",
            State::Ambiguous { .. } => "ambiguous",
            State::Closed => "closed",
            State::Sealed { sent, .. } => match sent {
                Sent::None | Sent::NoJournal => "sealed",
                Sent::Rejected => "rejected",
                Sent::Conflicted => "conflicted",
                Sent::InFlight => "in-flight",
            },
            State::Moved { .. } => "moved",
            State::Open { .. } => "open",
            State::SubjectMoved { .. } => "subject-moved",
            State::Foreign { .. } => "foreign",
            State::Consumed => "consumed",
            State::Gone => "gone",
            State::Unknown => "unknown",
        }
    }
}

/// The verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The publication.
    pub publication: PublicationId,
    /// The verdict.
    #[serde(flatten)]
    pub state: State,
    /// The observations that led to it, in the order of the table.
    pub proof: Vec<String>,
    /// A FENCE that was to end the candidate, where the table does not show it and nothing was done since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandon: Option<AbandonSent>,
}

/// A FENCE that the journal remembers and the table does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AbandonSent {
    /// Its number among the publication's attempts.
    pub attempt: u32,
    /// May it still be applied?
    pub may_be_applied: bool,
}

/// May a candidate in this state be fenced, and in which form? `None`: never.
pub fn fence_form(state: &State) -> Option<FenceForm> {
    match state {
        State::Open { head, .. }
        | State::SubjectMoved { head, .. }
        | State::Foreign { head }
        | State::Sealed { seal: head, .. }
        | State::Moved { seal: head, .. } => Some(FenceForm::Branch(*head)),
        State::Gone => Some(FenceForm::Absent),
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Closed
        | State::Consumed
        | State::Unknown => None,
    }
}

/// The two forms of FENCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceForm {
    /// The branch at this head is consumed.
    Branch(SnapshotId),
    /// The branch is gone.
    Absent,
}

/// The head that work on a candidate goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workable {
    /// The branch's head.
    pub head: SnapshotId,
    /// Is there a seal, which any work makes void?
    pub sealed: bool,
}

/// May a candidate in this state be staged to and validated? `None`: it is not open.
pub fn workable(state: &State) -> Option<Workable> {
    match state {
        State::Open { head, .. } => Some(Workable { head: *head, sealed: false }),
        State::Sealed { seal: head, .. } | State::Moved { seal: head, .. } | State::SubjectMoved { head, .. } => {
            Some(Workable { head: *head, sealed: true })
        }
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Closed
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone
        | State::Unknown => None,
    }
}

/// May an id in this state be begun?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginnable {
    /// Nothing of it is in the table.
    Fresh,
    /// It is open on this marker: the same owner's same BEGIN is done already.
    Open(SnapshotId),
    /// The id was used.
    Used,
}

/// May an id in this state be begun? `only_begins`: the journal knows of nothing but BEGINs, and the table of nothing.
pub fn beginnable(state: &State, only_begins: bool) -> Beginnable {
    match state {
        State::Unknown => Beginnable::Fresh,
        // A BEGIN of ours that was never applied leaves records, and nothing in the table.
        State::Gone if only_begins => Beginnable::Fresh,
        State::Open { marker, .. } => Beginnable::Open(*marker),
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Closed
        | State::Sealed { .. }
        | State::Moved { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone => Beginnable::Used,
    }
}

/// Could files in main show that a candidate in this state is visible, although no snapshot of it is in main's history, or
/// only in a part of it that main was rolled back from?
///
/// Not of a superseded one: it shares its files with the candidate that took its place. The one after a restart wrote files
/// of its own, so that those of the restarted one still tell.
pub fn files_may_tell(state: &State, observed: &Observed, intent: &Intent) -> bool {
    match state {
        State::Moved { .. } | State::SubjectMoved { .. } | State::Foreign { .. } | State::Consumed | State::Gone => {
            true
        }
        State::Closed => intent.closings.last().is_none_or(|closing| closing.why != CloseReason::Superseded),
        State::Open { marker, .. } => base_of(observed, *marker) != observed.main(),
        State::Published { visibility, .. } => *visibility == Visibility::RolledBack,
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Sealed { .. }
        | State::Unknown => false,
    }
}

/// Is it worth reading older metadata of the table?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookBack {
    /// Always: without it only a person could tell.
    Unasked,
    /// Only where someone asks for it: the table as it is decides, and older states could still add to it.
    Asked,
    /// Never: they cannot add anything.
    Never,
}

/// May older states of the table tell more of a candidate in this state? `only_begins`: the journal knows of nothing but
/// BEGINs, and the table of nothing.
pub fn past_may_tell(state: &State, only_begins: bool) -> LookBack {
    match state {
        State::Gone if only_begins => LookBack::Asked,
        State::Consumed | State::Gone => LookBack::Unasked,
        State::Published { visibility: Visibility::HistoryEnds, .. }
        | State::ReceiptRemoved { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::Closed
        | State::Sealed { .. }
        | State::Moved { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Unknown => LookBack::Asked,
        State::Lost { .. } | State::Regressed { .. } | State::Published { .. } | State::Ambiguous { .. } => {
            LookBack::Never
        }
    }
}

/// Is it decided for good, whatever the evidence? Then `publish` sends nothing, and only tells.
pub fn is_settled(state: &State) -> bool {
    match state {
        State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Closed => true,
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Ambiguous { .. }
        | State::Sealed { .. }
        | State::Moved { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone
        | State::Unknown => false,
    }
}
