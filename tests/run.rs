//! `calve run`: a job as a scheduler starts it, ended at every point, and the same line again.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::process::Stdio;

use command::{Place, Ran, Running, TABLE};
use serde_json::Value;

const STEPS: [&str; 4] = ["intended", "answered", "recorded", "decided"];
const BEFORE: [i64; 5] = [1, 2, 3, 4, 5];
const AFTER: [i64; 7] = [1, 2, 3, 4, 5, 6, 7];

/// A shop with the orders 6 and 7 of 10 August in a file, and a job that stages it and counts how often it ran.
fn shop() -> Place {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.job("echo ran >> ran; \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2");
    place
}

trait Jobs {
    fn job(&self, script: &str);
    fn runs(&self) -> usize;
    fn again(&self) -> Ran;
}

const LINE: [&str; 10] =
    ["run", TABLE, "p", "--scope", "ordered_at >= '2013-08-10T00:00:00Z'", "--json", "--", "sh", "-e", "job.sh"];

impl Jobs for Place {
    /// Writes the job, in which `$CALVE` is the command.
    fn job(&self, script: &str) {
        self.write("job.sh", &format!("CALVE={}\n{script}\n", env!("CARGO_BIN_EXE_calve")));
    }

    /// How often the job began.
    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path().join("ran")).map_or(0, |text| text.lines().count())
    }

    /// The same line.
    fn again(&self) -> Ran {
        self.lake(&LINE)
    }
}

fn steps(report: &Value) -> Vec<&str> {
    report["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect()
}

#[test]
fn a_job_is_published_and_not_run_again() {
    let place = shop();
    let report = place.again().ends(0).json();
    assert_eq!(steps(&report), ["begin", "job", "validate", "publish"], "{report}");
    assert_eq!((&report["publication"], &report["exit-code"]), (&"p".into(), &0.into()));
    assert_eq!(place.orders_in_main(), AFTER);
    let report = place.again().ends(0).json();
    assert_eq!(steps(&report), ["reconcile"], "{report}");
    assert_eq!((place.runs(), place.orders_in_main()), (1, AFTER.to_vec()));
    let text: Vec<&str> = LINE.into_iter().filter(|word| *word != "--json").collect();
    place.lake(&text).ends(0).says(&["PUBLISHED", "the job did not run", "calve log shop.orders"]);
}

#[test]
fn a_published_one_needs_no_contract_to_be_told() {
    let place = shop();
    place.again().ends(0);
    std::fs::remove_file(place.path().join("contracts/shop.orders.toml")).unwrap();
    place.again().ends(0);
    let mut other = LINE;
    other[2] = "q";
    assert_eq!(place.lake(&other).ends(2).json()["error"]["code"], 2, "nothing is begun for nothing");
    assert_eq!(place.runs(), 1);
    place.lake(&["status", TABLE, "q"]).ends(2);
}

/// Killed at each step of each commit that the command itself makes.
#[test]
fn killed_at_any_step_the_same_line_again_publishes_once() {
    for verb in ["begin", "seal", "publish"] {
        for step in STEPS {
            let place = shop();
            place.killed(&LINE, &format!("{verb}:{step}"));
            let ran = place.runs();
            let report = place.again().ends(0).json();
            assert_eq!(place.orders_in_main(), AFTER, "{verb} {step}: {report}");
            // What was sealed is published without another run of the job.
            let sealed = verb == "publish" || (verb == "seal" && step != "intended");
            assert_eq!(place.runs() - ran, usize::from(!sealed), "{verb} {step}: {report}");
            let last = report["publication"].as_str().unwrap();
            assert_eq!(last, if verb == "seal" && step == "intended" { "p~2" } else { "p" }, "{verb} {step}");
            assert_eq!(steps(&place.again().ends(0).json()), ["reconcile"], "{verb} {step}");
        }
    }
}

/// Killed at each step of the restart itself, and the same line a third time.
#[test]
fn killed_at_any_step_of_a_restart() {
    for step in STEPS {
        let place = shop();
        place.killed(&LINE, "seal:intended");
        place.killed(&LINE, &format!("restart:{step}"));
        let report = place.again().ends(0).json();
        assert_eq!(place.orders_in_main(), AFTER, "{step}: {report}");
        assert_eq!(report["publication"], "p~2", "{step}: {report}");
        assert_eq!(place.reconciled("p", 0), "published", "{step}");
        let refs = place.seen().refs;
        assert!(refs.contains_key("closed/p") && refs.contains_key("published/p~2"), "{step}: {refs:?}");
        assert_eq!(refs["audit/p"]["type"], "tag", "{step}");
    }
}

/// The job of a killed run goes on writing: it cannot reach the branch that the next job gets.
#[test]
fn a_job_killed_in_the_middle_leaves_its_rows_behind() {
    let place = shop();
    let job = "echo ran >> ran; \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2\n\
               if [ ! -e once ]; then touch once; kill -9 $PPID; exit 1; fi";
    place.job(job);
    let status = place.command(&LINE).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert_eq!(place.reconciled("p", 14), "open");
    let report = place.again().ends(0).json();
    assert_eq!(steps(&report), ["restart", "job", "validate", "publish"]);
    assert_eq!((place.runs(), place.orders_in_main()), (2, AFTER.to_vec()), "each row once");
    let closed = place.lake(&["status", TABLE, "--json"]).ends(0).json().to_string();
    assert!(closed.contains("restarted"), "{closed}");
}

/// Killed before its job wrote anything: the job may live, so that its branch is not used again.
#[test]
fn an_orphaned_job_cannot_write_where_the_next_one_does() {
    let place = shop();
    place.job(
        "echo ran >> ran; if [ ! -e once ]; then touch once; kill -9 $PPID; exit 1; fi\n\
               \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2",
    );
    place.command(&LINE).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let report = place.again().ends(0).json();
    assert_eq!(report["publication"], "p~2", "{report}");
    assert_eq!(place.orders_in_main(), AFTER);
}

#[test]
fn a_job_that_fails_leaves_its_candidate_open() {
    let place = shop();
    place.job(
        "echo ran >> ran; test -e mended || exit 3; \
               \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2",
    );
    let report = place.again().ends(1).json();
    assert_eq!(steps(&report), ["begin", "job"]);
    assert_eq!(report["steps"][1]["status"], 3);
    assert!(report["next"].to_string().contains("calve abandon shop.orders p"), "{report}");
    assert_eq!(place.reconciled("p", 14), "open");
    place.write("mended", "");
    let report = place.again().ends(0).json();
    assert_eq!((&report["publication"], place.runs()), (&"p".into(), 2), "nothing was written, and the job had ended");
    assert_eq!(place.orders_in_main(), AFTER);
}

#[test]
fn a_job_that_fails_after_it_wrote_is_run_on_a_new_branch() {
    let place = shop();
    place.job(
        "echo ran >> ran; \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2\n\
               test -e mended",
    );
    place.again().ends(1);
    place.write("mended", "");
    let report = place.again().ends(0).json();
    assert_eq!((&report["publication"], place.orders_in_main()), (&"p~2".into(), AFTER.to_vec()));
}

#[test]
fn a_job_that_cannot_be_started_is_wrong_use() {
    let place = shop();
    let mut line = LINE;
    line[7] = "no-such-program";
    let report = place.lake(&line).ends(2).json();
    assert_eq!(report["steps"][1]["job"], "not-started");
    place.again().ends(0);
    assert_eq!(place.orders_in_main(), AFTER);
}

/// A check that looked at no row has shown nothing.
#[test]
fn a_job_that_writes_nothing_is_not_published() {
    let place = shop();
    place.job("true");
    let report = place.again().ends(10).json();
    assert_eq!(steps(&report), ["begin", "job", "validate"]);
    assert_eq!(place.orders_in_main(), BEFORE);
}

#[test]
fn main_moves_while_the_job_runs() {
    let place = shop();
    place.orders("others.parquet", 9, &[8]);
    place.job("echo ran >> ran\n\
               \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2\n\
               if [ ! -e once ]; then touch once\n\
               \"$CALVE\" begin $CALVE_TABLE other >&2; \"$CALVE\" stage $CALVE_TABLE other others.parquet --append >&2\n\
               \"$CALVE\" validate $CALVE_TABLE other >&2; \"$CALVE\" publish $CALVE_TABLE other >&2; fi");
    let report = place.again().ends(12).json();
    assert_eq!(report["steps"][3]["outcome"], "conflict", "{report}");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 8]);
    let report = place.again().ends(0).json();
    assert_eq!(steps(&report), ["restart", "job", "validate", "publish"], "rebuilt on main as it is");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn two_runs_at_once() {
    let place = shop();
    // The job says that it runs, and waits to be told to go on.
    place.job(
        "echo ran >> ran; echo running >&2; read word\n\
               \"$CALVE\" stage $CALVE_TABLE $CALVE_PUBLICATION more.parquet --append >&2",
    );
    let mut command = place.command(&LINE);
    command.stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let said = said(&mut running, "running\n");
    let second = place.again().ends(13).json();
    let message = second["error"]["message"].as_str().unwrap();
    assert!(message.contains("process") && message.contains("wait"), "{message}");
    running.0.stderr = Some(said);
    let report = running.goes_on().ends(0).json();
    assert_eq!(steps(&report), ["begin", "job", "validate", "publish"]);
    assert_eq!((place.runs(), place.orders_in_main()), (1, AFTER.to_vec()));
}

/// Reads standard error until a line is there.
fn said(running: &mut Running, line: &str) -> std::process::ChildStderr {
    use std::io::Read as _;
    let mut from = running.0.stderr.take().unwrap();
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with(line) {
        assert!(from.read(&mut byte).unwrap() > 0, "it ended without {line:?}: {text}");
        text.push(char::from(byte[0]));
    }
    from
}

#[test]
fn a_signal_reaches_the_job_and_what_it_started() {
    for (name, number) in [("INT", 130), ("TERM", 143)] {
        let place = shop();
        place.job(
            "trap 'echo told >> told; exit 0' INT TERM\n\
                   echo running >&2; read word || true",
        );
        let mut command = place.command(&LINE);
        command.stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        let rest = said(&mut running, "running\n");
        let sent = std::process::Command::new("sh")
            .args(["-c", &format!("kill -s {name} {}", running.0.id())])
            .status()
            .unwrap();
        assert!(sent.success());
        running.0.stderr = Some(rest);
        let report = running.ran().ends(number).json();
        assert_eq!(report["steps"][1]["job"], "stopped", "{report}");
        assert_eq!(
            std::fs::read_to_string(place.path().join("told")).unwrap(),
            "told\n",
            "{name}: once, and waited for"
        );
        assert_eq!(place.reconciled("p", 14), "open");
    }
}

#[test]
fn the_job_knows_where_to_write() {
    let place = shop();
    place.job("env | grep ^CALVE_ | sort > seen; echo from the job; false");
    let mut line = vec!["--owner", "ann"];
    line.extend(LINE);
    let ran = place.lake(&line).ends(1);
    assert!(ran.err.contains("from the job"), "apart from the report: {ran:?}");
    assert_eq!(ran.json()["exit-code"], 1);
    let seen = std::fs::read_to_string(place.path().join("seen")).unwrap();
    let lake = place.path().canonicalize().unwrap().join("lake");
    let lake = lake.display();
    let names: Vec<_> = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let all = ["BRANCH", "CATALOG_NAME", "CATALOG_URI", "LEASE", "OWNER", "PUBLICATION", "TABLE", "WAREHOUSE"];
    assert_eq!(names, all.map(|name| format!("CALVE_{name}")));
    for said in [
        "CALVE_TABLE=shop.orders".to_owned(),
        "CALVE_PUBLICATION=p".to_owned(),
        "CALVE_BRANCH=audit/p".to_owned(),
        "CALVE_CATALOG_NAME=calve".to_owned(),
        format!("CALVE_CATALOG_URI=sqlite:///{lake}/catalog.db"),
        format!("CALVE_WAREHOUSE={lake}"),
        "CALVE_OWNER=ann".to_owned(),
    ] {
        assert!(seen.lines().any(|line| line == said), "{said} is missing in {seen}");
    }
    let text: Vec<&str> = LINE.into_iter().filter(|word| *word != "--json").collect();
    place
        .lake(&["--owner", "ann"].into_iter().chain(text).collect::<Vec<_>>())
        .ends(1)
        .says(&["from the job", "FAILED"]);
}

#[test]
fn anothers_id_is_left_alone() {
    let place = shop();
    place.lake(&["begin", TABLE, "p", "--owner", "ann"]).ends(0);
    let ran = place.again().ends(13).json();
    assert!(ran["error"]["message"].as_str().unwrap().contains("ann"), "{ran}");
    place.lake(&["abandon", TABLE, "p", "--owner", "ann", "--reason", "no"]).ends(0);
    place.again().ends(13);
    assert_eq!(place.runs(), 0);
}

#[test]
fn a_closed_id_is_run_as_the_next() {
    let place = shop();
    place.staged("p", "more.parquet");
    place.lake(&["abandon", TABLE, "p", "--reason", "not like this"]).ends(0);
    let report = place.again().ends(0).json();
    assert_eq!((&report["publication"], steps(&report)[0]), (&"p~2".into(), "begin"));
    assert_eq!(place.orders_in_main(), AFTER);
}
