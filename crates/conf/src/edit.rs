//! Edits settings in the text of a conf file and leaves everything else, including comments, unchanged.
//!
//! Settings written here are read back unchanged by [`crate::text`]; a line break in a value is written as a continued
//! line. Settings before any stanza belong to `[default]`.
//!
//! Not here: reading and writing files, and the meaning of settings.

use quarry_stdx::Fault;

use crate::text::DEFAULT_STANZA;

/// Maximum bytes of a stanza or setting name.
const NAME_BYTES_MAX: usize = 1_024;
/// Byte order mark that some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Maximum bytes of a value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Refuses a text that cannot be the name of a stanza.
pub fn check_stanza(name: &str) -> Result<(), Fault> {
    let text = "a name must be a single line of 1 to 1024 bytes that does not begin or end with a blank";
    let is_good =
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.trim() == name && !name.chars().any(char::is_control);
    if is_good { Ok(()) } else { Err(Fault::invalid(text).with_context(format_args!("name={name:?}"))) }
}

/// Refuses a setting that cannot be written.
pub fn check_setting(key: &str, value: &str) -> Result<(), Fault> {
    let is_good_key = !key.is_empty()
        && key.len() <= NAME_BYTES_MAX
        && key.trim() == key
        && !key.starts_with(['[', '#'])
        && !key.contains('=')
        && !key.chars().any(|letter| letter.is_control() || letter == BYTE_ORDER_MARK);
    if !is_good_key {
        let text = "the name of a setting must be a single line of 1 to 1024 bytes without =, must not begin with [ \
                    or #, and must not begin or end with a blank";
        return Err(Fault::invalid(text).with_context(format_args!("{key:?}")));
    }
    // Programs disagree on whether a lone carriage return ends a line.
    let is_odd = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if value.len() > VALUE_BYTES_MAX || value.replace("\r\n", "\n").chars().any(is_odd) {
        let text = format!(
            "a value may have at most {VALUE_BYTES_MAX} bytes, and no control characters but tabs and line ends"
        );
        return Err(Fault::invalid(text).with_context(key));
    }
    Ok(())
}

/// Returns the text with these settings set in the stanza, whose other settings stay. A missing stanza is appended.
pub fn with_settings(text: &str, stanza: &str, settings: &[(String, String)]) -> String {
    let (mut is_in, mut is_written, mut out) = (stanza == DEFAULT_STANZA, false, String::new());
    let written: String = settings.iter().map(|(key, value)| format!("{key} = {}\n", continue_lines(value))).collect();
    for piece in split_settings(text) {
        if let Some(name) = header(piece) {
            is_in = name == stanza;
            out.push_str(piece);
            if is_in && !is_written {
                end_line(&mut out);
                out.push_str(&written);
                is_written = true;
            }
            continue;
        }
        let key = piece.split_once('=').map(|(key, _)| key.trim());
        if !(is_in && settings.iter().any(|(name, _)| Some(name.as_str()) == key)) {
            out.push_str(piece);
        }
    }
    if !is_written {
        end_text(&mut out);
        out.push_str(&format!("[{stanza}]\n{written}"));
    }
    out
}

/// Returns the text without these settings of the stanza.
pub fn without_settings(text: &str, stanza: &str, keys: &[&str]) -> String {
    let mut is_in = stanza == DEFAULT_STANZA;
    let stays = |piece: &&str| {
        if let Some(name) = header(piece) {
            is_in = name == stanza;
            return true;
        }
        let key = piece.split_once('=').map(|(key, _)| key.trim());
        !(is_in && key.is_some_and(|key| keys.contains(&key)))
    };
    split_settings(text).into_iter().filter(stays).collect()
}

/// Returns the text without the stanza.
pub fn without_stanza(text: &str, stanza: &str) -> String {
    let (mut is_in, mut is_before_all) = (false, true);
    let stays = |piece: &&str| {
        if let Some(name) = header(piece) {
            (is_in, is_before_all) = (name == stanza, false);
        }
        // Comments before all stanzas are about the file.
        let is_setting = piece.contains('=') && !piece.trim_start().starts_with('#');
        !(is_in || is_before_all && is_setting && stanza == DEFAULT_STANZA)
    };
    split_settings(text).into_iter().filter(stays).collect()
}

/// Writes a value as lines, each but the last ending with a backslash. If the value itself ends with a backslash, it
/// gets a trailing blank, which the reader strips.
fn continue_lines(value: &str) -> String {
    let mut written = value.replace("\r\n", "\n").replace('\n', "\\\n");
    if written.ends_with('\\') {
        written.push(' ');
    }
    written
}

/// The stanza name if this line is a header, as [`crate::text`] reads it.
fn header(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('[')?;
    Some(name.rfind(']').map_or(name, |end| &name[..end]))
}

/// Splits a text into settings: a line that ends with a backslash includes the next line.
fn split_settings(text: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    if text.starts_with(BYTE_ORDER_MARK) {
        at = BYTE_ORDER_MARK.len_utf8();
        from = at;
        pieces.push(&text[..at]);
    }
    for line in text[at..].split_inclusive('\n') {
        // The same line ends as in `str::lines`, with which the reader splits a file.
        let bare = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        let is_first = from == at;
        at += line.len();
        // Comments and headers are never continued.
        let is_whole = is_first && bare.trim_start().starts_with(['#', '[']);
        if is_whole || !bare.ends_with('\\') {
            pieces.push(&text[from..at]);
            from = at;
        }
    }
    if from < text.len() {
        pieces.push(&text[from..]);
    }
    pieces
}

/// Ends the last line so that text can be appended; removes a trailing backslash, which would continue into the new
/// text.
fn end_text(text: &mut String) {
    let is_setting = split_settings(text).last().is_some_and(|piece| !piece.trim_start().starts_with(['#', '[']));
    let bare = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if is_setting && bare.ends_with('\\') {
        text.truncate(bare.len() - 1);
        if text.ends_with('\\') {
            text.push(' ');
        }
    }
    end_line(text);
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Conf;

    fn setting(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn stanzas_are_changed_in_place() {
        let text = "# head\n[a]\nx = 1\ny = 2\\\n[b]\nz = 3\n# tail\n[b]\nx = 4";
        assert_eq!(
            with_settings(text, "a", &setting("y", "5")),
            "# head\n[a]\ny = 5\nx = 1\nz = 3\n# tail\n[b]\nx = 4",
            "what looks like a header is the value's second line"
        );
        assert_eq!(with_settings(text, "c", &setting("k", "v")), format!("{text}\n[c]\nk = v\n"));
        assert_eq!(without_stanza(text, "b"), "# head\n[a]\nx = 1\ny = 2\\\n[b]\nz = 3\n# tail\n");
        assert_eq!(without_settings(text, "b", &["x"]), "# head\n[a]\nx = 1\ny = 2\\\n[b]\nz = 3\n# tail\n[b]\n");
    }

    #[test]
    fn settings_before_any_stanza_belong_to_the_default_stanza() {
        assert_eq!(without_settings("a = 1\nb = 2\n[s]\na = 3\n", "default", &["a"]), "b = 2\n[s]\na = 3\n");
        assert_eq!(
            with_settings("a = 1\n[s]\na = 3\n", "default", &setting("a", "2")),
            "[s]\na = 3\n[default]\na = 2\n"
        );
        let text = "# about = the file\na = 1\\\n2\n[s]\na = 3\n[default]\nb = 2\n";
        assert_eq!(without_stanza(text, "default"), "# about = the file\n[s]\na = 3\n");
        assert_eq!(without_stanza(text, "s"), "# about = the file\na = 1\\\n2\n[default]\nb = 2\n");
    }

    #[test]
    fn values_round_trip() {
        for value in
            ["", "one", "a\nb", "a\\\nb", "ends with \\", "a = b", "[x]\n[y]", "# no comment\n# nor this", "é \t x"]
        {
            check_setting("k", value).unwrap();
            let text = with_settings("[s]\nk = old\\\n more\nother = 1\n", "s", &setting("k", value));
            let (conf, warnings) = Conf::parse("f", &text);
            let stanza = conf.stanza("s").unwrap();
            assert_eq!((stanza.get("k"), stanza.get("other")), (Some(value), Some("1")), "{text}");
            assert!(warnings.is_empty() && conf.stanzas.len() == 1, "{text}");
        }
    }

    #[test]
    fn changes_always_give_the_requested_text() {
        let odd = [
            "[p]\nk = x\\\r\r\n[q]\nl = 1\n",
            "\u{feff}k = 1\n[q]\nl = 1\n[default]\nk = 2\n",
            "\u{feff}[p]\nk = 1\n[q]\nl = 1\n",
            "[p]\r\nk = 1\\\r\n 2\r\n[q]\r\nl = 1\r\n",
            "[p]\nk = 1\n\u{feff}[q]\nl = 1\n[q]\nm = 1",
            "k = 1\\\n[q]\n[q]\nl = 1\\",
            "[q]\nl = 1\\\\\n",
            "[q]\nl = 1\\\r\n",
            "[q]\nl = 1\n# a comment \\\n",
        ];
        for text in odd {
            let (before, _) = Conf::parse("f", text);
            for stanza in ["p", "q", "new", "default"] {
                let others = |conf: &Conf| {
                    let of = |other: &crate::text::Stanza| {
                        let settings =
                            other.settings.iter().map(|setting| (setting.key.clone(), setting.value.clone()));
                        (other.name.clone(), settings.collect::<Vec<_>>())
                    };
                    conf.stanzas.iter().filter(|other| other.name != stanza).map(of).collect::<Vec<_>>()
                };
                let (changed, _) = Conf::parse("f", &with_settings(text, stanza, &setting("z", "9")));
                assert_eq!(others(&changed), others(&before), "{text:?} {stanza}");
                assert_eq!(changed.stanza(stanza).and_then(|stanza| stanza.get("z")), Some("9"), "{text:?} {stanza}");
                let (removed, _) = Conf::parse("f", &without_stanza(text, stanza));
                assert_eq!((others(&removed), removed.stanza(stanza)), (others(&before), None), "{text:?} {stanza}");
            }
        }
    }

    #[test]
    fn names_with_brackets_round_trip() {
        for name in ["a]b", "[a", "a]", "a[b](2)", "default x", "source::/var/*"] {
            check_stanza(name).unwrap();
            let text = with_settings("", name, &setting("k", "v"));
            let (conf, _) = Conf::parse("f", &text);
            assert_eq!(conf.stanza(name).and_then(|stanza| stanza.get("k")), Some("v"), "{text}");
            assert_eq!(without_stanza(&text, name), "");
        }
    }

    #[test]
    fn unwritable_settings_are_refused() {
        for name in ["", " a", "a ", "a\nb"] {
            assert!(check_stanza(name).is_err(), "{name:?}");
        }
        for (key, value) in [
            ("a", "v\\\r"),
            ("a", "v\rw"),
            ("\u{feff}[x]", "v"),
            ("", "v"),
            ("a=b", "v"),
            ("a\nb", "v"),
            ("#a", "v"),
            ("[a", "v"),
            ("a", "\u{0}"),
        ] {
            assert!(check_setting(key, value).is_err(), "{key:?} {value:?}");
        }
        assert!(check_setting("a", &"x".repeat(VALUE_BYTES_MAX + 1)).is_err());
    }
}
