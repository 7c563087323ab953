//! Who changed a table, and how: read only to explain a conflict, never to decide one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use iceberg::spec::{ManifestContentType, ManifestFile, ManifestStatus, Operation, Snapshot};

use super::live::AT_ONCE;
use super::snapshot::manifests_of;
use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::conflict::{Author, Collision};
use crate::ids::SnapshotId;
use crate::observed::summary;

/// So many snapshots are looked at, newest first, for the one that removed a file.
const LOOKED_AT: usize = 200;

/// So many snapshots that added files have their manifest list read; of the rest the summary is believed.
const LISTED: usize = 32;

/// Fills in who made each collision, where the history between `base` and `main` still tells. What cannot be read is left
/// out: this only explains.
pub async fn explain(
    table: &LoadedTable,
    base: Option<SnapshotId>,
    main: Option<SnapshotId>,
    collisions: &mut [Collision],
) {
    let between = between(table, base, main);
    let gone: BTreeSet<String> =
        collisions.iter().filter(|one| one.snapshot.is_none()).filter_map(|one| one.file.clone()).collect();
    let removed = removed_by(table, &between, gone).await;
    for one in collisions.iter_mut().filter(|one| one.snapshot.is_none()) {
        one.snapshot = one.file.as_ref().and_then(|file| removed.get(file)).copied();
    }
    let named: BTreeSet<SnapshotId> = collisions.iter().filter_map(|one| one.snapshot).collect();
    let mut authors = BTreeMap::new();
    for (number, id) in named.into_iter().enumerate() {
        let Some(snapshot) = table.metadata.snapshot_by_id(id.0) else { continue };
        let shown = match number < LISTED {
            true => manifests_of(table, Some(id)).await.ok().map(|manifests| operation(id, snapshot, &manifests)),
            false => None,
        };
        let operation = shown.flatten().unwrap_or_else(|| snapshot.summary().operation.as_str().to_owned());
        let (engine, timestamp_ms) = (engine(snapshot), snapshot.timestamp_ms());
        let _new = authors.insert(id, Author { snapshot: id, engine, operation, timestamp_ms });
    }
    for one in collisions {
        one.by = one.snapshot.and_then(|id| authors.get(&id)).cloned();
    }
}

/// The snapshots from main down to the base, newest first, without the base.
fn between(table: &LoadedTable, base: Option<SnapshotId>, main: Option<SnapshotId>) -> Vec<SnapshotId> {
    let mut found = Vec::new();
    let mut next = main;
    while let Some(id) = next.filter(|id| Some(*id) != base && found.len() < LOOKED_AT) {
        let Some(snapshot) = table.metadata.snapshot_by_id(id.0) else { break };
        found.push(id);
        next = snapshot.parent_snapshot_id().map(SnapshotId);
    }
    found
}

/// How many snapshots stand between two states of main, as far as the metadata still has them.
pub fn snapshots_between(table: &LoadedTable, base: Option<SnapshotId>, main: Option<SnapshotId>) -> usize {
    between(table, base, main).len()
}

async fn removed_by(
    table: &LoadedTable,
    between: &[SnapshotId],
    mut gone: BTreeSet<String>,
) -> HashMap<String, SnapshotId> {
    let mut found = HashMap::new();
    if gone.is_empty() {
        return found;
    }
    let readings: Vec<BoxFuture<'_, (SnapshotId, Vec<String>)>> =
        between.iter().map(|id| async move { (*id, removals(table, *id).await.unwrap_or_default()) }.boxed()).collect();
    let mut readings = stream::iter(readings).buffered(AT_ONCE);
    while let Some((id, paths)) = readings.next().await {
        for path in paths {
            if gone.remove(&path) {
                let _first = found.insert(path, id);
            }
        }
        if gone.is_empty() {
            break;
        }
    }
    found
}

/// The files that a snapshot removed.
async fn removals(table: &LoadedTable, id: SnapshotId) -> Result<Vec<String>, DataError> {
    let mut paths = Vec::new();
    for manifest in manifests_of(table, Some(id)).await? {
        let own = manifest.added_snapshot_id == id.0 && manifest.deleted_files_count != Some(0);
        if !own || manifest.key_metadata.is_some() {
            continue;
        }
        let loaded = manifest.load_manifest(&table.file_io).await.about(&manifest.manifest_path)?;
        let removed = loaded.entries().iter().filter(|entry| entry.status() == ManifestStatus::Deleted);
        paths.extend(removed.map(|entry| entry.data_file().file_path().to_owned()));
    }
    Ok(paths)
}

/// What a snapshot did, by the manifests that it wrote; `None` where they do not count their files.
fn operation(id: SnapshotId, snapshot: &Snapshot, manifests: &[ManifestFile]) -> Option<String> {
    let (mut added, mut removed, mut deletes) = (0u64, 0u64, 0u64);
    for manifest in manifests.iter().filter(|manifest| manifest.added_snapshot_id == id.0) {
        let (new, gone) = (u64::from(manifest.added_files_count?), u64::from(manifest.deleted_files_count?));
        match manifest.content {
            ManifestContentType::Data => {
                added = added.saturating_add(new);
                removed = removed.saturating_add(gone);
            }
            ManifestContentType::Deletes => deletes = deletes.saturating_add(new),
        }
    }
    let replaced = snapshot.summary().operation == Operation::Replace;
    let word = match (added > 0, removed > 0, deletes > 0) {
        (true, false, false) => "append",
        (true, true, false) if replaced => "rewrite",
        (true, true, _) => "overwrite",
        (false, true, _) => "delete",
        (true, false, true) => "row-level update",
        (false, false, true) if replaced => "rewrite of deletes",
        (false, false, true) => "row-level delete",
        (false, false, false) => return None,
    };
    Some(word.to_owned())
}

/// The engine that wrote a snapshot, by what engines put into summaries.
fn engine(snapshot: &Snapshot) -> Option<String> {
    let values = &snapshot.summary().additional_properties;
    if let Some(name) = values.get("engine-name") {
        let version = values.get("engine-version").map(|version| format!(" {version}")).unwrap_or_default();
        return Some(format!("{name}{version}"));
    }
    if let Some(id) = values.get(summary::PUBLISH_ID) {
        return Some(format!("calve {id}"));
    }
    let named = [("trino_query_id", "trino"), ("spark.app.id", "spark")];
    named.into_iter().find(|(key, _)| values.contains_key(*key)).map(|(_, engine)| engine.to_owned())
}
