use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::clock::ManualClock;
use crate::data::DataError;
use crate::store::testkit::{Fault, S3Double, SECRET};

fn properties(double: &S3Double) -> Properties {
    double.properties().into_iter().collect()
}

fn file_io(double: &S3Double, vended: Vended, source: Option<Arc<dyn Vend>>, clock: Arc<dyn Clock>) -> FileIO {
    table_file_io(&properties(double), vended, source, clock).unwrap()
}

fn plain(double: &S3Double) -> FileIO {
    file_io(double, Vended::default(), None, Arc::new(ManualClock::starting_now(1)))
}

fn kind(error: &iceberg::Error) -> StorageErrorKind {
    StorageError::within(error).unwrap_or_else(|| panic!("{error:?}")).kind
}

fn credential(prefix: &str, key: &str) -> Credential {
    let properties = [("s3.access-key-id", key), ("s3.secret-access-key", SECRET)].into_iter().collect();
    Credential { prefix: prefix.to_owned(), properties }
}

#[tokio::test]
async fn files_are_written_and_read_back() {
    let double = S3Double::start().await;
    let io = plain(&double);
    let location = "s3a://lake/t/data/flight date=2013-08-09/a%20b é.bin";
    let mut writer = io.new_output(location).unwrap().writer().await.unwrap();
    writer.write(Bytes::from_static(b"hello ")).await.unwrap();
    writer.write(Bytes::from_static(b"world")).await.unwrap();
    writer.close().await.unwrap();
    assert!(writer.close().await.is_err());
    // The key is what is written, letter by letter.
    assert!(double.state().objects.contains_key("t/data/flight date=2013-08-09/a%20b é.bin"));
    let input = io.new_input(location).unwrap();
    assert_eq!(input.read().await.unwrap(), "hello world");
    assert_eq!(input.metadata().await.unwrap().size, 11);
    let reader = input.reader().await.unwrap();
    assert_eq!(reader.read(6..11).await.unwrap(), "world");
    assert!(reader.read(6..12).await.is_err());
    assert!(reader.read(u64::MAX - 1..u64::MAX).await.is_err());
    assert_eq!(reader.read(3..3).await.unwrap(), "");
    io.delete(location).await.unwrap();
    assert!(!input.exists().await.unwrap());
}

#[tokio::test]
async fn a_name_is_never_overwritten_and_a_lost_answer_is_no_refusal() {
    let double = S3Double::start().await;
    let io = plain(&double);
    let location = "s3://lake/t/metadata/m.avro";
    // Sent again by the transport, and refused the second time.
    double.fail("PUT", "m.avro", Fault::AnswerAfter(503, "<Error><Code>SlowDown</Code></Error>"));
    io.new_output(location).unwrap().write(Bytes::from_static(b"one")).await.unwrap();
    assert_eq!(double.count("PUT", "m.avro"), 2);
    let error = io.new_output(location).unwrap().write(Bytes::from_static(b"two")).await.unwrap_err();
    assert_eq!(kind(&error), StorageErrorKind::Exists);
    let error = io.new_output(location).unwrap().writer().await.err().unwrap();
    assert_eq!(kind(&error), StorageErrorKind::Exists);
    assert_eq!(double.state().objects["t/metadata/m.avro"], b"one");
}

#[tokio::test]
async fn errors_have_the_classes_of_local_files_and_no_secret() {
    let double = S3Double::start().await;
    let io = plain(&double);
    for (status, code, expected) in [
        (404, "NoSuchKey", StorageErrorKind::Missing),
        (404, "NoSuchBucket", StorageErrorKind::Configuration),
        (403, "AccessDenied", StorageErrorKind::ReadOnly),
        (403, "SignatureDoesNotMatch", StorageErrorKind::Key),
        (403, "InvalidAccessKeyId", StorageErrorKind::Key),
        (507, "XMinioStorageFull", StorageErrorKind::Full),
        (400, "Odd", StorageErrorKind::Other),
    ] {
        let body: &'static str = format!("<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>").leak();
        double.fail("GET", "x.bin", Fault::Answer(status, body));
        let error = io.new_input("s3://lake/x.bin").unwrap().read().await.unwrap_err();
        assert_eq!(kind(&error), expected, "{code}");
        let shown = format!("{error} {error:?} {io:?}");
        assert!(shown.contains("s3://lake/x.bin") && shown.contains(code), "{shown}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_wrong_key_and_a_missing_property_are_the_users_to_mend() {
    let of = |kind| {
        let error: iceberg::Error = failed("read", "s3://lake/x", kind, "why".to_owned()).into();
        let refused = crate::coordinator::Error::Data(DataError::from_iceberg("s3://lake/x", &error));
        (refused.exit_code(), refused.to_string())
    };
    assert_eq!(of(StorageErrorKind::Key), (13, "s3://lake/x: cannot read it: why".to_owned()));
    assert_eq!(of(StorageErrorKind::Configuration), (2, "s3://lake/x: cannot read it: why".to_owned()));
}

#[tokio::test]
async fn storage_that_cannot_be_reached_is_named() {
    let io = plain(&S3Double::start().await);
    for (location, kind) in [
        ("hdfs://host/w/t/x", StorageErrorKind::Unsupported),
        ("oss://b/x", StorageErrorKind::Unsupported),
        ("s3://lake", StorageErrorKind::Other),
        ("abfss://nobody/x", StorageErrorKind::Other),
    ] {
        let error = io.new_input(location).unwrap().read().await.unwrap_err();
        let refused = DataError::from_iceberg(location, &error);
        assert_eq!(
            matches!(refused, DataError::Unsupported { .. }),
            kind == StorageErrorKind::Unsupported,
            "{refused}"
        );
        let error = StorageError::within(&error).unwrap();
        assert_eq!((error.kind, error.path.as_str()), (kind, location), "{error}");
    }
    let error = io.new_input("hdfs://host/x").unwrap().read().await.unwrap_err().to_string();
    assert!(error.contains("storage that calve cannot reach (hdfs:)"), "{error}");
}

#[tokio::test]
async fn local_files_stay_local() {
    let folder = tempfile::tempdir().unwrap();
    let io = plain(&S3Double::start().await);
    for path in [format!("{}/a", folder.path().display()), format!("file://{}/b", folder.path().display())] {
        io.new_output(&path).unwrap().write(Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(io.new_input(&path).unwrap().read().await.unwrap(), "x");
    }
}

#[tokio::test]
async fn the_longest_prefix_wins() {
    let double = S3Double::start().await;
    let vended = Vended {
        credentials: vec![
            credential("s3://lake/t", "table"),
            credential("s3://lake/t/data", "data"),
            credential("s3a://other", "o"),
        ],
        expires: None,
    };
    let io = file_io(&double, vended, None, Arc::new(ManualClock::starting_now(1)));
    for (location, who) in [
        ("s3://lake/t/metadata/m", "table"),
        ("s3a://lake/t/data/d", "data"),
        ("s3://other/x", "o"),
        ("s3://lake/elsewhere", "test-key"),
    ] {
        io.new_output(location).unwrap().write(Bytes::from_static(b"x")).await.unwrap();
        let seen = double.state().seen.last().unwrap().clone();
        assert_eq!(seen.2, who, "{location}: {seen:?}");
    }
}

#[derive(Debug)]
struct Vendor {
    clock: Arc<ManualClock>,
    asked: AtomicU32,
    fails: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Vend for Vendor {
    async fn vend(&self) -> Result<Vended, CatalogError> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        // Others get to wait.
        tokio::task::yield_now().await;
        if self.fails.load(Ordering::SeqCst) {
            return Err(CatalogError::Unavailable { what: "vend".to_owned(), reason: "down".to_owned() });
        }
        Ok(Vended {
            credentials: vec![credential("", &format!("vended-{asked}"))],
            expires: Some(self.clock.now() + Duration::hours(1)),
        })
    }
}

#[tokio::test]
async fn credentials_are_fetched_again_before_they_expire_and_once() {
    let double = S3Double::start().await;
    let clock = Arc::new(ManualClock::starting_now(1));
    let vendor = Arc::new(Vendor { clock: clock.clone(), asked: AtomicU32::new(0), fails: false.into() });
    let first = Vended { credentials: vec![credential("", "first")], expires: Some(clock.now() + Duration::hours(1)) };
    let io = file_io(&double, first, Some(vendor.clone()), clock.clone());
    drop(double.state().objects.insert("x".to_owned(), b"hello".to_vec()));
    let reader = io.new_input("s3://lake/x").unwrap().reader().await.unwrap();
    let who = || double.state().seen.last().unwrap().2.clone();
    let minutes = |minutes: i64| clock.advance_ms(minutes * 60_000);
    drop(reader.read(0..5).await.unwrap());
    minutes(54);
    drop(reader.read(0..5).await.unwrap());
    assert_eq!((who().as_str(), vendor.asked.load(Ordering::SeqCst)), ("first", 0));
    // Within the margin: a reader that was opened long ago changes over, and all who ask at once ask once.
    minutes(1);
    for read in futures::future::join_all((0..8).map(|_| reader.read(0..5))).await {
        drop(read.unwrap());
    }
    assert_eq!((who().as_str(), vendor.asked.load(Ordering::SeqCst)), ("vended-1", 1));
    // A writer that began long ago signs with what holds now.
    let mut writer = io.new_output("s3://lake/slow").unwrap().writer().await.unwrap();
    writer.write(Bytes::from_static(b"x")).await.unwrap();
    minutes(56);
    writer.close().await.unwrap();
    assert_eq!((who().as_str(), vendor.asked.load(Ordering::SeqCst)), ("vended-2", 2));
    // The catalog fails: what is at hand serves as long as it holds, and the catalog is not asked at each read.
    vendor.fails.store(true, Ordering::SeqCst);
    minutes(56);
    for _ in 0..3 {
        drop(reader.read(0..5).await.unwrap());
    }
    assert_eq!((who().as_str(), vendor.asked.load(Ordering::SeqCst)), ("vended-2", 3));
    minutes(4);
    let error = reader.read(0..5).await.unwrap_err();
    assert!(error.to_string().contains("have expired") && error.to_string().contains("down"), "{error}");
}
