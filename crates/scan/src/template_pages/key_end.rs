//! What a text must hold to have a key of automatic extraction.
//!
//! Where values with equals signs in them stand outside of pairs, as query strings of requests do, no template tells
//! which keys its texts have. Most names come up nowhere all the same: a key stands in the text right before its equals
//! sign, so a text that lacks the end of the name with that sign has no such key, whatever else is in it. So a field is
//! in doubt only in rows of which some value holds these bytes; the text decides about those.
//!
//! Not here: names that a template's literals have as a key ([`super::fields`]), rows ([`super::doubts`]).

use memchr::memmem;
use quarry_event::template::{ByteSet, Template, TemplatePart, TemplateSet, ValueTraits};

/// What a text must hold to have a field of some name by `key=value`: the sign and what of the name is never rewritten
/// ([`quarry_pipeline::extract::clean_key`] and [`quarry_pipeline::extract::beside_own`] only put in underscores).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyEnd(Box<[u8]>);

impl KeyEnd {
    pub(super) fn of(name: &str) -> KeyEnd {
        let end = name.rfind('_').map_or(name, |at| &name[at + 1..]);
        KeyEnd(format!("{end}=").into_bytes().into())
    }

    /// The columns of which a value may hold it in texts of a template; `None` where it may lie elsewhere, too.
    pub(super) fn columns(&self, template_set: &TemplateSet, template: &Template) -> Option<Box<[u32]>> {
        let mut columns = Vec::new();
        for (at, part) in template.parts.iter().enumerate() {
            let column = match part {
                TemplatePart::Literal(literal) => {
                    let (before, after) = (
                        self.variable(template_set, template, at.wrapping_sub(1)),
                        self.variable(template_set, template, at + 1),
                    );
                    if self.may_be_in(literal, before, after) {
                        return None;
                    }
                    continue;
                }
                TemplatePart::Variable(column) => *column,
            };
            let traits = &template_set.columns.get(column as usize)?.traits;
            let is_apart = traits.min_len > 0 && !matches!(template.parts.get(at + 1), Some(TemplatePart::Variable(_)));
            if !is_apart {
                return None;
            }
            if traits.max_len as usize >= self.0.len() && ByteSet::of(&self.0).is_within(traits.bytes) {
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

    /// Whether it may lie in a literal, perhaps with a part in the variables around.
    fn may_be_in(&self, literal: &[u8], before: Option<&ValueTraits>, after: Option<&ValueTraits>) -> bool {
        let end = &self.0;
        // Split in two: what comes first lies before, and its last byte ends a value.
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

    /// Which texts of a dictionary hold it.
    pub(super) fn in_texts<'t>(&self, texts: impl Iterator<Item = &'t [u8]>) -> Vec<bool> {
        let finder = memmem::Finder::new(&self.0);
        texts.map(|text| finder.find(text).is_some()).collect()
    }

    /// Numbers of the texts that hold it, of texts back to back. It is looked for in all of them at once, as it is rare;
    /// a place across two texts is none.
    pub(super) fn places(&self, bytes: &[u8], ends: &[u32]) -> Vec<usize> {
        let finder = memmem::Finder::new(&self.0);
        let (mut places, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(found) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + found;
            at += ends[at..].partition_point(|end| *end as usize <= start);
            let Some(end) = ends.get(at).map(|end| *end as usize) else { break };
            if start + self.0.len() <= end {
                places.push(at);
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
