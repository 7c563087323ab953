//! The rules that the model asks, each the real function; and what a mutant puts in the place of one.

use crate::ids::{IdempotencyKey, TableName};
use crate::observed::Observed;
use crate::publish::attempt::{ReplyRecord, Verb};
use crate::publish::commits::{self, Commit};
use crate::publish::decide::{Decision, Landed, Recomputed, decide, landed};
use crate::publish::intent::Intent;
use crate::publish::own::only_begins;
use crate::publish::reconcile::{FilesLive, Finding, State, TableView, reconcile};
use crate::publish::state::{Beginnable, FenceForm, Workable, beginnable, fence_form, files_may_tell, workable};

use super::table::Table;
use super::told::Told;

/// A gate: what to do about publishing.
pub type Gate = fn(&Intent, &Observed, &Finding, &Result<Recomputed, String>, &TableName, IdempotencyKey) -> Decision;

/// Every rule that the model asks.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What happened, from table and journal.
    pub reconcile: fn(&Intent, &TableView, FilesLive) -> Finding,
    /// Whether to look for the candidate's files.
    pub files_may_tell: fn(&State, &Observed, &Intent) -> bool,
    /// The gate before PUBLISH.
    pub decide: Gate,
    /// What was recomputed, before the gate sees it.
    pub recomputed: fn(Recomputed, &Observed, crate::ids::SnapshotId) -> Recomputed,
    /// Whether an addition was applied.
    pub landed: fn(&Observed, &Commit) -> Landed,
    /// Whether and how to fence.
    pub fence_form: fn(&State) -> Option<FenceForm>,
    /// Whether to stage or validate.
    pub workable: fn(&State) -> Option<Workable>,
    /// Whether to begin.
    pub beginnable: fn(&State, bool) -> Beginnable,
    /// Whether a journal knows of nothing but BEGINs.
    pub only_begins: fn(&Intent, &Observed) -> bool,
    /// Every commit, before it is journaled and sent.
    pub commit: fn(Verb, Commit, &Table) -> Commit,
    /// Whether the table that a reply carries shows the commit.
    pub shows: fn(&Observed, &Commit) -> bool,
    /// What is told after a reply.
    pub told: fn(&ReplyRecord, Told) -> Told,
    /// Is the intent durable before the request is sent?
    pub journal_first: bool,
}

impl Rules {
    /// The real ones.
    pub const REAL: Rules = Rules {
        reconcile,
        files_may_tell,
        decide,
        recomputed: |found, _, _| found,
        landed,
        fence_form,
        workable,
        beginnable,
        only_begins,
        commit: |_, commit, _| commit,
        shows: commits::shows,
        told: |_, told| told,
        journal_first: true,
    };
}
