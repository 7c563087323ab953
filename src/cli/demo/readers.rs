//! What readers of main see: rows by day, counted by reading the table.

use std::collections::BTreeMap;
use std::fmt;

use arrow_array::temporal_conversions::date32_to_datetime;
use arrow_array::{Array as _, Date32Array};
use futures::TryStreamExt as _;
use serde::Serialize;

use super::Failure;
use crate::catalog::LoadedTable;
use crate::report::page;

/// Rows by day, e.g. `2013-08-09`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Readers(BTreeMap<String, u64>);

impl Readers {
    /// Rows of a day.
    pub(super) fn day(&self, day: &str) -> u64 {
        self.0.get(day).copied().unwrap_or(0)
    }
}

impl fmt::Display for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = (1..=10).map(|number| {
            let rows = self.day(&format!("2013-08-{number:02}"));
            if rows == 0 { format!("{number}:–") } else { format!("{number}:{rows}") }
        });
        let total: u64 = self.0.values().sum();
        write!(f, "{}  = {}", days.collect::<Vec<_>>().join(" "), page::counted(total, "row"))
    }
}

/// Reads the days of all rows in main.
pub(super) async fn count(table: &LoadedTable) -> Result<Readers, Failure> {
    let mut readers = Readers::default();
    let Some(main) = table.observe().main() else { return Ok(readers) };
    let failed = |error: iceberg::Error| Failure::failed(format!("reading {}: {error}", table.name));
    let scan = table.to_iceberg().map_err(failed)?;
    let scan = scan.scan().snapshot_id(main.0).select(["flight_date"]).build().map_err(failed)?;
    let mut batches = scan.to_arrow().await.map_err(failed)?;
    while let Some(batch) = batches.try_next().await.map_err(failed)? {
        let days = batch.columns().first().and_then(|column| column.as_any().downcast_ref::<Date32Array>());
        for day in days.into_iter().flatten().flatten() {
            let day = date32_to_datetime(day).map(|day| day.format("%Y-%m-%d").to_string()).unwrap_or_default();
            let rows = readers.0.entry(day).or_default();
            *rows = rows.saturating_add(1);
        }
    }
    Ok(readers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line() {
        let readers = Readers(BTreeMap::from([("2013-08-01".to_owned(), 1_000), ("2013-08-10".to_owned(), 7)]));
        assert_eq!(readers.to_string(), "1:1000 2:– 3:– 4:– 5:– 6:– 7:– 8:– 9:– 10:7  = 1,007 rows");
        assert_eq!((readers.day("2013-08-09"), readers.day("2013-08-10")), (0, 7));
    }
}
