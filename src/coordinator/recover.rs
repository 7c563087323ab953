//! `recover`: after crashes, every publication of this journal that nobody is at work on is looked at, and what its process
//! did not live to do is done: the verdict recorded, a receipt left, and, where that is asked for, an open candidate fenced.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::begin::only_begins;
use super::reconcile::next_commands;
use super::session::{Session, find_by_uuid, fold};
use super::{Coordinator, Error};
use crate::catalog::{CatalogError, LoadedTable};
use crate::ids::{PublicationId, TableName, TableUuid};
use crate::journal::LogKey;
use crate::journal::lease::{self, LeaseState, Standing, Taken};
use crate::journal::log::Log;
use crate::journal::record::CloseReason;
use crate::publish::Intent;
use crate::publish::reconcile::{Absence, FilesLive, Finding, TableView, reconcile};
use crate::publish::recover::{Known, Left, Recovery, Stands, is_settled_and_recorded, recover};
use crate::report::{LeaseReport, RecoverDid, RecoverItem, RecoverProblem, RecoverReport};

/// What `recover` is asked for.
#[derive(Debug, Clone, Default)]
pub struct RecoverRequest {
    /// The table; `None`: every table that the journal knows of this catalog.
    pub table: Option<TableName>,
    /// Fence the candidates that are open.
    pub fence: bool,
    /// The holder of a lease that is taken over although it may be live, because its machine is gone.
    pub takeover: Option<Uuid>,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
}

/// A table of the journal, as it can be read.
enum Place {
    Here(Box<LoadedTable>),
    Missing { name: Option<TableName>, reason: String, why: Absence },
}

/// One publication's log, read and folded.
struct Memory {
    log: Log,
    intent: Intent,
}

/// What is known of the leases of one publication.
struct Leases {
    /// Those that were never given back.
    reports: Vec<LeaseReport>,
    at_work: bool,
    /// One of them is the one to be taken over.
    taken_over: bool,
    warnings: Vec<String>,
}

impl Coordinator {
    /// Looks after the publications of this journal that nobody is at work on.
    ///
    /// # Errors
    /// The journal cannot be listed, or the table named is unknown to catalog and journal. What cannot be read of one
    /// publication is a line of the report.
    pub async fn recover(&self, request: &RecoverRequest) -> Result<RecoverReport, Error> {
        let mut report = RecoverReport {
            catalog: self.catalog.describe(),
            journal: self.journal.root(),
            dry_run: request.dry_run,
            settled: 0,
            publications: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        let (named, mut unknown) = match &request.table {
            None => (None, None),
            Some(name) => match self.catalog.load(name).await {
                Ok(table) => (Some(TableUuid(table.metadata.uuid())), None),
                Err(error) => (None, Some(error)),
            },
        };
        for uuid in self.journal.tables(self.catalog.identity()).await? {
            let mut problems = Vec::new();
            let memories = self.memories_of(uuid, &mut problems).await?;
            let names = names(&memories);
            if let Some(wanted) = &request.table
                && named != Some(uuid)
                && !names.contains(wanted)
            {
                continue;
            }
            unknown = None;
            report.problems.extend(problems);
            let place = self.place(uuid, &names).await;
            for memory in memories {
                self.recover_into(&mut report, request, &place, memory).await;
            }
        }
        if let (Some(error), Some(_)) = (unknown, &request.table) {
            return Err(error.into());
        }
        if let Some(holder) = request.takeover
            && !report.publications.iter().any(|item| item.leases.iter().any(|lease| lease.holder == holder))
        {
            report
                .warnings
                .push(format!("no publication has a lease of {holder}: `calve status` shows who holds which"));
        }
        Ok(report)
    }

    /// The logs of a table. One that cannot be read hides no other.
    async fn memories_of(&self, uuid: TableUuid, problems: &mut Vec<RecoverProblem>) -> Result<Vec<Memory>, Error> {
        let catalog = self.catalog.identity();
        let mut memories = Vec::new();
        for publication in self.journal.publications(catalog, uuid).await? {
            let key = LogKey { catalog: catalog.clone(), table: uuid, publication: publication.clone() };
            let read = match Log::open(self.journal.clone(), key).await {
                Ok(log) => fold(&log).map(|intent| Memory { log, intent }),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(memory) => memories.push(memory),
                Err(error) => problems.push(problem(None, &publication, &error)),
            }
        }
        Ok(memories)
    }

    /// The table, under whichever name it is now. Read after its logs, so that no record looks newer than the table.
    async fn place(&self, uuid: TableUuid, names: &[TableName]) -> Place {
        let mut missing = Place::Missing {
            name: None,
            reason: format!("no name is known of the table {uuid}"),
            why: Absence::Missing,
        };
        for name in names {
            let (reason, why) = match self.catalog.load(name).await {
                Ok(table) if TableUuid(table.metadata.uuid()) == uuid => return Place::Here(Box::new(table)),
                Ok(table) => {
                    let found = table.metadata.uuid();
                    (format!("{name} is another table now: {found} instead of {uuid}"), Absence::Replaced)
                }
                Err(error @ (CatalogError::NoSuchTable { .. } | CatalogError::Forbidden { .. })) => {
                    (error.to_string(), Absence::Missing)
                }
                // Nothing is known of it, so that no other name needs to be tried.
                Err(error) => {
                    let (name, reason) = (Some(name.clone()), error.to_string());
                    return Place::Missing { name, reason, why: Absence::Unreachable };
                }
            };
            missing = Place::Missing { name: Some(name.clone()), reason, why };
        }
        match find_by_uuid(self, uuid).await {
            None => missing,
            Some(name) => match self.catalog.load(&name).await {
                Ok(table) => Place::Here(Box::new(table)),
                Err(error) => Place::Missing { name: Some(name), reason: error.to_string(), why: Absence::Unreachable },
            },
        }
    }

    async fn recover_into(&self, report: &mut RecoverReport, request: &RecoverRequest, place: &Place, memory: Memory) {
        let id = memory.intent.publication.clone();
        let (table, recovered) = match place {
            Place::Here(table) => (Some(table.name.clone()), self.recover_here(request, table, memory).await),
            Place::Missing { name, reason, why } => {
                (name.clone(), self.recover_missing(name.as_ref(), reason, *why, &memory).await)
            }
        };
        match recovered {
            Ok(Some(item)) => report.publications.push(item),
            Ok(None) => report.settled = report.settled.saturating_add(1),
            Err(error) => report.problems.push(problem(table, &id, &error)),
        }
    }

    /// A publication whose table is not there: whether readers may see it, the journal alone tells.
    async fn recover_missing(
        &self,
        name: Option<&TableName>,
        reason: &str,
        why: Absence,
        memory: &Memory,
    ) -> Result<Option<RecoverItem>, Error> {
        let intent = &memory.intent;
        if why == Absence::Unreachable && intent.undecided().is_none() {
            return Err(Error::Failed(format!("its table cannot be read: {reason}")));
        }
        let view = TableView::Missing { reason: reason.to_owned(), renamed: None, why };
        let finding = reconcile(intent, &view, FilesLive::NotKnown);
        let leases = self.leases(&memory.log, None).await?;
        let known = Known { at_work: leases.at_work, foreign: false, only_begins: false, fence: false };
        let recovery = recover(intent, &finding, known);
        let next = match (recovery, name) {
            (Recovery::Tell(Stands::Unresolved), Some(name)) => next_commands(name, &finding),
            _ => Vec::new(),
        };
        Ok(Some(item(name.cloned(), finding, recovery, RecoverDid::Nothing, leases, next)))
    }

    /// `None`: it is settled, and nothing is missing.
    async fn recover_here(
        &self,
        request: &RecoverRequest,
        table: &LoadedTable,
        memory: Memory,
    ) -> Result<Option<RecoverItem>, Error> {
        let Memory { log, intent } = memory;
        let mut session = Session { table: table.clone(), observed: table.observe(), log, intent, past: None };
        if is_settled_and_recorded(&session.intent, &session.finding_without_files()) {
            return Ok(None);
        }
        let finding = session.finding(self).await?;
        let mut leases = self.leases(&session.log, request.takeover).await?;
        let recovery = self.decide_recovery(&session, &finding, request, leases.at_work);
        let acts = matches!(recovery, Recovery::Reconcile(_) | Recovery::Fence) || leases.taken_over;
        if !acts || request.dry_run || matches!(recovery, Recovery::Leave(_)) {
            let did = match recovery {
                Recovery::Reconcile(_) => RecoverDid::WouldRecord,
                Recovery::Fence => RecoverDid::WouldFence,
                Recovery::Tell(_) if leases.taken_over => RecoverDid::WouldTakeOver,
                Recovery::Leave(_) | Recovery::Tell(_) => RecoverDid::Nothing,
            };
            let next = next_of(&session, &finding, recovery);
            return Ok(Some(item(Some(table.name.clone()), finding, recovery, did, leases, next)));
        }
        // Two that recover at once: one claims, and the other sees it at work. A holder of its own, since this process may
        // hold the lease of a use case that is under way.
        let holder = self.clock.fresh_uuid();
        let (clock, owner) = (self.clock.as_ref(), &self.owner);
        let over = request.takeover;
        match lease::claim(&mut session.log, clock, owner, holder, self.process.clone(), over).await? {
            Taken::Held(_) => {
                leases = self.leases(&session.log, None).await?;
                let left = Recovery::Leave(Left::AtWork);
                Ok(Some(item(Some(table.name.clone()), finding, left, RecoverDid::Nothing, leases, Vec::new())))
            }
            Taken::Ours(_) => {
                let done = self.recover_claimed(&mut session, request).await;
                if let Err(error) = lease::release(&mut session.log, clock, owner, holder).await {
                    leases
                        .warnings
                        .push(format!("the claim could not be given back, and ends with this process: {error}"));
                }
                let (finding, recovery, mut did, warnings) = done?;
                if did == RecoverDid::Nothing && leases.taken_over {
                    did = RecoverDid::TakenOver;
                }
                leases.warnings.extend(warnings);
                let next = match did {
                    // Its receipt stands.
                    RecoverDid::Settled => Vec::new(),
                    _ => next_of(&session, &finding, recovery),
                };
                Ok(Some(item(Some(table.name.clone()), finding, recovery, did, leases, next)))
            }
        }
    }

    /// Decides again under the claim, and carries it out.
    async fn recover_claimed(
        &self,
        session: &mut Session,
        request: &RecoverRequest,
    ) -> Result<(Finding, Recovery, RecoverDid, Vec<String>), Error> {
        session.refresh(self).await?;
        let finding = session.finding(self).await?;
        let mut warnings = Vec::new();
        let (finding, did) = match self.decide_recovery(session, &finding, request, false) {
            Recovery::Leave(_) | Recovery::Tell(_) => (finding, RecoverDid::Nothing),
            Recovery::Reconcile(_) => {
                let report = self.reconcile_session(session).await?;
                warnings.extend(report.warnings);
                (report.finding, if report.settled { RecoverDid::Settled } else { RecoverDid::Recorded })
            }
            Recovery::Fence => {
                let reason = "recovered: nobody was at work on it";
                let after = self.fence(session, CloseReason::Abandoned, reason, &mut warnings).await?;
                (after, RecoverDid::Fenced)
            }
        };
        session.refold()?;
        let recovery = self.decide_recovery(session, &finding, &RecoverRequest::default(), false);
        Ok((finding, recovery, did, warnings))
    }

    fn decide_recovery(
        &self,
        session: &Session,
        finding: &Finding,
        request: &RecoverRequest,
        at_work: bool,
    ) -> Recovery {
        let known = Known {
            at_work,
            foreign: session.foreign_journal(self.journal.as_ref()).is_some(),
            only_begins: only_begins(session),
            fence: request.fence,
        };
        recover(&session.intent, finding, known)
    }

    /// The leases of a log that were never given back, and whether anyone may be at work under them.
    async fn leases(&self, log: &Log, takeover: Option<Uuid>) -> Result<Leases, Error> {
        let state = LeaseState::of(log.records());
        let mut found = Leases { reports: Vec::new(), at_work: false, taken_over: false, warnings: Vec::new() };
        let mut leases: Vec<_> = state.all().cloned().collect();
        for lease in &mut leases {
            let standing = lease::standing(log, lease, self.clock.as_ref()).await?;
            found.reports.push(self.told(lease, standing));
            if standing != Standing::Live {
                continue;
            }
            let here = lease.process.as_ref().filter(|process| process.is_here());
            match (takeover == Some(lease.holder), here) {
                (false, _) => found.at_work = true,
                (true, None) => found.taken_over = true,
                (true, Some(process)) => {
                    found.at_work = true;
                    let number = process.number;
                    found.warnings.push(format!("process {number} of this machine holds that lease: end it first"));
                }
            }
        }
        Ok(found)
    }
}

/// The names under which publications of a table were begun, the newest first, each once.
fn names(memories: &[Memory]) -> Vec<TableName> {
    let mut openings: Vec<_> = memories
        .iter()
        .flat_map(|memory| {
            let at = memory.log.records().first().map(|record| record.at);
            memory.intent.openings.iter().map(move |opening| (at, &opening.table))
        })
        .collect();
    openings.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut seen = BTreeSet::new();
    openings.into_iter().filter(|(_, name)| seen.insert(*name)).map(|(_, name)| name.clone()).collect()
}

fn problem(table: Option<TableName>, publication: &PublicationId, error: &Error) -> RecoverProblem {
    RecoverProblem { table, publication: publication.clone(), error: error.to_string(), exit: error.exit_code() }
}

fn next_of(session: &Session, finding: &Finding, recovery: Recovery) -> Vec<String> {
    match recovery {
        Recovery::Leave(_) => Vec::new(),
        Recovery::Tell(Stands::NeverOpened) => {
            vec![format!("calve begin {} {}", session.name(), session.id())]
        }
        Recovery::Tell(_) | Recovery::Reconcile(_) | Recovery::Fence => next_commands(session.name(), finding),
    }
}

fn item(
    table: Option<TableName>,
    finding: Finding,
    recovery: Recovery,
    did: RecoverDid,
    leases: Leases,
    next: Vec<String>,
) -> RecoverItem {
    let (stands, left) = match recovery {
        Recovery::Leave(left) => (None, Some(left)),
        Recovery::Tell(stands) | Recovery::Reconcile(stands) => (Some(stands), None),
        Recovery::Fence => (Some(Stands::Open), None),
    };
    RecoverItem { table, finding, did, stands, left, leases: leases.reports, next, warnings: leases.warnings }
}
