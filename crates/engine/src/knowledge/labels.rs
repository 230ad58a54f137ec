//! Event types and tags: named conditions, and names for values.
//!
//! In a search over events, `eventtype=x` and `tag=x` are replaced by the conditions they name, which then prune data
//! as if they were written out. An unknown name remains a condition on a field.
//!
//! Not here: the fields `eventtype` and `tag` of events (scan).

use quarry_eval::EngineError;
use quarry_eval::expr::ExprContext;
use quarry_eval::messages::Messages;
use quarry_eval::pattern::Wildcard;
use quarry_scan::{LabelCondition, LabelSource};
use quarry_spl::ast::{CompareOp, NodeBuilder, SearchExpr};

use super::KnowledgeSource;
use super::macros::expand_macros;

/// Maximum nesting depth of event types and tags.
const DEPTH_MAX: usize = 16;
/// Maximum number of conditions that the labels of one search expand to.
const CONDITIONS_MAX: usize = 20_000;
/// Field of event types.
pub(crate) const EVENT_TYPE: &str = "eventtype";
/// Field of tags.
pub(crate) const TAG: &str = "tag";
/// Prefix of the field with the tags of a single field.
const TAG_OF: &str = "tag::";

/// A named search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Value of the field `eventtype` in events of this type.
    pub name: String,
    /// Search for events of this type, without commands.
    pub search: String,
}

/// A name for a value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The tag.
    pub name: String,
    /// Field whose value has the tag.
    pub field: String,
    /// Value that the tag names.
    pub value: String,
}

/// The event types and tags available to a search.
pub(crate) struct Labels<'a> {
    knowledge: &'a dyn KnowledgeSource,
    context: &'a ExprContext,
    /// Event types, in the order in which events list them.
    pub types: Vec<EventType>,
    pub tags: Vec<Tag>,
    expanded_count: std::cell::Cell<usize>,
}

impl<'a> Labels<'a> {
    /// The event types and tags of `knowledge`.
    pub(crate) fn new(knowledge: &'a dyn KnowledgeSource, context: &'a ExprContext) -> Labels<'a> {
        let (types, tags) = (knowledge.event_types(), knowledge.tags());
        Labels { knowledge, context, types, tags, expanded_count: std::cell::Cell::new(0) }
    }

    /// The condition with its labels expanded.
    pub(crate) fn expand(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        if self.types.is_empty() && self.tags.is_empty() {
            return Ok(expr.clone());
        }
        self.expand_below(expr, 0)
    }

    fn expand_below(&self, expr: &SearchExpr, depth: usize) -> Result<SearchExpr, EngineError> {
        self.expanded_count.set(self.expanded_count.get() + 1);
        if depth > DEPTH_MAX || self.expanded_count.get() > CONDITIONS_MAX {
            return Err(EngineError::invalid(format!(
                "event types and tags are nested more than {DEPTH_MAX} deep or expand to more than \
                 {CONDITIONS_MAX} conditions; look for one that refers to itself"
            )));
        }
        let all = |parts: &[SearchExpr]| {
            parts.iter().map(|part| self.expand_below(part, depth)).collect::<Result<Vec<_>, _>>()
        };
        let unknown = || Ok(expr.clone());
        match expr {
            SearchExpr::And(parts) => Ok(SearchExpr::And(all(parts)?)),
            SearchExpr::Or(parts) => Ok(SearchExpr::Or(all(parts)?)),
            SearchExpr::Not(part) => Ok(SearchExpr::Not(Box::new(self.expand_below(part, depth)?))),
            SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => {
                self.expand_named(&field.text, &value.text, depth)?.map_or_else(unknown, Ok)
            }
            // As for any field, `!=` means that the field has a different value.
            SearchExpr::Compare { field, op: CompareOp::Ne, value, .. } => {
                self.expand_negated(&field.text, &value.text, depth)?.map_or_else(unknown, Ok)
            }
            SearchExpr::In { field, values } => {
                let mut found = Vec::new();
                for value in values {
                    found.extend(self.expand_named(&field.text, &value.text, depth)?);
                }
                if found.is_empty() { unknown() } else { Ok(SearchExpr::Or(found)) }
            }
            // `tag::host=x` may have been parsed as the index-time field `tag` with the value `host=x`.
            SearchExpr::Indexed { field, value } if field.text == TAG => {
                let Some((of, name)) = value.text.split_once('=') else { return unknown() };
                self.expand_named(&format!("{TAG_OF}{of}"), name.trim_matches('"'), depth)?.map_or_else(unknown, Ok)
            }
            _ => unknown(),
        }
    }

    /// Expansion of `field=name`; `None` if the field has no label of this name.
    fn expand_named(&self, field: &str, name: &str, depth: usize) -> Result<Option<SearchExpr>, EngineError> {
        let is_name = Wildcard::new(name, false);
        self.any_of(field, &|known| is_name.is_match(known), depth)
    }

    /// Expansion of `field!=name`; `None` if the field has no label with another name.
    fn expand_negated(&self, field: &str, name: &str, depth: usize) -> Result<Option<SearchExpr>, EngineError> {
        let is_name = Wildcard::new(name, false);
        self.any_of(field, &|known| !is_name.is_match(known), depth)
    }

    /// The conditions of a field's labels whose names pass the test.
    fn any_of(
        &self,
        field: &str,
        is_so: &dyn Fn(&str) -> bool,
        depth: usize,
    ) -> Result<Option<SearchExpr>, EngineError> {
        let mut found = Vec::new();
        if field == EVENT_TYPE {
            for known in self.types.iter().filter(|known| is_so(&known.name)) {
                found.push(self.expand_below(&self.parse_event_type(known)?, depth + 1)?);
            }
        } else if field == TAG || field.starts_with(TAG_OF) {
            let of = field.strip_prefix(TAG_OF);
            let tags = self.tags.iter().filter(|tag| of.is_none_or(|of| of == tag.field));
            for tag in tags.filter(|tag| is_so(&tag.name)) {
                found.push(self.expand_below(&condition_of(tag), depth + 1)?);
            }
        }
        Ok((!found.is_empty()).then_some(SearchExpr::Or(found)))
    }

    /// Parses the condition of an event type; labels in it are not expanded.
    fn parse_event_type(&self, known: &EventType) -> Result<SearchExpr, EngineError> {
        let invalid = |reason: String| {
            EngineError::invalid(format!("event type {}: {reason}; its search is '{}'", known.name, known.search))
        };
        let expansion = expand_macros(&known.search, self.knowledge, self.context);
        if let Some(fault) = expansion.diagnostics.first() {
            return Err(invalid(fault.to_string()));
        }
        quarry_spl::parse_condition(&expansion.text).map_err(|faults| {
            invalid(faults.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string))
        })
    }

    /// The condition of an event type.
    pub(crate) fn condition_of_type(&self, known: &EventType) -> Result<SearchExpr, EngineError> {
        self.expanded_count.set(0);
        self.expand_below(&self.parse_event_type(known)?, 1)
    }
}

impl LabelSource for Labels<'_> {
    fn fields(&self) -> Vec<String> {
        let types = self.types.first().map(|_| EVENT_TYPE.to_owned());
        let tags = self.tags.first().map(|_| TAG.to_owned());
        types.into_iter().chain(tags).chain(self.tags.iter().map(tag_field)).collect()
    }

    fn conditions(&self, messages: &Messages) -> Vec<LabelCondition> {
        let mut found = Vec::new();
        let mut keep = |fields: Vec<String>, name: &str, condition: Result<SearchExpr, EngineError>| match condition {
            Ok(condition) => found.push(LabelCondition { fields, name: name.to_owned(), condition }),
            Err(error) => messages.push(format!("{name} is ignored: {error}")),
        };
        for known in &self.types {
            keep(vec![EVENT_TYPE.to_owned()], &known.name, self.condition_of_type(known));
        }
        for tag in &self.tags {
            let fields = vec![TAG.to_owned(), tag_field(tag)];
            keep(fields, &tag.name, self.expand(&condition_of(tag)));
        }
        found
    }
}

/// Name of the field with the tags of a single field.
pub(crate) fn tag_field(tag: &Tag) -> String {
    format!("{TAG_OF}{}", tag.field)
}

/// `field=value` of a tag.
pub(crate) fn condition_of(tag: &Tag) -> SearchExpr {
    NodeBuilder::at(quarry_spl::ast::Span::default()).equals(&tag.field, &tag.value)
}
