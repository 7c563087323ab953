//! Text and JSON of each report, from one value.

use chrono::{DateTime, TimeZone as _, Utc};
use uuid::Uuid;

use super::*;
use crate::evidence::check::{ENGINE, Outcome};
use crate::publish::advice::advise;
use crate::publish::outcome::{Cause, ConflictClass, Rejection, Via};
use crate::publish::reconcile::{Absence, Moved, Sent, State};
use crate::publish::recover::{Left, Stands};

/// Snapshots a report as it is printed both ways, with its exit code.
macro_rules! both {
    ($name:literal, $report:expr) => {{
        let report = $report;
        let json = serde_json::to_string_pretty(&report).unwrap();
        let code = report.exit_code();
        insta::assert_snapshot!($name, format!("{}\n--- exit {code}\n{json}\n", report.text()));
    }};
}

fn table() -> TableName {
    "shop.orders".parse().unwrap()
}

fn id() -> PublicationId {
    "late-09".parse().unwrap()
}

const BASE: SnapshotId = SnapshotId(3_051_729_675_574_597_004);
const HEAD: SnapshotId = SnapshotId(4_215_880_123_409_117_771);
const SEAL: SnapshotId = SnapshotId(7_142_996_012_573_840_118);

fn digest(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

fn at() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2013, 8, 10, 6, 30, 0).unwrap()
}

fn finding(state: State) -> Finding {
    let proof = vec![format!("main is a branch at {BASE}"), "closed/late-09 is absent".to_owned()];
    Finding { publication: id(), state, proof, abandon: None }
}

fn result(name: &str, outcome: Outcome, summary: &str, details: &[&str]) -> CheckResult {
    CheckResult {
        name: name.to_owned(),
        kind: name.to_owned(),
        outcome,
        examined_rows: 1_006,
        summary: summary.to_owned(),
        details: details.iter().map(|&detail| detail.to_owned()).collect(),
        depends_on: [].into(),
        definition: digest(name),
        engine: ENGINE.to_owned(),
    }
}

fn commands(verbs: &[&str]) -> Vec<String> {
    verbs.iter().map(|verb| format!("calve {verb} shop.orders late-09")).collect()
}

#[test]
fn create() {
    let column =
        |id, name: &str, of: &str, required| Column { id, name: name.to_owned(), r#type: of.to_owned(), required };
    both!(
        "create",
        CreateReport {
            table: table(),
            location: "file:///lake/shop/orders".to_owned(),
            format_version: 2,
            columns: vec![column(1, "order_id", "long", true), column(2, "ordered_at", "timestamptz", false)],
            partition: vec!["day(ordered_at)".to_owned()],
        }
    );
}

fn begun(already_open: bool) -> BeginReport {
    BeginReport {
        table: table(),
        publication: id(),
        branch: id().audit_ref(),
        base: (!already_open).then_some(BASE),
        marker: HEAD,
        incarnation: Incarnation(Uuid::from_u128(7)),
        scope: if already_open { "true" } else { "day = '2013-08-09'" }.to_owned(),
        owner: Owner("ci@host".to_owned()),
        already_open,
        warnings: if already_open { vec!["main has moved since".to_owned()] } else { vec![] },
    }
}

#[test]
fn begin() {
    both!("begin", begun(false));
    both!("begin_again", begun(true));
}

#[test]
fn stage() {
    both!(
        "stage",
        StageReport {
            table: table(),
            publication: id(),
            snapshot: HEAD,
            rows_added: 999,
            rows_carried: 12_345,
            rows_removed: 1_006,
            files_added: 1,
            files_removed: 2,
            bytes: 17_579,
            warnings: vec!["column tailnum is all null".to_owned()],
        }
    );
}

fn validated(checks: Vec<CheckResult>) -> ValidateReport {
    ValidateReport {
        table: table(),
        publication: id(),
        head: HEAD,
        base_moved: false,
        conflict: None,
        checks,
        passed: true,
        reasons: vec![],
        seal: Some(SEAL),
        candidate: Some(digest("candidate")),
        statement: Some(digest("statement")),
        statement_location: Some("/lake/journal/statements/ab.json".to_owned()),
        dry_run: false,
        closed: None,
        unattested: 0,
        warnings: vec![],
    }
}

fn failed() -> ValidateReport {
    let details = ["flight_date=2013-08-09, carrier=WN, flight=2269, origin=LGA: 2 rows"];
    let keys = result("keys", Outcome::Fail, "7 duplicate rows in 7 keys", &details);
    ValidateReport {
        passed: false,
        reasons: vec!["keys failed".to_owned()],
        seal: None,
        candidate: None,
        statement_location: None,
        ..validated(vec![keys, result("schema", Outcome::Pass, "10 columns as stated", &[])])
    }
}

#[test]
fn validate() {
    let keys = result("keys", Outcome::Pass, "no duplicates", &["never shown"]);
    let passed = || vec![keys.clone(), result("a-longer-name", Outcome::Pass, "999 rows", &[])];
    both!("validate_passed", ValidateReport { base_moved: true, unattested: 2, ..validated(passed()) });
    both!("validate_dry_run", ValidateReport { seal: None, dry_run: true, ..validated(passed()) });
    both!("validate_quarantined", ValidateReport { closed: Some(CloseReason::Quarantined), ..failed() });
    both!("validate_kept", failed());
    let error = result("totals", Outcome::Error, "the source ledger.csv cannot be read", &["no such file"]);
    both!("validate_error", ValidateReport { checks: vec![error], dry_run: true, ..failed() });
}

fn published(outcome: PublishOutcome) -> PublishReport {
    PublishReport {
        table: table(),
        publication: id(),
        outcome,
        finding: None,
        conflict: None,
        main: Some(SEAL),
        requests: 1,
        read_with: vec![],
        next: vec![],
        warnings: vec![],
    }
}

#[test]
fn publish() {
    let visible = |via| PublishOutcome::Published { via, visibility: Visibility::Visible, sealed: true };
    let reads = ["PyIceberg", "DuckDB"].map(|reader| (reader.to_owned(), format!("{reader} line")));
    both!("publish_direct", PublishReport { read_with: reads.to_vec(), ..published(visible(Via::Direct)) });
    both!("publish_reconciled", published(visible(Via::Reconciled)));
    both!(
        "publish_again",
        published(PublishOutcome::Published {
            via: Via::AlreadyThere,
            visibility: Visibility::RolledBack,
            sealed: true
        })
    );
    both!(
        "publish_bypassed",
        published(PublishOutcome::Published { via: Via::Bypassed, visibility: Visibility::Superseded, sealed: false })
    );
    let reasons = vec![format!("main moved {BASE} to {SEAL}")];
    let conflict = PublishOutcome::Conflict { class: ConflictClass::Unclassified, reasons: reasons.clone() };
    both!("publish_conflict", PublishReport { next: commands(&["abandon"]), ..published(conflict) });
    for (name, rejection) in [
        ("evidence", Rejection::Evidence),
        ("refused", Rejection::Refused),
        ("waiting", Rejection::Waiting),
        ("unknown", Rejection::UnknownId),
    ] {
        let report = published(PublishOutcome::Rejected { rejection, reasons: reasons.clone() });
        insta::assert_snapshot!(
            format!("publish_rejected_{name}"),
            format!("{}--- exit {}\n", report.text(), report.exit_code())
        );
    }
    let unresolved = PublishOutcome::Unresolved { cause: Cause::InFlight, reasons };
    both!("publish_unresolved", PublishReport { next: commands(&["reconcile"]), ..published(unresolved) });
}

fn reconciled(state: State) -> ReconcileReport {
    let finding = finding(state);
    let row = finding.state.row();
    let advice = advise(&table(), &finding);
    ReconcileReport {
        table: table(),
        finding,
        row,
        conflict: None,
        settled: false,
        journal: true,
        looked_back: None,
        advice,
        next: vec![],
        warnings: vec![],
    }
}

/// One state of each kind that reconcile can find.
fn states() -> Vec<State> {
    let (visibility, snapshot) = (Visibility::Visible, Some(SEAL));
    let sealed = |sent| State::Sealed { seal: SEAL, sent };
    let moved = vec![
        Moved::Main { base: None, main: Some(BASE) },
        Moved::Schema { sealed: 0, current: 1 },
        Moved::Spec { sealed: 0, current: 2 },
    ];
    vec![
        State::Lost {
            reason: "no such table".to_owned(),
            renamed: Some("shop.old".parse().unwrap()),
            why: Absence::Missing,
        },
        State::Regressed { remembered: 9, found: 4 },
        State::Published { snapshot: SEAL, sealed: true, visibility },
        State::Bypassed { snapshot: None, sealed: false, visibility, head: HEAD },
        State::VisibleAfterFence { snapshot, visibility },
        State::ReceiptRemoved { snapshot, sealed: true, visibility },
        State::Ambiguous { reason: "receipt and fence both exist".to_owned(), snapshots: vec![SEAL] },
        State::Closed,
        sealed(Sent::None),
        sealed(Sent::Rejected),
        sealed(Sent::Conflicted),
        sealed(Sent::InFlight),
        State::Moved { seal: SEAL, moved },
        State::Open { head: HEAD, marker: HEAD },
        State::Open { head: SEAL, marker: HEAD },
        State::SubjectMoved { head: HEAD, seal: SEAL },
        State::Foreign { head: HEAD },
        State::Consumed,
        State::Gone,
        State::Unknown,
    ]
}

#[test]
fn reconcile() {
    let sealed = State::Sealed { seal: SEAL, sent: Sent::InFlight };
    both!("reconcile", ReconcileReport { next: commands(&["publish"]), journal: false, ..reconciled(sealed.clone()) });
    both!("reconcile_all", ReconcileAllReport { publications: vec![reconciled(State::Closed), reconciled(sealed)] });
    both!("reconcile_none", ReconcileAllReport { publications: vec![] });
    let words: Vec<_> = states().iter().map(|state| format!("{}: {}\n", state.row(), words::state(state))).collect();
    insta::assert_snapshot!("states", words.concat());
}

/// Where only a person can tell, that person is told whom to ask; elsewhere nobody is.
#[test]
fn escalations_name_a_next_step() {
    for state in states() {
        let escalates = crate::publish::outcome::reconcile_exit(&state) == 21;
        let report = reconciled(state);
        let said = report.advice.may.first().cloned().unwrap_or_default();
        assert_eq!(said.starts_with("ask who"), escalates, "{:?}", report.finding.state);
        assert!(report.text().contains(&said) && !said.is_empty(), "{said}");
        assert!(!escalates || !report.advice.must_not.is_empty(), "{said}");
        let id = &report.finding.publication;
        let removal = match report.finding.state {
            State::Ambiguous { .. } => format!("DROP TAG `published/{id}`"),
            State::Consumed => format!("DROP TAG `audit/{id}`"),
            _ => continue,
        };
        assert!(said.contains(&removal) && said.contains("ALTER TABLE `"), "{said}");
    }
}

#[test]
fn only_what_is_visible_is_called_published() {
    for state in states() {
        let visible = matches!(state, State::Published { .. } | State::Bypassed { .. } | State::ReceiptRemoved { .. });
        assert_eq!(words::state(&state).starts_with("PUBLISHED"), visible, "{state:?}");
    }
}

#[test]
fn abandon() {
    let report = |state, exit| AbandonReport {
        table: table(),
        finding: finding(state),
        already_closed: false,
        reason: "taken back".to_owned(),
        exit,
        warnings: vec![],
    };
    both!("abandon", report(State::Closed, 0));
    both!("abandon_again", AbandonReport { already_closed: true, ..report(State::Closed, 0) });
    let published = State::Published { snapshot: SEAL, sealed: true, visibility: Visibility::Visible };
    both!("abandon_too_late", report(published, 13));
}

#[test]
fn status() {
    let publication = |state| PublicationStatus {
        finding: finding(state),
        conflict: None,
        owner: Some(Owner("ci@host".to_owned())),
        begun: Some(at()),
        scope: Some("true".to_owned()),
        closed: None,
        failed_checks: vec![],
        foreign_journal: None,
        leases: vec![],
        error: None,
        next: commands(&["publish"]),
    };
    let closed = PublicationStatus {
        closed: Some((CloseReason::Quarantined, "keys failed".to_owned())),
        failed_checks: vec!["keys".to_owned()],
        foreign_journal: Some("/other/journal".to_owned()),
        error: Some("journal record 00000002.json is damaged".to_owned()),
        next: vec![],
        ..publication(State::Closed)
    };
    let leases = vec![lease(LeaseStanding::Ended)];
    let sealed = PublicationStatus { leases, ..publication(State::Sealed { seal: SEAL, sent: Sent::None }) };
    let row = |publications, error: Option<&str>| TableStatus {
        table: table(),
        main: Some(BASE),
        updated: Some(at()),
        publications,
        error: error.map(str::to_owned),
    };
    let tables = vec![row(vec![sealed, closed], None), row(vec![], None), row(vec![], Some("its metadata is damaged"))];
    both!("status", StatusReport { catalog: "the warehouse /lake".to_owned(), tables });
    both!("status_empty", StatusReport { catalog: "the warehouse /lake".to_owned(), tables: vec![] });
}

fn lease(standing: LeaseStanding) -> LeaseReport {
    LeaseReport {
        owner: Owner("ci@host".to_owned()),
        holder: Uuid::from_u128(9),
        at: at(),
        until: at() + chrono::Duration::hours(24),
        standing,
        process: Some(4711),
        reserved: false,
        taken_from: None,
        clocks: None,
    }
}

#[test]
fn recover() {
    let report = |publications, problems| RecoverReport {
        catalog: "the warehouse /lake".to_owned(),
        journal: "/lake/journal".to_owned(),
        dry_run: false,
        settled: 12,
        publications,
        problems,
        warnings: vec![],
    };
    let item = |state, did, stands: Stands| RecoverItem {
        table: Some(table()),
        finding: finding(state),
        did,
        stands: Some(stands),
        left: None,
        leases: vec![],
        next: vec![],
        warnings: vec![],
    };
    both!("recover_nothing", RecoverReport { settled: 1, dry_run: true, ..report(vec![], vec![]) });
    let sealed = |sent| State::Sealed { seal: SEAL, sent };
    let visible = State::Published { snapshot: SEAL, sealed: true, visibility: Visibility::Visible };
    let taken_from = Some(Owner("bob@gone".to_owned()));
    let clocks = Some("the clock of one, and that of another".to_owned());
    let reserved = LeaseReport { process: None, reserved: true, clocks, ..lease(LeaseStanding::Live) };
    let at_work = RecoverItem {
        stands: None,
        left: Some(Left::AtWork),
        leases: vec![LeaseReport { taken_from, ..lease(LeaseStanding::Live) }, reserved],
        ..item(State::Open { head: HEAD, marker: BASE }, RecoverDid::Nothing, Stands::Open)
    };
    let publications = vec![
        RecoverItem {
            leases: vec![lease(LeaseStanding::Ended)],
            ..item(visible, RecoverDid::Recorded, Stands::Settled)
        },
        RecoverItem {
            next: commands(&["publish", "abandon"]),
            ..item(sealed(Sent::None), RecoverDid::Nothing, Stands::Waiting)
        },
        item(State::Closed, RecoverDid::Fenced, Stands::Settled),
        item(State::Open { head: BASE, marker: BASE }, RecoverDid::Nothing, Stands::Open),
        at_work,
        RecoverItem {
            warnings: vec!["a warning".to_owned()],
            ..item(sealed(Sent::InFlight), RecoverDid::Recorded, Stands::Unresolved)
        },
    ];
    both!("recover", report(publications, vec![]));
    let lost = State::Lost { reason: "no such table".to_owned(), renamed: None, why: Absence::Missing };
    let lost = RecoverItem { table: None, ..item(lost, RecoverDid::Nothing, Stands::TableGone) };
    let error = "journal record 00000002.json is damaged".to_owned();
    let problem = RecoverProblem { table: None, publication: id(), error, exit: 1 };
    both!("recover_problems", report(vec![lost.clone()], vec![problem.clone()]));
    let escalated = item(State::Consumed, RecoverDid::Recorded, Stands::Escalate);
    both!("recover_escalated", report(vec![lost, escalated], vec![problem]));
}

#[test]
fn log() {
    let entry = |sealed: bool, receipt: bool| LogEntry {
        publication: id(),
        snapshot: SEAL,
        at: receipt.then(at),
        sealed,
        visibility: Visibility::Superseded,
        receipt,
        checks: if sealed { vec![("keys".to_owned(), "pass".to_owned())] } else { vec![] },
        statement: sealed.then(|| digest("statement").to_string()),
    };
    both!("log", LogReport { table: table(), entries: vec![entry(true, true), entry(false, false)] });
    both!("log_empty", LogReport { table: table(), entries: vec![] });
}

#[test]
fn review() {
    let answer = |question: &str, lines: &[&str]| Answer {
        question: question.to_owned(),
        answer: lines.iter().map(|&line| line.to_owned()).collect(),
    };
    both!(
        "review",
        ReviewReport {
            table: table(),
            finding: finding(State::Sealed { seal: SEAL, sent: Sent::None }),
            sources: vec![Source { name: "ledger".to_owned(), revision: "4711".to_owned() }],
            answers: vec![
                answer("What immutable identity names the candidate?", &["sha256:…", "K"]),
                answer("What is the atomic unit?", &["one table"]),
            ],
        }
    );
}

#[test]
fn every_review_ends_with_a_command() {
    for state in states() {
        let text = ReviewReport { table: table(), finding: finding(state), sources: vec![], answers: vec![] }.text();
        assert!(text.lines().last().unwrap().starts_with("next: calve "), "{text}");
    }
}

#[test]
fn contract() {
    let report = |written| ContractReport {
        table: "shop.orders".parse().unwrap(),
        path: "contracts/shop.orders.toml".to_owned(),
        digest: digest("contract"),
        checks: vec![("columns".to_owned(), "schema".to_owned()), ("key".to_owned(), "keys".to_owned())],
        written,
    };
    both!("contract_init", report(true));
    both!("contract_check", report(false));
}

fn ran(steps: Vec<(RunPart, u64)>, exit_code: u8, verbs: &[&str]) -> RunReport {
    let steps = steps.into_iter().map(|(part, milliseconds)| TimedPart { part, milliseconds }).collect();
    let mut report = RunReport::new(&table(), &id());
    (report.steps, report.exit_code, report.next) = (steps, exit_code, commands(verbs));
    report
}

fn worked() -> Vec<(RunPart, u64)> {
    vec![(RunPart::Begin(begun(false)), 210), (RunPart::Job { end: JobEnd::Succeeded }, 41_300)]
}

#[test]
fn run_unresolved() {
    let checks = vec![result("keys", Outcome::Pass, "999 keys", &[]), result("scope", Outcome::Pass, "inside", &[])];
    let reasons = vec!["the table cannot be read: the catalog is unreachable".to_owned()];
    let outcome = PublishOutcome::Unresolved { cause: Cause::Lost, reasons };
    let unresolved = PublishReport {
        table: table(),
        publication: id(),
        outcome,
        finding: None,
        conflict: None,
        main: Some(BASE),
        requests: 1,
        read_with: vec![],
        next: vec![],
        warnings: vec![],
    };
    let parts = [(RunPart::Validate(validated(checks)), 3_000), (RunPart::Publish(unresolved), 900)];
    both!("run_unresolved", ran(worked().into_iter().chain(parts).collect(), 20, &["reconcile"]));
}

#[test]
fn run_ends() {
    let end = |end: JobEnd| ran(vec![(RunPart::Begin(begun(true)), 5), (RunPart::Job { end }, 65_000)], 1, &["status"]);
    let ends = [
        JobEnd::Failed { status: 3 },
        JobEnd::Killed { signal: 9 },
        JobEnd::Stopped { signal: 15 },
        JobEnd::NotStarted { reason: "repair: not found".to_owned() },
        JobEnd::Lost { reason: "no child".to_owned() },
    ];
    let text: Vec<_> = ends.into_iter().map(|job| end(job).text()).collect();
    insta::assert_snapshot!("run_ends", text.join("--\n"));
    let failed = RunPart::Failed { at: "validate", message: "a.parquet: damaged".to_owned(), exit_code: 1 };
    let restart = RunPart::Restart { closed: id(), begun: begun(false) };
    let steps = vec![(restart, 300), (RunPart::Job { end: JobEnd::Succeeded }, 0), (failed, 10)];
    both!("run_failed", ran(steps, 1, &["reconcile", "validate"]));
}

fn guarantee(guarantee: Guarantee, seen: Seen, detail: &str, request: Option<&str>) -> GuaranteeReport {
    let (what, needed) = (guarantee.words(), guarantee.is_needed());
    GuaranteeReport { guarantee, what, needed, seen, detail: detail.to_owned(), request: request.map(str::to_owned) }
}

fn probed(guarantees: Vec<GuaranteeReport>, warnings: &[&str]) -> ProbeReport {
    let seen: Vec<_> = guarantees.iter().map(|found| (found.guarantee, found.seen)).collect();
    ProbeReport {
        catalog: "catalog https://catalog.example/iceberg (warehouse lake)".to_owned(),
        journal: "s3://ops/calve".to_owned(),
        namespace: "scratch".to_owned(),
        trust: crate::publish::trust::judge(&seen),
        guarantees,
        warnings: warnings.iter().map(|&warning| warning.to_owned()).collect(),
    }
}

#[test]
fn probe() {
    let holds = |of| {
        guarantee(of, Seen::Holds, "refused with 409, nothing changed", Some("require main = 5; add 7 -> refused 409"))
    };
    let mut all: Vec<_> = Guarantee::ALL.map(holds).into();
    let last = all.len() - 1;
    all[last - 1] = guarantee(Guarantee::Transactions, Seen::NotTested, "there is no such endpoint", None);
    all[last - 2] = guarantee(Guarantee::IdempotencyKey, Seen::Broken, "not advertised, so none is sent", None);
    both!("probe_safe", probed(all.clone(), &[]));
    all[0] = guarantee(
        Guarantee::FalseExpectation,
        Seen::Broken,
        "it was applied",
        Some("require main = 5; add 7, branch main = 7 -> accepted"),
    );
    all[5] = guarantee(Guarantee::OneWinner, Seen::NotTested, "none was accepted", None);
    both!(
        "probe_refused",
        probed(all, &["the scratch table scratch.calve_probe_1 is left behind, drop it yourself: 403"])
    );
}

#[test]
fn doctor() {
    let report = |tables: Vec<TableName>, findings| DoctorReport {
        catalog: "the warehouse /lake".to_owned(),
        journal: "/lake/journal".to_owned(),
        tables,
        findings,
    };
    both!("doctor_nothing", report(vec![], vec![]));
    let advice = |severity, rule, table: Option<TableName>, remedy: Option<&str>| Advice {
        severity,
        rule,
        table,
        what: "what was found".to_owned(),
        why: "why it matters".to_owned(),
        remedy: remedy.map(str::to_owned),
    };
    let findings = vec![
        advice(Severity::Risk, "journal-private", None, Some("--journal")),
        advice(
            Severity::Warning,
            "forgotten-branch",
            Some(table()),
            Some("calve abandon shop.orders late-09 --reason …"),
        ),
        advice(Severity::Note, "gc-disabled", Some(table()), None),
    ];
    both!("doctor_findings", report(vec![table()], findings));
}
