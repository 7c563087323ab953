//! Connections to stores, one pool for each runtime.
//!
//! A connection is served by a task of the runtime in which it was made, and is dead when that runtime has ended.
//! OpenDAL's own pool is one for the whole process: a program that runs one runtime after another, or several at once, as
//! tests do, would be handed such a connection, and its request would fail for no fault of the store.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use http::{Request, Response};
use opendal::raw::{HttpBody, HttpClient, HttpFetch};
use opendal::{Buffer, Error, ErrorKind};
use tokio::runtime::{Handle, Id};

/// The client of whichever runtime asks.
pub(super) fn client() -> HttpClient {
    HttpClient::with(OfRuntime)
}

struct OfRuntime;

impl HttpFetch for OfRuntime {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>, Error> {
        let runtime = Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::Unexpected, "no runtime to send a request from").set_source(error)
        })?;
        pool(runtime.id()).fetch(request).await
    }
}

fn pool(runtime: Id) -> reqwest::Client {
    static POOLS: LazyLock<Mutex<HashMap<Id, reqwest::Client>>> = LazyLock::new(Mutex::default);
    POOLS.lock().unwrap_or_else(PoisonError::into_inner).entry(runtime).or_default().clone()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use tokio::runtime::Builder;

    use crate::store::{Location, Retries, connect};

    /// Knows of no object, and keeps its connections open; its address.
    fn empty_store() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                drop(std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                    while lines.find(String::is_empty).is_some() {
                        (&stream).write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
                    }
                }));
            }
        }));
        format!("http://{address}")
    }

    /// The first runtime is still there, and runs nothing: a connection of its would be silent for ever.
    #[test]
    fn a_runtime_is_given_no_connection_of_another() {
        let endpoint = empty_store();
        let property = |name: &str| match name {
            "s3.endpoint" => Some(endpoint.clone()),
            "s3.allow-anonymous" | "s3.disable-config-load" => Some("true".to_owned()),
            _ => None,
        };
        let bucket = connect(&Location::parse("s3://lake/k").unwrap(), &property, Retries::None).unwrap();
        let asks = || async { bucket.operator().exists("k").await.unwrap() };
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (first, second) = (runtime(), runtime());
        assert!(!first.block_on(asks()));
        assert!(!second.block_on(asks()));
        drop(first);
    }
}
