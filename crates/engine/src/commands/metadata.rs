//! `metadata` can only begin a search; the planner substitutes a search that counts events by host, source or
//! sourcetype (`crate::plan`).

use quarry_spl::ast::MetadataCommand;

use super::Execute;

impl Execute for MetadataCommand {}
