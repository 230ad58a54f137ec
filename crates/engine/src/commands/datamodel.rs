//! `datamodel`: definitions of data models. For the events of a model, the planner replaces the command with a search.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, RowIter, batch_of, of_batches};
use quarry_spl::ast::{DataModelCommand, DataModelName};

use super::Execute;
use crate::knowledge::{KnowledgeSource, model_names, model_text};
use crate::lowering::SearchEnvironment;

impl Execute for DataModelCommand {
    fn check(&self, search: &dyn SearchEnvironment) -> Result<(), EngineError> {
        self.generate(search).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(Some(of_batches(vec![definitions(self.name.as_ref(), search.knowledge().as_ref())?])))
    }
}

/// The JSON texts of all models, of one model, or of one object.
fn definitions(name: Option<&DataModelName>, source: &dyn KnowledgeSource) -> Result<RecordBatch, EngineError> {
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

/// The part of a model's JSON that defines an object.
fn object_text(model: &str, object: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(model).ok()?;
    let objects = json["objects"].as_array()?;
    objects.iter().find(|known| known["objectName"] == object).map(ToString::to_string)
}
