//! What is wrong with what a command is given, or with what it finds: the exit code, a message that names the object, the
//! reason and the remedy, and the table as it was.
//!
//! No test needs privileges. Where they run as root, whom file modes do not stop, the test of a read-only warehouse runs
//! the command as another user.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{Int64Array, StringArray};
use command::{Place, Ran, TABLE};
use serde_json::Value;

/// The line ends with this code and these words, as text and as JSON, and the table is as it was.
#[track_caller]
fn refused(place: &Place, line: &[&str], code: i32, words: &[&str]) {
    let before = place.seen();
    place.lake(line).complains(code, words);
    let object = place.lake(&[&["--json"], line].concat()).ends(code).json();
    assert_eq!(object["error"]["code"], code, "{object}");
    let message = object["error"]["message"].as_str().unwrap();
    assert!(words.iter().all(|word| message.contains(word)), "{object}");
    assert_eq!(place.seen(), before, "{line:?}");
}

/// A shop, and the open candidate `p` with the scope of 10 August.
fn shop() -> Place {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.lake(&["begin", TABLE, "p", "--scope", "ordered_at >= '2013-08-10T00:00:00Z'"]).ends(0);
    place
}

#[test]
fn unknown_tables() {
    let place = shop();
    for line in [
        &["begin", "shop.order", "q"][..],
        &["stage", "shop.order", "p", "more.parquet", "--append"],
        &["reconcile", "shop.order", "p"],
        &["reconcile", "shop.order"],
        &["abandon", "shop.order", "p", "--reason", "x"],
        &["status", "shop.order"],
        &["log", "shop.order"],
        &["contract", "init", "shop.order"],
    ] {
        refused(&place, line, 13, &["shop.order", "does not exist", TABLE]);
    }
    for line in [&["validate", "shop.order", "p"][..], &["publish", "shop.order", "p"]] {
        // Without a contract nothing is looked up; with one the table is.
        refused(&place, line, 2, &["shop.order", "no contract"]);
        let contract = ["--contract", "contracts/shop.orders.toml"];
        refused(&place, &[line, &contract].concat(), 13, &["shop.order", "does not exist", TABLE]);
    }
    refused(&place, &["create", TABLE, "--like", "more.parquet"], 13, &[TABLE, "exists already"]);
    for bad in ["orders", "", "shop.", ".orders", "shop..orders", "shop/x.orders", "shop.or\nders", "..", "a.../b"] {
        refused(&place, &["status", bad], 2, &["table name", "malformed"]);
    }
}

#[test]
fn ids() {
    let place = shop();
    let long = "x".repeat(101);
    for bad in ["-p", "a b", "a/b", "ä", "a~2", "../p", long.as_str()] {
        refused(&place, &["begin", TABLE, "--", bad], 2, &[]);
    }
    refused(&place, &["begin", TABLE, "first"], 13, &["first", "published", "choose another id"]);
    let scope = ["--scope", "ordered_at >= '2013-08-10T00:00:00Z'"];
    refused(&place, &["begin", TABLE, "p"], 13, &["p is open with another scope", "another id"]);
    let other = [&["begin", TABLE, "p", "--owner", "stranger"], &scope[..]].concat();
    refused(&place, &other, 13, &["owned by tester", "another id"]);
    for verb in ["stage", "validate", "abandon"] {
        let rest: &[&str] = match verb {
            "stage" => &["more.parquet", "--append"],
            "abandon" => &["--reason", "x"],
            _ => &[],
        };
        let code = if verb == "abandon" { 2 } else { 13 };
        refused(&place, &[&[verb, TABLE, "nobody"], rest].concat(), code, &["nobody"]);
    }
}

#[test]
fn scopes() {
    let place = shop();
    for (scope, word) in [
        ("ordered_at >", "scope"),
        ("no_such = 1", "no_such"),
        ("order_id = 'seven'", "order_id"),
        ("order_id", "order_id"),
        ("customer LIKE '%x'", "LIKE"),
        ("order_id = 1; DROP TABLE x", "scope"),
        ("abs(order_id) = 1", "functions"),
        ("order_id = (SELECT 1)", "scope"),
        ("", "scope"),
    ] {
        refused(&place, &["begin", TABLE, "q", "--scope", scope], 2, &[word]);
        refused(&place, &["begin", TABLE, "q", "--reads", scope], 2, &[]);
    }
    assert_eq!(place.lake(&["reconcile", TABLE, "q", "--json"]).code, 2, "nothing of it is remembered");
}

#[test]
fn contracts() {
    let place = shop();
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    let file = "contracts/shop.orders.toml";
    let good = std::fs::read_to_string(place.path().join(file)).unwrap();
    for (text, words) in [
        ("", &["version"][..]),
        ("version = 1\n", &["check"]),
        ("version = 1\ncheck = []\n", &["check"]),
        ("version = 2\n", &["version"]),
        ("version = 1\n[[check]]\nname = \"a\"\nkind = \"magic\"\n", &["magic", "keys", "line"]),
        ("version = 1\n[[check]]\nname = \"a\"\nkind = \"keys\"\n", &["columns"]),
        ("version = 1\n[[check]]\nname = \"a\"\nkind = \"keys\"\ncolumns = [\"order_id\"]\nuniqe = true\n", &["uniqe"]),
        ("version = \n", &[file]),
    ] {
        place.write(file, text);
        let words = [&[file], words].concat();
        refused(&place, &["contract", "check", TABLE], 2, &words);
        refused(&place, &["validate", TABLE, "p"], 2, &words);
        refused(&place, &["publish", TABLE, "p"], 2, &words);
    }
    std::fs::write(place.path().join(file), b"version = 1\n# \xff\n").unwrap();
    refused(&place, &["validate", TABLE, "p"], 2, &[file, "UTF-8"]);
    std::fs::remove_file(place.path().join(file)).unwrap();
    refused(&place, &["validate", TABLE, "p"], 2, &[file, "--contract FILE", "calve contract init"]);
    // A column that the table has not is found when it is looked for: no pass, and nothing sealed.
    place.write(file, &good.replace("order_id", "order_no"));
    let before = place.seen();
    let report = place.lake(&["validate", TABLE, "p"]);
    assert!([2, 10].contains(&report.code), "{report:?}");
    assert!(format!("{report:?}").contains("order_no"), "{report:?}");
    assert_eq!(place.seen(), before);
}

#[test]
fn input_files() {
    let place = shop();
    let column = |name| (name, Arc::new(Int64Array::from(vec![6])) as Arc<_>);
    place.parquet("lacks.parquet", vec![column("order_id")]);
    place.parquet("more-columns.parquet", vec![column("order_id"), column("ordered_at"), column("colour")]);
    let text = |name| (name, Arc::new(StringArray::from(vec!["x"])) as Arc<_>);
    place.parquet("text.parquet", vec![text("order_id"), text("ordered_at"), text("customer")]);
    let header = "order_id,ordered_at,customer\n";
    place.write("text.csv", &format!("{header}6,2013-08-10T00:00:00Z,a\nseven,2013-08-10T00:00:00Z,b\n"));
    place.write("short.csv", &format!("{header}6\n"));
    place.write("header.csv", header);
    place.write("empty.csv", "");
    place.write("empty.parquet", "");
    place.write("torn.parquet", "PAR1 and no more");
    place.write("orders.xlsx", "PK");
    place.orders("outside.parquet", 9, &[8]);
    std::fs::create_dir(place.path().join("folder.csv")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path().join("dangling.csv")).unwrap();
    for (file, words) in [
        ("lacks.parquet", &["column", "ordered_at"][..]),
        ("more-columns.parquet", &["colour"]),
        ("text.parquet", &["order_id", "long"]),
        ("text.csv", &["order_id", "seven", "2"]),
        ("short.csv", &["it cannot be read"]),
        ("header.csv", &["no row"]),
        ("empty.csv", &["no bytes"]),
        ("empty.parquet", &["no bytes"]),
        ("torn.parquet", &["cannot be read"]),
        ("orders.xlsx", &["CSV"]),
        ("folder.csv", &["folder"]),
        ("dangling.csv", &["No such file"]),
        ("no-such.csv", &["No such file"]),
        ("/dev/null", &["regular file"]),
    ] {
        let words = [&[file], words].concat();
        let files = found(&place, "lake/shop", "");
        // A good file before it changes nothing: all are staged, or none.
        for mode in ["--append", "--replace"] {
            refused(&place, &["stage", TABLE, "p", "more.parquet", file, mode], 2, &words);
        }
        assert!(found(&place, "lake/shop", "") == files, "{file}: what was written for it is gone");
    }
    let replace = ["stage", TABLE, "p", "outside.parquet", "--replace"];
    refused(&place, &replace, 2, &["outside.parquet", "scope"]);
    refused(&place, &["create", "shop.new", "--like", "empty.csv"], 2, &["empty.csv", "no bytes"]);
    // The candidate is as usable as before.
    place.lake(&["stage", TABLE, "p", "more.parquet", "--replace"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn input_files_that_change_while_they_are_read() {
    let place = shop();
    let text = |ids: &[i64]| {
        let lines = ids.iter().map(|id| format!("{id},2013-08-10T00:00:00Z,customer\n"));
        format!("order_id,ordered_at,customer\n{}", lines.collect::<String>())
    };
    place.write("second.csv", &text(&[8, 9]));
    let path = place.write("first.csv", &text(&[6, 7]));
    let line = ["stage", TABLE, "p", "first.csv", "second.csv", "--append"];
    let files = found(&place, "lake/shop", "");
    let before = place.seen();
    let changed = |file: &str, change: &dyn Fn(&Path)| {
        let running = place.paused(&line, "reading first.csv");
        change(&place.path().join(file));
        let ran = running.goes_on().ends(1);
        assert!(ran.out.is_empty() && ran.err.contains(&format!("error: {file}")), "{ran:?}");
        assert_eq!(place.seen(), before);
        assert!(found(&place, "lake/shop", "") == files, "{file}: what was written for it is gone");
        ran.err
    };
    let err = changed("second.csv", &|path| std::fs::remove_file(path).unwrap());
    assert!(err.contains("No such file"), "{err}");
    place.write("second.csv", &text(&[8, 9]));
    // Cut at the end of a line, it reads like a whole file.
    let err = changed("first.csv", &|path| std::fs::write(path, text(&[6])).unwrap());
    assert!(err.contains("changed while it was read"), "{err}");
    std::fs::write(&path, text(&[6, 7])).unwrap();
    let err = changed("first.csv", &|path| std::fs::remove_file(path).unwrap());
    assert!(err.contains("while it was read"), "{err}");
    std::fs::write(&path, text(&[6, 7])).unwrap();
    place.lake(&line).ends(0).says(&["4 added"]);
}

/// The files below a folder whose name contains a word, sorted.
fn found(place: &Place, folder: &str, word: &str) -> Vec<PathBuf> {
    let files = place.files(folder).into_iter().filter(|(_, bytes)| bytes.is_some()).map(|(path, _)| path);
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().contains(word)).collect()
}

/// A data file that an audit branch names vanishes before it is checked, and before it is published.
#[test]
fn data_files_that_vanish() {
    let place = shop();
    let old = found(&place, "lake/shop", ".parquet");
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    let new: Vec<_> = found(&place, "lake/shop", ".parquet").into_iter().filter(|path| !old.contains(path)).collect();
    let [file] = new.as_slice() else { panic!("{new:?}") };
    let (aside, name) = (place.path().join("aside"), file.file_name().unwrap().to_str().unwrap());
    std::fs::rename(file, &aside).unwrap();
    refused(&place, &["validate", TABLE, "p"], 1, &[name]);
    std::fs::rename(&aside, file).unwrap();
    place.lake(&["validate", TABLE, "p"]).ends(0);
    std::fs::rename(file, &aside).unwrap();
    let before = place.seen();
    let ran = place.lake(&["publish", TABLE, "p"]);
    assert!([1, 10].contains(&ran.code) && format!("{ran:?}").contains(name), "{ran:?}");
    assert_eq!(place.seen(), before);
    std::fs::rename(&aside, file).unwrap();
    place.lake(&["publish", TABLE, "p"]).ends(0);
}

/// Verbs that read or change the candidate `p`.
const VERBS: [&[&str]; 6] = [
    &["stage", TABLE, "p", "more.parquet", "--append"],
    &["validate", TABLE, "p"],
    &["publish", TABLE, "p"],
    &["reconcile", TABLE, "p"],
    &["abandon", TABLE, "p", "--reason", "x"],
    &["review", TABLE, "p"],
];

/// Bytes in a file's place, or none; the exit code, and words of the message.
type Damage<'a> = (Option<&'a [u8]>, i32, &'a [&'a str]);

#[test]
fn damaged_metadata() {
    let place = shop();
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    let (row, file) = (place.row(), place.metadata_file());
    let good = std::fs::read(&file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let newer = String::from_utf8(good.clone()).unwrap().replacen("\"format-version\":2", "\"format-version\":4", 1);
    let cases: [Damage; 5] = [
        (Some(b""), 1, &["damaged", "backup"]),
        (Some(&good[..good.len() / 2]), 1, &["damaged", "backup"]),
        (Some(b"{}"), 1, &["damaged", "backup"]),
        (None, 1, &["damaged", "not there", "backup"]),
        (Some(newer.as_bytes()), 13, &["version 4", "newer calve"]),
    ];
    for (bytes, code, words) in cases {
        std::fs::remove_file(&file).unwrap();
        bytes.iter().for_each(|bytes| std::fs::write(&file, bytes).unwrap());
        let files = place.files("lake");
        for line in VERBS {
            place.lake(line).complains(code, &[&[name], words].concat());
        }
        assert!(place.files("lake") == files, "{words:?}: nothing was written");
        // Another table is not affected, and the status of all says which one is.
        let status = place.lake(&["status"]);
        assert!(status.out.contains(name) && status.out.contains(TABLE), "{status:?}");
        std::fs::write(&file, &good).unwrap();
    }
    assert_eq!(place.row(), row);
    place.lake(&["publish", TABLE, "p"]).ends(0);
}

#[test]
fn damaged_manifests() {
    let place = shop();
    let old = found(&place, "lake/shop", "-m");
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    let metadata: Value = serde_json::from_slice(&std::fs::read(place.metadata_file()).unwrap()).unwrap();
    let head = place.seen().refs["audit/p"]["snapshot-id"].clone();
    let snapshots = metadata["snapshots"].as_array().unwrap();
    let list = snapshots.iter().find(|snapshot| snapshot["snapshot-id"] == head).unwrap()["manifest-list"].clone();
    let list = PathBuf::from(list.as_str().unwrap().strip_prefix("file://").unwrap().to_owned());
    let manifest = found(&place, "lake/shop", "-m").into_iter().find(|path| !old.contains(path)).unwrap();
    for file in [list, manifest] {
        let good = std::fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        for bytes in [None, Some(&b""[..]), Some(&good[..good.len() / 2]), Some(b"nonsense")] {
            std::fs::remove_file(&file).unwrap();
            bytes.iter().for_each(|bytes| std::fs::write(&file, bytes).unwrap());
            let before = place.seen();
            place.lake(&["validate", TABLE, "p"]).complains(1, &[name]);
            assert_eq!(place.seen(), before, "{name}");
            std::fs::write(&file, &good).unwrap();
        }
    }
    place.lake(&["validate", TABLE, "p"]).ends(0);
    place.lake(&["publish", TABLE, "p"]).ends(0);
}

/// A damaged record stops what has to remember, and not what only reads the table.
#[test]
fn damaged_journal() {
    let place = shop();
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    let records: Vec<_> = found(&place, "lake/journal", ".json")
        .into_iter()
        .filter(|path| path.parent().unwrap().file_name().unwrap() == "p")
        .collect();
    assert!(records.len() > 5, "{records:?}");
    let file = &records[1];
    let good = std::fs::read(file).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    let cases: [Damage; 5] = [
        (Some(b""), 1, &["00000002.json", "damaged"]),
        (Some(&good[..good.len() / 2]), 1, &["00000002.json", "damaged"]),
        (Some(b"{}"), 1, &["00000002.json", "damaged"]),
        (None, 1, &["00000002.json", "missing"]),
        (Some(&good[..good.len() - 2]), 1, &["00000002.json", "damaged"]),
    ];
    for (bytes, code, words) in cases {
        std::fs::remove_file(file).unwrap();
        bytes.iter().for_each(|bytes| std::fs::write(file, bytes).unwrap());
        let before = place.seen();
        for line in VERBS {
            place.lake(line).complains(code, words);
        }
        assert_eq!(place.seen(), before);
        // What the message advises works: the table tells it without this journal.
        place.lake(&["reconcile", TABLE, "p", "--journal", "elsewhere"]).ends(14).says(&["SEALED"]);
        std::fs::write(file, &good).unwrap();
    }
    // A record of a newer calve is read, and nothing is appended to it.
    let newer = text.replacen("\"format\":1", "\"format\":2", 1);
    assert_ne!(newer, text);
    std::fs::write(file, newer).unwrap();
    let before = place.seen();
    for line in [VERBS[0], VERBS[1], VERBS[4]] {
        place.lake(line).complains(13, &["00000002.json", "newer calve"]);
    }
    place.lake(&["publish", TABLE, "p"]).ends(13).says(&["NOT PUBLISHED", "newer calve"]);
    assert_eq!(place.seen(), before);
    std::fs::write(file, &good).unwrap();
    place.lake(&["publish", TABLE, "p"]).ends(0);
}

#[test]
fn damaged_and_newer_warehouses() {
    let place = shop();
    let file = place.path().join("lake/catalog.db");
    let good = std::fs::read(&file).unwrap();
    place.sql("UPDATE calve_meta SET value = '2' WHERE key = 'format'");
    let newer = std::fs::read(&file).unwrap();
    let all = VERBS.iter().copied().chain([&["status"][..], &["create", "shop.new", "--like", "more.parquet"]]);
    let all: Vec<_> = all.collect();
    for line in &all {
        place.lake(line).complains(13, &["catalog.db", "format 2", "newer calve"]);
    }
    assert!(std::fs::read(&file).unwrap() == newer, "a newer warehouse is left alone");
    for bytes in [&b"this is no database, though it is long enough to be taken for one"[..], &good[..good.len() / 2]] {
        std::fs::write(&file, bytes).unwrap();
        for line in &all {
            place.lake(line).complains(1, &["catalog.db"]);
        }
        assert!(std::fs::read(&file).unwrap() == bytes, "a damaged one too");
    }
    std::fs::write(&file, b"").unwrap();
    place.lake(&["status"]).complains(2, &["catalog.db", "not one of calve's"]);
    std::fs::write(&file, &good).unwrap();
    place.lake(&["status"]).ends(0);
}

/// Runs a line as a user whom file modes stop, on a warehouse whose folders may only be read.
fn read_only(place: &Place, line: &[&str]) -> Ran {
    let set = |writable: bool| {
        let mode = if writable { 0o755 } else { 0o555 };
        let folders = place.files("lake").into_iter().filter(|(_, bytes)| bytes.is_none()).map(|(path, _)| path);
        for folder in folders.chain([place.path().join("lake")]) {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let database = place.path().join("lake/catalog.db");
        std::fs::set_permissions(database, std::fs::Permissions::from_mode(mode & 0o666)).unwrap();
    };
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = match is_root {
        false => place.command(line),
        true => {
            // A copy, because the build folder may be one that only root can read.
            let copy = place.path().join("calve");
            if !copy.exists() {
                std::fs::copy(env!("CARGO_BIN_EXE_calve"), &copy).unwrap();
            }
            let mut command = Command::new(copy);
            place.prepare(&mut command);
            use std::os::unix::process::CommandExt as _;
            command.args(line).uid(65_534).gid(65_534);
            command
        }
    };
    set(false);
    let output = command.output();
    set(true);
    Ran::of(&output.unwrap())
}

#[test]
fn read_only_warehouses() {
    let place = shop();
    place.lake(&["stage", TABLE, "p", "more.parquet", "--append"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    let files = place.files("lake");
    let changing = [VERBS[0], VERBS[1], VERBS[2], VERBS[4], &["begin", TABLE, "q"]];
    for line in changing {
        let ran = read_only(&place, line);
        assert_eq!(ran.code, 13, "{line:?}: {ran:?}");
        assert!(ran.err.contains("lake") && ran.err.contains("ermission denied"), "{line:?}: {ran:?}");
    }
    let create = read_only(&place, &["create", "shop.new", "--like", "more.parquet"]);
    create.complains(13, &["lake", "read-only"]);
    // Reading needs no more than reading.
    for (line, code) in [
        (&["status"][..], 0),
        (&["log", TABLE], 0),
        (&["review", TABLE, "p"], 0),
        (&["reconcile", TABLE, "p"], 14),
        (&["validate", TABLE, "p", "--dry-run"], 0),
        (&["contract", "check", TABLE], 0),
    ] {
        let _ran = read_only(&place, line).ends(code);
    }
    assert!(place.files("lake") == files, "nothing was changed");
    place.lake(&["publish", TABLE, "p"]).ends(0);
}
