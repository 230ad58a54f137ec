//! Templates: how the texts of a slab are composed of templates, variables and columns.
//!
//! Column 0 is the text of every event. A column consists of *templates* (literal bytes and variables, each variable
//! being another column), a *dictionary*, *numbers* in one format, or plain *texts*. A template column stores the
//! template number of each value; the values of a variable's column belong, in order, to those values of the parent
//! column whose template contains the variable. Texts are rebuilt by filling templates. A field that equals one
//! variable is thereby stored as a column. A text that fits no other template belongs to a template with a single
//! variable for the whole text.
//!
//! Not here: splitting texts and storing columns (bucket); mapping fields to variables (scan).

mod address;
mod byte_set;
mod forms;
mod number;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::bytes::Bytes;
use quarry_stdx::number::u32_of;

pub use address::{IP4_TEXT_BYTES, ip4_at_start, ip4_text, ip4_text_len};
pub use byte_set::ByteSet;
pub use number::{NumberFormat, TimeLayout};

/// Number of the text column.
pub const TEXT_COLUMN: u32 = 0;
/// Maximum number of templates of a slab, over all columns; further texts are stored as plain texts.
pub const MAX_TEMPLATES: usize = 4_096;
/// Maximum number of columns of a slab; beyond it, values are not divided further.
pub const MAX_COLUMNS: usize = 4_096;
/// Maximum number of search-time fields whose values a slab stores; further fields are not stored. Each field has at
/// most two columns and two templates, or a template per code, which do not count towards [`MAX_COLUMNS`] and
/// [`MAX_TEMPLATES`].
pub const MAX_STORED_EXTRACTIONS: usize = 256;
/// Maximum number of names of the search-time fields of a slab ([`ExtractedNames`]); if there are more, no names are
/// stored.
pub const MAX_EXTRACTED_NAMES: usize = 1_024;
/// Maximum number of codes, over all stored search-time fields of a slab, for values that are parts of the texts
/// ([`TextParts`]).
pub const MAX_PART_CODES: usize = 8_192;
/// Maximum number of sequences of parts of a slab, in total over the stored search-time fields that have a sequence for
/// each template of the texts ([`TextParts`]).
pub const MAX_PARTS_BY_TEMPLATE: usize = 1 << 17;
/// Maximum nesting depth of template columns, including the text column.
pub const MAX_TEMPLATE_DEPTH: usize = 4;

/// Templates and columns of one slab: its texts and, in further columns without a parent, its index-time fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateSet {
    /// Column 0 is the whole text; every other column comes after its parent. The other columns without a parent,
    /// and their descendants, are those of the index-time fields, followed by those of the stored search-time fields.
    pub columns: Vec<Column>,
    /// Value counts of columns with few distinct values.
    pub counts: BTreeMap<u32, ValueCounts>,
    /// Index-time fields that have a column.
    pub fields: Vec<FieldColumn>,
    /// Search-time fields whose values are stored.
    pub extractions: Vec<StoredExtraction>,
    /// The names of all search-time fields that rules take from the texts, if known.
    pub extracted_names: Option<ExtractedNames>,
}

/// An index-time field with a column of its own. The column has a value for each event with exactly one value of the
/// field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldColumn {
    /// Field name.
    pub name: Arc<str>,
    /// The column: a dictionary, numbers or texts.
    pub column: u32,
}

/// A search-time field of a slab whose values, or their positions in the texts, compaction has stored, because the
/// templates do not locate them. Certain rules extract the values; a search with other rules does not use the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExtraction {
    /// Field name.
    pub name: Arc<str>,
    /// Digest of the rules by which the sources of the slab extract the field ([`ExtractedField::rules`]).
    pub rules: u128,
    /// Location of the values.
    pub values: StoredValues,
}

/// Location of the values of a stored search-time field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValues {
    /// No event has the field.
    Absent,
    /// In this column: a dictionary, numbers or texts. The column has a value in each event that has the field.
    Column(u32),
    /// In this column, like [`StoredValues::Column`]; the values of an event are joined by [`VALUE_SEPARATOR`].
    Lists(u32),
    /// Most values are parts of the text, and stored there only.
    Parts(TextParts),
}

/// Values that are mostly parts of the texts: a code for each event identifies the parts that make up its value. If the
/// parts are the same in all events of a template, the template of the text is the code, and nothing else is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextParts {
    /// The column of codes, which has a code in each event: a template column without a parent. Its templates only
    /// number the codes; they are not the values. If the template of the text is the code, the text column.
    pub codes: u32,
    /// The column of the values that are not parts of the text, a child of `codes`; `None` if there are no such values.
    pub own: Option<u32>,
    /// For each code the parts of the text that make up or contain the value, or `None` if events with this code lack
    /// the field. A variable is a column of the texts, or `own`.
    pub parts: Arc<[Option<ValueParts>]>,
    /// Whether some events have several values: the values of an event are separated by [`VALUE_SEPARATOR`], which is
    /// in the literals.
    pub is_list: bool,
}

/// Literals and variables that make up a value, or the variable that contains it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueParts {
    /// The literals and variables; a single variable unless `slice` is [`TextSlice::Whole`].
    pub parts: Box<[TemplatePart]>,
    /// The bytes of their text that are the value.
    pub slice: TextSlice,
}

impl From<Vec<TemplatePart>> for ValueParts {
    fn from(parts: Vec<TemplatePart>) -> ValueParts {
        ValueParts { parts: parts.into(), slice: TextSlice::Whole }
    }
}

/// The bytes of a text that are a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextSlice {
    /// All.
    Whole,
    /// All but this many bytes at the start.
    From(u32),
    /// This many bytes at the start.
    First(u32),
    /// The bytes before the first occurrence of this ASCII character.
    Until(u8),
    /// The bytes after the first occurrence of this ASCII character.
    After(u8),
}

impl TextSlice {
    /// The value in a text; `None` if the text is too short or lacks the character.
    pub fn of(self, text: &[u8]) -> Option<&[u8]> {
        match self {
            TextSlice::Whole => Some(text),
            TextSlice::From(bytes) => text.get(bytes as usize..),
            TextSlice::First(bytes) => text.get(..bytes as usize),
            TextSlice::Until(byte) => memchr::memchr(byte, text).map(|at| &text[..at]),
            TextSlice::After(byte) => memchr::memchr(byte, text).map(|at| &text[at + 1..]),
        }
    }
}

impl StoredValues {
    /// The column with values that need not be in the text, if such a column exists.
    pub fn own_column(&self) -> Option<u32> {
        match self {
            StoredValues::Absent => None,
            StoredValues::Column(column) | StoredValues::Lists(column) => Some(*column),
            StoredValues::Parts(parts) => parts.own,
        }
    }

    /// The first column of the field, not counting a column that only shows which events have a value; `None` if the
    /// field has no column of its own.
    pub fn first_column(&self) -> Option<u32> {
        match self {
            StoredValues::Absent => None,
            StoredValues::Column(column) | StoredValues::Lists(column) => Some(*column),
            StoredValues::Parts(parts) => (parts.codes != TEXT_COLUMN).then_some(parts.codes),
        }
    }
}

/// The names of all search-time fields in the events of a slab, as far as rules take names from the texts: any other
/// field of an event comes from a rule that names the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedNames {
    /// Digest of the rules that take names from the texts, computed like the digest [`ExtractedField::rules`] of a
    /// field that no other rule produces.
    pub rules: u128,
    /// The names, ascending and distinct. Some names may not occur.
    pub names: Arc<[Arc<str>]>,
}

/// Result of extracting fields from the events of a slab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extraction {
    /// Fields whose values can be stored.
    pub fields: Vec<ExtractedField>,
    /// The names of all fields; `None` if no rule takes names from the texts, or the names are too many.
    pub names: Option<ExtractedNames>,
}

/// Separates the values of one event in [`StoredValues::Lists`] and in lists of parts ([`TextParts::is_list`]); no
/// value contains it.
pub const VALUE_SEPARATOR: char = SEPARATOR_BYTE as char;
/// [`VALUE_SEPARATOR`] as a byte.
pub const SEPARATOR_BYTE: u8 = 0;

/// The values of a search-time field in the events of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedField {
    /// Field name.
    pub name: Arc<str>,
    /// Digest of the rules that extract the field from events of each of the slab's sources.
    pub rules: u128,
    /// The events that have the field: row numbers in the slab, ascending.
    pub rows: Vec<u32>,
    /// End offset in `bytes` of the value of each of `rows`.
    pub ends: Vec<u32>,
    /// The values, one after another; valid UTF-8.
    pub bytes: Vec<u8>,
    /// Whether some events have several values: the values of each event are joined by [`VALUE_SEPARATOR`].
    pub is_list: bool,
    /// Whether searches would have to read the texts for the field. Such fields are stored before others.
    pub is_slow: bool,
}

impl TemplateSet {
    /// The columns that texts consist of; the columns of index-time and stored search-time fields come after them.
    pub fn text_columns(&self) -> &[Column] {
        let others = self.columns.iter().skip(1).position(|column| column.parent.is_none());
        &self.columns[..others.map_or(self.columns.len(), |others| others + 1)]
    }

    /// The column of an index-time field; `None` if the field has no column.
    pub fn field_column(&self, name: &str) -> Option<u32> {
        self.fields.iter().find(|field| *field.name == *name).map(|field| field.column)
    }

    /// Whether a column contains the values of an index-time field, or of a stored search-time field, that some events
    /// lack.
    pub fn is_partial_field_column(&self, column: u32) -> bool {
        let values = |column: u32| self.columns.get(column as usize).map_or(0, |column| column.values);
        (self.is_field_column(column) || self.is_extraction_column(column)) && values(column) < values(TEXT_COLUMN)
    }

    /// Whether a column contains the values of an index-time field.
    pub fn is_field_column(&self, column: u32) -> bool {
        self.fields.iter().any(|field| field.column == column)
    }

    /// The stored values of a search-time field that these rules extract ([`ExtractedField::rules`]); `None` if no such
    /// values are stored.
    pub fn extraction(&self, name: &str, rules: u128) -> Option<&StoredValues> {
        let stored = self.extractions.iter().find(|stored| stored.rules == rules && *stored.name == *name);
        stored.map(|stored| &stored.values)
    }

    /// Whether a column contains the values of a stored search-time field. The text of an event need not contain these
    /// values, and then no term leads to them.
    pub fn is_extraction_column(&self, column: u32) -> bool {
        self.extractions.iter().any(|stored| stored.values.own_column() == Some(column))
    }
}

/// Number of occurrences of each distinct value of a column in each page of the slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueCounts {
    /// The values counted.
    values: CountedValues,
    /// Counts page by page, with one count per value.
    counts: Arc<[u16]>,
}

/// The distinct values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountedValues {
    /// Templates or dictionary texts, of which there are this many; each value is given by its number.
    Codes(u32),
    /// Numbers in ascending order.
    Numbers(Arc<[i64]>),
}

impl CountedValues {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            CountedValues::Codes(codes) => *codes as usize,
            CountedValues::Numbers(numbers) => numbers.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ValueCounts {
    /// Creates counts from `counts`, which has one count per value, page by page.
    pub fn new(values: CountedValues, counts: Arc<[u16]>) -> ValueCounts {
        ValueCounts { values, counts }
    }

    /// The distinct values.
    pub fn values(&self) -> &CountedValues {
        &self.values
    }

    /// Whether the counts of a page agree with these values of the page.
    pub fn matches_page(&self, page: usize, values: &ColumnValues) -> bool {
        let mut left: Vec<i64> = self.page_counts(page).iter().map(|count| i64::from(*count)).collect();
        let mut found = |place: Option<usize>| match place.and_then(|place| left.get_mut(place)) {
            Some(count) => *count -= 1,
            None => left.push(1),
        };
        match (values, &self.values) {
            (ColumnValues::Codes(codes), CountedValues::Codes(_)) => {
                codes.iter().for_each(|code| found(Some(*code as usize)));
            }
            (ColumnValues::Numbers(numbers), CountedValues::Numbers(known)) => {
                numbers.iter().for_each(|number| found(known.binary_search(number).ok()));
            }
            _ => return values.is_empty(),
        }
        left.iter().all(|count| *count == 0)
    }

    /// Count of each value in a page; empty if the page does not exist.
    pub fn page_counts(&self, page: usize) -> &[u16] {
        let len = self.values.len();
        self.counts.get(page * len..(page + 1) * len).unwrap_or_default()
    }
}

/// One column of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The template column whose templates contain this column; `None` for column 0, and for those columns of
    /// index-time fields and stored search-time fields that have a value in every event.
    pub parent: Option<u32>,
    /// Kind of values.
    pub kind: ColumnKind,
    /// Facts that apply to every value in the slab.
    pub traits: ValueTraits,
    /// Number of values in the whole slab.
    pub values: u64,
}

/// Kind of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Each value is one of these templates, filled from the columns of its variables.
    Templates(Arc<[Template]>),
    /// Each value is one of `len` texts, numbered in ascending byte order.
    Dictionary {
        /// Distinct texts.
        len: u32,
    },
    /// Each value is a number in this format.
    Numbers {
        /// The format; it maps numbers to texts one to one.
        format: NumberFormat,
        /// Smallest number.
        min: i64,
        /// Largest number.
        max: i64,
    },
    /// Each value is stored as plain text.
    Texts,
}

/// Literals and variables; a value is the concatenation of their texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// The parts in order. No two literals are adjacent, no literal is empty, and no column occurs twice.
    pub parts: Vec<TemplatePart>,
}

/// Part of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    /// Literal bytes.
    Literal(Box<[u8]>),
    /// The value of this column.
    Variable(u32),
}

impl Template {
    /// Whether this column is one of the template's variables.
    pub fn has_variable(&self, column: u32) -> bool {
        self.variables().any(|variable| variable == column)
    }

    /// The columns of the template's variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(column) => Some(*column),
            TemplatePart::Literal(_) => None,
        })
    }
}

/// Facts that apply to every value of a column, which answer some questions without reading any value.
///
/// These are bounds: the sets may contain bytes that do not occur, and all values may be longer than `min_len` or
/// shorter than `max_len`, but no value violates a bound. For numbers and templates, the bounds follow from the format
/// alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueTraits {
    /// Bytes that may occur in a value; all other bytes never occur.
    pub bytes: ByteSet,
    /// Possible first bytes of a value.
    pub firsts: ByteSet,
    /// Possible last bytes of a value.
    pub lasts: ByteSet,
    /// Lower bound for the length of a value, in bytes.
    pub min_len: u32,
    /// Upper bound for the length of a value, in bytes.
    pub max_len: u32,
    /// Whether each value can be the whole content of a JSON string ([`is_string_content`]); `false` means unknown.
    pub string_contents: bool,
    /// Whether each value is a single JSON scalar ([`is_json_scalar`]); `false` means unknown.
    pub json_scalars: bool,
    /// All values, ascending, if there are few; `None` if there are many or they are unknown.
    pub value_set: Option<Arc<[Box<str>]>>,
    /// A text with which every value begins; empty if there is no such text, or it is unknown.
    pub prefix: Box<str>,
    /// Bytes that may occur after the prefix. Without a prefix, this set is empty and has no meaning.
    pub after_prefix: ByteSet,
    /// The forms of the values, if they say more than the bounds. They follow from the column's templates, if these are
    /// few, from its number format, or from its prefix. Every value has one of the forms.
    pub forms: Option<Arc<[ValueForm]>>,
}

/// Literals and variables of which some values of a column consist; a variable is given by traits in place of its
/// column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueForm {
    /// The parts in order. The first part is a literal or a variable that is never empty, so that no value of this form
    /// is empty.
    pub parts: Vec<FormPart>,
}

/// Part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormPart {
    /// Literal bytes.
    Literal(Box<[u8]>),
    /// A value with these traits.
    Variable(ValueTraits),
}

/// Whether a text can be the whole content of a JSON string: every quote is escaped, and every escape is valid and
/// complete. Control characters and lone surrogates are accepted.
pub fn is_string_content(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += found;
        if text[at] == b'"' {
            return false;
        }
        match json_escape_len(&text[at..]) {
            Some(len) => at += len,
            None => return false,
        }
    }
    true
}

/// Length of the JSON escape with which a text begins; `None` if the escape is invalid or incomplete.
pub fn json_escape_len(text: &[u8]) -> Option<usize> {
    match text {
        [b'\\', b'n' | b't' | b'r' | b'b' | b'f' | b'"' | b'\\' | b'/', ..] => Some(2),
        [b'\\', b'u', hex @ ..] => hex.get(..4)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// Whether a text is exactly one string, number or word of JSON, without blanks. The content of strings is checked by
/// [`is_string_content`].
pub fn is_json_scalar(text: &[u8]) -> bool {
    match text {
        [b'"', inside @ .., b'"'] => is_string_content(inside),
        b"null" | b"true" | b"false" => true,
        [b'-' | b'0'..=b'9', ..] => is_json_number(text),
        _ => false,
    }
}

fn is_json_number(text: &[u8]) -> bool {
    let digits_of = |text: &[u8]| {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then_some(digits)
    };
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let Some(whole) = digits_of(unsigned).filter(|digits| *digits == 1 || unsigned[0] != b'0') else {
        return false;
    };
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let Some(digits) = digits_of(fraction) else { return false };
        rest = &fraction[digits..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let Some(digits) = digits_of(exponent) else { return false };
        rest = &exponent[digits..];
    }
    rest.is_empty()
}

impl ValueTraits {
    /// Traits of the rest of a value after [`ValueTraits::prefix`]; the rest may be empty.
    pub fn rest(&self) -> ValueTraits {
        let prefix = u32::try_from(self.prefix.len()).unwrap_or(u32::MAX);
        ValueTraits {
            bytes: self.after_prefix,
            firsts: self.after_prefix,
            lasts: self.lasts,
            min_len: self.min_len.saturating_sub(prefix),
            max_len: self.max_len.saturating_sub(prefix),
            ..ValueTraits::default()
        }
    }

    /// Widens the bounds to include a value. `first` is true for the first value of the column.
    pub fn add(&mut self, value: &[u8], first: bool) {
        (self.value_set, self.forms) = (None, None);
        (self.prefix, self.after_prefix) = (Box::default(), ByteSet::EMPTY);
        self.bytes.insert_all(value);
        if let ([head, ..], [.., last]) = (value, value) {
            self.firsts.insert(*head);
            self.lasts.insert(*last);
        }
        let len = u32_of(value.len());
        self.min_len = if first { len } else { self.min_len.min(len) };
        self.max_len = self.max_len.max(len);
    }
}

/// Distinct texts in ascending byte order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// Concatenated texts, each valid UTF-8.
    pub bytes: Bytes,
    /// End of each text in `bytes`.
    pub ends: Vec<u32>,
}

impl Dictionary {
    /// The dictionary of these texts, which are distinct and ascend.
    pub fn of_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Dictionary {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for text in texts {
            bytes.extend_from_slice(text);
            ends.push(u32_of(bytes.len()));
        }
        Dictionary { bytes: bytes.into(), ends }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Text number `code`. Panics if there is no such text, as slice indexing does.
    #[inline]
    pub fn get(&self, code: u32) -> &[u8] {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// All texts, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..u32_of(self.len())).map(|code| self.get(code))
    }

    /// Number of this text; `None` if the dictionary does not contain it.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        let at = self.lower_bound(text);
        ((at as usize) < self.len() && self.get(at) == text).then_some(at)
    }

    /// Number of the first text that is not less than `text`.
    pub fn lower_bound(&self, text: &[u8]) -> u32 {
        let (mut low, mut high) = (0, u32_of(self.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < text { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The values of one column in one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageColumn {
    /// Rows of the page that have a value, ascending; `None` if all rows have a value.
    pub rows: Option<Arc<[u32]>>,
    /// One value for each of these rows.
    pub values: ColumnValues,
}

impl PageColumn {
    /// The row of the value at an index.
    #[inline]
    pub fn row_at(&self, index: usize) -> u32 {
        self.rows.as_ref().map_or_else(|| u32_of(index), |rows| rows[index])
    }

    /// Index of a row's value.
    #[inline]
    pub fn value_index(&self, row: u32) -> Option<usize> {
        match &self.rows {
            None => Some(row as usize),
            Some(rows) => rows.binary_search(&row).ok(),
        }
    }
}

/// Lengths of the texts of a column in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEnds {
    /// Rows of the page that have a text, ascending; `None` if all rows have a text.
    pub rows: Option<Arc<[u32]>>,
    /// End of each of these texts in their concatenation.
    pub ends: Vec<u32>,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValues {
    /// Numbers of templates or dictionary texts.
    Codes(Vec<u32>),
    /// Numbers.
    Numbers(Vec<i64>),
    /// Concatenated texts, each valid UTF-8.
    Texts {
        /// All texts.
        bytes: Bytes,
        /// End of each text in `bytes`.
        ends: Vec<u32>,
    },
}

impl ColumnValues {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            ColumnValues::Codes(codes) => codes.len(),
            ColumnValues::Numbers(numbers) => numbers.len(),
            ColumnValues::Texts { ends, .. } => ends.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Text number `at`; `None` if the values are not texts, or if there are not so many.
    #[inline]
    pub fn text(&self, at: usize) -> Option<&[u8]> {
        let ColumnValues::Texts { bytes, ends } = self else { return None };
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| *end as usize);
        bytes.get(start..*ends.get(at)? as usize)
    }
}

/// Concatenated texts of some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// All texts, each valid UTF-8.
    pub bytes: Bytes,
    /// End of each text in `bytes`.
    pub ends: Vec<u32>,
}

impl Texts {
    /// Text number `at`. Panics if there is no such text, as slice indexing does.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }
}
