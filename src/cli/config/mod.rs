//! Where the catalog, the journal and the owner come from: the command line, the environment, `calve.toml`, and
//! PyIceberg's own file.
//!
//! | setting | command line | environment | `calve.toml` | `.pyiceberg.yaml` |
//! |---|---|---|---|---|
//! | embedded catalog | `--warehouse` | `CALVE_WAREHOUSE` | `warehouse` | |
//! | which catalog | `--catalog` | `CALVE_CATALOG` | `default` | `default-catalog` |
//! | its properties | | `CALVE_CATALOG__NAME__URI`, `PYICEBERG_CATALOG__NAME__URI` | `[catalog.NAME]` | `catalog: NAME:` |
//! | journal | `--journal` | `CALVE_JOURNAL` | `journal`, or `uri` in `[journal]` | |
//! | its storage | | `CALVE_JOURNAL__S3__ENDPOINT` | `[journal]` | |
//!
//! Properties are merged one by one: what stands further left in the table wins. No error shows a property's value,
//! because it may be a secret.

mod catalogs;
mod environment;
mod file;
mod journal;
mod owner;
mod pyiceberg;
mod settings;

pub(super) use environment::Environment;
pub(super) use journal::JournalPlace;
pub(super) use settings::{Missing, Place, Settings, embedded};
