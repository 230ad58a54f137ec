//! Wraps help and prose to the terminal's width: long lines are broken at blanks and continue with a hanging indent,
//! below the beginning of their text. Escape codes take no columns.

use std::borrow::Cow;
use std::io::IsTerminal;

use super::text_width::{escape_unsafe, is_unsafe, width};
use crate::printed_commands::add_data_dir;

/// Colours of messages: red, yellow, cyan, and the reset code.
pub(crate) const RED: &str = "\u{1b}[1;31m";
pub(crate) const YELLOW: &str = "\u{1b}[1;33m";
pub(crate) const CYAN: &str = "\u{1b}[1;36m";
pub(crate) const PLAIN: &str = "\u{1b}[0m";
/// Escape sequences that a message may contain.
const COLOR_CODES: [&str; 4] = [RED, YELLOW, CYAN, PLAIN];

/// Maximum hanging indent beside a name; beyond it, a line continues at its own indent.
const HANGING_INDENT_MAX: usize = 40;

/// Width of the terminal on standard error; `None` for a pipe or file.
pub(crate) fn stderr_width() -> Option<u16> {
    let (_, columns) = console::Term::stderr().size_checked().filter(|_| std::io::stderr().is_terminal())?;
    Some(columns)
}

/// Prepares a message for standard error: adds the data directory to its commands, and folds it on a terminal.
pub(crate) fn prepare_message(text: &str) -> String {
    let text = add_data_dir(text);
    let text = escape_except(&text, &COLOR_CODES);
    match stderr_width() {
        Some(columns) => fold_text(&text, usize::from(columns)),
        None => text.into_owned(),
    }
}

/// Escapes control characters, which names of files and fields may contain, except the colour codes `shades`.
fn escape_except<'t>(text: &'t str, shades: &[&str]) -> Cow<'t, str> {
    if !text.contains(|c| is_unsafe(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(shade) = shades.iter().find(|shade| rest.starts_with(**shade)) {
            out.push_str(shade);
            rest = &rest[shade.len()..];
            continue;
        }
        let next = rest.char_indices().skip(1).find(|(_, c)| *c == '\u{1b}');
        let len = next.map_or(rest.len(), |(at, _)| at);
        out.push_str(&escape_unsafe(&rest[..len], false));
        rest = &rest[len..];
    }
    Cow::Owned(out)
}

/// Folds a text so that no line is wider than `columns`, unless a single word is wider.
pub(crate) fn fold_text(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        fold(line, columns, &mut out);
    }
    out
}

/// Folds one line.
fn fold(line: &str, columns: usize, out: &mut String) {
    if display_width(line) <= columns {
        out.push_str(line);
        return;
    }
    let hang = hanging_indent(line).min(columns / 2);
    let (mut used, mut blanks) = (0, 0);
    for (at, word) in line.split(' ').enumerate() {
        blanks += usize::from(at > 0);
        if word.is_empty() {
            continue;
        }
        let wide = display_width(word);
        if used > hang && used + blanks + wide > columns {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', hang));
            used = hang;
        } else {
            out.extend(std::iter::repeat_n(' ', blanks));
            used += blanks;
        }
        blanks = 0;
        out.push_str(word);
        used += wide;
    }
}

/// Column at which the text of a line begins: after a name and at least two blanks, or after its indent.
fn hanging_indent(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let gap = line[indent..].find("  ").map(|at| indent + at);
    let text = gap.map(|gap| {
        let blanks = line[gap..].len() - line[gap..].trim_start_matches(' ').len();
        display_width(&line[..gap]) + blanks
    });
    text.filter(|&text| text <= HANGING_INDENT_MAX).unwrap_or(indent)
}

/// Displayed width of a text with colour codes.
fn display_width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, width);
    // An escape code extends to its final letter.
    first
        + parts
            .map(|part| part.split_once(|c: char| c.is_ascii_alphabetic()).map_or(0, |(_, text)| width(text)))
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_colours_and_escape_control_characters() {
        let shown = |text: &str| escape_except(text, &COLOR_CODES).into_owned();
        for plain in ["one\ntwo", "\u{1b}[1;33mnote\u{1b}[0m: é ü"] {
            assert_eq!(shown(plain), plain);
        }
        let name = "eve\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{1b}[31mé\u{202e}";
        let says = "\u{1b}[1;33mnote\u{1b}[0m: eve\\x1b]0;OWNED\\x07\\x1b[2J\\x1b[31mé\\u{202e}, tom";
        assert_eq!(shown(&format!("\u{1b}[1;33mnote\u{1b}[0m: {name}, tom")), says);
        assert_eq!(shown("\u{1b}é"), "\\x1bé");
    }

    #[test]
    fn long_lines_continue_with_a_hanging_indent() {
        for (text, columns, want) in [
            ("short", 10, "short"),
            ("one two three four", 9, "one two\nthree\nfour"),
            ("  name  what it does here", 17, "  name  what it\n        does here"),
            ("    indented words here", 14, "    indented\n    words here"),
            ("averyverylongword", 5, "averyverylongword"),
            ("a\nb c d", 3, "a\nb c\nd"),
            ("\u{1b}[1mab\u{1b}[0m cd", 5, "\u{1b}[1mab\u{1b}[0m cd"),
            ("\u{1b}[1mab\u{1b}[0m cd", 4, "\u{1b}[1mab\u{1b}[0m\ncd"),
        ] {
            assert_eq!(fold_text(text, columns), want);
        }
    }
}
