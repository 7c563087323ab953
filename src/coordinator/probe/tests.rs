//! Catalogs with one defect each: the probe names it, and what safety rests on decides the verdict.

use std::sync::Arc;

use async_trait::async_trait;
use iceberg::spec::{SnapshotReference, SnapshotRetention};
use iceberg::{TableCreation, TableRequirement, TableUpdate};
use serde_json::{Value, json};

use crate::catalog::fake::FakeCatalog;
use crate::catalog::{Capabilities, Catalog, CatalogError, Commit, LoadedTable, Reply, metadata};
use crate::clock::{Clock, ManualClock};
use crate::coordinator::Coordinator;
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, Owner, PublicationId, TableName, TableUuid};
use crate::journal::memory::MemoryJournal;
use crate::journal::record::Record;
use crate::journal::{Journal, JournalError, LogKey, Put, PutIfAbsent};
use crate::publish::outcome::{EXIT_DONE, EXIT_REJECTED};
use crate::publish::trust::{Guarantee, Seen, Trust};
use crate::report::{ProbeReport, Report as _, Text as _};

/// What is wrong with a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Requirements on refs are not looked at.
    IgnoresRefs,
    /// The same, and sequence numbers are made to fit: a commit always lands.
    RebasesSilently,
    /// `null` is taken for "whatever it is".
    IgnoresNull,
    /// Requirements on uuid, schema and spec are not looked at.
    IgnoresAssertions,
    /// Only the first requirement is looked at.
    ChecksTheFirst,
    /// Only the last requirement is looked at.
    ChecksTheLast,
    /// What refuses a commit is noticed after its first update.
    AppliesTheFirst,
    /// 200 whatever happened.
    AcceptsAnyway,
    LosesSummaries,
    LosesRetention,
    /// A branch stays one, whatever it is set to.
    KeepsBranches,
    /// Only snapshots that a ref points at.
    ReturnsHeads,
    RemovesNothing,
    /// 400 where 409 belongs, as some do.
    Refuses400,
    /// Every answer is lost.
    Silent,
    /// Scratch tables stay.
    DropsNothing,
    /// Several tables are committed one after the other.
    OneByOne,
    /// Several tables are committed as they should be.
    Together,
}

#[derive(Debug)]
struct Defective {
    inner: FakeCatalog,
    defect: Defect,
}

impl Defective {
    /// The commit as this catalog understands it.
    async fn understood(&self, commit: &Commit) -> Commit {
        let mut commit = commit.clone();
        let of_ref = |r: &TableRequirement| matches!(r, TableRequirement::RefSnapshotIdMatch { .. });
        let of_null =
            |r: &TableRequirement| matches!(r, TableRequirement::RefSnapshotIdMatch { snapshot_id: None, .. });
        let number = self.inner.load(&commit.table).await.map_or(0, |table| table.metadata.last_sequence_number());
        match self.defect {
            Defect::IgnoresRefs | Defect::RebasesSilently => commit.requirements.retain(|r| !of_ref(r)),
            Defect::IgnoresNull => commit.requirements.retain(|r| !of_null(r)),
            Defect::IgnoresAssertions => commit.requirements.retain(of_ref),
            Defect::ChecksTheFirst => commit.requirements.truncate(1),
            Defect::ChecksTheLast => drop(commit.requirements.drain(..commit.requirements.len().saturating_sub(1))),
            Defect::RemovesNothing => {
                commit.updates.retain(|update| !matches!(update, TableUpdate::RemoveSnapshotRef { .. }));
            }
            Defect::KeepsBranches => commit.updates.retain(|update| {
                !matches!(update, TableUpdate::SetSnapshotRef { ref_name, reference }
                    if ref_name.starts_with("audit/") && !reference.is_branch() && commit.requirements.len() > 3)
            }),
            _ => {}
        }
        for update in &mut commit.updates {
            match (self.defect, &mut *update) {
                (Defect::LosesSummaries, TableUpdate::AddSnapshot { .. }) => {
                    change(update, |json| json["summary"] = json!({"operation": "append"}));
                }
                (Defect::RebasesSilently, TableUpdate::AddSnapshot { .. }) => {
                    change(update, |json| json["sequence-number"] = json!(number + 1));
                }
                (Defect::LosesRetention, TableUpdate::SetSnapshotRef { reference, .. }) => {
                    let retention = if reference.is_branch() {
                        SnapshotRetention::branch(None, None, None)
                    } else {
                        SnapshotRetention::Tag { max_ref_age_ms: None }
                    };
                    *reference = SnapshotReference::new(reference.snapshot_id, retention);
                }
                _ => {}
            }
        }
        commit
    }
}

/// Changes the snapshot of an update, as JSON.
fn change(update: &mut TableUpdate, with: impl FnOnce(&mut Value)) {
    let mut json = serde_json::to_value(&*update).unwrap();
    with(&mut json["snapshot"]);
    *update = serde_json::from_value(json).unwrap();
}

#[async_trait]
impl Catalog for Defective {
    fn identity(&self) -> &CatalogIdentity {
        self.inner.identity()
    }
    fn describe(&self) -> String {
        format!("a catalog that has the defect {:?}", self.defect)
    }
    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.inner.tables().await
    }
    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        let mut loaded = self.inner.load(table).await?;
        if self.defect == Defect::ReturnsHeads {
            let mut json: Value = serde_json::from_slice(&metadata::render(&loaded.metadata)?).unwrap();
            let heads: Vec<Value> =
                json["refs"].as_object().into_iter().flatten().map(|(_, r)| r["snapshot-id"].clone()).collect();
            if let Some(snapshots) = json["snapshots"].as_array_mut() {
                snapshots.retain(|snapshot| heads.contains(&snapshot["snapshot-id"]));
            }
            if let Some(log) = json["snapshot-log"].as_array_mut() {
                log.retain(|entry| heads.contains(&entry["snapshot-id"]));
            }
            loaded.metadata = Arc::new(metadata::parse(&serde_json::to_vec(&json).unwrap(), "heads")?);
        }
        Ok(loaded)
    }
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.inner.create(table, creation).await
    }
    async fn commit(&self, commit: &Commit) -> Reply {
        let understood = self.understood(commit).await;
        let reply = self.inner.commit(&understood).await;
        match (self.defect, reply) {
            (Defect::AppliesTheFirst, Reply::Refused { status, message }) => {
                let updates = commit.updates.iter().take(1).cloned().collect();
                let part = Commit { requirements: vec![], updates, ..commit.clone() };
                let _ignored = self.inner.commit(&part).await;
                Reply::Refused { status, message }
            }
            (Defect::AcceptsAnyway, Reply::Refused { .. }) => Reply::Accepted { table: None },
            (Defect::Refuses400, Reply::Refused { message, .. }) => Reply::Refused { status: 400, message },
            (Defect::Silent, _) => Reply::Unknown { reason: "timed out".to_owned() },
            (_, reply) => reply,
        }
    }
    fn capabilities(&self) -> Capabilities {
        let endpoints = Some(vec![super::cases::COMMIT_ENDPOINT.to_owned()]);
        Capabilities { endpoints, idempotency_key_lifetime: Some("PT30M".to_owned()) }
    }
    async fn commit_all(&self, commits: &[Commit]) -> Reply {
        let message = "POST transactions/commit: there is no such path".to_owned();
        match self.defect {
            Defect::OneByOne => {
                for commit in commits {
                    match self.inner.commit(commit).await {
                        Reply::Accepted { .. } => {}
                        other => return other,
                    }
                }
                Reply::Accepted { table: None }
            }
            Defect::Together => {
                for commit in commits {
                    let nothing = Commit { updates: vec![], ..commit.clone() };
                    if let refused @ Reply::Refused { .. } = self.inner.commit(&nothing).await {
                        return refused;
                    }
                }
                for commit in commits {
                    let _accepted = self.inner.commit(commit).await;
                }
                Reply::Accepted { table: None }
            }
            _ => Reply::Refused { status: 404, message },
        }
    }
    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        if self.defect == Defect::DropsNothing {
            let reason = "not for this principal".to_owned();
            return Err(CatalogError::Forbidden { what: format!("dropping {table}"), reason });
        }
        self.inner.drop_scratch(table, uuid).await
    }
}

async fn probe_with(defect: Defect, journal: impl Journal + 'static) -> (Coordinator, ProbeReport) {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(3));
    let catalog = Arc::new(Defective { inner: FakeCatalog::new(clock.clone()), defect });
    let coordinator = Coordinator::new(catalog, Arc::new(journal), clock, Owner("ann".to_owned()));
    let report = coordinator.probe("scratch.deep").await.unwrap();
    (coordinator, report)
}

async fn probe(defect: Defect) -> ProbeReport {
    probe_with(defect, MemoryJournal::new()).await.1
}

fn seen(report: &ProbeReport, guarantee: Guarantee) -> Seen {
    report.guarantees.iter().find(|found| found.guarantee == guarantee).unwrap().seen
}

#[tokio::test]
async fn a_sound_catalog_is_safe_and_left_as_it_was() {
    let (coordinator, report) = probe_with(Defect::None, MemoryJournal::new()).await;
    assert_eq!((&report.trust, report.exit_code()), (&Trust::Safe, EXIT_DONE), "{}", report.text());
    assert!(report.text().contains("SAFE TO PUBLISH"));
    assert!(report.warnings.is_empty());
    assert!(coordinator.catalog().tables().await.unwrap().is_empty(), "the scratch tables are dropped");
    let shown: Vec<_> = report.guarantees.iter().map(|found| found.guarantee).collect();
    assert_eq!(shown, Guarantee::ALL);
    for found in report.guarantees.iter().filter(|found| found.needed) {
        assert!(found.request.is_some(), "{found:?}");
    }
}

/// Each defect, and all that it breaks.
#[tokio::test]
async fn every_defect_is_caught_by_name() {
    use Guarantee::{
        AllOrNothing, AllSnapshots, FalseExpectation, NullMeansAbsent, OneWinner, RefsInOneCommit, RetentionKept,
        SummaryKept, TableAssertions,
    };
    let refs = [FalseExpectation, NullMeansAbsent, RefsInOneCommit];
    for (defect, expected) in [
        (Defect::IgnoresRefs, [&refs[..], &[AllOrNothing]].concat()),
        (Defect::RebasesSilently, [&refs[..], &[AllOrNothing, OneWinner]].concat()),
        (Defect::IgnoresNull, vec![FalseExpectation, NullMeansAbsent]),
        (Defect::IgnoresAssertions, vec![TableAssertions]),
        (Defect::ChecksTheFirst, vec![RefsInOneCommit, AllOrNothing]),
        (Defect::ChecksTheLast, vec![AllOrNothing]),
        (
            Defect::AppliesTheFirst,
            vec![FalseExpectation, NullMeansAbsent, RefsInOneCommit, TableAssertions, AllOrNothing],
        ),
        (
            Defect::AcceptsAnyway,
            vec![FalseExpectation, NullMeansAbsent, RefsInOneCommit, TableAssertions, AllOrNothing, OneWinner],
        ),
        (Defect::LosesSummaries, vec![SummaryKept]),
        (Defect::LosesRetention, vec![RefsInOneCommit, RetentionKept]),
        (Defect::KeepsBranches, vec![RefsInOneCommit]),
        (Defect::ReturnsHeads, vec![AllSnapshots]),
    ] {
        let report = probe(defect).await;
        let Trust::Refused { broken, unknown } = &report.trust else { panic!("{defect:?} is trusted") };
        assert_eq!((broken, unknown.as_slice()), (&expected, &[][..]), "{defect:?}: {}", report.text());
        assert_eq!(report.exit_code(), EXIT_REJECTED);
        for guarantee in broken {
            assert!(report.text().contains(guarantee.words()), "{}", report.text());
        }
    }
}

#[tokio::test]
async fn what_is_only_good_to_know_refuses_nothing() {
    let report = probe(Defect::RemovesNothing).await;
    assert_eq!((seen(&report, Guarantee::RemovedRef), &report.trust), (Seen::Broken, &Trust::Safe));
    let report = probe(Defect::Refuses400).await;
    assert_eq!(report.trust, Trust::Safe, "{}", report.text());
    assert!(report.text().contains("refused with 400 instead of 409"), "{}", report.text());
}

#[tokio::test]
async fn several_tables() {
    for (defect, expected) in
        [(Defect::None, Seen::NotTested), (Defect::OneByOne, Seen::Broken), (Defect::Together, Seen::Holds)]
    {
        let report = probe(defect).await;
        assert_eq!((seen(&report, Guarantee::Transactions), &report.trust), (expected, &Trust::Safe), "{defect:?}");
    }
}

#[tokio::test]
async fn what_has_no_clear_answer_is_not_trusted() {
    let report = probe(Defect::Silent).await;
    let Trust::Refused { broken, unknown } = &report.trust else { panic!("trusted: {}", report.text()) };
    assert!(broken.is_empty() && unknown.len() == 9, "{}", report.text());
}

/// A journal whose store was seen to do this.
#[derive(Debug)]
struct Store(Option<PutIfAbsent>);

#[async_trait]
impl Journal for Store {
    fn root(&self) -> String {
        "s3://ops/calve".to_owned()
    }
    async fn read(&self, _: &LogKey) -> Result<Vec<Record>, JournalError> {
        Ok(Vec::new())
    }
    async fn put(&self, _: &LogKey, _: &Record) -> Result<Put, JournalError> {
        Ok(Put::Won)
    }
    async fn publications(&self, _: &CatalogIdentity, _: TableUuid) -> Result<Vec<PublicationId>, JournalError> {
        Ok(Vec::new())
    }
    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        Ok(Vec::new())
    }
    async fn tables(&self, _: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        Ok(Vec::new())
    }
    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        Ok((Digest::of_bytes(bytes), String::new()))
    }
    async fn statement(&self, _: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        Ok(None)
    }
    async fn prove_put_if_absent(&self, _: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        let failed = || JournalError::Io { path: self.root(), reason: "timed out".to_owned(), unwritable: false };
        self.0.ok_or_else(failed)
    }
}

#[tokio::test]
async fn a_store_without_put_if_absent_is_refused_by_name() {
    let proof = |winners, kept| Some(PutIfAbsent { writers: 9, winners, kept });
    let put = Guarantee::PutIfAbsent;
    let broken = || Trust::Refused { broken: vec![put], unknown: vec![] };
    for (store, expected) in [
        (proof(1, true), Trust::Safe),
        (proof(1, false), broken()),
        (proof(2, false), broken()),
        (proof(0, false), broken()),
        (None, Trust::Refused { broken: vec![], unknown: vec![put] }),
    ] {
        let (_, report) = probe_with(Defect::None, Store(store)).await;
        assert_eq!(report.trust, expected, "{}", report.text());
    }
}

#[tokio::test]
async fn tables_left_behind_are_named() {
    let (coordinator, report) = probe_with(Defect::DropsNothing, MemoryJournal::new()).await;
    let tables = coordinator.catalog().tables().await.unwrap();
    assert_eq!(tables.len(), 2);
    assert_eq!(report.warnings.len(), 2);
    for table in tables {
        assert!(report.warnings.iter().any(|warning| warning.contains(&table.to_string())), "{:?}", report.warnings);
    }
    assert_eq!(report.trust, Trust::Safe);
}

#[tokio::test]
async fn only_the_table_that_was_made_is_dropped() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(3));
    let fake = FakeCatalog::new(clock.clone());
    let table: TableName = "n.t".parse().unwrap();
    let made = fake.create(&table, super::scratch::creation(&table).unwrap()).await.unwrap().observe().uuid;
    let other = TableUuid(clock.fresh_uuid());
    let error = fake.drop_scratch(&table, other).await.unwrap_err();
    assert!(error.to_string().contains("n.t") && fake.load(&table).await.is_ok(), "{error}");
    fake.drop_scratch(&table, made).await.unwrap();
    assert!(fake.load(&table).await.is_err());
}
