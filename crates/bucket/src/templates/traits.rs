//! Value traits of a column, derived from its representation.
//!
//! Traits of dictionaries and texts are exact, because every text is examined. Traits of numbers follow from format
//! and range, traits of templates from their parts. The traits of numbers and templates are bounds: they may include
//! bytes that do not occur, a smaller minimum length and a larger maximum length.

use memchr::memchr_iter;
use quarry_event::template::{
    ByteSet, NumberFormat, Template, TemplatePart, TimeLayout, ValueTraits, is_json_scalar, is_string_content,
};
use quarry_stdx::number::u32_of;

use super::SlabColumn;
use super::dictionary::TextList;

const DIGITS: ByteSet = ByteSet::of(b"0123456789");
const HEX: ByteSet = ByteSet::of(b"0123456789abcdef");
const MONTH_LETTERS: ByteSet = ByteSet::of(b"JanFebMarAprMayJunJulAugSepOctNovDec");

/// Maximum number of texts that a value set lists.
pub(crate) const VALUE_SET_MAX: usize = 16;
/// Maximum total bytes of the texts that a value set lists.
pub(crate) const VALUE_SET_BYTES_MAX: usize = 128;

/// Minimum bytes of the prefix of a column's values; a shorter prefix is not stored.
const PREFIX_BYTES_MIN: usize = 2;
/// Maximum bytes of the prefix of a column's values; a longer prefix is truncated.
pub(crate) const PREFIX_BYTES_MAX: usize = 32;

/// Number of texts whose bytes after the prefix are listed first. They mostly have all bytes that any text has there.
const SAMPLED_TEXTS: usize = 256;

/// Exact traits of the texts of a dictionary, which are distinct and ascend.
pub(super) fn dictionary_traits(texts: &TextList) -> ValueTraits {
    let is_few = texts.ends.len() <= VALUE_SET_MAX && texts.bytes.len() <= VALUE_SET_BYTES_MAX;
    let each = || texts.iter().map(|text| std::str::from_utf8(text).ok().map(Box::from));
    let traits = text_traits(texts);
    match is_few.then(|| each().collect()).flatten() {
        // A list of all values says more than their prefix.
        Some(value_set) => {
            ValueTraits { value_set: Some(value_set), prefix: Box::default(), after_prefix: ByteSet::EMPTY, ..traits }
        }
        None => traits,
    }
}

/// Exact traits of these texts.
pub(super) fn text_traits(texts: &TextList) -> ValueTraits {
    let bytes = bytes_of(&texts.bytes);
    let mut traits = ValueTraits { bytes, min_len: u32::MAX, ..ValueTraits::default() };
    let mut start = 0;
    for end in &texts.ends {
        let len = end - start;
        if len > 0 {
            traits.firsts.insert(texts.bytes[start as usize]);
            traits.lasts.insert(texts.bytes[*end as usize - 1]);
        }
        traits.min_len = traits.min_len.min(len);
        traits.max_len = traits.max_len.max(len);
        start = *end;
    }
    traits.min_len = traits.min_len.min(traits.max_len);
    traits.prefix = common_prefix(texts);
    if !traits.prefix.is_empty() {
        // For values such as `0x1f`, this shows that only digits follow the prefix `0x`, although `x` is a byte of the
        // values.
        traits.after_prefix = bytes_after(&traits.prefix, texts, bytes);
    }
    let has_escapes = traits.bytes.contains(b'"') || traits.bytes.contains(b'\\');
    traits.string_contents = !has_escapes || texts.iter().all(is_string_content);
    traits.json_scalars = texts.iter().all(is_json_scalar);
    traits
}

/// The bytes that occur in this text.
fn bytes_of(text: &[u8]) -> ByteSet {
    let mut seen = [false; 256];
    text.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let mut bytes = ByteSet::EMPTY;
    (0..=255u8).filter(|byte| seen[usize::from(*byte)]).for_each(|byte| bytes.insert(byte));
    bytes
}

/// The bytes that occur after the prefix of these texts, whose bytes are `all`.
fn bytes_after(prefix: &str, texts: &TextList, all: ByteSet) -> ByteSet {
    let mut after = ByteSet::EMPTY;
    texts.iter().take(SAMPLED_TEXTS).for_each(|text| after.insert_all(&text[prefix.len()..]));
    let sampled = after;
    for byte in all.iter().filter(|byte| !sampled.contains(*byte)) {
        // A byte that all texts together have more often than their prefixes is also after one of these.
        let in_prefixes = memchr_iter(byte, prefix.as_bytes()).count() * texts.len();
        if in_prefixes == 0 || memchr_iter(byte, &texts.bytes).count() > in_prefixes {
            after.insert(byte);
        }
    }
    after
}

/// The common prefix of these texts, cut to whole characters. Empty if the prefix is a single byte, because the set of
/// first bytes says as much.
fn common_prefix(texts: &TextList) -> Box<str> {
    let mut all = texts.iter();
    let Some(mut prefix) = all.next().map(|text| &text[..text.len().min(PREFIX_BYTES_MAX)]) else {
        return Box::default();
    };
    for text in all {
        let len = prefix.iter().zip(text).take_while(|(one, other)| one == other).count();
        prefix = &prefix[..len];
        if len < PREFIX_BYTES_MIN {
            return Box::default();
        }
    }
    let valid = prefix.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    if valid.len() < PREFIX_BYTES_MIN { Box::default() } else { valid.into() }
}

/// Traits of numbers in this format.
pub(super) fn number_traits(format: NumberFormat, min: i64, max: i64) -> ValueTraits {
    let exact = |bytes: ByteSet, firsts: ByteSet, lasts: ByteSet, len: u32| ValueTraits {
        bytes,
        firsts,
        lasts,
        min_len: len,
        max_len: len,
        string_contents: true,
        json_scalars: false,
        value_set: None,
        prefix: Box::default(),
        after_prefix: ByteSet::EMPTY,
        forms: None,
    };
    match format {
        NumberFormat::Integer => signed_number_traits(min, max, DIGITS, 0),
        NumberFormat::Decimal { digits } => {
            signed_number_traits(min, max, DIGITS.union(ByteSet::of(b".")), usize::from(digits))
        }
        NumberFormat::Shortest { digits } => {
            let unit = 10i64.pow(u32::from(digits.min(18)));
            let whole = signed_number_traits(min / unit, max / unit, DIGITS, 0);
            let decimal = signed_number_traits(min, max, DIGITS.union(ByteSet::of(b".")), usize::from(digits));
            ValueTraits { min_len: whole.min_len, ..decimal }
        }
        NumberFormat::Padded { digits } => exact(DIGITS, DIGITS, DIGITS, u32::from(digits)),
        NumberFormat::Hex { digits } => exact(HEX, HEX, HEX, u32::from(digits)),
        NumberFormat::Ip4 => {
            let bytes = DIGITS.union(ByteSet::of(b"."));
            ValueTraits { bytes, min_len: 7, max_len: 15, ..exact(bytes, DIGITS, DIGITS, 0) }
        }
        NumberFormat::Time(TimeLayout::Iso { between, point, digits, zulu }) => {
            let mut bytes = DIGITS.union(ByteSet::of(b"-:"));
            bytes.insert(between);
            let mut len = 19 + u32::from(zulu);
            if digits > 0 {
                bytes.insert(point);
                len += 1 + u32::from(digits);
            }
            let lasts = if zulu { ByteSet::of(b"Z") } else { DIGITS };
            exact(bytes.union(lasts), DIGITS, lasts, len)
        }
        NumberFormat::Time(TimeLayout::Common) => {
            exact(DIGITS.union(MONTH_LETTERS).union(ByteSet::of(b"/:")), DIGITS, DIGITS, 20)
        }
        NumberFormat::Time(TimeLayout::Clock) => exact(DIGITS.union(ByteSet::of(b":")), DIGITS, DIGITS, 8),
    }
}

/// Traits of numbers that may have a sign and have `fraction` digits after a point; without a point if `fraction` is 0.
fn signed_number_traits(min: i64, max: i64, bytes: ByteSet, fraction: usize) -> ValueTraits {
    let len = |number: i64| {
        let digits = number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
        let digits = if fraction > 0 { digits.max(fraction + 1) + 1 } else { digits };
        u32_of(digits + usize::from(number < 0))
    };
    // The number nearest to zero has the fewest digits.
    let shortest = if min > 0 {
        len(min)
    } else if max < 0 {
        len(max)
    } else {
        len(0)
    };
    let sign = if min < 0 { ByteSet::of(b"-") } else { ByteSet::EMPTY };
    ValueTraits {
        bytes: bytes.union(sign),
        firsts: DIGITS.union(sign),
        lasts: DIGITS,
        min_len: shortest,
        max_len: len(min).max(len(max)),
        string_contents: true,
        json_scalars: true,
        value_set: None,
        prefix: Box::default(),
        after_prefix: ByteSet::EMPTY,
        forms: None,
    }
}

/// Traits of filled templates, derived from the traits of their variables' columns. Only the JSON traits are taken from
/// `known`, because they were determined from the values themselves.
pub(super) fn template_traits(templates: &[Template], columns: &[SlabColumn], known: &ValueTraits) -> ValueTraits {
    let ValueTraits { string_contents, json_scalars, .. } = *known;
    let mut all = ValueTraits { min_len: u32::MAX, string_contents, json_scalars, ..ValueTraits::default() };
    for template in templates {
        let parts: Vec<ValueTraits> = template.parts.iter().map(|part| part_traits(part, columns)).collect();
        let (mut least, mut most) = (0u32, 0u32);
        for part in &parts {
            all.bytes = all.bytes.union(part.bytes);
            least = least.saturating_add(part.min_len);
            most = most.saturating_add(part.max_len);
        }
        for part in until_never_empty(parts.iter()) {
            all.firsts = all.firsts.union(part.firsts);
        }
        for part in until_never_empty(parts.iter().rev()) {
            all.lasts = all.lasts.union(part.lasts);
        }
        all.min_len = all.min_len.min(least);
        all.max_len = all.max_len.max(most);
    }
    all.min_len = all.min_len.min(all.max_len);
    all
}

/// The parts up to and including the first that is never empty.
fn until_never_empty<'p>(parts: impl Iterator<Item = &'p ValueTraits>) -> impl Iterator<Item = &'p ValueTraits> {
    let mut open = true;
    parts.take_while(move |part| std::mem::replace(&mut open, part.min_len == 0))
}

fn part_traits(part: &TemplatePart, columns: &[SlabColumn]) -> ValueTraits {
    match part {
        TemplatePart::Variable(column) => columns[*column as usize].traits.clone(),
        TemplatePart::Literal(literal) => {
            let mut traits = ValueTraits::default();
            traits.add(literal, true);
            traits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_prefix_are_after_it_only_if_they_occur_there() {
        let mut texts = TextList::default();
        (0..4 * SAMPLED_TEXTS).for_each(|number| texts.push(format!("ab:{number}").as_bytes()));
        let traits = text_traits(&texts);
        assert_eq!((&*traits.prefix, traits.after_prefix), ("ab:", DIGITS));
        texts.push(b"ab:7b");
        assert_eq!(text_traits(&texts).after_prefix, DIGITS.union(ByteSet::of(b"b")));
    }
}
