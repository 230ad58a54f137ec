//! Search expressions: keywords, phrases, comparisons, IN, TERM, CASE, subsearches, inline time modifiers.
//!
//! NOT binds tightest, then OR, then AND, which may be implied. Operators are upper-case; the same words in lower
//! case are search terms, with a warning.

use jiff::tz::TimeZone;
use quarry_event::time::parse_time;

use super::cursor::{ParseResult, Parser, Word, unescape};
use super::options::OptionArg;
use crate::ast::{CompareOp, FieldPattern, SearchCommand, SearchExpr, SearchPattern, Span, TimeModifiers, TimeText};
use crate::diagnostic::Diagnostic;

impl From<Word> for SearchPattern {
    fn from(word: Word) -> SearchPattern {
        SearchPattern { text: word.text, quoted: word.quoted, span: word.span }
    }
}

impl Parser<'_> {
    /// Parses the arguments of `search`; time modifiers apply only in the leading `search`.
    pub(crate) fn search_command(&mut self, leading: bool) -> ParseResult<SearchCommand> {
        let expr = self.search_condition()?;
        let mut time = TimeModifiers::default();
        let expr = if leading { self.take_time(expr, &mut time)? } else { expr };
        Ok(SearchCommand { expr, time })
    }

    /// Parses a condition up to the end of the command.
    pub(crate) fn search_condition(&mut self) -> ParseResult<SearchExpr> {
        let expr = self.search_and()?;
        self.skip_blank();
        if self.peek() == Some(')') {
            return Err(Diagnostic::error("this `)` has no `(`", self.here()).with_hint("remove it"));
        }
        Ok(expr)
    }

    /// Parses a condition in parentheses and stops after the closing parenthesis.
    pub(crate) fn search_in_parentheses(&mut self) -> ParseResult<SearchExpr> {
        self.expect('(', "before the condition")?;
        self.parse_nested(|parser| {
            let inner = parser.search_and()?;
            parser.expect(')', "after the condition")?;
            Ok(inner)
        })
    }

    fn search_and(&mut self) -> ParseResult<SearchExpr> {
        let mut parts = Vec::new();
        loop {
            self.skip_separators();
            if matches!(self.peek(), None | Some(')')) {
                break;
            }
            if !parts.is_empty() {
                self.eat_operator("AND");
            }
            parts.push(self.search_or()?);
        }
        Ok(join_parts(parts, true))
    }

    fn search_or(&mut self) -> ParseResult<SearchExpr> {
        let mut parts = vec![self.search_not()?];
        while self.eat_operator("OR") {
            parts.push(self.search_not()?);
        }
        Ok(join_parts(parts, false))
    }

    fn search_not(&mut self) -> ParseResult<SearchExpr> {
        let mut negated = false;
        while self.eat_operator("NOT") {
            negated = !negated;
        }
        let expr = self.search_primary()?;
        Ok(if negated { SearchExpr::Not(Box::new(expr)) } else { expr })
    }

    /// Reads an upper-case operator if it is next as a whole word; before `=`, `<` or `>`, the word is a field.
    fn eat_operator(&mut self, operator: &str) -> bool {
        let start = self.pos;
        self.skip_separators();
        if let Some(rest) = self.rest().strip_prefix(operator)
            && rest.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '['))
            && !rest.trim_start().starts_with(['=', '<', '>'])
        {
            self.pos += operator.len();
            return true;
        }
        self.pos = start;
        false
    }

    fn search_primary(&mut self) -> ParseResult<SearchExpr> {
        self.count_term()?;
        self.skip_separators();
        let start = self.pos;
        match self.peek() {
            None | Some(')') => Err(self.missing_operand()),
            Some('(') => self.search_in_parentheses(),
            Some('[') => Ok(SearchExpr::Subsearch(Box::new(self.subsearch()?))),
            Some('"') => {
                let Some(word) = self.eat_quoted() else { return Err(self.missing_operand()) };
                self.parse_after_word(word)
            }
            Some(_) => {
                for operator in ["AND", "OR"] {
                    if self.eat_operator(operator) {
                        let message = format!("`{operator}` needs a condition on both sides");
                        return Err(Diagnostic::error(message, self.since(start)));
                    }
                }
                self.bare_term()
            }
        }
    }

    fn missing_operand(&self) -> Diagnostic {
        let remark = Diagnostic::error(format!("expected a search term, found {}", self.found_text()), self.here());
        let before = self.text[..self.pos].trim_end();
        match ["AND", "OR", "NOT"].into_iter().find(|operator| before.ends_with(operator)) {
            Some(operator) => remark.with_hint(format!("write a condition after `{operator}`, or remove it")),
            None => remark,
        }
    }

    /// Parses TERM(), CASE(), `name::value`, a comparison or a keyword.
    fn bare_term(&mut self) -> ParseResult<SearchExpr> {
        for (name, build) in [("TERM(", SearchExpr::Term as fn(_) -> _), ("CASE(", SearchExpr::Case as fn(_) -> _)] {
            if self.rest().starts_with(name) {
                self.pos += name.len();
                return Ok(build(self.function_text()?));
            }
        }
        let word = self.bare_word(true);
        if word.text.is_empty() {
            return Err(self.missing_operand());
        }
        if let Some((name, value)) = word.text.split_once("::")
            && !name.is_empty()
            && !self.at_compare_op()
        {
            return self.parse_indexed(&word, name, value);
        }
        if word.text == "IN" && self.rest().trim_start().starts_with('(') {
            let remark = Diagnostic::error("`IN` needs a field on its left", word.span);
            return Err(remark.with_hint("write `field IN (...)` or `NOT field IN (...)`"));
        }
        self.parse_after_word(word)
    }

    /// Whether a comparison operator follows, ignoring blanks.
    fn at_compare_op(&mut self) -> bool {
        let place = self.pos;
        self.skip_blank();
        let found = self.compare_op().is_some();
        self.pos = place;
        found
    }

    /// Parses the rest of `TERM(` or `CASE(`.
    fn function_text(&mut self) -> ParseResult<SearchPattern> {
        self.skip_blank();
        let start = self.pos;
        let word = match self.eat_quoted() {
            Some(word) => word,
            None => {
                self.pos += self.rest().find(')').unwrap_or(self.rest().len());
                let span = self.since(start);
                Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }
            }
        };
        self.expect(')', "after the term")?;
        Ok(word.into())
    }

    fn parse_indexed(&mut self, word: &Word, name: &str, value: &str) -> ParseResult<SearchExpr> {
        self.count_field(name)?;
        let name_end = word.span.start + name.len();
        let field = FieldPattern { text: name.to_owned(), span: Span { start: word.span.start, end: name_end } };
        let value = match self.eat_quoted() {
            Some(quoted) if value.is_empty() => quoted.into(),
            _ => SearchPattern {
                text: value.to_owned(),
                quoted: false,
                span: Span { start: name_end + 2, end: word.span.end },
            },
        };
        Ok(SearchExpr::Indexed { field, value })
    }

    /// Parses the text after a word: a comparison, IN, or nothing, which makes the word a keyword.
    fn parse_after_word(&mut self, word: Word) -> ParseResult<SearchExpr> {
        let place = self.pos;
        self.skip_blank();
        if let Some(op) = self.compare_op() {
            return self.comparison(word, op);
        }
        if let Some(rest) = self.rest().strip_prefix("IN")
            && rest.trim_start().starts_with('(')
            && self.pos > place
        {
            self.pos += 2;
            return self.in_list(word.field());
        }
        if self.pos > place && !word.quoted && self.eat_not_in_list() {
            return Ok(SearchExpr::Not(Box::new(self.in_list(word.field())?)));
        }
        self.pos = place;
        if !word.quoted {
            self.warn_lower_case(&word);
            if word.text == "*" {
                return Ok(SearchExpr::All);
            }
        }
        if word.text.is_empty() {
            return Ok(SearchExpr::All);
        }
        Ok(SearchExpr::Keyword(word.into()))
    }

    /// Reads `NOT IN` before a list.
    fn eat_not_in_list(&mut self) -> bool {
        let after_not = self.rest().strip_prefix("NOT").map(str::trim_start);
        let list = after_not.and_then(|rest| rest.strip_prefix("IN")).filter(|rest| rest.trim_start().starts_with('('));
        let Some(list) = list else { return false };
        self.pos += self.rest().len() - list.len();
        true
    }

    fn warn_lower_case(&mut self, word: &Word) {
        let list_follows = self.rest().trim_start().starts_with('(');
        // No warning about the `and` of `between 1 and 2`, because another diagnostic explains the whole phrase.
        let before = self.text.get(..word.span.start).unwrap_or_default().split_whitespace();
        if word.text == "and" && before.rev().nth(1).is_some_and(|word| word.eq_ignore_ascii_case("between")) {
            return;
        }
        if matches!(word.text.as_str(), "and" | "or" | "not") || (word.text == "in" && list_follows) {
            let upper = word.text.to_ascii_uppercase();
            let message = format!("`{}` is searched for as a word", word.text);
            self.report(Diagnostic::warning(message, word.span).with_hint(format!("write `{upper}` for the operator")));
        }
    }

    /// A comparison operator at the cursor.
    pub(crate) fn compare_op(&mut self) -> Option<CompareOp> {
        let (op, length) = match (self.peek()?, self.peek_second()) {
            ('=', Some('=')) => (CompareOp::Eq, 2),
            ('=', _) => (CompareOp::Eq, 1),
            ('!', Some('=')) => (CompareOp::Ne, 2),
            ('<', Some('=')) => (CompareOp::Le, 2),
            ('<', _) => (CompareOp::Lt, 1),
            ('>', Some('=')) => (CompareOp::Ge, 2),
            ('>', _) => (CompareOp::Gt, 1),
            _ => return None,
        };
        self.pos += length;
        Some(op)
    }

    fn comparison(&mut self, field: Word, op: CompareOp) -> ParseResult<SearchExpr> {
        self.count_field(&field.text)?;
        self.skip_blank();
        let mut case_sensitive = false;
        let value = if self.rest().starts_with("CASE(") || self.rest().starts_with("TERM(") {
            case_sensitive = self.rest().starts_with("CASE(");
            self.pos += "CASE(".len();
            self.function_text()?
        } else if self.peek() == Some('[') {
            self.report_unsupported("feature:subsearch-value".to_owned());
            let message = format!("unsupported: a subsearch as the value of `{}`", field.text);
            return Err(
                Diagnostic::error(message, self.here()).with_hint("let the subsearch return the whole condition")
            );
        } else if self.peek() == Some('(') {
            return self.compared_group(&field, op);
        } else {
            match self.eat_quoted() {
                Some(word) => word.into(),
                None => self.bare_word(false).into(),
            }
        };
        if value.text.is_empty() && !value.quoted {
            let message = format!("the comparison of `{}` has no value", field.text);
            return Err(Diagnostic::error(message, field.span).with_hint("write `\"\"` for empty text"));
        }
        Ok(SearchExpr::Compare { field: field.field(), op, value, case_sensitive })
    }

    /// Parses `field=(a OR b)` as a comparison with each of the values.
    fn compared_group(&mut self, field: &Word, op: CompareOp) -> ParseResult<SearchExpr> {
        let inner = self.parse_nested(|parser| {
            parser.bump();
            let inner = parser.search_and()?;
            parser.expect(')', "after the values")?;
            Ok(inner)
        })?;
        Ok(compare_words(inner, field, op))
    }

    fn in_list(&mut self, field: FieldPattern) -> ParseResult<SearchExpr> {
        self.count_field(&field.text)?;
        self.expect('(', "after IN")?;
        let mut values = Vec::new();
        loop {
            self.skip_separators();
            match self.peek() {
                None | Some(')') => break,
                Some(_) => {
                    let word = self.eat_quoted().unwrap_or_else(|| self.bare_word(false));
                    if word.text.is_empty() && !word.quoted {
                        break;
                    }
                    self.count_term()?;
                    values.push(word.into());
                }
            }
        }
        self.expect(')', "after the values of IN")?;
        if values.is_empty() {
            return Err(Diagnostic::error(format!("the IN list of `{}` is empty", field.text), field.span));
        }
        Ok(SearchExpr::In { field, values })
    }

    /// Reads an unquoted word; a name ends at a comparison operator, a value may contain one.
    fn bare_word(&mut self, is_name: bool) -> Word {
        let start = self.pos;
        let rest = self.rest();
        let mut open = 0usize;
        let mut chars = rest.char_indices().peekable();
        let mut length = rest.len();
        while let Some((offset, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            let stops = match c {
                '\\' if matches!(next, Some('"' | '\\')) => {
                    chars.next();
                    false
                }
                ',' => next.is_none_or(|next| next.is_whitespace() || matches!(next, ',' | ')' | '"')) || !is_name,
                '=' | '<' | '>' => is_name,
                '!' => is_name && next == Some('='),
                '[' if offset > 0 => {
                    open += 1;
                    false
                }
                ']' if open > 0 => {
                    open -= 1;
                    false
                }
                '(' | ')' | '"' | '[' | ']' | '|' => true,
                c => c.is_whitespace(),
            };
            if stops {
                length = offset;
                break;
            }
        }
        self.pos += length;
        Word { text: unescape(&rest[..length]), quoted: false, span: Span { start, end: self.pos } }
    }

    // ---- time modifiers -------------------------------------------------------------------------------------------

    /// Applies `earliest=` or `latest=` among the options of a command.
    pub(crate) fn time_option(&self, option: &OptionArg, time: &mut TimeModifiers) -> ParseResult<()> {
        let slot = if option.name == "earliest" { TimeSlot::Earliest } else { TimeSlot::Latest };
        let value = SearchPattern { text: option.value.clone(), quoted: true, span: option.value_span };
        set_time(time, slot, &value)
    }

    /// Moves top-level time modifiers out of a condition.
    pub(crate) fn take_time(&mut self, expr: SearchExpr, time: &mut TimeModifiers) -> ParseResult<SearchExpr> {
        let parts = match expr {
            SearchExpr::And(parts) => parts,
            other => vec![other],
        };
        let mut kept = Vec::with_capacity(parts.len());
        for part in parts {
            match time_modifier(&part) {
                Some((slot, value)) => set_time(time, slot, value)?,
                None => {
                    check_inner_time(&part)?;
                    kept.push(part);
                }
            }
        }
        Ok(join_parts(kept, true))
    }
}

/// Turns the words of a condition into comparisons with a field.
fn compare_words(expr: SearchExpr, field: &Word, op: CompareOp) -> SearchExpr {
    let all = |parts: Vec<SearchExpr>| parts.into_iter().map(|part| compare_words(part, field, op)).collect();
    let with = |value: SearchPattern, case_sensitive: bool| SearchExpr::Compare {
        field: field.clone().field(),
        op,
        value,
        case_sensitive,
    };
    match expr {
        SearchExpr::And(parts) => SearchExpr::And(all(parts)),
        SearchExpr::Or(parts) => SearchExpr::Or(all(parts)),
        SearchExpr::Not(part) => SearchExpr::Not(Box::new(compare_words(*part, field, op))),
        SearchExpr::Keyword(value) | SearchExpr::Term(value) => with(value, false),
        SearchExpr::Case(value) => with(value, true),
        SearchExpr::All => with(SearchPattern { text: "*".to_owned(), quoted: false, span: field.span }, false),
        other => other,
    }
}

impl SearchExpr {
    /// The condition that all parts hold, without nested ANDs and parts that match everything.
    pub fn conjunction(parts: Vec<SearchExpr>) -> SearchExpr {
        join_parts(parts, true)
    }
}

/// Joins the parts of AND or OR, flattening and dropping parts that match everything.
fn join_parts(parts: Vec<SearchExpr>, and: bool) -> SearchExpr {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            SearchExpr::All if and => {}
            SearchExpr::And(inner) if and => flat.extend(inner),
            SearchExpr::Or(inner) if !and => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => SearchExpr::All,
        1 => flat.remove(0),
        _ if and => SearchExpr::And(flat),
        _ => SearchExpr::Or(flat),
    }
}

/// The time modifier that a comparison sets.
#[derive(Clone, Copy)]
enum TimeSlot {
    Earliest,
    Latest,
    IndexEarliest,
    IndexLatest,
}

fn time_modifier(expr: &SearchExpr) -> Option<(TimeSlot, &SearchPattern)> {
    let SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } = expr else {
        return None;
    };
    let slot = match field.text.as_str() {
        "earliest" | "starttime" | "starttimeu" => TimeSlot::Earliest,
        "latest" | "endtime" | "endtimeu" => TimeSlot::Latest,
        "_index_earliest" => TimeSlot::IndexEarliest,
        "_index_latest" => TimeSlot::IndexLatest,
        _ => return None,
    };
    Some((slot, value))
}

fn set_time(time: &mut TimeModifiers, slot: TimeSlot, value: &SearchPattern) -> ParseResult<()> {
    if let Err(error) = parse_time(&value.text, 0, &TimeZone::UTC) {
        let hint = match value.text.to_ascii_lowercase().as_str() {
            "today" => "write earliest=@d",
            "yesterday" => "write earliest=-1d@d latest=@d",
            _ => "write a time such as -24h@h, now, 2026-11-20T08:00:00Z or 10/19/2026:0:0:0",
        };
        return Err(Diagnostic::error(error.to_string(), value.span).with_hint(hint));
    }
    let place = match slot {
        TimeSlot::Earliest => &mut time.earliest,
        TimeSlot::Latest => &mut time.latest,
        TimeSlot::IndexEarliest => &mut time.index_earliest,
        TimeSlot::IndexLatest => &mut time.index_latest,
    };
    *place = Some(TimeText { text: value.text.clone(), span: value.span });
    Ok(())
}

/// Checks time modifiers under OR or NOT. Such modifiers stay part of the condition. Modifiers of the index time
/// are errors, because they must apply to the whole search.
fn check_inner_time(expr: &SearchExpr) -> ParseResult<()> {
    match time_modifier(expr) {
        Some((TimeSlot::IndexEarliest | TimeSlot::IndexLatest, value)) => {
            let message = "unsupported: `_index_earliest` or `_index_latest` inside OR or NOT";
            return Err(Diagnostic::error(message, value.span).with_hint("move it to the top level of the search"));
        }
        Some((slot, value)) => set_time(&mut TimeModifiers::default(), slot, value)?,
        None => {}
    }
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().try_for_each(check_inner_time),
        SearchExpr::Not(part) => check_inner_time(part),
        _ => Ok(()),
    }
}

/// Whether a condition contains time modifiers.
pub(crate) fn has_inner_time(expr: &SearchExpr) -> bool {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().any(has_inner_time),
        SearchExpr::Not(part) => has_inner_time(part),
        _ => time_modifier(expr).is_some(),
    }
}
