//! Access lists: addresses and networks of `acceptFrom`.

use ipnet::IpNet;
use quarry_stdx::Fault;
use std::net::IpAddr;

/// Length of the prefix of IPv6 addresses that map IPv4 addresses (`::ffff:0:0/96`, RFC 4291).
const MAPPED_PREFIX_BITS: u8 = 96;

/// Addresses that may send. The first matching entry applies; an empty list allows everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    entries: Vec<Entry>,
    /// Addresses of the only host that may send; `None` if only the list applies.
    only: Option<Vec<IpAddr>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    allows: bool,
    /// `None` matches every address.
    network: Option<IpNet>,
}

impl AccessList {
    /// Parses entries such as `10.0.0.0/8`, `!10.1.1.1`, `::1` and `*`.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<AccessList, Fault> {
        let entries: Result<Vec<Entry>, Fault> = entries.into_iter().map(entry).collect();
        Ok(AccessList { entries: entries?, only: None })
    }

    /// Allows only these addresses, which must also pass the list.
    pub fn restricted_to(self, addresses: &[IpAddr]) -> AccessList {
        AccessList { only: Some(addresses.iter().map(IpAddr::to_canonical).collect()), ..self }
    }

    /// True if `address` may send.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.only.as_ref().is_some_and(|only| !only.contains(&address)) {
            return false;
        }
        let entry = self.entries.iter().find(|entry| entry.network.is_none_or(|network| network.contains(&address)));
        // If the list has only refusals, all other addresses may send.
        entry.map_or_else(|| self.entries.iter().all(|entry| !entry.allows), |entry| entry.allows)
    }
}

fn entry(text: &str) -> Result<Entry, Fault> {
    let (allows, place) = text.strip_prefix('!').map_or((true, text), |rest| (false, rest));
    if place == "*" {
        return Ok(Entry { allows, network: None });
    }
    let wrong =
        || Fault::invalid(format!("{text}: give an address such as 10.1.2.3, a network such as 10.0.0.0/8, or *"));
    let single = || place.parse::<IpAddr>().map(IpNet::from);
    let network = place.parse::<IpNet>().or_else(|_| single()).map_err(|_| wrong())?;
    // A mapped IPv4 network (`::ffff:10.0.0.0/104`) is the IPv4 network, without the bits of the prefix.
    let canonical = network.addr().to_canonical();
    let mapped_bits = if canonical.is_ipv4() && network.addr().is_ipv6() { MAPPED_PREFIX_BITS } else { 0 };
    let bits = network.prefix_len().checked_sub(mapped_bits).ok_or_else(wrong)?;
    Ok(Entry { allows, network: Some(IpNet::new(canonical, bits).map_err(|_| wrong())?) })
}

#[cfg(test)]
mod tests {
    use super::AccessList;

    #[test]
    fn first_matching_entry_decides() {
        for (entries, address, allows) in [
            (&[][..], "10.1.2.3", true),
            (&["10.0.0.0/8"], "10.1.2.3", true),
            (&["10.0.0.0/8"], "11.1.2.3", false),
            (&["!10.1.2.3", "10.0.0.0/8"], "10.1.2.3", false),
            (&["!10.1.2.3"], "10.1.2.4", true),
            (&["!10.1.2.3", "*"], "10.1.2.4", true),
            (&["*"], "::1", true),
            (&["fe80::/10"], "fe80::1", true),
            (&["fe80::/10"], "10.1.2.3", false),
            (&["10.1.2.3"], "::ffff:10.1.2.3", true),
            (&["0.0.0.0/0"], "1.2.3.4", true),
            (&["10.0.0.0/8"], "::ffff:10.1.2.3", true),
            (&["::ffff:10.1.2.3"], "10.1.2.3", true),
            (&["::ffff:10.0.0.0/104"], "10.1.2.3", true),
            (&["::ffff:10.0.0.0/104"], "::ffff:10.1.2.3", true),
            (&["::ffff:10.0.0.0/104"], "11.1.2.3", false),
            (&["::ffff:0:0/96"], "11.1.2.3", true),
            (&["!::ffff:10.1.0.0/112", "*"], "10.1.2.3", false),
            (&["!::ffff:10.1.0.0/112", "*"], "10.2.2.3", true),
        ] {
            let list = AccessList::new(entries.iter().copied()).unwrap();
            assert_eq!(list.allows(address.parse().unwrap()), allows, "{entries:?} {address}");
        }
        let home = AccessList::new(["!10.1.2.4"]).unwrap();
        let home = home.restricted_to(&["10.1.2.3".parse().unwrap(), "10.1.2.4".parse().unwrap()]);
        let allowed = ["10.1.2.3", "10.1.2.4", "10.1.2.5"].map(|address| home.allows(address.parse().unwrap()));
        assert_eq!(allowed, [true, false, false], "the machine of a stanza's name, and acceptFrom");
        for wrong in ["web1", "10.0.0.0/33", "10.0.0.0/x", "!", "::ffff:10.0.0.0/64", "::1/129"] {
            assert!(AccessList::new([wrong]).is_err(), "{wrong}");
        }
    }
}
