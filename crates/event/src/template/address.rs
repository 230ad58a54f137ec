//! Texts of IPv4 addresses: parsed, and written from a table of octets.

/// Bytes of an array that has room for the text of any address; at least one byte stays zero.
pub const IP4_TEXT_BYTES: usize = 16;

/// The text of each octet followed by a point, and the number of its digits.
const OCTETS: [([u8; 4], u8); 256] = octets();

const fn octets() -> [([u8; 4], u8); 256] {
    let mut octets = [([0; 4], 0); 256];
    let mut octet = 0u8;
    loop {
        let (hundreds, tens, ones) = (b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10);
        octets[octet as usize] = match octet {
            0..10 => ([ones, b'.', 0, 0], 1),
            10..100 => ([tens, ones, b'.', 0], 2),
            _ => ([hundreds, tens, ones, b'.'], 3),
        };
        if octet == u8::MAX {
            return octets;
        }
        octet += 1;
    }
}

/// The text of an address, followed by zeros, and its length. Read as big-endian numbers, the arrays are in the order
/// of the texts.
#[inline]
pub fn ip4_text(address: u32) -> ([u8; IP4_TEXT_BYTES], usize) {
    let (mut text, mut len) = ([0; IP4_TEXT_BYTES], 0);
    for octet in address.to_be_bytes() {
        let (digits, count) = OCTETS[usize::from(octet)];
        text[len..len + digits.len()].copy_from_slice(&digits);
        len += usize::from(count) + 1;
    }
    len -= 1;
    text[len] = 0;
    (text, len)
}

/// The address at the start of a text, and the length of its text. Its numbers have no leading zeros.
#[inline]
pub fn ip4_at_start(text: &[u8]) -> Option<(u32, usize)> {
    let (mut address, mut at) = (0, 0);
    for octet in 0..4 {
        if octet > 0 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let (start, mut value) = (at, 0);
        while let Some(digit @ b'0'..=b'9') = text.get(at)
            && at - start < 3
        {
            value = value * 10 + u32::from(digit - b'0');
            at += 1;
        }
        if at == start || value > 255 || (at - start > 1 && text[start] == b'0') {
            return None;
        }
        address = address << 8 | value;
    }
    Some((address, at))
}

/// Length of the text of an address.
#[inline]
pub fn ip4_text_len(address: u32) -> u32 {
    address.to_be_bytes().into_iter().map(|octet| u32::from(OCTETS[usize::from(octet)].1)).sum::<u32>() + 3
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_of_addresses_are_in_the_order_of_their_arrays(one in any::<u32>(), other in any::<u32>()) {
            let [(one, one_text), (other, other_text)] =
                [one, other].map(|address| (address, Ipv4Addr::from(address).to_string()));
            let ((bytes, len), (other_bytes, _)) = (ip4_text(one), ip4_text(other));
            prop_assert_eq!(&bytes[..len], one_text.as_bytes());
            prop_assert_eq!(ip4_text_len(one) as usize, len);
            prop_assert_eq!(ip4_at_start(&bytes[..len]), Some((one, len)));
            prop_assert_eq!(bytes.cmp(&other_bytes), one_text.cmp(&other_text));
        }
    }

    #[test]
    fn addresses_have_four_octets_without_leading_zeros() {
        assert_eq!(ip4_at_start(b"1.2.3.4:80"), Some((0x0102_0304, 7)));
        for text in ["256.1.1.1", "1.2.3", "1.2.3.04", "01.2.3.4", "1..2.3", "", "a"] {
            assert_eq!(ip4_at_start(text.as_bytes()), None, "{text}");
        }
    }
}
