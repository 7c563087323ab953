//! Rows, the schema and specs of the table, filters on rows, and what a writer says of rows in a manifest.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use iceberg::spec::{
    Datum, Literal, NestedField, PartitionSpec, PartitionSpecRef, PrimitiveLiteral, PrimitiveType, Schema, SchemaRef,
    Transform, Type,
};
use iceberg::transform::create_transform_function;

use super::draws::Draws;
use crate::scope::Scope;

/// A value of a column, or null.
pub(super) type Value = Option<PrimitiveLiteral>;

/// A row. What tells it from any other is no column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub id: u64,
    pub values: Vec<Value>,
}

/// The columns, in order; field ids count from 1.
const COLUMNS: [&str; 6] = ["key", "day", "at", "amount", "name", "ratio"];

/// 9 August 2013, in days since 1970.
const DAY: i32 = 15_926;

fn kind(column: usize, wide: bool) -> PrimitiveType {
    match column {
        0 if wide => PrimitiveType::Long,
        0 => PrimitiveType::Int,
        1 => PrimitiveType::Date,
        2 => PrimitiveType::Timestamptz,
        3 => PrimitiveType::Decimal { precision: 9, scale: 2 },
        4 => PrimitiveType::String,
        _ => PrimitiveType::Double,
    }
}

pub(super) fn field_id(column: usize) -> i32 {
    i32::try_from(column).expect("few columns") + 1
}

/// The schema; `wide` once `key` is a long; `grown` with a column more.
pub(super) fn schema(wide: bool, grown: bool) -> SchemaRef {
    let fields = COLUMNS.iter().enumerate().map(|(column, name)| {
        Arc::new(NestedField::optional(field_id(column), *name, Type::Primitive(kind(column, wide))))
    });
    let extra = grown.then(|| Arc::new(NestedField::optional(20, "extra", Type::Primitive(PrimitiveType::Long))));
    Arc::new(Schema::builder().with_schema_id(1).with_fields(fields.chain(extra)).build().expect("a schema"))
}

/// Every way in which the tables of this oracle are partitioned: column and transform.
const LAYOUTS: [&[(usize, Transform)]; 14] = [
    &[(1, Transform::Identity)],
    &[],
    &[(1, Transform::Month)],
    &[(2, Transform::Day)],
    &[(2, Transform::Hour)],
    &[(1, Transform::Year)],
    &[(0, Transform::Bucket(3))],
    &[(0, Transform::Truncate(5))],
    &[(4, Transform::Truncate(2))],
    &[(4, Transform::Identity)],
    &[(5, Transform::Identity)],
    &[(3, Transform::Truncate(100))],
    &[(1, Transform::Void)],
    &[(1, Transform::Identity), (0, Transform::Identity)],
];

/// One to three specs, by id.
pub(super) fn specs(draws: &mut Draws<'_>, schema: &SchemaRef) -> Vec<PartitionSpecRef> {
    let count = 1 + draws.below(3);
    let layouts = (0..count).map(|_| draws.below(LAYOUTS.len())).collect::<Vec<_>>();
    let build = |(number, layout): (usize, &usize)| {
        let mut builder = PartitionSpec::builder(schema.clone()).with_spec_id(i32::try_from(number).expect("few"));
        for (place, (column, transform)) in LAYOUTS[*layout].iter().enumerate() {
            let name = format!("part_{place}");
            builder = builder.add_partition_field(COLUMNS[*column], name, *transform).expect("a field");
        }
        Arc::new(builder.build().expect("a spec"))
    };
    layouts.iter().enumerate().map(build).collect()
}

fn value(draws: &mut Draws<'_>, column: usize) -> Value {
    let days = [DAY, DAY + 1, DAY - 1, DAY + 30, -1, 0, 1];
    let small = |draws: &mut Draws<'_>, limit| i32::try_from(draws.below(limit)).expect("small");
    if column > 0 && draws.once_in(8) {
        return None;
    }
    Some(match column {
        0 => PrimitiveLiteral::Int(small(draws, 24)),
        1 => PrimitiveLiteral::Int(*draws.pick(&days)),
        2 => {
            let hours = i64::from(*draws.pick(&days)) * 24 + i64::from(small(draws, 24));
            PrimitiveLiteral::Long(hours * 3_600_000_000 + i64::from(small(draws, 2)))
        }
        3 => PrimitiveLiteral::Int128(i128::from(small(draws, 12)) * 50 - 200),
        4 => PrimitiveLiteral::String((*draws.pick(&["a", "", "ab", "abc", "abd", "b", "ba"])).to_owned()),
        _ => PrimitiveLiteral::Double((*draws.pick(&[1.5, 0.0, -0.0, -1.0, f64::NAN])).into()),
    })
}

/// A row that no other is.
pub(super) fn row(draws: &mut Draws<'_>, next: &mut u64) -> Row {
    *next += 1;
    Row { id: *next, values: (0..COLUMNS.len()).map(|column| value(draws, column)).collect() }
}

/// A filter as a person would write it.
pub(super) fn filter(draws: &mut Draws<'_>) -> String {
    let single = |draws: &mut Draws<'_>| -> String {
        match draws.below(13) {
            0 => "day = '2013-08-09'".to_owned(),
            1 => "true".to_owned(),
            2 => "day >= '2013-08-09' AND day < '2013-08-11'".to_owned(),
            3 => "at >= '2013-08-09 00:00:00Z' AND at < '2013-08-10 00:00:00Z'".to_owned(),
            4 => format!("key < {}", 1 + draws.below(12)),
            5 => format!("key IN ({}, {})", draws.below(24), draws.below(24)),
            6 => "name LIKE 'ab%'".to_owned(),
            7 => "name = 'abc'".to_owned(),
            8 => "amount >= 1.00".to_owned(),
            9 => "ratio > 1".to_owned(),
            10 => "day IS NULL".to_owned(),
            11 => "at < '1970-01-01 00:00:00Z'".to_owned(),
            _ => "NOT (name LIKE 'a%')".to_owned(),
        }
    };
    let first = single(draws);
    match draws.below(4) {
        3 => format!("({first}) AND ({})", single(draws)),
        2 => format!("({first}) OR ({})", single(draws)),
        _ => first,
    }
}

/// Which rows are inside.
pub(super) fn inside(scope: &Scope, rows: &[Row], schema: &SchemaRef) -> Vec<bool> {
    let wide = matches!(schema.as_struct().fields()[0].field_type.as_ref(), Type::Primitive(PrimitiveType::Long));
    let column = |column: usize| rows.iter().map(move |row| row.values[column].as_ref());
    let int = |at| column(at).map(|value| value.map(as_int));
    let mut columns: Vec<ArrayRef> = vec![
        match wide {
            true => Arc::new(Int64Array::from_iter(int(0).map(|value| value.map(i64::from)))),
            false => Arc::new(Int32Array::from_iter(int(0))),
        },
        Arc::new(Date32Array::from_iter(int(1))),
        Arc::new(
            TimestampMicrosecondArray::from_iter(column(2).map(|value| match value {
                Some(PrimitiveLiteral::Long(micros)) => Some(*micros),
                _ => None,
            }))
            .with_timezone("+00:00"),
        ),
        Arc::new(
            Decimal128Array::from_iter(column(3).map(|value| match value {
                Some(PrimitiveLiteral::Int128(cents)) => Some(*cents),
                _ => None,
            }))
            .with_precision_and_scale(9, 2)
            .expect("a decimal"),
        ),
        Arc::new(StringArray::from_iter(column(4).map(|value| match value {
            Some(PrimitiveLiteral::String(text)) => Some(text.clone()),
            _ => None,
        }))),
        Arc::new(Float64Array::from_iter(column(5).map(|value| match value {
            Some(PrimitiveLiteral::Double(number)) => Some(number.0),
            _ => None,
        }))),
    ];
    if schema.as_struct().fields().len() > columns.len() {
        columns.push(Arc::new(Int64Array::new_null(rows.len())));
    }
    let arrow = Arc::new(iceberg::arrow::schema_to_arrow_schema(schema).expect("an Arrow schema"));
    let batch = RecordBatch::try_new(arrow, columns).expect("a batch");
    let inside = scope.evaluate(schema, &batch).expect("a filter");
    inside.iter().map(|inside| inside == Some(true)).collect()
}

fn as_int(value: &PrimitiveLiteral) -> i32 {
    match value {
        PrimitiveLiteral::Int(value) => *value,
        other => panic!("{other:?} is no int"),
    }
}

/// A value as a writer of that time has it: `key` is a long once it is wide.
fn written(column: usize, value: &PrimitiveLiteral, wide: bool) -> Datum {
    let bytes = match value {
        PrimitiveLiteral::Int(value) if column == 0 && wide => i64::from(*value).to_le_bytes().to_vec(),
        PrimitiveLiteral::Int(value) => value.to_le_bytes().to_vec(),
        PrimitiveLiteral::Long(value) => value.to_le_bytes().to_vec(),
        PrimitiveLiteral::Int128(value) => value.to_be_bytes().to_vec(),
        PrimitiveLiteral::String(value) => value.as_bytes().to_vec(),
        PrimitiveLiteral::Double(value) => value.0.to_le_bytes().to_vec(),
        other => panic!("{other:?} is no value of this table"),
    };
    Datum::try_from_bytes(&bytes, kind(column, wide)).expect("a datum")
}

/// The partition of a row.
pub(super) fn partition(spec: &PartitionSpec, row: &Row, wide: bool) -> Vec<Option<Literal>> {
    let field = |field: &iceberg::spec::PartitionField| {
        let column = usize::try_from(field.source_id - 1).expect("a column");
        let value = row.values[column].as_ref()?;
        let function = create_transform_function(&field.transform).expect("a transform");
        let datum = function.transform_literal(&written(column, value, wide)).expect("transformed")?;
        Some(Literal::Primitive(datum.literal().clone()))
    };
    spec.fields().iter().map(field).collect()
}

/// What a writer says of the values in a file: by field id.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub nulls: HashMap<i32, u64>,
    pub nans: HashMap<i32, u64>,
    pub lower: HashMap<i32, Datum>,
    pub upper: HashMap<i32, Datum>,
}

/// Metrics of some columns: none, or all that is true, the bounds of text cut short.
pub(super) fn metrics(draws: &mut Draws<'_>, rows: &[Row], columns: &[usize], wide: bool) -> Metrics {
    let mut metrics = Metrics::default();
    for column in columns.iter().copied() {
        let style = draws.below(4);
        if style == 3 {
            continue;
        }
        let id = field_id(column);
        let values: Vec<&PrimitiveLiteral> = rows.iter().filter_map(|row| row.values[column].as_ref()).collect();
        if style != 2 {
            let count = |number: usize| u64::try_from(number).expect("few rows");
            let _none = metrics.nulls.insert(id, count(rows.len() - values.len()));
            if column == 5 {
                let _none = metrics.nans.insert(id, count(values.iter().filter(|value| value.is_nan()).count()));
            }
        }
        let mut numbers: Vec<&PrimitiveLiteral> = values.into_iter().filter(|value| !value.is_nan()).collect();
        numbers.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
        let (Some(low), Some(high)) = (numbers.first(), numbers.last()) else { continue };
        let (low, high) = match (style, low, high) {
            (1, PrimitiveLiteral::String(low), PrimitiveLiteral::String(high)) => {
                let short: String = low.chars().take(1).collect();
                let above = match high.chars().next() {
                    Some(first) if high.chars().count() > 1 => char::from_u32(u32::from(first) + 1),
                    _ => None,
                };
                let high = above.map_or_else(|| high.clone(), String::from);
                (PrimitiveLiteral::String(short), PrimitiveLiteral::String(high))
            }
            _ => ((*low).clone(), (*high).clone()),
        };
        let _none = metrics.lower.insert(id, written(column, &low, wide));
        let _none = metrics.upper.insert(id, written(column, &high, wide));
    }
    metrics
}
