//! Value patterns of `search`: the whole value must match, `*` matches anything, case-insensitive by default.

use quarry_event::segment::{WordBound, WordPattern};

/// A compiled value pattern.
#[derive(Clone, Debug)]
pub struct Wildcard {
    shape: Shape,
    case_sensitive: bool,
}

#[derive(Clone, Debug)]
enum Shape {
    Any,
    Exact(Box<[u8]>),
    Starts(Box<[u8]>),
    Ends(Box<[u8]>),
    Pattern(Box<WordPattern>),
}

impl Wildcard {
    /// Compiles a pattern.
    pub fn new(pattern: &str, case_sensitive: bool) -> Wildcard {
        let bytes = |text: &str| text.as_bytes().to_vec().into_boxed_slice();
        let plain = |text: &str| !text.contains('*') && (case_sensitive || text.is_ascii());
        let shape = match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            _ if !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'*') => Shape::Any,
            (None, None) if plain(pattern) => Shape::Exact(bytes(pattern)),
            (None, Some(start)) if plain(start) => Shape::Starts(bytes(start)),
            (Some(end), None) if plain(end) => Shape::Ends(bytes(end)),
            _ => Shape::Pattern(Box::new(WordPattern::new(pattern, WordBound::Whole, case_sensitive))),
        };
        Wildcard { shape, case_sensitive }
    }

    /// Whether every value matches.
    pub fn is_any(&self) -> bool {
        matches!(self.shape, Shape::Any)
    }

    /// The text of a case-insensitive ASCII pattern without wildcards.
    pub fn folded_text(&self) -> Option<&[u8]> {
        match &self.shape {
            Shape::Exact(text) if !self.case_sensitive && text.is_ascii() => Some(text),
            _ => None,
        }
    }

    /// Whether the whole text matches.
    #[inline]
    pub fn is_match(&self, text: &str) -> bool {
        let text = text.as_bytes();
        match &self.shape {
            Shape::Any => true,
            Shape::Exact(plain) => self.equal(text, plain),
            Shape::Starts(plain) => text.get(..plain.len()).is_some_and(|start| self.equal(start, plain)),
            Shape::Ends(plain) => text.len() >= plain.len() && self.equal(&text[text.len() - plain.len()..], plain),
            Shape::Pattern(pattern) => pattern.is_match(text),
        }
    }

    #[inline]
    fn equal(&self, text: &[u8], plain: &[u8]) -> bool {
        if self.case_sensitive { text == plain } else { text.eq_ignore_ascii_case(plain) }
    }
}
