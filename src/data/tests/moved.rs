//! How little is read of two states, and what the history tells.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use iceberg::TableCreation;
use iceberg::io::FileIO;
use iceberg::metadata_columns::{RESERVED_FIELD_ID_DELETE_FILE_PATH, RESERVED_FIELD_ID_DELETE_FILE_POS};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, NestedField,
    PrimitiveType, Schema, Struct, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use parquet::arrow::ArrowWriter;
use uuid::Uuid;

use crate::catalog::LoadedTable;
use crate::conflict::{Collision, Named, Reads, Rule, What};
use crate::data::history::{explain, snapshots_between};
use crate::data::moved::{Effort, Moved, change_of, load_moved};
use crate::data::snapshot::{AddedFile, DataChange, RemovedFile, build_snapshot, manifests_of, with_snapshot};
use crate::identity::Change;
use crate::ids::SnapshotId;
use crate::scope::Scope;

/// A table by day, with its newest snapshot.
struct Table {
    loaded: LoadedTable,
    head: Option<SnapshotId>,
    newest: i64,
}

impl Table {
    fn new() -> Self {
        let day = NestedField::required(1, "day", Type::Primitive(PrimitiveType::Int));
        let schema = Schema::builder().with_fields([day.into()]).build().unwrap();
        let spec = UnboundPartitionSpec::builder().add_partition_field(1, "day", Transform::Identity).unwrap().build();
        let creation = TableCreation::builder()
            .name("t".to_owned())
            .location("memory:///t".to_owned())
            .schema(schema)
            .partition_spec(spec)
            .format_version(FormatVersion::V2)
            .build();
        let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
        let loaded = LoadedTable {
            name: "a.t".parse().unwrap(),
            metadata: metadata.into(),
            metadata_location: None,
            file_io: FileIO::new_with_memory(),
        };
        Self { loaded, head: None, newest: 0 }
    }

    /// One snapshot more.
    async fn commit(&mut self, added: &[DataFile], removed: &[&str]) -> SnapshotId {
        let change = DataChange {
            added: added.iter().map(|file| AddedFile { file: file.clone(), spec_id: 0 }).collect(),
            removed: removed
                .iter()
                .map(|path| RemovedFile { path: (*path).to_owned(), content_offset: None })
                .collect(),
        };
        self.newest += 1;
        let (id, now) = (SnapshotId(self.newest), self.loaded.metadata.last_updated_ms() + 1);
        let engine = BTreeMap::from([
            ("engine-name".to_owned(), "spark".to_owned()),
            ("engine-version".to_owned(), "3.5.8".to_owned()),
        ]);
        let unique = Uuid::from_u128(u128::try_from(self.newest).unwrap());
        let built = build_snapshot(&self.loaded, self.head, &change, id, now, engine, unique).await.unwrap();
        self.loaded = with_snapshot(&self.loaded, &built).unwrap();
        self.head = Some(id);
        id
    }

    async fn moved(&self, from: SnapshotId, to: SnapshotId, scope: &str, change: &Change) -> Moved {
        let scope = Scope::parse(scope, self.loaded.metadata.current_schema()).unwrap().canonical();
        load_moved(&self.loaded, Some(from), Some(to), &scope, &Reads::Scope, change).await.unwrap()
    }
}

fn file(path: &str, day: i32) -> DataFile {
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .record_count(10)
        .file_size_in_bytes(1_000)
        .partition(Struct::from_iter([Some(Literal::int(day))]))
        .null_value_counts(HashMap::from([(1, 0)]))
        .lower_bounds(HashMap::from([(1, Datum::int(day))]))
        .upper_bounds(HashMap::from([(1, Datum::int(day))]));
    builder.build().unwrap()
}

fn paths(entries: &[crate::identity::LiveEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.file.file_path()).collect()
}

#[tokio::test]
async fn shared_manifests_are_not_read_and_others_only_where_they_may_matter() {
    let mut table = Table::new();
    let base = table.commit(&[file("a", 4), file("b", 5)], &[]).await;
    let none = Change::default();
    let mut elsewhere = base;
    for day in 10..30 {
        elsewhere = table.commit(&[file(&format!("x{day}"), day)], &[]).await;
    }
    // Nothing of what both list is opened: here it could not be.
    let shared = manifests_of(&table.loaded, Some(base)).await.unwrap();
    let kept = table.loaded.file_io.new_input(&shared[0].manifest_path).unwrap().read().await.unwrap();
    table.loaded.file_io.delete(&shared[0].manifest_path).await.unwrap();
    let moved = table.moved(base, elsewhere, "day = 4", &none).await;
    assert_eq!(moved.effort, Effort { shared: 1, pruned: 20, read: 0 });
    assert!(moved.delta.is_empty());
    let moved = table.moved(base, elsewhere, "day IN (12, 13)", &none).await;
    assert_eq!(moved.effort, Effort { shared: 1, pruned: 18, read: 2 });
    assert_eq!(paths(&moved.delta.added), ["x12", "x13"]);
    table.loaded.file_io.new_output(&shared[0].manifest_path).unwrap().write(kept).await.unwrap();

    // A manifest that is written anew lists the same entries; what was in it and went is the difference.
    let removed = table.commit(&[], &["b"]).await;
    let moved = table.moved(base, removed, "true", &none).await;
    assert_eq!((paths(&moved.delta.removed), moved.delta.added.len()), (vec!["b"], 20));
    let moved = table.moved(base, removed, "day = 4", &none).await;
    assert!(moved.delta.is_empty(), "{:?}", moved.delta);
}

/// The partition of a file that the candidate removes matters, wherever its scope is.
#[tokio::test]
async fn partitions_of_the_candidate_are_read_too() {
    let mut table = Table::new();
    let base = table.commit(&[file("a", 4), file("b", 5)], &[]).await;
    let candidate = table.commit(&[file("c", 4)], &["b"]).await;
    let change = change_of(&table.loaded, Some(base), Some(candidate)).await.unwrap();
    assert_eq!((paths(&change.added), paths(&change.removed)), (vec!["c"], vec!["b"]));
    // Main goes another way from the base.
    table.head = Some(base);
    let main = table.commit(&[file("y", 6)], &["b"]).await;
    assert_eq!(paths(&table.moved(base, main, "day = 4", &change).await.delta.removed), ["b"]);
    // Nothing but the partition of `b`, the last of its manifest, asks for that manifest.
    let change = Change { added: Vec::new(), ..change };
    let moved = table.moved(base, main, "day = 9", &change).await;
    assert_eq!(paths(&moved.delta.removed), ["b"]);
}

/// How many snapshots came in between makes no difference.
#[tokio::test]
async fn a_thousand_snapshots_in_between() {
    let mut table = Table::new();
    let base = table.commit(&[file("a", 4)], &[]).await;
    let mut main = table.commit(&[file("x0", 10)], &[]).await;
    for number in 1..1_000 {
        let (new, old) = (file(&format!("x{number}"), 10), format!("x{}", number - 1));
        main = table.commit(&[new], &[&old]).await;
    }
    let moved = table.moved(base, main, "day = 4", &Change::default()).await;
    assert!(moved.delta.is_empty());
    assert_eq!((moved.effort.shared, moved.effort.read), (1, 0), "{:?}", moved.effort);
    let moved = table.moved(base, main, "day = 10", &Change::default()).await;
    assert_eq!(paths(&moved.delta.added), ["x999"]);
    assert!(moved.effort.read < 4, "{:?}", moved.effort);
    assert_eq!(snapshots_between(&table.loaded, Some(base), Some(main)), 200, "as many as are looked at");
}

/// Position deletes that name many files, in the bytes of a Parquet file.
fn position_deletes(of: &[&str]) -> Vec<u8> {
    let field = |id: i32, name: &str, kind| {
        let id = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
        Field::new(name, kind, false).with_metadata(id)
    };
    let schema = Arc::new(ArrowSchema::new(vec![
        field(RESERVED_FIELD_ID_DELETE_FILE_PATH, "file_path", DataType::Utf8),
        field(RESERVED_FIELD_ID_DELETE_FILE_POS, "pos", DataType::Int64),
    ]));
    let paths: ArrayRef = Arc::new(StringArray::from(of.to_vec()));
    let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(0..of.len() as i64));
    let batch = RecordBatch::try_new(schema.clone(), vec![paths, positions]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn position_deletes_are_read_for_the_files_that_they_name() {
    let mut table = Table::new();
    let files = [file("a", 4), file("b", 4), file("z", 4), file("y", 5)];
    let base = table.commit(&files, &[]).await;
    let deletes = |path: &str, day: i32| {
        let mut builder = DataFileBuilder::default();
        builder
            .content(DataContentType::PositionDeletes)
            .file_path(path.to_owned())
            .file_format(DataFileFormat::Parquet)
            .record_count(3)
            .file_size_in_bytes(1_000)
            .partition(Struct::from_iter([Some(Literal::int(day))]));
        builder.build().unwrap()
    };
    let write = async |path: &str, bytes: Vec<u8>| {
        table.loaded.file_io.new_output(path).unwrap().write(bytes.into()).await.unwrap();
    };
    let many = "memory:///t/data/many.parquet";
    let bad = "memory:///t/data/bad.parquet";
    write(many, position_deletes(&["a", "a", "b"])).await;
    write(bad, b"not Parquet".to_vec()).await;
    let main = table.commit(&[deletes(many, 4), deletes(bad, 4), deletes("elsewhere", 5)], &[]).await;
    let moved = table.moved(base, main, "day = 4", &Change::default()).await;
    let named: Vec<&str> = moved.named.keys().map(String::as_str).collect();
    assert_eq!(named, [bad, many], "of another day nothing is read: {:?}", moved.delta);
    assert_eq!(moved.named[many], Named::Files(["a", "b"].map(str::to_owned).into()));
    assert!(matches!(&moved.named[bad], Named::Unreadable(_)), "{:?}", moved.named[bad]);
    // What they aim at is looked up in the manifests that both states share.
    let mut aimed_at = paths(&moved.aimed_at);
    aimed_at.sort_unstable();
    assert_eq!(aimed_at, ["a", "b"]);
}

#[tokio::test]
async fn the_history_names_who_did_it() {
    let mut table = Table::new();
    let base = table.commit(&[file("a", 4), file("b", 4)], &[]).await;
    let added = table.commit(&[file("c", 4)], &[]).await;
    let removed = table.commit(&[file("d", 4)], &["a"]).await;
    let main = table.commit(&[file("e", 5)], &[]).await;
    let moved = table.moved(base, main, "day = 4", &Change::default()).await;
    let collision = |file: &str, snapshot| Collision {
        rule: Rule::K2,
        what: What::Added,
        file: Some(file.to_owned()),
        partition: None,
        sequence_number: None,
        possible: false,
        detail: None,
        snapshot,
        by: None,
    };
    assert_eq!(
        moved.delta.added.iter().map(|entry| entry.snapshot_id).collect::<Vec<_>>(),
        [Some(added), Some(removed)]
    );
    let mut told =
        [collision("c", Some(added)), collision("d", Some(removed)), collision("a", None), collision("z", None)];
    explain(&table.loaded, Some(base), Some(main), &mut told).await;
    let by = |one: &Collision| one.by.as_ref().map(|author| (author.snapshot, author.operation.clone()));
    assert_eq!(by(&told[0]), Some((added, "append".to_owned())));
    assert_eq!(by(&told[1]), Some((removed, "overwrite".to_owned())));
    assert_eq!(by(&told[2]), Some((removed, "overwrite".to_owned())));
    assert_eq!(by(&told[3]), None);
    assert_eq!(told[0].by.as_ref().and_then(|author| author.engine.clone()), Some("spark 3.5.8".to_owned()));
}
