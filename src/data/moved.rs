//! What main changed since a candidate was begun, read as cheaply as the metadata allows.
//!
//! Two snapshots share most of their manifests. Those are not read; of the others, those are left out whose partitions
//! cannot matter; the rest is read concurrently. How many snapshots came in between makes no difference. Source:
//! `protocol.md`, "Conflicts".

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use iceberg::spec::{DataContentType, ManifestContentType, ManifestFile, PartitionSpecRef};

use super::DataError;
use super::deletes::named_files;
use super::live::{AT_ONCE, readings};
use super::snapshot::manifests_of;
use crate::catalog::LoadedTable;
use crate::conflict::{Concern, Named, Reads, aim, targets};
use crate::identity::{Change, LiveEntry, change_between};
use crate::ids::SnapshotId;

/// What was read of two states of a table to compare them.
#[derive(Debug, Clone)]
pub struct Moved {
    /// What the candidate is concerned with.
    pub concern: Concern,
    /// What changed from the one to the other, of what concerns the candidate.
    pub delta: Change,
    /// Data files that deletes in the difference aim at and that are no part of it, as far as they had to be read.
    pub aimed_at: Vec<LiveEntry>,
    /// What position delete files name, of those whose manifest entry does not tell.
    pub named: BTreeMap<String, Named>,
    /// Manifests that cannot be read: path and reason.
    pub unreadable: Vec<(String, String)>,
    /// How much was read.
    pub effort: Effort,
}

/// How many manifests were read, and how many were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Listed by both states.
    pub shared: usize,
    /// Listed by one, and left out by their partitions.
    pub pruned: usize,
    /// Read.
    pub read: usize,
}

/// What changed from one snapshot to another, in all of the table; manifests that both list are not read.
///
/// # Errors
/// As [`super::live::live_entries`].
pub async fn change_of(
    table: &LoadedTable,
    from: Option<SnapshotId>,
    to: Option<SnapshotId>,
) -> Result<Change, DataError> {
    let (from, to) = (manifests_of(table, from).await?, manifests_of(table, to).await?);
    let split = Split::of(from, to);
    let (before, after) = (entries(table, &split.from).await?, entries(table, &split.to).await?);
    Ok(change_between(&before, &after))
}

/// Reads what main changed from `from` to `to`, as far as it concerns a candidate that changes `change`.
///
/// `from` is the candidate's marker, which lists the files of its base.
///
/// # Errors
/// A snapshot is not in the metadata, or a file cannot be read because the store fails or it is damaged. What cannot be
/// read for what it is (encrypted) is told in [`Moved::unreadable`] instead.
pub async fn load_moved(
    table: &LoadedTable,
    from: Option<SnapshotId>,
    to: Option<SnapshotId>,
    scope: &str,
    reads: &Reads,
    change: &Change,
) -> Result<Moved, DataError> {
    let metadata = &table.metadata;
    let specs: BTreeMap<i32, PartitionSpecRef> =
        metadata.partition_specs_iter().map(|spec| (spec.spec_id(), spec.clone())).collect();
    let mut named = names_of(table, &change.added).await?;
    let concern = Concern::new(scope, reads, metadata.current_schema().clone(), specs, change, &named);
    let split = Split::of(manifests_of(table, from).await?, manifests_of(table, to).await?);
    let mut effort = Effort { shared: split.shared.len(), ..Effort::default() };
    let mut unreadable = Vec::new();
    let mut sides = Vec::new();
    let mut listed_data = Vec::new();
    for listed in [split.from, split.to] {
        let mut kept = Vec::new();
        for manifest in listed {
            if !concern.may_concern_manifest(&manifest) {
                effort.pruned += 1;
            } else if manifest.key_metadata.is_some() {
                let reason = "the manifest is encrypted, and calve holds no keys".to_owned();
                unreadable.push((manifest.manifest_path.clone(), reason));
            } else {
                kept.push(manifest);
            }
        }
        effort.read += kept.len();
        let (concerning, others): (Vec<LiveEntry>, Vec<LiveEntry>) =
            entries(table, &kept).await?.into_iter().partition(|entry| concern.may_concern(entry));
        listed_data.extend(others.into_iter().filter(LiveEntry::is_data));
        sides.push(concerning);
    }
    let (after, before) = (sides.pop().unwrap_or_default(), sides.pop().unwrap_or_default());
    let delta = change_between(&before, &after);
    named.extend(names_of(table, delta.added.iter().chain(&delta.removed)).await?);
    let wanted = wanted_targets(&delta, &named);
    let mut aimed_at: Vec<LiveEntry> = listed_data;
    aimed_at.retain(|entry| wanted.contains(entry.file.file_path()));
    if aimed_at.len() < wanted.len() {
        let data = |manifest: &ManifestFile| manifest.content == ManifestContentType::Data;
        let may = |manifest: &ManifestFile| data(manifest) && concern.may_concern_manifest(manifest);
        let manifests: Vec<ManifestFile> =
            split.shared.into_iter().filter(|manifest| may(manifest) && manifest.key_metadata.is_none()).collect();
        effort.read += manifests.len();
        let found = entries(table, &manifests).await?;
        aimed_at.extend(found.into_iter().filter(|entry| wanted.contains(entry.file.file_path())));
    }
    Ok(Moved { concern, delta, aimed_at, named, unreadable, effort })
}

/// The manifests of two snapshots: of the one alone, of the other alone, of both.
struct Split {
    from: Vec<ManifestFile>,
    to: Vec<ManifestFile>,
    shared: Vec<ManifestFile>,
}

impl Split {
    fn of(from: Vec<ManifestFile>, to: Vec<ManifestFile>) -> Self {
        // The sequence number is what entries inherit.
        let key = |manifest: &ManifestFile| (manifest.manifest_path.clone(), manifest.sequence_number);
        let both: HashSet<_> = from.iter().map(key).collect();
        let both: HashSet<_> = to.iter().map(key).filter(|key| both.contains(key)).collect();
        let (shared, from) = from.into_iter().partition(|manifest| both.contains(&key(manifest)));
        let to = to.into_iter().filter(|manifest| !both.contains(&key(manifest))).collect();
        Self { from, to, shared }
    }
}

async fn entries(table: &LoadedTable, manifests: &[ManifestFile]) -> Result<Vec<LiveEntry>, DataError> {
    let read: Vec<Vec<LiveEntry>> = stream::iter(readings(table, manifests)).buffered(AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

/// What position delete files name, of those whose manifest entry does not tell.
async fn names_of(
    table: &LoadedTable,
    entries: impl IntoIterator<Item = &LiveEntry>,
) -> Result<BTreeMap<String, Named>, DataError> {
    let none = BTreeMap::new();
    let unknown = |entry: &&LiveEntry| {
        entry.file.content_type() == DataContentType::PositionDeletes && targets(aim(entry, &none)).is_none()
    };
    let readings: Vec<BoxFuture<'_, Result<(String, Named), DataError>>> = entries
        .into_iter()
        .filter(unknown)
        .map(|entry| {
            let reading = async move {
                let named = match named_files(table, entry).await? {
                    Ok(files) => Named::Files(files),
                    Err(reason) => Named::Unreadable(reason),
                };
                Ok((entry.file.file_path().to_owned(), named))
            };
            reading.boxed()
        })
        .collect();
    stream::iter(readings).buffered(AT_ONCE).try_collect().await
}

/// Data files that deletes in the difference aim at, and that the difference does not list itself.
fn wanted_targets(delta: &Change, named: &BTreeMap<String, Named>) -> BTreeSet<String> {
    let all = || delta.added.iter().chain(&delta.removed);
    let listed: HashSet<&str> = all().filter(|entry| entry.is_data()).map(|entry| entry.file.file_path()).collect();
    all()
        .filter(|entry| entry.file.content_type() == DataContentType::PositionDeletes)
        .filter_map(|entry| targets(aim(entry, named)))
        .flatten()
        .filter(|path| !listed.contains(path.as_str()))
        .collect()
}
