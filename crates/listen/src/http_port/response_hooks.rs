//! A socket that runs the hooks of answers ([`ResponseHook`]) directly before it sends the answers.
//!
//! The TCP socket itself is wrapped, below TLS, so that nothing happens between a hook and the system call that sends
//! the answer. A hook is added before the answer is passed to hyper, so no write can send the answer before the hook
//! has run. The first write may carry other data (an earlier answer, a frame of another HTTP/2 stream); the hook then
//! runs too early, which is safe. No hooks run while the socket is full. When a connection ends, the hooks that have
//! not run are dropped. See docs/decisions/0030.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use quarry_inputs::hec::ResponseHook;
use quarry_stdx::log;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::delegate::delegate;

/// Hooks of answers that have not been sent, at most one per active request of the connection.
#[derive(Clone, Default)]
pub(super) struct ResponseHooks(Arc<Mutex<Vec<ResponseHook>>>);

impl ResponseHooks {
    /// Adds the hook of an answer. Must be called before the answer is passed to hyper.
    pub(super) fn add(&self, note: ResponseHook) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn take(&self) -> Vec<ResponseHook> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A socket and the hooks of its answers.
pub(super) struct HookedSocket {
    socket: TcpStream,
    hooks: ResponseHooks,
    /// Set after a hook failed; nothing more is sent then, because the data may contain that hook's answer.
    is_broken: bool,
}

impl HookedSocket {
    /// A socket without hooks.
    pub(super) fn new(socket: TcpStream) -> HookedSocket {
        HookedSocket { socket, hooks: ResponseHooks::default(), is_broken: false }
    }

    /// Handle to add hooks.
    pub(super) fn hooks(&self) -> ResponseHooks {
        self.hooks.clone()
    }

    /// Runs all hooks and returns them; the caller drops them after its write. After an error, nothing may be sent.
    fn poll_hooks(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<ResponseHook>>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.hooks.is_empty() {
            return Poll::Ready(Ok(Vec::new()));
        }
        ready!(self.socket.poll_write_ready(context))?;
        let hooks = self.hooks.take();
        let noted = hooks.iter().try_for_each(ResponseHook::run);
        Poll::Ready(noted.map(|()| hooks).map_err(|error| {
            self.is_broken = true;
            log::warning(format!(
                "a connection is closed, because its answer cannot be recorded before it is sent: {error}"
            ));
            io::Error::other(error)
        }))
    }
}

impl AsyncRead for HookedSocket {
    delegate!(socket: poll_read);
}

impl AsyncWrite for HookedSocket {
    delegate!(socket: is_write_vectored, poll_flush, poll_shutdown);

    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let _noted = ready!(self.poll_hooks(context))?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let _noted = ready!(self.poll_hooks(context))?;
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::TcpStream as Peer;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use tokio::net::TcpListener;

    use super::*;

    /// A socket and its other end, which never waits.
    async fn pair() -> (HookedSocket, Peer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Peer::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        (HookedSocket::new(listener.accept().await.unwrap().0), peer)
    }

    async fn write(socket: &mut HookedSocket, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| Pin::new(&mut *socket).poll_write(context, bytes)).await
    }

    /// A hook that counts its runs.
    fn note(
        noted: &Arc<AtomicUsize>,
        act: impl Fn() -> Result<(), quarry_inputs::SinkError> + Send + 'static,
    ) -> ResponseHook {
        let noted = Arc::clone(noted);
        ResponseHook::new(move || {
            noted.fetch_add(1, Ordering::SeqCst);
            act()
        })
    }

    #[tokio::test]
    async fn notes_run_once_before_any_byte_is_sent() {
        let (mut socket, peer) = pair().await;
        let noted = Arc::default();
        let other_end = peer.try_clone().unwrap();
        for _ in 0..2 {
            let other_end = other_end.try_clone().unwrap();
            socket.hooks().add(note(&noted, move || {
                assert!(other_end.peek(&mut [0]).is_err(), "nothing is sent yet");
                Ok(())
            }));
        }
        assert_eq!(noted.load(Ordering::SeqCst), 0);
        assert_eq!(write(&mut socket, b"two answers").await.unwrap(), 11);
        assert_eq!(noted.load(Ordering::SeqCst), 2);
        write(&mut socket, b"more").await.unwrap();
        assert_eq!(noted.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn notes_do_not_run_while_the_socket_is_full() {
        let (mut socket, mut peer) = pair().await;
        let mut context = Context::from_waker(Waker::noop());
        let mut in_socket = 0;
        while let Poll::Ready(written) = Pin::new(&mut socket).poll_write(&mut context, &[7; 1 << 16]) {
            in_socket += written.unwrap();
        }
        let noted = Arc::default();
        socket.hooks().add(note(&noted, || Ok(())));
        for _ in 0..3 {
            assert!(Pin::new(&mut socket).poll_write_vectored(&mut context, &[io::IoSlice::new(b"x")]).is_pending());
        }
        assert_eq!(noted.load(Ordering::SeqCst), 0);
        let mut read = 0;
        while read < in_socket {
            match io::Read::read(&mut peer, &mut [0; 1 << 16]) {
                Ok(bytes) => read += bytes,
                Err(_) => tokio::task::yield_now().await,
            }
        }
        write(&mut socket, b"x").await.unwrap();
        assert_eq!(noted.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn notes_of_closed_connections_are_dropped() {
        let (socket, _peer) = pair().await;
        let (noted, alive) = (Arc::default(), Arc::new(()));
        let held = Arc::clone(&alive);
        socket.hooks().add(note(&noted, move || {
            assert_eq!(Arc::strong_count(&held), 0, "it is not called");
            Ok(())
        }));
        drop(socket);
        assert_eq!((noted.load(Ordering::SeqCst), Arc::strong_count(&alive)), (0, 1));
    }

    #[tokio::test]
    async fn answers_are_not_sent_when_their_note_fails() {
        let (mut socket, mut peer) = pair().await;
        let noted = Arc::default();
        socket.hooks().add(note(&noted, || Err("the disk is broken".into())));
        socket.hooks().add(note(&noted, || Ok(())));
        assert!(write(&mut socket, b"an answer").await.unwrap_err().to_string().contains("broken"));
        // The layer above may retry the write, or shut down with unsent bytes.
        assert!(write(&mut socket, b"an answer").await.is_err());
        assert_eq!(noted.load(Ordering::SeqCst), 1);
        drop(socket);
        peer.set_nonblocking(false).unwrap();
        assert_eq!(io::Read::read(&mut peer, &mut [0; 9]).unwrap(), 0);
    }
}
