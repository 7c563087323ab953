//! Which snapshots of a table belong to one candidate.

use std::collections::BTreeSet;

use super::attempt::{Opening, Verb};
use super::intent::Intent;
use crate::ids::{Incarnation, SnapshotId};
use crate::observed::{Observed, Role, summary};

/// The base that a marker or seal names in its summary; `None` for a table that had no snapshot.
pub fn base_of(observed: &Observed, snapshot: SnapshotId) -> Option<SnapshotId> {
    observed.snapshots.get(&snapshot)?.summary.get(summary::BASE)?.parse().ok()
}

/// Which BEGIN the candidate belongs to: the branch's, else the one that a receipt or fence of this id stands on, else
/// the journal's newest whose marker the table has, else that of the newest marker or seal of this id in the table,
/// else the journal's newest. The table comes first because a journal also remembers a BEGIN that lost to another's.
pub(super) fn incarnation_of(intent: &Intent, observed: &Observed, branch: Option<SnapshotId>) -> Option<Incarnation> {
    let id = &intent.publication;
    let of = |snapshot: SnapshotId| match observed.role(snapshot) {
        Role::Marker(of, i) | Role::Seal(of, i) | Role::Staged(of, i) if of == *id => Some(i),
        Role::Marker(..) | Role::Seal(..) | Role::Staged(..) | Role::Other => None,
    };
    let stands_on = |start: SnapshotId| observed.ancestry(start).find_map(of);
    let fixed = [observed.reference(&id.published_ref()), observed.reference(&id.closed_ref())];
    branch
        .and_then(stands_on)
        .or_else(|| fixed.into_iter().flatten().find_map(|reference| stands_on(reference.snapshot)))
        .or_else(|| {
            let landed = |opening: &&Opening| observed.snapshots.contains_key(&opening.marker);
            intent.openings.iter().rev().find(landed).map(|opening| opening.incarnation)
        })
        .or_else(|| {
            let newest = observed
                .snapshots
                .iter()
                .filter_map(|(snapshot, facts)| Some((facts.sequence_number, facts.timestamp_ms, of(*snapshot)?)));
            newest.max_by_key(|(sequence, time, _)| (*sequence, *time)).map(|(_, _, incarnation)| incarnation)
        })
        .or_else(|| intent.openings.last().map(|opening| opening.incarnation))
}

/// Is this the candidate's `B`? By its summary, or by the journal where it was expired.
pub(super) fn is_marker(
    intent: &Intent,
    observed: &Observed,
    incarnation: Option<Incarnation>,
    snapshot: SnapshotId,
) -> bool {
    match observed.role(snapshot) {
        Role::Marker(of, i) => of == intent.publication && Some(i) == incarnation,
        Role::Seal(..) | Role::Staged(..) => false,
        Role::Other => {
            !observed.snapshots.contains_key(&snapshot)
                && intent.openings.iter().any(|o| o.marker == snapshot && Some(o.incarnation) == incarnation)
        }
    }
}

/// The candidate's snapshots after `B`: those that say so, those between the branch's head or a seal and `B`, and those
/// the journal knows. The marker itself is none: a main at `B` shows nothing new. `earlier` are heads that older states of the
/// table show.
pub(super) fn own_snapshots(
    intent: &Intent,
    observed: &Observed,
    incarnation: Option<Incarnation>,
    branch: Option<SnapshotId>,
    branch_marker: Option<SnapshotId>,
    earlier: &[SnapshotId],
) -> BTreeSet<SnapshotId> {
    let id = &intent.publication;
    let is_own = |snapshot: SnapshotId| match observed.role(snapshot) {
        Role::Seal(of, i) | Role::Staged(of, i) => of == *id && Some(i) == incarnation,
        Role::Marker(..) | Role::Other => false,
    };
    let is_marker = |snapshot: SnapshotId| is_marker(intent, observed, incarnation, snapshot);
    let mut own: BTreeSet<SnapshotId> = observed.snapshots.keys().copied().filter(|s| is_own(*s)).collect();
    // Engines' snapshots carry no id of ours; they are the candidate's where they stand between it and its marker. Once
    // the branch is consumed, its receipt or fence still names the head. A fence of an absent branch names main instead,
    // and is told from the other by its tombstone, which then stands on the same snapshot.
    let at = |name| observed.reference(&name).map(|reference| reference.snapshot);
    let tombstone = at(id.audit_ref()).filter(|_| branch.is_none());
    let fenced = at(id.closed_ref()).filter(|closed| tombstone != Some(*closed));
    let consumed = [at(id.published_ref()), fenced].into_iter().flatten();
    let heads = own.iter().copied().chain(branch.filter(|_| branch_marker.is_some())).chain(consumed);
    let heads = heads.chain(earlier.iter().copied());
    let heads: Vec<_> = heads.collect();
    for head in heads {
        let path: Vec<_> = observed.ancestry(head).take_while(|s| !is_marker(*s)).collect();
        let reaches_marker = path
            .last()
            .and_then(|last| observed.snapshots.get(last))
            .and_then(|last| last.parent)
            .is_some_and(is_marker);
        if reaches_marker {
            own.extend(path);
        }
    }
    let after_begin = intent.attempts.iter().filter(|attempt| matches!(attempt.verb, Verb::Stage | Verb::Seal));
    own.extend(after_begin.flat_map(|attempt| attempt.adds.iter().copied()));
    own.extend(intent.seals.iter().map(|seal| seal.data).filter(|s| !is_marker(*s)));
    own
}

/// The candidate's marker in the ancestry of a snapshot.
pub fn marker_below(intent: &Intent, observed: &Observed, snapshot: SnapshotId) -> Option<SnapshotId> {
    observed.ancestry(snapshot).find(|id| matches!(observed.role(*id), Role::Marker(of, _) if of == intent.publication))
}

/// Does the journal know of nothing but BEGINs, and the table of nothing at all? Then no BEGIN of this id was applied.
pub fn only_begins(intent: &Intent, observed: &Observed) -> bool {
    intent.attempts.iter().all(|attempt| attempt.verb == Verb::Begin)
        && !observed.snapshots.values().any(|snapshot| match snapshot.role() {
            Role::Marker(of, _) | Role::Seal(of, _) | Role::Staged(of, _) => of == intent.publication,
            Role::Other => false,
        })
}
