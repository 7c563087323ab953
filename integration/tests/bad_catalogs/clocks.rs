//! Clocks that are a day off: between two machines, and between calve and the catalog.

use std::sync::Arc;

use calve::catalog::rest::RestCatalog;
use calve::clock::{Clock as _, ManualClock};
use calve::coordinator::Coordinator;
use calve::ids::Owner;
use calve::publish::PublishOutcome;
use calve::report::Report as _;
use integration::beds::SERVICES;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// What one machine begins and seals, another publishes, whose clock is a day behind or ahead of it. A clock that is behind
/// changes nothing. What one dates that is ahead would keep everybody from changing refs until its time has come: nothing is
/// sent from there, and the other goes on.
#[tokio::test]
async fn a_day_between_two_machines_makes_no_outcome_wrong() {
    for service in SERVICES {
        for (number, off) in (0_i32..).zip([-DAY, DAY]) {
            let bed = service.bed(2).await.unwrap();
            let mut wanted = vec![1];
            bed.engine().append("main", &[(8, 1, 0)]).await.unwrap();
            let clock = Arc::new(ManualClock::starting_now(1000 + u64::try_from(number).unwrap()));
            clock.advance_ms(off);
            // Each asks for a token of its own, by its own clock.
            let properties = service.properties().unwrap();
            let machine = async |clock: Arc<ManualClock>| {
                let catalog = Arc::new(RestCatalog::connect(&properties, clock.clone()).await.unwrap());
                Coordinator::new(catalog, bed.journal.clone(), clock, Owner("ann".to_owned()))
            };
            let (here, there) = (machine(bed.clock.clone()).await, machine(clock.clone()).await);
            let mut snapshots = Vec::new();
            for (day, id, by, then) in [(9, "p", &here, &there), (10, "q", &there, &here)] {
                if id == "q" && off > 0 {
                    let error = bed.try_begin(by, id, "day = '2013-08-10'").await.expect_err("its clock is ahead");
                    assert!(error.to_string().contains("set this machine's clock"), "{error}");
                    continue;
                }
                let _seal = bed.sealed(by, id, day, &[(day, i64::from(day), 0)]).await;
                let mut report = bed.publish(then, id).await;
                if off > 0 {
                    assert!(report.exit_code() != 0, "{report:?}");
                    assert!(format!("{report:?}").contains("set this machine's clock"), "{report:?}");
                    assert_eq!(bed.ids().await, wanted, "nothing became visible");
                    let found = bed.reconcile(then, id).await;
                    assert!(format!("{:?}", found.finding.state).starts_with("Sealed"), "{found:?}");
                    report = bed.publish(by, id).await;
                }
                assert!(matches!(report.outcome, PublishOutcome::Published { .. }), "{off}: {report:?}");
                snapshots.push(report.main);
                wanted.push(i64::from(day));
            }
            assert_eq!(bed.ids().await, wanted);
            let published = [(&here, "p"), (&there, "p"), (&here, "q"), (&there, "q")];
            for (by, id) in published.into_iter().take(2 * snapshots.len()) {
                let report = bed.reconcile(by, id).await;
                assert!(format!("{:?}", report.finding.state).starts_with("Published"), "{report:?}");
            }
            let times = bed.observe().await;
            let of = |id: Option<calve::ids::SnapshotId>| times.snapshots[&id.unwrap()].timestamp_ms;
            assert!(snapshots.is_sorted_by_key(|id| of(*id)), "no snapshot is older than the one that it stands on");
            assert!((clock.now() - bed.clock.now()).num_hours().abs() >= 23);
        }
    }
}
