//! `searchtxn` can only begin a search; the planner substitutes a search and `transaction` (`crate::plan`).

use quarry_spl::ast::SearchTxnCommand;

use super::Execute;

impl Execute for SearchTxnCommand {}
