//! A table in a temporary folder, without a catalog, for the tests of this module.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{FormatVersion, Manifest, ManifestFile, Schema, Snapshot, TableMetadataBuilder};
use tempfile::TempDir;

use super::create::{parse_partition_by, table_creation};
use super::snapshot::{DataChange, build_snapshot, manifests_of, with_snapshot};
use super::write::Staged;
use crate::catalog::LoadedTable;
use crate::clock::{Clock, ManualClock};
use crate::ids::SnapshotId;

pub(crate) struct Bed {
    pub(crate) dir: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) table: LoadedTable,
    /// The newest snapshot.
    pub(crate) head: Option<SnapshotId>,
}

impl Bed {
    pub(crate) fn new(version: FormatVersion, schema: Schema, partition_by: &str, properties: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().unwrap();
        let spec = parse_partition_by(partition_by, &schema).unwrap();
        let properties: BTreeMap<_, _> =
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut creation = table_creation("t", schema, spec, version, properties);
        creation.location = Some(dir.path().join("t").display().to_string());
        let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
        let table = LoadedTable {
            name: "ns.t".parse().unwrap(),
            metadata: Arc::new(metadata),
            metadata_location: None,
            file_io: FileIO::new_with_fs(),
        };
        Self { dir, clock: ManualClock::starting_now(7), table, head: None }
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn parquet(&self, name: &str, batch: &RecordBatch) -> PathBuf {
        let path = self.dir.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        path
    }

    /// Makes a snapshot of the change the newest.
    pub(crate) async fn commit(&mut self, change: &DataChange) -> Snapshot {
        let id = self.clock.fresh_snapshot_id();
        let now = self.clock.now().timestamp_millis();
        let unique = self.clock.fresh_uuid();
        let snapshot = build_snapshot(&self.table, self.head, change, id, now, BTreeMap::new(), unique).await.unwrap();
        self.adopt(&snapshot);
        snapshot
    }

    pub(crate) async fn commit_staged(&mut self, staged: &Staged) -> Snapshot {
        self.commit(&staged.change()).await
    }

    pub(crate) fn adopt(&mut self, snapshot: &Snapshot) {
        self.table = with_snapshot(&self.table, snapshot).unwrap();
        self.head = Some(SnapshotId(snapshot.snapshot_id()));
    }

    /// The rows of a snapshot as iceberg reads them, as text, sorted.
    pub(crate) async fn rows(&self, id: Option<SnapshotId>) -> Vec<String> {
        let Some(id) = id else { return Vec::new() };
        let scan = self.table.to_iceberg().unwrap().scan().snapshot_id(id.0).select_all().build().unwrap();
        let batches: Vec<RecordBatch> = scan.to_arrow().await.unwrap().try_collect().await.unwrap();
        let mut rows: Vec<String> = batches.iter().flat_map(text_rows).collect();
        rows.sort();
        rows
    }

    pub(crate) async fn manifests(&self, id: Option<SnapshotId>) -> Vec<(ManifestFile, Manifest)> {
        let mut loaded = Vec::new();
        for manifest in manifests_of(&self.table, id).await.unwrap() {
            let content = manifest.load_manifest(&self.table.file_io).await.unwrap();
            loaded.push((manifest, content));
        }
        loaded
    }
}

pub(crate) fn text_rows(batch: &RecordBatch) -> Vec<String> {
    let cell = |column: &arrow_array::ArrayRef, row: usize| {
        if arrow_array::Array::is_null(column, row) {
            return "null".to_owned();
        }
        arrow_cast::display::array_value_to_string(column, row).unwrap()
    };
    (0..batch.num_rows())
        .map(|row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|"))
        .collect()
}

pub(crate) fn summary_of(snapshot: &Snapshot) -> HashMap<String, String> {
    snapshot.summary().additional_properties.clone()
}
