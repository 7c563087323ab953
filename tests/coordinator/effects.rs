//! Each commit's effect on the table, exactly, on every format version and both catalogs.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve::contract::Contract;
use calve::coordinator::{BeginRequest, StageMode, ValidateRequest};
use calve::data::NoProgress;
use calve::digest::Digest;
use calve::ids::{RefName, SnapshotId};
use calve::journal::record::Source;
use calve::observed::{Observed, RefKind, Role, summary};
use calve::publish::PublishOutcome;
use calve::publish::outcome::{EXIT_DONE, Via};
use calve::publish::reconcile::{State, Visibility};
use calve::report::Report;
use calve::testing::{Bed, KINDS, Kind};
use iceberg::TableUpdate;
use iceberg::spec::{PartitionStatisticsFile, StatisticsFile};

use crate::support::{Altered, calve_keys, changed, load, no_shared_list, refs, tree};

const KEPT_MAIN: RefKind =
    RefKind::Branch { min_snapshots_to_keep: Some(4), max_snapshot_age_ms: Some(7_000_000), max_ref_age_ms: None };

/// The next sequence number, 0 on format version 1.
fn next_number(observed: &Observed) -> i64 {
    if observed.format_version == 1 { 0 } else { observed.last_sequence_number + 1 }
}

/// A snapshot with the live files of another, in a list of its own: a marker or a seal.
async fn is_copy(bed: &Bed, before: &Observed, copy: SnapshotId, of: Option<SnapshotId>) {
    let table = load(bed).await;
    let snapshot = table.metadata.snapshot_by_id(copy.0).expect("added");
    assert_eq!(snapshot.parent_snapshot_id(), of.map(|of| of.0));
    assert_eq!(snapshot.summary().operation.as_str(), "replace");
    assert_eq!(snapshot.sequence_number(), next_number(before));
    let empty = calve::identity::tree_digest(&[]);
    let expected = match of {
        Some(of) => tree(&table, of).await,
        None => empty,
    };
    assert_eq!(tree(&table, copy).await, expected, "the same live files");
    if before.format_version == 3 {
        let (first, added) = snapshot.row_range().expect("row lineage");
        assert_eq!(added, 0);
        assert_eq!(first, table.metadata.next_row_id(), "no row id was given away");
    }
    no_shared_list(&table);
}

async fn story(kind: Kind, version: u8) {
    println!("{kind:?} v{version}");
    let bed = Bed::with_version(kind, version).await;
    let base = bed.engine().append("main", &[(8, 1, 10), (8, 2, 20)]).await.expect("appended");
    bed.engine().set_retention(RefName::main(), KEPT_MAIN).await;
    // What is not ours must stay as it is.
    bed.engine().append("dev", &[(1, 50, 0)]).await.expect("a branch");
    bed.engine().tag(RefName("eoy".to_owned()), base).await;
    let calve = bed.coordinator("ann");
    let id = bed.id("p");

    // BEGIN.
    let (before, refs_before) = (bed.observe().await, refs(&bed).await);
    let request = BeginRequest {
        table: bed.table.clone(),
        id: id.clone(),
        scope: Some("day = '2013-08-09'".to_owned()),
        reads: Some("scope".to_owned()),
        code: Some("abc123".to_owned()),
        sources: vec![Source { name: "orders".to_owned(), revision: "42".to_owned() }],
        lease: None,
    };
    let begun = calve.begin(&request).await.expect("begun");
    is_copy(&bed, &before, begun.marker, Some(base)).await;
    assert_eq!(begun.base, Some(base));
    let refs_begun = refs(&bed).await;
    assert_eq!(changed(&refs_before, &refs_begun), BTreeSet::from(["audit/p".to_owned()]));
    assert_eq!(refs_begun[&id.audit_ref()].snapshot, begun.marker);
    assert_eq!(refs_begun[&id.audit_ref()].kind, RefKind::KEPT_BRANCH);
    let marker = calve_keys(&load(&bed).await, begun.marker);
    let text = |value: &dyn ToString| value.to_string();
    for (key, value) in [
        (summary::PUBLISH_ID, "p".to_owned()),
        (summary::INCARNATION, text(&begun.incarnation)),
        (summary::OWNER, "ann".to_owned()),
        (summary::CODE, "abc123".to_owned()),
        (summary::BASE, text(&base)),
        (summary::JOURNAL, bed.journal.root()),
        ("calve.source.orders", "42".to_owned()),
    ] {
        assert_eq!(marker.get(key), Some(&value), "{key}");
    }
    assert_eq!(marker.get(summary::READS), marker.get(summary::SCOPE), "`scope` was declared as read");
    assert_eq!(marker.len(), 9, "{marker:?}");

    // STAGE: append, then replace.
    bed.stage(&calve, "p", StageMode::Append, &[(9, 3, 30), (9, 4, 40)]).await;
    let staged = bed.stage(&calve, "p", StageMode::Replace, &[(9, 5, 50), (9, 6, 60)]).await;
    assert_eq!((staged.rows_added, staged.rows_removed), (2, 2));
    let data = staged.snapshot;
    assert_eq!(bed.ids_at(data).await, [1, 2, 5, 6]);
    assert_eq!(refs(&bed).await[&id.audit_ref()].kind, RefKind::KEPT_BRANCH);
    let keys: Vec<_> = calve_keys(&load(&bed).await, data).into_keys().collect();
    assert_eq!(keys, [summary::INCARNATION, summary::PUBLISH_ID]);

    // SEAL, twice; statistics of S belong to K too.
    statistics(&bed, data).await;
    let before = bed.observe().await;
    let first = bed.validate(&calve, "p").await.seal.expect("sealed");
    is_copy(&bed, &before, first, Some(data)).await;
    let before = bed.observe().await;
    let report = bed.validate(&calve, "p").await;
    let seal = report.seal.expect("sealed again");
    is_copy(&bed, &before, seal, Some(data)).await;
    let table = load(&bed).await;
    for carried in [first, seal] {
        let of_data = table.metadata.statistics_for_snapshot(data.0).expect("statistics");
        let of_seal = table.metadata.statistics_for_snapshot(carried.0).expect("carried over");
        assert_eq!(of_seal.statistics_path, of_data.statistics_path);
        let partitions = table.metadata.partition_statistics_for_snapshot(carried.0).expect("carried over");
        assert_eq!(partitions.statistics_path, "partitions.parquet");
    }
    let sealed = calve_keys(&table, seal);
    for (key, value) in [
        (summary::PUBLISH_ID, "p".to_owned()),
        (summary::INCARNATION, text(&begun.incarnation)),
        (summary::CANDIDATE, text(&report.candidate.expect("a candidate"))),
        (summary::TREE, text(&tree(&table, data).await)),
        (summary::BASE, text(&base)),
        (summary::SCOPE, marker[summary::SCOPE].clone()),
        (summary::CODE, "abc123".to_owned()),
        ("calve.source.orders", "42".to_owned()),
        (summary::CONTRACT, text(&calve::testing::contract().digest())),
        (summary::VERDICT, "pass".to_owned()),
        ("calve.check.keys", "pass".to_owned()),
        ("calve.check.scope", "pass".to_owned()),
        (summary::STATEMENT_DIGEST, text(&report.statement.expect("a statement"))),
        (summary::REPLACES, text(&first)),
    ] {
        assert_eq!(sealed.get(key), Some(&value), "{key}");
    }
    for key in [summary::CHANGE, summary::DEFINITION] {
        assert!(sealed[key].parse::<Digest>().is_ok(), "{key}");
    }
    assert_eq!(sealed.get(summary::STATEMENT), report.statement_location.as_ref());
    assert!(!calve_keys(&table, first).contains_key(summary::REPLACES));
    assert_eq!(changed(&refs_begun, &refs(&bed).await), BTreeSet::from(["audit/p".to_owned()]));
    assert_eq!(refs(&bed).await[&id.audit_ref()].kind, RefKind::KEPT_BRANCH);

    // PUBLISH.
    let report = bed.publish(&calve, "p").await;
    assert!(
        matches!(report.outcome, PublishOutcome::Published { via: Via::Direct, sealed: true, .. }),
        "{:?}",
        report.outcome
    );
    assert_eq!(report.warnings, Vec::<String>::new());
    let after = refs(&bed).await;
    assert_eq!(
        changed(&refs_begun, &after),
        ["audit/p", "main", "published/p"].map(str::to_owned).into(),
        "I11: no unrelated ref is changed"
    );
    assert_eq!((after[&RefName::main()].snapshot, &after[&RefName::main()].kind), (seal, &KEPT_MAIN));
    assert_eq!(after[&id.published_ref()].snapshot, seal);
    assert_eq!(after[&id.audit_ref()].snapshot, base);
    assert_eq!(after[&id.published_ref()].kind, RefKind::KEPT_TAG);
    assert_eq!(after[&id.audit_ref()].kind, RefKind::KEPT_TAG);
    assert!(bed.observe().await.ancestry(seal).any(|ancestor| ancestor == base), "I7");
    assert_eq!(bed.ids().await, [1, 2, 5, 6]);

    // Superseded, and told so.
    bed.engine().append("main", &[(10, 7, 70)]).await.expect("appended");
    let found = bed.reconcile(&calve, "p").await;
    let State::Published { snapshot, sealed: true, visibility: Visibility::Superseded } = found.finding.state else {
        panic!("{:?}", found.finding)
    };
    assert_eq!((snapshot, found.exit_code()), (seal, EXIT_DONE));
    assert_eq!(bed.ids().await, [1, 2, 5, 6, 7]);
    no_shared_list(&load(&bed).await);

    // FENCE of a branch.
    let before = refs(&bed).await;
    bed.begin(&calve, "q", "true").await;
    let staged = bed.stage(&calve, "q", StageMode::Append, &[(11, 8, 80)]).await.snapshot;
    let main = bed.main().await;
    bed.abandon(&calve, "q").await.expect("fenced");
    let after = refs(&bed).await;
    assert_eq!(changed(&before, &after), ["audit/q", "closed/q"].map(str::to_owned).into());
    assert_eq!(after[&bed.id("q").closed_ref()].snapshot, staged);
    assert_eq!(Some(after[&bed.id("q").audit_ref()].snapshot), main);
    assert_eq!(after[&bed.id("q").closed_ref()].kind, RefKind::KEPT_TAG);
    assert_eq!(after[&bed.id("q").audit_ref()].kind, RefKind::KEPT_TAG);

    // FENCE of a branch that is gone.
    bed.begin(&calve, "r", "true").await;
    bed.engine().remove_ref(bed.id("r").audit_ref()).await;
    let found = bed.reconcile(&calve, "r").await;
    assert_eq!((found.row, found.exit_code()), (11, 21));
    assert_eq!(bed.abandon(&calve, "r").await.expect("fenced").finding.state, State::Closed);
    let after = refs(&bed).await;
    for name in [bed.id("r").closed_ref(), bed.id("r").audit_ref()] {
        assert_eq!((Some(after[&name].snapshot), &after[&name].kind), (main, &RefKind::KEPT_TAG));
    }
    assert_eq!(bed.ids().await, [1, 2, 5, 6, 7]);
}

async fn statistics(bed: &Bed, data: SnapshotId) {
    let file = StatisticsFile {
        snapshot_id: data.0,
        statistics_path: "statistics.puffin".to_owned(),
        file_size_in_bytes: 10,
        file_footer_size_in_bytes: 5,
        key_metadata: None,
        blob_metadata: Vec::new(),
    };
    let partitions = PartitionStatisticsFile {
        snapshot_id: data.0,
        statistics_path: "partitions.parquet".to_owned(),
        file_size_in_bytes: 20,
    };
    let updates = vec![
        TableUpdate::SetStatistics { statistics: file },
        TableUpdate::SetPartitionStatistics { partition_statistics: partitions },
    ];
    bed.engine().update(updates).await;
}

#[tokio::test]
async fn the_whole_story_on_version_1() {
    for kind in KINDS {
        story(kind, 1).await;
    }
}

#[tokio::test]
async fn the_whole_story_on_version_2() {
    for kind in KINDS {
        story(kind, 2).await;
    }
}

#[tokio::test]
async fn the_whole_story_on_version_3() {
    for kind in KINDS {
        story(kind, 3).await;
    }
}

/// The first commit of a table, and the third form of the fence: neither branch nor main.
#[tokio::test]
async fn a_table_without_any_snapshot() {
    for kind in KINDS {
        for version in [1, 2, 3] {
            println!("{kind:?} v{version}");
            let bed = Bed::with_version(kind, version).await;
            let calve = bed.coordinator("ann");
            let before = bed.observe().await;
            let begun = bed.begin(&calve, "gone", "true").await;
            assert_eq!(begun.base, None);
            is_copy(&bed, &before, begun.marker, None).await;
            assert_eq!(calve_keys(&load(&bed).await, begun.marker)[summary::BASE], "none");
            bed.engine().remove_ref(bed.id("gone").audit_ref()).await;
            assert_eq!(bed.main().await, None);
            assert_eq!(bed.abandon(&calve, "gone").await.expect("fenced").finding.state, State::Closed);
            let after = refs(&bed).await;
            assert_eq!(after.len(), 2, "{after:?}");
            let root = after[&bed.id("gone").closed_ref()].snapshot;
            assert_eq!(after[&bed.id("gone").audit_ref()].snapshot, root);
            assert_eq!(bed.observe().await.role(root), Role::Other, "an empty snapshot of nobody");
            assert_eq!(bed.ids_at(root).await, Vec::<i64>::new());

            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            let marker = bed.observe().await.ancestry(seal).last().expect("the root");
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), EXIT_DONE);
            let after = refs(&bed).await;
            assert_eq!(after[&RefName::main()].snapshot, seal);
            assert_eq!(after[&bed.id("p").audit_ref()].snapshot, marker, "the tombstone stands on B");
            assert_eq!(bed.ids().await, [4]);
            no_shared_list(&load(&bed).await);
        }
    }
}

/// Thirty checks with names of 40 characters, long scope, code and sources: the seal stays under 2 KB, and says how many
/// passed. What is left out stands in the statement.
#[tokio::test]
async fn the_seal_stays_small() {
    let bed = Bed::new(Kind::Fake).await;
    bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
    let calve = bed.coordinator("ann");
    let scope = (0..60).map(|n| format!("id = {}", 1_000 + n)).chain(["day = '2013-08-09'".to_owned()]);
    let sources = (0..20).map(|n| Source { name: format!("source-{n}"), revision: "r".repeat(300) });
    let request = BeginRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        scope: Some(scope.collect::<Vec<_>>().join(" OR ")),
        reads: None,
        code: Some("c".repeat(1_000)),
        sources: sources.collect(),
        lease: None,
    };
    let begun = calve.begin(&request).await.expect("begun");
    let marker = calve_keys(&load(&bed).await, begun.marker);
    assert!(marker.values().all(|value| value.len() <= 256), "long values stand by digest: {marker:?}");
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let mut text = "version = 1\n".to_owned();
    for n in 0..30 {
        text.push_str(&format!("[[check]]\nname = \"{:-<40}\"\nkind = \"scope\"\n", format!("check{n}")));
    }
    let contract = Contract::parse(&text, "thirty.toml").expect("a contract");
    let request = ValidateRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        contract: contract.clone(),
        sources_root: ".".into(),
        dry_run: false,
    };
    let report = calve.validate(&request, Arc::new(NoProgress)).await.expect("validated");
    let seal = report.seal.unwrap_or_else(|| panic!("{:?}", report.reasons));
    let keys = calve_keys(&load(&bed).await, seal);
    let size: usize = keys.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(size < 2_048, "{size}");
    assert!(keys["calve.check.all"].contains("passed"), "{keys:?}");
    let published = calve.publish(&bed.table, &bed.id("p"), &contract).await.expect("an outcome");
    assert_eq!(published.exit_code(), EXIT_DONE, "{:?}", published.outcome);
}

/// A catalog that does not keep main's retention is reported; the outcome stays what it is.
#[tokio::test]
async fn a_lost_retention_of_main_is_reported() {
    let bed = Bed::new(Kind::Fake).await;
    bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
    bed.engine().set_retention(RefName::main(), KEPT_MAIN).await;
    bed.sealed(&bed.coordinator("ann"), "p", 9, &[(9, 4, 40)]).await;
    let forgetful = Altered {
        inner: bed.catalog.clone(),
        body: true,
        stale: false,
        alter: |mut commit| {
            for update in &mut commit.updates {
                if let TableUpdate::SetSnapshotRef { ref_name, reference } = update
                    && ref_name == "main"
                {
                    let none = RefKind::Branch {
                        min_snapshots_to_keep: None,
                        max_snapshot_age_ms: None,
                        max_ref_age_ms: None,
                    };
                    reference.retention = none.to_iceberg();
                }
            }
            commit
        },
    };
    let report = bed.publish(&forgetful.coordinator(&bed), "p").await;
    assert_eq!(report.exit_code(), EXIT_DONE);
    assert!(report.warnings.iter().any(|warning| warning.contains("retention of main")), "{:?}", report.warnings);
}

/// SETTLE leaves the receipt on the newest own snapshot that main reached, and the tombstone on N.
#[tokio::test]
async fn settle_leaves_a_receipt() {
    for kind in KINDS {
        for version in [1, 2, 3] {
            let bed = Bed::with_version(kind, version).await;
            let base = bed.engine().append("main", &[(8, 1, 10)]).await.expect("appended");
            let calve = bed.coordinator("ann");
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            let data = bed.observe().await.snapshots[&seal].parent.expect("S");
            bed.engine().move_branch("main", data).await;
            let before = refs(&bed).await;
            let found = bed.reconcile(&calve, "p").await;
            assert!(matches!(found.finding.state, State::Bypassed { sealed: true, .. }), "{:?}", found.finding);
            assert!(found.settled, "{:?}", found.warnings);
            let after = refs(&bed).await;
            assert_eq!(changed(&before, &after), ["audit/p", "published/p"].map(str::to_owned).into());
            assert_eq!(after[&bed.id("p").published_ref()].snapshot, data);
            assert_eq!(after[&bed.id("p").published_ref()].kind, RefKind::KEPT_TAG);
            assert_eq!(after[&bed.id("p").audit_ref()].snapshot, base);
            assert_eq!(bed.main().await, Some(data), "main is the engine's to move");
        }
    }
}

/// A table that is upgraded to format version 3 while it has data, before a candidate is begun and while one is open: the
/// marker's or seal's own list gives the rows their ids.
#[tokio::test]
async fn upgraded_to_version_3() {
    for kind in KINDS {
        for from in [1, 2] {
            let bed = Bed::with_version(kind, from).await;
            bed.engine().append("main", &[(8, 1, 10), (8, 2, 20)]).await.expect("appended");
            let calve = bed.coordinator("ann");
            bed.begin(&calve, "early", "day = '2013-08-09'").await;
            let staged = bed.stage(&calve, "early", StageMode::Append, &[(9, 3, 30)]).await.snapshot;
            let format_version = iceberg::spec::FormatVersion::V3;
            bed.engine().update(vec![TableUpdate::UpgradeFormatVersion { format_version }]).await;

            let begun = bed.begin(&calve, "late", "day = '2013-08-10'").await;
            let table = load(&bed).await;
            let added = |id: SnapshotId| table.metadata.snapshot_by_id(id.0).and_then(|s| s.row_range());
            assert_eq!(added(begun.marker), Some((0, 2)), "the rows of main get their ids");
            let report = bed.validate(&calve, "early").await;
            let seal = report.seal.unwrap_or_else(|| panic!("{:?}", report.reasons));
            let table = load(&bed).await;
            assert_eq!(table.metadata.snapshot_by_id(seal.0).and_then(|s| s.row_range()), Some((2, 3)));
            assert_eq!(tree(&table, seal).await, tree(&table, staged).await);
            assert_eq!(bed.publish(&calve, "early").await.exit_code(), EXIT_DONE);
            assert_eq!(bed.ids().await, [1, 2, 3]);
            bed.abandon(&calve, "late").await.expect("fenced");
            no_shared_list(&load(&bed).await);
        }
    }
}
