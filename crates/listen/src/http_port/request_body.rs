//! A request's body that must go on coming: one that trickles ends with an error, whoever reads it. What nobody reads of
//! it comes back when it is dropped ([`Unread`]).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
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

/// What was not read of a body, once nobody has it any more.
#[derive(Clone, Default)]
pub(super) struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    /// Takes it; `None` if all was read, or somebody still reads.
    pub(super) fn take(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body with its pace.
pub(super) struct RequestBody {
    /// Gone when it has ended.
    body: Option<Incoming>,
    unread: Unread,
    pace: Pace,
    /// Runs while the body is waited for.
    window: Option<Pin<Box<Sleep>>>,
    /// Bytes that came in the window.
    came: usize,
}

impl RequestBody {
    /// The body of a request.
    pub(super) fn new(body: Incoming, unread: Unread, pace: Pace) -> RequestBody {
        RequestBody { body: Some(body), unread, pace, window: None, came: 0 }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let left = self.body.take().filter(|body| !body.is_end_stream());
        *self.unread.0.lock().unwrap_or_else(PoisonError::into_inner) = left;
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
        let Some(incoming) = &mut body.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(incoming).poll_frame(context) {
            if !matches!(frame, Some(Ok(_))) {
                body.body = None;
            }
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
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}
