//! Publications by real processes through faults, kills and conflicts, over both real catalogs: a short run of what
//! `cargo run --release -p integration -- chaos` plays at length.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use integration::beds::SERVICES;
use integration::chaos::{Options, Watch, run};

/// Keeps what is wrong for the message of the test.
#[derive(Default)]
struct Stories(Mutex<Vec<String>>);

impl Watch for Stories {
    fn over(&self) {}

    fn wrong(&self, story: &str) {
        self.0.lock().unwrap().push(story.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_publication_is_visible_once_or_not_at_all_as_it_was_told() {
    let options =
        Options { publications: 24, seed: 5, services: SERVICES.to_vec(), jobs: 4, a_table: 6, only: None, keep: None };
    let stories = Arc::new(Stories::default());
    let report = run(&options, stories.clone()).await.unwrap();
    println!("seed {}: {report}", options.seed);
    let stories = stories.0.lock().unwrap();
    assert!(stories.is_empty() && report.is_clean(), "{report}\n{}", stories.join("\n"));
    assert_eq!((report.publications, report.unresolved, report.tables), (24, 0, 4));
    // Else nothing was shown. Conflicts depend on who is first, and so are not asked for.
    assert!(report.published >= 10 && report.killed >= 3 && report.faults >= 10, "{report}");
}
