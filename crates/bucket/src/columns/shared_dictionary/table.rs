//! Distinct entries with provisional codes, in a hash table.

use quarry_stdx::number::{low_u64, u32_of};

/// Initial number of slots; the number is always a power of two.
const SLOTS_MIN: usize = 1 << 12;
const EMPTY_SLOT: u32 = u32::MAX;

/// Distinct entries in order of arrival.
#[derive(Debug)]
pub(super) struct EntryTable {
    entries: Vec<u128>,
    slots: Vec<u32>,
}

impl EntryTable {
    pub(super) fn new() -> EntryTable {
        EntryTable { entries: Vec::new(), slots: vec![EMPTY_SLOT; SLOTS_MIN] }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory of the table, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u128>() + self.slots.len() * size_of::<u32>()
    }

    /// Provisional code of an entry, assigned when the entry is first added.
    pub(super) fn code_of(&mut self, entry: u128) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash(entry) as usize & mask;
        loop {
            match self.slots[at] {
                EMPTY_SLOT => break,
                code if self.entries[code as usize] == entry => return code,
                _ => at = (at + 1) & mask,
            }
        }
        let code = u32_of(self.entries.len());
        self.entries.push(entry);
        self.slots[at] = code;
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
        code
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(len, EMPTY_SLOT);
        for (code, entry) in (0u32..).zip(&self.entries) {
            let mut at = hash(*entry) as usize & (len - 1);
            while self.slots[at] != EMPTY_SLOT {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = code;
        }
    }

    /// The entry of a provisional code.
    pub(super) fn entry(&self, code: u32) -> u128 {
        self.entries[code as usize]
    }

    /// The entries in ascending order, and the final code of each provisional code.
    pub(super) fn sorted(&self) -> (Vec<u128>, Vec<u32>) {
        let entries = &self.entries;
        let mut order: Vec<u32> = (0..u32_of(entries.len())).collect();
        order.sort_unstable_by_key(|code| entries[*code as usize]);
        let mut renamed = vec![0; order.len()];
        for (new, old) in (0u32..).zip(&order) {
            renamed[*old as usize] = new;
        }
        (order.iter().map(|code| entries[*code as usize]).collect(), renamed)
    }
}

fn hash(entry: u128) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |value: u64| {
        let wide = u128::from(value) * u128::from(MULTIPLIER);
        low_u64(wide) ^ low_u64(wide >> 64)
    };
    fold(fold(low_u64(entry) ^ MULTIPLIER) ^ low_u64(entry >> 64))
}
