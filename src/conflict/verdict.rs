//! The verdict, and what collides.

use serde::Serialize;

use crate::ids::SnapshotId;

/// A row of the table in `protocol.md`, "Conflicts".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Rule {
    /// Data in q changed.
    K2,
    /// A file that the candidate removes or deletes rows of is gone, or has other deletes.
    K3,
    /// New equality deletes within reach.
    K4,
    /// Something came into reach of the candidate's own equality deletes.
    K5,
    /// The table, its format, schema or partition specs.
    K6,
    /// Something cannot be read.
    K7,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A data file was added.
    Added,
    /// A data file was removed.
    Removed,
    /// A data file of the candidate's own is in the table already.
    AddedTwice,
    /// Rows of a data file were deleted.
    RowsDeleted,
    /// Deletes of rows were taken back, or written anew.
    DeletesRemoved,
    /// Rows that equal given values were deleted.
    EqualityDeletes,
    /// Rows came under deletes that the candidate removes.
    Uncovered,
    /// A column, a type, a format version, a spec, or the table itself.
    Shape,
    /// It cannot be read.
    Unreadable,
}

/// Who changed something: a snapshot, and what its manifests and its summary say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Author {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The engine, by its summary, e.g. `spark 3.5.8`.
    pub engine: Option<String>,
    /// What it did, by its manifests where they can be read: `append`, `overwrite`, `delete`, `row-level delete`, …
    pub operation: String,
    /// When, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// One thing that collides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Collision {
    /// By which rule.
    pub rule: Rule,
    /// What was found.
    pub what: What,
    /// The file, as its manifest names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its partition, e.g. `day=2013-08-09`; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Its data sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<i64>,
    /// Not shown, only not excluded: partition and bounds leave it open.
    pub possible: bool,
    /// What a file and a rule cannot say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The snapshot that added the file; of something that is gone, what removed it is found in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    /// Who did it, where the history still tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
}

/// What a moved base means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[must_use = "a verdict says whether the candidate may be kept"]
pub enum Verdict {
    /// The same files may be put on the new main.
    Reattach {
        /// What moved without harm, and has to be checked again: schema, spec, format.
        again: Vec<String>,
    },
    /// It must be built again.
    Rebuild {
        /// Why, sorted; never empty.
        reasons: Vec<Collision>,
        /// May it be only because nobody declared what the job read?
        undeclared: bool,
    },
}

impl Verdict {
    /// May it be reattached?
    pub fn is_reattach(&self) -> bool {
        matches!(self, Verdict::Reattach { .. })
    }
}
