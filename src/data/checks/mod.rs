//! The built-in checks: what each gathers from the rows that pass by, and what it concludes.
//!
//! Nothing here reads a table's file; [`crate::data::pass`] does, once, for all of them.

pub(crate) mod keys;
pub(crate) mod manifest;
pub(crate) mod row_hash;
pub(crate) mod schema;
pub(crate) mod scope;
pub(crate) mod source;
pub(crate) mod sum;
pub(crate) mod totals;
pub(crate) mod volume;

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ArrowError;
use iceberg::spec::{NestedFieldRef, Schema};

use crate::contract::Check;
use crate::evidence::check::{CheckResult, ENGINE, Outcome, dependencies};

/// Examples kept of each kind of fault.
pub(crate) const EXAMPLES: usize = 5;

/// What a check concluded, before it is put under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub outcome: Outcome,
    pub examined: u64,
    pub summary: String,
    pub details: Vec<String>,
}

impl Finding {
    pub fn new(outcome: Outcome, examined: u64, summary: impl Into<String>) -> Self {
        Self { outcome, examined, summary: summary.into(), details: Vec::new() }
    }

    pub fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    /// It could not be decided.
    pub fn error(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Error, 0, reason)
    }

    /// It could not be decided, because these files cannot be read.
    pub fn unreadable(files: &BTreeSet<String>) -> Self {
        let first = files.iter().next().map_or("", String::as_str);
        let summary = match files.len() {
            1 => format!("a file that it needs cannot be read: {first}"),
            more => format!("{more} files that it needs cannot be read, among them {first}"),
        };
        Self::error(summary).with_details(files.iter().take(EXAMPLES).cloned().collect())
    }

    /// The result of a check of the contract. What examined nothing does not pass, unless it may.
    pub fn of(self, check: &Check) -> CheckResult {
        let (depends_on, _) = dependencies(&check.kind);
        let vacuous = self.outcome == Outcome::Pass && self.examined == 0 && !check.allow_empty;
        let (outcome, summary) = match vacuous {
            true => {
                let summary = "it examined no row; where that is right, say allow-empty = true".to_owned();
                (Outcome::Fail, summary)
            }
            false => (self.outcome, self.summary),
        };
        CheckResult {
            name: check.name.clone(),
            kind: check.kind.word().to_owned(),
            outcome,
            examined_rows: self.examined,
            summary,
            details: self.details,
            depends_on,
            definition: check.definition_digest(),
            engine: ENGINE.to_owned(),
        }
    }
}

/// A top-level column by name, or why a check cannot look at it.
pub(crate) fn column<'a>(schema: &'a Schema, name: &str) -> Result<&'a NestedFieldRef, String> {
    let fields = schema.as_struct().fields();
    fields.iter().find(|field| field.name == name).ok_or_else(|| match schema.field_by_name(name) {
        Some(_) => format!("column {name} is nested, and only top-level columns can be checked"),
        None => {
            let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
            format!("the table's current schema has no column {name}; it has {}", names.join(", "))
        }
    })
}

/// A number of things, in words.
pub(crate) fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// A row as `a = 1, b = x`, for people.
pub(crate) fn show_row(batch: &RecordBatch, row: usize, most: usize) -> Result<String, ArrowError> {
    let options = FormatOptions::default().with_null("null");
    let mut shown = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()).take(most) {
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
        let text = formatter.value(row).try_to_string()?;
        let cut: String = text.chars().take(60).collect();
        shown.push(format!("{} = {cut}{}", field.name(), if cut.len() < text.len() { "…" } else { "" }));
    }
    if batch.num_columns() > most {
        shown.push("…".to_owned());
    }
    Ok(shown.join(", "))
}
