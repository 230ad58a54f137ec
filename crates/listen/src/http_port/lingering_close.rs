//! A connection that is closed so that its sender still reads the last answer.
//!
//! A system that closes a connection with unread bytes tells the sender so at once, and the answer that was on its way
//! is lost. Who is refused in the middle of a body has such bytes on the way: they are read past for a while.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes that are read past at a time.
const PART_BYTES: usize = 16 << 10;
/// Parts that are read past before others have their turn.
const PARTS_PER_TURN: usize = 16;

/// A connection.
pub(super) struct Lingering<Io> {
    io: Io,
    /// Longest time of reading past.
    longest: Duration,
    state: State,
}

enum State {
    Open,
    ReadingPast(Pin<Box<Sleep>>),
    Closed,
}

impl<Io> Lingering<Io> {
    /// A connection whose end may take so long.
    pub(super) fn new(io: Io, longest: Duration) -> Lingering<Io> {
        Lingering { io, longest, state: State::Open }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Lingering<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connection = &mut *self;
        if matches!(connection.state, State::Open) {
            ready!(Pin::new(&mut connection.io).poll_shutdown(context))?;
            connection.state = State::ReadingPast(Box::pin(tokio::time::sleep(connection.longest)));
        }
        if let State::ReadingPast(time) = &mut connection.state {
            ready!(poll_read_past(&mut connection.io, time.as_mut(), context));
            connection.state = State::Closed;
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads past what comes, until the sender ends or the time is over.
fn poll_read_past<Io: AsyncRead + Unpin>(io: &mut Io, time: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
    if time.poll(context).is_ready() {
        return Poll::Ready(());
    }
    let mut part = [0; PART_BYTES];
    for _ in 0..PARTS_PER_TURN {
        let mut buffer = ReadBuf::new(&mut part);
        match ready!(Pin::new(&mut *io).poll_read(context, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => {}
            // It has ended, or is gone.
            _ => return Poll::Ready(()),
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
