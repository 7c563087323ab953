//! Rows inside and outside, against a row-by-row evaluation; and the forms that arrow columns come in.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, RunArray, StringArray, StructArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema, TimeUnit};
use iceberg::spec::PrimitiveType;
use proptest::prelude::*;

use super::super::{Scope, ScopeError};
use super::generate::{COLUMNS, Row, Val, filter, row};
use super::{schema, scope};

fn array(kind: &PrimitiveType, cells: &[Option<&Val>]) -> ArrayRef {
    let whole = |cell: &Option<&Val>| match cell {
        Some(Val::Whole(v)) => Some(*v),
        None => None,
        other => panic!("{other:?} is no whole number"),
    };
    let float = |cell: &Option<&Val>| match cell {
        Some(Val::Float(v)) => Some(*v),
        _ => None,
    };
    let text = |cell: &Option<&Val>| match cell {
        Some(Val::Text(v)) => Some(v.clone()),
        _ => None,
    };
    let bytes = |cell: &Option<&Val>| match cell {
        Some(Val::Bytes(v)) => Some(v.clone()),
        Some(Val::Whole(v)) => Some(v.to_be_bytes().to_vec()),
        _ => None,
    };
    let ints = || cells.iter().map(|cell| whole(cell).map(|v| i32::try_from(v).unwrap()));
    let longs = || cells.iter().map(|cell| whole(cell).map(|v| i64::try_from(v).unwrap()));
    match kind {
        PrimitiveType::Int => Arc::new(ints().collect::<Int32Array>()),
        PrimitiveType::Date => Arc::new(ints().collect::<Date32Array>()),
        PrimitiveType::Long => Arc::new(longs().collect::<Int64Array>()),
        PrimitiveType::Time => Arc::new(longs().collect::<Time64MicrosecondArray>()),
        PrimitiveType::Timestamp => Arc::new(longs().collect::<TimestampMicrosecondArray>()),
        PrimitiveType::Timestamptz => Arc::new(longs().collect::<TimestampMicrosecondArray>().with_timezone("+00:00")),
        PrimitiveType::TimestampNs => Arc::new(longs().collect::<TimestampNanosecondArray>()),
        PrimitiveType::TimestamptzNs => Arc::new(longs().collect::<TimestampNanosecondArray>().with_timezone("UTC")),
        PrimitiveType::Decimal { precision, scale } => Arc::new(
            cells
                .iter()
                .map(whole)
                .collect::<Decimal128Array>()
                .with_precision_and_scale(*precision as u8, *scale as i8)
                .unwrap(),
        ),
        PrimitiveType::Float => Arc::new(cells.iter().map(|c| float(c).map(|v| v as f32)).collect::<Float32Array>()),
        PrimitiveType::Double => Arc::new(cells.iter().map(float).collect::<Float64Array>()),
        PrimitiveType::String => Arc::new(cells.iter().map(text).collect::<StringArray>()),
        PrimitiveType::Binary => Arc::new(cells.iter().map(bytes).collect::<BinaryArray>()),
        PrimitiveType::Fixed(_) | PrimitiveType::Uuid => {
            let size = if *kind == PrimitiveType::Uuid { 16 } else { 3 };
            let cells = cells.iter().map(bytes);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, size).unwrap())
        }
        PrimitiveType::Boolean => Arc::new(
            cells
                .iter()
                .map(|cell| match cell {
                    Some(Val::Bool(v)) => Some(*v),
                    _ => None,
                })
                .collect::<BooleanArray>(),
        ),
    }
}

fn field(name: &str, id: Option<i32>, array: &ArrayRef) -> Field {
    let field = Field::new(name, array.data_type().clone(), true);
    match id {
        Some(id) => field.with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())])),
        None => field,
    }
}

fn batch_of(columns: Vec<(&str, Option<i32>, ArrayRef)>) -> RecordBatch {
    let rows = columns.first().map_or(0, |(_, _, array)| array.len());
    let fields: Vec<Field> = columns.iter().map(|(name, id, array)| field(name, *id, array)).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options).unwrap()
}

fn structure(children: Vec<(&str, Option<i32>, ArrayRef)>, nulls: Option<NullBuffer>) -> ArrayRef {
    let fields: Fields = children.iter().map(|(name, id, array)| field(name, *id, array)).collect();
    Arc::new(StructArray::new(fields, children.into_iter().map(|(_, _, array)| array).collect(), nulls))
}

/// All columns of the rows, by id or by name; nested ones in structs that are null where both their fields are.
fn batch(rows: &[Row], ids: bool) -> RecordBatch {
    let id = |id| ids.then_some(id);
    let cells = |name: &str| rows.iter().map(|row| row.get(name)).collect::<Vec<_>>();
    let column = |at: usize| array(&COLUMNS[at].2, &cells(COLUMNS[at].0));
    let mut columns: Vec<_> =
        (0..16).map(|at| (if ids { "renamed" } else { COLUMNS[at].0 }, id(COLUMNS[at].1), column(at))).collect();
    let engine = structure(vec![("count", id(33), column(17))], None);
    let nulls: NullBuffer =
        rows.iter().map(|row| row.contains_key("plane.tail") || row.contains_key("plane.engine.count")).collect();
    columns.push((
        "plane",
        id(30),
        structure(vec![("tail", id(31), column(16)), ("engine", id(32), engine)], Some(nulls)),
    ));
    batch_of(columns)
}

fn evaluate(scope: &Scope, batch: &RecordBatch) -> Vec<Option<bool>> {
    scope.matcher(&schema()).unwrap().evaluate(batch).unwrap().iter().collect()
}

proptest! {
    #[test]
    fn rows_are_judged_as_sql_does(
        filter in filter(), rows in prop::collection::vec(row(), 0..12), ids in any::<bool>(), from in 0usize..3
    ) {
        let scope = scope(&filter.sql());
        let expected: Vec<_> = rows.iter().map(|row| filter.eval(row)).collect();
        let batch = batch(&rows, ids);
        prop_assert_eq!(evaluate(&scope, &batch), expected.clone());
        let from = from.min(rows.len());
        prop_assert_eq!(evaluate(&scope, &batch.slice(from, rows.len() - from)), expected[from..].to_vec());
    }
}

#[test]
fn nan_and_negative_zero_follow_one_rule() {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -f64::NAN, -0.0, 0.0, 1.0]));
    let batch = batch_of(vec![("distance", None, values)]);
    let inside = |text: &str| evaluate(&scope(text), &batch).into_iter().map(|v| v.unwrap()).collect::<Vec<_>>();
    assert_eq!(inside("distance = 0"), [false, false, true, true, false]);
    assert_eq!(inside("distance < 0"), [false; 5]);
    assert_eq!(inside("distance >= -0.0"), [true; 5]);
    assert_eq!(inside("distance > 0.5"), [true, true, false, false, true]);
    assert_eq!(inside("NOT distance <= 0.5"), [true, true, false, false, true]);
    assert_eq!(inside("distance <= 1e308"), [false, false, true, true, true]);
    assert_eq!(inside("distance NOT IN (0, 1)"), [true, true, false, false, false]);
}

#[test]
fn every_form_of_a_column_is_read() {
    let strings = StringArray::from(vec![Some("UA"), None, Some("AA")]);
    let plain: ArrayRef = Arc::new(strings);
    let cast = |to: &DataType| arrow_cast::cast(&plain, to).unwrap();
    let forms = [
        cast(&DataType::LargeUtf8),
        cast(&DataType::Utf8View),
        cast(&DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))),
        Arc::new(
            RunArray::<Int32Type>::try_new(
                &Int32Array::from(vec![1, 2, 3]),
                &StringArray::from(vec![Some("UA"), None, Some("AA")]),
            )
            .unwrap(),
        ),
        plain.clone(),
    ];
    for form in forms {
        let kind = form.data_type().clone();
        let batch = batch_of(vec![("carrier", Some(4), form)]);
        let check = |text: &str, expected: [Option<bool>; 3]| {
            assert_eq!(evaluate(&scope(text), &batch), expected, "{text} on {kind}");
        };
        check("carrier = 'UA'", [Some(true), None, Some(false)]);
        check("carrier LIKE 'U%'", [Some(true), None, Some(false)]);
        check("carrier NOT LIKE 'U%'", [Some(false), None, Some(true)]);
        check("carrier IS NULL", [Some(false), Some(true), Some(false)]);
        check("carrier IN ('UA', 'b')", [Some(true), None, Some(false)]);
        let many = "carrier NOT IN ('a','b','c','d','e','f','g','h','AA')";
        check(many, [Some(true), None, Some(false)]);
    }
    let binary: ArrayRef = Arc::new(BinaryArray::from(vec![b"abc".as_slice(), b"".as_slice()]));
    for to in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
        let batch = batch_of(vec![("raw", Some(16), arrow_cast::cast(&binary, &to).unwrap())]);
        assert_eq!(evaluate(&scope("raw >= X'616263'"), &batch), [Some(true), Some(false)], "{to}");
    }
}

#[test]
fn a_constant_of_a_partition_is_read_also_when_empty_or_null() {
    let run = |values: StringArray, ends: Vec<i32>| -> ArrayRef {
        Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &values).unwrap())
    };
    let constant = batch_of(vec![("carrier", Some(4), run(StringArray::from(vec!["UA"]), vec![3]))]);
    assert_eq!(evaluate(&scope("carrier = 'UA'"), &constant), [Some(true); 3]);
    assert_eq!(evaluate(&scope("carrier = 'UA'"), &constant.slice(1, 1)), [Some(true)]);
    let null = batch_of(vec![("carrier", Some(4), run(StringArray::from(vec![None::<&str>]), vec![2]))]);
    assert_eq!(evaluate(&scope("carrier = 'UA'"), &null), [None; 2]);
    assert_eq!(evaluate(&scope("carrier IS NULL"), &null), [Some(true); 2]);
    let empty = batch_of(vec![("carrier", Some(4), run(StringArray::from(Vec::<&str>::new()), vec![]))]);
    assert_eq!(evaluate(&scope("carrier IS NULL"), &empty), []);
}

#[test]
fn ids_come_before_names_and_a_missing_column_is_null() {
    let ones: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let twos: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    let delay = scope("delay = 1");
    let swapped = batch_of(vec![("delay", Some(99), twos.clone()), ("old name", Some(2), ones.clone())]);
    assert_eq!(evaluate(&delay, &swapped), [Some(true)]);
    let foreign = batch_of(vec![("delay", Some(99), ones.clone())]);
    assert_eq!(evaluate(&delay, &foreign), [None]);
    assert_eq!(evaluate(&scope("delay IS NULL"), &foreign), [Some(true)]);
    assert_eq!(evaluate(&scope("delay IS NOT NULL"), &foreign), [Some(false)]);
    assert_eq!(evaluate(&scope("plane.engine.count IS NULL"), &foreign), [Some(true)]);
    assert_eq!(evaluate(&delay, &batch_of(vec![("delay", None, ones)])), [Some(true)]);
    assert_eq!(evaluate(&scope("true"), &foreign), [Some(true)]);
    assert_eq!(evaluate(&scope("false"), &foreign), [Some(false)]);
}

#[test]
fn a_narrower_column_of_an_older_file_is_widened_and_nothing_is_rounded() {
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![5, 6]));
    assert_eq!(evaluate(&scope("id = 5"), &batch_of(vec![("id", Some(1), narrow)])), [Some(true), Some(false)]);
    let single: ArrayRef = Arc::new(Float32Array::from(vec![0.5, -0.0]));
    let batch = batch_of(vec![("distance", Some(8), single)]);
    assert_eq!(evaluate(&scope("distance IN (0, 7)"), &batch), [Some(false), Some(true)]);

    let refuse = |name: &'static str, text: &str, array: ArrayRef| {
        let error = scope(text).evaluate(&schema(), &batch_of(vec![(name, None, array)])).unwrap_err();
        assert!(matches!(&error, ScopeError::Batch { column, .. } if column == name), "{error}");
        assert!(!error.is_input());
    };
    let nanos = || TimestampNanosecondArray::from(vec![1]);
    refuse("local", "local = '1970-01-01 00:00:00'", Arc::new(nanos()));
    refuse("utc_ns", "utc_ns = '1970-01-01 00:00:00Z'", Arc::new(nanos()));
    refuse("delay", "delay = 1", Arc::new(Int64Array::from(vec![1])));
    refuse("carrier", "carrier = '1'", Arc::new(Int64Array::from(vec![1])));
    let coarse = arrow_cast::cast(&Int64Array::from(vec![1]), &DataType::Timestamp(TimeUnit::Second, None)).unwrap();
    refuse("local", "local = '1970-01-01 00:00:00'", coarse);
    let scaled = Decimal128Array::from(vec![100]).with_precision_and_scale(9, 3).unwrap();
    refuse("fare", "fare = 1", Arc::new(scaled));
}

#[test]
fn fields_of_a_null_struct_are_null() {
    let tail: ArrayRef = Arc::new(StringArray::from(vec!["N1", "N1"]));
    let plane = structure(vec![("tail", Some(31), tail)], Some(NullBuffer::from(vec![true, false])));
    let batch = batch_of(vec![("plane", Some(30), plane)]);
    assert_eq!(evaluate(&scope("plane.tail = 'N1'"), &batch), [Some(true), None]);
    assert_eq!(evaluate(&scope("plane.tail IS NULL"), &batch), [Some(false), Some(true)]);
}
