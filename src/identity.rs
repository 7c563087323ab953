//! What a candidate is: digests of its change, its trees and itself.
//!
//! Each digest hashes a list of fields, given in the documentation of its function in their order, by the scheme of
//! [`crate::digest`]. Sets are sorted first, so the order in which manifests list files never matters; the digests
//! are the same on every machine, and golden vectors hold them in place. Changing what a digest covers means a new
//! domain, `…/v2`. Source: `protocol.md`, "Digests".

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iceberg::spec::{
    DataContentType, DataFile, DataFileFormat, Datum, Literal, PartitionSpec, PrimitiveLiteral, Schema,
};
use serde_json::Value;

use crate::digest::{Digest, Digester};
use crate::ids::{SnapshotId, TableUuid};

/// A live data or delete file of a snapshot, as its manifests list it, inherited values filled in. Source: Iceberg
/// spec, "Manifests", "Sequence Number Inheritance".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEntry {
    /// Path, partition, metrics.
    pub file: DataFile,
    /// The partition spec it was written under.
    pub spec_id: i32,
    /// Its data sequence number: which deletes reach it. 0 on format version 1.
    pub sequence_number: i64,
    /// When the file itself was added.
    pub file_sequence_number: Option<i64>,
    /// The snapshot that added it.
    pub snapshot_id: Option<SnapshotId>,
    /// The row id of its first row, on format version 3. Never part of a digest: a rebase gives new ones.
    pub first_row_id: Option<i64>,
}

impl LiveEntry {
    /// Is it data, rather than a delete file or deletion vector?
    pub fn is_data(&self) -> bool {
        self.file.content_type() == DataContentType::Data
    }

    /// What makes two entries the same.
    pub fn key(&self) -> EntryKey {
        EntryKey {
            path: self.file.file_path().to_owned(),
            content_offset: self.file.content_offset(),
            sequence_number: self.sequence_number,
            content_size: self.file.content_size_in_bytes(),
            referenced_data_file: self.file.referenced_data_file(),
        }
    }
}

/// What makes two live entries the same: a path at a data sequence number, and for a deletion vector which blob of the
/// file it is and whose rows it deletes. Ordered by path, then offset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// The path exactly as in the manifest.
    pub path: String,
    /// Deletion vector: where its blob starts.
    pub content_offset: Option<i64>,
    /// The data sequence number.
    pub sequence_number: i64,
    /// Deletion vector: how long its blob is, in bytes.
    pub content_size: Option<i64>,
    /// The data file whose rows it deletes, if it is only one.
    pub referenced_data_file: Option<String>,
}

/// The difference between the live files of two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Live in the head and not in the base, in the order of their keys.
    pub added: Vec<LiveEntry>,
    /// Live in the base and not in the head, in the order of their keys.
    pub removed: Vec<LiveEntry>,
}

impl Change {
    /// Is nothing added and nothing removed?
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// What `head` has that `base` has not, and the other way round. A file removed and added again under a new sequence
/// number is both; a file that a table lists twice counts twice.
pub fn change_between(base: &[LiveEntry], head: &[LiveEntry]) -> Change {
    let (base, head) = (by_key(base), by_key(head));
    Change { added: beyond(&head, &base), removed: beyond(&base, &head) }
}

fn by_key(entries: &[LiveEntry]) -> BTreeMap<EntryKey, Vec<&LiveEntry>> {
    let mut sorted: BTreeMap<EntryKey, Vec<&LiveEntry>> = BTreeMap::new();
    for entry in entries {
        sorted.entry(entry.key()).or_default().push(entry);
    }
    sorted
}

fn beyond(these: &BTreeMap<EntryKey, Vec<&LiveEntry>>, those: &BTreeMap<EntryKey, Vec<&LiveEntry>>) -> Vec<LiveEntry> {
    let surplus = these.iter().flat_map(|(key, entries)| {
        let matched = those.get(key).map_or(0, Vec::len);
        entries.iter().skip(matched)
    });
    surplus.map(|entry| (*entry).clone()).collect()
}

/// Why something has no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be written as canonical JSON: {reason}")]
pub struct IdentityError {
    /// What was to be digested, e.g. `schema 3`.
    pub what: String,
    /// Why not.
    pub reason: String,
}

/// Domain `change`: what a candidate changes, which survives a rebase. `added` comes with the plain SHA-256 of each
/// file's bytes.
///
/// Fields: table uuid (16 bytes); canonical scope; number of added files; for each, sorted by path, offset, then by
/// what follows: [`file_digest`], SHA-256 of the bytes; number of removed files; for each, sorted by key: path, data
/// sequence number, offset in the file (optional, 8 bytes).
pub fn change_digest(table: TableUuid, scope: &str, added: &[(&LiveEntry, Digest)], removed: &[LiveEntry]) -> Digest {
    let mut added: Vec<_> = added
        .iter()
        .map(|(entry, bytes)| {
            let file = &entry.file;
            (file.file_path(), file.content_offset(), file_digest(entry), *bytes)
        })
        .collect();
    added.sort();
    let mut digester = Digester::new("change").field(table.0.as_bytes()).field(scope).number(count(added.len()));
    for (_, _, file, bytes) in added {
        digester = digester.field(file.0).field(bytes.0);
    }
    let mut removed: Vec<_> = removed.iter().map(LiveEntry::key).collect();
    removed.sort();
    digester = digester.number(count(removed.len()));
    for key in removed {
        digester = optional_number(digester.field(key.path).number(key.sequence_number), key.content_offset);
    }
    digester.finish()
}

/// Domain `tree`: everything readers see in a snapshot, by metadata only. Give it all live entries.
///
/// Fields: number of entries; for each, sorted by path, offset, data sequence number, then digest: [`file_digest`],
/// data sequence number.
pub fn tree_digest(entries: &[LiveEntry]) -> Digest {
    entries_digest("tree", entries)
}

/// Domain `scope-tree`: as [`tree_digest`], over the live entries that may hold rows of the scope.
pub fn scope_tree_digest(entries: &[LiveEntry]) -> Digest {
    entries_digest("scope-tree", entries)
}

fn entries_digest(domain: &str, entries: &[LiveEntry]) -> Digest {
    let mut sorted: Vec<_> = entries
        .iter()
        .map(|entry| (entry.file.file_path(), entry.file.content_offset(), entry.sequence_number, file_digest(entry)))
        .collect();
    sorted.sort();
    let mut digester = Digester::new(domain).number(count(sorted.len()));
    for (_, _, sequence_number, file) in sorted {
        digester = digester.field(file.0).number(sequence_number);
    }
    digester.finish()
}

/// Domain `file`: what a manifest says of one file, without what a rebase changes.
///
/// Fields: content (0 data, 1 position deletes, 2 equality deletes); path exactly as written; format in lower case;
/// record count; size; spec id; number of partition values and each value; sort order id (optional); equality ids
/// (optional, as a list); referenced data file (optional); deletion vector's offset and size (each optional); column
/// sizes, value counts, null counts, NaN counts, lower bounds, upper bounds, each as number of columns, then field id
/// and value by ascending id. Numbers are 8 bytes. A bound is in Iceberg's single-value encoding, as is a partition
/// value, after a field that tells its kind (0 for null, 1 for a value).
pub fn file_digest(entry: &LiveEntry) -> Digest {
    let file = &entry.file;
    let content = match file.content_type() {
        DataContentType::Data => 0,
        DataContentType::PositionDeletes => 1,
        DataContentType::EqualityDeletes => 2,
    };
    let format = match file.file_format() {
        DataFileFormat::Avro => "avro",
        DataFileFormat::Orc => "orc",
        DataFileFormat::Parquet => "parquet",
        DataFileFormat::Puffin => "puffin",
    };
    let mut digester = Digester::new("file")
        .number(content)
        .field(file.file_path())
        .field(format)
        .field(file.record_count().to_be_bytes())
        .field(file.file_size_in_bytes().to_be_bytes())
        .number(i64::from(entry.spec_id))
        .number(count(file.partition().fields().len()));
    for value in file.partition().iter() {
        digester = partition_value(digester, value);
    }
    digester = optional_number(digester, file.sort_order_id().map(i64::from));
    digester = match file.equality_ids() {
        None => digester.field([0u8]),
        Some(ids) => {
            let listed = digester.field([1u8]).number(count(ids.len()));
            ids.into_iter().fold(listed, |digester, id| digester.number(i64::from(id)))
        }
    };
    digester = digester.optional(file.referenced_data_file());
    digester = optional_number(digester, file.content_offset());
    digester = optional_number(digester, file.content_size_in_bytes());
    for counts in [file.column_sizes(), file.value_counts(), file.null_value_counts(), file.nan_value_counts()] {
        digester = by_field_id(digester, counts, |digester, count| digester.field(count.to_be_bytes()));
    }
    for bounds in [file.lower_bounds(), file.upper_bounds()] {
        digester = by_field_id(digester, bounds, |digester, bound: &Datum| primitive(digester, bound.literal()));
    }
    digester.finish()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn optional_number(digester: Digester, number: Option<i64>) -> Digester {
    digester.optional(number.map(i64::to_be_bytes))
}

fn by_field_id<V>(digester: Digester, map: &HashMap<i32, V>, add: impl Fn(Digester, &V) -> Digester) -> Digester {
    let sorted: BTreeMap<_, _> = map.iter().collect();
    let start = digester.number(count(sorted.len()));
    sorted.into_iter().fold(start, |digester, (id, value)| add(digester.number(i64::from(*id)), value))
}

/// Partition values are primitive, so the kinds from 2 up never occur in a valid table; they are told apart all the
/// same, so that a damaged one cannot pass for another.
fn partition_value(digester: Digester, value: Option<&Literal>) -> Digester {
    match value {
        None => digester.field([0u8]),
        Some(Literal::Primitive(value)) => primitive(digester.field([1u8]), value),
        Some(Literal::Struct(fields)) => {
            let start = digester.field([2u8]).number(count(fields.fields().len()));
            fields.iter().fold(start, partition_value)
        }
        Some(Literal::List(values)) => {
            let start = digester.field([3u8]).number(count(values.len()));
            values.iter().fold(start, |digester, value| partition_value(digester, value.as_ref()))
        }
        Some(Literal::Map(map)) => digester.field([4u8]).number(count(map.len())),
    }
}

/// A value in Iceberg's binary single-value encoding (spec, "Binary single-value serialization").
fn primitive(digester: Digester, value: &PrimitiveLiteral) -> Digester {
    match value {
        PrimitiveLiteral::Boolean(value) => digester.field([u8::from(*value)]),
        PrimitiveLiteral::Int(value) => digester.field(value.to_le_bytes()),
        PrimitiveLiteral::Long(value) => digester.field(value.to_le_bytes()),
        PrimitiveLiteral::Float(value) => digester.field(value.to_le_bytes()),
        PrimitiveLiteral::Double(value) => digester.field(value.to_le_bytes()),
        PrimitiveLiteral::String(value) => digester.field(value),
        PrimitiveLiteral::Binary(value) => digester.field(value),
        PrimitiveLiteral::Int128(value) => digester.field(shortest(*value)),
        PrimitiveLiteral::UInt128(value) => digester.field(value.to_be_bytes()),
        // Results of conversions, in no file: one field more than any value has.
        PrimitiveLiteral::AboveMax => digester.field("").field("above"),
        PrimitiveLiteral::BelowMin => digester.field("").field("below"),
    }
}

/// An unscaled decimal as the fewest bytes of big-endian two's complement, at least one.
fn shortest(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let fill = if value < 0 { 0xff } else { 0x00 };
    let redundant = bytes.windows(2).take_while(|pair| match pair {
        [first, second] => *first == fill && (*second ^ fill) & 0x80 == 0,
        _ => false,
    });
    let skip = redundant.count();
    bytes.into_iter().skip(skip).collect()
}

/// Domain `schema`: the canonical JSON (RFC 8785) of the schema with its field ids, types, defaults and identifier
/// fields (sorted); without `schema-id` and without comments, which change nothing that a check could see.
///
/// # Errors
/// A default value of a type that has no JSON form.
pub fn schema_digest(schema: &Schema) -> Result<Digest, IdentityError> {
    let what = || format!("schema {}", schema.schema_id());
    let mut json = to_json(schema, what)?;
    if let Value::Object(object) = &mut json {
        object.remove("schema-id");
        if let Some(Value::Array(ids)) = object.get_mut("identifier-field-ids") {
            ids.sort_by_key(Value::as_i64);
        }
    }
    without_comments(&mut json);
    Ok(Digester::new("schema").field(canonical(json, what)?).finish())
}

/// Domain `spec`: the canonical JSON (RFC 8785) of the spec's fields, in order, with source ids, field ids, names and
/// transforms; without `spec-id`.
///
/// # Errors
/// None for a spec that was read from metadata.
pub fn spec_digest(spec: &PartitionSpec) -> Result<Digest, IdentityError> {
    let what = || format!("partition spec {}", spec.spec_id());
    let mut json = to_json(spec, what)?;
    if let Value::Object(object) = &mut json {
        object.remove("spec-id");
    }
    Ok(Digester::new("spec").field(canonical(json, what)?).finish())
}

/// Domain `fields`: the columns that a check looks at. Fields: number of names; for each, ascending: the name, the id and
/// the canonical JSON of the type (both optional: absent where the schema has no such column).
///
/// # Errors
/// As [`schema_digest`].
pub fn fields_digest(schema: &Schema, names: &BTreeSet<String>) -> Result<Digest, IdentityError> {
    let mut digester = Digester::new("fields").number(count(names.len()));
    for name in names {
        let field = schema.field_by_name(name);
        digester = optional_number(digester.field(name), field.map(|field| i64::from(field.id)));
        digester = match field {
            None => digester.optional(None::<&str>),
            Some(field) => {
                let what = || format!("the type of column {name}");
                let mut json = to_json(field.field_type.as_ref(), what)?;
                without_comments(&mut json);
                digester.optional(Some(canonical(json, what)?))
            }
        };
    }
    Ok(digester.finish())
}

/// Domain `source`: a source of the job. Fields: its URI; the immutable version that was read.
pub fn source_digest(uri: &str, version: &str) -> Digest {
    Digester::new("source").field(uri).field(version).finish()
}

/// Domain `code`: the code revision, as given. Fields: the revision.
pub fn code_digest(revision: &str) -> Digest {
    Digester::new("code").field(revision).finish()
}

fn to_json(value: &impl serde::Serialize, what: impl Fn() -> String) -> Result<Value, IdentityError> {
    serde_json::to_value(value).map_err(|error| IdentityError { what: what(), reason: error.to_string() })
}

fn canonical(mut json: Value, what: impl Fn() -> String) -> Result<Vec<u8>, IdentityError> {
    exact_numbers(&mut json);
    serde_json_canonicalizer::to_vec(&json).map_err(|error| IdentityError { what: what(), reason: error.to_string() })
}

/// Takes `doc` from every field of a struct type, and from every type within.
fn without_comments(type_: &mut Value) {
    let Value::Object(object) = type_ else { return };
    for (key, inner) in object.iter_mut() {
        match (key.as_str(), inner) {
            ("fields", Value::Array(fields)) => {
                for field in fields {
                    if let Value::Object(field) = field {
                        field.remove("doc");
                        field.get_mut("type").into_iter().for_each(without_comments);
                    }
                }
            }
            ("element" | "key" | "value", inner) => without_comments(inner),
            _ => {}
        }
    }
}

/// RFC 8785 writes every number as a double. Integers that a double does not hold become strings first, so that two
/// defaults never become one.
fn exact_numbers(json: &mut Value) {
    const EXACT: u64 = 1 << 53;
    match json {
        Value::Number(number) => {
            let size = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if size.is_some_and(|size| size > EXACT) {
                *json = Value::String(number.to_string());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(exact_numbers),
        Value::Object(object) => object.values_mut().for_each(exact_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Domain `base`: the state a candidate was planned from. Fields: table uuid (16 bytes); snapshot id `N` (optional:
/// a table may have none; 8 bytes); [`tree_digest`] of `N`, of no entries where there is none.
pub fn base_digest(table: TableUuid, snapshot: Option<SnapshotId>, tree: &Digest) -> Digest {
    let digester = Digester::new("base").field(table.0.as_bytes());
    optional_number(digester, snapshot.map(|id| id.0)).field(tree.0).finish()
}

/// What makes one candidate: see [`candidate_digest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The table.
    pub table: TableUuid,
    /// [`base_digest`].
    pub base: Digest,
    /// [`change_digest`].
    pub change: Digest,
    /// [`schema_digest`] of the current schema.
    pub schema: Digest,
    /// [`spec_digest`] of the default spec.
    pub spec: Digest,
    /// The canonical scope.
    pub scope: String,
    /// The canonical reads; `None`: not declared, which means the whole table.
    pub reads: Option<String>,
    /// The immutable version of each source, by its name in the contract.
    pub sources: BTreeMap<String, String>,
    /// The code revision, as given.
    pub code: Option<String>,
    /// The contract's digest.
    pub contract: Digest,
}

/// Domain `candidate`: the one identity that approvals and evidence of a whole candidate name.
///
/// Fields, in the order of [`Candidate`]: table uuid (16 bytes); base; change; schema; spec (32 bytes each); scope;
/// reads (optional); number of sources, then name and version of each by ascending name; code (optional); contract.
pub fn candidate_digest(candidate: &Candidate) -> Digest {
    let Candidate { table, base, change, schema, spec, scope, reads, sources, code, contract } = candidate;
    let mut digester = Digester::new("candidate").field(table.0.as_bytes());
    for part in [base, change, schema, spec] {
        digester = digester.field(part.0);
    }
    digester = digester.field(scope).optional(reads.as_ref()).number(count(sources.len()));
    for (name, version) in sources {
        digester = digester.field(name).field(version);
    }
    digester.optional(code.as_ref()).field(contract.0).finish()
}

#[cfg(test)]
mod tests;
