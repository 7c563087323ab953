//! Totals: counts and sums over the rows in scope, compared with given numbers or with a source.

use std::collections::BTreeMap;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::source::SourceTotals;
use super::sum::Sum;
use super::{Finding, plural};
use crate::contract::{Aggregate, Decimal, DecimalError, Expected, Measure, TotalsCheck};
use crate::evidence::check::Outcome;

/// What is counted and summed of each column, and how many rows there are.
#[derive(Debug, Clone)]
pub(crate) struct Totals<K: Ord> {
    pub rows: u64,
    columns: BTreeMap<K, ColumnTotals>,
}

impl<K: Ord> Default for Totals<K> {
    fn default() -> Self {
        Self { rows: 0, columns: BTreeMap::new() }
    }
}

#[derive(Debug, Clone)]
struct ColumnTotals {
    present: u64,
    sum: Option<Sum>,
}

impl<K: Ord> Totals<K> {
    /// Makes ready for a column, so that it has totals even if no row comes.
    pub fn expect(&mut self, key: K, data_type: &DataType, summed: bool, text: bool) {
        let column = self.columns.entry(key).or_insert(ColumnTotals { present: 0, sum: None });
        if summed && column.sum.is_none() {
            column.sum = Some(Sum::new(data_type, text));
        }
    }

    /// Takes the next rows.
    pub fn add<'a>(&mut self, batch: &'a RecordBatch, column_of: impl Fn(&'a RecordBatch, &K) -> Option<&'a ArrayRef>) {
        self.rows += batch.num_rows() as u64;
        for (key, totals) in &mut self.columns {
            let Some(column) = column_of(batch, key) else {
                totals.sum = Some(Sum::Failed("the column was not read".to_owned()));
                continue;
            };
            totals.present += (column.len() - column.logical_null_count()) as u64;
            if let Some(sum) = &mut totals.sum {
                sum.add(column);
            }
        }
    }

    /// Takes another worker's, or file's, over.
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        for (key, more) in other.columns {
            match self.columns.get_mut(&key) {
                None => {
                    self.columns.insert(key, more);
                }
                Some(column) => {
                    column.present += more.present;
                    match (&mut column.sum, more.sum) {
                        (Some(sum), Some(more)) => sum.merge(more),
                        (none @ None, more) => *none = more,
                        (Some(_), None) => {}
                    }
                }
            }
        }
    }

    /// One total, or why there is none.
    pub fn total(&self, aggregate: &Aggregate, key: Option<&K>) -> Result<Decimal, String> {
        let column = key.and_then(|key| self.columns.get(key));
        let unknown = || "the column was not read".to_owned();
        match aggregate {
            Aggregate::CountRows => Ok(Decimal::from_i128(i128::from(self.rows))),
            Aggregate::Count(_) => {
                column.map(|column| Decimal::from_i128(i128::from(column.present))).ok_or_else(unknown)
            }
            Aggregate::Sum(_) => column.and_then(|column| column.sum.as_ref()).ok_or_else(unknown)?.total(),
        }
    }
}

/// The check's conclusion. `keys` gives the key of a column by name, or why there is none; `sources` what was read of
/// each source, or why it could not be.
pub(crate) fn conclude(
    check: &TotalsCheck,
    totals: &Totals<i32>,
    keys: impl Fn(&str) -> Result<i32, String>,
    sources: &BTreeMap<String, Result<SourceTotals, String>>,
) -> Finding {
    let (mut failed, mut erred, mut details) = (0u64, 0u64, Vec::new());
    let mut first = None;
    for measure in &check.measures {
        let compared = total_of(measure, totals, &keys)
            .and_then(|found| Ok((found, expected_of(measure, sources)?)))
            .and_then(|(found, expected)| compare(measure, &found, &expected));
        let (line, good) = match compared {
            Ok((line, good)) => {
                failed += u64::from(!good);
                (line, good)
            }
            Err(reason) => {
                erred += 1;
                (format!("{}: {reason}", measure.aggregate), false)
            }
        };
        if !good {
            first = first.or(Some(line.clone()));
        }
        details.push(line);
    }
    let measures = plural(check.measures.len() as u64, "total");
    let (outcome, summary) = match (failed, erred) {
        (0, 0) => (Outcome::Pass, format!("{measures} as expected over {}", plural(totals.rows, "row"))),
        (0, _) => {
            (Outcome::Error, format!("{erred} of {measures} could not be compared: {}", first.unwrap_or_default()))
        }
        (_, _) => (Outcome::Fail, format!("{failed} of {measures} not as expected: {}", first.unwrap_or_default())),
    };
    Finding::new(outcome, totals.rows, summary).with_details(details)
}

fn total_of(
    measure: &Measure,
    totals: &Totals<i32>,
    keys: impl Fn(&str) -> Result<i32, String>,
) -> Result<Decimal, String> {
    let key = measure.aggregate.column().map(keys).transpose()?;
    totals.total(&measure.aggregate, key.as_ref())
}

fn expected_of(measure: &Measure, sources: &BTreeMap<String, Result<SourceTotals, String>>) -> Result<Decimal, String> {
    match &measure.expected {
        Expected::Literal(number) => Ok(*number),
        Expected::Source { name, .. } => {
            let of_source = |reason: &String| format!("source {name}: {reason}");
            let source = match sources.get(name) {
                Some(Ok(source)) => source,
                Some(Err(reason)) => return Err(of_source(reason)),
                None => return Err(of_source(&"it was not read".to_owned())),
            };
            if source.totals.rows == 0 {
                return Err(of_source(&"it has no row in scope, so nothing can be compared with it".to_owned()));
            }
            let key = measure.aggregate.column().map(str::to_owned);
            source.totals.total(&measure.aggregate, key.as_ref()).map_err(|reason| of_source(&reason))
        }
    }
}

/// |found − expected| ≤ abs + rel · |expected|, in exact arithmetic; the line says both numbers.
fn compare(measure: &Measure, found: &Decimal, expected: &Decimal) -> Result<(String, bool), String> {
    let compared = || -> Result<(Decimal, Decimal, bool), DecimalError> {
        let difference = found.minus(expected)?.abs()?;
        let tolerance = measure.abs.plus(&measure.rel.times(&expected.abs()?)?)?;
        let good = difference.compare(&tolerance)?.is_le();
        Ok((difference, tolerance, good))
    };
    let (difference, tolerance, good) = compared().map_err(|error| error.to_string())?;
    let whose = match &measure.expected {
        Expected::Literal(_) => String::new(),
        Expected::Source { name, .. } => format!(" in {name}"),
    };
    let by = match (good, difference == Decimal::ZERO) {
        (true, true) => String::new(),
        (true, false) => format!(", within {tolerance}"),
        (false, _) => format!(", off by {difference}, tolerance {tolerance}"),
    };
    Ok((format!("{} = {found}, expected {expected}{whose}{by}", measure.aggregate), good))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(expected: &str, abs: &str, rel: &str) -> Measure {
        Measure {
            aggregate: Aggregate::CountRows,
            expected: Expected::Literal(expected.parse().unwrap()),
            abs: abs.parse().unwrap(),
            rel: rel.parse().unwrap(),
        }
    }

    #[test]
    fn tolerances_are_exact_at_their_edge() {
        for (found, expected, abs, rel, good) in [
            ("100", "100", "0", "0", true),
            ("100.01", "100", "0.01", "0", true),
            ("100.0100001", "100", "0.01", "0", false),
            ("99.99", "100", "0.01", "0", true),
            ("101", "100", "0", "0.01", true),
            ("101.01", "100", "0", "0.01", false),
            ("101.02", "100", "0.02", "0.01", true),
            ("-101", "-100", "0", "0.01", true),
            ("0.1", "0", "0", "0.5", false),
        ] {
            let measure = measure(expected, abs, rel);
            let compared = compare(&measure, &found.parse().unwrap(), &expected.parse().unwrap()).unwrap();
            assert_eq!(compared.1, good, "{}", compared.0);
        }
    }

    #[test]
    fn a_source_without_rows_is_an_error() {
        let mut check = TotalsCheck { measures: vec![measure("0", "0", "0")] };
        check.measures[0].expected = Expected::Source { name: "ledger".to_owned(), uri: "x".to_owned() };
        let none = |_: &str| Err("no column".to_owned());
        let totals = Totals { rows: 3, columns: BTreeMap::new() };
        let run = |sources: &_| conclude(&check, &totals, none, sources);
        assert_eq!(run(&BTreeMap::new()).outcome, Outcome::Error);
        let empty = SourceTotals { totals: Totals::default(), files: vec![] };
        let finding = run(&BTreeMap::from([("ledger".to_owned(), Ok(empty))]));
        assert_eq!(finding.outcome, Outcome::Error);
        assert!(finding.summary.contains("no row in scope"), "{}", finding.summary);
        let full = SourceTotals { totals: Totals { rows: 3, columns: BTreeMap::new() }, files: vec![] };
        assert_eq!(run(&BTreeMap::from([("ledger".to_owned(), Ok(full))])).outcome, Outcome::Pass);
    }
}
