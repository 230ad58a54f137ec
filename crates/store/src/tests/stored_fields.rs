//! Merged buckets store the search-time fields that an extraction yields, and nothing that it does can prevent a merge.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_bucket::{BucketEncoder, BucketError, SlabSource};
use quarry_event::template::{ColumnValues, ExtractedField, Extraction, StoredValues, TemplatePart};
use quarry_event::{EventBatch, PageColumns};
use tempfile::tempdir;

use super::compaction::{objects, of_index, seal};
use super::{all, append, expected, open, small, texts};
use crate::{FieldToStore, SlabExtraction, Snapshot, Store, StoreOptions};

/// Digest of the rules of the fields.
const RULES: u128 = 1 << 100 | 5;

/// Behaviour of an extraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Right,
    AsksForNothing,
    PanicsWhenAsked,
    PanicsWhenExtracting,
    WrongRows,
}

/// Extracts the digits after `number=`, by hand. They are a column of the texts, so storing them takes almost no space.
#[derive(Debug)]
struct Numbers {
    behaviour: Behaviour,
    asked: AtomicUsize,
}

impl Numbers {
    fn new(behaviour: Behaviour) -> Arc<Numbers> {
        Arc::new(Numbers { behaviour, asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn number_in(text: &str) -> Option<&str> {
    let rest = text.split_once("number=")?.1;
    Some(&rest[..rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len())])
}

impl SlabExtraction for Numbers {
    fn fields_to_store(&self, slab: &Arc<dyn crate::Segment>) -> Vec<FieldToStore> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_ne!(self.behaviour, Behaviour::PanicsWhenAsked, "on purpose");
        let page = slab.read_page(0, PageColumns::ALL).unwrap();
        assert_eq!(page.len(), slab.pages()[0].events as usize);
        assert!(slab.template_set().unwrap().is_some());
        if self.behaviour == Behaviour::AsksForNothing || slab.index() == "other" {
            return Vec::new();
        }
        ["number", "absent"].map(|name| FieldToStore { name: name.to_owned(), is_slow: true }).into()
    }

    fn extract(&self, events: &EventBatch, names: &[String]) -> Extraction {
        assert_ne!(self.behaviour, Behaviour::PanicsWhenExtracting, "on purpose");
        assert_eq!(names, ["absent", "number"]);
        let none = ExtractedField {
            name: "absent".into(),
            rules: RULES,
            rows: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
            is_list: false,
            is_slow: false,
        };
        let mut number = ExtractedField { name: "number".into(), ..none.clone() };
        for row in 0..events.len() {
            let text = std::str::from_utf8(events.raw(row)).unwrap();
            let Some(value) = number_in(text) else { continue };
            number.rows.push(row as u32);
            number.bytes.extend(value.bytes());
            number.ends.push(number.bytes.len() as u32);
        }
        if self.behaviour == Behaviour::WrongRows {
            number.rows[0] = 1 << 20;
        }
        Extraction { fields: vec![none, number], names: None }
    }
}

fn store_fields(store: &Store, extraction: &Arc<Numbers>) {
    let extraction = Arc::clone(extraction);
    store.store_extractions(Box::new(move || Some(Arc::clone(&extraction) as Arc<dyn SlabExtraction>)));
}

/// The numbers that the snapshot's slabs store, after checking that they are right; `None` if a slab stores none.
fn stored_numbers(snapshot: &Snapshot) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    for segment in &snapshot.segments {
        let set = segment.template_set().unwrap().unwrap();
        assert_eq!(set.extraction("number", RULES + 1), None);
        if set.extractions.is_empty() {
            return None;
        }
        assert_eq!(set.extraction("absent", RULES), Some(&StoredValues::Absent));
        let StoredValues::Parts(parts) = set.extraction("number", RULES).unwrap() else {
            panic!("not parts of the texts")
        };
        for (at, info) in segment.pages().iter().enumerate() {
            let read = segment.read_page(at, PageColumns::ALL).unwrap();
            if !segment.has_templates(at) {
                return None;
            }
            let mut page = segment.template_page(at).unwrap().unwrap();
            let codes = page.column(parts.codes).unwrap();
            let ColumnValues::Codes(codes) = &codes.values else { panic!("the column has codes") };
            for (row, code) in (0..info.events).zip(codes) {
                let text = String::from_utf8(read.raw(row as usize).to_vec()).unwrap();
                let expected = number_in(&text);
                let found = parts.parts[*code as usize].as_ref().map(|value| {
                    let text_of = |part: &TemplatePart| match part {
                        TemplatePart::Literal(literal) => literal.to_vec(),
                        TemplatePart::Variable(column) => page.texts(*column, &[row]).unwrap().get(0).to_vec(),
                    };
                    let text: Vec<u8> = value.parts.iter().flat_map(text_of).collect();
                    String::from_utf8(value.slice.of(&text).unwrap().to_vec()).unwrap()
                });
                assert_eq!(found.as_deref(), expected);
                numbers.extend(found.map(|value| value.parse::<u64>().unwrap()));
            }
        }
    }
    Some(numbers)
}

fn numbers(below: u64) -> Vec<u64> {
    (0..below).collect()
}

fn levels(store: &Store) -> Vec<u32> {
    store.buckets().iter().map(|bucket| bucket.level).collect()
}

#[test]
fn merged_buckets_store_fields() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main"], 5, 20);
    let extraction = Numbers::new(Behaviour::Right);
    store_fields(&store, &extraction);
    store_fields(&store, &Numbers::new(Behaviour::AsksForNothing));
    assert_eq!(stored_numbers(&all(&store)), None);
    assert_eq!(store.compact_all().unwrap().merges.len(), 1);
    assert_eq!(extraction.asked(), 5, "once for each slab of the inputs");
    assert_eq!(stored_numbers(&all(&store)), Some(numbers(100)));
    assert_eq!(texts(&all(&store)), expected("main", 0..100));
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    assert_eq!(store.messages(), []);
    // Another merge has the merged bucket and new ones as inputs.
    append(&store, "main", 100, 20);
    store.seal_all().unwrap();
    assert_eq!(store.compact_all().unwrap().merges.len(), 1);
    assert_eq!((stored_numbers(&all(&store)), levels(&store)), (Some(numbers(120)), vec![2]));
}

#[test]
fn a_single_bucket_is_rewritten_once() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main", "other"], 2, 20);
    assert_eq!((store.compact_all().unwrap().merges.len(), levels(&store)), (0, vec![0, 0]));
    let extraction = Numbers::new(Behaviour::Right);
    store_fields(&store, &extraction);
    let report = store.compact_all().unwrap();
    assert_eq!((report.merges.len(), report.merges[0].inputs.as_slice()), (1, ["main~1".to_owned()].as_slice()));
    assert_eq!((extraction.asked(), report.skipped), (2, vec![]));
    assert_eq!(stored_numbers(&of_index(&store, "main")), Some(numbers(20)));
    assert_eq!(stored_numbers(&of_index(&store, "other")), None);
    let before = (store.buckets(), objects(&store));
    for _ in 0..3 {
        assert_eq!(store.compact_all().unwrap().merges, []);
    }
    // Each request asks the extraction again about the bucket without stored fields, because the rules may have
    // changed.
    assert_eq!((extraction.asked(), (store.buckets(), objects(&store))), (5, before));
    append(&store, "third", 0, 20);
    store.seal_all().unwrap();
    assert_eq!(store.compact_all().unwrap().merges.len(), 1);
    assert_eq!((extraction.asked(), stored_numbers(&of_index(&store, "third"))), (7, Some(numbers(20))));
    drop(store);
    let store = open(&options);
    let extraction = Numbers::new(Behaviour::Right);
    store_fields(&store, &extraction);
    assert_eq!(store.compact_all().unwrap().merges, []);
    assert_eq!(extraction.asked(), 1, "only the bucket that was never merged");
    assert_eq!(stored_numbers(&of_index(&store, "main")), Some(numbers(20)));
    assert_eq!(store.messages(), []);
}

#[test]
fn single_buckets_are_rewritten_on_request_only() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main", "other"], 8, 20);
    let is_due = |store: &Store| crate::compaction::is_due(&store.shared, &mut store.shared.state());
    assert!(is_due(&store));
    drop(store);
    options.compaction.bucket_merging = true;
    // The test clock does not advance, so a quiet time would never end.
    options.compaction.quiet_secs = 0;
    options.compaction.merge.background = false;
    options.compaction.merge_of.insert("main".to_owned(), Default::default());
    options.compaction.merge_of.get_mut("main").unwrap().min_merge_count = 9;
    let store = open(&options);
    assert!(!is_due(&store), "too few");
    let extraction = Numbers::new(Behaviour::Right);
    store_fields(&store, &extraction);
    assert!(!is_due(&store), "a rewritten bucket would not be merged with its neighbours");
    assert_eq!((extraction.asked(), levels(&store)), (0, vec![0; 8]));
    store.compact_all().unwrap();
    assert_eq!(stored_numbers(&of_index(&store, "main")), Some(numbers(80)));
    assert_eq!((levels(&store), store.messages()), (vec![1, 1], vec![]));
}

#[test]
fn many_buckets_without_fields_are_asked_once_for_each_request() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 1, ..small(dir.path()) };
    let store = open(&options);
    let extraction = Numbers::new(Behaviour::AsksForNothing);
    store_fields(&store, &extraction);
    let indexes: Vec<String> = (0..30).map(|at| format!("index{at}")).collect();
    for index in &indexes {
        append(&store, index, 0, 5);
    }
    store.seal_all().unwrap();
    let buckets = store.buckets().len();
    let merged = store.compact_all().unwrap().merges.len();
    let asked = extraction.asked();
    assert!(asked >= buckets && merged <= indexes.len(), "{asked} {buckets} {merged}");
    assert_eq!(store.compact_all().unwrap().merges, []);
    assert_eq!(extraction.asked(), 2 * asked, "once for each request");
    let mut state = store.shared.state();
    state.not_better.clear();
    (0..70_000).for_each(|number| state.note_not_better(number));
    assert_eq!((state.not_better.len(), state.not_better.first()), (65_536, Some(&4_464)));
    state.note_not_better(7);
    assert!(state.not_better.contains(&7), "otherwise the bucket would be asked for again at once");
    assert_eq!(state.not_better.len(), 65_536);
}

#[test]
fn no_extraction_prevents_a_merge() {
    for behaviour in
        [Behaviour::PanicsWhenAsked, Behaviour::PanicsWhenExtracting, Behaviour::WrongRows, Behaviour::AsksForNothing]
    {
        let dir = tempdir().unwrap();
        let store = open(&small(dir.path()));
        seal(&store, &["main"], 3, 20);
        append(&store, "third", 0, 20);
        store.seal_all().unwrap();
        store_fields(&store, &Numbers::new(behaviour));
        let report = store.compact_all().unwrap();
        assert_eq!(report.skipped, [], "{behaviour:?}");
        // A bucket is rewritten alone only if the extraction names fields to store.
        let rewritten = !matches!(behaviour, Behaviour::PanicsWhenAsked | Behaviour::AsksForNothing);
        assert_eq!(report.merges.len(), 1 + usize::from(rewritten), "{behaviour:?}");
        assert_eq!(texts(&of_index(&store, "main")), expected("main", 0..60));
        assert_eq!(stored_numbers(&all(&store)), None, "{behaviour:?}");
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
        let messages = store.messages();
        let told = messages.iter().any(|it| it.text.contains("search-time fields"));
        assert_eq!(told, behaviour != Behaviour::AsksForNothing, "{messages:?}");
        assert_eq!(store.compact_all().unwrap().merges, [], "{behaviour:?}");
        assert!(objects(&store).len() == 4, "{behaviour:?}");
    }
}

/// Slab encoder that cannot store fields.
fn panic_with_fields(encoder: &mut BucketEncoder, slab: &SlabSource<'_>) -> Result<(), BucketError> {
    assert!(slab.extractions.is_empty(), "on purpose");
    encoder.add_slab(slab)
}

#[test]
fn an_encoder_that_fails_with_fields_is_used_without() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main"], 3, 20);
    store_fields(&store, &Numbers::new(Behaviour::Right));
    assert_eq!(store.compact_with(panic_with_fields).unwrap().merges.len(), 1);
    assert_eq!((texts(&all(&store)), stored_numbers(&all(&store))), (expected("main", 0..60), None));
    let messages = store.messages();
    assert!(messages.len() == 1 && messages[0].text.contains("the encoder panicked"), "{messages:?}");
    assert!(!store.shared.state().compaction_encodes);
}
