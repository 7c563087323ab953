//! What a command told whoever ran it.

use crate::coordinator::Error;
use crate::ids::{PublicationId, SnapshotId};
use crate::publish::PublishOutcome;
use crate::publish::outcome::Rejection;
use crate::publish::reconcile::{Finding, State, Visibility};
use crate::report::{
    AbandonReport, BeginReport, PublishReport, ReconcileReport, Report, RunPart, RunReport, StageReport, ValidateReport,
};

/// What was said of one publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Readers see it, or saw it.
    Published(Visibility),
    /// Readers see it, or saw it; by whom it was shown is another question.
    Visible,
    /// Not published by calve, and never will be.
    Closed,
    /// Not visible when read.
    NotVisible,
    /// Nothing is known of it.
    Unknown,
    /// Not decided, or nothing was said of it.
    Open,
    /// A person has to look.
    Escalated,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// Its exit code.
    pub code: u8,
    /// In a few words.
    pub words: String,
    /// What was said, of which publication.
    pub told: Option<(PublicationId, Word)>,
    /// The state that was found, if one was.
    pub state: Option<State>,
    /// The snapshot that was said to be in the table now.
    pub made: Option<SnapshotId>,
}

impl Ending {
    pub fn of<R: Into<Ending>>(result: Result<R, Error>) -> Self {
        match result {
            Ok(report) => report.into(),
            Err(error) => quiet(error.exit_code(), format!("error: {error}")),
        }
    }
}

fn of_state(state: &State) -> Word {
    match state {
        State::Published { visibility, .. } => Word::Published(*visibility),
        State::Bypassed { .. } | State::VisibleAfterFence { .. } | State::ReceiptRemoved { .. } => Word::Visible,
        State::Closed => Word::Closed,
        State::Sealed { .. } | State::Moved { .. } | State::Open { .. } | State::SubjectMoved { .. } => {
            Word::NotVisible
        }
        State::Foreign { .. } => Word::NotVisible,
        State::Unknown => Word::Unknown,
        State::Lost { .. } => Word::Open,
        State::Regressed { .. } | State::Ambiguous { .. } | State::Consumed | State::Gone => Word::Escalated,
    }
}

fn of_outcome(outcome: &PublishOutcome) -> Word {
    match outcome {
        PublishOutcome::Published { visibility, .. } => Word::Published(*visibility),
        PublishOutcome::Rejected { rejection: Rejection::UnknownId, .. } => Word::Unknown,
        PublishOutcome::Rejected { .. } | PublishOutcome::Conflict { .. } => Word::NotVisible,
        PublishOutcome::Unresolved { .. } => Word::Open,
    }
}

fn of_finding(finding: &Finding, code: u8) -> Ending {
    Ending {
        code,
        words: finding.state.word().to_owned(),
        told: Some((finding.publication.clone(), of_state(&finding.state))),
        state: Some(finding.state.clone()),
        made: None,
    }
}

fn quiet(code: u8, words: String) -> Ending {
    Ending { code, words, told: None, state: None, made: None }
}

impl From<BeginReport> for Ending {
    fn from(report: BeginReport) -> Self {
        let words = if report.already_open { "open already" } else { "open" };
        Self { made: Some(report.marker), ..quiet(report.exit_code(), words.to_owned()) }
    }
}

impl From<StageReport> for Ending {
    fn from(report: StageReport) -> Self {
        let words = format!("staged {} rows", report.rows_added);
        Self { made: Some(report.snapshot), ..quiet(report.exit_code(), words) }
    }
}

impl From<ValidateReport> for Ending {
    fn from(report: ValidateReport) -> Self {
        let words = if report.passed { "sealed".to_owned() } else { report.reasons.join("; ") };
        Self { made: report.seal, ..quiet(report.exit_code(), words) }
    }
}

impl From<PublishReport> for Ending {
    fn from(report: PublishReport) -> Self {
        let words = match &report.outcome {
            PublishOutcome::Published { via, visibility, sealed } => {
                format!("published, {via:?}, {visibility:?}{}", if *sealed { "" } else { ", unsealed" })
            }
            PublishOutcome::Conflict { class, .. } => format!("conflict, {class:?}"),
            PublishOutcome::Rejected { rejection, reasons } => {
                format!("rejected, {rejection:?}: {}", reasons.first().map_or("", String::as_str))
            }
            PublishOutcome::Unresolved { cause, reasons } => {
                format!("unresolved, {cause:?}: {}", reasons.first().map_or("", String::as_str))
            }
        };
        Ending {
            code: report.exit_code(),
            words,
            told: Some((report.publication.clone(), of_outcome(&report.outcome))),
            state: report.finding.map(|finding| finding.state),
            made: None,
        }
    }
}

impl From<ReconcileReport> for Ending {
    fn from(report: ReconcileReport) -> Self {
        let ending = of_finding(&report.finding, report.exit_code());
        let settled = if report.settled { ", settled" } else { "" };
        Ending { words: format!("row {}, {}{settled}", report.row, ending.words), ..ending }
    }
}

impl From<AbandonReport> for Ending {
    fn from(report: AbandonReport) -> Self {
        of_finding(&report.finding, report.exit)
    }
}

impl From<RunReport> for Ending {
    fn from(report: RunReport) -> Self {
        let mut words = Vec::new();
        let mut last = None;
        for timed in &report.steps {
            match &timed.part {
                RunPart::Begin(_) => words.push("begun".to_owned()),
                RunPart::Restart { .. } => words.push("restarted".to_owned()),
                RunPart::Job { end } => words.push(format!("job {end:?}")),
                RunPart::Validate(report) => words.push(Ending::from(report.clone()).words),
                RunPart::Publish(report) => last = Some(Ending::from(report.clone())),
                RunPart::Reconcile(report) => last = Some(Ending::from(report.clone())),
                RunPart::Failed { at, message, .. } => words.push(format!("{at} failed: {message}")),
            }
        }
        words.extend(last.as_ref().map(|ending| ending.words.clone()));
        let (told, state) = last.map_or((None, None), |ending| (ending.told, ending.state));
        Ending { code: report.exit_code, words: words.join(", "), told, state, made: None }
    }
}
