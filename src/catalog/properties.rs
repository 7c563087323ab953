//! The settings of a catalog, under Iceberg's own property names, some of which are secrets.

use std::collections::BTreeMap;
use std::fmt;

/// Settings by Iceberg's property names: `uri`, `warehouse`, `credential`, `s3.endpoint`, …
///
/// Values reach nobody by accident: `Debug` shows the names alone, because which values are secret is more than a list
/// of names can tell (a URI may hold a password, a header a token).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// The value of a property, if it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Sets a property.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        drop(self.0.insert(name.into(), value.into()));
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These, with those of `over` in place of any of the same name.
    #[must_use]
    pub fn overridden_by(&self, over: &Properties) -> Self {
        let mut all = self.clone();
        all.0.extend(over.0.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(properties: I) -> Self {
        Self(properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_shown() {
        let properties: Properties = [("uri", "http://me:secret@host"), ("token", "secret")].into_iter().collect();
        assert_eq!(format!("{properties:?}"), r#"{"token", "uri"}"#);
    }

    #[test]
    fn an_empty_value_is_none_and_the_later_one_wins() {
        let low: Properties = [("a", "1"), ("b", "1")].into_iter().collect();
        let high: Properties = [("b", "2"), ("c", "")].into_iter().collect();
        let both = low.overridden_by(&high);
        assert_eq!((both.get("a"), both.get("b"), both.get("c")), (Some("1"), Some("2"), None));
    }
}
