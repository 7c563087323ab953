//! Local files that survive a crash: a file is on the disk, under its name, before anything names it.
//!
//! Iceberg's own local storage syncs neither the folder nor, in one of its two ways to write, the file; after a power
//! failure a committed snapshot could name files that are empty or gone. [`DurableLocal`] syncs both before a write
//! returns, and never overwrites: Iceberg's files are immutable, and a second file under a name that a snapshot may
//! already hold would change what that snapshot reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use serde::{Deserialize, Serialize};

use super::manifest_names::with_avro_names;

/// Why a local file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {reason}{}", kind.remedy())]
pub struct StorageError {
    /// What was tried, as a verb.
    pub action: &'static str,
    /// The file or folder.
    pub path: String,
    /// What kind of failure it is.
    pub kind: StorageErrorKind,
    /// What the system said.
    pub reason: String,
}

/// Kinds of failures that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// No space, or no quota, is left, or files may not grow so large.
    Full,
    /// The file system is read-only, or this user may not write there.
    ReadOnly,
    /// The name is taken; nothing was overwritten.
    Exists,
    /// There is no such file.
    Missing,
    /// It is on storage that calve cannot reach at all.
    Unsupported,
    /// A property of the storage is wrong or missing, or the bucket is.
    Configuration,
    /// The key of the storage is wrong.
    Key,
    /// Anything else.
    Other,
}

impl StorageErrorKind {
    /// What to do, where that is known.
    fn remedy(self) -> &'static str {
        match self {
            StorageErrorKind::Full => "; free some space and try again",
            StorageErrorKind::Exists => "; it is never overwritten",
            StorageErrorKind::ReadOnly
            | StorageErrorKind::Missing
            | StorageErrorKind::Unsupported
            | StorageErrorKind::Configuration
            | StorageErrorKind::Key
            | StorageErrorKind::Other => "",
        }
    }
}

impl StorageError {
    fn new(action: &'static str, path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StorageErrorKind::Full
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StorageErrorKind::ReadOnly,
            io::ErrorKind::AlreadyExists => StorageErrorKind::Exists,
            io::ErrorKind::NotFound => StorageErrorKind::Missing,
            _ => StorageErrorKind::Other,
        };
        Self { action, path: path.display().to_string(), kind, reason: error.to_string() }
    }

    /// The storage error inside an error of iceberg's, if it came from here.
    pub fn within(error: &iceberg::Error) -> Option<&StorageError> {
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            if let Some(found) = inner.downcast_ref::<StorageError>() {
                return Some(found);
            }
            cause = inner.source();
        }
        None
    }
}

impl From<StorageError> for iceberg::Error {
    fn from(error: StorageError) -> Self {
        iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string()).with_source(error)
    }
}

/// Reads and writes local files, durably.
pub fn durable_file_io() -> FileIO {
    FileIOBuilder::new(Arc::new(DurableLocalFactory)).build()
}

/// The path that a location names: `file:///p`, `file:/p` or a plain path, taken literally, without percent-decoding,
/// as the engines take it. `None` for another scheme.
pub fn local_path(location: &str) -> Option<PathBuf> {
    let path = match location.strip_prefix("file:") {
        Some(rest) => {
            let rest = rest.strip_prefix("//").unwrap_or(rest);
            let rest = rest.strip_prefix("localhost/").map_or_else(|| rest.to_owned(), |rest| format!("/{rest}"));
            if rest.starts_with('/') { rest } else { format!("/{rest}") }
        }
        None if location.contains("://") => return None,
        None => location.to_owned(),
    };
    Some(PathBuf::from(path))
}

/// Writes a whole file so that its name appears only with all its bytes, on the disk. Makes missing folders.
///
/// A name that exists already is refused with [`StorageErrorKind::Exists`].
pub fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let folder = folder_of(path);
    create_folder_durably(folder)?;
    let failed = |error: &io::Error| StorageError::new("write", path, error);
    let mut builder = tempfile::Builder::new();
    let _ = builder.prefix(".").suffix(".part");
    // A temporary file is private by default; other engines must be able to read what becomes of it.
    #[cfg(unix)]
    let _ = builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(|e| failed(&e))?;
    file.write_all(bytes).map_err(|e| failed(&e))?;
    file.as_file().sync_all().map_err(|e| failed(&e))?;
    let _kept: File = file.persist_noclobber(path).map_err(|e| failed(&e.error))?;
    sync_folder(folder)
}

/// Makes a folder and its missing parents, each on the disk under its name.
pub fn create_folder_durably(folder: &Path) -> Result<(), StorageError> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    create_folder_durably(parent)?;
    match fs::create_dir(folder) {
        Ok(()) => sync_folder(parent),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => sync_folder(parent),
        Err(e) => Err(StorageError::new("make folder", folder, &e)),
    }
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<(), StorageError> {
    match File::open(folder).and_then(|opened| opened.sync_all()) {
        Ok(()) => Ok(()),
        // Some file systems have nothing to sync for a folder, and say so.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        Err(e) => Err(StorageError::new("sync folder", folder, &e)),
    }
}

/// Reads a whole local file.
pub fn read_file(path: &Path) -> Result<Vec<u8>, StorageError> {
    fs::read(path).map_err(|e| StorageError::new("read", path, &e))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// Runs file work on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let named = path.clone();
    tokio::task::spawn_blocking(move || work(&path)).await.unwrap_or_else(|stopped| {
        Err(StorageError::new("use", &named, &io::Error::other(format!("the work on it was stopped: {stopped}"))))
    })
}

/// Iceberg's storage over durable local files. Source: Iceberg spec, "File System Operations".
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct DurableLocal;

/// Makes [`DurableLocal`].
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct DurableLocalFactory;

#[typetag::serde(name = "CalveDurableLocalFactory")]
impl StorageFactory for DurableLocalFactory {
    fn build(&self, _: &StorageConfig) -> iceberg::Result<Arc<dyn Storage>> {
        Ok(Arc::new(DurableLocal))
    }
}

fn path_of(location: &str) -> Result<PathBuf, StorageError> {
    local_path(location).ok_or_else(|| StorageError {
        action: "use",
        path: location.to_owned(),
        kind: StorageErrorKind::Other,
        reason: "only local files are reached here: file:///… or a plain path".to_owned(),
    })
}

#[async_trait]
#[typetag::serde(name = "CalveDurableLocal")]
impl Storage for DurableLocal {
    async fn exists(&self, path: &str) -> iceberg::Result<bool> {
        let work = |path: &Path| path.try_exists().map_err(|e| StorageError::new("look for", path, &e));
        Ok(blocking(path_of(path)?, work).await?)
    }

    async fn metadata(&self, path: &str) -> iceberg::Result<FileMetadata> {
        let work = |path: &Path| fs::metadata(path).map_err(|e| StorageError::new("look at", path, &e));
        Ok(FileMetadata { size: blocking(path_of(path)?, work).await?.len() })
    }

    async fn read(&self, path: &str) -> iceberg::Result<Bytes> {
        let bytes = blocking(path_of(path)?, read_file).await?;
        Ok(with_avro_names(path, bytes.into()))
    }

    async fn reader(&self, path: &str) -> iceberg::Result<Box<dyn FileRead>> {
        let path = path_of(path)?;
        let open = |path: &Path| {
            let file = File::open(path).map_err(|e| StorageError::new("read", path, &e))?;
            let length = file.metadata().map_err(|e| StorageError::new("read", path, &e))?.len();
            Ok((file, length))
        };
        let (file, length) = blocking(path.clone(), open).await?;
        Ok(Box::new(Reader { file: Arc::new(file), length, path }))
    }

    async fn write(&self, path: &str, bytes: Bytes) -> iceberg::Result<()> {
        Ok(blocking(path_of(path)?, move |path| write_durably(path, &bytes)).await?)
    }

    async fn writer(&self, path: &str) -> iceberg::Result<Box<dyn FileWrite>> {
        let path = path_of(path)?;
        let create = |path: &Path| {
            create_folder_durably(folder_of(path))?;
            let file = OpenOptions::new().write(true).create_new(true).open(path);
            file.map_err(|e| StorageError::new("write", path, &e))
        };
        let file = blocking(path.clone(), create).await?;
        Ok(Box::new(Writer { file: Some(Arc::new(file)), path }))
    }

    async fn delete(&self, path: &str) -> iceberg::Result<()> {
        let work = |path: &Path| match fs::remove_file(path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(StorageError::new("delete", path, &e)),
        };
        Ok(blocking(path_of(path)?, work).await?)
    }

    async fn delete_prefix(&self, path: &str) -> iceberg::Result<()> {
        let work = |path: &Path| match fs::remove_dir_all(path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(StorageError::new("delete folder", path, &e)),
        };
        Ok(blocking(path_of(path)?, work).await?)
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> iceberg::Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> iceberg::Result<InputFile> {
        Ok(InputFile::new(Arc::new(*self), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> iceberg::Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(*self), path.to_owned()))
    }
}

#[derive(Debug)]
struct Reader {
    file: Arc<File>,
    length: u64,
    path: PathBuf,
}

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> iceberg::Result<Bytes> {
        // A damaged footer can ask for any range; memory is taken only for one that the file has.
        let wanted = range.end.checked_sub(range.start).filter(|_| range.end <= self.length);
        let Some(Ok(wanted)) = wanted.map(usize::try_from) else {
            let reason = format!("bytes {}..{} of a file of {}", range.start, range.end, self.length);
            return Err(StorageError::new("read", &self.path, &io::Error::other(reason)).into());
        };
        let file = self.file.clone();
        let work = move |path: &Path| {
            let mut buffer = vec![0; wanted];
            read_exact_at(&file, &mut buffer, range.start).map_err(|e| StorageError::new("read", path, &e))?;
            Ok(Bytes::from(buffer))
        };
        Ok(blocking(self.path.clone(), work).await?)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
        offset += read as u64;
    }
    Ok(())
}

#[derive(Debug)]
struct Writer {
    file: Option<Arc<File>>,
    path: PathBuf,
}

impl Writer {
    fn closed(&self) -> StorageError {
        StorageError::new("write", &self.path, &io::Error::other("it is closed already"))
    }
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bytes: Bytes) -> iceberg::Result<()> {
        let file = self.file.clone().ok_or_else(|| self.closed())?;
        let work = move |path: &Path| (&*file).write_all(&bytes).map_err(|e| StorageError::new("write", path, &e));
        Ok(blocking(self.path.clone(), work).await?)
    }

    async fn close(&mut self) -> iceberg::Result<()> {
        let file = self.file.take().ok_or_else(|| self.closed())?;
        let work = move |path: &Path| {
            file.sync_all().map_err(|e| StorageError::new("write", path, &e))?;
            sync_folder(folder_of(path))
        };
        Ok(blocking(self.path.clone(), work).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        for (location, path) in
            [("file:///a/b c", "/a/b c"), ("file:/a", "/a"), ("/a%20b", "/a%20b"), ("file://localhost/a", "/a")]
        {
            assert_eq!(local_path(location), Some(PathBuf::from(path)), "{location}");
        }
        assert_eq!(local_path("s3://bucket/a"), None);
    }

    #[test]
    fn a_name_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folders/file");
        write_durably(&path, b"first").unwrap();
        let refused = write_durably(&path, b"second").unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Exists);
        assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_what_is_written() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_durably(&ours, b"").unwrap();
        fs::write(&plain, b"").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(ours), mode(plain));
    }

    #[tokio::test]
    async fn a_stream_is_written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let location = format!("file://{}/x/y.bin", folder.path().display());
        let io = durable_file_io();
        let mut writer = io.new_output(&location).unwrap().writer().await.unwrap();
        writer.write(Bytes::from_static(b"hello ")).await.unwrap();
        writer.write(Bytes::from_static(b"world")).await.unwrap();
        writer.close().await.unwrap();
        assert!(writer.close().await.is_err());
        let input = io.new_input(&location).unwrap();
        assert_eq!(input.read().await.unwrap(), "hello world");
        let reader = input.reader().await.unwrap();
        assert_eq!(reader.read(6..11).await.unwrap(), "world");
        for beyond in [6..12, 0..u64::MAX] {
            assert!(reader.read(beyond).await.is_err());
        }
        let again = io.new_output(&location).unwrap().writer().await.err().unwrap();
        assert_eq!(StorageError::within(&again).unwrap().kind, StorageErrorKind::Exists);
        let missing = io.new_input(format!("{location}.not")).unwrap().read().await.unwrap_err();
        assert_eq!(StorageError::within(&missing).unwrap().kind, StorageErrorKind::Missing);
    }

    #[test]
    fn a_full_disk_and_a_read_only_one_are_told_apart() {
        let of = |code| StorageError::new("write", Path::new("/w"), &io::Error::from_raw_os_error(code)).kind;
        assert_eq!(of(libc::ENOSPC), StorageErrorKind::Full);
        assert_eq!(of(libc::EROFS), StorageErrorKind::ReadOnly);
        assert_eq!(of(libc::EACCES), StorageErrorKind::ReadOnly);
    }
}
