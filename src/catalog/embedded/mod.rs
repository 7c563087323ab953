//! The catalog of a folder: `DIR/catalog.db` in SQLite, tables beside it, no server.
//!
//! The adapter is the server here: [`EmbeddedCatalog::commit`] loads the table, checks the requirements, applies the
//! updates, writes the new metadata file durably, and swaps one row from the old file's name to the new one's. Only
//! the swap makes a change visible, and it is one SQLite transaction. Where another writer swapped first, the commit
//! starts over from what that writer left, requirements included. Nothing is deleted: the file of a swap that lost
//! stays, named by nobody.
//!
//! | reply | when |
//! |---|---|
//! | Accepted | COMMIT returned |
//! | Unknown | COMMIT failed |
//! | Refused 409 | a requirement does not hold; or other writers swapped first, again and again |
//! | Refused 404, 403, 400 | no such table; the warehouse is read-only; the updates are not valid |
//! | NotSent | anything that failed before COMMIT: a damaged or unreadable file, a full disk, a locked database |
//!
//! The rows are those of the SQL catalogs of Iceberg's Java, Python and Rust implementations (catalog name
//! [`CATALOG_NAME`]), which can read and write the same warehouse at the same time. `calve_meta` holds what is ours.
//!
//! SQLite keeps its rollback journal, with `synchronous = EXTRA`: a commit has returned only when the removal of its
//! journal is on the disk too, so that a power failure cannot roll it back. A write-ahead log would be as durable, but
//! cannot be read on a read-only medium and leaves part of the state in a second file, which copies of the folder lose.

mod database;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::TableCreation;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;

use self::database::{Database, Swap};
use super::apply::{self, Refusal};
use super::storage::{self, StorageError, StorageErrorKind};
use super::{Catalog, CatalogError, Commit, LoadedTable, Reply, metadata};
use crate::clock::Clock;
use crate::ids::{CatalogIdentity, TableName, TableUuid};

/// The name under which the tables stand in `iceberg_tables`; other implementations must be given the same name.
pub const CATALOG_NAME: &str = "calve";
/// The file in the warehouse's folder that holds the catalog.
pub const CATALOG_FILE: &str = "catalog.db";
/// The longest name that a table is given, in bytes.
const LONGEST_NAME: usize = 200;
/// How often a commit starts over because another writer swapped first.
const SWAP_TRIES: u32 = 50;
/// Folders of the warehouse that are no namespaces.
const RESERVED: [&str; 3] = ["journal", "contracts", "releases"];

/// A catalog in a folder of this machine.
#[derive(Debug)]
pub struct EmbeddedCatalog {
    folder: PathBuf,
    database: Database,
    identity: CatalogIdentity,
    file_io: FileIO,
    clock: Arc<dyn Clock>,
}

impl EmbeddedCatalog {
    /// Opens the warehouse in `folder`; where `create`, makes it if it is not there yet.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] where there is no warehouse, [`CatalogError::Newer`] for one that a newer version made,
    /// [`CatalogError::Damaged`] where its database is not readable as one, [`CatalogError::ReadOnly`] where it cannot
    /// be made, [`CatalogError::Unavailable`] where the system fails.
    pub async fn open(folder: &Path, create: bool, clock: Arc<dyn Clock>) -> Result<Self, CatalogError> {
        let shown = folder.display().to_string();
        let missing = |what: &str| {
            CatalogError::Invalid(format!(
                "warehouse {shown}: {what}; give the folder of a warehouse, or make one with \
                 `calve create TABLE --like FILE --warehouse {shown}`"
            ))
        };
        if create {
            storage::create_folder_durably(folder).map_err(|e| unwritable(e, &shown))?;
        }
        let folder = std::fs::canonicalize(folder).map_err(|e| missing(&e.to_string()))?;
        if folder.to_str().is_none() {
            return Err(CatalogError::Invalid(format!("warehouse {shown}: its path is not valid UTF-8")));
        }
        let file = folder.join(CATALOG_FILE);
        let exists = file
            .try_exists()
            .map_err(|e| CatalogError::Unavailable { what: file.display().to_string(), reason: e.to_string() })?;
        if !exists && !create {
            return Err(missing(&format!("there is no {CATALOG_FILE} in it")));
        }
        let database = Database::open(file, create).await?;
        if !database.is_laid_out().await? {
            if !create {
                return Err(missing(&format!("its {CATALOG_FILE} is not one of calve's")));
            }
            database.lay_out(clock.as_ref()).await?;
            storage::sync_folder(&folder).map_err(|e| unwritable(e, &shown))?;
        }
        let identity = database.identity().await?;
        Ok(Self { folder, database, identity, file_io: storage::durable_file_io(), clock })
    }

    /// The warehouse's folder, absolute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The table and where its metadata is; `None` where there is no such table.
    async fn read(&self, table: &TableName) -> Result<Option<(String, TableMetadata)>, CatalogError> {
        let mut location = self.database.location(table).await?;
        while let Some(named) = location {
            match read_metadata(&named).await {
                Ok(metadata) => return Ok(Some((named, metadata))),
                Err(error) => {
                    // Engines may delete old metadata files; what was named a moment ago may be old by now.
                    location = self.database.location(table).await?;
                    if location.as_ref() == Some(&named) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }

    fn loaded(&self, name: &TableName, location: String, metadata: TableMetadata) -> LoadedTable {
        LoadedTable {
            name: name.clone(),
            metadata: Arc::new(metadata),
            metadata_location: Some(location),
            file_io: self.file_io.clone(),
        }
    }

    async fn write_metadata(&self, location: &str, metadata: &TableMetadata) -> Result<(), CatalogError> {
        let bytes = metadata::render(metadata)?;
        let path = local(location)?;
        let written = storage::blocking(path, move |path| storage::write_durably(path, &bytes)).await;
        written.map_err(|e| unwritable(e, &self.describe()))
    }

    /// One try of a commit. `None`: another writer swapped first.
    async fn try_commit(&self, commit: &Commit) -> Result<Option<Reply>, CatalogError> {
        let Some((old, current)) = self.read(&commit.table).await? else {
            let message = format!("table {} does not exist in {}", commit.table, self.describe());
            return Ok(Some(Reply::Refused { status: 404, message }));
        };
        let applied =
            apply::check(commit, &current).and_then(|()| apply::apply(commit, &current, &old, self.clock.as_ref()));
        let next = match applied {
            Ok(next) => next,
            Err(Refusal { status, message }) => return Ok(Some(Reply::Refused { status, message })),
        };
        let new = metadata::next_location(&next, Some(&old), self.clock.fresh_uuid());
        self.write_metadata(&new, &next).await?;
        match self.database.swap(&commit.table, &old, &new).await {
            Swap::Done => Ok(Some(Reply::Accepted { table: Some(self.loaded(&commit.table, new, next)) })),
            Swap::Lost => Ok(None),
            Swap::NotTried(error) => Err(error),
            Swap::Unknown(reason) => Ok(Some(Reply::Unknown { reason })),
        }
    }

    /// `DIR/<namespace>/<table>` as a `file://` URI, which every engine reads; with a fresh suffix where that folder
    /// exists, because a table that was renamed keeps its files there. The levels of a namespace are joined by dots,
    /// so that no table's folder is inside another's.
    fn location_for(&self, table: &TableName) -> Result<String, CatalogError> {
        let namespace = table.namespace_text();
        if RESERVED.contains(&namespace.as_str()) {
            return Err(CatalogError::Invalid(format!(
                "namespace {namespace} cannot be used: {}/{namespace} is calve's own folder; choose another name",
                self.folder.display()
            )));
        }
        // Its folder, its contract's file and the columns of other implementations all have to hold the name.
        let full = table.to_string();
        if full.len() > LONGEST_NAME {
            return Err(CatalogError::Invalid(format!(
                "table name {full} is too long: {} bytes, where {LONGEST_NAME} are taken; choose a shorter one",
                full.len()
            )));
        }
        if table.namespace().iter().map(String::as_str).chain([table.name()]).any(|part| part.trim() != part) {
            return Err(CatalogError::Invalid(format!(
                "table name {full:?} has a part that begins or ends with a space; choose another name"
            )));
        }
        let parent = self.folder.join(namespace);
        let mut path = parent.join(table.name());
        if path.exists() {
            path = parent.join(format!("{}-{}", table.name(), self.clock.fresh_uuid().simple()));
        }
        let location = format!("file://{}", path.display());
        if location.contains(['?', '#', '%']) {
            return Err(CatalogError::Invalid(format!(
                "table {table} cannot be made at {location}: engines take `?`, `#` and `%` in it for parts of a URI; \
                 choose another folder or name"
            )));
        }
        Ok(location)
    }
}

#[async_trait]
impl Catalog for EmbeddedCatalog {
    fn identity(&self) -> &CatalogIdentity {
        &self.identity
    }

    fn describe(&self) -> String {
        format!("the warehouse {}", self.folder.display())
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.database.tables().await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        match self.read(table).await? {
            Some((location, metadata)) => Ok(self.loaded(table, location, metadata)),
            None => Err(CatalogError::NoSuchTable {
                table: table.clone(),
                catalog: self.describe(),
                known: self.tables().await?,
            }),
        }
    }

    async fn create(&self, table: &TableName, mut creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        if self.database.location(table).await?.is_some() {
            return Err(CatalogError::TableExists(table.clone()));
        }
        if creation.location.is_none() {
            creation.location = Some(self.location_for(table)?);
        }
        let made = apply::create(table, creation, self.clock.as_ref())?;
        let location = metadata::next_location(&made, None, self.clock.fresh_uuid());
        self.write_metadata(&location, &made).await?;
        self.database.insert(table, &location).await?;
        Ok(self.loaded(table, location, made))
    }

    fn read_with(&self, table: &LoadedTable) -> Vec<(String, String)> {
        let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
        let uri = quoted(&format!("sqlite:///{}", self.folder.join(CATALOG_FILE).display()));
        let python = format!(
            "from pyiceberg.catalog.sql import SqlCatalog; \
             SqlCatalog('{CATALOG_NAME}', uri={uri}).load_table({}).scan().to_arrow()",
            quoted(&table.name.to_string())
        );
        let duckdb = table.metadata_location.iter().map(|location| {
            ("DuckDB".to_owned(), format!("SELECT * FROM iceberg_scan('{}')", location.replace('\'', "''")))
        });
        std::iter::once(("PyIceberg".to_owned(), python)).chain(duckdb).collect()
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        for _ in 0..SWAP_TRIES {
            match self.try_commit(commit).await {
                Ok(Some(reply)) => return reply,
                Ok(None) => {}
                Err(error @ CatalogError::ReadOnly { .. }) => {
                    return Reply::Refused { status: 403, message: error.to_string() };
                }
                Err(error) => return Reply::NotSent { reason: error.to_string() },
            }
        }
        let message = format!(
            "contention: {SWAP_TRIES} times another writer changed table {} between reading it and changing it",
            commit.table
        );
        Reply::Refused { status: 409, message }
    }

    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        let Some((location, metadata)) = self.read(table).await? else { return Ok(()) };
        apply::is_still(&metadata, table, uuid)?;
        if self.database.remove(table, &location).await? {
            return Ok(());
        }
        let reason = "someone changed it meanwhile, so it stays".to_owned();
        Err(CatalogError::Unavailable { what: format!("dropping table {table}"), reason })
    }
}

fn local(location: &str) -> Result<PathBuf, CatalogError> {
    storage::local_path(location).ok_or_else(|| CatalogError::Unsupported {
        what: format!("the location {location}"),
        reason: "a warehouse in a folder keeps its tables in local files; reach this one through its own catalog"
            .to_owned(),
    })
}

async fn read_metadata(location: &str) -> Result<TableMetadata, CatalogError> {
    let read = storage::blocking(local(location)?, storage::read_file).await;
    let what = format!("metadata file {location}");
    let bytes = read.map_err(|error| match error.kind {
        StorageErrorKind::Missing => {
            CatalogError::Damaged { what, reason: "it is not there, though the catalog names it".to_owned() }
        }
        StorageErrorKind::ReadOnly | StorageErrorKind::Key => CatalogError::Forbidden { what, reason: error.reason },
        StorageErrorKind::Full
        | StorageErrorKind::Exists
        | StorageErrorKind::Unsupported
        | StorageErrorKind::Configuration
        | StorageErrorKind::Other => {
            CatalogError::Unavailable { what: format!("reading {what}"), reason: error.reason }
        }
    })?;
    metadata::parse(&bytes, location)
}

fn unwritable(error: StorageError, warehouse: &str) -> CatalogError {
    let (what, reason) = (warehouse.to_owned(), error.to_string());
    match error.kind {
        StorageErrorKind::ReadOnly => CatalogError::ReadOnly { what, reason },
        StorageErrorKind::Full
        | StorageErrorKind::Exists
        | StorageErrorKind::Missing
        | StorageErrorKind::Unsupported
        | StorageErrorKind::Configuration
        | StorageErrorKind::Key
        | StorageErrorKind::Other => CatalogError::Unavailable { what, reason },
    }
}
