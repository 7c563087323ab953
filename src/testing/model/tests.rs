//! A bounded version: what a debug build explores in seconds.

use super::*;

fn broken(explored: &Explored) -> Vec<String> {
    let told = |found: &Found| format!("{:?}: {}\n{}", found.invariant, found.reason, found.trace.join("\n"));
    explored.found.iter().map(told).collect()
}

/// Breadth first, so that what needs the fewest steps is seen whatever the limit.
#[test]
fn nothing_is_broken_within_the_first_states() {
    for config in CONFIGS {
        let explored = explore(&Config { limit: 2_500, ..*config }, &Rules::REAL, None, &mut |_| {});
        assert!(explored.states >= 2_000, "{}: {} states", config.name, explored.states);
        assert!(broken(&explored).is_empty(), "{}:\n{}", config.name, broken(&explored).join("\n\n"));
    }
}

/// And none of them is caught by what the real rules do in the same configuration.
#[test]
fn every_mutant_is_caught_by_what_it_breaks() {
    let mut guarded: Vec<Invariant> = Vec::new();
    for mutant in mutants() {
        let explored = explore(&mutant.config, &mutant.rules, Some(mutant.guard), &mut |_| {});
        let found = explored.found.iter().find(|found| found.invariant == mutant.guard);
        assert!(found.is_some_and(|found| !found.trace.is_empty()), "{} survived", mutant.name);
        let limit = explored.states + 1;
        let real = explore(&Config { limit, ..mutant.config }, &Rules::REAL, None, &mut |_| {});
        assert!(broken(&real).is_empty(), "{} with the real rules:\n{}", mutant.name, broken(&real).join("\n\n"));
        guarded.push(mutant.guard);
    }
    guarded.sort();
    guarded.dedup();
    assert_eq!(guarded, INVARIANTS);
}
