//! A small S3 in the test's own process, whose answers can be made to fail.
//!
//! It knows PUT with `If-None-Match: *`, GET with a range, HEAD, DELETE and ListObjectsV2, by path; it checks no signature.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a stand-in that fails ends its test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Nothing is done, and this is answered.
    Answer(u16, &'static str),
    /// It is done, and this is answered.
    AnswerAfter(u16, &'static str),
    /// Nothing is done, and the connection ends.
    Hang,
    /// It is done, and the connection ends.
    HangAfter,
}

/// How the store keeps `If-None-Match: *`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Condition {
    /// As it should.
    #[default]
    Kept,
    /// Not at all.
    Ignored,
    /// It refuses, and writes.
    RefusedAndWritten,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// For the next requests of a method whose key contains the text.
    pub(crate) faults: VecDeque<(&'static str, &'static str, Fault)>,
    pub(crate) condition: Condition,
    /// Method, key and access key of every request.
    pub(crate) seen: Vec<(String, String, String)>,
}

/// A running store. Its task ends with the test's runtime.
#[derive(Debug, Clone)]
pub(crate) struct S3Double {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

impl S3Double {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let double = Self { endpoint, state: Arc::default() };
        let state = double.state.clone();
        drop(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(tokio::spawn(serve(stream, state.clone())));
            }
        }));
        double
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn fail(&self, method: &'static str, key: &'static str, fault: Fault) {
        self.state().faults.push_back((method, key, fault));
    }

    pub(crate) fn count(&self, method: &str, key: &str) -> usize {
        self.state().seen.iter().filter(|(m, k, _)| m == method && k.contains(key)).count()
    }

    pub(crate) fn properties(&self) -> Vec<(String, String)> {
        let given =
            [("s3.endpoint", &*self.endpoint), ("s3.access-key-id", "test-key"), ("s3.secret-access-key", SECRET)];
        given.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }
}

/// The secret that no error may hold.
pub(crate) const SECRET: &str = "very-secret-0123456789";

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

async fn receive(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
    let headers: BTreeMap<_, _> =
        lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let key = decoded(path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key));
    Some(Request { method, key, query, headers, body })
}

type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

fn error(status: u16, code: &str) -> Answer {
    (status, Vec::new(), format!("<Error><Code>{code}</Code><Message>said {SECRET}</Message></Error>").into_bytes())
}

fn apply(state: &mut State, request: &Request) -> Answer {
    let tag = || ("ETag", "\"tag\"".to_owned());
    match request.method.as_str() {
        "PUT" => {
            let taken = request.headers.contains_key("if-none-match") && state.objects.contains_key(&request.key);
            let refused = taken && state.condition != Condition::Ignored;
            if !taken || state.condition != Condition::Kept {
                drop(state.objects.insert(request.key.clone(), request.body.clone()));
            }
            if refused { error(412, "PreconditionFailed") } else { (200, vec![tag()], Vec::new()) }
        }
        "DELETE" => {
            drop(state.objects.remove(&request.key));
            (204, Vec::new(), Vec::new())
        }
        "GET" if request.query.contains_key("list-type") => (200, Vec::new(), list(state, &request.query)),
        "GET" | "HEAD" => match state.objects.get(&request.key) {
            None => error(404, "NoSuchKey"),
            Some(bytes) => match request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) {
                Some(range) => {
                    let (from, to) = range.split_once('-').unwrap();
                    let from: usize = from.parse().unwrap();
                    let to = to.parse::<usize>().unwrap_or(usize::MAX).saturating_add(1).min(bytes.len());
                    if from >= bytes.len() {
                        return error(416, "InvalidRange");
                    }
                    let span = ("Content-Range", format!("bytes {from}-{}/{}", to - 1, bytes.len()));
                    (206, vec![tag(), span], bytes[from..to].to_vec())
                }
                None => (200, vec![tag()], bytes.clone()),
            },
        },
        other => panic!("the double does not know {other}"),
    }
}

fn list(state: &State, query: &BTreeMap<String, String>) -> Vec<u8> {
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let folded = query.get("delimiter").is_some_and(|delimiter| !delimiter.is_empty());
    let (mut names, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for key in state.objects.keys() {
        let Some(rest) = key.strip_prefix(&prefix) else { continue };
        match rest.split_once('/').filter(|_| folded) {
            Some((folder, _)) => drop(folders.insert(format!("{prefix}{folder}/"))),
            None => drop(names.insert(key.clone())),
        }
    }
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut xml = format!("<ListBucketResult><IsTruncated>false</IsTruncated><Prefix>{}</Prefix>", escape(&prefix));
    for name in names {
        let size = state.objects[&name].len();
        let name = escape(&name);
        xml += &format!(
            "<Contents><Key>{name}</Key><LastModified>2013-08-09T00:00:00.000Z</LastModified><ETag>\"t\"</ETag>\
             <Size>{size}</Size></Contents>"
        );
    }
    for folder in folders {
        xml += &format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(&folder));
    }
    (xml + "</ListBucketResult>").into_bytes()
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(request) = receive(&mut stream).await else { return };
    let answer = {
        let mut state = state.lock().unwrap();
        let signed = request.headers.get("authorization").cloned().unwrap_or_default();
        let who = signed.split_once("Credential=").and_then(|(_, rest)| rest.split('/').next()).unwrap_or_default();
        state.seen.push((request.method.clone(), request.key.clone(), who.to_owned()));
        let listing = request.query.get("prefix").map_or(request.key.as_str(), String::as_str);
        let hit = state.faults.iter().position(|(method, key, _)| *method == request.method && listing.contains(key));
        match hit.and_then(|at| state.faults.remove(at)).map(|(_, _, fault)| fault) {
            None => Some(apply(&mut state, &request)),
            Some(Fault::Answer(status, body)) => Some((status, Vec::new(), body.as_bytes().to_vec())),
            Some(Fault::AnswerAfter(status, body)) => {
                drop(apply(&mut state, &request));
                Some((status, Vec::new(), body.as_bytes().to_vec()))
            }
            Some(Fault::Hang) => None,
            Some(Fault::HangAfter) => {
                drop(apply(&mut state, &request));
                None
            }
        }
    };
    let Some((status, headers, body)) = answer else { return };
    let mut head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let body = if request.method == "HEAD" { Vec::new() } else { body };
    drop(stream.write_all(&[head.as_bytes(), b"\r\n", &body].concat()).await);
    drop(stream.shutdown().await);
}
