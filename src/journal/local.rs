//! A journal in a local folder.
//!
//! A record appears under its name whole or not at all: it is written to a temporary file in the same folder, synced,
//! and given its name by a hard link, which fails where the name is taken. The folder is synced before a put returns,
//! and so is every folder above it when the log is new. Temporary files that a crash left behind are ignored.
//! Renaming would overwrite another writer's record, and creating the name directly would let a crash leave a torn
//! record that holds the number for ever. Source: `protocol.md`, "Journal".

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::codec;
use super::proof::{PutIfAbsent, RACERS};
use super::record::Record;
use super::{Journal, JournalError, LogKey, Put, StoreTimes};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::ids::{CatalogIdentity, PublicationId, TableUuid};

/// A journal in a local folder.
#[derive(Debug, Clone)]
pub struct LocalJournal {
    root: PathBuf,
    name: String,
}

impl LocalJournal {
    /// A journal in the folder `root`, which is made by the first record. The path is made absolute, with symbolic
    /// links resolved as far as it exists: markers name it, and one folder should have one name.
    pub fn open(root: PathBuf) -> Result<Self, JournalError> {
        let absolute = std::path::absolute(&root).map_err(|error| reading(&root, &error))?;
        let resolved = resolve(&absolute);
        let Some(name) = resolved.to_str().map(str::to_owned) else {
            let reason = "its path is not UTF-8, and candidates must be able to name it: choose another folder";
            let path = resolved.display().to_string();
            return Err(JournalError::Invalid { path, reason: reason.to_owned() });
        };
        Ok(Self { root: resolved, name })
    }

    fn folder(&self, log: &LogKey) -> PathBuf {
        self.root.join(codec::log_path(log))
    }

    fn put_now(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        let folder = self.folder(log);
        let path = folder.join(codec::record_name(record.number));
        let bytes = codec::encode(&path.display().to_string(), record)?;
        // Sending the same record again must not need space on the disk.
        if let Some(put) = self.read_back(&folder, &path, record)? {
            return Ok(put);
        }
        match record.number.checked_sub(1) {
            None | Some(0) => self.make_log(&folder)?,
            Some(before) if exists(&folder.join(codec::record_name(before)))? => {}
            Some(before) => {
                let reason = format!("there is no record {before}: read the log again");
                let path = folder.display().to_string();
                return Err(JournalError::Impossible { path, number: record.number, reason });
            }
        }
        let temporary = write_temporary(&folder, &record.id.simple().to_string(), &bytes)?;
        let linked = fs::hard_link(&temporary, &path);
        // A leftover does no harm, and is the lesser evil after the name was given.
        drop(fs::remove_file(&temporary));
        match linked {
            Ok(()) => {
                sync_folder(&folder)?;
                Ok(Put::Won)
            }
            // Network file systems may report a link that was made as failed: the name decides, whatever the error.
            Err(error) => match self.read_back(&folder, &path, record)? {
                Some(put) => Ok(put),
                None => Err(writing(&path, &error)),
            },
        }
    }

    /// Whose the number is, if anyone's.
    fn read_back(&self, folder: &Path, path: &Path, ours: &Record) -> Result<Option<Put>, JournalError> {
        let Some(bytes) = read_file(path)? else { return Ok(None) };
        match codec::decode(&path.display().to_string(), ours.number, &bytes) {
            Ok(there) if there.id == ours.id => {
                sync_folder(folder)?;
                Ok(Some(Put::Won))
            }
            Ok(_) | Err(JournalError::Newer { .. }) => Ok(Some(Put::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Makes the folder of a log, every folder on the way durable: a record in a folder that is lost is lost too.
    fn make_log(&self, folder: &Path) -> Result<(), JournalError> {
        make_folders(folder)?;
        // Another process may have made them a moment ago, and not have synced them yet.
        for above in folder.ancestors().skip(1) {
            sync_folder(above)?;
            if above == self.root {
                // The folder that holds the root may be one that this user cannot read, and then nobody here made it.
                above.parent().into_iter().for_each(|holding| drop(sync_folder(holding)));
                break;
            }
        }
        Ok(())
    }

    fn read_now(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        let folder = self.folder(log);
        let last = names_in(&folder)?.iter().filter_map(|name| codec::record_number(name)).max().unwrap_or(0);
        let mut records = Vec::new();
        // By number, not by the listing: a listing taken while others write may miss a record and show a later one.
        for number in 1..=u32::MAX {
            let path = folder.join(codec::record_name(number));
            match read_file(&path)? {
                Some(bytes) => records.push(codec::decode(&path.display().to_string(), number, &bytes)?),
                None if number > last => break,
                None => {
                    let reason = format!("it is missing, and there is a record {last}");
                    return Err(JournalError::Damaged { path: path.display().to_string(), reason });
                }
            }
        }
        Ok(records)
    }

    fn publications_now(
        &self,
        catalog: &CatalogIdentity,
        table: TableUuid,
    ) -> Result<Vec<PublicationId>, JournalError> {
        let folder = self.root.join(codec::segment(&catalog.0)).join(table.to_string());
        let mut found = Vec::new();
        for name in names_in(&folder)? {
            let Ok(id) = PublicationId::parse_any(&name) else { continue };
            // A folder without a record is what a crash before the first record leaves.
            if names_in(&folder.join(&name))?.iter().any(|name| codec::record_number(name).is_some()) {
                found.push(id);
            }
        }
        found.sort();
        Ok(found)
    }

    fn catalogs_now(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        let mut found = Vec::new();
        for name in names_in(&self.root)? {
            let Some(catalog) = codec::text_of_segment(&name).map(CatalogIdentity) else { continue };
            // Statements have a folder here too, and no table in it.
            if !self.tables_now(&catalog)?.is_empty() {
                found.push(catalog);
            }
        }
        found.sort();
        Ok(found)
    }

    fn tables_now(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        let mut found = Vec::new();
        for name in names_in(&self.root.join(codec::segment(&catalog.0)))? {
            let Ok(table) = Uuid::parse_str(&name).map(TableUuid) else { continue };
            if !self.publications_now(catalog, table)?.is_empty() {
                found.push(table);
            }
        }
        found.sort();
        Ok(found)
    }

    fn put_statement_now(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        let digest = Digest::of_bytes(bytes);
        let path = self.root.join(codec::statement_path(&digest));
        let location = path.display().to_string();
        let Some(folder) = path.parent() else {
            let reason = "it has no folder".to_owned();
            return Err(JournalError::Io { path: location, reason, unwritable: false });
        };
        self.make_log(folder)?;
        if read_file(&path)?.is_none_or(|there| there != bytes) {
            // Its name is its digest, so whatever is under it is either the same or damaged.
            let temporary = write_temporary(folder, &digest.hex(), bytes)?;
            if let Err(error) = fs::rename(&temporary, &path) {
                drop(fs::remove_file(&temporary));
                return Err(writing(&path, &error));
            }
        }
        sync_folder(folder)?;
        Ok((digest, location))
    }

    fn statement_now(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let path = self.root.join(codec::statement_path(digest));
        let Some(bytes) = read_file(&path)? else { return Ok(None) };
        verified(&path.display().to_string(), digest, bytes).map(Some)
    }

    /// Runs blocking work where it does not hold up other tasks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let journal = self.clone();
        match tokio::task::spawn_blocking(move || work(&journal)).await {
            Ok(result) => result,
            Err(error) => {
                Err(JournalError::Io { path: self.name.clone(), reason: error.to_string(), unwritable: false })
            }
        }
    }
}

#[async_trait]
impl Journal for LocalJournal {
    fn root(&self) -> String {
        self.name.clone()
    }

    async fn read(&self, log: &LogKey) -> Result<Vec<Record>, JournalError> {
        let log = log.clone();
        self.blocking(move |journal| journal.read_now(&log)).await
    }

    async fn holds(&self, log: &LogKey, number: u32, id: Uuid) -> Result<bool, JournalError> {
        let log = log.clone();
        self.blocking(move |journal| {
            let path = journal.folder(&log).join(codec::record_name(number));
            let Some(bytes) = read_file(&path)? else { return Ok(false) };
            Ok(codec::decode(&path.display().to_string(), number, &bytes)?.id == id)
        })
        .await
    }

    async fn put(&self, log: &LogKey, record: &Record) -> Result<Put, JournalError> {
        let (log, record) = (log.clone(), record.clone());
        self.blocking(move |journal| journal.put_now(&log, &record)).await
    }

    async fn publications(
        &self,
        catalog: &CatalogIdentity,
        table: TableUuid,
    ) -> Result<Vec<PublicationId>, JournalError> {
        let catalog = catalog.clone();
        self.blocking(move |journal| journal.publications_now(&catalog, table)).await
    }

    async fn catalogs(&self) -> Result<Vec<CatalogIdentity>, JournalError> {
        self.blocking(Self::catalogs_now).await
    }

    async fn tables(&self, catalog: &CatalogIdentity) -> Result<Vec<TableUuid>, JournalError> {
        let catalog = catalog.clone();
        self.blocking(move |journal| journal.tables_now(&catalog)).await
    }

    async fn put_statement(&self, bytes: &[u8]) -> Result<(Digest, String), JournalError> {
        let bytes = bytes.to_vec();
        self.blocking(move |journal| journal.put_statement_now(&bytes)).await
    }

    async fn statement(&self, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let digest = *digest;
        self.blocking(move |journal| journal.statement_now(&digest)).await
    }

    async fn times(&self, log: &LogKey, number: u32, clock: &dyn Clock) -> Result<Option<StoreTimes>, JournalError> {
        if clock.is_simulated() {
            return Ok(None);
        }
        let (log, id) = (log.clone(), clock.fresh_uuid());
        self.blocking(move |journal| {
            let path = journal.folder(&log).join(codec::record_name(number));
            let Some(stored) = modified(&path)? else { return Ok(None) };
            let folder = journal.root.join("probe");
            journal.make_log(&folder)?;
            // The file system dates it: on a shared one, the machine that serves it.
            let probe = write_temporary(&folder, &id.simple().to_string(), b"what time is it?")?;
            let now = modified(&probe);
            drop(fs::remove_file(&probe));
            Ok(now?.map(|now| StoreTimes { stored, now }))
        })
        .await
    }

    async fn prove_put_if_absent(&self, clock: &dyn Clock) -> Result<PutIfAbsent, JournalError> {
        let id = clock.fresh_uuid();
        let folder = self.root.join("probe");
        self.blocking({
            let folder = folder.clone();
            move |journal| journal.make_log(&folder)
        })
        .await?;
        let path = folder.join(id.to_string());
        let put = |writer: usize| {
            let (folder, path) = (folder.clone(), path.clone());
            self.blocking(move |_| race_for(&folder, &path, id, writer))
        };
        let racers = usize::try_from(RACERS).unwrap_or(usize::MAX);
        let mut results = futures::future::join_all((0..racers).map(put)).await;
        results.push(put(racers).await);
        let won: Vec<bool> = results.into_iter().collect::<Result<_, _>>()?;
        let there = self.blocking(move |_| {
            let there = read_file(&path);
            // Nothing refers to it, and what is left behind does no harm.
            drop(fs::remove_file(&path));
            drop(fs::remove_dir(&folder));
            there
        });
        let there = there.await?.and_then(|bytes| (0..won.len()).find(|at| PutIfAbsent::bytes(id, *at) == bytes));
        Ok(PutIfAbsent::of(&won, there))
    }
}

/// Gives a name as a record is given its name; `false` where another has it.
fn race_for(folder: &Path, path: &Path, id: Uuid, writer: usize) -> Result<bool, JournalError> {
    let temporary = write_temporary(folder, &id.simple().to_string(), &PutIfAbsent::bytes(id, writer))?;
    let linked = fs::hard_link(&temporary, path);
    drop(fs::remove_file(&temporary));
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(writing(path, &error)),
    }
}

/// The bytes, if they have the digest.
pub(super) fn verified(path: &str, digest: &Digest, bytes: Vec<u8>) -> Result<Vec<u8>, JournalError> {
    let found = Digest::of_bytes(&bytes);
    if found == *digest {
        return Ok(bytes);
    }
    let reason = format!("its bytes have the digest {found}");
    Err(JournalError::Damaged { path: path.to_owned(), reason })
}

/// Resolves symbolic links in the part of a path that exists.
fn resolve(absolute: &Path) -> PathBuf {
    for existing in absolute.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(existing), absolute.strip_prefix(existing)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    absolute.to_owned()
}

/// The names in a folder; none where the folder does not exist, or is not one.
fn names_in(folder: &Path) -> Result<Vec<String>, JournalError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(reading(folder, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| reading(folder, &error))?;
        names.extend(entry.file_name().into_string().ok());
    }
    Ok(names)
}

/// The bytes of a file; `None` where there is none.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, JournalError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reading(path, &error)),
    }
}

/// When a file was written; `None` where there is none, or the file system does not tell.
fn modified(path: &Path) -> Result<Option<DateTime<Utc>>, JournalError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.modified().ok().map(DateTime::<Utc>::from)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reading(path, &error)),
    }
}

fn exists(path: &Path) -> Result<bool, JournalError> {
    path.try_exists().map_err(|error| reading(path, &error))
}

/// Makes a folder and those above it, each durable in the one that holds it.
fn make_folders(folder: &Path) -> Result<(), JournalError> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(above) = folder.parent() else { return Ok(()) };
    make_folders(above)?;
    match fs::create_dir(folder) {
        Ok(()) => sync_folder(above),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(writing(folder, &error)),
    }
}

fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| writing(folder, &error))
}

/// Writes bytes durably to a file of a fresh name; the folder is not synced, so a crash may leave it or not.
fn write_temporary(folder: &Path, stem: &str, bytes: &[u8]) -> Result<PathBuf, JournalError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".{stem}-{}-{count}.tmp", std::process::id()));
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            // Left by an earlier process of the same number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(writing(&path, &error)),
        };
        if let Err(error) = file.write_all(bytes).and_then(|()| file.sync_all()) {
            drop(fs::remove_file(&path));
            return Err(writing(&path, &error));
        }
        return Ok(path);
    }
}

fn reading(path: &Path, error: &io::Error) -> JournalError {
    JournalError::Io { path: path.display().to_string(), reason: error.to_string(), unwritable: false }
}

pub(super) fn writing(path: &Path, error: &io::Error) -> JournalError {
    if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) {
        return JournalError::ReadOnly { path: path.display().to_string(), reason: error.to_string() };
    }
    let unwritable =
        matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
    let reason = match error.kind() {
        ErrorKind::Unsupported => format!("{error}; a journal needs a file system with hard links"),
        _ => error.to_string(),
    };
    JournalError::Io { path: path.display().to_string(), reason, unwritable }
}
