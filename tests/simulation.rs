//! Seeds of the deterministic simulation, planted bugs that it has to find, and that a seed decides everything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use calve::testing::simulation::{Planted, report, simulate};

/// The seeds that an ordinary run of the tests takes; among them are such as find each planted bug.
const SEEDS: std::ops::Range<u64> = 8..20;

#[test]
fn no_rule_is_broken() {
    let seeds = match std::env::var("CALVE_SIM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("CALVE_SIM_SEED is a number");
            println!("{}", simulate(seed, None).trace);
            seed..seed + 1
        }
        Err(_) => SEEDS,
    };
    for seed in seeds {
        if simulate(seed, None).violation.is_some() {
            panic!("{}", report(seed, None).expect("a seed decides everything"));
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in 8..10 {
        let (one, other) = (simulate(seed, None).trace.whole(), simulate(seed, None).trace.whole());
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for planted in Planted::ALL {
        let found = (10..200).find(|seed| simulate(*seed, Some(planted)).violation.is_some());
        let seed = found.unwrap_or_else(|| panic!("{planted:?} was not found"));
        println!("{planted:?} is found by seed {seed}");
        if planted == Planted::MainIgnored {
            let report = report(seed, Some(planted)).expect("a seed decides everything");
            for words in [format!("--seed {seed}"), "breaks I7".to_owned(), "PUBLISH is applied".to_owned()] {
                assert!(report.contains(&words), "{words}: {report}");
            }
        }
    }
}
