//! The command: reads the command line, calls the coordinator, prints its report.

mod abandon;
mod args;
mod begin;
mod completion;
mod config;
mod contract;
mod create;
mod demo;
mod doctor;
mod exit;
mod log;
#[cfg(feature = "testing")]
mod pause;
mod probe;
mod progress;
mod publish;
mod reconcile;
mod recover;
mod review;
mod run;
mod stage;
mod status;
mod validate;
mod values;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use serde::Serialize;

use args::{Command, CommandLine, Global};
use config::{Environment, Missing, Settings};
use exit::{Failure, Outcome, complain, write_out};
use progress::Terminal;

use crate::coordinator::Coordinator;
use crate::publish::outcome::{EXIT_DONE, EXIT_FAILED, EXIT_USAGE};
use crate::report::Report;

pub use exit::{after_panic, report_panics};

/// Runs one command line to its exit code. Everything is printed by then.
pub async fn run(line: impl IntoIterator<Item = OsString>) -> u8 {
    let line: Vec<_> = line.into_iter().collect();
    let parsed = match CommandLine::try_parse_from(&line) {
        Ok(parsed) => parsed,
        Err(error) => return misread(&error, &line),
    };
    let context = Context { global: parsed.global };
    context.start_tracing();
    let outcome = match parsed.command {
        Command::Demo(args) => demo::run(&context, args).await,
        Command::Create(args) => create::run(&context, args).await,
        Command::Contract(args) => contract::run(&context, args).await,
        Command::Begin(args) => begin::run(&context, args).await,
        Command::Run(args) => run::run(&context, args).await,
        Command::Stage(args) => stage::run(&context, args).await,
        Command::Validate(args) => validate::run(&context, args).await,
        Command::Publish(args) => publish::run(&context, args).await,
        Command::Reconcile(args) => reconcile::run(&context, args).await,
        Command::Recover(args) => recover::run(&context, args).await,
        Command::Abandon(args) => abandon::run(&context, args).await,
        Command::Status(args) => status::run(&context, args).await,
        Command::Log(args) => log::run(&context, args).await,
        Command::Review(args) => review::run(&context, args).await,
        Command::Probe(args) => probe::run(&context, args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Completion(args) => completion::run(&args),
    };
    outcome.unwrap_or_else(|failure| complain(&failure, context.global.json))
}

/// A command line that is no command: help that was asked for, or what is wrong with it.
fn misread(error: &clap::Error, line: &[OsString]) -> u8 {
    if line.len() < 2 {
        // What the environment sets counts as given, and clap shows help only where nothing is.
        write!(std::io::stderr().lock(), "{}", CommandLine::command().render_long_help()).ok();
        return EXIT_USAGE;
    }
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked && wants_json(line) {
        let text = error.to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        return complain(&Failure::usage(message), true);
    }
    // Where nothing can be written, the exit code still speaks.
    error.print().ok();
    if asked { EXIT_DONE } else { EXIT_USAGE }
}

/// Colours, on a terminal, unless `NO_COLOR` says otherwise. Source: no-color.org.
fn wants_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// Was `--json` given? For a command line that could not be parsed as a whole.
fn wants_json(line: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> bool {
    line.into_iter().take_while(|word| word.as_ref() != "--").any(|word| word.as_ref() == "--json")
}

/// What every command works with.
#[derive(Debug)]
struct Context {
    global: Global,
}

impl Context {
    fn folder(&self) -> Result<PathBuf, Failure> {
        std::env::current_dir().map_err(|error| Failure::failed(format!("the working directory: {error}")))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Settings::find(&self.global, Environment::of_process(self.folder()?))
    }

    async fn coordinator(&self) -> Result<Coordinator, Failure> {
        Ok(Self::within_its_run(self.settings()?.coordinator(Missing::Refuse).await?))
    }

    /// The same for what can be told, or has to be, of a publication whose catalog does not answer.
    async fn coordinator_or_journal(&self) -> Result<Coordinator, Failure> {
        Ok(Self::within_its_run(self.settings()?.coordinator_or_journal().await?))
    }

    fn within_its_run(coordinator: Coordinator) -> Coordinator {
        // Set by `run` for its job. A word that is no lease names none.
        let lease = std::env::var(run::LEASE).ok().and_then(|lease| lease.parse().ok());
        match lease {
            Some(lease) => coordinator.with_inherited_lease(lease),
            None => coordinator,
        }
    }

    fn progress(&self) -> Arc<Terminal> {
        Arc::new(Terminal::new(self.global.json || self.global.quiet))
    }

    /// Prints a report; its exit code.
    fn print(&self, report: &impl Report) -> Outcome {
        if self.global.json {
            self.print_json(report)?;
        } else {
            self.print_text(&report.text())?;
        }
        Ok(report.exit_code())
    }

    /// The same after a change: that its report cannot be shown does not undo it, and its exit code stands.
    fn print_done(&self, report: &impl Report) -> Outcome {
        match self.print(report) {
            Ok(code) => Ok(code),
            Err(failure) => {
                writeln!(std::io::stderr().lock(), "note: {failure}").ok();
                Ok(report.exit_code())
            }
        }
    }

    fn print_json(&self, object: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(object)
            .map_err(|error| Failure::failed(format!("the report cannot be written as JSON: {error}")))?;
        self.print_text(&format!("{line}\n"))
    }

    fn print_text(&self, text: &str) -> Result<(), Failure> {
        write_out(text).map_err(|error| Failure {
            code: EXIT_FAILED,
            message: format!(
                "the report cannot be written to standard output: {error}; `calve status` shows what is done"
            ),
        })
    }

    /// Messages for those who look for a fault, on standard error.
    fn start_tracing(&self) {
        let level = match (self.global.quiet, self.global.verbose) {
            (true, _) => "error",
            (false, 0) => "calve=warn,error",
            (false, 1) => "calve=info,warn",
            (false, 2) => "calve=debug,info",
            // No more of other libraries: what they say of connections is not made to be free of secrets.
            (false, _) => "calve=trace,info",
        };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::new(level))
            .with_writer(std::io::stderr)
            .with_ansi(wants_colour())
            .finish();
        // Only a second command in one process, as tests run them, finds one set already.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_recognised_on_a_broken_line() {
        assert!(wants_json(["calve", "nonsense", "--json"]));
        assert!(!wants_json(["calve", "stage", "--", "--json"]));
    }
}
