use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use quarry_event::template::{
    ColumnKind, ColumnValues, ExtractedField, FieldColumn, NumberFormat, PageColumn, StoredValues, Template,
    TemplatePart, TemplateSet, TextParts, ValueTraits,
};
use quarry_event::{EventBatch, Metadata, PageColumns};

use crate::block::tests::ENFORCE_CHECKSUMS;
use crate::columns::layout::{DictionaryLocation, Layout};
use crate::columns::text_dictionary::tests::prose_events;
use crate::columns::{PageFacts, SlabColumns, TemplatePage};
use crate::encode::tests::SPLITTER;
use crate::error::BlockPosition;
use crate::templates::{SlabColumn, SlabValues, TemplateSlab, VALUE_SET_BYTES_MAX, VALUE_SET_MAX};
use crate::{
    BucketReader, EncodeOptions, EncodedBucket, Locators, MAX_PAGE_EVENTS, MemoryObject, SlabSource, encode,
    encode_slabs, encode_verified, verify_against, verify_slabs,
};

/// A value of a column: the row it belongs to and its text.
type Value = (u32, Vec<u8>);

/// Splits texts at blanks and, inside words, at equals signs, with one template per number of parts. The kind of a
/// column follows from its values, so that every kind occurs.
pub(crate) fn split_by_words(events: &EventBatch) -> Option<TemplateSlab> {
    if events.is_empty() {
        return None;
    }
    let values: Vec<Value> = (0..events.len()).map(|row| (row as u32, events.raw(row).to_vec())).collect();
    let mut slab = TemplateSlab::default();
    add_templates(&mut slab, None, &values, events.len(), b' ');
    Some(slab)
}

pub(crate) fn add_templates(
    slab: &mut TemplateSlab,
    parent: Option<u32>,
    values: &[Value],
    events: usize,
    between: u8,
) {
    let number = slab.columns.len() as u32;
    let mut by_parts: BTreeMap<usize, Vec<Vec<Value>>> = BTreeMap::new();
    for (row, text) in values {
        let parts: Vec<&[u8]> = text.split(|byte| *byte == between).collect();
        let columns = by_parts.entry(parts.len()).or_insert_with(|| vec![Vec::new(); parts.len()]);
        parts.iter().zip(columns).for_each(|(part, column)| column.push((*row, part.to_vec())));
    }
    let code_of: BTreeMap<usize, u32> = by_parts.keys().copied().zip(0..).collect();
    let parts_of = |text: &[u8]| text.split(|byte| *byte == between).count();
    let codes = values.iter().map(|(_, text)| code_of[&parts_of(text)]).collect();
    let values_of_column = SlabValues::Templates { templates: Vec::new(), codes };
    slab.columns.push(column(parent, values_of_column, values, events));
    let mut made = Vec::new();
    for columns in by_parts.into_values() {
        let mut template = Template::default();
        for (at, column) in columns.into_iter().enumerate() {
            if at > 0 {
                template.parts.push(TemplatePart::Literal([between].into()));
            }
            template.parts.push(TemplatePart::Variable(slab.columns.len() as u32));
            add_column(slab, number, &column, events);
        }
        made.push(template);
    }
    if let SlabValues::Templates { templates, .. } = Arc::make_mut(&mut slab.columns[number as usize].values) {
        *templates = made;
    }
}

fn add_column(slab: &mut TemplateSlab, parent: u32, values: &[Value], events: usize) {
    let distinct: BTreeSet<&Vec<u8>> = values.iter().map(|(_, text)| text).collect();
    let format = NumberFormat::guess(&values[0].1);
    let numbers: Option<Vec<i64>> = format.and_then(|it| values.iter().map(|(_, text)| it.parse(text)).collect());
    if let (Some(format), Some(numbers)) = (format, numbers) {
        slab.columns.push(column(Some(parent), SlabValues::Numbers { format, numbers }, values, events));
    } else if values.iter().all(|(_, text)| text.contains(&b'=')) && slab.columns.len() < 40 {
        add_templates(slab, Some(parent), values, events, b'=');
    } else if distinct.len() * 2 <= values.len() {
        let codes = values.iter().map(|(_, text)| distinct.iter().position(|it| *it == text).unwrap() as u32).collect();
        let (bytes, ends) = joined(distinct.into_iter());
        slab.columns.push(column(Some(parent), SlabValues::Dictionary { bytes, ends, codes }, values, events));
    } else {
        let (bytes, ends) = joined(values.iter().map(|(_, text)| text));
        slab.columns.push(column(Some(parent), SlabValues::Texts { bytes, ends }, values, events));
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a Vec<u8>>) -> (Vec<u8>, Vec<u32>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for text in texts {
        bytes.extend_from_slice(text);
        ends.push(bytes.len() as u32);
    }
    (bytes, ends)
}

fn column(parent: Option<u32>, of: SlabValues, values: &[Value], events: usize) -> SlabColumn {
    let mut traits = ValueTraits::default();
    values.iter().enumerate().for_each(|(at, (_, text))| traits.add(text, at == 0));
    let before = |page: usize| values.partition_point(|(row, _)| (*row as usize) < page * MAX_PAGE_EVENTS) as u32;
    let page_starts = (0..=events.div_ceil(MAX_PAGE_EVENTS)).map(before).collect();
    if matches!(of, SlabValues::Dictionary { .. }) {
        let distinct: BTreeSet<&str> = values.iter().map(|(_, text)| std::str::from_utf8(text).unwrap()).collect();
        let bytes: usize = distinct.iter().map(|text| text.len()).sum();
        let is_few = distinct.len() <= VALUE_SET_MAX && bytes <= VALUE_SET_BYTES_MAX;
        traits.value_set = is_few.then(|| distinct.into_iter().map(Box::from).collect());
    }
    SlabColumn { parent, path: 0, values: of.into(), traits, page_starts }
}

pub(crate) fn batch_of(texts: impl IntoIterator<Item = String>) -> EventBatch {
    let mut batch = EventBatch { index_time: 7, ..EventBatch::default() };
    let text: Arc<str> = "x".into();
    batch.intern(&Metadata { index: text.clone(), host: text.clone(), source: text.clone(), sourcetype: text });
    for (at, text) in texts.into_iter().enumerate() {
        batch.push(text.as_bytes(), 1_795_248_000_000_000_000 + at as i64 * 250_000_000, 0);
    }
    batch
}

/// Events of several templates, with every kind of column and of number.
pub(crate) fn lines(count: usize) -> EventBatch {
    let time = |at: usize| {
        let mut out = Vec::new();
        let layout = quarry_event::template::TimeLayout::Iso { between: b'T', point: b'.', digits: 3, zulu: true };
        NumberFormat::Time(layout).write(1_795_248_000_000_000_000 + at as i64 * 250_000_000, &mut out);
        String::from_utf8(out).unwrap()
    };
    batch_of((0..count).map(|at| match at % 7 {
        0 => format!("user{} größe={} id={:08x}", at % 5, at % 3, at * 2_654_435_761 % 4_294_967_296),
        1 => String::new(),
        2 => format!("{} plain é{} text number{at} of many", at % 11, at * 7919 % 10_007),
        _ => format!("{} GET /path/{} {}ms x={} y=name{}", time(at), at % 50, at * 31 % 997, at, at % 4),
    }))
}

pub(crate) fn encoded_by_words(slabs: &[EventBatch], zstd_level: i32) -> EncodedBucket {
    SPLITTER.set(Some(split_by_words));
    let encoded =
        encode(slabs, &EncodeOptions { zstd_level, templates: true, locators: Locators::included_if(zstd_level > 1) })
            .unwrap();
    SPLITTER.set(None);
    encoded
}

pub(crate) fn open(encoded: &EncodedBucket) -> BucketReader {
    BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap()
}

#[test]
fn a_changed_text_in_any_block_of_a_page_is_found() {
    let count = MAX_PAGE_EVENTS + 300;
    let texts = |changed: Option<usize>| {
        let took_ms = |at: usize| if changed == Some(at) { 1 } else { 2 };
        [batch_of((0..count).map(|at| format!("user{} took {}ms", at % 5, took_ms(at))))]
    };
    let encoded = encoded_by_words(&texts(None), 1);
    verify_against(&encoded, &texts(None)).unwrap();
    for at in [0, 127, 128, 129, MAX_PAGE_EVENTS - 1, MAX_PAGE_EVENTS, count - 1] {
        assert!(verify_against(&encoded, &texts(Some(at))).is_err(), "event {at}");
    }
}

#[test]
fn template_slabs_round_trip() {
    for (count, level) in [(0, 1), (1, 1), (40, 1), (9_000, 1), (9_000, 3), (300, 9)] {
        let slabs = [lines(count), lines(count / 2)];
        let encoded = encoded_by_words(&slabs, level);
        verify_against(&encoded, &slabs).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        assert_eq!(reader.template_set(0).unwrap().is_some(), count > 0, "{count} events");
        let kinds = reader.stored_bytes_by_kind(0).unwrap();
        assert!(kinds.iter().all(|(kind, _)| *kind != "text" && *kind != "event length"), "{kinds:?}");
    }
}

#[test]
fn higher_effort_makes_slabs_smaller() {
    let slabs = [lines(20_000)];
    let [seal, effort] = [1, 9].map(|level| encoded_by_words(&slabs, level).object.len());
    assert!(effort < seal, "{effort} of {seal}");
}

#[test]
fn columns_return_the_values_of_their_rows() {
    let batch = lines(5_000);
    let encoded = encoded_by_words(std::slice::from_ref(&batch), 1);
    let reader = open(&encoded);
    let template_set = reader.template_set(0).unwrap().unwrap();
    let whole = split_by_words(&batch).unwrap();
    assert_eq!(template_set.columns.len(), whole.columns.len());
    for page in 0..2 {
        let mut opened = reader.template_page(0, page).unwrap().unwrap();
        for (number, column) in template_set.columns.iter().enumerate() {
            let read = opened.column(number as u32).unwrap();
            let expected = &whole.columns[number];
            let places = expected.page_starts[page] as usize..expected.page_starts[page + 1] as usize;
            match (&read.values, &*expected.values) {
                (ColumnValues::Codes(codes), SlabValues::Templates { codes: expected, .. })
                | (ColumnValues::Codes(codes), SlabValues::Dictionary { codes: expected, .. }) => {
                    assert_eq!(codes[..], expected[places]);
                }
                (ColumnValues::Numbers(numbers), SlabValues::Numbers { numbers: expected, .. }) => {
                    assert_eq!(numbers[..], expected[places]);
                }
                (ColumnValues::Texts { ends, .. }, SlabValues::Texts { .. }) => assert_eq!(ends.len(), places.len()),
                other => panic!("column {number}: {other:?}"),
            }
            assert_eq!(column.values, u64::from(*expected.page_starts.last().unwrap()));
            if let (ColumnKind::Dictionary { len }, SlabValues::Dictionary { bytes, .. }) =
                (&column.kind, &*expected.values)
            {
                let dictionary = reader.dictionary(0, number as u32).unwrap();
                assert_eq!((dictionary.len() as u32, &dictionary.bytes[..]), (*len, &bytes[..]));
                assert!(Arc::ptr_eq(&dictionary, &reader.dictionary(0, number as u32).unwrap()));
            }
            // The texts of many rows and the texts of few rows are rebuilt in different ways, which must agree.
            let all: Vec<u32> =
                (0..reader.slabs()[0].pages[page].events).filter(|row| read.value_index(*row).is_some()).collect();
            let texts = reader.template_page(0, page).unwrap().unwrap().texts(number as u32, &all).unwrap();
            for step in [2, 7, 1_000] {
                let rows: Vec<u32> = all.iter().copied().step_by(step).collect();
                let some = opened.texts(number as u32, &rows).unwrap();
                let same = (0..rows.len()).all(|at| some.get(at) == texts.get(at * step));
                assert!(same && some.ends.len() == rows.len(), "column {number}, every {step}th");
            }
        }
        assert!(opened.column(template_set.columns.len() as u32).is_err());
    }
}

/// The values of these rows of a column, selected from the whole column.
fn select_rows(whole: &PageColumn, wanted: &[u32]) -> PageColumn {
    let places: Vec<usize> = wanted.iter().filter_map(|row| whole.value_index(*row)).collect();
    let rows = wanted.iter().copied().filter(|row| whole.value_index(*row).is_some()).collect::<Vec<u32>>();
    let values = match &whole.values {
        ColumnValues::Codes(codes) => ColumnValues::Codes(places.iter().map(|at| codes[*at]).collect()),
        ColumnValues::Numbers(numbers) => ColumnValues::Numbers(places.iter().map(|at| numbers[*at]).collect()),
        ColumnValues::Texts { bytes, ends } => {
            let (mut some, mut some_ends) = (Vec::new(), Vec::new());
            for at in places {
                let start = if at == 0 { 0 } else { ends[at - 1] };
                some.extend_from_slice(&bytes[start as usize..ends[at] as usize]);
                some_ends.push(some.len() as u32);
            }
            ColumnValues::Texts { bytes: some.into(), ends: some_ends }
        }
    };
    PageColumn { rows: Some(rows.into()), values }
}

#[test]
fn point_reads_agree_with_the_whole_column() {
    let log = crate::rare_pages::tests::log(3, 6_000);
    for (batch, level) in [(lines(5_000), 1), (lines(5_000), 3), (log, 3), (prose_events(), 9)] {
        let encoded = encoded_by_words(std::slice::from_ref(&batch), level);
        let reader = open(&encoded);
        let events = |page: usize| reader.slabs()[0].pages[page].events;
        let columns = reader.template_set(0).unwrap().unwrap().columns.len() as u32;
        for (page, first, step) in [(0, 0, 911), (0, 4_090, 1), (1, 3, 83), (1, 17, 1), (0, 2_000, 2_000)] {
            let rows: Vec<u32> = (first..events(page)).step_by(step).take(16).collect();
            let mut few = reader.template_page(0, page).unwrap().unwrap();
            let mut whole = reader.template_page(0, page).unwrap().unwrap();
            for column in 0..columns {
                let expected = select_rows(&whole.column(column).unwrap(), &rows);
                let found = few.column_of_rows(column, &rows).unwrap();
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "column {column} of {rows:?}");
                let present = expected.rows.clone().unwrap_or_default();
                let all = whole.all_texts(column).unwrap();
                let texts = few.texts(column, &present).unwrap();
                let read = whole.column(column).unwrap();
                let same = |at: usize| texts.get(at) == all.get(read.value_index(present[at]).unwrap());
                assert!(texts.ends.len() == present.len() && (0..present.len()).all(same), "column {column}");
            }
            // A column that was read as a whole is returned as a whole, even if few rows are requested.
            few.column(columns - 1).unwrap();
            let kept = few.column_of_rows(columns - 1, &rows).unwrap();
            assert_eq!(kept.values.len(), whole.column(columns - 1).unwrap().values.len());
            assert!(few.column_of_rows(columns, &rows).is_err());
            let mut fresh = reader.template_page(0, page).unwrap().unwrap();
            assert_eq!(fresh.column_of_rows(0, &[events(page)]).unwrap().values.len(), 0);
        }
    }
}

#[test]
fn times_in_texts_take_no_space() {
    let mut events = batch_of(std::iter::empty());
    for at in 0..5_000u64 {
        let jitter = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
        let time = 1_795_248_000_000_000_000 + (at * 1_000_000_000 + jitter) as i64;
        // The differences of successive products take few values, so their squares are used.
        let product = at.wrapping_mul(0xd134_2543_de82_ef95) | 1;
        let id = product.wrapping_mul(product) >> 36;
        let text = format!(r#"{{"millis":{},"nanos":"{time}","id":{id}}}"#, time / 1_000_000);
        events.push(text.as_bytes(), time, 0);
    }
    let options = EncodeOptions { zstd_level: 9, templates: true, locators: Locators::included_if(true) };
    let encoded = encode(std::slice::from_ref(&events), &options).unwrap();
    verify_against(&encoded, &[events]).unwrap();
    let reader = open(&encoded);
    let bytes = reader.stored_bytes_by_column(0).unwrap();
    let set = reader.template_set(0).unwrap().unwrap();
    let bytes_of = |is_time: bool| -> Vec<u64> {
        let of_column = |(column, bytes): (&quarry_event::template::Column, &u64)| match column.kind {
            ColumnKind::Numbers { min, .. } => (is_time == (min > 1_000_000_000_000)).then_some(*bytes),
            _ => None,
        };
        set.columns.iter().zip(&bytes).filter_map(of_column).collect()
    };
    let of_times = bytes_of(true);
    assert!(of_times.len() == 2 && of_times.iter().all(|bytes| *bytes < 100), "{of_times:?}");
    assert!(bytes_of(false).iter().sum::<u64>() > 5_000 * 3, "the ids follow from nothing: {bytes:?}");
}

#[test]
fn reading_the_text_of_a_row_without_value_fails() {
    let encoded = encoded_by_words(&[lines(70)], 1);
    let mut page = open(&encoded).template_page(0, 0).unwrap().unwrap();
    let column = (0..).find(|column| page.column(*column).unwrap().rows.is_some()).unwrap();
    let rows = page.column(column).unwrap().rows.clone().unwrap();
    let missing = (0..70).find(|row| !rows.contains(row)).unwrap();
    let mut fresh = open(&encoded).template_page(0, 0).unwrap().unwrap();
    assert!(fresh.texts(column, &[missing]).is_err());
    assert_eq!(fresh.column_of_rows(column, &[missing]).unwrap().values.len(), 0);
    assert!(page.texts(column, &[missing]).is_err());
    let many: Vec<u32> = (0..70).collect();
    assert!(page.texts(column, &many).is_err());
}

#[test]
fn plain_slabs_report_no_columns() {
    let options = EncodeOptions { templates: false, ..EncodeOptions::default() };
    let reader = open(&encode(&[lines(10)], &options).unwrap());
    assert!(reader.template_set(0).unwrap().is_none());
    assert!(reader.template_page(0, 0).unwrap().is_none());
    assert!(reader.dictionary(0, 0).unwrap().is_empty());
    assert_eq!(reader.read_page(0, 0, PageColumns::ALL).unwrap().len(), 10);
}

/// Like [`split_by_words`], but a literal differs from the texts.
fn split_wrongly(events: &EventBatch) -> Option<TemplateSlab> {
    let mut slab = split_by_words(events)?;
    if let SlabValues::Templates { templates, .. } = Arc::make_mut(&mut slab.columns[0].values) {
        templates.last_mut()?.parts.push(TemplatePart::Literal(Box::from(*b"!")));
    }
    Some(slab)
}

#[test]
fn slabs_with_wrong_templates_are_stored_as_plain_text() {
    SPLITTER.set(Some(split_wrongly));
    let batch = lines(100);
    let sources = [SlabSource::of(&batch)];
    let wrong = encode_slabs(&sources, &EncodeOptions::default()).unwrap();
    let error = verify_slabs(&wrong, &sources).unwrap_err();
    assert!(error.to_string().contains("column layout"), "{error}");
    let (encoded, fault) = encode_verified(&sources, &EncodeOptions::default()).unwrap();
    assert!(fault.is_some());
    SPLITTER.set(None);
    let reader = open(&encoded);
    assert!(reader.template_set(0).unwrap().is_none());
    assert_eq!(reader.read_page(0, 0, PageColumns::ALL).unwrap().raw[..], batch.raw[..]);
}

/// Like [`split_by_words`], but a column's set of first bytes lacks bytes.
fn split_with_wrong_traits(events: &EventBatch) -> Option<TemplateSlab> {
    let mut slab = split_by_words(events)?;
    slab.columns[0].traits.firsts = quarry_event::template::ByteSet::of(b"u");
    Some(slab)
}

/// Like [`split_by_words`], but a listed value is wrong; it is as long as the correct value.
fn split_with_a_wrong_value_set(events: &EventBatch) -> Option<TemplateSlab> {
    let mut slab = split_by_words(events)?;
    let has_last = |texts: &[Box<str>]| texts.last().is_some_and(|text| !text.is_empty());
    let mut lists = slab.columns.iter_mut().filter_map(|column| column.traits.value_set.as_mut());
    let listed = lists.find(|texts| has_last(texts)).unwrap();
    let mut texts = listed.to_vec();
    let last = texts.last_mut().unwrap();
    *last = "~".repeat(last.len()).into();
    *listed = texts.into();
    Some(slab)
}

#[test]
fn check_detects_wrong_traits() {
    type Split = fn(&EventBatch) -> Option<TemplateSlab>;
    let splits: [(Split, &str); 2] = [
        (split_with_wrong_traits, "contradicts the traits of its column"),
        (split_with_a_wrong_value_set, "differ from its stored dictionary"),
    ];
    for (split, expected) in splits {
        SPLITTER.set(Some(split));
        let encoded = encode(&[lines(100)], &EncodeOptions::default()).unwrap();
        SPLITTER.set(None);
        let error = open(&encoded).check().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn listed_texts_are_read_without_their_pool() {
    let text = |at: usize| format!("{} took {}ms", ["read", "write"][at % 2], at * 7919 % 10_007);
    let encoded = encoded_by_words(&[batch_of((0..300).map(text))], 1);
    let reader = open(&encoded);
    let layout = &reader.columns(0).unwrap().unwrap().layout;
    let listed = layout.template_set.columns.iter().position(|column| column.traits.value_set.is_some()).unwrap();
    let Some(DictionaryLocation::Pooled { pool, .. }) = layout.stored[listed].dictionary else {
        panic!("a dictionary of a few bytes is in a pool")
    };
    let pool = layout.pools[pool as usize];
    let mut object = encoded.object.to_vec();
    object[pool.offset as usize + pool.stored_len as usize - 1] ^= 1;
    let damaged = BucketReader::open(Arc::new(MemoryObject(object.into()))).unwrap();
    let texts = damaged.dictionary(0, listed as u32).unwrap();
    assert_eq!(texts.iter().collect::<Vec<_>>(), [b"read".as_slice(), b"write"]);
    assert!(damaged.check().is_err(), "a check reads the pool");
}

#[test]
fn the_end_of_an_object_is_verified_block_by_block() {
    let encoded = encoded_by_words(&[lines(9_000)], 3);
    let (reader, len) = (open(&encoded), encoded.object.len());
    for start in [0, len / 2, len - 40] {
        assert_eq!(reader.verified_end(start as u64).unwrap(), encoded.object.slice(start..));
    }
    let pool = reader.columns(0).unwrap().unwrap().layout.pools[0].range();
    let mut object = encoded.object.to_vec();
    object[pool.end as usize - 1] ^= 1;
    let damaged = BucketReader::open(Arc::new(MemoryObject(object.into()))).unwrap();
    assert!(damaged.verified_end(pool.end).is_ok() && damaged.verified_end(pool.end - 1).is_err());
}

/// One template for each first letter, `a` and `b`, and a number in both.
fn split_by_letter(events: &EventBatch) -> Option<TemplateSlab> {
    let texts: Vec<Value> = (0..events.len()).map(|row| (row as u32, events.raw(row).to_vec())).collect();
    let template =
        |letter: &[u8]| Template { parts: vec![TemplatePart::Literal(letter.into()), TemplatePart::Variable(1)] };
    let codes = texts.iter().map(|(_, text)| u32::from(text[0] - b'a')).collect();
    let templates = vec![template(b"a"), template(b"b")];
    let values: Vec<Value> = texts.iter().map(|(row, text)| (*row, text[1..].to_vec())).collect();
    let format = NumberFormat::guess(&values[0].1)?;
    let numbers = values.iter().map(|(_, text)| format.parse(text)).collect::<Option<Vec<i64>>>()?;
    let mut slab = TemplateSlab::default();
    slab.columns.push(column(None, SlabValues::Templates { templates, codes }, &texts, texts.len()));
    slab.columns.push(column(Some(0), SlabValues::Numbers { format, numbers }, &values, texts.len()));
    Some(slab)
}

#[test]
fn templates_are_read_only_to_tell_which_rows_have_a_value() {
    let batch = batch_of((0..300).map(|at| format!("{}{}", ["a", "b"][at % 2], at * 7919 % 10_007)));
    SPLITTER.set(Some(split_by_letter));
    let encoded = encode(std::slice::from_ref(&batch), &EncodeOptions::default()).unwrap();
    SPLITTER.set(None);
    verify_against(&encoded, &[batch]).unwrap();
    let mut page = open(&encoded).template_page(0, 0).unwrap().unwrap();
    let numbers = page.column(1).unwrap();
    assert!(numbers.rows.is_none() && numbers.values.len() == 300);
    assert!(page.parent_of(1).is_none() && !page.has_column(0), "both templates have the number");
    // A template of `lines` has variables that the other templates lack.
    let mut page = open(&encoded_by_words(&[lines(70)], 1)).template_page(0, 0).unwrap().unwrap();
    let of_some = (1..).find(|column| page.column(*column).unwrap().rows.is_some()).unwrap();
    assert!(page.parent_of(of_some) == Some(0) && page.has_column(0));
}

fn without_counts(layout: &Layout) -> Layout {
    let template_set = TemplateSet { columns: layout.template_set.columns.clone(), ..TemplateSet::default() };
    Layout { template_set: Arc::new(template_set), ..layout.clone() }
}

#[test]
fn columns_with_few_distinct_values_are_counted() {
    let encoded = encoded_by_words(&[lines(9_000)], 1);
    let reader = open(&encoded);
    let template_set = reader.template_set(0).unwrap().unwrap();
    let kinds = |wanted: fn(&ColumnKind) -> bool| {
        template_set.counts.keys().filter(|at| wanted(&template_set.columns[**at as usize].kind)).count()
    };
    assert!(kinds(|kind| matches!(kind, ColumnKind::Templates(_))) > 0);
    assert!(kinds(|kind| matches!(kind, ColumnKind::Dictionary { .. })) > 0);
    assert!(kinds(|kind| matches!(kind, ColumnKind::Numbers { .. })) > 0);
    for page in 0..3 {
        let mut opened = reader.template_page(0, page).unwrap().unwrap();
        for (column, counts) in &template_set.counts {
            let values = &opened.column(*column).unwrap().values;
            assert_eq!(counts.page_counts(page).iter().map(|count| usize::from(*count)).sum::<usize>(), values.len());
            assert!(counts.matches_page(page, values));
            let other = ColumnValues::Codes(vec![0; values.len()]);
            assert!(
                !counts.matches_page(page, &other)
                    || counts.values().len() == 1
                    || *values == other
                    || values.is_empty()
            );
        }
    }
    reader.check().unwrap();
}

/// Changes single bytes of the decoded column layout block, because a compressed block with a changed byte usually
/// cannot be decoded. A changed block that is accepted must be readable. Returns the number of accepted blocks.
fn damage_layout(encoded: &EncodedBucket, is_older: &dyn Fn(&Layout, &Layout) -> bool) -> usize {
    ENFORCE_CHECKSUMS.set(false);
    let reader = open(encoded);
    let layout = &reader.columns(0).unwrap().unwrap().layout;
    let events: Vec<u32> = reader.slabs()[0].pages.iter().map(|page| page.events).collect();
    let mut raw = Vec::new();
    layout.put(&mut raw);
    assert_eq!(Layout::read(&raw, &events).as_ref(), Ok(layout));
    let mut accepted = 0;
    for at in 0..raw.len() {
        let cut = Layout::read(&raw[..at], &events);
        assert!(cut.is_err() || cut.is_ok_and(|cut| is_older(layout, &cut)));
        for value in [raw[at].wrapping_add(1), raw[at] ^ 0x80] {
            let mut changed = raw.clone();
            changed[at] = value;
            let Ok(layout) = Layout::read(&changed, &events) else { continue };
            accepted += 1;
            let columns = Arc::new(SlabColumns::from_layout(
                layout,
                BlockPosition::outside_slabs("column layout", 0),
                Arc::default(),
            ));
            let facts =
                PageFacts { page: 1, events: 104, raw_bytes: 4_000, time_at: None, times: Some([5; 104].into()) };
            let mut page = TemplatePage::new(columns.clone(), reader.source.clone(), facts);
            for column in 0..columns.layout.stored.len() as u32 {
                drop(columns.dictionary(&reader.source, column));
                let facts = PageFacts { page: 1, events: 104, raw_bytes: 4_000, time_at: None, times: None };
                let mut few = TemplatePage::new(columns.clone(), reader.source.clone(), facts);
                drop(few.column_of_rows(column, &[0, 50, 103]));
                drop(few.texts(column, &[1, 102]));
                if let Ok(read) = page.column(column) {
                    let rows: Vec<u32> = (0..104).filter(|row| read.value_index(*row).is_some()).collect();
                    drop(page.texts(column, &rows[..rows.len().min(2)]));
                    drop(page.texts(column, &rows));
                }
            }
        }
    }
    ENFORCE_CHECKSUMS.set(true);
    accepted
}

#[test]
fn damaged_layout_blocks_are_rejected_or_decoded() {
    // Older versions, which wrote no counts, ended the block after the columns.
    let accepted = damage_layout(&encoded_by_words(&[lines(4_200)], 1), &|layout, cut| *cut == without_counts(layout));
    assert!(accepted > 100, "{accepted}");
}

/// Values of a search-time field: the number of the row, in every `step`th event.
fn numbers_of_rows(name: &str, step: usize) -> ExtractedField {
    let mut field = ExtractedField {
        name: name.into(),
        rules: 1,
        rows: Vec::new(),
        ends: Vec::new(),
        bytes: Vec::new(),
        is_list: false,
        is_slow: true,
    };
    for row in (0..4_200u32).step_by(step) {
        field.rows.push(row);
        field.bytes.extend(row.to_string().bytes());
        field.ends.push(field.bytes.len() as u32);
    }
    field
}

fn encoded_with_extractions() -> EncodedBucket {
    let events = lines(4_200);
    let none = ExtractedField { rows: Vec::new(), ends: Vec::new(), bytes: Vec::new(), ..numbers_of_rows("none", 1) };
    let mut whole = ExtractedField { name: "whole".into(), ..none.clone() };
    for row in (0..4_200u32).filter(|row| row % 31 != 4) {
        whole.rows.push(row);
        whole.bytes.extend_from_slice(if row % 19 == 5 { "ü".as_bytes() } else { events.raw(row as usize) });
        whole.ends.push(whole.bytes.len() as u32);
    }
    let extractions = [numbers_of_rows("all", 1), numbers_of_rows("some", 3), none, whole];
    SPLITTER.set(Some(split_by_words));
    let slab = SlabSource { extractions: &extractions, ..SlabSource::of(&events) };
    let encoded = encode_slabs(&[slab], &EncodeOptions::default()).unwrap();
    SPLITTER.set(None);
    verify_slabs(&encoded, &[slab]).unwrap();
    let set = open(&encoded).template_set(0).unwrap().unwrap();
    assert_eq!(set.extractions.len(), 4);
    let StoredValues::Parts(parts) = set.extraction("whole", 1).unwrap() else { panic!("not stored as parts") };
    assert!(parts.own.is_some() && parts.parts.contains(&None));
    encoded
}

#[test]
fn damaged_lists_of_stored_fields_are_rejected_or_decoded() {
    let accepted = damage_layout(&encoded_with_extractions(), &|_, _| false);
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn stored_fields_have_columns_of_their_own() {
    let reader = open(&encoded_with_extractions());
    let layout = &reader.columns(0).unwrap().unwrap().layout;
    let events: Vec<u32> = reader.slabs()[0].pages.iter().map(|page| page.events).collect();
    let set = &layout.template_set;
    let [all, some] = ["all", "some"].map(|name| set.extraction(name, 1).unwrap().own_column().unwrap());
    let above = set.columns[some as usize].parent.unwrap();
    let a_text =
        set.columns.iter().position(|column| matches!(column.kind, ColumnKind::Numbers { .. })).unwrap() as u32;
    let read_with = |change: &dyn Fn(&mut TemplateSet)| {
        let mut set = TemplateSet::clone(set);
        change(&mut set);
        let mut raw = Vec::new();
        Layout { template_set: Arc::new(set), ..layout.clone() }.put(&mut raw);
        Layout::read(&raw, &events).map(|layout| layout.template_set.extractions.clone())
    };
    assert_eq!(read_with(&|_| {}).unwrap(), set.extractions);
    let all_at = set.extractions.iter().position(|stored| *stored.name == *"all").unwrap();
    for column in [some, above, a_text] {
        let changed = read_with(&|set| set.extractions[all_at].values = StoredValues::Column(column));
        assert!(changed.is_err(), "column {column}");
    }
    assert!(read_with(&|set| set.extractions[2].name = "all".into()).is_err(), "twice");
    assert!(read_with(&|set| set.fields.push(FieldColumn { name: "all".into(), column: all })).is_err());
    assert!(read_with(&|set| (set.extractions[2].name, set.extractions[2].rules) = ("all".into(), 2)).is_ok());
    let whole_at = set.extractions.iter().position(|stored| *stored.name == *"whole").unwrap();
    let with_parts = |change: &dyn Fn(&mut TextParts)| {
        read_with(&|set| {
            let StoredValues::Parts(parts) = &mut set.extractions[whole_at].values else {
                panic!("not stored as parts")
            };
            change(parts);
        })
    };
    let StoredValues::Parts(whole) = &set.extractions[whole_at].values else { panic!("not stored as parts") };
    let own = whole.own.unwrap();
    let set_last = |parts: &mut TextParts, value: &[TemplatePart]| {
        let last = parts.parts.len() - 1;
        Arc::make_mut(&mut parts.parts)[last] = Some(value.to_vec().into());
    };
    let variable = TemplatePart::Variable;
    assert!(with_parts(&|parts| set_last(parts, &[TemplatePart::Literal(b"a"[..].into()), variable(a_text)])).is_ok());
    assert!(with_parts(&|parts| set_last(parts, &[variable(a_text), variable(a_text)])).is_err(), "a column twice");
    assert!(with_parts(&|parts| set_last(parts, &[variable(own)])).is_err(), "no value for this code");
    assert!(with_parts(&|parts| set_last(parts, &[variable(all)])).is_err(), "a column of another field");
    assert!(with_parts(&|parts| parts.codes = above).is_err(), "the column of another field");
    assert!(with_parts(&|parts| parts.codes = 0).is_err(), "the texts");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn arbitrary_texts_round_trip(texts in prop::collection::vec("[a-cä0-9= .:]{0,30}", 0..200), level in 1i32..4) {
        let slabs = [batch_of(texts)];
        let encoded = encoded_by_words(&slabs, level);
        verify_against(&encoded, &slabs).unwrap();
        open(&encoded).check().unwrap();
    }
}
