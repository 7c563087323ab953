//! What holds for any table and any log, however damaged.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::ids::{Incarnation, RefName, SnapshotId};
use crate::journal::record::ReplyRecord;
use crate::observed::{Observed, ObservedRef, ObservedSnapshot, RefKind, Role};
use crate::publish::Intent;
use crate::publish::commits;
use crate::publish::decide::{Decision, Recomputed, decide, landed};
use crate::publish::outcome::{PublishOutcome, Via, reconcile_exit};
use crate::publish::own::marker_below;
use crate::publish::reconcile::{FilesLive, Finding, State, TableView, base_of, reconcile};
use crate::publish::testkit::*;

fn find(intent: &Intent, observed: &Observed, files: FilesLive) -> Finding {
    reconcile(intent, &TableView::Present(Box::new(observed.clone())), files)
}

/// Few snapshot ids, so that they meet.
fn any_id() -> impl Strategy<Value = SnapshotId> {
    (1..=9_i64).prop_map(|number| SnapshotId(number * 10))
}

fn any_incarnation() -> impl Strategy<Value = Incarnation> {
    prop_oneof![4 => Just(OURS), 1 => Just(THEIRS)]
}

fn any_summary() -> impl Strategy<Value = Vec<(String, String)>> {
    prop_oneof![
        2 => Just(vec![("engine-name".to_owned(), "spark".to_owned())]),
        3 => (any_incarnation(), of(any_id())).prop_map(|(i, base)| marker_summary(i, base)),
        2 => any_incarnation().prop_map(staged_summary),
        3 => (any_incarnation(), of(any_id()), vec(any_id(), 0..3)).prop_map(|(i, base, r)| seal_summary(i, base, &r)),
    ]
}

fn any_kind() -> impl Strategy<Value = RefKind> {
    let bare = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    prop_oneof![4 => Just(RefKind::KEPT_BRANCH), 1 => Just(bare), 2 => Just(RefKind::KEPT_TAG)]
}

/// Any graph: parents may be missing, or make a cycle; refs may point anywhere.
fn any_table() -> impl Strategy<Value = Observed> {
    let snapshots = proptest::collection::btree_map(any_id(), (of(any_id()), any_summary(), 0..6_i64), 0..9);
    let refs = (of(any_id()), of((any_id(), any_kind())), of(any_id()), of(any_id()));
    (snapshots, refs, vec(any_id(), 0..3), 0..6_i64, 3..5_i32, 5..7_i32, 1..=3_u8).prop_map(
        |(snapshots, (main, branch, receipt, fence), log, sequence, schema, spec, format_version)| {
            let snapshots: BTreeMap<_, _> = snapshots
                .into_iter()
                .map(|(id, (parent, summary, sequence_number))| {
                    let snapshot = ObservedSnapshot {
                        parent,
                        sequence_number,
                        timestamp_ms: sequence_number,
                        operation: "append".to_owned(),
                        schema_id: Some(3),
                        summary: summary.into_iter().collect(),
                    };
                    (id, snapshot)
                })
                .collect();
            let tag = |at: SnapshotId| ObservedRef { snapshot: at, kind: RefKind::KEPT_TAG };
            let mut refs = BTreeMap::new();
            refs.extend(main.map(|at| (RefName::main(), ObservedRef { snapshot: at, kind: RefKind::KEPT_BRANCH })));
            refs.extend(branch.map(|(at, kind)| (audit(), ObservedRef { snapshot: at, kind })));
            // Most tables have neither, else the later rows are never seen.
            refs.extend(receipt.filter(|at| at.0 <= 20).map(|at| (published(), tag(at))));
            refs.extend(fence.filter(|at| at.0 <= 20).map(|at| (closed(), tag(at))));
            Observed {
                uuid: TABLE_UUID,
                format_version,
                last_sequence_number: sequence,
                current_schema_id: schema,
                default_spec_id: spec,
                refs,
                snapshots,
                snapshot_log: log.into_iter().map(|id| (0, id)).collect(),
            }
        },
    )
}

/// A real candidate with random later events on top: rows 2 to 10 are common here, which they are not in any graph.
fn candidate_table() -> impl Strategy<Value = Observed> {
    let start = prop_oneof![
        1 => Just(ObservedBuilder::begun()),
        1 => Just(ObservedBuilder::staged()),
        1 => Just(ObservedBuilder::written()),
        2 => Just(ObservedBuilder::sealed()),
        2 => Just(ObservedBuilder::written_and_sealed()),
        1 => Just(ObservedBuilder::sealed_first()),
        1 => Just(ObservedBuilder::published()),
        1 => Just(ObservedBuilder::fenced()),
    ];
    let targets = || prop_oneof![Just(N), Just(B), Just(S), Just(K), Just(X), Just(M)];
    let step = (0..9_u8, targets(), targets());
    (start, vec(step, 0..4)).prop_map(|(start, steps)| {
        let table = steps.into_iter().fold(start, |table, (step, at, on)| {
            if !table.0.snapshots.contains_key(&at) && step != 0 {
                return table;
            }
            match step {
                0 if !table.0.snapshots.contains_key(&X) => table.other(X, Some(on)),
                0 if !table.0.snapshots.contains_key(&M) => table.other(M, Some(on)).main(M),
                1 => table.main(at),
                2 => table.branch(audit(), at),
                3 => table.tag(audit(), at),
                4 => table.unref(&audit()),
                5 => table.unref(&published()),
                6 => table.unref(&closed()),
                7 => table.with(|table| table.current_schema_id = 4),
                8 => table.forget(at),
                _ => table,
            }
        });
        table.build()
    })
}

fn table() -> impl Strategy<Value = Observed> {
    prop_oneof![any_table(), candidate_table()]
}

fn any_reply() -> impl Strategy<Value = Option<ReplyRecord>> {
    of(prop_oneof![
        Just(NOT_SENT()),
        Just(ReplyRecord::Accepted),
        Just(refused(409)),
        Just(refused(403)),
        Just(UNKNOWN())
    ])
}

fn any_log() -> impl Strategy<Value = Intent> {
    let step = (0..5_u8, any_reply(), any_incarnation());
    prop_oneof![
        1 => Just(no_journal()),
        4 => (vec(step, 0..6), 0..4_i64).prop_map(|(steps, remembered)| {
            let log = steps.into_iter().fold(Log::default(), |log, (step, reply, of)| match step {
                0 => log.begin(of, B, reply.unwrap_or_else(UNKNOWN)),
                1 => log.seal(K, S, reply.unwrap_or_else(UNKNOWN)),
                2 => log.settle(S, reply.unwrap_or_else(UNKNOWN)),
                3 => log.publish(K2, reply),
                _ => log.publish(K, reply),
            });
            let mut intent = log.intent();
            intent.remembered_sequence_number = remembered;
            intent
        }),
    ]
}

fn any_files() -> impl Strategy<Value = FilesLive> {
    prop_oneof![2 => Just(FilesLive::NotKnown), 1 => Just(FilesLive::No), 1 => Just(FilesLive::Yes)]
}

fn intact() -> Recomputed {
    Recomputed {
        change: digest("change"),
        tree: digest("tree"),
        seal_tree: digest("tree"),
        candidate: digest("candidate"),
        contract: digest("contract"),
        statement_passed: true,
        missing_files: Vec::new(),
        changed_files: Vec::new(),
        shared_list: Vec::new(),
    }
}

fn gate(intent: &Intent, observed: &Observed, finding: &Finding) -> Decision {
    decide(intent, observed, finding, &Ok(intact()), &crate::publish::testkit::table(), key(9))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Everything ends, without a panic, and gives the same verdict again.
    #[test]
    fn every_table_has_one_verdict(intent in any_log(), observed in table(), files in any_files()) {
        let found = find(&intent, &observed, files);
        prop_assert_eq!(&found, &find(&intent, &observed, files));
        prop_assert!(found.proof.len() >= 4 || found.state.row() == 0);
        let outcome = PublishOutcome::from_finding(&found, Via::Reconciled, vec![]);
        let codes = [0, 2, 10, 11, 13, 14, 20, 21];
        prop_assert!(codes.contains(&outcome.exit_code()) && codes.contains(&reconcile_exit(&found.state)));
    }

    /// Each verdict rests on the facts that its row names.
    #[test]
    fn a_verdict_rests_on_its_facts(intent in any_log(), observed in table(), files in any_files()) {
        let found = find(&intent, &observed, files).state;
        let (receipt, fence) = (observed.reference(&published()), observed.reference(&closed()));
        let branch = observed.reference(&audit()).filter(|audit| audit.kind.is_branch()).map(|audit| audit.snapshot);
        let tag = observed.reference(&audit()).is_some_and(|audit| !audit.kind.is_branch());
        match &found {
            State::Lost { .. } => prop_assert!(intent.table.is_some_and(|known| known != observed.uuid)),
            State::Regressed { remembered, found } => prop_assert!(found < remembered),
            State::Published { snapshot, .. } => {
                prop_assert_eq!(receipt.map(|receipt| receipt.snapshot), Some(*snapshot));
                let sealed = matches!(observed.role(*snapshot), Role::Seal(of, _) if of == id());
                prop_assert!(sealed || intent.settled().any(|settled| settled == *snapshot));
            }
            State::Bypassed { head, snapshot, .. } => {
                prop_assert!(receipt.is_none() && fence.is_none());
                prop_assert_eq!(branch, Some(*head));
                prop_assert!(snapshot.is_none_or(|seen| observed.main_history().contains(&seen)));
            }
            State::VisibleAfterFence { .. } => prop_assert!(receipt.is_none() && fence.is_some()),
            State::ReceiptRemoved { .. } => prop_assert!(receipt.is_none() && fence.is_none() && branch.is_none()),
            State::Ambiguous { snapshots, .. } => prop_assert!(!snapshots.is_empty()),
            State::Closed => prop_assert!(receipt.is_none() && fence.is_some()),
            State::Sealed { seal, .. } => {
                prop_assert!(receipt.is_none() && fence.is_none());
                prop_assert_eq!(branch, Some(*seal));
                prop_assert_eq!(base_of(&observed, *seal), observed.main());
            }
            State::Moved { seal, moved } => {
                prop_assert!(receipt.is_none() && fence.is_none() && !moved.is_empty());
                prop_assert_eq!(branch, Some(*seal));
            }
            State::Open { head, .. } | State::SubjectMoved { head, .. } | State::Foreign { head } => {
                prop_assert!(receipt.is_none() && fence.is_none());
                prop_assert_eq!(branch, Some(*head));
            }
            State::Consumed => prop_assert!(tag && receipt.is_none() && fence.is_none()),
            State::Gone | State::Unknown => {
                prop_assert!(receipt.is_none() && fence.is_none() && branch.is_none() && !tag);
            }
        }
        if found == State::Unknown {
            prop_assert!(!intent.has_journal());
        }
    }

    /// A status code alone never decides: with any other replies on record, only what is said of requests changes.
    #[test]
    fn replies_decide_nothing_final(
        intent in any_log(), observed in table(), files in any_files(), replies in vec(any_reply(), 6)
    ) {
        let mut other = intent.clone();
        for (attempt, reply) in other.attempts.iter_mut().zip(replies) {
            attempt.reply = reply;
        }
        let strip = |state: State| match state {
            State::Sealed { seal, .. } => State::Moved { seal, moved: vec![] },
            state => state,
        };
        let (a, b) = (find(&intent, &observed, files), find(&other, &observed, files));
        prop_assert_eq!(a.state.row(), b.state.row());
        prop_assert_eq!(strip(a.state), strip(b.state));
    }

    /// A receipt at the candidate's own seal always says published.
    #[test]
    fn a_receipt_at_the_seal_is_published(intent in any_log(), observed in table()) {
        let seal = match find(&intent, &observed, FilesLive::NotKnown).state {
            State::Sealed { seal, .. } | State::Moved { seal, .. } | State::SubjectMoved { seal, .. } => seal,
            _ => return Ok(()),
        };
        let with = ObservedBuilder(observed).tag(published(), seal);
        // As it is, after the branch was consumed, with a fence beside it, with only the receipt left.
        for table in [with.clone(), with.clone().tag(audit(), seal), with.clone().tag(closed(), seal), with.unref(&audit())] {
            let found = find(&intent, &table.0, FilesLive::NotKnown).state;
            let published = matches!(found, State::Published { snapshot, sealed: true, .. } if snapshot == seal);
            prop_assert!(published, "{:?}", found);
        }
    }

    /// Where nothing is visible and nothing contradicts itself, a fence closes; and files found in main reopen it.
    #[test]
    fn a_fence_closes_what_is_not_visible(intent in any_log(), observed in table(), at in any_id()) {
        let row = find(&intent, &observed, FilesLive::No).state.row();
        if row < 5 {
            return Ok(());
        }
        let fenced = ObservedBuilder(observed).tag(closed(), at);
        let found = find(&intent, &fenced.0, FilesLive::No).state;
        // The fence itself may name a snapshot of main, and with it show that it is visible; never less than closed.
        prop_assert!(matches!(found.row(), 3..=5), "{:?}", found);
        let found = find(&intent, &fenced.0, FilesLive::Yes).state;
        let said = matches!(found, State::VisibleAfterFence { .. });
        prop_assert!(said, "{:?}", found);
    }

    /// Snapshots and refs that are none of its business change nothing.
    #[test]
    fn others_do_not_matter(intent in any_log(), observed in table(), files in any_files()) {
        let before = find(&intent, &observed, files);
        let next = id().next_generation().unwrap();
        let beside = ObservedBuilder(observed)
            .other(SnapshotId(1_000), None)
            .branch(RefName("experiment".to_owned()), SnapshotId(1_000))
            .branch(next.audit_ref(), SnapshotId(1_000))
            .tag(next.published_ref(), SnapshotId(1_000))
            .tag(next.closed_ref(), SnapshotId(1_000))
            .with(|table| table.last_sequence_number -= 1);
        prop_assert_eq!(before, find(&intent, &beside.0, files));
    }

    /// Only a sealed candidate is sent; the request requires what was read and moves main to the seal alone, once.
    #[test]
    fn what_the_gate_sends_publishes_once(intent in any_log(), observed in table(), files in any_files()) {
        let finding = find(&intent, &observed, files);
        let Decision::Send(commit) = gate(&intent, &observed, &finding) else { return Ok(()) };
        let State::Sealed { seal, .. } = finding.state else { panic!("{finding:?}") };
        prop_assert_eq!(commits::moves_main_to(&commit), Some(seal));
        prop_assert_eq!(commits::receipt_of(&commit, &id()), Some(seal));
        // Main's history is in the seal's: nothing that readers saw is lost.
        if let Some(main) = observed.main() {
            prop_assert!(observed.ancestry(seal).any(|ancestor| ancestor == main));
        }
        // A recorded request may have been made under another schema: then the catalog refuses it.
        let Ok(after) = apply(&observed, &commit) else {
            prop_assert!(commit.key != key(9), "{commit:?}");
            return Ok(());
        };
        let found = find(&intent, &after, files).state;
        let is_published = matches!(found, State::Published { snapshot, sealed: true, .. } if snapshot == seal);
        prop_assert!(is_published, "{:?}", found);
        prop_assert!(apply(&after, &commit).is_err());
        prop_assert!(commits::shows(&after, &commit));
        let stopped = matches!(gate(&intent, &after, &find(&intent, &after, files)), Decision::Stop(_));
        prop_assert!(stopped);
        // Rolled back to where it began, with any one ref deleted: refused for ever.
        let back = match observed.main() {
            Some(main) => ObservedBuilder(after).main(main),
            None => ObservedBuilder(after).unref(&RefName::main()),
        };
        for lost in [audit(), published()] {
            prop_assert!(apply(&back.clone().unref(&lost).0, &commit).is_err(), "{} deleted", lost);
        }
    }

    /// A fence of any branch leaves a table that says closed, or visible, and refuses every publication.
    #[test]
    fn after_a_fence_never(intent in any_log(), observed in candidate_table()) {
        let finding = find(&intent, &observed, FilesLive::No);
        let Some(head) = observed.reference(&audit()).filter(|audit| audit.kind.is_branch()).map(|a| a.snapshot) else {
            return Ok(());
        };
        if finding.state.row() < 6 || !observed.snapshots.contains_key(&head) {
            return Ok(());
        }
        let marker = marker_below(&intent, &observed, head);
        let base = marker.and_then(|marker| base_of(&observed, marker));
        let main = observed.main();
        if main.is_some_and(|main| !observed.snapshots.contains_key(&main)) {
            return Ok(());
        }
        let root = snapshot(SnapshotId(i64::MAX), None, observed.last_sequence_number + 1, vec![]);
        let fence = on(&observed, |target| commits::fence(target, head, base, marker, Some(root))).unwrap();
        let fenced = apply(&observed, &fence).unwrap();
        let found = find(&intent, &fenced, FilesLive::No).state;
        prop_assert_eq!(found, State::Closed);
        let Decision::Send(late) = gate(&intent, &observed, &finding) else { return Ok(()) };
        for lost in [None, Some(closed()), Some(audit())] {
            let table = ObservedBuilder(fenced.clone());
            let table = match &lost {
                Some(name) => table.unref(name),
                None => table,
            };
            prop_assert!(apply(&table.0, &late).is_err(), "{:?} deleted", lost);
        }
    }

    /// Whether an addition landed follows from the table, and never changes back.
    #[test]
    fn what_landed_stays_landed(observed in table(), at in any_id(), parent in any_id()) {
        let commit = on(&observed, |target| commits::stage(target, parent, snapshot(at, Some(parent), 9, vec![])));
        let expected = observed.snapshots.contains_key(&at);
        prop_assert_eq!(landed(&observed, &commit) == crate::publish::decide::Landed::Yes, expected);
        let later = ObservedBuilder(observed).unref(&audit()).tag(closed(), parent);
        prop_assert_eq!(landed(&later.0, &commit) == crate::publish::decide::Landed::Yes, expected);
    }
}

/// The strategies reach every row, so that the properties above are not empty.
#[test]
fn every_row_is_reached() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut rows: BTreeMap<u8, u32> = BTreeMap::new();
    let mut sent = 0;
    for _ in 0..3000 {
        let strategy = (any_log(), table(), any_files());
        let (intent, observed, files) = strategy.new_tree(&mut runner).unwrap().current();
        let finding = find(&intent, &observed, files);
        *rows.entry(finding.state.row()).or_default() += 1;
        sent += u32::from(matches!(gate(&intent, &observed, &finding), Decision::Send(_)));
    }
    for row in 1..=12 {
        assert!(rows.get(&row).is_some_and(|count| *count >= 15), "row {row}: {rows:?}");
    }
    assert!(sent >= 30, "{sent} of 3000 were sent");
}
