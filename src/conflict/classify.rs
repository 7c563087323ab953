//! The verdict over a moved base: rules K1 to K5 and K7; [`super::shape`] holds K6.

use std::collections::{BTreeMap, HashMap};

use super::concern::Concern;
use super::reach::{Aim, Named, aim, is_equality, is_global, partition_of, targets};
use super::shape::{self, Frame};
use super::verdict::{Collision, Rule, Verdict, What};
use crate::identity::{Change, LiveEntry};
use crate::scope::partition_text;

/// Everything a verdict is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The table as the candidate was planned on it.
    pub before: &'a Frame,
    /// The table as it is now.
    pub after: &'a Frame,
    /// What the candidate is concerned with.
    pub concern: &'a Concern,
    /// What the candidate changes: from `N` to its data.
    pub candidate: &'a Change,
    /// What main changed: from `N` to `M`, at least of what [`Concern::may_concern`].
    pub delta: &'a Change,
    /// Data files of either state that deletes in the difference aim at and that are no part of it. Where one is not here,
    /// the partition of the deletes decides.
    pub aimed_at: &'a [LiveEntry],
    /// What position delete files name, by path, of those that were read.
    pub named: &'a BTreeMap<String, Named>,
    /// Manifests of either state that could not be read and may concern the candidate: path and reason.
    pub unreadable: &'a [(String, String)],
}

/// What a moved base means for a candidate. Source: `protocol.md`, "Conflicts".
///
/// Never reattach where the same change on `M` would give other rows than the job, run again, would: whatever the facts
/// leave open is a reason to rebuild, marked as possible. The converse does not hold; a file can be rewritten with the
/// same rows in it.
pub fn classify(facts: &Facts<'_>) -> Verdict {
    let (mut reasons, again) = shape::moved(facts);
    reasons.extend(unreadable(facts));
    let known: HashMap<&str, &LiveEntry> = [&facts.delta.added, &facts.delta.removed]
        .into_iter()
        .flatten()
        .chain(facts.aimed_at)
        .filter(|entry| entry.is_data())
        .map(|entry| (entry.file.file_path(), entry))
        .collect();
    let each = |side: Side, entries: &[LiveEntry]| -> Vec<Collision> {
        entries.iter().filter_map(|entry| collision(facts, &known, side, entry)).collect()
    };
    reasons.extend(each(Side::Added, &facts.delta.added));
    reasons.extend(each(Side::Removed, &facts.delta.removed));
    if reasons.is_empty() {
        return Verdict::Reattach { again };
    }
    reasons.sort();
    reasons.dedup();
    let undeclared = facts.concern.assumed && reasons.iter().all(|reason| matches!(reason.rule, Rule::K2 | Rule::K4));
    Verdict::Rebuild { reasons, undeclared }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// `M` lists it, and `N` does not.
    Added,
    /// `N` lists it, and `M` does not.
    Removed,
}

/// K7: what nobody can look into decides nothing, and a candidate that cannot be read cannot be checked again.
fn unreadable(facts: &Facts<'_>) -> Vec<Collision> {
    let told = |file: &str, reason: &str| Collision {
        rule: Rule::K7,
        what: What::Unreadable,
        file: Some(file.to_owned()),
        partition: None,
        sequence_number: None,
        possible: true,
        detail: Some(reason.to_owned()),
        snapshot: None,
        by: None,
    };
    let encrypted = facts.candidate.added.iter().chain(&facts.candidate.removed);
    let encrypted = encrypted.filter(|entry| entry.file.key_metadata().is_some());
    let encrypted = encrypted.map(|entry| told(entry.file.file_path(), "it is encrypted, and calve holds no keys"));
    let known = facts.unreadable.iter().chain(&facts.concern.unreadable);
    known.map(|(file, reason)| told(file, reason)).chain(encrypted).collect()
}

/// What one entry that only one of the states lists collides with, by the first rule that fits.
fn collision(facts: &Facts<'_>, known: &HashMap<&str, &LiveEntry>, side: Side, entry: &LiveEntry) -> Option<Collision> {
    let (rule, what, possible) = match entry.is_data() {
        true => data(facts.concern, side, entry)?,
        false if is_equality(entry) => equality(facts.concern, side, entry)?,
        false => return positions(facts, known, side, entry),
    };
    Some(told(facts.concern, side, entry, rule, what, possible))
}

fn told(concern: &Concern, side: Side, entry: &LiveEntry, rule: Rule, what: What, possible: bool) -> Collision {
    let spec = concern.specs.get(&entry.spec_id);
    Collision {
        rule,
        what,
        file: Some(entry.file.file_path().to_owned()),
        partition: spec.map(|spec| partition_text(spec, &concern.schema, entry.file.partition())),
        sequence_number: Some(entry.sequence_number),
        possible,
        detail: None,
        snapshot: entry.snapshot_id.filter(|_| side == Side::Added),
        by: None,
    }
}

fn data(concern: &Concern, side: Side, entry: &LiveEntry) -> Option<(Rule, What, bool)> {
    let path = entry.file.file_path();
    let partition = partition_of(entry);
    match side {
        Side::Removed => {
            let gone = concern.removed.get(path).is_some_and(|keys| keys.contains(&entry.key()));
            if gone || concern.aimed.contains(path) {
                return Some((Rule::K3, What::Removed, false));
            }
            if concern.blind.contains(&partition) {
                return Some((Rule::K3, What::Removed, true));
            }
        }
        Side::Added => {
            // What both adopted would be in the table twice.
            if concern.added.contains(path) {
                return Some((Rule::K2, What::AddedTwice, false));
            }
            let covered = |sequence: i64| entry.sequence_number <= sequence;
            if concern.lifted.iter().any(|(sequence, reach)| covered(*sequence) && reach.reaches(&partition)) {
                return Some((Rule::K3, What::Uncovered, true));
            }
            if concern.deletes.reaches(&partition) {
                return Some((Rule::K5, What::Added, false));
            }
        }
    }
    let what = match side {
        Side::Added => What::Added,
        Side::Removed => What::Removed,
    };
    concern.may_match(entry).then(|| (Rule::K2, what, !concern.must_match(entry)))
}

fn equality(concern: &Concern, side: Side, entry: &LiveEntry) -> Option<(Rule, What, bool)> {
    let partition = partition_of(entry);
    let what = match side {
        Side::Added => What::EqualityDeletes,
        Side::Removed => What::DeletesRemoved,
    };
    if side == Side::Removed {
        if concern.removed.get(entry.file.file_path()).is_some_and(|keys| keys.contains(&entry.key())) {
            return Some((Rule::K3, What::DeletesRemoved, false));
        }
        // Rows that come back are as good as new ones.
        let all = is_global(entry, &concern.specs) && !concern.deletes.is_empty();
        if all || concern.deletes.reaches(&partition) {
            return Some((Rule::K5, What::DeletesRemoved, true));
        }
        // Each of the two may have been what kept a row from view, once the other went.
        if concern.lifts(&partition) || (is_global(entry, &concern.specs) && !concern.lifted.is_empty()) {
            return Some((Rule::K3, What::Uncovered, true));
        }
    }
    let global = is_global(entry, &concern.specs);
    if concern.touched.contains(&partition) || (global && !concern.touched.is_empty()) {
        return Some((Rule::K4, what, true));
    }
    concern.may_match(entry).then_some((Rule::K4, what, true))
}

fn positions(facts: &Facts<'_>, known: &HashMap<&str, &LiveEntry>, side: Side, entry: &LiveEntry) -> Option<Collision> {
    let concern = facts.concern;
    let partition = partition_of(entry);
    let aim = aim(entry, facts.named);
    let what = match side {
        Side::Added => What::RowsDeleted,
        Side::Removed => What::DeletesRemoved,
    };
    let found = |rule, possible| Some(told(concern, side, entry, rule, what, possible));
    if side == Side::Removed {
        if concern.removed.get(entry.file.file_path()).is_some_and(|keys| keys.contains(&entry.key())) {
            return found(Rule::K3, false);
        }
        if concern.deletes.reaches(&partition) {
            return found(Rule::K5, true);
        }
        if concern.lifts(&partition) {
            let found = found(Rule::K3, true);
            return found.map(|found| Collision { what: What::Uncovered, ..found });
        }
    }
    if concern.blind.contains(&partition) {
        return found(Rule::K3, true);
    }
    let unreadable = match &aim {
        Aim::Unreadable(reason) => Some((*reason).to_owned()),
        Aim::One(_) | Aim::Many(_) | Aim::Unknown => None,
    };
    match targets(aim) {
        Some(paths) => {
            if let Some(path) = paths.iter().find(|path| concern.touches(path)) {
                let at = Some(format!("of {path}"));
                return found(Rule::K3, false).map(|found| Collision { detail: at, ..found });
            }
            let mut collides = None;
            for path in &paths {
                let Some(target) = known.get(path.as_str()) else {
                    // Its own partition is all that is known of a file that was not read.
                    if concern.may_match(entry) {
                        collides = collides.or(Some((path, true)));
                    }
                    continue;
                };
                if concern.may_match(target) {
                    let possible = !concern.must_match(target);
                    // What is certain is told first.
                    if !possible {
                        collides = Some((path, possible));
                        break;
                    }
                    collides = collides.or(Some((path, possible)));
                }
            }
            let (path, possible) = collides?;
            let at = Some(format!("of {path}"));
            found(Rule::K2, possible).map(|found| Collision { detail: at, ..found })
        }
        None => {
            let rule = match (concern.touched.contains(&partition), concern.may_match(entry)) {
                (true, _) => Rule::K3,
                (false, true) => Rule::K2,
                (false, false) => return None,
            };
            match unreadable {
                None => found(rule, true),
                Some(reason) => found(Rule::K7, true).map(|found| Collision {
                    what: What::Unreadable,
                    detail: Some(reason),
                    ..found
                }),
            }
        }
    }
}
