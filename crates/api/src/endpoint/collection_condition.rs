//! Syntax of the `search` parameter of collections.
//!
//! The syntax resembles that of the command `search`, but names of entities contain characters that have a meaning in
//! SPL: `m(2)`, `Errors, [prod]`, `a|b`. Here, a word ends only at a blank, or at a parenthesis that closes a group. A
//! parenthesis groups only if it begins a word and has a counterpart. Every text within the limits of conditions and
//! levels is valid: text without another meaning, such as an operator without an operand, is a word.
//!
//! Not here: comparing with entries ([`super::collection_filter`]).

use std::collections::BTreeSet;

use quarry_spl::ast::CompareOp;

use crate::message::ApiError;

/// Maximum nesting depth of parentheses; a deeper condition is refused.
const LEVELS_MAX: usize = 64;
/// Maximum number of words, comparisons and values of lists; a condition with more is refused.
const CONDITIONS_MAX: usize = 1_000;
/// Comparison operators; an operator such as `<=` precedes its prefix `<`.
const OPERATORS: [(&str, CompareOp); 7] = [
    ("!=", CompareOp::Ne),
    ("<=", CompareOp::Le),
    (">=", CompareOp::Ge),
    ("==", CompareOp::Eq),
    ("=", CompareOp::Eq),
    ("<", CompareOp::Lt),
    (">", CompareOp::Gt),
];

/// A condition on the entries of a collection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EntryCondition {
    And(Vec<EntryCondition>),
    Or(Vec<EntryCondition>),
    Not(Box<EntryCondition>),
    /// The name or a member contains this pattern.
    Contains(String),
    /// The value of a member fulfils this comparison.
    Compare(String, CompareOp, String),
    /// A member matches one of these patterns.
    In(String, Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum ConditionToken {
    Open,
    Close,
    And,
    Or,
    Not,
    Operand(EntryCondition),
}

impl ConditionToken {
    fn begins_operand(&self) -> bool {
        matches!(self, ConditionToken::Open | ConditionToken::Not | ConditionToken::Operand(_))
    }

    fn ends_operand(&self) -> bool {
        matches!(self, ConditionToken::Close | ConditionToken::Operand(_))
    }

    /// The text of an operator.
    fn operator(&self) -> Option<&'static str> {
        match self {
            ConditionToken::And => Some("AND"),
            ConditionToken::Or => Some("OR"),
            ConditionToken::Not => Some("NOT"),
            ConditionToken::Open | ConditionToken::Close | ConditionToken::Operand(_) => None,
        }
    }

    /// Turns an operator into a word, its name.
    fn become_word(&mut self) {
        if let Some(name) = self.operator() {
            *self = ConditionToken::Operand(EntryCondition::Contains(name.to_owned()));
        }
    }
}

impl EntryCondition {
    /// The condition of a text; an error if it has too many levels or conditions.
    pub(super) fn parse(text: &str) -> Result<EntryCondition, ApiError> {
        let (tokens, unmatched) = tokens(text, &BTreeSet::new())?;
        let mut tokens = if unmatched.is_empty() { tokens } else { self::tokens(text, &unmatched)?.0 };
        replace_lone_operators(&mut tokens);
        Parser(tokens.into_iter().peekable()).conjunction(0)
    }
}

impl ConditionToken {
    fn conditions(&self) -> usize {
        match self {
            ConditionToken::Operand(EntryCondition::In(_, values)) => values.len().max(1),
            ConditionToken::Operand(_) => 1,
            _ => 0,
        }
    }
}

/// Refusal of a condition that exceeds the limit `most`.
fn too_large(most: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("search: a condition may have at most {most}"))
}

/// Turns operators that lack an operand into words.
fn replace_lone_operators(tokens: &mut [ConditionToken]) {
    let mut is_followed = false;
    for token in tokens.iter_mut().rev() {
        if !is_followed {
            token.become_word();
        }
        is_followed = token.begins_operand();
    }
    let mut is_preceded = false;
    for token in tokens {
        if matches!(token, ConditionToken::And | ConditionToken::Or) && !is_preceded {
            token.become_word();
        }
        is_preceded = token.ends_operand();
    }
}

/// The tokens of a text, and the positions of opening parentheses without a counterpart. Parentheses at the positions
/// `in_words` are parts of words.
fn tokens(text: &str, in_words: &BTreeSet<usize>) -> Result<(Vec<ConditionToken>, BTreeSet<usize>), ApiError> {
    let (mut tokens, mut open, mut conditions, mut rest) = (Vec::new(), Vec::new(), 0, text.trim());
    let end = text.trim_end().len();
    while !rest.is_empty() {
        let at = end - rest.len();
        rest = match rest.strip_prefix('(').filter(|inner| !inner.starts_with(')') && !in_words.contains(&at)) {
            Some(inner) => {
                open.push(at);
                tokens.push(ConditionToken::Open);
                inner
            }
            None if rest.starts_with(')') && open.pop().is_some() => {
                tokens.push(ConditionToken::Close);
                rest.strip_prefix(')').unwrap_or_default()
            }
            None => {
                let (token, rest) = operand(rest, !open.is_empty());
                conditions += token.conditions();
                if conditions > CONDITIONS_MAX {
                    return Err(too_large(format!("{CONDITIONS_MAX} words, comparisons and values")));
                }
                tokens.push(token);
                rest
            }
        };
        rest = rest.trim_start();
    }
    Ok((tokens, open.into_iter().collect()))
}

/// The word, comparison or operator at the beginning of a text, and the remaining text.
fn operand(text: &str, is_in_group: bool) -> (ConditionToken, &str) {
    let quoted = quoted(text);
    let is_quoted = quoted.is_some();
    let (name, rest) = quoted.unwrap_or_else(|| {
        let (word, rest) = split_word(text, is_in_group, false);
        let operator = OPERATORS.iter().filter_map(|(operator, _)| word.find(operator)).min();
        // A word that begins with an operator is not a comparison.
        match operator.filter(|at| *at > 0) {
            Some(at) => (word.split_at(at).0.to_owned(), text.split_at(at).1),
            None => (word.to_owned(), rest),
        }
    });
    let spaced = rest.trim_start();
    let is_word = !is_quoted && OPERATORS.iter().all(|(operator, _)| !rest.starts_with(operator));
    match name.as_str() {
        "AND" if is_word => return (ConditionToken::And, rest),
        "OR" if is_word => return (ConditionToken::Or, rest),
        "NOT" if is_word => return (ConditionToken::Not, rest),
        _ => {}
    }
    if let Some((op, rest)) = OPERATORS.iter().find_map(|(text, op)| Some((*op, spaced.strip_prefix(text)?))) {
        let (value, rest) = compared_value(rest, is_in_group);
        return (ConditionToken::Operand(EntryCondition::Compare(name, op, value)), rest);
    }
    match list(spaced).filter(|_| spaced.len() < rest.len() || is_quoted) {
        Some((values, rest)) => (ConditionToken::Operand(EntryCondition::In(name, values)), rest),
        None => (ConditionToken::Operand(EntryCondition::Contains(name)), rest),
    }
}

/// The value after a comparison operator, and the remaining text. The value is empty if a logical operator follows.
fn compared_value(text: &str, is_in_group: bool) -> (String, &str) {
    let spaced = text.trim_start();
    if let Some(found) = quoted(spaced) {
        return found;
    }
    let (word, rest) = split_word(spaced, is_in_group, false);
    match word {
        "AND" | "OR" | "NOT" if spaced.len() < text.len() => (String::new(), text),
        _ => (word.to_owned(), rest),
    }
}

/// The values of `IN (VALUE, …)`, and the remaining text; `None` if the text does not begin with a complete list.
fn list(text: &str) -> Option<(Vec<String>, &str)> {
    let mut rest = text.strip_prefix("IN")?.trim_start().strip_prefix('(')?;
    let mut values = Vec::new();
    loop {
        rest = rest.trim_start_matches(|char: char| char.is_whitespace() || char == ',');
        if let Some(rest) = rest.strip_prefix(')') {
            return Some((values, rest));
        }
        if values.len() > CONDITIONS_MAX {
            return Some((values, rest));
        }
        let (value, left) = quoted(rest).unwrap_or_else(|| {
            let (word, left) = split_word(rest, true, true);
            (word.to_owned(), left)
        });
        if left.is_empty() {
            return None;
        }
        values.push(value);
        rest = left;
    }
}

/// The word at the beginning of a text, and the remaining text. In a list, a comma also ends the word.
fn split_word(text: &str, is_in_group: bool, is_in_list: bool) -> (&str, &str) {
    let mut open = 0_usize;
    let end = text.find(|char: char| {
        match char {
            '(' => open += 1,
            ')' if open > 0 => open -= 1,
            ')' => return is_in_group,
            ',' if open == 0 => return is_in_list,
            _ => return char.is_whitespace(),
        }
        false
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// The quoted text at the beginning of a text, without its quotes and escaping backslashes, and the remaining text;
/// `None` if there is no quoted text, or if its end is missing.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let (mut value, mut chars) = (String::new(), inner.chars());
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' if chars.as_str().starts_with(['"', '\\']) => value.extend(chars.next()),
            char => value.push(char),
        }
    }
}

/// Parser of the tokens. As in the command `search`, `OR` binds more tightly than `AND`.
struct Parser(std::iter::Peekable<std::vec::IntoIter<ConditionToken>>);

impl Parser {
    fn conjunction(&mut self, level: usize) -> Result<EntryCondition, ApiError> {
        if level > LEVELS_MAX {
            return Err(too_large(format!("{LEVELS_MAX} levels of parentheses")));
        }
        let mut parts = Vec::new();
        while self.0.peek().is_some_and(|token| *token != ConditionToken::Close) {
            if self.0.next_if_eq(&ConditionToken::And).is_none() {
                parts.push(self.disjunction(level)?);
            }
        }
        Ok(EntryCondition::And(parts))
    }

    fn disjunction(&mut self, level: usize) -> Result<EntryCondition, ApiError> {
        let mut parts = vec![self.negation(level)?];
        while self.0.next_if_eq(&ConditionToken::Or).is_some() {
            parts.push(self.negation(level)?);
        }
        Ok(EntryCondition::Or(parts))
    }

    fn negation(&mut self, level: usize) -> Result<EntryCondition, ApiError> {
        let mut is_negated = false;
        while self.0.next_if_eq(&ConditionToken::Not).is_some() {
            is_negated = !is_negated;
        }
        let condition = match self.0.next() {
            Some(ConditionToken::Operand(condition)) => condition,
            Some(ConditionToken::Open) => {
                let inner = self.conjunction(level + 1)?;
                // Every open group is closed.
                self.0.next_if_eq(&ConditionToken::Close);
                inner
            }
            _ => EntryCondition::And(Vec::new()),
        };
        Ok(if is_negated { EntryCondition::Not(Box::new(condition)) } else { condition })
    }
}
