//! The bodies of commits, against the schemas of the REST specification.

use std::collections::HashMap;

use iceberg::spec::{FormatVersion, Operation, Snapshot, StatisticsFile, Summary};
use iceberg::{TableRequirement, TableUpdate};
use serde_json::json;

use crate::catalog::Commit;
use crate::catalog::conformance::{require, set};
use crate::catalog::rest::tables::to_json;
use crate::catalog::rest::wire::{CommitRequest, ConfigResponse, LoadTableResponse, StorageCredential, error_of};
use crate::clock::{Clock, ManualClock};
use crate::ids::SnapshotId;
use crate::observed::RefKind;

fn snapshot(version: FormatVersion) -> Snapshot {
    let builder = Snapshot::builder()
        .with_snapshot_id(9_007_199_254_740_993)
        .with_parent_snapshot_id(Some(5))
        .with_sequence_number(7)
        .with_timestamp_ms(1_700_000_000_000)
        .with_manifest_list("s3://lake/n/t/metadata/snap-1.avro")
        .with_summary(Summary {
            operation: Operation::Replace,
            additional_properties: HashMap::from([("calve.publish-id".to_owned(), "x".to_owned())]),
        })
        .with_schema_id(0);
    match version {
        FormatVersion::V1 | FormatVersion::V2 => builder.build(),
        FormatVersion::V3 => builder.with_row_range(42, 0).build(),
    }
}

#[test]
fn a_commit_is_written_as_the_specification_says() {
    let uuid = uuid::Uuid::from_u128(1);
    let branch = RefKind::Branch { min_snapshots_to_keep: Some(1), max_snapshot_age_ms: Some(2), max_ref_age_ms: None };
    let statistics = StatisticsFile {
        snapshot_id: 5,
        statistics_path: "s3://lake/s.puffin".to_owned(),
        file_size_in_bytes: 1,
        file_footer_size_in_bytes: 1,
        key_metadata: None,
        blob_metadata: vec![],
    };
    let commit = Commit {
        table: "a.b.t".parse().unwrap(),
        requirements: vec![
            TableRequirement::NotExist,
            TableRequirement::UuidMatch { uuid },
            require("main", Some(SnapshotId(9_007_199_254_740_993))),
            require("audit/x", None),
            TableRequirement::CurrentSchemaIdMatch { current_schema_id: 3 },
            TableRequirement::DefaultSpecIdMatch { default_spec_id: 0 },
        ],
        updates: vec![
            TableUpdate::AddSnapshot { snapshot: snapshot(FormatVersion::V2) },
            TableUpdate::AddSnapshot { snapshot: snapshot(FormatVersion::V3) },
            set("main", SnapshotId(5), &branch),
            set("published/x", SnapshotId(5), &RefKind::KEPT_TAG),
            TableUpdate::RemoveSnapshotRef { ref_name: "audit/x".to_owned() },
            TableUpdate::RemoveSnapshots { snapshot_ids: vec![1] },
            TableUpdate::SetStatistics { statistics },
        ],
        key: ManualClock::starting_now(1).fresh_key(),
    };
    let body: serde_json::Value = serde_json::from_slice(&to_json(&CommitRequest::from(&commit)).unwrap()).unwrap();
    let added = |more: serde_json::Value| {
        let mut snapshot = json!({
            "snapshot-id": 9_007_199_254_740_993_i64, "parent-snapshot-id": 5, "sequence-number": 7,
            "timestamp-ms": 1_700_000_000_000_i64, "manifest-list": "s3://lake/n/t/metadata/snap-1.avro",
            "summary": {"operation": "replace", "calve.publish-id": "x"}, "schema-id": 0,
        });
        snapshot.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"action": "add-snapshot", "snapshot": snapshot})
    };
    assert_eq!(
        body,
        json!({
            "identifier": {"namespace": ["a", "b"], "name": "t"},
            "requirements": [
                {"type": "assert-create"},
                {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000001"},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 9_007_199_254_740_993_i64},
                {"type": "assert-ref-snapshot-id", "ref": "audit/x", "snapshot-id": null},
                {"type": "assert-current-schema-id", "current-schema-id": 3},
                {"type": "assert-default-spec-id", "default-spec-id": 0},
            ],
            "updates": [
                added(json!({})),
                added(json!({"first-row-id": 42, "added-rows": 0})),
                {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 5, "type": "branch",
                 "min-snapshots-to-keep": 1, "max-snapshot-age-ms": 2},
                {"action": "set-snapshot-ref", "ref-name": "published/x", "snapshot-id": 5, "type": "tag",
                 "max-ref-age-ms": i64::MAX},
                {"action": "remove-snapshot-ref", "ref-name": "audit/x"},
                {"action": "remove-snapshots", "snapshot-ids": [1]},
                {"action": "set-statistics", "snapshot-id": 5, "statistics": {
                    "snapshot-id": 5, "statistics-path": "s3://lake/s.puffin", "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1, "blob-metadata": []}},
            ],
        })
    );
}

#[test]
fn answers_may_hold_more_and_less_than_is_read() {
    let config: ConfigResponse =
        serde_json::from_value(json!({"defaults": {"a": "1", "b": null}, "extra": 1})).unwrap();
    assert!(config.is_one() && config.defaults().get("a") == Some("1") && config.defaults().get("b").is_none());
    let config: ConfigResponse = serde_json::from_value(json!({"extra": 1})).unwrap();
    assert!(!config.is_one());
    let load: LoadTableResponse = serde_json::from_value(json!({"metadata": {}, "config": null})).unwrap();
    assert_eq!((load.metadata_location.clone(), load.config().iter().count()), (None, 0));
    let credential: StorageCredential =
        serde_json::from_value(json!({"prefix": "s3://b", "config": {"s3.secret-access-key": "secretword"}})).unwrap();
    assert!(!format!("{credential:?}").contains("secretword"));
}

#[test]
fn errors_are_those_of_the_error_model_alone() {
    let error = error_of(br#"{"error": {"message": "m", "type": "T", "code": 409, "stack": ["x"]}}"#).unwrap();
    assert_eq!((error.message.as_str(), error.kind.as_str()), ("m", "T"));
    for other in ["", "{", "[]", "\"error\"", r#"{"message": "m"}"#, r#"{"error": "invalid_client"}"#] {
        assert!(error_of(other.as_bytes()).is_none(), "{other}");
    }
}
