//! Truth tables of the verdict.

mod kit;
mod operations;
mod reading;
mod shape;
