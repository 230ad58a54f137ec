//! Order of rows that a command holds in memory.
//!
//! Not here: sorts that spill ([`quarry_eval::rows::sort_rows`]).

use std::cmp::Ordering;

use quarry_eval::EngineError;
use quarry_eval::context::Stop;
use quarry_eval::rows::sort_cancellable;

/// The positions `0..count` in the order of `compare`; positions of equal rows in ascending order. A cancelled search
/// ends early.
pub(super) fn sorted_positions(
    count: usize,
    compare: impl Fn(usize, usize) -> Ordering,
    stop: &Stop,
) -> Result<Vec<usize>, EngineError> {
    let mut positions: Vec<usize> = (0..count).collect();
    sort_cancellable(&mut positions, |a, b| compare(*a, *b).then(a.cmp(b)), || stop.check_cancelled())?;
    Ok(positions)
}
