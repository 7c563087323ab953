//! Situations that must come out right, each over the fake and the embedded catalog. Their text is in
//! `calve::testing::scenarios`.

use calve::testing::{Bed, KINDS, Kind, scenarios};

macro_rules! play {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                for kind in KINDS {
                    println!("{kind:?}");
                    scenarios::$name(Bed::new(kind).await).await;
                }
            }
        )*
    };
}

calve::every_scenario!(play);

#[tokio::test]
async fn s31_renamed() {
    scenarios::s31_renamed(Bed::new(Kind::Fake).await).await;
}
