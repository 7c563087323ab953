//! What `doctor` has read, as plain data.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};

use crate::ids::{Owner, PublicationId, TableName};
use crate::observed::Observed;

/// Who can see a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalKind {
    /// It is where it was configured, or beside an embedded catalog.
    #[default]
    Configured,
    /// None is configured for a catalog that others use too: it is this user's, on this machine.
    OfThisUser,
}

/// Facts that concern no single table.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub journal: JournalKind,
    /// Its root, a URI or a path.
    pub journal_root: String,
    pub now: DateTime<Utc>,
    /// From which age an open publication counts as forgotten.
    pub older_than: Duration,
}

/// Facts of one table.
#[derive(Debug, Clone)]
pub(super) struct TableFacts {
    pub table: TableName,
    pub location: String,
    pub properties: BTreeMap<String, String>,
    pub observed: Observed,
    /// The size of its metadata as JSON, not compressed.
    pub metadata_bytes: u64,
    /// How many earlier metadata files its metadata names.
    pub metadata_log: usize,
    /// When it was changed last, by the catalog's clock, in milliseconds since 1970.
    pub last_updated_ms: i64,
    /// Publications that are not over, as `status` shows them.
    pub open: Vec<OpenPublication>,
    /// Leases that ran out or whose process ended, and that nobody released.
    pub leases_left: Vec<(PublicationId, Owner)>,
    /// What of the table's publications could not be read, and why.
    pub unreadable: Option<String>,
}

/// A publication that is not over.
#[derive(Debug, Clone)]
pub(super) struct OpenPublication {
    pub id: PublicationId,
    pub owner: Option<Owner>,
    pub begun: Option<DateTime<Utc>>,
    /// Is evidence sealed on it?
    pub sealed: bool,
}
