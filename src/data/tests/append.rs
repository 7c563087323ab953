use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use iceberg::spec::{FormatVersion, NestedField, PrimitiveType, Schema, Type};

use super::VERSIONS;
use crate::clock::Clock;
use crate::data::testkit::{Bed, summary_of, text_rows};
use crate::data::write::{Limits, TableWriter, append};
use crate::data::{DataError, NoProgress};
use crate::digest::Digest;

fn field(id: i32, name: &str, kind: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::optional(id, name, Type::Primitive(kind)))
}

fn wide_schema() -> Schema {
    Schema::builder()
        .with_fields(vec![
            Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
            field(2, "name", PrimitiveType::String),
            field(3, "at", PrimitiveType::Timestamp),
            field(4, "atz", PrimitiveType::Timestamptz),
            field(5, "day", PrimitiveType::Date),
            field(6, "price", PrimitiveType::Decimal { precision: 9, scale: 2 }),
            field(7, "score", PrimitiveType::Double),
            field(8, "ok", PrimitiveType::Boolean),
            field(9, "key", PrimitiveType::Uuid),
            field(10, "blob", PrimitiveType::Binary),
            field(11, "small", PrimitiveType::Int),
        ])
        .build()
        .unwrap()
}

fn wide_batch(bed: &Bed) -> RecordBatch {
    let schema = Arc::new(iceberg::arrow::schema_to_arrow_schema(bed.table.metadata.current_schema()).unwrap());
    let count = 40i64;
    let some = |i: i64| (i % 7 != 3).then_some(i);
    let micros = |i: i64| some(i).map(|i| 1_700_000_000_000_000 + i * 3_000_000_000_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..count)),
        Arc::new(StringArray::from_iter(
            (0..count).map(|i| some(i).map(|i| format!("näme-{i:02} which is rather long"))),
        )),
        Arc::new(TimestampMicrosecondArray::from_iter((0..count).map(micros))),
        Arc::new(TimestampMicrosecondArray::from_iter((0..count).map(micros)).with_timezone("+00:00")),
        Arc::new(Date32Array::from_iter((0..count).map(|i| some(i).map(|i| i as i32 * 30)))),
        Arc::new(
            Decimal128Array::from_iter((0..count).map(|i| some(i).map(|i| i128::from(i) * 111 - 2000)))
                .with_precision_and_scale(9, 2)
                .unwrap(),
        ),
        Arc::new(Float64Array::from_iter(
            (0..count).map(|i| some(i).map(|i| if i == 5 { f64::NAN } else { i as f64 / 2.0 - 3.0 })),
        )),
        Arc::new(BooleanArray::from_iter((0..count).map(|i| some(i).map(|i| i % 2 == 0)))),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                (0..count).map(|i| some(i).map(|i| uuid::Uuid::from_u128(i as u128 % 5).into_bytes())),
                16,
            )
            .unwrap(),
        ),
        Arc::new(LargeBinaryArray::from_iter((0..count).map(|i| some(i).map(|i| vec![255u8, i as u8])))),
        Arc::new(Int32Array::from_iter((0..count).map(|i| some(i).map(|i| i as i32 - 20)))),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

const PARTITIONINGS: [&str; 21] = [
    "",
    "id",
    "name",
    "ok",
    "price",
    "blob",
    "day",
    "score",
    "bucket(4, id)",
    "bucket(3, name)",
    "bucket(3, price)",
    "bucket(3, key)",
    "bucket(3, at)",
    "bucket(3, blob)",
    "truncate(10, id)",
    "truncate(7, name)",
    "truncate(50, price)",
    "year(at), month(atz)",
    "day(day), bucket(2, small)",
    "hour(at)",
    "void(name), truncate(10, small)",
];

#[tokio::test]
async fn rows_come_back_from_every_partitioning_and_format_version() {
    for version in VERSIONS {
        for partitioning in PARTITIONINGS {
            let mut bed = Bed::new(version, wide_schema(), partitioning, &[]);
            let batch = wide_batch(&bed);
            let input = bed.parquet("in.parquet", &batch);
            let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
            assert_eq!(staged.rows_added, 40, "{version} {partitioning}");
            bed.commit_staged(&staged).await;
            let mut expected = text_rows(&batch);
            expected.sort();
            assert_eq!(bed.rows(bed.head).await, expected, "{version} {partitioning}");
            for new in &staged.added {
                let bytes = std::fs::read(new.file.file_path()).unwrap();
                assert_eq!(Digest::of_bytes(&bytes), new.sha256);
                assert_eq!(bytes.len() as u64, new.file.file_size_in_bytes());
                assert_eq!(new.file.sort_order_id(), Some(0));
                assert_eq!(new.file.split_offsets(), Some([4i64].as_slice()));
            }
        }
    }
}

#[tokio::test]
async fn partitions_hold_their_own_rows_and_values() {
    let mut bed = Bed::new(FormatVersion::V2, wide_schema(), "day(day), bucket(2, small), name", &[]);
    let batch = wide_batch(&bed);
    let input = bed.parquet("in.parquet", &batch);
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    bed.commit_staged(&staged).await;
    // A scan by an identity partition column prunes by the partition tuple: a wrong tuple would lose the row.
    use futures::TryStreamExt;
    use iceberg::expr::Reference;
    use iceberg::spec::Datum;
    for (filter, expected) in [
        (Reference::new("name").equal_to(Datum::string("näme-11 which is rather long")), 1),
        (Reference::new("day").equal_to(Datum::date(30 * 12)), 1),
        (Reference::new("small").equal_to(Datum::int(-19)), 1),
        (Reference::new("name").is_null(), 6),
    ] {
        let table = bed.table.to_iceberg().unwrap();
        let scan = table.scan().snapshot_id(bed.head.unwrap().0).with_filter(filter.clone());
        let batches: Vec<RecordBatch> = scan.build().unwrap().to_arrow().await.unwrap().try_collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), expected, "{filter}");
    }
}

#[tokio::test]
async fn bounds_and_counts_are_those_of_the_rows() {
    let bed = Bed::new(FormatVersion::V2, wide_schema(), "", &[]);
    let input = bed.parquet("in.parquet", &wide_batch(&bed));
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    let file = &staged.added[0].file;
    let text = |bounds: &HashMap<i32, iceberg::spec::Datum>| -> BTreeMap<i32, String> {
        bounds.iter().map(|(id, datum)| (*id, datum.to_human_string())).collect()
    };
    let (lower, upper) = (text(file.lower_bounds()), text(file.upper_bounds()));
    assert_eq!(lower[&1], "0");
    assert_eq!(upper[&1], "39");
    assert_eq!(lower[&2], "näme-00 which is");
    assert_eq!(upper[&2], "näme-39 which it", "raised, because it was cut");
    assert_eq!(lower[&5], "1970-01-01");
    assert_eq!(lower[&6], "-20.00");
    assert_eq!(upper[&6], "23.29");
    assert_eq!(lower[&7], "-3");
    assert_eq!(upper[&7], "16.5", "a NaN is no bound");
    assert_eq!((lower[&8].as_str(), upper[&8].as_str()), ("false", "true"));
    assert_eq!(upper[&9], uuid::Uuid::from_u128(4).to_string());
    assert_eq!(file.lower_bounds()[&10].to_bytes().unwrap().as_slice(), [255, 0]);
    assert_eq!(file.null_value_counts()[&2], 6);
    assert_eq!(file.null_value_counts()[&1], 0);
    assert_eq!(file.value_counts()[&2], 40);
    assert_eq!(file.nan_value_counts(), &HashMap::from([(7, 1)]));
    assert!(file.column_sizes()[&1] > 0);
}

#[tokio::test]
async fn metrics_follow_the_table_s_modes() {
    let bed = Bed::new(
        FormatVersion::V2,
        wide_schema(),
        "",
        &[
            ("write.metadata.metrics.default", "counts"),
            ("write.metadata.metrics.column.name", "full"),
            ("write.metadata.metrics.column.id", "none"),
            ("write.metadata.metrics.column.blob", "truncate(1)"),
        ],
    );
    let input = bed.parquet("in.parquet", &wide_batch(&bed));
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    let file = &staged.added[0].file;
    assert_eq!(file.upper_bounds()[&2].to_human_string(), "näme-39 which is rather long");
    assert_eq!(file.lower_bounds().get(&5), None);
    assert_eq!(file.null_value_counts().get(&5), Some(&6));
    assert_eq!(file.value_counts().get(&1), None);
    assert_eq!(file.lower_bounds()[&10].to_bytes().unwrap().as_slice(), [255]);
    assert_eq!(file.upper_bounds().get(&10), None, "255 cannot be raised");
}

#[tokio::test]
async fn a_column_of_nulls_has_counts_and_no_bounds() {
    let schema = Schema::builder()
        .with_fields(vec![field(1, "a", PrimitiveType::String), field(2, "b", PrimitiveType::Double)])
        .build()
        .unwrap();
    let mut bed = Bed::new(FormatVersion::V2, schema, "a", &[]);
    let input = bed.file("in.csv", "b\nNaN\nNaN\n");
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    let file = &staged.added[0].file;
    assert!(file.lower_bounds().is_empty() && file.upper_bounds().is_empty());
    assert_eq!(file.null_value_counts()[&1], 2);
    assert_eq!(file.nan_value_counts()[&2], 2);
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await, ["null|NaN", "null|NaN"]);
}

fn narrow_schema() -> Schema {
    Schema::builder()
        .with_fields(vec![
            Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
            field(2, "name", PrimitiveType::String),
        ])
        .build()
        .unwrap()
}

#[tokio::test]
async fn more_partitions_than_open_files_lose_nothing() {
    let mut bed = Bed::new(FormatVersion::V2, narrow_schema(), "id", &[]);
    let limits = Limits { open_files: 4, buffered_bytes: 1 << 20 };
    let mut writer = TableWriter::new(&bed.table, bed.clock.fresh_uuid(), limits, &[]).unwrap();
    let arrow = writer.arrow_schema.clone();
    for round in 0..3i64 {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values((0..50).map(|i| (i * 7) % 50))),
            Arc::new(StringArray::from_iter_values((0..50).map(|i| format!("{round}-{i}")))),
        ];
        writer.write(&RecordBatch::try_new(arrow.clone(), columns).unwrap()).await.unwrap();
    }
    let added = writer.finish().await.unwrap();
    assert!(added.len() > 100, "files were closed to open others: {}", added.len());
    let paths: std::collections::HashSet<_> = added.iter().map(|new| new.file.file_path()).collect();
    assert_eq!(paths.len(), added.len());
    let staged = crate::data::write::Staged { added, rows_added: 150, ..Default::default() };
    let snapshot = bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await.len(), 150);
    assert_eq!(summary_of(&snapshot)["changed-partition-count"], "50");
}

#[tokio::test]
async fn files_end_at_the_target_size() {
    let mut bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[("write.target-file-size-bytes", "20000")]);
    let lines: String = (0..60_000).map(|i| format!("{i},n{}\n", (i * 7919) % 60_000)).collect();
    let input = bed.file("in.csv", format!("id,name\n{lines}"));
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    assert!(staged.added.len() > 3, "{}", staged.added.len());
    assert_eq!(staged.added.iter().map(|new| new.file.record_count()).sum::<u64>(), 60_000);
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await.len(), 60_000);
}

#[tokio::test]
async fn a_full_buffer_ends_row_groups_not_files() {
    let bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[]);
    let limits = Limits { open_files: 4, buffered_bytes: 100_000 };
    let mut writer = TableWriter::new(&bed.table, bed.clock.fresh_uuid(), limits, &[]).unwrap();
    for round in 0..20i64 {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values((0..8000).map(|i| i * 8000 + round))),
            Arc::new(StringArray::from_iter_values((0..8000).map(|i| format!("{round}-{}", i * 31)))),
        ];
        writer.write(&RecordBatch::try_new(writer.arrow_schema.clone(), columns).unwrap()).await.unwrap();
    }
    let added = writer.finish().await.unwrap();
    assert_eq!(added.len(), 1);
    assert!(added[0].file.split_offsets().unwrap().len() > 2);
}

#[tokio::test]
async fn partition_folders_cannot_leave_the_table() {
    let schema = Schema::builder().with_fields(vec![field(1, "name", PrimitiveType::String)]).build().unwrap();
    let mut bed = Bed::new(FormatVersion::V2, schema, "name", &[]);
    let long = "x".repeat(2000);
    let input = bed.file("in.csv", format!("name\n../../up\n/etc\na b=c/ü\n..\n{long}\n"));
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    for new in &staged.added {
        let inside = new.file.file_path().strip_prefix(bed.table.metadata.location()).unwrap();
        assert_eq!(inside.split('/').count(), 4, "{inside}");
        assert!(!inside.contains(".."), "{inside}");
    }
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await.len(), 5);
}

#[tokio::test]
async fn a_failed_append_leaves_no_file() {
    let bed = Bed::new(FormatVersion::V2, narrow_schema(), "bucket(4, id)", &[]);
    let good = bed.file("good.csv", "id,name\n1,a\n2,b\n3,c\n");
    let bad = bed.file("bad.csv", "id,name\n1,a\nx,b\n");
    let error = append(&bed.table, &[good, bad], &bed.clock, &NoProgress).await.unwrap_err();
    assert!(matches!(error, DataError::Input { .. }), "{error}");
    fn files(folder: &std::path::Path) -> usize {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
    }
    assert_eq!(files(&bed.dir.path().join("t")), 0);
}

async fn refusal(content: &str) -> String {
    let bed = Bed::new(FormatVersion::V2, wide_schema(), "", &[]);
    let input = bed.file("in.csv", content);
    let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err();
    assert!(matches!(error, DataError::Input { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn csv_that_does_not_fit_is_refused_by_row_and_column() {
    for (content, complaint) in [
        ("id\n1\nx\n", "row 2 (line 3), column `id`: \"x\" is no long"),
        ("id\n1\n1.5\n", "\"1.5\" is no long"),
        ("id,name\n1,a\n,b\n", "row 2 (line 3), column `id`: has no value, and the table requires one"),
        ("name\na\n", "no column `id`, which the table requires"),
        ("id,nope\n1,a\n", "column `nope` is not in the table"),
        ("id,Name\n1,a\n", "did you mean `name`?"),
        ("id,price\n1,1.999\n", "\"1.999\" is no decimal(9, 2)"),
        ("id,price\n1,12345678.00\n", "is no decimal(9, 2)"),
        ("id,small\n1,3000000000\n", "is no int"),
        ("id,at\n1,2024-01-01T00:00:00+02:00\n", "is no timestamp"),
        ("id,at\n1,2024-01-01T00:00:00.1234567\n", "is no timestamp"),
        ("id,day\n1,2024-01-01T10:00:00\n", "is no date"),
        ("id,key\n1,abc\n", "is no uuid"),
        ("id,blob\n1,abc\n", "CSV cannot hold"),
        ("id,id\n1,2\n", "names column `id` twice"),
        ("id,name\n", "has no row"),
        ("id,name\n1,a\n2\n", "cannot be read"),
    ] {
        let error = refusal(content).await;
        assert!(error.contains(complaint), "{content:?}: {error}");
    }
}

#[tokio::test]
async fn csv_gives_every_type_it_can_hold() {
    let mut bed = Bed::new(FormatVersion::V2, wide_schema(), "", &[]);
    let input = bed.file(
        "in.csv",
        "\u{feff}name,id,at,atz,day,price,score,ok,key,small\n\"a, \"\"b\"\"\nc\",1,2024-01-02T03:04:05.123456,2024-01-02T03:04:05+02:00,2024-01-02,1.50,2.5,true,67e55044-10b1-426f-9247-bb680e5fe0c8,7\n,2,,,,,,,,\n",
    );
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    bed.commit_staged(&staged).await;
    assert_eq!(
        bed.rows(bed.head).await,
        [
            "1|a, \"b\"\nc|2024-01-02T03:04:05.123456|2024-01-02T01:04:05Z|2024-01-02|1.50|2.5|true|67e5504410b1426f9247bb680e5fe0c8|null|7",
            "2|null|null|null|null|null|null|null|null|null|null"
        ]
    );
}

fn one_column(name: &str, column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1; column.len()])) as ArrayRef), (name, column)])
        .unwrap()
}

#[tokio::test]
async fn parquet_columns_widen_only_without_loss() {
    use arrow_array::{DictionaryArray, Float32Array, Int8Array, UInt64Array, types::Int32Type};
    let fits: Vec<(&str, ArrayRef)> = vec![
        ("small", Arc::new(Int8Array::from(vec![Some(-1), None]))),
        ("score", Arc::new(Float32Array::from(vec![1.5]))),
        ("name", Arc::new(DictionaryArray::<Int32Type>::from_iter([Some("a"), None, Some("a")]))),
        ("price", Arc::new(Decimal128Array::from(vec![15]).with_precision_and_scale(5, 1).unwrap())),
        ("at", Arc::new(TimestampNanosecondArray::from(vec![Some(1_000), None]))),
    ];
    for (name, column) in fits {
        let bed = Bed::new(FormatVersion::V2, wide_schema(), "", &[]);
        let input = bed.parquet("in.parquet", &one_column(name, column));
        append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    }
    let refused: Vec<(&str, ArrayRef, &str)> = vec![
        ("small", Arc::new(Int64Array::from(vec![1])), "is of type Int64, and the table's is int"),
        ("small", Arc::new(UInt64Array::from(vec![1])), "is of type UInt64"),
        ("score", Arc::new(StringArray::from(vec!["1"])), "is of type Utf8, and the table's is double"),
        ("price", Arc::new(Decimal128Array::from(vec![1]).with_precision_and_scale(9, 3).unwrap()), "Decimal128(9, 3)"),
        (
            "price",
            Arc::new(Decimal128Array::from(vec![1]).with_precision_and_scale(10, 2).unwrap()),
            "Decimal128(10, 2)",
        ),
        ("at", Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001])), "row 2, column `at`"),
        ("atz", Arc::new(TimestampMicrosecondArray::from(vec![1])), "table's is timestamptz"),
    ];
    for (name, column, complaint) in refused {
        let bed = Bed::new(FormatVersion::V2, wide_schema(), "", &[]);
        let input = bed.parquet("in.parquet", &one_column(name, column));
        let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err().to_string();
        assert!(error.contains(complaint), "{name}: {error}");
    }
}

#[tokio::test]
async fn nulls_in_a_required_column_are_refused_by_row() {
    let bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let input = bed.parquet("in.parquet", &RecordBatch::try_from_iter([("id", ids)]).unwrap());
    let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err().to_string();
    assert!(error.contains("row 3, column `id`: is null, and the table requires one"), "{error}");
}

#[tokio::test]
async fn field_ids_count_only_where_they_agree_with_the_names() {
    use arrow_schema::{DataType, Field};
    let with_id = |name: &str, kind: DataType, id: i32| {
        Field::new(name, kind, true).with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]))
    };
    let batch = |ids: [i32; 2], second: &str| {
        let fields = vec![with_id("id", DataType::Int64, ids[0]), with_id(second, DataType::Utf8, ids[1])];
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1])), Arc::new(StringArray::from(vec!["a"]))];
        RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
    };
    for (batch, fits) in [
        (batch([1, 2], "old_name"), true),
        (batch([2, 1], "name"), true),
        (batch([7, 2], "old_name"), false),
        (batch([1, 9], "old_name"), false),
    ] {
        let bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[]);
        let input = bed.parquet("in.parquet", &batch);
        let result = append(&bed.table, &[input], &bed.clock, &NoProgress).await;
        assert_eq!(result.is_ok(), fits, "{:?}: {result:?}", batch.schema());
    }
}

#[tokio::test]
async fn inputs_that_are_no_files_are_refused() {
    let bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[]);
    let cases = [
        (bed.dir.path().join("gone.csv"), "No such file"),
        (bed.dir.path().to_owned(), "is a folder"),
        (bed.file("empty.parquet", ""), "has no bytes"),
        (bed.file("fake.parquet", "hello"), "is none"),
        (bed.file("data.xyz", "hello"), "neither Parquet nor Arrow"),
        (bed.file("cut.parquet", "PAR1 and nothing more"), "cannot be read"),
    ];
    for (path, complaint) in cases {
        let error = append(&bed.table, &[path], &bed.clock, &NoProgress).await.unwrap_err();
        assert!(matches!(error, DataError::Input { .. }) && error.to_string().contains(complaint), "{error}");
    }
}

#[tokio::test]
async fn settings_that_cannot_be_followed_are_refused() {
    for (key, value) in [
        ("write.parquet.compression-codec", "lzo"),
        ("write.target-file-size-bytes", "0"),
        ("write.parquet.row-group-size-bytes", "many"),
        ("encryption.key-id", "k"),
    ] {
        let bed = Bed::new(FormatVersion::V2, narrow_schema(), "", &[(key, value)]);
        let input = bed.file("in.csv", "id\n1\n");
        let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err();
        assert!(matches!(error, DataError::Unsupported { .. }) && error.to_string().contains(key), "{error}");
    }
}
