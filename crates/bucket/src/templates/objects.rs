//! Schemas: templates of JSON objects whose optional members vary from text to text.
//!
//! If every event has its own combination of optional members, there are as many whole-text templates as combinations.
//! A [`Schema`] is one template for all of them. Members that every text has are literals and variables. Any other
//! member, including its key and a comma, is a variable, which is empty in texts without the member. The values of this
//! variable are split by templates of their own, one template for each form of the member's value. The numbers of forms
//! thus add up instead of multiplying, and a column of small codes tells which events have a member.
//!
//! After each run of optional members, one more variable holds members that are new or in a different order.
//!
//! Schemas are learned from a sample of the slab ([`learn_schemas`]). A schema applies to texts with the same order of
//! members and the same blanks between them; all other texts are split the usual way. A nested object is part of the
//! schema if one of its members is always present, because the position of this member determines where commas are.
//!
//! Nested objects and arrays are not validated: a schema only finds their ends. Not here: JSON fields (scan).

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;

use quarry_event::EventBatch;
use quarry_stdx::number::u32_of;

use super::classes::{BLANK, BYTE_CLASSES, class_at, texts_equal};
use super::trie::{first_eight_bytes, head_mask};
use super::variables::{Variable, VariableKind, find_closing_quote, scalar_end, string_end};

/// Maximum number of sampled texts of a slab.
const SAMPLE_TEXTS: usize = 2_048;
/// Minimum percentage of sampled texts that are objects, for schemas to be learned; minimum percentage of sampled texts
/// that a schema applies to, for the schema to be kept.
const OBJECTS_PERCENT_MIN: usize = 50;
const SCHEMA_PERCENT_MIN: usize = 2;
/// Maximum number of combinations of members and forms for which whole-text templates are good enough.
const CHOICES_MAX: usize = 24;
const SCHEMAS_MAX: usize = 4;
/// Maximum number of members of a schema, in total and as a multiple of the members of an average text.
const MEMBERS_MAX: usize = 256;
const MEMBERS_PER_PRESENT_MAX: usize = 4;
/// Maximum number of members of a nested object that is split.
const OBJECT_MEMBERS_MAX: usize = 64;
/// Maximum nesting depth of objects that are split.
const DEPTH_MAX: usize = 6;
/// Longest text that a schema applies to.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// One template for all texts with these members.
#[derive(Debug)]
pub(super) struct Schema {
    entries: Vec<Entry>,
    end: Box<[u8]>,
}

/// Literal bytes followed by a variable.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) literal: LiteralBytes,
    pub(super) kind: EntryKind,
}

#[derive(Debug)]
pub(super) enum EntryKind {
    /// The contents of a string that is always present.
    String,
    /// A number or word that is always present.
    Scalar,
    /// An optional member. The member consists of `head`, a value and `comma_behind`. Either `head` begins with the
    /// comma before the member, or `comma_behind` is the comma after it.
    Member { head: LiteralBytes, comma_behind: Box<[u8]> },
    /// Members that are unknown to the schema or in a different order. The members end before `until`, which follows in
    /// every text.
    Rest { until: LiteralBytes },
}

/// Bytes to compare with a text. The first eight are kept as a number, because most texts differ in these bytes.
#[derive(Debug)]
pub(super) struct LiteralBytes {
    pub(super) bytes: Box<[u8]>,
    head: u64,
    mask: u64,
}

impl LiteralBytes {
    fn new(bytes: Vec<u8>) -> LiteralBytes {
        LiteralBytes { head: first_eight_bytes(&bytes), mask: head_mask(&bytes), bytes: bytes.into() }
    }

    /// Whether `text` continues with these bytes at `at`; `head` is [`first_eight_bytes`] of the text from there.
    #[inline]
    fn is_at(&self, text: &[u8], at: usize, head: u64) -> bool {
        (self.head ^ head) & self.mask == 0
            && text.get(at..at + self.bytes.len()).is_some_and(|start| texts_equal(start, &self.bytes))
    }
}

impl Schema {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Literal after the last variable.
    pub(super) fn end(&self) -> &[u8] {
        &self.end
    }

    /// Whether a text fits this schema. If it does, `places` receives the ranges of its variables, in order.
    #[inline]
    pub(super) fn match_text(&self, text: &[u8], places: &mut Vec<(u32, u32)>) -> bool {
        places.clear();
        let (mut at, mut head) = (0, first_eight_bytes(text));
        for entry in &self.entries {
            if !entry.literal.bytes.is_empty() {
                if !entry.literal.is_at(text, at, head) {
                    return false;
                }
                at += entry.literal.bytes.len();
                head = first_eight_bytes(&text[at..]);
            }
            let end = match &entry.kind {
                EntryKind::String => string_end(text, at),
                EntryKind::Scalar => {
                    value_end(text, at).filter(|(form, _)| *form == ValueForm::Scalar).map(|(_, end)| end)
                }
                EntryKind::Member { head: start, .. } if !start.is_at(text, at, head) => Some(at),
                EntryKind::Member { head: start, comma_behind } => {
                    let value = value_end(text, at + start.bytes.len()).map(|(_, end)| end);
                    value.filter(|end| text[*end..].starts_with(comma_behind)).map(|end| end + comma_behind.len())
                }
                EntryKind::Rest { until } if until.is_at(text, at, head) => Some(at),
                EntryKind::Rest { until } => rest_end(text, at, until),
            };
            let Some(end) = end else { return false };
            places.push((u32_of(at), u32_of(end)));
            if end > at {
                at = end;
                head = first_eight_bytes(&text[at..]);
            }
        }
        text[at..] == *self.end
    }
}

/// End of the members from `at` to `until`, each preceded by a comma; `None` if other bytes come first.
fn rest_end(text: &[u8], mut at: usize, until: &LiteralBytes) -> Option<usize> {
    while !until.is_at(text, at, first_eight_bytes(&text[at..])) {
        let key = skip_blanks(text, at + 1);
        if text.get(at) != Some(&b',') || text.get(key) != Some(&b'"') {
            return None;
        }
        at = value_end(text, key_end(text, key)?)?.1;
    }
    Some(at)
}

/// Adds the variable of a text that is one member (key, value and a comma before or after): its value, if the value is
/// a scalar. `None` for other values and for several members.
pub(super) fn split_member(text: &[u8], variables: &mut Vec<Variable>) -> Option<()> {
    let key = text.iter().position(|byte| *byte == b'"')?;
    let value = key_end(text, key)?;
    let (form, end) = value_end(text, value)?;
    let is_one = text[end..].iter().all(|byte| *byte == b',' || BYTE_CLASSES[usize::from(*byte)] & BLANK != 0);
    match form {
        _ if !is_one => return None,
        ValueForm::String => variables.push(Variable { start: value + 1, end: end - 1, kind: VariableKind::String }),
        ValueForm::Scalar => variables.push(Variable { start: value, end, kind: VariableKind::Json }),
        ValueForm::Object | ValueForm::Array => return None,
    }
    Some(())
}

/// Schemas for the texts of a slab, the most frequent first; none if whole-text templates suffice or few texts are
/// objects.
pub(super) fn learn_schemas(events: &EventBatch) -> Vec<Schema> {
    let step = events.len().div_ceil(SAMPLE_TEXTS).max(1);
    let sample = (0..events.len()).step_by(step).map(|row| events.raw(row));
    let texts = sample.len();
    let objects: Vec<&[u8]> = sample.filter(|text| is_object(text)).collect();
    if objects.len() * 100 < texts * OBJECTS_PERCENT_MIN {
        return Vec::new();
    }
    let mut choices = HashSet::with_hasher(FixedState::default());
    let mut learned: Vec<SchemaLearner> = Vec::new();
    for text in objects {
        let Some((members, end)) = members_of(text, 0).filter(|(_, end)| *end == text.len()) else { continue };
        choices.insert(choice_hash(text, &members));
        let is_like =
            |known: &SchemaLearner| known.uses_comma(text, &members) && known.root.can_merge(text, &members, 0);
        match learned.iter().position(is_like) {
            Some(known) => learned[known].root.merge(text, &members, 0),
            None if learned.len() < SCHEMAS_MAX => learned.extend(SchemaLearner::of(text, &members, end)),
            None => {}
        }
    }
    if choices.len() <= CHOICES_MAX {
        return Vec::new();
    }
    learned.retain(|known| known.root.seen as usize * 100 >= texts * SCHEMA_PERCENT_MIN);
    learned.sort_by_key(|known| std::cmp::Reverse(known.root.seen));
    learned.iter().filter_map(SchemaLearner::build_schema).collect()
}

fn is_object(text: &[u8]) -> bool {
    text.len() <= TEXT_BYTES_MAX && text.first() == Some(&b'{') && text.last() == Some(&b'}')
}

/// Form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ValueForm {
    String,
    Scalar,
    Object,
    Array,
}

/// Ranges of a member's key and value in the text.
#[derive(Clone, Copy, Debug)]
struct MemberRange {
    /// Range from the opening quote of the key to the value.
    key: (usize, usize),
    value: (usize, usize),
    form: ValueForm,
}

/// Form and end of the value at `at`; `None` for a string with an invalid escape, and for a scalar that is no number or
/// word of JSON.
#[inline]
fn value_end(text: &[u8], at: usize) -> Option<(ValueForm, usize)> {
    match text.get(at)? {
        b'"' => string_end(text, at + 1).map(|end| (ValueForm::String, end + 1)),
        b'{' => nested_end(text, at).map(|end| (ValueForm::Object, end)),
        b'[' => nested_end(text, at).map(|end| (ValueForm::Array, end)),
        _ => scalar_end(text, at).map(|end| (ValueForm::Scalar, end)),
    }
}

/// End of the object or array at `at`.
fn nested_end(text: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut depth) = (at, 0usize);
    loop {
        match text.get(at)? {
            b'"' => at = find_closing_quote(text, at + 1)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Position of the value of the key at `at`.
fn key_end(text: &[u8], at: usize) -> Option<usize> {
    let colon = skip_blanks(text, find_closing_quote(text, at + 1)? + 1);
    (text.get(colon) == Some(&b':')).then(|| skip_blanks(text, colon + 1))
}

fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while class_at(text, at) & BLANK != 0 {
        at += 1;
    }
    at
}

/// The members of the object at `at`, and its end. Blanks may only follow keys, colons and commas; no schema applies to
/// other objects.
fn members_of(text: &[u8], at: usize) -> Option<(Vec<MemberRange>, usize)> {
    let mut members = Vec::new();
    let mut at = at + 1;
    if text.get(at) == Some(&b'}') {
        return Some((members, at + 1));
    }
    loop {
        if text.get(at) != Some(&b'"') {
            return None;
        }
        let value = key_end(text, at)?;
        let (form, end) = value_end(text, value)?;
        members.push(MemberRange { key: (at, value), value: (value, end), form });
        match text.get(end)? {
            b'}' => return Some((members, end + 1)),
            b',' => at = skip_blanks(text, end + 1),
            _ => return None,
        }
    }
}

/// Hash of the combination of keys and forms of their values, including nested objects.
fn choice_hash(text: &[u8], members: &[MemberRange]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hash_choice(text, members, 0, &mut hasher);
    hasher.finish()
}

fn hash_choice(text: &[u8], members: &[MemberRange], depth: usize, hasher: &mut impl Hasher) {
    for member in members {
        hasher.write(&text[member.key.0..member.key.1]);
        member.form.hash(hasher);
        if let Some(inner) = member.members(text, depth) {
            hash_choice(text, &inner, depth + 1, hasher);
        }
    }
    hasher.write_u8(u8::MAX);
}

impl MemberRange {
    /// The members of the member's value, if the value is an object within the depth limit.
    fn members(&self, text: &[u8], depth: usize) -> Option<Vec<MemberRange>> {
        let is_open = self.form == ValueForm::Object && depth < DEPTH_MAX;
        is_open.then(|| members_of(text, self.value.0)).flatten().map(|(members, _)| members)
    }
}

/// A schema while it is learned.
#[derive(Debug)]
struct SchemaLearner {
    /// Separator between two members.
    comma: Box<[u8]>,
    root: Object,
}

/// An object with the members that it has in any text, in order of first appearance.
#[derive(Debug, Default)]
struct Object {
    members: Vec<Member>,
    /// For each pair of members, the number of times that the first came immediately before the second.
    order: BTreeMap<(usize, usize), u32>,
    /// Number of texts that have the object.
    seen: u32,
}

#[derive(Debug)]
struct Member {
    /// Quoted key, colon and blanks.
    key: Box<[u8]>,
    /// Number of texts that have the member, and the form of its values if all values have the same form.
    seen: u32,
    form: Option<ValueForm>,
    /// The members of its values, as long as all values are objects that [`Object::can_merge`] accepts.
    object: Option<Object>,
}

impl SchemaLearner {
    /// The schema of one text; `None` if the text has different separators, fewer than two members, or too many.
    fn of(text: &[u8], members: &[MemberRange], end: usize) -> Option<SchemaLearner> {
        debug_assert_eq!(end, text.len(), "an object continues after its end");
        let comma = match members {
            [first, second, ..] if members.len() <= MEMBERS_MAX => text[first.value.1..second.key.0].into(),
            _ => return None,
        };
        let mut learned = SchemaLearner { comma, root: Object::default() };
        if !learned.uses_comma(text, members) {
            return None;
        }
        learned.root.merge(text, members, 0);
        Some(learned)
    }

    /// Whether the members are separated by the schema's comma.
    fn uses_comma(&self, text: &[u8], members: &[MemberRange]) -> bool {
        members.windows(2).all(|pair| text[pair[0].value.1..pair[1].key.0] == *self.comma)
    }

    fn build_schema(&self) -> Option<Schema> {
        let mut schema = SchemaWriter { comma: &self.comma, entries: Vec::new(), literal: Vec::new() };
        let members = self.root.member_count();
        let present = self.root.present_members() / u64::from(self.root.seen.max(1));
        if members > MEMBERS_MAX || members as u64 > (present + 1) * MEMBERS_PER_PRESENT_MAX as u64 {
            return None;
        }
        schema.put_object(&self.root)?;
        Some(Schema { entries: schema.entries, end: schema.literal.into() })
    }
}

impl Object {
    /// Whether the schema has room for those members of a text that it does not know yet. At the top level, at least
    /// half of the text's members must be known, too.
    fn can_merge(&self, text: &[u8], members: &[MemberRange], depth: usize) -> bool {
        let most = if depth == 0 { MEMBERS_MAX } else { OBJECT_MEMBERS_MAX };
        if members.len() > most {
            return false;
        }
        let (mut known, mut next) = (0, 0);
        for member in members {
            if let Some(at) = self.member_index(&text[member.key.0..member.key.1], next) {
                (known, next) = (known + 1, at + 1);
            }
        }
        let is_like = depth > 0 || known * 2 >= members.len();
        is_like && self.members.len() + members.len() - known <= most
    }

    /// Index of the member with this key; `next` is the most likely index and is tried first.
    fn member_index(&self, key: &[u8], next: usize) -> Option<usize> {
        let is_it = |known: &Member| *known.key == *key;
        match self.members.get(next) {
            Some(known) if is_it(known) => Some(next),
            _ => self.members.iter().position(is_it),
        }
    }

    /// Adds the members of another text.
    fn merge(&mut self, text: &[u8], members: &[MemberRange], depth: usize) {
        self.seen += 1;
        let mut before = None;
        for found in members {
            let key = &text[found.key.0..found.key.1];
            let at = self.member_index(key, before.map_or(0, |before| before + 1)).unwrap_or_else(|| {
                let object = (found.form == ValueForm::Object).then(Object::default);
                self.members.push(Member { key: key.into(), seen: 0, form: Some(found.form), object });
                self.members.len() - 1
            });
            self.members[at].merge(text, found, depth);
            if let Some(before) = before.replace(at) {
                *self.order.entry((before, at)).or_default() += 1;
            }
        }
    }

    /// The members in the order in which texts usually have them. The next member is always the one that was least
    /// often preceded by one of the remaining members.
    fn ordered_members(&self) -> Vec<&Member> {
        let mut before = vec![0u64; self.members.len()];
        self.order.iter().for_each(|((_, second), count)| before[*second] += u64::from(*count));
        let mut left: Vec<usize> = (0..self.members.len()).collect();
        let mut ordered = Vec::with_capacity(left.len());
        while let Some(place) = (0..left.len()).min_by_key(|place| before[left[*place]]) {
            let next = left.remove(place);
            let behind = self.order.range((next, 0)..(next + 1, 0));
            behind.for_each(|((_, second), count)| before[*second] -= u64::from(*count));
            ordered.push(&self.members[next]);
        }
        ordered
    }

    /// Number of members, including the members of nested objects.
    fn member_count(&self) -> usize {
        self.members.iter().map(|member| 1 + member.object.as_ref().map_or(0, Object::member_count)).sum()
    }

    /// Sum over all texts of the number of members present, including the members of nested objects.
    fn present_members(&self) -> u64 {
        let inside = |member: &Member| member.object.as_ref().map_or(0, Object::present_members);
        self.members.iter().map(|member| u64::from(member.seen) + inside(member)).sum()
    }

    /// Whether a member is fixed ([`Member::is_fixed`]), so that commas can be placed before and after it.
    fn has_anchor(&self) -> bool {
        self.members.iter().any(|member| member.is_fixed(self.seen))
    }
}

impl Member {
    fn merge(&mut self, text: &[u8], found: &MemberRange, depth: usize) {
        self.seen += 1;
        if self.form != Some(found.form) {
            self.form = None;
            self.object = None;
        }
        if let Some(object) = &mut self.object {
            match found.members(text, depth) {
                Some(members) if object.can_merge(text, &members, depth + 1) => object.merge(text, &members, depth + 1),
                _ => self.object = None,
            }
        }
    }

    /// Whether all of `texts` texts have the member, always as a string, always as a scalar, or always as an object
    /// with a fixed member.
    fn is_fixed(&self, texts: u32) -> bool {
        self.seen == texts
            && match self.form {
                Some(ValueForm::String | ValueForm::Scalar) => true,
                Some(ValueForm::Object) => self.object.as_ref().is_some_and(|object| object.has_anchor()),
                _ => false,
            }
    }
}

/// Builds the entries of a schema.
struct SchemaWriter<'l> {
    comma: &'l [u8],
    entries: Vec<Entry>,
    /// Literal after the last entry.
    literal: Vec<u8>,
}

impl SchemaWriter<'_> {
    /// Adds the entries of an object; `None` if the object has no fixed member: the position of such a member
    /// determines where commas are.
    fn put_object(&mut self, object: &Object) -> Option<()> {
        let members = object.ordered_members();
        let anchor = members.iter().position(|member| member.is_fixed(object.seen))?;
        self.literal.push(b'{');
        for (at, member) in members.iter().enumerate() {
            if member.is_fixed(object.seen) {
                if at > anchor {
                    self.literal.extend_from_slice(self.comma);
                }
                self.literal.extend_from_slice(&member.key);
                self.put_value(member)?;
            } else if at < anchor {
                let head = LiteralBytes::new(member.key.to_vec());
                self.put(EntryKind::Member { head, comma_behind: self.comma.into() });
            } else {
                let head = LiteralBytes::new([self.comma, &member.key].concat());
                self.put(EntryKind::Member { head, comma_behind: Box::default() });
                // Unknown members may follow the last member of a run.
                match members.get(at + 1) {
                    Some(next) if !next.is_fixed(object.seen) => {}
                    Some(next) => {
                        self.put(EntryKind::Rest { until: LiteralBytes::new([self.comma, &next.key].concat()) })
                    }
                    None => self.put(EntryKind::Rest { until: LiteralBytes::new(vec![b'}']) }),
                }
            }
        }
        self.literal.push(b'}');
        Some(())
    }

    fn put_value(&mut self, member: &Member) -> Option<()> {
        match (member.form, &member.object) {
            (Some(ValueForm::String), _) => {
                self.literal.push(b'"');
                self.put(EntryKind::String);
                self.literal.push(b'"');
                Some(())
            }
            (Some(ValueForm::Object), Some(object)) => self.put_object(object),
            _ => {
                self.put(EntryKind::Scalar);
                Some(())
            }
        }
    }

    fn put(&mut self, kind: EntryKind) {
        let literal = LiteralBytes::new(std::mem::take(&mut self.literal));
        self.entries.push(Entry { literal, kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_event::Metadata;

    fn learned(texts: &[String]) -> Vec<Schema> {
        let word = |word: &str| word.into();
        let meta = Metadata { index: word("main"), host: word("h"), source: word("s"), sourcetype: word("t") };
        let mut events = EventBatch { metas: vec![meta], ..EventBatch::default() };
        texts.iter().enumerate().for_each(|(at, text)| events.push(text.as_bytes(), at as i64, 0));
        learn_schemas(&events)
    }

    fn match_schema(schema: &Schema, text: &str) -> Option<Vec<String>> {
        let mut places = Vec::new();
        let fits = schema.match_text(text.as_bytes(), &mut places);
        fits.then(|| places.iter().map(|(start, end)| text[*start as usize..*end as usize].to_owned()).collect())
    }

    /// Texts with every choice of optional members.
    fn choices() -> Vec<String> {
        let member =
            |bit: u32, choice: u32, text: &str| if choice >> bit & 1 == 1 { text.to_owned() } else { String::new() };
        (0..64)
            .map(|choice| {
                format!(
                    "{{{}\"time\":{choice}{},\"in\":{{{}\"name\":\"n{choice}\"{}}}{}{}}}",
                    member(0, choice, "\"first\":null,"),
                    member(1, choice, ",\"err\":\"x\""),
                    member(2, choice, "\"before\":[1,{\"a\":2}],"),
                    member(3, choice, ",\"behind\":{\"x\":1}"),
                    member(4, choice, ",\"err2\":true"),
                    member(5, choice, ",\"last\":\"\""),
                )
            })
            .collect()
    }

    #[test]
    fn one_schema_matches_every_choice_of_members() {
        let texts = choices();
        let schemas = learned(&texts);
        assert_eq!(schemas.len(), 1);
        for text in &texts {
            let values = match_schema(&schemas[0], text).unwrap_or_else(|| panic!("{text}"));
            let mut again = String::new();
            for (entry, value) in schemas[0].entries().iter().zip(values) {
                again.push_str(std::str::from_utf8(&entry.literal.bytes).unwrap());
                again.push_str(&value);
            }
            again.push_str(std::str::from_utf8(schemas[0].end()).unwrap());
            assert_eq!(again, *text);
        }
    }

    #[test]
    fn unknown_or_reordered_members_are_in_the_variable_after_their_run() {
        let schema = learned(&choices()).remove(0);
        for (text, rest) in [
            (r#"{"time":1,"in":{"name":"n"},"new":1}"#, r#","new":1"#),
            (r#"{"time":1,"in":{"name":"n"},"last":"","err2":true}"#, r#","err2":true"#),
            (r#"{"time":1,"in":{"name":"n"},"x":[{"}":1}],"y":"}"}"#, r#","x":[{"}":1}],"y":"}""#),
        ] {
            assert!(
                match_schema(&schema, text).unwrap_or_else(|| panic!("{text}")).contains(&rest.to_owned()),
                "{text}"
            );
        }
    }

    /// In these texts, every key is new: a look-up quadratic in the number of keys would take too long for sealing.
    #[test]
    fn objects_with_too_many_members_get_no_schema() {
        let text = |number: usize| {
            let members: Vec<String> = (0..5_000).map(|at| format!("\"{number}k{at}\":{at}")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(learned(&(0..40).map(text).collect::<Vec<_>>()).is_empty());
        let nested: Vec<String> = (0..40).map(|number| format!("{{\"a\":1,\"in\":{}}}", text(number))).collect();
        assert!(learned(&nested).iter().all(|schema| schema.entries().len() <= 3));
    }

    #[test]
    fn texts_with_other_separators_or_order_do_not_match() {
        let schema = learned(&choices()).remove(0);
        let text = r#"{"time":1,"in":{"name":"n"}}"#;
        assert!(match_schema(&schema, text).is_some());
        for other in [
            r#"{"in":{"name":"n"},"time":1}"#,
            r#"{"time":1, "in":{"name":"n"}}"#,
            r#"{"new":1,"time":1,"in":{"name":"n"}}"#,
            r#"{"time":1,"in":{"name":"n"}} "#,
            r#"{"time":"1","in":{"name":"n"}}"#,
            r#"{"time":1,"in":{"name":"n}}"#,
            r#"{"time":1,"err":,"in":{"name":"n"}}"#,
            r#"{"time":1"#,
            "{",
            "",
        ] {
            assert_eq!(match_schema(&schema, other), None, "{other}");
        }
    }

    #[test]
    fn few_choices_or_other_texts_get_no_schema() {
        let alike: Vec<String> = (0..100).map(|n| format!("{{\"a\":{n},\"b\":\"x\"}}")).collect();
        assert!(learned(&alike).is_empty());
        let lines: Vec<String> = (0..100).map(|n| format!("a={n} b")).collect();
        assert!(learned(&lines).is_empty());
        let unordered: Vec<String> =
            (0..100).map(|n| format!("{{\"k{}\":1,\"k{}\":2,\"k{}\":3}}", n % 7, (n * 3) % 11, n % 13)).collect();
        learned(&unordered);
    }
}
