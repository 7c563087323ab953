//! What a proxy knows: its rules, what is held, and what went by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;
use tokio::sync::watch;

use super::fault::{Fault, HoldWhat};
use super::http::RequestHead;
use super::rule::Rule;
use super::upstream::Upstream;

/// One request as it went by. Without headers, bodies and query, so without credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Its number, from 1, in the order in which requests came in.
    pub number: u64,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// The number of the rule that its fault came from, from 1; `None` where no rule fired.
    pub rule: Option<u64>,
    /// Its fault, as rules write it, without the body of a forged answer.
    pub fault: String,
    /// The statuses with which the catalog answered, one for each time it was forwarded and answered.
    pub upstream: Vec<u16>,
    /// What the client got.
    pub client: Client,
    /// What else happened, e.g. that the catalog could not be reached.
    pub notes: Vec<String>,
}

/// What a client got of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Nothing yet.
    Waiting,
    /// An answer of this status.
    Status(u16),
    /// Half of an answer of this status.
    Half(u16),
    /// A closed connection.
    Closed,
}

/// What became of a held request in the end: the catalog's status, or why there is none.
pub type Late = std::result::Result<u16, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Expected,
    Arrived,
    Released,
    Done(Late),
}

/// One request that is held, or will be.
#[derive(Debug)]
pub(super) struct Cell(watch::Sender<Phase>);

impl Cell {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Phase::Expected)))
    }

    fn arrive(&self) {
        self.0.send_replace(Phase::Arrived);
    }

    async fn wait(&self, until: impl FnMut(&Phase) -> bool) -> Phase {
        // The sender is this value itself, so that waiting cannot fail while it is borrowed.
        self.0.subscribe().wait_for(until).await.map_or(Phase::Expected, |phase| phase.clone())
    }

    pub(super) async fn released(&self) {
        self.wait(|phase| matches!(phase, Phase::Released | Phase::Done(_))).await;
    }

    pub(super) fn done(&self, late: Late) {
        self.0.send_replace(Phase::Done(late));
    }

    pub(super) async fn release(&self) -> Late {
        self.0.send_if_modified(|phase| {
            let arrived = *phase == Phase::Arrived;
            if arrived {
                *phase = Phase::Released;
            }
            arrived
        });
        match self.wait(|phase| matches!(phase, Phase::Done(_) | Phase::Expected)).await {
            Phase::Done(late) => late,
            _ => Err("no request has arrived yet that could be released".to_owned()),
        }
    }
}

/// The one request that a hold is for.
#[derive(Debug)]
#[must_use = "a held request goes on only when it is released"]
pub struct Held {
    pub(super) cell: Arc<Cell>,
}

impl Held {
    /// Waits until the request has come in, whole, and nothing of it was forwarded (or, where the answer is held: until
    /// the catalog has answered).
    pub async fn arrived(&self) {
        self.cell.wait(|phase| *phase != Phase::Expected).await;
    }

    /// Whether the request has come in.
    pub fn has_arrived(&self) -> bool {
        *self.cell.0.borrow() != Phase::Expected
    }

    /// Lets it go on, and waits for the catalog's answer to it: the status, or why there is none. Again: the same.
    pub async fn release(&self) -> Late {
        self.cell.release().await
    }
}

struct Active {
    number: u64,
    rule: Rule,
    matched: u64,
    fired: u64,
    /// For the request that a handle waits for.
    cell: Option<Arc<Cell>>,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Active>,
    rules_made: u64,
    held: BTreeMap<u64, Arc<Cell>>,
    seen: Vec<Seen>,
}

/// What is told of each request that is over.
pub(super) type Listener = Box<dyn Fn(&Seen) + Send + Sync>;

/// Shared by a proxy's handle and its connections.
pub(super) struct State {
    pub(super) upstream: Upstream,
    /// This proxy's own URI.
    pub(super) uri: String,
    pub(super) seed: u64,
    pub(super) rewrite_config: bool,
    listener: Option<Listener>,
    inner: Mutex<Inner>,
}

/// What was decided for one request.
pub(super) struct Decision {
    pub(super) number: u64,
    pub(super) fault: Fault,
    pub(super) cell: Option<Arc<Cell>>,
}

impl State {
    pub(super) fn new(upstream: Upstream, uri: String, seed: u64, rewrite: bool, listener: Option<Listener>) -> Self {
        Self { upstream, uri, seed, rewrite_config: rewrite, listener, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn add(&self, rule: Rule, cell: Option<Arc<Cell>>) -> u64 {
        let mut inner = self.lock();
        inner.rules_made += 1;
        let number = inner.rules_made;
        inner.rules.push(Active { number, rule, matched: 0, fired: 0, cell });
        number
    }

    pub(super) fn clear_rules(&self) {
        self.lock().rules.clear();
    }

    /// Numbers of the rules that no request has met.
    pub(super) fn unused(&self) -> Vec<u64> {
        self.lock().rules.iter().filter(|active| active.fired == 0).map(|active| active.number).collect()
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    pub(super) fn held(&self) -> Vec<u64> {
        self.lock().held.keys().copied().collect()
    }

    /// The held request of this number, else the one that has been held longest. It is not listed from then on.
    pub(super) fn take_held(&self, number: Option<u64>) -> Option<(u64, Arc<Cell>)> {
        let mut inner = self.lock();
        let number = number.or_else(|| inner.held.keys().next().copied())?;
        inner.held.remove(&number).map(|cell| (number, cell))
    }

    /// Counts a request for every rule that it fits; the first rule that fires decides.
    pub(super) fn decide(&self, head: &RequestHead, body: &[u8]) -> Decision {
        let path = head.target.split('?').next().unwrap_or_default();
        let header = |name: &str, text: &str| head.headers.values(name).any(|value| value.contains(text));
        let mut inner = self.lock();
        let mut decided: Option<(u64, Fault, Option<Arc<Cell>>)> = None;
        for active in &mut inner.rules {
            if !active.rule.fits(&head.method, path, header, body) {
                continue;
            }
            active.matched += 1;
            if decided.is_none() && active.rule.fires(self.seed, active.number, active.matched) {
                active.fired += 1;
                decided = Some((active.number, active.rule.fault.clone(), active.cell.take()));
            }
        }
        let number = inner.seen.len() as u64 + 1;
        let (rule, fault, cell) = match decided {
            Some((rule, fault, cell)) => (Some(rule), fault, cell),
            None => (None, Fault::Pass, None),
        };
        let cell = matches!(fault, Fault::Hold(_)).then(|| cell.unwrap_or_else(Cell::new));
        inner.seen.push(Seen {
            number,
            method: head.method.clone(),
            path: path.to_owned(),
            rule,
            fault: fault.to_string(),
            upstream: Vec::new(),
            client: Client::Waiting,
            notes: Vec::new(),
        });
        Decision { number, fault, cell }
    }

    /// From now on the request is held.
    pub(super) fn hold(&self, number: u64, cell: &Arc<Cell>) {
        self.lock().held.insert(number, cell.clone());
        cell.arrive();
    }

    /// No longer held, by whichever way it was released.
    pub(super) fn no_longer_held(&self, number: u64) {
        self.lock().held.remove(&number);
    }

    pub(super) fn update(&self, number: u64, change: impl FnOnce(&mut Seen)) {
        let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        if let Some(seen) = self.lock().seen.get_mut(index) {
            change(seen);
        }
    }

    /// Tells the listener of a request that is over.
    pub(super) fn over(&self, number: u64) {
        let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let seen = self.lock().seen.get(index).cloned();
        if let (Some(listener), Some(seen)) = (&self.listener, seen) {
            listener(&seen);
        }
    }

    /// A handle on the first request that fits the rule, which is held.
    pub(super) fn expect_hold(&self, rule: Rule, what: HoldWhat) -> Held {
        let cell = Cell::new();
        self.add(rule.once().then(Fault::Hold(what)), Some(cell.clone()));
        Held { cell }
    }
}
