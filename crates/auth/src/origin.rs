//! The network origin of a request.

use std::net::{IpAddr, Ipv4Addr};

/// The origin of a request, as seen by the port that accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The peer's address.
    pub address: IpAddr,
    /// Whether the request comes from this machine: peer and listener are loopback addresses, and the request shows no
    /// signs of a proxy.
    pub is_local: bool,
}

impl Origin {
    /// An unknown origin.
    pub const UNKNOWN: Origin = Origin { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), is_local: false };

    /// A request from this machine.
    pub const LOCAL: Origin = Origin { address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_local: true };

    /// A request from `peer` to a port at `listener`; `is_forwarded` is true if the request shows signs of a proxy.
    pub fn of(peer: IpAddr, listener: IpAddr, is_forwarded: bool) -> Origin {
        let address = peer.to_canonical();
        let is_local = address.is_loopback() && listener.to_canonical().is_loopback() && !is_forwarded;
        Origin { address, is_local }
    }

    /// Key under which failed logins are counted: an IPv4 address, or the /64 prefix of an IPv6 address, because one
    /// sender may use all addresses of a /64.
    pub(crate) fn network_key(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64 | 1 << 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_within_the_machine_are_local() {
        let of = |peer: &str, listener: &str, is_forwarded| {
            Origin::of(peer.parse().unwrap(), listener.parse().unwrap(), is_forwarded).is_local
        };
        assert!(of("127.0.0.1", "127.0.0.1", false) && of("::1", "::1", false));
        assert!(of("::ffff:127.0.0.1", "::ffff:127.0.0.1", false));
        assert!(!of("192.0.2.1", "192.0.2.9", false), "from another machine");
        assert!(!of("127.0.0.1", "0.0.0.0", false), "the port is reachable from other machines");
        assert!(!of("127.0.0.1", "127.0.0.1", true), "through a proxy");
    }

    #[test]
    fn neighbours_of_ipv6_share_limits() {
        let of = |peer: &str| Origin::of(peer.parse().unwrap(), peer.parse().unwrap(), false).network_key();
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
