//! The end of a key: bytes that a text must contain if automatic extraction finds the key in it.
//!
//! If values outside of pairs contain equals signs, as query strings do, the templates do not show which keys their
//! texts have. But a key is followed directly by its equals sign, so a text that does not contain the end of the
//! field's name followed by that sign cannot have the key. The location of the field is therefore uncertain only in
//! rows with a value that contains these bytes, and only the texts of these rows must be read.
//!
//! Not here: keys in a template's literals ([`super::fields`]); the uncertain rows ([`mod@super::ambiguous_rows`]).

use memchr::memmem;
use quarry_event::template::{ByteSet, Template, TemplatePart, TemplateSet, ValueTraits};

/// Bytes that a text must contain to have a certain field as `key=value`: the part of the field's name after its last
/// underscore, and the equals sign. Earlier parts of the name may be missing from the text, because
/// [`quarry_pipeline::extract::clean_key`] inserts underscores and [`quarry_pipeline::extract::extracted_name`] adds a
/// prefix that ends with an underscore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyEnd(Box<[u8]>);

impl KeyEnd {
    pub(super) fn of(name: &str) -> KeyEnd {
        let end = name.rfind('_').map_or(name, |at| &name[at + 1..]);
        KeyEnd(format!("{end}=").into_bytes().into())
    }

    /// Columns whose values may contain the key end in texts of a template; `None` if other parts of the texts may
    /// contain it.
    pub(super) fn columns(&self, template_set: &TemplateSet, template: &Template) -> Option<Box<[u32]>> {
        let mut columns = Vec::new();
        for (at, part) in template.parts.iter().enumerate() {
            let column = match part {
                TemplatePart::Literal(literal) => {
                    let (before, after) = (
                        self.variable(template_set, template, at.wrapping_sub(1)),
                        self.variable(template_set, template, at + 1),
                    );
                    if self.may_overlap(literal, before, after) {
                        return None;
                    }
                    continue;
                }
                TemplatePart::Variable(column) => *column,
            };
            let traits = &template_set.columns.get(column as usize)?.traits;
            let is_variable = |at: usize| matches!(template.parts.get(at), Some(TemplatePart::Variable(_)));
            let is_apart = !is_variable(at.wrapping_sub(1)) && !is_variable(at + 1);
            // A key end within adjacent values has its equals sign in one of them.
            if traits.min_len == 0 || (!is_apart && traits.bytes.contains(b'=')) {
                return None;
            }
            if traits.max_len as usize >= self.0.len() && ByteSet::of(&self.0).is_subset(traits.bytes) {
                columns.push(column);
            }
        }
        Some(columns.into())
    }

    fn variable<'s>(&self, template_set: &'s TemplateSet, template: &Template, at: usize) -> Option<&'s ValueTraits> {
        match template.parts.get(at) {
            Some(TemplatePart::Variable(column)) => {
                template_set.columns.get(*column as usize).map(|column| &column.traits)
            }
            _ => None,
        }
    }

    /// Whether the key end may overlap a literal, possibly extending into the variables around the literal.
    fn may_overlap(&self, literal: &[u8], before: Option<&ValueTraits>, after: Option<&ValueTraits>) -> bool {
        let end = &self.0;
        // Whether a value before the literal may end with the first `at` bytes of the key end.
        let begins_before = |at: usize| before.is_some_and(|traits| traits.lasts.contains(end[at - 1]));
        let goes_on_after = |at: usize| after.is_some_and(|traits| traits.firsts.contains(end[at]));
        memmem::find(literal, end).is_some()
            || (1..end.len()).any(|at| begins_before(at) && literal.starts_with(&end[at..]))
            || (1..end.len()).any(|at| goes_on_after(at) && literal.ends_with(&end[..at]))
            || (1..end.len()).any(|at| {
                let to = at + literal.len();
                to < end.len() && end[at..to] == *literal && begins_before(at) && goes_on_after(to)
            })
    }

    /// A finder for the key end.
    pub(super) fn finder(&self) -> memmem::Finder<'_> {
        memmem::Finder::new(&self.0)
    }

    /// For each dictionary entry, whether the entry contains the key end.
    pub(super) fn matches_in_texts<'t>(&self, texts: impl Iterator<Item = &'t [u8]>) -> Vec<bool> {
        let finder = self.finder();
        texts.map(|text| finder.find(text).is_some()).collect()
    }

    /// Indices of the concatenated texts that contain the key end.
    pub(super) fn matching_texts(&self, bytes: &[u8], ends: &[u32]) -> Vec<usize> {
        self.first_matches(bytes, ends).into_iter().map(|(text, _)| text).collect()
    }

    /// The concatenated texts that contain the key end, each with the position of its first occurrence in the text. All
    /// texts are searched at once, because the key end is rare; an occurrence that spans two texts does not count.
    pub(super) fn first_matches(&self, bytes: &[u8], ends: &[u32]) -> Vec<(usize, usize)> {
        let finder = self.finder();
        let (mut places, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(found) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + found;
            at += ends[at..].iter().take_while(|end| **end as usize <= start).count();
            let Some(end) = ends.get(at).map(|end| *end as usize) else { break };
            if start + self.0.len() <= end {
                let text_start = at.checked_sub(1).map_or(0, |before| ends[before] as usize);
                places.push((at, start - text_start));
                from = end;
            } else {
                from = start + 1;
            }
        }
        places
    }
}

#[cfg(test)]
mod tests;
