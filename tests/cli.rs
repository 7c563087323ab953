//! The command as a user meets it: options, exit codes, text and JSON. What the verbs decide is tested elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::process::Stdio;

use command::{Place, Ran};
use serde_json::Value;

#[test]
fn wrong_use_is_2_and_help_is_0() {
    let place = Place::new();
    for line in [
        &["nonsense"][..],
        &["begin", "orders", "first"],
        &["begin", "shop.orders", "a/b"],
        &["begin", "shop.orders", "a~2"],
        &["stage", "shop.orders", "first", "f.csv"],
        &["stage", "shop.orders", "first", "--append"],
        &["abandon", "shop.orders", "first"],
        &["abandon", "shop.orders", "first", "--reason", " "],
        &["status", "--memory", "lots"],
        &["status", "-q", "-v"],
        &["create", "shop.orders", "--like", "f.csv", "--format-version", "4"],
    ] {
        place.run(line).complains(2, &[]);
        let mut as_json = line.to_vec();
        as_json.insert(0, "--json");
        let ran = place.run(&as_json).ends(2);
        assert_eq!(ran.json()["error"]["code"], 2, "{line:?}");
        assert_eq!(ran.err, "", "{line:?}");
    }
    place.run(&[]).ends(2);
    place.run(&["--help"]).ends(0).says(&["publish", "Exit codes", "calve demo", "--catalog prod"]);
    place.run(&["--version"]).ends(0).says(&[env!("CARGO_PKG_VERSION")]);
    for verb in [
        "demo",
        "create",
        "begin",
        "run",
        "stage",
        "validate",
        "publish",
        "reconcile",
        "recover",
        "abandon",
        "status",
        "log",
        "review",
        "probe",
        "doctor",
    ] {
        place.run(&[verb, "--help"]).ends(0).says(&["Example", &format!("calve {verb}")]);
    }
}

#[test]
fn verbs_of_later_versions_are_unknown() {
    let place = Place::new();
    for verb in ["rebase", "approve", "clean", "verify", "stale", "release", "serve"] {
        place.run(&[verb]).complains(2, &["unrecognized subcommand"]);
    }
}

#[test]
fn a_warehouse_has_to_be_named() {
    let place = Place::new();
    place.run(&["status"]).complains(2, &["--warehouse DIR", "CALVE_WAREHOUSE", "calve.toml", "calve demo"]);
    place.lake(&["status"]).complains(2, &["lake", "calve create"]);
    assert!(!place.path().join("lake").exists(), "only create makes a warehouse");
    place.write("file", "");
    place.run(&["status", "--warehouse", "file"]).complains(2, &["is a file"]);
    place.run(&["create", "a.b", "--like", "x.csv", "--warehouse", "file"]).complains(2, &["is a file"]);
}

#[test]
fn settings_files_are_read_strictly() {
    let place = Place::new();
    let file = place.write("calve.toml", "warehous = \"lake\"\n");
    let named = file.canonicalize().unwrap().display().to_string();
    let named = named.strip_prefix("/private").unwrap_or(&named).to_owned();
    place.run(&["status"]).complains(2, &["calve.toml", "`warehous`", &named]);
    place.write("calve.toml", "[catalog.prod]\nurl = \"http://localhost\"\n");
    place.run(&["status"]).complains(2, &["catalog prod", "`uri`", "missing", &named]);
}

#[test]
fn catalogs_are_chosen_by_name() {
    let place = Place::new();
    place.write("calve.toml", "[catalog.prod]\nuri = \"hunter2\"\n[catalog.old]\ntype = \"hive\"\n");
    place.run(&["status"]).complains(2, &["several are configured", "old, prod", "--catalog NAME", "CALVE_CATALOG"]);
    let no_secret = |ran: Ran| assert!(!ran.err.contains("hunter2"), "{ran:?}");
    no_secret(place.run(&["status", "--catalog", "prod"]).complains(2, &["catalog prod", "`uri`", "https://"]));
    no_secret(place.run(&["status", "--catalog", "old"]).complains(2, &["catalog old", "`type`", "hive", "REST"]));
    no_secret(place.run(&["status", "--catalog", "new"]).complains(2, &["catalog new", "old, prod", "calve.toml"]));
    let two = ["two catalogs are named", "lake by CALVE_WAREHOUSE", "prod by --catalog"];
    place.lake(&["status", "--catalog", "prod"]).complains(2, &two);
    place.write(".pyiceberg.yaml", "catalog:\n  python:\n    type: sql\n    uri: sqlite:///hunter2\n");
    no_secret(
        place.run(&["status", "--catalog", "python"]).complains(2, &["catalog python", "\"sql\"", "--warehouse"]),
    );
    place.write(".pyiceberg.yaml", "catalog:\n  python: \"hunter2\n");
    no_secret(place.run(&["status", "--catalog", "prod"]).complains(2, &[".pyiceberg.yaml", "YAML"]));
    place.lake(&["status"]).complains(2, &["lake", "calve create"]);
}

#[test]
fn completion_needs_no_warehouse() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.run(&["completion", shell]).ends(0).says(&["calve", "publish"]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let mut child = place.command(&["completion", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A warehouse `lake` with the table `shop.orders` and its contract.
fn shop() -> Place {
    let place = Place::new();
    place.orders("orders.parquet", 9, &[1, 2, 3, 4, 5]);
    place
        .lake(&["create", "shop.orders", "--like", "orders.parquet", "--partition-by", "day(ordered_at)"])
        .ends(0)
        .says(&["created shop.orders", "order_id", "day(ordered_at)", "next: calve contract init"]);
    place
        .lake(&["contract", "init", "shop.orders", "--key", "order_id"])
        .ends(0)
        .says(&["wrote contracts/shop.orders.toml", "keys"]);
    place
}

#[test]
fn five_minutes() {
    let place = shop();
    place.lake(&["begin", "shop.orders", "first"]).ends(0).says(&[
        "whole table",
        "audit/first",
        "next: calve stage shop.orders first",
    ]);
    place
        .lake(&["stage", "shop.orders", "first", "orders.parquet", "--append"])
        .ends(0)
        .says(&["5 added", "next: calve validate shop.orders first"]);
    place.lake(&["publish", "shop.orders", "first"]).ends(10);
    place.lake(&["validate", "shop.orders", "first", "--dry-run"]).ends(0).says(&["PASS", "nothing was sealed"]);
    place.lake(&["validate", "shop.orders", "first"]).ends(0).says(&[
        "PASS",
        "SEALED K=",
        "next: calve publish shop.orders first",
    ]);
    place.lake(&["status"]).ends(0).says(&["shop.orders", "first  SEALED", "next: calve publish shop.orders first"]);
    place.lake(&["publish", "shop.orders", "first"]).ends(0).says(&[
        "PUBLISHED",
        "main=",
        "read it:",
        "PyIceberg",
        "DuckDB",
    ]);
    place.lake(&["publish", "shop.orders", "first"]).ends(0).says(&["already there"]);
    place.lake(&["reconcile", "shop.orders", "first"]).ends(0).says(&["PUBLISHED", "published/first is a tag"]);
    place.lake(&["reconcile", "shop.orders"]).ends(0).says(&["first  PUBLISHED"]);
    place.lake(&["log", "shop.orders"]).ends(0).says(&["first", "visible", "sealed"]);
    let review = place.lake(&["review", "shop.orders", "first"]).ends(0);
    assert!((1..=9).all(|number| review.out.contains(&format!("\n{number}. "))), "{review:?}");
    place.lake(&["abandon", "shop.orders", "first", "--reason", "too late"]).complains(13, &["published"]);
}

#[test]
fn one_day_is_replaced() {
    let place = shop();
    let publish = |id: &str, scope: &[&str], file: &str, mode: &str| {
        place.lake(&[&["begin", "shop.orders", id], scope].concat()).ends(0);
        let staged = place.lake(&["stage", "shop.orders", id, file, mode]).ends(0);
        place.lake(&["validate", "shop.orders", id]).ends(0);
        place.lake(&["publish", "shop.orders", id]).ends(0).says(&["PUBLISHED"]);
        staged
    };
    publish("first", &[], "orders.parquet", "--append");
    // The five orders are of one day, from midnight on: three of them come again, changed, and two are gone.
    place.orders("again.parquet", 9, &[1, 2, 3]);
    let scope = ["--scope", "ordered_at >= '2013-08-09T00:00:00Z' AND ordered_at < '2013-08-10T00:00:00Z'"];
    publish("again", &scope, "again.parquet", "--replace").says(&["3 added, 5 removed"]);
    place.lake(&["log", "shop.orders"]).ends(0).says(&["again", "visible", "first", "visible below newer snapshots"]);
}

#[test]
fn every_outcome_is_one_object_with_its_exit_code() {
    let place = shop();
    let json = |line: &[&str], code: i32| {
        let mut line = line.to_vec();
        line.push("--json");
        let ran = place.lake(&line).ends(code);
        assert_eq!(ran.err, "", "{line:?}");
        ran.json()
    };
    for id in ["one", "two", "three"] {
        let begun = json(&["begin", "shop.orders", id], 0);
        assert_eq!(begun["branch"], format!("audit/{id}"));
        assert_eq!(begun["already-open"], false);
        let staged = json(&["stage", "shop.orders", id, "orders.parquet", "--append"], 0);
        assert_eq!(staged["rows-added"], 5);
    }
    for id in ["one", "two"] {
        let validated = json(&["validate", "shop.orders", id], 0);
        assert_eq!(validated["passed"], true);
        assert!(validated["seal"].is_string(), "64-bit ids are strings: {validated}");
    }
    let published = json(&["publish", "shop.orders", "one"], 0);
    assert_eq!((&published["outcome"], &published["via"]), (&"published".into(), &"direct".into()));
    let conflict = json(&["publish", "shop.orders", "two"], 11);
    assert_eq!(conflict["outcome"], "conflict");
    assert_eq!(json(&["reconcile", "shop.orders", "two"], 11)["finding"]["state"], "moved");
    assert_eq!(json(&["reconcile", "shop.orders", "three"], 14)["finding"]["state"], "open");
    assert_eq!(json(&["publish", "shop.orders", "three"], 10)["outcome"], "rejected");
    assert_eq!(json(&["abandon", "shop.orders", "three", "--reason", "enough"], 0)["finding"]["state"], "closed");
    assert_eq!(json(&["publish", "shop.orders", "three"], 13)["outcome"], "rejected");
    assert_eq!(json(&["publish", "shop.orders", "nobody"], 2)["outcome"], "rejected");
    let status = json(&["status", "shop.orders"], 0);
    assert_eq!(status["tables"][0]["publications"].as_array().unwrap().len(), 3);
    assert_eq!(json(&["log", "shop.orders"], 0)["entries"].as_array().unwrap().len(), 1);
    assert_eq!(json(&["review", "shop.orders", "one"], 0)["answers"].as_array().unwrap().len(), 9);
    let checks = &json(&["contract", "check", "shop.orders"], 0)["checks"];
    assert!(checks.to_string().contains("keys"), "{checks}");
    assert_eq!(json(&["status", "shop.nothing"], 13)["error"]["code"], 13);
    assert_eq!(json(&["stage", "shop.orders", "two", "no-such.csv", "--append"], 2)["error"]["code"], 2);
}

#[test]
fn a_check_that_fails_is_10_and_names_the_check() {
    let place = shop();
    place.orders("twice.parquet", 9, &[6, 7, 7]);
    place.lake(&["begin", "shop.orders", "bad"]).ends(0);
    place.lake(&["stage", "shop.orders", "bad", "twice.parquet", "--append"]).ends(0);
    place.lake(&["validate", "shop.orders", "bad"]).ends(10).says(&[
        "FAIL",
        "stays open",
        "next: calve stage shop.orders bad",
    ]);
    place.lake(&["publish", "shop.orders", "bad"]).ends(10);
}

#[test]
fn contracts_are_found_here_before_the_warehouse() {
    let place = shop();
    let here = place.path().join("contracts/shop.orders.toml");
    let text = std::fs::read_to_string(&here).unwrap();
    place.lake(&["contract", "init", "shop.orders"]).complains(2, &["exists", "--force"]);
    place.lake(&["contract", "init", "shop.orders", "--key", "no_such"]).complains(2, &["exists"]);
    place
        .lake(&["contract", "init", "shop.orders", "--key", "no_such", "--force"])
        .complains(2, &["no_such", "order_id"]);
    assert_eq!(std::fs::read_to_string(&here).unwrap(), text, "a refused init changes nothing");
    place.write("lake/contracts/shop.orders.toml", &text);
    place.lake(&["contract", "check", "shop.orders"]).ends(0).says(&["contracts/shop.orders.toml\n"]);
    std::fs::remove_file(&here).unwrap();
    place.lake(&["contract", "check", "shop.orders"]).ends(0).says(&["lake/contracts/shop.orders.toml\n"]);
    std::fs::remove_file(place.path().join("lake/contracts/shop.orders.toml")).unwrap();
    place.lake(&["publish", "shop.orders", "x"]).complains(2, &["no contract", "calve contract init shop.orders"]);
    place.lake(&["publish", "shop.orders", "x", "--contract", "no.toml"]).complains(2, &["no.toml"]);
    place.write("bad.toml", "version = 1\nnonsense = 2\n");
    place.lake(&["validate", "shop.orders", "x", "--contract", "bad.toml"]).complains(2, &["bad.toml", "nonsense"]);
}

#[test]
fn another_owner_is_refused() {
    let place = shop();
    place.lake(&["begin", "shop.orders", "mine", "--owner", "me"]).ends(0).says(&["owner   me"]);
    place.lake(&["begin", "shop.orders", "mine", "--owner", "me"]).ends(0).says(&["it was open already"]);
    place.lake(&["begin", "shop.orders", "mine", "--owner", "you"]).complains(13, &["me"]);
}

/// Names that Avro does not take, in every format version: manifests carry others, and columns and folders theirs.
#[test]
fn partition_fields_may_have_any_name() {
    for version in ["1", "2", "3"] {
        let place = Place::new();
        place.write(
            "first.csv",
            "id,order-day,1st,städt\n1,2013-08-08,a,Köln\n2,2013-08-09,b,Bonn\n3,2013-08-09,b,Bonn\n",
        );
        place.write("again.csv", "id,order-day,1st,städt\n2,2013-08-10,c,Ulm\n");
        let (by, table) = ("day(order-day), 1st, städt", "shop.odd");
        place
            .lake(&["create", table, "--like", "first.csv", "--partition-by", by, "--format-version", version])
            .ends(0);
        place.lake(&["contract", "init", table, "--key", "id"]).ends(0).says(&["calve validate shop.odd ID"]);
        place.lake(&["begin", table, "first"]).ends(0);
        place.lake(&["stage", table, "first", "first.csv", "--append"]).ends(0);
        place.lake(&["validate", table, "first"]).ends(0);
        place.lake(&["publish", table, "first"]).ends(0);
        // Only one of two rows of a file goes, so that a manifest is written anew.
        place.lake(&["begin", table, "again", "--scope", "id = 2"]).ends(0);
        let staged = place.lake(&["stage", table, "again", "again.csv", "--replace", "--json"]).ends(0).json();
        assert_eq!((&staged["rows-removed"], &staged["rows-carried"]), (&1.into(), &1.into()), "{version}: {staged}");
        place.lake(&["validate", table, "again"]).ends(0);
        place.lake(&["publish", table, "again"]).ends(0);
        place.lake(&["begin", table, "third", "--scope", "\"order-day\" = '2013-08-08'"]).ends(0);
        let staged = place.lake(&["stage", table, "third", "again.csv", "--replace"]);
        staged.complains(2, &["row 1 is not in the scope \"order-day\" = '2013-08-08': it is outside"]);
    }
}

/// Of thousands of terms the beginning is enough for a person; JSON has all of it.
#[test]
fn a_long_scope_is_cut_for_people() {
    let place = shop();
    let scope = (0..900).map(|id| format!("order_id = {id}")).collect::<Vec<_>>().join(" OR ");
    let said = place.lake(&["begin", "shop.orders", "many", "--scope", &scope]).ends(0).says(&["order_id = 3", "…"]);
    assert!(said.out.lines().all(|line| line.chars().count() < 250), "{}", said.out);
    let again = place.lake(&["begin", "shop.orders", "many", "--scope", &scope, "--json"]).ends(0).json();
    assert_eq!(again["scope"], scope.as_str());
    // Another journal knows the scope by its canonical form alone, which is not shown to people.
    place
        .lake(&["begin", "shop.orders", "day", "--scope", "order_id = 7 AND ordered_at >= '2013-08-09T00:00:00Z'"])
        .ends(0);
    place
        .lake(&["status", "shop.orders", "day", "--journal", "elsewhere"])
        .ends(0)
        .says(&["scope order_id = 7 AND ordered_at >= '2013-08-09T00:00:00.000000Z'"]);
    place.lake(&["probe", "--namespace", "a..b"]).complains(2, &["namespace \"a..b\"", "between the dots"]);
}

#[test]
fn demo_tells_its_story() {
    let place = Place::new();
    let ran = place.run(&["demo", "--dir", "demo"]).ends(0).says(&[
        "keys FAILED",
        "quarantined",
        "4 checks passed, sealed K=",
        "reply lost → table read → PUBLISHED (reconciled)",
        "(exit 12)",
        "Next: export CALVE_WAREHOUSE=demo",
    ]);
    let (before, after) = (ran.out.find("no 9 August").unwrap(), ran.out.find("9 August visible").unwrap());
    assert!(before < after, "{}", ran.out);
    assert_eq!(ran.err, "");
    let warehouse = |line: &[&str]| Ran::of(&place.command(line).env("CALVE_WAREHOUSE", "demo").output().unwrap());
    warehouse(&["status"]).ends(0).says(&["late-09-fixed  PUBLISHED", "late-10  CONFLICT", "late-09  CLOSED"]);
    warehouse(&["review", "demo.flights", "late-09-fixed"]).ends(0).says(&["9. "]);
    warehouse(&["publish", "demo.flights", "late-10"]).ends(12);
    place.run(&["demo", "--dir", "demo"]).complains(2, &["not empty"]);
}

#[test]
fn demo_as_json_is_one_object_a_step() {
    let place = Place::new();
    let ran = place.run(&["demo", "--dir", "demo", "--json"]).ends(0);
    let steps: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = steps.last().unwrap();
    assert_eq!((&last["step"], &last["table"]), (&"done".into(), &"demo.flights".into()));
    let endings: Vec<_> = last["publications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ending| (ending["publication"].as_str().unwrap(), ending["outcome"].as_str().unwrap()))
        .collect();
    let told =
        [("history", "published"), ("late-09", "quarantined"), ("late-09-fixed", "published"), ("late-10", "conflict")];
    assert_eq!(endings, told);
    // What readers see changes only where something was published.
    for step in &steps[..steps.len() - 1] {
        let changed = step["before"] != step["after"];
        assert_eq!(changed, ["history", "publish"].contains(&step["step"].as_str().unwrap()), "{step}");
    }
    assert_eq!(last["main"]["2013-08-09"], 999);
    assert_eq!(last["main"].get("2013-08-10"), None);
}

#[test]
fn probe_finds_the_embedded_catalog_safe_and_leaves_nothing() {
    let place = shop();
    let report = place.lake(&["probe", "--namespace", "shop", "--json"]).ends(0).json();
    assert_eq!(report["verdict"], "safe", "{report}");
    for guarantee in report["guarantees"].as_array().unwrap() {
        let needed = guarantee["needed"].as_bool().unwrap();
        assert!(!needed || guarantee["seen"] == "holds", "{guarantee}");
        assert!(!needed || !guarantee["request"].as_str().unwrap().is_empty(), "{guarantee}");
    }
    let status = place.lake(&["status", "--json"]).ends(0).json();
    assert_eq!(status["tables"].as_array().unwrap().len(), 1, "{status}");
    place.lake(&["probe", "--namespace", "new.deep"]).ends(0).says(&[
        "SAFE TO PUBLISH",
        "refused with 409",
        "not tested",
    ]);
    for bad in ["", "a..b", "a/b"] {
        place.lake(&["probe", "--namespace", bad]).complains(2, &["malformed"]);
    }
    place.lake(&["probe"]).complains(2, &["--namespace"]);
}

#[test]
fn doctor_changes_nothing_and_ends_with_0() {
    let place = shop();
    let before = place.seen();
    let report = place.lake(&["doctor", "--json"]).ends(0).json();
    assert_eq!(report["tables"][0], "shop.orders");
    assert_eq!(report["findings"][0]["rule"], "snapshot-age", "{report}");
    place.lake(&["doctor", "shop.orders"]).ends(0).says(&["looked at shop.orders", "by default", "ALTER TABLE"]);
    place.lake(&["doctor", "--journal", "lake/shop/orders/j"]).ends(0).says(&["RISK", "inside the table"]);
    place.lake(&["doctor", "shop.other"]).complains(13, &["shop.other", "does not exist"]);
    assert_eq!(place.seen(), before);
}
