//! `calve stage`.

use super::Context;
use super::args::Stage;
use super::exit::Outcome;
use crate::coordinator::{StageMode, StageRequest};

/// Writes files to the branch.
pub(super) async fn run(context: &Context, args: Stage) -> Outcome {
    let coordinator = context.coordinator().await?;
    let mode = if args.mode.replace { StageMode::Replace } else { StageMode::Append };
    let request = StageRequest { table: args.table, id: args.id, mode, files: args.files };
    let progress = context.progress();
    let report = coordinator.stage(&request, progress.as_ref()).await?;
    progress.finish();
    context.print_done(&report)
}
