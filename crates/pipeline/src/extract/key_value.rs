//! `key=value` and `key="several words"` pairs anywhere in a text.
//!
//! Equals signs are searched for: the key is the word before the sign; the value is the text after it up to whitespace
//! (space, tab, CR, LF) or one of `, ; | & "`, or the quoted text. Closing brackets at the end of a value are excluded
//! if the value does not open them. The search continues after the value, so that no byte is read more than a few times
//! for any text. `==`, `!=`, `<=` and `>=` are comparisons, not separators of a key and a value.

use std::borrow::Cow;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};
use quarry_stdx::number::u8_of;

/// Maximum length of a key; an equals sign after a longer word is ignored.
pub const KEY_BYTES_MAX: usize = 256;

/// Byte class: part of a key.
const KEY: u8 = 1;
/// Byte class: ends an unquoted value.
const VALUE_END: u8 = 2;

const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match u8_of(byte) {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | 0x80.. => KEY,
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' | b'|' | b'&' | b'"' => VALUE_END,
            _ => 0,
        };
        byte += 1;
    }
    classes
}

/// Finds the pairs of a text for `KV_MODE = auto`: a quote ends a quoted value, even after a backslash. Quoted values
/// are trimmed, and empty values skipped. Leading digits, underscores, dots and dashes are removed from keys;
/// [`clean_key`] turns keys into field names.
pub fn auto_kv<'t>(text: &'t str, found: &mut dyn FnMut(&'t str, &'t str)) {
    let quoted = |from: usize| memchr(b'"', &text.as_bytes()[from..]).map(|length| from + length);
    pairs(text, quoted, |key, value, _| found(key, value));
}

/// Finds the pairs of a text for `KV_MODE = auto_escaped`: in a quoted value, `\"` is a quote and `\\` a backslash.
pub fn auto_kv_escaped<'t>(text: &'t str, found: &mut dyn FnMut(&'t str, Cow<'t, str>)) {
    pairs(
        text,
        |from| unescaped_quote(text.as_bytes(), from),
        |key, value, in_quotes| {
            found(key, if in_quotes { unescape(value) } else { Cow::Borrowed(value) });
        },
    );
}

/// The value of the pair whose key is at `key..equals` of a text, followed by an equals sign at `equals`; `None` if the
/// value is empty or quoted, if the key is only the end of a longer one or too long, or if the text before the key may
/// change what [`auto_kv`] finds here.
pub fn certain_value(text: &[u8], key: usize, equals: usize) -> Option<&[u8]> {
    let (before, after) = (&text[..key], equals + 1);
    let class = before.last().map_or(VALUE_END, |byte| CLASSES[usize::from(*byte)]);
    let is_certain = match class {
        // The key continues to the left.
        KEY => false,
        // An unquoted value ends before this byte at the latest.
        VALUE_END => memchr(b'"', before).is_none(),
        _ => memchr2(b'"', b'=', before).is_none(),
    };
    if !is_certain || equals - key > KEY_BYTES_MAX || matches!(text.get(after), Some(b'=' | b'"')) {
        return None;
    }
    let end = value_end(text, after);
    let value = &text[after..balanced_end(text, after, end)];
    (!value.is_empty()).then_some(value)
}

/// Searches texts for the value of one name, instead of examining all pairs.
pub struct PairFinder {
    name: String,
    /// The part of the name after its last underscore, and an equals sign: every text with a key that becomes the name
    /// contains these bytes.
    key_end: Finder<'static>,
    /// Whether the name, as a key, begins a pair and remains as it is.
    is_key: bool,
}

impl PairFinder {
    /// A finder for the pairs with a key that is this name, or becomes it by [`clean_name`].
    pub fn new(name: &str) -> PairFinder {
        // Cleaning replaces characters with underscores, so an underscore of the name may be another character in the
        // text.
        let end = name.rfind('_').map_or(name, |at| &name[at + 1..]);
        let is_key = name.starts_with(|first: char| first.is_ascii_alphabetic()) && clean_name(name) == name;
        PairFinder { name: name.to_owned(), key_end: Finder::new(&format!("{end}=")).into_owned(), is_key }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the first pair that [`auto_kv`] finds for the name, `Some(None)` if there is none; `None` if only
    /// [`auto_kv`] can tell.
    pub fn value_in<'t>(&self, text: &'t str) -> Option<Option<&'t str>> {
        let bytes = text.as_bytes();
        let Some(at) = self.key_end.find(bytes) else { return Some(None) };
        let equals = at + self.key_end.needle().len() - 1;
        // An earlier pair with this name would contain an earlier key end.
        if !self.is_key || !bytes[..equals].ends_with(self.name.as_bytes()) {
            return None;
        }
        let value = certain_value(bytes, equals - self.name.len(), equals)?;
        std::str::from_utf8(value).ok().map(Some)
    }
}

/// A key as a field name: characters other than letters, digits, dots and underscores become underscores.
pub fn clean_key(key: &str) -> Cow<'_, str> {
    let clean = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == '.';
    let is_clean_ascii = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if key.bytes().all(is_clean_ascii) || key.chars().all(clean) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.chars().map(|sign| if clean(sign) { sign } else { '_' }).collect())
}

/// Like [`clean_key`], and without underscores and digits at the start, as `CLEAN_KEYS` of transforms and `extract`
/// clean names. The result may be empty.
pub fn clean_name(key: &str) -> Cow<'_, str> {
    let is_start = |sign: char| !(sign == '_' || sign.is_ascii_digit());
    match clean_key(key) {
        Cow::Borrowed(name) => Cow::Borrowed(name.trim_start_matches(|sign| !is_start(sign))),
        Cow::Owned(name) => {
            let start = name.find(is_start).unwrap_or(name.len());
            Cow::Owned(name[start..].to_owned())
        }
    }
}

/// Passes the key and value of each pair to `found`, and whether the value was quoted; `closing` finds the quote that
/// ends a value.
fn pairs<'t>(text: &'t str, closing: impl Fn(usize) -> Option<usize>, mut found: impl FnMut(&'t str, &'t str, bool)) {
    let bytes = text.as_bytes();
    // Everything before `start` belongs to a pair or has been examined.
    let (mut start, mut at) = (0, 0);
    while let Some(length) = memchr(b'=', &bytes[at..]) {
        let equals = at + length;
        at = equals + 1;
        if bytes.get(at) == Some(&b'=') {
            at += 1;
            start = at;
            continue;
        }
        let Some(key) = key_before(text, start, equals) else {
            start = at;
            continue;
        };
        let opens = bytes.get(at) == Some(&b'"');
        let from = at + usize::from(opens);
        let close = if opens { closing(from) } else { None };
        // An unclosed quote is not part of the value.
        let end = close.unwrap_or_else(|| value_end(bytes, from));
        let value_to = if close.is_some() { end } else { balanced_end(bytes, from, end) };
        let value = if close.is_some() { text[from..end].trim_matches(' ') } else { &text[from..value_to] };
        let in_quotes = close.is_some();
        at = end + usize::from(in_quotes);
        start = at;
        if !value.is_empty() {
            found(key, value, in_quotes);
        }
    }
}

/// The word that ends at `end` and starts at or after `start`, without leading characters that cannot begin a name.
fn key_before(text: &str, start: usize, end: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let floor = start.max(end.saturating_sub(KEY_BYTES_MAX + 1));
    let mut begin = end;
    while begin > floor && CLASSES[usize::from(bytes[begin - 1])] == KEY {
        begin -= 1;
    }
    if end - begin > KEY_BYTES_MAX {
        return None;
    }
    let is_no_start = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
    begin += bytes[begin..end].iter().take_while(is_no_start).count();
    (begin < end).then(|| &text[begin..end])
}

fn value_end(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from..];
    from + rest.iter().position(|byte| CLASSES[usize::from(*byte)] == VALUE_END).unwrap_or(rest.len())
}

/// The end of an unquoted value without trailing brackets and single quotes that the value does not open: in
/// `(took=999)`, the bracket belongs to the surrounding text.
fn balanced_end(bytes: &[u8], from: usize, mut end: usize) -> usize {
    /// Index of a closing character: one per kind of bracket and one for single quotes.
    fn kind_of(closing: u8) -> Option<usize> {
        Some(match closing {
            b')' => 0,
            b']' => 1,
            b'}' => 2,
            b'>' => 3,
            b'\'' => 4,
            _ => return None,
        })
    }
    if end == from || kind_of(bytes[end - 1]).is_none() {
        return end;
    }
    let mut loose = [0i32; 5];
    for byte in &bytes[from..end] {
        match byte {
            b'(' => loose[0] -= 1,
            b'[' => loose[1] -= 1,
            b'{' => loose[2] -= 1,
            b'<' => loose[3] -= 1,
            b'\'' => loose[4] = 1 - loose[4],
            other => {
                if let Some(kind) = kind_of(*other) {
                    loose[kind] += 1;
                }
            }
        }
    }
    while end > from {
        match kind_of(bytes[end - 1]) {
            Some(kind) if loose[kind] > 0 => loose[kind] -= 1,
            _ => break,
        }
        end -= 1;
    }
    end
}

fn unescaped_quote(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Unescapes `\"` and `\\`; other backslashes are kept.
fn unescape(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut plain = String::with_capacity(value.len());
    let mut signs = value.chars().peekable();
    while let Some(sign) = signs.next() {
        match signs.peek() {
            Some(next @ ('"' | '\\')) if sign == '\\' => {
                plain.push(*next);
                signs.next();
            }
            _ => plain.push(sign),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
