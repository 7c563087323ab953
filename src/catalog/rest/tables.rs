//! Lists, loads, makes and drops tables and namespaces.

use std::collections::BTreeSet;

use iceberg::TableCreation;
use reqwest::Method;
use serde::de::DeserializeOwned;
use url::Url;

use super::auth::Token;
use super::client::{Answer, Call};
use super::failure;
use super::paths::{Page, Snapshots};
use super::wire::{self, CreateNamespaceRequest, CreateTableRequest, LoadTableResponse, NamespacePage, TablePage};
use super::{Connected, reply};
use crate::catalog::CatalogError;
use crate::ids::{TableName, TableUuid};

/// A list that goes on for longer is going in circles.
const MOST_PAGES: usize = 10_000;
/// So are namespaces that are deeper, or more, than this.
const DEEPEST: usize = 100;
const MOST_NAMESPACES: usize = 100_000;
/// How many tables an error names.
const NAMED: usize = 11;

impl Connected {
    pub(super) async fn get(&self, url: &Url, token: Option<&Token>) -> Result<Answer, CatalogError> {
        let call = Call::new(Method::GET, url.clone());
        self.client.read(&call, token).await.map_err(|failure| failure::unanswered(url, failure))
    }

    /// Sends a request that changes something and is no commit.
    async fn send(&self, method: Method, url: &Url, body: Option<Vec<u8>>) -> Result<Answer, CatalogError> {
        let mut call = Call::new(method, url.clone());
        if let Some(body) = body {
            call = call.json(body);
        }
        self.client.change(&call, None).await.map_err(|failure| failure::unanswered(url, failure))
    }

    pub(super) fn refused(&self, url: &Url, answer: &Answer) -> CatalogError {
        failure::refused(url, answer, self.client.secrets())
    }

    fn decoded<T: DeserializeOwned>(&self, url: &Url, answer: &Answer) -> Result<T, CatalogError> {
        if answer.status != 200 {
            return Err(self.refused(url, answer));
        }
        decode(url, answer)
    }

    /// Every table, or the first so many.
    pub(super) async fn list(&self, limit: Option<usize>) -> Result<Vec<TableName>, CatalogError> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut waiting = self.namespaces_under(&[]).await?;
        while let Some(namespace) = waiting.pop() {
            if !seen.insert(namespace.clone()) {
                continue;
            }
            if namespace.len() > DEEPEST || seen.len() > MOST_NAMESPACES {
                return Err(CatalogError::Unavailable {
                    what: format!("the list of namespaces of {}", self.uri),
                    reason: "it does not end; tell the catalog's operator".to_owned(),
                });
            }
            found.extend(self.tables_in(&namespace).await?);
            if limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
            waiting.extend(self.namespaces_under(&namespace).await?);
        }
        found.sort();
        Ok(found)
    }

    /// The namespaces directly under one. A catalog without levels may refuse the question, or answer it with all.
    async fn namespaces_under(&self, parent: &[String]) -> Result<Vec<Vec<String>>, CatalogError> {
        let mut found = Vec::new();
        let mut pages = Pages::default();
        loop {
            let url = self.paths.namespaces(parent, &pages.page(&self.properties))?;
            let answer = self.get(&url, None).await?;
            if !parent.is_empty() && matches!(answer.status, 400 | 404 | 406 | 422 | 501) {
                return Ok(found);
            }
            let page: NamespacePage = self.decoded(&url, &answer)?;
            found.extend(
                page.namespaces.into_iter().filter(|levels| levels.len() > parent.len() && levels.starts_with(parent)),
            );
            if !pages.next(page.next, &url)? {
                return Ok(found);
            }
        }
    }

    async fn tables_in(&self, namespace: &[String]) -> Result<Vec<TableName>, CatalogError> {
        let mut found = Vec::new();
        let mut pages = Pages::default();
        loop {
            let url = self.paths.tables(namespace, &pages.page(&self.properties))?;
            let answer = self.get(&url, None).await?;
            // Dropped since its namespace was listed, or one that this principal may not look into.
            if matches!(answer.status, 403 | 404) && wire::error_of(&answer.body).is_some() {
                return Ok(found);
            }
            let page: TablePage = self.decoded(&url, &answer)?;
            for identifier in page.identifiers {
                match TableName::new(identifier.namespace, identifier.name) {
                    Ok(table) => found.push(table),
                    Err(error) => tracing::warn!("a table is left out: {error}"),
                }
            }
            if !pages.next(page.next, &url)? {
                return Ok(found);
            }
        }
    }

    /// The table as the catalog answers it.
    pub(super) async fn fetch(
        &self,
        table: &TableName,
        snapshots: Snapshots,
        token: Option<&Token>,
    ) -> Result<LoadTableResponse, CatalogError> {
        let url = self.paths.load(table, snapshots)?;
        let answer = self.get(&url, token).await?;
        if answer.status == 404 {
            if wire::error_of(&answer.body).is_none() && reply::is_web_page(&answer.content_type, &answer.body) {
                return Err(failure::no_catalog(&url, "status 404 and a web page"));
            }
            return Err(self.no_such_table(table).await);
        }
        self.decoded(&url, &answer)
    }

    /// Names tables that do exist: of the same namespace, else any. What cannot be listed is not named.
    async fn no_such_table(&self, table: &TableName) -> CatalogError {
        let mut known = self.tables_in(table.namespace()).await.unwrap_or_default();
        if known.is_empty() {
            known = self.list(Some(NAMED)).await.unwrap_or_default();
        }
        CatalogError::NoSuchTable { table: table.clone(), catalog: self.uri.clone(), known }
    }

    /// Makes a table, and its namespace where that is missing.
    pub(super) async fn make(
        &self,
        table: &TableName,
        creation: TableCreation,
    ) -> Result<LoadTableResponse, CatalogError> {
        // Some catalogs answer the creation of a table that exists with that table.
        let url = self.paths.load(table, Snapshots::Refs)?;
        let found = self.get(&url, None).await?;
        match found.status {
            200 => return Err(CatalogError::TableExists(table.clone())),
            404 => {}
            _ => return Err(self.refused(&url, &found)),
        }
        self.make_namespace(table.namespace()).await?;
        let url = self.paths.tables(table.namespace(), &Page::default())?;
        let body = to_json(&CreateTableRequest::from(creation))?;
        let answer = self.send(Method::POST, &url, Some(body)).await?;
        if answer.status == 409 {
            return Err(CatalogError::TableExists(table.clone()));
        }
        self.decoded(&url, &answer)
    }

    async fn make_namespace(&self, levels: &[String]) -> Result<(), CatalogError> {
        let url = self.paths.namespace(levels)?;
        let answer = self.get(&url, None).await?;
        match answer.status {
            200 | 204 => return Ok(()),
            404 => {}
            _ => return Err(self.refused(&url, &answer)),
        }
        // From the inside out: a catalog that keeps no levels wants none made.
        let mut missing = vec![levels];
        while let Some(next) = missing.last().copied() {
            let url = self.paths.namespaces(&[], &Page::default())?;
            let body = CreateNamespaceRequest { namespace: next, properties: Default::default() };
            let answer = self.send(Method::POST, &url, Some(to_json(&body)?)).await?;
            match (answer.status, next.split_last()) {
                (200 | 201 | 204 | 409, _) => {
                    let _made = missing.pop();
                }
                (404, Some((_, parent))) if !parent.is_empty() && missing.len() <= levels.len() => missing.push(parent),
                _ => return Err(self.refused(&url, &answer)),
            }
        }
        Ok(())
    }

    /// Drops the table if it is still the one of this uuid; its files stay.
    pub(super) async fn drop_table(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        let found = self.fetch(table, Snapshots::Refs, None).await?;
        let found = found.metadata.get("table-uuid").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        if !found.eq_ignore_ascii_case(&uuid.to_string()) {
            return Err(CatalogError::Invalid(format!(
                "table {table} is not dropped: it is the table with uuid {found} now, not {uuid}"
            )));
        }
        let url = self.paths.drop(table)?;
        let answer = self.send(Method::DELETE, &url, None).await?;
        match answer.status {
            200 | 202 | 204 => Ok(()),
            404 => Err(self.no_such_table(table).await),
            _ => Err(self.refused(&url, &answer)),
        }
    }
}

pub(super) fn decode<T: DeserializeOwned>(url: &Url, answer: &Answer) -> Result<T, CatalogError> {
    if reply::is_web_page(&answer.content_type, &answer.body) {
        return Err(failure::no_catalog(url, "a web page"));
    }
    serde_json::from_slice(&answer.body).map_err(|e| {
        let what = format!("the answer of {}", failure::shown(url.as_str()));
        // The place in the text and what was expected there, never the text, which may hold credentials.
        CatalogError::Unavailable {
            what,
            reason: format!(
                "it is not what the REST specification says ({:?}, line {}, column {})",
                e.classify(),
                e.line(),
                e.column()
            ),
        }
    })
}

pub(super) fn to_json(body: &impl serde::Serialize) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(body).map_err(|e| CatalogError::Invalid(format!("the request cannot be written as JSON: {e}")))
}

/// Where a list stands.
#[derive(Debug, Default)]
struct Pages {
    token: Option<String>,
    count: usize,
}

impl Pages {
    /// `rest-page-size` asks for pages; without it a catalog may answer everything at once.
    fn page<'a>(&'a self, properties: &'a crate::catalog::properties::Properties) -> Page<'a> {
        let size = properties.get("rest-page-size");
        Page { token: self.token.as_deref().or(size.map(|_| "")), size }
    }

    fn next(&mut self, token: Option<String>, url: &Url) -> Result<bool, CatalogError> {
        let token = token.filter(|token| !token.is_empty());
        self.count += 1;
        if self.count >= MOST_PAGES || (token.is_some() && token == self.token) {
            return Err(CatalogError::Unavailable {
                what: format!("the list of {}", failure::shown(url.as_str())),
                reason: "its pages do not end; tell the catalog's operator".to_owned(),
            });
        }
        self.token = token;
        Ok(self.token.is_some())
    }
}
