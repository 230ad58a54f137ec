//! Finds the capture groups of expressions that are not one-pass, such as the `EXTRACT-` of an access log, by PCRE2's
//! just-in-time compiled machine code.
//!
//! For such an expression, the linear engine tracks all ways of matching at once, which takes about ten nanoseconds per
//! byte. In nearly all texts, the first way that a backtracking matcher tries leads to the match, which takes a tenth
//! of that time. Machine code tries few positions: the start of the text, the first occurrences of the literals with
//! which all matches begin, or the start of the match that the linear engine finds without groups. The number of its
//! steps is limited: if a text needs more, the linear engine matches it, and if many texts need more, machine code is
//! no longer used.
//!
//! Both engines must have the same result. Expressions that reach this module have passed [`super::translate`], so that
//! each construct has the same meaning in both dialects. Differences that remain are excluded here: `$` before a final
//! newline, `^` and `$` of lines, properties of characters, and repetitions of something that may be empty. Texts
//! beyond ASCII have code of their own, generated for characters instead of bytes, unless the expression has classes
//! that match different characters there.

use std::sync::{Arc, OnceLock};

use regex_automata::Span;
use regex_automata::util::prefilter::Prefilter;
use regex_syntax::hir::{Hir, HirKind, Look, LookSet};

use super::prefix_search::{CANDIDATES_MAX, prefix_literals};

/// Maximum number of steps at one position, after which the linear engine is used; a typical access log takes a few
/// hundred.
const STEPS_MAX: u32 = 2_000;
/// Number of texts searched by the linear engine before machine code is generated; both take about the same time.
pub(super) const TEXTS_BEFORE: u32 = 64;
/// Maximum length of a text in which machine code finds matches after the first one, in bytes. The limit exists because
/// each of these searches examines the whole text.
const REPEATED_TEXT_BYTES_MAX: usize = 4_096;
/// Initial and maximum credit of a [`MachineCodeMatch`]; without enough credit, the linear engine is used.
const CREDIT_MAX: u32 = 64;
/// Credit that an aborted match costs; a finished match earns 1.
const ABORT_COST: u32 = 16;

/// The machine code of an expression.
#[derive(Clone, Debug)]
pub(super) struct MachineCode {
    /// The expression, which matches only where the search starts.
    expression: Arc<str>,
    bytes: pcre2::bytes::Regex,
    /// The code for texts beyond ASCII, generated for the first such text.
    characters: Arc<OnceLock<Option<pcre2::bytes::Regex>>>,
    starts: Starts,
    /// Whether the expression contains `$`, which PCRE2 also matches before a newline at the end of the text.
    has_end: bool,
}

/// The positions at which a match can begin.
#[derive(Clone, Debug)]
enum Starts {
    /// The start of the text.
    Text,
    /// The occurrences of these literals.
    Literals(Prefilter),
    /// The start of the match that the linear engine finds.
    Match,
}

/// Positions of the groups of one match, and the credit left after earlier matches.
#[derive(Clone, Debug)]
pub(super) struct MachineCodeMatch {
    locations: pcre2::bytes::CaptureLocations,
    credit: u32,
}

impl MachineCode {
    /// Machine code for `pattern`, which is `translated` in the dialect of the linear engine and has `groups` groups
    /// there. `None` if the expression does not qualify, or the processor has no code generator.
    pub(super) fn new(pattern: &str, translated: &str, groups: usize, is_one_pass: bool) -> Option<MachineCode> {
        // Bytes beyond ASCII would be separate characters in the code for bytes.
        if !pattern.is_ascii() || !pcre2::is_jit_available() {
            return None;
        }
        // A character property may contain other characters in PCRE2.
        if pattern.contains(r"\p") || pattern.contains(r"\P") {
            return None;
        }
        let tree = regex_syntax::parse(translated).ok()?;
        if !qualifies(&tree) {
            return None;
        }
        let starts = if tree.properties().look_set_prefix().contains(Look::Start) {
            Starts::Text
        } else if is_one_pass || tree.properties().minimum_len().is_none_or(|len| len == 0) {
            // Once the linear engine has found the match, its own automaton is as fast as machine code.
            return None;
        } else {
            prefix_literals(&tree).map_or(Starts::Match, Starts::Literals)
        };
        let expression: Arc<str> = format!(r"(*LIMIT_MATCH={STEPS_MAX})\G(?:{pattern})").into();
        let bytes = pcre2::bytes::RegexBuilder::new().jit(true).build(&expression).ok()?;
        let has_end = tree.properties().look_set().contains(Look::End);
        (bytes.captures_len() == groups).then(|| MachineCode {
            expression,
            bytes,
            characters: Arc::default(),
            starts,
            has_end,
        })
    }

    /// Space for the result of a search.
    pub(super) fn new_match(&self) -> MachineCodeMatch {
        MachineCodeMatch { locations: self.bytes.capture_locations(), credit: CREDIT_MAX }
    }

    /// Whether there is a match at or after `start`; `linear` is the same expression. `None` if the linear engine must
    /// decide.
    #[inline]
    pub(super) fn captures_at(
        &self,
        linear: &regex::Regex,
        text: &str,
        start: usize,
        found: &mut MachineCodeMatch,
    ) -> Option<bool> {
        if start > 0 && text.len() > REPEATED_TEXT_BYTES_MAX {
            return None;
        }
        let code = self.code_for(text, found)?;
        match &self.starts {
            // All matches begin at the start of the text, so the linear engine rejects `start` immediately.
            Starts::Text if start > 0 => None,
            Starts::Text => found.run(code, text, 0),
            Starts::Literals(literals) => {
                let mut from = start;
                for _ in 0..CANDIDATES_MAX {
                    let Some(candidate) = literals.find(text.as_bytes(), Span { start: from, end: text.len() }) else {
                        return Some(false);
                    };
                    if found.run(code, text, candidate.start)? {
                        return Some(true);
                    }
                    from = candidate.start + 1;
                }
                None
            }
            Starts::Match => match linear.find_at(text, start) {
                Some(whole) => found.run(code, text, whole.start())?.then_some(true),
                None => Some(false),
            },
        }
    }

    /// Whether a match begins at `start`; `None` if the linear engine must decide.
    #[inline]
    pub(super) fn captures_starting_at(&self, text: &str, start: usize, found: &mut MachineCodeMatch) -> Option<bool> {
        let code = self.code_for(text, found)?;
        found.run(code, text, start)
    }

    /// The code that can decide this text.
    #[inline]
    fn code_for(&self, text: &str, found: &MachineCodeMatch) -> Option<&pcre2::bytes::Regex> {
        if found.credit < ABORT_COST || (self.has_end && text.ends_with('\n')) {
            return None;
        }
        if text.is_ascii() { Some(&self.bytes) } else { self.characters.get_or_init(|| self.for_characters()).as_ref() }
    }

    /// The code for characters; `None` if a class of the expression may match different characters beyond ASCII in
    /// PCRE2: `\h`, named classes, and all classes if the expression ignores case.
    fn for_characters(&self) -> Option<pcre2::bytes::Regex> {
        let ignores_case = self.expression.match_indices("(?").any(|(at, _)| {
            let flags = self.expression[at + 2..].split([':', ')', '<', '=']).next().unwrap_or_default();
            flags.contains('i')
        });
        if ignores_case || self.expression.contains(r"\h") || self.expression.contains("[:") {
            return None;
        }
        pcre2::bytes::RegexBuilder::new().utf(true).jit(true).build(&self.expression).ok()
    }
}

impl MachineCodeMatch {
    #[inline]
    fn run(&mut self, code: &pcre2::bytes::Regex, text: &str, start: usize) -> Option<bool> {
        match code.captures_read_at(&mut self.locations, text.as_bytes(), start) {
            Ok(matched) => {
                self.credit = (self.credit + 1).min(CREDIT_MAX);
                Some(matched.is_some())
            }
            Err(_) => {
                self.credit -= ABORT_COST;
                None
            }
        }
    }

    /// Start and end of a group that took part in the match.
    #[inline]
    pub(super) fn get(&self, group: usize) -> Option<(usize, usize)> {
        self.locations.get(group)
    }
}

/// Whether both engines have the same result for an expression.
fn qualifies(tree: &Hir) -> bool {
    let same = [Look::Start, Look::End, Look::WordAscii, Look::WordAsciiNegate];
    let same = same.into_iter().fold(LookSet::empty(), LookSet::insert);
    tree.properties().look_set().subtract(same).is_empty() && !repeats_empty(tree)
}

/// Whether the expression repeats something that may be empty. The engines differ in when they end such a repetition.
fn repeats_empty(tree: &Hir) -> bool {
    match tree.kind() {
        HirKind::Repetition(repetition) => {
            let is_loop = repetition.max != Some(1);
            let may_be_empty = repetition.sub.properties().minimum_len().is_none_or(|len| len == 0);
            (is_loop && may_be_empty) || repeats_empty(&repetition.sub)
        }
        HirKind::Capture(capture) => repeats_empty(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(repeats_empty),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Engine, Linear, Regex};
    use super::*;

    /// The access log expression of the default configuration, shortened.
    const ACCESS: &str = r#"^(?<ip>\S+) \[(?<t>[^\]]+)\] "(?:(?<m>[^\s"]+) (?<uri>(?<d>\w+://[^/\s"]+)?(?<p>[^?\s"]+)?(?:\?(?<q>[^\s"]*))?)(?: H/(?<v>[^\s"]+))?)?[^"]*" (?<s>\d{3})(?: "(?<a>(?:[^"\\]|\\.)*)")?"#;

    fn linear(regex: &Regex) -> &Linear {
        match &regex.engine {
            Engine::Linear(linear) => linear,
            Engine::Backtracking(_) => panic!("the linear engine does not run this pattern"),
        }
    }

    fn random(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % below
    }

    /// A random expression of some parts, each perhaps in a group and perhaps repeated.
    fn random_pattern(seed: &mut u64, depth: usize) -> String {
        const ATOMS: &[&str] = &[
            "a",
            "b",
            "ab",
            "a|ab",
            "ab|a",
            "[^a]",
            "[^\"]",
            r"\w",
            r"\s",
            r"\S",
            r"\d",
            ".",
            "\"",
            " ",
            r"\b",
            "$",
            r"\.",
            "(?i:A)",
            r"(?i:\w)",
            r"\h",
            "[[:alpha:]]",
            "a*?",
            "b+?",
        ];
        const REPEATS: &[&str] = &["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}?"];
        let parts = (0..1 + random(seed, 4)).map(|_| {
            let atom = match random(seed, 3) {
                0 if depth > 0 => random_pattern(seed, depth - 1),
                _ => ATOMS[random(seed, ATOMS.len())].to_owned(),
            };
            let open = ["(", "(?:"][random(seed, 2)];
            format!("{open}{atom}){}", REPEATS[random(seed, REPEATS.len())])
        });
        parts.collect()
    }

    fn random_text(seed: &mut u64) -> String {
        const LETTERS: &[&str] = &[
            "a", "b", "A", "ab", "c", " ", "\"", "\\", "1", "_", ".", "\n", "\r", "\t", "é", "\u{212a}", "\u{a0}", "ſ",
        ];
        // Most texts are ASCII.
        let letters = if random(seed, 8) == 0 { LETTERS.len() } else { LETTERS.len() - 4 };
        (0..random(seed, 16)).map(|_| LETTERS[random(seed, letters)]).collect()
    }

    /// Machine code for an expression, one-pass or not.
    fn code_of(regex: &Regex) -> Option<MachineCode> {
        let linear = linear(regex);
        MachineCode::new(&linear.source, linear.regex.as_str(), linear.regex.captures_len(), false)
    }

    /// Compares both engines on a text from `start`; returns whether machine code decided.
    fn agrees(regex: &Regex, code: &MachineCode, found: &mut MachineCodeMatch, text: &str, start: usize) -> bool {
        let linear = linear(regex);
        let mut expected = linear.regex.capture_locations();
        let is_expected = linear.regex.captures_read_at(&mut expected, text, start).is_some();
        let Some(is_match) = code.captures_at(&linear.regex, text, start, found) else { return false };
        assert_eq!(is_match, is_expected, "{:?} on {text:?}", linear.source);
        for group in (0..regex.group_count()).filter(|_| is_match) {
            assert_eq!(found.get(group), expected.get(group), "group {group} of {:?} on {text:?}", linear.source);
        }
        true
    }

    /// Compares the engines on random expressions that begin with `prefix`, from each position of random texts.
    fn compare_random(prefix: &str, mut seed: u64, starts: usize) -> (usize, usize) {
        let (mut generated, mut decided) = (0, 0);
        for _ in 0..3_000 {
            let regex = Regex::new(&format!("{prefix}{}", random_pattern(&mut seed, 2))).unwrap();
            let Some(code) = code_of(&regex) else { continue };
            generated += 1;
            let mut found = code.new_match();
            for _ in 0..60 / starts {
                let text = random_text(&mut seed);
                let starts = (0..=text.len()).filter(|start| text.is_char_boundary(*start)).take(starts);
                decided += starts.filter(|start| agrees(&regex, &code, &mut found, &text, *start)).count();
            }
        }
        (generated, decided)
    }

    #[test]
    fn both_engines_agree_on_random_patterns() {
        for (prefix, seed, starts) in [("^", 29, 1), ("ab", 37, 3), ("(?:a1|ab)", 41, 3), ("", 43, 3)] {
            let (generated, decided) = compare_random(prefix, seed, starts);
            assert!(generated > 500 && decided > 20_000, "{prefix:?}: {generated} expressions, {decided} texts");
        }
    }

    #[test]
    fn both_engines_agree_on_access_logs() {
        let parts = [
            "10.0.0.1 ",
            "[1/Jan] ",
            "\"",
            "GET ",
            "/a/b",
            "http://h",
            "/x?q=1&r=\"",
            " H/1.1",
            "\" ",
            "200",
            " \"agent ",
            "\\\"quoted\\\" ",
            "\"",
            "-",
            " ",
            "4041",
        ];
        let regex = Regex::new(ACCESS).unwrap();
        let code = code_of(&regex).unwrap();
        let (mut seed, mut matches, mut found) = (31u64, 0, code.new_match());
        for _ in 0..40_000 {
            // The parts in order, with some of them repeated, omitted, or replaced.
            let pick = |(at, part): (usize, &&'static str)| match random(&mut seed, 12) {
                0 => "",
                1 => parts[(at * 7 + 3) % parts.len()],
                _ => *part,
            };
            let text: String = parts.iter().enumerate().map(pick).collect();
            assert!(agrees(&regex, &code, &mut found, &text, 0), "machine code decides {text:?}");
            matches += usize::from(found.get(0).is_some());
        }
        assert!(matches > 5_000, "{matches} texts match");
    }

    #[test]
    fn expressions_with_other_results_are_refused() {
        let refused = ["a*", "(?m)^a", "^(?m:a$)", "^(?:a?)*b", "^(a|b*)+", "^é", r"^(?:a{0,2}){3}", r"^\pLx"];
        for pattern in refused {
            let regex = Regex::new(pattern).unwrap();
            assert!(code_of(&regex).is_none(), "{pattern}");
        }
        let regex = Regex::new("^(a+)$").unwrap();
        let mut found = regex.new_captures();
        for _ in 0..TEXTS_BEFORE + 8 {
            assert!(regex.captures_into("aa", &mut found));
            assert!(!regex.captures_into("aa\n", &mut found));
        }
    }

    #[test]
    fn expressions_with_many_ways_of_matching_return_to_the_linear_engine() {
        let regex = Regex::new(r"^(?:(a+)(a+)(a+))+b").unwrap();
        let code = code_of(&regex).unwrap();
        // Without the `b` at the end, no attempt would be made.
        let (text, mut found) = (format!("{}cb", "a".repeat(200)), code.new_match());
        assert_eq!(code.captures_starting_at("aaab", 0, &mut found), Some(true));
        for _ in 0..CREDIT_MAX / ABORT_COST {
            assert_eq!(code.captures_starting_at(&text, 0, &mut found), None);
        }
        assert_eq!(code.captures_starting_at("aaab", 0, &mut found), None, "the credit is used up");
        let mut captures = regex.new_captures();
        assert!((0..TEXTS_BEFORE * 2).all(|_| !regex.captures_into(&text, &mut captures)));
        assert!(regex.captures_into("aaaaab", &mut captures));
        assert_eq!(captures.get(1), Some((0, 3)));
    }
}
