//! Replacing the rows of a scope: what is inside goes, what comes in takes its place, the rest of a file is carried.
//!
//! A row is inside where the scope is *true* on it. It stays where the scope is false **or unknown**: a filter of
//! `NOT scope` would lose the rows with nulls, so the scope itself is evaluated and its answer turned round here. Files
//! are only chosen by bounds; which rows go is decided by reading them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use arrow_array::{Array, BooleanArray, RecordBatch, new_null_array};
use arrow_select::filter::{filter, filter_record_batch};
use futures::TryStreamExt;

use super::deletes::{Deletes, top_level};
use super::live::live_entries;
use super::rows::{LiveBatch, LiveRows, lineage_fields};
use super::snapshot::RemovedFile;
use super::write::{Limits, Staged, TableWriter, has_row_lineage};
use super::{DataError, Progress, input};
use crate::catalog::LoadedTable;
use crate::clock::Clock;
use crate::identity::LiveEntry;
use crate::ids::SnapshotId;
use crate::scope::{Matcher, Scope, ScopeError};

/// Writes the rows of the input files as new data files, and finds what they take the place of: every row of `head`
/// that is inside the scope.
///
/// A file with rows inside and outside is written anew without those inside; one with none outside is removed; one
/// with none inside is left alone. Position and equality deletes are applied to what is carried; on format version 3
/// carried rows keep their `_row_id` and `_last_updated_sequence_number`. Without inputs the rows inside just go.
///
/// Nothing is committed. If it fails, the files it wrote are deleted again: no snapshot can name them.
///
/// # Errors
/// As [`append`](super::write::append); an input row is outside the scope; a file that may hold rows of the scope has
/// deletes or columns that cannot be read (named).
pub async fn replace(
    table: &LoadedTable,
    head: Option<SnapshotId>,
    scope: &Scope,
    inputs: &[PathBuf],
    ids: &dyn Clock,
    progress: &dyn Progress,
) -> Result<Staged, DataError> {
    let schema = table.metadata.current_schema().clone();
    let matcher = scope.matcher(&schema).map_err(|error| scope_error(&table.name.to_string(), &error))?;
    input::check(inputs)?;
    let entries = live_entries(table, head).await?;
    let planned: Vec<&LiveEntry> = entries
        .iter()
        .filter(|entry| entry.is_data())
        .filter(|entry| match table.metadata.partition_spec_by_id(entry.spec_id) {
            Some(spec) => scope.may_match(&entry.file, spec, &schema),
            None => true,
        })
        .collect();
    let lineage = has_row_lineage(table) && !planned.is_empty();
    let more = if lineage { lineage_fields().to_vec() } else { Vec::new() };
    let mut work = Replacing {
        table,
        scope,
        matcher,
        deletes: Deletes::new(table, &entries, &planned),
        lineage,
        writer: TableWriter::new(table, ids.fresh_uuid(), Limits::default(), &more)?,
        staged: Staged::default(),
    };
    match work.run(&planned, inputs, progress).await {
        Ok(()) => {
            let added = work.writer.finish().await?;
            Ok(Staged { added, ..work.staged })
        }
        Err(error) => {
            work.writer.discard().await;
            Err(error)
        }
    }
}

struct Replacing<'a> {
    table: &'a LoadedTable,
    scope: &'a Scope,
    matcher: Matcher,
    deletes: Deletes<'a>,
    lineage: bool,
    writer: TableWriter<'a>,
    staged: Staged,
}

/// How the live rows of a file stand to the scope.
struct Standing {
    inside: u64,
    outside: u64,
}

impl Replacing<'_> {
    async fn run(
        &mut self,
        planned: &[&LiveEntry],
        inputs: &[PathBuf],
        progress: &dyn Progress,
    ) -> Result<(), DataError> {
        let bytes = planned.iter().map(|entry| entry.file.file_size_in_bytes()).sum();
        progress.stage(&format!("reading what is there ({} files)", planned.len()), Some(bytes));
        for data in planned {
            let standing = self.standing(data).await?;
            if standing.inside > 0 {
                if standing.outside > 0 {
                    self.carry(data, standing.outside).await?;
                }
                let path = data.file.file_path().to_owned();
                self.staged.removed.push(RemovedFile { path, content_offset: None });
                self.staged.rows_removed = self.staged.rows_removed.saturating_add(standing.inside);
                self.staged.rows_carried = self.staged.rows_carried.saturating_add(standing.outside);
            }
            progress.add(data.file.record_count(), data.file.file_size_in_bytes());
        }
        for path in inputs {
            let mut batches = input::open(path, &self.writer.schema, progress).await?;
            while let Some(batch) = batches.try_next().await? {
                let name = path.display().to_string();
                let inside = self.matcher.evaluate(&batch.rows).map_err(|error| scope_error(&name, &error))?;
                if let Some(row) = (0..inside.len()).find(|row| inside.is_null(*row) || !inside.value(*row)) {
                    let number = batch.first_row.saturating_add(row as u64);
                    let why = if inside.is_null(row) { "the scope is unknown on it (a null)" } else { "it is outside" };
                    return Err(DataError::Input {
                        file: name,
                        reason: format!(
                            "row {number} is not in the scope {}: {why}; only rows inside may replace what is inside",
                            self.scope.brief(&self.writer.schema)
                        ),
                    });
                }
                let rows = batch.rows.num_rows() as u64;
                let complete = self.complete(batch.rows, None)?;
                self.writer.write(&complete).await?;
                self.staged.rows_added = self.staged.rows_added.saturating_add(rows);
                progress.add(rows, batch.bytes);
            }
        }
        Ok(())
    }

    /// Counts live rows inside and outside, reading only the columns that decide it.
    async fn standing(&mut self, data: &LiveEntry) -> Result<Standing, DataError> {
        let applied = self.deletes.of(data).await?;
        if self.scope.is_whole_table() && applied.is_empty() {
            return Ok(Standing { inside: data.file.record_count(), outside: 0 });
        }
        let schema = self.writer.schema.clone();
        let mut project: BTreeSet<i32> = self
            .scope
            .field_ids()
            .into_iter()
            .chain(applied.field_ids())
            .filter_map(|id| top_level(&schema, id))
            .collect();
        if project.is_empty() {
            project.extend(schema.as_struct().fields().first().map(|field| field.id));
        }
        let project: Vec<i32> = project.into_iter().collect();
        let mut live = LiveRows::open(self.table, data, applied, &project, false).await?;
        let mut standing = Standing { inside: 0, outside: 0 };
        while let Some(batch) = live.next().await? {
            let inside = self.inside(data, &batch.rows)?.true_count() as u64;
            standing.inside = standing.inside.saturating_add(inside);
            standing.outside = standing.outside.saturating_add(batch.rows.num_rows() as u64 - inside);
        }
        Ok(standing)
    }

    /// Writes the rows of a file that are not inside.
    async fn carry(&mut self, data: &LiveEntry, expected: u64) -> Result<(), DataError> {
        let applied = self.deletes.of(data).await?;
        let project: Vec<i32> = self.writer.schema.as_struct().fields().iter().map(|field| field.id).collect();
        let mut live = LiveRows::open(self.table, data, applied, &project, self.lineage).await?;
        let mut carried = 0u64;
        while let Some(LiveBatch { rows, lineage }) = live.next().await? {
            let inside = self.inside(data, &rows)?;
            let damaged = |error: arrow_schema::ArrowError| DataError::Damaged {
                file: data.file.file_path().to_owned(),
                reason: error.to_string(),
            };
            // False and unknown both stay.
            let stays: BooleanArray =
                (0..inside.len()).map(|row| Some(inside.is_null(row) || !inside.value(row))).collect();
            let rows = filter_record_batch(&rows, &stays).map_err(damaged)?;
            let lineage = match lineage {
                None => None,
                Some([row_ids, numbers]) => {
                    Some([filter(&row_ids, &stays).map_err(damaged)?, filter(&numbers, &stays).map_err(damaged)?])
                }
            };
            carried = carried.saturating_add(rows.num_rows() as u64);
            let complete = self.complete(rows, lineage)?;
            self.writer.write(&complete).await?;
        }
        match carried == expected {
            true => Ok(()),
            false => Err(DataError::Damaged {
                file: data.file.file_path().to_owned(),
                reason: format!("it had {expected} rows outside the scope when first read, and {carried} after"),
            }),
        }
    }

    fn inside(&self, data: &LiveEntry, rows: &RecordBatch) -> Result<BooleanArray, DataError> {
        self.matcher.evaluate(rows).map_err(|error| scope_error(data.file.file_path(), &error))
    }

    /// The rows with the writer's further columns: the lineage given, else null, which is inherited on commit.
    fn complete(
        &self,
        rows: RecordBatch,
        lineage: Option<[arrow_array::ArrayRef; 2]>,
    ) -> Result<RecordBatch, DataError> {
        let target = self.writer.arrow_schema.clone();
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        match lineage {
            Some(lineage) if self.lineage => columns.extend(lineage),
            _ => {
                let missing = target.fields().iter().skip(columns.len());
                let nulls: Vec<_> = missing.map(|field| new_null_array(field.data_type(), count)).collect();
                columns.extend(nulls);
            }
        }
        RecordBatch::try_new(target, columns).map_err(|error| DataError::Damaged {
            file: format!("table {}", self.table.name),
            reason: error.to_string(),
        })
    }
}

fn scope_error(file: &str, error: &ScopeError) -> DataError {
    match error.is_input() {
        true => DataError::Invalid(error.to_string()),
        false => DataError::Damaged { file: file.to_owned(), reason: error.to_string() },
    }
}
