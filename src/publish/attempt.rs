//! What is fixed before a commit is sent, and what is known of its reply.

use serde::{Deserialize, Serialize};

use super::commits::Commit;
use crate::digest::Digest;
use crate::ids::{Incarnation, Owner, PublicationId, RefName, SnapshotId, TableName};

/// A verb that commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Opens the candidate.
    Begin,
    /// Adds a data snapshot to the audit branch.
    Stage,
    /// Adds the seal.
    Seal,
    /// Moves main.
    Publish,
    /// Ends the candidate.
    Fence,
    /// Ends the candidate, and opens the next of its name.
    Restart,
    /// Leaves a receipt for a change that an engine published.
    Settle,
}

impl Verb {
    /// The verb as people know it.
    pub fn word(self) -> &'static str {
        match self {
            Verb::Begin => "begin",
            Verb::Stage => "stage",
            Verb::Seal => "seal",
            Verb::Publish => "publish",
            Verb::Fence => "abandon",
            Verb::Restart => "restart",
            Verb::Settle => "settle",
        }
    }
}

/// A reply as recorded: which of the four it was, never a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ReplyRecord {
    /// Provably never left.
    NotSent {
        /// Why.
        reason: String,
    },
    /// Said to be applied.
    Accepted,
    /// Said not to be applied.
    Refused {
        /// The status.
        status: u16,
        /// The catalog's words.
        message: String,
    },
    /// Anything else.
    Unknown {
        /// What was seen.
        reason: String,
    },
}

/// Why a candidate was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseReason {
    /// A check failed, and the contract says quarantine.
    Quarantined,
    /// A person or a job gave it up.
    Abandoned,
    /// A newer candidate with the same files took its place.
    Superseded,
    /// The job is run again, and the next candidate, with files of its own, took its place.
    Restarted,
}

/// A source of the job, as given: `--source NAME=REVISION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// Its name in the contract.
    pub name: String,
    /// The immutable version read.
    pub revision: String,
}

/// What BEGIN fixes for the life of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Opening {
    /// The publication.
    pub publication: PublicationId,
    /// This BEGIN among all of the same id.
    pub incarnation: Incarnation,
    /// The table's name at the time.
    pub table: TableName,
    /// `N`; `None` for a table that had no snapshot.
    pub base: Option<SnapshotId>,
    /// `B`.
    pub marker: SnapshotId,
    /// The canonical scope.
    pub scope: String,
    /// The scope as given, for showing.
    pub scope_text: String,
    /// The canonical reads; `None`: not declared, which means the whole table.
    pub reads: Option<String>,
    /// Who owns the candidate.
    pub owner: Owner,
    /// The code revision, as given.
    pub code: Option<String>,
    /// Pinned sources, sorted by name.
    pub sources: Vec<Source>,
    /// The journal's root.
    pub journal: String,
}

/// What a seal fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SealRecord {
    /// `K`.
    pub seal: SnapshotId,
    /// `S`: the data snapshot it stands on.
    pub data: SnapshotId,
    /// Earlier seals of this id.
    pub replaces: Vec<SnapshotId>,
    /// The candidate digest.
    pub candidate: Digest,
    /// The change digest.
    pub change: Digest,
    /// The tree digest.
    pub tree: Digest,
    /// The contract's digest.
    pub contract: Digest,
    /// The statement's digest.
    pub statement: Digest,
    /// Where the statement is.
    pub statement_location: String,
    /// The current schema when it was sealed.
    pub schema_id: i32,
    /// The default spec when it was sealed.
    pub spec_id: i32,
}

/// A data file that calve wrote, with the hash of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// The path exactly as in the manifest.
    pub path: String,
    /// Plain SHA-256 of its bytes.
    pub sha256: Digest,
}

/// Why and by which ref a candidate ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Closing {
    /// The class.
    pub why: CloseReason,
    /// In words.
    pub reason: String,
    /// The fence.
    pub fence: RefName,
}

/// One commit that was, or was about to be, sent.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its number among the publication's attempts, from 1.
    pub number: u32,
    /// Which commit.
    pub verb: Verb,
    /// The snapshots it adds.
    pub adds: Vec<SnapshotId>,
    /// The request.
    pub commit: Commit,
    /// What came back; `None`: never recorded, so it may have been applied.
    pub reply: Option<ReplyRecord>,
}

impl Attempt {
    /// May the request still be on its way, or have been applied unseen?
    pub fn is_open(&self) -> bool {
        match &self.reply {
            None | Some(ReplyRecord::Unknown { .. }) => true,
            Some(ReplyRecord::NotSent { .. } | ReplyRecord::Accepted | ReplyRecord::Refused { .. }) => false,
        }
    }

    /// Where the table does not show the request: may it be applied all the same, or have been?
    ///
    /// Besides open attempts these are accepted ones. A catalog that says it applied what the table does not show has
    /// contradicted itself, or was read from a copy that lags behind.
    pub fn may_be_applied(&self) -> bool {
        self.is_open() || matches!(self.reply, Some(ReplyRecord::Accepted))
    }
}
