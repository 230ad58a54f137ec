//! Index-time fields as columns.
//!
//! A value costs 16 bytes and its text, and no allocation of its own. Names are codes of a table. The table has exactly
//! the names that occur, in the order of their first field, so that equal names have equal codes, and equal fields have
//! equal columns however they were added.

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
    rows: Vec<u32>,
    codes: Vec<u32>,
    /// End offset of each value in `values`.
    ends: Vec<usize>,
    values: String,
    names: NameTable,
    /// Position of the first field of the last event.
    event_start: usize,
    /// Position of a field of the event before the last one. The next field to be added probably has the name of that
    /// field.
    expected: usize,
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
        if self.rows.last() != Some(&row) {
            (self.expected, self.event_start) = (self.event_start, self.rows.len());
        }
        let code = self.code_of(name);
        self.rows.push(row);
        self.codes.push(code);
        self.values.push_str(value);
        self.ends.push(self.values.len());
    }

    /// Code of the name of the next field. Events of one source have mostly the same names in the same order.
    fn code_of<N: FieldName + ?Sized>(&mut self, name: &N) -> u32 {
        let expected = self.codes[self.expected..self.event_start].first();
        if let Some(code) = expected
            && is_same(&self.names.names[*code as usize], name.text())
        {
            self.expected += 1;
            return *code;
        }
        let code = self.names.intern(name);
        let left = &self.codes[self.expected..self.event_start];
        if let Some(missing) = left.iter().take(MISSING_FIELDS_MAX).position(|known| *known == code) {
            self.expected += missing + 1;
        }
        code
    }

    /// Appends fields of another batch or page, whose row `from` becomes row `to`.
    pub fn append(&mut self, run: FieldRun<'_>, from: usize, to: usize) {
        if run.is_empty() {
            return;
        }
        assert!(run.rows().iter().all(|row| *row as usize >= from), "no field belongs to a row before the first one");
        let most = run.rows().iter().max().map_or(from, |row| *row as usize);
        assert!(u32::try_from(most - from + to).is_ok(), "the number of a row fits in 32 bits");
        self.rows.extend(run.rows().iter().map(|row| (*row as usize - from + to) as u32));
        let mut codes = vec![UNKNOWN_CODE; run.fields.names().len()];
        let IndexedFields { codes: own_codes, names, .. } = &mut *self;
        own_codes.extend(run.codes().iter().map(|code| {
            let known = &mut codes[*code as usize];
            if *known == UNKNOWN_CODE {
                *known = names.intern(&run.fields.names()[*code as usize]);
            }
            *known
        }));
        let (bytes, start) = (run.value_range(), self.values.len());
        self.ends.extend(run.fields.ends[run.start..run.end].iter().map(|end| end - bytes.start + start));
        self.values.push_str(&run.fields.values[bytes]);
        assert_eq!(
            (self.codes.len(), self.ends.len()),
            (self.rows.len(), self.rows.len()),
            "columns have equal lengths"
        );
        let last = self.rows.last().copied();
        self.event_start = self.rows.iter().rposition(|row| Some(*row) != last).map_or(0, |before| before + 1);
        self.expected = self.event_start;
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names that occur, in the order of their first field.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names.names
    }

    /// Bytes of all values.
    pub fn value_bytes(&self) -> usize {
        self.values.len()
    }

    /// Bytes of the largest field, name and value together.
    pub fn longest(&self) -> usize {
        let name_lens = self.codes.iter().map(|code| self.names.names[*code as usize].len());
        name_lens.zip(self.all().value_lens()).map(|(name, value)| name + value).max().unwrap_or(0)
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
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = FieldRef<'_>> + ExactSizeIterator + Clone {
        self.all().iter()
    }

    /// The field at a position. Panics if the position is out of range, as slice indexing does.
    #[inline]
    pub fn get(&self, at: usize) -> FieldRef<'_> {
        let code = self.codes[at];
        let start = self.value_start(at);
        let (name, value) = (&self.names.names[code as usize], &self.values[start..self.ends[at]]);
        FieldRef { row: self.rows[at], code, name, value }
    }

    #[inline]
    fn value_start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.ends[at - 1] }
    }

    /// Reserves room for this many more fields, whose values have this many bytes.
    pub fn reserve(&mut self, fields: usize, value_bytes: usize) {
        self.rows.reserve(fields);
        self.codes.reserve(fields);
        self.ends.reserve(fields);
        self.values.reserve(value_bytes);
    }

    /// Bytes of memory held for rows, codes and values.
    pub fn capacity(&self) -> usize {
        let IndexedFields { rows, codes, ends, values, .. } = self;
        (rows.capacity() + codes.capacity()) * 4 + ends.capacity() * 8 + values.capacity()
    }

    /// Removes all fields and names, and keeps the memory of rows, codes and values.
    pub fn clear(&mut self) {
        let IndexedFields { rows, codes, ends, values, names, event_start, expected } = self;
        rows.clear();
        codes.clear();
        ends.clear();
        values.clear();
        (*names, *event_start, *expected) = (NameTable::default(), 0, 0);
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
        self.rows == other.rows
            && self.codes == other.codes
            && self.ends == other.ends
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

    /// Row of each field.
    pub fn rows(self) -> &'a [u32] {
        &self.fields.rows[self.start..self.end]
    }

    /// Code of each field's name.
    pub fn codes(self) -> &'a [u32] {
        &self.fields.codes[self.start..self.end]
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

    /// Bytes of each value.
    pub fn value_lens(self) -> impl Iterator<Item = usize> {
        let mut start = self.value_range().start;
        let ends = self.fields.ends[self.start..self.end].iter();
        ends.map(move |end| end - std::mem::replace(&mut start, *end))
    }

    /// The fields in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = FieldRef<'a>> + ExactSizeIterator + Clone {
        let FieldRun { fields, start, end } = self;
        (start..end).map(move |at| fields.get(at))
    }

    /// The fields that belong to these rows.
    pub fn of_rows(self, rows: Range<usize>) -> FieldRun<'a> {
        let before = |row: usize| self.start + self.rows().partition_point(|at| (*at as usize) < row);
        let (start, end) = (before(rows.start), before(rows.end));
        FieldRun { fields: self.fields, start, end: end.max(start) }
    }

    /// The first `count` fields, and the others. Panics if there are fewer fields, as for slices.
    pub fn split_at(self, count: usize) -> (FieldRun<'a>, FieldRun<'a>) {
        let middle = self.start + count;
        (self.fields.run(self.start..middle), FieldRun { start: middle, ..self })
    }
}

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
        assert_eq!((fields.len(), fields.value_bytes(), fields.longest()), (6, 11, 8));
        assert_eq!(fields.iter().map(|field| field.code).collect::<Vec<_>>(), [0, 1, 0, 0, 1, 2]);
        assert_eq!(listed(fields.of_rows(1..7)), expected[3..5]);
        assert_eq!(fields.of_rows(0..4).value_lens().collect::<Vec<_>>(), [7, 0, 1, 1, 1]);
        assert_eq!(fields.of_rows(3..8).value_lens().sum::<usize>(), fields.of_rows(3..8).value_bytes());
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
    fn names_missing_from_an_event_do_not_disturb_the_expected_order() {
        let mut fields = IndexedFields::default();
        fields.extend(["a", "b", "c", "d"].map(|name| (0, name, "")));
        fields.extend(["a", "c"].map(|name| (1, name, "")));
        // The last event had "a" and "c"; after "a", the event before it continued with "d" at position 3.
        assert_eq!((fields.event_start, fields.expected), (4, 3));
        fields.extend(["a", "b", "c", "d"].map(|name| (2, name, "")));
        assert_eq!((fields.event_start, fields.expected), (6, 6));
        assert!(has_exact_names(&fields) && fields.names().len() == 4);
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
