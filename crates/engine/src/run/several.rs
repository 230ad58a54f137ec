//! Searches that begin with others: union, multisearch, set, gentimes.

use quarry_spl::ast::{Command, Pipeline, SeveralCommand, Stage};

use super::{Runner, of_batches};
use crate::EngineError;
use crate::command::RowIter;
use crate::commands::gentimes::gen_times;
use crate::commands::several::{MergedRows, set_of};
use crate::lower::{Environment, SUBSEARCH_ROWS, Step};

impl Runner {
    /// The rows of a first command that brings searches together.
    pub(super) fn several(&self, command: &SeveralCommand) -> Result<RowIter, EngineError> {
        Ok(match command {
            SeveralCommand::MultiSearch(searches) => {
                if let Some(fault) = searches.iter().find_map(|search| self.unstreamed(search).transpose()) {
                    let message = "multisearch takes searches that look at one event at a time; use union or append";
                    return Err(EngineError::Invalid { message: message.to_owned(), span: Some(fault?.span) });
                }
                self.merged(searches)?
            }
            SeveralCommand::Union { subsearches, limits } => {
                for (_, option) in limits.idle().into_iter().filter(|(given, _)| *given) {
                    self.context.messages.push(format!("{option} is not supported yet; it has no effect"));
                }
                let streams = subsearches.iter().map(|search| Ok(self.unstreamed(search)?.is_none()));
                let is_stream = streams.collect::<Result<Vec<bool>, EngineError>>()?.into_iter().all(|is| is);
                if is_stream && limits.max_out.is_none() {
                    self.merged(subsearches)?
                } else {
                    let mut all = Vec::new();
                    for search in subsearches {
                        all.extend(self.subsearch(search, limits.max_out.unwrap_or(SUBSEARCH_ROWS))?);
                    }
                    of_batches(all)
                }
            }
            SeveralCommand::Set { operation, left, right } => {
                let (left, right) = (self.subsearch(left, SUBSEARCH_ROWS)?, self.subsearch(right, SUBSEARCH_ROWS)?);
                of_batches(set_of(*operation, left, right)?)
            }
            SeveralCommand::GenTimes(command) => of_batches(vec![gen_times(command, &self.context)?]),
            _ => return Err(EngineError::invalid("this command cannot come first: it needs rows before it")),
        })
    }

    fn merged(&self, searches: &[Pipeline]) -> Result<RowIter, EngineError> {
        let sources = searches.iter().map(|search| self.run(search)).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(MergedRows::new(sources)))
    }

    /// The first command of a search that needs more than one event at a time, or makes no events.
    fn unstreamed<'p>(&self, search: &'p Pipeline) -> Result<Option<&'p Stage>, EngineError> {
        let Some((first, rest)) = search.commands.split_first() else { return Ok(None) };
        if !matches!(first.command, Command::Search(_)) {
            return Ok(Some(first));
        }
        for stage in rest {
            let steps = self.steps(std::slice::from_ref(stage), &self.context)?;
            if !steps.iter().all(|step| matches!(step, Step::Row { ordered: false, .. })) {
                return Ok(Some(stage));
            }
        }
        Ok(None)
    }
}
