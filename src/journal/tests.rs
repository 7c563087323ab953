//! The suite over every journal, and what only a folder can fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;

use super::codec;
use super::conformance::{self, EACH, Subject, ann, attempts, check_race, clock, key, record, reply, write};
use super::local::LocalJournal;
use super::log::{Appended, Log};
use super::memory::{FailPut, MemoryJournal};
use super::{Journal, JournalError, LogKey, Put};
use crate::digest::Digest;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("not/yet there")
    }

    fn log(&self, log: &LogKey) -> PathBuf {
        self.root().join(codec::log_path(log))
    }
}

#[async_trait]
impl Subject for Folder {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(LocalJournal::open(self.root()).unwrap())
    }

    async fn plant(&self, log: &LogKey, number: u32, bytes: &[u8]) {
        std::fs::create_dir_all(self.log(log)).unwrap();
        std::fs::write(self.log(log).join(codec::record_name(number)), bytes).unwrap();
    }

    async fn plant_statement(&self, digest: &Digest, bytes: &[u8]) {
        std::fs::write(self.root().join(codec::statement_path(digest)), bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_does_all_that_a_journal_must() {
    conformance::run(|| async { Folder::new() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_all_that_a_journal_must() {
    conformance::run(|| async { MemoryJournal::new() }).await;
}

// Processes.

const ROOT: &str = "CALVE_TEST_JOURNAL";
const WRITER: &str = "CALVE_TEST_WRITER";

/// Ends with the test, also where that fails.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn child(test: &str, root: &Path, writer: u64) -> Child {
    let command = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test])
        .env(ROOT, root)
        .env(WRITER, writer.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Child(command.unwrap())
}

fn child_setting() -> Option<(Arc<dyn Journal>, u64)> {
    let (root, writer) = (std::env::var(ROOT).ok()?, std::env::var(WRITER).ok()?);
    Some((Arc::new(LocalJournal::open(root.into()).unwrap()), writer.parse().unwrap()))
}

#[tokio::test]
#[ignore = "the child process of processes_race_for_numbers"]
async fn child_writes() {
    let Some((journal, writer)) = child_setting() else { return };
    write(journal, writer, EACH).await;
}

#[tokio::test]
#[ignore = "the child process of a_killed_writer_leaves_no_torn_record; writes until it is killed"]
async fn child_writes_for_ever() {
    let Some((journal, writer)) = child_setting() else { return };
    write(journal, writer, 100_000).await;
}

#[tokio::test]
async fn processes_race_for_numbers() {
    let folder = Folder::new();
    let children: Vec<_> = (0..4).map(|writer| child("journal::tests::child_writes", &folder.root(), writer)).collect();
    for mut child in children {
        assert!(child.0.wait().unwrap().success());
    }
    check_race(&folder.journal().read(&key("race")).await.unwrap(), 4, EACH);
}

#[tokio::test]
async fn a_killed_writer_leaves_no_torn_record() {
    let folder = Folder::new();
    let journal = folder.journal();
    let mut known = 0;
    for round in 0..5u64 {
        let mut child = child("journal::tests::child_writes_for_ever", &folder.root(), round);
        // Reads go on beside the writer; it is killed wherever it happens to be once it has got on a little.
        loop {
            let now = journal.read(&key("race")).await.unwrap().len();
            assert!(now >= known);
            if now > known + 3 || child.0.try_wait().unwrap().is_some() {
                known = now;
                break;
            }
            tokio::task::yield_now().await;
        }
        child.0.kill().unwrap();
        assert!(!child.0.wait().unwrap().success());
        let read = journal.read(&key("race")).await.unwrap();
        assert!(read.len() >= known && known > 0);
        known = read.len();
    }
    // And the log goes on.
    let mut log = Log::open(journal, key("race")).await.unwrap();
    assert_eq!(log.append(reply(1), &clock(1), &ann()).await.unwrap(), Appended::Won);
}

// Folders.

#[tokio::test]
async fn leftovers_are_ignored_and_nothing_else_is_left() {
    let folder = Folder::new();
    let (journal, clock) = (folder.journal(), clock(1));
    // A crash before the first record leaves a folder and a torn temporary file.
    std::fs::create_dir_all(folder.log(&key("p"))).unwrap();
    std::fs::write(folder.log(&key("p")).join(".0-1-0.tmp"), b"{\"form").unwrap();
    assert!(journal.read(&key("p")).await.unwrap().is_empty());
    assert!(journal.publications(&key("p").catalog, key("p").table).await.unwrap().is_empty());
    assert!(journal.tables(&key("p").catalog).await.unwrap().is_empty());
    for number in 1..=3 {
        assert_eq!(journal.put(&key("p"), &record(number, &clock)).await.unwrap(), Put::Won);
    }
    assert_eq!(journal.put(&key("p"), &record(2, &clock)).await.unwrap(), Put::Taken);
    assert_eq!(journal.read(&key("p")).await.unwrap().len(), 3);
    assert_eq!(std::fs::read_dir(folder.log(&key("p"))).unwrap().count(), 4);
    // Each is one line, whole.
    let text = std::fs::read_to_string(folder.log(&key("p")).join("00000001.json")).unwrap();
    assert_eq!((text.lines().count(), text.ends_with('\n')), (1, true));
    // No name leads out of the root.
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_journal_has_one_name() {
    let folder = Folder::new();
    std::os::unix::fs::symlink(folder.0.path(), folder.0.path().join("link")).unwrap();
    let other = LocalJournal::open(folder.0.path().join("link/not/yet there")).unwrap();
    assert_eq!(other.root(), folder.journal().root());
    assert_eq!(other.put(&key("p"), &record(1, &clock(1))).await.unwrap(), Put::Won);
    assert_eq!(folder.journal().read(&key("p")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unwritable_journal_says_so() {
    // Works for root as well, whom permissions do not stop: the store's own folder is a file, or the disk is full.
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("not"), b"").unwrap();
    assert!(matches!(folder.journal().put(&key("p"), &record(1, &clock(1))).await, Err(JournalError::Io { .. })));
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull, TimedOut};
    let of = |kind: std::io::ErrorKind| super::local::writing(Path::new("/j"), &kind.into());
    for (kind, expected) in [(StorageFull, true), (TimedOut, false)] {
        let error = of(kind);
        assert!(matches!(error, JournalError::Io { unwritable, .. } if unwritable == expected), "{error:?}");
    }
    for kind in [ReadOnlyFilesystem, PermissionDenied] {
        assert!(matches!(of(kind), JournalError::ReadOnly { .. }), "{kind:?}");
    }
}

// Failures.

#[tokio::test]
async fn a_failed_put_is_decided_by_the_records_id() {
    let (journal, clock) = (MemoryJournal::new(), clock(1));
    let mut log = Log::open(Arc::new(journal.clone()), key("p")).await.unwrap();
    // Stored, and the answer lost: found to be ours, not appended twice.
    journal.fail_next_puts(1, FailPut::AfterApplying);
    assert_eq!(log.append(reply(1), &clock, &ann()).await.unwrap(), Appended::Won);
    // Not stored: stored by the second try.
    journal.fail_next_puts(1, FailPut::Before);
    assert_eq!(log.append(reply(2), &clock, &ann()).await.unwrap(), Appended::Won);
    assert_eq!(attempts(&journal.read(&key("p")).await.unwrap()), [1, 2]);
    // Twice: not known, an error; whoever reads sees which.
    journal.fail_next_puts(2, FailPut::AfterApplying);
    assert!(matches!(log.append(reply(3), &clock, &ann()).await, Err(JournalError::Io { unwritable: false, .. })));
    assert_eq!(attempts(&journal.read(&key("p")).await.unwrap()), [1, 2, 3]);
    assert_eq!(log.append(reply(4), &clock, &ann()).await.unwrap(), Appended::Behind);
    journal.fail_next_puts(2, FailPut::Before);
    assert!(matches!(log.append(reply(4), &clock, &ann()).await, Err(JournalError::Io { unwritable: true, .. })));
    assert_eq!(attempts(log.records()), [1, 2, 3]);
    journal.fail_next_puts(1, FailPut::Before);
    assert!(journal.put_statement(b"{}").await.is_err());
    assert!(journal.statement(&Digest::of_bytes(b"{}")).await.unwrap().is_none());
}

#[tokio::test]
async fn memory_is_lost_and_restored() {
    let (journal, clock) = (MemoryJournal::new(), clock(1));
    let mut log = Log::open(Arc::new(journal.clone()), key("p")).await.unwrap();
    log.append_always(reply(1), &clock, &ann()).await.unwrap();
    let backup = journal.snapshot();
    log.append_always(reply(2), &clock, &ann()).await.unwrap();
    journal.restore(&backup);
    assert_eq!(attempts(&journal.read(&key("p")).await.unwrap()), [1]);
    // A writer that knows more than the store does not go on.
    assert!(matches!(log.append(reply(3), &clock, &ann()).await, Err(JournalError::Damaged { .. })));
    journal.forget();
    assert!(journal.read(&key("p")).await.unwrap().is_empty());
}
