//! What others do to the tables: engines, operators, maintenance. One commit each, which nothing gets in the way of.

use std::collections::BTreeSet;

use super::dice::Dice;
use super::history::By;
use super::plan::{Other, ids};
use super::world::{FREE_DAY, World, other_row};
use crate::ids::{PublicationId, RefName, SnapshotId};
use crate::observed::{Observed, RefKind};

/// Third parties, and what they have written.
#[derive(Debug)]
pub(super) struct Others {
    dice: Dice,
    serial: i64,
    /// Table, snapshot and row of what was written to main, where no publication replaces it.
    written: Vec<(usize, SnapshotId, i64)>,
    columns: u32,
}

impl Others {
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed, 5), serial: 0, written: Vec::new(), columns: 0 }
    }

    /// Rows of a table that others wrote, each with its snapshot.
    pub fn rows(&self, table: usize) -> Vec<(SnapshotId, i64)> {
        self.written.iter().filter(|(of, _, _)| *of == table).map(|(_, snapshot, row)| (*snapshot, *row)).collect()
    }

    /// Does one of the things that this seed's plan allows; or only rolls the dice, where it is left out.
    pub async fn act(&mut self, world: &mut World, comes: bool) {
        let kinds = world.board.lock().plan.others.clone();
        let Some(kind) = self.dice.pick(&kinds) else { return };
        let table = self.dice.below(world.beds.len());
        // One stream for what to do, so that what is left out does not change what comes after it.
        let mut dice = self.dice.clone();
        let _advanced = self.dice.below(2);
        if !comes {
            return;
        }
        let observed = world.beds[table].observe().await;
        let Some(what) = self.one(world, table, kind, &observed, &mut dice).await else { return };
        let name = world.beds[table].table.clone();
        let words = world.server.note(&name, &By::Other);
        let mut shared = world.board.lock();
        shared.trace.add("another", format!("{what}: {words}"));
        shared.count(format!("other: {kind:?}"));
    }

    async fn one(
        &mut self,
        world: &World,
        table: usize,
        kind: Other,
        observed: &Observed,
        dice: &mut Dice,
    ) -> Option<String> {
        let bed = world.beds[table].clone();
        let engine = bed.engine();
        let (id, day) = dice.pick(ids())?;
        let id = bed.id(id);
        match kind {
            Other::Append => {
                let day = if dice.percent(30) { day } else { FREE_DAY };
                self.serial += 1;
                let row = other_row(day, self.serial);
                let snapshot = engine.append("main", &[row]).await.ok()?;
                if day == FREE_DAY {
                    self.written.push((table, snapshot, row.1));
                }
                Some(format!("appends row {}", row.1))
            }
            Other::RollBack => {
                let main = observed.main()?;
                let log = observed.snapshot_log.iter().map(|(_, id)| *id);
                let known: Vec<_> = log
                    .chain(observed.ancestry(main))
                    .filter(|id| *id != main && observed.snapshots.contains_key(id))
                    .collect();
                let to = dice.pick(&known)?;
                engine.move_branch("main", to).await;
                Some("rolls main back".to_owned())
            }
            Other::FastForward => {
                let main = observed.main();
                let heads = observed
                    .refs
                    .iter()
                    .filter(|(name, found)| found.kind.is_branch() && PublicationId::of_ref(name).is_some());
                let heads: Vec<_> = heads.map(|(_, found)| found.snapshot).collect();
                let head = dice.pick(&heads)?;
                // To the head, or to something below it.
                let line: Vec<_> = observed.ancestry(head).take_while(|id| Some(*id) != main).collect();
                let stands = main.is_none_or(|main| observed.ancestry(head).any(|id| id == main));
                let to = if dice.percent(60) { line.first().copied()? } else { dice.pick(&line)? };
                if !stands {
                    return None;
                }
                engine.move_branch("main", to).await;
                Some("fast-forwards main to a candidate".to_owned())
            }
            Other::AppendToBranch => {
                let name = id.audit_ref();
                let begun = known_to(world, table, &id);
                if !begun {
                    return None;
                }
                let day = if dice.percent(80) { day } else { FREE_DAY };
                self.serial += 1;
                let row = other_row(day, self.serial);
                let done = engine.append(name.as_str(), &[row]).await;
                Some(match done {
                    Ok(_) => format!("appends row {} to {name}", row.1),
                    Err(reason) => format!("is refused by its own library: {reason}"),
                })
            }
            Other::RemoveRef => {
                let there: Vec<_> = observed.refs.keys().filter_map(PublicationId::of_ref).collect();
                let of = dice.pick(&there)?;
                if world.board.lock().oracle.tables.get(table)?.removed.contains_key(&of) {
                    return None;
                }
                let names = [of.audit_ref(), of.published_ref(), of.closed_ref()];
                let names: Vec<_> = names.into_iter().filter(|name| observed.reference(name).is_some()).collect();
                let name = dice.pick(&names)?;
                engine.remove_ref(name.clone()).await;
                let mut shared = world.board.lock();
                let _before = shared.oracle.tables.get_mut(table)?.removed.insert(of, name.clone());
                Some(format!("removes {name}"))
            }
            Other::Expire => {
                let heads: BTreeSet<SnapshotId> = observed.refs.values().map(|found| found.snapshot).collect();
                let free: Vec<_> = observed.snapshots.keys().copied().filter(|id| !heads.contains(id)).collect();
                let mut chosen = BTreeSet::new();
                for _ in 0..1 + dice.below(3) {
                    chosen.extend(dice.pick(&free));
                }
                if chosen.is_empty() {
                    return None;
                }
                let chosen: Vec<_> = chosen.into_iter().collect();
                let _reply = engine.expire(&chosen).await;
                world.board.lock().oracle.tables.get_mut(table)?.expired.extend(chosen);
                Some("expires snapshots by id".to_owned())
            }
            Other::AddColumn => {
                self.columns += 1;
                let name = format!("column{}", self.columns);
                engine.add_column(&name).await;
                Some(format!("adds {name}"))
            }
            Other::SetRetention => {
                let _main = observed.main()?;
                let kind = RefKind::Branch {
                    min_snapshots_to_keep: Some(3),
                    max_snapshot_age_ms: Some(7_200_000),
                    max_ref_age_ms: None,
                };
                engine.set_retention(RefName::main(), kind).await;
                Some("sets the retention of main".to_owned())
            }
            Other::Tag => {
                let main = observed.main()?;
                engine.tag(RefName(format!("kept-{}", dice.below(3))), main).await;
                Some("tags main".to_owned())
            }
        }
    }
}

/// Was a publication of this name begun on the table?
fn known_to(world: &World, table: usize, id: &PublicationId) -> bool {
    let shared = world.board.lock();
    let mut versions = shared.oracle.tables.get(table).into_iter().flat_map(|history| &history.versions);
    versions.any(|version| version.observed.reference(&id.audit_ref()).is_some())
}
