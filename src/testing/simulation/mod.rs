//! Coordinators of which one goes on at a time, as a seed decides it, while everything goes wrong that may.
//!
//! The real [`Coordinator`](crate::coordinator::Coordinator) works over the catalog and the journal in memory. Two or three people
//! run its commands on one or two tables, often on the same publication. Every call of a port and every step around a
//! commit is a point at which another goes on, the process crashes and is started again as a new one, a third party
//! writes, time passes, or a request that was held arrives. Requests and replies are lost, repeated, forged and late, and
//! the journal fails before or after it has stored. Then nothing goes wrong any more: every publication is brought to its
//! verdict, and all that is still on its way arrives.
//!
//! The oracle is independent of what is tested: it follows every state that the catalog ever had. What it holds is listed in
//! `oracle`, with the exceptions that third parties make.
//!
//! Everything follows from the seed. On a violation, [`report`] gives the shortest run that still shows it; to see it again:
//!
//! ```text
//! cargo run -p integration -- simulate --seed SEED
//! CALVE_SIM_SEED=SEED cargo test --test simulation
//! ```

mod dice;
mod history;
mod oracle;
mod others;
mod plan;
mod ports;
mod run;
mod shorten;
mod told;
mod trace;
mod turnstile;
mod world;

pub use oracle::Violation;
pub use run::Simulated;
pub use shorten::{report, simulate};
pub use trace::Trace;

/// A bug in the catalog or on the way to it, to show that the simulation finds such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// The catalog does not look where main is.
    MainIgnored,
    /// The catalog loses the receipt of each publication.
    ReceiptLost,
    /// A transport that moves a refused publication onto the newest main, and sends it again.
    Rebases,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 3] = [Planted::MainIgnored, Planted::ReceiptLost, Planted::Rebases];

    /// Its name on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Planted::MainIgnored => "main-ignored",
            Planted::ReceiptLost => "receipt-lost",
            Planted::Rebases => "rebases",
        }
    }
}
