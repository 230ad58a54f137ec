//! `relevancy`: scores how relevant each text is to the words of the search.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::{Command, SearchExpr, Stage};
use crate::parse::{ParseResult, Parser};

/// `relevancy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelevancyCommand {
    /// Words of the search, in lower case.
    pub words: Vec<String>,
}

impl Syntax for RelevancyCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "relevancy",
        summary: "Scores how relevant each event is to the search terms",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RelevancyCommand> {
        // Set later by [`set_words`], because the rest of the search has not been parsed yet.
        Ok(RelevancyCommand { words: Vec::new() })
    }
}

impl Semantics for RelevancyCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(RAW);
        after
    }
}

/// Sets the words of a search in its `relevancy` command.
pub(crate) fn set_words(commands: &mut [Stage]) {
    if !commands.iter().any(|stage| matches!(stage.command, Command::Relevancy(_))) {
        return;
    }
    let mut words = Vec::new();
    if let Some(Stage { command: Command::Search(search), .. }) = commands.first() {
        collect_words(&search.expr, &mut BTreeSet::new(), &mut words);
    }
    for stage in commands {
        if let Command::Relevancy(relevancy) = &mut stage.command {
            relevancy.words.clone_from(&words);
        }
    }
}

/// Appends the words that are not `known` yet.
fn collect_words(expr: &SearchExpr, known: &mut BTreeSet<String>, words: &mut Vec<String>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => {
            parts.iter().for_each(|part| collect_words(part, known, words));
        }
        SearchExpr::Keyword(pattern) | SearchExpr::Term(pattern) | SearchExpr::Case(pattern) => {
            let word = pattern.text.trim_matches('*').to_lowercase();
            if !word.is_empty() && known.insert(word.clone()) {
                words.push(word);
            }
        }
        _ => {}
    }
}
