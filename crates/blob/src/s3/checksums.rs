//! Block checksums appended to an object, so that any range of it can be verified on arrival.
//!
//! A store's own checksum covers a whole object, but a search reads parts. Each object is therefore stored with a
//! trailer, which consists of a checksum per block and a footer. Opening the object reads its end first, in one request
//! that also returns its size. After that, ranges are read in whole blocks, and corruption in transit is detected
//! before anything is decoded.
//!
//! ```text
//! bytes        N
//! sums         8 bytes for each block of 8 KiB: XXH3-64 of the block, seeded with its number
//! footer       "QRYSUMS1", N as u64, 8192 as u64, XXH3-64 of the sums and of the footer so far
//! ```
//! Numbers are little-endian. The seed detects blocks that were swapped. Older objects have blocks of 16 KiB; their
//! footer says so.

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Size of a checksum block. A search for an id reads some dozens of pieces of a few hundred bytes, each as a whole
/// block; smaller blocks mean fewer bytes.
pub(crate) const BLOCK_BYTES: u64 = 8 << 10;
/// Size of a checksum block of older objects.
const OLDER_BLOCK_BYTES: u64 = 16 << 10;
/// Size of a footer.
pub(crate) const FOOTER_BYTES: usize = 32;

const MAGIC: &[u8; 8] = b"QRYSUMS1";
const SUM_BYTES: usize = 8;

/// The trailer of an object.
pub(crate) fn trailer(bytes: &[u8]) -> Bytes {
    trailer_with(bytes, BLOCK_BYTES)
}

/// Like [`trailer`], for blocks of this size.
fn trailer_with(bytes: &[u8], block_bytes: u64) -> Bytes {
    let blocks = bytes.chunks(block_bytes as usize);
    let mut trailer = BytesMut::with_capacity(blocks.len() * SUM_BYTES + FOOTER_BYTES);
    for (number, block) in (0..).zip(blocks) {
        trailer.put_u64_le(xxh3_64_with_seed(block, number));
    }
    trailer.put_slice(MAGIC);
    trailer.put_u64_le(bytes.len() as u64);
    trailer.put_u64_le(block_bytes);
    trailer.put_u64_le(xxh3_64(&trailer));
    trailer.freeze()
}

/// The sizes stored in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Size of the object without its trailer.
    pub(crate) size: u64,
    /// Size of the trailer.
    pub(crate) trailer: u64,
    /// Size of a checksum block.
    block_bytes: u64,
}

impl Footer {
    /// Parses the last bytes of an object whose stored size is `stored`; `None` if they are not its footer.
    pub(crate) fn read(end: &[u8], stored: u64) -> Option<Footer> {
        let footer = end.last_chunk::<FOOTER_BYTES>()?;
        let number = |from: usize| footer[from..].first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let block_bytes = number(16)?;
        if !footer.starts_with(MAGIC) || ![BLOCK_BYTES, OLDER_BLOCK_BYTES].contains(&block_bytes) {
            return None;
        }
        let size = number(8)?;
        let sums = size.div_ceil(block_bytes).checked_mul(SUM_BYTES as u64)?;
        let trailer = sums.checked_add(FOOTER_BYTES as u64)?;
        (size.checked_add(trailer)? == stored).then_some(Footer { size, trailer, block_bytes })
    }
}

/// Checksums of an object's blocks.
#[derive(Debug)]
pub(crate) struct BlockChecksums {
    size: u64,
    block_bytes: u64,
    blocks: Vec<u64>,
}

impl BlockChecksums {
    /// Parses the trailer described by `footer`; `None` if it is damaged.
    pub(crate) fn read(trailer: &[u8], footer: Footer) -> Option<BlockChecksums> {
        let (body, own) = trailer.split_last_chunk::<SUM_BYTES>()?;
        if trailer.len() as u64 != footer.trailer || xxh3_64(body) != u64::from_le_bytes(*own) {
            return None;
        }
        let sums = body.get(..trailer.len().checked_sub(FOOTER_BYTES)?)?;
        let blocks = sums.as_chunks::<SUM_BYTES>().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
        Some(BlockChecksums { size: footer.size, block_bytes: footer.block_bytes, blocks })
    }

    /// Size of the object without its trailer.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Size of a checksum block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The byte range of the whole blocks that a range touches.
    pub(crate) fn enclosing_blocks(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        let start = offset / self.block_bytes * self.block_bytes;
        let end = (offset + len).next_multiple_of(self.block_bytes).min(self.size);
        start..end.max(start)
    }

    /// Whether these are the object's bytes starting at block boundary `start`; the last block must be whole.
    pub(crate) fn match_bytes(&self, start: u64, bytes: &[u8]) -> bool {
        debug_assert!(start.is_multiple_of(self.block_bytes), "{start} is inside a block");
        let first = start / self.block_bytes;
        (first..).zip(bytes.chunks(self.block_bytes as usize)).all(|(number, block)| {
            let whole = self.size.saturating_sub(number * self.block_bytes).min(self.block_bytes);
            let sum = usize::try_from(number).ok().and_then(|number| self.blocks.get(number));
            block.len() as u64 == whole && sum == Some(&xxh3_64_with_seed(block, number))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(object: &[u8]) -> Option<(BlockChecksums, Footer)> {
        let footer = Footer::read(object, object.len() as u64)?;
        Some((BlockChecksums::read(&object[footer.size as usize..], footer)?, footer))
    }

    #[test]
    fn older_objects_have_larger_blocks() {
        let block = OLDER_BLOCK_BYTES as usize;
        for size in [0, 1, block, 2 * block + 1] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let object = [&bytes[..], &trailer_with(&bytes, OLDER_BLOCK_BYTES)].concat();
            let (sums, _) = read(&object).expect("a trailer");
            assert_eq!((sums.size(), sums.block_bytes()), (size as u64, OLDER_BLOCK_BYTES));
            assert!(sums.match_bytes(0, &bytes));
            assert_eq!(sums.enclosing_blocks(BLOCK_BYTES, 1), 0..OLDER_BLOCK_BYTES.min(size as u64));
        }
        assert!(read(&[&[7; 9][..], &trailer_with(&[7; 9], 4_096)].concat()).is_none(), "an unknown size of blocks");
    }

    fn with_trailer(bytes: &[u8]) -> Vec<u8> {
        [bytes, &trailer(bytes)].concat()
    }

    #[test]
    fn checksums_cover_objects_of_any_length() {
        let block = BLOCK_BYTES as usize;
        for size in [0, 1, block - 1, block, block + 1, 3 * block] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let (sums, footer) = read(&with_trailer(&bytes)).expect("a trailer");
            assert_eq!((footer.size, sums.size()), (size as u64, size as u64));
            assert!(sums.match_bytes(0, &bytes));
            assert_eq!(sums.enclosing_blocks(0, size as u64), 0..size as u64);
        }
        let (sums, _) = read(&with_trailer(&vec![7; 3 * block])).expect("a trailer");
        assert_eq!(sums.enclosing_blocks(BLOCK_BYTES - 1, 2), 0..2 * BLOCK_BYTES);
        assert_eq!(sums.enclosing_blocks(2 * BLOCK_BYTES, 1), 2 * BLOCK_BYTES..3 * BLOCK_BYTES);
        assert!(!sums.match_bytes(0, &vec![7; block - 1]), "a part of a block");
        assert!(!sums.match_bytes(3 * BLOCK_BYTES, &vec![7; block]), "beyond the end");
    }

    #[test]
    fn swapped_blocks_are_detected() {
        let block = BLOCK_BYTES as usize;
        let (one, two) = (vec![1; block], vec![2; block]);
        let (sums, _) = read(&with_trailer(&[one.clone(), two.clone()].concat())).expect("a trailer");
        assert!(sums.match_bytes(0, &one) && sums.match_bytes(BLOCK_BYTES, &two));
        assert!(!sums.match_bytes(0, &two) && !sums.match_bytes(BLOCK_BYTES, &one));
    }

    proptest! {
        #[test]
        fn changed_or_missing_bytes_are_detected(
            bytes in proptest::collection::vec(any::<u8>(), 0..40_000), at in any::<usize>(), by in 1_u8..,
        ) {
            let good = with_trailer(&bytes);
            let mut bad = good.clone();
            let at = at % bad.len();
            bad[at] ^= by;
            let found = read(&bad).is_some_and(|(sums, _)| sums.match_bytes(0, &bad[..bytes.len()]));
            prop_assert!(!found, "byte {at} of {} was changed", good.len());
            prop_assert!(Footer::read(&good[..good.len() - 1], good.len() as u64 - 1).is_none());
            let cut = read(&good[..at]).is_some_and(|(sums, _)| sums.size() == bytes.len() as u64);
            prop_assert!(!cut, "cut at {at}");
        }
    }
}
