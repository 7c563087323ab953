//! The protocol's decisions, each a pure function over plain data.
//!
//! - [`attempt`]: one commit, and what is known of its reply;
//! - [`intent`]: what was tried, as the journal remembers it;
//! - [`commits`]: the commits, requirements and updates;
//! - [`mod@reconcile`]: what happened, from the table, as a [`state`];
//! - [`past`]: what older states of the table add to it;
//! - `proof`: what a verdict rests on, and [`advice`]: what may be done about it, for the person who has to act;
//! - [`decide`]: the gate before PUBLISH;
//! - [`rerun`]: what `run` does about an id;
//! - [`recover`]: what is done about what a killed process left;
//! - [`outcome`]: what a person or a scheduler is told;
//! - [`trust`]: whether a catalog and a journal may be published with.
//!
//! Nothing here waits, reads or writes.

pub mod advice;
pub mod attempt;
pub mod commits;
pub mod decide;
pub mod intent;
pub mod outcome;
pub mod own;
pub mod past;
mod proof;
pub mod reconcile;
pub mod recover;
pub mod rerun;
pub mod state;
#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;
pub mod trust;

pub use intent::Intent;
pub use outcome::PublishOutcome;
pub use reconcile::{Finding, State, reconcile};
