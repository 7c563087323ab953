//! How a command ends: its exit code, and what is said when there is no report.

use std::fmt;
use std::io::{self, Write};

use serde_json::json;

use crate::catalog::CatalogError;
use crate::contract::ContractError;
use crate::coordinator;
use crate::journal::JournalError;
use crate::publish::outcome::{EXIT_FAILED, EXIT_USAGE};
use crate::report::page::clean;

/// Why a command has no report: a code, and a message with the remedy.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// What a command comes to: the exit code of its report, or why it has none.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// What was given is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: EXIT_USAGE, message: message.into() }
    }

    /// calve or the machine failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: EXIT_FAILED, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<coordinator::Error> for Failure {
    fn from(error: coordinator::Error) -> Self {
        Self { code: error.exit_code(), message: error.to_string() }
    }
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        coordinator::Error::from(error).into()
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        coordinator::Error::from(error).into()
    }
}

impl From<ContractError> for Failure {
    fn from(error: ContractError) -> Self {
        coordinator::Error::from(error).into()
    }
}

/// Says why there is no report: as JSON on standard output, or as a line on standard error.
pub(super) fn complain(failure: &Failure, as_json: bool) -> u8 {
    if as_json {
        let object = json!({"error": {"code": failure.code, "message": failure.message}});
        // Where nothing can be written, the exit code still speaks.
        write_out(&format!("{object}\n")).ok();
    } else {
        let lines: Vec<_> = failure.message.lines().map(clean).collect();
        writeln!(io::stderr().lock(), "error: {}", lines.join("\n")).ok();
    }
    failure.code
}

/// Writes to standard output. A reader that went away is no error: it has seen what it wanted.
pub(super) fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Replaces the message of a panic by one that says what it means and what to do.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        writeln!(
            io::stderr().lock(),
            "error: this is a bug in calve {}: {}{place}\n\
             Tables are safe: a change is one commit or none. `calve status` and `calve reconcile TABLE` say where things \
             stand.",
            env!("CARGO_PKG_VERSION"),
            clean(what)
        )
        .ok();
    }));
}

/// The exit code after a panic, with the JSON object that a reader of JSON waits for.
pub fn after_panic() -> u8 {
    if super::wants_json(std::env::args_os()) {
        let message = "this is a bug in calve; standard error says more, and `calve reconcile` where things stand";
        return complain(&Failure::failed(message), true);
    }
    EXIT_FAILED
}
