//! `classify` against a judge that knows every row: it never says reattach where the rows would differ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use calve::testing::oracle::{Judgement, examine, tape};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// What the cases are made from; another seed makes others.
const SEED: [u8; 32] = *b"calve: oracle of moved bases, 01";

#[test]
fn reattaching_never_gives_other_rows() {
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    println!("seed {:?}", std::str::from_utf8(&SEED).unwrap());
    let done = runner.run(&prop::collection::vec(any::<u32>(), 40..400), |tape| {
        let case = examine(&tape);
        match case.judgement {
            Judgement::Right | Judgement::NeedlessRebuild => Ok(()),
            Judgement::WrongReattach(why) => {
                Err(TestCaseError::fail(format!("{why}\n{:?}\n{}", case.verdict, case.told)))
            }
            Judgement::WrongConcern(why) => Err(TestCaseError::fail(format!("{why}\n{}", case.told))),
        }
    });
    done.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Both verdicts occur often, or the property above would say little.
#[test]
fn cases_are_of_every_kind() {
    let mut seen = [0; 3];
    for number in 0..1_000 {
        let case = examine(&tape(1, number));
        seen[match (case.verdict.is_reattach(), case.judgement) {
            (true, _) => 0,
            (false, Judgement::Right) => 1,
            (false, _) => 2,
        }] += 1;
    }
    println!("reattach {}, rebuild {}, needless rebuild {}", seen[0], seen[1], seen[2]);
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
