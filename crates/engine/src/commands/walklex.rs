//! `walklex`: words and fields of an index. The planner replaces the command with the search to which it expands.

use quarry_spl::ast::WalkLexCommand;

use super::Execute;

impl Execute for WalkLexCommand {}
