//! A request body with a minimum rate: a body that arrives more slowly ends with an error. Until the client has
//! authenticated, the whole body must arrive within a short time. When a body is dropped, its unread rest is kept in
//! [`Unread`].

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use super::connection_queue::OpenRequest;

/// Minimum rate of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Period in which [`Pace::bytes`] bytes, or the end of the body, must arrive.
    pub(super) window: Duration,
    /// Minimum bytes per period.
    pub(super) bytes: usize,
}

/// The unread rest of a body, once the body has been dropped.
#[derive(Clone, Default)]
pub(super) struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    /// Takes the unread part of the body; `None` if everything was read or the body is still in use.
    pub(super) fn take(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body with a minimum rate.
pub(super) struct RequestBody {
    /// `None` after its end.
    body: Option<Incoming>,
    unread: Unread,
    request: Weak<OpenRequest>,
    pace: Pace,
    /// Time for the whole body while the client has not authenticated.
    authentication_wait: Duration,
    /// Timer of the current period, which runs while data is awaited.
    window: Option<Pin<Box<Sleep>>>,
    /// Bytes received in the current period.
    received: usize,
}

impl RequestBody {
    /// Wraps the body of a request.
    pub(super) fn new(
        body: Incoming,
        unread: Unread,
        request: &Arc<OpenRequest>,
        pace: Pace,
        authentication_wait: Duration,
    ) -> RequestBody {
        let request = Arc::downgrade(request);
        RequestBody { body: Some(body), unread, request, pace, authentication_wait, window: None, received: 0 }
    }

    fn is_unauthenticated(&self) -> bool {
        self.request.upgrade().is_some_and(|request| !request.is_authenticated())
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
            if body.is_end_stream()
                && let Some(request) = body.request.upgrade()
            {
                request.complete();
            }
            let received = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            body.received += received;
            if body.received >= body.pace.bytes && !body.is_unauthenticated() {
                (body.received, body.window) = (0, None);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let longest = if body.is_unauthenticated() { body.authentication_wait } else { body.pace.window };
        let window = body.window.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        ready!(window.as_mut().poll(context));
        let error = io::Error::new(
            io::ErrorKind::TimedOut,
            "the body arrives too slowly; send it again, or send less at a time",
        );
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}
