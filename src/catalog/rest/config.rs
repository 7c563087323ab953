//! Connecting: what the user set, what the catalog says to it, and what holds of both.
//!
//! Properties are merged as the specification says: the catalog's defaults, under the user's, under the catalog's
//! overrides. Source: REST specification, `getConfig`.

use std::sync::Arc;

use reqwest::Method;
use url::Url;

use super::auth::Auth;
use super::client::{Call, Client};
use super::failure::{self, Secrets};
use super::paths::{Paths, UNIT_SEPARATOR, decode, trimmed};
use super::reply::is_web_page;
use super::wire::ConfigResponse;
use crate::catalog::properties::Properties;
use crate::catalog::{Capabilities, CatalogError};
use crate::clock::Clock;
use crate::ids::CatalogIdentity;

/// A catalog that was asked for its configuration.
#[derive(Debug)]
pub(super) struct Connected {
    pub identity: CatalogIdentity,
    /// The catalog's URI, for showing.
    pub uri: String,
    pub warehouse: Option<String>,
    pub client: Client,
    pub paths: Paths,
    /// The user's and the catalog's, merged.
    pub properties: Properties,
    /// The user's alone.
    pub user: Properties,
    pub capabilities: Capabilities,
}

/// Asks the catalog for its configuration.
pub(super) async fn connect(user: &Properties, clock: Arc<dyn Clock>) -> Result<Connected, CatalogError> {
    let (base, login) = base_of(uri_of(user)?)?;
    let warehouse = user.get("warehouse");
    let secrets = Arc::new(Secrets::default());
    let auth = Auth::of(&base, login.as_ref(), user, &secrets, &clock)?;
    let client = Client::new(&base, user, auth, secrets.clone(), clock.clone())?;
    let response = ask(&client, &Paths::new(&base, "", UNIT_SEPARATOR), warehouse).await?;

    let properties = response.defaults().overridden_by(user).overridden_by(&response.overrides());
    if let Some((name, _)) = properties.iter().find(|(name, _)| name.starts_with("nessie.")) {
        return Err(CatalogError::Unsupported {
            what: format!("catalog {}", failure::shown(base.as_str())),
            reason: format!(
                "it is Nessie (it sets {name}), whose Iceberg REST interface accepts no ref but main, so that there is \
                 no audit branch to publish from; use another catalog"
            ),
        });
    }
    let (moved, client) = moved(&base, client, login.as_ref(), &properties, user, &secrets, &clock)?;
    let separator = properties.get("namespace-separator").map_or_else(|| UNIT_SEPARATOR.to_owned(), decode);
    let capabilities = Capabilities {
        endpoints: response.endpoints,
        idempotency_key_lifetime: response
            .idempotency_key_lifetime
            .or_else(|| properties.get("idempotency-key-lifetime").map(str::to_owned)),
    };
    Ok(Connected {
        identity: named(user, &base)?,
        uri: failure::shown(&trimmed(&base)),
        warehouse: warehouse.map(str::to_owned),
        client,
        paths: Paths::new(&moved, properties.get("prefix").unwrap_or_default(), &separator),
        properties,
        user: user.clone(),
        capabilities,
    })
}

/// Where the catalog says it is to be reached from now on, and a client with what it says of headers and tokens.
fn moved(
    base: &Url,
    client: Client,
    login: Option<&(String, String)>,
    merged: &Properties,
    user: &Properties,
    secrets: &Arc<Secrets>,
    clock: &Arc<dyn Clock>,
) -> Result<(Url, Client), CatalogError> {
    let (target, _) = base_of(merged.get("uri").unwrap_or(base.as_str()))?;
    if base.scheme() == "https" && target.scheme() != "https" {
        return Err(CatalogError::Invalid(format!(
            "catalog {} sends its clients to {}, without TLS; it is not followed, because the credentials would be \
             readable on the way",
            failure::shown(base.as_str()),
            failure::shown(target.as_str())
        )));
    }
    let decides = |name: &str| name == "token" || name.starts_with("header.") || name.starts_with("rest.client.");
    let differs = merged.iter().any(|(name, value)| decides(name) && user.get(name) != Some(value));
    if !differs && target.host_str() == base.host_str() {
        return Ok((target, client));
    }
    let kept = user.iter();
    let allowed = kept.chain(merged.iter().filter(|(name, _)| decides(name)));
    let properties: Properties = allowed.collect();
    // The tokens that the user's own credential buys still come from where the user said.
    let auth = Auth::of(base, login, &properties, secrets, clock)?;
    let client = Client::new(&target, &properties, auth, secrets.clone(), clock.clone())?;
    Ok((target, client))
}

async fn ask(client: &Client, paths: &Paths, warehouse: Option<&str>) -> Result<ConfigResponse, CatalogError> {
    let url = paths.config(warehouse)?;
    let call = Call::new(Method::GET, url.clone());
    let answer = client.read(&call, None).await.map_err(|failure| failure::unanswered(&url, failure))?;
    if answer.status == 404 && super::wire::error_of(&answer.body).is_none() {
        return Err(failure::no_catalog(&url, "status 404"));
    }
    if answer.status != 200 {
        let error = failure::refused(&url, &answer, client.secrets());
        return Err(match (error, answer.status, warehouse) {
            (CatalogError::Invalid(text), 400 | 404 | 422, None) => CatalogError::Invalid(format!(
                "{text}; no `warehouse` is set, and many catalogs need one: set `warehouse`"
            )),
            (error, _, _) => error,
        });
    }
    if is_web_page(&answer.content_type, &answer.body) {
        return Err(failure::no_catalog(&url, "a web page"));
    }
    let response: ConfigResponse = serde_json::from_slice(&answer.body)
        .map_err(|_| failure::no_catalog(&url, "something else than a catalog's configuration"))?;
    if !response.is_one() {
        return Err(failure::no_catalog(&url, "JSON that is no catalog's configuration"));
    }
    Ok(response)
}

/// The URI as it is used, and the user and password that were in it.
fn base_of(given: &str) -> Result<(Url, Option<(String, String)>), CatalogError> {
    let wrong = |reason: &str| {
        CatalogError::Invalid(format!(
            "`uri`: {} {reason}; give the base of an Iceberg REST catalog, e.g. https://catalog.example/iceberg",
            failure::shown_odd(given)
        ))
    };
    let mut url = Url::parse(given.trim()).map_err(|e| wrong(&format!("is no URL: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is no http or https URL"));
    }
    let login = (!url.username().is_empty() || url.password().is_some())
        .then(|| (decode(url.username()), decode(url.password().unwrap_or_default())));
    url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| wrong("has a user that cannot be read"))?;
    url.set_query(None);
    url.set_fragment(None);
    Ok((url, login))
}

/// The property that names the catalog in the journal, for one that is reached under several URIs.
const IDENTITY: &str = "calve.identity";

/// The identity of the catalog that these settings name, and its URI for showing; nothing is asked for.
pub(super) fn known(user: &Properties) -> Result<(CatalogIdentity, String), CatalogError> {
    let (base, _) = base_of(uri_of(user)?)?;
    Ok((named(user, &base)?, failure::shown(&trimmed(&base))))
}

fn uri_of(user: &Properties) -> Result<&str, CatalogError> {
    user.get("uri").ok_or_else(|| {
        CatalogError::Invalid(
            "the catalog has no `uri`; set it to the base of an Iceberg REST catalog, e.g. https://catalog.example/iceberg"
                .to_owned(),
        )
    })
}

/// The identity as the settings give it, or as it follows from them.
fn named(user: &Properties, base: &Url) -> Result<CatalogIdentity, CatalogError> {
    match user.get(IDENTITY) {
        Some(named) if named.chars().any(char::is_control) => {
            Err(CatalogError::Invalid(format!("`{IDENTITY}` has a control character: correct it")))
        }
        Some(named) => Ok(CatalogIdentity(named.to_owned())),
        None => Ok(identity(base, user.get("warehouse"))),
    }
}

/// The normalised URI and warehouse. Source: `protocol.md`, "Journal".
fn identity(base: &Url, warehouse: Option<&str>) -> CatalogIdentity {
    let warehouse = warehouse.unwrap_or_default();
    // A warehouse may be a URI too, with a user in it.
    let shown = if warehouse.contains("://") { failure::shown(warehouse) } else { warehouse.to_owned() };
    CatalogIdentity(format!("{}#{}", failure::shown(&trimmed(base)), shown.trim_end_matches('/')))
}
