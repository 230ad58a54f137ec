//! Index-time processing: decode, break, merge, timestamp; and the extraction rules of search time.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod extract;
