//! What the person or the scheduler behind a command is told.

use crate::publish::outcome::{EXIT_DONE, PublishOutcome, Via, reconcile_exit};
use crate::publish::reconcile::{Finding, State};

/// What one command ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Told {
    /// The row of the reconcile table that it names; `None` where it names none.
    pub row: Option<u8>,
    /// The exit code.
    pub code: u8,
}

impl Told {
    /// No row, and this exit code.
    pub fn code(code: u8) -> Self {
        Self { row: None, code }
    }

    /// What `publish` tells at this finding.
    pub fn publish(finding: &Finding, via: Via) -> Self {
        let code = PublishOutcome::from_finding(finding, via, Vec::new()).exit_code();
        Self { row: Some(finding.state.row()), code }
    }

    /// What `publish` tells where the gate stopped it.
    pub fn stopped(finding: &Finding, outcome: &PublishOutcome) -> Self {
        Self { row: Some(finding.state.row()), code: outcome.exit_code() }
    }

    /// What `reconcile` tells.
    pub fn reconcile(state: &State) -> Self {
        Self { row: Some(state.row()), code: reconcile_exit(state) }
    }

    /// What `abandon` tells, having fenced or found it fenced.
    pub fn abandon(state: &State) -> Self {
        let code = if *state == State::Closed { EXIT_DONE } else { reconcile_exit(state) };
        Self { row: Some(state.row()), code }
    }

    /// Was it said that readers see the change, or saw it?
    pub fn visible(self) -> bool {
        matches!(self.row, Some(2 | 3))
    }

    /// Was it said that it never was and never will be published?
    pub fn never(self) -> bool {
        self.row == Some(5)
    }

    /// Was it said that it is not visible, as read?
    pub fn not_visible(self) -> bool {
        matches!(self.row, Some(5..=9)) && self.code != 20 && self.code != 21
    }

    /// Was a person told to look?
    pub fn escalated(self) -> bool {
        matches!(self.code, 20 | 21)
    }
}
