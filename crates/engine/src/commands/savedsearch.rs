//! `savedsearch` only begins a search; the plan has the saved one in its place (`crate::plan`).

use quarry_spl::ast::SavedSearchCommand;

use super::Execute;

impl Execute for SavedSearchCommand {}
