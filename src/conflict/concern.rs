//! What a candidate is concerned with: the rows it owns and read, the files it removes, those it deletes rows of, and
//! what its deletes reach.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use iceberg::spec::{ManifestContentType, ManifestFile, PartitionSpecRef, SchemaRef, Struct};

use super::reach::{Named, PartitionKey, aim, is_equality, is_global, is_position, partition_of, targets};
use crate::identity::{Change, EntryKey, LiveEntry};
use crate::scope::Scope;

/// What the job of a candidate read of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// What `begin --reads` declared, in canonical form.
    Declared(String),
    /// Nothing but its own scope: calve's own `stage` wrote it, from the given files.
    Scope,
    /// It was not declared, and an engine wrote it: it may have read anything.
    Anything,
}

/// What a candidate is concerned with.
#[derive(Debug, Clone)]
pub struct Concern {
    /// q: the scope together with the reads.
    pub(super) q: Scope,
    /// Why q does not fit the table as it is now; then it is the whole table.
    pub(super) unbound: Option<String>,
    /// Was q declared by nobody?
    pub(super) assumed: bool,
    pub(super) schema: SchemaRef,
    pub(super) specs: BTreeMap<i32, PartitionSpecRef>,
    /// Entries that it removes, by path.
    pub(super) removed: HashMap<String, BTreeSet<EntryKey>>,
    /// Data files that it deletes rows of and leaves in place, by path.
    pub(super) aimed: BTreeSet<String>,
    /// Data files that it adds, by path.
    pub(super) added: BTreeSet<String>,
    /// Partitions where it removes data files, or deletes rows of some.
    pub(super) touched: HashSet<PartitionKey>,
    /// Partitions where it deletes rows of files that are not known.
    pub(super) blind: HashSet<PartitionKey>,
    /// Its position delete files and deletion vectors that cannot be read: path and reason.
    pub(super) unreadable: Vec<(String, String)>,
    /// What its new equality deletes reach.
    pub(super) deletes: Reach,
    /// Removed deletes: what came into their reach must not come back to life. Sequence number and reach.
    pub(super) lifted: Vec<(i64, Reach)>,
    partitions: HashMap<i32, Vec<Struct>>,
}

/// What deletes reach.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    global: bool,
    partitions: HashSet<PartitionKey>,
}

impl Reach {
    fn add(&mut self, delete: &LiveEntry, specs: &BTreeMap<i32, PartitionSpecRef>) {
        self.global |= is_global(delete, specs);
        let _new = self.partitions.insert(partition_of(delete));
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.global && self.partitions.is_empty()
    }

    pub(super) fn reaches(&self, partition: &PartitionKey) -> bool {
        self.global || self.partitions.contains(partition)
    }
}

impl Concern {
    /// Of a candidate that changes `change`, with a canonical scope, under the table's schema and specs as they are now.
    /// `named` holds what position delete files name, of those whose manifest entry does not tell.
    pub fn new(
        scope: &str,
        reads: &Reads,
        schema: SchemaRef,
        specs: BTreeMap<i32, PartitionSpecRef>,
        change: &Change,
        named: &BTreeMap<String, Named>,
    ) -> Self {
        let bound = |text: &str| Scope::from_canonical(text, &schema).map_err(|error| error.to_string());
        let q = bound(scope).and_then(|scope| match reads {
            Reads::Scope => Ok(scope),
            Reads::Anything => Ok(Scope::whole_table()),
            Reads::Declared(reads) => bound(reads).map(|reads| scope.union(&reads)),
        });
        let (q, unbound) = match q {
            Ok(q) => (q, None),
            Err(reason) => (Scope::whole_table(), Some(reason)),
        };
        let mut concern = Self {
            q,
            unbound,
            assumed: *reads == Reads::Anything,
            schema,
            specs,
            removed: HashMap::new(),
            aimed: BTreeSet::new(),
            added: BTreeSet::new(),
            touched: HashSet::new(),
            blind: HashSet::new(),
            unreadable: Vec::new(),
            deletes: Reach::default(),
            lifted: Vec::new(),
            partitions: HashMap::new(),
        };
        concern.take(change, named);
        concern
    }

    fn take(&mut self, change: &Change, named: &BTreeMap<String, Named>) {
        for entry in change.added.iter().filter(|entry| entry.is_data()) {
            let _new = self.added.insert(entry.file.file_path().to_owned());
        }
        for entry in change.added.iter().chain(&change.removed) {
            self.partitions.entry(entry.spec_id).or_default().push(entry.file.partition().clone());
        }
        for entry in &change.removed {
            self.removed.entry(entry.file.file_path().to_owned()).or_default().insert(entry.key());
            if entry.is_data() {
                let _new = self.touched.insert(partition_of(entry));
            } else {
                let mut reach = Reach::default();
                reach.add(entry, &self.specs);
                self.lifted.push((entry.sequence_number, reach));
            }
        }
        for entry in change.added.iter().filter(|entry| !entry.is_data()) {
            if is_equality(entry) {
                self.deletes.add(entry, &self.specs);
                continue;
            }
            let aim = aim(entry, named);
            if let super::reach::Aim::Unreadable(reason) = &aim {
                self.unreadable.push((entry.file.file_path().to_owned(), (*reason).to_owned()));
            }
            let partition = partition_of(entry);
            match targets(aim) {
                Some(paths) => {
                    let others: Vec<String> = paths.into_iter().filter(|path| !self.added.contains(path)).collect();
                    if !others.is_empty() {
                        let _new = self.touched.insert(partition);
                    }
                    self.aimed.extend(others);
                }
                None => {
                    let _new = self.touched.insert(partition.clone());
                    let _new = self.blind.insert(partition);
                }
            }
        }
    }

    /// Does the candidate remove this data file, or delete rows of it?
    pub(super) fn touches(&self, path: &str) -> bool {
        self.removed.contains_key(path) || self.aimed.contains(path)
    }

    /// Is there anything that deletes of the whole table can reach or bring back?
    fn deletes_or_touches(&self) -> bool {
        !self.touched.is_empty() || !self.deletes.is_empty() || !self.lifted.is_empty()
    }

    /// Does the candidate remove deletes that reach this partition?
    pub(super) fn lifts(&self, partition: &PartitionKey) -> bool {
        self.lifted.iter().any(|(_, reach)| reach.reaches(partition))
    }

    pub(super) fn may_match(&self, entry: &LiveEntry) -> bool {
        let spec = self.specs.get(&entry.spec_id);
        spec.is_none_or(|spec| self.q.may_match(&entry.file, spec, &self.schema))
    }

    pub(super) fn must_match(&self, entry: &LiveEntry) -> bool {
        let spec = self.specs.get(&entry.spec_id);
        entry.is_data() && spec.is_some_and(|spec| self.q.must_match(&entry.file, spec, &self.schema))
    }

    /// Can a difference in this entry matter? What it is asked of both states about decides, not which of them lists it.
    pub fn may_concern(&self, entry: &LiveEntry) -> bool {
        let path = entry.file.file_path();
        let partition = partition_of(entry);
        self.may_match(entry)
            || self.touches(path)
            || self.added.contains(path)
            || self.touched.contains(&partition)
            || self.deletes.reaches(&partition)
            || self.lifts(&partition)
            || (is_global(entry, &self.specs) && self.deletes_or_touches())
            || (is_position(entry) && entry.file.referenced_data_file().is_some_and(|path| self.touches(&path)))
    }

    /// Can a manifest list an entry that [`Concern::may_concern`]? By its spec, its content, and what the manifest list
    /// says of its partitions.
    pub fn may_concern_manifest(&self, manifest: &ManifestFile) -> bool {
        let (Some(spec), Some(summaries)) = (self.specs.get(&manifest.partition_spec_id), &manifest.partitions) else {
            return true;
        };
        let everywhere = self.deletes.global || self.lifted.iter().any(|(_, reach)| reach.global);
        let equality = manifest.content == ManifestContentType::Deletes && spec.is_unpartitioned();
        let partitions = self.partitions.get(&manifest.partition_spec_id);
        everywhere
            || (equality && self.deletes_or_touches())
            || self.q.may_match_manifest(summaries, spec, &self.schema)
            || partitions
                .into_iter()
                .flatten()
                .any(|partition| Scope::may_hold_partition(partition, summaries, spec, &self.schema))
    }
}
