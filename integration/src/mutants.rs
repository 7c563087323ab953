//! Planted bugs: a list of small textual changes, each breaking one rule, each of which some test has to catch.
//!
//! A rule whose test still passes when the rule is broken has no test. The work tree is copied beside the cache, built
//! in a target folder of its own, and never changed itself. A mutant whose text is no longer found, or is found twice,
//! is stale and ends the run before it starts: the list is kept up with the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::command::cargo_command;
use crate::process::{Finished, run, tail};
use crate::{HarnessError, Result};

const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// A mutant may well make a test loop for ever: that is caught, too.
const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);

/// One planted bug. The fields are described in `integration/mutants.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Its name.
    pub name: String,
    /// The rule it breaks.
    pub rule: String,
    /// The file it changes, from the root of the tree.
    pub file: String,
    /// What it replaces; occurs exactly once.
    pub find: String,
    /// By what.
    pub replace: String,
    /// `lib`, or the name of an integration test.
    #[serde(default = "lib")]
    pub target: String,
    /// The tests that have to catch it; empty for all.
    #[serde(default)]
    pub filter: String,
}

fn lib() -> String {
    "lib".to_owned()
}

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// A test failed, or did not end.
    Caught,
    /// All tests passed: the rule has no test.
    Survived,
    /// It does not compile, so it says nothing about the tests. With what the compiler said.
    Invalid(String),
}

impl Fate {
    /// The word for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Fate::Caught => "caught",
            Fate::Survived => "SURVIVED",
            Fate::Invalid(_) => "INVALID",
        }
    }
}

/// Reads a list. Names are unique, files are relative paths inside the tree, and every mutant changes something.
pub fn parse(text: &str) -> Result<Vec<Mutant>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        mutant: Vec<Mutant>,
    }
    let file: File = toml::from_str(text).map_err(|error| HarnessError(format!("list of mutants: {error}")))?;
    let mut names = BTreeSet::new();
    for Mutant { name, file, find, replace, .. } in &file.mutant {
        let fault = if !names.insert(name) {
            "has the name of an earlier one"
        } else if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
            "changes a file outside the tree"
        } else if find.is_empty() || find == replace {
            "changes nothing"
        } else {
            continue;
        };
        return Err(HarnessError(format!("mutant {name} {fault}")));
    }
    Ok(file.mutant)
}

/// The text with the bug in it; an error if the mutant is stale.
pub fn apply(mutant: &Mutant, text: &str) -> Result<String> {
    match text.matches(&mutant.find).count() {
        1 => Ok(text.replacen(&mutant.find, &mutant.replace, 1)),
        found => Err(HarnessError(format!(
            "stale mutant {}: its text is found {found} times in {}, and has to be found once",
            mutant.name, mutant.file
        ))),
    }
}

/// A copy of the work tree in which mutants are planted one at a time.
#[derive(Debug)]
pub struct Workshop {
    tree: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// Copies what git knows of the tree at `source`, uncommitted changes included, into `folder`.
    ///
    /// Files that are the same already are not written again, so that cargo need not build them again either.
    pub fn new(source: &Path, folder: &Path) -> Result<Self> {
        let workshop = Self { tree: folder.join("tree"), target: folder.join("target") };
        let mut git = Command::new("git");
        git.arg("-C").arg(source).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = run(&mut git, TEST_LIMIT)?;
        if !listed.status.success() {
            return Err(HarnessError(format!("git ls-files in {}: {}", source.display(), tail(&listed.stderr, 5))));
        }
        let mut wanted = BTreeSet::new();
        for name in listed.stdout.split('\0').filter(|name| !name.is_empty()) {
            let from = source.join(name);
            // Deleted and not yet committed.
            if from.is_file() {
                let bytes = fs::read(&from).map_err(|error| HarnessError::io(from.display(), &error))?;
                write_if_changed(&workshop.tree.join(name), &bytes)?;
                wanted.insert(workshop.tree.join(name));
            }
        }
        remove_others(&workshop.tree, &wanted)?;
        Ok(workshop)
    }

    /// The text of a file of the tree.
    pub fn read(&self, file: &str) -> Result<String> {
        let path = self.tree.join(file);
        fs::read_to_string(&path).map_err(|error| HarnessError::io(path.display(), &error))
    }

    /// The tests that a mutant names, without the mutant: they have to pass, and there has to be at least one, or
    /// catching it would mean nothing. Returns how many there are.
    pub fn baseline(&self, target: &str, filter: &str) -> Result<usize> {
        let program = match self.build(target)? {
            Ok(program) => program,
            Err(shown) => return Err(HarnessError(format!("the tree itself does not build:\n{shown}"))),
        };
        let Finished { status, stdout, .. } = run(&mut self.test(&program, filter), TEST_LIMIT)?;
        if !status.success() {
            let shown = tail(&stdout, 40);
            return Err(HarnessError(format!("without any mutant, {target} {filter:?} fails already:\n{shown}")));
        }
        match passed(&stdout) {
            0 => Err(HarnessError(format!("no test of {target} matches {filter:?}"))),
            number => Ok(number),
        }
    }

    /// Plants a mutant, runs its tests, and takes it out again.
    pub fn try_mutant(&self, mutant: &Mutant) -> Result<Fate> {
        let original = self.read(&mutant.file)?;
        let path = self.tree.join(&mutant.file);
        write_if_changed(&path, apply(mutant, &original)?.as_bytes())?;
        let fate = self.judge(mutant);
        write_if_changed(&path, original.as_bytes())?;
        fate
    }

    fn judge(&self, mutant: &Mutant) -> Result<Fate> {
        let program = match self.build(&mutant.target)? {
            Ok(program) => program,
            Err(shown) => return Ok(Fate::Invalid(shown)),
        };
        match run(&mut self.test(&program, &mutant.filter), TEST_LIMIT) {
            Ok(Finished { status, .. }) if status.success() => Ok(Fate::Survived),
            // A test that no longer ends is killed, and an error.
            Ok(_) | Err(_) => Ok(Fate::Caught),
        }
    }

    /// Builds the tests of a target. Returns the program, or what the compiler said.
    fn build(&self, target: &str) -> Result<std::result::Result<PathBuf, String>> {
        let mut command = cargo_command();
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.args(["test", "--no-run", "--package", "calve", "--message-format=json-render-diagnostics"]);
        match target {
            "lib" => command.arg("--lib"),
            name => command.args(["--test", name]),
        };
        let Finished { status, stdout, stderr } = run(&mut command, BUILD_LIMIT)?;
        if !status.success() {
            return Ok(Err(tail(&stderr, 40)));
        }
        let programs = stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let program = programs
            .filter(|message| message.pointer("/profile/test").is_some_and(|test| test == true))
            .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
        Ok(program.ok_or_else(|| format!("cargo names no test program for {target}")))
    }

    /// The tests are run without cargo between, so that those that hang can be killed.
    fn test(&self, program: &Path, filter: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.tree).env("CARGO_MANIFEST_DIR", &self.tree);
        // Snapshots are compared, never written.
        command.env("INSTA_UPDATE", "no").env("INSTA_WORKSPACE_ROOT", &self.tree).env("CI", "true");
        if !filter.is_empty() {
            command.arg(filter);
        }
        command
    }
}

fn passed(stdout: &str) -> usize {
    let counts = stdout.lines().filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
    counts.filter_map(|number| number.parse::<usize>().ok()).sum()
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
    }
    fs::write(path, bytes).map_err(|error| HarnessError::io(path.display(), &error))
}

/// Removes every file below `folder` that is not `wanted`: what an earlier copy had.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    let io = |error: std::io::Error| HarnessError::io(folder.display(), &error);
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path).map_err(|error| HarnessError::io(path.display(), &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(mutants: &[(&str, &str, &str, &str)]) -> String {
        mutants
            .iter()
            .map(|(name, file, find, replace)| {
                format!("[[mutant]]\nname='{name}'\nrule='r'\nfile='{file}'\nfind='{find}'\nreplace='{replace}'\n")
            })
            .collect()
    }

    #[test]
    fn the_committed_list_fits_the_code() {
        let root = crate::source_root();
        let mutants = parse(&fs::read_to_string(root.join("integration/mutants.toml")).unwrap()).unwrap();
        assert!(!mutants.is_empty());
        for mutant in mutants {
            let text = fs::read_to_string(root.join(&mutant.file)).unwrap();
            assert_ne!(apply(&mutant, &text).unwrap(), text);
        }
    }

    #[test]
    fn a_mutant_has_to_be_found_exactly_once() {
        let mutant = &parse(&list(&[("a", "src/x.rs", "one", "two")])).unwrap()[0];
        assert_eq!(apply(mutant, "is one.").unwrap(), "is two.");
        for stale in ["nothing", "one and one"] {
            assert!(apply(mutant, stale).unwrap_err().to_string().contains("stale mutant a"), "{stale}");
        }
    }

    #[test]
    fn lists_that_would_prove_nothing_are_refused() {
        let ok = ("a", "src/x.rs", "one", "two");
        for (bad, why) in [
            (list(&[ok, ok]), "earlier"),
            (list(&[("a", "../x.rs", "one", "two")]), "outside"),
            (list(&[("a", "/x.rs", "one", "two")]), "outside"),
            (list(&[("a", "x.rs", "one", "one")]), "nothing"),
            (list(&[("a", "x.rs", "", "one")]), "nothing"),
            (list(&[ok]) + "unknown = 1", "unknown"),
        ] {
            let error = parse(&bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed("running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored"), 2);
        assert_eq!(passed("test result: ok. 0 passed; 0 failed"), 0);
    }

    #[test]
    fn the_copy_follows_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("src")).unwrap();
        fs::write(source.join(".gitignore"), "ignored\n").unwrap();
        fs::write(source.join("src/a.rs"), "a").unwrap();
        fs::write(source.join("ignored"), "x").unwrap();
        assert!(run(Command::new("git").arg("init").arg(&source), TEST_LIMIT).unwrap().status.success());
        let copy = folder.path().join("copy");
        let workshop = Workshop::new(&source, &copy).unwrap();
        assert_eq!(workshop.read("src/a.rs").unwrap(), "a");
        assert!(workshop.read("ignored").is_err());
        fs::rename(source.join("src/a.rs"), source.join("src/b.rs")).unwrap();
        let workshop = Workshop::new(&source, &copy).unwrap();
        assert_eq!(workshop.read("src/b.rs").unwrap(), "a");
        assert!(workshop.read("src/a.rs").is_err());
    }
}
