//! Pipes and brackets, which divide a search into commands and subsearches.

use super::{blank_out, quoted_len};

/// The pipes and brackets of a text that are neither quoted nor escaped, each with its position.
///
/// Whatever divides a search into commands, or decides whether a text would be divided, reads the text with this
/// iterator: if two readers disagreed, a text from an event could pass as a value and be run as a command.
pub(crate) struct Marks<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Marks<'t> {
    pub(crate) fn of(text: &'t str) -> Marks<'t> {
        Marks { text, at: 0 }
    }
}

impl Iterator for Marks<'_> {
    type Item = (usize, u8);

    fn next(&mut self) -> Option<(usize, u8)> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            let at = self.at;
            self.at += match byte {
                b'"' => quoted_len(&self.text[at..]).unwrap_or(bytes.len() - at),
                b'\\' if matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b'[' | b']')) => 2,
                _ => 1,
            };
            if matches!(byte, b'|' | b'[' | b']') {
                return Some((at, byte));
            }
        }
        None
    }
}

/// Whether a text can be inserted outside the quotes of a command without changing where the command or its
/// subsearches end: outside its own quotes, which are closed, it has no pipes, brackets, macros or comments.
pub fn is_part_of_command(text: &str) -> bool {
    // A bracket after the text is the first mark, unless the text has marks, an open quote or a backslash at its end.
    let bracketed = format!("{text}]");
    let is_undivided = Marks::of(&bracketed).next() == Some((text.len(), b']'));
    is_undivided && blank_out(text).text == text
}

/// Whether the name of a field can be inserted after `before`, inside or outside quotes, without changing where the
/// command, its subsearches or the quotes end. Outside quotes, a name may contain indexes such as `[0]`.
pub(crate) fn fits_behind(before: &str, name: &str) -> bool {
    if !name.contains(['"', '\\', '|', '[', ']', '`']) {
        return true;
    }
    let is_mark_behind =
        |mark: char| Marks::of(&format!("{before}{mark}")).last().is_some_and(|(at, _)| at == before.len());
    // Within quotes, neither character is a mark. Outside quotes, a bracket directly after a backslash is not a mark.
    match (is_mark_behind('|'), is_mark_behind(']')) {
        (true, true) => is_part_of_command(&without_indexes(name)),
        (true, false) => false,
        (false, _) => !name.contains('"') && !name.ends_with('\\'),
    }
}

/// A name without indexes in brackets, unless its backslashes might escape the brackets.
fn without_indexes(name: &str) -> String {
    if name.contains('\\') {
        return name.to_owned();
    }
    let mut parts = name.split('[');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((index, rest)) if index.bytes().all(|byte| byte.is_ascii_digit()) => out.push_str(rest),
            _ => {
                out.push('[');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ast::Command;
    use crate::parse::parse_commands;

    #[test]
    fn texts_with_pipes_brackets_backticks_or_open_quotes_are_not_part_of_a_command() {
        for text in [
            "",
            "5",
            "x AS y",
            "it's",
            "größe",
            r#"( ( user="e|v[a]`m`" ) )"#,
            r#""a \" | b""#,
            r#"a\"b"#,
            r"a\[b\]",
            r"a\`b",
            r"a\\",
        ] {
            assert!(is_part_of_command(text), "{text}");
        }
        for text in [
            "1 | outputlookup t",
            r"1 \| outputlookup t",
            r#"a\\" | outputlookup t"#,
            "[search x]",
            r"\\[search x]",
            "a]",
            r#"a" | outputlookup t | eval y="b" | c"#,
            r#"half ""#,
            r"a\",
            r"a\\\",
            "`m`",
            "5 ```",
            "5 ```why```",
        ] {
            assert!(!is_part_of_command(text), "{text}");
        }
    }

    #[test]
    fn names_are_inserted_only_where_they_stay_names() {
        for (before, name) in [
            ("eval ", "a.b{}"),
            ("eval '", "a[0]"),
            ("eval '", r"C:\temp"),
            ("eval '", "it's"),
            (r#"rename ""#, "a|b[c]`d`"),
            (r#"rename "x\" y"#, r"a\b"),
        ] {
            assert!(fits_behind(before, name), "{before}{name}");
        }
        for (before, name) in [
            ("eval ", "a=1 | outputlookup t | eval b"),
            ("eval '", "a|b"),
            ("search ", "a[delete]"),
            ("search ", r"\[0]"),
            ("eval ", r#"a=""#),
            ("eval ", r"a\"),
            (r"eval \", "|"),
            (r#"rename "x" AS y | eval z=""#, r#"a" | outputlookup t | eval b="c"#),
            (r#"rename ""#, r"a\"),
            (r#"rename "\"#, r#"\"|a"#),
            ("eval ", "```"),
        ] {
            assert!(!fits_behind(before, name), "{before}{name}");
        }
    }

    /// The pipes and brackets of a search that contains `text` twice, each with the text after it, and the names of its
    /// other commands.
    fn divided(text: &str) -> Vec<String> {
        let command =
            format!(r#"makeresults | eval a="x|y", b={text}+{text} | append [makeresults | head 1] | head 2"#);
        let ends = Marks::of(&command).map(|(at, mark)| {
            let behind: String = command[at..].chars().take(9).collect();
            format!("{} {behind}", char::from(mark))
        });
        let parsed = parse_commands(&command, true, &BTreeSet::new());
        let name = |command: &Command| format!("command {}", command.name());
        // A command that is invalid with this text is dropped, but no other command takes its place.
        let names =
            parsed.pipeline.commands.iter().map(|stage| name(&stage.command)).filter(|name| name != "command eval");
        ends.chain(names).collect()
    }

    #[test]
    fn accepted_texts_never_change_the_division_into_commands() {
        let pieces =
            ["\\", "|", "\"", "[", "]", "'", "`", "a", " ", "é", "\\\\", "\\|", "\\\"", "```", " | head 9 ", "(", ")"];
        let harmless = divided("1");
        let (mut state, mut accepted) = (7_u64, 0);
        for round in 0..10_000_usize {
            let text: String = (0..round % 9)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    pieces[(state >> 33) as usize % pieces.len()]
                })
                .collect();
            if is_part_of_command(&text) {
                accepted += 1;
                assert_eq!(divided(&text), harmless, "{text:?}");
            }
        }
        assert!(accepted > 1_000, "{accepted}");
    }
}
