//! Reading the files of a source.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::data::input::Quotes;

use super::totals::Totals;
use crate::digest::{Digest, Digester, FileHasher};
use crate::scope::Matcher;

/// What was read of a source.
#[derive(Debug, Clone)]
pub(crate) struct SourceTotals {
    /// Over its rows in scope; columns by name.
    pub totals: Totals<String>,
    /// Its files, by path, with the hash of their bytes.
    pub files: Vec<(String, Digest)>,
}

/// What is asked of a source.
#[derive(Debug)]
pub(crate) struct SourceRequest {
    /// Its URI, path or pattern.
    pub uri: String,
    /// Where relative paths start.
    pub root: PathBuf,
    /// The columns counted (false) or summed (true).
    pub columns: BTreeMap<String, bool>,
    /// The scope, and the columns that it looks at as the table has them; `None`: all rows.
    pub scope: Option<(Matcher, ArrowSchemaRef)>,
}

/// A source's immutable version: the digest of its files' names and bytes.
pub(crate) fn version(files: &[(String, Digest)]) -> Digest {
    let digester = Digester::new("source-files");
    files.iter().fold(digester, |digester, (path, digest)| digester.field(path).field(digest.0)).finish()
}

/// Reads the source's files, one after another. The error says what is wrong, for the check's result.
pub(crate) fn read(request: &SourceRequest) -> Result<SourceTotals, String> {
    let mut source = SourceTotals { totals: Totals::default(), files: Vec::new() };
    for path in find(&request.uri, &request.root)? {
        let shown = path.display().to_string();
        let named = |error: String| format!("{shown}: {error}");
        let digest = hash(&path).map_err(|error| named(error.to_string()))?;
        let mut totals = Totals::default();
        read_file(&path, request, &mut totals).map_err(named)?;
        source.totals.merge(totals);
        // The name as the contract has it below its root, so that a moved checkout is the same source.
        let name = path.strip_prefix(&request.root).unwrap_or(&path);
        source.files.push((name.display().to_string(), digest));
    }
    Ok(source)
}

/// The files of a URI, sorted. `*` and `?` stand in the last part of the path only.
fn find(uri: &str, root: &Path) -> Result<Vec<PathBuf>, String> {
    let path = match uri.split_once("://") {
        None => uri,
        Some(("file", path)) => path,
        Some((scheme, _)) => {
            return Err(format!("sources of {scheme}:// cannot be read yet: copy its files beside the contract"));
        }
    };
    let path = root.join(path);
    let pattern = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !pattern.contains(['*', '?']) {
        return match path.is_file() {
            true => Ok(vec![path]),
            false => Err(format!("there is no file {}", path.display())),
        };
    }
    let folder = path.parent().unwrap_or(root);
    let shown = || format!("{}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", shown()))? {
        let entry = entry.map_err(|error| format!("{}: {error}", shown()))?;
        let name = entry.file_name();
        let wanted =
            name.to_str().is_some_and(|name| !name.starts_with('.') && matches(pattern.as_bytes(), name.as_bytes()));
        if wanted && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    if found.is_empty() { Err(format!("no file matches {}", path.display())) } else { Ok(found) }
}

/// Does the name fit the pattern? `*`: any bytes, `?`: one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name))),
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, name)| (*byte == b'?' || byte == first) && matches(rest, name))
        }
    }
}

fn hash(path: &Path) -> std::io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = FileHasher::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn read_file(path: &Path, request: &SourceRequest, totals: &mut Totals<String>) -> Result<(), String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "parquet" => read_parquet(path, request, totals),
        "csv" => read_csv(path, request, totals),
        _ => Err("only .parquet and .csv files can be read".to_owned()),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// The columns needed of a source, and whether it has them.
fn needed(request: &SourceRequest, has: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let scope = request.scope.iter().flat_map(|(_, columns)| columns.fields().iter().map(|field| field.name().clone()));
    let mut names: Vec<String> = request.columns.keys().cloned().chain(scope).collect();
    names.sort();
    names.dedup();
    for name in &names {
        if !has(name) {
            let use_of_it = if request.columns.contains_key(name) { "is measured" } else { "the scope looks at" };
            return Err(format!("it has no column {name}, which {use_of_it}"));
        }
    }
    Ok(names)
}

fn read_parquet(path: &Path, request: &SourceRequest, totals: &mut Totals<String>) -> Result<(), String> {
    let file = File::open(path).map_err(text)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(text)?;
    let schema = builder.schema().clone();
    let names = needed(request, |name| schema.field_with_name(name).is_ok())?;
    expect(request, &schema, totals);
    let at: Vec<usize> = names.iter().filter_map(|name| schema.index_of(name).ok()).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), at);
    for batch in builder.with_projection(mask).build().map_err(text)? {
        add(request, &batch.map_err(text)?, totals).map_err(text)?;
    }
    Ok(())
}

fn read_csv(path: &Path, request: &SourceRequest, totals: &mut Totals<String>) -> Result<(), String> {
    let mut file = BufReader::new(File::open(path).map_err(text)?);
    // The header alone, through the same reader of CSV, so that quoted names are read alike.
    let mut header = Vec::new();
    file.read_until(b'\n', &mut header).map_err(text)?;
    let (inferred, _) =
        arrow_csv::reader::Format::default().with_header(true).infer_schema(header.as_slice(), None).map_err(text)?;
    // Every column as text: what the file says is summed digit by digit, and not first forced into some type.
    let fields: Vec<Field> =
        inferred.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let names = needed(request, |name| schema.field_with_name(name).is_ok())?;
    expect(request, &schema, totals);
    let at: Vec<usize> = names.iter().filter_map(|name| schema.index_of(name).ok()).collect();
    // With no column asked for, one is read for the number of rows.
    let at = if at.is_empty() { vec![0] } else { at };
    let reader =
        arrow_csv::ReaderBuilder::new(schema).with_projection(at).build(Quotes::new(file, b',')).map_err(text)?;
    for batch in reader {
        add(request, &batch.map_err(text)?, totals).map_err(text)?;
    }
    Ok(())
}

fn expect(request: &SourceRequest, schema: &ArrowSchema, totals: &mut Totals<String>) {
    for (name, summed) in &request.columns {
        if let Ok(field) = schema.field_with_name(name) {
            totals.expect(name.clone(), &plain_type(field.data_type()), *summed, true);
        }
    }
}

/// The type that a column of a source is summed in.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::Int64,
        DataType::Dictionary(_, values) => plain_type(values),
        other => other.clone(),
    }
}

fn add(request: &SourceRequest, batch: &RecordBatch, totals: &mut Totals<String>) -> Result<(), ArrowError> {
    let inside = match &request.scope {
        None => batch,
        Some((matcher, columns)) => {
            let mut typed: Vec<ArrayRef> = Vec::new();
            for field in columns.fields() {
                let column = batch.column_by_name(field.name()).ok_or_else(|| missing(field.name()))?;
                let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
                typed.push(arrow_cast::cast_with_options(column, field.data_type(), &options)?);
            }
            let typed = RecordBatch::try_new(columns.clone(), typed)?;
            let mask = matcher.evaluate(&typed).map_err(|error| ArrowError::ComputeError(error.to_string()))?;
            &filter_record_batch(batch, &true_only(&mask))?
        }
    };
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for name in request.columns.keys() {
        let column = inside.column_by_name(name).ok_or_else(|| missing(name))?;
        let plain = plain_type(column.data_type());
        columns.push(arrow_cast::cast(column, &plain)?);
        fields.push(Field::new(name, plain, true));
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(inside.num_rows()));
    let plain = RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)?;
    totals.add(&plain, |batch, name| batch.column_by_name(name));
    Ok(())
}

fn missing(name: &str) -> ArrowError {
    ArrowError::SchemaError(format!("column {name} was not read"))
}

/// The rows for which a three-valued condition is true.
pub(crate) fn true_only(mask: &BooleanArray) -> BooleanArray {
    match mask.nulls() {
        None => mask.clone(),
        Some(known) => BooleanArray::new(mask.values() & known.inner(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Aggregate;

    fn request(root: &Path, uri: &str, columns: &[(&str, bool)]) -> SourceRequest {
        SourceRequest {
            uri: uri.to_owned(),
            root: root.to_owned(),
            columns: columns.iter().map(|(name, summed)| (name.to_string(), *summed)).collect(),
            scope: None,
        }
    }

    #[test]
    fn csv_files_of_a_pattern_are_summed_digit_by_digit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.csv"), "\"id\",amount\n1,0.10\n2,\n").unwrap();
        std::fs::write(folder.path().join("b.csv"), "amount,id\n12345678901234567890.12,3\n").unwrap();
        std::fs::write(folder.path().join("c.txt"), "nothing").unwrap();
        let source = read(&request(folder.path(), "*.csv", &[("amount", true)])).unwrap();
        assert_eq!(source.totals.rows, 3);
        let name = "amount".to_owned();
        let total = |aggregate: Aggregate| source.totals.total(&aggregate, Some(&name)).unwrap().to_string();
        assert_eq!(total(Aggregate::Sum(name.clone())), "12345678901234567890.22");
        assert_eq!(total(Aggregate::Count(name.clone())), "2");
        let names: Vec<_> = source.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a.csv", "b.csv"]);
        assert_eq!(read(&request(folder.path(), "*.csv", &[])).unwrap().totals.rows, 3);
    }

    #[test]
    fn what_is_wrong_with_a_source_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
        std::fs::write(folder.path().join("bad.csv"), "id\nx\n").unwrap();
        std::fs::write(folder.path().join("bad.parquet"), "id\nx\n").unwrap();
        for (uri, columns, words) in [
            ("missing.csv", vec![], "there is no file"),
            ("*.parq", vec![], "no file matches"),
            ("s3://bucket/a.csv", vec![], "s3://"),
            ("a.csv", vec![("amount", true)], "no column amount, which is measured"),
            ("bad.parquet", vec![], "bad.parquet: "),
        ] {
            let error = read(&request(folder.path(), uri, &columns)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let bad = read(&request(folder.path(), "bad.csv", &[("id", true)])).unwrap();
        let error = bad.totals.total(&Aggregate::Sum("id".to_owned()), Some(&"id".to_owned())).unwrap_err();
        assert!(error.contains("\"x\" is not a number"), "{error}");
    }

    #[test]
    fn patterns() {
        for (pattern, name, good) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a?.csv", "ab.csv", true),
            ("a*b*c", "axbxxc", true),
            ("a*b", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), good, "{pattern} {name}");
        }
    }
}
