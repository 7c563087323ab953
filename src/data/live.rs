//! The live files of a snapshot, from its manifests.
//!
//! Everything that manifests leave to inheritance is filled in, so that an entry says by itself which deletes reach
//! it and where it came from. Source: Iceberg spec, "Manifests", "Sequence Number Inheritance", "First Row ID
//! Inheritance".

use std::collections::BTreeSet;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use iceberg::spec::{DataContentType, ManifestContentType, ManifestFile};

use super::snapshot::{first_row_ids, manifests_of};
use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::identity::LiveEntry;
use crate::ids::SnapshotId;

/// Manifests read at once: enough to hide a store's latency, few enough to keep in memory.
pub(super) const AT_ONCE: usize = 8;

/// Every live data and delete file of a snapshot, in the order of its manifests; none for no snapshot.
///
/// # Errors
/// The snapshot is not in the metadata, its list or a manifest cannot be read (named), is encrypted, or lacks what
/// inheritance needs.
pub async fn live_entries(table: &LoadedTable, snapshot: Option<SnapshotId>) -> Result<Vec<LiveEntry>, DataError> {
    let manifests = manifests_of(table, snapshot).await?;
    let entries: Vec<Vec<LiveEntry>> =
        stream::iter(readings(table, &manifests)).buffered(AT_ONCE).try_collect().await?;
    Ok(entries.into_iter().flatten().collect())
}

/// Is any of these files live in a snapshot? One is enough: a later compaction may have taken the others, and what one
/// shows is that the change they belong to was visible. False for no paths, and for no snapshot.
///
/// # Errors
/// As [`live_entries`].
pub async fn added_files_live_in(
    table: &LoadedTable,
    snapshot: Option<SnapshotId>,
    paths: &BTreeSet<String>,
) -> Result<bool, DataError> {
    if paths.is_empty() {
        return Ok(false);
    }
    let manifests = manifests_of(table, snapshot).await?;
    let mut loaded = stream::iter(readings(table, &manifests)).buffered(AT_ONCE);
    while let Some(entries) = loaded.try_next().await? {
        if entries.iter().any(|entry| paths.contains(entry.file.file_path())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One reading a manifest, not yet begun. Boxed, because a stream that maps references to futures is not `Send` for every
/// lifetime, and then no use case over it could run on another thread.
pub(super) fn readings<'a>(
    table: &'a LoadedTable,
    manifests: &'a [ManifestFile],
) -> Vec<BoxFuture<'a, Result<Vec<LiveEntry>, DataError>>> {
    manifests.iter().map(|manifest| entries_of(table, manifest).boxed()).collect()
}

/// The live entries of one manifest.
async fn entries_of(table: &LoadedTable, manifest: &ManifestFile) -> Result<Vec<LiveEntry>, DataError> {
    let path = &manifest.manifest_path;
    if manifest.key_metadata.is_some() {
        let reason = "the manifest is encrypted, and calve holds no keys".to_owned();
        return Err(DataError::Unsupported { what: path.clone(), reason });
    }
    let loaded = manifest.load_manifest(&table.file_io).await.about(path)?;
    let row_ids = first_row_ids(manifest, loaded.entries());
    let mut live = Vec::new();
    for (entry, inherited) in loaded.entries().iter().zip(row_ids).filter(|(entry, _)| entry.is_alive()) {
        let file = entry.data_file();
        let damaged = |reason: &str| DataError::Damaged {
            file: path.clone(),
            reason: format!("its entry for {} {reason}", file.file_path()),
        };
        let Some(sequence_number) = entry.sequence_number() else {
            return Err(damaged("has no sequence number, and cannot inherit one"));
        };
        let is_data = file.content_type() == DataContentType::Data;
        if is_data != (manifest.content == ManifestContentType::Data) {
            return Err(damaged("is of another content than the manifest list says"));
        }
        live.push(LiveEntry {
            file: file.clone(),
            spec_id: manifest.partition_spec_id,
            sequence_number,
            file_sequence_number: entry.file_sequence_number,
            snapshot_id: entry.snapshot_id().map(SnapshotId),
            first_row_id: file.first_row_id().or(inherited),
        });
    }
    Ok(live)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use iceberg::TableCreation;
    use iceberg::io::FileIO;
    use iceberg::spec::{
        DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, NestedField, PrimitiveType, Schema,
        Struct, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
    };
    use uuid::Uuid;

    use super::*;
    use crate::data::snapshot::{AddedFile, DataChange, RemovedFile, build_snapshot, copy_snapshot, with_snapshot};
    use crate::identity::{change_between, tree_digest};

    fn table(version: FormatVersion) -> LoadedTable {
        let day = NestedField::required(1, "day", Type::Primitive(PrimitiveType::Int));
        let schema = Schema::builder().with_fields([day.into()]).build().unwrap();
        let spec = UnboundPartitionSpec::builder().add_partition_field(1, "day", Transform::Identity).unwrap().build();
        let creation = TableCreation::builder()
            .name("t".to_owned())
            .location("memory:///t".to_owned())
            .schema(schema)
            .partition_spec(spec)
            .format_version(version)
            .build();
        let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
        LoadedTable {
            name: "a.t".parse().unwrap(),
            metadata: metadata.into(),
            metadata_location: None,
            file_io: FileIO::new_with_memory(),
        }
    }

    fn file(path: &str, content: DataContentType) -> DataFile {
        let mut builder = DataFileBuilder::default();
        builder
            .content(content)
            .file_path(path.to_owned())
            .file_format(DataFileFormat::Parquet)
            .record_count(10)
            .file_size_in_bytes(1_000)
            .partition(Struct::from_iter([Some(Literal::int(4))]))
            .column_sizes(HashMap::from([(1, 40)]))
            .value_counts(HashMap::from([(1, 10)]))
            .null_value_counts(HashMap::from([(1, 0)]))
            .lower_bounds(HashMap::from([(1, Datum::int(4))]))
            .upper_bounds(HashMap::from([(1, Datum::int(4))]))
            .split_offsets(Some(vec![4]));
        builder.build().unwrap()
    }

    async fn commit(
        table: &LoadedTable,
        parent: Option<i64>,
        id: i64,
        added: &[DataFile],
        removed: &[&str],
    ) -> LoadedTable {
        let change = DataChange {
            added: added.iter().map(|file| AddedFile { file: file.clone(), spec_id: 0 }).collect(),
            removed: removed
                .iter()
                .map(|path| RemovedFile { path: (*path).to_owned(), content_offset: None })
                .collect(),
        };
        let now = table.metadata.last_updated_ms() + 1;
        let (parent, id) = (parent.map(SnapshotId), SnapshotId(id));
        let unique = Uuid::from_u128(u128::from(id.0.unsigned_abs()));
        let built = build_snapshot(table, parent, &change, id, now, BTreeMap::new(), unique).await.unwrap();
        with_snapshot(table, &built).unwrap()
    }

    async fn live(table: &LoadedTable, id: i64) -> Vec<LiveEntry> {
        let mut entries = live_entries(table, Some(SnapshotId(id))).await.unwrap();
        entries.sort_by_key(LiveEntry::key);
        entries
    }

    #[tokio::test]
    async fn entries_come_with_what_they_inherit() {
        for version in [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3] {
            let empty = table(version);
            assert!(live_entries(&empty, None).await.unwrap().is_empty());
            let [a, b, c] = ["a", "b", "c"].map(|path| file(path, DataContentType::Data));
            let first = commit(&empty, None, 1, &[a.clone(), b], &[]).await;
            let second = commit(&first, Some(1), 2, &[c], &["b"]).await;

            let entries = live(&second, 2).await;
            assert_eq!(entries.iter().map(|e| e.file.file_path()).collect::<Vec<_>>(), ["a", "c"], "{version}");
            let sequences = if version == FormatVersion::V1 { [0, 0] } else { [1, 2] };
            assert_eq!(entries.iter().map(|e| e.sequence_number).collect::<Vec<_>>(), sequences, "{version}");
            assert_eq!(entries.iter().map(|e| e.snapshot_id.unwrap().0).collect::<Vec<_>>(), [1, 2], "{version}");
            let rows: Vec<_> = entries.iter().map(|e| e.first_row_id).collect();
            assert_eq!(rows, if version == FormatVersion::V3 { [Some(0), Some(20)] } else { [None, None] });
            // Nothing a manifest says of a file is lost; the row id is what this table gave it.
            assert_eq!(entries[0].file.lower_bounds(), a.lower_bounds());
            assert_eq!(entries[0].file.partition(), a.partition());
            assert_eq!((entries[0].spec_id, entries[0].file.split_offsets()), (0, a.split_offsets()));

            // Entries that were moved to another manifest stay the same entries.
            let change = change_between(&live(&second, 1).await, &entries);
            assert_eq!(change.added.iter().map(|e| e.file.file_path()).collect::<Vec<_>>(), ["c"]);
            assert_eq!(change.removed.iter().map(|e| e.file.file_path()).collect::<Vec<_>>(), ["b"]);
        }
    }

    #[tokio::test]
    async fn a_copy_has_the_same_tree() {
        let files = [file("a", DataContentType::Data), file("d", DataContentType::PositionDeletes)];
        let first = commit(&table(FormatVersion::V2), None, 1, &files, &[]).await;
        let of = Some(SnapshotId(1));
        let now = first.metadata.last_updated_ms() + 1;
        let copy =
            copy_snapshot(&first, of, of, SnapshotId(2), now, BTreeMap::new(), Uuid::from_u128(2)).await.unwrap();
        let sealed = with_snapshot(&first, &copy).unwrap();
        let (before, after) = (live(&sealed, 1).await, live(&sealed, 2).await);
        assert_eq!(before, after);
        assert_eq!(before.iter().map(LiveEntry::is_data).collect::<Vec<_>>(), [true, false]);
        assert_eq!(tree_digest(&before), tree_digest(&after));
    }

    #[tokio::test]
    async fn added_files_are_found() {
        let [a, b] = ["a", "b"].map(|path| file(path, DataContentType::Data));
        let first = commit(&table(FormatVersion::V2), None, 1, &[a, b], &[]).await;
        let second = commit(&first, Some(1), 2, &[], &["b"]).await;
        let found = async |id, paths: &[&str]| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            added_files_live_in(&second, Some(SnapshotId(id)), &paths).await.unwrap()
        };
        assert!(found(1, &["b"]).await && found(2, &["a", "b"]).await);
        assert!(!found(2, &["b"]).await && !found(2, &["x"]).await && !found(2, &[]).await);
    }

    #[tokio::test]
    async fn errors_name_the_file() {
        let files = [file("a", DataContentType::Data)];
        let first = commit(&table(FormatVersion::V2), None, 1, &files, &[]).await;
        let manifests = manifests_of(&first, Some(SnapshotId(1))).await.unwrap();
        let path = &manifests[0].manifest_path;
        first.file_io.new_output(path).unwrap().write("not a manifest".into()).await.unwrap();
        let damaged = live_entries(&first, Some(SnapshotId(1))).await.unwrap_err();
        assert!(damaged.to_string().contains(path.as_str()), "{damaged}");
        first.file_io.delete(path).await.unwrap();
        let missing = live_entries(&first, Some(SnapshotId(1))).await.unwrap_err();
        assert!(missing.to_string().contains(path.as_str()), "{missing}");
        let unknown = live_entries(&first, Some(SnapshotId(9))).await.unwrap_err();
        assert!(matches!(unknown, DataError::Damaged { .. }), "{unknown}");
    }
}
