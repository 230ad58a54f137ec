//! Marks: runs of bytes such as escapes and entities. In a text with a mark, the value of a field need not occur
//! verbatim, and need not consist of whole tokens of the text.
//!
//! A search looks up a value by its tokens. Texts with a mark are exempt: they may have the value although they lack
//! its tokens. Whether a slab has such texts is decided by its templates and the traits of its columns, without reading
//! any text; the answer may be wrong in one direction only: a slab may count as marked although none of its texts has a
//! mark.

use std::sync::LazyLock;

use memchr::memmem;

use crate::segment::{UNBROKEN_BLANKS, is_breaker};
use crate::template::{ByteSet, ColumnKind, TemplatePart, TemplateSet, ValueTraits};

/// A kind of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextMark {
    /// A vertical tab or form feed, which is whitespace but no breaker.
    UnbrokenBlank,
    /// In XML: a numeric character reference, a comment, CDATA section or processing instruction that may divide a
    /// token, or a blank that is not a breaker and is removed from the ends of a value.
    XmlToken,
    /// Like [`TextMark::XmlToken`], but with markup that may divide a value between two of its tokens.
    XmlValue,
    /// In JSON: the escape of an ASCII character that encoders do not escape, such as a letter.
    JsonLetter,
}

/// A set of kinds of marks, with a bit for each; part of the bucket format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkSet(pub u8);

impl MarkSet {
    /// The marks that occur in none of the concatenated `texts`, which have no bytes but these. Most texts lack a byte
    /// of each mark, and are not read.
    pub fn absent_from(texts: &[u8], bytes: ByteSet) -> MarkSet {
        let is_in = |mark: TextMark| mark.may_consist_of(bytes) && mark.is_in(texts);
        // Every text with an `XmlToken` also has an `XmlValue`.
        let divides_values = is_in(TextMark::XmlValue);
        let kinds = [
            (TextMark::UnbrokenBlank, is_in(TextMark::UnbrokenBlank)),
            (TextMark::XmlToken, divides_values && is_in(TextMark::XmlToken)),
            (TextMark::XmlValue, divides_values),
            (TextMark::JsonLetter, is_in(TextMark::JsonLetter)),
        ];
        MarkSet(kinds.iter().filter(|(_, is_in)| !is_in).fold(0, |set, (mark, _)| set | mark.bit()))
    }

    /// Whether a mark is in the set.
    pub fn contains(self, mark: TextMark) -> bool {
        self.0 & mark.bit() != 0
    }
}

/// Bytes that follow one another, each from a set.
#[derive(Clone)]
struct ByteRun {
    sets: Vec<ByteSet>,
    /// Index in `sets` of the set whose bytes `memchr2` searches for.
    anchor: usize,
    /// The one or two bytes of this set.
    anchors: [u8; 2],
}

impl ByteRun {
    /// The set at position `anchor` must have one or two bytes.
    fn new(sets: &[ByteSet], anchor: usize) -> ByteRun {
        let anchors: Vec<u8> = sets[anchor].iter().collect();
        assert!((1..=2).contains(&anchors.len()), "one or two bytes are searched for");
        ByteRun { sets: sets.to_vec(), anchor, anchors: [anchors[0], anchors[anchors.len() - 1]] }
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let is_at = |at: usize| {
            let start = at.checked_sub(self.anchor);
            let found = start.and_then(|start| text.get(start..start + self.sets.len()));
            found.is_some_and(|bytes| bytes.iter().zip(&self.sets).all(|(byte, set)| set.contains(*byte)))
        };
        memchr::memchr2_iter(self.anchors[0], self.anchors[1], text).any(is_at)
    }
}

impl TextMark {
    fn bit(self) -> u8 {
        match self {
            TextMark::UnbrokenBlank => 1,
            TextMark::XmlToken => 1 << 1,
            TextMark::XmlValue => 1 << 2,
            TextMark::JsonLetter => 1 << 3,
        }
    }

    /// Whether the text has the mark; for several concatenated texts, whether one of them may have it.
    pub fn is_in(self, text: &[u8]) -> bool {
        let required = self.required_part();
        let may_occur = required.is_empty() || memmem::find(text, required).is_some();
        may_occur && self.runs().runs.iter().any(|run| run.is_in(text))
    }

    /// Whether a text of these bytes may have the mark.
    fn may_consist_of(self, bytes: ByteSet) -> bool {
        self.required_part().iter().all(|byte| bytes.contains(*byte)) && self.runs().possible_among(bytes).is_some()
    }

    /// A part of each text that has the mark.
    fn required_part(self) -> &'static [u8] {
        match self {
            TextMark::UnbrokenBlank => b"",
            // Without an end tag, no element has a value.
            TextMark::XmlToken | TextMark::XmlValue => b"</",
            TextMark::JsonLetter => b"\\u00",
        }
    }

    /// Whether a text of a slab may have the mark.
    pub fn may_be_in(self, slab: &TemplateSet) -> bool {
        let Some(texts) = slab.columns.first() else { return true };
        let Some(runs) = self.runs().possible_among(texts.traits.bytes) else { return false };
        let ColumnKind::Templates(templates) = &texts.kind else { return runs.after_value(&texts.traits, 0).is_none() };
        templates.iter().any(|template| {
            let after = template.parts.iter().try_fold(0, |state, part| match part {
                TemplatePart::Literal(literal) => runs.find_in(literal, state),
                TemplatePart::Variable(column) => runs.after_value(&slab.columns.get(*column as usize)?.traits, state),
            });
            after.is_none()
        })
    }

    fn runs(self) -> &'static RunMatcher {
        static UNBROKEN: LazyLock<RunMatcher> = LazyLock::new(|| RunMatcher::new(vec![unbroken_blank()]));
        static XML_TOKEN: LazyLock<RunMatcher> = LazyLock::new(|| RunMatcher::new(xml_runs(in_token(), in_token())));
        static XML_VALUE: LazyLock<RunMatcher> =
            LazyLock::new(|| RunMatcher::new(xml_runs(all_except(b">"), all_except(b"<"))));
        static JSON_LETTER: LazyLock<RunMatcher> = LazyLock::new(|| RunMatcher::new(json_runs()));
        match self {
            TextMark::UnbrokenBlank => &UNBROKEN,
            TextMark::XmlToken => &XML_TOKEN,
            TextMark::XmlValue => &XML_VALUE,
            TextMark::JsonLetter => &JSON_LETTER,
        }
    }
}

fn unbroken_blank() -> ByteRun {
    ByteRun::new(&[ByteSet::of(&UNBROKEN_BLANKS)], 0)
}

fn all_except(bytes: &[u8]) -> ByteSet {
    ByteSet::from_words(ByteSet::of(bytes).words().map(|word| !word))
}

/// Bytes of tokens; a percent sign may begin an encoded breaker.
fn in_token() -> ByteSet {
    let bytes: Vec<u8> = (0..=u8::MAX).filter(|byte| !is_breaker(*byte) || *byte == b'%').collect();
    ByteSet::of(&bytes)
}

/// The marks of XML: character references, markup after one of the bytes `before`, and text after a CDATA section that
/// begins with one of the bytes `after`.
fn xml_runs(before: ByteSet, after: ByteSet) -> Vec<ByteRun> {
    let of = ByteSet::of;
    let run = ByteRun::new;
    let end_of_blank: Vec<u8> = (0x80..=0x8a).chain([0xa8, 0xa9, 0xaf]).collect();
    vec![
        run(&[of(b"&"), of(b"#")], 1),
        run(&[before, of(b"<"), of(b"!?")], 2),
        run(&[of(b"]"), of(b">"), after], 0),
        run(&[of(b"]"), of(b">"), of(b"<"), of(b"!?")], 0),
        unbroken_blank(),
        // U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
        run(&[of(b"\xc2"), of(b"\x85\xa0")], 0),
        run(&[of(b"\xe1"), of(b"\x9a"), of(b"\x80")], 0),
        run(&[of(b"\xe2"), of(b"\x80"), of(&end_of_blank)], 0),
        run(&[of(b"\xe2"), of(b"\x81"), of(b"\x9f")], 0),
        run(&[of(b"\xe3"), of(b"\x80"), of(b"\x80")], 0),
    ]
}

/// Escapes of ASCII characters from 0x20 upward, except those that encoders escape: the characters with a
/// meaning in HTML or JavaScript, the plus sign and the accent that .NET escapes, and DEL.
fn json_runs() -> Vec<ByteRun> {
    let hex = b"0123456789abcdefABCDEF";
    let run = |first: &[u8], second: &[u8]| {
        let sets: [&[u8]; 6] = [b"\\", b"u", b"0", b"0", first, second];
        ByteRun::new(&sets.map(ByteSet::of), 0)
    };
    vec![
        run(b"2", b"0134589acdefACDEF"),
        run(b"3", b"0123456789abfABF"),
        run(b"45", hex),
        run(b"6", &hex[1..]),
        run(b"7", b"0123456789abcdeABCDE"),
    ]
}

/// Searches for several runs at once. A state has a bit for each position in each run: whether the bytes read last
/// match the run up to this position.
struct RunMatcher {
    runs: Vec<ByteRun>,
    /// For each byte, the positions at which it may be.
    positions: Box<[u64; 256]>,
    firsts: u64,
    lasts: u64,
}

impl RunMatcher {
    /// The runs must have at most 64 positions in all.
    fn new(runs: Vec<ByteRun>) -> RunMatcher {
        let (mut positions, mut firsts, mut lasts, mut at) = (Box::new([0; 256]), 0, 0, 0);
        for run in &runs {
            firsts |= 1 << at;
            for set in &run.sets {
                set.iter().for_each(|byte| positions[usize::from(byte)] |= 1 << at);
                at += 1;
            }
            lasts |= 1 << (at - 1);
        }
        assert!(at <= 64, "a state has a bit for each position");
        RunMatcher { runs, positions, firsts, lasts }
    }

    /// The runs that may consist of these bytes; `None` if there are none.
    fn possible_among(&self, bytes: ByteSet) -> Option<RunMatcher> {
        let is_possible = |run: &&ByteRun| run.sets.iter().all(|set| set.intersects(bytes));
        let runs: Vec<ByteRun> = self.runs.iter().filter(is_possible).cloned().collect();
        (!runs.is_empty()).then(|| RunMatcher::new(runs))
    }

    /// The state after a byte at one of `positions`.
    #[inline]
    fn step(&self, state: u64, positions: u64) -> u64 {
        // The last position of a run is never followed by the first position of the next run, because a state with a
        // last position ends the search.
        (state << 1 | self.firsts) & positions
    }

    /// The state after the text; `None` if a run ends in it.
    fn find_in(&self, text: &[u8], state: u64) -> Option<u64> {
        let mut state = state;
        for byte in text {
            state = self.step(state, self.positions[usize::from(*byte)]);
            if state & self.lasts != 0 {
                return None;
            }
        }
        Some(state)
    }

    /// The union of the states after all values with these traits; `None` if a run may end in a value.
    fn after_value(&self, traits: &ValueTraits, state: u64) -> Option<u64> {
        if let Some(values) = &traits.value_set {
            return values.iter().try_fold(0, |all, value| Some(all | self.find_in(value.as_bytes(), state)?));
        }
        let of_set = |set: ByteSet| set.iter().fold(0, |all, byte| all | self.positions[usize::from(byte)]);
        let first = self.step(state, of_set(traits.firsts));
        let (bytes, mut inside) = (of_set(traits.bytes), first);
        loop {
            let more = inside | self.step(inside, bytes);
            if more & self.lasts != 0 {
                return None;
            }
            if more == inside {
                break;
            }
            inside = more;
        }
        let last = self.step(inside, of_set(traits.lasts));
        let single = if traits.min_len <= 1 { first } else { 0 };
        let empty = if traits.min_len == 0 { state } else { 0 };
        Some(single | last | empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_marked_where_a_value_may_differ_from_its_text() {
        for (text, in_token, in_value) in [
            ("<e><f>ab</f>\n<!-- c --><g>c</g></e>", false, true),
            ("<?xml version=\"1.0\"?><e><f a='x'>a &amp; b</f></e>", false, false),
            ("<e><f><![CDATA[a b]]></f></e>", false, false),
            ("<e><f>ab&#99;</f></e>", true, true),
            ("<e><f>ab<!-- c -->d</f></e>", true, true),
            ("<e><f>ab <!-- c -->d</f></e>", false, true),
            ("<e><f>ab<?pi?>d</f></e>", true, true),
            ("<e><f><![CDATA[ab]]>d</f></e>", true, true),
            ("<e><f><![CDATA[ab]]> d</f></e>", false, true),
            ("<e><f><![CDATA[ab]]><![CDATA[d]]></f></e>", true, true),
            ("<e><f>a%<!---->20</f></e>", true, true),
            ("<e><f>\u{a0}ab</f></e>", true, true),
            ("<e><f>ab\u{3000}</f></e>", true, true),
            ("<e><f>ab\u{b}</f></e>", true, true),
            ("<e><f>“ab” — zoë 日本</f></e>", false, false),
        ] {
            assert_eq!(TextMark::XmlToken.is_in(text.as_bytes()), in_token, "{text}");
            assert_eq!(TextMark::XmlValue.is_in(text.as_bytes()), in_value, "{text}");
        }
        for (text, expected) in [
            (r#"{"f":"\u0061b"}"#, true),
            (r#"{"f":"a\u002Fb"}"#, true),
            (r#"{"f":"a\u0030b"}"#, true),
            (r#"{"f":"\u003ca\u003e \u0026 \u0027b\u0027 \u002b \u0060\u007f \u001b \u00e9 \u0410"}"#, false),
        ] {
            assert_eq!(TextMark::JsonLetter.is_in(text.as_bytes()), expected, "{text}");
        }
        assert!(TextMark::UnbrokenBlank.is_in(b"a\x0cb"));
    }

    #[test]
    fn absent_marks_are_the_same_whatever_other_bytes_may_occur() {
        let marks = [TextMark::XmlToken, TextMark::XmlValue, TextMark::UnbrokenBlank, TextMark::JsonLetter];
        for (text, expected) in [
            ("GET /a?b <!-- c --> \\u0061", [true, true, true, false]),
            ("<e><f>ab<!-- c -->d</f></e>", [false, false, true, true]),
            ("<e><f>ab</f>\n<!-- c --></e>", [true, false, true, true]),
            ("<e>a\u{b}</e>", [false, false, false, true]),
            ("a\u{c} b", [true, true, false, true]),
            ("a b", [true; 4]),
        ] {
            for bytes in [ByteSet::of(text.as_bytes()), ByteSet::ALL] {
                let absent = MarkSet::absent_from(text.as_bytes(), bytes);
                assert_eq!(marks.map(|mark| absent.contains(mark)), expected, "{text}");
            }
        }
        assert!(!TextMark::UnbrokenBlank.is_in("a b\tc\u{a0}".as_bytes()));
    }

    /// A value with the traits that hold for all of `values`.
    fn traits(values: &[&str]) -> ValueTraits {
        let mut all = ValueTraits { min_len: u32::MAX, ..ValueTraits::default() };
        for value in values {
            all.bytes.insert_all(value.as_bytes());
            value.bytes().take(1).for_each(|byte| all.firsts.insert(byte));
            value.bytes().last().into_iter().for_each(|byte| all.lasts.insert(byte));
            all.min_len = all.min_len.min(value.len() as u32);
            all.max_len = all.max_len.max(value.len() as u32);
        }
        all
    }

    #[test]
    fn values_between_literals_are_judged_by_their_traits() {
        let marks = TextMark::XmlToken.runs();
        for (parts, values, expected) in [
            (["<f>", "</f>"], &["ab", "c&amp;"][..], false),
            (["<f>", "</f>"], &["a&", "#b"], true),
            (["<f>a", "#b</f>"], &["&", "c"], true),
            (["<f>a&", "b</f>"], &["#", "c"], true),
            (["<f>a&", "#b</f>"], &["", "amp; "], true),
            (["<f>a&", "#b</f>"], &["amp; "], false),
            (["<f>", "<!-- -->b</f>"], &["a", "b "], true),
            (["<f>", "<!-- -->b</f>"], &["a ", "b "], false),
            (["<f><![CDATA[", "]]>b</f>"], &["a "], true),
            (["<f><![CDATA[", "]]></f>"], &["a", "!x?"], false),
        ] {
            let after =
                marks.find_in(parts[0].as_bytes(), 0).and_then(|state| marks.after_value(&traits(values), state));
            let after = after.and_then(|state| marks.find_in(parts[1].as_bytes(), state));
            assert_eq!(after.is_none(), expected, "{parts:?} {values:?}");
        }
    }
}
