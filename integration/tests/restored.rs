//! A table that was put back: dropped, and registered anew from an older metadata file of its own, as a restored backup has it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use calve::coordinator::Reach;
use calve::data::NoProgress;
use calve::journal::memory::MemoryJournal;
use calve::publish::reconcile::{Sent, State};
use calve::report::Report as _;
use integration::beds::Service;
use integration::services::{http, shared_reference};
use serde_json::json;

/// The uuid and the sequence number are the same, so that only what the journal saw tells: both facts are named, and nothing
/// is sent. Who has no journal reads what the table shows, and its older metadata does not hold the lost future.
#[tokio::test]
async fn registered_anew_from_an_older_file() {
    let bed = Service::Reference.bed(2).await.unwrap();
    let calve = bed.coordinator("ann");
    bed.engine().append("main", &[(8, 1, 10)]).await.unwrap();
    let seal = bed.sealed(&calve, "p", 9, &[(9, 4, 40)]).await;
    let yesterday = bed.catalog.load(&bed.table).await.unwrap().metadata_location.expect("the reference names it");
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 0);

    let uri = shared_reference().unwrap().uri();
    let port = uri.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let namespace = format!("/v1/namespaces/{}", bed.table.namespace_text());
    let table = format!("{namespace}/tables/{}?purgeRequested=false", bed.table.name());
    let dropped = http::request(port, "DELETE", &table, &[], "").unwrap();
    assert!((200..300).contains(&dropped.status), "{} {}", dropped.status, dropped.body);
    let body = json!({ "name": bed.table.name(), "metadata-location": yesterday }).to_string();
    let headers = ["Content-Type: application/json"];
    let registered = http::request(port, "POST", &format!("{namespace}/register"), &headers, &body).unwrap();
    assert_eq!(registered.status, 200, "{}", registered.body);

    let found = bed.reconcile(&calve, "p").await;
    assert_eq!((found.finding.state.word(), found.exit_code()), ("regressed", 21), "{:#?}", found.finding);
    let proof = found.finding.proof.join("\n");
    for fact in ["showed it published", &format!("audit/p as a branch at {seal} again")] {
        assert!(proof.contains(fact), "{fact}: {proof}");
    }
    let commits = bed.commits();
    assert_eq!(bed.publish(&calve, "p").await.exit_code(), 21);
    assert_eq!(bed.abandon(&calve, "p").await.expect_err("frozen").exit_code(), 21);
    assert_eq!(bed.commits(), commits);

    let stranger = bed.coordinator_with("bob", Arc::new(MemoryJournal::new()));
    let asking = stranger.with_reach(Reach { files: 100, asked: true }, Arc::new(NoProgress));
    let found = bed.reconcile(&asking, "p").await;
    assert!(matches!(found.finding.state, State::Sealed { sent: Sent::NoJournal, .. }), "{:#?}", found.finding);
    let back = found.looked_back.expect("it was followed back");
    assert!(back.files > 0 && back.unread.is_empty(), "{back:?}");
    assert_eq!(bed.ids().await, [1]);
}
