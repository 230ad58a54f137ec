//! Resolves saved searches and macros that a search refers to.

use quarry_eval::EngineError;
use quarry_spl::ast::Span;
use quarry_spl::first_fault;
use quarry_stdx::Fault;

use crate::knowledge::macros::expand_macros;
use crate::knowledge::suggest_or_list;
use crate::run::Runner;

impl Runner {
    /// Text of a saved search with its macros expanded.
    pub(crate) fn saved_search_text(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.saved_text_with_tokens(name, &[], span)
    }

    /// Text of a saved search with its macros expanded and values substituted for `$token$`.
    pub(crate) fn saved_text_with_tokens(
        &self,
        name: &str,
        tokens: &[(String, String)],
        span: Span,
    ) -> Result<String, EngineError> {
        let Some(text) = self.knowledge.saved_search(name) else {
            let known = suggest_or_list(name, "searches", &self.knowledge.saved_searches());
            return Err(EngineError::at(Fault::not_found(format!("there is no saved search {name}{known}")), span));
        };
        let fill = |text: String, (token, value): &(String, String)| text.replace(&format!("${token}$"), value);
        let text = tokens.iter().fold(text, fill);
        self.expand_macros(&text)
            .map_err(|fault| EngineError::at(fault.with_context(format_args!("saved search {name}")), span))
    }

    /// A text with its macros replaced.
    pub(crate) fn expand_macros(&self, text: &str) -> Result<String, Fault> {
        let context = self.context.expressions();
        let expansion = expand_macros(text, self.knowledge.as_ref(), &context);
        if expansion.diagnostics.is_empty() { Ok(expansion.text) } else { Err(first_fault(&expansion.diagnostics)) }
    }
}
