//! CSV as columns of text: a header names them, an empty value is null.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_csv::reader::Format;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::{BATCH_ROWS, input_error};
use crate::data::DataError;

/// The columns that the header names, all of them text. The file is read from its beginning, and rewound.
///
/// # Errors
/// There is no header, or it names a column twice.
pub(crate) fn header(path: &Path, file: &mut File, delimiter: u8) -> Result<SchemaRef, DataError> {
    let (found, _) = Format::default()
        .with_header(true)
        .with_delimiter(delimiter)
        .infer_schema(&mut *file, Some(0))
        .map_err(|error| input_error(path, format!("its header cannot be read: {error}")))?;
    file.rewind().map_err(|error| DataError::from_io(path.display().to_string(), &error))?;
    let mut seen = HashSet::new();
    let mut fields = Vec::with_capacity(found.fields().len());
    for field in found.fields() {
        // A byte order mark is no part of the first name.
        let name = field.name().trim_start_matches('\u{feff}').trim();
        if name.is_empty() {
            return Err(input_error(path, "its header has a column without a name"));
        }
        if !seen.insert(name.to_owned()) {
            return Err(input_error(path, format!("its header names column `{name}` twice")));
        }
        fields.push(Field::new(name, DataType::Utf8, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Reads the rows after the header as text.
///
/// # Errors
/// The reader cannot be made.
pub(crate) fn reader<R: Read>(
    header: &SchemaRef,
    delimiter: u8,
    file: R,
) -> Result<arrow_csv::reader::BufReader<std::io::BufReader<Quotes<R>>>, ArrowError> {
    arrow_csv::ReaderBuilder::new(header.clone())
        .with_header(true)
        .with_delimiter(delimiter)
        .with_batch_size(BATCH_ROWS)
        .build(Quotes::new(file, delimiter))
}

/// Passes CSV on, and fails at its end where a quote was opened and never closed: all later rows would be part of that
/// one value, and no reader of CSV says so. Source: RFC 4180.
#[derive(Debug)]
pub(crate) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    at: Place,
    line: u64,
    opened: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Plain,
    Quoted,
    /// After a quote inside quotes: its end, or half of an escaped one.
    Ending,
}

impl<R> Quotes<R> {
    pub(crate) fn new(inner: R, delimiter: u8) -> Self {
        Self { inner, delimiter, at: Place::Start, line: 1, opened: 1 }
    }

    fn pass(&mut self, byte: u8) {
        let ends = byte == self.delimiter || byte == b'\n' || byte == b'\r';
        self.at = match (self.at, byte) {
            (Place::Start, b'"') => {
                self.opened = self.line;
                Place::Quoted
            }
            (Place::Ending, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::Ending,
            (Place::Quoted, _) => Place::Quoted,
            (Place::Start | Place::Plain | Place::Ending, _) => {
                if ends {
                    Place::Start
                } else {
                    Place::Plain
                }
            }
        };
        self.line = self.line.saturating_add(u64::from(byte == b'\n'));
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for byte in buffer.get(..read).unwrap_or_default() {
            self.pass(*byte);
        }
        if read == 0 && !buffer.is_empty() && self.at == Place::Quoted {
            let reason = format!("a quote is opened in line {} and never closed", self.opened);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
        }
        Ok(read)
    }
}

/// Counts the bytes that pass.
#[derive(Debug)]
pub(crate) struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> CountingReader<R> {
    /// Counts what is read of `inner`.
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, count: Arc::default() }
    }

    /// The count, as it grows.
    pub(crate) fn count(&self) -> Arc<AtomicU64> {
        self.count.clone()
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_never_closed_is_an_error() {
        let read = |text: &str| {
            let mut whole = String::new();
            Quotes::new(text.as_bytes(), b',').read_to_string(&mut whole).map(|_| whole)
        };
        for good in ["a,b\n1,\"x\ny\"\n", "1,\"a\"\"b\"\n", "5\" pipe,2\n", "\"\",\"\"", "1,\"\"\"\"\n", ""] {
            assert_eq!(read(good).unwrap(), good);
        }
        for (bad, line) in [("a\n\"oops\n2\n", 2), ("1,\"a\"\"\n2,b\n", 1), ("1,\"", 1)] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line} and never closed")), "{bad:?}: {error}");
        }
    }
}
