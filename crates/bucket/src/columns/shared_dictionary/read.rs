//! Encoding of a shared dictionary, and the cache of decoded ones for all slabs of an open bucket.
//!
//! The encoding starts with the number of entries and the number of components, followed by the width and base of each
//! component. Then come runs of entries; each run holds its components one after the other, as integers. Entries
//! ascend, so the first component is delta-coded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quarry_stdx::number::u32_of;

use crate::block::{BlockRef, open_block};
use crate::columns::shared_dictionary::{
    Component, ENTRIES_PER_RUN, MAX_COMPONENTS, MAX_ENTRY_BITS, MAX_SHARED_BYTES, MAX_SHARED_DICTIONARIES,
    MAX_SHARED_ENTRIES, entry_bits,
};
use crate::error::{BlockPosition, BucketError};
use crate::integers::{encode_integers, read_integers};
use crate::source::ObjectSource;
use crate::wire::{Cursor, Malformed, put_signed, put_varint};

/// Number of entries that are compared before checking whether one of them matched.
const ENTRIES_PER_CHECK: usize = 128;

/// Distinct entries, ascending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedDictionary {
    components: Vec<Component>,
    /// Bit offset of each component within an entry.
    shifts: Vec<u32>,
    entries: Vec<u128>,
}

pub(super) fn bit_offsets(components: &[Component]) -> Vec<u32> {
    let mut left = entry_bits(components);
    components
        .iter()
        .map(|component| {
            left -= component.width;
            left
        })
        .collect()
}

/// Appends entries, which ascend.
pub(super) fn encode_entries(entries: &[u128], components: &[Component], out: &mut Vec<u8>) {
    assert!(entries.len() <= MAX_SHARED_ENTRIES, "a shared dictionary has no more entries");
    assert!(entries.is_sorted_by(|left, right| left < right), "entries ascend and differ");
    assert!(components.len() <= usize::from(u8::MAX), "the number of components fits in a byte");
    put_varint(out, entries.len() as u64);
    out.push(components.len() as u8);
    for component in components {
        out.push(component.width as u8);
        put_signed(out, component.base);
    }
    let shifts = bit_offsets(components);
    let mut numbers = Vec::with_capacity(ENTRIES_PER_RUN);
    for run in entries.chunks(ENTRIES_PER_RUN) {
        for (component, shift) in components.iter().zip(&shifts) {
            numbers.clear();
            numbers.extend(run.iter().map(|entry| ((entry >> shift) as u64 & component.mask()) as i64));
            encode_integers(&numbers, out);
        }
    }
}

impl SharedDictionary {
    pub(super) fn decode(encoded: &[u8]) -> Result<SharedDictionary, Malformed> {
        let mut cursor = Cursor::new(encoded);
        let count = cursor.count("entries of a shared dictionary", MAX_SHARED_ENTRIES)?;
        let mut components = Vec::new();
        for _ in 0..usize::from(cursor.u8("number of components")?) {
            let width = u32::from(cursor.u8("width of a component")?);
            let base = cursor.signed("base of a component")?;
            if !(1..=u64::BITS).contains(&width) {
                return Err(Malformed(format!("a component has {width} bits")));
            }
            components.push(Component { width, base });
        }
        if components.is_empty() || components.len() > MAX_COMPONENTS || entry_bits(&components) > MAX_ENTRY_BITS {
            return Err(Malformed(format!("{} components do not make an entry", components.len())));
        }
        let shifts = bit_offsets(&components);
        // Equal numbers take three bytes per run, so a short input can hold many entries.
        let mut entries = Vec::with_capacity(count.min(cursor.remaining() * ENTRIES_PER_RUN));
        while entries.len() < count {
            let start = entries.len();
            entries.resize(count.min(start + ENTRIES_PER_RUN), 0u128);
            for (component, shift) in components.iter().zip(&shifts) {
                let numbers = read_integers(&mut cursor, entries.len() - start)?;
                for (entry, number) in entries[start..].iter_mut().zip(numbers) {
                    if number as u64 & !component.mask() != 0 {
                        return Err(Malformed(format!("number {number} has more than {} bits", component.width)));
                    }
                    *entry |= u128::from(number as u64) << shift;
                }
            }
        }
        cursor.finish("the shared dictionary")?;
        if !entries.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::new("the entries of a shared dictionary do not ascend"));
        }
        Ok(SharedDictionary { components, shifts, entries })
    }

    pub(crate) fn len(&self) -> u32 {
        u32_of(self.entries.len())
    }

    /// Component number `component` and its bit offset within an entry; `None` if it does not exist.
    fn component_at(&self, component: u32) -> Option<(Component, u32)> {
        let at = component as usize;
        Some((*self.components.get(at)?, *self.shifts.get(at)?))
    }

    /// The numbers of one component for these codes, each of which must exist. `None` if the component does not exist.
    pub(crate) fn numbers(&self, component: u32, codes: &[u32]) -> Option<Vec<i64>> {
        let (component, shift) = self.component_at(component)?;
        let number = |code: &u32| component.number_in(self.entries[*code as usize], shift);
        Some(codes.iter().map(number).collect())
    }

    /// The number of one component for this code, if it exists.
    pub(crate) fn number(&self, component: u32, code: u32) -> Option<i64> {
        let (component, shift) = self.component_at(component)?;
        Some(component.number_in(*self.entries.get(code as usize)?, shift))
    }

    /// Codes of the entries whose component is one of two numbers, ascending.
    pub(crate) fn codes_of(&self, component: u32, wanted: [i64; 2]) -> Vec<u32> {
        let Some((form, shift)) = self.component_at(component) else { return Vec::new() };
        let [one, other] = wanted;
        if component == 0 {
            // Entries ascend by their first component.
            let run_of = |number: i64| {
                let bits = u128::from(form.offset_bits(number));
                let start = self.entries.partition_point(|entry| entry >> shift < bits);
                let run = self.entries[start..].partition_point(|entry| entry >> shift == bits);
                start as u32..(start + run) as u32
            };
            let mut found: Vec<u32> = run_of(one).collect();
            if other != one {
                found.extend(run_of(other));
                found.sort_unstable();
            }
            return found;
        }
        let mut found = Vec::new();
        for (run, entries) in self.entries.chunks(ENTRIES_PER_CHECK).enumerate() {
            let is_wanted = |entry: &u128| {
                let number = form.number_in(*entry, shift);
                (number == one) | (number == other)
            };
            // Without an early exit, several entries are compared at once.
            if entries.iter().fold(false, |found, entry| found | is_wanted(entry)) {
                let start = run * ENTRIES_PER_CHECK;
                let places = entries.iter().enumerate().filter(|(_, entry)| is_wanted(entry));
                found.extend(places.map(|(at, _)| (start + at) as u32));
            }
        }
        found
    }

    /// Codes of the entries whose component passes, ascending. `passes` tells whether any of some numbers passes; it is
    /// called with a whole run first, and with single numbers only if the run passes.
    pub(crate) fn codes_where(&self, component: u32, passes: &dyn Fn(&[i64]) -> bool) -> Vec<u32> {
        let Some((component, shift)) = self.component_at(component) else { return Vec::new() };
        let mut found = Vec::new();
        let mut numbers = Vec::with_capacity(ENTRIES_PER_RUN);
        for (run, entries) in self.entries.chunks(ENTRIES_PER_RUN).enumerate() {
            numbers.clear();
            numbers.extend(entries.iter().map(|entry| component.number_in(*entry, shift)));
            if passes(&numbers) {
                let start = run * ENTRIES_PER_RUN;
                let which = (0..numbers.len()).filter(|at| passes(&numbers[*at..*at + 1]));
                found.extend(which.map(|at| (start + at) as u32));
            }
        }
        found
    }
}

/// The shared dictionaries of an open bucket, decoded on first use.
#[derive(Debug, Default)]
pub(crate) struct SharedCache(Mutex<BTreeMap<u64, Arc<SharedDictionary>>>);

impl SharedCache {
    /// Whether the dictionary in this block is decoded.
    pub(crate) fn is_decoded(&self, at: BlockRef) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&at.offset)
    }

    /// The dictionary in this block.
    pub(crate) fn get(
        &self,
        source: &ObjectSource,
        at: BlockRef,
        place: BlockPosition,
    ) -> Result<Arc<SharedDictionary>, BucketError> {
        let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..place };
        // A panic cannot leave the map half updated.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dictionary) = kept.get(&at.offset) {
            return Ok(dictionary.clone());
        }
        if kept.len() >= MAX_SHARED_DICTIONARIES {
            let reason = format!("the bucket has more than {MAX_SHARED_DICTIONARIES} shared dictionaries");
            return Err(place.corrupt(reason));
        }
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let block = open_block(&bytes, at.kind, place, MAX_SHARED_BYTES)?;
        let dictionary = Arc::new(place.map_malformed(SharedDictionary::decode(block.stored()?))?);
        kept.insert(at.offset, dictionary.clone());
        Ok(dictionary)
    }
}
