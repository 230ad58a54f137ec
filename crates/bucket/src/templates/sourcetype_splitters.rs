//! Kinds of events: in a slab with several sourcetypes, each sourcetype is split in the way that suits its texts.
//!
//! If all sourcetypes were split in the same way, an outline for the sentences of one sourcetype would also split the
//! requests of another, and JSON events would get no schema in a slab in which they are the minority. A sample of each
//! sourcetype decides how its texts are split. Kinds do not share columns, so that the traits of a column describe the
//! values of one sourcetype.
//!
//! Not here: slabs with one sourcetype, and slabs whose kinds all have few whole-text templates, for which common
//! templates suffice.

use std::collections::BTreeMap;

use quarry_event::EventBatch;
use quarry_stdx::number::u8_of;
use xxhash_rust::xxh3::xxh3_64;

use super::builder::{Representation, SlabBuilder};
use super::splitter::{Splitter, TemplateLearner};
use super::trie::Span;
use super::{cells, objects, outline};

/// Texts sampled per sourcetype.
const SAMPLE_TEXTS: usize = 1_024;
/// Bytes of the texts sampled per sourcetype after which no further text is sampled.
const SAMPLE_BYTES: usize = 1 << 20;
/// Minimum percentage of a slab's events for a sourcetype to be a kind of its own; the remaining events form one more
/// kind.
const KIND_EVENTS_PERCENT_MIN: usize = 2;
/// Maximum number of sourcetypes that are kinds of their own; the most frequent sourcetypes are chosen.
const KINDS_MAX: usize = 8;
/// Whole-text templates are few if the sample has at least this many texts per template, and at most
/// `PLAIN_PERCENT_MAX` percent of texts without a template.
const TEXTS_PER_TEMPLATE_MIN: usize = 8;
const PLAIN_PERCENT_MAX: usize = 5;

/// The kind of each metadata code of the slab, and how each kind is split; `None` if fewer than two sourcetypes are
/// frequent, or if one way suits all kinds.
pub(super) fn learn_kinds(events: &EventBatch) -> Option<(Vec<u8>, Vec<TemplateLearner>)> {
    if events.metas.iter().all(|meta| Some(&meta.sourcetype) == events.metas.first().map(|first| &first.sourcetype)) {
        return None;
    }
    let mut counts = vec![0usize; events.metas.len()];
    events.meta.iter().for_each(|meta| counts[*meta as usize] += 1);
    let mut by_type: BTreeMap<&str, usize> = BTreeMap::new();
    for (meta, count) in events.metas.iter().zip(&counts) {
        *by_type.entry(&meta.sourcetype).or_default() += count;
    }
    let mut types: Vec<(&str, usize)> =
        by_type.into_iter().filter(|(_, count)| count * 100 >= events.len() * KIND_EVENTS_PERCENT_MIN).collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    types.truncate(KINDS_MAX);
    if types.len() < 2 {
        return None;
    }
    // The last kind has the remaining events.
    let kind_of = |sourcetype: &str| types.iter().position(|(known, _)| *known == sourcetype).unwrap_or(types.len());
    let of_metas: Vec<u8> = events.metas.iter().map(|meta| u8_of(kind_of(&meta.sourcetype))).collect();
    let mut cutters = Vec::new();
    let mut is_of_one_way = true;
    for (kind, (sourcetype, count)) in types.iter().enumerate() {
        let sample = sample_texts(events, *count, |meta| usize::from(of_metas[meta as usize]) == kind);
        let (splitter, schemas) =
            match cells::are_cells(events, *count, |meta| usize::from(of_metas[meta as usize]) == kind) {
                true => (Splitter::Cells, Vec::new()),
                false => choose_splitter(&sample),
            };
        is_of_one_way &= matches!(splitter, Splitter::Event) && schemas.is_empty();
        cutters.push(TemplateLearner::new(splitter, schemas, xxh3_64(sourcetype.as_bytes())));
    }
    cutters.push(TemplateLearner::new(Splitter::Event, Vec::new(), 0));
    (!is_of_one_way).then_some((of_metas, cutters))
}

/// Texts of one kind, evenly spaced.
fn sample_texts(events: &EventBatch, count: usize, is_of: impl Fn(u32) -> bool) -> EventBatch {
    let mut sample = EventBatch { metas: events.metas.iter().take(1).cloned().collect(), ..EventBatch::default() };
    let rows = events.meta.iter().enumerate().filter(|(_, meta)| is_of(**meta)).map(|(row, _)| row);
    for row in rows.step_by(count.div_ceil(SAMPLE_TEXTS).max(1)) {
        if sample.raw.len() > SAMPLE_BYTES {
            break;
        }
        sample.push(events.raw(row), 0, 0);
    }
    sample
}

/// Splitter for the texts of a kind, and the JSON schemas of these texts.
fn choose_splitter(sample: &EventBatch) -> (Splitter, Vec<objects::Schema>) {
    let schemas = objects::learn_schemas(sample);
    if !schemas.is_empty() || has_few_templates(sample) {
        return (Splitter::Event, schemas);
    }
    match outline::learning::learn_outline(sample) {
        Some(outline) => (Splitter::Outline(Box::new(outline)), schemas),
        None => (Splitter::Event, schemas),
    }
}

/// Whether the sample has few whole-text templates.
fn has_few_templates(sample: &EventBatch) -> bool {
    let mut builder = SlabBuilder::new(Vec::new());
    let mut start = 0;
    let spans = sample.ends.iter().map(|end| {
        let span = Span { start, len: end - start };
        start = *end;
        span
    });
    let spans: Vec<Span> = spans.collect();
    builder.feed(0, &sample.raw, &spans);
    let Some(Representation::Templates(texts)) = builder.columns.first().map(|column| &column.kind) else {
        return false;
    };
    texts.templates.len() * TEXTS_PER_TEMPLATE_MIN <= sample.len()
        && texts.plain_values * 100 <= sample.len() * PLAIN_PERCENT_MAX
}
