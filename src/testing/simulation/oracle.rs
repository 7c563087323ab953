//! What must hold, whatever happened. Source: `protocol.md`, "Invariants".
//!
//! Each state is held against the one before it as soon as it is made, and each answer against the states that were
//! there while its command ran. Third parties are excused as narrowly as the protocol does it, by name:
//!
//! - a change that a third party itself made visible counts as theirs, and calve only has to say so;
//! - of each publication one ref is removed at most, and of such a one *consumed*, *gone* and *ambiguous* are honest ends;
//! - where a third party expired snapshots by id, calve may not know any more what was visible, and may say *not visible*
//!   of what only a third party had shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use iceberg::spec::TableMetadata;

use super::history::{By, History, sets, verb};
use super::told::Word;
use crate::catalog::Commit;
use crate::ids::{PublicationId, RefName, SnapshotId};
use crate::observed::Role;
use crate::publish::reconcile::{State, Visibility};

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which, e.g. `I7`.
    pub rule: &'static str,
    /// In words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Everything that was seen, and the first rule that was broken.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub tables: Vec<History>,
    /// Publications that someone was told are closed.
    closed: BTreeSet<(usize, PublicationId)>,
    /// How often a commit of calve's made a publication visible.
    shown: BTreeMap<(usize, PublicationId), u32>,
    /// The states that PUBLISH made: table and version.
    pub published: Vec<(usize, usize)>,
    pub violation: Option<Violation>,
}

impl Oracle {
    pub fn violate(&mut self, rule: &'static str, what: String) {
        let _first = self.violation.get_or_insert(Violation { rule, what });
    }

    /// Takes in a new state of a table, and says in words what is new in it.
    pub fn changed(&mut self, table: usize, metadata: Arc<TableMetadata>, by: By) -> String {
        let Some(history) = self.tables.get_mut(table) else { return String::new() };
        let words = history.add(metadata, by.clone());
        let mut broken = Vec::new();
        let history = &*history;
        let now = history.newest();
        let Some(after) = history.versions.last() else { return words };
        for id in after.observed.refs.keys().filter_map(PublicationId::of_ref) {
            let has = |name: RefName| after.observed.reference(&name).is_some();
            if has(id.published_ref()) && has(id.closed_ref()) {
                broken.push(("I9", format!("{id} has a receipt and is closed")));
            }
        }
        if let Some((one, other)) = history.shared_list() {
            broken.push(("I12", format!("{} and {} share a manifest list", history.label(one), history.label(other))));
        }
        let before = now.checked_sub(1).and_then(|before| history.versions.get(before));
        if let (By::Calve(commit), Some(_)) = (&by, before) {
            broken.extend(only_its_own(history, now, commit));
            broken.extend(main_moved(history, now, commit));
            let appeared =
                |id: &&PublicationId| history.visible(now, id) && !history.visible(now.saturating_sub(1), id);
            let shown: Vec<PublicationId> = history.publications().filter(appeared).cloned().collect();
            for id in shown {
                let times = self.shown.entry((table, id.clone())).or_default();
                *times += 1;
                if *times > 1 {
                    broken.push(("I3", format!("{id} was made visible {times} times")));
                }
                if self.closed.contains(&(table, id.clone())) {
                    broken.push(("I4", format!("{id} became visible after it was told to be closed")));
                }
            }
            if verb(commit) == "PUBLISH" {
                self.published.push((table, now));
            }
        }
        for (rule, what) in broken {
            self.violate(rule, what);
        }
        words
    }

    /// Holds an answer against the states from `since` to now.
    pub fn told(&mut self, table: usize, id: &PublicationId, word: Word, since: usize) {
        let Some(history) = self.tables.get(table) else { return };
        let until = history.newest();
        let first = history.first_visible(id);
        let key = (table, id.clone());
        let by_calve = self.shown.contains_key(&key);
        let any = |wanted: bool| (since..=until).any(|version| history.shows_receipt(version, id) == wanted);
        let lost = history.removed.contains_key(id) || !history.expired.is_empty();
        let broken = match word {
            Word::Published(_) | Word::Visible if first.is_none() => {
                Some(("I5", format!("{id} was told to be published, and never was visible")))
            }
            Word::Published(Visibility::Visible | Visibility::Superseded) if !any(true) => {
                Some(("I5", format!("{id} was told to be visible, and was not while the command ran")))
            }
            Word::Published(Visibility::RolledBack) if !any(false) => {
                Some(("I5", format!("{id} was told to be rolled back, and was visible while the command ran")))
            }
            Word::Published(Visibility::HistoryEnds) if history.expired.is_empty() => {
                Some(("I5", format!("the history of {id} was told to end, and nothing was expired")))
            }
            Word::Closed if by_calve => {
                Some(("I4", format!("{id} was told to be closed, and calve had made it visible")))
            }
            Word::Closed | Word::NotVisible | Word::Unknown
                if first.is_some_and(|first| first <= since) && (by_calve || !lost) =>
            {
                Some(("I5", format!("{id} was told not to be published, and had been visible before")))
            }
            Word::Published(_)
            | Word::Visible
            | Word::Closed
            | Word::NotVisible
            | Word::Unknown
            | Word::Open
            | Word::Escalated => None,
        };
        if word == Word::Closed {
            let _known = self.closed.insert(key);
        }
        if let Some((rule, what)) = broken {
            self.violate(rule, what);
        }
    }

    /// A command said that it had added this snapshot.
    pub fn made(&mut self, table: usize, snapshot: SnapshotId) {
        if self.tables.get(table).is_some_and(|history| history.role(snapshot).is_none()) {
            self.violate("I5", format!("snapshot {snapshot} was told to be in the table, and never was"));
        }
    }

    /// Is this a verdict that a publication may end with?
    pub fn may_end(&self, table: usize, id: &PublicationId, state: &State) -> bool {
        let Some(history) = self.tables.get(table) else { return false };
        let removed = history.removed.contains_key(id);
        let lost = removed || !history.expired.is_empty();
        match state {
            State::Published { .. } | State::Closed | State::Unknown => true,
            State::ReceiptRemoved { .. } => removed,
            State::VisibleAfterFence { .. } => !self.shown.contains_key(&(table, id.clone())),
            State::Consumed | State::Ambiguous { .. } => lost,
            State::Lost { .. }
            | State::Regressed { .. }
            | State::Bypassed { .. }
            | State::Sealed { .. }
            | State::Moved { .. }
            | State::Open { .. }
            | State::SubjectMoved { .. }
            | State::Foreign { .. }
            | State::Gone => false,
        }
    }

    /// Holds the rows that readers see now against what was told last of each publication.
    pub fn rows(&mut self, table: usize, rows: &Rows) {
        let Some(history) = self.tables.get(table) else { return };
        let mut broken = Vec::new();
        if let Some(row) = twice(&rows.main) {
            broken.push(format!("row {row} is twice in main"));
        }
        for (id, own) in &rows.own {
            let visible = history.visible(history.newest(), id);
            let there = own.iter().filter(|row| rows.main.contains(row)).count();
            if visible && there != own.len() {
                broken.push(format!("{id} is visible, and {there} of its {} rows are in main", own.len()));
            }
            if !visible && there > 0 {
                broken.push(format!("{id} is not visible, and {there} of its rows are in main"));
            }
        }
        for (snapshot, row) in &rows.others {
            let expected = rows.line.contains(snapshot);
            if rows.main.contains(row) != expected {
                let label = history.label(*snapshot);
                broken
                    .push(format!("row {row} of another writer ({label}): in main {}, expected {expected}", !expected));
            }
        }
        for what in broken {
            self.violate("rows", what);
        }
    }
}

/// The rows of a table as they are read at the end.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// What readers of main see, sorted.
    pub main: Vec<i64>,
    /// Main and all that it ever stood on.
    pub line: BTreeSet<SnapshotId>,
    /// The rows that each publication adds to its base.
    pub own: BTreeMap<PublicationId, Vec<i64>>,
    /// Rows of other writers that no publication replaces, each with its snapshot.
    pub others: Vec<(SnapshotId, i64)>,
}

/// A row that is there more than once.
pub(super) fn twice(sorted: &[i64]) -> Option<i64> {
    sorted.iter().zip(sorted.iter().skip(1)).find(|(one, other)| one == other).map(|(one, _)| *one)
}

/// I11: a commit of calve's changes its publications' refs and no other, and carries main's retention over.
fn only_its_own(history: &History, now: usize, commit: &Commit) -> Vec<(&'static str, String)> {
    let (Some(before), Some(after)) =
        (now.checked_sub(1).and_then(|at| history.versions.get(at)), history.versions.get(now))
    else {
        return Vec::new();
    };
    let own: BTreeSet<PublicationId> = sets(commit).filter_map(|name| PublicationId::of_ref(&name)).collect();
    let publishes = verb(commit) == "PUBLISH";
    let mut broken = Vec::new();
    let names: BTreeSet<_> = before.observed.refs.keys().chain(after.observed.refs.keys()).collect();
    for name in names {
        let (old, new) = (before.observed.reference(name), after.observed.reference(name));
        let its_own =
            PublicationId::of_ref(name).is_some_and(|id| own.contains(&id)) || (publishes && *name == RefName::main());
        if old != new && !its_own {
            broken.push(("I11", format!("{} changed {name}", verb(commit))));
        }
    }
    if publishes {
        let main = |version: &super::history::Version| version.observed.reference(&RefName::main()).cloned();
        let kept = main(after).map(|main| main.kind);
        // As last read: while main stood where it did.
        let mut read = history.versions.iter().take(now).rev().map(main);
        let old = main(before);
        let mut known = std::iter::from_fn(|| read.next())
            .take_while(|found| found.as_ref().map(|main| main.snapshot) == old.as_ref().map(|main| main.snapshot))
            .map(|found| found.map(|main| main.kind));
        if old.is_some() && !known.any(|kind| kind == kept) {
            broken.push(("I11", format!("the retention of main was {old:?}, and is {kept:?}")));
        }
    }
    broken
}

/// I1 and I7: main moves only to a seal, under the schema and spec that it was sealed under, and onto what it was.
fn main_moved(history: &History, now: usize, commit: &Commit) -> Vec<(&'static str, String)> {
    let (Some(before), Some(after)) =
        (now.checked_sub(1).and_then(|at| history.versions.get(at)), history.versions.get(now))
    else {
        return Vec::new();
    };
    let (Some(main), old) = (after.observed.main(), before.observed.main()) else { return Vec::new() };
    if Some(main) == old {
        return Vec::new();
    }
    let mut broken = Vec::new();
    let own = |id: &PublicationId| sets(commit).any(|name| name == id.published_ref());
    if !matches!(history.role(main), Some(Role::Seal(id, _)) if own(id)) {
        broken.push(("I1", format!("main moved to {}, which is no seal of what was published", history.label(main))));
    }
    if old.is_some_and(|old| !history.ancestry(main).any(|snapshot| snapshot == old)) {
        let old = old.map_or_else(String::new, |old| history.label(old));
        broken.push(("I7", format!("main moved from {old} to {}, which does not stand on it", history.label(main))));
    }
    let schema = after.observed.snapshots.get(&main).and_then(|seal| seal.schema_id);
    if schema.is_some_and(|schema| schema != after.observed.current_schema_id) {
        let current = after.observed.current_schema_id;
        broken.push((
            "I1",
            format!("{} was sealed under schema {schema:?}, and {current} is current", history.label(main)),
        ));
    }
    broken
}
