//! Handling of a request body that is not read completely when its answer is ready. A short rest is read and discarded,
//! so that the connection can be reused. If the rest is long, the answer says `Connection: close`, because without this
//! notice the client's next request would be lost.

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

/// Maximum bytes that are read and discarded; after a longer rest, the connection is closed.
const LEFT_BYTES_MAX: u64 = 1 << 20;

/// The unread rest of an HTTP/1 request. HTTP/2 does not need this, because the stream is reset.
pub(super) struct UnreadBody {
    unread: Unread,
    /// Maximum time for which the unread part of a body is read and discarded.
    longest: Duration,
    /// Whether the client waits for `100 Continue`.
    is_awaited: bool,
}

impl UnreadBody {
    /// The unread body of a request with these headers.
    pub(super) fn new(unread: Unread, headers: &HeaderMap, longest: Duration) -> UnreadBody {
        UnreadBody { unread, longest, is_awaited: headers.contains_key(EXPECT) }
    }

    /// Returns the answer once the connection can be reused, or else adds `Connection: close` to it.
    pub(super) async fn finish<Body>(self, mut answer: Response<Body>) -> Response<Body> {
        let Some(left) = self.unread.take() else { return answer };
        let is_read = !self.is_awaited
            && left.size_hint().lower() <= LEFT_BYTES_MAX
            && tokio::time::timeout(self.longest, discard_rest(left)).await.unwrap_or(false);
        if !is_read {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// Reads and discards the unread part of a body; returns true if the body ended within the limit.
async fn discard_rest(mut left: Incoming) -> bool {
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
