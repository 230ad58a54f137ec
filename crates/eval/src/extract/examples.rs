//! Regular expressions learnt from examples: texts in which a value is marked.
//!
//! The text before the values anchors the pattern. It is as short as possible while the pattern finds the
//! value of every example and no counterexample. The characters of the values determine the pattern of the group.

use crate::pattern::Regex;

/// Maximum number of characters before a value that may become a part of the pattern.
const PREFIX_CHARS_MAX: usize = 30;

/// A text with a marked value; the positions are byte offsets on character boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Text that contains the value.
    pub text: String,
    /// Start of the value.
    pub start: usize,
    /// End of the value.
    pub end: usize,
}

impl Example {
    /// A text with the value between two positions; `None` unless the positions are ascending character boundaries of
    /// the text.
    pub fn new(text: String, start: usize, end: usize) -> Option<Example> {
        let has_value = text.get(start..end).is_some_and(|value| !value.is_empty());
        has_value.then_some(Example { text, start, end })
    }

    fn value(&self) -> &str {
        &self.text[self.start..self.end]
    }

    fn before(&self) -> &str {
        &self.text[..self.start]
    }

    fn next(&self) -> Option<char> {
        self.text[self.end..].chars().next()
    }
}

/// The patterns that fit all examples, best first, with the value in the group `group`; at most `most`.
pub fn patterns_of(group: &str, examples: &[Example], counterexamples: &[String], most: usize) -> Vec<String> {
    let Some(first) = examples.first() else { return Vec::new() };
    let before: Vec<char> = first.before().chars().rev().take(PREFIX_CHARS_MAX).collect();
    let is_common =
        |at: &usize| examples.iter().all(|other| other.before().chars().rev().nth(*at) == before.get(*at).copied());
    let common = (0..before.len()).take_while(is_common).count();
    let begins = examples.iter().all(|example| example.before().is_empty());
    let value = value_pattern(examples);
    // Short prefixes are tried first; those without a word or from the middle of a word are tried after the others, the
    // empty prefix last.
    let has_word = |length: usize| before[..length].iter().any(|c| c.is_alphanumeric());
    let is_whole = |length: &usize| {
        has_word(*length) && before.get(*length).is_none_or(|c| !c.is_alphanumeric() || *length == common)
    };
    let lengths = (1..=common).filter(is_whole).chain(1..=common).chain(std::iter::once(0));
    let mut found: Vec<String> = Vec::new();
    for length in lengths {
        let head: String = before[..length].iter().rev().map(|c| escape(*c)).collect();
        let head = if length == 0 && begins { "^".to_owned() } else { head };
        let pattern = format!("{head}(?<{group}>{value})");
        if !found.contains(&pattern) && matches_examples(&pattern, examples, counterexamples) {
            found.push(pattern);
        }
        if found.len() >= most {
            break;
        }
    }
    found
}

/// Text that the first group of a pattern captures; `None` without a match, or if the pattern is invalid.
pub fn find_value(pattern: &str, text: &str) -> Option<String> {
    Regex::new(pattern).ok()?.first_group(text).map(str::to_owned)
}

/// Character classes of the values.
fn value_pattern(examples: &[Example]) -> String {
    let all = |test: fn(char) -> bool| examples.iter().all(|example| example.value().chars().all(test));
    if all(|c| c.is_ascii_digit()) {
        return r"\d+".to_owned();
    }
    let is_address = |example: &Example| example.value().matches('.').count() == 3;
    if all(|c| c.is_ascii_digit() || c == '.') && examples.iter().all(is_address) {
        return r"\d+\.\d+\.\d+\.\d+".to_owned();
    }
    if all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return r"\w+".to_owned();
    }
    let next = examples.first().and_then(Example::next);
    let is_end = |c: &char| examples.iter().all(|example| example.next() == Some(*c) && !example.value().contains(*c));
    match next.filter(is_end) {
        Some(c) if c.is_whitespace() => r"\S+".to_owned(),
        Some(c) => format!("[^{}]+", escape(c)),
        None if all(|c| !c.is_whitespace()) => r"\S+".to_owned(),
        None => ".+".to_owned(),
    }
}

/// Whether a pattern finds every example in its text, and none of the counterexamples.
fn matches_examples(pattern: &str, examples: &[Example], counterexamples: &[String]) -> bool {
    let Ok(regex) = Regex::new(pattern) else { return false };
    let finds = |text: &str, wanted: &str| regex.first_group(text).is_some_and(|found| found == wanted);
    let good = examples.iter().all(|example| finds(&example.text, example.value()));
    good && !counterexamples.iter().any(|wrong| examples.iter().any(|example| finds(&example.text, wrong)))
}

/// A character as a regular expression.
fn escape(letter: char) -> String {
    if letter.is_alphanumeric() || letter == ' ' || letter == '_' { letter.to_string() } else { format!("\\{letter}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> Example {
        let (before, rest) = text.split_once('<').unwrap();
        let (value, after) = rest.split_once('>').unwrap();
        let (start, end) = (before.len(), before.len() + value.len());
        Example::new(format!("{before}{value}{after}"), start, end).unwrap()
    }

    #[test]
    fn patterns_find_the_marked_values() {
        for (texts, best) in [
            (&["took=<12> ms", "x took=<7> ms"][..], r"took\=(?<v>\d+)"),
            (&["from <10.0.0.1> port 5"][..], r"from (?<v>\d+\.\d+\.\d+\.\d+)"),
            (&["user [<a b>] in", "é [<c>] out"][..], r"\[(?<v>[^\]]+)"),
            (&["<start> x"][..], r"^(?<v>\w+)"),
        ] {
            let examples: Vec<Example> = texts.iter().map(|text| marked(text)).collect();
            let found = patterns_of("v", &examples, &[], 3);
            assert_eq!(found.first().map(String::as_str), Some(best), "{texts:?}");
            assert!(found.iter().all(|pattern| matches_examples(pattern, &examples, &[])), "{found:?}");
        }
    }

    #[test]
    fn counterexamples_exclude_patterns() {
        let examples = [marked("id=<5> id=7")];
        assert!(!patterns_of("v", &examples, &[], 5).is_empty());
        assert!(patterns_of("v", &examples, &["5".to_owned()], 5).is_empty());
        assert!(Example::new("é".to_owned(), 1, 2).is_none() && Example::new("a".to_owned(), 1, 1).is_none());
    }
}
