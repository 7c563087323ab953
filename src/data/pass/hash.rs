//! The hashes of files' bytes.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, TryStreamExt};
use iceberg::io::FileIO;

use crate::data::{AboutFile, DataError, Progress};
use crate::digest::{Digest, FileHasher};

/// Bytes read at a time: large enough for object stores, small beside the memory limit.
const CHUNK: u64 = 8 << 20;
/// One is read while another is hashed.
const FILES_AT_ONCE: usize = 2;

/// Reads files whole, in chunks, and returns the plain SHA-256 of each.
///
/// Fails with the file named where one cannot be read.
pub async fn hash_files(
    file_io: &FileIO,
    paths: impl IntoIterator<Item = String>,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, Digest>, DataError> {
    // Boxed: a stream that maps to futures over references is not `Send` for every lifetime.
    let mut readings = Vec::new();
    for path in paths {
        let reading = async move {
            let digest = hash_file(file_io, &path, progress).await?;
            Ok((path, digest))
        };
        readings.push(reading.boxed());
    }
    futures::stream::iter(readings).buffer_unordered(FILES_AT_ONCE).try_collect().await
}

async fn hash_file(file_io: &FileIO, path: &str, progress: &dyn Progress) -> Result<Digest, DataError> {
    let input = file_io.new_input(path).about(path)?;
    let size = input.metadata().await.about(path)?.size;
    let reader = input.reader().await.about(path)?;
    let mut hasher = FileHasher::default();
    let mut at = 0;
    while at < size {
        let end = at.saturating_add(CHUNK).min(size);
        let bytes = reader.read(at..end).await.about(path)?;
        if bytes.len() as u64 != end - at {
            return Err(DataError::Damaged {
                file: path.to_owned(),
                reason: format!("it became shorter than its {size} bytes while it was read"),
            });
        }
        hasher.update(&bytes);
        progress.add(0, end - at);
        at = end;
    }
    Ok(hasher.finish())
}
