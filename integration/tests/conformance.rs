//! The suite that every catalog passes, over the real ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calve::catalog::conformance::{Subject, run};
use calve::catalog::properties::Properties;
use calve::catalog::rest::RestCatalog;
use calve::clock::{Clock, ManualClock};
use integration::services::{shared_reference, shared_seaweedfs};

/// A namespace of its own for each case, on a connection of its own.
async fn conform(properties: &Properties) {
    let number = AtomicU32::new(0);
    run(|| async {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(u64::from(number) + 1));
        let catalog = Arc::new(RestCatalog::connect(properties, clock.clone()).await.unwrap());
        Subject { catalog, clock, namespace: format!("conformance_{number}"), keep: Box::new(()) }
    })
    .await;
}

#[tokio::test]
async fn seaweedfs_conforms() {
    let service = shared_seaweedfs().unwrap();
    conform(&service.properties()).await;
}

#[tokio::test]
async fn the_reference_catalog_conforms() {
    let service = shared_reference().unwrap();
    conform(&service.properties()).await;
}
