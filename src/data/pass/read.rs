//! Reading many files at once: batches as the table's current schema has them, deletes applied.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use futures::TryStreamExt;
use iceberg::arrow::{ArrowReader, ArrowReaderBuilder, schema_to_arrow_schema};
use iceberg::io::FileIO;
use iceberg::scan::FileScanTask;
use iceberg::spec::{Schema, SchemaRef};

use crate::data::{AboutFile, DataError, Progress};

/// Files read at the same time. Each holds a few batches and a row group's pages.
const PARALLEL_FILES: usize = 2;
const BATCH_ROWS: usize = 8192;

/// Which state of the table a file is read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// As it is live in the base.
    Base,
    /// As it is live in the candidate's head.
    Head,
}

/// One data file to be read, deletes applied as they stand on its side.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The state.
    pub side: Side,
    /// What to read. Its projection is set by the reading.
    pub task: FileScanTask,
    /// The entry of the file among its side's entries.
    pub entry: usize,
    /// It is of the change: added, removed, or its deletes are others than on the other side.
    pub changed: bool,
    /// It is live in the head and not in the base.
    pub added: bool,
    /// A row of it may be in scope; always so for an added one, whose bounds are not believed yet.
    pub may_match: bool,
    /// The columns that its metrics say it has; empty where it has none.
    pub present: Vec<i32>,
}

/// The columns to be read, in the order of the batches.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    pub ids: Vec<i32>,
    pub arrow: ArrowSchemaRef,
}

impl Projection {
    /// The columns of these ids, which have to be top-level columns of the schema.
    pub fn new(schema: &Schema, ids: impl IntoIterator<Item = i32>) -> Result<Self, DataError> {
        let ids: Vec<i32> = ids.into_iter().collect();
        let full = schema_to_arrow_schema(schema).map_err(|error| DataError::from_iceberg("the schema", &error))?;
        let mut fields = Vec::with_capacity(ids.len());
        for id in &ids {
            let at = schema.as_struct().fields().iter().position(|field| field.id == *id);
            let field = at.and_then(|at| full.fields().get(at)).ok_or_else(|| DataError::Unsupported {
                what: format!("the column of field id {id}"),
                reason: "it is not a top-level column of the current schema".to_owned(),
            })?;
            // A file may hold nulls in a required column: the check says so, not the reader.
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
        }
        Ok(Self { ids, arrow: Arc::new(ArrowSchema::new(fields)) })
    }

    /// Where a column is in the batches.
    pub fn position(&self, id: i32) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }

    /// The column of a batch.
    pub fn column<'a>(&self, batch: &'a RecordBatch, id: i32) -> Result<&'a ArrayRef, DataError> {
        self.position(id)
            .and_then(|at| batch.columns().get(at))
            .ok_or_else(|| arrow_error(&ArrowError::SchemaError(format!("no column of field id {id} was read"))))
    }
}

/// An error of arrow's about data that was read.
pub(crate) fn arrow_error(error: &ArrowError) -> DataError {
    DataError::Unsupported { what: "the data as read".to_owned(), reason: error.to_string() }
}

/// Told what was read; each worker has its own, and all are handed back at the end.
pub(crate) trait Visitor: Send + 'static {
    /// The next rows of a file.
    fn visit(&mut self, job: &Job, batch: &RecordBatch) -> Result<(), DataError>;

    /// A file was read to its end.
    fn finished(&mut self, _job: &Job) -> Result<(), DataError> {
        Ok(())
    }

    /// A file uses something that cannot be read.
    fn unreadable(&mut self, job: &Job, reason: String);
}

/// What reading needs, whatever is read.
#[derive(Clone)]
pub(crate) struct Reading {
    file_io: FileIO,
    schema: SchemaRef,
    progress: Arc<dyn Progress>,
}

impl Reading {
    pub fn new(file_io: FileIO, schema: SchemaRef, progress: Arc<dyn Progress>) -> Self {
        Self { file_io, schema, progress }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the jobs' files, the largest first, and hands each batch to a visitor; returns the visitors.
    pub async fn run<V: Visitor>(
        &self,
        jobs: &[Job],
        projection: &Projection,
        mut visitor: impl FnMut() -> Result<V, DataError>,
    ) -> Result<Vec<V>, DataError> {
        let mut ordered = jobs.to_vec();
        ordered.sort_by_key(|job| std::cmp::Reverse(job.task.file_size_in_bytes));
        let queue = Arc::new(Mutex::new(VecDeque::from(ordered)));
        // One reader a side: a reader remembers a file's deletes by its path, and the two sides differ in them.
        let readers = Readers { base: self.reader()?, head: self.reader()? };
        let workers = PARALLEL_FILES.min(jobs.len()).max(1);
        let mut running = Vec::with_capacity(workers);
        for _ in 0..workers {
            let (reading, queue, readers) = (self.clone(), queue.clone(), readers.clone());
            let (projection, mut visitor) = (projection.clone(), visitor()?);
            running.push(tokio::spawn(async move {
                loop {
                    let next = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
                    let Some(job) = next else { return Ok::<V, DataError>(visitor) };
                    if let Err(error) = reading.read(&readers, &job, &projection, &mut visitor).await {
                        // The other workers have nothing to gain from reading on.
                        queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
                        return Err(error);
                    }
                }
            }));
        }
        let mut visitors = Vec::with_capacity(workers);
        let mut first_error = None;
        for worker in running {
            match worker.await {
                Ok(Ok(visitor)) => visitors.push(visitor),
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                Err(failed) => {
                    let damaged = DataError::Damaged {
                        file: "a data file".to_owned(),
                        reason: format!("reading it failed in a way that is not provided for: {failed}"),
                    };
                    first_error = first_error.or(Some(damaged));
                }
            }
        }
        first_error.map_or(Ok(visitors), Err)
    }

    fn reader(&self) -> Result<ArrowReader, DataError> {
        let runtime = iceberg::Runtime::try_current().about("the runtime")?;
        Ok(ArrowReaderBuilder::new(self.file_io.clone(), runtime)
            .with_data_file_concurrency_limit(1)
            .with_batch_size(BATCH_ROWS)
            // Statistics of row groups may be wrong as bounds may be: every row is looked at.
            .with_row_group_filtering_enabled(false)
            .build())
    }

    async fn read<V: Visitor>(
        &self,
        readers: &Readers,
        job: &Job,
        projection: &Projection,
        visitor: &mut V,
    ) -> Result<(), DataError> {
        let mut task = job.task.clone();
        task.predicate = None;
        task.schema = self.schema.clone();
        task.project_field_ids = projection.ids.clone();
        task.project_field_ids.extend(self.anchor(job, projection));
        let path = task.data_file_path.clone();
        let bytes = task.file_size_in_bytes;
        let reader = match job.side {
            Side::Base => readers.base.clone(),
            Side::Head => readers.head.clone(),
        };
        let one = Box::pin(futures::stream::once(async move { Ok(task) }));
        let mut batches = reader.read(one).about(&path)?.stream();
        let mut told = 0;
        loop {
            match batches.try_next().await {
                Ok(Some(batch)) => {
                    let batch = aligned(&batch, projection).map_err(|error| arrow_error(&error))?;
                    visitor.visit(job, &batch)?;
                    let rows = batch.num_rows() as u64;
                    // Spread over the rows as far as they go: the reader does not say what it has read.
                    let part = job.task.record_count.filter(|all| *all > 0).map_or(0, |all| {
                        u64::try_from(u128::from(bytes) * u128::from(rows) / u128::from(all)).unwrap_or(0)
                    });
                    let part = part.min(bytes - told);
                    told += part;
                    self.progress.add(rows, part);
                }
                Ok(None) => break,
                Err(error) => match unsupported(&error) {
                    Some(reason) => {
                        visitor.unreadable(job, format!("{path}: {reason}"));
                        return Ok(());
                    }
                    None => return Err(DataError::from_iceberg(path, &error)),
                },
            }
        }
        self.progress.add(0, bytes - told);
        visitor.finished(job)
    }

    /// A column to be read besides, where none of the projection is surely in the file: of a file that has none of
    /// the columns asked for, the reader reads all. One that is not nested is taken, because it is smallest.
    fn anchor(&self, job: &Job, projection: &Projection) -> Option<i32> {
        let constant = |id: &i32| {
            let spec = job.task.partition_spec.as_ref();
            spec.is_some_and(|spec| spec.fields().iter().any(|field| field.source_id == *id))
        };
        if projection.ids.iter().any(|id| job.present.contains(id) && !constant(id)) {
            return None;
        }
        let fields = self.schema.as_struct().fields();
        let mut candidates: Vec<i32> =
            fields.iter().filter(|field| field.field_type.is_primitive()).map(|field| field.id).collect();
        candidates.retain(|id| (job.present.is_empty() || job.present.contains(id)) && !constant(id));
        let smallest = candidates.into_iter().min().or_else(|| fields.first().map(|field| field.id));
        smallest.filter(|id| !projection.ids.contains(id))
    }
}

#[derive(Clone)]
struct Readers {
    base: ArrowReader,
    head: ArrowReader,
}

/// The batch with the projection's columns and types only: partition values come as run-ends, and are expanded.
fn aligned(batch: &RecordBatch, projection: &Projection) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::with_capacity(projection.ids.len());
    for (column, field) in batch.columns().iter().zip(projection.arrow.fields()) {
        columns.push(match column.data_type() == field.data_type() {
            true => column.clone(),
            false => arrow_cast::cast(column, field.data_type())?,
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(projection.arrow.clone(), columns, &options)
}

/// The reason, where an error of iceberg's comes down to something that it does not support.
fn unsupported(error: &iceberg::Error) -> Option<String> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(error) = error.downcast_ref::<iceberg::Error>()
            && error.kind() == iceberg::ErrorKind::FeatureUnsupported
        {
            return Some(error.message().to_owned());
        }
        at = error.source();
    }
    None
}
