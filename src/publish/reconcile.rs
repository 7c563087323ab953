//! What happened to a publication, from the table itself. Source: `protocol.md`, "Reconcile: the table decides".
//!
//! [`reconcile`] takes what was tried ([`Intent`], possibly nothing) and what the table shows, and returns the first row
//! that fits. The table is the authority; the journal only adds what a table cannot tell: whether a request was sent.

use std::collections::BTreeSet;

use super::attempt::ReplyRecord;
use super::intent::Intent;
use crate::ids::{Incarnation, SnapshotId, TableUuid};
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, Role};

pub use super::own::base_of;
use super::own::{incarnation_of, is_marker, own_snapshots};
use super::state::fence_form;
pub use super::state::{AbandonSent, Absence, FilesLive, Finding, Moved, Sent, State, TableView, Visibility};

/// How often an identical PUBLISH is sent where the catalog names conflicts that the table does not show.
pub const CONFLICTED_TRIES: usize = 3;

const FILES_LIVE: &str = "files that this candidate added are live in main";

/// Decides what happened: the first row that fits.
pub fn reconcile(intent: &Intent, view: &TableView, files: FilesLive) -> Finding {
    let id = &intent.publication;
    let observed = match view {
        TableView::Missing { reason, renamed, why } => {
            let mut proof = vec![format!("the table cannot be loaded: {reason}")];
            proof.extend(lost(intent, *why));
            let state = State::Lost { reason: reason.clone(), renamed: renamed.clone(), why: *why };
            return Finding { publication: id.clone(), state, proof, abandon: None };
        }
        TableView::Present(observed) => observed,
    };
    let facts = Facts::gather(intent, observed);
    let mut proof = facts.proof();
    let state = facts.first_row(files, &mut proof);
    let abandon = intent.abandon_sent().filter(|_| fence_form(&state).is_some());
    Finding { publication: id.clone(), state, proof, abandon }
}

/// What is certain of a publication whose table is not there.
fn lost(intent: &Intent, why: Absence) -> Vec<String> {
    let mut certain = Vec::new();
    if let Some(attempt) = intent.undecided() {
        let (number, verb) = (attempt.number, attempt.verb.word());
        certain.push(format!("attempt {number} ({verb}) was sent, and whether it was applied was never seen"));
    }
    match why {
        Absence::Replaced => certain.push(
            "it was never published in the table that is under this name now; of the earlier table nothing can be read"
                .to_owned(),
        ),
        Absence::Missing | Absence::Unreachable => {}
    }
    certain
}

/// What of the table concerns one publication.
struct Facts<'a> {
    intent: &'a Intent,
    observed: &'a Observed,
    audit: Option<&'a ObservedRef>,
    published: Option<&'a ObservedRef>,
    closed: Option<&'a ObservedRef>,
    /// The BEGIN whose candidate this is.
    incarnation: Option<Incarnation>,
    /// `B`, if it is in the audit branch's ancestry.
    branch_marker: Option<SnapshotId>,
    /// The candidate's own snapshots after `B`.
    own: BTreeSet<SnapshotId>,
    /// Everything main reaches or once reached.
    history: BTreeSet<SnapshotId>,
}

impl<'a> Facts<'a> {
    fn gather(intent: &'a Intent, observed: &'a Observed) -> Self {
        let id = &intent.publication;
        let audit = observed.reference(&id.audit_ref());
        let branch = audit.filter(|audit| audit.kind.is_branch()).map(|audit| audit.snapshot);
        let incarnation = incarnation_of(intent, observed, branch);
        let branch_marker = branch.and_then(|head| {
            let mut last = None;
            let marker = observed
                .ancestry(head)
                .inspect(|snapshot| last = Some(*snapshot))
                .find(|snapshot| is_marker(intent, observed, incarnation, *snapshot));
            marker.or_else(|| {
                let expired = observed.snapshots.get(&last?)?.parent;
                expired.filter(|parent| is_marker(intent, observed, incarnation, *parent))
            })
        });
        Self {
            intent,
            observed,
            audit,
            published: observed.reference(&id.published_ref()),
            closed: observed.reference(&id.closed_ref()),
            incarnation,
            branch_marker,
            own: own_snapshots(intent, observed, incarnation, branch, branch_marker),
            history: observed.main_history(),
        }
    }

    fn proof(&self) -> Vec<String> {
        let id = &self.intent.publication;
        let mut proof = Vec::new();
        let mut tell = |name: String, reference: Option<&ObservedRef>| {
            proof.push(match reference {
                None => format!("{name} is absent"),
                Some(found) if found.kind.is_branch() => format!("{name} is a branch at {}", found.snapshot),
                Some(found) => format!("{name} is a tag at {}", found.snapshot),
            });
        };
        tell("main".to_owned(), self.observed.reference(&crate::ids::RefName::main()));
        tell(id.audit_ref().0, self.audit);
        tell(id.published_ref().0, self.published);
        tell(id.closed_ref().0, self.closed);
        proof
    }

    fn first_row(&self, files: FilesLive, proof: &mut Vec<String>) -> State {
        let intent = self.intent;
        if let Some(known) = intent.table.filter(|known| *known != self.observed.uuid) {
            return self.another_table(known, proof);
        }
        if self.observed.last_sequence_number < intent.remembered_sequence_number {
            let (remembered, found) = (intent.remembered_sequence_number, self.observed.last_sequence_number);
            proof.push(format!("the journal saw sequence number {remembered}, the table is at {found}"));
            return State::Regressed { remembered, found };
        }
        if let Some(receipt) = self.published {
            return self.receipt(receipt.snapshot, files, proof);
        }
        let reached: Vec<SnapshotId> = self.own.intersection(&self.history).copied().collect();
        if !reached.is_empty() || files == FilesLive::Yes {
            return self.visible_without_receipt(&reached, proof);
        }
        if let Some(ambiguous) = self.stray_seal() {
            return ambiguous;
        }
        if self.closed.is_some() {
            return State::Closed;
        }
        match self.audit {
            Some(audit) if audit.kind.is_branch() => self.branch_at(audit.snapshot, proof),
            Some(_) => State::Consumed,
            None if !self.own.is_empty() || intent.has_journal() || self.any_marker() => State::Gone,
            None => State::Unknown,
        }
    }

    fn another_table(&self, known: TableUuid, proof: &mut Vec<String>) -> State {
        let reason = format!("another table is under that name: {} instead of {known}", self.observed.uuid);
        proof.push(reason.clone());
        State::Lost { reason, renamed: None, why: Absence::Replaced }
    }

    fn receipt(&self, target: SnapshotId, files: FilesLive, proof: &mut Vec<String>) -> State {
        let id = &self.intent.publication;
        let sealed = matches!(self.observed.role(target), Role::Seal(of, i)
            if of == *id && self.incarnation.is_none_or(|known| known == i));
        let settled = self.own.contains(&target) && self.intent.settled().any(|snapshot| snapshot == target);
        if sealed || settled {
            let mut visibility = self.visibility(target);
            // An engine can put the files into main without the snapshot, as Spark's cherrypick does.
            if visibility == Visibility::RolledBack && files == FilesLive::Yes {
                visibility = Visibility::Superseded;
                proof.push(FILES_LIVE.to_owned());
            }
            return State::Published { snapshot: target, sealed: sealed || self.covered(target), visibility };
        }
        let reason = format!("{} names {target}, which is no seal of this publication", id.published_ref());
        proof.push(reason.clone());
        State::Ambiguous { reason, snapshots: vec![target] }
    }

    fn visible_without_receipt(&self, reached: &[SnapshotId], proof: &mut Vec<String>) -> State {
        let sequence = |snapshot: &SnapshotId| {
            let found = self.observed.snapshots.get(snapshot);
            // Depth orders where sequence numbers are all 0 (format version 1).
            (found.map_or(0, |s| s.sequence_number), self.observed.ancestry(*snapshot).count())
        };
        // What readers see now comes before what main reached once and was rolled back from.
        let current: BTreeSet<_> =
            self.observed.main().into_iter().flat_map(|main| self.observed.ancestry(main)).collect();
        let newest = reached.iter().copied().max_by_key(|snapshot| (current.contains(snapshot), sequence(snapshot)));
        match newest {
            Some(snapshot) => proof.push(format!("main's history holds {snapshot}, a snapshot of this candidate")),
            None => proof.push(FILES_LIVE.to_owned()),
        }
        let visibility = newest.map_or(Visibility::Superseded, |snapshot| self.visibility(snapshot));
        let sealed = newest.is_some_and(|snapshot| self.covered(snapshot));
        match self.audit {
            _ if self.closed.is_some() => State::VisibleAfterFence { snapshot: newest, visibility },
            Some(audit) if audit.kind.is_branch() => {
                State::Bypassed { snapshot: newest, sealed, visibility, head: audit.snapshot }
            }
            Some(_) | None => State::ReceiptRemoved { snapshot: newest, sealed, visibility },
        }
    }

    /// Is what this snapshot shows exactly what a seal of this candidate covers?
    fn covered(&self, snapshot: SnapshotId) -> bool {
        self.is_seal(snapshot)
            || self.observed.snapshots.iter().any(|(id, sealed)| self.is_seal(*id) && sealed.parent == Some(snapshot))
            || self.intent.seals.iter().any(|record| {
                // A recorded seal may never have been applied; that a publication of it was tried says that it was seen.
                let seen = self.intent.publish_attempts(record.seal).next().is_some();
                record.seal == snapshot || (record.data == snapshot && seen)
            })
    }

    fn is_seal(&self, snapshot: SnapshotId) -> bool {
        matches!(self.observed.role(snapshot), Role::Seal(of, i)
            if of == self.intent.publication && self.incarnation == Some(i))
    }

    /// What readers of main see of a published snapshot: the data snapshot decides, since a seal adds nothing to it.
    fn visibility(&self, published: SnapshotId) -> Visibility {
        let seal = self.observed.snapshots.get(&published).filter(|_| self.is_any_seal(published));
        let data = seal.map_or(Some(published), |seal| seal.parent).unwrap_or(published);
        let Some(main) = self.observed.main() else { return Visibility::RolledBack };
        if main == published || main == data {
            return Visibility::Visible;
        }
        let mut oldest = main;
        for ancestor in self.observed.ancestry(main) {
            if ancestor == published || ancestor == data {
                return Visibility::Superseded;
            }
            oldest = ancestor;
        }
        // Not every expiry leaves the parent's id in a snapshot whose parent it takes: a line without a parent has been
        // followed to its root only if it goes back beyond the publication.
        let whole = self.observed.snapshots.get(&oldest).is_some_and(|root| {
            let before = self.observed.snapshots.get(&published).is_some_and(|of| made_before(root, of));
            root.parent.is_none() && before
        });
        if whole { Visibility::RolledBack } else { Visibility::HistoryEnds }
    }

    fn is_any_seal(&self, snapshot: SnapshotId) -> bool {
        matches!(self.observed.role(snapshot), Role::Seal(..))
    }

    /// Row 4: a seal under this id, in main's history or on the branch, that is neither `K` nor replaced by it.
    fn stray_seal(&self) -> Option<State> {
        let id = &self.intent.publication;
        let branch = self.audit.filter(|audit| audit.kind.is_branch()).map(|audit| audit.snapshot);
        let seal = branch.and_then(|head| self.observed.ancestry(head).find(|s| self.is_seal(*s)));
        let replaced =
            seal.and_then(|seal| self.observed.snapshots.get(&seal)).map(|seal| seal.replaces()).unwrap_or_default();
        let on_branch = branch.into_iter().flat_map(|head| self.observed.ancestry(head));
        let stray = self.history.iter().copied().chain(on_branch).find(|snapshot| {
            matches!(self.observed.role(*snapshot), Role::Seal(of, _) if of == *id)
                && Some(*snapshot) != seal
                && !replaced.contains(snapshot)
        })?;
        let reason = match seal {
            Some(seal) => {
                format!("{stray} is a seal of this id, and the branch's seal {seal} does not name it as replaced")
            }
            None => format!("{stray} is a seal of this id, and belongs to no candidate known here"),
        };
        Some(State::Ambiguous { reason, snapshots: seal.into_iter().chain([stray]).collect() })
    }

    fn branch_at(&self, head: SnapshotId, proof: &mut Vec<String>) -> State {
        let Some(marker) = self.branch_marker else {
            proof.push(format!("the branch at {head} does not stand on a marker of this publication"));
            return State::Foreign { head };
        };
        if self.is_seal(head) {
            return self.sealed(head, proof);
        }
        match self.observed.ancestry(head).find(|snapshot| self.is_seal(*snapshot)) {
            Some(seal) => {
                proof.push(format!("the head {head} stands above the seal {seal}"));
                State::SubjectMoved { head, seal }
            }
            None => State::Open { head, marker },
        }
    }

    fn sealed(&self, seal: SnapshotId, proof: &mut Vec<String>) -> State {
        let moved = self.moved(seal);
        if !moved.is_empty() {
            for one in &moved {
                proof.push(match one {
                    Moved::Main { base, main } => format!("main is at {}, the base is {}", shown(*main), shown(*base)),
                    Moved::Schema { sealed, current } => {
                        format!("the current schema is {current}, sealed under {sealed}")
                    }
                    Moved::Spec { sealed, current } => format!("the default spec is {current}, sealed under {sealed}"),
                });
            }
            return State::Moved { seal, moved };
        }
        let replies: Vec<_> =
            self.intent.publish_attempts(seal).map(|a| (a.number, a.may_be_applied(), &a.reply)).collect();
        for (number, open, reply) in &replies {
            proof.push(match reply {
                None => format!("attempt {number} has no recorded reply"),
                Some(ReplyRecord::Accepted) => format!("attempt {number} was accepted, and the table does not show it"),
                Some(_) if *open => format!("the reply to attempt {number} does not say what happened"),
                Some(ReplyRecord::Refused { status, .. }) => format!("attempt {number} was refused with {status}"),
                Some(_) => format!("attempt {number} never left"),
            });
        }
        let conflict = |reply: &Option<ReplyRecord>| matches!(reply, Some(ReplyRecord::Refused { status: 409, .. }));
        let conflicts = replies.iter().filter(|(_, _, reply)| conflict(reply)).count();
        let conflicted_last = replies.last().is_some_and(|(_, _, reply)| conflict(reply));
        let sent = if replies.iter().any(|(_, open, _)| *open) {
            Sent::InFlight
        } else if replies.is_empty() {
            if self.intent.has_journal() { Sent::None } else { Sent::NoJournal }
        } else if conflicted_last && conflicts < CONFLICTED_TRIES {
            Sent::Conflicted
        } else {
            Sent::Rejected
        };
        State::Sealed { seal, sent }
    }

    fn moved(&self, seal: SnapshotId) -> Vec<Moved> {
        let observed = self.observed;
        let base = base_of(observed, seal);
        let mut moved = Vec::new();
        if base != observed.main() {
            moved.push(Moved::Main { base, main: observed.main() });
        }
        let record = self.intent.seal(seal);
        let schema = record.map(|r| r.schema_id).or(observed.snapshots.get(&seal).and_then(|s| s.schema_id));
        if let Some(sealed) = schema.filter(|sealed| *sealed != observed.current_schema_id) {
            moved.push(Moved::Schema { sealed, current: observed.current_schema_id });
        }
        if let Some(sealed) = record.map(|r| r.spec_id).filter(|sealed| *sealed != observed.default_spec_id) {
            moved.push(Moved::Spec { sealed, current: observed.default_spec_id });
        }
        moved
    }

    fn any_marker(&self) -> bool {
        let id = &self.intent.publication;
        self.observed.snapshots.values().any(|s| matches!(s.role(), Role::Marker(of, _) if of == *id))
    }
}

/// By sequence numbers, which order all commits of a table; by time where they are all 0 (format version 1).
fn made_before(first: &ObservedSnapshot, second: &ObservedSnapshot) -> bool {
    if second.sequence_number > 0 {
        return first.sequence_number < second.sequence_number;
    }
    first.timestamp_ms <= second.timestamp_ms
}

fn shown(id: Option<SnapshotId>) -> String {
    id.map_or_else(|| "absent".to_owned(), |id| id.to_string())
}
