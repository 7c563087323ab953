//! Manifests say the truth about the files that a change adds.
//!
//! Engines skip files by what manifests say of them, so a wrong bound makes rows invisible to some queries and not to
//! others. What is compared: record counts and sizes with the files themselves; bounds, null counts and partition
//! values with the columns that the checks read. Bounds may be wider than the values, as truncated ones are, but no
//! value may lie outside. Bounds of binary columns and uuids are not compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, Scalar, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, DataFileFormat, Datum, Literal, PartitionSpec, PrimitiveLiteral, Schema};
use parquet::arrow::async_reader::AsyncFileReader;

use super::{EXAMPLES, Finding, plural};
use crate::data::{AboutFile, DataError};
use crate::digest::{Digest, Digester};
use crate::evidence::check::{CheckResult, ENGINE, IdentityKind, MANIFEST_CHECK, Outcome};

/// What was seen of the columns of one added file.
#[derive(Debug, Default, Clone)]
pub(crate) struct SeenFile {
    rows: u64,
    columns: BTreeMap<i32, SeenColumn>,
    partition: BTreeMap<String, String>,
}

#[derive(Debug, Default, Clone)]
struct SeenColumn {
    nulls: u64,
    below: bool,
    above: bool,
}

impl SeenFile {
    /// Takes the next rows of the file.
    pub fn add(
        &mut self,
        file: &DataFile,
        spec: &PartitionSpec,
        ids: &[i32],
        batch: &RecordBatch,
    ) -> Result<(), ArrowError> {
        self.rows += batch.num_rows() as u64;
        for (id, column) in ids.iter().zip(batch.columns()) {
            let seen = self.columns.entry(*id).or_default();
            seen.nulls += column.logical_null_count() as u64;
            if let Some(lower) = file.lower_bounds().get(id) {
                seen.below |= beyond(column, lower, Beyond::Below)?;
            }
            if let Some(upper) = file.upper_bounds().get(id) {
                seen.above |= beyond(column, upper, Beyond::Above)?;
            }
        }
        for (at, field) in spec.fields().iter().enumerate() {
            let column = ids.iter().position(|id| *id == field.source_id).and_then(|at| batch.columns().get(at));
            let Some(column) = column else { continue };
            let stated = file.partition().fields().get(at);
            let Some(transformed) = iceberg::transform::create_transform_function(&field.transform)
                .and_then(|transform| transform.transform(column.clone()))
                .ok()
            else {
                continue;
            };
            if let (Some(stated), false) = (stated, self.partition.contains_key(&field.name))
                && other_than(&transformed, stated.as_ref())?
            {
                let text = format!("a value of {} is not in its partition", field.name);
                self.partition.insert(field.name.clone(), text);
            }
        }
        Ok(())
    }

    /// What is wrong, once all rows were seen. `deletes`: some rows may have been deleted, so counts are not exact.
    pub fn faults(&self, file: &DataFile, schema: &Schema, deletes: bool) -> Vec<String> {
        let path = file.file_path();
        let mut faults: Vec<String> = self.partition.values().map(|fault| format!("{path}: {fault}")).collect();
        if !deletes && self.rows != file.record_count() {
            let stated = file.record_count();
            faults.push(format!("{path}: the manifest says {stated} records, {} were read", self.rows));
        }
        for (id, seen) in &self.columns {
            let name = schema.name_by_field_id(*id).unwrap_or("a dropped column");
            if seen.below {
                faults.push(format!("{path}: column {name} has values below the manifest's lower bound"));
            }
            if seen.above {
                faults.push(format!("{path}: column {name} has values above the manifest's upper bound"));
            }
            let stated = file.null_value_counts().get(id).copied();
            if let Some(stated) = stated.filter(|stated| !deletes && *stated != seen.nulls) {
                faults.push(format!("{path}: the manifest says {stated} nulls in {name}, {} were read", seen.nulls));
            }
        }
        faults
    }
}

/// Compares a file's size and its own record count with the manifest's. Reads the file's footer only.
pub(crate) async fn check_footer(file_io: &FileIO, file: &DataFile) -> Result<Vec<String>, DataError> {
    let path = file.file_path();
    let input = file_io.new_input(path).about(path)?;
    let metadata = input.metadata().await.about(path)?;
    let mut faults = Vec::new();
    let stated = file.file_size_in_bytes();
    if metadata.size != stated {
        faults.push(format!("{path}: the manifest says {stated} bytes, the file has {}", metadata.size));
    }
    if file.file_format() == DataFileFormat::Parquet {
        let reader = input.reader().await.about(path)?;
        let mut reader = iceberg::arrow::ArrowFileReader::new(metadata, reader);
        match reader.get_metadata(None).await {
            Ok(footer) => {
                let rows = footer.file_metadata().num_rows();
                if u64::try_from(rows).ok() != Some(file.record_count()) {
                    let stated = file.record_count();
                    faults.push(format!("{path}: the manifest says {stated} records, the file has {rows}"));
                }
            }
            Err(error) => {
                let reason = format!("its footer cannot be read: {error}");
                return Err(DataError::Damaged { file: path.to_owned(), reason });
            }
        }
    }
    Ok(faults)
}

/// The definition of this check: there is one.
pub(crate) fn definition() -> Digest {
    Digester::new("check").field(MANIFEST_CHECK).finish()
}

/// The result. `files` were compared, with `rows` in them.
pub(crate) fn result(files: u64, rows: u64, mut faults: Vec<String>, unreadable: &[String]) -> CheckResult {
    faults.sort();
    faults.dedup();
    let finding = match (faults.first(), unreadable.first()) {
        (None, None) => {
            let summary = format!("the manifests are right about {}", plural(files, "added file"));
            Finding::new(Outcome::Pass, rows, summary)
        }
        (None, Some(first)) => Finding::new(Outcome::Error, rows, format!("an added file cannot be read: {first}")),
        (Some(first), _) => {
            let more = faults.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            let summary = format!("{first}{more}; engines that skip files by it would lose rows: write the file again");
            Finding::new(Outcome::Fail, rows, summary)
        }
    };
    faults.truncate(2 * EXAMPLES);
    CheckResult {
        name: MANIFEST_CHECK.to_owned(),
        kind: MANIFEST_CHECK.to_owned(),
        outcome: finding.outcome,
        examined_rows: finding.examined,
        summary: finding.summary,
        details: faults,
        depends_on: [IdentityKind::Change].into(),
        definition: definition(),
        engine: ENGINE.to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Below,
    Above,
}

/// Is any value beyond the bound? False where the two cannot be compared.
fn beyond(column: &ArrayRef, bound: &Datum, which: Beyond) -> Result<bool, ArrowError> {
    if let Some(beyond) = float_beyond(column, bound.literal(), which) {
        return Ok(beyond);
    }
    let Some(bound) = one(bound.literal(), column.data_type()) else { return Ok(false) };
    let mask = match which {
        Beyond::Below => arrow_ord::cmp::lt(column, &Scalar::new(bound))?,
        Beyond::Above => arrow_ord::cmp::gt(column, &Scalar::new(bound))?,
    };
    Ok(mask.true_count() > 0)
}

/// Floating-point bounds leave NaN out and take both zeros for one. Iceberg spec, "Manifests".
fn float_beyond(column: &ArrayRef, bound: &PrimitiveLiteral, which: Beyond) -> Option<bool> {
    let bound = match bound {
        PrimitiveLiteral::Float(bound) => f64::from(bound.into_inner()),
        PrimitiveLiteral::Double(bound) => bound.into_inner(),
        _ => return None,
    };
    let is_beyond = |value: f64| match which {
        Beyond::Below => value < bound,
        Beyond::Above => value > bound,
    };
    match column.data_type() {
        DataType::Float32 => {
            Some(column.as_primitive::<Float32Type>().iter().flatten().any(|value| is_beyond(f64::from(value))))
        }
        DataType::Float64 => Some(column.as_primitive::<Float64Type>().iter().flatten().any(is_beyond)),
        _ => Some(false),
    }
}

/// Is any value something other than the partition's? False where the two cannot be compared.
fn other_than(values: &ArrayRef, stated: Option<&Literal>) -> Result<bool, ArrowError> {
    match stated {
        None => Ok(values.logical_null_count() < values.len()),
        Some(Literal::Primitive(stated)) => match one(stated, values.data_type()) {
            Some(stated) => Ok(arrow_ord::cmp::distinct(values, &Scalar::new(stated))?.true_count() > 0),
            None => Ok(false),
        },
        Some(_) => Ok(false),
    }
}

/// A literal as an array of one value of a type; `None` where it is not of that type.
fn one(literal: &PrimitiveLiteral, data_type: &DataType) -> Option<ArrayRef> {
    Some(match (data_type, literal) {
        (DataType::Boolean, PrimitiveLiteral::Boolean(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (DataType::Int32, PrimitiveLiteral::Int(value)) => Arc::new(Int32Array::from(vec![*value])),
        (DataType::Date32, PrimitiveLiteral::Int(value)) => Arc::new(Date32Array::from(vec![*value])),
        (DataType::Int64, PrimitiveLiteral::Int(value)) => Arc::new(Int64Array::from(vec![i64::from(*value)])),
        (DataType::Int64, PrimitiveLiteral::Long(value)) => Arc::new(Int64Array::from(vec![*value])),
        (DataType::Time64(TimeUnit::Microsecond), PrimitiveLiteral::Long(value)) => {
            Arc::new(Time64MicrosecondArray::from(vec![*value]))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, zone), PrimitiveLiteral::Long(value)) => {
            Arc::new(TimestampMicrosecondArray::from(vec![*value]).with_timezone_opt(zone.clone()))
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), PrimitiveLiteral::Long(value)) => {
            Arc::new(TimestampNanosecondArray::from(vec![*value]).with_timezone_opt(zone.clone()))
        }
        (DataType::Decimal128(precision, scale), PrimitiveLiteral::Int128(value)) => {
            Arc::new(Decimal128Array::from(vec![*value]).with_precision_and_scale(*precision, *scale).ok()?)
        }
        (DataType::Utf8, PrimitiveLiteral::String(value)) => Arc::new(StringArray::from(vec![value.as_str()])),
        (DataType::Float32, PrimitiveLiteral::Float(value)) => Arc::new(Float32Array::from(vec![value.into_inner()])),
        (DataType::Float64, PrimitiveLiteral::Double(value)) => Arc::new(Float64Array::from(vec![value.into_inner()])),
        _ => return None,
    })
}
