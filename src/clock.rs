//! Time and fresh ids, behind one trait, so that a simulation replays both.

use std::fmt::Debug;
use std::sync::Mutex;

use chrono::{DateTime, Duration, TimeZone, Utc};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;
use uuid::Uuid;

use crate::ids::{IdempotencyKey, Incarnation, SnapshotId};

/// Where the coordinator takes time and fresh ids from.
pub trait Clock: Debug + Send + Sync {
    /// The present instant.
    fn now(&self) -> DateTime<Utc>;

    /// Does it show a time of its own making, which no other clock can be held against?
    fn is_simulated(&self) -> bool {
        false
    }

    /// Waits until so much time has passed by this clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration.to_std().unwrap_or_default()).boxed()
    }

    /// A fresh random UUID.
    fn fresh_uuid(&self) -> Uuid;

    /// A fresh UUIDv7 for one request.
    fn fresh_key(&self) -> IdempotencyKey;

    /// A fresh incarnation for BEGIN.
    fn fresh_incarnation(&self) -> Incarnation {
        Incarnation(self.fresh_uuid())
    }

    /// A fresh positive snapshot id, from the bits of a random UUID as Iceberg's own writers do.
    fn fresh_snapshot_id(&self) -> SnapshotId {
        let (high, low) = self.fresh_uuid().as_u64_pair();
        let bits = (high ^ low) & (i64::MAX as u64);
        SnapshotId(i64::try_from(bits).unwrap_or(1).max(1))
    }
}

/// The machine's clock and random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[allow(clippy::disallowed_methods, reason = "the one place that may")]
impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn fresh_key(&self) -> IdempotencyKey {
        IdempotencyKey(Uuid::now_v7())
    }
}

/// A clock that moves only when told, with ids counted up from a seed.
///
/// It starts at the machine's time, because Iceberg's metadata builder compares snapshot times with its own clock.
#[derive(Debug)]
pub struct ManualClock(Mutex<(DateTime<Utc>, u64)>, watch::Sender<DateTime<Utc>>);

impl ManualClock {
    /// A clock at `now` whose ids follow from `seed`.
    pub fn new(now: DateTime<Utc>, seed: u64) -> Self {
        // Mixed, so that two clocks of neighbouring seeds do not give the same ids one step apart.
        Self(Mutex::new((now, mix(seed))), watch::Sender::new(now))
    }

    /// A clock at the machine's present time.
    pub fn starting_now(seed: u64) -> Self {
        Self::new(SystemClock.now(), seed)
    }

    /// Moves time on by `milliseconds`.
    pub fn advance_ms(&self, milliseconds: i64) {
        let now = {
            let mut state = self.lock();
            state.0 += Duration::milliseconds(milliseconds);
            state.0
        };
        let _before = self.1.send_replace(now);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (DateTime<Utc>, u64)> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// SplitMix64: a full-period mix, so ids never repeat within a run.
    fn next(&self) -> u64 {
        let mut state = self.lock();
        state.1 = state.1.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state.1)
    }
}

/// The mixing step of SplitMix64: a bijection.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.lock().0
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let end = self.now().checked_add_signed(duration);
        let mut time = self.1.subscribe();
        async move {
            let there = |now: &DateTime<Utc>| end.is_some_and(|end| *now >= end);
            // A clock that is gone never gets there.
            if time.wait_for(there).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn fresh_uuid(&self) -> Uuid {
        let (high, low) = (self.next(), self.next());
        uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes()).into_uuid()
    }

    fn fresh_key(&self) -> IdempotencyKey {
        let millis = u64::try_from(self.now().timestamp_millis()).unwrap_or(0);
        let random = self.next().to_be_bytes();
        let mut tail = [0u8; 10];
        tail[..8].copy_from_slice(&random);
        IdempotencyKey(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
    }
}

/// Milliseconds since 1970 as an instant; `None` outside chrono's range.
pub fn instant(millis: i64) -> Option<DateTime<Utc>> {
    Utc.timestamp_millis_opt(millis).single()
}
