//! Values that repeat across the slabs of a bucket: one dictionary for all, a code per value.
//!
//! An id of 122 bits that comes back four times in a bucket hardly repeats within a slab. While slabs are added,
//! columns that may gain are coded provisionally against a table of the whole bucket, beside their ordinary chunks.
//! When the last slab is in, the smaller of the two forms is written. What a column *is* does not change: it stays
//! numbers in the shapes, only its values are stored as codes, so that no search has to know.
//!
//! The numbers that fill one template together, such as the five of a UUID, are one entry of several components.

mod gather;
mod read;
mod table;
#[cfg(test)]
mod tests;

use quarry_event::template::NumberFormat;

pub(crate) use gather::SharedColumns;
pub(crate) use read::{SharedCache, SharedDictionary};

use crate::integers::width_of;
use crate::limits::MAX_PAGE_EVENTS;

/// Entries of a shared dictionary at most.
pub(crate) const MAX_SHARED_ENTRIES: usize = 4 << 20;
/// Components of an entry at most.
const MAX_COMPONENTS: usize = 16;
/// Bits of an entry at most.
const MAX_ENTRY_BITS: u32 = u128::BITS;
/// Entries that are coded together.
const ENTRIES_PER_RUN: usize = MAX_PAGE_EVENTS;
/// Bytes of an encoded dictionary at most: every component at 64 bits, and some for the heads.
const MAX_SHARED_BYTES: usize = MAX_SHARED_ENTRIES * (MAX_ENTRY_BITS as usize / 8 + 8);
/// Shared dictionaries of a bucket at most.
pub(crate) const MAX_SHARED_DICTIONARIES: usize = 256;

/// One number of an entry: `base` and so many bits above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    width: u32,
    base: i64,
}

impl Component {
    /// How numbers of this form are kept, where they may be shared.
    fn of(format: NumberFormat) -> Option<Component> {
        match format {
            NumberFormat::Hex { digits } => Some(Component { width: 4 * u32::from(digits), base: 0 }),
            NumberFormat::Padded { digits } => {
                let most = 10u64.checked_pow(u32::from(digits))?;
                Some(Component { width: width_of(most - 1), base: 0 })
            }
            NumberFormat::Ip4 => Some(Component { width: u32::BITS, base: 0 }),
            NumberFormat::Integer | NumberFormat::Decimal { .. } => {
                Some(Component { width: u64::BITS, base: i64::MIN })
            }
            NumberFormat::Time(_) => None,
        }
    }

    fn bits_of(self, number: i64) -> u64 {
        number.wrapping_sub(self.base) as u64
    }

    /// Its number in an entry within which it is shifted so far.
    fn of_entry(self, entry: u128, shift: u32) -> i64 {
        self.base.wrapping_add(((entry >> shift) as u64 & self.mask()) as i64)
    }

    fn mask(self) -> u64 {
        if self.width >= u64::BITS { u64::MAX } else { (1 << self.width) - 1 }
    }
}

/// Bits of all components together.
fn entry_bits(components: &[Component]) -> u32 {
    components.iter().map(|component| component.width).sum()
}
