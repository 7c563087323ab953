//! The commits of the protocol, as requirements and updates. Source: `protocol.md`, "The audit branch".
//!
//! PUBLISH and FENCE are symmetric: each consumes the audit branch, because it turns that name into a tag, and each
//! requires the branch where it was read. So of any number of requests in flight, one is applied and the rest are
//! refused for ever. All of them also require that neither `published/<id>` nor `closed/<id>` exists.

use iceberg::spec::{Snapshot, SnapshotReference};
use iceberg::{TableRequirement, TableUpdate};

use serde::{Deserialize, Serialize};

use crate::ids::{IdempotencyKey, PublicationId, RefName, SnapshotId, TableName};
use crate::observed::{Observed, RefKind};

/// One conditional change of one table: all of it is applied, or nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Commit {
    /// The table.
    pub table: TableName,
    /// What must hold for the change to be applied.
    pub requirements: Vec<TableRequirement>,
    /// The change.
    pub updates: Vec<TableUpdate>,
    /// The name of this request, for catalogs that recognise a request sent twice.
    pub key: IdempotencyKey,
}

/// Which table, which publication, as read when; and the name of the request.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    /// The table's name.
    pub table: &'a TableName,
    /// The publication.
    pub id: &'a PublicationId,
    /// The table as read.
    pub observed: &'a Observed,
    /// The name of this request.
    pub key: IdempotencyKey,
}

impl Target<'_> {
    /// A commit that also requires the table's identity, and that the publication is neither published nor closed.
    fn commit(&self, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Commit {
        let mut all = vec![TableRequirement::UuidMatch { uuid: self.observed.uuid.0 }];
        all.extend(requirements);
        all.push(require(&self.id.published_ref(), None));
        all.push(require(&self.id.closed_ref(), None));
        Commit { table: self.table.clone(), requirements: all, updates, key: self.key }
    }

    /// Where the tombstone stands, the audit name as a tag: on the base; on main as read where the base is gone; on the
    /// marker where the table had no snapshot. With it comes what must hold for that to be applicable.
    fn tombstone(
        &self,
        base: Option<SnapshotId>,
        marker: Option<SnapshotId>,
    ) -> (Option<TableRequirement>, Option<SnapshotId>) {
        let known = |id: &SnapshotId| self.observed.snapshots.contains_key(id);
        if let Some(base) = base.filter(known) {
            return (None, Some(base));
        }
        // The first publication of a table has no base: its own empty root takes that place.
        if let (None, Some(marker)) = (base, marker.filter(known)) {
            return (None, Some(marker));
        }
        let main = self.observed.main();
        (Some(require(&RefName::main(), main)), main)
    }
}

fn require(name: &RefName, snapshot: Option<SnapshotId>) -> TableRequirement {
    TableRequirement::RefSnapshotIdMatch { r#ref: name.0.clone(), snapshot_id: snapshot.map(|id| id.0) }
}

fn set(name: &RefName, snapshot: SnapshotId, kind: &RefKind) -> TableUpdate {
    TableUpdate::SetSnapshotRef {
        ref_name: name.0.clone(),
        reference: SnapshotReference::new(snapshot.0, kind.to_iceberg()),
    }
}

fn tag(name: &RefName, snapshot: SnapshotId) -> TableUpdate {
    set(name, snapshot, &RefKind::KEPT_TAG)
}

fn branch(name: &RefName, snapshot: SnapshotId) -> TableUpdate {
    set(name, snapshot, &RefKind::KEPT_BRANCH)
}

/// BEGIN: opens `audit/<id>` at the marker, on main as read.
pub fn begin(target: &Target<'_>, marker: Snapshot) -> Commit {
    let audit = target.id.audit_ref();
    let id = SnapshotId(marker.snapshot_id());
    target.commit(
        vec![require(&RefName::main(), target.observed.main()), require(&audit, None)],
        vec![TableUpdate::AddSnapshot { snapshot: marker }, branch(&audit, id)],
    )
}

/// STAGE: adds a data snapshot on the head that was read.
pub fn stage(target: &Target<'_>, head: SnapshotId, data: Snapshot) -> Commit {
    let audit = target.id.audit_ref();
    let id = SnapshotId(data.snapshot_id());
    target.commit(
        vec![require(&audit, Some(head))],
        vec![TableUpdate::AddSnapshot { snapshot: data }, branch(&audit, id)],
    )
}

/// SEAL: adds the seal on the head that was validated, and sets the branch's retention again, which engines' writes
/// may have erased. `statistics` are updates that set those of the data snapshot for the seal.
pub fn seal(target: &Target<'_>, head: SnapshotId, seal: Snapshot, statistics: Vec<TableUpdate>) -> Commit {
    let audit = target.id.audit_ref();
    let id = SnapshotId(seal.snapshot_id());
    let mut updates = vec![TableUpdate::AddSnapshot { snapshot: seal }, branch(&audit, id)];
    updates.extend(statistics);
    target.commit(vec![require(&audit, Some(head))], updates)
}

/// PUBLISH: moves main to the seal, leaves the receipt, and turns the audit branch into the tombstone tag.
///
/// `base` is `N`, `None` for the first publication of a table, whose tombstone stands on `marker`.
pub fn publish(target: &Target<'_>, base: Option<SnapshotId>, marker: SnapshotId, seal: SnapshotId) -> Commit {
    let observed = target.observed;
    let audit = target.id.audit_ref();
    // set-snapshot-ref replaces retention, so main's own is carried over as read.
    let inherited = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    let retention = observed.reference(&RefName::main()).map_or(inherited, |main| main.kind.clone());
    target.commit(
        vec![
            require(&RefName::main(), base),
            require(&audit, Some(seal)),
            TableRequirement::CurrentSchemaIdMatch { current_schema_id: observed.current_schema_id },
            TableRequirement::DefaultSpecIdMatch { default_spec_id: observed.default_spec_id },
        ],
        vec![
            set(&RefName::main(), seal, &retention),
            tag(&target.id.published_ref(), seal),
            tag(&audit, base.unwrap_or(marker)),
        ],
    )
}

/// FENCE where the audit branch exists: the candidate can never be published any more.
///
/// A requirement sees which snapshot a ref names, not whether it is a tag: a tombstone on the head itself would satisfy
/// every request that is still in flight. Where there is no other snapshot for it, `root` takes that place, an empty one.
///
/// `None` where a root is needed, and none was given.
pub fn fence(
    target: &Target<'_>,
    head: SnapshotId,
    base: Option<SnapshotId>,
    marker: Option<SnapshotId>,
    root: Option<Snapshot>,
) -> Option<Commit> {
    let (requirement, stand) = target.tombstone(base, marker);
    let (requirement, add, stand) = match stand.filter(|stand| *stand != head) {
        Some(stand) => (requirement, None, stand),
        None => {
            let snapshot = root?;
            let stand = SnapshotId(snapshot.snapshot_id());
            (None, Some(TableUpdate::AddSnapshot { snapshot }), stand)
        }
    };
    let requirements = std::iter::once(require(&target.id.audit_ref(), Some(head))).chain(requirement);
    let tags = [tag(&target.id.closed_ref(), head), tag(&target.id.audit_ref(), stand)];
    Some(target.commit(requirements.collect(), add.into_iter().chain(tags).collect()))
}

/// FENCE where the audit branch is gone: leaves both tags on main as read, so that neither a late PUBLISH nor a late
/// BEGIN is applied. `root` is an empty snapshot for a table that has no main either.
///
/// `None` where the table has no main and no root was given.
pub fn fence_absent(target: &Target<'_>, root: Option<Snapshot>) -> Option<Commit> {
    let main = target.observed.main();
    let stand = main.or(root.as_ref().map(|root| SnapshotId(root.snapshot_id())))?;
    let add = root.filter(|_| main.is_none()).map(|snapshot| TableUpdate::AddSnapshot { snapshot });
    let tags = [tag(&target.id.closed_ref(), stand), tag(&target.id.audit_ref(), stand)];
    Some(target.commit(vec![require(&target.id.audit_ref(), None)], add.into_iter().chain(tags).collect()))
}

/// RESTART: fences a candidate and begins the next generation of its id, on main as read. So the next job gets a branch
/// that no earlier attempt can write, and no earlier attempt can be published beside it.
///
/// `base` and `old` are the base and marker of what is fenced; `marker` is the next one's, and carries the tombstone where
/// there is no other snapshot for it.
pub fn restart(
    target: &Target<'_>,
    head: SnapshotId,
    base: Option<SnapshotId>,
    old: Option<SnapshotId>,
    next: &PublicationId,
    marker: Snapshot,
) -> Commit {
    let id = SnapshotId(marker.snapshot_id());
    // Main is required in any case, so a tombstone on it needs nothing more.
    let (_, stand) = target.tombstone(base, old);
    let stand = stand.filter(|stand| *stand != head).unwrap_or(id);
    let main = target.observed.main();
    let unused = [next.audit_ref(), next.published_ref(), next.closed_ref()];
    let mut requirements = vec![require(&RefName::main(), main), require(&target.id.audit_ref(), Some(head))];
    requirements.extend(unused.iter().map(|name| require(name, None)));
    target.commit(
        requirements,
        vec![
            TableUpdate::AddSnapshot { snapshot: marker },
            branch(&next.audit_ref(), id),
            tag(&target.id.closed_ref(), head),
            tag(&target.id.audit_ref(), stand),
        ],
    )
}

/// SETTLE: leaves a receipt for a change that an engine made visible by itself.
pub fn settle(
    target: &Target<'_>,
    head: SnapshotId,
    visible: SnapshotId,
    base: Option<SnapshotId>,
    marker: Option<SnapshotId>,
) -> Commit {
    let (requirement, tombstone) = target.tombstone(base, marker);
    let mut requirements = vec![require(&target.id.audit_ref(), Some(head))];
    requirements.extend(requirement);
    let updates =
        vec![tag(&target.id.published_ref(), visible), tag(&target.id.audit_ref(), tombstone.unwrap_or(visible))];
    target.commit(requirements, updates)
}

/// The snapshot that a commit moves main to.
pub fn moves_main_to(commit: &Commit) -> Option<SnapshotId> {
    sets(commit, &RefName::main())
}

/// The snapshot that a commit's receipt for this publication names.
pub fn receipt_of(commit: &Commit, id: &PublicationId) -> Option<SnapshotId> {
    sets(commit, &id.published_ref())
}

fn sets(commit: &Commit, name: &RefName) -> Option<SnapshotId> {
    commit.updates.iter().find_map(|update| match update {
        TableUpdate::SetSnapshotRef { ref_name, reference } if *ref_name == name.0 => {
            Some(SnapshotId(reference.snapshot_id))
        }
        _ => None,
    })
}

/// Does the table hold everything this commit sets: its snapshots, and each ref where the commit put it?
///
/// True proves that the commit was applied, since its snapshot ids are fresh and its refs are this publication's own.
/// False proves nothing by itself.
pub fn shows(observed: &Observed, commit: &Commit) -> bool {
    commit.updates.iter().all(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => observed.snapshots.contains_key(&SnapshotId(snapshot.snapshot_id())),
        TableUpdate::SetSnapshotRef { ref_name, reference } => {
            observed.reference(&RefName(ref_name.clone())).is_some_and(|found| {
                found.snapshot == SnapshotId(reference.snapshot_id) && found.kind.is_branch() == reference.is_branch()
            })
        }
        _ => true,
    })
}
