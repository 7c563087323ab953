//! A small HTTP/1.1 server that answers by a script and records every request, as whole requests arrive at it.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::catalog::properties::Properties;
use crate::catalog::rest::RestCatalog;
use crate::clock::{Clock, ManualClock};

/// A request as the server read it.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Counts the requests of its connection, from 0.
    pub nth: usize,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// `METHOD /path`.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Reply {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Announces the whole body and sends its first half.
    Half {
        status: u16,
        body: Vec<u8>,
    },
    /// Closes the connection and says nothing.
    Close,
}

impl Answer {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::typed(status, "application/json", body.to_string())
    }

    pub(super) fn typed(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self::Reply { status, headers, body: body.into() }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::Reply { status, headers: vec![], body: vec![] }
    }

    /// In the error model.
    pub(super) fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::json(status, &json!({"error": {"message": message, "type": kind, "code": status}}))
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Reply { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The configuration of a catalog that has nothing to say.
    pub(super) fn plain_config() -> Self {
        Self::json(200, &json!({"defaults": {}, "overrides": {}}))
    }
}

type Script = Arc<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A running server; it ends when it is dropped.
pub(super) struct Server {
    pub uri: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// A server whose script says at once what to answer; `None` is the configuration of a plain catalog.
    pub(super) async fn start(script: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Self {
        Self::with_script(Arc::new(move |request| {
            let answer = script(&request).unwrap_or_else(|| default_answer(&request));
            async move { answer }.boxed()
        }))
        .await
    }

    pub(super) async fn with_script(script: Script) -> Self {
        Self::listen(script, None).await
    }

    pub(super) async fn start_tls(
        script: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
        tls: ServerConfig,
    ) -> Self {
        let script: Script = Arc::new(move |request| {
            let answer = script(&request).unwrap_or_else(|| default_answer(&request));
            async move { answer }.boxed()
        });
        Self::listen(script, Some(TlsAcceptor::from(Arc::new(tls)))).await
    }

    async fn listen(script: Script, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let uri = match tls {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, recorded, tls) = (script.clone(), recorded.clone(), tls.clone());
                drop(tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &script, &recorded).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &script, &recorded).await;
                            }
                        }
                    }
                }));
            }
        });
        Self { uri, requests, task }
    }

    /// Every request so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The requests of a method, e.g. `POST`.
    pub(super) fn of(&self, method: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.method == method).collect()
    }

    /// `METHOD /path` of every request.
    pub(super) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }

    /// Properties that lead here, and more.
    pub(super) fn properties(&self, more: &[(&str, &str)]) -> Properties {
        [("uri", self.uri.as_str())].into_iter().chain(more.iter().copied()).collect()
    }

    pub(super) async fn connect(&self, more: &[(&str, &str)]) -> RestCatalog {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(1));
        RestCatalog::connect(&self.properties(more), clock).await.unwrap()
    }
}

fn default_answer(request: &Request) -> Answer {
    if request.path().ends_with("/v1/config") {
        return Answer::plain_config();
    }
    Answer::error(404, "NoSuchTableException", "there is nothing here")
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: &Script, recorded: &Mutex<Vec<Request>>) {
    let mut buffer = Vec::new();
    for nth in 0.. {
        let Some(request) = read_request(&mut stream, &mut buffer, nth).await else { return };
        recorded.lock().unwrap().push(request.clone());
        let head = request.method == "HEAD";
        match script(request).await {
            Answer::Close => return,
            Answer::Reply { status, headers, body } => {
                let sent = if head { &[][..] } else { &body };
                if stream.write_all(&head_of(status, &headers, body.len())).await.is_err()
                    || stream.write_all(sent).await.is_err()
                    || stream.flush().await.is_err()
                {
                    return;
                }
            }
            Answer::Half { status, body } => {
                let head = head_of(status, &[("content-type".to_owned(), "application/json".to_owned())], body.len());
                let _sent =
                    stream.write_all(&head).await.is_ok() && stream.write_all(&body[..body.len() / 2]).await.is_ok();
                let _ended = stream.shutdown().await.is_ok();
                return;
            }
        }
    }
}

fn head_of(status: u16, headers: &[(String, String)], length: usize) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 204 && status != 304 {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>, nth: usize) -> Option<Request> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    while buffer.len() < end + 4 + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end + 4..end + 4 + length].to_vec();
    drop(buffer.drain(..end + 4 + length));
    Some(Request { method, target, headers, body, nth })
}
