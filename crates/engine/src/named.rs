//! What searches name that is defined elsewhere: texts of saved searches, macros in them, definitions of data models.

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{DataModelName, Span};

use crate::EngineError;
use crate::knowledge::macros::expanded;
use crate::knowledge::{did_you_mean, model_names, model_text};
use crate::rows::{ColumnBuilder, batch_of};
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

    /// The JSON texts of all models, of one, or of one object.
    pub(crate) fn definitions(&self, name: Option<&DataModelName>) -> Result<RecordBatch, EngineError> {
        let source = self.knowledge.as_ref();
        let mut texts = Vec::new();
        match name {
            None => {
                for model in model_names(source) {
                    texts.push(model_text(source, &model)?);
                }
            }
            Some(name) => {
                let invalid = |message: String| EngineError::Invalid { message, span: Some(name.span) };
                let text = model_text(source, &name.model).map_err(|error| invalid(error.to_string()))?;
                texts.push(match &name.object {
                    None => text,
                    Some(object) => object_text(&text, object)
                        .ok_or_else(|| invalid(format!("data model {} has no object {object}", name.model)))?,
                });
            }
        }
        let mut column = ColumnBuilder::new(texts.len());
        texts.iter().for_each(|text| column.push_text(text));
        batch_of([("model", column.finish())], texts.len())
    }
}

/// The part of a model's JSON that defines an object.
fn object_text(model: &str, object: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(model).ok()?;
    let objects = json["objects"].as_array()?;
    objects.iter().find(|known| known["objectName"] == object).map(ToString::to_string)
}
