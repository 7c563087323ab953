//! The jobs of `examples/`, as a scheduler starts them: `calve run … -- JOB`, by the line that stands in each of them.

use std::process::Command;

use calve::catalog::properties::Properties;
use integration::beds::{SERVICES, Service};
use integration::command::{Ran, finish};
use integration::lake::Lake;
use integration::proxy::{Options, Proxy, Rule};
use integration::services::seaweedfs::SECRET_KEY;
use integration::services::{At, shared_spark};
use integration::story::{DAY, HISTORY, NINTH, assert_published, path, text};
use integration::{python, source_root};
use serde_json::Value;

const ID: &str = "repair-0809";
const NINTH_DAY: &str = "2013-08-09";
/// What only a PUBLISH has in its body: the update that makes the receipt.
const RECEIPT: &str = "\"ref-name\":\"published/";

/// `calve run --json` of the repair by a program of the example.
fn run(lake: &Lake, mut command: Command, program: &str, file: &str) -> Ran {
    command.arg("--json");
    run_shown(lake, command, program, file)
}

/// The same as a person runs it.
fn run_shown(lake: &Lake, mut command: Command, program: &str, file: &str) -> Ran {
    let job = source_root().join("examples").join(program);
    let scope = format!("{DAY} = '{NINTH_DAY}'");
    command.args(["run", &lake.table, ID, "--scope", &scope, "--"]);
    let interpreter = if program.starts_with("spark") { "spark-submit" } else { "python" };
    command.arg(interpreter).arg(job).args([&path(file), NINTH_DAY]);
    let ran = finish(&mut command).unwrap();
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(SECRET_KEY), "a secret was printed");
    ran
}

/// `calve` with Spark's programs on its path, and its settings.
fn with_spark(lake: &Lake) -> Command {
    let mut command = lake.command();
    let spark = shared_spark().unwrap();
    let settings = spark.settings();
    command.envs(settings.environment().iter().map(|(name, value)| (name, value)));
    command.env("SPARK_LOCAL_IP", "127.0.0.1").env("PYTHONDONTWRITEBYTECODE", "1");
    on_path(&mut command, settings.submit_path().parent().unwrap());
    command
}

/// `calve` with PyIceberg's interpreter on its path.
fn with_python(lake: &Lake) -> Command {
    let mut command = lake.command();
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    on_path(&mut command, python::venv().unwrap().parent().unwrap());
    command
}

fn on_path(command: &mut Command, folder: &std::path::Path) {
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
}

/// The names of what a run did, in order.
fn steps(ran: &Ran) -> Vec<String> {
    let report = ran.json().unwrap();
    let steps = report.get("steps").and_then(Value::as_array).unwrap();
    steps.iter().map(|step| text(step, "step").to_owned()).collect()
}

fn from_begin_to_published(lake: &Lake, program: &str, command: impl Fn(&Lake) -> Command) {
    let before = lake.everyone_sees();
    // The day with rows planted a second time: the job is content, the checks are not.
    let dup = run(lake, command(lake), program, "flights-2013-08-09-dup.parquet").expect_code(10).unwrap();
    assert_eq!(steps(&dup), ["begin", "job", "validate"], "{dup:?}");
    assert!(dup.stderr.contains(&format!("rows of {NINTH_DAY} are on audit/{ID}")), "{}", dup.stderr);
    assert_eq!(lake.everyone_sees(), before);
    // A file without a row of the day is the job's failure.
    let none = run(lake, command(lake), program, "flights-2013-08-10.parquet").expect_code(1).unwrap();
    assert!(none.stderr.contains("nothing is written"), "{}", none.stderr);

    let right = run(lake, command(lake), program, "flights-2013-08-09.parquet").expect_code(0).unwrap();
    let did = steps(&right);
    assert_eq!(did.iter().rev().take(3).collect::<Vec<_>>(), ["publish", "validate", "job"], "{right:?}");
    let published = right.json().unwrap();
    let id = text(&published, "publication").to_owned();
    assert!(id.starts_with(&format!("{ID}~")), "{id}: the first was quarantined");
    let after = lake.everyone_sees();
    assert_eq!((after.days.rows, after.days.of(NINTH_DAY)), (HISTORY + NINTH, NINTH));
    assert_published(&lake.seen(), &id);

    // The same line again, as a scheduler does: it is done, and the job does not run.
    let again = run(lake, command(lake), program, "flights-2013-08-09.parquet").expect_code(0).unwrap();
    assert_eq!(steps(&again), ["reconcile"]);
    assert_eq!(lake.at(At::Main), after);
}

#[test]
fn the_spark_job_from_begin_to_published() {
    for (service, namespace) in [(Service::SeaweedFs, "db"), (Service::Reference, "db")] {
        let lake = Lake::with_history(service, namespace, 2, "");
        from_begin_to_published(&lake, "spark_repair.py", with_spark);
    }
}

#[test]
fn the_pyiceberg_job_from_begin_to_published() {
    for service in SERVICES {
        let lake = Lake::with_history(service, "db_python", 2, "");
        from_begin_to_published(&lake, "pyiceberg_repair.py", with_python);
    }
}

fn uri(properties: &Properties) -> String {
    properties.get("uri").unwrap().to_owned()
}

/// The publication is applied, its answer never arrives, and neither does any other until the catalog is back.
async fn lost_with_the_catalog(service: Service) {
    let lake = blocking(move || Lake::with_history(service, "unresolved", 2, "")).await;
    let proxy = Proxy::start(&uri(lake.properties())).await.unwrap();
    let address = proxy.uri().to_owned();
    lake.reach(Some(&address));
    let lake = std::sync::Arc::new(lake);
    let publish = proxy.hold_answer(Rule::commits().containing(RECEIPT));
    let running = tokio::task::spawn_blocking({
        let lake = lake.clone();
        move || run_shown(&lake, with_python(&lake), "pyiceberg_repair.py", "flights-2013-08-09.parquet")
    });
    // Until the catalog has answered; then the way to it goes, and the answer with it.
    publish.arrived().await;
    drop(proxy);
    let ran = running.await.unwrap().expect_code(20).unwrap();
    for words in ["begin → job", "PASS → UNRESOLVED (exit 20)", "nothing was deleted", "next: calve reconcile"] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }

    // Still away: what was sent is remembered, and what became of it is not guessed.
    let away = lake.clone();
    blocking(move || assert_eq!(away.reconcile(ID, 20), ("lost".to_owned(), 0))).await;

    // And back under its address. The table shows what happened.
    let listen = address.trim_start_matches("http://").parse().unwrap();
    let upstream = uri(lake.properties()).parse().unwrap();
    let _proxy = Proxy::start_with(upstream, Options { listen, ..Options::default() }).await.unwrap();
    blocking(move || {
        assert_eq!(lake.reconcile(ID, 0), ("published".to_owned(), 2));
        let again = run(&lake, with_python(&lake), "pyiceberg_repair.py", "flights-2013-08-09.parquet");
        assert_eq!(steps(&again.expect_code(0).unwrap()), ["reconcile"]);
        let seen = lake.everyone_sees();
        assert_eq!((seen.days.rows, seen.days.of(NINTH_DAY)), (HISTORY + NINTH, NINTH), "not exactly once");
        assert_published(&lake.seen(), ID);
    })
    .await;
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_unresolved_until_the_catalog_is_back() {
    for service in SERVICES {
        lost_with_the_catalog(service).await;
    }
}

/// Only the answer is lost: the same run reads the table and knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_alone_is_reconciled_by_the_same_run() {
    for service in SERVICES {
        let lake = blocking(move || Lake::with_history(service, "answer", 2, "")).await;
        let proxy = Proxy::start(&uri(lake.properties())).await.unwrap();
        lake.reach(Some(proxy.uri()));
        proxy.next(Rule::commits().containing(RECEIPT), integration::proxy::Fault::DropAfter);
        blocking(move || {
            let ran = run(&lake, with_python(&lake), "pyiceberg_repair.py", "flights-2013-08-09.parquet");
            let ran = ran.expect_code(0).unwrap();
            let report = ran.json().unwrap();
            assert_eq!(report.pointer("/steps/3/via").unwrap(), "reconciled", "{report}");
            let seen = lake.everyone_sees();
            assert_eq!((seen.days.rows, seen.days.of(NINTH_DAY)), (HISTORY + NINTH, NINTH), "not exactly once");
        })
        .await;
        assert_eq!(proxy.unused(), Vec::<u64>::new(), "{service:?}: the fault did not happen");
        let sent = proxy.seen().into_iter().filter(|seen| seen.method == "POST" && seen.upstream.len() > 1).count();
        assert_eq!(sent, 0, "a commit was sent twice");
    }
}
