//! `calve recover`.

use super::Context;
use super::args::Recover;
use super::exit::Outcome;
use crate::coordinator::RecoverRequest;

/// Looks after what killed processes left.
pub(super) async fn run(context: &Context, args: Recover) -> Outcome {
    let coordinator = context.coordinator_or_journal().await?;
    let Recover { table, fence, takeover, dry_run } = args;
    let report = coordinator.recover(&RecoverRequest { table, fence, takeover, dry_run }).await?;
    if dry_run { context.print(&report) } else { context.print_done(&report) }
}
