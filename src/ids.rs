//! Names and numbers that identify things, one type each, so that none is taken for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Why a string is not the identifier it was meant to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {given:?} is malformed: {reason}")]
pub struct IdError {
    /// What the string was read as, e.g. `publication id`.
    pub what: &'static str,
    /// The string as given.
    pub given: String,
    /// What is wrong with it, and what is right.
    pub reason: String,
}

/// The stable name of one attempt to change one table, e.g. `repair-07`, and its generation: `repair-07~2` is the
/// candidate that a rebase or a rerun made of it. Source: `protocol.md`, "Words".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicationId {
    name: String,
    generation: u32,
}

const ID_RULE: &str = "1 to 100 characters of A-Z a-z 0-9 . _ : + @ = -, the first a letter or digit";

impl PublicationId {
    /// The name without its generation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// 1 for a plain id, `n` for `name~n`.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The id of the next candidate under the same name; `None` when generations are exhausted.
    pub fn next_generation(&self) -> Option<Self> {
        let generation = self.generation.checked_add(1)?;
        Some(Self { name: self.name.clone(), generation })
    }

    /// The generations before it under the same name, oldest first.
    pub fn earlier_generations(&self) -> impl Iterator<Item = Self> + '_ {
        (1..self.generation).map(|generation| Self { name: self.name.clone(), generation })
    }

    /// `audit/<id>`: the branch of an open candidate, and the tombstone tag of a consumed one.
    pub fn audit_ref(&self) -> RefName {
        RefName(format!("{AUDIT_PREFIX}{self}"))
    }

    /// `published/<id>`: the receipt, a tag.
    pub fn published_ref(&self) -> RefName {
        RefName(format!("{PUBLISHED_PREFIX}{self}"))
    }

    /// `closed/<id>`: the fence, a tag.
    pub fn closed_ref(&self) -> RefName {
        RefName(format!("{CLOSED_PREFIX}{self}"))
    }

    /// The publication that owns a ref of calve's naming scheme; `None` for every other ref.
    pub fn of_ref(name: &RefName) -> Option<Self> {
        [AUDIT_PREFIX, PUBLISHED_PREFIX, CLOSED_PREFIX]
            .iter()
            .find_map(|prefix| name.0.strip_prefix(prefix))
            .and_then(|id| Self::parse_any(id).ok())
    }

    /// Reads an id with or without a generation, as refs, records and summaries carry it.
    pub fn parse_any(given: &str) -> Result<Self, IdError> {
        let Some((name, generation)) = given.split_once('~') else {
            return given.parse();
        };
        let parsed = Self::from_str(name)?;
        let number: u32 = generation.parse().map_err(|_| Self::error(given, "after ~ comes a number from 2 up"))?;
        if number < 2 || number.to_string() != generation {
            return Err(Self::error(given, "after ~ comes a number from 2 up"));
        }
        Ok(Self { name: parsed.name, generation: number })
    }

    fn error(given: &str, reason: impl Into<String>) -> IdError {
        IdError { what: "publication id", given: given.to_owned(), reason: reason.into() }
    }
}

impl FromStr for PublicationId {
    type Err = IdError;

    /// Reads a plain id, as a person gives it. `~` is refused: generations are calve's to give.
    fn from_str(given: &str) -> Result<Self, IdError> {
        if given.contains('~') {
            return Err(Self::error(given, "`~` is reserved: calve numbers rebased and rerun candidates with it"));
        }
        let fits = given.len() <= 100
            && given.starts_with(|c: char| c.is_ascii_alphanumeric())
            && given.chars().all(|c| c.is_ascii_alphanumeric() || "._:+@=-".contains(c));
        if !fits {
            return Err(Self::error(given, ID_RULE));
        }
        Ok(Self { name: given.to_owned(), generation: 1 })
    }
}

impl fmt::Display for PublicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            1 => f.write_str(&self.name),
            n => write!(f, "{}~{n}", self.name),
        }
    }
}

impl Serialize for PublicationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_any(&text).map_err(serde::de::Error::custom)
    }
}

const AUDIT_PREFIX: &str = "audit/";
const PUBLISHED_PREFIX: &str = "published/";
const CLOSED_PREFIX: &str = "closed/";

/// The name of a branch or tag. Source: Iceberg spec, "Snapshot References".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RefName(pub String);

impl RefName {
    /// The branch that readers resolve.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A snapshot id: a positive 64-bit number, unique within a table.
///
/// Serialised as a string: JSON readers that hold numbers as doubles lose 64-bit ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub i64);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for SnapshotId {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        given.parse().map(Self).map_err(|_| IdError {
            what: "snapshot id",
            given: given.to_owned(),
            reason: "a 64-bit decimal number was expected".to_owned(),
        })
    }
}

impl Serialize for SnapshotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SnapshotId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The `table-uuid` of a table's metadata: what a table *is*, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableUuid(pub Uuid);

impl fmt::Display for TableUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What distinguishes two BEGINs of the same publication id: chosen fresh by each, kept in the marker's summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub Uuid);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Incarnation {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        Uuid::parse_str(given).map(Self).map_err(|e| IdError {
            what: "incarnation",
            given: given.to_owned(),
            reason: e.to_string(),
        })
    }
}

/// The UUIDv7 that names one request, for catalogs that recognise a request sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub Uuid);

/// Who owns a candidate or a lease: `--owner`, `CALVE_OWNER`, or user@host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(pub String);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A table's name in its catalog: one or more namespace levels, then the table, joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    namespace: Vec<String>,
    name: String,
}

impl TableName {
    /// A name from its parts, which must follow the rules of [`TableName::from_str`].
    pub fn new(namespace: Vec<String>, name: String) -> Result<Self, IdError> {
        let error = |reason: &str| IdError {
            what: "table name",
            given: namespace.iter().chain([&name]).cloned().collect::<Vec<_>>().join("."),
            reason: reason.to_owned(),
        };
        if namespace.is_empty() {
            return Err(error("a namespace and a name were expected, e.g. shop.orders"));
        }
        for part in namespace.iter().chain([&name]) {
            if part.is_empty() || part == "." || part == ".." {
                return Err(error("a part between the dots is empty"));
            }
            if part.chars().any(|c| c.is_control() || c == '/' || c == '\\' || c == '.') {
                return Err(error("a part has a slash, a dot or a control character"));
            }
        }
        Ok(Self { namespace, name })
    }

    /// The levels of the namespace, outermost first; at least one.
    pub fn namespace(&self) -> &[String] {
        &self.namespace
    }

    /// The table's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The levels of the namespace joined by dots.
    pub fn namespace_text(&self) -> String {
        self.namespace.join(".")
    }

    /// The same name as iceberg's type.
    pub fn to_ident(&self) -> iceberg::TableIdent {
        let namespace = iceberg::NamespaceIdent::from_vec(self.namespace.clone())
            .unwrap_or_else(|_| iceberg::NamespaceIdent::new(self.namespace_text()));
        iceberg::TableIdent::new(namespace, self.name.clone())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace_text(), self.name)
    }
}

impl FromStr for TableName {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        let mut parts: Vec<String> = given.split('.').map(str::to_owned).collect();
        let name = parts.pop().unwrap_or_default();
        Self::new(parts, name)
    }
}

impl Serialize for TableName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TableName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What tells one catalog from another: the embedded catalog's stored UUID, or the normalised URI and warehouse of a
/// REST catalog. Part of every journal key, so that two catalogs never share a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CatalogIdentity(pub String);

impl fmt::Display for CatalogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publication_ids() {
        for good in ["repair-07", "9", "manual__2013-08-09T00:00:00+00:00", "a.b_c@d=e"] {
            let id: PublicationId = good.parse().unwrap();
            assert_eq!(id.to_string(), good);
            assert_eq!(PublicationId::of_ref(&id.audit_ref()), Some(id.clone()));
        }
        let long = "x".repeat(101);
        for bad in ["", "-a", "a b", "a/b", "é", "a~2", long.as_str()] {
            assert!(bad.parse::<PublicationId>().is_err(), "{bad}");
        }
        let second = "a".parse::<PublicationId>().unwrap().next_generation().unwrap();
        assert_eq!(second.to_string(), "a~2");
        assert_eq!(PublicationId::parse_any("a~2").unwrap(), second);
        for bad in ["a~1", "a~02", "a~", "a~2~3", "~2"] {
            assert!(PublicationId::parse_any(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn table_names() {
        assert_eq!("a.b.c".parse::<TableName>().unwrap().to_string(), "a.b.c");
        for bad in ["a", "", ".a", "a.", "a..b", "a/b.c", "...", "a.b\u{0}"] {
            assert!(bad.parse::<TableName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn snapshot_ids_survive_json() {
        let id = SnapshotId(i64::MAX);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"9223372036854775807\"");
        assert_eq!(serde_json::from_str::<SnapshotId>(&json).unwrap(), id);
    }
}
