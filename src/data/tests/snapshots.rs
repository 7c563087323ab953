use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{FormatVersion, ManifestStatus, NestedField, Operation, PrimitiveType, Schema, Type};

use super::VERSIONS;
use crate::clock::Clock;
use crate::data::snapshot::{DataChange, RemovedFile, copy_snapshot, prepare};
use crate::data::testkit::{Bed, summary_of};
use crate::data::write::{Staged, append};
use crate::data::{DataError, NoProgress};
use crate::ids::SnapshotId;

fn schema() -> Schema {
    Schema::builder()
        .with_fields(vec![
            Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
            Arc::new(NestedField::optional(2, "region", Type::Primitive(PrimitiveType::String))),
        ])
        .build()
        .unwrap()
}

async fn stage(bed: &Bed, csv: &str) -> Staged {
    let input = bed.file("in.csv", format!("id,region\n{csv}"));
    append(&bed.table, &[input], &bed.clock, &NoProgress).await.unwrap()
}

async fn copy(bed: &Bed, of: Option<SnapshotId>, parent: Option<SnapshotId>) -> iceberg::spec::Snapshot {
    let summary = BTreeMap::from([("calve.owner".to_owned(), "me".to_owned())]);
    let (id, now) = (bed.clock.fresh_snapshot_id(), bed.clock.now().timestamp_millis());
    copy_snapshot(&bed.table, of, parent, id, now, summary, bed.clock.fresh_uuid()).await.unwrap()
}

#[tokio::test]
async fn totals_follow_appends_and_removals() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, schema(), "region", &[]);
        let first = stage(&bed, "1,a\n2,a\n3,b\n").await;
        let one = bed.commit_staged(&first).await;
        assert_eq!(one.summary().operation, Operation::Append);
        let summary = summary_of(&one);
        assert_eq!(summary["added-data-files"], "2");
        assert_eq!(summary["added-records"], "3");
        assert_eq!(summary["changed-partition-count"], "2");
        assert_eq!(summary["total-records"], "3");
        assert_eq!(summary["total-delete-files"], "0");
        assert_eq!(summary["added-files-size"], summary["total-files-size"]);
        assert!(!summary.contains_key("deleted-data-files"));

        let second = stage(&bed, "4,c\n").await;
        let gone = first.added.iter().find(|new| new.file.record_count() == 2).unwrap();
        let change = DataChange {
            removed: vec![RemovedFile { path: gone.file.file_path().to_owned(), content_offset: None }],
            ..second.change()
        };
        let two = bed.commit(&change).await;
        assert_eq!(two.summary().operation, Operation::Overwrite);
        let summary = summary_of(&two);
        assert_eq!(summary["deleted-records"], "2");
        assert_eq!(summary["deleted-data-files"], "1");
        assert_eq!(summary["total-records"], "2");
        assert_eq!(summary["total-data-files"], "2");
        assert_eq!(bed.rows(bed.head).await, ["3|b", "4|c"], "{version}");
        assert_eq!(two.sequence_number(), if version == FormatVersion::V1 { 0 } else { 2 });
        assert_eq!(two.schema_id(), Some(0));

        let rest: Vec<_> = second.added.iter().chain(first.added.iter().filter(|new| *new != gone)).collect();
        let removed = rest
            .iter()
            .map(|new| RemovedFile { path: new.file.file_path().to_owned(), content_offset: None })
            .collect();
        let three = bed.commit(&DataChange { added: vec![], removed }).await;
        assert_eq!(three.summary().operation, Operation::Delete);
        assert_eq!(summary_of(&three)["total-files-size"], "0");
        assert!(bed.rows(bed.head).await.is_empty());
    }
}

#[tokio::test]
async fn totals_are_counted_where_the_parent_states_none_that_fit() {
    for lie in [None, Some("1")] {
        let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
        let first = stage(&bed, "1,a\n2,a\n3,b\n").await;
        let honest = bed.commit_staged(&first).await;
        let mut summary = honest.summary().clone();
        match lie {
            None => summary.additional_properties.retain(|key, _| !key.starts_with("total-")),
            Some(lie) => summary.additional_properties.extend([("total-records".to_owned(), lie.to_owned())]),
        }
        let mut json = serde_json::to_value(bed.table.metadata.as_ref()).unwrap();
        json["snapshots"][0]["summary"] = serde_json::to_value(&summary).unwrap();
        bed.table.metadata = Arc::new(serde_json::from_value(json).unwrap());
        let removed = vec![RemovedFile { path: first.added[0].file.file_path().to_owned(), content_offset: None }];
        let after = bed.commit(&DataChange { added: stage(&bed, "4,c\n").await.change().added, removed }).await;
        assert_eq!(summary_of(&after)["total-records"], "1", "{lie:?}");
        assert_eq!(summary_of(&after)["total-data-files"], "1");
    }
}

#[tokio::test]
async fn a_copy_has_the_same_files_in_a_list_of_its_own() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, schema(), "region", &[]);
        let first = stage(&bed, "1,a\n3,b\n").await;
        let source = bed.commit_staged(&first).await;
        let of = bed.head;
        let next_row_id = bed.table.metadata.next_row_id();
        let copied = copy(&bed, of, of).await;
        assert_eq!(copied.summary().operation, Operation::Replace);
        assert_ne!(copied.manifest_list(), source.manifest_list());
        assert_eq!(copied.parent_snapshot_id(), of.map(|of| of.0));
        bed.adopt(&copied);
        let (ours, theirs) = (bed.manifests(bed.head).await, bed.manifests(of).await);
        assert_eq!(ours, theirs, "{version}");
        let summary = summary_of(&copied);
        assert_eq!(summary["calve.owner"], "me");
        assert_eq!(summary["total-records"], "2");
        assert_eq!(summary["changed-partition-count"], "0");
        assert!(!summary.contains_key("added-records"));
        let rows = copied.row_range();
        assert_eq!(rows, (version == FormatVersion::V3).then_some((next_row_id, 0)));
        // Both lists, and nothing else, stand beside the manifests.
        std::fs::remove_file(source.manifest_list()).unwrap();
        assert_eq!(bed.rows(bed.head).await, ["1|a", "3|b"], "the copy needs nothing of the other's list");
    }
}

#[tokio::test]
async fn a_copy_of_nothing_is_an_empty_root() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, schema(), "", &[]);
        let root = copy(&bed, None, None).await;
        assert_eq!(root.parent_snapshot_id(), None);
        assert_eq!(summary_of(&root)["total-records"], "0");
        bed.adopt(&root);
        assert!(bed.manifests(bed.head).await.is_empty());
        let staged = stage(&bed, "1,a\n").await;
        bed.commit_staged(&staged).await;
        assert_eq!(bed.rows(bed.head).await, ["1|a"]);
    }
}

#[tokio::test]
async fn files_that_stay_keep_their_numbers_when_their_manifest_is_rewritten() {
    for version in [FormatVersion::V2, FormatVersion::V3] {
        let mut bed = Bed::new(version, schema(), "region", &[]);
        let first = stage(&bed, "1,a\n2,a\n3,b\n4,c\n").await;
        let one = bed.commit_staged(&first).await;
        let marker = copy(&bed, bed.head, bed.head).await;
        bed.adopt(&marker);
        let before = bed.manifests(bed.head).await;
        let row_ids: BTreeMap<String, Option<i64>> = before
            .iter()
            .flat_map(|(manifest, content)| {
                let ids = crate::data::snapshot::first_row_ids(manifest, content.entries());
                let paths: Vec<_> = content.entries().iter().map(|entry| entry.file_path().to_owned()).collect();
                paths.into_iter().zip(ids)
            })
            .collect();
        let gone = first.added[1].file.file_path().to_owned();
        let next_row_id = bed.table.metadata.next_row_id();
        let removed = vec![RemovedFile { path: gone.clone(), content_offset: None }];
        let snapshot = bed.commit(&DataChange { added: vec![], removed }).await;
        let after = bed.manifests(bed.head).await;
        let [(manifest, content)] = after.as_slice() else { panic!("one manifest was rewritten") };
        assert_eq!(manifest.added_snapshot_id, snapshot.snapshot_id());
        assert_eq!(manifest.sequence_number, 3);
        assert_eq!(manifest.min_sequence_number, 1);
        for entry in content.entries() {
            assert_eq!(entry.sequence_number(), Some(1));
            assert_eq!(entry.file_sequence_number, Some(1));
            if entry.file_path() == gone {
                assert_eq!(entry.status(), ManifestStatus::Deleted);
                assert_eq!(entry.snapshot_id(), Some(snapshot.snapshot_id()));
            } else {
                assert_eq!(entry.status(), ManifestStatus::Existing);
                assert_eq!(entry.snapshot_id(), Some(one.snapshot_id()));
            }
            assert_eq!(entry.data_file().first_row_id(), row_ids[entry.file_path()], "{version}");
        }
        if version == FormatVersion::V3 {
            assert_eq!(row_ids.values().flatten().count(), 3);
            assert_eq!(snapshot.row_range(), Some((next_row_id, 0)), "no row got a new id");
        }
        // The entry deleted once is not told again.
        let other = first.added[0].file.file_path().to_owned();
        bed.commit(&DataChange { added: vec![], removed: vec![RemovedFile { path: other, content_offset: None }] })
            .await;
        let told: usize = bed.manifests(bed.head).await.iter().map(|(_, content)| content.entries().len()).sum();
        assert_eq!(told, 2);
    }
}

#[tokio::test]
async fn only_the_list_is_made_again_when_the_table_moved() {
    for version in VERSIONS {
        let mut bed = Bed::new(version, schema(), "region", &[]);
        let start = stage(&bed, "1,a\n").await;
        bed.commit_staged(&start).await;
        let (parent, staged) = (bed.head, stage(&bed, "2,a\n5,b\n").await);
        let id = bed.clock.fresh_snapshot_id();
        let prepared = prepare(&bed.table, parent, &staged.change(), id, bed.clock.fresh_uuid()).await.unwrap();
        let now = bed.clock.now().timestamp_millis();
        let stale = prepared.list(&bed.table, now, BTreeMap::new(), bed.clock.fresh_uuid()).await.unwrap();
        let elsewhere = stage(&bed, "9,z\n").await;
        bed.commit_staged(&elsewhere).await;
        if version != FormatVersion::V1 {
            assert!(crate::data::snapshot::with_snapshot(&bed.table, &stale).is_err());
        }
        let fresh = prepared.list(&bed.table, now, BTreeMap::new(), bed.clock.fresh_uuid()).await.unwrap();
        assert_ne!(fresh.manifest_list(), stale.manifest_list());
        assert_eq!(fresh.snapshot_id(), stale.snapshot_id());
        bed.adopt(&fresh);
        assert_eq!(bed.rows(bed.head).await, ["1|a", "2|a", "5|b"]);
        let (manifest, content) = &bed.manifests(bed.head).await[0];
        let number = if version == FormatVersion::V1 { 0 } else { 3 };
        assert_eq!(manifest.sequence_number, number);
        assert!(content.entries().iter().all(|entry| entry.sequence_number() == Some(number)));
    }
}

#[tokio::test]
async fn a_file_that_is_not_live_cannot_be_removed() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    let first = stage(&bed, "1,a\n").await;
    bed.commit_staged(&first).await;
    let removed = vec![RemovedFile { path: "nowhere.parquet".to_owned(), content_offset: None }];
    let change = DataChange { added: vec![], removed };
    let (id, unique) = (bed.clock.fresh_snapshot_id(), bed.clock.fresh_uuid());
    let error = prepare(&bed.table, bed.head, &change, id, unique).await.unwrap_err();
    assert!(matches!(&error, DataError::Damaged { file, .. } if file == "nowhere.parquet"), "{error}");
}

#[tokio::test]
async fn rows_get_ids_once_on_a_table_upgraded_to_version_3() {
    let mut bed = Bed::new(FormatVersion::V2, schema(), "", &[]);
    let first = stage(&bed, "1,a\n2,b\n").await;
    bed.commit_staged(&first).await;
    let upgraded = bed.table.metadata.as_ref().clone().into_builder(None);
    let upgraded = upgraded.upgrade_format_version(FormatVersion::V3).unwrap().build().unwrap().metadata;
    bed.table.metadata = Arc::new(upgraded);
    let marker = copy(&bed, bed.head, bed.head).await;
    assert_eq!(marker.row_range(), Some((0, 2)), "the old rows get theirs in the first snapshot after");
    bed.adopt(&marker);
    let seal = copy(&bed, bed.head, bed.head).await;
    assert_eq!(seal.row_range(), Some((2, 0)));
    bed.adopt(&seal);
    assert_eq!(bed.rows(bed.head).await, ["1|a", "2|b"]);
}
