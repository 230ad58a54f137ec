//! Reading and writing plain bytes: little-endian integers, varints and length-prefixed runs.
//!
//! A [`Cursor`] never panics, and allocates nothing but error messages. Callers allocate memory only for counts from
//! [`Cursor::count`], which checks a limit.

use quarry_stdx::number::{low_u8, u32_of};

/// Reason why bytes are malformed; the caller adds the position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(what: impl Into<String>) -> Malformed {
        Malformed(what.into())
    }
}

/// Bytes of the longest varint of a 64-bit number.
const MAX_VARINT_BYTES: usize = 10;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_u8(value) | 0x80);
        value >>= 7;
    }
    out.push(low_u8(value));
}

/// Zigzag encoding: numbers near zero of either sign become short varints.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, run: &[u8]) {
    put_varint(out, run.len() as u64);
    out.extend_from_slice(run);
}

/// Reads the values that the functions above write.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Malformed> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(Malformed(format!("{what} needs {len} bytes, {} are left", self.bytes.len()))),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Malformed> {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                Ok(*first)
            }
            None => Err(Malformed(format!("{what} is missing"))),
        }
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self, what: &str) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for at in 0..MAX_VARINT_BYTES {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds only the 64th bit.
            if at == MAX_VARINT_BYTES - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed(format!("{what} is not a number of 64 bits")))
    }

    pub(crate) fn signed(&mut self, what: &str) -> Result<i64, Malformed> {
        let value = self.varint(what)?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads a count or length that must not exceed `limit`.
    pub(crate) fn count(&mut self, what: &str, limit: usize) -> Result<usize, Malformed> {
        let value = self.varint(what)?;
        match usize::try_from(value) {
            Ok(count) if count <= limit => Ok(count),
            _ => Err(Malformed(format!("{what} is {value}; the limit is {limit}"))),
        }
    }

    /// Reads a count or length of 32 bits that must not exceed `limit`.
    pub(crate) fn count32(&mut self, what: &str, limit: usize) -> Result<u32, Malformed> {
        self.count(what, limit.min(u32::MAX as usize)).map(u32_of)
    }

    /// Reads a length-prefixed run of at most `limit` bytes.
    pub(crate) fn bytes(&mut self, what: &str, limit: usize) -> Result<&'a [u8], Malformed> {
        let len = self.count(what, limit)?;
        self.take(len, what)
    }

    pub(crate) fn text(&mut self, what: &str, limit: usize) -> Result<&'a str, Malformed> {
        let run = self.bytes(what, limit)?;
        std::str::from_utf8(run).map_err(|_| Malformed(format!("{what} is not UTF-8")))
    }

    /// Checks that everything has been read.
    pub(crate) fn finish(&self, what: &str) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(Malformed(format!("{left} bytes follow the end of {what}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(value in any::<u64>(), signed in any::<i64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_signed(&mut out, signed);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varint("a"), Ok(value));
            prop_assert_eq!(cursor.signed("b"), Ok(signed));
            prop_assert_eq!(cursor.finish("all"), Ok(()));
        }
    }

    #[test]
    fn overlong_varints_are_rejected() {
        assert!(Cursor::new(&[0xff; 11]).varint("x").is_err());
        assert!(Cursor::new(&[0x80]).varint("x").is_err());
        assert_eq!(Cursor::new(&[200, 1]).count("rows", 100), Err(Malformed("rows is 200; the limit is 100".into())));
    }
}
