//! Push-down of functions of texts, which the scan computes from the stored parts of a text without rebuilding it:
//! `len(_raw)`, `match(_raw, "…")`, `like(_raw, "…")` and `regex "…"`, which depend on the event text but return no
//! part of it, and `json_extract(field, "…")` (also `json_extract_exact`) and `spath(field, "…")`, which return a small
//! part.
//!
//! Each value is a hidden field; calls are replaced by a reference to the field. Functions of JSON are still called,
//! but on a document that has only the value at the path. This works for leading commands that neither change the text
//! nor generate rows, and pays off only if nothing else reads the event text.

use std::collections::BTreeSet;

use quarry_eval::pattern::Regex;
use quarry_scan::document_value;
use quarry_scan::plan::{Extraction, ExtractionKind, TEXT_VALUE_PREFIX, TextValue};
use quarry_spl::ast::{
    AggregateArg, AssignTarget, BinaryOp, Command, CompareOp, Expr, ExprKind, NodeBuilder, RegexCommand, Span, Stage,
    UnaryOp, WhereCommand,
};

const TEXT: &str = "_raw";
/// Maximum number of values per search. With more, the remaining calls read the event text, so replacing the first
/// calls would gain nothing.
const VALUES_MAX: usize = 16;

/// The text values that replaced calls in the commands.
#[derive(Default)]
pub(super) struct TextValues {
    found: Vec<Extraction>,
    /// Fields that the commands so far have written.
    written: BTreeSet<String>,
}

impl TextValues {
    /// Rewrites leading commands, and the fold after them if all of them pass texts through.
    pub(super) fn rewrite(rows: &mut [Stage], fold: Option<&mut Stage>) -> Vec<Extraction> {
        let mut values = TextValues::default();
        for stage in rows {
            if !passes_texts(&stage.command) {
                return values.found;
            }
            values.rewrite_command(&mut stage.command, stage.span);
            let written = stage.command.written_fields().into_iter().flatten();
            values.written.extend(written.map(str::to_owned));
        }
        if let Some(fold) = fold {
            values.rewrite_fold(&mut fold.command);
        }
        values.found
    }

    fn rewrite_command(&mut self, command: &mut Command, span: Span) {
        match command {
            Command::Eval(eval) => {
                for assignment in &mut eval.assignments {
                    self.rewrite_expr(&mut assignment.expr);
                    if let AssignTarget::Field(name) = &assignment.target {
                        self.written.insert(name.clone());
                    }
                }
            }
            Command::Where(filter) => self.rewrite_expr(&mut filter.condition),
            Command::Regex(regex) => {
                if let Some(condition) = self.condition_of(regex, span) {
                    *command = Command::Where(WhereCommand { condition });
                }
            }
            _ => {}
        }
    }

    fn rewrite_fold(&mut self, fold: &mut Command) {
        let aggregates = match fold {
            Command::Stats(stats) => &mut stats.aggregates,
            Command::Chart(chart) => &mut chart.aggregates,
            Command::TimeChart(chart) => &mut chart.aggregates,
            _ => return,
        };
        for aggregate in aggregates {
            if let AggregateArg::Eval(expr) = &mut aggregate.arg {
                self.rewrite_expr(expr);
            }
        }
    }

    /// The condition equivalent to a `regex` command.
    fn condition_of(&mut self, regex: &RegexCommand, span: Span) -> Option<Expr> {
        let pattern = Some(&regex.pattern.text).filter(|_| regex.field == TEXT)?;
        let is_match = self.match_condition(pattern, span)?;
        Some(match regex.negated {
            true => Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(is_match)), span },
            false => is_match,
        })
    }

    fn rewrite_expr(&mut self, expr: &mut Expr) {
        if let ExprKind::Call(name, args) = &mut expr.kind
            && let [text, path] = args.as_mut_slice()
            && let Some(document) = self.document(name, text, path)
        {
            *text = document;
            return;
        }
        let found = match &expr.kind {
            ExprKind::Call(name, args) => match (name.as_str(), args.as_slice()) {
                ("len", [of]) if is_text(of) => self.field(TextValue::Length, expr.span),
                ("match", [of, Expr { kind: ExprKind::Text(pattern), .. }]) if is_text(of) => {
                    self.match_condition(pattern, expr.span)
                }
                ("like", [of, Expr { kind: ExprKind::Text(pattern), .. }]) if is_text(of) => {
                    like_regex(pattern).and_then(|pattern| self.match_condition(&pattern, expr.span))
                }
                _ => None,
            },
            ExprKind::Binary(BinaryOp::Like, of, pattern) if is_text(of) => match &pattern.kind {
                ExprKind::Text(pattern) => {
                    like_regex(pattern).and_then(|pattern| self.match_condition(&pattern, expr.span))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(found) = found {
            *expr = found;
            return;
        }
        expr.parts_mut().into_iter().for_each(|part| self.rewrite_expr(part));
    }

    /// A document that may replace the first argument of a function of JSON.
    fn document(&mut self, function: &str, text: &Expr, path: &Expr) -> Option<Expr> {
        let (ExprKind::Field(field), ExprKind::Text(path)) = (&text.kind, &path.kind) else { return None };
        let is_path = match function {
            "json_extract" | "spath" => true,
            "json_extract_exact" => !path.contains('.'),
            _ => false,
        };
        let is_stored = is_path && !self.written.contains(field);
        self.field(is_stored.then(|| document_value(field, path)).flatten()?, text.span)
    }

    /// A condition that is true if the text matches; a call with an invalid pattern is kept.
    fn match_condition(&mut self, pattern: &str, span: Span) -> Option<Expr> {
        Regex::new(pattern).ok()?;
        let field = self.field(TextValue::Match(pattern.to_owned()), span)?;
        let make = NodeBuilder::at(span);
        Some(make.compare(CompareOp::Eq, field, make.number(1)))
    }

    /// Reference to the field with a value.
    fn field(&mut self, value: TextValue, span: Span) -> Option<Expr> {
        let known = self.found.iter().find_map(|known| match &known.kind {
            ExtractionKind::Text { value: of, output } if *of == value => Some(output.clone()),
            _ => None,
        });
        let output = match known {
            Some(output) => output,
            None if self.found.len() == VALUES_MAX => return None,
            None => {
                let output = format!("{TEXT_VALUE_PREFIX}{}", self.found.len());
                self.found.push(Extraction { kind: ExtractionKind::Text { value, output: output.clone() }, span });
                output
            }
        };
        Some(Expr { kind: ExprKind::Field(output), span })
    }
}

/// Whether the events after a command have the same texts and hidden fields as before.
fn passes_texts(command: &Command) -> bool {
    let keeps = |name: &&str| *name != TEXT && !name.starts_with(TEXT_VALUE_PREFIX);
    command.written_fields().is_some_and(|written| written.iter().all(keeps))
}

fn is_text(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Field(name) if name == TEXT)
}

/// The regular expression for a LIKE pattern; `None` if the pattern has only wildcards, or a backslash that escapes
/// nothing.
fn like_regex(pattern: &str) -> Option<String> {
    let mut tokens = Vec::new();
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        tokens.push(match character {
            '%' => Err('%'),
            '_' => Err('_'),
            '\\' => match rest.next() {
                Some(plain @ ('%' | '_' | '\\')) => Ok(plain),
                // A backslash that escapes nothing.
                _ => return None,
            },
            plain => Ok(plain),
        });
    }
    if !tokens.iter().any(Result::is_ok) {
        return None;
    }
    // Leading and trailing `%` are expressed by omitting anchors.
    let (starts, ends) = (tokens.first() != Some(&Err('%')), tokens.last() != Some(&Err('%')));
    let inner: &[_] = match (starts, ends) {
        (true, true) => &tokens,
        (true, false) => &tokens[..tokens.len() - 1],
        (false, true) => &tokens[1..],
        (false, false) => &tokens[1..tokens.len() - 1],
    };
    let mut regex = String::from(if starts { r"(?s)\A" } else { "(?s)" });
    for token in inner {
        match token {
            Err('%') => regex.push_str(".*"),
            Err(_) => regex.push('.'),
            Ok(plain) => {
                if plain.is_ascii_punctuation() {
                    regex.push('\\');
                }
                regex.push(*plain);
            }
        }
    }
    if ends {
        regex.push_str(r"\z");
    }
    Some(regex)
}

#[cfg(test)]
mod tests {
    use quarry_eval::pattern::LikePattern;

    use super::*;

    #[test]
    fn like_regexes_match_the_same_texts_as_like_patterns() {
        let patterns =
            ["a%", "%a", "%a.b%", "a_c", "_", "%", "a%b%c", "%\\%%", "ä_%", "a\\", "\\_x%", "", "%-%]^$", "a%%"];
        let texts =
            ["", "a", "abc", "a.b", "axb", "xa.by", "a\nc", "äöx", "50% of", "_x", "_xy", "a-]^$", "ab\nbc", "a\\"];
        for pattern in patterns {
            let Some(text) = like_regex(pattern) else { continue };
            let (regex, like) = (Regex::new(&text).unwrap(), LikePattern::new(pattern));
            for text in texts {
                assert_eq!(regex.is_match(text), like.is_match(text), "{pattern:?} {regex:?} {text:?}");
            }
        }
    }
}
