//! Segments of a template's text: extracted one by one, they have the same `key=value` pairs as the whole text.
//!
//! A separator that ends every unquoted value, such as a blank, cannot be part of a key either. Extraction can
//! therefore start anew after each separator, unless a quoted value is open there. A segment is the text between two
//! such separators, or an optional pair, which begins with a blank ([`super::optional_pairs`]). If the effect of a
//! value on the extraction cannot be foreseen, for instance because it may begin with a quote, only its own segment is
//! uncertain. The locations of fields in other segments are certain, and fields of the uncertain segment are extracted
//! from the text of that segment instead of the whole text.
//!
//! If a variable in front of a key ends with a separator in some rows only, the location of the field holds in these
//! rows, and the other rows are ambiguous ([`mod@super::ambiguous_rows`]).
//!
//! Not here: the proof for one text ([`super::fields`]); pairs inside single variables ([`super::inner_pairs`]); values
//! with escapes in quotes (`KV_MODE = auto_escaped`).

use std::collections::BTreeSet;

use quarry_event::template::{Column, ColumnKind, Template, TemplatePart, TemplateSet, ValueTraits};

use super::ambiguous_columns::{AmbiguousColumn, SEPARATORS, keys_in_columns};
use super::fields::{FieldLocation, Sample, VALUE_ENDS};
use super::inner_pairs::{InnerPair, opens_value};
use super::key_end::KeyEnd;
use super::optional_pairs;
use super::value_location::ValueLocation;

/// The segments of a template that may contain an equals sign, in order.
pub(super) struct Segments<'a> {
    template_set: &'a TemplateSet,
    template: &'a Template,
    segments: Vec<Template>,
    /// Whether a segment may be divided further by assuming that values end with a separator. Its parts are not divided
    /// again, so that the recursion ends.
    may_assume: bool,
}

/// A segment that may contain a pair with a given name.
struct Candidate<'a> {
    segment: &'a Template,
    /// Columns whose values may contain the key; `None` if the key may be outside columns.
    columns: Option<Box<[u32]>>,
    /// The location of the value, if it is certain in all rows that are not ambiguous.
    place: Option<ValueLocation>,
    /// Columns with values that make `place` uncertain in their rows.
    ambiguous_columns: Box<[AmbiguousColumn]>,
}

impl Candidate<'_> {
    /// Whether every text of the segment has the pair.
    fn is_always_present(&self) -> bool {
        let place = self.place.as_ref().filter(|_| self.ambiguous_columns.is_empty());
        place.is_some_and(|place| {
            matches!(place, ValueLocation::Variable(_) | ValueLocation::Constant(_) | ValueLocation::Composite(_))
        })
    }
}

impl<'a> Segments<'a> {
    pub(super) fn new(template_set: &'a TemplateSet, template: &'a Template) -> Segments<'a> {
        Segments { template_set, template, segments: Splitter::new(template_set).split(template), may_assume: true }
    }

    /// The location of the first pair with this name.
    pub(super) fn location(&self, name: &str) -> FieldLocation {
        let candidates = self.candidates(name);
        let is_present = |place: &&ValueLocation| **place != ValueLocation::Absent;
        let mut certain = candidates.iter().filter_map(|candidate| candidate.place.as_ref()).filter(is_present);
        // If the location of the pair in one segment is certain, and in other segments only values can contain the
        // pair, only the texts of rows with such values must be read.
        let elsewhere = candidates.iter().filter(|candidate| candidate.place.is_none());
        let elsewhere = elsewhere.map(|candidate| candidate.columns.as_deref()).collect::<Option<Vec<_>>>();
        let doubts = candidates.iter().map(|candidate| &*candidate.ambiguous_columns).collect::<Vec<_>>().concat();
        match (certain.next(), certain.next(), elsewhere.map(|columns| columns.concat())) {
            (None, None, Some(columns)) if columns.is_empty() => {
                return FieldLocation { place: ValueLocation::Absent, ambiguous_columns: doubts.into() };
            }
            (Some(place), None, Some(columns)) => {
                let ambiguous_columns = [&*keys_in_columns(&columns), &doubts].concat().into();
                return FieldLocation { place: place.clone(), ambiguous_columns };
            }
            _ => {}
        }
        let (pair, is_inside_variables) = self.pair(name, &candidates);
        let columns = candidates.iter().map(|candidate| candidate.columns.as_deref()).collect::<Option<Vec<_>>>();
        match columns {
            _ if is_inside_variables => ValueLocation::Pair(pair).into(),
            _ if self.byte_limit(pair.parts()) * 2 <= self.byte_limit(&self.template.parts) => {
                ValueLocation::Pair(pair).into()
            }
            // The pieces to be read make up most of the text, so reading the whole text costs no more.
            Some(columns) if candidates.iter().all(|candidate| candidate.place.is_none()) => {
                FieldLocation { place: ValueLocation::Absent, ambiguous_columns: keys_in_columns(&columns.concat()) }
            }
            _ => ValueLocation::Text.into(),
        }
    }

    /// The names of all pairs; `None` if values may add names. At most `left` templates of values are examined.
    pub(super) fn names(&self, left: &mut usize) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for segment in &self.segments {
            let found = Sample::of_pairs(self.template_set, segment).and_then(|sample| sample.pair_names(false));
            names.extend(match found {
                Some(found) => found,
                None => self.names_by_inner_template(segment, left)?,
            });
        }
        Some(names)
    }

    /// The names of all pairs of a segment, with each template of the values of one variable in place of the variable.
    /// The recursion ends, because each template counts towards `left`.
    fn names_by_inner_template(&self, segment: &Template, left: &mut usize) -> Option<BTreeSet<String>> {
        let (at, inner) = segment.parts.iter().enumerate().find_map(|(at, part)| {
            let TemplatePart::Variable(column) = part else { return None };
            let Column { kind, traits, .. } = self.template_set.columns.get(*column as usize)?;
            match kind {
                ColumnKind::Templates(inner) if traits.bytes.contains(b'=') => Some((at, inner)),
                _ => None,
            }
        })?;
        let mut names = BTreeSet::new();
        for template in inner.iter() {
            *left = left.checked_sub(1)?;
            let mut filled = Template::default();
            for part in segment.parts[..at].iter().chain(&template.parts).chain(&segment.parts[at + 1..]) {
                match (filled.parts.last_mut(), part) {
                    (Some(TemplatePart::Literal(last)), TemplatePart::Literal(next)) => {
                        *last = [&**last, &**next].concat().into();
                    }
                    _ => filled.parts.push(part.clone()),
                }
            }
            names.extend(Segments::new(self.template_set, &filled).names(left)?);
        }
        Some(names)
    }

    /// Upper bound for the bytes of these parts.
    fn byte_limit(&self, parts: &[TemplatePart]) -> u64 {
        let bytes = |part: &TemplatePart| match part {
            TemplatePart::Literal(literal) => literal.len() as u64,
            TemplatePart::Variable(column) => {
                self.template_set.columns.get(*column as usize).map_or(0, |column| u64::from(column.traits.max_len))
            }
        };
        parts.iter().map(bytes).sum()
    }

    /// The segments that may contain the pair, up to the first segment that always contains it.
    fn candidates(&self, name: &str) -> Vec<Candidate<'_>> {
        let (key_end, names) = (KeyEnd::of(name), [name.to_owned()]);
        let mut candidates = Vec::new();
        for segment in &self.segments {
            let columns = self.key_columns(&key_end, segment);
            if columns.as_ref().is_some_and(|columns| columns.is_empty()) {
                continue;
            }
            let sample = Sample::of_pairs(self.template_set, segment);
            let places = sample.and_then(|sample| sample.pairs(&names, false));
            let place = places.and_then(|places| places.into_iter().next());
            let (place, ambiguous_columns) = match place {
                Some(ValueLocation::Absent) => continue,
                None | Some(ValueLocation::Text) if columns.is_none() && self.may_assume => {
                    self.location_if_separated(segment, name)
                }
                None | Some(ValueLocation::Text) => (None, Box::default()),
                place => (place, Box::default()),
            };
            candidates.push(Candidate { segment, columns, place, ambiguous_columns });
            if candidates.last().is_some_and(Candidate::is_always_present) {
                break;
            }
        }
        candidates
    }

    /// The location of a pair in a segment, assuming that each variable that can end with a separator does, and the
    /// columns with values that may violate the assumption; no location if the assumption does not suffice.
    fn location_if_separated(&self, segment: &Template, name: &str) -> (Option<ValueLocation>, Box<[AmbiguousColumn]>) {
        let mut splitter = Splitter { assumed: Some(Vec::new()), ..Splitter::new(self.template_set) };
        splitter.add_parts(segment);
        splitter.end_segment();
        let (segments, assumed) = (splitter.segments, splitter.assumed.unwrap_or_default());
        if assumed.is_empty() {
            return (None, Box::default());
        }
        let inside = Segments { template_set: self.template_set, template: segment, segments, may_assume: false };
        let FieldLocation { place, ambiguous_columns } = inside.location(name);
        match place {
            ValueLocation::Pair(_) | ValueLocation::Text => (None, Box::default()),
            place => {
                let assumed: Vec<_> = assumed.into_iter().map(AmbiguousColumn::Unseparated).collect();
                (Some(place), [&*assumed, &*ambiguous_columns].concat().into())
            }
        }
    }

    /// Columns whose values may contain the key in a segment; `None` if the key may be elsewhere.
    fn key_columns(&self, key_end: &KeyEnd, segment: &Template) -> Option<Box<[u32]>> {
        if let [TemplatePart::Variable(column)] = segment.parts.as_slice()
            && let Some(forms) = optional_pairs::pair_forms(self.template_set, *column)
        {
            let columns = forms.map(|form| key_end.columns(self.template_set, form)).collect::<Option<Vec<_>>>()?;
            return Some(columns.concat().into());
        }
        key_end.columns(self.template_set, segment)
    }

    /// The pair in the pieces of the candidates, and whether all pieces are inside single variables. A piece is the
    /// whole segment if the values of single variables do not suffice.
    fn pair(&self, name: &str, candidates: &[Candidate<'_>]) -> (InnerPair, bool) {
        let mut is_inside_variables = true;
        let pieces = candidates.iter().flat_map(|candidate| -> Vec<Box<[TemplatePart]>> {
            let columns = candidate.columns.as_deref();
            let pair =
                columns.and_then(|columns| InnerPair::location(name, columns, self.template_set, candidate.segment));
            match pair {
                Some(pair) => pair.pieces().map(Box::from).collect(),
                None => {
                    is_inside_variables = false;
                    vec![candidate.segment.parts.as_slice().into()]
                }
            }
        });
        (InnerPair::new(name, pieces), is_inside_variables)
    }
}

/// Whether a quoted value is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuotedValue {
    Closed,
    Open,
    Unknown,
}

/// Splits a template at separators outside of quoted values.
struct Splitter<'a> {
    template_set: &'a TemplateSet,
    quoted: QuotedValue,
    /// Whether the text so far may end with an equals sign.
    ends_with_equals: bool,
    /// The current segment.
    parts: Vec<TemplatePart>,
    /// Whether the current segment may contain an equals sign.
    has_equals: bool,
    segments: Vec<Template>,
    /// Columns whose values are assumed to end with a separator although some do not. `None`: nothing is assumed.
    assumed: Option<Vec<u32>>,
}

impl<'a> Splitter<'a> {
    fn new(template_set: &'a TemplateSet) -> Splitter<'a> {
        Splitter {
            template_set,
            quoted: QuotedValue::Closed,
            ends_with_equals: false,
            parts: Vec::new(),
            has_equals: false,
            segments: Vec::new(),
            assumed: None,
        }
    }

    fn split(mut self, template: &Template) -> Vec<Template> {
        self.add_parts(template);
        self.end_segment();
        self.segments
    }

    fn add_parts(&mut self, template: &Template) {
        for (at, part) in template.parts.iter().enumerate() {
            match part {
                TemplatePart::Literal(literal) => self.add_literal(literal),
                TemplatePart::Variable(column) if self.is_optional_pair(*column, &template.parts[at + 1..]) => {
                    self.end_segment();
                    self.add_variable(*column);
                    self.quoted = QuotedValue::Closed;
                    self.end_segment();
                }
                TemplatePart::Variable(column) => match self.constant_key(*column, template.parts.get(at + 1)) {
                    Some(text) => self.add_literal(&text),
                    None => self.add_variable(*column),
                },
            }
        }
    }

    /// Whether a variable is an optional pair that can be extracted on its own: no quoted value is open before or after
    /// it, and the text after it begins with a separator.
    fn is_optional_pair(&self, column: u32, rest: &[TemplatePart]) -> bool {
        let forms = |column: u32| optional_pairs::pair_forms(self.template_set, column);
        let next = rest.iter().find(|part| match part {
            TemplatePart::Variable(column) => forms(*column).is_none(),
            TemplatePart::Literal(_) => true,
        });
        let is_bounded = match next {
            None => true,
            Some(TemplatePart::Literal(literal)) => {
                literal.first().is_some_and(|byte| VALUE_ENDS.contains(*byte) && *byte != b'"')
            }
            Some(TemplatePart::Variable(_)) => false,
        };
        let is_closed = |form: &Template| {
            let mut splitter = Splitter::new(self.template_set);
            splitter.add_parts(form);
            splitter.quoted == QuotedValue::Closed && !splitter.ends_with_equals
        };
        self.quoted == QuotedValue::Closed && is_bounded && forms(column).is_some_and(|mut forms| forms.all(is_closed))
    }

    /// The text of a variable that is always the same number and belongs to a key, such as `a0` in `a0=7f`.
    fn constant_key(&self, column: u32, next: Option<&TemplatePart>) -> Option<Vec<u8>> {
        let ColumnKind::Numbers { format, min, max } = &self.template_set.columns.get(column as usize)?.kind else {
            return None;
        };
        let is_key = matches!(next, Some(TemplatePart::Literal(literal)) if literal.starts_with(b"="));
        (is_key && min == max).then(|| {
            let mut text = Vec::new();
            format.write(*min, &mut text);
            text
        })
    }

    fn add_literal(&mut self, literal: &[u8]) {
        let mut start = 0;
        for (at, byte) in literal.iter().enumerate() {
            match (byte, self.quoted) {
                (b'"', QuotedValue::Open) => self.quoted = QuotedValue::Closed,
                (b'"', QuotedValue::Closed) if self.ends_with_equals => {
                    let is_open = opens_value(literal, at);
                    self.quoted = if is_open { QuotedValue::Open } else { QuotedValue::Unknown };
                }
                // If a value is open, the quote closes it; otherwise the quote opens no value.
                (b'"', QuotedValue::Unknown) if !self.ends_with_equals => self.quoted = QuotedValue::Closed,
                (byte, QuotedValue::Closed) if VALUE_ENDS.contains(*byte) && *byte != b'"' => {
                    self.push_literal(&literal[start..at]);
                    self.end_segment();
                    start = at + 1;
                }
                _ => {}
            }
            self.ends_with_equals = *byte == b'=';
        }
        self.push_literal(&literal[start..]);
    }

    fn push_literal(&mut self, literal: &[u8]) {
        if literal.is_empty() {
            return;
        }
        self.has_equals |= literal.contains(&b'=');
        match self.parts.last_mut() {
            Some(TemplatePart::Literal(last)) => *last = [last, literal].concat().into(),
            _ => self.parts.push(TemplatePart::Literal(literal.into())),
        }
    }

    fn add_variable(&mut self, column: u32) {
        let unknown = ValueTraits::default();
        let traits = self.template_set.columns.get(column as usize).map_or(&unknown, |column| &column.traits);
        let may_toggle = match self.quoted {
            QuotedValue::Closed => traits.bytes.contains(b'=') || self.ends_with_equals,
            QuotedValue::Open | QuotedValue::Unknown => true,
        };
        if may_toggle && traits.bytes.contains(b'"') {
            self.quoted = QuotedValue::Unknown;
        }
        self.ends_with_equals = traits.lasts.contains(b'=') || (traits.min_len == 0 && self.ends_with_equals);
        self.has_equals |= traits.bytes.contains(b'=');
        self.parts.push(TemplatePart::Variable(column));
        if self.quoted != QuotedValue::Closed {
            return;
        }
        if traits.min_len > 0 && traits.lasts.is_subset(SEPARATORS) {
            self.end_segment();
        } else if let Some(assumed) = &mut self.assumed
            && traits.lasts.intersects(SEPARATORS)
            && self.template_set.columns.get(column as usize).is_some_and(has_codes)
        {
            assumed.push(column);
            self.ends_with_equals = false;
            self.end_segment();
        }
    }

    fn end_segment(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if std::mem::take(&mut self.has_equals) && !parts.is_empty() {
            self.segments.push(Template { parts });
        }
    }
}

/// Whether the codes of a column identify the rows whose values do not end with a separator.
fn has_codes(column: &Column) -> bool {
    matches!(column.kind, ColumnKind::Dictionary { .. } | ColumnKind::Templates(_))
}
