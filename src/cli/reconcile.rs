//! `calve reconcile`.

use super::Context;
use super::args::Reconcile;
use super::exit::Outcome;

/// Says what happened, with the proof.
pub(super) async fn run(context: &Context, args: Reconcile) -> Outcome {
    let coordinator = context.coordinator_or_journal().await?;
    match &args.id {
        Some(id) => context.print_done(&coordinator.reconcile(&args.table, id).await?),
        None => context.print_done(&coordinator.reconcile_all(&args.table).await?),
    }
}
