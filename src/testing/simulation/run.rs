//! One simulation: whose turn it is, what goes wrong, who else writes; and then, in calm, how everything ends.

use std::collections::BTreeSet;

use super::Planted;
use super::dice::Dice;
use super::history::By;
use super::oracle::{Rows, Violation};
use super::others::Others;
use super::plan::{Cut, Plan, Task};
use super::told::Ending;
use super::trace::Trace;
use super::turnstile::{Process, Stop};
use super::world::{World, day_of};
use crate::catalog::Reply;
use crate::coordinator::Coordinator;
use crate::ids::{PublicationId, SnapshotId};
use crate::publish::reconcile::State;
use crate::report::ReconcileReport;

/// By then no lease is live any more: it lasts a day, and this journal tells no times, for which there is a day's margin.
const LEASE_IS_OVER: i64 = 49 * 3_600_000;

/// What came of one simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Every call, in order.
    pub trace: Trace,
    /// How often what happened.
    pub counts: std::collections::BTreeMap<String, u32>,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// Troubles that came, and commands that there were: what can be left out.
    pub(super) troubles: u32,
    pub(super) tasks: Vec<usize>,
}

/// Someone at work.
#[derive(Debug)]
struct Operator {
    name: &'static str,
    table: usize,
    elsewhere: bool,
    tasks: Vec<Task>,
    next: usize,
    tries: u32,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process<Ending>,
    /// The newest state when it started.
    since: usize,
}

/// Turns after which a simulation that has not ended is broken.
const TURNS: usize = 20_000;

/// Rounds of calm after which every publication has its verdict.
const ROUNDS: u32 = 12;

enum Choice {
    Start(usize),
    Turn(usize),
    Crash(usize),
    Deliver,
    Other,
    Wait(i64),
}

/// Runs one simulation. Nothing in it depends on anything but these.
pub(super) async fn run(seed: u64, planted: Option<Planted>, cut: &Cut) -> Simulated {
    let plan = Plan::new(seed);
    let tasks = plan.operators.iter().map(|operator| operator.tasks.len()).collect();
    let world = World::new(seed, plan.clone(), cut, planted).await;
    let operators = plan.operators.iter().enumerate().map(|(number, operator)| Operator {
        name: operator.name,
        table: operator.table,
        elsewhere: operator.elsewhere,
        tasks: operator
            .tasks
            .iter()
            .enumerate()
            .filter(|(place, _)| !cut.tasks.contains(&(number, *place)))
            .map(|(_, task)| task.clone())
            .collect(),
        next: 0,
        tries: 0,
        running: None,
    });
    let mut simulation = Simulation {
        operators: operators.collect(),
        dice: Dice::new(seed, 4),
        others: Others::new(seed),
        crashes: plan.crashes,
        other_actions: plan.other_actions,
        world,
    };
    simulation.storm().await;
    if !simulation.is_broken() {
        simulation.calm().await;
    }
    let shared = simulation.world.board.lock();
    Simulated {
        trace: shared.trace.clone(),
        counts: shared.counts.clone(),
        violation: shared.oracle.violation.clone(),
        troubles: shared.troubles,
        tasks,
    }
}

struct Simulation {
    operators: Vec<Operator>,
    dice: Dice,
    others: Others,
    crashes: u32,
    other_actions: u32,
    world: World,
}

impl Simulation {
    fn is_broken(&self) -> bool {
        self.world.board.lock().oracle.violation.is_some()
    }

    fn add(&self, who: &str, what: impl Into<String>) {
        self.world.board.lock().trace.add(who, what);
    }

    fn count(&self, what: impl Into<String>) {
        self.world.board.lock().count(what);
    }

    fn newest(&self, table: usize) -> usize {
        self.world.board.lock().oracle.tables[table].newest()
    }

    fn choices(&self) -> Vec<(usize, Choice)> {
        let mut choices = Vec::new();
        for (number, operator) in self.operators.iter().enumerate() {
            match &operator.running {
                Some(_) => choices.push((20, Choice::Turn(number))),
                None if operator.next < operator.tasks.len() => choices.push((8, Choice::Start(number))),
                None => {}
            }
            if operator.running.is_some() && self.crashes > 0 {
                choices.push((1, Choice::Crash(number)));
            }
        }
        if choices.is_empty() {
            return choices;
        }
        if self.world.faults.held() > 0 {
            choices.push((2, Choice::Deliver));
        }
        if self.other_actions > 0 {
            choices.push((1, Choice::Other));
        }
        choices.push((1, Choice::Wait(60_000)));
        choices
    }

    /// Everyone works, and everything may go wrong.
    async fn storm(&mut self) {
        for _ in 0..TURNS {
            let mut choices = self.choices();
            let weights: Vec<_> = choices.iter().map(|(weight, _)| *weight).collect();
            let Some(chosen) = self.dice.weighted(&weights) else { return };
            match choices.swap_remove(chosen).1 {
                Choice::Start(number) => self.start(number),
                Choice::Turn(number) => self.turn(number).await,
                Choice::Crash(number) => self.crash(number),
                Choice::Deliver => self.deliver().await,
                Choice::Other => {
                    self.other_actions -= 1;
                    let comes = self.world.board.lock().comes();
                    self.others.act(&mut self.world, comes).await;
                }
                Choice::Wait(milliseconds) => self.world.clock.advance_ms(milliseconds),
            }
            if self.is_broken() {
                return;
            }
        }
        self.world.board.lock().oracle.violate("L1", format!("there is no end after {TURNS} turns"));
    }

    fn start(&mut self, number: usize) {
        let since = self.newest(self.operators[number].table);
        let operator = &mut self.operators[number];
        let task = &operator.tasks[operator.next];
        let numbers = i64::try_from(number * 1_000 + operator.next * 100).unwrap_or(0);
        let process = self.world.process(number, operator.name, (operator.table, operator.elsewhere), task, numbers);
        let elsewhere = if operator.elsewhere { ", with another journal" } else { "" };
        let what = format!("starts: {} {}{elsewhere}", task.verb.word(), task.id);
        self.world.board.lock().trace.add(operator.name, what);
        operator.running = Some(Running { process, since });
    }

    async fn turn(&mut self, number: usize) {
        let operator = &mut self.operators[number];
        let Some(running) = &mut operator.running else { return };
        let ending = match running.process.turn().await {
            Stop::Waiting => return,
            Stop::Ended(ending) => ending,
        };
        let (table, since, name) = (operator.table, running.since, operator.name);
        let task = operator.tasks[operator.next].clone();
        operator.running = None;
        self.add(name, format!("ended: {} {} with {}: {}", task.verb.word(), task.id, ending.code, ending.words));
        self.count(format!("{} {}", task.verb.word(), ending.code));
        self.heard(table, since, &ending);
        // Whoever is told to, or waits for a lease, runs the same line again; a few times.
        let again = match ending.code {
            1 | 20 => self.dice.percent(75),
            13 => self.dice.percent(50),
            _ => self.dice.percent(5),
        };
        if ending.code == 13 && self.dice.percent(70) {
            self.world.clock.advance_ms(LEASE_IS_OVER);
        }
        let operator = &mut self.operators[number];
        if again && operator.tries < 3 {
            operator.tries += 1;
        } else {
            operator.tries = 0;
            operator.next += 1;
        }
    }

    fn heard(&self, table: usize, since: usize, ending: &Ending) {
        let mut shared = self.world.board.lock();
        if let Some((id, word)) = &ending.told {
            shared.oracle.told(table, id, *word, since);
        }
        if let Some(snapshot) = ending.made {
            shared.oracle.made(table, snapshot);
        }
    }

    fn crash(&mut self, number: usize) {
        self.crashes -= 1;
        let again = self.dice.percent(75);
        if !self.world.board.lock().comes() {
            return;
        }
        let operator = &mut self.operators[number];
        let task = &operator.tasks[operator.next];
        let what = format!("crashes: {} {}", task.verb.word(), task.id);
        let name = operator.name;
        operator.running = None;
        operator.tries = 0;
        if !again {
            operator.next += 1;
        }
        self.add(name, what);
        self.count("crash");
        // Its lease ends by itself.
        if self.dice.percent(60) {
            self.world.clock.advance_ms(LEASE_IS_OVER);
        }
    }

    async fn deliver(&mut self) {
        let nth = self.dice.below(self.world.faults.held());
        self.add("network", "delivers what was held");
        let reply = self.world.faults.release_nth(nth).await;
        let accepted = matches!(reply, Some(Reply::Accepted { .. }));
        self.count(if accepted { "late, applied" } else { "late, refused" });
    }

    /// Nothing goes wrong any more: every publication gets its verdict, and nothing changes it afterwards.
    async fn calm(&mut self) {
        self.world.board.lock().calm = true;
        self.add("", "from here on nothing goes wrong");
        self.world.clock.advance_ms(LEASE_IS_OVER);
        while self.world.faults.held() > 0 && self.dice.percent(50) {
            self.deliver().await;
        }
        for table in 0..self.world.beds.len() {
            self.settle(table).await;
        }
        let before: Vec<_> = (0..self.world.beds.len()).map(|table| self.newest(table)).collect();
        while !self.is_broken() && self.world.faults.held() > 0 {
            self.deliver().await;
        }
        for (table, before) in before.into_iter().enumerate() {
            if self.is_broken() {
                return;
            }
            if self.newest(table) != before {
                let what = "a request was applied after every publication had its verdict".to_owned();
                self.world.board.lock().oracle.violate("late", what);
            }
            self.verdicts(table).await;
            self.rows(table).await;
        }
    }

    /// Brings every publication of a table to its end.
    async fn settle(&mut self, table: usize) {
        for round in 0..ROUNDS {
            let mut open = false;
            for found in self.reconcile_all(table, false).await {
                if !is_final(&found.finding.state) {
                    open = true;
                    self.end(table, &found, round).await;
                }
                if self.is_broken() {
                    return;
                }
            }
            if !open {
                return;
            }
        }
    }

    async fn reconcile_all(&mut self, table: usize, elsewhere: bool) -> Vec<ReconcileReport> {
        let calve = self.world.calm(elsewhere);
        self.reconcile_by(&calve, table).await
    }

    async fn reconcile_by(&mut self, calve: &Coordinator, table: usize) -> Vec<ReconcileReport> {
        let since = self.newest(table);
        let name = self.world.beds[table].table.clone();
        let found = match calve.reconcile_all(&name).await {
            Ok(report) => report.publications,
            Err(error) => {
                let what = format!("reconcile fails in calm: {error}");
                self.world.board.lock().oracle.violate("calm", what);
                return Vec::new();
            }
        };
        for report in &found {
            let id = report.finding.publication.clone();
            let ending = Ending::from(report.clone());
            self.add("calm", format!("{}: reconcile {id}: {}", name.name(), ending.words));
            self.heard(table, since, &ending);
        }
        found
    }

    /// One step towards the end of a publication.
    async fn end(&mut self, table: usize, found: &ReconcileReport, round: u32) {
        let id = found.finding.publication.clone();
        let publishes = matches!(found.finding.state, State::Sealed { .. }) && round < 4 && self.dice.percent(70);
        for elsewhere in [false, true] {
            let since = self.newest(table);
            let (calve, name) = (self.world.calm(elsewhere), self.world.beds[table].table.clone());
            let (verb, ending) = if publishes {
                ("publish", Ending::of(calve.publish(&name, &id, &crate::testing::contract()).await))
            } else if matches!(found.finding.state, State::Bypassed { .. }) {
                ("reconcile", Ending::of(calve.reconcile(&name, &id).await))
            } else {
                ("abandon", Ending::of(calve.abandon(&name, &id, "the end").await))
            };
            self.add("calm", format!("{}: {verb} {id} with {}: {}", name.name(), ending.code, ending.words));
            self.heard(table, since, &ending);
            if ending.code == 1 {
                let what = format!("{verb} {id} fails in calm: {}", ending.words);
                self.world.board.lock().oracle.violate("calm", what);
            }
            // Whose journal is elsewhere is refused here.
            if ending.code != 13 {
                return;
            }
        }
    }

    /// How each publication ended, for whoever asks.
    async fn verdicts(&mut self, table: usize) {
        let found = self.reconcile_all(table, false).await;
        // What only a journal vouches for, the one tells in which it was begun.
        let elsewhere = self.reconcile_all(table, true).await;
        for report in &found {
            let (id, state) = (&report.finding.publication, &report.finding.state);
            self.count(format!("end: {}", state.word()));
            let mut shared = self.world.board.lock();
            let other = elsewhere.iter().map(|report| &report.finding).find(|finding| finding.publication == *id);
            let states = [Some(state), other.map(|finding| &finding.state)];
            if !states.into_iter().flatten().any(|state| shared.oracle.may_end(table, id, state)) {
                shared.oracle.violate("L1", format!("{id} ends as {}", state.word()));
            }
        }
        // I10: from the catalog alone while the receipt stands.
        let stranger = Coordinator::new(
            self.world.faults.clone(),
            std::sync::Arc::new(crate::journal::memory::MemoryJournal::named("a stranger's")),
            self.world.clock.clone(),
            crate::ids::Owner("eve".to_owned()),
        );
        let seen = self.reconcile_by(&stranger, table).await;
        for report in found {
            let State::Published { sealed: true, .. } = report.finding.state else { continue };
            let id = report.finding.publication;
            let by_stranger = seen.iter().find(|seen| seen.finding.publication == id).map(|seen| &seen.finding.state);
            let agrees = matches!(by_stranger, Some(State::Published { .. }));
            if !agrees && !self.settled_by_receipt_of_data(table, &id) {
                let what = format!("{id} is published, and from the catalog alone it is {by_stranger:?}");
                self.world.board.lock().oracle.violate("I10", what);
            }
        }
    }

    /// SETTLE may name a data snapshot below a seal, which only the journal vouches for.
    fn settled_by_receipt_of_data(&self, table: usize, id: &PublicationId) -> bool {
        let shared = self.world.board.lock();
        let history = &shared.oracle.tables[table];
        let receipt = history.versions.last().and_then(|newest| newest.observed.reference(&id.published_ref()));
        receipt.is_some_and(|receipt| !matches!(history.role(receipt.snapshot), Some(crate::observed::Role::Seal(..))))
    }

    /// What readers see in the end, and saw before and after each publication.
    async fn rows(&mut self, table: usize) {
        let (main, own, published) = {
            let shared = self.world.board.lock();
            let history = &shared.oracle.tables[table];
            let main = history.versions.last().and_then(|newest| newest.observed.main());
            let own: Vec<(PublicationId, Vec<SnapshotId>)> =
                history.publications().map(|id| (id.clone(), history.own(id).collect())).collect();
            let published: Vec<_> = shared
                .oracle
                .published
                .iter()
                .filter(|(of, _)| *of == table)
                .filter_map(|(_, version)| {
                    let before = history.versions.get(version.checked_sub(1)?)?.observed.main();
                    let after = history.versions.get(*version)?;
                    let By::Calve(commit) = &after.by else { return None };
                    let id = super::history::sets(commit).find_map(|name| PublicationId::of_ref(&name))?;
                    Some((id, before, after.observed.main()?))
                })
                .collect();
            (main, own, published)
        };
        let mut rows = Rows { others: self.others.rows(table), ..Rows::default() };
        if let Some(main) = main {
            rows.main = self.world.rows_at(table, main).await;
            rows.line = self.world.board.lock().oracle.tables[table].ancestry(main).collect();
        }
        let mut in_main: BTreeSet<i64> = BTreeSet::new();
        for (id, snapshots) in &own {
            let visible = main.and_then(|main| self.world.board.lock().oracle.tables[table].newest_own_in(id, main));
            let of: Vec<_> = visible.map_or_else(|| snapshots.clone(), |snapshot| vec![snapshot]);
            let mut all = BTreeSet::new();
            for snapshot in of {
                all.extend(self.world.rows_at(table, snapshot).await);
            }
            for base in self.base(table, snapshots) {
                for row in self.world.rows_at(table, base).await {
                    let _was_there = all.remove(&row);
                }
            }
            if visible.is_some() {
                in_main.extend(&all);
            }
            rows.own.insert(id.clone(), all.into_iter().collect());
        }
        // A command that was given its rows for one generation may have been run again for the next.
        let hidden = |world: &World, id: &PublicationId| {
            let shared = world.board.lock();
            let history = &shared.oracle.tables[table];
            !history.visible(history.newest(), id)
        };
        for (id, own) in &mut rows.own {
            if hidden(&self.world, id) {
                own.retain(|row| !in_main.contains(row));
            }
        }
        self.world.board.lock().oracle.rows(table, &rows);
        for (id, before, after) in published {
            let Some(before) = before else { continue };
            let (before, after) = (self.world.rows_at(table, before).await, self.world.rows_at(table, after).await);
            let day = super::plan::day_of_id(id.name());
            if let Some(row) = before.iter().find(|row| !after.contains(row) && Some(day_of(**row)) != day) {
                let what = format!("row {row} was in main before {id} was published, and is not after");
                self.world.board.lock().oracle.violate("I7", what);
            }
            if let Some(row) = super::oracle::twice(&after) {
                self.world.board.lock().oracle.violate("rows", format!("row {row} is twice in what {id} published"));
            }
        }
    }

    /// What a publication stands on.
    fn base(&self, table: usize, own: &[SnapshotId]) -> BTreeSet<SnapshotId> {
        let shared = self.world.board.lock();
        let history = &shared.oracle.tables[table];
        let below = |snapshot: &SnapshotId| history.ancestry(*snapshot).find(|below| !own.contains(below));
        own.iter().filter_map(below).collect()
    }
}

fn is_final(state: &State) -> bool {
    match state {
        State::Published { .. }
        | State::ReceiptRemoved { .. }
        | State::VisibleAfterFence { .. }
        | State::Closed
        | State::Consumed
        | State::Ambiguous { .. }
        | State::Regressed { .. }
        | State::Unknown => true,
        State::Lost { .. }
        | State::Bypassed { .. }
        | State::Sealed { .. }
        | State::Moved { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Gone => false,
    }
}
