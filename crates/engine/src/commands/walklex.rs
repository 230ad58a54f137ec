//! `walklex`: words and fields of an index. Planned as the search that it is written out as.

use quarry_spl::ast::WalkLexCommand;

use super::Execute;

impl Execute for WalkLexCommand {}
