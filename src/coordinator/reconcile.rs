//! `reconcile`: what happened, from the table; and SETTLE, where an engine made the change visible by itself.

use std::collections::BTreeSet;

use super::effect::{Effect, Sent};
use super::error::run_again;
use super::publish::told;
use super::session::{Opened, Session};
use super::{Coordinator, Error, next};
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::record::Verb;
use crate::observed::Role;
use crate::publish::advice::advise;
use crate::publish::commits;
use crate::publish::own::marker_below;
use crate::publish::past::Past;
use crate::publish::reconcile::{Absence, Finding, Moved, Sent as Requests, State, base_of};
use crate::report::{ReconcileAllReport, ReconcileReport};

impl Coordinator {
    /// What happened to one publication.
    ///
    /// # Errors
    /// Only where table or journal cannot be read. A lost table is a finding.
    pub async fn reconcile(&self, table: &TableName, id: &PublicationId) -> Result<ReconcileReport, Error> {
        match Session::open_any(self, table, id).await? {
            Opened::Here(mut session) => self.reconcile_session(&mut session).await,
            Opened::Lost(finding) => Ok(lost(table, *finding)),
        }
    }

    /// What happened to exactly this generation.
    pub(super) async fn reconcile_exact(
        &self,
        table: &TableName,
        id: &PublicationId,
    ) -> Result<ReconcileReport, Error> {
        match Session::open_any(self, table, id).await? {
            Opened::Here(session) if session.id() == id => {
                let mut session = session;
                self.reconcile_session(&mut session).await
            }
            Opened::Here(session) => {
                let mut session = Session::over_exact(self, session.table, id).await?;
                self.reconcile_session(&mut session).await
            }
            Opened::Lost(finding) => Ok(lost(table, *finding)),
        }
    }

    /// What happened to every publication of a table.
    ///
    /// # Errors
    /// Only where table or journal cannot be read.
    pub async fn reconcile_all(&self, table: &TableName) -> Result<ReconcileAllReport, Error> {
        let loaded = self.catalog.load(table).await?;
        let mut publications = Vec::new();
        for id in self.publications_of(&loaded).await? {
            let mut session = Session::over_exact(self, self.catalog.load(table).await?, &id).await?;
            publications.push(self.reconcile_session(&mut session).await?);
        }
        Ok(ReconcileAllReport { publications })
    }

    /// The same over a session that was read just now.
    pub(super) async fn reconcile_session(&self, session: &mut Session) -> Result<ReconcileReport, Error> {
        let mut warnings = Vec::new();
        let mut finding = session.finding_in_full(self).await?;
        let mut settled = false;
        if matches!(finding.state, State::Bypassed { .. }) {
            (finding, settled) = self.settle(session, finding, &mut warnings).await;
        }
        let journal = session.intent.has_journal();
        if journal && !session.intent.newer {
            self.note_decision(session, None, &finding, &mut warnings).await;
        }
        let conflict = self.conflict_of(session, &finding, &mut warnings).await;
        let looked_back = session.past.as_ref().map(Past::looked_back);
        let report = report(session.name(), finding, settled, journal, warnings);
        Ok(ReconcileReport { looked_back, conflict, ..report })
    }

    /// Leaves a receipt for a change that an engine made visible. Returns the finding of the bypass itself, since that
    /// is what has to be told, and whether the receipt stands.
    pub(super) async fn settle(
        &self,
        session: &mut Session,
        finding: Finding,
        warnings: &mut Vec<String>,
    ) -> (Finding, bool) {
        let State::Bypassed { snapshot, head, .. } = finding.state else { return (finding, false) };
        if let Err(error) = session.require_own_journal(self).await {
            warnings.push(format!("no receipt was left: {error}"));
            return (finding, false);
        }
        let marker = marker_below(&session.intent, &session.observed, head);
        let base = marker.and_then(|marker| base_of(&session.observed, marker));
        // The receipt names the newest own snapshot in main's ancestry; what main reached once and left is none.
        let main = session.observed.main();
        let in_main = |id: &SnapshotId| main.is_some_and(|main| session.observed.ancestry(main).any(|a| a == *id));
        let visible = snapshot.filter(in_main).unwrap_or(head);
        let commit = commits::settle(&self.target(session), head, visible, base, marker);
        // Whatever becomes of the receipt, the bypass is what has to be told.
        let problem = match self.send(session, Effect::new(Verb::Settle, commit)).await {
            Err(error) => error.to_string(),
            Ok(Sent::Behind) => "another process works on this publication".to_owned(),
            Ok(Sent::Done { warnings: more, unread, reply, .. }) => {
                warnings.extend(more);
                let after = match unread {
                    None => session.finding(self).await,
                    Some(error) => Err(error),
                };
                match after {
                    Ok(after) if matches!(after.state, State::Published { .. }) => return (finding, true),
                    Ok(_) => told(&reply),
                    Err(error) => format!("{}; the table cannot be read: {error}", told(&reply)),
                }
            }
        };
        warnings.push(run_again(format!("no receipt was seen ({problem})")));
        (finding, false)
    }

    /// Every publication that a table's refs and snapshots or the journal know, sorted.
    pub(super) async fn publications_of(
        &self,
        table: &crate::catalog::LoadedTable,
    ) -> Result<BTreeSet<PublicationId>, Error> {
        let observed = table.observe();
        let in_refs = observed.refs.keys().filter_map(PublicationId::of_ref);
        let in_summaries = observed.snapshots.values().filter_map(|snapshot| match snapshot.role() {
            Role::Marker(id, _) | Role::Seal(id, _) | Role::Staged(id, _) => Some(id),
            Role::Other => None,
        });
        let mut ids: BTreeSet<_> = in_refs.chain(in_summaries).collect();
        ids.extend(self.journal.publications(self.catalog.identity(), observed.uuid).await?);
        Ok(ids)
    }
}

/// What may be done next in a state, as command lines.
pub(super) fn next_commands(table: &TableName, finding: &Finding) -> Vec<String> {
    let id = &finding.publication;
    // What was to be abandoned is not published by following the first line.
    let abandon = finding.abandon.is_some();
    match &finding.state {
        State::Published { .. } | State::Closed => Vec::new(),
        State::Bypassed { .. } => next(table, id, &["reconcile"]),
        State::Sealed { .. } if abandon => next(table, id, &["abandon --reason …", "publish"]),
        State::Open { .. } | State::SubjectMoved { .. } if abandon => {
            next(table, id, &["abandon --reason …", "validate"])
        }
        State::Sealed { sent, .. } => match sent {
            Requests::None | Requests::NoJournal | Requests::Rejected | Requests::Conflicted => {
                next(table, id, &["publish", "abandon --reason …"])
            }
            Requests::InFlight => next(table, id, &["publish", "abandon --reason …"]),
        },
        // Under another schema or spec the same rows can be checked and sealed anew; on another main they cannot.
        State::Moved { moved, .. } if !abandon && !moved.iter().any(|moved| matches!(moved, Moved::Main { .. })) => {
            next(table, id, &["validate", "abandon --reason …"])
        }
        State::Moved { .. } => next(table, id, &["abandon --reason …"]),
        State::Open { .. } => next(table, id, &["validate", "abandon --reason …"]),
        State::SubjectMoved { .. } => next(table, id, &["validate", "abandon --reason …"]),
        State::Foreign { .. } => next(table, id, &["abandon --reason …"]),
        State::Gone => next(table, id, &["review", "abandon --reason …"]),
        State::Lost { renamed: Some(renamed), .. } => next(renamed, id, &["reconcile"]),
        State::Lost { renamed: None, why, .. } => match why {
            Absence::Unreachable => next(table, id, &["reconcile"]),
            Absence::Missing => vec!["calve status".to_owned()],
            Absence::Replaced => next(table, id, &["begin"]),
        },
        State::Regressed { .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { .. }
        | State::Ambiguous { .. }
        | State::Consumed => next(table, id, &["review"]),
        State::Unknown => Vec::new(),
    }
}

/// What is to be told of a publication whose table is not there.
pub(super) fn lost(table: &TableName, finding: Finding) -> ReconcileReport {
    report(table, finding, false, true, Vec::new())
}

fn report(table: &TableName, finding: Finding, settled: bool, journal: bool, warnings: Vec<String>) -> ReconcileReport {
    let next = next_commands(table, &finding);
    let row = finding.state.row();
    let advice = advise(table, &finding);
    ReconcileReport {
        table: table.clone(),
        finding,
        row,
        conflict: None,
        settled,
        journal,
        looked_back: None,
        advice,
        next,
        warnings,
    }
}

#[cfg(test)]
mod tests;
