//! The client against a scripted server on this machine.

mod bridge;
mod config;
mod once;
mod secrets;
mod signing;
mod tables;
mod testkit;
mod tls;
mod tokens;
mod vending;
mod wire;

use std::sync::Arc;

use iceberg::spec::FormatVersion;
use serde_json::Value;

use self::bridge::Bridge;
use crate::catalog::conformance::{self, Subject, require, set, small_table};
use crate::catalog::fake::FakeCatalog;
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, Commit};
use crate::clock::{Clock, ManualClock};
use crate::ids::{SnapshotId, TableName};
use crate::observed::RefKind;

/// A table with one snapshot in main, as a catalog answers it, and a commit that fits it.
pub(super) struct Sample {
    pub table: TableName,
    /// The answer of loading it.
    pub loaded: Value,
    /// Sets a tag on its snapshot.
    pub commit: Commit,
    /// The answer of that commit.
    pub committed: Value,
}

impl Sample {
    pub(super) async fn new(table: &str) -> Self {
        let table: TableName = table.parse().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(7));
        let fake = FakeCatalog::new(clock.clone());
        let made = fake.create(&table, small_table(&table, FormatVersion::V2)).await.unwrap();
        let id = SnapshotId(4_611_686_018_427_387_905);
        let now = clock.now().timestamp_millis();
        let snapshot = conformance::empty_snapshot(&made, id, None, now, Default::default());
        let plain = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let first = Commit {
            table: table.clone(),
            requirements: vec![require("main", None)],
            updates: vec![iceberg::TableUpdate::AddSnapshot { snapshot }, set("main", id, &plain)],
            key: clock.fresh_key(),
        };
        assert!(matches!(fake.commit(&first).await, crate::catalog::Reply::Accepted { .. }));
        let loaded = bridge::shown(&fake.load(&table).await.unwrap());
        let commit = Commit {
            table: table.clone(),
            requirements: vec![
                iceberg::TableRequirement::UuidMatch { uuid: made.metadata.uuid() },
                require("main", Some(id)),
                require("published/x", None),
            ],
            updates: vec![set("published/x", id, &RefKind::KEPT_TAG)],
            key: clock.fresh_key(),
        };
        assert!(matches!(fake.commit(&commit).await, crate::catalog::Reply::Accepted { .. }));
        let committed = bridge::shown(&fake.load(&table).await.unwrap());
        Self { table, loaded, commit, committed }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_to_what_every_catalog_must_do() {
    conformance::run(|| async {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(3));
        let server = Bridge::new(clock.clone()).serve().await;
        let catalog = RestCatalog::connect(&server.properties(&[]), clock.clone()).await.unwrap();
        Subject { catalog: Arc::new(catalog), clock, namespace: "n".to_owned(), keep: Box::new(server) }
    })
    .await;
}
