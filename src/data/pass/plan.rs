//! Which files are to be read, in which state, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::TryStreamExt;
use iceberg::scan::FileScanTask;
use iceberg::spec::{DataContentType, DataFileFormat, SchemaRef, Transform};

use super::PassInput;
use super::read::{Job, Side};
use crate::data::{AboutFile, DataError};
use crate::identity::LiveEntry;
use crate::ids::SnapshotId;

/// The data files of both sides that a check could need.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Files of the head, and of the base those that the head has not, or has with other deletes.
    pub jobs: Vec<Job>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<(Job, String)>,
}

/// One side's live entries, found by path.
struct Entries<'a> {
    side: Side,
    all: &'a [LiveEntry],
    data: BTreeMap<&'a str, usize>,
    deletes: BTreeMap<&'a str, Vec<&'a LiveEntry>>,
}

impl<'a> Entries<'a> {
    fn new(side: Side, all: &'a [LiveEntry]) -> Self {
        let mut data = BTreeMap::new();
        let mut deletes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, entry) in all.iter().enumerate() {
            match entry.file.content_type() {
                DataContentType::Data => {
                    data.insert(entry.file.file_path(), at);
                }
                DataContentType::PositionDeletes | DataContentType::EqualityDeletes => {
                    deletes.entry(entry.file.file_path()).or_default().push(entry);
                }
            }
        }
        Self { side, all, data, deletes }
    }

    /// The delete entries that a task names and that reach its file. A deletion vector is listed for every file of
    /// its partition, and reaches one.
    fn reaching(&self, task: &FileScanTask) -> Vec<&'a LiveEntry> {
        let listed = task.deletes.iter().filter_map(|delete| self.deletes.get(delete.file_path.as_str()));
        listed
            .flatten()
            .copied()
            .filter(|entry| {
                let of = entry.file.referenced_data_file();
                of.is_none_or(|path| path == task.data_file_path)
            })
            .collect()
    }
}

/// What tells one delete from another as far as a data file goes.
fn delete_keys(deletes: &[&LiveEntry]) -> BTreeSet<(String, Option<i64>, i64)> {
    deletes
        .iter()
        .map(|entry| (entry.file.file_path().to_owned(), entry.file.content_offset(), entry.sequence_number))
        .collect()
}

/// Plans the files of both sides.
pub(crate) async fn plan(input: &PassInput<'_>, schema: &SchemaRef) -> Result<Plan, DataError> {
    let head = Entries::new(Side::Head, input.head_entries);
    let base = Entries::new(Side::Base, input.base_entries);
    let head_tasks = tasks(input, Some(input.head)).await?;
    let base_tasks = tasks(input, input.base).await?;
    let deletes_of = |entries: &Entries<'_>, tasks: &[FileScanTask]| -> BTreeMap<String, _> {
        tasks.iter().map(|task| (task.data_file_path.clone(), delete_keys(&entries.reaching(task)))).collect()
    };
    let (in_head, in_base) = (deletes_of(&head, &head_tasks), deletes_of(&base, &base_tasks));
    let mut plan = Plan::default();
    for (entries, other, tasks, others_deletes) in
        [(&head, &base, head_tasks, &in_base), (&base, &head, base_tasks, &in_head)]
    {
        for task in tasks {
            let entry = *entries.data.get(task.data_file_path.as_str()).ok_or_else(|| DataError::Damaged {
                file: task.data_file_path.clone(),
                reason: "it is planned, and not among the live files of its snapshot".to_owned(),
            })?;
            let Some(live) = entries.all.get(entry) else { continue };
            let on_both = other
                .data
                .get(task.data_file_path.as_str())
                .and_then(|at| other.all.get(*at))
                .is_some_and(|same| same.sequence_number == live.sequence_number);
            let deletes = entries.reaching(&task);
            let same_deletes = others_deletes.get(&task.data_file_path) == Some(&delete_keys(&deletes));
            let changed = !(on_both && same_deletes);
            if entries.side == Side::Base && !changed {
                continue;
            }
            let unreadable = why_unreadable(live, &deletes);
            let job = job(input, schema, entries.side, task, entry, live, changed, on_both)?;
            match unreadable {
                None => plan.jobs.push(job),
                Some(reason) => plan.unreadable.push((job, reason)),
            }
        }
    }
    Ok(plan)
}

#[allow(clippy::too_many_arguments, reason = "one caller, and each is another fact of one file")]
fn job(
    input: &PassInput<'_>,
    schema: &SchemaRef,
    side: Side,
    mut task: FileScanTask,
    entry: usize,
    live: &LiveEntry,
    changed: bool,
    on_both: bool,
) -> Result<Job, DataError> {
    let path = live.file.file_path();
    let spec = input.table.metadata.partition_spec_by_id(live.spec_id).ok_or_else(|| DataError::Damaged {
        file: path.to_owned(),
        reason: format!("its partition spec {} is not in the table's metadata", live.spec_id),
    })?;
    // A deletion vector that reaches another file of the partition is not read for this one.
    let vectors: BTreeSet<&str> = (match side {
        Side::Head => input.head_entries,
        Side::Base => input.base_entries,
    })
    .iter()
    .filter(|entry| entry.file.file_format() == DataFileFormat::Puffin)
    .map(|entry| entry.file.file_path())
    .collect();
    task.deletes.retain(|delete| !vectors.contains(delete.file_path.as_str()));
    let mut present: Vec<i32> = live.file.value_counts().keys().copied().collect();
    present.sort_unstable();
    let added = side == Side::Head && !on_both;
    // An identity partition's column need not be in the file (Iceberg spec, "Column Projection"). Where it is, the
    // column is read, and the manifest's value has to agree with it; where it is not, or that is not known, the
    // manifest's value stands in for it. The planner leaves the spec out, without which nothing would.
    let fields = schema.as_struct().fields();
    let mut identities = spec.fields().iter().filter(|field| field.transform == Transform::Identity);
    let plain = identities.clone().all(|field| present.contains(&field.source_id))
        || identities.any(|field| fields.iter().all(|column| column.id != field.source_id));
    task.partition_spec = if plain { None } else { Some(spec.clone()) };
    let may_match = added || input.scope.may_match(&live.file, spec, schema);
    Ok(Job { side, task, entry, changed, added, may_match, present })
}

fn why_unreadable(live: &LiveEntry, deletes: &[&LiveEntry]) -> Option<String> {
    let path = live.file.file_path();
    let vector = deletes.iter().find(|entry| entry.file.file_format() == DataFileFormat::Puffin);
    if let Some(vector) = vector {
        let vector = vector.file.file_path();
        return Some(format!("{path}: its rows are deleted by the deletion vector {vector}, which cannot be read yet"));
    }
    for file in std::iter::once(live).chain(deletes.iter().copied()).map(|entry| &entry.file) {
        let path = file.file_path();
        if file.file_format() != DataFileFormat::Parquet {
            return Some(format!("{path}: files of format {} cannot be read yet", file.file_format()));
        }
        if file.key_metadata().is_some() {
            return Some(format!("{path}: it is encrypted, and encrypted files cannot be read yet"));
        }
    }
    None
}

/// The scan tasks of a snapshot's data files, one a file, with the deletes that may reach it.
async fn tasks(input: &PassInput<'_>, snapshot: Option<SnapshotId>) -> Result<Vec<FileScanTask>, DataError> {
    let Some(snapshot) = snapshot else { return Ok(Vec::new()) };
    let about = format!("snapshot {snapshot} of {}", input.table.name);
    let table = input.table.to_iceberg().about(&about)?;
    let scan = table.scan().snapshot_id(snapshot.0).build().about(&about)?;
    let mut tasks: Vec<FileScanTask> = scan.plan_files().await.about(&about)?.try_collect().await.about(&about)?;
    tasks.sort_by(|a, b| a.data_file_path.cmp(&b.data_file_path));
    Ok(tasks)
}

/// The partition spec of an entry; the plan has made sure that there is one.
pub(crate) fn spec_of(input: &PassInput<'_>, entry: &LiveEntry) -> Option<Arc<iceberg::spec::PartitionSpec>> {
    input.table.metadata.partition_spec_by_id(entry.spec_id).cloned()
}
