//! A whole shared dictionary in memory: decoding, and searching its entries.
//!
//! Older versions wrote a dictionary as one block. The block starts with the number and the form of the entries,
//! followed by runs of entries. A run holds one component after the other, as integers; entries ascend, so the first
//! component is delta-coded.
//!
//! Not here: dictionaries stored in runs of their own (`super::runs`).

use quarry_stdx::number::{low_u8, low_u64, u8_of, u32_of};

use crate::columns::shared_dictionary::{Component, MAX_COMPONENTS, MAX_ENTRY_BITS, MAX_SHARED_ENTRIES, entry_bits};
use crate::integers::{encode_integers, read_integers};
use crate::limits::MAX_PAGE_EVENTS;
use crate::wire::{Cursor, Malformed, put_signed, put_varint};

/// Number of entries that are compared before checking whether one of them matched.
const ENTRIES_PER_CHECK: usize = 128;
/// Number of entries that are tested together before they are tested one by one.
const ENTRIES_PER_TEST: usize = MAX_PAGE_EVENTS;
/// Number of entries in a run of a dictionary that is one block.
pub(super) const OLDER_RUN_ENTRIES: usize = MAX_PAGE_EVENTS;

/// Distinct entries, ascending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedDictionary {
    form: EntryForm,
    entries: Vec<u128>,
}

/// The components of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryForm {
    components: Vec<Component>,
    /// Bit offset of each component within an entry.
    shifts: Vec<u32>,
}

impl EntryForm {
    pub(super) fn of(components: &[Component]) -> EntryForm {
        EntryForm { components: components.to_vec(), shifts: bit_offsets(components) }
    }

    /// Appends the number of entries and their form.
    pub(super) fn put(&self, entries: usize, out: &mut Vec<u8>) {
        assert!(entries <= MAX_SHARED_ENTRIES, "a shared dictionary has at most MAX_SHARED_ENTRIES entries");
        put_varint(out, entries as u64);
        out.push(u8_of(self.components.len()));
        for component in &self.components {
            out.push(low_u8(component.width));
            put_signed(out, component.base);
        }
    }

    /// Reads the number of entries and their form.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<(usize, EntryForm), Malformed> {
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
        Ok((count, EntryForm::of(&components)))
    }

    /// Appends a run of entries.
    pub(super) fn put_run(&self, run: &[u128], out: &mut Vec<u8>) {
        let mut numbers = Vec::with_capacity(run.len());
        for (component, shift) in self.components.iter().zip(&self.shifts) {
            numbers.clear();
            numbers.extend(run.iter().map(|entry| (low_u64(entry >> shift) & component.mask()).cast_signed()));
            encode_integers(&numbers, out);
        }
    }

    /// Reads a run of `count` entries and appends them to `entries`.
    pub(super) fn read_run(
        &self,
        cursor: &mut Cursor<'_>,
        count: usize,
        entries: &mut Vec<u128>,
    ) -> Result<(), Malformed> {
        let start = entries.len();
        entries.resize(start + count, 0);
        for (component, shift) in self.components.iter().zip(&self.shifts) {
            let numbers = read_integers(cursor, count)?;
            for (entry, number) in entries[start..].iter_mut().zip(numbers) {
                if number.cast_unsigned() & !component.mask() != 0 {
                    return Err(Malformed(format!("number {number} has more than {} bits", component.width)));
                }
                *entry |= u128::from(number.cast_unsigned()) << shift;
            }
        }
        Ok(())
    }

    /// Component number `component` and its bit offset within an entry; `None` if the component does not exist.
    pub(super) fn component(&self, component: u32) -> Option<(Component, u32)> {
        let at = component as usize;
        Some((*self.components.get(at)?, *self.shifts.get(at)?))
    }
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

impl SharedDictionary {
    /// Decodes a dictionary that an older version wrote as one block.
    pub(super) fn decode(encoded: &[u8]) -> Result<SharedDictionary, Malformed> {
        let mut cursor = Cursor::new(encoded);
        let (count, form) = EntryForm::read(&mut cursor)?;
        // Equal numbers take three bytes per run, so a short input can hold many entries.
        let mut entries = Vec::with_capacity(count.min(cursor.remaining() * OLDER_RUN_ENTRIES));
        while entries.len() < count {
            let more = OLDER_RUN_ENTRIES.min(count - entries.len());
            form.read_run(&mut cursor, more, &mut entries)?;
        }
        cursor.finish("the shared dictionary")?;
        SharedDictionary::of(form, entries)
    }

    /// The dictionary with these entries.
    pub(super) fn of(form: EntryForm, entries: Vec<u128>) -> Result<SharedDictionary, Malformed> {
        match entries.is_sorted_by(|a, b| a < b) {
            true => Ok(SharedDictionary { form, entries }),
            false => Err(Malformed::new("the entries of a shared dictionary do not ascend")),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        u32_of(self.entries.len())
    }

    /// The numbers of one component for these codes, each of which must exist. `None` if the component does not exist.
    pub(crate) fn numbers(&self, component: u32, codes: &[u32]) -> Option<Vec<i64>> {
        let (component, shift) = self.form.component(component)?;
        let number = |code: &u32| component.number_in(self.entries[*code as usize], shift);
        Some(codes.iter().map(number).collect())
    }

    /// The number of one component for this code, if it exists.
    pub(crate) fn number(&self, component: u32, code: u32) -> Option<i64> {
        let (component, shift) = self.form.component(component)?;
        Some(component.number_in(*self.entries.get(code as usize)?, shift))
    }

    /// Codes of the entries whose component is one of two numbers, ascending.
    pub(crate) fn codes_of(&self, component: u32, wanted: [i64; 2]) -> Vec<u32> {
        let Some((form, shift)) = self.form.component(component) else { return Vec::new() };
        let [one, other] = wanted;
        if component == 0 {
            // Entries ascend by their first component.
            let run_of = |number: i64| {
                let bits = u128::from(form.offset_bits(number));
                let start = self.entries.partition_point(|entry| entry >> shift < bits);
                let run = self.entries[start..].partition_point(|entry| entry >> shift == bits);
                u32_of(start)..u32_of(start + run)
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
                found.extend(places.map(|(at, _)| u32_of(start + at)));
            }
        }
        found
    }

    /// Codes of the entries whose component passes, ascending. `passes` returns whether any of the given numbers
    /// passes; it is called with a whole run first, and with single numbers only if the run passes.
    pub(crate) fn codes_where(&self, component: u32, passes: &dyn Fn(&[i64]) -> bool) -> Vec<u32> {
        let Some((component, shift)) = self.form.component(component) else { return Vec::new() };
        let mut found = Vec::new();
        let mut numbers = Vec::with_capacity(ENTRIES_PER_TEST);
        for (run, entries) in self.entries.chunks(ENTRIES_PER_TEST).enumerate() {
            numbers.clear();
            numbers.extend(entries.iter().map(|entry| component.number_in(*entry, shift)));
            if passes(&numbers) {
                let start = run * ENTRIES_PER_TEST;
                let which = (0..numbers.len()).filter(|at| passes(&numbers[*at..*at + 1]));
                found.extend(which.map(|at| u32_of(start + at)));
            }
        }
        found
    }
}
