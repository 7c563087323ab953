//! Reports as text for a terminal. Every one ends with what may be done next, where something may.

use super::page::{Page, bytes, count, counted, instant, shell, snapshot};
use super::{
    AbandonReport, BeginReport, ContractReport, CreateReport, LeaseReport, LogReport, PublicationStatus, PublishReport,
    ReconcileAllReport, ReconcileReport, ReviewReport, StageReport, StatusReport, TableStatus, ValidateReport, words,
};
use crate::evidence::check::{CheckResult, Outcome};
use crate::ids::{PublicationId, TableName};
use crate::publish::outcome::PublishOutcome;
use crate::publish::reconcile::State;

/// Writes a report as text.
pub trait Text {
    /// The text, with a newline at its end.
    fn text(&self) -> String;
}

/// `calve VERB TABLE ID REST`, ready to be pasted.
fn command(verb: &str, table: &TableName, id: &PublicationId, rest: &str) -> String {
    format!("calve {verb} {} {} {rest}", shell(&table.to_string()), shell(&id.to_string())).trim_end().to_owned()
}

pub(super) fn plural(number: usize, noun: &str) -> String {
    counted(u64::try_from(number).unwrap_or(u64::MAX), noun)
}

/// A scope as people say it: `true` is the canonical form of everything, and of thousands of terms the first are enough.
fn scope(text: &str) -> String {
    if text == "true" {
        return "whole table".to_owned();
    }
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

impl Text for CreateReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(format!("created {}  Iceberg format {}  at {}", self.table, self.format_version, self.location));
        let rows = self.columns.iter().map(|column| {
            let required = if column.required { "required" } else { "" };
            vec![column.name.clone(), column.r#type.clone(), required.to_owned()]
        });
        page.table(&rows.collect::<Vec<_>>());
        match self.partition.as_slice() {
            [] => page.line("not partitioned"),
            fields => page.line(format!("partitioned by {}", fields.join(", "))),
        }
        let table = shell(&self.table.to_string());
        page.next([format!("calve contract init {table} --key COLUMN"), format!("calve begin {table} ID")]);
        page.finish()
    }
}

impl Text for BeginReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let already = if self.already_open { "  (it was open already)" } else { "" };
        page.line(format!("OPEN {} {}{already}", self.table, self.publication));
        page.items([
            format!("scope   {}", scope(&self.scope)),
            format!("branch  {}", self.branch),
            format!("base    {}", snapshot(self.base)),
            format!("owner   {}", self.owner),
        ]);
        page.warnings(&self.warnings);
        page.next([
            command("stage", &self.table, &self.publication, "FILE… --append"),
            command("stage", &self.table, &self.publication, "FILE… --replace"),
        ]);
        page.finish()
    }
}

impl Text for StageReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(format!("STAGED {} {}  head {}", self.table, self.publication, self.snapshot));
        let mut rows = format!("rows    {} added, {} removed", count(self.rows_added), count(self.rows_removed));
        if self.rows_carried > 0 {
            rows.push_str(&format!(", {} rewritten as they were", count(self.rows_carried)));
        }
        let (added, removed) = (plural(self.files_added, "file"), self.files_removed);
        page.items([rows, format!("files   {added} written ({}), {removed} removed", bytes(self.bytes))]);
        page.warnings(&self.warnings);
        page.next([command("validate", &self.table, &self.publication, "")]);
        page.finish()
    }
}

/// The word of a check's outcome.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
    }
}

pub(super) fn checks(page: &mut Page, results: &[CheckResult]) {
    let widest = results.iter().map(|result| result.name.chars().count()).max().unwrap_or(0);
    for result in results {
        let CheckResult { name, summary, .. } = result;
        page.line(format!("  {name:widest$}  {:5}  {summary}", outcome(result.outcome)));
        if result.outcome != Outcome::Pass {
            page.items(result.details.iter().map(|detail| format!("  {detail}")));
        }
    }
}

impl Text for ValidateReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let (table, id) = (&self.table, &self.publication);
        page.line(format!("{table} {id}  head {}", self.head));
        if self.base_moved && self.warnings.is_empty() {
            page.line("note: main has moved since it was begun: publishing it will be a conflict");
        }
        page.items(self.conflict.iter().flat_map(|conflict| conflict.lines()));
        checks(&mut page, &self.checks);
        // That a check failed is said above, with its name.
        let named = |reason: &&String| self.checks.iter().any(|check| **reason == format!("{} failed", check.name));
        page.items(self.reasons.iter().filter(|reason| !named(reason)));
        if self.unattested > 0 {
            let files = plural(self.unattested, "file");
            page.line(format!("  {files} of the table as before, which this evidence does not cover"));
        }
        page.warnings(&self.warnings);
        match (self.passed, self.seal) {
            (true, Some(seal)) => {
                page.line(format!("SEALED K={seal}"));
                if let Some(location) = &self.statement_location {
                    page.line(format!("statement {location}"));
                }
                let verb = if self.base_moved { ("abandon", "--reason …") } else { ("publish", "") };
                page.next([command(verb.0, table, id, verb.1), command("review", table, id, "")]);
            }
            (true, None) => {
                page.line(if self.dry_run { "PASSED  dry run: nothing was sealed" } else { "PASSED  not sealed" });
                page.next([command("validate", table, id, "")]);
            }
            (false, _) => self.failed(&mut page),
        }
        page.finish()
    }
}

impl ValidateReport {
    fn failed(&self, page: &mut Page) {
        let (table, id) = (&self.table, &self.publication);
        let quoted = shell(&table.to_string());
        match self.closed {
            Some(reason) => {
                page.line(format!("FAILED  {}: closed for good, nothing became visible", words::closed(reason)));
                page.next([format!("calve begin {quoted} NEW-ID --scope …"), command("review", table, id, "")]);
            }
            None => {
                let stays = if self.dry_run { "dry run: nothing was recorded" } else { "it stays open for repair" };
                page.line(format!("FAILED  {stays}"));
                page.next([
                    command("stage", table, id, "FILE… --replace"),
                    command("abandon", table, id, "--reason …"),
                ]);
            }
        }
    }
}

impl Text for PublishReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let (table, id) = (&self.table, &self.publication);
        // Of a table that nobody could read, main is not known.
        let read = self.finding.as_ref().is_none_or(|finding| !matches!(finding.state, State::Lost { .. }));
        let main = if read { format!("  main={}", snapshot(self.main)) } else { String::new() };
        page.line(format!("{table} {id}  {}{main}", words::outcome(&self.outcome)));
        page.items(words::reasons(&self.outcome));
        if matches!(self.outcome, PublishOutcome::Published { .. }) && !self.read_with.is_empty() {
            page.line("read it:");
            page.table(&self.read_with.iter().map(|(who, line)| vec![who.clone(), line.clone()]).collect::<Vec<_>>());
        }
        page.warnings(&self.warnings);
        match self.next.as_slice() {
            [] => page.next([format!("calve status {}", shell(&table.to_string()))]),
            next => page.next(next),
        }
        page.finish()
    }
}

impl Text for ReconcileReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        self.write(&mut page);
        page.finish()
    }
}

impl ReconcileReport {
    fn write(&self, page: &mut Page) {
        page.line(format!("{} {}  {}", self.table, self.finding.publication, words::state(&self.finding.state)));
        page.line(format!("  because (row {} of the reconcile table):", self.row));
        page.items(self.finding.proof.iter().map(|proof| format!("  {proof}")));
        if let Some(conflict) = &self.conflict {
            page.line("  what changed since the base:");
            page.items(conflict.lines().into_iter().map(|line| format!("  {line}")));
        }
        page.items(self.finding.abandon.map(|sent| format!("  {}", words::abandon(sent))));
        if self.settled {
            page.line("  a receipt was left for it just now");
        }
        if !self.journal && self.finding.state != State::Unknown {
            page.line("note: there is no journal of it here: what was sent elsewhere is not known");
        }
        page.warnings(&self.warnings);
        for (heading, lines) in [("you may:", &self.advice.may), ("you must not:", &self.advice.must_not)] {
            if !lines.is_empty() {
                page.line(format!("  {heading}"));
                page.items(lines.iter().map(|line| format!("  {line}")));
            }
        }
        page.next(&self.next);
    }
}

impl Text for ReconcileAllReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        if self.publications.is_empty() {
            page.line("no publication to reconcile");
        }
        for publication in &self.publications {
            publication.write(&mut page);
        }
        page.finish()
    }
}

impl Text for AbandonReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let id = &self.finding.publication;
        page.line(format!("{} {id}  {}", self.table, words::state(&self.finding.state)));
        match self.finding.state {
            State::Closed if self.already_closed => page.line("  it was closed before"),
            State::Closed => page.line(format!("  reason: {}", self.reason)),
            _ => page.items(&self.finding.proof),
        }
        page.warnings(&self.warnings);
        let table = shell(&self.table.to_string());
        match self.finding.state {
            State::Closed => page.next([format!("calve begin {table} NEW-ID")]),
            _ => page.next([command("reconcile", &self.table, id, "")]),
        }
        page.finish()
    }
}

impl Text for StatusReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.catalog);
        if self.tables.is_empty() {
            page.line("no tables yet");
            page.next(["calve create NAMESPACE.TABLE --like FILE"]);
        }
        for table in &self.tables {
            table.write(&mut page);
        }
        page.finish()
    }
}

impl TableStatus {
    fn write(&self, page: &mut Page) {
        if let Some(error) = self.error.as_ref().filter(|_| self.publications.is_empty()) {
            page.line(format!("{}  CANNOT BE READ  {error}", self.table));
            return;
        }
        let updated = self.updated.map(|at| format!("  since {}", instant(at))).unwrap_or_default();
        let lost = self.publications.iter().any(|one| matches!(one.finding.state, State::Lost { .. }));
        let main = if lost { String::new() } else { format!("  main={}", snapshot(self.main)) };
        page.line(format!("{}{main}{updated}", self.table));
        if self.publications.is_empty() {
            page.line("  no publications");
            page.line(format!("  next: calve begin {} ID", shell(&self.table.to_string())));
        }
        for publication in &self.publications {
            publication.write(page);
        }
        page.warnings(self.error.as_slice());
    }
}

impl PublicationStatus {
    fn write(&self, page: &mut Page) {
        page.line(format!("  {}  {}", self.finding.publication, words::state(&self.finding.state)));
        let mut facts = Vec::new();
        facts.extend(self.scope.as_ref().map(|text| format!("scope {}", scope(text))));
        facts.extend(self.owner.as_ref().map(|owner| format!("owner {owner}")));
        facts.extend(self.begun.map(|begun| format!("begun {}", instant(begun))));
        if !facts.is_empty() {
            page.line(format!("    {}", facts.join("   ")));
        }
        if let Some((why, reason)) = &self.closed {
            page.line(format!("    {}: {reason}", words::closed(*why)));
        }
        if !self.failed_checks.is_empty() {
            page.line(format!("    failed: {}", self.failed_checks.join(", ")));
        }
        if let Some(journal) = &self.foreign_journal {
            page.line(format!("    begun with another journal: {journal}"));
        }
        page.items(self.leases.iter().flat_map(LeaseReport::lines).map(|line| format!("  {line}")));
        if let Some(error) = &self.error {
            page.line(format!("    only what the table shows: {error}"));
        }
        if let Some(sent) = self.finding.abandon {
            page.line(format!("    {}", words::abandon(sent)));
        }
        for line in self.conflict.iter().flat_map(|conflict| conflict.lines()) {
            page.line(format!("    {line}"));
        }
        for command in &self.next {
            page.line(format!("    next: {command}"));
        }
    }
}

impl Text for LogReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let table = shell(&self.table.to_string());
        if self.entries.is_empty() {
            page.line(format!("{}  nothing was published yet", self.table));
            page.next([format!("calve status {table}")]);
            return page.finish();
        }
        for entry in &self.entries {
            let at = entry.at.map_or_else(|| "time not known".to_owned(), instant);
            page.line(format!("{}  snapshot {}  {at}", entry.publication, entry.snapshot));
            let mut facts = vec![words::sight(entry.visibility).to_owned()];
            facts.push(if entry.sealed { "sealed" } else { "WITHOUT EVIDENCE" }.to_owned());
            if !entry.receipt {
                facts.push("its receipt is missing".to_owned());
            }
            facts.extend(entry.checks.iter().map(|(name, result)| format!("{name} {result}")));
            page.line(format!("  {}", facts.join(", ")));
            if let Some(statement) = &entry.statement {
                page.line(format!("  statement {statement}"));
            }
        }
        page.next([format!("calve review {table} ID")]);
        page.finish()
    }
}

impl Text for ReviewReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(format!("{} {}  {}", self.table, self.finding.publication, words::state(&self.finding.state)));
        for source in &self.sources {
            page.line(format!("  source {} at {}", source.name, source.revision));
        }
        for (number, answer) in self.answers.iter().enumerate() {
            page.line(format!("{}. {}", number + 1, answer.question));
            page.items(answer.answer.iter().map(|line| format!(" {line}")));
        }
        let (table, id) = (&self.table, &self.finding.publication);
        page.next(match self.finding.state {
            State::Open { .. } | State::SubjectMoved { .. } => vec![command("validate", table, id, "")],
            State::Sealed { .. } => vec![command("publish", table, id, "")],
            State::Moved { .. } | State::Foreign { .. } => vec![command("abandon", table, id, "--reason …")],
            State::Published { .. } => vec![format!("calve log {}", shell(&table.to_string()))],
            State::Closed => vec![format!("calve begin {} NEW-ID", shell(&table.to_string()))],
            State::Lost { .. }
            | State::Regressed { .. }
            | State::Bypassed { .. }
            | State::VisibleAfterFence { .. }
            | State::ReceiptRemoved { .. }
            | State::Ambiguous { .. }
            | State::Consumed
            | State::Gone
            | State::Unknown => vec![command("reconcile", table, id, "")],
        });
        page.finish()
    }
}

impl Text for ContractReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(format!("{}{}", if self.written { "wrote " } else { "" }, self.path));
        page.table(&self.checks.iter().map(|(name, kind)| vec![name.clone(), kind.clone()]).collect::<Vec<_>>());
        page.line(format!("digest {}", self.digest));
        page.next([format!("calve validate {} ID", shell(&self.table.to_string()))]);
        page.finish()
    }
}
