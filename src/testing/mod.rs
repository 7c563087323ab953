//! Whole test beds, stand-ins for the engines that share a table with calve, and the scenarios played on them.
//!
//! An [`Engine`] does what Spark, PyIceberg or an operator's maintenance does to a table, with the requirements that
//! they really send; a [`Network`] loses, repeats and delays. So that one text plays over any catalog.

mod bed;
pub mod crash;
pub mod model;
mod network;
pub mod oracle;
mod recovering;
pub mod scenarios;
pub mod simulation;

pub use bed::{Bed, CONTRACT, Engine, Ground, KINDS, Kind, Row, contract};
pub use network::{Network, Trouble};
