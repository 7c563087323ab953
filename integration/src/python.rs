//! PyIceberg and DuckDB, in a virtual environment of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use calve::digest::Digester;
use serde_json::Value;

use crate::process::{Finished, run, tail};
use crate::{HarnessError, Result, cache, source_root};

const PINS: &str = include_str!("../requirements.txt");
const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);
const SCRIPT_LIMIT: Duration = Duration::from_secs(5 * 60);

/// DuckDB loads extensions from a folder that it fills itself; this fills it once, from the installed packages.
const INSTALL_EXTENSIONS: &str = "
import duckdb, sys
from duckdb_extensions import import_extension
connection = duckdb.connect(config={'extension_directory': sys.prefix + '/duckdb-extensions'})
for name in ('avro', 'httpfs', 'iceberg'):
    import_extension(name, con=connection)
    connection.load_extension(name)
import pyiceberg.catalog.sql, pyarrow
";

/// The interpreter of the environment, installed by the first who asks.
pub fn venv() -> Result<PathBuf> {
    static PYTHON: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| install().map_err(|error| error.to_string())).clone().map_err(HarnessError)
}

fn install() -> Result<PathBuf> {
    environment(PINS, INSTALL_EXTENSIONS)
}

/// The interpreter of an environment that holds exactly `pins`, in which the program `prepare` has been run once.
pub fn environment(pins: &str, prepare: &str) -> Result<PathBuf> {
    let needs = "the tests with real services need Python 3.10+ with venv and pip as `python3` on the PATH";
    let ask = "import sys, venv, ensurepip; print(sys.version_info >= (3, 10), sys.executable, sys.version)";
    let found = run(Command::new("python3").args(["-c", ask]), SCRIPT_LIMIT)
        .map_err(|error| HarnessError(format!("{needs}: {error}")))?;
    if !found.status.success() || !found.stdout.starts_with("True") {
        return Err(HarnessError(format!("{needs}; found: {}{}", found.stdout.trim(), tail(&found.stderr, 3))));
    }
    let digest = Digester::new("test-environment").field(pins).field(prepare).field(&found.stdout).finish();
    let name = format!("python-{}", digest.hex().get(..16).unwrap_or_default());
    let folder = cache::entry(
        &name,
        |folder| interpreter(folder).exists(),
        |folder| {
            step(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
            let list = folder.join("requirements.txt");
            std::fs::write(&list, pins).map_err(|error| HarnessError::io(list.display(), &error))?;
            let mut pip = Command::new(interpreter(folder));
            pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--requirement"]).arg(&list);
            // Once more: registries drop connections, and what was fetched is kept by pip.
            step(&mut pip).or_else(|_| step(&mut pip))?;
            step(Command::new(interpreter(folder)).args(["-c", prepare]))
        },
    )?;
    Ok(interpreter(&folder))
}

fn interpreter(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

fn step(command: &mut Command) -> Result<()> {
    let Finished { status, stdout, stderr } = run(command, INSTALL_LIMIT)?;
    if status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (tail(&stdout, 20), tail(&stderr, 40));
    Err(HarnessError(format!("{command:?} ended with {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")))
}

/// A script of `integration/scripts/` in the small environment, to be given its arguments.
pub fn script(name: &str) -> Result<Command> {
    let mut command = Command::new(venv()?);
    // Tests run side by side on few cores; and compiled scripts do not belong into the source tree.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("OMP_NUM_THREADS", "1").args(["-W", "ignore"]);
    command.arg(source_root().join("integration/scripts").join(name));
    Ok(command)
}

/// Runs a script of `integration/scripts/` and returns the JSON value that it prints last, on one line.
pub fn run_python<S: AsRef<std::ffi::OsStr>>(name: &str, args: &[S]) -> Result<Value> {
    answer(name, script(name)?.args(args))
}

/// Runs a script and returns the JSON value that it prints last, on one line. `name` is for the error.
pub fn answer(name: &str, script: &mut Command) -> Result<Value> {
    let finished = run(script, SCRIPT_LIMIT)?;
    let value = finished.stdout.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
    match value {
        Some(value) if finished.status.success() => Ok(value),
        _ => Err(HarnessError(format!(
            "{name} ended with {} and no result\n--- stdout\n{}\n--- stderr\n{}",
            finished.status,
            tail(&finished.stdout, 20),
            tail(&finished.stderr, 40)
        ))),
    }
}
