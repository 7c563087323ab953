//! Publications through a network that fails at random, by seeds that are printed, over real catalogs: each becomes
//! visible exactly once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use calve::coordinator::{BeginRequest, Coordinator, StageMode, StageRequest, ValidateRequest};
use calve::data::NoProgress;
use calve::publish::PublishOutcome;
use calve::testing::{Bed, contract};
use integration::beds::{SERVICES, Service};

const PUBLICATIONS: i32 = 4;
const TRIES: usize = 40;
const RULES: [&str; 6] = [
    "POST */tables/* 12% drop-before",
    "POST */tables/* 12% drop-after",
    "POST */tables/* 12% replay",
    "POST */tables/* 12% answer-after 503 retry-after=1 html",
    "POST */tables/* 6% answer 502 html",
    "POST */tables/* 6% cut",
];

/// A scheduler that runs the same line again until it is done.
async fn again<T, F: Future<Output = Result<T, String>>>(what: &str, verb: impl Fn() -> F) -> T {
    let mut last = String::new();
    for _ in 0..TRIES {
        match verb().await {
            Ok(done) => return done,
            Err(reason) => last = reason,
        }
    }
    panic!("{what} was not done after {TRIES} tries: {last}");
}

async fn publication(bed: &Bed, calve: &Coordinator, day: i32) {
    let (name, row) = (format!("p{day}"), (day, i64::from(day), 0));
    let begin = BeginRequest {
        table: bed.table.clone(),
        id: bed.id(&name),
        scope: Some(format!("day = '2013-08-{day:02}'")),
        reads: None,
        code: None,
        sources: Vec::new(),
        lease: None,
    };
    again("begin", || async { calve.begin(&begin).await.map(drop).map_err(|error| error.to_string()) }).await;
    again("stage", || async {
        let files = vec![bed.file(&[row])];
        let request = StageRequest { table: bed.table.clone(), id: bed.id(&name), mode: StageMode::Replace, files };
        calve.stage(&request, &NoProgress).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    again("validate", || async {
        let request = ValidateRequest {
            table: bed.table.clone(),
            id: bed.id(&name),
            contract: contract(),
            sources_root: ".".into(),
            dry_run: false,
        };
        let report = calve.validate(&request, Arc::new(NoProgress)).await.map_err(|error| error.to_string())?;
        if report.seal.is_some() { Ok(()) } else { Err(format!("{:?}", report.reasons)) }
    })
    .await;
    again("publish", || async {
        let report = calve.publish(&bed.table, &bed.id(&name), &contract()).await.map_err(|error| error.to_string())?;
        match report.outcome {
            PublishOutcome::Published { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn weather(service: Service, seed: u64) {
    println!("{service:?}, seed {seed}");
    let (bed, proxy) = service.bed_with(2, seed).await.unwrap();
    bed.engine().append("main", &[(8, 1, 0)]).await.unwrap();
    for rule in RULES {
        proxy.script(rule).unwrap();
    }
    let calve = bed.coordinator("ann");
    let days = 9..9 + PUBLICATIONS;
    for day in days.clone() {
        publication(&bed, &calve, day).await;
    }
    let wanted: Vec<_> = [1].into_iter().chain(days.clone().map(i64::from)).collect();
    assert_eq!(bed.ids().await, wanted, "each once");
    let observed = bed.observe().await;
    for day in days {
        let id = bed.id(&format!("p{day}"));
        assert!(observed.reference(&id.published_ref()).is_some() && observed.reference(&id.closed_ref()).is_none());
    }
    let (seen, all) = (proxy.seen(), bed.commits());
    let faults: Vec<_> = seen.iter().filter(|seen| seen.rule.is_some()).map(|seen| seen.fault.as_str()).collect();
    println!("{all} commits, {} with a fault: {faults:?}", faults.len());
    assert!(faults.len() >= 4, "the weather was too fair to show anything: {faults:?}");
}

#[tokio::test]
async fn every_publication_becomes_visible_once() {
    for service in SERVICES {
        for seed in [1, 2, 3] {
            weather(service, seed).await;
        }
    }
}
