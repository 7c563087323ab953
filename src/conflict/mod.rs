//! What a moved base means for a candidate: may it be put on the new main as it is, or must it be built again, and why.
//!
//! Main moved from `N` to `M` under a candidate that was planned on `N`. Two states are compared, never the steps between
//! them: what `M` lists and `N` does not, and the other way round ([`Facts::delta`]), against what the candidate reads,
//! owns, removes and deletes from ([`Concern`]). [`classify`] is one pure function over these facts; what was not read,
//! and what bounds cannot decide, counts as a conflict and is called *possible*.
//!
//! | rule | found in the difference of `N` and `M` | verdict |
//! |---|---|---|
//! | K1 | nothing that matters | reattach |
//! | K2 | data, or deletes of data, in q: the scope together with the reads | rebuild |
//! | K3 | a file that the candidate removes or deletes rows of is gone, or has other deletes | rebuild |
//! | K4 | equality deletes that reach q, or a file that the candidate removes or deletes rows of | rebuild |
//! | K5 | rows within reach of equality deletes that the candidate adds | rebuild |
//! | K6 | another table; a schema or format that the candidate's files or scope do not fit | rebuild; what fits is checked again |
//! | K7 | deletes, manifests or files that cannot be read | rebuild |
//!
//! Source: `protocol.md`, "Conflicts".

mod classify;
mod concern;
mod reach;
mod shape;
#[cfg(test)]
mod tests;
mod verdict;

pub use classify::{Facts, classify};
pub use concern::{Concern, Reads};
pub use reach::{Named, aim, targets};
pub use shape::Frame;
pub use verdict::{Author, Collision, Rule, Verdict, What};
