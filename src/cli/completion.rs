//! `calve completion`.

use clap::CommandFactory as _;

use super::args::{CommandLine, Completion};
use super::exit::{Failure, Outcome, write_out};
use crate::publish::outcome::EXIT_DONE;

/// Prints the script.
pub(super) fn run(args: &Completion) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "calve", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::failed(error.to_string()))?;
    write_out(&script).map_err(|error| Failure::failed(format!("the script cannot be written: {error}")))?;
    Ok(EXIT_DONE)
}
