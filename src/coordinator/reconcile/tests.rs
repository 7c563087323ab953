//! What a person is told of every row: the verdict, what it rests on, what may be done and what must not.

use super::*;
use crate::ids::TableUuid;
use crate::journal::record::{Event, ReplyRecord};
use crate::publish::past::Ended;
use crate::publish::reconcile::{FilesLive, TableView, Visibility, reconcile, reconcile_with};
use crate::publish::testkit::*;
use crate::report::{Report as _, Text as _};
use uuid::Uuid;

type Case = (&'static str, ObservedBuilder, Log, FilesLive);

fn told(finding: Finding, journal: bool) -> String {
    let report = report(&table(), finding, false, journal, Vec::new());
    format!("{}exit {}\n", report.text(), report.exit_code())
}

fn page(cases: Vec<Case>) -> String {
    let one = |(face, table, log, files): Case| {
        let journal = !log.records.is_empty();
        let intent = if journal { log.intent() } else { no_journal() };
        let finding = reconcile(&intent, &TableView::Present(Box::new(table.build())), files);
        format!("# {face}\n{}", told(finding, journal))
    };
    cases.into_iter().map(one).collect::<Vec<_>>().join("\n")
}

fn case(face: &'static str, table: ObservedBuilder, log: Log) -> Case {
    (face, table, log, FilesLive::NotKnown)
}

fn nothing() -> Log {
    Log::default()
}

fn saw(log: Log, row: u8, state: &str) -> Log {
    log.event(Event::Decided { attempt: None, row, state: state.to_owned(), sequence_number: 4, main: Some(K) })
}

#[test]
fn row_0() {
    let sent = Log::sealed().publish(K, Some(UNKNOWN()));
    let view = |renamed: Option<&str>, why| {
        let renamed = renamed.map(|name| name.parse().unwrap());
        TableView::Missing { reason: "the catalog says 404".to_owned(), renamed, why }
    };
    let mut text = Vec::new();
    for (face, view, log) in [
        ("not found", view(None, Absence::Missing), sent.clone()),
        (
            "found under another name",
            view(Some("shop.flights_old"), Absence::Missing),
            saw(sent.clone(), 2, "published"),
        ),
        ("another table has its name", view(None, Absence::Replaced), sent.clone()),
        ("no answer", view(None, Absence::Unreachable), sent.clone()),
    ] {
        let finding = reconcile(&log.intent(), &view, FilesLive::NotKnown);
        text.push(format!("# {face}\n{}", told(finding, true)));
    }
    let other = ObservedBuilder::published().with(|table| table.uuid = TableUuid(Uuid::from_u128(78)));
    text.push(page(vec![case("the name has another uuid while it is read", other, sent)]));
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn row_1() {
    let older = ObservedBuilder::staged().with(|table| table.last_sequence_number = 3);
    let published = || saw(Log::sealed().publish(K, Some(ReplyRecord::Accepted)), 2, "published");
    let nothing_of_it = ObservedBuilder::base().other(M, Some(N)).main(M).with(|table| table.last_sequence_number = 9);
    insta::assert_snapshot!(page(vec![
        case("an older sequence number", older, published()),
        case("the journal saw it published, and the branch stands", ObservedBuilder::sealed(), published()),
        case(
            "the journal saw it closed, and the branch stands",
            ObservedBuilder::sealed(),
            saw(Log::sealed(), 5, "closed")
        ),
        case("the journal saw it published, and nothing of it is there", nothing_of_it, published()),
    ]));
}

#[test]
fn row_2() {
    let table = ObservedBuilder::published;
    let settled = Log::default().begin(OURS, B, ReplyRecord::Accepted).settle(S, UNKNOWN());
    let ends = table().other(X, Some(K)).other(M, Some(X)).main(M).forget(X);
    insta::assert_snapshot!(page(vec![
        case("visible", table(), Log::sealed().publish(K, Some(UNKNOWN()))),
        case("superseded", table().other(M, Some(K)).main(M), nothing()),
        case("rolled back", table().main(N), nothing()),
        case("history ends", ends, nothing()),
        case(
            "settled without evidence",
            ObservedBuilder::staged().main(S).tag(published(), S).tag(audit(), N),
            settled
        ),
        case("a receipt on something else", ObservedBuilder::sealed().tag(published(), N), Log::sealed()),
    ]));
}

#[test]
fn row_3() {
    let removed = ObservedBuilder::published().unref(&published());
    insta::assert_snapshot!(page(vec![
        case("bypassed", ObservedBuilder::sealed().main(K), Log::sealed()),
        case("bypassed without evidence", ObservedBuilder::staged().main(S), nothing()),
        ("bypassed by its files", ObservedBuilder::sealed().other(M, Some(N)).main(M), nothing(), FilesLive::Yes),
        case("visible after a fence", ObservedBuilder::fenced().main(K), Log::sealed()),
        case("receipt removed", removed.clone(), Log::sealed()),
        case(
            "receipt removed, by the journal",
            removed.clone().main(N).with(|t| t.snapshot_log.clear()),
            saw(Log::sealed().publish(K, Some(UNKNOWN())), 2, "published")
        ),
    ]));
}

#[test]
fn row_4() {
    let stray = ObservedBuilder::sealed().other(X, Some(K)).seal(K2, X, &[]).branch(audit(), K2);
    insta::assert_snapshot!(page(vec![case("two seals", stray, Log::sealed())]));
}

#[test]
fn row_5() {
    let gone = ObservedBuilder::sealed().tag(closed(), N).tag(audit(), N);
    let forgotten = ObservedBuilder::fenced().unref(&closed());
    insta::assert_snapshot!(page(vec![
        case("closed", ObservedBuilder::fenced(), Log::sealed()),
        case("closed when the branch was gone", gone, Log::sealed()),
        case("closed, by the journal", forgotten, saw(Log::sealed(), 5, "closed")),
    ]));
}

#[test]
fn row_6() {
    let sealed = ObservedBuilder::sealed;
    insta::assert_snapshot!(page(vec![
        case("waiting", sealed(), Log::sealed()),
        case("no journal", sealed(), nothing()),
        case("rejected", sealed(), Log::sealed().publish(K, Some(NOT_SENT())).publish(K, Some(refused(403)))),
        case("conflicted", sealed(), Log::sealed().publish(K, Some(refused(409)))),
        case("in flight", sealed(), Log::sealed().publish(K, Some(UNKNOWN())).publish(K, None)),
        case("accepted, and not there", sealed(), Log::sealed().publish(K, Some(ReplyRecord::Accepted))),
    ]));
}

#[test]
fn rows_7_to_9() {
    let sealed = ObservedBuilder::sealed;
    let sent = Log::sealed().publish(K, Some(UNKNOWN()));
    insta::assert_snapshot!(page(vec![
        ("main moved", sealed().other(M, Some(N)).main(M), sent, FilesLive::No),
        case(
            "schema and spec moved",
            sealed().with(|t| (t.current_schema_id, t.default_spec_id) = (4, 6)),
            Log::sealed()
        ),
        case("open", ObservedBuilder::begun(), nothing()),
        case("open, with data", ObservedBuilder::written(), nothing()),
        case("subject moved", sealed().other(X, Some(K)).branch(audit(), X), Log::sealed()),
        case("foreign", ObservedBuilder::base().other(X, Some(N)).branch(audit(), X), Log::sealed()),
    ]));
}

#[test]
fn rows_10_to_12() {
    let sent = || Log::sealed().publish(K, Some(UNKNOWN()));
    let cut = ObservedBuilder::sealed().other(M, Some(N)).main(M).forget(N);
    insta::assert_snapshot!(page(vec![
        case("consumed", ObservedBuilder::sealed().tag(audit(), N), sent()),
        case("gone", cut.unref(&audit()), sent()),
        case("gone, and only the journal knows", ObservedBuilder::base(), sent()),
        case("unknown", ObservedBuilder::base(), nothing()),
    ]));
}

/// With older metadata: what it showed, how far back it was read, and what could not be read.
#[test]
fn older_metadata() {
    let later = ObservedBuilder::published().other(X, Some(K)).other(M, Some(X)).main(M).unref(&published());
    let now = [B, S, K, X].iter().fold(later, |table, gone| table.forget(*gone)).with(|table| {
        table.snapshot_log = vec![(9_000, M)];
    });
    let file = |number: u8| format!("s3://lake/shop/flights/metadata/0000{number}-x.metadata.json");
    let mut text = Vec::new();
    for (face, older, gap, ended) in [
        ("published", vec![ObservedBuilder::published().other(X, Some(K)).main(X)], false, Ended::Decided),
        ("closed", vec![ObservedBuilder::fenced()], false, Ended::Decided),
        (
            "nothing, to before it was begun",
            vec![ObservedBuilder::sealed(), ObservedBuilder::base()],
            false,
            Ended::Begun,
        ),
        ("nothing, and a file is missing", vec![ObservedBuilder::sealed()], true, Ended::Log),
        ("no file is left", vec![], true, Ended::Log),
        ("no file is named", vec![], false, Ended::Log),
        ("as many as were to be read", vec![ObservedBuilder::sealed()], false, Ended::Files),
    ] {
        let mut past = Past::new(id(), &now.0);
        for (number, state) in (4..=6).rev().zip(&older) {
            let _before = past.add(&file(number), 1_000 * i64::from(number), &state.0);
        }
        if gap {
            past.gap(&file(2), 2_000, "it is not there".to_owned());
        }
        past.end(ended);
        let view = TableView::Present(Box::new(now.0.clone()));
        let finding = reconcile_with(&no_journal(), &view, FilesLive::NotKnown, Some(&past));
        text.push(format!("# {face}\n{}", told(finding.clone(), false)));
        if face == "nothing, and a file is missing" {
            let report = ReconcileReport {
                looked_back: Some(past.looked_back()),
                ..report(&table(), finding, false, false, vec![])
            };
            insta::assert_snapshot!("older_metadata_json", serde_json::to_string_pretty(&report).unwrap());
        }
    }
    insta::assert_snapshot!(text.join("\n"));
}

/// Whoever may do nothing is told so, and whoever may do something is told how; whoever escalates is told what not to do.
#[test]
fn every_row_says_what_to_do() {
    let visibility = Visibility::RolledBack;
    for state in [
        State::Published { snapshot: K, sealed: true, visibility },
        State::Closed,
        State::Consumed,
        State::Gone,
        State::Regressed { remembered: 2, found: 1 },
        State::Unknown,
    ] {
        let finding = Finding { publication: id(), state, proof: vec![], abandon: None };
        assert!(!advise(&table(), &finding).may.is_empty(), "{finding:?}");
    }
}
