//! Facts about a candidate that several use cases need: what BEGIN fixed, which snapshot holds its data, whether its
//! files are live in main.

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use super::session::Session;
use crate::data::live::{added_files_live_in, live_entries};
use crate::identity::change_between;
use crate::ids::{Incarnation, Owner, PublicationId, SnapshotId};
use crate::journal::record::Source;
use crate::observed::{Role, summary};
use crate::publish::intent::Intent;
use crate::publish::own::marker_below;
use crate::publish::reconcile::{FilesLive, base_of};
use crate::scope::Scope;

/// What BEGIN fixed, from the journal, or else from the marker's summary.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub marker: SnapshotId,
    pub incarnation: Incarnation,
    pub base: Option<SnapshotId>,
    pub scope: String,
    pub scope_text: String,
    pub reads: Option<String>,
    pub code: Option<String>,
    pub sources: Vec<Source>,
    pub owner: Owner,
}

impl Opened {
    /// Of the candidate whose branch, seal or other snapshot is given.
    pub fn of(session: &Session, snapshot: SnapshotId) -> Result<Self, Error> {
        let marker = marker_below(&session.intent, &session.observed, snapshot).ok_or_else(|| {
            Error::Failed(format!(
                "{snapshot} does not stand on a marker of {}, or the marker was expired",
                session.id()
            ))
        })?;
        let Role::Marker(_, incarnation) = session.observed.role(marker) else {
            return Err(Error::Failed(format!("{marker} is no marker")));
        };
        let values = session.observed.snapshots.get(&marker).map(|s| s.summary.clone()).unwrap_or_default();
        let owner = Owner(values.get(summary::OWNER).cloned().unwrap_or_default());
        let base = base_of(&session.observed, marker);
        if let Some(opening) = session.intent.opening(incarnation) {
            return Ok(Self {
                marker,
                incarnation,
                base,
                scope: opening.scope.clone(),
                scope_text: opening.scope_text.clone(),
                reads: opening.reads.clone(),
                code: opening.code.clone(),
                sources: opening.sources.clone(),
                owner,
            });
        }
        let whole = |key: &str| match values.get(key) {
            Some(value) if value.starts_with("sha256:") => Err(Error::Failed(format!(
                "the marker of {} carries {key} by digest only, and the journal that has it whole is not here: pass --journal {}",
                session.id(),
                values.get(summary::JOURNAL).map_or("…", String::as_str)
            ))),
            value => Ok(value.cloned()),
        };
        let scope = whole(summary::SCOPE)?.unwrap_or_else(|| Scope::whole_table().canonical());
        Ok(Self {
            marker,
            incarnation,
            base,
            // A column may be gone; what is only shown then is the canonical form.
            scope_text: Scope::from_canonical(&scope, session.table.metadata.current_schema())
                .map_or_else(|_| scope.clone(), |bound| bound.shown(session.table.metadata.current_schema())),
            scope,
            reads: whole(summary::READS)?,
            code: values.get(summary::CODE).cloned(),
            sources: values
                .iter()
                .filter_map(|(key, revision)| {
                    let name = key.strip_prefix(summary::SOURCE_PREFIX)?.to_owned();
                    Some(Source { name, revision: revision.clone() })
                })
                .collect(),
            owner,
        })
    }

    /// The scope, bound to the table's current schema.
    pub fn bound_scope(&self, session: &Session) -> Result<Scope, Error> {
        Ok(Scope::from_canonical(&self.scope, session.table.metadata.current_schema())?)
    }

    /// Sources by name.
    pub fn sources_by_name(&self) -> BTreeMap<String, String> {
        self.sources.iter().map(|source| (source.name.clone(), source.revision.clone())).collect()
    }
}

/// `S`: the newest ancestor-or-self of the head that is no seal.
pub(super) fn data_snapshot(session: &Session, head: SnapshotId) -> SnapshotId {
    session
        .observed
        .ancestry(head)
        .find(|snapshot| !matches!(session.observed.role(*snapshot), Role::Seal(..)))
        .unwrap_or(head)
}

/// Are files that this candidate added live in main?
pub(super) async fn files_live(session: &Session) -> Result<FilesLive, Error> {
    let mut files: BTreeSet<String> = session.intent.files.iter().map(|file| file.path.clone()).collect();
    let branch = session.observed.reference(&session.id().audit_ref()).filter(|audit| audit.kind.is_branch());
    let fenced = session.observed.reference(&session.id().closed_ref());
    let receipt = session.observed.reference(&session.id().published_ref());
    if let Some(head) = branch.or(fenced).or(receipt).map(|reference| reference.snapshot)
        && let Some(marker) = marker_below(&session.intent, &session.observed, head)
    {
        // Engines' files are in no journal; the branch itself tells them, or the fence or receipt that took its place.
        let before = live_entries(&session.table, Some(marker)).await?;
        let after = live_entries(&session.table, Some(data_snapshot(session, head))).await?;
        files.extend(change_between(&before, &after).added.into_iter().map(|entry| entry.file.file_path().to_owned()));
    }
    // A job that adopts existing files adopts the same ones when it is run again. Where that was published, they tell of it.
    let name = session.id().name();
    let later = session.observed.refs.keys().filter_map(PublicationId::of_ref);
    let later: BTreeSet<_> =
        later.filter(|id| id.name() == name && id.generation() > session.id().generation()).collect();
    for id in later {
        let receipt = session.observed.reference(&id.published_ref()).map(|receipt| receipt.snapshot);
        let memory = Intent::empty(id, None);
        if let Some(published) = receipt
            && let Some(marker) = marker_below(&memory, &session.observed, published)
        {
            let before = live_entries(&session.table, Some(marker)).await?;
            let after = live_entries(&session.table, Some(published)).await?;
            for entry in change_between(&before, &after).added {
                files.remove(entry.file.file_path());
            }
        }
    }
    let Some(main) = session.observed.main().filter(|_| !files.is_empty()) else { return Ok(FilesLive::NotKnown) };
    match added_files_live_in(&session.table, Some(main), &files).await? {
        true => Ok(FilesLive::Yes),
        false => Ok(FilesLive::No),
    }
}
