//! What was tried: the memory of one publication, which the journal folds from its log.

use super::attempt::{Attempt, Closing, Opening, SealRecord, Verb, WrittenFile};
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
    /// How many records there are.
    pub records: u32,
    /// Is anything in the log of a format or kind this calve does not write?
    pub newer: bool,
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

    /// The snapshots that a SETTLE of ours named in its receipt.
    pub fn settled(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        self.attempts
            .iter()
            .filter(|attempt| attempt.verb == Verb::Settle)
            .filter_map(|attempt| super::commits::receipt_of(&attempt.commit, &self.publication))
    }
}
