//! What a check found, and what its finding depends on.
//!
//! A result is worth something only for the state it was taken from. Each result therefore names the identities it
//! depends on; after the base moved, one may be taken over only if every one of them is the same as before. The table
//! is kept as data in [`dependencies`]. Source: `protocol.md`, "Evidence".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::contract::{CheckKind, Expected, Within};
use crate::digest::Digest;
use crate::ids::IdError;

/// The name of the built-in check that manifests say the truth about the files that a change adds.
pub const MANIFEST_CHECK: &str = "manifest";

/// The engine of the built-in checks, with the version of their rules: a result of other rules is not reused.
pub const ENGINE: &str = "calve/1";

/// Something that a result may depend on. Its value is a digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdentityKind {
    /// What the candidate adds and removes; survives a rebase.
    Change,
    /// The live entries of the data snapshot that may match the scope.
    ScopeTree,
    /// All live entries of the data snapshot.
    Tree,
    /// The table's uuid, the base snapshot and its tree.
    Base,
    /// The current schema, with field ids.
    Schema,
    /// The default partition spec.
    Spec,
    /// These columns, by name: the id and type of each.
    Fields(BTreeSet<String>),
    /// A source: its URI and immutable version.
    Source(String),
    /// The code revision.
    Code,
    /// The contract.
    Contract,
}

impl fmt::Display for IdentityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityKind::Change => f.write_str("change"),
            IdentityKind::ScopeTree => f.write_str("scope-tree"),
            IdentityKind::Tree => f.write_str("tree"),
            IdentityKind::Base => f.write_str("base"),
            IdentityKind::Schema => f.write_str("schema"),
            IdentityKind::Spec => f.write_str("spec"),
            IdentityKind::Fields(names) => {
                // As JSON, because a column's name may have any character.
                let names = serde_json::to_string(names).map_err(|_| fmt::Error)?;
                write!(f, "fields/{names}")
            }
            IdentityKind::Source(name) => write!(f, "source/{name}"),
            IdentityKind::Code => f.write_str("code"),
            IdentityKind::Contract => f.write_str("contract"),
        }
    }
}

impl FromStr for IdentityKind {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        let error =
            |reason: &str| IdError { what: "identity of evidence", given: given.to_owned(), reason: reason.to_owned() };
        Ok(match given {
            "change" => IdentityKind::Change,
            "scope-tree" => IdentityKind::ScopeTree,
            "tree" => IdentityKind::Tree,
            "base" => IdentityKind::Base,
            "schema" => IdentityKind::Schema,
            "spec" => IdentityKind::Spec,
            "code" => IdentityKind::Code,
            "contract" => IdentityKind::Contract,
            other => match (other.strip_prefix("source/"), other.strip_prefix("fields/")) {
                (Some(name), _) => IdentityKind::Source(name.to_owned()),
                (None, Some(names)) => IdentityKind::Fields(
                    serde_json::from_str(names).map_err(|_| error("a JSON array of column names was expected"))?,
                ),
                (None, None) => return Err(error("it is none that this calve knows")),
            },
        })
    }
}

impl Serialize for IdentityKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IdentityKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// What it asks for holds.
    Pass,
    /// What it asks for does not hold.
    Fail,
    /// It could not be decided. Never a pass.
    Error,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckResult {
    /// The check's name in the contract, or [`MANIFEST_CHECK`].
    pub name: String,
    /// The word for its kind.
    pub kind: String,
    /// What it came to.
    pub outcome: Outcome,
    /// Rows read to decide it; for a schema check, columns compared.
    pub examined_rows: u64,
    /// One line for people, e.g. `7 duplicate rows in 3 keys`.
    pub summary: String,
    /// Examples, at most a handful.
    pub details: Vec<String>,
    /// What the result depends on.
    pub depends_on: BTreeSet<IdentityKind>,
    /// The definition digest of the check.
    pub definition: Digest,
    /// What ran the check, with its version.
    pub engine: String,
}

/// What may become of a result when the base moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterBaseMoved {
    /// It may be taken over if everything it depends on is equal.
    ReuseIfEqual,
    /// The check runs again, whatever is equal.
    RunAgain,
}

/// What a check's result depends on, and what may become of it when the base moved.
pub fn dependencies(kind: &CheckKind) -> (BTreeSet<IdentityKind>, AfterBaseMoved) {
    use IdentityKind::{Base, Change, Fields, Schema, ScopeTree, Source, Spec, Tree};
    match kind {
        CheckKind::Schema(_) => (BTreeSet::from([Change, Schema]), AfterBaseMoved::ReuseIfEqual),
        CheckKind::Keys(keys) => {
            let fields = Fields(keys.columns.iter().cloned().collect());
            match keys.within {
                Within::Scope => (BTreeSet::from([ScopeTree, fields]), AfterBaseMoved::ReuseIfEqual),
                Within::Table => (BTreeSet::from([Tree, fields]), AfterBaseMoved::RunAgain),
            }
        }
        CheckKind::Totals(totals) => {
            let columns = totals.measures.iter().filter_map(|measure| measure.aggregate.column());
            let mut depends_on = BTreeSet::from([ScopeTree, Fields(columns.map(str::to_owned).collect())]);
            depends_on.extend(totals.measures.iter().filter_map(|measure| match &measure.expected {
                Expected::Source { name, .. } => Some(Source(name.clone())),
                Expected::Literal(_) => None,
            }));
            (depends_on, AfterBaseMoved::ReuseIfEqual)
        }
        CheckKind::Scope => (BTreeSet::from([Change, Spec, Base]), AfterBaseMoved::RunAgain),
        CheckKind::Volume(_) => (BTreeSet::from([ScopeTree, Base]), AfterBaseMoved::RunAgain),
    }
}

/// Whether a result may be taken over, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reuse {
    /// Everything it depends on is equal.
    Equal,
    /// The check has to run again.
    RunAgain {
        /// Why, for the table that is printed and kept.
        because: String,
    },
}

/// Whether a result taken when the identities were `then` holds now that they are `now`.
///
/// `kind` and `definition` are the check's in the present contract. An identity that is missing on either side is not
/// equal: nothing is assumed.
pub fn reuse(
    result: &CheckResult,
    kind: &CheckKind,
    definition: &Digest,
    then: &BTreeMap<IdentityKind, Digest>,
    now: &BTreeMap<IdentityKind, Digest>,
) -> Reuse {
    let run_again = |because: String| Reuse::RunAgain { because };
    let (needed, after) = dependencies(kind);
    if result.outcome != Outcome::Pass {
        return run_again("it did not pass".to_owned());
    }
    if result.definition != *definition {
        return run_again("the check itself was changed".to_owned());
    }
    if result.engine != ENGINE {
        return run_again(format!("it was run by {}, and this is {ENGINE}", result.engine));
    }
    if after == AfterBaseMoved::RunAgain {
        return run_again("a check of this kind looks at the base or the whole table".to_owned());
    }
    for identity in needed.union(&result.depends_on) {
        match (then.get(identity), now.get(identity)) {
            (Some(then), Some(now)) if then == now => {}
            (Some(_), Some(_)) => return run_again(format!("{identity} is not what it was")),
            _ => return run_again(format!("{identity} is not known")),
        }
    }
    Reuse::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;

    const CONTRACT: &str = r#"
version = 1
source.ledger.uri = "a.csv"
[[check]]
name = "columns"
kind = "schema"
mode = "exact"
columns = [{ name = "id" }]
[[check]]
name = "key"
kind = "keys"
columns = ["id"]
within = "scope"
[[check]]
name = "table-key"
kind = "keys"
columns = ["id"]
within = "table"
[[check]]
name = "scope"
kind = "scope"
[[check]]
name = "totals"
kind = "totals"
measures = [{ measure = "sum(x)", source = "ledger" }, { measure = "count(*)", expect = 1 }]
[[check]]
name = "volume"
kind = "volume"
min-rows = 1
"#;

    fn names(kind: &CheckKind) -> (Vec<String>, AfterBaseMoved) {
        let (depends_on, after) = dependencies(kind);
        (depends_on.iter().map(ToString::to_string).collect(), after)
    }

    #[test]
    fn the_table_of_dependencies() {
        use AfterBaseMoved::{ReuseIfEqual, RunAgain};
        let contract = Contract::parse(CONTRACT, "c").unwrap();
        for (name, expected, after) in [
            ("columns", vec!["change", "schema"], ReuseIfEqual),
            ("key", vec!["scope-tree", "fields/[\"id\"]"], ReuseIfEqual),
            ("table-key", vec!["tree", "fields/[\"id\"]"], RunAgain),
            ("scope", vec!["change", "base", "spec"], RunAgain),
            ("totals", vec!["scope-tree", "fields/[\"x\"]", "source/ledger"], ReuseIfEqual),
            ("volume", vec!["scope-tree", "base"], RunAgain),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(names(&contract.check(name).unwrap().kind), (expected, after), "{name}");
        }
    }

    #[test]
    fn identities_survive_text() {
        for kind in [
            IdentityKind::Change,
            IdentityKind::ScopeTree,
            IdentityKind::Tree,
            IdentityKind::Base,
            IdentityKind::Schema,
            IdentityKind::Spec,
            IdentityKind::Code,
            IdentityKind::Contract,
            IdentityKind::Source("a".to_owned()),
            IdentityKind::Fields(["a,b".to_owned(), "c\"".to_owned()].into()),
        ] {
            assert_eq!(kind.to_string().parse::<IdentityKind>().unwrap(), kind);
        }
        assert!("colour".parse::<IdentityKind>().is_err());
        assert!("fields/x".parse::<IdentityKind>().is_err());
    }

    #[test]
    fn a_result_is_reused_only_if_everything_is_equal() {
        let contract = Contract::parse(CONTRACT, "c").unwrap();
        let check = contract.check("key").unwrap();
        let (depends_on, _) = dependencies(&check.kind);
        let result = CheckResult {
            name: "key".to_owned(),
            kind: "keys".to_owned(),
            outcome: Outcome::Pass,
            examined_rows: 1,
            summary: String::new(),
            details: vec![],
            depends_on: depends_on.clone(),
            definition: check.definition_digest(),
            engine: ENGINE.to_owned(),
        };
        let then: BTreeMap<_, _> =
            depends_on.iter().map(|kind| (kind.clone(), Digest::of_bytes(kind.to_string().as_bytes()))).collect();
        let definition = check.definition_digest();
        assert_eq!(reuse(&result, &check.kind, &definition, &then, &then), Reuse::Equal);

        let again = |result: &CheckResult, definition: &Digest, then: &_, now: &_| match reuse(
            result,
            &check.kind,
            definition,
            then,
            now,
        ) {
            Reuse::Equal => panic!("reused"),
            Reuse::RunAgain { because } => because,
        };
        for identity in &depends_on {
            let mut now = then.clone();
            now.insert(identity.clone(), Digest::of_bytes(b"other"));
            assert!(again(&result, &definition, &then, &now).contains(&identity.to_string()));
            now.remove(identity);
            assert!(again(&result, &definition, &then, &now).contains("not known"));
            assert!(again(&result, &definition, &now, &now).contains("not known"));
        }
        let other = Digest::of_bytes(b"tightened");
        assert!(again(&result, &other, &then, &then).contains("changed"));
        let failed = CheckResult { outcome: Outcome::Fail, ..result.clone() };
        assert!(again(&failed, &definition, &then, &then).contains("did not pass"));
        let older = CheckResult { engine: "calve/0".to_owned(), ..result.clone() };
        assert!(again(&older, &definition, &then, &then).contains("calve/0"));
        // A result cannot make itself reusable by naming fewer identities than its kind has.
        let silent = CheckResult { depends_on: BTreeSet::new(), ..result.clone() };
        let mut now = then.clone();
        now.insert(IdentityKind::ScopeTree, Digest::of_bytes(b"other"));
        assert!(again(&silent, &definition, &then, &now).contains("scope-tree"));
        let table = contract.check("table-key").unwrap();
        let whole = CheckResult { definition: table.definition_digest(), ..result };
        let verdict = reuse(&whole, &table.kind, &table.definition_digest(), &then, &then);
        assert!(matches!(verdict, Reuse::RunAgain { .. }));
    }
}
