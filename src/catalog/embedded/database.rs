//! `catalog.db`: the rows of the catalog, and what SQLite's failures mean.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use super::CATALOG_NAME;
use crate::catalog::CatalogError;
use crate::clock::Clock;
use crate::ids::{CatalogIdentity, TableName};

/// The newest warehouse format that this version reads and writes.
const FORMAT: u32 = 1;
/// How long a process waits for another one's transaction, which takes milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

const LAYOUT: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL,
        table_namespace VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000),
        previous_metadata_location VARCHAR(1000),
        iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000) NOT NULL,
        PRIMARY KEY (catalog_name, namespace, property_key))",
    "CREATE TABLE IF NOT EXISTS calve_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
];

/// What became of one attempt to swap the row.
pub(super) enum Swap {
    /// The row names the new file.
    Done,
    /// Another writer's file stands in the row.
    Lost,
    /// The transaction failed before its COMMIT: provably nothing changed.
    NotTried(CatalogError),
    /// The COMMIT itself failed.
    Unknown(String),
}

/// An open `catalog.db`.
#[derive(Debug)]
pub(super) struct Database {
    file: PathBuf,
    pool: SqlitePool,
}

impl Database {
    pub(super) async fn open(file: PathBuf, create: bool) -> Result<Self, CatalogError> {
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(create)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Extra)
            // Waiting for another process is no event to log.
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_with(options)
            .await
            .map_err(|e| read_error(&file, e))?;
        Ok(Self { file, pool })
    }

    /// Whether this database was laid out by calve.
    pub(super) async fn is_laid_out(&self) -> Result<bool, CatalogError> {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'calve_meta'")
                .fetch_one(&self.pool)
                .await
                .map_err(|e| read_error(&self.file, e))?;
        Ok(count > 0)
    }

    /// Makes the tables that are missing, and an identity; all or nothing.
    pub(super) async fn lay_out(&self, clock: &dyn Clock) -> Result<(), CatalogError> {
        let failed = |error| write_error(&self.file, error);
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        for statement in LAYOUT {
            let _done = sqlx::query(statement).execute(&mut *transaction).await.map_err(failed)?;
        }
        // Two processes may both get here; the first one's identity stands.
        for (key, value) in [("format", FORMAT.to_string()), ("identity", clock.fresh_uuid().to_string())] {
            let _done = sqlx::query("INSERT OR IGNORE INTO calve_meta (key, value) VALUES (?, ?)")
                .bind(key)
                .bind(value)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    /// The stored identity, once the format is known to be one that this version reads.
    pub(super) async fn identity(&self) -> Result<CatalogIdentity, CatalogError> {
        let damaged = |reason| CatalogError::Damaged { what: self.file.display().to_string(), reason };
        let rows: Vec<(String, String)> = sqlx::query_as("SELECT key, value FROM calve_meta")
            .fetch_all(&self.pool)
            .await
            .map_err(|e| read_error(&self.file, e))?;
        let value = |wanted: &str| {
            let found = rows.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone());
            found.ok_or_else(|| damaged(format!("calve_meta has no {wanted}")))
        };
        let format = value("format")?;
        match format.parse::<u32>() {
            Ok(known) if known <= FORMAT => Ok(CatalogIdentity(value("identity")?)),
            Ok(_) => Err(CatalogError::Newer {
                what: format!("the warehouse {}", self.file.display()),
                found: format!("format {format}"),
                supported: FORMAT.to_string(),
            }),
            Err(_) => Err(damaged(format!("calve_meta has the format {format:?}, which is no number"))),
        }
    }

    /// Every table that has a name calve can write; one that has not, e.g. with a slash, cannot be asked for either.
    pub(super) async fn tables(&self) -> Result<Vec<TableName>, CatalogError> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT table_namespace, table_name FROM iceberg_tables
             WHERE catalog_name = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
        )
        .bind(CATALOG_NAME)
        .fetch_all(&self.pool)
        .await
        .map_err(|e| read_error(&self.file, e))?;
        let name = |(namespace, name): (String, String)| format!("{namespace}.{name}").parse().ok();
        let mut tables: Vec<TableName> = rows.into_iter().filter_map(name).collect();
        tables.sort();
        Ok(tables)
    }

    /// The table's metadata file; `None` where there is no such table.
    pub(super) async fn location(&self, table: &TableName) -> Result<Option<String>, CatalogError> {
        let found: Option<Option<String>> = sqlx::query_scalar(
            "SELECT metadata_location FROM iceberg_tables
             WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?
               AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
        )
        .bind(CATALOG_NAME)
        .bind(table.namespace_text())
        .bind(table.name())
        .fetch_optional(&self.pool)
        .await
        .map_err(|e| read_error(&self.file, e))?;
        match found {
            None => Ok(None),
            Some(Some(location)) => Ok(Some(location)),
            Some(None) => Err(CatalogError::Damaged {
                what: format!("the row of table {table} in {}", self.file.display()),
                reason: "it names no metadata file".to_owned(),
            }),
        }
    }

    /// Adds a table, and its namespace where that is missing.
    pub(super) async fn insert(&self, table: &TableName, location: &str) -> Result<(), CatalogError> {
        let failed = |error| write_error(&self.file, error);
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        // A namespace exists by having a property, and this is the one that every implementation gives it.
        let _done = sqlx::query(
            "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
             SELECT ?1, ?2, 'exists', 'true' WHERE NOT EXISTS (
                 SELECT 1 FROM iceberg_namespace_properties WHERE catalog_name = ?1 AND namespace = ?2)",
        )
        .bind(CATALOG_NAME)
        .bind(table.namespace_text())
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
        let inserted = sqlx::query(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
             VALUES (?, ?, ?, ?, 'TABLE')",
        )
        .bind(CATALOG_NAME)
        .bind(table.namespace_text())
        .bind(table.name())
        .bind(location)
        .execute(&mut *transaction)
        .await;
        match inserted {
            Ok(_) => transaction.commit().await.map_err(failed),
            Err(error) if error.as_database_error().is_some_and(|e| e.is_unique_violation()) => {
                Err(CatalogError::TableExists(table.clone()))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes the row of a table if it still names this metadata file; whether it did.
    pub(super) async fn remove(&self, table: &TableName, location: &str) -> Result<bool, CatalogError> {
        let removed = sqlx::query(
            "DELETE FROM iceberg_tables
             WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?",
        )
        .bind(CATALOG_NAME)
        .bind(table.namespace_text())
        .bind(table.name())
        .bind(location)
        .execute(&self.pool)
        .await
        .map_err(|error| write_error(&self.file, error))?;
        Ok(removed.rows_affected() > 0)
    }

    /// Puts the new file's name in the row if the old one's is still there.
    pub(super) async fn swap(&self, table: &TableName, old: &str, new: &str) -> Swap {
        let not_tried = |error| Swap::NotTried(write_error(&self.file, error));
        let mut transaction = match self.pool.begin_with("BEGIN IMMEDIATE").await {
            Ok(transaction) => transaction,
            Err(error) => return not_tried(error),
        };
        let updated = sqlx::query(
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?
             WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?
               AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL) AND metadata_location = ?",
        )
        .bind(new)
        .bind(old)
        .bind(CATALOG_NAME)
        .bind(table.namespace_text())
        .bind(table.name())
        .bind(old)
        .execute(&mut *transaction)
        .await;
        match updated {
            Err(error) => not_tried(error),
            Ok(result) if result.rows_affected() == 0 => Swap::Lost,
            Ok(_) => match transaction.commit().await {
                Ok(()) => Swap::Done,
                Err(error) => Swap::Unknown(format!("COMMIT in {}: {error}", self.file.display())),
            },
        }
    }
}

#[cfg(test)]
impl Database {
    /// One value, as text.
    pub(super) async fn ask(&self, question: &'static str) -> String {
        let answer: sqlx::sqlite::SqliteRow = sqlx::query(question).fetch_one(&self.pool).await.unwrap();
        let text = |row: &sqlx::sqlite::SqliteRow| sqlx::Row::try_get_unchecked::<String, _>(row, 0);
        text(&answer).unwrap()
    }

    /// Changes the database behind the catalog's back.
    pub(super) async fn execute(&self, statement: &'static str) {
        let _done = sqlx::query(statement).execute(&self.pool).await.unwrap();
    }
}

/// SQLite's primary result code. Source: SQLite, "Result and Error Codes".
fn code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

fn read_error(file: &Path, error: sqlx::Error) -> CatalogError {
    let what = file.display().to_string();
    let reason = error.to_string();
    match code(&error) {
        Some(8) => CatalogError::ReadOnly { what, reason },
        Some(11 | 26) => CatalogError::Damaged { what, reason },
        Some(5 | 6) => CatalogError::Unavailable {
            what,
            reason: format!("another process has held it locked for {} s: {reason}", BUSY_TIMEOUT.as_secs()),
        },
        Some(13) => CatalogError::Unavailable { what, reason: format!("{reason}; free some space and try again") },
        _ => CatalogError::Unavailable { what, reason },
    }
}

/// As [`read_error`]; but SQLite cannot open its rollback journal where the folder is read-only.
fn write_error(file: &Path, error: sqlx::Error) -> CatalogError {
    match code(&error) {
        Some(14) => CatalogError::ReadOnly { what: file.display().to_string(), reason: error.to_string() },
        _ => read_error(file, error),
    }
}
