//! One view of every result: the same struct is printed as text, as JSON and (for reviews) as HTML.
//!
//! A report holds facts, not sentences, except where a sentence is the fact (a reason, a proof, a next command).

mod conflict;
pub mod page;
mod recover;
mod run;
#[cfg(test)]
mod tests;
mod text;
mod trust;
mod words;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::digest::Digest;
use crate::evidence::check::CheckResult;
use crate::ids::{Incarnation, Owner, PublicationId, RefName, SnapshotId, TableName};
use crate::publish::advice::Guidance;
use crate::publish::attempt::{CloseReason, Source};
use crate::publish::outcome::{EXIT_DONE, EXIT_EVIDENCE, EXIT_REATTACH, EXIT_REJECTED, PublishOutcome, reconcile_exit};
use crate::publish::past::LookedBack;
use crate::publish::reconcile::{Finding, Visibility};
use crate::publish::trust::{Guarantee, Seen, Trust};

pub use conflict::{ConflictReport, REASONS_KEPT};
pub use recover::{LeaseReport, LeaseStanding, RecoverDid, RecoverItem, RecoverProblem, RecoverReport};
pub use run::{JobEnd, RunPart, RunReport, TimedPart};
pub use text::Text;

/// What every verb returns.
pub trait Report: Serialize + Text {
    /// The exit code that this result has.
    fn exit_code(&self) -> u8 {
        EXIT_DONE
    }
}

/// `create`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CreateReport {
    /// The table.
    pub table: TableName,
    /// Its location.
    pub location: String,
    /// 1, 2 or 3.
    pub format_version: u8,
    /// Its columns: name, type, required.
    pub columns: Vec<Column>,
    /// Its partition fields, e.g. `day(ordered_at)`.
    pub partition: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// Field id.
    pub id: i32,
    /// Name.
    pub name: String,
    /// Iceberg type.
    pub r#type: String,
    /// May it not be null?
    pub required: bool,
}

/// `begin`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BeginReport {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub publication: PublicationId,
    /// `audit/<id>`.
    pub branch: RefName,
    /// `N`.
    pub base: Option<SnapshotId>,
    /// `B`.
    pub marker: SnapshotId,
    /// This BEGIN.
    pub incarnation: Incarnation,
    /// The scope as given.
    pub scope: String,
    /// Who owns it.
    pub owner: Owner,
    /// It was open already, by the same owner.
    pub already_open: bool,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `stage`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StageReport {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub publication: PublicationId,
    /// The new head of the branch.
    pub snapshot: SnapshotId,
    /// Rows that came from the given files.
    pub rows_added: u64,
    /// Rows rewritten as they were, because their file also held rows of the scope.
    pub rows_carried: u64,
    /// Rows that left the branch.
    pub rows_removed: u64,
    /// Data files written.
    pub files_added: usize,
    /// Data files that left the branch.
    pub files_removed: usize,
    /// Bytes written.
    pub bytes: u64,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `validate`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ValidateReport {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub publication: PublicationId,
    /// The head that was checked.
    pub head: SnapshotId,
    /// Has main moved since the candidate was begun? Then publishing will be a conflict.
    pub base_moved: bool,
    /// What it means for the candidate that main moved, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<ConflictReport>>,
    /// Each result.
    pub checks: Vec<CheckResult>,
    /// Did all of them pass?
    pub passed: bool,
    /// Why not, if not.
    pub reasons: Vec<String>,
    /// `K`, if it was sealed.
    pub seal: Option<SnapshotId>,
    /// The identities that the evidence is bound to.
    pub candidate: Option<Digest>,
    /// The statement's digest.
    pub statement: Option<Digest>,
    /// Where the statement is.
    pub statement_location: Option<String>,
    /// Only printed, nothing sealed or closed.
    pub dry_run: bool,
    /// What became of a candidate whose checks failed.
    pub closed: Option<CloseReason>,
    /// Files of the table that no publication attested.
    pub unattested: usize,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `publish`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PublishReport {
    /// The table.
    pub table: TableName,
    /// The publication.
    pub publication: PublicationId,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: PublishOutcome,
    /// What the table showed.
    pub finding: Option<Finding>,
    /// What it means for the candidate that main moved, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<ConflictReport>>,
    /// What main points at.
    pub main: Option<SnapshotId>,
    /// How many requests this command sent.
    pub requests: u32,
    /// How to read it: reader and line.
    pub read_with: Vec<(String, String)>,
    /// What may be done next: commands.
    pub next: Vec<String>,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `reconcile`, one publication.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReconcileReport {
    /// The table.
    pub table: TableName,
    /// What was found.
    pub finding: Finding,
    /// The row of the reconcile table.
    pub row: u8,
    /// What it means for the candidate that main moved, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<ConflictReport>>,
    /// Did this command leave a receipt for a change that an engine made visible?
    pub settled: bool,
    /// Is there a journal of this publication here?
    pub journal: bool,
    /// How far the table was followed back through its older metadata, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_back: Option<LookedBack>,
    /// What may be done, and what must not.
    #[serde(flatten)]
    pub advice: Guidance,
    /// What may be done next: commands.
    pub next: Vec<String>,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `reconcile`, all of a table.
#[derive(Debug, Clone, Serialize)]
pub struct ReconcileAllReport {
    /// One each.
    pub publications: Vec<ReconcileReport>,
}

/// `abandon`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AbandonReport {
    /// The table.
    pub table: TableName,
    /// What the table shows after the fence.
    pub finding: Finding,
    /// Was it closed before?
    pub already_closed: bool,
    /// The reason given.
    pub reason: String,
    /// The exit code: 0 where it is closed, else that of the finding.
    #[serde(skip)]
    pub exit: u8,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `status`.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// The catalog.
    pub catalog: String,
    /// One each.
    pub tables: Vec<TableStatus>,
}

/// `status`, one table.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableStatus {
    /// The table.
    pub table: TableName,
    /// What main points at.
    pub main: Option<SnapshotId>,
    /// When main's snapshot was made.
    pub updated: Option<DateTime<Utc>>,
    /// One each, newest first.
    pub publications: Vec<PublicationStatus>,
    /// Why the table, or what was to be looked up of its one publication, cannot be read, if it cannot.
    pub error: Option<String>,
}

/// `status`, one publication.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PublicationStatus {
    /// What was found.
    pub finding: Finding,
    /// What it means for the candidate that main moved, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<ConflictReport>>,
    /// Who owns it.
    pub owner: Option<Owner>,
    /// When it was begun.
    pub begun: Option<DateTime<Utc>>,
    /// The scope.
    pub scope: Option<String>,
    /// Why it was closed, if the journal says.
    pub closed: Option<(CloseReason, String)>,
    /// Checks that failed last, if any did.
    pub failed_checks: Vec<String>,
    /// Begun with another journal.
    pub foreign_journal: Option<String>,
    /// Who holds it, where it is not published or closed: leases that were not given back.
    pub leases: Vec<LeaseReport>,
    /// Why its log cannot be read, if it cannot; then only what the table tells is here.
    pub error: Option<String>,
    /// What may be done next: commands.
    pub next: Vec<String>,
}

/// `log`.
#[derive(Debug, Clone, Serialize)]
pub struct LogReport {
    /// The table.
    pub table: TableName,
    /// Newest first.
    pub entries: Vec<LogEntry>,
}

/// `log`, one publication.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LogEntry {
    /// The publication.
    pub publication: PublicationId,
    /// The snapshot that became visible.
    pub snapshot: SnapshotId,
    /// When it was made.
    pub at: Option<DateTime<Utc>>,
    /// Does evidence cover it?
    pub sealed: bool,
    /// What readers see of it now.
    pub visibility: Visibility,
    /// Is its receipt there?
    pub receipt: bool,
    /// Check results as the seal carries them.
    pub checks: Vec<(String, String)>,
    /// The statement's digest, as the seal carries it.
    pub statement: Option<String>,
}

/// `review`: the nine answers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReviewReport {
    /// The table.
    pub table: TableName,
    /// What was found.
    pub finding: Finding,
    /// Pinned sources.
    pub sources: Vec<Source>,
    /// Question and answer, nine of them, in order.
    pub answers: Vec<Answer>,
}

/// One answer of a review.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The answer, a line each.
    pub answer: Vec<String>,
}

/// `contract init` and `contract check`.
#[derive(Debug, Clone, Serialize)]
pub struct ContractReport {
    /// The table whose contract it is.
    pub table: TableName,
    /// The file.
    pub path: String,
    /// Its digest.
    pub digest: Digest,
    /// Its checks: name and kind.
    pub checks: Vec<(String, String)>,
    /// Was it written just now?
    pub written: bool,
}

/// `probe`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProbeReport {
    /// The catalog.
    pub catalog: String,
    /// The journal's root.
    pub journal: String,
    /// Where the scratch tables were.
    pub namespace: String,
    /// One each, in the order of [`Guarantee::ALL`].
    pub guarantees: Vec<GuaranteeReport>,
    /// Whether publications may be entrusted to both.
    #[serde(flatten)]
    pub trust: Trust,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `probe`, one guarantee.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuaranteeReport {
    /// Which.
    pub guarantee: Guarantee,
    /// What it says.
    pub what: &'static str,
    /// Does safety rest on it?
    pub needed: bool,
    /// What was seen of it.
    pub seen: Seen,
    /// The same in a few words.
    pub detail: String,
    /// The request that showed it, with its reply.
    pub request: Option<String>,
}

/// `doctor`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DoctorReport {
    /// The catalog.
    pub catalog: String,
    /// The journal's root.
    pub journal: String,
    /// The tables that were looked at.
    pub tables: Vec<TableName>,
    /// What is risky, the worst first.
    pub findings: Vec<Advice>,
}

/// `doctor`, one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Advice {
    /// How bad it is.
    pub severity: Severity,
    /// The rule that found it, e.g. `table-retention`.
    pub rule: &'static str,
    /// The table, if it concerns one.
    pub table: Option<TableName>,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do about it: a command or a setting, if there is something to do.
    pub remedy: Option<String>,
}

/// How bad a finding of `doctor` is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Publications, or the memory of them, can be lost.
    Risk,
    /// It will become a problem.
    Warning,
    /// Good to know.
    Note,
}

impl Report for ProbeReport {
    fn exit_code(&self) -> u8 {
        match self.trust {
            Trust::Safe => EXIT_DONE,
            Trust::Refused { .. } => EXIT_REJECTED,
        }
    }
}

impl Report for DoctorReport {}
impl Report for CreateReport {}
impl Report for BeginReport {}
impl Report for StageReport {}
impl Report for StatusReport {}
impl Report for LogReport {}
impl Report for ReviewReport {}
impl Report for ContractReport {}

impl Report for ValidateReport {
    fn exit_code(&self) -> u8 {
        if self.passed { EXIT_DONE } else { EXIT_EVIDENCE }
    }
}

impl Report for PublishReport {
    fn exit_code(&self) -> u8 {
        self.outcome.exit_code()
    }
}

impl Report for ReconcileReport {
    fn exit_code(&self) -> u8 {
        match &self.conflict {
            Some(conflict) if conflict.verdict.is_reattach() => EXIT_REATTACH,
            _ => reconcile_exit(&self.finding.state),
        }
    }
}

impl Report for ReconcileAllReport {
    /// The most pressing of all: escalations before unresolved, those before the rest.
    fn exit_code(&self) -> u8 {
        let codes = self.publications.iter().map(Report::exit_code);
        codes.filter(|code| [20, 21].contains(code)).max().unwrap_or(EXIT_DONE)
    }
}

impl Report for AbandonReport {
    fn exit_code(&self) -> u8 {
        self.exit
    }
}
