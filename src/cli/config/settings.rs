//! What a command works with, put together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalogs::{Configured, choose, is_secret};
use super::environment::Environment;
use super::file::File;
use super::journal::{JournalPlace, storage_of};
use super::owner::user_at_host;
use crate::catalog::embedded::{CATALOG_FILE, CATALOG_NAME, EmbeddedCatalog};
use crate::catalog::properties::Properties;
use crate::catalog::rest::RestCatalog;
use crate::catalog::{Catalog, CatalogError};
use crate::cli::args::Global;
use crate::cli::exit::Failure;
use crate::clock::SystemClock;
use crate::coordinator::{Coordinator, DEFAULT_MEMORY};
use crate::ids::Owner;

/// May the warehouse be made if there is none?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Missing {
    /// It is made.
    Create,
    /// It is an error.
    Refuse,
}

/// Which catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Place {
    /// The embedded catalog of a folder.
    Embedded(PathBuf),
    /// A catalog over REST.
    Rest(Configured),
}

/// What a command works with. The catalog is chosen only when it is asked for, so that a mistake in a file that has no
/// part in the command stops nothing.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Settings {
    /// Given on the command line or by the environment.
    warehouse: Option<PathBuf>,
    catalog: Option<String>,
    journal: Option<PathBuf>,
    file: File,
    environment: Environment,
    /// Who owns what is begun.
    pub(in crate::cli) owner: Owner,
    /// Bytes that checks may take.
    pub(in crate::cli) memory: u64,
    /// No word on standard error but errors.
    quiet: bool,
}

impl Settings {
    /// The settings in force: options (which clap fills from the environment) before `calve.toml`.
    pub(in crate::cli) fn find(global: &Global, environment: Environment) -> Result<Self, Failure> {
        let file = File::search(&environment.folder)?;
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let named = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let owner = named(&global.owner).or(file.owner.clone()).unwrap_or_else(user_at_host);
        if owner.chars().any(char::is_control) {
            return Err(Failure::usage(format!("owner {owner:?} has a control character: give another with --owner")));
        }
        Ok(Self {
            warehouse: given(&global.warehouse),
            catalog: named(&global.catalog),
            journal: given(&global.journal),
            file,
            environment,
            owner: Owner(owner),
            memory: global.memory.unwrap_or(DEFAULT_MEMORY),
            quiet: global.quiet,
        })
    }

    /// Which catalog.
    pub(in crate::cli) fn place(&self) -> Result<Place, Failure> {
        let by_catalog = self.source(self.catalog.as_deref(), "--catalog", "CALVE_CATALOG");
        match (&self.warehouse, &self.catalog) {
            (Some(warehouse), Some(name)) => {
                let by_warehouse = self.source(warehouse.to_str(), "--warehouse", "CALVE_WAREHOUSE");
                Err(Failure::usage(format!(
                    "two catalogs are named: the warehouse {} by {by_warehouse}, and {name} by {by_catalog}: \
                     leave one of them out",
                    warehouse.display()
                )))
            }
            (Some(warehouse), None) => Ok(Place::Embedded(warehouse.clone())),
            (None, Some(name)) => {
                let chosen = choose(Some((name, by_catalog)), &self.file, &self.environment)?;
                chosen.map(Place::Rest).ok_or_else(no_catalog)
            }
            (None, None) => match (&self.file.warehouse, &self.file.default) {
                (Some(_), Some(_)) => Err(Failure::usage(format!(
                    "{}: both `warehouse` and `default` are set: remove one of them, or say --catalog or --warehouse",
                    self.file.path.as_deref().unwrap_or(Path::new("")).display()
                ))),
                (Some(warehouse), None) => Ok(Place::Embedded(warehouse.clone())),
                (None, _) => choose(None, &self.file, &self.environment)?.map(Place::Rest).ok_or_else(no_catalog),
            },
        }
    }

    /// Which of the two an option's value came from.
    fn source(&self, value: Option<&str>, option: &'static str, variable: &'static str) -> &'static str {
        if value.is_some() && self.environment.variable(variable) == value { variable } else { option }
    }

    /// Where the journal for a catalog is.
    pub(in crate::cli) fn journal(&self, place: &Place) -> Result<JournalPlace, Failure> {
        let storage = || {
            let catalog = match place {
                Place::Embedded(_) => Properties::default(),
                Place::Rest(catalog) => storage_of(&catalog.properties),
            };
            catalog.overridden_by(&self.file.journal_properties).overridden_by(&self.environment.journal_properties())
        };
        match (&self.journal, &self.file.journal, place) {
            (Some(given), _, _) => Ok(JournalPlace::named(given, Path::new(""), storage)),
            (None, Some(text), _) => {
                Ok(JournalPlace::named(Path::new(text), self.file.folder().unwrap_or(Path::new("")), storage))
            }
            (None, None, Place::Embedded(warehouse)) => Ok(JournalPlace::Warehouse(warehouse.join("journal"))),
            (None, None, Place::Rest(_)) => JournalPlace::state(&self.environment),
        }
    }

    /// Refuses a catalog that others use too where no journal is configured: a job that is started again on another
    /// machine would not know what the first one had sent.
    ///
    /// # Errors
    /// Exit 2, saying how to configure one.
    pub(in crate::cli) fn require_journal(&self) -> Result<(), Failure> {
        let place = self.place()?;
        match (self.journal(&place)?, &place) {
            (JournalPlace::State(_), Place::Rest(catalog)) => Err(Failure::usage(format!(
                "no journal is configured for the catalog {}: a job that another machine starts again has to know what \
                 this one sent\n\
                 Say journal = \"s3://BUCKET/PATH\" in calve.toml, or CALVE_JOURNAL, or --journal; a folder will do \
                 where all machines see it",
                catalog.name
            ))),
            (
                JournalPlace::Named(_)
                | JournalPlace::Warehouse(_)
                | JournalPlace::State(_)
                | JournalPlace::Store { .. },
                Place::Embedded(_) | Place::Rest(_),
            ) => Ok(()),
        }
    }

    /// What a job is told of catalog and journal, so that it, and calve commands within it, work with the same. No secret is
    /// in it: credentials reach a job the way its engine takes them.
    ///
    /// # Errors
    /// Exit 1 where the working directory is gone.
    pub(in crate::cli) fn job_environment(&self) -> Result<BTreeMap<&'static str, OsString>, Failure> {
        let whole = |path: &Path| {
            std::path::absolute(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
        };
        let place = self.place()?;
        let mut values = BTreeMap::new();
        match &place {
            Place::Embedded(warehouse) => {
                let warehouse = whole(warehouse)?;
                let uri = format!("sqlite:///{}", warehouse.join(CATALOG_FILE).display());
                values.insert("CALVE_CATALOG_NAME", CATALOG_NAME.into());
                values.insert("CALVE_CATALOG_URI", uri.into());
                values.insert("CALVE_WAREHOUSE", warehouse.into());
            }
            Place::Rest(catalog) => {
                let uri = catalog.properties.get("uri").map(without_secrets).unwrap_or_default();
                values.insert("CALVE_CATALOG_NAME", catalog.name.clone().into());
                values.insert("CALVE_CATALOG_URI", uri.into());
                values.insert("CALVE_CATALOG", catalog.name.clone().into());
            }
        }
        match self.journal(&place)? {
            JournalPlace::Named(path) | JournalPlace::State(path) => {
                values.insert("CALVE_JOURNAL", whole(&path)?.into());
            }
            JournalPlace::Store { uri, .. } => {
                values.insert("CALVE_JOURNAL", uri.into());
            }
            JournalPlace::Warehouse(_) => {}
        }
        Ok(values)
    }

    /// The folders, besides the working directory, in which `contracts/` is looked for.
    pub(in crate::cli) fn contract_folders(&self) -> Vec<PathBuf> {
        let warehouse = match self.place() {
            Ok(Place::Embedded(warehouse)) => Some(warehouse),
            Ok(Place::Rest(_)) | Err(_) => None,
        };
        warehouse.into_iter().chain(self.file.folder().map(Path::to_owned)).collect()
    }

    /// The coordinator over the catalog and its journal.
    pub(in crate::cli) async fn coordinator(&self, missing: Missing) -> Result<Coordinator, Failure> {
        let (coordinator, problem) = self.connected(missing).await?;
        problem.map_or(Ok(coordinator), |problem| Err(problem.into()))
    }

    /// The same, also where the catalog cannot be connected to: the journal may know of a request to it whose outcome
    /// nobody saw. Then every use of the catalog brings the error that connecting met.
    pub(in crate::cli) async fn coordinator_or_journal(&self) -> Result<Coordinator, Failure> {
        Ok(self.connected(Missing::Refuse).await?.0)
    }

    /// The coordinator, and why its catalog could not be connected to, if it could not.
    async fn connected(&self, missing: Missing) -> Result<(Coordinator, Option<CatalogError>), Failure> {
        let place = self.place()?;
        let journal = self.journal(&place)?;
        self.say_what_is_risky(&place, &journal);
        let catalog: Arc<dyn Catalog> = match &place {
            Place::Embedded(warehouse) => Arc::new(embedded(warehouse, missing).await?),
            Place::Rest(configured) => {
                let properties = &configured.connection();
                match RestCatalog::connect(properties, Arc::new(SystemClock)).await {
                    Ok(catalog) => Arc::new(catalog),
                    Err(error @ (CatalogError::Unavailable { .. } | CatalogError::Forbidden { .. })) => {
                        let catalog = RestCatalog::unreached(properties, error)?;
                        let problem = catalog.error();
                        // Where the journal cannot be read either, the catalog's trouble is the one to tell.
                        return match self.over(Arc::new(catalog), &journal).await {
                            Ok(coordinator) => Ok((coordinator, Some(problem))),
                            Err(_) => Err(problem.into()),
                        };
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok((self.over(catalog, &journal).await?, None))
    }

    /// The coordinator over a catalog, with the journal of a place.
    pub(in crate::cli) async fn over(
        &self,
        catalog: Arc<dyn Catalog>,
        journal: &JournalPlace,
    ) -> Result<Coordinator, Failure> {
        let journal = journal.open().await?;
        let coordinator = Coordinator::new(catalog, journal, Arc::new(SystemClock), self.owner.clone());
        #[cfg(feature = "testing")]
        let coordinator = match crate::cli::pause::PauseAt::from_environment() {
            Some(step) => coordinator.with_steps(Arc::new(step)),
            None => coordinator,
        };
        Ok(coordinator.with_memory_limit(self.memory))
    }

    fn say_what_is_risky(&self, place: &Place, journal: &JournalPlace) {
        if self.quiet {
            return;
        }
        for note in self.notes(place, journal) {
            // Where nothing can be written, the command does its work all the same.
            writeln!(std::io::stderr().lock(), "note: {note}").ok();
        }
    }

    /// What is risky in these settings, as sentences.
    fn notes(&self, place: &Place, journal: &JournalPlace) -> Vec<String> {
        let mut notes = Vec::new();
        if let JournalPlace::State(path) = journal {
            notes.push(format!(
                "no journal is configured: it is kept in {}, which other machines cannot see; \
                 say journal = \"s3://BUCKET/PATH\" in calve.toml to share it",
                path.display()
            ));
        }
        if let (Place::Rest(_), Some(path)) = (place, &self.file.path) {
            let secret = |properties: &Properties| properties.iter().any(|(name, _)| is_secret(name));
            let catalogs = self.file.catalogs.values().map(|(_, properties)| properties);
            let holds = catalogs.chain([&self.file.journal_properties]).any(secret);
            let mode = std::fs::metadata(path).map(|file| file.permissions().mode()).unwrap_or(0);
            if holds && mode & 0o044 != 0 {
                let shown = path.display();
                notes.push(format!("{shown} holds a secret, and others may read it: chmod 600 {shown}"));
            }
        }
        notes
    }
}

/// Opens the embedded catalog of a folder.
pub(in crate::cli) async fn embedded(warehouse: &Path, missing: Missing) -> Result<EmbeddedCatalog, Failure> {
    if warehouse.is_file() {
        let shown = warehouse.display();
        return Err(Failure::usage(format!("warehouse {shown} is a file: name a folder with --warehouse DIR")));
    }
    Ok(EmbeddedCatalog::open(warehouse, missing == Missing::Create, Arc::new(SystemClock)).await?)
}

/// A URI without user, password, query and fragment.
fn without_secrets(uri: &str) -> String {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    match uri.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            let path = path.map_or_else(String::new, |path| format!("/{path}"));
            format!("{scheme}://{host}{path}")
        }
        None => String::new(),
    }
}

fn no_catalog() -> Failure {
    Failure::usage(
        "no catalog is named. Name the folder of a warehouse in one of three ways:\n  \
           --warehouse DIR on the command line\n  \
           CALVE_WAREHOUSE=DIR in the environment\n  \
           warehouse = \"DIR\" in calve.toml, here or in a folder above\n\
         or a catalog over REST, in calve.toml:\n  \
           [catalog.NAME]\n  \
           uri = \"https://…\"\n\
         `calve create TABLE --like FILE --warehouse DIR` makes a warehouse; `calve demo` makes one with data in it.",
    )
}

#[cfg(test)]
mod tests {
    use super::super::file::FILE;
    use super::*;

    fn find(global: &Global, folder: &Path, variables: &[(&str, &str)]) -> Settings {
        Settings::find(global, Environment::of(folder, variables)).unwrap()
    }

    fn with_catalog(name: &str) -> Global {
        Global { catalog: Some(name.to_owned()), ..Global::default() }
    }

    #[test]
    fn options_come_before_the_file_and_near_files_before_far_ones() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(dir.path().join(FILE), "warehouse = \"far\"\nowner = \"far\"").unwrap();
        let found = find(&Global::default(), &inner, &[]);
        assert_eq!(found.place().unwrap(), Place::Embedded(dir.path().join("far")));
        assert_eq!(found.owner, Owner("far".to_owned()));
        assert_eq!(found.memory, 1 << 30);

        std::fs::write(dir.path().join("a").join(FILE), "warehouse = \"near\"").unwrap();
        let found = find(&Global::default(), &inner, &[]);
        let near = Place::Embedded(dir.path().join("a/near"));
        assert_eq!(found.place().unwrap(), near, "one file is read, the nearest");
        assert_eq!(found.contract_folders(), [dir.path().join("a/near"), dir.path().join("a")]);
        assert_ne!(found.owner, Owner("far".to_owned()));

        let global = Global {
            warehouse: Some(PathBuf::from("given")),
            owner: Some("me".to_owned()),
            memory: Some(1 << 25),
            ..Global::default()
        };
        let found = find(&global, &inner, &[]);
        assert_eq!(found.place().unwrap(), Place::Embedded(PathBuf::from("given")));
        assert_eq!((found.owner, found.memory), (Owner("me".to_owned()), 1 << 25));

        let empty = Global { warehouse: Some(PathBuf::new()), owner: Some(" ".to_owned()), ..with_catalog("") };
        let found = find(&empty, &inner, &[]);
        assert_eq!(found.place().unwrap(), near, "an empty variable is none");
        assert!(found.owner.0.contains('@'), "{}", found.owner);
    }

    const BOTH: &str =
        "warehouse = \"lake\"\n[catalog.prod]\nuri = \"http://h\"\n\"s3.endpoint\" = \"e\"\ntoken = \"t\"\n";

    #[test]
    fn a_warehouse_or_a_catalog_but_not_both() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), BOTH).unwrap();
        let found = |global: &Global, variables: &[(&str, &str)]| find(global, dir.path(), variables).place();
        assert_eq!(found(&Global::default(), &[]).unwrap(), Place::Embedded(dir.path().join("lake")));
        let Place::Rest(catalog) = found(&with_catalog("prod"), &[]).unwrap() else { panic!() };
        assert_eq!((catalog.name.as_str(), catalog.properties.get("uri")), ("prod", Some("http://h")));

        let two = Global { warehouse: Some(PathBuf::from("w")), ..with_catalog("prod") };
        let failure = found(&two, &[("CALVE_WAREHOUSE", "w")]).unwrap_err();
        assert_eq!(failure.code, 2);
        for word in ["the warehouse w by CALVE_WAREHOUSE", "prod by --catalog", "leave one"] {
            assert!(failure.message.contains(word), "{word}: {failure}");
        }
        std::fs::write(dir.path().join(FILE), format!("default = \"prod\"\n{BOTH}")).unwrap();
        let failure = found(&Global::default(), &[]).unwrap_err();
        assert!(failure.message.contains("both `warehouse` and `default`"), "{failure}");
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        let failure = found(&Global::default(), &[]).unwrap_err();
        assert!(failure.message.contains("[catalog.NAME]") && failure.message.contains("--warehouse"), "{failure}");
    }

    #[test]
    fn a_broken_file_of_pyiceberg_stops_only_what_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".pyiceberg.yaml"), "catalog: [").unwrap();
        let embedded = Global { warehouse: Some(PathBuf::from("w")), ..Global::default() };
        assert!(find(&embedded, dir.path(), &[]).place().is_ok());
        assert_eq!(find(&Global::default(), dir.path(), &[]).place().unwrap_err().code, 2);
    }

    #[test]
    fn the_journal_has_the_storage_of_the_catalog_unless_it_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{BOTH}[journal]\nuri = \"s3://ops/calve\"\n\"s3.region\" = \"eu\"\n");
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let variables = [("CALVE_JOURNAL__S3__SECRET_ACCESS_KEY", "x"), ("HOME", "/h")];
        let settings = find(&with_catalog("prod"), dir.path(), &variables);
        let JournalPlace::Store { uri, properties } = settings.journal(&settings.place().unwrap()).unwrap() else {
            panic!()
        };
        assert_eq!(uri, "s3://ops/calve");
        let expected = [("s3.endpoint", "e"), ("s3.region", "eu"), ("s3.secret-access-key", "x")];
        assert_eq!(properties.iter().collect::<Vec<_>>(), expected);
        assert!(settings.require_journal().is_ok());

        std::fs::write(dir.path().join(FILE), BOTH).unwrap();
        let settings = find(&with_catalog("prod"), dir.path(), &variables);
        let place = settings.place().unwrap();
        let journal = settings.journal(&place).unwrap();
        assert_eq!(journal, JournalPlace::State(PathBuf::from("/h/.local/state/calve/journal")));
        assert!(settings.notes(&place, &journal)[0].contains("other machines cannot see"));
        let failure = settings.require_journal().unwrap_err();
        assert!(failure.code == 2 && failure.message.contains("no journal is configured for the catalog prod"));

        let given = Global { journal: Some(PathBuf::from("j")), ..with_catalog("prod") };
        let settings = find(&given, dir.path(), &variables);
        assert_eq!(settings.journal(&place).unwrap(), JournalPlace::Named(PathBuf::from("j")));
        assert!(settings.require_journal().is_ok());
        let embedded = Global { warehouse: Some(PathBuf::from("w")), ..Global::default() };
        let settings = find(&embedded, dir.path(), &variables);
        let journal = settings.journal(&settings.place().unwrap()).unwrap();
        assert_eq!(journal, JournalPlace::Warehouse(PathBuf::from("w/journal")));
        assert!(settings.require_journal().is_ok());
    }

    #[test]
    fn a_job_is_told_of_catalog_and_journal_and_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let text = "journal = \"s3://ops/calve\"\n[catalog.Prod]\nuri = \"https://me:hunter2@h:8/i?k=hunter2\"\ntoken = \"hunter2\"\n";
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let told = find(&with_catalog("prod"), dir.path(), &[]).job_environment().unwrap();
        let told: Vec<_> = told.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
        let expected = [
            ("CALVE_CATALOG", "Prod"),
            ("CALVE_CATALOG_NAME", "Prod"),
            ("CALVE_CATALOG_URI", "https://h:8/i"),
            ("CALVE_JOURNAL", "s3://ops/calve"),
        ];
        assert_eq!(told, expected);
        let embedded = Global { warehouse: Some(PathBuf::from("/w")), ..Global::default() };
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        let told = find(&embedded, dir.path(), &[]).job_environment().unwrap();
        assert_eq!(
            told.keys().copied().collect::<Vec<_>>(),
            ["CALVE_CATALOG_NAME", "CALVE_CATALOG_URI", "CALVE_WAREHOUSE"]
        );
        assert_eq!(told["CALVE_CATALOG_URI"], "sqlite:////w/catalog.db");
    }

    #[test]
    fn a_readable_file_with_a_secret_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        std::fs::write(&file, BOTH).unwrap();
        let notes = |mode: u32| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let settings = find(&with_catalog("prod"), dir.path(), &[]);
            let place = settings.place().unwrap();
            settings.notes(&place, &JournalPlace::Named(PathBuf::from("j")))
        };
        assert!(notes(0o600).is_empty());
        let [note] = &notes(0o640)[..] else { panic!() };
        assert!(note.contains("chmod 600"), "{note}");
        std::fs::write(&file, "[catalog.prod]\nuri = \"http://h\"\n").unwrap();
        assert!(notes(0o644).is_empty(), "no secret in it");
    }
}
