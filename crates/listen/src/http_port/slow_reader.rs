//! A minimum read rate for clients: the connection of a client that reads an answer too slowly ends with an error.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::delegate::delegate;
use super::request_body::Pace;

/// A connection with a minimum read rate.
pub(super) struct PacedWriter<Io> {
    io: Io,
    pace: Pace,
    /// Timer of the current period, which begins when a write must wait and ends when the peer has accepted enough
    /// bytes or everything.
    window: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the end of the previous period.
    taken: usize,
}

impl<Io> PacedWriter<Io> {
    /// Wraps a connection whose peer must read at this rate.
    pub(super) fn new(io: Io, pace: Pace) -> PacedWriter<Io> {
        PacedWriter { io, pace, window: None, taken: 0 }
    }

    /// Accounts for the result of a write.
    fn account_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.taken += bytes;
            if self.taken >= self.pace.bytes {
                self.restart_window();
            }
        }
        if written.is_ready() { written } else { self.waited(context) }
    }

    fn waited<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let window = self.window.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.pace.window)));
        match window.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer is not read"))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn restart_window(&mut self) {
        (self.taken, self.window) = (0, None);
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for PacedWriter<Io> {
    delegate!(io: poll_read);
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for PacedWriter<Io> {
    delegate!(io: is_write_vectored);

    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.account_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.account_write(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_flush(context) {
            Poll::Ready(flushed) => {
                // Everything was read; later data starts a new period.
                self.restart_window();
                Poll::Ready(flushed)
            }
            Poll::Pending => self.waited(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_shutdown(context) {
            Poll::Pending => self.waited(context),
            shut => shut,
        }
    }
}
