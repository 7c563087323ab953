//! The suite that every catalog passes, over the real ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calve::catalog::conformance::{Subject, run};
use calve::catalog::properties::Properties;
use calve::catalog::rest::RestCatalog;
use calve::clock::{Clock, ManualClock};
use calve::publish::trust::Seen;
use integration::beds::Service;
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

/// The words of each guarantee, and what the README says of it on SeaweedFS and on the reference catalog.
fn documented() -> Vec<[String; 3]> {
    let readme = std::fs::read_to_string(integration::source_root().join("README.md")).unwrap();
    let table = readme.split_once("| guarantee | SeaweedFS | reference |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [words, seaweedfs, reference] = cells.try_into().unwrap();
        [words.trim_start_matches("*good to know:* ").to_owned(), seaweedfs, reference]
    };
    rows.map(cells).collect()
}

#[tokio::test]
async fn what_the_readme_says_of_catalogs_is_what_probe_finds() {
    let documented = documented();
    for (column, service) in [(1, Service::SeaweedFs), (2, Service::Reference)] {
        let bed = service.bed(2).await.unwrap();
        let report = bed.coordinator("ann").probe("conformance_probe").await.unwrap();
        assert_eq!(report.guarantees.len(), documented.len());
        for (found, said) in report.guarantees.iter().zip(&documented) {
            let (words, cell) = (&said[0], said[column].as_str());
            let holds = match cell {
                "409" => found.seen == Seen::Holds && found.detail.starts_with("refused with 409,"),
                "holds" | "yes" => found.seen == Seen::Holds,
                _ => cell.starts_with("no") && found.seen != Seen::Holds,
            };
            let advertised = !cell.contains("not advertised") || found.detail.contains("not advertised");
            assert!(found.what == words && holds && advertised, "{service:?}: {said:?} is {found:?}");
        }
    }
}
