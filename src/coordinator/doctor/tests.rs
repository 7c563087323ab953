//! Each rule with facts that it is about, and facts that it is not about.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, TimeZone as _, Utc};
use uuid::Uuid;

use super::facts::{OpenPublication, Surroundings, TableFacts};
use super::rules::{of_surroundings, of_table};
use super::{DoctorRequest, JournalKind};
use crate::catalog::Catalog as _;
use crate::catalog::conformance::small_table;
use crate::catalog::fake::FakeCatalog;
use crate::clock::ManualClock;
use crate::coordinator::{BeginRequest, Coordinator};
use crate::ids::{Owner, RefName, SnapshotId, TableName, TableUuid};
use crate::journal::memory::MemoryJournal;
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, RefKind};
use crate::report::{Report as _, Severity, Text as _};

fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2013, 8, 10, 6, 30, 0).unwrap()
}

fn surroundings() -> Surroundings {
    Surroundings {
        journal: JournalKind::Configured,
        journal_root: "s3://ops/calve".to_owned(),
        now: now(),
        older_than: Duration::days(7),
    }
}

/// A table of which nothing is to be said.
fn quiet() -> TableFacts {
    let properties =
        [("history.expire.max-snapshot-age-ms", "1209600000"), ("write.wap.enabled", "false"), ("gc.enabled", "true")];
    TableFacts {
        table: "shop.orders".parse().unwrap(),
        location: "s3://lake/shop/orders".to_owned(),
        properties: properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        observed: Observed {
            uuid: TableUuid(Uuid::from_u128(1)),
            format_version: 2,
            last_sequence_number: 1,
            current_schema_id: 0,
            default_spec_id: 0,
            refs: [at("main", PLAIN), at("published/a", RefKind::KEPT_TAG), at("audit/b", RefKind::KEPT_BRANCH)].into(),
            snapshots: BTreeMap::new(),
            snapshot_log: Vec::new(),
        },
        metadata_bytes: 1_000,
        metadata_log: 3,
        last_updated_ms: now().timestamp_millis(),
        open: vec![open("b", 6, false)],
        leases_left: Vec::new(),
        unreadable: None,
    }
}

const PLAIN: RefKind = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };

fn at(name: &str, kind: RefKind) -> (RefName, ObservedRef) {
    (RefName(name.to_owned()), ObservedRef { snapshot: SnapshotId(5), kind })
}

fn open(id: &str, days: i64, sealed: bool) -> OpenPublication {
    let begun = Some(now() - Duration::days(days));
    OpenPublication { id: id.parse().unwrap(), owner: Some(Owner("ann".to_owned())), begun, sealed }
}

fn snapshot(id: i64, summary: &[(&str, &str)]) -> (SnapshotId, ObservedSnapshot) {
    let summary = summary.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let operation = "append".to_owned();
    let snapshot =
        ObservedSnapshot { parent: None, sequence_number: id, timestamp_ms: 0, operation, schema_id: None, summary };
    (SnapshotId(id), snapshot)
}

fn set(facts: &mut TableFacts, name: &str, value: &str) {
    facts.properties.insert(name.to_owned(), value.to_owned());
}

#[test]
fn nothing_is_said_of_a_table_that_is_in_order() {
    assert_eq!(of_table(&surroundings(), &quiet()), []);
    assert_eq!(of_surroundings(&surroundings()), []);
}

/// A change, what is then said, and words of it.
type Row<'a> = (fn(&mut TableFacts), &'a [(Severity, &'a str)], &'a [&'a str]);

#[test]
fn each_rule() {
    use Severity::{Note, Risk, Warning};
    const DAY: &str = "86400000";
    let rows: &[Row] = &[
        (|f| f.location = "s3a://ops".to_owned(), &[(Risk, "journal-in-table")], &["s3://ops/calve", "calve.toml"]),
        (|f| f.location = "s3://ops/calve/".to_owned(), &[(Risk, "journal-in-table")], &["remove_orphan_files"]),
        (|f| f.location = "s3://ops/cal".to_owned(), &[], &[]),
        (
            |f| f.observed.refs.extend([at("audit/b", PLAIN)]),
            &[(Risk, "ref-retention")],
            &["audit/b", "calve validate shop.orders b"],
        ),
        (
            |f| f.observed.refs.extend([at("closed/c", RefKind::Tag { max_ref_age_ms: None })]),
            &[(Risk, "ref-retention")],
            &["REPLACE TAG `closed/c` AS OF VERSION 5"],
        ),
        (|f| f.observed.refs.extend([at("mine", PLAIN)]), &[], &[]),
        (
            |f| set(f, "history.expire.max-snapshot-age-ms", DAY),
            &[(Warning, "snapshot-age")],
            &["the table", "1 day", "ALTER TABLE `shop`.`orders`"],
        ),
        (|f| set(f, "history.expire.max-snapshot-age-ms", "604800000"), &[], &[]),
        (|f| set(f, "history.expire.max-snapshot-age-ms", "604799999"), &[(Warning, "snapshot-age")], &["6 days"]),
        (|f| f.properties.clear(), &[(Note, "snapshot-age")], &["by default", "5 days"]),
        (
            |f| {
                let kind = RefKind::Branch {
                    min_snapshots_to_keep: None,
                    max_snapshot_age_ms: Some(3_600_000),
                    max_ref_age_ms: None,
                };
                f.observed.refs.extend([at("main", kind)]);
            },
            &[(Warning, "snapshot-age")],
            &["main lets", "1 hour"],
        ),
        (|f| set(f, "history.expire.max-ref-age-ms", DAY), &[(Warning, "ref-age")], &["1 day"]),
        (|f| set(f, "history.expire.max-ref-age-ms", "604800000"), &[], &[]),
        (|f| f.last_updated_ms += 60_000, &[], &[]),
        (|f| f.last_updated_ms += 60_001, &[(Warning, "clock-skew")], &["1 minute in the future", "clock"]),
        (|f| f.metadata_bytes = 799_999, &[], &[]),
        (|f| f.metadata_bytes = 800_000, &[(Note, "metadata-size")], &["800,000", "Google"]),
        (|f| f.metadata_bytes = 8_000_000, &[(Warning, "metadata-size")], &["Polaris", "expire_snapshots"]),
        (|f| f.metadata_bytes = 16_000_000, &[(Risk, "metadata-size")], &["Glue"]),
        (|f| set(f, "note", &"x".repeat(32_673)), &[(Note, "long-property")], &["note", "32,673"]),
        (|f| set(f, "note", &"x".repeat(32_672)), &[], &[]),
        (|f| f.observed.snapshots = (0..999).map(|id| snapshot(id, &[])).collect(), &[], &[]),
        (
            |f| f.observed.snapshots = (0..1000).map(|id| snapshot(id, &[])).collect(),
            &[(Warning, "many-snapshots")],
            &["1,000"],
        ),
        (
            |f| f.open = vec![open("b", 7, false)],
            &[(Warning, "forgotten-branch")],
            &["audit/b", "7 days", "ann", "calve abandon shop.orders b"],
        ),
        (
            |f| f.open = vec![open("b", 9, true)],
            &[(Warning, "forgotten-branch")],
            &["sealed for 9 days", "calve reconcile shop.orders b"],
        ),
        (|f| set(f, "write.wap.enabled", "TRUE"), &[(Warning, "wap-enabled")], &["around the gate"]),
        (
            |f| f.observed.snapshots.extend([snapshot(1, &[("wap.id", "x")])]),
            &[(Note, "wap-snapshots")],
            &["1 of its snapshots"],
        ),
        (|f| set(f, "gc.enabled", "false"), &[(Note, "gc-disabled")], &["clean"]),
        (|f| f.metadata_log = 100, &[(Note, "metadata-kept")], &["more than 100"]),
        (|f| f.metadata_log = 99, &[], &[]),
        (|f| set(f, "write.metadata.previous-versions-max", "3"), &[(Note, "metadata-kept")], &["more than 3"]),
        (
            |f| set(f, "write.metadata.delete-after-commit.enabled", "true"),
            &[(Note, "metadata-deleted")],
            &["last 100"],
        ),
        (
            |f| f.leases_left = vec![("b".parse().unwrap(), Owner("bob".to_owned()))],
            &[(Note, "lease-left")],
            &["bob worked on b", "calve recover shop.orders"],
        ),
        (|f| f.location = "s3://63a8e430--table-s3/x".to_owned(), &[(Note, "s3-tables")], &["S3 Tables"]),
        (
            |f| {
                f.location = "s3://63a8e430--table-s3/x".to_owned();
                f.observed.refs.retain(|name, _| name.as_str() == "main");
            },
            &[],
            &[],
        ),
        (|f| f.unreadable = Some("torn".to_owned()), &[(Warning, "publications-unreadable")], &["torn"]),
    ];
    for (number, (change, expected, words)) in rows.iter().enumerate() {
        let mut facts = quiet();
        change(&mut facts);
        let found = of_table(&surroundings(), &facts);
        let said: Vec<_> = found.iter().map(|advice| (advice.severity, advice.rule)).collect();
        assert_eq!(said, *expected, "row {number}: {found:#?}");
        for advice in &found {
            let text = format!("{} {} {}", advice.what, advice.why, advice.remedy.as_deref().unwrap_or_default());
            assert!(words.iter().all(|word| text.contains(word)), "row {number}: {words:?} in {text}");
        }
    }
}

#[test]
fn a_journal_of_this_user_alone_is_a_risk() {
    let found = of_surroundings(&Surroundings { journal: JournalKind::OfThisUser, ..surroundings() });
    assert_eq!((found.len(), found[0].severity, found[0].rule), (1, Severity::Risk, "journal-private"));
    let mut facts = quiet();
    facts.location = "file:///home/ann/lake/t".to_owned();
    let inside = Surroundings { journal_root: "/home/ann/lake/t/journal".to_owned(), ..surroundings() };
    assert_eq!(of_table(&inside, &facts)[0].rule, "journal-in-table");
}

#[tokio::test]
async fn the_worst_comes_first_and_nothing_is_changed() {
    let clock = Arc::new(ManualClock::starting_now(5));
    let catalog = Arc::new(FakeCatalog::new(clock.clone()));
    let table: TableName = "n.t".parse().unwrap();
    let _made = catalog.create(&table, small_table(&table, iceberg::spec::FormatVersion::V2)).await.unwrap();
    let coordinator =
        Coordinator::new(catalog.clone(), Arc::new(MemoryJournal::new()), clock.clone(), Owner("ann".to_owned()));
    let begin = BeginRequest {
        table: table.clone(),
        id: "late".parse().unwrap(),
        scope: None,
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    let _begun = coordinator.begin(&begin).await.unwrap();
    clock.advance_ms(8 * 86_400_000);
    let before = catalog.metadata_versions(&table).len();
    let request = DoctorRequest { journal: JournalKind::OfThisUser, ..DoctorRequest::default() };
    let report = coordinator.doctor(&request).await.unwrap();
    assert_eq!(catalog.metadata_versions(&table).len(), before);
    let rules: Vec<_> = report.findings.iter().map(|advice| advice.rule).collect();
    assert_eq!(rules, ["journal-private", "forgotten-branch", "snapshot-age"], "{}", report.text());
    assert_eq!(report.exit_code(), 0);
    for word in ["RISK", "WARNING", "note", "remedy: calve abandon n.t late", "looked at n.t"] {
        assert!(report.text().contains(word), "{word}: {}", report.text());
    }
    let fresh = DoctorRequest { older_than: Duration::days(9), ..DoctorRequest::default() };
    let report = coordinator.doctor(&fresh).await.unwrap();
    assert_eq!(report.findings.len(), 1, "{}", report.text());
    let unknown = DoctorRequest { table: Some("n.other".parse().unwrap()), ..DoctorRequest::default() };
    assert_eq!(coordinator.doctor(&unknown).await.unwrap_err().exit_code(), 13);
}
