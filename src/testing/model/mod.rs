//! An exhaustive model of the protocol.
mod build;
mod checks;
mod config;
mod log;
mod mind;
mod mutants;
mod names;
mod rules;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod told;
mod trace;
mod world;

pub use checks::{INVARIANTS, Invariant};
pub use config::{CONFIGS, Config};
pub use mutants::{Mutant, mutants};
pub use rules::Rules;
pub use search::{Explored, Found, explore};
pub use table::{NotApplied, apply};
