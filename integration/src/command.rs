//! The `calve` command, built once and run as a user runs it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::process::{run, tail};
use crate::{HarnessError, Result, source_root};

const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
const RUN_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The built command.
///
/// Cargo tells tests where the programs of their own package are, but not those of another member, and builds those
/// only for `--workspace`. So it is built from here, into the target folder and with the profile of the running test:
/// after `cargo test --workspace` that is a matter of a moment. `CALVE_BIN` names one that is built already.
pub fn binary() -> Result<PathBuf> {
    static BINARY: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    BINARY.get_or_init(|| build().map_err(|error| error.to_string())).clone().map_err(HarnessError)
}

fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("CALVE_BIN") {
        return Ok(PathBuf::from(given));
    }
    let mut command = cargo_command();
    // With the features that the tests' own build of the library has: with others it would be compiled a second time.
    command.current_dir(source_root()).args(["build", "--locked", "--package", "calve", "--bin", "calve"]);
    command.args(["--features", "testing"]);
    command.arg("--message-format=json-render-diagnostics");
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    if let Some(target) = target_folder() {
        command.arg("--target-dir").arg(target);
    }
    let finished = run(&mut command, BUILD_LIMIT)?;
    let executable = finished
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back();
    match executable {
        Some(path) if finished.status.success() => Ok(path),
        _ => Err(HarnessError(format!("calve does not build ({command:?}):\n{}", tail(&finished.stderr, 60)))),
    }
}

/// The cargo that runs this test, else the one on the PATH, without what the running test's cargo tells of the test's own
/// package: build scripts watch those variables, and a build that saw others would compile half of the tree again, then
/// the next one outside a test once more.
pub fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_of_a_package(variable: &str) -> bool {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CFG_", "CARGO_FEATURE_"];
    let names = ["CARGO", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "CARGO_TARGET_TMPDIR", "OUT_DIR"];
    prefixes.iter().any(|prefix| variable.starts_with(prefix)) || names.contains(&variable)
}

/// The target folder that the running program was built in: the one that bears cargo's marker.
fn target_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).map(Path::to_owned)
}

/// One warehouse on an embedded catalog, in a folder that goes with this value.
#[derive(Debug)]
pub struct Warehouse {
    folder: tempfile::TempDir,
}

/// What a run of the command left.
#[derive(Debug)]
pub struct Ran {
    /// The command line, for messages.
    pub command: String,
    /// The exit code; `None` for a process that a signal ended.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ran {
    /// Itself, if the exit code is this one; else an error that shows everything.
    pub fn expect_code(self, code: i32) -> Result<Self> {
        if self.code == Some(code) {
            return Ok(self);
        }
        let Ran { command, code: found, stdout, stderr } = self;
        let (stdout, stderr) = (tail(&stdout, 40), tail(&stderr, 40));
        Err(HarnessError(format!(
            "{command}: exit code {code} expected, {found:?} found\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )))
    }

    /// The last JSON object of the standard output, which holds nothing but JSON.
    pub fn json(&self) -> Result<Value> {
        let mut last = None;
        for value in serde_json::Deserializer::from_str(&self.stdout).into_iter::<Value>() {
            last = Some(value.map_err(|error| {
                HarnessError(format!("{}: not JSON ({error}):\n{}", self.command, tail(&self.stdout, 40)))
            })?);
        }
        last.ok_or_else(|| HarnessError(format!("{}: no JSON; stderr:\n{}", self.command, tail(&self.stderr, 40))))
    }
}

impl Warehouse {
    /// A warehouse in a new folder.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| HarnessError::io("temporary folder", &error))?;
        Ok(Self { folder })
    }

    /// A warehouse in a new folder whose name begins like this.
    pub fn named(prefix: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir();
        Ok(Self { folder: folder.map_err(|error| HarnessError::io("temporary folder", &error))? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `calve … --warehouse DIR --json` in the warehouse's folder.
    pub fn calve<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Ran> {
        let mut command = command_in(self.path())?;
        command.args(args).arg("--warehouse").arg(self.path());
        finish(command.arg("--json"))
    }
}

/// Runs `calve … --json` in a folder, without a warehouse.
pub fn calve<S: AsRef<OsStr>>(folder: &Path, args: &[S]) -> Result<Ran> {
    let mut command = command_in(folder)?;
    command.args(args);
    finish(command.arg("--json"))
}

/// `calve`, to be given arguments, in a folder that is its home too, and without what the user's environment says about
/// catalogs.
pub fn command_in(folder: &Path) -> Result<Command> {
    let mut command = Command::new(binary()?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CALVE_")) {
        command.env_remove(name);
    }
    command.env("CALVE_OWNER", "test@integration").env("HOME", folder).current_dir(folder);
    Ok(command)
}

/// Runs the command to its end.
pub fn finish(command: &mut Command) -> Result<Ran> {
    let finished = run(command, RUN_LIMIT)?;
    Ok(Ran {
        command: format!("{command:?}"),
        code: finished.status.code(),
        stdout: finished.stdout,
        stderr: finished.stderr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(stdout: &str) -> Ran {
        Ran { command: "calve".to_owned(), code: Some(0), stdout: stdout.to_owned(), stderr: String::new() }
    }

    #[test]
    fn a_build_inside_a_test_sees_nothing_of_the_tests_package() {
        let command = cargo_command();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            assert!(removed.contains(&name.as_os_str()), "{name:?}");
        }
        assert!(!is_of_a_package("CARGO_HOME") && !is_of_a_package("CARGO_TARGET_DIR"));
        assert!(!is_of_a_package("CARGO_PROFILE_DEV_DEBUG") && is_of_a_package("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn the_last_object_counts() {
        assert_eq!(ran("{\"a\":1}\n{\n \"a\": 2\n}\n").json().unwrap()["a"], 2);
        assert!(ran("").json().is_err());
        assert!(ran("{\"a\":1}\nnot json").json().is_err());
    }

    #[test]
    fn an_unexpected_exit_code_is_an_error_that_shows_the_output() {
        let error = ran("what it said").expect_code(10).unwrap_err().to_string();
        assert!(error.contains("what it said") && error.contains("10"), "{error}");
        assert!(ran("").expect_code(0).is_ok());
    }
}
