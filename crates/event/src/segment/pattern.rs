//! Matching of a word, phrase or wildcard pattern in a text, bounded by breakers.
//!
//! Possible matches are found by searching for the pattern's rarest byte (in both cases at once), so that rejecting a
//! text without the word takes one pass at memory speed. `*` stays within one major segment, except in a phrase that
//! itself contains a major breaker; there, `*` may match anything.

use memchr::{memchr2_iter, memmem};

use super::spellings::{other_cases, spellings};
use super::{PERCENT_MAJOR_BYTES_MAX, is_breaker, is_major, percent_major_len};

/// Boundary that a match requires on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordBound {
    /// A major or minor breaker, or an end of the text; for keywords and phrases.
    Breaker,
    /// A major breaker or an end of the text; for `TERM()`.
    Major,
    /// An end of the text; for field values. Here `*` matches anything.
    Whole,
}

/// A compiled keyword, phrase, term or value pattern; `*` matches any run of characters.
#[derive(Clone, Debug)]
pub struct WordPattern {
    parts: Vec<Literal>,
    leading_star: bool,
    trailing_star: bool,
    crosses_majors: bool,
    bound: WordBound,
}

impl WordPattern {
    /// Compiles `pattern`. An empty pattern, or one of wildcards only, matches every text; with [`WordBound::Whole`],
    /// an empty pattern matches only the empty text.
    pub fn new(pattern: &str, bound: WordBound, case_sensitive: bool) -> WordPattern {
        let parts = pattern.split('*').filter(|part| !part.is_empty());
        let holds_major = pattern.bytes().any(|byte| byte != b'*' && is_major(byte));
        WordPattern {
            parts: parts.map(|part| Literal::new(part, case_sensitive)).collect(),
            leading_star: pattern.starts_with('*'),
            trailing_star: pattern.ends_with('*'),
            crosses_majors: bound == WordBound::Whole || holds_major,
            bound,
        }
    }

    /// A pattern without wildcards: a `*` in `word` is literal.
    pub fn literal(word: &str, bound: WordBound, case_sensitive: bool) -> WordPattern {
        let parts = if word.is_empty() { Vec::new() } else { vec![Literal::new(word, case_sensitive)] };
        WordPattern { parts, leading_star: false, trailing_star: false, crosses_majors: false, bound }
    }

    /// Compiles a pattern in one of its [`spellings`](super::spellings()): only ASCII letters match in either case.
    pub fn of_spelling(pattern: &str, bound: WordBound) -> WordPattern {
        let parts = pattern.split('*').filter(|part| !part.is_empty());
        WordPattern { parts: parts.map(Literal::folded).collect(), ..WordPattern::new(pattern, bound, true) }
    }

    /// Whether the text contains a match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let Some((first, rest)) = self.parts.split_first() else {
            return self.bound != WordBound::Whole || self.leading_star || text.is_empty();
        };
        let mut from = 0;
        while let Some((start, end)) = first.find(text, from) {
            let starts = self.leading_star || is_bounded(self.bound, text, start);
            if starts && self.matches_rest(text, end, rest) {
                return true;
            }
            let one_try = self.bound == WordBound::Whole && !self.leading_star;
            // If wildcards may match anything, a later start leaves less text for the other parts of the pattern and
            // cannot succeed either.
            if one_try || (starts && self.crosses_majors && !rest.is_empty()) {
                return false;
            }
            from = start + 1;
        }
        false
    }

    fn matches_rest(&self, text: &[u8], end: usize, rest: &[Literal]) -> bool {
        let Some((last, middle)) = rest.split_last() else {
            return self.trailing_star || is_bounded(self.bound, text, end);
        };
        let window = if self.crosses_majors { text } else { &text[..major_segment_end(text, end)] };
        let mut from = end;
        for part in middle {
            let Some((_, end)) = part.find(window, from) else { return false };
            from = end;
        }
        while let Some((start, end)) = last.find(window, from) {
            if self.trailing_star || is_bounded(self.bound, text, end) {
                return true;
            }
            from = start + 1;
        }
        false
    }
}

/// Whether `needle` occurs in `haystack` with a breaker or an end of the text on both sides. `*` is literal.
pub fn contains_word(haystack: &[u8], needle: &str, case_sensitive: bool) -> bool {
    contains(haystack, needle, WordBound::Breaker, case_sensitive)
}

/// Whether `needle` occurs in `haystack` with a major breaker or an end of the text on both sides.
pub fn contains_term(haystack: &[u8], needle: &str, case_sensitive: bool) -> bool {
    contains(haystack, needle, WordBound::Major, case_sensitive)
}

/// Like [`contains_word`], with `*` as wildcard. Compile a [`WordPattern`] to check many texts.
pub fn matches_word_pattern(haystack: &[u8], pattern: &str, case_sensitive: bool) -> bool {
    WordPattern::new(pattern, WordBound::Breaker, case_sensitive).is_match(haystack)
}

/// Like [`contains_term`], with `*` as wildcard. Compile a [`WordPattern`] to check many texts.
pub fn matches_term_pattern(haystack: &[u8], pattern: &str, case_sensitive: bool) -> bool {
    WordPattern::new(pattern, WordBound::Major, case_sensitive).is_match(haystack)
}

fn contains(haystack: &[u8], needle: &str, bound: WordBound, case_sensitive: bool) -> bool {
    if needle.is_empty() {
        return true;
    }
    if case_sensitive || !needle.is_ascii() {
        return WordPattern::literal(needle, bound, case_sensitive).is_match(haystack);
    }
    let (needle, mut from) = (needle.as_bytes(), 0);
    let rare = rarest_offset(needle);
    while let Some(start) = find_folded(haystack, from, needle, rare) {
        if is_bounded(bound, haystack, start) && is_bounded(bound, haystack, start + needle.len()) {
            return true;
        }
        from = start + 1;
    }
    false
}

/// Whether a match may begin or end at `at`.
fn is_bounded(bound: WordBound, text: &[u8], at: usize) -> bool {
    if at == 0 || at == text.len() {
        return true;
    }
    let (before, after) = (text[at - 1], text[at]);
    match bound {
        WordBound::Whole => return false,
        WordBound::Breaker if is_breaker(before) || is_breaker(after) => {
            return (before != b'%' && !before.is_ascii_hexdigit()) || !is_inside_percent_major(text, at);
        }
        WordBound::Major if is_major(before) || is_major(after) => return true,
        WordBound::Major if after == b'%' && percent_major_len(text, at) > 0 => return true,
        WordBound::Major if text[..at].ends_with(b"--") || text[at..].starts_with(b"--") => return true,
        _ => {}
    }
    is_end_of_percent_major(text, at)
}

/// Position of each `%` shortly before `at`, and the length of the percent-encoded major breaker that starts there,
/// or 0.
fn percent_majors_before(text: &[u8], at: usize) -> impl Iterator<Item = (usize, usize)> {
    let from = at.saturating_sub(PERCENT_MAJOR_BYTES_MAX);
    (from..at).filter(|start| text[*start] == b'%').map(|start| (start, percent_major_len(text, start)))
}

fn is_inside_percent_major(text: &[u8], at: usize) -> bool {
    percent_majors_before(text, at).any(|(start, length)| start + length > at)
}

fn is_end_of_percent_major(text: &[u8], at: usize) -> bool {
    percent_majors_before(text, at).any(|(start, length)| length > 0 && start + length == at)
}

/// End of the major segment that contains `at`.
fn major_segment_end(text: &[u8], at: usize) -> usize {
    let mut end = at;
    while end < text.len() {
        let byte = text[end];
        let ends = match byte {
            b'%' => percent_major_len(text, end) > 0,
            b'-' => text[end..].starts_with(b"--"),
            _ => is_major(byte),
        };
        if ends {
            break;
        }
        end += 1;
    }
    end
}

/// A part of a pattern without wildcards.
#[derive(Clone, Debug)]
enum Literal {
    /// Compared byte for byte.
    Exact(Box<memmem::Finder<'static>>),
    /// Text whose ASCII letters match in either case; `rare` is the offset of its rarest byte.
    Folded { text: Box<[u8]>, rare: usize },
    /// The few spellings of a text with non-ASCII characters, each of them [`Literal::Folded`].
    Spellings(Box<[Literal]>),
    /// Text with non-ASCII characters, compared case-insensitively.
    Unicode(Box<UnicodeLiteral>),
}

/// Maximum number of spellings that are searched for one by one; a text with more is a [`Literal::Unicode`].
const SEARCHED_SPELLINGS_MAX: usize = 4;

impl Literal {
    fn new(text: &str, case_sensitive: bool) -> Literal {
        if case_sensitive {
            Literal::Exact(Box::new(memmem::Finder::new(text.as_bytes()).into_owned()))
        } else if text.is_ascii() {
            Literal::folded(text)
        } else {
            match spellings(text).as_deref() {
                Some([spelled]) if spelled.len() <= SEARCHED_SPELLINGS_MAX => {
                    Literal::Spellings(spelled.iter().map(|spelling| Literal::folded(spelling)).collect())
                }
                _ => Literal::Unicode(Box::new(UnicodeLiteral::new(text))),
            }
        }
    }

    fn folded(text: &str) -> Literal {
        Literal::Folded { text: text.as_bytes().into(), rare: rarest_offset(text.as_bytes()) }
    }

    /// First occurrence that starts at `from` or later.
    fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        if from > text.len() {
            return None;
        }
        match self {
            Literal::Exact(finder) => {
                let start = from + finder.find(&text[from..])?;
                Some((start, start + finder.needle().len()))
            }
            Literal::Folded { text: needle, rare } => {
                let start = find_folded(text, from, needle, *rare)?;
                Some((start, start + needle.len()))
            }
            Literal::Spellings(spellings) => spellings.iter().filter_map(|spelling| spelling.find(text, from)).min(),
            Literal::Unicode(literal) => literal.find(text, from),
        }
    }
}

/// First occurrence of `needle` at or after `from`; ASCII letters match in either case. `rare` is the offset of the
/// needle's rarest byte.
fn find_folded(text: &[u8], from: usize, needle: &[u8], rare: usize) -> Option<usize> {
    let skipped = from + rare;
    if skipped >= text.len() {
        return None;
    }
    let byte = needle[rare];
    memchr2_iter(byte.to_ascii_lowercase(), byte.to_ascii_uppercase(), &text[skipped..])
        .map(|at| from + at)
        .take_while(|start| start + needle.len() <= text.len())
        .find(|start| text[*start..*start + needle.len()].eq_ignore_ascii_case(needle))
}

/// A text that is compared character by character, but only around its *anchor*, the character that is likely to be the
/// rarest. Most searched texts lack the anchor; one search for each spelling of the anchor shows this.
#[derive(Clone, Debug)]
struct UnicodeLiteral {
    lower: Box<str>,
    /// The characters whose lower-case form contains the anchor.
    anchors: Box<[memmem::Finder<'static>]>,
    /// Upper bound for the bytes between the start of a match and its anchor.
    before_anchor_max: usize,
    /// Whether a match may begin with this byte.
    begins: Box<[bool; 256]>,
}

impl UnicodeLiteral {
    fn new(text: &str) -> UnicodeLiteral {
        let lower: Box<str> = text.chars().flat_map(char::to_lowercase).collect();
        let (place, anchor) = lower.chars().enumerate().max_by_key(|(_, c)| !c.is_ascii()).unwrap_or((0, '\0'));
        let anchors = std::iter::once(anchor).chain(other_cases(anchor)).map(|c| {
            let mut bytes = [0; 4];
            memmem::Finder::new(c.encode_utf8(&mut bytes)).into_owned()
        });
        let mut begins = Box::new([false; 256]);
        for letter in lower.chars().take(1).flat_map(|first| std::iter::once(first).chain(other_cases(first))) {
            begins[usize::from(letter.encode_utf8(&mut [0; 4]).as_bytes()[0])] = true;
        }
        // Each character of the text becomes at least one character of the lower-case form.
        UnicodeLiteral { begins, anchors: anchors.collect(), before_anchor_max: place * char::MAX.len_utf8(), lower }
    }

    fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut untried = from;
        let find_anchor = |at: usize| self.anchors.iter().filter_map(|anchor| anchor.find(&text[at..])).min();
        while let Some(found) = find_anchor(untried) {
            let anchor = untried + found;
            let first = untried.max(anchor.saturating_sub(self.before_anchor_max));
            let found = (first..=anchor)
                .filter(|start| self.begins[usize::from(text[*start])])
                .find_map(|start| Some((start, start + lower_prefix_len(&text[start..], &self.lower)?)));
            if found.is_some() {
                return found;
            }
            untried = anchor + 1;
        }
        None
    }
}

/// Length of the prefix of `text` whose lower-case form is `needle`.
fn lower_prefix_len(text: &[u8], needle: &str) -> Option<usize> {
    // A window of this size is long enough for the needle in upper or lower case: lower-casing leaves at least a third
    // of a character's bytes.
    let window = &text[..text.len().min(needle.len() * 4)];
    let valid = window.utf8_chunks().next()?.valid();
    let (mut rest, mut length) = (needle, 0);
    for c in valid.chars() {
        for lower in c.to_lowercase() {
            rest = rest.strip_prefix(lower)?;
        }
        length += c.len_utf8();
        if rest.is_empty() {
            return Some(length);
        }
    }
    None
}

/// Offset of the byte that is rarest in logs.
fn rarest_offset(needle: &[u8]) -> usize {
    /// Bytes ordered by frequency in logs, most common first.
    const BYTES_BY_FREQUENCY: &[u8] = b" 0e1a2ti3os4n5r6/7.8:9-d=lcpmu\"fghbvwky_x,[]()jqz{}";
    let commonness =
        |byte: &u8| BYTES_BY_FREQUENCY.iter().rev().position(|common| *common == byte.to_ascii_lowercase());
    let at = (0..needle.len()).min_by_key(|at| commonness(&needle[*at]).map_or(0, |rank| rank + 1));
    at.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::may_be_inside_percent_major;
    use super::*;

    /// Characters with several spellings, of several lengths, and some without a case.
    const LETTERS: [char; 20] = [
        'a', 'A', 'k', 'K', '\u{212a}', 'å', 'Å', '\u{212b}', 'ß', 'ẞ', 'i', 'İ', '\u{307}', 'ı', 'ü', 'Ü', 'σ', '日',
        ' ', '-',
    ];

    #[test]
    fn positions_that_no_encoded_breaker_can_contain_are_outside_whatever_surrounds_the_text() {
        const BYTES: &[u8; 8] = b"%%2250Fx";
        let mut state = 3_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut outside = 0;
        for _ in 0..50_000 {
            let lengths = [draw(6), 1 + draw(7), draw(6)];
            let whole: Vec<u8> = (0..lengths.iter().sum()).map(|_| BYTES[draw(BYTES.len())]).collect();
            let text = &whole[lengths[0]..lengths[0] + lengths[1]];
            for at in (0..=text.len()).filter(|at| !may_be_inside_percent_major(text, *at, false)) {
                let is_inside = is_inside_percent_major(&whole, lengths[0] + at);
                assert!(!is_inside, "{at} of {text:?} in {whole:?}");
                outside += 1;
            }
        }
        assert!(outside > 10_000, "only {outside} positions are outside");
        let told = |text: &str, at| may_be_inside_percent_major(text.as_bytes(), at, false);
        assert!(!told("%ASA-6", 1) && !told("%2x", 3) && !told("acc 2", 5));
        assert!(told("%20", 2) && told("%2", 2) && told("20", 1) && told("F", 1));
        assert!(!may_be_inside_percent_major(b"20", 1, true) && may_be_inside_percent_major(b"%20", 2, true));
    }

    #[test]
    fn texts_are_searched_around_the_anchor_as_everywhere() {
        let mut state = 7_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let (needle_len, text_len) = (1 + draw(3), draw(12));
            let needle: String = (0..needle_len).map(|_| LETTERS[draw(LETTERS.len())]).collect();
            let text: String = (0..text_len).map(|_| LETTERS[draw(LETTERS.len())]).collect();
            let literal = UnicodeLiteral::new(&needle);
            let expected = (0..text.len())
                .find_map(|start| Some((start, start + lower_prefix_len(&text.as_bytes()[start..], &literal.lower)?)));
            assert_eq!(literal.find(text.as_bytes(), 0), expected, "{needle:?} in {text:?}");
            // A needle of ASCII letters alone is folded byte by byte, so that `k` does not match the Kelvin sign.
            if needle.is_ascii() {
                continue;
            }
            assert_eq!(Literal::new(&needle, false).find(text.as_bytes(), 0), expected, "{needle:?} in {text:?}");
            let Some(pieces) = spellings(&needle) else { continue };
            let contains = |spelling: &String| Literal::folded(spelling).find(text.as_bytes(), 0).is_some();
            let has_all = pieces.iter().all(|piece| piece.iter().any(contains));
            assert!(expected.is_none() || has_all, "a piece of {needle:?} is missing in {text:?}");
            assert!(pieces.len() > 1 || has_all == expected.is_some(), "a spelling of {needle:?} is not in {text:?}");
            found += usize::from(expected.is_some());
        }
        assert!(found > 1_000, "only {found} texts had the needle");
    }
}
