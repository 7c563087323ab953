//! The verdict against the rows.

use std::collections::{BTreeMap, BTreeSet};

use super::draws::Draws;
use super::operations::Writer;
use super::rows::{Row, filter, inside, schema, specs};
use super::state::{Factory, State};
use crate::conflict::{Concern, Facts, Frame, Reads, Verdict, classify};
use crate::identity::{Change, EntryKey, LiveEntry, change_between};
use crate::ids::TableUuid;
use crate::scope::Scope;

/// What came of one case.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The verdict of `classify`.
    pub verdict: Verdict,
    /// What the rows say to it.
    pub judgement: Judgement,
    /// The case, for people.
    pub told: String,
}

/// What the rows say to a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is right.
    Right,
    /// It says reattach, and this would be wrong.
    WrongReattach(String),
    /// It says rebuild, and reattaching would have given the same rows.
    NeedlessRebuild,
    /// It depends on entries that it was told do not concern it.
    WrongConcern(String),
}

/// Makes the case of a tape, and judges the verdict on it.
pub fn examine(tape: &[u32]) -> Examined {
    let mut draws = Draws::new(tape);
    let narrow = schema(false, false);
    let (scope_text, reads_text) = (filter(&mut draws), filter(&mut draws));
    let mut base = State {
        files: Vec::new(),
        last_sequence_number: 0,
        specs: specs(&mut draws, &narrow),
        version: if draws.once_in(2) { 3 } else { 2 },
        wide: false,
    };
    let writer =
        |who: &'static str, first: u64| Writer { factory: Factory { who, made: 0 }, owns: None, next_row: first };
    let mut first = writer("n", 0);
    for _ in 0..1 + draws.below(5) {
        first.step(&mut draws, &mut base);
    }

    let parse = |text: &str, under| Scope::parse(text, under).expect("a filter of this table");
    let scope = parse(&scope_text, &narrow);
    let mut candidate = base.clone();
    let mut job = Writer { owns: Some((&scope, narrow.clone())), ..writer("c", 1_000_000) };
    // Some jobs do more than they own.
    if draws.once_in(8) {
        job.owns = None;
    }
    for _ in 0..1 + draws.below(2) {
        job.step(&mut draws, &mut candidate);
    }

    let mut main = base.clone();
    let mut grown = false;
    match draws.below(8) {
        5 => main.version = 3,
        6 => main.wide = true,
        7 => grown = true,
        _ => {}
    }
    let mut others = writer("m", 2_000_000);
    for _ in 0..draws.below(4) {
        others.step(&mut draws, &mut main);
    }

    let reads = match draws.below(5) {
        0 | 1 => Reads::Scope,
        4 => Reads::Anything,
        _ => Reads::Declared(parse(&reads_text, &narrow).canonical()),
    };
    let now = schema(main.wide, grown);
    let q = match &reads {
        Reads::Scope => parse(&scope_text, &now),
        Reads::Anything => Scope::whole_table(),
        Reads::Declared(_) => parse(&scope_text, &now).union(&parse(&reads_text, &now)),
    };
    let change = change_between(&base.entries(), &candidate.entries());
    let told = format!(
        "scope {scope_text}, reads {reads:?}, specs {:?}\n{}{}{}",
        base.specs.iter().map(|spec| spec.fields()).collect::<Vec<_>>(),
        listed("N", &base),
        listed("S", &candidate),
        listed("M", &main)
    );

    let mut named = base.named();
    named.extend(candidate.named());
    named.extend(main.named());
    let all = base.specs.iter().map(|spec| (spec.spec_id(), spec.clone())).collect();
    let concern = Concern::new(&scope.canonical(), &reads, now.clone(), all, &change, &named);
    let uuid = TableUuid(uuid::Uuid::from_u128(7));
    let before = Frame { uuid, format_version: Some(base.version), schema: narrow.clone(), default_spec_id: Some(0) };
    let after = Frame { uuid, format_version: Some(main.version), schema: now.clone(), default_spec_id: Some(0) };
    let aimed_at: Vec<LiveEntry> = [base.entries(), main.entries()].concat();
    let verdict = |delta: &Change| {
        classify(&Facts {
            before: &before,
            after: &after,
            concern: &concern,
            candidate: &change,
            delta,
            aimed_at: &aimed_at,
            named: &named,
            unreadable: &[],
        })
    };
    let found = verdict(&change_between(&base.entries(), &main.entries()));
    let concerning = |state: &State| -> Vec<LiveEntry> {
        state.entries().into_iter().filter(|entry| concern.may_concern(entry)).collect()
    };
    let less = verdict(&change_between(&concerning(&base), &concerning(&main)));
    let judgement = if less != found {
        Judgement::WrongConcern(format!("{found:?} with all entries, {less:?} with those that concern it"))
    } else {
        match (found.is_reattach(), harm(&base, &candidate, &main, &change, &q, &now)) {
            (true, Some(harm)) => Judgement::WrongReattach(harm),
            (false, None) => Judgement::NeedlessRebuild,
            (true, None) | (false, Some(_)) => Judgement::Right,
        }
    };
    Examined { verdict: found, judgement, told }
}

/// Why the candidate's change on `M` would not be what the job would have made of `M`; `None` if it would.
fn harm(
    base: &State,
    candidate: &State,
    main: &State,
    change: &Change,
    q: &Scope,
    now: &iceberg::spec::SchemaRef,
) -> Option<String> {
    let (before, after) = (base.seen(), main.seen());
    let in_q = |seen: &BTreeMap<u64, (usize, Row)>| -> BTreeMap<u64, usize> {
        let rows: Vec<Row> = seen.values().map(|(_, row)| row.clone()).collect();
        let inside = inside(q, &rows, now);
        seen.iter().zip(inside).filter(|(_, inside)| *inside).map(|((id, (count, _)), _)| (*id, *count)).collect()
    };
    if in_q(&before) != in_q(&after) {
        return Some("the rows of q are others".to_owned());
    }
    let replayed = match replay(base, candidate, main, change) {
        Ok(replayed) => replayed,
        Err(why) => return Some(why),
    };
    let with = candidate.seen();
    let gone: BTreeSet<u64> = before.keys().filter(|id| !with.contains_key(id)).copied().collect();
    let mut expected: BTreeMap<u64, usize> = after.iter().map(|(id, (count, _))| (*id, *count)).collect();
    expected.retain(|id, _| !gone.contains(id));
    for (id, (count, _)) in with.iter().filter(|(id, _)| !before.contains_key(id)) {
        *expected.entry(*id).or_insert(0) += count;
    }
    let got: BTreeMap<u64, usize> = replayed.seen().iter().map(|(id, (count, _))| (*id, *count)).collect();
    (got != expected).then(|| format!("the rows would be {got:?}, and have to be {expected:?}"))
}

/// The candidate's files on `M`, in their order, under new sequence numbers.
fn replay(base: &State, candidate: &State, main: &State, change: &Change) -> Result<State, String> {
    let mut state = main.clone();
    for entry in &change.removed {
        let place = state.files.iter().position(|file| file.entry.key() == entry.key());
        let place = place.ok_or_else(|| format!("{} is to be removed, and gone", entry.file.file_path()))?;
        drop(state.files.remove(place));
    }
    let added: BTreeSet<EntryKey> = change.added.iter().map(LiveEntry::key).collect();
    for file in candidate.files.iter().filter(|file| added.contains(&file.entry.key())) {
        let mut file = file.clone();
        file.entry.sequence_number += main.last_sequence_number - base.last_sequence_number;
        state.files.push(file);
    }
    if state.version == 3 && base.version == 2 {
        let plain = |entry: &&LiveEntry| is_plain_position(entry);
        if let Some(entry) = change.added.iter().find(plain) {
            return Err(format!("{} may not be added to format version 3", entry.file.file_path()));
        }
    }
    let mut vectors = BTreeSet::new();
    for file in state.files.iter().filter(|file| file.is_vector()) {
        if !vectors.insert(file.entry.file.referenced_data_file()) {
            return Err(format!("{:?} would have two deletion vectors", file.entry.file.referenced_data_file()));
        }
    }
    Ok(state)
}

fn is_plain_position(entry: &LiveEntry) -> bool {
    entry.file.content_type() == iceberg::spec::DataContentType::PositionDeletes
        && entry.file.file_format() != iceberg::spec::DataFileFormat::Puffin
}

fn listed(name: &str, state: &State) -> String {
    let mut text = format!("{name} (version {}, sequence number {}):\n", state.version, state.last_sequence_number);
    for file in &state.files {
        let (number, spec) = (file.entry.sequence_number, file.entry.spec_id);
        let partition = file.entry.file.partition().fields();
        text.push_str(&format!("  {} @{number} spec {spec} {partition:?}: {:?}\n", file.path(), file.content));
    }
    text
}
