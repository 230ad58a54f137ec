//! `typer` and `tags`: event types and tags of rows, wherever they come from.
//!
//! Events have these labels already; here they are found anew from the values that a row has now, and joined with
//! those it has. The conditions of event types that ask for words ask them of `_raw`.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::TagsCommand;

use crate::EngineError;
use crate::command::RowCommand;
use crate::expr::ExprContext;
use crate::knowledge::labels::{EVENT_TYPE, Labels, TAG, condition_of, tag_field};
use crate::knowledge::{KnowledgeSource, Tag};
use crate::row_filter::RowFilter;
use crate::rows::{self, ColumnBuilder};

/// `typer`.
#[derive(Clone)]
pub(crate) struct Typer(Arc<Vec<(String, RowFilter)>>);

impl Typer {
    /// The event types there are.
    pub(crate) fn new(knowledge: &dyn KnowledgeSource, context: &ExprContext) -> Result<Typer, EngineError> {
        let labels = Labels::new(knowledge, context);
        let filter = |known| RowFilter::new(&labels.condition_of_type(known)?, context);
        let types = labels.types.iter().map(|known| Ok((known.name.clone(), filter(known)?)));
        Ok(Typer(Arc::new(types.collect::<Result<Vec<_>, EngineError>>()?)))
    }
}

impl RowCommand for Typer {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut found = vec![Vec::new(); rows.num_rows()];
        for (name, filter) in self.0.iter() {
            let fits = filter.matches(&rows)?;
            (0..rows.num_rows()).filter(|row| fits.value(*row)).for_each(|row| found[row].push(name.clone()));
        }
        labelled(rows, EVENT_TYPE, &found)
    }
}

/// `tags`.
#[derive(Clone)]
pub(crate) struct Tags {
    command: Arc<TagsCommand>,
    /// The tags asked for, with the condition of each.
    tags: Arc<Vec<(Tag, RowFilter)>>,
}

impl Tags {
    /// The tags that the command asks for.
    pub(crate) fn new(
        command: &TagsCommand,
        knowledge: &dyn KnowledgeSource,
        context: &ExprContext,
    ) -> Result<Tags, EngineError> {
        let is_asked = |tag: &Tag| {
            let allowed = command.allowed.as_ref().is_none_or(|names| names.contains(&tag.name));
            allowed && (command.fields.is_empty() || command.fields.contains(&tag.field))
        };
        let mut tags = Vec::new();
        for tag in knowledge.tags().into_iter().filter(is_asked) {
            let filter = RowFilter::new(&condition_of(&tag), context)?;
            tags.push((tag, filter));
        }
        // Tags of a field stand in the order in which the command names its fields.
        let place = |tag: &Tag| command.fields.iter().position(|field| *field == tag.field);
        tags.sort_by_key(|(tag, _)| place(tag));
        Ok(Tags { command: Arc::new(command.clone()), tags: Arc::new(tags) })
    }

    /// How a tag of a row is shown.
    fn shown(&self, tag: &Tag, value: Option<&str>) -> String {
        let mut text = String::new();
        if self.command.with_name {
            text.push_str(&format!("{}::", tag.field));
        }
        if self.command.with_value {
            text.push_str(&format!("{}::", value.unwrap_or_default()));
        }
        text + &tag.name
    }
}

impl RowCommand for Tags {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut outputs: Vec<(String, Vec<Vec<String>>)> = Vec::new();
        for (tag, filter) in self.tags.iter() {
            let name = self.command.output.clone().unwrap_or_else(|| tag_field(tag));
            let at = outputs.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                outputs.push((name, vec![Vec::new(); rows.num_rows()]));
                outputs.len() - 1
            });
            let fits = filter.matches(&rows)?;
            let reader = rows::reader(&rows, &tag.field);
            let is_tagged = |text: &str| crate::pattern::Wildcard::new(&tag.value, false).is_match(text);
            for row in (0..rows.num_rows()).filter(|row| fits.value(*row)) {
                let value = reader.values(row).find(|text| is_tagged(text));
                outputs[at].1[row].push(self.shown(tag, value.as_deref()));
            }
        }
        // Events may have tags of fields that other commands took away since.
        if self.command.fields.is_empty()
            && let Some(output) = self.command.output.as_ref().filter(|_| self.command.allowed.is_none())
            && !self.command.with_name
            && !self.command.with_value
            && rows::column(&rows, TAG).is_some()
        {
            let reader = rows::reader(&rows, TAG);
            let own = (0..rows.num_rows()).map(|row| reader.values(row).map(|text| text.into_owned()).collect());
            outputs.insert(0, (output.clone(), own.collect()));
        }
        for (name, found) in outputs {
            rows = labelled(rows, &name, &found)?;
        }
        Ok(rows)
    }
}

/// The rows with labels added to those a field has, each once.
fn labelled(rows: RecordBatch, field: &str, found: &[Vec<String>]) -> Result<RecordBatch, EngineError> {
    let before = rows::reader(&rows, field);
    let mut column = ColumnBuilder::new(rows.num_rows());
    for (row, found) in found.iter().enumerate() {
        let mut labels: Vec<String> = before.values(row).map(|text| text.into_owned()).collect();
        for label in found {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        column.push_multi(labels);
    }
    rows::with_column(&rows, field, column.finish())
}
