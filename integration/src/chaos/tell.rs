//! What the command tells of a publication.

use std::fmt;

use serde_json::Value;

use super::process::Ended;

/// Where a publication stands, as the command tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// Final: it is published.
    Published,
    /// Final: it is not, and never will be.
    Closed,
    /// It was never begun.
    Unknown,
    /// A seal is there, and it may be published.
    Sealed,
    /// A seal is there, and main, or the shape of the table, has moved since.
    Moved,
    /// There is no valid seal.
    Open,
    /// Its branch is gone.
    Gone,
    /// A person has to look; with the state.
    Escalated(String),
    /// Nothing: the process was killed, or could not find out.
    Nothing,
}

impl Told {
    /// What `reconcile` found.
    pub(super) fn of_finding(finding: &Value) -> Self {
        match finding.get("state").and_then(Value::as_str) {
            Some("published") => Self::Published,
            Some("closed") => Self::Closed,
            Some("unknown") => Self::Unknown,
            Some("sealed") => Self::Sealed,
            Some("moved") => Self::Moved,
            Some("open" | "subject-moved" | "foreign") => Self::Open,
            Some("gone") => Self::Gone,
            // Somebody else made it visible, or removed its receipt: readers see it, and evidence covers it.
            Some("bypassed" | "receipt-removed") if finding.get("sealed") == Some(&Value::Bool(true)) => {
                Self::Published
            }
            Some(other) => Self::Escalated(other.to_owned()),
            None => Self::Nothing,
        }
    }

    /// What the end of a process tells of its publication.
    pub(super) fn of(verb: &str, ended: &Ended) -> Self {
        let report = ended.report();
        match (verb, ended.code) {
            (_, None) => Self::Nothing,
            ("publish" | "run", Some(0)) => Self::Published,
            ("abandon", Some(0)) => Self::Closed,
            ("reconcile", Some(_)) => Self::of_finding(report.get("finding").unwrap_or(&Value::Null)),
            ("publish" | "abandon", Some(_)) => match Self::of_finding(report.get("finding").unwrap_or(&Value::Null)) {
                told @ (Self::Published | Self::Closed | Self::Moved) => told,
                _ => Self::Nothing,
            },
            _ => Self::Nothing,
        }
    }

    /// Is it the last word?
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Published | Self::Closed)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published => f.write_str("published"),
            Self::Closed => f.write_str("closed"),
            Self::Unknown => f.write_str("unknown"),
            Self::Sealed => f.write_str("sealed"),
            Self::Moved => f.write_str("moved"),
            Self::Open => f.write_str("open"),
            Self::Gone => f.write_str("gone"),
            Self::Escalated(state) => write!(f, "escalated ({state})"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// What is wrong with an exit code of `reconcile` for the state that it tells. Source: `protocol.md`, "Outcomes and exit
/// codes".
pub(super) fn misfit(ended: &Ended) -> Option<String> {
    let (report, code) = (ended.report(), ended.code?);
    let finding = report.get("finding")?;
    let fits: &[i32] = match finding.get("state").and_then(Value::as_str)? {
        "published" => &[0],
        "closed" | "open" => &[14],
        "sealed" => match finding.get("sent").and_then(Value::as_str) {
            Some("none" | "no-journal") => &[14],
            Some("rejected" | "conflicted") => &[13],
            _ => &[20],
        },
        "moved" => &[11, 12],
        "subject-moved" | "foreign" => &[10],
        "unknown" => &[2],
        "lost" => &[20],
        "bypassed" | "receipt-removed" => &[0, 21],
        _ => &[21],
    };
    let state = finding.get("state").and_then(Value::as_str).unwrap_or_default();
    (!fits.contains(&code)).then(|| format!("reconcile tells {state} with exit code {code}, not {fits:?}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ended(code: i32, out: &str) -> Ended {
        Ended {
            code: Some(code),
            out: out.to_owned(),
            err: String::new(),
            took: Duration::ZERO,
            hung: false,
            rest: None,
        }
    }

    #[test]
    fn a_code_that_a_state_does_not_have_is_seen() {
        let found = |code, state: &str| misfit(&ended(code, &format!("{{\"finding\":{state}}}")));
        assert_eq!(found(0, r#"{"state":"published"}"#), None);
        assert_eq!(found(20, r#"{"state":"sealed","sent":"in-flight"}"#), None);
        assert!(found(14, r#"{"state":"sealed","sent":"in-flight"}"#).is_some());
        assert!(found(0, r#"{"state":"closed"}"#).is_some());
    }

    #[test]
    fn publish_tells_what_is_final_and_what_moved() {
        let told = |verb, code, state: &str| Told::of(verb, &ended(code, &format!("{{\"finding\":{state}}}")));
        assert_eq!(told("publish", 13, r#"{"state":"closed"}"#), Told::Closed);
        assert_eq!(told("publish", 20, r#"{"state":"sealed","sent":"in-flight"}"#), Told::Nothing);
        assert_eq!(told("publish", 11, r#"{"state":"moved"}"#), Told::Moved);
        assert_eq!(told("abandon", 13, r#"{"state":"published"}"#), Told::Published);
        assert_eq!(Told::of("publish", &ended(0, "")), Told::Published);
        assert_eq!(told("reconcile", 0, r#"{"state":"bypassed","sealed":true}"#), Told::Published);
        assert!(!told("reconcile", 21, r#"{"state":"bypassed","sealed":false}"#).is_final());
    }
}
