//! Every verb over whole beds: what each commit leaves in the table, and what each state allows.
//!
//! - [`effects`]: each commit's exact effect, read from the metadata, on every format version;
//! - [`states`]: which verb is refused in which state, with which exit code;
//! - [`trouble`]: journals that cannot be written, tables that cannot be read, answers that do not come;
//! - [`company`]: leases, and other processes in between;
//! - [`evidence`]: what the gate refuses;
//! - [`journals`]: cut short, damaged, restored from a backup, of a newer calve, or at odds with the table;
//! - [`leases`]: kept while a command works, lost to a claim, and clocks that are wrong;
//! - [`recover`]: what killed processes left, and who may look after it;
//! - [`runs`]: a job, and the same line again;
//! - [`after_job`]: jobs that publish, abandon or write to main by themselves;
//! - [`unseen`]: what was sent and never seen;
//! - [`facts`]: what status, log and review say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod after_job;
mod company;
mod effects;
mod evidence;
mod facts;
mod journals;
mod leases;
mod recover;
mod runs;
mod states;
mod support;
mod trouble;
mod unseen;
