//! `review`: nine questions about a candidate, answered from recorded facts.

use super::facts::Opened;
use super::reconcile::next_commands;
use super::session::{Opened as Any, Session, anchor};
use super::{Coordinator, Error, shown};
use crate::contract::{Contract, OnConflict, OnFailure};
use crate::digest::Digest;
use crate::evidence::check::Outcome;
use crate::evidence::statement::{Pin, Statement};
use crate::ids::{PublicationId, SnapshotId, TableName};
use crate::journal::lease::LeaseState;
use crate::observed::{Role, summary};
use crate::publish::reconcile::{Finding, State};
use crate::publish::state::fence_form;
use crate::report::{Answer, ConflictReport, ReviewReport};

impl Coordinator {
    /// The nine answers for a person who must say yes or no.
    ///
    /// # Errors
    /// Table or journal cannot be read, or nothing is known of the publication.
    pub async fn review(
        &self,
        table: &TableName,
        id: &PublicationId,
        contract: Option<&Contract>,
    ) -> Result<ReviewReport, Error> {
        let mut session = match Session::open_any(self, table, id).await? {
            Any::Here(session) => *session,
            Any::Lost(finding) => {
                let answer = vec![format!("not known: the table is {}", finding.state.word())];
                let answers = QUESTIONS.iter().map(|question| said(question, answer.clone())).collect();
                return Ok(ReviewReport { table: table.clone(), finding: *finding, sources: Vec::new(), answers });
            }
        };
        let finding = session.finding(self).await?;
        if finding.state == State::Unknown {
            return Err(Error::Usage(format!(
                "nothing is known of {id} on {table}: `calve status {table}` lists what is"
            )));
        }
        let anchor = anchor(&session);
        let opened = anchor.and_then(|snapshot| Opened::of(&session, snapshot).ok());
        let seal = seal_of(&session, &finding);
        let statement = self.sealed_statement(&session, seal).await;
        let mut unread = Vec::new();
        let conflict = self.conflict_of(&session, &finding, &mut unread).await;
        let answers = vec![
            said(QUESTIONS[0], identity(&session, &finding, opened.as_ref(), seal)),
            said(QUESTIONS[1], revisions(opened.as_ref(), statement.as_ref().ok())),
            said(QUESTIONS[2], reports(&statement)),
            said(QUESTIONS[3], reference(&session)),
            said(QUESTIONS[4], operation(&session, opened.as_ref(), seal)),
            said(QUESTIONS[5], conflicts(&finding, conflict.as_deref(), opened.as_ref(), contract)),
            said(QUESTIONS[6], lost_response(&session, &finding)),
            said(QUESTIONS[7], self.deletion(&session, &finding, opened.as_ref(), contract)),
            said(QUESTIONS[8], unit(&session, seal)),
        ];
        let mut answers = answers;
        if let Some(answer) = answers.get_mut(5) {
            answer.answer.extend(unread);
        }
        let sources = opened.map(|opened| opened.sources).unwrap_or_default();
        Ok(ReviewReport { table: session.name().clone(), finding, sources, answers })
    }

    async fn sealed_statement(&self, session: &Session, seal: Option<SnapshotId>) -> Result<Statement, String> {
        let seal = seal.ok_or("there is no seal, so nothing was stated of this candidate as it is")?;
        let digest = value(session, seal, summary::STATEMENT_DIGEST).ok_or("the seal names no statement")?;
        let parsed: Digest = digest.parse().map_err(|error| format!("{error}"))?;
        let bytes = self.journal.statement(&parsed).await.map_err(|error| error.to_string())?;
        let bytes =
            bytes.ok_or_else(|| format!("the statement {digest} is not in the journal {}", self.journal.root()))?;
        let statement = Statement::parse(&bytes).map_err(|error| format!("the statement {digest}: {error}"))?;
        let candidate = value(session, seal, summary::CANDIDATE);
        match candidate == Some(&statement.predicate.candidate.to_string()) {
            true => Ok(statement),
            false => Err(format!("the statement {digest} is of another candidate than the seal {seal}")),
        }
    }

    fn deletion(
        &self,
        session: &Session,
        finding: &Finding,
        opened: Option<&Opened>,
        contract: Option<&Contract>,
    ) -> Vec<String> {
        let id = session.id();
        let mut lines = Vec::new();
        if let Some(opened) = opened {
            lines.push(format!("owner {}", opened.owner));
        }
        if let Some(lease) = LeaseState::of(session.log.records()).live(self.clock.now()) {
            lines.push(format!("{} works on it until {}", lease.owner, lease.until.to_rfc3339()));
        }
        lines.push(match contract.map(|contract| contract.on_failure) {
            Some(OnFailure::Quarantine) => "a failed check closes it as quarantined, by the contract".to_owned(),
            Some(OnFailure::Keep) => "a failed check leaves it open, by the contract".to_owned(),
            None => "no contract was given, so what a failed check does is not known".to_owned(),
        });
        lines.push(match fence_form(&finding.state) {
            Some(_) => format!(
                "whoever may commit to the table and has its journal may close it for ever: `calve abandon {} {id}`",
                session.name()
            ),
            None => format!("it is {}: nobody can close it now", finding.state.word()),
        });
        lines.push(
            "no file is deleted by begin, stage, validate, publish, reconcile or abandon, whatever the outcome"
                .to_owned(),
        );
        if let State::Sealed { .. } | State::Lost { .. } | State::Consumed | State::Gone = finding.state {
            lines.push("while its outcome is open, everything that it reaches is to be kept".to_owned());
        }
        lines
    }
}

/// The questions, in order.
pub const QUESTIONS: [&str; 9] = [
    "What immutable identity names the candidate?",
    "Which base and source revisions produced it?",
    "Does every report name its subject and assumptions?",
    "What single reference do readers resolve?",
    "Which atomic operation changes it?",
    "Which conflicts are safe to retry, and which need a new candidate?",
    "How is a lost response reconciled?",
    "Who may quarantine or delete which files, and after which outcome?",
    "What is the atomic unit?",
];

fn said(question: &str, answer: Vec<String>) -> Answer {
    Answer { question: question.to_owned(), answer }
}

fn value<'a>(session: &'a Session, snapshot: SnapshotId, key: &str) -> Option<&'a String> {
    session.observed.snapshots.get(&snapshot)?.summary.get(key)
}

/// The seal in question: the branch's or the receipt's.
fn seal_of(session: &Session, finding: &Finding) -> Option<SnapshotId> {
    let candidate = match &finding.state {
        State::Sealed { seal, .. } | State::Moved { seal, .. } => Some(*seal),
        State::Published { snapshot, .. } => Some(*snapshot),
        State::Bypassed { snapshot, .. }
        | State::VisibleAfterFence { snapshot, .. }
        | State::ReceiptRemoved { snapshot, .. } => *snapshot,
        State::Closed => session.observed.reference(&session.id().closed_ref()).map(|closed| closed.snapshot),
        State::Lost { .. }
        | State::Regressed { .. }
        | State::Ambiguous { .. }
        | State::Open { .. }
        | State::SubjectMoved { .. }
        | State::Foreign { .. }
        | State::Consumed
        | State::Gone
        | State::Unknown => None,
    };
    candidate.filter(|snapshot| matches!(session.observed.role(*snapshot), Role::Seal(..)))
}

fn identity(session: &Session, finding: &Finding, opened: Option<&Opened>, seal: Option<SnapshotId>) -> Vec<String> {
    let mut lines = vec![format!("table {} ({})", session.observed.uuid, session.name())];
    if let Some(opened) = opened {
        lines.push(format!("begun as {} at marker {}", opened.incarnation, opened.marker));
    }
    match seal {
        None => lines.push(match &finding.state {
            State::Open { .. } => "no seal: it has no immutable identity yet; `calve validate` gives it one".to_owned(),
            State::SubjectMoved { head, seal } => format!(
                "none as it is: the branch moved to {head}, which the seal {seal} does not cover; `calve validate` \
                 gives it one"
            ),
            state => format!("no seal of it is known: it is {}", state.word()),
        }),
        Some(seal) => {
            lines.push(format!("seal {seal}"));
            for (key, word) in [(summary::CANDIDATE, "candidate"), (summary::CHANGE, "change"), (summary::TREE, "tree")]
            {
                lines.extend(value(session, seal, key).map(|digest| format!("{word} {digest}")));
            }
        }
    }
    lines
}

fn revisions(opened: Option<&Opened>, statement: Option<&Statement>) -> Vec<String> {
    let Some(opened) = opened else { return vec!["not known: its marker is not in the table any more".to_owned()] };
    let mut lines = vec![
        format!("base {}", shown(opened.base)),
        format!("scope {}", opened.scope_text),
        format!("reads {}", opened.reads.as_deref().unwrap_or("not declared")),
        format!("code {}", opened.code.as_deref().unwrap_or("not given")),
    ];
    match statement {
        Some(statement) => lines.extend(statement.predicate.inputs.iter().map(|input| match &input.pin {
            Pin::Pinned(version) => format!("source {} at {version}", input.name),
            Pin::Unpinned { read_at } => format!("source {} not pinned, read at {}", input.name, read_at.to_rfc3339()),
        })),
        None => lines.extend(opened.sources.iter().map(|s| format!("source {} at {}", s.name, s.revision))),
    }
    lines
}

fn reports(statement: &Result<Statement, String>) -> Vec<String> {
    match statement {
        Err(reason) => vec![format!("no: {reason}")],
        Ok(statement) => {
            let predicate = &statement.predicate;
            let mut lines = vec![
                format!("subject {}", statement.subject.name),
                format!("tree {}", statement.subject.tree),
                format!("files attested {}, live entries not attested {}", predicate.files.len(), predicate.unattested),
            ];
            lines.extend(predicate.checks.iter().map(|check| {
                let depends: Vec<_> = check.depends_on.iter().map(String::as_str).collect();
                format!(
                    "{} {}: {}; depends on {}; by {}",
                    check.name,
                    match check.outcome {
                        Outcome::Pass => "pass",
                        Outcome::Fail => "FAIL",
                        Outcome::Error => "ERROR",
                    },
                    check.summary,
                    depends.join(", "),
                    check.engine
                )
            }));
            lines
        }
    }
}

fn reference(session: &Session) -> Vec<String> {
    vec![format!("main of {}, now at {}", session.name(), shown(session.observed.main()))]
}

fn operation(session: &Session, opened: Option<&Opened>, seal: Option<SnapshotId>) -> Vec<String> {
    let id = session.id();
    let base = opened.map_or_else(|| "the base".to_owned(), |opened| shown(opened.base));
    let seal = seal.map_or_else(|| "the seal".to_owned(), |seal| seal.to_string());
    vec![
        "one conditional commit to the catalog:".to_owned(),
        format!(
            "requires main = {base}, {} = {seal}, the sealed schema and spec, neither receipt nor fence",
            id.audit_ref()
        ),
        format!("sets main to {seal}, {} to {seal}, and turns {} into a tag", id.published_ref(), id.audit_ref()),
    ]
}

fn conflicts(
    finding: &Finding,
    conflict: Option<&ConflictReport>,
    opened: Option<&Opened>,
    contract: Option<&Contract>,
) -> Vec<String> {
    let mut lines = match (&finding.state, conflict) {
        (State::Moved { .. }, Some(conflict)) => {
            conflict.lines().into_iter().map(|line| format!("now: {line}")).collect()
        }
        (State::Moved { moved, .. }, None) => vec![format!("now: {moved:?}: a new candidate is needed")],
        (state, _) => vec![format!("now: {}", state.word())],
    };
    lines.push("safe to send again: a conflict that the table does not show, with the identical request".to_owned());
    lines.push(
        "main moved: where nothing that it reads, owns or removes has changed, the same files may be put on the new main \
         (exit 12); else a new candidate (exit 11)"
            .to_owned(),
    );
    if let Some(opened) = opened {
        lines.push(format!(
            "it owns {} and {}",
            opened.scope_text,
            match &opened.reads {
                Some(reads) => format!("declared that it read {reads}"),
                None => "did not declare what it read".to_owned(),
            }
        ));
    }
    match contract.map(|contract| contract.on_conflict) {
        Some(OnConflict::Stop) => lines.push("the contract says: stop".to_owned()),
        Some(OnConflict::Reattach) => lines.push("the contract says: reattach where safe".to_owned()),
        None => {}
    }
    lines
}

fn lost_response(session: &Session, finding: &Finding) -> Vec<String> {
    let id = session.id();
    let mut lines = vec![
        format!(
            "from the table: the commit that publishes also leaves {}, or none of it was applied",
            id.published_ref()
        ),
        format!(
            "`calve reconcile {} {id}` reads it; it is row {} now: {}",
            session.name(),
            finding.state.row(),
            finding.state.word()
        ),
    ];
    lines.extend(finding.proof.iter().cloned());
    let others = next_commands(session.name(), finding).into_iter().filter(|line| !line.starts_with("calve review "));
    lines.extend(others.map(|command| format!("next: {command}")));
    lines
}

fn unit(session: &Session, seal: Option<SnapshotId>) -> Vec<String> {
    let what = seal.map_or_else(|| "the seal".to_owned(), |seal| format!("snapshot {seal}"));
    vec![
        format!("this one table: readers of {} see all of {what}, or nothing of it", session.name()),
        "other tables are not part of it: readers that join several may see mixed revisions".to_owned(),
    ]
}
