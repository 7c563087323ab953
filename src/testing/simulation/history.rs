//! Every state that a table ever had, who made each, and which snapshots belong to whom.
//!
//! Nothing here asks the code under test what it thinks: snapshots are told apart by their summaries and by where audit
//! branches stood, over everything that was ever in the table, expired or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use crate::catalog::Commit;
use crate::ids::{PublicationId, RefName, SnapshotId, TableName};
use crate::observed::{Observed, ObservedRef, Role};

/// Who made a state.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// A third party.
    Other,
    /// A commit of a coordinator, whenever it arrived.
    Calve(Box<Commit>),
}

/// One state.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub observed: Observed,
    pub metadata: Arc<TableMetadata>,
    pub by: By,
}

/// All states of one table, oldest first.
#[derive(Debug)]
pub(super) struct History {
    pub table: TableName,
    pub versions: Vec<Version>,
    parents: BTreeMap<SnapshotId, Option<SnapshotId>>,
    roles: BTreeMap<SnapshotId, Role>,
    labels: BTreeMap<SnapshotId, String>,
    own: BTreeMap<PublicationId, BTreeSet<SnapshotId>>,
    lists: BTreeMap<SnapshotId, String>,
    /// Snapshots that a third party removed.
    pub expired: BTreeSet<SnapshotId>,
    /// The one ref of a publication that a third party removed.
    pub removed: BTreeMap<PublicationId, RefName>,
}

impl History {
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            versions: Vec::new(),
            parents: BTreeMap::new(),
            roles: BTreeMap::new(),
            labels: BTreeMap::new(),
            own: BTreeMap::new(),
            lists: BTreeMap::new(),
            expired: BTreeSet::new(),
            removed: BTreeMap::new(),
        }
    }

    /// The number of the newest state, from 0.
    pub fn newest(&self) -> usize {
        self.versions.len().saturating_sub(1)
    }

    /// Takes in a new state, and says in words what is new in it.
    pub fn add(&mut self, metadata: Arc<TableMetadata>, by: By) -> String {
        let observed = Observed::from_metadata(&metadata);
        let mut fresh: Vec<_> = observed.snapshots.iter().filter(|(id, _)| !self.parents.contains_key(id)).collect();
        fresh.sort_by_key(|(id, snapshot)| (snapshot.sequence_number, snapshot.timestamp_ms, **id));
        for (id, snapshot) in fresh {
            let role = snapshot.role();
            let (kind, of) = match &role {
                Role::Marker(of, _) => ("B", format!("({of})")),
                Role::Staged(of, _) => ("S", format!("({of})")),
                Role::Seal(of, _) => ("K", format!("({of})")),
                Role::Other => ("M", String::new()),
            };
            let number = self.roles.values().filter(|known| same_kind(known, &role)).count() + 1;
            self.labels.insert(*id, format!("{kind}{number}{of}"));
            self.roles.insert(*id, role);
            self.parents.insert(*id, snapshot.parent);
        }
        for snapshot in metadata.snapshots() {
            self.lists.insert(SnapshotId(snapshot.snapshot_id()), snapshot.manifest_list().to_owned());
        }
        for (name, reference) in &observed.refs {
            let id = PublicationId::of_ref(name).filter(|id| id.audit_ref() == *name && reference.kind.is_branch());
            if let Some(id) = id {
                self.take_own(id, reference.snapshot);
            }
        }
        let words = match self.versions.last() {
            Some(before) => self.difference(&before.observed, &observed),
            None => "created".to_owned(),
        };
        self.versions.push(Version { observed, metadata, by });
        words
    }

    /// What stands above the marker on a branch is the publication's own.
    fn take_own(&mut self, id: PublicationId, head: SnapshotId) {
        let line: Vec<_> = self.ancestry(head).collect();
        let is_marker =
            |snapshot: &SnapshotId| matches!(self.roles.get(snapshot), Some(Role::Marker(of, _)) if *of == id);
        if let Some(above) = line.iter().position(is_marker) {
            self.own.entry(id).or_default().extend(line.into_iter().take(above));
        }
    }

    fn difference(&self, before: &Observed, after: &Observed) -> String {
        let mut words = Vec::new();
        let names: BTreeSet<_> = before.refs.keys().chain(after.refs.keys()).collect();
        for name in names {
            let (old, new) = (before.reference(name), after.reference(name));
            if old != new {
                words.push(format!("{name} {} → {}", self.at(old), self.at(new)));
            }
        }
        let gone: Vec<_> = before.snapshots.keys().filter(|id| !after.snapshots.contains_key(id)).collect();
        words.extend(gone.into_iter().map(|id| format!("{} gone", self.label(*id))));
        if before.current_schema_id != after.current_schema_id {
            words.push(format!("schema {} → {}", before.current_schema_id, after.current_schema_id));
        }
        words.join(", ")
    }

    fn at(&self, reference: Option<&ObservedRef>) -> String {
        match reference {
            None => "-".to_owned(),
            Some(found) if found.kind.is_branch() => self.label(found.snapshot),
            Some(found) => format!("tag {}", self.label(found.snapshot)),
        }
    }

    /// A short name for a snapshot.
    pub fn label(&self, id: SnapshotId) -> String {
        self.labels.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// What a snapshot is to calve, whether it is still there or not.
    pub fn role(&self, id: SnapshotId) -> Option<&Role> {
        self.roles.get(&id)
    }

    /// A snapshot and everything below it that ever was.
    pub fn ancestry(&self, from: SnapshotId) -> impl Iterator<Item = SnapshotId> + '_ {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let id = next.filter(|id| self.parents.contains_key(id))?;
            next = self.parents.get(&id).copied().flatten();
            Some(id)
        })
    }

    /// Every publication that ever had a snapshot above its marker.
    pub fn publications(&self) -> impl Iterator<Item = &PublicationId> {
        self.own.keys()
    }

    /// The newest snapshot of a publication in a line, if there is any.
    pub fn newest_own_in(&self, id: &PublicationId, head: SnapshotId) -> Option<SnapshotId> {
        let own = self.own.get(id)?;
        self.ancestry(head).find(|snapshot| own.contains(snapshot))
    }

    /// Every snapshot of a publication above its marker.
    pub fn own(&self, id: &PublicationId) -> impl Iterator<Item = SnapshotId> + '_ {
        self.own.get(id).into_iter().flatten().copied()
    }

    /// Do readers of main see something of a publication in a state?
    pub fn visible(&self, version: usize, id: &PublicationId) -> bool {
        let main = self.versions.get(version).and_then(|version| version.observed.main());
        main.is_some_and(|main| self.newest_own_in(id, main).is_some())
    }

    /// Do they see what the receipt names, or the data below it? An earlier state of the same candidate does not count.
    /// Without a receipt, anything of it does.
    pub fn shows_receipt(&self, version: usize, id: &PublicationId) -> bool {
        let newest = self.versions.last().map(|newest| &newest.observed);
        let Some(receipt) = newest.and_then(|newest| newest.reference(&id.published_ref())) else {
            return self.visible(version, id);
        };
        let is_seal = matches!(self.roles.get(&receipt.snapshot), Some(Role::Seal(..)));
        let data = self.parents.get(&receipt.snapshot).copied().flatten().filter(|_| is_seal);
        let main = self.versions.get(version).and_then(|version| version.observed.main());
        let shown = |snapshot: SnapshotId| snapshot == receipt.snapshot || Some(snapshot) == data;
        main.is_some_and(|main| self.ancestry(main).any(shown))
    }

    /// The first state in which readers of main saw something of a publication.
    pub fn first_visible(&self, id: &PublicationId) -> Option<usize> {
        (0..self.versions.len()).find(|version| self.visible(*version, id))
    }

    /// Two snapshots that name the same manifest list.
    pub fn shared_list(&self) -> Option<(SnapshotId, SnapshotId)> {
        let mut known = BTreeMap::new();
        self.lists.iter().find_map(|(id, list)| known.insert(list, *id).map(|other| (other, *id)))
    }

    /// The newest state that still has a snapshot.
    pub fn with_snapshot(&self, id: SnapshotId) -> Option<&Version> {
        self.versions.iter().rev().find(|version| version.observed.snapshots.contains_key(&id))
    }
}

fn same_kind(one: &Role, other: &Role) -> bool {
    match (one, other) {
        (Role::Marker(one, _), Role::Marker(other, _))
        | (Role::Staged(one, _), Role::Staged(other, _))
        | (Role::Seal(one, _), Role::Seal(other, _)) => one == other,
        (Role::Other, Role::Other) => true,
        (Role::Marker(..) | Role::Staged(..) | Role::Seal(..) | Role::Other, _) => false,
    }
}

/// The refs that a commit sets.
pub(super) fn sets(commit: &Commit) -> impl Iterator<Item = RefName> + '_ {
    commit.updates.iter().filter_map(|update| match update {
        TableUpdate::SetSnapshotRef { ref_name, .. } => Some(RefName(ref_name.clone())),
        _ => None,
    })
}

/// Which commit of the protocol this is, by what it changes.
pub(super) fn verb(commit: &Commit) -> &'static str {
    let names: Vec<_> = sets(commit).collect();
    let any = |prefix: &str| names.iter().any(|name| name.as_str().starts_with(prefix));
    let summary_has = |key: &str| {
        commit.updates.iter().any(|update| {
            matches!(update, TableUpdate::AddSnapshot { snapshot }
                if snapshot.summary().additional_properties.contains_key(key))
        })
    };
    if names.contains(&RefName::main()) {
        "PUBLISH"
    } else if any("published/") {
        "SETTLE"
    } else if any("closed/") && summary_has(crate::observed::summary::OWNER) {
        "RESTART"
    } else if any("closed/") {
        "FENCE"
    } else if summary_has(crate::observed::summary::OWNER) {
        "BEGIN"
    } else if summary_has(crate::observed::summary::VERDICT) {
        "SEAL"
    } else {
        "STAGE"
    }
}
