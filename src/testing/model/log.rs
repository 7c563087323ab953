//! Journals as a tree: a log is its last record and the log before it, so that millions of states share them.

use std::collections::HashMap;

use chrono::DateTime;
use uuid::Uuid;

use super::names::{id, root, uuid};
use crate::digest::Digest;
use crate::ids::Owner;
use crate::journal::record::{Event, FORMAT, Record};
use crate::publish::Intent;

/// A log: its place in [`Logs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u32);

/// An event: its place in [`Logs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);

/// What is known of a log without folding it.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The log before its last record; itself for an empty one.
    pub before: LogId,
    /// The last record.
    pub last: Option<EventId>,
    /// How many records there are.
    pub records: u32,
    /// How many attempts.
    pub attempts: u16,
    /// How often the journal was lost before.
    pub epoch: u8,
    /// The last reading that was noted, with no attempt since.
    pub noted: Option<EventId>,
}

/// Every log and event that was ever met.
#[derive(Debug)]
pub struct Logs {
    nodes: Vec<Node>,
    children: HashMap<(LogId, EventId), LogId>,
    events: Vec<Event>,
    by_text: HashMap<Digest, EventId>,
    folded: Option<(LogId, Intent)>,
}

impl Logs {
    /// The empty log; one more for every time that it can be lost.
    pub fn new() -> Self {
        let empty = |number| Node {
            before: LogId(u32::from(number)),
            last: None,
            records: 0,
            attempts: 0,
            epoch: number,
            noted: None,
        };
        Self {
            nodes: (0..2).map(empty).collect(),
            children: HashMap::new(),
            events: Vec::new(),
            by_text: HashMap::new(),
            folded: None,
        }
    }

    /// The empty log after so many losses.
    pub fn empty(epoch: u8) -> LogId {
        LogId(u32::from(epoch))
    }

    /// What is known of a log.
    pub fn node(&self, log: LogId) -> Node {
        self.nodes[log.0 as usize]
    }

    /// An event by its place.
    pub fn event(&self, event: EventId) -> &Event {
        &self.events[event.0 as usize]
    }

    /// The place of an event.
    pub fn intern(&mut self, event: Event) -> EventId {
        // Events have no equality of their own; their text tells all that is in them.
        let text = Digest::of_bytes(format!("{event:?}").as_bytes());
        let next = EventId(self.events.len() as u32);
        let found = *self.by_text.entry(text).or_insert(next);
        if found == next {
            self.events.push(event);
        }
        found
    }

    /// The log with one more record.
    pub fn append(&mut self, log: LogId, event: EventId) -> LogId {
        let next = LogId(self.nodes.len() as u32);
        let found = *self.children.entry((log, event)).or_insert(next);
        if found == next {
            let node = self.node(log);
            let (attempts, noted) = match self.event(event) {
                Event::Intended { .. } => (node.attempts + 1, None),
                Event::Decided { .. } => (node.attempts, Some(event)),
                _ => (node.attempts, node.noted),
            };
            let records = node.records + 1;
            self.nodes.push(Node { before: log, last: Some(event), records, attempts, epoch: node.epoch, noted });
        }
        found
    }

    /// What the log remembers, folded by the real transition.
    ///
    /// # Panics
    /// Where the model wrote a log that cannot be: that is a violation of its own.
    pub fn intent(&mut self, log: LogId) -> Intent {
        if let Some((_, intent)) = self.folded.as_ref().filter(|(folded, _)| *folded == log) {
            return intent.clone();
        }
        let mut events = Vec::new();
        let mut at = log;
        while let Some(event) = self.node(at).last {
            events.push(event);
            at = self.node(at).before;
        }
        let records = events.iter().rev().zip(1..).map(|(event, number)| Record {
            format: FORMAT,
            number,
            id: Uuid::from_u128(u128::from(number)),
            at: DateTime::UNIX_EPOCH,
            by: Owner("ann@host".to_owned()),
            event: self.event(*event).clone(),
        });
        let empty = Intent::empty(id(), Some(uuid()));
        let intent = records.into_iter().try_fold(empty, |intent, record| intent.next(&record));
        let intent = intent.expect("a log that follows");
        self.folded = Some((log, intent.clone()));
        intent
    }

    /// How many logs there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// The root of a coordinator's journal.
pub fn root_of(who: usize, shared: bool) -> String {
    root(if shared { 0 } else { who })
}
