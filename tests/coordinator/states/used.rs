//! Ids that are unknown, open or used, and names that are no ids.

use super::*;

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
