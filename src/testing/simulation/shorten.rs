//! Runs a seed, and finds the shortest run of it that still breaks the same rule.

use super::Planted;
use super::plan::Cut;
use super::run::{Simulated, run};

/// Runs one simulation to its end, or to the first rule that is broken.
pub fn simulate(seed: u64, planted: Option<Planted>) -> Simulated {
    cut(seed, planted, &Cut::default())
}

fn cut(seed: u64, planted: Option<Planted>, cut: &Cut) -> Simulated {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(seed, planted, cut))
}

/// How many shorter runs are tried.
const TRIES: u32 = 24;

/// The violation, how to see it again, and the trace of the shortest run that shows it; `None` where there is none.
pub fn report(seed: u64, planted: Option<Planted>) -> Option<String> {
    let first = simulate(seed, planted);
    let violation = first.violation.clone()?;
    let mut best = Cut::default();
    let mut shortest = first;
    // One thing after the other is left out for as long as the same rule is still broken.
    let most = shortest.troubles;
    let mut tries = vec![Cut { troubles: (0..most).collect(), ..Cut::default() }];
    for (operator, tasks) in shortest.tasks.iter().enumerate().rev() {
        let all = (0..*tasks).map(|place| (operator, place)).collect();
        tries.push(Cut { tasks: all, ..Cut::default() });
    }
    tries.extend(
        [0, most / 2].map(|from| Cut { troubles: (from..from + most.div_ceil(2)).collect(), ..Cut::default() }),
    );
    for (operator, tasks) in shortest.tasks.iter().enumerate() {
        tries.extend((0..*tasks).rev().map(|place| Cut { tasks: [(operator, place)].into(), ..Cut::default() }));
    }
    tries.extend((0..most).rev().map(|number| Cut { troubles: [number].into(), ..Cut::default() }));
    let mut left = TRIES;
    for more in tries {
        let mut tried = best.clone();
        tried.tasks.extend(more.tasks);
        tried.troubles.extend(more.troubles);
        if tried == best || left == 0 {
            continue;
        }
        left -= 1;
        let again = cut(seed, planted, &tried);
        let same = again.violation.as_ref().is_some_and(|found| found.rule == violation.rule);
        if same && again.trace.len() <= shortest.trace.len() {
            (best, shortest) = (tried, again);
        }
    }
    let found = shortest.violation.as_ref().unwrap_or(&violation);
    Some(format!(
        "seed {seed} breaks {violation}\n\
         again: cargo run -p integration -- simulate --seed {seed}\n\
         the shortest run of it that was found ({} of {} commands and {} of {most} troubles left out) breaks {found}\n{}",
        best.tasks.len(),
        shortest.tasks.iter().sum::<usize>(),
        best.troubles.len(),
        shortest.trace,
    ))
}
