//! Search-time fields that a slab stores: their values survive, they take little space, and nothing else changes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use quarry_bucket::{
    BucketError, BucketReader, EncodeOptions, EncodedBucket, Locators, MAX_PAGE_EVENTS, MemoryObject, SlabSource,
    encode, encode_slabs, verify_slabs,
};
use quarry_event::template::{
    ColumnKind, ColumnValues, ExtractedField, ExtractedNames, StoredValues, TemplatePart, TemplateSet,
};
use quarry_event::{AnyColumn, EventBatch, FieldNames, Metadata, PageColumns, TermQuery};
use support::{any_batch, numbered_batch, open};

/// A field with these values.
fn field<T: AsRef<str>>(name: &str, values: impl IntoIterator<Item = (u32, T)>) -> ExtractedField {
    let mut field = ExtractedField {
        name: name.into(),
        rules: 7,
        rows: Vec::new(),
        ends: Vec::new(),
        bytes: Vec::new(),
        is_list: false,
        is_slow: true,
    };
    for (row, value) in values {
        field.rows.push(row);
        field.bytes.extend_from_slice(value.as_ref().as_bytes());
        field.ends.push(field.bytes.len() as u32);
    }
    field
}

/// Rows and values of a field.
fn values_of(field: &ExtractedField) -> Vec<(u32, String)> {
    let starts = std::iter::once(&0).chain(&field.ends);
    let values = starts.zip(&field.ends).map(|(start, end)| &field.bytes[*start as usize..*end as usize]);
    field.rows.iter().copied().zip(values.map(|value| String::from_utf8(value.to_vec()).unwrap())).collect()
}

fn encode_with(batch: &EventBatch, extractions: &[ExtractedField], zstd_level: i32) -> EncodedBucket {
    let options = EncodeOptions { zstd_level, templates: true, locators: Locators::included_if(zstd_level > 1) };
    let slabs = [SlabSource { extractions, ..SlabSource::of(batch) }];
    let encoded = encode_slabs(&slabs, &options).unwrap();
    verify_slabs(&encoded, &slabs).unwrap();
    open(&encoded).check().unwrap();
    encoded
}

fn template_set(encoded: &EncodedBucket) -> Arc<TemplateSet> {
    open(encoded).template_set(0).unwrap().unwrap()
}

fn names(encoded: &EncodedBucket) -> Vec<String> {
    template_set(encoded).extractions.iter().map(|stored| stored.name.to_string()).collect()
}

/// The values of a stored field, read page by page.
fn read_values(encoded: &EncodedBucket, name: &str) -> Vec<(u32, String)> {
    let reader = open(encoded);
    let set = reader.template_set(0).unwrap().unwrap();
    let stored = set.extraction(name, 7).unwrap();
    if matches!(stored, StoredValues::Parts(_)) {
        return read_parts(encoded, name);
    }
    let Some(column) = stored.own_column() else { return Vec::new() };
    assert!(set.is_extraction_column(column) && !set.is_field_column(column));
    let mut found = Vec::new();
    let mut start = 0;
    for (at, info) in reader.slabs()[0].pages.iter().enumerate() {
        let mut page = reader.template_page(0, at).unwrap().unwrap();
        let values = page.column(column).unwrap();
        let rows: Vec<u32> = (0..info.events).filter(|row| values.value_index(*row).is_some()).collect();
        assert_eq!(rows.len(), values.values.len());
        let texts = page.texts(column, &rows).unwrap();
        let text_of = |at: usize| String::from_utf8(texts.get(at).to_vec()).unwrap();
        found.extend(rows.iter().enumerate().map(|(at, row)| (start + row, text_of(at))));
        start += info.events;
    }
    found
}

fn mixed(row: u32) -> u64 {
    let mixed = (u64::from(row) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Events with long texts. Stored fields may take half of the size of the texts, so there is room for many fields.
fn long_batch(events: u32) -> EventBatch {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    for row in 0..events {
        let text = format!("GET {:016x}{:016x} took {row} ms", mixed(row), mixed(row + 1_000_000));
        batch.push(text.as_bytes(), i64::from(row), meta);
    }
    batch
}

#[test]
fn fields_of_every_kind_round_trip() {
    let events = 2 * MAX_PAGE_EVENTS as u32 + 300;
    let batch = long_batch(events);
    let given = [
        field("word", (0..events).map(|row| (row, ["yes", "no", "maybe ü"][row as usize % 3]))),
        field("number", (0..events).map(|row| (row, (row * 7 % 1_000).to_string()))),
        field("text", (0..events).step_by(50).map(|row| (row, format!("é{:x}", mixed(row))))),
        field("some", (0..events).filter(|row| row % 4 != 1).map(|row| (row, (row % 5).to_string()))),
        field("empty", (0..events).step_by(3).map(|row| (row, ""))),
        field("mostly empty", (0..events).map(|row| (row, if row % 100 == 7 { "x" } else { "" }))),
        field("late", [(events - 1, "日本")]),
        field("early", [(0, "a")]),
        field("none", [] as [(u32, &str); 0]),
        field("", (0..events).map(|row| (row, "constant"))),
    ];
    for zstd_level in [1, 3] {
        let encoded = encode_with(&batch, &given, zstd_level);
        let set = template_set(&encoded);
        assert_eq!(set.extractions.len(), given.len());
        for field in &given {
            assert_eq!(read_values(&encoded, &field.name), values_of(field), "{}", field.name);
            assert_eq!(set.extraction(&field.name, 8), None, "other rules");
        }
        assert_eq!(set.extraction("none", 7), Some(&StoredValues::Absent));
        assert_eq!(set.extraction("other", 7), None);
        let kind = |name: &str| &set.columns[set.extraction(name, 7).unwrap().own_column().unwrap() as usize].kind;
        assert!(matches!(kind("word"), ColumnKind::Dictionary { len: 3 }), "{:?}", kind("word"));
        assert!(matches!(kind("number"), ColumnKind::Numbers { .. }), "{:?}", kind("number"));
        assert!(matches!(kind("text"), ColumnKind::Texts), "{:?}", kind("text"));
        let word = set.extraction("word", 7).unwrap().own_column().unwrap();
        assert_eq!(set.counts[&word].page_counts(2).iter().map(|count| u32::from(*count)).sum::<u32>(), 300);
        assert!(!set.is_partial_field_column(word));
        assert!(set.is_partial_field_column(set.extraction("late", 7).unwrap().own_column().unwrap()));
        assert!(set.columns[set.text_columns().len()..].iter().any(|column| column.parent.is_none()));
    }
}

#[test]
fn stored_fields_are_neither_searched_for_words_nor_index_time_fields() {
    let mut batch = long_batch(5_000);
    let given = [field("word", (0..5_000).map(|row| (row, "absentword")))];
    for fields in [false, true] {
        if fields {
            for row in 0..5_000 {
                batch.fields.push(row, "word", &(row % 9).to_string());
            }
        }
        let (encoded, without) = (encode_with(&batch, &given, 3), encode_with(&batch, &[], 3));
        assert_eq!(encoded.filter, without.filter);
        let reader = open(&encoded);
        for query in [
            TermQuery::Token("absentword".into()),
            TermQuery::Field { name: "word".into(), value: "absentword".into() },
        ] {
            assert!(reader.candidate_pages(0, &query, &AnyColumn).unwrap().is_empty());
        }
        assert_eq!((reader.has_fields(0), reader.page_has_fields(0, 0)), (fields, fields));
        let page = reader.read_page(0, 0, PageColumns { fields: FieldNames::ALL, ..PageColumns::NONE }).unwrap();
        assert_eq!(page.fields, open(&without).read_page(0, 0, PageColumns::ALL).unwrap().fields);
        let set = template_set(&encoded);
        assert_eq!(set.field_column("word").is_some(), fields);
        assert_ne!(set.field_column("word"), set.extraction("word", 7).unwrap().own_column());
        assert_eq!(set.text_columns(), template_set(&without).text_columns());
    }
}

/// Bytes of the columns of texts, and of those of stored fields.
fn column_bytes(encoded: &EncodedBucket) -> (u64, u64) {
    let reader = open(encoded);
    let texts = reader.template_set(0).unwrap().unwrap().text_columns().len();
    let all = reader.stored_bytes_by_column(0).unwrap();
    (all[..texts].iter().sum(), all[texts..].iter().sum())
}

#[test]
fn the_largest_fields_are_not_stored() {
    let batch = long_batch(6_000);
    let ids = |name: &str, salt: u32, digits: usize| {
        field(name, (0..6_000).map(|row| (row, format!("{:016x}", mixed(row ^ salt))[..digits].to_owned())))
    };
    let small = field("small", (0..6_000).map(|row| (row, (row % 3).to_string())));
    for zstd_level in [1, 3] {
        let sizes = |given: &[ExtractedField]| {
            let encoded = encode_with(&batch, given, zstd_level);
            (names(&encoded), column_bytes(&encoded), encoded)
        };
        let (_, (texts, none), without) = sizes(&[]);
        assert!(texts > 6_000 * 16 && none == 0, "{texts}");
        let given = [ids("largest", 1, 12), small.clone(), ids("middle", 2, 6), ids("large", 3, 10)];
        let (kept, (_, bytes), _) = sizes(&given);
        assert_eq!(kept, ["small", "middle"]);
        assert!(bytes <= texts / 2 && bytes > 6_000 * 2, "{bytes} of {texts}");
        // A field that is slow to extract is stored before other fields, even if they are smaller.
        let by_speed: Vec<ExtractedField> =
            (given.iter().cloned()).map(|field| ExtractedField { is_slow: *field.name == *"large", ..field }).collect();
        assert_eq!(sizes(&by_speed).0, ["small", "large"]);
        // The object has the same bytes as an object without the fields that do not fit.
        let (_, _, encoded) = sizes(&given);
        assert_eq!(encoded.object, sizes(&[given[1].clone(), given[2].clone()]).2.object);
        let huge = field("huge", (0..6_000).map(|row| (row, format!("{:016x}{:016x}", mixed(row), mixed(row + 9)))));
        assert!(sizes(&[huge]).2.object == without.object, "no dead blocks");
        // Equal values are stored once and count once.
        let copies: Vec<ExtractedField> = (0..20).map(|at| ids(&format!("copy{at}"), 2, 6)).collect();
        let (kept, (_, bytes), _) = sizes(&copies);
        assert_eq!(kept.len(), 20);
        assert!(bytes <= texts / 2, "{bytes} of {texts}");
        let many: Vec<ExtractedField> = (0..40)
            .map(|at| field(&format!("n{at}"), (0..6_000).map(|row| (row, (mixed(row ^ at) % 4).to_string()))))
            .collect();
        let (kept, (_, bytes), _) = sizes(&many);
        assert!((3..39).contains(&kept.len()) && bytes <= texts / 2, "{} {bytes} {texts}", kept.len());
    }
}

/// Rows and values of a field that consists of parts of the texts, read as a search reads them.
fn read_parts(encoded: &EncodedBucket, name: &str) -> Vec<(u32, String)> {
    let reader = open(encoded);
    let set = reader.template_set(0).unwrap().unwrap();
    let StoredValues::Parts(parts) = set.extraction(name, 7).unwrap() else { panic!("{name} is not stored as parts") };
    let mut found = Vec::new();
    let mut start = 0;
    for (at, info) in reader.slabs()[0].pages.iter().enumerate() {
        let mut page = reader.template_page(0, at).unwrap().unwrap();
        let codes = page.column(parts.codes).unwrap();
        let ColumnValues::Codes(codes) = &codes.values else { panic!("the column has codes") };
        for (row, code) in (0..info.events).zip(codes) {
            let Some(value) = &parts.parts[*code as usize] else { continue };
            let mut text = Vec::new();
            for part in value.parts.iter() {
                match part {
                    TemplatePart::Literal(literal) => text.extend_from_slice(literal),
                    TemplatePart::Variable(column) => {
                        text.extend_from_slice(page.texts(*column, &[row]).unwrap().get(0))
                    }
                }
            }
            let value = value.slice.of(&text).unwrap().to_vec();
            found.push((start + row, String::from_utf8(value).unwrap()));
        }
        start += info.events;
    }
    found
}

#[test]
fn large_fields_that_are_parts_of_the_texts_take_little_space() {
    let (batch, events) = (long_batch(9_000), 9_000);
    // If a field were the variable alone, its column would equal that of the variable and share its blocks. The prefix
    // prevents this.
    let id = |row: u32| format!("T {:016x}{:016x}", mixed(row), mixed(row + 1_000_000));
    let own = |row: u32| if row % 50 == 3 { format!("é{:x}", mixed(row)) } else { id(row) };
    let given = [
        field("id", (0..events).map(|row| (row, id(row)))),
        field("some", (0..events).filter(|row| row % 3 > 0).map(|row| (row, id(row)))),
        field("longer", (0..events).map(|row| (row, format!("GE{} took", id(row))))),
        field("mixed", (0..events).filter(|row| row % 7 != 4).map(|row| (row, own(row)))),
        field("empty", (0..events).map(|row| (row, if row % 2 == 0 { id(row) } else { String::new() }))),
        field("foreign", (0..events).map(|row| (row, format!("{}{:x}", id(row + 7), mixed(row))))),
        field("inside", (0..events).map(|row| (row, id(row)[5..20].to_owned()))),
        field("small", (0..events).map(|row| (row, (row % 3).to_string()))),
    ];
    for zstd_level in [1, 3] {
        let encoded = encode_with(&batch, &given, zstd_level);
        assert_eq!(names(&encoded), ["id", "longer", "some", "mixed", "empty", "small"]);
        for field in &given[..5] {
            assert_eq!(read_parts(&encoded, &field.name), values_of(field), "{}", field.name);
        }
        let (texts, added) = column_bytes(&encoded);
        assert!(added * 10 < texts, "{added} beside {texts}");
        // The object has the same bytes as an object without the fields that do not fit.
        assert_eq!(encoded.object, encode_with(&batch, &[&given[..5], &given[7..]].concat(), zstd_level).object);
    }
}

/// Fields whose values consist of the same parts in all texts of a template, even if a value also occurs elsewhere in
/// its text.
#[test]
fn fields_that_templates_determine_take_no_space_in_the_events() {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    let events = 9_000;
    for row in 0..events {
        let (one, other) = (mixed(row) >> 59, mixed(row) & 31);
        let text = match row % 3 {
            0 => format!("took {one} of {other} ms for user-{}", mixed(row) >> 40),
            1 => format!("lost {one}, {other} and {one}"),
            _ => format!("idle since {other} s"),
        };
        batch.push(text.as_bytes(), i64::from(row), meta);
    }
    let (one, other) = (|row: u32| mixed(row) >> 59, |row: u32| mixed(row) & 31);
    let rows = |wanted: fn(u32) -> bool| (0..events).filter(move |row| wanted(*row));
    let given = [
        field("other", rows(|_| true).map(|row| (row, other(row).to_string()))),
        field("one", rows(|row| row % 3 < 2).map(|row| (row, one(row).to_string()))),
        field("user", rows(|row| row % 3 == 0).map(|row| (row, format!("user-{}", mixed(row) >> 40)))),
        field("verb", rows(|_| true).map(|row| (row, ["took", "lost", "idle"][row as usize % 3]))),
        field("empty", rows(|row| row % 3 == 2).map(|row| (row, ""))),
    ];
    // Present in only some events of a template, or at another position in one event.
    let partial = field("partial", rows(|row| row % 6 == 0).map(|row| (row, one(row).to_string())));
    let moved = field(
        "moved",
        rows(|_| true).map(|row| (row, if row == 4_000 { "lost".to_owned() } else { other(row).to_string() })),
    );
    for zstd_level in [1, 3] {
        let (without, encoded) = (encode_with(&batch, &[], zstd_level), encode_with(&batch, &given, zstd_level));
        assert_eq!(template_set(&encoded).columns.len(), template_set(&without).columns.len());
        assert!(encoded.object.len() < without.object.len() + 400, "{} {}", encoded.object.len(), without.object.len());
        let all = [&given[..], &[partial.clone(), moved.clone()]].concat();
        let encoded = encode_with(&batch, &all, zstd_level);
        for field in &all {
            assert_eq!(read_values(&encoded, &field.name), values_of(field), "{}", field.name);
        }
        let set = template_set(&encoded);
        let by_template = |name: &str| match set.extraction(name, 7) {
            Some(StoredValues::Parts(parts)) => parts.codes == 0,
            _ => false,
        };
        assert!(given.iter().all(|field| by_template(&field.name)));
        assert!(!by_template("partial") && !by_template("moved"));
    }
}

/// Fields whose values begin or end inside a variable: digits after `0x`, a file before a colon. A field of few values
/// inside nearly unique texts keeps its own column, because the text of each event would have to be read.
#[test]
fn slices_of_variables_take_no_space_in_the_events() {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    let events = 9_000;
    let result = |row: u32| ["TCP_HIT", "TCP_MISS", "TCP_DENIED", "UDP_HIT"][mixed(row) as usize % 4];
    let status = |row: u32| 200 + mixed(row + 3) % 5;
    let file = |row: u32| ["main.go", "\u{fc}ber.go", "sync.go"][mixed(row + 5) as usize % 3];
    let line = |row: u32| mixed(row + 5) % 90 + 10;
    let id = |row: u32| format!("{:012x}", mixed(row + 7) >> 16);
    let user = |row: u32| mixed(row + 9) % 4;
    for row in 0..events {
        let text = format!(
            "{}/{} {}:{} conn 0x{} mail k{}q{:014x}",
            result(row),
            status(row),
            file(row),
            line(row),
            id(row),
            user(row),
            mixed(row + 11)
        );
        batch.push(text.as_bytes(), i64::from(row), meta);
    }
    let all = |value: &dyn Fn(u32) -> String| (0..events).map(|row| (row, value(row))).collect::<Vec<_>>();
    let sliced = [
        field("result", all(&|row| result(row).to_owned())),
        field("letter", all(&|row| result(row)[..1].to_owned())),
        field("status", all(&|row| status(row).to_string())),
        field("file", all(&|row| file(row).to_owned())),
        field("line", all(&|row| line(row).to_string())),
        field("id", all(&id)),
    ];
    let others = [
        field("user", all(&|row| format!("k{}", user(row)))),
        field("moved", all(&|row| if row == 4_000 { id(row)[1..].to_owned() } else { id(row) })),
        field("partial", (0..events).filter(|row| row % 6 == 0).map(|row| (row, result(row)))),
        // A whole variable, which a few events lack, as if a pattern did not match them.
        field(
            "mostly",
            (0..events).filter(|row| row % 500 != 7).map(|row| (row, format!("{}/{}", result(row), status(row)))),
        ),
    ];
    for zstd_level in [1, 3] {
        let (without, encoded) = (encode_with(&batch, &[], zstd_level), encode_with(&batch, &sliced, zstd_level));
        let set = template_set(&encoded);
        for field in &sliced {
            match set.extraction(&field.name, 7) {
                Some(StoredValues::Parts(parts)) => assert_eq!(parts.codes, 0, "{}", field.name),
                values => panic!("{}: {values:?}", field.name),
            }
        }
        assert_eq!(set.columns.len(), template_set(&without).columns.len());
        assert!(encoded.object.len() < without.object.len() + 400, "{} {}", encoded.object.len(), without.object.len());
        let given = [&sliced[..], &others].concat();
        let encoded = encode_with(&batch, &given, zstd_level);
        for field in &given {
            assert_eq!(read_values(&encoded, &field.name), values_of(field), "{}", field.name);
        }
        let set = template_set(&encoded);
        let codes = |name: &str| match set.extraction(name, 7).unwrap() {
            StoredValues::Parts(parts) => Some(parts.codes),
            _ => None,
        };
        assert_eq!(others.each_ref().map(|field| codes(&field.name).is_some()), [false, false, false, true]);
        assert_ne!(codes("mostly"), Some(0), "codes of events, not of templates");
    }
}

#[test]
fn lists_of_nearly_unique_values_are_parts_of_the_texts() {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    let events = 9_000;
    let id = |row: u32, salt: u32| format!("{:08x}", mixed(row + salt) >> 32);
    for row in 0..events {
        let text = match row % 3 {
            0 => format!("logon by 0x{} as 0x{} done", id(row, 0), id(row, 1 << 20)),
            1 => format!("logoff by 0x{} done", id(row, 0)),
            _ => format!("idle {row} s"),
        };
        batch.push(text.as_bytes(), i64::from(row), meta);
    }
    let list = |name: &str, of: &dyn Fn(u32) -> Option<Vec<String>>| ExtractedField {
        is_list: true,
        ..field(name, (0..events).filter_map(|row| Some((row, of(row)?.join("\0")))))
    };
    let ids = |row: u32| match row % 3 {
        0 => Some(vec![format!("0x{}", id(row, 0)), format!("0x{}", id(row, 1 << 20))]),
        1 => Some(vec![format!("0x{}", id(row, 0))]),
        _ => None,
    };
    let given = [
        list("ids", &ids),
        // The parts differ between events of a template.
        list("some", &|row| ids(row).filter(|_| row % 5 > 0)),
        list("reversed", &|row| ids(row).map(|ids| ids.into_iter().rev().collect())),
        // Two values of an event are in the same column, or a value is not in the text.
        list("twice", &|row| ids(row).map(|ids| [&ids[..], &ids[..1]].concat())),
        list("foreign", &|row| ids(row + 3)),
        // Repeated lists stay in a dictionary.
        list("few", &|row| Some(vec![(row % 3).to_string(), (row % 2).to_string()])),
    ];
    for zstd_level in [1, 3] {
        let encoded = encode_with(&batch, &given, zstd_level);
        let set = template_set(&encoded);
        let stored_as = |name: &str| match set.extraction(name, 7) {
            Some(StoredValues::Parts(parts)) if parts.is_list => {
                Some(if parts.codes == 0 { "templates" } else { "codes" })
            }
            Some(StoredValues::Lists(_)) => Some("lists"),
            other => other.map(|_| "other"),
        };
        let kinds: Vec<Option<&str>> = given.iter().map(|field| stored_as(&field.name)).collect();
        assert_eq!(kinds[..3], [Some("templates"), Some("codes"), Some("templates")], "{kinds:?}");
        assert!(kinds[3..5].iter().all(|kind| kind.is_none_or(|kind| kind == "lists")), "{kinds:?}");
        assert_eq!(kinds[5], Some("lists"));
        for field in &given[..3] {
            assert_eq!(read_parts(&encoded, &field.name), values_of(field), "{}", field.name);
        }
    }
}

#[test]
fn values_and_rows_that_are_stored_already_take_no_space() {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    for row in 0..20_000 {
        let text = match mixed(row) % 2 {
            0 => format!("took {} ms", mixed(row) >> 34),
            _ => format!("failed after {} tries", mixed(row) >> 40),
        };
        batch.push(text.as_bytes(), i64::from(row), meta);
    }
    let with_time: Vec<(u32, String)> = (0..20_000)
        .filter(|row| mixed(*row).is_multiple_of(2))
        .map(|row| (row, (mixed(row) >> 34).to_string()))
        .collect();
    let given: Vec<ExtractedField> = (0..50)
        .map(|at| field(&format!("ms{at}"), with_time.iter().map(|(row, value)| (*row, value.as_str()))))
        .collect();
    for zstd_level in [1, 3] {
        let (without, with) = (encode_with(&batch, &[], zstd_level), encode_with(&batch, &given, zstd_level));
        assert_eq!(names(&with).len(), 50);
        assert_eq!(read_values(&with, "ms7"), with_time);
        let added = with.object.len() - without.object.len();
        assert!(added < 50 * 60, "{added} bytes");
    }
}

#[test]
fn slabs_without_columns_and_fields_beyond_a_limit_store_nothing() {
    let mut batch = long_batch(100);
    let word = field("word", (0..100).map(|row| (row, "a")));
    let long_name = field(&"n".repeat(2_000), (0..100).map(|row| (row, "a")));
    assert_eq!(encode_with(&batch, &[long_name], 1).object, encode_with(&batch, &[], 1).object);
    assert_eq!(names(&encode_with(&batch, &[word.clone(), word.clone()], 1)), ["word"], "the same rules");
    let other = ExtractedField { rules: 8, ..word.clone() };
    assert_eq!(names(&encode_with(&batch, &[word.clone(), other], 1)), ["word", "word"]);
    let many: Vec<ExtractedField> = (0..300).map(|at| field(&format!("n{at}"), [] as [(u32, &str); 0])).collect();
    assert_eq!(names(&encode_with(&batch, &many, 1)).len(), 256);
    batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    for row in 0..100 {
        let text: String = (0..40).map(|at| char::from(b'!' + (mixed(row * 64 + at) % 90) as u8)).collect();
        batch.push(text.as_bytes(), 0, meta);
    }
    let plain = EncodeOptions { templates: false, ..EncodeOptions::default() };
    let slabs = [SlabSource { extractions: std::slice::from_ref(&word), ..SlabSource::of(&batch) }];
    let encoded = encode_slabs(&slabs, &plain).unwrap();
    verify_slabs(&encoded, &slabs).unwrap();
    assert_eq!(encoded.object, encode(std::slice::from_ref(&batch), &plain).unwrap().object);
}

#[test]
fn inconsistent_fields_are_rejected() {
    let batch = numbered_batch(10);
    let given = || field("word", (0..10).map(|row| (row, "é")));
    let changes: [fn(&mut ExtractedField); 7] = [
        |field| field.rows[3] = 2,
        |field| field.rows[9] = 10,
        |field| field.ends[3] = 100,
        |field| field.ends[3] = 7,
        |field| field.bytes.push(b'x'),
        |field| field.bytes[4] = 0xff,
        |field| field.ends.truncate(9),
    ];
    for change in changes {
        let mut changed = given();
        change(&mut changed);
        let slabs = [SlabSource { extractions: &[changed], ..SlabSource::of(&batch) }];
        let outcome = encode_slabs(&slabs, &EncodeOptions::default());
        assert!(matches!(outcome, Err(BucketError::InvalidBatch { slab: 0, .. })), "{outcome:?}");
    }
}

#[test]
fn names_are_stored_and_verified() {
    let batch = long_batch(500);
    let known = |names: &[&str]| ExtractedNames { rules: 11, names: names.iter().map(|name| (*name).into()).collect() };
    let word = [field("word", (0..500).map(|row| (row, "a")))];
    for extractions in [&word[..], &[]] {
        for names in [&["", "a", "word", "é"][..], &[]] {
            let given = known(names);
            let source = |names| SlabSource { extractions, extracted_names: names, ..SlabSource::of(&batch) };
            let encoded = encode_slabs(&[source(Some(&given))], &EncodeOptions::default()).unwrap();
            verify_slabs(&encoded, &[source(Some(&given))]).unwrap();
            assert_eq!(template_set(&encoded).extracted_names.as_ref(), Some(&given));
            for other in [Some(&known(&["a"])), Some(&ExtractedNames { rules: 12, ..given.clone() }), None] {
                let outcome = verify_slabs(&encoded, &[source(other)]);
                assert!(matches!(outcome, Err(BucketError::Mismatch { .. })), "{outcome:?}");
            }
        }
    }
    let many: Vec<String> = (0..2_000).map(|at| format!("n{at:04}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for names in [&["b", "a"][..], &["a", "a"], &many, &[&"n".repeat(2_000)]] {
        let slabs = [SlabSource { extracted_names: Some(&known(names)), ..SlabSource::of(&batch) }];
        let outcome = encode_slabs(&slabs, &EncodeOptions::default());
        assert!(matches!(outcome, Err(BucketError::InvalidBatch { slab: 0, .. })), "{outcome:?}");
    }
}

#[test]
fn verification_detects_changed_values_rows_and_rules() {
    let batch = long_batch(5_000);
    let given = [
        field("word", (0..5_000).map(|row| (row, ["a", "b"][row as usize % 2]))),
        field("some", (0..5_000).step_by(9).map(|row| (row, "é"))),
        field("none", [] as [(u32, &str); 0]),
    ];
    let encoded = encode_with(&batch, &given, 1);
    let changes: [fn(&mut Vec<ExtractedField>); 6] = [
        |given| given[0].bytes[4_999] = b'c',
        |given| given[1].rows[500] += 1,
        |given| given[0].rules = 9,
        |given| given[2] = field("none", [(4, "x")]),
        |given| drop(given.remove(1)),
        |given| {
            given[1].rows.pop();
            given[1].ends.pop();
            let len = given[1].bytes.len() - "é".len();
            given[1].bytes.truncate(len);
        },
    ];
    for change in changes {
        let mut changed = given.to_vec();
        change(&mut changed);
        let slabs = [SlabSource { extractions: &changed, ..SlabSource::of(&batch) }];
        assert!(matches!(verify_slabs(&encoded, &slabs), Err(BucketError::Mismatch { .. })));
    }
    let mut more = given.to_vec();
    more.push(field("left out", [(1, "x")]));
    verify_slabs(&encoded, &[SlabSource { extractions: &more, ..SlabSource::of(&batch) }]).unwrap();
}

/// Flipping a bit of any byte of a bucket with stored fields is detected by opening it or by `check`, and reading the
/// fields does not panic.
#[test]
fn flipped_bytes_are_detected() {
    let batch = long_batch(40);
    let given = [
        field("word", (0..40).map(|row| (row, ["a", "b"][row as usize % 2]))),
        field("some", (0..40).step_by(9).map(|row| (row, "é"))),
        field("none", [] as [(u32, &str); 0]),
    ];
    let object = encode_with(&batch, &given, 1).object;
    for at in 0..object.len() {
        let mut flipped = object.to_vec();
        flipped[at] ^= 1 << (at % 8);
        let Ok(reader) = BucketReader::open(Arc::new(MemoryObject(flipped.into()))) else { continue };
        assert!(reader.check().is_err(), "byte {at} of {}", object.len());
        let Ok(Some(set)) = reader.template_set(0) else { continue };
        let Ok(Some(mut page)) = reader.template_page(0, 0) else { continue };
        for column in set.extractions.iter().filter_map(|stored| stored.values.own_column()) {
            drop(page.column(column));
            drop(page.texts(column, &[0, 9]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn arbitrary_values_round_trip(
        batch in any_batch(40),
        values in prop::collection::vec(prop::collection::vec((any::<u32>(), any::<String>()), 0..40), 0..5),
        level in 1i32..4,
    ) {
        let rows = batch.len() as u32;
        let given: Vec<ExtractedField> = values.into_iter().enumerate().map(|(at, values)| {
            let mut values: Vec<(u32, String)> =
                values.into_iter().filter(|_| rows > 0).map(|(row, value)| (row % rows, value)).collect();
            values.sort();
            values.dedup_by_key(|value| value.0);
            field(&format!("f{at}"), values)
        }).collect();
        encode_with(&batch, &given, level);
    }
}
