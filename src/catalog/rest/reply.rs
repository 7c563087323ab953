//! What a commit's answer means: one function over what was sent, status, content type and body.
//!
//! | answer | reply |
//! |---|---|
//! | provably nothing was sent | NotSent |
//! | 200, and a body that is this table's metadata and shows what the commit sets; 204 | Accepted |
//! | 400, 401, 403, 404, 406, 409, 422, in the catalog's own words: JSON, plain text, or none | Refused |
//! | everything else | Unknown |
//!
//! Two kinds of answers with a status of the third row are Unknown all the same. A web page is not the catalog's: a
//! proxy wrote it, and what it did with the request is not known. And an error type by which the catalog says that it
//! failed, or does not know, is believed over a 4xx; over a 409 nothing is, because catalogs differ in how they name a
//! conflict, and what follows a 409 does not rest on it.
//!
//! Source: `protocol.md`, "One request, three replies"; REST specification, `updateTable` and `commitTransaction`.

use iceberg::TableRequirement;
use iceberg::spec::TableMetadata;

use super::wire::{self, CommitResponse};
use crate::catalog::{CatalogError, Commit, metadata};
use crate::observed::Observed;
use crate::publish::commits::shows;

/// The longest text of a server that is shown, in characters.
const LONGEST_TEXT: usize = 500;
/// Error types by which a catalog says that it failed, or does not know what became of the commit.
const NOT_KNOWN: [&str; 7] = [
    "CommitStateUnknownException",
    "InternalServerError",
    "RuntimeException",
    "RuntimeIOException",
    "ServiceFailureException",
    "ServiceUnavailableException",
    "UncheckedIOException",
];

/// What became of one transmission.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exchange<'a> {
    /// Provably nothing of the request left this process.
    NotSent { reason: &'a str },
    /// It may have left, and no whole answer came.
    NoAnswer { reason: &'a str },
    /// A whole answer came.
    Answer { status: u16, content_type: &'a str, body: &'a [u8] },
}

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sent<'a> {
    /// One table's commit, whose answer has a body.
    Table(&'a Commit),
    /// A transaction over several tables, whose answer has none.
    Transaction,
}

/// The meaning of an exchange.
#[derive(Debug)]
pub(super) enum Meaning {
    NotSent {
        reason: String,
    },
    /// `table` is what the answer shows of it.
    Accepted {
        table: Option<Box<Shown>>,
    },
    Refused {
        status: u16,
        message: String,
    },
    Unknown {
        reason: String,
    },
}

/// A table as an answer shows it.
#[derive(Debug)]
pub(super) struct Shown {
    pub metadata: TableMetadata,
    pub location: Option<String>,
}

/// The meaning of what came back.
pub(super) fn classify(sent: Sent<'_>, exchange: Exchange<'_>) -> Meaning {
    let (status, content_type, body) = match exchange {
        Exchange::NotSent { reason } => return Meaning::NotSent { reason: reason.to_owned() },
        Exchange::NoAnswer { reason } => return Meaning::Unknown { reason: reason.to_owned() },
        Exchange::Answer { status, content_type, body } => (status, content_type, body),
    };
    match (status, sent) {
        (204, _) => Meaning::Accepted { table: None },
        (200, Sent::Table(commit)) => match shown(commit, body) {
            Ok(table) => Meaning::Accepted { table: Some(Box::new(table)) },
            Err(reason) => Meaning::Unknown { reason: format!("status 200, but {reason}") },
        },
        (400 | 401 | 403 | 404 | 406 | 409 | 422, _) if is_web_page(content_type, body) => {
            let reason = format!("status {status} with a web page, which is no answer of a catalog: {}", words(body));
            Meaning::Unknown { reason }
        }
        (400 | 401 | 403 | 404 | 406 | 422, _) if says_not_known(body) => {
            Meaning::Unknown { reason: format!("status {status}: {}", words(body)) }
        }
        (400 | 401 | 403 | 404 | 406 | 409 | 422, _) => Meaning::Refused { status, message: words(body) },
        _ => Meaning::Unknown { reason: format!("status {status}: {}", words(body)) },
    }
}

fn shown(commit: &Commit, body: &[u8]) -> Result<Shown, String> {
    if body.is_empty() {
        return Err("no body".to_owned());
    }
    let response: CommitResponse =
        serde_json::from_slice(body).map_err(|e| format!("its body is not that of a commit: {e}"))?;
    let named = format!("in the reply for table {}", commit.table);
    let metadata = metadata::parse_value(response.metadata, &named).map_err(|error| match error {
        CatalogError::Damaged { reason, .. } => format!("its table metadata is not readable: {reason}"),
        other => other.to_string(),
    })?;
    let expected = commit.requirements.iter().find_map(|requirement| match requirement {
        TableRequirement::UuidMatch { uuid } => Some(*uuid),
        _ => None,
    });
    if let Some(expected) = expected.filter(|expected| *expected != metadata.uuid()) {
        return Err(format!("it shows the table with uuid {}, and {expected} was asked for", metadata.uuid()));
    }
    if !shows(&Observed::from_metadata(&metadata), commit) {
        return Err("it shows the table without what the commit sets".to_owned());
    }
    Ok(Shown { metadata, location: response.metadata_location })
}

fn says_not_known(body: &[u8]) -> bool {
    wire::error_of(body).is_some_and(|error| NOT_KNOWN.iter().any(|kind| error.kind.ends_with(kind)))
}

/// A page made for people: HTML, which no endpoint of the specification answers with.
pub(super) fn is_web_page(content_type: &str, body: &[u8]) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    content_type.starts_with("text/html")
        || content_type.starts_with("application/xhtml")
        || body.trim_ascii_start().first() == Some(&b'<')
}

/// The server's own words, short and on one line.
pub(super) fn words(body: &[u8]) -> String {
    let text = match wire::error_of(body) {
        Some(error) if error.kind.is_empty() => error.message,
        Some(error) if error.message.is_empty() => error.kind,
        Some(error) => format!("{} ({})", error.message, error.kind),
        None => wire::token_error_of(body).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()),
    };
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "no text".to_owned();
    }
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
#[path = "tests/reply.rs"]
mod tests;
