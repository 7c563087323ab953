//! The one way calve hashes: SHA-256 over length-prefixed, domain-separated fields.
//!
//! `len(domain) ‖ domain ‖ len(f1) ‖ f1 …`, lengths as 8-byte big-endian, the domain `calve/<what>/v1`, written as
//! `sha256:` and lower-case hex. Lengths make `("ab","c")` and `("a","bc")` differ; domains make a tree digest
//! useless as a change digest. Source: `protocol.md`, "Digests".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::ids::IdError;

/// A SHA-256 value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of bytes as they are, without domain: for whole files, so that `sha256sum` agrees.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hex digits without the prefix: a name that file systems and object stores take.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl FromStr for Digest {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        let error = || IdError {
            what: "digest",
            given: given.to_owned(),
            reason: "`sha256:` and 64 lower-case hex digits were expected".to_owned(),
        };
        let hex = given.strip_prefix("sha256:").ok_or_else(error)?;
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(error());
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes a sequence of fields under a domain.
#[derive(Debug, Clone)]
pub struct Digester(Sha256);

impl Digester {
    /// Starts a digest of the domain `calve/<what>/v1`.
    pub fn new(what: &str) -> Self {
        Self(Sha256::new()).field(format!("calve/{what}/v1").as_bytes())
    }

    /// Adds one field.
    #[must_use]
    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a number, as 8 bytes big-endian in two's complement.
    #[must_use]
    pub fn number(self, number: i64) -> Self {
        self.field(number.to_be_bytes())
    }

    /// Adds a field that may be missing: absent and empty differ.
    #[must_use]
    pub fn optional(self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        match bytes {
            None => self.field([0u8]),
            Some(bytes) => self.field([1u8]).field(bytes),
        }
    }

    /// The digest of all fields so far.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Hashes the bytes of a file as they pass.
#[derive(Debug, Clone, Default)]
pub struct FileHasher(Sha256);

impl FileHasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The plain SHA-256 of all bytes.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!(
            Digest::of_bytes(b"").to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        // printf '\0\0\0\0\0\0\0\x0dcalve/test/v1\0\0\0\0\0\0\0\x02ab' | sha256sum
        let digest = Digester::new("test").field("ab").finish();
        let plain = Digest::of_bytes(b"\0\0\0\0\0\0\0\x0dcalve/test/v1\0\0\0\0\0\0\0\x02ab");
        assert_eq!(digest, plain);
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }

    #[test]
    fn fields_do_not_run_together() {
        let ab_c = Digester::new("x").field("ab").field("c").finish();
        let a_bc = Digester::new("x").field("a").field("bc").finish();
        assert_ne!(ab_c, a_bc);
        let absent = Digester::new("x").optional(None::<&str>).finish();
        let empty = Digester::new("x").optional(Some("")).finish();
        assert_ne!(absent, empty);
        assert_ne!(Digester::new("x").finish(), Digester::new("y").finish());
    }

    #[test]
    fn malformed_digests_are_refused() {
        for bad in ["", "sha256:", "sha256:xyz", &"a".repeat(64), &format!("sha256:{}", "A".repeat(64))] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
