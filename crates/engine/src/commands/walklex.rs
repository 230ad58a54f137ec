//! `walklex`: words and fields of an index. Planned as the search it expands to.

use quarry_spl::ast::WalkLexCommand;

use super::Execute;

impl Execute for WalkLexCommand {}
