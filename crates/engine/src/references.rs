//! What searches name that is defined elsewhere: texts of saved searches, and macros in them.

use quarry_eval::EngineError;
use quarry_spl::ast::Span;

use crate::knowledge::did_you_mean;
use crate::knowledge::macros::expanded;
use crate::run::Runner;

impl Runner {
    /// Text of a saved search, its macros replaced.
    pub(crate) fn text_of_saved(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.saved_with(name, &[], span)
    }

    /// The same with values for `$token$`.
    pub(crate) fn saved_with(
        &self,
        name: &str,
        tokens: &[(String, String)],
        span: Span,
    ) -> Result<String, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(span) };
        let Some(text) = self.knowledge.saved_search(name) else {
            let hint = did_you_mean(name, &self.knowledge.saved_searches());
            return Err(invalid(format!("there is no saved search {name}{hint}")));
        };
        let fill = |text: String, (token, value): &(String, String)| text.replace(&format!("${token}$"), value);
        let text = tokens.iter().fold(text, fill);
        self.expanded(&text).map_err(|fault| invalid(format!("saved search {name}: {fault}")))
    }

    /// A text with its macros replaced.
    pub(crate) fn expanded(&self, text: &str) -> Result<String, String> {
        let context = self.context.expressions();
        let expansion = expanded(text, self.knowledge.as_ref(), &context);
        match expansion.diagnostics.first() {
            None => Ok(expansion.text),
            Some(fault) => Err(fault.to_string()),
        }
    }
}
