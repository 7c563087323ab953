//! Tables, logs and a small catalog, to test the protocol's decisions with.
//!
//! The cast: `N` the base, `B` the marker on it, `S` the data, `K` the seal, `X` what an engine puts on top, `M` another
//! writer's snapshot of main.

use chrono::DateTime;
use iceberg::TableUpdate;
use iceberg::spec::{Operation, Snapshot, Summary};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

use super::commits::{self, Target};
use super::intent::Intent;
use super::reconcile::base_of;
use crate::digest::Digest;
use crate::ids::{IdempotencyKey, Incarnation, Owner, PublicationId, RefName, SnapshotId, TableName, TableUuid};
use crate::journal::record::{Closing, Event, FORMAT, Opening, Record, ReplyRecord, SealRecord, Verb};
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, RefKind, summary};
use crate::publish::commits::Commit;

pub const N: SnapshotId = SnapshotId(10);
pub const B: SnapshotId = SnapshotId(20);
pub const S: SnapshotId = SnapshotId(30);
pub const K: SnapshotId = SnapshotId(40);
pub const K2: SnapshotId = SnapshotId(45);
pub const X: SnapshotId = SnapshotId(50);
pub const M: SnapshotId = SnapshotId(60);

/// The candidate's BEGIN.
pub const OURS: Incarnation = Incarnation(Uuid::from_u128(1));
/// Another BEGIN of the same id.
pub const THEIRS: Incarnation = Incarnation(Uuid::from_u128(2));
pub const TABLE_UUID: TableUuid = TableUuid(Uuid::from_u128(77));

pub fn id() -> PublicationId {
    "repair-07".parse().unwrap()
}

pub fn audit() -> RefName {
    id().audit_ref()
}

pub fn published() -> RefName {
    id().published_ref()
}

pub fn closed() -> RefName {
    id().closed_ref()
}

pub fn table() -> TableName {
    "shop.flights".parse().unwrap()
}

pub fn key(number: u128) -> IdempotencyKey {
    IdempotencyKey(Uuid::from_u128(number))
}

pub fn digest(what: &str) -> Digest {
    Digest::of_bytes(what.as_bytes())
}

pub const NOT_SENT: fn() -> ReplyRecord = || ReplyRecord::NotSent { reason: "connection refused".to_owned() };
pub const UNKNOWN: fn() -> ReplyRecord = || ReplyRecord::Unknown { reason: "timeout".to_owned() };

pub fn refused(status: u16) -> ReplyRecord {
    ReplyRecord::Refused { status, message: "no".to_owned() }
}

/// The summary of a marker.
pub fn marker_summary(of: Incarnation, base: Option<SnapshotId>) -> Vec<(String, String)> {
    let mut all = staged_summary(of);
    all.push((summary::OWNER.to_owned(), "ann@host".to_owned()));
    all.push((summary::BASE.to_owned(), base.map_or_else(|| "none".to_owned(), |base| base.to_string())));
    all
}

/// The summary of what `stage` writes.
pub fn staged_summary(of: Incarnation) -> Vec<(String, String)> {
    vec![(summary::PUBLISH_ID.to_owned(), id().to_string()), (summary::INCARNATION.to_owned(), of.to_string())]
}

/// The summary of a seal.
pub fn seal_summary(of: Incarnation, base: Option<SnapshotId>, replaces: &[SnapshotId]) -> Vec<(String, String)> {
    let mut all = staged_summary(of);
    let list: Vec<_> = replaces.iter().map(ToString::to_string).collect();
    let base = base.map_or_else(|| "none".to_owned(), |base| base.to_string());
    for (key, value) in [
        (summary::BASE, base),
        (summary::VERDICT, "pass".to_owned()),
        (summary::REPLACES, list.join(",")),
        (summary::CHANGE, digest("change").to_string()),
        (summary::TREE, digest("tree").to_string()),
        (summary::CANDIDATE, digest("candidate").to_string()),
        (summary::CONTRACT, digest("contract").to_string()),
    ] {
        all.push((key.to_owned(), value));
    }
    all
}

/// Builds what was read of a table.
#[derive(Debug, Clone)]
pub struct ObservedBuilder(pub Observed);

impl ObservedBuilder {
    /// A table without any snapshot. Schema and spec are not 0, so that a default cannot pass for either.
    pub fn empty() -> Self {
        Self(Observed {
            uuid: TABLE_UUID,
            format_version: 2,
            last_sequence_number: 0,
            current_schema_id: 3,
            default_spec_id: 5,
            refs: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            snapshot_log: Vec::new(),
        })
    }

    /// Main at `N`, which keeps 4 snapshots whatever the table's default.
    pub fn base() -> Self {
        let mut this = Self::empty().other(N, None).main(N);
        let kind = RefKind::Branch { min_snapshots_to_keep: Some(4), max_snapshot_age_ms: None, max_ref_age_ms: None };
        this.0.refs.insert(RefName::main(), ObservedRef { snapshot: N, kind });
        this
    }

    /// The branch at `B`, on `N`.
    pub fn begun() -> Self {
        Self::base().marker(B, Some(N), OURS).branch(audit(), B)
    }

    /// The branch at `S`, which calve wrote.
    pub fn staged() -> Self {
        Self::begun().snapshot(S, Some(B), staged_summary(OURS)).branch(audit(), S)
    }

    /// The branch at `S`, which an engine wrote: its summary carries no id of ours.
    pub fn written() -> Self {
        Self::begun().other(S, Some(B)).branch(audit(), S)
    }

    /// The branch at `K`, on what calve wrote.
    pub fn sealed() -> Self {
        Self::staged().seal(K, S, &[]).branch(audit(), K)
    }

    /// The branch at `K`, on what an engine wrote.
    pub fn written_and_sealed() -> Self {
        Self::written().seal(K, S, &[]).branch(audit(), K)
    }

    /// The first publication of a table, sealed: the marker is its root.
    pub fn sealed_first() -> Self {
        Self::empty()
            .marker(B, None, OURS)
            .snapshot(S, Some(B), staged_summary(OURS))
            .snapshot(K, Some(S), seal_summary(OURS, None, &[]))
            .branch(audit(), K)
    }

    /// As PUBLISH leaves it.
    pub fn published() -> Self {
        Self::sealed().main(K).tag(published(), K).tag(audit(), N)
    }

    /// As FENCE leaves it.
    pub fn fenced() -> Self {
        Self::sealed().tag(closed(), K).tag(audit(), N)
    }

    pub fn snapshot(mut self, id: SnapshotId, parent: Option<SnapshotId>, summary: Vec<(String, String)>) -> Self {
        self.0.last_sequence_number += 1;
        let snapshot = ObservedSnapshot {
            parent,
            sequence_number: self.0.last_sequence_number,
            timestamp_ms: 1_000 * self.0.last_sequence_number,
            operation: "append".to_owned(),
            schema_id: Some(self.0.current_schema_id),
            summary: summary.into_iter().collect(),
        };
        self.0.snapshots.insert(id, snapshot);
        self
    }

    pub fn other(self, id: SnapshotId, parent: Option<SnapshotId>) -> Self {
        self.snapshot(id, parent, vec![("engine-name".to_owned(), "spark".to_owned())])
    }

    pub fn marker(self, id: SnapshotId, parent: Option<SnapshotId>, of: Incarnation) -> Self {
        self.snapshot(id, parent, marker_summary(of, parent))
    }

    pub fn seal(self, id: SnapshotId, parent: SnapshotId, replaces: &[SnapshotId]) -> Self {
        self.snapshot(id, Some(parent), seal_summary(OURS, Some(N), replaces))
    }

    /// Moves main, as any writer does: the log gets an entry.
    pub fn main(mut self, to: SnapshotId) -> Self {
        let time = 1_000 * (1 + self.0.snapshot_log.len() as i64);
        self.0.snapshot_log.push((time, to));
        let inherit = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let kind = self.0.refs.get(&RefName::main()).map_or(inherit, |main| main.kind.clone());
        self.0.refs.insert(RefName::main(), ObservedRef { snapshot: to, kind });
        self
    }

    pub fn branch(mut self, name: RefName, at: SnapshotId) -> Self {
        self.0.refs.insert(name, ObservedRef { snapshot: at, kind: RefKind::KEPT_BRANCH });
        self
    }

    pub fn tag(mut self, name: RefName, at: SnapshotId) -> Self {
        self.0.refs.insert(name, ObservedRef { snapshot: at, kind: RefKind::KEPT_TAG });
        self
    }

    pub fn unref(mut self, name: &RefName) -> Self {
        self.0.refs.remove(name);
        self
    }

    /// Removes a snapshot by id; its children and the log keep naming it.
    pub fn forget(mut self, id: SnapshotId) -> Self {
        self.0.snapshots.remove(&id);
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn build(self) -> Observed {
        self.0
    }
}

/// A snapshot as commits carry it.
pub fn snapshot(id: SnapshotId, parent: Option<SnapshotId>, sequence: i64, of: Vec<(String, String)>) -> Snapshot {
    let summary =
        Summary { operation: Operation::Replace, additional_properties: of.into_iter().collect::<HashMap<_, _>>() };
    Snapshot::builder()
        .with_snapshot_id(id.0)
        .with_parent_snapshot_id(parent.map(|parent| parent.0))
        .with_sequence_number(sequence)
        .with_timestamp_ms(1_000 * sequence)
        .with_manifest_list(format!("file:///t/metadata/snap-{id}.avro"))
        .with_summary(summary)
        .with_schema_id(3)
        .build()
}

/// The table as the target of a request.
pub fn on<R>(observed: &Observed, make: impl FnOnce(&Target<'_>) -> R) -> R {
    let (table, id) = (table(), id());
    make(&Target { table: &table, id: &id, observed, key: key(1) })
}

/// PUBLISH of a seal, made from this reading.
pub fn publish_of(observed: &Observed, seal: SnapshotId) -> Commit {
    on(observed, |target| commits::publish(target, base_of(observed, seal), B, seal))
}

/// A catalog in one function: the table after this commit, or the requirement that did not hold.
pub fn apply(observed: &Observed, commit: &Commit) -> Result<Observed, String> {
    crate::testing::model::apply(observed, commit).map_err(|refused| refused.reason)
}

/// What BEGIN fixed.
pub fn opening(of: Incarnation, marker: SnapshotId, base: Option<SnapshotId>) -> Opening {
    Opening {
        publication: id(),
        incarnation: of,
        table: table(),
        base,
        marker,
        scope: "true".to_owned(),
        scope_text: "true".to_owned(),
        reads: None,
        owner: Owner("ann@host".to_owned()),
        code: None,
        sources: Vec::new(),
        journal: "file:///journal".to_owned(),
    }
}

/// What a seal of the table's present schema and spec fixes.
pub fn seal_record(seal: SnapshotId, data: SnapshotId) -> SealRecord {
    SealRecord {
        seal,
        data,
        replaces: Vec::new(),
        candidate: digest("candidate"),
        change: digest("change"),
        tree: digest("tree"),
        contract: digest("contract"),
        statement: digest("statement"),
        statement_location: "file:///journal/statements/s".to_owned(),
        schema_id: 3,
        spec_id: 5,
    }
}

/// Writes a log, record by record.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub records: Vec<Record>,
    attempts: u32,
}

impl Log {
    pub fn event(mut self, event: Event) -> Self {
        let number = self.records.len() as u32 + 1;
        self.records.push(Record {
            format: FORMAT,
            number,
            id: Uuid::from_u128(u128::from(number)),
            at: DateTime::UNIX_EPOCH,
            by: Owner("ann@host".to_owned()),
            event,
        });
        self
    }

    pub fn attempt(
        mut self,
        verb: Verb,
        commit: Commit,
        fixed: (Option<Opening>, Option<SealRecord>, Option<Closing>),
        reply: Option<ReplyRecord>,
    ) -> Self {
        self.attempts += 1;
        let attempt = self.attempts;
        let adds = commit.updates.iter().filter_map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => Some(SnapshotId(snapshot.snapshot_id())),
            _ => None,
        });
        let intended = Event::Intended {
            attempt,
            verb,
            adds: adds.collect(),
            sequence_number: 0,
            commit: Box::new(commit),
            opening: fixed.0.map(Box::new),
            seal: fixed.1.map(Box::new),
            closing: fixed.2,
            files: Vec::new(),
        };
        let log = self.event(intended);
        match reply {
            Some(reply) => log.event(Event::Replied { attempt, reply }),
            None => log,
        }
    }

    pub fn begin(self, of: Incarnation, marker: SnapshotId, reply: ReplyRecord) -> Self {
        let commit = on(&ObservedBuilder::base().build(), |target| {
            commits::begin(target, snapshot(marker, Some(N), 2, marker_summary(of, Some(N))))
        });
        self.attempt(Verb::Begin, commit, (Some(opening(of, marker, Some(N))), None, None), Some(reply))
    }

    pub fn seal(self, seal: SnapshotId, data: SnapshotId, reply: ReplyRecord) -> Self {
        let commit = on(&ObservedBuilder::staged().build(), |target| {
            commits::seal(target, data, snapshot(seal, Some(data), 4, seal_summary(OURS, Some(N), &[])), Vec::new())
        });
        self.attempt(Verb::Seal, commit, (None, Some(seal_record(seal, data)), None), Some(reply))
    }

    /// BEGIN, and a seal `K` on `S`, both accepted.
    pub fn sealed() -> Self {
        Self::default().begin(OURS, B, ReplyRecord::Accepted).seal(K, S, ReplyRecord::Accepted)
    }

    pub fn publish(self, seal: SnapshotId, reply: Option<ReplyRecord>) -> Self {
        let table = ObservedBuilder::sealed().seal(K2, S, &[K]).build();
        self.attempt(Verb::Publish, publish_of(&table, seal), (None, None, None), reply)
    }

    pub fn settle(self, visible: SnapshotId, reply: ReplyRecord) -> Self {
        let table = ObservedBuilder::sealed().build();
        let commit = on(&table, |target| commits::settle(target, K, visible, Some(N), Some(B)));
        self.attempt(Verb::Settle, commit, (None, None, None), Some(reply))
    }

    pub fn intent(&self) -> Intent {
        Intent::fold(id(), TABLE_UUID, &self.records).unwrap()
    }
}

/// No journal at all.
pub fn no_journal() -> Intent {
    Intent::empty(id(), None)
}
