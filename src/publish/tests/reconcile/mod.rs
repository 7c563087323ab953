//! Every row of the reconcile table, each face of it, and the order of the rows.

mod contradicted;
mod gone;
mod lost;
mod open;
mod order;
mod past;
mod receipt;
mod visible;

use uuid::Uuid;

use crate::ids::{PublicationId, SnapshotId, TableUuid};
use crate::journal::record::{Event, ReplyRecord};
use crate::observed::{Observed, summary};
use crate::publish::Intent;
use crate::publish::commits;
use crate::publish::reconcile::{Absence, FilesLive, Finding, Moved, Sent, State, TableView, Visibility, reconcile};
use crate::publish::testkit::*;

fn find(observed: ObservedBuilder, intent: &Intent, files: FilesLive) -> Finding {
    reconcile(intent, &TableView::Present(Box::new(observed.build())), files)
}

fn state(observed: ObservedBuilder) -> State {
    find(observed, &no_journal(), FilesLive::NotKnown).state
}

fn state_with(observed: ObservedBuilder, log: &Log) -> State {
    find(observed, &log.intent(), FilesLive::NotKnown).state
}

fn is_ambiguous(state: &State) -> bool {
    matches!(state, State::Ambiguous { .. })
}
