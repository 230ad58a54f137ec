//! `map`: runs a search for each row with the row's values substituted.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, InnerSearchText, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Span, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{MAX_SUBSEARCH_DEPTH, OptionNames, ParseResult, Parser, UNKNOWN_COMMAND, check_commands};

/// Default of `maxsearches=`.
const DEFAULT_SEARCHES: usize = 10;

const OPTIONS: OptionNames = OptionNames::new("map", &["search", "maxsearches"]).ignoring(&["maxtime", "timeout"]);

/// `map`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapCommand {
    /// Search to run for each row.
    pub search: MapSearch,
    /// `maxsearches=` (default `10`): maximum number of searches.
    pub max_searches: usize,
}

/// The search of `map`; `$field$` is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MapSearch {
    /// `search="..."` or `[ ... ]`.
    Text(String, Span),
    /// A saved search.
    Saved(String, Span),
}

impl Syntax for MapCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "map search=\"SEARCH with $field$\" [maxsearches=N]",
        summary: "Runs a search for each row",
        group: Group::Rows,
        kind: Kind::Blocking,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MapCommand> {
        let mut search = None;
        let mut max_searches = DEFAULT_SEARCHES;
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "search" => search = Some(MapSearch::Text(option.value, option.value_span)),
                    _ => max_searches = option.number()?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek() == Some('[') {
                let open = parser.here();
                parser.bump();
                let close = parser.boundary(false);
                if close >= parser.end {
                    return Err(Diagnostic::error("this `[` is never closed", open).with_hint("add `]`"));
                }
                let span = Span { start: parser.pos, end: close };
                search = Some(MapSearch::Text(parser.text[parser.pos..close].trim().to_owned(), span));
                parser.pos = close + 1;
            } else {
                let word = parser.expect_field("a saved search")?;
                search = Some(MapSearch::Saved(word.text, word.span));
            }
        }
        let Some(search) = search else {
            let remark = Diagnostic::error("map: no search is given", parser.here());
            return Err(remark.with_hint("write `map search=\"search index=main user=$user$\"`"));
        };
        if let MapSearch::Text(text, span) = &search {
            parser.report_unknown_commands(text, *span);
        }
        Ok(MapCommand { search, max_searches })
    }
}

impl Parser<'_> {
    /// Reports unknown commands in the search. Other errors show only after substitution.
    fn report_unknown_commands(&mut self, text: &str, span: Span) {
        let (sample, tokens) = blank_tokens(text);
        let in_brackets = self.text.get(span.start..span.end).is_some_and(|written| written.trim() == text);
        let depth = if in_brackets { self.subsearches + 1 } else { self.subsearches };
        if self.subsearches >= MAX_SUBSEARCH_DEPTH {
            return;
        }
        let (faults, unsupported) = check_commands(&sample, depth, &self.custom);
        let is_token = |place: Span| tokens.iter().any(|token| token.start < place.end && place.start < token.end);
        for mut remark in faults {
            if !remark.message.starts_with(UNKNOWN_COMMAND) || is_token(remark.span) {
                continue;
            }
            let blank = self.text[span.start..].len() - self.text[span.start..].trim_start().len();
            let at = span.start + blank;
            // Escapes in a quoted text shift positions, so the whole text is marked.
            let within = Span { start: at + remark.span.start, end: at + remark.span.end };
            remark.span = if in_brackets { within } else { span };
            // The unsupported feature is reported, too: callers that know the apps' commands remove it if an app has
            // the command.
            let is_told = |feature: &&String| {
                let name = feature.strip_prefix("command:");
                name.is_some_and(|name| remark.message.contains(&format!("`{name}`")))
            };
            unsupported.iter().filter(is_told).for_each(|feature| self.report_unsupported(feature.clone()));
            self.report(remark);
        }
    }
}

/// Replaces each `$field$` with a word of the same length, and returns the positions of the words.
fn blank_tokens(text: &str) -> (String, Vec<Span>) {
    let (mut sample, mut tokens) = (String::with_capacity(text.len()), Vec::new());
    while let Some(start) = text[sample.len()..].find('$').map(|at| sample.len() + at) {
        let name = &text[start + 1..];
        let length = name.find(|c: char| c.is_whitespace() || c == '$').unwrap_or(name.len());
        sample.push_str(&text[sample.len()..start]);
        if name[length..].starts_with('$') {
            sample.push_str(&"x".repeat(length + 2));
            tokens.push(Span { start, end: sample.len() });
        } else {
            sample.push('$');
        }
    }
    sample.push_str(&text[sample.len()..]);
    (sample, tokens)
}

impl Semantics for MapCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // The fields of the search are known only after substitution.
        after.all = true;
        after
    }

    fn inner_search(&self) -> Option<InnerSearchText<'_>> {
        Some(match &self.search {
            MapSearch::Saved(name, _) => InnerSearchText::Saved(name),
            MapSearch::Text(text, _) => InnerSearchText::Search(text),
        })
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        match &self.search {
            MapSearch::Saved(name, _) => needs.saved_searches.insert(name.clone()),
            MapSearch::Text(text, _) => needs.map_texts.insert(text.clone()),
        };
    }
}
