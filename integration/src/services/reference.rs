//! The reference catalog: Iceberg Java 1.10.1's own `RESTCatalogAdapter` before its `JdbcCatalog` on SQLite.
//!
//! A second implementation that shares no code with SeaweedFS': requirements and updates go through Iceberg's
//! `CatalogHandlers`. `transactions/commit` is the adapter's, which applies table by table. It knows no
//! `snapshots=refs`; `java/reference/ReferenceCatalog.java`, which carries requests to it, adds that. It asks for no
//! credentials and answers every OAuth2 request with a token.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use calve::catalog::properties::Properties;

use super::seaweedfs::SeaweedFs;
use super::supervised::{Supervised, folder};
use super::{http, java};
use crate::{HarnessError, Result};

const POM: &str = include_str!("../../java/reference/pom.xml");
const SOURCE: &str = include_str!("../../java/reference/ReferenceCatalog.java");
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Where the tables of a reference catalog are kept.
#[derive(Debug, Clone, Copy)]
pub enum Storage<'a> {
    /// In the plain bucket of a SeaweedFS, by Iceberg's `S3FileIO`.
    S3(&'a SeaweedFs),
    /// In the catalog's own temporary folder, by Iceberg's `HadoopFileIO`.
    Local,
}

/// A running reference catalog with its database in a temporary folder.
#[derive(Debug)]
pub struct ReferenceCatalog {
    service: Supervised,
    program: Program,
    port: u16,
    properties: Properties,
}

struct Program {
    java: PathBuf,
    installed: PathBuf,
    /// The properties of its `JdbcCatalog`, a line each.
    lines: String,
}

impl Program {
    fn command(&self, folder: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.java);
        let path = format!("{}:{}", self.installed.join("classes").display(), self.installed.join("lib/*").display());
        command.args(["-Xmx384m", "-XX:+UseSerialGC", "-cp", &path, "org.apache.iceberg.rest.ReferenceCatalog"]);
        command.arg(port.to_string()).current_dir(folder);
        command
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The lines hold secrets.
        f.debug_struct("Program").field("java", &self.java).field("installed", &self.installed).finish_non_exhaustive()
    }
}

impl ReferenceCatalog {
    /// Starts it, and waits until it answers.
    pub fn start(storage: Storage<'_>) -> Result<Self> {
        let home =
            java::home(java::Releases { least: 17, most: None }, "CALVE_TEST_JAVA_HOME", "the reference catalog")?;
        let installed = install(&home)?;
        let folder = folder("reference")?;
        let mut own: Vec<(String, String)> = vec![
            ("uri".to_owned(), format!("jdbc:sqlite:{}", folder.path().join("catalog.db").display())),
            // SQLite knows one writer at a time.
            ("clients".to_owned(), "1".to_owned()),
            ("jdbc.schema-version".to_owned(), "V1".to_owned()),
        ];
        let shared: Vec<(String, String)> = match storage {
            Storage::S3(seaweedfs) => {
                own.push(("io-impl".to_owned(), "org.apache.iceberg.aws.s3.S3FileIO".to_owned()));
                own.push(("client.region".to_owned(), super::seaweedfs::REGION.to_owned()));
                let warehouse = ("warehouse".to_owned(), "s3://plain/reference".to_owned());
                seaweedfs.s3_properties().chain([warehouse]).collect()
            }
            Storage::Local => {
                let warehouse = folder.path().join("warehouse");
                std::fs::create_dir(&warehouse).map_err(|error| HarnessError::io(warehouse.display(), &error))?;
                vec![("warehouse".to_owned(), format!("file://{}", warehouse.display()))]
            }
        };
        own.extend(shared.iter().cloned());

        // The syntax of java.util.Properties.
        let lines: String =
            own.iter().map(|(name, value)| format!("{name}={}\n", value.replace('\\', "\\\\"))).collect();
        let program = Program { java: home.join("bin/java"), installed, lines };
        let service = Supervised::start("the reference catalog", &mut program.command(folder.path(), 0), folder, true)?;
        let mut running = Self { service, program, port: 0, properties: Properties::default() };
        running.wait_until_ready()?;
        let uri = ("uri".to_owned(), running.uri());
        running.properties = shared.into_iter().chain([uri]).collect();
        Ok(running)
    }

    /// Kills it by SIGKILL at whatever it does, starts it again on the same port and database, and waits until it answers.
    pub fn kill_and_restart(&mut self) -> Result<()> {
        let mut command = self.program.command(self.service.folder(), self.port);
        self.service.restart(&mut command, true)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let (input, output) = (self.service.child().stdin.take(), self.service.child().stdout.take());
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(self.service.failed("it has no pipes"));
        };
        // The input's end tells it that these are all.
        input.write_all(self.program.lines.as_bytes()).map_err(|error| self.service.failed(error))?;
        drop(input);
        let receiver = super::spark::lines(output);
        let port = self.service.wait_until(READY_LIMIT, |_| {
            let line = receiver.try_recv().map_err(|_| "it named no port".to_owned())?;
            let port = line.strip_prefix("port=").and_then(|port| port.parse::<u16>().ok());
            port.ok_or_else(|| format!("it said {line:?}"))
        })?;
        self.service.wait_until(READY_LIMIT, |_| match http::request(port, "GET", "/v1/config", &[], "")?.status {
            200 => Ok(()),
            status => Err(format!("config answers {status}")),
        })?;
        self.port = port;
        Ok(())
    }

    /// The catalog's settings and those of the store behind it, under Iceberg's names.
    pub fn properties(&self) -> Properties {
        self.properties.clone()
    }

    /// The catalog's address.
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

fn install(home: &Path) -> Result<PathBuf> {
    java::entry("reference", POM, SOURCE, |folder| {
        let source = folder.join("ReferenceCatalog.java");
        std::fs::write(&source, SOURCE).map_err(|error| HarnessError::io(source.display(), &error))?;
        let mut compiler = Command::new(home.join("bin/javac"));
        compiler.args(["--release", "17", "-cp"]).arg(folder.join("lib/*")).arg("-d").arg(folder.join("classes"));
        java::step(compiler.arg(&source)).map_err(|error| {
            HarnessError(format!("the reference catalog does not compile; it needs a whole JDK, with javac: {error}"))
        })
    })
}
