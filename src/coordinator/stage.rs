//! `stage`: writes files to the audit branch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use uuid::Uuid;

use super::effect::{Added, Effect, Sent, TRIES, gave_up};
use super::facts::{Opened, data_snapshot};
use super::session::Session;
use super::{Coordinator, Error};
use crate::data::snapshot::prepare;
use crate::data::write::Staged;
use crate::data::{Progress, replace, write};
use crate::digest::Digest;
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::lease::{DEFAULT_DURATION, LeaseState};
use crate::journal::record::{Event, Record, ReplyRecord, Verb, WrittenFile};
use crate::observed::summary;
use crate::publish::commits;
use crate::publish::outcome::EXIT_REJECTED;
use crate::publish::state::{Finding, State, workable};
use crate::report::StageReport;

/// Whether staged rows join those of the scope, or take their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageMode {
    /// They join.
    Append,
    /// They take their place.
    Replace,
}

/// What `stage` is asked for.
#[derive(Debug, Clone)]
pub struct StageRequest {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub id: PublicationId,
    /// Join or replace.
    pub mode: StageMode,
    /// Parquet or CSV files.
    pub files: Vec<PathBuf>,
}

/// The head to work from, and whether there is a seal that it makes void; else why not, for people.
pub(super) fn workable_head(session: &Session, finding: &Finding, verb: &str) -> Result<(SnapshotId, bool), Error> {
    let (id, table) = (&finding.publication, session.name());
    match workable(&finding.state) {
        Some(workable) => Ok((workable.head, workable.sealed)),
        None if finding.state == State::Unknown => {
            let open = session.observed.refs.iter().filter(|(_, found)| found.kind.is_branch());
            let open: Vec<_> =
                open.filter_map(|(name, _)| PublicationId::of_ref(name)).map(|id| id.to_string()).collect();
            let there_are = match open.as_slice() {
                [] => "none is open".to_owned(),
                ids => format!("open are {}", ids.join(", ")),
            };
            Err(Error::Rejected(format!(
                "{id} was never begun on {table} ({there_are}): `calve begin {table} {id}` opens it"
            )))
        }
        None => Err(Error::State {
            message: format!(
                "{id} on {table} is {}: {verb} needs an open candidate; begin a new id; {}",
                finding.state.word(),
                finding.proof.join("; ")
            ),
            exit: EXIT_REJECTED,
        }),
    }
}

/// What was about to be staged when its process was ended, or ended without an answer: nobody was told of it.
#[derive(Debug)]
struct Untold {
    attempt: u32,
    snapshot: SnapshotId,
    files: Vec<Digest>,
}

/// The last snapshot that was about to be added, unless its process told how that ended.
fn untold(records: &[Record], inherited: Option<Uuid>) -> Option<Untold> {
    let mut last = None;
    let mut told = false;
    for record in records {
        match &record.event {
            Event::Intended { verb: Verb::Stage, attempt, adds, files, .. } => {
                let snapshot = *adds.last()?;
                last = Some((record.number, Untold { attempt: *attempt, snapshot, files: contents(files) }));
                told = false;
            }
            // Accepted is success, and what else was taken for one is noted as decided.
            Event::Replied { attempt, reply: ReplyRecord::Accepted }
            | Event::Decided { attempt: Some(attempt), .. } => {
                told |= last.as_ref().is_some_and(|(_, untold)| untold.attempt == *attempt);
            }
            _ => {}
        }
    }
    let (number, untold) = last?;
    // A lease that was never given back: its holder was ended before it could tell. What the steps of one job staged
    // under the lease of their `run` was told.
    let leases = LeaseState::of(records);
    let lease = leases.interrupted().filter(|lease| Some(lease.holder) != inherited);
    let ended = lease.is_some_and(|lease| lease.since < number);
    let noted =
        |record: &Record| matches!(record.event, Event::Decided { attempt: Some(of), .. } if of == untold.attempt);
    (!told || (ended && !records.iter().any(noted))).then_some(untold)
}

/// What files hold, whatever their names. The same rows written again are the same bytes.
fn contents(files: &[WrittenFile]) -> Vec<Digest> {
    let mut digests: Vec<_> = files.iter().map(|file| file.sha256).collect();
    digests.sort();
    digests
}

impl Coordinator {
    /// Writes files to the audit branch, as one snapshot.
    ///
    /// # Errors
    /// Exit 2: a file does not fit, or a row that is to replace others is outside the scope; appended ones are left to the
    /// `scope` check. 13: the candidate is not open, or leased.
    pub async fn stage(&self, request: &StageRequest, progress: &dyn Progress) -> Result<StageReport, Error> {
        if request.files.is_empty() {
            return Err(Error::Usage("no file to stage was given".to_owned()));
        }
        let mut session = Session::open(self, &request.table, &request.id).await?;
        let finding = session.finding(self).await?;
        workable_head(&session, &finding, "stage")?;
        session.require_own_journal(self).await?;
        let untold = untold(session.log.records(), self.inherited);
        self.take_lease(&mut session, DEFAULT_DURATION).await?;
        let log = session.log.clone();
        let work = self.stage_leased(&mut session, request, untold, progress);
        let staged = self.under_lease(&log, DEFAULT_DURATION, work).await;
        self.release_lease(&mut session).await;
        staged
    }

    async fn stage_leased(
        &self,
        session: &mut Session,
        request: &StageRequest,
        untold: Option<Untold>,
        progress: &dyn Progress,
    ) -> Result<StageReport, Error> {
        session.refresh(self).await?;
        let finding = session.finding(self).await?;
        let (head, voids) = workable_head(session, &finding, "stage")?;
        let mut warnings = Vec::new();
        if voids {
            warnings.push("the candidate was sealed: its evidence is void now, validate it again".to_owned());
        }
        let opened = Opened::of(session, head)?;
        let scope = opened.bound_scope(session)?;
        let data = data_snapshot(session, head);
        let clock = self.clock.as_ref();
        let staged = match request.mode {
            StageMode::Append => write::append(&session.table, &request.files, clock, progress).await?,
            StageMode::Replace => {
                replace::replace(&session.table, Some(data), &scope, &request.files, clock, progress).await?
            }
        };
        // Writing takes time.
        self.keep_lease(session, DEFAULT_DURATION, "nothing was staged").await?;
        let hashes = staged.hashes();
        let values = BTreeMap::from([
            (summary::PUBLISH_ID.to_owned(), session.id().to_string()),
            (summary::INCARNATION.to_owned(), opened.incarnation.to_string()),
        ]);
        let landed = untold.filter(|earlier| request.mode == StageMode::Append && earlier.snapshot == head);
        let snapshot = match landed {
            // The same command again, after one that ended between its commit and its report.
            Some(earlier) if earlier.files == contents(&hashes) => {
                warnings.push(format!(
                    "these rows were staged already, as {head}, by a run that ended without telling: they were not added \
                     again; where they are wanted twice, run the same command once more"
                ));
                self.note_staged(session, earlier.attempt, &mut warnings).await;
                earlier.snapshot
            }
            landed => {
                if landed.is_some() {
                    warnings.push(format!(
                        "a run that ended without telling had staged other rows, as {head}: they are on the branch too"
                    ));
                }
                self.commit_staged(session, head, data, &staged, &hashes, values, &mut warnings).await?
            }
        };
        Ok(StageReport {
            table: request.table.clone(),
            publication: session.id().clone(),
            snapshot,
            rows_added: staged.rows_added,
            rows_carried: staged.rows_carried,
            rows_removed: staged.rows_removed,
            files_added: staged.added.len(),
            files_removed: staged.removed.len(),
            bytes: staged.added.iter().map(|new| new.file.file_size_in_bytes()).sum(),
            warnings,
        })
    }

    /// Records that whoever asked is told of an attempt that landed, though its answer did not say so: the same command
    /// run again then means what it says.
    async fn note_staged(&self, session: &mut Session, attempt: u32, warnings: &mut Vec<String>) {
        let finding = session.finding_without_files();
        let event = Event::Decided {
            attempt: Some(attempt),
            row: finding.state.row(),
            state: finding.state.word().to_owned(),
            sequence_number: session.observed.last_sequence_number,
            main: session.observed.main(),
        };
        if let Err(error) = session.log.append_always(event, self.clock.as_ref(), &self.owner).await {
            warnings.push(format!("that these rows are staged could not be recorded: {error}"));
        }
    }

    /// Commits what was written. Data files and manifests are written once; where another commit took the sequence
    /// number, only the manifest list is.
    #[allow(clippy::too_many_arguments, reason = "one call, by name")]
    async fn commit_staged(
        &self,
        session: &mut Session,
        head: SnapshotId,
        data: SnapshotId,
        staged: &Staged,
        hashes: &[WrittenFile],
        values: BTreeMap<String, String>,
        warnings: &mut Vec<String>,
    ) -> Result<SnapshotId, Error> {
        let id = self.clock.fresh_snapshot_id();
        let manifests = prepare(&session.table, Some(data), &staged.change(), id, self.clock.fresh_uuid()).await?;
        for _ in 0..TRIES {
            let time = self.snapshot_time(&session.table);
            let snapshot = manifests.list(&session.table, time, values.clone(), self.clock.fresh_uuid()).await?;
            let commit = commits::stage(&self.target(session), head, snapshot);
            let effect = Effect { files: hashes.to_vec(), ..Effect::new(Verb::Stage, commit.clone()) };
            let reply = self.send(session, effect).await?;
            let unclear = match &reply {
                Sent::Done { reply, attempt, .. } if *reply != ReplyRecord::Accepted => Some(*attempt),
                Sent::Done { .. } | Sent::Behind => None,
            };
            // Every try adds the same snapshot id, so an earlier one that lands late counts too.
            match self.decide_added(session, &commit, reply, warnings)? {
                Added::Yes => {
                    if let Some(attempt) = unclear {
                        self.note_staged(session, attempt, warnings).await;
                    }
                    return Ok(id);
                }
                Added::No => break,
                Added::Stale => session.refresh(self).await?,
            }
        }
        let now = session.observed.reference(&session.id().audit_ref()).map(|audit| audit.snapshot);
        if now == Some(head) {
            return Err(gave_up(session, Verb::Stage, "staged to"));
        }
        // Published or closed meanwhile: then there is nothing to run again.
        let finding = session.finding(self).await?;
        workable_head(session, &finding, "stage")?;
        Err(Error::Rejected(format!(
            "the branch of {} moved from {head} to {} meanwhile, so nothing was staged: another command or engine works on \
             it; run the same command again",
            session.id(),
            super::shown(now)
        )))
    }
}
