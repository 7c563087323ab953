//! `calve status`.

use super::Context;
use super::args::Status;
use super::exit::Outcome;

/// Says where everything stands.
pub(super) async fn run(context: &Context, args: Status) -> Outcome {
    let coordinator = context.coordinator_or_journal().await?;
    context.print(&coordinator.status(args.table.as_ref(), args.id.as_ref()).await?)
}
