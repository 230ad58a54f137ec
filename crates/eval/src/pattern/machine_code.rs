//! Groups of expressions that match at the start of a text only, such as the `EXTRACT-` of an access log, found by
//! machine code that PCRE2 generates.
//!
//! If such an expression is not one-pass, the linear engine tracks all ways of matching at once, which takes about ten
//! nanoseconds per byte. In nearly all texts, the first way that a backtracking matcher tries leads to the match, which
//! takes a tenth of that time. The number of its steps is limited: if a text needs more, the linear engine decides, and
//! if many texts do, machine code is no longer used.
//!
//! Both engines must have the same result. Expressions that reach this module have passed [`super::translate`], so that
//! each construct has the same meaning in both dialects. Differences that remain are excluded here: texts with bytes
//! beyond ASCII, `$` before a final newline, `^` and `$` of lines, and repetitions of something that may be empty.
//!
//! Not here: expressions that match elsewhere in a text, where the limit would apply to each position instead of to the
//! whole search.

use regex_syntax::hir::{Hir, HirKind, Look, LookSet};

/// Maximum number of steps in one text; a typical access log takes a few hundred.
const STEPS_MAX: u32 = 2_000;
/// Number of texts searched by the linear engine before machine code is generated, which takes as long as these.
pub(super) const TEXTS_BEFORE: u32 = 64;
/// Credit of a search at its start, and the most it can have.
const CREDIT_MAX: u32 = 64;
/// Credit that an aborted match costs; a finished match earns 1.
const ABORT_COST: u32 = 16;

/// The machine code of an expression.
#[derive(Clone, Debug)]
pub(super) struct MachineCode {
    code: pcre2::bytes::Regex,
    /// Whether the expression contains `$`, which PCRE2 also matches before a newline at the end of the text.
    has_end: bool,
}

/// Positions of the groups of one match, and what earlier matches have earned.
#[derive(Clone, Debug)]
pub(super) struct MachineCodeMatch {
    places: pcre2::bytes::CaptureLocations,
    credit: u32,
}

impl MachineCode {
    /// Machine code for `pattern`, which is `translated` in the dialect of the linear engine and has `groups` groups
    /// there. `None` if the expression does not qualify, or the processor has no code generator.
    pub(super) fn new(pattern: &str, translated: &str, groups: usize) -> Option<MachineCode> {
        // Bytes beyond ASCII would be separate characters, because the code is generated for bytes.
        if !pattern.is_ascii() || !pcre2::is_jit_available() {
            return None;
        }
        let tree = regex_syntax::parse(translated).ok()?;
        if !qualifies(&tree) {
            return None;
        }
        let mut builder = pcre2::bytes::RegexBuilder::new();
        let code = builder.jit(true).build(&format!("(*LIMIT_MATCH={STEPS_MAX}){pattern}")).ok()?;
        let has_end = tree.properties().look_set().contains(Look::End);
        (code.captures_len() == groups).then_some(MachineCode { code, has_end })
    }

    /// Space for the result of a search.
    pub(super) fn new_match(&self) -> MachineCodeMatch {
        MachineCodeMatch { places: self.code.capture_locations(), credit: CREDIT_MAX }
    }

    /// Whether the text matches; `None` if the linear engine must decide.
    #[inline]
    pub(super) fn captures(&self, text: &str, found: &mut MachineCodeMatch) -> Option<bool> {
        if found.credit < ABORT_COST || !text.is_ascii() || (self.has_end && text.ends_with('\n')) {
            return None;
        }
        match self.code.captures_read_at(&mut found.places, text.as_bytes(), 0) {
            Ok(matched) => {
                found.credit = (found.credit + 1).min(CREDIT_MAX);
                Some(matched.is_some())
            }
            Err(_) => {
                found.credit -= ABORT_COST;
                None
            }
        }
    }
}

impl MachineCodeMatch {
    /// Start and end of a group that took part in the match.
    #[inline]
    pub(super) fn get(&self, group: usize) -> Option<(usize, usize)> {
        self.places.get(group)
    }
}

/// Whether both engines have the same result for an expression of which every match starts at the start of the text.
fn qualifies(tree: &Hir) -> bool {
    let properties = tree.properties();
    let same = [Look::Start, Look::End, Look::WordAscii, Look::WordAsciiNegate];
    let same = same.into_iter().fold(LookSet::empty(), LookSet::insert);
    properties.look_set_prefix().contains(Look::Start)
        && properties.look_set().subtract(same).is_empty()
        && !repeats_empty(tree)
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
        const LETTERS: &[&str] =
            &["a", "b", "A", "ab", "c", " ", "\"", "\\", "1", "_", ".", "\n", "\r", "\t", "é", "\u{212a}"];
        // Most texts are ASCII.
        let letters = if random(seed, 8) == 0 { LETTERS.len() } else { LETTERS.len() - 2 };
        (0..random(seed, 16)).map(|_| LETTERS[random(seed, letters)]).collect()
    }

    /// Compares both engines on a text; returns whether machine code decided.
    fn agrees(regex: &Regex, code: &MachineCode, found: &mut MachineCodeMatch, text: &str) -> bool {
        let linear = linear(regex);
        let mut expected = linear.regex.capture_locations();
        let is_expected = linear.regex.captures_read_at(&mut expected, text, 0).is_some();
        let Some(is_match) = code.captures(text, found) else { return false };
        assert_eq!(is_match, is_expected, "{:?} on {text:?}", linear.source);
        for group in (0..regex.group_count()).filter(|_| is_match) {
            assert_eq!(found.get(group), expected.get(group), "group {group} of {:?} on {text:?}", linear.source);
        }
        true
    }

    #[test]
    fn both_engines_agree_on_random_patterns() {
        let (mut seed, mut generated, mut decided) = (29u64, 0, 0);
        for _ in 0..3_000 {
            let regex = Regex::new(&format!("^{}", random_pattern(&mut seed, 2))).unwrap();
            let Some(code) = linear(&regex).new_machine_code() else { continue };
            generated += 1;
            let mut found = code.new_match();
            decided += (0..60).filter(|_| agrees(&regex, &code, &mut found, &random_text(&mut seed))).count();
        }
        assert!(generated > 500 && decided > 20_000, "{generated} expressions, {decided} texts");
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
        let code = linear(&regex).new_machine_code().unwrap();
        let (mut seed, mut matches, mut found) = (31u64, 0, code.new_match());
        for _ in 0..40_000 {
            // The parts in order, with some of them repeated, omitted, or replaced.
            let pick = |(at, part): (usize, &&'static str)| match random(&mut seed, 12) {
                0 => "",
                1 => parts[(at * 7 + 3) % parts.len()],
                _ => *part,
            };
            let text: String = parts.iter().enumerate().map(pick).collect();
            assert!(agrees(&regex, &code, &mut found, &text), "machine code decides {text:?}");
            matches += usize::from(found.get(0).is_some());
        }
        assert!(matches > 5_000, "{matches} texts match");
    }

    #[test]
    fn expressions_with_other_results_are_refused() {
        let refused = ["a", "(?m)^a", "^(?m:a$)", "^(?:a?)*b", "^(a|b*)+", "^é", "a^b|c", r"^(?:a{0,2}){3}"];
        for pattern in refused {
            let regex = Regex::new(pattern).unwrap();
            assert!(linear(&regex).new_machine_code().is_none(), "{pattern}");
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
        let code = linear(&regex).new_machine_code().unwrap();
        // With a `b` at the end, or no attempt would be made.
        let (text, mut found) = (format!("{}cb", "a".repeat(200)), code.new_match());
        assert_eq!(code.captures("aaab", &mut found), Some(true));
        for _ in 0..CREDIT_MAX / ABORT_COST {
            assert_eq!(code.captures(&text, &mut found), None);
        }
        assert_eq!(code.captures("aaab", &mut found), None, "the credit is used up");
        let mut captures = regex.new_captures();
        assert!((0..TEXTS_BEFORE * 2).all(|_| !regex.captures_into(&text, &mut captures)));
        assert!(regex.captures_into("aaaaab", &mut captures));
        assert_eq!(captures.get(1), Some((0, 3)));
    }
}
