//! Display width of text on a terminal, and text made safe for the terminal: control characters are made visible, and
//! long lines are wrapped.
//!
//! Width is counted as terminals do (`wcwidth`, Unicode Standard Annex 11): wide characters take two columns, and
//! combining characters take none. Escape codes in data are shown, never sent, so that a log line cannot control the
//! terminal.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Columns between tab stops.
const TAB_STOP: usize = 8;

/// Display width of a text without control characters.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char_width).sum() }
}

/// Display width of a character.
pub(crate) fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// One line of data, safe for a terminal: tabs become blanks, other control characters are escaped.
pub(crate) fn escape_line(line: &str) -> Cow<'_, str> {
    if !line.contains(is_unsafe) {
        return Cow::Borrowed(line);
    }
    let (mut out, mut column) = (String::with_capacity(line.len() + 16), 0);
    for c in line.chars() {
        let from = out.len();
        match c {
            '\t' => out.extend(std::iter::repeat_n(' ', TAB_STOP - column % TAB_STOP)),
            '\r' => out.push_str("\\r"),
            c if is_unsafe(c) && c.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        column += width(&out[from..]);
    }
    Cow::Owned(out)
}

/// Text of a format for programs, safe for a terminal: line breaks and tabs stay, other control characters are escaped,
/// in JSON by JSON's own escapes.
pub(crate) fn escape_unsafe(text: &str, is_json: bool) -> Cow<'_, str> {
    let acts = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !acts(c) => out.push(c),
            c if is_json => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&escape_line(c.encode_utf8(&mut [0; 4]))),
        }
    }
    Cow::Owned(out)
}

/// Characters that act on a terminal or change text direction (U+202A to U+202E, U+2066 to U+2069).
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text truncated to `columns`, with `…` if something was dropped.
pub(crate) fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut shown: String = text
        .chars()
        .take_while(|&c| {
            used += char_width(c);
            used < columns
        })
        .collect();
    shown.push('…');
    Cow::Owned(shown)
}

/// Characters after which a word longer than a line may be broken, as in names of classes, paths, addresses and
/// queries.
const BREAK_CHARS: &[char] = &['.', '/', ':', ',', ';', '=', '&', '?', '|', '(', ')', '[', ']', '{', '}', '-', '_'];
/// Minimum width of lines in which words are broken at [`BREAK_CHARS`]; narrower lines would hold too little text.
const BREAK_COLUMNS_MIN: usize = 20;

/// Position at which to break a word at the end of a line: after the last of [`BREAK_CHARS`] if this position is in the
/// last third of the line, else at the end.
fn break_position(line: &str, columns: usize) -> usize {
    let joint = line.char_indices().rfind(|(_, c)| BREAK_CHARS.contains(c)).map(|(at, c)| at + c.len_utf8());
    joint.filter(|&at| columns >= BREAK_COLUMNS_MIN && at > line.len() * 2 / 3).unwrap_or(line.len())
}

/// Text in lines of at most `columns`, broken at blanks if possible. A word longer than a line begins directly after
/// the text before it.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<&str> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let (mut used, mut cut, mut blank) = (0, 0, None);
        for (at, c) in rest.char_indices() {
            used += char_width(c);
            if c == ' ' && at > 0 {
                blank = Some(at);
            }
            if used > columns {
                break;
            }
            cut = at + c.len_utf8();
        }
        if used <= columns {
            break;
        }
        // A single character may be wider than the line.
        let cut = cut.max(rest.chars().next().map_or(0, char::len_utf8));
        let is_longer = |word: &str| word.split(' ').next().is_some_and(|word| width(word) > columns);
        let end = match blank.filter(|&blank| blank <= cut) {
            Some(blank) if !is_longer(&rest[blank + 1..]) => blank,
            blank => {
                let end = break_position(&rest[..cut], columns);
                // A break inside the last word is of little use if it leaves only a few characters of the word on the
                // line.
                blank.filter(|&blank| width(&rest[blank..end.max(blank)]) <= columns / 3).unwrap_or(end)
            }
        };
        lines.push(&rest[..end]);
        rest = rest[end..].strip_prefix(' ').unwrap_or(&rest[end..]);
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_equals_terminal_columns() {
        for (text, columns) in [("abc", 3), ("é", 1), ("e\u{301}", 1), ("日本", 4), ("ﬁ", 1), ("🙂", 2), ("", 0)]
        {
            assert_eq!(width(text), columns, "{text}");
        }
    }

    #[test]
    fn control_characters_are_shown_and_tabs_reach_their_stops() {
        for (text, shown) in [
            ("plain", "plain"),
            ("a\tb", "a       b"),
            ("日\tb", "日      b"),
            ("\u{1b}[31mred\u{1b}[0m", "\\x1b[31mred\\x1b[0m"),
            ("a\rb\u{7}", "a\\rb\\x07"),
            ("x\u{9b}2Jy", "x\\u{9b}2Jy"),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(escape_line(text), shown);
        }
    }

    #[test]
    fn truncated_texts_are_marked_and_fit() {
        for (text, columns, shown) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 4, "日…"),
            ("日本語", 5, "日本…"),
            ("", 0, ""),
            ("ab", 1, "…"),
        ] {
            assert_eq!(truncate(text, columns), shown);
        }
    }

    #[test]
    fn lines_break_at_blanks_or_where_they_must() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本語", 3), ["日", "本", "語"]);
        assert_eq!(wrap("日", 1), ["日"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(
            wrap("  at com.shop.payment.PaymentClient.java:131", 30),
            ["  at com.shop.payment.", "PaymentClient.java:131"]
        );
        assert_eq!(
            wrap("a quick one https://shop.example/a/b/c/d/e/f", 25),
            ["a quick one https://shop.", "example/a/b/c/d/e/f"]
        );
        assert_eq!(
            wrap("one two three four five averyveryverylongwordindeed", 25),
            ["one two three four five", "averyveryverylongwordinde", "ed"]
        );
        let text = "a bb ccc dddd eeeee ffffff";
        assert!((1..30).all(|columns| wrap(text, columns).iter().all(|line| width(line) <= columns.max(1))));
    }
}
