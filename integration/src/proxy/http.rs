//! The little of HTTP/1.1 that passing a message on takes: heads, and bodies piece by piece.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAX_HEAD: u64 = 64 * 1024;
const MAX_HEADERS: usize = 128;
const PIECE: usize = 64 * 1024;

/// Headers in their order. Never shown: they hold credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Headers(pub(super) Vec<(String, Vec<u8>)>);

impl Headers {
    fn from_parsed(parsed: &[httparse::Header<'_>]) -> Self {
        Self(parsed.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect())
    }

    /// The values of a header, as text where they are text.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(name));
        named.filter_map(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Whether a header with commas names this token.
    pub(super) fn names(&self, header: &str, token: &str) -> bool {
        self.values(header).flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
    }

    pub(super) fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.as_bytes().to_vec()));
    }

    /// Without what is said from one hop to the next only (RFC 9110, 7.6.1), framing included.
    pub(super) fn end_to_end(&self) -> Self {
        let named: Vec<_> = self.values("connection").flat_map(|value| value.split(',')).map(str::trim).collect();
        let hop = |name: &str| {
            let fixed =
                ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
            fixed.iter().chain(&named).any(|one| one.eq_ignore_ascii_case(name))
                || name.eq_ignore_ascii_case("content-length")
        };
        Self(self.0.iter().filter(|(name, _)| !hop(name)).cloned().collect())
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The head of a request.
#[derive(Clone)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    /// 0 or 1, for HTTP/1.0 and 1.1.
    pub(super) version: u8,
    pub(super) headers: Headers,
}

/// The head of an answer.
#[derive(Clone)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) headers: Headers,
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// The bytes up to the empty line; `None` where the other side has closed before the first one.
async fn read_head<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let left = MAX_HEAD.saturating_sub(before as u64);
        let read = (&mut *reader).take(left).read_until(b'\n', &mut head).await?;
        let line = head.get(before..).unwrap_or_default();
        match (read, line) {
            (0, _) if before == 0 => return Ok(None),
            _ if left == 0 => return Err(invalid("its head is longer than 64 KiB")),
            (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // An empty line before a request is allowed (RFC 9112, 2.2).
            (_, b"\r\n" | b"\n") if before == 0 => head.clear(),
            (_, b"\r\n" | b"\n") => return Ok(Some(head)),
            _ => {}
        }
    }
}

pub(super) async fn read_request<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<RequestHead>> {
    let Some(bytes) = read_head(reader).await? else { return Ok(None) };
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(&bytes).map_err(|error| invalid(format!("it is not HTTP/1.1: {error}")))?;
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(invalid("its head is incomplete"));
    };
    let headers = Headers::from_parsed(request.headers);
    Ok(Some(RequestHead { method: method.to_owned(), target: target.to_owned(), version, headers }))
}

/// The next head that is not an interim one.
pub(super) async fn read_response<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<ResponseHead> {
    loop {
        let bytes = read_head(reader).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        response.parse(&bytes).map_err(|error| invalid(format!("it is not HTTP/1.1: {error}")))?;
        let status = response.code.ok_or_else(|| invalid("its head is incomplete"))?;
        if !(100..200).contains(&status) {
            let reason = response.reason.unwrap_or_default().to_owned();
            return Ok(ResponseHead { status, reason, headers: Headers::from_parsed(response.headers) });
        }
    }
}

/// How much of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    /// The size of the next chunk is next.
    Chunk,
    /// So many bytes of a chunk.
    InChunk(u64),
    /// Up to the end of the connection.
    UntilClose,
    /// Nothing.
    Done,
}

impl Body {
    /// The body that a request's head announces.
    pub(super) fn of_request(headers: &Headers) -> io::Result<Self> {
        Self::announced(headers).map(|found| found.unwrap_or(Self::Done))
    }

    /// The body that an answer's head announces.
    pub(super) fn of_response(method: &str, head: &ResponseHead) -> io::Result<Self> {
        if method.eq_ignore_ascii_case("HEAD") || matches!(head.status, 204 | 304) {
            return Ok(Self::Done);
        }
        Self::announced(&head.headers).map(|found| found.unwrap_or(Self::UntilClose))
    }

    fn announced(headers: &Headers) -> io::Result<Option<Self>> {
        let mut lengths: Vec<_> = headers.values("content-length").map(str::trim).collect();
        lengths.dedup();
        let encodings: Vec<_> = headers.values("transfer-encoding").map(str::trim).collect();
        match (lengths.as_slice(), encodings.as_slice()) {
            ([], []) => Ok(None),
            ([], [one]) if one.eq_ignore_ascii_case("chunked") => Ok(Some(Self::Chunk)),
            ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
                let length = length.parse().map_err(|_| invalid("its length is no number"))?;
                Ok(Some(if length == 0 { Self::Done } else { Self::Length(length) }))
            }
            _ => Err(invalid("it does not say clearly how long its body is")),
        }
    }

    /// The next piece; `None` at the end. An end too early is an error, except where only the end says it.
    pub(super) async fn next<R: AsyncBufRead + Unpin>(&mut self, reader: &mut R) -> io::Result<Option<Vec<u8>>> {
        loop {
            match *self {
                Self::Done => return Ok(None),
                Self::Length(left) => {
                    let piece = some(reader, left).await?;
                    let left = left.saturating_sub(piece.len() as u64);
                    *self = if left == 0 { Self::Done } else { Self::Length(left) };
                    return Ok(Some(piece));
                }
                Self::InChunk(left) => {
                    let piece = some(reader, left).await?;
                    let left = left.saturating_sub(piece.len() as u64);
                    *self = Self::InChunk(left);
                    if left == 0 {
                        if !line(reader).await?.is_empty() {
                            return Err(invalid("a chunk is longer than it says"));
                        }
                        *self = Self::Chunk;
                    }
                    return Ok(Some(piece));
                }
                Self::Chunk => {
                    let size = line(reader).await?;
                    let digits = size.split(';').next().unwrap_or_default().trim();
                    match u64::from_str_radix(digits, 16) {
                        Ok(0) => {
                            while !line(reader).await?.is_empty() {}
                            *self = Self::Done;
                        }
                        Ok(size) if !digits.starts_with('+') => *self = Self::InChunk(size),
                        _ => return Err(invalid("the size of a chunk is no number")),
                    }
                }
                Self::UntilClose => {
                    let mut piece = vec![0; PIECE];
                    let read = reader.read(&mut piece).await?;
                    piece.truncate(read);
                    if read == 0 {
                        *self = Self::Done;
                        return Ok(None);
                    }
                    return Ok(Some(piece));
                }
            }
        }
    }

    /// All that is left of it.
    pub(super) async fn collect<R: AsyncBufRead + Unpin>(&mut self, reader: &mut R) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next(reader).await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// At least one and at most `limit` bytes.
async fn some<R: AsyncBufRead + Unpin>(reader: &mut R, limit: u64) -> io::Result<Vec<u8>> {
    let buffer = reader.fill_buf().await?;
    if buffer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = buffer.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
    let piece = buffer.get(..length).unwrap_or_default().to_vec();
    reader.consume(length);
    Ok(piece)
}

/// A line of a chunked body without its end.
async fn line<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<String> {
    let mut line = Vec::new();
    (&mut *reader).take(8 * 1024).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = String::from_utf8(line).map_err(|_| invalid("a chunk's line is not text"))?;
    Ok(text.trim_end_matches('\r').to_owned())
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// No body, and no length either (204, 304, answers to HEAD).
    Bare,
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// As it comes, until the connection is closed.
    Close,
}

impl Frame {
    fn head(self, headers: &mut Headers) {
        match self {
            Self::Bare | Self::Close => {}
            Self::Length(length) => headers.push("Content-Length", &length.to_string()),
            Self::Chunked => headers.push("Transfer-Encoding", "chunked"),
        }
    }

    pub(super) async fn piece<W: AsyncWrite + Unpin>(self, writer: &mut W, piece: &[u8]) -> io::Result<()> {
        // An empty chunk would end the body.
        if piece.is_empty() || self == Self::Bare {
            return Ok(());
        }
        if self == Self::Chunked {
            writer.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        }
        writer.write_all(piece).await?;
        if self == Self::Chunked {
            writer.write_all(b"\r\n").await?;
        }
        Ok(())
    }

    pub(super) async fn end<W: AsyncWrite + Unpin>(self, writer: &mut W) -> io::Result<()> {
        if self == Self::Chunked {
            writer.write_all(b"0\r\n\r\n").await?;
        }
        writer.flush().await
    }
}

pub(super) async fn write_request<W: AsyncWrite + Unpin>(
    writer: &mut W,
    head: &RequestHead,
    frame: Frame,
) -> io::Result<()> {
    let mut headers = head.headers.clone();
    frame.head(&mut headers);
    let mut out = format!("{} {} HTTP/1.1\r\n", head.method, head.target).into_bytes();
    headers.write(&mut out);
    out.extend_from_slice(b"\r\n");
    writer.write_all(&out).await
}

pub(super) async fn write_response<W: AsyncWrite + Unpin>(
    writer: &mut W,
    head: &ResponseHead,
    frame: Frame,
    keep_alive: bool,
) -> io::Result<()> {
    let mut headers = head.headers.clone();
    frame.head(&mut headers);
    headers.push("Connection", if keep_alive { "keep-alive" } else { "close" });
    let mut out = format!("HTTP/1.1 {} {}\r\n", head.status, head.reason).into_bytes();
    headers.write(&mut out);
    out.extend_from_slice(b"\r\n");
    writer.write_all(&out).await
}
