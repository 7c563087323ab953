//! A candidate's identities, its statement, and what the gate recomputes of both.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Opened, data_snapshot};
use super::session::Session;
use super::{Coordinator, Error};
use crate::contract::Contract;
use crate::data::live::live_entries;
use crate::data::pass::{PassOutput, SourceVersion};
use crate::digest::Digest;
use crate::evidence::check::IdentityKind;
use crate::evidence::policy::proves;
use crate::evidence::statement::{
    AttestedFile, Definition, Environment, InputAnchor, Parameter, Pin, Predicate, Run, StatedScope, Statement, Subject,
};
use crate::identity::{
    Candidate, Change, LiveEntry, base_digest, candidate_digest, change_between, change_digest, code_digest,
    fields_digest, schema_digest, scope_tree_digest, source_digest, spec_digest, tree_digest,
};
use crate::ids::SnapshotId;
use crate::observed::summary;
use crate::publish::decide::Recomputed;
use crate::publish::own::marker_below;
use crate::scope::Scope;

/// The candidate as its manifests show it.
#[derive(Debug)]
pub(super) struct Shape {
    pub data: SnapshotId,
    pub base: Vec<LiveEntry>,
    pub head: Vec<LiveEntry>,
    pub change: Change,
}

impl Shape {
    /// Of the candidate that stands on this opening, up to this head.
    pub async fn load(session: &Session, opened: &Opened, head: SnapshotId) -> Result<Self, Error> {
        let data = data_snapshot(session, head);
        // The marker has the base's files, and is still there where the base was expired.
        let base = live_entries(&session.table, Some(opened.marker)).await?;
        let head = live_entries(&session.table, Some(data)).await?;
        let change = change_between(&base, &head);
        Ok(Self { data, base, head, change })
    }
}

/// The digests that name a candidate and everything its evidence depends on.
#[derive(Debug)]
pub(super) struct Identities {
    pub change: Digest,
    pub tree: Digest,
    pub scope_tree: Digest,
    pub base: Digest,
    pub schema: Digest,
    pub spec: Digest,
    pub contract: Digest,
    pub candidate: Digest,
}

impl Identities {
    /// From the manifests, and the hash of every added file's bytes.
    pub fn compute(
        session: &Session,
        opened: &Opened,
        shape: &Shape,
        contract: &Contract,
        hashes: &BTreeMap<String, Digest>,
    ) -> Result<Self, Error> {
        let metadata = &session.table.metadata;
        let scope = opened.bound_scope(session)?;
        let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
        let added = with_hashes(&shape.change, hashes)?;
        let uuid = session.observed.uuid;
        let change = change_digest(uuid, &opened.scope, &added, &shape.change.removed);
        let base = base_digest(uuid, opened.base, &tree_digest(&shape.base));
        let schema = schema_digest(metadata.current_schema()).map_err(|e| failed(&e))?;
        let spec = spec_digest(metadata.default_partition_spec()).map_err(|e| failed(&e))?;
        let contract = contract.digest();
        let candidate = candidate_digest(&Candidate {
            table: uuid,
            base,
            change,
            schema,
            spec,
            scope: opened.scope.clone(),
            reads: opened.reads.clone(),
            sources: opened.sources_by_name(),
            code: opened.code.clone(),
            contract,
        });
        let in_scope: Vec<LiveEntry> =
            shape.head.iter().filter(|entry| may_match(session, &scope, entry)).cloned().collect();
        Ok(Self {
            change,
            tree: tree_digest(&shape.head),
            scope_tree: scope_tree_digest(&in_scope),
            base,
            schema,
            spec,
            contract,
            candidate,
        })
    }

    /// By the words that checks use for them, with the columns, sources and code that results name.
    fn by_word(
        &self,
        session: &Session,
        opened: &Opened,
        contract: &Contract,
        found: &PassOutput,
    ) -> Result<BTreeMap<String, Digest>, Error> {
        let mut words = BTreeMap::new();
        let schema = session.table.metadata.current_schema();
        let fixed = [
            (IdentityKind::Change, self.change),
            (IdentityKind::Tree, self.tree),
            (IdentityKind::ScopeTree, self.scope_tree),
            (IdentityKind::Base, self.base),
            (IdentityKind::Schema, self.schema),
            (IdentityKind::Spec, self.spec),
            (IdentityKind::Contract, self.contract),
        ];
        words.extend(fixed.into_iter().map(|(kind, digest)| (kind.to_string(), digest)));
        let sources = opened.sources_by_name();
        let source = |name: &str| {
            let uri = contract.sources.get(name).map_or("", String::as_str);
            source_digest(uri, &version_of(name, &sources, &found.sources).unwrap_or_else(|| "unpinned".to_owned()))
        };
        words.extend(opened.code.iter().map(|code| (IdentityKind::Code.to_string(), code_digest(code))));
        for name in sources.keys().chain(contract.sources.keys()) {
            words.insert(IdentityKind::Source(name.clone()).to_string(), source(name));
        }
        for kind in found.results.iter().flat_map(|result| &result.depends_on) {
            let digest = match kind {
                IdentityKind::Fields(names) => {
                    fields_digest(schema, names).map_err(|error| Error::Failed(error.to_string()))?
                }
                IdentityKind::Source(name) => source(name),
                IdentityKind::Code => code_digest(opened.code.as_deref().unwrap_or("")),
                IdentityKind::Change
                | IdentityKind::ScopeTree
                | IdentityKind::Tree
                | IdentityKind::Base
                | IdentityKind::Schema
                | IdentityKind::Spec
                | IdentityKind::Contract => continue,
            };
            words.insert(kind.to_string(), digest);
        }
        Ok(words)
    }
}

/// The version of a source: as it was read by a check, else as BEGIN was told.
fn version_of(name: &str, given: &BTreeMap<String, String>, read: &BTreeMap<String, SourceVersion>) -> Option<String> {
    read.get(name).map(|read| read.version.clone()).or_else(|| given.get(name).cloned())
}

fn with_hashes<'a>(
    change: &'a Change,
    hashes: &BTreeMap<String, Digest>,
) -> Result<Vec<(&'a LiveEntry, Digest)>, Error> {
    let hash = |entry: &'a LiveEntry| match hashes.get(entry.file.file_path()) {
        Some(digest) => Ok((entry, *digest)),
        None => Err(Error::Failed(format!("the bytes of {} were not hashed", entry.file.file_path()))),
    };
    change.added.iter().map(hash).collect()
}

/// May a live file hold rows of the scope? Through its own spec; a delete file always may.
fn may_match(session: &Session, scope: &Scope, entry: &LiveEntry) -> bool {
    let metadata = &session.table.metadata;
    match metadata.partition_spec_by_id(entry.spec_id).filter(|_| entry.is_data()) {
        Some(spec) => scope.may_match(&entry.file, spec, metadata.current_schema()),
        None => true,
    }
}

/// Hashes of the files that calve wrote, by path; the rest are hashed as they are checked.
pub(super) fn known_hashes(session: &Session) -> BTreeMap<String, Digest> {
    session.intent.files.iter().map(|file| (file.path.clone(), file.sha256)).collect()
}

/// The statement of what was checked and found.
#[allow(clippy::too_many_arguments, reason = "each is one part of the statement")]
pub(super) fn statement(
    coordinator: &Coordinator,
    session: &Session,
    opened: &Opened,
    shape: &Shape,
    identities: &Identities,
    contract: &Contract,
    found: &PassOutput,
    unattested: usize,
) -> Result<Statement, Error> {
    let hashes = &found.file_digests;
    let now = coordinator.clock.now();
    let definition = Definition {
        verb: "publish".to_owned(),
        parameters: BTreeMap::from([
            ("scope".to_owned(), Parameter::Text(opened.scope.clone())),
            ("contract".to_owned(), Parameter::Digest(identities.contract)),
        ]),
        environment: Environment {
            engine: format!("calve {}", env!("CARGO_PKG_VERSION")),
            code: opened.code.clone(),
            backends: BTreeMap::new(),
        },
    };
    let pinned = opened.sources_by_name();
    let names: BTreeSet<&String> = pinned.keys().chain(contract.sources.keys()).collect();
    let inputs = names.into_iter().map(|name| InputAnchor {
        name: name.clone(),
        kind: if found.sources.contains_key(name) { "files" } else { "given" }.to_owned(),
        pin: match version_of(name, &pinned, &found.sources) {
            Some(version) => Pin::Pinned(version),
            None => Pin::Unpinned { read_at: now },
        },
    });
    let files = hashes.iter().map(|(path, sha256)| AttestedFile { path: path.clone(), sha256: *sha256 });
    let name = session.name();
    Ok(Statement {
        subject: Subject::new(coordinator.catalog.identity(), name, shape.data, identities.tree),
        predicate: Predicate {
            publication: session.id().clone(),
            incarnation: opened.incarnation,
            table_uuid: session.observed.uuid,
            base: opened.base,
            snapshot: shape.data,
            candidate: identities.candidate,
            identities: identities.by_word(session, opened, contract, found)?,
            scope: StatedScope { canonical: opened.scope.clone(), text: opened.scope_text.clone() },
            reads: opened.reads.clone(),
            checks: found.results.iter().map(Into::into).collect(),
            definition_hash: definition.hash(),
            definition,
            inputs: inputs.collect(),
            run: Run { id: coordinator.clock.fresh_uuid().to_string(), at: now },
            files: files.collect(),
            unattested: u64::try_from(unattested).unwrap_or(u64::MAX),
        },
    })
}

/// The size of a file of the table, in bytes; `None` where it is gone.
async fn size_of(session: &Session, path: &str) -> Result<Option<u64>, Error> {
    let failed =
        |error: iceberg::Error| Error::Failed(format!("{path} could not be looked at: {error}; nothing was sent"));
    let input = session.table.file_io.new_input(path).map_err(failed)?;
    match input.exists().await.map_err(failed)? {
        true => Ok(Some(input.metadata().await.map_err(failed)?.size)),
        false => Ok(None),
    }
}

impl Coordinator {
    /// How many live files of a candidate no publication attested: neither this one, nor an earlier one whose seal main
    /// still reaches and whose statement is in this journal.
    pub(super) async fn unattested(
        &self,
        session: &Session,
        opened: &Opened,
        shape: &Shape,
        hashes: &BTreeMap<String, Digest>,
    ) -> Result<usize, Error> {
        let mut open: BTreeSet<&str> = shape.head.iter().map(|entry| entry.file.file_path()).collect();
        open.retain(|path| !hashes.contains_key(*path));
        for ancestor in opened.base.into_iter().flat_map(|base| session.observed.ancestry(base)) {
            if open.is_empty() {
                break;
            }
            let named =
                session.observed.snapshots.get(&ancestor).and_then(|s| s.summary.get(summary::STATEMENT_DIGEST));
            let Some(digest) = named.and_then(|named| named.parse::<Digest>().ok()) else { continue };
            let Some(bytes) = self.journal.statement(&digest).await? else { continue };
            // What cannot be read attests nothing.
            if let Ok(statement) = Statement::parse(&bytes) {
                for file in &statement.predicate.files {
                    open.remove(file.path.as_str());
                }
            }
        }
        Ok(open.len())
    }

    /// Everything of a sealed candidate that can be computed again, to be held against its seal. The inner error says
    /// why there is no evidence to hold.
    pub(super) async fn recompute(
        &self,
        session: &Session,
        seal: SnapshotId,
        contract: &Contract,
    ) -> Result<Result<Recomputed, String>, Error> {
        let values = session.observed.snapshots.get(&seal).map(|snapshot| &snapshot.summary);
        let Some(named) = values.and_then(|values| values.get(summary::STATEMENT_DIGEST)) else {
            return Ok(Err(format!("the seal {seal} names no statement")));
        };
        let Ok(digest) = named.parse::<Digest>() else {
            return Ok(Err(format!("the seal {seal} names {named}, which is no digest")));
        };
        let Some(bytes) = self.journal.statement(&digest).await? else {
            return Ok(Err(format!("the statement {digest} is not in the journal {}", self.journal.root())));
        };
        let statement = match Statement::parse(&bytes) {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(format!("the statement {digest}: {error}"))),
        };
        if marker_below(&session.intent, &session.observed, seal).is_none() {
            let id = session.id();
            return Ok(Err(format!(
                "the marker below the seal {seal} is not in the table any more, so that what {id} changes cannot be \
                 told: abandon it, and begin a new id"
            )));
        }
        let opened = Opened::of(session, seal)?;
        let shape = Shape::load(session, &opened, seal).await?;
        let hashes: BTreeMap<String, Digest> =
            statement.predicate.files.iter().map(|file| (file.path.clone(), file.sha256)).collect();
        let identities = match Identities::compute(session, &opened, &shape, contract, &hashes) {
            Ok(identities) => identities,
            Err(Error::Failed(reason)) => return Ok(Err(reason)),
            Err(Error::Scope(error)) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        };
        let seal_entries = live_entries(&session.table, Some(seal)).await?;
        let (mut missing_files, mut changed_files) = (Vec::new(), Vec::new());
        for entry in &shape.change.added {
            let path = entry.file.file_path();
            match size_of(session, path).await? {
                None => missing_files.push(path.to_owned()),
                Some(size) if size != entry.file.file_size_in_bytes() => changed_files.push(path.to_owned()),
                Some(_) => {}
            }
        }
        let list = session.table.metadata.snapshot_by_id(seal.0).map(|snapshot| snapshot.manifest_list());
        let shared = session
            .table
            .metadata
            .snapshots()
            .filter(|other| other.snapshot_id() != seal.0 && Some(other.manifest_list()) == list);
        Ok(Ok(Recomputed {
            change: identities.change,
            tree: identities.tree,
            seal_tree: tree_digest(&seal_entries),
            candidate: identities.candidate,
            contract: identities.contract,
            statement_passed: proves(contract, &statement) && statement.predicate.candidate == identities.candidate,
            missing_files,
            changed_files,
            shared_list: shared.map(|other| SnapshotId(other.snapshot_id())).collect(),
        }))
    }
}
