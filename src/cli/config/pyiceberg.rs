//! PyIceberg's own settings, `.pyiceberg.yaml`, so that a catalog set up for Python needs no second setup.
//!
//! The first file found of: the folder that `PYICEBERG_HOME` names, the user's folder, the working directory. Names
//! and keys are in lower case there. Source: PyIceberg's documentation, "Configuration".

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::environment::{Environment, same_name};
use crate::catalog::properties::Properties;
use crate::cli::exit::Failure;

const FILE: &str = ".pyiceberg.yaml";

/// What `.pyiceberg.yaml` says that calve can use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PyIceberg {
    /// The file, if there is one.
    pub(super) path: Option<PathBuf>,
    /// The catalog to use where none is named.
    pub(super) default: Option<String>,
    /// By name in lower case with dashes: the name as written, and the properties.
    pub(super) catalogs: BTreeMap<String, (String, Properties)>,
}

impl PyIceberg {
    pub(super) fn search(environment: &Environment) -> Result<Self, Failure> {
        let homes = ["PYICEBERG_HOME", "HOME"].into_iter().filter_map(|name| environment.folder_of(name));
        for folder in homes.chain([environment.folder.as_path()]) {
            let path = folder.join(FILE);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path),
                Err(error)
                    if [ErrorKind::NotFound, ErrorKind::IsADirectory, ErrorKind::NotADirectory]
                        .contains(&error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(Failure::usage(format!("{}: it is not UTF-8 text", path.display())));
                }
                Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let wrong = |key: &str, what: &str| Failure::usage(format!("{shown}: `{key}`: {what}"));
        let options = serde_saphyr::options! {
            // A snippet would show what stands beside the mistake, e.g. a secret.
            with_snippet: false,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
        };
        let read: Option<Value> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map_or_else(String::new, |at| format!("line {}: ", at.line()));
            Failure::usage(format!(
                "{shown}: {line}it is not YAML that calve can read: check quotes and indentation there"
            ))
        })?;
        let mut file = Self { path: Some(path.to_owned()), ..Self::default() };
        let top = match read {
            None | Some(Value::Null) => return Ok(file),
            Some(Value::Object(top)) => top,
            Some(_) => return Err(Failure::usage(format!("{shown}: `catalog:` with names below it was expected"))),
        };
        for (key, value) in top {
            match (key.to_lowercase().as_str(), value) {
                ("default-catalog", Value::String(name)) if !name.is_empty() => file.default = Some(name),
                ("default-catalog", _) => return Err(wrong(&key, "the name of a catalog was expected")),
                ("catalog", Value::Null) => {}
                ("catalog", Value::Object(catalogs)) => {
                    for (name, value) in catalogs {
                        let at = format!("catalog.{name}");
                        let mut flat = Properties::default();
                        match value {
                            Value::Null => {}
                            Value::Object(properties) => flatten(&mut flat, "", &properties)
                                .map_err(|(key, what)| wrong(&format!("{at}.{key}"), what))?,
                            _ => return Err(wrong(&at, "properties below it were expected, e.g. uri: …")),
                        }
                        if let Some((other, _)) = file.catalogs.insert(same_name(&name), (name, flat)) {
                            return Err(wrong(&at, &format!("it is the same name as {other}: remove one of them")));
                        }
                    }
                }
                ("catalog", _) => return Err(wrong(&key, "names of catalogs below it were expected")),
                // The rest is PyIceberg's own.
                _ => {}
            }
        }
        Ok(file)
    }
}

fn flatten(flat: &mut Properties, prefix: &str, map: &Map<String, Value>) -> Result<(), (String, &'static str)> {
    for (key, value) in map {
        let key = key.to_lowercase();
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        let text = match value {
            Value::Object(inner) => {
                flatten(flat, &name, inner)?;
                continue;
            }
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Bool(yes) => yes.to_string(),
            // Digits of a float are not kept as written, and a secret may look like one: `12e34`.
            Value::Number(number) if number.is_f64() => return Err((name, "put this number in quotes")),
            Value::Number(number) => number.to_string(),
            // Lists belong to settings of PyIceberg's own, e.g. below `auth`.
            Value::Array(_) => continue,
        };
        flat.set(name, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PyIceberg, Failure> {
        PyIceberg::parse(text, Path::new("/home/.pyiceberg.yaml"))
    }

    #[test]
    fn catalogs_are_read() {
        let file = parse(
            "default-catalog: prod\nmax-workers: 8\ncatalog:\n  Prod:\n    URI: http://x\n    credential: t-1:s3cr3t\n    \
             s3.path-style-access: true\n    client.port: 007\n    account: 123456789012\n    auth:\n      type: basic\n  \
             old:\n    type: sql\n",
        )
        .unwrap();
        assert_eq!(file.default.as_deref(), Some("prod"));
        assert_eq!(file.catalogs.keys().collect::<Vec<_>>(), ["old", "prod"]);
        let expected = [
            ("account", "123456789012"),
            ("auth.type", "basic"),
            ("client.port", "007"),
            ("credential", "t-1:s3cr3t"),
            ("s3.path-style-access", "true"),
            ("uri", "http://x"),
        ];
        assert_eq!(file.catalogs["prod"].1.iter().collect::<Vec<_>>(), expected);
        assert!(parse("").unwrap().catalogs.is_empty() && parse("# nothing\n").unwrap().catalogs.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_without_values() {
        for (bad, named) in [
            ("- hunter2", "`catalog:`"),
            ("catalog: hunter2", "`catalog`"),
            ("catalog:\n  prod: hunter2", "`catalog.prod`"),
            ("catalog:\n  prod:\n    token: 12e34", "`catalog.prod.token`: put this number in quotes"),
            ("catalog:\n  prod:\n    token: \"hunter2\n  x: 1", "not YAML"),
            ("catalog:\n  prod: {}\n  PROD: {}", "the same name"),
            ("default-catalog: [hunter2]", "`default-catalog`"),
        ] {
            let failure = parse(bad).unwrap_err();
            assert_eq!(failure.code, 2, "{bad}");
            let said = &failure.message;
            assert!(said.contains(named) && said.contains(".pyiceberg.yaml"), "{bad}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("12e34"), "a secret is shown: {said}");
        }
    }

    #[test]
    fn the_first_file_counts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let folder = dir.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (named, home, here) = (at("named"), at("home"), at("here"));
        let text = |path: &Path| path.display().to_string();
        let (named_text, home_text) = (text(&named), text(&home));
        let variables = [("PYICEBERG_HOME", named_text.as_str()), ("HOME", home_text.as_str())];
        let environment = Environment::of(&here, &variables);
        assert_eq!(PyIceberg::search(&environment).unwrap(), PyIceberg::default());
        for folder in [&here, &home, &named] {
            std::fs::write(folder.join(FILE), "catalog: {}").unwrap();
            assert_eq!(PyIceberg::search(&environment).unwrap().path, Some(folder.join(FILE)));
        }
    }
}
