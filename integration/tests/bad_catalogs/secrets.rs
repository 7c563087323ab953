//! No secret of the settings, of a catalog or of a store is in anything that calve says or keeps, whatever goes wrong and
//! however much it is asked to say.

use integration::beds::Service;
use integration::services::seaweedfs::{ACCESS_KEY, SECRET_KEY};

use crate::front::{Answer, Request};
use crate::world::{Ran, World};

const DAY: &str = "2013-08-10";
/// What is looked for, besides the store's own secret key.
const SECRETS: [(&str, &str); 9] = [
    ("token", "toktoktok-7f3a9c51"),
    ("credential", "client-of-ours:clisecret-5d1e8b02"),
    ("header.X-Api-Key", "headsecret-91c4ab37"),
    ("header.Authorization", "Bearer headtoken-0c55ee12"),
    ("s3.session-token", "sesstoken-4b7d2f90"),
    ("s3.secret-access-key", "keysecret-6a6a1d3e"),
    ("adls.sas-token", "sig=sassecret-d8f21c44"),
    ("adls.account-key", "YWNjb3VudHNlY3JldC0xMjM0"),
    ("gcs.oauth2.token", "gcstoken-33f0be71"),
];
const PASSWORD: &str = "passw0rd-in-uri-22";

/// Source: RFC 4648, section 4. What a longer text holds of it is the same up to its last group, which is left out.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |group: &[u8]| group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
    let digits = |bits: usize| [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]));
    text.as_bytes().chunks_exact(3).flat_map(|group| digits(three(group))).collect()
}

/// Each in the ways that it may be written.
fn needles() -> Vec<String> {
    let mut plain: Vec<String> = SECRETS.iter().map(|(_, value)| (*value).to_owned()).collect();
    let parts = ["clisecret-5d1e8b02", "headtoken-0c55ee12", "sassecret-d8f21c44", PASSWORD, SECRET_KEY];
    plain.extend(parts.map(str::to_owned));
    let mut all = plain.clone();
    for secret in plain {
        all.push(base64(&secret));
        all.push(secret.bytes().map(|byte| format!("{byte:02x}")).collect());
    }
    all.push(base64(&format!("{ACCESS_KEY}:{SECRET_KEY}")));
    all.push(base64(&format!("somebody:{PASSWORD}")));
    all
}

#[track_caller]
fn shows_none(what: &str, text: &str) {
    for needle in needles() {
        assert!(!text.contains(&needle), "{what} shows {needle}:\n{text}");
    }
}

#[track_caller]
fn tells(world: &World, line: &[&str]) -> Ran {
    let mut last = None;
    for more in [&["-vvv"][..], &["-vvv", "--json"]] {
        let ran = world.run(&[more, line].concat());
        shows_none(&format!("{line:?} {more:?}"), &ran.all());
        last = Some(ran);
    }
    last.unwrap()
}

/// Every object of the journal.
fn journal(world: &World) -> String {
    let seaweedfs = integration::services::shared_seaweedfs().unwrap();
    let root = world.journal.strip_prefix("s3://").unwrap().to_owned();
    let mut open = vec![root];
    let mut all = String::new();
    while let Some(folder) = open.pop() {
        for (name, is_folder) in seaweedfs.entries(&folder).unwrap() {
            let path = format!("{folder}/{name}");
            if is_folder {
                open.push(path);
            } else {
                all.push_str(&format!("{path}\n{}\n", seaweedfs.read(&path).unwrap()));
            }
        }
    }
    all
}

/// What works holds no secret: output, journal, statements, table metadata.
#[test]
fn what_is_kept_shows_no_secret() {
    let world = World::of(Service::SeaweedFs);
    // Beside what this catalog needs; it takes no notice of them.
    let with_login = world.front.uri().replace("http://", &format!("http://somebody:{PASSWORD}@"));
    let mut settings = vec![("uri", with_login.as_str())];
    settings.extend(SECRETS.into_iter().filter(|(name, _)| {
        !["token", "credential", "header.Authorization", "s3.session-token", "s3.secret-access-key"].contains(name)
    }));
    world.write_settings(&settings);
    let (table, file) = (world.table.as_str(), integration::flights(&format!("flights-{DAY}.parquet")));
    let file = file.display().to_string();
    tells(&world, &["begin", table, "p", "--scope", &format!("flight_date = '{DAY}'")]).ends(0);
    tells(&world, &["stage", table, "p", &file, "--replace"]).ends(0);
    tells(&world, &["validate", table, "p"]).ends(0);
    tells(&world, &["publish", table, "p"]).ends(0);
    for line in [
        &["reconcile", table, "p"][..],
        &["status"],
        &["status", table],
        &["log", table],
        &["review", table, "p"],
        &["doctor", table],
    ] {
        tells(&world, line);
    }
    tells(&world, &["probe", "--namespace", "secrets_probe"]).ends(0);
    tells(
        &world,
        &["run", table, "j", "--scope", &format!("flight_date = '{DAY}'"), "--", "sh", "-c", "env >&2; exit 1"],
    );
    let kept = journal(&world);
    assert!(kept.matches("\"intended\"").count() >= 4 && kept.contains("in-toto"), "the journal was read: {kept}");
    shows_none("the journal", &kept);
    shows_none("the table's metadata", &world.metadata());
}

/// A server that repeats what it was sent, credentials too.
fn parrot(request: &Request, status: u16, content_type: &str) -> Answer {
    let said = format!("{} {} {} {}", request.method, request.target, request.headers.join(" "), request.text());
    let error = serde_json::json!({"error": {"message": said, "type": "ParrotException", "code": status}});
    let body = if content_type == "application/json" { error.to_string() } else { said };
    Answer::of(status, content_type, &body)
}

#[test]
fn what_goes_wrong_shows_no_secret() {
    let world = World::of(Service::SeaweedFs);
    world.sealed("p", DAY);
    let line = ["publish", world.table.as_str(), "p"];
    let with_login = world.front.uri().replace("http://", &format!("http://somebody:{PASSWORD}@"));
    let of = |names: &[&str]| -> Vec<(&str, &str)> {
        SECRETS.into_iter().filter(|(name, _)| names.contains(name)).collect()
    };
    let token =
        [of(&["token", "header.X-Api-Key", "s3.session-token", "adls.sas-token"]), vec![("credential", "")]].concat();
    let client = of(&["credential", "header.X-Api-Key", "header.Authorization", "gcs.oauth2.token"]);
    let login = vec![("uri", with_login.as_str()), ("credential", "")];
    let keys = of(&["s3.secret-access-key", "s3.session-token"]);
    for settings in [&token, &client, &login, &keys] {
        world.write_settings(settings);
        world.front.passes();
        tells(&world, &line);
        for (status, kind) in [
            (400, "application/json"),
            (401, "application/json"),
            (403, "text/plain"),
            (404, "text/plain"),
            (500, "application/json"),
            (200, "text/plain"),
            (200, "application/json"),
            (302, "text/plain"),
        ] {
            world.front.does(move |request, _| parrot(request, status, kind));
            tells(&world, &line);
        }
        world.front.does(|_, _| Answer::nothing());
        tells(&world, &["status"]);
    }
    // A commit whose answer repeats its credentials, and a store that does.
    world.write_settings(&of(&["header.X-Api-Key"]));
    for (status, kind) in
        [(400, "application/json"), (409, "text/plain"), (503, "application/json"), (200, "text/plain")]
    {
        world.front.does(move |request, pass| match request.is_commit() {
            true => parrot(request, status, kind),
            false => pass(request),
        });
        tells(&world, &line);
    }
    world.front.passes();
    for status in [400, 403, 500] {
        world.store.does(move |request, _| parrot(request, status, "application/xml"));
        tells(&world, &line);
    }
    world.store.passes();
    // Settings that are wrong, in ways that would show their text.
    for settings in [
        vec![("uri", "ftp://somebody:passw0rd-in-uri-22@host/x")],
        vec![("uri", "http://somebody:passw0rd-in-uri-22@no-such-host.invalid:1/?k=keysecret-6a6a1d3e")],
        vec![("uri", "somebody:passw0rd-in-uri-22@host")],
        vec![("oauth2-server-uri", "http://somebody:passw0rd-in-uri-22@127.0.0.1:1/t?k=keysecret-6a6a1d3e")],
        vec![("header.Bad Name", "headsecret-91c4ab37")],
        vec![("header.X-Api-Key", "headsecret-91c4ab37\n")],
        vec![("token", "toktoktok-7f3a9c51\u{7f}"), ("credential", "")],
        vec![("s3.endpoint", "http://somebody:passw0rd-in-uri-22@127.0.0.1:1")],
        vec![("warehouse", "s3://somebody:passw0rd-in-uri-22@lake")],
    ] {
        world.write_settings(&settings);
        tells(&world, &line);
    }
    world.write_settings(&[]);
    let kept = journal(&world);
    assert!(kept.contains("\"intended\""), "the journal was read");
    shows_none("the journal", &kept);
    shows_none("the metadata", &world.metadata());
    world.publish("p").ends(0);
    assert!(world.is_published("p"));
}
