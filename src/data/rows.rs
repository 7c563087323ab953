//! The live rows of one data file, in the table's current schema, with their row ids where the table has them.
//!
//! Source: Iceberg spec, "Column Projection", "Row Lineage".

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::{filter, filter_record_batch};
use futures::{StreamExt, TryStreamExt};
use iceberg::arrow::{ArrowReaderBuilder, arrow_schema_to_schema, schema_to_arrow_schema};
use iceberg::metadata_columns::{
    RESERVED_COL_NAME_LAST_UPDATED_SEQUENCE_NUMBER, RESERVED_COL_NAME_ROW_ID,
    RESERVED_FIELD_ID_LAST_UPDATED_SEQUENCE_NUMBER, RESERVED_FIELD_ID_ROW_ID,
};
use iceberg::scan::{ArrowRecordBatchStream, FileScanTask};
use iceberg::spec::{DataFileFormat, NameMapping, PrimitiveType, Schema, Transform, Type};
use parquet::arrow::ProjectionMask;
use parquet::basic::Type as PhysicalType;

use super::deletes::{Applied, open_parquet, place_of, read_error};
use super::input::BATCH_ROWS;
use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::identity::LiveEntry;

/// Rows that are live.
#[derive(Debug)]
pub(crate) struct LiveBatch {
    /// The rows: the columns asked for, in the table's types.
    pub(crate) rows: RecordBatch,
    /// Their `_row_id` and `_last_updated_sequence_number`, if asked for; null for rows that have none yet.
    pub(crate) lineage: Option<[ArrayRef; 2]>,
}

/// Reads the live rows of one data file.
pub(crate) struct LiveRows {
    path: String,
    records: u64,
    position: u64,
    target: ArrowSchemaRef,
    stream: ArrowRecordBatchStream,
    applied: Applied,
    lineage: Option<Lineage>,
}

impl LiveRows {
    /// Opens a data file for the top-level fields `project`, in that order.
    ///
    /// # Errors
    /// The file is missing, damaged, or of a format or type that cannot be read.
    pub(crate) async fn open(
        table: &LoadedTable,
        data: &LiveEntry,
        applied: Applied,
        project: &[i32],
        with_lineage: bool,
    ) -> Result<Self, DataError> {
        let path = data.file.file_path();
        let refuse = |reason: String| DataError::Unsupported { what: format!("data file {path}"), reason };
        if data.file.file_format() != DataFileFormat::Parquet {
            return Err(refuse(format!("it is of format {}; only Parquet is read", data.file.file_format())));
        }
        if data.file.key_metadata().is_some() {
            return Err(refuse("it is encrypted, and calve holds no keys".to_owned()));
        }
        let schema = table.metadata.current_schema().clone();
        let footer = open_parquet(table, path).await?;
        let has_ids = footer.schema().fields().iter().any(|field| place_known(field));
        if has_ids {
            check_types(&schema, footer.schema(), &int96_ids(footer.parquet_schema())).map_err(refuse)?;
        }
        let spec = table.metadata.partition_spec_by_id(data.spec_id).cloned();
        // Files that were adopted from Hive keep partition columns in their folders' names only.
        let lacking = spec.filter(|spec| {
            spec.fields().iter().any(|field| {
                field.transform == Transform::Identity && place_of(footer.schema(), field.source_id).is_none()
            })
        });
        let name_mapping = table.metadata.properties().get("schema.name-mapping.default");
        let name_mapping = name_mapping
            .map(|text| serde_json::from_str::<NameMapping>(text).map(Arc::new))
            .transpose()
            .map_err(|error| refuse(format!("schema.name-mapping.default cannot be read: {error}")))?;
        let lineage = match with_lineage {
            true => Some(Lineage::open(data, footer)?),
            false => None,
        };
        let task = FileScanTask {
            file_size_in_bytes: data.file.file_size_in_bytes(),
            start: 0,
            length: 0,
            record_count: Some(data.file.record_count()),
            data_file_path: path.to_owned(),
            data_file_format: DataFileFormat::Parquet,
            schema: schema.clone(),
            project_field_ids: project.to_vec(),
            predicate: None,
            deletes: Vec::new(),
            partition: lacking.is_some().then(|| data.file.partition().clone()),
            partition_spec: lacking,
            name_mapping,
            case_sensitive: true,
        };
        let runtime = iceberg::Runtime::try_current().about(path)?;
        let stream = ArrowReaderBuilder::new(table.file_io.clone(), runtime)
            .with_data_file_concurrency_limit(1)
            .with_batch_size(BATCH_ROWS)
            .build()
            .read(futures::stream::once(async move { Ok(task) }).boxed())
            .about(path)?
            .stream();
        let whole = schema_to_arrow_schema(&schema).about(path)?;
        let column = |id: &i32| place_of(&whole, *id).and_then(|place| whole.fields().get(place).cloned());
        let fields: Vec<_> = project.iter().filter_map(column).collect();
        Ok(Self {
            path: path.to_owned(),
            records: data.file.record_count(),
            position: 0,
            target: Arc::new(ArrowSchema::new(fields)),
            stream,
            applied,
            lineage,
        })
    }

    /// The next rows; a batch may be empty. `None` at the end.
    ///
    /// # Errors
    /// The file is damaged, or holds another number of rows than its manifest says.
    pub(crate) async fn next(&mut self) -> Result<Option<LiveBatch>, DataError> {
        let Some(read) = self.stream.try_next().await.about(&self.path)? else {
            return match self.position == self.records {
                true => Ok(None),
                false => Err(self.damaged(format!("it has {} rows, not {}", self.position, self.records))),
            };
        };
        let mut columns = Vec::with_capacity(read.num_columns());
        for (column, field) in read.columns().iter().zip(self.target.fields()) {
            let column = match column.data_type() == field.data_type() {
                true => column.clone(),
                false => cast(column, field.data_type()).map_err(|error| self.damaged(error.to_string()))?,
            };
            columns.push(column);
        }
        let batch =
            RecordBatch::try_new(self.target.clone(), columns).map_err(|error| self.damaged(error.to_string()))?;
        let first = self.position;
        self.position = self.position.saturating_add(batch.num_rows() as u64);
        let lineage = match &mut self.lineage {
            Some(lineage) => Some(lineage.of(&self.path, first, batch.num_rows()).await?),
            None => None,
        };
        if self.applied.is_empty() {
            return Ok(Some(LiveBatch { rows: batch, lineage }));
        }
        let stays = BooleanArray::from(self.applied.stays(&batch, first).about(&self.path)?);
        let rows = filter_record_batch(&batch, &stays).map_err(|error| self.damaged(error.to_string()))?;
        let lineage = lineage.map(|columns| -> Result<_, DataError> {
            let [ids, numbers] = columns.map(|column| filter(&column, &stays));
            Ok([ids, numbers].map(|column| column.map_err(|error| self.damaged(error.to_string()))))
        });
        let lineage = match lineage.transpose()? {
            Some([ids, numbers]) => Some([ids?, numbers?]),
            None => None,
        };
        Ok(Some(LiveBatch { rows, lineage }))
    }

    fn damaged(&self, reason: String) -> DataError {
        DataError::Damaged { file: self.path.clone(), reason }
    }
}

fn place_known(field: &arrow_schema::Field) -> bool {
    field.metadata().contains_key(parquet::arrow::PARQUET_FIELD_ID_META_KEY)
}

/// The columns that hold timestamps in Parquet's old form, which the reader converts by itself.
fn int96_ids(schema: &parquet::schema::types::SchemaDescriptor) -> Vec<i32> {
    let columns = schema.columns().iter().filter(|column| column.physical_type() == PhysicalType::INT96);
    columns
        .map(|column| column.self_type().get_basic_info())
        .filter(|info| info.has_id())
        .map(|info| info.id())
        .collect()
}

/// Refuses a file with a column that the reader would pass over as if it were missing, because of its type: written
/// anew, its values would be lost.
fn check_types(schema: &Schema, file: &ArrowSchema, int96: &[i32]) -> Result<(), String> {
    let known: Vec<_> = file.fields().iter().filter(|field| place_known(field)).cloned().collect();
    let file = arrow_schema_to_schema(&ArrowSchema::new(known))
        .map_err(|error| format!("its columns cannot be read: {}", error.message()))?;
    for field in schema.as_struct().fields() {
        check_field(&file, field, int96)?;
    }
    Ok(())
}

fn check_field(file: &Schema, field: &iceberg::spec::NestedField, int96: &[i32]) -> Result<(), String> {
    match field.field_type.as_ref() {
        Type::Struct(inner) => inner.fields().iter().try_for_each(|field| check_field(file, field, int96)),
        Type::List(list) => check_field(file, &list.element_field, int96),
        Type::Map(map) => {
            check_field(file, &map.key_field, int96)?;
            check_field(file, &map.value_field, int96)
        }
        Type::Primitive(wanted) => {
            let Some(found) = file.field_by_id(field.id) else { return Ok(()) };
            let fits = match found.field_type.as_primitive_type() {
                None => false,
                Some(found) => reads_as(found, wanted) || int96.contains(&field.id),
            };
            match fits {
                true => Ok(()),
                false => {
                    Err(format!("column `{}` is {} in it, and {wanted} in the table", field.name, found.field_type))
                }
            }
        }
    }
}

fn reads_as(found: &PrimitiveType, wanted: &PrimitiveType) -> bool {
    use PrimitiveType::*;
    match (found, wanted) {
        (Int, Long) | (Float, Double) | (Fixed(16), Uuid) => true,
        (Decimal { precision: p, scale: s }, Decimal { precision, scale }) => precision >= p && scale == s,
        (found, wanted) => found == wanted,
    }
}

/// The lineage columns of a file: as stored, and inherited where null.
struct Lineage {
    first_row_id: Option<i64>,
    sequence_number: i64,
    stored: Option<Stored>,
}

/// Columns `_row_id` and `_last_updated_sequence_number` of an earlier rewrite.
struct Stored {
    stream: parquet::arrow::async_reader::ParquetRecordBatchStream<iceberg::arrow::ArrowFileReader>,
    /// Rows read and not yet handed out: their two columns.
    ahead: Option<[Option<ArrayRef>; 2]>,
}

impl Lineage {
    fn open(
        data: &LiveEntry,
        footer: parquet::arrow::ParquetRecordBatchStreamBuilder<iceberg::arrow::ArrowFileReader>,
    ) -> Result<Self, DataError> {
        let ids = [RESERVED_FIELD_ID_ROW_ID, RESERVED_FIELD_ID_LAST_UPDATED_SEQUENCE_NUMBER];
        let roots: Vec<usize> = ids.iter().filter_map(|id| place_of(footer.schema(), *id)).collect();
        let stored = match roots.is_empty() {
            true => None,
            false => {
                let mask = ProjectionMask::roots(footer.parquet_schema(), roots);
                let stream = footer
                    .with_projection(mask)
                    .with_batch_size(BATCH_ROWS)
                    .build()
                    .map_err(|error| read_error(data.file.file_path(), &error))?;
                Some(Stored { stream, ahead: None })
            }
        };
        Ok(Self { first_row_id: data.first_row_id, sequence_number: data.sequence_number, stored })
    }

    /// The columns of the next `count` rows, of which the first is at `position`.
    async fn of(&mut self, path: &str, position: u64, count: usize) -> Result<[ArrayRef; 2], DataError> {
        let stored = match &mut self.stored {
            Some(stored) => stored.take(path, count).await?,
            None => [None, None],
        };
        let [ids, numbers] = &stored;
        let value = |column: &Option<ArrayRef>, row: usize| -> Option<i64> {
            let column = column.as_ref()?.as_primitive_opt::<Int64Type>()?;
            (!column.is_null(row)).then(|| column.value(row))
        };
        let mut row_ids = Vec::with_capacity(count);
        let mut updated = Vec::with_capacity(count);
        for row in 0..count {
            let place = position.checked_add(row as u64).and_then(|place| i64::try_from(place).ok());
            let inherited = self.first_row_id.zip(place).and_then(|(first, place)| first.checked_add(place));
            let id = value(ids, row).or(inherited);
            row_ids.push(id);
            // A row that is about to get its first id gets its number with it.
            updated.push(id.and_then(|_| value(numbers, row).or(Some(self.sequence_number))));
        }
        Ok([Arc::new(Int64Array::from(row_ids)), Arc::new(Int64Array::from(updated))])
    }
}

impl Stored {
    /// Exactly the next `count` rows, however the file is cut into batches.
    async fn take(&mut self, path: &str, count: usize) -> Result<[Option<ArrayRef>; 2], DataError> {
        let damaged = |reason: String| DataError::Damaged { file: path.to_owned(), reason };
        let length = |columns: &[Option<ArrayRef>; 2]| columns.iter().flatten().map(|c| c.len()).next().unwrap_or(0);
        while self.ahead.as_ref().map_or(0, length) < count {
            let Some(batch) = self.stream.try_next().await.map_err(|error| read_error(path, &error))? else {
                return Err(damaged("its lineage columns are shorter than the others".to_owned()));
            };
            let schema = batch.schema();
            let read = [RESERVED_FIELD_ID_ROW_ID, RESERVED_FIELD_ID_LAST_UPDATED_SEQUENCE_NUMBER]
                .map(|id| place_of(&schema, id).and_then(|place| batch.columns().get(place).cloned()));
            self.ahead = Some(match self.ahead.take() {
                None => read,
                Some(ahead) => {
                    let mut joined = [None, None];
                    for ((slot, old), new) in joined.iter_mut().zip(ahead).zip(read) {
                        if let (Some(old), Some(new)) = (old, new) {
                            *slot = Some(concat(&[&old, &new]).map_err(|error| damaged(error.to_string()))?);
                        }
                    }
                    joined
                }
            });
        }
        let Some(ahead) = self.ahead.take() else { return Ok([None, None]) };
        let taken = ahead.each_ref().map(|column| column.as_ref().map(|column| column.slice(0, count)));
        let rest = length(&ahead) - count;
        self.ahead = Some(ahead.map(|column| column.map(|column| column.slice(count, rest))));
        Ok(taken)
    }
}

/// The lineage columns as fields of a data file.
pub(crate) fn lineage_fields() -> [arrow_schema::FieldRef; 2] {
    let field = |name: &str, id: i32| {
        let metadata = [(parquet::arrow::PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())];
        let field = arrow_schema::Field::new(name, arrow_schema::DataType::Int64, true);
        Arc::new(field.with_metadata(metadata.into_iter().collect()))
    };
    [
        field(RESERVED_COL_NAME_ROW_ID, RESERVED_FIELD_ID_ROW_ID),
        field(RESERVED_COL_NAME_LAST_UPDATED_SEQUENCE_NUMBER, RESERVED_FIELD_ID_LAST_UPDATED_SEQUENCE_NUMBER),
    ]
}
