use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, FormatVersion, NestedField, Operation, PrimitiveType, Schema,
    Struct, Type,
};

use super::VERSIONS;
use crate::data::replace::replace;
use crate::data::snapshot::{AddedFile, DataChange};
use crate::data::testkit::{Bed, summary_of};
use crate::data::write::{Staged, append};
use crate::data::{DataError, NoProgress};
use crate::scope::Scope;

fn schema() -> Schema {
    Schema::builder()
        .with_fields(vec![
            Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
            Arc::new(NestedField::optional(2, "region", Type::Primitive(PrimitiveType::String))),
            Arc::new(NestedField::optional(3, "note", Type::Primitive(PrimitiveType::String))),
        ])
        .build()
        .unwrap()
}

async fn fill(bed: &mut Bed, csv: &str) -> Staged {
    let input = bed.file("fill.csv", format!("id,region,note\n{csv}"));
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    bed.commit_staged(&staged).await;
    staged
}

async fn try_replace(bed: &Bed, scope: &str, csv: &str) -> Result<Staged, DataError> {
    let scope = Scope::parse(scope, bed.table.metadata.current_schema()).unwrap();
    let inputs = match csv {
        "" => vec![],
        csv => vec![bed.file("in.csv", format!("id,region,note\n{csv}"))],
    };
    replace(&bed.table, bed.head, &scope, &inputs, &bed.clock, &NoProgress).await
}

/// Lays a delete file of one Parquet batch into the table, beside the data file's partition.
async fn delete(bed: &mut Bed, name: &str, beside: &Staged, batch: RecordBatch, equality_ids: Option<Vec<i32>>) {
    let added = vec![delete_file(bed, name, beside, batch, equality_ids)];
    bed.commit(&DataChange { added, removed: vec![] }).await;
}

fn delete_file(
    bed: &Bed,
    name: &str,
    beside: &Staged,
    batch: RecordBatch,
    equality_ids: Option<Vec<i32>>,
) -> AddedFile {
    let path = bed.parquet(name, &batch);
    let beside = &beside.added[0];
    let mut builder = DataFileBuilder::default();
    builder
        .content(match equality_ids {
            Some(_) => DataContentType::EqualityDeletes,
            None => DataContentType::PositionDeletes,
        })
        .file_path(path.display().to_string())
        .file_format(DataFileFormat::Parquet)
        .partition(beside.file.partition().clone())
        .record_count(batch.num_rows() as u64)
        .file_size_in_bytes(std::fs::metadata(&path).unwrap().len())
        .equality_ids(equality_ids)
        .partition_spec_id(beside.spec_id);
    AddedFile { file: builder.build().unwrap(), spec_id: beside.spec_id }
}

fn with_id(name: &str, kind: DataType, id: i32) -> Field {
    Field::new(name, kind, true).with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]))
}

fn positions(file: &str, positions: &[i64]) -> RecordBatch {
    let fields = vec![with_id("file_path", DataType::Utf8, 2147483546), with_id("pos", DataType::Int64, 2147483545)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(vec![file; positions.len()])), Arc::new(Int64Array::from(positions.to_vec()))];
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
}

fn regions(values: &[Option<&str>]) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    let fields = vec![with_id("region", DataType::Utf8, 2)];
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), vec![column]).unwrap()
}

#[tokio::test]
async fn what_is_inside_goes_and_what_is_unknown_stays() {
    for version in VERSIONS {
        for partitioning in ["", "region", "bucket(2, id)", "truncate(1, region), void(note)"] {
            let mut bed = Bed::new(version, schema(), partitioning, &[]);
            fill(&mut bed, "1,a,x\n2,b,x\n3,,x\n4,a,y\n").await;
            fill(&mut bed, "5,a,x\n6,c,\n7,,\n").await;
            let staged = try_replace(&bed, "region = 'a'", "8,a,new\n9,a,\n").await.unwrap();
            assert_eq!((staged.rows_added, staged.rows_removed), (2, 3), "{version} {partitioning}");
            let snapshot = bed.commit_staged(&staged).await;
            assert_eq!(
                bed.rows(bed.head).await,
                ["2|b|x", "3|null|x", "6|c|null", "7|null|null", "8|a|new", "9|a|null"],
                "{version} {partitioning}"
            );
            assert_eq!(snapshot.summary().operation, Operation::Overwrite);
            assert_eq!(summary_of(&snapshot)["total-records"], "6");
            assert_eq!(
                summary_of(&snapshot)["total-data-files"].parse::<usize>().unwrap(),
                bed.manifests(bed.head).await.iter().flat_map(|(_, m)| m.entries()).filter(|e| e.is_alive()).count()
            );
        }
    }
}

#[tokio::test]
async fn an_or_with_an_unknown_side_goes_only_where_it_is_true() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    fill(&mut bed, "1,a,x\n2,,x\n3,,y\n4,b,y\n5,b,\n").await;
    let staged = try_replace(&bed, "region = 'a' OR note = 'y'", "").await.unwrap();
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["2|null|x", "5|b|null"]);
}

#[tokio::test]
async fn only_files_with_rows_on_both_sides_are_written_anew() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "region", &[]);
    let first = fill(&mut bed, "1,a,x\n2,b,x\n3,c,x\n").await;
    // Same partition, other notes: bounds alone cannot tell that the scope is not in this one.
    let second = fill(&mut bed, "4,b,w\n5,b,z\n").await;
    let staged = try_replace(&bed, "region IN ('a', 'b') AND note = 'x'", "").await.unwrap();
    assert!(staged.added.is_empty(), "nothing is carried out of files that go whole");
    let gone: Vec<_> = staged.removed.iter().map(|file| file.path.as_str()).collect();
    assert!(!gone.contains(&second.added[0].file.file_path()), "a file with none inside is left alone");
    assert_eq!(gone.len(), 2);
    assert_eq!((staged.rows_removed, staged.rows_carried), (2, 0));
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["3|c|x", "4|b|w", "5|b|z"]);
    assert_eq!(first.added.len(), 3);

    let staged = try_replace(&bed, "id = 4", "").await.unwrap();
    assert_eq!((staged.rows_removed, staged.rows_carried, staged.added.len()), (1, 1, 1));
    let snapshot = bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["3|c|x", "5|b|z"]);
    assert_eq!(summary_of(&snapshot)["total-records"], "2");
}

#[tokio::test]
async fn the_whole_table_and_an_empty_table_can_be_replaced() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, schema(), "region", &[]);
        let staged = try_replace(&bed, "true", "1,a,x\n").await.unwrap();
        assert_eq!((staged.rows_removed, staged.removed.len()), (0, 0));
        bed.commit_staged(&staged).await;
        let staged = try_replace(&bed, "true", "2,,\n3,b,y\n").await.unwrap();
        assert_eq!((staged.rows_removed, staged.rows_carried), (1, 0));
        bed.commit_staged(&staged).await;
        assert_eq!(bed.rows(bed.head).await, ["2|null|null", "3|b|y"]);
    }
}

#[tokio::test]
async fn rows_outside_the_scope_are_refused_by_number() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    fill(&mut bed, "1,a,x\n2,b,x\n").await;
    for (csv, complaint) in
        [("3,a,x\n4,b,x\n", "row 2 is not in the scope"), ("3,a,x\n4,a,x\n5,,x\n", "row 3 is not in the scope")]
    {
        let error = try_replace(&bed, "region = 'a'", csv).await.unwrap_err();
        assert!(matches!(&error, DataError::Input { file, .. } if file.ends_with("in.csv")), "{error}");
        assert!(error.to_string().contains(complaint), "{error}");
    }
    assert_eq!(std::fs::read_dir(bed.dir.path().join("t/data")).unwrap().count(), 1, "no file is left behind");
}

#[tokio::test]
async fn deleted_rows_do_not_come_back() {
    for version in [FormatVersion::V2, FormatVersion::V3] {
        for partitioning in ["", "bucket(1, id)"] {
            let mut bed = Bed::new(version, schema(), partitioning, &[]);
            let staged = fill(&mut bed, "1,a,x\n2,b,x\n3,,x\n4,d,x\n5,e,x\n6,f,x\n").await;
            let file = staged.added[0].file.file_path().to_owned();
            delete(&mut bed, "p.parquet", &staged, positions(&file, &[3, 1]), None).await;
            let other = positions("elsewhere.parquet", &[0, 2]);
            delete(&mut bed, "o.parquet", &staged, other, None).await;
            delete(&mut bed, "e.parquet", &staged, regions(&[Some("e"), None]), Some(vec![2])).await;
            // Younger than the equality delete, so it keeps its rows.
            fill(&mut bed, "7,e,x\n8,,x\n9,z,w\n").await;
            let before = bed.rows(bed.head).await;
            assert_eq!(
                before,
                ["1|a|x", "6|f|x", "7|e|x", "8|null|x", "9|z|w"],
                "as iceberg's own reader applies them"
            );
            let staged = try_replace(&bed, "id IN (6, 9)", "").await.unwrap();
            assert_eq!((staged.rows_removed, staged.rows_carried), (2, 3), "{version} {partitioning}");
            bed.commit_staged(&staged).await;
            assert_eq!(bed.rows(bed.head).await, ["1|a|x", "7|e|x", "8|null|x"], "{version} {partitioning}");
        }
    }
}

/// As engines write that update rows as they come: positions are of the commit's own files, values of earlier ones.
#[tokio::test]
async fn deletes_committed_with_the_rows_take_positions_and_not_values() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    fill(&mut bed, "1,a,x\n2,b,x\n").await;
    let input = bed.file("more.csv", "id,region,note\n3,a,x\n4,c,x\n5,c,x\n");
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    let file = staged.added[0].file.file_path().to_owned();
    let mut change = staged.change();
    change.added.push(delete_file(&bed, "p.parquet", &staged, positions(&file, &[1]), None));
    change.added.push(delete_file(&bed, "e.parquet", &staged, regions(&[Some("a")]), Some(vec![2])));
    bed.commit(&change).await;
    assert_eq!(bed.rows(bed.head).await, ["2|b|x", "3|a|x", "5|c|x"], "as iceberg's own reader applies them");
    let staged = try_replace(&bed, "id = 5", "").await.unwrap();
    assert_eq!((staged.rows_removed, staged.rows_carried), (1, 1));
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["2|b|x", "3|a|x"]);
}

#[tokio::test]
async fn delete_files_are_counted_and_can_be_removed() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "region", &[]);
    let staged = fill(&mut bed, "1,a,x\n2,a,x\n").await;
    let file = staged.added[0].file.file_path().to_owned();
    delete(&mut bed, "p.parquet", &staged, positions(&file, &[0]), None).await;
    delete(&mut bed, "e.parquet", &staged, regions(&[Some("q")]), Some(vec![2])).await;
    let head = bed.table.metadata.snapshot_by_id(bed.head.unwrap().0).unwrap().clone();
    assert_eq!(head.summary().operation, Operation::Delete);
    assert_eq!(summary_of(&head)["added-equality-deletes"], "1");
    assert_eq!(summary_of(&head)["total-equality-deletes"], "1");
    assert_eq!(summary_of(&head)["total-position-deletes"], "1");
    assert_eq!(summary_of(&head)["total-delete-files"], "2");
    assert_eq!(bed.rows(bed.head).await, ["2|a|x"]);
    let path = bed.dir.path().join("p.parquet").display().to_string();
    let removed = vec![crate::data::snapshot::RemovedFile { path, content_offset: None }];
    let snapshot = bed.commit(&DataChange { added: vec![], removed }).await;
    assert_eq!(summary_of(&snapshot)["removed-position-delete-files"], "1");
    assert_eq!(summary_of(&snapshot)["total-delete-files"], "1");
    assert_eq!(summary_of(&snapshot)["total-records"], "2");
    assert_eq!(bed.rows(bed.head).await, ["1|a|x", "2|a|x"]);
}

#[tokio::test]
async fn deletes_of_another_partition_take_nothing() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "note", &[]);
    let x = fill(&mut bed, "1,a,x\n2,b,x\n").await;
    fill(&mut bed, "3,a,y\n4,b,y\n").await;
    delete(&mut bed, "e.parquet", &x, regions(&[Some("a")]), Some(vec![2])).await;
    assert_eq!(bed.rows(bed.head).await, ["2|b|x", "3|a|y", "4|b|y"]);
    let staged = try_replace(&bed, "region = 'b'", "").await.unwrap();
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["3|a|y"]);
}

#[tokio::test]
async fn a_scope_with_only_deleted_rows_in_a_file_leaves_it_alone() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    let staged = fill(&mut bed, "1,a,x\n2,b,x\n").await;
    let file = staged.added[0].file.file_path().to_owned();
    delete(&mut bed, "p.parquet", &staged, positions(&file, &[0]), None).await;
    let staged = try_replace(&bed, "region = 'a'", "3,a,x\n").await.unwrap();
    assert_eq!((staged.removed.len(), staged.rows_removed), (0, 0));
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["2|b|x", "3|a|x"]);
    let staged = try_replace(&bed, "true", "9,a,x\n").await.unwrap();
    assert_eq!(staged.rows_removed, 2, "a deleted row is not counted twice");
}

#[tokio::test]
async fn a_file_under_a_deletion_vector_is_refused_by_name() {
    let mut bed = Bed::new(FormatVersion::V3, schema(), "region", &[]);
    let staged = fill(&mut bed, "1,a,x\n2,b,x\n").await;
    let [a, b] = staged.added.as_slice() else { panic!("two partitions") };
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::PositionDeletes)
        .file_path("dv.puffin".to_owned())
        .file_format(DataFileFormat::Puffin)
        .partition(a.file.partition().clone())
        .record_count(1)
        .file_size_in_bytes(100)
        .content_offset(Some(4))
        .content_size_in_bytes(Some(40))
        .referenced_data_file(Some(a.file.file_path().to_owned()))
        .partition_spec_id(a.spec_id);
    let added = vec![AddedFile { file: builder.build().unwrap(), spec_id: a.spec_id }];
    let snapshot = bed.commit(&DataChange { added, removed: vec![] }).await;
    assert_eq!(summary_of(&snapshot)["added-dvs"], "1");
    assert_eq!(summary_of(&snapshot)["total-position-deletes"], "1");
    let error = try_replace(&bed, "id = 1", "").await.unwrap_err();
    assert!(matches!(&error, DataError::Unsupported { what, .. } if what.contains(a.file.file_path())), "{error}");
    // The other partition's file is not under it.
    let staged = try_replace(&bed, "region = 'b'", "").await.unwrap();
    assert_eq!(staged.removed[0].path, b.file.file_path());
}

#[tokio::test]
async fn a_damaged_or_missing_data_file_is_named() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    let staged = fill(&mut bed, "1,a,x\n2,b,x\n").await;
    let path = staged.added[0].file.file_path().to_owned();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = try_replace(&bed, "id = 1", "").await.unwrap_err();
    assert!(matches!(&error, DataError::Damaged { file, .. } if *file == path), "{error:?}");
    std::fs::remove_file(&path).unwrap();
    let error = try_replace(&bed, "id = 1", "").await.unwrap_err();
    assert!(matches!(&error, DataError::Io { file, .. } if *file == path), "{error:?}");
}

#[tokio::test]
async fn a_column_of_a_type_that_would_be_read_as_missing_is_refused() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    let fields = vec![with_id("id", DataType::Int64, 1), with_id("region", DataType::Binary, 2)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(arrow_array::BinaryArray::from(vec![b"a".as_slice(), b"b"])),
    ];
    let batch = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap();
    let path = bed.parquet("odd.parquet", &batch);
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path(path.display().to_string())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .record_count(2)
        .file_size_in_bytes(std::fs::metadata(&path).unwrap().len())
        .partition_spec_id(0);
    let added = vec![AddedFile { file: builder.build().unwrap(), spec_id: 0 }];
    bed.commit(&DataChange { added, removed: vec![] }).await;
    let error = try_replace(&bed, "id = 1", "").await.unwrap_err();
    assert!(matches!(&error, DataError::Unsupported { .. }) && error.to_string().contains("`region`"), "{error}");
}

/// id of the row → its row id and last updated sequence number, as the files of a change store them.
fn stored_lineage(staged: &Staged) -> BTreeMap<i64, (Option<i64>, Option<i64>)> {
    let mut found = BTreeMap::new();
    for new in &staged.added {
        let file = std::fs::File::open(new.file.file_path()).unwrap();
        let reader =
            parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
            let (ids, row_ids, numbers) = (column("id"), column("_row_id"), column("_last_updated_sequence_number"));
            let value = |column: &Int64Array, row: usize| (!column.is_null(row)).then(|| column.value(row));
            for row in 0..batch.num_rows() {
                found.insert(ids.value(row), (value(&row_ids, row), value(&numbers, row)));
            }
        }
    }
    found
}

#[tokio::test]
async fn carried_rows_keep_their_row_ids_on_version_3() {
    let mut bed = Bed::new(FormatVersion::V3, schema(), "", &[]);
    fill(&mut bed, "100,a,x\n101,b,x\n").await;
    let staged = fill(&mut bed, "1,a,x\n2,b,x\n3,c,x\n4,d,x\n").await;
    let file = staged.added[0].file.file_path().to_owned();
    delete(&mut bed, "p.parquet", &staged, positions(&file, &[1]), None).await;

    let first = try_replace(&bed, "id IN (3, 50)", "50,n,new\n").await.unwrap();
    // Rows 1 to 4 were given the ids 2 to 5; 2 is deleted, 3 goes, 50 is new.
    assert_eq!(
        stored_lineage(&first),
        BTreeMap::from([(1, (Some(2), Some(2))), (4, (Some(5), Some(2))), (50, (None, None))])
    );
    let snapshot = bed.commit_staged(&first).await;
    assert_eq!(snapshot.row_range().map(|(first, _)| first), Some(6));
    assert_eq!(bed.rows(bed.head).await, ["100|a|x", "101|b|x", "1|a|x", "4|d|x", "50|n|new"]);

    // A second rewrite takes what is stored, and what 50 inherited from the first.
    let second = try_replace(&bed, "id = 1", "").await.unwrap();
    let lineage = stored_lineage(&second);
    assert_eq!(lineage[&4], (Some(5), Some(2)));
    let (row_id, number) = lineage[&50];
    assert_eq!(number, Some(4));
    assert!(row_id.unwrap() >= 6 && row_id.unwrap() < 9, "{row_id:?}");
    bed.commit_staged(&second).await;
    assert_eq!(bed.rows(bed.head).await, ["100|a|x", "101|b|x", "4|d|x", "50|n|new"]);
}

#[tokio::test]
async fn carried_rows_are_many_batches_long_with_lineage_and_deletes() {
    let mut bed = Bed::new(FormatVersion::V3, schema(), "", &[]);
    let lines: String = (0..20_000).map(|i| format!("{i},r{},x\n", i % 10)).collect();
    let staged = fill(&mut bed, &lines).await;
    let file = staged.added[0].file.file_path().to_owned();
    delete(&mut bed, "p.parquet", &staged, positions(&file, &[0, 8191, 8192, 16_384, 19_999]), None).await;
    let first = try_replace(&bed, "region = 'r3'", "").await.unwrap();
    let lineage = stored_lineage(&first);
    assert_eq!(lineage.len(), 18_000 - 5);
    assert!(lineage.iter().all(|(id, (row_id, number))| *row_id == Some(*id) && *number == Some(1)));
    assert_eq!(first.rows_carried, 18_000 - 5);
    bed.commit_staged(&first).await;
    let second = try_replace(&bed, "region = 'r5'", "").await.unwrap();
    let lineage = stored_lineage(&second);
    assert!(lineage.iter().all(|(id, (row_id, number))| *row_id == Some(*id) && *number == Some(1)));
}
