//! Requests whose body has no length and ends when the client closes the connection. The `attach` functions of Splunk's
//! SDKs send events this way: `POST …/receivers/stream` (or `simple`) with the header `X-Splunk-Input-Mode: Streaming`.
//!
//! In HTTP/1.1, a request without a length has no body. The head of such a request is therefore passed on with
//! `Transfer-Encoding: chunked` (and `Connection: close`). After the head, the bytes returned by each read from the
//! socket become one chunk. If the connection fails instead of being closed, the chunks end with an invalid chunk, so
//! that the body ends with an error. Only the first request of a connection is examined; a later request of this kind
//! is passed on unchanged, so its body is not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::delegate::delegate;

/// Beginning of such a request.
const FIRST_BYTES: &[u8] = b"POST /services";
const HEAD_END: &[u8] = b"\r\n\r\n";
/// Header field and value that announce the mode, in lower case.
const MODE: (&str, &str) = ("x-splunk-input-mode", "streaming");
/// Last chunk of a complete body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Invalid chunk size; the reader of the body gets an error at it.
const INVALID_CHUNK: &[u8] = b"x\r\n";
/// Bytes read at once.
const READ_BYTES: usize = 8 << 10;

/// A connection that may carry such a request.
pub(super) struct UnboundedBody<Io> {
    io: Io,
    state: Passage,
    /// Bytes to pass on, and number of those that were passed on.
    ready: (Vec<u8>, usize),
    /// Maximum bytes of a head.
    head_bytes: usize,
}

enum Passage {
    /// The first head is being read.
    Head(Vec<u8>),
    /// Bytes pass unchanged.
    Plain,
    /// Bytes are the body of the request.
    Body,
    /// The body has ended.
    Ended,
}

impl<Io> UnboundedBody<Io> {
    /// Wraps a connection whose request heads have at most `head_bytes`.
    pub(super) fn new(io: Io, head_bytes: usize) -> UnboundedBody<Io> {
        UnboundedBody { io, state: Passage::Head(Vec::new()), ready: (Vec::new(), 0), head_bytes }
    }

    /// Takes more bytes of the first head; an empty slice means the end of the connection.
    fn take_head(&mut self, mut head: Vec<u8>, bytes: &[u8]) {
        let searched = head.len().saturating_sub(HEAD_END.len());
        head.extend_from_slice(bytes);
        let common = head.len().min(FIRST_BYTES.len());
        let is_other = bytes.is_empty() || head[..common] != FIRST_BYTES[..common] || head.len() > self.head_bytes;
        let end = head[searched..].windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END).map(|at| searched + at);
        self.state = match end {
            None if !is_other => Passage::Head(head),
            Some(end) if !is_other && is_unbounded(&head[..end]) => {
                let body = head.split_off(end + HEAD_END.len());
                head.truncate(end);
                head.extend_from_slice(b"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
                if !body.is_empty() {
                    add_chunk(&mut head, &body);
                }
                self.ready = (head, 0);
                Passage::Body
            }
            _ => {
                self.ready = (head, 0);
                Passage::Plain
            }
        };
    }
}

/// True if a head announces a body without a length.
fn is_unbounded(head: &[u8]) -> bool {
    let Ok(head) = std::str::from_utf8(head) else { return false };
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|first| first.split(' ').nth(1)).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    if !["/receivers/stream", "/receivers/simple"].iter().any(|end| path.ends_with(end)) {
        return false;
    }
    let mut is_announced = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" | "transfer-encoding" => return false,
            name => is_announced |= name == MODE.0 && value.trim().eq_ignore_ascii_case(MODE.1),
        }
    }
    is_announced
}

fn add_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

impl<Io: AsyncRead + Unpin> AsyncRead for UnboundedBody<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let (ready, passed) = &mut this.ready;
            if *passed < ready.len() {
                let count = buffer.remaining().min(ready.len() - *passed);
                buffer.put_slice(&ready[*passed..*passed + count]);
                *passed += count;
                return Poll::Ready(Ok(()));
            }
            match this.state {
                Passage::Plain => return Pin::new(&mut this.io).poll_read(context, buffer),
                // EOF is not reported, because the HTTP server would then drop the request before its events are
                // stored.
                Passage::Ended => return Poll::Pending,
                Passage::Head(_) | Passage::Body => {}
            }
            let mut space = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.io).poll_read(context, &mut read)) {
                // Some clients close the socket without a TLS closure, so this is a regular end as well.
                Err(error) if matches!(this.state, Passage::Body) && error.kind() == io::ErrorKind::UnexpectedEof => {
                    read.clear();
                }
                Err(_) if matches!(this.state, Passage::Body) => {
                    (this.ready, this.state) = ((INVALID_CHUNK.to_vec(), 0), Passage::Ended);
                    continue;
                }
                done => done?,
            }
            let bytes = read.filled();
            match std::mem::replace(&mut this.state, Passage::Plain) {
                Passage::Head(head) => this.take_head(head, bytes),
                _ if bytes.is_empty() => (this.ready, this.state) = ((LAST_CHUNK.to_vec(), 0), Passage::Ended),
                _ => {
                    let mut chunk = Vec::with_capacity(bytes.len() + HEAD_END.len() * 4);
                    add_chunk(&mut chunk, bytes);
                    (this.ready, this.state) = ((chunk, 0), Passage::Body);
                }
            }
        }
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for UnboundedBody<Io> {
    delegate!(io: poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Returns the bytes passed on if `bytes` arrives in parts of this size.
    async fn passed(bytes: &[u8], part: usize) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut server = UnboundedBody::new(server, 1_000);
        let mut found = Vec::new();
        let mut space = [0; 64];
        for part in bytes.chunks(part) {
            client.write_all(part).await.unwrap();
            let mut read = std::pin::pin!(server.read(&mut space));
            if let Poll::Ready(count) = futures::poll!(read.as_mut()) {
                found.extend_from_slice(&space[..count.unwrap()]);
            }
        }
        drop(client);
        loop {
            let mut read = std::pin::pin!(server.read(&mut space));
            match futures::poll!(read.as_mut()) {
                Poll::Ready(Ok(count)) if count > 0 => found.extend_from_slice(&space[..count]),
                _ => return found,
            }
        }
    }

    #[tokio::test]
    async fn a_body_without_a_length_is_passed_on_in_chunks() {
        let head =
            "POST /servicesNS/-/-/receivers/stream?index=a HTTP/1.1\r\nHost: x\r\nX-Splunk-Input-Mode: Streaming";
        let all = format!("{head}\r\n\r\none\ntwo\n");
        for part in [1, 7, 1_000] {
            let text = String::from_utf8(passed(all.as_bytes(), part).await).unwrap();
            let (found, chunks) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(found, format!("{head}\r\nTransfer-Encoding: chunked\r\nConnection: close"), "{part}");
            let mut body = String::new();
            let mut rest = chunks;
            loop {
                let (count, after) = rest.split_once("\r\n").unwrap();
                let count = usize::from_str_radix(count, 16).unwrap();
                body.push_str(&after[..count]);
                rest = &after[count + 2..];
                if count == 0 {
                    break;
                }
            }
            assert_eq!((body.as_str(), rest), ("one\ntwo\n", ""), "{part}");
        }
    }

    #[tokio::test]
    async fn only_a_closed_connection_ends_the_body_regularly() {
        let head = "POST /services/receivers/simple HTTP/1.1\r\nX-Splunk-Input-Mode: Streaming\r\n\r\n";
        for (error, end) in [
            (io::ErrorKind::UnexpectedEof, "0\r\n\r\n"),
            (io::ErrorKind::ConnectionReset, "x\r\n"),
            (io::ErrorKind::TimedOut, "x\r\n"),
        ] {
            let mut server = UnboundedBody::new(Breaking(format!("{head}one").into_bytes(), error), 1_000);
            let mut found = Vec::new();
            let mut space = [0; 64];
            while let Poll::Ready(count) = futures::poll!(std::pin::pin!(server.read(&mut space))) {
                found.extend_from_slice(&space[..count.unwrap()]);
            }
            let found = String::from_utf8(found).unwrap();
            assert!(found.ends_with(&format!("Connection: close\r\n\r\n3\r\none\r\n{end}")), "{found}");
        }
    }

    /// A connection that breaks with this error after these bytes.
    struct Breaking(Vec<u8>, io::ErrorKind);

    impl AsyncRead for Breaking {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if self.0.is_empty() {
                return Poll::Ready(Err(self.1.into()));
            }
            buffer.put_slice(&std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn other_requests_pass_unchanged() {
        let mode = "X-Splunk-Input-Mode: Streaming";
        for text in [
            format!("POST /services/receivers/stream HTTP/1.1\r\n{mode}\r\nContent-Length: 3\r\n\r\nabc"),
            format!(
                "POST /services/receivers/stream HTTP/1.1\r\n{mode}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            format!("POST /services/search/jobs HTTP/1.1\r\n{mode}\r\n\r\n"),
            "POST /services/receivers/stream HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
            format!("GET /services/receivers/stream HTTP/1.1\r\n{mode}\r\n\r\n"),
            format!("POST /services/receivers/stream HTTP/1.1\r\nA: {}", "a".repeat(3_000)),
            "POST /serv".to_owned(),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        ] {
            for part in [1, 10_000] {
                assert_eq!(String::from_utf8(passed(text.as_bytes(), part).await).unwrap(), text, "{part}");
            }
        }
    }
}
