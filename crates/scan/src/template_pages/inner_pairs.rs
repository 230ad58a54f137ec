//! `key=value` pairs that are extracted from pieces of a text instead of the whole text, such as the query string of a
//! quoted request.
//!
//! A piece is the value of a variable or a segment of the template ([`super::segments`]). Extraction
//! ([`quarry_pipeline::extract::auto_kv`]) from a piece alone finds exactly those pairs of the whole text that lie in
//! the piece if two conditions hold: each side of the piece is an end of the text or next to a byte that ends unquoted
//! values, and no quoted value can be open before the piece.
//!
//! Not here: which variables may contain a key ([`super::key_end`]); keys in literals ([`super::fields`]).

use memchr::memmem::Finder;
use quarry_event::template::{Template, TemplatePart, TemplateSet, ValueTraits};
use quarry_pipeline::extract::key_value::{KEY_BYTES_MAX, certain_value};
use quarry_pipeline::extract::{auto_kv, clean_key, extracted_name};

use super::fields::{VALUE_ENDS, is_key_byte};

/// The first pair with a given name in some pieces of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InnerPair {
    name: Box<str>,
    /// Whether a key spelled exactly like the name may begin a pair and produces a field of this name.
    is_key: bool,
    /// The parts of all pieces, in the order of the text.
    parts: Box<[TemplatePart]>,
    /// End of each piece in `parts`.
    ends: Box<[usize]>,
}

impl InnerPair {
    /// The first pair with this name in `pieces`, which are in the order of the text.
    pub(super) fn new(name: &str, pieces: impl IntoIterator<Item = Box<[TemplatePart]>>) -> InnerPair {
        let (mut parts, mut ends) = (Vec::new(), Vec::new());
        for piece in pieces {
            parts.extend(piece);
            ends.push(parts.len());
        }
        let is_key =
            name.starts_with(|first: char| first.is_ascii_alphabetic()) && *extracted_name(&clean_key(name)) == *name;
        InnerPair { name: name.into(), is_key, parts: parts.into(), ends: ends.into() }
    }

    /// A pair that can only be in the values of these columns; `None` if the text around the values may affect the
    /// pair.
    pub(super) fn location(
        name: &str,
        columns: &[u32],
        template_set: &TemplateSet,
        template: &Template,
    ) -> Option<InnerPair> {
        let mut variables = Vec::with_capacity(columns.len());
        let mut before = TextState::default();
        for (at, part) in template.parts.iter().enumerate() {
            if variables.len() == columns.len() {
                break;
            }
            let traits = match part {
                TemplatePart::Literal(literal) => {
                    before.skip_literal(literal)?;
                    continue;
                }
                TemplatePart::Variable(column) => &template_set.columns.get(*column as usize)?.traits,
            };
            if matches!(part, TemplatePart::Variable(column) if columns.contains(column)) {
                let after = match template.parts.get(at + 1) {
                    Some(TemplatePart::Literal(literal)) => literal.first().copied(),
                    Some(TemplatePart::Variable(_)) => return None,
                    None => None,
                };
                if !before.ends_values() || !contains_whole_pairs(traits, after) {
                    return None;
                }
                variables.push(Box::from([part.clone()]));
            }
            before.skip_values(traits)?;
        }
        let is_whole = variables.len() == columns.len();
        is_whole.then(|| InnerPair::new(name, variables))
    }

    /// The parts of all pieces, in the order of the text.
    pub(super) fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// The parts of each piece, in the order of the text.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[TemplatePart]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.parts[start..*end])
    }

    /// The columns of the pieces if each piece is a single variable.
    pub(super) fn columns(&self) -> Option<Box<[u32]>> {
        let column = |piece: &[TemplatePart]| match piece {
            [TemplatePart::Variable(column)] => Some(*column),
            _ => None,
        };
        self.pieces().map(column).collect()
    }

    /// Value of the pair in `text`, the text of one piece; `None` if the piece has no such pair. A text that does not
    /// contain the bytes of `key_end` is not examined.
    pub(super) fn value_in<'t>(&self, text: &'t [u8], key_end: &Finder<'_>) -> Option<&'t str> {
        let value = self.value_after(text, key_end.find(text)? + key_end.needle().len() - 1)?;
        std::str::from_utf8(value).ok()
    }

    /// Like [`InnerPair::value_in`], for a text whose first occurrence of the key end has its equals sign at `equals`.
    /// Whether the value is UTF-8 is not checked.
    pub(super) fn value_after<'t>(&self, text: &'t [u8], equals: usize) -> Option<&'t [u8]> {
        let is_name = |key: &str| *extracted_name(&clean_key(key)) == *self.name;
        // If the name ends at the equals sign, no earlier pair has this name, because its key would contain the key
        // end.
        if self.is_key
            && text[..equals].ends_with(self.name.as_bytes())
            && let Some(value) = certain_value(text, equals - self.name.len(), equals)
        {
            return Some(value);
        }
        let mut found = None;
        auto_kv(std::str::from_utf8(text).ok()?, &mut |key, value| {
            if found.is_none() && is_name(key) {
                found = Some(value.as_bytes());
            }
        });
        found
    }
}

/// Whether pairs that begin in values with these traits also end in these values if the byte `after` follows.
fn contains_whole_pairs(traits: &ValueTraits, after: Option<u8>) -> bool {
    let opens_quotes = after == Some(b'"') && traits.lasts.contains(b'=');
    traits.min_len > 0
        && !traits.bytes.contains(b'"')
        && !opens_quotes
        && after.is_none_or(|byte| VALUE_ENDS.contains(byte))
}

/// State of the text before a part, as far as it is certain.
#[derive(Default)]
struct TextState {
    /// Whether a quoted value is open.
    in_quotes: bool,
    /// Whether the text may contain an equals sign.
    has_equals: bool,
    /// Whether the text may end with an equals sign.
    ends_with_equals: bool,
    /// The last byte; `None` at the start of the text and after a variable.
    last: Option<u8>,
    /// Whether a byte or a variable came before.
    is_filled: bool,
}

impl TextState {
    /// Whether certainly no value continues here, and the key of the next pair begins at the next byte or later.
    fn ends_values(&self) -> bool {
        let is_bounded = match self.last {
            Some(byte) => VALUE_ENDS.contains(byte) || (!self.has_equals && !is_key_byte(byte)),
            None => !self.is_filled,
        };
        !self.in_quotes && is_bounded
    }

    /// Continues after a variable; `None` if one of its values may open or close a quoted value.
    fn skip_values(&mut self, traits: &ValueTraits) -> Option<()> {
        let has = |byte: u8| traits.bytes.contains(byte);
        let may_open = has(b'"') && (has(b'=') || self.ends_with_equals);
        if if self.in_quotes { has(b'"') } else { may_open } {
            return None;
        }
        self.has_equals |= has(b'=');
        self.ends_with_equals = traits.lasts.contains(b'=') || (traits.min_len == 0 && self.ends_with_equals);
        (self.last, self.is_filled) = (None, true);
        Some(())
    }

    fn skip_literal(&mut self, literal: &[u8]) -> Option<()> {
        for (at, byte) in literal.iter().enumerate() {
            match byte {
                b'"' if self.in_quotes => self.in_quotes = false,
                b'"' if self.ends_with_equals => {
                    if !opens_value(literal, at) {
                        return None;
                    }
                    self.in_quotes = true;
                }
                _ => {}
            }
            self.ends_with_equals = *byte == b'=' && !self.in_quotes;
            self.has_equals |= *byte == b'=';
            (self.last, self.is_filled) = (Some(*byte), true);
        }
        Some(())
    }
}

/// Whether the quote at this position of a literal, after an equals sign, certainly opens a quoted value: a key that
/// begins with a letter precedes the sign, and a separator precedes the key.
pub(super) fn opens_value(literal: &[u8], quote: usize) -> bool {
    let Some(key) = literal.get(..quote).and_then(|before| before.strip_suffix(b"=")) else { return false };
    let length = key.iter().rev().take_while(|byte| is_key_byte(**byte)).count();
    let (before, key) = key.split_at(key.len() - length);
    let is_key = key.first().is_some_and(u8::is_ascii_alphabetic) && length <= KEY_BYTES_MAX;
    is_key && before.last().is_some_and(|byte| VALUE_ENDS.contains(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_event::template::{Column, ColumnKind};

    use super::*;
    use crate::template_pages::key_end::KeyEnd;

    const LITERALS: &[&str] =
        &[" ", "\"", " msg=\"", "\" ", "=", " a=", "= \"", " q=\"x y\" ", "[", ": ", "x=(", "ref", "&", ";k==\"", "_="];
    const VALUES: &[&str] = &[
        "7",
        "/p?ref=1&q=2",
        "ref=",
        "a b",
        "x=\"",
        "\"y\"",
        "ref=a ref=b",
        "=",
        "",
        "k=v;ref=z",
        "ref=\"q",
        "a_ref=5&ref=6",
        "xa_ref=7 a-ref=8",
        "?ref=9&a_ref=0",
    ];

    proptest! {
        /// A pair found in the values of variables equals the pair that extraction finds in the text, whatever
        /// surrounds the variables.
        #[test]
        fn pairs_in_values_equal_the_pairs_of_the_text(
            parts in prop::collection::vec(prop_oneof![
                prop::sample::select(LITERALS).prop_map(|text| (text.to_owned(), Vec::new())),
                prop::collection::vec(prop::sample::select(VALUES), 1..3)
                    .prop_map(|values| (String::new(), values.into_iter().map(str::to_owned).collect())),
            ], 1..8),
            row in any::<prop::sample::Index>(),
            name in prop::sample::select(&["ref", "a_ref"][..]),
        ) {
            let (mut template_set, mut template) = (TemplateSet::default(), Template::default());
            let column = |traits| Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 };
            template_set.columns.push(column(ValueTraits::default()));
            let mut values = vec![String::new()];
            for (literal, of_variable) in &parts {
                if of_variable.is_empty() {
                    match template.parts.last_mut() {
                        Some(TemplatePart::Literal(last)) => *last = [last, literal.as_bytes()].concat().into(),
                        _ => template.parts.push(TemplatePart::Literal(literal.as_bytes().into())),
                    }
                    continue;
                }
                let mut traits = ValueTraits::default();
                of_variable.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
                template.parts.push(TemplatePart::Variable(u32::try_from(values.len()).unwrap()));
                template_set.columns.push(column(traits));
                values.push(row.get(of_variable).clone());
            }
            let Some(columns) = KeyEnd::of(name).columns(&template_set, &template) else { return Ok(()) };
            let Some(pair) = InnerPair::location(name, &columns, &template_set, &template) else { return Ok(()) };
            let value_of = |part: &TemplatePart| match part {
                TemplatePart::Literal(literal) => String::from_utf8(literal.to_vec()).unwrap(),
                TemplatePart::Variable(column) => values[*column as usize].clone(),
            };
            let text: String = template.parts.iter().map(value_of).collect();
            let mut expected = None;
            auto_kv(&text, &mut |key, value| {
                if expected.is_none() && clean_key(key) == name {
                    expected = Some(value.to_owned());
                }
            });
            let key_end = KeyEnd::of(name);
            let finder = key_end.finder();
            let of_variables: Vec<String> = pair.parts().iter().map(value_of).collect();
            let found = of_variables.iter().find_map(|value| pair.value_in(value.as_bytes(), &finder));
            prop_assert_eq!(found, expected.as_deref(), "{}", text);
            let ends: Vec<u32> = of_variables.iter().scan(0, |end, value| {
                *end += value.len() as u32;
                Some(*end)
            }).collect();
            let matches = key_end.first_matches(of_variables.concat().as_bytes(), &ends);
            let placed = matches.into_iter().find_map(|(at, start)| {
                pair.value_after(of_variables[at].as_bytes(), start + finder.needle().len() - 1)
            });
            prop_assert_eq!(placed, found.map(str::as_bytes), "{}", text);
        }
    }
}
