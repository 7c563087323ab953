//! Reading and writing the tables' files.
//!
//! [`mod@write`] and [`mod@replace`] turn input files into data files of the table; [`mod@snapshot`] turns data files into the
//! manifests and the manifest list of a snapshot that a commit can name. Nothing here commits anything: files that no
//! snapshot names are invisible to every reader.

mod checks;
pub mod create;
mod deletes;
pub mod history;
pub(crate) mod input;
pub mod live;
mod metrics;
pub mod moved;
mod parquet_file;
pub mod pass;
pub mod replace;
mod rows;
pub mod snapshot;
mod summary;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
pub mod write;

use std::error::Error as _;
use std::fmt::Debug;

use crate::catalog::storage::{StorageError, StorageErrorKind};

/// Why data could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file given as input is not one that this table takes. The table is unchanged: mend the file and run the same
    /// command again.
    #[error("input {file}: {reason}")]
    Input {
        /// The file as given.
        file: String,
        /// What is wrong with it: which column, which type, which row.
        reason: String,
    },
    /// Something else that was given, not a file, is not valid: a partition expression, a scope.
    #[error("{0}")]
    Invalid(String),
    /// The table uses something that this calve cannot read or write without risk to its rows.
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// The file or the feature, by name.
        what: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A file of the table is not what the table's metadata says.
    #[error(
        "{file} is damaged: {reason}; nothing was changed: restore the file from a backup, or begin and stage again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{file}: {reason}; {}, then run the same command again", if *.unwritable { "free some space" } else { "see that it is there and can be read" })]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        reason: String,
        /// The disk is full.
        unwritable: bool,
    },
    /// The key for the storage of a file is wrong.
    #[error("{file}: {reason}")]
    Key {
        /// The file.
        file: String,
        /// What the store said, and what to do.
        reason: String,
    },
    /// A file may not be read or written by this user, or by anyone.
    #[error("{file}: {reason}; grant access there, then run the same command again")]
    Forbidden {
        /// The file.
        file: String,
        /// What the system said.
        reason: String,
    },
}

impl DataError {
    /// An error of iceberg's about a file of the table.
    pub fn from_iceberg(file: impl Into<String>, error: &iceberg::Error) -> Self {
        let file = file.into();
        if let Some(storage) = StorageError::within(error) {
            // Named once is enough.
            let reason = if file.ends_with(&storage.path) {
                format!("cannot {} it: {}", storage.action, storage.reason)
            } else {
                format!("cannot {} {}: {}", storage.action, storage.path, storage.reason)
            };
            return match storage.kind {
                StorageErrorKind::ReadOnly => Self::Forbidden { file, reason },
                StorageErrorKind::Full => Self::Io { file, reason, unwritable: true },
                StorageErrorKind::Key => Self::Key { file, reason },
                StorageErrorKind::Configuration => Self::Invalid(format!("{file}: {reason}")),
                StorageErrorKind::Unsupported => Self::Unsupported { what: file, reason },
                StorageErrorKind::Exists | StorageErrorKind::Missing | StorageErrorKind::Other => {
                    Self::Io { file, reason, unwritable: false }
                }
            };
        }
        if let Some(io) = io_source(error) {
            return Self::from_io(file, io);
        }
        let reason = error.to_string();
        if let Some(io) = io_in_words(&reason) {
            return Self::of_kind(file, reason, &io);
        }
        match error.kind() {
            iceberg::ErrorKind::DataInvalid => Self::Damaged { file, reason },
            iceberg::ErrorKind::FeatureUnsupported => Self::Unsupported { what: file, reason },
            _ => Self::Io { file, reason, unwritable: false },
        }
    }

    /// An error of the operating system's about a file.
    pub fn from_io(file: impl Into<String>, error: &std::io::Error) -> Self {
        Self::of_kind(file.into(), error.to_string(), error)
    }

    fn of_kind(file: String, reason: String, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match error.kind() {
            PermissionDenied | ReadOnlyFilesystem => Self::Forbidden { file, reason },
            kind => Self::Io { file, reason, unwritable: [FileTooLarge, QuotaExceeded, StorageFull].contains(&kind) },
        }
    }
}

/// The operating system's error at the root of one of iceberg's, if there is one.
fn io_source(error: &iceberg::Error) -> Option<&std::io::Error> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Some(io);
        }
        source = inner.source();
    }
    None
}

/// The operating system's error that a message ends in, as the standard library words it: some storages keep only that.
fn io_in_words(message: &str) -> Option<std::io::Error> {
    let (_, code) = message.rsplit_once("(os error ")?;
    let (code, _) = code.split_once(')')?;
    code.parse().ok().map(std::io::Error::from_raw_os_error)
}

/// Keeps the path beside an error of iceberg's, which often has none.
pub(crate) trait AboutFile<T> {
    /// The same result, with the file named.
    fn about(self, file: &str) -> Result<T, DataError>;
}

impl<T> AboutFile<T> for iceberg::Result<T> {
    fn about(self, file: &str) -> Result<T, DataError> {
        self.map_err(|error| DataError::from_iceberg(file, &error))
    }
}

/// Told about long work as it goes on; called often, so it must be quick.
pub trait Progress: Debug + Send + Sync {
    /// A piece of work begins, e.g. `writing orders.csv`; `total_bytes` is how much there is to read, if known.
    fn stage(&self, what: &str, total_bytes: Option<u64>);

    /// So many more rows and input bytes are done.
    fn add(&self, rows: u64, bytes: u64);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn stage(&self, _what: &str, _total_bytes: Option<u64>) {}

    fn add(&self, _rows: u64, _bytes: u64) {}
}
