//! A proxy that makes a network's faults happen in front of a REST catalog, as scripted.
//!
//! It stands between a client and one upstream, both on plain HTTP/1.1, and passes everything except what a [`Rule`]
//! says otherwise. Faults are named by direction: a request that was dropped before never reached the catalog, an
//! answer that was dropped after was to a request that the catalog decided. A client sees the same in both cases, and
//! that is the point.
//!
//! As a command: `cargo run -p integration -- proxy --upstream URI`, with
//!
//! ```text
//! --rule 'POST */tables/* #1 drop-after'                          the first commit is applied, nobody learns of it
//! --rule 'POST */tables/* has=published/ hold'                    publications stall until they are released
//! --rule 'POST */tables/* 10% answer-after 503' --seed 7          one commit in ten looks like a gateway's failure
//! --rule 'GET */v1/config answer 200 html'                        a login page answers for the catalog
//! ```
//!
//! Every request goes upstream on a connection of its own and is sent exactly as often as its fault says: the proxy
//! itself never tries again. Not supported: `https` upstreams (put a TLS terminator behind it), HTTP/2, upgrades, and
//! trailers, which are dropped.
//!
//! The record of what went by holds no headers, no bodies and no query strings, so no credentials.

mod control;
mod exchange;
mod fault;
mod handle;
mod http;
mod rule;
mod state;
#[cfg(test)]
mod tests;
mod upstream;

pub use fault::{Answer, Fault, HoldWhat, Moment, Which};
pub use handle::{Options, Proxy};
pub use rule::{Rule, RuleError, When};
pub use state::{Client, Held, Late, Seen};
pub use upstream::{Upstream, UpstreamError};
