//! A set of byte values.

use std::fmt;

/// Bit set of the 256 byte values.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// No byte.
    pub const EMPTY: ByteSet = ByteSet([0; 4]);
    /// All bytes.
    pub const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// The set of these bytes.
    pub const fn of(bytes: &[u8]) -> ByteSet {
        let mut words = [0u64; 4];
        let mut at = 0;
        while at < bytes.len() {
            words[(bytes[at] >> 6) as usize] |= 1 << (bytes[at] & 63);
            at += 1;
        }
        ByteSet(words)
    }

    /// The set as four words, lowest byte first.
    pub const fn words(self) -> [u64; 4] {
        self.0
    }

    /// The set with these words.
    pub const fn from_words(words: [u64; 4]) -> ByteSet {
        ByteSet(words)
    }

    /// Adds a byte.
    #[inline]
    pub fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Adds every byte of a text.
    #[inline]
    pub fn insert_all(&mut self, text: &[u8]) {
        for byte in text {
            self.insert(*byte);
        }
    }

    /// Whether the byte is in the set.
    #[inline]
    pub fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == ByteSet::EMPTY
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: ByteSet) -> ByteSet {
        let [a, b, c, d] = self.0;
        let [e, f, g, h] = other.0;
        ByteSet([a | e, b | f, c | g, d | h])
    }

    /// Whether the sets intersect.
    pub fn intersects(self, other: ByteSet) -> bool {
        self.0.iter().zip(other.0).any(|(mine, other)| mine & other != 0)
    }

    /// Whether the set is a subset of `other`.
    pub fn is_subset(self, other: ByteSet) -> bool {
        self.0.iter().zip(other.0).all(|(mine, other)| mine & !other == 0)
    }

    /// The bytes of the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=255u8).filter(move |byte| self.contains(*byte))
    }
}

impl fmt::Debug for ByteSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = self.iter().collect();
        write!(out, "ByteSet({})", bytes.escape_ascii())
    }
}
