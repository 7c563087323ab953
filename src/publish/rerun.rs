//! What `run` does about an id, from what stands in the table: the same line again does the right thing, whatever ended the
//! line before. Source: `protocol.md`, "A job, run again".

use super::outcome::{EXIT_ESCALATE, EXIT_UNRESOLVED, reconcile_exit};
use super::state::{Sent, State};

/// What is known of a publication besides its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Is the candidate the caller's own? A state without a candidate counts as such.
    pub ours: bool,
    /// Is main where the candidate was begun?
    pub base_is_main: bool,
    /// Did someone work on the candidate who never said that they had ended? Their job may still be writing.
    pub cut_off: bool,
    /// Does the journal know of nothing but BEGINs, and the table of nothing at all?
    pub only_begins: bool,
    /// Was a FENCE sent that the table does not show, and nothing tried since?
    pub abandon_sent: bool,
}

/// What `run` does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunStep {
    /// Opens the id, and runs the job.
    Begin,
    /// Runs the job on the candidate that is open, to which nothing was written.
    RunJob,
    /// Fences what an earlier attempt left, begins the next generation in the same commit, and runs the job on that.
    Restart,
    /// Begins the next generation of an id that is closed, and runs the job on that.
    BeginNext,
    /// Publishes, without the job.
    Publish,
    /// Says what happened, without the job, and leaves a receipt where an engine published.
    Reconcile,
    /// It is published: nothing is left to do.
    Done,
    /// It is another's, and left alone.
    Refuse,
}

/// What `run` does about an id in this state.
pub fn run_step(state: &State, known: Known) -> RunStep {
    match state {
        State::Unknown => RunStep::Begin,
        State::Gone if known.only_begins => RunStep::Begin,
        State::Published { .. } | State::ReceiptRemoved { sealed: true, .. } => RunStep::Done,
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { sealed: false, .. }
        | State::Ambiguous { .. }
        | State::Consumed
        | State::Gone => RunStep::Reconcile,
        State::Foreign { .. } => RunStep::Refuse,
        State::Closed
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Sealed { .. }
        | State::Moved { .. }
            if !known.ours =>
        {
            RunStep::Refuse
        }
        State::Closed => RunStep::BeginNext,
        // It was to be abandoned: its rows are published only by who says so.
        State::Sealed { sent: Sent::InFlight, .. } if known.abandon_sent => RunStep::Reconcile,
        State::Sealed { .. } if known.abandon_sent => RunStep::Refuse,
        State::Open { .. } if known.abandon_sent => RunStep::Restart,
        // Only a branch that nobody can still be writing to is used again, and only where it can still be published.
        State::Open { head, marker } if head == marker && known.base_is_main && !known.cut_off => RunStep::RunJob,
        State::Open { .. } | State::SubjectMoved { .. } => RunStep::Restart,
        State::Sealed { sent, .. } => match sent {
            Sent::None | Sent::NoJournal | Sent::Rejected | Sent::Conflicted | Sent::InFlight => RunStep::Publish,
        },
        // It can never be published as it stands. The fence in the same commit also ends a request that is in flight.
        State::Moved { .. } => RunStep::Restart,
    }
}

/// What `run` does once its job has ended and the table was read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AfterJob {
    /// Checks the candidate, seals and publishes it.
    Validate,
    /// A request of the job's own may still be applied: publishing finds out.
    Publish,
    /// Says what the table shows, which the job itself brought about.
    Reconcile,
    /// Nothing became visible, and the candidate stays.
    Stays,
}

/// What `run` does once its job has ended, from what the table shows then. A job that failed is never published by this
/// run, and what it made visible is told all the same.
pub fn after_job(state: &State, succeeded: bool) -> AfterJob {
    match state {
        State::Sealed { sent: Sent::InFlight, .. } if succeeded => AfterJob::Publish,
        State::Sealed { sent: Sent::InFlight, .. } => AfterJob::Reconcile,
        State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Moved { .. }
        | State::Sealed { sent: Sent::None | Sent::NoJournal | Sent::Rejected | Sent::Conflicted, .. } => {
            if succeeded {
                AfterJob::Validate
            } else {
                AfterJob::Stays
            }
        }
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Closed
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone
        | State::Unknown => AfterJob::Reconcile,
    }
}

/// The exit code of a run whose job failed with `job`, where the table shows this: what a person has to look at, or what may
/// be visible, comes before the job's own failure; a publication does not hide it.
pub fn failed_exit(state: &State, job: u8) -> u8 {
    match reconcile_exit(state) {
        code @ (EXIT_UNRESOLVED | EXIT_ESCALATE) => code,
        _ => job,
    }
}

/// Does an earlier generation in this state keep the job from running again? It does where readers may see it, or might
/// come to: its rows would be there twice.
pub fn hinders(earlier: &State) -> bool {
    match earlier {
        // That a later one was begun shows that it was fenced; and none of its files were found in main.
        State::Closed | State::Consumed | State::Gone | State::Unknown | State::Foreign { .. } => false,
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Published { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Sealed { .. }
        | State::Moved { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. } => true,
    }
}
