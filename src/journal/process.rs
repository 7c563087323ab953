//! Which process holds a lease, and whether it has ended.
//!
//! A job that is killed cannot give its lease back, and a day of waiting for it would be a day without the repair. On
//! the machine where it ran, the system tells that it has ended: a process has a number, and the instant at which it
//! was started tells it from a later one of the same number. Where that cannot be told for certain (another machine, a
//! container of its own, another user, a system without `/proc`) the process counts as running.

use serde::{Deserialize, Serialize};

/// A process of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Process {
    /// Where its number means something: the machine since it was started, and the namespaces of numbers and of time.
    pub place: String,
    /// Its user: other users' processes may be hidden.
    pub user: u32,
    /// Its number.
    pub number: u32,
    /// When it was started, in ticks since the machine was.
    pub started: u64,
}

impl Process {
    /// This process; `None` where the system does not tell.
    pub fn current() -> Option<Self> {
        let number = std::process::id();
        // Two numbers are those of a `/proc` that shows the processes of an outer namespace.
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let seen = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        if seen.trim() != number.to_string() {
            return None;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let numbers = std::fs::read_link("/proc/self/ns/pid").ok()?;
        // Absent in older kernels, which have only one.
        let time = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        let place = format!("{}/{}/{}", boot.trim(), numbers.display(), time.display());
        Some(Self { place, user: user()?, number, started: stat(number).ok()??.started })
    }

    /// Does it run on this machine, or did it? Then its clock is this one.
    pub fn is_here(&self) -> bool {
        Self::current().is_some_and(|here| here.place == self.place)
    }

    /// Has it ended for certain?
    pub fn has_ended(&self) -> bool {
        let Some(here) = Self::current() else { return false };
        if here.place != self.place || here.user != self.user {
            return false;
        }
        match stat(self.number) {
            Ok(None) => true,
            Ok(Some(found)) => found.started != self.started || found.is_dead,
            Err(_) => false,
        }
    }
}

/// What the system says of a process.
struct Stat {
    started: u64,
    /// It runs no more, and waits for its parent to notice.
    is_dead: bool,
}

/// `Ok(None)`: there is no process of that number. Source: proc_pid_stat(5).
fn stat(number: u32) -> std::io::Result<Option<Stat>> {
    let text = match std::fs::read(format!("/proc/{number}/stat")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // It ended between opening and reading.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    parse(&text).map(Some).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn parse(text: &str) -> Option<Stat> {
    // The name of the program stands in parentheses, and may have some itself.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    // The first thread may be gone while others are still at work.
    let is_dead = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
    Some(Stat { started: fields.get(19)?.parse().ok()?, is_dead })
}

#[cfg(unix)]
fn user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").ok().map(|process| process.uid())
}

#[cfg(not(unix))]
fn user() -> Option<u32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_not_ended() {
        let this = Process::current().unwrap();
        assert!(!this.has_ended());
        let earlier = Process { started: this.started - 1, ..this.clone() };
        assert!(earlier.has_ended(), "another process has its number now");
        for elsewhere in [
            Process { place: "another".to_owned(), ..earlier.clone() },
            Process { user: this.user.wrapping_add(1), ..earlier },
        ] {
            assert!(!elsewhere.has_ended(), "{elsewhere:?}: what cannot be told counts as running");
        }
    }

    #[test]
    fn a_killed_process_has_ended_even_before_its_parent_noticed() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let started = stat(child.id()).unwrap().unwrap().started;
        let process = Process { number: child.id(), started, ..Process::current().unwrap() };
        assert!(!process.has_ended());
        child.kill().unwrap();
        // Not reaped: the state is `Z` as soon as the kernel is done with it, which no event tells.
        while !process.has_ended() {
            std::thread::yield_now();
        }
        let _status = child.wait().unwrap();
        assert!(process.has_ended());
    }

    #[test]
    fn names_of_programs_may_look_like_fields() {
        let line = |state: &str, threads: u32| {
            let middle = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0";
            format!("7 (a) Z 1 (b) {state} {middle} {threads} 0 4711 1\n")
        };
        let running = parse(&line("S", 1)).unwrap();
        assert_eq!((running.started, running.is_dead), (4711, false));
        assert!(parse(&line("Z", 1)).unwrap().is_dead);
        assert!(!parse(&line("Z", 2)).unwrap().is_dead, "another thread still works");
        assert!(parse("7 (a").is_none() && parse("").is_none());
    }
}
