//! Plants the bugs of `integration/mutants.toml` one by one, and says which the tests catch.
//!
//! The last line is `mutants=<caught>/<all>`; the exit code is 1 unless all were caught, and 2 where nothing could be tried.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use integration::mutants::{Fate, Mutant, Workshop, apply, parse};
use integration::{HarnessError, Result, cache, source_root};

/// Plants bugs one by one, and says which the tests catch; takes an hour or so.
#[derive(Debug, clap::Args)]
pub struct MutantsArgs {
    /// Show the bugs and do nothing
    #[arg(long, conflicts_with = "only")]
    list: bool,
    /// Plant this one alone; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// Runs the command.
pub fn run(args: &MutantsArgs) -> Result<ExitCode> {
    let path = source_root().join("integration/mutants.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| HarnessError::io(path.display(), &error))?;
    let all = parse(&text)?;
    if args.list {
        for Mutant { name, rule, file, .. } in &all {
            println!("{name:34} {file:30} {rule}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let only = &args.only;
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|mutant| mutant.name == **name)) {
        return Err(HarnessError(format!("no mutant is called {unknown}; --list shows them")));
    }
    let chosen: Vec<_> = all.iter().filter(|mutant| only.is_empty() || only.contains(&mutant.name)).collect();
    run_all(&chosen)
}

fn run_all(mutants: &[&Mutant]) -> Result<ExitCode> {
    // Not a cache entry but a workplace: kept between runs so that only what changed is built, and used by one run at
    // a time.
    let folder = cache::root()?.join("mutants");
    let _lock = cache::lock("mutants")?;
    std::fs::create_dir_all(&folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
    let workshop = Workshop::new(&source_root(), &folder)?;
    for mutant in mutants {
        apply(mutant, &workshop.read(&mutant.file)?)?;
    }
    let selections: BTreeSet<_> =
        mutants.iter().map(|mutant| (mutant.target.as_str(), mutant.filter.as_str())).collect();
    for (target, filter) in selections {
        let number = workshop.baseline(target, filter)?;
        println!("{target} {filter}: {number} tests pass without mutants");
    }
    println!();
    let mut caught = 0;
    for mutant in mutants {
        let started = Instant::now();
        let fate = workshop.try_mutant(mutant)?;
        caught += usize::from(fate == Fate::Caught);
        println!("{:8} {:34} {:4} s  {}", fate.word(), mutant.name, started.elapsed().as_secs(), mutant.rule);
        if let Fate::Invalid(shown) = fate {
            println!("{shown}");
        }
    }
    println!("\nmutants={caught}/{}", mutants.len());
    Ok(if caught == mutants.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
