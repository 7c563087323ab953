//! Keys: never null, and no two rows alike.
//!
//! The first reading keeps 8 bytes a row, a hash of its key. Hashes that occur twice are candidates; a second reading
//! collects the keys behind them and compares the values themselves. Where the hashes of all rows do not fit into
//! memory, the hashes are taken in several readings, each of one range of them.
//!
//! What is equal: the values of the columns; `-0.0` equals `0.0`, and every NaN equals every other. A row with a null
//! in its key is a fault of its own and is not compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Schema as ArrowSchema};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;

use super::row_hash::{Hashes, KeyHash};
use super::{EXAMPLES, Finding, plural, show_row};
use crate::evidence::check::Outcome;

/// Candidate hashes whose keys are compared in one reading.
pub(crate) const CONFIRMED_AT_ONCE: usize = 1 << 16;
/// Candidates kept: 8 bytes each. Of so many, the first few thousand decide.
const MOST_CANDIDATES: usize = 1 << 22;
/// Memory for the compared keys themselves, beside the memory limit: far more than any real data needs.
const CONFIRMED_BYTES: usize = 256 << 20;

/// One of several equal ranges of hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashRange {
    /// How many first bits tell ranges apart; 0: there is one.
    pub bits: u32,
    /// The value of these bits.
    pub value: u64,
}

impl HashRange {
    #[cfg(test)]
    pub const ALL: HashRange = HashRange { bits: 0, value: 0 };

    #[inline]
    fn holds(self, hash: u64) -> bool {
        self.bits == 0 || hash >> (64 - self.bits) == self.value
    }
}

/// Gathers the hashes of one check's keys.
#[derive(Debug)]
pub(crate) struct KeyHashes {
    hash: KeyHash,
    range: HashRange,
    converter: Option<RowConverter>,
    hashes: Hashes,
    found: Nulls,
}

/// Hashes that more than one row has, ascending.
#[derive(Debug, Default, Clone)]
pub(crate) struct Candidates {
    pub hashes: Vec<u64>,
    /// There were more than are kept.
    pub cut: bool,
}

impl Candidates {
    /// Takes those of another range over.
    pub fn merge(&mut self, other: Self) {
        self.cut |= other.cut || self.hashes.len() + other.hashes.len() > MOST_CANDIDATES;
        self.hashes.extend(other.hashes);
        self.hashes.sort_unstable();
        self.hashes.truncate(MOST_CANDIDATES);
    }
}

/// What was seen of null keys, and of rows at all.
#[derive(Debug, Default, Clone)]
pub(crate) struct Nulls {
    pub rows: u64,
    pub null_rows: u64,
    pub examples: Vec<String>,
}

impl KeyHashes {
    pub fn new(hash: KeyHash, range: HashRange) -> Self {
        Self { hash, range, converter: None, hashes: Hashes::default(), found: Nulls::default() }
    }

    /// Takes the key columns of the next rows.
    pub fn add(&mut self, keys: &RecordBatch) -> Result<(), ArrowError> {
        self.found.rows += keys.num_rows() as u64;
        let keys = match nulls_of(keys) {
            Some(valid) => {
                self.found.null_rows += valid.null_count() as u64;
                for row in (0..keys.num_rows()).filter(|row| valid.is_null(*row)) {
                    if self.found.examples.len() >= EXAMPLES {
                        break;
                    }
                    self.found.examples.push(show_row(keys, row, usize::MAX)?);
                }
                &filter_record_batch(keys, &BooleanArray::new(valid.into_inner(), None))?
            }
            None => keys,
        };
        let (range, hashes) = (self.range, &mut self.hashes);
        for_each_hash(keys, self.hash, &mut self.converter, |_, hash| {
            if range.holds(hash) {
                hashes.push(hash);
            }
        })
    }

    /// Takes another worker's over.
    pub fn merge(&mut self, other: Self) {
        self.hashes.merge(other.hashes);
        self.found.rows += other.found.rows;
        self.found.null_rows += other.found.null_rows;
        self.found.examples.extend(other.found.examples);
    }

    /// What was seen of nulls, and the candidates.
    pub fn finish(mut self) -> (Nulls, Candidates) {
        self.found.examples.sort();
        self.found.examples.truncate(EXAMPLES);
        let (hashes, cut) = self.hashes.repeated(MOST_CANDIDATES);
        (self.found, Candidates { hashes, cut })
    }
}

/// Collects the keys behind candidate hashes.
#[derive(Debug)]
pub(crate) struct KeyValues {
    hash: KeyHash,
    candidates: Arc<Vec<u64>>,
    hasher: Option<RowConverter>,
    converter: Option<RowConverter>,
    keys: BTreeMap<Box<[u8]>, (u64, String)>,
    bytes: usize,
}

impl KeyValues {
    /// `candidates` are ascending.
    pub fn new(hash: KeyHash, candidates: Arc<Vec<u64>>) -> Self {
        Self { hash, candidates, hasher: None, converter: None, keys: BTreeMap::new(), bytes: 0 }
    }

    /// Takes the key columns of the next rows.
    pub fn add(&mut self, keys: &RecordBatch) -> Result<(), ArrowError> {
        let keys = match nulls_of(keys) {
            Some(valid) => &filter_record_batch(keys, &BooleanArray::new(valid.into_inner(), None))?,
            None => keys,
        };
        let mut hits: Vec<u64> = Vec::new();
        let candidates = &self.candidates;
        for_each_hash(keys, self.hash, &mut self.hasher, |row, hash| {
            if candidates.binary_search(&hash).is_ok() {
                hits.push(row as u64);
            }
        })?;
        if hits.is_empty() {
            return Ok(());
        }
        let hits = take_record_batch(keys, &UInt64Array::from(hits))?;
        let columns: Vec<ArrayRef> = hits.columns().iter().map(normalised).collect();
        let rows = converter(&mut self.converter, &columns)?.convert_columns(&columns)?;
        for (at, row) in rows.iter().enumerate() {
            match self.keys.get_mut(row.data()) {
                Some((count, _)) => *count += 1,
                None => {
                    let shown = show_row(&hits, at, usize::MAX)?;
                    self.bytes += row.data().len() + shown.len() + 64;
                    if self.bytes > CONFIRMED_BYTES {
                        return Err(ArrowError::MemoryError(
                            "too many different keys share a hash to be compared in memory".to_owned(),
                        ));
                    }
                    self.keys.insert(row.data().into(), (1, shown));
                }
            }
        }
        Ok(())
    }

    /// Takes another worker's over.
    pub fn merge(&mut self, other: Self) {
        for (key, (count, shown)) in other.keys {
            self.keys.entry(key).or_insert((0, shown)).0 += count;
        }
    }

    /// The keys that more than one row has, in their order.
    pub fn duplicates(self) -> Vec<(u64, String)> {
        self.keys.into_values().filter(|(count, _)| *count > 1).collect()
    }
}

/// What comparing the keys of candidate hashes came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Duplicates {
    /// Keys that more than one row has.
    pub keys: u64,
    /// The rows that have them.
    pub rows: u64,
    /// The first of them.
    pub examples: Vec<String>,
    /// Further candidates were not compared, because the answer was certain.
    pub more: bool,
}

impl Duplicates {
    pub fn add(&mut self, found: Vec<(u64, String)>) {
        for (count, shown) in found {
            self.keys += 1;
            self.rows += count;
            if self.examples.len() < EXAMPLES {
                self.examples.push(format!("{shown}: {}", plural(count, "row")));
            }
        }
    }
}

/// The check's conclusion.
pub(crate) fn conclude(columns: &[String], nulls: &Nulls, duplicates: &Duplicates) -> Finding {
    let columns = columns.join(", ");
    let mut faults = Vec::new();
    let mut details = Vec::new();
    if duplicates.keys > 0 {
        let least = if duplicates.more { "at least " } else { "" };
        let (rows, keys) = (plural(duplicates.rows, "duplicate row"), plural(duplicates.keys, "key"));
        faults.push(format!("{least}{rows} in {keys} of ({columns})"));
        details.extend(duplicates.examples.iter().cloned());
    }
    if nulls.null_rows > 0 {
        faults.push(format!("{} with a null in ({columns})", plural(nulls.null_rows, "row")));
        details.extend(nulls.examples.iter().cloned());
    }
    match faults.is_empty() {
        true => {
            let summary = format!("({columns}) is unique and not null in {}", plural(nulls.rows, "row"));
            Finding::new(Outcome::Pass, nulls.rows, summary)
        }
        false => Finding::new(Outcome::Fail, nulls.rows, faults.join("; ")).with_details(details),
    }
}

/// Which rows have no null in any column; `None`: all.
fn nulls_of(keys: &RecordBatch) -> Option<NullBuffer> {
    let nulls = keys
        .columns()
        .iter()
        .fold(None, |all: Option<NullBuffer>, column| NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref()));
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// Hashes each row of key columns without nulls.
fn for_each_hash(
    keys: &RecordBatch,
    hash: KeyHash,
    kept: &mut Option<RowConverter>,
    mut visit: impl FnMut(usize, u64),
) -> Result<(), ArrowError> {
    if let [column] = keys.columns()
        && for_each_number(column, |row, number| visit(row, hash.number(number)))
    {
        return Ok(());
    }
    let columns: Vec<ArrayRef> = keys.columns().iter().map(normalised).collect();
    let rows = converter(kept, &columns)?.convert_columns(&columns)?;
    for (at, row) in rows.iter().enumerate() {
        visit(at, hash.bytes(row.data()));
    }
    Ok(())
}

/// Visits the values of a column that is a whole number of up to 64 bits underneath; false if it is not.
fn for_each_number(column: &ArrayRef, mut visit: impl FnMut(usize, u64)) -> bool {
    use arrow_array::types::{
        Date32Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
    };
    use arrow_schema::TimeUnit::{Microsecond, Nanosecond};
    fn all<T: ArrowPrimitiveType>(column: &ArrayRef, mut visit: impl FnMut(usize, u64))
    where
        i64: From<T::Native>,
    {
        for (row, value) in column.as_primitive::<T>().values().iter().enumerate() {
            visit(row, i64::from(*value) as u64);
        }
    }
    match column.data_type() {
        DataType::Int32 => all::<Int32Type>(column, &mut visit),
        DataType::Date32 => all::<Date32Type>(column, &mut visit),
        DataType::Int64 => all::<Int64Type>(column, &mut visit),
        DataType::Time64(Microsecond) => all::<Time64MicrosecondType>(column, &mut visit),
        DataType::Timestamp(Microsecond, _) => all::<TimestampMicrosecondType>(column, &mut visit),
        DataType::Timestamp(Nanosecond, _) => all::<TimestampNanosecondType>(column, &mut visit),
        _ => return false,
    }
    true
}

/// The column with one zero and one NaN.
fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => column.clone(),
    }
}

/// The converter of these columns' types, made at the first use.
fn converter<'a>(kept: &'a mut Option<RowConverter>, columns: &[ArrayRef]) -> Result<&'a mut RowConverter, ArrowError> {
    let made = match kept.take() {
        Some(made) => made,
        None => RowConverter::new(columns.iter().map(|c| SortField::new(c.data_type().clone())).collect())?,
    };
    Ok(kept.insert(made))
}

/// Can keys of these columns be compared?
pub(crate) fn supported(schema: &ArrowSchema) -> bool {
    let fields: Vec<_> = schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    RowConverter::supports_fields(&fields) && schema.fields().iter().all(|field| !field.data_type().is_nested())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    }

    fn run(batches: &[RecordBatch], hash: KeyHash) -> (Nulls, Vec<(u64, String)>) {
        let mut hashes = KeyHashes::new(hash, HashRange::ALL);
        for batch in batches {
            hashes.add(batch).unwrap();
        }
        let (nulls, candidates) = hashes.finish();
        let mut values = KeyValues::new(hash, Arc::new(candidates.hashes));
        for batch in batches {
            values.add(batch).unwrap();
        }
        (nulls, values.duplicates())
    }

    #[test]
    fn equal_hashes_of_different_keys_are_no_duplicates() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| format!("n{n}"))));
        for columns in [vec![("id", ids.clone())], vec![("name", names.clone())], vec![("id", ids), ("name", names)]] {
            let keys = batch(columns);
            for hash in [KeyHash::STRONG, KeyHash::weak(3), KeyHash::weak(0)] {
                let (nulls, duplicates) = run(std::slice::from_ref(&keys), hash);
                assert_eq!((nulls.rows, duplicates), (100, vec![]));
                let (_, duplicates) = run(&[keys.clone(), keys.slice(7, 1)], hash);
                assert_eq!(duplicates.len(), 1);
                assert_eq!(duplicates[0].0, 2);
                assert!(duplicates[0].1.contains('7'), "{duplicates:?}");
            }
        }
    }

    #[test]
    fn columns_do_not_run_together_and_nulls_are_their_own_fault() {
        let a: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), Some("a"), None, None, Some("")]));
        let b: ArrayRef = Arc::new(StringArray::from(vec![Some("c"), Some("bc"), Some("x"), Some("x"), None]));
        let (nulls, duplicates) = run(&[batch(vec![("a", a), ("b", b)])], KeyHash::STRONG);
        assert_eq!(duplicates, vec![]);
        assert_eq!((nulls.rows, nulls.null_rows), (5, 3));
        assert!(nulls.examples.contains(&"a = null, b = x".to_owned()));
        let finding = conclude(&["a".to_owned(), "b".to_owned()], &nulls, &Duplicates::default());
        assert_eq!(finding.outcome, Outcome::Fail);
        assert_eq!(finding.summary, "3 rows with a null in (a, b)");
    }

    #[test]
    fn there_is_one_zero_and_one_nan() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]));
        let (_, duplicates) = run(&[batch(vec![("x", values)])], KeyHash::STRONG);
        assert_eq!(duplicates.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn ranges_together_hold_every_hash_once() {
        let keys = batch(vec![("id", Arc::new(Int64Array::from_iter_values((0..1000).chain(0..10))))]);
        let mut candidates = Candidates::default();
        for value in 0..4 {
            let mut hashes = KeyHashes::new(KeyHash::STRONG, HashRange { bits: 2, value });
            hashes.add(&keys).unwrap();
            assert!(hashes.hashes.count() < 400);
            candidates.merge(hashes.finish().1);
        }
        assert_eq!((candidates.hashes.len(), candidates.cut), (10, false));
    }
}
