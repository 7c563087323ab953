//! The protocol's truth tables.

mod commits;
mod decide;
mod intent;
mod outcome;
mod properties;
mod reconcile;
mod recover;
mod rerun;
