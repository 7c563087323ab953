//! `publish`: the gate and the swap. Reconciles by itself when the answer is unclear; never fences, never deletes.

use super::effect::{Effect, Sent};
use super::reconcile::next_commands;
use super::session::{Opened, Session};
use super::{Coordinator, Error};
use crate::contract::Contract;
use crate::ids::{PublicationId, RefName, TableName};
use crate::journal::record::{ReplyRecord, Verb};
use crate::observed::RefKind;
use crate::publish::decide::{Decision, decide};
use crate::publish::outcome::{Cause, PublishOutcome, Rejection, Via};
use crate::publish::reconcile::{CONFLICTED_TRIES, Finding, Sent as Requests, State};
use crate::report::PublishReport;

/// How publishing went on after one request.
enum After {
    /// This is how it ended, and what the table showed, if it could be read.
    Ended(PublishOutcome, Option<Finding>),
    /// It is to be decided again.
    Again,
}

impl Coordinator {
    /// Publishes a sealed candidate, or says why not.
    ///
    /// # Errors
    /// Only before anything was sent. Once a request may have left, the answer is an outcome.
    pub async fn publish(
        &self,
        table: &TableName,
        id: &PublicationId,
        contract: &Contract,
    ) -> Result<PublishReport, Error> {
        let mut session = match Session::open_any(self, table, id).await? {
            Opened::Here(session) => *session,
            Opened::Lost(finding) => {
                let outcome = PublishOutcome::from_finding(&finding, Via::Reconciled, Vec::new());
                return Ok(self.report(table, id, None, outcome, Some(*finding), 0, Vec::new()));
            }
        };
        let mut warnings = Vec::new();
        let mut requests = 0;
        // Each turn decides anew from a fresh reading. Conflicts that the table does not show are bounded by the
        // reconcile table itself; the bound here also covers other processes that keep appending to the log.
        for _ in 0..CONFLICTED_TRIES.saturating_mul(3) {
            match self.turn(&mut session, contract, &mut requests, &mut warnings).await {
                Ok(After::Again) => {}
                Ok(After::Ended(outcome, finding)) => {
                    let (outcome, conflict) =
                        self.looked_into(&session, outcome, finding.as_ref(), &mut warnings).await;
                    let report = self.report(table, id, Some(&session), outcome, finding, requests, warnings);
                    return Ok(PublishReport { conflict, ..report });
                }
                // Whatever fails now, a request of this command or of an earlier one may be applied.
                Err(error) if requests > 0 || session.intent.publish_may_be_applied() => {
                    let reasons = vec![error.to_string(), "a request that was sent may be applied".to_owned()];
                    let outcome = PublishOutcome::Unresolved { cause: Cause::InFlight, reasons };
                    return Ok(self.report(table, id, Some(&session), outcome, None, requests, warnings));
                }
                Err(error) => return Err(error),
            }
        }
        let reasons = vec!["other commands keep working on this publication: run the same command again".to_owned()];
        let outcome = match requests {
            0 => PublishOutcome::Rejected { rejection: Rejection::Refused, reasons },
            _ => PublishOutcome::Unresolved { cause: Cause::InFlight, reasons },
        };
        Ok(self.report(table, id, Some(&session), outcome, None, requests, warnings))
    }

    /// One turn: decides, sends at most one request, and says how it ended. `requests` counts what was sent.
    async fn turn(
        &self,
        session: &mut Session,
        contract: &Contract,
        requests: &mut u32,
        warnings: &mut Vec<String>,
    ) -> Result<After, Error> {
        let finding = session.finding_in_full(self).await?;
        if matches!(finding.state, State::Bypassed { .. }) {
            let (finding, _) = self.settle(session, finding, warnings).await;
            let outcome = PublishOutcome::from_finding(&finding, Via::Bypassed, Vec::new());
            return Ok(After::Ended(outcome, Some(finding)));
        }
        let commit = match self.gate(session, &finding, contract).await? {
            Decision::Stop(outcome) => return Ok(After::Ended(outcome, Some(finding))),
            Decision::Send(commit) => *commit,
        };
        let retention = main_retention(session);
        match self.send(session, Effect::new(Verb::Publish, commit)).await? {
            Sent::Behind => {}
            Sent::Done { reply, attempt, warnings: more, unread } => {
                warnings.extend(more);
                *requests = requests.saturating_add(1);
                let after = self.after_publish(session, &reply, attempt, unread, &retention, warnings).await;
                if matches!(after, After::Ended(..)) {
                    return Ok(after);
                }
            }
        }
        session.refresh(self).await?;
        Ok(After::Again)
    }

    /// May it be sent? Evidence is recomputed only where the table does not already decide.
    async fn gate(&self, session: &Session, finding: &Finding, contract: &Contract) -> Result<Decision, Error> {
        let evidence = match &finding.state {
            State::Sealed { seal, .. } => {
                session.require_own_journal(self).await?;
                self.recompute(session, *seal, contract).await?
            }
            _ => Err("nothing was recomputed".to_owned()),
        };
        Ok(decide(&session.intent, &session.observed, finding, &evidence, session.name(), self.clock.fresh_key()))
    }

    /// What one request came to. From here on there are no errors, only outcomes.
    async fn after_publish(
        &self,
        session: &mut Session,
        reply: &ReplyRecord,
        attempt: u32,
        unread: Option<Error>,
        retention: &RefKind,
        warnings: &mut Vec<String>,
    ) -> After {
        let via = match reply {
            ReplyRecord::Accepted => Via::Direct,
            ReplyRecord::NotSent { .. } | ReplyRecord::Refused { .. } | ReplyRecord::Unknown { .. } => Via::Reconciled,
        };
        let finding = match unread {
            Some(error) => Err(error),
            None => session.finding(self).await,
        };
        let finding = match finding {
            Ok(finding) => finding,
            Err(error) => {
                let reasons = vec![format!("the table cannot be read to see what happened: {error}"), told(reply)];
                let outcome = match reply {
                    // Earlier requests may have left.
                    ReplyRecord::NotSent { .. } if !session.intent.publish_may_be_applied() => {
                        PublishOutcome::Rejected { rejection: Rejection::Refused, reasons }
                    }
                    ReplyRecord::NotSent { .. }
                    | ReplyRecord::Accepted
                    | ReplyRecord::Refused { .. }
                    | ReplyRecord::Unknown { .. } => PublishOutcome::Unresolved { cause: Cause::Lost, reasons },
                };
                return After::Ended(outcome, None);
            }
        };
        self.note_decision(session, Some(attempt), &finding, warnings).await;
        if let State::Published { .. } = finding.state {
            let now = main_retention(session);
            if now != *retention {
                warnings.push(format!("the retention of main was {retention:?} before, and is {now:?} now"));
            }
        }
        match &finding.state {
            // The identical request is sent again, and a bypass gets its receipt.
            State::Sealed { sent: Requests::Conflicted, .. } | State::Bypassed { .. } => After::Again,
            _ => After::Ended(PublishOutcome::from_finding(&finding, via, vec![told(reply)]), Some(finding)),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one call, by name")]
    fn report(
        &self,
        table: &TableName,
        id: &PublicationId,
        session: Option<&Session>,
        outcome: PublishOutcome,
        finding: Option<Finding>,
        requests: u32,
        warnings: Vec<String>,
    ) -> PublishReport {
        let publication = session.map_or(id, Session::id).clone();
        let next = finding.as_ref().map(|finding| next_commands(table, finding)).unwrap_or_default();
        let next = match outcome {
            PublishOutcome::Unresolved { .. } => {
                std::iter::once(format!("calve reconcile {table} {publication}")).chain(next).collect()
            }
            _ => next,
        };
        PublishReport {
            table: table.clone(),
            publication,
            outcome,
            finding,
            conflict: None,
            main: session.and_then(|session| session.observed.main()),
            requests,
            read_with: session.map(|session| self.catalog.read_with(&session.table)).unwrap_or_default(),
            next,
            warnings,
        }
    }
}

fn main_retention(session: &Session) -> RefKind {
    let unset = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
    session.observed.reference(&RefName::main()).map_or(unset, |main| main.kind.clone())
}

/// What a reply said, in words.
pub(super) fn told(reply: &ReplyRecord) -> String {
    match reply {
        ReplyRecord::NotSent { reason } => format!("nothing was sent: {reason}"),
        ReplyRecord::Accepted => "the catalog said it was applied".to_owned(),
        ReplyRecord::Refused { status, message } => format!("the catalog refused with {status}: {message}"),
        ReplyRecord::Unknown { reason } => format!("the answer does not tell: {reason}"),
    }
}
