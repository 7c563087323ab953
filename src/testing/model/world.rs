//! A state of the world, and everything that can happen in it next.

use super::config::{Act, Command, Fault, Start};
use super::log::{EventId, LogId, Logs};
use super::mind::{CommitId, Mind, Plan, Review, TableId, Task, reply};
use super::names::{id, name, other_uuid, theirs, uuid};
use super::table::{FIRST_OTHER, FIRST_OWN, Table};
use super::told::Told;
use crate::ids::{RefName, SnapshotId};
use crate::journal::record::Event;
use crate::observed::RefKind;
use crate::publish::attempt::Verb;
use crate::publish::commits::moves_main_to;
use crate::publish::own::marker_below;

/// Where a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    /// There is none.
    Idle,
    /// The table is read, the log is not.
    Opened { task: Task, table: TableId },
    /// Both are read.
    Session { task: Task, table: TableId, log: LogId, reloaded: bool },
    /// The log is read, the table is not.
    Refresh { task: Task, log: LogId, reloaded: bool },
    /// The intent is durable, nothing is sent. `event` where it is not yet: only a mutant waits with it.
    Intended { task: Task, verb: Verb, commit: CommitId, attempt: u16, event: Option<EventId> },
    /// The reply is here, and not recorded.
    Answered {
        task: Task,
        verb: Verb,
        commit: CommitId,
        attempt: u16,
        reply: u16,
        shown: Option<TableId>,
        event: Option<EventId>,
    },
    /// The reply is recorded, and the table not read again.
    Recorded {
        task: Task,
        verb: Verb,
        commit: CommitId,
        log: LogId,
        reply: u16,
        shown: Option<TableId>,
        reloaded: bool,
    },
    /// The table is read again.
    Decided { task: Task, verb: Verb, commit: CommitId, log: LogId, table: TableId, reply: u16, reloaded: bool },
}

/// What has happened so far, beyond what table and journals show.
pub mod history {
    /// A PUBLISH of calve's was applied.
    pub const PUBLISHED: u16 = 1;
    /// An engine made the candidate visible by itself.
    pub const BYPASSED: u16 = 2;
    /// `abandon` returned, and said closed.
    pub const ABANDONED: u16 = 4;
    /// Any command said that it never will be published.
    pub const TOLD_NEVER: u16 = 8;
    /// A journal was lost.
    pub const LOST: u16 = 16;
    /// The table was put back to how it was.
    pub const RESTORED: u16 = 32;
    /// One of our refs was deleted.
    pub const DELETED: u16 = 64;
    /// The table has another name.
    pub const RENAMED: u16 = 128;
    /// Others have acted.
    pub const OTHERS: u16 = 256;
}

/// Requests on their way, at most.
pub const FLIGHT: usize = 3;

/// A state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The table.
    pub table: TableId,
    /// The journals; the second is unused where they are one.
    pub logs: [LogId; 2],
    /// The processes.
    pub processes: [Process; 2],
    /// Requests on their way, in order of their places.
    pub flight: [Option<CommitId>; FLIGHT],
    /// A snapshot that an expiry was planned for.
    pub planned: Option<SnapshotId>,
    /// Commands left.
    pub commands: [u8; 2],
    /// Kills, network faults, acts of others and journal losses left.
    pub left: [u8; 4],
    /// What has happened.
    pub history: u16,
}

const CRASHES: usize = 0;
const FAULTS: usize = 1;
const ACTS: usize = 2;
const LOSSES: usize = 3;

/// What leads from one state to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A command starts and reads the table.
    Start(usize, Command),
    /// A process reads the log.
    ReadLog(usize),
    /// A process reads the table.
    ReadTable(usize),
    /// A process decides to send, and appends the intent.
    Intend(usize, Verb),
    /// Another process appended first.
    Behind(usize),
    /// A command ends.
    End(usize, Told),
    /// A process decides to go on.
    Again(usize),
    /// A request is sent, and this reply comes back.
    Send(usize, Verb, u16, Option<Fault>),
    /// A process records the reply.
    Record(usize),
    /// A process is killed; its request may have left.
    Kill(usize, bool),
    /// A request that was on its way is applied.
    Land(CommitId),
    /// Others do something.
    Act(Act, Option<SnapshotId>),
    /// An expiry that was planned is applied.
    Expired(SnapshotId),
    /// One of our refs is deleted.
    Deleted(u8),
    /// A journal is lost, and with it every process that uses it.
    Lose(usize),
}

/// What a step did that has to be held against the invariants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Nothing of that kind.
    Nothing,
    /// A commit of calve's was applied to this table.
    Applied(CommitId, TableId),
    /// Someone was told, from this reading.
    Told(usize, Command, Told, Option<TableId>),
}

/// One possible step.
#[derive(Debug, Clone, Copy)]
pub struct Next {
    /// The step.
    pub step: Step,
    /// What it did.
    pub deed: Deed,
    /// The state after it.
    pub world: World,
}

impl World {
    /// Which of the journals a coordinator uses.
    pub fn journal(mind: &Mind, who: usize) -> usize {
        if mind.config.shared { 0 } else { who }
    }

    /// The state that a configuration begins in, brought about by the real commits.
    ///
    /// # Panics
    /// Where the first coordinator, undisturbed, does not get so far.
    pub fn start(mind: &mut Mind) -> Self {
        let config = mind.config;
        let table = match config.start {
            Start::Empty => Table::empty(config.format, uuid()),
            Start::Base | Start::Staged | Start::Sealed => Table::new(config.format, uuid()),
        };
        let mut at = (Logs::empty(0), mind.keep(table));
        let commands: &[Command] = match config.start {
            Start::Empty | Start::Base => &[],
            Start::Staged => &[Command::Begin, Command::Stage],
            Start::Sealed => &[Command::Begin, Command::Stage, Command::Validate],
        };
        for command in commands {
            let told = mind.alone(0, *command, &mut at);
            assert_eq!(told, Some(Told::code(0)), "{command:?} in the model's own start");
        }
        Self {
            table: at.1,
            logs: [at.0, Logs::empty(0)],
            processes: [Process::Idle; 2],
            flight: [None; FLIGHT],
            planned: None,
            commands: config.commands,
            left: [config.crashes, config.faults, config.acts, config.losses],
            history: 0,
        }
    }

    fn has(&self, what: usize) -> bool {
        self.left[what] > 0
    }

    fn spend(mut self, what: usize) -> Self {
        self.left[what] -= 1;
        self
    }

    fn process(mut self, who: usize, process: Process) -> Self {
        self.processes[who] = process;
        self
    }

    fn launch(mut self, commit: CommitId) -> Option<Self> {
        let free = self.flight.iter().position(Option::is_none)?;
        self.flight[free] = Some(commit);
        self.flight.sort_by_key(|commit| commit.map_or(u32::MAX, |commit| commit.0));
        Some(self)
    }

    fn landed(mut self, place: usize) -> Self {
        self.flight[place] = None;
        self.flight.sort_by_key(|commit| commit.map_or(u32::MAX, |commit| commit.0));
        self
    }

    /// The state after a commit of calve's was applied.
    fn applied(mut self, mind: &Mind, commit: CommitId, table: TableId) -> Self {
        self.table = table;
        if moves_main_to(&mind.commit(commit)).is_some() {
            self.history |= history::PUBLISHED;
        }
        self
    }

    /// The state after others made the table into this.
    fn by_others(mut self, mind: &mut Mind, table: Table) -> Self {
        if table.shows_own() && !mind.table(self.table).shows_own() {
            self.history |= history::BYPASSED;
        }
        self.history |= history::OTHERS;
        self.table = mind.keep(table);
        self
    }

    /// Can a process that knows the table by this name reach it?
    fn reaches(&self, renamed: bool) -> bool {
        renamed == (self.history & history::RENAMED != 0)
    }

    /// Everything that can happen next.
    pub fn successors(&self, mind: &mut Mind) -> Vec<Next> {
        let mut found = Vec::new();
        for who in 0..2 {
            self.advance(mind, who, &mut found);
        }
        self.land(mind, &mut found);
        if self.has(ACTS) || self.planned.is_some() {
            self.act(mind, &mut found);
        }
        if self.has(LOSSES) {
            self.lose(mind, &mut found);
        }
        found
    }

    fn advance(&self, mind: &mut Mind, who: usize, found: &mut Vec<Next>) {
        let journal = Self::journal(mind, who);
        let quiet = |step, world| Next { step, deed: Deed::Nothing, world };
        match self.processes[who] {
            Process::Idle => {
                for command in mind.config.menu[who].iter().filter(|_| self.commands[who] > 0) {
                    let renamed = self.history & history::RENAMED != 0;
                    let task = Task { command: *command, origin: None, first: 0, renamed };
                    let mut world = self.process(who, Process::Opened { task, table: self.table });
                    world.commands[who] -= 1;
                    found.push(quiet(Step::Start(who, *command), world));
                }
            }
            Process::Opened { task, table } => {
                let session = Process::Session { task, table, log: self.logs[journal], reloaded: false };
                found.push(quiet(Step::ReadLog(who), self.process(who, session)));
            }
            Process::Refresh { task, log, reloaded } => {
                let next = if self.reaches(task.renamed) {
                    let session = Process::Session { task, table: self.table, log, reloaded };
                    quiet(Step::ReadTable(who), self.process(who, session))
                } else {
                    self.ended(mind, who, task, Told { row: Some(0), code: 20 }, None, None)
                };
                found.push(next);
            }
            Process::Session { task, table, log, reloaded } => {
                let next = match mind.plan(who, task, log, table, reloaded) {
                    Plan::Reload => {
                        quiet(Step::Again(who), self.process(who, Process::Refresh { task, log, reloaded: true }))
                    }
                    Plan::End { told, note } => self.ended(mind, who, task, told, note, Some(table)),
                    Plan::Send { task, verb, commit, event } => self.intend(mind, who, task, verb, commit, event, log),
                };
                found.push(next);
            }
            Process::Intended { task, verb, commit, attempt, event } => {
                self.send(mind, who, (task, verb, commit, attempt, event), found);
            }
            Process::Answered { task, verb, commit, attempt, reply, shown, event } => {
                let mut world = *self;
                if let Some(event) = event {
                    world.logs[journal] = mind.logs.append(world.logs[journal], event);
                }
                let replied = Event::Replied { attempt: u32::from(attempt), reply: reply::record(reply) };
                let replied = mind.logs.intern(replied);
                world.logs[journal] = mind.logs.append(world.logs[journal], replied);
                let log = world.logs[journal];
                let recorded = Process::Recorded { task, verb, commit, log, reply, shown, reloaded: false };
                found.push(quiet(Step::Record(who), world.process(who, recorded)));
                self.kill(who, found);
            }
            Process::Recorded { task, verb, commit, log, reply, shown, reloaded } => {
                let shown =
                    shown.filter(|table| (mind.rules.shows)(&mind.table(*table).observed, &mind.commit(commit)));
                let read = shown.or(Some(self.table).filter(|_| self.reaches(task.renamed)));
                found.push(match read {
                    Some(table) => {
                        let decided = Process::Decided { task, verb, commit, log, table, reply, reloaded };
                        quiet(Step::ReadTable(who), self.process(who, decided))
                    }
                    None => self.ended(mind, who, task, Told { row: Some(0), code: 20 }, None, None),
                });
                self.kill(who, found);
            }
            Process::Decided { task, verb, commit, log, table, reply, reloaded } => {
                let next = match mind.review(task, verb, commit, log, table, reply, reloaded) {
                    Review::Reload => {
                        let again = Process::Recorded { task, verb, commit, log, reply, shown: None, reloaded: true };
                        quiet(Step::Again(who), self.process(who, again))
                    }
                    Review::End { told, note } => self.ended(mind, who, task, told, note, Some(table)),
                    Review::Again { note } => {
                        let world = self.noted(mind, journal, note);
                        let refresh = Process::Refresh { task, log: world.logs[journal], reloaded: false };
                        quiet(Step::Again(who), world.process(who, refresh))
                    }
                };
                found.push(next);
                self.kill(who, found);
            }
        }
    }

    fn noted(mut self, mind: &mut Mind, journal: usize, note: Option<EventId>) -> Self {
        if let Some(note) = note {
            self.logs[journal] = mind.logs.append(self.logs[journal], note);
        }
        self
    }

    fn ended(
        &self,
        mind: &mut Mind,
        who: usize,
        task: Task,
        told: Told,
        note: Option<EventId>,
        read: Option<TableId>,
    ) -> Next {
        let journal = Self::journal(mind, who);
        let mut world = self.noted(mind, journal, note).process(who, Process::Idle);
        if told.never() {
            world.history |= history::TOLD_NEVER;
            if task.command == Command::Abandon {
                world.history |= history::ABANDONED;
            }
        }
        Next { step: Step::End(who, told), deed: Deed::Told(who, task.command, told, read), world }
    }

    #[allow(clippy::too_many_arguments, reason = "each is one part of where the process stands")]
    fn intend(
        &self,
        mind: &mut Mind,
        who: usize,
        task: Task,
        verb: Verb,
        commit: CommitId,
        event: EventId,
        log: LogId,
    ) -> Next {
        let journal = Self::journal(mind, who);
        let quiet = |step, world| Next { step, deed: Deed::Nothing, world };
        let attempt = mind.logs.node(log).attempts + 1;
        if !mind.rules.journal_first {
            let intended = Process::Intended { task, verb, commit, attempt, event: Some(event) };
            return quiet(Step::Intend(who, verb), self.process(who, intended));
        }
        if self.logs[journal] != log {
            if verb == Verb::Settle {
                return self.ended(mind, who, task, Told { row: Some(3), code: 0 }, None, None);
            }
            let refresh = Process::Refresh { task, log: self.logs[journal], reloaded: false };
            return quiet(Step::Behind(who), self.process(who, refresh));
        }
        let mut world = *self;
        world.logs[journal] = mind.logs.append(log, event);
        let intended = Process::Intended { task, verb, commit, attempt, event: None };
        quiet(Step::Intend(who, verb), world.process(who, intended))
    }

    fn send(
        &self,
        mind: &mut Mind,
        who: usize,
        from: (Task, Verb, CommitId, u16, Option<EventId>),
        found: &mut Vec<Next>,
    ) {
        let (task, verb, commit, attempt, event) = from;
        let answered = |reply, shown| Process::Answered { task, verb, commit, attempt, reply, shown, event };
        let reaches = mind.commit(commit).table == name(self.history & history::RENAMED != 0);
        let after = if reaches { mind.apply(self.table, commit) } else { Err(404) };
        let deed = |after| Deed::Applied(commit, after);
        // Nothing goes wrong.
        found.push(match after {
            Ok(after) => Next {
                step: Step::Send(who, verb, reply::ACCEPTED, None),
                deed: deed(after),
                world: self.applied(mind, commit, after).process(who, answered(reply::ACCEPTED, Some(after))),
            },
            Err(status) => Next {
                step: Step::Send(who, verb, status, None),
                deed: Deed::Nothing,
                world: self.process(who, answered(status, None)),
            },
        });
        // The process is killed before it sends, or while it waits.
        self.kill(who, found);
        if self.has(CRASHES)
            && let Some(world) = self.launch(commit)
        {
            let world = world.spend(CRASHES).process(who, Process::Idle);
            found.push(Next { step: Step::Kill(who, true), deed: Deed::Nothing, world });
        }
        if !self.has(FAULTS) {
            return;
        }
        let unapplied = |reply| self.spend(FAULTS).process(who, answered(reply, None));
        for fault in mind.config.fault_kinds {
            let applied = |after, reply, shown| {
                self.spend(FAULTS).applied(mind, commit, after).process(who, answered(reply, shown))
            };
            let next = match (fault, after) {
                (Fault::NotSent, _) => Some((reply::NOT_SENT, Deed::Nothing, unapplied(reply::NOT_SENT))),
                (Fault::Late, _) => {
                    unapplied(reply::UNKNOWN).launch(commit).map(|world| (reply::UNKNOWN, Deed::Nothing, world))
                }
                (Fault::Contention, _) => Some((409, Deed::Nothing, unapplied(409))),
                (Fault::Forbidden, _) => Some((403, Deed::Nothing, unapplied(403))),
                (Fault::ReplyLost, Ok(after)) => {
                    Some((reply::UNKNOWN, deed(after), applied(after, reply::UNKNOWN, None)))
                }
                (Fault::Replayed, Ok(after)) => Some((409, deed(after), applied(after, 409, None))),
                (Fault::NoBody, Ok(after)) => {
                    Some((reply::ACCEPTED, deed(after), applied(after, reply::ACCEPTED, None)))
                }
                (Fault::Twice, Ok(after)) => applied(after, reply::ACCEPTED, Some(after))
                    .launch(commit)
                    .map(|world| (reply::ACCEPTED, deed(after), world)),
                // What is refused and then lost differs from what comes late by nothing.
                (Fault::ReplyLost | Fault::Replayed | Fault::NoBody | Fault::Twice, Err(_)) => None,
            };
            if let Some((reply, deed, world)) = next {
                found.push(Next { step: Step::Send(who, verb, reply, Some(*fault)), deed, world });
            }
        }
    }

    fn kill(&self, who: usize, found: &mut Vec<Next>) {
        if self.has(CRASHES) {
            let world = self.spend(CRASHES).process(who, Process::Idle);
            found.push(Next { step: Step::Kill(who, false), deed: Deed::Nothing, world });
        }
    }

    /// Requests on their way arrive. One that is refused then is as one that never arrives.
    fn land(&self, mind: &mut Mind, found: &mut Vec<Next>) {
        for (place, commit) in self.flight.iter().enumerate() {
            let Some(commit) = *commit else { continue };
            if place > 0 && self.flight[place - 1] == Some(commit) {
                continue;
            }
            if mind.commit(commit).table != name(self.history & history::RENAMED != 0) {
                continue;
            }
            if let Ok(after) = mind.apply(self.table, commit) {
                let world = self.landed(place).applied(mind, commit, after);
                found.push(Next { step: Step::Land(commit), deed: Deed::Applied(commit, after), world });
            }
        }
    }

    fn lose(&self, mind: &Mind, found: &mut Vec<Next>) {
        let journals = if mind.config.shared { 1 } else { 2 };
        for journal in 0..journals {
            let mut world = self.spend(LOSSES);
            world.logs[journal] = Logs::empty(1);
            world.history |= history::LOST;
            for who in 0..2 {
                if Self::journal(mind, who) == journal {
                    world.processes[who] = Process::Idle;
                }
            }
            found.push(Next { step: Step::Lose(journal), deed: Deed::Nothing, world });
        }
    }

    fn act(&self, mind: &mut Mind, found: &mut Vec<Next>) {
        let table = mind.table(self.table);
        if let Some(planned) = self.planned
            && table.observed.snapshots.contains_key(&planned)
        {
            let mut after = (*table).clone();
            after.expire(planned);
            // At most one of our refs goes in a run.
            let ours =
                |table: &Table| our_refs().iter().filter(|name| table.observed.reference(name).is_some()).count();
            let gone = ours(&table) - ours(&after);
            if gone == 0 || (gone == 1 && self.history & history::DELETED == 0) {
                let mut world = self.by_others(mind, after);
                world.planned = None;
                if gone == 1 {
                    world.history |= history::DELETED;
                }
                found.push(Next { step: Step::Expired(planned), deed: Deed::Nothing, world });
            }
        }
        if !self.has(ACTS) {
            return;
        }
        let number = mind.config.acts - self.left[ACTS];
        for act in mind.config.act_kinds {
            self.act_of(mind, *act, &table, number, found);
        }
    }

    fn act_of(&self, mind: &mut Mind, act: Act, table: &Table, number: u8, found: &mut Vec<Next>) {
        let observed = &table.observed;
        let main = observed.main();
        let audit = observed.reference(&id().audit_ref());
        let branch = audit.filter(|audit| audit.kind.is_branch()).map(|audit| audit.snapshot);
        let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let file = 1 << (FIRST_OTHER + u32::from(number));
        let fresh_id = theirs(number);
        let mut push = |mind: &mut Mind, what: Option<SnapshotId>, change: &dyn Fn(&mut Table)| {
            let mut after = table.clone();
            change(&mut after);
            let world = self.spend(ACTS).by_others(mind, after);
            found.push(Next { step: Step::Act(act, what), deed: Deed::Nothing, world });
        };
        match act {
            Act::Commit => push(mind, Some(fresh_id), &|table| {
                let files = main.map_or(0, |main| table.files(main)) | file;
                table.write(fresh_id, main, files);
                table.move_main(fresh_id);
            }),
            Act::Rollback => {
                let history = observed.main_history();
                let there = history.iter().filter(|id| observed.snapshots.contains_key(id) && Some(**id) != main);
                for to in there {
                    push(mind, Some(*to), &|table| table.move_main(*to));
                }
            }
            Act::FastForward => {
                if let Some(head) = branch.filter(|head| Some(*head) != main) {
                    push(mind, Some(head), &|table| table.move_main(head));
                }
            }
            Act::ToData => {
                let data = branch.map(|head| super::build::data_of(table, head));
                if let Some(data) = data.filter(|data| Some(*data) != main && branch != Some(*data)) {
                    push(mind, Some(data), &|table| table.move_main(data));
                }
            }
            Act::CherryPick => {
                let added = branch.map_or(0, |head| super::build::added_files(table, head));
                if added != 0 && !table.shows_own() {
                    push(mind, Some(fresh_id), &|table| {
                        let files = main.map_or(0, |main| table.files(main)) | added;
                        table.write(fresh_id, main, files);
                        table.move_main(fresh_id);
                    });
                }
            }
            Act::Expire => {
                if self.planned.is_some() {
                    return;
                }
                for planned in unprotected(table) {
                    let mut world = self.spend(ACTS);
                    world.planned = Some(planned);
                    world.history |= history::OTHERS;
                    found.push(Next { step: Step::Act(act, Some(planned)), deed: Deed::Nothing, world });
                }
            }
            Act::Delete => {
                for (which, name) in (0_u8..).zip(our_refs()) {
                    if self.history & history::DELETED == 0 && observed.reference(&name).is_some() {
                        let mut after = table.clone();
                        let _removed = after.observed.refs.remove(&name);
                        let mut world = self.spend(ACTS).by_others(mind, after);
                        world.history |= history::DELETED;
                        found.push(Next { step: Step::Deleted(which), deed: Deed::Nothing, world });
                    }
                }
            }
            Act::Recreate => {
                if audit.is_none()
                    && let Some(main) = main
                {
                    push(mind, Some(fresh_id), &|table| {
                        let files = table.files(main) | file;
                        table.write(fresh_id, Some(main), files);
                        super::table::set(&mut table.observed, id().audit_ref(), fresh_id, unset.clone());
                    });
                }
            }
            Act::Append => {
                if let Some(head) = branch {
                    // On the candidate these rows are its own; on a branch that others made they are nobody's.
                    let memory = crate::publish::Intent::empty(id(), None);
                    let own = marker_below(&memory, observed, head).is_some();
                    let file = if own { 1 << (FIRST_OWN + 8 + u32::from(number)) } else { file };
                    push(mind, Some(fresh_id), &|table| {
                        let files = table.files(head) | file;
                        table.write(fresh_id, Some(head), files);
                        super::table::set(&mut table.observed, id().audit_ref(), fresh_id, unset.clone());
                    });
                }
            }
            Act::Schema => push(mind, None, &|table| table.observed.current_schema_id += 1),
            Act::Spec => push(mind, None, &|table| table.observed.default_spec_id += 1),
            Act::Rename => {
                if self.history & history::RENAMED == 0 {
                    let mut world = self.spend(ACTS);
                    world.history |= history::RENAMED | history::OTHERS;
                    found.push(Next { step: Step::Act(act, None), deed: Deed::Nothing, world });
                }
            }
            Act::Replace => {
                if observed.uuid == uuid() {
                    push(mind, None, &|table| *table = Table::new(table.observed.format_version, other_uuid()));
                }
            }
            Act::Restore => {
                let start = World::start(mind).table;
                if start != self.table {
                    let mut world = self.spend(ACTS);
                    world.table = start;
                    // What was planned from a table that is gone is not applied to the one that came back.
                    world.planned = None;
                    world.history |= history::RESTORED | history::OTHERS;
                    found.push(Next { step: Step::Act(act, None), deed: Deed::Nothing, world });
                }
            }
        }
    }
}

/// The three refs of the publication.
pub fn our_refs() -> [RefName; 3] {
    [id().audit_ref(), id().published_ref(), id().closed_ref()]
}

/// Snapshots that an expiry may plan to remove: no ref is on them, and no branch that keeps its history reaches them.
fn unprotected(table: &Table) -> Vec<SnapshotId> {
    let observed = &table.observed;
    let kept = |reference: &&crate::observed::ObservedRef| reference.kind == RefKind::KEPT_BRANCH;
    let mut safe: Vec<SnapshotId> = observed.refs.values().map(|reference| reference.snapshot).collect();
    safe.extend(observed.refs.values().filter(kept).flat_map(|reference| observed.ancestry(reference.snapshot)));
    observed.snapshots.keys().copied().filter(|id| !safe.contains(id)).collect()
}
