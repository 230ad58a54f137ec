//! Keys of the caches of dependence analysis: the properties of a window, and of a single variable, on which a walk can
//! depend.
//!
//! Windows and variables of different templates have equal keys if no walk can tell them apart. Lists of values and of
//! forms are compared by identity: their contents would take longer to compare than the walk.
//!
//! Not here: the walk ([`super`]).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use quarry_event::template::{ValueForm, ValueTraits};
use quarry_stdx::number::u32_of;

use super::{CACHED_OUTCOMES_MAX, CACHED_WINDOWS_MAX, Configuration, Dependence};
use crate::pattern::template_match::assertion::ByteBefore;
use crate::pattern::template_match::attempts::PASSES_MAX;
use crate::pattern::template_match::{FlatPart, Planner, TemplatePosition, TemplateReader, Window};

/// Lists of more values than this are long.
pub(super) const SHORT_LIST_MAX: usize = 16;
/// Maximum number of long lists, and of lists of forms, that a planner knows. Slabs have lists of their own, so a
/// search over many slabs would otherwise retain the lists of all slabs.
const VALUE_LISTS_MAX: usize = 128;
const FORM_LISTS_MAX: usize = 2_048;

/// Everything that determines the successors of a configuration after a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::pattern::template_match) struct PassedVariable<C> {
    /// The configuration with positions relative to the variable ([`Configuration::with_relative_positions`]).
    pub(super) from: C,
    /// Whether a match of the window may start inside the variable.
    pub(super) starts: bool,
    pub(super) bytes: [[u64; 4]; 3],
    pub(super) min_len: u32,
    pub(super) max_len: u32,
    /// The lists of values and forms, by identity: comparing their contents would cost more than it saves.
    pub(super) value_set: Option<Identity<[Box<str>]>>,
    pub(super) forms: Option<Identity<[ValueForm]>>,
}

impl PassedVariable<&Configuration> {
    /// The key as it is stored.
    pub(super) fn to_stored(&self) -> PassedVariable<Configuration> {
        let PassedVariable { from, starts, bytes, min_len, max_len, ref value_set, ref forms } = *self;
        let (value_set, forms) = (value_set.clone(), forms.clone());
        PassedVariable { from: from.clone(), starts, bytes, min_len, max_len, value_set, forms }
    }
}

impl Equivalent<PassedVariable<Configuration>> for PassedVariable<&Configuration> {
    fn equivalent(&self, known: &PassedVariable<Configuration>) -> bool {
        let PassedVariable { from, starts, bytes, min_len, max_len, value_set, forms } = known;
        self.starts == *starts
            && (self.bytes, self.min_len, self.max_len) == (*bytes, *min_len, *max_len)
            && (&self.value_set, &self.forms) == (value_set, forms)
            && self.from == from
    }
}

/// A shared value that is equal to itself only.
#[derive(Debug)]
pub(in crate::pattern::template_match) struct Identity<T: ?Sized>(pub(in crate::pattern::template_match) Arc<T>);

impl<T: ?Sized> Clone for Identity<T> {
    fn clone(&self) -> Identity<T> {
        Identity(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> PartialEq for Identity<T> {
    fn eq(&self, other: &Identity<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Eq for Identity<T> {}

impl<T: ?Sized> Hash for Identity<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<u8>().hash(state);
    }
}

/// Cached successors of configurations after variables; `None` if they are too many. Windows of many templates begin
/// with the same variables, such as the variables of a time.
pub(in crate::pattern::template_match) type OutcomeCache =
    HashMap<PassedVariable<Configuration>, Option<Vec<Configuration>>, foldhash::fast::FixedState>;

/// Cached dependence of windows. The key consists of all properties on which the walk depends, and is the same in many
/// templates, because parts are numbered from the first part of the window. `None` if the analysis has no result.
pub(in crate::pattern::template_match) type DependenceCache =
    HashMap<Box<[u8]>, Option<Dependence>, foldhash::fast::FixedState>;

impl Planner {
    /// Resets the number of steps for the templates of another slab, and empties the caches if they are half full.
    pub fn begin_slab(&mut self) {
        self.spent += std::mem::take(&mut self.dependence_steps);
        self.failed_lists = 0;
        // Entries of earlier slabs are hardly ever used for this slab, and full caches accept no new entries.
        let is_full = self.value_lists.len() > VALUE_LISTS_MAX
            || self.form_lists.len() > FORM_LISTS_MAX
            || self.dependence_cache.len() > CACHED_WINDOWS_MAX / 2
            || self.outcome_cache.len() > CACHED_OUTCOMES_MAX / 2
            || self.walk_prefixes.is_half_full()
            || self.pass_cache.len() > PASSES_MAX / 2;
        if is_full {
            self.clear_analyses();
        }
    }

    /// Empties the caches of analyses and of attempts.
    pub(in crate::pattern::template_match) fn clear_analyses(&mut self) {
        self.value_lists.clear();
        self.form_lists.clear();
        self.dependence_cache.clear();
        self.outcome_cache.clear();
        self.walk_prefixes.clear();
        self.pass_cache.clear();
    }

    /// The properties of a template on which a walk over the window depends, encoded with as much detail as the
    /// expression distinguishes.
    pub(super) fn cache_key(&mut self, template: &TemplateReader<'_>, window: &Window) -> Box<[u8]> {
        let (first, last) = (window.context, window.end);
        let mut view = Vec::with_capacity(256);
        for position in [window.start, window.starts_end, last].map(|position| position.relative_to(first)) {
            put_number(position.part, &mut view);
            put_number(position.offset, &mut view);
        }
        view.push(
            u8::from(window.start == TemplatePosition::START) | u8::from(template.part(last.part).is_none()) << 1,
        );
        for at in first.part..=last.part {
            let Some(part) = template.part(at) else { break };
            match part {
                FlatPart::Literal(bytes) => {
                    let start = if at == first.part { first.offset } else { 0 };
                    let end = if at == last.part { last.offset } else { bytes.len() };
                    let bytes = bytes.get(start..end).unwrap_or_default();
                    put_number(bytes.len(), &mut view);
                    for byte in bytes {
                        // Bytes of one class are equal for the automaton, but not for assertions.
                        match byte.is_ascii() {
                            true => {
                                view.extend([kind_code(self.kind_before(*byte)), self.dfa.byte_classes().get(*byte)])
                            }
                            false => view.extend([u8::MAX, *byte]),
                        }
                    }
                }
                FlatPart::Variable(_, traits) if at < last.part => match (&traits.value_set, &traits.forms) {
                    (Some(list), _) if list.len() > SHORT_LIST_MAX => {
                        view.push(3);
                        put_number(number_of(&mut self.value_lists, list), &mut view);
                    }
                    (None, Some(forms)) => {
                        view.push(4);
                        put_number(number_of(&mut self.form_lists, forms), &mut view);
                        put_traits(traits, &mut view);
                    }
                    _ => {
                        view.push(2);
                        put_traits(traits, &mut view);
                    }
                },
                FlatPart::Variable(..) => {}
            }
        }
        view.into()
    }
}

/// Number of a kind of byte in keys.
fn kind_code(kind: ByteBefore) -> u8 {
    match kind {
        ByteBefore::Start => 0,
        ByteBefore::LineFeed => 1,
        ByteBefore::Word => 2,
        ByteBefore::Other => 3,
        ByteBefore::Wide => 4,
    }
}

fn put_number(number: usize, view: &mut Vec<u8>) {
    view.extend(u32_of(number).to_le_bytes());
}

/// Encodes the traits of a variable on which a walk can depend, except its forms.
fn put_traits(traits: &ValueTraits, view: &mut Vec<u8>) {
    for bytes in [traits.bytes, traits.firsts, traits.lasts] {
        bytes.words().iter().for_each(|word| view.extend(word.to_le_bytes()));
    }
    view.extend(traits.min_len.to_le_bytes());
    view.extend(traits.max_len.to_le_bytes());
    let values = traits.value_set.as_deref().unwrap_or_default();
    put_number(values.len(), view);
    for value in values {
        put_number(value.len(), view);
        view.extend(value.as_bytes());
    }
}

/// Number of a shared list among those seen so far.
fn number_of<T>(known: &mut Vec<Arc<[T]>>, list: &Arc<[T]>) -> usize {
    let at = known.iter().position(|known| Arc::ptr_eq(known, list));
    at.unwrap_or_else(|| {
        known.push(Arc::clone(list));
        known.len() - 1
    })
}
