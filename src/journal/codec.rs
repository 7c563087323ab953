//! How records are written as bytes, and logs as paths: the same for every store.
//!
//! A record is one line of JSON and a newline, so that `cat` and `jq` read a log. A newer calve may write what this
//! one does not know: such a record is returned with its envelope, its event [`Event::Unrecognised`], and the log is
//! never appended to. Source: `protocol.md`, "Journal".

use chrono::{DateTime, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::record::{Event, FORMAT, Record};
use super::{JournalError, LogKey};
use crate::digest::Digest;
use crate::ids::Owner;

/// Longest catalog segment kept in full; file systems take 255 bytes.
const LONGEST_SEGMENT: usize = 180;

/// `<catalog>/<table-uuid>/<id>`: the folder of a log under the root, each part one safe path segment.
pub fn log_path(key: &LogKey) -> String {
    format!("{}/{}/{}", segment(&key.catalog.0), key.table, segment(&key.publication.to_string()))
}

/// `<00000001>.json`: the name of a record in its log's folder.
pub fn record_name(number: u32) -> String {
    format!("{number:08}.json")
}

/// The number in a record's name; `None` for any other name.
pub fn record_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".json")?.parse().ok()?;
    (number > 0 && record_name(number) == name).then_some(number)
}

/// `<root>/<log>/<00000001>.json`, for messages.
pub fn record_path(root: &str, key: &LogKey, number: u32) -> String {
    format!("{}/{}/{}", root.trim_end_matches('/'), log_path(key), record_name(number))
}

/// `statements/sha256/<2 hex>/<hex>.json`: where a statement is under the root.
pub fn statement_path(digest: &Digest) -> String {
    let hex = digest.hex();
    let shard: String = hex.chars().take(2).collect();
    format!("statements/sha256/{shard}/{hex}.json")
}

/// Any text as one path segment: never empty, never hidden, never `..`, without separators. Two texts never give the
/// same segment: `%` itself is encoded, and only a text too long for a name is cut and told apart by its digest.
pub fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-_:+@=~".contains(&byte) || (byte == b'.' && at > 0);
        match plain {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    if encoded.is_empty() {
        return "%".to_owned();
    }
    if encoded.len() <= LONGEST_SEGMENT {
        return encoded;
    }
    let start: String = encoded.chars().take(100).collect();
    format!("{start}%~{}", Digest::of_bytes(text.as_bytes()).hex())
}

/// The text that a segment stands for; `None` for one that was cut, and for names that are none of ours.
pub fn text_of_segment(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            plain => bytes.push(plain),
        }
    }
    String::from_utf8(bytes).ok().filter(|text| self::segment(text) == segment)
}

/// A record as bytes. `path` names it in errors.
pub fn encode(path: &str, record: &Record) -> Result<Vec<u8>, JournalError> {
    let impossible = |reason: String| JournalError::Impossible { path: path.to_owned(), number: record.number, reason };
    if record.number == 0 {
        return Err(impossible("records are numbered from 1".to_owned()));
    }
    if matches!(record.event, Event::Unrecognised) || record.format != FORMAT {
        return Err(impossible(format!("only events of format {FORMAT} are written")));
    }
    let mut bytes = serde_json::to_vec(record).map_err(|error| impossible(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a record back. `path` names it in errors; `number` is the one its name has.
pub fn decode(path: &str, number: u32, bytes: &[u8]) -> Result<Record, JournalError> {
    let damaged = |reason: String| JournalError::Damaged { path: path.to_owned(), reason };
    let record = match serde_json::from_slice::<Record>(bytes) {
        Ok(record) => record,
        Err(error) => newer(path, bytes)?.ok_or_else(|| damaged(error.to_string()))?,
    };
    if record.number != number {
        return Err(damaged(format!("it says it is number {}, and its name says {number}", record.number)));
    }
    Ok(record)
}

/// A record of a newer format by its envelope; `None` where it is not of a newer format.
fn newer(path: &str, bytes: &[u8]) -> Result<Option<Record>, JournalError> {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: u32,
    }
    #[derive(Deserialize)]
    struct Envelope {
        format: u32,
        number: u32,
        id: Uuid,
        at: DateTime<Utc>,
        by: Owner,
    }
    match serde_json::from_slice::<FormatOnly>(bytes) {
        Ok(FormatOnly { format }) if format > FORMAT => {
            let Envelope { format, number, id, at, by } = serde_json::from_slice(bytes)
                .map_err(|_| JournalError::Newer { path: path.to_owned(), found: format, supported: FORMAT })?;
            Ok(Some(Record { format, number, id, at, by, event: Event::Unrecognised }))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: &str = r#"{"format":1,"number":3,"id":"00000000-0000-0000-0000-000000000009","at":"2013-08-09T00:00:00Z",
        "by":"ann","event":{"event":"lease-released","holder":"00000000-0000-0000-0000-000000000001"}}"#;

    #[test]
    fn segments_are_safe_and_distinct() {
        assert_eq!(segment("repair-07~2"), "repair-07~2");
        assert_eq!(segment("manual__2013-08-09T00:00:00+00:00"), "manual__2013-08-09T00:00:00+00:00");
        assert_eq!(segment("https://h:1/a b?c"), "https:%2F%2Fh:1%2Fa%20b%3Fc");
        assert_eq!(segment(".."), "%2E.");
        assert_eq!(segment("."), "%2E");
        assert_ne!(segment(""), "");
        assert_ne!(segment("%2E"), segment("."));
        assert_ne!(segment("a/b"), segment("a%2Fb"));
        for text in ["repair-07~2", "https://h:1/a b?c", "..", "%2E", "é"] {
            assert_eq!(text_of_segment(&segment(text)).as_deref(), Some(text));
        }
        let (long, longer) = ("é".repeat(300), "é".repeat(301));
        assert!(segment(&long).len() <= LONGEST_SEGMENT);
        assert_ne!(segment(&long), segment(&longer));
        for none in ["%", "%2", "%zz", "%2e", "a b", "..", &segment(&long)] {
            assert_eq!(text_of_segment(none), None, "{none}");
        }
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(record_name(1), "00000001.json");
        assert_eq!(record_number("00000012.json"), Some(12));
        for foreign in ["00000000.json", "1.json", "+0000001.json", "00000001.json.tmp", ".x.json", "000000001.json"] {
            assert_eq!(record_number(foreign), None, "{foreign}");
        }
        assert_eq!(record_number(&record_name(u32::MAX)), Some(u32::MAX));
    }

    #[test]
    fn an_unknown_event_with_fields_is_unrecognised() {
        let text = LEASE.replace("lease-released", "teleported").replace("\"holder\"", "\"deep\":{\"a\":[1]},\"x\"");
        let record = decode("p", 3, text.as_bytes()).unwrap();
        assert!(matches!(record.event, Event::Unrecognised));
        assert_eq!(record.by, Owner("ann".to_owned()));
    }

    #[test]
    fn a_newer_format_is_read_by_its_envelope() {
        // A known event that changed shape, under a newer format.
        let text = LEASE.replace("\"format\":1", "\"format\":2").replace("holder", "holders");
        let record = decode("p", 3, text.as_bytes()).unwrap();
        assert_eq!((record.format, record.number), (2, 3));
        assert!(matches!(record.event, Event::Unrecognised));
        // The same under our own format is damage.
        let text = LEASE.replace("holder", "holders");
        assert!(matches!(decode("p", 3, text.as_bytes()), Err(JournalError::Damaged { .. })));
        // A newer envelope that cannot be read is said to be newer.
        let text = LEASE.replace("\"format\":1", "\"format\":7").replace("\"by\":", "\"author\":");
        assert!(matches!(
            decode("p", 3, text.as_bytes()),
            Err(JournalError::Newer { found: 7, supported: FORMAT, .. })
        ));
    }

    #[test]
    fn damage_is_named() {
        assert!(decode("p", 3, LEASE.as_bytes()).is_ok());
        for bad in ["", "{", "null", &LEASE[..LEASE.len() - 1], &LEASE.replace("2013", "x")] {
            match decode("some/path", 3, bad.as_bytes()) {
                Err(JournalError::Damaged { path, .. }) => assert_eq!(path, "some/path"),
                other => panic!("{bad}: {other:?}"),
            }
        }
        assert!(matches!(decode("p", 4, LEASE.as_bytes()), Err(JournalError::Damaged { .. })));
    }
}
