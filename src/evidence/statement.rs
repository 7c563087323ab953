//! The statement: how a candidate was produced, over what, and what was found of it.
//!
//! An in-toto Statement v1 in the canonical form of RFC 8785, so that one statement has one sequence of bytes and one
//! digest; 64-bit numbers are strings, because JSON readers hold numbers as doubles. It is stored under its digest
//! before the seal that names it. Nothing in it is believed when it is read: [`Statement::parse`] takes only what
//! calve would have written, and checks what can be checked from the statement alone. Source: `protocol.md`,
//! "Evidence"; in-toto Attestation Framework, "Statement".

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::check::{CheckResult, IdentityKind, Outcome};
use crate::digest::{Digest, Digester};
use crate::ids::{CatalogIdentity, IdError, Incarnation, PublicationId, SnapshotId, TableName, TableUuid};

/// The type of every in-toto statement of version 1.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The type of calve's predicate: its fields are those of [`Predicate`], and a change of them is a new version.
pub const PREDICATE_TYPE: &str = "calve/materialization/v1";

/// The identities that every statement names, by the words that checks use for them.
pub const REQUIRED_IDENTITIES: [&str; 7] = ["base", "change", "contract", "schema", "scope-tree", "spec", "tree"];

/// A statement about one snapshot of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What it is about.
    pub subject: Subject,
    /// What it says.
    pub predicate: Predicate,
}

/// The subject: a table at a snapshot, and the digest of everything live in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// `<catalog identity>/<table>@<snapshot>`.
    pub name: String,
    /// The tree digest: [`crate::identity::tree_digest`].
    pub tree: Digest,
}

impl Subject {
    /// The subject's name from its parts. `snapshot` is the data snapshot `S`.
    pub fn new(catalog: &CatalogIdentity, table: &TableName, snapshot: SnapshotId, tree: Digest) -> Self {
        Self { name: format!("{catalog}/{table}@{snapshot}"), tree }
    }
}

/// What a statement says of its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Predicate {
    /// The publication.
    pub publication: PublicationId,
    /// Its BEGIN.
    pub incarnation: Incarnation,
    /// The table, whatever its name.
    pub table_uuid: TableUuid,
    /// `N`; `null` for a table that had no snapshot.
    pub base: Option<SnapshotId>,
    /// `S`, the snapshot that was checked.
    pub snapshot: SnapshotId,
    /// The candidate digest: [`crate::identity::candidate_digest`].
    pub candidate: Digest,
    /// Every identity that a result may depend on, by its word: those of [`REQUIRED_IDENTITIES`], `code`,
    /// `source/<name>`, and `fields/<names>` for the columns that checks look at.
    pub identities: BTreeMap<String, Digest>,
    /// The scope.
    pub scope: StatedScope,
    /// The canonical reads; `null`: not declared, which means the whole table.
    pub reads: Option<String>,
    /// What the checks found, in the contract's order.
    pub checks: Vec<StatedCheck>,
    /// How it was produced.
    pub definition: Definition,
    /// [`Definition::hash`]. Kept beside the definition, so that it can be found by tools that do not compute it.
    pub definition_hash: Digest,
    /// Over what it was produced, sorted by name.
    pub inputs: Vec<InputAnchor>,
    /// Which run.
    pub run: Run,
    /// The added files with the hash of their bytes, sorted by path.
    pub files: Vec<AttestedFile>,
    /// Live files of the subject whose bytes no publication attested.
    #[serde(with = "as_text")]
    pub unattested: u64,
}

/// A scope, for machines and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatedScope {
    /// The canonical form.
    pub canonical: String,
    /// As given.
    pub text: String,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatedCheck {
    /// Its name in the contract.
    pub name: String,
    /// The word for its kind, e.g. `keys`.
    pub kind: String,
    /// What it came to.
    pub outcome: Outcome,
    /// Rows read to decide it.
    #[serde(with = "as_text")]
    pub examined_rows: u64,
    /// One line for people.
    pub summary: String,
    /// Examples, at most a handful.
    pub details: Vec<String>,
    /// The identities it depends on, each one of [`Predicate::identities`].
    pub depends_on: BTreeSet<String>,
    /// The digest of its definition in the contract.
    pub definition: Digest,
    /// What ran it, with its version.
    pub engine: String,
    /// The statement it was taken over from, where it was not run again.
    pub reused_from: Option<Digest>,
}

impl From<&CheckResult> for StatedCheck {
    /// A result of a check that ran.
    fn from(result: &CheckResult) -> Self {
        Self {
            name: result.name.clone(),
            kind: result.kind.clone(),
            outcome: result.outcome,
            examined_rows: result.examined_rows,
            summary: result.summary.clone(),
            details: result.details.clone(),
            depends_on: result.depends_on.iter().map(ToString::to_string).collect(),
            definition: result.definition,
            engine: result.engine.clone(),
            reused_from: None,
        }
    }
}

impl StatedCheck {
    /// The result as its check gave it, for deciding whether it still holds.
    ///
    /// # Errors
    /// It depends on an identity that this calve does not know.
    pub fn to_result(&self) -> Result<CheckResult, IdError> {
        Ok(CheckResult {
            name: self.name.clone(),
            kind: self.kind.clone(),
            outcome: self.outcome,
            examined_rows: self.examined_rows,
            summary: self.summary.clone(),
            details: self.details.clone(),
            depends_on: self.depends_on.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            definition: self.definition,
            engine: self.engine.clone(),
        })
    }
}

impl Predicate {
    /// The identities by kind, for comparing them with those of another time.
    ///
    /// # Errors
    /// One of them is none that this calve knows.
    pub fn identities_by_kind(&self) -> Result<BTreeMap<IdentityKind, Digest>, IdError> {
        self.identities.iter().map(|(word, digest)| Ok((word.parse()?, *digest))).collect()
    }
}

/// How something was produced. Inputs are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// What was done, e.g. `stage`.
    pub verb: String,
    /// With which parameters.
    pub parameters: BTreeMap<String, Parameter>,
    /// By what.
    pub environment: Environment,
}

/// A parameter with its type: the text `1` and the number 1 differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "camelCase", deny_unknown_fields)]
pub enum Parameter {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(#[serde(with = "as_text")] i64),
    /// Yes or no.
    Flag(bool),
    /// A digest, of what is too long to be said.
    Digest(Digest),
    /// Several texts, in order.
    List(Vec<String>),
}

/// What produced something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Environment {
    /// The engine and its version, e.g. `calve 0.1.0`.
    pub engine: String,
    /// The code revision, as given.
    pub code: Option<String>,
    /// Devices, models and back ends with their versions, by name.
    pub backends: BTreeMap<String, String>,
}

impl Definition {
    /// The definition hash: which definition, not that other hardware gives the same bytes.
    ///
    /// Domain `definition`, fields: digest of the descriptor; digest of the environment (32 bytes each). Domain
    /// `descriptor`: verb; number of parameters; for each by ascending name: name, word of its type, value (text as it
    /// is; a number as 8 bytes; a flag as one byte 0 or 1; a digest as 32 bytes; a list as its length, then each text).
    /// Domain `environment`: engine; code (optional); number of back ends; name and version of each by ascending name.
    pub fn hash(&self) -> Digest {
        let Self { verb, parameters, environment } = self;
        let mut descriptor = Digester::new("descriptor").field(verb).number(count(parameters.len()));
        for (name, parameter) in parameters {
            descriptor = descriptor.field(name);
            descriptor = match parameter {
                Parameter::Text(value) => descriptor.field("text").field(value),
                Parameter::Integer(value) => descriptor.field("integer").number(*value),
                Parameter::Flag(value) => descriptor.field("flag").field([u8::from(*value)]),
                Parameter::Digest(value) => descriptor.field("digest").field(value.0),
                Parameter::List(values) => {
                    let start = descriptor.field("list").number(count(values.len()));
                    values.iter().fold(start, |digester, value| digester.field(value))
                }
            };
        }
        let Environment { engine, code, backends } = environment;
        let mut surroundings = Digester::new("environment").field(engine).optional(code.as_ref());
        surroundings = surroundings.number(count(backends.len()));
        for (name, version) in backends {
            surroundings = surroundings.field(name).field(version);
        }
        Digester::new("definition").field(descriptor.finish().0).field(surroundings.finish().0).finish()
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An input, and which state of it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputAnchor {
    /// Its name.
    pub name: String,
    /// What it is, e.g. `iceberg-snapshot`, `file`, `watermark`.
    pub kind: String,
    /// Which state.
    pub pin: Pin,
}

/// Which state of an input was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Pin {
    /// An immutable version: a snapshot id, a digest, a position in a log.
    Pinned(String),
    /// The source has no versions; all that is known is when it was read.
    Unpinned {
        /// When.
        read_at: DateTime<Utc>,
    },
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// When the statement was made, by the maker's clock.
    pub at: DateTime<Utc>,
}

/// A file and the hash of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttestedFile {
    /// The path exactly as in the manifest.
    pub path: String,
    /// Plain SHA-256 of its bytes.
    pub sha256: Digest,
}

/// Why bytes are not a statement that calve takes. Nothing is decided from such bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Not JSON, or not the fields that a statement has.
    #[error("the statement is malformed: {0}")]
    Malformed(String),
    /// JSON of another type.
    #[error("the document is of type {found:?}, and an in-toto statement has {STATEMENT_TYPE:?}")]
    Type {
        /// The type it names.
        found: String,
    },
    /// A statement of something else, or of a newer calve.
    #[error("the statement's predicate is {found:?}, and this calve reads {PREDICATE_TYPE:?}")]
    PredicateType {
        /// The type it names.
        found: String,
    },
    /// The same content in other bytes: it would have another digest.
    #[error("the statement is not in canonical form (RFC 8785, files and inputs sorted): it was not written by calve")]
    NotCanonical,
    /// Parts of it contradict each other.
    #[error("the statement contradicts itself: {0}")]
    Inconsistent(String),
}

impl Statement {
    /// Does it say that every check passed? No check at all is no pass.
    pub fn passed(&self) -> bool {
        let checks = &self.predicate.checks;
        !checks.is_empty() && checks.iter().all(|check| check.outcome == Outcome::Pass)
    }

    /// The one sequence of bytes of this statement. Files and inputs are sorted first.
    ///
    /// # Errors
    /// Where it contradicts itself, so that nothing is stored that could not be read back.
    pub fn canonical_bytes(&self) -> Result<Vec<u8>, StatementError> {
        self.check()?;
        let mut predicate = self.predicate.clone();
        predicate.files.sort();
        predicate.inputs.sort();
        let wire = Wire {
            type_: STATEMENT_TYPE.to_owned(),
            subject: vec![WireSubject {
                name: self.subject.name.clone(),
                digest: WireDigest { sha256: self.subject.tree.hex() },
            }],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate,
        };
        serde_json_canonicalizer::to_vec(&wire).map_err(|error| StatementError::Malformed(error.to_string()))
    }

    /// The digest of [`Statement::canonical_bytes`]: the name it is stored under.
    ///
    /// # Errors
    /// As those.
    pub fn digest(&self) -> Result<Digest, StatementError> {
        self.canonical_bytes().map(|bytes| Digest::of_bytes(&bytes))
    }

    /// Reads a statement back. Only the bytes that [`Statement::canonical_bytes`] gives are taken.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, StatementError> {
        let malformed = |error: serde_json::Error| StatementError::Malformed(error.to_string());
        let Types { type_, predicate_type } = serde_json::from_slice(bytes).map_err(malformed)?;
        if type_ != STATEMENT_TYPE {
            return Err(StatementError::Type { found: type_ });
        }
        if predicate_type != PREDICATE_TYPE {
            return Err(StatementError::PredicateType { found: predicate_type });
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(malformed)?;
        let [WireSubject { name, digest }] = <[WireSubject; 1]>::try_from(wire.subject)
            .map_err(|found| StatementError::Malformed(format!("it has {} subjects, and not one", found.len())))?;
        let tree = format!("sha256:{}", digest.sha256)
            .parse()
            .map_err(|error: IdError| StatementError::Malformed(error.to_string()))?;
        let statement = Self { subject: Subject { name, tree }, predicate: wire.predicate };
        match statement.canonical_bytes()? == bytes {
            true => Ok(statement),
            false => Err(StatementError::NotCanonical),
        }
    }

    fn check(&self) -> Result<(), StatementError> {
        let Predicate { identities, checks, definition, definition_hash, snapshot, files, inputs, .. } =
            &self.predicate;
        let wrong = |reason: String| Err(StatementError::Inconsistent(reason));
        for required in REQUIRED_IDENTITIES {
            if !identities.contains_key(required) {
                return wrong(format!("it has no identity {required}"));
            }
        }
        if identities.get("tree") != Some(&self.subject.tree) {
            return wrong("its tree is not its subject's".to_owned());
        }
        if !self.subject.name.ends_with(&format!("@{snapshot}")) {
            return wrong(format!("its subject {} is not at its snapshot {snapshot}", self.subject.name));
        }
        if definition.hash() != *definition_hash {
            return wrong(format!("its definition hashes to {}, and not to {definition_hash}", definition.hash()));
        }
        let mut names = BTreeSet::new();
        for check in checks {
            if !names.insert(&check.name) {
                return wrong(format!("check {} is there twice", check.name));
            }
            if let Some(unknown) = check.depends_on.iter().find(|on| !identities.contains_key(*on)) {
                return wrong(format!("check {} depends on {unknown}, which it does not name", check.name));
            }
        }
        let paths: BTreeMap<_, _> = files.iter().map(|file| (&file.path, file.sha256)).collect();
        if let Some(file) = files.iter().find(|file| paths.get(&file.path) != Some(&file.sha256)) {
            return wrong(format!("file {} is there with two hashes", file.path));
        }
        let inputs_named: BTreeSet<_> = inputs.iter().map(|input| &input.name).collect();
        if inputs_named.len() != inputs.len() {
            return wrong("an input is there twice".to_owned());
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Types {
    #[serde(rename = "_type", default)]
    type_: String,
    #[serde(rename = "predicateType", default)]
    predicate_type: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(rename = "_type")]
    type_: String,
    subject: Vec<WireSubject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSubject {
    name: String,
    digest: WireDigest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDigest {
    sha256: String,
}

/// Whole numbers as decimal strings.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, N: FromStr<Err: Display>>(deserializer: D) -> Result<N, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
