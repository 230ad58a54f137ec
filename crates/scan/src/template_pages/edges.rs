//! Surroundings of the parts of a template: whether the edges of a part are word boundaries in every event, so that a
//! word can begin or end there.
//!
//! A percent-encoded breaker (`%20`) bounds a word that begins a few bytes after the `%`. Positions shortly after a `%`
//! are therefore not *free*, unless no digit of such a code can follow the `%`.

use quarry_event::template::{ByteSet, TemplatePart, TemplateSet, ValueTraits};
use quarry_stdx::number::u32_of;

/// Maximum length of a percent-encoded breaker.
const PERCENT_BREAKER_BYTES_MAX: u32 = 5;
/// Bytes that can follow the `%` of an encoded breaker.
const PERCENT_SECOND_BYTES: ByteSet = ByteSet::of(b"02357");

/// Surroundings of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EdgeContext {
    /// Whether a match may begin at the start of the value.
    pub left: bool,
    /// Whether a match may end at the end of the value.
    pub right: bool,
    /// Whether no percent-encoded breaker lies in the value or shortly before it.
    pub free: bool,
    /// Whether no percent-encoded breaker lies shortly before the value.
    pub free_before: bool,
}

/// Computes the surroundings of a template's parts.
pub(super) struct Edges<'a> {
    pub template_set: &'a TemplateSet,
    /// The parts of the template.
    pub parts: &'a [TemplatePart],
    /// Surroundings of the text that the template describes.
    pub around: EdgeContext,
    /// For each column, whether no value can contain an encoded breaker.
    pub free: &'a [bool],
}

impl<'a> Edges<'a> {
    pub(super) fn traits(&self, column: u32) -> &'a ValueTraits {
        &self.template_set.columns[column as usize].traits
    }

    /// Possible first and last bytes of a part, and whether the part is never empty.
    pub(super) fn part_bounds(&self, at: usize) -> (ByteSet, ByteSet, bool) {
        match &self.parts[at] {
            TemplatePart::Literal(literal) => match (literal.first(), literal.last()) {
                (Some(first), Some(last)) => (ByteSet::of(&[*first]), ByteSet::of(&[*last]), true),
                _ => (ByteSet::EMPTY, ByteSet::EMPTY, false),
            },
            TemplatePart::Variable(column) => {
                let traits = self.traits(*column);
                (traits.firsts, traits.lasts, traits.min_len > 0)
            }
        }
    }

    /// Possible bytes before part `at`, and whether the part can be at the start of the text.
    pub(super) fn bytes_before(&self, at: usize) -> (ByteSet, bool) {
        let mut set = ByteSet::EMPTY;
        for before in (0..at).rev() {
            let (_, lasts, filled) = self.part_bounds(before);
            set = set.union(lasts);
            if filled {
                return (set, false);
            }
        }
        (set, true)
    }

    /// Possible first bytes of part `at` or, if it may be empty, of the next parts, and whether the text can end
    /// there.
    pub(super) fn bytes_after(&self, at: usize) -> (ByteSet, bool) {
        let mut set = ByteSet::EMPTY;
        for after in at..self.parts.len() {
            let (firsts, _, filled) = self.part_bounds(after);
            set = set.union(firsts);
            if filled {
                return (set, false);
            }
        }
        (set, true)
    }

    /// Whether no percent-encoded breaker lies in part `at` or shortly before it.
    pub(super) fn has_no_encoded_breaker(&self, at: usize) -> bool {
        self.part_has_no_encoded_breaker(at) && self.has_no_encoded_breaker_before(at)
    }

    /// Whether no percent-encoded breaker lies shortly before part `at`.
    pub(super) fn has_no_encoded_breaker_before(&self, at: usize) -> bool {
        let mut length = 0;
        for before in (0..at).rev() {
            if !self.part_has_no_encoded_breaker(before) {
                return false;
            }
            length += match &self.parts[before] {
                TemplatePart::Literal(literal) => u32_of(literal.len()),
                TemplatePart::Variable(column) => self.traits(*column).min_len,
            };
            if length >= PERCENT_BREAKER_BYTES_MAX {
                return true;
            }
        }
        self.around.free_before
    }

    /// Whether no `%` of a part begins an encoded breaker. If the template describes the values of a column of another
    /// template, a `%` at the end of such a value is checked with the outer template.
    pub(super) fn part_has_no_encoded_breaker(&self, at: usize) -> bool {
        let ends_free = || !self.bytes_after(at + 1).0.intersects(PERCENT_SECOND_BYTES);
        match &self.parts[at] {
            TemplatePart::Literal(literal) => memchr::memchr_iter(b'%', literal).all(|place| {
                literal.get(place + 1).map_or_else(ends_free, |next| !PERCENT_SECOND_BYTES.contains(*next))
            }),
            TemplatePart::Variable(column) => {
                self.free[*column as usize] && (!self.traits(*column).lasts.contains(b'%') || ends_free())
            }
        }
    }
}
