//! The folder outside the source tree in which installed things are kept, and its locks.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{HarnessError, Result};

/// The cache's root, made if it is missing.
pub fn root() -> Result<PathBuf> {
    let folder = if let Some(given) = env::var_os("CALVE_TEST_CACHE").filter(|given| !given.is_empty()) {
        PathBuf::from(given)
    } else if let Some(xdg) = env::var_os("XDG_CACHE_HOME").filter(|given| !given.is_empty()) {
        Path::new(&xdg).join("calve-integration")
    } else if let Some(home) = env::var_os("HOME").filter(|given| !given.is_empty()) {
        Path::new(&home).join(".cache/calve-integration")
    } else {
        return Err(HarnessError("no folder for the test cache: set CALVE_TEST_CACHE, or HOME".to_owned()));
    };
    fs::create_dir_all(&folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
    // Python and DuckDB are started in other folders.
    fs::canonicalize(&folder).map_err(|error| HarnessError::io(folder.display(), &error))
}

/// Makes `<root>/<name>` once among all processes, and returns it.
///
/// `make` fills the folder under a lock; a marker is put into it afterwards by a rename, so a folder without one is
/// what an interrupted run left, and is made again. `usable` lets an entry be refused that has gone stale.
pub fn entry(name: &str, usable: impl Fn(&Path) -> bool, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let root = root()?;
    let folder = root.join(name);
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| HarnessError::io(path, &error)
    };
    let _lock = lock(name)?;
    let marker = folder.join("complete");
    if marker.exists() && usable(&folder) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(io(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(io(&folder))?;
    make(&folder)?;
    let unfinished = folder.join("complete.tmp");
    fs::write(&unfinished, b"").map_err(io(&unfinished))?;
    fs::rename(&unfinished, &marker).map_err(io(&marker))?;
    Ok(folder)
}

/// Waits for, and takes, the lock of a name. It is released when the file is dropped, and by the system when the process
/// dies.
pub fn lock(name: &str) -> Result<File> {
    let path = root()?.join(format!("{name}.lock"));
    let io = |error: std::io::Error| HarnessError::io(path.display(), &error);
    let file = File::options().create(true).append(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}
