//! Listening sockets with a large backlog and TCP keep-alive.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// Length of the accept queue. If the queue is full, the system makes clients retry after a second; the usual length of
/// 128 is filled within milliseconds by a burst. The system may impose a lower limit.
const BACKLOG: u32 = 4_096;

/// Keep-alive: idle time before the first probe, interval of probes, and number of unanswered probes after which a
/// connection ends. They are needed because a machine that lost power never closes its connections.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_PROBES: u32 = 5;

/// Listens on an address.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // After a restart, closed connections may still use the port (TIME_WAIT).
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // Accepted connections inherit this option.
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_of_dead_senders_end() {
        let listener = listen_on("127.0.0.1:0".parse().unwrap()).unwrap();
        let _sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), KEEPALIVE_PROBES);
    }
}
