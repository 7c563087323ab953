use uuid::Uuid;

use super::*;

fn digest(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn definition() -> Definition {
    Definition {
        verb: "stage".to_owned(),
        parameters: BTreeMap::from([
            ("mode".to_owned(), Parameter::Text("replace".to_owned())),
            ("limit".to_owned(), Parameter::Integer(i64::MAX)),
            ("checked".to_owned(), Parameter::Flag(true)),
            ("contract".to_owned(), Parameter::Digest(digest(""))),
            ("files".to_owned(), Parameter::List(vec!["a.csv".to_owned(), "b.csv".to_owned()])),
        ]),
        environment: Environment {
            engine: "calve 0.1.0".to_owned(),
            code: Some("3f2a".to_owned()),
            backends: BTreeMap::from([("device".to_owned(), "cpu".to_owned())]),
        },
    }
}

fn statement() -> Statement {
    let tree = digest("tree");
    let check = StatedCheck {
        name: "key".to_owned(),
        kind: "keys".to_owned(),
        outcome: Outcome::Pass,
        examined_rows: u64::MAX,
        summary: "no duplicate in 995 rows".to_owned(),
        details: vec![],
        depends_on: BTreeSet::from(["scope-tree".to_owned(), "fields/[\"id\"]".to_owned()]),
        definition: digest("definition of key"),
        engine: "calve/1".to_owned(),
        reused_from: None,
    };
    let more = ["code", "source/ledger", "fields/[\"id\"]"];
    let names = REQUIRED_IDENTITIES.into_iter().chain(more);
    Statement {
        subject: Subject::new(
            &CatalogIdentity("http://c".to_owned()),
            &"air.flights".parse().unwrap(),
            SnapshotId(i64::MAX),
            tree,
        ),
        predicate: Predicate {
            publication: "repair-07".parse().unwrap(),
            incarnation: Incarnation(Uuid::from_u128(1)),
            table_uuid: TableUuid(Uuid::from_u128(2)),
            base: None,
            snapshot: SnapshotId(i64::MAX),
            candidate: digest("candidate"),
            identities: names.map(|name| (name.to_owned(), digest(name))).collect(),
            scope: StatedScope {
                canonical: "(= #1 date 15926)".to_owned(),
                text: "day = '2013-08-09' -- é".to_owned(),
            },
            reads: None,
            checks: vec![check],
            definition: definition(),
            definition_hash: definition().hash(),
            inputs: vec![
                InputAnchor {
                    name: "weather".to_owned(),
                    kind: "http".to_owned(),
                    pin: Pin::Unpinned { read_at: instant("2013-08-10T01:02:03.5Z") },
                },
                InputAnchor {
                    name: "ledger".to_owned(),
                    kind: "iceberg-snapshot".to_owned(),
                    pin: Pin::Pinned("9007199254740993".to_owned()),
                },
            ],
            run: Run { id: "run-1".to_owned(), at: instant("2013-08-10T02:00:00Z") },
            files: vec![
                AttestedFile { path: "s3://b/z.parquet".to_owned(), sha256: digest("z") },
                AttestedFile { path: "s3://b/a.parquet".to_owned(), sha256: digest("a") },
            ],
            unattested: 3,
        },
    }
}

#[test]
fn golden() {
    let bytes = statement().canonical_bytes().unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), GOLDEN);
    assert_eq!(statement().digest().unwrap(), digest(GOLDEN));
    // Worked out apart from this code, from the field list.
    assert_eq!(
        definition().hash().to_string(),
        "sha256:4fb6e60637968781c56c04b51afb29ca72ca60ddb770669e54f9627406420bb1"
    );
}

#[test]
fn statements_are_read_back_sorted() {
    let parsed = Statement::parse(GOLDEN.as_bytes()).unwrap();
    assert_eq!(parsed.canonical_bytes().unwrap(), GOLDEN.as_bytes());
    let mut expected = statement();
    expected.predicate.files.reverse();
    expected.predicate.inputs.reverse();
    assert_eq!(parsed, expected);
    assert!(parsed.passed());
}

#[test]
fn results_survive_being_stated() {
    let predicate = statement().predicate;
    let result = predicate.checks[0].to_result().unwrap();
    assert_eq!(StatedCheck::from(&result), predicate.checks[0]);
    let identities = predicate.identities_by_kind().unwrap();
    assert_eq!(identities.len(), predicate.identities.len());
    assert!(result.depends_on.iter().all(|kind| identities.contains_key(kind)));
    let unknown = StatedCheck { depends_on: BTreeSet::from(["colour".to_owned()]), ..predicate.checks[0].clone() };
    assert!(unknown.to_result().is_err());
}

#[test]
fn only_passes_pass() {
    let with = |outcomes: &[Outcome]| {
        let mut statement = statement();
        let check = statement.predicate.checks.remove(0);
        statement.predicate.checks =
            outcomes.iter().map(|outcome| StatedCheck { outcome: *outcome, ..check.clone() }).collect();
        statement.passed()
    };
    use Outcome::{Error, Fail, Pass};
    assert!(with(&[Pass, Pass]));
    for outcomes in [&[][..], &[Fail], &[Error], &[Pass, Fail], &[Error, Pass]] {
        assert!(!with(outcomes), "{outcomes:?}");
    }
}

#[test]
fn foreign_bytes_are_refused_by_name() {
    let parse = |text: &str| Statement::parse(text.as_bytes()).unwrap_err();
    let edited = |from: &str, to: &str| {
        assert!(GOLDEN.contains(from), "{from}");
        parse(&GOLDEN.replacen(from, to, 1))
    };
    assert_eq!(
        edited(STATEMENT_TYPE, "https://in-toto.io/Statement/v2"),
        StatementError::Type { found: "https://in-toto.io/Statement/v2".to_owned() }
    );
    assert_eq!(
        edited(PREDICATE_TYPE, "calve/materialization/v2"),
        StatementError::PredicateType { found: "calve/materialization/v2".to_owned() }
    );
    assert_eq!(parse("{}"), StatementError::Type { found: String::new() });
    for malformed in ["", "null", "{\"_type\":1}", &GOLDEN[..GOLDEN.len() - 1]] {
        assert!(matches!(parse(malformed), StatementError::Malformed(_)), "{malformed}");
    }
    for (from, to) in [
        ("\"run\":{", "\"ruin\":{},\"run\":{"),
        ("\"unattested\":\"3\"", "\"unattested\":3"),
        ("\"unattested\":\"3\"", "\"unattested\":\"-3\""),
        ("\"outcome\":\"pass\"", "\"outcome\":\"passed\""),
        ("\"subject\":[", "\"subject\":[{\"digest\":{\"sha256\":\"\"},\"name\":\"\"},"),
        ("\"sha256\":\"", "\"sha256\":\"A"),
    ] {
        assert!(matches!(edited(from, to), StatementError::Malformed(_)), "{to}");
    }
    // The same content in other bytes.
    for (from, to) in [(":{", ": {"), ("é", "\\u00e9"), ("\"unattested\":\"3\"", "\"unattested\":\"+3\"")] {
        assert_eq!(edited(from, to), StatementError::NotCanonical, "{to}");
    }
}

#[test]
fn contradictions_are_neither_written_nor_read() {
    let edits: [fn(&mut Statement); 9] = [
        |s| s.subject.tree = digest("other"),
        |s| s.subject.name = "c/t@1".to_owned(),
        |s| s.predicate.definition_hash = digest("other"),
        |s| s.predicate.definition.verb.push('x'),
        |s| s.predicate.identities.retain(|name, _| name != "schema"),
        |s| s.predicate.identities.retain(|name, _| !name.starts_with("fields/")),
        |s| s.predicate.checks.push(s.predicate.checks[0].clone()),
        |s| s.predicate.files[0].path = s.predicate.files[1].path.clone(),
        |s| s.predicate.inputs[0].name = s.predicate.inputs[1].name.clone(),
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        let mut statement = statement();
        edit(&mut statement);
        let refused = statement.canonical_bytes();
        assert!(matches!(refused, Err(StatementError::Inconsistent(_))), "{at}: {refused:?}");
    }
    let changed = GOLDEN.replacen("\"verb\":\"stage\"", "\"verb\":\"stagf\"", 1);
    assert!(matches!(Statement::parse(changed.as_bytes()), Err(StatementError::Inconsistent(_))));
}

#[test]
fn every_part_of_a_definition_matters() {
    let edits: [fn(&mut Definition); 11] = [
        |d| d.verb.push('x'),
        |d| drop(d.parameters.remove("mode")),
        |d| drop(d.parameters.insert("mode".to_owned(), Parameter::Text("append".to_owned()))),
        |d| drop(d.parameters.insert("limit".to_owned(), Parameter::Text(i64::MAX.to_string()))),
        |d| drop(d.parameters.insert("checked".to_owned(), Parameter::Flag(false))),
        |d| drop(d.parameters.insert("files".to_owned(), Parameter::List(vec!["a.csvb.csv".to_owned()]))),
        |d| drop(d.parameters.insert("contract".to_owned(), Parameter::Digest(digest("x")))),
        |d| d.environment.engine.push('x'),
        |d| d.environment.code = None,
        |d| d.environment.code = Some(String::new()),
        |d| drop(d.environment.backends.insert("model".to_owned(), String::new())),
    ];
    let mut seen = BTreeSet::from([definition().hash()]);
    for (at, edit) in edits.into_iter().enumerate() {
        let mut edited = definition();
        edit(&mut edited);
        assert!(seen.insert(edited.hash()), "{at}");
    }
}

const GOLDEN: &str = concat!(
    r#"{"_type":"https://in-toto.io/Statement/v1","predicate":{"base":null,"candidate":"sha256:dda18a0e21ae47c53b4309"#,
    r#"434cbc02ae8bf764fa83a6defbb719431242722aa7","checks":[{"definition":"sha256:9d7354a2526af6f32281a86bfbe0e3468f"#,
    r#"a035cf6502114095183ef85b1d9263","dependsOn":["fields/[\"id\"]","scope-tree"],"details":[],"engine":"calve/1",""#,
    r#"examinedRows":"18446744073709551615","kind":"keys","name":"key","outcome":"pass","reusedFrom":null,"summary":""#,
    r#"no duplicate in 995 rows"}],"definition":{"environment":{"backends":{"device":"cpu"},"code":"3f2a","engine":"c"#,
    r#"alve 0.1.0"},"parameters":{"checked":{"type":"flag","value":true},"contract":{"type":"digest","value":"sha256:"#,
    r#"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"files":{"type":"list","value":["a.csv","b."#,
    r#"csv"]},"limit":{"type":"integer","value":"9223372036854775807"},"mode":{"type":"text","value":"replace"}},"ver"#,
    r#"b":"stage"},"definitionHash":"sha256:4fb6e60637968781c56c04b51afb29ca72ca60ddb770669e54f9627406420bb1","files""#,
    r#":[{"path":"s3://b/a.parquet","sha256":"sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"#,
    r#""},{"path":"s3://b/z.parquet","sha256":"sha256:594e519ae499312b29433b7dd8a97ff068defcba9755b6d5d00e84c524d67b0"#,
    r#"6"}],"identities":{"base":"sha256:cae662172fd450bb0cd710a769079c05bfc5d8e35efa6576edc7d0377afdd4a2","change":""#,
    r#"sha256:12ea12eace7d655f471ce55e34f89b1b77a3d9d05a445ca82877dd2235beaa51","code":"sha256:5694d08a2e53ffcae0c310"#,
    r#"3e5ad6f6076abd960eb1f8a56577040bc1028f702b","contract":"sha256:cc8321d6375c494d043fdd0260f21bc0ec51dacc9f6abb7"#,
    r#"f909cdcd3041b78bf","fields/[\"id\"]":"sha256:7d80ccd2b19db806935530f9904d534f1707fa24e5412975e68a7ea94313221d""#,
    r#","schema":"sha256:df0ad6e43880f09c90ebf95f19110178aba6890df0010ebda7485029e2b543b4","scope-tree":"sha256:5cd93"#,
    r#"f30e952c99caf07b690d3a1582cac4db9ae7052c2d52f28d5935a97dbab","source/ledger":"sha256:fd21680585ca8ce88a531ccce"#,
    r#"ce16b5b469e43b8e33eec8441f8a2055ee1ed84","spec":"sha256:d4f02eaafd1a9e9de7d10972ca8e47fa7a985825c3c9c1e249c726"#,
    r#"83cb3e4f19","tree":"sha256:dc9c5edb8b2d479e697b4b0b8ab874f32b325138598ce9e7b759eb8292110622"},"incarnation":"0"#,
    r#"0000000-0000-0000-0000-000000000001","inputs":[{"kind":"iceberg-snapshot","name":"ledger","pin":{"pinned":"900"#,
    r#"7199254740993"}},{"kind":"http","name":"weather","pin":{"unpinned":{"readAt":"2013-08-10T01:02:03.500Z"}}}],"p"#,
    r#"ublication":"repair-07","reads":null,"run":{"at":"2013-08-10T02:00:00Z","id":"run-1"},"scope":{"canonical":"(="#,
    r#" #1 date 15926)","text":"day = '2013-08-09' -- é"},"snapshot":"9223372036854775807","tableUuid":"00000000-0000"#,
    r#"-0000-0000-000000000002","unattested":"3"},"predicateType":"calve/materialization/v1","subject":[{"digest":{"s"#,
    r#"ha256":"dc9c5edb8b2d479e697b4b0b8ab874f32b325138598ce9e7b759eb8292110622"},"name":"http://c/air.flights@922337"#,
    r#"2036854775807"}]}"#,
);
