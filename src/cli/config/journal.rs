//! Where the journal is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment::Environment;
use crate::catalog::properties::Properties;
use crate::cli::exit::Failure;
use crate::journal::local::LocalJournal;
use crate::journal::{Journal, object};

/// Properties of a catalog that are its storage's, and so its journal's where that is on the same storage.
const STORAGE: [&str; 4] = ["s3.", "gcs.", "adls.", "client."];

/// Where the journal is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum JournalPlace {
    /// A folder that was named.
    Named(PathBuf),
    /// The folder `journal` of a warehouse.
    Warehouse(PathBuf),
    /// The user's state folder, because none was named for a catalog that others use too.
    State(PathBuf),
    /// An object store.
    Store {
        /// Its URI, e.g. `s3://ops/calve`.
        uri: String,
        /// Of its storage.
        properties: Properties,
    },
}

impl JournalPlace {
    /// What was named: a URI of an object store, a `file:` URI, or a path, which counts from `folder`.
    pub(super) fn named(text: &Path, folder: &Path, storage: impl FnOnce() -> Properties) -> Self {
        match text.to_str() {
            Some(uri) if object::is_object_store(uri) => Self::Store { uri: uri.to_owned(), properties: storage() },
            Some(uri) if uri.starts_with("file:") => {
                let path = uri.trim_start_matches("file:");
                let path = path.strip_prefix("//").unwrap_or(path);
                Self::Named(PathBuf::from(path))
            }
            _ => Self::Named(folder.join(text)),
        }
    }

    /// The user's state folder. Source: XDG Base Directory Specification.
    pub(super) fn state(environment: &Environment) -> Result<Self, Failure> {
        // The specification has relative paths ignored.
        let state = environment.folder_of("XDG_STATE_HOME").filter(|path| path.is_absolute()).map(Path::to_owned);
        let home = || environment.folder_of("HOME").map(|home| home.join(".local/state"));
        let state = state.or_else(home).ok_or_else(|| {
            Failure::usage(
                "no journal is configured, and there is no HOME to keep one in: name one with --journal PATH, or with \
                 journal = \"s3://BUCKET/PATH\" in calve.toml",
            )
        })?;
        Ok(Self::State(state.join("calve/journal")))
    }

    /// Opens it.
    pub(super) async fn open(&self) -> Result<Arc<dyn Journal>, Failure> {
        match self {
            Self::Named(path) | Self::Warehouse(path) | Self::State(path) => {
                Ok(Arc::new(LocalJournal::open(path.clone())?))
            }
            Self::Store { uri, properties } => {
                let properties: Vec<_> =
                    properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                Ok(Arc::new(object::open(uri, &properties).await?))
            }
        }
    }
}

/// The properties of a catalog that concern storage.
pub(super) fn storage_of(catalog: &Properties) -> Properties {
    catalog.iter().filter(|(name, _)| STORAGE.iter().any(|prefix| name.starts_with(prefix))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_no_path() {
        let here = Path::new("/here");
        let named = |text: &str| JournalPlace::named(Path::new(text), here, Properties::default);
        let folder = |path: &str| JournalPlace::Named(PathBuf::from(path));
        assert_eq!(
            named("s3://ops/calve"),
            JournalPlace::Store { uri: "s3://ops/calve".to_owned(), properties: Properties::default() }
        );
        assert_eq!(named("file:///var/j"), folder("/var/j"));
        assert_eq!(named("file:/var/j"), folder("/var/j"));
        assert_eq!(named("j"), folder("/here/j"));
        assert_eq!(named("/j"), folder("/j"));
    }

    #[test]
    fn the_state_folder() {
        let state = |variables: &[(&str, &str)]| JournalPlace::state(&Environment::of(Path::new("/"), variables));
        let at = |path: &str| JournalPlace::State(PathBuf::from(path));
        assert_eq!(state(&[("HOME", "/h")]).unwrap(), at("/h/.local/state/calve/journal"));
        assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]).unwrap(), at("/s/calve/journal"));
        assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]).unwrap(), at("/h/.local/state/calve/journal"));
        assert_eq!(state(&[]).unwrap_err().code, 2);
    }
}
