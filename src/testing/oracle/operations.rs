//! What writers do to a table: each step is one snapshot.

use std::collections::BTreeSet;

use iceberg::spec::{Literal, SchemaRef};

use super::draws::Draws;
use super::rows::{Row, inside, partition, row};
use super::state::{Content, Factory, File, State};
use crate::scope::Scope;

/// A writer, and the rows that it may change; none for all.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub factory: Factory,
    pub owns: Option<(&'a Scope, SchemaRef)>,
    pub next_row: u64,
}

type Place = (i32, Vec<Option<Literal>>);

fn place_of(file: &File) -> Place {
    (file.entry.spec_id, file.entry.file.partition().fields().to_vec())
}

/// Groups by key, in order of appearance.
fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

impl Writer<'_> {
    fn owned(&self, rows: &[Row]) -> Vec<bool> {
        match &self.owns {
            None => vec![true; rows.len()],
            Some((scope, schema)) => inside(scope, rows, schema),
        }
    }

    /// Rows that readers see and this writer may change: file, position, row.
    fn within(&self, state: &State) -> Vec<(usize, usize, Row)> {
        let mut found = Vec::new();
        for (number, file) in state.files.iter().enumerate().filter(|(_, file)| file.entry.is_data()) {
            let seen = state.seen_in(file);
            let rows: Vec<Row> = seen.iter().map(|(_, row)| row.clone()).collect();
            let owned = self.owned(&rows);
            let kept = seen.into_iter().zip(owned).filter(|(_, owned)| *owned);
            found.extend(kept.map(|((position, row), _)| (number, position, row)));
        }
        found
    }

    /// One snapshot.
    pub(super) fn step(&mut self, draws: &mut Draws<'_>, state: &mut State) {
        let sequence_number = state.last_sequence_number + 1;
        match draws.below(if self.owns.is_some() { 6 } else { 10 }) {
            0 => self.append(draws, state, sequence_number),
            1 => self.rewrite(draws, state, sequence_number),
            2 => self.delete_files(draws, state),
            3 => self.positions(draws, state, sequence_number),
            4 => self.equal(draws, state, sequence_number),
            5 => {
                self.equal(draws, state, sequence_number);
                self.append(draws, state, sequence_number);
            }
            6 => self.compact(draws, state, sequence_number),
            7 => self.rewrite_deletes(draws, state, sequence_number),
            8 => drop_spent(draws, state),
            _ => {
                let data: Vec<usize> = places(state, |file| file.entry.is_data());
                if !data.is_empty() {
                    state.files[*draws.pick(&data)].entry.sequence_number = sequence_number;
                }
            }
        }
        state.last_sequence_number = sequence_number;
    }

    fn append(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let count = 1 + draws.below(4);
        let rows: Vec<Row> = (0..count).map(|_| row(draws, &mut self.next_row)).collect();
        let owned = self.owned(&rows);
        let rows = rows.into_iter().zip(owned).filter(|(_, owned)| *owned).map(|(row, _)| row).collect();
        let spec = i32::try_from(draws.below(state.specs.len())).expect("few specs");
        self.add(draws, state, spec, rows, sequence_number);
    }

    fn add(&mut self, draws: &mut Draws<'_>, state: &mut State, spec: i32, rows: Vec<Row>, sequence_number: i64) {
        let wide = state.wide;
        let by = state.spec(spec).clone();
        for (place, rows) in grouped(rows.into_iter().map(|row| (partition(&by, &row, wide), row))) {
            let file = self.factory.data(draws, spec, &place, rows, wide, sequence_number);
            state.files.push(file);
        }
    }

    /// Copy-on-write: files are written anew without some rows; others are carried over.
    fn rewrite(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let data = places(state, |file| file.entry.is_data());
        let chosen = draws.some(&data);
        let (mut gone, mut kept) = (BTreeSet::new(), Vec::new());
        for number in chosen {
            let file = state.files[number].clone();
            let rows: Vec<Row> = state.seen_in(&file).into_iter().map(|(_, row)| row).collect();
            let owned = self.owned(&rows);
            // Few engines write a file anew that holds none of the rows they are after.
            if !owned.contains(&true) && !draws.once_in(6) {
                continue;
            }
            let _new = gone.insert(number);
            let carried = rows.into_iter().zip(owned).filter(|(_, owned)| !*owned || draws.once_in(3));
            kept.push((file.entry.spec_id, carried.map(|(row, _)| row).collect::<Vec<_>>()));
        }
        remove(state, &gone);
        for (spec, rows) in kept {
            self.add(draws, state, spec, rows, sequence_number);
        }
        if draws.once_in(2) {
            self.append(draws, state, sequence_number);
        }
        if draws.once_in(2) {
            drop_spent(draws, state);
        }
    }

    /// Whole files whose rows are all its own.
    fn delete_files(&mut self, draws: &mut Draws<'_>, state: &mut State) {
        let own = |number: &usize| {
            let file = &state.files[*number];
            let rows: Vec<Row> = state.seen_in(file).into_iter().map(|(_, row)| row).collect();
            file.entry.is_data() && !rows.is_empty() && !self.owned(&rows).contains(&false)
        };
        let own: Vec<usize> = (0..state.files.len()).filter(own).collect();
        let gone = draws.some(&own).into_iter().collect();
        remove(state, &gone);
    }

    fn positions(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let rows: Vec<(usize, usize)> =
            self.within(state).into_iter().map(|(file, position, _)| (file, position)).collect();
        let chosen = draws.some(&rows);
        let one_file_each = state.version == 3 || draws.once_in(2);
        let key = |file: usize| (place_of(&state.files[file]), one_file_each.then_some(file));
        let path = |file: usize| state.files[file].path().to_owned();
        let groups = grouped(chosen.into_iter().map(|(file, position)| (key(file), (path(file), position))));
        let vector = state.version == 3;
        for (((spec, place), _), positions) in groups {
            let mut positions: BTreeSet<_> = positions.into_iter().collect();
            if vector {
                // A file has one vector: the new one holds what the old one held.
                let target = positions.first().map(|(path, _)| path.clone());
                let old = places(state, |file| file.is_vector() && file.entry.file.referenced_data_file() == target);
                for number in &old {
                    if let Content::Positions(held) = state.files[*number].content.as_ref() {
                        positions.extend(held.iter().cloned());
                    }
                }
                remove(state, &old.into_iter().collect());
            }
            let file = self.factory.positions(draws, spec, &place, positions, vector, sequence_number);
            state.files.push(file);
        }
    }

    fn equal(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let rows: Vec<Row> = self.within(state).into_iter().map(|(_, _, row)| row).collect();
        let chosen: Vec<Row> = draws.some(&rows).into_iter().take(3).collect();
        let columns = draws.pick(&[vec![0], vec![4], vec![0, 1], vec![1, 3]]).clone();
        let spec = i32::try_from(draws.below(state.specs.len())).expect("few specs");
        let (wide, by) = (state.wide, state.spec(spec).clone());
        for (place, rows) in grouped(chosen.into_iter().map(|row| (partition(&by, &row, wide), row))) {
            let file = self.factory.equal(draws, (spec, &place), columns.clone(), &rows, wide, sequence_number);
            state.files.push(file);
        }
    }

    /// Files of one partition become one, under a new sequence number or, as some engines do, an old one.
    fn compact(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let data = places(state, |file| file.entry.is_data());
        let groups = grouped(data.into_iter().map(|number| (place_of(&state.files[number]), number)));
        if groups.is_empty() {
            return;
        }
        let (_, numbers) = draws.pick(&groups);
        let spec = state.files[numbers[0]].entry.spec_id;
        let rows: Vec<Row> =
            numbers.iter().flat_map(|number| state.seen_in(&state.files[*number])).map(|(_, row)| row).collect();
        let number = if draws.once_in(2) { state.last_sequence_number } else { sequence_number };
        remove(state, &numbers.iter().copied().collect());
        self.add(draws, state, spec, rows, number);
        if draws.once_in(2) {
            drop_spent(draws, state);
        }
    }

    /// Position delete files of one partition become one.
    fn rewrite_deletes(&mut self, draws: &mut Draws<'_>, state: &mut State, sequence_number: i64) {
        let plain = |file: &File| matches!(file.content.as_ref(), Content::Positions(_)) && !file.is_vector();
        let deletes = places(state, plain);
        let groups = grouped(deletes.into_iter().map(|number| (place_of(&state.files[number]), number)));
        if groups.is_empty() || state.version == 3 {
            return;
        }
        let ((spec, place), numbers) = draws.pick(&groups).clone();
        let mut all = BTreeSet::new();
        for number in &numbers {
            if let Content::Positions(held) = state.files[*number].content.as_ref() {
                all.extend(held.iter().cloned());
            }
        }
        remove(state, &numbers.into_iter().collect());
        let file = self.factory.positions(draws, spec, &place, all, false, sequence_number);
        state.files.push(file);
    }
}

fn places(state: &State, of: impl Fn(&File) -> bool) -> Vec<usize> {
    (0..state.files.len()).filter(|number| of(&state.files[*number])).collect()
}

fn remove(state: &mut State, gone: &BTreeSet<usize>) {
    let mut number = 0;
    state.files.retain(|_| {
        number += 1;
        !gone.contains(&(number - 1))
    });
}

/// Delete files that hide nothing any more go, some of them.
fn drop_spent(draws: &mut Draws<'_>, state: &mut State) {
    let seen = state.seen();
    for path in state.deletes().map(|file| file.path().to_owned()).collect::<Vec<_>>() {
        let mut without = state.clone();
        without.files.retain(|file| file.path() != path);
        if without.seen().len() == seen.len() && !draws.once_in(4) {
            *state = without;
        }
    }
}
