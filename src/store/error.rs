//! What an error of a store means, in words without secrets.
//!
//! OpenDAL's errors carry the request's URI, the response's headers and whatever the store wrote. Of these only what
//! the store wrote is kept, shortened; every known secret in it, and every query of a URL, is replaced.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use opendal::{Error, ErrorKind};

/// Longest part of a store's answer that is shown, in characters.
const LONGEST: usize = 300;

/// What OpenDAL says where it has no credentials to sign a request with.
const UNSIGNED: &str = "signing http request";

/// What OpenDAL says where neither a property nor the environment names a region.
const NO_REGION: &str = "region is missing";

/// By which codes S3 says that it does not know the key, or that the secret is not the key's.
const WRONG_KEY: [&str; 2] = ["SignatureDoesNotMatch", "InvalidAccessKeyId"];

/// Kinds of failures that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such object.
    Missing,
    /// A condition of the request does not hold: for a put, the name is taken.
    Exists,
    /// The credentials do not allow it, or are not known.
    Forbidden,
    /// The key or its secret is wrong.
    Key,
    /// The store has no room, or a quota is used up.
    Full,
    /// The bucket does not exist, or a property is wrong or missing: nothing will help but another configuration.
    Configuration,
    /// The store did not answer, or answered that it failed; it may have done what was asked.
    Unclear,
    /// Anything else.
    Other,
}

/// A failure of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it means.
    pub kind: FailureKind,
    /// In words, without secrets.
    pub reason: String,
}

/// Replaces secrets in what others wrote. `Debug` shows none.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Vec<String>>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

/// Properties whose values may be shown; any other may be a secret.
const SHOWN: [&str; 14] = [
    "region",
    "endpoint",
    "path-style",
    "force-virtual",
    "account-name",
    "project-id",
    "service.host",
    "service.path",
    "anonymous",
    "disable",
    "profile",
    "sse.type",
    "warehouse",
    "role-arn",
];

/// But not where one of these is in its name.
const SECRET: [&str; 6] = ["secret", "token", "sas", "account-key", "password", "credential"];

impl Redactor {
    /// One that knows the values of all properties that may be secrets.
    pub fn of<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in properties {
            // An account's name is in some names, and may be any word.
            let secret = SECRET.iter().any(|word| name.contains(word));
            if value.len() >= 6 && (secret || !SHOWN.iter().any(|shown| name.contains(shown))) {
                secrets.push(value.to_owned());
            }
        }
        // The longest first: a part of a secret may be another's whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(Arc::new(secrets))
    }

    /// The text on one line, shortened, without secrets and without queries of URLs.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.iter() {
            text = text.replace(secret.as_str(), "***");
        }
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            match (word.contains("://"), word.split_once('?')) {
                (true, Some((url, _))) => words.push(format!("{url}?…")),
                _ => words.push(word.to_owned()),
            }
        }
        let line = words.join(" ");
        match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
            None => line,
        }
    }

    /// What an error means.
    pub fn failure(&self, error: &Error) -> Failure {
        let status = status_of(error);
        let answer = answer_of(error);
        let full = ["QuotaExceeded", "StorageFull", "DiskFull", "OverQuota", "InsufficientStorage"];
        let kind = match error.kind() {
            // Nothing was sent: no key, token or role was found for this store.
            _ if answer == UNSIGNED => FailureKind::Forbidden,
            _ if WRONG_KEY.iter().any(|code| answer.starts_with(code)) => FailureKind::Key,
            _ if status == Some(507) || full.iter().any(|word| answer.contains(word)) => FailureKind::Full,
            ErrorKind::NotFound => FailureKind::Missing,
            ErrorKind::PermissionDenied => FailureKind::Forbidden,
            ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists => FailureKind::Exists,
            ErrorKind::ConfigInvalid | ErrorKind::Unsupported => FailureKind::Configuration,
            ErrorKind::RateLimited => FailureKind::Unclear,
            _ if status == Some(401) => FailureKind::Forbidden,
            _ if status.is_some_and(|status| (400..500).contains(&status) && status != 408 && status != 499) => {
                FailureKind::Other
            }
            _ => FailureKind::Unclear,
        };
        if kind == FailureKind::Configuration && answer.contains(NO_REGION) {
            let reason = "`s3.region` is missing: set it to the region of the bucket, or AWS_REGION in the environment; \
                          a store that is not Amazon's needs none beside `s3.endpoint`";
            return Failure { kind, reason: reason.to_owned() };
        }
        let mut reason = match (kind, status) {
            (FailureKind::Key, _) => {
                "the key is wrong: check `s3.access-key-id` and `s3.secret-access-key`; the store answered".to_owned()
            }
            (FailureKind::Configuration, None) => String::new(),
            (FailureKind::Forbidden, None) => "no credentials for this store can be used".to_owned(),
            (_, Some(status)) => format!("the store answered {status}"),
            (_, None) => "the store gave no usable answer".to_owned(),
        };
        let mut said: Vec<String> = vec![self.clean(&answer)];
        let mut cause = error.source();
        while let Some(inner) = cause {
            said.push(self.clean(&inner.to_string()));
            cause = inner.source();
        }
        said.dedup();
        for words in said.iter().filter(|words| !words.is_empty()) {
            // Causes are often repeated by what they caused.
            if !reason.contains(words.as_str()) {
                reason.push_str(if reason.is_empty() { "" } else { ": " });
                reason.push_str(words);
            }
        }
        Failure { kind, reason }
    }
}

/// The HTTP status that an error came with.
fn status_of(error: &Error) -> Option<u16> {
    // The context has no accessor: it is in the error's words as `response: Parts { status: 503, …`.
    let words = error.to_string();
    let (_, after) = words.split_once("response: Parts { status: ")?;
    after.split(',').next()?.trim().parse().ok()
}

/// What the store wrote, without the wrapping that OpenDAL gives an S3 error.
fn answer_of(error: &Error) -> String {
    let message = error.message();
    let Some(fields) = message.strip_prefix("S3Error { code: \"") else { return message.to_owned() };
    let (code, rest) = fields.split_once('"').unwrap_or((fields, ""));
    let said =
        rest.strip_prefix(", message: \"").and_then(|rest| rest.split_once("\", resource: ")).map(|(said, _)| said);
    match said {
        Some(said) if !said.is_empty() => format!("{code}: {said}"),
        _ => code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_queries_are_replaced() {
        let known = Redactor::of([("s3.secret-access-key", "wJalrXUt"), ("s3.endpoint", "http://127.0.0.1:1")]);
        let cleaned = known.clean("no wJalrXUt\n at http://127.0.0.1:1/b?X-Amz-Signature=abc end");
        assert_eq!(cleaned, "no *** at http://127.0.0.1:1/b?… end");
        assert_eq!(known.clean(&"é".repeat(400)).chars().count(), LONGEST + 1);
        assert!(!format!("{known:?}").contains("wJalrXUt"));
        let sas = Redactor::of([("adls.sas-token.mywarehouse", "sig=abc")]);
        assert_eq!(sas.clean("no sig=abc"), "no ***");
    }

    #[test]
    fn kinds() {
        let of = |kind, status: Option<u16>, message: &str| {
            let mut error = Error::new(kind, message);
            if let Some(status) = status {
                error = error.with_context("response", format!("Parts {{ status: {status}, version: HTTP/1.1 }}"));
            }
            Redactor::default().failure(&error)
        };
        use ErrorKind::{ConditionNotMatch, ConfigInvalid, NotFound, PermissionDenied, Unexpected};
        for (kind, status, expected) in [
            (NotFound, Some(404), FailureKind::Missing),
            (PermissionDenied, Some(403), FailureKind::Forbidden),
            (Unexpected, Some(401), FailureKind::Forbidden),
            (ConditionNotMatch, Some(412), FailureKind::Exists),
            (Unexpected, Some(503), FailureKind::Unclear),
            (Unexpected, Some(400), FailureKind::Other),
            (Unexpected, None, FailureKind::Unclear),
            (Unexpected, Some(507), FailureKind::Full),
            (ConfigInvalid, Some(404), FailureKind::Configuration),
        ] {
            assert_eq!(of(kind, status, "").kind, expected, "{kind} {status:?}");
        }
        for code in WRONG_KEY {
            let message = format!(r#"S3Error {{ code: "{code}", message: "No.", resource: "/b" }}"#);
            let wrong = of(PermissionDenied, Some(403), &message);
            assert_eq!(wrong.kind, FailureKind::Key);
            for word in ["the key is wrong", "`s3.access-key-id`", "`s3.secret-access-key`", code] {
                assert!(wrong.reason.contains(word), "{}", wrong.reason);
            }
        }
        let unsigned = of(Unexpected, None, UNSIGNED);
        assert_eq!(unsigned.kind, FailureKind::Forbidden);
        assert!(unsigned.reason.starts_with("no credentials for this store"), "{}", unsigned.reason);
        let said =
            of(PermissionDenied, Some(403), r#"S3Error { code: "AccessDenied", message: "No.", resource: "/b" }"#);
        assert_eq!(said.reason, "the store answered 403: AccessDenied: No.");
    }
}
