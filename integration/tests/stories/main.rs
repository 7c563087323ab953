//! What people do with engines around calve, on real catalogs, by the real command: Spark and PyIceberg write the branches
//! that calve opened, four readers read what it published, Spark streams from the table and maintains it.
//!
//! One program, so that the services are started once. Tests have tables of their own, and share the Spark session, in
//! which one thing runs at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod bypasses;
mod examples;
mod maintenance;
mod reading;
mod streaming;
mod writes;
