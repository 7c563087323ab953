use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use futures::future;
use iceberg::spec::FormatVersion;

use super::*;
use crate::catalog::conformance::{self, Subject, empty_snapshot, require, set, small_table};
use crate::clock::{ManualClock, SystemClock};
use crate::ids::{RefName, SnapshotId};
use crate::observed::RefKind;

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::starting_now(7))
}

fn orders() -> TableName {
    "shop.orders".parse().unwrap()
}

async fn open(folder: &Path) -> EmbeddedCatalog {
    EmbeddedCatalog::open(folder, true, Arc::new(SystemClock)).await.unwrap()
}

async fn with_orders(folder: &Path) -> EmbeddedCatalog {
    let catalog = open(folder).await;
    let _made = catalog.create(&orders(), small_table(&orders(), FormatVersion::V2)).await.unwrap();
    catalog
}

async fn commit(
    catalog: &EmbeddedCatalog,
    requirements: Vec<iceberg::TableRequirement>,
    updates: Vec<iceberg::TableUpdate>,
) -> Reply {
    let key = catalog.clock.fresh_key();
    catalog.commit(&Commit { table: orders(), requirements, updates, key }).await
}

/// Adds a snapshot and a tag on it, whatever else happens to the table: builds it again where its number is taken.
async fn tag(catalog: &EmbeddedCatalog, name: &str) -> SnapshotId {
    loop {
        let loaded = catalog.load(&orders()).await.unwrap();
        let id = catalog.clock.fresh_snapshot_id();
        let now = catalog.clock.now().timestamp_millis();
        let snapshot = empty_snapshot(&loaded, id, None, now, Default::default());
        let updates = vec![iceberg::TableUpdate::AddSnapshot { snapshot }, set(name, id, &RefKind::KEPT_TAG)];
        match commit(catalog, vec![require(name, None)], updates).await {
            Reply::Accepted { .. } => return id,
            Reply::Refused { status: 400, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    conformance::run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let catalog = EmbeddedCatalog::open(folder.path(), true, clock.clone()).await.unwrap();
        Subject { catalog: Arc::new(catalog), clock, namespace: "n".to_owned(), keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test]
async fn a_folder_without_a_warehouse_is_not_made_one_by_reading() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("not-there")] {
        let error = EmbeddedCatalog::open(&path, false, clock()).await.unwrap_err();
        assert!(matches!(error, CatalogError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn identity_is_kept_and_differs_between_warehouses() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = open(one.path()).await.identity().clone();
    assert_eq!(EmbeddedCatalog::open(one.path(), false, clock()).await.unwrap().identity(), &first);
    assert_eq!(open(one.path()).await.identity(), &first);
    assert_ne!(open(two.path()).await.identity(), &first);
}

#[tokio::test]
async fn a_commit_that_returned_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path()).await;
    assert_eq!(catalog.database.ask("PRAGMA journal_mode").await, "delete");
    assert_eq!(catalog.database.ask("PRAGMA synchronous").await, "3", "EXTRA");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_at_once_makes_one_warehouse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/warehouse");
    let opened = future::join_all((0..4).map(|_| open(&path))).await;
    let identities: BTreeSet<_> = opened.iter().map(|catalog| catalog.identity().clone()).collect();
    assert_eq!(identities.len(), 1);
}

#[tokio::test]
async fn a_newer_warehouse_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path()).await;
    catalog.database.execute("UPDATE calve_meta SET value = '2' WHERE key = 'format'").await;
    for create in [false, true] {
        let error = EmbeddedCatalog::open(folder.path(), create, clock()).await.unwrap_err();
        assert!(matches!(error, CatalogError::Newer { .. }), "{error:?}");
    }
    catalog.database.execute("UPDATE calve_meta SET value = 'x' WHERE key = 'format'").await;
    let error = EmbeddedCatalog::open(folder.path(), false, clock()).await.unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_damaged_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(CATALOG_FILE);
    fs::write(&file, b"this is not a database, however long it may be".repeat(100)).unwrap();
    let error = EmbeddedCatalog::open(folder.path(), false, clock()).await.unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(CATALOG_FILE), "{error}");
}

#[tokio::test]
async fn damaged_metadata_is_named_and_never_committed_upon() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let location = catalog.load(&orders()).await.unwrap().metadata_location.unwrap();
    let file = storage::local_path(&location).unwrap();
    let whole = fs::read(&file).unwrap();
    let damages: [&dyn Fn(); 3] =
        [&|| fs::write(&file, &whole[..whole.len() / 2]).unwrap(), &|| fs::write(&file, b"").unwrap(), &|| {
            fs::remove_file(&file).unwrap()
        }];
    for damage in damages {
        damage();
        let error = catalog.load(&orders()).await.unwrap_err();
        assert!(matches!(error, CatalogError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(&location), "{error}");
        let reply = commit(&catalog, vec![], vec![]).await;
        let Reply::NotSent { reason } = reply else { panic!("{reply:?}") };
        assert!(reason.contains(&location), "{reason}");
    }
    fs::write(&file, &whole).unwrap();
    let _id = tag(&catalog, "t").await;
}

#[tokio::test]
async fn a_table_is_where_its_name_says_and_never_where_another_is() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let at = |loaded: &LoadedTable| storage::local_path(loaded.metadata.location()).unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let first = catalog.load(&orders()).await.unwrap();
    assert_eq!(at(&first), root.join("shop/orders"));
    assert!(first.metadata.location().starts_with("file:///"));
    catalog.database.execute("UPDATE iceberg_tables SET table_name = 'renamed'").await;
    let second = catalog.create(&orders(), small_table(&orders(), FormatVersion::V2)).await.unwrap();
    assert_ne!(at(&second), at(&first));
    let nested: TableName = "shop.orders.lines".parse().unwrap();
    let nested = catalog.create(&nested, small_table(&nested, FormatVersion::V2)).await.unwrap();
    assert!(!at(&nested).starts_with(at(&first)), "no table is inside another's folder");
    let reserved: TableName = "journal.t".parse().unwrap();
    let error = catalog.create(&reserved, small_table(&reserved, FormatVersion::V2)).await.unwrap_err();
    assert!(matches!(error, CatalogError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn gzip_metadata_is_written_where_the_table_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let property = ("write.metadata.compression-codec".to_owned(), "gzip".to_owned());
    let update = iceberg::TableUpdate::SetProperties { updates: [property].into() };
    let reply = commit(&catalog, vec![], vec![update]).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    let loaded = catalog.load(&orders()).await.unwrap();
    let location = loaded.metadata_location.unwrap();
    assert!(location.ends_with(".gz.metadata.json") && location.contains("/metadata/00001-"), "{location}");
    assert!(fs::read(storage::local_path(&location).unwrap()).unwrap().starts_with(&[0x1f, 0x8b]));
    assert_eq!(loaded.metadata.metadata_log().len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_read_only_is_readable_and_refuses_commits() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let id = tag(&catalog, "t").await;
    drop(catalog);
    let parts =
        [folder.path().to_owned(), folder.path().join("shop/orders/metadata"), folder.path().join(CATALOG_FILE)];
    let writable = |yes: bool| {
        for part in &parts {
            let mut permissions = fs::metadata(part).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, if yes { 0o755 } else { 0o555 });
            fs::set_permissions(part, permissions).unwrap();
        }
    };
    writable(false);
    let enforced = fs::write(folder.path().join("probe"), b"").is_err();
    let catalog = EmbeddedCatalog::open(folder.path(), false, clock()).await.unwrap();
    assert!(catalog.load(&orders()).await.is_ok());
    let reply = commit(&catalog, vec![], vec![set("u", id, &RefKind::KEPT_TAG)]).await;
    let other: TableName = "shop.other".parse().unwrap();
    let created = catalog.create(&other, small_table(&other, FormatVersion::V2)).await;
    writable(true);
    // The superuser may write anywhere, and then there is nothing to see.
    if enforced {
        assert!(matches!(reply, Reply::Refused { status: 403, .. }), "{reply:?}");
        assert!(matches!(created, Err(CatalogError::ReadOnly { .. })), "{created:?}");
    }
}

/// SQLite checks a deferred foreign key at COMMIT, so a trigger that breaks one makes only the COMMIT fail.
#[tokio::test]
async fn a_commit_that_failed_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let id = tag(&catalog, "t").await;
    for statement in [
        "CREATE TABLE one (x INTEGER PRIMARY KEY)",
        "CREATE TABLE other (x INTEGER REFERENCES one (x) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TRIGGER broken AFTER UPDATE ON iceberg_tables BEGIN INSERT INTO other VALUES (1); END",
    ] {
        catalog.database.execute(statement).await;
    }
    let reply = commit(&catalog, vec![], vec![set("u", id, &RefKind::KEPT_TAG)]).await;
    assert!(matches!(&reply, Reply::Unknown { reason } if reason.contains("COMMIT")), "{reply:?}");
    assert!(catalog.load(&orders()).await.unwrap().observe().reference(&RefName("u".to_owned())).is_none());
}

/// Two processes may both have found the name free.
#[tokio::test]
async fn a_name_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let before = catalog.database.location(&orders()).await.unwrap();
    let again = catalog.database.insert(&orders(), "file:///elsewhere").await;
    assert!(matches!(again, Err(CatalogError::TableExists(_))), "{again:?}");
    assert_eq!(catalog.database.location(&orders()).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_instances_and_eight_writers_lose_no_update() {
    let folder = tempfile::tempdir().unwrap();
    let one = Arc::new(with_orders(folder.path()).await);
    let two = Arc::new(open(folder.path()).await);
    let writers = (0..8).map(|writer| {
        let catalog = if writer % 2 == 0 { one.clone() } else { two.clone() };
        tokio::spawn(async move {
            for turn in 0..4 {
                let _id = tag(&catalog, &format!("w{writer}-{turn}")).await;
            }
        })
    });
    for done in future::join_all(writers).await {
        done.unwrap();
    }
    let observed = one.load(&orders()).await.unwrap().observe();
    assert_eq!((observed.refs.len(), observed.snapshots.len()), (32, 32));
    assert_eq!(observed.last_sequence_number, 32, "each commit was built on the one before it");
}

const CHILD: &str = "CALVE_TEST_WRITER";
const TURNS: &str = "CALVE_TEST_TURNS";
const ACKNOWLEDGED: &str = "acknowledged ";

/// Not a test by itself: the other process of the two tests below.
#[tokio::test]
async fn child_writer() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let catalog = open(Path::new(&folder)).await;
    let turns: u32 = std::env::var(TURNS).unwrap().parse().unwrap();
    for turn in 0..turns {
        let name = format!("child-{turn}");
        let _id = tag(&catalog, &name).await;
        println!("{ACKNOWLEDGED}{name}");
    }
}

fn spawn_child(folder: &Path, turns: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "catalog::embedded::tests::child_writer", "--nocapture"])
        .env(CHILD, folder)
        .env(TURNS, turns.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_killed_writer_loses_nothing_that_it_was_told_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let _made = with_orders(folder.path()).await;
    let mut child = spawn_child(folder.path(), 1_000_000);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = lines.by_ref().map_while(Result::ok);
    let mut acknowledged = acknowledged.filter_map(|line| line.strip_prefix(ACKNOWLEDGED).map(str::to_owned));
    let mut told: Vec<_> = acknowledged.by_ref().take(20).collect();
    child.kill().unwrap();
    told.extend(acknowledged);
    let _status = child.wait().unwrap();
    let catalog = open(folder.path()).await;
    let refs = catalog.load(&orders()).await.unwrap().observe().refs;
    assert!(told.len() >= 20);
    for name in &told {
        assert!(refs.contains_key(&RefName(name.clone())), "{name}");
    }
    assert!(refs.len() <= told.len() + 1, "at most one was applied without its answer being heard");
    let _id = tag(&catalog, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_lose_no_update() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = with_orders(folder.path()).await;
    let child = spawn_child(folder.path(), 10);
    for turn in 0..10 {
        let _id = tag(&catalog, &format!("parent-{turn}")).await;
    }
    let finished = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    assert!(finished.status.success());
    let observed = catalog.load(&orders()).await.unwrap().observe();
    for writer in ["parent", "child"] {
        for turn in 0..10 {
            assert!(observed.refs.contains_key(&RefName(format!("{writer}-{turn}"))), "{writer}-{turn}");
        }
    }
    assert_eq!(observed.last_sequence_number, 20);
}

#[tokio::test]
async fn a_scratch_table_is_dropped_only_while_it_is_the_one_that_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_now(11));
    let catalog = EmbeddedCatalog::open(dir.path(), true, clock.clone()).await.unwrap();
    let table: TableName = "n.t".parse().unwrap();
    let made = catalog.create(&table, small_table(&table, FormatVersion::V2)).await.unwrap().observe().uuid;
    let other = crate::ids::TableUuid(clock.fresh_uuid());
    let error = catalog.drop_scratch(&table, other).await.unwrap_err();
    assert!(error.to_string().contains("n.t"), "{error}");
    assert!(catalog.load(&table).await.is_ok());
    catalog.drop_scratch(&table, made).await.unwrap();
    assert!(catalog.tables().await.unwrap().is_empty());
    catalog.drop_scratch(&table, made).await.unwrap();
}
