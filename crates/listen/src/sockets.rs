//! Sockets that listen: with room for a crowd that comes at once, and none for senders that are no more.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that the system keeps until they are accepted. Beyond it, it lets senders try again after a second, also
/// those that mean well; the usual 128 are there in milliseconds. The system may have a lower limit.
const BACKLOG: u32 = 4_096;

/// Silence after which the system asks whether a sender is still there, time between two questions, and how many have no
/// answer before its connection ends. A machine that lost its power never says that it is gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(60);
const KEEPALIVE_TRIES: u32 = 5;

/// Listens on an address.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that starts again finds its port still named in connections that have ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // Connections inherit it.
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_TRIES)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_end_whose_senders_are_no_more() {
        let listener = listen_on("127.0.0.1:0".parse().unwrap()).unwrap();
        let _sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KEEPALIVE_EVERY);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), KEEPALIVE_TRIES);
    }
}
