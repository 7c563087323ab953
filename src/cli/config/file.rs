//! `calve.toml`, read strictly: an unknown key is an error, not a setting that is silently without effect.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::environment::same_name;
use crate::catalog::properties::Properties;
use crate::cli::exit::Failure;

/// The file of settings, searched from the working directory upward.
pub(super) const FILE: &str = "calve.toml";

/// What `calve.toml` says; all of it optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct File {
    /// The file itself, if there is one.
    pub(super) path: Option<PathBuf>,
    pub(super) warehouse: Option<PathBuf>,
    /// The name of the catalog to use where none is given.
    pub(super) default: Option<String>,
    /// By name in lower case with dashes: the name as written, and the properties.
    pub(super) catalogs: BTreeMap<String, (String, Properties)>,
    /// A URI, or a path as written.
    pub(super) journal: Option<String>,
    pub(super) journal_properties: Properties,
    pub(super) owner: Option<String>,
}

impl File {
    pub(super) fn search(folder: &Path) -> Result<Self, Failure> {
        for folder in folder.ancestors() {
            let path = folder.join(FILE);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path),
                // Something of that name which is no file, e.g. a folder, is not ours.
                Err(error) if [ErrorKind::NotFound, ErrorKind::IsADirectory].contains(&error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(Failure::usage(format!("{}: it is not UTF-8 text", path.display())));
                }
                Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
            }
        }
        Ok(Self::default())
    }

    /// The file's folder, from which its paths count.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.path.as_deref().and_then(Path::parent)
    }

    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let wrong = |key: &str, what: &str| Failure::usage(format!("{shown}: `{key}`: {what}"));
        // The parser's own display quotes the line, which may hold a secret.
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
            let line = before.matches('\n').count().saturating_add(1);
            Failure::usage(format!("{shown}: line {line}: {}", error.message()))
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = Self { path: Some(path.to_owned()), ..Self::default() };
        for (key, value) in table {
            let text = match &value {
                Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            };
            let text = || text.ok_or_else(|| wrong(&key, "text in quotes was expected"));
            match (key.as_str(), &value) {
                ("warehouse", _) => file.warehouse = Some(folder.join(text()?)),
                ("default", _) => file.default = Some(text()?),
                ("owner", _) => file.owner = Some(text()?),
                ("journal", Value::Table(properties)) => {
                    let mut flat = Properties::default();
                    flatten(&mut flat, "", properties).map_err(|(at, what)| wrong(&format!("journal.{at}"), what))?;
                    let uri = flat.get("uri").map(str::to_owned);
                    let missing = || {
                        wrong("journal.uri", "it is missing: say where the journal is, e.g. uri = \"s3://BUCKET/PATH\"")
                    };
                    file.journal = Some(uri.ok_or_else(missing)?);
                    file.journal_properties = flat.iter().filter(|(name, _)| *name != "uri").collect();
                }
                ("journal", _) => file.journal = Some(text()?),
                ("catalog", Value::Table(catalogs)) => {
                    for (name, value) in catalogs {
                        let at = format!("catalog.{name}");
                        let Value::Table(properties) = value else {
                            let what = "a table of properties was expected: [catalog.NAME] with uri = \"…\" below it";
                            return Err(wrong(&at, what));
                        };
                        let mut flat = Properties::default();
                        flatten(&mut flat, "", properties)
                            .map_err(|(key, what)| wrong(&format!("{at}.{key}"), what))?;
                        if let Some((other, _)) = file.catalogs.insert(same_name(name), (name.clone(), flat)) {
                            return Err(wrong(&at, &format!("it is the same name as {other}: remove one of them")));
                        }
                    }
                }
                ("catalog", _) => return Err(wrong("catalog", "say [catalog.NAME], with uri = \"…\" below it")),
                _ => {
                    let known = "unknown key; known are warehouse, default, catalog.NAME, journal and owner";
                    return Err(wrong(&key, known));
                }
            }
        }
        Ok(file)
    }
}

/// Nested tables as names with dots, so that `[catalog.prod.s3]` with `endpoint` is `s3.endpoint`.
fn flatten(flat: &mut Properties, prefix: &str, table: &Table) -> Result<(), (String, &'static str)> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let text = match value {
            Value::Table(inner) => {
                flatten(flat, &name, inner)?;
                continue;
            }
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(yes) => yes.to_string(),
            Value::Datetime(_) | Value::Array(_) => {
                return Err((name, "text, a number, true or false was expected; put it in quotes"));
            }
        };
        if flat.get(&name).is_some() {
            return Err((name, "it is given twice, once with dots and once as a table: remove one"));
        }
        flat.set(name, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, Failure> {
        File::parse(text, Path::new("/a/calve.toml"))
    }

    #[test]
    fn the_file_is_read_strictly() {
        let file = parse("warehouse = \"lake\"\njournal = \"/j\"\nowner = \"ci\"\ndefault = \"prod\"").unwrap();
        assert_eq!(file.warehouse, Some(PathBuf::from("/a/lake")));
        assert_eq!(file.journal.as_deref(), Some("/j"));
        assert_eq!((file.owner.as_deref(), file.default.as_deref()), (Some("ci"), Some("prod")));
        assert_eq!(file.folder(), Some(Path::new("/a")));
        for (bad, named) in [
            ("warehose = \"x\"", "`warehose`"),
            ("warehouse = 1", "`warehouse`"),
            ("warehouse = \"\"", "`warehouse`"),
            ("catalog = \"prod\"", "[catalog.NAME]"),
            ("catalog.prod = \"hunter2\"", "`catalog.prod`"),
            ("[catalog.prod]\ns3.headers = [\"hunter2\"]", "`catalog.prod.s3.headers`"),
            (
                "[catalog.prod]\n\"s3.region\" = \"hunter2\"\ns3.region = \"hunter2\"",
                "`catalog.prod.s3.region`: it is given twice",
            ),
            ("[catalog.my_lake]\nuri = \"hunter2\"\n[catalog.My-Lake]\nuri = \"hunter2\"", "the same name as"),
            ("[journal]\n\"s3.secret-access-key\" = \"hunter2\"", "`journal.uri`"),
            ("warehouse = ", "/a/calve.toml"),
            ("\n[catalog.prod]\ntoken = hunter2", "line 3"),
            ("[catalog.prod]\ntoken = \"hunter2\ncredential = \"hunter2\"", "line 2"),
            ("[catalog.prod]\ntoken = \"hunter2\"\ntoken = \"hunter2\"", "line 3"),
        ] {
            let failure = parse(bad).unwrap_err();
            assert_eq!(failure.code, 2, "{bad}");
            let said = &failure.message;
            assert!(said.contains(named) && said.contains("/a/calve.toml"), "{bad}: {said}");
            assert!(!said.contains("hunter2"), "a secret is shown: {said}");
        }
    }

    #[test]
    fn properties_are_text_with_dots() {
        let file = parse(
            "[catalog.Prod]\nuri = \"http://x\"\n\"s3.endpoint\" = \"e\"\nport = 1\nrate = 0.5\n\
             [catalog.Prod.s3]\npath-style-access = true\n[catalog.Prod.client.assume]\nrole = \"r\"\n\
             [journal]\nuri = \"s3://ops/calve\"\n\"s3.region\" = \"eu\"\n",
        )
        .unwrap();
        let (name, properties) = &file.catalogs["prod"];
        assert_eq!(name, "Prod");
        let expected = [
            ("client.assume.role", "r"),
            ("port", "1"),
            ("rate", "0.5"),
            ("s3.endpoint", "e"),
            ("s3.path-style-access", "true"),
            ("uri", "http://x"),
        ];
        assert_eq!(properties.iter().collect::<Vec<_>>(), expected);
        assert_eq!(file.journal.as_deref(), Some("s3://ops/calve"));
        assert_eq!(file.journal_properties.iter().collect::<Vec<_>>(), [("s3.region", "eu")]);
    }
}
