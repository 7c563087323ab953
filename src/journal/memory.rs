//! A journal in memory, whose puts can be made to fail: for tests and simulation.
//!
//! It keeps the same bytes that a folder would hold, so what cannot be read back from a folder cannot be read back
//! here either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::codec;
use super::local::verified;
use super::record::Record;
use super::{Journal, JournalError, LogKey, Put, PutIfAbsent, StoreTimes};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, PublicationId, TableUuid};

/// When an injected failure strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailPut {
    /// Before anything is stored: a full disk.
    Before,
    /// After it is stored: an answer that was lost.
    AfterApplying,
}

#[derive(Debug, Clone, Default)]
struct State {
    logs: BTreeMap<LogKey, BTreeMap<u32, Vec<u8>>>,
    statements: BTreeMap<Digest, Vec<u8>>,
    failing: Option<(u32, FailPut)>,
    /// When each record was stored, where the journal has a clock.
    stored: BTreeMap<(LogKey, u32), DateTime<Utc>>,
}

/// A journal in memory. Clones share their contents, as two processes share a folder.
#[derive(Debug, Clone)]
pub struct MemoryJournal {
    root: String,
    clock: Option<Arc<dyn Clock>>,
    state: Arc<Mutex<State>>,
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

/// The contents of a journal at one moment.
#[derive(Debug, Clone)]
pub struct MemorySnapshot(State);

impl MemoryJournal {
    /// An empty journal by the name `memory`.
    pub fn new() -> Self {
        Self::named("memory")
    }

    /// An empty journal. `root` is the name that markers record: a second journal needs another.
    pub fn named(root: impl Into<String>) -> Self {
        Self { root: root.into(), clock: None, state: Arc::default() }
    }

    /// The same, dating what it stores by a clock of its own, as a store does.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes the next `count` puts, of records and of statements, fail with [`JournalError::Io`]. Replaces what was
    /// asked for before; 0 ends it.
    pub fn fail_next_puts(&self, count: u32, when: FailPut) {
        self.state().failing = (count > 0).then_some((count, when));
    }

    /// Loses everything: logs and statements.
    pub fn forget(&self) {
        let mut state = self.state();
        state.logs.clear();
        state.statements.clear();
    }

    /// Copies the contents.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.state().clone())
    }

    /// Goes back to earlier contents, as a restored backup does. Failures asked for stay as they are.
    pub fn restore(&self, snapshot: &MemorySnapshot) {
        let mut state = self.state();
        let failing = state.failing;
        *state = State { failing, ..snapshot.0.clone() };
    }

    /// Puts bytes where a record would be, whatever they are and whatever was there: damage, or a newer calve.
    pub fn plant(&self, log: &LogKey, number: u32, bytes: impl Into<Vec<u8>>) {
        self.state().logs.entry(log.clone()).or_default().insert(number, bytes.into());
    }

    /// Replaces the bytes under a statement's digest.
    pub fn plant_statement(&self, digest: Digest, bytes: impl Into<Vec<u8>>) {
        self.state().statements.insert(digest, bytes.into());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn location(&self, digest: &Digest) -> String {
        format!("{}/{}", self.root, codec::statement_path(digest))
    }

    fn injected(&self, path: String, when: FailPut) -> JournalError {
        JournalError::Io { path, reason: "injected failure".to_owned(), unwritable: when == FailPut::Before }
    }
}

impl State {
    /// The failure that the present put meets, if any.
    fn strike(&mut self) -> Option<FailPut> {
        let (left, when) = self.failing?;
        self.failing = left.checked_sub(1).filter(|left| *left > 0).map(|left| (left, when));
        Some(when)
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn root(&self) -> String {
        self.root.clone()
    }

    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        let state = self.state();
        let Some(stored) = state.logs.get(log) else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        for (expected, (number, bytes)) in (1u32..).zip(stored) {
            if *number != expected {
                let reason = format!("it is missing, and there is a record {number}");
                return Err(JournalError::Damaged { path: codec::record_path(&self.root, log, expected), reason });
            }
            records.push(codec::decode(&codec::record_path(&self.root, log, *number), *number, bytes)?);
        }
        Ok(records)
    }

    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        let path = codec::record_path(&self.root, log, record.number);
        let bytes = codec::encode(&path, record)?;
        let mut state = self.state();
        let strike = state.strike();
        if strike == Some(FailPut::Before) {
            return Err(self.injected(path, FailPut::Before));
        }
        let stored = state.logs.get(log);
        let put = match stored.and_then(|stored| stored.get(&record.number)) {
            Some(there) => match codec::decode(&path, record.number, there) {
                Ok(there) if there.id == record.id => Put::Won,
                Ok(_) | Err(JournalError::Newer { .. }) => Put::Taken,
                Err(error) => return Err(error),
            },
            None => {
                let before = record.number.saturating_sub(1);
                if before > 0 && stored.is_none_or(|stored| !stored.contains_key(&before)) {
                    let reason = format!("there is no record {before}: read the log again");
                    return Err(JournalError::Impossible { path, number: record.number, reason });
                }
                state.logs.entry(log.clone()).or_default().insert(record.number, bytes);
                if let Some(clock) = &self.clock {
                    state.stored.insert((log.clone(), record.number), clock.now());
                }
                Put::Won
            }
        };
        match strike {
            Some(when) => Err(self.injected(path, when)),
            None => Ok(put),
        }
    }

    async fn publications(
        &self,
        catalog: &CatalogIdentity,
        table: TableUuid,
    ) -> Result<Vec<PublicationId>, JournalError> {
        let state = self.state();
        let of_table = state.logs.keys().filter(|key| key.catalog == *catalog && key.table == table);
        Ok(of_table.map(|key| key.publication.clone()).collect())
    }

    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        let state = self.state();
        let mut found: Vec<_> = state.logs.keys().map(|key| key.catalog.clone()).collect();
        found.dedup();
        Ok(found)
    }

    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        let state = self.state();
        let mut found: Vec<_> = state.logs.keys().filter(|key| key.catalog == *catalog).map(|key| key.table).collect();
        found.dedup();
        Ok(found)
    }

    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        let digest = Digest::of_bytes(bytes);
        let location = self.location(&digest);
        let mut state = self.state();
        let strike = state.strike();
        if strike != Some(FailPut::Before) {
            state.statements.insert(digest, bytes.to_vec());
        }
        match strike {
            Some(when) => Err(self.injected(location, when)),
            None => Ok((digest, location)),
        }
    }

    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let found = self.state().statements.get(digest).cloned();
        found.map(|bytes| verified(&self.location(digest), digest, bytes)).transpose()
    }

    async fn times(&self, log: &LogKey, number: u32, _: &dyn Clock) -> Result<Option<StoreTimes>, JournalError> {
        let stored = self.state().stored.get(&(log.clone(), number)).copied();
        Ok(stored.zip(self.clock.as_ref()).map(|(stored, clock)| StoreTimes { stored, now: clock.now() }))
    }

    async fn prove_put_if_absent(&self, _clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        // One lock is all there is: the second finds what the first put.
        Ok(PutIfAbsent::of(&[true, false], Some(0)))
    }
}
