//! HMAC-SHA-256 (RFC 2104). Secrets used as keys of in-memory maps are stored only as their keyed hash.

use ring::hmac::{Context, HMAC_SHA256, Key, Tag};

pub(crate) type KeyedHash = [u8; 32];

/// A random key, new at each start.
pub(crate) struct HashKey(Key);

impl HashKey {
    pub(crate) fn new(random: &dyn Fn(&mut [u8])) -> HashKey {
        let mut key = KeyedHash::default();
        random(&mut key);
        HashKey(Key::new(HMAC_SHA256, &key))
    }

    /// Hash of the parts. Lengths are hashed, too, so that different lists of parts with the same concatenation have
    /// different hashes.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> KeyedHash {
        let mut context = Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        bytes_of(&context.sign())
    }
}

fn bytes_of(tag: &Tag) -> KeyedHash {
    let mut bytes = KeyedHash::default();
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_part_boundaries_and_key() {
        let key = HashKey::new(&|bytes| bytes.fill(1));
        assert_eq!(key.hash(&[b"ab", b"c"]), key.hash(&[b"ab", b"c"]));
        assert_ne!(key.hash(&[b"ab", b"c"]), key.hash(&[b"a", b"bc"]));
        assert_ne!(key.hash(&[b"ab"]), HashKey::new(&|bytes| bytes.fill(2)).hash(&[b"ab"]));
    }
}
