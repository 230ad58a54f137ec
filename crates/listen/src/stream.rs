//! Reading from a connection, with or without TLS, so that an idle connection holds no buffer.
//!
//! The first bytes after a silence are read into a small buffer; with a turn (a permit, `read_slots`), the connection
//! then reads the remaining available data without blocking.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Size of the small buffer.
const PROBE_BYTES: usize = 4 << 10;

/// A connection with or without TLS.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// Waits for data; an empty result means that the sender has closed.
pub(crate) async fn first_bytes(connection: &mut dyn Connection) -> io::Result<Vec<u8>> {
    poll_fn(|context| {
        let mut probe = [0; PROBE_BYTES];
        let mut buffer = ReadBuf::new(&mut probe);
        match Pin::new(&mut *connection).poll_read(context, &mut buffer) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map(|()| buffer.filled().to_vec())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// True if more data may be available.
pub(crate) fn is_full_probe(bytes: &[u8]) -> bool {
    bytes.len() >= PROBE_BYTES
}

/// Reads available data into `buffer`; `None` if there is none, 0 if the sender has closed.
pub(crate) fn read_now(connection: &mut dyn Connection, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // No waker is needed here, because the next wait registers its own.
    let mut context = Context::from_waker(Waker::noop());
    let mut buffer = ReadBuf::new(buffer);
    match Pin::new(connection).poll_read(&mut context, &mut buffer) {
        Poll::Ready(outcome) => outcome.map(|()| Some(buffer.filled().len())),
        Poll::Pending => Ok(None),
    }
}

/// Writes all of `bytes`.
pub(crate) async fn write(connection: &mut dyn Connection, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *connection).poll_write(context, rest)).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    poll_fn(|context| Pin::new(&mut *connection).poll_flush(context)).await
}
