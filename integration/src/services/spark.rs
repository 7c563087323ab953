//! Spark 3.5.8 with Iceberg 1.10.1, as one session that several tests share, and as jobs of their own.
//!
//! Settings, secrets among them, are in a private `spark-defaults.conf`, so that a job needs none of them:
//! `Settings::submit` is a `spark-submit` whose catalogs are there.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use calve::catalog::properties::Properties;
use serde_json::{Value, json};

use super::java::{self, Releases};
use super::supervised::{Supervised, folder, write_private};
use super::{At, Row};
use crate::readers::Rows;
use crate::{HarnessError, Result, python, source_root};

const PINS: &str = include_str!("../../requirements-spark.txt");
const POM: &str = include_str!("../../java/spark/pom.xml");
const READY_LIMIT: Duration = Duration::from_secs(180);
const ANSWER_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Spark 3.5 runs on these.
const RELEASES: Releases = Releases { least: 17, most: Some(21) };

/// What a Spark process is to be started with.
#[derive(Debug, Clone)]
pub struct Settings {
    python: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Settings {
    /// Writes the settings of these catalogs, by name and Iceberg's properties, into a folder.
    pub fn write(folder: &Path, catalogs: &[(&str, &Properties)]) -> Result<Self> {
        let java = java::home(RELEASES, "CALVE_TEST_SPARK_JAVA_HOME", "Spark 3.5")?;
        let python = python::environment(PINS, "import pyspark")?;
        let jars = java::entry("spark", POM, "", |_| Ok(()))?.join("lib");
        let home = home(&python)?;
        let mut lines = vec![
            ("spark.master".to_owned(), "local[2]".to_owned()),
            ("spark.driver.memory".to_owned(), "1g".to_owned()),
            ("spark.driver.bindAddress".to_owned(), "127.0.0.1".to_owned()),
            ("spark.driver.host".to_owned(), "127.0.0.1".to_owned()),
            ("spark.driver.extraClassPath".to_owned(), jars.join("*").display().to_string()),
            ("spark.driver.extraJavaOptions".to_owned(), "-XX:+UseSerialGC -Duser.timezone=UTC".to_owned()),
            ("spark.ui.enabled".to_owned(), "false".to_owned()),
            ("spark.ui.showConsoleProgress".to_owned(), "false".to_owned()),
            ("spark.local.dir".to_owned(), folder.join("spark-local").display().to_string()),
            ("spark.sql.warehouse.dir".to_owned(), folder.join("spark-warehouse").display().to_string()),
            ("spark.sql.session.timeZone".to_owned(), "UTC".to_owned()),
            ("spark.sql.shuffle.partitions".to_owned(), "2".to_owned()),
            (
                "spark.sql.extensions".to_owned(),
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions".to_owned(),
            ),
        ];
        for (name, properties) in catalogs {
            let catalog = format!("spark.sql.catalog.{name}");
            lines.push((catalog.clone(), "org.apache.iceberg.spark.SparkCatalog".to_owned()));
            lines.push((format!("{catalog}.type"), "rest".to_owned()));
            // Else a session does not see what others have written meanwhile.
            lines.push((format!("{catalog}.cache-enabled"), "false".to_owned()));
            if let Some(region) = properties.get("s3.region") {
                lines.push((format!("{catalog}.client.region"), region.to_owned()));
            }
            lines.extend(properties.iter().map(|(key, value)| (format!("{catalog}.{key}"), value.to_owned())));
        }
        let text: String = lines.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        write_private(&folder.join("spark-defaults.conf"), &text)?;
        let log = "rootLogger.level = warn\nrootLogger.appenderRef.out.ref = out\nappender.out.type = Console\n\
                   appender.out.name = out\nappender.out.target = SYSTEM_ERR\nappender.out.layout.type = PatternLayout\n\
                   appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex\n";
        write_private(&folder.join("log4j2.properties"), log)?;
        let environment = vec![
            ("JAVA_HOME", java),
            ("SPARK_HOME", home),
            ("SPARK_CONF_DIR", folder.to_owned()),
            ("PYSPARK_PYTHON", python.clone()),
            ("PYSPARK_DRIVER_PYTHON", python.clone()),
        ];
        Ok(Self { python, environment })
    }

    /// `spark-submit`, to be given a program and its arguments.
    pub fn submit(&self) -> Command {
        self.started_by(&self.python.with_file_name("spark-submit"))
    }

    /// The interpreter, to be given a program that makes a session itself.
    pub fn python(&self) -> Command {
        self.started_by(&self.python)
    }

    /// Where `spark-submit` is, for command lines that start it themselves.
    pub fn submit_path(&self) -> PathBuf {
        self.python.with_file_name("spark-submit")
    }

    /// What the environment of any Spark program has to hold. No value is secret.
    pub fn environment(&self) -> &[(&'static str, PathBuf)] {
        &self.environment
    }

    fn started_by(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("SPARK_LOCAL_IP", "127.0.0.1");
        command
    }
}

fn home(python: &Path) -> Result<PathBuf> {
    let missing = || HarnessError(format!("no pyspark beside {}", python.display()));
    let library = python.parent().and_then(Path::parent).ok_or_else(missing)?.join("lib");
    let versions = std::fs::read_dir(&library).map_err(|error| HarnessError::io(library.display(), &error))?;
    let homes = versions.flatten().map(|version| version.path().join("site-packages/pyspark"));
    homes.into_iter().find(|home| home.join("bin").exists()).ok_or_else(missing)
}

/// A Spark session in a process of its own.
#[derive(Debug)]
pub struct Spark {
    service: Supervised,
    settings: Settings,
    pipes: Mutex<(ChildStdin, Receiver<String>)>,
}

impl Spark {
    /// Starts a session with these catalogs, by name and Iceberg's properties, and waits until it takes commands.
    pub fn start(catalogs: &[(&str, &Properties)]) -> Result<Self> {
        let folder = folder("spark")?;
        let settings = Settings::write(folder.path(), catalogs)?;
        let mut command = settings.python();
        command.args(["-W", "ignore"]).arg(source_root().join("integration/scripts/spark_worker.py"));
        command.current_dir(folder.path());
        let mut service = Supervised::start("Spark", &mut command, folder, true)?;
        let (Some(input), Some(output)) = (service.child().stdin.take(), service.child().stdout.take()) else {
            return Err(service.failed("it has no pipes"));
        };
        let receiver = lines(output);
        service.wait_until(READY_LIMIT, |_| receiver.try_recv().map_err(|_| "it said nothing".to_owned()))?;
        Ok(Self { service, settings, pipes: Mutex::new((input, receiver)) })
    }

    /// Runs a statement of SQL; its rows, or an error with Spark's words.
    pub fn sql(&self, statement: &str) -> Result<Vec<Row>> {
        rows_in(&self.obey(&json!({"sql": statement}))?)
    }

    /// Sets a setting of the session, e.g. `spark.wap.branch`, or unsets it.
    pub fn set(&self, name: &str, value: Option<&str>) -> Result<()> {
        self.obey(&json!({"set": {name: value}})).map(drop)
    }

    /// Runs statements while the session writes to a branch: `spark.wap.branch`. The table has to have
    /// `write.wap.enabled`. Nothing else runs in the session meanwhile.
    pub fn on_branch(&self, branch: &str, statements: &[&str]) -> Result<()> {
        self.under(&[("spark.wap.branch", branch)], statements).map(drop)
    }

    /// Runs statements under settings of the session that hold for nothing else; the rows of the last.
    pub fn under(&self, settings: &[(&str, &str)], statements: &[&str]) -> Result<Vec<Row>> {
        let settings: std::collections::BTreeMap<_, _> = settings.iter().copied().collect();
        rows_in(&self.obey(&json!({"under": settings, "sql": statements}))?)
    }

    /// Runs a Python program with `spark` in scope, and returns what it leaves in `answer`.
    pub fn python(&self, program: &str) -> Result<Value> {
        let answer = self.obey(&json!({"python": program}))?;
        Ok(answer.get("value").cloned().unwrap_or_default())
    }

    /// Counts a table's rows by the values of a column.
    pub fn rows(&self, table: &str, column: &str, at: At<'_>) -> Result<Rows> {
        let version = match at {
            At::Main => String::new(),
            At::Snapshot(id) => format!(" VERSION AS OF {id}"),
            At::Ref(name) => format!(" VERSION AS OF '{name}'"),
        };
        let query = format!("SELECT CAST(`{column}` AS STRING), count(*) FROM {table}{version} GROUP BY 1");
        super::rows(&self.sql(&query)?)
    }

    /// For jobs with the same catalogs, while this session lives.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.service.id()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.service.log()
    }

    fn obey(&self, command: &Value) -> Result<Value> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *pipes;
        writeln!(input, "{command}").and_then(|()| input.flush()).map_err(|error| self.service.failed(error))?;
        let line = output.recv_timeout(ANSWER_LIMIT).map_err(|error| {
            self.service.failed(match error {
                RecvTimeoutError::Timeout => "no answer in time",
                RecvTimeoutError::Disconnected => "it has ended",
            })
        })?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| self.service.failed(error))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(HarnessError(format!("Spark: {error}\nfor {command}"))),
            None => Ok(answer),
        }
    }
}

fn rows_in(answer: &Value) -> Result<Vec<Row>> {
    serde_json::from_value(answer.get("rows").cloned().unwrap_or_default())
        .map_err(|error| HarnessError(format!("Spark: {error} in {answer}")))
}

/// The lines of a pipe as they come.
pub(super) fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
