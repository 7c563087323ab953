//! `calve publish`.

use super::Context;
use super::args::Publish;
use super::contract::required;
use super::exit::Outcome;
use crate::contract::Contract;
use crate::publish::state::is_settled;

/// Makes a sealed change visible.
pub(super) async fn run(context: &Context, args: Publish) -> Outcome {
    let coordinator = context.coordinator_or_journal().await?;
    let failure = match required(context, &args.table, &args.contract) {
        Ok(found) => return context.print_done(&coordinator.publish(&args.table, &args.id, &found.contract).await?),
        Err(failure) => failure,
    };
    // What the table has settled needs no contract to be told. Without a check nothing passes, so nothing is sent.
    match coordinator.publish(&args.table, &args.id, &Contract::empty()).await {
        Ok(report) if report.finding.as_ref().is_some_and(|finding| is_settled(&finding.state)) => {
            context.print_done(&report)
        }
        Ok(_) | Err(_) => Err(failure),
    }
}
