//! A catalog that could not be connected to. It answers everything with the error that connecting met, and still has the
//! identity under which the journal remembers what was sent to it. Source: `protocol.md`, "Reconcile: the table decides", row 0.

use async_trait::async_trait;
use iceberg::TableCreation;

use super::{Catalog, CatalogError, Commit, LoadedTable, Reply};
use crate::ids::{CatalogIdentity, TableName};

/// A catalog that could not be connected to.
#[derive(Debug)]
pub struct Unreachable {
    identity: CatalogIdentity,
    shown: String,
    error: CatalogError,
}

impl Unreachable {
    /// The catalog of this identity, which is `shown` in messages, and what connecting to it met.
    pub fn new(identity: CatalogIdentity, shown: String, error: CatalogError) -> Self {
        Self { identity, shown, error }
    }

    /// What connecting met.
    pub fn error(&self) -> CatalogError {
        match &self.error {
            CatalogError::Unavailable { what, reason } => {
                CatalogError::Unavailable { what: what.clone(), reason: reason.clone() }
            }
            CatalogError::Forbidden { what, reason } => {
                CatalogError::Forbidden { what: what.clone(), reason: reason.clone() }
            }
            CatalogError::NoSuchTable { .. }
            | CatalogError::TableExists(_)
            | CatalogError::Damaged { .. }
            | CatalogError::Unsupported { .. }
            | CatalogError::Newer { .. }
            | CatalogError::ReadOnly { .. }
            | CatalogError::Invalid(_) => {
                CatalogError::Unavailable { what: self.shown.clone(), reason: self.error.to_string() }
            }
        }
    }
}

#[async_trait]
impl Catalog for Unreachable {
    fn identity(&self) -> &CatalogIdentity {
        &self.identity
    }

    fn describe(&self) -> String {
        self.shown.clone()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        Err(self.error())
    }

    async fn load(&self, _: &TableName) -> Result<LoadedTable, CatalogError> {
        Err(self.error())
    }

    async fn create(&self, _: &TableName, _: TableCreation) -> Result<LoadedTable, CatalogError> {
        Err(self.error())
    }

    async fn commit(&self, _: &Commit) -> Reply {
        Reply::NotSent { reason: self.error.to_string() }
    }
}
