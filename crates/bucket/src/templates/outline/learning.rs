//! Learns the anchors and keys of an outline from a sample of the slab.
//!
//! A word is an anchor if many texts contain it and one of three rules determines its position. Nearly all texts have
//! the word; or the word and an adjacent word nearly always occur together; or its neighbour on one side is nearly
//! always a number, a pair, a quoted text or the edge of the line, while its other neighbour varies. A punctuation mark
//! only has to occur in enough texts. A log level or a name is not an anchor, because the words next to it also occur
//! next to other words. Words are tried in order of frequency. A word that would multiply the templates of the sample,
//! as a word of free-form sentences would, is rejected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use memchr::{memchr, memmem};
use quarry_event::EventBatch;
use quarry_stdx::number::u8_of;

use super::lookup::OutlineTemplates;
use super::{
    ANCHORS_MAX, Anchor, BLANK, BYTE_CLASSES, DELIMITER, KEYS_MAX, Key, Line, Outline, OutlineSplit, OutlineVariable,
    Pair, Role, Token, ValueExtent, run_end,
};

/// Maximum number of sampled texts, and maximum number of examined bytes of each text.
const SAMPLE_TEXTS: usize = 512;
const TEXT_BYTES_MAX: usize = 768;
/// Multiplier that spreads the positions of sampled texts within each step.
const SAMPLE_SPREAD_MULTIPLIER: usize = 0x9e37_79b9_7f4a_7c15;
/// Maximum bytes of a sampled text; longer texts are skipped.
const SAMPLED_BYTES_MAX: usize = 64 << 10;
/// Maximum number of candidate words.
const CANDIDATES_MAX: usize = 40;
/// Minimum percentage of texts that contain a word, for the word to be an anchor.
const ANCHOR_PERCENT_MIN: usize = 4;
/// Minimum percentage of texts that contain a punctuation mark, for the mark to be an anchor.
const PUNCTUATION_PERCENT_MIN: usize = 20;
/// Minimum percentage of texts that contain a word, for the word to be an anchor whatever its neighbours are.
const ANY_CONTEXT_PERCENT_MIN: usize = 90;
/// Minimum percentage of the texts with a word in which its neighbour is the same, for this neighbour to be usual.
const NEIGHBOUR_PERCENT_MIN: usize = 80;
/// Maximum number of times an anchor counts in one text.
const ANCHOR_REPEATS_MAX: usize = 4;
/// Number of templates up to which a new anchor may add templates, and the factor by which it may multiply them.
const TEMPLATES_ALWAYS: usize = 48;
const TEMPLATES_GROWTH_MAX: usize = 2;
/// Minimum number of sampled texts per template.
const TEXTS_PER_TEMPLATE_MIN: usize = 5;
/// Maximum percentage of the bytes of first lines that are free text.
const FREE_TEXT_PERCENT_MAX: usize = 92;
/// Minimum percentage of texts with a CEF header for values to extend to the next key.
const CEF_PERCENT_MIN: usize = 90;
/// Minimum per mille of runs of pairs that contain a key, for the key to be kept and for it to be required.
const KEY_PERMILLE_MIN: usize = 4;
const REQUIRED_KEY_PERMILLE_MIN: usize = 1_000;

/// Token or edge of the text next to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbour<'t> {
    Edge,
    Number,
    Quoted,
    Pair,
    Word(&'t [u8]),
}

#[derive(Debug, Default)]
struct Word<'t> {
    texts: usize,
    occurrences: usize,
    /// Sum of its positions in texts.
    places: usize,
    last_text: usize,
    is_mark: bool,
    before: BTreeMap<Neighbour<'t>, usize>,
    after: BTreeMap<Neighbour<'t>, usize>,
}

/// The outline of the texts of a slab; `None` if the texts have next to nothing in common, or are not lines of words.
pub(in crate::templates) fn learn_outline(events: &EventBatch) -> Option<Outline> {
    let step = events.len().div_ceil(SAMPLE_TEXTS).max(1);
    // Logs are often periodic, so the sampled position varies from step to step.
    let place =
        |start: usize| start + (start.wrapping_mul(SAMPLE_SPREAD_MULTIPLIER) >> 32) % step.min(events.len() - start);
    let texts: Vec<&[u8]> = (0..events.len()).step_by(step).map(|start| events.raw(place(start))).collect();
    let documents = texts.iter().filter(|text| is_document(text)).count();
    if documents * 2 > texts.len() {
        return None;
    }
    let sample: Vec<&[u8]> = texts.into_iter().filter(|text| text.len() <= SAMPLED_BYTES_MAX).collect();
    let (outline, templates) = build_outline(&sample);
    let is_few = templates * TEXTS_PER_TEMPLATE_MIN <= sample.len().max(TEXTS_PER_TEMPLATE_MIN);
    (is_few && is_worthwhile(&outline, &sample)).then_some(outline)
}

/// Whether a text looks like JSON or XML rather than a line of words. A syslog priority (`<34>`) and a time in brackets
/// begin lines of words.
fn is_document(text: &[u8]) -> bool {
    match text {
        [b'{', ..] => true,
        [b'[', next, ..] => matches!(next, b'{' | b'[' | b'"' | b']'),
        [b'<', next, ..] => next.is_ascii_alphabetic() || matches!(next, b'?' | b'!' | b'/'),
        _ => false,
    }
}

/// The outline of a sample, and the number of its templates.
pub(in crate::templates) fn build_outline(sample: &[&[u8]]) -> (Outline, usize) {
    let value_extent = value_extent(sample);
    let mut outline = Outline::new(Vec::new(), learn_keys(sample, value_extent), value_extent);
    let mut sampled = SampledTemplates::of(sample);
    let mut numbers: Vec<u32> = sampled.texts.clone().iter().map(|text| sampled.number(&outline, text)).collect();
    let mut templates = count_distinct(&numbers);
    for candidate in anchor_candidates(sample, value_extent) {
        if outline.anchors.len() == ANCHORS_MAX {
            break;
        }
        let anchors = outline.anchors.iter().cloned().chain([candidate.clone()]).collect();
        let tried = Outline::new(anchors, outline.keys.clone(), value_extent);
        let tried_numbers = sampled.numbers_with_anchor(&tried, &candidate.word, &numbers);
        let count = count_distinct(&tried_numbers);
        if count <= TEMPLATES_ALWAYS.max(templates) && count <= templates * TEMPLATES_GROWTH_MAX + 2 {
            (outline, templates, numbers) = (tried, count, tried_numbers);
        }
    }
    (outline, templates)
}

/// The sampled texts, and their templates by all outlines that are tried.
struct SampledTemplates<'t> {
    texts: Vec<&'t [u8]>,
    known: OutlineTemplates,
    known_count: u32,
    cut: OutlineSplit,
}

impl<'t> SampledTemplates<'t> {
    fn of(sample: &[&'t [u8]]) -> SampledTemplates<'t> {
        let texts = sample.iter().map(|text| examined_prefix(text)).collect();
        SampledTemplates { texts, known: OutlineTemplates::default(), known_count: 0, cut: OutlineSplit::default() }
    }

    /// Number of a text's template by this outline. The same template has the same number in all outlines.
    fn number(&mut self, outline: &Outline, text: &[u8]) -> u32 {
        outline.split(text, &mut self.cut);
        if let Some(known) = self.known.find(text, &self.cut.pieces) {
            return known.template;
        }
        let number = self.known_count;
        self.known.insert(text, &self.cut.pieces, number, Box::default());
        self.known_count += 1;
        number
    }

    /// The template numbers of all texts after an anchor was added to the outline that gave `numbers`. Only texts that
    /// contain the anchor are split again.
    fn numbers_with_anchor(&mut self, outline: &Outline, anchor: &[u8], numbers: &[u32]) -> Vec<u32> {
        let anchor = memmem::Finder::new(anchor);
        let texts = self.texts.clone();
        let number_of = |(text, number): (&&[u8], &u32)| match anchor.find(text) {
            Some(_) => self.number(outline, text),
            None => *number,
        };
        texts.iter().zip(numbers).map(number_of).collect()
    }
}

fn count_distinct(numbers: &[u32]) -> usize {
    numbers.iter().collect::<BTreeSet<_>>().len()
}

/// The extent of unquoted values: in CEF, if nearly all texts have its header, up to the next key.
fn value_extent(sample: &[&[u8]]) -> ValueExtent {
    let header = memmem::Finder::new(b"CEF:");
    let is_cef = |text: &&&[u8]| {
        let version = header.find(examined_prefix(text)).map(|at| at + b"CEF:".len());
        version.is_some_and(|at| matches!(text[at..], [b'0'..=b'9', b'|', ..]))
    };
    let texts = sample.iter().filter(is_cef).count();
    // The sample is empty if all texts are too long for it.
    match texts > 0 && texts * 100 >= sample.len() * CEF_PERCENT_MIN {
        true => ValueExtent::NextKey,
        false => ValueExtent::Word,
    }
}

/// Whether enough bytes of the first lines are outside of free text.
fn is_worthwhile(outline: &Outline, sample: &[&[u8]]) -> bool {
    let (mut free, mut all, mut cut) = (0, 0, OutlineSplit::default());
    for text in sample {
        outline.split(text, &mut cut);
        let is_free = |piece: &OutlineVariable| match piece.role {
            Role::Member { .. } | Role::Lines => false,
            _ => text[piece.start..piece.end].contains(&b' '),
        };
        let bytes = |piece: &OutlineVariable| piece.end - piece.start;
        free += cut.pieces.iter().filter(|piece| is_free(piece)).map(bytes).sum::<usize>();
        let lines = cut.pieces.iter().filter(|piece| piece.role == Role::Lines);
        all += text.len() - lines.map(bytes).sum::<usize>();
    }
    free * 100 <= all * FREE_TEXT_PERCENT_MAX
}

fn examined_prefix(text: &[u8]) -> &[u8] {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while end < text.len() && end > 0 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

/// The first line of a text of the sample.
fn first_line(text: &[u8], value_extent: ValueExtent) -> Line<'_> {
    let text = examined_prefix(text);
    Line { text: &text[..memchr(b'\n', text).unwrap_or(text.len())], quotes: true, value_extent }
}

/// Candidate words for anchors, the most frequent first.
fn anchor_candidates(sample: &[&[u8]], value_extent: ValueExtent) -> Vec<Anchor> {
    let mut words: HashMap<&[u8], Word<'_>, FixedState> = HashMap::default();
    let mut tokens: Vec<(Token, &[u8])> = Vec::new();
    for (number, text) in (1usize..).zip(sample) {
        tokens.clear();
        let mut line = first_line(text, value_extent);
        let text = line.text;
        let mut at = 0;
        while at < text.len() {
            if BYTE_CLASSES[usize::from(text[at])] & BLANK != 0 {
                at += 1;
                continue;
            }
            let (token, mut end) = line.next_token(at);
            if let Token::Pair(pair) = token {
                end = pair.end;
            }
            tokens.push((token, &text[at..end]));
            at = end;
        }
        for (place, (token, word)) in tokens.iter().enumerate() {
            if !matches!(token, Token::Word | Token::Mark) {
                continue;
            }
            let found = words.entry(word).or_default();
            found.is_mark = *token == Token::Mark;
            found.occurrences += 1;
            found.places += place;
            if found.last_text != number {
                found.texts += 1;
                found.last_text = number;
                let before = place.checked_sub(1).and_then(|before| tokens.get(before));
                *found.before.entry(neighbour(before)).or_default() += 1;
                *found.after.entry(neighbour(tokens.get(place + 1))).or_default() += 1;
            }
        }
    }
    let mut stable: Vec<(&[u8], &Word<'_>)> = words
        .iter()
        .filter(|(text, word)| is_stable(text, word, &words, sample.len()))
        .map(|(text, word)| (*text, word))
        .collect();
    stable.sort_by_key(|(text, word)| (Reverse(word.texts), word.places / word.occurrences.max(1), *text));
    let anchor = |(text, word): (&[u8], &Word<'_>)| {
        let times = (word.occurrences + word.texts / 2) / word.texts.max(1);
        Anchor { word: text.into(), times: u8_of(times.clamp(1, ANCHOR_REPEATS_MAX)) }
    };
    stable.into_iter().take(CANDIDATES_MAX).map(anchor).collect()
}

fn neighbour<'t>(token: Option<&(Token, &'t [u8])>) -> Neighbour<'t> {
    match token {
        None => Neighbour::Edge,
        Some((Token::Number, _)) => Neighbour::Number,
        Some((Token::Quoted, _)) => Neighbour::Quoted,
        Some((Token::Pair(_), _)) => Neighbour::Pair,
        Some((Token::Word | Token::Mark, word)) => Neighbour::Word(word),
    }
}

/// Whether the position of a word is determined; `texts` is the number of texts in the sample.
fn is_stable(text: &[u8], word: &Word<'_>, words: &HashMap<&[u8], Word<'_>, FixedState>, texts: usize) -> bool {
    let least = if word.is_mark { PUNCTUATION_PERCENT_MIN } else { ANCHOR_PERCENT_MIN };
    if word.texts * 100 < texts * least {
        return false;
    }
    let is_most = |count: usize, of: usize| count * 100 >= of * NEIGHBOUR_PERCENT_MIN;
    let most = |beside: &BTreeMap<Neighbour<'_>, usize>| {
        let most = beside.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| is_most(**count, word.texts));
        match most {
            None => UsualNeighbour::Various,
            Some((Neighbour::Word(other), _)) => words.get(other).map_or(UsualNeighbour::Various, |other| {
                let with =
                    |beside: &BTreeMap<Neighbour<'_>, usize>| beside.get(&Neighbour::Word(text)).copied().unwrap_or(0);
                let together = with(&other.before).max(with(&other.after));
                if is_most(together, other.texts) { UsualNeighbour::Close } else { UsualNeighbour::Word }
            }),
            Some(_) => UsualNeighbour::Other,
        }
    };
    if word.is_mark || word.texts * 100 >= texts * ANY_CONTEXT_PERCENT_MIN {
        return true;
    }
    match (most(&word.before), most(&word.after)) {
        (UsualNeighbour::Close, _) | (_, UsualNeighbour::Close) => true,
        (UsualNeighbour::Various, UsualNeighbour::Other) | (UsualNeighbour::Other, UsualNeighbour::Various) => true,
        // The word is a value, which varies while its neighbours stay the same, or its position is not determined.
        _ => false,
    }
}

/// The usual neighbour of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsualNeighbour {
    /// No neighbour occurs often enough to be usual.
    Various,
    /// A word or mark whose usual neighbour is, in turn, this word.
    Close,
    /// A word or mark that also occurs next to other words.
    Word,
    /// A number, a pair, a quoted text or the edge of the line.
    Other,
}

/// The keys of the sample's pairs, in order of occurrence.
fn learn_keys(sample: &[&[u8]], value_extent: ValueExtent) -> Vec<Key> {
    let mut keys: BTreeMap<&[u8], (usize, usize)> = BTreeMap::new();
    let mut order: BTreeMap<(&[u8], &[u8]), usize> = BTreeMap::new();
    let mut runs = 0;
    for text in sample {
        let mut line = first_line(text, value_extent);
        let pairs = first_pair_run(&mut line);
        let key = |pair: &Pair| &line.text[pair.start..pair.equals];
        runs += usize::from(!pairs.is_empty());
        for (at, pair) in pairs.iter().take(KEYS_MAX).enumerate() {
            let known = keys.entry(key(pair)).or_default();
            known.0 += 1;
            known.1 += usize::from(pair.is_quoted);
            pairs[..at].iter().for_each(|before| *order.entry((key(before), key(pair))).or_default() += 1);
        }
    }
    let mut left: Vec<(&[u8], (usize, usize))> =
        keys.into_iter().filter(|(_, (seen, _))| seen * 1_000 >= runs * KEY_PERMILLE_MIN).collect();
    left.sort_by_key(|(_, (seen, _))| Reverse(*seen));
    left.truncate(KEYS_MAX);
    let mut sorted = Vec::new();
    while !left.is_empty() {
        // Next comes the candidate that was least often preceded by another candidate.
        let before = |key: &[u8]| -> usize {
            left.iter().map(|(other, _)| order.get(&(*other, key)).copied().unwrap_or_default()).sum()
        };
        let first = (0..left.len()).min_by_key(|at| before(left[*at].0)).unwrap_or_default();
        let (name, (seen, quoted)) = left.remove(first);
        let is_required = seen * 1_000 >= runs * REQUIRED_KEY_PERMILLE_MIN && (quoted == 0 || quoted == seen);
        sorted.push(Key { name: name.into(), is_required, is_quoted: quoted > 0 });
    }
    sorted
}

/// The first run of adjacent pairs in a line.
fn first_pair_run(line: &mut Line<'_>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut at = 0;
    while let Some(equals) = memchr(b'=', &line.text[at..]).map(|len| at + len) {
        let start = line.text[at..equals].iter().rposition(|byte| BYTE_CLASSES[usize::from(*byte)] & DELIMITER != 0);
        let start = start.map_or(at, |before| at + before + 1);
        debug_assert_eq!(run_end(line.text, start, DELIMITER), equals, "a key ends at its equals sign");
        let pair = line.parse_pair(start, equals);
        match (pair, pairs.last()) {
            (None, None) => {}
            (None, Some(_)) => break,
            (Some(pair), Some(last)) if pair.start != last.end + 1 => break,
            (Some(pair), _) => pairs.push(pair),
        }
        at = pair.map_or(equals + 1, |pair| pair.end);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_cef_extend_to_the_next_key() {
        for (sample, expected) in [
            // All texts may be too long for the sample.
            (&[][..], ValueExtent::Word),
            (&["a=b c d=e"], ValueExtent::Word),
            (&["CEF: no header", "CEF:x|a"], ValueExtent::Word),
            (&["Nov 20 host CEF:0|a|b|1|2|c|3|src=d e=f g", "CEF:1|a|b|1|2|c|3|src=d"], ValueExtent::NextKey),
        ] {
            let texts: Vec<&[u8]> = sample.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(value_extent(&texts), expected, "{sample:?}");
        }
    }
}
