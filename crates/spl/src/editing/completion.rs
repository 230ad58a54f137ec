//! Completion: the texts that may follow at a cursor.
//!
//! The tokens before the cursor determine the candidates: commands after a pipe, values after an option, functions and
//! fields in an expression, fields after `by`. A candidate must begin with the text already written, ignoring case.
//!
//! Not here: field values, which only a search of the events could find.

use crate::ast::Span;
use crate::commands::{self, CommandHelp};
use crate::functions::{EVAL_FUNCTIONS, FunctionHelp, STATS_FUNCTIONS};

use super::option_names::options_of;
use super::token::{Grammar, Token, TokenKind, tokens};

/// Maximum number of candidates of one completion.
pub const CANDIDATES_MAX: usize = 200;

/// Names that depend on the node and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Fields of the events.
    pub fields: Vec<String>,
    /// Indexes.
    pub indexes: Vec<String>,
    /// Macros, those with arguments as `name(2)`.
    pub macros: Vec<String>,
    /// Lookup tables.
    pub lookups: Vec<String>,
    /// Data models.
    pub data_models: Vec<String>,
    /// Saved searches.
    pub saved_searches: Vec<String>,
    /// Commands of apps.
    pub commands: Vec<String>,
}

/// Kind of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// A command.
    Command,
    /// A function.
    Function,
    /// An option, with `=`.
    Option,
    /// A value of an option, or the name of an index, table, model or saved search.
    Value,
    /// A keyword such as `by`.
    Keyword,
    /// A field.
    Field,
    /// A macro, with its backticks.
    Macro,
}

impl CandidateKind {
    /// Name of the kind in API responses.
    pub fn name(self) -> &'static str {
        match self {
            CandidateKind::Command => "command",
            CandidateKind::Function => "function",
            CandidateKind::Option => "option",
            CandidateKind::Value => "value",
            CandidateKind::Keyword => "keyword",
            CandidateKind::Field => "field",
            CandidateKind::Macro => "macro",
        }
    }
}

/// A text that can complete the search at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Text that replaces the word at the cursor.
    pub text: String,
    /// Kind of the candidate.
    pub kind: CandidateKind,
    /// Description in one line; may be empty.
    pub detail: String,
}

/// The candidates at a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The part of the text that a candidate replaces.
    pub replaces: Span,
    /// Candidates, most likely kinds first.
    pub candidates: Vec<Candidate>,
}

/// Completes a search at a byte position, which is moved back to the start of a character.
pub fn complete(text: &str, cursor: usize, vocabulary: &Vocabulary) -> Completion {
    let cursor = text.floor_char_boundary(cursor.min(text.len()));
    let all = tokens(text);
    let inside = all.iter().position(|token| token.span.start < cursor && cursor <= token.span.end);
    let before = all.partition_point(|token| token.span.end <= cursor);
    let at = |place: usize| CursorContext { text, before: &all[..place], vocabulary };
    let (replaces, mut candidates) = match inside.map(|place| (place, all[place])) {
        Some((place, token)) if token.kind.is_word() => (token.span, at(place).candidates()),
        Some((_, token)) if token.kind == TokenKind::Macro => (token.span, macros(vocabulary)),
        Some((_, token))
            if matches!(token.kind, TokenKind::Text | TokenKind::Comment) && !is_closed(text, token, cursor) =>
        {
            (Span { start: cursor, end: cursor }, Vec::new())
        }
        _ => (Span { start: cursor, end: cursor }, at(before).candidates()),
    };
    let prefix = text[replaces.start..cursor].to_ascii_lowercase();
    candidates.retain(|candidate| candidate.text.to_ascii_lowercase().starts_with(&prefix));
    candidates.truncate(CANDIDATES_MAX);
    Completion { replaces, candidates }
}

/// Whether the cursor is after the closing mark of a text or comment.
fn is_closed(text: &str, token: Token, cursor: usize) -> bool {
    let mark = text[token.span.start..].chars().next().unwrap_or(' ');
    let shown = &text[token.span.start..token.span.end];
    cursor == token.span.end && shown.len() > 1 && shown.ends_with(mark)
}

/// The tokens before a cursor.
struct CursorContext<'a> {
    text: &'a str,
    before: &'a [Token],
    vocabulary: &'a Vocabulary,
}

impl CursorContext<'_> {
    fn word(&self, token: &Token) -> &str {
        &self.text[token.span.start..token.span.end]
    }

    /// The tokens of the command at the cursor, without its name.
    fn arguments(&self) -> &[Token] {
        let mut depth = 0_usize;
        let start = self.before.iter().rposition(|token| match (token.kind, self.word(token)) {
            (TokenKind::Bracket, "]") => {
                depth += 1;
                false
            }
            (TokenKind::Bracket, _) if depth > 0 => {
                depth -= 1;
                false
            }
            (TokenKind::Bracket | TokenKind::Pipe | TokenKind::Command, _) => depth == 0,
            _ => false,
        });
        &self.before[start.map_or(0, |start| start + 1)..]
    }

    /// The command at the cursor; `None` at the start of a search.
    fn command(&self) -> Option<String> {
        let place = self.before.len() - self.arguments().len();
        let name = self.before[..place].last().filter(|token| token.kind == TokenKind::Command)?;
        Some(self.word(name).to_ascii_lowercase())
    }

    fn candidates(&self) -> Vec<Candidate> {
        let last = self.before.iter().rev().find(|token| token.kind != TokenKind::Comment);
        if last.is_some_and(|token| {
            token.kind == TokenKind::Pipe || (token.kind == TokenKind::Bracket && self.word(token) == "[")
        }) {
            return self.commands();
        }
        let command = self.command();
        let help = command.as_deref().and_then(|name| commands::help().iter().find(|row| row.name == name));
        if let Some(values) = self.values_of_option(help) {
            return values;
        }
        match command.as_deref().map_or(Grammar::Terms, Grammar::of) {
            Grammar::Terms => self.terms(),
            Grammar::Expression => self.expression(),
            Grammar::Arguments => self.arguments_of(command.as_deref().unwrap_or_default(), help),
        }
    }

    fn commands(&self) -> Vec<Candidate> {
        let known = commands::help().iter().map(|row| candidate(row.name, CandidateKind::Command, &row.summary));
        let custom = self.vocabulary.commands.iter();
        known.chain(custom.map(|name| candidate(name, CandidateKind::Command, "Command of an app"))).collect()
    }

    /// Candidates directly after `NAME=`; `None` elsewhere.
    fn values_of_option(&self, help: Option<&CommandHelp>) -> Option<Vec<Candidate>> {
        let [.., name, equals] = self.before else { return None };
        let is_option = matches!(name.kind, TokenKind::Option | TokenKind::Field);
        if !is_option || self.word(equals) != "=" || equals.span.end != equals.span.start + 1 {
            return None;
        }
        let name = self.word(name).to_ascii_lowercase();
        if name == "index" {
            return Some(values(&self.vocabulary.indexes, "Index"));
        }
        let options = help.map(|row| options_of(&row.syntax)).unwrap_or_default();
        let option =
            options.into_iter().find(|option| option.name == name).filter(|option| !option.values.is_empty())?;
        Some(option.values.iter().map(|value| candidate(value, CandidateKind::Value, "")).collect())
    }

    fn fields(&self) -> impl Iterator<Item = Candidate> {
        self.vocabulary.fields.iter().map(|name| candidate(name, CandidateKind::Field, ""))
    }

    fn terms(&self) -> Vec<Candidate> {
        let built_in = ["index", "host", "source", "sourcetype"].into_iter();
        let known = self.vocabulary.fields.iter().map(String::as_str);
        let mut names: Vec<&str> = Vec::new();
        for name in built_in.chain(known) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let compared = names.into_iter().map(|name| candidate(&format!("{name}="), CandidateKind::Field, ""));
        let words = ["AND", "OR", "NOT", "IN"].into_iter().map(|word| candidate(word, CandidateKind::Keyword, ""));
        compared.chain(words).chain(macros(self.vocabulary)).collect()
    }

    fn expression(&self) -> Vec<Candidate> {
        let functions = functions(EVAL_FUNCTIONS.iter().map(|row| row.help));
        let words = ["AND", "OR", "NOT", "LIKE", "IN"].into_iter();
        let words = words.map(|word| candidate(word, CandidateKind::Keyword, ""));
        self.fields().map(quoted_field).chain(functions).chain(words).collect()
    }

    fn arguments_of(&self, command: &str, help: Option<&CommandHelp>) -> Vec<Candidate> {
        let written = self.arguments();
        let named = match command {
            "lookup" | "inputlookup" | "outputlookup" => Some((&self.vocabulary.lookups, "Lookup table")),
            "savedsearch" => Some((&self.vocabulary.saved_searches, "Saved search")),
            "datamodel" | "pivot" => Some((&self.vocabulary.data_models, "Data model")),
            _ => None,
        };
        let has_name =
            written.iter().any(|token| matches!(token.kind, TokenKind::Word | TokenKind::Field | TokenKind::Text));
        let mut found = match named {
            Some((names, what)) if !has_name => values(names, what),
            _ => Vec::new(),
        };
        let syntax = help.map_or("", |row| row.syntax.as_str());
        let is_keyword = |token: &&Token, words: &[&str]| {
            token.kind == TokenKind::Keyword && words.contains(&self.word(token).to_ascii_lowercase().as_str())
        };
        let is_grouped = written.iter().any(|token| is_keyword(&token, &["by", "over"]));
        let is_where = written.iter().rev().find(|token| token.kind == TokenKind::Keyword);
        if is_where.is_some_and(|token| is_keyword(&token, &["where"])) {
            return self.expression();
        }
        if syntax.contains("AGG") && !is_grouped {
            found.extend(functions(STATS_FUNCTIONS.iter().map(|row| row.help)));
        }
        found.extend(self.fields());
        found.extend(keywords_of(syntax).map(|word| candidate(word, CandidateKind::Keyword, "")));
        let is_written = |name: &str| {
            written.iter().any(|token| token.kind == TokenKind::Option && self.word(token).eq_ignore_ascii_case(name))
        };
        let options = options_of(syntax).into_iter().filter(|option| !is_written(option.name));
        found.extend(
            options.map(|option| {
                candidate(&format!("{}=", option.name), CandidateKind::Option, &option.values.join(" | "))
            }),
        );
        found.extend(macros(self.vocabulary));
        found
    }
}

/// Returns the keywords in a syntax line.
fn keywords_of(syntax: &str) -> impl Iterator<Item = &'static str> {
    const WORDS: [&str; 9] = ["AS", "BY", "IN", "OUTPUT", "OUTPUTNEW", "OVER", "WITH", "where", "from"];
    let words: Vec<&str> = syntax.split(|c: char| !c.is_ascii_alphabetic()).collect();
    let is_named = move |word: &&str| words.iter().any(|named| named.eq_ignore_ascii_case(word));
    let in_aggregates = if syntax.contains("AGG") { Some("AS") } else { None };
    let listed: Vec<&'static str> = WORDS.into_iter().filter(is_named).collect();
    let added = in_aggregates.filter(|word| !listed.contains(word));
    listed.into_iter().chain(added)
}

fn candidate(text: &str, kind: CandidateKind, detail: &str) -> Candidate {
    Candidate { text: text.to_owned(), kind, detail: detail.to_owned() }
}

fn values(names: &[String], what: &str) -> Vec<Candidate> {
    names.iter().map(|name| candidate(name, CandidateKind::Value, what)).collect()
}

/// Writes a field as it appears in an expression: in single quotes unless it is a plain name.
fn quoted_field(field: Candidate) -> Candidate {
    let is_plain = field.text.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_plain { field } else { Candidate { text: format!("'{}'", field.text), ..field } }
}

fn functions(rows: impl Iterator<Item = FunctionHelp>) -> impl Iterator<Item = Candidate> {
    rows.map(|row| candidate(&format!("{}(", row.name), CandidateKind::Function, row.summary))
}

/// Macros with their backticks; those with arguments end after the opening parenthesis.
fn macros(vocabulary: &Vocabulary) -> Vec<Candidate> {
    let written = |name: &String| match name.split_once('(') {
        Some((bare, _)) => candidate(&format!("`{bare}("), CandidateKind::Macro, name),
        None => candidate(&format!("`{name}`"), CandidateKind::Macro, ""),
    };
    vocabulary.macros.iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        Vocabulary {
            fields: names("status user http.code"),
            indexes: names("main web"),
            macros: names("errors by_host(2)"),
            lookups: names("users.csv"),
            ..Vocabulary::default()
        }
    }

    /// Returns the first candidates at `^` and the text that they replace.
    fn at(text: &str) -> (String, String) {
        let cursor = text.find('^').unwrap();
        let text = text.replace('^', "");
        let Completion { replaces, candidates } = complete(&text, cursor, &vocabulary());
        let shown: Vec<String> = candidates.into_iter().take(3).map(|candidate| candidate.text).collect();
        (text[replaces.start..replaces.end].to_owned(), shown.join(" "))
    }

    #[test]
    fn candidates_depend_on_the_tokens_before_the_cursor() {
        for (text, replaced, first) in [
            ("index=main | sta^", "sta", "stats"),
            ("index=main |^", "", "abstract accum addcoltotals"),
            ("index=^", "", "main web"),
            ("sta^tus=5", "status", "status="),
            ("| stats co^ by x", "co", "corr( count( covar("),
            ("| stats count by ^", "", "status user http.code"),
            ("| eval x=up^", "up", "upper("),
            ("| eval x=ht^", "ht", ""),
            ("| eval ^", "", "status user 'http.code'"),
            ("| lookup ^", "", "users.csv status user"),
            ("| outlier action=^", "", "rm tf"),
            ("| dedup keepe^", "keepe", "keepevents= keepempty="),
            ("`er^", "`er", "`errors`"),
            ("\"sta^", "", ""),
            ("[ search a | fields b ] | stats co^", "co", "corr( count( covar("),
        ] {
            let (found, candidates) = at(text);
            assert_eq!(found, replaced, "{text}");
            // New commands and functions may be added, so their candidates only have to exist.
            assert!(
                candidates.starts_with(first) || first.starts_with("abstract") || first.starts_with("corr"),
                "{text}: {candidates}"
            );
            assert_eq!(first.is_empty(), candidates.is_empty(), "{text}: {candidates}");
        }
    }

    #[test]
    fn completion_works_at_any_cursor() {
        let text = "é | eval 'a b'=\"x\\\"\" [ search `m(1)` ```c``` ] | stats count by a.b";
        for cursor in 0..=text.len() + 3 {
            let Completion { replaces, candidates } = complete(text, cursor, &vocabulary());
            assert!(text.get(replaces.start..replaces.end).is_some() && candidates.len() <= CANDIDATES_MAX, "{cursor}");
        }
    }
}
