//! A catalog behind a network that loses, repeats and delays, as scripted.
//!
//! Faults are named by direction: a request that was lost never reached the catalog, a reply that was lost was to a
//! commit that the catalog decided. The caller sees the same in both cases, and that is the point.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use iceberg::TableCreation;

use super::{Capabilities, Catalog, CatalogError, Commit, LoadedTable, Reply};
use crate::ids::{CatalogIdentity, TableName, TableUuid};

/// What happens to one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is delivered, and its reply too.
    Pass,
    /// The request is lost: not applied, reported as Unknown.
    LoseRequest,
    /// The reply is lost: decided by the catalog, reported as Unknown.
    LoseReply,
    /// Delivered and decided, but another reply comes back, e.g. a gateway's 503, or a 409 that a proxy's second
    /// delivery earned.
    ReplyInstead(Answer),
    /// Not delivered: something before the catalog refuses it.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The words that come with it.
        message: String,
    },
    /// Not sent: no connection could be made.
    NotSent,
    /// Held somewhere on the way: reported as Unknown, delivered by [`Faults::release_held`].
    Hold,
    /// Delivered twice, the second reply comes back: a transport that resends.
    Duplicate,
    /// Delivered, and its reply comes back; a copy is held on the way, and delivered by [`Faults::release_held`].
    DuplicateLate,
}

/// A reply in place of the catalog's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// [`Reply::Refused`].
    Refused {
        /// The HTTP status.
        status: u16,
        /// The words that come with it.
        message: String,
    },
    /// [`Reply::Unknown`].
    Unknown {
        /// What is seen of it.
        reason: String,
    },
}

/// One commit as it went by.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The commit.
    pub commit: Commit,
    /// What happened to it.
    pub fault: Fault,
    /// How often it was delivered to the catalog; a held one counts once it is released.
    pub delivered: u32,
    /// Whether the catalog accepted a delivery.
    pub accepted: bool,
}

type Matches = Box<dyn Fn(&Commit) -> bool + Send + Sync>;
type Hook = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

struct Planned<T> {
    matches: Option<Matches>,
    what: T,
}

impl<T> Planned<T> {
    /// The first of the queue that is meant for this commit.
    fn take(queue: &mut VecDeque<Planned<T>>, commit: &Commit) -> Option<T> {
        let meant = |planned: &Planned<T>| planned.matches.as_ref().is_none_or(|matches| matches(commit));
        let position = queue.iter().position(meant)?;
        queue.remove(position).map(|planned| planned.what)
    }
}

#[derive(Default)]
struct State {
    faults: VecDeque<Planned<Fault>>,
    hooks: VecDeque<Planned<Hook>>,
    loads: VecDeque<CatalogError>,
    held: VecDeque<usize>,
    seen: Vec<Seen>,
    loaded: usize,
}

/// A catalog whose commits and loads go wrong as scripted; without a script, nothing does.
pub struct Faults<C> {
    inner: C,
    state: Mutex<State>,
}

impl<C: fmt::Debug> fmt::Debug for Faults<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("inner", &self.inner).field("commits", &self.lock().seen.len()).finish()
    }
}

impl<C> Faults<C> {
    /// Puts nothing in the way yet.
    pub fn new(inner: C) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// The catalog itself, as another client reaches it.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Plans one fault for each of the next commits, in order.
    pub fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults.into_iter().map(|what| Planned { matches: None, what }));
    }

    /// Plans a fault for the next commit that has none.
    pub fn push(&self, fault: Fault) {
        self.script([fault]);
    }

    /// Plans a fault for the next commit that `matches`; other commits leave it waiting.
    pub fn push_for(&self, matches: impl Fn(&Commit) -> bool + Send + Sync + 'static, fault: Fault) {
        self.lock().faults.push_back(Planned { matches: Some(Box::new(matches)), what: fault });
    }

    /// Runs `hook` right before the next commit reaches this catalog, so that another writer gets in between its
    /// reading and its writing. One hook a commit.
    pub fn before_commit<F>(&self, hook: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.lock().hooks.push_back(Planned { matches: None, what: Box::new(move || hook().boxed()) });
    }

    /// As [`Faults::before_commit`], for the next commit that `matches`.
    pub fn before_commit_for<F>(
        &self,
        matches: impl Fn(&Commit) -> bool + Send + Sync + 'static,
        hook: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let planned =
            Planned { matches: Some(Box::new(matches) as Matches), what: Box::new(move || hook().boxed()) as Hook };
        self.lock().hooks.push_back(planned);
    }

    /// Makes the next load fail; several calls fail as many loads, in order.
    pub fn fail_load(&self, error: CatalogError) {
        self.lock().loads.push_back(error);
    }

    /// Every commit that was given to this catalog, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// How many commits were given to this catalog, whatever became of them.
    pub fn commits(&self) -> usize {
        self.lock().seen.len()
    }

    /// How often a commit was delivered to the catalog behind.
    pub fn delivered(&self) -> u32 {
        self.lock().seen.iter().map(|seen| seen.delivered).sum()
    }

    /// How many commits the catalog behind accepted.
    pub fn accepted(&self) -> usize {
        self.lock().seen.iter().filter(|seen| seen.accepted).count()
    }

    /// How many loads were asked for.
    pub fn loads(&self) -> usize {
        self.lock().loaded
    }

    /// How many commits are held.
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Plans that no commit has used yet.
    pub fn unused(&self) -> usize {
        let state = self.lock();
        state.faults.len() + state.hooks.len() + state.loads.len()
    }
}

impl<C: Catalog> Faults<C> {
    /// Delivers the commit that was held first, late; `None` where none is held.
    pub async fn release_held(&self) -> Option<Reply> {
        self.release_nth(0).await
    }

    /// Delivers one of the commits that are held, counted from 0 in the order in which they were sent; `None` where fewer
    /// are held.
    pub async fn release_nth(&self, nth: usize) -> Option<Reply> {
        let (index, commit) = {
            let mut state = self.lock();
            let index = state.held.remove(nth)?;
            let commit = state.seen.get(index)?.commit.clone();
            (index, commit)
        };
        Some(self.deliver(index, &commit).await)
    }

    async fn deliver(&self, index: usize, commit: &Commit) -> Reply {
        let reply = self.inner.commit(commit).await;
        if let Some(seen) = self.lock().seen.get_mut(index) {
            seen.delivered = seen.delivered.saturating_add(1);
            seen.accepted |= matches!(reply, Reply::Accepted { .. });
        }
        reply
    }
}

fn unknown(reason: &str) -> Reply {
    Reply::Unknown { reason: reason.to_owned() }
}

#[async_trait]
impl<C: Catalog> Catalog for Faults<C> {
    fn identity(&self) -> &CatalogIdentity {
        self.inner.identity()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        self.inner.tables().await
    }

    async fn load(&self, table: &TableName) -> Result<LoadedTable, CatalogError> {
        let failure = {
            let mut state = self.lock();
            state.loaded = state.loaded.saturating_add(1);
            state.loads.pop_front()
        };
        match failure {
            Some(error) => Err(error),
            None => self.inner.load(table).await,
        }
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<LoadedTable, CatalogError> {
        self.inner.create(table, creation).await
    }

    fn read_with(&self, table: &LoadedTable) -> Vec<(String, String)> {
        self.inner.read_with(table)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn commit_all(&self, commits: &[Commit]) -> Reply {
        self.inner.commit_all(commits).await
    }

    async fn drop_scratch(&self, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
        self.inner.drop_scratch(table, uuid).await
    }

    async fn commit(&self, commit: &Commit) -> Reply {
        let (index, fault, hook) = {
            let mut state = self.lock();
            let fault = Planned::take(&mut state.faults, commit).unwrap_or(Fault::Pass);
            let hook = Planned::take(&mut state.hooks, commit);
            let seen = Seen { commit: commit.clone(), fault: fault.clone(), delivered: 0, accepted: false };
            state.seen.push(seen);
            (state.seen.len() - 1, fault, hook)
        };
        if let Some(hook) = hook {
            hook().await;
        }
        match fault {
            Fault::Pass => self.deliver(index, commit).await,
            Fault::LoseRequest => unknown("connection reset while the request was sent"),
            Fault::LoseReply => {
                let _lost = self.deliver(index, commit).await;
                unknown("connection reset while waiting for the reply")
            }
            Fault::ReplyInstead(answer) => {
                let _replaced = self.deliver(index, commit).await;
                match answer {
                    Answer::Refused { status, message } => Reply::Refused { status, message },
                    Answer::Unknown { reason } => Reply::Unknown { reason },
                }
            }
            Fault::Refuse { status, message } => Reply::Refused { status, message },
            Fault::NotSent => Reply::NotSent { reason: "connection refused".to_owned() },
            Fault::Hold => {
                self.lock().held.push_back(index);
                unknown("timed out waiting for the reply")
            }
            Fault::Duplicate => {
                let _first = self.deliver(index, commit).await;
                self.deliver(index, commit).await
            }
            Fault::DuplicateLate => {
                self.lock().held.push_back(index);
                self.deliver(index, commit).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use iceberg::spec::FormatVersion;

    use super::*;
    use crate::catalog::conformance::{empty_snapshot, require, set, small_table};
    use crate::catalog::fake::FakeCatalog;
    use crate::clock::{Clock, ManualClock};
    use crate::ids::SnapshotId;
    use crate::observed::RefKind;

    struct World {
        clock: Arc<dyn Clock>,
        faults: Arc<Faults<Arc<FakeCatalog>>>,
        table: TableName,
        base: SnapshotId,
    }

    impl World {
        async fn new() -> Self {
            let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(5));
            let fake = Arc::new(FakeCatalog::new(clock.clone()));
            let table: TableName = "n.t".parse().unwrap();
            let loaded = fake.create(&table, small_table(&table, FormatVersion::V2)).await.unwrap();
            let base = SnapshotId(1);
            let snapshot = empty_snapshot(&loaded, base, None, clock.now().timestamp_millis(), Default::default());
            let updates = vec![iceberg::TableUpdate::AddSnapshot { snapshot }, set("first", base, &RefKind::KEPT_TAG)];
            let commit = Commit { table: table.clone(), requirements: vec![], updates, key: clock.fresh_key() };
            assert!(matches!(fake.commit(&commit).await, Reply::Accepted { .. }));
            Self { clock, faults: Arc::new(Faults::new(fake)), table, base }
        }

        /// A commit that can be applied once: it makes a tag that was absent.
        fn tag(&self, name: &str) -> Commit {
            Commit {
                table: self.table.clone(),
                requirements: vec![require(name, None)],
                updates: vec![set(name, self.base, &RefKind::KEPT_TAG)],
                key: self.clock.fresh_key(),
            }
        }

        async fn has(&self, name: &str) -> bool {
            let loaded = self.faults.inner().load(&self.table).await.unwrap();
            loaded.observe().refs.keys().any(|found| found.as_str() == name)
        }
    }

    fn kind(reply: &Reply) -> &'static str {
        match reply {
            Reply::NotSent { .. } => "not sent",
            Reply::Accepted { .. } => "accepted",
            Reply::Refused { .. } => "refused",
            Reply::Unknown { .. } => "unknown",
        }
    }

    #[tokio::test]
    async fn every_fault_replies_and_applies_as_it_says() {
        let refused = |status| Answer::Refused { status, message: "no".to_owned() };
        for (fault, replied, applied, delivered) in [
            (Fault::Pass, "accepted", true, 1),
            (Fault::LoseRequest, "unknown", false, 0),
            (Fault::LoseReply, "unknown", true, 1),
            (Fault::ReplyInstead(refused(409)), "refused", true, 1),
            (Fault::ReplyInstead(Answer::Unknown { reason: "503".to_owned() }), "unknown", true, 1),
            (Fault::Refuse { status: 403, message: "no".to_owned() }, "refused", false, 0),
            (Fault::NotSent, "not sent", false, 0),
            (Fault::Hold, "unknown", false, 0),
            // The second delivery finds the first one's tag.
            (Fault::Duplicate, "refused", true, 2),
            (Fault::DuplicateLate, "accepted", true, 1),
        ] {
            let world = World::new().await;
            world.faults.push(fault.clone());
            let reply = world.faults.commit(&world.tag("t")).await;
            assert_eq!((kind(&reply), world.has("t").await), (replied, applied), "{fault:?}");
            assert_eq!((world.faults.commits(), world.faults.delivered()), (1, delivered), "{fault:?}");
            assert_eq!(world.faults.accepted(), usize::from(applied), "{fault:?}");
            assert_eq!(world.faults.unused(), 0);
        }
    }

    #[tokio::test]
    async fn a_held_commit_arrives_late_and_is_decided_then() {
        let world = World::new().await;
        world.faults.script([Fault::Hold, Fault::Hold]);
        for name in ["a", "b"] {
            assert_eq!(kind(&world.faults.commit(&world.tag(name)).await), "unknown");
        }
        assert!(world.faults.release_nth(2).await.is_none());
        // Meanwhile someone else takes the name.
        assert_eq!(kind(&world.faults.commit(&world.tag("b")).await), "accepted");
        assert_eq!(kind(&world.faults.release_held().await.unwrap()), "accepted");
        assert_eq!(kind(&world.faults.release_held().await.unwrap()), "refused");
        assert!(world.faults.release_held().await.is_none() && world.has("a").await);
    }

    #[tokio::test]
    async fn faults_wait_for_the_commit_they_are_meant_for() {
        let world = World::new().await;
        let sets = |name: &'static str| {
            move |commit: &Commit| {
                let named = |update: &_| matches!(update, iceberg::TableUpdate::SetSnapshotRef { ref_name, .. } if ref_name == name);
                commit.updates.iter().any(named)
            }
        };
        world.faults.push_for(sets("b"), Fault::LoseRequest);
        assert_eq!(kind(&world.faults.commit(&world.tag("a")).await), "accepted");
        assert_eq!(world.faults.unused(), 1);
        assert_eq!(kind(&world.faults.commit(&world.tag("b")).await), "unknown");
        assert_eq!(kind(&world.faults.commit(&world.tag("b")).await), "accepted");
    }

    #[tokio::test]
    async fn another_writer_gets_in_between() {
        let world = World::new().await;
        let (other, rival) = (world.faults.inner().clone(), world.tag("t"));
        world.faults.before_commit(move || async move {
            assert!(matches!(other.commit(&rival).await, Reply::Accepted { .. }));
        });
        assert_eq!(kind(&world.faults.commit(&world.tag("t")).await), "refused");
        assert_eq!(kind(&world.faults.commit(&world.tag("u")).await), "accepted");
    }

    #[tokio::test]
    async fn loads_fail_as_often_as_scripted() {
        let world = World::new().await;
        let reason = || CatalogError::Unavailable { what: "load".to_owned(), reason: "503".to_owned() };
        world.faults.fail_load(reason());
        assert!(world.faults.load(&world.table).await.is_err());
        assert!(world.faults.load(&world.table).await.is_ok());
        assert_eq!(world.faults.loads(), 2);
    }
}
