//! What the gate refuses although the table shows a seal.

use std::collections::BTreeMap;
use std::sync::Arc;

use calve::contract::Contract;
use calve::coordinator::{Coordinator, StageMode};
use calve::data::snapshot::{AddedFile, DataChange, build_snapshot, copy_snapshot};
use calve::data::{NoProgress, live::live_entries, write};
use calve::digest::Digest;
use calve::evidence::statement::Statement;
use calve::ids::SnapshotId;
use calve::journal::Journal;
use calve::journal::memory::MemoryJournal;
use calve::observed::{RefKind, summary};
use calve::publish::PublishOutcome;
use calve::publish::outcome::Rejection;
use calve::report::{PublishReport, Report};
use calve::testing::{Bed, CONTRACT, KINDS, Kind, contract};
use iceberg::TableUpdate;
use iceberg::spec::{Snapshot, SnapshotReference};

use crate::states::try_validate;
use crate::support::{calve_keys, history, load, with_memory};

/// Refused with exit 10, for this reason, and nothing was sent.
fn refused(bed: &Bed, report: &PublishReport, words: &str) {
    let PublishOutcome::Rejected { rejection: Rejection::Evidence, reasons } = &report.outcome else {
        panic!("{words}: {:?}", report.outcome)
    };
    assert_eq!((report.exit_code(), report.requests), (10, 0));
    assert!(reasons.iter().any(|reason| reason.contains(words)), "{words}: {reasons:?}");
    assert!(bed.faults.seen().iter().all(|seen| {
        !seen
            .commit
            .updates
            .iter()
            .any(|update| matches!(update, TableUpdate::SetSnapshotRef { ref_name, .. } if ref_name == "main"))
    }));
}

/// A seal that someone else put on the branch.
async fn forge(bed: &Bed, snapshot: Snapshot) -> SnapshotId {
    let id = SnapshotId(snapshot.snapshot_id());
    let kept = SnapshotReference::new(id.0, RefKind::KEPT_BRANCH.to_iceberg());
    let update = TableUpdate::SetSnapshotRef { ref_name: "audit/p".to_owned(), reference: kept };
    bed.engine().update(vec![TableUpdate::AddSnapshot { snapshot }, update]).await;
    id
}

/// The seal's own summary with some values replaced, on the same data.
async fn altered(bed: &Bed, seal: SnapshotId, values: &[(&str, String)]) -> SnapshotId {
    let table = load(bed).await;
    let data = SnapshotId(table.metadata.snapshot_by_id(seal.0).unwrap().parent_snapshot_id().unwrap());
    let mut summary = calve_keys(&table, seal);
    summary.extend(values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let clock = bed.clock.as_ref() as &dyn calve::clock::Clock;
    let time = table.metadata.last_updated_ms();
    let id = clock.fresh_snapshot_id();
    let forged = copy_snapshot(&table, Some(data), Some(data), id, time, summary, clock.fresh_uuid()).await.unwrap();
    forge(bed, forged).await
}

async fn statement_of(bed: &Bed, journal: &MemoryJournal, seal: SnapshotId) -> (Digest, Statement) {
    let digest: Digest = calve_keys(&load(bed).await, seal)[summary::STATEMENT_DIGEST].parse().unwrap();
    let bytes = journal.statement(&digest).await.unwrap().unwrap();
    (digest, Statement::parse(&bytes).unwrap())
}

#[tokio::test]
async fn statements_missing_damaged_and_of_others() {
    let (bed, calve, journal, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let (digest, statement) = statement_of(&bed, &journal, seal).await;
    let bytes = statement.canonical_bytes().unwrap();

    journal.plant_statement(digest, b"{}".to_vec());
    let error = calve.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("damaged");
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains(&digest.to_string()[7..]), "{error}");

    let logs = journal.snapshot();
    let other = MemoryJournal::named("own");
    other.restore(&logs);
    other.plant_statement(digest, bytes);
    assert_eq!(bed.publish(&bed.coordinator_with("ann", Arc::new(other)), "p").await.exit_code(), 0);
}

#[tokio::test]
async fn a_statement_that_vanished() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        // The same root, and none of its contents.
        let empty = Arc::new(MemoryJournal::named(bed.journal.root()));
        let report = bed.publish(&bed.coordinator_with("ann", empty), "p").await;
        refused(&bed, &report, "is not in the journal");
    }
}

#[tokio::test]
async fn a_contract_changed_after_sealing() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let more = format!("{CONTRACT}\n[[check]]\nname = \"volume\"\nkind = \"volume\"\nmax-rows = 1000\n");
        let Ok(changed) = Contract::parse(&more, "more.toml") else { panic!("{:?}", Contract::parse(&more, "x")) };
        let report = calve.publish(&bed.table, &bed.id("p"), &changed).await.unwrap();
        refused(&bed, &report, "the contract is");
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0, "and the sealed one is still good");
    }
}

#[tokio::test]
async fn a_file_deleted_after_sealing() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let table = load(&bed).await;
        let entries = live_entries(&table, Some(seal)).await.unwrap();
        let newest = entries.iter().max_by_key(|entry| entry.sequence_number).unwrap();
        table.file_io.delete(newest.file.file_path()).await.unwrap();
        refused(&bed, &bed.publish(&calve, "p").await, "is gone");
    }
}

/// Bytes changed before validation are damage; a size changed after it is no evidence any more.
#[tokio::test]
async fn a_file_changed() {
    let (bed, calve, _) = history(Kind::Embedded).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let staged = bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let table = load(&bed).await;
    let entries = live_entries(&table, Some(staged.snapshot)).await.unwrap();
    let newest = entries.iter().max_by_key(|entry| entry.sequence_number).unwrap();
    let file = calve::catalog::storage::local_path(newest.file.file_path()).unwrap();
    let good = std::fs::read(&file).unwrap();
    // The name of the writer is read by nobody here: the rows stay readable, and the bytes are others.
    let mut other = good.clone();
    let at = other.windows(5).rposition(|window| window == b"calve").unwrap();
    other[at] = b'C';
    std::fs::write(&file, &other).unwrap();
    let error = try_validate(&bed, &calve, "p", contract()).await.expect_err("other bytes");
    assert_eq!(error.exit_code(), 1, "{error}");
    assert!(error.to_string().contains("not those that were staged"), "{error}");
    std::fs::write(&file, &good).unwrap();
    assert!(bed.validate(&calve, "p").await.passed);
    std::fs::write(&file, [good.as_slice(), b"more"].concat()).unwrap();
    refused(&bed, &bed.publish(&calve, "p").await, "another size");
    std::fs::write(&file, &good).unwrap();
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
}

/// A source that is not there is the contract's fault, and closes nothing.
#[tokio::test]
async fn what_was_not_decided_stays_open() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let text = "version = 1\non-failure = \"quarantine\"\n[source.ledger]\nuri = \"nowhere.csv\"\n[[check]]\nname = \"totals\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", source = \"ledger\" }]\n";
    let contract = Contract::parse(text, "c.toml").unwrap_or_else(|error| panic!("{error}"));
    let report = try_validate(&bed, &calve, "p", contract).await.expect("a report");
    assert_eq!((report.passed, report.closed), (false, None), "{report:?}");
    assert!(bed.validate(&calve, "p").await.passed, "it is still open");
}

#[tokio::test]
async fn forged_seals() {
    let digest = Digest::of_bytes(b"forged").to_string();
    for (key, words) in [
        (summary::CHANGE, "the change is"),
        (summary::TREE, "the tree is"),
        (summary::CANDIDATE, "the candidate is"),
        (summary::CONTRACT, "the contract is"),
        (summary::STATEMENT_DIGEST, "is not in the journal"),
    ] {
        let (bed, calve, _, _) = with_memory().await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        altered(&bed, seal, &[(key, digest.clone())]).await;
        refused(&bed, &bed.publish(&calve, "p").await, words);
    }
    for (key, value, words) in [
        (summary::VERDICT, "fail", "verdict is not pass"),
        (summary::STATEMENT_DIGEST, "nonsense", "which is no digest"),
    ] {
        let (bed, calve, _, _) = with_memory().await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        altered(&bed, seal, &[(key, value.to_owned())]).await;
        refused(&bed, &bed.publish(&calve, "p").await, words);
    }
}

/// The evidence is of one base. A seal that names another, on which main happens to be, is not published.
#[tokio::test]
async fn a_seal_that_names_another_base() {
    let (bed, calve, _, first) = with_memory().await;
    bed.engine().append("main", &[(8, 9, 0)]).await.unwrap();
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.engine().move_branch("main", first).await;
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 12);
    altered(&bed, seal, &[(summary::BASE, first.to_string())]).await;
    refused(&bed, &bed.publish(&calve, "p").await, "base");

    // And one whose base is no ancestor at all: publishing would lose another's commit.
    let (bed, calve, _, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let other = bed.engine().append("main", &[(8, 9, 0)]).await.unwrap();
    altered(&bed, seal, &[(summary::BASE, other.to_string())]).await;
    refused(&bed, &bed.publish(&calve, "p").await, "publishing would lose it");
    assert_eq!(bed.main().await, Some(other));
}

/// A snapshot that carries a real seal's summary, and other files.
#[tokio::test]
async fn a_seal_over_other_files() {
    let (bed, calve, _, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let table = load(&bed).await;
    let data = SnapshotId(table.metadata.snapshot_by_id(seal.0).unwrap().parent_snapshot_id().unwrap());
    let clock = bed.clock.as_ref() as &dyn calve::clock::Clock;
    let file = bed.file(&[(9, 66, 0)]);
    let staged = write::append(&table, &[file], clock, &NoProgress).await.unwrap();
    let added: Vec<AddedFile> = staged.change().added;
    let change = DataChange { added, removed: Vec::new() };
    let summary: BTreeMap<String, String> = calve_keys(&table, seal);
    let (id, time) = (clock.fresh_snapshot_id(), table.metadata.last_updated_ms());
    let forged = build_snapshot(&table, Some(data), &change, id, time, summary, clock.fresh_uuid()).await.unwrap();
    forge(&bed, forged).await;
    refused(&bed, &bed.publish(&calve, "p").await, "the seal's own tree");
}

/// A statement without one of the contract's checks, however well it is stored and named, proves nothing.
#[tokio::test]
async fn a_statement_that_leaves_a_check_out() {
    let (bed, calve, journal, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let (_, mut statement) = statement_of(&bed, &journal, seal).await;
    statement.predicate.checks.retain(|check| check.name != "keys");
    assert!(statement.passed());
    let (digest, _) = journal.put_statement(&statement.canonical_bytes().unwrap()).await.unwrap();
    altered(&bed, seal, &[(summary::STATEMENT_DIGEST, digest.to_string())]).await;
    refused(&bed, &bed.publish(&calve, "p").await, "does not say that every check passed");
}

/// Without B what the candidate changes cannot be told.
#[tokio::test]
async fn a_marker_expired_by_id() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let marker = bed.begin(&calve, "p", "day = '2013-08-09'").await.marker;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        assert!(bed.validate(&calve, "p").await.passed);
        let _reply = bed.engine().expire(&[marker]).await;
        refused(&bed, &bed.publish(&calve, "p").await, "marker");
        assert!(bed.abandon(&calve, "p").await.is_ok());
    }
}

/// The data snapshots that an engine wrote: several, with an overwrite; what is sealed is their difference to the base.
#[tokio::test]
async fn engines_with_several_snapshots() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        bed.begin(&calve, "p", "true").await;
        let first = bed.engine().append("audit/p", &[(9, 4, 40)]).await.unwrap();
        let second = bed.engine().append("audit/p", &[(10, 5, 50)]).await.unwrap();
        let table = load(&bed).await;
        let before = live_entries(&table, Some(first)).await.unwrap();
        let gone = before.iter().max_by_key(|entry| entry.sequence_number).unwrap().file.file_path().to_owned();
        let of_base = live_entries(&table, Some(base)).await.unwrap()[0].file.file_path().to_owned();
        let third = overwrite(&bed, second, &[gone.clone(), of_base.clone()], &[(8, 1, 11), (8, 3, 31)]).await;
        let report = bed.validate(&calve, "p").await;
        assert_eq!((report.head, report.passed), (third, true), "{:?}", report.reasons);
        let seal = report.seal.unwrap();
        let digest = report.statement.unwrap();
        let bytes = bed.journal.statement(&digest).await.unwrap().unwrap();
        let statement = Statement::parse(&bytes).unwrap();
        let files: Vec<_> = statement.predicate.files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(files.len(), 2, "what was added and removed again is no part of the change: {files:?}");
        assert!(!files.contains(&gone) && !files.contains(&of_base));
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!((bed.main().await, bed.ids().await), (Some(seal), vec![1, 3, 5]));

        // Rows outside the scope are found in what an engine wrote too.
        bed.begin(&calve, "q", "day = '2013-08-09'").await;
        bed.engine().append("audit/q", &[(9, 6, 60)]).await.unwrap();
        bed.engine().append("audit/q", &[(10, 7, 70)]).await.unwrap();
        let report = bed.validate(&calve, "q").await;
        assert!(!report.passed && report.seal.is_none());
        assert_eq!(report.exit_code(), 10);
    }
}

/// An engine's overwrite of a branch.
async fn overwrite(bed: &Bed, head: SnapshotId, removed: &[String], rows: &[calve::testing::Row]) -> SnapshotId {
    let table = load(bed).await;
    let clock = bed.clock.as_ref() as &dyn calve::clock::Clock;
    let added = match rows {
        [] => Vec::new(),
        rows => write::append(&table, &[bed.file(rows)], clock, &NoProgress).await.unwrap().change().added,
    };
    let removed = removed
        .iter()
        .map(|path| calve::data::snapshot::RemovedFile { path: path.clone(), content_offset: None })
        .collect();
    let change = DataChange { added, removed };
    let (id, time) = (clock.fresh_snapshot_id(), table.metadata.last_updated_ms());
    let snapshot =
        build_snapshot(&table, Some(head), &change, id, time, BTreeMap::new(), clock.fresh_uuid()).await.unwrap();
    let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    let reference = SnapshotReference::new(id.0, unset.to_iceberg());
    let update = TableUpdate::SetSnapshotRef { ref_name: "audit/p".to_owned(), reference };
    bed.engine().update(vec![TableUpdate::AddSnapshot { snapshot }, update]).await;
    id
}

/// A seal whose digests are right, over the statement of an earlier state with the same files and more.
#[tokio::test]
async fn the_statement_of_an_earlier_state() {
    let (bed, calve, journal, _) = with_memory().await;
    let first = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.stage(&calve, "p", StageMode::Append, &[(9, 5, 50)]).await;
    let second = bed.validate(&calve, "p").await.seal.unwrap();
    let (earlier, statement) = statement_of(&bed, &journal, second).await;
    let table = load(&bed).await;
    let before = live_entries(&table, Some(first)).await.unwrap();
    let kept = |path: &String| before.iter().any(|entry| entry.file.file_path() == path);
    let removed: Vec<String> =
        statement.predicate.files.iter().map(|file| file.path.clone()).filter(|path| !kept(path)).collect();
    assert_eq!(removed.len(), 1);
    overwrite(&bed, second, &removed, &[]).await;
    let third = bed.validate(&calve, "p").await.seal.unwrap();
    altered(&bed, third, &[(summary::STATEMENT_DIGEST, earlier.to_string())]).await;
    refused(&bed, &bed.publish(&calve, "p").await, "does not say that every check passed");
}

/// An engine removes everything and adds nothing: nothing was examined, and that is no pass.
#[tokio::test]
async fn a_candidate_that_changes_nothing() {
    let (bed, calve, _) = history(calve::testing::Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let report = bed.validate(&calve, "p").await;
    assert!(!report.passed && report.seal.is_none(), "{:?}", report.checks);
    assert!(!report.reasons.is_empty());
    let _: &Coordinator = &calve;
}

/// I12: a seal in its data snapshot's own manifest list would go when that snapshot expires.
#[tokio::test]
async fn a_seal_that_shares_a_list() {
    let (bed, calve, _, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let table = load(&bed).await;
    let of = table.metadata.snapshot_by_id(seal.0).unwrap();
    let data = table.metadata.snapshot_by_id(of.parent_snapshot_id().unwrap()).unwrap();
    let forged = Snapshot::builder()
        .with_snapshot_id(calve::clock::Clock::fresh_snapshot_id(bed.clock.as_ref()).0)
        .with_parent_snapshot_id(of.parent_snapshot_id())
        .with_sequence_number(table.metadata.next_sequence_number())
        .with_timestamp_ms(table.metadata.last_updated_ms())
        .with_manifest_list(data.manifest_list().to_owned())
        .with_summary(of.summary().clone())
        .with_schema_id(table.metadata.current_schema_id())
        .build();
    forge(&bed, forged).await;
    refused(&bed, &bed.publish(&calve, "p").await, "shares the seal's manifest list");
}

/// A change of nothing, where the contract allows it: published as any other, and told as such.
#[tokio::test]
async fn an_empty_change_that_is_allowed() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let text = CONTRACT.replace("kind = ", "allow-empty = true\nkind = ");
        let lenient = Contract::parse(&text, "lenient.toml").unwrap();
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let report = crate::states::try_validate(&bed, &calve, "p", lenient.clone()).await.unwrap();
        let seal = report.seal.unwrap_or_else(|| panic!("{:?}", report.reasons));
        let published = calve.publish(&bed.table, &bed.id("p"), &lenient).await.unwrap();
        assert_eq!((published.exit_code(), published.main), (0, Some(seal)), "{:?}", published.outcome);
        assert_eq!(bed.ids().await, [1, 2, 3]);
        assert_eq!(bed.reconcile(&calve, "p").await.row, 2);
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(bed.reconcile(&stranger, "p").await.exit_code(), 0);
    }
}
