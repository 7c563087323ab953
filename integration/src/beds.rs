//! Test beds over real catalogs, whose coordinators reach them through the fault [proxy](crate::proxy).

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use calve::catalog::properties::Properties;
use calve::catalog::rest::RestCatalog;
use calve::clock::ManualClock;
use calve::ids::TableName;
use calve::journal::object;
use calve::testing::{Bed, Ground, Network, Trouble};

use serde_json::{Value, json};

use crate::proxy::{Answer, Fault, HoldWhat, Moment, Options, Proxy, Rule, Seen, UpstreamError, Which};
use crate::services::{http, shared_reference, shared_seaweedfs};
use crate::{HarnessError, Result};

/// A real catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SeaweedFS' own catalog.
    SeaweedFs,
    /// Iceberg Java's, on SeaweedFS' store.
    Reference,
}

/// Both.
pub const SERVICES: [Service; 2] = [Service::SeaweedFs, Service::Reference];

impl Service {
    /// How clients reach the shared one of this process, which is started by the first who asks.
    pub fn properties(self) -> Result<Properties> {
        match self {
            Self::SeaweedFs => Ok(shared_seaweedfs()?.properties()),
            Self::Reference => Ok(shared_reference()?.properties()),
        }
    }

    /// A bed with an empty table in a namespace of its own, and a journal on the object store.
    pub async fn bed(self, version: u8) -> Result<Bed> {
        Ok(self.bed_with(version, 0).await?.0)
    }

    /// The same with its proxy, which decides chances by this seed and has no rules yet.
    pub async fn bed_with(self, version: u8, seed: u64) -> Result<(Bed, Arc<Proxy>)> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let failed = |error: &dyn Display| HarnessError(format!("{self:?}: {error}"));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let direct = self.properties()?;
        let uri = direct.get("uri").ok_or_else(|| failed(&"it has no uri"))?.to_owned();
        let upstream = uri.parse().map_err(|error: UpstreamError| failed(&error))?;
        let proxy = Arc::new(Proxy::start_with(upstream, Options { seed, ..Options::default() }).await?);
        let mut proxied = direct.clone();
        proxied.set("uri", proxy.uri());
        let clock = Arc::new(ManualClock::starting_now(number));
        let connect = async |properties| RestCatalog::connect(properties, clock.clone()).await;
        let catalog = Arc::new(connect(&direct).await.map_err(|error| failed(&error))?);
        let reached = Arc::new(connect(&proxied).await.map_err(|error| failed(&error))?);
        let store = shared_seaweedfs()?;
        let root = format!("{}/bed-{number}", store.journal_root());
        let journal = object::open(&root, &store.s3_properties().collect::<Vec<_>>()).await;
        let namespace = format!("bed_{number}");
        let table = TableName::new(vec![namespace], "days".to_owned()).map_err(|error| failed(&error))?;
        let network = Arc::new(Proxied { proxy: proxy.clone(), service: self, uri });
        let ground = Ground {
            catalog,
            reached,
            network: Some(network),
            journal: Arc::new(journal.map_err(|error| failed(&error))?),
            clock,
            table,
            version,
        };
        Ok((Bed::on(ground).await, proxy))
    }
}

fn is_commit(seen: &Seen) -> bool {
    seen.method == "POST" && seen.path.contains("/tables/")
}

/// The way through the proxy.
#[derive(Debug)]
struct Proxied {
    proxy: Arc<Proxy>,
    service: Service,
    /// The catalog itself.
    uri: String,
}

#[async_trait]
impl Network for Proxied {
    fn next_commit(&self, trouble: Trouble) {
        let after = |answer| Fault::Answer { moment: Moment::After, answer };
        let fault = match trouble {
            Trouble::RequestLost => Fault::DropBefore,
            Trouble::ReplyLost => Fault::DropAfter,
            Trouble::Replayed => Fault::Replay(Which::Second),
            Trouble::Stalled => Fault::Hold(HoldWhat::Request),
            Trouble::Gateway(status) => after(Answer::html(status)),
            Trouble::Redirected => Fault::Redirect { moment: Moment::After, status: 307, to: None },
            Trouble::Cut => Fault::Cut { chunked: false },
            Trouble::OthersJson => after(Answer::others_json(200)),
            Trouble::Page => after(Answer::html(200)),
        };
        self.proxy.next(Rule::commits(), fault);
    }

    fn before_next_commit(&self, other: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
        let held = self.proxy.hold_open(Rule::commits());
        tokio::spawn(async move {
            held.arrived().await;
            other.await;
            drop(held.release().await);
        });
    }

    async fn release(&self) -> Option<u16> {
        self.proxy.release_oldest().await?.ok()
    }

    fn sent(&self) -> usize {
        self.proxy.seen().iter().filter(|seen| is_commit(seen)).count()
    }

    fn applied(&self) -> usize {
        let seen = self.proxy.seen();
        let statuses = seen.iter().filter(|seen| is_commit(seen)).flat_map(|seen| &seen.upstream);
        statuses.filter(|status| (200..300).contains(*status)).count()
    }

    async fn rename(&self, from: &TableName, to: &TableName) -> std::result::Result<(), String> {
        let port = self.uri.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("the uri has no port")?;
        let (prefix, headers) = match self.service {
            Service::Reference => ("", Vec::new()),
            Service::SeaweedFs => ("/lake", vec![format!("Authorization: Bearer {}", token(port)?)]),
        };
        let name = |table: &TableName| json!({ "namespace": table.namespace(), "name": table.name() });
        let body = json!({ "source": name(from), "destination": name(to) }).to_string();
        let mut headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        headers.push("Content-Type: application/json");
        let answer = http::request(port, "POST", &format!("/v1{prefix}/tables/rename"), &headers, &body)?;
        match answer.status {
            200 | 204 => Ok(()),
            status => Err(format!("renaming {from} to {to} is answered with {status}: {}", answer.body)),
        }
    }
}

/// A token of SeaweedFS' own, for what goes past every client.
fn token(port: u16) -> std::result::Result<String, String> {
    use crate::services::seaweedfs::{ACCESS_KEY, SECRET_KEY};
    let form = format!("grant_type=client_credentials&client_id={ACCESS_KEY}&client_secret={SECRET_KEY}");
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let answer = http::request(port, "POST", "/v1/oauth/tokens", &[kind], &form)?;
    let value: Value = serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
    let token = value.get("access_token").and_then(Value::as_str);
    token.map(str::to_owned).ok_or_else(|| format!("no token, but status {}", answer.status))
}
