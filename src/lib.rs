//! calve: a commit coordinator for Apache Iceberg tables.
//!
//! It decides when a validated change may become visible, makes it visible with one conditional commit, and finds out
//! from the table itself what happened when the answer to that commit is lost. [`protocol`] is the specification.

pub mod clock;
pub mod conflict;
pub mod contract;
pub mod digest;
pub mod evidence;
pub mod identity;
pub mod ids;
pub mod observed;
pub mod publish;
pub mod scope;

pub mod store;

pub mod catalog;
pub mod journal;

pub mod data;

pub mod coordinator;
pub mod report;

pub mod cli;

#[cfg(feature = "testing")]
#[allow(clippy::expect_used, clippy::panic, reason = "a stand-in that fails ends its test")]
pub mod testing;

#[doc = include_str!("protocol.md")]
pub mod protocol {}
