//! The row filter that a publication owns: read, bound to field ids, written in one canonical form, evaluated.
//!
//! A scope is compared and hashed, so two ways of writing one filter have to come out as one text; it must survive
//! renamed columns, so it holds field ids; and it decides what a publication may touch, so it is evaluated by our own
//! rules, not by those of the engine that happens to plan or read the files.
//!
//! | module | does |
//! |---|---|
//! | `syntax` | text to a tree of tests, each with its place in the text; nothing known of columns yet |
//! | `bind` | names to field ids, literals to the column's type, `NOT` pushed down to the tests |
//! | `node` | the bound tree; flattened, deduplicated, sorted |
//! | `literal` | text to a typed value and back, one spelling a value |
//! | `canonical` | the tree as text, and a strict reader of it |
//! | `matcher` | which rows of a batch are inside |
//! | `prune` | which files cannot hold a row inside, and which hold none outside |
//! | `prune_manifest` | which manifests list no file that could |
//! | `partition` | a partition as a person would write it |
//! | `shown` | the tree as a person would write it |
//! | `predicate` | the same filter for Iceberg's own planner |
//!
//! # What is accepted
//!
//! `= == != <> < <= > >=`, `IN (…)`, `NOT IN (…)`, `BETWEEN … AND …`, `NOT BETWEEN`, `IS NULL`, `IS NOT NULL`,
//! `LIKE 'prefix%'`, `NOT LIKE 'prefix%'`, `AND`, `OR`, `NOT`, parentheses, `true`, `false`. One side of a comparison
//! is a column, the other a literal: a number, `'text'`, `true`, `false`, `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`,
//! `X'hex'`. Names are case-sensitive; dots reach into structs.
//!
//! # Canonical form
//!
//! ```text
//! scope   = "true" | "false" | test | "(and" 2*(" " scope) ")" | "(or" 2*(" " scope) ")"
//! test    = "(" compare " " column " " value ")"
//!         | "(" ("in" | "not-in") " " column 2*(" " value) ")"
//!         | "(" ("starts-with" | "not-starts-with") " " column " " value ")"
//!         | "(" ("is-null" | "not-null") " " column ")"
//! compare = "=" | "!=" | "<" | "<=" | ">" | ">="
//! column  = "#" field-id ":" type
//! type    = boolean int long float double decimal(P,S) date time timestamp timestamptz timestamp_ns timestamptz_ns
//!           string uuid fixed[L] binary, as in the Iceberg spec, "Primitive Types"
//! value   = true, false | a decimal number without leading zeros | a decimal with exactly S digits after the point
//!         | a float as digits and exponent, 1.5e0 | 2013-08-09 | 17:05:00.000000 | 2013-08-09T17:05:00.000000, with Z
//!           where the type has a zone and nine digits where it counts nanoseconds | "text" with \" \\ and \u{hex} for
//!           control characters | a uuid in lower case | 0x and lower-case hex
//! ```
//!
//! `true` and `false` stand only alone. An `and` holds no `and`, an `or` no `or`; operands are sorted by their bytes
//! and differ. The values of a list are sorted by value and differ. There is no `not`: De Morgan's laws and inverted
//! comparisons hold in three-valued logic too, so the form without it is true, false and unknown on the same rows.
//!
//! # Floating point
//!
//! `-0.0` equals `0.0`. NaN is greater than every number and equal to none; a literal cannot be NaN or infinite. So
//! `x > 1` and `x != 1` hold for NaN, `x <= 1` does not, and `NOT (x > 1)` is `x <= 1` on every row.

mod bind;
mod canonical;
mod error;
mod filter;
mod literal;
mod matcher;
mod node;
mod partition;
mod predicate;
mod prune;
mod prune_manifest;
mod shown;
mod syntax;
#[cfg(test)]
mod tests;

pub use error::{Place, ScopeError};
pub use filter::Scope;
pub use matcher::Matcher;
pub use partition::partition_text;
