//! A table in memory: files with their rows, and which rows readers see.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use iceberg::metadata_columns::RESERVED_FIELD_ID_DELETE_FILE_PATH;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PartitionSpecRef, Struct,
};

use super::draws::Draws;
use super::rows::{Row, Value, field_id, metrics};
use crate::conflict::Named;
use crate::identity::LiveEntry;

/// What is in a file.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Rows(Vec<Row>),
    /// Path and position.
    Positions(BTreeSet<(String, usize)>),
    /// Columns, and the values that a deleted row has in them.
    Equal(Vec<usize>, Vec<Vec<Value>>),
}

/// A live file.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub entry: LiveEntry,
    pub content: Arc<Content>,
}

impl File {
    pub(super) fn path(&self) -> &str {
        self.entry.file.file_path()
    }

    pub(super) fn rows(&self) -> &[Row] {
        match self.content.as_ref() {
            Content::Rows(rows) => rows,
            Content::Positions(_) | Content::Equal(..) => &[],
        }
    }

    pub(super) fn is_vector(&self) -> bool {
        self.entry.file.file_format() == DataFileFormat::Puffin
    }
}

/// A state of the table.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub files: Vec<File>,
    pub last_sequence_number: i64,
    pub specs: Vec<PartitionSpecRef>,
    /// 2 or 3.
    pub version: u8,
    /// Is `key` a long?
    pub wide: bool,
}

impl State {
    pub(super) fn entries(&self) -> Vec<LiveEntry> {
        self.files.iter().map(|file| file.entry.clone()).collect()
    }

    pub(super) fn spec(&self, id: i32) -> &PartitionSpecRef {
        &self.specs[usize::try_from(id).expect("a spec")]
    }

    pub(super) fn data(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.entry.is_data())
    }

    pub(super) fn deletes(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| !file.entry.is_data())
    }

    /// What position delete files name, as reading them would tell.
    pub(super) fn named(&self) -> BTreeMap<String, Named> {
        let named = |file: &File| match file.content.as_ref() {
            Content::Positions(positions) => {
                let paths = positions.iter().map(|(path, _)| path.clone()).collect();
                Some((file.path().to_owned(), Named::Files(paths)))
            }
            Content::Rows(_) | Content::Equal(..) => None,
        };
        self.files.iter().filter_map(named).collect()
    }

    /// Is the row at a position of a data file deleted? Source: Iceberg spec, "Scan Planning".
    fn deleted(&self, data: &File, position: usize, row: &Row) -> bool {
        self.deletes().any(|delete| {
            let same = same_partition(&delete.entry, &data.entry);
            let (by, of) = (delete.entry.sequence_number, data.entry.sequence_number);
            match delete.content.as_ref() {
                Content::Rows(_) => false,
                Content::Positions(positions) => {
                    same && by >= of && positions.contains(&(data.path().to_owned(), position))
                }
                Content::Equal(columns, keys) => {
                    let global = self.spec(delete.entry.spec_id).is_unpartitioned();
                    let key = || columns.iter().map(|column| row.values[*column].clone()).collect::<Vec<_>>();
                    (global || same) && by > of && keys.contains(&key())
                }
            }
        })
    }

    /// The rows of a data file that readers see, with their positions.
    pub(super) fn seen_in(&self, data: &File) -> Vec<(usize, Row)> {
        let rows = data.rows().iter().cloned().enumerate();
        rows.filter(|(position, row)| !self.deleted(data, *position, row)).collect()
    }

    /// The rows that readers see, and how often each.
    pub(super) fn seen(&self) -> BTreeMap<u64, (usize, Row)> {
        let mut seen: BTreeMap<u64, (usize, Row)> = BTreeMap::new();
        for (_, row) in self.data().flat_map(|data| self.seen_in(data)) {
            seen.entry(row.id).or_insert((0, row)).0 += 1;
        }
        seen
    }
}

/// Values of a widened column are the same values.
fn same_partition(one: &LiveEntry, other: &LiveEntry) -> bool {
    let widened = |value: &Option<Literal>| match value {
        Some(Literal::Primitive(iceberg::spec::PrimitiveLiteral::Int(value))) => Some(Literal::long(i64::from(*value))),
        other => other.clone(),
    };
    let key = |entry: &LiveEntry| entry.file.partition().fields().iter().map(widened).collect::<Vec<_>>();
    one.spec_id == other.spec_id && key(one) == key(other)
}

/// Makes files, each under a path of its own.
#[derive(Debug)]
pub(super) struct Factory {
    pub who: &'static str,
    pub made: usize,
}

impl Factory {
    fn builder(&mut self, spec: i32, partition: &[Option<Literal>], rows: usize) -> DataFileBuilder {
        self.made += 1;
        let mut builder = DataFileBuilder::default();
        builder
            .file_path(format!("{}-{}", self.who, self.made))
            .file_format(DataFileFormat::Parquet)
            .partition(partition.iter().cloned().collect::<Struct>())
            .partition_spec_id(spec)
            .record_count(u64::try_from(rows).expect("few rows"))
            .file_size_in_bytes(1);
        builder
    }

    /// A data file of rows of one partition.
    pub(super) fn data(
        &mut self,
        draws: &mut Draws<'_>,
        spec: i32,
        partition: &[Option<Literal>],
        rows: Vec<Row>,
        wide: bool,
        sequence_number: i64,
    ) -> File {
        let told = metrics(draws, &rows, &[0, 1, 2, 3, 4, 5], wide);
        let mut builder = self.builder(spec, partition, rows.len());
        builder
            .content(DataContentType::Data)
            .null_value_counts(told.nulls)
            .nan_value_counts(told.nans)
            .lower_bounds(told.lower)
            .upper_bounds(told.upper);
        file(builder, spec, sequence_number, Content::Rows(rows))
    }

    /// Position deletes of one partition: a deletion vector where they name one file and `vector` says so.
    pub(super) fn positions(
        &mut self,
        draws: &mut Draws<'_>,
        spec: i32,
        partition: &[Option<Literal>],
        positions: BTreeSet<(String, usize)>,
        vector: bool,
        sequence_number: i64,
    ) -> File {
        let mut builder = self.builder(spec, partition, positions.len());
        builder.content(DataContentType::PositionDeletes);
        let paths: BTreeSet<&String> = positions.iter().map(|(path, _)| path).collect();
        if let (Some(first), Some(last)) = (paths.first(), paths.last()) {
            if vector {
                builder
                    .file_format(DataFileFormat::Puffin)
                    .referenced_data_file(Some((*first).clone()))
                    .content_offset(Some(4))
                    .content_size_in_bytes(Some(40));
            } else if paths.len() == 1 && draws.once_in(3) {
                builder.referenced_data_file(Some((*first).clone()));
            } else if draws.once_in(2) {
                builder
                    .lower_bounds(HashMap::from([(RESERVED_FIELD_ID_DELETE_FILE_PATH, Datum::string(first.as_str()))]))
                    .upper_bounds(HashMap::from([(RESERVED_FIELD_ID_DELETE_FILE_PATH, Datum::string(last.as_str()))]));
            }
        }
        file(builder, spec, sequence_number, Content::Positions(positions))
    }

    /// Equality deletes of one partition, or of all where the spec has none. `rows` are those that the keys are taken from.
    #[allow(clippy::too_many_arguments, reason = "each is one part of what the file says")]
    pub(super) fn equal(
        &mut self,
        draws: &mut Draws<'_>,
        (spec, partition): (i32, &[Option<Literal>]),
        columns: Vec<usize>,
        rows: &[Row],
        wide: bool,
        sequence_number: i64,
    ) -> File {
        let told = metrics(draws, rows, &columns, wide);
        let mut builder = self.builder(spec, partition, rows.len());
        builder
            .content(DataContentType::EqualityDeletes)
            .equality_ids(Some(columns.iter().map(|column| field_id(*column)).collect()))
            .null_value_counts(told.nulls)
            .nan_value_counts(told.nans)
            .lower_bounds(told.lower)
            .upper_bounds(told.upper);
        let key = |row: &Row| columns.iter().map(|column| row.values[*column].clone()).collect();
        let keys = rows.iter().map(key).collect();
        file(builder, spec, sequence_number, Content::Equal(columns, keys))
    }
}

fn file(builder: DataFileBuilder, spec_id: i32, sequence_number: i64, content: Content) -> File {
    let file: DataFile = builder.build().expect("a file");
    let entry = LiveEntry {
        file,
        spec_id,
        sequence_number,
        file_sequence_number: Some(sequence_number),
        snapshot_id: None,
        first_row_id: None,
    };
    File { entry, content: Arc::new(content) }
}
