//! Which rows of a data file its delete files take away.
//!
//! Applied by our own rules rather than by the reader's, because a file that is written anew has to know the original
//! position of each row (row ids follow from it), and because deletes that cannot be read must be refused by the name
//! of the data file they hide rows of. Source: Iceberg spec, "Row-level Deletes" and "Scan Planning".

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use futures::TryStreamExt;
use iceberg::arrow::ArrowFileReader;
use iceberg::metadata_columns::{RESERVED_FIELD_ID_DELETE_FILE_PATH, RESERVED_FIELD_ID_DELETE_FILE_POS};
use iceberg::spec::{DataContentType, DataFileFormat, Schema, Struct};
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;

use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::identity::LiveEntry;

/// The delete files of a snapshot, and what was read of them.
#[derive(Debug)]
pub(crate) struct Deletes<'a> {
    table: &'a LoadedTable,
    by_partition: HashMap<(i32, Struct), Vec<&'a LiveEntry>>,
    global: Vec<&'a LiveEntry>,
    vectors: HashMap<String, &'a LiveEntry>,
    /// The data files whose positions are worth keeping.
    wanted: HashSet<&'a str>,
    positions: HashMap<String, Arc<HashMap<String, Vec<u64>>>>,
    equalities: HashMap<String, Arc<EqualityDeletes>>,
}

/// What takes rows away from one data file.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Positions in the file, sorted.
    pub(crate) positions: Vec<u64>,
    /// Equality deletes of a later sequence number.
    pub(crate) equalities: Vec<Arc<EqualityDeletes>>,
}

impl Applied {
    /// Does nothing take rows away?
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.equalities.is_empty()
    }

    /// The fields that must be read to know.
    pub(crate) fn field_ids(&self) -> impl Iterator<Item = i32> + '_ {
        self.equalities.iter().flat_map(|deletes| deletes.field_ids.iter().copied())
    }

    /// For each row of a batch that begins at `first`, whether it stays.
    pub(crate) fn stays(&self, batch: &RecordBatch, first: u64) -> iceberg::Result<Vec<bool>> {
        let mut stays = vec![true; batch.num_rows()];
        let from = self.positions.partition_point(|position| *position < first);
        for position in self.positions.iter().skip(from) {
            let Some(slot) = usize::try_from(position - first).ok().and_then(|row| stays.get_mut(row)) else { break };
            *slot = false;
        }
        for deletes in &self.equalities {
            deletes.take_away(batch, &mut stays)?;
        }
        Ok(stays)
    }
}

impl<'a> Deletes<'a> {
    /// The deletes among the entries, for reading the `planned` data files.
    pub(crate) fn new(table: &'a LoadedTable, entries: &'a [LiveEntry], planned: &[&'a LiveEntry]) -> Self {
        let mut deletes = Self {
            table,
            by_partition: HashMap::new(),
            global: Vec::new(),
            vectors: HashMap::new(),
            wanted: planned.iter().map(|entry| entry.file.file_path()).collect(),
            positions: HashMap::new(),
            equalities: HashMap::new(),
        };
        for entry in entries.iter().filter(|entry| !entry.is_data()) {
            let spec = table.metadata.partition_spec_by_id(entry.spec_id);
            let unpartitioned = spec.is_some_and(|spec| spec.is_unpartitioned());
            match (entry.file.content_type(), entry.file.file_format(), entry.file.referenced_data_file()) {
                (DataContentType::PositionDeletes, DataFileFormat::Puffin, Some(path)) => {
                    deletes.vectors.insert(path, entry);
                }
                (DataContentType::EqualityDeletes, _, _) if unpartitioned => deletes.global.push(entry),
                _ => {
                    let key = (entry.spec_id, entry.file.partition().clone());
                    deletes.by_partition.entry(key).or_default().push(entry);
                }
            }
        }
        deletes
    }

    /// What takes rows away from a data file, read.
    ///
    /// # Errors
    /// A delete file that applies cannot be read; a deletion vector is refused by the data file's name.
    pub(crate) async fn of(&mut self, data: &LiveEntry) -> Result<Applied, DataError> {
        let path = data.file.file_path();
        if let Some(vector) = self.vectors.get(path) {
            return Err(refused(data, vector, "is a deletion vector; rewrite the file with an engine that reads them"));
        }
        let mut applied = Applied::default();
        let key = (data.spec_id, data.file.partition().clone());
        let own = self.by_partition.get(&key).into_iter().flatten();
        let candidates: Vec<&LiveEntry> = own.chain(&self.global).copied().collect();
        for delete in candidates {
            let later = delete.sequence_number > data.sequence_number;
            let applies = match delete.file.content_type() {
                DataContentType::Data => false,
                DataContentType::EqualityDeletes => later,
                DataContentType::PositionDeletes => {
                    (later || delete.sequence_number == data.sequence_number)
                        && delete.file.referenced_data_file().is_none_or(|referenced| referenced == path)
                }
            };
            if !applies {
                continue;
            }
            if delete.file.key_metadata().is_some() {
                return Err(refused(data, delete, "is encrypted, and calve holds no keys"));
            }
            match (delete.file.content_type(), delete.file.file_format()) {
                (DataContentType::PositionDeletes, DataFileFormat::Parquet) => {
                    if let Some(found) = self.positions(delete).await?.get(path) {
                        applied.positions.extend(found);
                    }
                }
                (_, DataFileFormat::Parquet) => applied.equalities.push(self.equality(data, delete).await?),
                (_, format) => {
                    return Err(refused(data, delete, &format!("is of format {format}; only Parquet is read")));
                }
            }
        }
        applied.positions.sort_unstable();
        applied.positions.dedup();
        Ok(applied)
    }

    async fn positions(&mut self, delete: &LiveEntry) -> Result<Arc<HashMap<String, Vec<u64>>>, DataError> {
        let path = delete.file.file_path();
        if let Some(known) = self.positions.get(path) {
            return Ok(known.clone());
        }
        let columns = [
            (RESERVED_FIELD_ID_DELETE_FILE_PATH, "file_path", DataType::Utf8),
            (RESERVED_FIELD_ID_DELETE_FILE_POS, "pos", DataType::Int64),
        ];
        let damaged = |reason: &str| DataError::Damaged { file: path.to_owned(), reason: reason.to_owned() };
        let mut found: HashMap<String, Vec<u64>> = HashMap::new();
        let mut batches = Columns::open(self.table, path, &columns).await?;
        while let Some(batch) = batches.next().await? {
            let [files, positions] = batch.as_slice() else { return Err(damaged("a column is missing")) };
            let (Some(files), Some(positions)) =
                (files.as_string_opt::<i32>(), positions.as_primitive_opt::<Int64Type>())
            else {
                return Err(damaged("a column is of another type"));
            };
            for (file, position) in files.iter().zip(positions) {
                let position = position.and_then(|position| u64::try_from(position).ok());
                let (Some(file), Some(position)) = (file, position) else {
                    return Err(damaged("it deletes a row without file or position"));
                };
                match found.get_mut(file) {
                    Some(known) => known.push(position),
                    None if self.wanted.contains(file) => drop(found.insert(file.to_owned(), vec![position])),
                    None => {}
                }
            }
        }
        let found = Arc::new(found);
        self.positions.insert(path.to_owned(), found.clone());
        Ok(found)
    }

    async fn equality(&mut self, data: &LiveEntry, delete: &LiveEntry) -> Result<Arc<EqualityDeletes>, DataError> {
        let path = delete.file.file_path();
        if let Some(known) = self.equalities.get(path) {
            return Ok(known.clone());
        }
        let schema = self.table.metadata.current_schema();
        let field_ids = delete.file.equality_ids().filter(|ids| !ids.is_empty()).ok_or_else(|| DataError::Damaged {
            file: path.to_owned(),
            reason: "it has equality deletes on no column".to_owned(),
        })?;
        let mut columns = Vec::with_capacity(field_ids.len());
        for id in &field_ids {
            let top =
                schema.as_struct().fields().iter().find(|field| field.id == *id && field.field_type.is_primitive());
            let Some(field) = top else {
                return Err(refused(
                    data,
                    delete,
                    &format!("compares field id {id}, which is no column of the table now"),
                ));
            };
            let arrow = iceberg::arrow::type_to_arrow_type(&field.field_type).about(path)?;
            columns.push((*id, field.name.as_str(), arrow));
        }
        let sorts = columns.iter().map(|(_, _, arrow)| SortField::new(arrow.clone())).collect();
        let converter = RowConverter::new(sorts).map_err(arrow_error).about(path)?;
        let mut rows = HashSet::new();
        let mut batches = Columns::open(self.table, path, &columns).await?;
        while let Some(batch) = batches.next().await? {
            let converted = converter.convert_columns(&batch).map_err(arrow_error).about(path)?;
            rows.extend(converted.iter().map(|row| Box::<[u8]>::from(row.data())));
        }
        let deletes = Arc::new(EqualityDeletes { field_ids, converter, rows });
        self.equalities.insert(path.to_owned(), deletes.clone());
        Ok(deletes)
    }
}

/// The data files that a position delete file names, from its own column; the inner error says why it cannot be read.
///
/// # Errors
/// The store fails.
pub(crate) async fn named_files(
    table: &LoadedTable,
    delete: &LiveEntry,
) -> Result<Result<BTreeSet<String>, String>, DataError> {
    let path = delete.file.file_path();
    if delete.file.key_metadata().is_some() {
        return Ok(Err("it is encrypted, and calve holds no keys".to_owned()));
    }
    if delete.file.file_format() != DataFileFormat::Parquet {
        return Ok(Err(format!("it is of format {}; only Parquet is read", delete.file.file_format())));
    }
    match read_named_files(table, path).await {
        Ok(files) => Ok(Ok(files)),
        Err(DataError::Damaged { reason, .. } | DataError::Unsupported { reason, .. }) => Ok(Err(reason)),
        Err(error) => Err(error),
    }
}

async fn read_named_files(table: &LoadedTable, path: &str) -> Result<BTreeSet<String>, DataError> {
    let damaged = |reason: &str| DataError::Damaged { file: path.to_owned(), reason: reason.to_owned() };
    let mut files = BTreeSet::new();
    let columns = [(RESERVED_FIELD_ID_DELETE_FILE_PATH, "file_path", DataType::Utf8)];
    let mut batches = Columns::open(table, path, &columns).await?;
    while let Some(batch) = batches.next().await? {
        let [named] = batch.as_slice() else { return Err(damaged("a column is missing")) };
        let Some(named) = named.as_string_opt::<i32>() else { return Err(damaged("a column is of another type")) };
        let mut last = None;
        for file in named {
            let file = file.ok_or_else(|| damaged("it deletes a row without file"))?;
            // Rows are sorted by file, so that most repeat the one before.
            if last != Some(file) {
                let _new = files.insert(file.to_owned());
                last = Some(file);
            }
        }
    }
    Ok(files)
}

fn refused(data: &LiveEntry, delete: &LiveEntry, why: &str) -> DataError {
    DataError::Unsupported {
        what: format!("data file {}", data.file.file_path()),
        reason: format!("{}, which deletes rows of it, {why}", delete.file.file_path()),
    }
}

/// The keys of one equality delete file.
#[derive(Debug)]
pub(crate) struct EqualityDeletes {
    field_ids: Vec<i32>,
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
}

impl EqualityDeletes {
    /// Null equals null here, unlike in a filter.
    fn take_away(&self, batch: &RecordBatch, stays: &mut [bool]) -> iceberg::Result<()> {
        let schema = batch.schema();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.field_ids.len());
        for id in &self.field_ids {
            let column = place_of(&schema, *id).and_then(|place| batch.columns().get(place));
            columns.push(column.cloned().ok_or_else(|| arrow_error(format!("field id {id} was not read")))?);
        }
        let keys = self.converter.convert_columns(&columns).map_err(arrow_error)?;
        for (row, stays) in keys.iter().zip(stays) {
            *stays &= !self.rows.contains(row.data());
        }
        Ok(())
    }
}

fn arrow_error(error: impl std::fmt::Display) -> iceberg::Error {
    iceberg::Error::new(iceberg::ErrorKind::DataInvalid, error.to_string())
}

/// The place of a top-level column, by its field id.
pub(crate) fn place_of(schema: &ArrowSchema, id: i32) -> Option<usize> {
    schema.fields().iter().position(|field| field_id(field) == Some(id))
}

fn field_id(field: &arrow_schema::Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY).and_then(|id| id.parse().ok())
}

/// Opens a Parquet file of the table.
pub(crate) async fn open_parquet(
    table: &LoadedTable,
    path: &str,
) -> Result<ParquetRecordBatchStreamBuilder<ArrowFileReader>, DataError> {
    let input = table.file_io.new_input(path).about(path)?;
    let metadata = input.metadata().await.about(path)?;
    let reader = input.reader().await.about(path)?;
    ParquetRecordBatchStreamBuilder::new(ArrowFileReader::new(metadata, reader))
        .await
        .map_err(|error| read_error(path, &error))
}

/// An error of reading a file of the table: of the system, if there is one behind it, else damage.
pub(crate) fn read_error(path: &str, error: &ParquetError) -> DataError {
    use std::error::Error as _;
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<iceberg::Error>() {
            return DataError::from_iceberg(path, error);
        }
        source = inner.source();
    }
    DataError::Damaged { file: path.to_owned(), reason: error.to_string() }
}

/// Some top-level columns of a Parquet file, batch by batch, in the types asked for.
pub(crate) struct Columns {
    path: String,
    stream: parquet::arrow::async_reader::ParquetRecordBatchStream<ArrowFileReader>,
    /// For each column asked for, its place in the batches.
    places: Vec<(usize, DataType)>,
}

impl Columns {
    /// Opens the file for columns by field id, or by name in a file without ids.
    pub(crate) async fn open(
        table: &LoadedTable,
        path: &str,
        columns: &[(i32, &str, DataType)],
    ) -> Result<Self, DataError> {
        let builder = open_parquet(table, path).await?;
        let roots = roots_of(path, builder.schema(), columns)?;
        let mut order = roots.clone();
        order.sort_unstable();
        let places = roots
            .iter()
            .zip(columns)
            .filter_map(|(root, (_, _, kind))| Some((order.binary_search(root).ok()?, kind.clone())))
            .collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let stream = builder
            .with_projection(mask)
            .with_batch_size(super::input::BATCH_ROWS)
            .build()
            .map_err(|error| read_error(path, &error))?;
        Ok(Self { path: path.to_owned(), stream, places })
    }

    /// The next batch.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, DataError> {
        let Some(batch) = self.stream.try_next().await.map_err(|error| read_error(&self.path, &error))? else {
            return Ok(None);
        };
        let mut columns = Vec::with_capacity(self.places.len());
        for (place, kind) in &self.places {
            let damaged = |reason: String| DataError::Damaged { file: self.path.clone(), reason };
            let column = batch.columns().get(*place).ok_or_else(|| damaged("a column is missing".to_owned()))?;
            let column = match column.data_type() == kind {
                true => column.clone(),
                false => cast(column, kind).map_err(|error| damaged(error.to_string()))?,
            };
            columns.push(column);
        }
        Ok(Some(columns))
    }
}

fn roots_of(path: &str, schema: &ArrowSchemaRef, columns: &[(i32, &str, DataType)]) -> Result<Vec<usize>, DataError> {
    let has_ids = schema.fields().iter().any(|field| field_id(field).is_some());
    let find = |(id, name, _): &(i32, &str, DataType)| match has_ids {
        true => place_of(schema, *id),
        false => schema.fields().iter().position(|field| field.name() == name),
    };
    columns
        .iter()
        .map(|column| {
            find(column).ok_or_else(|| DataError::Damaged {
                file: path.to_owned(),
                reason: format!("it has no column `{}` (field id {})", column.1, column.0),
            })
        })
        .collect()
}

/// The id of the top-level field that a field is, or is inside of.
pub(crate) fn top_level(schema: &Schema, id: i32) -> Option<i32> {
    let name = schema.name_by_field_id(id)?;
    let fields = schema.as_struct().fields();
    let inside = |top: &str| name == top || name.strip_prefix(top).is_some_and(|rest| rest.starts_with('.'));
    // The longest, because names may have dots of their own.
    fields.iter().filter(|field| inside(&field.name)).max_by_key(|field| field.name.len()).map(|field| field.id)
}
