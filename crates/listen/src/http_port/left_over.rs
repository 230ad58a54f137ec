//! What is left of a request's body when it is answered: read past if it is little, so that the connection can be used
//! again. Otherwise the answer says that it is closed; a client that is not told so sends its next request into nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, EXPECT};
use axum::response::Response;
use hyper::HeaderMap;
use hyper::body::Incoming;

use super::request_body::Unread;

/// Bytes that are read past at most.
const LEFT_BYTES_MAX: u64 = 1 << 20;

/// A request over HTTP/1 that may leave something of its body. Over HTTP/2 a body of its own is given up.
pub(super) struct LeftOver {
    unread: Unread,
    /// Longest time of reading past.
    longest: Duration,
    /// Whether its sender waits to be told that the body may come.
    is_awaited: bool,
}

impl LeftOver {
    /// Of a request with these headers.
    pub(super) fn new(unread: Unread, headers: &HeaderMap, longest: Duration) -> LeftOver {
        LeftOver { unread, longest, is_awaited: headers.contains_key(EXPECT) }
    }

    /// The answer, once the connection can be used again, or with the word that it cannot.
    pub(super) async fn settle<Body>(self, mut answer: Response<Body>) -> Response<Body> {
        let Some(left) = self.unread.take() else { return answer };
        let is_read = !self.is_awaited
            && left.size_hint().lower() <= LEFT_BYTES_MAX
            && tokio::time::timeout(self.longest, read_past(left)).await.unwrap_or(false);
        if !is_read {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// Whether the body ended before it was too much.
async fn read_past(mut left: Incoming) -> bool {
    let mut bytes = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut left).poll_frame(context)).await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        if bytes > LEFT_BYTES_MAX {
            return false;
        }
    }
    true
}
