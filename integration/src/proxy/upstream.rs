//! Where requests go.

use std::fmt;
use std::str::FromStr;

/// An upstream that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// TLS is not spoken.
    #[error("{0} is https, which this proxy does not speak: put a TLS terminator behind it and give its http address")]
    Https(String),
    /// Not a URI of the form that is needed.
    #[error("{uri:?} is no upstream: {reason}; it has the form http://HOST[:PORT][/PATH]")]
    Malformed {
        /// The URI, without what may be a secret.
        uri: String,
        /// What is wrong.
        reason: &'static str,
    },
}

/// A REST catalog behind plain HTTP: host, port and the path that its routes begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    host: String,
    port: u16,
    path: String,
}

impl Upstream {
    /// What to connect to, and the value of `Host`.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The target upstream for a target here.
    pub(super) fn target(&self, target: &str) -> String {
        format!("{}{target}", self.path)
    }

    /// The same URI with another's in place of this one's, if it begins with this one.
    pub(super) fn replace_in(&self, uri: &str, other: &str) -> Option<String> {
        let rest = uri.strip_prefix("http://")?;
        let authority = rest.split('/').next().unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let after = rest.get(authority.len()..)?.strip_prefix(&self.path)?;
        let same = port.parse() == Ok(self.port) && same_host(host, &self.host);
        (same && (after.is_empty() || after.starts_with('/'))).then(|| format!("{other}{after}"))
    }
}

fn same_host(one: &str, other: &str) -> bool {
    let local = |host: &str| matches!(host, "localhost" | "127.0.0.1");
    one.eq_ignore_ascii_case(other) || (local(one) && local(other))
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(uri: &str) -> Result<Self, UpstreamError> {
        // Only the last part after an @ is shown: what is before it may be a password.
        let shown = uri.rsplit('@').next().unwrap_or(uri).to_owned();
        let malformed = |reason| UpstreamError::Malformed { uri: shown.clone(), reason };
        if uri.starts_with("https://") {
            return Err(UpstreamError::Https(shown));
        }
        let rest = uri.strip_prefix("http://").ok_or_else(|| malformed("it does not begin with http://"))?;
        if rest.contains('@') {
            return Err(malformed("credentials do not belong there"));
        }
        if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(malformed("it holds a query, a fragment or blanks"));
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| malformed("the port is no number from 0 to 65535"))?)
            }
            _ => (authority, 80),
        };
        if host.is_empty() {
            return Err(malformed("it names no host"));
        }
        Ok(Self { host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read() {
        for (uri, shown, target) in [
            ("http://127.0.0.1:8181", "http://127.0.0.1:8181", "/v1/config"),
            ("http://h", "http://h:80", "/v1/config"),
            ("http://h:1/catalog/", "http://h:1/catalog", "/catalog/v1/config"),
            ("http://[::1]:2", "http://[::1]:2", "/v1/config"),
        ] {
            let upstream: Upstream = uri.parse().unwrap();
            assert_eq!((upstream.to_string().as_str(), upstream.target("/v1/config").as_str()), (shown, target));
        }
        for (uri, wanted) in [
            ("https://h", "TLS terminator"),
            ("h:80", "http://"),
            ("http://", "no host"),
            ("http://h:x", "port"),
            ("http://h/?a", "query"),
            ("http://me:secret@h", "credentials"),
        ] {
            let error = uri.parse::<Upstream>().unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_its_own_uri_is_replaced() {
        let upstream: Upstream = "http://127.0.0.1:8181/catalog".parse().unwrap();
        let replaced = |uri| upstream.replace_in(uri, "http://p");
        assert_eq!(replaced("http://127.0.0.1:8181/catalog").as_deref(), Some("http://p"));
        assert_eq!(replaced("http://localhost:8181/catalog/x").as_deref(), Some("http://p/x"));
        for other in ["http://127.0.0.1:8182/catalog", "http://127.0.0.1:8181/catalogs", "https://127.0.0.1:8181", "x"]
        {
            assert_eq!(replaced(other), None, "{other}");
        }
    }
}
