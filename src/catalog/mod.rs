//! The port to a catalog: read a table, send one commit, say what came back.
//!
//! A [`Catalog`] knows nothing of publications. It sends a [`Commit`] **once** and reports one of four [`Reply`]s; what
//! a reply means for a publication is decided elsewhere, from the table. Source: `protocol.md`, "One request, three
//! replies".

mod apply;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod embedded;
#[cfg(feature = "testing")]
pub mod fake;
pub mod faults;
pub mod manifest_names;
pub mod metadata;
pub mod objects;
pub mod properties;
pub mod rest;
pub mod storage;
pub mod unreachable;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::TableCreation;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;

use crate::ids::{CatalogIdentity, TableName, TableUuid};
use crate::observed::Observed;

pub(crate) use apply::bare_snapshot;

pub use crate::publish::commits::Commit;

/// What came back for one commit.
#[derive(Debug)]
#[must_use = "a reply says what may have happened; it must be journaled and the table read"]
pub enum Reply {
    /// Provably never left this process.
    NotSent {
        /// Why.
        reason: String,
    },
    /// The catalog says it applied the change.
    Accepted {
        /// The table as the reply shows it; `None` where the reply has no body.
        table: Option<LoadedTable>,
    },
    /// The catalog says it did not apply the change. Not yet a verdict: a proxy may have replayed our own success.
    Refused {
        /// The HTTP status, or for the embedded catalog the status that its refusal corresponds to: 409 for a
        /// requirement that does not hold, 404 for an unknown table, 403 for one that may not be written, 400 for a
        /// change that is not valid.
        status: u16,
        /// The catalog's own words.
        message: String,
    },
    /// Anything else: it may have been applied, may be applied later, or never.
    Unknown {
        /// What was seen.
        reason: String,
    },
}

/// A table as loaded: its metadata, and the means to read its files.
#[derive(Debug, Clone)]
pub struct LoadedTable {
    /// Its name.
    pub name: TableName,
    /// Its metadata.
    pub metadata: Arc<TableMetadata>,
    /// Where the metadata file is, if the catalog says. For showing to readers; never read by calve.
    pub metadata_location: Option<String>,
    /// Reads and writes files under the table's location.
    pub file_io: FileIO,
}

impl LoadedTable {
    /// The facts that decisions are made from.
    pub fn observe(&self) -> Observed {
        Observed::from_metadata(&self.metadata)
    }

    /// The same table as the type that iceberg's scans take. Needs a tokio runtime.
    pub fn to_iceberg(&self) -> iceberg::Result<iceberg::table::Table> {
        let mut builder = iceberg::table::Table::builder()
            .identifier(self.name.to_ident())
            .metadata(self.metadata.clone())
            .file_io(self.file_io.clone())
            .runtime(iceberg::Runtime::try_current()?);
        if let Some(location) = &self.metadata_location {
            builder = builder.metadata_location(location.clone());
        }
        builder.build()
    }
}

/// Why a catalog could not be read, or a table not be created.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// No table of that name.
    #[error("table {table} does not exist in {catalog}{}", known_tables(.known))]
    NoSuchTable {
        /// The name asked for.
        table: TableName,
        /// The catalog asked.
        catalog: String,
        /// Tables that do exist, for the message.
        known: Vec<TableName>,
    },
    /// The name is taken.
    #[error("table {0} exists already")]
    TableExists(TableName),
    /// The catalog says this principal may not.
    #[error("the catalog refuses access to {what}: {reason}")]
    Forbidden {
        /// What was asked for.
        what: String,
        /// The catalog's own words.
        reason: String,
    },
    /// Something the catalog keeps is not readable as what it should be.
    #[error("{what} is damaged: {reason}; restore it from a backup, nothing was changed")]
    Damaged {
        /// The file or record, by name.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The table uses a feature that this version of calve cannot read or write.
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// The table, column or file.
        what: String,
        /// The feature, and what to do.
        reason: String,
    },
    /// Written by a newer version of calve or of the table format.
    #[error("{what} is of version {found}, and this calve reads up to {supported}: use a newer calve")]
    Newer {
        /// The warehouse, table or file.
        what: String,
        /// The version found.
        found: String,
        /// The newest version this calve reads.
        supported: String,
    },
    /// The catalog or its storage may only be read.
    #[error("{what} is read-only: {reason}")]
    ReadOnly {
        /// The warehouse.
        what: String,
        /// What the system said.
        reason: String,
    },
    /// The request or configuration is not one that this catalog takes.
    #[error("{0}")]
    Invalid(String),
    /// The catalog could not be reached, or failed.
    #[error("{what}: {reason}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// What the system said.
        reason: String,
    },
}

fn known_tables(known: &[TableName]) -> String {
    match known {
        [] => " (it has no table yet: make one with `calve create`)".to_owned(),
        known => {
            let names: Vec<_> = known.iter().take(10).map(ToString::to_string).collect();
            format!(" (it has {}{})", names.join(", "), if known.len() > 10 { ", …" } else { "" })
        }
    }
}

/// A catalog of Iceberg tables.
#[async_trait]
pub trait Catalog: Debug + Send + Sync {
    /// What tells this catalog from every other.
    fn identity(&self) -> &CatalogIdentity;

    /// A name for messages, e.g. the warehouse's folder or the catalog's URI; without secrets.
    fn describe(&self) -> String;

    /// Every table, sorted by name.
    async fn tables(&self) -> Result<Vec<TableName>, CatalogError>;

    /// The table as it is now, with all its snapshots.
    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError>;

    /// Makes a table, with its namespace where that is missing.
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError>;

    /// How other engines read the table as it is now: reader and line, for showing.
    fn read_with(&self, table: &LoadedTable) -> Vec<(String, String)> {
        let duckdb = |location: &String| ("DuckDB".to_owned(), format!("SELECT * FROM iceberg_scan('{location}')"));
        table.metadata_location.iter().map(duckdb).collect()
    }

    /// Sends the commit once.
    async fn commit(&self, commit: &Commit) -> Reply;

    /// What the catalog says of itself; nothing of it is believed before it was tried.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Sends several commits as one that is applied whole or not at all, once.
    async fn commit_all(&self, commits: &[Commit]) -> Reply {
        let reason = format!("{} has no way to commit {} tables at once", self.describe(), commits.len());
        Reply::NotSent { reason }
    }

    /// Drops a table that is still the one of this uuid, without its files. For scratch tables only.
    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        let reason = format!("{} drops no tables for calve ({uuid})", self.describe());
        Err(CatalogError::Unsupported { what: format!("dropping table {table}"), reason })
    }
}

/// What a catalog says of itself when it is asked for its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The endpoints that it lists, e.g. `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}`; `None` where it
    /// lists none, which says nothing.
    pub endpoints: Option<Vec<String>>,
    /// For how long it recognises an idempotency key, as it says it, e.g. `PT30M`.
    pub idempotency_key_lifetime: Option<String>,
}

#[async_trait]
impl<C: Catalog + ?Sized> Catalog for Arc<C> {
    fn identity(&self) -> &CatalogIdentity {
        (**self).identity()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        (**self).tables().await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        (**self).load(table).await
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        (**self).create(table, creation).await
    }

    fn read_with(&self, table: &LoadedTable) -> Vec<(String, String)> {
        (**self).read_with(table)
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        (**self).commit(commit).await
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn commit_all(&self, commits: &[Commit]) -> Reply {
        (**self).commit_all(commits).await
    }

    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        (**self).drop_scratch(table, uuid).await
    }
}
