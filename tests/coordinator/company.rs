//! Other processes at work on the same candidate: leases, logs that move on, and branches that do.

use std::sync::Arc;

use calve::clock::Clock;
use calve::coordinator::{BeginRequest, Coordinator, StageMode};
use calve::ids::Owner;
use calve::journal::Journal;
use calve::journal::lease::{self, Keeper, LeaseState, Taken};
use calve::journal::log::Log;
use calve::journal::record::{Event, Verb};
use calve::publish::PublishOutcome;
use calve::publish::outcome::Via;
use calve::publish::reconcile::{Sent, State};
use calve::report::Report;
use calve::testing::{Bed, KINDS, Kind, contract};
use chrono::Duration;
use futures::FutureExt;

use crate::states::{try_stage, try_validate};
use crate::support::{Crowded, history, log_key, log_of, refs, with_memory};

async fn hold(
    bed: &Bed,
    journal: &Arc<dyn Journal>,
    id: &str,
    owner: &str,
    hours: i64,
) -> chrono::DateTime<chrono::Utc> {
    let mut log = Log::open(journal.clone(), log_key(bed, id).await).await.expect("a log");
    let clock = bed.clock.as_ref();
    let owner = Owner(owner.to_owned());
    let keeper = Keeper::Process(None);
    let taken = lease::take(&mut log, clock, &owner, clock.fresh_uuid(), &keeper, Duration::hours(hours));
    match taken.await.expect("taken") {
        Taken::Ours(lease) => lease.until,
        Taken::Held(lease) => panic!("{lease:?}"),
    }
}

/// Another process works on it: 13, who and until; publish and reconcile need none.
#[tokio::test]
async fn leases() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let until = hold(&bed, &bed.journal, "p", "zoe@host", 2).await;
        let commits = bed.faults.commits();
        for refused in [
            try_stage(&bed, &calve, "p").await.expect_err("leased"),
            try_validate(&bed, &calve, "p", contract()).await.expect_err("leased"),
            bed.abandon(&calve, "p").await.expect_err("leased"),
        ] {
            assert_eq!(refused.exit_code(), 13, "{refused}");
            let text = refused.to_string();
            assert!(
                text.contains("zoe@host") && text.contains(&until.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)),
                "{text}"
            );
        }
        assert_eq!(bed.faults.commits(), commits);
        assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 14);
        // Expired, with a margin of a day for the clock of another machine, since these journals tell no times.
        bed.clock.advance_ms(25 * 3_600_000);
        assert_eq!(try_stage(&bed, &calve, "p").await.expect_err("within the margin").exit_code(), 13);
        bed.clock.advance_ms(3_600_000);
        assert!(bed.validate(&calve, "p").await.passed);
        // Given back after success and after failure.
        let free = |records: &[calve::journal::record::Record]| LeaseState::of(records).lease.is_none();
        assert!(free(&log_of(&bed, bed.journal.as_ref(), "p").await));
        let missing = calve::coordinator::StageRequest {
            table: bed.table.clone(),
            id: bed.id("p"),
            mode: StageMode::Append,
            files: vec!["/nowhere.parquet".into()],
        };
        assert_eq!(calve.stage(&missing, &calve::data::NoProgress).await.expect_err("no file").exit_code(), 2);
        assert!(free(&log_of(&bed, bed.journal.as_ref(), "p").await));
        hold(&bed, &bed.journal, "p", "zoe@host", 2).await;
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
    }
}

/// `begin --lease` keeps others out, and its own owner's later commands in, whatever their process.
#[tokio::test]
async fn a_lease_taken_by_begin() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let request = BeginRequest {
        table: bed.table.clone(),
        id: bed.id("p"),
        scope: Some("day = '2013-08-09'".to_owned()),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: Some(Duration::hours(3)),
    };
    calve.begin(&request).await.expect("begun");
    let until = bed.clock.now() + Duration::hours(3);
    let bob = bed.coordinator("bob");
    let refused = try_stage(&bed, &bob, "p").await.expect_err("ann's");
    assert!(refused.exit_code() == 13 && refused.to_string().contains("ann"), "{refused}");
    let later = bed.coordinator("ann");
    bed.stage(&later, "p", StageMode::Append, &[(9, 4, 40)]).await;
    let leases = LeaseState::of(&log_of(&bed, bed.journal.as_ref(), "p").await);
    assert_eq!(leases.lease, None, "given back");
    let lease = leases.reserved.expect("still reserved");
    assert_eq!((lease.owner, lease.until), (Owner("ann".to_owned()), until));
    assert_eq!(try_stage(&bed, &bob, "p").await.expect_err("ann's").exit_code(), 13);
    assert!(calve.begin(&request).await.expect("idempotent").already_open);
    assert!(bed.validate(&bed.coordinator("ann"), "p").await.passed);
    assert_eq!(bed.publish(&later, "p").await.exit_code(), 0);
}

/// Two stages at once: one lands and the other is told, or both land, and no row is lost or doubled.
#[tokio::test]
async fn two_stages_at_once() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "true").await;
        let other = bed.coordinator("ann");
        let (one, two) = tokio::join!(try_stage(&bed, &calve, "p"), try_stage(&bed, &other, "p"));
        let landed = [&one, &two].iter().filter(|result| result.is_ok()).count();
        assert!(landed >= 1, "{one:?} {two:?}");
        for result in [one, two] {
            if let Err(error) = result {
                assert_eq!(error.exit_code(), 13, "{error}");
            }
        }
        let head = refs(&bed).await[&bed.id("p").audit_ref()].snapshot;
        assert_eq!(bed.ids_at(head).await.len(), 3 + landed);
    }
}

/// An engine appends between the checks and the seal: nothing is sealed, and it says so.
#[tokio::test]
async fn the_branch_moves_while_it_is_checked() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.stage(&calve, "p", StageMode::Append, &[(9, 4, 40)]).await;
        let append = bed.append_later("audit/p", &[(9, 5, 50)]);
        bed.faults.before_commit(move || append);
        let error = try_validate(&bed, &calve, "p", contract()).await.expect_err("moved");
        assert_eq!(error.exit_code(), 13, "{error}");
        assert!(error.to_string().contains("validate again"), "{error}");
        assert!(matches!(bed.reconcile(&calve, "p").await.finding.state, State::Open { .. }));
        // Another writer elsewhere on the table only takes the sequence number.
        let append = bed.append_later("dev", &[(1, 90, 0)]);
        bed.faults.before_commit(move || append);
        assert!(bed.validate(&calve, "p").await.seal.is_some());
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!(bed.ids().await, [1, 2, 3, 4, 5]);
    }
}

/// Another process appends to the log first: nothing is sent on the old reading, and it is decided again.
#[tokio::test]
async fn publish_behind_another_process() {
    let (bed, calve, journal, _) = with_memory().await;
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let crowded = Arc::new(Crowded::new(journal.clone()));
    let other = bed.coordinator_with("ann", journal.clone());
    let (table, id) = (bed.table.clone(), bed.id("p"));
    crowded.before_put(move || {
        async move {
            let report = other.publish(&table, &id, &contract()).await.expect("an outcome");
            assert_eq!(report.exit_code(), 0);
        }
        .boxed()
    });
    let report = bed.publish(&bed.coordinator_with("ann", crowded), "p").await;
    assert!(matches!(report.outcome, PublishOutcome::Published { via: Via::AlreadyThere, .. }), "{:?}", report.outcome);
    assert_eq!((report.requests, bed.main().await), (0, Some(seal)));
    let publishes = log_of(&bed, journal.as_ref(), "p").await;
    let publishes = publishes.iter().filter(|r| matches!(r.event, Event::Intended { verb: Verb::Publish, .. }));
    assert_eq!(publishes.count(), 1);
}

/// What another process recorded of a newer table than the one just read is no regression.
#[tokio::test]
async fn records_newer_than_the_reading() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let crowded = Arc::new(Crowded::new(journal.clone()));
    let other: Coordinator = bed.coordinator_with("ann", journal.clone());
    let (table, id) = (bed.table.clone(), bed.id("p"));
    let append = bed.append_later("dev", &[(1, 90, 0)]);
    crowded.before_read(move || {
        async move {
            append.await;
            let found = other.reconcile(&table, &id).await.expect("a finding");
            assert_eq!(found.row, 6);
        }
        .boxed()
    });
    let slow = bed.coordinator_with("ann", crowded);
    let found = bed.reconcile(&slow, "p").await;
    assert!(matches!(found.finding.state, State::Sealed { sent: Sent::None, .. }), "{:?}", found.finding);
}

/// Every use case can run on another thread, as services spawn them. That this compiles is the test.
#[tokio::test]
async fn use_cases_can_be_spawned() {
    fn can_be_spawned(_: &(impl Future + Send)) {}
    let (bed, calve, _) = history(Kind::Fake).await;
    let (table, id, contract) = (bed.table.clone(), bed.id("p"), contract());
    let begin = BeginRequest {
        table: table.clone(),
        id: id.clone(),
        scope: None,
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    let stage = calve::coordinator::StageRequest {
        table: table.clone(),
        id: id.clone(),
        mode: StageMode::Append,
        files: Vec::new(),
    };
    let validate = calve::coordinator::ValidateRequest {
        table: table.clone(),
        id: id.clone(),
        contract: contract.clone(),
        sources_root: ".".into(),
        dry_run: false,
    };
    can_be_spawned(&calve.begin(&begin));
    can_be_spawned(&calve.stage(&stage, &calve::data::NoProgress));
    can_be_spawned(&calve.validate(&validate, Arc::new(calve::data::NoProgress)));
    can_be_spawned(&calve.publish(&table, &id, &contract));
    can_be_spawned(&calve.reconcile(&table, &id));
    can_be_spawned(&calve.reconcile_all(&table));
    can_be_spawned(&calve.abandon(&table, &id, "given up"));
    can_be_spawned(&calve.status(None, None));
    can_be_spawned(&calve.log(&table));
    can_be_spawned(&calve.review(&table, &id, None));
}

/// Another process publishes while a second validation is at its seal: told as published, not as a moved branch.
#[tokio::test]
async fn published_while_it_is_checked() {
    let (bed, calve, journal, _) = with_memory().await;
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let (table, id, other) = (bed.table.clone(), bed.id("p"), bed.coordinator_with("ann", journal));
    bed.faults.before_commit(move || async move {
        let report = other.publish(&table, &id, &contract()).await.expect("an outcome");
        assert_eq!(report.exit_code(), 0);
    });
    let error = try_validate(&bed, &calve, "p", contract()).await.expect_err("published");
    assert_eq!(error.exit_code(), 13, "{error}");
    assert!(error.to_string().contains("published") && !error.to_string().contains("validate again"), "{error}");
}

/// Another process that only reads appends to the log in between: every verb decides again, and gets on.
#[tokio::test]
async fn every_verb_behind_another_process() {
    let (bed, calve, journal, _) = with_memory().await;
    let crowded = Arc::new(Crowded::new(journal.clone()));
    let slow = bed.coordinator_with("ann", crowded.clone());
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
    // The lease is the first record of a verb, its intent the second.
    let intrude = |nested: bool| {
        let (table, id) = (bed.table.clone(), bed.id("p"));
        let (other, again) = (bed.coordinator_with("ann", journal.clone()), crowded.clone());
        crowded.before_put(move || {
            async move {
                let _found = other.reconcile(&table, &id).await.expect("a finding");
                if nested {
                    again.before_put(move || {
                        async move {
                            let _found = other.reconcile(&table, &id).await.expect("a finding");
                        }
                        .boxed()
                    });
                }
            }
            .boxed()
        });
    };
    for nested in [false, true] {
        intrude(nested);
        bed.stage(&slow, "p", StageMode::Replace, &[(9, 4, 40)]).await;
        intrude(nested);
        assert!(bed.validate(&slow, "p").await.passed);
    }
    intrude(true);
    assert_eq!(bed.abandon(&slow, "p").await.expect("fenced").exit_code(), 0);
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 14);
}
