//! `calve demo`: a late day arrives, first wrong, then right; an answer is lost; another writer comes second.
//!
//! Every step goes through the coordinator, as the verbs do. What readers see is counted from the table itself.

mod files;
mod readers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use self::files::FILES;
use self::readers::Readers;
use super::Context;
use super::args::Demo;
use super::config::{JournalPlace, Missing, embedded};
use super::exit::{Failure, Outcome};
use crate::catalog::faults::{Fault, Faults};
use crate::contract::Contract;
use crate::coordinator::{BeginRequest, Coordinator, CreateRequest, StageMode, StageRequest, ValidateRequest};
use crate::evidence::check::{self, MANIFEST_CHECK};
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::record::CloseReason;
use crate::publish::outcome::{EXIT_DONE, EXIT_REATTACH, PublishOutcome, Via};
use crate::report::page::{count, shell, short};
use crate::report::{PublishReport, Report, ValidateReport};

const TABLE: &str = "demo.flights";
const PARTITION: &str = "day(flight_date)";

/// Tells the story.
pub(super) async fn run(context: &Context, args: Demo) -> Outcome {
    let dir = place(args.dir)?;
    let catalog = Arc::new(Faults::new(embedded(&dir, Missing::Create).await?));
    let journal = JournalPlace::Warehouse(dir.join("journal"));
    let coordinator = context.settings()?.over(catalog.clone(), &journal).await?;
    files::unpack(&dir)?;
    let contract = files::contract(&dir)?;
    let mut story = Story {
        context,
        coordinator,
        contract,
        table: TABLE.parse().map_err(malformed)?,
        files: dir.join(files::FOLDER),
        readers: Readers::default(),
        publications: Vec::new(),
    };
    story.open(&dir).await?;
    let base = story.history().await?;
    story.bad_day().await?;
    let fixed = story.good_day().await?;
    let second = story.second_writer().await?;
    catalog.push(Fault::LoseReply);
    let main = story.lost_reply(&fixed).await?;
    story.conflict(&second, base, main).await?;
    story.end(&dir)
}

/// The folder: the one named, which must be absent or empty, or a new one that stays.
fn place(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let Some(dir) = given else {
        let new = tempfile::Builder::new().prefix("calve-demo-").tempdir();
        return new.map(tempfile::TempDir::keep).map_err(|e| Failure::failed(format!("a temporary folder: {e}")));
    };
    let shown = dir.display();
    let taken =
        |what: &str| Failure::usage(format!("{shown} {what}: name a folder that is absent or empty with --dir DIR"));
    match std::fs::read_dir(&dir) {
        Ok(entries) => {
            if entries.count() == 0 {
                Ok(dir)
            } else {
                Err(taken("is not empty"))
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(dir),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(taken("is no folder")),
        Err(error) => Err(Failure::failed(format!("{shown}: {error}"))),
    }
}

fn malformed(error: crate::ids::IdError) -> Failure {
    Failure::failed(error.to_string())
}

/// One step, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Step<'a> {
    step: &'a str,
    publication: Option<&'a PublicationId>,
    result: &'a str,
    exit_code: u8,
    /// Rows that readers of main see, by day.
    before: &'a Readers,
    after: &'a Readers,
    report: Value,
}

/// How a publication ended, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Ending {
    publication: PublicationId,
    outcome: String,
    exit_code: u8,
}

/// The last object.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct End<'a> {
    step: &'a str,
    warehouse: String,
    table: &'a TableName,
    publications: &'a [Ending],
    main: &'a Readers,
    next: Vec<String>,
}

struct Story<'a> {
    context: &'a Context,
    coordinator: Coordinator,
    contract: Contract,
    table: TableName,
    files: PathBuf,
    /// What readers of main saw after the step before.
    readers: Readers,
    publications: Vec<Ending>,
}

impl Story<'_> {
    async fn open(&mut self, dir: &Path) -> Result<(), Failure> {
        if !self.context.global.json {
            self.context.print_text(&format!(
                "Flights that left New York in August 2013, as table {TABLE} in {}\nUnder each step: rows that readers of main see, by day\n\n",
                dir.display()
            ))?;
        }
        let request = CreateRequest {
            table: self.table.clone(),
            like: self.files.join(FILES.history.0),
            partition_by: Some(PARTITION.to_owned()),
            format_version: 2,
            properties: std::collections::BTreeMap::new(),
        };
        let report = self.coordinator.create(&request).await?;
        self.tell("create", None, &format!("{TABLE}, partitioned by {PARTITION}"), &report).await
    }

    /// Eight days, published without trouble; what main is then.
    async fn history(&mut self) -> Result<Option<SnapshotId>, Failure> {
        let id = id("history")?;
        self.begin(&id, None).await?;
        let validated = self.stage_and_validate(&id, FILES.history.0, StageMode::Append).await?;
        let report = self.coordinator.publish(&self.table, &id, &self.contract).await?;
        let direct = matches!(report.outcome, PublishOutcome::Published { via: Via::Direct, .. });
        expect(direct && validated.passed, "history", &report)?;
        self.tell("history", Some(&id), &format!("{}, PUBLISHED", passed(&validated)), &report).await?;
        self.say("main", &self.ninth())?;
        self.end_of(id, "published", report.exit_code());
        Ok(report.main)
    }

    /// The ninth day, with duplicates.
    async fn bad_day(&mut self) -> Result<(), Failure> {
        let id = id("late-09")?;
        self.begin(&id, Some("flight_date = '2013-08-09'")).await?;
        let report = self.stage_and_validate(&id, FILES.duplicates.0, StageMode::Replace).await?;
        let failed = report.checks.iter().filter(|result| result.outcome != check::Outcome::Pass);
        let failed: Vec<_> = failed.map(|result| format!("{} FAILED: {}", result.name, result.summary)).collect();
        let quarantined = report.closed == Some(CloseReason::Quarantined);
        expect(!report.passed && quarantined && !failed.is_empty(), "late-09", &report)?;
        self.tell("late-09", Some(&id), &format!("{}   quarantined", failed.join(", ")), &report).await?;
        self.end_of(id, "quarantined", report.exit_code());
        Ok(())
    }

    /// The ninth day, right.
    async fn good_day(&mut self) -> Result<PublicationId, Failure> {
        let id = id("late-09-fixed")?;
        self.begin(&id, Some("flight_date = '2013-08-09'")).await?;
        let report = self.stage_and_validate(&id, FILES.ninth.0, StageMode::Replace).await?;
        expect(report.passed, "late-09-fixed", &report)?;
        self.tell("late-09-fixed", Some(&id), &passed(&report), &report).await?;
        Ok(id)
    }

    /// Another writer's tenth day, from the same base.
    async fn second_writer(&mut self) -> Result<PublicationId, Failure> {
        let id = id("late-10")?;
        self.begin(&id, Some("flight_date = '2013-08-10'")).await?;
        let report = self.stage_and_validate(&id, FILES.tenth.0, StageMode::Replace).await?;
        expect(report.passed, "late-10", &report)?;
        self.tell("late-10", Some(&id), &format!("{}, from the same base", passed(&report)), &report).await?;
        Ok(id)
    }

    /// The commit is applied, and its answer lost.
    async fn lost_reply(&mut self, id: &PublicationId) -> Result<Option<SnapshotId>, Failure> {
        let report = self.coordinator.publish(&self.table, id, &self.contract).await?;
        let reconciled = matches!(report.outcome, PublishOutcome::Published { via: Via::Reconciled, .. });
        expect(reconciled, "publish", &report)?;
        self.tell("publish", Some(id), "reply lost → table read → PUBLISHED (reconciled)", &report).await?;
        self.end_of(id.clone(), "published", report.exit_code());
        Ok(report.main)
    }

    /// The other writer comes second.
    async fn conflict(
        &mut self,
        id: &PublicationId,
        base: Option<SnapshotId>,
        main: Option<SnapshotId>,
    ) -> Result<(), Failure> {
        let report: PublishReport = self.coordinator.publish(&self.table, id, &self.contract).await?;
        let code = report.exit_code();
        expect(code == EXIT_REATTACH, "late-10", &report)?;
        let shown = |id: Option<SnapshotId>| id.map_or_else(|| "nothing".to_owned(), short);
        let moved = format!("conflict: main moved {}→{}  (exit {code})", shown(base), shown(main));
        self.tell("late-10", Some(id), &moved, &report).await?;
        self.say("main", &self.ninth())?;
        self.end_of(id.clone(), "conflict", code);
        Ok(())
    }

    fn end(&self, dir: &Path) -> Outcome {
        let warehouse = dir.display().to_string();
        let next = vec![
            format!("export CALVE_WAREHOUSE={}", shell(&warehouse)),
            "calve status".to_owned(),
            format!("calve review {TABLE} late-09-fixed"),
        ];
        if self.context.global.json {
            let (table, publications, main) = (&self.table, self.publications.as_slice(), &self.readers);
            self.context.print_json(&End { step: "done", warehouse, table, publications, main, next })?;
        } else {
            let [first, rest @ ..] = next.as_slice() else { return Ok(EXIT_DONE) };
            self.context.print_text(&format!("Next: {first}\n      {}\n", rest.join("; ")))?;
        }
        Ok(EXIT_DONE)
    }

    async fn begin(&self, id: &PublicationId, scope: Option<&str>) -> Result<(), Failure> {
        let request = BeginRequest {
            table: self.table.clone(),
            id: id.clone(),
            scope: scope.map(str::to_owned),
            reads: None,
            code: None,
            sources: Vec::new(),
            lease: None,
        };
        self.coordinator.begin(&request).await?;
        Ok(())
    }

    async fn stage_and_validate(
        &self,
        id: &PublicationId,
        file: &str,
        mode: StageMode,
    ) -> Result<ValidateReport, Failure> {
        let progress = self.context.progress();
        let (table, id) = (self.table.clone(), id.clone());
        let files = vec![self.files.join(file)];
        self.coordinator
            .stage(&StageRequest { table: table.clone(), id: id.clone(), mode, files }, progress.as_ref())
            .await?;
        let request = ValidateRequest {
            table,
            id,
            contract: self.contract.clone(),
            sources_root: self.files.clone(),
            dry_run: false,
        };
        let report = self.coordinator.validate(&request, progress.clone()).await?;
        progress.finish();
        Ok(report)
    }

    /// Prints a step with what readers saw before it and see after it.
    async fn tell(
        &mut self,
        step: &str,
        publication: Option<&PublicationId>,
        result: &str,
        report: &impl Report,
    ) -> Result<(), Failure> {
        let after = readers::count(&self.coordinator.catalog().load(&self.table).await?).await?;
        let before = std::mem::replace(&mut self.readers, after);
        let after = &self.readers;
        if self.context.global.json {
            let report_json = serde_json::to_value(report).map_err(|error| Failure::failed(error.to_string()))?;
            let exit_code = report.exit_code();
            let before = &before;
            return self.context.print_json(&Step {
                step,
                publication,
                result,
                exit_code,
                before,
                after,
                report: report_json,
            });
        }
        self.say(step, result)?;
        if before == *after {
            return self.say("", &format!("before and after  {after}"));
        }
        self.say("", &format!("before            {before}"))?;
        self.say("", &format!("after             {after}"))
    }

    /// One line of the story; only JSON objects where JSON was asked for.
    fn say(&self, who: &str, what: &str) -> Result<(), Failure> {
        if self.context.global.json {
            return Ok(());
        }
        self.context.print_text(&format!("{who:14} {what}\n"))
    }

    fn ninth(&self) -> String {
        match self.readers.day("2013-08-09") {
            0 => "no 9 August".to_owned(),
            rows => format!("9 August visible: {} rows", count(rows)),
        }
    }

    fn end_of(&mut self, publication: PublicationId, outcome: &str, exit_code: u8) {
        self.publications.push(Ending { publication, outcome: outcome.to_owned(), exit_code });
    }
}

fn id(text: &str) -> Result<PublicationId, Failure> {
    text.parse().map_err(malformed)
}

/// `4 checks passed, sealed K=7c1…`.
fn passed(report: &ValidateReport) -> String {
    let passed = report.checks.iter().filter(|result| result.name != MANIFEST_CHECK).count();
    let seal = report.seal.map_or_else(|| "not sealed".to_owned(), |seal| format!("sealed K={}", short(seal)));
    format!("{passed} checks passed, {seal}")
}

/// The demo promises what it prints; where the story goes another way, that is a fault of calve's.
fn expect(as_told: bool, step: &str, report: &impl Report) -> Result<(), Failure> {
    if as_told {
        return Ok(());
    }
    Err(Failure::failed(format!("the demo did not go as it should at {step}; its report:\n{}", report.text())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::contract_file_name;

    #[test]
    fn the_folder_must_be_absent_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert!(place(Some(dir.path().to_owned())).is_ok());
        assert!(place(Some(dir.path().join("new"))).is_ok());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(place(Some(dir.path().to_owned())).unwrap_err().code, 2);
        assert_eq!(place(Some(dir.path().join("file"))).unwrap_err().code, 2);
    }

    #[test]
    fn the_contract_is_one() {
        let dir = tempfile::tempdir().unwrap();
        files::unpack(dir.path()).unwrap();
        assert_eq!(files::contract(dir.path()).unwrap().checks.len(), 4);
        assert!(dir.path().join(contract_file_name(&TABLE.parse().unwrap())).exists());
    }
}
