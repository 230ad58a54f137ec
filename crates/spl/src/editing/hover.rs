//! Help on the word at a position: a command, a function or an option.

use crate::ast::Span;
use crate::commands;
use crate::functions::{FunctionHelp, eval_function, stats_function};

use super::token::{Grammar, Token, TokenKind, tokens};

/// Help on a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// Position of the word.
    pub span: Span,
    /// Kind of the word: `command`, `function`, `option` or `macro`.
    pub kind: &'static str,
    /// Name of the command, function or option.
    pub name: String,
    /// Syntax line; empty for a macro.
    pub syntax: String,
    /// Summary in one line; empty for a macro.
    pub summary: String,
    /// Page of the manual about the word, if there is one.
    pub page: Option<&'static str>,
}

/// Returns help on the word at a byte position; `None` if there is no help on it.
pub fn hover(text: &str, position: usize) -> Option<Hover> {
    let token = tokens(text).into_iter().find(|token| token.span.start <= position && position < token.span.end)?;
    let word = text[token.span.start..token.span.end].to_ascii_lowercase();
    let command = token.command.map(|span| text[span.start..span.end].to_ascii_lowercase()).unwrap_or_default();
    match token.kind {
        TokenKind::Command | TokenKind::Option => {
            let row = commands::help().iter().find(|row| row.name == command)?;
            let kind = if token.kind == TokenKind::Command { "command" } else { "option" };
            let (syntax, summary, page) = (row.syntax.clone(), row.summary.clone(), Some(row.page));
            Some(Hover { span: token.span, kind, name: word, syntax, summary, page })
        }
        TokenKind::Function => {
            let (row, page) = function(&word, Grammar::of(&command))?;
            let (syntax, summary) = (row.syntax.to_owned(), row.summary.to_owned());
            Some(Hover {
                span: token.span,
                kind: "function",
                name: row.name.to_owned(),
                syntax,
                summary,
                page: Some(page),
            })
        }
        TokenKind::Macro => Some(macro_hover(text, token)),
        _ => None,
    }
}

fn macro_hover(text: &str, token: Token) -> Hover {
    let name = text[token.span.start..token.span.end].trim_matches('`').to_owned();
    Hover { span: token.span, kind: "macro", name, syntax: String::new(), summary: String::new(), page: None }
}

/// Help on the eval function and the stats function with this name, each with its manual page.
pub fn functions_named(name: &str) -> [Option<(FunctionHelp, &'static str)>; 2] {
    let of_eval = eval_function(name).map(|row| (row.help, "eval-functions"));
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let of_stats = stats_function(name).or_else(|| stats_function(stem)).map(|row| (row.help, "stats-functions"));
    [of_eval, of_stats]
}

/// The function with this name; expressions prefer eval functions, other commands prefer stats functions.
fn function(word: &str, grammar: Grammar) -> Option<(FunctionHelp, &'static str)> {
    let [of_eval, of_stats] = functions_named(word);
    if grammar == Grammar::Expression { of_eval.or(of_stats) } else { of_stats.or(of_eval) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_language_have_help() {
        let text = "error `m` | stats p95(took) by host | eval x=max(1, 2) | head null=t";
        let at = |word: &str| hover(text, text.find(word).unwrap());
        assert!(at("stats").unwrap().syntax.starts_with("stats AGG"));
        assert_eq!(at("p95").unwrap().page, Some("stats-functions"));
        assert_eq!(at("max").unwrap().page, Some("eval-functions"));
        assert_eq!((at("null").unwrap().kind, at("null").unwrap().page), ("option", Some("head")));
        assert_eq!(at("`m`").unwrap().name, "m");
        assert!(
            at("error").is_none() && at("host").is_none() && hover(text, 999).is_none() && hover(text, 5).is_none()
        );
    }
}
