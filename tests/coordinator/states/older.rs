//! Older metadata of a table: what it tells where the current one no longer does, and what it proves only as far as it can
//! be read.

use calve::coordinator::Reach;
use calve::ids::SnapshotId;
use calve::publish::past::Ended;
use calve::publish::reconcile::Visibility;

use super::restored::Backup;
use super::*;
use crate::support::load;

/// Publishes or closes, appends, expires what is the candidate's, and removes the refs that told.
async fn forgotten(bed: &Bed, by: &Coordinator, publish: bool, removed: &[RefName]) -> SnapshotId {
    let seal = bed.sealed(by, "p", 9, &[(9, 4, 40)]).await;
    if publish {
        assert_eq!(bed.publish(by, "p").await.exit_code(), 0);
    } else {
        bed.abandon(by, "p").await.expect("fenced");
    }
    for id in 0..3 {
        bed.engine().append("main", &[(11, 100 + id, 0)]).await.expect("appended");
    }
    for name in removed {
        bed.engine().remove_ref(name.clone()).await;
    }
    let observed = bed.observe().await;
    let tombstone = observed.reference(&bed.id("p").audit_ref()).map(|audit| audit.snapshot);
    let main = observed.main().expect("main");
    let gone: Vec<_> = observed.snapshots.keys().copied().filter(|id| *id != main && Some(*id) != tombstone).collect();
    let reply = bed.engine().expire(&gone).await;
    assert!(matches!(reply, calve::catalog::Reply::Accepted { .. }), "{reply:?}");
    seal
}

fn stranger(bed: &Bed) -> Coordinator {
    bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")))
}

/// Removes the older metadata files that are named, oldest first or all.
pub async fn remove_files(bed: &Bed, leave: usize) -> Vec<String> {
    let table = load(bed).await;
    let log = table.metadata.metadata_log();
    let gone: Vec<_> = log[..log.len() - leave].iter().map(|entry| entry.metadata_file.clone()).collect();
    for file in &gone {
        table.file_io.delete(file).await.expect("deleted");
    }
    gone
}

/// 5: the receipt and K are gone. Older metadata shows it, unasked, to whoever has no journal; where the files are gone too,
/// the history is lost, and never "failed".
#[tokio::test]
async fn published_by_older_metadata() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let id = bed.id("p");
        let seal = forgotten(&bed, &calve, true, &[id.published_ref()]).await;
        let found = bed.reconcile(&stranger(&bed), "p").await;
        let expected = State::ReceiptRemoved { snapshot: Some(seal), sealed: true, visibility: Visibility::Superseded };
        assert_eq!((&found.finding.state, found.exit_code()), (&expected, 0), "{:#?}", found.finding.proof);
        let back = found.looked_back.expect("it was followed back");
        assert_eq!((back.ended, back.unread.len()), (Ended::Decided, 0));
        let file = back.oldest_file.expect("a file");
        assert!(found.finding.proof[0].contains(&file), "{:?}", found.finding.proof);
        let report = bed.publish(&stranger(&bed), "p").await;
        assert!(matches!(report.outcome, PublishOutcome::Published { via: Via::AlreadyThere, .. }), "{report:?}");
        assert_eq!(bed.abandon(&stranger(&bed), "p").await.expect_err("published").exit_code(), 13);

        let off = stranger(&bed).with_reach(Reach { files: 0, asked: false }, Arc::new(NoProgress));
        assert_eq!(bed.reconcile(&off, "p").await.finding.state, State::Consumed);

        let gone = remove_files(&bed, 0).await;
        let commits = bed.faults.commits();
        let found = bed.reconcile(&stranger(&bed), "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Consumed, 21));
        let back = found.looked_back.expect("it was tried");
        assert_eq!((back.files, back.unread.len()), (0, gone.len()));
        let proof = found.finding.proof.join("\n");
        assert!(proof.contains(gone.last().expect("a file")) && proof.contains("not known"), "{proof}");
        let report = bed.publish(&stranger(&bed), "p").await;
        assert!(matches!(report.outcome, PublishOutcome::Unresolved { cause: Cause::HorizonLost, .. }), "{report:?}");
        assert_eq!(bed.abandon(&stranger(&bed), "p").await.expect_err("never fence").exit_code(), 21);
        assert_eq!(bed.faults.commits(), commits);
    }
}

/// The same where even the tombstone is gone: nothing in the table names it, and only who asks finds it.
#[tokio::test]
async fn nothing_of_it_but_older_metadata() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let id = bed.id("p");
        forgotten(&bed, &calve, true, &[id.published_ref(), id.audit_ref()]).await;
        assert_eq!(bed.reconcile(&stranger(&bed), "p").await.finding.state, State::Unknown);
        let asking = stranger(&bed).with_reach(Reach { files: 100, asked: true }, Arc::new(NoProgress));
        let found = bed.reconcile(&asking, "p").await;
        assert_eq!((found.row, found.exit_code()), (3, 0), "{:?}", found.finding);
        // An id that never was is not found in any of them.
        let none = bed.reconcile(&asking, "never").await;
        assert_eq!((none.row, none.exit_code()), (12, 2));
        assert_eq!(none.looked_back.expect("followed back").ended, Ended::Log);
        // With the journal, an end that it saw is known without any file.
        remove_files(&bed, 0).await;
        assert_eq!(bed.reconcile(&calve, "p").await.finding.state.word(), "receipt-removed");
    }
}

/// A fence whose tags were removed is found again, and the id stays closed.
#[tokio::test]
async fn closed_by_older_metadata() {
    for kind in KINDS {
        for both in [false, true] {
            let (bed, calve, _) = history(kind).await;
            let id = bed.id("p");
            bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.abandon(&calve, "p").await.expect("fenced");
            bed.engine().remove_ref(id.closed_ref()).await;
            if both {
                bed.engine().remove_ref(id.audit_ref()).await;
            }
            let found = bed.reconcile(&stranger(&bed), "p").await;
            assert_eq!((&found.finding.state, found.exit_code()), (&State::Closed, 14));
            assert!(found.finding.proof[0].contains("it is not there any more"), "{:?}", found.finding.proof);
            let commits = bed.faults.commits();
            assert_eq!(bed.publish(&stranger(&bed), "p").await.exit_code(), 13);
            assert_eq!(bed.faults.commits(), commits);
        }
    }
}

/// A branch that was removed while it was open: followed back to before it was begun, nothing decides, and that is said.
#[tokio::test]
async fn a_removed_branch_is_followed_to_its_beginning() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Gone, 21));
        assert_eq!(found.looked_back.expect("followed back").ended, Ended::Begun);
        let shallow = calve.clone().with_reach(Reach { files: 1, asked: false }, Arc::new(NoProgress));
        let back = bed.reconcile(&shallow, "p").await.looked_back.expect("followed back");
        assert_eq!((back.files, back.ended), (1, Ended::Files));
    }
}

/// A missing file in between is named; what lies behind it is found all the same.
#[tokio::test]
async fn a_gap_in_the_chain() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let id = bed.id("p");
        forgotten(&bed, &calve, true, &[id.published_ref()]).await;
        let table = load(&bed).await;
        let newest = table.metadata.metadata_log().last().expect("a log").metadata_file.clone();
        table.file_io.delete(&newest).await.expect("deleted");
        let found = bed.reconcile(&stranger(&bed), "p").await;
        assert_eq!(found.row, 3, "{:?}", found.finding);
        let back = found.looked_back.expect("followed back");
        assert_eq!(back.unread.iter().map(|gap| gap.file.clone()).collect::<Vec<_>>(), [newest]);
    }
}

/// The log of the current metadata is short: older files are found through those that it names.
#[tokio::test]
async fn a_short_log_is_followed_on() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let keep = ("write.metadata.previous-versions-max".to_owned(), "2".to_owned());
        bed.engine().update(vec![iceberg::TableUpdate::SetProperties { updates: [keep].into() }]).await;
        let id = bed.id("p");
        forgotten(&bed, &calve, true, &[id.published_ref()]).await;
        for more in 0..3 {
            bed.engine().append("main", &[(12, 200 + more, 0)]).await.expect("appended");
        }
        assert_eq!(load(&bed).await.metadata.metadata_log().len(), 2);
        assert_eq!(bed.reconcile(&stranger(&bed), "p").await.row, 3);
    }
}

/// A metadata file that lies in the folder and that no other names was perhaps never committed: it proves nothing. Nor does
/// one of another table, under whatever name.
#[tokio::test]
async fn a_file_outside_the_chain_proves_nothing() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let open = load(&bed).await;
        let backup = Backup::of(&bed).await;
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        let published = load(&bed).await;
        let bytes = calve::catalog::metadata::render(&published.metadata).expect("rendered");
        // As a commit that lost leaves one behind: of this table, and in its folder.
        let beside = format!("{}/metadata/99999-lost.metadata.json", open.metadata.location());
        put(&open, &beside, &bytes).await;
        // The commit is undone, so that the file of it is outside the chain too.
        backup.restore(&bed);
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        let found = bed.reconcile(&stranger(&bed), "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Gone, 21), "{:?}", found.finding.proof);

        let log = load(&bed).await.metadata.metadata_log().to_vec();
        let named = &log.last().expect("a log").metadata_file;
        let other = uuid::Uuid::from_u128(78).to_string();
        let text = String::from_utf8(bytes).expect("JSON").replace(&open.metadata.uuid().to_string(), &other);
        drop(open.file_io.delete(named).await);
        put(&open, named, text.as_bytes()).await;
        let found = bed.reconcile(&stranger(&bed), "p").await;
        assert_eq!(found.finding.state, State::Gone, "{:?}", found.finding.proof);
        let unread = found.looked_back.expect("followed back").unread;
        let refused = unread.iter().find(|gap| gap.file == *named).expect("it is in the chain");
        assert!(refused.reason.contains("another table"), "{unread:?}");
    }
}

async fn put(table: &calve::catalog::LoadedTable, file: &str, bytes: &[u8]) {
    let output = table.file_io.new_output(file).expect("a file");
    output.write(bytes.to_vec().into()).await.expect("written");
}

/// Damaged files are named, and say nothing.
#[tokio::test]
async fn damaged_files_say_nothing() {
    let (bed, calve, _) = history(Kind::Embedded).await;
    let id = bed.id("p");
    forgotten(&bed, &calve, true, &[id.published_ref()]).await;
    for entry in load(&bed).await.metadata.metadata_log() {
        let path = entry.metadata_file.trim_start_matches("file://");
        let half = std::fs::read(path).expect("a file");
        std::fs::write(path, &half[..half.len() / 2]).expect("cut");
    }
    let found = bed.reconcile(&stranger(&bed), "p").await;
    assert_eq!((&found.finding.state, found.exit_code()), (&State::Consumed, 21));
    let unread = found.looked_back.expect("followed back").unread;
    assert!(!unread.is_empty() && unread.iter().all(|gap| gap.reason.contains("damaged")), "{unread:?}");
}
