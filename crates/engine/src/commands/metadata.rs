//! `metadata` can only begin a search; the planner replaces the command with the search in its syntax node
//! (`crate::plan`).

use quarry_spl::ast::MetadataCommand;

use super::Execute;

impl Execute for MetadataCommand {}
