//! Language services for editors: the errors and warnings of a search, its macros, and the names that it may use.
//!
//! Nothing is read or run. Not here: tokens, completion and formatting (`quarry_spl::editing`).

use std::sync::Arc;

use quarry_eval::expr::ExprContext;
use quarry_eval::pattern::Regex;
use quarry_spl::Diagnostic;
use quarry_spl::editing::Vocabulary;
use quarry_spl::macros::Expansion;
use quarry_stdx::Fault;
use quarry_store::MemoryStore;

use super::{Engine, SearchRequest, diagnostic_of};
use crate::knowledge::macros::expand_macros;
use crate::knowledge::model_names;
use crate::threads::with_stack;

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
