//! Which catalog a command works with, and its properties from everywhere, merged.

use std::collections::BTreeMap;
use std::fmt;

use super::environment::{Environment, same_name};
use super::file::File;
use super::pyiceberg::PyIceberg;
use crate::catalog::properties::Properties;
use crate::cli::exit::Failure;

/// A catalog over REST, as configured.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cli) struct Configured {
    /// Its name, as written where it is configured.
    pub(in crate::cli) name: String,
    /// Its properties, of which `uri` is one.
    pub(in crate::cli) properties: Properties,
    /// Its name for PyIceberg, where that finds the same properties by itself.
    python: Option<String>,
}

impl Configured {
    /// The properties to connect with: what calve says of the catalog is among them.
    pub(in crate::cli) fn connection(&self) -> Properties {
        let mut properties = self.properties.clone();
        properties.set("calve.name", self.name.clone());
        properties.set("calve.pyiceberg", self.python.clone().unwrap_or_default());
        properties
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.properties)
    }
}

/// Every catalog that is configured anywhere.
struct Known<'a> {
    file: &'a File,
    pyiceberg: PyIceberg,
    merged: BTreeMap<String, Configured>,
}

impl<'a> Known<'a> {
    fn read(file: &'a File, environment: &Environment) -> Result<Self, Failure> {
        let pyiceberg = PyIceberg::search(environment)?;
        let mut merged: BTreeMap<String, Configured> = BTreeMap::new();
        let from_environment = environment.catalogs().into_iter().map(|(key, over)| (key.clone(), (key, over)));
        let layers = pyiceberg.catalogs.clone().into_iter().chain(file.catalogs.clone()).chain(from_environment);
        for (key, (name, over)) in layers {
            let empty = || Configured { name: name.clone(), properties: Properties::default(), python: None };
            let catalog = merged.entry(key).or_insert_with(empty);
            catalog.properties = catalog.properties.overridden_by(&over);
        }
        let of_python = environment.catalogs_of_pyiceberg();
        for (key, catalog) in &mut merged {
            catalog.python = name_in_python(key, catalog, &pyiceberg, of_python.get(key));
        }
        Ok(Self { file, pyiceberg, merged })
    }

    fn names(&self) -> String {
        self.merged.values().map(|catalog| catalog.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Where catalogs are configured, for messages.
    fn places(&self) -> String {
        let file =
            self.file.path.as_ref().map_or_else(|| super::file::FILE.to_owned(), |path| path.display().to_string());
        let yaml = self.pyiceberg.path.as_ref().map_or_else(String::new, |path| format!(", in {}", path.display()));
        format!("in {file}{yaml} or the environment")
    }

    fn named(&self, name: &str, by: &str) -> Result<Configured, Failure> {
        self.merged.get(&same_name(name)).cloned().ok_or_else(|| {
            let known = match self.names() {
                names if names.is_empty() => "none is configured".to_owned(),
                names => format!("configured are {names}"),
            };
            Failure::usage(format!(
                "catalog {name}, which {by} names, is not configured {}: {known}\n\
                 Add [catalog.{name}] with uri = \"https://…\" to calve.toml, or set CALVE_CATALOG__{}__URI",
                self.places(),
                same_name(name).to_uppercase().replace('-', "_")
            ))
        })
    }

    /// The one that stands out where none is named: PyIceberg's default, or the one called `default`, or the only one;
    /// but what calve's own file has comes first.
    fn obvious(&self, environment: &Environment) -> Result<Option<Configured>, Failure> {
        const DEFAULT: &str = "default";
        if let Some(name) = &self.file.default {
            return self.named(name, "`default` in calve.toml").map(Some);
        }
        if self.file.catalogs.contains_key(DEFAULT) {
            return Ok(self.merged.get(DEFAULT).cloned());
        }
        if let (1, Some(only)) = (self.file.catalogs.len(), self.file.catalogs.keys().next()) {
            return Ok(self.merged.get(only).cloned());
        }
        if let Some(name) = environment.variable("PYICEBERG_DEFAULT_CATALOG") {
            return self.named(name, "PYICEBERG_DEFAULT_CATALOG").map(Some);
        }
        if let Some(name) = &self.pyiceberg.default {
            return self.named(name, "`default-catalog`").map(Some);
        }
        if let Some(catalog) = self.merged.get(DEFAULT) {
            return Ok(Some(catalog.clone()));
        }
        match self.merged.len() {
            0 | 1 => Ok(self.merged.values().next().cloned()),
            _ => Err(Failure::usage(format!(
                "no catalog is named, and several are configured {}: {}\n\
                 Name one with --catalog NAME or CALVE_CATALOG, or with default = \"NAME\" in calve.toml",
                self.places(),
                self.names()
            ))),
        }
    }
}

/// The catalog's name for PyIceberg, where it finds there whatever is set here.
fn name_in_python(
    key: &str,
    catalog: &Configured,
    file: &PyIceberg,
    environment: Option<&Properties>,
) -> Option<String> {
    let in_file = file.catalogs.get(key);
    let name = in_file.map_or_else(|| key.to_owned(), |(name, _)| name.clone());
    let nothing = Properties::default();
    let found = in_file.map_or(&nothing, |(_, properties)| properties);
    // PyIceberg takes what both have for one catalog only where they spell its name alike.
    let found = match environment {
        Some(over) if in_file.is_none() || name.to_lowercase() == key => found.overridden_by(over),
        Some(_) | None => found.clone(),
    };
    let own = |name: &str| name.starts_with("calve.");
    let is_same = |(name, value): (&str, &str)| own(name) || found.get(name).unwrap_or_default() == value;
    catalog.properties.iter().all(is_same).then_some(name)
}

/// The catalog of a name, or the one that stands out; `None` where none is configured at all.
pub(super) fn choose(
    given: Option<(&str, &str)>,
    file: &File,
    environment: &Environment,
) -> Result<Option<Configured>, Failure> {
    let known = Known::read(file, environment)?;
    let chosen = match given {
        Some((name, by)) => Some(known.named(name, by)?),
        None => known.obvious(environment)?,
    };
    if let Some(catalog) = &chosen {
        check(catalog, &known.places())?;
    }
    Ok(chosen)
}

/// Refuses what is no catalog over REST, before anything is sent.
fn check(catalog: &Configured, places: &str) -> Result<(), Failure> {
    let name = &catalog.name;
    let refuse = |key: &str, what: &str| Err(Failure::usage(format!("catalog {name} ({places}): `{key}`: {what}")));
    let of_type = catalog.properties.get("type").map(str::to_lowercase);
    match of_type.as_deref() {
        None | Some("rest") => {}
        Some(other) => {
            let instead = match other {
                "glue" => {
                    "Glue has a REST endpoint: type = \"rest\", uri = \"https://glue.REGION.amazonaws.com/iceberg\" and \
                     \"rest.sigv4-enabled\" = true"
                }
                "sql" | "in-memory" | "jdbc" | "hadoop" => {
                    "put a catalog server with a REST endpoint before it, or use a warehouse of calve's own with \
                     --warehouse DIR"
                }
                "hive" | "dynamodb" | "bigquery" => "give the URI of a REST endpoint that serves the same tables",
                _ => "give the URI of its REST endpoint with type = \"rest\"",
            };
            return refuse("type", &format!("calve speaks to catalogs over REST, not of type {other:?}: {instead}"));
        }
    }
    match catalog.properties.get("uri") {
        None => refuse("uri", "it is missing: say where the catalog's REST endpoint is, e.g. https://HOST/iceberg"),
        Some(uri) if ["http://", "https://"].iter().any(|start| uri.to_lowercase().starts_with(start)) => Ok(()),
        // The rest of a URI may hold a password.
        Some(uri) => {
            let kind = uri.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| scheme.len() < 20);
            let kind = kind.map_or_else(String::new, |scheme| format!(", not with {scheme}://"));
            refuse("uri", &format!("the URI of a REST catalog begins with http:// or https://{kind}"))
        }
    }
}

/// May the value of this property be a secret that its readers should not all see?
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let words =
        ["secret", "password", "token", "credential", "account-key", "connection-string", "authorization", "sas"];
    words.iter().any(|word| name.contains(word)) && !name.ends_with("-uri") && !name.ends_with("-type")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(text: &str) -> File {
        File::parse(text, Path::new("/a/calve.toml")).unwrap()
    }

    fn chosen(given: Option<&str>, text: &str, variables: &[(&str, &str)]) -> Result<Option<Configured>, Failure> {
        let nowhere = Environment::of(Path::new("/does-not-exist"), variables);
        choose(given.map(|name| (name, "--catalog")), &file(text), &nowhere)
    }

    fn name(given: Option<&str>, text: &str, variables: &[(&str, &str)]) -> String {
        chosen(given, text, variables).unwrap().map_or_else(|| "none".to_owned(), |catalog| catalog.name)
    }

    const A: &str = "[catalog.a]\nuri = \"http://a\"\n";
    const B: &str = "[catalog.b]\nuri = \"http://b\"\n";
    const DEFAULT: &str = "[catalog.default]\nuri = \"http://d\"\n";

    #[test]
    fn the_named_one_then_the_default_then_the_only_one() {
        let two = format!("{A}{B}");
        let three = format!("{A}{B}{DEFAULT}");
        let with_default = format!("default = \"b\"\n{three}");
        let c = [("CALVE_CATALOG__C__URI", "http://c")];
        let python = [c[0], ("PYICEBERG_DEFAULT_CATALOG", "c")];
        for (given, text, variables, expected) in [
            (Some("a"), with_default.as_str(), &[][..], "a"),
            (Some("A"), with_default.as_str(), &[], "a"),
            (None, with_default.as_str(), &[], "b"),
            (None, three.as_str(), &[], "default"),
            (None, A, &[], "a"),
            (None, A, &c, "a"),
            (Some("c"), A, &c, "c"),
            (None, two.as_str(), &python, "c"),
            (None, "", &c, "c"),
            (None, "", &[], "none"),
        ] {
            assert_eq!(name(given, text, variables), expected, "{given:?} {text:?} {variables:?}");
        }
        let several = chosen(None, &two, &[]).unwrap_err();
        assert_eq!(several.code, 2);
        assert!(["a, b", "--catalog NAME", "default ="].iter().all(|word| several.message.contains(word)), "{several}");
        let unknown = chosen(Some("pr_od"), &two, &[]).unwrap_err();
        for word in
            ["catalog pr_od", "--catalog", "a, b", "[catalog.pr_od]", "CALVE_CATALOG__PR_OD__URI", "/a/calve.toml"]
        {
            assert!(unknown.message.contains(word), "{word}: {unknown}");
        }
        let unknown = chosen(None, "default = \"x\"", &[]).unwrap_err();
        assert!(unknown.message.contains("none is configured"), "{unknown}");
    }

    #[test]
    fn properties_are_merged_one_by_one() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(
            home.path().join(".pyiceberg.yaml"),
            "catalog:\n  prod:\n    uri: http://low\n    token: low\n    warehouse: low\n",
        )
        .unwrap();
        let folder = home.path().display().to_string();
        let variables = [("HOME", folder.as_str()), ("CALVE_CATALOG__PROD__TOKEN", "high")];
        let environment = Environment::of(Path::new("/does-not-exist"), &variables);
        let text = "[catalog.prod]\ntoken = \"middle\"\nwarehouse = \"middle\"\n";
        let catalog = choose(None, &file(text), &environment).unwrap().unwrap();
        let expected = [("token", "high"), ("uri", "http://low"), ("warehouse", "middle")];
        assert_eq!(catalog.properties.iter().collect::<Vec<_>>(), expected);
        assert!(!format!("{catalog:?}").contains("high"), "{catalog:?}");
    }

    #[test]
    fn pyiceberg_needs_only_the_name_where_it_finds_the_same_settings() {
        let home = tempfile::tempdir().unwrap();
        let yaml = "catalog:\n  Lake:\n    uri: http://low\n    token: t\n  my_lake:\n    uri: http://l\n";
        std::fs::write(home.path().join(".pyiceberg.yaml"), yaml).unwrap();
        let folder = home.path().display().to_string();
        let name = |given: &str, text: &str, more: &[(&str, &str)]| {
            let variables: Vec<_> = [("HOME", folder.as_str())].into_iter().chain(more.iter().copied()).collect();
            let environment = Environment::of(Path::new("/does-not-exist"), &variables);
            let chosen = choose(Some((given, "--catalog")), &file(text), &environment).unwrap().unwrap();
            let connection = chosen.connection();
            assert_eq!(connection.get("calve.name"), Some(chosen.name.as_str()));
            connection.get("calve.pyiceberg").map(str::to_owned)
        };
        let python = [("PYICEBERG_CATALOG__ENV__URI", "http://e"), ("PYICEBERG_CATALOG__MY_LAKE__TOKEN", "x")];
        assert_eq!(name("lake", "", &[]).as_deref(), Some("Lake"));
        assert_eq!(name("lake", "[catalog.lake]\n\"calve.identity\" = \"a\"", &[]).as_deref(), Some("Lake"));
        assert_eq!(name("lake", "[catalog.lake]\nuri = \"http://other\"", &[]), None);
        assert_eq!(name("lake", "[catalog.lake]\nscope = \"s\"", &[]), None);
        assert_eq!(name("lake", "", &[("CALVE_CATALOG__LAKE__TOKEN", "other")]), None);
        assert_eq!(name("env", "", &python).as_deref(), Some("env"));
        assert_eq!(name("my_lake", "", &[]).as_deref(), Some("my_lake"));
        assert_eq!(name("my_lake", "", &python), None);
        assert_eq!(name("a", A, &[]), None);
    }

    #[test]
    fn what_is_no_rest_catalog_is_refused_only_when_it_is_chosen() {
        for (properties, words) in [
            ("type = \"sql\"\nuri = \"postgresql://u:hunter2@h/d\"", ["`type`", "\"sql\"", "--warehouse DIR"]),
            ("type = \"Glue\"", ["`type`", "\"glue\"", "sigv4"]),
            ("type = \"hive\"\nuri = \"thrift://h\"", ["`type`", "\"hive\"", "REST"]),
            ("type = \"odd\"", ["`type`", "\"odd\"", "REST"]),
            ("warehouse = \"x\"", ["`uri`", "missing", "/a/calve.toml"]),
            ("uri = \"postgresql://u:hunter2@h/d\"", ["`uri`", "postgresql://", "https://"]),
            ("uri = \"hunter2@host:8181\"", ["`uri`", "http://", "https://"]),
        ] {
            let text = format!("{B}[catalog.x]\n{properties}\n");
            let failure = chosen(Some("x"), &text, &[]).unwrap_err();
            assert_eq!(failure.code, 2);
            for word in words {
                assert!(failure.message.contains(word), "{word}: {failure}");
            }
            assert!(failure.message.contains("catalog x") && !failure.message.contains("hunter2"), "{failure}");
            assert_eq!(name(Some("b"), &text, &[]), "b");
        }
        assert_eq!(name(None, "[catalog.x]\ntype = \"REST\"\nuri = \"HTTPS://h\"", &[]), "x");
    }

    #[test]
    fn secrets_are_known_by_name() {
        for secret in ["token", "credential", "s3.secret-access-key", "header.Authorization", "adls.sas-token.x"] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["uri", "warehouse", "s3.endpoint", "oauth2-server-uri", "s3.access-key-id", "credential-type"] {
            assert!(!is_secret(open), "{open}");
        }
    }
}
