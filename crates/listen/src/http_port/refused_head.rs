//! Adds an explanation to hyper's own refusals of a request.
//!
//! If a request head cannot be parsed, no handler is called: hyper writes a bare status and closes the connection. Such
//! an answer is recognised by its first line and the absence of a body and content type, and is given a text body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::delegate::delegate;

/// Maximum number of header fields of a request: hyper's default.
const FIELDS_MAX: usize = 100;
/// Maximum size of a bare refusal.
const REFUSAL_BYTES_MAX: usize = 256;

/// A connection whose bare refusals get a text.
pub(super) struct RefusedHead<Io> {
    io: Io,
    /// Maximum size of a request head, which the text mentions.
    head_bytes: usize,
    /// Replacement of a refusal, and number of its bytes that were written.
    instead: Option<(Vec<u8>, usize)>,
}

impl<Io> RefusedHead<Io> {
    /// Wraps a connection whose request heads have at most `head_bytes`.
    pub(super) fn new(io: Io, head_bytes: usize) -> RefusedHead<Io> {
        RefusedHead { io, head_bytes, instead: None }
    }
}

impl<Io: AsyncWrite + Unpin> RefusedHead<Io> {
    /// Writes the pending replacement of `bytes`.
    fn poll_write_replacement(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        while let Some((text, written)) = &mut self.instead {
            let rest = text.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                self.instead = None;
                break;
            }
            match ready!(Pin::new(&mut self.io).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

/// `answer` with a text body, if it is a bare refusal.
fn explain_refusal(answer: &[u8], head_bytes: usize) -> Option<Vec<u8>> {
    if answer.len() > REFUSAL_BYTES_MAX || !answer.starts_with(b"HTTP/1.") {
        return None;
    }
    let head = std::str::from_utf8(answer).ok()?.strip_suffix("\r\n\r\n")?;
    let (first, fields) = head.split_once("\r\n")?;
    let why = match first.split(' ').nth(1)? {
        "400" => "the request cannot be read: its first line or a header field is not valid HTTP/1.1\n".to_owned(),
        "414" => format!("the address of the request is too long: a head may have {head_bytes} bytes at most\n"),
        "431" => format!(
            "the head of the request is too large: it may have at most {head_bytes} bytes and {FIELDS_MAX} header \
             fields\n"
        ),
        _ => return None,
    };
    let is_bare = |line: &str| line.eq_ignore_ascii_case("content-length: 0");
    let has_type = fields.split("\r\n").any(|line| line.to_ascii_lowercase().starts_with("content-type:"));
    if has_type || !fields.split("\r\n").any(is_bare) {
        return None;
    }
    let kept = fields.split("\r\n").filter(|line| !is_bare(line)).map(|line| format!("{line}\r\n"));
    let kept: String = kept.collect();
    let length = why.len();
    let text =
        format!("{first}\r\n{kept}content-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\r\n{why}");
    Some(text.into_bytes())
}

impl<Io: AsyncRead + Unpin> AsyncRead for RefusedHead<Io> {
    delegate!(io: poll_read);
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for RefusedHead<Io> {
    delegate!(io: is_write_vectored, poll_flush, poll_shutdown);

    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            self.instead = explain_refusal(bytes, self.head_bytes).map(|text| (text, 0));
        }
        match self.instead {
            Some(_) => self.poll_write_replacement(context, bytes),
            None => Pin::new(&mut self.io).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // hyper writes a bare refusal as a single buffer.
        match parts {
            [part] => self.poll_write(context, part),
            _ => Pin::new(&mut self.io).poll_write_vectored(context, parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_refusals_get_a_body() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let text = String::from_utf8(explain_refusal(bare.as_bytes(), 4_096).unwrap()).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"), "{text}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())) && body.contains(" 4096 bytes "), "{text}");
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ncontent-type: text/html\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 4\r\n\r\nwhat",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "content-length: 0\r\n\r\n",
        ] {
            assert_eq!(explain_refusal(other.as_bytes(), 4_096), None, "{other}");
        }
    }
}
