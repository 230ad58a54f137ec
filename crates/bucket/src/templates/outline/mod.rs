//! Outlines: templates for part of a text, with everything else as free text in between.
//!
//! If messages are sentences, templates of whole texts would be too many: one for each wording with each combination of
//! optional keys and further lines. An [`Outline`] splits a text without knowing its template. Words that are *anchors*
//! are literals, and `key=value` pairs are variables. The text between two anchors or pairs is one variable, however
//! many words it has; only numbers at the beginning of such a text are variables of their own. All lines after the
//! first are one variable. The remaining literals are therefore few, and texts with the same literals share a template.
//!
//! A *chunk* is the text from one delimiter ([`DELIMITER`]: blanks, quotes, brackets, some punctuation) to the next,
//! without punctuation at its end. A comma between two digits does not end a chunk. A chunk with a digit is a number,
//! any other chunk a word.
//!
//! In the Common Event Format (CEF), a value extends to the next key, so that it may contain blanks.
//!
//! An optional pair as a whole is a variable, which is empty in texts without the pair, like an optional member of a
//! JSON object in [`super::objects`]. The values of these variables, rather than the template, then show which pairs
//! a text has.
//!
//! Anchors and keys are learned from a sample of the slab ([`learning`]), and determine how small a slab becomes; the
//! texts are restored exactly in any case.

pub(super) mod learning;
pub(super) mod lookup;

use memchr::memchr;
use quarry_stdx::number::low_u8;

use super::classes::{BLANK, BYTE_CLASSES, ByteMarks, DELIMITER, KEY, VALUE_END, has_digit, run_end, texts_equal};
use super::variables::{Variable, VariableKind, find_closing_quote, trim_punctuation};

/// Maximum number of anchors of an outline, and number of slots of the table that finds them.
const ANCHORS_MAX: usize = 48;
const ANCHOR_SLOTS: usize = 256;
/// Maximum number of keys, and of runs of pairs in one text that get variables for the keys.
const KEYS_MAX: usize = 64;
const PAIR_RUNS_MAX: u8 = 2;
/// Maximum bytes of a key.
const KEY_BYTES_MAX: usize = 64;

/// Anchors and keys of the texts of a slab.
#[derive(Debug)]
pub(super) struct Outline {
    anchors: Vec<Anchor>,
    /// For each slot ([`word_slot`]): the number of its anchor, plus one; 0 if the slot is empty.
    slots: Box<[u8; ANCHOR_SLOTS]>,
    keys: Vec<Key>,
    value_extent: ValueExtent,
}

/// Extent of an unquoted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueExtent {
    /// Up to a blank.
    Word,
    /// Up to the next key, as in CEF.
    NextKey,
}

/// A word or punctuation mark that is a literal.
#[derive(Clone, Debug)]
struct Anchor {
    word: Box<[u8]>,
    /// Number of occurrences in a text, counted from the first, that are anchors; later occurrences are ordinary words.
    times: u8,
}

/// A key of pairs.
#[derive(Clone, Debug)]
struct Key {
    name: Box<[u8]>,
    /// Whether the key occurs in every run of pairs, with its value quoted in all of them or in none.
    is_required: bool,
    /// For a required key: whether the value is quoted.
    is_quoted: bool,
}

/// Role of a variable, which determines its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Role determined by the literal before the variable.
    Literal,
    /// Free text with an equals sign, which automatic field extraction may take for a pair.
    Equals,
    /// The pair of an optional key in this run of pairs.
    Member { run: u8, key: u8 },
    /// The pairs of a run from the first one that is unknown or not in the order of the keys. The whole run, if a
    /// required pair is missing or quoted differently.
    Rest { run: u8 },
    /// All lines but the first.
    Lines,
    /// The index-time field with this name (`super::cells`).
    Cell { name: u16 },
    /// Words before the field with this name, or after the last field.
    Gap { name: u16 },
}

/// A variable of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutlineVariable {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) role: Role,
}

/// The variables of one text.
#[derive(Debug, Default)]
pub(super) struct OutlineSplit {
    pub(super) pieces: Vec<OutlineVariable>,
    pairs: Vec<Pair>,
    marks: ByteMarks,
}

impl OutlineSplit {
    fn push(&mut self, start: usize, end: usize, role: Role) {
        self.pieces.push(OutlineVariable { start, end, role });
    }

    /// Bytes of a text outside of its variables.
    pub(super) fn literal_bytes(&self, text: &[u8]) -> usize {
        text.len() - self.pieces.iter().map(|piece| piece.end - piece.start).sum::<usize>()
    }
}

/// A pair preceded by a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    /// First byte of the key. The pair extends from here to `end`, which includes a comma or semicolon after the value.
    start: usize,
    equals: usize,
    value: (usize, usize),
    end: usize,
    is_quoted: bool,
}

/// Part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// A chunk without digits, such as `failed`.
    Word,
    /// A chunk that contains digits, such as `10.0.0.1`.
    Number,
    /// Text in quotes.
    Quoted,
    /// A delimiter.
    Mark,
    /// `key=value` after a blank.
    Pair(Pair),
}

impl Outline {
    fn new(anchors: Vec<Anchor>, keys: Vec<Key>, value_extent: ValueExtent) -> Outline {
        let mut slots = Box::new([0u8; ANCHOR_SLOTS]);
        for (number, anchor) in (1u8..).zip(&anchors) {
            let mut slot = word_slot(&anchor.word);
            while slots[usize::from(slot)] != 0 {
                slot = slot.wrapping_add(1);
            }
            slots[usize::from(slot)] = number;
        }
        Outline { anchors, slots, keys, value_extent }
    }

    /// The key of a [`Role::Member`].
    pub(super) fn key(&self, key: u8) -> &[u8] {
        &self.keys[usize::from(key)].name
    }

    /// Number of the anchor for this word.
    #[inline(always)]
    fn anchor(&self, word: &[u8]) -> Option<usize> {
        let mut slot = word_slot(word);
        loop {
            let number = usize::from(self.slots[usize::from(slot)]).checked_sub(1)?;
            if texts_equal(&self.anchors[number].word, word) {
                return Some(number);
            }
            slot = slot.wrapping_add(1);
        }
    }

    /// Finds the variables of a text.
    pub(super) fn split(&self, text: &[u8], cut: &mut OutlineSplit) {
        cut.pieces.clear();
        let head = memchr(b'\n', text).unwrap_or(text.len());
        let line = Line { text: &text[..head], quotes: true, value_extent: self.value_extent };
        let mut marks = std::mem::take(&mut cut.marks);
        marks.compute(line.text);
        let (free, used) = (None, [0; ANCHORS_MAX]);
        let mut cutter =
            OutlineSplitter { outline: self, line, marks: &marks, cut, free, has_equals: false, used, runs: 0 };
        let mut at = 0;
        while at < head {
            at = cutter.process_next(at);
        }
        cutter.end_free_text();
        cut.marks = marks;
        if head + 1 < text.len() {
            cut.push(head + 1, text.len(), Role::Lines);
        }
    }
}

/// Slot of a word in the table of [`ANCHOR_SLOTS`] slots.
#[inline]
fn word_slot(word: &[u8]) -> u8 {
    let (first, last) = (word.first().copied().unwrap_or_default(), word.last().copied().unwrap_or_default());
    first.wrapping_mul(5).wrapping_add(last.wrapping_mul(67)).wrapping_add(low_u8(word.len()).wrapping_mul(29))
}

/// Whether a key may begin at `at`.
#[inline(always)]
fn follows_blank(text: &[u8], at: usize) -> bool {
    at > 0 && text[at - 1] == b' '
}

/// Whether there is a comma between two digits at `at`, which is not the start of the text.
#[inline(always)]
fn is_comma_of_number(text: &[u8], at: usize) -> bool {
    matches!(text.get(at - 1..at + 2), Some([b'0'..=b'9', b',', b'0'..=b'9']))
}

/// The first line of a text.
struct Line<'t> {
    text: &'t [u8],
    /// Whether a closing quote may still follow, so that a long text is not searched for closing quotes again and
    /// again.
    quotes: bool,
    value_extent: ValueExtent,
}

impl Line<'_> {
    /// The token at `at`, which is not a blank, and its end.
    #[inline]
    fn next_token(&mut self, at: usize) -> (Token, usize) {
        let byte = self.text[at];
        if BYTE_CLASSES[usize::from(byte)] & DELIMITER != 0 {
            return match byte {
                b'"' => match self.closing_quote(at + 1) {
                    Some(close) => (Token::Quoted, close + 1),
                    None => (Token::Mark, at + 1),
                },
                _ => (Token::Mark, at + 1),
            };
        }
        let (end, pair) = self.read_chunk(at);
        match pair {
            Some(pair) => (Token::Pair(pair), end),
            None if has_digit(self.text, at, end) => (Token::Number, end),
            None => (Token::Word, end),
        }
    }

    /// The end of the word or number at `at`, or the pair whose key begins there, with the end of that key.
    #[inline]
    fn read_chunk(&mut self, at: usize) -> (usize, Option<Pair>) {
        let mut end = run_end(self.text, at, DELIMITER);
        // A comma between digits does not end a number: `00:00:00,017`.
        while is_comma_of_number(self.text, end) {
            end = run_end(self.text, end + 1, DELIMITER);
        }
        if self.text.get(end) == Some(&b'=')
            && let Some(pair) = self.parse_pair(at, end)
        {
            return (end, Some(pair));
        }
        (trim_punctuation(self.text, at, end), None)
    }

    fn closing_quote(&mut self, from: usize) -> Option<usize> {
        let close = if self.quotes { find_closing_quote(self.text, from) } else { None };
        self.quotes = close.is_some();
        close
    }

    /// The pair whose key lies between `start` and the equals sign. Inlined, because a pair that a function has just
    /// written field by field cannot be copied until all its fields are in the cache.
    #[inline(always)]
    fn parse_pair(&mut self, start: usize, equals: usize) -> Option<Pair> {
        let is_key_byte = |byte: &u8| BYTE_CLASSES[usize::from(*byte)] & KEY != 0;
        let key = &self.text[start..equals];
        let is_key = follows_blank(self.text, start)
            && (1..=KEY_BYTES_MAX).contains(&key.len())
            && !key[0].is_ascii_digit()
            && key.iter().all(is_key_byte);
        if !is_key {
            return None;
        }
        let (value, mut end, is_quoted) = match self.text.get(equals + 1)? {
            b'=' => return None,
            b'"' if self.value_extent == ValueExtent::Word => {
                let close = self.closing_quote(equals + 2)?;
                ((equals + 2, close), close + 1, true)
            }
            _ => {
                let end = match self.value_extent {
                    ValueExtent::Word => run_end(self.text, equals + 1, VALUE_END),
                    ValueExtent::NextKey => self.next_key(equals + 1),
                };
                ((equals + 1, end), end, false)
            }
        };
        if matches!(self.text.get(end), Some(b',' | b';')) {
            end += 1;
        }
        let is_end = self.text.get(end).is_none_or(|byte| BYTE_CLASSES[usize::from(*byte)] & BLANK != 0);
        (value.1 > value.0 && is_end).then_some(Pair { start, equals, value, end, is_quoted })
    }

    /// The blank before the next key after `from`; the end of the line if no key follows.
    fn next_key(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(equals) = memchr(b'=', &self.text[at..]).map(|len| at + len) {
            let is_key_byte = |byte: &&u8| BYTE_CLASSES[usize::from(**byte)] & KEY != 0;
            let key = self.text[at..equals].iter().rev().take_while(is_key_byte).count();
            let start = equals - key;
            if key > 0 && start > from && self.text[start - 1] == b' ' && !self.text[start].is_ascii_digit() {
                return start - 1;
            }
            at = equals + 1;
        }
        self.text.len()
    }
}

struct OutlineSplitter<'t, 'o> {
    outline: &'o Outline,
    line: Line<'t>,
    /// Marks of the line.
    marks: &'o ByteMarks,
    cut: &'o mut OutlineSplit,
    /// The current free text, and whether it contains an equals sign.
    free: Option<(usize, usize)>,
    has_equals: bool,
    /// Occurrences of each anchor so far.
    used: [u8; ANCHORS_MAX],
    runs: u8,
}

impl OutlineSplitter<'_, '_> {
    /// Processes the blank or token at `at`; returns where to continue.
    #[inline]
    fn process_next(&mut self, at: usize) -> usize {
        let text = self.line.text;
        let byte = text[at];
        if BYTE_CLASSES[usize::from(byte)] & BLANK != 0 {
            return at + 1;
        }
        // Punctuation immediately after a literal or a number is literal.
        if self.free.is_none() && at > 0 && matches!(byte, b'.' | b',' | b';' | b':' | b'?' | b'!') {
            return at + 1;
        }
        if BYTE_CLASSES[usize::from(byte)] & DELIMITER == 0 {
            return self.process_chunks(at);
        }
        let (token, end) = self.line.next_token(at);
        match token {
            Token::Quoted if self.free.is_none() => {
                if end - at > 2 {
                    self.cut.push(at + 1, end - 1, Role::Literal);
                }
                return end;
            }
            // A delimiter; chunks were processed above.
            Token::Mark | Token::Word | Token::Number | Token::Pair(_) => {
                if self.count_anchor(&text[at..end]) {
                    self.end_free_text();
                    return end;
                }
                self.has_equals |= byte == b'=';
            }
            Token::Quoted => self.has_equals |= memchr(b'=', &text[at..end]).is_some(),
        }
        self.free = Some((self.free.map_or(at, |(start, _)| start), end));
        end
    }

    /// Processes the chunk at `at` and all chunks that follow after single blanks; returns where to continue. Most of a
    /// sentence is processed here.
    #[inline]
    fn process_chunks(&mut self, mut at: usize) -> usize {
        let text = self.line.text;
        loop {
            let stop = self.marks.chunk_end(text, at);
            let next = text.get(stop);
            if (next == Some(&b'=') && follows_blank(text, at)) || is_comma_of_number(text, stop) {
                return self.process_chunk(at);
            }
            let end = trim_punctuation(text, at, stop);
            self.process_word(at, end);
            if end < stop || next != Some(&b' ') {
                return end;
            }
            at = stop + 1;
            match text.get(at) {
                Some(byte) if BYTE_CLASSES[usize::from(*byte)] & DELIMITER == 0 && !matches!(byte, b'.' | b':') => {}
                _ => return at,
            }
        }
    }

    /// Like [`OutlineSplitter::process_chunks`], for one chunk that may be the key of a pair or continue after a comma.
    #[inline(never)]
    fn process_chunk(&mut self, at: usize) -> usize {
        let (end, pair) = self.line.read_chunk(at);
        match pair {
            Some(pair) => self.process_pairs(pair),
            None => {
                self.process_word(at, end);
                end
            }
        }
    }

    /// Processes a word or a number.
    #[inline(always)]
    fn process_word(&mut self, start: usize, end: usize) {
        if self.count_anchor(&self.line.text[start..end]) {
            self.end_free_text();
        } else if let Some((_, free_end)) = &mut self.free {
            *free_end = end;
        } else if self.marks.has_digit(start, end) {
            self.cut.push(start, end, Role::Literal);
        } else {
            self.free = Some((start, end));
        }
    }

    /// Whether a word is an anchor here; counts the occurrence if so.
    #[inline(always)]
    fn count_anchor(&mut self, word: &[u8]) -> bool {
        let Some(anchor) = self.outline.anchor(word) else { return false };
        let is_left = self.used[anchor] < self.outline.anchors[anchor].times;
        self.used[anchor] += u8::from(is_left);
        is_left
    }

    /// Ends the free text.
    fn end_free_text(&mut self) {
        if let Some((start, end)) = self.free.take() {
            let role = if self.has_equals { Role::Equals } else { Role::Literal };
            self.cut.push(start, end, role);
            self.has_equals = false;
        }
    }

    /// Processes a run of pairs that begins with `first`; returns its end.
    fn process_pairs(&mut self, first: Pair) -> usize {
        let mut pairs = std::mem::take(&mut self.cut.pairs);
        let (start, end) = (first.start, self.read_pairs(first, &mut pairs));
        if self.runs == PAIR_RUNS_MAX {
            self.free = Some((self.free.map_or(start, |(from, _)| from), end));
            self.has_equals = true;
        } else {
            self.end_free_text();
            let pieces = self.cut.pieces.len();
            let known = self.process_known_pairs(&pairs, start - 1);
            if known.is_none() {
                self.cut.pieces.truncate(pieces);
            }
            let rest = known.unwrap_or(start - 1);
            if rest < end {
                self.cut.push(rest, end, Role::Rest { run: self.runs });
            }
            self.runs += 1;
        }
        self.cut.pairs = pairs;
        end
    }

    /// Reads a run of pairs that begins with `first` into `pairs`; returns its end.
    #[inline]
    fn read_pairs(&mut self, first: Pair, pairs: &mut Vec<Pair>) -> usize {
        let text = self.line.text;
        let mut end = first.end;
        pairs.clear();
        pairs.push(first);
        while text.get(end) == Some(&b' ') {
            let key = run_end(text, end + 1, DELIMITER);
            if text.get(key) != Some(&b'=') {
                break;
            }
            let Some(pair) = self.line.parse_pair(end + 1, key) else { break };
            end = pair.end;
            pairs.push(pair);
        }
        end
    }

    /// Adds variables for those pairs of a run that come in the order of the keys; the run begins at `from`, the blank
    /// before its first pair. Returns the end of the last of these pairs; `None` if a required pair is missing or
    /// quoted differently.
    fn process_known_pairs(&mut self, pairs: &[Pair], from: usize) -> Option<usize> {
        let text = self.line.text;
        let (mut left, mut at) = (pairs, from);
        for (number, key) in (0u8..).zip(&self.outline.keys) {
            let is_of_key = |pair: &&Pair| texts_equal(&text[pair.start..pair.equals], &key.name);
            let found = left.first().filter(is_of_key);
            match found {
                Some(pair) if key.is_required => {
                    if pair.is_quoted != key.is_quoted {
                        return None;
                    }
                    self.cut.push(pair.value.0, pair.value.1, Role::Literal);
                }
                None if key.is_required => return None,
                Some(pair) => self.cut.push(pair.start - 1, pair.end, Role::Member { run: self.runs, key: number }),
                None => self.cut.push(at, at, Role::Member { run: self.runs, key: number }),
            }
            if let Some(pair) = found {
                (left, at) = (&left[1..], pair.end);
            }
        }
        Some(at)
    }
}

/// Adds the variable of a text that is a blank and a pair: the pair's value.
pub(super) fn split_pair(text: &[u8], variables: &mut Vec<Variable>) -> Option<()> {
    let equals = memchr(b'=', text)?;
    let pair = [ValueExtent::Word, ValueExtent::NextKey].into_iter().find_map(|value_extent| {
        let mut line = Line { text, quotes: true, value_extent };
        line.parse_pair(1, equals).filter(|pair| pair.end == text.len())
    })?;
    let kind = if pair.is_quoted { VariableKind::Quoted } else { VariableKind::Value };
    variables.push(Variable { start: pair.value.0, end: pair.value.1, kind });
    Some(())
}
