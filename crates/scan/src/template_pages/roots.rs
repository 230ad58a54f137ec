//! Roots of the evaluation of a pattern, one per row: the row's template or, for the values of a field, its key (an
//! extraction class and a template). Also the rows for which a rule is evaluated.
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

/// Roots of the evaluation, by row.
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

/// The first nodes for a field, by key; keys whose values are composed of the same parts share a node.
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
            | ValueLocation::Written(_)
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

/// The rows for which groups of a rule must be evaluated.
pub(super) struct RequestedRows {
    /// For each group, the key of each row of the page in the locations of the group's field, and whether the group
    /// must be evaluated for a key.
    pub(super) by_group: Vec<(Arc<[u32]>, Vec<bool>)>,
}

impl RequestedRows {
    /// Whether any group must be evaluated for a row.
    #[inline]
    pub(super) fn is_any(&self, row: u32) -> bool {
        self.by_group.iter().any(|(keys, asked)| is_asked(keys, asked, row))
    }

    /// Removes the results of groups in rows for which they were not requested.
    pub(super) fn clear_unrequested(&self, found: &mut Groups, rows: &Rows) {
        // Rows for which no group was requested have no results.
        let is_uniform =
            self.by_group.windows(2).all(|pair| pair[0].1 == pair[1].1 && Arc::ptr_eq(&pair[0].0, &pair[1].0));
        if is_uniform {
            return;
        }
        for (codes, (keys, asked)) in found.codes.iter_mut().zip(&self.by_group) {
            let others = codes.iter_mut().zip(rows.iter()).filter(|(_, row)| !is_asked(keys, asked, *row));
            others.for_each(|(code, _)| *code = ABSENT);
        }
    }
}

#[inline]
fn is_asked(keys: &[u32], asked: &[bool], row: u32) -> bool {
    keys.get(row as usize).and_then(|key| asked.get(*key as usize)) == Some(&true)
}
