//! Language services for editors: the errors and warnings of a search, its macros, and the names that it may use.
//!
//! Nothing is read or run. Not here: tokens, completion and formatting (`quarry_spl::editing`).

use std::sync::Arc;

use quarry_eval::expr::ExprContext;
use quarry_eval::pattern::Regex;
use quarry_spl::ast::{Command, TimeModifiers};
use quarry_spl::editing::Vocabulary;
use quarry_spl::macros::Expansion;
use quarry_spl::{Diagnostic, condition_text};
use quarry_stdx::Fault;
use quarry_store::MemoryStore;

use super::{Engine, SearchRequest, diagnostic_of};
use crate::knowledge::labels::Labels;
use crate::knowledge::macros::expand_macros;
use crate::knowledge::model_names;
use crate::threads::with_stack;

/// Maximum bytes of a base search; event types may expand to a much longer text.
const BASE_SEARCH_BYTES_MAX: usize = 64 << 10;

/// The search for events with which a search begins, as text: macros, event types and tags are expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseSearch {
    /// The command `search` as written or, if it names event types or tags, with the conditions that they stand for.
    pub search: String,
    /// The condition alone, in a normal form.
    pub condition: String,
}

/// Whether a regular expression of an extraction can be compiled; the error is a message for the user.
pub fn check_regex(pattern: &str) -> Result<(), Fault> {
    Regex::new(pattern).map(|_| ())
}

impl Engine {
    /// The errors and warnings of a search, with positions in its text, including commands that the user may not run.
    pub fn diagnose(&self, request: SearchRequest) -> Vec<Diagnostic> {
        with_stack(|| {
            let (expansion, parsed, spans) = match self.parse_request(&request) {
                Ok(parsed) => parsed,
                Err(faults) => return faults,
            };
            let runner = self.runner(request, Arc::new(MemoryStore::new("none")));
            let mut found = parsed.diagnostics;
            if let Err(error) = runner.permit_all(&parsed.pipeline) {
                found.push(diagnostic_of(&error, &expansion.text, &spans));
            }
            found
        })
    }

    /// The search with its macros expanded.
    pub fn expand_macros(&self, request: &SearchRequest) -> Expansion {
        let expressions = ExprContext::new(request.now, request.zone.clone());
        expand_macros(&request.text, self.knowledge.as_ref(), &expressions)
    }

    /// The search for events with which a search begins; `None` if it begins otherwise, cannot be parsed, or expands to
    /// more than [`BASE_SEARCH_BYTES_MAX`].
    pub fn base_search(&self, request: &SearchRequest) -> Option<BaseSearch> {
        with_stack(|| {
            let (expansion, parsed, _) = self.parse_request(request).ok()?;
            let mut commands = parsed.pipeline.commands.iter();
            let Some(Command::Search(search)) = commands.next().map(|stage| &stage.command) else { return None };
            let expressions = ExprContext::new(request.now, request.zone.clone());
            let expr = Labels::new(self.knowledge.as_ref(), &expressions).expand(&search.expr).ok()?;
            let condition = condition_text(&expr, &expansion.text);
            let end = commands.next().map_or(expansion.text.len(), |second| second.span.start);
            let written = expansion.text.get(..end)?.trim().trim_matches('|').trim();
            let search = match expr == search.expr {
                true => written.to_owned(),
                false => format!("search {}{condition}", times_text(&search.time)),
            };
            Some(BaseSearch { search, condition })
                .filter(|base| base.search.len().max(base.condition.len()) <= BASE_SEARCH_BYTES_MAX)
        })
    }

    /// The names that searches of a user may use, except the names of fields and indexes, which depend on the stored
    /// events.
    pub fn vocabulary(&self, request: &SearchRequest) -> Vocabulary {
        let of_user = self.lookups.for_user(&request.permissions);
        let lookups = of_user.as_ref().unwrap_or(&self.lookups).names();
        Vocabulary {
            macros: self.knowledge.macro_names(),
            lookups,
            data_models: model_names(self.knowledge.as_ref()),
            saved_searches: self.knowledge.saved_searches(),
            commands: self.commands.names().into_iter().collect(),
            ..Vocabulary::default()
        }
    }
}

/// The time modifiers of a search, each followed by a blank.
fn times_text(times: &TimeModifiers) -> String {
    let named = [
        ("earliest", &times.earliest),
        ("latest", &times.latest),
        ("_index_earliest", &times.index_earliest),
        ("_index_latest", &times.index_latest),
    ];
    let given = named.into_iter().filter_map(|(name, time)| Some((name, &time.as_ref()?.text)));
    given.map(|(name, text)| format!("{name}=\"{text}\" ")).collect()
}
