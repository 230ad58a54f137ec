//! Order within a file: later events never go to an older slab than earlier events.
//!
//! The order of arrival in a store is the order of its slabs by number, and within a slab the order of the log. With
//! one pipeline set, every event goes to the newest slab of its index. With several sets, each set fills its own
//! slab. If a file is continued by another set, its later events could go into a slab that is older than the slab
//! with the earlier events. The slab with each file's newest events is therefore remembered, and a set whose slab is
//! older starts a new slab. After a restart, this memory is not needed, because then only the newest slab of an index
//! receives further events.
//!
//! Not here: appends without a checkpoint, which belong to no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_catalog::CheckpointKey;

/// Maximum number of files remembered. Beyond it, all entries are dropped and all sets start new slabs.
const FILES_MAX: usize = 65_536;

/// The slab with the newest events of each file.
#[derive(Debug, Default)]
pub(crate) struct FileOrder {
    newest: BTreeMap<(Arc<str>, CheckpointKey), u64>,
    /// Slabs below this number accept no more events of any file.
    floor: u64,
}

impl FileOrder {
    /// Whether events of a file may go to slab `number` of an index.
    pub(crate) fn allows(&self, index: &Arc<str>, file: &CheckpointKey, number: u64) -> bool {
        let newest = self.newest.get(&(index.clone(), *file)).copied().unwrap_or(0);
        number >= newest.max(self.floor)
    }

    /// Records that events of a file go to slab `number`; `next` is the number of the next slab.
    pub(crate) fn note(&mut self, index: &Arc<str>, file: &CheckpointKey, number: u64, next: u64) {
        if self.newest.len() >= FILES_MAX {
            self.newest.clear();
            self.floor = next;
        }
        self.newest.insert((index.clone(), *file), number);
    }

    /// Clears all entries, because no slab accepts events now.
    pub(crate) fn clear(&mut self) {
        self.newest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::checkpoint;

    #[test]
    fn events_of_a_file_never_go_to_an_older_slab() {
        let (main, other): (Arc<str>, Arc<str>) = ("main".into(), "other".into());
        let file = checkpoint("a.log", 1).key;
        let mut order = FileOrder::default();
        assert!(order.allows(&main, &file, 1));
        order.note(&main, &file, 4, 5);
        assert_eq!([3, 4, 5].map(|number| order.allows(&main, &file, number)), [false, true, true]);
        assert!(order.allows(&other, &file, 3) && order.allows(&main, &checkpoint("b.log", 1).key, 3));
        order.clear();
        assert!(order.allows(&main, &file, 1));
    }

    #[test]
    fn exceeding_the_file_limit_starts_new_slabs_in_all_sets() {
        let main: Arc<str> = "main".into();
        let mut order = FileOrder::default();
        let file = |variant: u32| CheckpointKey { variant, ..checkpoint("a.log", 1).key };
        (0..FILES_MAX as u32).for_each(|variant| order.note(&main, &file(variant), 7, 9));
        assert!(order.allows(&main, &file(u32::MAX), 2));
        order.note(&main, &file(u32::MAX), 8, 9);
        assert!(!order.allows(&main, &file(1), 8) && order.allows(&main, &file(1), 9));
        assert!(order.newest.len() < 3);
    }
}
