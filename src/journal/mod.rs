//! The memory of what was tried: an append-only log for each publication, and the statements by digest.
//!
//! The catalog is the authority on what is visible; the journal remembers what the catalog cannot: whether a commit
//! was sent, what came back, why a candidate was closed. A record of intent is durable *before* its effect. Two
//! writers cannot both take a number, because a record is put only where none exists. Source: `protocol.md`,
//! "Journal".

pub mod codec;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod fold;
pub mod lease;
pub mod local;
pub mod log;
pub mod memory;
pub mod object;
pub mod process;
pub mod proof;
pub mod record;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::clock::Clock;
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, PublicationId, TableUuid};
use record::Record;

pub use proof::PutIfAbsent;

/// Names one log: `<root>/<catalog-identity>/<table-uuid>/<id>/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey {
    /// The catalog.
    pub catalog: CatalogIdentity,
    /// The table, whatever its name.
    pub table: TableUuid,
    /// The publication.
    pub publication: PublicationId,
}

/// Whether a record took its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// Ours is the record of that number, durably.
    Won,
    /// Another record has that number.
    Taken,
}

/// Two instants by the clock of a journal's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreTimes {
    /// When a record was stored.
    pub stored: DateTime<Utc>,
    /// What time it is now.
    pub now: DateTime<Utc>,
}

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store failed. For a put it is not known whether the record is there; appending again with the same record
    /// finds out.
    #[error("journal {path}: {reason}{}", if *.unwritable { "; free some space, then run the same command again" } else { "" })]
    Io {
        /// Where.
        path: String,
        /// What the system said.
        reason: String,
        /// The disk is full.
        unwritable: bool,
    },
    /// It may only be read, by this user or by anyone: nothing was stored.
    #[error("journal {path} is read-only: {reason}; grant access there, then run the same command again")]
    ReadOnly {
        /// Where.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The store does not accept the key: nothing was stored.
    #[error("journal {path}: {reason}")]
    Forbidden {
        /// Where.
        path: String,
        /// What the store said, and what to do.
        reason: String,
    },
    /// What was given is no place for a journal.
    #[error("journal {path}: {reason}")]
    Invalid {
        /// As given.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A record is not readable as one, or a number is missing before a later one.
    #[error(
        "journal record {path} is damaged: {reason}; what the table shows is unaffected: `calve reconcile` with another --journal reads it"
    )]
    Damaged {
        /// The record.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The log holds records of a newer format: it can be read, but is never appended to.
    #[error(
        "journal record {path} has format {found}, and this calve writes {supported}: use a newer calve for this publication"
    )]
    Newer {
        /// The record.
        path: String,
        /// Its format.
        found: u32,
        /// The newest format this calve writes.
        supported: u32,
    },
    /// A record does not follow from those before it.
    #[error("journal {path}: record {number} does not follow: {reason}")]
    Impossible {
        /// The log.
        path: String,
        /// The record's number.
        number: u32,
        /// Why.
        reason: String,
    },
}

/// Where logs and statements are kept.
#[async_trait]
pub trait Journal: Debug + Send + Sync {
    /// The root as a URI or path; recorded in the marker, so that another journal refuses to act.
    fn root(&self) -> String;

    /// All records of a log, in order, the first numbered 1. Empty for a log that does not exist.
    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError>;

    /// Is the record of this number the one of this id? `false` where there is none. Which it was when the log was read, tells
    /// whether the journal was put back to an earlier state since.
    async fn holds(&self, log: &LogKey, number: u32, id: Uuid) -> Result<bool, JournalError> {
        Ok(self.read(log).await?.iter().any(|record| record.number == number && record.id == id))
    }

    /// Puts a record under its number if there is none yet. Returns once it is durable.
    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError>;

    /// The publications of a table that have a log, sorted.
    async fn publications(
        &self,
        catalog: &CatalogIdentity,
        table: TableUuid,
    ) -> Result<Vec<PublicationId>, JournalError>;

    /// The catalogs under which there are logs, sorted; but for those whose identity is too long for a path.
    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError>;

    /// The tables of a catalog that have logs.
    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError>;

    /// Stores bytes under their digest, durably; storing the same again changes nothing. Returns the location.
    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError>;

    /// The bytes under a digest, verified against it; `None` where there are none.
    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError>;

    /// When a record was stored, and what time it is, both by the clock of the store; `None` where it does not tell, where the
    /// record is not there, and where `clock` is a simulated one. The present is had by storing an object under
    /// `<root>/probe/`, which is removed again.
    async fn times(&self, _log: &LogKey, _number: u32, _clock: &dyn Clock) -> Result<Option<StoreTimes>, JournalError> {
        Ok(None)
    }

    /// Races several writers for one free name under `<root>/probe/`, which is removed again where that is allowed, and
    /// says what was seen. No part of a commit: for `probe`.
    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError>;
}
