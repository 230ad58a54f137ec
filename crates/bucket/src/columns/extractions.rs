//! Stored search-time fields: their list and their names at the end of the column layout block, and the choice of the
//! fields that fit.
//!
//! Like an index-time field (`super::fields`), a field has a column without a parent, or a column below another that
//! shows which events have the field. If most of its values are parts of the texts, the field has a template column of
//! codes, and the parts for each code are listed here. The number that is stored for a field shows its form. For a
//! field with one value per event, it is the number of its column. For a field with several values per event, the count
//! of all columns is added, even if the column has codes for parts of the texts. For a field whose parts follow from
//! the template of the text, the number is twice the count of all columns. One is added if the field has several values
//! per event, or two if a value is a slice of its part; the slice is then stored after each sequence of parts. Blocks
//! of older versions, and of slabs without such fields and names, end before the list.
//!
//! Not here: the columns (`crate::templates`); extraction of the values.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use quarry_event::template::{
    ColumnKind, ExtractedNames, MAX_EXTRACTED_NAMES, MAX_PART_CODES, MAX_PARTS_BY_TEMPLATE, MAX_STORED_EXTRACTIONS,
    StoredExtraction, StoredValues, TEXT_COLUMN, Template, TemplatePart, TemplateSet, TextParts, TextSlice, ValueParts,
};
use quarry_stdx::number::u32_of;

use crate::columns::layout::{StoredColumn, put_parts, read_parts};
use crate::limits::{MAX_EXTRACTION_NAME_BYTES, MAX_SLICE_BYTES, MAX_VALUE_PARTS};
use crate::templates::TemplateSlab;
use crate::wire::{Cursor, Malformed, put_bytes, put_varint};

/// Bytes of the digest of a field's rules.
const RULES_BYTES: usize = size_of::<u128>();
/// Form of a field whose parts follow from the template of the text, if some values are slices of their parts.
const SLICES_FORM: u64 = 2;
/// Stands for a column if no event has the field. The text column, which has this number, contains no field.
const NO_COLUMN: u64 = 0;

/// Appends the fields with their columns, and the names; nothing if there are neither fields nor known names.
pub(super) fn put(template_set: &TemplateSet, out: &mut Vec<u8>) {
    let extractions = &template_set.extractions;
    assert!(extractions.len() <= MAX_STORED_EXTRACTIONS, "more fields would be rejected when they are read");
    if !has_extractions(template_set) {
        return;
    }
    put_varint(out, extractions.len() as u64);
    for StoredExtraction { name, rules, values } in extractions {
        assert!(name.len() <= MAX_EXTRACTION_NAME_BYTES, "a longer name would be rejected when it is read");
        put_bytes(out, name.as_bytes());
        out.extend(rules.to_le_bytes());
        match values {
            StoredValues::Absent => put_varint(out, NO_COLUMN),
            StoredValues::Column(column) => put_varint(out, u64::from(*column)),
            StoredValues::Lists(column) => put_varint(out, template_set.columns.len() as u64 + u64::from(*column)),
            StoredValues::Parts(parts) if parts.codes == TEXT_COLUMN => {
                let has_slices = has_slices(parts);
                let form = if has_slices { SLICES_FORM } else { u64::from(parts.is_list) };
                put_varint(out, 2 * template_set.columns.len() as u64 + form);
                put_template_parts(&parts.parts, has_slices, out);
            }
            StoredValues::Parts(parts) => {
                assert!(!has_slices(parts), "slices follow from the template of the text");
                let lists = if parts.is_list { template_set.columns.len() as u64 } else { 0 };
                put_varint(out, lists + u64::from(parts.codes));
                parts.parts.iter().for_each(|value| put_sequence(value.as_ref(), out));
            }
        }
    }
    put_names(template_set.extracted_names.as_ref(), out);
}

/// Whether some values are slices of their parts.
fn has_slices(parts: &TextParts) -> bool {
    let has_slices = parts.parts.iter().flatten().any(|value| value.slice != TextSlice::Whole);
    assert!(!(has_slices && parts.is_list), "lists consist of whole parts");
    has_slices
}

/// Appends the parts of a value, if there is one.
fn put_sequence(value: Option<&ValueParts>, out: &mut Vec<u8>) {
    // One more than the number of parts, so that 0 stands for no value.
    put_varint(out, value.map_or(0, |value| value.parts.len() as u64 + 1));
    value.into_iter().for_each(|value| put_parts(&value.parts, out));
}

/// Appends the different sequences of parts, and the number of the sequence of each template.
fn put_template_parts(of_templates: &[Option<ValueParts>], has_slices: bool, out: &mut Vec<u8>) {
    let mut sequences: Vec<Option<&ValueParts>> = Vec::new();
    let mut numbers = Vec::with_capacity(of_templates.len());
    let mut known: HashMap<Option<&ValueParts>, usize, FixedState> = HashMap::default();
    for value in of_templates {
        let value = value.as_ref();
        let number = *known.entry(value).or_insert(sequences.len());
        if number == sequences.len() {
            sequences.push(value);
        }
        numbers.push(number as u64);
    }
    put_varint(out, sequences.len() as u64);
    for value in sequences {
        put_sequence(value, out);
        if has_slices && let Some(value) = value {
            put_slice(value.slice, out);
        }
    }
    numbers.into_iter().for_each(|number| put_varint(out, number));
}

fn put_slice(slice: TextSlice, out: &mut Vec<u8>) {
    let (kind, number) = match slice {
        TextSlice::Whole => (0, 0),
        TextSlice::From(bytes) => (1, bytes),
        TextSlice::First(bytes) => (2, bytes),
        TextSlice::Until(byte) => (3, byte.into()),
        TextSlice::After(byte) => (4, byte.into()),
    };
    put_varint(out, kind);
    put_varint(out, number.into());
}

fn read_slice(cursor: &mut Cursor<'_>) -> Result<TextSlice, Malformed> {
    let kind = cursor.count("kind of slice", 4)?;
    let number = cursor.count("slice of a part", u8::MAX.into())?;
    let bytes = Some(u32_of(number)).filter(|_| number <= MAX_SLICE_BYTES);
    let character = u8::try_from(number).ok().filter(u8::is_ascii);
    let slice = match kind {
        0 => Some(TextSlice::Whole),
        1 => bytes.map(TextSlice::From),
        2 => bytes.map(TextSlice::First),
        3 => character.map(TextSlice::Until),
        _ => character.map(TextSlice::After),
    };
    slice.ok_or_else(|| Malformed::new("a slice has too many bytes, or ends at a character that is not ASCII"))
}

/// Whether anything is stored about the search-time fields of a slab.
pub(super) fn has_extractions(template_set: &TemplateSet) -> bool {
    !template_set.extractions.is_empty() || template_set.extracted_names.is_some()
}

/// Appends the names of all fields that rules take from the texts, if they are known.
fn put_names(known: Option<&ExtractedNames>, out: &mut Vec<u8>) {
    // One more than the number of names, so that 0 stands for unknown names.
    put_varint(out, known.map_or(0, |known| known.names.len() as u64 + 1));
    let Some(known) = known else { return };
    assert!(known.names.len() <= MAX_EXTRACTED_NAMES, "more names would be rejected when they are read");
    out.extend(known.rules.to_le_bytes());
    known.names.iter().for_each(|name| put_bytes(out, name.as_bytes()));
}

/// Reads the names of all fields that rules take from the texts, after the fields; `None` if they are not known. With
/// `is_last`, the block may end here.
pub(super) fn read_names(cursor: &mut Cursor<'_>, is_last: bool) -> Result<Option<ExtractedNames>, Malformed> {
    if is_last && cursor.remaining() == 0 {
        return Ok(None);
    }
    let count = cursor.count("number of names of search-time fields", MAX_EXTRACTED_NAMES + 1)?;
    let Some(count) = count.checked_sub(1) else { return Ok(None) };
    let rules = read_rules(cursor)?;
    let mut names: Vec<Arc<str>> = Vec::with_capacity(count);
    for _ in 0..count {
        names.push(cursor.text("name of a search-time field", MAX_EXTRACTION_NAME_BYTES)?.into());
    }
    match names.is_sorted_by(|name, next| name < next) {
        true => Ok(Some(ExtractedNames { rules, names: names.into() })),
        false => Err(Malformed::new("the names of search-time fields do not ascend")),
    }
}

fn read_rules(cursor: &mut Cursor<'_>) -> Result<u128, Malformed> {
    let mut rules = [0; RULES_BYTES];
    rules.copy_from_slice(cursor.take(RULES_BYTES, "rules of a search-time field")?);
    Ok(u128::from_le_bytes(rules))
}

/// Reads the fields, which follow the index-time fields; none if the block ends here.
pub(super) fn read(cursor: &mut Cursor<'_>, template_set: &TemplateSet) -> Result<Vec<StoredExtraction>, Malformed> {
    if cursor.remaining() == 0 {
        return Ok(Vec::new());
    }
    let first = template_set.text_columns().len();
    let mut extractions: Vec<StoredExtraction> = Vec::new();
    for _ in 0..cursor.count("number of stored search-time fields", MAX_STORED_EXTRACTIONS)? {
        let name = cursor.text("name of a search-time field", MAX_EXTRACTION_NAME_BYTES)?;
        let rules = read_rules(cursor)?;
        let columns = template_set.columns.len();
        let number = cursor.count("column of a search-time field", 2 * columns + SLICES_FORM as usize)?;
        if let Some(form) = number.checked_sub(2 * columns) {
            if extractions.iter().any(|stored| stored.rules == rules && *stored.name == *name) {
                return Err(Malformed(format!("the search-time field {name:?} is stored twice")));
            }
            let has_slices = form as u64 == SLICES_FORM;
            let (is_list, parts) = (form == 1, read_template_parts(cursor, template_set, has_slices)?);
            let values = StoredValues::Parts(TextParts { is_list, ..parts });
            extractions.push(StoredExtraction { name: name.into(), rules, values });
            continue;
        }
        let (column, is_list) = if number < columns { (number, false) } else { (number - columns, true) };
        if extractions.iter().any(|stored| stored.rules == rules && *stored.name == *name) {
            return Err(Malformed(format!("the search-time field {name:?} is stored twice")));
        }
        let values = match u32_of(column) {
            0 if !is_list => StoredValues::Absent,
            codes if is_code_column(template_set, codes) => {
                let parts = read_text_parts(cursor, template_set, codes)?;
                if is_list && parts.own.is_some() {
                    return Err(Malformed::new("lists of parts have values that are not in the texts"));
                }
                StoredValues::Parts(TextParts { is_list, ..parts })
            }
            column if is_list => StoredValues::Lists(column),
            column => StoredValues::Column(column),
        };
        let is_taken = |column: u32| {
            let mut known = extractions.iter().map(|stored| &stored.values);
            template_set.is_field_column(column)
                || known.any(|known| [known.first_column(), known.own_column()].contains(&Some(column)))
        };
        let is_possible = matches!(values, StoredValues::Parts(_)) || may_hold_a_field(template_set, u32_of(column));
        for column in [values.first_column(), values.own_column()].into_iter().flatten() {
            if (column as usize) < first || is_taken(column) || !is_possible {
                return Err(Malformed(format!("column {column} cannot contain a search-time field")));
            }
        }
        extractions.push(StoredExtraction { name: name.into(), rules, values });
    }
    let (mut codes, mut by_template) = (0, 0);
    for stored in &extractions {
        match &stored.values {
            StoredValues::Parts(parts) if parts.codes == TEXT_COLUMN => by_template += parts.parts.len(),
            StoredValues::Parts(parts) => codes += parts.parts.len(),
            _ => {}
        }
    }
    match codes <= MAX_PART_CODES && by_template <= MAX_PARTS_BY_TEMPLATE {
        true => Ok(extractions),
        false => Err(Malformed::new("search-time fields have too many codes")),
    }
}

/// Reads the parts of a field in the events of each template of the texts.
fn read_template_parts(
    cursor: &mut Cursor<'_>,
    template_set: &TemplateSet,
    has_slices: bool,
) -> Result<TextParts, Malformed> {
    let Some(ColumnKind::Templates(templates)) = template_set.columns.first().map(|column| &column.kind) else {
        return Err(Malformed::new("the texts have no templates"));
    };
    let count = cursor.count("sequences of parts of a search-time field", templates.len())?;
    let texts = template_set.text_columns().len();
    let mut sequences: Vec<Option<ValueParts>> = Vec::with_capacity(count);
    for _ in 0..count {
        let value = read_value(cursor, template_set, has_slices)?;
        let is_known = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) => true,
            TemplatePart::Variable(column) => (*column as usize) < texts,
        };
        if !value.iter().flat_map(|value| &*value.parts).all(is_known) {
            return Err(Malformed::new("a value of a search-time field cannot consist of these parts"));
        }
        sequences.push(value);
    }
    let mut parts = Vec::with_capacity(templates.len());
    for _ in 0..templates.len() {
        let number = cursor.count("sequence of parts", count.saturating_sub(1))?;
        let Some(sequence) = sequences.get(number) else {
            return Err(Malformed::new("a template has no sequence of parts"));
        };
        parts.push(sequence.clone());
    }
    Ok(TextParts { codes: TEXT_COLUMN, own: None, parts: parts.into(), is_list: false })
}

/// Reads the parts of a value and its slice; `None` if there is no value.
fn read_value(
    cursor: &mut Cursor<'_>,
    template_set: &TemplateSet,
    has_slices: bool,
) -> Result<Option<ValueParts>, Malformed> {
    let Some(mut value) = read_sequence(cursor, template_set)?.map(ValueParts::from) else { return Ok(None) };
    if has_slices {
        value.slice = read_slice(cursor)?;
    }
    match value.slice == TextSlice::Whole || matches!(*value.parts, [TemplatePart::Variable(_)]) {
        true => Ok(Some(value)),
        false => Err(Malformed::new("a slice needs exactly one variable")),
    }
}

/// Reads the parts of a value, which contain no column twice; `None` if there is no value.
fn read_sequence(cursor: &mut Cursor<'_>, template_set: &TemplateSet) -> Result<Option<Vec<TemplatePart>>, Malformed> {
    let Some(count) = cursor.count("parts of a value", MAX_VALUE_PARTS + 1)?.checked_sub(1) else { return Ok(None) };
    let found = read_parts(cursor, count, template_set.columns.len() - 1)?;
    let mut variables: Vec<u32> = Template { parts: found.clone() }.variables().collect();
    variables.sort_unstable();
    match variables.is_sorted_by(|one, next| one < next) {
        true => Ok(Some(found)),
        false => Err(Malformed::new("a value of a search-time field has a column twice")),
    }
}

/// Whether a column can be a column of codes, which has templates and no parent.
fn is_code_column(template_set: &TemplateSet, column: u32) -> bool {
    let column = template_set.columns.get(column as usize);
    column.is_some_and(|column| column.parent.is_none() && matches!(column.kind, ColumnKind::Templates(_)))
}

/// Reads the parts of each code of a column.
fn read_text_parts(cursor: &mut Cursor<'_>, template_set: &TemplateSet, codes: u32) -> Result<TextParts, Malformed> {
    let ColumnKind::Templates(templates) = &template_set.columns[codes as usize].kind else {
        return Err(Malformed::new("a column of codes has no templates"));
    };
    let own = templates.iter().flat_map(Template::variables).next();
    let texts = template_set.text_columns().len();
    let is_known = |part: &TemplatePart| match part {
        TemplatePart::Literal(_) => true,
        TemplatePart::Variable(column) => (*column as usize) < texts || Some(*column) == own,
    };
    let mut parts = Vec::with_capacity(templates.len());
    for template in templates.iter() {
        let Some(found) = read_sequence(cursor, template_set)? else {
            parts.push(None);
            continue;
        };
        // The column of values that are not in the texts has values for this code only.
        let is_own =
            |part: &TemplatePart| matches!((part, own), (TemplatePart::Variable(column), Some(own)) if *column == own);
        let is_right = match template.variables().next() {
            Some(_) => matches!(&*found, [part] if is_own(part)),
            None => found.iter().all(is_known) && !found.iter().any(is_own),
        };
        if !is_right {
            return Err(Malformed::new("a value of a search-time field cannot consist of these parts"));
        }
        parts.push(Some(found.into()));
    }
    Ok(TextParts { codes, own, parts: parts.into(), is_list: false })
}

/// Whether a column has values without templates, and has no parent or a parent that only shows which events have a
/// value.
fn may_hold_a_field(template_set: &TemplateSet, column: u32) -> bool {
    let of = |column: u32| template_set.columns.get(column as usize);
    let Some(values) = of(column).filter(|values| !matches!(values.kind, ColumnKind::Templates(_))) else {
        return false;
    };
    let Some(parent) = values.parent else { return true };
    let Some(above) = of(parent).filter(|above| above.parent.is_none()) else { return false };
    let with = Template { parts: vec![TemplatePart::Variable(column)] };
    matches!(&above.kind, ColumnKind::Templates(templates) if **templates == [Template::default(), with])
}

/// Chooses the stored search-time fields to keep, so that together they take at most `bytes_max`; returns a flag for
/// each field. Fields that are slow to extract come first, and small fields before large ones; fields of equal size are
/// in the order of their names. `stored` has the written blocks of each column, and `equal` the earlier column whose
/// values a column shares. Also returns the bytes of the fields that are kept.
pub(super) fn choose_within(
    template_slab: &TemplateSlab,
    is_slow: impl Fn(&StoredExtraction) -> bool,
    stored: &[StoredColumn],
    equal: &[Option<u32>],
    bytes_max: u64,
) -> (Vec<bool>, u64) {
    let first = template_slab.first_extraction_column();
    // Values that are shared with texts or index-time fields take no space.
    let place_and_bytes = |column: u32| -> Option<(u32, u64)> {
        let place = equal[column as usize].unwrap_or(column);
        (place as usize >= first).then(|| (place, stored[place as usize].stored_bytes(&mut |_| true)))
    };
    let parts_of = |field: &StoredExtraction| -> Vec<(u32, u64)> {
        template_slab.columns_of(field).map(u32_of).filter_map(place_and_bytes).collect()
    };
    let parts: Vec<Vec<(u32, u64)>> = template_slab.extractions.iter().map(parts_of).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let bytes_of = |at: usize| parts[at].iter().map(|(_, bytes)| *bytes).sum::<u64>();
    order.sort_by_cached_key(|at| {
        let field = &template_slab.extractions[*at];
        (!is_slow(field), bytes_of(*at), Arc::clone(&field.name))
    });
    let (mut keeps, mut total, mut written) = (vec![false; parts.len()], 0, BTreeSet::new());
    for at in order {
        let new = parts[at].iter().filter(|(place, _)| !written.contains(place));
        let bytes: u64 = new.map(|(_, bytes)| *bytes).sum();
        keeps[at] = total + bytes <= bytes_max;
        if keeps[at] {
            total += bytes;
            written.extend(parts[at].iter().map(|(place, _)| *place));
        }
    }
    (keeps, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<TextSlice, Malformed> {
        read_slice(&mut Cursor::new(bytes))
    }

    #[test]
    fn slices_round_trip_and_impossible_ones_are_rejected() {
        let largest = u32_of(MAX_SLICE_BYTES);
        let possible = [
            TextSlice::Whole,
            TextSlice::From(2),
            TextSlice::From(largest),
            TextSlice::First(1),
            TextSlice::Until(b':'),
            TextSlice::Until(b'~'),
            TextSlice::After(b'/'),
            TextSlice::After(b'_'),
        ];
        for slice in possible {
            let mut bytes = Vec::new();
            put_slice(slice, &mut bytes);
            assert_eq!(read(&bytes).unwrap(), slice);
        }
        for slice in [TextSlice::From(largest + 1), TextSlice::First(largest + 1), TextSlice::After(0xc3)] {
            let mut bytes = Vec::new();
            put_slice(slice, &mut bytes);
            read(&bytes).unwrap_err();
        }
        read(&[5, 0]).unwrap_err();
        read(&[1]).unwrap_err();
    }
}
