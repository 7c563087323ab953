//! The HTTP side: reads that may be sent again, and changes that are sent exactly once.
//!
//! Nobody may resend a commit. So the client for changes differs from the one for reads:
//!
//! - it follows no redirect (`Policy::none`; 307 and 308 would carry the body on);
//! - it has no retry policy (`reqwest::retry::never`): by default reqwest sends again what HTTP/2 said it had not
//!   processed;
//! - it speaks HTTP/1.1 only;
//! - it keeps no idle connection (`pool_max_idle_per_host(0)`). hyper-util's client has `retry_canceled_requests` on,
//!   which reqwest does not expose: a request on a reused connection that was closed before it was written goes out
//!   again on a new one. It does so only where the connection came from the pool, and with no idle connection allowed
//!   there is no pool: its every checkout opens a connection (hyper-util 0.1, `Client::send_request`,
//!   `one_connection_for`).
//!
//! `NotSent` needs proof. reqwest's `is_connect` is such: it is set by the connector alone, so it covers the name, the
//! TCP connection, a proxy's CONNECT and the TLS handshake, all of which come before the first byte of the request. A
//! TLS alert that arrives later (a client certificate refused in TLS 1.3) is an error of the request, and Lost.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use http::header::{
    ACCEPT, AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER,
};
use reqwest::{Certificate, Identity, Method};
use url::{Host, Url};

use super::auth::{Auth, Token};
use super::failure::Secrets;
use super::skew::Clocks;
use crate::catalog::CatalogError;
use crate::catalog::properties::Properties;
use crate::clock::Clock;

/// The longest answer with metadata that is read, in bytes after decompression.
const LARGEST_ANSWER: usize = 1 << 30;
/// Of an answer that is an error, this much is read, in bytes; the rest is not looked at.
const LARGEST_ERROR: usize = 1 << 20;
/// What Retry-After is honoured up to.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const DELEGATION: HeaderName = HeaderName::from_static("x-iceberg-access-delegation");

/// A request, before it is given its credentials.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<(HeaderValue, Vec<u8>)>,
}

impl Call {
    pub(super) fn new(method: Method, url: Url) -> Self {
        let mut headers = HeaderMap::new();
        if method == Method::GET {
            // What a cache on the way kept is older than what the commit before it did. Source: RFC 9111, 5.2.1.4.
            let _none = headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        Self { method, url, headers, body: None }
    }

    pub(super) fn json(mut self, body: Vec<u8>) -> Self {
        self.body = Some((HeaderValue::from_static("application/json"), body));
        self
    }
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    /// Empty where there is none.
    pub content_type: String,
    pub location: Option<String>,
    pub body: Vec<u8>,
    retry_after: Option<Duration>,
    /// When it came by this clock, and when it was made by the server's.
    times: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request could not be made; nothing was sent.
    Configuration(CatalogError),
    /// Provably nothing was sent.
    NotSent(String),
    /// It may have been received.
    Lost(String),
}

/// How long to wait, and how often to try a read again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// `rest.client.connection-timeout-ms`: for a connection with its TLS handshake.
    pub connect: Duration,
    /// `rest.client.socket-timeout-ms`: for the next bytes of an answer, its first included.
    pub read: Duration,
    /// `rest.client.request-timeout-ms`: for a request as a whole.
    pub total: Duration,
    /// `rest.client.max-retries`: of reads alone.
    pub retries: u32,
}

impl Limits {
    pub(super) fn of(properties: &Properties) -> Result<Self, CatalogError> {
        let number = |name: &str, default: u64| {
            properties.get(name).map_or(Ok(default), |text| {
                let wrong = || CatalogError::Invalid(format!("`{name}`: a whole number above 0 was expected"));
                text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)
            })
        };
        let retries = match properties.get("rest.client.max-retries") {
            Some("0") => 0,
            _ => number("rest.client.max-retries", 3)?,
        };
        Ok(Self {
            connect: Duration::from_millis(number("rest.client.connection-timeout-ms", 10_000)?),
            read: Duration::from_millis(number("rest.client.socket-timeout-ms", 60_000)?),
            total: Duration::from_millis(number("rest.client.request-timeout-ms", 600_000)?),
            retries: u32::try_from(retries.min(20)).unwrap_or(20),
        })
    }
}

/// Sends requests to one catalog.
pub(super) struct Client {
    reads: reqwest::Client,
    changes: reqwest::Client,
    headers: HeaderMap,
    auth: Auth,
    limits: Limits,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
    clocks: Clocks,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("auth", &self.auth).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the catalog at `base`.
    pub(super) fn new(
        base: &Url,
        properties: &Properties,
        auth: Auth,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CatalogError> {
        let limits = Limits::of(properties)?;
        let transport = Transport::of(base, properties, limits)?;
        let reads = transport.build(|builder| builder)?;
        let changes = transport.build(|builder| builder.pool_max_idle_per_host(0))?;
        let headers = headers_of(properties, &secrets)?;
        Ok(Self { reads, changes, headers, auth, limits, secrets, clock, clocks: Clocks::default() })
    }

    /// Why nothing may be committed by this machine's clock, as the last read showed it.
    pub(super) fn clock_objection(&self) -> Option<String> {
        self.clocks.objection()
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Sends a request that changes nothing, again where that may help.
    pub(super) async fn read(&self, call: &Call, table: Option<&Token>) -> Result<Answer, Failure> {
        let (mut tries, mut table, mut renewed) = (0, table, false);
        loop {
            let used = self.auth.token(self, table).await?;
            let outcome = self.send(&self.reads, call, used.as_ref()).await;
            if let Ok(Answer { times: Some((ours, theirs)), .. }) = &outcome {
                self.clocks.note(*ours, *theirs);
            }
            if is_denied(&outcome) && !renewed {
                renewed = true;
                // A table's own token has nobody to renew it: the catalog's is tried in its place.
                if table.take().is_some() || self.auth.forget(used.as_ref()).await {
                    continue;
                }
            }
            match self.pause(&outcome, tries) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return outcome,
            }
            tries += 1;
        }
    }

    /// Sends a request that may change something, once.
    pub(super) async fn change(&self, call: &Call, table: Option<&Token>) -> Result<Answer, Failure> {
        let used = self.auth.token(self, table).await?;
        let outcome = self.send(&self.changes, call, used.as_ref()).await;
        if is_denied(&outcome) && table.is_none() {
            // For whatever comes next; this request is not sent again.
            let _can_be_renewed = self.auth.forget(used.as_ref()).await;
        }
        outcome
    }

    /// Asks for a token, which may be at another server: no header of the catalog's goes there.
    pub(super) async fn ask(&self, call: &Call) -> Result<Answer, Failure> {
        let mut tries = 0;
        loop {
            let outcome = self.exchange(&self.reads, plain(call)).await;
            match self.pause(&outcome, tries) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return outcome,
            }
            tries += 1;
        }
    }

    /// How long to wait before a read is tried again; `None` where it is not.
    fn pause(&self, outcome: &Result<Answer, Failure>, tries: u32) -> Option<Duration> {
        let asked = match outcome {
            Ok(answer) if matches!(answer.status, 429 | 503) => answer.retry_after,
            Ok(_) | Err(Failure::Configuration(_)) => return None,
            Err(Failure::NotSent(_) | Failure::Lost(_)) => None,
        };
        let own = FIRST_WAIT.saturating_mul(1 << tries.min(8));
        (tries < self.limits.retries).then(|| asked.unwrap_or(own).min(LONGEST_WAIT))
    }

    async fn send(&self, client: &reqwest::Client, call: &Call, token: Option<&Token>) -> Result<Answer, Failure> {
        let mut request = plain(call);
        for (name, value) in &self.headers {
            let _own = request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        if let Some(token) = token {
            let _replaced = request.headers_mut().insert(AUTHORIZATION, token.header());
        }
        self.auth.sign(&mut request).await?;
        self.exchange(client, request).await
    }

    async fn exchange(&self, client: &reqwest::Client, request: reqwest::Request) -> Result<Answer, Failure> {
        let response = client.execute(request).await.map_err(|error| self.failure(error))?;
        let status = response.status().as_u16();
        let header =
            |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (content_type, location) = (header(CONTENT_TYPE).unwrap_or_default(), header(LOCATION));
        // What a cache kept is as old as it says.
        let made = header(DATE).filter(|_| !response.headers().contains_key(AGE));
        let made = made.and_then(|text| DateTime::parse_from_rfc2822(text.trim()).ok());
        let times = made.map(|made| (self.clock.now(), made.to_utc()));
        let retry_after = header(RETRY_AFTER).and_then(|text| self.wait_of(&text));
        let body = self.body(response, status).await?;
        // A server may repeat what it was sent. Metadata is not searched: it is large, and what it holds is not shown.
        let body = if status == 200 { body } else { self.secrets.hide_in(body) };
        Ok(Answer { status, content_type, location, body, retry_after, times })
    }

    async fn body(&self, mut response: reqwest::Response, status: u16) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                Failure::Lost(format!("the answer (status {status}) broke off: {}", self.reason(error)))
            })?;
            let Some(chunk) = chunk else { return Ok(body) };
            let length = body.len().saturating_add(chunk.len());
            if status != 200 && length > LARGEST_ERROR {
                return Ok(body);
            }
            if length > LARGEST_ANSWER {
                return Err(Failure::Lost(format!("the answer is longer than {LARGEST_ANSWER} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn failure(&self, error: reqwest::Error) -> Failure {
        let unsent = error.is_connect() || error.is_builder();
        let reason = self.reason(error);
        if unsent { Failure::NotSent(reason) } else { Failure::Lost(reason) }
    }

    /// The error and its causes, without the URL, whose query may hold anything.
    fn reason(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut texts = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some say the same as what caused them.
            if !texts.iter().any(|known| known.contains(&text)) {
                texts.push(text);
            }
            cause = error.source();
        }
        self.secrets.hide(texts.join(": "))
    }

    /// Retry-After: seconds or a date.
    fn wait_of(&self, text: &str) -> Option<Duration> {
        if let Ok(seconds) = text.trim().parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = DateTime::parse_from_rfc2822(text.trim()).ok()?;
        Some((until.to_utc() - self.clock.now()).to_std().unwrap_or_default())
    }
}

fn is_denied(outcome: &Result<Answer, Failure>) -> bool {
    matches!(outcome, Ok(answer) if matches!(answer.status, 401 | 419))
}

/// The request without headers of the catalog and without credentials.
fn plain(call: &Call) -> reqwest::Request {
    let mut request = reqwest::Request::new(call.method.clone(), call.url.clone());
    *request.headers_mut() = call.headers.clone();
    let _none = request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some((content_type, body)) = &call.body {
        let _none = request.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        *request.body_mut() = Some(body.clone().into());
    }
    request
}

/// What `header.*` asks for, and which kind of storage access calve can use.
fn headers_of(properties: &Properties, secrets: &Secrets) -> Result<HeaderMap, CatalogError> {
    let mut headers = HeaderMap::new();
    let _none = headers.insert(DELEGATION, HeaderValue::from_static("vended-credentials"));
    for (property, value) in properties.iter() {
        let Some(name) = property.strip_prefix("header.") else { continue };
        let wrong = |what: &str| CatalogError::Invalid(format!("`{property}`: {what}; correct it"));
        let name: HeaderName = name.parse().map_err(|_| wrong("this is not the name of a header"))?;
        let mut header: HeaderValue = value.parse().map_err(|_| wrong("its value cannot be sent in a header"))?;
        if name != DELEGATION {
            header.set_sensitive(true);
            secrets.add(value);
        }
        let _default = headers.insert(name, header);
    }
    Ok(headers)
}

/// How both clients reach the server.
struct Transport {
    authorities: Option<Vec<Certificate>>,
    identity: Option<Identity>,
    /// No proxy reaches this machine's own addresses.
    direct: bool,
    limits: Limits,
}

impl Transport {
    fn of(base: &Url, properties: &Properties, limits: Limits) -> Result<Self, CatalogError> {
        let authorities = properties
            .get("ssl.cabundle")
            .map(|path| {
                let certificates = Certificate::from_pem_bundle(&file("ssl.cabundle", path)?)
                    .map_err(|e| unusable("ssl.cabundle", path, &chain(&e)))?;
                if certificates.is_empty() {
                    return Err(unusable("ssl.cabundle", path, "it holds no certificate"));
                }
                Ok(certificates)
            })
            .transpose()?;
        let identity = properties
            .get("ssl.client.cert")
            .map(|path| {
                let mut pem = file("ssl.client.cert", path)?;
                if let Some(key) = properties.get("ssl.client.key") {
                    pem.push(b'\n');
                    pem.extend(file("ssl.client.key", key)?);
                }
                Identity::from_pem(&pem).map_err(|e| unusable("ssl.client.cert", path, &chain(&e)))
            })
            .transpose()?;
        let direct = match base.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        Ok(Self { authorities, identity, direct, limits })
    }

    fn build(
        &self,
        more: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<reqwest::Client, CatalogError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("calve/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.limits.connect)
            .read_timeout(self.limits.read)
            .timeout(self.limits.total);
        if let Some(authorities) = &self.authorities {
            builder = builder.tls_certs_only(authorities.iter().cloned());
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        if self.direct {
            builder = builder.no_proxy();
        }
        more(builder).build().map_err(|e| {
            CatalogError::Invalid(format!("the connection cannot be set up: {}; check the `ssl.*` settings", chain(&e)))
        })
    }
}

fn file(property: &str, path: &str) -> Result<Vec<u8>, CatalogError> {
    std::fs::read(path).map_err(|e| unusable(property, path, &e.to_string()))
}

fn unusable(property: &str, path: &str, reason: &str) -> CatalogError {
    CatalogError::Invalid(format!("`{property}`: {path} cannot be used: {reason}; a PEM file was expected"))
}

fn chain(error: &reqwest::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
