//! `calve probe`.

use super::Context;
use super::args::Probe;
use super::config::Missing;
use super::exit::Outcome;

/// Tries what the catalog and the journal guarantee.
pub(super) async fn run(context: &Context, args: Probe) -> Outcome {
    let coordinator = context.settings()?.coordinator(Missing::Refuse).await?;
    context.print(&coordinator.probe(&args.namespace).await?)
}
