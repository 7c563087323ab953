//! One file a use case. Each observes the table, decides by a pure function, journals the intent, has **one** effect,
//! journals the reply, and decides again from the table.
//!
//! Nothing here judges a table's state itself: verdicts come from [`crate::publish`], and results are reports.

mod abandon;
mod begin;
mod conflict;
mod create;
mod doctor;
mod effect;
mod error;
mod evidence;
mod facts;
mod log;
mod look_back;
mod places;
mod probe;
mod publish;
mod reconcile;
mod recover;
mod review;
mod run;
mod session;
mod stage;
mod status;
mod validate;

use std::sync::Arc;

use uuid::Uuid;

use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::data::{NoProgress, Progress};
use crate::ids::{Owner, PublicationId, SnapshotId, TableName};
use crate::journal::Journal;
use crate::journal::process::Process;

pub use begin::BeginRequest;
pub use create::CreateRequest;
pub use doctor::{DoctorRequest, JournalKind};
pub use effect::Step;
pub use error::Error;
pub use look_back::{DEFAULT_FILES, Reach};
pub use recover::RecoverRequest;
pub use run::{Job, RunRequest};
pub use stage::{StageMode, StageRequest};
pub use validate::ValidateRequest;

/// Everything a use case needs: a catalog, a journal, a clock, and who asks.
#[derive(Debug, Clone)]
pub struct Coordinator {
    catalog: Arc<dyn Catalog>,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    owner: Owner,
    /// Tells this process's leases from another's of the same owner.
    holder: Uuid,
    /// This process: its leases end with it.
    process: Option<Process>,
    /// The lease under which the process works that started this one.
    inherited: Option<Uuid>,
    /// How much memory checks may use, in bytes.
    memory_limit: u64,
    /// How far tables are followed back through their older metadata.
    reach: Reach,
    /// Told while older metadata is read.
    progress: Arc<dyn Progress>,
    /// Called at each step around a commit.
    #[cfg(feature = "testing")]
    steps: Option<Arc<dyn effect::StepHook>>,
}

/// How much memory checks may use unless said: 1 GiB.
pub const DEFAULT_MEMORY: u64 = 1 << 30;

impl Coordinator {
    /// A coordinator over these parts.
    pub fn new(catalog: Arc<dyn Catalog>, journal: Arc<dyn Journal>, clock: Arc<dyn Clock>, owner: Owner) -> Self {
        let holder = clock.fresh_uuid();
        Self {
            catalog,
            journal,
            clock,
            owner,
            holder,
            process: Process::current(),
            inherited: None,
            memory_limit: DEFAULT_MEMORY,
            reach: Reach::default(),
            progress: Arc::new(NoProgress),
            #[cfg(feature = "testing")]
            steps: None,
        }
    }

    /// The same with another limit of memory, in bytes.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// The same that follows tables back further, or less far, through their older metadata, and tells how it goes on.
    #[must_use]
    pub fn with_reach(mut self, reach: Reach, progress: Arc<dyn Progress>) -> Self {
        self.reach = reach;
        self.progress = progress;
        self
    }

    /// The same for a process that a job of `run` started: it works on that job's candidate under the lease that `run`
    /// holds, which `holder` names.
    #[must_use]
    pub fn with_inherited_lease(mut self, holder: Uuid) -> Self {
        self.inherited = Some(holder);
        self
    }

    /// The same as a process of which the system tells nothing: its leases last until they expire.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without_process(mut self) -> Self {
        self.process = None;
        self
    }

    /// The same with a hook that is called at each step around a commit, so that a test can end the process there.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_steps(mut self, hook: Arc<dyn effect::StepHook>) -> Self {
        self.steps = Some(hook);
        self
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.catalog
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Who asks.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

#[cfg(feature = "testing")]
pub use effect::StepHook;

/// What may be done next, as command lines.
fn next(table: &TableName, id: &PublicationId, verbs: &[&str]) -> Vec<String> {
    let line = |verb: &&str| match verb.split_once(' ') {
        None => format!("calve {verb} {table} {id}"),
        Some((verb, options)) => format!("calve {verb} {table} {id} {options}"),
    };
    verbs.iter().map(line).collect()
}

/// A snapshot id for messages; `absent` where a ref has none.
fn shown(id: Option<SnapshotId>) -> String {
    id.map_or_else(|| "absent".to_owned(), |id| id.to_string())
}
