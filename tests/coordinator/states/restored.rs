//! Tables that were put back, and journals that remember more than the table shows.

use std::path::PathBuf;

use calve::coordinator::Reach;
use iceberg::spec::TableMetadata;

use super::*;
use crate::support::load;

/// A table as it was: in the catalog's database, or as metadata to be put in its place.
pub enum Backup {
    Metadata(Arc<TableMetadata>),
    Database(PathBuf, Vec<u8>),
}

impl Backup {
    pub async fn of(bed: &Bed) -> Self {
        let table = load(bed).await;
        if bed.fake.is_some() {
            return Self::Metadata(table.metadata);
        }
        let location = PathBuf::from(table.metadata.location().trim_start_matches("file://"));
        let database = location.ancestors().map(|folder| folder.join("catalog.db")).find(|file| file.exists());
        let database = database.expect("the database");
        let bytes = std::fs::read(&database).expect("a copy");
        Self::Database(database, bytes)
    }

    /// Puts it back. The metadata files that were written since stay where they are, named by nobody.
    pub fn restore(&self, bed: &Bed) {
        match self {
            Self::Metadata(metadata) => {
                let fake = bed.fake.as_ref().expect("the fake");
                fake.restore(&bed.table, metadata.clone());
            }
            Self::Database(file, bytes) => std::fs::write(file, bytes).expect("put back"),
        }
    }
}

fn stranger(bed: &Bed) -> Coordinator {
    bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")))
}

/// When the backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    BeforeBegin,
    Sealed,
    Ended,
}

/// How the publication went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Published,
    /// Published, and nobody saw the answer or the table after it.
    Unseen,
    Closed,
}

/// A catalog that was restored from yesterday's backup, or in which an older metadata file was registered under the same
/// uuid: where the journal remembers more, that is named and every verb refuses; without it the table is believed.
#[tokio::test]
async fn a_restored_backup() {
    use Made::*;
    use Went::*;
    for kind in KINDS {
        for (made, went, appended_since, with_journal, without) in [
            (BeforeBegin, Published, 0, "regressed", "unknown"),
            (BeforeBegin, Closed, 0, "regressed", "unknown"),
            (BeforeBegin, Unseen, 0, "regressed", "unknown"),
            // Others have committed since, so that no number tells.
            (BeforeBegin, Published, 5, "regressed", "unknown"),
            (Sealed, Published, 0, "regressed", "sealed"),
            (Sealed, Closed, 0, "regressed", "sealed"),
            (Sealed, Published, 2, "regressed", "moved"),
            (Sealed, Closed, 2, "regressed", "moved"),
            // What nobody saw may be applied still, for all that anyone knows.
            (Sealed, Unseen, 0, "in-flight", "sealed"),
            (Ended, Published, 2, "published", "published"),
            (Ended, Closed, 2, "closed", "closed"),
        ] {
            let what = format!("{kind:?} {made:?} {went:?} {appended_since}");
            let (bed, calve, _) = history(kind).await;
            let mut backup = Backup::of(&bed).await;
            bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            if made == Sealed {
                backup = Backup::of(&bed).await;
            }
            match went {
                Published => assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0),
                Unseen => {
                    bed.faults.push(Fault::LoseReply);
                    let faults = bed.faults.clone();
                    let unread = async move || faults.fail_load(crate::support::unavailable());
                    bed.faults.before_commit(move || async move { unread().await });
                    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20, "{what}");
                }
                Closed => assert_eq!(bed.abandon(&calve, "p").await.expect("fenced").exit_code(), 0),
            }
            if made == Ended {
                backup = Backup::of(&bed).await;
            }
            bed.engine().append("main", &[(12, 50, 0)]).await.expect("appended, and lost with the backup");
            backup.restore(&bed);
            for id in 0..appended_since {
                bed.engine().append("main", &[(12, 60 + id, 0)]).await.expect("appended");
            }
            let found = bed.reconcile(&calve, "p").await;
            assert_eq!(found.finding.state.word(), with_journal, "{what}: {:#?}", found.finding);
            let told = bed.reconcile(&stranger(&bed), "p").await;
            assert_eq!(told.finding.state.word(), without, "{what}: {:#?}", told.finding);
            if with_journal == "regressed" {
                assert_eq!(found.exit_code(), 21, "{what}");
                let commits = bed.faults.commits();
                assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21], "{what}");
                assert_eq!(bed.faults.commits(), commits, "{what}: frozen");
                let proof = found.finding.proof.join("\n");
                let saw = match went {
                    Published => "showed it published",
                    Closed => "showed it closed",
                    Unseen => "the journal saw the table at sequence number",
                };
                assert!(proof.contains(saw), "{what}: {proof}");
            }
        }
    }
}

/// The journal saw it closed, and someone made the branch again at the seal: both are named, and nothing is done. Without the
/// journal, older metadata names both. Where the branch is removed, it is closed again.
#[tokio::test]
async fn a_closed_candidate_whose_branch_is_made_again() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let id = bed.id("p");
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.abandon(&calve, "p").await.expect("fenced");
        for name in [id.closed_ref(), id.audit_ref()] {
            bed.engine().remove_ref(name).await;
        }
        bed.engine().move_branch("audit/p", seal).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((found.finding.state.word(), found.exit_code()), ("regressed", 21), "{:?}", found.finding);
        let proof = found.finding.proof.join("\n");
        for fact in ["closed/p showed it closed", &format!("audit/p as a branch at {seal} again")] {
            assert!(proof.contains(fact), "{fact}: {proof}");
        }
        let commits = bed.faults.commits();
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
        assert_eq!(bed.faults.commits(), commits);

        let by = stranger(&bed);
        assert!(matches!(bed.reconcile(&by, "p").await.finding.state, State::Sealed { sent: Sent::NoJournal, .. }));
        let asking = by.with_reach(Reach { files: 100, asked: true }, Arc::new(NoProgress));
        let found = bed.reconcile(&asking, "p").await;
        let State::Ambiguous { reason, .. } = &found.finding.state else { panic!("{:?}", found.finding) };
        assert!(reason.contains("closed/p at") && reason.contains("audit/p is a branch at"), "{reason}");
        assert_eq!(found.exit_code(), 21);

        bed.engine().remove_ref(id.audit_ref()).await;
        assert_eq!(bed.reconcile(&calve, "p").await.finding.state, State::Closed);
        assert_eq!(bed.abandon(&calve, "p").await.expect("closed").exit_code(), 0);
    }
}

/// Each ref that a publication left, removed by others: published, as long as main or the journal tells of it.
#[tokio::test]
async fn refs_of_a_publication_that_were_removed() {
    for kind in KINDS {
        for names in 1..4_usize {
            let (bed, calve, _) = history(kind).await;
            let id = bed.id("p");
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
            let refs = [id.published_ref(), id.audit_ref()];
            for name in refs.iter().enumerate().filter(|(bit, _)| names & (1 << bit) != 0).map(|(_, name)| name) {
                bed.engine().remove_ref(name.clone()).await;
            }
            for by in [calve.clone(), stranger(&bed)] {
                let found = bed.reconcile(&by, "p").await;
                let shown = match &found.finding.state {
                    State::Published { snapshot, .. } => Some(*snapshot),
                    State::ReceiptRemoved { snapshot, .. } => *snapshot,
                    other => panic!("{names}: {other:?}"),
                };
                assert_eq!((shown, found.exit_code()), (Some(seal), 0), "{names}");
            }
            assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 0, 13], "{names}");
            assert_eq!(bed.ids().await, [1, 2, 3, 4]);
        }
    }
}

/// Row 1: a restored backup.
#[tokio::test]
async fn regressed() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let sealed = bed.catalog.load(&bed.table).await.expect("the table").metadata;
    bed.begin(&calve, "q", "true").await;
    bed.abandon(&calve, "q").await.expect("fenced");
    bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 12);
    fake.restore(&bed.table, sealed);
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Regressed { .. }), "{:?}", found.finding);
    assert_eq!((found.row, found.exit_code()), (1, 21));
    let commits = bed.faults.commits();
    assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
    assert_eq!(bed.faults.commits(), commits, "frozen");
}
