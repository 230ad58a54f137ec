//! The open transactions, indexed by their field values.
//!
//! A transaction is addressed by its slot, which a later transaction may reuse. Numbers of transactions and numbers of
//! changes are unique and identify a state of a slot.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::TimeNs;

use super::members::Member;

/// A value of one of the command's fields.
#[derive(Clone, Default)]
pub(super) struct KeyValue {
    /// Hash of the field's index and the text.
    pub(super) hash: u64,
    pub(super) text: String,
}

impl KeyValue {
    /// Hashes the text as a value of the field at index `place`.
    pub(super) fn rehash(&mut self, place: usize) {
        self.hash = FixedState::default().hash_one((place, self.text.as_str()));
    }
}

impl PartialEq for KeyValue {
    fn eq(&self, other: &KeyValue) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

/// A transaction that may still grow.
pub(super) struct OpenTransaction {
    /// Number in the order of opening.
    pub(super) number: u64,
    pub(super) key: Vec<Option<KeyValue>>,
    /// Newest first.
    pub(super) members: Vec<Member>,
    pub(super) newest: TimeNs,
    pub(super) oldest: TimeNs,
    pub(super) changed: u64,
    /// Whether the required end event is missing.
    pub(super) is_endless: bool,
}

#[derive(Default)]
pub(super) struct OpenTransactions {
    slots: Vec<Option<OpenTransaction>>,
    /// Slots without a transaction.
    free: Vec<usize>,
    /// Slots of the open transactions by the hash of a field's index and value.
    by_value: HashMap<u64, Slots, FixedState>,
}

/// Slots of the open transactions that share a field value.
enum Slots {
    One(usize),
    Several(Vec<usize>),
}

impl Slots {
    fn all(&self) -> &[usize] {
        match self {
            Slots::One(slot) => std::slice::from_ref(slot),
            Slots::Several(all) => all,
        }
    }

    fn add(&mut self, slot: usize) {
        match self {
            Slots::One(first) => *self = Slots::Several(vec![*first, slot]),
            Slots::Several(all) => all.push(slot),
        }
    }

    /// Removes a transaction; true if no transaction is left.
    fn remove(&mut self, slot: usize) -> bool {
        match self {
            Slots::One(only) => *only == slot,
            Slots::Several(all) => {
                all.retain(|known| *known != slot);
                all.is_empty()
            }
        }
    }
}

impl OpenTransactions {
    /// Number of open transactions.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&OpenTransaction> {
        self.slots.get(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut OpenTransaction> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The transaction in a slot, if it is the transaction with this number.
    pub(super) fn numbered(&self, slot: usize, number: u64) -> Option<&OpenTransaction> {
        self.get(slot).filter(|open| open.number == number)
    }

    /// Whether the transaction in a slot has not changed since the change with this number.
    pub(super) fn is_unchanged(&self, slot: usize, changed: u64) -> bool {
        self.get(slot).is_some_and(|open| open.changed == changed)
    }

    /// All open transactions with their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &OpenTransaction)> {
        self.slots.iter().enumerate().filter_map(|(slot, open)| Some((slot, open.as_ref()?)))
    }

    /// The slots of the open transactions that share a value with `key`; a slot may occur several times.
    pub(super) fn sharing(&self, key: &[Option<KeyValue>]) -> impl Iterator<Item = usize> {
        key.iter().flatten().filter_map(move |value| self.by_value.get(&value.hash)).flat_map(Slots::all).copied()
    }

    /// Adds a transaction and returns its slot.
    pub(super) fn add(&mut self, open: OpenTransaction) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(open);
                slot
            }
            None => {
                self.slots.push(Some(open));
                self.slots.len() - 1
            }
        }
    }

    /// Sets the fields without a value in the transaction in a slot to the values of `key`.
    pub(super) fn add_key(&mut self, slot: usize, key: &[Option<KeyValue>]) {
        let Some(Some(open)) = self.slots.get_mut(slot) else { return };
        for (known, value) in open.key.iter_mut().zip(key) {
            if let (None, Some(value)) = (&known, value) {
                let sharing = self.by_value.entry(value.hash);
                sharing.and_modify(|sharing| sharing.add(slot)).or_insert(Slots::One(slot));
                *known = Some(value.clone());
            }
        }
    }

    /// Removes the transaction in a slot.
    pub(super) fn remove(&mut self, slot: usize) -> Option<OpenTransaction> {
        let open = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        for value in open.key.iter().flatten() {
            if self.by_value.get_mut(&value.hash).is_some_and(|sharing| sharing.remove(slot)) {
                self.by_value.remove(&value.hash);
            }
        }
        Some(open)
    }

    /// Removes all transactions; returns them in order of opening.
    pub(super) fn take_all(&mut self) -> Vec<OpenTransaction> {
        self.by_value.clear();
        self.free.clear();
        let mut all: Vec<OpenTransaction> = self.slots.drain(..).flatten().collect();
        all.sort_unstable_by_key(|open| open.number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[Option<&str>]) -> Vec<Option<KeyValue>> {
        let value = |(place, text): (usize, &Option<&str>)| {
            let mut value = KeyValue { hash: 0, text: (*text)?.to_owned() };
            value.rehash(place);
            Some(value)
        };
        values.iter().enumerate().map(value).collect()
    }

    fn add(all: &mut OpenTransactions, number: u64, values: &[Option<&str>]) -> usize {
        let (key_of_none, members) = (vec![None; values.len()], Vec::new());
        let slot = all.add(OpenTransaction {
            number,
            key: key_of_none,
            members,
            newest: 0,
            oldest: 0,
            changed: number,
            is_endless: false,
        });
        all.add_key(slot, &key(values));
        slot
    }

    #[test]
    fn transactions_are_found_by_each_value_until_they_are_removed() {
        let mut all = OpenTransactions::default();
        let first = add(&mut all, 1, &[Some("a"), None]);
        let second = add(&mut all, 2, &[Some("a"), Some("b")]);
        let sharing = |all: &OpenTransactions, values: &[Option<&str>]| all.sharing(&key(values)).collect::<Vec<_>>();
        assert_eq!(sharing(&all, &[Some("a"), None]), [first, second]);
        assert_eq!(sharing(&all, &[None, Some("b")]), [second]);
        // The same text in a different field is a different value.
        assert_eq!(sharing(&all, &[Some("b"), Some("a")]), Vec::<usize>::new());
        all.add_key(first, &key(&[Some("c"), Some("b")]));
        assert_eq!(sharing(&all, &[Some("c"), None]), Vec::<usize>::new(), "a field keeps its first value");
        assert_eq!(sharing(&all, &[None, Some("b")]), [second, first]);
        assert_eq!(all.remove(second).map(|open| open.number), Some(2));
        assert_eq!(sharing(&all, &[Some("a"), Some("b")]), [first, first]);
        assert_eq!(all.count(), 1);
    }

    #[test]
    fn a_slot_that_is_used_again_has_another_number() {
        let mut all = OpenTransactions::default();
        let slot = add(&mut all, 1, &[Some("a")]);
        all.remove(slot);
        assert!(all.remove(slot).is_none() && all.get(slot).is_none());
        assert_eq!(add(&mut all, 5, &[Some("b")]), slot);
        assert!(all.numbered(slot, 1).is_none() && !all.is_unchanged(slot, 1));
        assert!(all.numbered(slot, 5).is_some() && all.is_unchanged(slot, 5));
        add(&mut all, 3, &[Some("c")]);
        let numbers: Vec<u64> = all.take_all().iter().map(|open| open.number).collect();
        assert_eq!((numbers, all.count()), (vec![3, 5], 0));
        assert_eq!(all.sharing(&key(&[Some("b")])).count(), 0);
    }
}
