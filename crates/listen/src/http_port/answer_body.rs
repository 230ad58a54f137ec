//! Body of an answer, which keeps its request open until the client has taken the last byte.
//!
//! HTTP/2 has flow control of its own: a client that grants no window leaves an answer unsent although the socket could
//! take more data. Each part of a body therefore reports when it has been written. Over HTTP/1, a connection that takes
//! no more data is noticed by [`super::slow_reader`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Buf, Frame, SizeHint};

use super::connection_queue::OpenRequest;

pub(super) struct AnswerBody {
    body: Body,
    request: Arc<OpenRequest>,
    has_flow_control: bool,
}

impl AnswerBody {
    /// The body of the answer to a request; `has_flow_control` over HTTP/2.
    pub(super) fn new(body: Body, request: Arc<OpenRequest>, has_flow_control: bool) -> AnswerBody {
        AnswerBody { body, request, has_flow_control }
    }
}

impl HttpBody for AnswerBody {
    type Data = AnswerPart;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerPart>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let request = self.has_flow_control.then_some(&self.request);
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| AnswerPart::new(bytes, request)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of an answer.
pub(super) struct AnswerPart {
    bytes: Bytes,
    request: Option<Arc<OpenRequest>>,
}

impl AnswerPart {
    fn new(bytes: Bytes, request: Option<&Arc<OpenRequest>>) -> AnswerPart {
        let request = request.cloned().inspect(|request| request.add_untaken(bytes.len()));
        AnswerPart { bytes, request }
    }
}

impl Buf for AnswerPart {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(request) = self.request.as_ref().filter(|_| count > 0) {
            request.take(count);
        }
    }
}

impl Drop for AnswerPart {
    fn drop(&mut self) {
        // The client has cancelled its request, or the connection ends.
        let rest = self.bytes.len();
        if let Some(request) = self.request.as_ref().filter(|_| rest > 0) {
            request.take(rest);
        }
    }
}
