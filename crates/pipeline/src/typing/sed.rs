//! `SEDCMD-class`: edits an event's text.
//!
//! Commands are separated by blanks. `s/PATTERN/TEXT/FLAGS` replaces the first match; with a number as flag, it
//! replaces that match; with `g`, all matches, or all from that number on. In TEXT, `\0` is the whole match, and `\1`
//! to `\9` are its groups. `y/ABC/XYZ/` replaces characters individually. Any character other than a letter, digit,
//! blank or backslash can be used instead of `/`.

use quarry_stdx::Fault;
use std::borrow::Cow;

use crate::pattern::{Groups, Pattern};
use crate::text::text_of;

/// The commands of one class.
#[derive(Debug)]
pub(crate) struct Sed {
    commands: Vec<Command>,
}

#[derive(Debug)]
enum Command {
    Substitute(Substitute),
    /// Each character with its replacement.
    Transliterate(Vec<(char, char)>),
}

#[derive(Debug)]
struct Substitute {
    pattern: Pattern,
    replacement: Vec<ReplacementPart>,
    /// Number of the first match to replace, from 1.
    first: usize,
    /// Whether all later matches are also replaced.
    all: bool,
}

#[derive(Debug)]
enum ReplacementPart {
    Text(String),
    Group(usize),
}

impl Sed {
    /// Parses the commands; the error describes the fault.
    pub(crate) fn new(text: &str) -> Result<Sed, Fault> {
        let mut commands = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (command, after) = command(rest)?;
            commands.push(command);
            rest = after.trim_start();
        }
        if commands.is_empty() { Err(Fault::invalid("there is no command")) } else { Ok(Sed { commands }) }
    }

    /// The text after all commands, if it changed.
    pub(crate) fn edit(&self, text: &str) -> Option<String> {
        let mut edited: Option<String> = None;
        for command in &self.commands {
            let now = edited.as_deref().unwrap_or(text);
            let next = match command {
                Command::Substitute(substitute) => substitute.edit(now),
                Command::Transliterate(letters) => transliterate(letters, now),
            };
            edited = next.or(edited);
        }
        edited
    }
}

/// The command at the start of the text, and the rest of the text.
fn command(text: &str) -> Result<(Command, &str), Fault> {
    let mut letters = text.chars();
    let (kind, sign) = (letters.next(), letters.next());
    let Some(sign) = sign.filter(|sign| !sign.is_alphanumeric() && !sign.is_whitespace() && *sign != '\\') else {
        return Err(Fault::invalid("a command is s/PATTERN/TEXT/FLAGS or y/ABC/XYZ/"));
    };
    let unended = || Fault::invalid(format!("a command needs three {sign}"));
    let body = letters.as_str();
    let (first, body) = take_until(body, sign).ok_or_else(unended)?;
    let (second, body) = take_until(body, sign).ok_or_else(unended)?;
    let end = body.find(char::is_whitespace).unwrap_or(body.len());
    let (flags, rest) = body.split_at(end);
    let command = match kind {
        Some('s') => Command::Substitute(Substitute::new(&first, &second, flags)?),
        Some('y') if flags.is_empty() => Command::Transliterate(letter_pairs(&first, &second)?),
        Some('y') => return Err(Fault::invalid(format!("y takes no flags, but `{flags}` follows"))),
        _ => return Err(Fault::invalid("a command begins with s or y")),
    };
    Ok((command, rest))
}

/// The text before `sign`, with escaped signs unescaped, and the rest of the text.
fn take_until(text: &str, sign: char) -> Option<(String, &str)> {
    let mut taken = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == sign {
            return Some((taken, &text[at + sign.len_utf8()..]));
        }
        if letter != '\\' {
            taken.push(letter);
            continue;
        }
        match letters.next() {
            // `\/` is the sign itself; a sign that is special in patterns keeps its escape.
            Some((_, next)) if next == sign && !"|.+*?()[]{}^$".contains(sign) => taken.push(next),
            Some((_, next)) => taken.extend(['\\', next]),
            None => return None,
        }
    }
    None
}

fn letter_pairs(from: &str, to: &str) -> Result<Vec<(char, char)>, Fault> {
    let (from, to): (Vec<char>, Vec<char>) = (unescaped(from), unescaped(to));
    if from.len() != to.len() {
        return Err(Fault::invalid(format!(
            "y replaces {} letters with {}; the numbers must be equal",
            from.len(),
            to.len()
        )));
    }
    Ok(from.into_iter().zip(to).collect())
}

fn unescaped(text: &str) -> Vec<char> {
    let mut letters = text.chars();
    let mut out = Vec::new();
    while let Some(letter) = letters.next() {
        out.push(if letter == '\\' { letters.next().map_or('\\', control_char) } else { letter });
    }
    out
}

/// The meaning of a letter after a backslash.
fn control_char(letter: char) -> char {
    match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        other => other,
    }
}

fn transliterate(pairs: &[(char, char)], text: &str) -> Option<String> {
    let find = |letter: char| pairs.iter().find(|(from, _)| *from == letter).map(|(_, to)| *to);
    text.contains(|letter| find(letter).is_some())
        .then(|| text.chars().map(|letter| find(letter).unwrap_or(letter)).collect())
}

impl Substitute {
    fn new(pattern: &str, replacement: &str, flags: &str) -> Result<Substitute, Fault> {
        let pattern = Pattern::new(pattern)?;
        let (mut first, mut all) = (0, false);
        for flag in flags.chars() {
            match flag {
                'g' => all = true,
                digit if digit.is_ascii_digit() => first = first * 10 + (digit as usize - '0' as usize).min(9),
                other => return Err(Fault::invalid(format!("the flag {other} is unknown; flags are g and a number"))),
            }
            if first > u32::MAX as usize {
                return Err(Fault::invalid(format!("{flags}: the number is too large")));
            }
        }
        let replacement = parts(replacement, pattern.groups().count())?;
        Ok(Substitute { pattern, replacement, first: first.max(1), all })
    }

    fn edit(&self, text: &str) -> Option<String> {
        let bytes = text.as_bytes();
        let mut groups = self.pattern.groups();
        let (mut out, mut kept, mut from, mut number) = (Vec::new(), 0, 0, 0);
        let mut last_end = None;
        while from <= bytes.len() {
            let Some(found) = self.pattern.find_groups(bytes, from, &mut groups) else { break };
            from = if found.is_empty() { next_letter(text, found.end) } else { found.end };
            // An empty match directly after another match does not count.
            if found.is_empty() && last_end == Some(found.start) {
                continue;
            }
            last_end = Some(found.end);
            number += 1;
            if number < self.first {
                continue;
            }
            out.extend_from_slice(&bytes[kept..found.start]);
            self.write(bytes, &groups, &mut out);
            kept = found.end;
            if !self.all {
                break;
            }
        }
        if number < self.first {
            return None;
        }
        out.extend_from_slice(&bytes[kept..]);
        Some(text_of(out))
    }

    fn write(&self, text: &[u8], groups: &Groups, out: &mut Vec<u8>) {
        for part in &self.replacement {
            match part {
                ReplacementPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                ReplacementPart::Group(number) => {
                    out.extend_from_slice(groups.get(*number).map_or(&[], |range| &text[range]))
                }
            }
        }
    }
}

/// Position after the character at `at`.
fn next_letter(text: &str, at: usize) -> usize {
    (at + 1..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(at + 1)
}

fn parts(text: &str, groups: usize) -> Result<Vec<ReplacementPart>, Fault> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some(digit @ '0'..='9') => {
                let number = digit as usize - '0' as usize;
                if number >= groups {
                    return Err(Fault::invalid(format!("\\{number} refers to a group that the pattern does not have")));
                }
                parts.push(ReplacementPart::Text(std::mem::take(&mut plain)));
                parts.push(ReplacementPart::Group(number));
            }
            Some(other) => plain.push(control_char(other)),
            None => plain.push('\\'),
        }
    }
    parts.push(ReplacementPart::Text(plain));
    Ok(parts)
}

/// The text after all edits; borrowed if nothing changed.
pub(crate) fn apply_all<'a>(sed: &[Sed], text: &'a str) -> Cow<'a, str> {
    let mut now = Cow::Borrowed(text);
    for class in sed {
        if let Some(next) = class.edit(&now) {
            now = Cow::Owned(next);
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(commands: &str, text: &str) -> String {
        apply_all(&[Sed::new(commands).unwrap()], text).into_owned()
    }

    #[test]
    fn matches_are_replaced_by_number() {
        assert_eq!(run("s/a/b/", "aaa"), "baa");
        assert_eq!(run("s/a/b/2", "aaa"), "aba");
        assert_eq!(run("s/a/b/2g", "aaa"), "abb");
        assert_eq!(run("s/a/b/4", "aaa"), "aaa");
        assert_eq!(run(r"s/(\d{4})-(\d\d)/\2.\1/g s/x/y/", "2026-11 2025-01 x"), "11.2026 01.2025 y");
        assert_eq!(
            run(r"s/password=\S+/password=####/g", "a password=x b password=y"),
            "a password=#### b password=####"
        );
        assert_eq!(run(r"s/\/tmp\//\/var\//", "/tmp/a"), "/var/a");
        assert_eq!(run("s#/tmp#/var#", "/tmp/a"), "/var/a");
        assert_eq!(run(r"s/,/\n/g", "a,b"), "a\nb");
        assert_eq!(run("s/x*/-/g", "axb"), "-a-b-");
        assert_eq!(run("s/$/!/", ""), "!");
        assert_eq!(run("s/x*/-/g", "ü"), "-ü-");
    }

    #[test]
    fn letters_are_replaced_one_by_one() {
        assert_eq!(run("y/abc/xyz/", "aabbcd"), "xxyyzd");
        assert_eq!(run("y/äö/ao/", "höhä"), "hoha");
    }

    #[test]
    fn invalid_commands_are_errors() {
        for bad in ["", "s/a/b", "q/a/b/", "s/a/b/x", "y/ab/x/", r"s/a/\1/", "s/(/x/", "sab"] {
            assert!(Sed::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn invalid_utf_8_is_escaped() {
        assert_eq!(run("s/.$//", "gr\u{fc}"), "gr\\xC3");
    }
}
