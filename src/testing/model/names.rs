//! What everything is called in the model.

use iceberg::spec::{Operation, Snapshot, Summary};
use uuid::Uuid;

use super::table::List;
use crate::ids::{IdempotencyKey, Incarnation, PublicationId, SnapshotId, TableName, TableUuid};
use crate::observed::{Observed, Role, summary};

/// The publication.
pub fn id() -> PublicationId {
    "p".parse().expect("an id")
}

/// The table.
pub fn uuid() -> TableUuid {
    TableUuid(Uuid::from_u128(77))
}

/// The table that stands under the name after it was dropped and created anew.
pub fn other_uuid() -> TableUuid {
    TableUuid(Uuid::from_u128(78))
}

/// The table's name, and the one it is given.
pub fn name(renamed: bool) -> TableName {
    if renamed { "shop.flights_2" } else { "shop.flights" }.parse().expect("a name")
}

/// Keys are a convenience: nothing here recognises them.
pub fn key() -> IdempotencyKey {
    IdempotencyKey(Uuid::from_u128(1))
}

/// The root of a journal.
pub fn root(number: usize) -> String {
    format!("file:///journal-{number}")
}

/// Which fresh id of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// A marker, data or seal.
    Snapshot,
    /// An empty root for tags.
    Root,
}

/// An id that nothing else has: of a coordinator, since so many losses of its journal, at this attempt.
pub fn fresh(who: usize, epoch: u8, attempt: u16, what: Fresh) -> SnapshotId {
    let process = (i64::from(epoch) * 2 + who as i64 + 1) * 1_000;
    SnapshotId(process + i64::from(attempt) * 2 + i64::from(what == Fresh::Root))
}

/// The BEGIN of which this is the first attempt.
pub fn incarnation(who: usize, epoch: u8, attempt: u16) -> Incarnation {
    Incarnation(Uuid::from_u128(fresh(who, epoch, attempt, Fresh::Snapshot).0.unsigned_abs().into()))
}

/// What a third party writes as its so many-th act.
pub fn theirs(act: u8) -> SnapshotId {
    SnapshotId(100 + i64::from(act))
}

/// A snapshot as commits carry it.
pub fn snapshot(
    id: SnapshotId,
    parent: Option<SnapshotId>,
    at: (i64, i64),
    list: List,
    schema: i32,
    values: Vec<(&str, String)>,
) -> Snapshot {
    let (sequence, time) = at;
    let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Snapshot::builder()
        .with_snapshot_id(id.0)
        .with_parent_snapshot_id(parent.map(|parent| parent.0))
        .with_sequence_number(sequence)
        .with_timestamp_ms(time)
        .with_manifest_list(list.path())
        .with_summary(Summary { operation: Operation::Replace, additional_properties: values })
        .with_schema_id(schema)
        .build()
}

/// A snapshot as traces name it.
pub fn shown(observed: &Observed, id: SnapshotId) -> String {
    let letter = match observed.role(id) {
        Role::Marker(..) => "B",
        Role::Seal(..) => "K",
        Role::Staged(..) => "S",
        Role::Other if id == super::table::N => return "N".to_owned(),
        Role::Other => "X",
    };
    format!("{letter}{id}")
}

/// A table as traces show it.
pub fn shown_table(observed: &Observed) -> String {
    let refs = observed.refs.iter().filter(|(name, _)| name.0 != "monthly").map(|(name, reference)| {
        let kind = if reference.kind.is_branch() { "" } else { " (tag)" };
        format!("{}={}{kind}", name.0, shown(observed, reference.snapshot))
    });
    let refs: Vec<_> = refs.collect();
    let plain =
        if observed.current_schema_id == 3 && observed.default_spec_id == 5 { "" } else { ", schema or spec moved" };
    format!("{}{plain}, sequence {}", refs.join(" "), observed.last_sequence_number)
}

/// A summary's base.
pub fn base_value(base: Option<SnapshotId>) -> (&'static str, String) {
    (summary::BASE, base.map_or_else(|| "none".to_owned(), |base| base.to_string()))
}
