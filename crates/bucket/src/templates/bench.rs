//! Entry points for the benchmark, which can only use this crate's public API.

use quarry_event::EventBatch;

use super::SlabValues;
use super::variables::split_event;

/// Splits the texts of a slab and counts columns and templates; `None` if plain texts are better.
pub fn split_slab(events: &EventBatch) -> Option<(usize, usize)> {
    let slab = super::split_slab(events)?;
    let templates = slab.columns.iter().map(|column| match &*column.values {
        SlabValues::Templates { templates, .. } => templates.len(),
        _ => 0,
    });
    Some((slab.columns.len(), templates.sum()))
}

/// Finds and counts the variables of every text.
pub fn count_variables(events: &EventBatch) -> u64 {
    let mut variables = Vec::new();
    let mut count = 0;
    for row in 0..events.len() {
        variables.clear();
        split_event(events.raw(row), &mut variables);
        count += variables.len() as u64;
    }
    count
}
