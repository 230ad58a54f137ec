//! A run of bytes that is searched for, compared with literals and with what is known about the values of variables.

use quarry_event::template::{ByteSet, TemplatePart};

use super::super::edges::Edges;

/// A run of bytes without wildcards.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub needle: Box<[u8]>,
    /// Whether ASCII letters match in either case.
    pub fold: bool,
}

impl Run {
    pub(super) fn matches_byte(&self, mine: u8, byte: u8) -> bool {
        mine == byte || (self.fold && mine.eq_ignore_ascii_case(&byte))
    }

    pub(super) fn matches_set(&self, mine: u8, set: ByteSet) -> bool {
        set.contains(mine)
            || (self.fold && (set.contains(mine.to_ascii_lowercase()) || set.contains(mine.to_ascii_uppercase())))
    }

    /// Whether a piece of the run matches this text.
    pub(super) fn equals(&self, mine: &[u8], text: &[u8]) -> bool {
        if self.fold { mine.eq_ignore_ascii_case(text) } else { mine == text }
    }

    /// A piece of the run as it would be written in a number: in lower case, if letters match in either case.
    pub(super) fn as_number(&self, mine: &[u8]) -> Vec<u8> {
        if self.fold { mine.to_ascii_lowercase() } else { mine.to_vec() }
    }

    /// Whether the text up to part `at` can end with `head`.
    pub(super) fn may_end_with(&self, edges: &Edges<'_>, at: usize, head: &[u8]) -> bool {
        match &edges.parts[at] {
            TemplatePart::Literal(literal) => {
                head.iter().rev().zip(literal.iter().rev()).all(|(mine, byte)| self.matches_byte(*mine, *byte))
            }
            TemplatePart::Variable(column) => {
                let traits = edges.traits(*column);
                let (lasts, _) = edges.bytes_before(at + 1);
                let sure = head.len().min(traits.min_len as usize);
                head.last().is_some_and(|last| self.matches_set(*last, lasts))
                    && head[head.len() - sure..].iter().all(|byte| self.matches_set(*byte, traits.bytes))
            }
        }
    }

    /// Whether the text from part `at` on can begin with `tail`.
    pub(super) fn may_begin_with(&self, edges: &Edges<'_>, at: usize, tail: &[u8]) -> bool {
        match &edges.parts[at] {
            TemplatePart::Literal(literal) => {
                tail.iter().zip(literal.iter()).all(|(mine, byte)| self.matches_byte(*mine, *byte))
            }
            TemplatePart::Variable(column) => {
                let traits = edges.traits(*column);
                let (firsts, _) = edges.bytes_after(at);
                let sure = tail.len().min(traits.min_len as usize);
                tail.first().is_some_and(|first| self.matches_set(*first, firsts))
                    && tail[..sure].iter().all(|byte| self.matches_set(*byte, traits.bytes))
            }
        }
    }
}
