//! `run`: begin, the job, validate, publish; and again after any end, by what the table shows.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::begin::{only_begins, report as begun};
use super::effect::{Added, Effect, Sent, TRIES, gave_up};
use super::reconcile::lost;
use super::session::{Opened, Session, anchor};
use super::{BeginRequest, Coordinator, Error, ValidateRequest, next, shown};
use crate::catalog::Commit;
use crate::contract::Contract;
use crate::data::Progress;
use crate::ids::{Owner, PublicationId, TableName};
use crate::journal::lease::{DEFAULT_DURATION, LeaseState};
use crate::journal::log::Appended;
use crate::journal::record::{CloseReason, Closing, Event, Opening, ReplyRecord, Verb};
use crate::observed::summary;
use crate::publish::PublishOutcome;
use crate::publish::commits;
use crate::publish::outcome::{EXIT_UNRESOLVED, Rejection};
use crate::publish::own::marker_below;
use crate::publish::reconcile::{Finding, State, base_of};
use crate::publish::rerun::{AfterJob, Known, RunStep, after_job, failed_exit, hinders, run_step};
use crate::publish::state::{FenceForm, fence_form};
use crate::report::{BeginReport, JobEnd, Report as _, RunPart, RunReport, TimedPart};

/// What `run` is asked for.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Table, id, scope and the rest of what a BEGIN fixes. Its lease is that of the whole run, 24 hours unless said.
    pub begin: BeginRequest,
    /// The contract.
    pub contract: Contract,
    /// Where relative paths of the contract's sources start.
    pub sources_root: PathBuf,
}

/// The job between `begin` and `validate`.
#[async_trait]
pub trait Job: Send {
    /// Runs it to its end. `lease` is handed on to the calve commands of the job, which work under it.
    async fn run(&mut self, candidate: &BeginReport, lease: Uuid) -> JobEnd;

    /// Called as each part of a run begins, for those who watch.
    fn part(&mut self, _what: &str) {}
}

/// How an id stands, and what is to be done about it.
struct Stands {
    step: RunStep,
    /// The publication that decides: the newest generation, or an earlier one that stands in the way.
    id: PublicationId,
    /// `None` where the table cannot be loaded.
    session: Option<Box<Session>>,
    finding: Finding,
}

/// The parts of a run so far.
struct Parts<'a> {
    coordinator: &'a Coordinator,
    since: DateTime<Utc>,
    report: RunReport,
}

impl Parts<'_> {
    fn add(&mut self, part: RunPart) {
        let now = self.coordinator.clock.now();
        let spent = now.signed_duration_since(self.since).num_milliseconds();
        self.since = now;
        self.report.exit_code = match &part {
            RunPart::Begin(_) | RunPart::Restart { .. } => self.report.exit_code,
            RunPart::Job { end } => end.exit_code(),
            RunPart::Validate(report) => report.exit_code(),
            RunPart::Publish(report) => report.exit_code(),
            RunPart::Reconcile(report) => report.exit_code(),
            RunPart::Failed { exit_code, .. } => *exit_code,
        };
        self.report.steps.push(TimedPart { part, milliseconds: u64::try_from(spent).unwrap_or(0) });
    }

    fn failed(&mut self, at: &'static str, error: &Error) {
        self.add(RunPart::Failed { at, message: error.to_string(), exit_code: error.exit_code() });
    }

    fn next(&mut self, verbs: &[&str]) {
        self.report.next = next(&self.report.table, &self.report.publication, verbs);
    }
}

impl Coordinator {
    /// What `run` would do about this id now.
    ///
    /// # Errors
    /// Where table or journal cannot be read.
    pub async fn run_step(&self, table: &TableName, id: &PublicationId) -> Result<RunStep, Error> {
        Ok(self.stands(table, id).await?.step)
    }

    /// Begins, runs the job, validates and publishes; or does what is left of that.
    ///
    /// # Errors
    /// Only before the job ran. From then on everything is a part of the report.
    pub async fn run(
        &self,
        request: &RunRequest,
        job: &mut dyn Job,
        progress: Arc<dyn Progress>,
    ) -> Result<RunReport, Error> {
        let report = RunReport::new(&request.begin.table, &request.begin.id);
        let mut parts = Parts { coordinator: self, since: self.clock.now(), report };
        let duration = request.begin.lease.unwrap_or(DEFAULT_DURATION);
        for _ in 0..TRIES {
            let stands = self.stands(&request.begin.table, &request.begin.id).await?;
            parts.report.publication = stands.id.clone();
            let session = match (stands.step, stands.session) {
                (_, None) => {
                    job.part("reconcile");
                    let report = lost(&request.begin.table, stands.finding);
                    parts.report.next.clone_from(&report.next);
                    parts.add(RunPart::Reconcile(report));
                    return Ok(parts.report);
                }
                (RunStep::Done | RunStep::Reconcile, Some(_)) => {
                    job.part("reconcile");
                    let report = self.reconcile_exact(&request.begin.table, &stands.id).await?;
                    parts.report.next.clone_from(&report.next);
                    parts.add(RunPart::Reconcile(report));
                    return Ok(parts.report);
                }
                (RunStep::Refuse, Some(session)) => return Err(refuse(&session, &stands.finding, &self.owner)),
                (RunStep::Publish, Some(_)) => {
                    self.publish_part(request, job, &mut parts).await;
                    // A contract or a retention that changed since voids a seal, not the job's work.
                    if void_evidence(&parts.report) {
                        self.validate_part(request, &stands.id, job, progress, &mut parts).await;
                        if parts.report.exit_code == 0 {
                            self.publish_part(request, job, &mut parts).await;
                        }
                    }
                    return Ok(parts.report);
                }
                (RunStep::Begin | RunStep::RunJob, Some(session)) => {
                    job.part("begin");
                    self.opened(request, *session, duration, &mut parts).await?
                }
                (RunStep::BeginNext, Some(session)) => {
                    job.part("begin");
                    let next = next_generation(&session)?;
                    let next = Session::over_exact(self, session.table, &next).await?;
                    self.opened(request, next, duration, &mut parts).await?
                }
                (RunStep::Restart, Some(session)) => {
                    job.part("restart");
                    self.restarted(request, *session, duration, &mut parts).await?
                }
            };
            let Some((mut session, candidate)) = session else { continue };
            parts.report.publication = candidate.publication.clone();
            self.run_job(request, &mut session, &candidate, job, &mut parts).await;
            let after = self.after_job(&mut session, &candidate, job, &mut parts).await;
            if after == AfterJob::Validate {
                self.validate_part(request, &candidate.publication, job, progress, &mut parts).await;
            }
            self.release_lease(&mut session).await;
            let goes_on = matches!(after, AfterJob::Validate | AfterJob::Publish);
            if goes_on && parts.report.exit_code == 0 {
                self.publish_part(request, job, &mut parts).await;
            }
            return Ok(parts.report);
        }
        Err(Error::Rejected(format!(
            "other commands keep working on {}: wait until they have ended, and run the same line again",
            request.begin.id
        )))
    }

    /// How an id stands. An earlier generation that readers may see comes before whatever the newest would allow.
    async fn stands(&self, table: &TableName, id: &PublicationId) -> Result<Stands, Error> {
        let mut session = match Session::open_any(self, table, id).await? {
            Opened::Here(session) => session,
            Opened::Lost(finding) => {
                let id = finding.publication.clone();
                return Ok(Stands { step: RunStep::Reconcile, id, session: None, finding: *finding });
            }
        };
        let finding = session.finding(self).await?;
        let known = Known {
            ours: owner_of(&session).is_none_or(|owner| owner == self.owner),
            base_is_main: match finding.state {
                State::Open { marker, .. } => base_of(&session.observed, marker) == session.observed.main(),
                _ => true,
            },
            cut_off: LeaseState::of(session.log.records())
                .interrupted()
                .is_some_and(|lease| lease.holder != self.holder),
            only_begins: only_begins(&session),
            abandon_sent: finding.abandon.is_some(),
        };
        let step = run_step(&finding.state, known);
        if matches!(step, RunStep::Begin | RunStep::RunJob | RunStep::Restart | RunStep::BeginNext) {
            let earlier: Vec<_> = session.id().earlier_generations().collect();
            for id in earlier {
                let mut session = Session::over_exact(self, session.table.clone(), &id).await?;
                let finding = session.finding(self).await?;
                if hinders(&finding.state) {
                    return Ok(Stands { step: RunStep::Reconcile, id, session: Some(Box::new(session)), finding });
                }
            }
        }
        Ok(Stands { step, id: session.id().clone(), session: Some(session), finding })
    }

    /// Begins exactly this publication, or finds it begun, and takes its lease. `None`: it is to be decided again.
    async fn opened(
        &self,
        request: &RunRequest,
        mut session: Session,
        duration: Duration,
        parts: &mut Parts<'_>,
    ) -> Result<Option<(Session, BeginReport)>, Error> {
        let begin = BeginRequest { lease: None, ..request.begin.clone() };
        let report = self.begin_in(&mut session, &begin).await?;
        self.take_lease(&mut session, duration).await?;
        session.refresh(self).await?;
        // Another command may have got in before the lease.
        let untouched = match session.finding(self).await?.state {
            State::Open { head, marker } => head == marker && marker == report.marker,
            _ => false,
        };
        if !untouched {
            self.release_lease(&mut session).await;
            return Ok(None);
        }
        if session.intent.opening(report.incarnation).is_none() {
            self.remember(&mut session, request, &report, &mut parts.report.warnings).await?;
        }
        parts.add(RunPart::Begin(report.clone()));
        Ok(Some((session, report)))
    }

    /// Fences what an earlier attempt left, begins the next generation with it, and takes its lease. `None`: it is to be
    /// decided again.
    async fn restarted(
        &self,
        request: &RunRequest,
        mut session: Session,
        duration: Duration,
        parts: &mut Parts<'_>,
    ) -> Result<Option<(Session, BeginReport)>, Error> {
        session.require_own_journal(self).await?;
        // Who still works on it would be cut off.
        self.take_lease(&mut session, duration).await?;
        let done = self.restart(request, &mut session, &mut parts.report.warnings).await;
        self.release_lease(&mut session).await;
        let Some((opening, commit, reply)) = done? else { return Ok(None) };
        let table = self.catalog.load(&request.begin.table).await?;
        let mut next = Session::over_exact(self, table, &opening.publication).await?;
        note_opening(self, &mut next, &opening, commit, reply, &mut parts.report.warnings).await;
        self.take_lease(&mut next, duration).await?;
        let report = begun(&next, opening, false, Vec::new());
        parts.add(RunPart::Restart { closed: session.id().clone(), begun: report.clone() });
        Ok(Some((next, report)))
    }

    /// The commit of a restart. Its intent is in the log of what it ends; the log of what it opens begins once that stands in
    /// the table, so that a crash in between leaves no trace of a candidate that never was.
    async fn restart(
        &self,
        request: &RunRequest,
        session: &mut Session,
        warnings: &mut Vec<String>,
    ) -> Result<Option<(Opening, Commit, ReplyRecord)>, Error> {
        for _ in 0..TRIES {
            session.refresh(self).await?;
            let finding = session.finding(self).await?;
            let (Some(FenceForm::Branch(head)), State::Open { .. } | State::SubjectMoved { .. } | State::Moved { .. }) =
                (fence_form(&finding.state), &finding.state)
            else {
                return Ok(None);
            };
            let old = marker_below(&session.intent, &session.observed, head);
            let base = old.and_then(|old| base_of(&session.observed, old));
            let mut opening = self.opening(session, &request.begin)?;
            opening.publication = next_generation(session)?;
            let marker = self.marker(session, &mut opening).await?;
            let commit = commits::restart(&self.target(session), head, base, old, &opening.publication, marker);
            let closing = Closing {
                why: CloseReason::Restarted,
                reason: format!("the job is run again as {}", opening.publication),
                fence: session.id().closed_ref(),
            };
            let effect = Effect { closing: Some(closing), ..Effect::new(Verb::Restart, commit.clone()) };
            let sent = self.send(session, effect).await?;
            let reply = match &sent {
                Sent::Done { reply, .. } => reply.clone(),
                Sent::Behind => continue,
            };
            match self.decide_added(session, &commit, sent, warnings)? {
                Added::Yes => return Ok(Some((opening, commit, reply))),
                Added::No => return Ok(None),
                Added::Stale => {}
            }
        }
        Err(gave_up(session, Verb::Restart, "restarted"))
    }

    /// Writes the opening of a candidate into its log, where the process ended that had begun it by a restart.
    async fn remember(
        &self,
        session: &mut Session,
        request: &RunRequest,
        report: &BeginReport,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Some(before) = session.id().earlier_generations().last() else { return Ok(()) };
        let before = Session::over_exact(self, session.table.clone(), &before).await?;
        let Some(attempt) = before.intent.attempts.iter().find(|attempt| attempt.adds.contains(&report.marker)) else {
            return Ok(());
        };
        let mut opening = self.opening(session, &request.begin)?;
        opening.base = report.base;
        opening.marker = report.marker;
        opening.incarnation = report.incarnation;
        let reply = attempt.reply.clone().unwrap_or(ReplyRecord::Accepted);
        note_opening(self, session, &opening, attempt.commit.clone(), reply, warnings).await;
        Ok(())
    }

    /// The job, under the lease, which is renewed for as long as it takes.
    async fn run_job(
        &self,
        request: &RunRequest,
        session: &mut Session,
        candidate: &BeginReport,
        job: &mut dyn Job,
        parts: &mut Parts<'_>,
    ) {
        job.part("job");
        let duration = request.begin.lease.unwrap_or(DEFAULT_DURATION);
        let third = duration.checked_div(3).unwrap_or(duration);
        let mut lost = None;
        let end = {
            let mut work = job.run(candidate, self.holder);
            loop {
                tokio::select! {
                    biased;
                    end = &mut work => break end,
                    () = self.clock.sleep(third) => {
                        lost = self.take_lease(session, duration).await.err().map(|error| error.to_string());
                    }
                }
            }
        };
        parts.report.warnings.extend(lost.map(|error| format!("the lease could not be renewed: {error}")));
        if end.exit_code() != 0 {
            parts.next(&["status", "abandon --reason …"]);
        }
        parts.add(RunPart::Job { end });
    }

    /// Reads the table once the job has ended: it may have published, closed or removed its candidate, or moved main.
    async fn after_job(
        &self,
        session: &mut Session,
        candidate: &BeginReport,
        job: &mut dyn Job,
        parts: &mut Parts<'_>,
    ) -> AfterJob {
        let code = parts.report.exit_code;
        let read = match session.refresh(self).await {
            Ok(()) => session.finding(self).await,
            Err(error) => Err(error),
        };
        let finding = match read {
            Ok(finding) => finding,
            // The checks read the table again, and say it where they cannot.
            Err(_) if code == 0 => return AfterJob::Validate,
            Err(error) => {
                parts.next(&["reconcile"]);
                parts.failed("reconcile", &error);
                let unseen = session.intent.undecided().is_some();
                parts.report.exit_code = if unseen { EXIT_UNRESOLVED } else { code };
                return AfterJob::Stays;
            }
        };
        let after = after_job(&finding.state, code == 0);
        match after {
            AfterJob::Reconcile => {
                job.part("reconcile");
                let exit = (code != 0).then(|| failed_exit(&finding.state, code));
                match self.reconcile_session(session).await {
                    Ok(report) => {
                        parts.report.next.clone_from(&report.next);
                        parts.add(RunPart::Reconcile(report));
                    }
                    Err(error) => {
                        parts.next(&["reconcile"]);
                        parts.failed("reconcile", &error);
                    }
                }
                parts.report.exit_code = exit.unwrap_or(parts.report.exit_code);
            }
            AfterJob::Validate | AfterJob::Publish | AfterJob::Stays => {
                let main = session.observed.main();
                if main != candidate.base {
                    parts.report.warnings.push(format!(
                        "main moved from {} to {} while the job ran: did it write to main instead of {}?",
                        shown(candidate.base),
                        shown(main),
                        candidate.branch
                    ));
                }
                match finding.state {
                    State::Open { head, marker } if head == marker && code == 0 => parts
                        .report
                        .warnings
                        .push(format!("the job ended well, and wrote nothing to {}", candidate.branch)),
                    State::Sealed { .. } if code != 0 => parts.report.warnings.push(
                        "it is sealed: the same line again publishes it, without the job; `calve abandon` prevents that"
                            .to_owned(),
                    ),
                    _ => {}
                }
            }
        }
        after
    }

    async fn validate_part(
        &self,
        request: &RunRequest,
        id: &PublicationId,
        job: &mut dyn Job,
        progress: Arc<dyn Progress>,
        parts: &mut Parts<'_>,
    ) {
        job.part("validate");
        let request = ValidateRequest {
            table: request.begin.table.clone(),
            id: id.clone(),
            contract: request.contract.clone(),
            sources_root: request.sources_root.clone(),
            dry_run: false,
        };
        match self.validate(&request, progress).await {
            Ok(report) => {
                if !report.passed {
                    parts.next(if report.closed.is_some() { &["review"] } else { &["review", "abandon --reason …"] });
                }
                parts.add(RunPart::Validate(report));
            }
            Err(error) => {
                parts.next(&["reconcile", "validate"]);
                parts.failed("validate", &error);
            }
        }
    }

    async fn publish_part(&self, request: &RunRequest, job: &mut dyn Job, parts: &mut Parts<'_>) {
        job.part("publish");
        let id = parts.report.publication.clone();
        match self.publish(&request.begin.table, &id, &request.contract).await {
            Ok(mut report) => {
                parts.report.next = match report.outcome {
                    PublishOutcome::Published { .. } => Vec::new(),
                    _ => std::mem::take(&mut report.next),
                };
                parts.add(RunPart::Publish(report));
            }
            Err(error) => {
                parts.next(&["reconcile", "publish"]);
                parts.failed("publish", &error);
            }
        }
    }
}

/// Did the run end with a seal whose evidence does not hold?
fn void_evidence(report: &RunReport) -> bool {
    match report.steps.last().map(|timed| &timed.part) {
        Some(RunPart::Publish(report)) => {
            matches!(report.outcome, PublishOutcome::Rejected { rejection: Rejection::Evidence, .. })
        }
        _ => false,
    }
}

/// Who owns the candidate; `None` where nothing tells.
fn owner_of(session: &Session) -> Option<Owner> {
    let marker = anchor(session).and_then(|snapshot| marker_below(&session.intent, &session.observed, snapshot));
    let named = marker.and_then(|marker| session.observed.snapshots.get(&marker)?.summary.get(summary::OWNER));
    named.map(|owner| Owner(owner.clone())).or_else(|| session.intent.openings.last().map(|o| o.owner.clone()))
}

fn next_generation(session: &Session) -> Result<PublicationId, Error> {
    let id = session.id();
    id.next_generation().ok_or_else(|| Error::Rejected(format!("{id} was run too often: choose another id")))
}

/// The first record of a candidate that a restart opened. What happened stands in the table, so a failure is a warning.
async fn note_opening(
    coordinator: &Coordinator,
    session: &mut Session,
    opening: &Opening,
    commit: Commit,
    reply: ReplyRecord,
    warnings: &mut Vec<String>,
) {
    let attempt = session.intent.next_attempt();
    let intended = Event::Intended {
        attempt,
        verb: Verb::Begin,
        adds: vec![opening.marker],
        sequence_number: session.observed.last_sequence_number,
        commit: Box::new(commit),
        opening: Some(Box::new(opening.clone())),
        seal: None,
        closing: None,
        files: Vec::new(),
    };
    let (clock, owner) = (coordinator.clock.as_ref(), &coordinator.owner);
    let noted = match session.log.append(intended, clock, owner).await {
        Ok(Appended::Won) => session.log.append_always(Event::Replied { attempt, reply }, clock, owner).await,
        Ok(Appended::Behind) => Ok(()),
        Err(error) => Err(error),
    };
    let noted = noted.map_err(Error::from).and_then(|()| session.refold());
    if let Err(error) = noted {
        warnings.push(format!("that {} was begun could not be recorded: {error}", opening.publication));
    }
}

fn refuse(session: &Session, finding: &Finding, owner: &Owner) -> Error {
    let (id, table) = (session.id(), session.name());
    if let Some(abandon) = finding.abandon.filter(|_| owner_of(session).is_none_or(|theirs| theirs == *owner)) {
        return Error::Rejected(format!(
            "{id} on {table} is {}, and was to be abandoned (attempt {}), which the table does not show: `calve abandon \
             {table} {id} --reason …` again, or `calve publish {table} {id}` where it is to be published all the same",
            finding.state.word(),
            abandon.attempt
        ));
    }
    match (&finding.state, owner_of(session)) {
        (State::Foreign { head }, _) => Error::Rejected(format!(
            "{} on {table} is a branch at {head} that calve did not make: choose another id, or `calve abandon {table} {id} \
             --reason …`",
            id.audit_ref()
        )),
        (state, theirs) => {
            let theirs = theirs.map_or_else(|| "another".to_owned(), |owner| owner.to_string());
            let word = state.word();
            Error::Rejected(format!("{id} is {word}, and owned by {theirs}; you are {owner}: choose another id"))
        }
    }
}
