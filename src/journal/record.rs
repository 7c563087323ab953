//! One record of a log: an envelope, and the event it records.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::process::Process;
use crate::digest::Digest;
use crate::ids::{Owner, SnapshotId};
use crate::publish::commits::Commit;

pub use crate::publish::attempt::{CloseReason, Closing, Opening, ReplyRecord, SealRecord, Source, Verb, WrittenFile};

/// The format this calve writes. A newer one is read as far as it can be, and never appended to.
pub const FORMAT: u32 = 1;

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Record {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// Its place in the log, from 1.
    pub number: u32,
    /// Names the record itself: a refused put whose number holds this very id was ours all along.
    pub id: Uuid,
    /// When it was written, by the writer's clock.
    pub at: DateTime<Utc>,
    /// Who wrote it.
    pub by: Owner,
    /// What happened.
    pub event: Event,
}

/// Whose lease another took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TakenFrom {
    /// Tells two processes of one owner apart.
    pub holder: Uuid,
    /// Who it was.
    pub owner: Owner,
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A commit is about to be sent. Durable before it is.
    #[serde(rename_all = "kebab-case")]
    Intended {
        /// Its number among all attempts of the publication, from 1.
        attempt: u32,
        /// Which commit.
        verb: Verb,
        /// The snapshots it adds.
        adds: Vec<SnapshotId>,
        /// The table's last sequence number as read.
        sequence_number: i64,
        /// The request itself, so that the identical one can be sent again.
        commit: Box<Commit>,
        /// For BEGIN: what it fixes.
        opening: Option<Box<Opening>>,
        /// For SEAL: what it fixes.
        seal: Option<Box<SealRecord>>,
        /// For FENCE: why.
        closing: Option<Closing>,
        /// For STAGE: the files it adds.
        files: Vec<WrittenFile>,
    },
    /// What came back.
    #[serde(rename_all = "kebab-case")]
    Replied {
        /// Which attempt.
        attempt: u32,
        /// What.
        #[serde(flatten)]
        reply: ReplyRecord,
    },
    /// What the table showed afterwards.
    #[serde(rename_all = "kebab-case")]
    Decided {
        /// Which attempt; `None` for a reading without one.
        attempt: Option<u32>,
        /// The row of the reconcile table.
        row: u8,
        /// The verdict in a word, e.g. `published`.
        state: String,
        /// The table's last sequence number as read.
        sequence_number: i64,
        /// What main pointed at.
        main: Option<SnapshotId>,
    },
    /// Checks ran and did not all pass: nothing was sealed.
    #[serde(rename_all = "kebab-case")]
    CheckFailed {
        /// The head that was checked.
        head: SnapshotId,
        /// The statement of what was found.
        statement: Digest,
        /// Names of the checks that failed or erred.
        failed: Vec<String>,
    },
    /// Someone works on the candidate.
    #[serde(rename_all = "kebab-case")]
    LeaseTaken {
        /// Until when, unless renewed.
        until: DateTime<Utc>,
        /// Counts every taking and renewing of this lease, from 1.
        sequence: u32,
        /// Tells two processes of one owner apart.
        holder: Uuid,
        /// The process, where the system tells: once it has ended, so has its lease.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Process>,
        /// It is for every process of the owner, and outlasts the one that took it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reserved: bool,
        /// It was taken by `recover`, to act on what another left, not to work.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        claim: bool,
        /// Whose lease it took the place of, where that was never given back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<TakenFrom>,
    },
    /// They are done.
    #[serde(rename_all = "kebab-case")]
    LeaseReleased {
        /// Who held it.
        holder: Uuid,
    },
    /// An unknown kind, written by a newer calve. Read, shown, never written.
    #[serde(other)]
    Unrecognised,
}
