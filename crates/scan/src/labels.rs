//! Event types and tags as a scan knows them: a condition, and the fields that have its name as a value.
//!
//! Not here: where they are defined, and what they stand for in a condition (engine).

use quarry_eval::messages::Messages;
use quarry_spl::ast::SearchExpr;

/// A name that events which pass a condition have as a value of some fields.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelCondition {
    /// Fields that have it: `eventtype`, or `tag` and `tag::FIELD`.
    pub fields: Vec<String>,
    /// The event type or the tag.
    pub name: String,
    /// What an event has to meet.
    pub condition: SearchExpr,
}

/// The labels of a search. Their conditions are asked for only where a search needs one of their fields.
pub trait LabelSource {
    /// Names of the fields that labels are values of.
    fn fields(&self) -> Vec<String>;
    /// The conditions, in the order of names on events. One that cannot be read is reported and left out.
    fn conditions(&self, messages: &Messages) -> Vec<LabelCondition>;
}
