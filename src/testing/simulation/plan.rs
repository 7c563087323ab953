//! What a seed makes happen: who runs which commands, and what may go wrong.

use std::collections::BTreeSet;

use super::dice::Dice;
use crate::catalog::faults::{Answer, Fault};
use crate::coordinator::StageMode;

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Begin,
    /// Rows of one's own, or in place of those of the scope.
    Stage(StageMode),
    Validate,
    Publish,
    Reconcile,
    Abandon,
    /// `run`, with a job that stages rows, or one that fails after it has.
    Run {
        fails: bool,
    },
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Begin => "begin",
            Verb::Stage(StageMode::Append) => "stage --append",
            Verb::Stage(StageMode::Replace) => "stage --replace",
            Verb::Validate => "validate",
            Verb::Publish => "publish",
            Verb::Reconcile => "reconcile",
            Verb::Abandon => "abandon",
            Verb::Run { fails: false } => "run",
            Verb::Run { fails: true } => "run (the job fails)",
        }
    }
}

/// A command, of one publication.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub id: &'static str,
    /// The day of August that it owns.
    pub day: i32,
    pub verb: Verb,
}

/// Someone who runs one command after the other, on one table.
#[derive(Debug, Clone)]
pub(super) struct OperatorPlan {
    pub name: &'static str,
    pub table: usize,
    /// Uses a journal of their own, as a second machine does that was not told of the first's.
    pub elsewhere: bool,
    pub tasks: Vec<Task>,
}

/// What others may do to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Other {
    Append,
    RollBack,
    FastForward,
    AppendToBranch,
    RemoveRef,
    Expire,
    AddColumn,
    SetRetention,
    Tag,
}

impl Other {
    pub const ALL: [Other; 9] = [
        Other::Append,
        Other::RollBack,
        Other::FastForward,
        Other::AppendToBranch,
        Other::RemoveRef,
        Other::Expire,
        Other::AddColumn,
        Other::SetRetention,
        Other::Tag,
    ];
}

/// All that a seed decides beforehand.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The format version of each table.
    pub tables: Vec<u8>,
    pub operators: Vec<OperatorPlan>,
    /// What may happen to a commit; nothing else does.
    pub faults: Vec<Fault>,
    /// How often in a hundred calls something goes wrong.
    pub percent: usize,
    pub crashes: u32,
    pub others: Vec<Other>,
    pub other_actions: u32,
}

/// What is left out of a run, to find the shortest that still shows something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Troubles, by their number in the order in which they came.
    pub troubles: BTreeSet<u32>,
    /// Commands, by operator and place.
    pub tasks: BTreeSet<(usize, usize)>,
}

const IDS: [(&str, i32); 4] = [("p", 10), ("q", 11), ("r", 12), ("s", 13)];

fn all_faults() -> Vec<Fault> {
    let no = |status| Fault::Refuse { status, message: "refused on the way".to_owned() };
    let answer = |status| Answer::Refused { status, message: "a proxy's own answer".to_owned() };
    vec![
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Hold,
        Fault::Duplicate,
        Fault::DuplicateLate,
        Fault::ReplyInstead(answer(409)),
        Fault::ReplyInstead(answer(403)),
        Fault::ReplyInstead(Answer::Unknown { reason: "503 from a gateway".to_owned() }),
        no(409),
        no(403),
        Fault::NotSent,
    ]
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let tables: Vec<u8> = (0..1 + usize::from(dice.percent(25))).map(|_| [2, 2, 3, 1][dice.below(4)]).collect();
        let number = 2 + dice.below(2);
        let mut operators = Vec::new();
        for name in ["ann", "bob", "cyd"].into_iter().take(number) {
            let table = dice.below(tables.len());
            let mut tasks = Vec::new();
            for _ in 0..1 + usize::from(dice.percent(30)) {
                tasks.extend(program(&mut dice));
            }
            operators.push(OperatorPlan { name, table, elsewhere: dice.percent(6), tasks });
        }
        // A few kinds of trouble at a time: all of them at once hide each other.
        let some = |dice: &mut Dice, percent| -> Vec<Fault> {
            all_faults().into_iter().filter(|_| dice.percent(percent)).collect()
        };
        let faults = some(&mut dice, 45);
        let percent = [0, 3, 8, 20][dice.below(4)];
        let crashes = [0, 1, 3, 6][dice.below(4)];
        let others = Other::ALL.into_iter().filter(|_| dice.percent(40)).collect();
        let other_actions = [0, 2, 4, 8][dice.below(4)];
        let crashes = u32::try_from(crashes).unwrap_or(0);
        Self { tables, operators, faults, percent, crashes, others, other_actions }
    }
}

/// What one person does about one publication.
fn program(dice: &mut Dice) -> Vec<Task> {
    let (id, day) = IDS[dice.below(IDS.len())];
    let mode = if dice.percent(50) { StageMode::Append } else { StageMode::Replace };
    let verbs = match dice.below(10) {
        0..=3 => vec![Verb::Begin, Verb::Stage(mode), Verb::Validate, Verb::Publish],
        4 => vec![Verb::Begin, Verb::Stage(mode), Verb::Validate, Verb::Publish, Verb::Validate, Verb::Publish],
        5 => vec![Verb::Begin, Verb::Stage(mode), Verb::Validate, Verb::Abandon, Verb::Publish],
        6 => vec![Verb::Run { fails: dice.percent(20) }, Verb::Run { fails: false }],
        7 => vec![Verb::Run { fails: false }, Verb::Reconcile],
        8 => vec![Verb::Publish, Verb::Publish, Verb::Reconcile],
        _ => vec![[Verb::Abandon, Verb::Validate, Verb::Stage(mode)][dice.below(3)], Verb::Publish],
    };
    verbs.into_iter().map(|verb| Task { id, day, verb }).collect()
}

/// The day that a publication of this name owns.
pub(super) fn day_of_id(name: &str) -> Option<i64> {
    IDS.iter().find(|(id, _)| *id == name).map(|(_, day)| i64::from(*day))
}

/// The names that publications have here, each with its day.
pub(super) fn ids() -> &'static [(&'static str, i32)] {
    &IDS
}
