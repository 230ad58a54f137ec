//! `map`: a search for each row, with the row's values written into it.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Span, Stage};
use crate::diagnostic::Diagnostic;
use crate::needs::Needs;
use crate::parse::{Known, Parser, Read};

/// Searches run when `maxsearches=` is absent.
const DEFAULT_SEARCHES: usize = 10;

const OPTIONS: Known = Known { command: "map", names: &["search", "maxsearches"], ignored: &["maxtime", "timeout"] };

/// `map`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapCommand {
    /// What is run for each row.
    pub search: MapSearch,
    /// `maxsearches=10`.
    pub max_searches: usize,
}

/// What `map` runs; `$field$` is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MapSearch {
    /// `search="..."` or `[ ... ]`.
    Text(String, Span),
    /// A saved search.
    Saved(String, Span),
}

impl Syntax for MapCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["map"],
        syntax: "map search=\"SEARCH with $field$\" [maxsearches=N]",
        summary: "Runs a search for each row",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<MapCommand> {
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
        Ok(MapCommand { search, max_searches })
    }
}

impl Semantics for MapCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // The search names its fields only when it is filled in.
        after.all = true;
        after
    }

    fn add_needs(&self, _: &[Stage], needs: &mut Needs) {
        match &self.search {
            MapSearch::Saved(name, _) => needs.saved_searches.insert(name.clone()),
            MapSearch::Text(text, _) => needs.map_texts.insert(text.clone()),
        };
    }
}
