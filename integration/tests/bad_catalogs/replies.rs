//! Tokens that expire between two requests, and proxies that answer for the catalog. Whatever is answered, a change is
//! visible exactly once, and nothing is final that the table does not show.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use integration::beds::{SERVICES, Service};
use serde_json::Value;

use crate::front::{Answer, Request};
use crate::world::{Ran, World};

const DAY: &str = "2013-08-10";

/// How the outcome is called, in JSON.
fn outcome(ran: &Ran) -> String {
    let report = ran.json();
    report["outcome"]["outcome"].as_str().or(report["outcome"].as_str()).unwrap_or_default().to_owned()
}

/// The same line on the healthy way: published, once, and both know it.
fn ends_well(world: &World, id: &str) {
    world.front.passes();
    let ran = world.publish(id);
    assert!(ran.code == 0 && world.is_published(id), "{ran:?}");
    world.run(&["reconcile", &world.table, id]).ends(0);
    let before = world.refs();
    world.publish(id).ends(0);
    assert_eq!(world.refs(), before, "once");
}

/// A 401 at the n-th request of a line, once: reads get a new token, a change is not sent again, and the same line again
/// does the rest.
#[test]
fn a_token_that_expires_at_any_request() {
    let world = World::of(Service::SeaweedFs);
    let (table, scope) = (world.table.clone(), format!("flight_date = '{DAY}'"));
    let file = integration::flights(&format!("flights-{DAY}.parquet")).display().to_string();
    let expires = |nth: usize| {
        let count = AtomicUsize::new(0);
        world.front.does(move |request, pass| {
            let token = request.path().ends_with("/oauth/tokens");
            match !token && count.fetch_add(1, Ordering::SeqCst) == nth {
                true => Answer::error(401, "NotAuthorizedException"),
                false => pass(request),
            }
        });
    };
    let lines: [&[&str]; 4] = [
        &["begin", &table, "p", "--scope", &scope],
        &["stage", &table, "p", &file, "--append"],
        &["validate", &table, "p"],
        &["publish", &table, "p"],
    ];
    for line in lines {
        let mut done = false;
        for nth in (0..12).rev() {
            let before = world.front.count(Request::is_commit);
            expires(nth);
            let ran = world.run(line);
            let commits = world.front.count(Request::is_commit) - before;
            assert!([0, 13].contains(&ran.code), "{nth}: {ran:?}");
            assert!(commits <= 1, "{nth}: sent {commits} times: {ran:?}");
            done |= ran.code == 0;
            if line[0] == "publish" {
                assert_eq!(ran.code == 0, world.is_published("p"), "{nth}: {ran:?}");
            }
            if line[0] == "stage" && ran.code == 0 {
                // Each would append once more.
                break;
            }
        }
        assert!(done, "{line:?}");
    }
    ends_well(&world, "p");
}

/// For good, and on the publishing commit alone.
#[test]
fn a_commit_that_is_refused_for_its_token_is_decided_from_the_table() {
    for service in SERVICES {
        let world = World::of(service);
        world.sealed("p", DAY);
        // Always, at the commit itself.
        world.front.does(|request, pass| match request.is_commit() {
            true => Answer::error(401, "NotAuthorizedException"),
            false => pass(request),
        });
        let (loads, commits) = (world.front.count(Request::is_load), world.front.count(Request::publishes));
        let ran = world.publish("p").ends(13);
        assert_eq!(outcome(&ran), "rejected", "{ran:?}");
        assert!(ran.out.contains("401"), "{ran:?}");
        assert_eq!(world.front.count(Request::publishes) - commits, 1);
        let after = world.front.seen().into_iter().rev().take_while(|seen| !seen.publishes());
        assert!(after.filter(Request::is_load).count() > 0 && world.front.count(Request::is_load) > loads);
        assert!(!world.is_published("p"));

        // It was applied, and a front says 401: the table says what happened.
        world.front.does(|request, pass| match request.publishes() {
            true => {
                pass(request);
                Answer::error(401, "NotAuthorizedException")
            }
            false => pass(request),
        });
        let ran = world.publish("p").ends(0);
        assert!(ran.out.contains("reconciled") && world.is_published("p"), "{ran:?}");

        // The token ends with the commit: nothing can be read any more.
        world.sealed("q", "2013-08-09");
        let gone = std::sync::atomic::AtomicBool::new(false);
        world.front.does(move |request, pass| {
            if request.publishes() {
                pass(request);
                gone.store(true, Ordering::SeqCst);
            }
            if gone.load(Ordering::SeqCst) { Answer::error(401, "NotAuthorizedException") } else { pass(request) }
        });
        let ran = world.publish("q").ends(20);
        assert!(ran.out.contains("calve reconcile"), "{ran:?}");
        assert!(world.is_published("q"));
        ends_well(&world, "q");
    }
}

/// Its name, and what becomes of the catalog's answer.
type Forgery = (&'static str, fn(Answer) -> Answer);

/// Every answer that something in between may give, after the commit was applied and instead of it.
#[test]
fn proxies_that_answer_a_commit_for_the_catalog() {
    let answers: [Forgery; 14] = [
        ("a forged 500", |_| Answer::error(500, "InternalServerError")),
        ("a page of 502", |_| Answer::html(502)),
        ("a forged 503", |_| Answer::error(503, "ServiceUnavailable")),
        ("a forged 504", |_| Answer::html(504)),
        ("a forged 429", |_| Answer::error(429, "TooManyRequests")),
        ("a forged 409", |_| Answer::error(409, "CommitFailedException")),
        ("a forged 400", |_| Answer::error(400, "BadRequestException")),
        ("a page of 403", |_| Answer::html(403)),
        ("a login page", |_| Answer::html(200)),
        ("JSON of something else", |_| Answer::json(200, r#"{"status":"ok","items":[]}"#)),
        ("nothing", |_| Answer::nothing()),
        ("half", |answer| Answer(answer.0[..answer.0.len() / 2].to_vec())),
        ("no more than the head", |answer| {
            Answer(answer.0.split_inclusive(|b| *b == b'\n').take(2).flatten().copied().collect())
        }),
        ("an empty 200", |_| Answer::json(200, "")),
    ];
    let worlds = SERVICES.map(World::of);
    for (number, (name, answer)) in answers.iter().enumerate() {
        // Both in turn: what is decided here is decided before an answer is looked at as one catalog's.
        for world in worlds.iter().skip(number % 2).step_by(2) {
            println!("{:?}: {name}", world.service);
            let (id, answer) = (format!("p{number}"), *answer);
            world.sealed(&id, DAY);
            let sent = world.front.count(Request::publishes);
            // Instead of it.
            world.front.does(move |request, pass| {
                let instead = || answer(Answer::error(500, "Nothing"));
                if request.publishes() { instead() } else { pass(request) }
            });
            let ran = world.publish(&id);
            assert!([13, 20].contains(&ran.code), "{name}: {ran:?}");
            assert!(!world.is_published(&id));
            let refused = name.contains("409") || name.contains("400");
            assert_eq!(ran.code == 13, refused, "{name}: {ran:?}");
            let tries = world.front.count(Request::publishes) - sent;
            assert_eq!(tries, if name.contains("409") { 3 } else { 1 }, "{name}: {ran:?}");
            // After it.
            world.front.does(move |request, pass| {
                let passed = pass(request);
                if request.publishes() { answer(passed) } else { passed }
            });
            let ran = world.publish(&id);
            assert!(ran.code == 0 && world.is_published(&id), "{name}: {ran:?}");
            world.front.passes();
            world.run(&["reconcile", &world.table, &id]).ends(0);
        }
    }
}

/// A cache on the way: every load is answered as the first that asked for the same.
#[derive(Clone, Default)]
struct Cache(Arc<Mutex<HashMap<String, Answer>>>);

impl Cache {
    /// Answers loads. Commits that `loses` names are passed on, and a gateway answers them.
    fn before(&self, world: &World, loses: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        let kept = self.0.clone();
        world.front.does(move |request, pass| {
            if !request.is_load() {
                let answer = pass(request);
                return if loses(request) { Answer::error(503, "ServiceUnavailable") } else { answer };
            }
            let known = kept.lock().unwrap().get(&request.target).cloned();
            known.unwrap_or_else(|| {
                let answer = pass(request);
                drop(kept.lock().unwrap().insert(request.target.clone(), answer.clone()));
                answer
            })
        });
    }
}

#[test]
fn loads_from_a_cache_make_nothing_final() {
    for service in SERVICES {
        let world = World::of(service);
        world.sealed("p", DAY);
        let id = "p";
        // Applied, the answer lost, and main is shown as it was: it may be visible, and is.
        let cache = Cache::default();
        cache.before(&world, Request::publishes);
        let ran = world.publish(id).ends(20);
        assert_eq!(outcome(&ran), "unresolved", "{ran:?}");
        assert!(world.is_published(id));
        let report = world.run(&["reconcile", &world.table, id, "--json"]).ends(20).json();
        assert_eq!(report["finding"]["state"], "sealed", "{report}");
        // Sent again it is refused, for it was applied; the cache says that it was not.
        cache.before(&world, |_| false);
        let ran = world.publish(id);
        assert_eq!(ran.code, 20, "{ran:?}");
        // A fence cannot be accepted, and is not taken for one.
        let ran = world.run(&["abandon", &world.table, id, "--reason", "x", "--json"]);
        assert!([1, 13, 20].contains(&ran.code), "{ran:?}");
        assert!(world.is_published(id) && !world.refs().contains_key("closed/p"), "{ran:?}");
        ends_well(&world, id);

        // Accepted, with an answer that shows it: later loads cannot take that back, nor is it said to be lost.
        world.sealed("q", "2013-08-09");
        Cache::default().before(&world, |_| false);
        world.publish("q").ends(0);
        assert!(world.is_published("q"));
        let ran = world.run(&["reconcile", &world.table, "q", "--json"]);
        // A table that is older than what the journal saw of it is for a person to look at.
        assert!([0, 20, 21].contains(&ran.code), "an accepted publication is not taken back: {ran:?}");
        let ran = world.publish("q");
        assert!([0, 20, 21].contains(&ran.code), "{ran:?}");
        ends_well(&world, "q");

        // Loads from before the seal.
        let (table, file) = (world.table.as_str(), integration::flights(&format!("flights-{DAY}.parquet")));
        let file = file.display().to_string();
        world.run(&["begin", table, "r", "--scope", &format!("flight_date = '{DAY}'")]).ends(0);
        world.run(&["stage", table, "r", &file, "--replace"]).ends(0);
        Cache::default().before(&world, |_| false);
        let ran = world.run(&["validate", table, "r", "--json"]);
        assert!([0, 20].contains(&ran.code), "{ran:?}");
        let ran = world.run(&["reconcile", table, "r", "--json"]);
        // Neither is final: 14 says that it is open, 21 that the table is older than what was seen of it.
        assert!([14, 21].contains(&ran.code) && !ran.out.contains("\"settled\":true"), "{ran:?}");
        assert!(world.publish("r").code != 0 && !world.is_published("r"));
        world.front.passes();
        world.run(&["validate", table, "r"]).ends(0);
        ends_well(&world, "r");
    }
}

/// The answer to one request is given to another.
#[test]
fn replays() {
    for service in SERVICES {
        let world = World::of(service);
        // An earlier publication's 200.
        world.sealed("p", DAY);
        let kept = Arc::new(Mutex::new(None::<Answer>));
        let keep = kept.clone();
        world.front.does(move |request, pass| {
            let answer = pass(request);
            if request.publishes() {
                *keep.lock().unwrap() = Some(answer.clone());
            }
            answer
        });
        world.publish("p").ends(0);
        let old = kept.lock().unwrap().clone().unwrap();
        assert_eq!(old.status(), 200);
        world.sealed("q", "2013-08-09");
        let answer = old.clone();
        world.front.does(move |request, pass| if request.publishes() { answer.clone() } else { pass(request) });
        let ran = world.publish("q").ends(20);
        assert!(!world.is_published("q"), "{ran:?}");
        // Another table's answer, to a load and to a commit.
        let other = World::of(service);
        let uuid = |world: &World| {
            let metadata: Value = serde_json::from_str(&world.metadata()).unwrap();
            metadata["table-uuid"].as_str().unwrap().to_owned()
        };
        assert_ne!(uuid(&world), uuid(&other));
        let theirs = format!(r#"{{"metadata-location":"s3://x/y.metadata.json","metadata":{}}}"#, other.metadata());
        let answer = theirs.clone();
        world
            .front
            .does(move |request, pass| if request.publishes() { Answer::json(200, &answer) } else { pass(request) });
        let ran = world.publish("q").ends(20);
        assert!(!world.is_published("q"), "{ran:?}");
        world
            .front
            .does(move |request, pass| if request.is_load() { Answer::json(200, &theirs) } else { pass(request) });
        let (mine, others) = (world.refs(), other.refs());
        let ran = world.publish("q").ends(20);
        assert!(ran.out.contains("lost") || ran.out.contains("another table"), "{ran:?}");
        assert_eq!((world.refs(), other.refs()), (mine, others));
        // The request itself is delivered twice, and the second's answer comes back.
        world.front.does(|request, pass| {
            if request.publishes() {
                pass(request);
            }
            pass(request)
        });
        world.publish("q").ends(0);
        assert!(world.is_published("q"));
        ends_well(&world, "q");
    }
}
