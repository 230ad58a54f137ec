//! Shared dictionaries: values that repeat across the slabs of a bucket, stored once, with a code per value.
//!
//! A 122-bit id that occurs four times in a bucket hardly repeats within a slab. While slabs are added, candidate
//! columns are coded provisionally against a table of the whole bucket, and the size of their ordinary chunks is
//! measured. After the last slab, the smaller of the two forms is written. Only the storage of the values differs: for
//! searches, such a column is an ordinary column of numbers.
//!
//! Numbers that fill one template together, such as the five parts of a UUID, form one entry with several components.
//!
//! A dictionary takes megabytes. It is stored in runs of entries, so that the values of a few events can be read
//! without reading the whole dictionary.

use quarry_stdx::number::low_u64;

mod cache;
mod gather;
mod read;
mod runs;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use quarry_event::template::NumberFormat;

pub(crate) use cache::{FewEntries, SharedCache};
pub(crate) use gather::{SharedColumns, SharingUnit};
pub(crate) use read::SharedDictionary;

use crate::block::{BlockKind, BlockRef};
use crate::integers::width_of;

/// Maximum number of entries of a shared dictionary.
pub(crate) const MAX_SHARED_ENTRIES: usize = 4 << 20;
/// Maximum number of components of an entry.
const MAX_COMPONENTS: usize = 16;
/// Maximum number of bits of an entry.
const MAX_ENTRY_BITS: u32 = u128::BITS;
/// Maximum bytes of an encoded dictionary: the bits of every entry, with room for headers.
pub(super) const MAX_SHARED_BYTES: usize = MAX_SHARED_ENTRIES * (MAX_ENTRY_BITS as usize / 8 + 8);
/// Maximum number of shared dictionaries in a bucket.
pub(crate) const MAX_SHARED_DICTIONARIES: usize = 256;

/// Location of a shared dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedAt {
    /// The directory of its runs; in older buckets, the whole dictionary.
    pub(crate) block: BlockRef,
    /// Stored bytes of the runs, which end where the directory starts; 0 in older buckets.
    pub(crate) run_bytes: u64,
}

impl SharedAt {
    /// Whether the dictionary is stored in runs.
    pub(crate) fn has_runs(&self) -> bool {
        self.block.kind == BlockKind::SharedDictionaryDirectory
    }

    /// Byte range of the whole dictionary.
    pub(crate) fn range(&self) -> Range<u64> {
        self.block.offset.saturating_sub(self.run_bytes)..self.block.range().end
    }

    /// Stored bytes of the whole dictionary.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.run_bytes + u64::from(self.block.stored_len)
    }
}

/// One number of an entry: `base` plus a value of this many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    width: u32,
    base: i64,
}

impl Component {
    /// Representation of numbers in this format; `None` if such numbers cannot be shared.
    fn of(format: NumberFormat) -> Option<Component> {
        match format {
            NumberFormat::Hex { digits } => Some(Component { width: 4 * u32::from(digits), base: 0 }),
            NumberFormat::Padded { digits } => {
                let most = 10u64.checked_pow(u32::from(digits))?;
                Some(Component { width: width_of(most - 1), base: 0 })
            }
            NumberFormat::Ip4 => Some(Component { width: u32::BITS, base: 0 }),
            NumberFormat::Integer | NumberFormat::Decimal { .. } | NumberFormat::Shortest { .. } => {
                Some(Component { width: u64::BITS, base: i64::MIN })
            }
            NumberFormat::Time(_) => None,
        }
    }

    fn offset_bits(self, number: i64) -> u64 {
        number.wrapping_sub(self.base).cast_unsigned()
    }

    /// The component's number in `entry`, where the component starts at bit `shift`.
    fn number_in(self, entry: u128, shift: u32) -> i64 {
        self.base.wrapping_add((low_u64(entry >> shift) & self.mask()).cast_signed())
    }

    fn mask(self) -> u64 {
        if self.width >= u64::BITS { u64::MAX } else { (1 << self.width) - 1 }
    }
}

/// Total bits of all components.
fn entry_bits(components: &[Component]) -> u32 {
    components.iter().map(|component| component.width).sum()
}
