//! Situations where main moved under a candidate: which may be reattached, which must be built again, and what is said.

use iceberg::TableUpdate;
use iceberg::spec::{Transform, UnboundPartitionSpec};

use crate::conflict::{Rule, Verdict, What};
use crate::coordinator::{BeginRequest, Coordinator, StageMode};
use crate::ids::SnapshotId;
use crate::publish::PublishOutcome;
use crate::publish::outcome::{ConflictClass, EXIT_REATTACH, EXIT_REBUILD};
use crate::report::{ConflictReport, PublishReport, Report};
use crate::testing::Bed;

/// Ids 1 to 3 on 8 August in main, and a coordinator.
async fn history(bed: &Bed) -> Coordinator {
    bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    bed.coordinator("ann")
}

fn conflict(report: &PublishReport) -> &ConflictReport {
    report.conflict.as_deref().unwrap_or_else(|| panic!("no conflict was found: {:?}", report.outcome))
}

fn class(report: &PublishReport) -> ConflictClass {
    match report.outcome {
        PublishOutcome::Conflict { class, .. } => class,
        ref other => panic!("no conflict: {other:?}"),
    }
}

/// Publishing and reconciling both say that it can be reattached.
async fn reattaches(bed: &Bed, calve: &Coordinator, id: &str) {
    let report = bed.publish(calve, id).await;
    assert_eq!(class(&report), ConflictClass::Reattach, "{:?}", report.conflict);
    assert_eq!((report.exit_code(), report.requests), (EXIT_REATTACH, 0));
    let found = bed.reconcile(calve, id).await;
    assert_eq!((found.row, found.exit_code()), (7, EXIT_REATTACH));
    assert!(found.conflict.is_some_and(|conflict| conflict.verdict.is_reattach()));
}

/// Publishing and reconciling both say that it must be built again, by this rule and for what this snapshot did.
async fn rebuilds(bed: &Bed, calve: &Coordinator, id: &str, rule: Rule, by: SnapshotId) -> PublishReport {
    let report = bed.publish(calve, id).await;
    assert_eq!(class(&report), ConflictClass::Rebuild, "{:?}", report.outcome);
    assert_eq!((report.exit_code(), report.requests), (EXIT_REBUILD, 0));
    let Verdict::Rebuild { reasons, .. } = &conflict(&report).verdict else { panic!("it is to be reattached") };
    let one = reasons.iter().find(|one| one.rule == rule).unwrap_or_else(|| panic!("no {rule:?} in {reasons:?}"));
    assert_eq!(one.by.as_ref().map(|author| author.snapshot), Some(by), "{one:?}");
    assert!(one.file.as_ref().is_some_and(|file| file.ends_with(".parquet")), "{one:?}");
    let text = conflict(&report).lines().join("\n");
    assert!(text.contains(&by.to_string()) && text.contains("it must be built again"), "{text}");
    let found = bed.reconcile(calve, id).await;
    assert_eq!((found.row, found.exit_code()), (7, EXIT_REBUILD));
    assert_eq!(found.conflict.map(|found| *found), report.conflict.clone().map(|found| *found));
    report
}

/// 10: the candidate appends, and so does another writer elsewhere.
pub async fn s10_appends_elsewhere(bed: Bed) {
    let calve = history(&bed).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    bed.validate(&calve, "p").await;
    bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    reattaches(&bed, &calve, "p").await;
    // It is said before anything is checked, too.
    let validated = bed.validate(&calve, "p").await;
    assert!(validated.base_moved && validated.conflict.is_some_and(|found| found.verdict.is_reattach()));
    assert_eq!(bed.ids().await, [1, 2, 3, 9]);
}

/// 11: the candidate replaces 9 August; another writer adds to 10 August, then to 9 August.
pub async fn s11_replaces_what_others_add_to(bed: Bed) {
    let calve = history(&bed).await;
    bed.engine().append("main", &[(9, 4, 40)]).await.expect("appended");
    bed.sealed(&calve, "p", 9, &[(9, 5, 50)]).await;
    bed.engine().append("main", &[(10, 8, 80)]).await.expect("appended");
    reattaches(&bed, &calve, "p").await;
    let other = bed.engine().append("main", &[(9, 9, 90)]).await.expect("appended");
    let report = rebuilds(&bed, &calve, "p", Rule::K2, other).await;
    let Verdict::Rebuild { reasons, undeclared } = &conflict(&report).verdict else { panic!("rebuilt") };
    let one = &reasons[0];
    assert_eq!((reasons.len(), undeclared, one.what, one.possible), (1, &false, What::Added, false));
    assert_eq!(one.partition.as_deref(), Some("day=2013-08-09"));
    assert_eq!(one.by.as_ref().map(|author| author.operation.as_str()), Some("append"));
    assert_eq!(conflict(&report).snapshots_between, 2);
}

/// 12: a file that the candidate removes was removed by another; that it wrote the same rows again changes nothing.
pub async fn s12_a_removed_file_is_gone(bed: Bed) {
    let calve = history(&bed).await;
    bed.sealed(&calve, "p", 8, &[(8, 5, 50)]).await;
    let other = bed.sealed(&calve, "rewritten", 8, &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await;
    let data = bed.observe().await.snapshots.get(&other).and_then(|seal| seal.parent).expect("a data snapshot");
    assert!(matches!(bed.publish(&calve, "rewritten").await.outcome, PublishOutcome::Published { .. }));
    rebuilds(&bed, &calve, "p", Rule::K3, data).await;
}

/// 20: the partition spec evolved from days to months, and files of either are compared with a scope of one day.
pub async fn s20_the_partition_spec_evolved(bed: Bed) {
    let calve = history(&bed).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    // Some catalogs ask for an id, and give their own.
    let months = UnboundPartitionSpec::builder().with_spec_id(1);
    let months = months.add_partition_field(1, "month", Transform::Month).expect("a field").build();
    bed.engine().update(vec![TableUpdate::AddSpec { spec: months }, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
    // 9 September.
    bed.engine().append("main", &[(40, 8, 80)]).await.expect("appended");
    reattaches(&bed, &calve, "p").await;
    let other = bed.engine().append("main", &[(9, 9, 90)]).await.expect("appended");
    rebuilds(&bed, &calve, "p", Rule::K2, other).await;
}

/// 30: a job read 8 August to repair 9 August, and 8 August changed: declared, and not declared.
pub async fn s30_what_the_job_read(bed: Bed) {
    let calve = history(&bed).await;
    for (id, reads) in [("declared", Some("day = '2013-08-08'")), ("scope", Some("scope")), ("silent", None)] {
        let request = BeginRequest {
            table: bed.table.clone(),
            id: bed.id(id),
            scope: Some("day = '2013-08-09'".to_owned()),
            reads: reads.map(str::to_owned),
            code: None,
            sources: Vec::new(),
            lease: None,
        };
        calve.begin(&request).await.expect("begun");
        bed.engine().append(&format!("audit/{id}"), &[(9, 4, 40)]).await.expect("appended");
        assert!(bed.validate(&calve, id).await.passed);
    }
    bed.engine().append("main", &[(10, 8, 80)]).await.expect("appended");
    reattaches(&bed, &calve, "declared").await;
    let other = bed.engine().append("main", &[(8, 9, 90)]).await.expect("appended");
    rebuilds(&bed, &calve, "declared", Rule::K2, other).await;
    reattaches(&bed, &calve, "scope").await;
    let report = rebuilds(&bed, &calve, "silent", Rule::K2, other).await;
    let text = conflict(&report).lines().join("\n");
    assert!(text.contains("--reads scope"), "{text}");
}
