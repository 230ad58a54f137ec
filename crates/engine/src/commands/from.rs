//! `from` only begins a search; the plan has the one that the data set is made of in its place (`crate::plan`).

use quarry_spl::ast::FromCommand;

use super::Execute;

impl Execute for FromCommand {}
