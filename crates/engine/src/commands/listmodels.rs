//! `listmodels`: lists the stored models.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_learn::score::Row;
use quarry_learn::{OutputValue, wire};
use quarry_spl::ast::ListModelsCommand;
use quarry_stdx::Fault;

use super::Execute;
use super::models::table;
use crate::lowering::SearchEnvironment;

impl Execute for ListModelsCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(Some(of_batches(vec![list(search.lookups().as_ref(), search.context())?])))
    }
}

fn list(models: &dyn LookupSource, context: &CommandContext) -> Result<RecordBatch, EngineError> {
    let files = models.models().map_err(|fault| fault.with_context("listmodels"))?;
    let mut rows: Vec<Row> = Vec::new();
    for file in files {
        let text = |text: &str| OutputValue::Text(Arc::from(text));
        let mut row: Row = vec![("name".to_owned(), text(&file.name))];
        let bytes = models.model(&file.name, file.owner.is_none());
        let read = bytes.and_then(|bytes| {
            wire::from_bytes(&bytes.unwrap_or_default()).map_err(|error| Fault::corrupt(error.to_string()))
        });
        match read {
            Ok(model) => {
                row.push(("type".to_owned(), text(&model.algorithm)));
                let options: Vec<String> =
                    model.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
                row.push(("options".to_owned(), text(&options.join(" "))));
                row.push(("target".to_owned(), model.target.as_deref().map_or(OutputValue::Null, text)));
                let fields: Vec<String> = model.fields().map(str::to_owned).collect();
                row.push(("fields".to_owned(), OutputValue::List(fields.into())));
            }
            Err(message) => context.messages.push(format!("listmodels: model {}: {message}", file.name)),
        }
        row.push(("app".to_owned(), text(&file.app)));
        row.push(("owner".to_owned(), text(file.owner.as_deref().unwrap_or("nobody"))));
        rows.push(row);
    }
    table(&rows)
}
