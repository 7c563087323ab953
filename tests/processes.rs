//! Several processes at once, on one warehouse: what two do at the same time, one after the other could have done.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use command::{Place, Ran, Running, TABLE};

const BEFORE: [i64; 5] = [1, 2, 3, 4, 5];

/// Runs lines at once; what each left, in their order.
fn at_once(place: &Place, lines: &[Vec<&str>]) -> Vec<Ran> {
    // All are started before any is waited for; what is left running when a test fails is killed and reaped.
    let running: Vec<_> = lines.iter().map(|line| Running::start(&mut place.command(line))).collect();
    running.into_iter().map(Running::ran).collect()
}

/// How many ended with this code.
fn count(ran: &[Ran], code: i32) -> usize {
    ran.iter().filter(|ran| ran.code == code).count()
}

/// How often main was moved to each snapshot that it ever pointed at.
fn moves_of_main(place: &Place) -> Vec<i64> {
    let metadata: serde_json::Value = serde_json::from_slice(&std::fs::read(place.metadata_file()).unwrap()).unwrap();
    let log = metadata["snapshot-log"].as_array().unwrap();
    log.iter().map(|entry| entry["snapshot-id"].as_i64().unwrap()).collect()
}

#[test]
fn identical_publishes() {
    for processes in [2, 8] {
        let place = Place::shop();
        place.orders("more.parquet", 10, &[6, 7]);
        place.sealed("p", "more.parquet");
        let before = moves_of_main(&place).len();
        let ran = at_once(&place, &vec![vec!["publish", TABLE, "p", "--json"]; processes]);
        assert_eq!(count(&ran, 0), processes, "{ran:?}");
        let via = |word: &str| ran.iter().filter(|ran| ran.json()["via"] == word).count();
        assert_eq!(via("direct"), 1, "one of them did it: {ran:?}");
        assert_eq!(via("direct") + via("already-there") + via("reconciled"), processes, "{ran:?}");
        assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(moves_of_main(&place).len(), before + 1, "main moved once");
        let refs = place.seen().refs;
        assert_eq!(refs["published/p"]["snapshot-id"], refs["main"]["snapshot-id"]);
    }
}

/// Both have journaled their intent before either has sent.
#[test]
fn publishes_that_overlap_to_the_last() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.sealed("p", "more.parquet");
    let first = place.paused(&["publish", TABLE, "p", "--json"], "publish:intended");
    let second = place.paused(&["publish", TABLE, "p", "--json"], "publish:intended");
    assert_eq!(second.goes_on().ends(0).json()["via"], "direct");
    assert_eq!(first.goes_on().ends(0).json()["via"], "reconciled");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
}

/// Whichever commit comes first decides, and the other command says so.
#[test]
fn a_publish_and_an_abandon() {
    let publish = ["publish", TABLE, "p", "--json"];
    let abandon = ["abandon", TABLE, "p", "--reason", "no", "--json"];
    let shop = || {
        let place = Place::shop();
        place.orders("more.parquet", 10, &[6, 7]);
        place.sealed("p", "more.parquet");
        place
    };
    let place = shop();
    let late = place.paused(&publish, "publish:intended");
    place.lake(&abandon).ends(0);
    assert_eq!(late.goes_on().ends(13).json()["outcome"], "rejected");
    assert_eq!(place.orders_in_main(), BEFORE, "a request that was on its way when the fence came changes nothing");
    assert_eq!(place.reconciled("p", 14), "closed");

    let place = shop();
    let late = place.paused(&abandon, "fence:intended");
    assert_eq!(place.lake(&publish).ends(0).json()["outcome"], "published");
    assert_eq!(late.goes_on().ends(13).json()["finding"]["state"], "published");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(place.reconciled("p", 0), "published");

    for _ in 0..3 {
        let place = shop();
        let ran = at_once(&place, &[publish.to_vec(), abandon.to_vec()]);
        let codes = (ran[0].code, ran[1].code);
        let published = place.orders_in_main() == [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(
            place.reconciled("p", if published { 0 } else { 14 }),
            if published { "published" } else { "closed" }
        );
        assert_eq!(codes, if published { (0, 13) } else { (13, 0) }, "{ran:?}");
    }
}

#[test]
fn disjoint_days_from_one_base() {
    for processes in [2_usize, 8] {
        let place = Place::shop();
        let ids: Vec<_> = (0..processes).map(|at| format!("day-{at}")).collect();
        for (order, id) in (10..).zip(&ids) {
            place.orders("day.parquet", order, &[order]);
            place.sealed(id, "day.parquet");
        }
        let lines: Vec<_> = ids.iter().map(|id| vec!["publish", TABLE, id, "--json"]).collect();
        let ran = at_once(&place, &lines);
        assert_eq!((count(&ran, 0), count(&ran, 11)), (1, processes - 1), "{ran:?}");
        let winner = ran.iter().position(|ran| ran.code == 0).unwrap();
        let expected: Vec<i64> = BEFORE.into_iter().chain([10 + i64::try_from(winner).unwrap()]).collect();
        assert_eq!(place.orders_in_main(), expected);
        let receipts = place.seen().refs.keys().filter(|name| name.starts_with("published/day-")).count();
        assert_eq!(receipts, 1);
    }
}

#[test]
fn begins_of_one_id() {
    for processes in [2, 8] {
        let place = Place::shop();
        let ran = at_once(&place, &vec![vec!["begin", TABLE, "p", "--json"]; processes]);
        assert_eq!(count(&ran, 0), processes, "the same owner's same request: {ran:?}");
        let reports: Vec<_> = ran.iter().map(Ran::json).collect();
        assert_eq!(reports.iter().filter(|report| report["already-open"] == false).count(), 1, "{reports:?}");
        assert!(reports.iter().all(|report| report["marker"] == reports[0]["marker"]), "{reports:?}");
    }
}

#[test]
fn begins_of_one_id_by_several_owners() {
    let place = Place::shop();
    let owners: Vec<_> = (0..8).map(|at| format!("owner-{at}")).collect();
    let lines: Vec<_> = owners.iter().map(|owner| vec!["begin", TABLE, "p", "--owner", owner]).collect();
    let ran = at_once(&place, &lines);
    assert_eq!((count(&ran, 0), count(&ran, 13)), (1, 7), "{ran:?}");
    let winner = &owners[ran.iter().position(|ran| ran.code == 0).unwrap()];
    assert!(ran.iter().filter(|ran| ran.code == 13).all(|ran| ran.err.contains(winner)), "{ran:?}");
}

/// One works, the other is told so, and what the first staged is whole.
#[test]
fn two_commands_on_one_candidate() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.orders("others.parquet", 10, &[8, 9]);
    place.lake(&["begin", TABLE, "p"]).ends(0);
    let first = place.paused(&["stage", TABLE, "p", "more.parquet", "--append"], "stage:intended");
    let before = place.seen();
    for line in [
        &["stage", TABLE, "p", "others.parquet", "--append"][..],
        &["validate", TABLE, "p"],
        &["abandon", TABLE, "p", "--reason", "mine"],
    ] {
        place.lake(line).complains(13, &["process", "tester", "p", "wait"]);
    }
    assert_eq!(place.seen(), before);
    let _staged = first.goes_on().ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn stages_of_one_candidate() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.lake(&["begin", TABLE, "p", "--scope", "ordered_at >= '2013-08-10T00:00:00Z'"]).ends(0);
    let ran = at_once(&place, &vec![vec!["stage", TABLE, "p", "more.parquet", "--replace"]; 8]);
    assert!(count(&ran, 0) >= 1 && count(&ran, 0) + count(&ran, 13) == 8, "{ran:?}");
    place.lake(&["validate", TABLE, "p"]).ends(0);
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7], "each order once");
}

/// No commit of the catalog is lost, however many write at once.
#[test]
fn the_catalog_under_contention() {
    let place = Place::shop();
    let ids: Vec<_> = (0..8).map(|at| format!("id-{at}")).collect();
    let tables: Vec<_> = (0..4).map(|at| format!("more.table_{at}")).collect();
    let begins = ids.iter().map(|id| vec!["begin", TABLE, id]);
    let creates = tables.iter().map(|table| vec!["create", table, "--like", "orders.parquet"]);
    let ran = at_once(&place, &begins.chain(creates).collect::<Vec<_>>());
    assert_eq!(count(&ran, 0), 12, "{ran:?}");
    let refs = place.seen().refs;
    assert!(ids.iter().all(|id| refs.contains_key(&format!("audit/{id}"))), "{refs:?}");
    let status = place.lake(&["status", "--json"]).ends(0).json();
    assert!(tables.iter().all(|table| status["tables"].to_string().contains(table)), "{status}");
}

/// Two make one warehouse, and one table in it.
#[test]
fn creates_of_one_table() {
    for processes in [2, 8] {
        let place = Place::new();
        place.orders("orders.parquet", 9, &[1]);
        let ran = at_once(&place, &vec![vec!["create", TABLE, "--like", "orders.parquet"]; processes]);
        assert_eq!((count(&ran, 0), count(&ran, 13)), (1, processes - 1), "{ran:?}");
        assert!(ran.iter().filter(|ran| ran.code == 13).all(|ran| ran.err.contains("exists already")), "{ran:?}");
        place.lake(&["begin", TABLE, "p"]).ends(0);
    }
}
