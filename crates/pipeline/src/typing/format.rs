//! `FORMAT` of a rule: text with references to groups of a match.
//!
//! `$1` is a group and `$0` the previous value of the key; any other dollar sign is literal. A rule that adds fields
//! parses its format as `name::value` pairs separated by blanks; quotes protect blanks in a name or value. Groups are
//! substituted afterwards, so that blanks in their text do not separate pairs.

use std::borrow::Cow;

use crate::pattern::Groups;
use crate::text::lossy_slice;

/// Separator of name and value.
const PAIR: &str = "::";

/// Text with group references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<FormatPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    Group(usize),
    Previous,
}

impl Template {
    /// Parses a format for a pattern with `groups` groups, including the whole match.
    pub(crate) fn new(text: &str, groups: usize) -> Template {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('$') {
            plain.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            let (part, length) = match group_number(behind, groups) {
                Some((0, length)) => (FormatPart::Previous, length),
                Some((number, length)) => (FormatPart::Group(number), length),
                None => {
                    plain.push('$');
                    rest = behind;
                    continue;
                }
            };
            if !plain.is_empty() {
                parts.push(FormatPart::Text(std::mem::take(&mut plain)));
            }
            parts.push(part);
            rest = &behind[length..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(FormatPart::Text(plain));
        }
        Template { parts }
    }

    /// Whether the format refers to the previous value.
    pub(crate) fn needs_previous(&self) -> bool {
        self.parts.contains(&FormatPart::Previous)
    }

    /// Substitutes the groups; `None` if a group did not take part in the match.
    pub(crate) fn fill<'a>(&'a self, text: &'a str, groups: &Groups, previous: &'a str) -> Option<Cow<'a, str>> {
        let one = |part: &'a FormatPart| match part {
            FormatPart::Text(plain) => Some(Cow::Borrowed(plain.as_str())),
            FormatPart::Group(number) => groups.get(*number).map(|range| lossy_slice(text.as_bytes(), range)),
            FormatPart::Previous => Some(Cow::Borrowed(previous)),
        };
        if let [only] = self.parts.as_slice() {
            return one(only);
        }
        let parts: Option<Vec<Cow<'_, str>>> = self.parts.iter().map(one).collect();
        parts.map(|parts| Cow::Owned(parts.concat()))
    }
}

/// The longest valid group number at the start of the text, and its length.
fn group_number(text: &str, groups: usize) -> Option<(usize, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=digits.min(3)).rev().find_map(|length| {
        let number = text[..length].parse().ok().filter(|number| *number < groups)?;
        Some((number, length))
    })
}

/// The `name::value` pairs in a format or in the text of `_meta`.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let (mut name, mut word, mut quoted) = (None, String::new(), false);
    let mut letters = text.chars().peekable();
    let mut end_word = |name: &mut Option<String>, word: &mut String| {
        if let Some(name) = name.take().filter(|name| !name.is_empty()) {
            pairs.push((name, std::mem::take(word)));
        }
        word.clear();
    };
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted && matches!(letters.peek(), Some('"' | '\\')) => word.extend(letters.next()),
            '"' => quoted = !quoted,
            ':' if !quoted && name.is_none() && letters.peek() == Some(&':') => {
                letters.next();
                name = Some(std::mem::take(&mut word));
            }
            letter if letter.is_whitespace() && !quoted => end_word(&mut name, &mut word),
            letter => word.push(letter),
        }
    }
    end_word(&mut name, &mut word);
    pairs
}

/// Appends a pair in the format of `_meta`.
pub(crate) fn write_pair(name: &str, value: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(' ');
    }
    for (at, part) in [name, value].into_iter().enumerate() {
        if at == 1 {
            out.push_str(PAIR);
        }
        let needs_quotes =
            part.is_empty() || part.contains(|letter: char| letter.is_whitespace() || "\"\\".contains(letter));
        if !needs_quotes {
            out.push_str(part);
            continue;
        }
        out.push('"');
        for letter in part.chars() {
            if matches!(letter, '"' | '\\') {
                out.push('\\');
            }
            out.push(letter);
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;

    fn filled(pattern: &str, format: &str, text: &str) -> Option<String> {
        let pattern = Pattern::new(pattern).unwrap();
        let mut groups = pattern.groups();
        pattern.find_groups(text.as_bytes(), 0, &mut groups).unwrap();
        Template::new(format, groups.count()).fill(text, &groups, "before").map(Cow::into_owned)
    }

    #[test]
    fn groups_are_referenced_by_dollar_signs() {
        assert_eq!(filled("(a)(b)", "$2-$1 $3 $ $0", "ab").unwrap(), "b-a $3 $ before");
        assert_eq!(filled("(a)", "$12", "a").unwrap(), "a2");
        assert_eq!(filled("(a)|(b)", "$1", "b"), None);
        assert_eq!(filled("(a)", "", "a").unwrap(), "");
    }

    #[test]
    fn pairs_are_split_at_blanks_outside_quotes() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs("a::$1  b::\"x y\" junk \"c d\"::e::f"),
            [pair("a", "$1"), pair("b", "x y"), pair("c d", "e::f")]
        );
        let mut text = String::new();
        write_pair("a", "x \"y\" \\", &mut text);
        write_pair("b", "plain", &mut text);
        assert_eq!(pairs(&text), [pair("a", "x \"y\" \\"), pair("b", "plain")]);
    }
}
