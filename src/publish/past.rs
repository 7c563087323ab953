//! What older states of a table showed of one publication. Source: `protocol.md`, "Older metadata".
//!
//! The current metadata forgets: refs are removed, snapshots expire, and the snapshot log with them. Older metadata files
//! still have them. Every state in the chain of the table's metadata log was the table once, and a snapshot never changes,
//! so what they show adds facts and takes none away. A file that could not be read is a gap: it says nothing at all.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ids::{PublicationId, SnapshotId};
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, Role};

/// What older states of a table showed of one publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    publication: PublicationId,
    read: Vec<Reading>,
    gaps: Vec<Gap>,
    ended: Ended,
    snapshots: BTreeMap<SnapshotId, ObservedSnapshot>,
    /// Past values of main, each with the newest state that shows it (an index into `read`).
    main: BTreeMap<SnapshotId, (i64, usize)>,
    /// Anything of the publication was seen, in a state or in the table as it is.
    seen: bool,
}

/// One older state, as far as it concerns the publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The metadata file.
    pub file: String,
    /// When the state was committed, in milliseconds since 1970, as the table's log has it.
    pub at_ms: i64,
    /// The table's last sequence number in it.
    pub sequence_number: i64,
    /// `main` in it.
    pub main: Option<SnapshotId>,
    /// `audit/<id>` in it.
    pub audit: Option<ObservedRef>,
    /// `published/<id>` in it.
    pub published: Option<ObservedRef>,
    /// `closed/<id>` in it.
    pub closed: Option<ObservedRef>,
}

/// A metadata file of the chain that could not be read: nothing follows from it, either way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Gap {
    /// The metadata file.
    pub file: String,
    /// When it was committed, in milliseconds since 1970, as the table's log has it.
    pub at_ms: i64,
    /// Why it could not be read.
    pub reason: String,
}

/// Why the look back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// What was found decides.
    Decided,
    /// The table was followed back to before the publication was begun.
    Begun,
    /// No older metadata file is named by those that could be read.
    Log,
    /// As many files as were to be read have been.
    Files,
    /// As many bytes as were to be read have been.
    Bytes,
}

/// How far the table was followed back, as reports carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LookedBack {
    /// How many older metadata files were read.
    pub files: usize,
    /// The oldest of them.
    pub oldest_file: Option<String>,
    /// When that was committed, in milliseconds since 1970.
    pub oldest_at_ms: Option<i64>,
    /// Those that could not be read.
    pub unread: Vec<Gap>,
    /// Why it ended.
    pub ended: Ended,
}

impl Past {
    /// Nothing read yet. `now` is the table as it is.
    pub fn new(publication: PublicationId, now: &Observed) -> Self {
        let seen = shows(&publication, now);
        Self {
            publication,
            read: Vec::new(),
            gaps: Vec::new(),
            ended: Ended::Log,
            snapshots: BTreeMap::new(),
            main: BTreeMap::new(),
            seen,
        }
    }

    /// Adds an older state, which must be of this table and in the chain of its metadata log; newest first. Returns whether
    /// the publication was not begun yet in it: then no older one can show anything of it.
    pub fn add(&mut self, file: &str, at_ms: i64, state: &Observed) -> bool {
        let index = self.read.len();
        let at = |name| state.reference(&name).cloned();
        self.read.push(Reading {
            file: file.to_owned(),
            at_ms,
            sequence_number: state.last_sequence_number,
            main: state.main(),
            audit: at(self.publication.audit_ref()),
            published: at(self.publication.published_ref()),
            closed: at(self.publication.closed_ref()),
        });
        for (id, snapshot) in &state.snapshots {
            let known = self.snapshots.entry(*id).or_insert_with(|| snapshot.clone());
            // An expiry may take the parent's id out of the snapshots that it leaves.
            known.parent = known.parent.or(snapshot.parent);
        }
        for (time, id) in &state.snapshot_log {
            let _newer = self.main.entry(*id).or_insert((*time, index));
        }
        if let Some(main) = state.main() {
            let _newer = self.main.entry(main).or_insert((at_ms, index));
        }
        let before = self.seen && !shows(&self.publication, state);
        self.seen |= shows(&self.publication, state);
        before
    }

    /// Adds a file of the chain that could not be read.
    pub fn gap(&mut self, file: &str, at_ms: i64, reason: String) {
        self.gaps.push(Gap { file: file.to_owned(), at_ms, reason });
    }

    /// Says why the look back ended.
    pub fn end(&mut self, ended: Ended) {
        self.ended = ended;
    }

    /// Why the look back ended.
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// The states that were read, newest first.
    pub fn readings(&self) -> &[Reading] {
        &self.read
    }

    /// The files that could not be read, newest first.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// How far the table was followed back.
    pub fn looked_back(&self) -> LookedBack {
        let oldest = self.read.last();
        LookedBack {
            files: self.read.len(),
            oldest_file: oldest.map(|reading| reading.file.clone()),
            oldest_at_ms: oldest.map(|reading| reading.at_ms),
            unread: self.gaps.clone(),
            ended: self.ended,
        }
    }

    /// The newest state that shows `main` at this snapshot, or that it was there once.
    pub fn main_at(&self, snapshot: SnapshotId) -> Option<&Reading> {
        self.main.get(&snapshot).and_then(|(_, index)| self.read.get(*index))
    }

    /// The newest state with a receipt.
    pub fn receipt(&self) -> Option<(&Reading, SnapshotId)> {
        self.newest(|reading| reading.published.as_ref())
    }

    /// The newest state with a fence.
    pub fn fence(&self) -> Option<(&Reading, SnapshotId)> {
        self.newest(|reading| reading.closed.as_ref())
    }

    /// Every snapshot that the branch, the receipt or a fence of the branch stood on.
    pub(super) fn heads(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        self.read.iter().flat_map(|reading| {
            let branch = reading.audit.as_ref().filter(|audit| audit.kind.is_branch());
            let tombstone = reading.audit.as_ref().filter(|audit| !audit.kind.is_branch()).map(|audit| audit.snapshot);
            // The fence of an absent branch names main, as its tombstone does.
            let fenced = reading.closed.as_ref().filter(|closed| tombstone != Some(closed.snapshot));
            [branch, reading.published.as_ref(), fenced].into_iter().flatten().map(|found| found.snapshot)
        })
    }

    /// The table as it is, with the snapshots and past values of main that older states add to it. Its refs stay its own.
    pub(super) fn over(&self, now: &Observed) -> Observed {
        let mut merged = now.clone();
        for (id, older) in &self.snapshots {
            let known = merged.snapshots.entry(*id).or_insert_with(|| older.clone());
            known.parent = known.parent.or(older.parent);
        }
        let logged = self.main.iter().map(|(id, (time, _))| (*time, *id));
        let mut log: Vec<_> = logged.filter(|(_, id)| !now.snapshot_log.iter().any(|(_, known)| known == id)).collect();
        log.sort_unstable();
        log.extend(now.snapshot_log.iter().copied());
        merged.snapshot_log = log;
        merged
    }

    fn newest(&self, of: impl Fn(&Reading) -> Option<&ObservedRef>) -> Option<(&Reading, SnapshotId)> {
        self.read.iter().find_map(|reading| of(reading).map(|found| (reading, found.snapshot)))
    }
}

/// Does a state show anything of a publication?
fn shows(id: &PublicationId, state: &Observed) -> bool {
    [id.audit_ref(), id.published_ref(), id.closed_ref()].iter().any(|name| state.reference(name).is_some())
        || state.snapshots.values().any(|snapshot| match snapshot.role() {
            Role::Marker(of, _) | Role::Seal(of, _) | Role::Staged(of, _) => of == *id,
            Role::Other => false,
        })
}
