//! A catalog in memory that behaves as a server does, for tests and simulation.
//!
//! Files are in memory too, metadata files included, so that a scan reads what a writer wrote.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use iceberg::TableCreation;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;

use super::apply::{self, Refusal};
use super::{Catalog, CatalogError, Commit, LoadedTable, Reply, metadata};
use crate::clock::Clock;
use crate::ids::{CatalogIdentity, TableName, TableUuid};

/// One table: every metadata it ever had, oldest first, each with its location.
type Versions = Vec<(String, Arc<TableMetadata>)>;

/// A catalog in memory.
#[derive(Debug)]
pub struct FakeCatalog {
    identity: CatalogIdentity,
    clock: Arc<dyn Clock>,
    file_io: FileIO,
    root: String,
    tables: Mutex<BTreeMap<TableName, Versions>>,
}

impl FakeCatalog {
    /// An empty catalog.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_files(clock, FileIO::new_with_memory(), "memory://")
    }

    /// An empty catalog whose tables have their files under a location, reached through `file_io`.
    pub fn with_files(clock: Arc<dyn Clock>, file_io: FileIO, root: &str) -> Self {
        let identity = CatalogIdentity(clock.fresh_uuid().to_string());
        Self { identity, clock, file_io, root: root.to_owned(), tables: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableName, Versions>> {
        self.tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads and writes the files of all its tables.
    pub fn file_io(&self) -> &FileIO {
        &self.file_io
    }

    /// Gives a table another name, as a third party would; false where there is none, or the name is taken.
    pub fn rename(&self, from: &TableName, to: &TableName) -> bool {
        let mut tables = self.lock();
        if tables.contains_key(to) {
            return false;
        }
        match tables.remove(from) {
            Some(versions) => tables.insert(to.clone(), versions).is_none(),
            None => false,
        }
    }

    /// Drops a table, as a third party would; its files stay. False where there is none.
    pub fn drop_table(&self, table: &TableName) -> bool {
        self.lock().remove(table).is_some()
    }

    /// Puts metadata in place of the table's own, without any check: a restored backup, or another table registered
    /// under the name.
    pub fn restore(&self, table: &TableName, metadata: Arc<TableMetadata>) {
        let mut tables = self.lock();
        let versions = tables.entry(table.clone()).or_default();
        let previous = versions.last().map(|(location, _)| location.as_str());
        let location = metadata::next_location(&metadata, previous, self.clock.fresh_uuid());
        versions.push((location, metadata));
    }

    /// Every metadata the table ever had, oldest first; empty where there is no such table.
    pub fn metadata_versions(&self, table: &TableName) -> Vec<Arc<TableMetadata>> {
        let tables = self.lock();
        tables.get(table).into_iter().flatten().map(|(_, metadata)| metadata.clone()).collect()
    }

    fn loaded(&self, name: &TableName, location: String, metadata: Arc<TableMetadata>) -> LoadedTable {
        LoadedTable { name: name.clone(), metadata, metadata_location: Some(location), file_io: self.file_io.clone() }
    }

    /// What a server persists is what it can read back, so a commit that does not survive its own file fails here too.
    fn persisted(
        &self,
        location: &str,
        metadata: &TableMetadata,
    ) -> Result<(Vec<u8>, Arc<TableMetadata>), CatalogError> {
        let bytes = metadata::render(metadata)?;
        let read = metadata::parse(&bytes, location)?;
        Ok((bytes, Arc::new(read)))
    }

    async fn write(&self, location: &str, bytes: Vec<u8>) -> Result<(), CatalogError> {
        let output = self.file_io.new_output(location);
        let written = match output {
            Ok(output) => output.write(bytes.into()).await,
            Err(error) => Err(error),
        };
        written.map_err(|e| CatalogError::Unavailable { what: location.to_owned(), reason: e.to_string() })
    }

    /// All under one lock: one commit after another, as a server's database has it.
    fn decide(&self, commit: &Commit) -> Result<(String, Vec<u8>, Arc<TableMetadata>), Refusal> {
        let mut tables = self.lock();
        let versions = tables.get_mut(&commit.table);
        let Some((last, versions)) = versions.and_then(|all| Some((all.last().cloned()?, all))) else {
            return Err(Refusal { status: 404, message: format!("table {} does not exist", commit.table) });
        };
        let (old, current) = last;
        apply::check(commit, &current)?;
        let next = apply::apply(commit, &current, &old, self.clock.as_ref())?;
        let location = metadata::next_location(&next, Some(&old), self.clock.fresh_uuid());
        let (bytes, read) =
            self.persisted(&location, &next).map_err(|e| Refusal { status: 400, message: e.to_string() })?;
        versions.push((location.clone(), read.clone()));
        Ok((location, bytes, read))
    }
}

#[async_trait]
impl Catalog for FakeCatalog {
    fn identity(&self) -> &CatalogIdentity {
        &self.identity
    }

    fn describe(&self) -> String {
        "the catalog in memory".to_owned()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        Ok(self.lock().keys().cloned().collect())
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        let found = self.lock().get(table).and_then(|versions| versions.last()).cloned();
        match found {
            Some((location, metadata)) => Ok(self.loaded(table, location, metadata)),
            None => Err(CatalogError::NoSuchTable {
                table: table.clone(),
                catalog: self.describe(),
                known: self.tables().await?,
            }),
        }
    }

    async fn create(&self, table: &TableName, mut creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        if creation.location.is_none() {
            // A table that was renamed keeps its files, so a name alone is no location.
            let unique = self.clock.fresh_uuid().simple();
            creation.location = Some(format!("{}/{}/{}-{unique}", self.root, table.namespace_text(), table.name()));
        }
        let made = apply::create(table, creation, self.clock.as_ref())?;
        let location = metadata::next_location(&made, None, self.clock.fresh_uuid());
        let (bytes, made) = self.persisted(&location, &made)?;
        {
            let mut tables = self.lock();
            if tables.contains_key(table) {
                return Err(CatalogError::TableExists(table.clone()));
            }
            let _previous = tables.insert(table.clone(), vec![(location.clone(), made.clone())]);
        }
        self.write(&location, bytes).await?;
        Ok(self.loaded(table, location, made))
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        match self.decide(commit) {
            Ok((location, bytes, metadata)) => match self.write(&location, bytes).await {
                Ok(()) => Reply::Accepted { table: Some(self.loaded(&commit.table, location, metadata)) },
                Err(error) => Reply::Unknown { reason: error.to_string() },
            },
            Err(Refusal { status, message }) => Reply::Refused { status, message },
        }
    }

    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        let found = self.load(table).await?;
        apply::is_still(&found.metadata, table, uuid)?;
        drop(self.lock().remove(table));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::conformance::{self, Subject};
    use crate::catalog::faults::Faults;
    use crate::clock::ManualClock;

    fn fake() -> (Arc<dyn Clock>, FakeCatalog) {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(7));
        (clock.clone(), FakeCatalog::new(clock))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn conforms() {
        conformance::run(|| async {
            let (clock, fake) = fake();
            Subject { catalog: Arc::new(fake), clock, namespace: "n".to_owned(), keep: Box::new(()) }
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn conforms_behind_a_network_without_faults() {
        conformance::run(|| async {
            let (clock, fake) = fake();
            let catalog = Arc::new(Faults::new(fake));
            Subject { catalog, clock, namespace: "n".to_owned(), keep: Box::new(()) }
        })
        .await;
    }
    #[tokio::test]
    async fn third_parties_rename_drop_and_restore() {
        let (_, fake) = fake();
        let (one, two): (TableName, TableName) = ("n.one".parse().unwrap(), "n.two".parse().unwrap());
        let made = fake.create(&one, conformance::small_table(&one, iceberg::spec::FormatVersion::V2)).await.unwrap();
        let backup = made.metadata.clone();
        let property = ("p".to_owned(), "1".to_owned());
        let commit = Commit {
            table: one.clone(),
            requirements: vec![],
            updates: vec![iceberg::TableUpdate::SetProperties { updates: [property].into() }],
            key: fake.clock.fresh_key(),
        };
        assert!(matches!(fake.commit(&commit).await, Reply::Accepted { .. }));
        assert_eq!(fake.metadata_versions(&one).len(), 2);
        fake.restore(&one, backup.clone());
        assert_eq!(fake.load(&one).await.unwrap().metadata, backup);
        assert_eq!(fake.metadata_versions(&one).len(), 3);
        assert!(fake.rename(&one, &two) && !fake.rename(&one, &two));
        assert_eq!(fake.load(&two).await.unwrap().metadata.uuid(), backup.uuid());
        assert!(matches!(fake.load(&one).await, Err(CatalogError::NoSuchTable { .. })));
        assert!(fake.drop_table(&two) && !fake.drop_table(&two));
        assert!(fake.tables().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn metadata_files_can_be_read() {
        let (_, fake) = fake();
        let name: TableName = "n.t".parse().unwrap();
        let made = fake.create(&name, conformance::small_table(&name, iceberg::spec::FormatVersion::V1)).await.unwrap();
        let location = made.metadata_location.unwrap();
        let bytes = fake.file_io().new_input(&location).unwrap().read().await.unwrap();
        assert_eq!(metadata::parse(&bytes, &location).unwrap(), *made.metadata);
    }
}
