//! What is wrong with a catalog, with the way to it, or with what is said of it in the settings, by the real command over
//! real catalogs: the exit code, a message that names the place and the remedy, and nothing lost.
//!
//! | file | holds |
//! |---|---|
//! | `reach` | wrong URIs, wrong credentials, servers that are no catalog, stores that cannot be reached |
//! | `replies` | tokens that expire mid-way, and proxies that answer for the catalog |
//! | `clocks` | clocks that are a day off |
//! | `journals` | a journal's store that goes away |
//! | `secrets` | that none of it shows a secret |
//! | `front`, `world` | the server in between, and the working directory |

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clocks;
mod front;
mod journals;
mod reach;
mod replies;
mod secrets;
mod world;
