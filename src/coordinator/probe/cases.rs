//! The cases, one a guarantee. Each begins from the table as it is, so that what one leaves behind spoils no other.

use std::collections::HashMap;

use futures::future::join_all;
use iceberg::{TableRequirement, TableUpdate};

use super::scratch::{Case, PLAIN, Scratch, Tried, require, set, shown};
use crate::catalog::{Capabilities, CatalogError, Commit, Reply};
use crate::coordinator::{Coordinator, Error};
use crate::ids::{RefName, SnapshotId};
use crate::journal::PutIfAbsent;
use crate::observed::{Observed, RefKind};

/// Commits that race.
const RACERS: usize = 8;
/// What a catalog that lists its endpoints has to list.
pub(super) const COMMIT_ENDPOINT: &str = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}";

/// Takes the value, or ends the case with what decided it.
macro_rules! step {
    ($step:expr) => {
        match $step.await? {
            Ok(value) => value,
            Err(tried) => return Ok(tried),
        }
    };
}

/// How a refusal is told: 409 is what the specification has, but any refusal is safe that changed nothing.
fn refusal(status: u16) -> String {
    if status == 409 {
        "refused with 409, nothing changed".to_owned()
    } else {
        format!("refused with {status} instead of 409, nothing changed")
    }
}

fn kind(observed: &Observed, name: &str) -> Option<(SnapshotId, RefKind)> {
    observed.reference(&RefName(name.to_owned())).map(|found| (found.snapshot, found.kind.clone()))
}

impl Scratch<'_> {
    /// A name of a ref that no other case uses.
    fn name(&self, of: &str) -> String {
        let unique: String = self.clock.fresh_uuid().simple().to_string().chars().take(12).collect();
        format!("{of}/{unique}")
    }

    pub(super) async fn false_expectation(&self) -> Case {
        let first = step!(self.begun());
        let second = step!(self.begun());
        let other = SnapshotId(second.0 ^ 1);
        let mut last = (0, String::new());
        for expected in [Some(first), Some(other), None] {
            let (id, add) = self.snapshot(Some(second), HashMap::new()).await?;
            last = step!(self.refused(vec![require("main", expected)], vec![add, set("main", id, &PLAIN)]));
        }
        Ok(Tried::holds(refusal(last.0), Some(last.1)))
    }

    pub(super) async fn null_means_absent(&self) -> Case {
        let main = step!(self.begun());
        let mut last = (0, String::new());
        for (of, is) in [("audit", RefKind::KEPT_BRANCH), ("closed", RefKind::KEPT_TAG)] {
            let name = self.name(of);
            let open = || vec![set(&name, main, &is)];
            // A ref that is not there is not at a snapshot either.
            let _refused = step!(self.refused(vec![require(&name, Some(main))], open()));
            let (observed, request) = step!(self.applied(vec![require(&name, None)], open()));
            if kind(&observed, &name).is_none() {
                return Ok(Tried::broken("a ref that was set is not there", Some(request)));
            }
            let again = vec![set(&name, main, &RefKind::KEPT_BRANCH)];
            last = step!(self.refused(vec![require(&name, None)], again));
        }
        Ok(Tried::holds(refusal(last.0), Some(last.1)))
    }

    /// BEGIN, SEAL and PUBLISH; then PUBLISH again, and a FENCE, which come too late. And the other way round.
    pub(super) async fn refs_in_one_commit(&self) -> Case {
        let mut last = (0, String::new());
        for publish_first in [true, false] {
            let base = step!(self.begun());
            let uuid = self.observe().await?.uuid.0;
            let [audit, published, closed] = ["audit", "published", "closed"].map(|of| self.name(of));
            let guards = |more: Vec<TableRequirement>| {
                let mut all = vec![TableRequirement::UuidMatch { uuid }];
                all.extend([require(&published, None), require(&closed, None)]);
                all.extend(more);
                all
            };
            let (marker, add) = self.snapshot(Some(base), HashMap::new()).await?;
            let begin = guards(vec![require("main", Some(base)), require(&audit, None)]);
            let _open = step!(self.applied(begin, vec![add, set(&audit, marker, &RefKind::KEPT_BRANCH)]));
            let (seal, add) = self.snapshot(Some(marker), HashMap::new()).await?;
            let sealing = guards(vec![require(&audit, Some(marker))]);
            let _sealed = step!(self.applied(sealing, vec![add, set(&audit, seal, &RefKind::KEPT_BRANCH)]));
            let tombstone = || set(&audit, base, &RefKind::KEPT_TAG);
            let publish = || {
                let updates = vec![set("main", seal, &PLAIN), set(&published, seal, &RefKind::KEPT_TAG), tombstone()];
                (guards(vec![require("main", Some(base)), require(&audit, Some(seal))]), updates)
            };
            let fence = || {
                let updates = vec![set(&closed, seal, &RefKind::KEPT_TAG), tombstone()];
                (guards(vec![require(&audit, Some(seal))]), updates)
            };
            let (requirements, updates) = if publish_first { publish() } else { fence() };
            let (observed, request) = step!(self.applied(requirements, updates));
            let (main, receipt) = if publish_first { (seal, &published) } else { (base, &closed) };
            let left = [kind(&observed, receipt), kind(&observed, &audit)];
            if observed.main() != Some(main)
                || left != [Some((seal, RefKind::KEPT_TAG)), Some((base, RefKind::KEPT_TAG))]
            {
                return Ok(Tried::broken("the refs are not as an accepted commit set them", Some(request)));
            }
            for (requirements, updates) in [publish(), fence()] {
                last = step!(self.refused(requirements, updates));
            }
        }
        Ok(Tried::holds(format!("applied once; then {}", refusal(last.0)), Some(last.1)))
    }

    pub(super) async fn table_assertions(&self) -> Case {
        let main = step!(self.begun());
        let now = self.observe().await?;
        let schema = |id| TableRequirement::CurrentSchemaIdMatch { current_schema_id: id };
        let spec = |id| TableRequirement::DefaultSpecIdMatch { default_spec_id: id };
        let uuid = |uuid| TableRequirement::UuidMatch { uuid };
        let name = self.name("audit");
        let tag = || vec![set(&name, main, &RefKind::KEPT_TAG)];
        let (other_schema, other_spec) =
            (now.current_schema_id.saturating_add(1), now.default_spec_id.saturating_add(1));
        let mut last = (0, String::new());
        for wrong in [uuid(self.clock.fresh_uuid()), schema(other_schema), spec(other_spec)] {
            last = step!(self.refused(vec![wrong], tag()));
        }
        let right = vec![uuid(now.uuid.0), schema(now.current_schema_id), spec(now.default_spec_id)];
        let _applied = step!(self.applied(right, tag()));
        Ok(Tried::holds(refusal(last.0), Some(last.1)))
    }

    pub(super) async fn all_or_nothing(&self) -> Case {
        let main = step!(self.begun());
        let [one, two, three] = ["audit", "closed", "published"].map(|of| self.name(of));
        let tag = || set(&one, main, &RefKind::KEPT_TAG);
        // The false one stands first, in the middle and last: a catalog may look at some only.
        let mut last = (0, String::new());
        for at in 0..3 {
            let mut requirements = vec![require("main", Some(main)), require(&one, None)];
            requirements.insert(at, require(&two, Some(main)));
            last = step!(self.refused(requirements, vec![tag()]));
        }
        let (id, add) = self.snapshot(Some(main), HashMap::new()).await?;
        let nowhere = set(&three, SnapshotId(id.0 ^ 1), &RefKind::KEPT_TAG);
        let _refused = step!(self.refused(vec![], vec![tag(), add, set("main", id, &PLAIN), nowhere]));
        Ok(Tried::holds(refusal(last.0), Some(last.1)))
    }

    pub(super) async fn one_winner(&self) -> Case {
        let base = step!(self.begun());
        let mut commits = Vec::new();
        for _ in 0..RACERS {
            let (id, add) = self.snapshot(Some(base), HashMap::new()).await?;
            commits.push((id, self.commit_of(vec![require("main", Some(base))], vec![add, set("main", id, &PLAIN)])));
        }
        let replies = join_all(commits.iter().map(|(_, commit)| self.catalog.commit(commit))).await;
        let observed = self.observe().await?;
        let raced = || commits.iter().zip(&replies);
        let accepted = raced().filter(|(_, reply)| matches!(reply, Reply::Accepted { .. }));
        let winners: Vec<_> = accepted.map(|((id, _), _)| *id).collect();
        let there: Vec<_> =
            commits.iter().map(|(id, _)| *id).filter(|id| observed.snapshots.contains_key(id)).collect();
        let request =
            raced().next().map(|((_, commit), reply)| format!("{RACERS} times at once: {}", shown(commit, reply)));
        let main = observed.main();
        Ok(match winners.as_slice() {
            _ if there.len() > 1 => Tried::broken(format!("{} of {RACERS} were applied", there.len()), request),
            [winner] if main == Some(*winner) && there == [*winner] => {
                Tried::holds(format!("1 of {RACERS} was accepted, nothing of the others is left"), request)
            }
            [_] => Tried::broken("the one that was accepted is not in main", request),
            // Contention may be answered by none, and the one that was applied without an answer.
            [] => Tried::not_tested("none was accepted", request),
            _ => Tried::broken(format!("{} of {RACERS} were accepted", winners.len()), request),
        })
    }

    pub(super) async fn summary_kept(&self) -> Case {
        let main = step!(self.begun());
        let summary: HashMap<_, _> = [
            ("calve.publish-id", "repair-07".to_owned()),
            ("calve.scope", "eq(3,\"ü 'x'\")".to_owned()),
            ("calve.source.long", "x".repeat(1500)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let (id, add) = self.snapshot(Some(main), summary.clone()).await?;
        let name = self.name("audit");
        let (observed, request) = step!(self.applied(vec![], vec![add, set(&name, id, &RefKind::KEPT_BRANCH)]));
        let kept = |key: &str| observed.snapshots.get(&id).and_then(|snapshot| snapshot.summary.get(key));
        let lost: Vec<_> =
            summary.iter().filter(|(key, value)| kept(key) != Some(value)).map(|(key, _)| key.as_str()).collect();
        Ok(if lost.is_empty() {
            Tried::holds(format!("{} properties came back as they were sent", summary.len()), Some(request))
        } else {
            Tried::broken(format!("{} did not come back as sent", lost.join(", ")), Some(request))
        })
    }

    pub(super) async fn all_snapshots(&self) -> Case {
        let mut sent = Vec::new();
        for _ in 0..3 {
            sent.push(step!(self.begun()));
        }
        let (alone, add) = self.snapshot(sent.first().copied(), HashMap::new()).await?;
        let (observed, request) = step!(self.applied(vec![], vec![add]));
        let missing = sent.iter().filter(|id| !observed.snapshots.contains_key(id)).count();
        let logged = observed.snapshot_log.iter().map(|(_, id)| *id);
        Ok(if missing > 0 {
            Tried::broken(format!("{missing} of {} snapshots of main are not returned", sent.len()), Some(request))
        } else if !observed.snapshots.contains_key(&alone) {
            Tried::broken("a snapshot that no ref reaches is not returned", Some(request))
        } else if !logged.filter(|id| sent.contains(id)).eq(sent.iter().copied()) {
            Tried::broken("main's log does not show where it was", Some(request))
        } else {
            Tried::holds("main's history, its log, and a snapshot that no ref reaches", Some(request))
        })
    }

    pub(super) async fn retention_kept(&self) -> Case {
        let main = step!(self.begun());
        let own = RefKind::Branch {
            min_snapshots_to_keep: Some(7),
            max_snapshot_age_ms: Some(86_400_000),
            max_ref_age_ms: None,
        };
        let (audit, closed) = (self.name("audit"), self.name("closed"));
        let wanted = [("main", own), (audit.as_str(), RefKind::KEPT_BRANCH), (closed.as_str(), RefKind::KEPT_TAG)];
        let set_all = wanted.iter().map(|(name, kind)| set(name, main, kind)).collect();
        let (before, request) = step!(self.applied(vec![], set_all));
        // A commit that has nothing to do with those refs leaves them as they are.
        let (id, add) = self.snapshot(Some(main), HashMap::new()).await?;
        let (after, _) = step!(self.applied(vec![], vec![add, set(&self.name("other"), id, &RefKind::KEPT_TAG)]));
        for (observed, when) in [(before, "as it was set"), (after, "over a later commit")] {
            let kept = |name: &str, is: &RefKind| kind(&observed, name).is_some_and(|(_, found)| found == *is);
            if let Some((name, _)) = wanted.iter().find(|(name, is)| !kept(name, is)) {
                let of = if *name == "main" { "main" } else { "another ref" };
                return Ok(Tried::broken(format!("the retention of {of} is not kept {when}"), Some(request)));
            }
        }
        Ok(Tried::holds("kept as it was set, and over a later commit", Some(request)))
    }

    pub(super) async fn removed_ref(&self) -> Case {
        let main = step!(self.begun());
        let name = self.name("audit");
        let open = || vec![set(&name, main, &RefKind::KEPT_BRANCH)];
        let _open = step!(self.applied(vec![require(&name, None)], open()));
        let remove = vec![TableUpdate::RemoveSnapshotRef { ref_name: name.clone() }];
        let (observed, request) = step!(self.applied(vec![require(&name, Some(main))], remove));
        if kind(&observed, &name).is_some() {
            return Ok(Tried::broken("it is still there", Some(request)));
        }
        let _refused = step!(self.refused(vec![require(&name, Some(main))], open()));
        let _again = step!(self.applied(vec![require(&name, None)], open()));
        Ok(Tried::holds("gone, and its name can be used again", Some(request)))
    }

    pub(super) async fn idempotency_key(&self) -> Case {
        let main = step!(self.begun());
        let name = self.name("closed");
        let commit = self.commit_of(vec![require(&name, None)], vec![set(&name, main, &RefKind::KEPT_TAG)]);
        let first = self.catalog.commit(&commit).await;
        if !matches!(first, Reply::Accepted { .. }) {
            return Ok(Tried::not_tested("the first was not accepted", Some(shown(&commit, &first))));
        }
        let before = self.observe().await?;
        let second = self.catalog.commit(&commit).await;
        let request = Some(format!("the same again: {}", shown(&commit, &second)));
        if self.observe().await? != before {
            return Ok(Tried::broken("sent twice, it was applied twice", request));
        }
        let said = match self.catalog.capabilities().idempotency_key_lifetime {
            Some(lifetime) => format!("advertised for {lifetime}"),
            None => "not advertised, so none is sent".to_owned(),
        };
        Ok(match second {
            Reply::Accepted { .. } => Tried::holds(format!("{said}; the second is answered as the first"), request),
            Reply::Refused { status, .. } => {
                Tried::broken(format!("{said}; the second is judged anew: {status}"), request)
            }
            Reply::NotSent { .. } | Reply::Unknown { .. } => Tried::not_tested("there was no clear answer", request),
        })
    }

    pub(super) async fn transactions(&self, other: &Scratch<'_>) -> Case {
        let (here, there) = (step!(self.begun()), step!(other.begun()));
        let (one, two) = (self.name("closed"), other.name("closed"));
        let commits = |expected: SnapshotId| {
            let first = self.commit_of(vec![require("main", Some(here))], vec![set(&one, here, &RefKind::KEPT_TAG)]);
            let second =
                other.commit_of(vec![require("main", Some(expected))], vec![set(&two, there, &RefKind::KEPT_TAG)]);
            [first, second]
        };
        let both = |commits: &[Commit], reply: &Reply| {
            commits.last().map(|commit| format!("two tables: {}", shown(commit, reply)))
        };
        let refused = commits(SnapshotId(there.0 ^ 1));
        let reply = self.catalog.commit_all(&refused).await;
        if let Reply::NotSent { reason } = &reply {
            return Ok(Tried::not_tested(reason.clone(), None));
        }
        let request = both(&refused, &reply);
        let left = self.tagged(&one).await? as u8 + other.tagged(&two).await? as u8;
        match reply {
            Reply::Refused { status: 404 | 405 | 406 | 501, .. } if left == 0 => {
                return Ok(Tried::not_tested("there is no such endpoint", request));
            }
            Reply::Refused { .. } if left == 0 => {}
            Reply::NotSent { .. } | Reply::Unknown { .. } if left == 0 => {
                return Ok(Tried::not_tested("there was no clear answer", request));
            }
            Reply::Accepted { .. } | Reply::Refused { .. } | Reply::NotSent { .. } | Reply::Unknown { .. } => {
                return Ok(Tried::broken(format!("one was false, and {left} of 2 tables changed"), request));
            }
        }
        let right = commits(there);
        let reply = self.catalog.commit_all(&right).await;
        let after = both(&right, &reply);
        Ok(match (reply, self.tagged(&one).await? && other.tagged(&two).await?) {
            (Reply::Accepted { .. }, true) => {
                Tried::holds("one false expectation undoes both; a crash cannot be probed", request)
            }
            (Reply::Accepted { .. }, false) => Tried::broken("accepted, and not both tables changed", after),
            (Reply::Refused { .. } | Reply::NotSent { .. } | Reply::Unknown { .. }, _) => {
                Tried::not_tested("two commits that are right were not accepted", after)
            }
        })
    }

    async fn tagged(&self, name: &str) -> Result<bool, CatalogError> {
        Ok(kind(&self.observe().await?, name).is_some())
    }
}

/// What a catalog says of its endpoints; nothing is concluded from it.
pub(super) fn endpoints(capabilities: &Capabilities) -> Tried {
    match &capabilities.endpoints {
        None => Tried::not_tested("it lists none, which says nothing", None),
        Some(listed) if listed.iter().any(|endpoint| endpoint == COMMIT_ENDPOINT) => {
            Tried::holds(format!("{} are listed, the commit among them", listed.len()), None)
        }
        Some(listed) => Tried::broken(format!("{} are listed, and no commit among them", listed.len()), None),
    }
}

impl Coordinator {
    /// Several writers put different bytes under one name of the journal's store.
    pub(super) async fn put_if_absent(&self) -> Result<Tried, Error> {
        let proof = match self.journal.prove_put_if_absent(self.clock.as_ref()).await {
            Ok(proof) => proof,
            Err(error) => return Ok(Tried::not_tested(error.to_string(), None)),
        };
        let PutIfAbsent { writers, winners, kept } = proof;
        let request =
            Some(format!("{writers} writers, one of them late, put one free name under {}", self.journal.root()));
        Ok(if proof.holds() {
            Tried::holds(format!("1 of {writers} won, and what it wrote is there"), request)
        } else if winners == 1 && !kept {
            Tried::broken("what is there is not what the winner wrote", request)
        } else {
            Tried::broken(format!("{winners} of {writers} won"), request)
        })
    }
}
