//! The URLs of a catalog's endpoints. Source: the Iceberg REST catalog specification, its paths.

use url::Url;

use super::failure;
use crate::catalog::CatalogError;
use crate::ids::TableName;

/// What joins the levels of a namespace in a path, unless the catalog says otherwise.
pub(super) const UNIT_SEPARATOR: &str = "\u{1f}";

/// Which snapshots a table is loaded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshots {
    /// Every one: the ancestry of main and of branches is complete.
    All,
    /// Those that refs name, and no others.
    Refs,
}

/// Builds the URLs of one catalog.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    base: String,
    prefix: String,
    separator: String,
}

impl Paths {
    /// `prefix` is taken as the catalog gives it, already encoded; it may have several segments. `separator` is decoded.
    pub(super) fn new(base: &Url, prefix: &str, separator: &str) -> Self {
        let mut kept = String::new();
        for c in prefix.trim_matches('/').chars() {
            // Whatever would end the path is no part of a prefix, but of what somebody typed.
            if c == '?' || c == '#' || c.is_whitespace() {
                kept.push_str(&encode(&c.to_string()))
            } else {
                kept.push(c)
            }
        }
        Self { base: trimmed(base), prefix: kept, separator: separator.to_owned() }
    }

    pub(super) fn config(&self, warehouse: Option<&str>) -> Result<Url, CatalogError> {
        self.url("config", &[("warehouse", warehouse)])
    }

    /// The namespaces directly under `parent`, or at the top.
    pub(super) fn namespaces(&self, parent: &[String], page: &Page<'_>) -> Result<Url, CatalogError> {
        let parent = (!parent.is_empty()).then(|| parent.join(&self.separator));
        let query = [("parent", parent.as_deref()), ("pageToken", page.token), ("pageSize", page.size)];
        self.url(&self.prefixed("namespaces"), &query)
    }

    pub(super) fn namespace(&self, levels: &[String]) -> Result<Url, CatalogError> {
        self.url(&self.under(levels, ""), &[])
    }

    pub(super) fn tables(&self, levels: &[String], page: &Page<'_>) -> Result<Url, CatalogError> {
        self.url(&self.under(levels, "/tables"), &[("pageToken", page.token), ("pageSize", page.size)])
    }

    pub(super) fn table(&self, table: &TableName) -> Result<Url, CatalogError> {
        self.of_table(table, "", &[])
    }

    pub(super) fn load(&self, table: &TableName, snapshots: Snapshots) -> Result<Url, CatalogError> {
        let snapshots = match snapshots {
            Snapshots::All => "all",
            Snapshots::Refs => "refs",
        };
        self.of_table(table, "", &[("snapshots", Some(snapshots))])
    }

    /// The table's end; its files stay.
    pub(super) fn drop(&self, table: &TableName) -> Result<Url, CatalogError> {
        self.of_table(table, "", &[("purgeRequested", Some("false"))])
    }

    pub(super) fn credentials(&self, table: &TableName) -> Result<Url, CatalogError> {
        self.of_table(table, "/credentials", &[])
    }

    pub(super) fn transaction(&self) -> Result<Url, CatalogError> {
        self.url(&self.prefixed("transactions/commit"), &[])
    }

    fn of_table(&self, table: &TableName, tail: &str, query: &[(&str, Option<&str>)]) -> Result<Url, CatalogError> {
        let tail = format!("/tables/{}{tail}", encode(table.name()));
        self.url(&self.under(table.namespace(), &tail), query)
    }

    fn under(&self, levels: &[String], tail: &str) -> String {
        self.prefixed(&format!("namespaces/{}{tail}", encode(&levels.join(&self.separator))))
    }

    fn prefixed(&self, tail: &str) -> String {
        if self.prefix.is_empty() { tail.to_owned() } else { format!("{}/{tail}", self.prefix) }
    }

    fn url(&self, tail: &str, query: &[(&str, Option<&str>)]) -> Result<Url, CatalogError> {
        let mut text = format!("{}/v1/{tail}", self.base);
        let mut mark = '?';
        for (name, value) in query {
            if let Some(value) = value {
                text.push_str(&format!("{mark}{name}={}", encode(value)));
                mark = '&';
            }
        }
        Url::parse(&text).map_err(|e| {
            CatalogError::Invalid(format!(
                "the URL {} cannot be used: {e}; check `uri` and `prefix`",
                failure::shown(&text)
            ))
        })
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Page<'a> {
    pub token: Option<&'a str>,
    pub size: Option<&'a str>,
}

/// The URI without a slash at its end.
pub(super) fn trimmed(uri: &Url) -> String {
    uri.as_str().trim_end_matches('/').to_owned()
}

/// Encodes everything but the characters that no reader of a URL gives a meaning: some servers read `+` as a space.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The text behind `%XX`; what is no such code stays.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
