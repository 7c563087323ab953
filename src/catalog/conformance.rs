//! What every [`Catalog`] must do for the protocol to hold, as one suite that each implementation passes.
//!
//! It commits in the shapes of `protocol.md` and looks only at what the trait shows. Every case runs on a table of its
//! own, in each format version. A case that fails panics with its name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test suite reports by panicking")]

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use iceberg::spec::{FormatVersion, NestedField, PrimitiveType, Schema, Snapshot, SnapshotReference, Type};
use iceberg::{TableCreation, TableRequirement, TableUpdate};

use super::apply::bare_snapshot;
use super::{Catalog, CatalogError, Commit, LoadedTable, Reply};
use crate::clock::Clock;
use crate::ids::{RefName, SnapshotId, TableName};
use crate::observed::{Observed, RefKind};

/// A catalog to be tested.
pub struct Subject {
    /// The catalog.
    pub catalog: Arc<dyn Catalog>,
    /// Where its test takes ids and times from.
    pub clock: Arc<dyn Clock>,
    /// A namespace that holds no table yet.
    pub namespace: String,
    /// Whatever must live as long as the catalog, e.g. its folder.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Runs every case in every format version against what `make` makes, a fresh subject for each. All cases are run, the
/// same for every catalog; those that fail are named together.
pub async fn run<F: Future<Output = Subject>>(make: impl Fn() -> F) {
    let mut failed = Vec::new();
    for version in [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3] {
        for (name, case) in CASES {
            let subject = make().await;
            let table = TableName::new(vec![subject.namespace.clone()], format!("{name}_{version}")).unwrap();
            let trial = Trial { catalog: subject.catalog.clone(), clock: subject.clock.clone(), table, version };
            let outcome = std::panic::AssertUnwindSafe(case(&trial)).catch_unwind().await;
            if let Err(cause) = outcome {
                let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref().copied());
                failed.push(format!("{name} in format {version}: {}", text.unwrap_or("it panicked")));
            }
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

type Case = for<'a> fn(&'a Trial) -> BoxFuture<'a, ()>;

const CASES: &[(&str, Case)] = &[
    ("made_and_loaded", |t| t.made_and_loaded().boxed()),
    ("false_expectation", |t| t.false_expectation().boxed()),
    ("absent_means_absent", |t| t.absent_means_absent().boxed()),
    ("publish_and_fence", |t| t.publish_and_fence().boxed()),
    ("table_assertions", |t| t.table_assertions().boxed()),
    ("summary_kept", |t| t.summary_kept().boxed()),
    ("retention_kept", |t| t.retention_kept().boxed()),
    ("all_snapshots", |t| t.all_snapshots().boxed()),
    ("one_winner", |t| t.one_winner().boxed()),
    ("unknown_table", |t| t.unknown_table().boxed()),
    ("all_or_nothing", |t| t.all_or_nothing().boxed()),
    ("stale_snapshot", |t| t.stale_snapshot().boxed()),
    ("removal", |t| t.removal().boxed()),
];

/// One case's table.
#[derive(Debug, Clone)]
struct Trial {
    catalog: Arc<dyn Catalog>,
    clock: Arc<dyn Clock>,
    table: TableName,
    version: FormatVersion,
}

/// The creation of a table `(id long, note string)` in a format version, for tests.
pub fn small_table(name: &TableName, version: FormatVersion) -> TableCreation {
    let schema = Schema::builder()
        .with_fields([
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "note", Type::Primitive(PrimitiveType::String)).into(),
        ])
        .build()
        .unwrap();
    TableCreation::builder().name(name.name().to_owned()).schema(schema).format_version(version).build()
}

/// A snapshot without any file that fits the table as loaded; its manifest list is a name only.
pub fn empty_snapshot(
    loaded: &LoadedTable,
    id: SnapshotId,
    parent: Option<SnapshotId>,
    now_ms: i64,
    summary: HashMap<String, String>,
) -> Snapshot {
    bare_snapshot(&loaded.metadata, id.0, parent.map(|parent| parent.0), now_ms, summary)
}

/// The requirement that a ref is at a snapshot, or absent.
pub fn require(name: &str, snapshot: Option<SnapshotId>) -> TableRequirement {
    TableRequirement::RefSnapshotIdMatch { r#ref: name.to_owned(), snapshot_id: snapshot.map(|id| id.0) }
}

/// The update that sets a ref.
pub fn set(name: &str, snapshot: SnapshotId, kind: &RefKind) -> TableUpdate {
    let reference = SnapshotReference::new(snapshot.0, kind.to_iceberg());
    TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference }
}

const PLAIN: RefKind = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };

impl Trial {
    async fn create(&self) -> Observed {
        self.catalog.create(&self.table, small_table(&self.table, self.version)).await.unwrap().observe()
    }

    async fn load(&self) -> LoadedTable {
        self.catalog.load(&self.table).await.unwrap()
    }

    async fn observe(&self) -> Observed {
        self.load().await.observe()
    }

    async fn commit(&self, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Reply {
        let commit = Commit { table: self.table.clone(), requirements, updates, key: self.clock.fresh_key() };
        self.catalog.commit(&commit).await
    }

    async fn accepted(&self, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Observed {
        let reply = self.commit(requirements, updates).await;
        let Reply::Accepted { table } = reply else { panic!("not accepted: {reply:?}") };
        let observed = self.observe().await;
        if let Some(shown) = table {
            assert_eq!(shown.observe(), observed, "the reply shows the table as it is then loaded");
        }
        observed
    }

    /// Refused with this status, and the table is as before.
    async fn refused(&self, wanted: u16, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> String {
        let before = self.observe().await;
        let reply = self.commit(requirements, updates).await;
        let Reply::Refused { status, message } = reply else { panic!("not refused: {reply:?}") };
        assert_eq!(status, wanted, "{message}");
        assert_eq!(self.observe().await, before, "a refused commit changes nothing");
        message
    }

    async fn snapshot(&self, parent: Option<SnapshotId>) -> (SnapshotId, TableUpdate) {
        self.snapshot_with(parent, HashMap::new()).await
    }

    async fn snapshot_with(
        &self,
        parent: Option<SnapshotId>,
        summary: HashMap<String, String>,
    ) -> (SnapshotId, TableUpdate) {
        let id = self.clock.fresh_snapshot_id();
        let now = self.clock.now().timestamp_millis();
        let snapshot = empty_snapshot(&self.load().await, id, parent, now, summary);
        (id, TableUpdate::AddSnapshot { snapshot })
    }

    /// Adds a snapshot on a branch.
    async fn append(&self, branch: &str, parent: Option<SnapshotId>) -> SnapshotId {
        let (id, add) = self.snapshot(parent).await;
        let _observed = self.accepted(vec![require(branch, parent)], vec![add, set(branch, id, &PLAIN)]).await;
        id
    }

    async fn made_and_loaded(&self) {
        let made = self.create().await;
        assert_eq!(made.format_version, self.version as u8);
        assert_eq!(made.main(), None);
        assert_eq!(self.observe().await, made);
        assert!(self.catalog.tables().await.unwrap().contains(&self.table));
        let head = self.append("main", None).await;
        let before = self.observe().await;
        let again = self.catalog.create(&self.table, small_table(&self.table, self.version)).await;
        assert!(matches!(again, Err(CatalogError::TableExists(_))), "{:?}", again.map(|made| made.observe()));
        assert_eq!((self.observe().await, before.main()), (before.clone(), Some(head)), "it stays as it is");
        let other = TableName::new(self.table.namespace().to_vec(), "not_there".to_owned()).unwrap();
        let error = self.catalog.load(&other).await.unwrap_err();
        assert!(error.to_string().contains(&self.table.to_string()), "the tables that exist are named: {error}");
        assert!(matches!(error, CatalogError::NoSuchTable { .. }));
        assert!(!self.catalog.identity().0.is_empty() && !self.catalog.describe().is_empty());
    }

    async fn false_expectation(&self) {
        let _made = self.create().await;
        let first = self.append("main", None).await;
        let second = self.append("main", Some(first)).await;
        for expected in [Some(first), None, Some(SnapshotId(1))] {
            let (id, add) = self.snapshot(Some(second)).await;
            let message = self.refused(409, vec![require("main", expected)], vec![add, set("main", id, &PLAIN)]).await;
            assert!(message.contains("main"), "the refusal names the ref: {message}");
        }
        assert_eq!(self.observe().await.main(), Some(second));
    }

    async fn absent_means_absent(&self) {
        let _made = self.create().await;
        let first = self.append("main", None).await;
        let open = || vec![set("audit/x", first, &RefKind::KEPT_BRANCH)];
        let _refused = self.refused(409, vec![require("audit/x", Some(first))], open()).await;
        let observed = self.accepted(vec![require("audit/x", None)], open()).await;
        assert!(observed.reference(&RefName("audit/x".into())).is_some());
        let _refused = self.refused(409, vec![require("audit/x", None)], open()).await;
        // A tag fills the name as a branch does.
        let _observed = self.accepted(vec![], vec![set("closed/x", first, &RefKind::KEPT_TAG)]).await;
        let _refused = self.refused(409, vec![require("closed/x", None)], open()).await;
    }

    async fn publish_and_fence(&self) {
        let uuid = self.create().await.uuid.0;
        let base = self.append("main", None).await;
        let _other = self.accepted(vec![], vec![set("other", base, &RefKind::KEPT_TAG)]).await;
        let guards = |more: Vec<TableRequirement>| {
            let mut all = vec![TableRequirement::UuidMatch { uuid }];
            all.extend([require("published/x", None), require("closed/x", None)]);
            all.extend(more);
            all
        };
        let (marker, add) = self.snapshot(Some(base)).await;
        let begin = guards(vec![require("main", Some(base)), require("audit/x", None)]);
        let _open = self.accepted(begin, vec![add, set("audit/x", marker, &RefKind::KEPT_BRANCH)]).await;
        let (seal, add) = self.snapshot(Some(marker)).await;
        let _sealed = self
            .accepted(
                guards(vec![require("audit/x", Some(marker))]),
                vec![add, set("audit/x", seal, &RefKind::KEPT_BRANCH)],
            )
            .await;
        let (schema, spec) = {
            let observed = self.observe().await;
            (observed.current_schema_id, observed.default_spec_id)
        };
        let publish = || {
            let mut requirements = guards(vec![require("main", Some(base)), require("audit/x", Some(seal))]);
            requirements.push(TableRequirement::CurrentSchemaIdMatch { current_schema_id: schema });
            requirements.push(TableRequirement::DefaultSpecIdMatch { default_spec_id: spec });
            let updates = vec![
                set("main", seal, &PLAIN),
                set("published/x", seal, &RefKind::KEPT_TAG),
                set("audit/x", base, &RefKind::KEPT_TAG),
            ];
            (requirements, updates)
        };
        let fence = || {
            let updates = vec![set("closed/x", seal, &RefKind::KEPT_TAG), set("audit/x", base, &RefKind::KEPT_TAG)];
            (guards(vec![require("audit/x", Some(seal))]), updates)
        };
        let (requirements, updates) = publish();
        let published = self.accepted(requirements, updates).await;
        assert_eq!(published.main(), Some(seal));
        let is = |name: &str, at: SnapshotId, kind: RefKind| {
            let found = published.reference(&RefName(name.to_owned())).unwrap();
            assert_eq!((found.snapshot, &found.kind), (at, &kind), "{name}");
        };
        is("published/x", seal, RefKind::KEPT_TAG);
        is("audit/x", base, RefKind::KEPT_TAG);
        is("other", base, RefKind::KEPT_TAG);
        assert_eq!(published.refs.len(), 4);
        assert_eq!(published.snapshot_log.last().map(|(_, id)| *id), Some(seal), "main's log shows the publication");
        for (requirements, updates) in [publish(), fence()] {
            let _refused = self.refused(409, requirements, updates).await;
        }
    }

    async fn table_assertions(&self) {
        let made = self.create().await;
        let first = self.append("main", None).await;
        let schema = |id| TableRequirement::CurrentSchemaIdMatch { current_schema_id: id };
        let spec = |id| TableRequirement::DefaultSpecIdMatch { default_spec_id: id };
        let uuid = |uuid| TableRequirement::UuidMatch { uuid };
        let update = || vec![set("t", first, &RefKind::KEPT_TAG)];
        for wrong in [schema(made.current_schema_id + 1), spec(made.default_spec_id + 1), uuid(self.clock.fresh_uuid())]
        {
            let _refused = self.refused(409, vec![wrong], update()).await;
        }
        let right = vec![schema(made.current_schema_id), spec(made.default_spec_id), uuid(made.uuid.0)];
        let _observed = self.accepted(right, update()).await;
    }

    async fn summary_kept(&self) {
        let _made = self.create().await;
        let summary: HashMap<_, _> = [
            ("calve.publish-id", "repair-07".to_owned()),
            ("calve.scope", "eq(3,\"ü 'x'\")".to_owned()),
            ("calve.source.long", "x".repeat(2000)),
            ("total-records", "0".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let (id, add) = self.snapshot_with(None, summary.clone()).await;
        let observed = self.accepted(vec![], vec![add, set("main", id, &PLAIN)]).await;
        let kept = &observed.snapshots[&id].summary;
        for (key, value) in &summary {
            assert_eq!(kept.get(key), Some(value), "{key}");
        }
    }

    async fn retention_kept(&self) {
        let _made = self.create().await;
        let first = self.append("main", None).await;
        let own = RefKind::Branch {
            min_snapshots_to_keep: Some(7),
            max_snapshot_age_ms: Some(86_400_000),
            max_ref_age_ms: Some(i64::MAX),
        };
        let set_all = vec![
            set("main", first, &own),
            set("audit/x", first, &RefKind::KEPT_BRANCH),
            set("closed/y", first, &RefKind::KEPT_TAG),
            set("plain", first, &RefKind::Tag { max_ref_age_ms: None }),
        ];
        let before = self.accepted(vec![], set_all).await;
        let kind = |observed: &Observed, name: &str| observed.refs[&RefName(name.to_owned())].kind.clone();
        // A later commit, which has nothing to do with those refs, keeps them as they are.
        let (id, add) = self.snapshot(Some(first)).await;
        let after = self.accepted(vec![], vec![add, set("else", id, &RefKind::KEPT_TAG)]).await;
        for observed in [before, after] {
            assert_eq!(kind(&observed, "main"), own);
            assert_eq!(kind(&observed, "audit/x"), RefKind::KEPT_BRANCH);
            assert_eq!(kind(&observed, "closed/y"), RefKind::KEPT_TAG);
            assert_eq!(kind(&observed, "plain"), RefKind::Tag { max_ref_age_ms: None });
        }
        // Moving main with its own retention carried over.
        let moved = self.accepted(vec![require("main", Some(first))], vec![set("main", id, &own)]).await;
        assert_eq!((moved.main(), kind(&moved, "main")), (Some(id), own));
    }

    async fn all_snapshots(&self) {
        let _made = self.create().await;
        let mut chain = vec![self.append("main", None).await];
        for _ in 0..3 {
            chain.push(self.append("main", chain.last().copied()).await);
        }
        let (alone, add) = self.snapshot(Some(chain[0])).await;
        let observed = self.accepted(vec![], vec![add]).await;
        for id in chain.iter().chain([&alone]) {
            assert!(observed.snapshots.contains_key(id), "a snapshot that no ref reaches is returned too");
        }
        let reached: Vec<_> = observed.ancestry(chain[3]).collect();
        assert!(reached.iter().eq(chain.iter().rev()));
        assert!(observed.snapshot_log.iter().map(|(_, id)| id).eq(&chain));
    }

    async fn one_winner(&self) {
        let _made = self.create().await;
        let base = self.append("main", None).await;
        let mut writers = Vec::new();
        for _ in 0..8 {
            let (id, add) = self.snapshot(Some(base)).await;
            let trial = self.clone();
            writers.push(tokio::spawn(async move {
                let reply = trial.commit(vec![require("main", Some(base))], vec![add, set("main", id, &PLAIN)]).await;
                (id, reply)
            }));
        }
        let mut winners = Vec::new();
        for outcome in future::join_all(writers).await {
            match outcome.unwrap() {
                (id, Reply::Accepted { .. }) => winners.push(id),
                (_, Reply::Refused { status: 409, .. }) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let observed = self.observe().await;
        assert_eq!(observed.main(), Some(winners[0]));
        assert_eq!(observed.snapshots.len(), 2, "nothing of the others is left");
    }

    async fn unknown_table(&self) {
        let reply = self.commit(vec![], vec![]).await;
        assert!(matches!(reply, Reply::Refused { status: 404, .. }), "{reply:?}");
    }

    async fn all_or_nothing(&self) {
        let _made = self.create().await;
        let base = self.append("main", None).await;
        let tag = || set("t", base, &RefKind::KEPT_TAG);
        let several = vec![require("main", Some(base)), require("t", None), require("u", Some(base))];
        let _refused = self.refused(409, several, vec![tag()]).await;
        let (id, add) = self.snapshot(Some(base)).await;
        let nowhere = set("v", SnapshotId(id.0 ^ 1), &RefKind::KEPT_TAG);
        let _refused = self.refused(400, vec![], vec![tag(), add, set("main", id, &PLAIN), nowhere]).await;
    }

    async fn stale_snapshot(&self) {
        let _made = self.create().await;
        let base = self.append("main", None).await;
        let (late, add_late) = self.snapshot(Some(base)).await;
        let (id, add) = self.snapshot(Some(base)).await;
        let _observed = self.accepted(vec![], vec![add, set("one", id, &PLAIN)]).await;
        let updates = vec![add_late, set("two", late, &PLAIN)];
        if self.version == FormatVersion::V1 {
            let _observed = self.accepted(vec![], updates).await;
        } else {
            let _refused = self.refused(400, vec![], updates).await;
        }
    }

    async fn removal(&self) {
        let _made = self.create().await;
        let base = self.append("main", None).await;
        let (id, add) = self.snapshot(Some(base)).await;
        let _open = self.accepted(vec![], vec![add, set("audit/x", id, &RefKind::KEPT_BRANCH)]).await;
        let updates = vec![
            TableUpdate::RemoveSnapshotRef { ref_name: "audit/x".to_owned() },
            TableUpdate::RemoveSnapshots { snapshot_ids: vec![id.0] },
        ];
        let observed = self.accepted(vec![require("audit/x", Some(id))], updates).await;
        assert!(observed.refs.keys().eq([&RefName::main()]));
        assert!(observed.snapshots.keys().eq([&base]));
        assert_eq!(observed.snapshot_log.len(), 1);
    }
}
