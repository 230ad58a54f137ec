//! A request's body that must go on coming: one that trickles ends with an error, whoever reads it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::Sleep;

/// How fast a body must come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time in which so many bytes must come, or the rest.
    pub(super) window: Duration,
    /// Bytes of a window.
    pub(super) bytes: usize,
}

/// A body with its pace.
pub(super) struct RequestBody {
    body: Incoming,
    pace: Pace,
    /// Runs while the body is waited for.
    window: Option<Pin<Box<Sleep>>>,
    /// Bytes that came in the window.
    came: usize,
}

impl RequestBody {
    /// The body of a request.
    pub(super) fn new(body: Incoming, pace: Pace) -> RequestBody {
        RequestBody { body, pace, window: None, came: 0 }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut body.body).poll_frame(context) {
            let came = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            body.came += came;
            if body.came >= body.pace.bytes {
                (body.came, body.window) = (0, None);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let window = body.window.get_or_insert_with(|| Box::pin(tokio::time::sleep(body.pace.window)));
        ready!(window.as_mut().poll(context));
        let error =
            io::Error::new(io::ErrorKind::TimedOut, "the body comes too slowly; send it again, or less at a time");
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
