//! `typeahead`: words and field values that begin with a prefix. Planned as the search that it is written out as.

use quarry_spl::ast::TypeAheadCommand;

use super::Execute;

impl Execute for TypeAheadCommand {}
