//! A table's files wherever they are: local, S3, Google Cloud Storage, Azure.
//!
//! The location decides the store. Credentials that the catalog vended for a prefix come before the properties, the
//! longest prefix first, and are fetched again before they expire: once for all who wait. A reader asks at every
//! read, and on S3 a writer at every request. On Google's and Azure's stores a writer keeps the credentials that it began
//! with; a file takes minutes to write, and what is handed out is valid for [`MARGIN`] where the catalog vends for longer.
//!
//! Files are written under fresh names, and never over another: a file written at once is put on the condition that
//! its name is free. One written in parts is only looked for before, because not every store takes the condition for
//! parts; what protects it is the random UUID in its name.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Duration, Utc};
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use opendal::ErrorKind;
use serde::{Deserialize, Serialize};

use super::CatalogError;
use super::manifest_names::with_avro_names;
use super::properties::Properties;
use super::storage::{DurableLocal, StorageError, StorageErrorKind};
use crate::clock::Clock;
use crate::store::{
    Bucket, FailureKind, Location, LocationError, Redactor, Retries, Service, connect, connect_s3_with, scheme_of,
};

/// Vended credentials that expire sooner than this are not used for anything new.
pub const MARGIN: Duration = Duration::minutes(5);

/// How long a catalog that gave no new credentials is left alone, while the old ones hold.
const AFTER_FAILURE: Duration = Duration::seconds(30);

/// Bytes of a part of a file that is written in parts; S3 takes none below 5 MiB but the last, and 10,000 of them.
const PART: usize = 16 * 1024 * 1024;

/// Storage credentials that a catalog vended: they hold for locations that begin with `prefix`, the longest match first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The beginning of the locations, e.g. `s3://bucket/table`; empty for all.
    pub prefix: String,
    /// Iceberg's storage properties, e.g. `s3.access-key-id`.
    pub properties: Properties,
}

/// What a catalog vended, and until when it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vended {
    /// By prefix.
    pub credentials: Vec<Credential>,
    /// When the first of them expires, if the catalog says.
    pub expires: Option<DateTime<Utc>>,
}

impl Vended {
    /// The credential for a location: the longest prefix that it begins with.
    fn best(&self, location: &str) -> Option<&Credential> {
        let location = one_spelling(location);
        let fits = |credential: &&Credential| location.starts_with(&one_spelling(&credential.prefix));
        self.credentials.iter().filter(fits).max_by_key(|credential| credential.prefix.len())
    }
}

/// A location with one spelling of its scheme: a catalog may vend for `s3://` what the table calls `s3a://`.
fn one_spelling(location: &str) -> String {
    for (other, spelling) in [("s3a://", "s3://"), ("s3n://", "s3://"), ("gcs://", "gs://")] {
        if let Some(rest) = location.strip_prefix(other) {
            return format!("{spelling}{rest}");
        }
    }
    location.to_owned()
}

/// Gets fresh credentials from the catalog.
#[async_trait]
pub trait Vend: Debug + Send + Sync {
    /// Asks again.
    async fn vend(&self) -> Result<Vended, CatalogError>;
}

/// Reads and writes the files of a table. `properties` are the catalog's and the table's merged; `vended` come before
/// them, and are fetched anew by `source` before they expire.
pub fn table_file_io(
    properties: &Properties,
    vended: Vended,
    source: Option<Arc<dyn Vend>>,
    clock: Arc<dyn Clock>,
) -> Result<FileIO, CatalogError> {
    let objects = Arc::new_cyclic(|this| Objects {
        this: this.clone(),
        properties: properties.clone(),
        source,
        clock,
        state: Mutex::new(State { vended: Vended::default(), renew: None, generation: 0, operators: HashMap::new() }),
        renewing: tokio::sync::Mutex::new(()),
    });
    objects.take(vended);
    Ok(FileIOBuilder::new(Arc::new(TableFiles { objects: Some(objects) })).build())
}

/// What all files of one table share. `Debug` shows no secrets.
struct Objects {
    this: Weak<Objects>,
    properties: Properties,
    source: Option<Arc<dyn Vend>>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    renewing: tokio::sync::Mutex<()>,
}

struct State {
    vended: Vended,
    /// From when on they are fetched again; `None` where they do not expire.
    renew: Option<DateTime<Utc>>,
    /// How often credentials were fetched.
    generation: u64,
    /// By bucket and prefix of the credential; those of older credentials are dropped.
    operators: HashMap<(String, Option<String>), (Bucket, Redactor)>,
}

/// A bucket as it is reached now, and the key in it.
struct Reached {
    bucket: Bucket,
    redactor: Redactor,
    key: String,
    location: String,
}

impl Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("properties", &self.properties).finish_non_exhaustive()
    }
}

fn failed(action: &'static str, location: &str, kind: StorageErrorKind, reason: impl Into<String>) -> StorageError {
    StorageError { action, path: location.to_owned(), kind, reason: reason.into() }
}

impl Objects {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses other credentials from now on.
    fn take(&self, vended: Vended) {
        let now = self.clock.now();
        let mut state = self.state();
        // A catalog may vend for less than the margin; asking at every file would not make it more.
        let margin = |expires: DateTime<Utc>| (expires.signed_duration_since(now) / 2).clamp(Duration::zero(), MARGIN);
        state.renew = vended.expires.map(|expires| expires.checked_sub_signed(margin(expires)).unwrap_or(expires));
        state.vended = vended;
        state.generation = state.generation.wrapping_add(1);
        state.operators.clear();
    }

    /// Whether what was vended holds for a while, and how often it was fetched.
    fn fresh(&self) -> (bool, u64) {
        let state = self.state();
        (state.renew.is_none_or(|renew| self.clock.now() < renew), state.generation)
    }

    /// Fetches credentials again where those at hand expire soon; once, whoever else waits for it.
    async fn renew(&self, action: &'static str, location: &str) -> Result<(), StorageError> {
        let (fresh, seen) = self.fresh();
        let Some(source) = self.source.as_ref().filter(|_| !fresh) else { return Ok(()) };
        let _one = self.renewing.lock().await;
        let (fresh, now) = self.fresh();
        if fresh || now != seen {
            return Ok(());
        }
        match source.vend().await {
            Ok(vended) => {
                self.take(vended);
                Ok(())
            }
            // Those at hand may hold for some minutes yet.
            Err(_) if self.state().vended.expires.is_some_and(|expires| expires > self.clock.now()) => {
                self.state().renew = self.clock.now().checked_add_signed(AFTER_FAILURE);
                Ok(())
            }
            Err(error) => {
                let reason =
                    format!("the catalog's storage credentials have expired, and it gave no new ones: {error}");
                let kind = match error {
                    CatalogError::Forbidden { .. } => StorageErrorKind::ReadOnly,
                    _ => StorageErrorKind::Other,
                };
                Err(failed(action, location, kind, reason))
            }
        }
    }

    /// The bucket of a location, under the credentials that hold now.
    async fn reach(&self, action: &'static str, location: &str) -> Result<Reached, StorageError> {
        let parsed = Location::parse(location).map_err(|error| match error {
            LocationError::Scheme(_) => {
                let reason = format!("{error}; keep the table on one of these");
                failed(action, location, StorageErrorKind::Unsupported, reason)
            }
            LocationError::Form(_) => failed(action, location, StorageErrorKind::Other, error.to_string()),
        })?;
        if parsed.key.is_empty() {
            return Err(failed(action, location, StorageErrorKind::Other, "it names a bucket, and no file in it"));
        }
        self.renew(action, location).await?;
        let mut state = self.state();
        let credential = state.vended.best(location).cloned();
        let known = (parsed.bucket_uri(), credential.as_ref().map(|credential| credential.prefix.clone()));
        let found = state.operators.get(&known).cloned();
        let (operator, redactor) = match found {
            Some(found) => found,
            None => {
                let properties = match &credential {
                    Some(credential) => self.properties.overridden_by(&credential.properties),
                    None => self.properties.clone(),
                };
                let values: BTreeMap<_, _> = properties.iter().collect();
                let redactor = Redactor::of(properties.iter());
                let property =
                    |name: &str| values.get(name).filter(|value| !value.is_empty()).map(|value| (*value).to_owned());
                let keys = credential.as_ref().filter(|_| parsed.service == Service::S3).and_then(aws_keys);
                let operator = match keys {
                    Some(_) => {
                        let keys = VendedKeys { objects: self.this.clone(), location: location.to_owned() };
                        connect_s3_with(&parsed, &property, keys, Retries::Transport)
                    }
                    None => connect(&parsed, &property, Retries::Transport),
                };
                let operator = operator.map_err(|error| {
                    let reason = redactor.failure(&error).reason;
                    let reason = format!("{reason}; see the catalog's storage properties (s3.region, s3.endpoint, …)");
                    failed(action, location, StorageErrorKind::Configuration, reason)
                })?;
                drop(state.operators.insert(known, (operator.clone(), redactor.clone())));
                (operator, redactor)
            }
        };
        Ok(Reached { bucket: operator, redactor, key: parsed.key, location: location.to_owned() })
    }
}

/// The keys in a vended credential, if it has any.
fn aws_keys(credential: &Credential) -> Option<reqsign_aws_v4::Credential> {
    let property = |name: &str| credential.properties.get(name).map(str::to_owned);
    Some(reqsign_aws_v4::Credential {
        access_key_id: property("s3.access-key-id")?,
        secret_access_key: property("s3.secret-access-key")?,
        session_token: property("s3.session-token"),
        // The signer keeps what is valid for two minutes more. So it asks each time, and it is decided here alone, by
        // the clock that is used here, what is too old.
        expires_in: Some(reqsign_core::time::Timestamp::now() + std::time::Duration::from_secs(60)),
    })
}

/// Signs the requests of S3 with what was vended last: a long upload outlives the credentials that it began with.
struct VendedKeys {
    objects: Weak<Objects>,
    location: String,
}

impl Debug for VendedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VendedKeys").field("location", &self.location).finish_non_exhaustive()
    }
}

impl reqsign_core::ProvideCredential for VendedKeys {
    type Credential = reqsign_aws_v4::Credential;

    async fn provide_credential(&self, _: &reqsign_core::Context) -> reqsign_core::Result<Option<Self::Credential>> {
        let Some(objects) = self.objects.upgrade() else { return Ok(None) };
        let renewed = objects.renew("use", &self.location).await;
        renewed.map_err(|error| reqsign_core::Error::credential_invalid(error.reason))?;
        let state = objects.state();
        Ok(state.vended.best(&self.location).and_then(aws_keys))
    }
}

impl Reached {
    fn failed(&self, action: &'static str, error: &opendal::Error) -> StorageError {
        let failure = self.redactor.failure(error);
        let kind = match failure.kind {
            FailureKind::Missing => StorageErrorKind::Missing,
            FailureKind::Exists => StorageErrorKind::Exists,
            FailureKind::Forbidden => StorageErrorKind::ReadOnly,
            FailureKind::Full => StorageErrorKind::Full,
            FailureKind::Key => StorageErrorKind::Key,
            FailureKind::Configuration => StorageErrorKind::Configuration,
            FailureKind::Unclear | FailureKind::Other => StorageErrorKind::Other,
        };
        failed(action, &self.location, kind, failure.reason)
    }

    async fn read(&self, range: Option<Range<u64>>) -> Result<Bytes, StorageError> {
        let read = match range.clone() {
            None => self.bucket.operator().read(&self.key).await,
            Some(range) => self.bucket.operator().read_with(&self.key).range(range).await,
        };
        let bytes = read.map_err(|error| self.failed("read", &error))?.to_bytes();
        if let Some(range) = range {
            let wanted = range.end.saturating_sub(range.start);
            if u64::try_from(bytes.len()) != Ok(wanted) {
                let reason = format!("bytes {}..{} were asked for, and {} came", range.start, range.end, bytes.len());
                return Err(failed("read", &self.location, StorageErrorKind::Other, reason));
            }
        }
        Ok(bytes)
    }

    fn to_write(&self) -> Result<(opendal::Operator, String), StorageError> {
        self.bucket.to_write(&self.key).map_err(|error| self.failed("write", &error))
    }

    async fn write(&self, bytes: Bytes) -> Result<(), StorageError> {
        let (operator, name) = self.to_write()?;
        let put = operator.write_with(&name, bytes.clone()).if_not_exists(true).await;
        let Err(error) = put else { return Ok(()) };
        let failure = self.failed("write", &error);
        // The transport sends again what was not answered: the name may be taken by these very bytes.
        let ours = failure.kind == StorageErrorKind::Exists && self.read(None).await.is_ok_and(|there| there == bytes);
        if ours { Ok(()) } else { Err(failure) }
    }
}

/// Iceberg's storage over the files of one table: local ones durably, others through OpenDAL. It does not travel to
/// another process: credentials are not serialised. Source: Iceberg spec, "File System Operations".
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TableFiles {
    #[serde(skip)]
    objects: Option<Arc<Objects>>,
}

#[typetag::serde(name = "CalveTableFilesFactory")]
impl StorageFactory for TableFiles {
    fn build(&self, _: &StorageConfig) -> iceberg::Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.clone()))
    }
}

/// Whether a location is a plain path or `file:`.
fn is_local(location: &str) -> bool {
    scheme_of(location).is_none_or(|scheme| scheme == "file")
}

impl TableFiles {
    async fn reach(&self, action: &'static str, location: &str) -> Result<Reached, StorageError> {
        match &self.objects {
            Some(objects) => objects.reach(action, location).await,
            None => {
                let reason = "its credentials were not carried over from another process";
                Err(failed(action, location, StorageErrorKind::Other, reason))
            }
        }
    }
}

#[async_trait]
#[typetag::serde(name = "CalveTableFiles")]
impl Storage for TableFiles {
    async fn exists(&self, path: &str) -> iceberg::Result<bool> {
        if is_local(path) {
            return DurableLocal.exists(path).await;
        }
        let reached = self.reach("look for", path).await?;
        let found = reached.bucket.operator().exists(&reached.key).await;
        Ok(found.map_err(|error| reached.failed("look for", &error))?)
    }

    async fn metadata(&self, path: &str) -> iceberg::Result<FileMetadata> {
        if is_local(path) {
            return DurableLocal.metadata(path).await;
        }
        let reached = self.reach("look at", path).await?;
        let found =
            reached.bucket.operator().stat(&reached.key).await.map_err(|error| reached.failed("look at", &error))?;
        Ok(FileMetadata { size: found.content_length() })
    }

    async fn read(&self, path: &str) -> iceberg::Result<Bytes> {
        if is_local(path) {
            return DurableLocal.read(path).await;
        }
        let bytes = self.reach("read", path).await?.read(None).await?;
        Ok(with_avro_names(path, bytes))
    }

    async fn reader(&self, path: &str) -> iceberg::Result<Box<dyn FileRead>> {
        if is_local(path) {
            return DurableLocal.reader(path).await;
        }
        Ok(Box::new(Reader { files: self.clone(), location: path.to_owned() }))
    }

    async fn write(&self, path: &str, bytes: Bytes) -> iceberg::Result<()> {
        if is_local(path) {
            return DurableLocal.write(path, bytes).await;
        }
        Ok(self.reach("write", path).await?.write(bytes).await?)
    }

    async fn writer(&self, path: &str) -> iceberg::Result<Box<dyn FileWrite>> {
        if is_local(path) {
            return DurableLocal.writer(path).await;
        }
        let reached = self.reach("write", path).await?;
        match reached.bucket.operator().stat(&reached.key).await {
            Ok(_) => return Err(failed("write", path, StorageErrorKind::Exists, "the name is taken").into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // Some may write, and not read.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(error) => return Err(reached.failed("write", &error).into()),
        }
        let (operator, name) = reached.to_write()?;
        let writer = operator.writer_with(&name).chunk(PART).await;
        let writer = writer.map_err(|error| reached.failed("write", &error))?;
        Ok(Box::new(Writer { writer: Some(writer), reached }))
    }

    async fn delete(&self, path: &str) -> iceberg::Result<()> {
        if is_local(path) {
            return DurableLocal.delete(path).await;
        }
        let reached = self.reach("delete", path).await?;
        Ok(reached.bucket.operator().delete(&reached.key).await.map_err(|error| reached.failed("delete", &error))?)
    }

    async fn delete_prefix(&self, path: &str) -> iceberg::Result<()> {
        if is_local(path) {
            return DurableLocal.delete_prefix(path).await;
        }
        let reached = self.reach("delete folder", path).await?;
        let folder = format!("{}/", reached.key.trim_end_matches('/'));
        let deleted = reached.bucket.operator().delete_with(&folder).recursive(true).await;
        Ok(deleted.map_err(|error| reached.failed("delete folder", &error))?)
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> iceberg::Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> iceberg::Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> iceberg::Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

/// Reads ranges of one object, each under the credentials of that moment.
struct Reader {
    files: TableFiles,
    location: String,
}

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> iceberg::Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        Ok(self.files.reach("read", &self.location).await?.read(Some(range)).await?)
    }
}

struct Writer {
    writer: Option<opendal::Writer>,
    reached: Reached,
}

impl Writer {
    fn open(&mut self) -> Result<&mut opendal::Writer, StorageError> {
        let location = &self.reached.location;
        self.writer.as_mut().ok_or_else(|| failed("write", location, StorageErrorKind::Other, "it is closed already"))
    }
}

impl Writer {
    /// Parts of an upload that is not completed are invisible, and are paid for until someone removes them.
    async fn give_up(&mut self, error: &opendal::Error) -> StorageError {
        if let Some(mut writer) = self.writer.take() {
            drop(writer.abort().await);
        }
        self.reached.failed("write", error)
    }
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bytes: Bytes) -> iceberg::Result<()> {
        match self.open()?.write(bytes).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.give_up(&error).await.into()),
        }
    }

    async fn close(&mut self) -> iceberg::Result<()> {
        match self.open()?.close().await {
            Ok(_) => {
                self.writer = None;
                Ok(())
            }
            Err(error) => Err(self.give_up(&error).await.into()),
        }
    }
}

#[cfg(test)]
mod tests;
