//! A journal on an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure Data Lake Storage.
//!
//! A record is put on the condition that its name is free. Whatever comes back but a plain yes, the name is read: a
//! record there that bears our id is ours, however often the request was sent and whichever answer was lost. So
//! requests that failed are sent again here and not by the transport, which would take its own success for another's.
//!
//! Some stores ignore the condition, and some check it without excluding a writer that comes at the same moment. A
//! journal there would lose records in silence, so the store is tried before the first record is put through a
//! journal: `<root>/probe/put-if-absent` is put twice and must stay as it was first. Where it is not there yet, a race
//! of several writers under another name comes before. The one object is kept, for the next process to be refused by:
//! that takes two requests instead of twelve.
//!
//! S3 is tested on a store that runs beside the tests, and Google's store on an emulator of it. Azure Data Lake Storage is
//! built from the same parts and is **not tested**. Source: `protocol.md`, "Journal".

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, future, stream};
use opendal::ErrorKind;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::codec;
use super::local::verified;
use super::proof::{PutIfAbsent, RACERS};
use super::record::Record;
use super::{Journal, JournalError, LogKey, Put, StoreTimes};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, PublicationId, TableUuid};
use crate::store::{Bucket, Failure, FailureKind, Location, Redactor, Retries, connect};

/// How often a put is tried while its outcome is unclear, and how long after the first failure; twice as long after
/// each further one.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Requests under way at once while a log or a folder is read.
const AT_ONCE: usize = 8;

/// The object that shows that the store was tried, under the root.
const TRIED: &str = "probe/put-if-absent";

/// A journal on an object store. Clones share what was found out about the store.
#[derive(Clone)]
pub struct ObjectJournal {
    root: String,
    prefix: String,
    reads: Bucket,
    puts: Bucket,
    redactor: Redactor,
    tried: Arc<OnceCell<()>>,
}

impl fmt::Debug for ObjectJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The operators hold credentials.
        f.debug_struct("ObjectJournal").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Is this the URI of an object store, not a path?
pub fn is_object_store(root: &str) -> bool {
    crate::store::scheme_of(root).is_some_and(|scheme| scheme != "file")
}

/// Opens the journal under a URI, with Iceberg's storage properties (`s3.endpoint`, …) by name and value; what they do
/// not say comes from the environment, the profile or the machine's role. Asks the store whether it can be listed there,
/// so that a wrong bucket or key is known at once.
///
/// The root is normalised, because markers name it: `s3a:` and `s3n:` are `s3:`, and it has no trailing slash.
pub async fn open(root: &str, properties: &[(String, String)]) -> Result<ObjectJournal, JournalError> {
    let invalid = |path: &str, reason: String| JournalError::Invalid { path: path.to_owned(), reason };
    let remedy =
        "use s3://bucket/path, gs://bucket/path, abfss://container@account.dfs.core.windows.net/path or a folder";
    let trimmed = root.trim_end_matches('/');
    // What cannot be taken apart may hold a password; it is shown without.
    let shown = trimmed.rsplit_once('@').map_or(trimmed, |(_, after)| after);
    let location = Location::parse(trimmed).map_err(|error| invalid(shown, format!("{error}: {remedy}")))?;
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if !location.key.is_empty() && (location.key.split('/').any(odd) || location.key.contains(['?', '#', '\n'])) {
        let reason = "its path has an empty part, a dot for a part, or one of ? and #: choose another path";
        return Err(invalid(&location.to_string(), reason.to_owned()));
    }
    let root = location.to_string();
    let redactor = Redactor::of(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let property = |name: &str| {
        let found = properties.iter().rev().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    let operator = |retries| {
        connect(&location, &property, retries).map_err(|error| {
            let reason = redactor.failure(&error).reason;
            invalid(&root, format!("{reason}; see the storage properties (s3.region, s3.endpoint, …)"))
        })
    };
    let (reads, puts) = (operator(Retries::Transport)?, operator(Retries::None)?);
    let prefix = if location.key.is_empty() { String::new() } else { format!("{}/", location.key) };
    let journal = ObjectJournal { root, prefix, reads, puts, redactor, tried: Arc::default() };
    drop(journal.names("probe/").await?);
    Ok(journal)
}

impl ObjectJournal {
    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Where a path under the root is, for messages and statements.
    fn location(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    fn error(&self, path: &str, failure: Failure) -> JournalError {
        let path = self.location(path);
        let reason = failure.reason;
        match failure.kind {
            FailureKind::Forbidden => JournalError::ReadOnly { path, reason },
            FailureKind::Key => JournalError::Forbidden { path, reason },
            FailureKind::Full => JournalError::Io { path, reason, unwritable: true },
            FailureKind::Configuration => {
                let reason = format!("{reason}; make the bucket, or see the journal's URI and the storage properties");
                JournalError::Invalid { path, reason }
            }
            FailureKind::Missing | FailureKind::Exists | FailureKind::Unclear | FailureKind::Other => {
                JournalError::Io { path, reason, unwritable: false }
            }
        }
    }

    fn failed(&self, path: &str, error: &opendal::Error) -> JournalError {
        self.error(path, self.redactor.failure(error))
    }

    /// The bytes of an object; `None` where there is none.
    async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, JournalError> {
        match self.reads.operator().read(&self.key(path)).await {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(path, &error)),
        }
    }

    /// When an object was stored; `None` where there is none, or the store does not tell.
    async fn modified(&self, path: &str) -> Result<Option<DateTime<Utc>>, JournalError> {
        match self.reads.operator().stat(&self.key(path)).await {
            Ok(found) => Ok(found.last_modified().map(|at| DateTime::<Utc>::from(SystemTime::from(at)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(path, &error)),
        }
    }

    /// The names right under a path that ends in a slash; those of folders end in one too.
    async fn names(&self, path: &str) -> Result<Vec<String>, JournalError> {
        let key = self.key(path);
        let failed = |error: &opendal::Error| self.failed(path, error);
        let entries = match self.reads.operator().list(&key).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        let names = entries.iter().filter_map(|entry| entry.path().strip_prefix(&key));
        Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Puts bytes under a name if it is free, once. `false`: the store says that it is not.
    async fn put_once(&self, path: &str, bytes: Vec<u8>) -> Result<bool, Failure> {
        let (operator, name) = self.puts.to_write(&self.key(path)).map_err(|error| self.redactor.failure(&error))?;
        match operator.write_with(&name, bytes).if_not_exists(true).await {
            Ok(_) => Ok(true),
            Err(error) => match self.redactor.failure(&error) {
                Failure { kind: FailureKind::Exists, .. } => Ok(false),
                failure => Err(failure),
            },
        }
    }

    /// Puts bytes under a name, whatever is there.
    async fn overwrite(&self, path: &str, bytes: &[u8]) -> Result<(), JournalError> {
        let failed = |error: opendal::Error| self.failed(path, &error);
        let (operator, name) = self.reads.to_write(&self.key(path)).map_err(failed)?;
        operator.write(&name, bytes.to_vec()).await.map(drop).map_err(failed)
    }

    async fn put_record(&self, path: &str, record: &Record, bytes: &[u8]) -> Result<Put, JournalError> {
        let mut wait = FIRST_WAIT;
        for left in (0..TRIES).rev() {
            let put = self.put_once(path, bytes.to_vec()).await;
            if put == Ok(true) {
                return Ok(Put::Won);
            }
            // Refused, or unclear: the name decides, whatever was answered.
            let there = self.get(path).await;
            let failure = match (there, put) {
                (Ok(Some(there)), _) => return self.whose(path, record, &there),
                (_, Err(failure)) => failure,
                (Err(error), Ok(_)) if left == 0 => return Err(error),
                // A store may say that another writer is just at it.
                (Err(_) | Ok(None), Ok(_)) => Failure {
                    kind: FailureKind::Unclear,
                    reason: "the store refuses the name as taken, and shows nothing there".to_owned(),
                },
            };
            if left == 0 || failure.kind != FailureKind::Unclear {
                return Err(self.error(path, failure));
            }
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2);
        }
        let reason = "it was not tried".to_owned();
        Err(JournalError::Io { path: self.location(path), reason, unwritable: false })
    }

    /// Whose the number is.
    fn whose(&self, path: &str, ours: &Record, there: &[u8]) -> Result<Put, JournalError> {
        match codec::decode(&self.location(path), ours.number, there) {
            Ok(there) if there.id == ours.id => Ok(Put::Won),
            Ok(_) | Err(JournalError::Newer { .. }) => Ok(Put::Taken),
            Err(error) => Err(error),
        }
    }

    /// Tries the store, once for this journal and its clones. `fresh` names what is written for it.
    async fn try_store(&self, fresh: Uuid) -> Result<(), JournalError> {
        let tried = self.tried.get_or_try_init(|| async {
            let known = self.get(TRIED).await?;
            if known.is_none() && !self.race(fresh).await?.holds() {
                return Err(self.no_journal("of several writers to one name, not exactly one wins and stays"));
            }
            // The first may find the name free; the second never.
            let mut refused = false;
            for writer in 0..2 {
                let mine = PutIfAbsent::bytes(fresh, writer);
                let won = self.put_once(TRIED, mine.clone()).await.map_err(|failure| self.error(TRIED, failure))?;
                if won {
                    continue;
                }
                let there = self.get(TRIED).await?;
                let ours = there.as_ref() == Some(&mine);
                // A store that repeats a request by itself calls our own success another's. Whether it overwrites, the
                // second writer shows.
                if ours && writer == 0 && known.is_none() {
                    continue;
                }
                if ours || there.is_none() {
                    return Err(self.no_journal("it says that a name is taken, and overwrites what is there"));
                }
                refused = true;
                break;
            }
            if refused { Ok(()) } else { Err(self.no_journal("a put to a taken name is not refused")) }
        });
        tried.await.copied()
    }

    /// Puts bytes under a path of the root, whatever was there: damage, for tests.
    #[cfg(feature = "testing")]
    pub async fn plant(&self, path: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.overwrite(path, bytes).await
    }

    fn no_journal(&self, seen: &str) -> JournalError {
        let reason = format!(
            "this store does not put an object only where none is (If-None-Match: *): {seen}, so records would be lost; \
             keep the journal on a store that does, or in a folder that all who publish share"
        );
        JournalError::Invalid { path: self.root.clone(), reason }
    }

    async fn race(&self, id: Uuid) -> Result<PutIfAbsent, JournalError> {
        let path = format!("probe/{id}");
        let put = |writer: usize| self.put_once(&path, PutIfAbsent::bytes(id, writer));
        let racers = usize::try_from(RACERS).unwrap_or(usize::MAX);
        let mut results = future::join_all((0..racers).map(put)).await;
        results.push(put(racers).await);
        let there = self.get(&path).await;
        // Nothing refers to it, and what is left behind does no harm.
        drop(self.puts.operator().delete(&self.key(&path)).await);
        let won: Vec<bool> =
            results.into_iter().collect::<Result<_, _>>().map_err(|failure| self.error(&path, failure))?;
        let there = there?.and_then(|there| (0..won.len()).find(|writer| PutIfAbsent::bytes(id, *writer) == there));
        Ok(PutIfAbsent::of(&won, there))
    }
}

#[async_trait]
impl Journal for ObjectJournal {
    fn root(&self) -> String {
        self.root.clone()
    }

    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        let folder = &codec::log_path(log);
        let names = self.names(&format!("{folder}/")).await?;
        let last = names.iter().filter_map(|name| codec::record_number(name)).max().unwrap_or(0);
        let get = |number: u32| {
            let path = format!("{folder}/{}", codec::record_name(number));
            async move {
                let bytes = self.get(&path).await?;
                bytes.map(|bytes| codec::decode(&self.location(&path), number, &bytes)).transpose()
            }
        };
        let listed = |number: u32| async move {
            get(number).await?.ok_or_else(|| {
                let path = self.location(&format!("{folder}/{}", codec::record_name(number)));
                JournalError::Damaged { path, reason: format!("it is missing, and there is a record {last}") }
            })
        };
        let mut records: Vec<_> = stream::iter(1..=last).map(listed).buffered(AT_ONCE).try_collect().await?;
        // Those put while this was read belong to it: a writer that was refused a number must see who has it.
        let mut next = last.checked_add(1);
        while let Some(number) = next {
            let Some(record) = get(number).await? else { break };
            records.push(record);
            next = number.checked_add(1);
        }
        Ok(records)
    }

    async fn holds(&self, log: &LogKey, number: u32, id: Uuid) -> Result<bool, JournalError> {
        let path = format!("{}/{}", codec::log_path(log), codec::record_name(number));
        let Some(bytes) = self.get(&path).await? else { return Ok(false) };
        Ok(codec::decode(&self.location(&path), number, &bytes)?.id == id)
    }

    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        let folder = codec::log_path(log);
        let path = format!("{folder}/{}", codec::record_name(record.number));
        let bytes = codec::encode(&self.location(&path), record)?;
        self.try_store(record.id).await?;
        if let Some(before @ 1..) = record.number.checked_sub(1) {
            let earlier = format!("{folder}/{}", codec::record_name(before));
            if !self
                .reads
                .operator()
                .exists(&self.key(&earlier))
                .await
                .map_err(|error| self.failed(&earlier, &error))?
            {
                let reason = format!("there is no record {before}: read the log again");
                return Err(JournalError::Impossible { path: self.location(&folder), number: record.number, reason });
            }
        }
        self.put_record(&path, record, &bytes).await
    }

    async fn publications(
        &self,
        catalog: &CatalogIdentity,
        table: TableUuid,
    ) -> Result<Vec<PublicationId>, JournalError> {
        let folder = format!("{}/{table}", codec::segment(&catalog.0));
        let names = self.names(&format!("{folder}/")).await?;
        let parse = |name: &String| PublicationId::parse_any(name.strip_suffix('/')?).ok();
        let ids: Vec<_> = names.iter().filter_map(parse).collect();
        let has_records = |id: PublicationId| {
            let log = format!("{folder}/{}/", codec::segment(&id.to_string()));
            // Some stores keep a folder after its objects are gone.
            async move {
                let names = self.names(&log).await?;
                Ok(names.iter().any(|name| codec::record_number(name).is_some()).then_some(id))
            }
        };
        let found: Vec<_> = stream::iter(ids).map(has_records).buffered(AT_ONCE).try_collect().await?;
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort();
        Ok(found)
    }

    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        let mut found = Vec::new();
        for name in self.names("").await? {
            let segment = name.strip_suffix('/').and_then(codec::text_of_segment);
            let Some(catalog) = segment.map(CatalogIdentity) else { continue };
            // Statements have a folder here too, and no table in it.
            if !self.tables(&catalog).await?.is_empty() {
                found.push(catalog);
            }
        }
        found.sort();
        Ok(found)
    }

    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        let mut found = Vec::new();
        for name in self.names(&format!("{}/", codec::segment(&catalog.0))).await? {
            let Ok(table) = Uuid::parse_str(name.trim_end_matches('/')).map(TableUuid) else { continue };
            if !self.publications(catalog, table).await?.is_empty() {
                found.push(table);
            }
        }
        found.sort();
        Ok(found)
    }

    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        let digest = Digest::of_bytes(bytes);
        let path = codec::statement_path(&digest);
        // Its name is its digest, so whatever is under it is either the same or damaged, and may be put again.
        if self.get(&path).await?.is_none_or(|there| there != bytes) {
            self.overwrite(&path, bytes).await?;
        }
        Ok((digest, self.location(&path)))
    }

    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let path = codec::statement_path(digest);
        let Some(bytes) = self.get(&path).await? else { return Ok(None) };
        verified(&self.location(&path), digest, bytes).map(Some)
    }

    async fn times(&self, log: &LogKey, number: u32, clock: &dyn Clock) -> Result<Option<StoreTimes>, JournalError> {
        if clock.is_simulated() {
            return Ok(None);
        }
        let path = format!("{}/{}", codec::log_path(log), codec::record_name(number));
        let Some(stored) = self.modified(&path).await? else { return Ok(None) };
        let probe = format!("probe/{}", clock.fresh_uuid());
        self.overwrite(&probe, b"what time is it?").await?;
        let now = self.modified(&probe).await;
        // Nothing refers to it, and what is left behind does no harm.
        drop(self.puts.operator().delete(&self.key(&probe)).await);
        Ok(now?.map(|now| StoreTimes { stored, now }))
    }

    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        self.race(clock.fresh_uuid()).await
    }
}

#[cfg(test)]
mod tests;
