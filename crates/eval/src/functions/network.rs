//! CIDR networks for `cidrmatch`, searches and lookup tables.

use std::net::IpAddr;

/// A network or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    bits: u128,
    mask: u128,
    is_v4: bool,
}

impl Network {
    /// Parses `10.0.0.0/8`, `fe80::/10` or an address.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, length) = match text.trim().split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
            None => (text.trim(), None),
        };
        let (bits, is_v4) = address_bits(address)?;
        let width = if is_v4 { u32::BITS } else { u128::BITS };
        let length = length.unwrap_or(width);
        let mask = if length == 0 { 0 } else { u128::MAX.checked_shl(width.checked_sub(length)?)? };
        Some(Network { bits: bits & mask, mask, is_v4 })
    }

    /// Whether the text is an address of the network.
    pub fn contains(&self, address: &str) -> bool {
        address_bits(address).is_some_and(|(bits, is_v4)| is_v4 == self.is_v4 && bits & self.mask == self.bits)
    }
}

fn address_bits(text: &str) -> Option<(u128, bool)> {
    Some(match text.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (u128::from(u32::from(address)), true),
        IpAddr::V6(address) => (u128::from(address), false),
    })
}
