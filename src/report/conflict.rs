//! A moved base in words: who changed what, and what to do about it.

use chrono::DateTime;
use serde::Serialize;

use super::page::{count, instant, snapshot};
use crate::conflict::{Author, Collision, Rule, Verdict, What};
use crate::ids::SnapshotId;

/// So many reasons are kept in a report, the rest counted.
pub const REASONS_KEPT: usize = 100;

/// What a moved base means for a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConflictReport {
    /// `N`.
    pub base: Option<SnapshotId>,
    /// `M`: main as read.
    pub main: Option<SnapshotId>,
    /// Snapshots from the one to the other, as far as the history tells, 200 at most.
    pub snapshots_between: usize,
    /// The verdict; of its reasons the first [`REASONS_KEPT`].
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How many reasons there are.
    pub collisions: usize,
}

impl ConflictReport {
    /// A report of a verdict.
    pub fn new(
        base: Option<SnapshotId>,
        main: Option<SnapshotId>,
        snapshots_between: usize,
        mut verdict: Verdict,
    ) -> Self {
        let mut collisions = 0;
        if let Verdict::Rebuild { reasons, .. } = &mut verdict {
            collisions = reasons.len();
            reasons.truncate(REASONS_KEPT);
        }
        Self { base, main, snapshots_between, verdict, collisions }
    }

    /// The verdict in a few words.
    pub fn headline(&self) -> String {
        let main = snapshot(self.main);
        match &self.verdict {
            Verdict::Reattach { .. } => {
                format!("nothing that it reads, owns or removes has changed: it can be reattached to {main}")
            }
            Verdict::Rebuild { .. } => format!("it must be built again, from {main}"),
        }
    }

    /// The verdict, what it rests on and what to do, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.verdict {
            Verdict::Reattach { again } => {
                lines.push(self.headline());
                lines.extend(again.iter().map(|what| format!("to be checked again: {what}")));
                lines.push(
                    "this version of calve cannot reattach yet: abandon it, and stage the same files under a new id"
                        .to_owned(),
                );
            }
            Verdict::Rebuild { reasons, undeclared } => {
                lines.extend(grouped(reasons));
                let told = reasons.len();
                if self.collisions > told {
                    lines
                        .push(format!("and {} more", count(u64::try_from(self.collisions - told).unwrap_or(u64::MAX))));
                }
                lines.push(self.headline());
                if *undeclared {
                    lines.push(
                        "an engine wrote it, and what its job read was not declared, so that any change of the table \
                         counts: `calve begin … --reads EXPR`, or `--reads scope`, says which rows matter"
                            .to_owned(),
                    );
                }
            }
        }
        lines
    }
}

/// What one snapshot did to one partition is one line.
fn grouped(reasons: &[Collision]) -> Vec<String> {
    let key = |one: &Collision| (one.rule, one.what, one.partition.clone(), one.by.clone(), one.possible);
    let mut groups: Vec<Vec<&Collision>> = Vec::new();
    for one in reasons {
        let same = groups.iter_mut().find(|group| {
            one.rule != Rule::K6 && one.rule != Rule::K7 && group.first().is_some_and(|first| key(first) == key(one))
        });
        match same {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().filter_map(|group| group.split_first()).map(|(first, more)| line(first, more.len())).collect()
}

fn line(first: &Collision, more: usize) -> String {
    let rule = match first.rule {
        Rule::K2 => "K2",
        Rule::K3 => "K3",
        Rule::K4 => "K4",
        Rule::K5 => "K5",
        Rule::K6 => "K6",
        Rule::K7 => "K7",
    };
    let file = first.file.as_deref().unwrap_or("?");
    let detail = first.detail.as_deref();
    match first.rule {
        Rule::K6 => {
            let detail = detail.unwrap_or("its shape changed");
            return match &first.file {
                Some(file) => format!("{rule}: {file}: {detail}"),
                None => format!("{rule}: {detail}"),
            };
        }
        Rule::K7 => return format!("{rule}: {file} cannot be read: {}", detail.unwrap_or("its kind is not known")),
        Rule::K2 | Rule::K3 | Rule::K4 | Rule::K5 => {}
    }
    let place = match first.partition.as_deref() {
        Some("") | None => "the table",
        Some(partition) => partition,
    };
    let by = match &first.by {
        Some(author) => format!("by {}", written_by(author)),
        None => match first.snapshot {
            Some(id) => format!("by snapshot {id}"),
            None => "since the base".to_owned(),
        },
    };
    let did = match first.rule {
        Rule::K2 | Rule::K6 | Rule::K7 if first.possible => "may have been changed where it matters",
        Rule::K2 | Rule::K6 | Rule::K7 => "was changed",
        Rule::K3 if first.possible => "was changed where it may remove files or delete rows",
        Rule::K3 => "was changed under it",
        Rule::K4 => "had rows deleted by their values",
        Rule::K5 => "got rows within reach of its own equality deletes",
    };
    let verb = match first.what {
        What::Added => "was added",
        What::Removed => "was removed",
        What::AddedTwice => "is in the table already",
        What::RowsDeleted => "deletes rows",
        What::DeletesRemoved => "deleted rows, and was removed or written anew",
        What::EqualityDeletes => "deletes rows",
        What::Uncovered => "brings rows under deletes that it removes",
        What::Shape | What::Unreadable => "changed",
    };
    let target = detail.map(|detail| format!(" {detail}")).unwrap_or_default();
    let number = first.sequence_number.map(|number| format!(" (sequence number {number})")).unwrap_or_default();
    let rest = match more {
        0 => String::new(),
        1 => ", and 1 file more".to_owned(),
        more => format!(", and {more} files more"),
    };
    format!("{rule}: {place} {did} {by}: file {file} {verb}{target}{number}{rest}")
}

fn written_by(author: &Author) -> String {
    let at = DateTime::from_timestamp_millis(author.timestamp_ms).map(instant);
    let facts: Vec<String> = author.engine.iter().cloned().chain([author.operation.clone()]).chain(at).collect();
    format!("snapshot {} ({})", author.snapshot, facts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collision(file: &str, day: &str, possible: bool) -> Collision {
        let by = Author {
            snapshot: SnapshotId(77),
            engine: Some("spark 3.5.8".to_owned()),
            operation: "append".to_owned(),
            timestamp_ms: 1_376_058_000_000,
        };
        Collision {
            rule: Rule::K2,
            what: What::Added,
            file: Some(file.to_owned()),
            partition: Some(format!("day=2013-08-{day}")),
            sequence_number: Some(5),
            possible,
            detail: None,
            snapshot: Some(SnapshotId(77)),
            by: Some(by),
        }
    }

    #[test]
    fn reasons_are_told_by_snapshot_and_partition() {
        let reasons = vec![collision("a", "09", false), collision("b", "09", false), collision("c", "10", true)];
        let verdict = Verdict::Rebuild { reasons, undeclared: true };
        let report = ConflictReport::new(Some(SnapshotId(1)), Some(SnapshotId(80)), 3, verdict);
        insta::assert_snapshot!(report.lines().join("\n"), @r"
        K2: day=2013-08-09 was changed by snapshot 77 (spark 3.5.8, append, 2013-08-09 14:20:00 UTC): file a was added (sequence number 5), and 1 file more
        K2: day=2013-08-10 may have been changed where it matters by snapshot 77 (spark 3.5.8, append, 2013-08-09 14:20:00 UTC): file c was added (sequence number 5)
        it must be built again, from 80
        an engine wrote it, and what its job read was not declared, so that any change of the table counts: `calve begin … --reads EXPR`, or `--reads scope`, says which rows matter
        ");
        let json = serde_json::to_value(&report).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["base", "collisions", "main", "reasons", "snapshots-between", "undeclared", "verdict"]);
        assert_eq!((&json["verdict"], &json["main"]), (&"rebuild".into(), &"80".into()));
        let one = &json["reasons"][0];
        assert_eq!((&one["rule"], &one["what"], &one["possible"]), (&"K2".into(), &"added".into(), &false.into()));
        assert_eq!((&one["partition"], &one["sequence-number"]), (&"day=2013-08-09".into(), &5.into()));
        assert_eq!((&one["by"]["engine"], &one["by"]["snapshot"]), (&"spark 3.5.8".into(), &"77".into()));
    }

    #[test]
    fn more_reasons_than_are_kept_are_counted() {
        let reasons: Vec<_> = (0..250).map(|file| collision(&format!("{file:03}"), "09", false)).collect();
        let report = ConflictReport::new(None, None, 1, Verdict::Rebuild { reasons, undeclared: false });
        let lines = report.lines();
        assert_eq!(report.collisions, 250);
        assert!(lines[0].ends_with("and 99 files more"), "{lines:?}");
        assert_eq!(lines[1], "and 150 more");
    }
}
