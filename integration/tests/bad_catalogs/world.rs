//! A working directory for the command, whose catalog is reached through a front.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use calve::catalog::Catalog as _;
use calve::catalog::properties::Properties;
use calve::catalog::rest::RestCatalog;
use calve::clock::SystemClock;
use integration::beds::Service;
use integration::flights;
use integration::services::shared_seaweedfs;
use serde_json::Value;

use crate::front::Front;

/// What a run of the command left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.out.lines().last().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Everything that was written.
    pub fn all(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }
}

pub struct World {
    folder: tempfile::TempDir,
    /// Before the catalog.
    pub front: Front,
    /// Before the journal's store.
    pub store: Front,
    pub service: Service,
    pub table: String,
    settings: BTreeMap<String, String>,
    pub journal: String,
}

impl World {
    /// A table with the flights of 9 August in main, and its contract.
    pub fn of(service: Service) -> Self {
        let world = Self::empty(service);
        world.write_settings(&[]);
        let file = flights("flights-2013-08-09.parquet").display().to_string();
        let table = world.table.clone();
        world.run(&["create", &table, "--like", &file, "--partition-by", "flight_date"]).ends(0);
        let contract = std::fs::read_to_string(flights("flights.contract.toml")).unwrap();
        std::fs::create_dir(world.path().join("contracts")).unwrap();
        std::fs::write(world.path().join(format!("contracts/{table}.toml")), contract).unwrap();
        world.sealed("first", "2013-08-09");
        world.run(&["publish", &table, "first"]).ends(0);
        world
    }

    /// No table yet.
    pub fn empty(service: Service) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let direct = service.properties().unwrap();
        let seaweedfs = shared_seaweedfs().unwrap();
        let front = Front::before(direct.get("uri").unwrap());
        let store = Front::before(&seaweedfs.s3_endpoint());
        let mut settings: BTreeMap<_, _> = direct.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        drop(settings.insert("uri".to_owned(), front.uri()));
        // A reader's own patience is not what is tried here.
        drop(settings.insert("rest.client.max-retries".to_owned(), "1".to_owned()));
        let journal = format!("{}/bad-{number}", seaweedfs.journal_root());
        let table = format!("bad_{number}.flights");
        Self { folder: tempfile::tempdir().unwrap(), front, store, service, table, settings, journal }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes calve.toml with these changes; an empty value removes a setting.
    pub fn write_settings(&self, changes: &[(&str, &str)]) {
        let mut settings = self.settings.clone();
        for (name, value) in changes {
            match value.is_empty() {
                true => drop(settings.remove(*name)),
                false => drop(settings.insert((*name).to_owned(), (*value).to_owned())),
            }
        }
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text =
            format!("[journal]\nuri = {}\n\"s3.endpoint\" = {}\n", quoted(&self.journal), quoted(&self.store.uri()));
        text.push_str("\n[catalog.prod]\n");
        for (name, value) in &settings {
            writeln!(text, "{} = {}", quoted(name), quoted(value)).unwrap();
        }
        std::fs::write(self.path().join("calve.toml"), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(integration::command::binary().unwrap());
        for (name, _) in std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            ["CALVE_", "PYICEBERG_", "AWS_"].iter().any(|prefix| name.starts_with(prefix))
        }) {
            command.env_remove(name);
        }
        command.env("CALVE_OWNER", "test@integration").env("HOME", self.path()).current_dir(self.path());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or_else(|| panic!("{args:?}: no exit code: {output:?}"));
        Ran { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Runs a line that stops at a step, does something there, and lets it go on to its end.
    pub fn paused(&self, args: &[&str], step: &str, there: impl FnOnce()) -> Ran {
        use std::io::{BufRead as _, BufReader, Read as _, Write as _};
        struct Running(Child);
        impl Drop for Running {
            fn drop(&mut self) {
                drop(self.0.kill());
                drop(self.0.wait());
            }
        }
        let mut command = self.command(args);
        command.env("CALVE_TEST_PAUSE_AT", step).stdin(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut said = BufReader::new(running.0.stderr.take().unwrap());
        let mut err = String::new();
        while !err.ends_with(&format!("paused at {step}\n")) {
            assert_ne!(said.read_line(&mut err).unwrap(), 0, "{args:?} went past {step}: {err}");
        }
        there();
        running.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let rest = std::thread::spawn(move || said.read_to_string(&mut err).map(|_| err));
        let mut out = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let err = rest.join().unwrap().unwrap();
        Ran { code: running.0.wait().unwrap().code().unwrap(), out, err }
    }

    /// Opens a candidate for a day, writes its file, and validates it.
    pub fn sealed(&self, id: &str, day: &str) {
        let (table, scope) = (self.table.as_str(), format!("flight_date = '{day}'"));
        let file = flights(&format!("flights-{day}.parquet")).display().to_string();
        self.run(&["begin", table, id, "--scope", &scope]).ends(0);
        self.run(&["stage", table, id, &file, "--replace"]).ends(0);
        self.run(&["validate", table, id]).ends(0);
    }

    pub fn publish(&self, id: &str) -> Ran {
        self.run(&["publish", &self.table, id, "--json"])
    }

    /// The table as the catalog itself has it, past the front.
    pub fn refs(&self) -> BTreeMap<String, Value> {
        let metadata = serde_json::to_value(&*self.load()).unwrap();
        metadata["refs"].as_object().cloned().unwrap_or_default().into_iter().collect()
    }

    /// The whole metadata, past the front.
    pub fn metadata(&self) -> String {
        serde_json::to_string(&*self.load()).unwrap()
    }

    fn load(&self) -> std::sync::Arc<iceberg::spec::TableMetadata> {
        let direct: Properties = self.service.properties().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let catalog = RestCatalog::connect(&direct, std::sync::Arc::new(SystemClock)).await.unwrap();
            catalog.load(&self.table.parse().unwrap()).await.unwrap().metadata
        })
    }

    /// Is it visible, exactly once, with its receipt?
    pub fn is_published(&self, id: &str) -> bool {
        let refs = self.refs();
        let receipt = refs.get(&format!("published/{id}")).map(|found| &found["snapshot-id"]);
        receipt.is_some() && receipt == refs.get("main").map(|found| &found["snapshot-id"])
    }

    /// The line ends with this code and these words, as text and as JSON, and the table is as it was.
    #[track_caller]
    pub fn refused(&self, line: &[&str], code: i32, words: &[&str]) -> [Ran; 2] {
        let before = self.refs();
        let text = self.run(line).ends(code);
        assert!(text.out.is_empty() && text.err.contains("error: "), "{text:?}");
        let json = self.run(&[&["--json"], line].concat()).ends(code);
        let object = json.json();
        assert_eq!(object["error"]["code"], code, "{object}");
        let message = object["error"]["message"].as_str().unwrap();
        for word in words {
            assert!(text.err.contains(word) && message.contains(word), "{word:?} is missing in {text:?} or {message}");
        }
        assert_eq!(self.refs(), before, "{line:?}");
        [text, json]
    }
}
