//! `calve begin`.

use super::Context;
use super::args::Begin;
use super::exit::Outcome;
use crate::coordinator::BeginRequest;

/// Opens a publication.
pub(super) async fn run(context: &Context, args: Begin) -> Outcome {
    let coordinator = context.coordinator().await?;
    let request = BeginRequest {
        table: args.table,
        id: args.id,
        scope: args.scope,
        reads: args.reads,
        code: args.code,
        sources: args.sources,
        lease: args.lease,
    };
    context.print_done(&coordinator.begin(&request).await?)
}
