//! A catalog over the Iceberg REST protocol, with a client of calve's own.
//!
//! Own, because a publication needs requirements, branches and tags in one request, and needs that request to leave
//! once and its answer to be taken for what it is; general clients rebase, retry, and call half of the answers errors.
//!
//! | file | holds |
//! |---|---|
//! | `reply` | what an answer to a commit means: one function, and the table of all statuses |
//! | `client` | the two HTTP clients: reads may be repeated, changes go out once |
//! | `auth`, `sigv4` | the credentials |
//! | `config` | connecting: properties, defaults and overrides |
//! | `tables`, `vend` | lists, loads, makes, drops; storage credentials |
//! | `paths`, `wire` | URLs and JSON |
//! | `readers` | how engines read the same table |
//! | `skew` | a clock that is ahead of the catalog's |
//! | `failure` | what a person is told, without secrets |

mod auth;
mod client;
mod config;
mod failure;
mod paths;
mod readers;
mod reply;
mod sigv4;
mod skew;
mod tables;
#[cfg(test)]
mod tests;
mod vend;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::{HeaderName, HeaderValue};
use iceberg::TableCreation;
use iceberg::io::FileIO;
use reqwest::Method;
use url::Url;

use self::auth::Token;
use self::client::{Call, Failure};
use self::config::Connected;
use self::readers::Readers;
use self::reply::{Exchange, Meaning, Sent};
use self::vend::TableVend;
use self::wire::{CommitRequest, LoadTableResponse, TransactionRequest};
use super::objects::{self, Vend};
use super::properties::Properties;
use super::unreachable::Unreachable;
use super::{Capabilities, Catalog, CatalogError, Commit, LoadedTable, Reply, metadata};
use crate::clock::Clock;
use crate::ids::{CatalogIdentity, TableName, TableUuid};

pub use self::paths::Snapshots;

/// The endpoint of transactions as a catalog lists it.
const TRANSACTION_ENDPOINT: &str = "POST /v1/{prefix}/transactions/commit";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A catalog over the Iceberg REST protocol.
#[derive(Debug)]
pub struct RestCatalog {
    state: Arc<State>,
    clock: Arc<dyn Clock>,
}

/// What a connection knows, shared with those that fetch storage credentials for its tables.
#[derive(Debug)]
struct State {
    connected: Connected,
    /// Tokens that the catalog gave for single tables.
    tokens: Mutex<HashMap<TableName, Token>>,
    /// Means to read the files of tables that were loaded, for commits, whose answers bring none.
    files: Mutex<HashMap<TableName, FileIO>>,
}

impl State {
    fn token(&self, table: &TableName) -> Option<Token> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned()
    }

    /// Keeps the token that a table's configuration brings. One that cannot be sent is none.
    fn remember(&self, table: &TableName, config: &Properties) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = config.get("token").and_then(|text| {
            self.connected.client.secrets().add(text);
            Token::bearer(text, "token").ok()
        });
        drop(match token {
            Some(token) => tokens.insert(table.clone(), token),
            None => tokens.remove(table),
        });
    }
}

impl RestCatalog {
    /// Connects: asks the catalog for its configuration.
    ///
    /// `properties` go by Iceberg's names: `uri`, `warehouse`, `prefix`, `token`, `credential`, `oauth2-server-uri`,
    /// `scope`, `audience`, `resource`, `rest.sigv4-enabled` and its settings, `header.*`, `ssl.cabundle`,
    /// `ssl.client.cert`, `ssl.client.key`, `rest.client.connection-timeout-ms`, `rest.client.socket-timeout-ms`,
    /// `rest.client.request-timeout-ms`, `rest.client.max-retries` (of reads), `rest-page-size`; and those of storages.
    /// For [`Catalog::read_with`], `calve.name` is the catalog's name, and `calve.pyiceberg` its name in PyIceberg's own
    /// settings, where they are the same.
    /// Source: REST specification, `getConfig`.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] where a property is wrong or the server is no catalog, [`CatalogError::Unavailable`]
    /// where it does not answer, [`CatalogError::Forbidden`] where it does not accept the credentials,
    /// [`CatalogError::Unsupported`] for Nessie.
    pub async fn connect(properties: &Properties, clock: Arc<dyn Clock>) -> Result<Self, CatalogError> {
        let connected = config::connect(properties, clock.clone()).await?;
        let state = State { connected, tokens: Mutex::default(), files: Mutex::default() };
        Ok(Self { state: Arc::new(state), clock })
    }

    /// A catalog that could not be connected to, for the sake of what the journal remembers of it.
    ///
    /// # Errors
    /// The settings name no catalog.
    pub fn unreached(properties: &Properties, error: CatalogError) -> Result<Unreachable, CatalogError> {
        let (identity, uri) = config::known(properties)?;
        Ok(Unreachable::new(identity, format!("catalog {uri}"), error))
    }

    /// The table with the snapshots that refs name and no others: smaller, and enough to see where refs stand.
    /// Source: REST specification, `loadTable`.
    ///
    /// # Errors
    /// As [`Catalog::load`].
    pub async fn load_refs(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.load_with(table, Snapshots::Refs).await
    }

    async fn load_with(&self, table: &TableName, snapshots: Snapshots) -> Result<LoadedTable, CatalogError> {
        let token = self.state.token(table);
        let response = self.state.connected.fetch(table, snapshots, token.as_ref()).await?;
        self.loaded(table, response)
    }

    fn loaded(&self, table: &TableName, response: LoadTableResponse) -> Result<LoadedTable, CatalogError> {
        let config = response.config();
        self.state.remember(table, &config);
        let properties = vend::for_storage(&self.state.connected.properties.overridden_by(&config));
        let vended = vend::vended_with(&response);
        let source = (!vended.credentials.is_empty()).then(|| {
            let source: Arc<dyn Vend> = Arc::new(TableVend { state: self.state.clone(), table: table.clone() });
            source
        });
        let file_io = objects::table_file_io(&properties, vended, source, self.clock.clone())?;
        let mut files = self.state.files.lock().unwrap_or_else(PoisonError::into_inner);
        drop(files.insert(table.clone(), file_io.clone()));
        drop(files);
        let named = format!("of table {table} in {}", self.state.connected.uri);
        Ok(LoadedTable {
            name: table.clone(),
            metadata: Arc::new(metadata::parse_value(response.metadata, &named)?),
            metadata_location: response.metadata_location,
            file_io,
        })
    }

    /// Sends a commit's request, once, and says what came of it.
    async fn transmit(
        &self,
        url: Result<Url, CatalogError>,
        body: Result<Vec<u8>, CatalogError>,
        sent: Sent<'_>,
        first: &Commit,
    ) -> Meaning {
        let (url, body) = match (url, body) {
            (Ok(url), Ok(body)) => (url, body),
            (Err(error), _) | (_, Err(error)) => return Meaning::NotSent { reason: error.to_string() },
        };
        if let Some(reason) = self.state.connected.client.clock_objection() {
            return Meaning::NotSent { reason };
        }
        let mut call = Call::new(Method::POST, url).json(body);
        if self.state.connected.capabilities.idempotency_key_lifetime.is_some()
            && let Ok(key) = HeaderValue::from_str(&first.key.0.to_string())
        {
            let _none = call.headers.insert(IDEMPOTENCY_KEY, key);
        }
        let token = match sent {
            Sent::Table(commit) => self.state.token(&commit.table),
            Sent::Transaction => None,
        };
        let client = &self.state.connected.client;
        let outcome = client.change(&call, token.as_ref()).await;
        let meaning = match &outcome {
            Ok(answer) => reply::classify(
                sent,
                Exchange::Answer { status: answer.status, content_type: &answer.content_type, body: &answer.body },
            ),
            Err(Failure::Configuration(error)) => {
                reply::classify(sent, Exchange::NotSent { reason: &error.to_string() })
            }
            Err(Failure::NotSent(reason)) => reply::classify(sent, Exchange::NotSent { reason }),
            Err(Failure::Lost(reason)) => reply::classify(sent, Exchange::NoAnswer { reason }),
        };
        match meaning {
            Meaning::Refused { status, message } => {
                Meaning::Refused { status, message: client.secrets().hide(message) }
            }
            Meaning::Unknown { reason } => Meaning::Unknown { reason: client.secrets().hide(reason) },
            other @ (Meaning::NotSent { .. } | Meaning::Accepted { .. }) => other,
        }
    }

    fn reply(&self, meaning: Meaning, table: Option<&TableName>) -> Reply {
        match meaning {
            Meaning::NotSent { reason } => Reply::NotSent { reason },
            Meaning::Refused { status, message } => Reply::Refused { status, message },
            Meaning::Unknown { reason } => Reply::Unknown { reason },
            Meaning::Accepted { table: shown } => {
                let files = self.state.files.lock().unwrap_or_else(PoisonError::into_inner);
                let table = shown.zip(table).and_then(|(shown, name)| {
                    Some(LoadedTable {
                        name: name.clone(),
                        metadata: Arc::new(shown.metadata),
                        metadata_location: shown.location,
                        // A table that this process never loaded is read before it is used.
                        file_io: files.get(name)?.clone(),
                    })
                });
                Reply::Accepted { table }
            }
        }
    }
}

#[async_trait]
impl Catalog for RestCatalog {
    fn identity(&self) -> &CatalogIdentity {
        &self.state.connected.identity
    }

    fn describe(&self) -> String {
        let connected = &self.state.connected;
        match &connected.warehouse {
            Some(warehouse) => format!("catalog {} (warehouse {})", connected.uri, failure::shown(warehouse)),
            None => format!("catalog {}", connected.uri),
        }
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.state.connected.list(None).await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        self.load_with(table, Snapshots::All).await
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        let response = self.state.connected.make(table, creation).await?;
        self.loaded(table, response)
    }

    fn read_with(&self, table: &LoadedTable) -> Vec<(String, String)> {
        let connected = &self.state.connected;
        let (uri, warehouse, user) = (&*connected.uri, connected.warehouse.as_deref(), &connected.user);
        Readers { uri, warehouse, user }.lines(&table.name)
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        let connected = &self.state.connected;
        let body = tables::to_json(&CommitRequest::from(commit));
        let meaning = self.transmit(connected.paths.table(&commit.table), body, Sent::Table(commit), commit).await;
        self.reply(meaning, Some(&commit.table))
    }

    fn capabilities(&self) -> Capabilities {
        self.state.connected.capabilities.clone()
    }

    async fn commit_all(&self, commits: &[Commit]) -> Reply {
        let connected = &self.state.connected;
        let Some(first) = commits.first() else {
            return Reply::NotSent { reason: "there is nothing to commit".to_owned() };
        };
        let endpoints = connected.capabilities.endpoints.as_deref();
        if endpoints.is_some_and(|listed| !listed.iter().any(|endpoint| endpoint == TRANSACTION_ENDPOINT)) {
            let reason = format!("{} lists no way to commit several tables at once", self.describe());
            return Reply::NotSent { reason };
        }
        let body = tables::to_json(&TransactionRequest { table_changes: commits.iter().map(Into::into).collect() });
        let meaning = self.transmit(connected.paths.transaction(), body, Sent::Transaction, first).await;
        self.reply(meaning, None)
    }

    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        self.state.connected.drop_table(table, uuid).await
    }
}
