//! Evaluation once per distinct value of a column instead of once per row.
//!
//! [`DistinctMemo::run`] passes its caller the distinct values of a coded column, followed by null, and assigns the
//! results to the rows; texts are returned as dictionary codes. Results for a whole dictionary are cached, because a
//! scan shares one dictionary among many batches. A dictionary is evaluated as a whole only after as many lookups as it
//! has values, so that the work at most doubles; before that, only the values that occur are evaluated.
//!
//! The caller must compute each result from the value alone. Columns whose values do not repeat gain nothing and are
//! refused. Only coded columns have coded results, so callers that do not read codes never receive codes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, DictionaryArray, StringViewArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal64Type, Int64Type, UInt32Type};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_stdx::number::u32_of;

use super::decode::decode_column;
use super::{ColumnReader, DictionaryColumn};
use crate::EngineError;

/// Maximum number of dictionaries with cached results; the oldest is dropped.
const DICTIONARIES_MAX: usize = 8;
/// Maximum bytes of texts in the cached results of one dictionary; larger results are not cached.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// Number of values of a dictionary that are evaluated at once.
const CHUNK_VALUES: usize = 4_096;
/// Minimum average number of repetitions of a batch's numbers for which finding the distinct numbers pays off.
const REPEATS_MIN: usize = 2;
/// Number of batches skipped after a batch whose numbers did not repeat.
const BATCHES_SKIPPED: u32 = 15;
/// Ratio of dictionary size to batch size above which no table by code is built.
const TABLE_RATIO: usize = 16;
/// Marks a value that does not occur, and the code of a null result.
const ABSENT: u32 = u32::MAX;

/// Cached results for the dictionaries of one column.
#[derive(Debug, Default)]
pub struct DistinctMemo {
    known: Mutex<Vec<CachedDictionary>>,
    skipped: AtomicU32,
}

/// A dictionary in which rows have looked up values.
#[derive(Debug)]
struct CachedDictionary {
    values: ArrayRef,
    rows_seen: usize,
    results: DictionaryResults,
}

/// Results for a whole dictionary.
#[derive(Clone, Debug)]
enum DictionaryResults {
    NotYet,
    /// Not available: the results are too large, or a value fails.
    Never,
    Results(Arc<Vec<IndexedColumn>>),
}

/// Whether integers are also evaluated by distinct value, as addresses and decimals always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberHandling {
    /// No; integers have faster methods.
    ByRow,
    /// Yes, if evaluating a value costs more than counting it.
    ByValue,
}

/// Results by value: columns of the same length, or `None` if results cannot be computed from values alone.
pub(crate) type Computed = Result<Option<Vec<ArrayRef>>, EngineError>;

impl DistinctMemo {
    /// The result of `compute` for each value of `column`, by row; `None` if the rows must be evaluated one by one. A
    /// memo must always be used with the same computation.
    pub fn run(
        &self,
        column: &ArrayRef,
        numbers: NumberHandling,
        compute: impl Fn(&ArrayRef) -> Computed,
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        if column.is_empty() {
            return Ok(None);
        }
        if let DataType::Dictionary(..) = column.data_type() {
            let ColumnReader::Dictionary(column) = ColumnReader::new(column) else { return Ok(None) };
            return self.run_on_dictionary(&column, compute);
        }
        let is_number = match column.data_type() {
            DataType::Int64 => numbers == NumberHandling::ByValue,
            DataType::UInt32 | DataType::Decimal64(..) => true,
            _ => false,
        };
        if !is_number || self.is_skipping() {
            return Ok(None);
        }
        let Some((values, indices)) = distinct_numbers(column)? else {
            self.skipped.store(BATCHES_SKIPPED, Ordering::Relaxed);
            return Ok(None);
        };
        let Some(made) = compute(&values)? else { return Ok(None) };
        // Callers that do not read codes may pass integer columns, so results for integers must not be coded.
        let spreadable = |made| match column.data_type() {
            DataType::Int64 => IndexedColumn::Values(made),
            _ => IndexedColumn::new(made),
        };
        made.into_iter().map(|made| spreadable(made).spread(&indices)).collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn is_skipping(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn run_on_dictionary(
        &self,
        column: &DictionaryColumn,
        compute: impl Fn(&ArrayRef) -> Computed,
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        let (is_due, made) = self.record_rows(column);
        let made = match (made, is_due) {
            (DictionaryResults::NotYet, true) => {
                let made = match evaluate_dictionary(column, &compute)? {
                    Some(results) => DictionaryResults::Results(Arc::new(results)),
                    None => DictionaryResults::Never,
                };
                self.store_results(column, made.clone());
                made
            }
            (made, _) => made,
        };
        if let DictionaryResults::Results(results) = made {
            let last = u32_of(column.texts.len());
            let indices: Vec<u32> = (0..column.codes.len()).map(|row| column.code(row).map_or(last, u32_of)).collect();
            return results.iter().map(|made| made.spread(&indices)).collect::<Result<Vec<_>, _>>().map(Some);
        }
        let (values, indices) = occurring_texts(column)?;
        if values.len() * REPEATS_MIN > indices.len() {
            return Ok(None);
        }
        let Some(made) = compute(&values)? else { return Ok(None) };
        made.into_iter().map(|made| IndexedColumn::new(made).spread(&indices)).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Counts rows; returns whether there were enough rows to evaluate the whole dictionary, and the dictionary's
    /// cached results.
    fn record_rows(&self, column: &DictionaryColumn) -> (bool, DictionaryResults) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter().position(|known| column.has_dictionary(&known.values)) {
            Some(at) => known[..=at].rotate_right(1),
            None => {
                known.truncate(DICTIONARIES_MAX - 1);
                known.insert(
                    0,
                    CachedDictionary {
                        values: Arc::clone(&column.values),
                        rows_seen: 0,
                        results: DictionaryResults::NotYet,
                    },
                );
            }
        }
        let known = &mut known[0];
        known.rows_seen = known.rows_seen.saturating_add(column.codes.len());
        (known.rows_seen >= column.texts.len(), known.results.clone())
    }

    fn store_results(&self, column: &DictionaryColumn, made: DictionaryResults) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter_mut().find(|known| column.has_dictionary(&known.values)) {
            known.results = made;
        }
    }
}

/// Results for a whole dictionary, followed by null; `None` if they are not available or too large.
fn evaluate_dictionary(
    column: &DictionaryColumn,
    compute: &impl Fn(&ArrayRef) -> Computed,
) -> Result<Option<Vec<IndexedColumn>>, EngineError> {
    let texts = with_null(&column.texts)?;
    let mut parts: Vec<Vec<ArrayRef>> = Vec::new();
    let mut bytes = 0;
    for start in (0..texts.len()).step_by(CHUNK_VALUES) {
        let chunk = texts.slice(start, CHUNK_VALUES.min(texts.len() - start));
        let Some(made) = compute(&chunk)? else { return Ok(None) };
        bytes += made.iter().map(text_bytes).sum::<usize>();
        if bytes > CACHED_BYTES_MAX {
            return Ok(None);
        }
        parts.push(made);
    }
    let count = parts.first().map_or(0, Vec::len);
    let mut results = Vec::with_capacity(count);
    for at in 0..count {
        results.push(IndexedColumn::new(concat_columns(parts.iter().map(|part| Arc::clone(&part[at])))?));
    }
    Ok(Some(results))
}

/// Concatenates columns.
fn concat_columns(parts: impl Iterator<Item = ArrayRef>) -> Result<ArrayRef, EngineError> {
    const NAME: &str = "value";
    let parts = parts.map(|part| super::batch_of([(NAME, Arc::clone(&part))], part.len()));
    let all = super::concat_rows(parts.collect::<Result<Vec<_>, _>>()?)?;
    Ok(super::column_or_null(&all, NAME))
}

fn text_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum(),
        DataType::List(_) => text_bytes(array.as_list::<i32>().values()),
        _ => 0,
    }
}

/// The texts followed by a null.
fn with_null(texts: &StringViewArray) -> Result<ArrayRef, EngineError> {
    let picked: ScalarBuffer<u128> = texts.views().iter().copied().chain([0]).collect();
    let present = |row: usize| row < texts.len() && texts.is_valid(row);
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(picked.len(), present));
    Ok(Arc::new(StringViewArray::try_new(picked, texts.data_buffers().to_vec(), Some(nulls))?))
}

/// The texts of codes that occur, followed by null, and the index of each row's text.
fn occurring_texts(column: &DictionaryColumn) -> Result<(ArrayRef, Vec<u32>), EngineError> {
    let rows = column.codes.len();
    let mut indices = Vec::with_capacity(rows);
    let mut chosen: Vec<usize> = Vec::new();
    let mut add = |index: &mut u32, code: usize| {
        if *index == ABSENT {
            *index = u32_of(chosen.len());
            chosen.push(code);
        }
        *index
    };
    if column.texts.len() <= rows.saturating_mul(TABLE_RATIO) {
        let mut table = vec![ABSENT; column.texts.len()];
        indices.extend((0..rows).map(|row| column.code(row).map_or(ABSENT, |code| add(&mut table[code], code))));
    } else {
        let mut table: HashMap<usize, u32, FixedState> = HashMap::default();
        indices.extend(
            (0..rows).map(|row| column.code(row).map_or(ABSENT, |code| add(table.entry(code).or_insert(ABSENT), code))),
        );
    }
    indices.iter_mut().filter(|index| **index == ABSENT).for_each(|index| *index = u32_of(chosen.len()));
    let views = column.texts.views();
    let picked: ScalarBuffer<u128> = chosen.iter().map(|code| views[*code]).collect();
    let texts = StringViewArray::try_new(picked, column.texts.data_buffers().to_vec(), None)?;
    Ok((with_null(&texts)?, indices))
}

/// The distinct numbers of a column as commands read them, followed by null, and the index of each row's number. `None`
/// if too few numbers repeat.
fn distinct_numbers(column: &ArrayRef) -> Result<Option<(ArrayRef, Vec<u32>)>, EngineError> {
    let numbers: Box<dyn Iterator<Item = Option<i64>> + '_> = match column.data_type() {
        DataType::Int64 => Box::new(column.as_primitive::<Int64Type>().iter()),
        DataType::UInt32 => Box::new(column.as_primitive::<UInt32Type>().iter().map(|number| number.map(i64::from))),
        DataType::Decimal64(..) => Box::new(column.as_primitive::<Decimal64Type>().iter()),
        _ => return Ok(None),
    };
    let most = column.len() / REPEATS_MIN;
    let mut known: HashMap<i64, u32, FixedState> = HashMap::default();
    let mut rows: Vec<Option<u32>> = Vec::new();
    let mut indices = Vec::with_capacity(column.len());
    for (row, number) in (0u32..).zip(numbers) {
        let Some(number) = number else {
            indices.push(ABSENT);
            continue;
        };
        indices.push(*known.entry(number).or_insert_with(|| {
            rows.push(Some(row));
            u32_of(rows.len()) - 1
        }));
        if rows.len() > most {
            return Ok(None);
        }
    }
    indices.iter_mut().filter(|index| **index == ABSENT).for_each(|index| *index = u32_of(rows.len()));
    rows.push(None);
    let values = arrow::compute::take(column, &UInt32Array::from(rows), None)?;
    Ok(Some((decode_column(&values)?, indices)))
}

/// A column indexed by value instead of row.
#[derive(Debug)]
enum IndexedColumn {
    /// Texts, and the code of each index.
    Coded(Vec<u32>, ArrayRef),
    /// A value for each index.
    Values(ArrayRef),
}

impl IndexedColumn {
    fn new(values: ArrayRef) -> IndexedColumn {
        match values.as_string_view_opt().and_then(encode_distinct) {
            Some((codes, texts)) => IndexedColumn::Coded(codes, texts),
            None => IndexedColumn::Values(values),
        }
    }

    /// The column for rows with these indices.
    fn spread(&self, indices: &[u32]) -> Result<ArrayRef, EngineError> {
        match self {
            IndexedColumn::Coded(codes, texts) => {
                let code = |index: &u32| codes[*index as usize];
                let keys: UInt32Array =
                    match codes.contains(&ABSENT) && indices.iter().any(|index| code(index) == ABSENT) {
                        true => indices.iter().map(|index| Some(code(index)).filter(|code| *code != ABSENT)).collect(),
                        false => indices.iter().map(code).collect::<Vec<_>>().into(),
                    };
                Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(texts))?))
            }
            IndexedColumn::Values(values) => {
                Ok(arrow::compute::take(values, &UInt32Array::from(indices.to_vec()), None)?)
            }
        }
    }
}

/// The distinct texts, and the code of each text.
fn encode_distinct(texts: &StringViewArray) -> Option<(Vec<u32>, ArrayRef)> {
    let mut known: HashMap<&str, u32, FixedState> = HashMap::default();
    let mut firsts: Vec<u128> = Vec::new();
    let mut codes = Vec::with_capacity(texts.len());
    for (text, view) in texts.iter().zip(texts.views().iter()) {
        codes.push(text.map_or(ABSENT, |text| {
            *known.entry(text).or_insert_with(|| {
                firsts.push(*view);
                u32_of(firsts.len()) - 1
            })
        }));
    }
    let distinct = StringViewArray::try_new(firsts.into(), texts.data_buffers().to_vec(), None).ok()?;
    Some((codes, Arc::new(distinct)))
}
