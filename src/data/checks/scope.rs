//! The scope: rows outside it are what they were.
//!
//! A change may rewrite files that hold rows outside its scope, so "all added rows are inside" would refuse too much
//! and "the paths look right" would accept too much. What has to hold is: of the files that the change touches, the
//! rows outside the scope are the same before and after, counted as often. Both sides are summed up by a hash of each
//! row, which does not depend on how rows are spread over files.

use std::collections::HashMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, Schema as ArrowSchema};
use sha2::{Digest as _, Sha256};

use super::{EXAMPLES, Finding, plural};
use crate::evidence::check::Outcome;

/// The hash of a row, as two numbers.
type RowDigest = (u128, u128);

/// A multiset of rows: how many, and the sum of their hashes. Equal for equal multisets, whatever the order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowSet {
    pub rows: u64,
    sum: RowDigest,
}

impl RowSet {
    fn add(&mut self, digest: RowDigest) {
        self.rows += 1;
        self.sum = (self.sum.0.wrapping_add(digest.0), self.sum.1.wrapping_add(digest.1));
    }

    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = (self.sum.0.wrapping_add(other.sum.0), self.sum.1.wrapping_add(other.sum.1));
    }
}

/// Hashes rows of all columns.
#[derive(Debug, Default)]
pub(crate) struct RowHasher(Option<RowConverter>);

impl RowHasher {
    /// The hash of each row of the batch: SHA-256 of its columns' values, nulls and lengths included.
    pub fn for_each(&mut self, batch: &RecordBatch, mut visit: impl FnMut(usize, RowDigest)) -> Result<(), ArrowError> {
        let columns: Vec<ArrayRef> = batch.columns().to_vec();
        let converter = match self.0.take() {
            Some(converter) => converter,
            None => RowConverter::new(columns.iter().map(|c| SortField::new(c.data_type().clone())).collect())?,
        };
        let rows = self.0.insert(converter).convert_columns(&columns)?;
        for (at, row) in rows.iter().enumerate() {
            let digest: [u8; 32] = Sha256::digest(row.data()).into();
            let number = |from: usize| {
                digest.iter().skip(from).take(16).fold(0u128, |number, byte| number << 8 | u128::from(*byte))
            };
            visit(at, (number(0), number(16)));
        }
        Ok(())
    }

    /// Adds the rows of a batch to a set.
    pub fn add_to(&mut self, set: &mut RowSet, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.for_each(batch, |_, digest| set.add(digest))
    }
}

/// Can rows of these columns be compared? Otherwise the name of one that cannot.
pub(crate) fn incomparable(schema: &ArrowSchema) -> Option<&str> {
    schema
        .fields()
        .iter()
        .find(|field| !RowConverter::supports_fields(&[SortField::new(field.data_type().clone())]))
        .map(|field| field.name().as_str())
}

/// The rows that one side has more often than the other, by hash: positive where the head has more.
#[derive(Debug, Default, Clone)]
pub(crate) struct Differences(HashMap<u128, i64>);

impl Differences {
    /// Counts a row of the head (1) or of the base (-1).
    pub fn count(&mut self, digest: RowDigest, by: i64) {
        let count = self.0.entry(digest.0).or_insert(0);
        *count += by;
    }

    pub fn merge(&mut self, other: Self) {
        for (digest, by) in other.0 {
            *self.0.entry(digest).or_insert(0) += by;
        }
    }

    /// Forgets the rows that both sides have equally often.
    pub fn settle(&mut self) {
        self.0.retain(|_, count| *count != 0);
    }

    /// Rows added and rows removed outside.
    pub fn totals(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |(added, removed), count| match count {
            0.. => (added + count.unsigned_abs(), removed),
            _ => (added, removed + count.unsigned_abs()),
        })
    }

    /// Does the head (1) or the base (-1) have more of this row?
    pub fn has_more(&self, digest: RowDigest, side: i64) -> bool {
        self.0.get(&digest.0).is_some_and(|count| count.signum() == side)
    }
}

/// What is known of rows outside that differ.
#[derive(Debug, Default)]
pub(crate) struct OutsideFault {
    /// Rows added and removed, where they were few enough to be told apart.
    pub differences: Option<(u64, u64)>,
    /// Rows, for people.
    pub examples: Vec<String>,
}

/// The check's conclusion. `examined` are all rows of the files that the change touches; `base` and `head` those
/// outside the scope.
pub(crate) fn conclude(examined: u64, base: &RowSet, head: &RowSet, fault: Option<OutsideFault>) -> Finding {
    let Some(fault) = fault else {
        let summary = match head.rows {
            0 => format!("all of {} touched are inside the scope", plural(examined, "row")),
            rows => format!("{} touched; {} outside the scope unchanged", plural(examined, "row"), plural(rows, "row")),
        };
        return Finding::new(Outcome::Pass, examined, summary);
    };
    let summary = match fault.differences {
        Some((added, removed)) => {
            let mut parts = Vec::new();
            if added > 0 {
                parts.push(format!("{} added outside the scope", plural(added, "row")));
            }
            if removed > 0 {
                parts.push(format!("{} removed outside the scope", plural(removed, "row")));
            }
            parts.join(", ")
        }
        None => format!("rows outside the scope were changed: {} before, {} after", base.rows, head.rows),
    };
    let mut examples = fault.examples;
    examples.sort();
    examples.truncate(2 * EXAMPLES);
    Finding::new(Outcome::Fail, examined, summary).with_details(examples)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn batch(ids: &[Option<i64>], names: &[Option<&str>]) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
        let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("name", names, true)]).unwrap()
    }

    fn set(batches: &[RecordBatch]) -> RowSet {
        let mut set = RowSet::default();
        let mut hasher = RowHasher::default();
        batches.iter().for_each(|batch| hasher.add_to(&mut set, batch).unwrap());
        set
    }

    #[test]
    fn sets_are_equal_whatever_the_order_and_differ_in_every_value() {
        let whole = batch(&[Some(1), Some(2), None], &[Some("a"), None, Some("")]);
        let parts = [whole.slice(2, 1), whole.slice(0, 1), whole.slice(1, 1)];
        assert_eq!(set(std::slice::from_ref(&whole)), set(&parts));
        for other in [
            batch(&[Some(1), Some(2), None], &[Some("a"), Some(""), Some("")]),
            batch(&[Some(1), Some(2), Some(0)], &[Some("a"), None, Some("")]),
            batch(&[Some(2), Some(1), None], &[Some("a"), None, Some("")]),
            batch(&[Some(1), Some(2), None, None], &[Some("a"), None, Some(""), Some("")]),
            batch(&[Some(1), Some(2)], &[Some("a"), None]),
        ] {
            assert_ne!(set(std::slice::from_ref(&whole)), set(&[other]));
        }
    }
}
