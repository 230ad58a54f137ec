//! Reads any bytes as a bucket and as a term filter. Errors are expected; panics and unbounded memory are failures.

use std::sync::Arc;

use bytes::Bytes;
use quarry_bucket::{BucketReader, MemoryObject, TermFilter};
use quarry_event::term::MetaField;
use quarry_event::{PageColumns, TermQuery};

/// Calls all functions of the reader that searches call.
pub(crate) fn run(data: &[u8]) {
    let queries = [
        TermQuery::Token("unique7".into()),
        TermQuery::Token("".into()),
        TermQuery::Prefix("u".into()),
        TermQuery::Field { name: "Row".into(), value: "r2".into() },
        TermQuery::Meta { field: MetaField::Host, pattern: "h*1".into() },
    ];
    if let Ok(filter) = TermFilter::open(data) {
        for query in &queries {
            filter.may_match(query);
        }
    }
    let Ok(reader) = BucketReader::open(Arc::new(MemoryObject(Bytes::copy_from_slice(data)))) else { return };
    drop(reader.check());
    for slab in 0..reader.slabs().len() {
        for query in &queries {
            drop(reader.candidate_pages(slab, query, &quarry_event::AnyColumn));
        }
        drop(reader.stored_bytes_by_kind(slab));
        for page in 0..reader.slabs()[slab].pages.len() {
            drop(reader.read_page(slab, page, PageColumns::ALL));
            let events = reader.slabs()[slab].pages[page].events;
            if let (Ok(Some(mut shaped)), Ok(Some(mut unread)), Ok(Some(template_set))) =
                (reader.template_page(slab, page), reader.template_page(slab, page), reader.template_set(slab))
            {
                for column in 0..=template_set.columns.len() as u32 {
                    drop(reader.dictionary(slab, column));
                    if let Ok(read) = shaped.column(column) {
                        // Reads a few rows by lookup, even in a page without whole columns, and all rows by filling.
                        let rows: Vec<u32> = (0..events).filter(|row| read.value_index(*row).is_some()).collect();
                        drop(unread.texts(column, &rows[..rows.len().min(2)]));
                        drop(shaped.texts(column, &rows[..rows.len().min(2)]));
                        drop(shaped.texts(column, &rows));
                    }
                }
            }
        }
    }
}
