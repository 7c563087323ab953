//! Rows as they have to be, and as they are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::outsider::Seen;
use super::play::Played;
use super::tell::Told;

/// What a publication came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Published,
    NotPublished,
    Unresolved,
}

/// What is wrong with what was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    pub lost: Vec<String>,
    pub doubled: Vec<String>,
    pub contradictions: Vec<String>,
}

impl Wrong {
    /// Everything, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let named = |name: &'static str, lines: &[String]| {
            lines.iter().map(move |line| format!("{name}: {line}")).collect::<Vec<_>>()
        };
        [named("lost", &self.lost), named("doubled", &self.doubled), named("contradiction", &self.contradictions)]
            .concat()
    }
}

/// What is told of all publications of a table in the end.
#[derive(Debug, Default)]
pub(super) struct Finals {
    told: BTreeMap<String, Told>,
    /// Published, and told to have left main since.
    rolled_back: BTreeSet<String>,
}

impl Finals {
    /// What `reconcile` found of each.
    pub(super) fn of<'a>(findings: impl Iterator<Item = &'a Value>) -> Self {
        let mut finals = Self::default();
        for finding in findings {
            let Some(id) = finding.get("publication").and_then(Value::as_str) else { continue };
            drop(finals.told.insert(id.to_owned(), Told::of_finding(finding)));
            if finding.get("visibility").and_then(Value::as_str) == Some("rolled-back") {
                finals.rolled_back.insert(id.to_owned());
            }
        }
        finals
    }
}

/// The rows of one kind under one number: how often each row is there.
type Rows = BTreeMap<u64, u64>;

/// A table's rows, by number and publication.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    rows: BTreeMap<(i64, &'a str), Rows>,
    /// Somebody moved main back.
    rolled_back: bool,
    history: &'a BTreeMap<String, String>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(seen: &'a Seen, rolled_back: bool) -> Self {
        let mut rows: BTreeMap<(i64, &str), Rows> = BTreeMap::new();
        for (number, publication, row, count) in &seen.duckdb {
            let found = rows.entry((*number, publication)).or_default().entry(*row).or_default();
            *found = found.saturating_add(*count);
        }
        Self { rows, rolled_back, history: &seen.history }
    }

    /// The rows under numbers that nobody of these owns.
    pub(super) fn strangers(&self, numbers: &BTreeSet<u64>) -> Vec<String> {
        let owned = |number: i64| {
            let own = if number < 0 { -1 - number } else { number };
            u64::try_from(own).is_ok_and(|own| numbers.contains(&own))
        };
        let strange = self.rows.keys().filter(|(number, _)| !owned(*number));
        strange.map(|(number, publication)| format!("{publication} has rows under {number}")).collect()
    }

    fn rows(&self, number: i64, publication: &str) -> Rows {
        self.rows.get(&(number, publication)).cloned().unwrap_or_default()
    }
}

/// Whether an id is one of a publication's attempts or generations.
fn is_of(number: u64, id: &str) -> bool {
    let plain = format!("p{number}");
    id.strip_prefix(&plain).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '~']))
}

/// Judges a publication by what was told of it on the way, what is told of it at the end, and what is there.
pub(super) fn judge(played: &Played, finals: &Finals, facts: &Facts<'_>) -> (Outcome, Wrong) {
    let plan = &played.plan;
    let mut wrong = Wrong { contradictions: played.problems.clone(), ..Wrong::default() };
    let own: BTreeMap<&String, &Told> = finals.told.iter().filter(|(id, _)| is_of(plan.number, id)).collect();
    for (id, told) in &played.told {
        let last = finals.told.get(id).unwrap_or(&Told::Unknown);
        if last != told {
            wrong.contradictions.push(format!("{id} was told as {told}, and is told as {last} in the end"));
        }
    }
    let published: Vec<_> =
        own.iter().filter(|(_, told)| ***told == Told::Published).map(|(id, _)| id.as_str()).collect();
    let unsure = |id: &str| own.get(&id.to_owned()).is_some_and(|told| !told.is_final() && **told != Told::Unknown);
    let outcome = match published.is_empty() {
        false => Outcome::Published,
        true if own.keys().any(|id| unsure(id)) => Outcome::Unresolved,
        true => Outcome::NotPublished,
    };
    if published.len() > 1 {
        wrong.doubled.push(format!("all of {published:?} are published"));
    }
    let number = i64::try_from(plan.number).unwrap_or(i64::MAX);
    let shown: Vec<&str> =
        facts.rows.keys().filter(|(of, _)| *of == number).map(|(_, id)| *id).filter(|id| *id != "base").collect();
    let mut visible = false;
    for id in shown.iter().copied().chain(published.iter().copied()).collect::<BTreeSet<_>>() {
        let rows = facts.rows(number, id);
        if !published.contains(&id) && !unsure(id) {
            let told = own.get(&id.to_owned()).map_or("unknown".to_owned(), ToString::to_string);
            wrong.contradictions.push(format!("{id} is told as {told}, and {} of its rows are in main", rows.len()));
        }
        visible |= !rows.is_empty();
        if !finals.rolled_back.contains(id) {
            compare(&rows, plan.rows, id, &mut wrong);
        } else if !rows.is_empty() {
            wrong
                .contradictions
                .push(format!("{id} is told as rolled back, and {} of its rows are in main", rows.len()));
        } else if !facts.rolled_back || !facts.history.contains_key(id) {
            wrong.lost.push(format!("{id} is told as rolled back, and nobody did that, or it was never in main"));
        }
    }
    for (id, snapshot) in facts.history {
        if is_of(plan.number, id) && !published.contains(&id.as_str()) && !unsure(id) && !shown.contains(&id.as_str()) {
            wrong
                .contradictions
                .push(format!("{id} is not published, and rows of it were in main at snapshot {snapshot}"));
        }
    }
    // What was there before.
    let base = facts.rows(number, "base");
    match visible && plan.replace {
        true if !base.is_empty() => {
            wrong.contradictions.push(format!("the rows that {shown:?} took the place of are still there"));
        }
        true => {}
        false => compare(&base, 2, "base", &mut wrong),
    }
    for applied in &played.others {
        let rows = facts.rows(-1 - number, "other");
        if *applied && !facts.rolled_back || !rows.is_empty() {
            compare(&rows, 1, "other", &mut wrong);
        }
    }
    (outcome, wrong)
}

/// Each of so many rows has to be there exactly once.
fn compare(rows: &Rows, wanted: u64, whose: &str, wrong: &mut Wrong) {
    let missing: Vec<_> = (1..=wanted).filter(|row| !rows.contains_key(row)).collect();
    if !missing.is_empty() {
        wrong.lost.push(format!("rows {missing:?} of {whose}"));
    }
    let doubled: Vec<_> = rows.iter().filter(|(row, count)| **count > 1 || !(1..=wanted).contains(*row)).collect();
    if !doubled.is_empty() {
        wrong.doubled.push(format!("rows of {whose}, each with its count: {doubled:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::super::play::Counts;
    use super::*;

    /// Publication 7, with two rows beside those that are there, and what it was told on the way.
    fn played(told: &[(&str, Told)]) -> Played {
        let plan = Plan { rows: 2, replace: false, ..Plan::draw(1, 7) };
        Played {
            plan,
            told: told.iter().map(|(id, told)| ((*id).to_owned(), told.clone())).collect(),
            others: Vec::new(),
            problems: Vec::new(),
            log: String::new(),
            counts: Counts::default(),
        }
    }

    fn seen(rows: &[(i64, &str, u64, u64)], history: &[&str]) -> Seen {
        let rows: Vec<_> = rows.iter().map(|(n, id, row, count)| (*n, (*id).to_owned(), *row, *count)).collect();
        let history = history.iter().map(|id| ((*id).to_owned(), "1".to_owned())).collect();
        Seen { duckdb: rows.clone(), pyiceberg: rows, history, snapshots: 1 }
    }

    fn finals(told: &[(&str, Told)]) -> Finals {
        let told = told.iter().map(|(id, told)| ((*id).to_owned(), told.clone())).collect();
        Finals { told, rolled_back: BTreeSet::new() }
    }

    fn numbers(outcome: Outcome, wrong: &Wrong) -> (Outcome, [usize; 3]) {
        (outcome, [wrong.lost.len(), wrong.doubled.len(), wrong.contradictions.len()])
    }

    fn judged(played: &Played, told: &[(&str, Told)], seen: &Seen) -> (Outcome, [usize; 3]) {
        let (outcome, wrong) = judge(played, &finals(told), &Facts::of(seen, false));
        numbers(outcome, &wrong)
    }

    const BASE: [(i64, &str, u64, u64); 2] = [(7, "base", 1, 1), (7, "base", 2, 1)];

    #[test]
    fn what_is_as_it_was_told_passes() {
        let both = [&BASE[..], &[(7, "p7", 1, 1), (7, "p7", 2, 1)]].concat();
        let told = [("p7", Told::Published)];
        assert_eq!(judged(&played(&told), &told, &seen(&both, &["p7"])), (Outcome::Published, [0, 0, 0]));
        let told = [("p7", Told::Closed)];
        assert_eq!(judged(&played(&told), &told, &seen(&BASE, &[])), (Outcome::NotPublished, [0, 0, 0]));
        assert_eq!(judged(&played(&[]), &[("p7", Told::Sealed)], &seen(&both, &[])), (Outcome::Unresolved, [0, 0, 0]));
        let mut replaced = played(&[]);
        replaced.plan.replace = true;
        let rows = [(7, "p7~2", 1, 1), (7, "p7~2", 2, 1)];
        let told = [("p7", Told::Closed), ("p7~2", Told::Published), ("p70", Told::Published)];
        assert_eq!(judged(&replaced, &told, &seen(&rows, &["p7~2", "p70"])), (Outcome::Published, [0, 0, 0]));
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        let told = [("p7", Told::Published)];
        let half = [&BASE[..], &[(7, "p7", 2, 1)]].concat();
        assert_eq!(judged(&played(&told), &told, &seen(&half, &[])).1, [1, 0, 0], "a row is missing");
        assert_eq!(judged(&played(&told), &told, &seen(&BASE, &[])).1, [1, 0, 0], "all are missing");
        let twice = [&BASE[..], &[(7, "p7", 1, 2), (7, "p7", 2, 1)]].concat();
        assert_eq!(judged(&played(&told), &told, &seen(&twice, &[])).1, [0, 1, 0], "a row is there twice");
        let whole = [&BASE[..], &[(7, "p7", 1, 1), (7, "p7", 2, 1)]].concat();
        let others = [("p7", Told::Published), ("p7~2", Told::Published)];
        let both = [&whole[..], &[(7, "p7~2", 1, 1), (7, "p7~2", 2, 1)]].concat();
        assert_eq!(judged(&played(&told), &others, &seen(&both, &[])).1, [0, 1, 0], "two attempts are visible");
        let closed = [("p7", Told::Closed)];
        assert_eq!(judged(&played(&[]), &closed, &seen(&whole, &[])).1, [0, 0, 1], "closed and visible");
        assert_eq!(judged(&played(&[]), &closed, &seen(&BASE, &["p7"])).1, [0, 0, 1], "closed, and was visible");
        assert_eq!(judged(&played(&told), &closed, &seen(&BASE, &[])).1, [0, 0, 1], "told as published first");
        assert_eq!(judged(&played(&[]), &closed, &seen(&BASE[..1], &[])).1, [1, 0, 0], "another's row is gone");
        let mut replaced = played(&told);
        replaced.plan.replace = true;
        assert_eq!(judged(&replaced, &told, &seen(&whole, &[])).1, [0, 0, 1], "what was replaced is still there");
        let mut other = played(&[]);
        other.others.push(true);
        assert_eq!(judged(&other, &closed, &seen(&BASE, &[])).1, [1, 0, 0], "somebody else's row is gone");
        let strange = seen(&[(8, "p8", 1, 1)], &[]);
        assert_eq!(Facts::of(&strange, false).strangers(&BTreeSet::from([7])).len(), 1);
    }

    #[test]
    fn what_was_rolled_back_is_gone_and_was_there() {
        let told = [("p7", Told::Published)];
        let judged = |rows: &[_], history: &[&str], somebody| {
            let mut finals = finals(&told);
            finals.rolled_back.insert("p7".to_owned());
            let seen = seen(rows, history);
            let (outcome, wrong) = judge(&played(&told), &finals, &Facts::of(&seen, somebody));
            numbers(outcome, &wrong)
        };
        assert_eq!(judged(&BASE, &["p7"], true), (Outcome::Published, [0, 0, 0]));
        assert_eq!(judged(&BASE, &["p7"], false).1, [1, 0, 0], "nobody did");
        assert_eq!(judged(&BASE, &[], true).1, [1, 0, 0], "it was never there");
        let whole = [&BASE[..], &[(7, "p7", 1, 1), (7, "p7", 2, 1)]].concat();
        assert_eq!(judged(&whole, &["p7"], true).1, [0, 0, 1], "it is still there");
    }
}
