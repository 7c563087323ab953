//! Which module may use which: decisions know no port, ports know no use case, and nothing knows the command.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Top-level modules, in the order of the map in `lib.rs`, each with those it may use besides itself.
const MAY_USE: [(&str, &[&str]); 18] = [
    // Core: no tokio, no files, no clock.
    ("ids", &[]),
    ("digest", &["ids"]),
    ("observed", &["ids"]),
    ("scope", &["ids"]),
    ("contract", &["digest", "ids"]),
    ("identity", &["digest", "ids"]),
    ("conflict", &["identity", "ids", "scope"]),
    ("evidence", &["contract", "digest", "ids"]),
    ("publish", &["digest", "ids", "observed"]),
    // Ports and their adapters.
    ("clock", &["ids"]),
    ("store", &[]),
    ("catalog", &["clock", "ids", "observed", "publish", "store"]),
    ("journal", &["clock", "digest", "ids", "publish", "store"]),
    // Data.
    (
        "data",
        &[
            "catalog", "clock", "conflict", "contract", "digest", "evidence", "identity", "ids", "observed", "publish",
            "scope",
        ],
    ),
    // Shell. A report is a view of core values, which use cases fill and the command prints.
    ("report", &["conflict", "digest", "evidence", "ids", "publish"]),
    (
        "coordinator",
        &[
            "catalog", "clock", "conflict", "contract", "data", "digest", "evidence", "identity", "ids", "journal",
            "observed", "publish", "report", "scope",
        ],
    ),
    (
        "cli",
        &["catalog", "clock", "contract", "coordinator", "data", "evidence", "ids", "journal", "publish", "report"],
    ),
    (
        "testing",
        &[
            "catalog",
            "clock",
            "conflict",
            "contract",
            "coordinator",
            "data",
            "digest",
            "identity",
            "ids",
            "journal",
            "observed",
            "publish",
            "report",
            "scope",
        ],
    ),
];

/// What core modules may not mention.
const NOT_IN_CORE: [&str; 6] = ["tokio::", "std::fs", "std::net", "reqwest", "SystemTime", "async fn"];

const CORE: [&str; 9] =
    ["ids", "digest", "observed", "scope", "contract", "identity", "conflict", "evidence", "publish"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file that ships, by its top-level module, without its tests.
fn shipped() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let test_only = ["tests.rs", "testkit.rs", "lib.rs", "main.rs"];
    files
        .into_iter()
        .filter(|path| !test_only.iter().any(|name| path.ends_with(name)))
        .map(|path| {
            let first = path.strip_prefix(&root).unwrap().components().next().unwrap().as_os_str().to_owned();
            let module = first.to_string_lossy().trim_end_matches(".rs").to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            // Test modules stand at the end of a file.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (module, path, code)
        })
        .collect()
}

fn used(code: &str) -> BTreeSet<String> {
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut modules = BTreeSet::new();
    for piece in code.split("crate::").skip(1) {
        let name: String = piece.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        if !name.is_empty() {
            modules.insert(name);
        }
    }
    modules
}

#[test]
fn modules_use_only_what_they_may() {
    let allowed: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    let mut wrong = Vec::new();
    let files = shipped();
    assert!(files.len() > 60, "only {} files were found", files.len());
    for (module, path, code) in &files {
        let may = allowed.get(module.as_str()).unwrap_or_else(|| panic!("{module} is not in the table"));
        for other in used(code) {
            if other != *module && !may.contains(&other.as_str()) {
                wrong.push(format!("{} uses {other}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_core_touches_nothing_outside() {
    let mut wrong = Vec::new();
    for (module, path, code) in shipped() {
        if CORE.contains(&module.as_str()) {
            let found = NOT_IN_CORE.iter().filter(|word| code.contains(**word));
            wrong.extend(found.map(|word| format!("{} mentions {word}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn main_is_short_and_only_calls_the_command() {
    let main = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).unwrap();
    assert!(main.lines().count() <= 30);
    assert!(main.contains("calve::cli"));
}
