//! Sockets that listen: with room for a crowd that comes at once.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that the system keeps until they are accepted. Beyond it, it lets senders try again after a second, also
/// those that mean well; the usual 128 are there in milliseconds. The system may have a lower limit.
const BACKLOG: u32 = 4_096;

/// Listens on an address.
pub(crate) fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that starts again finds its port still named in connections that have ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
