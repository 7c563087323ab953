//! Why a use case did not come to a result. Outcomes of the protocol are results, never errors.

use crate::catalog::CatalogError;
use crate::contract::ContractError;
use crate::data::DataError;
use crate::ids::IdError;
use crate::journal::JournalError;
use crate::journal::fold::FoldError;
use crate::publish::outcome::{EXIT_FAILED, EXIT_REJECTED, EXIT_UNRESOLVED, EXIT_USAGE};
use crate::scope::ScopeError;

/// Why a use case did not come to a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog could not be read, or refuses.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A log's records do not follow from each other.
    #[error(
        "journal {log}: {error}; what the table shows is unaffected: `calve reconcile` with another --journal reads it"
    )]
    Fold {
        /// The log.
        log: String,
        /// Why.
        error: FoldError,
    },
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The scope is not one of this table.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The contract is not one.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// An identifier is malformed.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Something given is wrong.
    #[error("{0}")]
    Usage(String),
    /// The publication is in the wrong state for this verb, belongs to another, or is leased.
    #[error("{0}")]
    Rejected(String),
    /// A commit may still be applied.
    #[error("{0}")]
    Unresolved(String),
    /// A state that another row of the reconcile table gives its exit code.
    #[error("{message}")]
    State {
        /// The sentence.
        message: String,
        /// The exit code.
        exit: u8,
    },
    /// Something that should not happen.
    #[error("{0}")]
    Failed(String),
}

/// What was said, and the remedy after it: once, since what is quoted may end with it already.
pub(super) fn run_again(said: String) -> String {
    const REMEDY: &str = "run the same command again";
    if said.contains(REMEDY) { said } else { format!("{said}; {REMEDY}") }
}

impl Error {
    /// The exit code. Source: `protocol.md`, "Outcomes and exit codes".
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Catalog(error) => match error {
                CatalogError::NoSuchTable { .. }
                | CatalogError::TableExists(_)
                | CatalogError::Forbidden { .. }
                | CatalogError::Newer { .. }
                | CatalogError::Unsupported { .. }
                | CatalogError::ReadOnly { .. } => EXIT_REJECTED,
                CatalogError::Invalid(_) => EXIT_USAGE,
                CatalogError::Damaged { .. } | CatalogError::Unavailable { .. } => EXIT_FAILED,
            },
            Error::Data(error) => match error {
                DataError::Input { .. } | DataError::Invalid(_) => EXIT_USAGE,
                DataError::Unsupported { .. } | DataError::Forbidden { .. } | DataError::Key { .. } => EXIT_REJECTED,
                DataError::Damaged { .. } | DataError::Io { .. } => EXIT_FAILED,
            },
            Error::Journal(
                JournalError::Newer { .. } | JournalError::ReadOnly { .. } | JournalError::Forbidden { .. },
            )
            | Error::Rejected(_) => EXIT_REJECTED,
            Error::Journal(JournalError::Invalid { .. }) => EXIT_USAGE,
            Error::Journal(_) | Error::Fold { .. } | Error::Failed(_) => EXIT_FAILED,
            Error::Scope(error) if error.is_input() => EXIT_USAGE,
            Error::Scope(_) => EXIT_FAILED,
            Error::Contract(_) | Error::Id(_) | Error::Usage(_) => EXIT_USAGE,
            Error::Unresolved(_) => EXIT_UNRESOLVED,
            Error::State { exit, .. } => *exit,
        }
    }
}
