//! Several requests at once, and conflicts that the table does not show.

use super::*;

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

/// 15: several publishers on one table, disjoint days, at once: one becomes visible, the others are conflicts with exit 12,
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
        assert_eq!(codes, [0, 12, 12], "{:?} {:?} {:?}", a.outcome, b.outcome, c.outcome);
        let ids = bed.ids().await;
        assert_eq!((ids.len(), &ids[..3]), (4, &[1, 2, 3][..]), "{ids:?}");
        let main = bed.main().await.expect("main");
        assert!(bed.observe().await.ancestry(main).any(|ancestor| ancestor == base), "I7");
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
