//! One request over one connection: enough to ask services of 127.0.0.1.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// What a service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a request to a port of 127.0.0.1 and reads the answer to its end. `headers` are full lines without their end.
/// An error is what went wrong, in words.
pub fn request(port: u16, method: &str, path: &str, headers: &[&str], body: &str) -> Result<Answer, String> {
    let words = |error: std::io::Error| format!("{method} http://127.0.0.1:{port}{path}: {error}");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).map_err(words)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(words)?;
    // Version 1.0, since its answers are never chunked and end with the connection.
    let mut text = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n", body.len());
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    stream.write_all(text.as_bytes()).map_err(words)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(words)?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| format!("{method} http://127.0.0.1:{port}{path}: no HTTP"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_body() {
        let found = parse("HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nno\r\n\r\nmore").unwrap();
        assert_eq!((found.status, found.body.as_str()), (404, "no\r\n\r\nmore"));
        assert_eq!(parse("SSH-2.0-OpenSSH\r\n\r\n"), None);
    }
}
