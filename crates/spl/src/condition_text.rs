//! Writes the condition of a `search` command as SPL, in one form whatever its author wrote.
//!
//! Parsing the text yields an equal condition. Not here: commands ([`crate::spl_text`]).

use crate::ast::{CompareOp, Pipeline, SearchExpr, SearchPattern};
use crate::spl_text::quote;

/// The condition as SPL; `original` is the text that its subsearches are part of.
pub fn condition_text(expr: &SearchExpr, original: &str) -> String {
    Writer { original }.write(expr)
}

struct Writer<'a> {
    original: &'a str,
}

impl Writer<'_> {
    fn write(&self, expr: &SearchExpr) -> String {
        match expr {
            SearchExpr::All => "*".to_owned(),
            SearchExpr::And(parts) => self.list(parts, " "),
            SearchExpr::Or(parts) => self.list(parts, " OR "),
            SearchExpr::Not(part) => format!("NOT {}", self.operand(part)),
            SearchExpr::Keyword(word) => keyword(word),
            SearchExpr::Term(word) => format!("TERM({})", word.text),
            SearchExpr::Case(word) => format!("CASE({})", word.text),
            SearchExpr::Compare { field, op, value, case_sensitive } => {
                let value = if *case_sensitive { format!("CASE({})", value.text) } else { name(&value.text) };
                format!("{}{}{value}", name(&field.text), operator(*op))
            }
            SearchExpr::In { field, values } => {
                let values: Vec<String> = values.iter().map(|value| name(&value.text)).collect();
                format!("{} IN ({})", name(&field.text), values.join(", "))
            }
            SearchExpr::Indexed { field, value } => format!("{}::{}", field.text, name(&value.text)),
            SearchExpr::Subsearch(inner) => format!("[{}]", self.subsearch(inner)),
        }
    }

    fn list(&self, parts: &[SearchExpr], join: &str) -> String {
        match parts {
            [] => "*".to_owned(),
            [part] => self.write(part),
            _ => parts.iter().map(|part| self.operand(part)).collect::<Vec<_>>().join(join),
        }
    }

    /// A part of a condition: in parentheses if it has several parts itself.
    fn operand(&self, expr: &SearchExpr) -> String {
        match expr {
            SearchExpr::And(parts) | SearchExpr::Or(parts) if parts.len() == 1 => self.operand(&parts[0]),
            SearchExpr::And(parts) | SearchExpr::Or(parts) if !parts.is_empty() => format!("({})", self.write(expr)),
            _ => self.write(expr),
        }
    }

    /// The text of a subsearch as its author wrote it.
    fn subsearch(&self, inner: &Pipeline) -> String {
        let text = self.original.get(inner.span.start..inner.span.end).unwrap_or_default().trim();
        let text = text.strip_prefix('[').unwrap_or(text);
        text.strip_suffix(']').unwrap_or(text).trim().to_owned()
    }
}

fn operator(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// A word, or a phrase in quotes.
fn keyword(word: &SearchPattern) -> String {
    if word.quoted { quote(&word.text) } else { name(&word.text) }
}

/// The name or value of a field: in quotes if it cannot be read without them.
fn name(text: &str) -> String {
    if is_bare(text) { text.to_owned() } else { quote(text) }
}

/// Whether a text is read as one word without quotes.
fn is_bare(text: &str) -> bool {
    let is_plain =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | ':' | '/' | '@' | '%' | '#' | '{' | '}');
    let is_operator = ["and", "or", "not", "in"].iter().any(|word| text.eq_ignore_ascii_case(word));
    !text.is_empty() && text.chars().all(is_plain) && !is_operator
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;
    use crate::ast::Command;

    fn condition(text: &str) -> SearchExpr {
        let parsed = crate::parse(text);
        match parsed.pipeline.commands.first().map(|stage| stage.command.clone()) {
            Some(Command::Search(search)) => search.expr,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn conditions_are_written_in_one_form() {
        for (text, written) in [
            ("*", "*"),
            ("error", "error"),
            ("a  AND\tb", "a b"),
            ("a OR b c", "(a OR b) c"),
            ("NOT (a OR b) c", "NOT (a OR b) c"),
            ("(a OR (b c))", "a OR (b c)"),
            ("status!=200 size>=10 n<5", "status!=200 size>=10 n<5"),
            ("status==200", "status=200"),
            ("f=CASE(Abc)", "f=CASE(Abc)"),
            ("f IN (a, \"b c\" d*)", "f IN (a, \"b c\", d*)"),
            ("\"a field\"=x", "\"a field\"=x"),
            ("sourcetype::access host::\"a b\"", "sourcetype::access host::\"a b\""),
            ("TERM(10.0.0.1) CASE(Foo)", "TERM(10.0.0.1) CASE(Foo)"),
            ("\"a \\\"b\\\" c\"", "\"a \\\"b\\\" c\""),
            ("Image=\"*\\\\calc.exe\"", "Image=\"*\\\\calc.exe\""),
            ("url=http://x/y?z=1", "url=\"http://x/y?z=1\""),
            ("a=\"or\" \"and\"", "a=\"or\" \"and\""),
            ("a=\"x\" b IN (\"y\") \"z\"", "a=x b IN (y) \"z\""),
            ("x [ search y | fields z ]", "x [search y | fields z]"),
            ("x NOT [| inputlookup t.csv]", "x NOT [| inputlookup t.csv]"),
        ] {
            let expr = condition(text);
            assert_eq!(condition_text(&expr, text), written, "{text}");
            assert_eq!(condition_text(&condition(written), written), written, "{text}");
        }
        assert_eq!(condition_text(&SearchExpr::Or(vec![condition("a b")]), ""), "a b");
    }
}
