//! Starting a proxy, and what its owner can do with it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::exchange;
use super::fault::{Fault, HoldWhat};
use super::rule::Rule;
use super::state::{Held, Late, Listener, Seen, State};
use super::upstream::Upstream;
use crate::{HarnessError, Result};

/// How a proxy is started.
pub struct Options {
    /// Where it listens; a loopback address, because whoever reaches it may set its rules. Port 0 for any free one.
    pub listen: SocketAddr,
    /// What chances are decided by.
    pub seed: u64,
    /// Whether the catalog's own URI in its answer to `GET …/v1/config` (`defaults.uri`, `overrides.uri`) is replaced by
    /// the proxy's. Every other answer is passed as it is.
    pub rewrite_config: bool,
    /// Is told of each request that is over.
    pub listener: Option<Listener>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 0)), seed: 0, rewrite_config: true, listener: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { listen, seed, rewrite_config, .. } = self;
        f.debug_struct("Options")
            .field("listen", listen)
            .field("seed", seed)
            .field("rewrite_config", rewrite_config)
            .finish_non_exhaustive()
    }
}

/// A running proxy. It ends, with all its connections and whatever it holds, when this is dropped.
pub struct Proxy {
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("uri", &self.state.uri).finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// A proxy in front of an upstream such as `http://127.0.0.1:8181`, on a free port, that passes everything.
    pub async fn start(upstream: &str) -> Result<Self> {
        let upstream = upstream.parse().map_err(|error: super::UpstreamError| HarnessError(error.to_string()))?;
        Self::start_with(upstream, Options::default()).await
    }

    /// The same with options. Its connections are served by the runtime that this is called in.
    pub async fn start_with(upstream: Upstream, options: Options) -> Result<Self> {
        let Options { listen, seed, rewrite_config, listener } = options;
        if !listen.ip().is_loopback() {
            return Err(HarnessError(format!(
                "the proxy does not listen on {listen}: anyone who reaches it may set its rules. Use 127.0.0.1"
            )));
        }
        let failed = |error| HarnessError::io(format!("cannot listen on {listen}"), &error);
        let socket = TcpListener::bind(listen).await.map_err(failed)?;
        let uri = format!("http://{}", socket.local_addr().map_err(failed)?);
        let state = Arc::new(State::new(upstream, uri, seed, rewrite_config, listener));
        let accepting = tokio::spawn(accept(socket, state.clone()));
        Ok(Self { state, accepting })
    }

    /// What clients use in place of the catalog's URI; without a slash at the end.
    pub fn uri(&self) -> &str {
        &self.state.uri
    }

    /// What chances are decided by.
    pub fn seed(&self) -> u64 {
        self.state.seed
    }

    /// Adds a rule, for requests that come in from now on. Of the rules that fire, the one that was added first
    /// decides. Returns its number.
    pub fn rule(&self, rule: Rule) -> u64 {
        self.state.add(rule, None)
    }

    /// Adds a rule given as text; see [`Rule`].
    pub fn script(&self, rule: &str) -> Result<u64> {
        rule.parse().map(|rule| self.rule(rule)).map_err(|error: super::RuleError| HarnessError(error.to_string()))
    }

    /// Forgets all rules. What is held stays held.
    pub fn clear_rules(&self) {
        self.state.clear_rules();
    }

    /// Gives the next request that fits this fault.
    pub fn next(&self, fits: Rule, fault: Fault) -> u64 {
        self.rule(fits.once().then(fault))
    }

    /// Holds the next request that fits, and closes its client's connection. It is forwarded when it is released.
    pub fn hold(&self, fits: Rule) -> Held {
        self.state.expect_hold(fits, HoldWhat::Request)
    }

    /// Holds the next request that fits, while its client waits for the answer.
    pub fn hold_open(&self, fits: Rule) -> Held {
        self.state.expect_hold(fits, HoldWhat::Open)
    }

    /// Holds the answer to the next request that fits, while its client waits for it.
    pub fn hold_answer(&self, fits: Rule) -> Held {
        self.state.expect_hold(fits, HoldWhat::Answer)
    }

    /// The numbers of the requests that are held, in the order they came in.
    pub fn held(&self) -> Vec<u64> {
        self.state.held()
    }

    /// Releases the request that came in first of those that are held, and waits for the catalog's answer to it.
    /// `None` where none is held.
    pub async fn release_oldest(&self) -> Option<Late> {
        let (_, cell) = self.state.take_held(None)?;
        Some(cell.release().await)
    }

    /// Every request so far, in the order they came in.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen()
    }

    /// The numbers of the rules that have not fired yet.
    pub fn unused(&self) -> Vec<u64> {
        self.state.unused()
    }
}

async fn accept(socket: TcpListener, state: Arc<State>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(exchange::serve(stream, state.clone()));
                }
                // Out of file descriptors, or a client that went away: others may still come.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
