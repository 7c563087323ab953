//! What a verdict rests on, in sentences: the observation that decided first, then what else was seen, then what was sent.
//!
//! Written for whoever is woken by it. Each sentence names the refs, snapshots, sequence numbers, attempts and times that it
//! speaks of, so that it can be checked against the table. Sentences explain; nothing is decided from them.

use chrono::DateTime;

use super::attempt::{Attempt, ReplyRecord, Verb};
use super::intent::{Intent, Saw, SawWhat};
use super::past::{Ended, Past, Reading};
use super::reconcile::Facts;
use super::state::{Absence, FilesLive, Moved, Sent, State, Visibility};
use crate::ids::{RefName, SnapshotId, TableName};
use crate::observed::{ObservedRef, Role};

/// How many snapshots a sentence names before it only counts them.
const NAMED: usize = 4;

/// What is certain of a publication whose table is not there.
pub(super) fn of_lost(intent: &Intent, reason: &str, renamed: Option<&TableName>, why: Absence) -> Vec<String> {
    let mut proof = vec![format!("the table cannot be loaded: {reason}")];
    if let Some(uuid) = intent.table {
        proof.push(match (renamed, why) {
            (Some(name), _) => format!("the journal belongs to the table {uuid}, which is now under the name {name}"),
            (None, Absence::Missing | Absence::Replaced) => {
                format!("the journal belongs to the table {uuid}, which was not found under any other name")
            }
            (None, Absence::Unreachable) => {
                format!("the journal belongs to the table {uuid}, which nobody could look for")
            }
        });
    }
    if let Some(attempt) = intent.undecided() {
        let (number, verb) = (attempt.number, attempt.verb.word());
        proof.push(format!("attempt {number} ({verb}) was sent, and whether it was applied was never seen"));
    }
    proof.extend(intent.saw.map(|saw| saw_it(intent, saw)));
    match why {
        Absence::Replaced => proof.push(
            "it was never published in the table that is under this name now; of the earlier table nothing can be read"
                .to_owned(),
        ),
        Absence::Missing | Absence::Unreachable => {}
    }
    proof
}

/// What a verdict over a table rests on.
pub(super) fn of(facts: &Facts<'_>, state: &State, files: FilesLive) -> Vec<String> {
    let mut proof = facts.deciding(state, files);
    proof.extend(facts.refs());
    proof.extend(facts.excluded(state, files));
    proof.extend(facts.sent(state));
    proof.extend(facts.past.into_iter().flat_map(looked_back));
    proof
}

impl Facts<'_> {
    /// The observation that decided, and what it says of readers.
    fn deciding(&self, state: &State, files: FilesLive) -> Vec<String> {
        let id = &self.intent.publication;
        let (audit, receipt, fence) = (id.audit_ref(), id.published_ref(), id.closed_ref());
        let main = self.shown(self.observed.main());
        match state {
            State::Lost { reason, .. } => vec![reason.clone()],
            State::Regressed { remembered, found } => self.put_back(*remembered, *found),
            State::Published { snapshot, sealed: _, visibility } => {
                let why = match self.is_seal(*snapshot) {
                    true => "only the commit that publishes leaves that, or a settlement",
                    false => "a settlement of calve's left it, after an engine had moved main there",
                };
                let first = format!("the receipt stands: {receipt} names {}: {why}", self.named(*snapshot));
                vec![first, self.seen(Some(*snapshot), *visibility, files)]
            }
            State::Bypassed { snapshot, sealed, visibility, .. } => {
                let how = "calve's own commit would have turned it into a tag, so an engine moved main there";
                vec![
                    format!("{}, and {audit} is still a branch: {how}", self.reached_by(*snapshot)),
                    self.covers(*sealed),
                    self.seen(*snapshot, *visibility, files),
                ]
            }
            State::VisibleAfterFence { snapshot, visibility } => {
                vec![
                    format!("{}; and it was closed: {}", self.reached_by(*snapshot), self.closed_by()),
                    self.seen(*snapshot, *visibility, files),
                ]
            }
            State::ReceiptRemoved { snapshot, sealed, visibility } => {
                vec![
                    format!("{}, and {receipt}, which named it, is not there any more", self.reached_by(*snapshot)),
                    self.covers(*sealed),
                    self.seen(*snapshot, *visibility, files),
                ]
            }
            State::Ambiguous { reason, .. } => vec![reason.clone()],
            State::Closed => {
                let mut lines = vec![format!("it was closed: {}", self.closed_by())];
                let at = |found: Option<&ObservedRef>| found.map(|found| found.snapshot);
                if self.closed.is_some() && at(self.closed) == at(self.audit) {
                    lines.push(format!(
                        "it was closed when {audit} was gone already: what had become of it before is not told by that"
                    ));
                }
                lines
            }
            State::Sealed { seal, sent } => {
                let stands = format!("{audit} is still a branch, at the seal {seal}, and main is at its base {main}");
                vec![match sent {
                    Sent::None => format!("{stands}; the journal has no attempt to publish it"),
                    Sent::NoJournal if self.intent.has_journal() => format!(
                        "{stands}; the journal has no attempt to publish it, and does not know of this seal either, so that \
                         it could not tell of any"
                    ),
                    Sent::NoJournal => format!("{stands}; there is no journal here that could tell of attempts"),
                    Sent::Rejected => format!("{stands}; every attempt to publish it was refused or never left"),
                    Sent::Conflicted => {
                        format!("{stands}; the last attempt was refused for a conflict that the table does not show")
                    }
                    Sent::InFlight => format!("{stands}: a request that is still under way could be applied now"),
                }]
            }
            State::Moved { seal, moved } => {
                let stands = format!("{audit} is still a branch, at the seal {seal}");
                moved.iter().map(|one| format!("{stands}, and {}", self.what_moved(one))).collect()
            }
            State::Open { head, marker } if head == marker => {
                vec![format!("{audit} is a branch at its own marker {marker}: nothing was written to it yet")]
            }
            State::Open { head, marker } => {
                vec![format!("{audit} is a branch at {}, above its marker {marker}, without a seal", self.named(*head))]
            }
            State::SubjectMoved { head, seal } => {
                vec![format!(
                    "{audit} is a branch at {}, above the seal {seal}: what was checked is not what is on it now",
                    self.named(*head)
                )]
            }
            State::Foreign { head } => {
                vec![format!(
                    "{audit} is a branch at {}, which does not stand on a marker of this publication: someone else made it",
                    self.named(*head)
                )]
            }
            State::Consumed => vec![format!(
                "{audit} is a tag: a publication or a fence has used the branch up, and neither {receipt} nor {fence} says which"
            )],
            State::Gone => {
                vec![match self.own.iter().any(|own| self.observed.snapshots.contains_key(own)) || self.any_marker() {
                    false => format!("{audit} is gone, and only the journal knows of it"),
                    true => format!("{audit} is gone, and neither {receipt} nor {fence} is there; its snapshots are"),
                }]
            }
            State::Unknown => {
                vec![format!("no ref, no snapshot and no record of {id} is in this table or its journal")]
            }
        }
    }

    fn put_back(&self, remembered: i64, found: i64) -> Vec<String> {
        let id = &self.intent.publication;
        if found < remembered {
            let mut lines = vec![
                format!("the journal saw the table at sequence number {remembered}, and it is at {found} now"),
                "sequence numbers only grow: what was committed in between is not in this table any more".to_owned(),
            ];
            lines.extend(self.intent.saw.map(|saw| saw_it(self.intent, saw)));
            return lines;
        }
        let shows = match self.audit.filter(|audit| audit.kind.is_branch()) {
            Some(branch) => format!("the table shows {} as a branch at {} again", id.audit_ref(), branch.snapshot),
            None => "the table shows nothing of it, although main's line is whole to before it".to_owned(),
        };
        let saw = self.intent.saw.map(|saw| saw_it(self.intent, saw));
        saw.into_iter()
            .chain([
                shows,
                "both cannot hold: the table was put back to what it was before, it was read from a copy that lags behind, or \
                 someone made the refs by hand"
                    .to_owned(),
            ])
            .collect()
    }

    /// How it is known that main reached the candidate.
    fn reached_by(&self, snapshot: Option<SnapshotId>) -> String {
        let Some(snapshot) = snapshot else {
            return match self.intent.saw.filter(|saw| saw.what == SawWhat::Published) {
                Some(saw) if self.reached().is_empty() => saw_it(self.intent, saw),
                _ => "files that this candidate added are live in main".to_owned(),
            };
        };
        let name = self.named(snapshot);
        let id = &self.intent.publication;
        if self.reached().contains(&snapshot) {
            return match self.past.and_then(|past| past.main_at(snapshot)) {
                Some(state) => format!("main was at {name}: {} shows it", file(state)),
                None => format!("main's history holds {name}, a snapshot of this candidate"),
            };
        }
        match (self.past.and_then(Past::receipt), self.intent.saw) {
            (Some((state, at)), _) if at == snapshot => {
                format!("{} was a tag at {name}: {} shows it", id.published_ref(), file(state))
            }
            (_, Some(saw)) => saw_it(self.intent, saw),
            _ => format!("{name} was published"),
        }
    }

    fn closed_by(&self) -> String {
        let fence = self.intent.publication.closed_ref();
        match (self.closed, self.past.and_then(Past::fence), self.intent.saw) {
            (Some(closed), _, _) => {
                format!(
                    "{fence} is a tag at {}, and no request of this publication can be applied beside it",
                    closed.snapshot
                )
            }
            (None, Some((state, at)), _) => {
                format!("{fence} was a tag at {at}: {} shows it; it is not there any more", file(state))
            }
            (None, None, Some(saw)) => saw_it(self.intent, saw),
            (None, None, None) => format!("{fence} is not there"),
        }
    }

    fn covers(&self, sealed: bool) -> String {
        match sealed {
            true => "a seal of this candidate covers exactly these rows".to_owned(),
            false => "no seal covers exactly these rows: nothing was checked that vouches for them".to_owned(),
        }
    }

    /// What readers see of it, and what shows that.
    fn seen(&self, snapshot: Option<SnapshotId>, visibility: Visibility, files: FilesLive) -> String {
        let main = self.shown(self.observed.main());
        let line =
            self.observed.main().map(|main| self.observed.ancestry(main).collect::<Vec<_>>()).unwrap_or_default();
        let end = line.last().copied();
        match visibility {
            Visibility::Visible => format!("readers see it: main is at {main}"),
            Visibility::Superseded => match snapshot.and_then(|published| self.depth(&line, published)) {
                Some(above) => format!("readers see it: main is at {main}, {above} above it"),
                None if files == FilesLive::Yes => {
                    "readers see it: files that this candidate added are live in main".to_owned()
                }
                None => format!("readers see it: main is at {main}, which stands on it"),
            },
            Visibility::RolledBack => format!(
                "readers do not see it any more: main is at {main}, whose line does not hold it and was followed to its root {}",
                self.shown(end)
            ),
            Visibility::HistoryEnds => format!(
                "whether readers still see it is not known: main's line ends at {}, before it would reach it",
                end.map_or_else(|| "nothing".to_owned(), |end| self.named(end))
            ),
        }
    }

    fn depth(&self, line: &[SnapshotId], published: SnapshotId) -> Option<String> {
        let data = self.observed.snapshots.get(&published).filter(|_| self.is_seal(published)).and_then(|s| s.parent);
        let above = line.iter().position(|id| *id == published || Some(*id) == data)?;
        Some(if above == 1 { "1 snapshot".to_owned() } else { format!("{above} snapshots") })
    }

    fn what_moved(&self, moved: &Moved) -> String {
        match moved {
            Moved::Main { base, main } => {
                format!("main is at {}, where its base is {}", self.shown(*main), self.shown(*base))
            }
            Moved::Schema { sealed, current } => {
                format!("the current schema is {current}, where it was sealed under {sealed}")
            }
            Moved::Spec { sealed, current } => {
                format!("the default partition spec is {current}, where it was sealed under {sealed}")
            }
        }
    }

    /// The refs that decide, as the table has them.
    fn refs(&self) -> Vec<String> {
        let id = &self.intent.publication;
        let tell = |name: RefName, found: Option<&ObservedRef>| match found {
            None => format!("{name} is absent"),
            Some(found) if found.kind.is_branch() => format!("{name} is a branch at {}", self.named(found.snapshot)),
            Some(found) => format!("{name} is a tag at {}", self.named(found.snapshot)),
        };
        vec![
            tell(RefName::main(), self.observed.reference(&RefName::main())),
            tell(id.audit_ref(), self.audit),
            tell(id.published_ref(), self.published),
            tell(id.closed_ref(), self.closed),
        ]
    }

    /// Why it is none of the rows before, where a person would ask.
    fn excluded(&self, state: &State, files: FilesLive) -> Vec<String> {
        let mut lines = Vec::new();
        if !(5..=11).contains(&state.row()) {
            return lines;
        }
        if !self.own.is_empty() {
            let reach = self.observed.main().and_then(|main| self.observed.ancestry(main).last());
            let reach = match reach {
                None => "main has no history".to_owned(),
                Some(last) => match self.observed.snapshots.get(&last).and_then(|snapshot| snapshot.parent) {
                    None => format!("main's line was followed to its root {}", self.named(last)),
                    Some(expired) => {
                        format!("main's line goes back to {}, whose parent {expired} was expired", self.named(last))
                    }
                },
            };
            lines.push(format!("main is not known to have reached any of {}: {reach}", named(self.own.iter())));
        }
        if files == FilesLive::No {
            lines.push("none of the files that this candidate added is live in main".to_owned());
        }
        lines
    }

    /// Each request that could have made it visible or closed it, with its reply.
    fn sent(&self, state: &State) -> Vec<String> {
        let told = match state {
            State::Lost { .. }
            | State::Regressed { .. }
            | State::Ambiguous { .. }
            | State::Closed
            | State::Sealed { .. }
            | State::Moved { .. }
            | State::Open { .. }
            | State::SubjectMoved { .. }
            | State::Foreign { .. }
            | State::Consumed
            | State::Gone => true,
            State::Published { .. }
            | State::Bypassed { .. }
            | State::VisibleAfterFence { .. }
            | State::ReceiptRemoved { .. }
            | State::Unknown => false,
        };
        self.intent.attempts.iter().filter(|_| told).filter_map(|attempt| request(attempt, state)).collect()
    }

    fn shown(&self, id: Option<SnapshotId>) -> String {
        id.map_or_else(|| "no snapshot".to_owned(), |id| id.to_string())
    }

    /// A snapshot with what it is, its sequence number and its time.
    fn named(&self, id: SnapshotId) -> String {
        let Some(snapshot) = self.observed.snapshots.get(&id) else { return format!("{id} (expired)") };
        let what = match snapshot.role() {
            Role::Marker(of, _) if of == self.intent.publication => "its marker, ",
            Role::Seal(of, _) if of == self.intent.publication => "its seal, ",
            _ if self.own.contains(&id) => "its data, ",
            Role::Marker(..) | Role::Seal(..) | Role::Staged(..) | Role::Other => "",
        };
        format!("{id} ({what}sequence number {}, {})", snapshot.sequence_number, time(snapshot.timestamp_ms))
    }
}

/// One request in a sentence; `None` for those that only build the candidate.
fn request(attempt: &Attempt, state: &State) -> Option<String> {
    let (number, verb) = (attempt.number, attempt.verb.word());
    let what = match attempt.verb {
        Verb::Publish => match super::commits::moves_main_to(&attempt.commit) {
            Some(seal) => format!("attempt {number} (publish of {seal})"),
            None => format!("attempt {number} (publish)"),
        },
        Verb::Fence | Verb::Restart | Verb::Settle => format!("attempt {number} ({verb})"),
        Verb::Begin | Verb::Stage | Verb::Seal => return None,
    };
    Some(match &attempt.reply {
        None => format!("{what} has no recorded reply: it may have been applied, or may be still"),
        Some(ReplyRecord::Unknown { reason }) => {
            format!("{what} was answered with nothing that tells ({reason}): it may have been applied, or may be still")
        }
        Some(ReplyRecord::Accepted) if attempt.verb == Verb::Publish || *state != State::Closed => {
            format!("{what} was accepted, and the table does not show it")
        }
        Some(ReplyRecord::Accepted) => format!("{what} was accepted"),
        Some(ReplyRecord::Refused { status, message }) => format!("{what} was refused with {status}: {message}"),
        Some(ReplyRecord::NotSent { reason }) => format!("{what} never left: {reason}"),
    })
}

/// What the journal saw, in a sentence.
fn saw_it(intent: &Intent, saw: Saw) -> String {
    let id = &intent.publication;
    let what = match saw.what {
        SawWhat::Published => format!("{} or main's history showed it published", id.published_ref()),
        SawWhat::Closed => format!("{} showed it closed", id.closed_ref()),
    };
    let main = saw.main.map_or_else(|| "no snapshot".to_owned(), |main| main.to_string());
    format!(
        "the journal saw it in the table at {} (record {}): {what}, with main at {main} and the table at sequence number {}",
        time(saw.at_ms),
        saw.record,
        saw.sequence_number
    )
}

/// How far the table was followed back, and what could not be read.
fn looked_back(past: &Past) -> Vec<String> {
    let mut lines = Vec::new();
    match (past.readings().len(), past.readings().last()) {
        (_, None) if past.gaps().is_empty() => {
            lines.push("the table's metadata names no older metadata file: nothing could be looked up".to_owned());
        }
        (_, None) => lines.push("none of the older metadata files could be read".to_owned()),
        (files, Some(oldest)) => {
            let files =
                if files == 1 { "1 older metadata file".to_owned() } else { format!("{files} older metadata files") };
            let why = match past.ended() {
                Ended::Decided => "which decides",
                Ended::Begun => "before it was begun: no older one can show anything of it",
                Ended::Log => "the oldest that is named",
                Ended::Files => "as many as were to be read: --depth reads more",
                Ended::Bytes => "as much as is read unasked: --deep reads on",
            };
            lines.push(format!("{files} read, back to {}; {why}", file(oldest)));
        }
    }
    if let Some(first) = past.gaps().first() {
        let more = past.gaps().len() - 1;
        let more = if more == 0 { String::new() } else { format!(", and {more} more cannot be read either") };
        lines.push(format!(
            "{}, committed {}, cannot be read ({}){more}: what the table showed then is not known",
            first.file,
            time(first.at_ms),
            first.reason
        ));
    }
    lines
}

fn file(state: &Reading) -> String {
    format!("{} (committed {}, sequence number {})", state.file, time(state.at_ms), state.sequence_number)
}

fn named<'a>(ids: impl ExactSizeIterator<Item = &'a SnapshotId>) -> String {
    let count = ids.len();
    let first: Vec<_> = ids.take(NAMED).map(ToString::to_string).collect();
    match count.checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", first.join(", ")),
        None => first.join(", "),
    }
}

fn time(ms: i64) -> String {
    match DateTime::from_timestamp_millis(ms) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        None => format!("{ms} ms"),
    }
}
