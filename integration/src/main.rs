//! `cargo run -p integration -- COMMAND`: the harness by hand.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{chaos, model, mutants, oracle, proxy, simulate, up};

/// Real services for calve, and what is done with them.
#[derive(Debug, Parser)]
#[command(name = "integration", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Chaos(chaos::ChaosArgs),
    Up(up::UpArgs),
    Model(model::ModelArgs),
    Mutants(mutants::MutantsArgs),
    Oracle(oracle::OracleArgs),
    Proxy(proxy::ProxyArgs),
    Simulate(simulate::SimulateArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Chaos(args) => chaos::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Oracle(args) => oracle::run(&args),
        Command::Proxy(args) => proxy::run(args),
        Command::Simulate(args) => simulate::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("integration: {error}");
        ExitCode::from(2)
    })
}
