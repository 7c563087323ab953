//! Progress of long work, on a terminal.

use std::io::{IsTerminal as _, stderr};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::data::Progress;
use crate::report::page::{clean, count};

/// A line on standard error that is redrawn, and gone when the work is done.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Says whether anything is drawn at all.
    shown: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bar: ProgressBar,
    rows: u64,
}

impl Terminal {
    /// Draws only where someone looks: on a terminal, and not where silence or JSON was asked for.
    pub(super) fn new(silent: bool) -> Self {
        let state = State { bar: ProgressBar::hidden(), rows: 0 };
        Self { shown: !silent && stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// Clears the line, so that a report may be printed.
    pub(super) fn finish(&self) {
        self.state().bar.finish_and_clear();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Progress for Terminal {
    fn stage(&self, what: &str, total_bytes: Option<u64>) {
        #[cfg(feature = "testing")]
        super::pause::at_work(what);
        if !self.shown {
            return;
        }
        let template = match total_bytes {
            Some(_) => "{prefix} [{bar:24}] {bytes}/{total_bytes} {msg}",
            None => "{spinner} {prefix} {bytes} {msg}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let mut state = self.state();
        state.bar.finish_and_clear();
        let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr()).with_style(style);
        bar.set_prefix(clean(what));
        *state = State { bar, rows: 0 };
    }

    fn add(&self, rows: u64, bytes: u64) {
        if !self.shown {
            return;
        }
        let mut state = self.state();
        state.rows = state.rows.saturating_add(rows);
        let message = format!("{} rows", count(state.rows));
        state.bar.set_message(message);
        state.bar.inc(bytes);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.finish();
    }
}
