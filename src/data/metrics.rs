//! The column metrics of a data file: counts and bounds, by which readers skip files.
//!
//! Taken from the rows as they are written, not from Parquet's own statistics: those are cut at a length of their own
//! and differ by row group, and a bound that is only nearly right makes readers lose rows. Source: Iceberg spec,
//! "Manifests" (`data_file` fields 109–128) and "Appendix D: Single-value serialization".

use std::collections::HashMap;

use arrow_arith::aggregate;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use iceberg::spec::{Datum, PrimitiveType, Schema, Type};

/// What is kept of a column, as `write.metadata.metrics.*` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    None,
    /// Counts only.
    Counts,
    /// Counts, and bounds cut to so many characters or bytes.
    Truncate(usize),
    /// Counts and whole bounds.
    Full,
}

impl Mode {
    const DEFAULT: Self = Self::Truncate(16);

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "none" => Some(Self::None),
            "counts" => Some(Self::Counts),
            "full" => Some(Self::Full),
            other => {
                let length = other.strip_prefix("truncate(")?.strip_suffix(')')?.trim().parse().ok()?;
                (length > 0).then_some(Self::Truncate(length))
            }
        }
    }
}

/// The mode of every field, by id, as the table's properties say.
pub(crate) fn modes(schema: &Schema, properties: &HashMap<String, String>) -> HashMap<i32, Mode> {
    let stated = properties.get("write.metadata.metrics.default").and_then(|text| Mode::parse(text));
    let limit = properties
        .get("write.metadata.metrics.max-inferred-column-defaults")
        .and_then(|text| text.parse().ok())
        .unwrap_or(100usize);
    let mut modes = HashMap::new();
    // A stated default holds for every column; the default of the default, for the first hundred.
    for (index, id) in leaves(schema).into_iter().enumerate() {
        let own = schema
            .name_by_field_id(id)
            .and_then(|name| properties.get(&format!("write.metadata.metrics.column.{name}")))
            .and_then(|text| Mode::parse(text));
        let inherited = stated.unwrap_or(if index < limit { Mode::DEFAULT } else { Mode::None });
        modes.insert(id, own.unwrap_or(inherited));
    }
    modes
}

/// The ids of the primitive fields, in order of the schema.
fn leaves(schema: &Schema) -> Vec<i32> {
    fn descend(field: &iceberg::spec::NestedField, found: &mut Vec<i32>) {
        match field.field_type.as_ref() {
            Type::Primitive(_) => found.push(field.id),
            Type::Struct(inner) => inner.fields().iter().for_each(|field| descend(field, found)),
            Type::List(list) => descend(&list.element_field, found),
            Type::Map(map) => {
                descend(&map.key_field, found);
                descend(&map.value_field, found);
            }
        }
    }
    let mut found = Vec::new();
    schema.as_struct().fields().iter().for_each(|field| descend(field, &mut found));
    found
}

/// The metrics of one top-level primitive column as rows pass.
#[derive(Debug, Clone)]
pub(crate) struct ColumnMetrics {
    pub(crate) field_id: i32,
    data_type: PrimitiveType,
    mode: Mode,
    pub(crate) nulls: u64,
    pub(crate) nans: Option<u64>,
    lower: Option<Datum>,
    upper: Option<Datum>,
}

impl ColumnMetrics {
    /// One for every column of the schema that is primitive, with its place among the columns.
    pub(crate) fn of_schema(schema: &Schema, modes: &HashMap<i32, Mode>) -> Vec<(usize, Self)> {
        let primitive = |(index, field): (usize, &iceberg::spec::NestedFieldRef)| {
            let data_type = field.field_type.as_primitive_type()?.clone();
            let nans = matches!(data_type, PrimitiveType::Float | PrimitiveType::Double).then_some(0);
            let mode = modes.get(&field.id).copied().unwrap_or(Mode::DEFAULT);
            Some((index, Self { field_id: field.id, data_type, mode, nulls: 0, nans, lower: None, upper: None }))
        };
        schema.as_struct().fields().iter().enumerate().filter_map(primitive).collect()
    }

    /// Adds the rows of a batch whose column this is.
    pub(crate) fn update(&mut self, column: &ArrayRef) -> iceberg::Result<()> {
        if matches!(self.mode, Mode::None) {
            return Ok(());
        }
        self.nulls = self.nulls.saturating_add(column.null_count() as u64);
        if let Some(nans) = &mut self.nans {
            *nans = nans.saturating_add(count_nans(column));
        }
        if matches!(self.mode, Mode::Counts) {
            return Ok(());
        }
        let Some((lower, upper)) = extremes(column) else { return Ok(()) };
        let lower = Datum::try_from_bytes(&lower, self.data_type.clone())?;
        let upper = Datum::try_from_bytes(&upper, self.data_type.clone())?;
        if self.lower.as_ref().is_none_or(|known| lower < *known) {
            self.lower = Some(lower);
        }
        if self.upper.as_ref().is_none_or(|known| upper > *known) {
            self.upper = Some(upper);
        }
        Ok(())
    }

    /// Are counts kept?
    pub(crate) fn counted(&self) -> bool {
        !matches!(self.mode, Mode::None)
    }

    /// The lower bound, cut as the mode says.
    pub(crate) fn lower_bound(&self) -> Option<Datum> {
        let lower = self.lower.clone()?;
        let Mode::Truncate(length) = self.mode else { return Some(lower) };
        match lower.literal() {
            iceberg::spec::PrimitiveLiteral::String(text) => {
                Some(Datum::string(text.chars().take(length).collect::<String>()))
            }
            iceberg::spec::PrimitiveLiteral::Binary(bytes) if self.data_type == PrimitiveType::Binary => {
                Some(Datum::binary(bytes.iter().copied().take(length)))
            }
            _ => Some(lower),
        }
    }

    /// The upper bound, cut as the mode says and then raised, so that it stays one; `None` where it cannot be raised.
    pub(crate) fn upper_bound(&self) -> Option<Datum> {
        let upper = self.upper.clone()?;
        let Mode::Truncate(length) = self.mode else { return Some(upper) };
        match upper.literal() {
            iceberg::spec::PrimitiveLiteral::String(text) if text.chars().nth(length).is_some() => {
                raise_text(text.chars().take(length).collect()).map(Datum::string)
            }
            iceberg::spec::PrimitiveLiteral::Binary(bytes)
                if self.data_type == PrimitiveType::Binary && bytes.len() > length =>
            {
                raise_bytes(bytes.iter().copied().take(length).collect()).map(Datum::binary)
            }
            _ => Some(upper),
        }
    }
}

/// The smallest text greater than every text that begins with these characters.
fn raise_text(mut characters: Vec<char>) -> Option<String> {
    while let Some(last) = characters.pop() {
        // After U+D7FF come the surrogates, which are no characters.
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn raise_bytes(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

fn count_nans(column: &ArrayRef) -> u64 {
    let count = match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().iter().flatten().filter(|v| v.is_nan()).count(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().filter(|v| v.is_nan()).count(),
        _ => 0,
    };
    count as u64
}

/// Smallest and greatest value in Iceberg's binary form; `None` for a column of nulls (and NaNs).
fn extremes(column: &ArrayRef) -> Option<(Vec<u8>, Vec<u8>)> {
    fn little<T: ArrowPrimitiveType, const N: usize>(
        column: &ArrayRef,
        bytes: impl Fn(T::Native) -> [u8; N],
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let column = column.as_primitive_opt::<T>()?;
        Some((bytes(aggregate::min(column)?).to_vec(), bytes(aggregate::max(column)?).to_vec()))
    }
    fn slices(least: Option<&[u8]>, greatest: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((least?.to_vec(), greatest?.to_vec()))
    }
    match column.data_type() {
        DataType::Boolean => {
            let column = column.as_boolean_opt()?;
            let byte = |value: bool| vec![u8::from(value)];
            Some((byte(aggregate::min_boolean(column)?), byte(aggregate::max_boolean(column)?)))
        }
        DataType::Int32 => little::<Int32Type, 4>(column, i32::to_le_bytes),
        DataType::Date32 => little::<Date32Type, 4>(column, i32::to_le_bytes),
        DataType::Int64 => little::<Int64Type, 8>(column, i64::to_le_bytes),
        DataType::Time64(TimeUnit::Microsecond) => little::<Time64MicrosecondType, 8>(column, i64::to_le_bytes),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            little::<TimestampMicrosecondType, 8>(column, i64::to_le_bytes)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => little::<TimestampNanosecondType, 8>(column, i64::to_le_bytes),
        DataType::Decimal128(_, _) => little::<Decimal128Type, 16>(column, i128::to_be_bytes),
        DataType::Float32 => {
            // NaNs are counted, never bounds; -0 comes before +0.
            let values = column.as_primitive_opt::<Float32Type>()?.iter().flatten().filter(|v| !v.is_nan());
            let least = values.clone().min_by(f32::total_cmp)?;
            Some((least.to_le_bytes().to_vec(), values.max_by(f32::total_cmp)?.to_le_bytes().to_vec()))
        }
        DataType::Float64 => {
            let values = column.as_primitive_opt::<Float64Type>()?.iter().flatten().filter(|v| !v.is_nan());
            let least = values.clone().min_by(f64::total_cmp)?;
            Some((least.to_le_bytes().to_vec(), values.max_by(f64::total_cmp)?.to_le_bytes().to_vec()))
        }
        DataType::Utf8 => {
            let column = column.as_string_opt::<i32>()?;
            slices(aggregate::min_string(column).map(str::as_bytes), aggregate::max_string(column).map(str::as_bytes))
        }
        DataType::Binary => {
            let column = column.as_binary_opt::<i32>()?;
            slices(aggregate::min_binary(column), aggregate::max_binary(column))
        }
        DataType::LargeBinary => {
            let column = column.as_binary_opt::<i64>()?;
            slices(aggregate::min_binary(column), aggregate::max_binary(column))
        }
        DataType::FixedSizeBinary(_) => {
            let column = column.as_fixed_size_binary_opt()?;
            slices(aggregate::min_fixed_size_binary(column), aggregate::max_fixed_size_binary(column))
        }
        _ => None,
    }
}

/// One value as iceberg's type; `None` for null. `index` must be a row of the column.
pub(crate) fn datum_at(column: &ArrayRef, index: usize, data_type: &PrimitiveType) -> iceberg::Result<Option<Datum>> {
    if column.is_null(index) {
        return Ok(None);
    }
    let one = column.slice(index, 1);
    let bytes = match one.data_type() {
        // The one place where a NaN is a value: an identity partition.
        DataType::Float32 => one.as_primitive_opt::<Float32Type>().map(|one| one.value(0).to_le_bytes().to_vec()),
        DataType::Float64 => one.as_primitive_opt::<Float64Type>().map(|one| one.value(0).to_le_bytes().to_vec()),
        _ => extremes(&one).map(|(value, _)| value),
    };
    let Some(bytes) = bytes else {
        return Err(iceberg::Error::new(
            iceberg::ErrorKind::FeatureUnsupported,
            format!("values of type {data_type} from {}", column.data_type()),
        ));
    };
    Datum::try_from_bytes(&bytes, data_type.clone()).map(Some)
}

/// Adds a batch to the metrics of each column.
pub(crate) fn update_all(metrics: &mut [(usize, ColumnMetrics)], batch: &RecordBatch) -> iceberg::Result<()> {
    metrics.iter_mut().try_for_each(|(index, metrics)| match batch.columns().get(*index) {
        Some(column) => metrics.update(column),
        None => Ok(()),
    })
}
