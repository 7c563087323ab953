//! Locations on object stores: `s3://bucket/key`, `gs://bucket/key`, `abfss://container@account.dfs.suffix/key`.
//!
//! Keys are taken literally, without percent-decoding, as the engines take them. So a URL parser is not used: it would
//! encode what it finds.

use std::fmt;

/// The kinds of object stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// `s3:`, `s3a:`, `s3n:`.
    S3,
    /// `gs:`, `gcs:`.
    Gcs,
    /// `abfs:`, `abfss:`, `wasb:`, `wasbs:`; always over the Data Lake Storage endpoint.
    Azure,
}

/// A place on an object store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The kind of store.
    pub service: Service,
    /// Whether it is reached by HTTPS where the location decides that: `false` for `abfs:` and `wasb:`.
    pub secure: bool,
    /// The bucket, or Azure's container.
    pub bucket: String,
    /// Azure's account; empty elsewhere.
    pub account: String,
    /// Azure's endpoint suffix, e.g. `core.windows.net`; empty elsewhere.
    pub suffix: String,
    /// The key, without a leading slash; may be empty.
    pub key: String,
}

/// Why a location is none on an object store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// No scheme that is known here.
    #[error(
        "it is on storage that calve cannot reach ({0}): it reads local files, s3://, s3a://, s3n://, gs://, gcs://, abfs(s):// and wasb(s)://"
    )]
    Scheme(String),
    /// The scheme is known, and the rest is not of its form.
    #[error("it is not of the form {0}")]
    Form(&'static str),
}

/// The scheme of a location, in lower case; `None` for a plain path.
pub fn scheme_of(location: &str) -> Option<String> {
    let (scheme, _) =
        location.split_once("://").or_else(|| location.strip_prefix("file:").map(|rest| ("file", rest)))?;
    Some(scheme.to_ascii_lowercase())
}

impl Location {
    /// Takes a location apart.
    pub fn parse(location: &str) -> Result<Self, LocationError> {
        let scheme = scheme_of(location).ok_or_else(|| LocationError::Scheme("a plain path".to_owned()))?;
        let rest = location.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (service, secure) = match scheme.as_str() {
            "s3" | "s3a" | "s3n" => (Service::S3, true),
            "gs" | "gcs" => (Service::Gcs, true),
            "abfss" | "wasbs" => (Service::Azure, true),
            "abfs" | "wasb" => (Service::Azure, false),
            // The scheme may be anything, even a secret that was put in the wrong place; it is short, or left out.
            _ => {
                let shown = if scheme.len() <= 20 { format!("{scheme}:") } else { "another scheme".to_owned() };
                return Err(LocationError::Scheme(shown));
            }
        };
        let (bucket, account, suffix) = match service {
            Service::S3 | Service::Gcs => (authority, "", ""),
            Service::Azure => {
                azure(authority).ok_or(LocationError::Form("abfss://container@account.dfs.core.windows.net/path"))?
            }
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c) || (service == Service::Azure && c == '$');
        if bucket.is_empty() || !bucket.chars().all(plain) {
            return Err(LocationError::Form(match service {
                Service::S3 => "s3://bucket/path",
                Service::Gcs => "gs://bucket/path",
                Service::Azure => "abfss://container@account.dfs.core.windows.net/path",
            }));
        }
        let [bucket, account, suffix, key] = [bucket, account, suffix, key].map(str::to_owned);
        Ok(Self { service, secure, bucket, account, suffix, key })
    }

    /// The bucket's location with one spelling of the scheme, without a trailing slash.
    pub fn bucket_uri(&self) -> String {
        match self.service {
            Service::S3 => format!("s3://{}", self.bucket),
            Service::Gcs => format!("gs://{}", self.bucket),
            Service::Azure => {
                let scheme = if self.secure { "abfss" } else { "abfs" };
                format!("{scheme}://{}@{}.dfs.{}", self.bucket, self.account, self.suffix)
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.bucket_uri())?;
        if self.key.is_empty() { Ok(()) } else { write!(f, "/{}", self.key) }
    }
}

/// Container, account and endpoint suffix.
fn azure(authority: &str) -> Option<(&str, &str, &str)> {
    let (container, host) = authority.split_once('@')?;
    let (account, endpoint) = host.split_once('.')?;
    let (service, suffix) = endpoint.split_once('.')?;
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.:".contains(c));
    (["dfs", "blob"].contains(&service) && plain(account) && plain(suffix)).then_some((container, account, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_taken_apart_and_spelled_one_way() {
        for (given, normal) in [
            ("s3a://lake/a/b c%20é", "s3://lake/a/b c%20é"),
            ("s3://lake", "s3://lake"),
            ("S3N://lake/", "s3://lake"),
            ("gcs://lake/x", "gs://lake/x"),
            ("wasbs://c@acc.blob.core.windows.net/x/y", "abfss://c@acc.dfs.core.windows.net/x/y"),
            ("abfs://c@acc.dfs.local/x", "abfs://c@acc.dfs.local/x"),
        ] {
            assert_eq!(Location::parse(given).unwrap().to_string(), normal, "{given}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for bad in
            ["s3://", "s3:///x", "s3://user:secret@lake/x", "s3://lake?x/y", "abfss://acc.dfs.x/y", "abfss://c@/y"]
        {
            let error = Location::parse(bad).unwrap_err();
            assert!(matches!(error, LocationError::Form(_)), "{bad}: {error:?}");
            assert!(!error.to_string().contains("secret"));
        }
        for unknown in ["hdfs://host/x", "oss://b/x", "/plain/path", "memory://x"] {
            let error = Location::parse(unknown).unwrap_err();
            assert!(matches!(error, LocationError::Scheme(_)), "{unknown}: {error:?}");
            assert!(error.to_string().contains("cannot reach"), "{error}");
        }
    }
}
