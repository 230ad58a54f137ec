//! Positions where a merge of buckets may have become due, because the merge policy has not examined them yet.
//!
//! A merge needs neighbours in the order of arrival, so a bucket that is added, removed or changed affects only
//! merges with its neighbours. Without a record of these positions, every seal would have to examine all buckets again.
//! The position of a bucket is the number of the sealed bucket from which its first event came.
//!
//! Not here: which buckets are merged (`compaction::policy`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Maximum number of positions noted for an index; if there are more, everything from the first one on counts as
/// unexamined.
const POSITIONS_MAX: usize = 16_384;

/// Unexamined positions by index, without empty entries.
#[derive(Debug, Default)]
pub(crate) struct MergePositions(BTreeMap<Arc<str>, IndexPositions>);

/// The unexamined positions of one index.
#[derive(Debug, Default)]
pub(crate) struct IndexPositions {
    /// Everything from this position on.
    from: Option<u64>,
    /// Single positions before `from`.
    changed: BTreeSet<u64>,
    /// Position at which the most recently found merge begins.
    due: Option<u64>,
}

/// Result of the examination of an index.
#[derive(Debug)]
pub(crate) enum Examined<T> {
    /// A merge.
    Found(T),
    /// No merge at any position.
    Nothing,
    /// No merge so far; some positions are left for later.
    Paused,
}

impl MergePositions {
    /// Notes a change at a position.
    pub(crate) fn add(&mut self, index: &Arc<str>, position: u64) {
        match self.0.get_mut(index) {
            Some(positions) => positions.add(position),
            None => self.0.entry(Arc::clone(index)).or_default().add(position),
        }
    }

    /// Makes all positions of an index unexamined.
    pub(crate) fn add_all(&mut self, index: &Arc<str>) {
        self.0.insert(Arc::clone(index), IndexPositions { from: Some(0), ..IndexPositions::default() });
    }

    /// Calls `examine` for each index until it finds something or has to pause.
    pub(crate) fn find<T>(
        &mut self,
        mut examine: impl FnMut(&Arc<str>, &mut IndexPositions) -> Examined<T>,
    ) -> Option<T> {
        while let Some(mut entry) = self.0.first_entry() {
            let index = Arc::clone(entry.key());
            match examine(&index, entry.get_mut()) {
                Examined::Found(found) => return Some(found),
                Examined::Paused => return None,
                Examined::Nothing => drop(entry.remove()),
            }
        }
        None
    }

    /// Whether an index has unexamined positions in this range.
    pub(crate) fn has_between(&self, index: &str, range: &RangeInclusive<u64>) -> bool {
        let next = self.0.get(index).and_then(|positions| positions.next(*range.start()));
        next.is_some_and(|(position, _)| position <= *range.end())
    }

    /// Whether no index has unexamined positions.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IndexPositions {
    fn add(&mut self, position: u64) {
        if self.from.is_some_and(|from| from <= position) {
            return;
        }
        self.changed.insert(position);
        if self.changed.len() > POSITIONS_MAX {
            self.from = self.changed.first().copied();
            self.changed.clear();
        }
    }

    /// The first unexamined position at or after `position`, and the end of the unexamined run that begins there.
    pub(crate) fn next(&self, position: u64) -> Option<(u64, u64)> {
        let changed = self.changed.range(position..).next().map(|changed| (*changed, *changed));
        let open = self.from.map(|from| (from.max(position), u64::MAX));
        changed.into_iter().chain(open).min()
    }

    /// Takes the position at which the most recently found merge begins; the merge may still be due.
    pub(crate) fn take_due(&mut self) -> Option<u64> {
        self.due.take()
    }

    /// Records that a merge beginning at `position` is due, and that no earlier position is unexamined.
    pub(crate) fn set_due(&mut self, position: u64) {
        self.due = Some(position);
        self.mark_examined_before(position);
    }

    /// Records that no position before `position` is unexamined, and that `position` itself is.
    pub(crate) fn mark_examined_before(&mut self, position: u64) {
        self.changed = self.changed.split_off(&position);
        self.from = self.from.map(|from| from.max(position));
        self.add(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_examined_in_order_and_kept_until_then() {
        let mut positions = IndexPositions::default();
        [30, 10, 20, 10].into_iter().for_each(|position| positions.add(position));
        assert_eq!(
            [0, 10, 11, 31].map(|from| positions.next(from)),
            [Some((10, 10)), Some((10, 10)), Some((20, 20)), None]
        );
        assert_eq!(positions.take_due(), None);
        positions.set_due(15);
        assert_eq!([positions.take_due(), positions.take_due()], [Some(15), None]);
        assert_eq!([0, 16, 21].map(|from| positions.next(from)), [Some((15, 15)), Some((20, 20)), Some((30, 30))]);
    }

    #[test]
    fn beyond_the_limit_everything_after_the_first_place_is_unexamined() {
        let mut positions = IndexPositions::default();
        (0..=POSITIONS_MAX as u64).map(|position| 5 + 2 * position).for_each(|position| positions.add(position));
        assert!(positions.changed.is_empty());
        assert_eq!(positions.next(0), Some((5, u64::MAX)));
        positions.add(3);
        positions.add(7);
        assert_eq!(
            [0, 4, 9].map(|from| positions.next(from)),
            [Some((3, 3)), Some((5, u64::MAX)), Some((9, u64::MAX))]
        );
        positions.set_due(100);
        assert_eq!([0, 101].map(|from| positions.next(from)), [Some((100, u64::MAX)), Some((101, u64::MAX))]);
    }

    #[test]
    fn indexes_are_examined_until_no_merge_is_found() {
        let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        let mut unexamined = MergePositions::default();
        unexamined.add(&two, 1);
        unexamined.add_all(&one);
        let in_two = |index: &Arc<str>, _: &mut IndexPositions| match **index == *"two" {
            true => Examined::Found(Arc::clone(index)),
            false => Examined::Nothing,
        };
        assert_eq!(unexamined.find(in_two), Some(two.clone()));
        assert_eq!(unexamined.0.keys().collect::<Vec<_>>(), [&two]);
        assert_eq!(unexamined.find(|_, _| Examined::<()>::Paused), None);
        assert!(!unexamined.is_empty());
        assert_eq!(unexamined.find(|_, _| Examined::<()>::Nothing), None);
        assert!(unexamined.is_empty());
    }
}
