//! What Spark, Trino, DuckDB and PyIceberg see of a candidate: nothing, then all of it.

use integration::beds::{SERVICES, Service};
use integration::lake::{Lake, Seen};
use integration::services::{At, shared_trino};
use integration::story::{DAY, HISTORY, NINTH, assert_published, text};

/// A branch, a tag or a snapshot, as Spark and Trino read it.
fn both_see(lake: &Lake, at: At<'_>) -> Seen {
    let seen = lake.at(at);
    assert_eq!(shared_trino().unwrap().rows(&lake.full(), DAY, at).unwrap(), seen.days, "Trino, {at:?}");
    seen
}

fn only_what_is_published(service: Service) {
    let lake = Lake::with_history(service, "reading", 2, "");
    let before = lake.everyone_sees();
    assert_eq!(before.days.rows, HISTORY);
    let base = lake.head("main");

    lake.begin_and_insert("day-09", "2013-08-09");
    assert_eq!(lake.everyone_sees(), before, "an open candidate is visible");
    let sealed = lake.report(&["validate", "day-09"], 0);
    assert_eq!(lake.everyone_sees(), before, "a sealed candidate is visible");
    let seal = text(&sealed, "seal");
    // Whoever names it can read it: the branch and the seal show what will be published.
    let candidate = both_see(&lake, At::Ref("audit/day-09"));
    assert_eq!(both_see(&lake, At::Snapshot(seal)), candidate);
    assert_eq!((candidate.days.rows, candidate.days.of("2013-08-09")), (HISTORY + NINTH, NINTH));

    lake.report(&["publish", "day-09"], 0);
    assert_eq!(lake.everyone_sees(), candidate, "what is published is not what was sealed");
    assert_eq!(lake.head("main"), seal);
    assert_published(&lake.seen(), "day-09");
    // By the receipt for ever; by the tombstone what was there before.
    assert_eq!(both_see(&lake, At::Ref("published/day-09")), candidate);
    assert_eq!(both_see(&lake, At::Ref("audit/day-09")), before);
    assert_eq!(both_see(&lake, At::Snapshot(&base)), before);
}

#[test]
fn readers_see_only_what_is_published() {
    for service in SERVICES {
        only_what_is_published(service);
    }
}

/// The first rows of a table: there is no main to read before.
#[test]
fn the_first_publication_of_a_table_is_read_by_everyone() {
    for service in SERVICES {
        let lake = Lake::empty(service, "first", 2);
        lake.publish_day("day-09", "2013-08-09");
        assert_eq!(lake.everyone_sees().days.rows, NINTH);
        assert_published(&lake.seen(), "day-09");
    }
}
