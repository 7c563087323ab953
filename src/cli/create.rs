//! `calve create`.

use std::path::PathBuf;

use super::Context;
use super::args::Create;
use super::config::{Missing, Place};
use super::exit::Outcome;
use crate::catalog::embedded::CATALOG_FILE;
use crate::coordinator::{self, CreateRequest};
use crate::data::create::infer_schema;

/// Makes a table, and the warehouse where there is none.
pub(super) async fn run(context: &Context, args: Create) -> Outcome {
    let settings = context.settings()?;
    let is_new = |warehouse: &PathBuf| !warehouse.is_file() && !warehouse.join(CATALOG_FILE).exists();
    if matches!(settings.place()?, Place::Embedded(warehouse) if is_new(&warehouse)) {
        // A file that gives no columns should not leave a warehouse behind.
        let _schema = infer_schema(&args.like).map_err(coordinator::Error::from)?;
    }
    let coordinator = settings.coordinator(Missing::Create).await?;
    let request = CreateRequest {
        table: args.table,
        like: args.like,
        partition_by: args.partition_by,
        format_version: args.format_version,
        properties: args.properties.into_iter().collect(),
    };
    context.print_done(&coordinator.create(&request).await?)
}
