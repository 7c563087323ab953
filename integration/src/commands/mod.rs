//! The commands of `cargo run -p integration -- …`, one file each.

pub mod chaos;
pub mod model;
pub mod mutants;
pub mod oracle;
pub mod proxy;
pub mod simulate;
pub mod up;
