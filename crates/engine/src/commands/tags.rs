//! `tags`: adds the tags of field values to any rows.
//!
//! Events already have tags; this command determines tags again from a row's current values and adds them to existing
//! tags.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::ExprContext;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows;
use quarry_spl::ast::TagsCommand;

use super::Execute;
use super::typer::add_labels;
use crate::knowledge::labels::{TAG, condition_of, tag_field};
use crate::knowledge::{KnowledgeSource, Tag};
use crate::lowering::{Lowering, Step, row};

impl Execute for TagsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let tags = Tags::new(self, lowering.environment.knowledge().as_ref(), &lowering.expressions())?;
        Ok(vec![row(move || tags.clone())])
    }
}

#[derive(Clone)]
struct Tags {
    command: Arc<TagsCommand>,
    /// The requested tags, each with its condition.
    tags: Arc<Vec<(Tag, RowFilter)>>,
}

impl Tags {
    fn new(command: &TagsCommand, knowledge: &dyn KnowledgeSource, context: &ExprContext) -> Result<Tags, EngineError> {
        let is_asked = |tag: &Tag| {
            let allowed = command.allowed.as_ref().is_none_or(|names| names.contains(&tag.name));
            allowed && (command.fields.is_empty() || command.fields.contains(&tag.field))
        };
        let mut tags = Vec::new();
        for tag in knowledge.tags().into_iter().filter(is_asked) {
            let filter = RowFilter::new(&condition_of(&tag), context)?;
            tags.push((tag, filter));
        }
        // Tags of a field are ordered as the command lists its fields.
        let place = |tag: &Tag| command.fields.iter().position(|field| *field == tag.field);
        tags.sort_by_key(|(tag, _)| place(tag));
        Ok(Tags { command: Arc::new(command.clone()), tags: Arc::new(tags) })
    }

    /// The text for a tag of a row.
    fn tag_text(&self, tag: &Tag, value: Option<&str>) -> String {
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
            let is_tagged = |text: &str| quarry_eval::pattern::Wildcard::new(&tag.value, false).is_match(text);
            for row in (0..rows.num_rows()).filter(|row| fits.value(*row)) {
                let value = reader.values(row).find(|text| is_tagged(text));
                outputs[at].1[row].push(self.tag_text(tag, value.as_deref()));
            }
        }
        // Events may have tags of fields that other commands have removed, so their own tags are added, too.
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
            rows = add_labels(rows, &name, &found)?;
        }
        Ok(rows)
    }
}
