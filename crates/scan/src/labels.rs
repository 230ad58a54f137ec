//! Event types and tags as the scan sees them: a condition, and the fields that receive the label's name as a value.
//!
//! Not here: their definitions, and their expansion in conditions (engine).

use quarry_eval::messages::Messages;
use quarry_spl::ast::SearchExpr;

/// A label; its name becomes a value of `fields` in the events that meet its condition.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelCondition {
    /// Fields that receive the name: `eventtype`, or `tag` and `tag::FIELD`.
    pub fields: Vec<String>,
    /// Name of the event type or tag.
    pub name: String,
    /// Condition that an event must meet.
    pub condition: SearchExpr,
}

/// The labels of a search. Conditions are requested only if the search needs one of the fields.
pub trait LabelSource {
    /// Names of the fields that can hold labels.
    fn fields(&self) -> Vec<String>;
    /// The conditions, in the order in which their names appear on events. A condition that cannot be parsed is
    /// reported and skipped.
    fn conditions(&self, messages: &Messages) -> Vec<LabelCondition>;
}
