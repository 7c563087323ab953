//! Leases: renewed while a command works, lost to a claim, taken over by name, and judged although clocks are wrong.

use std::sync::Arc;

use async_trait::async_trait;
use calve::clock::{Clock, ManualClock};
use calve::coordinator::{Coordinator, RecoverRequest, StageMode, Step, StepHook};
use calve::ids::{IdempotencyKey, Owner};
use calve::journal::Journal;
use calve::journal::lease::{self, Keeper, Lease, LeaseState, Taken};
use calve::journal::log::Log;
use calve::journal::memory::MemoryJournal;
use calve::journal::process::Process;
use calve::journal::record::Verb;
use calve::publish::recover::{Left, Stands};
use calve::report::{LeaseStanding, RecoverDid, RecoverItem, Report};
use calve::testing::{Bed, Kind};
use chrono::{DateTime, Duration, Utc};
use futures::FutureExt;
use tokio::task::yield_now;
use uuid::Uuid;

use crate::states::{try_stage, try_validate};
use crate::support::{Crowded, history, log_key, log_of};

const HOUR: i64 = 3_600_000;

async fn state(bed: &Bed, journal: &dyn Journal) -> LeaseState {
    LeaseState::of(&log_of(bed, journal, "p").await)
}

/// Lets a day and a half pass while a commit is on its way, in steps, each as soon as the lease was renewed.
#[derive(Debug)]
struct Long {
    journal: Arc<dyn Journal>,
    key: calve::journal::LogKey,
    clock: Arc<ManualClock>,
    verb: Verb,
}

#[async_trait]
impl StepHook for Long {
    async fn reached(&self, verb: Verb, step: Step) {
        if verb != self.verb || step != Step::Intended {
            return;
        }
        let lease = async || LeaseState::of(&self.journal.read(&self.key).await.unwrap()).lease.unwrap();
        for _ in 0..4 {
            let before = lease().await;
            self.clock.advance_ms(9 * HOUR);
            for turn in 0.. {
                if lease().await.sequence != before.sequence {
                    break;
                }
                assert!(turn < 10_000, "it is not renewed");
                yield_now().await;
            }
            let now = lease().await;
            assert!(now.holder == before.holder && now.since == before.since, "{now:?}");
            assert!(now.until - self.clock.now() == lease::DEFAULT_DURATION, "{now:?}");
        }
    }
}

/// Stage, validate and abandon, each longer than its lease: it is live to the end, and given back.
#[tokio::test]
async fn kept_while_a_command_works() {
    for verb in [Verb::Stage, Verb::Seal, Verb::Fence] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        if verb != Verb::Stage {
            bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        }
        let key = log_key(&bed, "p").await;
        let hook = Long { journal: bed.journal.clone(), key, clock: bed.clock.clone(), verb };
        let long = bed.coordinator("ann").with_steps(Arc::new(hook));
        match verb {
            Verb::Stage => drop(bed.stage(&long, "p", StageMode::Append, &[(9, 4, 40)]).await),
            Verb::Seal => assert!(bed.validate(&long, "p").await.passed),
            _ => assert!(bed.abandon(&long, "p").await.is_ok()),
        }
        let left = state(&bed, bed.journal.as_ref()).await;
        assert!(left.lease.is_none() && left.sequence > 4, "{verb:?}: {left:?}");
    }
}

/// Takes the lease of `p` as another machine does, by its clock.
async fn hold(bed: &Bed, journal: &Arc<dyn Journal>, clock: &dyn Clock, hours: i64) -> Lease {
    let mut log = Log::open(journal.clone(), log_key(bed, "p").await).await.expect("a log");
    let (owner, keeper) = (Owner("zoe@far".to_owned()), Keeper::Process(None));
    let taken = lease::take(&mut log, clock, &owner, bed.clock.fresh_uuid(), &keeper, Duration::hours(hours));
    match taken.await.expect("taken") {
        Taken::Ours(lease) => lease,
        Taken::Held(lease) => panic!("{lease:?}"),
    }
}

/// Another takes the candidate over while this one is writing or checking: it says who and when, and sends nothing.
#[tokio::test]
async fn lost_before_the_commit() {
    for verb in [Verb::Stage, Verb::Seal] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        let crowded = Arc::new(Crowded::new(bed.journal.clone()));
        let slow = bed.coordinator_with("ann", crowded.clone());
        // The put of its lease, then the reading of the log under it: from there it works.
        let (own, at, clock) = (bed.journal.clone(), log_key(&bed, "p").await, bed.clock.clone());
        let inner = crowded.clone();
        crowded.before_put(move || {
            inner.before_read(move || {
                async move {
                    clock.advance_ms(25 * HOUR);
                    let mut log = Log::open(own, at).await.unwrap();
                    let (zoe, keeper) = (Owner("zoe@far".to_owned()), Keeper::Process(None));
                    let holder = clock.fresh_uuid();
                    let taken = lease::take(&mut log, clock.as_ref(), &zoe, holder, &keeper, Duration::hours(24)).await;
                    assert!(matches!(taken, Ok(Taken::Ours(_))), "{taken:?}");
                }
                .boxed()
            });
            async {}.boxed()
        });
        let commits = bed.faults.commits();
        let (error, nothing) = match verb {
            Verb::Stage => (try_stage(&bed, &slow, "p").await.expect_err("lost"), "nothing was staged"),
            _ => (
                try_validate(&bed, &slow, "p", calve::testing::contract()).await.expect_err("lost"),
                "nothing was sealed",
            ),
        };
        let text = error.to_string();
        assert_eq!(error.exit_code(), 13, "{text}");
        assert!(
            ["lease of this command", "zoe@far took it", nothing, "again"].iter().all(|word| text.contains(word)),
            "{text}"
        );
        assert_eq!(bed.faults.commits(), commits);
        let held = state(&bed, bed.journal.as_ref()).await.lease.expect("zoe's");
        assert_eq!(held.owner.0, "zoe@far", "what is another's is not given back");
        assert_eq!(held.from.expect("whose it was").owner.0, "ann");
    }
}

/// A clock that is ahead of the right time, or behind.
#[derive(Debug)]
struct Wrong {
    right: Arc<ManualClock>,
    ahead: Duration,
}

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        self.right.now() + self.ahead
    }
    fn is_simulated(&self) -> bool {
        true
    }
    fn fresh_uuid(&self) -> Uuid {
        self.right.fresh_uuid()
    }
    fn fresh_key(&self) -> IdempotencyKey {
        self.right.fresh_key()
    }
}

const RECOVER: RecoverRequest = RecoverRequest { table: None, fence: false, takeover: None, dry_run: false };
const FENCE: RecoverRequest = RecoverRequest { fence: true, ..RECOVER };

async fn recover(by: &Coordinator, request: &RecoverRequest) -> RecoverItem {
    let report = by.recover(request).await.expect("a report");
    assert!(report.problems.is_empty(), "{report:?}");
    report.publications.into_iter().next().expect("one")
}

/// A lease of 24 hours of another machine, `--fence` on this one, with clocks a day off on either side: while the holder
/// works it is never fenced, and where the store tells times it is fenced as soon as the lease is over. What is odd is named.
#[tokio::test]
async fn clocks_that_are_a_day_off() {
    // The holder's clock, this machine's, does the store tell times, hours since the lease was taken, is it over?
    let cases = [
        (0, 0, true, 23, false),
        (0, 0, true, 25, true),
        (-24, 0, true, 1, false),
        (-24, 0, true, 23, false),
        (-24, 0, true, 25, true),
        (24, 0, true, 1, false),
        (24, 0, true, 25, true),
        (0, 24, true, 1, false),
        (0, 24, true, 25, true),
        (0, -24, true, 23, false),
        (0, -24, true, 25, true),
        (-24, 24, true, 23, false),
        (24, -24, true, 25, true),
        // Without the store's times a day more is waited for, and what is not known breaks nothing.
        (0, 0, false, 25, false),
        (0, 0, false, 49, true),
        (-24, 0, false, 23, false),
        (0, 24, false, 23, false),
        (24, 0, false, 25, false),
        (0, -24, false, 25, false),
    ];
    for (theirs, ours, told, hours, over) in cases {
        let context = format!("holder {theirs:+} h, here {ours:+} h, store tells: {told}, after {hours} h");
        let (bed, ..) = history(Kind::Fake).await;
        let right = bed.clock.clone();
        let wrong = |ahead| Arc::new(Wrong { right: right.clone(), ahead: Duration::hours(ahead) });
        let journal = MemoryJournal::named("shared");
        let journal = if told { journal.with_clock(right.clone()) } else { journal };
        let journal: Arc<dyn Journal> = Arc::new(journal);
        bed.begin(&bed.coordinator_with("ann", journal.clone()), "p", "day = '2013-08-09'").await;
        hold(&bed, &journal, wrong(theirs).as_ref(), 24).await;
        right.advance_ms(hours * HOUR);
        let here = Coordinator::new(bed.faults.clone(), journal.clone(), wrong(ours), Owner("ann".to_owned()));
        let item = recover(&here, &FENCE).await;
        if over {
            assert_eq!(item.did, RecoverDid::Fenced, "{context}: {item:?}");
        } else {
            assert_eq!((item.did, item.left), (RecoverDid::Nothing, Some(Left::AtWork)), "{context}: {item:?}");
        }
        let named = item.leases[0].clocks.as_deref().unwrap_or_default();
        if told && (theirs, ours) != (0, 0) {
            let whose = if ours != 0 { "this machine" } else { "zoe@far" };
            assert!(named.contains(whose) && named.contains("store"), "{context}: {named}");
        } else if theirs == -24 {
            // The record before it was dated by a clock that is right.
            assert!(named.contains("zoe@far") && named.contains("another clock"), "{context}: {named}");
        }
        // The same rule for those who work.
        if !over {
            let refused = try_stage(&bed, &here, "p").await.expect_err("held");
            assert_eq!(refused.exit_code(), 13, "{context}: {refused}");
        }
    }
}

/// A machine that is gone for good: its lease is taken over by name, and by nothing less.
#[tokio::test]
async fn taken_over_by_name() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let journal = bed.journal.clone();
    let gone = hold(&bed, &journal, bed.clock.as_ref(), 240).await;
    let by = |holder| RecoverRequest { takeover: Some(holder), ..RECOVER };
    let report = calve.recover(&by(Uuid::from_u128(1))).await.expect("a report");
    assert_eq!(report.publications[0].left, Some(Left::AtWork));
    assert!(report.warnings[0].contains("00000000-0000-0000-0000-000000000001"), "{report:?}");
    let dry = recover(&calve, &RecoverRequest { dry_run: true, ..by(gone.holder) }).await;
    assert_eq!((dry.did, dry.leases[0].standing), (RecoverDid::WouldTakeOver, LeaseStanding::Live));
    assert_eq!(state(&bed, journal.as_ref()).await.lease.as_ref(), Some(&gone));
    let item = recover(&calve, &by(gone.holder)).await;
    assert_eq!((item.did, item.stands), (RecoverDid::TakenOver, Some(Stands::Open)), "{item:?}");
    let left = state(&bed, journal.as_ref()).await;
    assert_eq!((left.lease, left.cut_off.as_ref()), (None, Some(&gone)), "who was cut off stays known");
    assert!(bed.abandon(&calve, "p").await.is_ok());
    // A process of this machine can be seen to run.
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let mut log = Log::open(bed.journal.clone(), log_key(&bed, "p").await).await.expect("a log");
    let (holder, keeper) = (bed.clock.fresh_uuid(), Keeper::Process(Process::current()));
    let taken = lease::take(&mut log, bed.clock.as_ref(), calve.owner(), holder, &keeper, Duration::hours(1)).await;
    assert!(matches!(taken, Ok(Taken::Ours(_))));
    let item = recover(&calve, &by(holder)).await;
    assert_eq!((item.did, item.left), (RecoverDid::Nothing, Some(Left::AtWork)));
    assert!(item.warnings[0].contains(&format!("process {}", std::process::id())), "{item:?}");
}

/// What an owner reserved is left alone for as long as it lasts, by whoever recovers; taken over by name it is over.
#[tokio::test]
async fn a_reservation_is_a_live_lease() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let mut log = Log::open(bed.journal.clone(), log_key(&bed, "p").await).await.expect("a log");
    let holder = bed.clock.fresh_uuid();
    let taken =
        lease::take(&mut log, bed.clock.as_ref(), calve.owner(), holder, &Keeper::Owner, Duration::hours(1)).await;
    assert!(matches!(taken, Ok(Taken::Ours(_))));
    let bob = bed.coordinator("bob");
    for by in [&calve, &bob] {
        assert_eq!(recover(by, &FENCE).await.left, Some(Left::AtWork));
    }
    let item = recover(&bob, &RecoverRequest { takeover: Some(holder), ..FENCE }).await;
    assert_eq!(item.did, RecoverDid::Fenced);
    assert_eq!(state(&bed, bed.journal.as_ref()).await.reserved, None);
}

/// Two that recover at once: each effect happens once.
#[tokio::test]
async fn two_that_recover_at_once() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    let commits = bed.faults.commits();
    let crowded = Arc::new(Crowded::new(bed.journal.clone()));
    let first = bed.coordinator_with("ann", crowded.clone());
    // The second one claims after the first has decided, and before it claims.
    let (mut log, clock) =
        (Log::open(bed.journal.clone(), log_key(&bed, "p").await).await.expect("a log"), bed.clock.clone());
    crowded.before_put(move || {
        async move {
            let (bob, holder) = (Owner("bob".to_owned()), clock.fresh_uuid());
            let claimed = lease::claim(&mut log, clock.as_ref(), &bob, holder, Process::current(), None).await;
            assert!(matches!(claimed, Ok(Taken::Ours(_))), "{claimed:?}");
        }
        .boxed()
    });
    let item = recover(&first, &FENCE).await;
    assert_eq!((item.did, item.left), (RecoverDid::Nothing, Some(Left::AtWork)), "{item:?}");
    assert_eq!(bed.faults.commits(), commits, "nothing was sent");
    let now = state(&bed, bed.journal.as_ref()).await;
    assert!(now.lease.is_some_and(|lease| lease.claim && lease.owner.0 == "bob"));
}

/// `status` says who holds an open candidate, and nothing of what is settled.
#[tokio::test]
async fn status_shows_who_is_at_work() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let leases = async || {
        let report = calve.status(Some(&bed.table), None).await.expect("a report");
        assert_eq!(report.exit_code(), 0);
        report.tables[0].publications[0].leases.clone()
    };
    assert!(leases().await.is_empty());
    let lease = hold(&bed, &bed.journal, bed.clock.as_ref(), 2).await;
    let [told] = &leases().await[..] else { panic!() };
    assert_eq!((&told.owner, told.holder, told.until), (&lease.owner, lease.holder, lease.until));
    assert_eq!((told.standing, told.clocks.as_ref()), (LeaseStanding::Live, None));
    bed.clock.advance_ms(3 * HOUR);
    assert_eq!(leases().await[0].standing, LeaseStanding::Expired);
    bed.publish(&calve, "p").await;
    assert!(leases().await.is_empty());
}
