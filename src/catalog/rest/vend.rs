//! Storage credentials that the catalog vends with a table. Source: REST specification, `LoadTableResult` and
//! `loadCredentials`.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::paths::Snapshots;
use super::wire::{CredentialsResponse, LoadTableResponse, StorageCredential};
use super::{Connected, State, tables};
use crate::catalog::CatalogError;
use crate::catalog::objects::{Credential, Vend, Vended};
use crate::catalog::properties::Properties;
use crate::clock;
use crate::ids::TableName;

/// The endpoint as a catalog lists it.
const CREDENTIALS_ENDPOINT: &str = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";
/// Properties with secrets for a storage, or their beginning.
const KEYS: [&str; 8] = [
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "gcs.oauth2.token",
    "gcs.token",
    "adls.sas-token",
    "adls.account-key",
    "adls.auth.",
];
/// Properties of the connection to the catalog, which a storage has no use for.
const CONNECTION: [&str; 9] =
    ["token", "credential", "uri", "oauth2-server-uri", "scope", "header.", "rest.", "ssl.", "prefix"];

/// Asks the catalog for fresh credentials for one table.
#[derive(Debug)]
pub(super) struct TableVend {
    pub state: Arc<State>,
    pub table: TableName,
}

#[async_trait]
impl Vend for TableVend {
    async fn vend(&self) -> Result<Vended, CatalogError> {
        let connected = &self.state.connected;
        let token = self.state.token(&self.table);
        if lists_credentials(connected) {
            let url = connected.paths.credentials(&self.table)?;
            let answer = connected.get(&url, token.as_ref()).await?;
            match answer.status {
                200 => {
                    let response: CredentialsResponse = tables::decode(&url, &answer)?;
                    return Ok(vended(&response.storage_credentials, &Properties::default()));
                }
                // It lists the endpoint and does not have it for this table.
                404 | 405 | 406 | 501 => {}
                _ => return Err(connected.refused(&url, &answer)),
            }
        }
        let response = connected.fetch(&self.table, Snapshots::Refs, token.as_ref()).await?;
        self.state.remember(&self.table, &response.config());
        Ok(vended_with(&response))
    }
}

fn lists_credentials(connected: &Connected) -> bool {
    let endpoints = connected.capabilities.endpoints.as_deref().unwrap_or_default();
    endpoints.iter().any(|endpoint| endpoint == CREDENTIALS_ENDPOINT)
}

/// What a table was answered with: the vended credentials, over those in its configuration.
pub(super) fn vended_with(response: &LoadTableResponse) -> Vended {
    vended(response.storage_credentials.as_deref().unwrap_or_default(), &response.config())
}

fn vended(credentials: &[StorageCredential], config: &Properties) -> Vended {
    let mut all: Vec<_> = credentials
        .iter()
        .map(|credential| Credential { prefix: credential.prefix.clone(), properties: credential.properties() })
        .collect();
    if config.iter().any(|(name, _)| KEYS.iter().any(|key| name.starts_with(key))) {
        // The empty prefix matches last.
        all.push(Credential { prefix: String::new(), properties: for_storage(config) });
    }
    let expires = all.iter().filter_map(|credential| expiry(&credential.properties)).min();
    Vended { credentials: all, expires }
}

/// The properties that concern a storage, not the connection to the catalog.
pub(super) fn for_storage(properties: &Properties) -> Properties {
    let concerns = |name: &str| {
        !CONNECTION.iter().any(|own| if own.ends_with('.') { name.starts_with(own) } else { name == *own })
    };
    properties.iter().filter(|(name, _)| concerns(name)).collect()
}

/// When the first of these credentials expires.
fn expiry(properties: &Properties) -> Option<DateTime<Utc>> {
    let says = |name: &str| {
        name == "s3.session-token-expires-at-ms"
            || name == "gcs.oauth2.token-expires-at"
            || name.starts_with("adls.sas-token-expires-at-ms.")
    };
    let times = properties.iter().filter(|(name, _)| says(name));
    times.filter_map(|(_, value)| clock::instant(value.trim().parse().ok()?)).min()
}
