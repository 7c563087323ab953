//! One Parquet file as it is written: bytes hashed as they pass, metrics kept, a data file at the end.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef as ArrowSchemaRef;
use bytes::Bytes;
use futures::future::BoxFuture;
use iceberg::io::FileWrite;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Struct};
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;

use super::metrics::{ColumnMetrics, update_all};
use super::{AboutFile, DataError};
use crate::catalog::LoadedTable;
use crate::digest::{Digest, FileHasher};

/// The properties that the table asks its Parquet files to have.
///
/// # Errors
/// A property is none that can be followed.
pub(crate) fn writer_properties(table: &LoadedTable) -> Result<WriterProperties, DataError> {
    let property = |key: &str| table.metadata.properties().get(key).map(String::as_str);
    let invalid = |key: &str, given: &str, reason: &str| DataError::Unsupported {
        what: format!("{key} = {given:?} of table {}", table.name),
        reason: reason.to_owned(),
    };
    const CODEC: &str = "write.parquet.compression-codec";
    const LEVEL: &str = "write.parquet.compression-level";
    let level: Option<i32> = match property(LEVEL) {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| invalid(LEVEL, text, "a number was expected"))?),
    };
    let unsigned = level.and_then(|level| u32::try_from(level).ok());
    let codec = property(CODEC).unwrap_or("zstd");
    let bad_level = |error: ParquetError| invalid(LEVEL, &level.unwrap_or_default().to_string(), &error.to_string());
    let compression = match codec.to_ascii_lowercase().as_str() {
        "zstd" => Compression::ZSTD(level.map(ZstdLevel::try_new).transpose().map_err(bad_level)?.unwrap_or_default()),
        "gzip" => {
            Compression::GZIP(unsigned.map(GzipLevel::try_new).transpose().map_err(bad_level)?.unwrap_or_default())
        }
        "brotli" => {
            Compression::BROTLI(unsigned.map(BrotliLevel::try_new).transpose().map_err(bad_level)?.unwrap_or_default())
        }
        "snappy" => Compression::SNAPPY,
        "lz4" | "lz4_raw" => Compression::LZ4_RAW,
        "uncompressed" | "none" => Compression::UNCOMPRESSED,
        _ => return Err(invalid(CODEC, codec, "zstd, gzip, brotli, snappy, lz4 or uncompressed was expected")),
    };
    let size = |key: &str, default: usize| match property(key) {
        None => Ok(default),
        Some(text) => match text.parse() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(invalid(key, text, "a number of bytes above zero was expected")),
        },
    };
    Ok(WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_bytes(Some(size("write.parquet.row-group-size-bytes", 128 << 20)?))
        .set_data_page_size_limit(size("write.parquet.page-size-bytes", 1 << 20)?)
        .set_dictionary_page_size_limit(size("write.parquet.dict-size-bytes", 2 << 20)?)
        .set_created_by(format!("calve {}", env!("CARGO_PKG_VERSION")))
        .build())
}

/// Hashes what it hands on.
struct HashingWriter {
    inner: Box<dyn FileWrite>,
    hasher: FileHasher,
    bytes: u64,
}

impl AsyncFileWriter for HashingWriter {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), ParquetError>> {
        self.hasher.update(&bytes);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        Box::pin(async move { self.inner.write(bytes).await.map_err(|error| ParquetError::External(Box::new(error))) })
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<(), ParquetError>> {
        Box::pin(async move { self.inner.close().await.map_err(|error| ParquetError::External(Box::new(error))) })
    }
}

/// A Parquet file that is open for writing.
pub(crate) struct ParquetFile {
    path: String,
    partition: Struct,
    spec_id: i32,
    writer: AsyncArrowWriter<HashingWriter>,
    metrics: Vec<(usize, ColumnMetrics)>,
    rows: u64,
}

impl ParquetFile {
    /// Opens `path` for rows of one partition.
    pub(crate) async fn create(
        table: &LoadedTable,
        path: String,
        arrow_schema: ArrowSchemaRef,
        properties: WriterProperties,
        metrics: Vec<(usize, ColumnMetrics)>,
        (spec_id, partition): (i32, Struct),
    ) -> Result<Self, DataError> {
        let output = table.file_io.new_output(&path).about(&path)?;
        let inner = output.writer().await.about(&path)?;
        let hashing = HashingWriter { inner, hasher: FileHasher::default(), bytes: 0 };
        let writer = AsyncArrowWriter::try_new(hashing, arrow_schema, Some(properties))
            .map_err(|error| write_error(&path, &error))?;
        Ok(Self { path, partition, spec_id, writer, metrics, rows: 0 })
    }

    /// Adds rows.
    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        update_all(&mut self.metrics, batch).about(&self.path)?;
        self.rows = self.rows.saturating_add(batch.num_rows() as u64);
        self.writer.write(batch).await.map_err(|error| write_error(&self.path, &error))
    }

    /// Ends the row group, which frees the memory it takes.
    pub(crate) async fn flush(&mut self) -> Result<(), DataError> {
        self.writer.flush().await.map_err(|error| write_error(&self.path, &error))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of memory that unfinished row groups take.
    pub(crate) fn buffered(&self) -> usize {
        self.writer.memory_size()
    }

    /// Roughly how long the file is already.
    pub(crate) fn size(&self) -> u64 {
        (self.writer.bytes_written() as u64).saturating_add(self.writer.in_progress_size() as u64)
    }

    /// Ends the file. It is as durable as the table's storage makes a closed file.
    pub(crate) async fn close(mut self) -> Result<(DataFile, Digest), DataError> {
        let footer = self.writer.finish().await.map_err(|error| write_error(&self.path, &error))?;
        let written = self.writer.into_inner();
        let file = describe(&self.path, &footer, &self.metrics, written.bytes, self.rows)
            .partition(self.partition)
            .partition_spec_id(self.spec_id)
            .build()
            .map_err(|error| DataError::Damaged { file: self.path, reason: error.to_string() })?;
        Ok((file, written.hasher.finish()))
    }
}

fn describe(
    path: &str,
    footer: &ParquetMetaData,
    metrics: &[(usize, ColumnMetrics)],
    bytes: u64,
    rows: u64,
) -> DataFileBuilder {
    let mut sizes: HashMap<i32, u64> = HashMap::new();
    let mut values: HashMap<i32, u64> = HashMap::new();
    let mut nulls: HashMap<i32, u64> = HashMap::new();
    for column in footer.row_groups().iter().flat_map(|group| group.columns()) {
        let info = column.column_descr().self_type().get_basic_info();
        if !info.has_id() {
            continue;
        }
        let add = |to: &mut HashMap<i32, u64>, amount: u64| {
            let total = to.entry(info.id()).or_default();
            *total = total.saturating_add(amount);
        };
        add(&mut sizes, u64::try_from(column.compressed_size()).unwrap_or_default());
        add(&mut values, u64::try_from(column.num_values()).unwrap_or_default());
        if let Some(count) = column.statistics().and_then(|statistics| statistics.null_count_opt()) {
            add(&mut nulls, count);
        }
    }
    let (mut nans, mut lower, mut upper) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (_, column) in metrics {
        let id = column.field_id;
        if !column.counted() {
            values.remove(&id);
            nulls.remove(&id);
            continue;
        }
        values.insert(id, rows);
        nulls.insert(id, column.nulls);
        nans.extend(column.nans.map(|count| (id, count)));
        lower.extend(column.lower_bound().map(|bound| (id, bound)));
        upper.extend(column.upper_bound().map(|bound| (id, bound)));
    }
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .record_count(rows)
        .file_size_in_bytes(bytes)
        .column_sizes(sizes)
        .value_counts(values)
        .null_value_counts(nulls)
        .nan_value_counts(nans)
        .lower_bounds(lower)
        .upper_bounds(upper)
        .split_offsets(Some(footer.row_groups().iter().filter_map(|group| group.file_offset()).collect()))
        .sort_order_id(0);
    builder
}

fn write_error(path: &str, error: &ParquetError) -> DataError {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<iceberg::Error>() {
            return DataError::from_iceberg(path, error);
        }
        source = inner.source();
    }
    DataError::Io { file: path.to_owned(), reason: error.to_string(), unwritable: false }
}

/// The same schema with further columns behind it.
pub(crate) fn with_columns(schema: &arrow_schema::Schema, more: &[arrow_schema::FieldRef]) -> ArrowSchemaRef {
    let fields: Vec<_> = schema.fields().iter().cloned().chain(more.iter().cloned()).collect();
    Arc::new(arrow_schema::Schema::new_with_metadata(fields, schema.metadata().clone()))
}
