//! One request and its answer, with whatever happens to them on the way.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::control;
use super::fault::{Answer, Fault, HoldWhat, Moment, Which};
use super::http::{
    Body, Frame, Headers, RequestHead, ResponseHead, read_request, read_response, write_request, write_response,
};
use super::state::{Cell, Client, Decision, State};
use super::upstream::Upstream;

/// How much of a request's body is read before its fault is decided.
const LOOKED_AT: usize = 16 * 1024 * 1024;

type Reader = BufReader<OwnedReadHalf>;

/// What is done with the client's connection afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Keep,
    Close,
}

/// The client's side.
struct Peer {
    reader: Reader,
    /// `None` once it was closed.
    writer: Option<OwnedWriteHalf>,
}

/// A request with the part of its body that was read already.
struct Request {
    head: RequestHead,
    looked_at: Vec<u8>,
    rest: Body,
}

impl Request {
    /// Reads what is left of the body.
    async fn complete(&mut self, reader: &mut Reader) -> io::Result<()> {
        let rest = self.rest.collect(reader).await?;
        self.looked_at.extend_from_slice(&rest);
        Ok(())
    }

    fn keep_alive(&self) -> bool {
        self.rest == Body::Done && self.head.version == 1 && !self.head.headers.names("connection", "close")
    }

    fn is_config(&self) -> bool {
        let path = self.head.target.split('?').next().unwrap_or_default();
        self.head.method == "GET" && path.ends_with("/v1/config")
    }
}

/// Serves one connection of a client to its end.
pub(super) async fn serve(stream: TcpStream, state: Arc<State>) {
    // Small answers are sent in several writes; waiting for more to send would cost 40 ms each.
    drop(stream.set_nodelay(true));
    let (reader, writer) = stream.into_split();
    let mut peer = Peer { reader: BufReader::with_capacity(64 * 1024, reader), writer: Some(writer) };
    loop {
        let mut request = match receive(&mut peer).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let answer = Answer::error(400, "BadRequest", &format!("the proxy cannot read the request: {error}"));
                drop(send(&mut peer, &forged(&answer), answer.body.as_bytes(), false, false).await);
                return;
            }
            // The client went away in the middle of a request.
            Err(_) => return,
        };
        if let Some(target) = request.head.target.strip_prefix(control::PREFIX) {
            let target = target.to_owned();
            if request.complete(&mut peer.reader).await.is_err() {
                return;
            }
            let answer = control::answer(&state, &request.head.method, &target, &request.looked_at).await;
            let keep = request.keep_alive();
            if send(&mut peer, &forged(&answer), answer.body.as_bytes(), false, keep).await.is_err() || !keep {
                return;
            }
            continue;
        }
        let decision = state.decide(&request.head, &request.looked_at);
        let number = decision.number;
        let next = Exchange { state: &state, peer: &mut peer, request, decision }.run().await;
        let next = next.unwrap_or_else(|reason| {
            state.update(number, |seen| seen.notes.push(reason));
            Next::Close
        });
        state.over(number);
        if next == Next::Close {
            return;
        }
    }
}

/// The next request, with the first part of its body.
async fn receive(peer: &mut Peer) -> io::Result<Option<Request>> {
    let Some(mut head) = read_request(&mut peer.reader).await? else { return Ok(None) };
    let mut rest = Body::of_request(&head.headers)?;
    if head.headers.names("expect", "100-continue") {
        head.headers.remove("expect");
        if let Some(writer) = &mut peer.writer {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
    }
    let mut looked_at = Vec::new();
    while looked_at.len() < LOOKED_AT {
        let Some(piece) = rest.next(&mut peer.reader).await? else { break };
        looked_at.extend_from_slice(&piece);
    }
    Ok(Some(Request { head, looked_at, rest }))
}

fn forged(answer: &Answer) -> ResponseHead {
    let mut headers = Headers::default();
    if !answer.content_type.is_empty() {
        headers.push("Content-Type", &answer.content_type);
    }
    if let Some(seconds) = answer.retry_after {
        headers.push("Retry-After", &seconds.to_string());
    }
    ResponseHead { status: answer.status, reason: reason(answer.status).to_owned(), headers }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        300..=399 => "Redirect",
        409 => "Conflict",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        400..=499 => "Client Error",
        500..=599 => "Server Error",
        _ => "Answer",
    }
}

/// Sends an answer whose body is at hand. `bare` is for answers to HEAD, 204 and 304, which have none.
async fn send(peer: &mut Peer, head: &ResponseHead, body: &[u8], bare: bool, keep: bool) -> io::Result<()> {
    let Some(writer) = &mut peer.writer else { return Ok(()) };
    let bare = bare || matches!(head.status, 204 | 304);
    let frame = if bare { Frame::Bare } else { Frame::Length(body.len() as u64) };
    write_response(writer, head, frame, keep).await?;
    frame.piece(writer, body).await?;
    frame.end(writer).await
}

/// An answer of the catalog whose body is still to be read.
struct Answered {
    head: ResponseHead,
    body: Body,
    reader: Reader,
    /// Some servers take a half-closed connection for a client that has gone.
    _writer: OwnedWriteHalf,
}

impl Answered {
    async fn collect(&mut self) -> Result<Vec<u8>, String> {
        let body = self.body.collect(&mut self.reader).await;
        body.map_err(|error| format!("the catalog's answer broke off: {error}"))
    }
}

struct Exchange<'a> {
    state: &'a State,
    peer: &'a mut Peer,
    request: Request,
    decision: Decision,
}

impl Exchange<'_> {
    /// Does it; an error is a note for the record, after which the connection is closed.
    async fn run(mut self) -> Result<Next, String> {
        match self.decision.fault.clone() {
            Fault::Pass => self.pass().await,
            Fault::DropBefore => {
                self.client(Client::Closed);
                Ok(Next::Close)
            }
            Fault::DropAfter => {
                self.forward_and_drain().await?;
                self.client(Client::Closed);
                Ok(Next::Close)
            }
            Fault::Delay(time) => {
                tokio::time::sleep(time).await;
                self.pass().await
            }
            Fault::DelayAnswer(time) => {
                let answered = self.forward_or_say_so().await?;
                tokio::time::sleep(time).await;
                self.deliver(answered).await
            }
            Fault::Replay(which) => {
                self.complete().await?;
                let mut first = self.forward().await?;
                let body = first.collect().await?;
                match which {
                    Which::First => {
                        self.forward_and_drain().await?;
                        self.deliver_collected(&first.head, body).await
                    }
                    Which::Second => self.pass().await,
                }
            }
            Fault::Answer { moment, answer } => self.forge(moment, &forged(&answer), answer.body.as_bytes()).await,
            Fault::Redirect { moment, status, to } => {
                let mut head = ResponseHead { status, reason: reason(status).to_owned(), headers: Headers::default() };
                head.headers.push("Location", to.as_deref().unwrap_or(&self.request.head.target));
                self.forge(moment, &head, b"").await
            }
            Fault::Cut { chunked } => self.cut(chunked).await,
            Fault::Hold(what) => {
                let cell = self.decision.cell.clone().ok_or("a hold without a place to hold")?;
                let result = self.hold(what, &cell).await;
                self.state.no_longer_held(self.decision.number);
                if let Err(reason) = &result {
                    cell.done(Err(reason.clone()));
                }
                result
            }
        }
    }

    fn client(&self, client: Client) {
        self.state.update(self.decision.number, |seen| seen.client = client);
    }

    fn note(&self, note: String) {
        self.state.update(self.decision.number, |seen| seen.notes.push(note));
    }

    async fn complete(&mut self) -> Result<(), String> {
        let completed = self.request.complete(&mut self.peer.reader).await;
        completed.map_err(|error| format!("the client went away in the middle of its request: {error}"))
    }

    /// Forwards the request once.
    async fn forward(&mut self) -> Result<Answered, String> {
        let upstream = &self.state.upstream;
        let (frame, head) = (self.frame(), self.upstream_head(upstream));
        let stream = TcpStream::connect(upstream.authority()).await;
        let stream = stream.map_err(|error| format!("the catalog cannot be reached: {error}"))?;
        drop(stream.set_nodelay(true));
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::with_capacity(64 * 1024, reader);
        let sent = async {
            write_request(&mut writer, &head, frame).await?;
            frame.piece(&mut writer, &self.request.looked_at).await?;
            while let Some(piece) = self.request.rest.next(&mut self.peer.reader).await? {
                frame.piece(&mut writer, &piece).await?;
            }
            frame.end(&mut writer).await
        }
        .await;
        // Servers may answer before they have read everything, and close: then there is an answer all the same.
        let response = read_response(&mut reader).await.map_err(|error| {
            let error = sent.err().unwrap_or(error);
            format!("the catalog gave no answer: {error}")
        })?;
        let body = Body::of_response(&self.request.head.method, &response);
        let body = body.map_err(|error| format!("the catalog's answer cannot be read: {error}"))?;
        self.state.update(self.decision.number, |seen| seen.upstream.push(response.status));
        Ok(Answered { head: response, body, reader, _writer: writer })
    }

    /// As [`Self::forward`]; without an answer of the catalog, the client gets a gateway's 502.
    async fn forward_or_say_so(&mut self) -> Result<Answered, String> {
        match self.forward().await {
            Ok(answered) => Ok(answered),
            Err(reason) => {
                let answer = Answer::error(502, "BadGateway", &format!("proxy: {reason}"));
                self.client(Client::Status(502));
                drop(send(self.peer, &forged(&answer), answer.body.as_bytes(), false, false).await);
                Err(reason)
            }
        }
    }

    async fn forward_and_drain(&mut self) -> Result<u16, String> {
        let mut answered = self.forward().await?;
        answered.collect().await?;
        Ok(answered.head.status)
    }

    fn frame(&self) -> Frame {
        let Request { head, looked_at, rest } = &self.request;
        match *rest {
            Body::Done if looked_at.is_empty() && matches!(head.method.as_str(), "GET" | "HEAD" | "DELETE") => {
                Frame::Bare
            }
            Body::Done => Frame::Length(looked_at.len() as u64),
            Body::Length(left) => Frame::Length(left.saturating_add(looked_at.len() as u64)),
            Body::Chunk | Body::InChunk(_) | Body::UntilClose => Frame::Chunked,
        }
    }

    fn upstream_head(&self, upstream: &Upstream) -> RequestHead {
        let mut head = self.request.head.clone();
        head.target = upstream.target(&head.target);
        head.headers = head.headers.end_to_end();
        head.headers.remove("host");
        head.headers.push("Host", &upstream.authority());
        head.headers.push("Connection", "close");
        if self.state.rewrite_config && self.request.is_config() {
            // What is to be rewritten must be readable.
            head.headers.remove("accept-encoding");
        }
        head
    }

    async fn pass(&mut self) -> Result<Next, String> {
        let answered = self.forward_or_say_so().await?;
        self.deliver(answered).await
    }

    /// Passes the catalog's answer to the client as it comes.
    async fn deliver(&mut self, mut answered: Answered) -> Result<Next, String> {
        if self.state.rewrite_config && self.request.is_config() && answered.head.status == 200 {
            let body = answered.collect().await?;
            let body = self.rewritten(body);
            return self.deliver_collected(&answered.head, body).await;
        }
        let status = answered.head.status;
        self.client(Client::Status(status));
        let old = self.request.head.version == 0;
        let frame = match answered.body {
            Body::Done if self.request.head.method == "HEAD" || matches!(status, 204 | 304) => Frame::Bare,
            Body::Done => Frame::Length(0),
            Body::Length(length) => Frame::Length(length),
            Body::Chunk | Body::InChunk(_) | Body::UntilClose if old => Frame::Close,
            Body::Chunk | Body::InChunk(_) | Body::UntilClose => Frame::Chunked,
        };
        let keep = self.request.keep_alive() && frame != Frame::Close;
        let mut head = ResponseHead { headers: answered.head.headers.end_to_end(), ..answered.head.clone() };
        if frame == Frame::Bare && self.request.head.method == "HEAD" {
            // The length of the body that a GET would have had.
            for length in answered.head.headers.values("content-length") {
                head.headers.push("Content-Length", length);
            }
        }
        let Some(writer) = &mut self.peer.writer else { return Ok(Next::Close) };
        let gone = |error: io::Error| format!("the client went away before it had the answer: {error}");
        write_response(writer, &head, frame, keep).await.map_err(gone)?;
        loop {
            let piece = answered.body.next(&mut answered.reader).await;
            match piece.map_err(|error| format!("the catalog's answer broke off: {error}"))? {
                Some(piece) => frame.piece(writer, &piece).await.map_err(gone)?,
                None => break,
            }
        }
        frame.end(writer).await.map_err(gone)?;
        Ok(if keep { Next::Keep } else { Next::Close })
    }

    /// Passes an answer that was read whole.
    async fn deliver_collected(&mut self, head: &ResponseHead, body: Vec<u8>) -> Result<Next, String> {
        let head = ResponseHead { headers: head.headers.end_to_end(), ..head.clone() };
        self.answer(&head, &body).await
    }

    async fn answer(&mut self, head: &ResponseHead, body: &[u8]) -> Result<Next, String> {
        self.client(Client::Status(head.status));
        let (keep, bare) = (self.request.keep_alive(), self.request.head.method == "HEAD");
        let sent = send(self.peer, head, body, bare, keep).await;
        sent.map_err(|error| format!("the client went away before it had the answer: {error}"))?;
        Ok(if keep { Next::Keep } else { Next::Close })
    }

    async fn forge(&mut self, moment: Moment, head: &ResponseHead, body: &[u8]) -> Result<Next, String> {
        match moment {
            // A body that was not read would be taken for the next request.
            Moment::Before => self.complete().await?,
            Moment::After => {
                self.forward_and_drain().await?;
            }
        }
        self.answer(head, body).await
    }

    async fn cut(&mut self, chunked: bool) -> Result<Next, String> {
        let mut answered = self.forward().await?;
        let body = answered.collect().await?;
        let half = body.get(..body.len() / 2).unwrap_or_default();
        self.client(Client::Half(answered.head.status));
        let head = ResponseHead { headers: answered.head.headers.end_to_end(), ..answered.head.clone() };
        let Some(writer) = &mut self.peer.writer else { return Ok(Next::Close) };
        let sent = async {
            let frame = if chunked { Frame::Chunked } else { Frame::Length(body.len() as u64) };
            write_response(writer, &head, frame, true).await?;
            if chunked {
                writer.write_all(format!("{:x}\r\n", body.len()).as_bytes()).await?;
            }
            writer.write_all(half).await?;
            writer.flush().await
        };
        sent.await.map_err(|error| format!("the client went away before it had its half: {error}"))?;
        Ok(Next::Close)
    }

    async fn hold(&mut self, what: HoldWhat, cell: &Arc<Cell>) -> Result<Next, String> {
        let number = self.decision.number;
        self.complete().await?;
        match what {
            HoldWhat::Request => {
                self.client(Client::Closed);
                // Held before the client can know of it.
                self.state.hold(number, cell);
                drop(self.peer.writer.take());
                cell.released().await;
                self.state.no_longer_held(number);
                let late = self.forward_and_drain().await?;
                cell.done(Ok(late));
                Ok(Next::Close)
            }
            HoldWhat::Open => {
                self.state.hold(number, cell);
                cell.released().await;
                self.state.no_longer_held(number);
                let mut answered = self.forward_or_say_so().await?;
                let body = answered.collect().await?;
                cell.done(Ok(answered.head.status));
                self.deliver_collected(&answered.head, body).await
            }
            HoldWhat::Answer => {
                let mut answered = self.forward_or_say_so().await?;
                let body = answered.collect().await?;
                self.state.hold(number, cell);
                cell.released().await;
                cell.done(Ok(answered.head.status));
                self.deliver_collected(&answered.head, body).await
            }
        }
    }

    /// The answer to `GET /v1/config` with this proxy's URI where the catalog names its own: a client that follows it
    /// would go past the proxy.
    fn rewritten(&self, body: Vec<u8>) -> Vec<u8> {
        let Ok(mut config) = serde_json::from_slice::<Value>(&body) else { return body };
        let mut changed = false;
        for part in ["defaults", "overrides"] {
            let Some(Value::String(uri)) = config.get_mut(part).and_then(|part| part.get_mut("uri")) else { continue };
            match self.state.upstream.replace_in(uri, &self.state.uri) {
                Some(own) => {
                    *uri = own;
                    changed = true;
                    self.note(format!("the configuration's {part}.uri was rewritten to this proxy"));
                }
                None => self.note(format!("the configuration's {part}.uri leads past this proxy")),
            }
        }
        if changed { config.to_string().into_bytes() } else { body }
    }
}
