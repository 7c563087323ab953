//! What may be done about a verdict, and what must not, in words: for the person who has to act on it.
//!
//! The commands themselves are a report's; here is what they bring about, and what no command may be used for.

use serde::Serialize;

use super::state::{Absence, Finding, Moved, Sent, State, Visibility};
use crate::ids::{RefName, TableName};

/// What may be done about a verdict, and what must not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Guidance {
    /// What may be done, the best first.
    pub may: Vec<String>,
    /// What must not be done, and why.
    pub must_not: Vec<String>,
}

const RUN_AGAIN: &str =
    "run the job again, under this id or another: its rows may be there already, and would be there twice";
const DELETE: &str = "delete snapshots, files or refs of it: they are what the answer can still be found from";
const BY_HAND: &str = "move main to it by hand: no evidence covers what is on it";

/// What may be done about a publication of this table.
pub fn advise(table: &TableName, finding: &Finding) -> Guidance {
    let id = &finding.publication;
    let (may, must_not): (Vec<String>, Vec<&str>) = match &finding.state {
        State::Lost { renamed: Some(name), .. } => {
            (vec![format!("reconcile it under the table's new name, {name}")], vec![RUN_AGAIN])
        }
        State::Lost { renamed: None, why: Absence::Unreachable, .. } => {
            (vec!["run the same command again when the catalog answers".to_owned()], vec![RUN_AGAIN])
        }
        State::Lost { renamed: None, why: Absence::Missing, .. } => (
            vec!["find out where the table is: whether readers see it can only be read from it".to_owned()],
            vec![RUN_AGAIN],
        ),
        State::Lost { renamed: None, why: Absence::Replaced, .. } => {
            (vec![format!("begin {id} in the table that is there now: nothing of it was published there")], vec![])
        }
        State::Regressed { remembered, found } => {
            let ask = "ask whoever restored or replaced the table which of the two is to hold; publish nothing before";
            let then = match found < remembered {
                true => "once that is settled, begin the change under a new id where it is still wanted".to_owned(),
                false => format!(
                    "where {} was only made again by hand, remove that branch; else begin the change under a new id",
                    id.audit_ref()
                ),
            };
            let must_not = "begin, publish or abandon anything in this table before that is answered";
            (vec![ask.to_owned(), then], vec![must_not, RUN_AGAIN])
        }
        State::Published { sealed: false, .. } => (
            vec!["decide whether these rows may stand: nothing vouches for them".to_owned()],
            vec!["run the job again: its rows are there"],
        ),
        State::Published { visibility, .. } => published(*visibility),
        State::Bypassed { sealed: true, .. } => (
            vec!["reconcile once more, where no receipt stands yet: it leaves one".to_owned()],
            vec!["run the job again, or publish it: its rows are there"],
        ),
        State::Bypassed { sealed: false, .. }
        | State::VisibleAfterFence { .. }
        | State::ReceiptRemoved { sealed: false, .. } => (
            vec![
                "ask whoever moved main: nothing vouches for these rows; let them stand, or roll main back".to_owned(),
            ],
            vec!["run the job again before that is decided: its rows are there"],
        ),
        State::ReceiptRemoved { sealed: true, visibility, .. } => published(*visibility),
        State::Ambiguous { snapshots, .. } => (
            vec![match snapshots.as_slice() {
                // A receipt that stands on something else; all other contradictions are between several snapshots.
                [_] => by_hand(table, finding, &id.published_ref()),
                _ => format!(
                    "ask whoever may commit to the table who made or moved the refs of {id}, and which of both holds"
                ),
            }],
            vec!["publish or abandon it before both facts are explained", RUN_AGAIN, DELETE],
        ),
        State::Closed => {
            (vec!["begin the change again under a new id".to_owned()], vec!["use this id again: it stays closed"])
        }
        State::Sealed { .. } if finding.abandon.is_some() => (
            vec!["abandon it again: it was to be given up".to_owned()],
            vec!["publish it without asking who gave it up"],
        ),
        State::Sealed { sent: Sent::None | Sent::NoJournal, .. } => (
            vec!["publish it, or abandon it".to_owned()],
            vec!["move main to it by hand: nobody would compare it first"],
        ),
        State::Sealed { sent: Sent::Rejected, .. } => (
            vec!["mend what the catalog names, then publish it again; or abandon it".to_owned()],
            vec!["take the refusal for the end: until it is abandoned it can still be published"],
        ),
        State::Sealed { sent: Sent::Conflicted, .. } => (
            vec!["publish it again: the identical request is sent, three times at most".to_owned()],
            vec!["take the conflict for the end: until it is abandoned it can still be published"],
        ),
        State::Sealed { sent: Sent::InFlight, .. } => (
            vec![
                "publish it again: the identical request is sent, and at most one of them is applied".to_owned(),
                "or abandon it: after its fence nothing that is under way can be applied".to_owned(),
            ],
            vec![RUN_AGAIN, DELETE],
        ),
        State::Moved { moved, .. } => {
            let main = moved.iter().any(|moved| matches!(moved, Moved::Main { .. }));
            let may = match main {
                true => "abandon it, and begin the change again on main as it is now",
                false => "validate it again: the same rows are checked and sealed under the schema and spec of now",
            };
            let must = "move main to it by hand: what others committed since its base would be lost";
            (vec![may.to_owned()], if main { vec![must] } else { vec![BY_HAND] })
        }
        State::Open { .. } => (vec!["finish it: stage, then validate; or abandon it".to_owned()], vec![BY_HAND]),
        State::SubjectMoved { .. } => {
            (vec!["validate it again: the new rows are checked too; or abandon it".to_owned()], vec![BY_HAND])
        }
        State::Foreign { .. } => (
            vec!["find out whose job wrote there, then abandon it; nothing else can be done with it".to_owned()],
            vec![BY_HAND],
        ),
        State::Consumed => (
            vec![by_hand(table, finding, &id.audit_ref())],
            vec!["abandon it: that would call closed what may be published", RUN_AGAIN, DELETE],
        ),
        State::Gone => (
            vec![format!(
                "ask whoever may commit to the table who removed {}; where nobody published it, abandon closes the id",
                id.audit_ref()
            )],
            vec![RUN_AGAIN, DELETE],
        ),
        State::Unknown => (vec!["look for the id: calve status lists those that are known".to_owned()], vec![]),
    };
    Guidance { may, must_not: must_not.into_iter().map(str::to_owned).collect() }
}

fn published(visibility: Visibility) -> (Vec<String>, Vec<&'static str>) {
    match visibility {
        Visibility::Visible | Visibility::Superseded => {
            (vec!["nothing is left to do".to_owned()], vec!["run the job again: its rows are there"])
        }
        Visibility::RolledBack => (
            vec![
                "begin the change under a new id, where readers are to see it again: this one is not sent again"
                    .to_owned(),
            ],
            vec!["take it for unpublished: readers saw it until main was rolled back"],
        ),
        Visibility::HistoryEnds => {
            (vec!["query main for its rows: the table's history does not reach back to it".to_owned()], vec![RUN_AGAIN])
        }
    }
}

/// Whom to ask, and how a ref that was made by hand is removed.
fn by_hand(table: &TableName, finding: &Finding, name: &RefName) -> String {
    let levels = table.namespace().iter().map(String::as_str).chain([table.name()]);
    let sql = levels.map(|level| format!("`{}`", level.replace('`', "``"))).collect::<Vec<_>>().join(".");
    format!(
        "ask whoever may commit to the table who set or removed the refs of {}; one that was made by hand is removed, \
         when you have checked that it stands for nothing, by ALTER TABLE {sql} DROP TAG `{}`",
        finding.publication,
        name.0.replace('`', "``")
    )
}
