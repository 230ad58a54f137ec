//! Translates a PCRE pattern for the linear engine, or reports that it cannot run there with the same meaning.
//!
//! The dialects differ silently in a few points: `\d \w \s \b` are ASCII in PCRE but Unicode in the linear engine,
//! `\<` is a plain `<` in PCRE, `[` inside a class is literal in PCRE, `a++` is possessive in PCRE. Constructs that
//! the linear engine rejects by itself (look-around, back references) need no rule here.
//!
//! One difference remains: in the linear engine, `$` does not match before a newline at the end of the text. Events and
//! fields rarely end with a newline, and PCRE2 would be much slower for the many expressions that end with `$`.

/// The pattern in the linear engine's dialect; `None` if PCRE2 must run it.
pub(super) fn translate(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '\\' => taken = push_escape(rest, &mut out, false)?,
            '[' => taken = push_class(rest, &mut out)?,
            '(' => taken = push_group(rest, &mut out)?,
            '*' | '+' | '?' | '}' if rest[taken..].starts_with('+') => return None,
            '{' if !is_repetition(rest) => return None,
            _ => out.push(first),
        }
        rest = &rest[taken..];
    }
    Some(out)
}

/// Copies one escape; returns its length. `None` if the dialects differ.
fn push_escape(rest: &str, out: &mut String, in_class: bool) -> Option<usize> {
    let escaped = rest[1..].chars().next()?;
    let length = 1 + escaped.len_utf8();
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(r"[\t\n\x0b\x0c\r ]"),
        'S' => out.push_str(r"[^\t\n\x0b\x0c\r ]"),
        'h' => out.push_str(r"[\t ]"),
        'b' if in_class => out.push_str(r"\x08"),
        'b' => out.push_str(r"(?-u:\b)"),
        't' | 'n' | 'r' | 'f' => {
            out.push('\\');
            out.push(escaped);
        }
        'A' | 'z' if !in_class => {
            out.push('\\');
            out.push(escaped);
        }
        'x' | 'p' | 'P' => {
            out.push('\\');
            out.push(escaped);
        }
        // A digit is a back reference or an octal code; other letters have different meanings.
        _ if escaped.is_ascii_alphanumeric() => return None,
        _ => push_plain(escaped, out),
    }
    Some(length)
}

/// A literal character, escaped if the linear engine would interpret it.
fn push_plain(character: char, out: &mut String) {
    const SPECIAL: &str = r"\.+*?()|[]{}^$#&-~";
    if SPECIAL.contains(character) {
        out.push('\\');
    }
    out.push(character);
}

/// Copies a bracket class; returns its length.
fn push_class(rest: &str, out: &mut String) -> Option<usize> {
    let mut at = 1;
    out.push('[');
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    // A bracket at the start is a member.
    if rest[at..].starts_with(']') {
        out.push_str(r"\]");
        at += 1;
    }
    loop {
        let next = rest[at..].chars().next()?;
        match next {
            ']' => {
                out.push(']');
                return Some(at + 1);
            }
            '\\' => {
                let range_after_class =
                    rest[at..].len() > 2 && rest[at + 1..].starts_with(['d', 'w', 's', 'D', 'W', 'S']);
                at += push_escape(&rest[at..], out, true)?;
                if range_after_class && rest[at..].starts_with('-') {
                    out.push_str(r"\-");
                    at += 1;
                }
                continue;
            }
            '[' if rest[at..].starts_with("[:") => {
                let end = rest[at..].find(":]")? + 2;
                out.push_str(&rest[at..at + end]);
                at += end;
                continue;
            }
            '[' => out.push_str(r"\["),
            '&' => out.push_str(r"\&"),
            '~' => out.push_str(r"\~"),
            '-' if rest[at + 1..].starts_with('-') => return None,
            '-' if rest[at + 1..].starts_with(r"\d") || rest[at + 1..].starts_with(r"\w") => out.push_str(r"\-"),
            '-' if rest[at + 1..].starts_with(r"\s") => out.push_str(r"\-"),
            _ => out.push(next),
        }
        at += next.len_utf8();
    }
}

/// Copies the opening of a group; returns its length. Extended mode treats blanks in classes differently.
fn push_group(rest: &str, out: &mut String) -> Option<usize> {
    if rest.starts_with("(*") {
        return None;
    }
    let Some(inner) = rest.strip_prefix("(?") else {
        out.push('(');
        return Some(1);
    };
    if inner.starts_with("P<") || (inner.starts_with('<') && !inner.starts_with("<=") && !inner.starts_with("<!")) {
        let end = rest.find('>')? + 1;
        out.push_str(&rest[..end]);
        return Some(end);
    }
    let end = inner.find([':', ')'])?;
    let flags = &inner[..end];
    if !flags.bytes().all(|flag| matches!(flag, b'i' | b's' | b'm' | b'U' | b'-'))
        || (flags.is_empty() && inner.starts_with(')'))
    {
        return None;
    }
    let length = 2 + end + 1;
    out.push_str(&rest[..length]);
    Some(length)
}

/// Whether the brace starts `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inner, _)) = rest[1..].split_once('}') else { return false };
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}
