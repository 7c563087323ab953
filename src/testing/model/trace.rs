//! How a state came about, in lines that a person can read.

use super::mind::{Mind, reply};
use super::names::{shown, shown_table};
use super::world::{Step, World, our_refs};
use crate::publish::commits::moves_main_to;

const COORDINATORS: [&str; 2] = ["A", "B"];

/// A line a step, with the table wherever it changed.
pub fn lines(mind: &mut Mind, way: &[World]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(first) = way.first() {
        lines.push(format!("at first          {}", shown_table(&mind.table(first.table).observed)));
    }
    for (number, pair) in (1..).zip(way.windows(2)) {
        let [before, after] = pair else { continue };
        let next = before.successors(mind).into_iter().find(|next| next.world == *after);
        let told = next.map_or_else(|| "?".to_owned(), |next| describe(mind, before, next.step));
        lines.push(format!("{number:3}. {told}"));
        if before.table != after.table {
            lines.push(format!("     the table is   {}", shown_table(&mind.table(after.table).observed)));
        }
    }
    lines
}

fn describe(mind: &Mind, before: &World, step: Step) -> String {
    let who = |number: usize| COORDINATORS.get(number).copied().unwrap_or("?");
    let observed = &mind.table(before.table).observed;
    match step {
        Step::Start(number, command) => {
            format!("{} starts {} and reads the table", who(number), format!("{command:?}").to_lowercase())
        }
        Step::ReadLog(number) => format!("{} reads the journal", who(number)),
        Step::ReadTable(number) => format!("{} reads the table", who(number)),
        Step::Intend(number, verb) => format!("{} records that it will send {verb:?}", who(number)),
        Step::Behind(number) => format!("{} finds that another appended first", who(number)),
        Step::End(number, told) => {
            let row = told.row.map_or_else(String::new, |row| format!(", row {row}"));
            format!("{} ends with exit {}{row}", who(number), told.code)
        }
        Step::Again(number) => format!("{} has to read again", who(number)),
        Step::Send(number, verb, status, fault) => {
            let fault = fault.map_or_else(String::new, |fault| format!("; {fault:?}"));
            let status = match status {
                reply::NOT_SENT => "it never left".to_owned(),
                reply::UNKNOWN => "no answer came".to_owned(),
                status => format!("the answer is {status}"),
            };
            format!("{} sends {verb:?}: {status}{fault}", who(number))
        }
        Step::Record(number) => format!("{} records the answer", who(number)),
        Step::Kill(number, false) => format!("{} is killed", who(number)),
        Step::Kill(number, true) => format!("{} is killed, and its request is on its way", who(number)),
        Step::Land(commit) => {
            let what = match moves_main_to(&mind.commit(commit)) {
                Some(seal) => format!("PUBLISH of {}", shown(observed, seal)),
                None => "a request".to_owned(),
            };
            format!("{what}, which was on its way, is applied")
        }
        Step::Act(act, Some(snapshot)) => format!("others: {act:?} ({})", shown(observed, snapshot)),
        Step::Act(act, None) => format!("others: {act:?}"),
        Step::Expired(snapshot) => format!("the expiry of {} that was planned is applied", shown(observed, snapshot)),
        Step::Deleted(which) => {
            let name = our_refs().get(usize::from(which)).map_or_else(String::new, |name| name.0.clone());
            format!("others delete the ref {name}")
        }
        Step::Lose(number) => format!("journal {} is lost, with every process that uses it", number + 1),
    }
}
