//! `calve review`.

use super::Context;
use super::args::Review;
use super::contract::find_contract;
use super::exit::Outcome;

/// Answers the nine questions. A contract is used where there is one.
pub(super) async fn run(context: &Context, args: Review) -> Outcome {
    let contract = find_contract(context, &args.table, &args.contract)?;
    let coordinator = context.coordinator().await?;
    let contract = contract.map(|found| found.contract);
    context.print(&coordinator.review(&args.table, &args.id, contract.as_ref()).await?)
}
