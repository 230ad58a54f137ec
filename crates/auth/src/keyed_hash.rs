//! HMAC-SHA-256 (RFC 2104). Secrets used as keys of in-memory maps are stored only as their keyed hash.

use sha2::{Digest, Sha256};

/// Block size of SHA-256.
const BLOCK_BYTES: usize = 64;

/// A keyed hash.
pub(crate) type KeyedHash = [u8; 32];

/// A random key, new at each start.
pub(crate) struct HashKey([u8; 32]);

impl HashKey {
    /// A new random key.
    pub(crate) fn new(random: &dyn Fn(&mut [u8])) -> HashKey {
        let mut key = [0; 32];
        random(&mut key);
        HashKey(key)
    }

    /// Hash of the parts. Lengths are hashed, too, so that different lists of parts with the same concatenation have
    /// different hashes.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> KeyedHash {
        let inner = parts.iter().fold(Sha256::new_with_prefix(padded(&self.0, 0x36)), |hash, part| {
            hash.chain_update((part.len() as u64).to_le_bytes()).chain_update(part)
        });
        Sha256::new_with_prefix(padded(&self.0, 0x5c)).chain_update(inner.finalize()).finalize().into()
    }
}

/// Plain HMAC of a text.
pub(crate) fn hmac(key: &KeyedHash, text: &[u8]) -> KeyedHash {
    let inner = Sha256::new_with_prefix(padded(key, 0x36)).chain_update(text).finalize();
    Sha256::new_with_prefix(padded(key, 0x5c)).chain_update(inner).finalize().into()
}

fn padded(key: &KeyedHash, byte: u8) -> [u8; BLOCK_BYTES] {
    let mut block = [byte; BLOCK_BYTES];
    block.iter_mut().zip(key).for_each(|(padded, key)| *padded ^= key);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_matches_reference_vectors() {
        // RFC 4231, test case 1: HMAC pads a 20-byte key with zeros.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(crate::tokens::hex(&hmac(&key, b"Hi There")), expected);
    }

    #[test]
    fn hashes_depend_on_part_boundaries_and_key() {
        let key = HashKey::new(&|bytes| bytes.fill(1));
        assert_eq!(key.hash(&[b"ab", b"c"]), key.hash(&[b"ab", b"c"]));
        assert_ne!(key.hash(&[b"ab", b"c"]), key.hash(&[b"a", b"bc"]));
        assert_ne!(key.hash(&[b"ab"]), HashKey::new(&|bytes| bytes.fill(2)).hash(&[b"ab"]));
    }
}
