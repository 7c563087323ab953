//! State is the fold of the log: [`Intent::next`] is the checked transition.
//!
//! An attempt goes `Intended → Replied`, once each; readings of the table (`Decided`) may follow at any time. A log that
//! breaks this was damaged or written by something else, and is an error naming the record.

use super::record::{Event, FORMAT, Record};
use crate::ids::{PublicationId, TableUuid};
use crate::publish::attempt::Attempt;
use crate::publish::intent::{Intent, Saw, SawWhat, Verdict};

/// Why a record does not follow from those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Numbers must run 1, 2, 3 …
    #[error("record {found} stands where {expected} was expected")]
    Number {
        /// The number that should have come.
        expected: u32,
        /// The number that came.
        found: u32,
    },
    /// Attempts must be numbered 1, 2, 3 …
    #[error("attempt {found} stands where {expected} was expected")]
    Attempt {
        /// The number that should have come.
        expected: u32,
        /// The number that came.
        found: u32,
    },
    /// A reply to an attempt that was never intended.
    #[error("a reply to attempt {0}, which was never recorded")]
    NoAttempt(u32),
    /// The log of another publication, under this one's name.
    #[error("record {number} opens {found}, and this is the log of {expected}: it was copied or moved here")]
    Foreign {
        /// The record's number.
        number: u32,
        /// Whose log this is by its name.
        expected: PublicationId,
        /// Whose it is by its records.
        found: PublicationId,
    },
    /// A second reply to one attempt.
    #[error("a second reply to attempt {0}")]
    SecondReply(u32),
}

impl Intent {
    /// Folds a log.
    pub fn fold(publication: PublicationId, table: TableUuid, records: &[Record]) -> Result<Self, FoldError> {
        records.iter().try_fold(Self::empty(publication, Some(table)), Self::next)
    }

    /// The memory after one more record.
    pub fn next(mut self, record: &Record) -> Result<Self, FoldError> {
        let expected = self.records.saturating_add(1);
        if record.number != expected {
            return Err(FoldError::Number { expected, found: record.number });
        }
        self.records = expected;
        self.newer |= record.format > FORMAT;
        match &record.event {
            Event::Intended { attempt, verb, adds, sequence_number, commit, opening, seal, closing, files } => {
                let expected = self.next_attempt();
                if *attempt != expected {
                    return Err(FoldError::Attempt { expected, found: *attempt });
                }
                if let Some(opening) = opening.as_deref().filter(|opening| opening.publication != self.publication) {
                    let (expected, found) = (self.publication.clone(), opening.publication.clone());
                    return Err(FoldError::Foreign { number: record.number, expected, found });
                }
                remember(&mut self, *sequence_number);
                self.attempts.push(Attempt {
                    number: *attempt,
                    verb: *verb,
                    adds: adds.clone(),
                    commit: commit.as_ref().clone(),
                    reply: None,
                });
                self.openings.extend(opening.as_deref().cloned());
                self.seals.extend(seal.as_deref().cloned());
                self.closings.extend(closing.clone());
                self.files.extend(files.iter().cloned());
            }
            Event::Replied { attempt, reply } => {
                let found = self.attempts.iter_mut().find(|known| known.number == *attempt);
                let known = found.ok_or(FoldError::NoAttempt(*attempt))?;
                if known.reply.is_some() {
                    return Err(FoldError::SecondReply(*attempt));
                }
                known.reply = Some(reply.clone());
            }
            Event::Decided { row, state, sequence_number, main, .. } => {
                remember(&mut self, *sequence_number);
                let attempt = self.attempts.last().map_or(0, |attempt| attempt.number);
                self.verdict = Some(Verdict { row: *row, attempt });
                let what = match (*row, state.as_str()) {
                    (2, _) | (3, "receipt-removed") => Some(SawWhat::Published),
                    (5, _) => Some(SawWhat::Closed),
                    _ => None,
                };
                let at_ms = record.at.timestamp_millis();
                let seen =
                    |what| Saw { what, record: record.number, at_ms, sequence_number: *sequence_number, main: *main };
                // Visible once is visible for ever: a fence that was seen later does not undo it.
                let kept = self.saw.filter(|saw| saw.what == SawWhat::Published && what == Some(SawWhat::Closed));
                self.saw = kept.or(what.map(seen)).or(self.saw);
            }
            Event::CheckFailed { .. } | Event::LeaseTaken { .. } | Event::LeaseReleased { .. } => {}
            Event::Unrecognised => self.newer = true,
        }
        Ok(self)
    }
}

fn remember(intent: &mut Intent, sequence_number: i64) {
    intent.remembered_sequence_number = intent.remembered_sequence_number.max(sequence_number);
}
