//! Distinct values of a field, independent of its columns' types.
//!
//! A value is identified by its text, but numbers, addresses and decimals that a column stores as integers are kept as
//! integers; the text is made only for output. A text in one of these forms is also stored as an integer
//! ([`ValueForm`]), so that equal values match. Dictionary codes are translated once per dictionary.

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder, TimestampNanosecondArray};
use quarry_event::template::NumberFormat;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::decimal::Decimal;
use quarry_event::value::{Number, SortKey, parse_exact_number, sort_key, write_integer, write_nanos};
use quarry_stdx::number::{f64_of, low_u8, low_u32, low_u64, u8_of, u32_of};

use super::integers::{IntegerSet, IntegerTable, UNSET, bounds};
use super::keys::KeyTable;
use crate::rows::{ColumnReader, DictionaryColumn, write_address, write_decimal};

/// Maximum number of dictionaries whose translation is cached; the oldest is dropped.
const DICTIONARIES_MAX: usize = 8;
/// Number of values of another table that are looked up at a time.
const ABSORB_CHUNK_VALUES: usize = 8_192;
/// Integers, and decimals without their point, are stored as integers below this bound, otherwise as texts.
const INTEGER_BOUND: i64 = 10i64.pow(18);
/// Maximum number of decimal places of a decimal stored as an integer; with more, it is stored as a text.
const DECIMAL_DIGITS_MAX: usize = 9;
const POWERS_OF_TEN: [f64; DECIMAL_DIGITS_MAX + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Decimals whose units are below this bound are recovered exactly from their doubles.
const DOUBLE_DIGITS_BOUND: u64 = 10u64.pow(15);
/// Bound below which the magnitude of a double is formatted with an exponent.
const EXPONENT_BOUND: f64 = 1e-4;

/// A value in its stored form; equal texts always have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm<'a> {
    /// A canonically written integer.
    Integer(i64),
    /// An IPv4 address.
    Address(u32),
    /// Number of decimal places, and the decimal without its point.
    Decimal(u8, i64),
    /// Any other text.
    Text(&'a str),
}

impl<'a> ValueForm<'a> {
    /// Parses a text into its stored form.
    #[inline]
    pub(crate) fn of(text: &'a str) -> ValueForm<'a> {
        let bytes = text.as_bytes();
        if !bytes.first().is_some_and(|first| first.is_ascii_digit() || *first == b'-') {
            return ValueForm::Text(text);
        }
        if let Some(integer) = NumberFormat::Integer.parse(bytes) {
            return ValueForm::Integer(integer);
        }
        // In a decimal or an address, only digits precede the first point; an id is recognised by its first letter.
        let end = bytes.iter().skip(1).position(|byte| !byte.is_ascii_digit()).map(|place| place + 1);
        let Some(point) = end.filter(|end| bytes[*end] == b'.') else { return ValueForm::Text(text) };
        let digits = bytes.len() - point - 1;
        if (1..=DECIMAL_DIGITS_MAX).contains(&digits)
            && let Some(number) = (NumberFormat::Decimal { digits: u8_of(digits) }).parse(bytes)
        {
            return ValueForm::Decimal(u8_of(digits), number);
        }
        match NumberFormat::Ip4.parse(bytes) {
            Some(address) => ValueForm::Address(low_u32(address)),
            None => ValueForm::Text(text),
        }
    }

    /// The form of a double's text, without formatting it; `None` if it has too many digits, or an exponent.
    fn of_double(value: f64) -> Option<ValueForm<'a>> {
        let Decimal { units, scale } = Decimal::of_float(value).filter(|_| value.abs() >= EXPONENT_BOUND)?;
        let units = i64::try_from(units).ok().filter(|units| units.unsigned_abs() < DOUBLE_DIGITS_BOUND)?;
        if f64_of(units) / POWERS_OF_TEN.get(scale as usize)? != value {
            return None;
        }
        Some(if scale == 0 { ValueForm::Integer(units) } else { ValueForm::Decimal(low_u8(scale), units) })
    }

    /// The form of a decimal; `None` if it must be stored as text.
    fn of_decimal(number: i64, digits: u8) -> Option<ValueForm<'a>> {
        (number.unsigned_abs() < INTEGER_BOUND.cast_unsigned()).then_some(ValueForm::Decimal(digits, number))
    }
}

/// The form of a row's value, if the column stores it as a number.
fn stored_form(column: &ColumnReader, row: usize) -> Option<ValueForm<'static>> {
    match column {
        ColumnReader::Int(array) if array.is_valid(row) && is_short(array.value(row)) => {
            Some(ValueForm::Integer(array.value(row)))
        }
        ColumnReader::Address(array) if array.is_valid(row) => Some(ValueForm::Address(array.value(row))),
        ColumnReader::Decimal(array, digits) if array.is_valid(row) => ValueForm::of_decimal(array.value(row), *digits),
        ColumnReader::Float(array) if array.is_valid(row) => ValueForm::of_double(array.value(row)),
        ColumnReader::Mixed(mixed) => stored_form(&mixed.numbers, row),
        _ => None,
    }
}

/// Notation of a column's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerForm {
    /// As integers of at most 18 digits.
    Integer,
    /// As IPv4 addresses.
    Address,
}

/// Minimum and maximum; `None` if an integer is not [short](is_short).
pub(super) fn short_range(integers: &[i64]) -> Option<(i64, i64)> {
    bounds(integers).filter(|(low, high)| is_short(*low) && is_short(*high))
}

/// Whether an integer is stored as [`ValueForm::Integer`].
pub(super) fn is_short(integer: i64) -> bool {
    integer.unsigned_abs() < INTEGER_BOUND.cast_unsigned()
}

/// Data per code of the most recent dictionaries; a clone starts empty, so that it keeps no texts alive.
struct PerDictionary<T>(Vec<(ArrayRef, Vec<T>)>);

impl<T> Default for PerDictionary<T> {
    fn default() -> PerDictionary<T> {
        PerDictionary(Vec::new())
    }
}

impl<T> Clone for PerDictionary<T> {
    fn clone(&self) -> PerDictionary<T> {
        PerDictionary::default()
    }
}

impl<T: Clone> PerDictionary<T> {
    /// The data of this dictionary, initially `empty` for every code.
    fn of(&mut self, column: &DictionaryColumn, empty: T) -> &mut Vec<T> {
        let known = self.0.iter().position(|(values, _)| column.has_dictionary(values));
        match known {
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                self.0.truncate(DICTIONARIES_MAX - 1);
                self.0.insert(0, (column.values.clone(), vec![empty; column.texts.len()]));
            }
        }
        &mut self.0[0].1
    }
}

/// Number of texts per batch cached by their views. A view holds a short text or points into a buffer of its array, so
/// equal views within an array mean equal texts. Host names, for example, repeat with equal views.
const CACHED_VIEWS: usize = 64;

#[inline]
fn view_slot(view: u128) -> usize {
    /// Odd multiplier that spreads the bits of a view: 2^64 divided by the golden ratio.
    const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    low_u64(view ^ (view >> 64)).wrapping_mul(HASH_MULTIPLIER) as usize >> (usize::BITS - CACHED_VIEWS.trailing_zeros())
}

/// Stored form of a numbered value; a text is an index of `texts`.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Integer(i64),
    Address(u32),
    Decimal(u8, i64),
    Text(u32),
}

/// Values numbered in order of first appearance.
#[derive(Clone, Default)]
pub(crate) struct ValueTable {
    distinct: DistinctValues,
    dictionaries: PerDictionary<u32>,
}

#[derive(Clone, Default)]
struct DistinctValues {
    integers: IntegerTable,
    addresses: IntegerTable,
    decimals: Vec<(u8, IntegerTable)>,
    texts: KeyTable,
    /// Number of each text, by the index of the text.
    text_numbers: Vec<u32>,
    origins: Vec<Origin>,
}

fn add(origins: &mut Vec<Origin>, origin: Origin) -> u32 {
    let number = u32_of(origins.len());
    origins.push(origin);
    number
}

impl DistinctValues {
    #[inline]
    fn number(&mut self, kind: ValueForm<'_>) -> u32 {
        let origins = &mut self.origins;
        match kind {
            ValueForm::Integer(integer) => self.integers.entry(integer, |value| add(origins, Origin::Integer(value))),
            ValueForm::Address(address) => {
                self.addresses.entry(i64::from(address), |value| add(origins, Origin::Address(low_u32(value))))
            }
            ValueForm::Decimal(digits, number) => {
                let table = decimals_of(&mut self.decimals, digits);
                table.entry(number, |value| add(origins, Origin::Decimal(digits, value)))
            }
            ValueForm::Text(text) => {
                let at = self.texts.intern(text.as_bytes());
                self.number_of_text(at)
            }
        }
    }

    /// The number of the text at an index, which is assigned if the text is new.
    fn number_of_text(&mut self, at: u32) -> u32 {
        if at as usize == self.text_numbers.len() {
            self.text_numbers.push(add(&mut self.origins, Origin::Text(at)));
        }
        self.text_numbers[at as usize]
    }

    /// The numbers of values. Texts are looked up in bulk.
    fn numbers<'k>(&mut self, kinds: impl Iterator<Item = ValueForm<'k>>) -> Vec<u32> {
        let count = kinds.size_hint().0;
        let (mut numbers, mut positions, mut texts) =
            (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
        for (position, kind) in kinds.enumerate() {
            numbers.push(match kind {
                ValueForm::Text(text) => {
                    positions.push(position);
                    texts.push(text.as_bytes());
                    UNSET
                }
                kind => self.number(kind),
            });
        }
        let mut found = Vec::with_capacity(texts.len());
        self.texts.intern_all(&texts, &mut found);
        // Indices of new texts ascend.
        positions.into_iter().zip(found).for_each(|(position, at)| numbers[position] = self.number_of_text(at));
        numbers
    }

    fn text(&mut self, text: &str) -> u32 {
        self.number(ValueForm::of(text))
    }

    fn form(&self, number: usize) -> ValueForm<'_> {
        match self.origins[number] {
            Origin::Integer(integer) => ValueForm::Integer(integer),
            Origin::Address(address) => ValueForm::Address(address),
            Origin::Decimal(digits, number) => ValueForm::Decimal(digits, number),
            Origin::Text(at) => ValueForm::Text(text_of(&self.texts, at as usize)),
        }
    }
}

fn decimals_of<T: Default>(decimals: &mut Vec<(u8, T)>, digits: u8) -> &mut T {
    let at = decimals.iter().position(|(known, _)| *known == digits).unwrap_or(decimals.len());
    if at == decimals.len() {
        decimals.push((digits, T::default()));
    }
    &mut decimals[at].1
}

fn text_of(texts: &KeyTable, at: usize) -> &str {
    std::str::from_utf8(texts.key(at)).unwrap_or_default()
}

fn write_form(kind: ValueForm<'_>, out: &mut String) {
    match kind {
        ValueForm::Integer(integer) => write_integer(integer, out),
        ValueForm::Address(address) => write_address(address, out),
        ValueForm::Decimal(digits, number) => write_decimal(number, digits, out),
        ValueForm::Text(text) => out.push_str(text),
    }
}

impl ValueTable {
    /// Bytes of a value of [`ValueTable::append_integers`].
    pub(super) const INTEGER_BYTES: usize = size_of::<Origin>();

    /// Prepares for this many new values.
    pub(super) fn reserve(&mut self, count: usize) {
        self.distinct.origins.reserve_exact(count);
    }

    /// Assigns numbers to integers that the table does not have; lookups will not find these integers.
    pub(super) fn append_integers(&mut self, form: IntegerForm, values: &[i64]) {
        let origin_of = |value: &i64| match form {
            IntegerForm::Integer => Origin::Integer(*value),
            IntegerForm::Address => Origin::Address(low_u32(*value)),
        };
        self.distinct.origins.extend(values.iter().map(origin_of));
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.distinct.origins.len()
    }

    /// Appends the numbers of integers of the same form that all lie within `range`.
    pub(super) fn numbers_of_integers<T: Copy + Into<i64>>(
        &mut self,
        form: IntegerForm,
        values: &[T],
        range: (i64, i64),
        out: &mut Vec<u32>,
    ) {
        let DistinctValues { integers, addresses, origins, .. } = &mut self.distinct;
        match form {
            IntegerForm::Integer => integers.entries(values, range, out, |value| add(origins, Origin::Integer(value))),
            IntegerForm::Address => {
                addresses.entries(values, range, out, |value| add(origins, Origin::Address(low_u32(value))));
            }
        }
    }

    pub(crate) fn number_of(&mut self, text: &str) -> u32 {
        self.distinct.text(text)
    }

    /// Appends the text of a value.
    pub(crate) fn write(&self, number: u32, out: &mut String) {
        write_form(self.distinct.form(number as usize), out);
    }

    /// The automatic sort key of a value.
    pub(super) fn sort_key(&self, number: u32, scratch: &mut String) -> SortKey<'_> {
        match self.distinct.form(number as usize) {
            ValueForm::Integer(integer) => SortKey::Number(Number::Int(integer)),
            ValueForm::Address(address) => SortKey::Address(address),
            ValueForm::Text(text) => sort_key(text),
            decimal @ ValueForm::Decimal(..) => {
                scratch.clear();
                write_form(decimal, scratch);
                parse_exact_number(scratch).map_or(SortKey::Text(""), SortKey::Number)
            }
        }
    }

    /// Appends the text of a value to a column.
    pub(crate) fn append(&self, number: u32, scratch: &mut String, column: &mut StringViewBuilder) {
        if let ValueForm::Text(text) = self.distinct.form(number as usize) {
            return column.append_value(text);
        }
        scratch.clear();
        self.write(number, scratch);
        column.append_value(&scratch);
    }

    /// The numbers of a column's values, [`UNSET`] for nulls. Not for multivalues.
    pub(crate) fn numbers(&mut self, column: &ColumnReader, out: &mut Vec<u32>) {
        out.clear();
        out.reserve(column.len());
        match column {
            ColumnReader::Null(rows) => out.resize(*rows, UNSET),
            ColumnReader::Dictionary(column) => self.numbers_of_codes(column, out),
            ColumnReader::Int(array)
                if array.null_count() == 0
                    && let Some(range) = short_range(array.values()) =>
            {
                self.numbers_of_integers(IntegerForm::Integer, array.values(), range, out);
            }
            ColumnReader::Int(array) => out.extend(array.iter().map(|value| match value {
                None => UNSET,
                Some(value) if is_short(value) => self.distinct.number(ValueForm::Integer(value)),
                Some(value) => self.distinct.text(&value.to_string()),
            })),
            ColumnReader::Address(array) if array.null_count() == 0 => {
                let range = bounds(array.values()).unwrap_or_default();
                self.numbers_of_integers(IntegerForm::Address, array.values(), range, out);
            }
            ColumnReader::Time(array) => self.numbers_of_times(array, out),
            ColumnReader::Text(array) => self.numbers_of_texts(array, out),
            _ => self.numbers_by_row(column, out),
        }
    }

    fn numbers_by_row(&mut self, column: &ColumnReader, out: &mut Vec<u32>) {
        let mut scratch = String::new();
        for row in 0..column.len() {
            out.push(match stored_form(column, row) {
                Some(kind) => self.distinct.number(kind),
                None => column.text(row, &mut scratch).map_or(UNSET, |text| self.distinct.text(text)),
            });
        }
    }

    fn numbers_of_codes(&mut self, column: &DictionaryColumn, out: &mut Vec<u32>) {
        let numbers = self.dictionaries.of(column, UNSET);
        let distinct = &mut self.distinct;
        if column.is_complete() {
            out.extend(column.codes.values().iter().map(|code| {
                let slot = &mut numbers[*code as usize];
                if *slot == UNSET {
                    *slot = distinct.text(column.texts.value(*code as usize));
                }
                *slot
            }));
            return;
        }
        out.extend((0..column.codes.len()).map(|row| {
            let Some(code) = column.code(row) else { return UNSET };
            if numbers[code] == UNSET {
                numbers[code] = distinct.text(column.texts.value(code));
            }
            numbers[code]
        }));
    }

    /// Numbers of timestamps; a run of equal timestamps, such as the start of a span, is looked up once.
    fn numbers_of_times(&mut self, times: &TimestampNanosecondArray, out: &mut Vec<u32>) {
        let mut last = (0, UNSET);
        out.extend(times.values().iter().enumerate().map(|(row, time)| {
            if times.is_null(row) {
                return UNSET;
            }
            if last.1 == UNSET || last.0 != *time {
                last = (*time, self.number_of_time(*time));
            }
            last.1
        }));
    }

    /// The number of an instant.
    pub(super) fn number_of_time(&mut self, time: i64) -> u32 {
        if time % NS_PER_SEC == 0 {
            return self.distinct.number(ValueForm::Integer(time / NS_PER_SEC));
        }
        let mut text = String::new();
        write_nanos(time, &mut text);
        self.distinct.text(&text)
    }

    fn numbers_of_texts(&mut self, texts: &StringViewArray, out: &mut Vec<u32>) {
        // Rows with equal views share one lookup.
        let (mut known, mut asked) = ([(0u128, UNSET); CACHED_VIEWS], Vec::new());
        out.extend(texts.views().iter().enumerate().map(|(row, view)| {
            if texts.is_null(row) {
                return UNSET;
            }
            let (seen, place) = &mut known[view_slot(*view)];
            if *place == UNSET || seen != view {
                (*seen, *place) = (*view, u32_of(asked.len()));
                asked.push(row);
            }
            *place
        }));
        let numbers = self.distinct.numbers(asked.into_iter().map(|row| ValueForm::of(texts.value(row))));
        out.iter_mut().filter(|place| **place != UNSET).for_each(|place| *place = numbers[*place as usize]);
    }

    /// Merges the values of another table and returns, for each of them, its number in this table.
    pub(crate) fn absorb(&mut self, other: &ValueTable) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(other.len());
        for start in (0..other.len()).step_by(ABSORB_CHUNK_VALUES) {
            let some = start..other.len().min(start + ABSORB_CHUNK_VALUES);
            numbers.extend(self.distinct.numbers(some.map(|number| other.distinct.form(number))));
        }
        numbers
    }

    /// Approximate bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let distinct = &self.distinct;
        let decimals: usize = distinct.decimals.iter().map(|(_, table)| table.bytes()).sum();
        distinct.integers.bytes()
            + distinct.addresses.bytes()
            + decimals
            + distinct.texts.bytes()
            + distinct.text_numbers.capacity() * size_of::<u32>()
            + distinct.origins.capacity() * size_of::<Origin>()
            + self.dictionaries.0.iter().map(|(_, numbers)| numbers.len() * size_of::<u32>()).sum::<usize>()
    }
}

/// A set of values without numbers.
#[derive(Clone, Default)]
pub(crate) struct ValueSet {
    integers: IntegerSet,
    addresses: IntegerSet,
    decimals: Vec<(u8, IntegerSet)>,
    texts: KeyTable,
    seen: PerDictionary<bool>,
}

impl ValueSet {
    /// Adds a text.
    pub(crate) fn insert(&mut self, text: &str) {
        self.insert_form(ValueForm::of(text));
    }

    fn insert_form(&mut self, kind: ValueForm<'_>) {
        match kind {
            ValueForm::Integer(integer) => self.integers.insert(integer),
            ValueForm::Address(address) => self.addresses.insert(i64::from(address)),
            ValueForm::Decimal(digits, number) => decimals_of(&mut self.decimals, digits).insert(number),
            ValueForm::Text(text) => {
                self.texts.intern(text.as_bytes());
            }
        }
    }

    /// Adds the values of a column; not for multivalues.
    pub(crate) fn insert_all(&mut self, column: &ColumnReader) {
        match column {
            ColumnReader::Int(array)
                if array.null_count() == 0
                    && let Some(range) = short_range(array.values()) =>
            {
                self.integers.extend_within(array.values(), range);
            }
            ColumnReader::Int(array) if array.iter().flatten().all(is_short) => {
                let integers: Vec<i64> = array.iter().flatten().collect();
                self.integers.extend_from(&integers);
            }
            ColumnReader::Address(array) => {
                let wide: Vec<i64> = array.iter().flatten().map(i64::from).collect();
                self.addresses.extend_from(&wide);
            }
            ColumnReader::Decimal(array, digits) if array.iter().flatten().all(is_short) => {
                let numbers: Vec<i64> = array.iter().flatten().collect();
                decimals_of(&mut self.decimals, *digits).extend_from(&numbers);
            }
            ColumnReader::Float(array) => {
                let mut text = String::new();
                for (row, number) in array.iter().enumerate() {
                    match number.and_then(ValueForm::of_double) {
                        Some(form) => self.insert_form(form),
                        None => column.text(row, &mut text).into_iter().for_each(|text| self.insert(text)),
                    }
                }
            }
            ColumnReader::Dictionary(column) => self.insert_codes(column),
            ColumnReader::Mixed(mixed) => {
                self.insert_all(&mixed.numbers);
                self.insert_texts(&mixed.texts);
            }
            ColumnReader::Text(texts) => self.insert_texts(texts),
            _ => {
                let mut scratch = String::new();
                for row in 0..column.len() {
                    if let Some(text) = column.text(row, &mut scratch) {
                        self.insert(text);
                    }
                }
            }
        }
    }

    fn insert_texts(&mut self, texts: &StringViewArray) {
        let (mut known, mut asked) = ([None; CACHED_VIEWS], Vec::new());
        for (row, view) in texts.views().iter().enumerate() {
            let seen = &mut known[view_slot(*view)];
            if texts.is_valid(row) && *seen != Some(*view) {
                *seen = Some(*view);
                match ValueForm::of(texts.value(row)) {
                    ValueForm::Text(text) => asked.push(text.as_bytes()),
                    kind => self.insert_form(kind),
                }
            }
        }
        self.texts.intern_all(&asked, &mut Vec::new());
    }

    fn insert_codes(&mut self, column: &DictionaryColumn) {
        let (mut new, mut asked) = (Vec::new(), Vec::new());
        let seen = self.seen.of(column, false);
        let mut note = |code: usize| {
            if !seen[code] {
                seen[code] = true;
                new.push(code);
            }
        };
        match column.is_complete() {
            true => column.codes.values().iter().for_each(|code| note(*code as usize)),
            false => (0..column.codes.len()).filter_map(|row| column.code(row)).for_each(note),
        }
        for code in new {
            match ValueForm::of(column.texts.value(code)) {
                ValueForm::Text(text) => asked.push(text.as_bytes()),
                kind => self.insert_form(kind),
            }
        }
        self.texts.intern_all(&asked, &mut Vec::new());
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        let decimals: usize = self.decimals.iter().map(|(_, set)| set.len()).sum();
        self.integers.len() + self.addresses.len() + decimals + self.texts.len()
    }

    /// Calls `found` with the text of each value.
    pub(crate) fn for_each(&self, mut found: impl FnMut(&str)) {
        let mut scratch = String::new();
        let mut write = |kind: ValueForm<'_>| {
            scratch.clear();
            write_form(kind, &mut scratch);
            found(&scratch);
        };
        self.integers.for_each(|value| write(ValueForm::Integer(value)));
        self.addresses.for_each(|value| write(ValueForm::Address(low_u32(value))));
        self.decimals.iter().for_each(|(digits, set)| set.for_each(|value| write(ValueForm::Decimal(*digits, value))));
        (0..self.texts.len()).for_each(|at| found(text_of(&self.texts, at)));
    }

    /// Adds the values of another set.
    pub(crate) fn absorb(&mut self, other: &ValueSet) {
        self.integers.absorb(&other.integers);
        self.addresses.absorb(&other.addresses);
        for (digits, set) in &other.decimals {
            decimals_of(&mut self.decimals, *digits).absorb(set);
        }
        for start in (0..other.texts.len()).step_by(ABSORB_CHUNK_VALUES) {
            let some = start..other.texts.len().min(start + ABSORB_CHUNK_VALUES);
            let keys: Vec<&[u8]> = some.map(|at| other.texts.key(at)).collect();
            self.texts.intern_all(&keys, &mut Vec::new());
        }
    }

    /// Approximate bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let decimals: usize = self.decimals.iter().map(|(_, set)| set.bytes()).sum();
        let seen: usize = self.seen.0.iter().map(|(_, seen)| seen.len()).sum();
        self.integers.bytes() + self.addresses.bytes() + decimals + self.texts.bytes() + seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_forms_reproduce_their_texts() {
        for (text, expected) in [
            ("868229", ValueForm::Integer(868_229)),
            ("-5", ValueForm::Integer(-5)),
            ("007", ValueForm::Text("007")),
            ("-0", ValueForm::Text("-0")),
            ("1.0", ValueForm::Decimal(1, 10)),
            ("8.70", ValueForm::Decimal(2, 870)),
            ("-0.5", ValueForm::Decimal(1, -5)),
            ("-0.0", ValueForm::Text("-0.0")),
            ("10.0.0.1", ValueForm::Address(0x0a00_0001)),
            ("010.0.0.1", ValueForm::Text("010.0.0.1")),
            ("1234567890123456789", ValueForm::Integer(1_234_567_890_123_456_789)),
            ("4611686018427387904", ValueForm::Text("4611686018427387904")),
            ("1e3", ValueForm::Text("1e3")),
            ("", ValueForm::Text("")),
        ] {
            assert_eq!(ValueForm::of(text), expected, "{text}");
            let mut written = String::new();
            write_form(expected, &mut written);
            assert_eq!(written, text);
        }
    }

    #[test]
    fn forms_of_doubles_equal_those_of_their_texts() {
        let doubles =
            [0.0, -0.0, 1.0, -2.5, 103.65, 0.0001, 0.00009, 0.1 + 0.2, 1.0 / 3.0, 1e15, 123456789012.345, 1e-300];
        for value in doubles.into_iter().chain([f64::NAN, f64::INFINITY]) {
            let text = quarry_event::value::format_number(value);
            if let Some(form) = ValueForm::of_double(value) {
                assert_eq!(form, ValueForm::of(&text), "{value}");
            }
        }
        assert_eq!(ValueForm::of_double(103.65), Some(ValueForm::Decimal(2, 10_365)));
        assert_eq!(ValueForm::of_double(7.0), Some(ValueForm::Integer(7)));
    }
}
