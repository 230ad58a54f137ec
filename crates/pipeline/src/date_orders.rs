//! The order of day and month in the dates of each source, as learned from its events and shared by the pipelines of
//! an input.
//!
//! Each rotated file and each request has its own pipeline, but its dates have the same order as those of earlier files
//! and requests. Numbers in paths are ignored, because dated logs have a new name every day. Orders are not stored:
//! after a restart, they are learned again.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;

use crate::recognise::DateOrder;

/// Maximum number of sources; with one more, all orders are forgotten.
const SOURCES_MAX: usize = 10_000;

/// Orders of dates by source.
#[derive(Debug, Default)]
pub struct DateOrders {
    orders: Mutex<HashMap<SourceKey, DateOrder, RandomState>>,
    hasher: RandomState,
}

/// Identity of a source: a hash of its name; if the name is a path, its digits are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SourceKey(u64);

impl DateOrders {
    pub(crate) fn key(&self, source: &str) -> SourceKey {
        let is_path = source.starts_with('/');
        let mut hasher = self.hasher.build_hasher();
        source.bytes().filter(|byte| !(is_path && byte.is_ascii_digit())).for_each(|byte| hasher.write_u8(byte));
        SourceKey(hasher.finish())
    }

    pub(crate) fn get(&self, source: SourceKey) -> Option<DateOrder> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).get(&source).copied()
    }

    pub(crate) fn record(&self, source: SourceKey, order: DateOrder) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.len() >= SOURCES_MAX && !orders.contains_key(&source) {
            orders.clear();
        }
        orders.insert(source, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished_except_for_numbers_in_paths() {
        let orders = DateOrders::default();
        orders.record(orders.key("/var/log/app-2026-11-05.log"), DateOrder::DayMonthYear);
        orders.record(orders.key("tcp:514"), DateOrder::MonthDayYear);
        let of = |source: &str| orders.get(orders.key(source));
        assert_eq!(of("/var/log/app-2026-12-01.log"), Some(DateOrder::DayMonthYear));
        assert_eq!((of("/var/log/web-2026-12-01.log"), of("tcp:515")), (None, None));
        assert_eq!(of("tcp:514"), Some(DateOrder::MonthDayYear));
    }

    #[test]
    fn the_number_of_sources_is_bounded() {
        let orders = DateOrders::default();
        (0..=SOURCES_MAX).for_each(|n| orders.record(orders.key(&format!("stream {n}")), DateOrder::DayMonthYear));
        assert_eq!(orders.orders.lock().unwrap().len(), 1);
        assert_eq!(orders.get(orders.key(&format!("stream {SOURCES_MAX}"))), Some(DateOrder::DayMonthYear));
    }
}
