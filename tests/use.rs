//! What people expect of any command: help, suggestions, pipes, paths and names of every kind.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use command::{Place, Ran, TABLE};

const VERBS: [&str; 13] = [
    "demo",
    "create",
    "contract",
    "begin",
    "stage",
    "validate",
    "publish",
    "reconcile",
    "abandon",
    "status",
    "log",
    "review",
    "completion",
];

#[test]
fn help_of_every_verb_has_examples() {
    let place = Place::new();
    for verb in VERBS.iter().copied().filter(|verb| *verb != "contract") {
        let help = place.lake(&[verb, "--help"]).ends(0).says(&["Example", &format!("calve {verb}"), "Usage:"]);
        assert_eq!(place.lake(&["help", verb]).ends(0).out, help.out);
        // Every example is a command line that is taken for one: only what it names is missing.
        for example in help.out.lines().filter_map(|line| line.trim().strip_prefix("calve ")) {
            let script = format!("{} {example} </dev/null >/dev/null", env!("CARGO_BIN_EXE_calve"));
            if example.starts_with("demo") || script.contains("~/") {
                continue;
            }
            let mut shell = Command::new("sh");
            place.prepare(&mut shell);
            let ran = Ran::of(&shell.args(["-c", &script]).output().unwrap());
            assert!(!ran.err.contains("Usage:"), "{example}: {ran:?}");
        }
    }
    for verb in ["init", "check"] {
        place.lake(&["contract", verb, "--help"]).ends(0).says(&["Example", &format!("calve contract {verb}")]);
    }
}

#[test]
fn without_a_verb_help_is_shown() {
    let place = Place::new();
    let ran = place.lake(&[]).ends(2);
    assert!(VERBS.iter().all(|verb| ran.err.contains(verb)) && ran.err.contains("calve demo"), "{ran:?}");
    place.lake(&["publsh", TABLE, "p"]).complains(2, &["publsh", "'publish'"]);
    place.lake(&["contract", "chek", TABLE]).complains(2, &["'check'"]);
    place.lake(&["stage", TABLE, "p", "f.csv", "--appen"]).complains(2, &["--append"]);
    place.lake(&["status", "shop.orders", "p", "more"]).complains(2, &["more", "Usage"]);
}

#[test]
fn completions_are_scripts() {
    let place = Place::new();
    let script = place.lake(&["completion", "bash"]).ends(0).out;
    place.write("completion.bash", &script);
    // The script itself, asked what may follow `calve pub`.
    let ask =
        "source completion.bash && COMP_WORDS=(calve pub) COMP_CWORD=1 && _calve calve pub calve; echo ${COMPREPLY[@]}";
    let Ok(output) = Command::new("bash").current_dir(place.path()).args(["-c", ask]).output() else { return };
    assert_eq!(Ran::of(&output).ends(0).out, "publish\n");
}

/// A reader that goes away, and one that cannot take more.
#[test]
fn pipes() {
    let place = Place::shop();
    for line in [&["status"][..], &["log", TABLE], &["status", "--json"], &["--help"], &["stage", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = Ran::of(&place.command(line).stdout(writer).stderr(Stdio::piped()).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line:?}");
    }
    if !Path::new("/dev/full").exists() {
        return;
    }
    let full = |line: &[&str]| {
        let file = std::fs::File::options().write(true).open("/dev/full").unwrap();
        Ran::of(&place.command(line).stdout(file).stderr(Stdio::piped()).output().unwrap())
    };
    full(&["status"]).complains(1, &["standard output", "No space"]);
    // What is done is done, whatever becomes of the report.
    place.orders("more.parquet", 10, &[6]);
    place.sealed("p", "more.parquet");
    let ran = full(&["publish", TABLE, "p"]).ends(0);
    assert!(ran.err.starts_with("note: ") && ran.err.contains("calve status"), "{ran:?}");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn no_colour_without_a_terminal() {
    let place = Place::shop();
    for line in [&["status", "-vvv"][..], &["--help"], &["nonsense"], &["reconcile", TABLE, "first", "-v"]] {
        for variable in ["NO_COLOR", "IGNORED"] {
            let ran = Ran::of(&place.command(line).env(variable, "1").output().unwrap());
            assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{line:?}: {ran:?}");
        }
    }
}

#[test]
fn one_warehouse_by_many_names() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6]);
    let absolute = place.path().join("lake");
    std::os::unix::fs::symlink("lake", place.path().join("link")).unwrap();
    std::fs::create_dir(place.path().join("inner")).unwrap();
    let absolute = absolute.to_str().unwrap();
    let slash = format!("{absolute}/");
    let named = |folder: &str, warehouse: &str, line: &[&str]| {
        let mut command = place.command(line);
        command.current_dir(place.path().join(folder)).env("CALVE_WAREHOUSE", warehouse);
        Ran::of(&command.output().unwrap()).ends(0)
    };
    named("", "lake/", &["begin", TABLE, "p"]);
    let again = named("inner", "../link", &["begin", TABLE, "p", "--json"]);
    assert_eq!(again.json()["already-open"], true);
    named("", "./inner/..//link/", &["stage", TABLE, "p", "more.parquet", "--append"]);
    named("", absolute, &["validate", TABLE, "p"]);
    named("inner", &slash, &["publish", TABLE, "p", "--contract", "../contracts/shop.orders.toml"]);
    named("", "link", &["reconcile", TABLE, "p"]).says(&["PUBLISHED"]);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6]);
    // One journal, with one identity.
    assert_eq!(std::fs::read_dir(place.path().join("lake/journal")).unwrap().count(), 2, "logs, and statements");
}

#[test]
fn paths_that_are_no_text() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6]);
    let odd = |name: &[u8]| place.path().join(OsStr::from_bytes(name));
    std::fs::copy(place.path().join("more.parquet"), odd(b"m\xff.parquet")).unwrap();
    place.lake(&["begin", TABLE, "p"]).ends(0);
    let with = |line: &[&str], path: &Path| Ran::of(&place.command(line).arg(path).output().unwrap());
    with(&["stage", TABLE, "p", "--append"], &odd(b"m\xff.parquet")).ends(0).says(&["1 added"]);
    with(&["stage", TABLE, "p", "--append"], &odd(b"n\xff.parquet"))
        .complains(2, &["n\u{fffd}.parquet", "No such file"]);
    with(&["create", "shop.odd", "--like"], &odd(b"m\xff.parquet")).ends(0);
    with(&["status", "--warehouse"], &odd(b"w\xff")).complains(2, &["w\u{fffd}"]);
    std::fs::create_dir(odd(b"w\xff")).unwrap();
    with(&["create", "a.b", "--like", "more.parquet", "--warehouse"], &odd(b"w\xff"))
        .complains(2, &["not valid UTF-8"]);
    assert_eq!(std::fs::read_dir(odd(b"w\xff")).unwrap().count(), 0);
    with(&["status", "--journal"], &odd(b"j\xff")).complains(2, &["not UTF-8"]);
    with(&["status"], OsStr::from_bytes(b"shop.\xff").as_ref()).complains(2, &["UTF-8"]);
    with(&["validate", TABLE, "p", "--contract"], &odd(b"c\xff.toml"))
        .complains(2, &["c\u{fffd}.toml", "no such file"]);
}

/// Names that shells, paths or SQL could take for something else go through all verbs.
#[test]
fn names_of_tables() {
    let place = Place::new();
    place.orders("orders.parquet", 9, &[1, 2]);
    for name in
        ["shop.or ders", "shop.ünï", "shop.o'r \"d", "a.b.c", "shop.$(touch x)", "shop.*", "-x.-y", "shop.metadata"]
    {
        let line = |verb: &[&str], rest: &[&str]| {
            let ran = place.lake(
                &[verb, rest, &["--", name], if verb == ["create"] || verb[0] == "contract" { &[] } else { &["p"] }]
                    .concat(),
            );
            assert_eq!(ran.code, 0, "{name} {verb:?}: {ran:?}");
            ran
        };
        line(&["create"], &["--like", "orders.parquet"]);
        line(&["contract", "init"], &["--key", "order_id"]);
        line(&["begin"], &[]);
        place.lake(&["stage", "--append", "--", name, "p", "orders.parquet"]).ends(0);
        // What is printed can be pasted.
        let next = line(&["validate"], &[]).out;
        let next = next.lines().find_map(|line| line.trim().strip_prefix("next: calve ")).unwrap().to_owned();
        if !name.starts_with('-') {
            let mut shell = Command::new("sh");
            place.prepare(&mut shell);
            let script = format!("{} {next}", env!("CARGO_BIN_EXE_calve"));
            Ran::of(&shell.args(["-c", &script]).output().unwrap()).ends(0).says(&["PUBLISHED"]);
        }
        line(&["publish"], &[]).says(&["PUBLISHED"]);
        line(&["review"], &[]);
    }
    assert!(!place.path().join("x").exists());
    let long = format!("shop.{}", "x".repeat(300));
    for (bad, word) in [
        ("shop.a%b", "choose another"),
        ("shop.a?b", "choose another"),
        ("shop.a#b", "choose another"),
        ("shop.orders ", "space"),
        ("journal.x", "calve's own folder"),
        (long.as_str(), "too long"),
    ] {
        place.lake(&["create", bad, "--like", "orders.parquet"]).complains(2, &[word]);
    }
    // A wrong file leaves no warehouse behind.
    let elsewhere = ["create", "a.b", "--like", "no-such.csv", "--warehouse", "new"];
    place.lake(&elsewhere).complains(2, &["no-such.csv"]);
    assert!(!place.path().join("new").exists());
}
