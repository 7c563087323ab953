//! What was tried: the memory of one publication, which the journal folds from its log.

use super::attempt::{Attempt, Closing, Opening, SealRecord, Verb, WrittenFile};
use super::state::AbandonSent;
use crate::ids::{Incarnation, PublicationId, SnapshotId, TableUuid};

/// The memory of one publication.
#[derive(Debug, Clone)]
pub struct Intent {
    /// The publication.
    pub publication: PublicationId,
    /// The table the log belongs to; `None` without a log.
    pub table: Option<TableUuid>,
    /// What each BEGIN that was sent fixed, in order; at most one of them opened the candidate.
    pub openings: Vec<Opening>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
    /// Every seal that was sent, in order.
    pub seals: Vec<SealRecord>,
    /// Every closing that was sent, in order.
    pub closings: Vec<Closing>,
    /// The data files calve wrote, with their hashes.
    pub files: Vec<WrittenFile>,
    /// The highest last-sequence-number that any record read; 0 without one.
    pub remembered_sequence_number: i64,
    /// The last verdict that was recorded.
    pub verdict: Option<Verdict>,
    /// The newest reading of the table that showed it published or closed.
    pub saw: Option<Saw>,
    /// How many records there are.
    pub records: u32,
    /// Is anything in the log of a format or kind this calve does not write?
    pub newer: bool,
}

/// A verdict that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The row of the reconcile table.
    pub row: u8,
    /// The number of the newest attempt by then; 0 without one.
    pub attempt: u32,
}

/// A reading of the table that showed a publication at its end, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saw {
    /// What the table showed.
    pub what: SawWhat,
    /// The number of the record.
    pub record: u32,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// The table's last sequence number as read.
    pub sequence_number: i64,
    /// `main` as read.
    pub main: Option<SnapshotId>,
}

/// What a recorded reading showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SawWhat {
    /// It was published: by its receipt, or by main's history after the receipt was removed.
    Published,
    /// It was closed, and not visible.
    Closed,
}

impl Intent {
    /// Nothing known.
    pub fn empty(publication: PublicationId, table: Option<TableUuid>) -> Self {
        Self {
            publication,
            table,
            openings: Vec::new(),
            attempts: Vec::new(),
            seals: Vec::new(),
            closings: Vec::new(),
            files: Vec::new(),
            remembered_sequence_number: 0,
            verdict: None,
            saw: None,
            records: 0,
            newer: false,
        }
    }

    /// The number that the next attempt takes.
    pub fn next_attempt(&self) -> u32 {
        self.attempts.last().map_or(0, |attempt| attempt.number).saturating_add(1)
    }

    /// Is there a log at all?
    pub fn has_journal(&self) -> bool {
        self.records > 0
    }

    /// What a BEGIN of this journal fixed.
    pub fn opening(&self, incarnation: Incarnation) -> Option<&Opening> {
        self.openings.iter().rev().find(|opening| opening.incarnation == incarnation)
    }

    /// The newest seal that was sent with this snapshot id.
    pub fn seal(&self, seal: SnapshotId) -> Option<&SealRecord> {
        self.seals.iter().rev().find(|record| record.seal == seal)
    }

    /// Every PUBLISH that would have moved main to this seal.
    pub fn publish_attempts(&self, seal: SnapshotId) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(move |attempt| {
            attempt.verb == Verb::Publish && super::commits::moves_main_to(&attempt.commit) == Some(seal)
        })
    }

    /// May any PUBLISH that was sent be applied, where the table does not show it?
    pub fn publish_may_be_applied(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.verb == Verb::Publish && attempt.may_be_applied())
    }

    /// The newest commit that was sent, and of which nobody saw what became of it: without the table it is not known
    /// whether readers see the candidate, or whether it is closed.
    ///
    /// A commit that only adds to the audit branch counts only while nothing came after it, since that would not have been
    /// made without its outcome.
    pub fn undecided(&self) -> Option<&Attempt> {
        let newest = self.attempts.last().map_or(0, |attempt| attempt.number);
        // Published, visible or closed: rows that no attempt made before them can change.
        if self.verdict.is_some_and(|verdict| verdict.attempt == newest && matches!(verdict.row, 2 | 3 | 5)) {
            return None;
        }
        self.attempts.iter().rev().find(|attempt| match attempt.verb {
            Verb::Publish | Verb::Fence | Verb::Restart | Verb::Settle => attempt.may_be_applied(),
            Verb::Begin | Verb::Stage | Verb::Seal => attempt.number == newest && attempt.is_open(),
        })
    }

    /// A FENCE after which nothing else was tried. Where the table does not show it, the candidate was to be abandoned all
    /// the same.
    pub fn abandon_sent(&self) -> Option<AbandonSent> {
        let last = self.attempts.last().filter(|attempt| attempt.verb == Verb::Fence)?;
        let fences = self.attempts.iter().filter(|attempt| attempt.verb == Verb::Fence);
        let may_be_applied = fences.clone().any(Attempt::may_be_applied);
        Some(AbandonSent { attempt: last.number, may_be_applied })
    }

    /// The snapshots that a SETTLE of ours named in its receipt.
    pub fn settled(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        self.attempts
            .iter()
            .filter(|attempt| attempt.verb == Verb::Settle)
            .filter_map(|attempt| super::commits::receipt_of(&attempt.commit, &self.publication))
    }
}
