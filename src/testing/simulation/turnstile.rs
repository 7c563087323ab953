//! One process at a time: each stops at every call of a port, until it is let through.
//!
//! A process is a future that nobody else polls. What it does between two calls (reading files, checking rows) may use
//! other threads; it has come to rest when it stands at a turnstile again, so that no order of threads is ever seen.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

/// Those of one process who want to make a call. There may be two: a lease is renewed in the middle of other work, which
/// is not polled meanwhile, and may have been let through already.
#[derive(Debug, Default)]
struct Calls {
    last: u64,
    waiting: VecDeque<u64>,
    granted: BTreeSet<u64>,
}

/// Where one process waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Turnstile(Mutex<Calls>);

impl Turnstile {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the turn to make a call.
    pub async fn pass(&self) {
        let number = {
            let mut calls = self.lock();
            calls.last = calls.last.wrapping_add(1);
            let number = calls.last;
            calls.waiting.push_back(number);
            number
        };
        // Who gives up no longer waits.
        let call = Call { turnstile: self, number };
        std::future::poll_fn(|_| match self.lock().granted.contains(&call.number) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Lets through whoever has waited longest.
    fn grant(&self) {
        let mut calls = self.lock();
        let first = calls.waiting.pop_front();
        calls.granted.extend(first);
    }

    fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

struct Call<'a> {
    turnstile: &'a Turnstile,
    number: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut calls = self.turnstile.lock();
        calls.waiting.retain(|number| *number != self.number);
        let _granted = calls.granted.remove(&self.number);
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
        self.turnstile.grant();
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

    /// What is renewed beside the work makes its calls while the work stands at one of its own.
    #[tokio::test]
    async fn two_of_one_process_both_get_through() {
        let turnstile = Arc::new(Turnstile::default());
        let (work, beside) = (turnstile.clone(), turnstile.clone());
        let mut process = Process::new(turnstile, async move {
            let mut work = Box::pin(async {
                work.pass().await;
                work.pass().await;
                7
            });
            let first = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            assert!(first.is_pending());
            beside.pass().await;
            work.await
        });
        let mut turns = 1;
        while !matches!(process.turn().await, Stop::Ended(7)) {
            turns += 1;
        }
        assert_eq!(turns, 4);
    }
}
