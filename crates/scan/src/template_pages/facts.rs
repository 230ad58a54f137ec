//! Facts about a slab's templates that do not depend on the search; computed once and cached for later searches.
//!
//! There are three kinds of facts. For word searches, each part of each template has its possible neighbours: whether
//! words are bounded at its edges in every event, whether a word without breakers can extend across its left edge, and
//! whether a percent-encoded breaker, which also bounds words (`%20`), may be in the part or shortly before it. An
//! index ([`super::template_index`]) maps each part to the templates that contain it. The other facts are the locations
//! of fields, and the pairs of transforms.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::segment::{is_breaker, is_major};
use quarry_event::template::{ByteSet, ColumnKind, Template, TemplateSet};

use super::edges::{EdgeContext, Edges};
use super::field_locations::FieldLocations;
use super::listed_names::TemplateNames;
use super::reports::TemplatePairs;
use super::template_index::TemplateIndex;
use crate::fields::reports::Report;
use crate::fields::{AutoExtraction, ExtractionClass};

/// Maximum number of slabs whose facts are cached.
const CACHED_SLABS_MAX: usize = 4_096;
/// Maximum number of fields of a slab whose locations are cached; the most recent fields stay.
const CACHED_FIELDS_MAX: usize = 64;
/// Maximum number of transforms (`REPORT-`) for which the pairs in the templates of one slab are cached; the most
/// recent transforms stay.
const CACHED_REPORTS_MAX: usize = 16;
/// Maximum bytes of the cached field locations and pairs of all slabs; beyond that, every search computes them again.
const LOCATIONS_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of the cached word-search facts of all slabs; beyond that, every search computes them again.
const WORD_FACTS_BYTES_MAX: usize = 64 << 20;

/// Facts about the slabs that searches have read.
#[derive(Default)]
pub(crate) struct TemplateFactsCache {
    slabs: Mutex<CachedSlabs>,
    cached_bytes: Arc<CachedBytes>,
}

/// Facts by the address of a slab's templates. A weak pointer prevents reuse of the address, so equal addresses mean
/// the same slab.
#[derive(Default)]
struct CachedSlabs {
    by_address: HashMap<usize, (Weak<TemplateSet>, Arc<TemplateFacts>), FixedState>,
    /// The addresses in the order in which they were added.
    order: VecDeque<usize>,
}

impl CachedSlabs {
    /// Adds a slab, after removing slabs whose templates have left memory and, at the limit, the slab that was added
    /// first.
    fn add(&mut self, template_set: &Arc<TemplateSet>, facts: &Arc<TemplateFacts>) {
        let by_address = &mut self.by_address;
        self.order.retain(|address| {
            let is_read = by_address.get(address).is_some_and(|(template_set, _)| template_set.strong_count() > 0);
            if !is_read {
                by_address.remove(address);
            }
            is_read
        });
        if self.order.len() >= CACHED_SLABS_MAX
            && let Some(first) = self.order.pop_front()
        {
            by_address.remove(&first);
        }
        let address = Arc::as_ptr(template_set).addr();
        if by_address.insert(address, (Arc::downgrade(template_set), Arc::clone(facts))).is_none() {
            self.order.push_back(address);
        }
        assert_eq!(self.order.len(), self.by_address.len(), "each slab has its place in the order");
    }
}

/// Bytes cached for all slabs.
#[derive(Default)]
struct CachedBytes {
    /// Bytes of field locations and pairs.
    locations: AtomicUsize,
    /// Bytes of word-search facts.
    words: AtomicUsize,
}

impl TemplateFactsCache {
    /// The facts about a slab.
    pub(super) fn of(&self, template_set: &Arc<TemplateSet>) -> Arc<TemplateFacts> {
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, facts)) = slabs.by_address.get(&Arc::as_ptr(template_set).addr()) {
            return Arc::clone(facts);
        }
        let held = Arc::clone(&self.cached_bytes);
        let facts = Arc::new(TemplateFacts {
            words: OnceLock::new(),
            fields: Mutex::default(),
            pairs: Mutex::default(),
            names: Mutex::default(),
            cached_bytes: held,
        });
        slabs.add(template_set, &facts);
        facts
    }
}

/// Facts about one slab.
pub(super) struct TemplateFacts {
    /// Computed when a word is first searched for.
    words: OnceLock<Arc<WordFacts>>,
    /// Field locations, each under the extraction classes of the slab's sources.
    fields: Mutex<Vec<CachedField>>,
    /// Pairs of the transforms that take field names from the text.
    pairs: Mutex<Vec<(Arc<Report>, Arc<TemplatePairs>)>>,
    /// Names of fields, by kind of automatic extraction.
    names: Mutex<Vec<(AutoExtraction, Arc<TemplateNames>)>>,
    cached_bytes: Arc<CachedBytes>,
}

/// Facts about one slab that word searches need.
pub(super) struct WordFacts {
    /// For each column, whether no value can contain an encoded breaker.
    free: Vec<bool>,
    /// Facts by column, template and part.
    parts: Vec<Vec<Box<[PartFacts]>>>,
    /// Template index of each column; empty for a column without templates.
    indexes: Vec<TemplateIndex>,
}

impl Drop for TemplateFacts {
    fn drop(&mut self) {
        let fields = self.fields.get_mut().unwrap_or_else(PoisonError::into_inner);
        let pairs = self.pairs.get_mut().unwrap_or_else(PoisonError::into_inner);
        let names = self.names.get_mut().unwrap_or_else(PoisonError::into_inner);
        let bytes = fields.iter().map(|field| field.locations.bytes()).sum::<usize>()
            + pairs.iter().map(|(_, pairs)| pairs.memory_bytes()).sum::<usize>()
            + names.iter().map(|(_, names)| names.memory_bytes()).sum::<usize>();
        self.cached_bytes.locations.fetch_sub(bytes, Ordering::Relaxed);
        let words = self.words.get().map_or(0, |words| words.memory_bytes());
        self.cached_bytes.words.fetch_sub(words, Ordering::Relaxed);
    }
}

/// Kind of name for which a location was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A field, by name.
    Field,
    /// An `spath` path.
    Path,
}

/// The locations of a field, or an `spath` path, under these extraction classes.
struct CachedField {
    name_kind: NameKind,
    name: String,
    classes: Vec<ExtractionClass>,
    locations: Arc<FieldLocations>,
}

impl CachedField {
    /// Whether these are the locations of this field under these extraction classes.
    fn is_for(&self, sought: NameKind, name: &str, classes: &[ExtractionClass]) -> bool {
        let mut pairs = self.classes.iter().zip(classes);
        let mut is_same_way = || self.classes.len() == classes.len() && pairs.all(|(a, b)| a.is_equivalent(b));
        self.name_kind == sought && self.name == *name && is_same_way()
    }
}

/// The bytes that bound a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    /// Major and minor breakers.
    Breakers,
    /// Major breakers only.
    MajorBreakers,
}

/// Facts about one part of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFacts {
    pub surroundings: Surroundings,
    /// Whether a word without breakers may extend across the edge to the previous part.
    pub open_edge: bool,
}

/// Neighbours of a part, as determined by the rest of its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Surroundings {
    /// By kind of bounds: whether the byte before the part, or the part's own first byte, bounds a match.
    left: [Bound; 2],
    right: [Bound; 2],
    free: BreakerFree,
    free_around: BreakerFree,
}

/// Whether a match is bounded on one side of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bound {
    Always,
    /// Only if the text of the template is bounded on this side. The text may be a value in another template, whose
    /// other parts then bound it.
    IfOutside,
    Never,
}

/// Whether no percent-encoded breaker is in a part or shortly before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum BreakerFree {
    Always,
    /// Only if no encoded breaker is shortly before the text that this template describes.
    IfOutside,
    Never,
}

impl Surroundings {
    /// Surroundings of the part, given the surroundings of the value that contains it.
    pub(super) fn context(&self, outside: EdgeContext, bounds: Bounds) -> EdgeContext {
        let holds = |bound: Bound, outside: bool| match bound {
            Bound::Always => true,
            Bound::IfOutside => outside,
            Bound::Never => false,
        };
        let is_free = |free: BreakerFree| match free {
            BreakerFree::Always => true,
            BreakerFree::IfOutside => outside.free_around,
            BreakerFree::Never => false,
        };
        EdgeContext {
            left: holds(self.left[bounds as usize], outside.left),
            right: holds(self.right[bounds as usize], outside.right),
            free: is_free(self.free),
            free_around: is_free(self.free_around),
        }
    }
}

impl WordFacts {
    pub(super) fn new(template_set: &TemplateSet) -> WordFacts {
        let mut facts = WordFacts {
            free: vec![false; template_set.columns.len()],
            parts: vec![Vec::new(); template_set.columns.len()],
            indexes: Vec::new(),
        };
        facts.indexes.resize_with(template_set.columns.len(), TemplateIndex::default);
        // Children come after their parents, so they are visited first here.
        for (at, column) in template_set.columns.iter().enumerate().rev() {
            let no_sign = !column.traits.bytes.contains(b'%');
            let ColumnKind::Templates(templates) = &column.kind else {
                facts.free[at] = no_sign;
                continue;
            };
            let around = EdgeContext { left: true, right: true, free: true, free_around: true };
            facts.free[at] = no_sign
                || templates.iter().all(|template| {
                    let edges = Edges { template_set, parts: &template.parts, around, free: &facts.free };
                    (0..template.parts.len()).all(|at| edges.part_has_no_encoded_breaker(at))
                });
        }
        for (at, column) in template_set.columns.iter().enumerate() {
            if let ColumnKind::Templates(templates) = &column.kind {
                facts.parts[at] =
                    templates.iter().map(|template| parts_of(template_set, template, &facts.free)).collect();
                let edges_of = |template| edges_of(template_set, template, &facts.free, true);
                facts.indexes[at] = TemplateIndex::new(templates, edges_of, &facts.parts[at]);
            }
        }
        facts
    }

    /// For each column, whether no value can contain an encoded breaker.
    pub(super) fn columns_without_encoded_breakers(&self) -> &[bool] {
        &self.free
    }

    /// Facts about the parts of a template of a column.
    pub(super) fn parts(&self, column: u32, template: usize) -> &[PartFacts] {
        &self.parts[column as usize][template]
    }

    /// The index of the templates of a column.
    pub(super) fn index(&self, column: u32) -> &TemplateIndex {
        &self.indexes[column as usize]
    }

    /// Bytes of memory, approximately.
    fn memory_bytes(&self) -> usize {
        let parts = self.parts.iter().flatten().map(|parts| size_of_val(&**parts) + size_of::<Box<[PartFacts]>>());
        let indexes = self.indexes.iter().map(|index| index.memory_bytes() + size_of::<TemplateIndex>());
        self.free.len() + parts.sum::<usize>() + indexes.sum::<usize>()
    }
}

impl TemplateFacts {
    /// Facts for word searches in these templates.
    pub(super) fn word_facts(&self, template_set: &TemplateSet) -> Arc<WordFacts> {
        if let Some(known) = self.words.get() {
            return Arc::clone(known);
        }
        let found = Arc::new(WordFacts::new(template_set));
        let bytes = found.memory_bytes();
        // If two workers compute the facts at once, one result is kept.
        if self.cached_bytes.words.load(Ordering::Relaxed) < WORD_FACTS_BYTES_MAX
            && self.words.set(Arc::clone(&found)).is_ok()
        {
            self.cached_bytes.words.fetch_add(bytes, Ordering::Relaxed);
        }
        found
    }

    /// Whether the locations of these fields are cached.
    pub(super) fn has_locations_of(&self, sought: NameKind, names: &[String], classes: &[ExtractionClass]) -> bool {
        let fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |name: &String| fields.iter().any(|known| known.is_for(sought, name, classes));
        names.iter().all(is_known)
    }

    /// Field locations under these extraction classes; `find` computes them if they are not cached.
    pub(super) fn locations_of(
        &self,
        sought: NameKind,
        names: &[String],
        classes: &[ExtractionClass],
        find: impl FnOnce(&[String]) -> Vec<FieldLocations>,
    ) -> Vec<Arc<FieldLocations>> {
        let known_of = |fields: &[CachedField], name: &String| {
            let known = fields.iter().find(|known| known.is_for(sought, name, classes));
            known.map(|known| Arc::clone(&known.locations))
        };
        let lock = || self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Option<Arc<FieldLocations>>> = {
            let fields = lock();
            names.iter().map(|name| known_of(&fields, name)).collect()
        };
        let missing: Vec<String> =
            names.iter().zip(&all).filter(|(_, known)| known.is_none()).map(|(name, _)| name.clone()).collect();
        if !missing.is_empty() {
            let found: Vec<Arc<FieldLocations>> = find(&missing).into_iter().map(Arc::new).collect();
            let mut fields = lock();
            for (name, places) in missing.into_iter().zip(&found) {
                let field =
                    CachedField { name_kind: sought, name, classes: classes.to_vec(), locations: Arc::clone(places) };
                self.cache_field(&mut fields, field);
            }
            all.iter_mut().filter(|known| known.is_none()).zip(found).for_each(|(known, found)| *known = Some(found));
        }
        all.into_iter().flatten().collect()
    }

    /// The pairs of a transform, computed with `find` the first time.
    pub(super) fn pairs_for(&self, report: &Arc<Report>, find: impl FnOnce() -> TemplatePairs) -> Arc<TemplatePairs> {
        let lock = || self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(known, _)| Arc::ptr_eq(known, report)) {
            return Arc::clone(known);
        }
        let found = Arc::new(find());
        let mut pairs = lock();
        if pairs.len() >= CACHED_REPORTS_MAX {
            self.cached_bytes.locations.fetch_sub(pairs.remove(0).1.memory_bytes(), Ordering::Relaxed);
        }
        if self.cached_bytes.locations.load(Ordering::Relaxed) < LOCATIONS_BYTES_MAX {
            self.cached_bytes.locations.fetch_add(found.memory_bytes(), Ordering::Relaxed);
            pairs.push((Arc::clone(report), Arc::clone(&found)));
        }
        found
    }

    /// The names that automatic extraction of a kind finds, computed with `find` the first time.
    pub(super) fn names_of(
        &self,
        automatic: AutoExtraction,
        find: impl FnOnce() -> TemplateNames,
    ) -> Arc<TemplateNames> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known_in = |names: &[(AutoExtraction, Arc<TemplateNames>)]| {
            names.iter().find(|(known, _)| *known == automatic).map(|(_, names)| Arc::clone(names))
        };
        if let Some(known) = known_in(&lock()) {
            return known;
        }
        let found = Arc::new(find());
        let mut names = lock();
        // If two workers compute the names at once, one result is kept.
        if known_in(&names).is_none() && self.cached_bytes.locations.load(Ordering::Relaxed) < LOCATIONS_BYTES_MAX {
            self.cached_bytes.locations.fetch_add(found.memory_bytes(), Ordering::Relaxed);
            names.push((automatic, Arc::clone(&found)));
        }
        found
    }

    /// Caches a field's locations, up to the memory limit.
    fn cache_field(&self, fields: &mut Vec<CachedField>, field: CachedField) {
        if fields.len() >= CACHED_FIELDS_MAX {
            self.cached_bytes.locations.fetch_sub(fields.remove(0).locations.bytes(), Ordering::Relaxed);
        }
        if self.cached_bytes.locations.load(Ordering::Relaxed) < LOCATIONS_BYTES_MAX {
            self.cached_bytes.locations.fetch_add(field.locations.bytes(), Ordering::Relaxed);
            fields.push(field);
        }
    }
}

/// The edges of a template. With `outside`, the text that it describes is bounded on both sides, and no percent-encoded
/// breaker lies across its ends.
fn edges_of<'a>(template_set: &'a TemplateSet, template: &'a Template, free: &'a [bool], outside: bool) -> Edges<'a> {
    let around = EdgeContext { left: outside, right: outside, free: outside, free_around: outside };
    Edges { template_set, parts: &template.parts, around, free }
}

fn parts_of(template_set: &TemplateSet, template: &Template, free: &[bool]) -> Box<[PartFacts]> {
    static SETS: LazyLock<[ByteSet; 2]> = LazyLock::new(|| [byte_set(is_breaker), byte_set(is_major)]);
    let sets = *SETS;
    let [breakers, _] = sets;
    let [open, closed] = [true, false].map(|outside| edges_of(template_set, template, free, outside));
    let facts = (0..template.parts.len()).map(|at| {
        let (before, open_start) = open.bytes_before(at);
        let (after, open_end) = open.bytes_after(at + 1);
        let (firsts, lasts, filled) = open.part_bounds(at);
        let bound = |near: ByteSet, is_open: bool, own: ByteSet, set: ByteSet| match (
            filled && own.is_subset(set),
            near.is_subset(set),
        ) {
            (true, _) => Bound::Always,
            (false, true) if is_open => Bound::IfOutside,
            (false, true) => Bound::Always,
            (false, false) => Bound::Never,
        };
        // Whether this holds whatever precedes the text that the template describes, and whether it holds at its start.
        let free = |always: bool, at_start: bool| match (always, at_start) {
            (true, _) => BreakerFree::Always,
            (false, true) => BreakerFree::IfOutside,
            (false, false) => BreakerFree::Never,
        };
        let (here, _) = open.bytes_after(at);
        let surroundings = Surroundings {
            left: sets.map(|set| bound(before, open_start, firsts, set)),
            right: sets.map(|set| bound(after, open_end, lasts, set)),
            free: free(closed.has_no_encoded_breaker(at), open.has_no_encoded_breaker(at)),
            free_around: free(closed.has_no_encoded_breaker_around(at), open.has_no_encoded_breaker_around(at)),
        };
        PartFacts { surroundings, open_edge: at > 0 && !before.is_subset(breakers) && !here.is_subset(breakers) }
    });
    facts.collect()
}

/// The set of bytes for which `holds` is true.
pub(super) fn byte_set(holds: impl Fn(u8) -> bool) -> ByteSet {
    let mut set = ByteSet::EMPTY;
    (0..=u8::MAX).filter(|byte| holds(*byte)).for_each(|byte| set.insert(byte));
    set
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, TemplatePart, ValueTraits};

    use super::*;

    #[test]
    fn facts_are_cached_while_their_slab_is_in_use() {
        let slab = || {
            let template = Template { parts: vec![TemplatePart::Literal(b"started".as_slice().into())] };
            let kind = ColumnKind::Templates([template].into());
            let text = Column { parent: None, kind, traits: ValueTraits::default(), values: 1 };
            Arc::new(TemplateSet { columns: vec![text], ..TemplateSet::default() })
        };
        let known = TemplateFactsCache::default();
        let held = || known.cached_bytes.words.load(Ordering::Relaxed);
        let (first, second) = (slab(), slab());
        let facts = known.of(&first);
        assert!(Arc::ptr_eq(&facts, &known.of(&first)) && !Arc::ptr_eq(&facts, &known.of(&second)));
        let words = facts.word_facts(&first);
        assert!(Arc::ptr_eq(&words, &facts.word_facts(&first)));
        assert_eq!(held(), words.memory_bytes());
        drop((facts, first));
        assert_eq!(known.slabs.lock().unwrap().order.len(), 2);
        known.of(&slab());
        assert_eq!(held(), 0, "an unused slab is dropped when another is added");
        assert!(known.slabs.lock().unwrap().by_address.contains_key(&Arc::as_ptr(&second).addr()));
    }

    #[test]
    fn encoded_breakers_in_nested_values_concern_only_what_is_near() {
        let literal = |text: &str| TemplatePart::Literal(text.as_bytes().into());
        let column = |parent, kind, values: &[&str]| {
            let mut traits = ValueTraits::default();
            values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
            Column { parent, kind, traits, values: 1 }
        };
        let templates = |parts: [TemplatePart; 2]| ColumnKind::Templates([Template { parts: parts.to_vec() }].into());
        let columns = vec![
            column(None, templates([literal("12:00:00 "), TemplatePart::Variable(1)]), &["12:00:00 fw tag=a%20b"]),
            column(Some(0), templates([literal("fw tag="), TemplatePart::Variable(2)]), &["fw tag=a%20b"]),
            column(Some(1), ColumnKind::Texts, &["a%20b"]),
        ];
        let facts = WordFacts::new(&TemplateSet { columns, ..TemplateSet::default() });
        let whole = EdgeContext { left: true, right: true, free: true, free_around: true };
        let inner = facts.parts(0, 0)[1].surroundings.context(whole, Bounds::Breakers);
        assert!(!inner.free && inner.free_around);
        let parts = facts.parts(1, 0);
        assert!(parts[0].surroundings.context(inner, Bounds::Breakers).free);
        assert!(!parts[1].surroundings.context(inner, Bounds::Breakers).free);
        // The percent sign at the end of the nested value begins a breaker.
        let columns = vec![
            column(None, templates([TemplatePart::Variable(1), literal("20x")]), &["100%20x"]),
            column(Some(0), templates([TemplatePart::Variable(2), literal("%")]), &["100%"]),
            column(Some(1), ColumnKind::Texts, &["100"]),
        ];
        let facts = WordFacts::new(&TemplateSet { columns, ..TemplateSet::default() });
        let inner = facts.parts(0, 0)[0].surroundings.context(whole, Bounds::Breakers);
        assert!(!inner.free && !inner.free_around);
        assert!(!facts.parts(1, 0)[1].surroundings.context(inner, Bounds::Breakers).free);
    }

    #[test]
    fn facts_beyond_the_memory_limit_are_recomputed() {
        let known = TemplateFactsCache::default();
        known.cached_bytes.words.store(WORD_FACTS_BYTES_MAX, Ordering::Relaxed);
        let template_set = Arc::new(TemplateSet::default());
        let facts = known.of(&template_set);
        assert!(!Arc::ptr_eq(&facts.word_facts(&template_set), &facts.word_facts(&template_set)));
    }
}
