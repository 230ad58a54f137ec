//! The parser's cursor in the text, and the smallest units: blanks, words, quotes, names, lists.
//!
//! A method that returns `None` has skipped at most blanks and commas. Errors are [`Diagnostic`]s that are passed up
//! with `?` and drop the current command; lesser errors are recorded, and parsing continues.

use std::collections::BTreeSet;

use super::aggregate_expr::Parts;
use super::{MAX_FIELDS_READ, MAX_NESTING, MAX_TERMS, WILDCARD_NAMES, quoted_len};
use crate::ast::{FieldPattern, Pattern, Span};
use crate::diagnostic::Diagnostic;

/// Free bytes of stack below which parsing continues on a larger stack. One level of nesting, including a command and
/// its analysis, needs less than this.
const STACK_FREE_MIN_BYTES: usize = 512 << 10;
/// Bytes of the larger stack. All levels together need less than this; an unoptimized build needs about 27 KB per
/// level.
const STACK_BYTES: usize = 4 << 20;

/// Runs `read` with at least [`STACK_FREE_MIN_BYTES`] bytes of stack.
pub(crate) fn with_stack<T>(read: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_FREE_MIN_BYTES, STACK_BYTES, read)
}

/// The parsed value, or the error that drops the command.
pub(crate) type ParseResult<T> = Result<T, Diagnostic>;

/// A word with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    /// The word, unquoted.
    pub(crate) text: String,
    /// Whether the word was quoted.
    pub(crate) quoted: bool,
    /// Position in the text.
    pub(crate) span: Span,
}

impl Word {
    /// The word as a field name.
    pub(crate) fn field(self) -> FieldPattern {
        FieldPattern { text: self.text, span: self.span }
    }
}

impl From<Word> for Pattern {
    fn from(word: Word) -> Pattern {
        Pattern { text: word.text, span: word.span }
    }
}

/// State of one parse.
pub(crate) struct Parser<'t> {
    /// Text with comments and macros blanked out.
    pub(crate) text: &'t str,
    /// Next byte to read.
    pub(crate) pos: usize,
    /// End of the current command.
    pub(crate) end: usize,
    /// Positions of macros, which may explain missing parts of a command.
    pub(crate) macros: Vec<Span>,
    /// Whether a macro may supply anything that its command lacks.
    pub(crate) accepts_unknown_macros: bool,
    /// Nesting of brackets, parentheses and calls at the cursor.
    pub(crate) depth: usize,
    /// Nesting of subsearches at the cursor.
    pub(crate) subsearches: usize,
    /// Commands parsed so far, including subsearches.
    pub(crate) commands_read: usize,
    /// Terms of conditions read so far.
    pub(crate) terms_read: usize,
    /// Different fields of conditions and expressions read so far.
    pub(crate) fields_read: BTreeSet<String>,
    /// Field names, assignments and aggregates of the current command, read so far; a name with wildcards counts
    /// [`WILDCARD_NAMES`] more.
    pub(crate) names_read: usize,
    /// Number of operators that deepen the tree of the current expression.
    pub(crate) chain: usize,
    /// Aggregates inside the current `eval(...)` that stands in place of an aggregate.
    pub(crate) parts: Option<Parts>,
    /// Lower-case names of apps' commands.
    pub(crate) custom: BTreeSet<String>,
    diagnostics: Vec<Diagnostic>,
    unsupported: Vec<String>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str) -> Parser<'t> {
        Parser {
            text,
            pos: 0,
            end: text.len(),
            macros: Vec::new(),
            accepts_unknown_macros: false,
            depth: 0,
            subsearches: 0,
            commands_read: 0,
            terms_read: 0,
            fields_read: BTreeSet::new(),
            names_read: 0,
            chain: 0,
            parts: None,
            custom: BTreeSet::new(),
            diagnostics: Vec::new(),
            unsupported: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> (Vec<Diagnostic>, Vec<String>) {
        (self.diagnostics, self.unsupported)
    }

    // ---- remarks --------------------------------------------------------------------------------------------------

    /// Records a diagnostic and continues.
    pub(crate) fn report(&mut self, remark: Diagnostic) {
        if self.diagnostics.len() < super::MAX_DIAGNOSTICS {
            self.diagnostics.push(remark);
        }
    }

    /// Adds "did you mean", unless the maximum number of diagnostics is reached.
    pub(crate) fn suggest<'a>(
        &self,
        remark: Diagnostic,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        if self.diagnostics.len() < super::MAX_DIAGNOSTICS { remark.suggest(word, known) } else { remark }
    }

    /// Records an unsupported feature.
    pub(crate) fn report_unsupported(&mut self, feature: String) {
        if self.unsupported.len() < super::MAX_DIAGNOSTICS && !self.unsupported.contains(&feature) {
            self.unsupported.push(feature);
        }
    }

    /// Numbers of recorded diagnostics and features, for [`Parser::roll_back_to`].
    pub(crate) fn checkpoint(&self) -> (usize, usize) {
        (self.diagnostics.len(), self.unsupported.len())
    }

    /// Discards diagnostics and features recorded since the checkpoint.
    pub(crate) fn roll_back_to(&mut self, checkpoint: (usize, usize)) {
        self.diagnostics.truncate(checkpoint.0);
        self.unsupported.truncate(checkpoint.1);
    }

    /// Returns the value, or records the error and returns `None`.
    pub(crate) fn recover<T>(&mut self, read: ParseResult<T>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(remark) => {
                self.report(remark);
                None
            }
        }
    }

    // ---- places ---------------------------------------------------------------------------------------------------

    /// The rest of the command.
    pub(crate) fn rest(&self) -> &'t str {
        &self.text[self.pos..self.end]
    }

    /// Next character.
    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Character after the next.
    pub(crate) fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    /// Position of the next character; an empty span at the end of the command.
    pub(crate) fn here(&self) -> Span {
        let length = self.peek().map_or(0, char::len_utf8);
        Span { start: self.pos, end: self.pos + length }
    }

    /// Span from `start` to the cursor, without trailing blanks.
    pub(crate) fn since(&self, start: usize) -> Span {
        let end = start + self.text[start..self.pos.max(start)].trim_end().len();
        Span { start, end }
    }

    /// Steps over one character.
    pub(crate) fn bump(&mut self) {
        self.pos += self.peek().map_or(0, char::len_utf8);
    }

    pub(crate) fn skip_blank(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start().len();
    }

    /// Whether a macro between two positions may supply missing text.
    pub(crate) fn has_unknown_macro(&self, start: usize, end: usize) -> bool {
        self.accepts_unknown_macros && self.has_macro(start, end)
    }

    /// Whether there is a macro between two positions.
    pub(crate) fn has_macro(&self, start: usize, end: usize) -> bool {
        // Macros are in order and do not overlap; there may be too many for a linear search.
        let next = self.macros.partition_point(|place| place.start < start);
        self.macros.get(next).is_some_and(|place| place.end <= end)
    }

    /// Skips blanks and commas between list items.
    pub(crate) fn skip_separators(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
    }

    /// Whether only blanks are left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_blank();
        self.pos >= self.end
    }

    /// Skips blanks and then `mark`, if present.
    pub(crate) fn eat(&mut self, mark: char) -> bool {
        let start = self.pos;
        self.skip_blank();
        if self.peek() == Some(mark) {
            self.bump();
            return true;
        }
        self.pos = start;
        false
    }

    /// Requires `mark` after blanks.
    pub(crate) fn expect(&mut self, mark: char, after: &str) -> ParseResult<()> {
        if self.eat(mark) {
            return Ok(());
        }
        self.skip_blank();
        let remark = Diagnostic::error(format!("expected `{mark}` {after}, found {}", self.found_text()), self.here());
        Err(if mark == ')' { remark.with_hint("add `)`") } else { remark })
    }

    /// The text at the cursor, for messages.
    pub(crate) fn found_text(&self) -> String {
        match self.rest().split_whitespace().next() {
            None => "the end of the command".to_owned(),
            Some(word) => format!("`{}`", word.chars().take(FOUND_CHARS_MAX).collect::<String>()),
        }
    }

    /// Parses one level deeper, within [`MAX_NESTING`]. All recursion of the parser goes through here; if little stack
    /// is left, parsing continues on a larger stack, because a search may be parsed on any thread.
    pub(crate) fn parse_nested<T>(&mut self, read: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= MAX_NESTING {
            let message = format!("nested deeper than the limit of {MAX_NESTING} levels");
            return Err(Diagnostic::error(message, self.here()).with_hint("compute parts with eval first"));
        }
        self.depth += 1;
        let outcome = with_stack(|| read(self));
        self.depth -= 1;
        outcome
    }

    // ---- words ----------------------------------------------------------------------------------------------------

    /// A name of letters, digits and `_` at the cursor, without reading it.
    pub(crate) fn peek_name(&self) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        &rest[..length]
    }

    /// Whether the whole word `keyword` (any case) is next; skips only the blanks before it.
    pub(crate) fn at_keyword(&mut self, keyword: &str) -> bool {
        self.skip_blank();
        let rest = self.rest();
        let Some(head) = rest.get(..keyword.len()) else {
            return false;
        };
        let next = rest[keyword.len()..].chars().next();
        head.eq_ignore_ascii_case(keyword)
            && next.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '(' | ',' | '\''))
    }

    /// Reads the word `keyword` (any case) if it is next.
    pub(crate) fn eat_keyword(&mut self, keyword: &str) -> bool {
        let start = self.pos;
        if self.at_keyword(keyword) {
            self.pos += keyword.len();
            return true;
        }
        self.pos = start;
        false
    }

    /// The double-quoted text at the cursor: `\"` and `\\` resolved, other backslashes kept.
    pub(crate) fn eat_quoted(&mut self) -> Option<Word> {
        if self.peek() != Some('"') {
            return None;
        }
        let start = self.pos;
        let rest = self.rest();
        let length = quoted_len(rest).unwrap_or(rest.len());
        self.pos += length;
        let inner = rest[1..length].strip_suffix('"').unwrap_or(&rest[1..length]);
        Some(Word { text: unescape(inner), quoted: true, span: Span { start, end: self.pos } })
    }

    /// The single-quoted name at the cursor.
    pub(crate) fn eat_single_quoted(&mut self) -> Option<Word> {
        let rest = self.rest();
        let inner = rest.strip_prefix('\'')?;
        let length = inner.find('\'')?;
        let start = self.pos;
        self.pos += length + 2;
        Some(Word { text: inner[..length].to_owned(), quoted: true, span: Span { start, end: self.pos } })
    }

    /// Reads a field name in a list: quoted, or up to a blank, comma, `)`, `[`, `]`, `|` or `"` outside parentheses.
    pub(crate) fn field_word(&mut self) -> Option<Word> {
        let place = self.pos;
        self.skip_blank();
        self.names_read += 1;
        if let Some(word) = self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            return Some(word);
        }
        let start = self.pos;
        let mut open = 0usize;
        for (offset, c) in self.rest().char_indices() {
            match c {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' | '[' | ']' | '|' | '"' if open == 0 => break,
                c if open == 0 && (c.is_whitespace() || c == ',') => break,
                _ => {}
            }
            self.pos = start + offset + c.len_utf8();
        }
        if self.pos == start {
            self.pos = place;
            return None;
        }
        let text = &self.text[start..self.pos];
        if text.contains('*') {
            self.names_read += WILDCARD_NAMES;
        }
        Some(Word { text: text.to_owned(), quoted: false, span: self.since(start) })
    }

    /// Counts a term of a condition; fails beyond the limit.
    pub(crate) fn count_term(&mut self) -> ParseResult<()> {
        self.terms_read += 1;
        if self.terms_read <= MAX_TERMS {
            return Ok(());
        }
        let message = format!("more than the limit of {MAX_TERMS} terms in one search");
        Err(Diagnostic::error(message, self.here()).with_hint("put long lists of values into a lookup table"))
    }

    /// Counts a field that a condition or an expression reads, once for each name; fails beyond the limit.
    pub(crate) fn count_field(&mut self, name: &str) -> ParseResult<()> {
        if self.fields_read.contains(name) {
            return Ok(());
        }
        if self.fields_read.len() == MAX_FIELDS_READ {
            let message = format!("more than the limit of {MAX_FIELDS_READ} different fields in one search");
            return Err(Diagnostic::error(message, self.here()).with_hint("search for the values without their fields"));
        }
        self.fields_read.insert(name.to_owned());
        Ok(())
    }

    /// Reads the next field of a list, if one is left.
    pub(crate) fn next_field(&mut self) -> Option<FieldPattern> {
        self.skip_separators();
        self.field_word().map(Word::field)
    }

    /// Reads a required field name.
    pub(crate) fn expect_field(&mut self, what: &str) -> ParseResult<Word> {
        self.field_word().ok_or_else(|| {
            self.skip_blank();
            Diagnostic::error(format!("expected {what}, found {}", self.found_text()), self.here())
        })
    }

    /// Reads `AS name` if it is next.
    pub(crate) fn name_after_as(&mut self) -> ParseResult<Option<String>> {
        if self.eat_keyword("as") { Ok(Some(self.expect_field("a name after AS")?.text)) } else { Ok(None) }
    }

    /// Reads field names up to the end of the command; the list may be empty.
    pub(crate) fn fields_to_end(&mut self) -> ParseResult<Vec<FieldPattern>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                return Ok(fields);
            }
            fields.push(self.expect_field("a field name")?.field());
        }
    }

    /// Reads a whole number that is a word of its own, as in `head 5`.
    pub(crate) fn whole_number(&mut self) -> Option<usize> {
        let place = self.pos;
        self.skip_blank();
        let rest = self.rest();
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let alone = rest[length..].chars().next().is_none_or(|c| c.is_whitespace() || c == ',');
        match rest[..length].parse() {
            Ok(number) if alone => {
                self.pos += length;
                Some(number)
            }
            _ => {
                self.pos = place;
                None
            }
        }
    }

    /// Reads field names up to the end of the command; at least one is required.
    pub(crate) fn field_list(&mut self, command: &str) -> ParseResult<Vec<FieldPattern>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            fields.push(self.expect_field("a field name")?.field());
        }
        if fields.is_empty() {
            return Err(Diagnostic::error(format!("{command}: no field is given"), self.here()));
        }
        Ok(fields)
    }

    /// Reads a number of rows if one is next; a negative number is an error.
    pub(crate) fn row_count(&mut self, command: &str) -> ParseResult<Option<usize>> {
        self.skip_blank();
        let start = self.pos;
        if self.eat('-') {
            let is_number = self.whole_number().is_some();
            let place = self.since(start);
            self.pos = start;
            if is_number {
                let remark = Diagnostic::error(format!("{command}: a number of rows cannot be negative"), place);
                return Err(remark.with_hint("write it without the minus"));
            }
        }
        Ok(self.whole_number())
    }

    /// Fails if anything is left of the command.
    pub(crate) fn expect_end(&mut self, command: &str) -> ParseResult<()> {
        if self.at_end() {
            return Ok(());
        }
        Err(Diagnostic::error(format!("{command}: unexpected {}", self.found_text()), self.here()))
    }
}

/// Maximum length in characters of text shown in a message.
const FOUND_CHARS_MAX: usize = 40;

/// Resolves `\"` and `\\`; other backslashes are kept, so that regular expressions survive.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(&next @ ('"' | '\\'))) => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}
