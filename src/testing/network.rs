//! What goes wrong between coordinators and a catalog, in words that scripted faults and a real proxy share.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::catalog::fake::FakeCatalog;
use crate::catalog::faults::{Answer, Fault, Faults};
use crate::catalog::{Catalog, Reply};
use crate::ids::TableName;

/// What happens to one commit on its way and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It never reaches the catalog, and the connection is lost.
    RequestLost,
    /// The catalog decides it, and the connection is lost without a byte of the answer.
    ReplyLost,
    /// It is delivered twice, and the second answer comes back.
    Replayed,
    /// The connection is lost, and it reaches the catalog when it is released.
    Stalled,
    /// The catalog decides it, and a gateway answers with this status and a page of its own.
    Gateway(u16),
    /// The catalog decides it, and a gateway's redirect to the same place comes back.
    Redirected,
    /// The catalog decides it, and half of the answer comes back.
    Cut,
    /// The catalog decides it, and 200 with JSON that is not Iceberg's comes back.
    OthersJson,
    /// The catalog decides it, and 200 with a page of HTML comes back.
    Page,
}

/// The way between the coordinators of a bed and its catalog.
#[async_trait]
pub trait Network: Debug + Send + Sync {
    /// Plans what happens to the next commit; one plan at a time.
    fn next_commit(&self, trouble: Trouble);

    /// Runs `other` when the next commit is on its way and has not reached the catalog.
    fn before_next_commit(&self, other: BoxFuture<'static, ()>);

    /// Lets the commit go on that has stalled for the longest, and returns the catalog's status to it; `None` where none
    /// has stalled.
    async fn release(&self) -> Option<u16>;

    /// How many commits have come by, each time that one was sent.
    fn sent(&self) -> usize;

    /// How many deliveries of commits the catalog has accepted.
    fn applied(&self) -> usize;

    /// Gives a table another name, as an operator would, past this network. An error says why that cannot be done.
    async fn rename(&self, from: &TableName, to: &TableName) -> Result<(), String>;
}

/// Faults that a [`Faults`] was told of.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) faults: Arc<Faults<Arc<dyn Catalog>>>,
    pub(super) fake: Option<Arc<FakeCatalog>>,
}

#[async_trait]
impl Network for Scripted {
    fn next_commit(&self, trouble: Trouble) {
        let unknown = |reason: String| Fault::ReplyInstead(Answer::Unknown { reason });
        self.faults.push(match trouble {
            Trouble::RequestLost => Fault::LoseRequest,
            Trouble::ReplyLost => Fault::LoseReply,
            Trouble::Replayed => Fault::Duplicate,
            Trouble::Stalled => Fault::Hold,
            Trouble::Gateway(status) => unknown(format!("{status} from a gateway")),
            Trouble::Redirected => unknown("a redirect".to_owned()),
            Trouble::Cut => unknown("a 200 cut in half".to_owned()),
            Trouble::OthersJson => unknown("a 200 with someone else's JSON".to_owned()),
            Trouble::Page => unknown("a 200 with a web page".to_owned()),
        });
    }

    fn before_next_commit(&self, other: BoxFuture<'static, ()>) {
        self.faults.before_commit(move || other);
    }

    async fn release(&self) -> Option<u16> {
        match self.faults.release_held().await? {
            Reply::Accepted { .. } => Some(200),
            Reply::Refused { status, .. } => Some(status),
            reply @ (Reply::NotSent { .. } | Reply::Unknown { .. }) => panic!("a catalog at hand decides: {reply:?}"),
        }
    }

    fn sent(&self) -> usize {
        self.faults.commits()
    }

    fn applied(&self) -> usize {
        self.faults.accepted()
    }

    async fn rename(&self, from: &TableName, to: &TableName) -> Result<(), String> {
        let Some(fake) = &self.fake else { return Err("only the fake renames tables".to_owned()) };
        if fake.rename(from, to) { Ok(()) } else { Err(format!("{from} cannot become {to}")) }
    }
}
