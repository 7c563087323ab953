//! A journal whose store goes away, or becomes read-only, while a command is at work.

use integration::beds::Service;

use crate::front::{Answer, Request};
use crate::world::World;

const DAY: &str = "2013-08-10";
const DENIED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>AccessDenied</Code>\
     <Message>Access Denied.</Message><Resource>/plain</Resource><RequestId>1</RequestId></Error>";

/// Nothing answers; then nothing may be written. With the exit codes before anything was sent.
const TROUBLES: [(&str, i32); 2] = [("gone", 1), ("read-only", 13)];

fn breaks(world: &World, trouble: &str) {
    let gone = trouble == "gone";
    world.store.does(move |request, pass| match (gone, request.method.as_str()) {
        (true, _) => Answer::nothing(),
        (false, "PUT" | "POST" | "DELETE") => Answer::of(403, "application/xml", DENIED),
        (false, _) => pass(request),
    });
}

#[test]
fn a_journal_that_is_gone_before_the_intent_lets_nothing_happen() {
    let world = World::of(Service::SeaweedFs);
    world.sealed("p", DAY);
    for (trouble, code) in TROUBLES {
        breaks(&world, trouble);
        let (before, commits) = (world.refs(), world.front.count(Request::is_commit));
        let lines = [
            &["publish", &world.table, "p"][..],
            &["begin", &world.table, "q", "--scope", "flight_date = '2013-08-09'"],
            &["abandon", &world.table, "p", "--reason", "x"],
        ];
        // Each asks a store that does not answer several times.
        for line in lines.iter().take(if trouble == "gone" { 1 } else { 3 }) {
            world.refused(line, code, &[&world.journal]);
        }
        assert_eq!(world.refs(), before);
        assert_eq!(world.front.count(Request::is_commit), commits, "{trouble}: a commit was sent without its intent");
        world.store.passes();
    }
    world.publish("p").ends(0);
    assert!(world.is_published("p"));
}

#[test]
fn a_journal_that_is_gone_after_the_commit_is_a_warning() {
    let world = World::of(Service::SeaweedFs);
    for (number, (trouble, _)) in TROUBLES.into_iter().enumerate() {
        let steps = ["publish:intended", "publish:answered", "publish:recorded"];
        for step in steps.into_iter().skip(usize::from(trouble == "gone")).take(if trouble == "gone" { 1 } else { 3 }) {
            let id = format!("p{number}{}", step.replace(':', "-"));
            world.sealed(&id, DAY);
            let line = ["publish", &world.table, &id, "--json"];
            let ran = world.paused(&line, step, || breaks(&world, trouble)).ends(0);
            assert!(world.is_published(&id), "{ran:?}");
            let warnings = ran.json()["warnings"].to_string();
            assert!(warnings.contains("could not be recorded") && warnings.contains(&world.journal), "{ran:?}");
            world.store.passes();
            let report = world.run(&["reconcile", &world.table, &id, "--json"]).ends(0).json();
            assert_eq!(report["finding"]["state"], "published");
            world.publish(&id).ends(0);
        }
    }
}
