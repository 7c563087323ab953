//! `calve validate`.

use super::Context;
use super::args::Validate;
use super::contract::required;
use super::exit::Outcome;
use crate::coordinator::ValidateRequest;

/// Checks and seals.
pub(super) async fn run(context: &Context, args: Validate) -> Outcome {
    let found = required(context, &args.table, &args.contract)?;
    let coordinator = context.coordinator().await?;
    let request = ValidateRequest {
        table: args.table,
        id: args.id,
        sources_root: found.folder(),
        contract: found.contract,
        dry_run: args.dry_run,
    };
    let progress = context.progress();
    let report = coordinator.validate(&request, progress.clone()).await?;
    progress.finish();
    context.print_done(&report)
}
