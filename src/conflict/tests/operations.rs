//! What the one did against what the other did, under every transform.

use std::slice::from_ref;

use iceberg::spec::{Datum, Literal, Transform};

use super::kit::*;
use crate::identity::Change;

/// What others did: in the partition of the scope, or in another.
fn others(inside: &Place, outside: &Place, global: &Place) -> Vec<(&'static str, Change)> {
    let (f, g) = (data("f", inside, 1), data("g", inside, 1));
    let (h, i) = (data("h", outside, 1), data("i", outside, 1));
    vec![
        ("nothing", change(&[], &[])),
        ("append in", change(&[data("m", inside, 5)], &[])),
        ("append out", change(&[data("m", outside, 5)], &[])),
        ("replace in", change(&[data("m", inside, 5)], from_ref(&f))),
        ("replace out", change(&[data("m", outside, 5)], from_ref(&h))),
        ("delete in", change(&[], from_ref(&f))),
        ("delete out", change(&[], from_ref(&h))),
        ("compact in", change(&[data("m", inside, 1)], &[f, g])),
        ("compact out", change(&[data("m", outside, 1)], &[h, i])),
        ("positions in", change(&[positions("m", inside, Some("f"))], &[])),
        ("positions out", change(&[positions("m", outside, Some("h"))], &[])),
        ("vector in", change(&[vector("m", inside, "f")], &[])),
        ("vector again in", change(&[vector("m", inside, "f")], &[vector("old", inside, "f")])),
        ("vector out", change(&[vector("m", outside, "h")], &[])),
        ("equality in", change(&[equality("m", inside)], &[])),
        ("equality out", change(&[equality("m", outside)], &[])),
        ("equality all", change(&[equality("m", global)], &[])),
    ]
}

/// What the candidate does, in the partition of the scope.
fn candidates(inside: &Place, global: &Place) -> Vec<(&'static str, u8, Change)> {
    let (f, new) = (data("f", inside, 1), data("c", inside, 5));
    vec![
        ("append", 2, change(from_ref(&new), &[])),
        ("replace", 2, change(&[new], &[f])),
        ("positions", 2, change(&[positions("d", inside, Some("f"))], &[])),
        ("vector", 3, change(&[vector("d", inside, "f")], &[])),
        ("equality", 2, change(&[equality("d", inside)], &[])),
        ("equality all", 2, change(&[equality("d", global)], &[])),
    ]
}

const EXPECTED: [(&str, [&str; 6]); 17] = [
    ("nothing", ["-", "-", "-", "-", "-", "-"]),
    ("append in", ["K2", "K2", "K2", "K2", "K5", "K5"]),
    ("append out", ["-", "-", "-", "-", "-", "K5"]),
    ("replace in", ["K2", "K2 K3", "K2 K3", "K2 K3", "K2 K5", "K2 K5"]),
    ("replace out", ["-", "-", "-", "-", "-", "K5"]),
    ("delete in", ["K2", "K3", "K3", "K3", "K2", "K2"]),
    ("delete out", ["-", "-", "-", "-", "-", "-"]),
    ("compact in", ["K2", "K2 K3", "K2 K3", "K2 K3", "K2 K5", "K2 K5"]),
    ("compact out", ["-", "-", "-", "-", "-", "K5"]),
    ("positions in", ["K2", "K3", "K3", "K3", "K2", "K2"]),
    ("positions out", ["-", "-", "-", "-", "-", "-"]),
    ("vector in", ["K2", "K3", "K3", "K3", "K2", "K2"]),
    ("vector again in", ["K2", "K3", "K3", "K3", "K2 K5", "K2 K5"]),
    ("vector out", ["-", "-", "-", "-", "-", "-"]),
    ("equality in", ["K4", "K4", "K4", "K4", "K4", "K4"]),
    ("equality out", ["-", "-", "-", "-", "-", "-"]),
    ("equality all", ["K4", "K4", "K4", "K4", "K4", "K4"]),
];

/// Days since 1970 of 9 August 2013.
const NINTH: i32 = 15_926;

/// Column, transform, scope, the partition that the scope is in, and one that it is not in.
type Layout = (&'static str, Transform, &'static str, Option<Literal>, Option<Literal>);

/// Each transform with a scope, the partition that the scope is in, and one that it is not in.
fn layouts() -> Vec<Layout> {
    let int = |value| Some(Literal::int(value));
    let text = |value: &str| Some(Literal::string(value));
    let hour = NINTH * 24;
    vec![
        ("day", Transform::Identity, "day = '2013-08-09'", int(NINTH), int(NINTH + 1)),
        ("day", Transform::Identity, "day IS NULL", None, int(NINTH)),
        ("day", Transform::Day, "day = '2013-08-09'", int(NINTH), int(NINTH + 1)),
        ("day", Transform::Month, "day = '2013-08-09'", int(43 * 12 + 7), int(43 * 12 + 8)),
        ("day", Transform::Year, "day = '2013-08-09'", int(43), int(44)),
        ("day", Transform::Year, "day = '1969-12-31'", int(-1), int(2)),
        ("at", Transform::Day, "at >= '2013-08-09 00:00Z' AND at < '2013-08-10 00:00Z'", int(NINTH), int(NINTH + 1)),
        ("at", Transform::Hour, "at >= '2013-08-09 00:00Z' AND at < '2013-08-09 01:00Z'", int(hour), int(hour + 1)),
        (
            "at",
            Transform::Hour,
            "at >= '2013-08-09 02:00+02:00' AND at < '2013-08-09 03:00+02:00'",
            int(hour),
            int(hour + 1),
        ),
        ("key", Transform::Truncate(10), "key = 12", Some(Literal::long(10)), Some(Literal::long(20))),
        ("name", Transform::Truncate(2), "name LIKE 'abc%'", text("ab"), text("ac")),
        ("name", Transform::Identity, "name = 'abc'", text("abc"), text("abd")),
        ("amount", Transform::Truncate(100), "amount = 1.50", Some(Literal::decimal(100)), Some(Literal::decimal(200))),
        ("ratio", Transform::Identity, "ratio > 1", Some(Literal::double(f64::NAN)), Some(Literal::double(0.5))),
        // 34 is in bucket 3 of 4, by Appendix B of the Iceberg spec (its hash is 2017239379).
        ("key", Transform::Bucket(4), "key = 34", int(2_017_239_379 % 4), int((2_017_239_379 + 1) % 4)),
    ]
}

/// Where a row of one of these can be inside, and another outside, that it was changed is certain of neither.
fn without_doubt(rules: &str) -> String {
    rules.replace('?', "")
}

#[test]
fn each_operation_against_each_under_each_transform() {
    for (column, transform, scope, inside, outside) in layouts() {
        let specs = [spec(0, &[(column, transform)]), spec(1, &[])];
        let (inside, outside, global) = ((0, vec![inside]), (0, vec![outside]), (1, vec![]));
        for ((other, delta), (name, expected)) in others(&inside, &outside, &global).into_iter().zip(EXPECTED) {
            assert_eq!(other, name);
            for ((candidate, version, change), expected) in candidates(&inside, &global).into_iter().zip(expected) {
                let mut asked = Asked::new(scope, &specs, change, delta.clone());
                asked.aimed_at = vec![data("f", &inside, 1), data("h", &outside, 1)];
                asked.before.format_version = Some(version);
                asked.after.format_version = Some(version);
                let mut found: Vec<String> = without_doubt(&asked.rules()).split(' ').map(str::to_owned).collect();
                found.dedup();
                let found = found.join(" ");
                assert_eq!(found, expected, "{candidate} against {other}, {transform:?} of {column}, scope {scope}");
            }
        }
    }
}

#[test]
fn without_partitions_bounds_decide() {
    let specs = [spec(0, &[])];
    let table = (0, vec![]);
    let days = |path: &str, first, last| bounded(path, &table, 1, Datum::date(first), Datum::date(last));
    let (f, h) = (days("f", NINTH, NINTH), days("h", NINTH + 1, NINTH + 1));
    let candidate = change(&[data("c", &table, 5)], from_ref(&f));
    let asked = |delta| {
        let mut asked = Asked::new("day = '2013-08-09'", &specs, candidate.clone(), delta);
        asked.aimed_at = vec![f.clone(), h.clone()];
        asked.rules()
    };
    assert_eq!(asked(change(&[days("m", NINTH + 1, NINTH + 2)], &[])), "-");
    assert_eq!(asked(change(&[days("m", NINTH, NINTH)], &[])), "K2");
    assert_eq!(asked(change(&[days("m", NINTH - 1, NINTH + 1)], &[])), "K2?");
    assert_eq!(asked(change(&[data("m", &table, 5)], &[])), "K2?");
    assert_eq!(asked(change(&[], from_ref(&h))), "-");
    assert_eq!(asked(change(&[], from_ref(&f))), "K3");
    assert_eq!(asked(change(&[positions("m", &table, Some("h"))], &[])), "-");
    assert_eq!(asked(change(&[positions("m", &table, Some("f"))], &[])), "K3");
    assert_eq!(asked(change(&[positions("m", &table, Some("x"))], &[])), "K2?");
    assert_eq!(asked(change(&[positions("m", &table, None)], &[])), "K3?");
    assert_eq!(asked(change(&[equality("m", &table)], &[])), "K4?");
}

#[test]
fn text_cut_short_in_bounds_is_still_a_bound() {
    let specs = [spec(0, &[])];
    let table = (0, vec![]);
    let texts = |lower: &str, upper: &str| bounded("m", &table, 5, Datum::string(lower), Datum::string(upper));
    let asked =
        |file| Asked::new("name = 'abcdef'", &specs, change(&[data("c", &table, 5)], &[]), change(&[file], &[]));
    assert_eq!(asked(texts("abc", "abd")).rules(), "K2?");
    assert_eq!(asked(texts("abcdef", "abcdef")).rules(), "K2");
    assert_eq!(asked(texts("abd", "abe")).rules(), "-");
    assert_eq!(asked(texts("ab", "abcd")).rules(), "-");
}

#[test]
fn each_file_is_judged_through_its_own_spec() {
    // By day, then by month: August's files of the new spec may hold the 9th, those of September not.
    let specs = [spec(0, &[("day", Transform::Identity)]), spec(1, &[("day", Transform::Month)])];
    let (day, month) = (|day| (0, vec![Some(Literal::int(day))]), |month| (1, vec![Some(Literal::int(month))]));
    let candidate = || change(&[data("c", &day(NINTH), 5)], &[data("f", &day(NINTH), 1)]);
    let asked = |delta| Asked::new("day = '2013-08-09'", &specs, candidate(), delta).rules();
    assert_eq!(asked(change(&[data("m", &month(43 * 12 + 7), 5)], &[])), "K2?");
    assert_eq!(asked(change(&[data("m", &month(43 * 12 + 8), 5)], &[])), "-");
    assert_eq!(asked(change(&[data("m", &day(NINTH + 1), 5)], &[])), "-");
    assert_eq!(asked(change(&[equality("m", &month(43 * 12 + 8))], &[])), "-");
    // A spec that the table has lost says nothing.
    assert_eq!(asked(change(&[data("m", &(7, vec![]), 5)], &[])), "K2?");
}

#[test]
fn deletes_that_go_can_bring_rows_back() {
    let specs = [spec(0, &[("day", Transform::Identity)]), spec(1, &[])];
    let (inside, outside, global) = ((0, vec![Some(Literal::int(1))]), (0, vec![Some(Literal::int(2))]), (1, vec![]));
    let asked = |candidate, delta| Asked::new("day = '1970-01-02'", &specs, candidate, delta).rules();
    let lifts = |delete| change(&[data("c", &outside, 5)], &[data("f", &outside, 1), delete]);
    let old = |mut entry: crate::identity::LiveEntry, number| {
        entry.sequence_number = number;
        entry
    };
    // The candidate drops deletes together with the files that they covered; what others bring under them comes alive.
    let late = change(&[data("m", &outside, 3)], &[]);
    assert_eq!(asked(lifts(equality("e", &outside)), late.clone()), "K3?");
    assert_eq!(asked(lifts(old(equality("e", &outside), 2)), late), "-");
    let twin = change(&[], &[positions("p", &outside, Some("x"))]);
    assert_eq!(asked(lifts(positions("q", &outside, Some("f"))), twin.clone()), "K3?");
    // Rows that others bring back are as new to the candidate's own equality deletes.
    assert_eq!(asked(change(&[equality("d", &outside)], &[]), twin), "K5?");
    assert_eq!(asked(change(&[equality("d", &global)], &[]), change(&[], &[equality("e", &outside)])), "K5?");
    // The same deletes removed by both.
    let both = equality("e", &inside);
    assert_eq!(asked(lifts(both.clone()), change(&[], &[both])), "K3");
}

#[test]
fn a_column_that_was_widened_has_the_same_partitions() {
    let specs = [spec(0, &[("key", Transform::Truncate(10))])];
    let (int, long) = ((0, vec![Some(Literal::int(10))]), (0, vec![Some(Literal::long(10))]));
    let candidate = change(&[data("c", &int, 5)], &[data("f", &int, 1)]);
    assert_eq!(
        Asked::new("day = '2013-08-09'", &specs, candidate, change(&[equality("m", &long)], &[])).rules(),
        "K4?"
    );
    let candidate = change(&[equality("d", &int)], &[]);
    assert_eq!(Asked::new("key = 90", &specs, candidate, change(&[data("m", &long, 5)], &[])).rules(), "K5");
}

#[test]
fn the_same_file_is_not_added_twice() {
    let specs = [spec(0, &[("day", Transform::Identity)])];
    let outside = (0, vec![Some(Literal::int(2))]);
    let candidate = change(&[data("adopted", &outside, 5)], &[]);
    let asked = Asked::new("day = '1970-01-02'", &specs, candidate, change(&[data("adopted", &outside, 4)], &[]));
    assert_eq!(asked.rules(), "K2");
}

/// Bounds that exclude q say nothing of rows that the candidate carried over in the files it wrote anew.
#[test]
fn equality_deletes_of_the_whole_table_reach_what_is_carried_over() {
    let specs = [spec(0, &[("day", Transform::Identity)]), spec(1, &[])];
    let (day, global) = ((0, vec![Some(Literal::int(1))]), (1, vec![]));
    let far = |place: &Place| {
        let mut delete = bounded("m", place, 2, Datum::long(90), Datum::long(90));
        delete.file = equality_of(&delete);
        delete
    };
    let asked = |candidate, delta| Asked::new("key = 5", &specs, candidate, delta).rules();
    let replace = || change(&[data("c", &day, 5)], &[data("f", &day, 1)]);
    assert_eq!(asked(replace(), change(&[far(&global)], &[])), "K4?");
    assert_eq!(asked(replace(), change(&[far(&day)], &[])), "K4?");
    assert_eq!(asked(change(&[positions("d", &day, Some("f"))], &[]), change(&[far(&global)], &[])), "K4?");
    assert_eq!(asked(change(&[data("c", &day, 5)], &[]), change(&[far(&global)], &[])), "-");
}
