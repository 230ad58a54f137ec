//! Search-time fields that compaction stores: the choice of the fields, and their values.
//!
//! The templates of a slab locate most fields, so that reading them costs no more than reading a column. They do not
//! locate a field if a pattern spans free text, a transform takes pairs from another field, or a rule reads a JSON
//! string; each search would extract such a field from the texts. Compaction extracts these fields once and stores the
//! values with a digest of the rules. A search whose rules have the same digest reads the column
//! (`template_pages::stored_fields`).
//!
//! Fields are extracted as in searches ([`extract_fields`]), with the rules that apply without an app or a user. A user
//! whose own rules change a field does not use its column.
//!
//! Not here: when buckets are rewritten (store), the format of the columns (bucket), fields computed from others
//! (aliases, `EVAL-`, lookups), which searches compute from the columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, StringViewArray};
use bytes::Bytes;
use quarry_conf::PropsResolver;
use quarry_eval::messages::{Messages, enter_scope};
use quarry_event::template::{
    ExtractedField, ExtractedNames, Extraction, MAX_EXTRACTED_NAMES, SEPARATOR_BYTE, VALUE_SEPARATOR,
};
use quarry_event::{EventBatch, IndexedFields, Metadata, Page, PageColumns};
use quarry_stdx::number::u32_of;
use quarry_store::{FieldToStore, Segment, SlabExtraction};

use crate::derive::named_fields;
use crate::environment::ScanRules;
use crate::event_fields::is_intrinsic_field;
use crate::fields::{FieldRules, Projection, ShownFields, extract_fields};
use crate::template_pages;

/// Maximum number of sources of a slab; no fields are stored for a slab with more.
const SOURCES_MAX: usize = 256;
/// Maximum number of fields that are stored for a slab.
const FIELDS_MAX: usize = 256;
/// Number of events extracted at a time.
const CHUNK_EVENTS: usize = 4_096;
/// Maximum bytes of the collected values of all fields of a slab, per byte of the texts; beyond that, the largest
/// fields are not stored.
const ALL_BYTES_PER_TEXT_BYTE: usize = 2;
/// Maximum bytes of a field name.
const NAME_BYTES_MAX: usize = 256;
/// A field is stored only if its values take less than the bytes of the texts divided by this.
const TEXT_BYTES_PER_BYTE: usize = 2;

/// Extracts fields by given rules for compaction.
pub struct RuleExtraction {
    rules: Arc<FieldRules>,
    props: Arc<PropsResolver>,
}

impl RuleExtraction {
    /// Extracts by these rules.
    pub fn new(rules: &ScanRules) -> RuleExtraction {
        RuleExtraction { rules: Arc::clone(rules.of_searches()), props: Arc::clone(rules.props()) }
    }

    /// Fields that aliases, calculations and lookups of these sources name. A rule that takes names from the texts may
    /// produce any of these fields, even if the first page has none of them.
    fn named_fields(&self, metas: &[Metadata]) -> BTreeSet<String> {
        let rules_of = |meta: &Metadata| self.props.resolve(&meta.source, &meta.host, &meta.sourcetype).search_time;
        let mut names: BTreeSet<String> = metas.iter().flat_map(|meta| named_fields(&rules_of(meta))).collect();
        names.retain(|name| !is_intrinsic_field(name));
        names
    }
}

impl SlabExtraction for RuleExtraction {
    fn fields_to_store(&self, slab: &Arc<dyn Segment>) -> Vec<FieldToStore> {
        let (rules, messages) = (&*self.rules, Messages::default());
        let metas = slab.metas();
        if metas.len() > SOURCES_MAX {
            return Vec::new();
        }
        let produced = rules.produced_fields(&metas, &messages);
        // Names known from rules precede names found in texts.
        let mut of_texts = Vec::new();
        if produced.is_open {
            of_texts.extend(self.named_fields(&metas));
            of_texts.extend(names_of_first_page(slab, rules, &messages));
        }
        let mut names = BTreeSet::new();
        for name in produced.names.into_iter().chain(of_texts) {
            if names.len() < FIELDS_MAX {
                names.insert(name);
            }
        }
        match names.is_empty() {
            true => Vec::new(),
            false => template_pages::fields_to_store(slab, rules, &names, &messages),
        }
    }

    fn extract(&self, events: &EventBatch, names: &[String]) -> Extraction {
        extract_columns(events, names, &self.rules)
    }
}

/// The names of all fields in the first page of a slab.
fn names_of_first_page(slab: &Arc<dyn Segment>, rules: &FieldRules, messages: &Messages) -> Vec<String> {
    let Ok(page) = slab.read_page(0, PageColumns::ALL) else { return Vec::new() };
    let rows: Vec<u32> = (0..u32_of(page.len())).collect();
    let projection = Projection { all: true, ..Projection::default() };
    let found = extract_fields(&page, &rows, &projection, rules, &ShownFields::default(), messages);
    let names = found.unwrap_or_default().into_iter().map(|(name, _)| name);
    names.filter(|name| !is_intrinsic_field(name)).collect()
}

/// The values of one field collected so far.
struct Collected {
    field: ExtractedField,
    /// Whether the values can be stored: they are short enough, and no listed value contains the separator.
    is_storable: bool,
    /// Whether a value contains the separator of lists.
    has_separator: bool,
}

impl Collected {
    fn add(&mut self, start: usize, values: &dyn Array, bytes_max: usize) {
        if let Some(values) = values.as_any().downcast_ref::<StringViewArray>() {
            let values = (0u32..).zip(values.iter()).filter_map(|(row, value)| Some((row, value?)));
            values.for_each(|(row, value)| self.add_values(u32_of(start) + row, [value], bytes_max));
            return;
        }
        let lists = values.as_any().downcast_ref::<ListArray>();
        let Some((lists, texts)) = lists.and_then(|lists| Some((lists, lists.values().as_string_view_opt()?))) else {
            self.is_storable = false;
            return;
        };
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            let offsets = lists.value_offsets();
            let [first, end] = [offsets[row], offsets[row + 1]].map(|offset| usize::try_from(offset).unwrap_or(0));
            self.add_values(u32_of(start + row), (first..end).map(|at| texts.value(at)), bytes_max);
        }
    }

    /// Adds the values of one event.
    fn add_values<'v>(&mut self, row: u32, values: impl IntoIterator<Item = &'v str>, bytes_max: usize) {
        for (at, value) in values.into_iter().enumerate() {
            if self.field.bytes.len() + value.len() >= bytes_max {
                self.is_storable = false;
                return;
            }
            if at > 0 {
                self.field.is_list = true;
                self.field.bytes.push(SEPARATOR_BYTE);
            }
            self.has_separator |= value.contains(VALUE_SEPARATOR);
            self.field.bytes.extend_from_slice(value.as_bytes());
        }
        assert!(self.field.rows.last().is_none_or(|last| *last < row), "events are added in their order");
        self.field.rows.push(row);
        self.field.ends.push(u32_of(self.field.bytes.len()));
        assert_eq!(self.field.rows.len(), self.field.ends.len(), "each event with the field has its values");
        self.is_storable &= !(self.field.is_list && self.has_separator);
    }
}

/// The names of all fields found so far in the events of a slab.
struct CollectedNames {
    rules: u128,
    names: BTreeSet<Arc<str>>,
}

impl CollectedNames {
    /// Begins with the index-time fields, which are fields of the events too and precede extracted fields. `None` if no
    /// rule of these sources takes names from the texts, or if a rule takes names from an index-time field, whose
    /// values the extraction does not read.
    fn of(events: &EventBatch, metas: &[&Metadata], rules: &FieldRules, messages: &Messages) -> Option<CollectedNames> {
        let (digest, behind) = rules.digest_of_open_rules(metas, messages)?;
        let names: BTreeSet<Arc<str>> = events.fields.names().iter().cloned().collect();
        let reads_index_time = behind.iter().any(|name| names.contains(name.as_str()));
        (!reads_index_time).then_some(CollectedNames { rules: digest, names })
    }

    fn add(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.into());
        }
    }

    /// Whether the names are few and short enough to be stored.
    fn is_storable(&self) -> bool {
        self.names.len() <= MAX_EXTRACTED_NAMES && self.names.iter().all(|name| name.len() <= NAME_BYTES_MAX)
    }

    fn finish(self) -> Option<ExtractedNames> {
        let is_storable = self.is_storable();
        is_storable.then(|| ExtractedNames { rules: self.rules, names: self.names.into_iter().collect() })
    }
}

/// The values of the fields `names` that can be stored, and the names of all fields if rules take names from the texts.
fn extract_columns(events: &EventBatch, names: &[String], rules: &FieldRules) -> Extraction {
    let messages = Arc::new(Messages::default());
    let mut used = vec![false; events.metas.len()];
    events.meta.iter().for_each(|meta| used[*meta as usize] = true);
    let metas: Vec<&Metadata> = events.metas.iter().zip(used).filter(|(_, used)| *used).map(|(meta, _)| meta).collect();
    if metas.len() > SOURCES_MAX {
        return Extraction::default();
    }
    let mut collected = fields_to_collect(events, names, &metas, rules, &messages);
    let mut all_names = CollectedNames::of(events, &metas, rules, &messages);
    let bytes_max = events.raw.len() / TEXT_BYTES_PER_BYTE;
    // If matching a text takes too long, the pattern is abandoned: the text counts as not matching, and searches report
    // it.
    let _scope = enter_scope(Some(Arc::clone(&messages)));
    let before = messages.push_count();
    for start in (0..events.len()).step_by(CHUNK_EVENTS) {
        collected.retain(|field| field.is_storable);
        drop_largest(&mut collected, events.raw.len() * ALL_BYTES_PER_TEXT_BYTE);
        all_names = all_names.filter(CollectedNames::is_storable);
        let names = collected.iter().map(|known| known.field.name.to_string()).collect();
        let projection = Projection { names, all: all_names.is_some(), ..Projection::default() };
        let page = page_of(events, start, events.len().min(start + CHUNK_EVENTS));
        let rows: Vec<u32> = (0..u32_of(page.len())).collect();
        let found = extract_fields(&page, &rows, &projection, rules, &ShownFields::default(), &messages);
        let Ok(found) = found else { return Extraction::default() };
        if messages.push_count() != before {
            return Extraction::default();
        }
        for (name, values) in found {
            all_names.iter_mut().for_each(|names| names.add(&name));
            if let Some(known) = collected.iter_mut().find(|known| *known.field.name == *name) {
                known.add(start, values.as_ref(), bytes_max);
            }
        }
    }
    let fields = collected.into_iter().filter(|known| known.is_storable).map(|known| known.field).collect();
    Extraction { fields, names: all_names.and_then(CollectedNames::finish) }
}

/// Removes the largest fields until the values of the others take at most this many bytes.
fn drop_largest(collected: &mut Vec<Collected>, bytes_max: usize) {
    let mut bytes: usize = collected.iter().map(|known| known.field.bytes.len()).sum();
    while bytes > bytes_max {
        let sizes = collected.iter().map(|known| known.field.bytes.len()).enumerate();
        let Some((largest, size)) = sizes.max_by_key(|(_, size)| *size) else { return };
        collected.remove(largest);
        bytes -= size;
    }
}

/// The fields among `names` whose values depend only on the rules and the texts of these sources.
fn fields_to_collect(
    events: &EventBatch,
    names: &[String],
    metas: &[&Metadata],
    rules: &FieldRules,
    messages: &Messages,
) -> Vec<Collected> {
    let index_time: BTreeSet<&str> = events.fields.names().iter().map(|name| &**name).collect();
    let start = |name: &String| {
        let behind = rules.fields_behind(metas, name, messages);
        // Index-time values precede extracted values, so the digest would have to cover the index-time values.
        let is_free = !behind.iter().any(|name| index_time.contains(name.as_str()));
        let digest = rules.digest_of(metas.iter().copied(), name, messages)?;
        let field = ExtractedField {
            name: Arc::from(name.as_str()),
            rules: digest,
            rows: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
            is_list: false,
            is_slow: false,
        };
        is_free.then_some(Collected { field, is_storable: true, has_separator: false })
    };
    names.iter().filter_map(start).collect()
}

/// Events `start..end` of a slab as a page without index-time fields.
fn page_of(events: &EventBatch, start: usize, end: usize) -> Page {
    let first = if start == 0 { 0 } else { events.ends[start - 1] };
    let last = events.ends[end - 1];
    Page {
        first_row: 0,
        raw: Bytes::copy_from_slice(&events.raw[first as usize..last as usize]),
        ends: events.ends[start..end].iter().map(|end| end - first).collect(),
        time: events.time[start..end].to_vec(),
        index_time: vec![events.index_time; end - start],
        meta: events.meta[start..end].to_vec(),
        metas: events.metas.as_slice().into(),
        fields: IndexedFields::default(),
    }
}
