//! The `calve` command.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use calve::cli;

fn main() -> ExitCode {
    cli::report_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the machine gives no threads to work with: {error}");
            return ExitCode::from(1);
        }
    };
    let run = AssertUnwindSafe(|| runtime.block_on(cli::run(std::env::args_os())));
    ExitCode::from(catch_unwind(run).unwrap_or_else(|_| cli::after_panic()))
}
