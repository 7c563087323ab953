//! What goes over the wire, as far as calve reads or writes it. Source: the Iceberg REST catalog specification, its
//! schemas `CatalogConfig`, `ErrorModel`, `ListNamespacesResponse`, `ListTablesResponse`, `LoadTableResult`,
//! `LoadCredentialsResponse`, `CreateTableRequest`, `CommitTableRequest` and `CommitTransactionRequest`.
//!
//! Fields that calve has no use for are not read, so that a catalog may add to them. Table metadata stays a JSON value
//! here: `catalog::metadata` reads it, which keeps refs that the crate would lose.

use std::collections::{BTreeMap, HashMap};

use iceberg::spec::{Schema, SortOrder, UnboundPartitionSpec};
use iceberg::{TableCreation, TableRequirement, TableUpdate};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::catalog::Commit;
use crate::catalog::properties::Properties;
use crate::ids::TableName;

/// The answer of `GET /v1/config`. One of `defaults` and `overrides` must be there: any JSON object would do else.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigResponse {
    defaults: Option<BTreeMap<String, Option<String>>>,
    overrides: Option<BTreeMap<String, Option<String>>>,
    pub endpoints: Option<Vec<String>>,
    #[serde(rename = "idempotency-key-lifetime")]
    pub idempotency_key_lifetime: Option<String>,
}

impl ConfigResponse {
    /// Is this a catalog's configuration, not just any JSON object?
    pub(super) fn is_one(&self) -> bool {
        self.defaults.is_some() || self.overrides.is_some()
    }

    pub(super) fn defaults(&self) -> Properties {
        properties(self.defaults.as_ref())
    }

    pub(super) fn overrides(&self) -> Properties {
        properties(self.overrides.as_ref())
    }
}

/// A property without a value says nothing.
fn properties(map: Option<&BTreeMap<String, Option<String>>>) -> Properties {
    map.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect()
}

/// The error model: `{"error": {"message", "type", "code"}}`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorBody {
    /// E.g. `CommitFailedException`; empty where the body has none.
    pub kind: String,
    pub message: String,
}

/// The error of a body that follows the error model; `None` for any other body.
pub(super) fn error_of(body: &[u8]) -> Option<ErrorBody> {
    #[derive(Deserialize)]
    struct Envelope {
        error: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        #[serde(default, deserialize_with = "text_or_nothing")]
        message: String,
        #[serde(default, rename = "type", deserialize_with = "text_or_nothing")]
        kind: String,
    }
    let Envelope { error } = serde_json::from_slice(body).ok()?;
    Some(ErrorBody { kind: error.kind, message: error.message })
}

fn text_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// A page of namespaces, each a list of levels.
#[derive(Debug, Deserialize)]
pub(super) struct NamespacePage {
    pub namespaces: Vec<Vec<String>>,
    #[serde(rename = "next-page-token")]
    pub next: Option<String>,
}

/// A page of tables.
#[derive(Debug, Deserialize)]
pub(super) struct TablePage {
    pub identifiers: Vec<Identifier>,
    #[serde(rename = "next-page-token")]
    pub next: Option<String>,
}

/// The name of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identifier {
    pub namespace: Vec<String>,
    pub name: String,
}

impl From<&TableName> for Identifier {
    fn from(table: &TableName) -> Self {
        Self { namespace: table.namespace().to_vec(), name: table.name().to_owned() }
    }
}

/// The answer of loading or creating a table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LoadTableResponse {
    pub metadata_location: Option<String>,
    pub metadata: Value,
    #[serde(default)]
    config: Option<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    pub storage_credentials: Option<Vec<StorageCredential>>,
}

impl LoadTableResponse {
    pub(super) fn config(&self) -> Properties {
        properties(self.config.as_ref())
    }
}

/// Credentials for the locations that begin with a prefix. No `Debug`: all of it is secret.
#[derive(Deserialize)]
pub(super) struct StorageCredential {
    #[serde(default)]
    pub prefix: String,
    config: BTreeMap<String, Option<String>>,
}

impl StorageCredential {
    pub(super) fn properties(&self) -> Properties {
        properties(Some(&self.config))
    }
}

impl std::fmt::Debug for StorageCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorageCredential").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// The answer of `GET …/tables/{table}/credentials`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct CredentialsResponse {
    pub storage_credentials: Vec<StorageCredential>,
}

/// The answer of a commit of one table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct CommitResponse {
    pub metadata_location: Option<String>,
    pub metadata: Value,
}

/// The body of a commit of one table, and one change of a transaction.
#[derive(Debug, Serialize)]
pub(super) struct CommitRequest<'a> {
    identifier: Identifier,
    requirements: &'a [TableRequirement],
    updates: &'a [TableUpdate],
}

impl<'a> From<&'a Commit> for CommitRequest<'a> {
    fn from(commit: &'a Commit) -> Self {
        Self {
            identifier: Identifier::from(&commit.table),
            requirements: &commit.requirements,
            updates: &commit.updates,
        }
    }
}

/// The body of `POST …/transactions/commit`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct TransactionRequest<'a> {
    pub table_changes: Vec<CommitRequest<'a>>,
}

/// The body of creating a namespace.
#[derive(Debug, Serialize)]
pub(super) struct CreateNamespaceRequest<'a> {
    pub namespace: &'a [String],
    pub properties: HashMap<String, String>,
}

/// The body of creating a table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct CreateTableRequest {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    schema: Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_spec: Option<UnboundPartitionSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_order: Option<SortOrder>,
    stage_create: bool,
    properties: HashMap<String, String>,
}

impl From<TableCreation> for CreateTableRequest {
    fn from(creation: TableCreation) -> Self {
        let mut properties = creation.properties;
        // The request has no field for it; this is the property that every catalog takes it from.
        let version = (creation.format_version as u8).to_string();
        let _given = properties.entry("format-version".to_owned()).or_insert(version);
        Self {
            name: creation.name,
            location: creation.location,
            schema: creation.schema,
            // Iceberg's own Java parser wants an id, whatever it is; a new table's first spec is 0.
            partition_spec: creation.partition_spec.map(|spec| spec.with_spec_id(0)),
            write_order: creation.sort_order,
            stage_create: false,
            properties,
        }
    }
}

/// The answer of the token endpoint. No `Debug`: it is a secret.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub access_token: String,
    /// Seconds.
    #[serde(default)]
    pub expires_in: Option<i64>,
}

/// What the token endpoint says when it refuses. Source: RFC 6749, section 5.2.
pub(super) fn token_error_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default)]
        error_description: Option<String>,
    }
    let Refusal { error, error_description } = serde_json::from_slice(body).ok()?;
    Some(error_description.map_or(error.clone(), |description| format!("{error}: {description}")))
}
