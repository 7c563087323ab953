//! A clock that is ahead of the catalog's: what it dates keeps everybody from changing the table until that time has come.
//!
//! Catalogs date what they do by their own clock, and refuse what would be older than the newest snapshot. So nothing is
//! committed by a clock that is ahead. One that is behind harms nobody: snapshots are dated after the table's last change.
//!
//! Source: RFC 9110, 6.6.1 (`Date`); Iceberg, table metadata (`last-updated-ms`).

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Duration, SecondsFormat, Utc};

/// How far apart the clocks may be.
const ALLOWED: Duration = Duration::minutes(5);

/// How this machine's clock stands to the catalog's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skew {
    Within,
    Ahead,
    Behind,
}

/// Compares the two, with both times taken at the same moment.
pub(super) fn compare(ours: DateTime<Utc>, theirs: DateTime<Utc>) -> Skew {
    let ahead = ours.signed_duration_since(theirs);
    if ahead > ALLOWED {
        Skew::Ahead
    } else if ahead < -ALLOWED {
        Skew::Behind
    } else {
        Skew::Within
    }
}

/// The two clocks as they stood at the last answer to a read.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<Option<(DateTime<Utc>, DateTime<Utc>)>>);

impl Clocks {
    /// Notes when an answer came by this clock, and when it was made by the catalog's.
    pub(super) fn note(&self, ours: DateTime<Utc>, theirs: DateTime<Utc>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.replace((ours, theirs)).map(|(ours, theirs)| compare(ours, theirs));
        let now = compare(ours, theirs);
        if now == Skew::Behind && known != Some(Skew::Behind) {
            tracing::warn!(
                "this machine's clock is behind the catalog's: it says {}, the catalog's says {}; set it, e.g. with NTP",
                shown(ours),
                shown(theirs)
            );
        }
    }

    /// Why nothing may be committed, where this clock is ahead.
    pub(super) fn objection(&self) -> Option<String> {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, theirs) = seen.filter(|(ours, theirs)| compare(*ours, *theirs) == Skew::Ahead)?;
        Some(format!(
            "this machine's clock is ahead of the catalog's: it says {}, the catalog's says {}; a snapshot of the future \
             would keep everybody from changing the table until then: set this machine's clock, e.g. with NTP",
            shown(ours),
            shown(theirs)
        ))
    }
}

fn shown(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone as _;

    use super::*;

    #[test]
    fn five_minutes_are_allowed_either_way() {
        let theirs = Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap();
        let day = 24 * 60 * 60;
        for (off, expected) in [
            (0, Skew::Within),
            (300, Skew::Within),
            (-300, Skew::Within),
            (301, Skew::Ahead),
            (day, Skew::Ahead),
            (-301, Skew::Behind),
            (-day, Skew::Behind),
        ] {
            let clocks = Clocks::default();
            assert_eq!(clocks.objection(), None);
            let ours = theirs + Duration::seconds(off);
            assert_eq!(compare(ours, theirs), expected, "{off}");
            clocks.note(ours, theirs);
            assert_eq!(clocks.objection().is_some(), expected == Skew::Ahead, "{off}");
            clocks.note(theirs, theirs);
            assert_eq!(clocks.objection(), None, "the last answer counts");
        }
    }
}
