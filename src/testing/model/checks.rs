//! The invariants, held against every step and every state.
//!
//! Where the design states an honest exception, it is named here beside the check that it narrows:
//!
//! - *a restored backup* (`protocol.md`, "Reconcile: the table decides", row 1): what was said of the table before does not
//!   bind the one after it: I3–I6 are not held against what came before;
//! - *an engine's own fast-forward* ("Invariants"): I4 and I6 speak of what calve makes visible;
//! - *a receipt that SETTLE left on an unsealed snapshot* (row 2): only the journal of that SETTLE vouches for it: I10;
//! - *others have acted, or a journal was lost*: L1 then allows that a person is told to look.

use super::build;
use super::mind::{CommitId, Ending, Mind, TableId};
use super::names::{id, shown};
use super::table::Table;
use super::told::Told;
use super::world::{Deed, World, history};
use crate::ids::RefName;
use crate::journal::record::Event;
use crate::observed::{Role, summary};
use crate::publish::Intent;
use crate::publish::commits::moves_main_to;
use crate::publish::reconcile::base_of;

/// An invariant. Source: `protocol.md`, "Invariants".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Main moves only to a snapshot whose passed evidence equals its change, base, schema and spec.
    I1,
    /// Visible at most once.
    I3,
    /// After `abandon` has returned, never.
    I4,
    /// "Published" implies that it was visible.
    I5,
    /// A status code alone never gives a final verdict: what was told as final is true.
    I6,
    /// No concurrent commit is lost.
    I7,
    /// Receipt and closed tag never both exist.
    I9,
    /// A crash at any step, and a restart: the same verdict.
    I10,
    /// A publication changes no unrelated ref, and carries main's retention over.
    I11,
    /// No two snapshots share a manifest list; the seal's tree is that of its data.
    I12,
    /// Every attempt ends.
    L1,
}

/// All of them.
pub const INVARIANTS: [Invariant; 11] = [
    Invariant::I1,
    Invariant::I3,
    Invariant::I4,
    Invariant::I5,
    Invariant::I6,
    Invariant::I7,
    Invariant::I9,
    Invariant::I10,
    Invariant::I11,
    Invariant::I12,
    Invariant::L1,
];

/// An invariant that does not hold, and why not.
pub type Broken = (Invariant, String);

/// What a step breaks.
pub fn of_step(mind: &Mind, before: &World, deed: Deed, broken: &mut Vec<Broken>) {
    match deed {
        Deed::Nothing => {}
        Deed::Applied(commit, after) => applied(mind, before, commit, after, broken),
        Deed::Told(_, _, told, read) => said(mind, before, told, read, broken),
    }
}

fn applied(mind: &Mind, before: &World, commit: CommitId, after: TableId, broken: &mut Vec<Broken>) {
    let (was, is) = (mind.table(before.table), mind.table(after));
    let ours = super::world::our_refs();
    let unrelated = |table: &Table| {
        let refs = table.observed.refs.clone().into_iter();
        refs.filter(|(name, _)| *name != RefName::main() && !ours.contains(name)).collect::<Vec<_>>()
    };
    if unrelated(&was) != unrelated(&is) {
        broken.push((Invariant::I11, "the commit changed a ref that is none of the publication's".to_owned()));
    }
    let retention = |table: &Table| table.observed.reference(&RefName::main()).map(|main| main.kind.clone());
    if retention(&was).is_some() && retention(&was) != retention(&is) {
        let reason = format!("main's retention was {:?}, and is {:?}", retention(&was), retention(&is));
        broken.push((Invariant::I11, reason));
    }
    let Some(to) = moves_main_to(&mind.commit(commit)) else { return };
    if before.history & history::RESTORED == 0 {
        if before.history & history::PUBLISHED != 0 {
            broken.push((Invariant::I3, "a second PUBLISH was applied".to_owned()));
        }
        if before.history & history::ABANDONED != 0 {
            broken.push((Invariant::I4, "PUBLISH was applied after abandon had returned".to_owned()));
        } else if before.history & history::TOLD_NEVER != 0 {
            broken.push((Invariant::I6, "PUBLISH was applied after it was said that it never would be".to_owned()));
        }
    }
    if let Some(main) = was.observed.main()
        && !is.observed.ancestry(to).any(|ancestor| ancestor == main)
    {
        let reason =
            format!("{} does not stand on main, which was at {}", shown(&is.observed, to), shown(&was.observed, main));
        broken.push((Invariant::I7, reason));
    }
    if let Err(reason) = evidence(&was, to) {
        broken.push((Invariant::I1, reason));
    }
}

/// Does the seal's evidence hold for the table that it was published in?
fn evidence(table: &Table, to: crate::ids::SnapshotId) -> Result<(), String> {
    let observed = &table.observed;
    let named = shown(observed, to);
    if !matches!(observed.role(to), Role::Seal(of, _) if of == id()) {
        return Err(format!("main was moved to {named}, which is no seal of this publication"));
    }
    let values = observed.snapshots.get(&to).map(|snapshot| snapshot.summary.clone()).unwrap_or_default();
    let found = build::recompute(&Intent::empty(id(), None), table, to, true)?;
    let held = [
        (summary::CHANGE, found.change),
        (summary::TREE, found.tree),
        (summary::TREE, found.seal_tree),
        (summary::CANDIDATE, found.candidate),
        (summary::CONTRACT, found.contract),
    ];
    for (key, digest) in held {
        if values.get(key) != Some(&digest.to_string()) {
            return Err(format!("{key} of {named} is not what was published"));
        }
    }
    if base_of(observed, to) != observed.main() {
        return Err(format!("the evidence of {named} names another base than main was at"));
    }
    Ok(())
}

fn said(mind: &Mind, before: &World, told: Told, read: Option<TableId>, broken: &mut Vec<Broken>) {
    if before.history & history::RESTORED != 0 {
        return;
    }
    if told.visible() && before.history & (history::PUBLISHED | history::BYPASSED) == 0 {
        broken.push((Invariant::I5, format!("{told:?} was told, and it never was visible")));
    }
    if told.never() && before.history & history::PUBLISHED != 0 {
        broken.push((Invariant::I6, format!("{told:?} was told of what calve has published")));
    }
    if told.not_visible() && read.is_some_and(|read| mind.table(read).shows_own()) {
        broken.push((Invariant::I6, format!("{told:?} was told from a reading in which main shows it")));
    }
}

/// What a table breaks by itself.
pub fn of_table(mind: &Mind, at: TableId, broken: &mut Vec<Broken>) {
    let table = mind.table(at);
    let observed = &table.observed;
    let has = |name: RefName| observed.reference(&name).is_some();
    if has(id().published_ref()) && has(id().closed_ref()) {
        broken.push((Invariant::I9, "there is a receipt and a closed tag".to_owned()));
    }
    let mut names: Vec<_> = table.lists.values().map(|list| list.name).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() != table.lists.len() {
        broken.push((Invariant::I12, "two snapshots share a manifest list".to_owned()));
    }
    for (seal, snapshot) in observed.snapshots.iter().filter(|(_, s)| matches!(s.role(), Role::Seal(..))) {
        let other =
            |data: &crate::ids::SnapshotId| table.lists.contains_key(data) && table.files(*data) != table.files(*seal);
        if snapshot.parent.filter(other).is_some() {
            broken.push((Invariant::I12, format!("{} does not show what its data shows", shown(observed, *seal))));
        }
    }
}

/// What a log and a table break together; each pair is looked at once.
pub fn of_reading(mind: &mut Mind, world: &World, who: usize, broken: &mut Vec<Broken>) {
    let log = world.logs[World::journal(mind, who)];
    let node = mind.logs.node(log);
    let (verdict, table) = (mind.verdict(log, world.table), mind.table(world.table));
    let same_table = table.observed.uuid == super::names::uuid();
    let receipt = table.observed.reference(&id().published_ref()).is_some();
    if same_table && receipt && verdict.row != 1 && !verdict.unsealed {
        let alone = mind.verdict(super::log::Logs::empty(0), world.table);
        if (alone.row, alone.code) != (verdict.row, verdict.code) {
            let reason = format!(
                "row {}, exit {} with the journal; row {}, exit {} from the table alone, though the receipt stands",
                verdict.row, verdict.code, alone.row, alone.code
            );
            broken.push((Invariant::I10, reason));
        }
    }
    if let Some(Event::Replied { .. }) = node.last.map(|last| mind.logs.event(last)) {
        let before = mind.verdict(node.before, world.table);
        if before.row != verdict.row {
            let reason = format!("row {} once the reply is recorded, and row {} before", verdict.row, before.row);
            broken.push((Invariant::I10, reason));
        }
    }
}

/// Does a journal deny a request that is on its way? One for an older seal can come to nothing: it requires the branch there.
pub fn of_flight(mind: &mut Mind, world: &World, who: usize, broken: &mut Vec<Broken>) {
    let head = mind.table(world.table).observed.reference(&id().audit_ref()).map(|audit| audit.snapshot);
    let mut flying = world.flight.iter().flatten().filter_map(|commit| moves_main_to(&mind.commit(*commit)));
    let flies = flying.any(|seal| Some(seal) == head);
    if flies && mind.verdict(world.logs[World::journal(mind, who)], world.table).never_sent {
        let reason = "the verdict is that no request was ever sent, and one is on its way".to_owned();
        broken.push((Invariant::I10, reason));
    }
}

/// Does every attempt end from here?
pub fn of_ending(mind: &mut Mind, world: &World, broken: &mut Vec<Broken>) {
    let journals = if mind.config.shared { 1 } else { 2 };
    let endings: Vec<_> = (0..journals).map(|who| mind.ending(who, world.logs[who], world.table)).collect();
    let disturbed = world.history & (history::OTHERS | history::LOST) != 0;
    let fine = endings.iter().any(|ending| match ending {
        Ending::Published | Ending::Closed | Ending::Nothing => true,
        Ending::Escalated => disturbed,
        Ending::Unfinished => false,
    });
    if !fine {
        let reason = format!("publish, then abandon, undisturbed, end as {endings:?}");
        broken.push((Invariant::L1, reason));
    }
}
