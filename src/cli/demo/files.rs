//! The demo's data, inside the binary.

use std::path::Path;

use super::{Failure, TABLE, malformed};
use crate::contract::{Contract, contract_file_name};

/// Where they are unpacked, in the warehouse's folder.
pub(super) const FOLDER: &str = "files";

/// A file's name and bytes.
type File = (&'static str, &'static [u8]);

/// The data files.
pub(super) struct Files {
    /// 1 to 8 August.
    pub(super) history: File,
    /// 9 August.
    pub(super) ninth: File,
    /// 9 August with seven rows twice.
    pub(super) duplicates: File,
    /// 10 August.
    pub(super) tenth: File,
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../examples/flights/", $name)))
    };
}

/// Made by `examples/flights/make.py`.
pub(super) const FILES: Files = Files {
    history: file!("flights-2013-08-01..08.parquet"),
    ninth: file!("flights-2013-08-09.parquet"),
    duplicates: file!("flights-2013-08-09-dup.parquet"),
    tenth: file!("flights-2013-08-10.parquet"),
};

const CONTRACT: &str = include_str!("../../../examples/flights/flights.contract.toml");

/// Writes the data files and the contract into the warehouse's folder, where the verbs find them afterwards.
pub(super) fn unpack(dir: &Path) -> Result<(), Failure> {
    let Files { history, ninth, duplicates, tenth } = FILES;
    for (name, bytes) in [history, ninth, duplicates, tenth] {
        write(&dir.join(FOLDER).join(name), bytes)?;
    }
    write(&contract_path(dir)?, CONTRACT.as_bytes())
}

/// The contract, as unpacked.
pub(super) fn contract(dir: &Path) -> Result<Contract, Failure> {
    Ok(Contract::parse(CONTRACT, &contract_path(dir)?.display().to_string())?)
}

fn contract_path(dir: &Path) -> Result<std::path::PathBuf, Failure> {
    Ok(dir.join(contract_file_name(&TABLE.parse().map_err(malformed)?)))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
