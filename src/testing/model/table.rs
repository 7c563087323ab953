//! The table as the model has it, and the catalog in one function.

use std::collections::BTreeMap;

use iceberg::{TableRequirement, TableUpdate};

use crate::ids::{RefName, SnapshotId, TableUuid};
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, RefKind};
use crate::publish::commits::Commit;

/// Why a commit was not applied, and with which status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotApplied {
    /// The HTTP status a catalog answers with.
    pub status: u16,
    /// What did not hold.
    pub reason: String,
}

/// The table after this commit, all of it or nothing. Source: Iceberg REST specification, `updateTable`.
///
/// Sequence numbers are given in order, whichever the commit's snapshots carry: see `is_stale`.
///
/// # Errors
/// The first requirement that does not hold.
///
/// # Panics
/// At requirements and updates that are none of the protocol's, and at refs set to snapshots that are not there.
pub fn apply(observed: &Observed, commit: &Commit) -> Result<Observed, NotApplied> {
    for requirement in &commit.requirements {
        let holds = match requirement {
            TableRequirement::UuidMatch { uuid } => observed.uuid.0 == *uuid,
            TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } => {
                observed.reference(&RefName(r#ref.clone())).map(|found| found.snapshot.0) == *snapshot_id
            }
            TableRequirement::CurrentSchemaIdMatch { current_schema_id } => {
                observed.current_schema_id == *current_schema_id
            }
            TableRequirement::DefaultSpecIdMatch { default_spec_id } => observed.default_spec_id == *default_spec_id,
            other => panic!("{other:?} is no requirement of the protocol"),
        };
        if !holds {
            return Err(NotApplied { status: 409, reason: format!("{requirement:?}") });
        }
    }
    let mut table = observed.clone();
    for update in &commit.updates {
        match update {
            TableUpdate::AddSnapshot { snapshot } => {
                let summary = snapshot.summary().additional_properties.clone().into_iter().collect();
                let added = ObservedSnapshot {
                    parent: snapshot.parent_snapshot_id().map(SnapshotId),
                    sequence_number: 0,
                    timestamp_ms: snapshot.timestamp_ms(),
                    operation: snapshot.summary().operation.as_str().to_owned(),
                    schema_id: snapshot.schema_id(),
                    summary,
                };
                add(&mut table, SnapshotId(snapshot.snapshot_id()), added);
            }
            TableUpdate::SetSnapshotRef { ref_name, reference } => {
                let at = SnapshotId(reference.snapshot_id);
                assert!(table.snapshots.contains_key(&at), "{ref_name} is set to {at}, which the table does not have");
                set(&mut table, RefName(ref_name.clone()), at, reference.retention.clone().into());
            }
            TableUpdate::SetStatistics { .. } => {}
            other => panic!("{other:?} is no update of the protocol"),
        }
    }
    Ok(table)
}

/// Does the commit add a snapshot made for an earlier state of the table? Catalogs refuse it with 400, except on tables of
/// format version 1, which have no sequence numbers. Source: Iceberg spec, "Sequence Numbers".
pub fn is_stale(observed: &Observed, commit: &Commit) -> bool {
    observed.format_version > 1
        && commit.updates.iter().any(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => snapshot.sequence_number() <= observed.last_sequence_number,
            _ => false,
        })
}

/// Adds a snapshot under the table's next sequence number.
pub fn add(table: &mut Observed, id: SnapshotId, snapshot: ObservedSnapshot) {
    if table.format_version > 1 {
        table.last_sequence_number += 1;
    }
    let snapshot = ObservedSnapshot { sequence_number: table.last_sequence_number, ..snapshot };
    let _earlier = table.snapshots.insert(id, snapshot);
}

/// Sets a ref; where it is main, the log gets an entry.
pub fn set(table: &mut Observed, name: RefName, at: SnapshotId, kind: RefKind) {
    if name == RefName::main() {
        let time = 1_000 * (1 + table.snapshot_log.len() as i64);
        table.snapshot_log.push((time, at));
    }
    let _earlier = table.refs.insert(name, ObservedRef { snapshot: at, kind });
}

/// Removes a snapshot by id, as an expiry does: refs on it go too, and the log up to it.
pub fn expire(table: &mut Observed, id: SnapshotId) {
    let _removed = table.snapshots.remove(&id);
    table.refs.retain(|_, reference| reference.snapshot != id);
    if let Some(last) = table.snapshot_log.iter().rposition(|(_, logged)| *logged == id) {
        table.snapshot_log.drain(..=last);
    }
}

/// A manifest list: which one, and the live files it leads to, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct List {
    /// The list's own name.
    pub name: u64,
    /// The files.
    pub files: u32,
}

impl List {
    /// Where it is.
    pub fn path(self) -> String {
        format!("file:///t/metadata/{}-{}.avro", self.name, self.files)
    }

    /// Which list a path names.
    ///
    /// # Panics
    /// At a path that [`List::path`] did not make.
    pub fn of(path: &str) -> Self {
        let stem = path.rsplit('/').next().and_then(|file| file.strip_suffix(".avro")).expect("a list's path");
        let (name, files) = stem.split_once('-').expect("a list's path");
        Self { name: name.parse().expect("a list's name"), files: files.parse().expect("a list's files") }
    }
}

/// What decisions see of a table, and beside it what they do not: each snapshot's list with its files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    /// What decisions see.
    pub observed: Observed,
    /// The manifest list of every snapshot that is still there.
    pub lists: BTreeMap<SnapshotId, List>,
}

/// Files that were in the table before, and that engines write to main.
pub const BASE_FILES: u32 = 1;
/// The first of the candidate's own files, which calve or an engine wrote to its branch.
pub const FIRST_OWN: u32 = 4;
/// All of the candidate's own files.
pub const OWN: u32 = 0x000f_fff0;
/// The first file of anybody else.
pub const FIRST_OTHER: u32 = 20;

/// The snapshot that main starts at.
pub const N: SnapshotId = SnapshotId(10);

impl Table {
    /// A table without any snapshot. Schema and spec are not 0, so that a default cannot pass for either.
    pub fn empty(format_version: u8, uuid: TableUuid) -> Self {
        let observed = Observed {
            uuid,
            format_version,
            last_sequence_number: 0,
            current_schema_id: 3,
            default_spec_id: 5,
            refs: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            snapshot_log: Vec::new(),
        };
        Self { observed, lists: BTreeMap::new() }
    }

    /// A table with one snapshot, main at it, and a tag of somebody's.
    pub fn new(format_version: u8, uuid: TableUuid) -> Self {
        let mut table = Self::empty(format_version, uuid);
        table.write(N, None, BASE_FILES);
        // Retention that is neither the table's default nor calve's own, so that what is carried over can be told.
        let kind = RefKind::Branch { min_snapshots_to_keep: Some(4), max_snapshot_age_ms: None, max_ref_age_ms: None };
        set(&mut table.observed, RefName::main(), N, kind);
        let theirs = RefKind::Tag { max_ref_age_ms: None };
        set(&mut table.observed, RefName("monthly".to_owned()), N, theirs);
        table
    }

    /// The table after a commit, or why it is not applied.
    ///
    /// # Errors
    /// As [`apply`], and 400 where it [`is_stale`].
    pub fn after(&self, commit: &Commit) -> Result<Self, NotApplied> {
        let observed = apply(&self.observed, commit)?;
        if is_stale(&self.observed, commit) {
            return Err(NotApplied { status: 400, reason: "a sequence number that was given already".to_owned() });
        }
        let mut lists = self.lists.clone();
        for update in &commit.updates {
            if let TableUpdate::AddSnapshot { snapshot } = update {
                let _earlier = lists.insert(SnapshotId(snapshot.snapshot_id()), List::of(snapshot.manifest_list()));
            }
        }
        Ok(Self { observed, lists })
    }

    /// Adds an engine's snapshot, whose list is named by its id.
    pub fn write(&mut self, id: SnapshotId, parent: Option<SnapshotId>, files: u32) {
        let snapshot = ObservedSnapshot {
            parent,
            sequence_number: 0,
            timestamp_ms: self.time(),
            operation: "append".to_owned(),
            schema_id: Some(self.observed.current_schema_id),
            summary: BTreeMap::from([("engine-name".to_owned(), "spark".to_owned())]),
        };
        add(&mut self.observed, id, snapshot);
        let _earlier = self.lists.insert(id, List { name: id.0.unsigned_abs(), files });
    }

    /// The time for the next snapshot.
    pub fn time(&self) -> i64 {
        1_000 + self.observed.snapshots.values().map(|snapshot| snapshot.timestamp_ms).max().unwrap_or(0)
    }

    /// The sequence number for the next snapshot.
    pub fn next_sequence(&self) -> i64 {
        if self.observed.format_version > 1 { self.observed.last_sequence_number + 1 } else { 0 }
    }

    /// The live files of a snapshot; none of one that is gone.
    pub fn files(&self, id: SnapshotId) -> u32 {
        self.lists.get(&id).map_or(0, |list| list.files)
    }

    /// Do readers of main see anything of the candidate's own?
    pub fn shows_own(&self) -> bool {
        self.observed.main().is_some_and(|main| self.files(main) & OWN != 0)
    }

    /// Moves main, with its retention.
    pub fn move_main(&mut self, to: SnapshotId) {
        let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let kind = self.observed.reference(&RefName::main()).map_or(unset, |main| main.kind.clone());
        set(&mut self.observed, RefName::main(), to, kind);
    }

    /// Removes a snapshot by id.
    pub fn expire(&mut self, id: SnapshotId) {
        expire(&mut self.observed, id);
        let _removed = self.lists.remove(&id);
    }
}
