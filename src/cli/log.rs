//! `calve log`.

use super::Context;
use super::args::Log;
use super::exit::Outcome;

/// Lists what was published.
pub(super) async fn run(context: &Context, args: Log) -> Outcome {
    let coordinator = context.coordinator().await?;
    context.print(&coordinator.log(&args.table).await?)
}
