//! What the contract asks, and the readings that settle what the first one left open.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use iceberg::spec::{Schema, Type};

use super::gather::{Gathered, KeysGathered, evaluate};
use super::read::{Job, Projection, Reading, Side, Visitor, arrow_error};
use super::{DataError, PassInput};
use crate::contract::{Aggregate, CheckKind, Contract, KeysCheck, Within};
use crate::data::checks::keys::{self, Duplicates, HashRange, KeyHashes, KeyValues};
use crate::data::checks::row_hash::KeyHash;
use crate::data::checks::scope::{self, Differences, OutsideFault, RowHasher, RowSet};
use crate::data::checks::{EXAMPLES, Finding, column, show_row};
use crate::scope::{Matcher, Scope};

/// Rows outside the scope that are told apart one by one, where the two sides differ.
const MOST_DIFFERENCES: u64 = 1 << 20;
/// Columns shown of a row.
const SHOWN_COLUMNS: usize = 8;

/// What the contract's checks need of the files.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub keys: Vec<KeyQuestion>,
    /// Columns by field id, and whether they are summed.
    pub totals: Vec<(i32, bool)>,
    in_scope: bool,
    whole_table: bool,
    change: bool,
    base_in_scope: bool,
}

/// One keys check whose columns exist.
#[derive(Debug, Clone)]
pub(crate) struct KeyQuestion {
    pub check: String,
    pub ids: Vec<i32>,
    pub within: Within,
}

impl KeyQuestion {
    /// Rows that will be hashed, at most, as the manifests say.
    pub fn rows(&self, jobs: &[Job]) -> u64 {
        let rows = jobs.iter().filter(|job| concerns(self.within, job)).map(|job| job.task.record_count.unwrap_or(0));
        rows.fold(0, u64::saturating_add)
    }
}

fn concerns(within: Within, job: &Job) -> bool {
    job.side == Side::Head && (job.may_match || within == Within::Table)
}

impl Questions {
    pub fn of(contract: &Contract, schema: &Schema) -> Self {
        let mut questions = Self::default();
        for check in &contract.checks {
            match &check.kind {
                CheckKind::Schema(_) => {}
                CheckKind::Keys(rules) => {
                    let Ok(ids) = key_ids(rules, schema) else { continue };
                    match rules.within {
                        Within::Scope => questions.in_scope = true,
                        Within::Table => questions.whole_table = true,
                    }
                    questions.keys.push(KeyQuestion { check: check.name.clone(), ids, within: rules.within });
                }
                CheckKind::Scope => questions.change = true,
                CheckKind::Totals(rules) => {
                    questions.in_scope = true;
                    for measure in &rules.measures {
                        let Some(name) = measure.aggregate.column() else { continue };
                        let Ok(field) = column(schema, name) else { continue };
                        questions.totals.push((field.id, matches!(measure.aggregate, Aggregate::Sum(_))));
                    }
                }
                CheckKind::Volume(_) => {
                    questions.in_scope = true;
                    questions.base_in_scope = true;
                }
            }
        }
        questions
    }

    /// Is the file to be read?
    pub fn needs(&self, job: &Job) -> bool {
        match job.side {
            Side::Head => self.whole_table || self.in_scope && job.may_match || self.change && job.changed,
            Side::Base => self.change && job.changed || self.base_in_scope && job.may_match,
        }
    }

    /// The columns that are looked at, beside the scope's.
    pub fn columns(&self) -> BTreeSet<i32> {
        let keys = self.keys.iter().flat_map(|question| question.ids.iter().copied());
        keys.chain(self.totals.iter().map(|(id, _)| *id)).collect()
    }
}

fn key_ids(rules: &KeysCheck, schema: &Schema) -> Result<Vec<i32>, String> {
    let ids = rules.columns.iter().map(|name| column(schema, name).map(|field| field.id));
    let ids: Vec<i32> = ids.collect::<Result<_, _>>()?;
    let projection = Projection::new(schema, ids.iter().copied()).map_err(|error| error.to_string())?;
    match keys::supported(&projection.arrow) {
        true => Ok(ids),
        false => Err(format!("keys of nested columns cannot be compared: ({})", rules.columns.join(", "))),
    }
}

/// Why the columns of a keys check cannot be looked at.
pub(crate) fn keys_fault(rules: &KeysCheck, schema: &Schema) -> String {
    key_ids(rules, schema).err().unwrap_or_else(|| "its columns were not read".to_owned())
}

/// The top-level columns that the scope looks at.
pub(crate) fn scope_columns(scope: &Scope, schema: &Schema) -> BTreeSet<i32> {
    let wanted = scope.field_ids();
    let fields = schema.as_struct().fields();
    fields
        .iter()
        .filter(|field| wanted.iter().any(|id| holds(field.id, &field.field_type, *id)))
        .map(|f| f.id)
        .collect()
}

fn holds(id: i32, field_type: &Type, wanted: i32) -> bool {
    id == wanted
        || match field_type {
            Type::Primitive(_) => false,
            Type::Struct(fields) => fields.fields().iter().any(|field| holds(field.id, &field.field_type, wanted)),
            Type::List(list) => holds(list.element_field.id, &list.element_field.field_type, wanted),
            Type::Map(map) => {
                [&map.key_field, &map.value_field].iter().any(|field| holds(field.id, &field.field_type, wanted))
            }
        }
}

/// The scope as a filter of batches.
pub(crate) fn matcher(scope: &Scope, schema: &Schema) -> Result<Matcher, DataError> {
    scope.matcher(schema).map_err(|error| DataError::Invalid(error.to_string()))
}

/// Something that takes the rows of a repeated reading.
trait Taker: Send + 'static {
    fn take(&mut self, side: Side, rows: &RecordBatch) -> Result<(), ArrowError>;
}

/// Which rows of a file a repeated reading looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    Inside,
    Outside,
}

struct Again<T> {
    matcher: Option<Matcher>,
    rows: Rows,
    columns: Vec<usize>,
    taker: T,
    unreadable: Vec<String>,
}

impl<T: Taker> Visitor for Again<T> {
    fn visit(&mut self, job: &Job, batch: &RecordBatch) -> Result<(), DataError> {
        let failed = |error: ArrowError| arrow_error(&error);
        let mask = match (&self.matcher, self.rows) {
            (_, Rows::All) | (None, Rows::Inside) => None,
            (None, Rows::Outside) => return Ok(()),
            (Some(matcher), Rows::Inside) => Some(evaluate(matcher, batch)?),
            (Some(matcher), Rows::Outside) => {
                let inside = evaluate(matcher, batch)?;
                Some(BooleanArray::new(!inside.values(), None))
            }
        };
        let rows = batch.project(&self.columns).map_err(failed)?;
        let rows = match mask {
            Some(mask) => filter_record_batch(&rows, &mask).map_err(failed)?,
            None => rows,
        };
        self.taker.take(job.side, &rows).map_err(failed)
    }

    fn unreadable(&mut self, _job: &Job, reason: String) {
        self.unreadable.push(reason);
    }
}

/// Reads jobs again, and hands the rows' columns to takers; `Err` in the value where a file cannot be read.
async fn again<T: Taker>(
    input: &PassInput<'_>,
    reading: &Reading,
    jobs: &[Job],
    ids: &[i32],
    rows: Rows,
    mut taker: impl FnMut() -> T,
) -> Result<Result<Vec<T>, BTreeSet<String>>, DataError> {
    let schema = reading.schema();
    let mut wanted = match rows {
        Rows::All => BTreeSet::new(),
        Rows::Inside | Rows::Outside => scope_columns(input.scope, schema),
    };
    wanted.extend(ids);
    let projection = Projection::new(schema, wanted)?;
    let columns: Vec<usize> = ids.iter().filter_map(|id| projection.position(*id)).collect();
    let visitors = reading
        .run(jobs, &projection, || {
            let filtered = rows != Rows::All && !input.scope.is_whole_table();
            let matcher = if filtered { Some(matcher(input.scope, schema)?) } else { None };
            Ok(Again { matcher, rows, columns: columns.clone(), taker: taker(), unreadable: Vec::new() })
        })
        .await?;
    let unreadable: BTreeSet<String> = visitors.iter().flat_map(|visitor| visitor.unreadable.clone()).collect();
    if !unreadable.is_empty() {
        return Ok(Err(unreadable));
    }
    Ok(Ok(visitors.into_iter().map(|visitor| visitor.taker).collect()))
}

impl Taker for KeyHashes {
    fn take(&mut self, _side: Side, rows: &RecordBatch) -> Result<(), ArrowError> {
        self.add(rows)
    }
}

impl Taker for KeyValues {
    fn take(&mut self, _side: Side, rows: &RecordBatch) -> Result<(), ArrowError> {
        self.add(rows)
    }
}

/// Reads the remaining ranges of hashes, and compares the keys behind those that occur more than once.
pub(crate) async fn settle_keys(
    input: &PassInput<'_>,
    reading: &Reading,
    jobs: &[Job],
    rules: &KeysCheck,
    found: KeysGathered,
    hash: KeyHash,
    at_once: usize,
) -> Result<Finding, DataError> {
    let ids = match key_ids(rules, reading.schema()) {
        Ok(ids) => ids,
        Err(reason) => return Ok(Finding::error(reason)),
    };
    let jobs: Vec<Job> = jobs.iter().filter(|job| concerns(rules.within, job)).cloned().collect();
    let rows = match rules.within {
        Within::Scope => Rows::Inside,
        Within::Table => Rows::All,
    };
    let KeysGathered { nulls, mut candidates, bits } = found;
    let bytes = jobs.iter().map(|job| job.task.file_size_in_bytes).fold(0u64, u64::saturating_add);
    for value in 1..1u64 << bits {
        input.progress.stage(&format!("checking keys, reading {} of {}", value + 1, 1u64 << bits), Some(bytes));
        let range = HashRange { bits, value };
        let made = || KeyHashes::new(hash, range);
        let mut takers = match again(input, reading, &jobs, &ids, rows, made).await? {
            Ok(takers) => takers.into_iter(),
            Err(files) => return Ok(Finding::unreadable(&files)),
        };
        if let Some(mut all) = takers.next() {
            takers.for_each(|more| all.merge(more));
            candidates.merge(all.finish().1);
        }
    }
    let mut duplicates = Duplicates::default();
    let mut chunks = candidates.hashes.chunks(at_once.max(1));
    for chunk in chunks.by_ref() {
        input.progress.stage("comparing keys", Some(bytes));
        let wanted = Arc::new(chunk.to_vec());
        let made = || KeyValues::new(hash, wanted.clone());
        let mut takers = match again(input, reading, &jobs, &ids, rows, made).await? {
            Ok(takers) => takers.into_iter(),
            Err(files) => return Ok(Finding::unreadable(&files)),
        };
        if let Some(mut all) = takers.next() {
            takers.for_each(|more| all.merge(more));
            duplicates.add(all.duplicates());
        }
        if duplicates.keys > 0 {
            break;
        }
    }
    duplicates.more = candidates.cut || chunks.next().is_some();
    if duplicates.keys == 0 && candidates.cut {
        return Ok(Finding::error(
            "too many different keys have the same hash, so whether two are equal was not decided",
        ));
    }
    Ok(keys::conclude(&rules.columns, &nulls, &duplicates))
}

#[derive(Default)]
struct Sets {
    base: RowSet,
    head: RowSet,
    hasher: RowHasher,
}

impl Taker for Sets {
    fn take(&mut self, side: Side, rows: &RecordBatch) -> Result<(), ArrowError> {
        let set = match side {
            Side::Base => &mut self.base,
            Side::Head => &mut self.head,
        };
        self.hasher.add_to(set, rows)
    }
}

fn sign(side: Side) -> i64 {
    match side {
        Side::Base => -1,
        Side::Head => 1,
    }
}

#[derive(Default)]
struct Counts {
    differences: Differences,
    hasher: RowHasher,
}

impl Taker for Counts {
    fn take(&mut self, side: Side, rows: &RecordBatch) -> Result<(), ArrowError> {
        let differences = &mut self.differences;
        self.hasher.for_each(rows, |_, digest| differences.count(digest, sign(side)))
    }
}

struct Examples {
    differences: Arc<Differences>,
    hasher: RowHasher,
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Taker for Examples {
    fn take(&mut self, side: Side, rows: &RecordBatch) -> Result<(), ArrowError> {
        let mut hits = Vec::new();
        let (differences, full) = (&self.differences, |set: &BTreeSet<String>| set.len() >= 4 * EXAMPLES);
        self.hasher.for_each(rows, |row, digest| {
            if differences.has_more(digest, sign(side)) {
                hits.push(row);
            }
        })?;
        let shown = match side {
            Side::Base => &mut self.removed,
            Side::Head => &mut self.added,
        };
        for row in hits {
            if full(shown) {
                break;
            }
            shown.insert(show_row(rows, row, SHOWN_COLUMNS)?);
        }
        Ok(())
    }
}

/// Compares the rows outside the scope before and after, where there are any.
pub(crate) async fn settle_scope(
    input: &PassInput<'_>,
    reading: &Reading,
    jobs: &[Job],
    gathered: &Gathered,
) -> Result<Finding, DataError> {
    let examined = gathered.changed_rows();
    let outside: Vec<Job> = jobs
        .iter()
        .filter(|job| job.changed)
        .filter(|job| gathered.files.get(&(job.side, job.entry)).is_some_and(|file| file.inside < file.rows))
        .cloned()
        .collect();
    let (mut base, mut head) = (RowSet::default(), RowSet::default());
    if outside.is_empty() {
        return Ok(scope::conclude(examined, &base, &head, None));
    }
    let ids: Vec<i32> = reading.schema().as_struct().fields().iter().map(|field| field.id).collect();
    let projection = Projection::new(reading.schema(), ids.iter().copied())?;
    if let Some(column) = scope::incomparable(&projection.arrow) {
        let reason =
            format!("files with rows outside the scope were rewritten, and column {column} cannot be compared");
        return Ok(Finding::error(reason));
    }
    let bytes = outside.iter().map(|job| job.task.file_size_in_bytes).fold(0u64, u64::saturating_add);
    input.progress.stage("comparing rows outside the scope", Some(bytes));
    match again(input, reading, &outside, &ids, Rows::Outside, Sets::default).await? {
        Ok(sets) => sets.into_iter().for_each(|sets| {
            base.merge(sets.base);
            head.merge(sets.head);
        }),
        Err(files) => return Ok(Finding::unreadable(&files)),
    }
    if base == head {
        return Ok(scope::conclude(examined, &base, &head, None));
    }
    let fault = match base.rows.saturating_add(head.rows) <= MOST_DIFFERENCES {
        true => differences(input, reading, &outside, &ids).await?,
        false => OutsideFault {
            differences: None,
            examples: outside.iter().take(EXAMPLES).map(|job| job.task.data_file_path.clone()).collect(),
        },
    };
    Ok(scope::conclude(examined, &base, &head, Some(fault)))
}

async fn differences(
    input: &PassInput<'_>,
    reading: &Reading,
    jobs: &[Job],
    ids: &[i32],
) -> Result<OutsideFault, DataError> {
    let mut all = Differences::default();
    if let Ok(counts) = again(input, reading, jobs, ids, Rows::Outside, Counts::default).await? {
        counts.into_iter().for_each(|counts| all.merge(counts.differences));
    }
    all.settle();
    let (totals, all) = (all.totals(), Arc::new(all));
    let made = || Examples {
        differences: all.clone(),
        hasher: RowHasher::default(),
        added: BTreeSet::new(),
        removed: BTreeSet::new(),
    };
    let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
    if let Ok(found) = again(input, reading, jobs, ids, Rows::Outside, made).await? {
        for mut found in found {
            added.append(&mut found.added);
            removed.append(&mut found.removed);
        }
    }
    let say = |what: &'static str| move |row: &String| format!("{what} outside: {row}");
    let mut examples: Vec<String> = added.iter().take(EXAMPLES).map(say("added")).collect();
    examples.extend(removed.iter().take(EXAMPLES).map(say("removed")));
    Ok(OutsideFault { differences: Some(totals), examples })
}
