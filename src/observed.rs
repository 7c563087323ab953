//! What was read of a table, as plain data: the facts that every decision is made from.
//!
//! [`Observed`] is a projection of Iceberg's table metadata (Iceberg spec, "Table Metadata") on what the protocol
//! speaks of: refs, snapshots and their ancestry, the snapshot log, sequence numbers, schema and spec. Nothing in it
//! is fetched later, so a decision over it is a pure function.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, Operation, Snapshot, SnapshotReference, SnapshotRetention, Summary, TableMetadata,
    TableMetadataBuilder,
};
use serde::{Deserialize, Serialize};

use crate::ids::{Incarnation, PublicationId, RefName, SnapshotId, TableUuid};

/// Keys of a snapshot summary. All of calve's start with `calve.`; the rest belong to the Iceberg spec, "Optional
/// Snapshot Summary Fields". Source: `protocol.md`, "The seal".
pub mod summary {
    /// The publication id, on every snapshot calve writes.
    pub const PUBLISH_ID: &str = "calve.publish-id";
    /// The BEGIN that this snapshot belongs to, on every snapshot calve writes.
    pub const INCARNATION: &str = "calve.incarnation";
    /// Marker and seal: canonical scope (by digest if long).
    pub const SCOPE: &str = "calve.scope";
    /// Marker: who owns the candidate. Its presence makes a snapshot a marker.
    pub const OWNER: &str = "calve.owner";
    /// Marker: what the job read, canonical.
    pub const READS: &str = "calve.reads";
    /// Marker and seal: the code revision.
    pub const CODE: &str = "calve.code";
    /// Marker: where the journal is.
    pub const JOURNAL: &str = "calve.journal";
    /// Seal: the candidate digest.
    pub const CANDIDATE: &str = "calve.candidate";
    /// Seal: the change digest.
    pub const CHANGE: &str = "calve.change";
    /// Seal: the tree digest.
    pub const TREE: &str = "calve.tree";
    /// Marker and seal: the base snapshot; `none` for a table that had none.
    pub const BASE: &str = "calve.base-snapshot-id";
    /// Prefix of the pinned sources.
    pub const SOURCE_PREFIX: &str = "calve.source.";
    /// Seal: the contract's digest.
    pub const CONTRACT: &str = "calve.contract";
    /// Seal: `pass`. Its presence makes a snapshot a seal.
    pub const VERDICT: &str = "calve.verdict";
    /// Prefix of the check results.
    pub const CHECK_PREFIX: &str = "calve.check.";
    /// Seal: where the statement is.
    pub const STATEMENT: &str = "calve.statement";
    /// Seal: the statement's digest.
    pub const STATEMENT_DIGEST: &str = "calve.statement-digest";
    /// Seal: the definition hash.
    pub const DEFINITION: &str = "calve.definition";
    /// Seal: every earlier seal of this id, comma-separated.
    pub const REPLACES: &str = "calve.replaces";
}

/// Whether a ref is a branch or a tag, and the retention it sets itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum RefKind {
    /// A branch. Ages in milliseconds; `None` inherits the table's.
    Branch {
        /// Snapshots kept whatever their age.
        min_snapshots_to_keep: Option<i32>,
        /// Age at which its snapshots expire.
        max_snapshot_age_ms: Option<i64>,
        /// Age at which the ref itself expires.
        max_ref_age_ms: Option<i64>,
    },
    /// A tag.
    Tag {
        /// Age at which the ref itself expires.
        max_ref_age_ms: Option<i64>,
    },
}

impl RefKind {
    /// The retention calve gives its branches: nothing ages out by itself. Source: `protocol.md`, "Retention".
    pub const KEPT_BRANCH: RefKind = RefKind::Branch {
        min_snapshots_to_keep: Some(i32::MAX),
        max_snapshot_age_ms: Some(i64::MAX),
        max_ref_age_ms: Some(i64::MAX),
    };
    /// The retention calve gives its tags.
    pub const KEPT_TAG: RefKind = RefKind::Tag { max_ref_age_ms: Some(i64::MAX) };

    /// Is this a branch?
    pub fn is_branch(&self) -> bool {
        matches!(self, RefKind::Branch { .. })
    }

    /// The same as Iceberg's type.
    pub fn to_iceberg(&self) -> SnapshotRetention {
        match self.clone() {
            RefKind::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms } => {
                SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms }
            }
            RefKind::Tag { max_ref_age_ms } => SnapshotRetention::Tag { max_ref_age_ms },
        }
    }
}

impl From<SnapshotRetention> for RefKind {
    fn from(retention: SnapshotRetention) -> Self {
        match retention {
            SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms } => {
                RefKind::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms }
            }
            SnapshotRetention::Tag { max_ref_age_ms } => RefKind::Tag { max_ref_age_ms },
        }
    }
}

/// A branch or tag as read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObservedRef {
    /// What it points at.
    pub snapshot: SnapshotId,
    /// Branch or tag, with its retention.
    pub kind: RefKind,
}

/// A snapshot as read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObservedSnapshot {
    /// Its parent; the parent may have been expired.
    pub parent: Option<SnapshotId>,
    /// Its sequence number; 0 on format version 1.
    pub sequence_number: i64,
    /// When its writer says it was made, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// `append`, `replace`, `overwrite` or `delete`.
    pub operation: String,
    /// The schema that was current when it was written, if it says.
    pub schema_id: Option<i32>,
    /// The summary without its operation.
    pub summary: BTreeMap<String, String>,
}

/// What a snapshot is to calve, by its summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// `B`: opens a candidate.
    Marker(PublicationId, Incarnation),
    /// `K`: carries a candidate's evidence.
    Seal(PublicationId, Incarnation),
    /// Data that `stage` wrote.
    Staged(PublicationId, Incarnation),
    /// Anything else, engines' writes to an audit branch included.
    Other,
}

impl ObservedSnapshot {
    /// What this snapshot is to calve.
    pub fn role(&self) -> Role {
        let id = self.summary.get(summary::PUBLISH_ID).and_then(|id| PublicationId::parse_any(id).ok());
        let incarnation = self.summary.get(summary::INCARNATION).and_then(|i| i.parse().ok());
        match (id, incarnation) {
            (Some(id), Some(incarnation)) if self.summary.contains_key(summary::VERDICT) => Role::Seal(id, incarnation),
            (Some(id), Some(incarnation)) if self.summary.contains_key(summary::OWNER) => Role::Marker(id, incarnation),
            (Some(id), Some(incarnation)) => Role::Staged(id, incarnation),
            _ => Role::Other,
        }
    }

    /// The earlier seals that this seal names in `calve.replaces`.
    pub fn replaces(&self) -> BTreeSet<SnapshotId> {
        self.summary
            .get(summary::REPLACES)
            .map(|list| list.split(',').filter_map(|id| id.trim().parse().ok()).collect())
            .unwrap_or_default()
    }
}

/// A table as read at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    /// What the table is, whatever its name.
    pub uuid: TableUuid,
    /// 1, 2 or 3.
    pub format_version: u8,
    /// The highest sequence number given; 0 on format version 1.
    pub last_sequence_number: i64,
    /// The schema new readers and writers use.
    pub current_schema_id: i32,
    /// The partition spec new writers use.
    pub default_spec_id: i32,
    /// Every branch and tag.
    pub refs: BTreeMap<RefName, ObservedRef>,
    /// Every snapshot the metadata still has.
    pub snapshots: BTreeMap<SnapshotId, ObservedSnapshot>,
    /// Past values of `main`, oldest first, with the time of each in milliseconds since 1970.
    pub snapshot_log: Vec<(i64, SnapshotId)>,
}

impl Observed {
    /// Reads the facts out of table metadata.
    pub fn from_metadata(metadata: &TableMetadata) -> Self {
        let snapshots = metadata
            .snapshots()
            .map(|snapshot| {
                let observed = ObservedSnapshot {
                    parent: snapshot.parent_snapshot_id().map(SnapshotId),
                    sequence_number: snapshot.sequence_number(),
                    timestamp_ms: snapshot.timestamp_ms(),
                    operation: snapshot.summary().operation.as_str().to_owned(),
                    schema_id: snapshot.schema_id(),
                    summary: snapshot.summary().additional_properties.clone().into_iter().collect(),
                };
                (SnapshotId(snapshot.snapshot_id()), observed)
            })
            .collect();
        Self {
            uuid: TableUuid(metadata.uuid()),
            format_version: metadata.format_version() as u8,
            last_sequence_number: metadata.last_sequence_number(),
            current_schema_id: metadata.current_schema_id(),
            default_spec_id: metadata.default_partition_spec_id(),
            refs: refs_of(metadata),
            snapshots,
            snapshot_log: metadata
                .history()
                .iter()
                .map(|entry| (entry.timestamp_ms(), SnapshotId(entry.snapshot_id)))
                .collect(),
        }
    }

    /// What `main` points at; `None` for a table that has no snapshot yet.
    pub fn main(&self) -> Option<SnapshotId> {
        self.refs.get(&RefName::main()).map(|main| main.snapshot)
    }

    /// A branch or tag by name.
    pub fn reference(&self, name: &RefName) -> Option<&ObservedRef> {
        self.refs.get(name)
    }

    /// A snapshot and its ancestors, newest first, as far as the metadata still has them. Ends at a snapshot seen
    /// before, so damaged metadata cannot make it endless.
    pub fn ancestry(&self, from: SnapshotId) -> impl Iterator<Item = SnapshotId> + '_ {
        let mut seen = BTreeSet::new();
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let id = next.filter(|id| self.snapshots.contains_key(id) && seen.insert(*id))?;
            next = self.snapshots.get(&id).and_then(|snapshot| snapshot.parent);
            Some(id)
        })
    }

    /// Everything that `main` reaches, or once reached by its log, as far as the metadata still has it.
    pub fn main_history(&self) -> BTreeSet<SnapshotId> {
        let mut history = BTreeSet::new();
        let starts = self.snapshot_log.iter().map(|(_, id)| *id).chain(self.main());
        for start in starts {
            // A logged snapshot counts even where its own entry was expired.
            history.insert(start);
            history.extend(self.ancestry(start));
        }
        history
    }

    /// What a snapshot is to calve; `Other` for one the metadata does not have.
    pub fn role(&self, id: SnapshotId) -> Role {
        self.snapshots.get(&id).map_or(Role::Other, ObservedSnapshot::role)
    }
}

/// Every ref of the metadata, with its kind.
///
/// Where they cannot be listed, `main` alone; adapters refuse metadata of version 1 that has other refs then.
pub fn refs_of(metadata: &TableMetadata) -> BTreeMap<RefName, ObservedRef> {
    let main_alone = || {
        let retention =
            SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let reference = |id| (MAIN_BRANCH.to_owned(), SnapshotReference::new(id, retention));
        metadata.current_snapshot_id().map(reference).into_iter().collect()
    };
    list_refs(metadata)
        .unwrap_or_else(|_| main_alone())
        .into_iter()
        .map(|(name, reference)| {
            let snapshot = SnapshotId(reference.snapshot_id);
            (RefName(name), ObservedRef { snapshot, kind: reference.retention.into() })
        })
        .collect()
}

/// Every ref of the metadata, or why they cannot be told.
///
/// The crate offers look-ups by name but no list, so they are read from the metadata's JSON form; and its form for
/// format version 1 leaves refs out, so such metadata is written in the form of version 2 first.
pub(crate) fn list_refs(metadata: &TableMetadata) -> iceberg::Result<BTreeMap<String, SnapshotReference>> {
    #[derive(Deserialize)]
    struct RefsOnly {
        #[serde(default)]
        refs: BTreeMap<String, SnapshotReference>,
    }
    let json = match metadata.format_version() {
        FormatVersion::V1 => {
            let builder = set_time(metadata.clone().into_builder(None), metadata, metadata.last_updated_ms())?;
            serde_json::to_value(builder.upgrade_format_version(FormatVersion::V2)?.build()?.metadata)
        }
        FormatVersion::V2 | FormatVersion::V3 => serde_json::to_value(metadata),
    };
    Ok(json.and_then(serde_json::from_value).map(|only: RefsOnly| only.refs)?)
}

/// Fixes the time of a build that adds no snapshot, in milliseconds since 1970.
///
/// The builder takes the machine's clock then, which cannot be replayed, and which refuses the build where another
/// writer's clock is ahead. Where fixing it would also tidy the snapshot log, the builder's own time is the lesser
/// evil.
pub(crate) fn set_time(
    builder: TableMetadataBuilder,
    metadata: &TableMetadata,
    time_ms: i64,
) -> iceberg::Result<TableMetadataBuilder> {
    let log = metadata.history();
    let whole = log.iter().all(|entry| metadata.snapshot_by_id(entry.snapshot_id).is_some());
    let ends_at_main = metadata.current_snapshot_id().is_none()
        || log.last().map(|entry| entry.snapshot_id) == metadata.current_snapshot_id();
    if whole && ends_at_main { stamp(builder, metadata, time_ms) } else { Ok(builder) }
}

/// Adds a snapshot and removes it again, which leaves its time in the builder and nothing else.
pub(crate) fn stamp(
    builder: TableMetadataBuilder,
    metadata: &TableMetadata,
    time_ms: i64,
) -> iceberg::Result<TableMetadataBuilder> {
    let Some(unused) = (1..i64::MAX).rev().find(|id| metadata.snapshot_by_id(*id).is_none()) else {
        return Ok(builder);
    };
    let snapshot = Snapshot::builder()
        .with_snapshot_id(unused)
        .with_sequence_number(metadata.last_sequence_number())
        .with_timestamp_ms(time_ms)
        .with_manifest_list("")
        .with_summary(Summary { operation: Operation::Replace, additional_properties: HashMap::new() })
        .with_row_range(metadata.next_row_id(), 0)
        .build();
    Ok(builder.add_snapshot(snapshot)?.remove_snapshots(&[unused]))
}
