//! Context of an expression: the parts of the search that it can access.

use std::sync::Arc;

use quarry_event::TimeNs;
use quarry_spl::ast::PercentileMethod;

use crate::lookup::LookupSource;

/// Access of an expression to the search to which it belongs.
#[derive(Clone, Debug)]
pub struct ExprContext {
    /// Start of the search; `now()`.
    pub now: TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
    /// Tables for `lookup()`.
    pub tables: ExprTables,
    /// Algorithm for percentiles.
    pub percentiles: PercentileMethod,
}

/// The tables for `lookup()`; outside of searches, there are no tables.
#[derive(Clone, Default)]
pub struct ExprTables(pub Option<Arc<dyn LookupSource>>);

impl std::fmt::Debug for ExprTables {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_some() { "tables" } else { "no tables" })
    }
}

impl ExprContext {
    /// A context without tables.
    pub fn new(now: TimeNs, zone: jiff::tz::TimeZone) -> ExprContext {
        ExprContext { now, zone, tables: ExprTables::default(), percentiles: PercentileMethod::default() }
    }
}
