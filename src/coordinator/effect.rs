//! The one effect of a use case: journal the intent, send one commit, journal the reply, read the table again.

use iceberg::spec::Snapshot;

use super::error::run_again;
use super::session::Session;
use super::{Coordinator, Error};
use crate::catalog::{Commit, LoadedTable, Reply};
use crate::ids::SnapshotId;
use crate::journal::log::Appended;
use crate::journal::record::{Closing, Event, Opening, ReplyRecord, SealRecord, Verb, WrittenFile};
use crate::observed::Observed;
use crate::publish::attempt::Attempt;
use crate::publish::commits::shows;
use crate::publish::decide::{Landed, landed};
use crate::publish::reconcile::Finding;

/// A place around a commit where a process may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The intent is durable, nothing was sent.
    Intended,
    /// The reply is here, and not yet recorded.
    Answered,
    /// The reply is recorded, and the table was not read again.
    Recorded,
    /// The table was read again, and the verdict is not recorded.
    Decided,
}

/// Called at each step.
#[cfg(feature = "testing")]
#[async_trait::async_trait]
pub trait StepHook: std::fmt::Debug + Send + Sync {
    /// Called when a step of this verb's commit is reached; the use case goes on when it returns.
    async fn reached(&self, verb: Verb, step: Step);
}

/// What is to be committed, and what the journal remembers of it.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    pub verb: Verb,
    pub commit: Commit,
    pub opening: Option<Opening>,
    pub seal: Option<SealRecord>,
    pub closing: Option<Closing>,
    pub files: Vec<WrittenFile>,
}

impl Effect {
    pub fn new(verb: Verb, commit: Commit) -> Self {
        Self { verb, commit, opening: None, seal: None, closing: None, files: Vec::new() }
    }

    fn adds(&self) -> Vec<SnapshotId> {
        let added = self.commit.updates.iter().filter_map(|update| match update {
            iceberg::TableUpdate::AddSnapshot { snapshot } => Some(SnapshotId(Snapshot::snapshot_id(snapshot))),
            _ => None,
        });
        added.collect()
    }
}

/// What became of an effect.
#[derive(Debug)]
pub(super) enum Sent {
    /// Another process appended to the log first: nothing was sent, and the session was read again.
    Behind,
    /// It was sent; the session shows the table as read afterwards.
    Done {
        /// What came back.
        reply: ReplyRecord,
        /// Its number.
        attempt: u32,
        /// Later problems, which change no outcome.
        warnings: Vec<String>,
        /// The table could not be read afterwards.
        unread: Option<Error>,
    },
}

impl Coordinator {
    #[cfg_attr(not(feature = "testing"), allow(clippy::unused_async, unused_variables))]
    async fn step(&self, verb: Verb, step: Step) {
        #[cfg(feature = "testing")]
        if let Some(hook) = &self.steps {
            hook.reached(verb, step).await;
        }
    }

    /// Sends a commit once, between its records.
    pub(super) async fn send(&self, session: &mut Session, effect: Effect) -> Result<Sent, Error> {
        let verb = effect.verb;
        let attempt = session.intent.next_attempt();
        let event = Event::Intended {
            attempt,
            verb,
            adds: effect.adds(),
            sequence_number: session.observed.last_sequence_number,
            commit: Box::new(effect.commit.clone()),
            opening: effect.opening.map(Box::new),
            seal: effect.seal.map(Box::new),
            closing: effect.closing,
            files: effect.files,
        };
        match session.log.append(event, self.clock.as_ref(), &self.owner).await? {
            Appended::Won => session.refold()?,
            Appended::Behind => {
                session.refresh(self).await?;
                return Ok(Sent::Behind);
            }
        }
        self.step(verb, Step::Intended).await;
        let reply = self.catalog.commit(&effect.commit).await;
        self.step(verb, Step::Answered).await;
        let (reply, shown) = split(reply);
        tracing::debug!(?verb, attempt, ?reply, "reply");
        // From here on nothing may turn what happened into a failure: the table is the authority.
        let mut warnings = Vec::new();
        let event = Event::Replied { attempt, reply: reply.clone() };
        match session.log.append_always(event, self.clock.as_ref(), &self.owner).await {
            Ok(()) => {
                if let Err(error) = session.refold() {
                    warnings.push(format!("the log cannot be followed any more: {error}"));
                }
            }
            Err(error) => {
                warnings.push(format!("the reply could not be recorded: {error}"));
                // This process knows it all the same, and need not take what was refused for what may still be applied.
                if let Some(known) = session.intent.attempts.iter_mut().find(|known| known.number == attempt) {
                    let _recorded = known.reply.get_or_insert_with(|| reply.clone());
                }
            }
        }
        self.step(verb, Step::Recorded).await;
        let shown = shown.filter(|table| shows(&table.observe(), &effect.commit));
        let read = match shown {
            Some(table) => Ok(table),
            None => self.catalog.load(session.name()).await,
        };
        let unread = match read {
            Ok(table) => {
                session.show(table);
                None
            }
            Err(error) => Some(error.into()),
        };
        self.step(verb, Step::Decided).await;
        Ok(Sent::Done { reply, attempt, warnings, unread })
    }

    /// Records a verdict. It changes nothing, so a failure is a warning.
    pub(super) async fn note_decision(
        &self,
        session: &mut Session,
        attempt: Option<u32>,
        finding: &Finding,
        warnings: &mut Vec<String>,
    ) {
        // A log that is polled does not grow: only what was found anew is recorded.
        let known = session.log.records().iter().rev().find_map(|record| match &record.event {
            Event::Decided { row, state, sequence_number, main, .. } => {
                Some((*row, state.as_str(), *sequence_number, *main))
            }
            Event::Intended { .. } => Some((u8::MAX, "", 0, None)),
            _ => None,
        });
        let (number, main) = (session.observed.last_sequence_number, session.observed.main());
        if known == Some((finding.state.row(), finding.state.word(), number, main)) {
            return;
        }
        let event = Event::Decided {
            attempt,
            row: finding.state.row(),
            state: finding.state.word().to_owned(),
            sequence_number: number,
            main,
        };
        if let Err(error) = session.log.append_always(event, self.clock.as_ref(), &self.owner).await {
            warnings.push(format!("the verdict could not be recorded: {error}"));
        }
    }

    /// The time for a new snapshot, in milliseconds: now, but never before the table's newest.
    pub(super) fn snapshot_time(&self, table: &LoadedTable) -> i64 {
        self.clock.now().timestamp_millis().max(table.metadata.last_updated_ms())
    }
}

fn split(reply: Reply) -> (ReplyRecord, Option<LoadedTable>) {
    match reply {
        Reply::NotSent { reason } => (ReplyRecord::NotSent { reason }, None),
        Reply::Accepted { table } => (ReplyRecord::Accepted, table),
        Reply::Refused { status, message } => (ReplyRecord::Refused { status, message }, None),
        Reply::Unknown { reason } => (ReplyRecord::Unknown { reason }, None),
    }
}

/// What came of a commit that adds snapshots to the audit branch.
#[derive(Debug)]
pub(super) enum Added {
    /// It was applied.
    Yes,
    /// It was not, and cannot be any more; the session shows why.
    No,
    /// It was not, for a reason that a new commit on the same head can mend.
    Stale,
}

/// How often BEGIN, STAGE and SEAL are tried.
pub(super) const TRIES: u32 = 8;

impl Coordinator {
    /// Decides a commit that adds snapshots, from the table. `Err` where it cannot be told, or where nothing was sent.
    pub(super) fn decide_added(
        &self,
        session: &Session,
        commit: &Commit,
        sent: Sent,
        warnings: &mut Vec<String>,
    ) -> Result<Added, Error> {
        let (reply, unread) = match sent {
            Sent::Behind => return Ok(Added::Stale),
            Sent::Done { reply, warnings: more, unread, .. } => {
                warnings.extend(more);
                (reply, unread)
            }
        };
        if let Some(error) = unread {
            return match reply {
                ReplyRecord::Accepted => Ok(Added::Yes),
                ReplyRecord::NotSent { .. } if !in_flight(session) => Err(error),
                ReplyRecord::NotSent { .. } | ReplyRecord::Refused { .. } | ReplyRecord::Unknown { .. } => {
                    Err(unread_after(session, &error))
                }
            };
        }
        match (landed(&session.observed, commit), reply) {
            (Landed::Yes, _) => Ok(Added::Yes),
            (Landed::Never, _) => Ok(Added::No),
            (Landed::NotYet, ReplyRecord::NotSent { reason }) => Err(unsent(session, &reason)),
            // A stale sequence number, contention, or a lost request: the next commit requires the same head, so that at
            // most one of the two is applied.
            (Landed::NotYet, ReplyRecord::Refused { status, .. }) if status == 409 || status == 400 => Ok(Added::Stale),
            (Landed::NotYet, ReplyRecord::Refused { status, message }) => Err(refused(session, status, &message)),
            (Landed::NotYet, ReplyRecord::Unknown { .. } | ReplyRecord::Accepted) => Ok(Added::Stale),
        }
    }
}

/// May one of these requests for `verb` still be applied, by the journal and by the table as read?
fn any_in_flight(attempts: &[Attempt], verb: Verb, observed: &Observed) -> bool {
    let open = |attempt: &&Attempt| attempt.verb == verb && attempt.is_open();
    attempts.iter().filter(open).any(|attempt| landed(observed, &attempt.commit) == Landed::NotYet)
}

/// May a request of the newest attempt's verb, made before it, still be applied?
fn in_flight(session: &Session) -> bool {
    let split = session.intent.attempts.split_last();
    split.is_some_and(|(newest, earlier)| any_in_flight(earlier, newest.verb, &session.observed))
}

/// What it comes to that every try was refused or went unanswered, while the table shows no reason.
pub(super) fn gave_up(session: &Session, verb: Verb, what: &str) -> Error {
    let tried = format!("{} could not be {what} in {TRIES} tries", session.id());
    match any_in_flight(&session.intent.attempts, verb, &session.observed) {
        false => Error::Failed(format!("{tried}: the catalog refuses each; run the same command again")),
        true => Error::Unresolved(format!("{tried}, and one of them may still be applied: run the same command again")),
    }
}

/// What an answer that proves nothing comes to where the table cannot be read.
fn unread_after(session: &Session, error: &Error) -> Error {
    let said = run_again(format!(
        "the commit's answer is unclear, and the table cannot be read to find out; nothing was deleted: {error}"
    ));
    let staging = session.intent.attempts.last().is_some_and(|attempt| attempt.verb == Verb::Stage);
    Error::Unresolved(match staging {
        false => said,
        true => format!(
            "{said}: rows that are on the branch by then are not added twice; `calve status {} {}` shows what is known",
            session.name(),
            session.id()
        ),
    })
}

/// What a request that never left comes to.
pub(super) fn unsent(session: &Session, reason: &str) -> Error {
    match in_flight(session) {
        false => Error::Failed(run_again(format!("nothing was sent: {reason}"))),
        true => Error::Unresolved(run_again(format!(
            "nothing was sent this time ({reason}), and an earlier request for {} may still be applied",
            session.id()
        ))),
    }
}

/// What a refusal that no retry can mend comes to.
pub(super) fn refused(session: &Session, status: u16, message: &str) -> Error {
    let refused = format!("the catalog refuses ({status}): {message}");
    match in_flight(session) {
        false => Error::Rejected(refused),
        true => Error::Unresolved(run_again(format!(
            "{refused}; an earlier request for {} may still be applied",
            session.id()
        ))),
    }
}
