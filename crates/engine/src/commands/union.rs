//! `union`: the rows of several searches and datasets, merged newest first if all searches process one event at a time
//! (and `maxout=` is not given), otherwise concatenated.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::UnionCommand;

use super::Execute;
use super::append::{Append, append};
use super::multisearch::{find_non_streaming, merge_searches};
use crate::lowering::{Lowering, SearchEnvironment, Step, blocking};
use crate::subsearch::SubsearchBounds;

impl Execute for UnionCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let mut rows = Vec::new();
        for inner in &self.subsearches {
            rows.extend(lowering.subsearch(inner, self.limits)?);
        }
        Ok(vec![blocking(Append { rows })])
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        for (_, option) in self.limits.ignored_options().into_iter().filter(|(given, _)| *given) {
            search.context().messages.push(format!("{option} is not supported yet; it has no effect"));
        }
        let streams = self.subsearches.iter().map(|inner| Ok(find_non_streaming(search, inner)?.is_none()));
        let is_stream = streams.collect::<Result<Vec<bool>, EngineError>>()?.into_iter().all(|is| is);
        if is_stream && self.limits.max_out.is_none() {
            return merge_searches(search, &self.subsearches).map(Some);
        }
        let mut rows = of_batches(Vec::new());
        let bounds = SubsearchBounds::of_rows(&self.limits, search.context());
        for inner in &self.subsearches {
            rows = append(rows, of_batches(search.subsearch(inner, bounds)?));
        }
        Ok(Some(rows))
    }
}
