//! `savedsearch` can only begin a search; the planner substitutes the saved search (`crate::plan`).

use quarry_spl::ast::SavedSearchCommand;

use super::Execute;

impl Execute for SavedSearchCommand {}
