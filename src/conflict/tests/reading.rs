//! What the job read, and what cannot be read.

use std::collections::BTreeSet;

use iceberg::spec::{Literal, Transform};

use super::kit::*;
use crate::conflict::{Named, Reads, Verdict};
use crate::scope::Scope;

fn day(day: i32) -> Place {
    (0, vec![Some(Literal::int(day))])
}

fn asked(reads: Reads, delta: crate::identity::Change) -> Asked {
    let specs = [spec(0, &[("day", Transform::Identity)])];
    let candidate = change(&[data("c", &day(9), 5)], &[data("f", &day(9), 1)]);
    let mut asked = Asked::new("day = '1970-01-10'", &specs, candidate, delta);
    asked.reads = reads;
    asked
}

/// Scenario 30: a job that repairs the 9th from the 8th.
#[test]
fn what_the_job_read_counts_as_what_it_owns() {
    let declared = || Reads::Declared(Scope::parse("day = '1970-01-09'", &schema()).unwrap().canonical());
    let eighth = || change(&[data("m", &day(8), 5)], &[]);
    let seventh = || change(&[data("m", &day(7), 5)], &[]);
    assert_eq!(asked(declared(), eighth()).rules(), "K2");
    assert_eq!(asked(declared(), seventh()).rules(), "-");
    assert_eq!(asked(Reads::Scope, eighth()).rules(), "-");
    assert_eq!(asked(Reads::Anything, seventh()).rules(), "K2");
    let undeclared = |reads, delta| matches!(asked(reads, delta).verdict(), Verdict::Rebuild { undeclared: true, .. });
    assert!(undeclared(Reads::Anything, seventh()));
    assert!(!undeclared(declared(), eighth()));
    // A declaration would not help where the file that it removes is gone.
    assert!(!undeclared(Reads::Anything, change(&[], &[data("f", &day(9), 1)])));
}

#[test]
fn position_deletes_that_name_many_files_are_read() {
    let names = |paths: &[&str]| Named::Files(paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>());
    let with = |named: Option<Named>, at: Place| {
        let mut asked = asked(Reads::Scope, change(&[positions("m", &at, None)], &[]));
        asked.named.extend(named.map(|named| ("m".to_owned(), named)));
        asked.aimed_at = vec![data("f", &day(9), 1), data("g", &day(9), 1), data("h", &day(10), 1)];
        asked.rules()
    };
    assert_eq!(with(Some(names(&["f", "g"])), day(9)), "K3");
    assert_eq!(with(Some(names(&["g"])), day(9)), "K2");
    assert_eq!(with(Some(names(&["h"])), day(10)), "-");
    assert_eq!(with(Some(names(&["elsewhere"])), day(9)), "K2?");
    assert_eq!(with(None, day(9)), "K3?");
    assert_eq!(with(None, day(10)), "-");
    let unreadable = || Some(Named::Unreadable("it is encrypted".to_owned()));
    assert_eq!(with(unreadable(), day(9)), "K7?");
    assert_eq!(with(unreadable(), day(10)), "-");
}

#[test]
fn deletes_of_the_candidate_that_name_many_files_are_read() {
    let names = |paths: &[&str]| Named::Files(paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>());
    let specs = [spec(0, &[("day", Transform::Identity)])];
    // The scope is another day than the deletes: only what they aim at decides.
    let with = |named: Option<Named>, delta| {
        let mut asked = Asked::new("day = '1970-01-02'", &specs, change(&[positions("d", &day(9), None)], &[]), delta);
        asked.named.extend(named.map(|named| ("d".to_owned(), named)));
        asked.rules()
    };
    let gone = |path: &str| change(&[], &[data(path, &day(9), 1)]);
    assert_eq!(with(Some(names(&["f", "g"])), gone("g")), "K3");
    assert_eq!(with(Some(names(&["f"])), gone("g")), "-");
    assert_eq!(with(None, gone("g")), "K3?");
    assert_eq!(with(Some(names(&["f"])), change(&[equality("m", &day(9))], &[])), "K4?");
    assert_eq!(with(Some(Named::Unreadable("no".to_owned())), change(&[], &[])), "K7?");
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut asked = asked(Reads::Scope, change(&[], &[]));
    asked.unreadable = vec![("manifest-3.avro".to_owned(), "it is encrypted".to_owned())];
    let Verdict::Rebuild { reasons, .. } = asked.verdict() else { panic!("it was read") };
    assert_eq!(reasons[0].file.as_deref(), Some("manifest-3.avro"));
    assert_eq!(rules(&asked.verdict()), "K7?");
    asked.unreadable.clear();
    asked.candidate.added.push(encrypted("secret", &day(9)));
    assert_eq!(asked.rules(), "K7?");
}

#[test]
fn reasons_name_file_partition_and_sequence_number() {
    let Verdict::Rebuild { reasons, .. } = asked(Reads::Scope, change(&[data("m", &day(9), 7)], &[])).verdict() else {
        panic!("it was rewritten")
    };
    let one = &reasons[0];
    assert_eq!(
        (one.file.as_deref(), one.partition.as_deref(), one.sequence_number),
        (Some("m"), Some("part_0=1970-01-10"), Some(7))
    );
    assert!(!one.possible);
}
