use super::*;

const FULL: &str = r#"
version = 1
on-failure = "quarantine"
on-conflict = "reattach"

[source.ledger]
uri = "ledger/*.csv"

[[check]]
name = "columns"
kind = "schema"
mode = "compatible"
columns = [{ name = "id", type = "long", required = true }, { name = "amount", type = "decimal(9,2)" }]

[[check]]
name = "key"
kind = "keys"
columns = ["day", "id"]
within = "scope"

[[check]]
name = "scope"
kind = "scope"
allow-empty = true

[[check]]
name = "totals"
kind = "totals"
measures = [
  { measure = "count(*)", expect = 842 },
  { measure = "sum(amount)", source = "ledger", abs = 0.01, rel = "0.0001" },
]

[[check]]
name = "volume"
kind = "volume"
min-rows = 1
max-ratio = 1.5
"#;

fn parse(text: &str) -> Contract {
    Contract::parse(text, "c.toml").unwrap()
}

#[test]
fn every_kind_is_read() {
    let contract = parse(FULL);
    assert_eq!(contract.on_failure, OnFailure::Quarantine);
    assert_eq!(contract.on_conflict, OnConflict::Reattach);
    assert_eq!(contract.checks.len(), 5);
    assert!(contract.check("scope").unwrap().allow_empty);
    assert!(!contract.check("key").unwrap().allow_empty);
    let CheckKind::Totals(totals) = &contract.check("totals").unwrap().kind else { panic!() };
    assert_eq!(totals.measures[0].expected, Expected::Literal(Decimal::from_i128(842)));
    assert_eq!(
        totals.measures[1],
        Measure {
            aggregate: Aggregate::Sum("amount".to_owned()),
            expected: Expected::Source { name: "ledger".to_owned(), uri: "ledger/*.csv".to_owned() },
            abs: "0.01".parse().unwrap(),
            rel: "0.0001".parse().unwrap(),
        }
    );
    let plain = parse("version = 1\n[[check]]\nname = \"s\"\nkind = \"scope\"\n");
    assert_eq!((plain.on_failure, plain.on_conflict), (OnFailure::Keep, OnConflict::Stop));
}

#[test]
fn the_digest_is_of_the_meaning() {
    let contract = parse(FULL);
    assert_eq!(contract.digest().to_string(), GOLDEN);
    let reordered = format!(
        "# a comment\nversion=1\non-conflict = 'reattach'\non-failure = 'quarantine'\n{}",
        FULL.split_once("[source").map(|(_, rest)| format!("[source{rest}")).unwrap()
    )
    .replace("abs = 0.01", "abs = \"0.010\"")
    .replace("[\"day\", \"id\"]", "[ \"id\",\n \"day\" ]");
    assert_eq!(parse(&reordered).digest(), contract.digest());
    for (from, to) in [
        ("quarantine", "keep"),
        ("reattach", "stop"),
        ("abs = 0.01", "abs = 0.02"),
        ("0.0001", "0.0002"),
        ("ledger/*.csv", "ledger/a.csv"),
        ("[\"day\", \"id\"]", "[\"id\"]"),
        ("within = \"scope\"", "within = \"table\""),
        ("allow-empty = true", "allow-empty = false"),
        ("required = true", "required = false"),
        ("842", "843"),
        ("min-rows = 1", "max-rows = 1"),
        ("compatible", "exact"),
        ("name = \"key\"", "name = \"keys\""),
        ("decimal(9,2)", "decimal(10,2)"),
    ] {
        let changed = FULL.replace(from, to);
        assert_ne!(changed, FULL);
        assert_ne!(parse(&changed).digest(), contract.digest(), "{from} → {to}");
    }
}

const GOLDEN: &str = "sha256:667c0fd2fa5f418f59462261121207e0a8e3d9d74a131aa27ac85accd0b6a018";

#[test]
fn a_definition_is_independent_of_its_name() {
    let contract = parse(FULL);
    let renamed = parse(&FULL.replace("name = \"key\"", "name = \"identity\""));
    assert_eq!(
        contract.check("key").unwrap().definition_digest(),
        renamed.check("identity").unwrap().definition_digest()
    );
    let all: std::collections::BTreeSet<_> = contract.checks.iter().map(Check::definition_digest).collect();
    assert_eq!(all.len(), contract.checks.len());
}

#[test]
fn faults_name_line_key_and_remedy() {
    let check = |body: &str| format!("version = 1\n[source.a]\nuri = \"a\"\n[[check]]\n{body}\n");
    for (text, line, key, words) in [
        ("".to_owned(), None, "version", "version = 1"),
        ("version = 2\nfuture = 1\n".to_owned(), Some(1), "version", "use a newer calve"),
        ("version = 0\n".to_owned(), Some(1), "version", "version = 1"),
        ("version = \"1\"\n".to_owned(), Some(1), "version", "whole number"),
        ("version = 1\n".to_owned(), None, "check", "at least one"),
        ("version = 1\ncheck = []\n".to_owned(), Some(2), "check", "at least one"),
        ("version = 1\n[[check]\n".to_owned(), Some(2), "file", "not TOML"),
        ("version = 1\nversion = 1\n".to_owned(), Some(2), "file", "not TOML"),
        ("version = 1\nonfailure = \"keep\"\n".to_owned(), Some(2), "onfailure", "on-failure"),
        ("version = 1\non-failure = \"drop\"\n".to_owned(), Some(2), "on-failure", "quarantine"),
        ("version = 1\n[source.A]\nuri = \"a\"\n".to_owned(), Some(2), "source.A", "a-z"),
        ("version = 1\n[source.a]\n".to_owned(), Some(2), "source.a.uri", "missing"),
        (check("kind = \"scope\""), Some(4), "check.name", "missing"),
        (check("name = \"a\""), Some(4), "check.kind", "schema, keys, scope, totals, volume"),
        (check("name = \"A\"\nkind = \"scope\""), Some(5), "check.name", "a-z"),
        (check("name = \"a\"\nkind = \"uniq\""), Some(6), "check.kind", "schema, keys, scope, totals, volume"),
        (check("name = \"a\"\nkind = \"sql\""), Some(6), "check.kind", "not available yet in this version"),
        (check("name = \"a\"\nkind = \"external\""), Some(6), "check.kind", "not available yet"),
        (check("name = \"a\"\nkind = \"approval\""), Some(6), "check.kind", "not available yet"),
        (
            check("name = \"a\"\nkind = \"scope\"\n[[check]]\nname = \"a\"\nkind = \"scope\""),
            Some(8),
            "check.name",
            "own name",
        ),
        (check("name = \"a\"\nkind = \"scope\"\ncolumns = []"), Some(7), "check.columns", "allow-empty"),
        (check("name = \"a\"\nkind = \"scope\"\nallow-empty = 1"), Some(7), "check.allow-empty", "true or false"),
        (check("name = \"a\"\nkind = \"keys\"\nwithin = \"scope\""), Some(4), "check.columns", "missing"),
        (check("name = \"a\"\nkind = \"keys\"\ncolumns = []\nwithin = \"scope\""), Some(7), "check.columns", "empty"),
        (check("name = \"a\"\nkind = \"keys\"\ncolumns = [\"b\"]"), Some(4), "check.within", "missing"),
        (
            check("name = \"a\"\nkind = \"keys\"\ncolumns = [\"b\", \"b\"]\nwithin = \"scope\""),
            Some(7),
            "check.columns",
            "twice",
        ),
        (
            check("name = \"a\"\nkind = \"schema\"\nmode = \"exact\"\ncolumns = [{ name = \"b\", type = \"int8\" }]"),
            Some(8),
            "check.columns.type",
            "Iceberg type",
        ),
        (
            check(
                "name = \"a\"\nkind = \"schema\"\nmode = \"exact\"\ncolumns = [{ name = \"b\", type = \"decimal(40,2)\" }]",
            ),
            Some(8),
            "check.columns.type",
            "38",
        ),
        (
            check("name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"avg(x)\", expect = 1 }]"),
            Some(7),
            "check.measures.measure",
            "sum(column)",
        ),
        (
            check("name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\" }]"),
            Some(7),
            "check.measures.expect",
            "missing",
        ),
        (
            check("name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", source = \"b\" }]"),
            Some(7),
            "check.measures.source",
            "[source.b]",
        ),
        (
            check(
                "name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", source = \"a\", expect = 1 }]",
            ),
            Some(7),
            "check.measures.source",
            "one of the two",
        ),
        (
            check("name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", expect = 1, abs = -1 }]"),
            Some(7),
            "check.measures.abs",
            "negative",
        ),
        (
            check("name = \"a\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", expect = nan }]"),
            Some(7),
            "check.measures.expect",
            "decimal",
        ),
        (check("name = \"a\"\nkind = \"volume\""), Some(4), "check.min-rows", "at least one of"),
        (check("name = \"a\"\nkind = \"volume\"\nmin-rows = -1"), Some(7), "check.min-rows", "0 or more"),
        (check("name = \"a\"\nkind = \"volume\"\nmin-rows = 2\nmax-rows = 1"), Some(8), "check.max-rows", "minimum"),
    ] {
        let error = Contract::parse(&text, "c.toml").unwrap_err();
        assert_eq!((error.line, error.key.as_str()), (line, key), "{text}\n{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().starts_with("contract c.toml"), "{error}");
    }
}

#[test]
fn a_first_contract_can_be_read() {
    use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
    let schema = Schema::builder()
        .with_fields([
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "a \"b\"\\\n", Type::Primitive(PrimitiveType::Decimal { precision: 9, scale: 2 }))
                .into(),
            NestedField::optional(3, "f", Type::Primitive(PrimitiveType::Fixed(16))).into(),
        ])
        .build()
        .unwrap();
    let contract = parse(&Contract::first_for(&schema, &["id".to_owned()]));
    let kinds: Vec<_> = contract.checks.iter().map(|check| check.kind.word()).collect();
    assert_eq!(kinds, ["schema", "keys", "scope"]);
    let CheckKind::Schema(columns) = &contract.checks[0].kind else { panic!() };
    assert_eq!(columns.columns[1].name, "a \"b\"\\\n");
    assert_eq!(columns.columns[2].column_type, Some(ColumnType::Primitive(PrimitiveType::Fixed(16))));
    let without = parse(&Contract::first_for(&schema, &[]));
    assert_eq!(without.checks.len(), 2);
    // The hints are valid once their comment signs are taken away.
    let text = Contract::first_for(&schema, &[]);
    let hints: String = text
        .lines()
        .map(|line| match line.strip_prefix('#').map(str::trim_start) {
            Some(code) if code.contains(" = ") && !code.contains("or \"") || code.starts_with(['[', ']', '{']) => code,
            Some(_) => "",
            None => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(parse(&hints).checks.len(), 5, "{hints}");
    assert_eq!(contract_file_name(&"shop.eu.orders".parse().unwrap()), "contracts/shop.eu.orders.toml");
}
