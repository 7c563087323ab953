//! Breadth first through every state, so that the trace of what is found is the shortest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::checks::{self, Broken, Invariant};
use super::config::Config;
use super::log::LogId;
use super::mind::{CommitId, Mind, TableId};
use super::rules::Rules;
use super::trace;
use super::world::{Deed, FLIGHT, Process, World};
use crate::ids::SnapshotId;
use crate::publish::commits::moves_main_to;

/// What was found of one configuration.
#[derive(Debug, Clone)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// Distinct tables.
    pub tables: usize,
    /// Distinct logs.
    pub logs: usize,
    /// Every row and exit code that anyone was told, with how often.
    pub told: BTreeMap<(Option<u8>, u8), usize>,
    /// How often a PUBLISH was applied.
    pub published: usize,
    /// How often each invariant was broken.
    pub violations: HashMap<Invariant, usize>,
    /// The shortest way to the first violation of each.
    pub found: Vec<Found>,
    /// Were all states seen, or did it end before?
    pub whole: bool,
}

/// A violation.
#[derive(Debug, Clone)]
pub struct Found {
    /// Of what.
    pub invariant: Invariant,
    /// How.
    pub reason: String,
    /// How it comes about, a line a step.
    pub trace: Vec<String>,
}

/// A state in as few bytes as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Packed {
    table: u32,
    logs: [u32; 2],
    processes: [u32; 2],
    flight: [u32; FLIGHT],
    planned: u32,
    commands: [u8; 2],
    left: [u8; 4],
    history: u16,
}

/// Every state that was met, each with the one that led to it.
#[derive(Debug)]
struct Seen {
    states: Vec<Packed>,
    from: Vec<u32>,
    // Places of states by their hash: a table of its own, since a map would hold each state twice.
    slots: Vec<u32>,
    processes: Vec<Process>,
    by_process: HashMap<Process, u32>,
}

const NONE: u32 = u32::MAX;

impl Seen {
    fn new() -> Self {
        let slots = vec![NONE; 1 << 12];
        Self { states: Vec::new(), from: Vec::new(), slots, processes: Vec::new(), by_process: HashMap::new() }
    }

    fn pack(&mut self, world: &World) -> Packed {
        let mut process = |process: Process| {
            let next = self.processes.len() as u32;
            let found = *self.by_process.entry(process).or_insert(next);
            if found == next {
                self.processes.push(process);
            }
            found
        };
        Packed {
            table: world.table.0,
            logs: world.logs.map(|log| log.0),
            processes: [process(world.processes[0]), process(world.processes[1])],
            flight: world.flight.map(|commit| commit.map_or(NONE, |commit| commit.0)),
            planned: world.planned.map_or(NONE, |planned| planned.0 as u32),
            commands: world.commands,
            left: world.left,
            history: world.history,
        }
    }

    fn unpack(&self, place: usize) -> World {
        let packed = self.states[place];
        World {
            table: TableId(packed.table),
            logs: packed.logs.map(LogId),
            processes: packed.processes.map(|process| self.processes[process as usize]),
            flight: packed.flight.map(|commit| Some(commit).filter(|commit| *commit != NONE).map(CommitId)),
            planned: Some(packed.planned).filter(|planned| *planned != NONE).map(|p| SnapshotId(i64::from(p))),
            commands: packed.commands,
            left: packed.left,
            history: packed.history,
        }
    }

    fn hash(packed: &Packed) -> u64 {
        let mut hasher = DefaultHasher::new();
        packed.hash(&mut hasher);
        hasher.finish()
    }

    fn slot(&self, packed: &Packed) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = Self::hash(packed) as usize & mask;
        while self.slots[slot] != NONE && self.states[self.slots[slot] as usize] != *packed {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Notes a state; true where it is new.
    fn add(&mut self, world: &World, from: u32) -> bool {
        let packed = self.pack(world);
        let slot = self.slot(&packed);
        if self.slots[slot] != NONE {
            return false;
        }
        self.slots[slot] = self.states.len() as u32;
        self.states.push(packed);
        self.from.push(from);
        if self.states.len() * 2 > self.slots.len() {
            self.slots = vec![NONE; self.slots.len() * 2];
            for place in 0..self.states.len() {
                let slot = self.slot(&self.states[place]);
                self.slots[slot] = place as u32;
            }
        }
        true
    }

    /// The states from the first to this one.
    fn way(&self, place: usize) -> Vec<World> {
        let mut way = vec![self.unpack(place)];
        let mut at = place;
        while self.from[at] != NONE {
            at = self.from[at] as usize;
            way.push(self.unpack(at));
        }
        way.reverse();
        way
    }
}

/// Explores a configuration. `wanted`: ends as soon as this is broken. `tell` hears of the number of states now and then.
pub fn explore(config: &Config, rules: &Rules, wanted: Option<Invariant>, tell: &mut dyn FnMut(usize)) -> Explored {
    let mut mind = Mind::new(*config, *rules);
    let mut seen = Seen::new();
    let start = World::start(&mut mind);
    let _new = seen.add(&start, NONE);
    let mut explored = Explored {
        states: 0,
        transitions: 0,
        tables: 0,
        logs: 0,
        told: BTreeMap::new(),
        published: 0,
        violations: HashMap::new(),
        found: Vec::new(),
        whole: true,
    };
    let mut looked = HashSet::new();
    let mut broken = Vec::new();
    let mut place = 0;
    while place < seen.states.len() {
        if seen.states.len() > config.limit {
            explored.whole = false;
            break;
        }
        let world = seen.unpack(place);
        look(&mut mind, &world, &mut looked, &mut broken);
        report(&mut mind, &seen, place, None, &mut broken, &mut explored);
        for next in world.successors(&mut mind) {
            explored.transitions += 1;
            count(&mind, next.deed, &mut explored);
            checks::of_step(&mind, &world, next.deed, &mut broken);
            report(&mut mind, &seen, place, Some(next.world), &mut broken, &mut explored);
            let _new = seen.add(&next.world, place as u32);
        }
        if wanted.is_some_and(|wanted| explored.violations.contains_key(&wanted)) {
            explored.whole = false;
            break;
        }
        place += 1;
        if place % 50_000 == 0 {
            tell(seen.states.len());
        }
    }
    explored.states = seen.states.len();
    (explored.tables, explored.logs) = mind.sizes();
    explored
}

fn count(mind: &Mind, deed: Deed, explored: &mut Explored) {
    match deed {
        Deed::Nothing => {}
        Deed::Applied(commit, _) => {
            explored.published += usize::from(moves_main_to(&mind.commit(commit)).is_some());
        }
        Deed::Told(_, _, told, _) => *explored.told.entry((told.row, told.code)).or_default() += 1,
    }
}

/// Holds a state against the invariants, each part of it once.
fn look(mind: &mut Mind, world: &World, looked: &mut HashSet<(u32, u32, u32)>, broken: &mut Vec<Broken>) {
    let others = u32::from(world.history & (super::world::history::OTHERS | super::world::history::LOST) != 0);
    if looked.insert((world.table.0, NONE, 0)) {
        checks::of_table(mind, world.table, broken);
    }
    let journals = if mind.config.shared { 1 } else { 2 };
    for who in 0..journals {
        if looked.insert((world.table.0, world.logs[who].0, 2 + who as u32)) {
            checks::of_reading(mind, world, who, broken);
        }
        checks::of_flight(mind, world, who, broken);
    }
    // With two journals the pair of logs decides; then it is looked at each time.
    if journals == 2 || looked.insert((world.table.0, world.logs[0].0, others)) {
        checks::of_ending(mind, world, broken);
    }
}

fn report(
    mind: &mut Mind,
    seen: &Seen,
    place: usize,
    next: Option<World>,
    broken: &mut Vec<Broken>,
    explored: &mut Explored,
) {
    for (invariant, reason) in broken.drain(..) {
        let count = explored.violations.entry(invariant).or_default();
        *count += 1;
        if *count == 1 {
            let mut way = seen.way(place);
            way.extend(next);
            let trace = trace::lines(mind, &way);
            explored.found.push(Found { invariant, reason, trace });
        }
    }
}
