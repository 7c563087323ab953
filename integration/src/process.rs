//! Running other programs to their end, with a deadline, and without leaving any behind.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{HarnessError, Result};

/// What a finished program left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

/// A child process that is killed by its id, and waited for, when this is dropped.
#[derive(Debug)]
pub struct Guarded(Child);

impl Guarded {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.spawn().map(Self).map_err(|error| HarnessError::io(format!("cannot start {command:?}"), &error))
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and been waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs a program to its end, without standard input. After `limit` it is killed, and that is an error.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let mut guarded = Guarded::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let child = guarded.child();
    let (sender, receiver) = mpsc::channel();
    let pipes: [(bool, Option<Box<dyn Read + Send>>); 2] = [
        (true, child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>)),
        (false, child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>)),
    ];
    let mut open = 0;
    for (is_stdout, pipe) in pipes {
        let Some(mut pipe) = pipe else { continue };
        let sender = sender.clone();
        open += 1;
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let result = pipe.read_to_end(&mut bytes);
            // The receiver is gone when the deadline has passed.
            drop(sender.send((is_stdout, bytes, result)));
        });
    }
    drop(sender);
    let deadline = Instant::now() + limit;
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for _ in 0..open {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok((is_stdout, bytes, result)) => {
                result.map_err(|error| HarnessError::io(format!("output of {command:?}"), &error))?;
                *(if is_stdout { &mut stdout } else { &mut stderr }) = String::from_utf8_lossy(&bytes).into_owned();
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(HarnessError(format!("{command:?} did not end within {} s", limit.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = guarded.child().wait().map_err(|error| HarnessError::io(format!("{command:?}"), &error))?;
    Ok(Finished { status, stdout, stderr })
}

/// The last lines of a long output.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all.iter().skip(all.len().saturating_sub(lines)).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed() {
        let started = Instant::now();
        let error = run(Command::new("sleep").arg("600"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn output_larger_than_a_pipe_is_read() {
        let finished = run(
            Command::new("sh").args(["-c", "head -c 300000 /dev/zero | tr '\\0' x; echo why >&2; exit 3"]),
            Duration::from_secs(60),
        )
        .unwrap();
        assert_eq!((finished.stdout.len(), finished.stderr.as_str()), (300_000, "why\n"));
        assert_eq!(finished.status.code(), Some(3));
    }

    #[test]
    fn the_tail_of_an_output() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
