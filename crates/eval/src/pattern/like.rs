//! LIKE patterns: `%` matches any run of characters, `_` one character; the whole text must match, case-sensitively.
//!
//! The common forms (`x`, `x%`, `%x`, `%x%`) compare bytes directly; other patterns scan the text once with one
//! backtracking point.

use memchr::memmem;

/// A compiled LIKE pattern.
#[derive(Clone, Debug)]
pub struct LikePattern(Shape);

#[derive(Clone, Debug)]
enum Shape {
    Exact(String),
    Starts(String),
    Ends(String),
    Contains(Box<memmem::Finder<'static>>),
    General(Vec<Token>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    AnyText,
    AnyChar,
    Literal(char),
}

impl LikePattern {
    /// Compiles a pattern; `\%`, `\_` and `\\` are literal characters.
    pub fn new(pattern: &str) -> LikePattern {
        let tokens = tokens(pattern);
        let plain = |tokens: &[Token]| -> Option<String> {
            tokens
                .iter()
                .map(|token| if let Token::Literal(character) = token { Some(*character) } else { None })
                .collect()
        };
        let shape = match tokens.as_slice() {
            [Token::AnyText, middle @ .., Token::AnyText] if plain(middle).is_some() => {
                plain(middle).map(|text| Shape::Contains(Box::new(memmem::Finder::new(&text).into_owned())))
            }
            [Token::AnyText, rest @ ..] if plain(rest).is_some() => plain(rest).map(Shape::Ends),
            [rest @ .., Token::AnyText] if plain(rest).is_some() => plain(rest).map(Shape::Starts),
            all => plain(all).map(Shape::Exact),
        };
        LikePattern(shape.unwrap_or(Shape::General(tokens)))
    }

    /// Whether the whole text matches.
    #[inline]
    pub fn is_match(&self, text: &str) -> bool {
        match &self.0 {
            Shape::Exact(plain) => text == plain,
            Shape::Starts(plain) => text.starts_with(plain.as_str()),
            Shape::Ends(plain) => text.ends_with(plain.as_str()),
            Shape::Contains(finder) => finder.find(text.as_bytes()).is_some(),
            Shape::General(tokens) => matches_tokens(tokens, text),
        }
    }
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let token = match character {
            '%' => Token::AnyText,
            '_' => Token::AnyChar,
            '\\' => match characters.next_if(|next| matches!(next, '%' | '_' | '\\')) {
                Some(escaped) => Token::Literal(escaped),
                None => Token::Literal('\\'),
            },
            plain => Token::Literal(plain),
        };
        if token != Token::AnyText || tokens.last() != Some(&Token::AnyText) {
            tokens.push(token);
        }
    }
    tokens
}

/// On a mismatch, the last `%` takes one more character and the tokens after it are matched again.
fn matches_tokens(tokens: &[Token], text: &str) -> bool {
    let (mut token, mut rest) = (0, text);
    let mut resume: Option<(usize, &str)> = None;
    loop {
        let next = rest.chars().next();
        match (tokens.get(token), next) {
            (Some(Token::AnyText), _) => {
                token += 1;
                resume = Some((token, rest));
                continue;
            }
            (None, None) => return true,
            (Some(Token::AnyChar), Some(character)) => {
                token += 1;
                rest = &rest[character.len_utf8()..];
                continue;
            }
            (Some(Token::Literal(plain)), Some(character)) if *plain == character => {
                token += 1;
                rest = &rest[character.len_utf8()..];
                continue;
            }
            _ => {}
        }
        let Some((after_run, from)) = resume else { return false };
        let Some(skipped) = from.chars().next() else { return false };
        rest = &from[skipped.len_utf8()..];
        token = after_run;
        resume = Some((token, rest));
    }
}
