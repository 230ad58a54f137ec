//! Group keys: the texts of the BY fields, mapped to dense numbers.
//!
//! The key of one field is its text; the key of several fields consists of their texts, each prefixed by its length, so
//! that keys are unambiguous. All keys are stored in one buffer, each after its number and length. Each slot of the
//! hash table also holds part of the hash, so a lookup of a known key costs two cache misses. For keys looked up in
//! bulk, slots and records are prefetched.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use foldhash::fast::FixedState;
use quarry_event::time::parse_epoch;
use quarry_stdx::number::{low_u32, u32_of};

/// Alignment of records, so that 32 bits can address them.
const RECORD_UNIT: usize = 8;
/// Bytes of a record before its key: number and length.
const RECORD_HEADER_BYTES: usize = 8;
/// Initial number of slots.
const INITIAL_SLOTS: usize = 4;
/// At least one in this many slots is free, which limits the length of probes.
const SLOTS_PER_FREE: usize = 4;
/// Number of keys prefetched before the first is looked up.
const PREFETCH_KEYS: usize = 256;
/// Value of `record` in a free slot.
const FREE_SLOT: u32 = u32::MAX;

/// A slot of the hash table.
#[derive(Clone, Copy)]
struct KeySlot {
    hash: u32,
    record: u32,
}

/// Distinct byte strings, numbered in order of first appearance.
#[derive(Clone, Default)]
pub struct KeyTable {
    slots: Vec<KeySlot>,
    records: Vec<u8>,
    /// Record of each key.
    starts: Vec<u32>,
}

fn hash_of(key: &[u8]) -> u32 {
    low_u32(FixedState::default().hash_one(key) >> u32::BITS)
}

impl KeyTable {
    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// The number of a key, which is added if new.
    #[inline]
    pub fn intern(&mut self, key: &[u8]) -> u32 {
        self.intern_hashed(key, hash_of(key))
    }

    /// Appends the numbers of keys to `numbers`, and adds new keys.
    pub fn intern_all(&mut self, keys: &[&[u8]], numbers: &mut Vec<u32>) {
        numbers.reserve(keys.len());
        let mut hashes = [0; PREFETCH_KEYS];
        for keys in keys.chunks(PREFETCH_KEYS) {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = hash_of(key);
            }
            self.prefetch(&hashes[..keys.len()]);
            numbers.extend(keys.iter().zip(&hashes).map(|(key, hash)| self.intern_hashed(key, *hash)));
        }
    }

    /// Prefetches the memory needed to look up these hashes.
    fn prefetch(&self, hashes: &[u32]) {
        if self.slots.is_empty() {
            return;
        }
        let mut records = [0; PREFETCH_KEYS];
        for (record, hash) in records.iter_mut().zip(hashes) {
            let slot = self.slots[self.home_slot(*hash)];
            *record = if slot.hash == *hash { slot.record } else { FREE_SLOT };
        }
        let heads = records[..hashes.len()].iter().filter_map(|record| self.records.get(offset(*record)));
        std::hint::black_box(heads.fold(0, |all, byte| all ^ *byte));
    }

    #[inline]
    fn intern_hashed(&mut self, key: &[u8], hash: u32) -> u32 {
        if (self.len() + 1) * SLOTS_PER_FREE > self.slots.len() * (SLOTS_PER_FREE - 1) {
            self.grow();
        }
        let at = match self.search(key, hash) {
            Ok(number) => return number,
            Err(at) => at,
        };
        let number = u32_of(self.len());
        let record = self.records.len() / RECORD_UNIT;
        assert!(
            record < FREE_SLOT as usize && self.records.len().is_multiple_of(RECORD_UNIT),
            "records are aligned, and their starts fit in 32 bits"
        );
        let record = u32_of(record);
        self.records.extend_from_slice(&number.to_le_bytes());
        self.records.extend_from_slice(&u32_of(key.len()).to_le_bytes());
        self.records.extend_from_slice(key);
        self.records.resize(self.records.len().next_multiple_of(RECORD_UNIT), 0);
        self.starts.push(record);
        self.slots[at] = KeySlot { hash, record };
        number
    }

    /// The number of a key, or the free slot for it.
    #[inline]
    fn search(&self, key: &[u8], hash: u32) -> Result<u32, usize> {
        let mut at = self.home_slot(hash);
        loop {
            let slot = self.slots[at];
            if slot.record == FREE_SLOT {
                return Err(at);
            }
            if slot.hash == hash {
                let (number, known) = self.record(slot.record);
                if known == key {
                    return Ok(number);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The slot at which the search for this hash begins.
    #[inline]
    fn home_slot(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - self.slots.len().trailing_zeros())) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(INITIAL_SLOTS);
        assert!(count.is_power_of_two() && count > self.len(), "a free slot ends every probe");
        let old = std::mem::replace(&mut self.slots, vec![KeySlot { hash: 0, record: FREE_SLOT }; count]);
        for slot in old.into_iter().filter(|slot| slot.record != FREE_SLOT) {
            let mut at = self.home_slot(slot.hash);
            while self.slots[at].record != FREE_SLOT {
                at = (at + 1) & (count - 1);
            }
            self.slots[at] = slot;
        }
    }

    /// Number and key of a record.
    #[inline]
    fn record(&self, record: u32) -> (u32, &[u8]) {
        let record = &self.records[offset(record)..];
        let Some((head, rest)) = record.split_first_chunk::<RECORD_HEADER_BYTES>() else { return (0, &[]) };
        let [a, b, c, d, e, f, g, h] = *head;
        (u32::from_le_bytes([a, b, c, d]), &rest[..u32::from_le_bytes([e, f, g, h]) as usize])
    }

    /// The number of a key if it is known.
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.search(key, hash_of(key)).ok()
    }

    /// Approximate bytes held.
    pub fn bytes(&self) -> usize {
        self.records.capacity()
            + self.starts.capacity() * size_of::<u32>()
            + self.slots.capacity() * size_of::<KeySlot>()
    }

    /// Key number `at`.
    pub fn key(&self, at: usize) -> &[u8] {
        self.record(self.starts[at]).1
    }
}

/// Offset of a record in the buffer.
#[inline]
fn offset(record: u32) -> usize {
    record as usize * RECORD_UNIT
}

/// Appends one field's text to a key of `parts` fields.
pub fn add_key_part(key: &mut Vec<u8>, text: &str, parts: usize) {
    if parts > 1 {
        key.extend_from_slice(&u32_of(text.len()).to_le_bytes());
    }
    key.extend_from_slice(text.as_bytes());
}

/// The key column for output: `_time` becomes a timestamp again.
pub fn display_key(name: &str, keys: &ArrayRef) -> ArrayRef {
    if name != "_time" {
        return Arc::clone(keys);
    }
    let Some(texts) = keys.as_string_view_opt() else { return Arc::clone(keys) };
    let times = texts.iter().map(|text| text.map(parse_epoch)).map(|time| match time {
        Some(None) => None,
        Some(time) => Some(time),
        None => Some(None),
    });
    let times: Option<Vec<Option<i64>>> = times.collect();
    times.map_or_else(|| Arc::clone(keys), |times| Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_in_order_singly_and_in_bulk() {
        let keys: Vec<Vec<u8>> = (0..10_000_u32)
            .map(|at| at * 7_919 % 3_001)
            .map(|at| match at % 5 {
                0 => Vec::new(),
                1 => vec![b'x'; at as usize % 97],
                _ => format!("key {at}").into_bytes(),
            })
            .collect();
        let mut expected: Vec<&[u8]> = Vec::new();
        let (mut single, mut several, mut numbers) = (KeyTable::default(), KeyTable::default(), Vec::new());
        assert_eq!(single.find(b"key 2"), None);
        for key in &keys {
            if !expected.contains(&key.as_slice()) {
                expected.push(key);
            }
            let number = expected.iter().position(|known| known == key).unwrap() as u32;
            assert_eq!(single.intern(key), number);
            assert_eq!(single.find(key), Some(number));
        }
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        several.intern_all(&slices, &mut numbers);
        assert_eq!(numbers, slices.iter().map(|key| single.find(key).unwrap()).collect::<Vec<_>>());
        assert_eq!((single.len(), several.len()), (expected.len(), expected.len()));
        assert!((0..expected.len()).all(|at| single.key(at) == expected[at] && several.key(at) == expected[at]));
        assert_eq!(single.find(b"key 3001"), None);
    }
}
