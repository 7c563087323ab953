//! Plays publications that fail in every way, and checks what became of each.
//!
//! The last line is `publications=… published=… not_published=… unresolved=… lost=0 doubled=0`; the exit code is 1 unless
//! every publication is visible exactly as it was told, and 2 where nothing could be played.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use integration::beds::{SERVICES, Service};
use integration::chaos::{Options, Watch, run as play};
use integration::{HarnessError, Result};

/// Publishes through faults, kills and conflicts on real catalogs, and counts every row
#[derive(Debug, clap::Args)]
pub struct ChaosArgs {
    /// How many publications
    #[arg(long, default_value_t = 200)]
    publications: u64,
    /// What faults, kills and verbs are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// On which catalog
    #[arg(long, value_enum, default_value_t = Catalog::Both)]
    catalog: Catalog,
    /// How many publications at once
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// How many publications on one table
    #[arg(long, default_value_t = 60)]
    a_table: u64,
    /// Plays this one alone, and prints its log
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Keeps the files and logs of all in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Catalog {
    Seaweedfs,
    Reference,
    Both,
}

/// A bar where somebody looks.
struct Shown(ProgressBar);

impl Watch for Shown {
    fn over(&self) {
        self.0.inc(1);
    }

    fn wrong(&self, story: &str) {
        self.0.suspend(|| eprintln!("{story}"));
    }
}

/// Runs the command.
pub fn run(args: &ChaosArgs) -> Result<ExitCode> {
    let ChaosArgs { publications, seed, catalog, jobs, a_table, only, keep } = args;
    let services = match catalog {
        Catalog::Seaweedfs => vec![Service::SeaweedFs],
        Catalog::Reference => vec![Service::Reference],
        Catalog::Both => SERVICES.to_vec(),
    };
    let temporary = tempfile::tempdir().map_err(|error| HarnessError::io("a temporary folder", &error))?;
    // The log of the one is printed from where it is kept.
    let keep = keep.clone().or_else(|| only.map(|_| temporary.path().to_owned()));
    let options = Options {
        publications: *publications,
        seed: *seed,
        services,
        jobs: *jobs,
        a_table: *a_table,
        only: *only,
        keep: keep.clone(),
    };
    println!("seed {seed}; one publication again: the same line with --only NUMBER");
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} publications, {elapsed}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(only.map_or(*publications, |_| 1)).with_style(style);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| HarnessError::io("the runtime", &error))?;
    let report = runtime.block_on(play(&options, Arc::new(Shown(bar.clone()))))?;
    bar.finish_and_clear();
    if let (Some(number), Some(folder)) = (only, keep) {
        let log = folder.join(format!("p{number}.log"));
        println!("{}", std::fs::read_to_string(&log).map_err(|error| HarnessError::io(log.display(), &error))?);
    }
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
