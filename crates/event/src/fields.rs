//! Index-time fields as columns.
//!
//! A value costs 4 bytes and its text, and no allocation of its own. Names are codes of a table. The table has exactly the
//! names that occur, in the order of their first field, so that equal names have equal codes however the fields were
//! added. Events of one source usually have the same names in the same order; consecutive ones share their codes.

use quarry_stdx::number::u32_of;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Number of names up to which a linear search is used instead of a lookup table.
const LINEAR_SEARCH_NAMES_MAX: usize = 32;
/// Maximum number of fields of the previous event that are searched for a name that was not the expected one. Beyond
/// them, the expected field stays the same.
const MISSING_FIELDS_MAX: usize = 16;
/// Stands for a code that has not been translated yet.
const UNKNOWN_CODE: u32 = u32::MAX;

/// The name of a field that is added: a text, or a shared text, which is not copied.
pub trait FieldName {
    /// The name.
    fn text(&self) -> &str;
    /// The name for the table of names.
    fn shared(&self) -> Arc<str>;
}

impl FieldName for str {
    fn text(&self) -> &str {
        self
    }

    fn shared(&self) -> Arc<str> {
        self.into()
    }
}

impl FieldName for Arc<str> {
    fn text(&self) -> &str {
        self
    }

    fn shared(&self) -> Arc<str> {
        Arc::clone(self)
    }
}

/// An index-time field of one event (`name::value`). A multivalue field has one entry per value, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// Row in the batch or page.
    pub row: u32,
    /// Index of the name in [`IndexedFields::names`].
    pub code: u32,
    /// Field name.
    pub name: &'a Arc<str>,
    /// Value as text.
    pub value: &'a str,
}

/// Index-time fields of the events of a batch or page, in the order in which they were added. Fields must be added in
/// ascending order of rows; [`crate::EventBatch::check`] verifies the order.
#[derive(Clone, Default)]
pub struct IndexedFields {
    /// The events that have fields.
    events: Vec<EventPlace>,
    /// Codes of the names of events, each in the order of its fields.
    codes: Vec<u32>,
    /// Bytes of each value.
    lens: Vec<u32>,
    /// All values, one after the other.
    values: String,
    names: NameTable,
    /// Positions in `codes` of names of the second-last event: those that the last event may have next.
    expected: Range<usize>,
    /// Whether the last event shares the codes up to `expected` with the second-last event. Otherwise, its codes are
    /// the last codes in `codes`.
    is_shared: bool,
}

/// Place of an event's fields.
#[derive(Clone, Copy, Debug)]
struct EventPlace {
    row: u32,
    /// Position of its first code.
    codes: u32,
    /// Position of its first field.
    first: u32,
    /// Start of its values in `values`.
    values: usize,
}

/// The index-time fields of one event, or some of them.
#[derive(Clone, Copy, Debug)]
pub struct EventFields<'a> {
    fields: &'a IndexedFields,
    /// Row in the batch or page.
    pub row: u32,
    /// Index of each field's name in [`IndexedFields::names`]. Events that share their codes have the same slice.
    pub codes: &'a [u32],
    /// Position of the first field among all fields of the batch or page.
    first: usize,
    /// Start of the values.
    values: usize,
}

impl<'a> EventFields<'a> {
    /// The value of each field.
    pub fn values(self) -> impl Iterator<Item = &'a str> {
        let EventFields { fields, codes, first, values: mut from, .. } = self;
        let lens = fields.lens[first..first + codes.len()].iter();
        lens.map(move |len| {
            let start = from;
            from += *len as usize;
            &fields.values[start..from]
        })
    }
}

/// Distinct names, by code.
#[derive(Clone, Default)]
struct NameTable {
    names: Vec<Arc<str>>,
    /// Codes of the names if there are many, otherwise empty.
    codes: BTreeMap<Arc<str>, u32>,
}

impl NameTable {
    /// Code of a name, added if new.
    fn intern<N: FieldName + ?Sized>(&mut self, name: &N) -> u32 {
        let text = name.text();
        let known = match self.names.len() {
            ..=LINEAR_SEARCH_NAMES_MAX => self.names.iter().position(|known| is_same(known, text)).map(u32_of),
            _ => self.codes.get(text).copied(),
        };
        known.unwrap_or_else(|| self.add(name.shared()))
    }

    fn add(&mut self, name: Arc<str>) -> u32 {
        let code = u32_of(self.names.len());
        self.names.push(name);
        if self.names.len() > LINEAR_SEARCH_NAMES_MAX {
            let unlisted = self.codes.len()..self.names.len();
            self.codes.extend(unlisted.map(|at| (Arc::clone(&self.names[at]), u32_of(at))));
        }
        code
    }
}

/// Whether two names are equal; names of one source usually share their memory.
fn is_same(known: &str, name: &str) -> bool {
    std::ptr::eq(known, name) || known == name
}

impl IndexedFields {
    /// Appends a field.
    pub fn push<N: FieldName + ?Sized>(&mut self, row: u32, name: &N, value: &str) {
        if self.events.last().is_none_or(|event| event.row != row) {
            self.begin_event(row);
        }
        let expected = if self.expected.is_empty() { None } else { Some(self.codes[self.expected.start]) };
        match expected {
            // Names of one source usually share their memory.
            Some(code) if self.is_shared && std::ptr::eq(&*self.names.names[code as usize], name.text()) => {
                self.expected.start += 1;
            }
            _ => self.add_name(name),
        }
        self.values.push_str(value);
        self.lens.push(u32_of(value.len()));
    }

    fn begin_event(&mut self, row: u32) {
        let first = u32_of(self.lens.len());
        let codes = self.codes_of_last();
        self.events.push(EventPlace { row, codes: u32_of(codes.start), first, values: self.values.len() });
        (self.expected, self.is_shared) = (codes, true);
    }

    /// Positions of the codes of the last event.
    fn codes_of_last(&self) -> Range<usize> {
        let Some(last) = self.events.last() else { return 0..0 };
        let start = last.codes as usize;
        start..start + (self.lens.len() - last.first as usize)
    }

    /// Adds the name of the next field to the last event.
    #[inline(never)]
    fn add_name<N: FieldName + ?Sized>(&mut self, name: &N) {
        let left = &self.codes[self.expected.clone()];
        let code = match left.first() {
            Some(code) if is_same(&self.names.names[*code as usize], name.text()) => *code,
            _ => self.names.intern(name),
        };
        let found = left.iter().take(MISSING_FIELDS_MAX).position(|known| *known == code);
        if self.is_shared && found == Some(0) {
            self.expected.start += 1;
            return;
        }
        if self.is_shared
            && let Some(last) = self.events.last_mut()
        {
            let shared = last.codes as usize..self.expected.start;
            last.codes = u32_of(self.codes.len());
            self.codes.extend_from_within(shared);
            self.is_shared = false;
        }
        self.codes.push(code);
        self.expected.start += found.map_or(0, |found| found + 1);
    }

    /// Appends fields of another batch or page, whose row `from` becomes row `to`.
    pub fn append(&mut self, run: FieldRun<'_>, from: usize, to: usize) {
        if run.is_empty() {
            return;
        }
        assert!(run.rows().all(|row| row as usize >= from), "no field belongs to a row before the first one");
        let mut code_of = vec![UNKNOWN_CODE; run.fields.names().len()];
        let mut first = self.lens.len();
        let (range, start) = (run.value_range(), self.values.len());
        // The last translated codes, and the position of their translation.
        let (mut shared, mut translated): (&[u32], usize) = (&[], 0);
        for event in run.events() {
            let row = u32_of(event.row as usize - from + to);
            // Only the first event of the run may be in the row of the last event. Its fields then complete that event.
            let is_continued = first == self.lens.len() && self.events.last().is_some_and(|last| last.row == row);
            if is_continued || !std::ptr::eq(event.codes.as_ptr(), shared.as_ptr()) || event.codes.len() > shared.len()
            {
                (shared, translated) = (event.codes, self.codes.len());
                if is_continued {
                    shared = &[];
                    self.codes.extend_from_within(self.codes_of_last());
                }
                let IndexedFields { codes, names, .. } = &mut *self;
                codes.extend(event.codes.iter().map(|code| {
                    let known = &mut code_of[*code as usize];
                    if *known == UNKNOWN_CODE {
                        *known = names.intern(&run.fields.names()[*code as usize]);
                    }
                    *known
                }));
            }
            match self.events.last_mut() {
                Some(last) if is_continued => last.codes = u32_of(translated),
                _ => self.events.push(EventPlace {
                    row,
                    codes: u32_of(translated),
                    first: u32_of(first),
                    values: event.values - range.start + start,
                }),
            }
            first += event.codes.len();
        }
        self.lens.extend_from_slice(&run.fields.lens[run.start..run.end]);
        self.values.push_str(&run.fields.values[range]);
        assert_eq!(self.lens.len(), first, "each field of an event has a value");
        let end = self.codes_of_last().end;
        // If the last event continues, it gets codes of its own.
        (self.expected, self.is_shared) = (end..end, true);
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Number of events that have fields.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Number of events with fields before a row.
    pub fn events_before(&self, row: usize) -> usize {
        self.events.partition_point(|event| (event.row as usize) < row)
    }

    /// The fields of an event, given its number among the events that have fields; `None` if there is no such event.
    #[inline]
    pub fn event(&self, number: usize) -> Option<EventFields<'_>> {
        (number < self.events.len()).then(|| self.event_between(number, 0..self.len()))
    }

    /// Those of the fields of an event that are at these positions.
    #[inline]
    fn event_between(&self, number: usize, positions: Range<usize>) -> EventFields<'_> {
        let EventPlace { row, codes, first, values } = self.events[number];
        let end = self.events.get(number + 1).map_or(self.len(), |next| next.first as usize);
        let (from, end) = ((first as usize).max(positions.start), end.min(positions.end));
        let start = codes as usize + from - first as usize;
        let values = values + self.bytes_of(first as usize..from);
        EventFields { fields: self, row, codes: &self.codes[start..start + end - from], first: from, values }
    }

    /// Bytes of the values at these positions.
    #[inline]
    fn bytes_of(&self, positions: Range<usize>) -> usize {
        self.lens[positions].iter().map(|len| *len as usize).sum()
    }

    /// Start of the value at a position; the end of all values if there is none.
    fn value_start(&self, at: usize) -> usize {
        match at < self.len() {
            true => self.event_between(self.event_at(at), at..at + 1).values,
            false => self.values.len(),
        }
    }

    /// Number of the event that has the field at a position.
    fn event_at(&self, at: usize) -> usize {
        self.events.partition_point(|event| event.first as usize <= at).saturating_sub(1)
    }

    /// The names that occur, in the order of their first field.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names.names
    }

    /// Bytes of all values.
    pub fn value_bytes(&self) -> usize {
        self.values.len()
    }

    /// Bytes of the largest field, name and value together, if it is larger than `limit`.
    pub fn longest_beyond(&self, limit: usize) -> Option<usize> {
        let names = self.names().iter().map(|name| name.len()).max().unwrap_or(0);
        let values = self.lens.iter().max().map_or(0, |len| *len as usize);
        // Names and values are usually so short that no field needs to be examined.
        if names + values <= limit {
            return None;
        }
        self.iter().map(|field| field.name.len() + field.value.len()).max().filter(|longest| *longest > limit)
    }

    /// All fields.
    pub fn all(&self) -> FieldRun<'_> {
        self.run(0..self.len())
    }

    /// The fields at these positions. Panics if a position is out of range, as slice indexing does.
    pub fn run(&self, positions: Range<usize>) -> FieldRun<'_> {
        assert!(positions.start <= positions.end && positions.end <= self.len(), "there are fields at these positions");
        FieldRun { fields: self, start: positions.start, end: positions.end }
    }

    /// The fields of these rows.
    pub fn of_rows(&self, rows: Range<usize>) -> FieldRun<'_> {
        self.all().of_rows(rows)
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldRef<'_>> + Clone {
        self.all().iter()
    }

    /// The field at a position. Panics if the position is out of range, as slice indexing does.
    pub fn get(&self, at: usize) -> FieldRef<'_> {
        self.field_of(self.event_at(at), at, self.value_start(at))
    }

    /// The field at a position, which belongs to this event, and whose value begins at `start`.
    #[inline]
    fn field_of(&self, event: usize, at: usize, start: usize) -> FieldRef<'_> {
        let EventPlace { row, codes, first, .. } = self.events[event];
        let code = self.codes[codes as usize + at - first as usize];
        let value = &self.values[start..start + self.lens[at] as usize];
        FieldRef { row, code, name: &self.names.names[code as usize], value }
    }

    /// Reserves room for the fields of this many more events, whose values have this many bytes.
    pub fn reserve(&mut self, events: usize, fields: usize, value_bytes: usize) {
        self.events.reserve(events);
        self.lens.reserve(fields);
        self.values.reserve(value_bytes);
    }

    /// Bytes of memory held for events, codes and values.
    pub fn capacity(&self) -> usize {
        let IndexedFields { events, codes, lens, values, .. } = self;
        size_of::<EventPlace>() * events.capacity() + 4 * (codes.capacity() + lens.capacity()) + values.capacity()
    }

    /// Removes all fields and names, and keeps the memory of events, codes and values.
    pub fn clear(&mut self) {
        let IndexedFields { events, codes, lens, values, names, expected, is_shared } = self;
        events.clear();
        codes.clear();
        lens.clear();
        values.clear();
        (*names, *expected, *is_shared) = (NameTable::default(), 0..0, false);
    }

    /// Like [`IndexedFields::clear`], but releases the memory if it has more than `most` bytes.
    pub fn clear_keeping(&mut self, most: usize) {
        match self.capacity() <= most {
            true => self.clear(),
            false => *self = IndexedFields::default(),
        }
    }
}

impl PartialEq for IndexedFields {
    fn eq(&self, other: &IndexedFields) -> bool {
        // Names are numbered in the order of their first field, so equal fields have equal codes.
        let mut events = self.all().events().zip(other.all().events());
        self.events.len() == other.events.len()
            && events.all(|(one, other)| (one.row, one.codes) == (other.row, other.codes))
            && self.lens == other.lens
            && self.values == other.values
            && self.names() == other.names()
    }
}

impl Eq for IndexedFields {}

impl fmt::Debug for IndexedFields {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all().fmt(out)
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Extend<(u32, N, V)> for IndexedFields {
    fn extend<I: IntoIterator<Item = (u32, N, V)>>(&mut self, fields: I) {
        fields.into_iter().for_each(|(row, name, value)| self.push(row, name.as_ref(), value.as_ref()));
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(u32, N, V)> for IndexedFields {
    fn from_iter<I: IntoIterator<Item = (u32, N, V)>>(from: I) -> IndexedFields {
        let mut fields = IndexedFields::default();
        fields.extend(from);
        fields
    }
}

/// Consecutive fields.
#[derive(Clone, Copy)]
pub struct FieldRun<'a> {
    fields: &'a IndexedFields,
    start: usize,
    end: usize,
}

impl<'a> FieldRun<'a> {
    /// Number of fields.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether there are no fields.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Rows of the events that have these fields.
    pub fn rows(self) -> impl Iterator<Item = u32> + Clone {
        let FieldRun { fields, .. } = self;
        self.event_numbers().map(move |number| fields.events[number].row)
    }

    /// The fields of each event.
    pub fn events(self) -> impl Iterator<Item = EventFields<'a>> + Clone {
        let FieldRun { fields, start, end } = self;
        self.event_numbers().map(move |number| fields.event_between(number, start..end))
    }

    /// Number of events that have these fields.
    pub fn event_count(self) -> usize {
        self.event_numbers().len()
    }

    fn event_numbers(self) -> Range<usize> {
        match self.is_empty() {
            true => 0..0,
            false => self.fields.event_at(self.start)..self.fields.event_at(self.end - 1) + 1,
        }
    }

    /// Names by code. Not all need to be names of these fields.
    pub fn names(self) -> &'a [Arc<str>] {
        self.fields.names()
    }

    /// Bytes of all values.
    pub fn value_bytes(self) -> usize {
        self.value_range().len()
    }

    fn value_range(self) -> Range<usize> {
        self.fields.value_start(self.start)..self.fields.value_start(self.end)
    }

    /// All values, one after the other.
    pub fn value_text(self) -> &'a str {
        &self.fields.values[self.value_range()]
    }

    /// Bytes of each value.
    pub fn value_lens(self) -> &'a [u32] {
        &self.fields.lens[self.start..self.end]
    }

    /// The fields in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = FieldRef<'a>> + Clone {
        FieldIter { left: self, event: self.event_numbers().start, value: self.value_range().start }
    }

    /// The fields that belong to these rows.
    pub fn of_rows(self, rows: Range<usize>) -> FieldRun<'a> {
        let FieldRun { fields, start, end } = self;
        let before = |row: usize| {
            let next = fields.events.get(fields.events_before(row));
            next.map_or(fields.len(), |event| event.first as usize).clamp(start, end)
        };
        let (start, end) = (before(rows.start), before(rows.end));
        FieldRun { fields, start, end: end.max(start) }
    }

    /// The first `count` fields, and the others. Panics if there are fewer fields, as for slices.
    pub fn split_at(self, count: usize) -> (FieldRun<'a>, FieldRun<'a>) {
        let middle = self.start + count;
        (self.fields.run(self.start..middle), FieldRun { start: middle, ..self })
    }
}

/// Iterator over fields.
#[derive(Clone)]
struct FieldIter<'a> {
    left: FieldRun<'a>,
    /// Number of the event that has the field before the next one, or the first field.
    event: usize,
    /// Start of the next value.
    value: usize,
}

impl<'a> Iterator for FieldIter<'a> {
    type Item = FieldRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<FieldRef<'a>> {
        let FieldRun { fields, start, end } = self.left;
        if start == end {
            return None;
        }
        let is_later = fields.events.get(self.event + 1).is_some_and(|next| next.first as usize <= start);
        self.event += usize::from(is_later);
        let field = fields.field_of(self.event, start, self.value);
        self.left.start += 1;
        self.value += field.value.len();
        Some(field)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.len(), Some(self.left.len()))
    }
}

impl ExactSizeIterator for FieldIter<'_> {}

impl fmt::Debug for FieldRun<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter().map(|field| (field.row, field.name, field.value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(fields: FieldRun<'_>) -> Vec<(u32, String, String)> {
        fields.iter().map(|field| (field.row, field.name.to_string(), field.value.to_owned())).collect()
    }

    /// Whether the table of names has exactly the names that occur, in the order of their first field.
    fn has_exact_names(fields: &IndexedFields) -> bool {
        let mut names: Vec<&Arc<str>> = Vec::new();
        for field in fields.iter() {
            if !names.contains(&field.name) {
                names.push(field.name);
            }
        }
        names.into_iter().eq(fields.names())
    }

    #[test]
    fn fields_keep_their_rows_names_and_values() {
        let given = [(0, "a", "größe"), (0, "b", ""), (0, "a", "2"), (3, "a", "x"), (3, "b", "y"), (7, "c", "z")];
        let fields: IndexedFields = given.into_iter().collect();
        let expected: Vec<_> = given.map(|(row, name, value)| (row, name.to_owned(), value.to_owned())).into();
        assert_eq!(listed(fields.all()), expected);
        assert_eq!((fields.len(), fields.value_bytes()), (6, 11));
        assert_eq!([7, 8, 9].map(|limit| fields.longest_beyond(limit)), [Some(8), None, None]);
        // The longest name and the longest value belong to different fields.
        let apart: IndexedFields = [(0, "long", "1"), (1, "a", "three")].into_iter().collect();
        assert_eq!([5, 6].map(|limit| apart.longest_beyond(limit)), [Some(6), None]);
        assert_eq!(fields.iter().map(|field| field.code).collect::<Vec<_>>(), [0, 1, 0, 0, 1, 2]);
        assert_eq!(listed(fields.of_rows(1..7)), expected[3..5]);
        assert_eq!(fields.of_rows(0..4).value_lens(), [7, 0, 1, 1, 1]);
        assert_eq!((fields.of_rows(3..8).value_text(), fields.all().value_text()), ("xyz", "größe2xyz"));
        assert_eq!((fields.get(0).value, fields.get(2).value, fields.get(4).value), ("größe", "2", "y"));
        // From the third field of row 0 to the first of row 3.
        let middle = fields.run(2..4).events();
        let middle: Vec<_> =
            middle.map(|event| (event.row, event.codes, event.first, event.values().collect::<Vec<_>>())).collect();
        assert_eq!(middle, [(0, &[0][..], 2, vec!["2"]), (3, &[0][..], 3, vec!["x"])]);
        assert_eq!(fields.of_rows(4..7).events().count(), 0);
        assert_eq!((fields.event_count(), fields.run(2..4).event_count(), fields.events_before(4)), (3, 2, 2));
        assert_eq!(fields.event(2).map(|event| (event.row, event.first)), Some((7, 5)));
        assert!(fields.event(3).is_none());
        assert_eq!(fields.of_rows(3..8).value_bytes(), 3);
        assert_eq!(listed(fields.of_rows(3..4).split_at(1).1), expected[4..5]);
        assert!(fields.of_rows(4..7).is_empty() && fields.of_rows(8..9).is_empty());
        assert_eq!(format!("{:?}", fields.of_rows(7..8)), r#"[(7, "c", "z")]"#);
    }

    #[test]
    fn cleared_fields_equal_new_ones() {
        let mut fields: IndexedFields = [(0, "a", "1"), (1, "b", "2")].into_iter().collect();
        fields.clear();
        assert!(fields.is_empty() && fields == IndexedFields::default() && fields.capacity() > 0);
        fields.push(0, "b", "3");
        assert_eq!((fields.get(0).code, fields.names().len()), (0, 1));
        let bytes = fields.capacity();
        fields.clear_keeping(bytes);
        assert_eq!((fields.len(), fields.capacity()), (0, bytes));
        fields.clear_keeping(bytes - 1);
        assert_eq!(fields.capacity(), 0);
    }

    #[test]
    fn a_shared_name_is_not_copied() {
        let name: Arc<str> = "name".into();
        let mut fields = IndexedFields::default();
        fields.push(0, &name, "1");
        fields.push(1, "name", "2");
        assert!(fields.iter().all(|field| Arc::ptr_eq(field.name, &name)));
        let mut copy = IndexedFields::default();
        copy.append(fields.all(), 0, 5);
        assert!(copy.iter().all(|field| Arc::ptr_eq(field.name, &name)) && copy.names().len() == 1);
    }

    #[test]
    fn consecutive_events_with_the_same_names_share_their_codes() {
        let mut fields = IndexedFields::default();
        for row in [0, 1] {
            fields.extend(["a", "b", "c", "d"].map(|name| (row, name, "")));
        }
        assert_eq!(fields.codes, [0, 1, 2, 3]);
        // In the previous event, "a" was followed by "d", so "d" is expected after "a".
        fields.extend(["a", "c"].map(|name| (2, name, "")));
        assert_eq!((&*fields.codes, fields.expected.clone()), (&[0, 1, 2, 3, 0, 2][..], 3..4));
        fields.extend([(3, "a", "")]);
        assert_eq!(fields.codes.len(), 6, "the first names of the event before are shared, too");
        for row in [4, 5] {
            fields.extend(["a", "b", "c", "d"].map(|name| (row, name, "")));
        }
        assert_eq!(fields.codes, [0, 1, 2, 3, 0, 2, 0, 1, 2, 3]);
        assert!(has_exact_names(&fields) && fields.names().len() == 4);
        let mut copy = IndexedFields::default();
        copy.append(fields.all(), 0, 0);
        assert!(copy == fields && copy.codes.len() == fields.codes.len());
        // The last event continues with fields that are appended, and then with one that is pushed.
        let more: IndexedFields = ["e", "a"].into_iter().map(|name| (0, name, "1")).collect();
        copy.append(more.all(), 0, 5);
        copy.push(5, "e", "2");
        fields.extend([(5, "e", "1"), (5, "a", "1"), (5, "e", "2")]);
        assert_eq!((&copy, listed(copy.all())), (&fields, listed(fields.all())));
        assert_eq!(fields.event(5).map(|event| event.codes), Some(&[0, 1, 2, 3, 4, 0, 4][..]));
    }

    #[test]
    #[should_panic(expected = "before the first one")]
    fn fields_of_earlier_rows_are_not_appended() {
        let fields: IndexedFields = [(2, "a", "1")].into_iter().collect();
        IndexedFields::default().append(fields.all(), 3, 0);
    }

    /// Names by number, more than are searched linearly.
    fn given() -> impl Strategy<Value = Vec<(u32, String, String)>> {
        let field = (0_u32..4, 0_usize..LINEAR_SEARCH_NAMES_MAX * 2, ".{0,3}");
        prop::collection::vec(field, 0..200).prop_map(|fields| {
            let mut row = 0;
            let fields = fields.into_iter().map(|(step, name, value)| {
                row += step.saturating_sub(2);
                (row, format!("n{name}"), value)
            });
            fields.collect()
        })
    }

    proptest! {
        #[test]
        fn fields_are_the_same_however_they_are_added(
            given in given(),
            cuts in (0_usize..100, 0_usize..100),
            shift in 0_usize..9,
        ) {
            let whole: IndexedFields = given.iter().cloned().collect();
            prop_assert_eq!(listed(whole.all()), given.clone());
            prop_assert!(has_exact_names(&whole));
            let (low, high) = (cuts.0.min(cuts.1), cuts.0.max(cuts.1));
            let mut parts = IndexedFields::default();
            for rows in [0..low, low..high, high..usize::MAX] {
                parts.append(whole.of_rows(rows), 0, 0);
            }
            prop_assert_eq!(&parts, &whole);
            let mut moved = IndexedFields::default();
            moved.append(whole.of_rows(low..high), low, shift);
            prop_assert!(has_exact_names(&moved));
            let inside = given.into_iter().filter(|field| (low..high).contains(&(field.0 as usize)));
            let expected: Vec<_> =
                inside.map(|(row, name, value)| ((row as usize - low + shift) as u32, name, value)).collect();
            prop_assert_eq!(listed(moved.all()), expected.clone());
            prop_assert_eq!(moved, expected.into_iter().collect::<IndexedFields>());
        }
    }
}
