//! `calve abandon`.

use super::Context;
use super::args::Abandon;
use super::exit::Outcome;

/// Closes a publication for good.
pub(super) async fn run(context: &Context, args: Abandon) -> Outcome {
    let coordinator = context.coordinator_or_journal().await?;
    context.print_done(&coordinator.abandon(&args.table, &args.id, &args.reason).await?)
}
