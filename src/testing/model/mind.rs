//! What a coordinator does next, by the real rules: each use case as a function of the log and the table as read.
//!
//! The order of steps is `coordinator/effect.rs`'s: the intent is appended, one commit is sent, the reply is appended, the
//! table is read again. What only the data decides is short here: rows always fit, and checks always pass.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::build::{self, Site};
use super::config::{Command, Config};
use super::log::{EventId, LogId, Logs, root_of};
use super::names::{id, key, name, uuid};
use super::rules::Rules;
use super::table::Table;
use super::told::Told;
use crate::digest::Digest;
use crate::ids::SnapshotId;
use crate::journal::record::Event;
use crate::observed::{Role, summary};
use crate::publish::attempt::{ReplyRecord, Verb};
use crate::publish::commits::Commit;
use crate::publish::decide::{Decision, Landed};
use crate::publish::intent::Intent;
use crate::publish::outcome::{EXIT_DONE, EXIT_FAILED, EXIT_REJECTED, EXIT_USAGE, Via, reconcile_exit};
use crate::publish::own::marker_below;
use crate::publish::reconcile::{Finding, Sent, State, TableView};
use crate::publish::state::Beginnable;

/// A table: its place in [`Mind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// A commit: its place in [`Mind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u32);

/// What a process is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// What it was told to do.
    pub command: Command,
    /// The table that rows were written for, or that was checked: each further try is of the same.
    pub origin: Option<TableId>,
    /// The number of its first attempt; 0 before.
    pub first: u16,
    /// Was it told the table's new name?
    pub renamed: bool,
}

/// What comes of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The table is read once more: it looked older than the log.
    Reload,
    /// The command ends.
    End {
        /// What is told.
        told: Told,
        /// What is noted of the reading.
        note: Option<EventId>,
    },
    /// A commit is to be sent.
    Send {
        /// The task, from now on.
        task: Task,
        /// Which commit.
        verb: Verb,
        /// The commit.
        commit: CommitId,
        /// The record that has to be durable before.
        event: EventId,
    },
}

/// What comes of the reading after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// The table is read once more: it looked older than the log.
    Reload,
    /// The command ends.
    End {
        /// What is told.
        told: Told,
        /// What is noted of the reading.
        note: Option<EventId>,
    },
    /// Log and table are read, and it is decided again.
    Again {
        /// What is noted of the reading.
        note: Option<EventId>,
    },
}

/// What `reconcile` says of a log and a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The row.
    pub row: u8,
    /// The exit code.
    pub code: u8,
    /// Does it say that no request to publish was ever sent?
    pub never_sent: bool,
    /// A receipt on a snapshot that is no seal, which only the journal of its SETTLE can vouch for.
    pub unsealed: bool,
}

/// Where a faultless run of `publish`, then `abandon`, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Visible.
    Published,
    /// Closed.
    Closed,
    /// A person is told to look.
    Escalated,
    /// There is nothing of it.
    Nothing,
    /// None of these.
    Unfinished,
}

/// What a commit is judged by after its reply: whose, which, the log and the table by then, the reply, and whether the table
/// was read.
type Reviewed = (Task, Verb, CommitId, LogId, TableId, u16, bool);

/// The rules, with every table, log and commit that was met, and every answer that was given.
#[derive(Debug)]
pub struct Mind {
    /// The configuration.
    pub config: Config,
    /// The rules.
    pub rules: Rules,
    /// The journals.
    pub logs: Logs,
    tables: Vec<Rc<Table>>,
    by_hash: HashMap<u64, Vec<TableId>>,
    commits: Vec<Rc<Commit>>,
    by_text: HashMap<Digest, CommitId>,
    applied: HashMap<(TableId, CommitId), Result<TableId, u16>>,
    plans: HashMap<(u8, Task, LogId, TableId, bool), Plan>,
    reviews: HashMap<Reviewed, Review>,
    verdicts: HashMap<(LogId, TableId), Verdict>,
    endings: HashMap<(u8, LogId, TableId), Ending>,
}

/// A reply in a number: its status where it was refused.
pub mod reply {
    use crate::publish::attempt::ReplyRecord;

    /// Never left.
    pub const NOT_SENT: u16 = 1;
    /// Said to be applied.
    pub const ACCEPTED: u16 = 200;
    /// Anything else.
    pub const UNKNOWN: u16 = 0;

    /// As the journal records it.
    pub fn record(reply: u16) -> ReplyRecord {
        match reply {
            NOT_SENT => ReplyRecord::NotSent { reason: "refused to connect".to_owned() },
            ACCEPTED => ReplyRecord::Accepted,
            UNKNOWN => ReplyRecord::Unknown { reason: "timeout".to_owned() },
            status => ReplyRecord::Refused { status, message: "no".to_owned() },
        }
    }
}

impl Mind {
    /// Knows nothing yet.
    pub fn new(config: Config, rules: Rules) -> Self {
        Self {
            config,
            rules,
            logs: Logs::new(),
            tables: Vec::new(),
            by_hash: HashMap::new(),
            commits: Vec::new(),
            by_text: HashMap::new(),
            applied: HashMap::new(),
            plans: HashMap::new(),
            reviews: HashMap::new(),
            verdicts: HashMap::new(),
            endings: HashMap::new(),
        }
    }

    /// A table by its place.
    pub fn table(&self, table: TableId) -> Rc<Table> {
        self.tables[table.0 as usize].clone()
    }

    /// The place of a table.
    pub fn keep(&mut self, table: Table) -> TableId {
        let mut hasher = DefaultHasher::new();
        table.hash(&mut hasher);
        let same = self.by_hash.entry(hasher.finish()).or_default();
        if let Some(known) = same.iter().find(|known| *self.tables[known.0 as usize] == table) {
            return *known;
        }
        let next = TableId(self.tables.len() as u32);
        same.push(next);
        self.tables.push(Rc::new(table));
        next
    }

    /// A commit by its place.
    pub fn commit(&self, commit: CommitId) -> Rc<Commit> {
        self.commits[commit.0 as usize].clone()
    }

    fn keep_commit(&mut self, commit: &Commit) -> CommitId {
        let text = Digest::of_bytes(format!("{commit:?}").as_bytes());
        let next = CommitId(self.commits.len() as u32);
        let found = *self.by_text.entry(text).or_insert(next);
        if found == next {
            self.commits.push(Rc::new(commit.clone()));
        }
        found
    }

    /// How many tables and logs were met.
    pub fn sizes(&self) -> (usize, usize) {
        (self.tables.len(), self.logs.len())
    }

    /// What the catalog makes of a commit: the table after it, or the status of its refusal.
    pub fn apply(&mut self, table: TableId, commit: CommitId) -> Result<TableId, u16> {
        if let Some(known) = self.applied.get(&(table, commit)) {
            return *known;
        }
        let after = self.table(table).after(&self.commit(commit)).map_err(|refused| refused.status);
        let after = after.map(|after| self.keep(after));
        let _first = self.applied.insert((table, commit), after);
        after
    }

    fn finding(&self, intent: &Intent, table: &Table) -> Finding {
        let view = TableView::Present(Box::new(table.observed.clone()));
        let first = (self.rules.reconcile)(intent, &view, crate::publish::reconcile::FilesLive::NotKnown);
        if !(self.rules.files_may_tell)(&first.state, &table.observed, intent) {
            return first;
        }
        (self.rules.reconcile)(intent, &view, build::files_live(intent, table))
    }

    /// What `reconcile` says.
    pub fn verdict(&mut self, log: LogId, table: TableId) -> Verdict {
        if let Some(known) = self.verdicts.get(&(log, table)) {
            return *known;
        }
        let intent = self.logs.intent(log);
        let seen = self.table(table);
        let state = self.finding(&intent, &seen).state;
        let receipt = seen.observed.reference(&id().published_ref()).map(|receipt| receipt.snapshot);
        let verdict = Verdict {
            row: state.row(),
            code: reconcile_exit(&state),
            never_sent: matches!(state, State::Sealed { sent: Sent::None, .. }),
            unsealed: receipt.is_some_and(|at| !matches!(seen.observed.role(at), Role::Seal(..))),
        };
        let _first = self.verdicts.insert((log, table), verdict);
        verdict
    }

    /// What a process does with the log and the table as read.
    pub fn plan(&mut self, who: usize, task: Task, log: LogId, table: TableId, reloaded: bool) -> Plan {
        let key = (who as u8, task, log, table, reloaded);
        if let Some(known) = self.plans.get(&key) {
            return *known;
        }
        let plan = self.plan_anew(who, task, log, table, reloaded);
        let _first = self.plans.insert(key, plan);
        plan
    }

    fn plan_anew(&mut self, who: usize, task: Task, log: LogId, at: TableId, reloaded: bool) -> Plan {
        let intent = self.logs.intent(log);
        let table = self.table(at);
        let end = |told| Plan::End { told, note: None };
        if table.observed.uuid != uuid() {
            // Its log is another one, and empty; what was begun under this name is found in the old one.
            let known = !intent.openings.is_empty();
            return end(Told { row: Some(if known { 0 } else { 12 }), code: if known { 20 } else { EXIT_USAGE } });
        }
        if let Some(origin) = task.origin.filter(|_| matches!(task.command, Command::Stage | Command::Validate)) {
            return self.add(who, task, log, at, &intent, origin);
        }
        let finding = self.finding(&intent, &table);
        if matches!(finding.state, State::Regressed { .. }) && !reloaded {
            return Plan::Reload;
        }
        let ours = self.own_journal(who, &intent, &table);
        let site = self.site(who, task, log, &table);
        let told = Told::reconcile(&finding.state);
        match task.command {
            Command::Begin => {
                let only = (self.rules.only_begins)(&intent, &table.observed);
                match (self.rules.beginnable)(&finding.state, only) {
                    Beginnable::Fresh => {
                        let (commit, opening) = build::begin(&site, &root_of(who, self.config.shared));
                        self.send(
                            task,
                            Verb::Begin,
                            log,
                            at,
                            commit,
                            build::Fixed { opening: Some(opening), ..build::NOTHING },
                        )
                    }
                    Beginnable::Open(_) if ours => end(Told::code(EXIT_DONE)),
                    Beginnable::Open(_) | Beginnable::Used => end(Told::code(EXIT_REJECTED)),
                }
            }
            Command::Stage | Command::Validate => match (self.rules.workable)(&finding.state) {
                Some(_) if ours => self.add(who, task, log, at, &intent, at),
                Some(_) | None => end(Told::code(EXIT_REJECTED)),
            },
            Command::Publish => {
                if matches!(finding.state, State::Bypassed { .. }) {
                    let note = end(Told::publish(&finding, Via::Bypassed));
                    return if ours { self.settle(task, log, at, &intent, &finding, &site) } else { note };
                }
                let evidence = match &finding.state {
                    State::Sealed { .. } if !ours => return end(Told::code(EXIT_REJECTED)),
                    State::Sealed { seal, .. } => {
                        let statement = !(self.config.statements_lost
                            && self.logs.node(log).epoch > 0
                            && intent.seal(*seal).is_none());
                        build::recompute(&intent, &table, *seal, statement)
                            .map(|found| (self.rules.recomputed)(found, &table.observed, *seal))
                    }
                    _ => Err("nothing was recomputed".to_owned()),
                };
                let named = name(task.renamed);
                match (self.rules.decide)(&intent, &table.observed, &finding, &evidence, &named, key()) {
                    Decision::Stop(outcome) => end(Told::stopped(&finding, &outcome)),
                    Decision::Send(commit) => self.send(task, Verb::Publish, log, at, *commit, build::NOTHING),
                }
            }
            Command::Abandon => {
                if finding.state == State::Closed {
                    return end(Told::abandon(&finding.state));
                }
                let Some(form) = (self.rules.fence_form)(&finding.state) else {
                    let code = match &finding.state {
                        State::Published { .. } | State::ReceiptRemoved { .. } | State::Bypassed { .. } => {
                            EXIT_REJECTED
                        }
                        state => reconcile_exit(state),
                    };
                    return end(Told { code, ..told });
                };
                if !ours && task.first == 0 {
                    return end(Told::code(EXIT_REJECTED));
                }
                let commit = build::fence(&site, &intent, form);
                let closing = Some(build::closing());
                self.send(task, Verb::Fence, log, at, commit, build::Fixed { closing, ..build::NOTHING })
            }
            Command::Reconcile => {
                if matches!(finding.state, State::Bypassed { .. }) && ours {
                    return self.settle(task, log, at, &intent, &finding, &site);
                }
                let note = if intent.has_journal() { self.note(log, None, &finding, &table) } else { None };
                Plan::End { told, note }
            }
        }
    }

    fn settle(
        &mut self,
        task: Task,
        log: LogId,
        at: TableId,
        intent: &Intent,
        finding: &Finding,
        site: &Site<'_>,
    ) -> Plan {
        let State::Bypassed { snapshot, head, .. } = finding.state else { return Plan::Reload };
        let commit = build::settle(site, intent, snapshot, head);
        self.send(task, Verb::Settle, log, at, commit, build::NOTHING)
    }

    /// STAGE or SEAL, on the head that was read when the work began.
    fn add(&mut self, who: usize, task: Task, log: LogId, at: TableId, intent: &Intent, origin: TableId) -> Plan {
        let end = |code| Plan::End { told: Told::code(code), note: None };
        let (table, began) = (self.table(at), self.table(origin));
        let Some(head) = began.observed.reference(&id().audit_ref()).map(|audit| audit.snapshot) else {
            return end(EXIT_REJECTED);
        };
        let Some(marker) = marker_below(intent, &began.observed, head) else { return end(EXIT_FAILED) };
        let site = self.site(who, task, log, &table);
        let task = Task { origin: Some(origin), ..task };
        if task.command == Command::Stage {
            let (commit, files) = build::stage(&site, &began, head, marker);
            return self.send(task, Verb::Stage, log, at, commit, build::Fixed { files, ..build::NOTHING });
        }
        // A candidate without rows fails its checks.
        let Some((commit, record)) = build::seal(&site, &began, head, marker) else { return end(10) };
        self.send(task, Verb::Seal, log, at, commit, build::Fixed { seal: Some(record), ..build::NOTHING })
    }

    fn site<'a>(&self, who: usize, task: Task, log: LogId, table: &'a Table) -> Site<'a> {
        let node = self.logs.node(log);
        let attempt = node.attempts + 1;
        let first = if task.first == 0 { attempt } else { task.first };
        Site { table, name: name(task.renamed), id: id(), who, epoch: node.epoch, attempt, first }
    }

    fn send(&mut self, task: Task, verb: Verb, log: LogId, at: TableId, commit: Commit, fixed: build::Fixed) -> Plan {
        let table = self.table(at);
        let attempt = self.logs.node(log).attempts + 1;
        let commit = (self.rules.commit)(verb, commit, &table);
        let event = build::intended(u32::from(attempt), verb, &commit, table.observed.last_sequence_number, fixed);
        let task = Task { first: if task.first == 0 { attempt } else { task.first }, ..task };
        let (event, commit) = (self.logs.intern(event), self.keep_commit(&commit));
        Plan::Send { task, verb, commit, event }
    }

    /// The reading to be noted, unless it is the one that was noted last.
    fn note(&mut self, log: LogId, attempt: Option<u32>, finding: &Finding, table: &Table) -> Option<EventId> {
        let (number, now) = (table.observed.last_sequence_number, table.observed.main());
        if let Some(known) = self.logs.node(log).noted
            && let Event::Decided { row, state, sequence_number, main, .. } = self.logs.event(known)
            && (*row, state.as_str(), *sequence_number, *main)
                == (finding.state.row(), finding.state.word(), number, now)
        {
            return None;
        }
        Some(self.logs.intern(Event::Decided {
            attempt,
            row: finding.state.row(),
            state: finding.state.word().to_owned(),
            sequence_number: number,
            main: now,
        }))
    }

    /// Is the candidate's journal this coordinator's own? As `Session::require_own_journal` finds it.
    fn own_journal(&self, who: usize, intent: &Intent, table: &Table) -> bool {
        let root = root_of(who, self.config.shared);
        let observed = &table.observed;
        let refs = [id().audit_ref(), id().published_ref(), id().closed_ref()];
        let anchored = refs
            .iter()
            .filter_map(|name| observed.reference(name))
            .find_map(|reference| marker_below(intent, observed, reference.snapshot));
        let journal = |marker: &SnapshotId| observed.snapshots.get(marker)?.summary.get(summary::JOURNAL);
        let is_marker = |snapshot: &SnapshotId| matches!(observed.role(*snapshot), Role::Marker(of, _) if of == id());
        let journals: Vec<_> = match &anchored {
            Some(marker) => journal(marker).into_iter().collect(),
            None => observed.snapshots.keys().filter(|id| is_marker(id)).filter_map(journal).collect(),
        };
        journals.is_empty() || journals.contains(&&root)
    }

    /// What a process does with the reading after a reply.
    #[allow(clippy::too_many_arguments, reason = "each is one part of where the process stands")]
    pub fn review(
        &mut self,
        task: Task,
        verb: Verb,
        commit: CommitId,
        log: LogId,
        table: TableId,
        reply: u16,
        reloaded: bool,
    ) -> Review {
        let key = (task, verb, commit, log, table, reply, reloaded);
        if let Some(known) = self.reviews.get(&key) {
            return *known;
        }
        let review = self.review_anew(task, verb, commit, log, table, reply, reloaded);
        let _first = self.reviews.insert(key, review);
        review
    }

    #[allow(clippy::too_many_arguments, reason = "each is one part of where the process stands")]
    fn review_anew(
        &mut self,
        task: Task,
        verb: Verb,
        commit: CommitId,
        log: LogId,
        at: TableId,
        reply: u16,
        reloaded: bool,
    ) -> Review {
        let table = self.table(at);
        let end = |told| Review::End { told, note: None };
        let record = reply::record(reply);
        if matches!(verb, Verb::Begin | Verb::Stage | Verb::Seal) {
            return match ((self.rules.landed)(&table.observed, &self.commit(commit)), &record) {
                (Landed::Yes, _) => end(Told::code(EXIT_DONE)),
                (Landed::Never, _) if verb == Verb::Begin => Review::Again { note: None },
                (Landed::Never, _) => end(Told::code(EXIT_REJECTED)),
                (Landed::NotYet, ReplyRecord::NotSent { .. }) => end(Told::code(EXIT_FAILED)),
                (Landed::NotYet, ReplyRecord::Refused { status, .. }) if ![400, 409].contains(status) => {
                    end(Told::code(EXIT_REJECTED))
                }
                (Landed::NotYet, _) => Review::Again { note: None },
            };
        }
        let intent = self.logs.intent(log);
        let finding = self.finding(&intent, &table);
        if matches!(finding.state, State::Regressed { .. }) && !reloaded {
            return Review::Reload;
        }
        let attempt = intent.attempts.last().map(|attempt| attempt.number);
        if verb == Verb::Settle {
            let note = match task.command {
                Command::Reconcile => self.note(log, None, &finding, &table),
                _ => None,
            };
            return Review::End { told: Told { row: Some(3), code: EXIT_DONE }, note };
        }
        let note = self.note(log, attempt, &finding, &table);
        if verb == Verb::Publish {
            let told = Told::publish(&finding, if reply == reply::ACCEPTED { Via::Direct } else { Via::Reconciled });
            return match &finding.state {
                State::Sealed { sent: Sent::Conflicted, .. } | State::Bypassed { .. } => Review::Again { note },
                _ => Review::End { told: (self.rules.told)(&record, told), note },
            };
        }
        let settled = matches!(
            finding.state,
            State::Closed | State::Published { .. } | State::Bypassed { .. } | State::VisibleAfterFence { .. }
        );
        match record {
            _ if settled => {
                let told = (self.rules.told)(&record, Told::abandon(&finding.state));
                Review::End { told, note }
            }
            ReplyRecord::NotSent { .. } => Review::End { told: Told::code(EXIT_FAILED), note },
            ReplyRecord::Refused { status, .. } if ![400, 409].contains(&status) => {
                Review::End { told: Told::code(EXIT_REJECTED), note }
            }
            ReplyRecord::Accepted | ReplyRecord::Refused { .. } | ReplyRecord::Unknown { .. } => Review::Again { note },
        }
    }

    /// Where `publish`, and then `abandon`, end without faults and without others.
    pub fn ending(&mut self, who: usize, log: LogId, table: TableId) -> Ending {
        if let Some(known) = self.endings.get(&(who as u8, log, table)) {
            return *known;
        }
        let mut at = (log, table);
        let mut told = self.alone(who, Command::Publish, &mut at);
        if !told.is_some_and(Told::visible) {
            told = self.alone(who, Command::Abandon, &mut at);
        }
        let ending = match told {
            Some(told) if told.visible() => Ending::Published,
            Some(told) if told.never() => Ending::Closed,
            Some(told) if told.row == Some(12) => Ending::Nothing,
            Some(told) if told.escalated() => Ending::Escalated,
            Some(_) | None => Ending::Unfinished,
        };
        // What was told is what the table shows afterwards.
        let after = self.verdict(at.0, at.1).row;
        let ending = match (ending, after) {
            (Ending::Published, 2 | 3) | (Ending::Closed, 5) | (Ending::Nothing | Ending::Escalated, _) => ending,
            _ => Ending::Unfinished,
        };
        let _first = self.endings.insert((who as u8, log, table), ending);
        ending
    }

    /// Runs one command, with nobody else there. `None` where it does not end.
    pub fn alone(&mut self, who: usize, command: Command, at: &mut (LogId, TableId)) -> Option<Told> {
        let mut task = Task { command, origin: None, first: 0, renamed: false };
        for _ in 0..12 {
            let plan = match self.plan(who, task, at.0, at.1, false) {
                Plan::Reload => self.plan(who, task, at.0, at.1, true),
                plan => plan,
            };
            let (next, verb, commit, event) = match plan {
                Plan::Reload => return None,
                Plan::End { told, note } => {
                    at.0 = note.map_or(at.0, |note| self.logs.append(at.0, note));
                    return Some(told);
                }
                Plan::Send { task, verb, commit, event } => (task, verb, commit, event),
            };
            task = next;
            let (before, attempt) = (self.logs.append(at.0, event), self.logs.node(at.0).attempts + 1);
            let reply = match self.apply(at.1, commit) {
                Ok(after) => {
                    at.1 = after;
                    reply::ACCEPTED
                }
                Err(status) => status,
            };
            let replied = Event::Replied { attempt: u32::from(attempt), reply: reply::record(reply) };
            let replied = self.logs.intern(replied);
            at.0 = self.logs.append(before, replied);
            let review = match self.review(task, verb, commit, at.0, at.1, reply, false) {
                Review::Reload => self.review(task, verb, commit, at.0, at.1, reply, true),
                review => review,
            };
            let (told, note) = match review {
                Review::Reload => return None,
                Review::End { told, note } => (Some(told), note),
                Review::Again { note } => (None, note),
            };
            at.0 = note.map_or(at.0, |note| self.logs.append(at.0, note));
            if told.is_some() {
                return told;
            }
        }
        None
    }
}
