//! Starting points for the evaluation of a pattern, one per row, and the set of rows for which a rule is evaluated.
//!
//! Not here: the evaluation ([`super::rex`]).

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::pattern::template_match::FlatTemplate;
use quarry_event::template::{ColumnValues, PageColumn, Template, TemplatePart, TemplateSet};

use super::groups::Groups;
use super::interner::ABSENT;
use super::page::Rows;
use super::rex::TemplateNode;
use super::slab::Slab;
use super::value_location::ValueLocation;

/// Starting points of the evaluation, by row.
pub(super) enum Roots {
    /// The template of each row.
    Templates(Arc<PageColumn>),
    /// The key of each row ([`Slab::key`]).
    Keys(Arc<[u32]>),
}

impl Roots {
    pub(super) fn codes(&self) -> &[u32] {
        match self {
            Roots::Keys(keys) => keys,
            Roots::Templates(texts) => match &texts.values {
                ColumnValues::Codes(codes) => codes,
                _ => &[],
            },
        }
    }
}

/// Whether a command that reads this field can take its values from the columns of a slab; on rows whose text is read,
/// the command runs in any case.
pub(super) fn reads_on_columns(slab: &Slab, field: &str) -> bool {
    slab.field(field).is_some_and(|field| field.patterned.is_empty())
}

/// The first nodes for a field, by key; one for each distinct composition.
pub(super) fn nodes_of_field(places: &[ValueLocation], template_set: &TemplateSet) -> Vec<TemplateNode> {
    let mut known: HashMap<Template, usize, FixedState> = HashMap::default();
    let nodes = places.iter().enumerate().map(|(at, place)| {
        let parts = match place {
            ValueLocation::Absent => return TemplateNode::Never,
            ValueLocation::Constant(text) => vec![TemplatePart::Literal(text.as_bytes().into())],
            // Events without the index-time field have no value that the pattern could be applied to.
            ValueLocation::Variable(column) if template_set.is_partial_field_column(*column) => {
                return TemplateNode::Unknown;
            }
            ValueLocation::Variable(column) => vec![TemplatePart::Variable(*column)],
            ValueLocation::Composite(parts) => parts.to_vec(),
            ValueLocation::Escaped(_)
            | ValueLocation::Cell(_)
            | ValueLocation::Pair(_)
            | ValueLocation::Nested(_)
            | ValueLocation::List(_)
            | ValueLocation::Derived
            | ValueLocation::Text => {
                return TemplateNode::Unknown;
            }
        };
        let template = Template { parts };
        if let Some(same) = known.get(&template) {
            return TemplateNode::Same(*same);
        }
        let flat = FlatTemplate::of(template_set, &template);
        known.insert(template, at);
        flat.map_or(TemplateNode::Unknown, TemplateNode::Field)
    });
    nodes.collect()
}

/// The keys to which a rule applies.
pub(super) struct RequestedKeys {
    pub(super) any: Vec<bool>,
    /// By group, then by key: whether the group must be evaluated.
    pub(super) by_group: Vec<Vec<bool>>,
}

impl RequestedKeys {
    /// Removes the results of groups in rows for which they were not requested.
    pub(super) fn clear_unrequested(&self, found: &mut Groups, rows: &Rows, keys: &[u32]) {
        for (codes, asked) in found.codes.iter_mut().zip(&self.by_group) {
            // Rows for which no group was requested have no results.
            if *asked != self.any {
                let others = codes.iter_mut().zip(rows.iter()).filter(|(_, row)| !asked[keys[*row as usize] as usize]);
                others.for_each(|(code, _)| *code = ABSENT);
            }
        }
    }
}
