//! What is accepted, what is refused and how, and the one spelling of each filter.

use std::sync::Arc;

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use proptest::prelude::*;

use super::super::{Scope, ScopeError};
use super::generate::filter;
use super::{canonical, schema, scope};

/// Text and its canonical form. A change here changes stored scopes and their digests: it needs a new version.
const GOLDEN: &[(&str, &str)] = &[
    ("true", "true"),
    ("FALSE", "false"),
    ("flight_date = '2013-08-09'", "(= #3:date 2013-08-09)"),
    ("flight_date = DATE '2013-08-09'", "(= #3:date 2013-08-09)"),
    ("'2013-08-09' <= flight_date", "(>= #3:date 2013-08-09)"),
    ("id = 0042", "(= #1:long 42)"),
    ("delay <> -7", "(!= #2:int -7)"),
    ("delay != +7", "(!= #2:int 7)"),
    ("fare >= 3.1", "(>= #5:decimal(9,2) 3.10)"),
    ("fare < -.5", "(< #5:decimal(9,2) -0.50)"),
    ("cancelled = True", "(= #6:boolean true)"),
    ("speed > 0.1", "(> #7:float 1e-1)"),
    ("distance = -0.0", "(= #8:double 0e0)"),
    ("distance <= 1.5e300", "(<= #8:double 1.5e300)"),
    ("at < TIME '17:05'", "(< #9:time 17:05:00.000000)"),
    ("local >= TIMESTAMP '2013-08-09 17:05:00.25'", "(>= #10:timestamp 2013-08-09T17:05:00.250000)"),
    ("local < DATE '1969-12-31'", "(< #10:timestamp 1969-12-31T00:00:00.000000)"),
    ("utc = '2013-08-09T01:00:00+02:00'", "(= #11:timestamptz 2013-08-08T23:00:00.000000Z)"),
    ("local_ns = '2013-08-09 00:00:00.000000001'", "(= #12:timestamp_ns 2013-08-09T00:00:00.000000001)"),
    ("utc_ns = '1969-12-31 23:59:59.5Z'", "(= #13:timestamptz_ns 1969-12-31T23:59:59.500000000Z)"),
    ("key = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'", "(= #14:uuid f79c3e09-677c-4bbd-a479-3f349cb785e7)"),
    ("code = X'00FF0a'", "(= #15:fixed[3] 0x00ff0a)"),
    ("raw = X''", "(= #16:binary 0x)"),
    ("carrier = 'it''s \"a\" \\ b'", r#"(= #4:string "it's \"a\" \\ b")"#),
    ("carrier = 'a\n\u{7f}é'", r#"(= #4:string "a\u{a}\u{7f}é")"#),
    ("carrier = ''", r#"(= #4:string "")"#),
    ("carrier LIKE 'U%'", r#"(starts-with #4:string "U")"#),
    ("carrier NOT LIKE 'U%'", r#"(not-starts-with #4:string "U")"#),
    ("NOT carrier LIKE 'U%'", r#"(not-starts-with #4:string "U")"#),
    ("delay IS NULL", "(is-null #2:int)"),
    ("NOT delay IS NULL", "(not-null #2:int)"),
    ("delay IN (3, 1, 02, 3)", "(in #2:int 1 2 3)"),
    ("delay IN (-1, 10, 9)", "(in #2:int -1 9 10)"),
    ("delay IN (3, 03)", "(= #2:int 3)"),
    ("delay NOT IN (3)", "(!= #2:int 3)"),
    ("NOT delay IN (3, 4)", "(not-in #2:int 3 4)"),
    ("delay BETWEEN 1 AND 5", "(and (<= #2:int 5) (>= #2:int 1))"),
    ("delay NOT BETWEEN 1 AND 5", "(or (< #2:int 1) (> #2:int 5))"),
    ("NOT delay NOT BETWEEN 1 AND 5", "(and (<= #2:int 5) (>= #2:int 1))"),
    ("NOT (id = 1 AND (delay < 2 OR carrier IS NULL))", "(or (!= #1:long 1) (and (>= #2:int 2) (not-null #4:string)))"),
    ("id > 5 AND flight_date = '2013-08-09'", "(and (= #3:date 2013-08-09) (> #1:long 5))"),
    ("id = 1 OR id = 2 OR (id = 1 OR id = 3)", "(or (= #1:long 1) (= #1:long 2) (= #1:long 3))"),
    ("id = 1 AND true AND NOT false", "(= #1:long 1)"),
    ("id = 1 OR NOT false", "true"),
    ("id = 1 AND (false OR false)", "false"),
    ("plane.tail = 'N1' AND plane.engine.count = 2", r#"(and (= #31:string "N1") (= #33:int 2))"#),
    ("\"plane\".tail = 'N1'", r#"(= #31:string "N1")"#),
    ("\"Odd name\" = 1", "(= #17:int 1)"),
    ("id /* of the flight */ = 1 -- one", "(= #1:long 1)"),
];

#[test]
fn golden() {
    for (text, expected) in GOLDEN {
        assert_eq!(&canonical(text), expected, "{text}");
        assert_eq!(Scope::from_canonical(expected, &schema()).unwrap(), scope(text), "{text}");
    }
}

#[test]
fn refusals_say_where_and_what_is_allowed() {
    let cases = [
        ("", "line 1, column 1", "a column or a literal was expected"),
        ("id = 1 AND", "the end of the text", "a column or a literal was expected"),
        ("id = 1\nAND id ~ 2", "line 2, column 8", "a comparison of id was expected"),
        ("id + 1 = 2", "line 1, column 4", "a comparison of id was expected"),
        ("id = 1 id", "line 1, column 8", "AND, OR or the end"),
        ("(id = 1", "the end of the text", "the closing parenthesis"),
        ("id = 1)", "line 1, column 7", "AND, OR or the end"),
        ("id = delay", "line 1, column 6", "compared with a column"),
        ("1 = 1", "line 1, column 1", "compared with a literal"),
        ("lower(carrier) = 'u'", "line 1, column 6", "functions are not allowed"),
        ("id = (SELECT 1)", "line 1, column 6", "parentheses enclose whole tests"),
        ("id = NULL", "line 1, column 6", "IS NULL"),
        ("id IN (1, NULL)", "line 1, column 11", "IS NULL"),
        ("id IN ()", "line 1, column 8", "a column or a literal"),
        ("id IN 1", "line 1, column 7", "a list of literals"),
        ("id BETWEEN 1", "the end of the text", "upper bound"),
        ("cancelled", "the end of the text", "cancelled = true"),
        ("cancelled IS TRUE", "line 1, column 14", "= true"),
        ("carrier LIKE 'U'", "line 1, column 14", "without a wildcard"),
        ("carrier LIKE '%'", "line 1, column 14", "IS NOT NULL"),
        ("carrier LIKE '%U%'", "line 1, column 14", "prefix"),
        ("carrier LIKE 'U_%'", "line 1, column 14", "prefix"),
        ("carrier LIKE 'U!%' ESCAPE '!'", "line 1, column 20", "ESCAPE is not allowed"),
        ("carrier = 'U", "line 1, column 11", "Unterminated"),
        ("id = 1; DROP TABLE t", "line 1, column 7", "AND, OR or the end"),
        ("flight_date = 2013-08-09", "line 1, column 19", "a date is written '2013-08-09'"),
        ("plane. = 1", "line 1, column 8", "field"),
    ];
    for (text, place, reason) in cases {
        let error = Scope::parse(text, &schema()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(place) && message.contains(reason), "{text}: {message}");
        assert!(error.is_input());
    }
}

#[test]
fn unknown_names_list_the_columns_nearest_first() {
    let message = |text: &str| Scope::parse(text, &schema()).unwrap_err().to_string();
    let unknown = message("id = 1 AND flightdate = 1");
    assert!(unknown.contains("line 1, column 12") && unknown.contains("the columns are flight_date, "), "{unknown}");
    assert!(unknown.contains("\"Odd name\"") && unknown.contains("plane.tail"), "{unknown}");
    assert!(message("Carrier = 'U'").contains("did you mean carrier?"));
    assert!(message("plane = 1").contains("test one of its fields"));
    assert!(message("stops = 'a'").contains("list or map"));
    assert!(message("stops.element = 'a'").contains("inside a list or map"));
    assert!(message("extra.value = 'a'").contains("inside a list or map"));
}

#[test]
fn literals_have_to_fit_their_column() {
    let cases = [
        ("delay = 2147483648", "outside -2147483648 to 2147483647"),
        ("id = 9223372036854775808", "outside"),
        ("id = 1.5", "whole number"),
        ("id = 1e3", "whole number"),
        ("id = '1'", "without quotes"),
        ("id = true", "without quotes"),
        ("carrier = 1", "single quotes"),
        ("cancelled = 1", "true or false"),
        ("fare = 1.234", "2 digits after the point"),
        ("fare = 12345678.9", "9 digits"),
        ("fare = 1e2", "without exponent"),
        ("speed = 1e39", "beyond the largest float"),
        ("distance = 1e309", "beyond the largest double"),
        ("distance = 'NaN'", "a number"),
        ("flight_date = '2013-02-30'", "no such day"),
        ("flight_date = '2013-2-3'", "2013-08-09"),
        ("flight_date = '0000-01-01'", "0001"),
        ("flight_date = TIMESTAMP '2013-08-09 00:00:00'", "a date"),
        ("at = '25:00'", "time of day"),
        ("at = '10:00:00.0000001'", "6 digits"),
        ("local = '2013-08-09 00:00:00Z'", "without an offset"),
        ("local = '2013-08-09 00:00:00.1234567'", "6 digits"),
        ("local = '2013-08-09 00:00:60'", "time of day"),
        ("local = DATE '2013-08-09 10:00'", "a date"),
        ("utc = '2013-08-09 00:00:00'", "Z or an offset"),
        ("utc = DATE '2013-08-09'", "timestamp with offset"),
        ("utc = '2013-08-09 00:00:00+25:00'", "offset"),
        ("local_ns = '2263-01-01 00:00:00'", "2262"),
        ("key = 'f79c3e09'", "a uuid"),
        ("code = X'00'", "1 bytes, the column 3"),
        ("raw = X'0'", "even number"),
        ("raw = 'a'", "X'00ff'"),
        ("delay LIKE 'a%'", "type string"),
    ];
    for (text, reason) in cases {
        let message = Scope::parse(text, &schema()).unwrap_err().to_string();
        let column = text.split(' ').next().unwrap();
        assert!(message.contains(reason) && message.contains(&format!("{column:?}")), "{text}: {message}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let parse = |text: &str| Scope::parse(text, &schema());
    let deep = format!("{}id = 1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(matches!(parse(&deep), Err(ScopeError::TooLarge { .. })));
    assert!(matches!(parse(&"(".repeat(500_000)), Err(ScopeError::TooLarge { .. })));
    let fits = format!("{}id = 1{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(parse(&fits).unwrap(), scope("id = 1"));
    assert_eq!(parse(&format!("{}id = 1", "NOT ".repeat(10_001))).unwrap(), scope("id != 1"));
    let beside = vec!["(id = 1)"; 1_000].join(" OR ");
    assert_eq!(parse(&beside).unwrap(), scope("id = 1"));
    let alternating = format!("{}id = 1{}", "(id = 2 AND (id = 3 OR ".repeat(50), "))".repeat(50));
    let deepest = parse(&alternating).unwrap();
    assert_eq!(Scope::from_canonical(&deepest.canonical(), &schema()).unwrap(), deepest);
    let wide = (0..4_999).map(|i| format!("id = {i}")).collect::<Vec<_>>().join(" OR ");
    let widest = parse(&wide).unwrap();
    assert_eq!(Scope::from_canonical(&widest.canonical(), &schema()).unwrap(), widest);
    assert!(widest.to_predicate(&schema()).is_ok());
    assert!(matches!(parse(&format!("{wide} OR {wide}")), Err(ScopeError::TooLarge { .. })));
    assert!(matches!(parse(&" ".repeat(2 << 20)), Err(ScopeError::TooLarge { .. })));
    let nested = format!("{}{}", "(and ".repeat(10_000), ")".repeat(10_000));
    assert!(Scope::from_canonical(&nested, &schema()).is_err());
}

#[test]
fn only_the_canonical_spelling_is_read_back() {
    let accepted = "(and (= #3:date 2013-08-09) (> #1:long 5))";
    assert!(Scope::from_canonical(accepted, &schema()).is_ok());
    let refused = [
        "",
        " true",
        "true ",
        "TRUE",
        "(and true (= #1:long 5))",
        "(and (= #1:long 5))",
        "(= #1:long 05)",
        "(= #1:long +5)",
        "(= #01:long 5)",
        "(= #1:long 5.0)",
        "(=  #1:long 5)",
        "(= #1:long 5",
        "(= #1:long 5))",
        "(= #1:long)",
        "(= #1:long 5 6)",
        "(== #1:long 5)",
        "(= #1:big 5)",
        "(= #1:long 9223372036854775808)",
        "(in #1:long 5)",
        "(in #1:long 6 5)",
        "(in #1:long 5 5)",
        "(is-null #1:long 5)",
        "(and (> #1:long 5) (= #3:date 2013-08-09))",
        "(and (= #1:long 5) (= #1:long 5))",
        "(and (= #1:long 5) (and (= #1:long 6) (= #1:long 7)))",
        "(= #3:date 2013-8-9)",
        "(= #5:decimal(9,2) 1.5)",
        "(= #7:float 1.0)",
        "(= #7:float NaN)",
        "(= #7:float inf)",
        "(= #8:double -0e0)",
        "(= #10:timestamp 2013-08-09T00:00:00)",
        "(= #10:timestamp 2013-08-09)",
        "(= #11:timestamptz 2013-08-09T00:00:00.000000+00:00)",
        "(= #4:string \"a)",
        "(= #4:string a)",
        "(= #4:string \"\\n\")",
        "(= #4:string \"\\u{61}\")",
        "(= #4:string \"\n\")",
        "(= #16:binary 00)",
        "(= #16:binary 0xFF)",
        "(starts-with #1:long 5)",
        "(= #5:decimal(9,2)1.50)",
        "(= #5:decimal(99,2) 1.50)",
    ];
    for text in refused {
        assert!(Scope::from_canonical(text, &schema()).is_err(), "{text}");
    }
    let cut = Scope::from_canonical("(= #1:long 5", &schema()).unwrap_err();
    assert!(!cut.is_input() && cut.to_string().contains("byte 11"), "{cut}");
}

fn evolved(fields: Vec<NestedField>) -> Schema {
    Schema::builder().with_fields(fields.into_iter().map(Arc::new)).build().unwrap()
}

#[test]
fn a_scope_survives_renames_and_widening_but_not_a_drop() {
    let bound = scope("id = 5 AND delay IN (1, 2) AND speed > 1.5 AND fare = 1");
    assert_eq!(bound.columns(&schema()), ["id", "delay", "fare", "speed"]);
    let primitive = Type::Primitive;
    let decimal = |precision, scale| primitive(PrimitiveType::Decimal { precision, scale });
    let build = |id_type: PrimitiveType, fare: Type| {
        evolved(vec![
            NestedField::required(1, "number", primitive(id_type)),
            NestedField::optional(2, "minutes", primitive(PrimitiveType::Long)),
            NestedField::optional(5, "price", fare),
            NestedField::optional(7, "pace", primitive(PrimitiveType::Double)),
        ])
    };
    let now = build(PrimitiveType::Long, decimal(18, 2));
    let again = Scope::from_canonical(&bound.canonical(), &now).unwrap();
    assert_eq!(again.columns(&now), ["number", "minutes", "price", "pace"]);
    let written = Scope::parse("number = 5 AND minutes IN (1, 2) AND pace > 1.5 AND price = 1", &now).unwrap();
    assert_eq!(again, written);
    assert_eq!(bound.to_predicate(&now).unwrap(), written.to_predicate(&now).unwrap());

    let retyped = build(PrimitiveType::String, decimal(9, 2));
    let error = Scope::from_canonical(&bound.canonical(), &retyped).unwrap_err();
    assert!(matches!(error, ScopeError::TypeChanged { field_id: 1, .. }), "{error}");
    assert!(matches!(bound.matcher(&retyped), Err(ScopeError::TypeChanged { field_id: 1, .. })));

    for (text, kind) in [
        ("(= #1:timestamp 2013-08-09T00:00:00.000000)", PrimitiveType::Timestamptz),
        ("(= #1:decimal(9,2) 1.50)", PrimitiveType::Decimal { precision: 9, scale: 3 }),
        ("(= #1:decimal(9,2) 1.50)", PrimitiveType::Decimal { precision: 8, scale: 2 }),
        ("(= #1:fixed[1] 0x00)", PrimitiveType::Binary),
        ("(= #1:long 5)", PrimitiveType::Int),
        ("(is-null #1:long)", PrimitiveType::String),
    ] {
        let other = evolved(vec![NestedField::optional(1, "id", primitive(kind))]);
        let error = Scope::from_canonical(text, &other).unwrap_err();
        assert!(matches!(error, ScopeError::TypeChanged { field_id: 1, .. }), "{text}: {error}");
    }

    let dropped = evolved(vec![NestedField::required(1, "id", primitive(PrimitiveType::Long))]);
    let error = Scope::from_canonical("(= #2:int 5)", &dropped).unwrap_err();
    assert_eq!(error, ScopeError::ColumnDropped { field_id: 2 });
    assert!(error.to_string().contains("field id 2") && error.to_string().contains("column dropped"), "{error}");
    assert!(scope("delay = 5").to_predicate(&dropped).is_err());
    assert!(scope("delay = 5").matcher(&dropped).is_err());
    assert!(scope("delay = 5 AND id = 1").columns(&dropped) == ["id"]);
}

#[test]
fn a_union_is_the_or_of_both() {
    let (one, two) = (scope("id = 1 OR id = 2"), scope("id = 2 OR delay IS NULL"));
    assert_eq!(one.union(&two), scope("id = 1 OR id = 2 OR delay IS NULL"));
    assert_eq!(one.union(&one), one);
    assert!(one.union(&Scope::whole_table()).is_whole_table());
}

#[test]
fn the_whole_table_is_true() {
    assert_eq!(Scope::whole_table(), scope("true"));
    assert!(Scope::whole_table().is_whole_table() && !scope("id = 1").is_whole_table());
    assert!(Scope::whole_table().field_ids().is_empty());
    assert_eq!(scope("delay = 1 OR id = 2 OR id = 3").field_ids().into_iter().collect::<Vec<_>>(), [1, 2]);
}

proptest! {
    #[test]
    fn canonical_forms_read_back(filter in filter()) {
        let scope = scope(&filter.sql());
        let text = scope.canonical();
        let again = Scope::from_canonical(&text, &schema()).unwrap();
        prop_assert_eq!(again.canonical(), text);
        prop_assert_eq!(again, scope);
    }

    #[test]
    fn rewriting_by_logic_changes_nothing(filter in filter(), seed in any::<u64>()) {
        prop_assert_eq!(canonical(&filter.sql()), canonical(&filter.rewritten(seed).sql()));
    }

    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof!["[ -~\\n]{0,60}", ".{0,40}"]) {
        let _result = Scope::parse(&text, &schema());
        let _result = Scope::from_canonical(&text, &schema());
    }

    #[test]
    fn any_text_of_the_grammar_is_read_or_refused(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "id", "carrier", "=", "<", "(", ")", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "'a%'", "1", "-", ",",
                "NULL", "IS", "true", "DATE", "'2013-08-09'", ".", "X'00'", "\"id\"",
            ]),
            0..20,
        )
    ) {
        if let Ok(scope) = Scope::parse(&words.join(" "), &schema()) {
            prop_assert_eq!(Scope::from_canonical(&scope.canonical(), &schema()).unwrap(), scope);
        }
    }
}
