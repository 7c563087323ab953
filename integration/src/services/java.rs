//! Java programs: the JDK, and jars from Maven Central.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use calve::digest::Digester;

use crate::process::{Finished, run, tail};
use crate::{HarnessError, Result, cache};

/// The plugin that copies what a pom names. Pinned, since Maven's own choice moves with Maven.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
const INSTALL_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A folder of the cache made from what a pom names: `make` gets the entry's folder, in whose `lib` the files are.
///
/// `also` is whatever else the folder depends on.
pub fn entry(name: &str, pom: &str, also: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let digest = Digester::new("test-java").field(COPY).field(pom).field(also).finish();
    let entry = format!("{name}-{}", digest.hex().get(..16).unwrap_or_default());
    cache::entry(
        &entry,
        |folder| folder.join("lib").exists(),
        |folder| {
            let path = folder.join("pom.xml");
            std::fs::write(&path, pom).map_err(|error| HarnessError::io(path.display(), &error))?;
            let mut maven = Command::new("mvn");
            maven.current_dir(folder).args(["--batch-mode", "--no-transfer-progress", "--update-snapshots", COPY]);
            maven.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", folder.join("lib").display()));
            let missing = |error| {
                HarnessError(format!(
                    "the tests with Java services need Maven 3.6+ as `mvn` on the PATH (Debian: apt install maven): {error}"
                ))
            };
            // Asked first, so that its absence is told apart from what it says.
            run(Command::new("mvn").arg("--version"), INSTALL_LIMIT).map_err(missing)?;
            // Once more: registries drop connections, and Maven keeps what was fetched.
            step(&mut maven).or_else(|_| step(&mut maven))?;
            make(folder)
        },
    )
}

/// The feature releases of Java that a program runs on.
#[derive(Debug, Clone, Copy)]
pub struct Releases {
    /// The first.
    pub least: u32,
    /// The last, if later ones are known not to do.
    pub most: Option<u32>,
}

impl Releases {
    fn include(self, release: u32) -> bool {
        release >= self.least && self.most.is_none_or(|most| release <= most)
    }
}

impl std::fmt::Display for Releases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.most {
            Some(most) => write!(f, "a JDK {} to {most}", self.least),
            None => write!(f, "a JDK {} or later", self.least),
        }
    }
}

/// The folder of a JDK of one of these releases: `$<variable>` if it is set, else that of the `java` on the PATH, else one
/// in `/usr/lib/jvm`.
pub fn home(releases: Releases, variable: &str, what_for: &str) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(variable).filter(|given| !given.is_empty()) {
        let given = PathBuf::from(given);
        return match version(&given.join("bin/java")) {
            Some(found) if releases.include(found) => Ok(given),
            found => Err(HarnessError(format!(
                "{variable}={}: {what_for} needs {releases} there; found {found:?}",
                given.display()
            ))),
        };
    }
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|folder| folder.join("java"))
            .find(|java| java.exists())
            .and_then(|java| std::fs::canonicalize(java).ok())
            .and_then(|java| Some(java.parent()?.parent()?.to_owned()))
    });
    let mut candidates: Vec<PathBuf> = on_path.into_iter().collect();
    let mut installed: Vec<PathBuf> = std::fs::read_dir("/usr/lib/jvm")
        .map(|found| found.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    installed.sort();
    candidates.extend(installed);
    let suits = |home: &&PathBuf| version(&home.join("bin/java")).is_some_and(|found| releases.include(found));
    candidates.iter().find(suits).cloned().ok_or_else(|| {
        HarnessError(format!(
            "{what_for} needs {releases}, on the PATH, in /usr/lib/jvm, or where {variable} says; looked in {candidates:?}"
        ))
    })
}

/// The feature release of a `java`, e.g. 17; none if there is no such program or it says something else.
fn version(java: &Path) -> Option<u32> {
    if !java.exists() {
        return None;
    }
    let finished = run(Command::new(java).arg("-version"), INSTALL_LIMIT).ok()?;
    feature_release(&finished.stderr)
}

fn feature_release(text: &str) -> Option<u32> {
    let quoted = text.split('"').nth(1)?;
    quoted.split(['.', '-', '+']).next()?.parse().ok()
}

/// Runs a step of an installation; its output is the error if it fails.
pub fn step(command: &mut Command) -> Result<()> {
    let Finished { status, stdout, stderr } = run(command, INSTALL_LIMIT)?;
    if status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (tail(&stdout, 30), tail(&stderr, 30));
    Err(HarnessError(format!("{command:?} ended with {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feature_release_is_read_from_what_java_says() {
        assert_eq!(feature_release("openjdk version \"17.0.12\" 2024-07-16\nmore"), Some(17));
        assert_eq!(feature_release("openjdk version \"25\" 2025-09-16 LTS"), Some(25));
        assert_eq!(feature_release("openjdk version \"24-ea\" 2025-03-18"), Some(24));
        assert_eq!(feature_release("command not found"), None);
    }

    #[test]
    fn a_jdk_that_nobody_has_is_an_error_that_says_what_is_needed() {
        let error = home(Releases { least: 900, most: None }, "CALVE_TEST_NO_SUCH_VARIABLE", "the test")
            .unwrap_err()
            .to_string();
        assert!(error.contains("the test needs a JDK 900 or later"), "{error}");
    }
}
