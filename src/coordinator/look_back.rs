//! Reads older metadata files of a table, newest first, until they tell what the current one no longer does.
//!
//! Only files in the chain of the table's metadata log are read: those that the current metadata names, and those that
//! they name in turn. Each was the table once. A file that lies in the folder and that no other names was perhaps never
//! committed, and proves nothing. A file that cannot be read says nothing either, and is named.
//! Source: Iceberg spec, "Table Metadata Fields", `metadata-log`; `protocol.md`, "Older metadata".

use std::collections::{BTreeSet, VecDeque};

use iceberg::spec::TableMetadata;

use super::begin::only_begins;
use super::session::Session;
use super::{Coordinator, Error};
use crate::catalog::metadata;
use crate::observed::Observed;
use crate::publish::past::{Ended, Past};
use crate::publish::reconcile::{FilesLive, Finding, State, Visibility};
use crate::publish::state::{LookBack, past_may_tell};

/// How many older metadata files are read unless said otherwise.
pub const DEFAULT_FILES: usize = 100;
/// How many bytes of them are read where nobody asked for it: 1 GiB.
const UNASKED_BYTES: u64 = 1 << 30;

/// How far a table may be followed back through its older metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// At most so many files; 0 reads none.
    pub files: usize,
    /// Read them also where the table as it is decides, and however large they are.
    pub asked: bool,
}

impl Default for Reach {
    fn default() -> Self {
        Self { files: DEFAULT_FILES, asked: false }
    }
}

impl Session {
    /// What happened, from older metadata too where the table as it is no longer tells.
    pub async fn finding_in_full(&mut self, coordinator: &Coordinator) -> Result<Finding, Error> {
        let first = self.finding(coordinator).await?;
        let reach = coordinator.reach;
        let wanted = match past_may_tell(&first.state, only_begins(self)) {
            LookBack::Unasked => reach.files > 0,
            LookBack::Asked => reach.asked && reach.files > 0,
            LookBack::Never => false,
        };
        if !wanted || self.past.is_some() {
            return Ok(first);
        }
        self.look_back(coordinator, &first).await?;
        self.finding(coordinator).await
    }

    async fn look_back(&mut self, coordinator: &Coordinator, first: &Finding) -> Result<(), Error> {
        let reach = coordinator.reach;
        let mut past = Past::new(self.id().clone(), &self.observed);
        let mut known: BTreeSet<String> = self.table.metadata_location.iter().cloned().collect();
        let mut waiting = VecDeque::new();
        queue(&self.table.metadata, &mut known, &mut waiting);
        let mut bytes = 0_u64;
        let mut tried = 0_usize;
        past.end(Ended::Log);
        while let Some((file, at_ms)) = waiting.pop_front() {
            if tried >= reach.files {
                past.end(Ended::Files);
                break;
            }
            if !reach.asked && bytes >= UNASKED_BYTES {
                past.end(Ended::Bytes);
                break;
            }
            tried = tried.saturating_add(1);
            coordinator.progress.stage(&format!("reading older metadata, {tried} of at most {}", reach.files), None);
            let older = match self.read(&file).await {
                Ok((older, size)) => {
                    bytes = bytes.saturating_add(size);
                    coordinator.progress.add(0, size);
                    older
                }
                Err(reason) => {
                    past.gap(&file, at_ms, reason);
                    continue;
                }
            };
            queue(&older, &mut known, &mut waiting);
            let before = past.add(&file, at_ms, &Observed::from_metadata(&older));
            if tells(&first.state, &self.judge(FilesLive::NotKnown, Some(&past)).state) {
                past.end(Ended::Decided);
                break;
            }
            if before {
                past.end(Ended::Begun);
                break;
            }
        }
        self.past = Some(past);
        Ok(())
    }

    /// One older state of this table, and how many bytes it took.
    async fn read(&self, file: &str) -> Result<(TableMetadata, u64), String> {
        let input = self.table.file_io.new_input(file).map_err(|error| error.to_string())?;
        let bytes = input.read().await.map_err(|error| error.to_string())?;
        let older = metadata::parse(&bytes, file).map_err(|error| error.to_string())?;
        let now = &self.table.metadata;
        if older.uuid() != now.uuid() {
            return Err(format!("it is of another table, {}", older.uuid()));
        }
        if older.last_sequence_number() > now.last_sequence_number() {
            return Err("it is newer than the table".to_owned());
        }
        Ok((older, u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
    }
}

/// Every file that this metadata names and that was not seen before, newest first. All are older than what waits already.
fn queue(metadata: &TableMetadata, known: &mut BTreeSet<String>, waiting: &mut VecDeque<(String, i64)>) {
    for entry in metadata.metadata_log().iter().rev() {
        if known.insert(entry.metadata_file.clone()) {
            waiting.push_back((entry.metadata_file.clone(), entry.timestamp_ms));
        }
    }
}

/// Does a verdict tell what the first one left open?
fn tells(first: &State, now: &State) -> bool {
    let open = |state: &State| {
        matches!(
            state,
            State::Published { visibility: Visibility::HistoryEnds, .. }
                | State::Bypassed { visibility: Visibility::HistoryEnds, .. }
                | State::ReceiptRemoved { visibility: Visibility::HistoryEnds, .. }
                | State::VisibleAfterFence { visibility: Visibility::HistoryEnds, .. }
        )
    };
    (first.row(), first.word()) != (now.row(), now.word()) && !open(now) || open(first) && !open(now)
}
