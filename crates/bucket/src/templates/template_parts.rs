//! Search-time fields whose values are the same parts of the text in all events of a template. The parts are listed
//! once for each template, so that such a field takes no space in the events, and a search reads the columns of the
//! texts. If a value begins or ends inside a variable, it is a slice of that variable ([`TextSlice`]): the digits after
//! `0x`, or the file in `main.go:12`. A slice is computed from each distinct value of a dictionary. In a column of
//! texts, only the bytes after a prefix of fixed length are a slice, because the text of each event has to be read: a
//! field that has few values there is read faster from a column of its own.
//!
//! Not here: fields whose parts differ between events of a template (`super::part_columns`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use memchr::memmem;
use quarry_event::template::{
    ExtractedField, MAX_PARTS_BY_TEMPLATE, StoredExtraction, StoredValues, TEXT_COLUMN, TemplatePart, TextParts,
    TextSlice, ValueParts,
};

use super::text_parts::{PartReader, join_values, values_of};
use super::{SlabValues, TemplateSlab};
use crate::limits::MAX_VALUE_PARTS;

/// Maximum number of occurrences of a value in a text whose parts are candidates for the value.
const OCCURRENCES_MAX: usize = 16;

/// The parts of which the value of a field may consist in the events of one template.
#[derive(Clone, Debug)]
enum Place {
    /// No event of the template was read.
    Unread,
    /// The events lack the field.
    Absent,
    /// For each value of an event, the parts that have made up or contained the value in all events so far.
    Parts(Vec<Vec<ValueParts>>),
}

/// A field whose values are located, event by event.
struct TemplateLocator<'f> {
    field: &'f ExtractedField,
    /// Number of values read.
    next: usize,
    places: Vec<Place>,
    /// Whether the parts of the value have been the same in all events of each template.
    is_open: bool,
}

impl TemplateLocator<'_> {
    /// Compares the field with the last event that was read, which is number `row`.
    fn add_event(&mut self, row: u32, reader: &PartReader<'_>) {
        let field = self.field;
        let value = (field.rows.get(self.next) == Some(&row)).then(|| {
            let start = if self.next == 0 { 0 } else { field.ends[self.next - 1] as usize };
            self.next += 1;
            &field.bytes[start..field.ends[self.next - 1] as usize]
        });
        let place = &mut self.places[reader.template() as usize];
        self.is_open = match (&mut *place, value) {
            (Place::Unread, None) => {
                *place = Place::Absent;
                true
            }
            (Place::Unread, Some(value)) => {
                let candidates = |value| candidates_of(value, field.is_list, reader);
                let found: Vec<_> = values_of(field, value).map(candidates).collect();
                let is_found = !found.iter().any(Vec::is_empty);
                *place = Place::Parts(found);
                is_found
            }
            (Place::Absent, value) => value.is_none(),
            (Place::Parts(_), None) => false,
            (Place::Parts(of_values), Some(value)) => {
                let mut values = values_of(field, value);
                let mut are_composed = of_values.iter_mut().all(|candidates| {
                    let Some(value) = values.next() else { return false };
                    candidates.retain(|candidate| reader.is_value_of(candidate, value));
                    !candidates.is_empty()
                });
                are_composed &= values.next().is_none();
                are_composed
            }
        };
    }

    /// The parts of the values in the events of each template; `None` if all candidates of a value use a column of an
    /// earlier value, or if the values of an event have too many parts.
    fn into_parts(self) -> Option<TextParts> {
        let mut templates: HashMap<ValueParts, usize, FixedState> = HashMap::default();
        for place in &self.places {
            if let Place::Parts(of_values) = place {
                of_values.iter().flatten().for_each(|parts| *templates.entry(parts.clone()).or_default() += 1);
            }
        }
        let parts = self.places.into_iter().map(|place| match place {
            Place::Unread | Place::Absent => Some(None),
            Place::Parts(of_values) => Some(Some(simplest_of(of_values, &templates)?)),
        });
        let (codes, is_list) = (TEXT_COLUMN, self.field.is_list);
        Some(TextParts { codes, own: None, parts: parts.collect::<Option<_>>()?, is_list })
    }
}

/// The simplest candidate of each value of an event, joined. Prefers parts with a variable, then whole variables to
/// slices, then the fewest parts: a single variable is best, because the value can then be read from one column. Among
/// equally simple candidates, prefers those of the most templates (`templates` has their number): a search computes the
/// slices of all values of a dictionary once for each different slice. Candidates that use a column of an earlier value
/// are skipped.
fn simplest_of(
    of_values: Vec<Vec<ValueParts>>,
    templates: &HashMap<ValueParts, usize, FixedState>,
) -> Option<ValueParts> {
    let is_variable = |part: &TemplatePart| matches!(part, TemplatePart::Variable(_));
    let mut chosen: Vec<ValueParts> = Vec::with_capacity(of_values.len());
    for candidates in of_values {
        let is_taken = |part: &TemplatePart| is_variable(part) && chosen.iter().any(|value| value.parts.contains(part));
        let free = candidates.into_iter().filter(|value| !value.parts.iter().any(is_taken));
        chosen.push(free.min_by_key(|value| {
            let is_constant = !value.parts.iter().any(is_variable);
            (is_constant, value.slice != TextSlice::Whole, value.parts.len(), Reverse(templates.get(value)))
        })?);
    }
    if chosen.len() == 1 {
        return chosen.pop();
    }
    join_values(chosen.iter().map(|value| &*value.parts))
        .filter(|parts| parts.len() <= MAX_VALUE_PARTS)
        .map(ValueParts::from)
}

/// The parts that make up or contain this value, for each of its first [`OCCURRENCES_MAX`] occurrences in the text. A
/// value of a list must consist of whole parts.
fn candidates_of(value: &[u8], is_list: bool, reader: &PartReader<'_>) -> Vec<ValueParts> {
    if value.is_empty() {
        return vec![Vec::new().into()];
    }
    let mut found = Vec::new();
    for start in memmem::find_iter(reader.text(), value).take(OCCURRENCES_MAX) {
        let bytes = start..start + value.len();
        match reader.locate(bytes.clone()) {
            Some(parts) if parts.len() <= MAX_VALUE_PARTS => found.push(parts.into()),
            None if !is_list => reader.add_slices(&bytes, &mut found),
            _ => {}
        }
    }
    found
}

impl TemplateSlab {
    /// Adds those of `fields` whose values are the same parts of the text in all events of a template; the slab has
    /// `events` events.
    pub(super) fn add_template_parts(&mut self, fields: &[&ExtractedField], events: usize) {
        let Some(SlabValues::Templates { templates, .. }) = self.columns.first().map(|column| &*column.values) else {
            return;
        };
        let is_by_template = |stored: &&StoredExtraction| matches!(&stored.values, StoredValues::Parts(parts) if parts.codes == TEXT_COLUMN);
        let known = self.extractions.iter().filter(is_by_template).count();
        let fields_max = (MAX_PARTS_BY_TEMPLATE / templates.len().max(1)).saturating_sub(known);
        let new =
            |field| TemplateLocator { field, next: 0, places: vec![Place::Unread; templates.len()], is_open: true };
        let mut open: Vec<TemplateLocator<'_>> = fields.iter().take(fields_max).copied().map(new).collect();
        let mut reader = PartReader::new(self);
        for row in (0u32..).take(events) {
            if open.is_empty() {
                return;
            }
            reader.read_next();
            open.iter_mut().for_each(|field| field.add_event(row, &reader));
            open.retain(|field| field.is_open);
        }
        for located in open {
            let (name, rules) = (Arc::clone(&located.field.name), located.field.rules);
            if let Some(parts) = located.into_parts() {
                self.extractions.push(StoredExtraction { name, rules, values: StoredValues::Parts(parts) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_share_a_slice_that_fits_all_of_them() {
        let of = |slice| ValueParts { parts: [TemplatePart::Variable(1)].into(), slice };
        let (first, until) = (of(TextSlice::First(7)), of(TextSlice::Until(b':')));
        let templates = [(first.clone(), 1), (until.clone(), 3)].into_iter().collect();
        // A single event of a template does not tell whether all files have seven bytes.
        let chosen = simplest_of(vec![vec![first.clone(), until.clone()]], &templates);
        assert_eq!(chosen.as_ref(), Some(&until));
        assert_eq!(simplest_of(vec![vec![first.clone()]], &templates), Some(first));
        let whole = of(TextSlice::Whole);
        assert_eq!(simplest_of(vec![vec![until, whole.clone()]], &templates), Some(whole));
    }
}
