//! Rules broken on purpose, one at a time: each has to be caught by an invariant that the rule guards.

use super::checks::Invariant;
use super::config::{Act, Command, Config, Fault, QUIET, Start, UNKNOWNS};
use super::names::id;
use super::rules::Rules;
use super::table::{List, Table};
use super::told::Told;
use crate::ids::RefName;
use crate::observed::{RefKind, Role, summary};
use crate::publish::attempt::{ReplyRecord, Verb};
use crate::publish::commits::{self, Commit};
use crate::publish::decide::{Decision, Recomputed, decide};
use crate::publish::reconcile::{FilesLive, Finding, Sent, State, TableView, Visibility, reconcile};
use crate::publish::state::fence_form;
use iceberg::spec::Snapshot;
use iceberg::{TableRequirement, TableUpdate};

/// One rule broken on purpose.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub breaks: &'static str,
    /// What has to catch it.
    pub guard: Invariant,
    /// The rules with the one that is broken.
    pub rules: Rules,
    /// The configuration in which it shows.
    pub config: Config,
}

const REAL: Rules = Rules::REAL;
const PUBLISHERS: Config = Config {
    menu: [&[Command::Publish], &[Command::Publish, Command::Abandon]],
    commands: [1, 1],
    faults: 1,
    fault_kinds: UNKNOWNS,
    ..QUIET
};

fn without(mut commit: Commit, drop: impl Fn(&TableRequirement) -> bool) -> Commit {
    commit.requirements.retain(|requirement| !drop(requirement));
    commit
}

fn on_ref(requirement: &TableRequirement, name: &RefName) -> bool {
    matches!(requirement, TableRequirement::RefSnapshotIdMatch { r#ref, .. } if *r#ref == name.0)
}

fn unset(mut commit: Commit, name: &RefName) -> Commit {
    commit
        .updates
        .retain(|update| !matches!(update, TableUpdate::SetSnapshotRef { ref_name, .. } if *ref_name == name.0));
    commit
}

fn relist(snapshot: &Snapshot, list: List) -> Snapshot {
    Snapshot::builder()
        .with_snapshot_id(snapshot.snapshot_id())
        .with_parent_snapshot_id(snapshot.parent_snapshot_id())
        .with_sequence_number(snapshot.sequence_number())
        .with_timestamp_ms(snapshot.timestamp_ms())
        .with_manifest_list(list.path())
        .with_summary(snapshot.summary().clone())
        .with_schema_id(snapshot.schema_id().unwrap_or_default())
        .build()
}

fn relisted(verb: Verb, mut commit: Commit, list: impl Fn(&Snapshot) -> List) -> Commit {
    for update in commit.updates.iter_mut().filter(|_| verb == Verb::Seal) {
        if let TableUpdate::AddSnapshot { snapshot } = update {
            *snapshot = relist(snapshot, list(snapshot));
        }
    }
    commit
}

fn is(verb: Verb, of: Verb, commit: Commit, change: impl Fn(Commit) -> Commit) -> Commit {
    if verb == of { change(commit) } else { commit }
}

/// Every mutant, in the order of the invariants.
pub fn mutants() -> Vec<Mutant> {
    vec![
        Mutant {
            name: "publish-without-schema",
            breaks: "PUBLISH does not require the schema that was checked",
            guard: Invariant::I1,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Publish, commit, |commit| {
                        without(commit, |r| matches!(r, TableRequirement::CurrentSchemaIdMatch { .. }))
                    })
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Schema], ..PUBLISHERS },
        },
        Mutant {
            name: "gate-takes-the-head",
            breaks: "the gate publishes whatever is at the head of the branch",
            guard: Invariant::I1,
            rules: Rules {
                reconcile: |intent, view, files| {
                    let found = reconcile(intent, view, files);
                    match found.state {
                        State::SubjectMoved { head, .. } => {
                            Finding { state: State::Sealed { seal: head, sent: Sent::None }, ..found }
                        }
                        _ => found,
                    }
                },
                decide: |intent, observed, finding, evidence, table, key| match &finding.state {
                    State::Sealed { seal, .. } if observed.role(*seal) != Role::Other => {
                        decide(intent, observed, finding, evidence, table, key)
                    }
                    State::Sealed { seal, .. } => {
                        let target = commits::Target { table, id: &intent.publication, observed, key };
                        Decision::Send(Box::new(commits::publish(&target, observed.main(), *seal, *seal)))
                    }
                    _ => decide(intent, observed, finding, evidence, table, key),
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Append], ..PUBLISHERS },
        },
        Mutant {
            name: "gate-trusts-the-seal",
            breaks: "the gate takes the seal's own digests for what it should compute again",
            guard: Invariant::I1,
            rules: Rules {
                recomputed: |found, observed, seal| {
                    let values = observed.snapshots.get(&seal).map(|snapshot| &snapshot.summary);
                    let said =
                        |key: &str, found| values.and_then(|values| values.get(key)?.parse().ok()).unwrap_or(found);
                    Recomputed {
                        change: said(summary::CHANGE, found.change),
                        tree: said(summary::TREE, found.tree),
                        seal_tree: said(summary::TREE, found.seal_tree),
                        candidate: said(summary::CANDIDATE, found.candidate),
                        ..found
                    }
                },
                ..REAL
            },
            // The schema changes between two tries of one SEAL.
            config: Config {
                start: Start::Staged,
                menu: [&[Command::Validate, Command::Publish], &[]],
                commands: [2, 0],
                fault_kinds: &[Fault::Contention],
                acts: 1,
                act_kinds: &[Act::Schema],
                ..PUBLISHERS
            },
        },
        Mutant {
            name: "publish-without-audit",
            breaks: "PUBLISH does not require the branch at the seal",
            guard: Invariant::I3,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Publish, commit, |commit| without(commit, |r| on_ref(r, &id().audit_ref())))
                },
                ..REAL
            },
            config: Config { acts: 2, act_kinds: &[Act::Rollback, Act::Delete], ..PUBLISHERS },
        },
        Mutant {
            name: "publish-without-tombstone",
            breaks: "PUBLISH leaves the branch a branch",
            guard: Invariant::I3,
            rules: Rules {
                commit: |verb, commit, _| is(verb, Verb::Publish, commit, |commit| unset(commit, &id().audit_ref())),
                ..REAL
            },
            config: Config { acts: 2, act_kinds: &[Act::Rollback, Act::Delete], ..PUBLISHERS },
        },
        Mutant {
            name: "fence-without-tombstone",
            breaks: "FENCE leaves the branch a branch",
            guard: Invariant::I4,
            rules: Rules {
                commit: |verb, commit, _| is(verb, Verb::Fence, commit, |commit| unset(commit, &id().audit_ref())),
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Delete], ..PUBLISHERS },
        },
        Mutant {
            name: "consumed-is-published",
            breaks: "a branch that is used up counts as published",
            guard: Invariant::I5,
            rules: Rules {
                reconcile: |intent, view, files| {
                    let found = reconcile(intent, view, files);
                    match found.state {
                        State::Consumed => {
                            let snapshot = super::table::N;
                            let visibility = Visibility::HistoryEnds;
                            Finding { state: State::Published { snapshot, sealed: true, visibility }, ..found }
                        }
                        _ => found,
                    }
                },
                ..REAL
            },
            config: Config { commands: [1, 1], acts: 1, act_kinds: &[Act::Delete], ..PUBLISHERS },
        },
        Mutant {
            name: "conflict-is-final",
            breaks: "an answer of 409 is told as never published",
            guard: Invariant::I6,
            rules: Rules {
                told: |reply, told| match reply {
                    ReplyRecord::Refused { status: 409, .. } => Told { row: Some(5), code: 13 },
                    _ => told,
                },
                ..REAL
            },
            config: PUBLISHERS,
        },
        Mutant {
            name: "reconcile-without-history",
            breaks: "main's history is not searched for the candidate",
            guard: Invariant::I6,
            rules: Rules {
                reconcile: |intent, view, files| {
                    let TableView::Present(observed) = view else { return reconcile(intent, view, files) };
                    let found = reconcile(intent, view, FilesLive::No);
                    match found.state {
                        State::Bypassed { head, .. } => {
                            let main = observed.main();
                            let moved = vec![crate::publish::reconcile::Moved::Main { base: None, main }];
                            Finding { state: State::Moved { seal: head, moved }, ..found }
                        }
                        _ => found,
                    }
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::FastForward], ..PUBLISHERS },
        },
        Mutant {
            name: "reconcile-without-files",
            breaks: "main is not searched for the candidate's files",
            guard: Invariant::I6,
            rules: Rules { files_may_tell: |_, _, _| false, ..REAL },
            config: Config { acts: 1, act_kinds: &[Act::CherryPick], ..PUBLISHERS },
        },
        Mutant {
            name: "publish-without-main",
            breaks: "PUBLISH does not require main at the base",
            guard: Invariant::I7,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Publish, commit, |commit| without(commit, |r| on_ref(r, &RefName::main())))
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Commit], ..PUBLISHERS },
        },
        Mutant {
            name: "stale-base",
            breaks: "PUBLISH requires main as read, wherever it was begun",
            guard: Invariant::I7,
            rules: Rules {
                decide: |intent, observed, finding, evidence, table, key| match &finding.state {
                    State::Moved { seal, .. } => {
                        let target = commits::Target { table, id: &intent.publication, observed, key };
                        Decision::Send(Box::new(commits::publish(&target, observed.main(), *seal, *seal)))
                    }
                    _ => decide(intent, observed, finding, evidence, table, key),
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Commit], ..PUBLISHERS },
        },
        Mutant {
            name: "fence-without-requirements",
            breaks: "FENCE requires nothing of the publication's refs",
            guard: Invariant::I9,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Fence, commit, |commit| {
                        without(commit, |r| matches!(r, TableRequirement::RefSnapshotIdMatch { .. }))
                    })
                },
                ..REAL
            },
            config: PUBLISHERS,
        },
        Mutant {
            name: "verdict-from-the-journal",
            breaks: "only an accepted answer in the journal counts as published",
            guard: Invariant::I10,
            rules: Rules {
                reconcile: |intent, view, files| {
                    let found = reconcile(intent, view, files);
                    let accepted = intent
                        .attempts
                        .iter()
                        .any(|a| a.verb == Verb::Publish && matches!(a.reply, Some(ReplyRecord::Accepted)));
                    match found.state {
                        State::Published { .. } if !accepted => Finding { state: State::Consumed, ..found },
                        _ => found,
                    }
                },
                ..REAL
            },
            config: PUBLISHERS,
        },
        Mutant {
            name: "intent-after-sending",
            breaks: "the intent is recorded together with the answer",
            guard: Invariant::I10,
            rules: Rules { journal_first: false, ..REAL },
            config: Config { crashes: 1, ..PUBLISHERS },
        },
        Mutant {
            name: "publish-without-retention",
            breaks: "PUBLISH gives main the retention that a new branch has",
            guard: Invariant::I11,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Publish, commit, |mut commit| {
                        for update in &mut commit.updates {
                            if let TableUpdate::SetSnapshotRef { ref_name, reference } = update
                                && *ref_name == RefName::main().0
                            {
                                reference.retention = RefKind::Branch {
                                    min_snapshots_to_keep: None,
                                    max_snapshot_age_ms: None,
                                    max_ref_age_ms: None,
                                }
                                .to_iceberg();
                            }
                        }
                        commit
                    })
                },
                ..REAL
            },
            config: PUBLISHERS,
        },
        Mutant {
            name: "publish-moves-another-ref",
            breaks: "PUBLISH moves a tag of somebody else's along with main",
            guard: Invariant::I11,
            rules: Rules {
                commit: |verb, commit, _| {
                    is(verb, Verb::Publish, commit, |mut commit| {
                        let monthly = commit.updates.iter().find_map(|update| match update {
                            TableUpdate::SetSnapshotRef { ref_name, reference }
                                if *ref_name == id().published_ref().0 =>
                            {
                                Some(TableUpdate::SetSnapshotRef {
                                    ref_name: "monthly".to_owned(),
                                    reference: reference.clone(),
                                })
                            }
                            _ => None,
                        });
                        commit.updates.extend(monthly);
                        commit
                    })
                },
                ..REAL
            },
            config: PUBLISHERS,
        },
        Mutant {
            name: "seal-on-a-shared-list",
            breaks: "the seal names the manifest list of its data",
            guard: Invariant::I12,
            rules: Rules {
                commit: |verb, commit, table: &Table| {
                    relisted(verb, commit, |seal| {
                        let parent = crate::ids::SnapshotId(seal.parent_snapshot_id().unwrap_or_default());
                        table.lists.get(&parent).copied().unwrap_or(List { name: 0, files: 0 })
                    })
                },
                ..REAL
            },
            config: Config { start: Start::Staged, menu: [&[Command::Validate], &[]], ..PUBLISHERS },
        },
        Mutant {
            name: "seal-with-more-files",
            breaks: "the seal holds a file that its data does not",
            guard: Invariant::I12,
            rules: Rules {
                commit: |verb, commit, _| {
                    relisted(verb, commit, |seal| {
                        let list = List::of(seal.manifest_list());
                        List { files: list.files | 1 << 30, ..list }
                    })
                },
                ..REAL
            },
            config: Config { start: Start::Staged, menu: [&[Command::Validate], &[]], ..PUBLISHERS },
        },
        Mutant {
            name: "fence-without-closed-tag",
            breaks: "FENCE leaves a tombstone and no closed tag",
            guard: Invariant::L1,
            rules: Rules {
                commit: |verb, commit, _| is(verb, Verb::Fence, commit, |commit| unset(commit, &id().closed_ref())),
                ..REAL
            },
            config: Config { faults: 0, acts: 0, menu: [&[Command::Abandon], &[]], start: Start::Staged, ..PUBLISHERS },
        },
        Mutant {
            name: "moved-is-never-fenced",
            breaks: "a sealed candidate whose base moved cannot be fenced",
            guard: Invariant::L1,
            rules: Rules {
                fence_form: |state| match state {
                    State::Moved { .. } => None,
                    state => fence_form(state),
                },
                ..REAL
            },
            config: Config { acts: 1, act_kinds: &[Act::Commit], ..PUBLISHERS },
        },
    ]
}
