//! Tests over whole tables: rows in, snapshots out, rows read back by iceberg's own reader.

mod append;
mod evolution;
mod moved;
mod replace;
mod snapshots;

use iceberg::spec::FormatVersion;

const VERSIONS: [FormatVersion; 3] = [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3];
