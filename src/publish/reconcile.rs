//! What happened to a publication, from the table itself. Source: `protocol.md`, "Reconcile: the table decides".
//!
//! [`reconcile`] takes what was tried ([`Intent`], possibly nothing) and what the table shows, and returns the first row
//! that fits. The table is the authority; the journal only adds what a table cannot tell: whether a request was sent.

use std::collections::BTreeSet;

use super::attempt::{ReplyRecord, Verb};
use super::intent::{Intent, SawWhat};
use super::past::Past;
use super::proof;
use crate::ids::{Incarnation, SnapshotId};
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, Role};

pub use super::own::base_of;
use super::own::{incarnation_of, is_marker, own_snapshots};
use super::state::fence_form;
pub use super::state::{AbandonSent, Absence, FilesLive, Finding, Moved, Sent, State, TableView, Visibility};

/// How often an identical PUBLISH is sent where the catalog names conflicts that the table does not show.
pub const CONFLICTED_TRIES: usize = 3;

/// Decides what happened: the first row that fits.
pub fn reconcile(intent: &Intent, view: &TableView, files: FilesLive) -> Finding {
    reconcile_with(intent, view, files, None)
}

/// The same with what older states of the table add to it. Source: `protocol.md`, "Older metadata".
pub fn reconcile_with(intent: &Intent, view: &TableView, files: FilesLive, past: Option<&Past>) -> Finding {
    let publication = intent.publication.clone();
    let observed = match view {
        TableView::Missing { reason, renamed, why } => {
            let state = State::Lost { reason: reason.clone(), renamed: renamed.clone(), why: *why };
            let proof = proof::of_lost(intent, reason, renamed.as_ref(), *why);
            return Finding { publication, state, proof, abandon: None };
        }
        TableView::Present(observed) => observed,
    };
    let merged = past.map(|past| past.over(observed));
    let facts = Facts::gather(intent, merged.as_ref().unwrap_or(observed), past);
    let state = facts.first_row(files);
    let proof = proof::of(&facts, &state, files);
    let abandon = intent.abandon_sent().filter(|_| fence_form(&state).is_some());
    Finding { publication, state, proof, abandon }
}

/// What of the table concerns one publication.
pub(super) struct Facts<'a> {
    pub intent: &'a Intent,
    /// The table as it is; with [`Past`], also the snapshots and the past values of main that only older states have.
    pub observed: &'a Observed,
    pub past: Option<&'a Past>,
    pub audit: Option<&'a ObservedRef>,
    pub published: Option<&'a ObservedRef>,
    pub closed: Option<&'a ObservedRef>,
    /// The BEGIN whose candidate this is.
    pub incarnation: Option<Incarnation>,
    /// `B`, if it is in the audit branch's ancestry.
    pub branch_marker: Option<SnapshotId>,
    /// The candidate's own snapshots after `B`.
    pub own: BTreeSet<SnapshotId>,
    /// Everything main reaches or once reached.
    pub history: BTreeSet<SnapshotId>,
}

/// A publication that only older states or the journal show.
#[derive(Debug, Clone, Copy)]
struct Before {
    snapshot: Option<SnapshotId>,
    sealed: bool,
}

impl<'a> Facts<'a> {
    fn gather(intent: &'a Intent, observed: &'a Observed, past: Option<&'a Past>) -> Self {
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
        let earlier: Vec<SnapshotId> = past.into_iter().flat_map(Past::heads).collect();
        let mut history = observed.main_history();
        // A parent that was expired has been part of main all the same.
        let parents = |id: &SnapshotId| observed.snapshots.get(id).and_then(|snapshot| snapshot.parent);
        let expired: Vec<SnapshotId> = history.iter().filter_map(parents).collect();
        history.extend(expired);
        Self {
            intent,
            observed,
            past,
            audit,
            published: observed.reference(&id.published_ref()),
            closed: observed.reference(&id.closed_ref()),
            incarnation,
            branch_marker,
            own: own_snapshots(intent, observed, incarnation, branch, branch_marker, &earlier),
            history,
        }
    }

    fn first_row(&self, files: FilesLive) -> State {
        let intent = self.intent;
        if let Some(known) = intent.table.filter(|known| *known != self.observed.uuid) {
            let reason = format!("another table is under that name: {} instead of {known}", self.observed.uuid);
            return State::Lost { reason, renamed: None, why: Absence::Replaced };
        }
        if self.observed.last_sequence_number < intent.remembered_sequence_number {
            let (remembered, found) = (intent.remembered_sequence_number, self.observed.last_sequence_number);
            return State::Regressed { remembered, found };
        }
        if let Some(receipt) = self.published {
            return self.receipt(receipt.snapshot, files);
        }
        let reached = self.reached();
        if !reached.is_empty() || files == FilesLive::Yes {
            return self.visible_without_receipt(&reached);
        }
        if let Some(ambiguous) = self.stray_seal() {
            return ambiguous;
        }
        let before = self.published_before();
        if let Some(Before { snapshot, .. }) = before.filter(|_| self.closed.is_some()) {
            return State::VisibleAfterFence { snapshot, visibility: self.visibility_of(snapshot) };
        }
        if self.closed.is_some() {
            return State::Closed;
        }
        match self.audit {
            Some(audit) if audit.kind.is_branch() => {
                self.stands_again(audit.snapshot, before).unwrap_or_else(|| self.branch_at(audit.snapshot))
            }
            audit => self.ended_before(before).unwrap_or_else(|| match audit {
                Some(_) => State::Consumed,
                None if !self.own.is_empty() || intent.has_journal() || self.any_marker() => State::Gone,
                None => State::Unknown,
            }),
        }
    }

    /// Where the table itself no longer tells how it ended: what older states of it or the journal show.
    fn ended_before(&self, before: Option<Before>) -> Option<State> {
        match before {
            Some(_) if self.is_another_past() => Some(self.regressed()),
            Some(Before { snapshot, sealed }) => {
                Some(State::ReceiptRemoved { snapshot, sealed, visibility: self.visibility_of(snapshot) })
            }
            None => self.was_closed().then_some(State::Closed),
        }
    }

    /// The candidate's snapshots after `B` that main reached.
    pub fn reached(&self) -> Vec<SnapshotId> {
        self.own.intersection(&self.history).copied().collect()
    }

    fn receipt(&self, target: SnapshotId, files: FilesLive) -> State {
        if let Some(sealed) = self.receipted(target) {
            let mut visibility = self.visibility(target);
            // An engine can put the files into main without the snapshot, as Spark's cherrypick does.
            if visibility == Visibility::RolledBack && files == FilesLive::Yes {
                visibility = Visibility::Superseded;
            }
            return State::Published { snapshot: target, sealed, visibility };
        }
        let receipt = self.intent.publication.published_ref();
        let reason = format!("{receipt} names {target}, which is no seal of this publication");
        State::Ambiguous { reason, snapshots: vec![target] }
    }

    /// Can a receipt of calve's name this snapshot, and does evidence cover it then? `None`: it cannot.
    fn receipted(&self, target: SnapshotId) -> Option<bool> {
        let id = &self.intent.publication;
        let sealed = matches!(self.observed.role(target), Role::Seal(of, i)
            if of == *id && self.incarnation.is_none_or(|known| known == i));
        let settled = self.own.contains(&target) && self.intent.settled().any(|snapshot| snapshot == target);
        if sealed || settled {
            return Some(sealed || self.covered(target));
        }
        None
    }

    /// Was it published, as an older state of the table or the journal shows it?
    fn published_before(&self) -> Option<Before> {
        let receipt = self.past.and_then(Past::receipt);
        let shown = receipt
            .and_then(|(_, target)| self.receipted(target).map(|sealed| Before { snapshot: Some(target), sealed }));
        shown.or_else(|| {
            let _seen = self.intent.saw.filter(|saw| saw.what == SawWhat::Published)?;
            if let Some(settled) = self.intent.settled().last() {
                return Some(Before { snapshot: Some(settled), sealed: self.covered(settled) });
            }
            let sent = self.intent.attempts.iter().filter(|attempt| attempt.verb == Verb::Publish);
            let seals: BTreeSet<SnapshotId> =
                sent.filter_map(|attempt| super::commits::moves_main_to(&attempt.commit)).collect();
            let only = seals.first().copied().filter(|_| seals.len() == 1);
            Some(Before { snapshot: only, sealed: !seals.is_empty() })
        })
    }

    /// Was it closed, as the table, an older state of it or the journal shows it?
    fn was_closed(&self) -> bool {
        self.closed.is_some()
            || self.past.is_some_and(|past| past.fence().is_some())
            || self.intent.saw.is_some_and(|saw| saw.what == SawWhat::Closed)
    }

    /// A branch that a publication or a fence had used up, and that is there again. A branch that calve did not make may
    /// have been made by anyone, and is only strange where a publication had used up ours.
    fn stands_again(&self, head: SnapshotId, before: Option<Before>) -> Option<State> {
        let ours = self.branch_marker.is_some();
        let audit = self.intent.publication.audit_ref();
        let file = |past: &'a Past| match past.receipt().filter(|(_, target)| self.receipted(*target).is_some()) {
            Some(found) => Some((self.intent.publication.published_ref(), found)),
            None => past.fence().filter(|_| ours).map(|found| (self.intent.publication.closed_ref(), found)),
        };
        if let Some((name, (reading, target))) = self.past.and_then(file) {
            let reason = format!(
                "{} had {name} at {target}, which uses the branch up, and {audit} is a branch at {head} now",
                reading.file
            );
            return Some(State::Ambiguous { reason, snapshots: vec![target, head] });
        }
        let journal = before.is_some() || (ours && self.was_closed());
        journal.then(|| self.regressed())
    }

    /// Nothing that a publication leaves is here, although main's line is whole back to before it: the table was put back.
    fn is_another_past(&self) -> bool {
        let Some(saw) = self.intent.saw else { return false };
        if self.past.is_some_and(|past| past.receipt().is_some()) || self.audit.is_some() || self.any_marker() {
            return false;
        }
        let Some(root) = self.observed.main().and_then(|main| self.observed.ancestry(main).last()) else {
            return false;
        };
        let root = self.observed.snapshots.get(&root);
        let before = root.is_some_and(|root| root.parent.is_none() && root.sequence_number < saw.sequence_number);
        before && !self.own.iter().any(|own| self.observed.snapshots.contains_key(own))
    }

    /// The journal saw an end that the table does not show.
    fn regressed(&self) -> State {
        let remembered = self.intent.saw.map_or(0, |saw| saw.sequence_number);
        State::Regressed { remembered, found: self.observed.last_sequence_number }
    }

    fn visible_without_receipt(&self, reached: &[SnapshotId]) -> State {
        let newest = self.newest_reached(reached);
        let visibility = newest.map_or(Visibility::Superseded, |snapshot| self.visibility(snapshot));
        let sealed = newest.is_some_and(|snapshot| self.covered(snapshot));
        match self.audit {
            _ if self.was_closed() => State::VisibleAfterFence { snapshot: newest, visibility },
            Some(audit) if audit.kind.is_branch() => {
                State::Bypassed { snapshot: newest, sealed, visibility, head: audit.snapshot }
            }
            Some(_) | None => State::ReceiptRemoved { snapshot: newest, sealed, visibility },
        }
    }

    fn newest_reached(&self, reached: &[SnapshotId]) -> Option<SnapshotId> {
        let sequence = |snapshot: &SnapshotId| {
            let found = self.observed.snapshots.get(snapshot);
            // Depth orders where sequence numbers are all 0 (format version 1).
            (found.map_or(0, |s| s.sequence_number), self.observed.ancestry(*snapshot).count())
        };
        // What readers see now comes before what main reached once and was rolled back from.
        let current: BTreeSet<_> =
            self.observed.main().into_iter().flat_map(|main| self.observed.ancestry(main)).collect();
        reached.iter().copied().max_by_key(|snapshot| (current.contains(snapshot), sequence(snapshot)))
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

    pub fn is_seal(&self, snapshot: SnapshotId) -> bool {
        matches!(self.observed.role(snapshot), Role::Seal(of, i)
            if of == self.intent.publication && self.incarnation == Some(i))
    }

    fn visibility_of(&self, snapshot: Option<SnapshotId>) -> Visibility {
        snapshot.map_or(Visibility::HistoryEnds, |snapshot| self.visibility(snapshot))
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
            let parent = self.observed.snapshots.get(&ancestor).and_then(|snapshot| snapshot.parent);
            if [Some(ancestor), parent].iter().flatten().any(|id| *id == published || *id == data) {
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

    fn branch_at(&self, head: SnapshotId) -> State {
        let Some(marker) = self.branch_marker else {
            return State::Foreign { head };
        };
        if self.is_seal(head) {
            return self.sealed(head);
        }
        match self.observed.ancestry(head).find(|snapshot| self.is_seal(*snapshot)) {
            Some(seal) => State::SubjectMoved { head, seal },
            None => State::Open { head, marker },
        }
    }

    fn sealed(&self, seal: SnapshotId) -> State {
        let moved = self.moved(seal);
        if !moved.is_empty() {
            return State::Moved { seal, moved };
        }
        let replies: Vec<_> =
            self.intent.publish_attempts(seal).map(|a| (a.number, a.may_be_applied(), &a.reply)).collect();
        let conflict = |reply: &Option<ReplyRecord>| matches!(reply, Some(ReplyRecord::Refused { status: 409, .. }));
        let conflicts = replies.iter().filter(|(_, _, reply)| conflict(reply)).count();
        let conflicted_last = replies.last().is_some_and(|(_, _, reply)| conflict(reply));
        let sent = if replies.iter().any(|(_, open, _)| *open) {
            Sent::InFlight
        } else if replies.is_empty() {
            // Every request for a seal is recorded after the seal itself. A log that does not have it was lost and begun
            // anew, or belongs to another coordinator: of requests it knows nothing.
            if self.intent.seal(seal).is_some() { Sent::None } else { Sent::NoJournal }
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

    pub fn any_marker(&self) -> bool {
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
