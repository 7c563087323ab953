//! Which verb is refused in which state, and with which exit code.

mod at_once;
mod journals;
mod lost;
mod older;
mod refs;
mod restored;
mod used;

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
