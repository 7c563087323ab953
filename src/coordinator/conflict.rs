//! What a moved base means for a candidate, read and told. The verdict is [`classify`]'s.

use super::facts::{Opened, data_snapshot};
use super::session::Session;
use super::{Coordinator, Error};
use crate::conflict::{Facts, Frame, Reads, Verdict, classify};
use crate::data::history::{explain, snapshots_between};
use crate::data::moved::{change_of, load_moved};
use crate::ids::SnapshotId;
use crate::observed::Role;
use crate::publish::outcome::{ConflictClass, PublishOutcome};
use crate::publish::reconcile::{Finding, Moved, State};
use crate::report::{ConflictReport, REASONS_KEPT};

impl Coordinator {
    /// What it means for the candidate below `head` that main is not at its base. `None`: main is.
    ///
    /// # Errors
    /// Manifests cannot be read, or the schema that it was begun under is gone: what changed is not known then.
    pub(super) async fn moved_base(
        &self,
        session: &Session,
        head: SnapshotId,
    ) -> Result<Option<ConflictReport>, Error> {
        let opened = Opened::of(session, head)?;
        let main = session.observed.main();
        if opened.base == main {
            return Ok(None);
        }
        let data = data_snapshot(session, head);
        let table = &session.table;
        let change = change_of(table, Some(opened.marker), Some(data)).await?;
        let reads = reads(session, &opened, data);
        let moved = load_moved(table, Some(opened.marker), main, &opened.scope, &reads, &change).await?;
        tracing::debug!("manifests of {} to {}: {:?}", super::shown(opened.base), super::shown(main), moved.effort);
        let (before, after) = frames(session, &opened, head)?;
        let mut verdict = classify(&Facts {
            before: &before,
            after: &after,
            concern: &moved.concern,
            candidate: &change,
            delta: &moved.delta,
            aimed_at: &moved.aimed_at,
            named: &moved.named,
            unreadable: &moved.unreadable,
        });
        if let Verdict::Rebuild { reasons, .. } = &mut verdict {
            let first = reasons.len().min(REASONS_KEPT);
            if let Some(told) = reasons.get_mut(..first) {
                explain(table, opened.base, main, told).await;
            }
        }
        Ok(Some(ConflictReport::new(opened.base, main, snapshots_between(table, opened.base, main), verdict)))
    }

    /// The same where a finding says that main moved. What cannot be read is a warning: then nothing is known but that it
    /// moved.
    pub(super) async fn conflict_of(
        &self,
        session: &Session,
        finding: &Finding,
        warnings: &mut Vec<String>,
    ) -> Option<Box<ConflictReport>> {
        let State::Moved { seal, moved } = &finding.state else { return None };
        if !moved.iter().any(|moved| matches!(moved, Moved::Main { .. })) {
            return None;
        }
        match self.moved_base(session, *seal).await {
            Ok(found) => found.map(Box::new),
            Err(error) => {
                warnings.push(format!("what changed since the base could not be read: {error}"));
                None
            }
        }
    }

    /// An outcome, and where it is a conflict that nobody has looked into, what the conflict is.
    pub(super) async fn looked_into(
        &self,
        session: &Session,
        outcome: PublishOutcome,
        finding: Option<&Finding>,
        warnings: &mut Vec<String>,
    ) -> (PublishOutcome, Option<Box<ConflictReport>>) {
        let (PublishOutcome::Conflict { class: ConflictClass::Unclassified, .. }, Some(finding)) = (&outcome, finding)
        else {
            return (outcome, None);
        };
        let conflict = self.conflict_of(session, finding, warnings).await;
        let Some(found) = &conflict else { return (outcome, None) };
        let class = match found.verdict {
            Verdict::Reattach { .. } => ConflictClass::Reattach,
            Verdict::Rebuild { .. } => ConflictClass::Rebuild,
        };
        let mut reasons = found.lines();
        if let PublishOutcome::Conflict { reasons: proof, .. } = outcome {
            reasons.extend(proof);
        }
        (PublishOutcome::Conflict { class, reasons }, conflict)
    }
}

/// What the job read: as declared; nothing, where every snapshot is one that `stage` wrote from given files.
fn reads(session: &Session, opened: &Opened, data: SnapshotId) -> Reads {
    if let Some(reads) = &opened.reads {
        return Reads::Declared(reads.clone());
    }
    let staged = |id: &SnapshotId| {
        matches!(session.observed.role(*id), Role::Staged(of, incarnation)
            if of == *session.id() && incarnation == opened.incarnation)
    };
    let mut written = session.observed.ancestry(data).take_while(|id| *id != opened.marker);
    if written.all(|id| staged(&id)) { Reads::Scope } else { Reads::Anything }
}

/// The table's shape as the candidate was begun, and as it is.
fn frames(session: &Session, opened: &Opened, head: SnapshotId) -> Result<(Frame, Frame), Error> {
    let metadata = &session.table.metadata;
    let observed = &session.observed;
    let marker = observed.snapshots.get(&opened.marker);
    let schema = marker.and_then(|marker| marker.schema_id).and_then(|id| metadata.schema_by_id(id));
    let schema = schema.ok_or_else(|| {
        Error::Failed(format!("the schema that {} was begun under is not in the table any more", session.id()))
    })?;
    let now = Frame {
        uuid: observed.uuid,
        format_version: Some(observed.format_version),
        schema: metadata.current_schema().clone(),
        default_spec_id: Some(observed.default_spec_id),
    };
    let then = Frame {
        uuid: session.intent.table.unwrap_or(observed.uuid),
        // Only version 1 has snapshots without a sequence number; no metadata records when a later one came.
        format_version: marker.filter(|marker| marker.sequence_number == 0).map(|_| 1),
        schema: schema.clone(),
        default_spec_id: session.intent.seal(head).map(|seal| seal.spec_id),
    };
    Ok((then, now))
}
