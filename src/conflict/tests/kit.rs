//! Files of a table, and the question about them, in short.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, Literal, NestedField, PartitionSpec, PartitionSpecRef,
    PrimitiveType, Schema, SchemaRef, Struct, Transform, Type,
};

use crate::conflict::{Concern, Facts, Frame, Named, Reads, Rule, Verdict, classify};
use crate::identity::{Change, LiveEntry};
use crate::ids::TableUuid;
use crate::scope::Scope;

pub(super) fn schema() -> SchemaRef {
    let field = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
    let fields = [
        field(1, "day", PrimitiveType::Date),
        field(2, "key", PrimitiveType::Long),
        field(3, "at", PrimitiveType::Timestamptz),
        field(4, "amount", PrimitiveType::Decimal { precision: 9, scale: 2 }),
        field(5, "name", PrimitiveType::String),
        field(6, "ratio", PrimitiveType::Double),
    ];
    Arc::new(Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap())
}

pub(super) fn spec(id: i32, fields: &[(&str, Transform)]) -> PartitionSpecRef {
    let mut builder = PartitionSpec::builder(schema()).with_spec_id(id);
    for (place, (column, transform)) in fields.iter().enumerate() {
        builder = builder.add_partition_field(*column, format!("part_{place}"), *transform).unwrap();
    }
    Arc::new(builder.build().unwrap())
}

/// A place in the table: spec and partition.
pub(super) type Place = (i32, Vec<Option<Literal>>);

fn builder(path: &str, place: &Place) -> DataFileBuilder {
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(place.1.iter().cloned().collect::<Struct>())
        .partition_spec_id(place.0)
        .record_count(10)
        .file_size_in_bytes(1);
    builder
}

fn entry(builder: &DataFileBuilder, place: &Place, sequence_number: i64) -> LiveEntry {
    LiveEntry {
        file: builder.build().unwrap(),
        spec_id: place.0,
        sequence_number,
        file_sequence_number: Some(sequence_number),
        snapshot_id: None,
        first_row_id: None,
    }
}

pub(super) fn data(path: &str, place: &Place, sequence_number: i64) -> LiveEntry {
    entry(&builder(path, place), place, sequence_number)
}

/// A data file with bounds of one column, without nulls.
pub(super) fn bounded(path: &str, place: &Place, id: i32, lower: Datum, upper: Datum) -> LiveEntry {
    let mut builder = builder(path, place);
    builder
        .null_value_counts(HashMap::from([(id, 0)]))
        .lower_bounds(HashMap::from([(id, lower)]))
        .upper_bounds(HashMap::from([(id, upper)]));
    entry(&builder, place, 1)
}

/// Position deletes; of one file where it is given.
pub(super) fn positions(path: &str, place: &Place, target: Option<&str>) -> LiveEntry {
    let mut builder = builder(path, place);
    builder.content(DataContentType::PositionDeletes).referenced_data_file(target.map(str::to_owned));
    entry(&builder, place, 5)
}

pub(super) fn vector(path: &str, place: &Place, target: &str) -> LiveEntry {
    let mut builder = builder(path, place);
    builder
        .content(DataContentType::PositionDeletes)
        .file_format(DataFileFormat::Puffin)
        .referenced_data_file(Some(target.to_owned()))
        .content_offset(Some(4))
        .content_size_in_bytes(Some(40));
    entry(&builder, place, 5)
}

pub(super) fn equality(path: &str, place: &Place) -> LiveEntry {
    let mut builder = builder(path, place);
    builder.content(DataContentType::EqualityDeletes).equality_ids(Some(vec![2]));
    entry(&builder, place, 5)
}

/// The same entry, as equality deletes by `key`.
pub(super) fn equality_of(entry: &LiveEntry) -> iceberg::spec::DataFile {
    let mut builder = builder(entry.file.file_path(), &(entry.spec_id, entry.file.partition().fields().to_vec()));
    builder
        .content(DataContentType::EqualityDeletes)
        .equality_ids(Some(vec![2]))
        .null_value_counts(entry.file.null_value_counts().clone())
        .lower_bounds(entry.file.lower_bounds().clone())
        .upper_bounds(entry.file.upper_bounds().clone());
    builder.build().unwrap()
}

pub(super) fn encrypted(path: &str, place: &Place) -> LiveEntry {
    let mut builder = builder(path, place);
    builder.key_metadata(Some(vec![1]));
    entry(&builder, place, 5)
}

pub(super) fn change(added: &[LiveEntry], removed: &[LiveEntry]) -> Change {
    Change { added: added.to_vec(), removed: removed.to_vec() }
}

/// A question about a moved base.
pub(super) struct Asked {
    pub scope: String,
    pub reads: Reads,
    pub specs: Vec<PartitionSpecRef>,
    pub before: Frame,
    pub after: Frame,
    pub candidate: Change,
    pub delta: Change,
    pub aimed_at: Vec<LiveEntry>,
    pub named: BTreeMap<String, Named>,
    pub unreadable: Vec<(String, String)>,
}

impl Asked {
    pub fn new(scope: &str, specs: &[PartitionSpecRef], candidate: Change, delta: Change) -> Self {
        let frame = Frame {
            uuid: TableUuid(uuid::Uuid::from_u128(1)),
            format_version: Some(2),
            schema: schema(),
            default_spec_id: Some(0),
        };
        Self {
            scope: Scope::parse(scope, &schema()).unwrap().canonical(),
            reads: Reads::Scope,
            specs: specs.to_vec(),
            before: frame.clone(),
            after: frame,
            candidate,
            delta,
            aimed_at: Vec::new(),
            named: BTreeMap::new(),
            unreadable: Vec::new(),
        }
    }

    pub fn verdict(&self) -> Verdict {
        let specs = self.specs.iter().map(|spec| (spec.spec_id(), spec.clone())).collect();
        let schema = self.after.schema.clone();
        let concern = Concern::new(&self.scope, &self.reads, schema, specs, &self.candidate, &self.named);
        classify(&Facts {
            before: &self.before,
            after: &self.after,
            concern: &concern,
            candidate: &self.candidate,
            delta: &self.delta,
            aimed_at: &self.aimed_at,
            named: &self.named,
            unreadable: &self.unreadable,
        })
    }

    /// The rules that are broken: `-` for none, `K2 K5`, with `?` where a conflict is only possible.
    pub fn rules(&self) -> String {
        rules(&self.verdict())
    }
}

pub(super) fn rules(verdict: &Verdict) -> String {
    let Verdict::Rebuild { reasons, .. } = verdict else { return "-".to_owned() };
    let mut found: Vec<(Rule, bool)> = reasons.iter().map(|reason| (reason.rule, reason.possible)).collect();
    found.sort();
    found.dedup();
    let word = |(rule, possible): &(Rule, bool)| format!("{rule:?}{}", if *possible { "?" } else { "" });
    found.iter().map(word).collect::<Vec<_>>().join(" ")
}
