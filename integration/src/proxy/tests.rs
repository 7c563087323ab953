//! Each fault against a small upstream that can apply one change, once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::http::{
    Body, Frame, Headers, RequestHead, ResponseHead, read_request, read_response, write_request, write_response,
};
use super::*;

const BIG: usize = 50 * 1024 * 1024;

/// Answers `POST` with 200 the first time and 409 from then on, `GET` with what its path says.
struct Stub {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Vec<(RequestHead, usize)>>,
    applied: AtomicUsize,
    /// The second half of the big body is sent when the first has arrived.
    half_arrived: Notify,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stub {
    async fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = socket.accept().await.unwrap();
                let shared = served.clone();
                tokio::spawn(async move { drop(stub(stream, &shared, port).await) });
            }
        });
        Self { port, shared, task }
    }

    fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn received(&self) -> usize {
        self.shared.received.lock().unwrap().len()
    }

    fn applied(&self) -> usize {
        self.shared.applied.load(Ordering::SeqCst)
    }
}

async fn stub(stream: TcpStream, shared: &Shared, port: u16) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    while let Some(head) = read_request(&mut reader).await? {
        let (mut body, mut length) = (Body::of_request(&head.headers)?, 0);
        while let Some(piece) = body.next(&mut reader).await? {
            length += piece.len();
        }
        shared.received.lock().unwrap().push((head.clone(), length));
        let mut headers = Headers::default();
        headers.push("X-From", "stub");
        let ok = |headers| ResponseHead { status: 200, reason: "OK".to_owned(), headers };
        let text = match (head.method.as_str(), head.target.split('?').next().unwrap()) {
            ("POST", _) if shared.applied.fetch_add(1, Ordering::SeqCst) > 0 => {
                let head = ResponseHead { status: 409, ..ok(headers) };
                write_response(&mut writer, &head, Frame::Length(4), true).await?;
                writer.write_all(b"late").await?;
                continue;
            }
            ("GET", "/v1/config") => {
                let own = format!("http://127.0.0.1:{port}");
                serde_json::json!({"defaults": {"uri": own}, "overrides": {"uri": "http://elsewhere/"}}).to_string()
            }
            ("GET", "/chunked") => {
                write_response(&mut writer, &ok(headers), Frame::Chunked, true).await?;
                for piece in [b"abc".as_slice(), b"defgh"] {
                    Frame::Chunked.piece(&mut writer, piece).await?;
                }
                Frame::Chunked.end(&mut writer).await?;
                continue;
            }
            ("GET", "/close") => {
                write_response(&mut writer, &ok(headers), Frame::Close, false).await?;
                return writer.write_all(b"abcdefgh").await;
            }
            ("GET", "/big") => {
                write_response(&mut writer, &ok(headers), Frame::Length(BIG as u64), true).await?;
                writer.write_all(&vec![1; BIG / 2]).await?;
                shared.half_arrived.notified().await;
                writer.write_all(&vec![2; BIG / 2]).await?;
                continue;
            }
            ("GET", "/breaks") => {
                write_response(&mut writer, &ok(headers), Frame::Length(10), true).await?;
                return writer.write_all(b"abc").await;
            }
            ("GET", "/mute") => return Ok(()),
            _ => "abcdefgh".to_owned(),
        };
        let frame = if head.method == "HEAD" { Frame::Bare } else { Frame::Length(text.len() as u64) };
        write_response(&mut writer, &ok(headers), frame, true).await?;
        frame.piece(&mut writer, text.as_bytes()).await?;
    }
    Ok(())
}

/// A client's connection.
struct Line {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

type Got = io::Result<(ResponseHead, String)>;

/// The status and the body, or a connection that ends too early.
type Gets = Option<(u16, &'static str)>;

impl Line {
    async fn to(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.uri().strip_prefix("http://").unwrap()).await.unwrap();
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader), writer }
    }

    async fn send(&mut self, method: &str, target: &str, body: &str) -> io::Result<()> {
        let mut headers = Headers::default();
        headers.push("Host", "proxy.example");
        headers.push("Authorization", "Bearer s3cret");
        headers.push("Connection", "keep-alive, X-Hop");
        headers.push("X-Hop", "1");
        let head = RequestHead { method: method.to_owned(), target: target.to_owned(), version: 1, headers };
        let frame = if body.is_empty() { Frame::Bare } else { Frame::Length(body.len() as u64) };
        write_request(&mut self.writer, &head, frame).await?;
        frame.piece(&mut self.writer, body.as_bytes()).await
    }

    async fn read(&mut self, method: &str) -> Got {
        let head = read_response(&mut self.reader).await?;
        let body = Body::of_response(method, &head)?.collect(&mut self.reader).await?;
        Ok((head, String::from_utf8(body).unwrap()))
    }

    async fn ask(&mut self, method: &str, target: &str, body: &str) -> Got {
        self.send(method, target, body).await?;
        self.read(method).await
    }

    /// The status and the body of an answer that must come.
    async fn answer(&mut self, method: &str, target: &str, body: &str) -> (u16, String) {
        let (head, body) = self.ask(method, target, body).await.unwrap();
        (head.status, body)
    }
}

async fn bed(rules: &[&str]) -> (Stub, Proxy) {
    let stub = Stub::start().await;
    let proxy = Proxy::start(&stub.uri()).await.unwrap();
    for rule in rules {
        proxy.script(rule).unwrap();
    }
    (stub, proxy)
}

fn only(proxy: &Proxy) -> Seen {
    let [seen] = proxy.seen().try_into().unwrap();
    seen
}

#[tokio::test]
async fn without_rules_everything_passes() {
    let (stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    for target in ["/x?y=1", "/chunked", "/close"] {
        assert_eq!(line.answer("GET", target, "").await, (200, "abcdefgh".to_owned()), "{target}");
    }
    let (head, body) = line.ask("HEAD", "/x", "").await.unwrap();
    assert_eq!((head.status, body.as_str()), (200, ""));
    assert!(head.headers.values("x-from").eq(["stub"]));
    assert_eq!(line.answer("POST", "/x", "change").await.0, 200);
    let received = stub.shared.received.lock().unwrap();
    let (head, length) = received.last().unwrap();
    assert_eq!((head.target.as_str(), *length), ("/x", 6));
    assert!(head.headers.values("host").eq([format!("127.0.0.1:{}", stub.port)]), "Host names the upstream");
    assert!(
        head.headers.values("authorization").eq(["Bearer s3cret"]) && head.headers.values("x-hop").next().is_none()
    );
    assert_eq!(received[0].0.target, "/x?y=1");
    let record = serde_json::to_string(&proxy.seen()).unwrap();
    assert!(!record.contains("s3cret") && !record.contains("y=1"), "{record}");
    assert!(proxy.seen().iter().all(|seen| seen.upstream == [200] && seen.client == Client::Status(200)));
}

#[tokio::test]
async fn each_fault_answers_and_forwards_as_it_says() {
    let status =
        |text: &'static str| Some((text.split(' ').next().unwrap().parse().unwrap(), text.split_once(' ').unwrap().1));
    // The rule; what the client gets; how often the upstream got it, and with what it answered.
    let cases: &[(&str, Gets, &[u16])] = &[
        ("* * pass", status("200 abcdefgh"), &[200]),
        ("* * drop-before", None, &[]),
        ("* * drop-after", None, &[200]),
        ("* * delay 1ms", status("200 abcdefgh"), &[200]),
        ("* * delay-answer 1ms", status("200 abcdefgh"), &[200]),
        ("* * replay", status("409 late"), &[200, 409]),
        ("* * replay first", status("200 abcdefgh"), &[200, 409]),
        ("* * answer 503 \"not now\"", status("503 not now"), &[]),
        ("* * answer-after 503 \"not now\"", status("503 not now"), &[200]),
        ("* * answer-after 200 json", status(r#"200 {"status":"ok","service":"inventory","items":[]}"#), &[200]),
        ("* * answer-after 204", status("204 "), &[200]),
        ("* * redirect 307", status("307 "), &[]),
        ("* * redirect-after 302 http://x/", status("302 "), &[200]),
        ("* * cut", None, &[200]),
        ("* * cut chunked", None, &[200]),
        ("* * hold", None, &[]),
    ];
    for (rule, wanted, upstream) in cases {
        let (stub, proxy) = bed(&[rule]).await;
        let got = Line::to(&proxy).await.ask("POST", "/v1/n/tables/t", "change").await;
        let got = got.ok().map(|(head, body)| (head.status, body));
        assert_eq!(got.as_ref().map(|(status, body)| (*status, body.as_str())), *wanted, "{rule}");
        assert_eq!(only(&proxy).upstream, *upstream, "{rule}");
        assert_eq!((stub.received(), stub.applied()), (upstream.len(), upstream.len()), "{rule}");
        assert!(proxy.unused().is_empty(), "{rule}");
    }
}

#[tokio::test]
async fn a_redirect_says_where_to_and_a_gateway_when_to_come_again() {
    let (_stub, proxy) =
        bed(&["* /a redirect 308", "* /b redirect 307 http://x/", "* /c answer 503 retry-after=7"]).await;
    let mut line = Line::to(&proxy).await;
    for (path, header, value) in [("/a", "location", "/a"), ("/b", "location", "http://x/"), ("/c", "retry-after", "7")]
    {
        let (head, _) = line.ask("POST", path, "change").await.unwrap();
        assert!(head.headers.values(header).eq([value]), "{path}");
    }
}

#[tokio::test]
async fn half_a_body_comes_with_the_length_of_the_whole() {
    for (rule, header, value) in
        [("* * cut", "content-length", "8"), ("* * cut chunked", "transfer-encoding", "chunked")]
    {
        let (_stub, proxy) = bed(&[rule]).await;
        let mut line = Line::to(&proxy).await;
        line.send("GET", "/x", "").await.unwrap();
        let head = read_response(&mut line.reader).await.unwrap();
        assert!(head.headers.values(header).eq([value]), "{rule}");
        let mut rest = String::new();
        line.reader.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest.trim_start_matches("8\r\n"), "abcd", "{rule}");
        assert_eq!(only(&proxy).client, Client::Half(200));
    }
}

#[tokio::test]
async fn rules_choose_by_method_path_number_body_and_header() {
    let (_stub, proxy) = bed(&[
        "POST */tables/* has=published/ answer 503 \"publish\"",
        "POST */tables/* #2 answer 502 \"second\"",
        "GET,HEAD * #2+ answer 500 \"read\"",
        "DELETE * header=authorization:Bearer answer 403 \"no\"",
        "DELETE * answer 404 \"never\"",
    ])
    .await;
    let mut line = Line::to(&proxy).await;
    // The second commit is also the second for the rule that is met later: every request counts that fits.
    for (method, path, body, wanted) in [
        ("POST", "/v1/n/tables/t", "set main", "abcdefgh"),
        ("POST", "/v1/n/tables", "published/x", "late"),
        ("POST", "/v1/n/tables/t", "set published/x", "publish"),
        ("POST", "/v1/n/tables/t", "set main", "late"),
        ("GET", "/a", "", "abcdefgh"),
        ("GET", "/b", "", "read"),
        ("GET", "/c", "", "read"),
        ("DELETE", "/c", "", "no"),
    ] {
        assert_eq!(line.answer(method, path, body).await.1, wanted, "{method} {path} {body}");
    }
    assert_eq!(proxy.unused(), [2, 5]);
    proxy.clear_rules();
    assert_eq!(line.answer("GET", "/d", "").await.1, "abcdefgh");
    let by: Vec<_> = proxy.seen().iter().map(|seen| seen.rule).collect();
    assert_eq!(by, [None, None, Some(1), None, None, Some(3), Some(3), Some(4), None]);
}

#[tokio::test]
async fn the_same_seed_chooses_the_same_requests() {
    let run = |seed| async move {
        let stub = Stub::start().await;
        let options = Options { seed, ..Options::default() };
        let proxy = Proxy::start_with(stub.uri().parse().unwrap(), options).await.unwrap();
        proxy.script("GET * 20% answer 503").unwrap();
        proxy.script("GET * 20% drop-after").unwrap();
        for _ in 0..60 {
            drop(Line::to(&proxy).await.ask("GET", "/x", "").await);
        }
        proxy.seen().into_iter().map(|seen| seen.fault).collect::<Vec<_>>()
    };
    let (one, same, other) = (run(7).await, run(7).await, run(8).await);
    assert_eq!(one, same);
    assert_ne!(one, other);
    for fault in ["pass", "answer 503", "drop-after"] {
        assert!(one.iter().any(|found| found == fault), "{fault}: {one:?}");
    }
}

#[tokio::test]
async fn a_held_request_is_forwarded_when_it_is_released() {
    let (stub, proxy) = bed(&[]).await;
    let held = proxy.hold(Rule::commits().containing("published/"));
    assert!(!held.has_arrived());
    assert!(held.release().await.unwrap_err().contains("arrived"));
    let mut line = Line::to(&proxy).await;
    assert_eq!(line.answer("GET", "/x", "").await.0, 200);
    // Dropped for the client, not forwarded, and the client is gone when it is released.
    assert!(line.ask("POST", "/v1/n/tables/t", "published/x").await.is_err());
    drop(line);
    held.arrived().await;
    assert_eq!((stub.applied(), proxy.held()), (0, vec![2]));
    assert_eq!(held.release().await, Ok(200));
    assert_eq!(held.release().await, Ok(200), "once");
    assert_eq!((stub.applied(), proxy.held()), (1, vec![]));
    assert_eq!(proxy.seen()[1].upstream, [200]);
    // Only the first that fits.
    assert_eq!(Line::to(&proxy).await.answer("POST", "/v1/n/tables/t", "published/x").await.0, 409);
}

#[tokio::test]
async fn a_client_may_wait_for_what_is_held() {
    let (stub, proxy) = bed(&[]).await;
    let request = proxy.hold_open(Rule::commits());
    let answer = proxy.hold_answer(Rule::commits());
    let (mut one, mut two) = (Line::to(&proxy).await, Line::to(&proxy).await);
    one.send("POST", "/tables/t", "a").await.unwrap();
    request.arrived().await;
    assert_eq!(stub.applied(), 0);
    two.send("POST", "/tables/t", "b").await.unwrap();
    // The second fits the first rule too, but that was for one request.
    assert_eq!(two.read("POST").await.unwrap().0.status, 200);
    assert!(!answer.has_arrived(), "it counts from the first that fits, which was held by the other rule");
    assert_eq!(request.release().await, Ok(409));
    assert_eq!(one.read("POST").await.unwrap().0.status, 409);

    let (stub, proxy) = bed(&[]).await;
    let answer = proxy.hold_answer(Rule::commits());
    let mut line = Line::to(&proxy).await;
    line.send("POST", "/tables/t", "a").await.unwrap();
    answer.arrived().await;
    assert_eq!(stub.applied(), 1, "the catalog has decided");
    assert_eq!(answer.release().await, Ok(200));
    assert_eq!(line.read("POST").await.unwrap().0.status, 200);
}

#[tokio::test]
async fn many_are_held_at_once_and_released_in_any_order() {
    let (stub, proxy) = bed(&["POST * #21+ hold"]).await;
    let held: Vec<_> = (0..20).map(|n| proxy.hold(Rule::on("POST", &format!("/{n}")))).collect();
    let asked = (0..24).map(|n| {
        let proxy = &proxy;
        async move { assert!(Line::to(proxy).await.ask("POST", &format!("/{n}"), "x").await.is_err()) }
    });
    for ask in asked {
        ask.await;
    }
    for one in &held {
        one.arrived().await;
    }
    let tasks: Vec<_> =
        held.into_iter().rev().map(|one| tokio::spawn(async move { one.release().await.unwrap() })).collect();
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(proxy.held(), [21, 22, 23, 24]);
    for _ in 0..4 {
        assert_eq!(proxy.release_oldest().await, Some(Ok(409)));
    }
    assert_eq!(proxy.release_oldest().await, None);
    assert_eq!(stub.applied(), 24);
}

#[tokio::test]
async fn a_thousand_requests_on_one_connection() {
    let (stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    for n in 0..1000 {
        let target = ["/x", "/chunked", "/close"][n % 3];
        assert_eq!(line.answer("GET", target, "").await, (200, "abcdefgh".to_owned()));
    }
    assert_eq!((stub.received(), proxy.seen().len()), (1000, 1000));
}

#[tokio::test]
async fn large_bodies_flow_through() {
    let (stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    line.send("GET", "/big", "").await.unwrap();
    let head = read_response(&mut line.reader).await.unwrap();
    let (mut body, mut ones, mut twos) = (Body::of_response("GET", &head).unwrap(), 0, 0);
    while let Some(piece) = body.next(&mut line.reader).await.unwrap() {
        ones += piece.iter().filter(|byte| **byte == 1).count();
        twos += piece.iter().filter(|byte| **byte == 2).count();
        if ones == BIG / 2 {
            // A proxy that waited for the whole would wait for ever.
            stub.shared.half_arrived.notify_one();
        }
    }
    assert_eq!((ones, twos), (BIG / 2, BIG / 2));
    // Upwards too, more than is looked at for rules.
    let large = "x".repeat(BIG);
    assert_eq!(line.answer("POST", "/tables/t", &large).await.0, 200);
    assert_eq!(stub.shared.received.lock().unwrap().last().unwrap().1, BIG);
    // And what is sent twice is whole both times.
    proxy.script("POST * replay").unwrap();
    assert_eq!(line.answer("POST", "/tables/t", &large).await.0, 409);
    let received = stub.shared.received.lock().unwrap();
    assert!(received.iter().rev().take(2).all(|(_, length)| *length == BIG));
}

#[tokio::test]
async fn requests_in_chunks_arrive_whole() {
    let (stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    line.writer
        .write_all(b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let mut interim = [0; 25];
    line.reader.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    line.writer.write_all(b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: x\r\n\r\n").await.unwrap();
    assert_eq!(line.read("POST").await.unwrap().0.status, 200);
    let received = stub.shared.received.lock().unwrap();
    assert_eq!(received[0].1, 8);
    assert!(received[0].0.headers.values("expect").next().is_none());
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    for (bytes, reason) in [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), "HTTP/1.1"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "how long"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na", "how long"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\na", "no number"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "no number"),
    ] {
        let (stub, proxy) = bed(&[]).await;
        let mut line = Line::to(&proxy).await;
        line.writer.write_all(bytes).await.unwrap();
        let (head, body) = line.read("POST").await.unwrap();
        assert!(head.status == 400 && body.contains(reason), "{body}");
        assert_eq!(stub.received(), 0);
    }
    let (_stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    line.writer.write_all(format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(70_000)).as_bytes()).await.unwrap();
    assert!(line.read("GET").await.unwrap().1.contains("64 KiB"));
}

#[tokio::test]
async fn an_upstream_that_fails_is_noted() {
    let (stub, proxy) = bed(&[]).await;
    let mut line = Line::to(&proxy).await;
    assert_eq!(line.answer("GET", "/mute", "").await.0, 502);
    assert!(line.ask("GET", "/x", "").await.is_err(), "the connection is closed after a failure");
    assert!(Line::to(&proxy).await.ask("GET", "/breaks", "").await.is_err());
    let seen = proxy.seen();
    assert!(seen[0].upstream.is_empty() && seen[0].notes[0].contains("no answer"), "{seen:?}");
    drop(stub);
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = Proxy::start(&format!("http://{nobody}")).await.unwrap();
    let (status, body) = Line::to(&proxy).await.answer("GET", "/x", "").await;
    assert!(status == 502 && body.contains("cannot be reached"), "{body}");
}

#[tokio::test]
async fn the_catalogs_own_uri_becomes_the_proxys() {
    let (stub, proxy) = bed(&[]).await;
    let (_, body) = Line::to(&proxy).await.answer("GET", "/v1/config?warehouse=w", "").await;
    let config: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(config["defaults"]["uri"], proxy.uri());
    assert_eq!(config["overrides"]["uri"], "http://elsewhere/");
    let notes = only(&proxy).notes;
    assert!(notes[0].contains("rewritten") && notes[1].contains("past this proxy"), "{notes:?}");
    let options = Options { rewrite_config: false, ..Options::default() };
    let proxy = Proxy::start_with(stub.uri().parse().unwrap(), options).await.unwrap();
    let (_, body) = Line::to(&proxy).await.answer("GET", "/v1/config", "").await;
    assert!(body.contains(&stub.uri()) && only(&proxy).notes.is_empty());
}

#[tokio::test]
async fn a_person_steers_it_from_outside() {
    let (_stub, proxy) = bed(&[]).await;
    let mut control = Line::to(&proxy).await;
    assert_eq!(control.answer("POST", "/__proxy/release", "").await.0, 404);
    let (status, body) = control.answer("POST", "/__proxy/rules", "// stall\n\nPOST * hold\n").await;
    assert_eq!((status, body.as_str()), (200, r#"{"rules":[1]}"#));
    let (status, body) = control.answer("POST", "/__proxy/rules", "\nPOST * holt\n").await;
    assert!(status == 400 && body.contains("line 2") && body.contains("hold"), "{body}");
    for _ in 0..2 {
        assert!(Line::to(&proxy).await.ask("POST", "/tables/t", "x").await.is_err());
    }
    while proxy.held().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(control.answer("GET", "/__proxy/held", "").await.1, r#"{"held":[1,2]}"#);
    let released = control.answer("POST", "/__proxy/release?request=2", "").await;
    assert_eq!(released, (200, r#"{"request":2,"upstream":200}"#.to_owned()));
    assert_eq!(control.answer("POST", "/__proxy/release?request=x", "").await.0, 400);
    assert_eq!(control.answer("POST", "/__proxy/release", "").await.1, r#"{"request":1,"upstream":409}"#);
    assert_eq!(control.answer("DELETE", "/__proxy/rules", "").await.0, 200);
    assert_eq!(control.answer("GET", "/x", "").await.0, 200);
    let (_, body) = control.answer("GET", "/__proxy/requests", "").await;
    let seen: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(seen.as_array().unwrap().len(), 3, "the control requests themselves are not in it");
    assert_eq!((&seen[0]["upstream"][0], &seen[2]["client"]["status"]), (&409.into(), &200.into()));
    assert!(control.answer("GET", "/__proxy/x", "").await.1.contains("POST release"));
}

#[tokio::test]
async fn it_listens_on_loopback_only_and_ends_when_it_is_dropped() {
    let stub = Stub::start().await;
    let options = Options { listen: "0.0.0.0:0".parse().unwrap(), ..Options::default() };
    let error = Proxy::start_with(stub.uri().parse().unwrap(), options).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let proxy = Proxy::start(&stub.uri()).await.unwrap();
    let held = proxy.hold(Rule::commits());
    let mut line = Line::to(&proxy).await;
    assert!(Line::to(&proxy).await.ask("POST", "/tables/t", "x").await.is_err());
    held.arrived().await;
    assert_eq!(line.answer("GET", "/x", "").await.0, 200);
    drop(proxy);
    assert!(line.ask("GET", "/x", "").await.is_err());
    assert_eq!(stub.applied(), 0, "what is never released is never forwarded");
}
