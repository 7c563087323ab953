//! `run`: its parts, one after the other, each with how it ended.

use serde::Serialize;

use super::page::{Page, clean, shell};
use super::text::{Text, checks, plural};
use super::{BeginReport, PublishReport, ReconcileReport, Report, ValidateReport, words};
use crate::evidence::check::Outcome;
use crate::ids::{PublicationId, TableName};
use crate::publish::PublishOutcome;
use crate::publish::outcome::{EXIT_DONE, EXIT_FAILED, EXIT_REATTACH, EXIT_REBUILD, EXIT_UNRESOLVED, EXIT_USAGE};
use crate::publish::reconcile::{Absence, State};

/// `run`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunReport {
    /// The table.
    pub table: TableName,
    /// The publication, with the generation that this run came to.
    pub publication: PublicationId,
    /// What was done, in order.
    pub steps: Vec<TimedPart>,
    /// The exit code.
    pub exit_code: u8,
    /// What may be done next: commands.
    pub next: Vec<String>,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

impl RunReport {
    /// Nothing done yet.
    pub fn new(table: &TableName, id: &PublicationId) -> Self {
        let (table, publication) = (table.clone(), id.clone());
        Self { table, publication, steps: Vec::new(), exit_code: EXIT_DONE, next: Vec::new(), warnings: Vec::new() }
    }
}

impl RunReport {
    /// How the job ended, if it ran.
    fn job(&self) -> Option<&JobEnd> {
        self.steps.iter().find_map(|timed| match &timed.part {
            RunPart::Job { end } => Some(end),
            _ => None,
        })
    }

    /// Did it end at a state that the same line again does not change?
    fn is_stuck(&self) -> bool {
        match self.steps.last().map(|timed| &timed.part) {
            Some(RunPart::Reconcile(report)) => match &report.finding.state {
                State::Lost { why, .. } => match why {
                    Absence::Missing | Absence::Replaced => true,
                    Absence::Unreachable => false,
                },
                State::Published { .. } | State::ReceiptRemoved { .. } | State::Bypassed { .. } => true,
                _ => report.finding.abandon.is_some(),
            },
            _ => false,
        }
    }
}

/// One part of a run, and how long it took.
#[derive(Debug, Clone, Serialize)]
pub struct TimedPart {
    /// What was done.
    #[serde(flatten)]
    pub part: RunPart,
    /// Wall time, in milliseconds.
    pub milliseconds: u64,
}

/// One part of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum RunPart {
    /// The candidate was opened, or found open.
    Begin(BeginReport),
    /// What an earlier attempt left was closed, and the next generation begun, in one commit.
    Restart {
        /// What was closed.
        closed: PublicationId,
        /// What was begun.
        begun: BeginReport,
    },
    /// The job.
    Job {
        /// How it ended.
        #[serde(flatten)]
        end: JobEnd,
    },
    /// The checks ran.
    Validate(ValidateReport),
    /// The publication was sent, or found done.
    Publish(PublishReport),
    /// Nothing was sent: what the table shows.
    Reconcile(ReconcileReport),
    /// A part came to no result.
    #[serde(rename_all = "kebab-case")]
    Failed {
        /// Which.
        at: &'static str,
        /// Why, and what to do.
        message: String,
        /// The exit code.
        exit_code: u8,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum JobEnd {
    /// With exit code 0.
    Succeeded,
    /// With another.
    Failed {
        /// It.
        status: i32,
    },
    /// By a signal that calve did not send.
    Killed {
        /// Its number.
        signal: i32,
    },
    /// After calve was told to stop, and passed that on.
    Stopped {
        /// The number of the signal that calve was sent.
        signal: i32,
    },
    /// It could not be started.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// What became of it could not be found out.
    Lost {
        /// Why.
        reason: String,
    },
}

impl JobEnd {
    /// The exit code of a run that ends with its job; 0 where it goes on.
    pub fn exit_code(&self) -> u8 {
        match self {
            JobEnd::Succeeded => EXIT_DONE,
            JobEnd::Failed { .. } | JobEnd::Killed { .. } | JobEnd::Lost { .. } => EXIT_FAILED,
            // As shells and schedulers know it.
            JobEnd::Stopped { signal } => u8::try_from(128_i32.saturating_add(*signal)).unwrap_or(EXIT_FAILED),
            JobEnd::NotStarted { .. } => EXIT_USAGE,
        }
    }
}

impl Report for RunReport {
    fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

/// `41s`, `3m07s`, `2h05m`; below a second `0.3s`.
pub(super) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("0.{}s", milliseconds / 100),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// A word in capitals with its exit code, where that is not 0.
fn coded(word: &str, code: u8) -> String {
    let (head, rest) = word.split_once("  ").unwrap_or((word, ""));
    let head = if code == EXIT_DONE { head.to_owned() } else { format!("{head} (exit {code})") };
    if rest.is_empty() { head } else { format!("{head}: {}", rest.trim()) }
}

impl TimedPart {
    fn words(&self) -> String {
        match &self.part {
            RunPart::Begin(report) if report.already_open => "begin (it was open already)".to_owned(),
            RunPart::Begin(_) => "begin".to_owned(),
            RunPart::Restart { closed, begun } => format!("{closed} closed, {} begun", begun.publication),
            RunPart::Job { end } => {
                let took = duration(self.milliseconds);
                let code = end.exit_code();
                match end {
                    JobEnd::Succeeded => format!("job {took}"),
                    JobEnd::Failed { status } => format!("job {took} FAILED (exit {code}): it ended with {status}"),
                    JobEnd::Killed { signal } => format!("job {took} FAILED (exit {code}): killed by signal {signal}"),
                    JobEnd::Stopped { signal } => {
                        format!("job {took} STOPPED (exit {code}): signal {signal} was passed on to it")
                    }
                    JobEnd::NotStarted { reason } => format!("job NOT STARTED (exit {code}): {reason}"),
                    JobEnd::Lost { reason } => format!("job {took} LOST (exit {code}): {reason}"),
                }
            }
            RunPart::Validate(report) => {
                let (all, bad) = (
                    plural(report.checks.len(), "check"),
                    report.checks.iter().filter(|check| check.outcome != Outcome::Pass).count(),
                );
                match (report.passed, bad) {
                    (true, _) => format!("{all} PASS"),
                    (false, 0) => format!("{all} FAIL (exit {})", report.exit_code()),
                    (false, _) => format!("{bad} of {all} FAIL (exit {})", report.exit_code()),
                }
            }
            RunPart::Publish(report) => coded(&words::outcome(&report.outcome), report.exit_code()),
            RunPart::Reconcile(report) => coded(&words::state(&report.finding.state), report.exit_code()),
            RunPart::Failed { at, message, exit_code } => {
                let word = if *exit_code == EXIT_UNRESOLVED { "UNRESOLVED" } else { "NOT DONE" };
                format!("{at} {word} (exit {exit_code}): {message}")
            }
        }
    }
}

impl Text for RunReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(format!("{} {}", self.table, self.publication));
        page.line(self.steps.iter().map(|part| clean(&part.words())).collect::<Vec<_>>().join(" → "));
        let last = self.steps.last().map(|timed| &timed.part);
        match last {
            Some(RunPart::Validate(report)) => {
                checks(&mut page, &report.checks);
                let named = |reason: &&String| report.checks.iter().any(|c| **reason == format!("{} failed", c.name));
                page.items(report.reasons.iter().filter(|reason| !named(reason)));
                page.line(match report.closed {
                    Some(reason) => format!("  {}: closed for good, nothing became visible", words::closed(reason)),
                    None if report.base_moved => "  nothing of the candidate became visible; it stays open".to_owned(),
                    None => "  nothing became visible; the candidate stays open".to_owned(),
                });
            }
            Some(RunPart::Publish(report)) => {
                page.items(words::reasons(&report.outcome));
                if matches!(report.outcome, PublishOutcome::Published { .. }) && !report.read_with.is_empty() {
                    page.line("read it:");
                    let lines = report.read_with.iter().map(|(who, line)| vec![who.clone(), line.clone()]);
                    page.table(&lines.collect::<Vec<_>>());
                }
                page.warnings(&report.warnings);
            }
            Some(RunPart::Reconcile(report)) => {
                match self.job() {
                    None => page.line("  the job did not run"),
                    Some(JobEnd::Succeeded) => page.line("  it stood like this when the job had ended"),
                    Some(_) => match &report.finding.state {
                        State::Published { .. } | State::Bypassed { .. } | State::ReceiptRemoved { .. } => {
                            page.line("  it became visible, although the job failed");
                        }
                        _ => page.line("  it stood like this when the job had failed"),
                    },
                }
                if self.exit_code != EXIT_DONE {
                    page.items(&report.finding.proof);
                }
                page.warnings(&report.warnings);
            }
            Some(RunPart::Job { .. }) if self.exit_code != EXIT_DONE => {
                page.line("  nothing of the candidate became visible; it stays open");
            }
            Some(RunPart::Failed { .. }) if self.job().is_some_and(|end| *end != JobEnd::Succeeded) => {
                page.line("  whether the job made anything visible is not known");
            }
            Some(RunPart::Begin(_) | RunPart::Restart { .. } | RunPart::Job { .. } | RunPart::Failed { .. }) | None => {
            }
        }
        page.warnings(&self.warnings);
        let goes_on =
            [1, EXIT_REBUILD, EXIT_REATTACH, EXIT_UNRESOLVED].contains(&self.exit_code) || self.exit_code > 128;
        if goes_on && !self.is_stuck() {
            page.line("the same line again goes on from here");
        }
        match (self.exit_code, self.next.as_slice()) {
            (EXIT_DONE, []) => page.next([format!("calve log {}", shell(&self.table.to_string()))]),
            (_, next) => page.next(next),
        }
        page.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_say_them() {
        let said = [40, 340, 41_000, 187_000, 7_530_000].map(duration);
        assert_eq!(said, ["0.0s", "0.3s", "41s", "3m07s", "2h05m"]);
    }

    #[test]
    fn each_end_of_a_job_has_its_code() {
        for (end, code) in [
            (JobEnd::Succeeded, 0),
            (JobEnd::Failed { status: 3 }, 1),
            (JobEnd::Killed { signal: 9 }, 1),
            (JobEnd::Lost { reason: String::new() }, 1),
            (JobEnd::NotStarted { reason: String::new() }, 2),
            (JobEnd::Stopped { signal: 2 }, 130),
            (JobEnd::Stopped { signal: 15 }, 143),
        ] {
            assert_eq!(end.exit_code(), code, "{end:?}");
        }
    }
}
