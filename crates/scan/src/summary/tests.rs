//! Tests that decoded columns equal the encoded ones, and that bytes from elsewhere are rejected.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, StringViewArray,
    TimestampNanosecondArray, UInt32Array,
};
use bytes::Bytes;
use proptest::prelude::*;
use quarry_eval::rows::{ColumnBuilder, ColumnReader, null_column};
use quarry_store::StoredSlab;
use xxhash_rust::xxh3::xxh3_64;

use super::SummaryFile;
use super::decode::OpenSummary;
use super::encode::{MAGIC, SummaryHead, SummaryPage, encode};

struct InMemory(Vec<u8>);

impl SummaryFile for InMemory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, quarry_stdx::Fault> {
        let end = (offset as usize).checked_add(length);
        let part = end.and_then(|end| self.0.get(offset as usize..end));
        part.map(Bytes::copy_from_slice).ok_or_else(|| quarry_stdx::Fault::invalid("past the end"))
    }
}

/// One page of a column.
#[derive(Clone, Debug)]
enum Page {
    Null(usize),
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
    Time(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Coded(Vec<Option<u32>>),
    Multi(Vec<Vec<String>>),
    Address(Vec<Option<u32>>),
}

impl Page {
    fn array(&self) -> ArrayRef {
        match self {
            Page::Null(rows) => null_column(*rows),
            Page::Int(values) => Arc::new(Int64Array::from(values.clone())),
            Page::Float(values) => Arc::new(Float64Array::from(values.clone())),
            Page::Bool(values) => Arc::new(BooleanArray::from(values.clone())),
            Page::Time(values) => Arc::new(TimestampNanosecondArray::from(values.clone())),
            Page::Text(values) => Arc::new(StringViewArray::from_iter(values.iter().map(Option::as_deref))),
            Page::Coded(values) => {
                let texts: ArrayRef =
                    Arc::new(StringViewArray::from_iter_values(["a", "", "a longer text than twelve"]));
                let codes = UInt32Array::from_iter(values.iter().map(|code| code.map(|code| code % 3)));
                Arc::new(DictionaryArray::try_new(codes, texts).unwrap())
            }
            Page::Multi(values) => {
                let mut column = ColumnBuilder::new(values.len());
                values.iter().for_each(|values| column.push_multi(values));
                column.finish()
            }
            Page::Address(values) => Arc::new(UInt32Array::from(values.clone())),
        }
    }
}

fn page() -> impl Strategy<Value = Page> {
    let text = "[a-c]{0,3}|ä longer text [0-9]{12}";
    let list = |value| prop::collection::vec(prop::option::of(value), 0..40);
    prop_oneof![
        (0..40_usize).prop_map(Page::Null),
        prop::collection::vec(any::<Option<i64>>(), 0..40).prop_map(Page::Int),
        prop::collection::vec(any::<Option<f64>>(), 0..40).prop_map(Page::Float),
        prop::collection::vec(any::<Option<bool>>(), 0..40).prop_map(Page::Bool),
        prop::collection::vec(any::<Option<i64>>(), 0..40).prop_map(Page::Time),
        list(text.prop_map(String::from)).prop_map(Page::Text),
        prop::collection::vec(any::<Option<u32>>(), 0..40).prop_map(Page::Coded),
        prop::collection::vec(prop::collection::vec(text, 0..4), 0..40).prop_map(Page::Multi),
        prop::collection::vec(any::<Option<u32>>(), 0..40).prop_map(Page::Address),
    ]
}

fn head(pages: &[ArrayRef]) -> SummaryHead {
    let mut next_row = 7;
    let page = |array: &ArrayRef| {
        let (first_row, events) = (next_row, array.len() as u32 + 3);
        next_row += u64::from(events);
        SummaryPage { first_row, events, rows: array.len() as u32, time_min: -5, time_max: i64::MAX }
    };
    let slab = StoredSlab { bucket: 12, created: -3, slab: 4, level: 1, deleted: 900 };
    SummaryHead { digest: [9; 32], slab, pages: pages.iter().map(page).collect() }
}

/// The texts and the number in each row.
fn texts_and_numbers(array: &ArrayRef) -> Vec<(Vec<String>, Option<u64>)> {
    let reader = ColumnReader::new(array);
    let of_row = |row| {
        let texts = reader.values(row).map(std::borrow::Cow::into_owned).collect();
        (texts, reader.number(row).map(f64::to_bits))
    };
    (0..array.len()).map(of_row).collect()
}

proptest! {
    #[test]
    fn columns_round_trip(pages in prop::collection::vec(page(), 0..6)) {
        let arrays: Vec<ArrayRef> = pages.iter().map(Page::array).collect();
        let head = head(&arrays);
        let bytes = encode(&head, &[("field".to_owned(), arrays.clone())]).unwrap();
        let opened = OpenSummary::open(Arc::new(InMemory(bytes))).unwrap();
        prop_assert_eq!(&opened.head, &head);
        let read = opened.column("field").unwrap().unwrap();
        prop_assert_eq!(read.len(), arrays.len());
        for (read, array) in read.iter().zip(&arrays) {
            prop_assert_eq!(texts_and_numbers(read), texts_and_numbers(array));
        }
        prop_assert!(opened.column("other").unwrap().is_none());
    }

    #[test]
    fn corrupt_bytes_never_decode_to_different_columns(pages in prop::collection::vec(page(), 1..4), at in any::<usize>(), with in 1..255_u8) {
        let arrays: Vec<ArrayRef> = pages.iter().map(Page::array).collect();
        let mut bytes = encode(&head(&arrays), &[("field".to_owned(), arrays.clone())]).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= with;
        if let Ok(opened) = OpenSummary::open(Arc::new(InMemory(bytes))) {
            // Opening succeeds if the changed byte is in the leading `MAGIC`, which is not checked, or in a column.
            prop_assert_eq!(&opened.head, &head(&arrays));
            if let Ok(Some(read)) = opened.column("field") {
                for (read, array) in read.iter().zip(&arrays) {
                    prop_assert_eq!(texts_and_numbers(read), texts_and_numbers(array));
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(OpenSummary::open(Arc::new(InMemory(bytes))).is_err());
    }
}

#[test]
fn pages_that_overlap_are_refused() {
    let open = |second: u8| {
        let mut directory = vec![0; 32];
        // Bucket, creation, slab, level, deletions, two pages, each with its first row, events, rows and times.
        directory.extend([1, 2, 0, 0, 0, 2, 10, 5, 5, 0, 0, second, 5, 5, 0, 0]);
        // No columns.
        directory.push(0);
        let mut bytes = [&MAGIC[..], &directory].concat();
        for number in [MAGIC.len() as u64, directory.len() as u64, xxh3_64(&directory)] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(MAGIC);
        OpenSummary::open(Arc::new(InMemory(bytes)))
    };
    assert!(open(15).is_ok());
    assert!(open(14).is_err());
}

#[test]
fn pages_of_a_column_share_dictionary_texts() {
    let arrays: Vec<ArrayRef> =
        (0..2).map(|_| Page::Coded(vec![Some(0), Some(1), None, Some(2), Some(2), Some(0)]).array()).collect();
    let bytes = encode(&head(&arrays), &[("field".to_owned(), arrays)]).unwrap();
    let read = OpenSummary::open(Arc::new(InMemory(bytes))).unwrap().column("field").unwrap().unwrap();
    let (ColumnReader::Dictionary(first), ColumnReader::Dictionary(second)) =
        (ColumnReader::new(&read[0]), ColumnReader::new(&read[1]))
    else {
        panic!("few texts are coded");
    };
    assert!(first.has_dictionary(&second.values));
}
