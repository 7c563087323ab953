//! Which rows of a batch are inside, in SQL's three-valued logic.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, TimestampMicrosecondType, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, PrimitiveArray,
    RecordBatch, Scalar, StringArray, StringViewArray, Time64MicrosecondArray, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Schema};

use super::bind;
use super::error::ScopeError;
use super::literal::type_name;
use super::node::{Check, Comparison, Node, Test, promote, promotes};

/// The arrow metadata key under which readers keep an Iceberg field id.
const FIELD_ID: &str = "PARQUET:field_id";

/// Up to this many literals, a list is one comparison kernel each; above, a binary search for each row.
const KERNEL_LIST: usize = 8;

/// Evaluates a scope on batches of rows.
#[derive(Debug, Clone)]
pub struct Matcher {
    root: Step,
}

#[derive(Debug, Clone)]
enum Step {
    Const(bool),
    And(Vec<Step>),
    Or(Vec<Step>),
    Test(Leaf),
}

/// A test and where its column is: the ids and names from the top of the schema down.
#[derive(Debug, Clone)]
struct Leaf {
    path: Vec<(i32, String)>,
    column: String,
    test: Test,
}

impl Matcher {
    pub(super) fn new(node: Arc<Node>, schema: &Schema) -> Result<Self, ScopeError> {
        Ok(Self { root: step(&node, schema)? })
    }

    /// Which rows are inside: true, false, or null where SQL says unknown; rows with null are outside.
    ///
    /// Columns are found by the field id in arrow's metadata (`PARQUET:field_id`), and by name only where a column
    /// carries no id. A column that the batch does not have is null in every row: the reader of the batch has to fill
    /// in `initial-default`. Dictionaries and run-end encoding are expanded. An error says that a column is not of the type that the schema gives it.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, ScopeError> {
        self.root.evaluate(batch)
    }
}

fn step(node: &Node, schema: &Schema) -> Result<Step, ScopeError> {
    let each = |operands: &[Node]| {
        operands.iter().map(|operand| step(operand, schema)).collect::<Result<Vec<_>, ScopeError>>()
    };
    match node {
        Node::True => Ok(Step::Const(true)),
        Node::False => Ok(Step::Const(false)),
        Node::And(operands) => each(operands).map(Step::And),
        Node::Or(operands) => each(operands).map(Step::Or),
        Node::Test(test) => {
            let field_id = test.field_id;
            let path = bind::path(schema, field_id).ok_or(ScopeError::ColumnDropped { field_id })?;
            let column = path.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(".");
            let path: Vec<_> = path.iter().map(|field| (field.id, field.name.clone())).collect();
            let now = schema.field_by_id(field_id).and_then(|field| field.field_type.as_primitive_type());
            let test = match now {
                Some(now) if promotes(&test.kind, now) => widened(test, now),
                _ => {
                    let now = now.map_or_else(|| "no primitive type".to_owned(), type_name);
                    return Err(ScopeError::TypeChanged { field_id, column, bound: type_name(&test.kind), now });
                }
            };
            Ok(Step::Test(Leaf { path, column, test }))
        }
    }
}

/// The test for a column whose type has been widened since the scope was bound.
fn widened(test: &Test, now: &PrimitiveType) -> Test {
    let widen = |value: &PrimitiveLiteral| promote(value, now).unwrap_or_else(|| value.clone());
    let all = |values: &Vec<PrimitiveLiteral>| values.iter().map(widen).collect();
    let check = match &test.check {
        Check::Compare(comparison, value) => Check::Compare(*comparison, widen(value)),
        Check::In(values) => Check::In(all(values)),
        Check::NotIn(values) => Check::NotIn(all(values)),
        other @ (Check::IsNull | Check::NotNull | Check::StartsWith(_) | Check::NotStartsWith(_)) => other.clone(),
    };
    Test { field_id: test.field_id, kind: now.clone(), check }
}

impl Step {
    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, ScopeError> {
        match self {
            Self::Const(value) => Ok(constant(*value, batch.num_rows())),
            Self::And(steps) => join(steps, batch, true, arrow_arith::boolean::and_kleene),
            Self::Or(steps) => join(steps, batch, false, arrow_arith::boolean::or_kleene),
            Self::Test(leaf) => leaf.evaluate(batch),
        }
    }
}

fn constant(value: bool, rows: usize) -> BooleanArray {
    std::iter::repeat_n(Some(value), rows).collect()
}

fn join(
    steps: &[Step],
    batch: &RecordBatch,
    neutral: bool,
    kernel: fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>,
) -> Result<BooleanArray, ScopeError> {
    let mut result: Option<BooleanArray> = None;
    for step in steps {
        let next = step.evaluate(batch)?;
        result = Some(match result {
            None => next,
            Some(before) => kernel(&before, &next)
                .map_err(|e| ScopeError::Batch { column: "(several)".to_owned(), reason: e.to_string() })?,
        });
    }
    Ok(result.unwrap_or_else(|| constant(neutral, batch.num_rows())))
}

impl Leaf {
    fn wrong(&self, reason: impl ToString) -> ScopeError {
        ScopeError::Batch { column: self.column.clone(), reason: reason.to_string() }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, ScopeError> {
        let Some(found) = self.find(batch)? else {
            let missing = self.test.check == Check::IsNull;
            let rows = batch.num_rows();
            return Ok(if missing { constant(true, rows) } else { self.unknown(rows) });
        };
        match self.test.check {
            Check::IsNull => arrow_arith::boolean::is_null(&found).map_err(|e| self.wrong(e)),
            Check::NotNull => arrow_arith::boolean::is_not_null(&found).map_err(|e| self.wrong(e)),
            _ => self.compare(&self.fit(found)?),
        }
    }

    /// The result where the column is null throughout and the test is not about null.
    fn unknown(&self, rows: usize) -> BooleanArray {
        match self.test.check {
            Check::NotNull => constant(false, rows),
            _ => BooleanArray::new_null(rows),
        }
    }

    /// The column, plain, with the nulls of the structs around it; `None` if the batch has none.
    fn find(&self, batch: &RecordBatch) -> Result<Option<ArrayRef>, ScopeError> {
        let schema = batch.schema();
        let mut level: (&[FieldRef], Vec<ArrayRef>) = (schema.fields(), batch.columns().to_vec());
        let mut outer: Option<ArrayRef> = None;
        let mut fields_held;
        for (depth, (id, name)) in self.path.iter().enumerate() {
            let Some(at) = position(level.0, *id, name) else { return Ok(None) };
            let Some(column) = level.1.get(at) else { return Ok(None) };
            let mut column = self.plain(column)?;
            if let Some(outer) = &outer {
                let nulls = arrow_arith::boolean::is_null(outer).map_err(|e| self.wrong(e))?;
                column = arrow_select::nullif::nullif(&column, &nulls).map_err(|e| self.wrong(e))?;
            }
            if depth.saturating_add(1) == self.path.len() {
                return Ok(Some(column));
            }
            let Some(inner) = column.as_struct_opt() else {
                return Err(self.wrong(format!("{} where a struct was expected", column.data_type())));
            };
            fields_held = inner.fields().clone();
            level = (&fields_held, inner.columns().to_vec());
            outer = Some(column.clone());
        }
        Ok(None)
    }

    /// The array without dictionary or run-end encoding.
    fn plain(&self, array: &ArrayRef) -> Result<ArrayRef, ScopeError> {
        match array.data_type() {
            DataType::Dictionary(_, values) => self.cast(array, &values.as_ref().clone()),
            DataType::RunEndEncoded(_, values) if array.is_empty() => Ok(new_null_array(values.data_type(), 0)),
            DataType::RunEndEncoded(_, values) => self.cast(array, &values.data_type().clone()),
            _ => Ok(Arc::clone(array)),
        }
    }

    fn cast(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ScopeError> {
        // Not `safe`: that would turn what does not fit into null.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, to, &options).map_err(|e| self.wrong(e))
    }

    /// The array in a form that literals of the test's type compare with, exactly: nothing is rounded.
    fn fit(&self, array: ArrayRef) -> Result<ArrayRef, ScopeError> {
        let found = array.data_type().clone();
        let fits = match (&self.test.kind, &found) {
            (PrimitiveType::Boolean, DataType::Boolean) => true,
            (PrimitiveType::Int, DataType::Int32) | (PrimitiveType::Long, DataType::Int64) => true,
            (PrimitiveType::Int, DataType::Int8 | DataType::Int16) => return self.cast(&array, &DataType::Int32),
            (PrimitiveType::Long, DataType::Int8 | DataType::Int16 | DataType::Int32) => {
                return self.cast(&array, &DataType::Int64);
            }
            (PrimitiveType::Float, DataType::Float32) => {
                let array: Float32Array = array.as_primitive::<Float32Type>().unary(settle_f32);
                return Ok(Arc::new(array));
            }
            (PrimitiveType::Double, DataType::Float32 | DataType::Float64) => {
                let array = self.cast(&array, &DataType::Float64)?;
                let array: Float64Array = array.as_primitive::<Float64Type>().unary(settle_f64);
                return Ok(Arc::new(array));
            }
            (PrimitiveType::Decimal { scale, .. }, DataType::Decimal128(_, found)) => {
                i64::from(*scale) == i64::from(*found)
            }
            (PrimitiveType::Date, DataType::Date32) => true,
            (PrimitiveType::Time, DataType::Time64(TimeUnit::Microsecond)) => true,
            (PrimitiveType::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, None)) => true,
            (PrimitiveType::Timestamptz, DataType::Timestamp(TimeUnit::Microsecond, Some(_))) => true,
            (PrimitiveType::TimestampNs, DataType::Timestamp(TimeUnit::Nanosecond, None)) => true,
            (PrimitiveType::TimestamptzNs, DataType::Timestamp(TimeUnit::Nanosecond, Some(_))) => true,
            (PrimitiveType::String, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => true,
            (PrimitiveType::Binary, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => true,
            (PrimitiveType::Fixed(_), DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => true,
            (PrimitiveType::Fixed(length), DataType::FixedSizeBinary(found)) => u64::try_from(*found) == Ok(*length),
            (PrimitiveType::Uuid, DataType::FixedSizeBinary(16)) => true,
            // What a column that is null throughout may be read as.
            (_, DataType::Null) => true,
            _ => false,
        };
        match fits {
            true => Ok(array),
            false => Err(self.wrong(format!("{found} where Iceberg's {} was expected", type_name(&self.test.kind)))),
        }
    }

    fn compare(&self, array: &ArrayRef) -> Result<BooleanArray, ScopeError> {
        if *array.data_type() == DataType::Null {
            return Ok(self.unknown(array.len()));
        }
        let arrow = |result: Result<BooleanArray, ArrowError>| result.map_err(|e| self.wrong(e));
        match &self.test.check {
            Check::IsNull => arrow(arrow_arith::boolean::is_null(array)),
            Check::NotNull => arrow(arrow_arith::boolean::is_not_null(array)),
            Check::Compare(comparison, value) => {
                let kernel = match comparison {
                    Comparison::Eq => arrow_ord::cmp::eq,
                    Comparison::NotEq => arrow_ord::cmp::neq,
                    Comparison::Lt => arrow_ord::cmp::lt,
                    Comparison::LtEq => arrow_ord::cmp::lt_eq,
                    Comparison::Gt => arrow_ord::cmp::gt,
                    Comparison::GtEq => arrow_ord::cmp::gt_eq,
                };
                arrow(kernel(array, &self.scalar(value, array.data_type())?))
            }
            Check::In(values) => self.listed(array, values),
            Check::NotIn(values) => arrow(arrow_arith::boolean::not(&self.listed(array, values)?)),
            Check::StartsWith(prefix) => self.starts_with(array, prefix),
            Check::NotStartsWith(prefix) => arrow(arrow_arith::boolean::not(&self.starts_with(array, prefix)?)),
        }
    }

    fn scalar(&self, value: &PrimitiveLiteral, to: &DataType) -> Result<Scalar<ArrayRef>, ScopeError> {
        self.literals(std::slice::from_ref(value), to).map(Scalar::new)
    }

    fn starts_with(&self, array: &ArrayRef, prefix: &str) -> Result<BooleanArray, ScopeError> {
        let prefix = self.scalar(&PrimitiveLiteral::String(prefix.to_owned()), array.data_type())?;
        arrow_string::like::starts_with(array, &prefix).map_err(|e| self.wrong(e))
    }

    fn listed(&self, array: &ArrayRef, values: &[PrimitiveLiteral]) -> Result<BooleanArray, ScopeError> {
        if values.len() <= KERNEL_LIST {
            let mut result = constant(false, array.len());
            for value in values {
                let equal = arrow_ord::cmp::eq(array, &self.scalar(value, array.data_type())?);
                result = equal
                    .and_then(|equal| arrow_arith::boolean::or_kleene(&result, &equal))
                    .map_err(|e| self.wrong(e))?;
            }
            return Ok(result);
        }
        // The list is sorted by value, in the order that the comparator has too.
        let list = self.literals(values, array.data_type())?;
        let order = arrow_ord::ord::make_comparator(array, &list, arrow_schema::SortOptions::default())
            .map_err(|e| self.wrong(e))?;
        let contains = |row: usize| {
            let (mut low, mut high) = (0usize, values.len());
            while low < high {
                let middle = low.midpoint(high);
                match order(row, middle) {
                    Ordering::Equal => return true,
                    Ordering::Less => high = middle,
                    Ordering::Greater => low = middle.saturating_add(1),
                }
            }
            false
        };
        Ok((0..array.len()).map(|row| array.is_valid(row).then(|| contains(row))).collect())
    }

    /// The literals as an array of the type that the column came in.
    fn literals(&self, values: &[PrimitiveLiteral], to: &DataType) -> Result<ArrayRef, ScopeError> {
        let other = || self.wrong(format!("a literal does not compare with {to}"));
        macro_rules! collect {
            ($variant:ident, $convert:expr) => {
                values
                    .iter()
                    .map(|value| match value {
                        PrimitiveLiteral::$variant(value) => Ok($convert(value)),
                        _ => Err(other()),
                    })
                    .collect::<Result<Vec<_>, ScopeError>>()?
            };
        }
        Ok(match to {
            DataType::Boolean => Arc::new(BooleanArray::from(collect!(Boolean, |v: &bool| *v))),
            DataType::Int32 => Arc::new(Int32Array::from(collect!(Int, |v: &i32| *v))),
            DataType::Date32 => Arc::new(Date32Array::from(collect!(Int, |v: &i32| *v))),
            DataType::Int64 => Arc::new(Int64Array::from(collect!(Long, |v: &i64| *v))),
            DataType::Time64(TimeUnit::Microsecond) => {
                Arc::new(Time64MicrosecondArray::from(collect!(Long, |v: &i64| *v)))
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let array = PrimitiveArray::<TimestampMicrosecondType>::from(collect!(Long, |v: &i64| *v));
                Arc::new(array.with_timezone_opt(zone.clone()))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let array = PrimitiveArray::<TimestampNanosecondType>::from(collect!(Long, |v: &i64| *v));
                Arc::new(array.with_timezone_opt(zone.clone()))
            }
            DataType::Float32 => Arc::new(
                values
                    .iter()
                    .map(|value| match value {
                        PrimitiveLiteral::Float(value) => Ok(Some(settle_f32(value.0))),
                        _ => Err(other()),
                    })
                    .collect::<Result<Float32Array, ScopeError>>()?,
            ),
            DataType::Float64 => Arc::new(
                values
                    .iter()
                    .map(|value| match value {
                        PrimitiveLiteral::Double(value) => Ok(Some(settle_f64(value.0))),
                        _ => Err(other()),
                    })
                    .collect::<Result<Float64Array, ScopeError>>()?,
            ),
            DataType::Decimal128(_, scale) => {
                let array = PrimitiveArray::<Decimal128Type>::from(collect!(Int128, |v: &i128| *v));
                let array: Decimal128Array = array.with_precision_and_scale(38, *scale).map_err(|e| self.wrong(e))?;
                // The kernels ask for equal types, and a column may be narrower than a literal is wide.
                Arc::new(array.with_data_type(to.clone()))
            }
            DataType::Utf8 => Arc::new(StringArray::from(collect!(String, |v: &String| v.clone()))),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::from(collect!(String, |v: &String| v.clone()))),
            DataType::Utf8View => Arc::new(StringViewArray::from(collect!(String, |v: &String| v.clone()))),
            DataType::Binary => Arc::new(BinaryArray::from_iter_values(self.bytes(values)?)),
            DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(self.bytes(values)?)),
            DataType::BinaryView => Arc::new(BinaryViewArray::from_iter_values(self.bytes(values)?)),
            DataType::FixedSizeBinary(_) => {
                let array = FixedSizeBinaryArray::try_from_iter(self.bytes(values)?.into_iter());
                Arc::new(array.map_err(|e| self.wrong(e))?)
            }
            _ => return Err(other()),
        })
    }

    fn bytes(&self, values: &[PrimitiveLiteral]) -> Result<Vec<Vec<u8>>, ScopeError> {
        values
            .iter()
            .map(|value| match value {
                PrimitiveLiteral::Binary(bytes) => Ok(bytes.clone()),
                PrimitiveLiteral::UInt128(uuid) => Ok(uuid.to_be_bytes().to_vec()),
                _ => Err(self.wrong("a literal does not compare with bytes")),
            })
            .collect()
    }
}

/// Arrow orders floats by their bits: `-0.0` before `0.0`, and a NaN with its sign set before every number.
fn settle_f32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN.copysign(1.0) } else { value + 0.0 }
}

fn settle_f64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN.copysign(1.0) } else { value + 0.0 }
}

/// The field with the id; else the one of that name that has no id. A field with another id is another column, even
/// under the same name.
fn position(fields: &[FieldRef], id: i32, name: &str) -> Option<usize> {
    let held = |field: &FieldRef| field.metadata().get(FIELD_ID).and_then(|text| text.parse::<i32>().ok());
    fields
        .iter()
        .position(|field| held(field) == Some(id))
        .or_else(|| fields.iter().position(|field| held(field).is_none() && field.name() == name))
}
