//! Automatic extraction on templates: each field is mapped to parts of the template, once per template instead of once
//! per event.
//!
//! The real extraction runs on one text of the template, with a placeholder for each variable. The result applies to
//! all events of the template if no value can change where keys and values begin and end; the proof uses the bytes that
//! a column's values contain ([`ValueTraits`]). If the proof fails for the whole text, it is tried for each segment
//! ([`super::segments`]). Templates for which nothing can be proven are extracted from text.
//!
//! Not here: JSON ([`super::json`]); XML ([`super::xml`]); cells of transforms ([`super::cells`]); `EXTRACT` patterns
//! ([`super::extracts`], [`super::groups`]). If a source's patterns cannot be planned, for example because one pattern
//! reads a field that another extracts, all fields of the source are extracted from text
//! (`AutoExtraction::by_pattern`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use quarry_conf::KvMode;
use quarry_event::template::{ByteSet, Template, TemplatePart, TemplateSet, ValueTraits};
use quarry_pipeline::extract::{auto_kv, auto_kv_escaped, clean_key, extracted_name};

use super::ambiguous_columns::{AmbiguousColumn, keys_in_columns};
use super::json::JsonColumns;
use super::key_end::KeyEnd;
use super::optional_pairs;
use super::segments::Segments;
use super::value_location::ValueLocation;
use crate::fields::AutoExtraction;

/// Placeholder for a variable while the extraction runs.
const PLACEHOLDER: u8 = b'7';
/// Placeholder in key-value extraction for a variable whose values never end with a byte that a key may contain: the
/// next key then begins after the placeholder. The placeholder does not end a value either, because the variable may be
/// inside a value.
const KEYLESS_PLACEHOLDER: u8 = b'*';
/// Bytes that end an unquoted value (`quarry_pipeline::extract::auto_kv`).
pub(super) const VALUE_ENDS: ByteSet = ByteSet::of(b" \t\r\n,;|&\"");
/// Bytes that may be stripped from the end of a value (`quarry_pipeline::extract::auto_kv`), and their counterparts.
const BRACKETS: ByteSet = ByteSet::of(b"()[]{}<>'");

/// Location of a field in the texts of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldLocation {
    pub place: ValueLocation,
    /// Columns with values that make the location uncertain in their rows, whose text must therefore be read.
    pub ambiguous_columns: Box<[AmbiguousColumn]>,
}

impl From<ValueLocation> for FieldLocation {
    fn from(place: ValueLocation) -> FieldLocation {
        FieldLocation { place, ambiguous_columns: Box::default() }
    }
}

/// The locations of the fields `names` in the texts of `template`, a template of `template_set`; `json` holds facts
/// about its columns.
pub(super) fn template_locations(
    template_set: &TemplateSet,
    template: &Template,
    automatic: AutoExtraction,
    names: &[String],
    json: &JsonColumns<'_>,
) -> Vec<FieldLocation> {
    if automatic.kv_mode == KvMode::None && !automatic.by_pattern {
        return vec![ValueLocation::Absent.into(); names.len()];
    }
    let sample = if automatic.by_pattern { None } else { Sample::new(template_set, template) };
    let found = sample.as_ref().and_then(|sample| match (automatic.kv_mode, automatic.auto_json) {
        (KvMode::None | KvMode::Xml | KvMode::Multi, _) => None,
        (KvMode::Json, _) => json.locations(template, names),
        (KvMode::AutoEscaped, _) => Sample::of_pairs(template_set, template)?.pairs(names, true),
        (KvMode::Auto, true) if sample.begins_as_object()? => json.locations(template, names),
        (KvMode::Auto, _) => Sample::of_pairs(template_set, template)?.pairs(names, false),
    });
    let is_pairs = match (automatic.kv_mode, automatic.auto_json) {
        (KvMode::AutoEscaped, _) | (KvMode::Auto, false) => true,
        (KvMode::Auto, true) => sample.as_ref().and_then(Sample::begins_as_object) == Some(false),
        _ => false,
    };
    let is_pairs = is_pairs && sample.is_some();
    let is_whole = |found: &Vec<ValueLocation>| !found.contains(&ValueLocation::Text);
    if is_pairs && automatic.kv_mode == KvMode::Auto && !found.as_ref().is_some_and(is_whole) {
        let segments = Segments::new(template_set, template);
        let known = found.unwrap_or_else(|| vec![ValueLocation::Text; names.len()]);
        let located = known.into_iter().zip(names).map(|(place, name)| match place {
            ValueLocation::Text => segments.location(name),
            place => place.into(),
        });
        return located.collect();
    }
    if let Some(found) = found {
        return found.into_iter().map(FieldLocation::from).collect();
    }
    let located = names.iter().map(|name| match KeyEnd::of(name).columns(template_set, template) {
        Some(columns) if is_pairs => {
            FieldLocation { place: ValueLocation::Absent, ambiguous_columns: keys_in_columns(&columns) }
        }
        _ => ValueLocation::Text.into(),
    });
    located.collect()
}

/// The names of all fields that automatic extraction finds in the texts of `template`; `None` if values may add names.
/// At most `left` templates of values are examined.
pub(super) fn template_names(
    template_set: &TemplateSet,
    template: &Template,
    automatic: AutoExtraction,
    json: &JsonColumns<'_>,
    left: &mut usize,
) -> Option<BTreeSet<String>> {
    let pairs = |escaped| Sample::of_pairs(template_set, template)?.pair_names(escaped);
    match (automatic.kv_mode, automatic.auto_json) {
        (KvMode::None, _) => Some(BTreeSet::new()),
        (KvMode::Xml | KvMode::Multi, _) => None,
        (KvMode::Json, _) => json.names(template),
        (KvMode::AutoEscaped, _) => pairs(true),
        (KvMode::Auto, true) if Sample::new(template_set, template)?.begins_as_object()? => json.names(template),
        (KvMode::Auto, _) => pairs(false).or_else(|| Segments::new(template_set, template).names(left)),
    }
}

/// Whether texts of the template may be parsed as JSON, XML or a table, where a field can have several values.
pub(super) fn may_be_json(template_set: &TemplateSet, template: &Template, automatic: AutoExtraction) -> bool {
    match (automatic.kv_mode, automatic.auto_json) {
        (KvMode::Json | KvMode::Xml | KvMode::Multi, _) => true,
        (KvMode::Auto, true) => {
            Sample::new(template_set, template).and_then(|sample| sample.begins_as_object()) != Some(false)
        }
        _ => false,
    }
}

/// A sample text of a template.
pub(super) struct Sample<'a> {
    template_set: &'a TemplateSet,
    template: &'a Template,
    pub(super) text: String,
    /// The range of each part in `text`.
    parts: Vec<Range<usize>>,
    /// Whether the template has a variable that is an optional pair.
    has_optional_pairs: bool,
}

/// A value of a pair, as a range of the sample's text.
struct ValueRegion {
    range: Range<usize>,
    quoted: bool,
    /// Index of the field among the requested fields.
    name: Option<usize>,
}

impl ValueRegion {
    fn of(range: Range<usize>, quoted: bool) -> ValueRegion {
        ValueRegion { range, quoted, name: None }
    }
}

impl<'a> Sample<'a> {
    /// `None` if the template's literals are not valid UTF-8 or a variable has no column.
    pub(super) fn new(template_set: &'a TemplateSet, template: &'a Template) -> Option<Sample<'a>> {
        Sample::with(template_set, template, |_| false, |_| PLACEHOLDER)
    }

    /// Like [`Sample::new`], but for the extraction of key-value pairs: a sample of the pair takes the place of each
    /// variable that is an optional pair.
    pub(super) fn of_pairs(template_set: &'a TemplateSet, template: &'a Template) -> Option<Sample<'a>> {
        let is_optional = |column: u32| optional_pairs::pair_forms(template_set, column).is_some();
        Sample::with(template_set, template, is_optional, pair_placeholder)
    }

    /// A sample of one form of an optional pair.
    fn of_form(template_set: &'a TemplateSet, form: &'a Template) -> Option<Sample<'a>> {
        Sample::with(template_set, form, |_| false, pair_placeholder)
    }

    fn with(
        template_set: &'a TemplateSet,
        template: &'a Template,
        is_optional: impl Fn(u32) -> bool,
        placeholder: impl Fn(&ValueTraits) -> u8,
    ) -> Option<Sample<'a>> {
        let (mut bytes, mut parts) = (Vec::new(), Vec::new());
        let mut has_optional_pairs = false;
        for part in &template.parts {
            let start = bytes.len();
            match part {
                TemplatePart::Literal(literal) => bytes.extend_from_slice(literal),
                TemplatePart::Variable(column) => {
                    let described = template_set.columns.get(*column as usize)?;
                    if is_optional(*column) {
                        has_optional_pairs = true;
                        bytes.extend_from_slice(optional_pairs::pair_placeholder(*column).as_bytes());
                    } else {
                        bytes.push(placeholder(&described.traits));
                    }
                }
            }
            parts.push(start..bytes.len());
        }
        Some(Sample { template_set, template, text: String::from_utf8(bytes).ok()?, parts, has_optional_pairs })
    }

    fn traits(&self, column: u32) -> &'a ValueTraits {
        &self.template_set.columns[column as usize].traits
    }

    /// Variables with the positions of their placeholders.
    fn variables(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.parts.iter().zip(&self.template.parts).filter_map(|(range, part)| match part {
            TemplatePart::Variable(column) => Some((range.start, *column)),
            TemplatePart::Literal(_) => None,
        })
    }

    /// The variable whose placeholder is at this position.
    fn variable_at(&self, at: usize) -> Option<u32> {
        self.variables().find(|(place, _)| *place == at).map(|(_, column)| column)
    }

    /// Whether the first non-blank character is an opening brace; `None` if that depends on values.
    fn begins_as_object(&self) -> Option<bool> {
        match self.template.parts.first()? {
            TemplatePart::Literal(literal) => {
                let text = std::str::from_utf8(literal).ok()?.trim_start();
                // After a blank literal, the answer depends on the next part.
                text.chars().next().map(|first| first == '{')
            }
            TemplatePart::Variable(column) => {
                let traits = self.traits(*column);
                let unclear = traits.min_len == 0
                    || traits.firsts.iter().any(|byte| byte <= b' ' || byte >= 0x80 || byte == b'{' || byte == 0x7f);
                (!unclear).then_some(false)
            }
        }
    }

    /// The parts that make up a range of the text.
    pub(super) fn location(&self, range: Range<usize>) -> ValueLocation {
        let parts = self.parts_of(range.clone());
        match parts.as_slice() {
            [TemplatePart::Variable(column)] => ValueLocation::Variable(*column),
            [] | [TemplatePart::Literal(_)] => ValueLocation::Constant(self.text[range].into()),
            _ => ValueLocation::Composite(parts.into()),
        }
    }

    /// The parts of the template in a range of the sample.
    pub(super) fn parts_of(&self, range: Range<usize>) -> Vec<TemplatePart> {
        let mut parts: Vec<TemplatePart> = Vec::new();
        for (lies, part) in self.parts.iter().zip(&self.template.parts) {
            let (start, end) = (lies.start.max(range.start), lies.end.min(range.end));
            if start < end {
                parts.push(match part {
                    TemplatePart::Variable(column) => TemplatePart::Variable(*column),
                    TemplatePart::Literal(_) => TemplatePart::Literal(self.text.as_bytes()[start..end].into()),
                });
            }
        }
        parts
    }

    /// The range in the sample of a value that extraction found.
    pub(super) fn range_of_value(&self, value: &str) -> Range<usize> {
        let start = value.as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + value.len()
    }

    /// Whether blanks and quotes are trimmed from this range in the same way for all values: the ends do not shift,
    /// and quotes surround either all of the values or none.
    pub(super) fn has_fixed_ends(&self, range: Range<usize>) -> bool {
        let Some(last) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else { return true };
        // Whether the range has a quote at this end; `None` if values of a variable may shift the end.
        let end = |at: usize, ends: fn(&ValueTraits) -> ByteSet| match self.variable_at(at).map(|at| self.traits(at)) {
            None => Some(Quote::of(self.text.as_bytes()[at] == b'"')),
            Some(traits) => {
                let may_be_blank = |byte: u8| byte <= b' ' || byte >= 0x80;
                let is_moved = traits.min_len == 0 || ends(traits).iter().any(may_be_blank);
                let quote = if ends(traits).contains(b'"') { Quote::Perhaps } else { Quote::No };
                (!is_moved).then_some(quote)
            }
        };
        let Some((first, last)) = end(range.start, |traits| traits.firsts).zip(end(last, |traits| traits.lasts)) else {
            return false;
        };
        matches!((first, last), (Quote::No, _) | (_, Quote::No) | (Quote::Yes, Quote::Yes))
    }
}

/// Presence of a quote.
#[derive(Clone, Copy)]
enum Quote {
    No,
    Perhaps,
    Yes,
}

impl Quote {
    fn of(is_there: bool) -> Quote {
        if is_there { Quote::Yes } else { Quote::No }
    }
}

/// `key=value` pairs.
impl Sample<'_> {
    pub(super) fn pairs(&self, names: &[String], escaped: bool) -> Option<Vec<ValueLocation>> {
        let mut found = vec![ValueLocation::Absent; names.len()];
        let (mut regions, mut clear) = (Vec::new(), true);
        let (mut optional, mut outside) = (Vec::new(), Vec::new());
        let mut take = |key: &str, value: &str| {
            if self.has_optional_pairs
                && let Some(column) = optional_pairs::placeholder_column(key)
            {
                optional.push(column);
                // Includes the blank before the pair.
                outside
                    .push(ValueRegion::of(self.range_of_value(key).start - 1..self.range_of_value(value).end, false));
                return;
            }
            let name = clean_key(key);
            let named = names.iter().position(|known| *known == extracted_name(&name));
            if let Some(at) = named
                && found[at] == ValueLocation::Absent
            {
                found[at] = self.location(self.range_of_value(value));
            }
            match self.region(key, value) {
                Some(region) => regions.push(ValueRegion { name: named, ..region }),
                None => clear = false,
            }
        };
        if escaped {
            let mut copied = Vec::new();
            auto_kv_escaped(&self.text, &mut |key, value| match value {
                Cow::Borrowed(value) => take(key, value),
                Cow::Owned(_) => copied.push(key),
            });
            self.add_escaped_values(&copied, names, &mut found, &mut regions)?;
        } else {
            auto_kv(&self.text, &mut take);
        }
        if regions.iter().any(|region| self.contains_optional_pair(region)) {
            return None;
        }
        for region in regions.iter().filter(|region| !self.is_region_fixed(region, escaped)) {
            if escaped || !self.affects_only_its_field(region) {
                return None;
            }
            if let Some(name) = region.name {
                found[name] = ValueLocation::Text;
            }
        }
        regions.extend(outside);
        let is_sure = clear
            && self.variables().all(|(at, column)| {
                regions.iter().any(|region| region.range.contains(&at)) || !self.traits(column).bytes.contains(b'=')
            })
            && self.have_equals_fixed_keys(&regions)
            && self.quotes_stay_open(&regions)
            && (optional.is_empty() || self.end_at_optional_pairs());
        if !is_sure {
            return None;
        }
        for column in optional {
            for (place, inside) in found.iter_mut().zip(self.locations_in_pairs(column, names, escaped)?) {
                *place = std::mem::replace(place, ValueLocation::Absent).or(inside);
            }
        }
        Some(found)
    }

    /// The names of all pairs; `None` if values may add pairs. The proof of [`Sample::pairs`] does not depend on names.
    pub(super) fn pair_names(&self, escaped: bool) -> Option<BTreeSet<String>> {
        self.pairs(&[], escaped)?;
        let (mut names, mut optional) = (BTreeSet::new(), Vec::new());
        let mut take = |key: &str| match optional_pairs::placeholder_column(key).filter(|_| self.has_optional_pairs) {
            Some(column) => optional.push(column),
            None => drop(names.insert(extracted_name(&clean_key(key)).to_owned())),
        };
        match escaped {
            true => auto_kv_escaped(&self.text, &mut |key, _| take(key)),
            false => auto_kv(&self.text, &mut |key, _| take(key)),
        }
        for column in optional {
            for form in optional_pairs::pair_forms(self.template_set, column)? {
                names.extend(Sample::of_form(self.template_set, form)?.pair_names(escaped)?);
            }
        }
        Some(names)
    }

    /// Adds the regions of the keys in `copied`, whose values have escapes. Fields with values that must be unescaped
    /// are read from the text. `None` if a value has no end.
    fn add_escaped_values(
        &self,
        copied: &[&str],
        names: &[String],
        found: &mut [ValueLocation],
        regions: &mut Vec<ValueRegion>,
    ) -> Option<()> {
        for key in copied {
            let name = clean_key(key);
            let name = names.iter().position(|known| *known == extracted_name(&name));
            regions.push(ValueRegion { name, ..self.escaped_region(key)? });
        }
        for region in regions.iter().filter(|region| region.quoted && self.may_have_escapes(region)) {
            if let Some(name) = region.name {
                found[name] = ValueLocation::Text;
            }
        }
        Some(())
    }

    /// Whether a value that may end early affects only its own field: the rest of the value cannot contain another
    /// pair.
    fn affects_only_its_field(&self, region: &ValueRegion) -> bool {
        let may_open = |at: usize, traits: &ValueTraits| {
            !region.quoted && at == region.range.start && (traits.min_len == 0 || traits.firsts.contains(b'"'))
        };
        let bytes = &self.text.as_bytes()[region.range.clone()];
        !bytes.contains(&b'=')
            && (self.variables().filter(|(at, _)| region.range.contains(at))).all(|(at, column)| {
                let traits = self.traits(column);
                !traits.bytes.contains(b'=') && !may_open(at, traits)
            })
    }

    /// Whether a value contains a variable that is an optional pair.
    fn contains_optional_pair(&self, region: &ValueRegion) -> bool {
        let is_optional = |column: u32| optional_pairs::pair_forms(self.template_set, column).is_some();
        self.has_optional_pairs
            && self.variables().any(|(at, column)| region.range.contains(&at) && is_optional(column))
    }

    /// Whether the text after each variable of optional pairs ends a value, as the blank before a pair does.
    fn end_at_optional_pairs(&self) -> bool {
        let is_optional = |part: &TemplatePart| match part {
            TemplatePart::Variable(column) => optional_pairs::pair_forms(self.template_set, *column).is_some(),
            TemplatePart::Literal(_) => false,
        };
        self.template.parts.windows(2).filter(|pair| is_optional(&pair[0])).all(|pair| match &pair[1] {
            TemplatePart::Literal(literal) => literal.first().is_some_and(|byte| VALUE_ENDS.contains(*byte)),
            variable => is_optional(variable),
        })
    }

    /// The locations of fields in a column of optional pairs.
    fn locations_in_pairs(&self, column: u32, names: &[String], escaped: bool) -> Option<Vec<ValueLocation>> {
        let mut places = Vec::new();
        for form in optional_pairs::pair_forms(self.template_set, column)? {
            places.push((form, Sample::of_form(self.template_set, form)?.pairs(names, escaped)?));
        }
        let forms = |at: usize| places.iter().map(move |(form, places)| (*form, &places[at]));
        Some((0..names.len()).map(|at| optional_pairs::location_in_forms(forms(at))).collect())
    }

    /// The range that extraction reads as a value, including blanks inside quotes.
    fn region(&self, key: &str, value: &str) -> Option<ValueRegion> {
        let bytes = self.text.as_bytes();
        let after_key = self.range_of_value(key).end + 1;
        let span = self.range_of_value(value);
        if bytes.get(after_key) != Some(&b'"') {
            return Some(ValueRegion::of(span, false));
        }
        let from = after_key + 1;
        let mut end = span.end;
        while bytes.get(end) == Some(&b' ') {
            end += 1;
        }
        // After an unclosed quote, a value might contain the closing quote.
        (bytes.get(end) == Some(&b'"')).then(|| ValueRegion::of(from..end, true))
    }

    /// The range of the quoted value of a key, in which a backslash escapes the next character.
    fn escaped_region(&self, key: &str) -> Option<ValueRegion> {
        let bytes = self.text.as_bytes();
        let from = self.range_of_value(key).end + 2;
        let mut end = from;
        loop {
            match bytes.get(end)? {
                b'"' => return Some(ValueRegion::of(from..end, true)),
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
    }

    /// Whether a quoted value may contain backslashes.
    fn may_have_escapes(&self, region: &ValueRegion) -> bool {
        let mut inside = self.variables().filter(|(at, _)| region.range.contains(at));
        self.text.as_bytes()[region.range.clone()].contains(&b'\\')
            || inside.any(|(_, column)| self.traits(column).bytes.contains(b'\\'))
    }

    /// Whether each backslash of the literals in a quoted value escapes a character of the same literal.
    fn has_whole_escapes(&self, region: &ValueRegion) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = region.range.start;
        while at < region.range.end {
            if bytes[at] != b'\\' {
                at += 1;
                continue;
            }
            if at + 1 >= region.range.end || self.variable_at(at + 1).is_some() {
                return false;
            }
            at += 2;
        }
        true
    }

    /// Whether no value of the variables inside the region ends it early or makes its value empty.
    fn is_region_fixed(&self, region: &ValueRegion, escaped: bool) -> bool {
        let inside: Vec<(usize, &ValueTraits)> = (self.variables())
            .filter(|(at, _)| region.range.contains(at))
            .map(|(at, column)| (at, self.traits(column)))
            .collect();
        let bytes = &self.text.as_bytes()[region.range.clone()];
        // A quote that appears to close the value may be escaped.
        if region.quoted && escaped && !self.has_whole_escapes(region) {
            return false;
        }
        if inside.is_empty() {
            return true;
        }
        if !region.quoted {
            return inside.iter().all(|(at, traits)| {
                let first = *at == region.range.start;
                !traits.bytes.intersects(VALUE_ENDS)
                    && traits.min_len > 0
                    && !(first && (traits.firsts.contains(b'=') || traits.firsts.contains(b'"')))
            }) && self.has_fixed_end(region, &inside);
        }
        let trimmed = |byte: &u8| *byte == b' ';
        let first = region.range.start + bytes.iter().take_while(|byte| trimmed(byte)).count();
        let last = region.range.end - 1 - bytes.iter().rev().take_while(|byte| trimmed(byte)).count();
        inside.iter().all(|(at, traits)| {
            let is_plain = !(traits.bytes.contains(b'"') || (escaped && traits.bytes.contains(b'\\')));
            // In the contents of a string, each quote is escaped, and no escape is truncated.
            (is_plain || (escaped && traits.string_contents))
                && (*at != first || (traits.min_len > 0 && !traits.firsts.contains(b' ')))
                && (*at != last || (traits.min_len > 0 && !traits.lasts.contains(b' ')))
        })
    }

    /// Whether brackets at the end of an unquoted value belong to the value for every event, or for none.
    fn has_fixed_end(&self, region: &ValueRegion, inside: &[(usize, &ValueTraits)]) -> bool {
        let bytes = self.text.as_bytes();
        let last = region.range.end - 1;
        let is_bracket = |at: usize| bytes.get(at).is_some_and(|byte| BRACKETS.contains(*byte));
        if is_bracket(last) || is_bracket(region.range.end) {
            return inside.iter().all(|(_, traits)| !traits.bytes.intersects(BRACKETS));
        }
        inside.iter().all(|(at, traits)| *at != last || !traits.lasts.intersects(BRACKETS))
    }

    /// Looks at opening quotes (after an equals sign) that begin no value, because the sample has no closing quote for
    /// them. Whether they have no closing quote in any event, whatever the values of the variables are.
    fn quotes_stay_open(&self, regions: &[ValueRegion]) -> bool {
        let bytes = self.text.as_bytes();
        let begins_value = |at: usize| regions.iter().any(|region| region.quoted && region.range.start == at);
        memchr::memmem::find_iter(bytes, b"=\"").map(|at| at + 2).all(|from| {
            let is_empty = bytes[from..].iter().find(|byte| **byte != b' ') == Some(&b'"');
            begins_value(from)
                || is_empty
                || self.variables().all(|(at, column)| at < from || !self.traits(column).bytes.contains(b'"'))
        })
    }

    /// Whether every equals sign outside of values has a key that no value can change.
    fn have_equals_fixed_keys(&self, regions: &[ValueRegion]) -> bool {
        let bytes = self.text.as_bytes();
        let outside = |at: &usize| !regions.iter().any(|region| region.range.contains(at));
        let equals = memchr::memchr_iter(b'=', bytes).filter(outside);
        for at in equals {
            // Together with the first byte of a value right after it, the sign may form another operator, such as `==`.
            if let Some(column) = self.variable_at(at + 1) {
                let traits = self.traits(column);
                if traits.min_len == 0 || traits.firsts.contains(b'=') || traits.firsts.contains(b'"') {
                    return false;
                }
            }
            let mut begin = at;
            while begin > 0 && outside(&(begin - 1)) && is_key_byte(bytes[begin - 1]) {
                begin -= 1;
                if let Some(column) = self.variable_at(begin) {
                    let traits = self.traits(column);
                    let is_part = traits.min_len == 0 || traits.lasts.iter().any(is_key_byte);
                    if is_part {
                        return false;
                    }
                    break;
                }
            }
        }
        true
    }
}

/// The placeholder of a variable with values of these traits, in a text searched for pairs.
fn pair_placeholder(traits: &ValueTraits) -> u8 {
    let ends_without_key = traits.min_len > 0 && !traits.lasts.iter().any(is_key_byte);
    if ends_without_key { KEYLESS_PLACEHOLDER } else { PLACEHOLDER }
}

/// Whether `auto_kv` accepts the byte as part of a key.
pub(super) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || byte >= 0x80
}

#[cfg(test)]
mod tests;
