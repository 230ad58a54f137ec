//! Replacement texts: plain text with `\1` or `$1` for groups.

use super::{Captures, Regex};

/// A parsed replacement text.
#[derive(Clone, Debug)]
pub struct Replacement {
    parts: Vec<ReplacementPart>,
}

#[derive(Clone, Debug)]
enum ReplacementPart {
    Plain(String),
    Group(usize),
}

impl Replacement {
    /// Parses `\N` and `$N` as groups of `regex` and `\\` as a backslash. `$N` beyond the last group is literal, so
    /// that prices are preserved; `\N` beyond the last group is empty.
    pub fn new(text: &str, regex: &Regex) -> Replacement {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let after = &rest[first.len_utf8()..];
            let group = if matches!(first, '\\' | '$') { group_number(after, first == '$', regex) } else { None };
            if let Some((group, length)) = group {
                if !plain.is_empty() {
                    parts.push(ReplacementPart::Plain(std::mem::take(&mut plain)));
                }
                parts.push(ReplacementPart::Group(group));
                rest = &after[length..];
            } else if first == '\\' && after.starts_with('\\') {
                plain.push('\\');
                rest = &after[1..];
            } else {
                plain.push(first);
                rest = after;
            }
        }
        if !plain.is_empty() {
            parts.push(ReplacementPart::Plain(plain));
        }
        Replacement { parts }
    }

    /// Appends the replacement for a match of `text`.
    pub fn expand(&self, text: &str, captures: &Captures, out: &mut String) {
        for part in &self.parts {
            match part {
                ReplacementPart::Plain(plain) => out.push_str(plain),
                ReplacementPart::Group(group) => out.push_str(captures.text(text, *group).unwrap_or_default()),
            }
        }
    }
}

/// The group reference at the start of a text (a number, or a name in braces), and its length.
fn group_number(text: &str, must_exist: bool, regex: &Regex) -> Option<(usize, usize)> {
    /// Groups beyond 99 cannot be referenced.
    const DIGITS_MAX: usize = 2;
    if must_exist && let Some(inner) = text.strip_prefix('{') {
        let (name, _) = inner.split_once('}')?;
        let by_name = || regex.group_names().iter().position(|known| known.as_deref() == Some(name));
        let group = name.parse().ok().or_else(by_name).filter(|group| *group < regex.group_count())?;
        return Some((group, name.len() + 2));
    }
    let digits = text.bytes().take(DIGITS_MAX).take_while(u8::is_ascii_digit).count();
    // `\12` is group 1 followed by a 2 if there are fewer than twelve groups.
    let exists = |length: &usize| text[..*length].parse::<usize>().is_ok_and(|group| group < regex.group_count());
    let length = (1..=digits).rev().find(exists);
    match length {
        Some(length) => Some((text[..length].parse().ok()?, length)),
        None if must_exist || digits == 0 => None,
        None => Some((text[..1].parse().ok()?, 1)),
    }
}
