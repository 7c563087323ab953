//! `validate`: checks the candidate, states what was found, and seals a pass.
//!
//! The order is the promise: the statement is durable before the seal that names it. No statement, no seal; no seal, no
//! publication.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use iceberg::TableUpdate;
use iceberg::spec::{PartitionStatisticsFile, StatisticsFile};

use super::begin::summary_value;
use super::effect::{Added, Effect, TRIES, gave_up};
use super::evidence::{Identities, Shape, known_hashes, statement};
use super::facts::Opened;
use super::session::Session;
use super::stage::workable_head;
use super::{Coordinator, Error, shown};
use crate::contract::{Contract, OnFailure};
use crate::data::pass::{self, PassInput};
use crate::data::snapshot::copy_snapshot;
use crate::data::{DataError, Progress};
use crate::digest::Digest;
use crate::evidence::check::{CheckResult, Outcome};
use crate::evidence::policy::{EvidenceVerdict, verdict};
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::lease::DEFAULT_DURATION;
use crate::journal::record::{CloseReason, Event, SealRecord, Verb};
use crate::observed::{Role, summary};
use crate::publish::commits;
use crate::publish::reconcile::State;
use crate::report::ValidateReport;

/// What `validate` is asked for.
#[derive(Debug, Clone)]
pub struct ValidateRequest {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub id: PublicationId,
    /// The contract.
    pub contract: Contract,
    /// Where relative paths of the contract's sources start: the folder of the contract file.
    pub sources_root: PathBuf,
    /// Print what would be found, and change nothing.
    pub dry_run: bool,
}

/// What of a summary is calve's may be this long, in bytes: it is copied into every later metadata file.
pub const SEAL_LIMIT: usize = 2_000;

/// A statement, stored.
struct Stored {
    digest: Digest,
    location: String,
    definition: Digest,
}

impl Coordinator {
    /// Checks a candidate, and seals it where everything passes.
    ///
    /// # Errors
    /// Exit 13: it is not open, or leased. A failed check is a result.
    pub async fn validate(
        &self,
        request: &ValidateRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<ValidateReport, Error> {
        let mut session = Session::open(self, &request.table, &request.id).await?;
        let finding = session.finding(self).await?;
        workable_head(&session, &finding, "validate")?;
        if request.dry_run {
            return self.validate_leased(&mut session, request, progress).await;
        }
        session.require_own_journal(self).await?;
        self.take_lease(&mut session, DEFAULT_DURATION).await?;
        let log = session.log.clone();
        let work = self.validate_leased(&mut session, request, progress);
        let report = self.under_lease(&log, DEFAULT_DURATION, work).await;
        self.release_lease(&mut session).await;
        report
    }

    async fn validate_leased(
        &self,
        session: &mut Session,
        request: &ValidateRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<ValidateReport, Error> {
        let contract = &request.contract;
        session.refresh(self).await?;
        let finding = session.finding(self).await?;
        let (head, _) = workable_head(session, &finding, "validate")?;
        let mut warnings = Vec::new();
        let opened = Opened::of(session, head)?;
        let base_moved = opened.base != session.observed.main();
        if base_moved {
            let (base, main) = (shown(opened.base), shown(session.observed.main()));
            warnings.push(format!("main moved from {base} to {main} already: publishing will be a conflict"));
        }
        let conflict = match base_moved {
            true => self.moved_base(session, head).await,
            false => Ok(None),
        };
        let conflict = conflict.unwrap_or_else(|error| {
            warnings.push(format!("what changed since the base could not be read: {error}"));
            None
        });
        if matches!(finding.state, State::Moved { .. }) && !base_moved {
            warnings.push("schema or partition spec changed since the last seal".to_owned());
        }
        let shape = Shape::load(session, &opened, head).await?;
        // Every added file is hashed as it is now: what stage wrote is held against it afterwards.
        let none = BTreeMap::new();
        let input = PassInput {
            table: &session.table,
            base: Some(opened.marker),
            head: shape.data,
            base_entries: &shape.base,
            head_entries: &shape.head,
            scope: &opened.bound_scope(session)?,
            contract,
            sources_root: &request.sources_root,
            known: &none,
            memory: self.memory_limit,
            progress,
        };
        let found = pass::run(input).await?;
        for (path, written) in known_hashes(session) {
            if found.file_digests.get(&path).is_some_and(|now| *now != written) {
                let reason = format!("its bytes are not those that were staged ({written})");
                return Err(DataError::Damaged { file: path, reason }.into());
            }
        }
        let identities = Identities::compute(session, &opened, &shape, contract, &found.file_digests)?;
        let unattested = self.unattested(session, &opened, &shape, &found.file_digests).await?;
        let verdict = verdict(contract, &found.results);
        let statement = statement(self, session, &opened, &shape, &identities, contract, &found, unattested)?;
        let mut report = ValidateReport {
            table: request.table.clone(),
            publication: session.id().clone(),
            head,
            base_moved,
            conflict: conflict.map(Box::new),
            passed: verdict == EvidenceVerdict::Passed,
            reasons: reasons(&verdict),
            checks: found.results,
            seal: None,
            candidate: Some(identities.candidate),
            statement: None,
            statement_location: None,
            dry_run: request.dry_run,
            closed: None,
            unattested,
            warnings,
        };
        if request.dry_run {
            return Ok(report);
        }
        // Checks take time.
        self.keep_lease(session, DEFAULT_DURATION, "nothing was sealed").await?;
        let bytes = statement.canonical_bytes().map_err(|error| Error::Failed(error.to_string()))?;
        let (digest, location) = self.journal.put_statement(&bytes).await?;
        let stored = Stored { digest, location, definition: statement.predicate.definition_hash };
        report.statement = Some(digest);
        report.statement_location = Some(stored.location.clone());
        if report.passed {
            let seal =
                self.seal(session, head, &opened, &shape, &identities, &report.checks, &stored, &mut report.warnings);
            report.seal = Some(seal.await?);
        } else {
            self.failed(session, contract, &verdict, digest, &mut report).await?;
        }
        Ok(report)
    }

    /// A failure is recorded, and the candidate closed where the contract says so.
    async fn failed(
        &self,
        session: &mut Session,
        contract: &Contract,
        verdict: &EvidenceVerdict,
        statement: Digest,
        report: &mut ValidateReport,
    ) -> Result<(), Error> {
        let bad = |result: &&CheckResult| result.outcome != Outcome::Pass;
        let failed: Vec<String> = report.checks.iter().filter(bad).map(|result| result.name.clone()).collect();
        let event = Event::CheckFailed { head: report.head, statement, failed: failed.clone() };
        session.log.append_always(event, self.clock.as_ref(), &self.owner).await?;
        session.refold()?;
        // What could not be decided, or was not looked at, has not failed: it may be the contract that is wrong.
        if contract.on_failure == OnFailure::Quarantine && matches!(verdict, EvidenceVerdict::Failed { .. }) {
            let reason = format!(
                "checks failed: {}",
                if failed.is_empty() { report.reasons.join("; ") } else { failed.join(", ") }
            );
            // That checks failed is the result; what became of the fence changes nothing in it.
            match self.fence(session, CloseReason::Quarantined, &reason, &mut report.warnings).await {
                Ok(after) if after.state == State::Closed => report.closed = Some(CloseReason::Quarantined),
                Ok(after) => report.warnings.push(format!("it was not closed: it is {}", after.state.word())),
                Err(error) => report.warnings.push(format!("it was not closed: {error}")),
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "each is one part of the seal")]
    async fn seal(
        &self,
        session: &mut Session,
        head: SnapshotId,
        opened: &Opened,
        shape: &Shape,
        identities: &Identities,
        checks: &[CheckResult],
        stored: &Stored,
        warnings: &mut Vec<String>,
    ) -> Result<SnapshotId, Error> {
        let seal = self.clock.fresh_snapshot_id();
        let replaces = earlier_seals(session, opened);
        let values = seal_summary(session, opened, identities, checks, stored, &replaces);
        for _ in 0..TRIES {
            let time = self.snapshot_time(&session.table);
            let (data, unique) = (shape.data, self.clock.fresh_uuid());
            let snapshot =
                copy_snapshot(&session.table, Some(data), Some(data), seal, time, values.clone(), unique).await?;
            let commit = commits::seal(&self.target(session), head, snapshot, statistics(session, data, seal));
            let record = SealRecord {
                seal,
                data,
                replaces: replaces.clone(),
                candidate: identities.candidate,
                change: identities.change,
                tree: identities.tree,
                contract: identities.contract,
                statement: stored.digest,
                statement_location: stored.location.clone(),
                schema_id: session.observed.current_schema_id,
                spec_id: session.observed.default_spec_id,
            };
            let effect = Effect { seal: Some(record), ..Effect::new(Verb::Seal, commit.clone()) };
            let sent = self.send(session, effect).await?;
            match self.decide_added(session, &commit, sent, warnings)? {
                Added::Yes => return Ok(seal),
                Added::No => break,
                Added::Stale => session.refresh(self).await?,
            }
        }
        let now = session.observed.reference(&session.id().audit_ref()).map(|audit| audit.snapshot);
        if now == Some(head) {
            return Err(gave_up(session, Verb::Seal, "sealed"));
        }
        // Published or closed meanwhile: then there is nothing to run again.
        let finding = session.finding(self).await?;
        workable_head(session, &finding, "validate")?;
        Err(Error::Rejected(format!(
            "the branch of {} moved from {head} to {} while it was checked, so nothing was sealed: validate again",
            session.id(),
            shown(now)
        )))
    }
}

/// The statistics of the data snapshot, table's and partitions', named for the seal.
fn statistics(session: &Session, data: SnapshotId, seal: SnapshotId) -> Vec<TableUpdate> {
    let metadata = &session.table.metadata;
    let table = metadata.statistics_for_snapshot(data.0).cloned().map(|statistics| TableUpdate::SetStatistics {
        statistics: StatisticsFile { snapshot_id: seal.0, ..statistics },
    });
    let partitions = metadata.partition_statistics_for_snapshot(data.0).cloned().map(|statistics| {
        let partition_statistics = PartitionStatisticsFile { snapshot_id: seal.0, ..statistics };
        TableUpdate::SetPartitionStatistics { partition_statistics }
    });
    table.into_iter().chain(partitions).collect()
}

/// Every earlier seal of this candidate that the table still has.
fn earlier_seals(session: &Session, opened: &Opened) -> Vec<SnapshotId> {
    let own = |id: &SnapshotId| {
        matches!(session.observed.role(*id), Role::Seal(of, incarnation)
            if of == *session.id() && incarnation == opened.incarnation)
    };
    session.observed.snapshots.keys().copied().filter(own).collect()
}

fn seal_summary(
    session: &Session,
    opened: &Opened,
    identities: &Identities,
    checks: &[CheckResult],
    stored: &Stored,
    replaces: &[SnapshotId],
) -> BTreeMap<String, String> {
    let text = |digest: &Digest| digest.to_string();
    let mut values = BTreeMap::from([
        (summary::PUBLISH_ID.to_owned(), session.id().to_string()),
        (summary::INCARNATION.to_owned(), opened.incarnation.to_string()),
        (summary::CANDIDATE.to_owned(), text(&identities.candidate)),
        (summary::CHANGE.to_owned(), text(&identities.change)),
        (summary::TREE.to_owned(), text(&identities.tree)),
        (summary::BASE.to_owned(), opened.base.map_or_else(|| "none".to_owned(), |base| base.to_string())),
        (summary::SCOPE.to_owned(), summary_value(&opened.scope)),
        (summary::CONTRACT.to_owned(), text(&identities.contract)),
        (summary::VERDICT.to_owned(), "pass".to_owned()),
        (summary::STATEMENT.to_owned(), summary_value(&stored.location)),
        (summary::STATEMENT_DIGEST.to_owned(), text(&stored.digest)),
        (summary::DEFINITION.to_owned(), text(&stored.definition)),
    ]);
    values.extend(opened.code.iter().map(|code| (summary::CODE.to_owned(), summary_value(code))));
    if !replaces.is_empty() {
        let list: Vec<_> = replaces.iter().map(ToString::to_string).collect();
        values.insert(summary::REPLACES.to_owned(), list.join(","));
    }
    let size = |values: &BTreeMap<String, String>| values.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    let sources = opened.sources.iter();
    let sources: BTreeMap<String, String> =
        sources.map(|s| (format!("{}{}", summary::SOURCE_PREFIX, s.name), summary_value(&s.revision))).collect();
    let each: BTreeMap<String, String> =
        checks.iter().map(|check| (format!("{}{}", summary::CHECK_PREFIX, check.name), "pass".to_owned())).collect();
    // The statement has them all; where they are too many, the seal only counts them.
    if size(&values) + size(&sources) <= SEAL_LIMIT {
        values.extend(sources);
    } else {
        values.insert(format!("{}all", summary::SOURCE_PREFIX), format!("{} pinned", sources.len()));
    }
    if size(&values) + size(&each) <= SEAL_LIMIT {
        values.extend(each);
    } else {
        values.insert(format!("{}all", summary::CHECK_PREFIX), format!("{} passed", checks.len()));
    }
    values
}

fn reasons(verdict: &EvidenceVerdict) -> Vec<String> {
    match verdict {
        EvidenceVerdict::Passed => Vec::new(),
        EvidenceVerdict::Failed { names } => names.iter().map(|name| format!("{name} failed")).collect(),
        EvidenceVerdict::Errored { names } => names.iter().map(|name| format!("{name} could not be decided")).collect(),
        EvidenceVerdict::Incomplete { missing } => missing
            .iter()
            .map(|missing| match missing.check.as_str() {
                "" => missing.why.to_string(),
                check => format!("{check}: {}", missing.why),
            })
            .collect(),
    }
}
