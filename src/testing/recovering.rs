//! The scenario of a machine that looks after crashes, and of another that is none of its business.

use std::sync::Arc;

use uuid::Uuid;

use super::Bed;
use crate::clock::Clock as _;
use crate::coordinator::{Coordinator, RecoverRequest, StageMode};
use crate::journal::lease::{self, DEFAULT_DURATION, Keeper};
use crate::journal::log::Log;
use crate::journal::memory::MemoryJournal;
use crate::journal::process::Process;
use crate::journal::{Journal, LogKey};
use crate::publish::reconcile::State;
use crate::publish::recover::{Left, Stands};
use crate::report::{RecoverDid, RecoverReport, Report};

/// A process that holds the lease of a candidate.
struct Worker<'a> {
    bed: &'a Bed,
    by: &'a Coordinator,
    log: Log,
    holder: Uuid,
}

impl<'a> Worker<'a> {
    async fn at_work(bed: &'a Bed, by: &'a Coordinator, id: &str) -> Self {
        let table = bed.observe().await.uuid;
        let key = LogKey { catalog: by.catalog().identity().clone(), table, publication: bed.id(id) };
        let log = Log::open(by.journal().clone(), key).await.expect("a log");
        let mut worker = Self { bed, by, log, holder: bed.clock.fresh_uuid() };
        worker.take(Process::current()).await;
        worker
    }

    async fn take(&mut self, process: Option<Process>) {
        let (clock, owner, keeper) = (self.bed.clock.as_ref(), self.by.owner(), Keeper::Process(process));
        let taken = lease::take(&mut self.log, clock, owner, self.holder, &keeper, DEFAULT_DURATION).await;
        assert!(matches!(taken, Ok(lease::Taken::Ours(_))), "{taken:?}");
    }

    /// It was killed: a process that was started a tick earlier is none that runs.
    async fn killed(mut self) {
        let running = Process::current().expect("a system that tells its processes");
        self.take(Some(Process { started: running.started.wrapping_sub(1), ..running })).await;
    }
}

/// Each publication of a report: its id, what was done, and how it stands or why it was left alone.
fn told(report: &RecoverReport) -> Vec<(String, RecoverDid, Option<Stands>, Option<Left>)> {
    assert!(report.problems.is_empty(), "{report:?}");
    let items = report.publications.iter();
    items.map(|item| (item.finding.publication.to_string(), item.did, item.stands, item.left)).collect()
}

/// 29: `recover` on another machine with another journal leaves a live candidate alone. So it does with the same journal,
/// until the lease is over.
pub async fn s29_recover_elsewhere(bed: Bed) {
    let ann = bed.coordinator("ann");
    bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    bed.sealed(&ann, "sealed", 9, &[(9, 4, 40)]).await;
    bed.begin(&ann, "open", "day = '2013-08-10'").await;
    bed.stage(&ann, "open", StageMode::Append, &[(10, 5, 50)]).await;
    let workers = [Worker::at_work(&bed, &ann, "open").await, Worker::at_work(&bed, &ann, "sealed").await];
    let (refs, commits) = (bed.observe().await.refs, bed.commits());
    let fence = RecoverRequest { table: Some(bed.table.clone()), fence: true, ..RecoverRequest::default() };
    let recover = async |by: &Coordinator| by.recover(&fence).await.expect("a report");

    // Another journal knows nothing of it, or has a record of that id which means nothing here.
    let elsewhere: Arc<dyn Journal> = Arc::new(MemoryJournal::named("elsewhere"));
    let bob = bed.coordinator_with("bob", elsewhere);
    let report = recover(&bob).await;
    assert_eq!((told(&report), report.settled, report.exit_code()), (vec![], 0, 0));
    Worker::at_work(&bed, &bob, "open").await.killed().await;
    let report = recover(&bob).await;
    let foreign = ("open".to_owned(), RecoverDid::Nothing, None, Some(Left::Foreign));
    assert_eq!((told(&report), report.exit_code()), (vec![foreign], 0));

    // The same journal: whoever holds the lease is at work.
    let other = bed.coordinator("bob");
    let left = |id: &str| (id.to_owned(), RecoverDid::Nothing, None, Some(Left::AtWork));
    assert_eq!(told(&recover(&other).await), [left("open"), left("sealed")]);
    assert_eq!(bed.observe().await.refs, refs);
    assert_eq!(bed.commits(), commits, "nothing was sent");

    // Over: what is open is closed, what is sealed waits.
    for worker in workers {
        worker.killed().await;
    }
    let report = recover(&other).await;
    let fenced = ("open".to_owned(), RecoverDid::Fenced, Some(Stands::Settled), None);
    let waits = ("sealed".to_owned(), RecoverDid::Nothing, Some(Stands::Waiting), None);
    assert_eq!((told(&report), report.exit_code()), (vec![fenced, waits], 0));
    assert_eq!(bed.reconcile(&ann, "open").await.finding.state, State::Closed);
    assert_eq!(bed.publish(&ann, "sealed").await.exit_code(), 0);
    assert_eq!(bed.ids().await, [1, 2, 3, 4]);
}
