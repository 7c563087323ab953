//! Small random tables, a candidate and other writers on them, and a judge that knows every row.
//!
//! [`examine`] makes one case out of a tape of numbers, so that a property test can shrink it and a seed can repeat it:
//! a table `N`, a candidate planned on it, what others made of it (`M`). It asks [`crate::conflict::classify`] for its
//! verdict, and holds that against the rows themselves:
//!
//! - the rows that the job may have read or owns (q) are the same in `N` and in `M`;
//! - the candidate's files put on `M` take away exactly the rows that they took away on `N`, as far as `M` still has them,
//!   and add exactly those that they added.
//!
//! Where either fails, the same job on `M` would have come to another table, and *reattach* is wrong. Where both hold,
//! *rebuild* is needless, which is no fault: metadata cannot show that a file was rewritten with the same rows.
//!
//! The judge applies deletes by the words of the Iceberg spec ("Scan Planning") to rows in memory. It shares with calve
//! the transforms, as any writer does, and the evaluation of a filter on rows, which has its own tests.
//!
//! `cargo run --release -p integration -- oracle --cases N --seed S` examines many; `--only NUMBER` prints one.

mod draws;
mod judge;
mod operations;
mod rows;
mod state;

pub use draws::tape;
pub use judge::{Examined, Judgement, examine};
