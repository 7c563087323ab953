//! Ports that are free right now.

use std::net::{Ipv4Addr, TcpListener};

use crate::{HarnessError, Result};

/// So many different ports of 127.0.0.1 that nobody listens on, and where `offset` is not 0, neither on those so much
/// higher.
///
/// The system may give one away before the service takes it: who starts a service on them tries again with others.
pub fn free(count: usize, offset: u16) -> Result<Vec<u16>> {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    // All are kept until the last is found: so no port is found twice.
    let mut held = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..count.saturating_mul(100) {
        if ports.len() == count {
            return Ok(ports);
        }
        let listener = listen(0).map_err(|error| HarnessError::io("a free port", &error))?;
        let port = listener.local_addr().map_err(|error| HarnessError::io("a free port", &error))?.port();
        held.push(listener);
        if offset != 0 {
            match port.checked_add(offset).map(listen) {
                Some(Ok(listener)) => held.push(listener),
                Some(Err(_)) | None => continue,
            }
        }
        ports.push(port);
    }
    Err(HarnessError(format!("no {count} free ports were found")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_and_leave_room() {
        let mut ports = free(20, 10_000).unwrap();
        assert!(ports.iter().all(|port| *port <= u16::MAX - 10_000), "{ports:?}");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
