//! Each commit's exact requirements and updates, and what a catalog that enforces them lets through.

use iceberg::spec::StatisticsFile;
use serde_json::{Value, json};

use crate::ids::{RefName, SnapshotId};
use crate::journal::record::Verb;
use crate::observed::{Observed, RefKind};
use crate::publish::commits::Commit;
use crate::publish::commits::{
    begin, fence, fence_absent, moves_main_to, publish, receipt_of, restart, seal, settle, shows, stage,
};
use crate::publish::reconcile::{FilesLive, State, TableView, reconcile};
use crate::publish::testkit::*;

fn uuid() -> Value {
    json!({"type": "assert-table-uuid", "uuid": TABLE_UUID.to_string()})
}

fn at(name: &str, snapshot: impl Into<Option<SnapshotId>>) -> Value {
    json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot.into().map(|id: SnapshotId| id.0)})
}

/// What every commit ends with.
fn unused() -> [Value; 2] {
    [at("published/repair-07", None), at("closed/repair-07", None)]
}

fn tag(name: &str, snapshot: SnapshotId) -> Value {
    json!({"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot.0,
        "max-ref-age-ms": 9_223_372_036_854_775_807_i64})
}

fn branch(name: &str, snapshot: SnapshotId) -> Value {
    json!({"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot.0,
        "min-snapshots-to-keep": 2_147_483_647, "max-snapshot-age-ms": 9_223_372_036_854_775_807_i64,
        "max-ref-age-ms": 9_223_372_036_854_775_807_i64})
}

fn adds(id: SnapshotId, parent: Option<SnapshotId>, sequence: i64) -> Value {
    let mut snapshot = json!({"snapshot-id": id.0, "sequence-number": sequence, "timestamp-ms": 1_000 * sequence,
        "manifest-list": format!("file:///t/metadata/snap-{id}.avro"), "summary": {"operation": "replace"}, "schema-id": 3});
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = json!(parent.0);
    }
    json!({"action": "add-snapshot", "snapshot": snapshot})
}

fn add(id: SnapshotId, parent: Option<SnapshotId>, sequence: i64) -> iceberg::spec::Snapshot {
    snapshot(id, parent, sequence, Vec::new())
}

#[track_caller]
fn check(commit: &Commit, requirements: Vec<Value>, updates: Vec<Value>) {
    let [published, closed] = unused();
    let mut all = vec![uuid()];
    all.extend(requirements);
    all.extend([published, closed]);
    assert_eq!(serde_json::to_value(&commit.requirements).unwrap(), Value::Array(all));
    assert_eq!(serde_json::to_value(&commit.updates).unwrap(), Value::Array(updates));
    assert_eq!((&commit.table, commit.key), (&table(), key(1)));
}

#[test]
fn begin_requires_main_as_read_and_the_name_unused() {
    let commit = on(&ObservedBuilder::base().build(), |t| begin(t, add(B, Some(N), 2)));
    check(
        &commit,
        vec![at("main", N), at("audit/repair-07", None)],
        vec![adds(B, Some(N), 2), branch("audit/repair-07", B)],
    );
    let commit = on(&ObservedBuilder::empty().build(), |t| begin(t, add(B, None, 1)));
    check(
        &commit,
        vec![at("main", None), at("audit/repair-07", None)],
        vec![adds(B, None, 1), branch("audit/repair-07", B)],
    );
}

#[test]
fn stage_requires_the_head_alone() {
    let commit = on(&ObservedBuilder::begun().build(), |t| stage(t, B, add(S, Some(B), 3)));
    check(&commit, vec![at("audit/repair-07", B)], vec![adds(S, Some(B), 3), branch("audit/repair-07", S)]);
}

#[test]
fn seal_requires_the_head_and_sets_retention_and_statistics() {
    let statistics = StatisticsFile {
        snapshot_id: K.0,
        statistics_path: "file:///t/metadata/stats.puffin".to_owned(),
        file_size_in_bytes: 10,
        file_footer_size_in_bytes: 4,
        key_metadata: None,
        blob_metadata: Vec::new(),
    };
    let update = iceberg::TableUpdate::SetStatistics { statistics: statistics.clone() };
    let commit = on(&ObservedBuilder::written().build(), |t| seal(t, S, add(K, Some(S), 4), vec![update]));
    let set = json!({"action": "set-statistics", "snapshot-id": K.0, "statistics": serde_json::to_value(&statistics).unwrap()});
    check(&commit, vec![at("audit/repair-07", S)], vec![adds(K, Some(S), 4), branch("audit/repair-07", K), set]);
}

#[test]
fn publish_requires_all_that_was_sealed_and_consumes_the_branch() {
    let observed = ObservedBuilder::sealed().build();
    let commit = on(&observed, |t| publish(t, Some(N), B, K));
    let requirements = vec![
        at("main", N),
        at("audit/repair-07", K),
        json!({"type": "assert-current-schema-id", "current-schema-id": 3}),
        json!({"type": "assert-default-spec-id", "default-spec-id": 5}),
    ];
    // Main keeps 4 snapshots, as it did.
    let main = json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": K.0,
        "min-snapshots-to-keep": 4});
    check(&commit, requirements, vec![main, tag("published/repair-07", K), tag("audit/repair-07", N)]);
    assert_eq!(moves_main_to(&commit), Some(K));
    assert_eq!(receipt_of(&commit, &id()), Some(K));
    assert_eq!(receipt_of(&commit, &id().next_generation().unwrap()), None);
}

#[test]
fn publish_carries_every_retention_field_of_main_over() {
    let kind = RefKind::Branch {
        min_snapshots_to_keep: Some(7),
        max_snapshot_age_ms: Some(86_400_000),
        max_ref_age_ms: Some(99),
    };
    let observed =
        ObservedBuilder::sealed().with(|table| table.refs.get_mut(&RefName::main()).unwrap().kind = kind.clone());
    let commit = on(&observed.0, |t| publish(t, Some(N), B, K));
    let main = json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": K.0,
        "min-snapshots-to-keep": 7, "max-snapshot-age-ms": 86_400_000, "max-ref-age-ms": 99});
    assert_eq!(serde_json::to_value(&commit.updates[0]).unwrap(), main);
    assert_eq!(apply(&observed.0, &commit).unwrap().reference(&RefName::main()).unwrap().kind, kind);
}

#[test]
fn the_first_publication_requires_main_absent_and_leaves_its_tombstone_on_the_marker() {
    let commit = on(&ObservedBuilder::sealed_first().build(), |t| publish(t, None, B, K));
    let requirements = vec![
        at("main", None),
        at("audit/repair-07", K),
        json!({"type": "assert-current-schema-id", "current-schema-id": 3}),
        json!({"type": "assert-default-spec-id", "default-spec-id": 5}),
    ];
    let main = json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": K.0});
    check(&commit, requirements, vec![main, tag("published/repair-07", K), tag("audit/repair-07", B)]);
}

#[test]
fn fence_requires_the_head_and_leaves_both_tags() {
    let commit = on(&ObservedBuilder::sealed().build(), |t| fence(t, K, Some(N), Some(B), None).unwrap());
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("closed/repair-07", K), tag("audit/repair-07", N)]);
    // Wherever main is: a fence does not depend on it.
    let moved = ObservedBuilder::sealed().other(M, Some(N)).main(M).build();
    let commit = on(&moved, |t| fence(t, K, Some(N), Some(B), None).unwrap());
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("closed/repair-07", K), tag("audit/repair-07", N)]);
    assert_eq!(moves_main_to(&commit), None);
}

#[test]
fn a_fence_whose_base_expired_stands_on_main_and_requires_it() {
    let observed = ObservedBuilder::sealed().other(M, Some(N)).main(M).forget(N).build();
    let commit = on(&observed, |t| fence(t, K, Some(N), Some(B), None).unwrap());
    check(
        &commit,
        vec![at("audit/repair-07", K), at("main", M)],
        vec![tag("closed/repair-07", K), tag("audit/repair-07", M)],
    );
    // Nor is any base known of a branch that someone else made.
    let foreign = ObservedBuilder::base().other(X, Some(N)).branch(audit(), X).build();
    let commit = on(&foreign, |t| fence(t, X, None, None, None).unwrap());
    check(
        &commit,
        vec![at("audit/repair-07", X), at("main", N)],
        vec![tag("closed/repair-07", X), tag("audit/repair-07", N)],
    );
}

#[test]
fn a_fence_of_the_first_publication_stands_on_its_marker() {
    let commit = on(&ObservedBuilder::sealed_first().build(), |t| fence(t, K, None, Some(B), None).unwrap());
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("closed/repair-07", K), tag("audit/repair-07", B)]);
    // A root that is not needed is not added.
    let observed = ObservedBuilder::sealed_first().build();
    let commit = on(&observed, |t| fence(t, K, None, Some(B), Some(add(X, None, 4)))).unwrap();
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("closed/repair-07", K), tag("audit/repair-07", B)]);
}

/// On the head itself the tombstone would satisfy what is in flight, once the fence's own tag is deleted.
#[test]
fn a_tombstone_never_stands_on_the_head() {
    let rooted = |head| vec![adds(X, None, 4), tag("closed/repair-07", head), tag("audit/repair-07", X)];
    // Neither marker nor main.
    let observed = ObservedBuilder::sealed_first().forget(B).build();
    assert!(on(&observed, |t| fence(t, K, None, Some(B), None)).is_none());
    let commit = on(&observed, |t| fence(t, K, None, Some(B), Some(add(X, None, 4)))).unwrap();
    check(&commit, vec![at("audit/repair-07", K)], rooted(K));
    // The marker is the head.
    let observed = ObservedBuilder::sealed_first().branch(audit(), B).build();
    assert!(on(&observed, |t| fence(t, B, None, Some(B), None)).is_none());
    let commit = on(&observed, |t| fence(t, B, None, Some(B), Some(add(X, None, 4)))).unwrap();
    check(&commit, vec![at("audit/repair-07", B)], rooted(B));
}

#[test]
fn a_fence_of_an_absent_branch_leaves_both_tags_on_main() {
    let observed = ObservedBuilder::base().build();
    let commit = on(&observed, |t| fence_absent(t, None)).unwrap();
    let tags = |at| vec![tag("closed/repair-07", at), tag("audit/repair-07", at)];
    check(&commit, vec![at("audit/repair-07", None)], tags(N));
    // A root that is not needed is not added.
    let commit = on(&observed, |t| fence_absent(t, Some(add(X, None, 2)))).unwrap();
    check(&commit, vec![at("audit/repair-07", None)], tags(N));
    // Without main it gets an empty root to stand on.
    let empty = ObservedBuilder::empty().build();
    assert!(on(&empty, |t| fence_absent(t, None)).is_none());
    let commit = on(&empty, |t| fence_absent(t, Some(add(X, None, 1)))).unwrap();
    let mut updates = vec![adds(X, None, 1)];
    updates.extend(tags(X));
    check(&commit, vec![at("audit/repair-07", None)], updates);
}

#[test]
fn settle_requires_the_head_and_leaves_receipt_and_tombstone() {
    let observed = ObservedBuilder::sealed().main(S).build();
    let commit = on(&observed, |t| settle(t, K, S, Some(N), Some(B)));
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("published/repair-07", S), tag("audit/repair-07", N)]);
    assert_eq!(receipt_of(&commit, &id()), Some(S));
    assert_eq!(moves_main_to(&commit), None);
    let expired = ObservedBuilder::sealed().main(K).forget(N).build();
    let commit = on(&expired, |t| settle(t, K, K, Some(N), Some(B)));
    check(
        &commit,
        vec![at("audit/repair-07", K), at("main", K)],
        vec![tag("published/repair-07", K), tag("audit/repair-07", K)],
    );
    let first = ObservedBuilder::sealed_first().main(K).build();
    let commit = on(&first, |t| settle(t, K, K, None, Some(B)));
    check(&commit, vec![at("audit/repair-07", K)], vec![tag("published/repair-07", K), tag("audit/repair-07", B)]);
}

#[test]
fn a_ref_of_calves_never_inherits_an_expiry() {
    let begun = ObservedBuilder::base().build();
    let begun =
        apply(&begun, &on(&begun, |t| begin(t, snapshot(B, Some(N), 2, marker_summary(OURS, Some(N)))))).unwrap();
    assert_eq!(begun.reference(&audit()).unwrap().kind, RefKind::KEPT_BRANCH);
    let sealed = ObservedBuilder::sealed().build();
    for commit in [publish_of(&sealed, K), on(&sealed, |t| fence(t, K, Some(N), Some(B), None).unwrap())] {
        let table = apply(&sealed, &commit).unwrap();
        for name in [audit(), published(), closed()] {
            assert!(table.reference(&name).is_none_or(|found| found.kind == RefKind::KEPT_TAG), "{name}");
        }
    }
    // An engine's write took the branch's retention away; SEAL gives it back.
    let bare = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    let written = ObservedBuilder::written().with(|table| table.refs.get_mut(&audit()).unwrap().kind = bare).build();
    let sealing = on(&written, |t| seal(t, S, snapshot(K, Some(S), 4, seal_summary(OURS, Some(N), &[])), Vec::new()));
    assert_eq!(apply(&written, &sealing).unwrap().reference(&audit()).unwrap().kind, RefKind::KEPT_BRANCH);
}

/// The commits that could be under way while the candidate is sealed, each made from that reading.
fn in_flight(sealed: &Observed, base: Option<SnapshotId>) -> Vec<(Verb, Commit)> {
    let next = sealed.last_sequence_number + 1;
    on(sealed, |t| {
        vec![
            (Verb::Publish, publish(t, base, B, K)),
            (Verb::Fence, fence(t, K, base, Some(B), None).unwrap()),
            (Verb::Settle, settle(t, K, S, base, Some(B))),
            (Verb::Stage, stage(t, K, snapshot(X, Some(K), next, staged_summary(OURS)))),
            (Verb::Seal, seal(t, K, snapshot(K2, Some(S), next, seal_summary(OURS, base, &[K])), Vec::new())),
        ]
    })
}

/// Of commits in flight one is applied. Afterwards each of the others is refused for ever: while refs are kept, with
/// any one of calve's deleted by someone else, and whether or not main is moved or rolled back to the base.
#[test]
fn one_commit_consumes_the_branch_and_all_others_are_refused_for_ever() {
    for (sealed, base) in [(ObservedBuilder::sealed(), Some(N)), (ObservedBuilder::sealed_first(), None)] {
        for (verb, first) in in_flight(&sealed.0, base) {
            let after = ObservedBuilder(apply(&sealed.0, &first).unwrap());
            let mut mains = vec![after.clone(), after.clone().other(M, base).main(M)];
            mains.push(match base {
                Some(base) => after.clone().main(base),
                None => after.clone().unref(&RefName::main()),
            });
            for main in mains {
                for lost in [None, Some(audit()), Some(published()), Some(closed())] {
                    let table = match &lost {
                        // STAGE and SEAL leave one ref, the branch: it is not theirs to protect from deletion.
                        Some(name) => main.clone().unref(name),
                        None => main.clone(),
                    };
                    for (late, commit) in in_flight(&sealed.0, base) {
                        let refused = apply(&table.0, &commit);
                        assert!(refused.is_err(), "{late:?} after {verb:?}, base {base:?}, {lost:?} deleted");
                    }
                }
            }
        }
    }
}

#[test]
fn a_late_begin_is_refused_after_everything() {
    let base = ObservedBuilder::base();
    let late = on(&base.0, |t| begin(t, snapshot(B, Some(N), 2, marker_summary(OURS, Some(N)))));
    let absent = on(&base.0, |t| fence_absent(t, None)).unwrap();
    let fenced = ObservedBuilder(apply(&base.0, &absent).unwrap());
    for table in [ObservedBuilder::begun(), ObservedBuilder::published().main(N), ObservedBuilder::fenced(), fenced] {
        assert!(apply(&table.0, &late).is_err());
        for lost in [audit(), published(), closed()] {
            if table.0.reference(&lost).is_some_and(|found| !found.kind.is_branch()) {
                assert!(apply(&table.clone().unref(&lost).0, &late).is_err(), "{lost} deleted");
            }
        }
    }
    assert!(apply(&base.0, &late).is_ok());
}

#[test]
fn a_publication_is_refused_where_anything_it_was_sealed_under_moved() {
    let sealed = ObservedBuilder::sealed;
    let commit = publish_of(&sealed().0, K);
    assert!(apply(&sealed().0, &commit).is_ok());
    for moved in [
        sealed().with(|t| t.uuid.0 = uuid::Uuid::from_u128(78)),
        sealed().other(M, Some(N)).main(M),
        sealed().unref(&RefName::main()),
        sealed().other(X, Some(K)).branch(audit(), X),
        sealed().unref(&audit()),
        sealed().with(|t| t.current_schema_id = 4),
        sealed().with(|t| t.default_spec_id = 6),
        sealed().tag(published(), K),
        sealed().tag(closed(), K),
    ] {
        assert!(apply(&moved.0, &commit).is_err(), "{moved:?}");
    }
}

#[test]
fn the_table_after_each_commit_says_so() {
    let state =
        |table: Observed| reconcile(&no_journal(), &TableView::Present(Box::new(table)), FilesLive::NotKnown).state;
    for (sealed, base) in [(ObservedBuilder::sealed(), Some(N)), (ObservedBuilder::sealed_first(), None)] {
        let rows: Vec<_> = in_flight(&sealed.0, base)
            .iter()
            .map(|(verb, commit)| (*verb, state(apply(&sealed.0, commit).unwrap()).row()))
            .collect();
        assert_eq!(
            rows,
            [
                (Verb::Publish, 2),
                (Verb::Fence, 5),
                // Its receipt is on an unsealed snapshot, and no journal recorded it.
                (Verb::Settle, 4),
                (Verb::Stage, 9),
                (Verb::Seal, 6)
            ]
        );
    }
    let base = ObservedBuilder::base().build();
    let begun = on(&base, |t| begin(t, snapshot(B, Some(N), 2, marker_summary(OURS, Some(N)))));
    assert_eq!(state(apply(&base, &begun).unwrap()), State::Open { head: B, marker: B });
    let fenced = on(&base, |t| fence_absent(t, None)).unwrap();
    assert_eq!(state(apply(&base, &fenced).unwrap()), State::Closed);
}

#[test]
fn a_table_shows_a_commit_only_with_all_of_it() {
    let before = ObservedBuilder::sealed().build();
    for (verb, commit) in in_flight(&before, Some(N)) {
        assert!(!shows(&before, &commit), "{verb:?}");
        let after = apply(&before, &commit).unwrap();
        assert!(shows(&after, &commit), "{verb:?}");
    }
    let commit = publish_of(&before, K);
    let after = ObservedBuilder(apply(&before, &commit).unwrap());
    assert!(!shows(&after.clone().unref(&published()).0, &commit));
    assert!(!shows(&after.clone().other(M, Some(K)).main(M).0, &commit));
    assert!(!shows(&after.clone().branch(audit(), N).0, &commit), "a branch is not the tombstone");
    let adding = on(&before, |t| stage(t, K, snapshot(X, Some(K), 9, Vec::new())));
    assert!(!shows(&ObservedBuilder::sealed().other(M, Some(K)).branch(audit(), X).0, &adding));
}

/// What a restart requires besides the old one's own refs: that of the next nothing is there.
fn next_unused() -> [Value; 3] {
    ["audit", "published", "closed"].map(|kind| at(&format!("{kind}/repair-07~2"), None))
}

#[test]
fn a_restart_is_a_fence_and_a_begin_in_one() {
    let next = id().next_generation().unwrap();
    // Main has moved: the next candidate stands on it, the tombstone on the old base.
    let observed = ObservedBuilder::sealed().other(M, Some(N)).main(M).build();
    let commit = on(&observed, |t| restart(t, K, Some(N), Some(B), &next, add(X, Some(M), 7)));
    check(
        &commit,
        [at("main", M), at("audit/repair-07", K)].into_iter().chain(next_unused()).collect(),
        vec![
            adds(X, Some(M), 7),
            branch("audit/repair-07~2", X),
            tag("closed/repair-07", K),
            tag("audit/repair-07", N),
        ],
    );
    let after = apply(&observed, &commit).unwrap();
    assert!(shows(&after, &commit));
    assert!(apply(&after, &commit).is_err(), "once");
    let view = TableView::Present(Box::new(after.clone()));
    assert_eq!(reconcile(&no_journal(), &view, FilesLive::No).state, State::Closed);
    // A request in flight for the old one is refused, also after a rollback to its base.
    let publish = publish_of(&ObservedBuilder::sealed().build(), K);
    let rolled_back = ObservedBuilder(after).main(N).build();
    assert!(apply(&rolled_back, &publish).is_err());
    // And where the old one was published first, nothing is begun.
    let published = apply(&ObservedBuilder::sealed().build(), &publish).unwrap();
    let late = on(&ObservedBuilder::sealed().build(), |t| restart(t, K, Some(N), Some(B), &next, add(X, Some(N), 7)));
    assert!(apply(&published, &late).is_err());
}

/// An empty table's candidate that has only its marker leaves no other snapshot but the next one's.
#[test]
fn a_restarts_tombstone_never_stands_on_the_head() {
    let next = id().next_generation().unwrap();
    let observed = ObservedBuilder::sealed_first().branch(audit(), B).build();
    let commit = on(&observed, |t| restart(t, B, None, Some(B), &next, add(X, None, 4)));
    check(
        &commit,
        [at("main", None), at("audit/repair-07", B)].into_iter().chain(next_unused()).collect(),
        vec![adds(X, None, 4), branch("audit/repair-07~2", X), tag("closed/repair-07", B), tag("audit/repair-07", X)],
    );
}
