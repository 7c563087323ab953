//! The first reading: every batch is looked at by all checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use iceberg::spec::PartitionSpec;

use super::open::{KeyQuestion, Questions, matcher};
use super::plan::spec_of;
use super::read::{Job, Projection, Reading, Side, Visitor, arrow_error};
use super::{DataError, PassInput};
use crate::contract::Within;
use crate::data::checks::keys::{Candidates, HashRange, KeyHashes, Nulls};
use crate::data::checks::manifest::SeenFile;
use crate::data::checks::row_hash::KeyHash;
use crate::data::checks::source::true_only;
use crate::data::checks::totals::Totals;
use crate::identity::LiveEntry;
use crate::scope::Matcher;

/// How many rows a file has, and how many of them are in scope.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FileRows {
    pub rows: u64,
    pub inside: u64,
    pub changed: bool,
}

/// An added file against what its manifest says.
#[derive(Debug, Clone)]
pub(crate) struct SeenAdded {
    pub file: SeenFile,
    pub deletes: bool,
}

/// What the first reading found.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// By side and entry.
    pub files: BTreeMap<(Side, usize), FileRows>,
    /// By check: what was seen of nulls, the hashes that occur more than once, and how many ranges are still to be read.
    pub keys: BTreeMap<String, KeysGathered>,
    /// By field id, over the rows in scope of the head.
    pub totals: Totals<i32>,
    /// Added files, by entry of the head.
    pub seen: BTreeMap<usize, SeenAdded>,
    /// Files that turned out to be unreadable.
    pub unreadable: Vec<(Job, String)>,
}

/// What the first reading found of one check's keys.
#[derive(Debug)]
pub(crate) struct KeysGathered {
    pub nulls: Nulls,
    pub candidates: Candidates,
    pub bits: u32,
}

impl Gathered {
    /// Rows in scope, in the head and in the base. A file carried over counts for both.
    pub fn inside(&self) -> (u64, u64) {
        self.files.iter().fold((0, 0), |(head, base), ((side, _), file)| match side {
            Side::Head if file.changed => (head + file.inside, base),
            Side::Head => (head + file.inside, base + file.inside),
            Side::Base => (head, base + file.inside),
        })
    }

    /// Rows of the files that the change touches.
    pub fn changed_rows(&self) -> u64 {
        self.files.values().filter(|file| file.changed).map(|file| file.rows).sum()
    }

    /// Rows read.
    pub fn rows(&self) -> u64 {
        self.files.values().map(|file| file.rows).sum()
    }
}

/// What every worker looks at.
struct Context {
    projection: Projection,
    keys: Vec<KeyQuestion>,
    at: Vec<Vec<usize>>,
    added: BTreeMap<usize, (LiveEntry, Arc<PartitionSpec>)>,
}

struct Worker {
    context: Arc<Context>,
    matcher: Option<Matcher>,
    keys: Vec<KeyHashes>,
    found: Gathered,
}

/// Reads the jobs and gathers for all questions.
pub(crate) async fn gather(
    input: &PassInput<'_>,
    reading: &Reading,
    questions: &Questions,
    jobs: &[Job],
    hash: KeyHash,
) -> Result<Gathered, DataError> {
    let schema = reading.schema();
    let mut ids = super::open::scope_columns(input.scope, schema);
    ids.extend(questions.columns());
    let projection = Projection::new(schema, ids)?;
    let positions = |ids: &[i32]| -> Vec<usize> { ids.iter().filter_map(|id| projection.position(*id)).collect() };
    let at = questions.keys.iter().map(|question| positions(&question.ids)).collect();
    let mut ranges = Vec::new();
    for question in &questions.keys {
        ranges.push(ranges_bits(input.memory, questions.keys.len(), question.rows(jobs))?);
    }
    let added = jobs.iter().filter(|job| job.added).filter_map(|job| {
        let entry = input.head_entries.get(job.entry)?;
        Some((job.entry, (entry.clone(), spec_of(input, entry)?)))
    });
    let mut totals = Totals::default();
    for (id, summed) in &questions.totals {
        if let Some(field) = projection.position(*id).and_then(|at| projection.arrow.fields().get(at)) {
            totals.expect(*id, field.data_type(), *summed, false);
        }
    }
    let context = Arc::new(Context { keys: questions.keys.clone(), at, added: added.collect(), projection });
    let visitors = reading
        .run(jobs, &context.projection, || {
            let range = |bits: &u32| KeyHashes::new(hash, HashRange { bits: *bits, value: 0 });
            Ok(Worker {
                context: context.clone(),
                matcher: match input.scope.is_whole_table() {
                    true => None,
                    false => Some(matcher(input.scope, schema)?),
                },
                keys: ranges.iter().map(range).collect(),
                found: Gathered { totals: totals.clone(), ..Gathered::default() },
            })
        })
        .await?;
    let mut all = Gathered { totals, ..Gathered::default() };
    let mut hashes: Vec<KeyHashes> = Vec::new();
    for visitor in visitors {
        let Gathered { files, totals, seen, unreadable, .. } = visitor.found;
        all.files.extend(files);
        all.totals.merge(totals);
        all.seen.extend(seen);
        all.unreadable.extend(unreadable);
        match hashes.is_empty() {
            true => hashes = visitor.keys,
            false => hashes.iter_mut().zip(visitor.keys).for_each(|(hashes, more)| hashes.merge(more)),
        }
    }
    for ((question, hashes), bits) in questions.keys.iter().zip(hashes).zip(ranges) {
        let (nulls, candidates) = hashes.finish();
        all.keys.insert(question.check.clone(), KeysGathered { nulls, candidates, bits });
    }
    Ok(all)
}

/// Bytes a row of hashes takes, sorting included.
const BYTES_A_ROW: u64 = 9;
/// At most 2^6 readings.
const MOST_BITS: u32 = 6;

/// Into how many ranges (2^bits) hashes are divided, so that those of one fit.
fn ranges_bits(memory: u64, checks: usize, rows: u64) -> Result<u32, DataError> {
    // A quarter is left to batches and pages.
    let budget = (memory / 4 * 3) / (checks.max(1) as u64);
    let needed = rows.saturating_mul(BYTES_A_ROW);
    for bits in 0..=MOST_BITS {
        if needed >> bits <= budget {
            return Ok(bits);
        }
    }
    let about = (needed >> MOST_BITS).saturating_mul(checks.max(1) as u64) / 3 * 4;
    Err(DataError::Invalid(format!(
        "checking the keys of {rows} rows needs about {} MiB of memory, and the limit is {} MiB; raise --memory",
        (about >> 20) + 1,
        memory >> 20
    )))
}

impl Visitor for Worker {
    fn visit(&mut self, job: &Job, batch: &RecordBatch) -> Result<(), DataError> {
        let mask = match &self.matcher {
            None => None,
            Some(matcher) => Some(evaluate(matcher, batch)?),
        };
        let rows = batch.num_rows() as u64;
        let inside = mask.as_ref().map_or(rows, |mask| mask.true_count() as u64);
        let file = self.found.files.entry((job.side, job.entry)).or_default();
        file.rows += rows;
        file.inside += inside;
        file.changed = job.changed;
        if job.side == Side::Base {
            return Ok(());
        }
        let context = self.context.clone();
        if let Some((entry, spec)) = context.added.get(&job.entry) {
            let deletes = !job.task.deletes.is_empty();
            let seen = self.found.seen.entry(job.entry).or_insert(SeenAdded { file: SeenFile::default(), deletes });
            let added = seen.file.add(&entry.file, spec, &context.projection.ids, batch);
            added.map_err(|error| arrow_error(&error))?;
        }
        let in_scope = match mask {
            Some(mask) if inside < rows => filter_record_batch(batch, &mask).map_err(|error| arrow_error(&error))?,
            _ => batch.clone(),
        };
        for ((question, at), hashes) in context.keys.iter().zip(&context.at).zip(&mut self.keys) {
            let rows = match question.within {
                Within::Scope => &in_scope,
                Within::Table => batch,
            };
            let keys = rows.project(at).map_err(|error| arrow_error(&error))?;
            hashes.add(&keys).map_err(|error| arrow_error(&error))?;
        }
        let projection = &context.projection;
        self.found.totals.add(&in_scope, |batch, id| projection.column(batch, *id).ok());
        Ok(())
    }

    fn finished(&mut self, job: &Job) -> Result<(), DataError> {
        // A file without a row is read too.
        self.found.files.entry((job.side, job.entry)).or_default().changed = job.changed;
        if job.added {
            let deletes = !job.task.deletes.is_empty();
            self.found.seen.entry(job.entry).or_insert(SeenAdded { file: SeenFile::default(), deletes });
        }
        Ok(())
    }

    fn unreadable(&mut self, job: &Job, reason: String) {
        self.found.unreadable.push((job.clone(), reason));
    }
}

/// The rows for which the scope is true.
pub(crate) fn evaluate(matcher: &Matcher, batch: &RecordBatch) -> Result<BooleanArray, DataError> {
    let mask = matcher
        .evaluate(batch)
        .map_err(|error| DataError::Unsupported { what: "the scope".to_owned(), reason: error.to_string() })?;
    Ok(true_only(&mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_decides_how_often_files_are_read() {
        let mib = 1 << 20;
        assert_eq!(ranges_bits(1 << 30, 1, 50_000_000).unwrap(), 0);
        assert_eq!(ranges_bits(512 * mib, 1, 50_000_000).unwrap(), 1);
        assert_eq!(ranges_bits(512 * mib, 2, 50_000_000).unwrap(), 2);
        let error = ranges_bits(mib, 1, 1_000_000_000).unwrap_err().to_string();
        assert!(error.contains("raise --memory") && error.contains("limit is 1 MiB"), "{error}");
    }
}
