//! Cached beginnings of *walks* ([`super::Walk`]). A walk runs the Pike VM of an expression over the parts of a
//! template. Many templates of a slab begin with the same parts, and all templates of an inner value are preceded by
//! the same parts of the outer template. A walk therefore continues after the last part that it shares with an earlier
//! walk.
//!
//! Not here: cached results of whole walks and of single variables ([`super::cache_keys`]).

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::template::{ValueForm, ValueTraits};
use quarry_stdx::number::u32_of;

use super::cache_keys::Identity;
use super::{Configuration, Layer};
use crate::pattern::template_match::assertion::ByteBefore;
use crate::pattern::template_match::{FlatPart, TemplatePosition};

/// Maximum number of cached beginnings; further ones are not cached.
const PREFIXES_MAX: usize = 2_048;
/// Maximum number of threads of the Pike VM after a beginning; beginnings with more threads are not cached.
const THREADS_MAX: usize = 256;

/// Beginnings of walks: the nodes of a tree in which a child continues its parent by one part.
#[derive(Debug, Default)]
pub(in crate::pattern::template_match) struct WalkPrefixes {
    known: HashMap<PrefixKey, u32, FixedState>,
    states: Vec<PrefixState>,
}

/// State of a walk after one of the parts.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixState {
    pub(super) configurations: Vec<Configuration>,
    pub(super) layers: Vec<Arc<Layer>>,
}

/// A beginning of a walk: its start, or a cached beginning (by its number) and the part that continues it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum PrefixKey {
    /// The first and the last start of a match, and the kind of the byte before the first.
    Start(TemplatePosition, TemplatePosition, ByteBefore),
    Literal(u32, Box<[u8]>),
    Variable(u32, Box<VariableKey>),
}

/// All properties of a variable on which a walk depends. Lists are compared by identity.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct VariableKey {
    bytes: [[u64; 4]; 3],
    len: (u32, u32),
    value_set: Option<Identity<[Box<str>]>>,
    forms: Option<Identity<[ValueForm]>>,
}

impl PrefixKey {
    /// The beginning with number `before`, continued by a part.
    pub(super) fn of_part(before: u32, part: &FlatPart) -> PrefixKey {
        match part {
            FlatPart::Literal(bytes) => PrefixKey::Literal(before, bytes.clone()),
            FlatPart::Variable(_, traits) => PrefixKey::Variable(before, Box::new(VariableKey::of(traits))),
        }
    }
}

impl VariableKey {
    fn of(traits: &ValueTraits) -> VariableKey {
        VariableKey {
            bytes: [traits.bytes, traits.firsts, traits.lasts].map(|bytes| bytes.words()),
            len: (traits.min_len, traits.max_len),
            value_set: traits.value_set.clone().map(Identity),
            forms: traits.forms.clone().map(Identity),
        }
    }
}

impl WalkPrefixes {
    /// The number of a cached beginning, and the state after it.
    pub(super) fn find(&self, key: &PrefixKey) -> Option<(u32, &PrefixState)> {
        let number = *self.known.get(key)?;
        self.states.get(number as usize).map(|state| (number, state))
    }

    /// Caches the state after a beginning and returns the number of the beginning; `None` if it is not cached.
    pub(super) fn insert(
        &mut self,
        key: PrefixKey,
        configurations: &[Configuration],
        layers: &[Arc<Layer>],
    ) -> Option<u32> {
        let threads: usize = configurations.iter().map(|one| one.list.len()).sum();
        if self.states.len() >= PREFIXES_MAX || threads > THREADS_MAX {
            return None;
        }
        let number = u32_of(self.states.len());
        self.states.push(PrefixState { configurations: configurations.to_vec(), layers: layers.to_vec() });
        self.known.insert(key, number);
        Some(number)
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.states.clear();
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.states.len() > PREFIXES_MAX / 2
    }
}
