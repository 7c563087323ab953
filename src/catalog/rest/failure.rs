//! What a person is told when a catalog cannot be read: which URI, what it said, and what to do.
//!
//! No text here holds a secret: URIs are shown without user, password, query and fragment, and the words of servers go
//! through [`Secrets`] first, because a server may repeat what it was sent.

use std::sync::{Mutex, PoisonError};

use url::Url;

use super::client::{Answer, Failure};
use super::reply::{is_web_page, words};
use super::wire::error_of;
use crate::catalog::CatalogError;

/// Shorter texts are no secrets, and would be found everywhere.
const SHORTEST_SECRET: usize = 6;

/// The secrets of this connection, for taking them out of texts.
#[derive(Default)]
pub(super) struct Secrets(Mutex<Vec<String>>);

impl Secrets {
    pub(super) fn add(&self, secret: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // As it is, and as it is in a form.
        let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for text in [secret, encoded.as_str()] {
            if text.len() >= SHORTEST_SECRET && !all.iter().any(|known| known == text) {
                all.push(text.to_owned());
            }
        }
        // The longest first: one may be a part of another.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// The text with every secret in it replaced.
    pub(super) fn hide(&self, text: String) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|secret| text.contains(*secret))
            .fold(text.clone(), |text, secret| text.replace(secret, "***"))
    }

    /// The same for an answer, before anything of it is cut off: half of a secret would not be found any more.
    pub(super) fn hide_in(&self, body: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(body) {
            Ok(text) => self.hide(text).into_bytes(),
            Err(error) => error.into_bytes(),
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// The URI without user, password, query and fragment.
pub(super) fn shown(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let uri = uri.get(..end).unwrap_or_default();
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.rsplit('@').next().unwrap_or_default().to_owned();
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or_default())
}

/// A URI that cannot be taken apart: what stands before its last `@` may be a password with a slash in it.
pub(super) fn shown_odd(uri: &str) -> String {
    match uri.rsplit_once('@') {
        Some((before, after)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            shown(&if scheme.is_empty() { after.to_owned() } else { format!("{scheme}://{after}") })
        }
        None => shown(uri),
    }
}

/// The error for a request that brought no answer.
pub(super) fn unanswered(url: &Url, failure: Failure) -> CatalogError {
    let what = format!("catalog {}", shown(url.as_str()));
    match failure {
        Failure::Configuration(error) => error,
        Failure::NotSent(reason) | Failure::Lost(reason) => {
            let remedy = if reason.contains("certificate") {
                "; if its certificate is signed by your own authority, set `ssl.cabundle` to that authority's file"
            } else {
                "; check `uri` and the network, then run the same command again"
            };
            CatalogError::Unavailable { what, reason: format!("no answer: {reason}{remedy}") }
        }
    }
}

/// The error for an answer whose status is no success.
pub(super) fn refused(url: &Url, answer: &Answer, secrets: &Secrets) -> CatalogError {
    let what = format!("catalog {}", shown(url.as_str()));
    let status = answer.status;
    // A redirect says where to, and a page beside it says nothing more.
    let own_words = matches!(status, 300..=399 | 401 | 403 | 500..);
    if is_web_page(&answer.content_type, &answer.body) && !own_words {
        return no_catalog(url, &format!("status {status} and a web page"));
    }
    let said = secrets.hide(words(&answer.body));
    match status {
        300..=399 => {
            let target = answer.location.as_deref().map_or_else(String::new, |target| format!(" to {}", shown(target)));
            CatalogError::Invalid(format!(
                "{what} answers with a redirect{target}, which is not followed because it would take the credentials \
                 with it; set `uri` to where the catalog is"
            ))
        }
        401 | 419 => CatalogError::Forbidden {
            what,
            reason: format!(
                "it does not accept the credentials (status {status}: {said}); check `token`, or `credential` with \
                 `oauth2-server-uri` and `scope`, or the `rest.sigv4-enabled` settings"
            ),
        },
        403 => CatalogError::Forbidden {
            what,
            reason: format!(
                "these credentials may not do this (status 403: {said}); ask for the right to, or use others"
            ),
        },
        400 | 406 | 422 if url.path().contains("/namespaces/") && error_of(&answer.body).is_some() => {
            CatalogError::Invalid(format!(
                "{what} does not take the request (status {status}: {said}); check the names of the table and of its \
                 namespace, and, where the catalog speaks of its place, `warehouse` and `prefix`"
            ))
        }
        400 | 404 | 405 | 406 | 410 | 422 => CatalogError::Invalid(format!(
            "{what} does not take the request (status {status}: {said}); check `uri`, `warehouse` and `prefix`"
        )),
        408 | 425 | 429 | 500.. => CatalogError::Unavailable {
            what,
            reason: format!("it failed (status {status}: {said}); run the same command again later"),
        },
        _ => CatalogError::Invalid(format!("{what} answers with status {status}, which is not expected: {said}")),
    }
}

/// The error for a server that answers, but not as a catalog.
pub(super) fn no_catalog(url: &Url, reason: &str) -> CatalogError {
    CatalogError::Invalid(format!(
        "{} is no Iceberg REST catalog: it answered with {reason}; set `uri` to the catalog's base, without /v1, e.g. \
         https://catalog.example/iceberg",
        shown(url.as_str())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_whole() {
        let secrets = Secrets::default();
        secrets.add("secret");
        secrets.add("secret-and/more");
        for text in ["secret-and/more", "secret-and%2Fmore", "secret"] {
            assert_eq!(secrets.hide(format!("a {text}.")), "a ***.");
        }
        let long = format!("{} secret-and/more", "x".repeat(490));
        let hidden = words(&secrets.hide_in(long.into_bytes()));
        assert!(hidden.ends_with("***") && !hidden.contains("sec"), "{hidden}");
    }

    #[test]
    fn passwords_of_odd_uris_are_not_shown() {
        for odd in ["http://me:pass/word@host/x", "http://me:pass?word@host/x", "http://me:pass#word@host/x"] {
            assert_eq!(shown_odd(odd), "http://host/x");
        }
        assert_eq!(shown_odd("me:pass@host"), "host");
        assert_eq!(shown_odd("host/x?k=v"), "host/x");
    }
}
