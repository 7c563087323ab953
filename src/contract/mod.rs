//! The contract: which checks a table needs.
//!
//! A contract is a TOML file that people write and review. [`Contract::parse`] reads it strictly: a key, kind or
//! value that is not understood is an error that names its line, because a check that is silently left out would let a
//! change through unchecked. [`Contract::digest`] and [`Check::definition_digest`] are taken over the meaning, so
//! formatting and comments change neither, and a tightened tolerance changes both. Source: `protocol.md`, "Checks".

mod decimal;
mod parse;
mod render;

use std::collections::BTreeMap;
use std::fmt;

use iceberg::spec::PrimitiveType;

pub use decimal::{Decimal, DecimalError};
pub use render::contract_file_name;

use crate::digest::{Digest, Digester};

/// The format of contract files that this calve reads.
pub const VERSION: i64 = 1;

/// Why a contract cannot be used. Always the file's fault: the exit code is 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("contract {origin}{}: `{key}`: {problem}; {remedy}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct ContractError {
    /// The file, as the caller named it.
    pub origin: String,
    /// The line, from 1; `None` where the fault has no place, such as a key that is missing from the whole file.
    pub line: Option<usize>,
    /// The key that is at fault, e.g. `check.columns`.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

/// What becomes of a candidate whose checks fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It is fenced, for ever.
    Quarantine,
    /// It stays open for repair.
    #[default]
    Keep,
}

/// What becomes of a candidate that finds main moved, but may be attached again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing: a person decides.
    #[default]
    Stop,
    /// It is attached to the new main, and checked again.
    Reattach,
}

/// The checks that a table needs before a change of it may be published.
#[derive(Debug, Clone, PartialEq)]
pub struct Contract {
    /// What becomes of a candidate whose checks fail.
    pub on_failure: OnFailure,
    /// What becomes of a candidate that finds main moved.
    pub on_conflict: OnConflict,
    /// The sources it names: URI, path or pattern by name.
    pub sources: BTreeMap<String, String>,
    /// The checks, in the order of the file; at least one, names unique.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Its name: `[a-z0-9][a-z0-9-]{0,39}`.
    pub name: String,
    /// It passes although it examined nothing.
    pub allow_empty: bool,
    /// What it checks.
    pub kind: CheckKind,
}

/// What a check checks.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckKind {
    /// The table's current schema has these columns.
    Schema(SchemaCheck),
    /// These columns are never null, and no two rows have the same values in them.
    Keys(KeysCheck),
    /// The change stays inside its scope.
    Scope,
    /// Totals over the rows in scope equal those of a source, or given ones.
    Totals(TotalsCheck),
    /// The number of rows in scope is plausible.
    Volume(VolumeCheck),
}

impl CheckKind {
    /// The word that the contract file uses.
    pub fn word(&self) -> &'static str {
        match self {
            CheckKind::Schema(_) => "schema",
            CheckKind::Keys(_) => "keys",
            CheckKind::Scope => "scope",
            CheckKind::Totals(_) => "totals",
            CheckKind::Volume(_) => "volume",
        }
    }
}

/// How a schema check compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaMode {
    /// These columns and no others; types equal.
    Exact,
    /// At least these columns; a type may be one that Iceberg promotes the stated one to.
    Compatible,
}

/// The table's current schema has these columns.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaCheck {
    /// How they are compared.
    pub mode: SchemaMode,
    /// The columns; at least one, names unique.
    pub columns: Vec<ColumnRule>,
}

/// A column that a schema check expects.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRule {
    /// Its name; nested columns by dots.
    pub name: String,
    /// Its type; `None`: any.
    pub column_type: Option<ColumnType>,
    /// Whether it is required (Iceberg spec, "Schemas"); `None`: either.
    pub required: Option<bool>,
}

/// The type of a column, as a contract can say it.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnType {
    /// A primitive type by its Iceberg name, e.g. `decimal(9, 2)`.
    Primitive(PrimitiveType),
    /// A struct of whatever fields.
    Struct,
    /// A list of whatever elements.
    List,
    /// A map of whatever keys and values.
    Map,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Primitive(PrimitiveType::Fixed(size)) => write!(f, "fixed[{size}]"),
            ColumnType::Primitive(primitive) => primitive.fmt(f),
            ColumnType::Struct => f.write_str("struct"),
            ColumnType::List => f.write_str("list"),
            ColumnType::Map => f.write_str("map"),
        }
    }
}

/// Which rows a keys check compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// The rows in the publication's scope.
    Scope,
    /// All rows of the table as the candidate would leave it.
    Table,
}

/// Columns that identify a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysCheck {
    /// The columns; at least one, names unique.
    pub columns: Vec<String>,
    /// Which rows are compared.
    pub within: Within,
}

/// Totals over the rows in scope.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalsCheck {
    /// What is measured; at least one.
    pub measures: Vec<Measure>,
}

/// An aggregate over rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    /// `count(*)`: rows.
    CountRows,
    /// `count(x)`: rows whose x is not null.
    Count(String),
    /// `sum(x)`: the exact sum of the x that are not null.
    Sum(String),
}

impl Aggregate {
    /// The column it reads; `None` for `count(*)`.
    pub fn column(&self) -> Option<&str> {
        match self {
            Aggregate::CountRows => None,
            Aggregate::Count(column) | Aggregate::Sum(column) => Some(column),
        }
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aggregate::CountRows => f.write_str("count(*)"),
            Aggregate::Count(column) => write!(f, "count({column})"),
            Aggregate::Sum(column) => write!(f, "sum({column})"),
        }
    }
}

/// One total, and what it has to be: |candidate − expected| ≤ abs + rel · |expected|.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What is measured.
    pub aggregate: Aggregate,
    /// What it is compared with.
    pub expected: Expected,
    /// The absolute tolerance; not negative.
    pub abs: Decimal,
    /// The tolerance relative to what is expected; not negative.
    pub rel: Decimal,
}

/// What a total is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// A number in the contract itself.
    Literal(Decimal),
    /// The same aggregate over the rows of a source that are in scope.
    Source {
        /// The source's name.
        name: String,
        /// Its URI, path or pattern.
        uri: String,
    },
}

/// Bounds on the number of rows in scope.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeCheck {
    /// The fewest rows.
    pub min_rows: Option<u64>,
    /// The most rows.
    pub max_rows: Option<u64>,
    /// The fewest rows, as a multiple of those in scope in the base.
    pub min_ratio: Option<Decimal>,
    /// The most rows, as a multiple of those in scope in the base.
    pub max_ratio: Option<Decimal>,
}

impl Contract {
    /// Reads a contract file's text. `origin` is the file's name, for messages.
    ///
    /// Errors name the file, the line, the key, and what would be right; all of them are faults of the file.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ContractError> {
        parse::parse(text, origin)
    }

    /// The digest of what the contract means, whatever its layout, its comments and the order of its checks.
    pub fn digest(&self) -> Digest {
        let mut digester = Digester::new("contract")
            .number(VERSION)
            .field(match self.on_failure {
                OnFailure::Quarantine => "quarantine",
                OnFailure::Keep => "keep",
            })
            .field(match self.on_conflict {
                OnConflict::Stop => "stop",
                OnConflict::Reattach => "reattach",
            })
            .number(count(self.sources.len()));
        for (name, uri) in &self.sources {
            digester = digester.field(name).field(uri);
        }
        let checks: BTreeMap<_, _> =
            self.checks.iter().map(|check| (check.name.as_str(), check.definition_digest())).collect();
        digester = digester.number(count(checks.len()));
        for (name, definition) in checks {
            digester = digester.field(name).field(definition.0);
        }
        digester.finish()
    }

    /// A contract without any check: no evidence ever passes it.
    pub fn empty() -> Self {
        Self {
            on_failure: OnFailure::Keep,
            on_conflict: OnConflict::Stop,
            sources: BTreeMap::new(),
            checks: Vec::new(),
        }
    }

    /// A check by name.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}

impl Check {
    /// The digest of what the check means: its kind, its parameters and the URIs of the sources it compares with, but
    /// not its name. A result counts for a check only if this digest is the same.
    pub fn definition_digest(&self) -> Digest {
        let digester = Digester::new("check").field(self.kind.word()).field([u8::from(self.allow_empty)]);
        match &self.kind {
            CheckKind::Schema(schema) => schema.add_to(digester),
            CheckKind::Keys(keys) => keys.add_to(digester),
            CheckKind::Scope => digester,
            CheckKind::Totals(totals) => totals.add_to(digester),
            CheckKind::Volume(volume) => digester
                .optional(volume.min_rows.map(u64::to_be_bytes))
                .optional(volume.max_rows.map(u64::to_be_bytes))
                .optional(volume.min_ratio.as_ref().map(ToString::to_string))
                .optional(volume.max_ratio.as_ref().map(ToString::to_string)),
        }
        .finish()
    }
}

impl SchemaCheck {
    fn add_to(&self, digester: Digester) -> Digester {
        let mode = match self.mode {
            SchemaMode::Exact => "exact",
            SchemaMode::Compatible => "compatible",
        };
        let columns: BTreeMap<_, _> = self.columns.iter().map(|column| (column.name.as_str(), column)).collect();
        let digester = digester.field(mode).number(count(columns.len()));
        columns.into_iter().fold(digester, |digester, (name, column)| {
            digester
                .field(name)
                .optional(column.column_type.as_ref().map(ToString::to_string))
                .optional(column.required.map(|required| [u8::from(required)]))
        })
    }
}

impl KeysCheck {
    fn add_to(&self, digester: Digester) -> Digester {
        let within = match self.within {
            Within::Scope => "scope",
            Within::Table => "table",
        };
        let mut columns = self.columns.clone();
        columns.sort();
        let digester = digester.field(within).number(count(columns.len()));
        columns.into_iter().fold(digester, |digester, column| digester.field(column))
    }
}

impl TotalsCheck {
    fn add_to(&self, digester: Digester) -> Digester {
        let mut measures: Vec<_> = self
            .measures
            .iter()
            .map(|measure| {
                let (literal, source) = match &measure.expected {
                    Expected::Literal(number) => (Some(number.to_string()), None),
                    Expected::Source { name, uri } => (None, Some((name, uri))),
                };
                (measure.aggregate.to_string(), literal, source, measure.abs.to_string(), measure.rel.to_string())
            })
            .collect();
        measures.sort();
        let digester = digester.number(count(measures.len()));
        measures.into_iter().fold(digester, |digester, (aggregate, literal, source, abs, rel)| {
            digester
                .field(aggregate)
                .optional(literal)
                .optional(source.map(|(name, _)| name))
                .optional(source.map(|(_, uri)| uri))
                .field(abs)
                .field(rel)
        })
    }
}

fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
