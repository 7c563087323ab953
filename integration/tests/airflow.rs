//! The example for Airflow: Python reads it, and what it starts is a line that calve takes.

use integration::python::run_python;

#[test]
fn the_dag_starts_a_line_that_calve_takes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/airflow_dag.py");
    let seen = run_python("load_dag.py", &[file]).unwrap();
    let task = &seen["task"];
    assert_eq!(task["skip_on_exit_code"], serde_json::json!([10]));
    assert!(task["retries"].as_u64().unwrap() >= 3, "{task}");
    let line = task["bash_command"].as_str().unwrap().replace("{{ ds }}", "2013-08-09");
    let words = "set -- ".to_owned() + line.strip_prefix("exec calve ").unwrap() + "; printf '%s\\n' \"$@\"";
    let output = std::process::Command::new("sh").args(["-c", &words]).env("REPAIR_REVISION", "r1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = words.lines().collect();
    let expected = [
        "run",
        "demo.flights",
        "flights-2013-08-09",
        "--scope",
        "flight_date = '2013-08-09'",
        "--reads",
        "scope",
        "--code",
        "r1",
        "--",
        "spark-submit",
        "repair.py",
        "2013-08-09",
    ];
    assert_eq!(words, expected);
    // Parsed by the command itself, which then finds no catalog.
    let folder = tempfile::tempdir().unwrap();
    let calve = integration::command::binary().unwrap();
    let output = std::process::Command::new(calve)
        .args(&words)
        .current_dir(folder.path())
        .env_remove("CALVE_WAREHOUSE")
        .env_remove("CALVE_CATALOG")
        .env("HOME", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("no catalog is named"), "{said}");
}
