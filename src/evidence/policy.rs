//! The verdict over the results: may the change be sealed?
//!
//! Missing evidence is a conclusion, not an error. Source: `protocol.md`, "Checks".

use crate::contract::Contract;
use crate::evidence::check::{CheckResult, Outcome};
use crate::evidence::statement::Statement;

/// What the evidence comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only Passed may be sealed"]
pub enum EvidenceVerdict {
    /// Every check of the contract has one result, of its present definition, that passed.
    Passed,
    /// At least one check failed.
    Failed {
        /// Their names, in the order of the results.
        names: Vec<String>,
    },
    /// None failed, but at least one could not be decided.
    Errored {
        /// Their names, in the order of the results.
        names: Vec<String>,
    },
    /// None failed and none erred, but there is not enough to pass on.
    Incomplete {
        /// What is missing, in the order of the contract.
        missing: Vec<Missing>,
    },
}

/// A piece of evidence that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The check; empty where the contract has none.
    pub check: String,
    /// In what way.
    pub why: MissingReason,
}

/// In what way evidence is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingReason {
    /// The contract has no check.
    #[error("the contract has no check, and nothing passes an empty contract")]
    EmptyContract,
    /// The check has no result.
    #[error("it was not run")]
    NotRun,
    /// The check has more than one result.
    #[error("it has more than one result, and which of them counts is not known")]
    Repeated,
    /// The result is of another definition.
    #[error("its result is of another definition of the check; validate again")]
    OtherDefinition,
    /// It passed without having examined anything, and is not allowed to.
    #[error("it examined no row; where that is right, say allow-empty = true in the contract")]
    NothingExamined,
}

/// The verdict of a contract over results.
///
/// A result whose name is not in the contract (the built-in check of manifests) can only do harm: it counts if it
/// failed or erred, and is no evidence if it passed.
pub fn verdict(contract: &Contract, results: &[CheckResult]) -> EvidenceVerdict {
    let with = |outcome: Outcome| -> Vec<String> {
        results.iter().filter(|result| result.outcome == outcome).map(|result| result.name.clone()).collect()
    };
    let failed = with(Outcome::Fail);
    if !failed.is_empty() {
        return EvidenceVerdict::Failed { names: failed };
    }
    let errored = with(Outcome::Error);
    if !errored.is_empty() {
        return EvidenceVerdict::Errored { names: errored };
    }
    let mut missing = Vec::new();
    if contract.checks.is_empty() {
        missing.push(Missing { check: String::new(), why: MissingReason::EmptyContract });
    }
    for check in &contract.checks {
        let mut of_check = results.iter().filter(|result| result.name == check.name);
        let why = match (of_check.next(), of_check.next()) {
            (None, _) => MissingReason::NotRun,
            (Some(_), Some(_)) => MissingReason::Repeated,
            (Some(result), None) if result.definition != check.definition_digest() => MissingReason::OtherDefinition,
            (Some(result), None) if result.examined_rows == 0 && !check.allow_empty => MissingReason::NothingExamined,
            (Some(_), None) => continue,
        };
        missing.push(Missing { check: check.name.clone(), why });
    }
    if missing.is_empty() { EvidenceVerdict::Passed } else { EvidenceVerdict::Incomplete { missing } }
}

/// Does a statement say that every check of a contract, as it is defined now, passed, and that no other failed?
pub fn proves(contract: &Contract, statement: &Statement) -> bool {
    let checks = &statement.predicate.checks;
    statement.passed()
        && contract.checks.iter().all(|check| {
            let definition = check.definition_digest();
            checks.iter().any(|stated| stated.name == check.name && stated.definition == definition)
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::digest::Digest;

    fn contract() -> Contract {
        let text = "version = 1\n[[check]]\nname = \"a\"\nkind = \"scope\"\n\
                    [[check]]\nname = \"b\"\nkind = \"scope\"\nallow-empty = true\n";
        Contract::parse(text, "c").unwrap()
    }

    fn result(contract: &Contract, name: &str, outcome: Outcome, examined_rows: u64) -> CheckResult {
        CheckResult {
            name: name.to_owned(),
            kind: "scope".to_owned(),
            outcome,
            examined_rows,
            summary: String::new(),
            details: vec![],
            depends_on: BTreeSet::new(),
            definition: contract.check(name).map_or(Digest::of_bytes(b""), |check| check.definition_digest()),
            engine: String::new(),
        }
    }

    #[test]
    fn truth_table() {
        use MissingReason::{NotRun, NothingExamined, Repeated};
        use Outcome::{Error, Fail, Pass};
        let contract = contract();
        let failed = |names: &[&str]| EvidenceVerdict::Failed { names: names.iter().map(|n| n.to_string()).collect() };
        let errored =
            |names: &[&str]| EvidenceVerdict::Errored { names: names.iter().map(|n| n.to_string()).collect() };
        let missing = |list: &[(&str, MissingReason)]| EvidenceVerdict::Incomplete {
            missing: list.iter().map(|(check, why)| Missing { check: check.to_string(), why: *why }).collect(),
        };
        type Given<'a> = &'a [(&'a str, Outcome, u64)];
        let table: [(Given<'_>, EvidenceVerdict); 14] = [
            (&[("a", Pass, 1), ("b", Pass, 1)], EvidenceVerdict::Passed),
            (&[("b", Pass, 0), ("a", Pass, 1)], EvidenceVerdict::Passed),
            (&[("a", Pass, 1), ("b", Pass, 1), ("manifest", Pass, 0)], EvidenceVerdict::Passed),
            (&[("a", Pass, 0), ("b", Pass, 1)], missing(&[("a", NothingExamined)])),
            (&[("a", Pass, 1)], missing(&[("b", NotRun)])),
            (&[], missing(&[("a", NotRun), ("b", NotRun)])),
            (&[("a", Pass, 1), ("a", Pass, 1), ("b", Pass, 1)], missing(&[("a", Repeated)])),
            (&[("a", Fail, 1), ("b", Pass, 1)], failed(&["a"])),
            (&[("a", Fail, 1), ("b", Fail, 1)], failed(&["a", "b"])),
            (&[("a", Fail, 1), ("b", Error, 1)], failed(&["a"])),
            (&[("a", Error, 1), ("b", Pass, 1)], errored(&["a"])),
            (&[("a", Error, 1)], errored(&["a"])),
            (&[("a", Pass, 1), ("b", Pass, 1), ("manifest", Fail, 1)], failed(&["manifest"])),
            (&[("a", Pass, 1), ("b", Pass, 1), ("manifest", Error, 1)], errored(&["manifest"])),
        ];
        for (given, expected) in table {
            let results: Vec<_> = given.iter().map(|(name, out, rows)| result(&contract, name, *out, *rows)).collect();
            assert_eq!(verdict(&contract, &results), expected, "{given:?}");
        }
    }

    #[test]
    fn an_empty_contract_and_another_definition_do_not_pass() {
        let contract = contract();
        let mut results = vec![result(&contract, "a", Outcome::Pass, 1), result(&contract, "b", Outcome::Pass, 1)];
        results[0].definition = Digest::of_bytes(b"older");
        let missing = Missing { check: "a".to_owned(), why: MissingReason::OtherDefinition };
        assert_eq!(verdict(&contract, &results), EvidenceVerdict::Incomplete { missing: vec![missing] });
        let empty = Contract { checks: vec![], ..contract };
        let missing = Missing { check: String::new(), why: MissingReason::EmptyContract };
        assert_eq!(verdict(&empty, &[]), EvidenceVerdict::Incomplete { missing: vec![missing] });
    }
}
