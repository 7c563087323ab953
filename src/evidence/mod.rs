//! Check results, statements, and the verdict over them.

pub mod check;
pub mod policy;
pub mod statement;
