//! `log`: published history with its evidence.

use super::session::Session;
use super::{Coordinator, Error};
use crate::clock::instant;
use crate::ids::{SnapshotId, TableName};
use crate::observed::{Role, summary};
use crate::publish::Intent;
use crate::publish::reconcile::{FilesLive, State, TableView, Visibility, reconcile};
use crate::report::{LogEntry, LogReport};

impl Coordinator {
    /// Every publication of a table that is or was visible, newest first. Needs no journal.
    ///
    /// # Errors
    /// Table or journal cannot be read.
    pub async fn log(&self, table: &TableName) -> Result<LogReport, Error> {
        let loaded = self.catalog.load(table).await?;
        let observed = loaded.observe();
        let view = TableView::Present(Box::new(observed.clone()));
        let mut entries = Vec::new();
        for id in self.publications_of(&loaded).await? {
            let finding = match Session::over_exact(self, loaded.clone(), &id).await {
                Ok(mut session) => session.finding(self).await?,
                // One log that cannot be read hides no published change: the table tells of it.
                Err(_) => reconcile(&Intent::empty(id.clone(), None), &view, FilesLive::NotKnown),
            };
            let visible: Option<(SnapshotId, bool, Visibility, bool)> = match finding.state {
                State::Published { snapshot, sealed, visibility } => Some((snapshot, sealed, visibility, true)),
                State::Bypassed { snapshot: Some(snapshot), sealed, visibility, .. }
                | State::ReceiptRemoved { snapshot: Some(snapshot), sealed, visibility } => {
                    Some((snapshot, sealed, visibility, false))
                }
                State::VisibleAfterFence { snapshot: Some(snapshot), visibility } => {
                    let sealed = matches!(observed.role(snapshot), Role::Seal(..));
                    Some((snapshot, sealed, visibility, false))
                }
                _ => None,
            };
            let Some((snapshot, sealed, visibility, receipt)) = visible else { continue };
            let facts = observed.snapshots.get(&snapshot);
            let value = |key: &str| facts.and_then(|facts| facts.summary.get(key)).cloned();
            let checks = facts.into_iter().flat_map(|facts| &facts.summary).filter_map(|(key, value)| {
                key.strip_prefix(summary::CHECK_PREFIX).map(|name| (name.to_owned(), value.clone()))
            });
            entries.push(LogEntry {
                publication: id,
                snapshot,
                at: facts.and_then(|facts| instant(facts.timestamp_ms)),
                sealed,
                visibility,
                receipt,
                checks: checks.collect(),
                statement: value(summary::STATEMENT_DIGEST),
            });
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        Ok(LogReport { table: table.clone(), entries })
    }
}
