//! What a command finds around it: its folder, its user's folder, and the environment's variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::catalog::properties::Properties;

/// Prefixes of variables that set a catalog's property; the later one wins.
const CATALOG_PREFIXES: [&str; 2] = [PYICEBERG_PREFIX, "calve_catalog__"];
/// The one that PyIceberg reads too.
const PYICEBERG_PREFIX: &str = "pyiceberg_catalog__";
/// Prefix of variables that set a property of the journal's storage.
const JOURNAL_PREFIX: &str = "calve_journal__";

/// Names that differ only in case, or in dashes and underscores, are one: a variable's name can say no more.
pub(super) fn same_name(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// What a command finds around it.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Environment {
    /// The working directory.
    pub(super) folder: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// That of this process, in a folder. Variables that are no text are nobody's settings.
    pub(in crate::cli) fn of_process(folder: PathBuf) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { folder, variables: std::env::vars_os().filter_map(text).collect() }
    }

    /// One with these variables and no others.
    #[cfg(test)]
    pub(super) fn of(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { folder: folder.to_owned(), variables }
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A folder that a variable names.
    pub(super) fn folder_of(&self, variable: &str) -> Option<&Path> {
        self.variable(variable).map(Path::new)
    }

    /// The properties of each catalog that the environment sets, by the catalog's name in lower case with dashes.
    ///
    /// As PyIceberg reads `PYICEBERG_CATALOG__…`: after the name, two underscores are a dot and one is a dash. A
    /// variable that is empty sets nothing.
    pub(super) fn catalogs(&self) -> BTreeMap<String, Properties> {
        self.catalogs_of(&CATALOG_PREFIXES)
    }

    /// What of it PyIceberg reads too.
    pub(super) fn catalogs_of_pyiceberg(&self) -> BTreeMap<String, Properties> {
        self.catalogs_of(&[PYICEBERG_PREFIX])
    }

    fn catalogs_of(&self, prefixes: &[&str]) -> BTreeMap<String, Properties> {
        let mut catalogs: BTreeMap<String, Properties> = BTreeMap::new();
        for prefix in prefixes {
            for (rest, value) in self.with_prefix(prefix) {
                if let Some((name, property)) =
                    rest.split_once("__").filter(|(name, rest)| !(name.is_empty() || rest.is_empty()))
                {
                    catalogs.entry(name.replace('_', "-")).or_default().set(as_property(property), value);
                }
            }
        }
        catalogs
    }

    /// The properties of the journal's storage that the environment sets.
    pub(super) fn journal_properties(&self) -> Properties {
        self.with_prefix(JOURNAL_PREFIX).map(|(property, value)| (as_property(&property), value)).collect()
    }

    fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, &'a str)> {
        self.variables.iter().filter(|(_, value)| !value.is_empty()).filter_map(move |(name, value)| {
            Some((name.to_lowercase().strip_prefix(prefix)?.to_owned(), value.as_str()))
        })
    }
}

fn as_property(text: &str) -> String {
    text.replace("__", ".").replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_pyiceberg_reads_them() {
        let environment = Environment::of(
            Path::new("/"),
            &[
                ("PYICEBERG_CATALOG__PROD__URI", "low"),
                ("CALVE_CATALOG__PROD__URI", "high"),
                ("PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID", "id"),
                ("calve_catalog__my_lake__oauth2_server_uri", "o"),
                ("CALVE_CATALOG__PROD__TOKEN", ""),
                ("CALVE_CATALOG__PROD", "no property"),
                ("CALVE_CATALOG____URI", "no name"),
                ("CALVE_CATALOG", "prod"),
                ("CALVE_JOURNAL__S3__PATH_STYLE_ACCESS", "true"),
            ],
        );
        let catalogs = environment.catalogs();
        assert_eq!(catalogs.keys().collect::<Vec<_>>(), ["my-lake", "prod"]);
        let prod: Vec<_> = catalogs["prod"].iter().collect();
        assert_eq!(prod, [("s3.access-key-id", "id"), ("uri", "high")]);
        assert_eq!(catalogs["my-lake"].get("oauth2-server-uri"), Some("o"));
        let journal = environment.journal_properties();
        assert_eq!(journal.iter().collect::<Vec<_>>(), [("s3.path-style-access", "true")]);
    }
}
