//! The counters and totals of a snapshot summary, which engines show and plan by.
//!
//! Source: Iceberg spec, "Optional Snapshot Summary Fields".

use std::collections::{HashMap, HashSet};

use iceberg::spec::{DataContentType, DataFile, DataFileFormat, Struct};

/// How many files, rows and bytes, of data and of deletes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    data_files: u64,
    records: u64,
    bytes: u64,
    delete_files: u64,
    position_delete_files: u64,
    deletion_vectors: u64,
    position_deletes: u64,
    equality_delete_files: u64,
    equality_deletes: u64,
}

impl Amounts {
    fn count(&mut self, file: &DataFile) {
        let rows = file.record_count();
        let more = |amount: &mut u64, by: u64| *amount = amount.saturating_add(by);
        more(&mut self.bytes, size_of(file));
        match file.content_type() {
            DataContentType::Data => {
                more(&mut self.data_files, 1);
                more(&mut self.records, rows);
            }
            DataContentType::PositionDeletes => {
                more(&mut self.delete_files, 1);
                more(&mut self.position_deletes, rows);
                match file.file_format() {
                    DataFileFormat::Puffin => more(&mut self.deletion_vectors, 1),
                    _ => more(&mut self.position_delete_files, 1),
                }
            }
            DataContentType::EqualityDeletes => {
                more(&mut self.delete_files, 1);
                more(&mut self.equality_delete_files, 1);
                more(&mut self.equality_deletes, rows);
            }
        }
    }
}

/// A deletion vector is a part of its file, and only that part counts.
fn size_of(file: &DataFile) -> u64 {
    let part = file.content_size_in_bytes().and_then(|bytes| u64::try_from(bytes).ok());
    part.unwrap_or_else(|| file.file_size_in_bytes())
}

/// What a snapshot adds and removes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    added: Amounts,
    removed: Amounts,
    partitions: HashSet<(i32, Struct)>,
}

impl Counters {
    /// Counts an added file.
    pub(crate) fn add(&mut self, file: &DataFile, spec_id: i32) {
        self.added.count(file);
        self.partitions.insert((spec_id, file.partition().clone()));
    }

    /// Counts a removed file.
    pub(crate) fn remove(&mut self, file: &DataFile, spec_id: i32) {
        self.removed.count(file);
        self.partitions.insert((spec_id, file.partition().clone()));
    }

    /// Was a data file added?
    pub(crate) fn adds_data(&self) -> bool {
        self.added.data_files > 0
    }

    /// Was a delete file added?
    pub(crate) fn adds_deletes(&self) -> bool {
        self.added.delete_files > 0
    }

    /// As summary properties: what is zero is left out, as engines do.
    pub(crate) fn to_properties(&self) -> impl Iterator<Item = (String, String)> {
        let (added, removed) = (&self.added, &self.removed);
        [
            ("added-data-files", added.data_files),
            ("added-records", added.records),
            ("added-files-size", added.bytes),
            ("added-delete-files", added.delete_files),
            ("added-position-delete-files", added.position_delete_files),
            ("added-dvs", added.deletion_vectors),
            ("added-position-deletes", added.position_deletes),
            ("added-equality-delete-files", added.equality_delete_files),
            ("added-equality-deletes", added.equality_deletes),
            ("deleted-data-files", removed.data_files),
            ("deleted-records", removed.records),
            ("removed-files-size", removed.bytes),
            ("removed-delete-files", removed.delete_files),
            ("removed-position-delete-files", removed.position_delete_files),
            ("removed-dvs", removed.deletion_vectors),
            ("removed-position-deletes", removed.position_deletes),
            ("removed-equality-delete-files", removed.equality_delete_files),
            ("removed-equality-deletes", removed.equality_deletes),
        ]
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .chain([("changed-partition-count", self.partitions.len() as u64)])
        .map(|(key, amount)| (key.to_owned(), amount.to_string()))
    }
}

const TOTALS: [&str; 6] = [
    "total-data-files",
    "total-delete-files",
    "total-records",
    "total-files-size",
    "total-position-deletes",
    "total-equality-deletes",
];

/// What is live after a snapshot, in the order of [`TOTALS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals([u64; 6]);

impl Totals {
    /// The totals as a summary states them; `None` unless it states all of them.
    pub(crate) fn stated(summary: &HashMap<String, String>) -> Option<Self> {
        let mut totals = Self::default();
        for (key, total) in TOTALS.iter().zip(&mut totals.0) {
            *total = summary.get(*key)?.parse().ok()?;
        }
        Some(totals)
    }

    /// The totals after a change; `None` if it removes more than there was, which means these were wrong.
    pub(crate) fn after(&self, change: &Counters) -> Option<Self> {
        let parts = |amounts: &Amounts| {
            [
                amounts.data_files,
                amounts.delete_files,
                amounts.records,
                amounts.bytes,
                amounts.position_deletes,
                amounts.equality_deletes,
            ]
        };
        let mut after = *self;
        for ((total, more), less) in after.0.iter_mut().zip(parts(&change.added)).zip(parts(&change.removed)) {
            *total = total.saturating_add(more).checked_sub(less)?;
        }
        Some(after)
    }

    /// As summary properties, zero included.
    pub(crate) fn to_properties(self) -> impl Iterator<Item = (String, String)> {
        TOTALS.iter().zip(self.0).map(|(key, total)| ((*key).to_owned(), total.to_string()))
    }
}
