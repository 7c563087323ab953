//! `abandon`: the fence. From then on the candidate can never be published.

use super::effect::{Effect, Sent, TRIES, refused, unsent};
use super::error::run_again;
use super::session::{Opened, Session};
use super::{Coordinator, Error};
use crate::data::snapshot::copy_snapshot;
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::lease::DEFAULT_DURATION;
use crate::journal::record::{CloseReason, Closing, ReplyRecord, Verb};
use crate::publish::commits::{self, Target};
use crate::publish::outcome::{EXIT_DONE, EXIT_REJECTED, reconcile_exit};
use crate::publish::own::marker_below;
use crate::publish::reconcile::{Absence, Finding, State, base_of};
use crate::publish::state::{FenceForm, fence_form};
use crate::report::AbandonReport;

impl Coordinator {
    /// Ends a candidate for ever.
    ///
    /// # Errors
    /// Exit 13: it is visible already, leased, or begun with another journal. Otherwise the row's own exit code.
    pub async fn abandon(&self, table: &TableName, id: &PublicationId, reason: &str) -> Result<AbandonReport, Error> {
        let mut session = match Session::open_any(self, table, id).await? {
            Opened::Here(session) => *session,
            Opened::Lost(finding) => return Err(refuse(&finding, table)),
        };
        let before = session.finding_in_full(self).await?;
        let mut warnings = Vec::new();
        if before.state == State::Closed {
            let reason = session.intent.closings.last().map_or_else(String::new, |closing| closing.reason.clone());
            let exit = EXIT_DONE;
            return Ok(AbandonReport {
                table: table.clone(),
                finding: before,
                already_closed: true,
                reason,
                exit,
                warnings,
            });
        }
        // Before anything is recorded: a log of an id that was never begun would make it known.
        if fence_form(&before.state).is_none() {
            return Err(refuse(&before, table));
        }
        session.require_own_journal(self).await?;
        // A job under a live lease would be cut off in the middle of its work.
        self.take_lease(&mut session, DEFAULT_DURATION).await?;
        let log = session.log.clone();
        let work = self.fence(&mut session, CloseReason::Abandoned, reason, &mut warnings);
        let finding = self.under_lease(&log, DEFAULT_DURATION, work).await;
        self.release_lease(&mut session).await;
        let finding = finding?;
        let exit = match &finding.state {
            State::Closed => EXIT_DONE,
            // The other commit came first: all is well with it, and yet it is not what was asked for.
            State::Published { .. } | State::ReceiptRemoved { .. } | State::Bypassed { .. } => EXIT_REJECTED,
            state => reconcile_exit(state),
        };
        Ok(AbandonReport {
            table: table.clone(),
            finding,
            already_closed: false,
            reason: reason.to_owned(),
            exit,
            warnings,
        })
    }

    /// Fences, and returns what the table shows afterwards: an engine may have moved main there first, so even an
    /// accepted fence is not yet the answer.
    pub(super) async fn fence(
        &self,
        session: &mut Session,
        why: CloseReason,
        reason: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Finding, Error> {
        for _ in 0..TRIES {
            let before = session.finding_in_full(self).await?;
            let commit = match fence_form(&before.state) {
                Some(FenceForm::Branch(head)) => self.fence_branch(session, head).await?,
                Some(FenceForm::Absent) => self.fence_gone(session).await?,
                None if before.state == State::Closed => return Ok(before),
                None => return Err(refuse(&before, session.name())),
            };
            let closing = Closing { why, reason: reason.to_owned(), fence: session.id().closed_ref() };
            let effect = Effect { closing: Some(closing), ..Effect::new(Verb::Fence, commit) };
            match self.send(session, effect).await? {
                Sent::Behind => {}
                Sent::Done { reply, attempt, warnings: more, unread } => {
                    warnings.extend(more);
                    if let Some(error) = unread {
                        if let ReplyRecord::NotSent { reason } = &reply {
                            return Err(unsent(session, reason));
                        }
                        return Err(Error::Unresolved(run_again(format!(
                            "the fence was sent, and the table cannot be read to see it: {error}"
                        ))));
                    }
                    let after = session.finding(self).await?;
                    self.note_decision(session, Some(attempt), &after, warnings).await;
                    let settled = matches!(
                        after.state,
                        State::Closed
                            | State::Published { .. }
                            | State::Bypassed { .. }
                            | State::VisibleAfterFence { .. }
                    );
                    if settled {
                        return Ok(after);
                    }
                    match reply {
                        ReplyRecord::NotSent { reason } => return Err(unsent(session, &reason)),
                        ReplyRecord::Refused { status, message } if ![400, 409].contains(&status) => {
                            return Err(refused(session, status, &message));
                        }
                        ReplyRecord::Accepted | ReplyRecord::Refused { .. } | ReplyRecord::Unknown { .. } => {}
                    }
                }
            }
            session.refresh(self).await?;
        }
        Err(Error::Unresolved(format!(
            "{} could not be fenced in {TRIES} tries; it may still be published; run the same command again",
            session.id()
        )))
    }

    async fn fence_branch(&self, session: &Session, head: SnapshotId) -> Result<crate::catalog::Commit, Error> {
        let marker = marker_below(&session.intent, &session.observed, head);
        let base = marker.and_then(|marker| base_of(&session.observed, marker)).or_else(|| {
            // Without a marker of ours on the branch, main as read has to do.
            session.observed.main().filter(|_| marker.is_none())
        });
        let target = self.target(session);
        if let Some(commit) = commits::fence(&target, head, base, marker, None) {
            return Ok(commit);
        }
        let root = self.empty_root(session).await?;
        commits::fence(&target, head, base, marker, Some(root))
            .ok_or_else(|| Error::Failed("an empty snapshot could not be placed".to_owned()))
    }

    /// An empty snapshot for tags to stand on.
    async fn empty_root(&self, session: &Session) -> Result<iceberg::spec::Snapshot, Error> {
        let id = self.clock.fresh_snapshot_id();
        let time = self.snapshot_time(&session.table);
        Ok(copy_snapshot(&session.table, None, None, id, time, Default::default(), self.clock.fresh_uuid()).await?)
    }

    /// The second form: the branch is gone. A table without any snapshot gets an empty one to put the tags on.
    async fn fence_gone(&self, session: &Session) -> Result<crate::catalog::Commit, Error> {
        let target = self.target(session);
        if let Some(commit) = commits::fence_absent(&target, None) {
            return Ok(commit);
        }
        let root = self.empty_root(session).await?;
        commits::fence_absent(&target, Some(root))
            .ok_or_else(|| Error::Failed("an empty snapshot could not be placed".to_owned()))
    }

    pub(super) fn target<'a>(&self, session: &'a Session) -> Target<'a> {
        Target { table: session.name(), id: session.id(), observed: &session.observed, key: self.clock.fresh_key() }
    }
}

fn refuse(finding: &Finding, table: &TableName) -> Error {
    let id = &finding.publication;
    let (exit, what) = match &finding.state {
        State::Published { .. } | State::ReceiptRemoved { .. } => {
            (EXIT_REJECTED, "it is published, and a published change is not abandoned: roll main back instead")
        }
        State::Bypassed { .. } => {
            (EXIT_REJECTED, "an engine made it visible: `calve reconcile` leaves a receipt for it")
        }
        State::Consumed => {
            (21, "its branch was consumed, and whether published or fenced the table does not tell: never fence")
        }
        State::Lost { why: Absence::Unreachable, .. } => {
            (20, "what was sent before may be applied: run the same command again when the catalog answers")
        }
        State::Lost { why: Absence::Replaced, .. } => (
            20,
            "its table is gone, and nothing in it can be fenced; `calve begin` opens the id in the one that is there now",
        ),
        State::Unknown => (2, "nothing of it is in the table or the journal; `calve status` lists what is"),
        state => (reconcile_exit(state), "it cannot be fenced in this state"),
    };
    let word = finding.state.word();
    Error::State { message: format!("{id} on {table} is {word}: {what}; {}", finding.proof.join("; ")), exit }
}
