//! One process at a time: each stops at every call of a port, until it is let through.
//!
//! A process is a future that nobody else polls. What it does between two calls (reading files, checking rows) may use
//! other threads; it has come to rest when it stands at a turnstile again, so that no order of threads is ever seen.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

#[derive(Debug, Default)]
enum Turn {
    /// It works, or has not started.
    #[default]
    Working,
    /// It wants to make a call.
    Waiting,
    /// It may make it.
    Granted,
}

/// Where one process waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Turnstile(Mutex<Turn>);

impl Turnstile {
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the turn to make a call.
    pub async fn pass(&self) {
        *self.lock() = Turn::Waiting;
        std::future::poll_fn(|_| {
            let mut turn = self.lock();
            match *turn {
                Turn::Granted => {
                    *turn = Turn::Working;
                    Poll::Ready(())
                }
                Turn::Working | Turn::Waiting => Poll::Pending,
            }
        })
        .await;
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.lock(), Turn::Waiting)
    }
}

/// A process. Dropped, it has crashed.
pub(super) struct Process<T> {
    turnstile: Arc<Turnstile>,
    work: Pin<Box<dyn Future<Output = T>>>,
}

impl<T> fmt::Debug for Process<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("turnstile", &self.turnstile).finish_non_exhaustive()
    }
}

/// Where a process stands after its turn.
#[derive(Debug)]
pub(super) enum Stop<T> {
    /// It wants to make another call.
    Waiting,
    /// It has ended.
    Ended(T),
}

impl<T> Process<T> {
    /// A process that has not started; its ports wait at this turnstile.
    pub fn new(turnstile: Arc<Turnstile>, work: impl Future<Output = T> + 'static) -> Self {
        Self { turnstile, work: Box::pin(work) }
    }

    /// Lets it make the call that it waits for, and runs it until it wants to make the next.
    pub async fn turn(&mut self) -> Stop<T> {
        *self.turnstile.lock() = Turn::Granted;
        std::future::poll_fn(|context| match self.work.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Stop::Ended(ended)),
            // Pending without a wish means that it waits for its own threads, which wake it.
            Poll::Pending if self.turnstile.is_waiting() => Poll::Ready(Stop::Waiting),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_stops_at_each_call_and_waits_for_its_threads() {
        let turnstile = Arc::new(Turnstile::default());
        let port = turnstile.clone();
        let mut process = Process::new(turnstile, async move {
            port.pass().await;
            let found = tokio::task::spawn_blocking(|| 7).await.unwrap();
            port.pass().await;
            found
        });
        assert!(matches!(process.turn().await, Stop::Waiting));
        assert!(matches!(process.turn().await, Stop::Waiting));
        assert!(matches!(process.turn().await, Stop::Ended(7)));
    }
}
