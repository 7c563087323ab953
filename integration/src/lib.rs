//! Real services and readers for calve's tests.
//!
//! What the tests need from outside is installed once, in exactly the versions pinned here, into a cache outside the
//! source tree: `$CALVE_TEST_CACHE`, else `$XDG_CACHE_HOME/calve-integration`, else `~/.cache/calve-integration`. What
//! cannot be had is an error that says so: a test here never passes because something was missing.

pub mod beds;
pub mod cache;
pub mod chaos;
pub mod command;
pub mod lake;
pub mod mutants;
pub mod process;
pub mod proxy;
pub mod python;
pub mod readers;
pub mod services;
pub mod story;

use std::path::{Path, PathBuf};

/// Why the harness itself failed. The text is all there is: it is for a person who reads a failed test.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HarnessError(pub String);

impl HarnessError {
    /// An error of the operating system, with what was tried.
    pub fn io(tried: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self(format!("{tried}: {error}"))
    }
}

/// Shorthand for what every function here returns.
pub type Result<T> = std::result::Result<T, HarnessError>;

/// The root of the source tree.
pub fn source_root() -> PathBuf {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.parent().unwrap_or(member).to_owned()
}

/// A file of the flights example, e.g. `flights-2013-08-09.parquet`.
pub fn flights(name: &str) -> PathBuf {
    source_root().join("examples/flights").join(name)
}
