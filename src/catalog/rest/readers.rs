//! How engines reach the same table: lines to copy, with the settings of this connection and none of its secrets.
//!
//! A secret is a placeholder that names the property it stands for. Which values may be shown is a list: of any other
//! it is not known what is in it.

use super::failure;
use crate::catalog::properties::Properties;
use crate::ids::TableName;

/// The name under which the user has configured the catalog; the command line sets it.
pub(super) const NAME: &str = "calve.name";
/// The name under which PyIceberg has the same settings of its own; missing where it has not.
pub(super) const PYICEBERG: &str = "calve.pyiceberg";
/// What a catalog without a name is called.
const UNNAMED: &str = "c";

/// Properties whose values are shown.
const SHOWN: &[&str] = &[
    "audience",
    "client.region",
    "oauth2-server-uri",
    "prefix",
    "resource",
    "rest.auth.type",
    "rest.signing-name",
    "rest.signing-region",
    "rest.sigv4-enabled",
    "s3.endpoint",
    "s3.force-virtual-addressing",
    "s3.path-style-access",
    "s3.region",
    "scope",
    "ssl.cabundle",
    "ssl.client.cert",
];

/// Words that are no names in the SQL of one engine or another. Source: Trino's and Spark's reserved words.
const RESERVED: &[&str] = &[
    "all",
    "alter",
    "and",
    "any",
    "as",
    "between",
    "both",
    "by",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "cross",
    "cube",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "deallocate",
    "delete",
    "describe",
    "distinct",
    "drop",
    "else",
    "end",
    "escape",
    "except",
    "execute",
    "exists",
    "extract",
    "false",
    "fetch",
    "filter",
    "for",
    "foreign",
    "from",
    "full",
    "grant",
    "group",
    "grouping",
    "having",
    "in",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "left",
    "like",
    "natural",
    "not",
    "null",
    "on",
    "or",
    "order",
    "outer",
    "prepare",
    "primary",
    "right",
    "select",
    "table",
    "then",
    "true",
    "union",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// What the lines are made of.
pub(super) struct Readers<'a> {
    /// The catalog's URI, without secrets.
    pub uri: &'a str,
    /// As given.
    pub warehouse: Option<&'a str>,
    /// As the user set them, without what the catalog added.
    pub user: &'a Properties,
}

impl Readers<'_> {
    /// Engine and line, for a read of the table.
    pub(super) fn lines(&self, table: &TableName) -> Vec<(String, String)> {
        [
            ("Spark", self.spark(table)),
            ("PyIceberg", self.pyiceberg(table)),
            ("DuckDB", self.duckdb(table)),
            ("Trino", self.trino(table)),
        ]
        .map(|(engine, line)| (engine.to_owned(), line))
        .to_vec()
    }

    fn name(&self) -> &str {
        self.user.get(NAME).unwrap_or(UNNAMED)
    }

    fn has(&self, property: &str) -> bool {
        self.user.get(property).is_some()
    }

    fn is_on(&self, property: &str) -> bool {
        self.user.get(property).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn warehouse(&self) -> Option<String> {
        self.warehouse.map(|warehouse| line_of(&failure::shown(warehouse)))
    }

    /// The value of a property as it may be shown; `None` where it is not set.
    fn value(&self, property: &str) -> Option<String> {
        let value = self.user.get(property)?;
        Some(match SHOWN.contains(&property) {
            true if value.contains("://") => line_of(&failure::shown(value)),
            true => line_of(value),
            false => placeholder(property),
        })
    }

    /// What an engine has to be told besides the URI and the warehouse.
    fn others(&self) -> Vec<(&str, String)> {
        let own = |name: &str| {
            ["type", "uri", "warehouse", "rest-page-size"].contains(&name)
                || ["calve.", "rest.client."].iter().any(|start| name.starts_with(start))
        };
        let names = self.user.iter().map(|(name, _)| name).filter(|name| !own(name));
        names.filter_map(|name| Some((name, self.value(name)?))).collect()
    }

    fn spark(&self, table: &TableName) -> String {
        let name = self.name();
        let mut options = vec!["type=rest".to_owned(), format!("uri={}", self.uri)];
        options.extend(self.warehouse().map(|warehouse| format!("warehouse={warehouse}")));
        options.extend(self.others().into_iter().map(|(property, value)| format!("{property}={value}")));
        // Java's storage takes the region by this name alone.
        if !self.has("client.region") {
            options.extend(self.value("s3.region").map(|region| format!("client.region={region}")));
        }
        let levels = table.namespace().iter().map(String::as_str).chain([table.name()]);
        let path: Vec<_> = std::iter::once(name).chain(levels).map(|part| quoted(part, '`')).collect();
        format!("SELECT * FROM {} -- spark.sql.catalog.{name}: {}", path.join("."), options.join(", "))
    }

    fn pyiceberg(&self, table: &TableName) -> String {
        // A level with a dot in it is none that a text can name.
        let levels: Vec<_> = table.namespace().iter().map(String::as_str).chain([table.name()]).collect();
        let identifier = if levels.iter().any(|level| level.contains('.')) {
            format!("({})", levels.iter().map(|level| python(level)).collect::<Vec<_>>().join(", "))
        } else {
            python(&levels.join("."))
        };
        let mut arguments = vec![python(self.user.get(PYICEBERG).unwrap_or_else(|| self.name()))];
        if !self.has(PYICEBERG) {
            arguments.push("type='rest'".to_owned());
            arguments.push(format!("uri={}", python(self.uri)));
            arguments.extend(self.warehouse().map(|warehouse| format!("warehouse={}", python(&warehouse))));
            let mut odd = Vec::new();
            for (property, value) in self.others() {
                let value = python(&value);
                match property {
                    // PyIceberg has these in levels.
                    "ssl.cabundle" => arguments.push(format!("ssl={{'cabundle': {value}}}")),
                    _ if property.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                        arguments.push(format!("{property}={value}"));
                    }
                    _ => odd.push(format!("{}: {value}", python(property))),
                }
            }
            arguments.extend((!odd.is_empty()).then(|| format!("**{{{}}}", odd.join(", "))));
        }
        format!(
            "from pyiceberg.catalog import load_catalog; load_catalog({}).load_table({identifier}).scan().to_arrow()",
            arguments.join(", ")
        )
    }

    fn duckdb(&self, table: &TableName) -> String {
        let mut secret = Vec::new();
        if self.has("token") {
            secret.push(format!("TOKEN {}", sql(&placeholder("token"))));
        } else if self.has("credential") {
            secret.push(format!("CLIENT_ID {}", sql("<your credential, before its colon>")));
            secret.push(format!("CLIENT_SECRET {}", sql("<your credential, after its colon>")));
            let server = self.value("oauth2-server-uri").unwrap_or_else(|| format!("{}/v1/oauth/tokens", self.uri));
            secret.push(format!("OAUTH2_SERVER_URI {}", sql(&server)));
            secret.extend(self.value("scope").map(|scope| format!("OAUTH2_SCOPE {}", sql(&scope))));
        }
        let (made, access) = if self.is_on("rest.sigv4-enabled") {
            (String::new(), "AUTHORIZATION_TYPE 'sigv4'")
        } else if secret.is_empty() {
            (String::new(), "AUTHORIZATION_TYPE 'none'")
        } else {
            (format!("CREATE SECRET calve (TYPE iceberg, {}); ", secret.join(", ")), "SECRET calve")
        };
        let (store, files) =
            self.duckdb_store().map_or_else(Default::default, |store| (store, ", ACCESS_DELEGATION_MODE 'none'"));
        let name = quoted(self.name(), '"');
        format!(
            "{made}{store}ATTACH {} AS {name} (TYPE iceberg, ENDPOINT {}, {access}{files}); SELECT * FROM {name}.{}",
            sql(&self.warehouse().unwrap_or_default()),
            sql(self.uri),
            in_one_schema(table)
        )
    }

    /// Where the user has keys of the storage, DuckDB needs them in its own way.
    fn duckdb_store(&self) -> Option<String> {
        self.user.get("s3.access-key-id")?;
        let mut secret = vec![
            format!("KEY_ID {}", sql(&placeholder("s3.access-key-id"))),
            format!("SECRET {}", sql(&placeholder("s3.secret-access-key"))),
        ];
        secret.extend(self.value("s3.region").map(|region| format!("REGION {}", sql(&region))));
        if let Some((scheme, host)) = self.value("s3.endpoint").as_deref().and_then(|uri| uri.split_once("://")) {
            secret.push(format!("ENDPOINT {}", sql(host.trim_end_matches('/'))));
            secret.push("URL_STYLE 'path'".to_owned());
            secret.push(format!("USE_SSL {}", scheme == "https"));
        }
        Some(format!("CREATE SECRET store (TYPE s3, {}); ", secret.join(", ")))
    }

    fn trino(&self, table: &TableName) -> String {
        let name = self.name();
        let mut options = vec![("uri", self.uri.to_owned())];
        options.extend(self.warehouse().map(|warehouse| ("warehouse", warehouse)));
        options.extend(self.value("prefix").map(|prefix| ("prefix", prefix)));
        if self.is_on("rest.sigv4-enabled") {
            options.push(("security", "SIGV4".to_owned()));
            options.extend(self.value("rest.signing-name").map(|value| ("signing-name", value)));
        } else if self.has("token") || self.has("credential") {
            options.push(("security", "OAUTH2".to_owned()));
            for (property, option) in [
                ("token", "oauth2.token"),
                ("credential", "oauth2.credential"),
                ("oauth2-server-uri", "oauth2.server-uri"),
                ("scope", "oauth2.scope"),
            ] {
                options.extend(self.value(property).map(|value| (option, value)));
            }
        }
        if table.namespace().len() > 1 {
            options.push(("nested-namespace-enabled", "true".to_owned()));
        }
        let options: Vec<_> =
            options.into_iter().map(|(option, value)| format!("iceberg.rest-catalog.{option}={value}")).collect();
        format!(
            "SELECT * FROM {}.{} -- {name}.properties: connector.name=iceberg, iceberg.catalog.type=rest, {}",
            quoted(name, '"'),
            in_one_schema(table),
            options.join(", ")
        )
    }
}

/// The whole namespace as one name, as engines have it whose schemas have no levels.
fn in_one_schema(table: &TableName) -> String {
    format!("{}.{}", quoted(&table.namespace().join("."), '"'), quoted(table.name(), '"'))
}

fn placeholder(property: &str) -> String {
    format!("<your {property}>")
}

/// On one line: it ends up in a comment.
fn line_of(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn python(text: &str) -> String {
    format!("'{}'", line_of(text).replace('\\', "\\\\").replace('\'', "\\'"))
}

fn sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The name, quoted where some engine needs that.
fn quoted(part: &str, quote: char) -> String {
    let starts = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = starts && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && !RESERVED.contains(&part.to_ascii_lowercase().as_str()) {
        return part.to_owned();
    }
    format!("{quote}{}{quote}", part.replace(quote, &format!("{quote}{quote}")))
}

#[cfg(test)]
#[path = "tests/readers.rs"]
mod tests;
