//! `metadata` only begins a search; the plan has one that counts events by host, source or sourcetype in its place
//! (`crate::plan`).

use quarry_spl::ast::MetadataCommand;

use super::Execute;

impl Execute for MetadataCommand {}
