//! `status`: where everything stands.

use chrono::DateTime;

use super::reconcile::next_commands;
use super::session::{Opened, Session, anchor};
use super::{Coordinator, Error, facts};
use crate::catalog::LoadedTable;
use crate::clock::instant;
use crate::ids::{PublicationId, TableName};
use crate::journal::record::Event;
use crate::publish::Intent;
use crate::publish::reconcile::{FilesLive, State, TableView, reconcile};
use crate::report::{PublicationStatus, StatusReport, TableStatus};

impl Coordinator {
    /// Where tables and their publications stand; of all tables, one, or one publication.
    ///
    /// # Errors
    /// The catalog cannot be read, or the table or publication named is unknown. A table that cannot be read among
    /// all is a line of the report.
    pub async fn status(&self, table: Option<&TableName>, id: Option<&PublicationId>) -> Result<StatusReport, Error> {
        let catalog = self.catalog.describe();
        let Some(name) = table else {
            let mut tables = Vec::new();
            for name in self.catalog.tables().await? {
                tables.push(match self.table_status(&name).await {
                    Ok(status) => status,
                    Err(error) => {
                        let error = Some(error.to_string());
                        TableStatus { table: name, main: None, updated: None, publications: Vec::new(), error }
                    }
                });
            }
            return Ok(StatusReport { catalog, tables });
        };
        let status = match id {
            None => self.table_status(name).await?,
            Some(id) => match Session::open_any(self, name, id).await? {
                Opened::Here(mut session) => {
                    let publication = self.publication_status(&mut session).await?;
                    if publication.finding.state == State::Unknown {
                        return Err(Error::Usage(format!(
                            "nothing is known of {id} on {name}: `calve status {name}` lists its publications"
                        )));
                    }
                    header(&session.table, vec![publication])
                }
                Opened::Lost(finding) => {
                    let next = next_commands(name, &finding);
                    let publication = PublicationStatus {
                        finding: *finding,
                        owner: None,
                        begun: None,
                        scope: None,
                        closed: None,
                        failed_checks: Vec::new(),
                        foreign_journal: None,
                        error: None,
                        next,
                    };
                    let table = name.clone();
                    TableStatus { table, main: None, updated: None, publications: vec![publication], error: None }
                }
            },
        };
        Ok(StatusReport { catalog, tables: vec![status] })
    }

    pub(super) async fn table_status(&self, name: &TableName) -> Result<TableStatus, Error> {
        let table = self.catalog.load(name).await?;
        let mut publications = Vec::new();
        for id in self.publications_of(&table).await? {
            // One log that cannot be read hides no other publication, nor what the table itself tells of its own.
            publications.push(match Session::over_exact(self, table.clone(), &id).await {
                Ok(mut session) => self.publication_status(&mut session).await?,
                Err(error) => self.status_without_log(&table, id, &error),
            });
        }
        publications.sort_by_key(|publication| std::cmp::Reverse(publication.begun));
        Ok(header(&table, publications))
    }

    /// What the table alone tells of a publication whose log cannot be read.
    fn status_without_log(&self, table: &LoadedTable, id: PublicationId, error: &Error) -> PublicationStatus {
        let view = TableView::Present(Box::new(table.observe()));
        let finding = reconcile(&Intent::empty(id, None), &view, FilesLive::NotKnown);
        PublicationStatus {
            next: next_commands(&table.name, &finding),
            finding,
            owner: None,
            begun: None,
            scope: None,
            closed: None,
            failed_checks: Vec::new(),
            foreign_journal: None,
            error: Some(error.to_string()),
        }
    }

    pub(super) async fn publication_status(&self, session: &mut Session) -> Result<PublicationStatus, Error> {
        let finding = session.finding(self).await?;
        let opened = anchor(session).and_then(|snapshot| facts::Opened::of(session, snapshot).ok());
        let opening = session.intent.openings.last();
        let begun = opened
            .as_ref()
            .and_then(|opened| session.observed.snapshots.get(&opened.marker))
            .and_then(|marker| instant(marker.timestamp_ms))
            .or_else(|| session.log.records().first().map(|record| record.at));
        // The newest word on checks counts: a later seal makes earlier failures history.
        let failed_checks = session.log.records().iter().fold(Vec::new(), |failed, record| match &record.event {
            Event::CheckFailed { failed, .. } => failed.clone(),
            Event::Intended { seal: Some(_), .. } => Vec::new(),
            _ => failed,
        });
        let closing = session.intent.closings.last().filter(|_| finding.state == State::Closed);
        Ok(PublicationStatus {
            owner: opened.as_ref().map(|opened| opened.owner.clone()).or(opening.map(|opening| opening.owner.clone())),
            begun,
            scope: opened.map(|opened| opened.scope_text).or(opening.map(|opening| opening.scope_text.clone())),
            closed: closing.map(|closing| (closing.why, closing.reason.clone())),
            failed_checks,
            foreign_journal: session.foreign_journal(self.journal.as_ref()),
            error: None,
            next: next_commands(session.name(), &finding),
            finding,
        })
    }
}

fn header(table: &LoadedTable, publications: Vec<PublicationStatus>) -> TableStatus {
    let current = table.metadata.current_snapshot();
    TableStatus {
        table: table.name.clone(),
        main: current.map(|snapshot| crate::ids::SnapshotId(snapshot.snapshot_id())),
        updated: current.and_then(|snapshot| instant(snapshot.timestamp_ms())).map(|at: DateTime<_>| at),
        publications,
        error: None,
    }
}
