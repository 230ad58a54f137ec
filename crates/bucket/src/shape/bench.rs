//! Entry of the benchmark, which knows this crate from outside only.

use quarry_event::EventBatch;

use super::SlabValues;

/// Takes the texts of a slab apart and counts columns and templates; `None` when plain texts are better.
pub fn shape_slab(events: &EventBatch) -> Option<(usize, usize)> {
    let slab = super::shape_slab(events)?;
    let templates = slab.columns.iter().map(|column| match &column.values {
        SlabValues::Templates { templates, .. } => templates.len(),
        _ => 0,
    });
    Some((slab.columns.len(), templates.sum()))
}
