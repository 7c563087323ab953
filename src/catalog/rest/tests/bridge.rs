//! A REST catalog made of the catalog in memory, so that the client passes what every catalog must.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use iceberg::spec::{FormatVersion, Schema};
use iceberg::{TableCreation, TableRequirement, TableUpdate};
use serde::Deserialize;
use serde_json::{Value, json};

use super::testkit::{Answer, Request, Server};
use crate::catalog::fake::FakeCatalog;
use crate::catalog::rest::paths::decode;
use crate::catalog::rest::wire::Identifier;
use crate::catalog::{Catalog, CatalogError, Commit, LoadedTable, Reply, metadata};
use crate::clock::Clock;
use crate::ids::TableName;

/// What the server holds.
pub(super) struct Bridge {
    pub fake: FakeCatalog,
    namespaces: Mutex<BTreeSet<Vec<String>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Deserialize)]
struct Change {
    identifier: Identifier,
    requirements: Vec<TableRequirement>,
    updates: Vec<TableUpdate>,
}

impl Bridge {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { fake: FakeCatalog::new(clock.clone()), namespaces: Mutex::default(), clock })
    }

    pub(super) async fn serve(self: Arc<Self>) -> Server {
        Server::with_script(Arc::new(move |request| {
            let this = self.clone();
            async move { this.answer(&request).await }.boxed()
        }))
        .await
    }

    pub(super) async fn answer(&self, request: &Request) -> Answer {
        let segments: Vec<_> = request.path().trim_start_matches("/v1/").split('/').map(decode).collect();
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        let levels = |text: &str| text.split('\u{1f}').map(str::to_owned).collect::<Vec<_>>();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["config"]) => Answer::plain_config(),
            ("GET", ["namespaces"]) => {
                let query = request.target.split_once("?parent=").map(|(_, parent)| levels(&decode(parent)));
                let parent = query.unwrap_or_default();
                let all = self.namespaces.lock().unwrap();
                let under = all.iter().filter(|l| l.len() == parent.len() + 1 && l.starts_with(&parent));
                Answer::json(200, &json!({"namespaces": under.collect::<Vec<_>>()}))
            }
            ("POST", ["namespaces"]) => {
                let levels: Vec<String> = serde_json::from_value(request.json()["namespace"].clone()).unwrap();
                let mut all = self.namespaces.lock().unwrap();
                let parent = &levels[..levels.len() - 1];
                if !parent.is_empty() && !all.contains(parent) {
                    return Answer::error(404, "NoSuchNamespaceException", "its parent does not exist");
                }
                if !all.insert(levels) {
                    return Answer::error(409, "AlreadyExistsException", "it exists");
                }
                Answer::json(200, &json!({}))
            }
            ("GET", ["namespaces", namespace]) => match self.namespaces.lock().unwrap().contains(&levels(namespace)) {
                true => Answer::json(200, &json!({"namespace": levels(namespace)})),
                false => Answer::error(404, "NoSuchNamespaceException", "no such namespace"),
            },
            ("GET", ["namespaces", namespace, "tables"]) => {
                let tables = self.fake.tables().await.unwrap();
                let inside = tables.iter().filter(|table| table.namespace() == levels(namespace));
                let identifiers: Vec<_> =
                    inside.map(|table| json!({"namespace": table.namespace(), "name": table.name()})).collect();
                Answer::json(200, &json!({"identifiers": identifiers}))
            }
            ("POST", ["namespaces", namespace, "tables"]) => self.create(levels(namespace), &request.json()).await,
            ("GET", ["namespaces", namespace, "tables", table]) => {
                let table = TableName::new(levels(namespace), (*table).to_owned()).unwrap();
                match self.fake.load(&table).await {
                    Ok(table) => Answer::json(200, &shown(&table)),
                    Err(_) => Answer::error(404, "NoSuchTableException", "no such table"),
                }
            }
            ("POST", ["namespaces", _, "tables", _]) => {
                self.commit(serde_json::from_value(request.json()).unwrap()).await
            }
            ("DELETE", ["namespaces", namespace, "tables", table]) => {
                let table = TableName::new(levels(namespace), (*table).to_owned()).unwrap();
                let _gone = self.fake.drop_table(&table);
                Answer::empty(204)
            }
            _ => Answer::error(406, "UnsupportedOperationException", "no such endpoint"),
        }
    }

    async fn create(&self, namespace: Vec<String>, body: &Value) -> Answer {
        let name: String = serde_json::from_value(body["name"].clone()).unwrap();
        let schema: Schema = serde_json::from_value(body["schema"].clone()).unwrap();
        let version = match body["properties"]["format-version"].as_str() {
            Some("1") => FormatVersion::V1,
            Some("3") => FormatVersion::V3,
            _ => FormatVersion::V2,
        };
        let creation = TableCreation::builder().name(name.clone()).schema(schema).format_version(version).build();
        match self.fake.create(&TableName::new(namespace, name).unwrap(), creation).await {
            Ok(table) => Answer::json(200, &shown(&table)),
            Err(CatalogError::TableExists(_)) => Answer::error(409, "AlreadyExistsException", "it exists"),
            Err(error) => Answer::error(400, "BadRequestException", &error.to_string()),
        }
    }

    async fn commit(&self, change: Change) -> Answer {
        let table = TableName::new(change.identifier.namespace, change.identifier.name).unwrap();
        let Change { requirements, updates, .. } = change;
        let commit = Commit { table, requirements, updates, key: self.clock.fresh_key() };
        match self.fake.commit(&commit).await {
            Reply::Accepted { table: Some(table) } => Answer::json(200, &shown(&table)),
            Reply::Accepted { table: None } => Answer::empty(204),
            Reply::Refused { status, message } => Answer::error(status, "CommitFailedException", &message),
            Reply::NotSent { reason } | Reply::Unknown { reason } => {
                Answer::error(500, "CommitStateUnknownException", &reason)
            }
        }
    }
}

/// A table as a catalog answers it.
pub(super) fn shown(table: &LoadedTable) -> Value {
    let metadata: Value = serde_json::from_slice(&metadata::render(&table.metadata).unwrap()).unwrap();
    json!({"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})
}
