//! Where the warehouse, the journal and the owner come from: the command line, the environment, `calve.toml`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};

use super::args::Global;
use super::exit::Failure;
use crate::catalog::Catalog;
use crate::catalog::embedded::EmbeddedCatalog;
use crate::clock::SystemClock;
use crate::coordinator::{Coordinator, DEFAULT_MEMORY};
use crate::ids::Owner;
use crate::journal::local::LocalJournal;

/// The file of settings, searched from the working directory upward.
const FILE: &str = "calve.toml";

/// May the warehouse be made if there is none?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is made.
    Create,
    /// It is an error.
    Refuse,
}

/// What a command works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// The folder of the warehouse, if one is named anywhere.
    pub(super) warehouse: Option<PathBuf>,
    /// The folder of the journal, if it is not the warehouse's.
    pub(super) journal: Option<PathBuf>,
    /// Who owns what is begun.
    pub(super) owner: Owner,
    /// Bytes that checks may take.
    pub(super) memory: u64,
}

impl Settings {
    /// The settings in force in a folder: options (which clap fills from the environment) before `calve.toml`.
    pub(super) fn find(global: &Global, folder: &Path) -> Result<Self, Failure> {
        let file = File::search(folder)?;
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let owner = global.owner.clone().filter(|owner| !owner.trim().is_empty()).or(file.owner);
        let owner = owner.unwrap_or_else(user_at_host);
        if owner.chars().any(char::is_control) {
            return Err(Failure::usage(format!("owner {owner:?} has a control character: give another with --owner")));
        }
        Ok(Self {
            warehouse: given(&global.warehouse).or(file.warehouse),
            journal: given(&global.journal).or(file.journal),
            owner: Owner(owner),
            memory: global.memory.unwrap_or(DEFAULT_MEMORY),
        })
    }

    /// The coordinator over the warehouse's catalog and journal.
    pub(super) async fn coordinator(&self, missing: Missing) -> Result<Coordinator, Failure> {
        let warehouse = self.warehouse.as_deref().ok_or_else(no_warehouse)?;
        let catalog = embedded(warehouse, missing).await?;
        self.over(Arc::new(catalog), warehouse)
    }

    /// The coordinator over a catalog that stands for the warehouse's.
    pub(super) fn over(&self, catalog: Arc<dyn Catalog>, warehouse: &Path) -> Result<Coordinator, Failure> {
        let journal = self.journal.clone().unwrap_or_else(|| warehouse.join("journal"));
        let journal = Arc::new(LocalJournal::open(journal)?);
        let coordinator = Coordinator::new(catalog, journal, Arc::new(SystemClock), self.owner.clone());
        #[cfg(feature = "testing")]
        let coordinator = match super::pause::PauseAt::from_environment() {
            Some(step) => coordinator.with_steps(Arc::new(step)),
            None => coordinator,
        };
        Ok(coordinator.with_memory_limit(self.memory))
    }
}

/// Opens the embedded catalog of a folder.
pub(super) async fn embedded(warehouse: &Path, missing: Missing) -> Result<EmbeddedCatalog, Failure> {
    if warehouse.is_file() {
        let shown = warehouse.display();
        return Err(Failure::usage(format!("warehouse {shown} is a file: name a folder with --warehouse DIR")));
    }
    Ok(EmbeddedCatalog::open(warehouse, missing == Missing::Create, Arc::new(SystemClock)).await?)
}

fn no_warehouse() -> Failure {
    Failure::usage(
        "no warehouse is named. Name its folder in one of three ways:\n  \
           --warehouse DIR on the command line\n  \
           CALVE_WAREHOUSE=DIR in the environment\n  \
           warehouse = \"DIR\" in calve.toml, here or in a folder above\n\
         `calve create TABLE --like FILE --warehouse DIR` makes one; `calve demo` makes one with data in it.",
    )
}

/// What `calve.toml` says; all of it optional.
#[derive(Debug, Default, PartialEq, Eq)]
struct File {
    warehouse: Option<PathBuf>,
    journal: Option<PathBuf>,
    owner: Option<String>,
}

impl File {
    fn search(folder: &Path) -> Result<Self, Failure> {
        for folder in folder.ancestors() {
            let path = folder.join(FILE);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path, folder),
                // Something of that name which is no file, e.g. a folder, is not ours.
                Err(error) if [ErrorKind::NotFound, ErrorKind::IsADirectory].contains(&error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(Failure::usage(format!("{}: it is not UTF-8 text", path.display())));
                }
                Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
            }
        }
        Ok(Self::default())
    }

    /// Paths in the file are relative to its folder.
    fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let wrong = |key: &str, what: &str| Failure::usage(format!("{shown}: `{key}`: {what}"));
        let table: Table = text.parse().map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
        let mut file = Self::default();
        for (key, value) in table {
            let text = match &value {
                Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            };
            let text = || text.ok_or_else(|| wrong(&key, "text in quotes was expected"));
            match key.as_str() {
                "warehouse" => file.warehouse = Some(folder.join(text()?)),
                "journal" => file.journal = Some(folder.join(text()?)),
                "owner" => file.owner = Some(text()?),
                "catalog" => {
                    return Err(wrong(
                        "catalog",
                        "this version serves the embedded catalog only, not catalogs over REST; \
                         remove the section and say warehouse = \"DIR\"",
                    ));
                }
                _ => return Err(wrong(&key, "unknown key; known are warehouse, journal and owner")),
            }
        }
        Ok(file)
    }
}

/// `user@host`, as far as the system says.
fn user_at_host() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| named(variable(name)));
    let host = named(variable("HOSTNAME"))
        .or_else(|| named(std::fs::read_to_string("/proc/sys/kernel/hostname").ok()))
        .or_else(|| named(std::fs::read_to_string("/etc/hostname").ok()))
        .or_else(|| named(variable("COMPUTERNAME")));
    let user = user.or_else(user_number).unwrap_or_else(|| "someone".to_owned());
    format!("{user}@{}", host.unwrap_or_else(|| "localhost".to_owned()))
}

/// The text if it is usable as a name.
fn named(text: Option<String>) -> Option<String> {
    let text = text?.trim().to_owned();
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// Schedulers often start jobs without a user's name; the number tells two users apart all the same.
fn user_number() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").ok().map(|process| format!("uid-{}", process.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, Failure> {
        File::parse(text, Path::new("/a/calve.toml"), Path::new("/a"))
    }

    #[test]
    fn the_file_is_read_strictly() {
        let file = parse("warehouse = \"lake\"\njournal = \"/j\"\nowner = \"ci\"").unwrap();
        assert_eq!(file.warehouse, Some(PathBuf::from("/a/lake")));
        assert_eq!(file.journal, Some(PathBuf::from("/j")));
        assert_eq!(file.owner.as_deref(), Some("ci"));
        for (bad, named) in [
            ("warehose = \"x\"", "`warehose`"),
            ("warehouse = 1", "`warehouse`"),
            ("warehouse = \"\"", "`warehouse`"),
            ("[catalog.prod]\nuri = \"http://x\"", "embedded catalog only"),
            ("warehouse = ", "/a/calve.toml"),
        ] {
            let failure = parse(bad).unwrap_err();
            assert_eq!(failure.code, 2, "{bad}");
            assert!(
                failure.message.contains(named) && failure.message.contains("/a/calve.toml"),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn options_come_before_the_file_and_near_files_before_far_ones() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(dir.path().join(FILE), "warehouse = \"far\"\nowner = \"far\"").unwrap();
        let found = Settings::find(&Global::default(), &inner).unwrap();
        assert_eq!(found.warehouse, Some(dir.path().join("far")));
        assert_eq!(found.owner, Owner("far".to_owned()));
        assert_eq!(found.memory, 1 << 30);

        std::fs::write(dir.path().join("a").join(FILE), "warehouse = \"near\"").unwrap();
        let found = Settings::find(&Global::default(), &inner).unwrap();
        assert_eq!(found.warehouse, Some(dir.path().join("a/near")), "one file is read, the nearest");
        assert_ne!(found.owner, Owner("far".to_owned()));

        let global = Global {
            warehouse: Some(PathBuf::from("given")),
            owner: Some("me".to_owned()),
            memory: Some(1 << 25),
            ..Global::default()
        };
        let found = Settings::find(&global, &inner).unwrap();
        assert_eq!(found.warehouse, Some(PathBuf::from("given")));
        assert_eq!((found.owner, found.memory), (Owner("me".to_owned()), 1 << 25));

        let empty = Global { warehouse: Some(PathBuf::new()), owner: Some(" ".to_owned()), ..Global::default() };
        let found = Settings::find(&empty, &inner).unwrap();
        assert_eq!(found.warehouse, Some(dir.path().join("a/near")), "an empty variable is none");
        assert!(found.owner.0.contains('@'), "{}", found.owner);
    }
}
