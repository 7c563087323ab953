//! From data files to a snapshot: manifests, manifest list, summary.
//!
//! Two kinds are built. A *copy* ([`copy_snapshot`]) has the same live files as another snapshot: markers and seals. A
//! *change* ([`prepare`]) adds and removes files. Manifests do not depend on the table's sequence number, the manifest
//! list does: after a commit elsewhere on the table only [`PreparedManifests::list`] is called again. Source: Iceberg
//! spec, "Manifests", "Manifest Lists", "Sequence Number Inheritance", "Row Lineage"; `protocol.md`, "The seal".

use std::collections::{BTreeMap, HashMap, HashSet};

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, FormatVersion, Manifest, ManifestContentType, ManifestEntryRef,
    ManifestFile, ManifestList, ManifestListWriter, ManifestStatus, ManifestWriter, ManifestWriterBuilder, Operation,
    PartitionSpec, SchemaRef, Snapshot, Summary,
};
use uuid::Uuid;

use super::summary::{Counters, Totals};
use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::catalog::manifest_names::avro_spec;
use crate::ids::SnapshotId;

/// A file that a change adds.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedFile {
    /// The data or delete file. A first row id in it is ignored: added rows get theirs from the snapshot.
    pub file: DataFile,
    /// The partition spec it was written under.
    pub spec_id: i32,
}

/// A live file that a change removes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemovedFile {
    /// Its path exactly as in the manifest.
    pub path: String,
    /// For a deletion vector, where in the file it starts: one Puffin file holds several.
    pub content_offset: Option<i64>,
}

impl RemovedFile {
    fn of(entry: &ManifestEntryRef) -> Self {
        let file = entry.data_file();
        Self { path: file.file_path().to_owned(), content_offset: file.content_offset() }
    }
}

/// What a snapshot changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataChange {
    /// Files that were not live before.
    pub added: Vec<AddedFile>,
    /// Files that are not live any more.
    pub removed: Vec<RemovedFile>,
}

/// The manifests of a snapshot, written; only the list that names them is missing.
#[derive(Debug, Clone)]
pub struct PreparedManifests {
    id: SnapshotId,
    parent: Option<SnapshotId>,
    operation: Operation,
    schema_id: i32,
    manifests: Vec<ManifestFile>,
    counters: Counters,
    totals: Totals,
}

/// A snapshot with the same live files as `of`, in its own manifest list: a marker or a seal.
///
/// `of = None` makes an empty one. The operation is `replace`, whatever `summary` says it is made for; the `total-*`
/// values are carried from `of`, counted where it has none.
///
/// Never shares `of`'s manifest list: engines delete the list of an expired snapshot without looking at survivors.
///
/// # Errors
/// `of` is not in the metadata, or a file cannot be read or written.
pub async fn copy_snapshot(
    table: &LoadedTable,
    of: Option<SnapshotId>,
    parent: Option<SnapshotId>,
    id: SnapshotId,
    timestamp_ms: i64,
    summary: BTreeMap<String, String>,
    unique: Uuid,
) -> Result<Snapshot, DataError> {
    let manifests = manifests_of(table, of).await?;
    let totals = totals_after(table, of, &manifests, &Counters::default()).await?;
    let prepared = PreparedManifests {
        id,
        parent,
        operation: Operation::Replace,
        // By the Iceberg spec the schema that is current now, whichever it was for `of`; a seal tells by it what it holds for.
        schema_id: table.metadata.current_schema_id(),
        manifests,
        counters: Counters::default(),
        totals,
    };
    prepared.list(table, timestamp_ms, summary, unique).await
}

/// Writes manifests and list of a change on top of `parent`: [`prepare`], then [`PreparedManifests::list`].
///
/// # Errors
/// As those two.
pub async fn build_snapshot(
    table: &LoadedTable,
    parent: Option<SnapshotId>,
    change: &DataChange,
    id: SnapshotId,
    timestamp_ms: i64,
    summary: BTreeMap<String, String>,
    unique: Uuid,
) -> Result<Snapshot, DataError> {
    prepare(table, parent, change, id, unique).await?.list(table, timestamp_ms, summary, unique).await
}

/// Writes the manifests of a change on top of `parent`.
///
/// Added files go to one new manifest for each spec and kind of content, with inherited sequence numbers. A manifest
/// that lists a removed file is written anew, its other live files keeping their snapshot ids, sequence numbers and
/// first row ids. The rest is carried over.
///
/// The operation is `append`, `overwrite` or `delete`, by what the change does; `replace` for a change of nothing.
///
/// # Errors
/// A removed file is not live in `parent`, or a file cannot be read or written.
pub async fn prepare(
    table: &LoadedTable,
    parent: Option<SnapshotId>,
    change: &DataChange,
    id: SnapshotId,
    unique: Uuid,
) -> Result<PreparedManifests, DataError> {
    let listed = manifests_of(table, parent).await?;
    let mut work = Preparation { table, id, unique, written: 0, counters: Counters::default() };
    let mut manifests = work.write_added(&change.added).await?;
    manifests.extend(work.carry_over(&listed, &change.removed, parent).await?);
    let totals = totals_after(table, parent, &listed, &work.counters).await?;
    let operation = match (change.added.is_empty(), change.removed.is_empty()) {
        (true, true) => Operation::Replace,
        (false, true) if work.counters.adds_deletes() => match work.counters.adds_data() {
            true => Operation::Overwrite,
            false => Operation::Delete,
        },
        (false, true) => Operation::Append,
        (true, false) => Operation::Delete,
        (false, false) => Operation::Overwrite,
    };
    Ok(PreparedManifests {
        id,
        parent,
        operation,
        schema_id: table.metadata.current_schema_id(),
        manifests,
        counters: work.counters,
        totals,
    })
}

impl PreparedManifests {
    /// Writes the manifest list for the table as it is now, and makes the snapshot that names it.
    ///
    /// The list has its own file, named by `unique`, so a list that an earlier attempt may have committed stays as it
    /// is. `summary` adds to the counters and totals; it cannot replace them.
    ///
    /// # Errors
    /// The list cannot be written, or row ids ran out.
    pub async fn list(
        &self,
        table: &LoadedTable,
        timestamp_ms: i64,
        summary: BTreeMap<String, String>,
        unique: Uuid,
    ) -> Result<Snapshot, DataError> {
        let metadata = &table.metadata;
        let location = format!("{}/snap-{}-1-{unique}.avro", metadata_folder(table), self.id);
        let output = table.file_io.new_output(&location).about(&location)?.writer().await.about(&location)?;
        let (id, parent) = (self.id.0, self.parent.map(|parent| parent.0));
        let sequence_number = next_sequence_number(table);
        let first_row_id = metadata.next_row_id();
        let mut writer = match metadata.format_version() {
            FormatVersion::V1 => ManifestListWriter::v1(output, id, parent),
            FormatVersion::V2 => ManifestListWriter::v2(output, id, parent, sequence_number),
            FormatVersion::V3 => ManifestListWriter::v3(output, id, parent, sequence_number, Some(first_row_id)),
        };
        writer.add_manifests(self.manifests.iter().cloned()).about(&location)?;
        let after_rows = writer.next_row_id();
        writer.close().await.about(&location)?;

        let mut properties: HashMap<String, String> = summary.into_iter().collect();
        properties.extend(self.counters.to_properties());
        properties.extend(self.totals.to_properties());
        let builder = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(sequence_number)
            .with_timestamp_ms(timestamp_ms)
            .with_manifest_list(location)
            .with_summary(Summary { operation: self.operation.clone(), additional_properties: properties })
            .with_schema_id(self.schema_id);
        Ok(match after_rows {
            Some(after) => builder.with_row_range(first_row_id, after.saturating_sub(first_row_id)).build(),
            None => builder.build(),
        })
    }

    /// What the snapshot is called in its summary.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }
}

/// The table as it will be once `snapshot` is added, so that a further snapshot of the same commit can stand on it.
///
/// # Errors
/// The snapshot does not follow from the table's metadata.
pub fn with_snapshot(table: &LoadedTable, snapshot: &Snapshot) -> Result<LoadedTable, DataError> {
    let built = table
        .metadata
        .as_ref()
        .clone()
        .into_builder(None)
        .add_snapshot(snapshot.clone())
        .and_then(|builder| builder.build())
        .about(snapshot.manifest_list())?;
    Ok(LoadedTable { metadata: built.metadata.into(), ..table.clone() })
}

/// The entries of a snapshot's manifest list; none for no snapshot.
pub(crate) async fn manifests_of(table: &LoadedTable, id: Option<SnapshotId>) -> Result<Vec<ManifestFile>, DataError> {
    let Some(id) = id else { return Ok(Vec::new()) };
    let snapshot = snapshot_of(table, id)?;
    let location = snapshot.manifest_list();
    if snapshot.encryption_key_id().is_some() {
        return Err(DataError::Unsupported {
            what: location.to_owned(),
            reason: "the manifest list is encrypted, and calve holds no keys".to_owned(),
        });
    }
    let bytes = table.file_io.new_input(location).about(location)?.read().await.about(location)?;
    let list = ManifestList::parse_with_version(&bytes, table.metadata.format_version()).about(location)?;
    Ok(list.consume_entries().into_iter().collect())
}

fn snapshot_of(table: &LoadedTable, id: SnapshotId) -> Result<&Snapshot, DataError> {
    table.metadata.snapshot_by_id(id.0).map(AsRef::as_ref).ok_or_else(|| DataError::Damaged {
        file: format!("table {}", table.name),
        reason: format!("snapshot {id} is not in its metadata (it may have been expired)"),
    })
}

/// The totals after a change of snapshot `id`: from those its summary states, or counted from its manifests where it
/// states none, or none that the change fits.
async fn totals_after(
    table: &LoadedTable,
    id: Option<SnapshotId>,
    manifests: &[ManifestFile],
    change: &Counters,
) -> Result<Totals, DataError> {
    let stated = match id {
        Some(id) => Totals::stated(&snapshot_of(table, id)?.summary().additional_properties),
        None => Some(Totals::default()),
    };
    if let Some(after) = stated.and_then(|stated| stated.after(change)) {
        return Ok(after);
    }
    let mut live = Counters::default();
    for manifest in manifests {
        for entry in load(table, manifest).await?.entries().iter().filter(|entry| entry.is_alive()) {
            live.add(entry.data_file(), manifest.partition_spec_id);
        }
    }
    Totals::default().after(&live).and_then(|before| before.after(change)).ok_or_else(|| DataError::Damaged {
        file: format!("table {}", table.name),
        reason: "a snapshot removes more than its manifests list".to_owned(),
    })
}

async fn load(table: &LoadedTable, manifest: &ManifestFile) -> Result<Manifest, DataError> {
    manifest.load_manifest(&table.file_io).await.about(&manifest.manifest_path)
}

/// The folder of manifests and lists, as engines choose it: `write.metadata.path`, else `metadata` under the location.
fn metadata_folder(table: &LoadedTable) -> String {
    match table.metadata.properties().get("write.metadata.path") {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => format!("{}/metadata", table.metadata.location().trim_end_matches('/')),
    }
}

/// 0 on format version 1, which has no sequence numbers.
fn next_sequence_number(table: &LoadedTable) -> i64 {
    match table.metadata.format_version() {
        FormatVersion::V1 => 0,
        FormatVersion::V2 | FormatVersion::V3 => table.metadata.next_sequence_number(),
    }
}

struct Preparation<'a> {
    table: &'a LoadedTable,
    id: SnapshotId,
    unique: Uuid,
    written: usize,
    counters: Counters,
}

impl Preparation<'_> {
    async fn write_added(&mut self, added: &[AddedFile]) -> Result<Vec<ManifestFile>, DataError> {
        let mut groups: BTreeMap<(i32, bool), Vec<&DataFile>> = BTreeMap::new();
        for AddedFile { file, spec_id } in added {
            let deletes = file.content_type() != DataContentType::Data;
            groups.entry((*spec_id, deletes)).or_default().push(file);
        }
        let mut manifests = Vec::with_capacity(groups.len());
        for ((spec_id, deletes), files) in groups {
            let spec = self.table.metadata.partition_spec_by_id(spec_id).ok_or_else(|| DataError::Damaged {
                file: format!("table {}", self.table.name),
                reason: format!("partition spec {spec_id} is not in its metadata"),
            })?;
            let content = if deletes { ManifestContentType::Deletes } else { ManifestContentType::Data };
            let schema = self.table.metadata.current_schema().clone();
            let (path, mut writer) = self.writer(schema, spec.as_ref().clone(), content)?;
            for file in files {
                self.counters.add(file, spec_id);
                let file = with_first_row_id(file, spec_id, None)?;
                // A negative number: inherited from the list.
                writer.add_file(file, -1).about(&path)?;
            }
            manifests.push(writer.write_manifest_file().await.about(&path)?);
        }
        Ok(manifests)
    }

    async fn carry_over(
        &mut self,
        listed: &[ManifestFile],
        removed: &[RemovedFile],
        parent: Option<SnapshotId>,
    ) -> Result<Vec<ManifestFile>, DataError> {
        let mut missing: HashSet<RemovedFile> = removed.iter().cloned().collect();
        let mut carried = Vec::with_capacity(listed.len());
        for manifest in listed {
            if !manifest.has_added_files() && !manifest.has_existing_files() {
                // It only tells what its own snapshot deleted.
                continue;
            }
            if missing.is_empty() {
                carried.push(manifest.clone());
                continue;
            }
            let loaded = load(self.table, manifest).await?;
            let going: Vec<bool> = loaded
                .entries()
                .iter()
                .map(|entry| entry.is_alive() && missing.remove(&RemovedFile::of(entry)))
                .collect();
            if !going.contains(&true) {
                carried.push(manifest.clone());
                continue;
            }
            carried.push(self.rewrite(manifest, &loaded, &going).await?);
        }
        match missing.into_iter().next() {
            None => Ok(carried),
            Some(file) => Err(DataError::Damaged {
                file: file.path,
                reason: match parent {
                    Some(parent) => format!("it was to be removed, and is no live file of snapshot {parent}"),
                    None => "it was to be removed, and the table has no snapshot".to_owned(),
                },
            }),
        }
    }

    /// Writes `manifest` again, the entries marked as going deleted, the other live ones existing.
    async fn rewrite(
        &mut self,
        manifest: &ManifestFile,
        loaded: &Manifest,
        going: &[bool],
    ) -> Result<ManifestFile, DataError> {
        let origin = &manifest.manifest_path;
        let described = loaded.metadata();
        let spec_id = manifest.partition_spec_id;
        // Its own schema: under the current one, a column that its spec partitions by may be gone.
        let (path, mut writer) =
            self.writer(described.schema.clone(), described.partition_spec.clone(), manifest.content)?;
        let row_ids = first_row_ids(manifest, loaded.entries());
        for ((entry, goes), first_row_id) in loaded.entries().iter().zip(going).zip(row_ids) {
            if !entry.is_alive() {
                continue;
            }
            let damaged = |what: &str| DataError::Damaged {
                file: origin.clone(),
                reason: format!("the entry of {} has no {what}", entry.file_path()),
            };
            let sequence_number = entry.sequence_number().ok_or_else(|| damaged("sequence number"))?;
            // Optional in the spec for files older than the field, required by the writer.
            let file_sequence_number = Some(entry.file_sequence_number.unwrap_or(sequence_number));
            let file = with_first_row_id(entry.data_file(), spec_id, first_row_id)?;
            if *goes {
                self.counters.remove(entry.data_file(), spec_id);
                writer.add_delete_file(file, sequence_number, file_sequence_number).about(&path)?;
            } else {
                let snapshot_id = entry.snapshot_id().ok_or_else(|| damaged("snapshot id"))?;
                writer.add_existing_file(file, snapshot_id, sequence_number, file_sequence_number).about(&path)?;
            }
        }
        let mut rewritten = writer.write_manifest_file().await.about(&path)?;
        // Every live entry carries its own first row id now, so none need be assigned anew.
        rewritten.first_row_id = manifest.first_row_id;
        Ok(rewritten)
    }

    fn writer(
        &mut self,
        schema: SchemaRef,
        spec: PartitionSpec,
        content: ManifestContentType,
    ) -> Result<(String, ManifestWriter), DataError> {
        let path = format!("{}/{}-m{}.avro", metadata_folder(self.table), self.unique, self.written);
        self.written += 1;
        let output = self.table.file_io.new_output(&path).about(&path)?;
        let spec = avro_spec(spec, &schema).about(&path)?;
        let builder = ManifestWriterBuilder::new(output, Some(self.id.0), schema, spec);
        let writer = match (self.table.metadata.format_version(), content) {
            (FormatVersion::V1, ManifestContentType::Data) => builder.build_v1(),
            (FormatVersion::V1, ManifestContentType::Deletes) => {
                return Err(DataError::Unsupported {
                    what: format!("a delete file in table {}", self.table.name),
                    reason: "format version 1 has no delete files; upgrade the table to version 2".to_owned(),
                });
            }
            (FormatVersion::V2, ManifestContentType::Data) => builder.build_v2_data(),
            (FormatVersion::V2, ManifestContentType::Deletes) => builder.build_v2_deletes(),
            (FormatVersion::V3, ManifestContentType::Data) => builder.build_v3_data(),
            (FormatVersion::V3, ManifestContentType::Deletes) => builder.build_v3_deletes(),
        };
        Ok((path, writer))
    }
}

/// The first row id of each entry, inherited ones worked out: the manifest's own, then on by the records of every
/// live file without one. Source: Iceberg spec, "First Row ID Inheritance".
pub(crate) fn first_row_ids(manifest: &ManifestFile, entries: &[ManifestEntryRef]) -> Vec<Option<i64>> {
    let mut next = match manifest.content {
        ManifestContentType::Data => manifest.first_row_id.and_then(|id| i64::try_from(id).ok()),
        ManifestContentType::Deletes => None,
    };
    entries
        .iter()
        .map(|entry| {
            let assigned = next?;
            if entry.status() == ManifestStatus::Deleted || entry.data_file().first_row_id().is_some() {
                return entry.data_file().first_row_id();
            }
            next = i64::try_from(entry.record_count()).ok().and_then(|rows| assigned.checked_add(rows));
            Some(assigned)
        })
        .collect()
}

/// The same file with another first row id, under `spec_id`.
fn with_first_row_id(file: &DataFile, spec_id: i32, first_row_id: Option<i64>) -> Result<DataFile, DataError> {
    if file.first_row_id() == first_row_id {
        return Ok(file.clone());
    }
    let mut builder = DataFileBuilder::default();
    builder
        .content(file.content_type())
        .file_path(file.file_path().to_owned())
        .file_format(file.file_format())
        .partition(file.partition().clone())
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .equality_ids(file.equality_ids())
        .first_row_id(first_row_id)
        .partition_spec_id(spec_id)
        .referenced_data_file(file.referenced_data_file())
        .content_offset(file.content_offset())
        .content_size_in_bytes(file.content_size_in_bytes());
    if let Some(order) = file.sort_order_id() {
        builder.sort_order_id(order);
    }
    builder.build().map_err(|error| DataError::Damaged { file: file.file_path().to_owned(), reason: error.to_string() })
}
