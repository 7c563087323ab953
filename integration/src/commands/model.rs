//! Explores the states of the protocol's model, each configuration up to a limit, and says whether an invariant was broken.
//!
//! The last line is `states=<n> invariants=<n> violations=<n> mutants=<caught>/<all>`; the exit code is 1 where an
//! invariant was broken or a mutant was not caught.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Instant;

use calve::testing::model::{CONFIGS, Config, Explored, Found, INVARIANTS, Mutant, Rules, explore, mutants};
use integration::{HarnessError, Result};

/// Explores the states of the protocol's model, each configuration up to a limit; takes some minutes.
#[derive(Debug, clap::Args)]
pub struct ModelArgs {
    /// Show the configurations and mutants and do nothing
    #[arg(long, conflicts_with_all = ["config", "mutant"])]
    list: bool,
    /// Explore this configuration alone
    #[arg(long, value_name = "NAME", conflicts_with = "mutant")]
    config: Option<String>,
    /// Try this mutant alone, and show the whole trace
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    /// End each configuration after so many states
    #[arg(long, value_name = "STATES")]
    limit: Option<usize>,
    /// Give the two coordinators so many commands, instead of the configuration's own
    #[arg(long, value_name = "A,B", value_parser = pair)]
    commands: Option<[u8; 2]>,
    /// Kill processes so often
    #[arg(long, value_name = "N")]
    crashes: Option<u8>,
    /// Let the network fail so often
    #[arg(long, value_name = "N")]
    faults: Option<u8>,
    /// Let others act so often
    #[arg(long, value_name = "N")]
    acts: Option<u8>,
}

impl ModelArgs {
    fn over(&self, config: &Config) -> Config {
        Config {
            limit: self.limit.unwrap_or(config.limit),
            commands: self.commands.unwrap_or(config.commands),
            crashes: self.crashes.unwrap_or(config.crashes),
            faults: self.faults.unwrap_or(config.faults),
            acts: self.acts.unwrap_or(config.acts),
            ..*config
        }
    }
}

fn pair(given: &str) -> std::result::Result<[u8; 2], String> {
    let parsed = given.split_once(',').map(|(a, b)| (a.parse(), b.parse()));
    match parsed {
        Some((Ok(a), Ok(b))) => Ok([a, b]),
        _ => Err("two numbers were expected, e.g. 2,1".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &ModelArgs) -> Result<ExitCode> {
    let all = mutants();
    if args.list {
        for config in CONFIGS {
            println!("{:26} from {:?}, format version {}", config.name, config.start, config.format);
        }
        for mutant in &all {
            println!("{:26} {:?}: {}", mutant.name, mutant.guard, mutant.breaks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let configs: Vec<&Config> = match &args.config {
        Some(name) => vec![named(CONFIGS.iter(), name, |config| config.name)?],
        None if args.mutant.is_some() => Vec::new(),
        None => CONFIGS.iter().collect(),
    };
    let tried: Vec<&Mutant> = match &args.mutant {
        Some(name) => vec![named(all.iter(), name, |mutant| mutant.name)?],
        None if args.config.is_some() => Vec::new(),
        None => all.iter().collect(),
    };
    let (mut states, mut violations, mut published) = (0, 0, 0);
    let mut told = BTreeSet::new();
    for config in configs {
        let started = Instant::now();
        let config = args.over(config);
        let explored = explore(&config, &Rules::REAL, None, &mut progress(config.name));
        println!("{}", line(config.name, &explored, started));
        for found in &explored.found {
            show(found);
        }
        for (row, code) in explored.told.keys() {
            let _new = told.insert((*row, *code));
        }
        published += explored.published;
        states += explored.states;
        violations += explored.violations.values().sum::<usize>();
    }
    if published > 0 {
        let rows: BTreeSet<u8> = told.iter().filter_map(|(row, _)| *row).collect();
        let codes: BTreeSet<u8> = told.iter().map(|(_, code)| *code).collect();
        println!("{published} times a PUBLISH was applied; rows told {rows:?}; exit codes {codes:?}");
    }
    let mut caught = 0;
    for mutant in &tried {
        let started = Instant::now();
        let explored = explore(&mutant.config, &mutant.rules, Some(mutant.guard), &mut progress(mutant.name));
        let found = explored.found.iter().find(|found| found.invariant == mutant.guard);
        caught += usize::from(found.is_some());
        let fate = if found.is_some() { "caught" } else { "SURVIVED" };
        println!("{fate:8} {:?} {}; {}", mutant.guard, line(mutant.name, &explored, started), mutant.breaks);
        if let Some(found) = found.filter(|_| args.mutant.is_some()) {
            show(found);
        } else if let Some(found) = found {
            println!("         {}: {} steps, the last: {}", found.reason, found.trace.len(), last(found));
        }
    }
    println!(
        "states={states} invariants={} violations={violations} mutants={caught}/{}",
        INVARIANTS.len(),
        tried.len()
    );
    let fine = violations == 0 && caught == tried.len();
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn named<'a, T>(mut all: impl Iterator<Item = &'a T>, name: &str, of: fn(&T) -> &'static str) -> Result<&'a T> {
    all.find(|one| of(one) == name).ok_or_else(|| HarnessError(format!("nothing is called {name}; --list shows them")))
}

fn progress(name: &'static str) -> impl FnMut(usize) {
    let terminal = std::io::stderr().is_terminal();
    move |states| {
        if terminal {
            eprint!("\r{name}: {states} states\r");
        }
    }
}

fn line(name: &str, explored: &Explored, started: Instant) -> String {
    format!(
        "{name:26} {:8} {} {:9} steps {:6} tables {:7} logs {:4} s",
        explored.states,
        if explored.whole { "states      " } else { "first states" },
        explored.transitions,
        explored.tables,
        explored.logs,
        started.elapsed().as_secs()
    )
}

fn last(found: &Found) -> &str {
    found.trace.iter().rev().find(|line| !line.starts_with("     the")).map_or("", |line| line.trim())
}

fn show(found: &Found) {
    println!("{:?} is broken: {}", found.invariant, found.reason);
    for line in &found.trace {
        println!("  {line}");
    }
}
