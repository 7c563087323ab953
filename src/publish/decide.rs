//! The gate: may PUBLISH be sent, and which request. Source: `protocol.md`, "The gate".

use super::commits::{self, Commit, Target};
use super::intent::Intent;
use super::outcome::{Cause, PublishOutcome, Rejection, Via};
use super::own::{base_of, marker_below};
use super::state::{Finding, Sent, State};
use crate::digest::Digest;
use crate::ids::{IdempotencyKey, RefName, SnapshotId, TableName};
use crate::observed::{Observed, RefKind, summary};

/// What was recomputed of the candidate just now, to hold against its seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recomputed {
    /// The change, from the manifests and the statement's file hashes.
    pub change: Digest,
    /// The tree of the data snapshot.
    pub tree: Digest,
    /// The tree of the seal.
    pub seal_tree: Digest,
    /// The candidate.
    pub candidate: Digest,
    /// The contract, from the publisher's own configuration.
    pub contract: Digest,
    /// Does the statement say that every check passed?
    pub statement_passed: bool,
    /// Added files that are not there any more.
    pub missing_files: Vec<String>,
    /// Added files of another size than the manifests say.
    pub changed_files: Vec<String>,
    /// Snapshots other than the seal that name the seal's own manifest list.
    pub shared_list: Vec<SnapshotId>,
}

/// What to do about publishing.
#[derive(Debug)]
pub enum Decision {
    /// Send this request, once.
    Send(Box<Commit>),
    /// Send nothing.
    Stop(PublishOutcome),
}

/// Decides from a fresh reading of the table. `evidence` is what was recomputed, or why it could not be.
pub fn decide(
    intent: &Intent,
    observed: &Observed,
    finding: &Finding,
    evidence: &Result<Recomputed, String>,
    table: &TableName,
    key: IdempotencyKey,
) -> Decision {
    let (seal, sent) = match &finding.state {
        State::Sealed { seal, sent } => (*seal, *sent),
        State::Published { .. } | State::ReceiptRemoved { .. } => {
            return Decision::Stop(PublishOutcome::from_finding(finding, Via::AlreadyThere, vec![]));
        }
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Bypassed { .. }
        | State::VisibleAfterFence { .. }
        | State::Ambiguous { .. }
        | State::Closed
        | State::Moved { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone
        | State::Unknown => return Decision::Stop(PublishOutcome::from_finding(finding, Via::Reconciled, vec![])),
    };
    // A request that may be applied is unresolved, whatever else is wrong.
    let stop = |rejection, reasons| {
        Decision::Stop(match sent {
            Sent::InFlight => PublishOutcome::Unresolved { cause: Cause::InFlight, reasons },
            Sent::None | Sent::NoJournal | Sent::Rejected | Sent::Conflicted => {
                PublishOutcome::Rejected { rejection, reasons }
            }
        })
    };
    if intent.newer {
        let reason = "the journal holds records of a newer calve: publish with that one".to_owned();
        return stop(Rejection::Refused, vec![reason]);
    }
    let evidence = match evidence {
        Ok(recomputed) => mismatches(observed, seal, recomputed),
        Err(reason) => vec![reason.clone()],
    };
    if !evidence.is_empty() {
        return stop(Rejection::Evidence, evidence);
    }
    let audit = intent.publication.audit_ref();
    if observed.reference(&audit).is_none_or(|audit| audit.kind != RefKind::KEPT_BRANCH) {
        let reason =
            format!("{audit} has lost its own retention, so that an expiry could take the seal: validate again");
        return stop(Rejection::Evidence, vec![reason]);
    }
    // A request whose reply is unknown is repeated to the letter, key included, so that a catalog that recognises it can.
    // Not so one that was accepted and does not show: its key would bring back the same answer and change nothing.
    let identical = intent.publish_attempts(seal).filter(|attempt| sent == Sent::InFlight && attempt.is_open()).last();
    // After a rename it would go to the old name, so a new one is made: both require the same branch, and one is applied.
    if let Some(attempt) = identical.filter(|attempt| attempt.commit.table == *table) {
        return Decision::Send(Box::new(attempt.commit.clone()));
    }
    let Some(marker) = marker_below(intent, observed, seal) else {
        let reason = format!("the seal {seal} does not stand on a marker of {}", intent.publication);
        return stop(Rejection::Evidence, vec![reason]);
    };
    let (begun, sealed) = (base_of(observed, marker), base_of(observed, seal));
    if begun != sealed {
        let reason = format!(
            "the seal {seal} names the base {}, and the marker {marker} names {}: validate again",
            shown(sealed),
            shown(begun)
        );
        return stop(Rejection::Evidence, vec![reason]);
    }
    let target = Target { table, id: &intent.publication, observed, key };
    Decision::Send(Box::new(commits::publish(&target, base_of(observed, seal), marker, seal)))
}

fn shown(base: Option<SnapshotId>) -> String {
    base.map_or_else(|| "none".to_owned(), |base| base.to_string())
}

/// Everything in which the candidate differs from what its seal says of it. Empty: the evidence holds.
fn mismatches(observed: &Observed, seal: SnapshotId, found: &Recomputed) -> Vec<String> {
    let Some(snapshot) = observed.snapshots.get(&seal) else {
        return vec![format!("the seal {seal} is not in the table")];
    };
    let mut reasons = Vec::new();
    let mut hold = |key: &str, what: &str, digest: &Digest| {
        let sealed = snapshot.summary.get(key);
        if sealed != Some(&digest.to_string()) {
            let sealed = sealed.map_or("nothing", String::as_str);
            reasons.push(format!("{what} is {digest}, the seal says {sealed}"));
        }
    };
    hold(summary::CHANGE, "the change", &found.change);
    hold(summary::TREE, "the tree", &found.tree);
    hold(summary::TREE, "the seal's own tree", &found.seal_tree);
    hold(summary::CANDIDATE, "the candidate", &found.candidate);
    hold(summary::CONTRACT, "the contract", &found.contract);
    if snapshot.summary.get(summary::VERDICT).map(String::as_str) != Some("pass") {
        reasons.push("the seal's verdict is not pass".to_owned());
    }
    if !found.statement_passed {
        reasons.push("the statement does not say that every check passed".to_owned());
    }
    reasons.extend(found.missing_files.iter().map(|file| format!("the file {file} is gone")));
    reasons.extend(found.changed_files.iter().map(|file| format!("the file {file} has another size than it had")));
    reasons.extend(found.shared_list.iter().map(|other| format!("snapshot {other} shares the seal's manifest list")));
    if let Some(base) = base_of(observed, seal) {
        if !observed.ancestry(seal).any(|ancestor| ancestor == base) {
            reasons.push(format!("the base {base} is not in the seal's ancestry: publishing would lose it"));
        }
    } else if observed.reference(&RefName::main()).is_some() {
        reasons.push("the candidate was begun on an empty table, which has snapshots now".to_owned());
    }
    reasons
}

/// Whether a commit that adds a snapshot was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landed {
    /// The table holds what it adds.
    Yes,
    /// It does not, and what the commit required has moved: it cannot be applied any more.
    Never,
    /// It does not, and it still could be.
    NotYet,
}

/// Decides BEGIN, STAGE and SEAL from the table: their snapshot ids are fresh, and all of a commit is applied or nothing.
pub fn landed(observed: &Observed, commit: &Commit) -> Landed {
    let added = commit.updates.iter().filter_map(|update| match update {
        iceberg::TableUpdate::AddSnapshot { snapshot } => Some(SnapshotId(snapshot.snapshot_id())),
        _ => None,
    });
    let mut added = added.peekable();
    if added.peek().is_some() && added.all(|id| observed.snapshots.contains_key(&id)) {
        return Landed::Yes;
    }
    let still = commit.requirements.iter().all(|requirement| match requirement {
        iceberg::TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } => {
            observed.reference(&RefName(r#ref.clone())).map(|found| found.snapshot.0) == *snapshot_id
        }
        iceberg::TableRequirement::UuidMatch { uuid } => observed.uuid.0 == *uuid,
        _ => true,
    });
    if still { Landed::NotYet } else { Landed::Never }
}
