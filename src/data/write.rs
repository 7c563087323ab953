//! Rows to data files: each row in the partition its values say, files of the size the table asks for.
//!
//! Memory is bounded whatever the order of the rows: only so many files are open at once, and their unfinished row
//! groups together take only so much. Past a limit the largest gives way, since it is closest to what a file should be.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{FieldRef, SchemaRef as ArrowSchemaRef};
use arrow_select::take::take_record_batch;
use futures::TryStreamExt;
use iceberg::arrow::{PartitionValueCalculator, schema_to_arrow_schema};
use iceberg::spec::{
    DataFile, FormatVersion, Literal, PartitionSpecRef, PrimitiveType, SchemaRef, Struct, StructType, Type,
};
use parquet::file::properties::WriterProperties;
use uuid::Uuid;

use super::metrics::{ColumnMetrics, datum_at, modes};
use super::parquet_file::{ParquetFile, with_columns, writer_properties};
use super::snapshot::{AddedFile, DataChange, RemovedFile};
use super::{AboutFile, DataError, Progress, input};
use crate::catalog::LoadedTable;
use crate::clock::Clock;
use crate::digest::Digest;
use crate::publish::attempt::WrittenFile;

/// A data file that is written, durable, and in no snapshot yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFile {
    /// As a manifest will list it.
    pub file: DataFile,
    /// The partition spec it was written under.
    pub spec_id: i32,
    /// Plain SHA-256 of its bytes, taken as they were written.
    pub sha256: Digest,
}

/// What a `stage` prepared: files that are written, and what becomes of those there were.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Staged {
    /// New data files.
    pub added: Vec<NewFile>,
    /// Live files that these take the place of.
    pub removed: Vec<RemovedFile>,
    /// Rows that came from the input.
    pub rows_added: u64,
    /// Rows that were there before and are kept, in new files.
    pub rows_carried: u64,
    /// Rows that were there before and go.
    pub rows_removed: u64,
}

impl Staged {
    /// The change that a snapshot makes of it.
    pub fn change(&self) -> DataChange {
        let added = |new: &NewFile| AddedFile { file: new.file.clone(), spec_id: new.spec_id };
        DataChange { added: self.added.iter().map(added).collect(), removed: self.removed.clone() }
    }

    /// The hashes of its files, as the journal records them.
    pub fn hashes(&self) -> Vec<WrittenFile> {
        let hash = |new: &NewFile| WrittenFile { path: new.file.file_path().to_owned(), sha256: new.sha256 };
        self.added.iter().map(hash).collect()
    }
}

/// How much may be open and buffered at once.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Files open for writing.
    pub open_files: usize,
    /// Bytes of unfinished row groups, of all open files together.
    pub buffered_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open_files: 64, buffered_bytes: 256 << 20 }
    }
}

/// Writes the rows of the input files as new data files of the table, under its current schema and default spec.
///
/// Nothing is committed. If it fails, the files it wrote are deleted again: no snapshot can name them.
///
/// # Errors
/// An input file is missing, empty, or has rows that are none of this table's; a file cannot be written.
pub async fn append(
    table: &LoadedTable,
    inputs: &[PathBuf],
    ids: &dyn Clock,
    progress: &dyn Progress,
) -> Result<Staged, DataError> {
    let mut writer = TableWriter::new(table, ids.fresh_uuid(), Limits::default(), &[])?;
    match append_to(&mut writer, inputs, progress).await {
        Ok(rows_added) => Ok(Staged { added: writer.finish().await?, rows_added, ..Staged::default() }),
        Err(error) => {
            writer.discard().await;
            Err(error)
        }
    }
}

async fn append_to(
    writer: &mut TableWriter<'_>,
    inputs: &[PathBuf],
    progress: &dyn Progress,
) -> Result<u64, DataError> {
    input::check(inputs)?;
    let mut rows = 0u64;
    for path in inputs {
        let mut batches = input::open(path, &writer.schema, progress).await?;
        while let Some(batch) = batches.try_next().await? {
            rows = rows.saturating_add(batch.rows.num_rows() as u64);
            writer.write(&batch.rows).await?;
            progress.add(batch.rows.num_rows() as u64, batch.bytes);
        }
    }
    Ok(rows)
}

/// Writes rows to data files of a table.
pub(crate) struct TableWriter<'a> {
    table: &'a LoadedTable,
    pub(crate) schema: SchemaRef,
    pub(crate) arrow_schema: ArrowSchemaRef,
    spec: PartitionSpecRef,
    partitioning: Option<Partitioning>,
    properties: WriterProperties,
    metrics: Vec<(usize, ColumnMetrics)>,
    target: u64,
    limits: Limits,
    unique: Uuid,
    count: u64,
    open: HashMap<Vec<u8>, ParquetFile>,
    done: Vec<NewFile>,
}

struct Partitioning {
    calculator: PartitionValueCalculator,
    partition_type: StructType,
    rows: RowConverter,
}

impl<'a> TableWriter<'a> {
    /// A writer whose files have `more` columns behind those of the table's schema. `unique` names the files.
    pub(crate) fn new(
        table: &'a LoadedTable,
        unique: Uuid,
        limits: Limits,
        more: &[FieldRef],
    ) -> Result<Self, DataError> {
        let metadata = &table.metadata;
        let name = format!("table {}", table.name);
        if let Some(key) = metadata.properties().get("encryption.key-id") {
            return Err(DataError::Unsupported {
                what: name,
                reason: format!("it is encrypted (encryption.key-id = {key}), and calve holds no keys"),
            });
        }
        let schema = metadata.current_schema().clone();
        let arrow = schema_to_arrow_schema(&schema).about(&name)?;
        let spec = metadata.default_partition_spec().clone();
        let partitioning = match spec.is_unpartitioned() {
            true => None,
            false => Some(Partitioning::new(&spec, &schema).about(&name)?),
        };
        if let Some(field) = partitioning
            .iter()
            .flat_map(|parts| parts.partition_type.fields())
            .find(|field| matches!(field.field_type.as_ref(), Type::Primitive(PrimitiveType::Uuid)))
        {
            return Err(DataError::Unsupported {
                what: format!("partition field `{}` of {name}", field.name),
                reason: "manifests cannot be written for partitions by uuid; use bucket(N, …)".to_owned(),
            });
        }
        const TARGET: &str = "write.target-file-size-bytes";
        let target = match metadata.properties().get(TARGET) {
            None => 512 << 20,
            Some(text) => text.parse().ok().filter(|target| *target > 0).ok_or_else(|| DataError::Unsupported {
                what: format!("{TARGET} = {text:?} of table {}", table.name),
                reason: "a number of bytes above zero was expected".to_owned(),
            })?,
        };
        Ok(Self {
            table,
            arrow_schema: with_columns(&arrow, more),
            partitioning,
            properties: writer_properties(table)?,
            metrics: ColumnMetrics::of_schema(&schema, &modes(&schema, metadata.properties())),
            target,
            limits,
            unique,
            count: 0,
            open: HashMap::new(),
            done: Vec::new(),
            schema,
            spec,
        })
    }

    /// Writes rows of the writer's Arrow schema.
    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Some(partitioning) = &self.partitioning else {
            let nulls = Struct::from_iter(self.spec.fields().iter().map(|_| None::<Literal>));
            return self.write_partition(Vec::new(), nulls, batch).await;
        };
        let parts = partitioning.split(batch).about(&format!("table {}", self.table.name))?;
        for (key, partition, rows) in parts {
            match rows {
                None => self.write_partition(key, partition, batch).await?,
                Some(rows) => {
                    let part = take_record_batch(batch, &UInt32Array::from(rows)).map_err(|error| {
                        DataError::Damaged { file: format!("table {}", self.table.name), reason: error.to_string() }
                    })?;
                    self.write_partition(key, partition, &part).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_partition(&mut self, key: Vec<u8>, partition: Struct, batch: &RecordBatch) -> Result<(), DataError> {
        if !self.open.contains_key(&key) {
            if self.open.len() >= self.limits.open_files.max(1) {
                self.close_largest().await?;
            }
            let path = self.next_path(&partition);
            let file = ParquetFile::create(
                self.table,
                path,
                self.arrow_schema.clone(),
                self.properties.clone(),
                self.metrics.clone(),
                (self.spec.spec_id(), partition),
            )
            .await?;
            self.open.insert(key.clone(), file);
        }
        let Some(file) = self.open.get_mut(&key) else { return Ok(()) };
        file.write(batch).await?;
        if file.size() >= self.target {
            self.close(&key).await?;
        }
        while self.open.values().map(ParquetFile::buffered).sum::<usize>() > self.limits.buffered_bytes {
            let Some(largest) = self.open.values_mut().max_by_key(|file| file.buffered()) else { break };
            let before = largest.buffered();
            largest.flush().await?;
            if largest.buffered() >= before {
                break;
            }
        }
        Ok(())
    }

    async fn close_largest(&mut self) -> Result<(), DataError> {
        let largest = self.open.iter().max_by_key(|(_, file)| file.size()).map(|(key, _)| key.clone());
        match largest {
            Some(key) => self.close(&key).await,
            None => Ok(()),
        }
    }

    async fn close(&mut self, key: &[u8]) -> Result<(), DataError> {
        if let Some(file) = self.open.remove(key) {
            let (file, sha256) = file.close().await?;
            self.done.push(NewFile { file, spec_id: self.spec.spec_id(), sha256 });
        }
        Ok(())
    }

    /// Ends every file, and returns all in the order of their names.
    pub(crate) async fn finish(mut self) -> Result<Vec<NewFile>, DataError> {
        let mut keys: Vec<_> = self.open.keys().cloned().collect();
        keys.sort();
        for key in keys {
            if let Err(error) = self.close(&key).await {
                self.discard().await;
                return Err(error);
            }
        }
        self.done.sort_by(|a, b| a.file.file_path().cmp(b.file.file_path()));
        Ok(self.done)
    }

    /// Deletes what was written, as far as that goes: no snapshot names it, so a failure here loses nothing.
    pub(crate) async fn discard(self) {
        let done = self.done.iter().map(|new| new.file.file_path().to_owned());
        let paths: Vec<_> = done.chain(self.open.values().map(|file| file.path().to_owned())).collect();
        drop(self.open);
        for path in paths {
            if let Err(error) = self.table.file_io.delete(&path).await {
                tracing::debug!(path, %error, "a file of a failed write stays behind");
            }
        }
    }

    /// A fresh path: `<data>/<field>=<value>/00000-<n>-<uuid>.parquet`. The folders are for people; nothing reads them.
    fn next_path(&mut self, partition: &Struct) -> String {
        let properties = self.table.metadata.properties();
        let mut path = match properties.get("write.data.path") {
            Some(folder) => folder.trim_end_matches('/').to_owned(),
            None => format!("{}/data", self.table.metadata.location().trim_end_matches('/')),
        };
        for (field, value) in self.spec.fields().iter().zip(partition.iter()) {
            let source = self.schema.field_by_id(field.source_id).map(|source| source.field_type.as_ref().clone());
            let result = source.and_then(|source| field.transform.result_type(&source).ok());
            let text = match (&result, value) {
                (Some(result), value) => field.transform.to_human_string(result, value),
                (None, _) => "null".to_owned(),
            };
            path.push_str(&format!("/{}={}", folder_name(&field.name), folder_name(&text)));
        }
        let number = self.count;
        self.count += 1;
        format!("{path}/00000-{number}-{}.parquet", self.unique)
    }
}

/// Text as part of a path: what is special to file systems or URIs is escaped, and no name is too long for one.
fn folder_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if name.ends_with(|last: char| last.is_ascii_alphanumeric()) => name.push('.'),
            other => name.push_str(&format!("%{other:02X}")),
        }
        if name.len() > 100 {
            break;
        }
    }
    name
}

/// The rows of one partition: its key, its value, and which rows; `None` for all of them.
type Part = (Vec<u8>, Struct, Option<Vec<u32>>);

impl Partitioning {
    fn new(spec: &PartitionSpecRef, schema: &SchemaRef) -> iceberg::Result<Self> {
        let calculator = PartitionValueCalculator::try_new(spec, schema)?;
        let partition_type = spec.partition_type(schema)?;
        let arrow_schema::DataType::Struct(fields) = calculator.partition_arrow_type() else {
            return Err(iceberg::Error::new(iceberg::ErrorKind::Unexpected, "a partition is a struct"));
        };
        let sorts = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let rows = RowConverter::new(sorts).map_err(unexpected)?;
        Ok(Self { calculator, partition_type, rows })
    }

    fn split(&self, batch: &RecordBatch) -> iceberg::Result<Vec<Part>> {
        let values = self.calculator.calculate(batch)?;
        let Some(values) = values.as_struct_opt() else {
            return Err(iceberg::Error::new(iceberg::ErrorKind::Unexpected, "a partition is a struct"));
        };
        let keys = self.rows.convert_columns(values.columns()).map_err(unexpected)?;
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for index in 0..batch.num_rows() {
            let place = *places.entry(keys.row(index).data()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            let row = u32::try_from(index).map_err(unexpected)?;
            if let Some(group) = groups.get_mut(place) {
                group.push(row);
            }
        }
        let single = groups.len() == 1;
        let mut parts = Vec::with_capacity(groups.len());
        for group in groups {
            let Some(first) = group.first().map(|row| *row as usize) else { continue };
            let mut literals = Vec::with_capacity(values.num_columns());
            for (column, field) in values.columns().iter().zip(self.partition_type.fields()) {
                let literal = match field.field_type.as_ref() {
                    Type::Primitive(primitive) => datum_at(column, first, primitive)?,
                    _ => None,
                };
                literals.push(literal.map(|datum| Literal::Primitive(datum.literal().clone())));
            }
            let key = keys.row(first).data().to_vec();
            parts.push((key, Struct::from_iter(literals), (!single).then_some(group)));
        }
        Ok(parts)
    }
}

fn unexpected(error: impl std::fmt::Display) -> iceberg::Error {
    iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string())
}

/// Does the table number its rows?
pub(crate) fn has_row_lineage(table: &LoadedTable) -> bool {
    match table.metadata.format_version() {
        FormatVersion::V1 | FormatVersion::V2 => false,
        FormatVersion::V3 => true,
    }
}
