//! A server that stands where a catalog or a store should be, and does to each request what a test says.
//!
//! The fault proxy passes requests as they are and does faults by rule; this one may also change what it passes on, and
//! keeps the `Host` that a signature covers, so that it can stand before S3.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With its query.
    pub target: String,
    /// Lines without their ends.
    pub headers: Vec<String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Is it a commit to a table?
    pub fn is_commit(&self) -> bool {
        self.method == "POST" && self.path().contains("/tables/")
    }

    /// Is it the commit that publishes?
    pub fn publishes(&self) -> bool {
        self.is_commit() && self.text().contains("\"published/") && self.text().contains("\"ref-name\":\"main\"")
    }

    pub fn is_load(&self) -> bool {
        self.method == "GET" && self.path().contains("/tables/")
    }
}

/// The bytes of an answer, head and body.
#[derive(Debug, Clone)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    pub fn of(status: u16, content_type: &str, body: &str) -> Self {
        let length = body.len();
        Self(
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            )
            .into_bytes(),
        )
    }

    pub fn json(status: u16, body: &str) -> Self {
        Self::of(status, "application/json", body)
    }

    pub fn html(status: u16) -> Self {
        Self::of(status, "text/html; charset=utf-8", "<!DOCTYPE html><title>Sign in</title><h1>Sign in</h1>")
    }

    pub fn error(status: u16, kind: &str) -> Self {
        let error = serde_json::json!({"error": {"message": "said by a front", "type": kind, "code": status}});
        Self::json(status, &error.to_string())
    }

    /// The connection is closed without a byte.
    pub fn nothing() -> Self {
        Self(Vec::new())
    }

    pub fn status(&self) -> u16 {
        let head = String::from_utf8_lossy(self.0.get(..32).unwrap_or(&self.0)).into_owned();
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The body of an answer that is not sent in chunks.
    pub fn body(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        text.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned())
    }
}

type Deed = dyn Fn(&Request, &dyn Fn(&Request) -> Answer) -> Answer + Send + Sync;

type Doing = Arc<Mutex<Arc<Deed>>>;

/// A running front; it ends when it is dropped.
pub struct Front {
    port: u16,
    doing: Doing,
    seen: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Front {
    /// Stands before a server of this machine, e.g. `http://127.0.0.1:8181`, and passes everything.
    pub fn before(upstream: &str) -> Self {
        let upstream: u16 = upstream.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, over) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicBool>::default());
        let passes: Arc<Deed> = Arc::new(|request, pass| pass(request));
        let doing: Doing = Arc::new(Mutex::new(passes));
        let (log, ended, now) = (seen.clone(), over.clone(), doing.clone());
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), log, deed) = (stream, log.clone(), now.lock().unwrap().clone()) else { continue };
                // Ends with its connection, which has a time limit.
                std::thread::spawn(move || serve(stream, upstream, &log, deed.as_ref()));
            }
        });
        Self { port, doing, seen, over, accepting: Some(accepting) }
    }

    /// What happens to requests from now on: `deed` gets each, and a way to pass one on.
    pub fn does(&self, deed: impl Fn(&Request, &dyn Fn(&Request) -> Answer) -> Answer + Send + Sync + 'static) {
        *self.doing.lock().unwrap() = Arc::new(deed);
    }

    /// Everything is passed from now on.
    pub fn passes(&self) {
        self.does(|request, pass| pass(request));
    }

    /// Requests so far that fit.
    pub fn count(&self, fits: impl Fn(&Request) -> bool) -> usize {
        self.seen.lock().unwrap().iter().filter(|request| fits(request)).count()
    }

    /// One that needs no server behind it.
    pub fn alone(deed: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let front = Self::before("http://127.0.0.1:1");
        front.does(move |request, _| deed(request));
        front
    }

    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

fn serve(mut stream: TcpStream, upstream: u16, log: &Mutex<Vec<Request>>, deed: &Deed) {
    drop(stream.set_read_timeout(Some(LIMIT)));
    let Some(request) = receive(&mut stream) else { return };
    log.lock().unwrap().push(request.clone());
    let answer = deed(&request, &|request| pass(upstream, request));
    drop(stream.write_all(&answer.0));
}

fn receive(stream: &mut TcpStream) -> Option<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), [0_u8; 65536]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n").map(str::to_owned);
    let first = lines.next()?;
    let headers: Vec<String> = lines.collect();
    let length = value(&headers, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&buffer[..count]);
    }
    let mut words = first.split(' ');
    Some(Request { method: words.next()?.to_owned(), target: words.next()?.to_owned(), headers, body })
}

fn value<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    let found = headers.iter().filter_map(|line| line.split_once(':'));
    found.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// Passes a request on, with its own `Host`, and reads the answer to its end.
fn pass(upstream: u16, request: &Request) -> Answer {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", upstream)) else { return Answer::nothing() };
    drop(stream.set_read_timeout(Some(LIMIT)));
    // Version 1.0 is answered in one piece.
    let mut head = format!("{} {} HTTP/1.0\r\n", request.method, request.target);
    let own = ["content-length", "connection", "accept-encoding", "expect"];
    for line in &request.headers {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !own.contains(&name.as_str()) {
            head.push_str(&format!("{line}\r\n"));
        }
    }
    head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", request.body.len()));
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&request.body));
    let mut bytes = Vec::new();
    if sent.is_err() || stream.read_to_end(&mut bytes).is_err() {
        return Answer::nothing();
    }
    // The client spoke 1.1 and is told that nothing more comes on this connection.
    if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        lines.retain(|line| !line.to_ascii_lowercase().starts_with("connection:"));
        let status = lines.remove(0).split_once(' ').map(|(_, rest)| rest).unwrap_or_default();
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let mut whole = format!("HTTP/1.1 {status}\r\n{lines}Connection: close\r\n\r\n").into_bytes();
        whole.extend_from_slice(&bytes[end + 4..]);
        return Answer(whole);
    }
    Answer(bytes)
}
