//! What can happen to one request.

use std::fmt;
use std::time::Duration;

/// What happens to one request and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is forwarded, and its answer passed back.
    Pass,
    /// The client's connection is closed, and nothing is forwarded.
    DropBefore,
    /// The catalog answers, and the client's connection is closed without a byte of it.
    DropAfter,
    /// Forwarded so much later.
    Delay(Duration),
    /// Forwarded at once, answered so much later.
    DelayAnswer(Duration),
    /// Forwarded twice, one after the other; one of the two answers is passed back.
    Replay(Which),
    /// This answer in place of the catalog's own.
    Answer {
        /// Whether the catalog decides the request.
        moment: Moment,
        /// What the client gets.
        answer: Answer,
    },
    /// A redirect in place of the catalog's own answer.
    Redirect {
        /// Whether the catalog decides the request.
        moment: Moment,
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Where to; the very same target if `None`, which tempts clients to send the request again.
        to: Option<String>,
    },
    /// The catalog answers, and the client gets half of the body, of which all was announced. Then its connection is
    /// closed.
    Cut {
        /// Whether the body is sent in chunks; else its length is in the head.
        chunked: bool,
    },
    /// Kept until it is released.
    Hold(HoldWhat),
}

/// On which side of the catalog's decision a fault lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request is not forwarded.
    Before,
    /// The request is forwarded and the catalog has answered it.
    After,
}

/// Which answer to a request that was forwarded twice is passed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The second.
    Second,
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldWhat {
    /// The request; the client's connection is closed at once. The request is forwarded when it is released.
    Request,
    /// The request; the client waits, and gets the answer after the release if it is still there.
    Open,
    /// The answer; the request is forwarded at once, and the client waits.
    Answer,
}

/// An answer that the catalog did not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, 200 to 599.
    pub status: u16,
    /// The value of `Content-Type`; empty for none.
    pub content_type: String,
    /// The value of `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: String,
}

const HTML: &str =
    "<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to continue</h1></body></html>";
const OTHERS_JSON: &str = r#"{"status":"ok","service":"inventory","items":[]}"#;

impl Answer {
    /// A JSON body, whosever it is.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "application/json".to_owned(), retry_after: None, body: body.into() }
    }

    /// A page of HTML, as gateways and login walls send it.
    pub fn html(status: u16) -> Self {
        Self { content_type: "text/html; charset=utf-8".to_owned(), ..Self::json(status, HTML) }
    }

    /// JSON that has nothing to do with Iceberg.
    pub fn others_json(status: u16) -> Self {
        Self::json(status, OTHERS_JSON)
    }

    /// No body at all.
    pub fn empty(status: u16) -> Self {
        Self { content_type: String::new(), ..Self::json(status, "") }
    }

    /// An error in the form of the REST specification's `ErrorModel`.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let error = serde_json::json!({ "error": { "message": message, "type": kind, "code": status } });
        Self::json(status, error.to_string())
    }
}

/// What a rule may end with, for messages.
pub(super) const GRAMMAR: &str = "pass, drop-before, drop-after, delay TIME, delay-answer TIME, replay [first|second], \
     answer STATUS [BODY], answer-after STATUS [BODY], redirect STATUS [TO], redirect-after STATUS [TO], cut [chunked], \
     hold [open|answer]; TIME is like 2s or 500ms, BODY is html, json, empty, error or text in quotes, and \
     retry-after=SECONDS may stand before it";

impl Fault {
    /// Reads the words that a rule ends with.
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Err(format!("it names no fault: {GRAMMAR}")),
            ["pass"] => Ok(Self::Pass),
            ["drop-before"] => Ok(Self::DropBefore),
            ["drop-after"] => Ok(Self::DropAfter),
            ["delay", time] => duration(time).map(Self::Delay),
            ["delay-answer", time] => duration(time).map(Self::DelayAnswer),
            ["replay"] | ["replay", "second"] => Ok(Self::Replay(Which::Second)),
            ["replay", "first"] => Ok(Self::Replay(Which::First)),
            ["answer", rest @ ..] => Ok(Self::Answer { moment: Moment::Before, answer: answer(rest)? }),
            ["answer-after", rest @ ..] => Ok(Self::Answer { moment: Moment::After, answer: answer(rest)? }),
            ["redirect", rest @ ..] => redirect(Moment::Before, rest),
            ["redirect-after", rest @ ..] => redirect(Moment::After, rest),
            ["cut"] => Ok(Self::Cut { chunked: false }),
            ["cut", "chunked"] => Ok(Self::Cut { chunked: true }),
            ["hold"] => Ok(Self::Hold(HoldWhat::Request)),
            ["hold", "open"] => Ok(Self::Hold(HoldWhat::Open)),
            ["hold", "answer"] => Ok(Self::Hold(HoldWhat::Answer)),
            other => Err(format!("{:?} is no fault: {GRAMMAR}", other.join(" "))),
        }
    }
}

fn status(word: &str, allowed: std::ops::RangeInclusive<u16>) -> Result<u16, String> {
    let status = word.parse().ok().filter(|status| allowed.contains(status));
    status.ok_or_else(|| format!("{word:?} is no status from {} to {}", allowed.start(), allowed.end()))
}

fn answer(words: &[&str]) -> Result<Answer, String> {
    let [code, rest @ ..] = words else { return Err("an answer needs a status, e.g. answer-after 503".to_owned()) };
    let code = status(code, 200..=599)?;
    let (retry_after, rest) = match rest {
        [first, rest @ ..] => match first.strip_prefix("retry-after=") {
            Some(seconds) => {
                let seconds = seconds.parse().map_err(|_| format!("{seconds:?} is no number of seconds"))?;
                (Some(seconds), rest)
            }
            None => (None, words.get(1..).unwrap_or_default()),
        },
        [] => (None, rest),
    };
    let forged = || Answer::error(code, "ForgedByProxy", "an answer that the catalog did not give");
    let answer = match rest {
        [] if code < 300 => Answer::empty(code),
        [] | ["error"] => forged(),
        ["html"] => Answer::html(code),
        ["json"] => Answer::others_json(code),
        ["empty"] => Answer::empty(code),
        [text] if text.trim_start().starts_with(['{', '[']) => Answer::json(code, *text),
        [text] => Answer { content_type: "text/plain; charset=utf-8".to_owned(), ..Answer::json(code, *text) },
        more => return Err(format!("put the body in quotes: \"{}\"", more.join(" "))),
    };
    Ok(Answer { retry_after, ..answer })
}

fn redirect(moment: Moment, words: &[&str]) -> Result<Fault, String> {
    let (code, to) = match words {
        [code] => (code, None),
        [code, to] => (code, Some((*to).to_owned())),
        _ => return Err("a redirect needs a status, and may say where to, e.g. redirect 307 http://other/".to_owned()),
    };
    if to.as_ref().is_some_and(|to| to.chars().any(|c| c.is_control())) {
        return Err("a redirect's target holds no control characters".to_owned());
    }
    match status(code, 300..=399)? {
        status @ (301 | 302 | 303 | 307 | 308) => Ok(Fault::Redirect { moment, status, to }),
        other => Err(format!("{other} is no redirect: 301, 302, 303, 307 or 308")),
    }
}

fn duration(word: &str) -> Result<Duration, String> {
    let parsed = match word.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => word.strip_suffix('s').and_then(|number| number.parse().ok()).map(Duration::from_secs),
    };
    let limit = Duration::from_secs(24 * 60 * 60);
    parsed.filter(|time| *time <= limit).ok_or_else(|| format!("{word:?} is no time up to a day, like 2s or 500ms"))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = |moment: &Moment| match moment {
            Moment::Before => "",
            Moment::After => "-after",
        };
        match self {
            Self::Pass => f.write_str("pass"),
            Self::DropBefore => f.write_str("drop-before"),
            Self::DropAfter => f.write_str("drop-after"),
            Self::Delay(time) => write!(f, "delay {}ms", time.as_millis()),
            Self::DelayAnswer(time) => write!(f, "delay-answer {}ms", time.as_millis()),
            Self::Replay(Which::First) => f.write_str("replay first"),
            Self::Replay(Which::Second) => f.write_str("replay second"),
            Self::Answer { moment, answer } => write!(f, "answer{} {}", suffix(moment), answer.status),
            Self::Redirect { moment, status, .. } => write!(f, "redirect{} {status}", suffix(moment)),
            Self::Cut { chunked: false } => f.write_str("cut"),
            Self::Cut { chunked: true } => f.write_str("cut chunked"),
            Self::Hold(HoldWhat::Request) => f.write_str("hold"),
            Self::Hold(HoldWhat::Open) => f.write_str("hold open"),
            Self::Hold(HoldWhat::Answer) => f.write_str("hold answer"),
        }
    }
}
