//! Locations of JSON fields in the texts of a template.
//!
//! The real JSON reader runs on one text of the template, with a placeholder in each variable, so that only the reader
//! has to handle paths, nesting and repeated keys. That text represents all events of the template if every variable
//! keeps its role in the grammar: inside a string, its values neither close the string nor end in the middle of an
//! escape; elsewhere, each value is exactly one scalar. Both properties are checked per column, down to the entries of
//! its dictionary, and cached for the slab ([`JsonColumns`]).
//!
//! If these properties cannot be proven for a variable, all fields of the template are read from the text. If only the
//! locations of single fields are uncertain, only these fields are read from the text: fields with several values, and
//! paths that a key with a variable may form.
//!
//! Texts that break off, such as truncated events, have the fields before the break. The break is at the same point in
//! all texts of the template ([`truncation`]), so it does not affect the locations of these fields.
//!
//! Not here: `key=value` ([`super::fields`]); paths in the values of fields ([`super::paths`]).

mod documents;
mod names;
mod prose;
mod truncation;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use quarry_event::template::{ByteSet, ColumnKind, Dictionary, NumberFormat, Template, TemplatePart, TemplateSet};
use quarry_pipeline::extract::{JsonPath, extracted_name, json_fields, json_string};

use self::prose::is_prose;
use super::value_location::{Nested, NestedValue, ValueLocation};
use crate::spath::SPATH_BYTES_MAX;

const STRING_ENDS: ByteSet = ByteSet::of(b"\"\\");
const DIGITS: ByteSet = ByteSet::of(b"0123456789");
/// Placeholder for a variable: a number outside of strings, an ordinary character inside strings.
const PLACEHOLDER: char = '7';
/// Placeholder for a variable in a key: a character that occurs in no field name (U+E000, private use).
const KEY_PLACEHOLDER: char = '\u{e000}';
/// Prefix of keys that represent a column's optional members; the column number follows (U+E001, private use).
const MEMBERS_PLACEHOLDER: char = '\u{e001}';
/// Prefix of the names that [`extracted_name`] returns.
const COLLISION_PREFIX: &str = "extracted_";
/// Maximum number of dictionary entries checked one by one; nothing is proven about a larger dictionary.
const CHECKED_VALUES_MAX: u32 = 65_536;

/// Effect of a column's values on the JSON string that contains them; the same for all values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StringEffect {
    /// Whether the bytes end with the start of an escape.
    opens_escape: bool,
    /// Whether the bytes contain no escapes.
    is_plain: bool,
}

/// The effect of values without escapes.
const PLAIN_EFFECT: StringEffect = StringEffect { opens_escape: false, is_plain: true };

/// Kind of a column's values at a position where JSON expects a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    /// Numbers, `true`, `false` and `null`; their text is used as written.
    Bare,
    /// May include strings, whose text excludes the quotes.
    Quoted,
}

/// Facts about the columns of a slab; `None` for a column whose values may not keep their role in the grammar.
pub(super) struct JsonColumns<'a> {
    template_set: &'a TemplateSet,
    dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    /// Each list has an entry per column: the outer option is `None` until the fact has been computed.
    in_string: RefCell<Vec<Option<Option<StringEffect>>>>,
    scalar: RefCell<Vec<Option<Option<Scalar>>>>,
    comma: RefCell<Vec<Option<Option<CommaPosition>>>>,
}

/// A sample text of a template. Placeholders also replace escapes outside of keys, so that the reader returns every
/// value as a slice of the sample.
#[derive(Default)]
struct Sample {
    text: String,
    /// Range of each part of the template in the text.
    parts: Vec<(Range<usize>, TemplatePart)>,
    /// Ranges of escapes, and of variables whose values may contain escapes.
    escapes: Vec<Range<usize>>,
    /// Ranges of variables with quoted values.
    quoted: Vec<Range<usize>>,
    has_key_variables: bool,
    has_members: bool,
    /// Whether the text ends at a variable that the reader does not read.
    is_cut: bool,
}

/// Position of the comma that separates optional members from other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommaPosition {
    Before,
    Behind,
}

/// Position in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexerState {
    Outside,
    String,
    /// After a backslash.
    Escape,
}

/// Mapping of paths to field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathNames {
    /// Names of automatically extracted fields, which never replace metadata.
    Extracted,
    /// The paths themselves are the names.
    AsWritten,
}

impl PathNames {
    fn name_of(self, path: &str) -> &str {
        match self {
            PathNames::Extracted => extracted_name(path),
            PathNames::AsWritten => path,
        }
    }
}

impl<'a> JsonColumns<'a> {
    /// An empty cache of facts about the columns of `template_set`; `dictionary` reads their dictionaries.
    pub(super) fn new(
        template_set: &'a TemplateSet,
        dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    ) -> JsonColumns<'a> {
        let columns = template_set.columns.len();
        JsonColumns {
            template_set,
            dictionary,
            in_string: RefCell::new(vec![None; columns]),
            scalar: RefCell::new(vec![None; columns]),
            comma: RefCell::new(vec![None; columns]),
        }
    }

    /// The locations of the fields `names` in the texts of a template; `None` if the fields must be read from the
    /// text.
    pub(super) fn locations(&self, template: &Template, names: &[String]) -> Option<Vec<ValueLocation>> {
        if is_prose(template) || self.begins_as_prose(template) {
            return Some(vec![ValueLocation::Absent; names.len()]);
        }
        self.locations_below("", template, names, PathNames::Extracted)
    }

    /// The location, in the texts of a template, of the scalars for which `spath` without a path creates the field
    /// `name`.
    pub(super) fn scalar_locations(&self, template: &Template, name: &str) -> ValueLocation {
        if is_prose(template) {
            return ValueLocation::Absent;
        }
        let is_cut_off = max_length(self.template_set, template) > SPATH_BYTES_MAX as u64;
        let names = [name.to_owned()];
        let found = self.locations_below("", template, &names, PathNames::AsWritten).filter(|_| !is_cut_off);
        found.and_then(|mut found| found.pop()).unwrap_or(ValueLocation::Text)
    }

    /// Locates the fields `names` in texts that are the value at the path `outside`.
    fn locations_below(
        &self,
        outside: &str,
        template: &Template,
        names: &[String],
        naming: PathNames,
    ) -> Option<Vec<ValueLocation>> {
        let sample = self.sample(template)?;
        let mut found = vec![ValueLocation::Absent; names.len()];
        let mut members: Vec<(String, u32)> = Vec::new();
        let whole = json_fields(&sample.text, &mut |path, value| {
            let path = &*join_paths(outside, path);
            if sample.has_members
                && let Some((object, column)) = members_at(path)
            {
                members.push((object.to_owned(), column));
                return;
            }
            if sample.has_key_variables && path.contains(KEY_PLACEHOLDER) {
                let may_be = |name: &str| may_match_path(path, name);
                let named = names
                    .iter()
                    .zip(&mut found)
                    .filter(|(name, _)| may_be(name) || name.strip_prefix(COLLISION_PREFIX).is_some_and(may_be));
                named.for_each(|(_, place)| *place = ValueLocation::Text);
                return;
            }
            let Some(at) = names.iter().position(|known| known == naming.name_of(path)) else { return };
            let earlier = std::mem::replace(&mut found[at], ValueLocation::Text);
            if let Cow::Borrowed(value) = value {
                found[at] = earlier.followed_by(sample.scalar_location(value));
            }
        });
        if !whole && !sample.breaks_alike() {
            return None;
        }
        for (object, column) in members {
            let inside = self.locations_in_members(&object, column, names, naming)?;
            for (place, inside) in found.iter_mut().zip(inside) {
                *place = std::mem::replace(place, ValueLocation::Absent).or(inside);
            }
        }
        Some(found)
    }

    /// The locations of fields in optional members of the object at a path.
    fn locations_in_members(
        &self,
        object: &str,
        column: u32,
        names: &[String],
        naming: PathNames,
    ) -> Option<Vec<ValueLocation>> {
        let ColumnKind::Templates(templates) = &self.template_set.columns.get(column as usize)?.kind else {
            return None;
        };
        let mut forms = Vec::with_capacity(templates.len());
        for template in templates.iter().filter(|template| !template.parts.is_empty()) {
            let (alone, _) = as_object(template)?;
            let places = self.locations_below(object, &alone, names, naming)?;
            forms.push((template, places));
        }
        Some(
            (0..names.len()).map(|at| location_in_forms(forms.iter().map(|(of, places)| (*of, &places[at])))).collect(),
        )
    }

    /// The location of the value that `spath` finds at a path in the texts of a template.
    pub(super) fn path_location(&self, template: &Template, path: &JsonPath) -> ValueLocation {
        if is_prose(template) {
            return ValueLocation::Absent;
        }
        self.path_location_from(template, path, 0).unwrap_or(ValueLocation::Text)
    }

    /// Like [`JsonColumns::path_location`] for the rest of a path, starting at a step; `None` if the value must be read
    /// from the text.
    fn path_location_from(&self, template: &Template, path: &JsonPath, step: usize) -> Option<ValueLocation> {
        // The walk along a path skips values with wrong commas and brackets, where the reader stops.
        let sample = self.sample(template).filter(|sample| !sample.is_cut)?;
        if !json_fields(&sample.text, &mut |_, _| {}) && !sample.breaks_alike() {
            return None;
        }
        let mut members: Vec<(usize, u32)> = Vec::new();
        let mut is_open = false;
        let values = path.walk(&sample.text, step, &mut |key, wanted, at| {
            if sample.has_members
                && let Some(column) = key.strip_prefix(MEMBERS_PLACEHOLDER).and_then(|column| column.parse().ok())
            {
                members.push((at, column));
                return false;
            }
            if sample.has_key_variables && key.contains(KEY_PLACEHOLDER) {
                is_open |= may_match_path(key, wanted);
                return false;
            }
            key == wanted
        });
        if is_open {
            return None;
        }
        let mut place = ValueLocation::Absent;
        for value in values {
            let Cow::Borrowed(value) = value else { return None };
            place = place.followed_by(sample.value_location(value));
        }
        for (at, column) in members {
            place = place.or(self.path_location_in_forms(column, path, at)?);
        }
        Some(place)
    }

    /// The location of a path's value within optional members of the object that a step of the path enters.
    fn path_location_in_forms(&self, column: u32, path: &JsonPath, step: usize) -> Option<ValueLocation> {
        let ColumnKind::Templates(templates) = &self.template_set.columns.get(column as usize)?.kind else {
            return None;
        };
        let mut forms = Vec::with_capacity(templates.len());
        for template in templates.iter().filter(|template| !template.parts.is_empty()) {
            let (alone, _) = as_object(template)?;
            forms.push((template, self.path_location_from(&alone, path, step)?));
        }
        Some(location_in_forms(forms.iter().map(|(template, place)| (*template, place))))
    }

    /// Position of the comma of the members in a column; `None` if the column may contain anything else.
    fn comma_position(&self, column: u32) -> Option<CommaPosition> {
        let known = self.comma.borrow().get(column as usize).copied()?;
        if let Some(known) = known {
            return known;
        }
        // The recursion ends, because a column is never nested in itself.
        let found = self.compute_comma_position(column);
        self.comma.borrow_mut()[column as usize] = Some(found);
        found
    }

    fn compute_comma_position(&self, column: u32) -> Option<CommaPosition> {
        let ColumnKind::Templates(templates) = &self.template_set.columns.get(column as usize)?.kind else {
            return None;
        };
        let mut comma = None;
        for template in templates.iter().filter(|template| !template.parts.is_empty()) {
            let (alone, found) = as_object(template)?;
            let sample = self.sample(&alone)?;
            if !json_fields(&sample.text, &mut |_, _| {}) || comma.is_some_and(|known| known != found) {
                return None;
            }
            comma = Some(found);
        }
        comma
    }

    /// A text that represents all texts of the template; `None` if there is no such text.
    fn sample(&self, template: &Template) -> Option<Sample> {
        let mut sample = Sample::default();
        let mut lexed = LexerState::Outside;
        for (at, part) in template.parts.iter().enumerate() {
            let start = sample.text.len();
            let is_last = at + 1 == template.parts.len();
            match part {
                TemplatePart::Literal(literal) => lexed = sample.push_literal(&template.parts, at, literal, lexed)?,
                TemplatePart::Variable(column) => match lexed {
                    LexerState::Escape => return None,
                    LexerState::Outside if self.is_empty(*column) => {}
                    // The reader stops where these values begin.
                    LexerState::Outside if is_last && self.is_broken_value(&template.parts[..at], *column) => {}
                    LexerState::Outside if let Some(comma) = self.comma_position(*column) => {
                        sample.has_members = true;
                        let member = format!("\"{MEMBERS_PLACEHOLDER}{column}\":{PLACEHOLDER}");
                        match comma {
                            CommaPosition::Before => sample.text.extend([",", &member]),
                            CommaPosition::Behind => sample.text.extend([&*member, ","]),
                        }
                    }
                    LexerState::Outside => {
                        let is_members = |column| {
                            self.is_empty(column) || self.comma_position(column) == Some(CommaPosition::Before)
                        };
                        let form = match self.scalar_kind(*column) {
                            Some(form) if is_complete_value(&template.parts, at, is_members) => form,
                            // The variable may be part of a number.
                            _ if self.is_in_number(&template.parts, at) => Scalar::Bare,
                            _ => return self.sample_up_to(sample, *column),
                        };
                        sample.text.push(PLACEHOLDER);
                        if form == Scalar::Quoted {
                            sample.quoted.push(start..sample.text.len());
                        }
                    }
                    LexerState::String => {
                        let form = match self.string_effect(*column) {
                            Some(form) => form,
                            // Nothing closes the string, so the reader stops where it begins.
                            None if is_last && !self.may_contain_quotes(*column) => PLAIN_EFFECT,
                            None if self.has_invalid_escapes(*column) => {
                                return Some(Sample { is_cut: true, ..sample });
                            }
                            None => return None,
                        };
                        if form.opens_escape {
                            lexed = LexerState::Escape;
                        }
                        let is_in_key = is_in_key(&template.parts, at + 1, 0, lexed);
                        if is_in_key && !form.is_plain {
                            return None;
                        }
                        sample.has_key_variables |= is_in_key;
                        sample.text.push(if is_in_key { KEY_PLACEHOLDER } else { PLACEHOLDER });
                        if !form.is_plain {
                            sample.escapes.push(start..sample.text.len());
                        }
                    }
                },
            }
            sample.parts.push((start..sample.text.len(), part.clone()));
        }
        Some(sample)
    }

    /// Whether all values of a column are empty.
    fn is_empty(&self, column: u32) -> bool {
        self.template_set.columns.get(column as usize).is_some_and(|column| column.traits.max_len == 0)
    }

    /// The effect of a column's values on a string.
    fn string_effect(&self, column: u32) -> Option<StringEffect> {
        let known = self.in_string.borrow().get(column as usize).copied()?;
        if let Some(known) = known {
            return known;
        }
        let found = self.compute_string_effect(column);
        self.in_string.borrow_mut()[column as usize] = Some(found);
        found
    }

    fn compute_string_effect(&self, column: u32) -> Option<StringEffect> {
        let described = self.template_set.columns.get(column as usize)?;
        if !described.traits.bytes.intersects(STRING_ENDS) {
            return Some(PLAIN_EFFECT);
        }
        if described.traits.string_contents {
            return Some(StringEffect { opens_escape: false, is_plain: false });
        }
        match &described.kind {
            ColumnKind::Dictionary { len } if *len <= CHECKED_VALUES_MAX => {
                let values = (self.dictionary)(column)?;
                let all = (0..*len).filter(|code| (*code as usize) < values.len());
                common_effect(
                    all.map(|code| self.string_effect_of_parts(&[TemplatePart::Literal(values.get(code).into())])),
                )
            }
            ColumnKind::Templates(templates) => {
                common_effect(templates.iter().map(|template| self.string_effect_of_parts(&template.parts)))
            }
            _ => None,
        }
    }

    /// The effect on a string of a value composed of these parts.
    fn string_effect_of_parts(&self, parts: &[TemplatePart]) -> Option<StringEffect> {
        let (mut lexed, mut is_plain) = (LexerState::String, true);
        for part in parts {
            match part {
                TemplatePart::Literal(literal) => {
                    lexed = lex_within_string(lexed, literal)?;
                    is_plain &= !literal.contains(&b'\\');
                }
                TemplatePart::Variable(column) if lexed == LexerState::String => {
                    let form = self.string_effect(*column)?;
                    is_plain &= form.is_plain && !form.opens_escape;
                    lexed = if form.opens_escape { LexerState::Escape } else { LexerState::String };
                }
                TemplatePart::Variable(_) => return None,
            }
        }
        Some(StringEffect {
            opens_escape: lexed == LexerState::Escape,
            is_plain: is_plain && lexed == LexerState::String,
        })
    }

    /// The kind of a column's values where JSON expects a value.
    fn scalar_kind(&self, column: u32) -> Option<Scalar> {
        let known = self.scalar.borrow().get(column as usize).copied()?;
        if let Some(known) = known {
            return known;
        }
        let found = self.compute_scalar_kind(column);
        self.scalar.borrow_mut()[column as usize] = Some(found);
        found
    }

    fn compute_scalar_kind(&self, column: u32) -> Option<Scalar> {
        let described = self.template_set.columns.get(column as usize)?;
        if described.traits.json_scalars {
            return Some(if described.traits.bytes.contains(b'"') { Scalar::Quoted } else { Scalar::Bare });
        }
        match &described.kind {
            ColumnKind::Numbers { format, .. } => {
                let is_json = matches!(
                    format,
                    NumberFormat::Integer | NumberFormat::Decimal { .. } | NumberFormat::Shortest { .. }
                );
                is_json.then_some(Scalar::Bare)
            }
            ColumnKind::Dictionary { len } if *len <= CHECKED_VALUES_MAX => {
                let values = (self.dictionary)(column)?;
                let all = (0..*len).filter(|code| (*code as usize) < values.len());
                widest_kind(
                    all.map(|code| self.scalar_kind_of_parts(&[TemplatePart::Literal(values.get(code).into())])),
                )
            }
            ColumnKind::Templates(templates) => {
                widest_kind(templates.iter().map(|template| self.scalar_kind_of_parts(&template.parts)))
            }
            _ => None,
        }
    }

    /// The kind of a value composed of these parts.
    fn scalar_kind_of_parts(&self, parts: &[TemplatePart]) -> Option<Scalar> {
        match parts {
            [TemplatePart::Variable(column)] => self.scalar_kind(*column),
            [TemplatePart::Literal(text)] => {
                let text = std::str::from_utf8(text).ok()?;
                is_scalar(text).then_some(if text.starts_with('"') { Scalar::Quoted } else { Scalar::Bare })
            }
            [TemplatePart::Literal(first), ..] if first.starts_with(b"\"") => {
                let sample = self.sample(&Template { parts: parts.to_vec() })?;
                is_scalar(&sample.text).then_some(Scalar::Quoted)
            }
            parts => self.is_number(parts).then_some(Scalar::Bare),
        }
    }

    /// Whether a variable is part of a number that spans neighbouring parts, as in `12.5`.
    fn is_in_number(&self, parts: &[TemplatePart], at: usize) -> bool {
        let is_sign = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
        let mut token: Vec<TemplatePart> = vec![parts[at].clone()];
        for part in parts[..at].iter().rev() {
            match part {
                TemplatePart::Variable(_) => token.insert(0, part.clone()),
                TemplatePart::Literal(literal) => {
                    let from = literal.iter().rposition(|byte| !is_sign(byte)).map_or(0, |last| last + 1);
                    if from < literal.len() {
                        token.insert(0, TemplatePart::Literal(literal[from..].into()));
                    }
                    if from > 0 {
                        break;
                    }
                }
            }
        }
        for part in &parts[at + 1..] {
            match part {
                TemplatePart::Variable(_) => token.push(part.clone()),
                TemplatePart::Literal(literal) => {
                    let to = literal.iter().position(|byte| !is_sign(byte)).unwrap_or(literal.len());
                    if to > 0 {
                        token.push(TemplatePart::Literal(literal[..to].into()));
                    }
                    if to < literal.len() {
                        break;
                    }
                }
            }
        }
        self.is_number(&token)
    }

    /// Whether every value composed of these parts is a valid JSON number.
    fn is_number(&self, parts: &[TemplatePart]) -> bool {
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                TemplatePart::Literal(literal) => match std::str::from_utf8(literal) {
                    Ok(literal) => text.push_str(literal),
                    Err(_) => return false,
                },
                TemplatePart::Variable(column) => {
                    let Some(described) = self.template_set.columns.get(*column as usize) else { return false };
                    let traits = &described.traits;
                    let is_integer =
                        matches!(described.kind, ColumnKind::Numbers { format: NumberFormat::Integer, .. });
                    let is_digits = traits.min_len > 0 && traits.bytes.is_subset(DIGITS);
                    if !(is_digits || (is_integer && at == 0)) {
                        return false;
                    }
                    // A number with a leading zero has no other digit before its decimal point.
                    let begins = text.is_empty() || text == "-";
                    let is_followed = match parts.get(at + 1) {
                        Some(TemplatePart::Literal(literal)) => literal.first().is_some_and(u8::is_ascii_digit),
                        next => next.is_some(),
                    };
                    let is_zero_alone = is_integer || traits.max_len == 1;
                    if begins && traits.firsts.contains(b'0') && (is_followed || !is_zero_alone) {
                        return false;
                    }
                    text.push(PLACEHOLDER);
                }
            }
        }
        is_scalar(&text) && text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
    }
}

impl Sample {
    /// Appends a literal, part number `at`, and returns the position in the grammar at its end.
    fn push_literal(
        &mut self,
        parts: &[TemplatePart],
        at: usize,
        literal: &[u8],
        before: LexerState,
    ) -> Option<LexerState> {
        let start = self.text.len();
        self.text.push_str(std::str::from_utf8(literal).ok()?);
        let (mut lexed, mut place) = (before, 0);
        while place < literal.len() {
            let len = match (lexed, literal[place]) {
                (LexerState::String, b'\\') => escape_len(&literal[place..])?,
                // The escape began at the end of the previous variable's values.
                (LexerState::Escape, _) => 1,
                _ => {
                    lexed = lex(lexed, &literal[place..=place])?;
                    place += 1;
                    continue;
                }
            };
            let end = (place + len).min(literal.len());
            lexed = lex(lexed, &literal[place..end])?;
            if !is_in_key(parts, at, end, lexed) {
                let escape = start + place..start + end;
                self.text.replace_range(escape.clone(), &PLACEHOLDER.to_string().repeat(escape.len()));
                self.escapes.push(escape);
            }
            place = end;
        }
        Some(lexed)
    }

    /// The location of a value that `spath` reads from the sample: a scalar, or an object or array as written.
    fn value_location(&self, value: &str) -> ValueLocation {
        let range = self.value_range(value);
        let is_string = range.start.checked_sub(1).is_some_and(|before| self.text.as_bytes()[before] == b'"');
        match !is_string && value.starts_with(['{', '[']) {
            true => ValueLocation::of_parts(&self.parts_in(&range)),
            false => self.scalar_location(value),
        }
    }

    fn value_range(&self, value: &str) -> Range<usize> {
        let start = value.as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + value.len()
    }

    /// The template parts, as written, in a range of the text.
    fn parts_in(&self, range: &Range<usize>) -> Vec<TemplatePart> {
        let parts = self.parts.iter().filter(|(lies, _)| lies.start < range.end && range.start < lies.end);
        let parts = parts.map(|(lies, part)| match part {
            TemplatePart::Variable(column) => TemplatePart::Variable(*column),
            TemplatePart::Literal(literal) => {
                let (from, to) = (lies.start.max(range.start), lies.end.min(range.end));
                TemplatePart::Literal(literal[from - lies.start..to - lies.start].into())
            }
        });
        parts.collect()
    }

    /// The parts of a string with its escapes resolved, if all escapes are in literals.
    fn unescaped_parts(&self, range: &Range<usize>) -> Option<Vec<TemplatePart>> {
        let is_variable = |part: &TemplatePart| matches!(part, TemplatePart::Variable(_));
        let within = |lies: &Range<usize>| lies.start < range.end && range.start < lies.end;
        if self.parts.iter().any(|(lies, part)| is_variable(part) && within(lies) && self.escapes.contains(lies)) {
            return None;
        }
        let unescaped = self.parts_in(range).into_iter().map(|part| match part {
            TemplatePart::Literal(literal) => {
                let text = json_string(std::str::from_utf8(&literal).ok()?)?;
                Some(TemplatePart::Literal(text.as_bytes().into()))
            }
            variable => Some(variable),
        });
        unescaped.collect()
    }

    /// The location of a scalar that the reader found in the sample.
    fn scalar_location(&self, value: &str) -> ValueLocation {
        let range = self.value_range(value);
        let within = |lies: &Range<usize>| lies.start < range.end && range.start < lies.end;
        let parts = self.parts_in(&range);
        if self.quoted.iter().any(within) {
            return ValueLocation::Escaped(parts.into());
        }
        if self.escapes.iter().any(within) {
            let unescaped = self.unescaped_parts(&range).map(|parts| ValueLocation::of_parts(&parts));
            return unescaped
                .filter(|place| *place != ValueLocation::Text)
                .unwrap_or(ValueLocation::Escaped(parts.into()));
        }
        match parts.as_slice() {
            [TemplatePart::Variable(column)] => ValueLocation::Variable(*column),
            [] | [TemplatePart::Literal(_)] => ValueLocation::Constant(value.into()),
            _ => ValueLocation::Composite(parts.into()),
        }
    }
}

/// Maximum number of bytes of the texts of a template.
pub(super) fn max_length(template_set: &TemplateSet, template: &Template) -> u64 {
    let length = |part: &TemplatePart| match part {
        TemplatePart::Literal(literal) => literal.len() as u64,
        TemplatePart::Variable(column) => {
            template_set.columns.get(*column as usize).map_or(u64::MAX, |column| column.traits.max_len.into())
        }
    };
    template.parts.iter().map(length).fold(0, u64::saturating_add)
}

/// Length of the escape at the start of a text.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1) {
        // The variable after the backslash completes the escape.
        None => Some(1),
        Some(b'u') => (bytes.len() >= 6).then_some(6),
        Some(_) => Some(2),
    }
}

/// Position in the grammar after `bytes`; `None` if they end inside a `\u` escape.
fn lex(before: LexerState, bytes: &[u8]) -> Option<LexerState> {
    lex_while(before, bytes, |_| true)
}

/// Continues the lexer over bytes that must not end the string.
fn lex_within_string(before: LexerState, bytes: &[u8]) -> Option<LexerState> {
    lex_while(before, bytes, |lexed| lexed != LexerState::Outside)
}

fn lex_while(before: LexerState, bytes: &[u8], may_be: impl Fn(LexerState) -> bool) -> Option<LexerState> {
    let mut lexed = before;
    for (at, byte) in bytes.iter().enumerate() {
        lexed = match (lexed, byte) {
            (LexerState::Outside, b'"') => LexerState::String,
            (LexerState::Outside, _) => LexerState::Outside,
            (LexerState::String, b'"') => LexerState::Outside,
            (LexerState::String, b'\\') => LexerState::Escape,
            (LexerState::String, _) => LexerState::String,
            (LexerState::Escape, b'n' | b't' | b'r' | b'b' | b'f' | b'"' | b'\\' | b'/') => LexerState::String,
            (LexerState::Escape, b'u') => {
                let is_whole = bytes.get(at + 1..at + 5).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                is_whole.then_some(LexerState::String)?
            }
            (LexerState::Escape, _) => return None,
        };
        if !may_be(lexed) {
            return None;
        }
    }
    Some(lexed)
}

/// Whether a variable outside of strings is a complete value: a punctuation character, a blank or an end of the text is
/// on each side. Optional members that start with a comma may follow the variable.
fn is_complete_value(parts: &[TemplatePart], at: usize, begins_with_comma: impl Fn(u32) -> bool) -> bool {
    let before = match at.checked_sub(1).map(|before| &parts[before]) {
        None => true,
        Some(TemplatePart::Literal(literal)) => {
            literal.last().is_some_and(|byte| matches!(byte, b':' | b',' | b'[' | b' ' | b'\t' | b'\n' | b'\r'))
        }
        Some(TemplatePart::Variable(_)) => false,
    };
    let behind = |part: &&TemplatePart| !matches!(part, TemplatePart::Variable(column) if begins_with_comma(*column));
    let after = match parts[at + 1..].iter().find(behind) {
        None => true,
        Some(TemplatePart::Literal(literal)) => {
            literal.first().is_some_and(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'))
        }
        Some(TemplatePart::Variable(_)) => false,
    };
    before && after
}

/// Whether the string around byte `from` of part `at` is followed by a colon; `lexed` is the position in the grammar.
fn is_in_key(parts: &[TemplatePart], at: usize, from: usize, lexed: LexerState) -> bool {
    let mut lexed = lexed;
    let bytes = |(number, part): (usize, &'_ TemplatePart)| match part {
        TemplatePart::Literal(literal) => literal[if number == at { from } else { 0 }..].to_vec(),
        // Any character that does not end a string.
        TemplatePart::Variable(_) => String::from(PLACEHOLDER).into_bytes(),
    };
    let mut rest = parts.iter().enumerate().skip(at).flat_map(bytes);
    for byte in rest.by_ref() {
        lexed = match (lexed, byte) {
            (LexerState::String, b'"') => break,
            (LexerState::String, b'\\') => LexerState::Escape,
            _ => LexerState::String,
        };
    }
    rest.find(|byte| !byte.is_ascii_whitespace()) == Some(b':')
}

/// Whether a text is exactly one JSON scalar.
fn is_scalar(text: &str) -> bool {
    let mut values = 0;
    let wrapped = format!("[{text}]");
    let is_whole = json_fields(&wrapped, &mut |path, _| values += usize::from(path == "{}"));
    is_whole
        && values == 1
        && !text.starts_with(['[', '{', ' ', '\t', '\n', '\r'])
        && !text.ends_with([' ', '\t', '\n', '\r'])
}

/// The common effect; `None` if effects differ or an effect is unknown.
fn common_effect(mut all: impl Iterator<Item = Option<StringEffect>>) -> Option<StringEffect> {
    let mut first = all.next()??;
    for one in all {
        let one = one?;
        if one.opens_escape != first.opens_escape {
            return None;
        }
        first.is_plain &= one.is_plain;
    }
    Some(first)
}

/// The kind that covers all of these kinds.
fn widest_kind(all: impl Iterator<Item = Option<Scalar>>) -> Option<Scalar> {
    let mut widest = None;
    for one in all {
        widest = match (widest, one?) {
            (Some(Scalar::Quoted), _) | (_, Scalar::Quoted) => Some(Scalar::Quoted),
            _ => Some(Scalar::Bare),
        };
    }
    widest
}

/// A path within the value at the path `outside`; the path itself if `outside` is empty.
fn join_paths<'p>(outside: &str, path: &'p str) -> Cow<'p, str> {
    match outside {
        "" => Cow::Borrowed(path),
        outside => Cow::Owned(format!("{outside}.{path}")),
    }
}

/// If a path is a placeholder for optional members: the path of their object, and their column.
fn members_at(path: &str) -> Option<(&str, u32)> {
    let (object, column) = path.rsplit_once(MEMBERS_PLACEHOLDER)?;
    Some((object.strip_suffix('.').unwrap_or(object), column.parse().ok()?))
}

/// The optional members in a template as an object of their own, and the position of their comma.
fn as_object(template: &Template) -> Option<(Template, CommaPosition)> {
    let mut parts = template.parts.clone();
    let comma = match parts.first_mut()? {
        TemplatePart::Literal(first) if first.starts_with(b",") => {
            *first = [b"{", &first[1..]].concat().into();
            parts.push(TemplatePart::Literal(b"}".as_slice().into()));
            CommaPosition::Before
        }
        TemplatePart::Literal(first) if first.starts_with(b"\"") => {
            *first = [b"{", &**first].concat().into();
            let Some(TemplatePart::Literal(last)) = parts.last_mut() else { return None };
            let members = last.trim_ascii_end().strip_suffix(b",")?;
            *last = [members, b"}"].concat().into();
            CommaPosition::Behind
        }
        _ => return None,
    };
    // No two literals of a template are adjacent.
    if let [.., TemplatePart::Literal(last), TemplatePart::Literal(end)] = parts.as_mut_slice() {
        *last = [&**last, &**end].concat().into();
        parts.pop();
    }
    Some((Template { parts }, comma))
}

/// The location of a field, given its locations in the forms that members take; a row has at most one form.
fn location_in_forms<'f>(forms: impl Iterator<Item = (&'f Template, &'f ValueLocation)> + Clone) -> ValueLocation {
    let mut values: Vec<NestedValue> = Vec::new();
    for (_, place) in forms.clone() {
        let value = match place {
            ValueLocation::Absent => continue,
            ValueLocation::Variable(column) => NestedValue { column: *column, is_escaped: false },
            ValueLocation::Escaped(parts) => match **parts {
                [TemplatePart::Variable(column)] => NestedValue { column, is_escaped: true },
                _ => return ValueLocation::Text,
            },
            _ => return ValueLocation::Text,
        };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    // Every form that has one of these columns must have the field's value in that column.
    let is_field = |value: &NestedValue| {
        forms.clone().filter(|(template, _)| template.has_variable(value.column)).all(|(_, place)| {
            match (value.is_escaped, place) {
                (false, ValueLocation::Variable(column)) => *column == value.column,
                (true, ValueLocation::Escaped(parts)) => **parts == [TemplatePart::Variable(value.column)],
                _ => false,
            }
        })
    };
    match values.is_empty() {
        true => ValueLocation::Absent,
        false if values.iter().all(is_field) => {
            ValueLocation::Nested(Nested { values: values.into(), may_repeat: false })
        }
        false => ValueLocation::Text,
    }
}

/// Whether a path with variables in its keys may be this name.
fn may_match_path(path: &str, name: &str) -> bool {
    let (first, last) = (path.split(KEY_PLACEHOLDER).next(), path.rsplit(KEY_PLACEHOLDER).next());
    name.starts_with(first.unwrap_or_default()) && name.ends_with(last.unwrap_or_default())
}
