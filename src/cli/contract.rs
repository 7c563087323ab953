//! `calve contract`, and where a table's contract is found.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::Context;
use super::args::{Contract as Args, ContractCheck, ContractFile, ContractInit};
use super::exit::{Failure, Outcome};
use crate::contract::{Contract, contract_file_name};
use crate::ids::TableName;
use crate::report::ContractReport;
use crate::report::page::shell;

/// Writes or checks a contract.
pub(super) async fn run(context: &Context, args: Args) -> Outcome {
    match args {
        Args::Init(args) => init(context, args).await,
        Args::Check(args) => check(context, &args),
    }
}

/// A contract with the file it came from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) contract: Contract,
    path: PathBuf,
}

/// The table's contract: the file named, else the one here, else the one in the warehouse, else the one
/// beside calve.toml. `None` where there is none.
pub(super) fn find_contract(
    context: &Context,
    table: &TableName,
    given: &ContractFile,
) -> Result<Option<Found>, Failure> {
    if let Some(path) = &given.file {
        let missing = || Failure::usage(format!("contract {}: there is no such file", path.display()));
        return read(path)?.ok_or_else(missing).map(Some);
    }
    let name = contract_file_name(table);
    if let Some(found) = read(Path::new(&name))? {
        return Ok(Some(found));
    }
    for folder in context.settings()?.contract_folders() {
        if let Some(found) = read(&folder.join(&name))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

impl Found {
    /// Where relative paths of the contract's sources start.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.parent().map_or_else(PathBuf::new, Path::to_owned)
    }
}

/// The table's contract; without one nothing can be validated or published.
pub(super) fn required(context: &Context, table: &TableName, given: &ContractFile) -> Result<Found, Failure> {
    let found = find_contract(context, table, given)?;
    found.ok_or_else(|| {
        Failure::usage(format!(
            "table {table} has no contract: {} is neither here, nor in the warehouse, nor beside calve.toml\n\
             Name one with --contract FILE, or write a first one: calve contract init {} --key COLUMN",
            contract_file_name(table),
            shell(&table.to_string())
        ))
    })
}

fn read(path: &Path) -> Result<Option<Found>, Failure> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(Found { contract: Contract::parse(&text, &shown)?, path: path.to_owned() })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if [ErrorKind::InvalidData, ErrorKind::IsADirectory].contains(&error.kind()) => {
            Err(Failure::usage(format!("contract {shown}: {error}")))
        }
        Err(error) => Err(Failure::failed(format!("contract {shown}: {error}"))),
    }
}

fn report(table: &TableName, found: &Found, written: bool) -> ContractReport {
    ContractReport {
        table: table.clone(),
        path: found.path.display().to_string(),
        digest: found.contract.digest(),
        checks: found.contract.checks.iter().map(|check| (check.name.clone(), check.kind.word().to_owned())).collect(),
        written,
    }
}

fn check(context: &Context, args: &ContractCheck) -> Outcome {
    let found = required(context, &args.table, &args.contract)?;
    context.print(&report(&args.table, &found, false))
}

async fn init(context: &Context, args: ContractInit) -> Outcome {
    let path = PathBuf::from(contract_file_name(&args.table));
    let shown = path.display();
    if !args.force && path.exists() {
        let table = shell(&args.table.to_string());
        return Err(Failure::usage(format!(
            "{shown} exists: `calve contract check {table}` reads it, --force writes a new one over it"
        )));
    }
    let table = context.coordinator().await?.catalog().load(&args.table).await?;
    let schema = table.metadata.current_schema();
    let key: Vec<String> = args.key.iter().map(|column| column.trim().to_owned()).collect();
    if let Some(unknown) = key.iter().find(|column| schema.field_by_name(column).is_none()) {
        let names: Vec<_> = schema.as_struct().fields().iter().map(|field| field.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "table {} has no column {unknown:?}: its columns are {}",
            args.table,
            names.join(", ")
        )));
    }
    let text = Contract::first_for(schema, &key);
    let contract = Contract::parse(&text, &shown.to_string())?;
    write(&path, &text).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    context.print(&report(&args.table, &Found { contract, path }, true))
}

/// Writes the file whole or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// A contract is for others to read, unlike what temporary files usually are.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
