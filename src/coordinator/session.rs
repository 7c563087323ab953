//! One publication as it stands: the table as read, the log, and the memory folded from it.

use super::{Coordinator, Error};
use crate::catalog::{CatalogError, LoadedTable};
use crate::ids::{PublicationId, SnapshotId, TableName, TableUuid};
use crate::journal::log::Log;
use crate::journal::{Journal, LogKey};
use crate::observed::{Observed, Role, summary};
use crate::publish::intent::Intent;
use crate::publish::own::marker_below;
use crate::publish::past::Past;
use crate::publish::reconcile::{Absence, FilesLive, Finding, State, TableView, reconcile, reconcile_with};
use crate::publish::state::files_may_tell;

/// A publication whose table could be loaded.
#[derive(Debug)]
pub(super) struct Session {
    pub table: LoadedTable,
    pub observed: Observed,
    pub log: Log,
    pub intent: Intent,
    /// What older metadata showed, where it was read.
    pub past: Option<Past>,
}

/// A publication with whatever could be read of its table.
#[derive(Debug)]
pub(super) enum Opened {
    Here(Box<Session>),
    /// The table cannot be loaded, or another is under its name; the finding says so.
    Lost(Box<Finding>),
}

impl Session {
    /// Reads everything about a publication; a plain id follows its newest generation.
    pub async fn open(coordinator: &Coordinator, name: &TableName, id: &PublicationId) -> Result<Self, Error> {
        let table = coordinator.catalog.load(name).await?;
        Self::over(coordinator, table, id).await
    }

    /// The same over a table that was loaded.
    pub async fn over(coordinator: &Coordinator, table: LoadedTable, id: &PublicationId) -> Result<Self, Error> {
        let id = newest_generation(coordinator, &table.observe(), id).await?;
        Self::over_exact(coordinator, table, &id).await
    }

    /// The same for exactly this generation.
    pub async fn over_exact(coordinator: &Coordinator, table: LoadedTable, id: &PublicationId) -> Result<Self, Error> {
        let observed = table.observe();
        let key =
            LogKey { catalog: coordinator.catalog.identity().clone(), table: observed.uuid, publication: id.clone() };
        let log = Log::open(coordinator.journal.clone(), key).await?;
        let intent = fold(&log)?;
        Ok(Self { table, observed, log, intent, past: None })
    }

    /// Opens a publication even where its table is gone.
    pub async fn open_any(coordinator: &Coordinator, name: &TableName, id: &PublicationId) -> Result<Opened, Error> {
        let (session, problem) = match coordinator.catalog.load(name).await {
            Ok(table) => (Some(Self::over(coordinator, table, id).await?), None),
            Err(error @ (CatalogError::NoSuchTable { .. } | CatalogError::Forbidden { .. })) => (None, Some(error)),
            Err(error) => return unreached(coordinator, name, id, error).await,
        };
        // A table of the same name with another uuid has no log of this publication; an earlier table may have.
        let nothing_here = session.as_ref().is_none_or(|s| s.finding_without_files().state == State::Unknown);
        let elsewhere = if nothing_here { earlier_table(coordinator, name, id).await? } else { None };
        match (session, problem, elsewhere) {
            (Some(session), _, None) => Ok(Opened::Here(Box::new(session))),
            (None, Some(problem), None) => Err(problem.into()),
            (session, problem, Some((uuid, intent))) => {
                let renamed = find_by_uuid(coordinator, uuid).await;
                let reason = match (&problem, &session) {
                    (Some(problem), _) => problem.to_string(),
                    (None, Some(session)) => {
                        format!("{name} is another table now: {} instead of {uuid}", session.observed.uuid)
                    }
                    (None, None) => format!("{name} cannot be loaded"),
                };
                let why = if problem.is_some() { Absence::Missing } else { Absence::Replaced };
                let view = TableView::Missing { reason, renamed, why };
                Ok(Opened::Lost(Box::new(reconcile(&intent, &view, FilesLive::NotKnown))))
            }
            (None, None, None) => Err(Error::Failed(format!("{name} could not be loaded"))),
        }
    }

    /// Reads log and table again, in this order: what another process recorded must not look newer than the table.
    pub async fn refresh(&mut self, coordinator: &Coordinator) -> Result<(), Error> {
        self.log.refresh().await?;
        self.refold()?;
        self.reload(coordinator).await
    }

    /// Reads the table again.
    async fn reload(&mut self, coordinator: &Coordinator) -> Result<(), Error> {
        let table = coordinator.catalog.load(&self.table.name).await?;
        self.show(table);
        Ok(())
    }

    /// Takes the table as read anew.
    pub fn show(&mut self, table: LoadedTable) {
        self.observed = table.observe();
        self.table = table;
    }

    /// Folds the log as it is now.
    pub fn refold(&mut self) -> Result<(), Error> {
        self.intent = fold(&self.log)?;
        Ok(())
    }

    pub fn id(&self) -> &PublicationId {
        &self.intent.publication
    }

    pub fn name(&self) -> &TableName {
        &self.table.name
    }

    pub fn finding_without_files(&self) -> Finding {
        self.judge(FilesLive::NotKnown, self.past.as_ref())
    }

    /// What happened, by the table as read, and by older states of it.
    pub fn judge(&self, files: FilesLive, past: Option<&Past>) -> Finding {
        reconcile_with(&self.intent, &TableView::Present(Box::new(self.observed.clone())), files, past)
    }

    /// What happened, as the table tells it. Looks for the candidate's files in main where nothing else has settled it.
    pub async fn finding(&mut self, coordinator: &Coordinator) -> Result<Finding, Error> {
        let mut first = self.finding_without_files();
        if matches!(first.state, State::Regressed { .. }) {
            // Records may be newer than this reading; only one made after them shows that the table went back.
            self.reload(coordinator).await?;
            first = self.finding_without_files();
        }
        if !files_may_tell(&first.state, &self.observed, &self.intent) {
            return Ok(first);
        }
        let files = super::facts::files_live(self).await?;
        Ok(self.judge(files, self.past.as_ref()))
    }

    /// Refuses to act on a candidate whose memory is elsewhere: in another journal, or in this one under another identity
    /// of the catalog.
    pub async fn require_own_journal(&self, coordinator: &Coordinator) -> Result<(), Error> {
        let root = coordinator.journal.root();
        match self.foreign_journal(coordinator.journal.as_ref()) {
            None => self.require_no_other_memory(coordinator).await,
            Some(theirs) => Err(Error::Rejected(format!(
                "{} was begun with the journal {theirs}, and this is {root}: pass --journal {theirs}",
                self.id(),
            ))),
        }
    }

    /// One catalog may be reached under two URIs. What was sent through the one would be forgotten through the other, and
    /// a request that may still be applied would look as if it had never been sent.
    async fn require_no_other_memory(&self, coordinator: &Coordinator) -> Result<(), Error> {
        if !self.log.records().is_empty() {
            return Ok(());
        }
        let LogKey { catalog, table, publication } = self.log.key();
        for other in coordinator.journal.catalogs().await? {
            if other != *catalog && coordinator.journal.publications(&other, *table).await?.contains(publication) {
                return Err(Error::Rejected(format!(
                    "what was tried for {publication} is in this journal under the catalog {other}, and this one is \
                     {catalog}: name that one with --catalog, or, where both are the same catalog, set the property \
                     `calve.identity` of this one to {:?}",
                    other.0
                )));
            }
        }
        Ok(())
    }

    /// The journal that the candidate's marker names, if it is not this one. Where no ref leads to the marker any more,
    /// any marker of this id counts.
    pub fn foreign_journal(&self, journal: &dyn Journal) -> Option<String> {
        let anchored = anchor(self).and_then(|snapshot| marker_below(&self.intent, &self.observed, snapshot));
        let named = |marker: &SnapshotId| self.observed.snapshots.get(marker)?.summary.get(summary::JOURNAL);
        let is_marker = |id: &SnapshotId| matches!(self.observed.role(*id), Role::Marker(of, _) if of == *self.id());
        let journals: Vec<&String> = match &anchored {
            Some(marker) => named(marker).into_iter().collect(),
            None => self.observed.snapshots.keys().filter(|id| is_marker(id)).filter_map(named).collect(),
        };
        let ours = journals.iter().any(|theirs| **theirs == journal.root());
        journals.first().filter(|_| !ours).map(|theirs| (*theirs).clone())
    }
}

pub(super) fn fold(log: &Log) -> Result<Intent, Error> {
    let key = log.key();
    Intent::fold(key.publication.clone(), key.table, log.records())
        .map_err(|error| Error::Fold { log: format!("{}/{}/{}", key.catalog, key.table, key.publication), error })
}

/// The newest generation of a plain id, in refs or in the journal; the id itself where a generation was named.
async fn newest_generation(
    coordinator: &Coordinator,
    observed: &Observed,
    id: &PublicationId,
) -> Result<PublicationId, Error> {
    if id.generation() > 1 {
        return Ok(id.clone());
    }
    let journaled = coordinator.journal.publications(coordinator.catalog.identity(), observed.uuid).await?;
    let in_refs = observed.refs.keys().filter_map(PublicationId::of_ref);
    let same_name = in_refs.chain(journaled).filter(|other| other.name() == id.name());
    Ok(same_name.max_by_key(PublicationId::generation).unwrap_or_else(|| id.clone()))
}

/// A snapshot from which the candidate's marker can be reached.
pub(super) fn anchor(session: &Session) -> Option<SnapshotId> {
    let id = session.id();
    [id.audit_ref(), id.published_ref(), id.closed_ref()]
        .iter()
        .filter_map(|name| session.observed.reference(name))
        .map(|reference| reference.snapshot)
        .find(|snapshot| marker_below(&session.intent, &session.observed, *snapshot).is_some())
}

/// A catalog that gives no table. Where the journal knows of a request whose outcome nobody saw, readers may see the
/// candidate: that comes before the catalog's trouble.
async fn unreached(
    coordinator: &Coordinator,
    name: &TableName,
    id: &PublicationId,
    error: CatalogError,
) -> Result<Opened, Error> {
    // Where neither can be read, the catalog's trouble is the one to tell.
    let remembered = memories(coordinator, name, id).await.unwrap_or_default();
    match remembered.into_iter().find(|(_, intent)| intent.undecided().is_some()) {
        None => Err(error.into()),
        Some((_, intent)) => {
            let view = TableView::Missing { reason: error.to_string(), renamed: None, why: Absence::Unreachable };
            Ok(Opened::Lost(Box::new(reconcile(&intent, &view, FilesLive::NotKnown))))
        }
    }
}

/// What is remembered of this publication under another table's uuid that was begun under this table's name.
async fn earlier_table(
    coordinator: &Coordinator,
    name: &TableName,
    id: &PublicationId,
) -> Result<Option<(TableUuid, Intent)>, Error> {
    Ok(memories(coordinator, name, id).await?.into_iter().next())
}

/// The logs of this publication, or of its newest generation, under each table's uuid that was begun under this table's
/// name.
async fn memories(
    coordinator: &Coordinator,
    name: &TableName,
    id: &PublicationId,
) -> Result<Vec<(TableUuid, Intent)>, Error> {
    let mut found = Vec::new();
    let catalog = coordinator.catalog.identity();
    for uuid in coordinator.journal.tables(catalog).await? {
        let journaled = coordinator.journal.publications(catalog, uuid).await?.into_iter();
        let meant = journaled.filter(|other| other == id || (id.generation() == 1 && other.name() == id.name()));
        let Some(publication) = meant.max_by_key(PublicationId::generation) else { continue };
        let log = Log::open(coordinator.journal.clone(), LogKey { catalog: catalog.clone(), table: uuid, publication });
        let intent = fold(&log.await?)?;
        if intent.openings.iter().any(|opening| opening.table == *name) {
            found.push((uuid, intent));
        }
    }
    Ok(found)
}

/// The name under which a table is now, as far as the catalog lets it be found.
pub(super) async fn find_by_uuid(coordinator: &Coordinator, uuid: TableUuid) -> Option<TableName> {
    for name in coordinator.catalog.tables().await.unwrap_or_default() {
        // A table that cannot be loaded is not the one that was found.
        if let Ok(table) = coordinator.catalog.load(&name).await
            && TableUuid(table.metadata.uuid()) == uuid
        {
            return Some(name);
        }
    }
    None
}
