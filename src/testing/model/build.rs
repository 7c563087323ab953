//! Real commits over the model's tables, and what is computed of the data: its digests, and whether main holds its files.

use super::names::{Fresh, base_value, fresh, incarnation, snapshot};
use super::table::{FIRST_OWN, List, OWN, Table};
use crate::digest::Digest;
use crate::ids::{Owner, PublicationId, SnapshotId, TableName};
use crate::journal::record::{Closing, Event, Opening, SealRecord, WrittenFile};
use crate::observed::{Role, summary};
use crate::publish::attempt::{CloseReason, Verb};
use crate::publish::commits::{self, Commit, Target};
use crate::publish::decide::Recomputed;
use crate::publish::intent::Intent;
use crate::publish::own::marker_below;
use crate::publish::reconcile::{FilesLive, base_of};
use crate::publish::state::FenceForm;

/// Where a commit is made: the table as read, and whose attempt it is.
#[derive(Debug)]
pub struct Site<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its name, as the process knows it.
    pub name: TableName,
    /// The publication.
    pub id: PublicationId,
    /// Which coordinator.
    pub who: usize,
    /// How often its journal was lost.
    pub epoch: u8,
    /// The attempt's number.
    pub attempt: u16,
    /// The number of the command's first attempt.
    pub first: u16,
}

impl Site<'_> {
    fn target(&self) -> Target<'_> {
        Target { table: &self.name, id: &self.id, observed: &self.table.observed, key: super::names::key() }
    }

    fn at(&self) -> (i64, i64) {
        (self.table.next_sequence(), self.table.time())
    }

    /// A list of its own for each attempt.
    fn list(&self, files: u32) -> List {
        let name = fresh(self.who, self.epoch, self.attempt, Fresh::Snapshot).0.unsigned_abs() * 2 + 1_000_000;
        List { name, files }
    }

    fn schema(&self) -> i32 {
        self.table.observed.current_schema_id
    }

    fn root(&self) -> iceberg::spec::Snapshot {
        let id = fresh(self.who, self.epoch, self.attempt, Fresh::Root);
        snapshot(id, None, self.at(), self.list(0), self.schema(), Vec::new())
    }
}

/// What a record of intent fixes besides the commit.
#[derive(Debug, Clone, Default)]
pub struct Fixed {
    /// By BEGIN.
    pub opening: Option<Opening>,
    /// By SEAL.
    pub seal: Option<SealRecord>,
    /// By FENCE.
    pub closing: Option<Closing>,
    /// By STAGE.
    pub files: Vec<WrittenFile>,
}

/// Nothing.
pub const NOTHING: Fixed = Fixed { opening: None, seal: None, closing: None, files: Vec::new() };

/// The record of an intent.
pub fn intended(attempt: u32, verb: Verb, commit: &Commit, sequence_number: i64, fixed: Fixed) -> Event {
    let adds = commit.updates.iter().filter_map(|update| match update {
        iceberg::TableUpdate::AddSnapshot { snapshot } => Some(SnapshotId(snapshot.snapshot_id())),
        _ => None,
    });
    Event::Intended {
        attempt,
        verb,
        adds: adds.collect(),
        sequence_number,
        commit: Box::new(commit.clone()),
        opening: fixed.opening.map(Box::new),
        seal: fixed.seal.map(Box::new),
        closing: fixed.closing,
        files: fixed.files,
    }
}

/// BEGIN, and what it fixes.
pub fn begin(site: &Site<'_>, journal: &str) -> (Commit, Opening) {
    let base = site.table.observed.main();
    let marker = fresh(site.who, site.epoch, site.attempt, Fresh::Snapshot);
    let incarnation = incarnation(site.who, site.epoch, site.first);
    let values = vec![
        (summary::PUBLISH_ID, site.id.to_string()),
        (summary::INCARNATION, incarnation.to_string()),
        (summary::OWNER, "ann@host".to_owned()),
        base_value(base),
        (summary::JOURNAL, journal.to_owned()),
    ];
    let files = base.map_or(0, |base| site.table.files(base));
    let made = snapshot(marker, base, site.at(), site.list(files), site.schema(), values);
    let opening = Opening {
        publication: site.id.clone(),
        incarnation,
        table: site.name.clone(),
        base,
        marker,
        scope: "true".to_owned(),
        scope_text: "true".to_owned(),
        reads: None,
        owner: Owner("ann@host".to_owned()),
        code: None,
        sources: Vec::new(),
        journal: journal.to_owned(),
    };
    (commits::begin(&site.target(), made), opening)
}

/// The newest of the ancestors that is no seal.
pub fn data_of(table: &Table, head: SnapshotId) -> SnapshotId {
    let is_seal = |id: &SnapshotId| matches!(table.observed.role(*id), Role::Seal(..));
    table.observed.ancestry(head).find(|id| !is_seal(id)).unwrap_or(head)
}

fn staged_values(site: &Site<'_>, began: &Table, marker: SnapshotId) -> Vec<(&'static str, String)> {
    let incarnation = match began.observed.role(marker) {
        Role::Marker(_, incarnation) => incarnation.to_string(),
        Role::Seal(..) | Role::Staged(..) | Role::Other => String::new(),
    };
    vec![(summary::PUBLISH_ID, site.id.to_string()), (summary::INCARNATION, incarnation)]
}

/// STAGE of one file on the head that was read, and the file.
pub fn stage(site: &Site<'_>, began: &Table, head: SnapshotId, marker: SnapshotId) -> (Commit, Vec<WrittenFile>) {
    let data = data_of(began, head);
    let file = FIRST_OWN + (u32::from(site.first) + 4 * site.who as u32) % 8;
    let id = fresh(site.who, site.epoch, site.first, Fresh::Snapshot);
    let list = site.list(began.files(data) | 1 << file);
    let values = staged_values(site, began, marker);
    let made = snapshot(id, Some(data), site.at(), list, site.schema(), values);
    let file = WrittenFile { path: file.to_string(), sha256: Digest::of_bytes(&file.to_be_bytes()) };
    (commits::stage(&site.target(), head, made), vec![file])
}

/// What a candidate's digests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identities {
    /// What it adds to the marker.
    pub change: Digest,
    /// What is live in it.
    pub tree: Digest,
    /// The change with everything that it is bound to.
    pub candidate: Digest,
    /// The contract.
    pub contract: Digest,
}

/// The digests of what stands under a head: in place of file lists, their bits.
pub fn identities(table: &Table, marker: SnapshotId, data: SnapshotId, base: Option<SnapshotId>) -> Identities {
    let of = |text: String| Digest::of_bytes(text.as_bytes());
    let (before, after) = (table.files(marker), table.files(data));
    let (schema, spec) = (table.observed.current_schema_id, table.observed.default_spec_id);
    Identities {
        change: of(format!("change {} {}", after & !before, before & !after)),
        tree: of(format!("tree {after}")),
        candidate: of(format!("candidate {} {after} {before} {base:?} {schema} {spec}", table.observed.uuid)),
        contract: of("contract".to_owned()),
    }
}

/// SEAL of what was checked, and its record. `None` where the candidate adds no row.
pub fn seal(site: &Site<'_>, began: &Table, head: SnapshotId, marker: SnapshotId) -> Option<(Commit, SealRecord)> {
    let data = data_of(began, head);
    if began.files(data) == began.files(marker) {
        return None;
    }
    let base = base_of(&began.observed, marker);
    let found = identities(began, marker, data, base);
    let mut values = staged_values(site, began, marker);
    let of = values.get(1).map(|(_, incarnation)| incarnation.clone());
    let earlier = began.observed.snapshots.keys().copied().filter(|id| {
        matches!(began.observed.role(*id), Role::Seal(publication, incarnation)
            if publication == site.id && Some(incarnation.to_string()) == of)
    });
    let replaces: Vec<SnapshotId> = earlier.collect();
    let list: Vec<_> = replaces.iter().map(ToString::to_string).collect();
    values.extend([
        base_value(base),
        (summary::VERDICT, "pass".to_owned()),
        (summary::REPLACES, list.join(",")),
        (summary::CHANGE, found.change.to_string()),
        (summary::TREE, found.tree.to_string()),
        (summary::CANDIDATE, found.candidate.to_string()),
        (summary::CONTRACT, found.contract.to_string()),
    ]);
    let id = fresh(site.who, site.epoch, site.first, Fresh::Snapshot);
    let made = snapshot(id, Some(data), site.at(), site.list(began.files(data)), site.schema(), values);
    let statement = Digest::of_bytes(b"statement");
    let record = SealRecord {
        seal: id,
        data,
        replaces,
        candidate: found.candidate,
        change: found.change,
        tree: found.tree,
        contract: found.contract,
        statement,
        statement_location: "file:///statements/s".to_owned(),
        schema_id: site.table.observed.current_schema_id,
        spec_id: site.table.observed.default_spec_id,
    };
    Some((commits::seal(&site.target(), head, made, Vec::new()), record))
}

/// FENCE in one of its forms.
///
/// # Panics
/// Where an empty root could not be placed: that is a fault of the commits themselves.
pub fn fence(site: &Site<'_>, intent: &Intent, form: FenceForm) -> Commit {
    let observed = &site.table.observed;
    match form {
        FenceForm::Branch(head) => {
            let marker = marker_below(intent, observed, head);
            let base = marker
                .and_then(|marker| base_of(observed, marker))
                .or_else(|| observed.main().filter(|_| marker.is_none()));
            commits::fence(&site.target(), head, base, marker, None)
                .or_else(|| commits::fence(&site.target(), head, base, marker, Some(site.root())))
        }
        FenceForm::Absent => commits::fence_absent(&site.target(), None)
            .or_else(|| commits::fence_absent(&site.target(), Some(site.root()))),
    }
    .expect("a root was given")
}

/// What FENCE fixes.
pub fn closing() -> Closing {
    let fence = super::names::id().closed_ref();
    Closing { why: CloseReason::Abandoned, reason: "given up".to_owned(), fence }
}

/// SETTLE of what an engine made visible.
pub fn settle(site: &Site<'_>, intent: &Intent, snapshot: Option<SnapshotId>, head: SnapshotId) -> Commit {
    let observed = &site.table.observed;
    let marker = marker_below(intent, observed, head);
    let base = marker.and_then(|marker| base_of(observed, marker));
    let main = observed.main();
    let in_main = |id: &SnapshotId| main.is_some_and(|main| observed.ancestry(main).any(|a| a == *id));
    let visible = snapshot.filter(in_main).unwrap_or(head);
    commits::settle(&site.target(), head, visible, base, marker)
}

/// What is recomputed of a sealed candidate. `statement`: is it in the journal?
pub fn recompute(intent: &Intent, table: &Table, seal: SnapshotId, statement: bool) -> Result<Recomputed, String> {
    if !statement {
        return Err("the statement is not in the journal".to_owned());
    }
    let marker = marker_below(intent, &table.observed, seal).ok_or("the marker below the seal is gone")?;
    let base = base_of(&table.observed, marker);
    let found = identities(table, marker, data_of(table, seal), base);
    let list = table.lists.get(&seal).map(|list| list.name);
    let shared = table.lists.iter().filter(|(id, other)| **id != seal && Some(other.name) == list);
    Ok(Recomputed {
        change: found.change,
        tree: found.tree,
        seal_tree: Digest::of_bytes(format!("tree {}", table.files(seal)).as_bytes()),
        candidate: found.candidate,
        contract: found.contract,
        statement_passed: true,
        missing_files: Vec::new(),
        changed_files: Vec::new(),
        shared_list: shared.map(|(id, _)| *id).collect(),
    })
}

/// Are files that the candidate added live in main? As `coordinator/facts.rs` finds it.
pub fn files_live(intent: &Intent, table: &Table) -> FilesLive {
    let bit = |file: &WrittenFile| file.path.parse::<u32>().map_or(0, |file| 1 << file);
    let mut files = intent.files.iter().fold(0, |files, file| files | bit(file));
    let observed = &table.observed;
    let id = &intent.publication;
    let branch = observed.reference(&id.audit_ref()).filter(|audit| audit.kind.is_branch());
    let fixed = branch.or(observed.reference(&id.closed_ref())).or(observed.reference(&id.published_ref()));
    if let Some(head) = fixed.map(|reference| reference.snapshot)
        && let Some(marker) = marker_below(intent, observed, head)
    {
        files |= table.files(data_of(table, head)) & !table.files(marker);
    }
    match observed.main() {
        Some(main) if files != 0 => match table.files(main) & files {
            0 => FilesLive::No,
            _ => FilesLive::Yes,
        },
        Some(_) | None => FilesLive::NotKnown,
    }
}

/// The candidate's own files that a head adds to its marker, for engines that copy them.
pub fn added_files(table: &Table, head: SnapshotId) -> u32 {
    table.files(head) & OWN
}
