//! XML from the programs of apps: tokenizes tags, text and CDATA of a stream that arrives in pieces.
//!
//! Comments, processing instructions and document types are skipped; predefined entities and character references are
//! replaced, and other entities are kept. Not here: namespaces, and checking that tags match.

use quarry_stdx::Fault;
use std::collections::VecDeque;

/// Maximum bytes of a tag or text; a longer one is an error.
const TOKEN_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of an entity after its `&`, including the `;`.
const ENTITY_BYTES_MAX: usize = 12;

/// A token of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XmlToken {
    /// An opening tag.
    Open {
        /// Name of the element.
        name: String,
        /// Attributes in order.
        attributes: Vec<(String, String)>,
        /// Set for an empty element (`<a/>`).
        is_empty: bool,
    },
    /// A closing tag.
    Close(String),
    /// Text between tags, possibly in several parts.
    Text(String),
}

/// Result of scanning the beginning of the bytes.
enum NextToken {
    Token(XmlToken, usize),
    Nothing(usize),
    Incomplete,
}

/// Tokenizer of a document that arrives in pieces.
#[derive(Debug, Default)]
pub struct XmlTokens {
    held: Vec<u8>,
    /// Number of bytes at the start of `held` that were consumed.
    used: usize,
    ready: VecDeque<XmlToken>,
}

impl XmlTokens {
    /// Adds bytes; fails if they are not XML, or a token is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.held.extend_from_slice(bytes);
        loop {
            let rest = &self.held[self.used..];
            match next(rest)? {
                NextToken::Token(token, length) => {
                    self.used += length;
                    self.ready.push_back(token);
                }
                NextToken::Nothing(length) => self.used += length,
                NextToken::Incomplete if rest.len() > TOKEN_BYTES_MAX => {
                    return Err(Fault::invalid(format!("a tag or text is longer than {TOKEN_BYTES_MAX} bytes")));
                }
                NextToken::Incomplete => break,
            }
        }
        self.held.drain(..self.used);
        self.used = 0;
        Ok(())
    }

    /// Removes and returns the next token, if it is complete.
    pub fn take(&mut self) -> Option<XmlToken> {
        self.ready.pop_front()
    }

    /// Number of buffered bytes, not counting white space.
    pub fn held_bytes(&self) -> usize {
        self.held.iter().filter(|byte| !byte.is_ascii_whitespace()).count()
    }
}

/// The token at the beginning of `bytes`.
fn next(bytes: &[u8]) -> Result<NextToken, Fault> {
    let Some(first) = bytes.first() else { return Ok(NextToken::Incomplete) };
    if *first != b'<' {
        // Text is returned only up to a tag, so that no entity is split.
        let Some(end) = memchr::memchr(b'<', bytes) else { return Ok(NextToken::Incomplete) };
        return Ok(NextToken::Token(XmlToken::Text(unescape(&String::from_utf8_lossy(&bytes[..end]))), end));
    }
    for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")] {
        if bytes.len() < open.len() && open.as_bytes().starts_with(bytes) {
            return Ok(NextToken::Incomplete);
        }
        let Some(inside) = bytes.strip_prefix(open.as_bytes()) else { continue };
        let Some(length) = memchr::memmem::find(inside, close.as_bytes()) else { return Ok(NextToken::Incomplete) };
        let whole = open.len() + length + close.len();
        let text = || XmlToken::Text(String::from_utf8_lossy(&inside[..length]).into_owned());
        return Ok(if open == "<![CDATA[" { NextToken::Token(text(), whole) } else { NextToken::Nothing(whole) });
    }
    let Some(end) = tag_end(bytes) else { return Ok(NextToken::Incomplete) };
    let tag = String::from_utf8_lossy(&bytes[1..end]);
    Ok(NextToken::Token(parse_tag(&tag)?, end + 1))
}

/// Offset of the `>` that ends a tag, outside quotes.
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let mut quote = None;
    bytes.iter().position(|byte| match (quote, byte) {
        (None, b'>') => true,
        (None, b'"' | b'\'') => {
            quote = Some(*byte);
            false
        }
        (Some(open), byte) if open == *byte => {
            quote = None;
            false
        }
        _ => false,
    })
}

fn parse_tag(tag: &str) -> Result<XmlToken, Fault> {
    let wrong = || Fault::invalid(format!("<{tag}> is not a tag"));
    let is_name =
        |name: &str| !name.is_empty() && !name.contains(|char: char| char.is_whitespace() || "<&\"'=".contains(char));
    if let Some(name) = tag.strip_prefix('/') {
        let name = name.trim_end();
        return if is_name(name) { Ok(XmlToken::Close(name.to_owned())) } else { Err(wrong()) };
    }
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (name, mut rest) = tag.split_at(tag.find(char::is_whitespace).unwrap_or(tag.len()));
    if !is_name(name) {
        return Err(wrong());
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(XmlToken::Open { name: name.to_owned(), attributes, is_empty });
        }
        let (key, behind) = rest.split_once('=').ok_or_else(wrong)?;
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|char| matches!(char, '"' | '\'')).ok_or_else(wrong)?;
        let (value, behind) = behind[1..].split_once(quote).ok_or_else(wrong)?;
        if !is_name(key.trim()) {
            return Err(wrong());
        }
        attributes.push((key.trim().to_owned(), unescape(value)));
        rest = behind;
    }
}

/// Replaces known entities; other entities are kept.
fn unescape(text: &str) -> String {
    let Some(first) = text.find('&') else { return text.to_owned() };
    let (mut out, mut rest) = (text[..first].to_owned(), &text[first..]);
    while let Some(behind) = rest.strip_prefix('&') {
        let end = behind.bytes().take(ENTITY_BYTES_MAX).position(|byte| byte == b';');
        let known = end.and_then(|end| Some((entity(&behind[..end])?, end)));
        match known {
            Some((char, end)) => {
                out.push(char);
                rest = &behind[end + 1..];
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
        let next = rest.find('&').unwrap_or(rest.len());
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    out
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let (digits, base) = number.strip_prefix(['x', 'X']).map_or((number, 10), |hex| (hex, 16));
            // Unlike numbers in Rust, those of XML have no sign.
            let is_number = digits.chars().all(|digit| digit.is_digit(base));
            u32::from_str_radix(digits, base).ok().filter(|_| is_number).and_then(char::from_u32)
        }
    }
}

/// Escapes text for a document, including text between double quotes.
pub fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // Characters that no document may contain, escaped or not.
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn numbers_of_characters_have_no_sign() {
        assert_eq!(unescape("&#65;&#x42;&#X43;"), "ABC");
        assert_eq!(unescape("&#+65;&#x+42;&#;"), "&#+65;&#x+42;&#;");
    }
}
