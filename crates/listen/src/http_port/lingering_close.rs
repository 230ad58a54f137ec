//! Lingering close: keeps reading for a while after the last answer, so that the client can receive it.
//!
//! Closing a socket with unread data makes the system send a reset, and the answer in flight is lost. A client that is
//! refused in the middle of a body is still sending, so its data is read and discarded first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::delegate::delegate;

/// Number of bytes that are read and discarded at a time.
const PART_BYTES: usize = 16 << 10;
/// Number of such reads before other tasks may run.
const PARTS_PER_TURN: usize = 16;

/// A connection with a lingering close.
pub(super) struct Lingering<Io> {
    io: Io,
    /// Maximum time for which incoming data is discarded.
    longest: Duration,
    state: State,
}

enum State {
    Open,
    ReadingPast(Pin<Box<Sleep>>),
    Closed,
}

impl<Io> Lingering<Io> {
    /// Wraps a connection; `longest` is the maximum time.
    pub(super) fn new(io: Io, longest: Duration) -> Lingering<Io> {
        Lingering { io, longest, state: State::Open }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Lingering<Io> {
    delegate!(io: poll_read);
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<Io> {
    delegate!(io: poll_write, poll_write_vectored, is_write_vectored, poll_flush);

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connection = &mut *self;
        if matches!(connection.state, State::Open) {
            ready!(Pin::new(&mut connection.io).poll_shutdown(context))?;
            connection.state = State::ReadingPast(Box::pin(tokio::time::sleep(connection.longest)));
        }
        if let State::ReadingPast(time) = &mut connection.state {
            ready!(poll_discard(&mut connection.io, time.as_mut(), context));
            connection.state = State::Closed;
        }
        Poll::Ready(Ok(()))
    }
}

/// Discards incoming data until the sender closes or the time has passed.
fn poll_discard<Io: AsyncRead + Unpin>(io: &mut Io, time: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
    if time.poll(context).is_ready() {
        return Poll::Ready(());
    }
    let mut part = [0; PART_BYTES];
    for _ in 0..PARTS_PER_TURN {
        let mut buffer = ReadBuf::new(&mut part);
        match ready!(Pin::new(&mut *io).poll_read(context, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => {}
            // The sender has closed the connection or vanished.
            _ => return Poll::Ready(()),
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
