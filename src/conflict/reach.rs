//! Which data files a delete file can reach.
//!
//! Position deletes reach the files that they name, equality deletes the whole of their partition, or of the table where
//! their spec has no partition. Source: Iceberg spec, "Scan Planning".

use std::collections::{BTreeMap, BTreeSet};

use iceberg::metadata_columns::RESERVED_FIELD_ID_DELETE_FILE_PATH;
use iceberg::spec::{DataContentType, Literal, PartitionSpecRef, PrimitiveLiteral};

use crate::identity::LiveEntry;

/// What is known of the data files that a position delete file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// Exactly these paths, from the file itself.
    Files(BTreeSet<String>),
    /// The file cannot be read, and why.
    Unreadable(String),
}

/// Which data files position deletes aim at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim<'a> {
    /// One, by the manifest alone.
    One(String),
    /// These, as its own column says.
    Many(&'a BTreeSet<String>),
    /// Any of its partition: nobody looked.
    Unknown,
    /// Any of its partition: it cannot be read.
    Unreadable(&'a str),
}

/// Which data files a position delete file or deletion vector aims at: by its manifest entry, else by what was read of it
/// (`named`, by path). Source: Iceberg spec, "Position Delete Files": a file with equal bounds of `file_path` names one.
pub fn aim<'a>(delete: &LiveEntry, named: &'a BTreeMap<String, Named>) -> Aim<'a> {
    if let Some(path) = delete.file.referenced_data_file() {
        return Aim::One(path);
    }
    let bound = |bounds: &std::collections::HashMap<i32, iceberg::spec::Datum>| match bounds
        .get(&RESERVED_FIELD_ID_DELETE_FILE_PATH)
        .map(iceberg::spec::Datum::literal)
    {
        Some(PrimitiveLiteral::String(path)) => Some(path.clone()),
        _ => None,
    };
    match (bound(delete.file.lower_bounds()), bound(delete.file.upper_bounds())) {
        (Some(lower), Some(upper)) if lower == upper => return Aim::One(lower),
        _ => {}
    }
    match named.get(delete.file.file_path()) {
        Some(Named::Files(files)) => Aim::Many(files),
        Some(Named::Unreadable(reason)) => Aim::Unreadable(reason),
        None => Aim::Unknown,
    }
}

/// The paths that an aim names; `None` where they are not known.
pub fn targets(aim: Aim<'_>) -> Option<BTreeSet<String>> {
    match aim {
        Aim::One(path) => Some(BTreeSet::from([path])),
        Aim::Many(paths) => Some(paths.clone()),
        Aim::Unknown | Aim::Unreadable(_) => None,
    }
}

/// A partition under one spec, so that values of a widened column compare as equal.
pub(super) type PartitionKey = (i32, Vec<Option<Literal>>);

/// The partition of a file, under its own spec.
pub(super) fn partition_of(entry: &LiveEntry) -> PartitionKey {
    let widened = |value: &Option<Literal>| match value {
        // A manifest holds values in the type that the column had when it was written.
        Some(Literal::Primitive(PrimitiveLiteral::Int(value))) => {
            Some(Literal::Primitive(PrimitiveLiteral::Long(i64::from(*value))))
        }
        Some(Literal::Primitive(PrimitiveLiteral::Float(value))) => {
            Some(Literal::Primitive(PrimitiveLiteral::Double(f64::from(value.0).into())))
        }
        other => other.clone(),
    };
    (entry.spec_id, entry.file.partition().fields().iter().map(widened).collect())
}

/// Do its equality deletes reach every data file, whatever its partition? A spec that is not known counts as such.
pub(super) fn is_global(delete: &LiveEntry, specs: &BTreeMap<i32, PartitionSpecRef>) -> bool {
    is_equality(delete) && specs.get(&delete.spec_id).is_none_or(|spec| spec.is_unpartitioned())
}

pub(super) fn is_equality(entry: &LiveEntry) -> bool {
    entry.file.content_type() == DataContentType::EqualityDeletes
}

pub(super) fn is_position(entry: &LiveEntry) -> bool {
    entry.file.content_type() == DataContentType::PositionDeletes
}
