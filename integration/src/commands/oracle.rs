//! Holds the verdict over moved bases against every row of small random tables.
//!
//! The last line is `cases=N wrong_reattach=0 needless_rebuild=<n>`; the exit code is 1 unless no reattach was wrong.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use calve::testing::oracle::{Judgement, examine, tape};
use integration::{HarnessError, Result};

/// Compares the verdict over a moved base with the rows of small random tables.
#[derive(Debug, clap::Args)]
pub struct OracleArgs {
    /// How many tables
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    cases: u64,
    /// Other seeds make other tables, the same seed the same ones
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Examine this case of the seed alone, and print it
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
}

/// Runs the command.
pub fn run(args: &OracleArgs) -> Result<ExitCode> {
    if let Some(number) = args.only {
        let case = examine(&tape(args.seed, number));
        println!("{}\n{:?}\n{:?}", case.told, case.verdict, case.judgement);
        return Ok(ExitCode::SUCCESS);
    }
    let (next, wrong, needless) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (reattach, rebuild) = (AtomicU64::new(0), AtomicU64::new(0));
    let one = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= args.cases {
                return;
            }
            let case = examine(&tape(args.seed, number));
            let verdict = if case.verdict.is_reattach() { &reattach } else { &rebuild };
            let _before = verdict.fetch_add(1, Ordering::Relaxed);
            match case.judgement {
                Judgement::Right => {}
                Judgement::NeedlessRebuild => {
                    let _before = needless.fetch_add(1, Ordering::Relaxed);
                }
                Judgement::WrongReattach(why) | Judgement::WrongConcern(why) => {
                    let before = wrong.fetch_add(1, Ordering::Relaxed);
                    if before < 3 {
                        println!("case {number} of seed {}: {why}\n{:?}\n{}", args.seed, case.verdict, case.told);
                    }
                }
            }
            if (number + 1).is_multiple_of(10_000) {
                eprintln!("{} cases, {} wrong", number + 1, wrong.load(Ordering::Relaxed));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ended = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(std::thread::ScopedJoinHandle::join).all(|ended| ended.is_ok())
    });
    if !ended {
        return Err(HarnessError("a case could not be examined".to_owned()));
    }
    let (wrong, needless) = (wrong.into_inner(), needless.into_inner());
    println!("reattach={} rebuild={}", reattach.into_inner(), rebuild.into_inner());
    println!("cases={} wrong_reattach={wrong} needless_rebuild={needless}", args.cases);
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
