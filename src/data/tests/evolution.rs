use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field};
use iceberg::spec::{
    FormatVersion, ListType, MapType, NestedField, PrimitiveType, Schema, StructType, Transform, Type,
    UnboundPartitionSpec,
};

use super::VERSIONS;
use crate::data::create::infer_schema;
use crate::data::replace::replace;
use crate::data::testkit::{Bed, summary_of};
use crate::data::write::append;
use crate::data::{DataError, NoProgress};
use crate::scope::Scope;

fn optional(id: i32, name: &str, kind: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::optional(id, name, Type::Primitive(kind)))
}

async fn fill(bed: &mut Bed, csv: &str) {
    let input = bed.file("in.csv", csv);
    let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
    bed.commit_staged(&staged).await;
}

async fn put(bed: &mut Bed, scope: &str, csv: &str) -> HashMap<String, String> {
    let scope = Scope::parse(scope, bed.table.metadata.current_schema()).unwrap();
    let inputs = if csv.is_empty() { vec![] } else { vec![bed.file("in.csv", csv)] };
    let staged = replace(&bed.table, bed.head, &scope, &inputs, &bed.clock, &NoProgress).await.unwrap();
    summary_of(&bed.commit_staged(&staged).await)
}

#[tokio::test]
async fn a_table_upgraded_twice_keeps_its_rows_through_every_rewrite() {
    let schema = || {
        Schema::builder()
            .with_fields(vec![optional(1, "id", PrimitiveType::Long), optional(2, "region", PrimitiveType::String)])
            .build()
            .unwrap()
    };
    let mut bed = Bed::new(FormatVersion::V1, schema(), "region", &[]);
    fill(&mut bed, "id,region\n1,a\n2,a\n3,b\n").await;
    for (version, row) in [(FormatVersion::V2, "4,a"), (FormatVersion::V3, "5,a")] {
        let builder = bed.table.metadata.as_ref().clone().into_builder(None);
        let upgraded = builder.upgrade_format_version(version).unwrap().build().unwrap().metadata;
        bed.table.metadata = Arc::new(upgraded);
        let summary = put(&mut bed, "region = 'a' AND id IN (1, 4, 5)", &format!("id,region\n{row}\n")).await;
        assert_eq!(summary["total-records"], "3", "{version}");
    }
    assert_eq!(bed.rows(bed.head).await, ["2|a", "3|b", "5|a"]);
}

#[tokio::test]
async fn rows_are_carried_under_the_schema_and_spec_of_now() {
    for version in VERSIONS {
        let schema = Schema::builder()
            .with_fields(vec![
                optional(1, "id", PrimitiveType::Int),
                optional(2, "region", PrimitiveType::String),
                optional(3, "gone", PrimitiveType::String),
            ])
            .build()
            .unwrap();
        let mut bed = Bed::new(version, schema, "region", &[]);
        fill(&mut bed, "id,region,gone\n1,a,x\n2,a,y\n3,b,z\n").await;
        let evolved = Schema::builder()
            .with_schema_id(1)
            .with_fields(vec![
                optional(1, "number", PrimitiveType::Long),
                optional(2, "region", PrimitiveType::String),
                optional(4, "extra", PrimitiveType::Double),
            ])
            .build()
            .unwrap();
        let spec = UnboundPartitionSpec::builder()
            .add_partition_field(1, "number_bucket", Transform::Bucket(2))
            .unwrap()
            .build();
        let mut builder = bed.table.metadata.as_ref().clone().into_builder(None).add_current_schema(evolved).unwrap();
        let keeps_spec = version == FormatVersion::V1;
        if !keeps_spec {
            builder = builder.add_default_partition_spec(spec).unwrap();
        }
        bed.table.metadata = Arc::new(builder.build().unwrap().metadata);
        let summary = put(&mut bed, "number = 1", "number,region,extra\n1,q,1.5\n").await;
        assert_eq!(bed.rows(bed.head).await, ["1|q|1.5", "2|a|null", "3|b|null"], "{version}");
        assert_eq!(summary["total-records"], "3");
        // The old spec's manifest was written under the old spec; a rewrite of it may not mix the two.
        let specs: Vec<_> = bed.manifests(bed.head).await.iter().map(|(file, _)| file.partition_spec_id).collect();
        assert_eq!(specs, if keeps_spec { [0, 0] } else { [1, 0] }, "{version}");
        put(&mut bed, "region = 'b'", "").await;
        assert_eq!(bed.rows(bed.head).await, ["1|q|1.5", "2|a|null"], "{version}");
    }
}

fn nested_schema() -> Schema {
    let field = |field: Arc<NestedField>| field;
    Schema::builder()
        .with_fields(vec![
            optional(1, "id", PrimitiveType::Long),
            field(Arc::new(NestedField::optional(
                2,
                "address",
                Type::Struct(StructType::new(vec![
                    optional(3, "city", PrimitiveType::String),
                    optional(4, "zip", PrimitiveType::Int),
                ])),
            ))),
            field(Arc::new(NestedField::optional(
                5,
                "tags",
                Type::List(ListType::new(Arc::new(NestedField::list_element(
                    6,
                    Type::Primitive(PrimitiveType::Int),
                    false,
                )))),
            ))),
            field(Arc::new(NestedField::optional(
                7,
                "counts",
                Type::Map(MapType::new(
                    Arc::new(NestedField::map_key_element(8, Type::Primitive(PrimitiveType::String))),
                    Arc::new(NestedField::map_value_element(9, Type::Primitive(PrimitiveType::Int), false)),
                )),
            ))),
        ])
        .build()
        .unwrap()
}

fn nested_batch() -> RecordBatch {
    let city: ArrayRef = Arc::new(StringArray::from(vec![Some("here"), None, Some("there")]));
    let zip: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
    let address = StructArray::from(vec![
        (Arc::new(Field::new("city", DataType::Utf8, true)), city),
        (Arc::new(Field::new("zip", DataType::Int32, true)), zip),
    ]);
    let mut tags = ListBuilder::new(Int32Builder::new());
    tags.append_value([Some(1), None]);
    tags.append_null();
    tags.append_value([]);
    let mut counts = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    counts.keys().append_value("k");
    counts.values().append_value(9);
    counts.append(true).unwrap();
    counts.append(true).unwrap();
    counts.append(false).unwrap();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef, true),
        ("address", Arc::new(address) as ArrayRef, true),
        ("tags", Arc::new(tags.finish()) as ArrayRef, true),
        ("counts", Arc::new(counts.finish()) as ArrayRef, true),
    ])
    .unwrap()
}

#[tokio::test]
async fn nested_columns_are_written_carried_and_filtered_by() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, nested_schema(), "truncate(1, address.city)", &[]);
        let input = bed.parquet("in.parquet", &nested_batch());
        let staged = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap();
        let city = bed.table.metadata.current_schema().field_id_by_name("address.city").unwrap();
        let nulls: u64 = staged.added.iter().filter_map(|new| new.file.null_value_counts().get(&city)).sum();
        assert_eq!(nulls, 1, "{version}");
        bed.commit_staged(&staged).await;
        let rows =
            ["1|{city: here, zip: 1}|[1, ]|{k: 9}", "2|{city: , zip: 2}|null|{}", "3|{city: there, zip: }|[]|null"];
        assert_eq!(bed.rows(bed.head).await, rows, "{version}");
        put(&mut bed, "address.zip = 1", "").await;
        assert_eq!(bed.rows(bed.head).await, [rows[1], rows[2]], "{version}");
        put(&mut bed, "id = 3", "").await;
        assert_eq!(bed.rows(bed.head).await, [rows[1]], "{version}");
    }
}

#[tokio::test]
async fn arrow_files_are_read_like_parquet() {
    let batch = nested_batch();
    let path = tempfile::Builder::new().suffix(".arrow").tempfile().unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(path.reopen().unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let schema = infer_schema(path.path()).unwrap();
    let ids: Vec<_> = schema.as_struct().fields().iter().map(|field| field.id).collect();
    assert_eq!(ids, [1, 2, 3, 4], "top-level ids come first");
    let mut bed = Bed::new(FormatVersion::V2, schema, "", &[]);
    let staged = append(&bed.table, &[path.path().to_owned()], &bed.clock, &NoProgress).await.unwrap();
    bed.commit_staged(&staged).await;
    assert_eq!(bed.rows(bed.head).await.len(), 3);
}

#[tokio::test]
async fn nested_columns_of_another_shape_are_refused() {
    let bed = Bed::new(FormatVersion::V2, nested_schema(), "", &[]);
    let city: ArrayRef = Arc::new(StringArray::from(vec![Some("here")]));
    let address = StructArray::from(vec![(Arc::new(Field::new("town", DataType::Utf8, true)), city)]);
    let batch = RecordBatch::try_from_iter([("address", Arc::new(address) as ArrayRef)]).unwrap();
    let input = bed.parquet("in.parquet", &batch);
    let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err();
    assert!(matches!(error, DataError::Input { .. }) && error.to_string().contains("column `address`"), "{error}");
}

#[tokio::test]
async fn a_schema_inferred_from_a_file_takes_that_file() {
    for kind in [
        DataType::Int8,
        DataType::UInt32,
        DataType::Float16,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Date64,
        DataType::Decimal128(20, 4),
        DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None),
        DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("Europe/Oslo".into())),
        DataType::Time32(arrow_schema::TimeUnit::Second),
        DataType::FixedSizeBinary(3),
        DataType::Binary,
    ] {
        let values = arrow_array::new_null_array(&kind, 2);
        let batch = RecordBatch::try_from_iter_with_nullable([("v", values, true)]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.parquet");
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let mut bed = Bed::new(FormatVersion::V2, infer_schema(&path).unwrap(), "", &[]);
        let staged = append(&bed.table, &[path], &bed.clock, &NoProgress).await.unwrap();
        bed.commit_staged(&staged).await;
        assert_eq!(bed.rows(bed.head).await, ["null", "null"], "{kind}");
    }
    let unsigned: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![1]));
    assert_eq!(unsigned.len(), 1);
    let batch = RecordBatch::try_from_iter([("big", unsigned)]).unwrap();
    let bed = Bed::new(FormatVersion::V2, nested_schema(), "", &[]);
    let error = infer_schema(&bed.parquet("in.parquet", &batch)).unwrap_err().to_string();
    assert!(error.contains("column `big` is of type UInt64"), "{error}");
}

#[tokio::test]
async fn a_default_that_would_have_to_be_filled_in_is_refused() {
    let with_default = NestedField::optional(2, "kind", Type::Primitive(PrimitiveType::Int))
        .with_write_default(iceberg::spec::Literal::int(7));
    let schema = Schema::builder()
        .with_fields(vec![optional(1, "id", PrimitiveType::Long), with_default.into()])
        .build()
        .unwrap();
    let mut bed = Bed::new(FormatVersion::V3, schema, "", &[]);
    let input = bed.file("in.csv", "id\n1\n");
    let error = append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap_err().to_string();
    assert!(error.contains("no column `kind`, whose default"), "{error}");
    fill(&mut bed, "id,kind\n1,\n").await;
    assert_eq!(bed.rows(bed.head).await, ["1|null"], "a null that is given is a null");
}
