//! Table metadata files: from bytes and to bytes. Source: Iceberg spec, "Table Metadata and Snapshots".
//!
//! The crate drops the refs of format version 1 in both directions, though the other implementations keep them for
//! every version; losing a receipt there would be losing a publication. So [`parse`] puts them back and [`render`]
//! adds them, and both fail rather than lose one.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, SnapshotReference, SnapshotRetention, TableMetadata, TableMetadataBuilder,
};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::CatalogError;
use crate::observed::{list_refs, stamp};

/// The newest format version that is read and written.
const NEWEST_FORMAT: i64 = 3;
/// Metadata grows with the snapshots it lists; what inflates beyond this is not metadata.
const LARGEST_INFLATED: u64 = 2 << 30;

type Refs = BTreeMap<String, SnapshotReference>;

/// Reads table metadata, plain or gzip. `location` names the file in errors.
///
/// # Errors
/// [`CatalogError::Damaged`] where the bytes are not table metadata, [`CatalogError::Newer`] for a newer format version,
/// [`CatalogError::Unsupported`] for types that this version does not read.
pub fn parse(bytes: &[u8], location: &str) -> Result<TableMetadata, CatalogError> {
    let damaged = |reason: String| CatalogError::Damaged { what: format!("metadata file {location}"), reason };
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut inflated = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(bytes).take(LARGEST_INFLATED);
        let _ = decoder.read_to_end(&mut inflated).map_err(|e| damaged(format!("gzip: {e}")))?;
        return parse_json(&inflated, location, damaged);
    }
    parse_json(bytes, location, damaged)
}

/// Reads table metadata from a JSON value, as a catalog's reply carries it.
///
/// # Errors
/// As [`parse`].
pub fn parse_value(json: Value, location: &str) -> Result<TableMetadata, CatalogError> {
    let bytes = serde_json::to_vec(&json)
        .map_err(|e| CatalogError::Damaged { what: location.to_owned(), reason: e.to_string() })?;
    parse(&bytes, location)
}

fn parse_json(
    json: &[u8],
    location: &str,
    damaged: impl Fn(String) -> CatalogError,
) -> Result<TableMetadata, CatalogError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Head {
        format_version: i64,
        #[serde(default)]
        refs: Option<Refs>,
        #[serde(default)]
        last_updated_ms: i64,
    }
    let head: Head = serde_json::from_slice(json).map_err(|e| damaged(e.to_string()))?;
    if head.format_version > NEWEST_FORMAT {
        return Err(CatalogError::Newer {
            what: format!("the table of metadata file {location}"),
            found: format!("format version {}", head.format_version),
            supported: NEWEST_FORMAT.to_string(),
        });
    }
    let refs = head.refs.unwrap_or_default();
    let changes_main = |main: &SnapshotReference| main.retention != plain_branch();
    let restored = head.format_version == 1
        && (refs.keys().any(|name| name != MAIN_BRANCH) || refs.get(MAIN_BRANCH).is_some_and(changes_main));
    if !restored {
        return read(json).map_err(|e| unsupported(json, location).unwrap_or_else(|| damaged(e)));
    }
    restore_refs(json, refs, head.last_updated_ms)
        .map_err(|e| unsupported(json, location).unwrap_or_else(|| damaged(e)))
}

fn read(json: &[u8]) -> Result<TableMetadata, String> {
    serde_json::from_slice(json).map_err(|e| e.to_string())
}

fn plain_branch() -> SnapshotRetention {
    SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None }
}

/// Reads version 1 with its refs, changing neither its times nor its snapshot log (which is completed where it does not
/// end with the current snapshot, and loses what precedes a snapshot that was expired, as the next commit of any
/// implementation would have it).
///
/// Only `main` needs care: setting it writes a log entry. So the entry is taken off first, and setting the ref writes
/// the same one again; or, where the table was changed long after main was moved, one more of the same snapshot.
fn restore_refs(json: &[u8], refs: Refs, last_updated_ms: i64) -> Result<TableMetadata, String> {
    let failed = |e: iceberg::Error| e.to_string();
    let main = refs.get(MAIN_BRANCH).filter(|main| main.retention != plain_branch()).cloned();
    let (value, logged_ms) = without_last_log_entry(json, last_updated_ms, main.is_some())?;
    let plain: TableMetadata = serde_json::from_value(value).map_err(|e| e.to_string())?;
    let mut builder = plain.clone().into_builder(None);
    if let Some(main) = main {
        builder = stamp(builder, &plain, logged_ms).map_err(failed)?.set_ref(MAIN_BRANCH, main).map_err(failed)?;
    }
    for (name, reference) in refs.iter().filter(|(name, _)| *name != MAIN_BRANCH) {
        builder = builder.set_ref(name, reference.clone()).map_err(failed)?;
    }
    let restored = stamp(builder, &plain, last_updated_ms).and_then(TableMetadataBuilder::build).map_err(failed)?;
    let restored = restored.metadata;
    if restored.last_updated_ms() != last_updated_ms
        || list_refs(&restored).map_err(failed)? != refs_with_main(refs, &restored)
    {
        return Err("its refs could not be read back".to_owned());
    }
    Ok(restored)
}

/// The JSON with a snapshot log that ends with the current snapshot, or where `off`, with that entry taken off and the
/// table's time set back to it as far as the crate allows; and that time.
fn without_last_log_entry(json: &[u8], last_updated_ms: i64, off: bool) -> Result<(Value, i64), String> {
    let mut value: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    let current = value.get("current-snapshot-id").and_then(Value::as_i64).filter(|id| *id != -1);
    let (Some(current), Some(fields)) = (current, value.as_object_mut()) else {
        return Ok((value, last_updated_ms));
    };
    let files = fields.get("metadata-log").and_then(Value::as_array);
    let newest_file = files.and_then(|files| files.last()?.get("timestamp-ms")?.as_i64());
    let log = fields.entry("snapshot-log").or_insert(Value::Null);
    if log.is_null() {
        *log = Value::Array(Vec::new());
    }
    let Some(log) = log.as_array_mut() else {
        return Err("snapshot-log is not a list".to_owned());
    };
    let id_of = |entry: &Value| entry.get("snapshot-id").and_then(Value::as_i64);
    if log.last().and_then(id_of) != Some(current) {
        log.push(serde_json::json!({"snapshot-id": current, "timestamp-ms": last_updated_ms}));
    }
    if !off {
        return Ok((value, last_updated_ms));
    }
    let time_of = |entry: &Value| entry.get("timestamp-ms").and_then(Value::as_i64);
    let entry = log.pop();
    let mut time = entry.as_ref().and_then(time_of).unwrap_or(last_updated_ms);
    // The crate reads no table whose time is before that of its newest metadata log entry. Where main was not moved for
    // so long, its entry stays where it is, and the one that is written again follows it.
    let file = newest_file.filter(|file| *file > time);
    if let Some(file) = file {
        time = file;
        if log.last().and_then(id_of) != Some(current) {
            log.extend(entry);
        }
    }
    let _previous = fields.insert("last-updated-ms".to_owned(), time.into());
    Ok((value, time))
}

/// A file may leave `main` out of its refs; the current snapshot says it.
fn refs_with_main(mut refs: Refs, metadata: &TableMetadata) -> Refs {
    if let Some(current) = metadata.current_snapshot_id() {
        let _ = refs
            .entry(MAIN_BRANCH.to_owned())
            .or_insert_with(|| SnapshotReference { snapshot_id: current, retention: plain_branch() });
    }
    refs
}

/// Writes table metadata as its file holds it: JSON, in gzip where the table's property
/// `write.metadata.compression-codec` says so.
///
/// # Errors
/// [`CatalogError::Damaged`] where the metadata cannot be written without loss.
pub fn render(metadata: &TableMetadata) -> Result<Vec<u8>, CatalogError> {
    let json = to_json(metadata)?;
    if !is_gzip(metadata) {
        return Ok(json);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&json).and_then(|()| encoder.finish()).map_err(|e| lossy(metadata, e.to_string()))
}

fn to_json(metadata: &TableMetadata) -> Result<Vec<u8>, CatalogError> {
    let written = match metadata.format_version() {
        FormatVersion::V1 => {
            let refs = list_refs(metadata).map_err(|e| lossy(metadata, e.to_string()))?;
            serde_json::to_value(metadata).and_then(|mut json| {
                if let Some(fields) = json.as_object_mut() {
                    let _previous = fields.insert("refs".to_owned(), serde_json::to_value(refs)?);
                }
                serde_json::to_vec(&json)
            })
        }
        FormatVersion::V2 | FormatVersion::V3 => serde_json::to_vec(metadata),
    };
    written.map_err(|e| lossy(metadata, e.to_string()))
}

fn lossy(metadata: &TableMetadata, reason: String) -> CatalogError {
    CatalogError::Damaged { what: format!("the metadata of the table at {}", metadata.location()), reason }
}

fn is_gzip(metadata: &TableMetadata) -> bool {
    // A codec that metadata cannot have counts as none, in the name and in the bytes alike.
    metadata.metadata_compression_codec().is_ok_and(|codec| codec.name() == "gzip")
}

/// The location of the metadata file that follows `previous`: `<table>/metadata/<version>-<uuid>[.gz].metadata.json`,
/// the version counted up from the previous name, or 0 where there is none or it is not numbered.
pub fn next_location(metadata: &TableMetadata, previous: Option<&str>, fresh: Uuid) -> String {
    let folder = metadata
        .properties()
        .get("write.metadata.path")
        .map_or_else(|| format!("{}/metadata", metadata.location()), |path| path.trim_end_matches('/').to_owned());
    let version = previous.and_then(version_of).and_then(|version| version.checked_add(1)).unwrap_or(0);
    let gzip = if is_gzip(metadata) { ".gz" } else { "" };
    format!("{folder}/{version:05}-{fresh}{gzip}.metadata.json")
}

fn version_of(location: &str) -> Option<u32> {
    let name = location.rsplit('/').next()?;
    let name = name.strip_prefix('v').unwrap_or(name);
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Names the first column whose type this version cannot read; `None` where there is no such column.
fn unsupported(json: &[u8], location: &str) -> Option<CatalogError> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let schemas = value.get("schemas").and_then(Value::as_array).into_iter().flatten();
    let (column, kind) = schemas.chain(value.get("schema")).find_map(|schema| foreign_field(schema, ""))?;
    Some(CatalogError::Unsupported {
        what: format!("column {column} of type {kind} in metadata file {location}"),
        reason: "this type is not read yet; drop the column, or use an engine that reads it".to_owned(),
    })
}

fn foreign_field(kind: &Value, path: &str) -> Option<(String, String)> {
    const KNOWN: [&str; 16] = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "list",
        "map",
    ];
    match kind {
        Value::String(name) => {
            let known = KNOWN.contains(&name.as_str()) || name.starts_with("fixed") || name.starts_with("decimal");
            (!known).then(|| (path.to_owned(), name.clone()))
        }
        Value::Object(nested) => {
            let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let fields = nested.get("fields").and_then(Value::as_array).into_iter().flatten();
            fields
                .filter_map(|field| Some((field.get("name")?.as_str()?, field.get("type")?)))
                .chain(["element", "key", "value"].iter().filter_map(|part| Some((*part, nested.get(*part)?))))
                .find_map(|(name, kind)| foreign_field(kind, &join(name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use iceberg::TableUpdate;
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::conformance::{require, set, small_table};
    use crate::catalog::{Commit, apply};
    use crate::clock::{Clock, ManualClock};
    use crate::ids::{RefName, SnapshotId, TableName};
    use crate::observed::{RefKind, refs_of};

    const VERSIONS: [FormatVersion; 3] = [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3];
    const OWN: RefKind =
        RefKind::Branch { min_snapshots_to_keep: Some(7), max_snapshot_age_ms: Some(5), max_ref_age_ms: None };

    /// A table with two snapshots on main, which has its own retention, and one on a branch; a tag on the first.
    fn table(version: FormatVersion, minutes_ahead: i64) -> (TableMetadata, Arc<dyn Clock>) {
        let name: TableName = "n.t".parse().unwrap();
        let clock = ManualClock::starting_now(3);
        clock.advance_ms(minutes_ahead * 60_000);
        let mut creation = small_table(&name, version);
        creation.location = Some("memory:///n/t".to_owned());
        let mut metadata = apply::create(&name, creation, &clock).unwrap();
        for (id, parent, branch, kind) in
            [(1, None, "main", &OWN), (2, Some(1), "main", &OWN), (3, Some(2), "audit/x", &RefKind::KEPT_BRANCH)]
        {
            clock.advance_ms(1000);
            let now = clock.now().timestamp_millis();
            let snapshot = apply::bare_snapshot(&metadata, id, parent, now, Default::default());
            let updates = vec![
                TableUpdate::AddSnapshot { snapshot },
                set(branch, SnapshotId(id), kind),
                set("closed/y", SnapshotId(1), &RefKind::KEPT_TAG),
            ];
            let commit =
                Commit { table: name.clone(), requirements: vec![require("z", None)], updates, key: clock.fresh_key() };
            metadata = apply::apply(&commit, &metadata, "memory:///n/t/metadata/old.json", &clock).unwrap();
        }
        (metadata, Arc::new(clock))
    }

    fn json(metadata: &TableMetadata) -> Value {
        serde_json::from_slice(&render(metadata).unwrap()).unwrap()
    }

    #[test]
    fn nothing_is_lost_between_writing_and_reading() {
        for version in VERSIONS {
            let (metadata, _) = table(version, 0);
            let read = parse(&render(&metadata).unwrap(), "f").unwrap();
            assert_eq!(read, metadata, "{version}");
            let refs = refs_of(&read);
            assert_eq!(refs.len(), 3);
            assert_eq!(refs[&RefName::main()].kind, OWN);
            assert_eq!(refs[&RefName("audit/x".into())].kind, RefKind::KEPT_BRANCH);
            assert_eq!(refs[&RefName("closed/y".into())].kind, RefKind::KEPT_TAG);
        }
    }

    #[test]
    fn version_1_keeps_its_refs_where_another_clock_is_ahead() {
        let (metadata, _) = table(FormatVersion::V1, 10);
        let read = parse(&render(&metadata).unwrap(), "f").unwrap();
        assert_eq!(read, metadata);
        assert_eq!(refs_of(&read).len(), 3);
    }

    /// The crate refuses a table whose time lies over a minute before its newest metadata log entry.
    #[test]
    fn version_1_is_read_long_after_main_was_moved() {
        let (mut metadata, clock) = table(FormatVersion::V1, 0);
        let (log, mut now) = (metadata.history().to_vec(), metadata.last_updated_ms());
        for name in ["a", "b", "c"] {
            now += 3_600_000;
            let later = ManualClock::new(crate::clock::instant(now).unwrap(), 1);
            let updates = vec![set(name, SnapshotId(1), &RefKind::KEPT_TAG)];
            let commit =
                Commit { table: "n.t".parse().unwrap(), requirements: vec![], updates, key: clock.fresh_key() };
            let next = apply::apply(&commit, &metadata, "memory:///n/t/metadata/old.json", &later).unwrap();
            metadata = parse(&render(&next).unwrap(), "f").unwrap();
            assert_eq!(metadata.last_updated_ms(), now, "{name}");
            assert_eq!(refs_of(&metadata), refs_of(&next), "{name}");
            assert_eq!(metadata.history()[..log.len()], log, "{name}: what was logged stays");
            assert!(metadata.history().len() <= log.len() + 1, "{name}: {:?}", metadata.history());
            assert!(metadata.history().iter().skip(log.len()).all(|entry| entry.snapshot_id == 2), "{name}");
        }
        assert_eq!(refs_of(&metadata)[&RefName::main()].kind, OWN);
    }

    #[test]
    fn version_1_is_read_as_other_writers_leave_it() {
        let (metadata, _) = table(FormatVersion::V1, 0);
        let mut json = json(&metadata);
        // No log at all, and main only as the current snapshot.
        json["snapshot-log"] = Value::Null;
        json["refs"].as_object_mut().unwrap().remove("main");
        let read = parse_value(json.clone(), "f").unwrap();
        assert_eq!(refs_of(&read).len(), 3);
        assert_eq!(read.last_updated_ms(), metadata.last_updated_ms());
        // Without refs, as before they existed.
        json.as_object_mut().unwrap().remove("refs");
        let refs = refs_of(&parse_value(json, "f").unwrap());
        assert_eq!(
            refs.into_iter().map(|(name, at)| (name.0, at.snapshot.0)).collect::<Vec<_>>(),
            [("main".to_owned(), 2)]
        );
    }

    #[test]
    fn a_ref_to_nowhere_is_damage_in_every_version() {
        for version in VERSIONS {
            let mut json = json(&table(version, 0).0);
            json["refs"]["closed/y"]["snapshot-id"] = 77.into();
            let error = parse_value(json, "the-file").unwrap_err();
            assert!(matches!(error, CatalogError::Damaged { .. }), "{version}: {error:?}");
        }
    }

    #[test]
    fn gzip_in_name_and_bytes_alike() {
        let (metadata, clock) = table(FormatVersion::V1, 0);
        let codec = |name: &str| {
            let properties = [("write.metadata.compression-codec".to_owned(), name.to_owned())].into();
            let builder = metadata.clone().into_builder(None).set_properties(properties).unwrap();
            builder.build().unwrap().metadata
        };
        for (name, zipped) in [("gzip", true), ("none", false), ("zstd", false)] {
            let metadata = codec(name);
            let bytes = render(&metadata).unwrap();
            let location = next_location(&metadata, None, clock.fresh_uuid());
            assert_eq!((bytes[0] == 0x1f, location.contains(".gz.")), (zipped, zipped), "{name}");
            assert_eq!(parse(&bytes, &location).unwrap(), metadata);
        }
        let zipped = render(&codec("gzip")).unwrap();
        let error = parse(&zipped[..zipped.len() / 2], "half").unwrap_err();
        assert!(matches!(error, CatalogError::Damaged { .. }), "{error:?}");
    }

    #[test]
    fn names_count_up() {
        let (metadata, clock) = table(FormatVersion::V2, 0);
        let uuid = clock.fresh_uuid();
        let next = |previous| next_location(&metadata, previous, uuid);
        let expected = |version: &str| format!("memory:///n/t/metadata/{version}-{uuid}.metadata.json");
        assert_eq!(next(None), expected("00000"));
        assert_eq!(next(Some("file:///w/t/metadata/00041-abc.metadata.json")), expected("00042"));
        assert_eq!(next(Some("/w/t/metadata/v9.metadata.json")), expected("00010"));
        assert_eq!(next(Some("/w/t/metadata/99999999999999-x.metadata.json")), expected("00000"));
        assert_eq!(next(Some("what")), expected("00000"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (metadata, _) = table(FormatVersion::V3, 0);
        let mut newer = json(&metadata);
        newer["format-version"] = 4.into();
        let error = parse_value(newer, "the-file").unwrap_err();
        assert!(matches!(error, CatalogError::Newer { .. }) && error.to_string().contains("the-file"), "{error}");
        for (kind, column) in [
            (serde_json::json!("variant"), "note"),
            (serde_json::json!("geometry(srid:4326)"), "note"),
            (
                serde_json::json!({"type": "list", "element-id": 9, "element-required": true, "element": "unknown"}),
                "note.element",
            ),
        ] {
            let mut foreign = json(&metadata);
            foreign["schemas"][0]["fields"][1]["type"] = kind;
            let error = parse_value(foreign, "the-file").unwrap_err();
            assert!(matches!(error, CatalogError::Unsupported { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("column {column} ")), "{error}");
        }
        for bad in [&b""[..], b"{}", b"[]", b"\x1f\x8b", b"{\"format-version\": 2}", b"{\"format-version\": 0}"] {
            let error = parse(bad, "the-file").unwrap_err();
            assert!(matches!(error, CatalogError::Damaged { .. }) && error.to_string().contains("the-file"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn damaged_bytes_never_panic(version in 0usize..3, at in 0usize..4000, with in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = render(&table(VERSIONS[version], 0).0).unwrap();
            let at = at % bytes.len();
            if cut { bytes.truncate(at) } else { bytes[at] = with }
            // What is still metadata can also be listed and written.
            if let Ok(read) = parse(&bytes, "f") {
                let _refs = refs_of(&read);
                let _written = render(&read);
            }
        }
    }
}
