//! What `recover` found and did, and who holds which lease.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::page::{Page, instant};
use super::text::{Text, plural};
use super::{Report, words};
use crate::ids::{Owner, PublicationId, TableName};
use crate::publish::advice::advise;
use crate::publish::outcome::EXIT_DONE;
use crate::publish::reconcile::Finding;
use crate::publish::recover::{Left, Stands};

/// A lease that was not given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeaseReport {
    /// Who holds it.
    pub owner: Owner,
    /// Tells two processes of one owner apart; `recover --takeover` names it.
    pub holder: Uuid,
    /// When it was taken or renewed last, by the holder's clock.
    pub at: DateTime<Utc>,
    /// Until when, by the holder's clock.
    pub until: DateTime<Utc>,
    /// How it stands.
    pub standing: LeaseStanding,
    /// The number of the process that holds it, where it is one.
    pub process: Option<u32>,
    /// It is for every process of the owner.
    pub reserved: bool,
    /// Who it was taken from, where that one never gave it back.
    pub taken_from: Option<Owner>,
    /// That two clocks disagree, where they do.
    pub clocks: Option<String>,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseStanding {
    /// Its holder may be at work.
    Live,
    /// Its time is over.
    Expired,
    /// Its process has ended.
    Ended,
}

impl LeaseReport {
    /// One line: who, until when, and whether they may be at work.
    pub(super) fn line(&self) -> String {
        let who = match (self.process, self.reserved) {
            (Some(number), _) => format!("process {number} of {}", self.owner),
            (None, true) => format!("{}, for all of its processes,", self.owner),
            (None, false) => self.owner.to_string(),
        };
        let word = match self.standing {
            LeaseStanding::Live => "live",
            LeaseStanding::Expired => "expired",
            LeaseStanding::Ended => "over, its process has ended",
        };
        let from = self.taken_from.as_ref().map(|from| format!(", taken over from {from}")).unwrap_or_default();
        format!("lease of {who} until {}: {word}{from} (holder {})", instant(self.until), self.holder)
    }

    /// The same, with what is odd about the clocks on a line of its own.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let clocks = self.clocks.as_ref().map(|clocks| format!("clocks differ: {clocks}"));
        std::iter::once(self.line()).chain(clocks)
    }
}

/// `recover`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecoverReport {
    /// The catalog.
    pub catalog: String,
    /// The journal's root.
    pub journal: String,
    /// Nothing was done, only said.
    pub dry_run: bool,
    /// How many publications are published or closed, with nothing missing.
    pub settled: usize,
    /// The others, one each.
    pub publications: Vec<RecoverItem>,
    /// What could not be read, or done.
    pub problems: Vec<RecoverProblem>,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// `recover`, one publication.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecoverItem {
    /// The table under the name that it has now, as far as it is known.
    pub table: Option<TableName>,
    /// What was found, after whatever was done.
    pub finding: Finding,
    /// What was done.
    pub did: RecoverDid,
    /// How it stands; `None` where it was left alone.
    pub stands: Option<Stands>,
    /// Why it was left alone, if it was.
    pub left: Option<Left>,
    /// The leases as they were found.
    pub leases: Vec<LeaseReport>,
    /// What may be done next: commands.
    pub next: Vec<String>,
    /// Things worth knowing.
    pub warnings: Vec<String>,
}

/// What `recover` did about a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoverDid {
    /// Nothing.
    Nothing,
    /// The verdict was recorded.
    Recorded,
    /// A receipt was left for what an engine made visible.
    Settled,
    /// It was closed for ever.
    Fenced,
    /// The lease that was named was taken over, and given back.
    TakenOver,
    /// The verdict would be recorded, and a bypass get its receipt.
    WouldRecord,
    /// It would be closed for ever.
    WouldFence,
    /// The lease that was named would be taken over.
    WouldTakeOver,
}

/// `recover`, what could not be read or done.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecoverProblem {
    /// The table, where it is known.
    pub table: Option<TableName>,
    /// The publication.
    pub publication: PublicationId,
    /// Why.
    pub error: String,
    /// The exit code of that.
    pub exit: u8,
}

impl Report for RecoverReport {
    /// The worst of what was found: a person must look, then unresolved, then what could not be read.
    fn exit_code(&self) -> u8 {
        let found = self.publications.iter().filter_map(|item| item.stands).map(Stands::exit_code);
        found.chain(self.problems.iter().map(|problem| problem.exit)).max().unwrap_or(EXIT_DONE)
    }
}

fn did(did: RecoverDid) -> Option<&'static str> {
    match did {
        RecoverDid::Nothing => None,
        RecoverDid::Recorded => Some("its verdict was recorded"),
        RecoverDid::Settled => Some("a receipt was left for it"),
        RecoverDid::Fenced => Some("it was closed for good"),
        RecoverDid::TakenOver => Some("the lease was taken over"),
        RecoverDid::WouldTakeOver => Some("the lease would be taken over"),
        RecoverDid::WouldRecord => Some("its verdict would be recorded"),
        RecoverDid::WouldFence => Some("it would be closed for good"),
    }
}

fn left(left: Left) -> &'static str {
    match left {
        Left::AtWork => "left alone: someone may be at work on it",
        Left::Foreign => "left alone: it was begun with another journal",
        Left::NotOurs => "left alone: the branch was made by someone else",
    }
}

fn stands(stands: Stands) -> &'static str {
    match stands {
        Stands::Settled => "settled",
        Stands::Waiting => "it waits for whoever publishes or abandons it",
        Stands::Open => "it is open, and nobody is at work on it; --fence closes it for good",
        Stands::NeverOpened => "its begin was not applied; --fence keeps that from being applied late",
        Stands::TableGone => "its table is gone, and nothing of it was in flight",
        Stands::Unresolved => "unresolved: it may be visible, or become so; nothing was deleted",
        Stands::Escalate => "a person must look: calve cannot tell",
    }
}

impl RecoverItem {
    fn write(&self, page: &mut Page) {
        let table = self.table.as_ref().map_or_else(|| "a table of unknown name".to_owned(), ToString::to_string);
        let id = &self.finding.publication;
        match self.stands {
            // Nothing is unresolved about it.
            Some(Stands::TableGone) => page.line(format!("{table} {id}  GONE")),
            _ => page.line(format!("{table} {id}  {}", words::state(&self.finding.state))),
        }
        page.items(did(self.did));
        page.items(self.left.map(left));
        page.items(self.stands.map(stands));
        if matches!(self.stands, Some(Stands::Unresolved | Stands::Escalate | Stands::TableGone)) {
            page.items(self.finding.proof.iter().map(|proof| format!("  {proof}")));
        }
        if matches!(self.stands, Some(Stands::Unresolved | Stands::Escalate)) {
            page.items(self.table.as_ref().and_then(|table| advise(table, &self.finding).may.into_iter().next()));
        }
        page.items(self.finding.abandon.map(words::abandon));
        page.items(self.leases.iter().flat_map(LeaseReport::lines));
        page.warnings(&self.warnings);
        for command in &self.next {
            page.line(format!("  next: {command}"));
        }
    }
}

impl Text for RecoverReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.catalog);
        page.line(format!("journal {}", self.journal));
        for item in &self.publications {
            item.write(&mut page);
        }
        for RecoverProblem { table, publication, error, .. } in &self.problems {
            let table = table.as_ref().map(|table| format!("{table} ")).unwrap_or_default();
            page.line(format!("{table}{publication}  CANNOT BE RECOVERED  {error}"));
        }
        if self.publications.is_empty() && self.problems.is_empty() {
            page.line("nothing to recover");
        }
        page.line(format!("{} settled, with nothing missing", plural(self.settled, "publication")));
        if self.dry_run {
            page.line("dry run: nothing was done");
        }
        page.warnings(&self.warnings);
        page.finish()
    }
}
