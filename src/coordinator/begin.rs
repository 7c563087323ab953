//! `begin`: opens `audit/<id>` at main.

use std::collections::BTreeMap;

use chrono::Duration;
use iceberg::spec::Snapshot;

use super::effect::{Added, Effect, TRIES, gave_up};
use super::places::is_inside;
use super::session::Session;
use super::{Coordinator, Error, shown};
use crate::data::snapshot::copy_snapshot;
use crate::digest::Digest;
use crate::ids::{Incarnation, Owner, PublicationId, SnapshotId, TableName};
use crate::journal::lease::{self, Keeper, Lease, LeaseState, Taken};
use crate::journal::log::Log;
use crate::journal::record::{Opening, Source, Verb};
use crate::observed::{Role, summary};
use crate::publish::commits::{self, Target};
use crate::publish::reconcile::base_of;
use crate::publish::state::{Beginnable, beginnable};
use crate::report::BeginReport;
use crate::scope::Scope;

/// What `begin` is asked for.
#[derive(Debug, Clone)]
pub struct BeginRequest {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub id: PublicationId,
    /// The scope as given; `None`: the whole table.
    pub scope: Option<String>,
    /// What the job reads of this table as given, `scope` for the scope itself; `None`: not declared.
    pub reads: Option<String>,
    /// The code revision.
    pub code: Option<String>,
    /// Pinned sources.
    pub sources: Vec<Source>,
    /// Takes a lease at once, for so long.
    pub lease: Option<Duration>,
}

/// A value of a summary longer than this stands there by its digest.
const LONG_VALUE: usize = 256;

/// A value as a summary carries it: itself, or its digest where it is long.
pub(super) fn summary_value(value: &str) -> String {
    if value.len() <= LONG_VALUE { value.to_owned() } else { Digest::of_bytes(value.as_bytes()).to_string() }
}

impl Coordinator {
    /// Opens `audit/<id>` at main. The same request of the same owner again changes nothing.
    ///
    /// # Errors
    /// Exit 2: the scope, the reads or a source is wrong, or the journal is inside the table. 13: the id was used, or is another's.
    pub async fn begin(&self, request: &BeginRequest) -> Result<BeginReport, Error> {
        let mut session = Session::open(self, &request.table, &request.id).await?;
        self.begin_in(&mut session, request).await
    }

    /// The same for exactly the publication of a session.
    pub(super) async fn begin_in(&self, session: &mut Session, request: &BeginRequest) -> Result<BeginReport, Error> {
        self.refuse_journal_inside(session)?;
        let mut opening = self.opening(session, request)?;
        let mut warnings = Vec::new();
        for _ in 0..TRIES {
            if let Some((marker, incarnation)) = self.already_open(session, &opening).await? {
                self.reserve(session, request.lease).await?;
                opening.base = base_of(&session.observed, marker);
                opening.incarnation = incarnation;
                opening.marker = marker;
                if opening.base != session.observed.main() {
                    let (base, main) = (shown(opening.base), shown(session.observed.main()));
                    warnings.push(format!("main has moved since: it was at {base}, and is at {main}"));
                }
                return Ok(report(session, opening, true, warnings));
            }
            let marker = self.marker(session, &mut opening).await?;
            let target = Target {
                table: session.name(),
                id: session.id(),
                observed: &session.observed,
                key: self.clock.fresh_key(),
            };
            let commit = commits::begin(&target, marker);
            let effect = Effect { opening: Some(opening.clone()), ..Effect::new(Verb::Begin, commit.clone()) };
            let sent = self.send(session, effect).await?;
            match self.decide_added(session, &commit, sent, &mut warnings)? {
                Added::Yes => {
                    // It is open, whatever becomes of the lease.
                    if let Err(error) = self.reserve(session, request.lease).await {
                        warnings.push(format!("no lease was taken: {error}"));
                    }
                    return Ok(report(session, opening, false, warnings));
                }
                Added::No | Added::Stale => session.refresh(self).await?,
            }
        }
        Err(gave_up(session, Verb::Begin, "opened"))
    }

    /// Source: `protocol.md`, "Journal".
    fn refuse_journal_inside(&self, session: &Session) -> Result<(), Error> {
        let (root, location) = (self.journal.root(), session.table.metadata.location());
        if !is_inside(&root, location) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "the journal {root} is inside the location of {}, {location}: engines delete files there that no snapshot \
             names, and with them what was sent; nothing was begun: choose a place outside every table, by --journal or \
             by journal = in calve.toml",
            session.name()
        )))
    }

    /// What a BEGIN would fix, as far as it does not depend on where main is.
    pub(super) fn opening(&self, session: &Session, request: &BeginRequest) -> Result<Opening, Error> {
        let schema = session.table.metadata.current_schema().clone();
        let scope = match &request.scope {
            None => Scope::whole_table(),
            Some(text) => Scope::parse(text, &schema)?,
        };
        let reads = match request.reads.as_deref() {
            None => None,
            Some("scope") => Some(scope.canonical()),
            Some(text) => Some(Scope::parse(text, &schema)?.canonical()),
        };
        let mut sources = request.sources.clone();
        sources.sort();
        if let Some((source, _)) = sources.iter().zip(sources.iter().skip(1)).find(|(one, two)| one.name == two.name) {
            return Err(Error::Usage(format!("the source {} is given twice: give one revision of it", source.name)));
        }
        Ok(Opening {
            publication: session.id().clone(),
            incarnation: self.clock.fresh_incarnation(),
            table: request.table.clone(),
            base: None,
            marker: SnapshotId(0),
            scope: scope.canonical(),
            scope_text: request.scope.clone().unwrap_or_else(|| "true".to_owned()),
            reads,
            owner: self.owner.clone(),
            code: request.code.clone(),
            sources,
            journal: self.journal.root(),
        })
    }

    /// A fresh marker on main as read, noted in what is to be opened.
    pub(super) async fn marker(&self, session: &Session, opening: &mut Opening) -> Result<Snapshot, Error> {
        opening.base = session.observed.main();
        opening.marker = self.clock.fresh_snapshot_id();
        let time = self.snapshot_time(&session.table);
        let (base, values) = (opening.base, marker_summary(opening));
        let list = self.clock.fresh_uuid();
        Ok(copy_snapshot(&session.table, base, base, opening.marker, time, values, list).await?)
    }

    /// May this id be begun? `Some` where the same owner's same candidate is open already.
    async fn already_open(
        &self,
        session: &mut Session,
        opening: &Opening,
    ) -> Result<Option<(SnapshotId, Incarnation)>, Error> {
        let finding = session.finding(self).await?;
        let session = &*session;
        let id = session.id();
        let marker = match beginnable(&finding.state, only_begins(session)) {
            Beginnable::Fresh => return Ok(None),
            Beginnable::Open(marker) => marker,
            Beginnable::Used => {
                return Err(Error::Rejected(format!(
                    "the id {id} was used on {}: it is {}; choose another id, `calve status {} {id}` shows it",
                    session.name(),
                    finding.state.word(),
                    session.name()
                )));
            }
        };
        let found = session.observed.snapshots.get(&marker).map(|snapshot| &snapshot.summary);
        let value = |key: &str| found.and_then(|summary| summary.get(key)).cloned().unwrap_or_default();
        let owner = Owner(value(summary::OWNER));
        if owner != self.owner {
            return Err(Error::Rejected(format!(
                "{id} is open, and owned by {owner}; you are {}: choose another id",
                self.owner
            )));
        }
        session.require_own_journal(self).await?;
        if value(summary::SCOPE) != summary_value(&opening.scope)
            || value(summary::READS) != opening.reads.as_deref().map(summary_value).unwrap_or_default()
            || value(summary::CODE) != opening.code.as_deref().map(summary_value).unwrap_or_default()
            || sources_in(found) != source_values(opening)
        {
            return Err(Error::Rejected(format!(
                "{id} is open with another scope, reads, code or source revision (scope {}): abandon it, or choose another id",
                value(summary::SCOPE)
            )));
        }
        match session.observed.role(marker) {
            Role::Marker(_, incarnation) => Ok(Some((marker, incarnation))),
            Role::Seal(..) | Role::Staged(..) | Role::Other => {
                Err(Error::Failed(format!("{marker} was read as the marker of {id}, and is none")))
            }
        }
    }

    /// Takes the lease for whatever commands of this owner follow, in whichever process.
    async fn reserve(&self, session: &mut Session, duration: Option<Duration>) -> Result<(), Error> {
        match duration {
            None => Ok(()),
            // The job's next commands are other processes of the same owner.
            Some(duration) => match self.lease(&mut session.log, &Keeper::Owner, duration).await? {
                None => session.refold(),
                Some(lease) => Err(self.leased(session.id(), &lease, None)),
            },
        }
    }

    /// Takes the lease of a candidate for this process. Under the lease of the `run` that started it, it needs none.
    pub(super) async fn take_lease(&self, session: &mut Session, duration: Duration) -> Result<(), Error> {
        let held = self.process_lease(&mut session.log, duration).await?;
        session.refold()?;
        match held {
            None => Ok(()),
            Some(lease) => Err(self.leased(session.id(), &lease, None)),
        }
    }

    /// Renews it after work that took time: whoever took the candidate over in the meantime has it. `nothing` says what was
    /// not done then, e.g. `nothing was staged`.
    pub(super) async fn keep_lease(
        &self,
        session: &mut Session,
        duration: Duration,
        nothing: &str,
    ) -> Result<(), Error> {
        let held = self.process_lease(&mut session.log, duration).await?;
        session.refold()?;
        match held {
            None => Ok(()),
            Some(lease) => Err(self.leased(session.id(), &lease, Some(nothing))),
        }
    }

    /// Works under the lease, which is renewed whenever a third of it has passed. Where that fails, the work goes on: it
    /// renews the lease itself before it commits, and the commit has requirements of its own.
    pub(super) async fn under_lease<T>(&self, log: &Log, duration: Duration, work: impl Future<Output = T>) -> T {
        let third = duration.checked_div(3).unwrap_or(duration);
        // The work has a reading of its own.
        let mut log = log.clone();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.clock.sleep(third) => match self.process_lease(&mut log, duration).await {
                    Ok(None) => {}
                    Ok(Some(lease)) => tracing::warn!("the lease is lost to {}", lease.owner),
                    Err(error) => tracing::warn!("the lease could not be renewed: {error}"),
                }
            }
        }
    }

    /// Takes or renews the lease of this process; the lease that stands against it, if one does.
    async fn process_lease(&self, log: &mut Log, duration: Duration) -> Result<Option<Lease>, Error> {
        if let Some(holder) = self.inherited {
            log.refresh().await?;
            let lease = LeaseState::of(log.records()).lease;
            if lease.is_some_and(|lease| lease.holder == holder && lease.may_be_live(self.clock.now())) {
                return Ok(None);
            }
        }
        self.lease(log, &Keeper::Process(self.process.clone()), duration).await
    }

    async fn lease(&self, log: &mut Log, keeper: &Keeper, duration: Duration) -> Result<Option<Lease>, Error> {
        let (clock, owner) = (self.clock.as_ref(), &self.owner);
        Ok(match lease::take(log, clock, owner, self.holder, keeper, duration).await? {
            Taken::Ours(_) => None,
            Taken::Held(lease) => Some(lease),
        })
    }

    /// Gives the lease back. It expires by itself where this fails.
    pub(super) async fn release_lease(&self, session: &mut Session) {
        if let Err(error) = lease::release(&mut session.log, self.clock.as_ref(), &self.owner, self.holder).await {
            tracing::warn!("the lease on {} could not be given back: {error}", session.id());
        }
    }

    /// Why nobody else may work on a candidate now, and what to do. `lost`: this process did, and what it has not done.
    fn leased(&self, id: &PublicationId, lease: &Lease, lost: Option<&str>) -> Error {
        let shown = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let (at, until) = (shown(lease.at), shown(lease.until));
        let who = match &lease.process {
            Some(process) => format!("process {} of {}", process.number, lease.owner),
            None => lease.owner.to_string(),
        };
        let clocks = lease.skew(self.clock.now(), lease.store);
        let clocks = clocks.map(|clocks| format!("; clocks differ: {clocks}")).unwrap_or_default();
        Error::Rejected(match lost {
            None => format!(
                "{who} works on {id}, under a lease until {until}: wait until that has ended, or begin another id; the \
                 lease of a process that was killed ends by itself on the machine where it ran{clocks}"
            ),
            Some(nothing) => format!(
                "the lease of this command on {id} was over, and {who} took it at {at}, until {until}: {nothing}; run the \
                 same command again when that has ended{clocks}"
            ),
        })
    }
}

pub(super) fn only_begins(session: &Session) -> bool {
    crate::publish::own::only_begins(&session.intent, &session.observed)
}

/// The pinned sources as a marker carries them.
fn source_values(opening: &Opening) -> BTreeMap<String, String> {
    let value = |s: &Source| (format!("{}{}", summary::SOURCE_PREFIX, s.name), summary_value(&s.revision));
    opening.sources.iter().map(value).collect()
}

fn sources_in(marker: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let all = marker.into_iter().flatten().filter(|(key, _)| key.starts_with(summary::SOURCE_PREFIX));
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn marker_summary(opening: &Opening) -> BTreeMap<String, String> {
    let mut values = BTreeMap::from([
        (summary::PUBLISH_ID.to_owned(), opening.publication.to_string()),
        (summary::INCARNATION.to_owned(), opening.incarnation.to_string()),
        (summary::OWNER.to_owned(), opening.owner.to_string()),
        (summary::SCOPE.to_owned(), summary_value(&opening.scope)),
        (summary::BASE.to_owned(), opening.base.map_or_else(|| "none".to_owned(), |base| base.to_string())),
        (summary::JOURNAL.to_owned(), opening.journal.clone()),
    ]);
    values.extend(opening.reads.iter().map(|reads| (summary::READS.to_owned(), summary_value(reads))));
    values.extend(opening.code.iter().map(|code| (summary::CODE.to_owned(), summary_value(code))));
    values.extend(source_values(opening));
    values
}

/// What BEGIN came to, from what it fixed: the table may not have been read since.
pub(super) fn report(session: &Session, opening: Opening, already_open: bool, warnings: Vec<String>) -> BeginReport {
    BeginReport {
        table: session.name().clone(),
        publication: session.id().clone(),
        branch: session.id().audit_ref(),
        base: opening.base,
        marker: opening.marker,
        incarnation: opening.incarnation,
        scope: opening.scope_text,
        owner: opening.owner,
        already_open,
        warnings,
    }
}
