//! Trino 476 with its Iceberg connector: a reader that shares no Iceberg code path with Spark's.
//!
//! The server without connectors and the connector come from Maven Central. The server is started by `java` itself, which
//! has to be 24 or later, on 127.0.0.1 alone.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use calve::catalog::properties::Properties;
use serde_json::Value;

use super::java::{self, Releases};
use super::supervised::{Supervised, folder, write_private};
use super::{At, Row, http, ports};
use crate::readers::Rows;
use crate::{HarnessError, Result};

const POM: &str = include_str!("../../java/trino/pom.xml");
const PROMPT_POM: &str = include_str!("../../java/trino-cli/pom.xml");
const RELEASES: Releases = Releases { least: 24, most: None };
const VERSION: &str = "476";
const READY_LIMIT: Duration = Duration::from_secs(240);
const TRIES: usize = 3;
const NO_NODES: &str = "No nodes available to run query";
const NODES_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// A running Trino.
#[derive(Debug)]
pub struct Trino {
    service: Supervised,
    port: u16,
}

impl Trino {
    /// Starts it with these catalogs, by name and Iceberg's properties, and waits until it answers a query. Their tables
    /// have to be on S3.
    pub fn start(catalogs: &[(&str, &Properties)]) -> Result<Self> {
        let home = java_home()?;
        let server = install(&home)?;
        let mut last = None;
        for _ in 0..TRIES {
            match Self::start_once(&home, &server, catalogs) {
                Ok(running) => return Ok(running),
                Err(error) if error.to_string().contains("Address already in use") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| HarnessError("Trino: no try was made".to_owned())))
    }

    fn start_once(home: &std::path::Path, server: &std::path::Path, catalogs: &[(&str, &Properties)]) -> Result<Self> {
        let folder = folder("trino")?;
        // Where Trino itself looks, seen from its working directory.
        let etc = folder.path().join("etc/catalog");
        for made in [&etc, &folder.path().join("data")] {
            std::fs::create_dir_all(made).map_err(|error| HarnessError::io(made.display(), &error))?;
        }
        for (name, properties) in catalogs {
            write_private(&etc.join(format!("{name}.properties")), &catalog(name, properties)?)?;
        }
        let port = *ports::free(1, 0)?.first().ok_or_else(|| HarnessError("Trino: no port".to_owned()))?;
        let config = format!(
            "coordinator=true\n\
             node-scheduler.include-coordinator=true\n\
             node.environment=test\n\
             node.id=calve-{port}\n\
             node.bind-ip=127.0.0.1\n\
             node.internal-address=127.0.0.1\n\
             http-server.http.port={port}\n\
             discovery.uri=http://127.0.0.1:{port}\n\
             plugin.dir={}\n\
             catalog.management=dynamic\n\
             query.max-memory-per-node=256MB\n",
            server.join("plugin").display()
        );
        let path = folder.path().join("config.properties");
        write_private(&path, &config)?;
        let mut command = Command::new(home.join("bin/java"));
        command
            .args(["-Xmx1G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--sun-misc-unsafe-memory-access=allow"])
            .args(["--add-modules=jdk.incubator.vector", "-Djdk.attach.allowAttachSelf=true"])
            .arg(format!("-Dnode.data-dir={}", folder.path().join("data").display()))
            .arg(format!("-Dconfig={}", path.display()))
            .arg("-cp")
            .arg(server.join("lib/*"))
            .arg("io.trino.server.TrinoServer")
            .current_dir(folder.path());
        let mut service = Supervised::start("Trino", &mut command, folder, false)?;
        service.wait_until(READY_LIMIT, |_| match http::request(port, "GET", "/v1/info", &[], "") {
            Ok(answer) if answer.body.contains("\"starting\":false") => Ok(()),
            Ok(answer) => Err(format!("it answers {}", answer.status)),
            Err(error) => Err(error),
        })?;
        let running = Self { service, port };
        drop(running.sql("SELECT 1")?);
        Ok(running)
    }

    /// Runs a statement of SQL; its rows, or an error with Trino's words.
    pub fn sql(&self, statement: &str) -> Result<Vec<Row>> {
        let deadline = Instant::now() + NODES_LIMIT;
        loop {
            match self.sql_once(statement) {
                // Its one node has not reported in time, as on a machine that is short of time: nothing was run.
                Err(error) if error.to_string().contains(NO_NODES) && Instant::now() < deadline => {
                    std::thread::sleep(POLL);
                }
                done => return done,
            }
        }
    }

    fn sql_once(&self, statement: &str) -> Result<Vec<Row>> {
        let failed = |why: String| HarnessError(format!("Trino: {why}\nfor {statement}"));
        let user = ["X-Trino-User: calve"];
        let mut answer = http::request(self.port, "POST", "/v1/statement", &user, statement).map_err(failed)?;
        let mut rows = Vec::new();
        loop {
            let page: Value = serde_json::from_str(&answer.body)
                .map_err(|error| failed(format!("it answers {}: {error}", answer.status)))?;
            if let Some(message) = page.get("error") {
                let text = message.get("message").and_then(Value::as_str).unwrap_or("no message");
                return Err(failed(text.to_owned()));
            }
            if let Some(data) = page.get("data") {
                let more: Vec<Row> = serde_json::from_value(data.clone()).map_err(|error| failed(error.to_string()))?;
                rows.extend(more);
            }
            let Some(next) = page.get("nextUri").and_then(Value::as_str) else { return Ok(rows) };
            let origin = format!("http://127.0.0.1:{}", self.port);
            let path = next.strip_prefix(&origin).ok_or_else(|| failed(format!("it goes on at {next}")))?;
            answer = http::request(self.port, "GET", path, &user, "").map_err(failed)?;
        }
    }

    /// Counts a table's rows by the values of a column.
    pub fn rows(&self, table: &str, column: &str, at: At<'_>) -> Result<Rows> {
        let version = match at {
            At::Main => String::new(),
            At::Snapshot(id) => format!(" FOR VERSION AS OF {id}"),
            At::Ref(name) => format!(" FOR VERSION AS OF '{name}'"),
        };
        let query = format!("SELECT CAST(\"{column}\" AS varchar), count(*) FROM {table}{version} GROUP BY 1");
        super::rows(&self.sql(&query)?)
    }

    /// Its address.
    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.service.id()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.service.log()
    }
}

fn java_home() -> Result<PathBuf> {
    java::home(RELEASES, "CALVE_TEST_TRINO_JAVA_HOME", "Trino 476")
}

/// Trino's prompt for people: a `java`, and the jar that it is to run.
pub fn prompt() -> Result<(PathBuf, PathBuf)> {
    let jars = java::entry("trino-cli", PROMPT_POM, "", |_| Ok(()))?.join("lib");
    Ok((java_home()?.join("bin/java"), jars.join(format!("trino-cli-{VERSION}-executable.jar"))))
}

/// Iceberg's properties under Trino's names.
fn catalog(name: &str, properties: &Properties) -> Result<String> {
    let needed = |key: &str| {
        let missing = || HarnessError(format!("Trino reads from S3 here: the catalog {name} has no {key}"));
        properties.get(key).ok_or_else(missing)
    };
    let uri = needed("uri")?;
    let mut lines = vec![
        ("connector.name", "iceberg".to_owned()),
        ("iceberg.catalog.type", "rest".to_owned()),
        ("iceberg.rest-catalog.uri", uri.to_owned()),
        ("fs.native-s3.enabled", "true".to_owned()),
        ("s3.endpoint", needed("s3.endpoint")?.to_owned()),
        ("s3.region", needed("s3.region")?.to_owned()),
        ("s3.aws-access-key", needed("s3.access-key-id")?.to_owned()),
        ("s3.aws-secret-key", needed("s3.secret-access-key")?.to_owned()),
        ("s3.path-style-access", properties.get("s3.path-style-access").unwrap_or("false").to_owned()),
    ];
    if let Some(warehouse) = properties.get("warehouse") {
        lines.push(("iceberg.rest-catalog.warehouse", warehouse.to_owned()));
    }
    if let Some(credential) = properties.get("credential") {
        let server =
            properties.get("oauth2-server-uri").map_or_else(|| format!("{uri}/v1/oauth/tokens"), str::to_owned);
        lines.push(("iceberg.rest-catalog.security", "OAUTH2".to_owned()));
        lines.push(("iceberg.rest-catalog.oauth2.credential", credential.to_owned()));
        lines.push(("iceberg.rest-catalog.oauth2.server-uri", server));
    }
    Ok(lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect())
}

/// Unpacks both archives by means of the JDK and tar; the server's folder.
fn install(home: &std::path::Path) -> Result<PathBuf> {
    let folder = java::entry("trino", POM, "unpacked", |folder| {
        let archive = |name: &str| folder.join("lib").join(name);
        let server = archive(&format!("trino-server-core-{VERSION}.tar.gz"));
        java::step(Command::new("tar").current_dir(folder).arg("-xzf").arg(&server))?;
        let connector = archive(&format!("trino-iceberg-{VERSION}.zip"));
        java::step(Command::new(home.join("bin/jar")).current_dir(folder).arg("xf").arg(&connector))?;
        let plugin = folder.join(format!("trino-server-core-{VERSION}/plugin/iceberg"));
        std::fs::rename(folder.join(format!("trino-iceberg-{VERSION}")), &plugin)
            .map_err(|error| HarnessError::io(plugin.display(), &error))?;
        for done in [server, connector] {
            std::fs::remove_file(&done).map_err(|error| HarnessError::io(done.display(), &error))?;
        }
        Ok(())
    })?;
    Ok(folder.join(format!("trino-server-core-{VERSION}")))
}
