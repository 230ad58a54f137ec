//! Merging two states of a part: DataFusion's own sums and extremes, and one function of ours for lists.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Builder, ListArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;

use super::digest::Digest;
use super::keys::KeyTable;
use super::moments::Moments;
use super::sparkline::Sparkline;
use super::{LIST_VALUES_MAX, Part, PickKey};
use crate::rows::{multi_item, multi_type};

/// Digits of a position in a sequence entry.
const POSITION_DIGITS: usize = 20;
/// Digits of a value's place within its row.
const PLACE_DIGITS: usize = 3;

/// The item field of a list of numbers.
pub(crate) fn number_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float64, true))
}

/// Type of a part's state column.
pub(crate) fn state_type(part: Part) -> DataType {
    match part {
        Part::Values | Part::Numbers => DataType::Int64,
        Part::Sum | Part::SumOfSquares | Part::MinNumber | Part::MaxNumber => DataType::Float64,
        Part::MinText | Part::MaxText => DataType::Utf8View,
        Part::Moments | Part::Digest { .. } | Part::Sparkline { .. } => DataType::List(number_item()),
        Part::Distinct | Part::Sequence | Part::Tally | Part::Pick(_) => multi_type(),
    }
}

/// How two states of a part become one.
pub(crate) fn function_of(part: Part) -> Arc<AggregateUDF> {
    match part {
        Part::Values | Part::Numbers | Part::Sum | Part::SumOfSquares => sum_udaf(),
        Part::MinNumber | Part::MinText => min_udaf(),
        Part::MaxNumber | Part::MaxText => max_udaf(),
        Part::Moments => list_merge(ListMerge::Moments, state_type(part)),
        Part::Digest { exact } => list_merge(ListMerge::Digest { exact }, state_type(part)),
        Part::Sparkline { .. } => list_merge(ListMerge::Sparkline, state_type(part)),
        Part::Distinct => list_merge(ListMerge::Distinct, state_type(part)),
        Part::Sequence => list_merge(ListMerge::Sequence, state_type(part)),
        Part::Tally => list_merge(ListMerge::Tally, state_type(part)),
        Part::Pick(key) => list_merge(ListMerge::Pick(key), state_type(part)),
    }
}

/// One entry of a `list` state; entries sort by where their value came from.
pub(crate) fn sequence_entry(position: u64, place: usize, value: &str) -> String {
    format!("{position:0POSITION_DIGITS$}{place:0PLACE_DIGITS$}{value}")
}

/// The value of a sequence entry.
pub(crate) fn sequence_value(entry: &str) -> &str {
    entry.get(POSITION_DIGITS + PLACE_DIGITS..).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ListMerge {
    Moments,
    Sparkline,
    Digest { exact: bool },
    Distinct,
    Sequence,
    Tally,
    Pick(PickKey),
}

fn list_merge(merge: ListMerge, state: DataType) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(MergeLists { merge, state, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MergeLists {
    merge: ListMerge,
    state: DataType,
    signature: Signature,
}

impl AggregateUDFImpl for MergeLists {
    fn name(&self) -> &str {
        "merge_lists"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.state.clone())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match self.merge {
            ListMerge::Moments => Box::new(NumberLists { numbers: Numbers::Moments(Moments::default()), bytes: 0 }),
            ListMerge::Sparkline => Box::new(NumberLists { numbers: Numbers::Sparkline(None), bytes: 0 }),
            ListMerge::Digest { exact } => {
                Box::new(NumberLists { numbers: Numbers::Digest(Digest::new(exact)), bytes: 0 })
            }
            ListMerge::Distinct => Box::new(TextLists::new(Texts::Distinct(KeyTable::default()))),
            ListMerge::Tally => Box::new(TextLists::new(Texts::Tally(KeyTable::default(), Vec::new()))),
            ListMerge::Sequence => Box::new(TextLists::new(Texts::Sequence(Vec::new()))),
            ListMerge::Pick(key) => Box::new(TextLists::new(Texts::Pick(key, None))),
        })
    }

    fn state_fields(&self, args: datafusion_expr::function::StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}_state", args.name), self.state.clone(), true))])
    }
}

#[derive(Debug)]
enum Numbers {
    Moments(Moments),
    Sparkline(Option<Sparkline>),
    Digest(Digest),
}

/// Merges lists of numbers.
#[derive(Debug)]
struct NumberLists {
    numbers: Numbers,
    bytes: usize,
}

impl Accumulator for NumberLists {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let lists = values[0].as_list::<i32>();
        for list in lists.iter().flatten() {
            let list = list.as_primitive::<Float64Type>();
            match &mut self.numbers {
                Numbers::Moments(moments) => moments.merge(&Moments::from_state(list.values())),
                Numbers::Sparkline(line) => {
                    self.bytes = self.bytes.max(list.len() * size_of::<f64>());
                    let other = Sparkline::from_state(list.values());
                    match line {
                        Some(line) => line.merge(other),
                        None => *line = Some(other),
                    }
                }
                Numbers::Digest(digest) => {
                    self.bytes = self.bytes.max(list.len() * size_of::<f64>());
                    digest.merge_state(list.values());
                }
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let list = match &self.numbers {
            Numbers::Moments(moments) => moments.to_state().to_vec(),
            Numbers::Sparkline(line) => line.as_ref().map(Sparkline::to_state).unwrap_or_default(),
            Numbers::Digest(digest) => digest.clone().into_state(),
        };
        let mut builder = ListBuilder::new(Float64Builder::new()).with_field(number_item());
        builder.values().append_slice(&list);
        builder.append(true);
        Ok(ScalarValue::List(Arc::new(builder.finish())))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<NumberLists>() + self.bytes
    }
}

enum Texts {
    Distinct(KeyTable),
    Tally(KeyTable, Vec<i64>),
    Sequence(Vec<String>),
    Pick(PickKey, Option<(i64, Vec<String>)>),
}

/// Merges lists of texts.
struct TextLists {
    texts: Texts,
    bytes: usize,
}

impl Debug for TextLists {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("TextLists").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl TextLists {
    fn new(texts: Texts) -> TextLists {
        TextLists { texts, bytes: 0 }
    }

    fn add(&mut self, list: &dyn Array) {
        /// Bytes of bookkeeping per text, about.
        const TEXT_OVERHEAD: usize = 16;
        let list = list.as_string_view();
        let mut texts = list.iter().flatten();
        match &mut self.texts {
            Texts::Distinct(keys) => texts.for_each(|text| {
                let known = keys.len();
                keys.intern(text.as_bytes());
                self.bytes += if keys.len() > known { text.len() + TEXT_OVERHEAD } else { 0 };
            }),
            Texts::Tally(keys, counts) => {
                while let (Some(text), Some(count)) = (texts.next(), texts.next()) {
                    let at = keys.intern(text.as_bytes()) as usize;
                    if at >= counts.len() {
                        counts.push(0);
                        self.bytes += text.len() + TEXT_OVERHEAD;
                    }
                    counts[at] += count.parse::<i64>().unwrap_or(0);
                }
            }
            Texts::Sequence(entries) => {
                entries.extend(texts.map(str::to_owned));
                entries.sort_unstable();
                entries.truncate(LIST_VALUES_MAX);
                self.bytes = entries.iter().map(|entry| entry.len() + TEXT_OVERHEAD).sum();
            }
            Texts::Pick(key, pick) => {
                let Some(place) = texts.next().and_then(|text| text.parse::<i64>().ok()) else { return };
                let values: Vec<String> = texts.map(str::to_owned).collect();
                let better = match pick {
                    None => true,
                    // Rows of the same instant: any rule will do as long as it does not depend on the slices.
                    Some((known, old)) => key.prefers(place, *known) || (place == *known && values > *old),
                };
                if better {
                    self.bytes = values.iter().map(|value| value.len() + TEXT_OVERHEAD).sum();
                    *pick = Some((place, values));
                }
            }
        }
    }

    fn list(&self) -> ListArray {
        let mut builder = ListBuilder::new(StringViewBuilder::new()).with_field(multi_item());
        match &self.texts {
            Texts::Distinct(keys) => {
                (0..keys.len()).for_each(|at| builder.values().append_value(text_of(keys.key(at))))
            }
            Texts::Tally(keys, counts) => {
                for (at, count) in counts.iter().enumerate() {
                    builder.values().append_value(text_of(keys.key(at)));
                    builder.values().append_value(count.to_string());
                }
            }
            Texts::Sequence(entries) => entries.iter().for_each(|entry| builder.values().append_value(entry)),
            Texts::Pick(_, pick) => {
                if let Some((place, values)) = pick {
                    builder.values().append_value(place.to_string());
                    values.iter().for_each(|value| builder.values().append_value(value));
                }
            }
        }
        builder.append(true);
        builder.finish()
    }
}

fn text_of(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}

impl Accumulator for TextLists {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let lists = values[0].as_list::<i32>();
        lists.iter().flatten().for_each(|list| self.add(list.as_ref()));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::List(Arc::new(self.list())))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<TextLists>() + self.bytes
    }
}
