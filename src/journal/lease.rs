//! Who works on a candidate: leases, kept as records of its log.
//!
//! A lease keeps two jobs from staging to one candidate at once and `recover` from a job that is still running. It is
//! no lock that safety rests on: every commit carries its own requirements. Because a lease is a record like any
//! other, two takers race for one number and one of them loses. Source: `protocol.md`, "Journal".
//!
//! A process that works takes a lease for itself, which ends with the process at the latest. An owner may also reserve a
//! candidate: then every process of that owner may take the lease, one after the other, and nobody else's.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::log::{Appended, Log};
use super::process::Process;
use super::record::{Event, Record};
use super::{JournalError, codec};
use crate::clock::Clock;
use crate::ids::Owner;

/// How long a lease lasts unless said: 24 hours.
pub const DEFAULT_DURATION: Duration = Duration::hours(24);

/// How far the clocks of two machines may differ: another's lease counts as live this much longer than it says.
pub const SKEW_MARGIN: Duration = Duration::minutes(5);

/// A lease as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Tells two processes of one owner apart.
    pub holder: Uuid,
    /// Who it is, for showing.
    pub owner: Owner,
    /// Until when, by the holder's clock.
    pub until: DateTime<Utc>,
    /// Counts every taking and renewing in this log, from 1.
    pub sequence: u32,
    /// The process that holds it, where that is known; `None` for a reservation.
    pub process: Option<Process>,
}

impl Lease {
    /// May the holder still be at work? Until the margin after its end has passed, unless its process has ended.
    pub fn may_be_live(&self, now: DateTime<Utc>) -> bool {
        self.until.checked_add_signed(SKEW_MARGIN).is_none_or(|end| now < end)
            && !self.process.as_ref().is_some_and(Process::has_ended)
    }
}

/// For whom a lease is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeper {
    /// For one process, where the system tells it apart from others.
    Process(Option<Process>),
    /// For every process of the owner.
    Owner,
}

/// What a log says of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseState {
    /// The lease that a process took last and did not release; it may have expired.
    pub lease: Option<Lease>,
    /// The lease that an owner took last for all processes; it may have expired.
    pub reserved: Option<Lease>,
    /// The highest sequence given so far.
    pub sequence: u32,
}

impl LeaseState {
    /// Folds a log's records. A taking whose sequence does not rise was decided from an older log, and is void.
    pub fn of(records: &[Record]) -> Self {
        let mut state = Self::default();
        for record in records {
            match &record.event {
                Event::LeaseTaken { until, sequence, holder, process, reserved } if *sequence > state.sequence => {
                    state.sequence = *sequence;
                    let (holder, owner, until, sequence) = (*holder, record.by.clone(), *until, *sequence);
                    let lease = Some(Lease { holder, owner, until, sequence, process: process.clone() });
                    if *reserved { state.reserved = lease } else { state.lease = lease }
                }
                Event::LeaseReleased { holder } => {
                    state.lease = state.lease.take().filter(|lease| lease.holder != *holder);
                }
                Event::LeaseTaken { .. }
                | Event::Intended { .. }
                | Event::Replied { .. }
                | Event::Decided { .. }
                | Event::CheckFailed { .. }
                | Event::Unrecognised => {}
            }
        }
        state
    }

    /// The lease of another holder, or the reservation of another owner, that may be live.
    pub fn held_by_other(&self, now: DateTime<Utc>, owner: &Owner, holder: Uuid) -> Option<&Lease> {
        let lease = self.lease.as_ref().filter(|lease| lease.holder != holder);
        let reserved = self.reserved.as_ref().filter(|lease| lease.owner != *owner);
        [lease, reserved].into_iter().flatten().find(|lease| lease.may_be_live(now))
    }

    /// The lease that may be live, whoever holds it; a process's before an owner's.
    pub fn live(&self, now: DateTime<Utc>) -> Option<&Lease> {
        [&self.lease, &self.reserved].into_iter().flatten().find(|lease| lease.may_be_live(now))
    }
}

/// Whether a lease was had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "work on a candidate goes on only under a lease of one's own"]
pub enum Taken {
    /// It is ours, recorded durably.
    Ours(Lease),
    /// Another holds it; nothing was recorded.
    Held(Lease),
}

/// Takes the lease, or renews it where `holder` has it already: it then lasts `duration` from now. An expired lease of
/// another may be taken, and a live one never.
pub async fn take(
    log: &mut Log,
    clock: &dyn Clock,
    owner: &Owner,
    holder: Uuid,
    keeper: &Keeper,
    duration: Duration,
) -> Result<Taken, JournalError> {
    // A refusal should not rest on an old reading: the other may have given it back.
    log.refresh().await?;
    loop {
        let now = clock.now();
        let state = LeaseState::of(log.records());
        if let Some(other) = state.held_by_other(now, owner, holder) {
            return Ok(Taken::Held(other.clone()));
        }
        let until = now.checked_add_signed(duration).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let Some(sequence) = state.sequence.checked_add(1) else {
            let (path, number) = (codec::log_path(log.key()), log.last().map_or(0, |record| record.number));
            let reason = "its lease was renewed as often as a number can count".to_owned();
            return Err(JournalError::Impossible { path, number, reason });
        };
        let (process, reserved) = match keeper {
            Keeper::Process(process) => (process.clone(), false),
            Keeper::Owner => (None, true),
        };
        let event = Event::LeaseTaken { until, sequence, holder, process: process.clone(), reserved };
        match log.append(event, clock, owner).await? {
            Appended::Won => return Ok(Taken::Ours(Lease { holder, owner: owner.clone(), until, sequence, process })),
            // Whoever was first may have taken it: look again.
            Appended::Behind => {}
        }
    }
}

/// Gives the lease back. Nothing is recorded where `holder` no longer has it.
pub async fn release(log: &mut Log, clock: &dyn Clock, owner: &Owner, holder: Uuid) -> Result<(), JournalError> {
    loop {
        if LeaseState::of(log.records()).lease.is_none_or(|lease| lease.holder != holder) {
            return Ok(());
        }
        match log.append(Event::LeaseReleased { holder }, clock, owner).await? {
            Appended::Won => return Ok(()),
            Appended::Behind => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: serde_json::Value) -> Record {
        let envelope = serde_json::json!({
            "format": 1, "number": 1, "id": Uuid::nil(), "at": "2013-08-09T00:00:00Z", "by": "ann", "event": event
        });
        serde_json::from_value(envelope).unwrap()
    }

    fn taken(holder: u128, sequence: u32) -> Record {
        let holder = Uuid::from_u128(holder);
        let until = "2013-08-10T00:00:00Z";
        record(serde_json::json!({
            "event": "lease-taken", "until": until, "sequence": sequence, "holder": holder
        }))
    }

    fn released(holder: u128) -> Record {
        record(serde_json::json!({ "event": "lease-released", "holder": Uuid::from_u128(holder) }))
    }

    #[test]
    fn a_lease_decided_from_an_older_log_is_void() {
        let holder = |records: &[Record]| LeaseState::of(records).lease.map(|lease| lease.holder.as_u128());
        assert_eq!(holder(&[taken(1, 1), taken(2, 1)]), Some(1));
        assert_eq!(holder(&[taken(1, 2), taken(2, 1), taken(2, 2)]), Some(1));
        assert_eq!(holder(&[taken(1, 1), taken(2, 2)]), Some(2));
    }

    #[test]
    fn only_its_holder_gives_a_lease_back() {
        let lease = |records: &[Record]| LeaseState::of(records).lease.is_some();
        assert!(lease(&[taken(1, 1), released(2)]));
        assert!(!lease(&[taken(1, 1), released(1)]));
        assert!(lease(&[taken(1, 1), taken(2, 2), released(1)]), "the late release of a lease that was over");
    }
}
