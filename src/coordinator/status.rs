//! `status`: where everything stands.

use chrono::DateTime;

use super::reconcile::next_commands;
use super::session::{Opened, Session, anchor};
use super::{Coordinator, Error, facts};
use crate::catalog::LoadedTable;
use crate::clock::instant;
use crate::ids::{PublicationId, TableName};
use crate::journal::lease::{Lease, LeaseState, SKEW_MARGIN, Standing};
use crate::journal::record::Event;
use crate::publish::Intent;
use crate::publish::reconcile::{FilesLive, State, TableView, reconcile};
use crate::publish::state::is_settled;
use crate::report::{LeaseReport, LeaseStanding, PublicationStatus, StatusReport, TableStatus};

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
                    let mut publication = self.publication_status(&mut session).await?;
                    // Of one publication; to look into every one would read the manifests of all.
                    let mut unread = Vec::new();
                    publication.conflict = self.conflict_of(&session, &publication.finding, &mut unread).await;
                    if publication.finding.state == State::Unknown {
                        return Err(Error::Usage(format!(
                            "nothing is known of {id} on {name}: `calve status {name}` lists its publications"
                        )));
                    }
                    TableStatus { error: unread.pop(), ..header(&session.table, vec![publication]) }
                }
                Opened::Lost(finding) => {
                    let next = next_commands(name, &finding);
                    let publication = PublicationStatus {
                        finding: *finding,
                        conflict: None,
                        owner: None,
                        begun: None,
                        scope: None,
                        closed: None,
                        failed_checks: Vec::new(),
                        foreign_journal: None,
                        leases: Vec::new(),
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
            conflict: None,
            owner: None,
            begun: None,
            scope: None,
            closed: None,
            failed_checks: Vec::new(),
            foreign_journal: None,
            leases: Vec::new(),
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
            conflict: None,
            owner: opened.as_ref().map(|opened| opened.owner.clone()).or(opening.map(|opening| opening.owner.clone())),
            begun,
            scope: opened.map(|opened| opened.scope_text).or(opening.map(|opening| opening.scope_text.clone())),
            closed: closing.map(|closing| (closing.why, closing.reason.clone())),
            failed_checks,
            foreign_journal: session.foreign_journal(self.journal.as_ref()),
            leases: if is_settled(&finding.state) { Vec::new() } else { self.lease_reports(session) },
            error: None,
            next: next_commands(session.name(), &finding),
            finding,
        })
    }

    /// The leases that were not given back, as far as this machine's clock tells.
    fn lease_reports(&self, session: &Session) -> Vec<LeaseReport> {
        let now = self.clock.now();
        let report = |lease: &Lease| {
            // The margins are for those who take a lease over; whoever reads wants to know what it says.
            let standing = match lease.standing(now, None) {
                Standing::Live if lease.until.checked_add_signed(SKEW_MARGIN).is_some_and(|end| end <= now) => {
                    Standing::Expired
                }
                standing => standing,
            };
            self.told(lease, standing)
        };
        LeaseState::of(session.log.records()).all().map(report).collect()
    }

    /// A lease as reports have it.
    pub(super) fn told(&self, lease: &Lease, standing: Standing) -> LeaseReport {
        LeaseReport {
            owner: lease.owner.clone(),
            holder: lease.holder,
            at: lease.at,
            until: lease.until,
            standing: match standing {
                Standing::Live => LeaseStanding::Live,
                Standing::Expired => LeaseStanding::Expired,
                Standing::Ended => LeaseStanding::Ended,
            },
            process: lease.process.as_ref().map(|process| process.number),
            reserved: lease.reserved,
            taken_from: lease.from.as_ref().map(|from| from.owner.clone()),
            clocks: lease.skew(self.clock.now(), lease.store),
        }
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
