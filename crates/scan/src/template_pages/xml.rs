//! Locations of XML elements and attributes in the texts of a template.
//!
//! The real reader ([`for_each_node`]) runs on one text of the template, with a placeholder in each variable. That text
//! represents all events of the template if every variable keeps its role in the markup: in the content of an element,
//! its values contain no `<`; in an attribute, they contain no quote that ends the attribute. If this cannot be proven,
//! the texts of the template are read. An element's value is its content as written if the content has no entities and
//! no blanks at its ends, and otherwise is computed from the content ([`Decoding`]).
//!
//! Not here: elements whose number or order differs between events, which are in different templates; `xpath`.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::functions::xml::{XmlNode, XmlPath, for_each_node};
use quarry_event::template::{ByteSet, ColumnKind, Dictionary, Template, TemplatePart, TemplateSet};
use quarry_pipeline::extract::clean_key;

use super::fields::Sample;
use super::json::max_length;
use super::value_location::{Decoding, ValueLocation, WrittenParts};
use crate::spath::SPATH_BYTES_MAX;

/// Maximum number of dictionary entries checked one by one.
const CHECKED_VALUES_MAX: u32 = 65_536;
/// First bytes of the blanks that are trimmed from values: ASCII blanks and others (`U+0085`, `U+00A0`, `U+1680`,
/// `U+2000` to `U+3000`).
const FIRSTS_OF_BLANKS: ByteSet = ByteSet::of(b" \t\n\x0b\x0c\r\xc2\xe1\xe2\xe3");

/// Facts about the columns of a slab.
pub(super) struct XmlColumns<'a> {
    template_set: &'a TemplateSet,
    dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    /// By column: whether decoding content leaves the column's values unchanged.
    plain: RefCell<HashMap<u32, bool, FixedState>>,
}

/// Position in the markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Markup {
    Content,
    /// In a tag, outside quotes.
    Tag,
    /// In a quoted value that this byte ends.
    Quoted(u8),
    Comment,
    CData,
    /// In a processing instruction.
    Instruction,
}

impl<'a> XmlColumns<'a> {
    /// An empty cache of facts about the columns of `template_set`; `dictionary` reads their dictionaries.
    pub(super) fn new(
        template_set: &'a TemplateSet,
        dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    ) -> XmlColumns<'a> {
        XmlColumns { template_set, dictionary, plain: RefCell::default() }
    }

    /// The locations of the fields `names` that `KV_MODE=xml` extracts from the texts of a template.
    pub(super) fn locations(&self, template: &Template, names: &[String]) -> Vec<ValueLocation> {
        let find = |sample: &Sample<'_>| {
            let mut found = vec![ValueLocation::Absent; names.len()];
            for_each_node(&sample.text, false, &mut |node| {
                let Some(name) = node.leaf_name() else { return };
                let name = clean_key(name);
                for (_, place) in names.iter().zip(&mut found).filter(|(known, _)| **known == *name) {
                    self.add_value(node, sample, false, place);
                }
            });
            found
        };
        self.sample(template).as_ref().map_or_else(|| vec![ValueLocation::Text; names.len()], find)
    }

    /// The location of the values that `spath` finds at a path in the texts of a template.
    pub(super) fn path_location(&self, template: &Template, path: &XmlPath) -> ValueLocation {
        let Some(sample) = self.sample(template) else { return ValueLocation::Text };
        let mut place = ValueLocation::Absent;
        for_each_node(&sample.text, path.has_positions(), &mut |node| {
            if path.selects(node) {
                self.add_value(node, &sample, true, &mut place);
            }
        });
        place
    }

    /// The location of the values for which `spath` without a path creates the field `name`.
    pub(super) fn scalar_location(&self, template: &Template, name: &str) -> ValueLocation {
        let is_cut_off = max_length(self.template_set, template) > SPATH_BYTES_MAX as u64;
        let Some(sample) = self.sample(template).filter(|_| !is_cut_off) else { return ValueLocation::Text };
        let (mut place, mut path) = (ValueLocation::Absent, String::new());
        for_each_node(&sample.text, false, &mut |node| {
            if node.is_leaf() {
                node.write_path(&mut path);
                if path == name {
                    self.add_value(node, &sample, false, &mut place);
                }
            }
        });
        place
    }

    /// Adds the value of a node to the values of a field. `keeps_empty`: whether an empty value counts as a value.
    fn add_value(&self, node: &XmlNode<'_, '_>, sample: &Sample<'_>, keeps_empty: bool, place: &mut ValueLocation) {
        let next = match node.is_leaf() {
            true => {
                self.value_location(sample, sample.range_of_value(node.written()), node.is_attribute(), keeps_empty)
            }
            // The value of an element with children is its markup with entities as written, which only the text shows.
            false => ValueLocation::Text,
        };
        let earlier = std::mem::replace(place, ValueLocation::Absent);
        *place = match next {
            ValueLocation::Absent => earlier,
            ValueLocation::Text => ValueLocation::Text,
            next => earlier.followed_by(next),
        };
    }

    fn value_location(
        &self,
        sample: &Sample<'_>,
        range: Range<usize>,
        is_attribute: bool,
        keeps_empty: bool,
    ) -> ValueLocation {
        let parts = sample.parts_of(range);
        let decoding = match is_attribute {
            true => Decoding::XmlAttribute { keeps_empty },
            false => Decoding::XmlContent { keeps_empty },
        };
        let written = WrittenParts { parts: parts.into(), decoding };
        let is_variable = |part: &TemplatePart| matches!(part, TemplatePart::Variable(_));
        if !written.parts.iter().any(is_variable) {
            let text = written.parts.iter().map(|part| match part {
                TemplatePart::Literal(literal) => std::str::from_utf8(literal).ok(),
                TemplatePart::Variable(_) => None,
            });
            let Some(text) = text.collect::<Option<String>>() else { return ValueLocation::Text };
            return written
                .value(&text)
                .map_or(ValueLocation::Absent, |value| ValueLocation::Constant((*value).into()));
        }
        match self.is_value(&written) {
            true => ValueLocation::of_parts(&written.parts),
            false => ValueLocation::Written(written),
        }
    }

    /// Whether the parts as written are the value.
    fn is_value(&self, written: &WrittenParts) -> bool {
        let is_content = matches!(written.decoding, Decoding::XmlContent { .. });
        let may_be_empty = |column: &u32| {
            self.template_set.columns.get(*column as usize).is_none_or(|column| column.traits.min_len == 0)
        };
        let last = written.parts.len().saturating_sub(1);
        written.parts.iter().enumerate().all(|(at, part)| match part {
            TemplatePart::Literal(literal) => {
                let Ok(text) = std::str::from_utf8(literal) else { return false };
                let is_trimmed = (at > 0 || text.trim_start().len() == text.len())
                    && (at < last || text.trim_end().len() == text.len());
                !text.contains(['&', '<']) && (!is_content || is_trimmed)
            }
            TemplatePart::Variable(column) => {
                let is_outer = is_content && (at == 0 || at == last);
                let changes_by_being_empty = match last {
                    0 => !written.decoding.keeps_empty(),
                    // The text next to an empty value may have blanks.
                    _ => is_outer,
                };
                (!changes_by_being_empty || !may_be_empty(column)) && self.is_plain(*column, is_outer)
            }
        })
    }

    /// Whether the values of a column have no entities and, if `is_outer`, no blanks at their ends.
    fn is_plain(&self, column: u32, is_outer: bool) -> bool {
        let Some(described) = self.template_set.columns.get(column as usize) else { return false };
        let traits = &described.traits;
        let has_blanks = || {
            traits.min_len == 0
                || traits.firsts.intersects(FIRSTS_OF_BLANKS)
                || traits.lasts.iter().any(|byte| byte <= b' ' || byte >= 0x80)
        };
        let may_have_entities = traits.bytes.contains(b'&');
        if !may_have_entities && (!is_outer || !has_blanks()) {
            return true;
        }
        if let Some(known) = self.plain.borrow().get(&column) {
            return *known;
        }
        let is_plain = |value: &[u8]| {
            std::str::from_utf8(value).is_ok_and(|text| !text.contains('&') && text.trim().len() == text.len())
        };
        let found = match described.kind {
            ColumnKind::Dictionary { len } if len <= CHECKED_VALUES_MAX => {
                (self.dictionary)(column).is_some_and(|values| {
                    (0..u32::try_from(values.len()).unwrap_or(0)).all(|code| is_plain(values.get(code)))
                })
            }
            _ => false,
        };
        self.plain.borrow_mut().insert(column, found);
        found
    }

    /// A text that represents all texts of the template; `None` if there is no such text.
    fn sample<'t>(&'t self, template: &'t Template) -> Option<Sample<'t>> {
        let mut lexer = Lexer::default();
        for part in &template.parts {
            match part {
                TemplatePart::Literal(literal) => lexer.push_literal(literal),
                TemplatePart::Variable(column) => {
                    let traits = &self.template_set.columns.get(*column as usize)?.traits;
                    let (bytes, may_be_empty) = lexer.bytes_with_effect()?;
                    if traits.bytes.intersects(bytes) || (traits.min_len == 0 && !may_be_empty) {
                        return None;
                    }
                    lexer.push_variable();
                }
            }
        }
        Sample::new(self.template_set, template)
    }
}

/// Follows the markup of a template.
#[derive(Default)]
struct Lexer {
    /// The literals since the last position at which the state was [`Markup::Content`], with a byte for each variable.
    open: Vec<u8>,
}

impl Lexer {
    fn push_literal(&mut self, literal: &[u8]) {
        self.open.extend_from_slice(literal);
        let closed = self.state().1;
        self.open.drain(..closed);
    }

    fn push_variable(&mut self) {
        if self.state().0 != Markup::Content {
            self.open.push(b'7');
        }
    }

    /// Bytes of a variable at this position that may change the markup, and whether the variable may be empty, which
    /// joins the literals around it; `None` if every value may change the markup.
    fn bytes_with_effect(&self) -> Option<(ByteSet, bool)> {
        match self.state().0 {
            Markup::Content => Some((ByteSet::of(b"<"), true)),
            Markup::Quoted(quote) => Some((ByteSet::of(&[quote]), true)),
            Markup::Tag => None,
            Markup::Comment => Some((ByteSet::of(b"->"), false)),
            Markup::CData => Some((ByteSet::of(b"]>"), false)),
            Markup::Instruction => Some((ByteSet::of(b"?>"), false)),
        }
    }

    /// The position in the markup, and the number of bytes before the tag that is open there.
    fn state(&self) -> (Markup, usize) {
        let mut at = 0;
        loop {
            let Some(start) = memchr::memchr(b'<', &self.open[at..]).map(|found| at + found) else {
                return (Markup::Content, self.open.len());
            };
            let tag = &self.open[start..];
            let special: [(&[u8], &[u8], Markup); 3] = [
                (b"<!--", b"-->", Markup::Comment),
                (b"<![CDATA[", b"]]>", Markup::CData),
                (b"<?", b"?>", Markup::Instruction),
            ];
            let length = match special.iter().find(|(begin, ..)| tag.starts_with(begin)) {
                Some((_, end, state)) => match memchr::memmem::find(tag, end) {
                    Some(found) => found + end.len(),
                    None => return (*state, start),
                },
                None => match tag_end(tag) {
                    Ok(length) => length,
                    Err(state) => return (state, start),
                },
            };
            at = start + length;
        }
    }
}

/// Length of a tag, or the position in the markup at its end if it is still open. Quotes that do not follow an equals
/// sign delimit no value, although they hide the end of the tag.
fn tag_end(tag: &[u8]) -> Result<usize, Markup> {
    let (mut quote, mut are_values) = (None, true);
    for (at, byte) in tag.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Ok(at + 1),
            (None, b'"' | b'\'') => {
                are_values &= tag[..at].trim_ascii_end().last() == Some(&b'=');
                quote = Some(*byte);
            }
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    Err(quote.filter(|_| are_values).map_or(Markup::Tag, Markup::Quoted))
}

#[cfg(test)]
mod tests;
