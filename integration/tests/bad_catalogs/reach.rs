//! Catalogs and stores that cannot be reached, that refuse, or that are none.

use integration::beds::{SERVICES, Service};

use crate::front::{Answer, Front};
use crate::world::World;

/// The same line on the healthy catalog.
fn is_well(world: &World) {
    world.write_settings(&[]);
    world.front.passes();
    world.run(&["reconcile", &world.table, "first"]).ends(0);
    assert!(world.is_published("first"));
}

#[test]
fn wrong_uris() {
    let world = World::of(Service::SeaweedFs);
    let typo = format!("{}/iceberg/rest", world.front.uri());
    let v1 = format!("{}/v1", world.front.uri());
    for (uri, code, words) in [
        ("http://no-such-host.invalid:8181", 1, &["no-such-host.invalid", "no answer", "check `uri`"][..]),
        ("http://127.0.0.1:1", 1, &["127.0.0.1:1", "no answer", "check `uri`"]),
        (&typo, 2, &["/iceberg/rest", "404", "check `uri`"]),
        (&v1, 2, &["/v1/v1/config", "404", "check `uri`"]),
        ("not a url", 2, &["`uri`", "http://"]),
        ("ftp://127.0.0.1/iceberg", 2, &["`uri`", "ftp://", "https://"]),
        ("http://", 2, &["`uri`", "https://catalog.example/iceberg"]),
        ("http://[::1", 2, &["`uri`", "https://catalog.example/iceberg"]),
    ] {
        // A login is not shown, whatever else is wrong.
        world.write_settings(&[("uri", uri), ("credential", ""), ("token", "tok-of-nobody")]);
        world.refused(&["status", &world.table], code, words);
        world.refused(&["publish", &world.table, "first"], code, words);
    }
    is_well(&world);
}

#[test]
fn wrong_credentials() {
    let world = World::of(Service::SeaweedFs);
    for (changes, words) in [
        (&[("credential", ""), ("token", "tok-of-nobody")][..], &["credentials", "401", "`token`"][..]),
        (&[("credential", "admin:not-the-secret")], &["`credential`", "token endpoint", "`scope`"]),
        (&[("credential", "nobody:not-the-secret")], &["`credential`", "token endpoint"]),
        (&[("credential", "")], &["credentials", "403", "ask for the right"]),
    ] {
        world.write_settings(changes);
        world.refused(&["status", &world.table], 13, words);
        world.refused(&["begin", &world.table, "q", "--scope", "flight_date = '2013-08-10'"], 13, words);
    }
    // A token endpoint that is none.
    let page = Front::alone(|_| Answer::html(200));
    for (uri, code, words) in [
        (page.uri(), 2, &["token endpoint", "`oauth2-server-uri`"][..]),
        ("http://127.0.0.1:1/token".to_owned(), 1, &["127.0.0.1:1/token", "no answer"]),
    ] {
        world.write_settings(&[("oauth2-server-uri", &uri)]);
        world.refused(&["status", &world.table], code, words);
    }
    is_well(&world);
}

const S3_XML: &str = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>No.</Message></Error>";

#[test]
fn servers_that_are_no_catalog() {
    let world = World::of(Service::Reference);
    let remedy = ["is no Iceberg REST catalog", "set `uri`"];
    for (name, answer) in [
        ("a page", Answer::html(200)),
        ("a login page where JSON is announced", Answer::json(200, "<html><form action=/login></form></html>")),
        ("JSON of something else", Answer::json(200, r#"{"status":"ok","items":[]}"#)),
        ("a list", Answer::json(200, "[]")),
        ("a word", Answer::json(200, "\"ok\"")),
        ("nothing", Answer::of(200, "text/plain", "")),
        ("a store", Answer::of(404, "application/xml", S3_XML)),
        ("a store's list", Answer::of(200, "application/xml", "<ListAllMyBucketsResult/>")),
        ("a page of what is not there", Answer::html(404)),
    ] {
        world.front.does(move |_, _| answer.clone());
        println!("{name}");
        world.refused(&["status", &world.table], 2, &remedy);
        world.refused(&["publish", &world.table, "first"], 2, &remedy);
    }
    for (status, code, words) in [
        (502, 1, &["status 502", "run the same command again"][..]),
        (302, 2, &["redirect", "set `uri`"]),
        (418, 2, &["status 418"]),
        (403, 13, &["403", "ask for the right"]),
    ] {
        world.front.does(move |_, _| Answer::html(status));
        world.refused(&["status", &world.table], code, words);
    }
    world.front.does(|_, _| Answer::nothing());
    world.refused(&["status", &world.table], 1, &["no answer", "check `uri`"]);
    // Only the table's answers are someone else's.
    for (name, answer, code, words) in [
        ("a page", Answer::html(200), 2, &remedy[..]),
        ("JSON of something else", Answer::json(200, r#"{"status":"ok"}"#), 1, &["REST specification"]),
        ("no metadata", Answer::json(200, r#"{"metadata":{}}"#), 1, &["damaged"]),
    ] {
        world.front.does(move |request, pass| if request.is_load() { answer.clone() } else { pass(request) });
        println!("{name}");
        world.refused(&["status", &world.table], code, words);
        world.refused(&["begin", &world.table, "q", "--scope", "flight_date = '2013-08-10'"], code, words);
    }
    is_well(&world);
}

/// As Nessie answers `GET iceberg/v1/config`.
const NESSIE: &str = r#"{"defaults":{"warehouse":"s3://demobucket/","rest-page-size":"200","prefix":"main%7Cs3%3A%2F%2Fdemobucket%2F"},
    "overrides":{"nessie.default-branch.name":"main","nessie.is-nessie-catalog":"true","nessie.core-base-uri":"http://127.0.0.1/api/",
    "nessie.iceberg-base-uri":"http://127.0.0.1/iceberg/","nessie.prefix-pattern":"{ref}|{warehouse}","uri":"http://127.0.0.1/iceberg"}}"#;

#[test]
fn nessie_is_refused_and_says_why() {
    let world = World::of(Service::Reference);
    world.front.does(|_, _| Answer::json(200, NESSIE));
    for line in [
        &["status", &world.table][..],
        &["begin", &world.table, "q", "--scope", "flight_date = '2013-08-10'"],
        &["publish", &world.table, "first"],
        &["probe", "--namespace", "scratch"],
    ] {
        world.refused(line, 13, &["Nessie", "no ref but main", "another catalog"]);
    }
    is_well(&world);
}

/// Takes the requirements out of every commit before it passes it on.
fn without_requirements(front: &Front) {
    front.does(|request, pass| {
        let mut request = request.clone();
        if request.is_commit() {
            let mut body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            if let Some(requirements) = body.get_mut("requirements") {
                *requirements = serde_json::json!([]);
                request.body = body.to_string().into_bytes();
            }
        }
        pass(&request)
    });
}

#[test]
fn a_catalog_that_ignores_expectations_is_refused_by_name() {
    for service in SERVICES {
        let world = World::of(service);
        let before = world.refs();
        without_requirements(&world.front);
        let json = world.run(&["probe", "--namespace", "scratch_bad", "--json"]).ends(13);
        let text = world.run(&["probe", "--namespace", "scratch_bad"]).ends(13);
        for ran in [&json, &text] {
            assert!(ran.out.contains(&world.front.uri()), "{ran:?}");
            let said = ran.out.to_lowercase();
            assert!(said.contains("expected snapshot"), "{ran:?}");
            assert!(said.contains("refused"), "{ran:?}");
        }
        assert_eq!(world.refs(), before);
        world.front.passes();
        let well = world.run(&["probe", "--namespace", "scratch_bad", "--json"]);
        assert!(well.code == 0, "{well:?}");
        is_well(&world);
    }
}

/// The table's own location is replaced on its way by one that leads nowhere.
#[test]
fn tables_on_stores_that_cannot_be_reached() {
    let world = World::of(Service::Reference);
    world.sealed("second", "2013-08-10");
    let root = world.metadata().split("\"location\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(root.starts_with("s3://"), "{root}");
    for (scheme, words) in [
        ("hdfs://namenode:8020", &["hdfs://namenode:8020/plain", "s3://", "keep the table on one of these"][..]),
        ("oss:/", &["oss://plain", "s3://", "keep the table on one of these"]),
        ("wasb://c@a.blob.core.windows.net", &["wasb://c@a", "no credentials for this store", "grant access"]),
    ] {
        world.front.does(move |request, pass| {
            let answer = pass(request);
            if !request.is_load() {
                return answer;
            }
            Answer::json(answer.status(), &answer.body().replace("s3://plain", &format!("{scheme}/plain")))
        });
        world.refused(&["begin", &world.table, "q", "--scope", "flight_date = '2013-08-10'"], 13, words);
        let ran = world.publish("second");
        assert!([1, 13].contains(&ran.code), "{ran:?}");
    }
    world.front.passes();
    for (changes, code, words) in [
        (&[("s3.endpoint", "http://127.0.0.1:1")][..], 1, &["s3://plain", "127.0.0.1:1"][..]),
        (
            &[("s3.secret-access-key", "not-the-secret")],
            13,
            &["s3://plain", "the key is wrong", "SignatureDoesNotMatch"],
        ),
        (&[("s3.access-key-id", "nobody")], 13, &["s3://plain", "the key is wrong", "InvalidAccessKeyId"]),
    ] {
        // The journal has its own way to the store.
        world.write_settings(changes);
        std::fs::write(
            world.path().join("calve.toml"),
            std::fs::read_to_string(world.path().join("calve.toml")).unwrap().replace(
                "[catalog.prod]",
                "\"s3.access-key-id\" = \"admin\"\n\"s3.secret-access-key\" = \"adminsecret\"\n\n[catalog.prod]",
            ),
        )
        .unwrap();
        world.refused(&["begin", &world.table, "q", "--scope", "flight_date = '2013-08-10'"], code, words);
        let ran = world.publish("second");
        assert!(ran.code == code || ran.code == 10, "{ran:?}");
        assert!(!world.is_published("second"));
    }
    world.write_settings(&[]);
    let ran = world.publish("second");
    assert!(ran.code == 0 && world.is_published("second"), "{ran:?}");
}
