//! Search-time fields whose values a slab stores.
//!
//! Compaction stores the values of fields that the templates do not locate ([`crate::slab_extraction`]). Such a field
//! is located in its column if the rules of this search extract it exactly as the stored values were extracted;
//! otherwise it is located as in any other slab.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use quarry_eval::messages::Messages;
use quarry_event::Metadata;
use quarry_event::template::{ColumnKind, ColumnValues, ExtractedNames, StoredValues, TEXT_COLUMN, TemplateSet};
use quarry_stdx::number::u32_of;
use quarry_store::{FieldToStore, Segment};

use super::facts::TemplateFactsCache;
use super::field_locations::FieldLocations;
use super::slab::{Slab, SlabRequest};
use super::value_location::ValueLocation;
use crate::derive::LINE_COUNT_FIELD;
use crate::fields::FieldRules;

/// A field is stored if its value must be read from the text in more than one in this many events.
const TEXT_ROWS_DIVISOR: usize = 64;
/// Number of templates above which fields of patterns are stored even if they are located, because locating the fields
/// for the first search takes longer than reading them.
const PLANNED_TEMPLATES_MAX: usize = 256;

/// The fields among `names` whose stored values equal the values that `rules` extract, each with its stored values.
pub(super) fn find_stored(
    set: &TemplateSet,
    metas: &[Metadata],
    names: &[String],
    rules: &FieldRules,
    messages: &Messages,
) -> Vec<(String, StoredValues)> {
    let has_stored = !set.extractions.is_empty() || set.extracted_names.is_some();
    if !has_stored || rules.is_index_time_only() {
        return Vec::new();
    }
    let find = |name: &String| {
        // Events without a stored value have the default value.
        if name == LINE_COUNT_FIELD {
            return None;
        }
        let mut known = set.extractions.iter().filter(|stored| *stored.name == **name).peekable();
        // All rules that may produce the field take names from the texts, and no text contains this name.
        let is_unknown =
            |all: &&ExtractedNames| all.names.binary_search_by(|known| (**known).cmp(name.as_str())).is_err();
        let is_only_in_texts = |_: &&ExtractedNames| rules.is_unnamed(metas, name, messages);
        let unknown_to = set.extracted_names.as_ref().filter(is_unknown).filter(is_only_in_texts);
        if known.peek().is_none() && unknown_to.is_none() {
            return None;
        }
        let rules = rules.digest_of(metas.iter(), name, messages)?;
        let stored = known.find(|stored| stored.rules == rules).map(|stored| stored.values.clone());
        let absent = || unknown_to.filter(|all| all.rules == rules).map(|_| StoredValues::Absent);
        Some((name.clone(), stored.or_else(absent)?))
    };
    names.iter().filter_map(find).collect()
}

/// The fields among `names` that are worth storing: fields whose values the templates of the slab do not locate in a
/// sufficient number of events, and fields whose location takes long to find or depends on the codes of several
/// columns.
pub(crate) fn fields_to_store(
    segment: &Arc<dyn Segment>,
    rules: &FieldRules,
    names: &BTreeSet<String>,
    messages: &Messages,
) -> Vec<FieldToStore> {
    let (Ok(Some(set)), Some(_)) = (segment.template_set(), segment.pages().first()) else { return Vec::new() };
    // Events without a stored value have the default value, so `find_stored` never finds this field.
    let names: Vec<String> = names.iter().filter(|name| *name != LINE_COUNT_FIELD).cloned().collect();
    assert!(names.is_sorted(), "the fields stored come in the order of their names");
    let request = SlabRequest {
        rules,
        names: &names,
        paths: &[],
        is_listed: false,
        words: 0,
        tested: Vec::new(),
        computed: None,
        messages,
    };
    // Without the columns stored so far, because the choice must not depend on them.
    let plain = Arc::new(TemplateSet { extractions: Vec::new(), extracted_names: None, ..TemplateSet::clone(&set) });
    let facts = TemplateFactsCache::default().of(&plain);
    let Some(slab) = Slab::new(segment, facts, plain, &request) else { return Vec::new() };
    let Some(rows) = rows_by_key(segment, &slab) else { return Vec::new() };
    let is_many = matches!(set.columns.first().map(|column| &column.kind),
        Some(ColumnKind::Templates(templates)) if templates.len() > PLANNED_TEMPLATES_MAX);
    let to_store = |name: &String| {
        let by_pattern = slab.extracts().iter().any(|extract| extract.group(name).is_some());
        let field = slab.stored_field(name);
        let is_slow = field.is_some_and(|field| needs_text(field, &rows));
        // With divided keys, the locations are known, but finding them takes plans, and reading them takes the codes of
        // several columns.
        let is_divided = field.is_some_and(|field| field.split.is_some());
        let is_worth = is_slow || is_divided || (is_many && by_pattern);
        is_worth.then(|| FieldToStore { name: name.clone(), is_slow })
    };
    names.iter().filter_map(to_store).collect()
}

/// The number of events for each key of the slab, in the first page without deleted events; `None` if there is no such
/// page.
fn rows_by_key(segment: &Arc<dyn Segment>, slab: &Slab) -> Option<HashMap<usize, usize>> {
    let number = (0..segment.pages().len()).find(|page| segment.has_templates(*page))?;
    let mut page = segment.template_page(number).ok()??;
    let templates = page.column(TEXT_COLUMN).ok()?;
    let metas = segment.page_metas(number).ok()?;
    let ColumnValues::Codes(templates) = &templates.values else { return None };
    let mut rows = HashMap::new();
    for (template, meta) in templates.iter().zip(metas) {
        *rows.entry(slab.key(meta, *template) as usize).or_insert(0) += 1;
    }
    Some(rows)
}

/// Whether, for enough events, the text must be read or a pattern evaluated. If keys are divided, the events of a key
/// count as evenly distributed over its parts.
fn needs_text(field: &FieldLocations, rows: &HashMap<usize, usize>) -> bool {
    let by_text = |key: usize| {
        field.is_patterned(u32_of(key))
            || field.is_ambiguous(u32_of(key))
            || matches!(field.locations.get(key), Some(ValueLocation::Text | ValueLocation::Derived))
    };
    let all: usize = rows.values().sum();
    let slow: usize = match &field.split {
        None => rows.iter().filter(|(key, _)| by_text(**key)).map(|(_, rows)| rows).sum(),
        Some(split) => {
            let mut parts: HashMap<usize, (usize, usize)> = HashMap::new();
            for key in 0..field.locations.len() {
                let (all, slow) = parts.entry(split.undivided(key)).or_default();
                (*all, *slow) = (*all + 1, *slow + usize::from(by_text(key)));
            }
            rows.iter().filter_map(|(key, rows)| parts.get(key).map(|(all, slow)| rows * slow / all)).sum()
        }
    };
    slow * TEXT_ROWS_DIVISOR > all
}
