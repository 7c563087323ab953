//! Columns of a file as columns of the table: matched, widened where nothing can be lost, else refused.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef, TimeUnit};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{PrimitiveType, SchemaRef, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use uuid::Uuid;

use super::input_error;
use crate::data::{AboutFile, DataError};

/// How the batches of one file become batches of the table.
#[derive(Debug)]
pub(crate) struct Conform {
    path: PathBuf,
    schema: SchemaRef,
    target: ArrowSchemaRef,
    /// For each column of the table, its place in the file; `None` where the file has none.
    places: Vec<Option<usize>>,
    text: bool,
}

/// Values that do not fit become null here, are found by that, and refused.
const SAFE: CastOptions<'static> =
    CastOptions { safe: true, format_options: arrow_cast::display::FormatOptions::new() };

impl Conform {
    /// For a file with typed columns.
    ///
    /// # Errors
    /// A column is not the table's, is missing and required, or has a type that may lose values.
    pub(crate) fn new(path: &Path, schema: &SchemaRef, file: &ArrowSchema) -> Result<Self, DataError> {
        let conform = Self::matched(path, schema, file, false)?;
        for (index, field) in conform.target.fields().iter().enumerate() {
            let Some(found) = conform.place(index).and_then(|place| file.fields().get(place)) else { continue };
            if !widens(found.data_type(), field.data_type()) {
                return Err(input_error(
                    path,
                    format!(
                        "column `{}` is of type {}, and the table's is {}: convert it in the file",
                        field.name(),
                        found.data_type(),
                        conform.type_name(index),
                    ),
                ));
            }
        }
        Ok(conform)
    }

    /// For a file whose columns are all text.
    ///
    /// # Errors
    /// A column is not the table's, is missing and required, or has a type that text cannot give.
    pub(crate) fn of_text(path: &Path, schema: &SchemaRef, file: &ArrowSchema) -> Result<Self, DataError> {
        let conform = Self::matched(path, schema, file, true)?;
        for (index, field) in schema.as_struct().fields().iter().enumerate() {
            let parsed = match field.field_type.as_ref() {
                Type::Primitive(PrimitiveType::Binary | PrimitiveType::Fixed(_)) => false,
                Type::Primitive(_) => true,
                Type::Struct(_) | Type::List(_) | Type::Map(_) => false,
            };
            if conform.place(index).is_some() && !parsed {
                return Err(input_error(
                    path,
                    format!(
                        "column `{}` is of type {}, which CSV cannot hold: use Parquet",
                        field.name, field.field_type
                    ),
                ));
            }
        }
        Ok(conform)
    }

    fn matched(path: &Path, schema: &SchemaRef, file: &ArrowSchema, text: bool) -> Result<Self, DataError> {
        let name = path.display().to_string();
        let target = Arc::new(schema_to_arrow_schema(schema).about(&name)?);
        let known = schema.as_struct().fields();
        let by_name: HashMap<&str, usize> =
            known.iter().enumerate().map(|(index, field)| (field.name.as_str(), index)).collect();
        let by_id: HashMap<i32, usize> = known.iter().enumerate().map(|(index, field)| (field.id, index)).collect();
        let id_of = |field: &arrow_schema::Field| -> Option<i32> {
            field.metadata().get(PARQUET_FIELD_ID_META_KEY).and_then(|id| id.parse().ok())
        };
        // Ids of another table mean nothing here. They count only if they agree wherever the names do.
        let named: Vec<(i32, usize)> = file
            .fields()
            .iter()
            .filter_map(|field| Some((id_of(field)?, *by_name.get(field.name().as_str())?)))
            .collect();
        let ids_agree = !named.is_empty() && named.iter().all(|(id, index)| by_id.get(id) == Some(index));
        let mut places = vec![None; known.len()];
        let mut taken = HashSet::new();
        for (place, field) in file.fields().iter().enumerate() {
            let index = by_name.get(field.name().as_str()).copied().or_else(|| {
                let renamed = id_of(field).filter(|_| ids_agree)?;
                by_id.get(&renamed).copied()
            });
            let Some(index) = index else {
                let names: Vec<_> = known.iter().map(|field| field.name.as_str()).collect();
                let alike = names.iter().find(|known| known.eq_ignore_ascii_case(field.name()));
                let hint = match alike {
                    Some(alike) => format!("; did you mean `{alike}`?"),
                    None => format!(", whose columns are {}", names.join(", ")),
                };
                return Err(input_error(path, format!("column `{}` is not in the table{hint}", field.name())));
            };
            if !taken.insert(index) {
                return Err(input_error(path, format!("two of its columns stand for the table's `{}`", field.name())));
            }
            if let Some(slot) = places.get_mut(index) {
                *slot = Some(place);
            }
        }
        if let Some((field, _)) = known.iter().zip(&places).find(|(field, place)| field.required && place.is_none()) {
            let reason = format!("it has no column `{}`, which the table requires ({})", field.name, field.field_type);
            return Err(input_error(path, reason));
        }
        let lacks_default = |(field, place): &(&iceberg::spec::NestedFieldRef, &Option<usize>)| {
            place.is_none() && field.write_default.is_some()
        };
        if let Some((field, _)) = known.iter().zip(&places).find(lacks_default) {
            let reason =
                format!("it has no column `{}`, whose default calve does not fill in: add the column", field.name);
            return Err(input_error(path, reason));
        }
        Ok(Self { path: path.to_owned(), schema: schema.clone(), target, places, text })
    }

    fn place(&self, index: usize) -> Option<usize> {
        self.places.get(index).copied().flatten()
    }

    fn name(&self, index: usize) -> &str {
        self.target.fields().get(index).map(|field| field.name().as_str()).unwrap_or_default()
    }

    fn type_name(&self, index: usize) -> String {
        self.schema.as_struct().fields().get(index).map(|field| field.field_type.to_string()).unwrap_or_default()
    }

    /// The rows in the table's schema. `first_row` is the number of the first of them, for errors.
    ///
    /// # Errors
    /// A value does not fit its column; it is named with its row.
    pub(crate) fn batch(&self, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch, DataError> {
        let mut columns = Vec::with_capacity(self.places.len());
        for (index, field) in self.target.fields().iter().enumerate() {
            let found = self.place(index).and_then(|place| batch.columns().get(place));
            let column = match found {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some(found) => self.column(index, found, field.data_type(), first_row)?,
            };
            if !field.is_nullable()
                && let Some(row) = (0..column.len()).find(|row| column.is_null(*row))
            {
                let what = if self.text { "has no value" } else { "is null" };
                return Err(self.row_error(index, first_row, row, &format!("{what}, and the table requires one")));
            }
            columns.push(column);
        }
        RecordBatch::try_new(self.target.clone(), columns)
            .map_err(|error| input_error(&self.path, format!("from row {first_row} on: {error}")))
    }

    fn column(&self, index: usize, found: &ArrayRef, target: &DataType, first_row: u64) -> Result<ArrayRef, DataError> {
        if found.data_type() == target {
            return Ok(found.clone());
        }
        let refused = |error: arrow_schema::ArrowError| {
            let column = self.name(index);
            input_error(&self.path, format!("column `{column}`, from row {first_row} on: {error}"))
        };
        let misfit = |row: usize, given: &ArrayRef| {
            let value = arrow_cast::display::array_value_to_string(given, row).unwrap_or_default();
            let shown: String = value.chars().take(80).collect();
            self.row_error(index, first_row, row, &format!("{shown:?} is no {}", self.type_name(index)))
        };
        if self.text {
            let text = found.as_string_opt::<i32>().ok_or_else(|| input_error(&self.path, "a column is no text"))?;
            let parsed = parse(text, target).map_err(refused)?;
            let bad = (0..text.len())
                .find(|row| !text.is_null(*row) && (parsed.is_null(*row) || !exact(text.value(*row), target)));
            return bad.map_or(Ok(parsed), |row| Err(misfit(row, found)));
        }
        let cast = cast_with_options(found, target, &SAFE).map_err(refused)?;
        // What text and dictionaries count as null is in their values, so it is the values that are compared.
        let nulls = found.logical_nulls();
        let was_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        if let Some(row) = (0..cast.len()).find(|row| cast.is_null(*row) && !was_null(*row)) {
            return Err(misfit(row, found));
        }
        if may_round(found.data_type(), target) {
            let back = cast_with_options(&cast, found.data_type(), &SAFE).map_err(refused)?;
            let differs = arrow_ord::cmp::distinct(&back, found).map_err(refused)?;
            if let Some(row) = (0..differs.len()).find(|row| differs.value(*row)) {
                return Err(misfit(row, found));
            }
        }
        Ok(cast)
    }

    fn row_error(&self, index: usize, first_row: u64, row: usize, what: &str) -> DataError {
        let number = first_row.saturating_add(row as u64);
        let line = if self.text { format!(" (line {})", number.saturating_add(1)) } else { String::new() };
        let column = self.name(index);
        input_error(&self.path, format!("row {number}{line}, column `{column}`: {what}"))
    }
}

/// May values of one type be taken as another, where each either keeps its meaning or is refused by itself?
fn widens(found: &DataType, target: &DataType) -> bool {
    use DataType::*;
    match (found, target) {
        (found, target) if found == target => true,
        (Null, _) => true,
        (Dictionary(_, values), _) => widens(values, target),
        (Int8 | Int16 | UInt8 | UInt16, Int32 | Int64) | (Int32 | UInt32, Int64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s), Decimal128(precision, scale)) => {
            let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            scale >= s && whole(*precision, *scale) >= whole(*p, *s)
        }
        (LargeUtf8 | Utf8View, Utf8) => true,
        (Binary | BinaryView | FixedSizeBinary(_), LargeBinary) => true,
        (Date64, Date32) => true,
        (Time32(_) | Time64(_), Time64(TimeUnit::Microsecond)) => true,
        (Timestamp(_, from), Timestamp(_, to)) => from.is_some() == to.is_some(),
        (List(from) | LargeList(from) | FixedSizeList(from, _), List(to)) => widens(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && from
                    .iter()
                    .zip(to)
                    .all(|(from, to)| from.name() == to.name() && widens(from.data_type(), to.data_type()))
        }
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => {
                from.len() == to.len() && from.iter().zip(to).all(|(from, to)| widens(from.data_type(), to.data_type()))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Casts between these drop digits without a word.
fn may_round(found: &DataType, target: &DataType) -> bool {
    use DataType::*;
    matches!(
        (found, target),
        (Timestamp(TimeUnit::Nanosecond, _), Timestamp(TimeUnit::Microsecond, _))
            | (Time64(TimeUnit::Nanosecond), Time64(_))
            | (Date64, Date32)
    )
}

/// Text as values of a type; null where it is none.
fn parse(text: &StringArray, target: &DataType) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match target {
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(text.len(), *width);
            for value in text {
                match value.and_then(|value| Uuid::parse_str(value.trim()).ok()) {
                    Some(uuid) => builder.append_value(uuid.as_bytes())?,
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        _ => cast_with_options(text, target, &SAFE),
    }
}

/// Does the text say no more than the type holds? The casts would round, or drop an offset or a time of day.
fn exact(text: &str, target: &DataType) -> bool {
    let digits = |limit: usize| {
        let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        fraction.get(..length).unwrap_or_default().trim_end_matches('0').len() <= limit
    };
    let offset = || text.get(10..).is_some_and(|rest| rest.contains(['+', '-', 'Z', 'z']));
    match target {
        DataType::Decimal128(_, scale) => {
            // The cast takes a sign or a point alone for nought.
            let is_number = text.bytes().any(|byte| byte.is_ascii_digit());
            is_number && !text.contains(['e', 'E']) && digits(usize::try_from(*scale).unwrap_or_default())
        }
        DataType::Date32 => !text.contains(':'),
        DataType::Time64(_) => digits(6),
        DataType::Timestamp(unit, zone) => {
            let limit = if *unit == TimeUnit::Nanosecond { 9 } else { 6 };
            // An instant needs an offset or `Z`, as it does in a scope; local time has none.
            digits(limit) && zone.is_some() == offset()
        }
        _ => true,
    }
}
