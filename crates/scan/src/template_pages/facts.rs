//! Facts about a slab's templates that do not depend on the search; computed once and kept for later searches.
//!
//! A few bits for each part of each template: whether its surroundings bound words in every event, whether a word
//! without breakers can extend across its left edge, and whether a percent-encoded breaker may be near.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use quarry_event::segment::{is_breaker, is_major};
use quarry_event::template::{ByteSet, ColumnKind, Template, TemplateSet};

use super::edges::{Around, Edges};
use super::field_locations::FieldLocations;
use crate::fields::Class;

/// Slabs whose facts are kept, a few kilobytes each.
const SLABS_KEPT: usize = 4_096;
/// Fields of a slab whose locations are kept: the most recent ones.
const FIELDS_KEPT: usize = 64;
/// Bytes of the field locations of all slabs; beyond that, every search computes them again.
const PLACES_BYTES_MAX: usize = 64 << 20;

/// Facts about the slabs that searches have read.
#[derive(Default)]
pub(crate) struct KnownTemplates {
    slabs: Mutex<Vec<(Weak<TemplateSet>, Arc<TemplateFacts>)>>,
    /// Bytes of the field locations kept.
    held: Arc<AtomicUsize>,
}

impl KnownTemplates {
    /// The facts about a slab.
    pub(super) fn of(&self, template_set: &Arc<TemplateSet>) -> Arc<TemplateFacts> {
        let same = |(known, _): &&(Weak<TemplateSet>, Arc<TemplateFacts>)| known.as_ptr() == Arc::as_ptr(template_set);
        {
            let known = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
            // A weak pointer prevents reuse of the address, so equal addresses mean the same slab.
            if let Some((_, facts)) = known.iter().find(same) {
                return Arc::clone(facts);
            }
        }
        let held = Arc::clone(&self.held);
        let facts = Arc::new(TemplateFacts { words: OnceLock::new(), fields: Mutex::default(), held });
        let mut known = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(template_set, _)| template_set.strong_count() > 0);
        if known.len() >= SLABS_KEPT {
            known.remove(0);
        }
        known.push((Arc::downgrade(template_set), Arc::clone(&facts)));
        facts
    }
}

/// Facts about one slab.
pub(super) struct TemplateFacts {
    /// Once a word is looked for.
    words: OnceLock<WordFacts>,
    /// Field locations by class of extraction.
    fields: Mutex<Vec<KnownField>>,
    /// Bytes of the field locations of all slabs.
    held: Arc<AtomicUsize>,
}

/// Facts about one slab for finding words.
pub(super) struct WordFacts {
    /// By column: whether no value can contain an encoded breaker.
    free: Vec<bool>,
    /// By column, by template, by part.
    parts: Vec<Vec<Box<[PartFacts]>>>,
}

impl Drop for TemplateFacts {
    fn drop(&mut self) {
        let fields = self.fields.get_mut().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = fields.iter().map(|field| field.places.bytes()).sum();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Kind of name that a location was computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sought {
    /// A field, by name.
    Field,
    /// A path of `spath`.
    Path,
}

/// The locations of a field under these extraction classes.
struct KnownField {
    sought: Sought,
    name: String,
    classes: Vec<Class>,
    places: Arc<FieldLocations>,
}

/// The bytes that bound a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    /// Major and minor breakers.
    Breakers,
    /// Major breakers only.
    Majors,
}

/// Facts about one part of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFacts {
    /// By kind of bounds: whether what precedes it, or its own first byte, bounds a match.
    left: [Bound; 2],
    right: [Bound; 2],
    free: Free,
    /// A word without breakers may extend across the edge to the previous part.
    pub open_edge: bool,
}

/// Whether there is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Always,
    /// If the whole value is bounded on this side.
    IfOutside,
    Never,
}

/// Whether no encoded breaker is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Free {
    Always,
    /// If none is near the whole value.
    IfOutside,
    Never,
}

impl PartFacts {
    /// Surroundings of the part, given the surroundings of the value that contains it.
    pub(super) fn around(&self, outside: Around, bounds: Bounds) -> Around {
        let holds = |bound: Bound, outside: bool| match bound {
            Bound::Always => true,
            Bound::IfOutside => outside,
            Bound::Never => false,
        };
        let free = match self.free {
            Free::Always => true,
            Free::IfOutside => outside.free,
            Free::Never => false,
        };
        Around {
            left: holds(self.left[bounds as usize], outside.left),
            right: holds(self.right[bounds as usize], outside.right),
            free,
        }
    }
}

impl WordFacts {
    fn new(template_set: &TemplateSet) -> WordFacts {
        let mut facts = WordFacts {
            free: vec![false; template_set.columns.len()],
            parts: vec![Vec::new(); template_set.columns.len()],
        };
        // Children come after their parents.
        for (at, column) in template_set.columns.iter().enumerate().rev() {
            let no_sign = !column.traits.bytes.contains(b'%');
            let ColumnKind::Templates(templates) = &column.kind else {
                facts.free[at] = no_sign;
                continue;
            };
            let around = Around { left: true, right: true, free: true };
            facts.free[at] = no_sign
                || templates.iter().all(|template| {
                    let edges = Edges { template_set, parts: &template.parts, around, free: &facts.free };
                    (0..template.parts.len()).all(|at| edges.part_is_free(at))
                });
        }
        for (at, column) in template_set.columns.iter().enumerate() {
            if let ColumnKind::Templates(templates) = &column.kind {
                facts.parts[at] =
                    templates.iter().map(|template| parts_of(template_set, template, &facts.free)).collect();
            }
        }
        facts
    }

    /// By column: whether no value can contain an encoded breaker.
    pub(super) fn free(&self) -> &[bool] {
        &self.free
    }

    /// Facts about the parts of a template of a column.
    pub(super) fn parts(&self, column: u32, template: usize) -> &[PartFacts] {
        &self.parts[column as usize][template]
    }
}

impl TemplateFacts {
    /// Facts for searches for words in the templates that these facts are about.
    pub(super) fn of_words(&self, template_set: &TemplateSet) -> &WordFacts {
        self.words.get_or_init(|| WordFacts::new(template_set))
    }

    /// Field locations under these extraction classes; `find` computes those that are not known.
    pub(super) fn places_of(
        &self,
        sought: Sought,
        names: &[String],
        classes: &[Class],
        find: impl FnOnce(&[String]) -> Vec<FieldLocations>,
    ) -> Vec<Arc<FieldLocations>> {
        let is_same_way = |known: &KnownField| {
            let mut pairs = known.classes.iter().zip(classes);
            known.classes.len() == classes.len() && pairs.all(|(a, b)| a.extracts_like(b))
        };
        let known_of = |fields: &[KnownField], name: &String| {
            let is_it = |known: &&KnownField| known.sought == sought && known.name == *name && is_same_way(known);
            let known = fields.iter().find(is_it);
            known.map(|known| Arc::clone(&known.places))
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
                let field = KnownField { sought, name, classes: classes.to_vec(), places: Arc::clone(places) };
                self.keep(&mut fields, field);
            }
            all.iter_mut().filter(|known| known.is_none()).zip(found).for_each(|(known, found)| *known = Some(found));
        }
        all.into_iter().flatten().collect()
    }

    /// Keeps a field's locations while there is room.
    fn keep(&self, fields: &mut Vec<KnownField>, field: KnownField) {
        if fields.len() >= FIELDS_KEPT {
            self.held.fetch_sub(fields.remove(0).places.bytes(), Ordering::Relaxed);
        }
        if self.held.load(Ordering::Relaxed) < PLACES_BYTES_MAX {
            self.held.fetch_add(field.places.bytes(), Ordering::Relaxed);
            fields.push(field);
        }
    }
}

fn parts_of(template_set: &TemplateSet, template: &Template, free: &[bool]) -> Box<[PartFacts]> {
    let sets = [set_of(is_breaker), set_of(is_major)];
    let [breakers, _] = sets;
    let with = |outside: bool| Edges {
        template_set,
        parts: &template.parts,
        around: Around { left: outside, right: outside, free: outside },
        free,
    };
    let (open, closed) = (with(true), with(false));
    let facts = (0..template.parts.len()).map(|at| {
        let (before, open_start) = open.bytes_before(at);
        let (after, open_end) = open.bytes_after(at + 1);
        let (firsts, lasts, filled) = open.own(at);
        let bound = |near: ByteSet, is_open: bool, own: ByteSet, set: ByteSet| match (
            filled && own.is_within(set),
            near.is_within(set),
        ) {
            (true, _) => Bound::Always,
            (false, true) if is_open => Bound::IfOutside,
            (false, true) => Bound::Always,
            (false, false) => Bound::Never,
        };
        let free = match (closed.is_free(at), open.is_free(at)) {
            (true, _) => Free::Always,
            (false, true) => Free::IfOutside,
            (false, false) => Free::Never,
        };
        let (here, _) = open.bytes_after(at);
        PartFacts {
            left: sets.map(|set| bound(before, open_start, firsts, set)),
            right: sets.map(|set| bound(after, open_end, lasts, set)),
            free,
            open_edge: at > 0 && !before.is_within(breakers) && !here.is_within(breakers),
        }
    });
    facts.collect()
}

/// The set of bytes for which `holds` is true.
pub(super) fn set_of(holds: impl Fn(u8) -> bool) -> ByteSet {
    let mut set = ByteSet::EMPTY;
    (0..=u8::MAX).filter(|byte| holds(*byte)).for_each(|byte| set.insert(byte));
    set
}
