//! Values of options.

use chrono::Duration;

use crate::journal::record::Source;

/// The least memory that checks can work in.
const LEAST_MEMORY: u64 = 16 << 20;

/// A size such as `512MB` or `1GiB`, in bytes.
pub(super) fn size(given: &str) -> Result<u64, String> {
    let wrong = || "a size such as 512MB or 1GiB was expected".to_owned();
    let end = given.find(|c: char| !c.is_ascii_digit()).unwrap_or(given.len());
    let (number, unit) = given.split_at_checked(end).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(unit).ok_or_else(|| "it is larger than any machine".to_owned())?;
    if bytes < LEAST_MEMORY {
        return Err("at least 16MiB is needed".to_owned());
    }
    Ok(bytes)
}

/// A time such as `90m`, `24h` or `7d`; at least a second, at most a year.
pub(super) fn duration(given: &str) -> Result<Duration, String> {
    let wrong = || "a time such as 90m, 24h or 7d was expected, up to 366d".to_owned();
    let (at, unit) = given.char_indices().next_back().ok_or_else(wrong)?;
    let number: i64 = given.get(..at).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).filter(|seconds| (1..=366 * 86_400).contains(seconds));
    seconds.and_then(Duration::try_seconds).ok_or_else(wrong)
}

/// `NAME=REVISION`.
pub(super) fn source(given: &str) -> Result<Source, String> {
    match given.split_once('=') {
        Some((name, revision)) if !name.trim().is_empty() && !revision.trim().is_empty() => {
            Ok(Source { name: name.trim().to_owned(), revision: revision.trim().to_owned() })
        }
        _ => Err("NAME=REVISION was expected, e.g. ledger=4711".to_owned()),
    }
}

/// `KEY=VALUE`; the value may be empty.
pub(super) fn property(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE was expected, e.g. write.parquet.compression-codec=zstd".to_owned()),
    }
}

/// Words that say something.
pub(super) fn text(given: &str) -> Result<String, String> {
    match given.trim() {
        "" => Err("say why, in a few words".to_owned()),
        words => Ok(words.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (given, bytes) in
            [("512MB", 512_000_000), ("1GiB", 1 << 30), ("2 g", 2 << 30), ("16777216", 16 << 20), ("64mib", 64 << 20)]
        {
            assert_eq!(size(given), Ok(bytes), "{given}");
        }
        for bad in ["", "MB", "1.5GB", "-1GB", "12PB", "99999999999999999999", "18446744073709551615GB", "1MB", "é"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        for (given, seconds) in [("30s", 30), ("90m", 5_400), ("24h", 86_400), ("7d", 604_800), ("366d", 31_622_400)] {
            assert_eq!(duration(given), Ok(Duration::seconds(seconds)), "{given}");
        }
        for bad in ["", "h", "24", "0h", "-1h", "367d", "9223372036854775807d", "1w", "1é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pairs() {
        assert_eq!(source("a=b=c"), Ok(Source { name: "a".to_owned(), revision: "b=c".to_owned() }));
        assert!(source("a").is_err() && source("=b").is_err() && source("a=").is_err());
        assert_eq!(property("k="), Ok(("k".to_owned(), String::new())));
        assert!(property("k").is_err() && property("=v").is_err());
        assert!(text(" ").is_err());
    }
}
