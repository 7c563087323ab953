//! Who calve is to the catalog: nobody, a bearer token, an OAuth2 client, or an AWS principal.
//!
//! | properties | credentials |
//! |---|---|
//! | `rest.sigv4-enabled = true` | each request is signed, see `sigv4.rs` |
//! | `credential` (`id:secret` or `secret`) | a token from `oauth2-server-uri`, by default `{uri}/v1/oauth/tokens`, with `scope` (`catalog`), `audience`, `resource`; a new one before it expires, and once after a 401; `token` is used first, if given |
//! | `token` | that token, always |
//! | user and password in `uri` | HTTP's basic authentication |
//!
//! These are the names that Iceberg's own clients use. Credentials come from the user alone: a catalog's configuration
//! may give a `token` for itself, but not say where the secret of a `credential` is sent. What the catalog was sent with
//! the question for its configuration (a token, a password, headers) it is sent again where it names another `uri`, as
//! Iceberg's clients do: whoever answers has had it already. It is not followed from https to http.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use http::HeaderValue;
use reqwest::Method;
use tokio::sync::Mutex;
use url::Url;

use super::client::{Call, Client, Failure};
use super::failure::{self, Secrets};
use super::paths::trimmed;
use super::reply::words;
use super::sigv4::SigV4;
use super::wire::TokenResponse;
use crate::catalog::CatalogError;
use crate::catalog::properties::Properties;
use crate::clock::Clock;

/// A new token is fetched this long before the old one expires, or a quarter of its life, whichever is less.
const MARGIN: Duration = Duration::from_secs(60);

/// What goes into the header `Authorization`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(HeaderValue);

impl Token {
    /// # Errors
    /// [`CatalogError::Invalid`] where the token cannot be sent in a header; `property` says where it came from.
    pub(super) fn bearer(token: &str, property: &str) -> Result<Self, CatalogError> {
        Self::of("Bearer", token, property)
    }

    fn of(scheme: &str, credentials: &str, property: &str) -> Result<Self, CatalogError> {
        let mut header = HeaderValue::from_str(&format!("{scheme} {}", credentials.trim())).map_err(|_| {
            CatalogError::Invalid(format!("`{property}`: its value cannot be sent in a header; correct it"))
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The credentials of one connection.
#[derive(Debug)]
pub(super) enum Auth {
    None,
    Fixed(Token),
    Client(Box<OAuth>),
    SigV4(Box<SigV4>),
}

impl Auth {
    /// The credentials that the properties name. `base` is the catalog's URI, `login` the user and password in it.
    pub(super) fn of(
        base: &Url,
        login: Option<&(String, String)>,
        properties: &Properties,
        secrets: &Arc<Secrets>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, CatalogError> {
        let kind = properties.get("rest.auth.type").map(str::to_ascii_lowercase);
        let signed = properties.get("rest.sigv4-enabled").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let given = ["token", "credential", "rest.secret-access-key", "rest.session-token", "client.secret-access-key"];
        given.iter().filter_map(|name| properties.get(name)).for_each(|value| secrets.add(value));
        match kind.as_deref() {
            None | Some("none" | "basic" | "oauth2" | "sigv4") => {}
            Some(other) => {
                return Err(CatalogError::Invalid(format!(
                    "`rest.auth.type`: {other} is not supported; none, basic, oauth2 and sigv4 are"
                )));
            }
        }
        if signed || kind.as_deref() == Some("sigv4") {
            return Ok(Self::SigV4(Box::new(SigV4::of(base, properties)?)));
        }
        if kind.as_deref() == Some("none") {
            return Ok(Self::None);
        }
        let named = properties.get("rest.auth.basic.username").zip(properties.get("rest.auth.basic.password"));
        if let Some((user, password)) = named {
            return Self::basic(user, password, secrets);
        }
        let token = properties.get("token").map(|token| Token::bearer(token, "token")).transpose()?;
        if let Some(credential) = properties.get("credential") {
            let oauth = OAuth::of(base, credential, token, properties, secrets.clone(), clock.clone())?;
            return Ok(Self::Client(Box::new(oauth)));
        }
        match (token, login) {
            (Some(token), _) => Ok(Self::Fixed(token)),
            (None, Some((user, password))) => Self::basic(user, password, secrets),
            (None, None) => Ok(Self::None),
        }
    }

    fn basic(user: &str, password: &str, secrets: &Secrets) -> Result<Self, CatalogError> {
        secrets.add(password);
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        secrets.add(&encoded);
        Ok(Self::Fixed(Token::of("Basic", &encoded, "uri")?))
    }

    /// The token to send: the table's own where it has one.
    pub(super) async fn token(&self, client: &Client, table: Option<&Token>) -> Result<Option<Token>, Failure> {
        match (self, table) {
            (_, Some(token)) => Ok(Some(token.clone())),
            (Self::None | Self::SigV4(_), None) => Ok(None),
            (Self::Fixed(token), None) => Ok(Some(token.clone())),
            (Self::Client(oauth), None) => oauth.token(client).await.map(Some),
        }
    }

    /// The catalog did not accept this token: a new one is fetched next time. False where there is none to be had.
    pub(super) async fn forget(&self, token: Option<&Token>) -> bool {
        match self {
            Self::None | Self::Fixed(_) | Self::SigV4(_) => false,
            Self::Client(oauth) => {
                let mut held = oauth.held.lock().await;
                // Another request may have fetched a new one in the meantime.
                if held.as_ref().map(|held| &held.token) == token {
                    *held = None;
                }
                true
            }
        }
    }

    pub(super) async fn sign(&self, request: &mut reqwest::Request) -> Result<(), Failure> {
        match self {
            Self::None | Self::Fixed(_) | Self::Client(_) => Ok(()),
            Self::SigV4(signer) => signer.sign(request).await.map_err(Failure::Configuration),
        }
    }
}

/// OAuth2's client credentials. Source: RFC 6749, section 4.4; REST specification, `getToken`.
pub(super) struct OAuth {
    endpoint: Url,
    form: String,
    held: Mutex<Option<Held>>,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Held {
    token: Token,
    /// When to fetch another; `None` where the server does not say.
    renew_at: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for OAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuth").field("endpoint", &failure::shown(self.endpoint.as_str())).finish_non_exhaustive()
    }
}

impl OAuth {
    fn of(
        base: &Url,
        credential: &str,
        first: Option<Token>,
        properties: &Properties,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CatalogError> {
        let named = properties.get("oauth2-server-uri").unwrap_or("v1/oauth/tokens");
        // Iceberg's clients take a path as one under the catalog's URI.
        let text = if named.contains("://") {
            named.to_owned()
        } else {
            format!("{}/{}", trimmed(base), named.trim_start_matches('/'))
        };
        let endpoint =
            Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
                CatalogError::Invalid(format!(
                    "`oauth2-server-uri`: {} is no http or https URL",
                    failure::shown_odd(&text)
                ))
            })?;
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            // It would not be sent, and connections are logged by their authority.
            return Err(CatalogError::Invalid(format!(
                "`oauth2-server-uri`: {} has a user or a password in it; put them into `credential` as USER:PASSWORD",
                failure::shown(&text)
            )));
        }
        let (id, secret) = credential.split_once(':').map_or((None, credential), |(id, secret)| (Some(id), secret));
        secrets.add(secret);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let _form = form.append_pair("grant_type", "client_credentials");
        if let Some(id) = id {
            let _form = form.append_pair("client_id", id);
        }
        let _form = form.append_pair("client_secret", secret);
        let _form = form.append_pair("scope", properties.get("scope").unwrap_or("catalog"));
        for name in ["audience", "resource"] {
            if let Some(value) = properties.get(name) {
                let _form = form.append_pair(name, value);
            }
        }
        let held = Mutex::new(first.map(|token| Held { token, renew_at: None }));
        Ok(Self { endpoint, form: form.finish(), held, secrets, clock })
    }

    async fn token(&self, client: &Client) -> Result<Token, Failure> {
        // Held over the request, so that of many readers one fetches.
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref()
            && held.renew_at.is_none_or(|at| self.clock.now() < at)
        {
            return Ok(held.token.clone());
        }
        let fetched = self.fetch(client).await.map_err(Failure::Configuration)?;
        let token = fetched.token.clone();
        *held = Some(fetched);
        Ok(token)
    }

    async fn fetch(&self, client: &Client) -> Result<Held, CatalogError> {
        let shown = failure::shown(self.endpoint.as_str());
        let mut call = Call::new(Method::POST, self.endpoint.clone());
        let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        call.body = Some((content_type, self.form.clone().into_bytes()));
        let asked = self.clock.now();
        let answer = client.ask(&call).await.map_err(|failure| failure::unanswered(&self.endpoint, failure))?;
        match answer.status {
            200 => {}
            400 | 401 | 403 => {
                return Err(CatalogError::Forbidden {
                    what: format!("catalog: its token endpoint {shown}"),
                    reason: format!(
                        "it gives no token for this `credential` (status {}: {}); check `credential`, `scope` and \
                         `oauth2-server-uri`",
                        answer.status,
                        self.secrets.hide(words(&answer.body))
                    ),
                });
            }
            404 | 405 => {
                return Err(CatalogError::Invalid(format!(
                    "{shown} is no token endpoint (status {}); check `uri`, or set `oauth2-server-uri` to your identity \
                     provider's",
                    answer.status
                )));
            }
            _ => return Err(failure::refused(&self.endpoint, &answer, &self.secrets)),
        }
        let response: TokenResponse = serde_json::from_slice(&answer.body).map_err(|_| {
            CatalogError::Invalid(format!(
                "{shown} is no token endpoint: it answered with something else than a token; set `oauth2-server-uri` to \
                 your identity provider's"
            ))
        })?;
        self.secrets.add(&response.access_token);
        let renew_at = response.expires_in.filter(|seconds| *seconds > 0).and_then(|seconds| {
            let life = chrono::Duration::try_seconds(seconds)?;
            let margin = chrono::Duration::from_std(MARGIN).ok()?.min(life / 4);
            asked.checked_add_signed(life - margin)
        });
        Ok(Held { token: Token::bearer(&response.access_token, "access_token")?, renew_at })
    }
}
