//! A table from a file: its schema inferred, its partitioning parsed. For trying things out.
//!
//! Source: Iceberg spec, "Schemas and Data Types" and "Partition Transforms".

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_csv::reader::Format;
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use iceberg::TableCreation;
use iceberg::arrow::arrow_schema_to_schema_auto_assign_ids;
use iceberg::spec::{FormatVersion, Schema, Transform, UnboundPartitionSpec};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::input::{Kind, input_error, kind_of};
use super::{AboutFile, DataError};

/// The schema of a Parquet, Arrow or CSV file as that of a table, with field ids from 1.
///
/// Types are widened to the nearest that tables have: small integers to `int`, timestamps of any unit to
/// microseconds. CSV is read whole, so that a later row cannot contradict the type; its columns are all optional.
///
/// # Errors
/// The file cannot be read, or a column has a type that no table has.
pub fn infer_schema(path: &Path) -> Result<Schema, DataError> {
    let name = path.display().to_string();
    let io = |error: std::io::Error| DataError::from_io(name.clone(), &error);
    super::input::check(&[path.to_owned()])?;
    let mut file = File::open(path).map_err(io)?;
    let found = match kind_of(path, &mut file)? {
        Kind::Parquet => ParquetRecordBatchReaderBuilder::try_new(file)
            .map(|builder| builder.schema().clone())
            .map_err(|error| input_error(path, format!("it cannot be read: {error}")))?,
        Kind::ArrowFile => arrow_ipc::reader::FileReader::try_new(file, None)
            .map(|reader| reader.schema())
            .map_err(|error| input_error(path, format!("it cannot be read: {error}")))?,
        Kind::Text(delimiter) => {
            let header = super::input::header(path, &mut file, delimiter)?;
            file.rewind().map_err(io)?;
            let (inferred, _) = Format::default()
                .with_header(true)
                .with_delimiter(delimiter)
                .infer_schema(super::input::Quotes::new(file, delimiter), None)
                .map_err(|error| input_error(path, format!("it cannot be read: {error}")))?;
            let zones = zones(path, &header, delimiter, &inferred)?;
            let typed = header.fields().iter().zip(inferred.fields()).zip(zones).map(|((named, typed), zones)| {
                let data_type = match (typed.data_type(), zones) {
                    // A column without a value tells nothing; text takes whatever comes later.
                    (DataType::Null, _) | (DataType::Timestamp(..), Zones { with: true, without: true }) => {
                        DataType::Utf8
                    }
                    (DataType::Timestamp(unit, _), Zones { with: true, without: false }) => {
                        DataType::Timestamp(*unit, Some("+00:00".into()))
                    }
                    (other, _) => other.clone(),
                };
                Field::new(named.name(), data_type, true)
            });
            Arc::new(ArrowSchema::new(typed.collect::<Vec<_>>()))
        }
    };
    let mut fields = Vec::with_capacity(found.fields().len());
    for field in found.fields() {
        let data_type = table_type(field.data_type()).map_err(|unknown| {
            input_error(
                path,
                format!("column `{}` is of type {unknown}, which no table has: convert it in the file", field.name()),
            )
        })?;
        fields.push(Field::new(field.name(), data_type, field.is_nullable()));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = fields.iter().find(|field| !names.insert(field.name())) {
        return Err(input_error(path, format!("it has column `{}` twice", twice.name())));
    }
    arrow_schema_to_schema_auto_assign_ids(&ArrowSchema::new(fields)).about(&name)
}

/// Which kinds of timestamps a column of text has.
#[derive(Debug, Clone, Copy, Default)]
struct Zones {
    with: bool,
    without: bool,
}

/// What the timestamps of each column say of zones: the inference of types takes `Z` and offsets, and forgets them.
fn zones(path: &Path, header: &SchemaRef, delimiter: u8, inferred: &ArrowSchema) -> Result<Vec<Zones>, DataError> {
    let mut found = vec![Zones::default(); header.fields().len()];
    let timestamps: Vec<usize> = inferred
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| matches!(field.data_type(), DataType::Timestamp(..)))
        .map(|(at, _)| at)
        .collect();
    if timestamps.is_empty() {
        return Ok(found);
    }
    let unreadable = |error: &dyn std::fmt::Display| input_error(path, format!("it cannot be read: {error}"));
    let file = File::open(path).map_err(|error| DataError::from_io(path.display().to_string(), &error))?;
    for batch in super::input::csv_reader(header, delimiter, file).map_err(|e| unreadable(&e))? {
        let batch = batch.map_err(|error| unreadable(&error))?;
        for at in &timestamps {
            let (Some(zones), Some(values)) = (found.get_mut(*at), batch.column(*at).as_string_opt::<i32>()) else {
                continue;
            };
            for value in values.iter().flatten().map(str::trim).filter(|value| !value.is_empty()) {
                // After the date, which has dashes of its own, only an offset has a sign.
                let time = value.get(10..).unwrap_or_default();
                let zoned = time.ends_with(['Z', 'z']) || time.contains(['+', '-']);
                zones.with |= zoned;
                zones.without |= !zoned;
            }
        }
    }
    Ok(found)
}

/// The type that a table keeps such values in; the error is the (inner) type that has none.
fn table_type(found: &DataType) -> Result<DataType, DataType> {
    let inner = |field: &Arc<Field>| -> Result<Arc<Field>, DataType> {
        Ok(Arc::new(Field::new(field.name(), table_type(field.data_type())?, field.is_nullable())))
    };
    Ok(match found {
        DataType::Boolean
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Decimal128(_, _)
        | DataType::FixedSizeBinary(_) => found.clone(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::LargeBinary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "+00:00".into()))
        }
        DataType::Dictionary(_, values) => table_type(values)?,
        DataType::List(element) | DataType::LargeList(element) => DataType::List(inner(element)?),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Result<_, _>>()?),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries)?, *sorted),
        other => return Err(other.clone()),
    })
}

/// Parses a partitioning such as `day(ordered_at), bucket(16, id), truncate(4, name), region`.
///
/// A bare column means `identity`. Partition fields are named as Iceberg's own writers name them: `ordered_at_day`,
/// `id_bucket`, `name_trunc`. Empty text is no partitioning.
///
/// # Errors
/// A transform or column is unknown, or the one does not apply to the other.
pub fn parse_partition_by(text: &str, schema: &Schema) -> Result<UnboundPartitionSpec, DataError> {
    let mut builder = UnboundPartitionSpec::builder();
    if text.trim().is_empty() {
        return Ok(builder.build());
    }
    let mut names = BTreeSet::new();
    for term in split_terms(text) {
        let invalid = |reason: String| DataError::Invalid(format!("partitioning {term:?}: {reason}"));
        let (transform, column, suffix) = parse_term(term).map_err(&invalid)?;
        let field = schema.field_by_name(column).ok_or_else(|| {
            let known: Vec<_> = schema.as_struct().fields().iter().map(|field| field.name.as_str()).collect();
            invalid(format!("there is no column `{column}`; there are {}", known.join(", ")))
        })?;
        let applies = field.field_type.is_primitive() && transform.result_type(&field.field_type).is_ok();
        if !applies {
            return Err(invalid(format!("{transform} does not apply to `{column}`, which is {}", field.field_type)));
        }
        let name = format!("{}{suffix}", column.replace('.', "_"));
        if !names.insert(name.clone()) {
            return Err(invalid(format!("there are two partition fields `{name}`")));
        }
        builder = builder
            .add_partition_field(field.id, name, transform)
            .map_err(|error| invalid(error.message().to_owned()))?;
    }
    Ok(builder.build())
}

/// Splits at the commas that are outside of parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let terms = text.split(|character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    terms.map(str::trim).collect()
}

fn parse_term(term: &str) -> Result<(Transform, &str, &'static str), String> {
    let Some((name, rest)) = term.split_once('(') else {
        return match term {
            "" => Err("a column is missing between the commas".to_owned()),
            column => Ok((Transform::Identity, column, "")),
        };
    };
    let inside = rest.strip_suffix(')').ok_or("a closing parenthesis is missing")?;
    let arguments: Vec<&str> = inside.split(',').map(str::trim).collect();
    let (column, number) = match arguments.as_slice() {
        [column] => (*column, None),
        [a, b] => match (a.parse::<u32>(), b.parse::<u32>()) {
            (Ok(number), _) => (*b, Some(number)),
            (_, Ok(number)) => (*a, Some(number)),
            _ => return Err("a number and a column were expected".to_owned()),
        },
        _ => return Err("one column was expected".to_owned()),
    };
    let counted = |what: &str| match number {
        Some(0) => Err(format!("{what} needs a number above zero")),
        Some(number) if i32::try_from(number).is_ok() => Ok(number),
        Some(_) => Err(format!("{what} takes no number that large")),
        None => Err(format!("{what} needs a number, e.g. {what}(16, {column})")),
    };
    let (transform, suffix) = match name.trim().to_ascii_lowercase().as_str() {
        "bucket" => (Transform::Bucket(counted("bucket")?), "_bucket"),
        "truncate" => (Transform::Truncate(counted("truncate")?), "_trunc"),
        _ if number.is_some() => return Err(format!("{} takes no number", name.trim())),
        "identity" => (Transform::Identity, ""),
        "year" | "years" => (Transform::Year, "_year"),
        "month" | "months" => (Transform::Month, "_month"),
        "day" | "days" => (Transform::Day, "_day"),
        "hour" | "hours" => (Transform::Hour, "_hour"),
        "void" => (Transform::Void, "_null"),
        other => {
            return Err(format!(
                "there is no transform {other:?}; there are identity, bucket, truncate, year, month, day, hour and void"
            ));
        }
    };
    Ok((transform, column, suffix))
}

/// What a catalog needs to make the table.
pub fn table_creation(
    name: &str,
    schema: Schema,
    partitioning: UnboundPartitionSpec,
    format_version: FormatVersion,
    properties: BTreeMap<String, String>,
) -> TableCreation {
    TableCreation::builder()
        .name(name.to_owned())
        .schema(schema)
        .partition_spec(partitioning)
        .format_version(format_version)
        .properties(properties)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn schema_of(csv: &str) -> Result<Schema, DataError> {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        infer_schema(file.path())
    }

    #[test]
    fn a_csv_file_gives_types_from_all_of_its_rows() {
        let schema = schema_of(
            "id,at,day,price,ok,name,none\n1,2024-01-01T10:00:00,2024-01-01,1.5,true,a,\n2,2024-01-01T10:00:00,2024-01-02,2,false,b,\n3000000000,,,,,,\n",
        )
        .unwrap();
        let types: Vec<_> = schema
            .as_struct()
            .fields()
            .iter()
            .map(|field| format!("{} {} {}", field.id, field.name, field.field_type))
            .collect();
        assert_eq!(
            types,
            [
                "1 id long",
                "2 at timestamp",
                "3 day date",
                "4 price double",
                "5 ok boolean",
                "6 name string",
                "7 none string"
            ]
        );
        assert!(schema.as_struct().fields().iter().all(|field| !field.required));
        let late = "a\n".to_owned() + &"1\n".repeat(3000) + "x\n";
        assert_eq!(schema_of(&late).unwrap().as_struct().fields()[0].field_type.to_string(), "string");
    }

    #[test]
    fn timestamps_keep_their_zones() {
        let csv = "a,b,c\n2013-08-08T10:00:00Z,2013-08-08T10:00:00,2013-08-08T10:00:00Z\n2013-08-08T10:00:00+02:00,,2013-08-08T10:00:00\n";
        let schema = schema_of(csv).unwrap();
        let types: Vec<_> = schema.as_struct().fields().iter().map(|field| field.field_type.to_string()).collect();
        assert_eq!(types, ["timestamptz", "timestamp", "string"]);
    }

    #[test]
    fn headers_must_name_every_column_once() {
        for (csv, complaint) in [("a,a\n1,2\n", "twice"), ("a,\n1,2\n", "without a name"), ("", "no bytes")] {
            let error = schema_of(csv).unwrap_err().to_string();
            assert!(error.contains(complaint), "{csv:?}: {error}");
        }
    }

    #[test]
    fn partitionings_are_parsed_and_named() {
        let schema = schema_of("id,at,name,region\n1,2024-01-01T10:00:00,a,b\n").unwrap();
        let spec = parse_partition_by("day(at), bucket(16, id), truncate(name, 4), region, void(id)", &schema).unwrap();
        let fields: Vec<_> = spec
            .fields()
            .iter()
            .map(|field| format!("{} {} {}", field.source_id, field.name, field.transform))
            .collect();
        assert_eq!(
            fields,
            [
                "2 at_day day",
                "1 id_bucket bucket[16]",
                "3 name_trunc truncate[4]",
                "4 region identity",
                "1 id_null void"
            ]
        );
        assert!(parse_partition_by(" ", &schema).unwrap().fields().is_empty());
    }

    #[test]
    fn partitionings_that_cannot_be_are_refused() {
        let schema = schema_of("id,at,name\n1,2024-01-01T10:00:00,a\n").unwrap();
        for (text, complaint) in [
            ("day(nope)", "no column `nope`"),
            ("day(name)", "does not apply"),
            ("bucket(id)", "needs a number"),
            ("bucket(0, id)", "above zero"),
            ("truncate(99999999999, name)", "a number and a column"),
            ("week(at)", "no transform"),
            ("day(at", "closing parenthesis"),
            ("id,,name", "missing between"),
            ("id, id", "two partition fields"),
            ("day(3, at)", "takes no number"),
        ] {
            let error = parse_partition_by(text, &schema).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
