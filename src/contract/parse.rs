//! Reading a contract file, strictly.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iceberg::spec::PrimitiveType;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{
    Aggregate, Check, CheckKind, ColumnRule, ColumnType, Contract, ContractError, Decimal, Expected, KeysCheck,
    Measure, OnConflict, OnFailure, SchemaCheck, SchemaMode, TotalsCheck, VERSION, VolumeCheck, Within,
};

const KINDS: [&str; 5] = ["schema", "keys", "scope", "totals", "volume"];
const LATER_KINDS: [&str; 3] = ["sql", "external", "approval"];
/// Names of results that are no check of a contract: that of manifests, and the count in a seal of many checks.
const RESERVED: [&str; 2] = ["manifest", "all"];
const NAME_RULE: &str = "a name is 1 to 40 characters of a-z 0-9 -, the first a letter or digit";

type Value<'i> = Spanned<DeValue<'i>>;

/// Where an error is reported: the file and its text, to find the line of a byte.
#[derive(Clone, Copy)]
struct Origin<'a> {
    name: &'a str,
    text: &'a str,
}

impl Origin<'_> {
    fn error(
        &self,
        at: Option<Range<usize>>,
        key: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ContractError {
        let line = at.map(|range| {
            let before = self.text.as_bytes().iter().take(range.start);
            1 + before.filter(|byte| **byte == b'\n').count()
        });
        let (key, problem, remedy) = (key.into(), problem.into(), remedy.into());
        ContractError { origin: self.name.to_owned(), line, key, problem, remedy }
    }
}

/// A table of the file, the path to it, and what may stand in it.
struct Section<'a, 'i> {
    origin: Origin<'a>,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    path: String,
}

impl<'a, 'i> Section<'a, 'i> {
    fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn get(&self, name: &str) -> Option<&'a Value<'i>> {
        self.table.get(name)
    }

    fn error(
        &self,
        value: &Value<'_>,
        name: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ContractError {
        self.origin.error(Some(value.span()), self.key(name), problem, remedy)
    }

    fn require(&self, name: &str, remedy: &str) -> Result<&'a Value<'i>, ContractError> {
        self.get(name).ok_or_else(|| self.origin.error(Some(self.span.clone()), self.key(name), "is missing", remedy))
    }

    fn allow(&self, known: &[&str]) -> Result<(), ContractError> {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                return Err(self.origin.error(
                    Some(key.span()),
                    self.key(name),
                    "is not a key that this calve knows",
                    format!("known here: {}", known.join(", ")),
                ));
            }
        }
        Ok(())
    }

    fn text(&self, name: &str, value: &Value<'i>, remedy: &str) -> Result<String, ContractError> {
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => Ok(text.to_string()),
            DeValue::String(_) => Err(self.error(value, name, "is empty", remedy)),
            other => Err(self.error(value, name, wrong_type("a string", other), remedy)),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ContractError> {
        self.get(name)
            .map(|value| match value.get_ref() {
                DeValue::Boolean(flag) => Ok(*flag),
                other => Err(self.error(value, name, wrong_type("true or false", other), "write true or false")),
            })
            .transpose()
    }

    fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, ContractError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let remedy = format!("write {}", words.join(" or "));
        let given = self.text(name, value, &remedy)?;
        match choices.iter().find(|(word, _)| *word == given) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => Err(self.error(value, name, format!("\"{given}\" is not one of its values"), remedy)),
        }
    }

    fn array(&self, name: &str, value: &'a Value<'i>, remedy: &str) -> Result<&'a DeArray<'i>, ContractError> {
        match value.get_ref() {
            DeValue::Array(array) if array.is_empty() => Err(self.error(value, name, "is empty", remedy)),
            DeValue::Array(array) => Ok(array),
            other => Err(self.error(value, name, wrong_type("an array", other), remedy)),
        }
    }

    fn rows(&self, name: &str) -> Result<Option<u64>, ContractError> {
        let remedy = "write a whole number of rows, 0 or more";
        self.get(name)
            .map(|value| match value.get_ref() {
                DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| self.error(value, name, "is not a number of rows", remedy)),
                other => Err(self.error(value, name, wrong_type("a whole number", other), remedy)),
            })
            .transpose()
    }

    fn decimal(&self, name: &str) -> Result<Option<Decimal>, ContractError> {
        let remedy = "write a decimal number, e.g. 0.01 or \"0.01\"";
        let Some(value) = self.get(name) else { return Ok(None) };
        let parsed = match value.get_ref() {
            DeValue::String(text) => text.parse(),
            DeValue::Float(number) => number.as_str().parse(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse(),
            other => return Err(self.error(value, name, wrong_type("a decimal number", other), remedy)),
        };
        parsed.map(Some).map_err(|error: super::DecimalError| self.error(value, name, error.to_string(), remedy))
    }

    fn tolerance(&self, name: &str) -> Result<Option<Decimal>, ContractError> {
        match (self.decimal(name)?, self.get(name)) {
            (Some(number), Some(value)) if number.is_negative() => {
                Err(self.error(value, name, "is negative", "write 0 or more"))
            }
            (number, _) => Ok(number),
        }
    }

    fn below(&self, value: &'a Value<'i>, path: String, remedy: &str) -> Result<Section<'a, 'i>, ContractError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Section { origin: self.origin, table, span: value.span(), path }),
            other => Err(self.origin.error(Some(value.span()), path, wrong_type("a table", other), remedy)),
        }
    }
}

fn wrong_type(wanted: &str, found: &DeValue<'_>) -> String {
    format!("is {}, where {wanted} was expected", found.type_str())
}

pub(super) fn parse(text: &str, name: &str) -> Result<Contract, ContractError> {
    let origin = Origin { name, text };
    let document = DeTable::parse(text).map_err(|error| {
        origin.error(error.span(), "file", format!("is not TOML: {}", error.message()), "mend the syntax there")
    })?;
    let root = Section { origin, table: document.get_ref(), span: 0..0, path: String::new() };
    // Before the unknown keys: a newer file has keys that only a newer calve knows.
    version(&root)?;
    root.allow(&["version", "on-failure", "on-conflict", "source", "check"])?;
    let on_failure = [("quarantine", OnFailure::Quarantine), ("keep", OnFailure::Keep)];
    let on_conflict = [("stop", OnConflict::Stop), ("reattach", OnConflict::Reattach)];
    let sources = sources(&root)?;
    Ok(Contract {
        on_failure: root.choice("on-failure", &on_failure)?.unwrap_or_default(),
        on_conflict: root.choice("on-conflict", &on_conflict)?.unwrap_or_default(),
        checks: checks(&root, &sources)?,
        sources,
    })
}

fn version(root: &Section<'_, '_>) -> Result<(), ContractError> {
    let remedy = format!("write `version = {VERSION}` as the first line");
    let Some(value) = root.get("version") else {
        return Err(root.origin.error(None, "version", "is missing", remedy));
    };
    let DeValue::Integer(number) = value.get_ref() else {
        return Err(root.error(value, "version", wrong_type("a whole number", value.get_ref()), remedy));
    };
    match i64::from_str_radix(number.as_str(), number.radix()) {
        Ok(VERSION) => Ok(()),
        Ok(newer) if newer > VERSION => Err(root.error(
            value,
            "version",
            format!("is {newer}, and this calve reads up to {VERSION}"),
            "use a newer calve",
        )),
        _ => Err(root.error(value, "version", "is not a version of contract files", remedy)),
    }
}

fn check_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn sources(root: &Section<'_, '_>) -> Result<BTreeMap<String, String>, ContractError> {
    let mut found = BTreeMap::new();
    let Some(value) = root.get("source") else { return Ok(found) };
    let remedy = "write [source.NAME] and uri = \"…\" below it";
    let section = root.below(value, "source".to_owned(), remedy)?;
    for (key, value) in section.table {
        let name: &Cow<'_, str> = key.get_ref();
        if !check_name(name) {
            return Err(root.origin.error(Some(key.span()), section.key(name), "is malformed", NAME_RULE));
        }
        let source = section.below(value, section.key(name), remedy)?;
        source.allow(&["uri"])?;
        let uri_remedy = "write uri = \"a path, pattern or URI\"";
        let uri = source.text("uri", source.require("uri", uri_remedy)?, uri_remedy)?;
        found.insert(name.to_string(), uri);
    }
    Ok(found)
}

fn checks(root: &Section<'_, '_>, sources: &BTreeMap<String, String>) -> Result<Vec<Check>, ContractError> {
    let remedy = "write at least one [[check]]: a contract that checks nothing lets nothing pass";
    let value = root.get("check").ok_or_else(|| root.origin.error(None, "check", "is missing", remedy))?;
    let mut checks: Vec<Check> = Vec::new();
    for item in root.array("check", value, remedy)?.iter() {
        let section = root.below(item, "check".to_owned(), "write [[check]]")?;
        let name_value = section.require("name", NAME_RULE)?;
        let name = section.text("name", name_value, NAME_RULE)?;
        if RESERVED.contains(&name.as_str()) {
            let remedy = "choose another name";
            return Err(section.error(
                name_value,
                "name",
                format!("\"{name}\" is kept for calve's own results"),
                remedy,
            ));
        }
        if !check_name(&name) {
            return Err(section.error(name_value, "name", format!("\"{name}\" is malformed"), NAME_RULE));
        }
        if checks.iter().any(|check| check.name == name) {
            let problem = format!("\"{name}\" is the name of an earlier check too");
            return Err(section.error(name_value, "name", problem, "give each check its own name"));
        }
        let kind = kind(&section, sources)?;
        let allow_empty = section.flag("allow-empty")?.unwrap_or(false);
        checks.push(Check { name, allow_empty, kind });
    }
    Ok(checks)
}

fn kind(section: &Section<'_, '_>, sources: &BTreeMap<String, String>) -> Result<CheckKind, ContractError> {
    let kinds = format!("kinds are {}", KINDS.join(", "));
    let value = section.require("kind", &kinds)?;
    let word = section.text("kind", value, &kinds)?;
    let allow = |own: &[&str]| section.allow(&[&["name", "kind", "allow-empty"], own].concat());
    match word.as_str() {
        "schema" => {
            allow(&["mode", "columns"])?;
            schema(section).map(CheckKind::Schema)
        }
        "keys" => {
            allow(&["columns", "within"])?;
            keys(section).map(CheckKind::Keys)
        }
        "scope" => {
            allow(&[])?;
            Ok(CheckKind::Scope)
        }
        "totals" => {
            allow(&["measures"])?;
            totals(section, sources).map(CheckKind::Totals)
        }
        "volume" => {
            allow(&["min-rows", "max-rows", "min-ratio", "max-ratio"])?;
            volume(section).map(CheckKind::Volume)
        }
        later if LATER_KINDS.contains(&later) => Err(section.error(
            value,
            "kind",
            format!("\"{later}\" is not available yet in this version"),
            format!("leave this check out, or use a newer calve; {kinds}"),
        )),
        other => Err(section.error(value, "kind", format!("\"{other}\" is not a kind of check"), kinds)),
    }
}

fn schema(section: &Section<'_, '_>) -> Result<SchemaCheck, ContractError> {
    let modes = [("exact", SchemaMode::Exact), ("compatible", SchemaMode::Compatible)];
    section.require("mode", "write \"exact\" or \"compatible\"")?;
    let mode = section.choice("mode", &modes)?.unwrap_or(SchemaMode::Exact);
    let remedy = "write columns = [{ name = \"id\", type = \"long\", required = true }]";
    let mut columns = Vec::new();
    let mut names = BTreeSet::new();
    for item in section.array("columns", section.require("columns", remedy)?, remedy)?.iter() {
        let column = section.below(item, section.key("columns"), remedy)?;
        column.allow(&["name", "type", "required"])?;
        let name_value = column.require("name", remedy)?;
        let name = column.text("name", name_value, remedy)?;
        if !names.insert(name.clone()) {
            return Err(column.error(name_value, "name", format!("\"{name}\" is listed twice"), "list it once"));
        }
        let column_type = column.get("type").map(|value| column_type(&column, value)).transpose()?;
        columns.push(ColumnRule { name, column_type, required: column.flag("required")? });
    }
    Ok(SchemaCheck { mode, columns })
}

fn column_type<'i>(section: &Section<'_, 'i>, value: &Value<'i>) -> Result<ColumnType, ContractError> {
    let remedy = "write an Iceberg type: boolean, int, long, float, double, decimal(P, S), date, time, timestamp, \
                  timestamptz, timestamp_ns, timestamptz_ns, string, uuid, fixed[N], binary, struct, list or map";
    let given = section.text("type", value, remedy)?;
    let word: String = given.chars().filter(|character| !character.is_whitespace()).collect();
    match word.as_str() {
        "struct" => Ok(ColumnType::Struct),
        "list" => Ok(ColumnType::List),
        "map" => Ok(ColumnType::Map),
        primitive => {
            let parsed: PrimitiveType = serde_json::from_value(serde_json::Value::String(primitive.to_owned()))
                .map_err(|_| section.error(value, "type", format!("\"{given}\" is not a type"), remedy))?;
            match parsed {
                PrimitiveType::Decimal { precision, scale }
                    if precision == 0 || precision > 38 || scale > precision =>
                {
                    let problem = format!("\"{given}\" is not a decimal type of Iceberg");
                    Err(section.error(value, "type", problem, "write decimal(P, S) with S ≤ P ≤ 38"))
                }
                other => Ok(ColumnType::Primitive(other)),
            }
        }
    }
}

fn keys(section: &Section<'_, '_>) -> Result<KeysCheck, ContractError> {
    let remedy = "write columns = [\"id\"]";
    let mut columns: Vec<String> = Vec::new();
    for item in section.array("columns", section.require("columns", remedy)?, remedy)?.iter() {
        let column = section.text("columns", item, remedy)?;
        if columns.contains(&column) {
            return Err(section.error(item, "columns", format!("\"{column}\" is listed twice"), "list it once"));
        }
        columns.push(column);
    }
    let within = [("scope", Within::Scope), ("table", Within::Table)];
    section.require("within", "write within = \"scope\", or \"table\" for all rows")?;
    Ok(KeysCheck { columns, within: section.choice("within", &within)?.unwrap_or(Within::Table) })
}

fn totals(section: &Section<'_, '_>, sources: &BTreeMap<String, String>) -> Result<TotalsCheck, ContractError> {
    let remedy = "write measures = [{ measure = \"count(*)\", expect = 842 }], or source = \"NAME\" for expect";
    let mut measures: Vec<Measure> = Vec::new();
    for item in section.array("measures", section.require("measures", remedy)?, remedy)?.iter() {
        let measure = section.below(item, section.key("measures"), remedy)?;
        measure.allow(&["measure", "expect", "source", "abs", "rel"])?;
        let value = measure.require("measure", remedy)?;
        let aggregate_remedy = "write count(*), count(column) or sum(column)";
        let given = measure.text("measure", value, aggregate_remedy)?;
        let aggregate = aggregate(&given).ok_or_else(|| {
            measure.error(value, "measure", format!("\"{given}\" is not a measure"), aggregate_remedy)
        })?;
        let expected = match (measure.decimal("expect")?, measure.get("source")) {
            (Some(number), None) => Expected::Literal(number),
            (None, Some(value)) => source(&measure, value, sources)?,
            (None, None) => {
                measure.require("expect", remedy)?;
                continue;
            }
            (Some(_), Some(value)) => {
                return Err(measure.error(value, "source", "stands beside expect", "write one of the two"));
            }
        };
        measures.push(Measure {
            aggregate,
            expected,
            abs: measure.tolerance("abs")?.unwrap_or(Decimal::ZERO),
            rel: measure.tolerance("rel")?.unwrap_or(Decimal::ZERO),
        });
    }
    Ok(TotalsCheck { measures })
}

fn source<'i>(
    measure: &Section<'_, 'i>,
    value: &Value<'i>,
    sources: &BTreeMap<String, String>,
) -> Result<Expected, ContractError> {
    let name = measure.text("source", value, "write the NAME of a [source.NAME]")?;
    match sources.get(&name) {
        Some(uri) => Ok(Expected::Source { uri: uri.clone(), name }),
        None => {
            let known: Vec<_> = sources.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none is defined".to_owned() } else { known.join(", ") };
            let remedy = format!("define it as [source.{name}], or use one that is: {known}");
            Err(measure.error(value, "source", format!("\"{name}\" is not a source of this file"), remedy))
        }
    }
}

fn aggregate(given: &str) -> Option<Aggregate> {
    let (function, rest) = given.trim().split_once('(')?;
    let argument = rest.strip_suffix(')')?.trim();
    match (function.trim(), argument) {
        (_, "") => None,
        ("count", "*") => Some(Aggregate::CountRows),
        ("count", column) => Some(Aggregate::Count(column.to_owned())),
        ("sum", "*") => None,
        ("sum", column) => Some(Aggregate::Sum(column.to_owned())),
        _ => None,
    }
}

fn volume(section: &Section<'_, '_>) -> Result<VolumeCheck, ContractError> {
    let volume = VolumeCheck {
        min_rows: section.rows("min-rows")?,
        max_rows: section.rows("max-rows")?,
        min_ratio: section.tolerance("min-ratio")?,
        max_ratio: section.tolerance("max-ratio")?,
    };
    let remedy = "write at least one of min-rows, max-rows, min-ratio, max-ratio";
    let VolumeCheck { min_rows, max_rows, min_ratio, max_ratio } = &volume;
    if min_rows.is_none() && max_rows.is_none() && min_ratio.is_none() && max_ratio.is_none() {
        section.require("min-rows", remedy)?;
    }
    let crossed_rows = matches!((min_rows, max_rows), (Some(min), Some(max)) if min > max);
    let crossed_ratio = matches!((min_ratio, max_ratio), (Some(min), Some(max))
        if min.compare(max) == Ok(std::cmp::Ordering::Greater));
    for (crossed, name) in [(crossed_rows, "max-rows"), (crossed_ratio, "max-ratio")] {
        if let (true, Some(value)) = (crossed, section.get(name)) {
            return Err(section.error(
                value,
                name,
                "is below the minimum",
                "nothing could pass: change one of the two",
            ));
        }
    }
    Ok(volume)
}
