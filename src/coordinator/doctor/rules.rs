//! What is risky, from facts alone.

use chrono::{DateTime, Duration, Utc};
use iceberg::spec::MAIN_BRANCH;

use super::facts::{JournalKind, Surroundings, TableFacts};
use crate::clock::instant;
use crate::coordinator::places::{is_inside, normal};
use crate::ids::PublicationId;
use crate::observed::RefKind;
use crate::report::page::{count, shell};
use crate::report::{Advice, Severity};

/// For how long what happened to a request has to be found in the table. Source: `protocol.md`, "Retention".
pub(super) const WINDOW: Duration = Duration::days(7);
/// Iceberg's defaults. Source: Iceberg, "Table properties".
const DEFAULT_MAX_SNAPSHOT_AGE: Duration = Duration::days(5);
const DEFAULT_METADATA_VERSIONS: usize = 100;
/// Sizes of metadata, in bytes, beyond which a catalog or what stands before it refuses a table.
const CEILINGS: [(u64, &str, Severity); 3] = [
    (20_000_000, "AWS Glue takes 20 MB", Severity::Risk),
    (10_000_000, "API gateways and Polaris take 10 MB", Severity::Warning),
    (1_000_000, "Google's REST catalog takes 1 MB", Severity::Note),
];
/// The longest value of a property that Hive Metastore takes, in bytes.
const HIVE_PROPERTY: usize = 32_672;
/// Snapshots from which every load and commit of a table is slow.
const MANY_SNAPSHOTS: usize = 1_000;
/// How far ahead the catalog's clock may be before it is worth a word.
const SKEW: Duration = Duration::minutes(1);

/// What is risky whatever the table.
pub(super) fn of_surroundings(surroundings: &Surroundings) -> Vec<Advice> {
    match surroundings.journal {
        JournalKind::Configured => Vec::new(),
        JournalKind::OfThisUser => vec![Advice {
            severity: Severity::Risk,
            rule: "journal-private",
            table: None,
            what: format!("no journal is configured: it is in {}", surroundings.journal_root),
            why: "other machines cannot see what was sent from here, so a job that starts again elsewhere cannot tell"
                .to_owned(),
            remedy: Some("journal = \"s3://BUCKET/PATH\" in calve.toml, or --journal".to_owned()),
        }],
    }
}

/// What is risky about a table.
pub(super) fn of_table(surroundings: &Surroundings, facts: &TableFacts) -> Vec<Advice> {
    let table = Table { surroundings, facts };
    let mut found = Vec::new();
    found.extend(table.unreadable());
    found.extend(table.journal_inside());
    found.extend(table.unkept_refs());
    found.extend(table.snapshot_age());
    found.extend(table.ref_age());
    found.extend(table.clock_ahead());
    found.extend(table.metadata_size());
    found.extend(table.long_properties());
    found.extend(table.many_snapshots());
    found.extend(table.forgotten());
    found.extend(table.write_audit_publish());
    found.extend(table.no_garbage_collection());
    found.extend(table.metadata_files());
    found.extend(table.leases());
    found.extend(table.s3_tables());
    found
}

struct Table<'a> {
    surroundings: &'a Surroundings,
    facts: &'a TableFacts,
}

impl Table<'_> {
    fn advice(
        &self,
        severity: Severity,
        rule: &'static str,
        what: String,
        why: &str,
        remedy: Option<String>,
    ) -> Advice {
        Advice { severity, rule, table: Some(self.facts.table.clone()), what, why: why.to_owned(), remedy }
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.facts.properties.get(name).map(String::as_str)
    }

    fn is(&self, name: &str, wanted: bool) -> bool {
        self.property(name).is_some_and(|value| value.eq_ignore_ascii_case(if wanted { "true" } else { "false" }))
    }

    /// The table as SQL names it.
    fn sql(&self) -> String {
        let levels = self.facts.table.namespace().iter().map(String::as_str).chain([self.facts.table.name()]);
        levels.map(|level| format!("`{}`", level.replace('`', "``"))).collect::<Vec<_>>().join(".")
    }

    fn set_property(&self, name: &str, value: &str) -> Option<String> {
        Some(format!("ALTER TABLE {} SET TBLPROPERTIES ('{name}' = '{value}')", self.sql()))
    }

    fn command(&self, verb: &str, id: &PublicationId, rest: &str) -> String {
        let line = format!("calve {verb} {} {} {rest}", shell(&self.facts.table.to_string()), shell(&id.to_string()));
        line.trim_end().to_owned()
    }

    fn unreadable(&self) -> Option<Advice> {
        let error = self.facts.unreadable.as_ref()?;
        let why = "without them open publications and leases are not known";
        Some(self.advice(
            Severity::Warning,
            "publications-unreadable",
            format!("its publications cannot be read: {error}"),
            why,
            None,
        ))
    }

    fn journal_inside(&self) -> Option<Advice> {
        is_inside(&self.surroundings.journal_root, &self.facts.location).then(|| {
            let what = format!("the journal {} is inside the table's location", self.surroundings.journal_root);
            let why = "engines delete files there that no snapshot names: remove_orphan_files would take the journal";
            self.advice(
                Severity::Risk,
                "journal-in-table",
                what,
                why,
                Some("--journal, or journal = in calve.toml, outside every table".to_owned()),
            )
        })
    }

    /// Refs of calve's that have lost their own retention.
    fn unkept_refs(&self) -> Vec<Advice> {
        let mut found = Vec::new();
        for (name, reference) in &self.facts.observed.refs {
            let Some(id) = PublicationId::of_ref(name) else { continue };
            let is_kept = reference.kind == RefKind::KEPT_BRANCH || reference.kind == RefKind::KEPT_TAG;
            if is_kept {
                continue;
            }
            let remedy = if reference.kind.is_branch() {
                self.command("validate", &id, "")
            } else {
                let (sql, at) = (self.sql(), reference.snapshot);
                format!("ALTER TABLE {sql} REPLACE TAG `{name}` AS OF VERSION {at} RETAIN 36500 DAYS")
            };
            let why = "an expiry by an engine may take what it points at";
            found.push(self.advice(
                Severity::Risk,
                "ref-retention",
                format!("{name} has no retention of its own"),
                why,
                Some(remedy),
            ));
        }
        found
    }

    /// The age at which main's snapshots go: main's own, else the table's, else Iceberg's default.
    fn snapshot_age(&self) -> Option<Advice> {
        const PROPERTY: &str = "history.expire.max-snapshot-age-ms";
        let main = self.facts.observed.reference(&crate::ids::RefName(MAIN_BRANCH.to_owned()));
        let own = main.and_then(|main| match main.kind {
            RefKind::Branch { max_snapshot_age_ms, .. } => max_snapshot_age_ms,
            RefKind::Tag { .. } => None,
        });
        let set = own.or_else(|| self.property(PROPERTY).and_then(|value| value.trim().parse().ok()));
        let age = set.unwrap_or(DEFAULT_MAX_SNAPSHOT_AGE.num_milliseconds());
        if age >= WINDOW.num_milliseconds() {
            return None;
        }
        let severity = if set.is_some() { Severity::Warning } else { Severity::Note };
        let whose = if own.is_some() {
            "main"
        } else if set.is_some() {
            "the table"
        } else {
            "Iceberg by default"
        };
        let what = format!("{whose} lets snapshots expire after {}", period(Duration::milliseconds(age)));
        let why = "what became of a request is looked for in main's history for 7 days; receipts stay, but the line below \
                   them ends earlier";
        Some(self.advice(severity, "snapshot-age", what, why, self.set_property(PROPERTY, "1209600000")))
    }

    fn ref_age(&self) -> Option<Advice> {
        const PROPERTY: &str = "history.expire.max-ref-age-ms";
        let age: i64 = self.property(PROPERTY)?.trim().parse().ok()?;
        if age >= WINDOW.num_milliseconds() {
            return None;
        }
        let what = format!("refs without retention of their own expire after {}", period(Duration::milliseconds(age)));
        let why = "an engine that writes to an audit branch may take its retention away, and the branch is gone before it is reviewed";
        Some(self.advice(Severity::Warning, "ref-age", what, why, self.set_property(PROPERTY, "9223372036854775807")))
    }

    fn clock_ahead(&self) -> Option<Advice> {
        let changed = instant(self.facts.last_updated_ms)?;
        let ahead = changed.signed_duration_since(self.surroundings.now);
        (ahead > SKEW).then(|| {
            let what = format!("it was changed {} in the future, by this machine's clock", period(ahead));
            let why = "leases and ages are judged by this clock; a lease may seem over that is not";
            self.advice(
                Severity::Warning,
                "clock-skew",
                what,
                why,
                Some("set this machine's clock, e.g. with NTP".to_owned()),
            )
        })
    }

    /// From four fifths of a ceiling on.
    fn metadata_size(&self) -> Option<Advice> {
        let size = self.facts.metadata_bytes;
        let near = |ceiling: u64| size >= ceiling / 5 * 4;
        let (_, whose, severity) = CEILINGS.into_iter().find(|(ceiling, _, _)| near(*ceiling))?;
        let what = format!("its metadata has {} bytes: {whose}", count(size));
        let why = "beyond that a commit is refused or lost on its way; every load and commit carries all of it";
        Some(self.advice(severity, "metadata-size", what, why, Some(self.expire())))
    }

    fn expire(&self) -> String {
        format!("CALL CATALOG.system.expire_snapshots(table => '{}')", self.facts.table)
    }

    fn long_properties(&self) -> Option<Advice> {
        let (name, value) = self.facts.properties.iter().find(|(_, value)| value.len() > HIVE_PROPERTY)?;
        let what = format!("the property {name} has {} bytes", count(u64::try_from(value.len()).unwrap_or(u64::MAX)));
        let why = "Hive Metastore keeps at most 32,672 bytes of one property";
        Some(self.advice(Severity::Note, "long-property", what, why, None))
    }

    fn many_snapshots(&self) -> Option<Advice> {
        let number = self.facts.observed.snapshots.len();
        (number >= MANY_SNAPSHOTS).then(|| {
            let what = format!("it has {} snapshots", count(u64::try_from(number).unwrap_or(u64::MAX)));
            let why = "every load and commit carries all of them";
            self.advice(Severity::Warning, "many-snapshots", what, why, Some(self.expire()))
        })
    }

    fn forgotten(&self) -> Vec<Advice> {
        let is_old =
            |begun: &DateTime<Utc>| self.surroundings.now.signed_duration_since(*begun) >= self.surroundings.older_than;
        let mut found = Vec::new();
        for open in &self.facts.open {
            let Some(begun) = open.begun.filter(is_old) else { continue };
            let age = period(self.surroundings.now.signed_duration_since(begun));
            let owner = open.owner.as_ref().map_or_else(|| "nobody known".to_owned(), ToString::to_string);
            let state = if open.sealed { "sealed" } else { "open" };
            let what = format!("{} has been {state} for {age}; it belongs to {owner}", open.id.audit_ref());
            let why = "its snapshots and files are kept for as long as it is not over";
            let verb = if open.sealed {
                self.command("reconcile", &open.id, "")
            } else {
                self.command("abandon", &open.id, "--reason …")
            };
            found.push(self.advice(Severity::Warning, "forgotten-branch", what, why, Some(verb)));
        }
        found
    }

    fn write_audit_publish(&self) -> Vec<Advice> {
        let mut found = Vec::new();
        if self.is("write.wap.enabled", true) {
            let why = "engines may stage writes by an id of their own, and publish them around the gate";
            let remedy = self.set_property("write.wap.enabled", "false");
            found.push(self.advice(
                Severity::Warning,
                "wap-enabled",
                "write.wap.enabled is true".to_owned(),
                why,
                remedy,
            ));
        }
        let staged = self.facts.observed.snapshots.values().filter(|s| s.summary.contains_key("wap.id")).count();
        if staged > 0 {
            let what = format!("{} of its snapshots carry a wap.id", count(u64::try_from(staged).unwrap_or(u64::MAX)));
            let why = "whoever may commit to the table can cherry-pick them into main without evidence";
            found.push(self.advice(Severity::Note, "wap-snapshots", what, why, None));
        }
        found
    }

    fn no_garbage_collection(&self) -> Option<Advice> {
        self.is("gc.enabled", false).then(|| {
            let why = "nothing of it is ever deleted, by engines or by `clean`, so closed candidates keep their files";
            let remedy = self.set_property("gc.enabled", "true");
            self.advice(Severity::Note, "gc-disabled", "gc.enabled is false".to_owned(), why, remedy)
        })
    }

    fn metadata_files(&self) -> Option<Advice> {
        const DELETE: &str = "write.metadata.delete-after-commit.enabled";
        let kept = self.property("write.metadata.previous-versions-max").and_then(|value| value.trim().parse().ok());
        let kept = kept.unwrap_or(DEFAULT_METADATA_VERSIONS);
        if self.is(DELETE, true) {
            let what = format!(
                "metadata files are deleted, but for the last {}",
                count(u64::try_from(kept).unwrap_or(u64::MAX))
            );
            let why =
                "where all refs of a publication were deleted, only older metadata files tell whether it was published";
            return Some(self.advice(Severity::Note, "metadata-deleted", what, why, None));
        }
        (self.facts.metadata_log >= kept).then(|| {
            let what = format!(
                "old metadata files are never deleted, and there are more than {}",
                count(u64::try_from(kept).unwrap_or(u64::MAX))
            );
            let why = "every commit leaves one; they cost room, not safety";
            self.advice(Severity::Note, "metadata-kept", what, why, self.set_property(DELETE, "true"))
        })
    }

    fn leases(&self) -> Vec<Advice> {
        let left = self.facts.leases_left.iter().map(|(id, owner)| {
            let what = format!("{owner} worked on {id} and left its lease behind");
            let why = "the job was killed, or its machine went down; the lease is over and keeps nobody out";
            self.advice(
                Severity::Note,
                "lease-left",
                what,
                why,
                Some(format!("calve recover {}", shell(&self.facts.table.to_string()))),
            )
        });
        left.collect()
    }

    /// Amazon S3 Tables keeps its tables in buckets of its own, whose names end in `--table-s3`.
    fn s3_tables(&self) -> Option<Advice> {
        let bucket = normal(&self.facts.location)
            .strip_prefix("s3://")
            .and_then(|rest| rest.split('/').next().map(str::to_owned))?;
        let has_own_retention = self.facts.observed.refs.keys().any(|name| PublicationId::of_ref(name).is_some());
        (bucket.ends_with("--table-s3") && has_own_retention).then(|| {
            let why = "S3 Tables stops managing snapshots itself while refs carry retention of their own";
            let what = "it is on Amazon S3 Tables, and has refs of publications".to_owned();
            self.advice(Severity::Note, "s3-tables", what, why, Some(self.expire()))
        })
    }
}

/// A time as people say it, in its largest unit.
fn period(time: Duration) -> String {
    let units = [(time.num_days(), "day"), (time.num_hours(), "hour"), (time.num_minutes(), "minute")];
    let (number, unit) = units.into_iter().find(|(number, _)| *number > 0).unwrap_or((time.num_seconds(), "second"));
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}
