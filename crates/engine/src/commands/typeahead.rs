//! `typeahead`: words and field values with a given prefix. The planner replaces the command with the search to which
//! it expands.

use quarry_spl::ast::TypeAheadCommand;

use super::Execute;

impl Execute for TypeAheadCommand {}
