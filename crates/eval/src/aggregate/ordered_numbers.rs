//! Numbers in order, for percentiles that are computed after every row.
//!
//! Equal numbers are stored once, with their count. The numbers are divided into blocks of limited size, so that a
//! number is added, removed or found by its rank in a few hundred steps.
//!
//! Not here: percentiles of groups, which are computed once ([`super::digest`]).

use std::cmp::Ordering;

use quarry_event::value::Number;
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::number::{f64_of, integer_part};

use super::digest::{LongNumber, rank_of, value_between};
use super::numbers::NumberParts;

/// Maximum number of distinct numbers of a block; a larger block is divided into halves.
const BLOCK_NUMBERS_MAX: usize = 512;

/// See the module.
#[derive(Clone, Default)]
pub struct OrderedNumbers {
    /// Blocks in ascending order, none of them empty.
    blocks: Vec<Block>,
    /// Number of all numbers, including equal ones.
    count: usize,
    /// Number of numbers that no double represents.
    long_count: usize,
}

/// Distinct numbers in ascending order, with their counts.
#[derive(Clone, Default)]
struct Block {
    numbers: Vec<(LongNumber, usize)>,
    /// Sum of the counts.
    count: usize,
}

fn parts_of(number: Number) -> LongNumber {
    let parts = NumberParts::without_scale(number);
    // Both zeros are equal.
    (parts.value + 0.0, parts.rest)
}

fn compare(a: LongNumber, b: LongNumber) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl Block {
    fn of(numbers: Vec<(LongNumber, usize)>) -> Block {
        Block { count: numbers.iter().map(|(_, count)| count).sum(), numbers }
    }

    /// The position of a number, or the position where it belongs.
    fn position(&self, number: LongNumber) -> Result<usize, usize> {
        self.numbers.binary_search_by(|(known, _)| compare(*known, number))
    }
}

impl OrderedNumbers {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        let number = parts_of(number);
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let at = self.block_of(number);
        let block = &mut self.blocks[at];
        match block.position(number) {
            Ok(known) => block.numbers[known].1 += 1,
            Err(place) => block.numbers.insert(place, (number, 1)),
        }
        block.count += 1;
        self.count += 1;
        self.long_count += usize::from(number.1 != 0);
        if block.numbers.len() > BLOCK_NUMBERS_MAX {
            let upper = block.numbers.split_off(BLOCK_NUMBERS_MAX / 2);
            // Ascending numbers add no more to this block.
            block.numbers.shrink_to_fit();
            let (lower, upper) = (Block::of(std::mem::take(&mut block.numbers)), Block::of(upper));
            self.blocks[at] = lower;
            self.blocks.insert(at + 1, upper);
        }
    }

    /// Removes a number that was added.
    pub fn remove(&mut self, number: Number) {
        let number = parts_of(number);
        let at = self.block_of(number);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(known) = block.position(number) else { return };
        block.numbers[known].1 -= 1;
        block.count -= 1;
        self.count -= 1;
        self.long_count -= usize::from(number.1 != 0);
        if block.numbers[known].1 == 0 {
            block.numbers.remove(known);
        }
        if block.count == 0 {
            self.blocks.remove(at);
        }
    }

    /// The block in which a number is or belongs.
    fn block_of(&self, number: LongNumber) -> usize {
        let starts_before =
            |block: &Block| block.numbers.first().is_some_and(|(first, _)| compare(*first, number).is_le());
        self.blocks.partition_point(starts_before).saturating_sub(1)
    }

    /// The value below which `percent` of the numbers lie; `None` without numbers.
    pub fn percentile(&self, percent: f64, method: PercentileMethod) -> Option<Number> {
        let rank = rank_of(f64_of(self.count), percent, method);
        value_between(rank, self.long_count > 0, |rank| self.at(integer_part(rank)))
    }

    /// The number at a rank from 0, or the last number.
    fn at(&self, rank: usize) -> Option<LongNumber> {
        let mut before = 0;
        for block in &self.blocks {
            if rank >= before + block.count {
                before += block.count;
                continue;
            }
            for (number, count) in &block.numbers {
                before += count;
                if rank < before {
                    return Some(*number);
                }
            }
        }
        self.blocks.last()?.numbers.last().map(|(number, _)| *number)
    }

    /// Bytes held, besides the value itself.
    pub fn bytes(&self) -> usize {
        let numbers: usize = self.blocks.iter().map(|block| block.numbers.capacity()).sum();
        self.blocks.capacity() * size_of::<Block>() + numbers * size_of::<(LongNumber, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::digest::Digest;
    use super::*;

    #[test]
    fn ascending_numbers_take_little_more_memory_than_their_entries() {
        const COUNT: i64 = 100_000;
        let mut ordered = OrderedNumbers::default();
        (0..COUNT).for_each(|number| ordered.add(Number::Int(number)));
        let entries = ordered.count * size_of::<(LongNumber, usize)>();
        assert!(ordered.bytes() < entries + entries / 4, "{} bytes", ordered.bytes());
    }

    #[test]
    fn percentiles_of_a_window_equal_those_of_its_numbers() {
        // Repeated numbers, fractions, negative numbers, both zeros and times with all their digits.
        let number = |at: i64| match at % 7 {
            0 => Number::Float(f64_of(at % 13) / 8.0),
            1 => Number::Int(-(at % 5)),
            2 => Number::Float(-0.0),
            3 if at > 4_000 => Number::Nanos(1_700_000_000_123_456_789 + at % 3),
            _ => Number::Int(at * 7_919 % 5_003),
        };
        const WINDOW: i64 = 3_000;
        let mut ordered = OrderedNumbers::default();
        assert_eq!(ordered.percentile(50.0, PercentileMethod::Interpolated), None);
        for at in 0..6_000 {
            ordered.add(number(at));
            if at >= WINDOW {
                ordered.remove(number(at - WINDOW));
            }
            assert!(ordered.blocks.iter().all(|block| !block.numbers.is_empty()));
            assert!(ordered.blocks.iter().all(|block| block.numbers.len() <= BLOCK_NUMBERS_MAX));
            if at % 500 != 499 {
                continue;
            }
            let mut digest = Digest::new(true);
            (at.saturating_sub(WINDOW - 1).max(0)..=at).for_each(|at| digest.add_number(number(at)));
            for percent in [0.0, 1.0, 33.3, 50.0, 95.0, 100.0] {
                for method in [PercentileMethod::NearestRank, PercentileMethod::Interpolated] {
                    let (found, expected) = (ordered.percentile(percent, method), digest.percentile(percent, method));
                    assert!(found == expected, "{percent} at {at}: {found:?}, not {expected:?}");
                }
            }
        }
        for at in 3_000..6_000 {
            ordered.remove(number(at));
        }
        assert_eq!((ordered.count, ordered.long_count, ordered.blocks.len()), (0, 0, 0));
    }
}
