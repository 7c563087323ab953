//! The configurations that are explored: where a run begins, who acts, and how much may go wrong.

use crate::publish::attempt::Verb;

/// A command, as a person or a scheduler gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// `begin`.
    Begin,
    /// `stage`, one file.
    Stage,
    /// `validate`, which passes.
    Validate,
    /// `publish`.
    Publish,
    /// `abandon`.
    Abandon,
    /// `reconcile`.
    Reconcile,
}

impl Command {
    /// Its commit, where it has one of its own.
    pub fn verb(self) -> Option<Verb> {
        match self {
            Command::Begin => Some(Verb::Begin),
            Command::Stage => Some(Verb::Stage),
            Command::Validate => Some(Verb::Seal),
            Command::Publish => Some(Verb::Publish),
            Command::Abandon => Some(Verb::Fence),
            Command::Reconcile => None,
        }
    }
}

/// What happens to a request or its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It never leaves.
    NotSent,
    /// It stays on its way, and is applied later or never; the sender gives up waiting.
    Late,
    /// It is applied, and the reply is lost.
    ReplyLost,
    /// It is applied, and once more on its way.
    Twice,
    /// It is applied, a proxy sends it again, and the refusal of the second is what the sender sees.
    Replayed,
    /// It is refused with 409 though nothing stands against it.
    Contention,
    /// It is refused with 403.
    Forbidden,
    /// It is applied, and the reply has no table in it.
    NoBody,
}

/// What others do to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Another writer commits to main.
    Commit,
    /// Main is rolled back to any snapshot of its history.
    Rollback,
    /// Main is set to the head of the audit branch.
    FastForward,
    /// Main is set to the data below the seal, as a rollback to a time does.
    ToData,
    /// The candidate's files are put into main without its snapshot.
    CherryPick,
    /// An expiry is planned, and applied at any later time.
    Expire,
    /// One of our refs is deleted.
    Delete,
    /// A late append makes the missing branch again, from main.
    Recreate,
    /// An engine appends to the audit branch, and erases its retention.
    Append,
    /// The schema changes.
    Schema,
    /// The partition spec changes.
    Spec,
    /// The table is given another name.
    Rename,
    /// The table is dropped and created anew.
    Replace,
    /// The table is put back to how it was at the start.
    Restore,
}

/// Where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Start {
    /// A table without any snapshot.
    Empty,
    /// A table with one.
    Base,
    /// The candidate is open, and rows are staged.
    Staged,
    /// The candidate is sealed.
    Sealed,
}

/// One configuration.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// Where it begins.
    pub start: Start,
    /// The table's format version: 1 has no sequence numbers.
    pub format: u8,
    /// Do both coordinators use one journal?
    pub shared: bool,
    /// What each coordinator may be told to do.
    pub menu: [&'static [Command]; 2],
    /// How many commands each is given.
    pub commands: [u8; 2],
    /// How often a process is killed.
    pub crashes: u8,
    /// How often the network fails.
    pub faults: u8,
    /// In which ways.
    pub fault_kinds: &'static [Fault],
    /// How often others act.
    pub acts: u8,
    /// In which ways.
    pub act_kinds: &'static [Act],
    /// How often a journal is lost; at most once.
    pub losses: u8,
    /// Does a lost journal take its statements along?
    pub statements_lost: bool,
    /// Exploration ends after so many states.
    pub limit: usize,
}

use Act as A;
use Command as C;
use Fault as F;

/// Every way in which the network fails.
pub const FAULTS: &[Fault] =
    &[F::NotSent, F::Late, F::ReplyLost, F::Twice, F::Replayed, F::Contention, F::Forbidden, F::NoBody];

/// Those after which the sender does not know, or a request is on its way.
pub const UNKNOWNS: &[Fault] = &[F::Late, F::ReplyLost, F::Twice, F::Replayed];

/// What others do that moves main.
const MOVES: &[Act] = &[A::Commit, A::Rollback, A::FastForward, A::ToData, A::CherryPick];

/// What others do to our branch and our refs.
const REFS: &[Act] = &[A::Delete, A::Recreate, A::Append, A::Rollback, A::Expire];

/// Everything that others do.
const ALL: &[Act] = &[
    A::Commit,
    A::Rollback,
    A::FastForward,
    A::ToData,
    A::CherryPick,
    A::Expire,
    A::Delete,
    A::Recreate,
    A::Append,
    A::Schema,
    A::Spec,
    A::Rename,
    A::Replace,
    A::Restore,
];

const END: &[Command] = &[C::Publish, C::Abandon, C::Reconcile];

/// Nothing goes wrong, and nobody acts.
///
/// Where the limit is reached, what is left out takes more steps than anything that was seen.
pub const QUIET: Config = Config {
    name: "quiet",
    start: Start::Sealed,
    format: 2,
    shared: true,
    menu: [END, END],
    commands: [1, 1],
    crashes: 0,
    faults: 0,
    fault_kinds: &[],
    acts: 0,
    act_kinds: &[],
    losses: 0,
    statements_lost: false,
    limit: 1_500_000,
};

/// Every configuration, the deepest last.
pub const CONFIGS: &[Config] = &[
    // The network alone, and processes that are killed.
    Config { name: "network", commands: [2, 2], crashes: 1, faults: 2, fault_kinds: FAULTS, ..QUIET },
    // A request on its way, and others who move main.
    Config {
        name: "main",
        commands: [2, 1],
        crashes: 1,
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 2,
        act_kinds: MOVES,
        ..QUIET
    },
    // A request on its way, and one of our refs deleted.
    Config {
        name: "refs",
        commands: [2, 1],
        crashes: 0,
        faults: 2,
        fault_kinds: UNKNOWNS,
        acts: 3,
        act_kinds: REFS,
        ..QUIET
    },
    // Everything that others do, one coordinator.
    Config {
        name: "others",
        commands: [2, 1],
        menu: [END, &[C::Reconcile]],
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 2,
        act_kinds: ALL,
        ..QUIET
    },
    // The journal is lost.
    Config {
        name: "lost-journal",
        commands: [2, 2],
        crashes: 0,
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 1,
        act_kinds: &[A::Rollback, A::Delete, A::FastForward, A::Commit],
        losses: 1,
        ..QUIET
    },
    Config {
        name: "lost-statements",
        commands: [2, 1],
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 1,
        act_kinds: MOVES,
        losses: 1,
        statements_lost: true,
        ..QUIET
    },
    // Two machines, each with a journal of its own.
    Config {
        name: "two-journals",
        start: Start::Base,
        shared: false,
        menu: [&[C::Begin, C::Stage, C::Validate, C::Publish], &[C::Begin, C::Publish, C::Abandon, C::Reconcile]],
        commands: [4, 2],
        faults: 1,
        fault_kinds: FAULTS,
        ..QUIET
    },
    // A whole life from a table with rows, and from one without any.
    Config {
        name: "life",
        start: Start::Base,
        menu: [&[C::Begin, C::Stage, C::Validate, C::Publish], &[C::Begin, C::Abandon]],
        commands: [4, 1],
        crashes: 1,
        faults: 1,
        fault_kinds: FAULTS,
        acts: 1,
        act_kinds: &[A::Commit, A::Rollback, A::Delete],
        ..QUIET
    },
    Config {
        name: "first",
        start: Start::Empty,
        menu: [&[C::Begin, C::Stage, C::Validate, C::Publish], &[C::Begin, C::Abandon]],
        commands: [4, 1],
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 1,
        act_kinds: &[A::Commit, A::Rollback, A::Delete, A::FastForward],
        ..QUIET
    },
    // Evidence that goes stale: rows are staged, sealed and sealed again while others work on the branch.
    Config {
        name: "seals",
        start: Start::Staged,
        menu: [&[C::Stage, C::Validate, C::Publish], &[C::Validate, C::Abandon]],
        commands: [3, 1],
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 1,
        act_kinds: &[A::Append, A::Schema, A::Spec, A::Commit, A::FastForward],
        ..QUIET
    },
    // A table of format version 1: no sequence numbers, so no late request is refused for being stale.
    Config {
        name: "version-1",
        start: Start::Staged,
        format: 1,
        menu: [&[C::Stage, C::Validate, C::Publish], &[C::Publish, C::Abandon]],
        commands: [3, 1],
        faults: 1,
        fault_kinds: UNKNOWNS,
        acts: 1,
        act_kinds: &[A::Commit, A::Rollback, A::Delete, A::FastForward],
        ..QUIET
    },
];
