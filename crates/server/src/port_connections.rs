//! Open connections to a TCP port of this process, as the system lists them.
//!
//! `/proc/net/tcp` and `tcp6` have a line per socket of the machine, and the links in `/proc/self/fd` tell which
//! sockets belong to this process. This requires no counting while data arrives, and the list is correct even if
//! another program uses the same port at another address.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use quarry_stdx::Fault;

/// Tables of sockets.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The open files of this process.
const OPEN_FILES: &str = "/proc/self/fd";
/// Number of a connection's state in these tables.
const ESTABLISHED: &str = "01";
/// Maximum number of connections that are returned, as many as all ports together accept.
const CONNECTIONS_MAX: usize = 16_384;

/// Peers of the connections that this process has accepted at a port, sorted.
pub(crate) fn peers_of_port(port: u16) -> Result<Vec<SocketAddr>, Fault> {
    let own = own_sockets()?;
    let mut peers = BTreeSet::new();
    for table in TABLES {
        // A system without IPv6 has no second table.
        let Ok(text) = fs::read_to_string(table) else { continue };
        peers.extend(connections(&text).filter(|at| at.port == port && own.contains(&at.socket)).map(|at| at.peer));
    }
    Ok(peers.into_iter().take(CONNECTIONS_MAX).collect())
}

/// A connection in a table.
#[derive(Debug, PartialEq, Eq)]
struct SocketRow {
    /// Port of this machine.
    port: u16,
    peer: SocketAddr,
    /// Number of the socket.
    socket: u64,
}

/// Numbers of the sockets that this process has open.
fn own_sockets() -> Result<BTreeSet<u64>, Fault> {
    let failed = |error: std::io::Error| Fault::unavailable(format!("{OPEN_FILES}: {error}"));
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(OPEN_FILES).map_err(failed)? {
        // A file may be closed meanwhile.
        let Ok(target) = entry.map_err(failed)?.path().read_link() else { continue };
        let number = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(found)
}

/// The connections of a table.
fn connections(table: &str) -> impl Iterator<Item = SocketRow> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, peer, state) = (words.next()?, words.next()?, words.next()?);
        let socket = words.nth(5)?.parse().ok()?;
        (state == ESTABLISHED).then_some(())?;
        Some(SocketRow { port: parse_address(local)?.port(), peer: parse_address(peer)?, socket })
    })
}

/// An address in hexadecimal: words of 32 bits in the byte order of the machine, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut octets = [0; 16];
            octets.iter_mut().zip(words.iter().flatten()).for_each(|(octet, byte)| *octet = *byte);
            // For a port that listens on all addresses, IPv4 addresses of peers are listed as IPv6 addresses.
            IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn tables_have_addresses_in_hexadecimal() {
        let v4 = u32::from_ne_bytes([10, 0, 0, 1]);
        let v6 = |octets: [u8; 16]| {
            octets
                .chunks(4)
                .map(|word| format!("{:08X}", u32::from_ne_bytes(word.try_into().unwrap())))
                .collect::<String>()
        };
        let mapped = v6(Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets());
        let table = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 00000000:270F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0\n\
             1: 00000000:270F {v4:08X}:C350 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1\n\
             2: {mapped}:270F {mapped}:0050 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1\n\
             damaged\n"
        );
        let found: Vec<SocketRow> = connections(&table).collect();
        let expected = [("10.0.0.1:50000", 12), ("10.0.0.2:80", 13)].map(|(peer, socket)| SocketRow {
            port: 9_999,
            peer: peer.parse().unwrap(),
            socket,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn accepted_connections_are_listed_until_they_end() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = port.local_addr().unwrap();
        assert_eq!(peers_of_port(at.port()).unwrap(), []);
        let client = TcpStream::connect(at).unwrap();
        let (accepted, peer) = port.accept().unwrap();
        assert_eq!(peers_of_port(at.port()).unwrap(), [peer]);
        assert_eq!(peer, client.local_addr().unwrap());
        drop(accepted);
        assert_eq!(peers_of_port(at.port()).unwrap(), []);
    }
}
