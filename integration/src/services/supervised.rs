//! A service's process: its log, its readiness and its end, also when the harness is killed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::tail;
use crate::{HarnessError, Result};

/// Waits on its input, which only the harness can write to. A line means that the harness stops the service and deletes
/// its folder; the end of the input, that the harness has died, so that nobody else will.
const WATCHDOG: &str = r#"
if read -r line; then kill -s KILL -- "-$1"; exit; fi
kill -s KILL -- "-$1"
tries=0
while kill -s 0 -- "-$1" && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf -- "$2"
"#;

const POLL: Duration = Duration::from_millis(50);
const LOG_LINES: usize = 60;

/// A service that runs in a process group and a temporary folder of its own, both of which go with this value.
///
/// The whole group is killed, so nothing remains of a service that forks. It ends as well when the harness is killed or
/// keeps this value in a static, which is never dropped: a shell waits for a pipe to close that only the harness holds.
#[derive(Debug)]
pub struct Supervised {
    name: String,
    child: Child,
    watchdog: Child,
    folder: TempDir,
}

impl Supervised {
    /// Starts a service. Its input is empty and its output goes to the log, unless both are `piped`; its errors always
    /// go to the log.
    pub fn start(name: &str, command: &mut Command, folder: TempDir, piped: bool) -> Result<Self> {
        let (child, watchdog) = spawn(name, command, folder.path(), piped)?;
        Ok(Self { name: name.to_owned(), child, watchdog, folder })
    }

    /// Kills the service as [`Drop`] does, and starts it again in the same folder.
    pub fn restart(&mut self, command: &mut Command, piped: bool) -> Result<()> {
        self.kill();
        (self.child, self.watchdog) = spawn(&self.name, command, self.folder.path(), piped)?;
        Ok(())
    }

    /// Kills the whole group by SIGKILL, and waits for it. The folder stays.
    pub fn kill(&mut self) {
        // All of these fail only for processes that have ended. The child is waited for last: until then nobody else
        // can get its id, which is the group that the watchdog kills.
        if let Some(mut line) = self.watchdog.stdin.take() {
            drop(line.write_all(b"stop\n"));
        }
        drop(self.watchdog.wait());
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// The id of the service's process, which is that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The service's own folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The end of what the service wrote.
    pub fn log(&self) -> String {
        let bytes = fs::read(log_of(self.folder.path())).unwrap_or_default();
        tail(&String::from_utf8_lossy(&bytes), LOG_LINES)
    }

    /// An error of this service, with the end of its log.
    pub fn failed(&self, why: impl std::fmt::Display) -> HarnessError {
        HarnessError(format!("{}: {why}\n--- its log ends\n{}", self.name, self.log()))
    }

    /// Asks again and again until there is an answer, the service has ended, or `limit` has passed. `ask` says what it
    /// still waits for.
    pub fn wait_until<T>(
        &mut self,
        limit: Duration,
        mut ask: impl FnMut(&Self) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            let missing = match ask(self) {
                Ok(answer) => return Ok(answer),
                Err(missing) => missing,
            };
            match self.child.try_wait() {
                Ok(Some(status)) => return Err(self.failed(format!("ended with {status} before it was ready"))),
                Ok(None) => {}
                Err(error) => return Err(self.failed(error)),
            }
            if Instant::now() > deadline {
                return Err(self.failed(format!("not ready within {} s: {missing}", limit.as_secs())));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The service and its watchdog.
fn spawn(name: &str, command: &mut Command, folder: &Path, piped: bool) -> Result<(Child, Child)> {
    let log = log_of(folder);
    let io = |error: std::io::Error| HarnessError::io(log.display(), &error);
    let output = File::options().create(true).append(true).open(&log).map_err(io)?;
    command.process_group(0).stderr(output.try_clone().map_err(io)?);
    if piped {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    } else {
        command.stdin(Stdio::null()).stdout(output);
    }
    // The command itself is not shown: its environment may hold what nobody is to read.
    let mut child = command.spawn().map_err(|error| {
        HarnessError::io(format!("{name} does not start: {}", command.get_program().display()), &error)
    })?;
    let watchdog = Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
        .arg(folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match watchdog {
        Ok(watchdog) => Ok((child, watchdog)),
        Err(error) => {
            drop(child.kill());
            drop(child.wait());
            Err(HarnessError::io(format!("the watchdog of {name} does not start"), &error))
        }
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("service.log")
}

/// A new folder for a service.
pub fn folder(name: &str) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("calve-{name}-"))
        .tempdir()
        .map_err(|error| HarnessError::io("a temporary folder", &error))
}

/// Writes a file that may hold secrets: only its owner can read it.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let io = |error: std::io::Error| HarnessError::io(path.display(), &error);
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(path).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)
}

/// Whether a process of this id exists that has not ended.
pub fn is_running(id: u32) -> bool {
    // The state is the first field after the name, which stands in parentheses and may hold any.
    let state = |stat: &str| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| state(&stat).is_some_and(|found| found != 'Z'))
}
