//! Chooses the representation of the values of a leaf (a column without templates): numbers, a dictionary, templates,
//! or texts.
//!
//! The first of these that fits is chosen: numbers of one fixed format, a dictionary, decimals of different numbers of
//! places, templates, texts. A number format must fit all values; dictionaries and templates fit if there are few
//! distinct texts or templates. Numbers with units are templates rather than a dictionary, unless there are very few
//! distinct values. Decimals of different numbers of places come after dictionaries, because few distinct values are
//! grouped faster by code than as doubles. Values that have too many templates when split into words are split like
//! whole events if this yields few templates.

use quarry_event::template::NumberFormat;

use super::dictionary::{Interner, TextList};
use super::quantities::{Quantities, are_quantities};
use super::splitter::{Splitter, count_templates};
use super::variables::{Variable, split_event, split_layout, split_words};

/// Maximum depth of a column whose values are split into words.
const WORDS_DEPTH_MAX: u8 = 1;
/// Maximum depth of a column whose values are split by a common layout.
const LAYOUT_DEPTH_MAX: u8 = 2;
/// Maximum depth of a column whose values are divided into numbers and units.
const QUANTITY_DEPTH_MAX: u8 = 2;
/// Maximum number of values examined to count templates.
const SAMPLE_VALUES: usize = 4_096;
/// Maximum number of distinct texts of a dictionary: one per `VALUES_PER_DISTINCT` values, but at least
/// `DISTINCT_TEXTS_ALWAYS` and at most `DISTINCT_TEXTS_MAX`.
const DISTINCT_TEXTS_ALWAYS: usize = 64;
const VALUES_PER_DISTINCT: usize = 8;
/// A dictionary may have one text per `VALUES_PER_DISTINCT_AT_FIRST` values if nearly all of its texts occur early: at
/// most one in `VALUES_PER_NEW_TEXT` values of the second half is new.
const VALUES_PER_DISTINCT_AT_FIRST: usize = 4;
const VALUES_PER_NEW_TEXT: usize = 16;
const DISTINCT_TEXTS_MAX: usize = 32_768;
/// Maximum number of distinct texts of a dictionary that is made when the column is complete; with more texts, most are
/// so rare that reading the dictionary takes longer than reading the page with such a text.
const LATE_DISTINCT_TEXTS_MAX: usize = 4_096;
/// Maximum number of templates: one per `VALUES_PER_TEMPLATE` values, and at most `TEMPLATES_MAX`.
const VALUES_PER_TEMPLATE: usize = 16;
const TEMPLATES_MAX: usize = 1_024;
/// Maximum bytes of a value with a layout.
const LAYOUT_BYTES_MAX: usize = 256;

/// The chosen representation, with the converted values for numbers and dictionaries.
pub(super) enum ChosenRepresentation {
    Numbers(NumberFormat, Vec<i64>),
    Dictionary(Interner, Vec<u32>),
    Split(Splitter),
    Texts,
}

/// Chooses the representation of a column's values; `depth` is as in `Column`: the number of template columns above the
/// column, or a large number if it is not to be split.
pub(super) fn choose_representation(texts: &TextList, depth: u8, no_dictionary: bool) -> ChosenRepresentation {
    if texts.len() == 0 {
        return ChosenRepresentation::Texts;
    }
    if let Some((format, numbers)) = try_numbers(texts) {
        return ChosenRepresentation::Numbers(format, numbers);
    }
    let are_quantities = depth <= QUANTITY_DEPTH_MAX && are_quantities(texts);
    if !no_dictionary && let Some((interner, codes)) = try_dictionary(texts, are_quantities) {
        return ChosenRepresentation::Dictionary(interner, codes);
    }
    if let Some(format) = NumberFormat::shortest(texts.iter())
        && let Ok(numbers) = parse_all(texts, format)
    {
        return ChosenRepresentation::Numbers(format, numbers);
    }
    if are_quantities {
        return ChosenRepresentation::Split(Splitter::Quantities(Quantities::default()));
    }
    if depth <= LAYOUT_DEPTH_MAX
        && let Some(splitter) = try_layout(texts)
    {
        return ChosenRepresentation::Split(splitter);
    }
    if depth <= WORDS_DEPTH_MAX {
        let step = texts.len().div_ceil(SAMPLE_VALUES);
        let sample = texts.len() / step;
        let limit = (sample / VALUES_PER_TEMPLATE).min(TEMPLATES_MAX);
        let fits = |find_variables: fn(&[u8], &mut Vec<Variable>)| {
            count_templates(texts.iter().step_by(step), find_variables, limit) <= limit
        };
        if fits(split_words) {
            return ChosenRepresentation::Split(Splitter::Words);
        }
        // In log lines within JSON strings, words without digits, such as the values of pairs, also vary.
        // Values that recur are left whole: they may get a dictionary when the column is complete.
        let are_distinct = dictionary_of(texts, texts.len() / 2).is_none();
        if are_distinct && fits(split_event) {
            return ChosenRepresentation::Split(Splitter::Message);
        }
    }
    ChosenRepresentation::Texts
}

/// The number format that all values have, and their numbers.
fn try_numbers(texts: &TextList) -> Option<(NumberFormat, Vec<i64>)> {
    let first = texts.get(0);
    let digits = u8::try_from(first.len()).ok()?;
    let guess = NumberFormat::guess(first)?;
    let mut tried = vec![guess];
    let (mut numbers, odd) = match parse_all(texts, guess) {
        Ok(numbers) => return Some((guess, numbers)),
        Err(odd) => (Vec::new(), odd),
    };
    let others = [
        NumberFormat::guess(texts.get(odd)),
        Some(NumberFormat::Padded { digits }),
        Some(NumberFormat::Hex { digits }),
    ];
    for format in others.into_iter().flatten().filter(|format| format.is_valid()) {
        if tried.contains(&format) {
            continue;
        }
        tried.push(format);
        if let Ok(found) = parse_all(texts, format) {
            numbers = found;
            return Some((format, numbers));
        }
    }
    debug_assert!(numbers.is_empty());
    None
}

/// All texts as numbers, or the index of the first text that does not parse.
fn parse_all(texts: &TextList, format: NumberFormat) -> Result<Vec<i64>, usize> {
    let mut numbers = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        numbers.push(format.parse(text).ok_or(at)?);
    }
    Ok(numbers)
}

/// The dictionary of the values, if they are few; of quantities, only if they are very few.
fn try_dictionary(texts: &TextList, are_quantities: bool) -> Option<(Interner, Vec<u32>)> {
    let limit = |values_per_distinct: usize| match are_quantities {
        true => DISTINCT_TEXTS_ALWAYS,
        false => DISTINCT_TEXTS_ALWAYS.max(texts.len() / values_per_distinct).min(DISTINCT_TEXTS_MAX),
    };
    let (interner, codes) = dictionary_of(texts, limit(VALUES_PER_DISTINCT_AT_FIRST))?;
    // Codes are numbered in the order of their first occurrence.
    let second_half = &codes[codes.len() / 2..];
    let early = codes[..codes.len() / 2].iter().max().map_or(0, |code| *code as usize + 1);
    let is_complete = (interner.len() - early) * VALUES_PER_NEW_TEXT <= second_half.len();
    (interner.len() <= limit(VALUES_PER_DISTINCT) || is_complete).then_some((interner, codes))
}

/// The dictionary of a complete column of texts. The first values may have had too many distinct texts for a
/// dictionary, while later values added few new ones: of a thousand paths, most of them rare, half may occur early.
pub(super) fn dictionary_of_all(texts: &TextList) -> Option<(Interner, Vec<u32>)> {
    dictionary_of(texts, (texts.len() / VALUES_PER_DISTINCT).min(LATE_DISTINCT_TEXTS_MAX))
}

/// The distinct texts and the code of each text; `None` if there are more than `limit`.
fn dictionary_of(texts: &TextList, limit: usize) -> Option<(Interner, Vec<u32>)> {
    let mut interner = Interner::new();
    let mut codes = Vec::with_capacity(texts.len());
    for at in 0..texts.len() {
        codes.push(interner.intern(&texts.bytes, texts.range(at)));
        if interner.len() > limit {
            return None;
        }
    }
    Some((interner, codes))
}

/// The layout that all values have: one length, the same bytes between hexadecimal digits.
fn try_layout(texts: &TextList) -> Option<Splitter> {
    let first = texts.get(0);
    if first.len() > LAYOUT_BYTES_MAX {
        return None;
    }
    let (mut variables, mut other) = (Vec::new(), Vec::new());
    split_layout(first, &mut variables)?;
    for text in texts.iter() {
        other.clear();
        if text.len() != first.len() {
            return None;
        }
        split_layout(text, &mut other)?;
        let mut at = 0;
        for variable in &variables {
            if text[at..variable.start] != first[at..variable.start] {
                return None;
            }
            at = variable.end;
        }
        if other != variables || text[at..] != first[at..] {
            return None;
        }
    }
    Some(Splitter::Layout { text: first.to_vec(), variables })
}
