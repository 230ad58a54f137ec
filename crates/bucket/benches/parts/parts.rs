//! The measured parts of the bucket, each with a ceiling: the minimum work that its task requires.
//!
//! A ceiling is measured on the same machine over the same bytes, so that a figure shows how close a part comes to it,
//! whatever the speed of the machine.

use std::hint::black_box;
use std::sync::Arc;

use quarry_bucket::bench_api::{count_variables, split_slab};
use quarry_bucket::{
    BucketReader, EncodeOptions, Locators, MemoryObject, SlabSource, TermFilter, encode_slabs, verify_slabs,
};
use quarry_event::template::{ColumnKind, ColumnValues, TEXT_COLUMN};
use quarry_event::{AnyColumn, EventBatch, PageColumns, TermQuery};
use xorf::{BinaryFuse16, Filter};

/// zstd level used when sealing.
const ZSTD_LEVEL: i32 = 1;
/// Number of terms that the look-up parts search for.
const TERMS: usize = 400;
const RAW: PageColumns = PageColumns { raw: true, ..PageColumns::NONE };

/// Amount that one run processes, in the unit of the reported rate.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// Bytes of text.
    Bytes(u64),
    /// Values of columns, or look-ups.
    Values(u64),
}

/// Work to measure. The returned number depends on all of the work, so that the compiler cannot remove any.
pub(crate) type Work = Box<dyn FnMut() -> u64>;

pub(crate) struct Part {
    /// Name of the measured operation.
    pub(crate) name: &'static str,
    /// Amount that one run processes.
    pub(crate) amount: Amount,
    /// The measured part.
    pub(crate) work: Work,
    pub(crate) ceiling_name: &'static str,
    /// The ceiling, measured over the same data.
    pub(crate) ceiling: Work,
}

/// All parts, each measured on this slab.
pub(crate) fn all(batch: EventBatch) -> Vec<Part> {
    let batch = Arc::new(batch);
    let options = EncodeOptions { zstd_level: ZSTD_LEVEL, templates: true, locators: Locators::Omitted };
    let encoded = Arc::new(encode_slabs(&[SlabSource::of(&batch)], &options).unwrap());
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap();
    reader.check().unwrap();
    let reader = Arc::new(reader);
    let bytes = Amount::Bytes(batch.raw.len() as u64);
    let text = || Arc::clone(&batch);
    let made = Arc::clone(&encoded);
    let mut parts = vec![
        part(
            "tokenise",
            bytes,
            with_data(text(), |events| count_variables(events)),
            "a table look-up a byte",
            table_walk(text()),
        ),
        part(
            "templates",
            bytes,
            with_data(text(), split_into_templates),
            "tokenise",
            with_data(text(), |events| count_variables(events)),
        ),
        part(
            "encode",
            bytes,
            with_data(text(), move |events| encode(events, &options)),
            "templates",
            with_data(text(), split_into_templates),
        ),
        part(
            "verify",
            bytes,
            with_data(text(), move |events| verify_slabs(&made, &[SlabSource::of(events)]).is_ok().into()),
            "compare with a copy",
            compare(text()),
        ),
        part("read texts", bytes, with_data(Arc::clone(&reader), read_texts), "copy", copy(text())),
    ];
    if reader.template_set(0).unwrap().is_some() {
        let values = Amount::Values(read_columns(&reader));
        let sums = with_data(vec![1u32; read_columns(&reader) as usize], |values| {
            values.iter().map(|value| u64::from(*value)).sum()
        });
        parts.push(part(
            "read columns",
            values,
            with_data(Arc::clone(&reader), read_columns),
            "sum of the values",
            sums,
        ));
        let rows = Amount::Values(batch.len().div_ceil(100) as u64);
        parts.push(part(
            "one text in 100",
            rows,
            with_data(reader.clone(), read_few_rows),
            "copy of all texts",
            copy(text()),
        ));
    }
    parts.extend(term_parts(&batch, &reader, &encoded.filter));
    parts
}

fn term_parts(batch: &EventBatch, reader: &Arc<BucketReader>, filter: &[u8]) -> [Part; 2] {
    let terms = sample_terms(batch);
    let amount = Amount::Values(terms.len() as u64);
    let hashes: Vec<u64> = (0..terms.len() as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let probes = || {
        let fuse = BinaryFuse16::try_from(&hashes).unwrap();
        with_data((fuse, hashes.clone()), |(fuse, hashes)| {
            hashes.iter().filter(|hash| fuse.contains(hash)).count() as u64
        })
    };
    let filter = TermFilter::open(filter).unwrap();
    let reported = with_data((filter, terms.clone()), |(filter, terms)| {
        terms.iter().filter(|term| filter.may_match(term)).count() as u64
    });
    let found = with_data((Arc::clone(reader), terms), |(reader, terms)| {
        terms.iter().map(|term| u64::from(!reader.candidate_pages(0, term, &AnyColumn).unwrap().is_empty())).sum()
    });
    [
        part("term filter", amount, reported, "a fuse filter's probe", probes()),
        part("term dictionary", amount, found, "a fuse filter's probe", probes()),
    ]
}

fn part(name: &'static str, amount: Amount, work: Work, ceiling_name: &'static str, ceiling: Work) -> Part {
    Part { name, amount, work, ceiling_name, ceiling }
}

/// Work on data that is kept between runs.
fn with_data<T: 'static>(over: T, work: impl Fn(&T) -> u64 + 'static) -> Work {
    Box::new(move || black_box(work(black_box(&over))))
}

fn split_into_templates(events: &Arc<EventBatch>) -> u64 {
    split_slab(events).map_or(0, |(columns, _)| columns as u64)
}

fn encode(events: &EventBatch, options: &EncodeOptions) -> u64 {
    encode_slabs(&[SlabSource::of(events)], options).unwrap().object.len() as u64
}

fn read_texts(reader: &Arc<BucketReader>) -> u64 {
    (0..reader.slabs()[0].pages.len()).map(|page| reader.read_page(0, page, RAW).unwrap().raw.len() as u64).sum()
}

/// Number of values of all columns that are not text.
fn read_columns(reader: &Arc<BucketReader>) -> u64 {
    let template_set = reader.template_set(0).unwrap().unwrap();
    let coded = |at: &u32| !matches!(template_set.columns[*at as usize].kind, ColumnKind::Texts);
    let mut values = 0;
    for page in 0..reader.slabs()[0].pages.len() {
        let mut opened = reader.template_page(0, page).unwrap().unwrap();
        for column in (0..template_set.columns.len() as u32).filter(coded) {
            values += match &opened.column(column).unwrap().values {
                ColumnValues::Codes(codes) => codes.len(),
                ColumnValues::Numbers(numbers) => numbers.len(),
                ColumnValues::Texts { ends, .. } => ends.len(),
            } as u64;
        }
    }
    values
}

fn read_few_rows(reader: &Arc<BucketReader>) -> u64 {
    let mut read = 0;
    for (page, info) in reader.slabs()[0].pages.iter().enumerate() {
        let rows: Vec<u32> = (0..info.events).step_by(100).collect();
        let mut opened = reader.template_page(0, page).unwrap().unwrap();
        black_box(opened.texts(TEXT_COLUMN, &rows).unwrap());
        read += rows.len() as u64;
    }
    read
}

/// One token from every few events.
fn sample_terms(batch: &EventBatch) -> Vec<TermQuery> {
    let mut terms = Vec::new();
    for row in (0..batch.len()).step_by(batch.len() / TERMS + 1) {
        let mut tokens = Vec::new();
        quarry_event::segment::for_each_token(batch.raw(row), |token| tokens.push(token.to_ascii_lowercase()));
        let Some(token) = tokens.get(row % tokens.len().max(1)) else { continue };
        terms.push(TermQuery::Token(String::from_utf8_lossy(token).into()));
    }
    terms
}

// ---- ceilings -----------------------------------------------------------------------------------------------------

fn table_walk(events: Arc<EventBatch>) -> Work {
    let mut table = [0u8; 256];
    b" \"=,:;()[]{}<>\t".iter().for_each(|byte| table[usize::from(*byte)] = 1);
    with_data(events, move |events| events.raw.iter().map(|byte| u64::from(table[usize::from(*byte)])).sum())
}

fn copy(events: Arc<EventBatch>) -> Work {
    let mut into = vec![0u8; events.raw.len()];
    Box::new(move || {
        into.copy_from_slice(black_box(&events.raw));
        u64::from(black_box(&into)[into.len() - 1])
    })
}

fn compare(events: Arc<EventBatch>) -> Work {
    let copied = events.raw.to_vec();
    with_data((events, copied), |(events, copied)| u64::from(events.raw[..] == copied[..]))
}
