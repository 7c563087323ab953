//! Situations that must come out right, over real catalogs, with faults made on the wire. Their text is in
//! `calve::testing::scenarios`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use calve::testing::scenarios;
use integration::beds::SERVICES;

macro_rules! play {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                for service in SERVICES {
                    println!("{service:?}");
                    scenarios::$name(service.bed(2).await.unwrap()).await;
                }
            }
        )*
    };
}

calve::every_scenario!(play);
play!(s31_renamed);

/// What differs between format versions: sequence numbers, row ids, and how deletes are kept.
#[tokio::test]
async fn the_other_format_versions() {
    for service in SERVICES {
        for version in [1, 3] {
            println!("{service:?} {version}");
            scenarios::s01_reply_lost(service.bed(version).await.unwrap()).await;
            scenarios::s08_writer_between_read_and_swap(service.bed(version).await.unwrap()).await;
            scenarios::s09_first_commit_of_a_table(service.bed(version).await.unwrap()).await;
            scenarios::s24_two_seals(service.bed(version).await.unwrap()).await;
        }
    }
}
