//! The live buckets of some indexes that overlap a time range.
//!
//! A B-tree of first and last times alone does not bound this search: any older bucket may be long enough to reach into
//! the range. The index `bucket_by_span` therefore sorts the buckets of an index by the class of their span, and the
//! buckets of a class by time. All spans of a class are shorter than its limit, so only the buckets that begin less
//! than this limit before the range are read, once for each class. The limit grows by a factor of eight from class to
//! class: there are few classes and thus few descents into the B-tree, yet the spans in a class differ little in
//! length.
//!
//! The class is not a column but an expression that both databases evaluate, so it cannot contradict the times in its
//! row (docs/decisions/0073-finding-buckets-by-time.md).

use std::fmt::Write;
use std::sync::LazyLock;

use quarry_event::TimeRange;

use crate::transaction::{CatalogTransaction, StepResult, Value};
use crate::{Catalog, CatalogError};

/// Spans of class `i` are shorter than 2 to the power of `SPAN_BITS[i]`, plus 2, nanoseconds (8.6 s, 69 s, 9 minutes, …
/// 4.6 years). The 2 comes from comparing halves of times, whose difference cannot overflow. One more class has all
/// longer spans.
const SPAN_BITS: [u32; 9] = [33, 36, 39, 42, 45, 48, 51, 54, 57];
/// Numbers of index names for which there is a statement; few, so that all of these statements stay prepared.
const STATEMENT_NAME_COUNTS: [usize; 3] = [1, 8, 64];

/// The statement for each of [`STATEMENT_NAME_COUNTS`].
static STATEMENTS: LazyLock<[String; STATEMENT_NAME_COUNTS.len()]> =
    LazyLock::new(|| STATEMENT_NAME_COUNTS.map(statement));

/// The times of a live bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketSpan {
    /// Number of the bucket.
    pub number: u64,
    /// Smallest `_time`, nanoseconds.
    pub time_min: i64,
    /// Largest `_time`, nanoseconds.
    pub time_max: i64,
}

impl Catalog {
    /// The live buckets of these indexes that overlap `range`, ascending by number. Reads only the database index
    /// `bucket_by_span`, not the rows with their checksums.
    pub fn overlapping(&self, indexes: &[&str], range: &TimeRange) -> Result<Vec<BucketSpan>, CatalogError> {
        self.read(|act| overlapping(act, indexes, range))
    }
}

fn overlapping(act: &CatalogTransaction<'_>, indexes: &[&str], range: &TimeRange) -> StepResult<Vec<BucketSpan>> {
    let mut indexes = indexes.to_vec();
    indexes.sort_unstable();
    indexes.dedup();
    let Some(through) = last_instant(range) else { return Ok(Vec::new()) };
    let from = range.earliest.unwrap_or(i64::MIN);
    let lows = SPAN_BITS.map(|bits| from.saturating_sub((1 << bits) + 2));
    let mut found = Vec::new();
    let mut left = &indexes[..];
    while !left.is_empty() {
        let fitting = STATEMENT_NAME_COUNTS
            .iter()
            .position(|names| *names >= left.len())
            .unwrap_or(STATEMENT_NAME_COUNTS.len() - 1);
        let (now, later) = left.split_at(left.len().min(STATEMENT_NAME_COUNTS[fitting]));
        let mut values = vec![Value::Number(from), Value::Number(through)];
        values.extend(lows.map(Value::Number));
        values.extend(padded(now, STATEMENT_NAME_COUNTS[fitting]).map(|name| Value::Text(name)));
        found.extend(act.rows(&STATEMENTS[fitting], &values, |row| {
            Ok(BucketSpan { number: row.unsigned(0)?, time_min: row.take(1)?, time_max: row.take(2)? })
        })?);
        left = later;
    }
    found.sort_unstable();
    Ok(found)
}

/// The last instant before the end of the range; `None` if there is none.
fn last_instant(range: &TimeRange) -> Option<i64> {
    match range.latest {
        None => Some(i64::MAX),
        Some(latest) => latest.checked_sub(1),
    }
}

/// Pads `some` to `count` items by repeating the last one; repeated parameters cost nothing.
fn padded<T>(some: &[T], count: usize) -> impl Iterator<Item = &T> {
    some.iter().chain(some.last().into_iter().cycle()).take(count)
}

/// The SQL expression of a bucket's class, as in the index `bucket_by_span`.
fn class_sql() -> String {
    let mut class = "CASE".to_owned();
    for (number, bits) in SPAN_BITS.iter().enumerate() {
        let limit = 1_i64 << (bits - 1);
        let _infallible = write!(class, " WHEN time_max / 2 - time_min / 2 < {limit} THEN {number}");
    }
    class + &format!(" ELSE {} END", SPAN_BITS.len())
}

/// The statement for this many index names. Its parameters are, in this order: the first and the last instant of the
/// range; for each class but the last, the earliest start of a bucket that can reach into the range; the names.
fn statement(names: usize) -> String {
    let (class, names) = (class_sql(), placeholders(3 + SPAN_BITS.len(), names));
    let of_class = |number: usize| {
        let low = if number < SPAN_BITS.len() { format!(" AND time_min >= ?{}", 3 + number) } else { String::new() };
        format!(
            "SELECT number, time_min, time_max FROM bucket WHERE state = 1 AND index_name IN ({names}) \
             AND ({class}) = {number} AND time_min <= ?2{low} AND time_max >= ?1"
        )
    };
    (0..=SPAN_BITS.len()).map(of_class).collect::<Vec<_>>().join(" UNION ALL ")
}

/// `count` parameters from number `first` on.
fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The statement for one index name, for tests of the plans of databases.
    pub(crate) fn statement_of_one() -> &'static str {
        &STATEMENTS[0]
    }

    #[test]
    fn class_expression_matches_the_migrations() {
        let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let (class, sqlite) = (words(&class_sql()), crate::sqlite::schema::tests::last_migration());
        assert!(words(sqlite).contains(&class), "{sqlite}");
    }
}
