//! `from` can only begin a search; the planner substitutes the search for the data set (`crate::plan`).

use quarry_spl::ast::FromCommand;

use super::Execute;

impl Execute for FromCommand {}
