//! The plan of a search that deletes events. `delete` is allowed only in the search that the user wrote, and only after
//! commands that process events.

use quarry_eval::EngineError;
use quarry_scan::plan::Scan;
use quarry_spl::analyse::required_fields;
use quarry_spl::ast::{Command, Pipeline, Stage};

use super::{Deletion, Plan, Planner, Source};

impl Planner<'_> {
    /// The plan of a deleting search; `None` for any other search.
    pub(crate) fn deletion(&self, pipeline: &Pipeline) -> Result<Option<Plan>, EngineError> {
        let is_delete = |stage: &Stage| matches!(stage.command, Command::Delete(_));
        let Some((first, rest)) = pipeline.commands.split_first() else { return Ok(None) };
        let (Command::Search(search), Some(at)) = (&first.command, rest.iter().position(is_delete)) else {
            return Ok(None);
        };
        self.runner.permit(&rest[at].command, rest[at].span)?;
        let scan = Scan { projection: required_fields(&rest[..=at]), ..self.scan(search)? };
        let deletion = Deletion { scan, commands: rest[..at].to_vec(), span: rest[at].span };
        Ok(Some(Plan::of_rows(Source::Delete(Box::new(deletion)), rest[at + 1..].to_vec())))
    }
}
