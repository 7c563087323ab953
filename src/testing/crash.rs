//! Processes that end at a step around their commit.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::Bed;
use crate::coordinator::{Coordinator, Step, StepHook};
use crate::journal::record::Verb;

/// Every step around a commit, in order.
pub const STEPS: [Step; 4] = [Step::Intended, Step::Answered, Step::Recorded, Step::Decided];

/// Stops for ever at one step of one verb, and says when it is there.
#[derive(Debug)]
struct CrashAt {
    verb: Verb,
    step: Step,
    there: Notify,
}

#[async_trait]
impl StepHook for CrashAt {
    async fn reached(&self, verb: Verb, step: Step) {
        if (verb, step) == (self.verb, self.step) {
            self.there.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// Runs a use case until it reaches the step, and drops it there as a killed process would be.
pub async fn crash<F, Fut, T>(bed: &Bed, verb: Verb, step: Step, run: F)
where
    F: FnOnce(Coordinator) -> Fut,
    Fut: Future<Output = T>,
{
    let hook = Arc::new(CrashAt { verb, step, there: Notify::new() });
    let doomed = bed.coordinator("ann").with_steps(hook.clone());
    tokio::select! {
        biased;
        _ = run(doomed) => panic!("{verb:?} went past {step:?}"),
        () = hook.there.notified() => {}
    }
}
