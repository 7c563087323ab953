//! `doctor`: what is risky in the settings of tables, of their catalog and of the journal. It looks, and changes nothing.
//!
//! What was read is [`facts`] as plain data, and what is concluded from it is [`rules`]. Source: `protocol.md`,
//! "Settings that are risky".

mod facts;
mod observe;
mod rules;
#[cfg(test)]
mod tests;

pub use facts::JournalKind;
pub use observe::DoctorRequest;
