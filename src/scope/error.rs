//! What can be wrong with a scope, and what to do about it.

use std::fmt;

/// A place in the text of a scope, both counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The character within the line.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a scope cannot be read, bound or evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The text is not of the accepted grammar.
    #[error("the scope cannot be read at {place}, {found}: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What stands there.
        found: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The text is larger than is sensible for a filter.
    #[error("the scope is too large: {what} (the limit is {limit}); use a range, or a coarser filter")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// A name in the text is not a column.
    #[error("the scope names {name:?} at {place}, which {reason}")]
    Column {
        /// The name as written.
        name: String,
        /// Where.
        place: Place,
        /// Why it cannot be used, and which names can.
        reason: String,
    },
    /// A literal does not fit its column.
    #[error("the scope compares column {column:?} of type {kind} with {literal} at {place}: {reason}")]
    Literal {
        /// The column's name.
        column: String,
        /// The column's Iceberg type.
        kind: String,
        /// The literal as written.
        literal: String,
        /// Where.
        place: Place,
        /// Why it does not fit, and what would.
        reason: String,
    },
    /// A canonical form is damaged or of a newer version.
    #[error(
        "the canonical scope cannot be read at byte {at}: {reason}; it is written by calve and not meant to be edited"
    )]
    Canonical {
        /// The offset in the text.
        at: usize,
        /// What was expected.
        reason: String,
    },
    /// The scope is bound to a column that the schema no longer has.
    #[error(
        "the scope tests field id {field_id}, which the schema does not have (column dropped); state the scope anew"
    )]
    ColumnDropped {
        /// The field id that the scope holds.
        field_id: i32,
    },
    /// The scope is bound to a column whose type has changed in a way that its literals do not survive.
    #[error("the scope tests field id {field_id} as {bound}, but column {column:?} is now {now}; state the scope anew")]
    TypeChanged {
        /// The field id that the scope holds.
        field_id: i32,
        /// The column's name now.
        column: String,
        /// The type that the scope was bound to.
        bound: String,
        /// The type that the column has.
        now: String,
    },
    /// A batch of rows does not hold a column in the form that the schema says.
    #[error("the scope cannot be evaluated on column {column:?}: {reason}; the file that it was read from is damaged")]
    Batch {
        /// The column's name.
        column: String,
        /// What was found.
        reason: String,
    },
    /// A literal could not be handed to Iceberg's planner.
    #[error("the scope cannot be planned on column {column:?}: {reason}")]
    Plan {
        /// The column's name.
        column: String,
        /// What Iceberg said.
        reason: String,
    },
}

impl ScopeError {
    /// Whether the person who wrote the scope can mend it (exit code 2), as opposed to data or state that is wrong
    /// (exit code 1).
    pub fn is_input(&self) -> bool {
        match self {
            Self::Syntax { .. } | Self::TooLarge { .. } | Self::Column { .. } | Self::Literal { .. } => true,
            Self::ColumnDropped { .. } | Self::TypeChanged { .. } => true,
            Self::Canonical { .. } | Self::Batch { .. } | Self::Plan { .. } => false,
        }
    }
}
