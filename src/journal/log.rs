//! One log as read, and the two ways to append to it.
//!
//! What is appended was decided from the records before it. So a writer that finds its number taken has to read and
//! decide again: [`Log::append`] says [`Appended::Behind`]. A fact that depends on no earlier record (a reply that
//! came back, a reading of the table) goes to the next free number instead: [`Log::append_always`].

use std::sync::Arc;

use super::codec;
use super::record::{Event, FORMAT, Record};
use super::{Journal, JournalError, LogKey, Put};
use crate::clock::Clock;
use crate::ids::Owner;

/// Tries of [`Log::append_always`] before it gives up: each lost one means that another writer got on.
const TRIES: u32 = 1_000;

/// Whether a record followed from those that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "where the log had moved on, nothing was appended, and the decision has to be made again"]
pub enum Appended {
    /// It is in the log, durably, and the last of [`Log::records`].
    Won,
    /// Others appended first. Nothing of ours was; [`Log::records`] has been read again.
    Behind,
}

/// The records of one publication, as last read.
#[derive(Debug, Clone)]
pub struct Log {
    journal: Arc<dyn Journal>,
    key: LogKey,
    records: Vec<Record>,
}

impl Log {
    /// Reads a log; one that does not exist is empty.
    pub async fn open(journal: Arc<dyn Journal>, key: LogKey) -> Result<Self, JournalError> {
        let records = journal.read(&key).await?;
        Ok(Self { journal, key, records })
    }

    /// Which log this is.
    pub fn key(&self) -> &LogKey {
        &self.key
    }

    /// Where it is kept.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// The records as last read, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The newest record as last read.
    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    /// Reads the log again. Records once read must still be there: a journal that was put back to an earlier state
    /// while in use is damaged, and nothing is decided from it.
    pub async fn refresh(&mut self) -> Result<(), JournalError> {
        let read = self.journal.read(&self.key).await?;
        for (at, known) in self.records.iter().enumerate() {
            if read.get(at).is_none_or(|record| record.id != known.id) {
                return Err(self.changed(known.number));
            }
        }
        self.records = read;
        Ok(())
    }

    /// Appends an event that was decided from [`Log::records`].
    ///
    /// When the store fails, the same record is put once more: that finds out whether the first was stored, by its
    /// id. A second failure is returned; then it is not known whether the record is there, and its effect must not
    /// happen.
    pub async fn append(&mut self, event: Event, clock: &dyn Clock, by: &Owner) -> Result<Appended, JournalError> {
        self.check_writable()?;
        let last = self.last().map_or(0, |record| record.number);
        let Some(number) = last.checked_add(1) else {
            let reason = "the log is full".to_owned();
            return Err(JournalError::Impossible { path: self.path(last), number: last, reason });
        };
        // Its number may be free because a backup was restored: then it would follow another record than it was decided from.
        if let Some(known) = self.last()
            && !self.journal.holds(&self.key, known.number, known.id).await?
        {
            return Err(self.changed(known.number));
        }
        let record = Record { format: FORMAT, number, id: clock.fresh_uuid(), at: clock.now(), by: by.clone(), event };
        let put = match self.journal.put(&self.key, &record).await {
            Err(JournalError::Io { .. }) => self.journal.put(&self.key, &record).await?,
            put => put?,
        };
        match put {
            Put::Won => {
                self.records.push(record);
                Ok(Appended::Won)
            }
            Put::Taken => {
                self.refresh().await?;
                Ok(Appended::Behind)
            }
        }
    }

    /// Appends a fact that depends on no earlier record, at the next free number.
    pub async fn append_always(&mut self, event: Event, clock: &dyn Clock, by: &Owner) -> Result<(), JournalError> {
        for _ in 0..TRIES {
            match self.append(event.clone(), clock, by).await? {
                Appended::Won => return Ok(()),
                Appended::Behind => {}
            }
        }
        let next = self.last().map_or(1, |record| record.number.saturating_add(1));
        let reason = format!("others took the next number {TRIES} times in a row");
        Err(JournalError::Io { path: self.path(next), reason, unwritable: false })
    }

    /// Refuses where any record is of a newer calve: what it means for those that follow is not known here.
    pub fn check_writable(&self) -> Result<(), JournalError> {
        let newer = self.records.iter().find(|r| r.format > FORMAT || matches!(r.event, Event::Unrecognised));
        match newer {
            None => Ok(()),
            Some(record) => {
                Err(JournalError::Newer { path: self.path(record.number), found: record.format, supported: FORMAT })
            }
        }
    }

    fn changed(&self, number: u32) -> JournalError {
        let reason = "it is not the record that was read before: the journal was changed while in use".to_owned();
        JournalError::Damaged { path: self.path(number), reason }
    }

    fn path(&self, number: u32) -> String {
        codec::record_path(&self.journal.root(), &self.key, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::ids::{CatalogIdentity, TableUuid};
    use crate::journal::memory::MemoryJournal;

    #[tokio::test]
    async fn a_log_that_lost_records_while_in_use_is_damaged() {
        let (clock, ann) = (ManualClock::starting_now(1), Owner("ann".to_owned()));
        let journal = MemoryJournal::new();
        let table = TableUuid(clock.fresh_uuid());
        let key = LogKey { catalog: CatalogIdentity("c".to_owned()), table, publication: "p".parse().unwrap() };
        let mut log = Log::open(Arc::new(journal.clone()), key).await.unwrap();
        let before = journal.snapshot();
        let event = || Event::LeaseReleased { holder: table.0 };
        log.append_always(event(), &clock, &ann).await.unwrap();
        let first = journal.snapshot();
        log.append_always(event(), &clock, &ann).await.unwrap();
        assert!(log.refresh().await.is_ok());
        journal.restore(&before);
        assert!(matches!(log.refresh().await, Err(JournalError::Damaged { .. })));
        assert!(matches!(log.append(event(), &clock, &ann).await, Err(JournalError::Damaged { .. })));
        // Another took the number that was free again: nothing is put behind a record that nobody read.
        journal.restore(&first);
        let mut other = Log::open(Arc::new(journal.clone()), log.key().clone()).await.unwrap();
        other.append_always(event(), &clock, &Owner("bob".to_owned())).await.unwrap();
        assert!(matches!(log.append_always(event(), &clock, &ann).await, Err(JournalError::Damaged { .. })));
        assert_eq!(journal.read(log.key()).await.unwrap().len(), 2);
    }
}
