//! Tokens of a search and their classes, for highlighting.
//!
//! A stack of stages, one per open bracket, determines to which command the next word belongs; the command determines
//! whether the word is an option, a field or a search term. Every text can be split into tokens: an unclosed quote
//! extends to the end.

use crate::ast::Span;
use crate::commands::{self, CommandHelp, Group};
use crate::functions::{eval_function, stats_function};
use crate::parse::{COMMENT, quoted_len};

use super::option_names::has_option;

/// Class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Between triple backticks.
    Comment,
    /// A macro with its backticks.
    Macro,
    /// `|`
    Pipe,
    /// `[` or `]`
    Bracket,
    /// `(` or `)`
    Parenthesis,
    /// `,`
    Comma,
    /// Name of a command.
    Command,
    /// A keyword such as `by` or `AND`.
    Keyword,
    /// Name of a function.
    Function,
    /// Name of a command's option, before `=`.
    Option,
    /// A comparison, an arithmetic operator or `=`.
    Operator,
    /// A text in double quotes.
    Text,
    /// A number, possibly with a unit.
    Number,
    /// Name of a field.
    Field,
    /// Any other word, such as a search term.
    Word,
}

impl TokenKind {
    /// Name of the class in API responses.
    pub fn name(self) -> &'static str {
        match self {
            TokenKind::Comment => "comment",
            TokenKind::Macro => "macro",
            TokenKind::Pipe => "pipe",
            TokenKind::Bracket => "bracket",
            TokenKind::Parenthesis => "parenthesis",
            TokenKind::Comma => "comma",
            TokenKind::Command => "command",
            TokenKind::Keyword => "keyword",
            TokenKind::Function => "function",
            TokenKind::Option => "option",
            TokenKind::Operator => "operator",
            TokenKind::Text => "text",
            TokenKind::Number => "number",
            TokenKind::Field => "field",
            TokenKind::Word => "word",
        }
    }

    /// Whether the token is a word, which a completion may replace.
    pub(super) fn is_word(self) -> bool {
        use TokenKind::{Command, Field, Function, Keyword, Number, Option, Word};
        matches!(self, Command | Keyword | Function | Option | Number | Field | Word)
    }
}

/// A token. Whitespace is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Class of the token.
    pub kind: TokenKind,
    /// Position in the text.
    pub span: Span,
    /// Position of the name of the command that the token belongs to; `None` for pipes and for terms before any
    /// command.
    pub command: Option<Span>,
}

/// Words that separate arguments or join conditions.
const KEYWORDS: [&str; 20] = [
    "against",
    "and",
    "as",
    "by",
    "from",
    "groupby",
    "in",
    "into",
    "is",
    "like",
    "not",
    "or",
    "output",
    "outputnew",
    "over",
    "sortby",
    "splitcol",
    "splitrow",
    "where",
    "with",
];

/// Grammar of the words of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    /// Search terms and comparisons.
    Terms,
    /// An eval expression.
    Expression,
    /// Field names and options.
    Arguments,
}

impl Grammar {
    /// The grammar of a command with this lower-case name.
    pub(super) fn of(command: &str) -> Grammar {
        match command {
            "search" | "metasearch" | "searchtxn" => Grammar::Terms,
            "eval" | "where" | "fieldformat" => Grammar::Expression,
            _ => Grammar::Arguments,
        }
    }
}

/// The part of the text up to the next pipe or bracket.
#[derive(Clone, Copy, Debug)]
struct Stage {
    command: Option<Span>,
    help: Option<&'static CommandHelp>,
    grammar: Grammar,
    /// Whether no word has been read yet.
    is_at_start: bool,
    /// Whether a pipe precedes the stage, so that its first word is a command.
    is_piped: bool,
    /// Whether the stage is in brackets.
    is_inner: bool,
}

impl Stage {
    fn new(is_piped: bool, is_inner: bool) -> Stage {
        Stage { command: None, help: None, grammar: Grammar::Terms, is_at_start: true, is_piped, is_inner }
    }
}

/// The tokens of a search, in order.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, stages: vec![Stage::new(false, false)], found: Vec::new() };
    while lexer.at < text.len() {
        lexer.step();
    }
    lexer.found
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// The open stages, innermost last; never empty.
    stages: Vec<Stage>,
    found: Vec<Token>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn stage(&self) -> Stage {
        self.stages.last().copied().unwrap_or_else(|| Stage::new(false, false))
    }

    fn set_stage(&mut self, stage: Stage) {
        match self.stages.last_mut() {
            Some(last) => *last = stage,
            None => self.stages.push(stage),
        }
    }

    /// Takes the next `length` bytes as a token.
    fn take(&mut self, kind: TokenKind, length: usize) {
        let span = Span { start: self.at, end: self.at + length };
        let command = self.stage().command;
        self.found.push(Token { kind, span, command });
        self.at = span.end;
        let is_word = kind.is_word() || matches!(kind, TokenKind::Text | TokenKind::Macro);
        if is_word {
            self.set_stage(Stage { is_at_start: false, ..self.stage() });
        }
    }

    /// Reads one token, or skips one whitespace character.
    fn step(&mut self) {
        let rest = self.rest();
        let Some(next) = rest.chars().next() else { return };
        let width = next.len_utf8();
        match next {
            _ if next.is_whitespace() => self.at += width,
            '`' if rest.starts_with(COMMENT) => self.take(TokenKind::Comment, delimited_length(rest, COMMENT)),
            '`' => self.take(TokenKind::Macro, delimited_length(rest, "`")),
            '"' => self.take(TokenKind::Text, quoted_len(rest).unwrap_or(rest.len()).min(rest.len())),
            '|' => {
                self.set_stage(Stage::new(true, self.stage().is_inner));
                self.take(TokenKind::Pipe, width);
            }
            '[' => {
                self.take(TokenKind::Bracket, width);
                self.stages.push(Stage::new(false, true));
            }
            ']' => {
                if self.stages.len() > 1 {
                    self.stages.pop();
                }
                self.take(TokenKind::Bracket, width);
            }
            '(' | ')' => self.take(TokenKind::Parenthesis, width),
            ',' => self.take(TokenKind::Comma, width),
            '\'' if self.stage().grammar == Grammar::Expression => {
                let close = rest[width..].find('\'').map_or(rest.len(), |end| end + 2 * width);
                self.take(TokenKind::Field, close);
            }
            _ => match operator_length(rest, self.stage().grammar) {
                0 => self.word(),
                length => self.take(TokenKind::Operator, length),
            },
        }
    }

    fn word(&mut self) {
        let length = word_length(self.rest(), self.stage().grammar);
        let word = self.rest()[..length].to_ascii_lowercase();
        let stage = self.stage();
        if stage.is_at_start && self.begins_command(&word, length) {
            let help = commands::help().iter().find(|row| row.name == word);
            let span = Span { start: self.at, end: self.at + length };
            self.set_stage(Stage { command: Some(span), help, grammar: Grammar::of(&word), ..stage });
            return self.take(TokenKind::Command, length);
        }
        let kind = self.kind_of(&word, length);
        self.take(kind, length);
    }

    /// Whether a stage's first word is a command: after a pipe, any word. Without a pipe, the word must be `search` or,
    /// in brackets, the name of a command, and no comparison operator may follow.
    fn begins_command(&self, word: &str, length: usize) -> bool {
        let stage = self.stage();
        let after = self.rest()[length..].trim_start();
        let is_compared = after.starts_with(['=', '<', '>']) || after.starts_with("!=");
        stage.is_piped || (!is_compared && (word == "search" || (stage.is_inner && commands::is_command(word))))
    }

    /// The class of a word that is not a command.
    fn kind_of(&self, word: &str, length: usize) -> TokenKind {
        let stage = self.stage();
        let after = &self.rest()[length..];
        let (next, is_value) = (after.trim_start(), self.follows_equals());
        let is_assigned = after.starts_with('=') && !after.starts_with("==");
        let is_compared = next.starts_with(['=', '<', '>']) || next.starts_with("!=");
        let is_function = next.starts_with('(') && (eval_function(word).is_some() || is_stats(word));
        if is_assigned && stage.help.is_some_and(|row| has_option(&row.syntax, word)) {
            return TokenKind::Option;
        }
        if is_function || (stage.grammar == Grammar::Arguments && word == "count" && !is_value) {
            return TokenKind::Function;
        }
        if KEYWORDS.contains(&word) && !is_value && !is_compared {
            return TokenKind::Keyword;
        }
        if is_number(word) {
            return TokenKind::Number;
        }
        let is_name = word.chars().all(|c| c.is_alphanumeric() || "_.*:-{}@".contains(c));
        match stage.grammar {
            Grammar::Terms if is_compared && is_name => TokenKind::Field,
            Grammar::Terms => TokenKind::Word,
            Grammar::Expression => TokenKind::Field,
            Grammar::Arguments if is_assigned => TokenKind::Option,
            Grammar::Arguments if is_name && !is_value && takes_fields(stage.help) => TokenKind::Field,
            Grammar::Arguments => TokenKind::Word,
        }
    }

    /// Whether the last token is `=` directly before the cursor.
    fn follows_equals(&self) -> bool {
        let last = self.found.last();
        last.is_some_and(|token| token.span.end == self.at && &self.text[token.span.start..token.span.end] == "=")
    }
}

/// Whether most words of a command are field names.
fn takes_fields(help: Option<&CommandHelp>) -> bool {
    help.is_some_and(|row| {
        row.syntax.contains("FIELD") || row.syntax.contains("AGG") || matches!(row.group, Group::Reporting)
    })
}

fn is_stats(word: &str) -> bool {
    // Percentiles have the percentage in their names.
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    stats_function(word).is_some() || (stem.len() < word.len() && stats_function(stem).is_some())
}

/// Whether a word is a number, including a percentage or a number with a time unit.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['+', '-']);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    digits.starts_with(|c: char| c.is_ascii_digit())
        && (word.parse::<f64>().is_ok()
            || (unit.len() <= 3 && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%')))
}

/// Length up to and including the closing `mark`; the length of the whole text if `mark` is missing.
fn delimited_length(rest: &str, mark: &str) -> usize {
    rest[mark.len()..].find(mark).map_or(rest.len(), |end| end + 2 * mark.len())
}

/// Length of the operator at the start of a text; 0 if there is none.
fn operator_length(rest: &str, grammar: Grammar) -> usize {
    if ["!=", "==", "<=", ">="].iter().any(|operator| rest.starts_with(operator)) {
        return 2;
    }
    let is_operator = |c: char| match grammar {
        Grammar::Expression => "=<>+-*/%.".contains(c) && !is_decimal(rest),
        Grammar::Terms | Grammar::Arguments => "=<>".contains(c),
    };
    usize::from(rest.starts_with(is_operator))
}

/// Whether a text begins with a number without digits before its point.
fn is_decimal(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Length of the word at the start of a text, at least one character.
fn word_length(rest: &str, grammar: Grammar) -> usize {
    let mut characters = rest.char_indices().peekable();
    while let Some((at, next)) = characters.next() {
        let ends = match next {
            '\\' => {
                // As in the parser, a backslash before any other character, such as a pipe, is part of the word itself.
                characters.next_if(|(_, next)| matches!(next, '"' | '\\' | '[' | ']' | '`'));
                false
            }
            '|' | '[' | ']' | '(' | ')' | ',' | '"' | '`' | '=' | '<' | '>' => true,
            '!' => rest[at..].starts_with("!="),
            '+' | '-' | '*' | '/' | '%' => grammar == Grammar::Expression,
            _ => next.is_whitespace(),
        };
        if ends {
            return at.max(next.len_utf8());
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let one = |token: &Token| format!("{}:{}", token.kind.name(), &text[token.span.start..token.span.end]);
        tokens(text).iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_classified_by_their_command() {
        for (text, want) in [
            (
                "error status>=500 source=/var/log/* | stats count, p95(took) AS t BY host span=5m",
                "word:error field:status operator:>= number:500 field:source operator:= word:/var/log/* pipe:| command:stats \
                 function:count comma:, function:p95 parenthesis:( field:took parenthesis:) keyword:AS field:t keyword:BY \
                 field:host option:span operator:= number:5m",
            ),
            (
                "| eval a='b c'+1.5-len(x) | where NOT a!=\"q|r\"",
                "pipe:| command:eval field:a operator:= field:'b c' operator:+ number:1.5 operator:- function:len \
                 parenthesis:( field:x parenthesis:) pipe:| command:where keyword:NOT field:a operator:!= text:\"q|r\"",
            ),
            (
                "search x [ inputlookup t.csv | fields a ] ```why``` `m(1)` ]",
                "command:search word:x bracket:[ command:inputlookup word:t.csv pipe:| command:fields field:a bracket:] \
                 comment:```why``` macro:`m(1)` bracket:]",
            ),
            ("\"open", "text:\"open"),
            (
                "| rex \"(?<a>\\d+)\" max_match=2",
                "pipe:| command:rex text:\"(?<a>\\d+)\" option:max_match operator:= number:2",
            ),
            ("stats=1", "field:stats operator:= number:1"),
            (r"é日\| x", r"word:é日\ pipe:| command:x"),
            (r"a\[b\] x", r"word:a\[b\] word:x"),
        ] {
            assert_eq!(shown(text), want, "{text}");
        }
    }

    #[test]
    fn any_text_is_covered_by_tokens_and_blanks() {
        let alphabet: Vec<char> = "a1 |[](),\"'`=!<>\\+-*/.%é\n".chars().collect();
        let mut state = 7_u64;
        for length in 0..400_usize {
            let text: String = (0..length % 40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[(state >> 33) as usize % alphabet.len()]
                })
                .collect();
            let mut at = 0;
            for token in tokens(&text) {
                assert!(token.span.start >= at && token.span.end > token.span.start, "{text:?}: {token:?}");
                assert!(text[at..token.span.start].trim().is_empty(), "{text:?}");
                at = token.span.end;
            }
            assert!(text[at..].trim().is_empty(), "{text:?}");
        }
    }
}
