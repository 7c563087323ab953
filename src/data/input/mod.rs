//! Input files as a stream of rows in the table's schema: Parquet, CSV and Arrow IPC.
//!
//! A thread of its own reads and decodes, at most two batches ahead of the writer, so memory stays bounded however
//! large the file. What does not fit the schema is an error that names file, column and row; nothing is guessed, and
//! no value is rounded.

mod conform;
mod csv;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use futures::stream::BoxStream;
use iceberg::spec::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::sync::mpsc;

use super::{DataError, Progress};
use conform::Conform;
pub(crate) use csv::{Quotes, header, reader as csv_reader};

/// Rows in a batch: few enough that a batch split over many partitions stays small.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Rows of an input file, in the table's schema.
#[derive(Debug)]
pub(crate) struct InputBatch {
    /// The rows.
    pub(crate) rows: RecordBatch,
    /// The number of the first of them in its file, from 1.
    pub(crate) first_row: u64,
    /// Roughly how many bytes of the file they took.
    pub(crate) bytes: u64,
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Apache Parquet.
    Parquet,
    /// Text with a header, values separated by this byte.
    Text(u8),
    /// Arrow IPC file format, also known as Feather version 2.
    ArrowFile,
}

/// Checks that every input is a file, before any work is done.
///
/// # Errors
/// One is not there, or is no file.
pub(crate) fn check(inputs: &[PathBuf]) -> Result<(), DataError> {
    for path in inputs {
        let reason = match std::fs::metadata(path) {
            Err(error) => error.to_string(),
            Ok(found) if found.is_dir() => "it is a folder: name the files in it".to_owned(),
            Ok(found) if !found.is_file() => "it is no regular file: write it to one first".to_owned(),
            Ok(found) if found.len() == 0 => "it has no bytes; give a file with rows".to_owned(),
            Ok(_) => continue,
        };
        return Err(input_error(path, reason));
    }
    Ok(())
}

/// Opens an input file for reading as rows of `schema`.
///
/// # Errors
/// The file cannot be read, is empty, or its columns are not the table's. Errors of single rows come from the stream.
pub(crate) async fn open(
    path: &Path,
    schema: &SchemaRef,
    progress: &dyn Progress,
) -> Result<BoxStream<'static, Result<InputBatch, DataError>>, DataError> {
    let mut file = File::open(path).map_err(|error| DataError::from_io(path.display().to_string(), &error))?;
    let length = file.metadata().map_err(|error| DataError::from_io(path.display().to_string(), &error))?.len();
    let kind = kind_of(path, &mut file)?;
    progress.stage(&format!("reading {}", path.display()), Some(length));
    let (sender, receiver) = mpsc::channel(2);
    let (path, schema) = (path.to_owned(), schema.clone());
    tokio::task::spawn_blocking(move || {
        let mut source = Source { path, length, rows: 0, told: 0, sender };
        if let Err(error) = source.read(file, kind, &schema) {
            // A receiver that is gone wants no error either.
            drop(source.sender.blocking_send(Err(error)));
        }
    });
    Ok(Box::pin(futures::stream::unfold(receiver, |mut receiver| async move {
        let next = receiver.recv().await?;
        Some((next, receiver))
    })))
}

/// The kind of a file, by its first bytes, else by its name.
pub(crate) fn kind_of(path: &Path, file: &mut File) -> Result<Kind, DataError> {
    let io = |error: std::io::Error| DataError::from_io(path.display().to_string(), &error);
    let mut magic = Vec::new();
    Read::by_ref(file).take(6).read_to_end(&mut magic).map_err(io)?;
    file.rewind().map_err(io)?;
    if magic.is_empty() {
        return Err(input_error(path, "it has no bytes; give a file with rows"));
    }
    if magic.starts_with(b"PAR1") {
        return Ok(Kind::Parquet);
    }
    if magic.starts_with(b"ARROW1") {
        return Ok(Kind::ArrowFile);
    }
    match path.extension().and_then(|name| name.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Ok(Kind::Text(b',')),
        Some("tsv") => Ok(Kind::Text(b'\t')),
        Some("parquet" | "parq" | "pq") => Err(input_error(path, "it is named like a Parquet file and is none")),
        _ => Err(input_error(
            path,
            "it is neither Parquet nor Arrow by its bytes, nor CSV by its name; give a .parquet, .arrow, .csv or .tsv file",
        )),
    }
}

pub(crate) fn input_error(path: &Path, reason: impl Into<String>) -> DataError {
    DataError::Input { file: path.display().to_string(), reason: reason.into() }
}

struct Source {
    path: PathBuf,
    length: u64,
    rows: u64,
    told: u64,
    sender: mpsc::Sender<Result<InputBatch, DataError>>,
}

impl Source {
    fn read(&mut self, mut file: File, kind: Kind, schema: &SchemaRef) -> Result<(), DataError> {
        match kind {
            Kind::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)
                    .map_err(|error| self.unreadable(&error.to_string()))?;
                let conform = Conform::new(&self.path, schema, builder.schema())?;
                let total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or_default();
                let reader =
                    builder.with_batch_size(BATCH_ROWS).build().map_err(|error| self.unreadable(&error.to_string()))?;
                self.send_all(reader, &conform, |rows, length| proportion(length, rows, total))
            }
            Kind::ArrowFile => {
                let reader = arrow_ipc::reader::FileReader::try_new(file, None)
                    .map_err(|error| self.unreadable(&error.to_string()))?;
                let conform = Conform::new(&self.path, schema, &reader.schema())?;
                let total = reader.num_batches() as u64;
                let mut batches = 0u64;
                self.send_all(reader, &conform, |_, length| {
                    batches += 1;
                    proportion(length, batches, total)
                })
            }
            Kind::Text(delimiter) => {
                let header = csv::header(&self.path, &mut file, delimiter)?;
                let conform = Conform::of_text(&self.path, schema, &header)?;
                let counter = csv::CountingReader::new(file);
                let read = counter.count();
                let reader =
                    csv::reader(&header, delimiter, counter).map_err(|error| self.unreadable(&error.to_string()))?;
                self.send_all(reader, &conform, |_, _| read.load(std::sync::atomic::Ordering::Relaxed))
            }
        }
    }

    fn send_all(
        &mut self,
        reader: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
        conform: &Conform,
        mut bytes_read: impl FnMut(u64, u64) -> u64,
    ) -> Result<(), DataError> {
        for batch in reader {
            let batch = batch.map_err(|error| self.unreadable(&error.to_string()))?;
            if batch.num_rows() == 0 {
                continue;
            }
            let first_row = self.rows + 1;
            let rows = conform.batch(&batch, first_row)?;
            self.rows = self.rows.saturating_add(rows.num_rows() as u64);
            let read = bytes_read(self.rows, self.length);
            let bytes = read.saturating_sub(self.told);
            self.told = self.told.max(read);
            if self.sender.blocking_send(Ok(InputBatch { rows, first_row, bytes })).is_err() {
                return Ok(());
            }
        }
        if self.rows == 0 {
            return Err(input_error(&self.path, "it has no row; give a file with rows"));
        }
        // A text that was cut at the end of a line, or is still being written, reads like a whole one.
        match std::fs::metadata(&self.path).map(|now| now.len()) {
            Ok(length) if length == self.length => Ok(()),
            Ok(_) | Err(_) => Err(self.unreadable("it was read to its end")),
        }
    }

    /// An error of reading: the file's content is wrong, unless the file itself changed meanwhile.
    fn unreadable(&self, reason: &str) -> DataError {
        let file = self.path.display().to_string();
        match std::fs::metadata(&self.path) {
            Err(error) => DataError::Io { file, reason: format!("{error} (while it was read)"), unwritable: false },
            Ok(now) if now.len() != self.length => {
                let reason = format!("it changed while it was read, from {} to {} bytes", self.length, now.len());
                DataError::Io { file, reason, unwritable: false }
            }
            Ok(_) => DataError::Input { file, reason: format!("it cannot be read: {reason}") },
        }
    }
}

fn proportion(length: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(length) * u128::from(part.min(whole)) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_or_vanishes_while_it_is_read_is_no_fault_of_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        std::fs::write(&path, "id\n1\n").unwrap();
        let (sender, _receiver) = mpsc::channel(1);
        let source = Source { path: path.clone(), length: 5, rows: 0, told: 0, sender };
        assert!(matches!(source.unreadable("cut"), DataError::Input { .. }));
        std::fs::write(&path, "id\n").unwrap();
        assert!(matches!(source.unreadable("cut"), DataError::Io { .. }));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.unreadable("cut"), DataError::Io { .. }));
    }

    #[test]
    fn shares_of_a_file_add_up_to_the_file() {
        assert_eq!(proportion(1000, 0, 3), 0);
        assert_eq!(proportion(1000, 3, 3), 1000);
        assert_eq!(proportion(1000, 9, 3), 1000);
        assert_eq!(proportion(u64::MAX, 1, 1), u64::MAX);
        assert_eq!(proportion(10, 1, 0), 0);
    }
}
