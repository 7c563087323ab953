//! Stops a command at one step, so that a test can end the process exactly there, or change something before it goes on.
//!
//! Only in builds for tests: with `CALVE_TEST_PAUSE_AT=publish:intended` (a step around a commit) or `reading orders.csv`
//! (a piece of long work, as progress names it) the command says on standard error that it is there, and waits for a
//! line `go` on standard input.

use async_trait::async_trait;

use crate::coordinator::{Step, StepHook};
use crate::journal::record::Verb;

const VARIABLE: &str = "CALVE_TEST_PAUSE_AT";

/// Where to stop, as the environment says it.
#[derive(Debug)]
pub(super) struct PauseAt(String);

impl PauseAt {
    /// The step that the environment names, if it names one.
    pub(super) fn from_environment() -> Option<Self> {
        std::env::var(VARIABLE).ok().map(Self)
    }
}

#[async_trait]
impl StepHook for PauseAt {
    async fn reached(&self, verb: Verb, step: Step) {
        let name = format!("{verb:?}:{step:?}").to_lowercase();
        if name == self.0 && tokio::task::spawn_blocking(move || wait(&name)).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Stops where the environment names this piece of work.
pub(super) fn at_work(what: &str) {
    if std::env::var(VARIABLE).is_ok_and(|name| name == what) {
        wait(what);
    }
}

/// Waits until it is told to go on; without anyone to tell, for ever.
fn wait(name: &str) {
    eprintln!("paused at {name}");
    while !matches!(std::io::stdin().lines().next(), Some(Ok(word)) if word == "go") {
        std::thread::park();
    }
}
