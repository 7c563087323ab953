//! Runs seeds of the deterministic simulation, and shows the first that breaks a rule.
//!
//! The last line is `runs=<n> violations=<n> seeds=<first>..<end>`; the exit code is 1 where a rule was broken.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use calve::testing::simulation::{Planted, report, simulate};
use integration::Result;

/// Runs seeds of the deterministic simulation.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    runs: u64,
    /// How many at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    threads: usize,
    /// Show every call of the run, for a single seed
    #[arg(long)]
    trace: bool,
    /// Plant a bug in the catalog, to see it found: main-ignored, receipt-lost or rebases
    #[arg(long, value_name = "NAME", value_parser = planted)]
    planted: Option<Planted>,
    /// Show how often what happened
    #[arg(long)]
    counts: bool,
}

fn planted(name: &str) -> std::result::Result<Planted, String> {
    let named = |planted: &Planted| planted.word() == name;
    Planted::ALL.into_iter().find(named).ok_or_else(|| format!("no planted bug is called {name}"))
}

/// How often progress is told, in runs.
const EVERY: u64 = 100;

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Result<ExitCode> {
    let end = args.seed.saturating_add(args.runs);
    if args.trace {
        print!("{}", simulate(args.seed, args.planted).trace.whole());
    }
    let (next, done) = (AtomicU64::new(args.seed), AtomicU64::new(0));
    let counts: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let broken: Mutex<Vec<u64>> = Mutex::default();
    let started = Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let simulated = simulate(seed, args.planted);
        let mut all = lock(&counts);
        for (what, times) in simulated.counts {
            *all.entry(what).or_default() += u64::from(times);
        }
        if let Some(violation) = simulated.violation {
            eprintln!("seed {seed} breaks {violation}");
            lock(&broken).push(seed);
        }
        let runs = done.fetch_add(1, Ordering::Relaxed) + 1;
        if runs % EVERY == 0 {
            eprintln!("{runs} of {} in {} s", args.runs, started.elapsed().as_secs());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            let _joined_by_the_scope = scope.spawn(work);
        }
    });
    if args.counts {
        for (what, times) in lock(&counts).iter() {
            println!("{times:8}  {what}");
        }
    }
    let mut broken = lock(&broken).clone();
    broken.sort_unstable();
    if let Some(report) = broken.first().and_then(|seed| report(*seed, args.planted)) {
        println!("{report}");
    }
    println!("runs={} violations={} seeds={}..{end}", args.runs, broken.len(), args.seed);
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A thread that panicked has ended the command already.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
