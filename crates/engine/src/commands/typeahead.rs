//! `typeahead`: words and field values with a given prefix. Planned as the search it expands to.

use quarry_spl::ast::TypeAheadCommand;

use super::Execute;

impl Execute for TypeAheadCommand {}
