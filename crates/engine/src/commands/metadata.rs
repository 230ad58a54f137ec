//! `metadata` can only begin a search; the planner runs the search in its node instead (`crate::plan`).

use quarry_spl::ast::MetadataCommand;

use super::Execute;

impl Execute for MetadataCommand {}
