//! `calve reconcile`.

use super::Context;
use super::args::Reconcile;
use super::exit::Outcome;
use crate::coordinator::Reach;

/// Says what happened, with the proof.
pub(super) async fn run(context: &Context, args: Reconcile) -> Outcome {
    let progress = context.progress();
    let reach = Reach { files: args.depth, asked: args.deep };
    let coordinator = context.coordinator_or_journal().await?.with_reach(reach, progress.clone());
    match &args.id {
        Some(id) => {
            let report = coordinator.reconcile(&args.table, id).await;
            progress.finish();
            context.print_done(&report?)
        }
        None => {
            let report = coordinator.reconcile_all(&args.table).await;
            progress.finish();
            context.print_done(&report?)
        }
    }
}
