//! A table made to be tried on: what is sent to it, what came back, and what it then is.

use std::collections::HashMap;

use iceberg::spec::{FormatVersion, NestedField, PrimitiveType, Schema, SnapshotReference, Type};
use iceberg::{TableCreation, TableRequirement, TableUpdate};

use crate::catalog::{Catalog, CatalogError, Commit, LoadedTable, Reply, bare_snapshot};
use crate::clock::Clock;
use crate::ids::{SnapshotId, TableName};
use crate::observed::{Observed, RefKind};
use crate::publish::trust::Seen;

/// What was seen of one guarantee.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub seen: Seen,
    /// What was seen, in a few words.
    pub detail: String,
    /// The request that showed it, with its reply.
    pub request: Option<String>,
}

impl Tried {
    pub(super) fn holds(detail: impl Into<String>, request: Option<String>) -> Self {
        Self { seen: Seen::Holds, detail: detail.into(), request }
    }

    pub(super) fn broken(detail: impl Into<String>, request: Option<String>) -> Self {
        Self { seen: Seen::Broken, detail: detail.into(), request }
    }

    pub(super) fn not_tested(detail: impl Into<String>, request: Option<String>) -> Self {
        Self { seen: Seen::NotTested, detail: detail.into(), request }
    }
}

/// `Ok`: go on with the table as it is now. `Err`: this decides the guarantee.
pub(super) type Step<T> = Result<T, Tried>;

/// The end of a case: what decided it. A table that cannot be read ends the whole probe.
pub(super) type Case = Result<Tried, CatalogError>;

/// The creation of a scratch table.
pub(super) fn creation(name: &TableName) -> Result<TableCreation, CatalogError> {
    let field = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([field.into()]).build();
    let schema = schema.map_err(|error| CatalogError::Invalid(format!("a scratch table's schema: {error}")))?;
    let creation = TableCreation::builder().name(name.name().to_owned()).schema(schema);
    Ok(creation.format_version(FormatVersion::V2).build())
}

/// One scratch table.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    pub catalog: &'a dyn Catalog,
    pub clock: &'a dyn Clock,
    pub table: TableName,
}

impl Scratch<'_> {
    pub(super) async fn load(&self) -> Result<LoadedTable, CatalogError> {
        self.catalog.load(&self.table).await
    }

    pub(super) async fn observe(&self) -> Result<Observed, CatalogError> {
        Ok(self.load().await?.observe())
    }

    pub(super) fn commit_of(&self, requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Commit {
        Commit { table: self.table.clone(), requirements, updates, key: self.clock.fresh_key() }
    }

    /// A snapshot without files on a parent, with what adds it.
    pub(super) async fn snapshot(
        &self,
        parent: Option<SnapshotId>,
        summary: HashMap<String, String>,
    ) -> Result<(SnapshotId, TableUpdate), CatalogError> {
        let loaded = self.load().await?;
        let id = self.clock.fresh_snapshot_id();
        // A catalog may refuse a snapshot that is older than the table's last change by its own clock.
        let now = self.clock.now().timestamp_millis().max(loaded.metadata.last_updated_ms());
        let snapshot = bare_snapshot(&loaded.metadata, id.0, parent.map(|parent| parent.0), now, summary);
        Ok((id, TableUpdate::AddSnapshot { snapshot }))
    }

    /// Sends what has to be refused: it decides the guarantee unless it is, and the table is as before.
    pub(super) async fn refused(
        &self,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Step<(u16, String)>, CatalogError> {
        let before = self.observe().await?;
        let commit = self.commit_of(requirements, updates);
        let reply = self.catalog.commit(&commit).await;
        let request = shown(&commit, &reply);
        let changed = self.observe().await? != before;
        Ok(match (reply, changed) {
            (Reply::Accepted { .. }, true) => Err(Tried::broken("it was applied", Some(request))),
            (Reply::Accepted { .. }, false) => {
                Err(Tried::broken("it was accepted, and nothing was applied", Some(request)))
            }
            (Reply::Refused { .. }, true) => Err(Tried::broken("it was refused, and the table changed", Some(request))),
            (Reply::NotSent { .. } | Reply::Unknown { .. }, true) => {
                Err(Tried::broken("without an answer, the table changed", Some(request)))
            }
            (Reply::NotSent { .. } | Reply::Unknown { .. }, false) => {
                Err(Tried::not_tested("there was no clear answer", Some(request)))
            }
            (Reply::Refused { status, .. }, false) => Ok((status, request)),
        })
    }

    /// Sends what has to be applied: it decides the guarantee unless it is. The table as it is then.
    pub(super) async fn applied(
        &self,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Step<(Observed, String)>, CatalogError> {
        let commit = self.commit_of(requirements, updates);
        let reply = self.catalog.commit(&commit).await;
        let request = shown(&commit, &reply);
        Ok(match reply {
            Reply::Accepted { .. } => Ok((self.observe().await?, request)),
            Reply::Refused { .. } => Err(Tried::broken("a commit that is right was refused", Some(request))),
            Reply::NotSent { .. } | Reply::Unknown { .. } => {
                Err(Tried::not_tested("there was no clear answer", Some(request)))
            }
        })
    }

    /// Where main is, moved to a new snapshot; every case begins from there, whatever the one before has left.
    pub(super) async fn begun(&self) -> Result<Step<SnapshotId>, CatalogError> {
        let main = self.observe().await?.main();
        let (id, add) = self.snapshot(main, HashMap::new()).await?;
        let step = self.applied(vec![require("main", main)], vec![add, set("main", id, &PLAIN)]).await?;
        Ok(step.and_then(|(observed, request)| {
            if observed.main() == Some(id) {
                return Ok(id);
            }
            Err(Tried::broken("main is not where an accepted commit put it", Some(request)))
        }))
    }
}

/// A branch without retention of its own.
pub(super) const PLAIN: RefKind =
    RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };

pub(super) fn require(name: &str, snapshot: Option<SnapshotId>) -> TableRequirement {
    TableRequirement::RefSnapshotIdMatch { r#ref: name.to_owned(), snapshot_id: snapshot.map(|id| id.0) }
}

pub(super) fn set(name: &str, snapshot: SnapshotId, kind: &RefKind) -> TableUpdate {
    let reference = SnapshotReference::new(snapshot.0, kind.to_iceberg());
    TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference }
}

/// A request and its reply in one line.
pub(super) fn shown(commit: &Commit, reply: &Reply) -> String {
    let needs: Vec<_> = commit.requirements.iter().map(requirement).collect();
    let does: Vec<_> = commit.updates.iter().map(update).collect();
    let reply = match reply {
        Reply::Accepted { .. } => "accepted".to_owned(),
        Reply::Refused { status, message } => {
            // The catalog's words may be a page.
            let words: String = message.lines().next().unwrap_or_default().chars().take(120).collect();
            format!("refused {status} {words}")
        }
        Reply::NotSent { reason } => format!("not sent: {reason}"),
        Reply::Unknown { reason } => format!("no answer: {reason}"),
    };
    let needs = if needs.is_empty() { "nothing".to_owned() } else { needs.join(", ") };
    format!("require {needs}; {} -> {}", does.join(", "), reply.trim_end())
}

fn requirement(requirement: &TableRequirement) -> String {
    match requirement {
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id: Some(id) } => format!("{ref} = {id}"),
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id: None } => format!("{ref} absent"),
        TableRequirement::UuidMatch { uuid } => format!("uuid = {uuid}"),
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: id } => format!("schema = {id}"),
        TableRequirement::DefaultSpecIdMatch { default_spec_id: id } => format!("spec = {id}"),
        TableRequirement::NotExist
        | TableRequirement::LastAssignedFieldIdMatch { .. }
        | TableRequirement::LastAssignedPartitionIdMatch { .. }
        | TableRequirement::DefaultSortOrderIdMatch { .. } => format!("{requirement:?}"),
    }
}

fn update(update: &TableUpdate) -> String {
    match update {
        TableUpdate::AddSnapshot { snapshot } => format!("add {}", snapshot.snapshot_id()),
        TableUpdate::SetSnapshotRef { ref_name, reference } => {
            let kind = if reference.is_branch() { "branch" } else { "tag" };
            format!("{kind} {ref_name} = {}", reference.snapshot_id)
        }
        TableUpdate::RemoveSnapshotRef { ref_name } => format!("remove {ref_name}"),
        _ => "another update".to_owned(),
    }
}
