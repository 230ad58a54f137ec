//! Eval expressions and assignments.
//!
//! Precedence, loosest first: OR, XOR, AND, NOT, comparison, `.` `+` `-`, `*` `/` `%`, sign. Long chains of one
//! associative operator become balanced trees and other chains are limited, so no text produces a tree too deep for
//! recursive functions.

use super::cursor::{ParseResult, Parser, Word};
use crate::ast::{
    AssignTarget, Assignment, BinaryOp, CompareOp, Expr, ExprKind, NamePart, Span, UnaryOp, join_balanced,
};
use crate::diagnostic::Diagnostic;
use crate::functions::{EVAL_FUNCTIONS, FunctionHelp, ResultType, eval_function, stats_function};

/// Maximum number of operators of one expression in chains that cannot be balanced.
const MAX_CHAIN: usize = 512;

/// Precedence levels of operators, loosest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Or,
    Xor,
    And,
    Not,
    Compare,
    Add,
    Mul,
    Sign,
}

impl Level {
    fn next_tighter(self) -> Level {
        match self {
            Level::Or => Level::Xor,
            Level::Xor => Level::And,
            Level::And => Level::Not,
            Level::Not => Level::Compare,
            Level::Compare => Level::Add,
            Level::Add => Level::Mul,
            Level::Mul | Level::Sign => Level::Sign,
        }
    }
}

/// An infix operator.
enum Infix {
    Op(BinaryOp),
    In { negated: bool },
}

/// Length in bytes of a name before the first `=` that contains blanks or balanced parentheses, as in `size (MB)=...`
/// and `avg(bytes)=...`; `None` if there is no such name. As in Splunk, the left side needs no quotes.
fn name_with_blanks(text: &str) -> Option<usize> {
    let end = text.find('=')?;
    if text[end + 1..].starts_with('=') {
        return None;
    }
    let name = text[..end].trim_end();
    let mut open = 0_usize;
    for c in name.chars() {
        match c {
            '(' => open += 1,
            ')' => open = open.checked_sub(1)?,
            ',' if open == 0 => return None,
            '"' | '\'' | '[' | ']' | '<' | '>' | '!' | '|' | '\n' | '\r' => return None,
            _ => {}
        }
    }
    (open == 0 && name.contains([' ', '\t', '('])).then_some(name.len())
}

impl Parser<'_> {
    pub(crate) fn assignment(&mut self) -> ParseResult<Assignment> {
        self.names_read += 1;
        let word = self.target_word()?;
        self.expect('=', "after the field that eval assigns").map_err(|remark| match self.peek() {
            Some('(') => remark.with_hint(format!("name the result: eval x={}(...)", word.text)),
            _ => remark.with_hint(format!("write eval {}=EXPRESSION", word.text)),
        })?;
        if self.peek() == Some('=') {
            let remark = Diagnostic::error("eval: one `=` assigns, `==` compares", self.here());
            return Err(remark.with_hint(format!("write eval {}=EXPRESSION", word.text)));
        }
        self.chain = 0;
        let expr = self.expression()?;
        // The `?` of `x=a>1 ? b : c` is reported as an error later.
        if is_boolean(&expr) && self.peek() != Some('?') {
            let remark = Diagnostic::error(format!("eval: `{}` cannot hold a boolean", word.text), expr.span);
            self.report(remark.with_hint("write if(..., \"true\", \"false\")"));
        }
        Ok(Assignment { target: parse_target(&word), expr })
    }

    fn target_word(&mut self) -> ParseResult<Word> {
        self.skip_blank();
        if let Some(word) = self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            return Ok(word);
        }
        let start = self.pos;
        let rest = self.rest();
        if let Some(length) = name_with_blanks(rest) {
            self.pos += length;
            return Ok(Word { text: rest[..length].to_owned(), quoted: false, span: self.since(start) });
        }
        let stop = |c: char| c.is_whitespace() || matches!(c, '=' | ',' | '(' | ')' | '"' | '\'' | '[' | ']');
        self.pos += rest.find(stop).unwrap_or(rest.len());
        if self.pos == start {
            return Err(Diagnostic::error(
                format!("expected a field to assign, found {}", self.found_text()),
                self.here(),
            ));
        }
        Ok(Word { text: self.text[start..self.pos].to_owned(), quoted: false, span: self.since(start) })
    }

    /// Parses an expression that extends to the end of the command.
    pub(crate) fn whole_expression(&mut self) -> ParseResult<Expr> {
        self.chain = 0;
        let expr = self.expression()?;
        if !self.at_end() {
            let remark =
                Diagnostic::error(format!("unexpected {} after the expression", self.found_text()), self.here());
            if let Some(hint) = crate::foreign_words::after_expression(self.rest()) {
                return Err(remark.with_hint(hint));
            }
            return Err(match self.peek() {
                Some('"' | '\'') => remark.with_hint("join texts with `.`"),
                _ if self.at_keyword("not") => remark.with_hint("write NOT before the condition"),
                _ => remark,
            });
        }
        Ok(expr)
    }

    /// Parses the longest expression at the cursor.
    pub(crate) fn expression(&mut self) -> ParseResult<Expr> {
        self.parse_nested(|parser| parser.level(Level::Or))
    }

    fn level(&mut self, level: Level) -> ParseResult<Expr> {
        match level {
            Level::Not => return self.negation(),
            Level::Sign => return self.unary_sign(),
            _ => {}
        }
        let mut operands = vec![self.level(level.next_tighter())?];
        let mut operators = Vec::new();
        while let Some(infix) = self.infix(level) {
            match infix {
                Infix::In { negated } => {
                    let list = self.arguments()?;
                    let left = self.fold_chain(std::mem::take(&mut operands), std::mem::take(&mut operators))?;
                    self.count_chain_operators(1, left.span)?;
                    let span = self.since(left.span.start);
                    let within = Expr { kind: ExprKind::In(Box::new(left), list), span };
                    operands.push(match negated {
                        true => Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(within)), span },
                        false => within,
                    });
                }
                Infix::Op(op) => {
                    operators.push(op);
                    operands.push(self.level(level.next_tighter())?);
                }
            }
        }
        self.fold_chain(operands, operators)
    }

    /// Builds a tree from operands and the operators between them.
    fn fold_chain(&mut self, mut operands: Vec<Expr>, operators: Vec<BinaryOp>) -> ParseResult<Expr> {
        let associative = [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor, BinaryOp::Concat];
        if let Some(op) = operators.first().copied()
            && operators.iter().all(|other| *other == op)
            && associative.contains(&op)
        {
            return join_balanced(operands, |left, right| binary(op, left, right)).ok_or_else(missing_expression);
        }
        let rest = operands.split_off(1.min(operands.len()));
        let mut tree = operands.pop().ok_or_else(missing_expression)?;
        self.count_chain_operators(operators.len().saturating_sub(1), tree.span)?;
        for (op, right) in operators.into_iter().zip(rest) {
            tree = binary(op, tree, right);
        }
        Ok(tree)
    }

    /// Counts operators that make the tree deeper.
    fn count_chain_operators(&mut self, operators: usize, place: Span) -> ParseResult<()> {
        self.chain += operators;
        if self.chain <= MAX_CHAIN {
            return Ok(());
        }
        let message = format!("more than the limit of {MAX_CHAIN} chained operators in one expression");
        Err(Diagnostic::error(message, place).with_hint("use several evals"))
    }

    /// NOT applies to everything up to AND, OR, XOR; `!`, which published searches use, is the same.
    fn negation(&mut self) -> ParseResult<Expr> {
        self.skip_blank();
        let start = self.pos;
        let is_mark = self.rest().starts_with('!') && !self.rest().starts_with("!=");
        if is_mark {
            self.bump();
        } else if !self.eat_word("not") {
            return self.level(Level::Compare);
        }
        let inner = self.parse_nested(Self::negation)?;
        Ok(Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(inner)), span: self.since(start) })
    }

    fn unary_sign(&mut self) -> ParseResult<Expr> {
        self.skip_blank();
        let start = self.pos;
        let op = match self.peek() {
            Some('-') => UnaryOp::Neg,
            Some('+') => UnaryOp::Plus,
            _ => return self.primary(),
        };
        self.bump();
        let inner = self.parse_nested(Self::unary_sign)?;
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(inner)), span: self.since(start) })
    }

    /// Reads the infix operator of this level, if one is next.
    fn infix(&mut self, level: Level) -> Option<Infix> {
        self.skip_blank();
        let op = match level {
            Level::Or => self.eat_word("or").then_some(BinaryOp::Or)?,
            Level::Xor => self.eat_word("xor").then_some(BinaryOp::Xor)?,
            Level::And => self.eat_word("and").then_some(BinaryOp::And)?,
            Level::Compare => {
                if self.eat_word("like") {
                    BinaryOp::Like
                } else if self.eat_word("in") {
                    return Some(Infix::In { negated: false });
                } else if self.eat_not_in() {
                    return Some(Infix::In { negated: true });
                } else {
                    BinaryOp::Compare(self.compare_op()?)
                }
            }
            Level::Add => self.eat_sign(&[('+', BinaryOp::Add), ('-', BinaryOp::Sub), ('.', BinaryOp::Concat)])?,
            Level::Mul => self.eat_sign(&[('*', BinaryOp::Mul), ('/', BinaryOp::Div), ('%', BinaryOp::Rem)])?,
            Level::Not | Level::Sign => return None,
        };
        Some(Infix::Op(op))
    }

    /// Reads `NOT IN`.
    fn eat_not_in(&mut self) -> bool {
        let start = self.pos;
        if self.eat_word("not") {
            self.skip_blank();
            if self.eat_word("in") {
                return true;
            }
        }
        self.pos = start;
        false
    }

    fn eat_sign(&mut self, signs: &[(char, BinaryOp)]) -> Option<BinaryOp> {
        let next = self.peek()?;
        let (_, op) = signs.iter().find(|(sign, _)| *sign == next)?;
        self.bump();
        Some(*op)
    }

    /// Reads an operator word, ignoring case, if it is a whole word.
    fn eat_word(&mut self, word: &str) -> bool {
        let whole = self.name_here().eq_ignore_ascii_case(word);
        if whole {
            self.pos += word.len();
        }
        whole
    }

    /// The unquoted field or function name at the cursor.
    fn name_here(&self) -> &str {
        let rest = self.rest();
        if !rest.starts_with(is_name_start) {
            return "";
        }
        &rest[..rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len())]
    }

    fn primary(&mut self) -> ParseResult<Expr> {
        self.skip_blank();
        let start = self.pos;
        let Some(next) = self.peek() else {
            return Err(Diagnostic::error("an expression is missing its right side", self.here()));
        };
        match next {
            '(' => {
                self.bump();
                let inner = self.expression()?;
                self.expect(')', "after the expression")?;
                Ok(Expr { kind: inner.kind, span: self.since(start) })
            }
            '"' => {
                let text = self.eat_quoted().map(|word| word.text).unwrap_or_default();
                Ok(Expr { kind: ExprKind::Text(text), span: self.since(start) })
            }
            '\'' => match self.eat_single_quoted() {
                Some(word) => self.field_expr(word.text, word.span),
                None => Err(Diagnostic::error("this quote is never closed", self.here()).with_hint("add `'`")),
            },
            c if c.is_ascii_digit() || (c == '.' && self.peek_second().is_some_and(|d| d.is_ascii_digit())) => {
                self.number()
            }
            c if is_name_start(c) => self.name(),
            '[' => {
                self.report_unsupported("feature:subsearch-expression".to_owned());
                let remark = Diagnostic::error("unsupported: a subsearch inside an expression", self.here());
                Err(remark.with_hint("use join or append"))
            }
            _ => {
                let remark = Diagnostic::error(format!("expected a value, found {}", self.found_text()), self.here());
                let is_unequal = next == '>' && self.text[..self.pos].ends_with('<');
                Err(if is_unequal { remark.with_hint("write `!=` for unequal") } else { remark })
            }
        }
    }

    fn number(&mut self) -> ParseResult<Expr> {
        let start = self.pos;
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = digits(0);
        if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits((length + 1 + sign).min(bytes.len()));
            length += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        if self.rest()[length..].starts_with(is_name_char) {
            return self.field_with_digit();
        }
        self.pos += length;
        let literal = self.text[start..self.pos].to_owned();
        let value = literal
            .parse()
            .map_err(|_| Diagnostic::error(format!("`{literal}` is not a number"), Span { start, end: self.pos }))?;
        Ok(Expr { kind: ExprKind::Number(value, literal), span: self.since(start) })
    }

    /// Parses a field whose name starts with a digit; valid, but a warning recommends quotes.
    fn field_with_digit(&mut self) -> ParseResult<Expr> {
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        let span = self.since(start);
        let name = self.text[start..self.pos].to_owned();
        let remark = Diagnostic::warning(format!("`{name}` is read as a field"), span);
        self.report(remark.with_hint(format!("write '{name}' for a field, \"{name}\" for text")));
        self.field_expr(name, span)
    }

    fn field_expr(&mut self, name: String, span: Span) -> ParseResult<Expr> {
        self.count_field(&name)?;
        Ok(Expr { kind: ExprKind::Field(name), span })
    }

    /// Parses a field, a call or a boolean.
    fn name(&mut self) -> ParseResult<Expr> {
        let start = self.pos;
        let name = self.name_here().to_owned();
        self.pos += name.len();
        let span = self.since(start);
        let lower = name.to_ascii_lowercase();
        if let Some(part) = self.part(&lower, start)? {
            return Ok(part);
        }
        let place = self.pos;
        self.skip_blank();
        if self.peek() == Some('(') {
            return self.call(lower, span);
        }
        self.pos = place;
        match lower.as_str() {
            "true" | "false" => Ok(Expr { kind: ExprKind::Call(lower, Vec::new()), span }),
            "and" | "or" | "xor" | "like" | "in" => {
                Err(Diagnostic::error(format!("`{name}` needs a value on both sides"), span))
            }
            "not" => {
                // NOT after a tighter operator, as in `a = NOT b`.
                let inner = self.parse_nested(Self::negation)?;
                Ok(Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(inner)), span: self.since(start) })
            }
            _ => self.field_expr(name, span),
        }
    }

    fn call(&mut self, name: String, name_span: Span) -> ParseResult<Expr> {
        let args = self.arguments()?;
        match eval_function(&name) {
            None => {
                let known = EVAL_FUNCTIONS.iter().map(|function| function.help.name);
                let remark = Diagnostic::error(format!("unknown function `{name}`"), name_span);
                let method = name.rsplit_once('.').map_or(name.as_str(), |(_, method)| method);
                self.report(if let Some(hint) = crate::foreign_words::function(method) {
                    remark.with_hint(hint)
                } else if stats_function(&name).is_some() {
                    remark.with_hint(format!(
                        "{name} is an aggregate: write `| stats {name}(...) as x` before, and use x"
                    ))
                } else {
                    let remark = self.suggest(remark, &name, known);
                    match (&remark.hint, crate::foreign_words::near_function(method)) {
                        (None, Some(hint)) => remark.with_hint(hint),
                        _ => remark,
                    }
                });
                self.report_unsupported(format!("function:eval:{name}"));
            }
            Some(function) => {
                let is_odd =
                    matches!(name.as_str(), "case" | "validate" | "json_object") && !args.len().is_multiple_of(2);
                // An unknown macro may stand for several arguments.
                let knows_all = !self.has_unknown_macro(name_span.start, self.pos);
                if knows_all && (is_odd || !function.help.arity.allows(args.len())) {
                    self.report(argument_count_error(&function.help, args.len(), is_odd).at(name_span));
                }
            }
        }
        Ok(Expr { kind: ExprKind::Call(name, args), span: self.since(name_span.start) })
    }

    /// Parses `( EXPR, ... )`.
    fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        self.expect('(', "before the arguments")?;
        let mut args = Vec::new();
        if self.eat(')') {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect(')', "after the arguments").map_err(|remark| {
            match crate::foreign_words::after_expression(self.rest()) {
                Some(hint) => remark.with_hint(hint),
                None => remark,
            }
        })?;
        Ok(args)
    }
}

/// The error for a call with too few, too many, or unpaired arguments.
fn argument_count_error(function: &FunctionHelp, given: usize, is_odd: bool) -> Diagnostic {
    let FunctionHelp { name, arity, syntax, .. } = function;
    let least = arity.min;
    let takes = match arity.max {
        _ if is_odd => "arguments in pairs".to_owned(),
        Some(0) => "no argument".to_owned(),
        Some(most) if most == least => format!("{most} argument{}", if most == 1 { "" } else { "s" }),
        Some(most) => format!("{least} to {most} arguments"),
        None => format!("at least {least} argument{}", if least == 1 { "" } else { "s" }),
    };
    let hint = match *name {
        "case" if is_odd => format!("write {syntax}; the last pair may be true(), OTHERWISE"),
        _ => format!("write {syntax}"),
    };
    Diagnostic::error(format!("`{name}` takes {takes}, got {given}"), Span::default()).with_hint(hint)
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '@' | '$' | '{')
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '@' | '$' | '{' | '}' | ':')
}

fn missing_expression() -> Diagnostic {
    Diagnostic::error("an expression is missing", Span::default())
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let span = Span { start: left.span.start, end: right.span.end };
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }
}

/// Whether the value can only be a boolean.
fn is_boolean(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Unary(UnaryOp::Not, _) | ExprKind::In(..) | ExprKind::Bool(_) => true,
        ExprKind::Binary(op, ..) => matches!(
            op,
            BinaryOp::Compare(
                CompareOp::Eq | CompareOp::Ne | CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge
            ) | BinaryOp::Like
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
        ),
        ExprKind::Call(name, _) => eval_function(name).is_some_and(|function| function.result == ResultType::Boolean),
        _ => false,
    }
}

/// Parses a target name. Parts in braces such as `{field}` are substituted row by row; empty braces are plain text.
fn parse_target(word: &Word) -> AssignTarget {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = word.text.as_str();
    while let Some(open) = rest.find('{') {
        let inner = &rest[open + 1..];
        match inner.find('}') {
            Some(close) if close > 0 => {
                text.push_str(&rest[..open]);
                if !text.is_empty() {
                    parts.push(NamePart::Text(std::mem::take(&mut text)));
                }
                parts.push(NamePart::Field(inner[..close].to_owned()));
                rest = &inner[close + 1..];
            }
            _ => {
                text.push_str(&rest[..=open]);
                rest = inner;
            }
        }
    }
    text.push_str(rest);
    if parts.is_empty() {
        return AssignTarget::Field(text);
    }
    if !text.is_empty() {
        parts.push(NamePart::Text(text));
    }
    AssignTarget::Dynamic(parts)
}
