//! Who works on a candidate: leases, kept as records of its log.
//!
//! A lease keeps two jobs from staging to one candidate at once and `recover` from a job that is still running. It is
//! no lock that safety rests on: every commit carries its own requirements. Because a lease is a record like any
//! other, two takers race for one number and one of them loses. Source: `protocol.md`, "Journal".
//!
//! A process that works takes a lease for itself, which ends with the process at the latest. An owner may also reserve a
//! candidate: then every process of that owner may take the lease, one after the other, and nobody else's. `recover`
//! claims a candidate for the moment in which it acts: that is no work, so whoever was cut off before stays known.
//!
//! Machines' clocks differ. How long a lease lasts is told by its holder's clock alone, both ends; how much of that has
//! passed, by the journal's store, where it tells when the record was put and what time it is now. Where it does not,
//! another machine's lease counts as live for a day longer than it says.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::log::{Appended, Log};
use super::process::Process;
use super::record::{Event, Record, TakenFrom};
use super::{JournalError, StoreTimes, codec};
use crate::clock::Clock;
use crate::ids::Owner;

/// How long a lease lasts unless said: 24 hours.
pub const DEFAULT_DURATION: Duration = Duration::hours(24);

/// How far the clocks of two machines differ without anyone's noticing: another's lease counts as live this much longer
/// than it says.
pub const SKEW_MARGIN: Duration = Duration::minutes(5);

/// The same for another machine's lease where the journal's store tells no times: then nothing shows a clock that is wrong.
pub const UNTOLD_MARGIN: Duration = Duration::hours(24);

/// A lease as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Tells two processes of one owner apart.
    pub holder: Uuid,
    /// Who it is, for showing.
    pub owner: Owner,
    /// When it was taken or renewed last, by the holder's clock.
    pub at: DateTime<Utc>,
    /// Until when, by the holder's clock.
    pub until: DateTime<Utc>,
    /// The latest instant that a record before it names: by whichever clock, it was not taken earlier.
    pub not_before: DateTime<Utc>,
    /// Counts every taking and renewing in this log, from 1.
    pub sequence: u32,
    /// The number of the record that took it.
    pub since: u32,
    /// The number of the record that took or renewed it last.
    pub record: u32,
    /// The process that holds it, where that is known; `None` for a reservation.
    pub process: Option<Process>,
    /// It is for every process of the owner.
    pub reserved: bool,
    /// It was taken by `recover`, not to work.
    pub claim: bool,
    /// Whose lease it took the place of, where that was never given back.
    pub from: Option<TakenFrom>,
    /// What the store told of its record, where it was asked.
    pub store: Option<StoreTimes>,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its holder may be at work.
    Live,
    /// Its time is over, for certain.
    Expired,
    /// Its process has ended, for certain.
    Ended,
}

impl Lease {
    /// How it stands. `store` is what the journal's store tells of its record; without it, this machine's clock decides,
    /// with a margin.
    pub fn standing(&self, now: DateTime<Utc>, store: Option<StoreTimes>) -> Standing {
        if self.process.as_ref().is_some_and(Process::has_ended) {
            return Standing::Ended;
        }
        let lasts = self.until.signed_duration_since(self.at).max(Duration::zero());
        let (from, to, margin) = match store {
            Some(times) => (times.stored, times.now, SKEW_MARGIN),
            None => (self.at.max(self.not_before), now, self.margin()),
        };
        let end = from.checked_add_signed(lasts).and_then(|end| end.checked_add_signed(margin));
        if end.is_none_or(|end| to < end) { Standing::Live } else { Standing::Expired }
    }

    /// How much longer than it says it counts as live where the store tells no times.
    fn margin(&self) -> Duration {
        // The clock of its holder is this machine's own.
        if self.is_here() { SKEW_MARGIN } else { UNTOLD_MARGIN }
    }

    /// Was it taken on this machine, by a process?
    pub fn is_here(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_here)
    }

    /// May the holder still be at work, as far as can be told without the store?
    pub fn may_be_live(&self, now: DateTime<Utc>) -> bool {
        self.standing(now, None) == Standing::Live
    }

    /// That two clocks disagree, and which, where they do by more than is usual.
    pub fn skew(&self, now: DateTime<Utc>, store: Option<StoreTimes>) -> Option<String> {
        let apart = |one: DateTime<Utc>, other| one.signed_duration_since(other).abs() > SKEW_MARGIN;
        let Self { owner, at, .. } = self;
        let shown = |at: DateTime<Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        if let Some(times) = store {
            let (store_then, store_now) = (shown(times.stored), shown(times.now));
            return match (apart(now, times.now), apart(*at, times.stored)) {
                (true, _) => Some(format!(
                    "the clock of this machine is at {}, and that of the journal's store at {store_now}",
                    shown(now)
                )),
                (false, true) => Some(format!(
                    "the clock of {owner} was at {} when that of the journal's store was at {store_then}",
                    shown(*at)
                )),
                (false, false) => None,
            };
        }
        if *at > now && apart(*at, now) {
            return Some(format!(
                "the clock of {owner} was at {} when it was taken, and that of this machine is at {} now",
                shown(*at),
                shown(now)
            ));
        }
        (self.not_before > *at && apart(self.not_before, *at)).then(|| {
            format!(
                "the clock of {owner} was at {} when it was taken, after a record that another clock dates {}",
                shown(*at),
                shown(self.not_before)
            )
        })
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
    /// The lease of who was at work last and never gave it back, where `recover` has claimed the candidate since.
    pub cut_off: Option<Lease>,
    /// The highest sequence given so far.
    pub sequence: u32,
}

impl LeaseState {
    /// Folds a log's records. A taking whose sequence does not rise was decided from an older log, and is void.
    pub fn of(records: &[Record]) -> Self {
        let mut state = Self::default();
        let mut not_before = DateTime::<Utc>::MIN_UTC;
        for record in records {
            match &record.event {
                Event::LeaseTaken { until, sequence, holder, process, reserved, claim, from }
                    if *sequence > state.sequence =>
                {
                    state.sequence = *sequence;
                    let lease = Lease {
                        holder: *holder,
                        owner: record.by.clone(),
                        at: record.at,
                        until: *until,
                        not_before,
                        sequence: *sequence,
                        since: record.number,
                        record: record.number,
                        process: process.clone(),
                        reserved: *reserved,
                        claim: *claim,
                        from: from.clone(),
                        store: None,
                    };
                    state.take(lease);
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
            not_before = not_before.max(record.at);
        }
        state
    }

    fn take(&mut self, mut lease: Lease) {
        let taken_from = lease.from.as_ref().map(|from| from.holder);
        self.reserved = self.reserved.take().filter(|reserved| Some(reserved.holder) != taken_from);
        if lease.reserved {
            self.reserved = Some(lease);
            return;
        }
        match self.lease.take() {
            Some(renewed) if renewed.holder == lease.holder => {
                lease.since = renewed.since;
                lease.from = lease.from.or(renewed.from);
            }
            before if lease.claim => self.cut_off = before.filter(|before| !before.claim).or(self.cut_off.take()),
            // Whoever works from here on has seen what was left.
            _ => self.cut_off = None,
        }
        self.lease = Some(lease);
    }

    /// The lease of another holder, or the reservation of another owner, that may be live.
    pub fn held_by_other(&self, now: DateTime<Utc>, owner: &Owner, holder: Uuid) -> Option<&Lease> {
        self.of_others(owner, holder).find(|lease| lease.may_be_live(now))
    }

    /// What others took and never gave back, live or not: the lease of another holder, and the reservation of another
    /// owner.
    fn of_others(&self, owner: &Owner, holder: Uuid) -> impl Iterator<Item = &Lease> {
        let lease = self.lease.as_ref().filter(|lease| lease.holder != holder);
        let reserved = self.reserved.as_ref().filter(|lease| lease.owner != *owner);
        [lease, reserved].into_iter().flatten()
    }

    /// Every lease that was not given back; a process's before an owner's.
    pub fn all(&self) -> impl Iterator<Item = &Lease> {
        [&self.lease, &self.reserved].into_iter().flatten()
    }

    /// The lease that may be live, whoever holds it; a process's before an owner's.
    pub fn live(&self, now: DateTime<Utc>) -> Option<&Lease> {
        self.all().find(|lease| lease.may_be_live(now))
    }

    /// The lease of who was at work last and never said that it had ended.
    pub fn interrupted(&self) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| !lease.claim).or(self.cut_off.as_ref())
    }
}

/// How a lease stands, by the store's times where it was taken on another machine and the store tells them. What it told is
/// kept in the lease.
///
/// # Errors
/// The store fails: then nothing is known.
pub async fn standing(log: &Log, lease: &mut Lease, clock: &dyn Clock) -> Result<Standing, JournalError> {
    let untold = lease.standing(clock.now(), None);
    if untold == Standing::Ended || lease.is_here() {
        return Ok(untold);
    }
    lease.store = match log.journal().times(log.key(), lease.record, clock).await {
        Ok(times) => times,
        // What may only be read does not tell what time it is.
        Err(JournalError::ReadOnly { .. } | JournalError::Forbidden { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(lease.standing(clock.now(), lease.store))
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

/// How a lease is taken.
#[derive(Debug, Clone)]
struct Taking {
    process: Option<Process>,
    reserved: bool,
    claim: bool,
    /// The lease of this holder is taken over although it may be live.
    over: Option<Uuid>,
    duration: Duration,
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
    let (process, reserved) = match keeper {
        Keeper::Process(process) => (process.clone(), false),
        Keeper::Owner => (None, true),
    };
    taken(log, clock, owner, holder, Taking { process, reserved, claim: false, over: None, duration }).await
}

/// Claims the candidate for the moment in which `recover` acts. A live lease is left alone, whosever it is, but for that of
/// the holder whom `over` names: who says so knows that it has ended.
pub async fn claim(
    log: &mut Log,
    clock: &dyn Clock,
    owner: &Owner,
    holder: Uuid,
    process: Option<Process>,
    over: Option<Uuid>,
) -> Result<Taken, JournalError> {
    let taking = Taking { process, reserved: false, claim: true, over, duration: DEFAULT_DURATION };
    taken(log, clock, owner, holder, taking).await
}

async fn taken(
    log: &mut Log,
    clock: &dyn Clock,
    owner: &Owner,
    holder: Uuid,
    taking: Taking,
) -> Result<Taken, JournalError> {
    // A refusal should not rest on an old reading: the other may have given it back.
    log.refresh().await?;
    loop {
        let state = LeaseState::of(log.records());
        let mut others: Vec<Lease> = match taking.claim {
            // Even what this owner reserved may be in use elsewhere.
            true => state.all().filter(|lease| lease.holder != holder).cloned().collect(),
            false => state.of_others(owner, holder).cloned().collect(),
        };
        for other in &mut others {
            let named = taking.over == Some(other.holder);
            if !named && standing(log, other, clock).await? == Standing::Live {
                return Ok(Taken::Held(other.clone()));
            }
        }
        let from = others.first().map(|other| TakenFrom { holder: other.holder, owner: other.owner.clone() });
        let until = clock.now().checked_add_signed(taking.duration).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let Some(sequence) = state.sequence.checked_add(1) else {
            let (path, number) = (codec::log_path(log.key()), log.last().map_or(0, |record| record.number));
            let reason = "its lease was renewed as often as a number can count".to_owned();
            return Err(JournalError::Impossible { path, number, reason });
        };
        let Taking { process, reserved, claim, .. } = taking.clone();
        let event = Event::LeaseTaken { until, sequence, holder, process, reserved, claim, from };
        match log.append(event, clock, owner).await? {
            Appended::Won => {
                let state = LeaseState::of(log.records());
                let ours = if reserved { state.reserved } else { state.lease };
                return ours.map(Taken::Ours).ok_or_else(|| {
                    let (path, number) = (codec::log_path(log.key()), log.last().map_or(0, |record| record.number));
                    JournalError::Impossible {
                        path,
                        number,
                        reason: "its lease is not the one that was put".to_owned(),
                    }
                });
            }
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
