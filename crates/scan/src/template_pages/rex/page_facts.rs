//! Facts about the pages of a slab and one pattern: the rows that have the words of every match, and the values that
//! contain literals of the pattern.
//!
//! Words and literals are searched for in all values of a page, which must be decompressed for that. The result takes a
//! bit per row or value, and often none. All readers of the pattern share the facts, whatever groups they read, and
//! later searches use them.
//!
//! Not here: searches for words ([`super::word_prefilter`]) and for literals
//! ([`literals`](crate::template_pages::literals)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::template::TemplateSet;

use crate::template_pages::literals::{Hits, KnownSearches};

/// Maximum number of slabs of a pattern whose facts are kept; the slabs that were added last stay.
const SLABS_MAX: usize = 64;
/// Maximum bytes of the facts about one pattern and slab; further pages have no facts.
const SLAB_BYTES_MAX: usize = 2 << 20;
/// Maximum bytes of the facts about all patterns.
const ALL_BYTES_MAX: usize = 24 << 20;

/// Facts about one page.
#[derive(Default)]
pub(super) struct PageFacts {
    /// The rows that may match, judging by the words of the pattern.
    pub possible: Option<Arc<Hits>>,
    /// The values that contain literals of the pattern, or parts of them.
    pub searches: KnownSearches,
}

impl PageFacts {
    fn memory_bytes(&self) -> usize {
        size_of::<PageFacts>()
            + self.possible.as_ref().map_or(0, |hits| hits.memory_bytes())
            + self.searches.memory_bytes()
    }
}

/// Facts about one pattern.
#[derive(Default)]
pub(crate) struct PatternFacts {
    slabs: Mutex<VecDeque<SlabFacts>>,
    /// Bytes of the facts about all patterns.
    all_bytes: Arc<AtomicUsize>,
}

/// Facts about the pages of a slab, which is given by its templates.
struct SlabFacts {
    template_set: Weak<TemplateSet>,
    pages: HashMap<usize, PageFacts, FixedState>,
    bytes: usize,
}

impl Drop for PatternFacts {
    fn drop(&mut self) {
        self.clear();
    }
}

impl PatternFacts {
    /// No facts yet; `all_bytes` counts the bytes of the facts about all patterns.
    pub(crate) fn new(all_bytes: &Arc<AtomicUsize>) -> PatternFacts {
        PatternFacts { slabs: Mutex::default(), all_bytes: Arc::clone(all_bytes) }
    }

    /// Takes the facts about a page, which are missing until they are put back: one reader reads a page at a time.
    pub(super) fn take(&self, template_set: &Arc<TemplateSet>, page: usize) -> PageFacts {
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slabs.iter_mut().find(|slab| is_of(slab, template_set));
        let Some((slab, facts)) = known.and_then(|slab| slab.pages.remove(&page).map(|facts| (slab, facts))) else {
            return PageFacts::default();
        };
        let bytes = facts.memory_bytes();
        slab.bytes -= bytes;
        self.all_bytes.fetch_sub(bytes, Ordering::Relaxed);
        facts
    }

    /// Puts back the facts about a page.
    pub(super) fn put(&self, template_set: &Arc<TemplateSet>, page: usize, facts: PageFacts) {
        if facts.possible.is_none() && facts.searches.is_empty() {
            return;
        }
        let bytes = facts.memory_bytes();
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = slabs.iter().position(|slab| is_of(slab, template_set)).unwrap_or_else(|| {
            let is_gone = |slab: &SlabFacts| slab.template_set.strong_count() == 0;
            let gone: usize = slabs.iter().filter(|slab| is_gone(slab)).map(|slab| slab.bytes).sum();
            slabs.retain(|slab| !is_gone(slab));
            let first = if slabs.len() >= SLABS_MAX { slabs.pop_front() } else { None };
            self.all_bytes.fetch_sub(gone + first.map_or(0, |slab| slab.bytes), Ordering::Relaxed);
            let template_set = Arc::downgrade(template_set);
            slabs.push_back(SlabFacts { template_set, pages: HashMap::default(), bytes: 0 });
            slabs.len() - 1
        });
        let slab = &mut slabs[at];
        // Two readers of one page both had to find the facts; either result will do.
        let is_room =
            slab.bytes + bytes <= SLAB_BYTES_MAX && self.all_bytes.load(Ordering::Relaxed) + bytes <= ALL_BYTES_MAX;
        if is_room && !slab.pages.contains_key(&page) {
            slab.pages.insert(page, facts);
            slab.bytes += bytes;
            self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = slabs.drain(..).map(|slab| slab.bytes).sum();
        self.all_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Whether the facts are about the slab with these templates. No other slab has their address as long as the facts
/// refer to them.
fn is_of(slab: &SlabFacts, template_set: &Arc<TemplateSet>) -> bool {
    std::ptr::eq(slab.template_set.as_ptr(), Arc::as_ptr(template_set))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(rows: &[usize]) -> PageFacts {
        let mut possible = Hits::none(100);
        rows.iter().for_each(|row| possible.set(*row));
        PageFacts { possible: Some(Arc::new(possible)), ..PageFacts::default() }
    }

    fn has(facts: &PageFacts, row: usize) -> Option<bool> {
        facts.possible.as_ref().map(|possible| possible.is_set(row))
    }

    #[test]
    fn facts_belong_to_their_slab_and_page() {
        let bytes = Arc::default();
        let known = PatternFacts::new(&bytes);
        let [one, other] = [(); 2].map(|()| Arc::new(TemplateSet::default()));
        known.put(&one, 3, facts(&[7]));
        known.put(&other, 3, facts(&[8]));
        known.put(&one, 4, facts(&[]));
        assert_eq!(has(&known.take(&one, 5), 7), None);
        let taken = known.take(&one, 3);
        assert_eq!((has(&taken, 7), has(&taken, 8)), (Some(true), Some(false)));
        assert_eq!(has(&known.take(&one, 3), 7), None, "the facts were taken");
        known.put(&one, 3, taken);
        assert_eq!(has(&known.take(&other, 3), 8), Some(true));
        assert_eq!(has(&known.take(&one, 4), 7), Some(false));
        assert_eq!(has(&known.take(&one, 3), 7), Some(true));
        assert_eq!(bytes.load(Ordering::Relaxed), 0, "nothing is kept any more");
    }

    #[test]
    fn facts_about_slabs_that_left_memory_are_dropped() {
        let bytes = Arc::default();
        let known = PatternFacts::new(&bytes);
        let gone = Arc::new(TemplateSet::default());
        known.put(&gone, 0, facts(&[1]));
        let one_page = bytes.load(Ordering::Relaxed);
        assert!(one_page > 0);
        drop(gone);
        let slabs: Vec<_> = (0..=SLABS_MAX).map(|_| Arc::new(TemplateSet::default())).collect();
        slabs.iter().for_each(|slab| known.put(slab, 0, facts(&[1])));
        assert_eq!(bytes.load(Ordering::Relaxed), one_page * SLABS_MAX);
        assert_eq!(has(&known.take(&slabs[0], 0), 1), None);
        assert_eq!(has(&known.take(&slabs[1], 0), 1), Some(true));
        drop(known);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }
}
