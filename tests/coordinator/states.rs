//! Which verb is refused in which state, and with which exit code.

use std::sync::Arc;

use calve::catalog::faults::Fault;
use calve::catalog::{Catalog, CatalogError};
use calve::contract::Contract;
use calve::coordinator::{BeginRequest, Coordinator, Error, StageMode, StageRequest, ValidateRequest};
use calve::data::NoProgress;
use calve::ids::{CatalogIdentity, RefName, TableName};
use calve::journal::memory::MemoryJournal;
use calve::journal::record::{CloseReason, Source};
use calve::publish::PublishOutcome;
use calve::publish::outcome::{Cause, Rejection, Via};
use calve::publish::reconcile::{Sent, State};
use calve::report::Report;
use calve::testing::{Bed, CONTRACT, KINDS, Kind, contract};

use crate::support::{Renamed, history, log_of, refs};

pub async fn try_stage(bed: &Bed, by: &Coordinator, id: &str) -> Result<calve::report::StageReport, Error> {
    let files = vec![bed.file(&[(9, 77, 0)])];
    let request = StageRequest { table: bed.table.clone(), id: bed.id(id), mode: StageMode::Append, files };
    by.stage(&request, &NoProgress).await
}

pub async fn try_validate(
    bed: &Bed,
    by: &Coordinator,
    id: &str,
    contract: Contract,
) -> Result<calve::report::ValidateReport, Error> {
    let request = ValidateRequest {
        table: bed.table.clone(),
        id: bed.id(id),
        contract,
        sources_root: ".".into(),
        dry_run: false,
    };
    by.validate(&request, Arc::new(NoProgress)).await
}

/// The exit codes of begin, stage, validate, publish and abandon, none of which may change main.
async fn codes(bed: &Bed, by: &Coordinator, id: &str) -> [u8; 5] {
    let main = bed.main().await;
    let code = |result: Result<u8, Error>| result.unwrap_or_else(|error| error.exit_code());
    let begin = code(bed.try_begin(by, id, "true").await.map(|report| report.exit_code()));
    let stage = code(try_stage(bed, by, id).await.map(|report| report.exit_code()));
    let validate = code(try_validate(bed, by, id, contract()).await.map(|report| report.exit_code()));
    let publish = bed.publish(by, id).await.exit_code();
    let abandon = code(bed.abandon(by, id).await.map(|report| report.exit_code()));
    assert_eq!(bed.main().await, main);
    [begin, stage, validate, publish, abandon]
}

/// Row 12, and nothing may come of it: neither records nor commits.
#[tokio::test]
async fn unknown() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 2);
        assert_eq!(try_stage(&bed, &calve, "p").await.expect_err("unknown").exit_code(), 13);
        assert_eq!(try_validate(&bed, &calve, "p", contract()).await.expect_err("unknown").exit_code(), 13);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 2);
        let refused = bed.abandon(&calve, "p").await.expect_err("unknown");
        assert_eq!(refused.exit_code(), 2, "{refused}");
        assert_eq!(bed.faults.commits(), 0);
        assert!(log_of(&bed, bed.journal.as_ref(), "p").await.is_empty(), "an id that was never begun has no log");
        assert_eq!(bed.reconcile(&calve, "p").await.row, 12);
        assert!(!bed.begin(&calve, "p", "true").await.already_open, "and can still be begun");
    }
}

/// Published, closed, quarantined: the id is used for ever.
#[tokio::test]
async fn used_ids() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 0, 13]);

        bed.sealed(&calve, "closed", 9, &[(9, 5, 50)]).await;
        bed.abandon(&calve, "closed").await.expect("fenced");
        assert_eq!(codes(&bed, &calve, "closed").await, [13, 13, 13, 13, 0]);
        let again = bed.abandon(&calve, "closed").await.expect("closed");
        assert!(again.already_closed);
        assert_eq!(again.reason, "given up");

        bed.begin(&calve, "bad", "day = '2013-08-09'").await;
        bed.stage(&calve, "bad", StageMode::Append, &[(9, 6, 60), (9, 6, 61)]).await;
        let quarantine = Contract::parse(&CONTRACT.replace("keep", "quarantine"), "q.toml").expect("a contract");
        let report = try_validate(&bed, &calve, "bad", quarantine).await.expect("a report");
        assert_eq!((report.closed, report.exit_code()), (Some(CloseReason::Quarantined), 10));
        assert_eq!(codes(&bed, &calve, "bad").await, [13, 13, 13, 13, 0]);
        let status = calve.status(Some(&bed.table), Some(&bed.id("bad"))).await.expect("a status");
        let closed = status.tables[0].publications[0].closed.clone().expect("closed");
        assert_eq!(closed.0, CloseReason::Quarantined);
        assert!(closed.1.contains("keys"), "{closed:?}");
    }
}

/// Row 9: a branch that an engine made again from main may only be fenced.
#[tokio::test]
async fn a_branch_made_again() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        bed.engine().append("audit/p", &[(9, 8, 80)]).await.expect("made again");
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Foreign { .. }), "{:?}", found.finding);
        assert_eq!((found.row, found.exit_code()), (9, 10));
        let ids = bed.ids().await;
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 10, 0]);
        assert_eq!(bed.ids().await, ids);
        assert!(bed.engine().append("audit/p", &[(9, 8, 80)]).await.is_err());
    }
}

/// Row 10: consumed, and neither receipt nor fence is there.
#[tokio::test]
async fn consumed() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "true").await;
        bed.abandon(&calve, "p").await.expect("fenced");
        bed.engine().remove_ref(bed.id("p").closed_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Consumed, 21));
        let commits = bed.faults.commits();
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
        assert_eq!(bed.faults.commits(), commits, "never fence");
    }
}

/// Row 11: the branch is gone, and only this candidate's own journal may fence it.
#[tokio::test]
async fn gone() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().remove_ref(bed.id("p").audit_ref()).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!((&found.finding.state, found.exit_code()), (&State::Gone, 21));
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        let refused = bed.abandon(&stranger, "p").await.expect_err("begun with another journal");
        assert_eq!(refused.exit_code(), 13, "{refused}");
        assert!(refused.to_string().contains(&bed.journal.root()), "{refused}");
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 0]);
    }
}

/// Open by the same owner with the same request: idempotent. Anything else is refused, and says what differs.
#[tokio::test]
async fn begin_again() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        let source = |revision: &str| vec![Source { name: "orders".to_owned(), revision: revision.to_owned() }];
        let request = BeginRequest {
            table: bed.table.clone(),
            id: bed.id("p"),
            scope: Some("day = '2013-08-09'".to_owned()),
            reads: Some("id > 3".to_owned()),
            code: Some("c".repeat(400)),
            sources: source(&"7".repeat(300)),
            lease: None,
        };
        let first = calve.begin(&request).await.expect("begun");
        let commits = bed.faults.commits();
        bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
        let again = calve.begin(&request).await.expect("idempotent");
        assert!(again.already_open);
        assert_eq!((again.marker, again.incarnation, again.base), (first.marker, first.incarnation, Some(base)));
        assert!(again.warnings.iter().any(|warning| warning.contains("main has moved")), "{:?}", again.warnings);
        for other in [
            BeginRequest { scope: Some("day = '2013-08-10'".to_owned()), ..request.clone() },
            BeginRequest { reads: None, ..request.clone() },
            BeginRequest { code: Some("d".repeat(400)), ..request.clone() },
            BeginRequest { sources: source("8"), ..request.clone() },
            BeginRequest { sources: Vec::new(), ..request.clone() },
        ] {
            let refused = calve.begin(&other).await.expect_err("another request");
            assert_eq!(refused.exit_code(), 13, "{refused}");
        }
        let bob = bed.coordinator("bob");
        let refused = bob.begin(&request).await.expect_err("ann's");
        assert!(refused.exit_code() == 13 && refused.to_string().contains("ann"), "{refused}");
        let stranger = bed.coordinator_with("ann", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(stranger.begin(&request).await.expect_err("another journal").exit_code(), 13);
        assert_eq!(bed.faults.commits(), commits);
        let twice = [source("1"), source("2")].concat();
        let refused = calve.begin(&BeginRequest { sources: twice, ..request.clone() }).await.expect_err("twice");
        assert!(refused.exit_code() == 2 && refused.to_string().contains("orders"), "{refused}");
    }
}

/// The same journal and table through a catalog of another name: what was tried is not known under that name.
#[tokio::test]
async fn another_name_of_the_catalog() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let renamed: Arc<dyn Catalog> = Arc::new(Renamed(bed.faults.clone(), CatalogIdentity("other".to_owned())));
        let coordinator = |catalog: Arc<dyn Catalog>| {
            Coordinator::new(catalog, bed.journal.clone(), bed.clock.clone(), calve.owner().clone())
        };
        let stranger = coordinator(renamed);
        let commits = bed.faults.commits();
        for refused in [
            try_stage(&bed, &stranger, "p").await.expect_err("elsewhere"),
            try_validate(&bed, &stranger, "p", contract()).await.expect_err("elsewhere"),
            stranger.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("elsewhere"),
            bed.abandon(&stranger, "p").await.expect_err("elsewhere"),
        ] {
            assert_eq!(refused.exit_code(), 13, "{refused}");
            let text = refused.to_string();
            assert!(text.contains("calve.identity") && text.contains(&bed.catalog.identity().0), "{text}");
        }
        assert_eq!(bed.faults.commits(), commits);
        let found = bed.reconcile(&stranger, "p").await;
        assert!(matches!(found.finding.state, State::Sealed { sent: Sent::NoJournal, .. }), "{:?}", found.finding);
        // Told that it is the same catalog, it goes on.
        let same: Arc<dyn Catalog> = Arc::new(Renamed(bed.faults.clone(), bed.catalog.identity().clone()));
        assert_eq!(bed.publish(&coordinator(same), "p").await.exit_code(), 0);
    }
}

/// Another journal: acting verbs refuse and name it, reading ones show it.
#[tokio::test]
async fn another_journal() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let stranger = bed.coordinator_with("ann", Arc::new(MemoryJournal::named("elsewhere")));
        let commits = bed.faults.commits();
        for refused in [
            try_stage(&bed, &stranger, "p").await.expect_err("foreign"),
            try_validate(&bed, &stranger, "p", contract()).await.expect_err("foreign"),
            stranger.publish(&bed.table, &bed.id("p"), &contract()).await.expect_err("foreign"),
            bed.abandon(&stranger, "p").await.expect_err("foreign"),
        ] {
            assert_eq!(refused.exit_code(), 13, "{refused}");
            assert!(refused.to_string().contains(&bed.journal.root()), "{refused}");
        }
        assert_eq!(bed.faults.commits(), commits);
        let found = bed.reconcile(&stranger, "p").await;
        assert!(!found.journal);
        assert!(matches!(found.finding.state, State::Sealed { sent: Sent::NoJournal, .. }), "{:?}", found.finding);
        let status = stranger.status(Some(&bed.table), None).await.expect("a status");
        assert_eq!(status.tables[0].publications[0].foreign_journal, Some(bed.journal.root()));
        // Once published, it is still told whose it was.
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        let status = stranger.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("a status");
        assert_eq!(status.tables[0].publications[0].foreign_journal, Some(bed.journal.root()));
        assert_eq!(bed.reconcile(&stranger, "p").await.exit_code(), 0);
    }
}

/// Row 0: renamed, dropped, dropped and created again.
#[tokio::test]
async fn a_lost_table() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    bed.faults.push(Fault::Hold);
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
    let moved: TableName = "lake.moved".parse().expect("a name");
    assert!(fake.rename(&bed.table, &moved));

    let found = bed.reconcile(&calve, "p").await;
    let State::Lost { renamed, .. } = &found.finding.state else { panic!("{:?}", found.finding) };
    assert_eq!((renamed.as_ref(), found.exit_code()), (Some(&moved), 20));
    assert!(found.next.iter().any(|next| next.contains("lake.moved")), "{:?}", found.next);
    let outcome = bed.publish(&calve, "p").await;
    assert!(matches!(outcome.outcome, PublishOutcome::Unresolved { cause: Cause::Lost, .. }), "{:?}", outcome.outcome);
    assert_eq!(bed.abandon(&calve, "p").await.expect_err("lost").exit_code(), 20);
    let status = calve.status(Some(&bed.table), Some(&bed.id("p"))).await.expect("a status");
    assert!(matches!(status.tables[0].publications[0].finding.state, State::Lost { .. }));
    let review = calve.review(&bed.table, &bed.id("p"), None).await.expect("a review");
    assert_eq!(review.answers.len(), 9);

    // Under its new name everything is known, and one of two requests is applied.
    let here = calve.reconcile(&moved, &bed.id("p")).await.expect("found");
    assert!(matches!(here.finding.state, State::Sealed { sent: Sent::InFlight, .. }), "{:?}", here.finding);

    // Another table of the old name is never published to.
    let fields = bed.catalog.load(&moved).await.expect("the table").metadata.current_schema().as_ref().clone();
    let creation = iceberg::TableCreation::builder().name("days".to_owned()).schema(fields).build();
    bed.catalog.create(&bed.table, creation).await.expect("created again");
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(&found.finding.state, State::Lost { renamed: Some(name), .. } if *name == moved));
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
    assert!(bed.faults.release_held().await.is_some());
    assert_eq!(bed.main().await, None, "nothing of it in the new table");

    let published = calve.publish(&moved, &bed.id("p"), &contract()).await.expect("an outcome");
    assert_eq!(published.exit_code(), 0, "{:?}", published.outcome);
    assert!(fake.drop_table(&moved));
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Lost { renamed: None, .. }), "{:?}", found.finding);
    assert_eq!(found.exit_code(), 20);
}

/// A later generation of a plain id is followed to a lost table too.
#[tokio::test]
async fn a_lost_generation() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p~2", "true").await;
    let moved: TableName = "lake.moved".parse().expect("a name");
    assert!(bed.fake.as_ref().expect("the fake").rename(&bed.table, &moved));
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(&found.finding.state, State::Lost { renamed: Some(_), .. }), "{:?}", found.finding);
    assert_eq!(found.finding.publication, bed.id("p~2"));
}

/// A table that cannot be loaded for another reason is no verdict.
#[tokio::test]
async fn an_unreachable_catalog() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "true").await;
    let forbidden = || CatalogError::Forbidden { what: "lake.days".to_owned(), reason: "403".to_owned() };
    bed.faults.fail_load(forbidden());
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 20);
    bed.faults.fail_load(crate::support::unavailable());
    assert_eq!(calve.reconcile(&bed.table, &bed.id("p")).await.expect_err("no answer").exit_code(), 1);
}

/// Row 1: a restored backup.
#[tokio::test]
async fn regressed() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let fake = bed.fake.clone().expect("the fake");
    bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let sealed = bed.catalog.load(&bed.table).await.expect("the table").metadata;
    bed.begin(&calve, "q", "true").await;
    bed.abandon(&calve, "q").await.expect("fenced");
    bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
    assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 11);
    fake.restore(&bed.table, sealed);
    let found = bed.reconcile(&calve, "p").await;
    assert!(matches!(found.finding.state, State::Regressed { .. }), "{:?}", found.finding);
    assert_eq!((found.row, found.exit_code()), (1, 21));
    let commits = bed.faults.commits();
    assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
    assert_eq!(bed.faults.commits(), commits, "frozen");
}

/// Generations: the plain id follows the newest, and status lists both.
#[tokio::test]
async fn generations() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        bed.abandon(&calve, "p").await.expect("fenced");
        let second = bed.sealed(&calve, "p~2", 9, &[(9, 4, 40)]).await;
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.finding.publication, bed.id("p~2"));
        let report = bed.publish(&calve, "p").await;
        assert_eq!((report.publication, report.main), (bed.id("p~2"), Some(second)));
        let status = calve.status(Some(&bed.table), None).await.expect("a status");
        let listed: Vec<_> = status.tables[0].publications.iter().map(|p| p.finding.publication.to_string()).collect();
        assert_eq!(listed.iter().collect::<std::collections::BTreeSet<_>>().len(), 2, "{listed:?}");
        // Without a journal the refs alone tell.
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(bed.reconcile(&stranger, "p").await.finding.publication, bed.id("p~2"));
    }
}

/// BEGIN after an answer that says nothing, after a refusal, and after none: one candidate in the end.
#[tokio::test]
async fn begin_after_trouble() {
    let (bed, calve, _) = history(Kind::Fake).await;
    let refuse = |status| Fault::Refuse { status, message: "no".to_owned() };
    for (name, fault, code) in [
        ("lost-reply", Fault::LoseReply, None),
        ("lost-request", Fault::LoseRequest, None),
        ("contention", refuse(409), None),
        ("twice", Fault::Duplicate, None),
        ("not-sent", Fault::NotSent, Some(1)),
        ("forbidden", refuse(403), Some(13)),
    ] {
        bed.faults.push(fault);
        match (bed.try_begin(&calve, name, "true").await, code) {
            (Ok(report), None) => assert!(!report.already_open, "{name}"),
            (Err(error), Some(code)) => assert_eq!(error.exit_code(), code, "{name}: {error}"),
            (result, code) => panic!("{name}: {result:?}, {code:?}"),
        }
        let report = bed.begin(&calve, name, "true").await;
        assert_eq!(report.already_open, code.is_none(), "{name}");
        assert!(matches!(bed.reconcile(&calve, name).await.finding.state, State::Open { .. }));
    }
    // A BEGIN that is still on its way when the next one is accepted never lands.
    bed.faults.push(Fault::Hold);
    let report = bed.begin(&calve, "held", "true").await;
    assert!(bed.faults.release_held().await.is_some());
    let audit = refs(&bed).await[&bed.id("held").audit_ref()].snapshot;
    assert_eq!(audit, report.marker);
}

/// Publish says what is missing in each state that is not sealed.
#[tokio::test]
async fn publish_without_a_seal() {
    let (bed, calve, _) = history(Kind::Fake).await;
    bed.begin(&calve, "p", "true").await;
    let report = bed.publish(&calve, "p").await;
    let PublishOutcome::Rejected { rejection: Rejection::Evidence, reasons } = &report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(reasons.iter().any(|reason| reason.contains("validate")), "{reasons:?}");
    assert!(report.next.iter().any(|next| next.starts_with("calve validate")), "{:?}", report.next);
}

/// An engine moves main to the seal between our reading and our request: told as what it is, and settled.
#[tokio::test]
async fn bypassed_while_publishing() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        let forward = bed.fast_forward(seal);
        bed.faults.before_commit(move || forward);
        let report = bed.publish(&calve, "p").await;
        assert!(
            matches!(report.outcome, PublishOutcome::Published { via: Via::Bypassed, sealed: true, .. }),
            "{:?}",
            report.outcome
        );
        assert_eq!(report.exit_code(), 0);
        assert_eq!(refs(&bed).await[&bed.id("p").published_ref()].snapshot, seal, "settled at once");
        assert_eq!(bed.reconcile(&calve, "p").await.row, 2);
    }
}

/// 35: main reached S, went on, and S expired by id: what the candidate added is live, so it is no more to be published,
/// fenced or begun, sealed or not.
#[tokio::test]
async fn visible_by_its_files_alone() {
    for sealed in [true, false] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.begin(&calve, "p", "day = '2013-08-09'").await;
        let data = bed.stage(&calve, "p", StageMode::Replace, &[(9, 4, 40)]).await.snapshot;
        let marker = bed.observe().await.snapshots[&data].parent.expect("B");
        if sealed {
            assert!(bed.validate(&calve, "p").await.seal.is_some());
        }
        bed.engine().move_branch("main", data).await;
        bed.engine().append("main", &[(10, 8, 80)]).await.expect("appended");
        let other = bed.engine().append("main", &[(10, 9, 90)]).await.expect("appended");
        let log: Vec<_> = bed.observe().await.snapshot_log.iter().map(|(_, id)| *id).collect();
        let gone: Vec<_> = log.into_iter().filter(|id| *id != other).chain([data]).collect();
        if !sealed {
            // The branch would keep S: an engine's write stands on it.
            bed.engine().append("audit/p", &[(9, 5, 50)]).await.expect("appended");
        }
        let _reply = bed.engine().expire(&gone).await;
        let observed = bed.observe().await;
        assert!(!observed.snapshots.contains_key(&data) && observed.snapshots.contains_key(&marker));
        let before = bed.faults.commits();
        assert_eq!(bed.abandon(&calve, "p").await.expect_err("it is visible").exit_code(), 13, "sealed: {sealed}");
        assert_eq!(bed.faults.commits(), before);
        let found = bed.reconcile(&calve, "p").await;
        assert_eq!(found.row, 3, "{:?}", found.finding);
        assert!(matches!(found.finding.state, State::Bypassed { .. }));
    }
}

/// The names that calve gives are never taken for others'.
#[tokio::test]
async fn other_refs_are_not_publications() {
    let (bed, calve, base) = history(Kind::Fake).await;
    for name in ["audit", "audit/", "audit/p/q", "audit/~2", "published/a b", "release/x-1"] {
        bed.engine().tag(RefName(name.to_owned()), base).await;
    }
    let status = calve.status(Some(&bed.table), None).await.expect("a status");
    assert!(status.tables[0].publications.is_empty(), "{:?}", status.tables[0].publications);
}

/// A journal inside the table would be taken by the engines' cleaning: nothing is begun with it.
#[tokio::test]
async fn a_journal_inside_the_table_is_refused() {
    let (bed, calve, _) = history(Kind::Embedded).await;
    let location = bed.catalog.load(&bed.table).await.expect("loaded").metadata.location().to_owned();
    let folder = std::path::PathBuf::from(location.trim_start_matches("file://")).join("journal");
    let inside = calve::journal::local::LocalJournal::open(folder).expect("opened");
    let other = bed.coordinator_with("ann", std::sync::Arc::new(inside));
    let commits = bed.faults.commits();
    let error = bed.try_begin(&other, "p", "day = '2013-08-09'").await.expect_err("refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    for word in ["inside the location", "--journal", "outside every table", "journal ="] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert_eq!(bed.faults.commits(), commits);
    bed.begin(&calve, "p", "day = '2013-08-09'").await;
}

/// A receipt that calve did not leave: nobody may act on it.
#[tokio::test]
async fn a_receipt_on_something_else() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().tag(bed.id("p").published_ref(), base).await;
        let found = bed.reconcile(&calve, "p").await;
        assert!(matches!(found.finding.state, State::Ambiguous { .. }), "{:?}", found.finding);
        assert_eq!(found.exit_code(), 21);
        assert_eq!(found.next, [format!("calve review {} p", bed.table)]);
        let review = calve.review(&bed.table, &bed.id("p"), None).await.expect("reviewed");
        assert!(!format!("{review:?}").contains("next: calve review"), "{review:?}");
        assert_eq!(calve.reconcile_all(&bed.table).await.expect("all").exit_code(), 21);
        let commits = bed.faults.commits();
        assert_eq!(codes(&bed, &calve, "p").await, [13, 13, 13, 21, 21]);
        assert_eq!(bed.faults.commits(), commits);
    }
}

/// 13: a column is added after the seal: a conflict, until it is validated under the new schema; and whoever has no
/// journal reads the same from the table.
#[tokio::test]
async fn the_schema_moves_under_a_seal() {
    for kind in KINDS {
        let (bed, calve, _) = history(kind).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.engine().add_column("note").await;
        let report = bed.publish(&calve, "p").await;
        assert_eq!((report.exit_code(), report.requests), (11, 0), "{:?}", report.outcome);
        assert!(bed.validate(&calve, "p").await.passed);
        let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::named("elsewhere")));
        assert_eq!(bed.reconcile(&calve, "p").await.row, 6);
        assert_eq!(bed.reconcile(&stranger, "p").await.row, 6);
        assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
        assert_eq!(bed.ids().await, [1, 2, 3, 4]);
    }
}

/// Publish and abandon at once: one of them, on every catalog, and both say which.
#[tokio::test]
async fn publish_and_abandon_at_once() {
    for kind in KINDS {
        for _ in 0..3 {
            let (bed, calve, base) = history(kind).await;
            let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            let other = bed.coordinator("ann");
            let (published, abandoned) = tokio::join!(bed.publish(&calve, "p"), bed.abandon(&other, "p"));
            match bed.main().await {
                Some(main) if main == seal => {
                    assert_eq!(published.exit_code(), 0, "{:?}", published.outcome);
                    let code = abandoned.map_or_else(|error| error.exit_code(), |report| report.exit_code());
                    assert!(code == 13 || code == 0, "{code}");
                }
                main => {
                    assert_eq!(main, Some(base));
                    assert_eq!(published.exit_code(), 13, "{:?}", published.outcome);
                    assert_eq!(abandoned.expect("fenced").finding.state, State::Closed);
                }
            }
        }
    }
}

/// 15: several publishers on one table, disjoint days, at once: one becomes visible, the others are conflicts with exit 11,
/// and no row is lost.
#[tokio::test]
async fn several_publishers_at_once() {
    for kind in KINDS {
        let (bed, calve, base) = history(kind).await;
        for (id, day) in [("a", 9), ("b", 10), ("c", 11)] {
            bed.sealed(&calve, id, day, &[(day, i64::from(day), 0)]).await;
        }
        let others = [bed.coordinator("ann"), bed.coordinator("ann")];
        let (a, b, c) =
            tokio::join!(bed.publish(&calve, "a"), bed.publish(&others[0], "b"), bed.publish(&others[1], "c"));
        let mut codes = [a.exit_code(), b.exit_code(), c.exit_code()];
        codes.sort_unstable();
        assert_eq!(codes, [0, 11, 11], "{:?} {:?} {:?}", a.outcome, b.outcome, c.outcome);
        let ids = bed.ids().await;
        assert_eq!((ids.len(), &ids[..3]), (4, &[1, 2, 3][..]), "{ids:?}");
        let main = bed.main().await.expect("main");
        assert!(bed.observe().await.ancestry(main).any(|ancestor| ancestor == base), "I7");
    }
}

/// 32: two seals, the first one's publish still in flight when the second is sent: whichever is applied, the answer is
/// published, once, and never ambiguous.
#[tokio::test]
async fn a_request_for_an_older_seal() {
    for kind in KINDS {
        for held in [false, true] {
            let (bed, calve, _) = history(kind).await;
            bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
            bed.faults.push(Fault::Hold);
            assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
            let second = bed.validate(&calve, "p").await.seal.expect("sealed again");
            if held {
                bed.faults.push(Fault::Hold);
                assert_eq!(bed.publish(&calve, "p").await.exit_code(), 20);
            } else {
                assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);
            }
            assert!(matches!(bed.faults.release_held().await, Some(calve::catalog::Reply::Refused { .. })));
            if held {
                assert!(matches!(bed.faults.release_held().await, Some(calve::catalog::Reply::Accepted { .. })));
            }
            let found = bed.reconcile(&calve, "p").await;
            assert!(matches!(found.finding.state, State::Published { snapshot, .. } if snapshot == second));
            assert_eq!(bed.ids().await, [1, 2, 3, 4]);
        }
    }
}

/// Conflicts that the table does not show: the identical request again, three times at most.
#[tokio::test]
async fn conflicts_without_a_reason() {
    let refuse = Fault::Refuse { status: 409, message: "contention".to_owned() };
    for (refusals, code, requests) in [(1, 0, 2), (2, 0, 3), (3, 13, 3), (4, 13, 3)] {
        let (bed, calve, _) = history(Kind::Fake).await;
        bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
        bed.faults.script(vec![refuse.clone(); refusals]);
        let report = bed.publish(&calve, "p").await;
        assert_eq!((report.exit_code(), report.requests), (code, requests), "{refusals}: {:?}", report.outcome);
        let seen = bed.faults.seen();
        let sent: Vec<_> = seen.iter().rev().take(requests as usize).map(|seen| &seen.commit).collect();
        let updates = |commit: &calve::catalog::Commit| serde_json::to_value(&commit.updates).expect("updates");
        assert!(sent.windows(2).all(|pair| updates(pair[0]) == updates(pair[1])), "the identical request");
        assert!(sent.windows(2).all(|pair| pair[0].key != pair[1].key), "under a new key after a refusal");
        // Rejected is not final.
        let mut last = report.exit_code();
        for _ in 0..2 {
            if last != 0 {
                assert_eq!(bed.reconcile(&calve, "p").await.exit_code(), 13);
                last = bed.publish(&calve, "p").await.exit_code();
            }
        }
        assert_eq!(last, 0);
    }
}
