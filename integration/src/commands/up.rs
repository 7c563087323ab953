//! Starts the services for a person, says how to use them, and stops them on Ctrl-C.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use calve::catalog::properties::Properties;
use integration::lake::{calve_toml, pyiceberg_yaml};
use integration::readers::{as_json, create};
use integration::services::spark::Settings;
use integration::services::supervised::write_private;
use integration::services::{ReferenceCatalog, SeaweedFs, Storage, Trino, trino};
use integration::{HarnessError, Result, command, flights, python, source_root};
use tokio::signal::unix::{SignalKind, signal};

/// Start an object store and a REST catalog, and say how to use them. Ctrl-C stops them and deletes their data.
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Start Iceberg's reference catalog as well, on the same store
    #[arg(long)]
    reference: bool,
    /// Install Spark and write its settings
    #[arg(long)]
    spark: bool,
    /// Start Trino as well; needs a JDK 24 or later
    #[arg(long)]
    trino: bool,
    /// Do not make the table demo.flights with eight days of flights
    #[arg(long)]
    empty: bool,
    /// Where to write calve.toml and the engines' settings; a temporary folder if not given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const TABLE: &str = "demo.flights";
const DAY: &str = "flight_date";

/// Runs the command.
pub fn run(args: &UpArgs) -> Result<ExitCode> {
    // Before anything is started, so that no signal comes too early: it is kept until it is asked for.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| HarnessError::io("the runtime", &error))?;
    let (mut interrupt, mut terminate) = runtime
        .block_on(async { Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)) })
        .map_err(|error: std::io::Error| HarnessError::io("signals", &error))?;

    let temporary = tempfile::Builder::new()
        .prefix("calve-up-")
        .tempdir()
        .map_err(|error| HarnessError::io("a temporary folder", &error))?;
    let folder = args.dir.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
    let folder = std::fs::canonicalize(folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
    if args.dir.is_some() && folder.join("calve.toml").exists() {
        let shown = folder.display();
        return Err(HarnessError(format!("{shown} has a calve.toml already: name another folder with --dir")));
    }

    let bed = Bed::start(args)?;
    let text = bed.describe(args, &folder)?;
    say(&format!("{text}\nready; Ctrl-C stops all of it and deletes the data"))?;
    runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    drop(bed);
    Ok(ExitCode::SUCCESS)
}

/// Says something at once, which fails when nobody listens any more.
fn say(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}").and_then(|()| output.flush()).map_err(|error| HarnessError::io("output", &error))
}

/// What runs. Fields are dropped in this order: readers first, the store last.
struct Bed {
    trino: Option<Trino>,
    reference: Option<ReferenceCatalog>,
    seaweedfs: SeaweedFs,
}

impl Bed {
    fn start(args: &UpArgs) -> Result<Self> {
        let seaweedfs = SeaweedFs::start()?;
        say(&format!("SeaweedFS           process {:<8} {}", seaweedfs.id(), seaweedfs.uri()))?;
        let reference = args.reference.then(|| ReferenceCatalog::start(Storage::S3(&seaweedfs))).transpose()?;
        if let Some(reference) = &reference {
            say(&format!("reference catalog   process {:<8} {}", reference.id(), reference.uri()))?;
        }
        let mut bed = Self { trino: None, reference, seaweedfs };
        if !args.empty {
            for (_, properties) in bed.catalogs() {
                create(&properties, TABLE, &flights("flights-2013-08-01..08.parquet"), DAY, 2)?;
            }
        }
        if args.trino {
            let catalogs = bed.catalogs();
            let named: Vec<_> = catalogs.iter().map(|(name, properties)| (*name, properties)).collect();
            let trino = Trino::start(&named)?;
            say(&format!("Trino               process {:<8} {}", trino.id(), trino.uri()))?;
            bed.trino = Some(trino);
        }
        Ok(bed)
    }

    fn catalogs(&self) -> Vec<(&'static str, Properties)> {
        let reference = self.reference.as_ref().map(|reference| ("reference", reference.properties()));
        [("lake", self.seaweedfs.properties())].into_iter().chain(reference).collect()
    }

    /// Writes the settings of calve and the engines, and says how to use them.
    fn describe(&self, args: &UpArgs, folder: &Path) -> Result<String> {
        let catalogs = self.catalogs();
        let journal = self.seaweedfs.journal_root();
        write_private(&folder.join("calve.toml"), &calve_toml(&journal, &catalogs))?;
        write_private(&folder.join(".pyiceberg.yaml"), &pyiceberg_yaml(&catalogs))?;
        for (name, properties) in &catalogs {
            write_private(&folder.join(format!("{name}.json")), &as_json(properties))?;
        }
        let contracts = folder.join("contracts");
        let contract = contracts.join(format!("{TABLE}.toml"));
        std::fs::create_dir_all(&contracts)
            .and_then(|()| std::fs::copy(flights("flights.contract.toml"), &contract))
            .map_err(|error| HarnessError::io(contract.display(), &error))?;
        let calve = command::binary()?;
        let python = python::venv()?;
        let scripts = source_root().join("integration/scripts");
        let day = flights("flights-2013-08-09.parquet");
        let (calve, python, shown) = (word(&calve), word(&python), word(folder));
        let mut lines = vec![
            String::new(),
            format!("cd {shown}   # calve.toml and the engines' settings are there"),
            String::new(),
            "# a change to a day, from its branch to main".to_owned(),
            format!("alias calve={calve}"),
            format!("calve begin {TABLE} day-09 --scope \"{DAY} = '2013-08-09'\""),
            format!(
                "calve stage {TABLE} day-09 {} --append   # or any engine, on the branch audit/day-09",
                day.display()
            ),
            format!("calve validate {TABLE} day-09 && calve publish {TABLE} day-09"),
            String::new(),
            "# PyIceberg".to_owned(),
            format!(
                "PYICEBERG_HOME={shown} {python} -c \"from pyiceberg.catalog import load_catalog as c; \
                 print(c('lake').load_table('{TABLE}').scan().to_arrow().num_rows)\""
            ),
            String::new(),
            "# DuckDB: then db.sql(\"SELECT count(*) FROM lake.demo.flights\")".to_owned(),
            format!("{python} -i {} {shown}/lake.json", word(&scripts.join("duckdb_lake.py"))),
        ];
        if args.spark {
            let conf = folder.join("spark");
            std::fs::create_dir_all(&conf).map_err(|error| HarnessError::io(conf.display(), &error))?;
            let named: Vec<_> = catalogs.iter().map(|(name, properties)| (*name, properties)).collect();
            let settings = Settings::write(&conf, &named)?;
            lines.extend([String::new(), "# Spark".to_owned()]);
            lines.extend(settings.environment().iter().map(|(name, value)| format!("export {name}={}", word(value))));
            let sql = settings.submit_path().with_file_name("spark-sql");
            lines.push(format!("{} -e 'SELECT count(*) FROM lake.{TABLE}'", word(&sql)));
            lines.push(format!("{} JOB.py", word(&settings.submit_path())));
        }
        if let Some(trino) = &self.trino {
            lines.extend([String::new(), "# Trino".to_owned()]);
            let (java, jar) = trino::prompt()?;
            lines.push(format!(
                "{} -jar {} --server {} --execute 'SELECT count(*) FROM lake.{TABLE}'",
                word(&java),
                word(&jar),
                trino.uri()
            ));
        }
        Ok(lines.join("\n"))
    }
}

/// A word of a shell's line.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |found: char| found.is_ascii_alphanumeric() || "/._-+=".contains(found);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
